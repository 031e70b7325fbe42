/* template_int.h -- the syntax tree and the values of chat templates.
 *
 *   text --lex.c--> tokens --parse.c, expr.c--> tree
 *   tree, input --run.c (statements), eval.c (expressions)--> text and spans
 *   values: value.c; texts with origins: text.c; names that templates can use:
 *   filters.c, tests.c, methods.c, format.c
 *
 * Values are immutable, except namespaces, and live in the arena of one rendering.
 */
#ifndef SP_MODEL_TEMPLATE_INT_H
#define SP_MODEL_TEMPLATE_INT_H

#include "model/template/template.h"

/* -- values ---------------------------------------------------------------------------------- */

/* Bytes from .. from + n of a string that come from the input. */
typedef struct sp_tpl_run {
    size_t from, n;
    int32_t source; /* index into the sources of the machine; -1: several */
    int64_t at;     /* offset in the source; -1: changed */
} sp_tpl_run;

typedef struct sp_tpl_str {
    const char *s;
    size_t n;
    const sp_tpl_run *runs; /* sorted, disjoint */
    size_t n_runs;
} sp_tpl_str;

typedef enum sp_tpl_kind {
    SP_TPL_UNDEFINED,
    SP_TPL_NONE,
    SP_TPL_BOOL,
    SP_TPL_INT,
    SP_TPL_FLOAT,
    SP_TPL_STRING,
    SP_TPL_LIST, /* and tuples */
    SP_TPL_DICT, /* and namespaces */
    SP_TPL_MACRO,
    SP_TPL_LOOP,
} sp_tpl_kind;

typedef struct sp_tpl_val {
    sp_tpl_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        const sp_tpl_str *s;
        const struct sp_tpl_list *list;
        struct sp_tpl_dict *dict;
        const struct sp_tpl_macro *macro;
        const struct sp_tpl_loop *loop;
    };
} sp_tpl_val;

typedef struct sp_tpl_list {
    sp_tpl_val *v;
    size_t n;
    bool tuple;
} sp_tpl_list;

typedef struct sp_tpl_pair {
    sp_tpl_val key; /* a string or an integer */
    sp_tpl_val value;
} sp_tpl_pair;

typedef struct sp_tpl_dict {
    sp_tpl_pair *v; /* in order of insertion */
    size_t n, cap;
    bool is_namespace;
} sp_tpl_dict;

typedef struct sp_tpl_loop {
    const sp_tpl_list *items;
    size_t i;
    int depth;
} sp_tpl_loop;

/* -- syntax ---------------------------------------------------------------------------------- */

typedef enum sp_tpl_token_kind {
    SP_TOKEN_DATA,
    SP_TOKEN_BLOCK,     /* {% */
    SP_TOKEN_BLOCK_END, /* %} */
    SP_TOKEN_PRINT,     /* {{ */
    SP_TOKEN_PRINT_END, /* }} */
    SP_TOKEN_NAME,
    SP_TOKEN_TEXT, /* a string literal, escapes resolved */
    SP_TOKEN_INT,
    SP_TOKEN_FLOAT,
    SP_TOKEN_OP,
    SP_TOKEN_EOF,
} sp_tpl_token_kind;

typedef struct sp_tpl_token {
    sp_tpl_token_kind kind;
    int line;
    const char *s;
    size_t n;
} sp_tpl_token;

typedef SP_VEC(sp_tpl_token) sp_tpl_tokens;

typedef enum sp_tpl_node_kind {
    /* expressions */
    SP_NODE_LITERAL,
    SP_NODE_NAME,
    SP_NODE_LIST,   /* list: items; tuple: op is 't' */
    SP_NODE_DICT,   /* list: key, value, key, value ... */
    SP_NODE_ATTR,   /* a.text */
    SP_NODE_ITEM,   /* a[b] */
    SP_NODE_SLICE,  /* a[b:c:d], each may be NULL */
    SP_NODE_CALL,   /* a(list) */
    SP_NODE_METHOD, /* a.fn(list) */
    SP_NODE_FILTER, /* a | fn(list) */
    SP_NODE_TEST,   /* a is fn(list) */
    SP_NODE_NOT,
    SP_NODE_NEGATE,
    SP_NODE_BINARY, /* a op b */
    SP_NODE_AND,
    SP_NODE_OR,
    SP_NODE_IF_ELSE, /* b if a else c */
    SP_NODE_ARG,     /* a, with `text` as its name or without one; op '*': the items of a, in a macro call */
    /* statements */
    SP_NODE_DATA,
    SP_NODE_PRINT,
    SP_NODE_FOR,       /* for target in a if b: list, else other */
    SP_NODE_IF,        /* if a: list, else other */
    SP_NODE_SET,       /* target = a */
    SP_NODE_SET_BLOCK, /* target = what list prints */
    SP_NODE_MACRO,     /* text: list; target: parameters, each an ARG with its default in a */
    SP_NODE_BREAK,
    SP_NODE_CONTINUE,
} sp_tpl_node_kind;

