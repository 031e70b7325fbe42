/* grammar_int.h -- the automaton of a grammar: json_schema.c and tree.c build it, run.c runs it.
 *
 * Parts are built from their end: a builder takes the node that follows and returns the part's first
 * node. A rule is its own nodes, then RETURN, and is called wherever it is used. */
#ifndef SP_ENGINE_GRAMMAR_GRAMMAR_INT_H
#define SP_ENGINE_GRAMMAR_GRAMMAR_INT_H

#include "engine/grammar/grammar.h"

typedef enum sp_gram_kind {
    SP_GRAM_BYTE,  /* a byte lo .. hi, then next */
    SP_GRAM_SPLIT, /* next or alt */
    SP_GRAM_CALL,  /* the rule that begins at alt, then next */
    SP_GRAM_CHARS, /* min .. max characters of a JSON string, then next */
    SP_GRAM_RETURN,
} sp_gram_kind;

typedef struct sp_gram_node {
    sp_gram_kind kind;
    uint8_t lo, hi;
    int32_t next, alt;
    int32_t min, max; /* max -1: no limit */
} sp_gram_node;

enum {
    SP_GRAM_MAX_NODES = 1 << 18,
    SP_GRAM_MAX_STACK = 256, /* rules that a text may be in at once */
};

struct sp_grammar {
    SP_VEC(sp_gram_node) nodes;
    int32_t start;
    /* Bytes of one class have the same effect on every node (sp_gram_classify). */
    uint8_t class_of[256];
    int n_classes;
};

/* sp_gram_add -- appends a node. *err is the first error: nothing is added after it, and 0 is returned. */
int32_t sp_gram_add(sp_grammar *g, sp_gram_node n, sp_err *err);
/* sp_gram_jump -- a node that leads to `to`; if `to` is not known yet, sp_gram_lead sets it later. */
int32_t sp_gram_jump(sp_grammar *g, int32_t to, sp_err *err);
void sp_gram_lead(sp_grammar *g, int32_t jump, int32_t to, const sp_err *err);
/* sp_gram_check_stack -- checks that some text needs no more than SP_GRAM_MAX_STACK. Errors: SP_E_LIMIT. */
sp_err sp_gram_check_stack(const sp_grammar *g) SP_MUST_CHECK;
/* sp_gram_classify -- sets class_of and n_classes; called when all nodes are added. */
void sp_gram_classify(sp_grammar *g);

/* -- characters as bytes -------------------------------------------------------------------------- */

enum { SP_CHAR_TOP = 0x10FFFF };

typedef struct sp_char_range {
    uint32_t lo, hi; /* code points, both included */
} sp_char_range;

typedef struct sp_gram_out {
    sp_grammar *g;
    sp_err *err; /* the first error */
} sp_gram_out;

/* sp_gram_char_range -- nodes for one character of a range in UTF-8, or for the part at `at` (-1: none). Surrogates
 * are left out. sp_gram_json_range -- the same in a JSON string: control characters, quotes and backslashes are
 * escaped. */
int32_t sp_gram_char_range(sp_gram_out *m, sp_char_range r, int32_t at, int32_t next);
int32_t sp_gram_json_range(sp_gram_out *m, sp_char_range r, int32_t at, int32_t next);

/* -- JSON ------------------------------------------------------------------------------------------- */

/* sp_json_schema_build -- fills nodes and start: JSON of a schema, or one of several texts. */
sp_err sp_json_schema_build(json_t *schema, const sp_grammar_opts *o, sp_grammar *g) SP_MUST_CHECK;

/* sp_pattern_build -- appends a rule for the content of JSON strings that contain a match of a regular expression.
 * Anchors are those of the expression; characters are escaped as JSON requires. */
sp_err sp_pattern_build(const char *source, sp_grammar *g, int32_t *start) SP_MUST_CHECK;
/* sp_json_format -- the expression of a format of strings ("date"); "": any string; NULL: it is not supported. */
const char *sp_json_format(const char *name);

/* -- characters of JSON strings --------------------------------------------------------------------- */

enum { SP_CHAR_WHOLE, SP_CHAR_ESCAPE }; /* states of a character; others are within it */

/* sp_json_char -- the position after byte b; -1: b is not allowed. Escapes of surrogates (\uD800 to
 * \uDFFF) are not. */
int sp_json_char(int position, uint8_t b);

#endif
