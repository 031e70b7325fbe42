/* json_merge.c -- schemas that hold together: allOf, and keywords beside $ref, anyOf and oneOf.
 *
 * expand() turns a schema into alternatives without these keywords; those of two schemas that must both hold are
 * merged pair by pair, keyword by keyword. Pairs that contradict each other are left out. What merging makes is kept
 * in `made`, equal schemas once, so that recursive schemas end. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/json_int.h"

enum { MAX_ALTERNATIVES = 256, MAX_DEPTH = 64 };

/* -- keywords ------------------------------------------------------------------------------------------ */

static const char *const annotations[] = {"title",
                                          "description",
                                          "default",
                                          "examples",
                                          "example",
                                          "$schema",
                                          "$id",
                                          "$comment",
                                          "deprecated",
                                          "readOnly",
                                          "writeOnly",
                                          "strict",
                                          "name",
                                          "discriminator",
                                          "externalDocs",
                                          "xml",
                                          "contentMediaType",
                                          "contentEncoding",
                                          "contentSchema",
                                          "$defs",
                                          "definitions",
                                          "$anchor",
                                          "$vocabulary"};

static const char *const known[] = {"type",
                                    "properties",
                                    "required",
                                    "additionalProperties",
                                    "items",
                                    "minItems",
                                    "maxItems",
                                    "minLength",
                                    "maxLength",
                                    "pattern",
                                    "format",
                                    "enum",
                                    "const",
                                    "anyOf",
                                    "oneOf",
                                    "allOf",
                                    "$ref",
                                    "minimum",
                                    "maximum",
                                    "exclusiveMinimum",
                                    "exclusiveMaximum",
                                    "multipleOf",
                                    "uniqueItems",
                                    "prefixItems",
                                    "additionalItems",
                                    "minProperties",
                                    "maxProperties",
                                    "patternProperties",
                                    "propertyNames",
                                    "unevaluatedProperties",
                                    "nullable",
                                    " pattern",
                                    " format" /* lists, which merging makes */};

static bool is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0) return true;
    return false;
}

static bool is_annotation(const char *name)
{
    return strncmp(name, "x-", 2) == 0 || is_one_of(name, annotations, SP_COUNT(annotations));
}

bool sp_json_is_alone(json_t *schema, const char *keyword)
{
    const char *name;
    json_t *value;
    bool alone = json_object_get(schema, keyword) != NULL;
    json_object_foreach(schema, name, value) alone =
        alone && (is_annotation(name) || strcmp(name, keyword) == 0);
    return alone;
}

void sp_json_strip(json_t *schema)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe(schema, next, name, value)
    {
        if (is_annotation(name)) json_object_del(schema, name);
    }
}

void sp_json_check(sp_json *b, json_t *schema)
{
    const char *name;
    json_t *value;
    json_object_foreach(schema, name, value)
    {
        bool refused = strcmp(name, "unevaluatedProperties") == 0 && !json_is_boolean(value);
        if (refused || (!is_annotation(name) && !is_one_of(name, known, SP_COUNT(known))))
            sp_json_fail(b, SP_E_UNSUPPORTED, "unsupported keyword", name);
    }
}

/* decode_percent -- "%5B" becomes "[", in place: $ref is a URI, whose fragment may be encoded. */
static void decode_percent(char *s)
{
    char *to = s;
    for (; *s; s++) {
        bool is_code = *s == '%' && isxdigit((unsigned char)s[1]) && isxdigit((unsigned char)s[2]);
        char code[3] = {is_code ? s[1] : 0, is_code ? s[2] : 0, 0};
        *to++ = is_code ? (char)strtol(code, NULL, 16) : *s;
        s += is_code ? 2 : 0;
    }
    *to = 0;
}

/* member_of -- what a part of a reference names: a name as it is or decoded, or an index. Changes `part`. */
static json_t *member_of(json_t *at, char *part)
{
    json_t *as_it_is = json_object_get(at, part);
    if (as_it_is) return as_it_is;
    if (!json_is_array(at)) {
        decode_percent(part);
        return json_object_get(at, part);
    }
    char *end;
    unsigned long i = strtoul(part, &end, 10);
    return isdigit((unsigned char)*part) && !*end ? json_array_get(at, i) : NULL;
}