/* Operators of SP_NODE_BINARY that have more than one character. */
enum { SP_OP_EQ = 256, SP_OP_NE, SP_OP_LE, SP_OP_GE, SP_OP_IN, SP_OP_FLOOR };

typedef struct sp_tpl_node {
    sp_tpl_node_kind kind;
    int op, line;
    sp_tpl_str text;
    sp_tpl_val value;
    const struct sp_tpl_function *fn;
    struct sp_tpl_node *a, *b, *c, *d;
    struct sp_tpl_node *list, *other, *target;
    struct sp_tpl_node *next; /* of the list that holds this node */
} sp_tpl_node;

struct sp_template {
    sp_arena arena;
    sp_tpl_node *body;
    sp_tpl_tokens tokens; /* texts are in the arena */
};

typedef struct sp_tpl_parser {
    sp_template *t;
    size_t at;
    int depth, loops;
    bool conditional;           /* in an "if", without a loop, macro or block in between */
    const sp_tpl_node *unknown; /* the first filter or test outside of conditions that does not exist; NULL: none */
} sp_tpl_parser;

/* sp_tpl_lex -- fills t->tokens; the last one is SP_TOKEN_EOF. */
sp_err sp_tpl_lex(sp_template *t, const char *text, size_t n) SP_MUST_CHECK;
sp_err sp_tpl_parse_expression(sp_tpl_parser *p, sp_tpl_node **out) SP_MUST_CHECK;
/* sp_tpl_parse_tuple -- one expression, or several with commas, which make a tuple. */
sp_err sp_tpl_parse_tuple(sp_tpl_parser *p, sp_tpl_node **out) SP_MUST_CHECK;
/* sp_tpl_parse_or -- an expression without "if"; sp_tpl_parse_primary -- a name, literal or bracket. */
sp_err sp_tpl_parse_or(sp_tpl_parser *p, sp_tpl_node **out) SP_MUST_CHECK;

sp_err sp_tpl_node_new(sp_tpl_parser *p, sp_tpl_node_kind kind, sp_tpl_node **out) SP_MUST_CHECK;
const sp_tpl_token *sp_tpl_peek(const sp_tpl_parser *p);
bool sp_tpl_is(const sp_tpl_parser *p, sp_tpl_token_kind kind, const char *text);
bool sp_tpl_accept(sp_tpl_parser *p, sp_tpl_token_kind kind, const char *text);
sp_err sp_tpl_expect(sp_tpl_parser *p, sp_tpl_token_kind kind, const char *text) SP_MUST_CHECK;
sp_err sp_tpl_enter(sp_tpl_parser *p) SP_MUST_CHECK;
static inline void sp_tpl_leave(sp_tpl_parser *p)
{
    p->depth--;
}

/* -- rendering ------------------------------------------------------------------------------- */

typedef struct sp_tpl_source {
    sp_template_origin origin;
    int index;
    const char *path;
} sp_tpl_source;

/* A text being written. */
typedef struct sp_tpl_writer {
    char *s;
    size_t n, cap;
    sp_tpl_run *runs;
    size_t n_runs, cap_runs;
} sp_tpl_writer;

typedef struct sp_tpl_variable {
    const char *name;
    size_t n;
    sp_tpl_val value;
    struct sp_tpl_variable *next;
} sp_tpl_variable;

typedef struct sp_tpl_scope {
    sp_tpl_variable *first;
    struct sp_tpl_scope *parent;
} sp_tpl_scope;

typedef struct sp_tpl_macro {
    const sp_tpl_node *node;
    sp_tpl_scope *scope;
} sp_tpl_macro;

typedef struct sp_tpl_machine {
    sp_arena arena;
    size_t bytes_left;
    int64_t steps_left;
    int depth, line, loop_depth;
    int64_t now;
    sp_tpl_source *sources;
    size_t n_sources, cap_sources;
    sp_tpl_scope *scope;
    sp_tpl_writer *out;
} sp_tpl_machine;

enum { SP_TPL_MAX_ARGS = 8, SP_TPL_MAX_DEPTH = 160 };

/* Arguments of a filter, test or method, in the order of
 * its parameters; `given` tells which are present. */
typedef struct sp_tpl_call {
    sp_tpl_val self, args[SP_TPL_MAX_ARGS];
    bool given[SP_TPL_MAX_ARGS];
} sp_tpl_call;

typedef struct sp_tpl_function {
    const char *name;
    sp_err (*run)(sp_tpl_machine *m, const sp_tpl_call *c, sp_tpl_val *out);
    const char *params[5]; /* names, the last is NULL */
    int n_required;
    unsigned self; /* kinds that it works on, as bits; 0: all */
} sp_tpl_function;

