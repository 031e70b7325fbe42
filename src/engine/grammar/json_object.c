/* json_object.c -- objects of JSON.
 *
 * Declared properties come in the order of the schema, then those whose names are free. Their names fall into classes,
 * one for each set of patterns that they match; each class has the schemas of its patterns. A node for each property
 * and number of members so far:
 *
 *     { --> property 0 --> property 1 --> ... --> free names --+--> }
 *              |  left out   ^                       ^_________|
 *              +-------------+
 *
 * Free names may be equal, and then are one property; so at most one of them counts towards minProperties. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "engine/grammar/json_int.h"
#include "engine/grammar/lang.h"

enum { MAX_PATTERNS = 4, MAX_PROPERTIES = 4096 };

typedef struct property {
    const char *name;
    json_t *schema;
    bool required;
} property;

/* Members of free names: a name from `name`, a rule (NOTHING: any string), and a value. */
typedef struct name_class {
    int32_t member; /* a rule */
} name_class;

typedef struct object {
    sp_json *b;
    SP_VEC(property) properties;
    name_class classes[1 << MAX_PATTERNS];
    int n_classes;
    json_t *patterns, *more, *names, *all; /* all: declared names, as keys */
    int32_t min, max, cap;                 /* members; counts are told apart up to cap */
    int32_t end;
} object;

/* -- which members there are ----------------------------------------------------------------------------- */

static bool lists(json_t *array, const char *name)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *s = json_string_value(json_array_get(array, i));
        if (s && strcmp(s, name) == 0) return true;
    }
    return false;
}

/* add_names -- adds propertyNames as parts of a language. */
static void add_names(object *o, sp_lang *l)
{
    sp_json *b = o->b;
    const char *key, *pattern = json_string_value(json_object_get(o->names, "pattern"));
    json_t *value;
    json_object_foreach(o->names, key, value)
    {
        static const char *const known[] = {"pattern", "minLength", "maxLength",  "enum",
                                            "type",    "title",     "description"};
        bool found = false;
        for (size_t i = 0; i < SP_COUNT(known); i++) found = found || strcmp(key, known[i]) == 0;
        if (!found) sp_json_fail(b, SP_E_UNSUPPORTED, "propertyNames: unsupported keyword", key);
    }
    l->min = sp_json_bound(b, o->names, "minLength", 0);
    l->max = sp_json_bound(b, o->names, "maxLength", -1);
    if (pattern) l->parts[l->n++].pattern = pattern;
}

/* is_name -- whether propertyNames accepts a declared name. */
static bool is_name(object *o, const char *name)
{
    json_t *only = json_pack("{s:n}", name), *values = json_object_get(o->names, "enum");
    sp_lang l = {.parts = {{.names = only}}, .n = 1, .max = -1, .work = &o->b->work};
    int32_t found = -1;
    if (!only) sp_json_fail(o->b, SP_E_NOMEM, "out of memory", NULL);
    if (json_object_get(o->names, "pattern"))
        l.parts[l.n++].pattern = json_string_value(json_object_get(o->names, "pattern"));
    if (o->b->err == SP_OK) {
        sp_err err = sp_lang_build(&l, NULL, &found);
        if (err != SP_OK) sp_json_fail(o->b, err, "propertyNames: unsupported pattern", NULL);
    }
    json_decref(only);
    size_t n = 0;
    for (const char *s = name; *s; s++) n += ((uint8_t)*s & 0xC0) != 0x80;
    int32_t min = sp_json_bound(o->b, o->names, "minLength", 0),
            max = sp_json_bound(o->b, o->names, "maxLength", -1);
    return found >= 0 && (int32_t)n >= min && (max < 0 || (int32_t)n <= max) &&
           (!values || lists(values, name));
}

/* declare -- a property, with the schemas of patterns that its name matches. */
static void declare(object *o, const char *name, json_t *schema, bool required)
{
    const char *pattern;
    json_t *value;
    sp_json *b = o->b;
    bool matched = schema != NULL;
    json_object_foreach(o->patterns, pattern, value)
    {
        if (!sp_json_matches(b, pattern, name)) continue;
        schema = schema ? sp_json_all_of(b, schema, value) : value;
        matched = true;
    }
    if (!matched) schema = o->more ? o->more : b->any;
    if (o->names && !is_name(o, name)) schema = json_false();
    if (b->err == SP_OK) b->err = sp_vec_reserve(&o->properties, 1);
    if (b->err == SP_OK && json_object_set_new(o->all, name, json_null()) != 0)
        sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
    if (b->err == SP_OK && o->properties.n >= MAX_PROPERTIES)
        sp_json_fail(b, SP_E_LIMIT, "more than 4096 properties are not supported", NULL);
    if (b->err != SP_OK) return;
    o->properties.v[o->properties.n++] = (property){name, schema, required};
}