json_t *sp_json_resolve(sp_json *b, json_t *name)
{
    const char *ref = json_string_value(name), *all = ref;
    json_t *at = b->root;
    if (!ref || *ref != '#') at = NULL;
    for (ref = ref ? ref + 1 : ""; at && *ref == '/';) {
        char part[256];
        size_t n = 0;
        for (ref++; *ref && *ref != '/' && n + 1 < sizeof part; ref++) {
            bool escaped = *ref == '~' && (ref[1] == '0' || ref[1] == '1');
            part[n++] = escaped ? (ref[1] == '0' ? '~' : '/') : *ref;
            ref += escaped;
        }
        part[n] = 0;
        at = member_of(at, part);
    }
    if (at && !*ref) return at;
    sp_json_fail(b, SP_E_ARG, "$ref names nothing:", all ? all : "");
    return b->any;
}

/* -- what is kept ---------------------------------------------------------------------------------------- */

static void no_memory(sp_json *b)
{
    sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
}

json_t *sp_json_keep(sp_json *b, json_t *schema)
{
    for (size_t i = 0; schema && i < json_array_size(b->made); i++)
        if (json_equal(json_array_get(b->made, i), schema)) {
            json_decref(schema);
            return json_array_get(b->made, i);
        }
    if (!schema || json_array_append_new(b->made, schema) != 0) return no_memory(b), NULL;
    return schema;
}

json_t *sp_json_all_of(sp_json *b, json_t *one, json_t *other)
{
    if (!one || !other || json_equal(one, other)) return one ? one : other;
    return sp_json_keep(b, json_pack("{s:[O,O]}", "allOf", one, other));
}

/* -- merging two schemas ------------------------------------------------------------------------------------ */

typedef struct merge {
    sp_json *b;
    json_t *out;   /* a copy of one, which becomes both */
    json_t *other; /* borrowed */
    bool nothing;
} merge;

static void set(merge *m, const char *name, json_t *owned)
{
    if (!owned || json_object_set_new(m->out, name, owned) != 0) no_memory(m->b);
}

static bool covers(const char *wide, const char *narrow)
{
    return strcmp(wide, narrow) == 0 ||
           (strcmp(wide, "number") == 0 && strcmp(narrow, "integer") == 0);
}

/* add_common -- the types of list `a` that one of `b` covers. */
static void add_common(json_t *out, json_t *a, json_t *b)
{
    for (size_t i = 0; i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++) {
            const char *x = json_string_value(json_array_get(a, i)),
                       *y = json_string_value(json_array_get(b, k));
            bool there = false;
            for (size_t j = 0; j < json_array_size(out); j++)
                there = there || json_equal(json_array_get(out, j), json_array_get(a, i));
            if (x && y && !there && covers(y, x)) json_array_append(out, json_array_get(a, i));
        }
}

static json_t *as_list(json_t *v)
{
    return json_is_array(v) ? json_incref(v) : json_pack("[O]", v);
}

static void merge_types(merge *m, json_t *x, json_t *y)
{
    json_t *a = as_list(x), *b = as_list(y), *out = json_array();
    add_common(out, a, b);
    add_common(out, b, a);
    m->nothing = m->nothing || json_array_size(out) == 0;
    set(m, "type", out);
    json_decref(a);
    json_decref(b);
}

/* merge_bounds -- the larger of two (sign 1) or the smaller (-1). */
static void merge_bounds(merge *m, const char *name, json_t *x, json_t *y, int sign)
{
    if (sign * (json_number_value(y) - json_number_value(x)) > 0) set(m, name, json_incref(y));
}

static void merge_multiples(merge *m, json_t *x, json_t *y)
{
    double a = json_number_value(x), b = json_number_value(y), r = a, s = b;
    if (!(a > 0 && b > 0 && a == floor(a) && b == floor(b) && a <= 1e7 && b <= 1e7)) {
        sp_json_fail(m->b, SP_E_UNSUPPORTED, "multipleOf", "is not a whole number up to 10000");
        return;
    }
    while (s > 0) {
        double t = fmod(r, s);
        r = s;
        s = t;
    }
    set(m, "multipleOf", json_integer((json_int_t)(a / r * b)));
}