const sp_tpl_function *sp_tpl_find_filter(const char *name, size_t n);
const sp_tpl_function *sp_tpl_find_test(const char *name, size_t n);
/* sp_tpl_find_method -- the method of this name for values of this kind. */
const sp_tpl_function *sp_tpl_find_method(const char *name, size_t n, sp_tpl_kind kind);
const sp_tpl_function *sp_tpl_find_in(const sp_tpl_function *table, const char *name, size_t n);

/* sp_tpl_fail -- an error with the line that is being evaluated. */
sp_err sp_tpl_fail(const sp_tpl_machine *m, sp_err code, const char *fmt, ...) SP_PRINTF(3, 4);
/* sp_tpl_step -- counts one step. */
sp_err sp_tpl_step(sp_tpl_machine *m) SP_MUST_CHECK;
/* sp_tpl_work -- counts steps in proportion to the size of v. */
sp_err sp_tpl_work(sp_tpl_machine *m, sp_tpl_val v) SP_MUST_CHECK;
sp_err sp_tpl_deeper(sp_tpl_machine *m) SP_MUST_CHECK;
sp_err sp_tpl_take(sp_tpl_machine *m, size_t n, size_t size, void *out) SP_MUST_CHECK;

sp_err sp_tpl_eval(sp_tpl_machine *m, const sp_tpl_node *node, sp_tpl_val *out) SP_MUST_CHECK;
sp_err sp_tpl_call_macro(sp_tpl_machine *m, const sp_tpl_macro *macro, const sp_tpl_node *args,
                         sp_tpl_val *out) SP_MUST_CHECK;
/* sp_tpl_is_global -- whether a function has this name; as a value it is a macro without a node. */
bool sp_tpl_is_global(const char *name, size_t n);
sp_err sp_tpl_call_global(sp_tpl_machine *m, const sp_tpl_node *call,
                          sp_tpl_val *out) SP_MUST_CHECK;
sp_err sp_tpl_set(sp_tpl_machine *m, const char *name, size_t n, sp_tpl_val v) SP_MUST_CHECK;
sp_tpl_variable *sp_tpl_get(const sp_tpl_machine *m, const char *name, size_t n);
sp_err sp_tpl_bind(sp_tpl_machine *m, const sp_tpl_function *f, const sp_tpl_node *args,
                   sp_tpl_call *c) SP_MUST_CHECK;

/* values */
#define SP_TPL_UNDEF ((sp_tpl_val){.kind = SP_TPL_UNDEFINED})
static inline sp_tpl_val sp_tpl_bool(bool b)
{
    return (sp_tpl_val){.kind = SP_TPL_BOOL, .b = b};
}
static inline sp_tpl_val sp_tpl_int(int64_t i)
{
    return (sp_tpl_val){.kind = SP_TPL_INT, .i = i};
}
static inline bool sp_tpl_number(sp_tpl_val v)
{
    return v.kind == SP_TPL_INT || v.kind == SP_TPL_FLOAT || v.kind == SP_TPL_BOOL;
}
bool sp_tpl_true(sp_tpl_val v);
const char *sp_tpl_kind_name(sp_tpl_val v);
sp_err sp_tpl_equal(sp_tpl_machine *m, sp_tpl_val a, sp_tpl_val b, bool *out) SP_MUST_CHECK;
/* sp_tpl_compare -- < 0, 0, > 0; numbers and strings only. */
sp_err sp_tpl_compare(sp_tpl_machine *m, sp_tpl_val a, sp_tpl_val b, int *out) SP_MUST_CHECK;
sp_err sp_tpl_contains(sp_tpl_machine *m, sp_tpl_val in, sp_tpl_val what, bool *out) SP_MUST_CHECK;
sp_err sp_tpl_list_new(sp_tpl_machine *m, size_t n, sp_tpl_list **out) SP_MUST_CHECK;
static inline sp_tpl_val sp_tpl_of_list(const sp_tpl_list *l)
{
    return (sp_tpl_val){.kind = SP_TPL_LIST, .list = l};
}
sp_err sp_tpl_dict_new(sp_tpl_machine *m, sp_tpl_dict **out) SP_MUST_CHECK;
static inline sp_tpl_val sp_tpl_of_str(const sp_tpl_str *s)
{
    return (sp_tpl_val){.kind = SP_TPL_STRING, .s = s};
}
/* sp_tpl_dict_put -- key: a string or an integer. */
sp_err sp_tpl_dict_put(sp_tpl_machine *m, sp_tpl_dict *d, sp_tpl_val key, sp_tpl_val v) SP_MUST_CHECK;
/* sp_tpl_dict_get -- the value of a key of any kind; NULL: there is none. */
const sp_tpl_val *sp_tpl_dict_get(const sp_tpl_dict *d, sp_tpl_val key);
/* sp_tpl_attribute -- v.name or v['name']; undefined if there is none. */
sp_err sp_tpl_attribute(sp_tpl_machine *m, sp_tpl_val v, const char *name, size_t n,
                        sp_tpl_val *out) SP_MUST_CHECK;
