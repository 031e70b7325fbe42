/* tree.h -- a syntax tree of expressions over characters: GBNF (gbnf.c) and regular expressions (regex.c)
 * are parsed into it, and tree.c makes an automaton of it.
 *
 * Nodes are numbers. Sequences and alternatives are binary and lean to the left, so that walks over
 * long ones loop instead of recursing; SP_TREE_MAX_DEPTH bounds the rest. */
#ifndef SP_ENGINE_GRAMMAR_TREE_H
#define SP_ENGINE_GRAMMAR_TREE_H

#include "engine/grammar/grammar_int.h"

enum {
    SP_TREE_MAX_DEPTH = 64, /* of groups in groups */
    SP_TREE_MAX_NODES = 1 << 17,
    SP_TREE_MAX_RULES = 512,
    SP_TREE_MAX_REPEAT = 2000,
    SP_TREE_MAX_SOURCE = 1 << 18, /* bytes */
};

typedef enum sp_tree_kind {
    SP_TREE_EMPTY,
    SP_TREE_SET,    /* one character of [n_ranges] ranges */
    SP_TREE_SEQ,    /* one, then two */
    SP_TREE_ALT,    /* one or two */
    SP_TREE_REPEAT, /* one, min .. max times; max -1: no limit */
    SP_TREE_RULE,   /* rule number `one` */
} sp_tree_kind;

typedef struct sp_grammar_node {
    sp_tree_kind kind;
    int32_t one, two;
    int32_t min, max;
    int32_t ranges, n_ranges; /* SP_TREE_SET: of sp_tree.ranges */
    bool nullable;            /* it may be empty; sp_tree_compile finds it */
} sp_grammar_node;

typedef struct sp_tree_rule {
    const char *name; /* [n_name], of the source */
    size_t n_name;
    int32_t body; /* -1: not defined yet */
} sp_tree_rule;

typedef struct sp_tree {
    const char *what;   /* of errors: "grammar", "regex", "pattern" */
    bool in_json;       /* it describes the content of a JSON string, in which it is searched for */
    const char *source; /* [n] */
    size_t n, at;       /* at: the next byte to parse */
    SP_VEC(sp_grammar_node) nodes;
    SP_VEC(sp_char_range) ranges;
    SP_VEC(sp_tree_rule) rules; /* [0] is where the text begins */
    int depth;
    sp_err err; /* the first error; functions do nothing after it */
} sp_tree;

sp_err sp_tree_init(sp_tree *t, const char *what, const char *source) SP_MUST_CHECK;
void sp_tree_fini(sp_tree *t);

/* sp_tree_fail -- an error at byte `at` of the source, with its line and column. */
void sp_tree_fail(sp_tree *t, sp_err code, size_t at, const char *why, const char *name,
                  size_t n_name);

int32_t sp_tree_add(sp_tree *t, sp_grammar_node n);
int32_t sp_tree_seq(sp_tree *t, int32_t one, int32_t two); /* one -1: two */
int32_t sp_tree_alt(sp_tree *t, int32_t one, int32_t two);
int32_t sp_tree_repeat(sp_tree *t, int32_t one, int32_t min, int32_t max);
/* sp_tree_set -- of the ranges from number `first`; negated: all other characters. Surrogates are
 * characters of no set. */
int32_t sp_tree_set(sp_tree *t, size_t first, bool negated);
void sp_tree_range(sp_tree *t, uint32_t lo, uint32_t hi);
/* sp_tree_char -- reads a character of the source. */
uint32_t sp_tree_char(sp_tree *t);
/* sp_tree_hex -- reads exactly n digits. */
uint32_t sp_tree_hex(sp_tree *t, int n);
/* sp_tree_bounds -- reads "{m}", "{m,}", "{m,n}" or "{,n}". */
void sp_tree_bounds(sp_tree *t, int32_t *min, int32_t *max);
int sp_tree_peek(const sp_tree *t); /* the next byte; -1: there is none */

/* sp_tree_compile -- appends nodes to an automaton; *start is where its first rule begins. Errors: SP_E_ARG (a rule
 * that refers to itself before it reads a character), SP_E_LIMIT, SP_E_NOMEM. */
sp_err sp_tree_compile(sp_tree *t, sp_grammar *g, int32_t *start) SP_MUST_CHECK;

/* GBNF, as llama.cpp has it. */
sp_err sp_gbnf_build(const char *source, sp_grammar *g) SP_MUST_CHECK;
/* sp_pattern_parse -- the expression of sp_pattern_build as a tree: rule 0. Owns: sp_tree_fini, also after an
 * error. */
sp_err sp_pattern_parse(const char *source, sp_tree *t) SP_MUST_CHECK;
/* The whole text matches a regular expression. */
sp_err sp_regex_build(const char *source, sp_grammar *g) SP_MUST_CHECK;

#endif