static void merge_enums(merge *m, json_t *x, json_t *y)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(x); i++)
        for (size_t k = 0; k < json_array_size(y); k++)
            if (json_equal(json_array_get(x, i), json_array_get(y, k))) {
                json_array_append(out, json_array_get(x, i));
                break;
            }
    m->nothing = m->nothing || json_array_size(out) == 0;
    set(m, "enum", out);
}

/* merge_lists -- all of both, each once. */
static void merge_lists(merge *m, const char *name, json_t *x, json_t *y)
{
    json_t *out = json_copy(x);
    for (size_t i = 0; i < json_array_size(y); i++) {
        bool there = false;
        for (size_t k = 0; k < json_array_size(out) && !there; k++)
            there = json_equal(json_array_get(out, k), json_array_get(y, i));
        if (!there) json_array_append(out, json_array_get(y, i));
    }
    set(m, name, out);
}

/* -- objects and arrays -------------------------------------------------------------------------------------- */

/* undeclared -- the schema for a property that is not declared; NULL: any value. */
static json_t *undeclared(merge *m, json_t *schema, const char *name)
{
    const char *pattern;
    json_t *value;
    json_object_foreach(json_object_get(schema, "patternProperties"), pattern, value)
    {
        if (sp_json_matches(m->b, pattern, name)) return NULL; /* that pattern is kept */
    }
    json_t *more = json_object_get(schema, "additionalProperties");
    return json_is_true(more) ? NULL : more;
}

/* merge_properties -- all of both; `one` is what m->out was. */
static void merge_properties(merge *m, json_t *one)
{
    json_t *x = json_object_get(one, "properties"), *y = json_object_get(m->other, "properties");
    json_t *out = json_object(), *value;
    const char *name;
    if (!out) {
        no_memory(m->b);
        return;
    }
    json_object_foreach(x, name, value)
    {
        json_t *its = json_object_get(y, name);
        json_t *both = sp_json_all_of(m->b, value, its ? its : undeclared(m, m->other, name));
        if (both) json_object_set(out, name, both);
    }
    json_object_foreach(y, name, value)
    {
        json_t *both =
            json_object_get(x, name) ? NULL : sp_json_all_of(m->b, value, undeclared(m, one, name));
        if (both) json_object_set(out, name, both);
    }
    set(m, "properties", out);
}

static void merge_patterns(merge *m, json_t *x, json_t *y)
{
    json_t *out = json_copy(x), *value;
    const char *pattern;
    json_object_foreach(y, pattern, value)
    {
        json_t *both = sp_json_all_of(m->b, value, json_object_get(x, pattern));
        if (both) json_object_set(out, pattern, both);
    }
    set(m, "patternProperties", out);
}

static void merge_objects(merge *m, json_t *one)
{
    json_t *more = json_object_get(one, "additionalProperties"),
           *others = json_object_get(m->other, "additionalProperties"),
           *patterns = json_object_get(one, "patternProperties"),
           *other_patterns = json_object_get(m->other, "patternProperties");
    if ((patterns && others && !json_is_true(others)) ||
        (other_patterns && more && !json_is_true(more)))
        sp_json_fail(m->b, SP_E_UNSUPPORTED, "allOf of patternProperties and additionalProperties",
                     NULL);
    if (json_object_get(one, "properties") || json_object_get(m->other, "properties"))
        merge_properties(m, one);
    if (patterns && other_patterns) merge_patterns(m, patterns, other_patterns);
    if (!patterns && other_patterns) set(m, "patternProperties", json_incref(other_patterns));
    if (!others) return;
    json_t *both = !more || json_is_true(more) ? others
                   : json_is_true(others)      ? more
                                               : sp_json_all_of(m->b, more, others);
    if (json_is_false(more) || json_is_false(others)) both = json_false();
    if (both) set(m, "additionalProperties", json_incref(both));
}

/* item_of -- the schema of item i; NULL: any. */
static json_t *item_of(json_t *schema, size_t i)
{
    json_t *one = json_array_get(json_object_get(schema, "prefixItems"), i);
    if (!one) one = json_object_get(schema, "items");
    return json_is_true(one) ? NULL : one;
}