static void declare_all(object *o, json_t *properties, json_t *required)
{
    const char *name;
    json_t *schema, *names = json_object_get(o->names, "enum");
    json_object_foreach(properties, name, schema) declare(o, name, schema, lists(required, name));
    for (size_t i = 0; i < json_array_size(required); i++) {
        name = json_string_value(json_array_get(required, i));
        if (!name) sp_json_fail(o->b, SP_E_ARG, "required", "is not a list of names");
        if (name && !json_object_get(o->all, name)) declare(o, name, NULL, true);
    }
    for (size_t i = 0; i < json_array_size(names); i++) {
        name = json_string_value(json_array_get(names, i));
        if (name && !json_object_get(o->all, name)) declare(o, name, NULL, false);
    }
}

/* -- free names ------------------------------------------------------------------------------------------- */

/* add_class -- names that match these patterns (bits) and no others, if there are any. */
static void add_class(object *o, unsigned which, json_t *schema)
{
    sp_json *b = o->b;
    sp_lang l = {.max = -1, .work = &b->work};
    const char *pattern;
    json_t *value;
    int32_t name = 0;
    unsigned i = 0;
    json_object_foreach(o->patterns, pattern, value)
    {
        l.parts[l.n++] = (sp_lang_part){.pattern = pattern, .not = !(which >> i++ & 1)};
    }
    if (json_object_size(o->all)) l.parts[l.n++] = (sp_lang_part){.names = o->all, .not = true};
    add_names(o, &l);
    if (b->err != SP_OK || (l.max >= 0 && l.min > l.max)) return;
    bool any = l.n == 0 && l.min == 0 && l.max < 0;
    if (!any) {
        sp_err err = sp_lang_build(&l, b->g, &name);
        char why[256];
        snprintf(why, sizeof why, "patternProperties: %s", err == SP_OK ? "" : sp_error_detail());
        if (err != SP_OK) sp_json_fail(b, err, why, NULL);
        if (err != SP_OK || name < 0) return;
    }
    int32_t value_node =
        sp_json_use_at(b, which ? "patternProperties" : "additionalProperties", schema, b->ret);
    int32_t colon = sp_json_spaced(b, sp_json_range(b, ':', ':', sp_json_spaced(b, value_node)));
    int32_t close = sp_json_range(b, '"', '"', colon);
    if (close < 0) return;
    int32_t inner =
        any ? sp_gram_add(b->g, (sp_gram_node){.kind = SP_GRAM_CHARS, .max = -1, .next = close},
                          &b->err)
            : sp_json_call(b, name, close);
    o->classes[o->n_classes++].member = sp_json_range(b, '"', '"', inner);
}

static void add_classes(object *o, bool rest)
{
    sp_json *b = o->b;
    size_t n = json_object_size(o->patterns);
    if (n > MAX_PATTERNS) {
        sp_json_fail(b, SP_E_LIMIT, "patternProperties: more than 4 patterns are not supported",
                     NULL);
        return;
    }
    for (unsigned which = 1; which < 1u << n && b->err == SP_OK; which++) {
        const char *pattern;
        json_t *value, *schema = NULL;
        unsigned i = 0;
        json_object_foreach(o->patterns, pattern, value)
        {
            if (which >> i++ & 1) schema = schema ? sp_json_all_of(b, schema, value) : value;
        }
        add_class(o, which, schema);
    }
    if (rest && b->err == SP_OK) add_class(o, 0, o->more ? o->more : b->any);
}

/* -- nodes --------------------------------------------------------------------------------------------------- */

/* with_comma -- a member that comes after `count` others. */
static int32_t with_comma(sp_json *b, int32_t count, int32_t member)
{
    return sp_json_spaced(b,
                          count ? sp_json_range(b, ',', ',', sp_json_spaced(b, member)) : member);
}

static int32_t free_member(object *o, int32_t count, int32_t next)
{
    int32_t at = SP_JSON_NOTHING;
    for (int i = 0; i < o->n_classes; i++)
        at = sp_json_either(o->b, at, sp_json_call(o->b, o->classes[i].member, next));
    return with_comma(o->b, count, at);
}

/* free_members -- those after `count` declared ones, and the end. */
static int32_t free_members(object *o, int32_t count)
{
    sp_json *b = o->b;
    int32_t none = count >= o->min ? o->end : SP_JSON_NOTHING, after = SP_JSON_NOTHING;
    if (!o->n_classes || (o->max >= 0 && count >= o->max)) return none;
    if (count + 1 < o->min) return SP_JSON_NOTHING;
    if (o->max < 0) {
        int32_t loop = sp_gram_jump(b->g, o->end, &b->err);
        after = sp_json_either(b, free_member(o, 1, loop), o->end);
        sp_gram_lead(b->g, loop, after, &b->err);
    } else {
        after = o->end;
        for (int32_t i = o->max - 1; i > count; i--)
            after = sp_json_either(b, free_member(o, i, after), o->end);
    }
    return sp_json_either(b, free_member(o, count, after), none);
}