/* sp_tpl_items -- the items that a loop over v visits; those of a string are its characters. */
sp_err sp_tpl_items(sp_tpl_machine *m, sp_tpl_val v, const sp_tpl_list **out) SP_MUST_CHECK;
/* sp_tpl_from_json -- path: of j in the input. */
sp_err sp_tpl_from_json(sp_tpl_machine *m, json_t *j, const char *path,
                        sp_tpl_val *out) SP_MUST_CHECK;

/* texts (offsets in bytes) */
sp_err sp_tpl_str_new(sp_tpl_machine *m, sp_tpl_str s, sp_tpl_val *out) SP_MUST_CHECK;
/* sp_tpl_slice -- bytes from .. to, with their origins; shares the bytes. */
sp_err sp_tpl_slice(sp_tpl_machine *m, const sp_tpl_str *s, size_t from, size_t to,
                    sp_tpl_val *out) SP_MUST_CHECK;
/* sp_tpl_write -- appends with origins; sp_tpl_write_plain -- as template text; sp_tpl_write_value --
 * what {{ v }} prints. */
sp_err sp_tpl_write(sp_tpl_machine *m, sp_tpl_writer *w, const sp_tpl_str *s) SP_MUST_CHECK;
sp_err sp_tpl_write_plain(sp_tpl_machine *m, sp_tpl_writer *w, const char *s,
                          size_t n) SP_MUST_CHECK;
sp_err sp_tpl_write_value(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v) SP_MUST_CHECK;
sp_err sp_tpl_written(sp_tpl_machine *m, const sp_tpl_writer *w, sp_tpl_val *out) SP_MUST_CHECK;
sp_err sp_tpl_to_string(sp_tpl_machine *m, sp_tpl_val v, sp_tpl_val *out) SP_MUST_CHECK;
sp_err sp_tpl_replace(sp_tpl_machine *m, const sp_tpl_str *s, const sp_tpl_str *old,
                      const sp_tpl_str *with, int64_t count, sp_tpl_val *out) SP_MUST_CHECK;
/* sp_tpl_text_argument -- argument i of a call, which must be a string; NULL: not given, or none. */
sp_err sp_tpl_text_argument(sp_tpl_machine *m, const sp_tpl_call *c, int i, const sp_tpl_str **out) SP_MUST_CHECK;

/* sp_tpl_strip -- sides: 1 left, 2 right, 3 both; chars NULL: white space. */
sp_err sp_tpl_strip(sp_tpl_machine *m, const sp_tpl_str *s, const sp_tpl_str *chars, int sides,
                    sp_tpl_val *out) SP_MUST_CHECK;
sp_err sp_tpl_split(sp_tpl_machine *m, const sp_tpl_str *s, const sp_tpl_str *sep, int64_t max,
                    sp_tpl_val *out) SP_MUST_CHECK;
/* sp_tpl_case -- 'u' upper, 'l' lower, 't' title, 'c' capitalize; ASCII letters only. */
sp_err sp_tpl_case(sp_tpl_machine *m, const sp_tpl_str *s, char how, sp_tpl_val *out) SP_MUST_CHECK;
size_t sp_tpl_length(const sp_tpl_str *s);           /* in characters */
size_t sp_tpl_offset(const sp_tpl_str *s, size_t i); /* byte of character i */
size_t sp_tpl_space(const char *s, size_t n); /* bytes of the white space that s begins with */
const char *sp_tpl_search(const char *s, size_t n, const char *what, size_t n_what);
/* sp_tpl_format -- s.format(args): fields are {}, {0} and {name}, with !s or !r. */
sp_err sp_tpl_format(sp_tpl_machine *m, const sp_tpl_str *s, const sp_tpl_node *args, sp_tpl_val *out) SP_MUST_CHECK;
sp_err sp_tpl_write_repr(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v) SP_MUST_CHECK;

/* How json.dumps lays out a value. */
typedef struct sp_tpl_json {
    const sp_tpl_str *indent; /* of a level; NULL: all in one line */
    sp_tpl_str comma, colon;
    bool ascii, sorted;
} sp_tpl_json;

sp_err sp_tpl_write_json(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v, const sp_tpl_json *how) SP_MUST_CHECK;
sp_err sp_tpl_write_number(sp_tpl_machine *m, sp_tpl_writer *w, sp_tpl_val v) SP_MUST_CHECK;

#endif