static void merge_items(merge *m, json_t *one)
{
    size_t n = SP_MAX(json_array_size(json_object_get(one, "prefixItems")),
                      json_array_size(json_object_get(m->other, "prefixItems")));
    json_t *prefix = n ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) {
        json_t *both = sp_json_all_of(m->b, item_of(one, i), item_of(m->other, i));
        json_array_append(prefix, both ? both : m->b->any);
    }
    if (prefix) set(m, "prefixItems", prefix);
    json_t *both = sp_json_all_of(m->b, item_of(one, n), item_of(m->other, n));
    if (both) set(m, "items", json_incref(both));
}

/* -- all keywords ---------------------------------------------------------------------------------------------- */

static void merge_keyword(merge *m, const char *name, json_t *x, json_t *y)
{
    static const char *const low[] = {"minimum", "exclusiveMinimum", "minLength", "minItems",
                                      "minProperties"};
    static const char *const high[] = {"maximum", "exclusiveMaximum", "maxLength", "maxItems",
                                       "maxProperties"};
    char several[16] = " ";
    if (is_one_of(name, low, SP_COUNT(low))) {
        merge_bounds(m, name, x, y, 1);
    } else if (is_one_of(name, high, SP_COUNT(high))) {
        merge_bounds(m, name, x, y, -1);
    } else if (strcmp(name, "type") == 0) {
        merge_types(m, x, y);
    } else if (strcmp(name, "enum") == 0) {
        merge_enums(m, x, y);
    } else if (strcmp(name, "multipleOf") == 0) {
        merge_multiples(m, x, y);
    } else if (strcmp(name, "required") == 0 || *name == ' ') {
        merge_lists(m, name, x, y);
    } else if (strcmp(name, "uniqueItems") == 0 || strcmp(name, "unevaluatedProperties") == 0) {
        bool wins = *name == 'u' && name[2] == 'i' ? json_is_true(y) : json_is_false(y);
        if (wins) set(m, name, json_incref(y));
    } else if (strcmp(name, "propertyNames") == 0) {
        json_t *both = sp_json_all_of(m->b, x, y);
        if (both) set(m, name, json_incref(both));
    } else if (!json_equal(x, y)) { /* pattern, format: a list beside the first */
        strncat(several, name, sizeof several - 2);
        json_t *list = json_object_get(m->out, several), *one = json_pack("[O]", y);
        if (list)
            merge_lists(m, several, list, one);
        else
            set(m, several, json_incref(one));
        json_decref(one);
    }
}

static bool is_structure(const char *name)
{
    static const char *const all[] = {"properties", "patternProperties", "additionalProperties",
                                      "items", "prefixItems"};
    return is_one_of(name, all, SP_COUNT(all));
}

/* merged -- a schema for the values of both; NULL: there are none, or an error. */
static json_t *merged(sp_json *b, json_t *one, json_t *other)
{
    merge m = {.b = b, .out = json_copy(one), .other = other};
    const char *name;
    json_t *value;
    if (!m.out) no_memory(b);
    json_object_foreach(other, name, value)
    {
        json_t *mine = json_object_get(*name == ' ' ? m.out : one, name); /* a list may have been begun */
        if (is_structure(name)) continue;
        if (mine)
            merge_keyword(&m, name, mine, value);
        else
            set(&m, name, json_incref(value));
    }
    if (b->err == SP_OK) merge_objects(&m, one);
    if (b->err == SP_OK) merge_items(&m, one);
    if (b->err == SP_OK && !m.nothing) return m.out;
    json_decref(m.out);
    return NULL;
}

/* -- alternatives ---------------------------------------------------------------------------------------------- */

/* cross -- both lists hold: takes `a`, borrows `b`. */
static json_t *cross(sp_json *j, json_t *a, json_t *b)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(a) && j->err == SP_OK; i++)
        for (size_t k = 0; k < json_array_size(b) && j->err == SP_OK; k++) {
            json_t *both = merged(j, json_array_get(a, i), json_array_get(b, k));
            if (both) json_array_append_new(out, both);
            if (json_array_size(out) > MAX_ALTERNATIVES)
                sp_json_fail(j, SP_E_LIMIT, "more than 256 alternatives are not supported", NULL);
        }
    if (json_array_size(a) && json_array_size(b) && !json_array_size(out))
        sp_json_contradict(j, "keywords that contradict each other");
    json_decref(a);
    return out;
}

