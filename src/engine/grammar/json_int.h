/* json_int.h -- shared by the builders of JSON schemas: json_schema.c, json_merge.c and one file a type.
 *
 * Builders take the node that follows and return the first node of their part, or SP_JSON_NOTHING: no text is
 * valid. A part that contains NOTHING is NOTHING, except for alternatives. After the first error they do nothing. */
#ifndef SP_ENGINE_GRAMMAR_JSON_INT_H
#define SP_ENGINE_GRAMMAR_JSON_INT_H

#include "engine/grammar/grammar_int.h"

enum { SP_JSON_NOTHING = -1, SP_JSON_MAX_VALUES = 20000 };

typedef struct sp_json_rule {
    json_t *schema;
    int32_t start;
    bool nothing;
} sp_json_rule;

typedef struct sp_json {
    sp_grammar *g;
    json_t *root;
    SP_VEC(sp_json_rule) rules;
    SP_VEC(char) path;
    json_t *any, *any_object,
        *made; /* {}, {"type": "object"}, a list of schemas that merging made */
    int32_t space, ret;
    int depth;
    int64_t work;      /* of its patterns (lang.h) */
    char nothing[200]; /* why the first NOTHING has no valid text */
    sp_err err;        /* the first error */
} sp_json;

int32_t sp_json_fail(sp_json *b, sp_err code, const char *what, const char *name);
/* sp_json_contradict -- returns NOTHING, and records the reason of the first. */
int32_t sp_json_contradict(sp_json *b, const char *why);
/* sp_json_enter -- appends a name to the path; sp_json_leave takes its result. */
size_t sp_json_enter(sp_json *b, const char *name);
void sp_json_leave(sp_json *b, size_t mark);

/* -- nodes (json_schema.c) -- */
int32_t sp_json_range(sp_json *b, char lo, char hi, int32_t next);
int32_t sp_json_either(sp_json *b, int32_t one, int32_t other);
int32_t sp_json_call(sp_json *b, int32_t start, int32_t next);
int32_t sp_json_text(sp_json *b, const char *s, int32_t next);
/* sp_json_spaced -- white space, then next. */
int32_t sp_json_spaced(sp_json *b, int32_t next);
/* sp_json_choice -- one of n texts; sorts them. */
int32_t sp_json_choice(sp_json *b, const char **texts, size_t n, int32_t next);

/* -- schemas (json_schema.c) -- */
/* sp_json_use -- a value of a schema, which becomes a rule; _at: with a name in the path. */
int32_t sp_json_use(sp_json *b, json_t *schema, int32_t next);
int32_t sp_json_use_at(sp_json *b, const char *name, json_t *schema, int32_t next);
/* sp_json_bound -- a keyword that is a count. */
int32_t sp_json_bound(sp_json *b, json_t *schema, const char *name, int32_t absent);
/* sp_json_values -- the values of an enumeration, or of a type with few values; owned; NULL: not such a schema. */
json_t *sp_json_values(sp_json *b, json_t *schema);

/* -- types -- */
int32_t sp_json_object(sp_json *b, json_t *schema, int32_t next);
int32_t sp_json_array(sp_json *b, json_t *schema, int32_t next);
int32_t sp_json_string(sp_json *b, json_t *schema, int32_t next);
int32_t sp_json_number(sp_json *b, json_t *schema, bool integer, int32_t next);

/* sp_json_framed -- the root's JSON with the texts of *o around it, once or several times (json_calls.c). */
int32_t sp_json_framed(sp_json *b, const sp_grammar_opts *o);

/* sp_json_digits -- whole numbers lo .. hi without a sign that leave `rest` of `m`: 0 is for m 1. */
int32_t sp_json_digits(sp_json *b, uint64_t lo, uint64_t hi, uint64_t m, int32_t next);

/* -- merging (json_merge.c) -- */
/* sp_json_expand -- a list of schemas without $ref, allOf, anyOf, oneOf, const and nullable: a value is valid if
 * one of them holds. Owned. */
json_t *sp_json_expand(sp_json *b, json_t *schema);
/* sp_json_all_of -- a schema for the values of both; NULL: any. Borrowed from `made`. */
json_t *sp_json_all_of(sp_json *b, json_t *one, json_t *other);
/* sp_json_keep -- takes ownership of a schema and returns it, or an equal one that is known. Borrowed. */
json_t *sp_json_keep(sp_json *b, json_t *schema);
/* sp_json_resolve -- the schema that "#/a/b" names. */
json_t *sp_json_resolve(sp_json *b, json_t *ref);
/* sp_json_is_alone -- whether a schema has this keyword, and beside it only annotations. */
bool sp_json_is_alone(json_t *schema, const char *keyword);
/* sp_json_strip -- removes annotations. */
void sp_json_strip(json_t *schema);
/* sp_json_check -- refuses unknown keywords. */
void sp_json_check(sp_json *b, json_t *schema);
/* sp_json_matches -- whether a pattern is found in a name. */
bool sp_json_matches(sp_json *b, const char *pattern, const char *name);

#endif