/* key -- "name": */
static int32_t key(sp_json *b, const char *name, int32_t next)
{
    json_t *j = json_string(name);
    char *quoted = j ? json_dumps(j, JSON_ENCODE_ANY) : NULL;
    if (!quoted) sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
    next = sp_json_spaced(b, sp_json_range(b, ':', ':', sp_json_spaced(b, next)));
    if (quoted) next = sp_json_text(b, quoted, next);
    free(quoted);
    json_decref(j);
    return next;
}

/* members -- all properties in their order: rows of nodes by count, from the last property. */
static int32_t members(object *o)
{
    sp_json *b = o->b;
    size_t n = (size_t)o->cap + 1;
    int32_t *at = SP_NEW_N(int32_t, n), start = SP_JSON_NOTHING;
    if (!at) return sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
    for (size_t k = 0; k < n; k++)
        at[k] = k <= o->properties.n ? free_members(o, (int32_t)k) : SP_JSON_NOTHING;
    size_t mark = sp_json_enter(b, "properties");
    for (size_t i = o->properties.n; i-- > 0 && b->err == SP_OK;) {
        const property *p = &o->properties.v[i];
        for (size_t k = 0; k < n; k++) { /* at[k + 1] is still of the next property */
            bool more = o->max < 0 || (int32_t)k < o->max;
            int32_t after = more ? at[SP_MIN(k + 1, n - 1)] : SP_JSON_NOTHING;
            int32_t value = after < 0 ? after : sp_json_use_at(b, p->name, p->schema, after);
            int32_t one = with_comma(b, (int32_t)k, key(b, p->name, value));
            at[k] = p->required ? one : sp_json_either(b, one, at[k]);
        }
    }
    sp_json_leave(b, mark);
    start = at[0];
    sp_free(at);
    return start;
}

static void set_counts(object *o, json_t *schema)
{
    int32_t n = (int32_t)o->properties.n;
    o->min = sp_json_bound(o->b, schema, "minProperties", 0);
    o->max = sp_json_bound(o->b, schema, "maxProperties", -1);
    if (o->max >= n && !o->n_classes) o->max = -1;
    if (o->max > MAX_PROPERTIES || o->min > MAX_PROPERTIES)
        sp_json_fail(o->b, SP_E_LIMIT, "more than 4096 properties are not supported", NULL);
    else if (o->n_classes && o->min > n + 1)
        sp_json_fail(o->b, SP_E_UNSUPPORTED,
                     "minProperties: a grammar cannot make free names differ", NULL);
    o->cap = o->max >= 0 ? o->max : SP_MAX(o->min, 1);
}

/* names_of -- propertyNames without references. */
static json_t *names_of(sp_json *b, json_t *names)
{
    if (!names || json_is_true(names)) return NULL;
    json_t *list = sp_json_expand(b, names), *one = NULL;
    if (json_array_size(list) == 1)
        one = sp_json_keep(b, json_incref(json_array_get(list, 0)));
    else
        sp_json_fail(b, SP_E_UNSUPPORTED, "propertyNames: more than one alternative", NULL);
    json_decref(list);
    return one;
}

/* sort_out -- the keywords of a schema: declared names, then classes of free ones. */
static void sort_out(object *o, json_t *schema)
{
    json_t *properties = json_object_get(schema, "properties"),
           *required = json_object_get(schema, "required"),
           *more = json_object_get(schema, "additionalProperties");
    if (!more && json_is_false(json_object_get(schema, "unevaluatedProperties")))
        more = json_false();
    o->patterns = json_object_get(schema, "patternProperties");
    o->names = names_of(o->b, json_object_get(schema, "propertyNames"));
    o->more = more;
    o->all = json_object();
    if (!o->all) sp_json_fail(o->b, SP_E_NOMEM, "out of memory", NULL);
    if ((properties && !json_is_object(properties)) || (required && !json_is_array(required)) ||
        (o->patterns && !json_is_object(o->patterns)))
        sp_json_fail(o->b, SP_E_ARG, "properties is not an object, or required is not a list",
                     NULL);
    if (o->b->err != SP_OK) return;
    declare_all(o, properties, required);
    bool free_names =
        more ? !json_is_false(more) : !properties && !o->patterns && !json_array_size(required);
    if (!json_object_get(o->names, "enum")) add_classes(o, free_names);
    set_counts(o, schema);
}

int32_t sp_json_object(sp_json *b, json_t *schema, int32_t next)
{
    object o = {.b = b};
    int32_t at = 0;
    sort_out(&o, schema);
    if (b->err == SP_OK) {
        o.end = sp_json_spaced(b, sp_json_range(b, '}', '}', next));
        at = members(&o);
        if (at < 0) at = sp_json_contradict(b, "no object has these required members");
        at = sp_json_range(b, '{', '{', at);
    }
    sp_vec_fini(&o.properties);
    json_decref(o.all);
    return b->err == SP_OK ? at : 0;
}