/* own_keywords -- a schema without those that expand() follows. */
static json_t *own_keywords(sp_json *b, json_t *schema)
{
    static const char *const followed[] = {"$ref", "allOf", "anyOf", "oneOf", "nullable", "const"};
    json_t *out = json_object(), *value, *only = json_object_get(schema, "const");
    const char *name;
    json_object_foreach(schema, name, value)
    {
        bool exclusive = strncmp(name, "exclusiveM", 10) == 0;
        if (is_annotation(name) || is_one_of(name, followed, SP_COUNT(followed)) ||
            (exclusive && json_is_boolean(value)))
            continue;
        const char *as = name;
        if (strcmp(name, "minimum") == 0 &&
            json_is_true(json_object_get(schema, "exclusiveMinimum")))
            as = "exclusiveMinimum"; /* as drafts before 6 have it */
        if (strcmp(name, "maximum") == 0 &&
            json_is_true(json_object_get(schema, "exclusiveMaximum")))
            as = "exclusiveMaximum";
        json_object_set(out, as, value);
    }
    if (json_is_array(json_object_get(out, "items"))) {
        json_object_set(out, "prefixItems", json_object_get(out, "items"));
        json_t *rest = json_object_get(schema, "additionalItems");
        if (rest)
            json_object_set(out, "items", rest);
        else
            json_object_del(out, "items");
    }
    json_object_del(out, "additionalItems");
    if (only && !json_object_get(schema, "enum"))
        json_object_set_new(out, "enum", json_pack("[O]", only));
    if (!out) no_memory(b);
    return out;
}

static json_t *expand_any(sp_json *b, json_t *list)
{
    json_t *out = json_array();
    if (!json_array_size(list))
        sp_json_fail(b, SP_E_ARG, "anyOf or oneOf", "is not a list of schemas");
    for (size_t i = 0; i < json_array_size(list) && b->err == SP_OK; i++) {
        json_t *one = sp_json_expand(b, json_array_get(list, i));
        json_array_extend(out, one);
        json_decref(one);
    }
    return out;
}

/* and_expand -- takes `out`: its alternatives with those of a schema, or (any) of a list. */
static json_t *and_expand(sp_json *b, json_t *out, json_t *schema, bool any)
{
    if (!schema || b->err != SP_OK) return out;
    json_t *more = any ? expand_any(b, schema) : sp_json_expand(b, schema);
    out = cross(b, out, more);
    json_decref(more);
    return out;
}

static json_t *expand_object(sp_json *b, json_t *schema)
{
    json_t *ref = json_object_get(schema, "$ref"), *all = json_object_get(schema, "allOf"),
           *only = json_object_get(schema, "const");
    sp_json_check(b, schema);
    json_t *own = own_keywords(b, schema), *out = json_pack("[o]", own);
    if (only && json_object_get(schema, "enum")) {
        json_t *same = json_pack("[{s:[O]}]", "enum", only);
        out = cross(b, out, same);
        json_decref(same);
    }
    if (ref) out = and_expand(b, out, sp_json_resolve(b, ref), false);
    if (all && !json_array_size(all))
        sp_json_fail(b, SP_E_ARG, "allOf", "is not a list of schemas");
    for (size_t i = 0; i < json_array_size(all); i++)
        out = and_expand(b, out, json_array_get(all, i), false);
    out = and_expand(b, out, json_object_get(schema, "anyOf"), true);
    out = and_expand(b, out, json_object_get(schema, "oneOf"), true);
    if (json_is_true(json_object_get(schema, "nullable")))
        json_array_append_new(out, json_pack("{s:s}", "type", "null"));
    return out;
}

json_t *sp_json_expand(sp_json *b, json_t *schema)
{
    json_t *out = NULL;
    if (b->err != SP_OK) return NULL;
    if (++b->depth > MAX_DEPTH)
        sp_json_fail(b, SP_E_ARG, "refers to itself without end, or is nested too deeply", NULL);
    else if (json_is_boolean(schema))
        out = json_is_true(schema) ? json_pack("[{}]") : json_array();
    else if (json_is_object(schema))
        out = expand_object(b, schema);
    else
        sp_json_fail(b, SP_E_ARG, "is not a schema", NULL);
    b->depth--;
    return out;
}
