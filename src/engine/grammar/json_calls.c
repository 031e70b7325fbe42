/* json_calls.c -- JSON with texts around it, as models write calls of functions:
 *
 *   open  before head JSON after  between  before head JSON after ...  close
 *
 * A head has the function's name, and the JSON that follows it keeps to the schema of that function. Some models write
 * arguments as keys and values between marks; there a text has no quotes, and what is not a text is JSON. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/json_int.h"

enum { MAX_RAW = 2000 }; /* characters of a text whose length is limited */

/* -- texts without quotes ------------------------------------------------------------------------------ */

/* raw_char -- a character other than '<'. */
static int32_t raw_char(sp_json *b, int32_t next)
{
    sp_gram_out out = {b->g, &b->err};
    const int32_t low = sp_gram_char_range(&out, (sp_char_range){1, '<' - 1}, -1, next);
    return sp_json_either(b, low, sp_gram_char_range(&out, (sp_char_range){'<' + 1, SP_CHAR_TOP}, -1, next));
}

/* raw_text -- characters without "</": loop <-> a '<' that anything but a '/' follows. */
static int32_t raw_text(sp_json *b, int32_t next)
{
    sp_gram_out out = {b->g, &b->err};
    const int32_t loop = sp_gram_jump(b->g, b->ret, &b->err), after = sp_gram_jump(b->g, b->ret, &b->err);
    const int32_t angle = sp_json_range(b, '<', '<', after);
    int32_t other = sp_gram_char_range(&out, (sp_char_range){1, '/' - 1}, -1, loop);
    other = sp_json_either(b, other, sp_gram_char_range(&out, (sp_char_range){'/' + 1, '<' - 1}, -1, loop));
    other = sp_json_either(b, other, sp_gram_char_range(&out, (sp_char_range){'<' + 1, SP_CHAR_TOP}, -1, loop));
    sp_gram_lead(b->g, after, sp_json_either(b, sp_json_either(b, other, angle), next), &b->err);
    sp_gram_lead(b->g, loop, sp_json_either(b, sp_json_either(b, raw_char(b, loop), angle), next), &b->err);
    return loop;
}

/* limited_text -- min .. max characters without '<'; max -1: no limit. */
static int32_t limited_text(sp_json *b, int32_t min, int32_t max, int32_t next)
{
    if (max >= 0 && min > max) return sp_json_contradict(b, "minLength exceeds maxLength");
    if (min > MAX_RAW || max > MAX_RAW)
        return sp_json_fail(b, SP_E_LIMIT, "texts of over 2000 characters in calls of this model", NULL);
    const int32_t one = raw_char(b, b->ret);
    int32_t at = max < 0 ? raw_text(b, next) : next;
    for (int32_t i = min; i < max; i++) at = sp_json_either(b, sp_json_call(b, one, at), next);
    for (int32_t i = 0; i < min; i++) at = sp_json_call(b, one, at);
    return at;
}

/* patterned_text -- a text with a pattern or a format: its JSON without the quotes, and without characters that JSON
 * escapes. */
static int32_t patterned_text(sp_json *b, json_t *schema, int32_t next)
{
    const size_t from = b->g->nodes.n;
    int32_t at = sp_json_string(b, schema, next);
    if (b->err != SP_OK || at < 0) return at;
    for (size_t i = from; i < b->g->nodes.n; i++) {
        sp_gram_node *n = &b->g->nodes.v[i];
        if (n->kind == SP_GRAM_BYTE && n->lo == '"' && n->hi == '"') /* nothing in its place */
            *n = (sp_gram_node){.kind = SP_GRAM_SPLIT, .next = n->next, .alt = n->next};
        else if (n->kind == SP_GRAM_BYTE && n->lo == '\\' && n->hi == '\\')
            n->lo = 1, n->hi = 0;
    }
    return at;
}

static int32_t raw_string(sp_json *b, json_t *schema, int32_t next)
{
    if (json_object_get(schema, "pattern") || json_object_get(schema, "format"))
        return patterned_text(b, schema, next);
    return limited_text(b, sp_json_bound(b, schema, "minLength", 0), sp_json_bound(b, schema, "maxLength", -1), next);
}

/* -- members -------------------------------------------------------------------------------------------- */

/* listed -- one of the values of an enumeration. */
static int32_t listed(sp_json *b, json_t *values, int32_t next)
{
    int32_t at = SP_JSON_NOTHING;
    for (size_t i = 0; i < json_array_size(values) && b->err == SP_OK; i++) {
        const json_t *v = json_array_get(values, i);
        char *text = json_is_string(v) ? strdup(json_string_value(v)) : json_dumps(v, JSON_ENCODE_ANY);
        if (!text) return sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
        at = sp_json_either(b, at, sp_json_text(b, text, next));
        free(text);
    }
    return at;
}

/* of_type -- of a schema that sp_json_expand made, if its values have this type. */
static int32_t of_type(sp_json *b, json_t *schema, const char *type, int32_t next)
{
    if (type && strcmp(type, "string") == 0) return raw_string(b, schema, next);
    json_t *copy = json_copy(schema);
    if (copy && type) json_object_set_new(copy, "type", json_string(type));
    return sp_json_use(b, sp_json_keep(b, copy), next);
}

static int32_t value(sp_json *b, json_t *schema, int32_t next)
{
    json_t *all = sp_json_expand(b, schema);
    int32_t at = SP_JSON_NOTHING;
    for (size_t i = 0; i < json_array_size(all) && b->err == SP_OK; i++) {
        json_t *one = json_array_get(all, i), *type = json_object_get(one, "type");
        json_t *values = sp_json_values(b, one);
        if (values) {
            at = sp_json_either(b, at, listed(b, values, next));
        } else if (json_is_array(type)) {
            for (size_t k = 0; k < json_array_size(type) && b->err == SP_OK; k++)
                at = sp_json_either(b, at, of_type(b, one, json_string_value(json_array_get(type, k)), next));
        } else {
            at = sp_json_either(b, at, of_type(b, one, json_string_value(type), next));
        }
        json_decref(values);
    }
    json_decref(all);
    return at;
}

static bool is_required(json_t *schema, const char *name)
{
    json_t *list = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_array_get(list, i));
        if (one && strcmp(one, name) == 0) return true;
    }
    return false;
}

static int32_t member(sp_json *b, const sp_grammar_opts *o, const char *name, json_t *schema, int32_t next)
{
    const size_t mark = sp_json_enter(b, name);
    int32_t at = value(b, schema, sp_json_text(b, o->keys[2], next));
    sp_json_leave(b, mark);
    return sp_json_text(b, o->keys[0], sp_json_text(b, name, sp_json_text(b, o->keys[1], at)));
}

/* members -- of an object, in the order of its schema; those that only additionalProperties allows are left out. */
static int32_t members(sp_json *b, const sp_grammar_opts *o, json_t *schema, int32_t next)
{
    static const char *const others[] = {"patternProperties", "propertyNames", "minProperties", "maxProperties"};
    json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required"), *of;
    const char *name;
    int32_t at = next;
    json_t *names = json_array();
    for (size_t i = 0; i < SP_COUNT(others); i++)
        if (json_object_get(schema, others[i]))
            sp_json_fail(b, SP_E_UNSUPPORTED, "is not supported in calls of this model", others[i]);
    for (size_t i = json_array_size(required); i-- > 0 && b->err == SP_OK;) {
        const char *one = json_string_value(json_array_get(required, i));
        if (one && !json_object_get(properties, one)) at = member(b, o, one, b->any, at);
    }
    json_object_foreach(properties, name, of) json_array_append_new(names, json_string(name));
    for (size_t i = json_array_size(names); i-- > 0 && b->err == SP_OK;) {
        name = json_string_value(json_array_get(names, i));
        const int32_t with = member(b, o, name, json_object_get(properties, name), at);
        at = is_required(schema, name) ? with : sp_json_either(b, with, at);
    }
    json_decref(names);
    return at;
}

/* arguments -- of a function: JSON, or keys and values between marks. */
static int32_t arguments(sp_json *b, const sp_grammar_opts *o, json_t *schema, int32_t next)
{
    if (!o->keys) return sp_json_spaced(b, sp_json_use(b, schema, next));
    json_t *all = sp_json_expand(b, schema);
    int32_t at = SP_JSON_NOTHING;
    for (size_t i = 0; i < json_array_size(all) && b->err == SP_OK; i++)
        at = sp_json_either(b, at, members(b, o, json_array_get(all, i), next));
    json_decref(all);
    return at;
}

/* -- all of it ------------------------------------------------------------------------------------------ */

/* headed -- one of the heads and the arguments that belong to it. */
static int32_t headed(sp_json *b, const sp_grammar_opts *o, int32_t next)
{
    json_t *schemas = json_object_get(b->root, "anyOf");
    int32_t at = SP_JSON_NOTHING;
    const size_t mark = sp_json_enter(b, "anyOf");
    for (int i = 0; i < o->n_heads && b->err == SP_OK; i++) {
        const sp_grammar_head *h = &o->heads[i];
        int32_t one = arguments(b, o, json_array_get(schemas, (size_t)i), next);
        if (h->after_number) {
            one = sp_json_text(b, h->after_number, one);
            one = sp_json_either(b, sp_json_range(b, '0', '9', one),
                                 sp_json_range(b, '1', '9', sp_json_range(b, '0', '9', one)));
        }
        at = sp_json_either(b, at, sp_json_text(b, h->before, one));
    }
    sp_json_leave(b, mark);
    return at;
}

int32_t sp_json_framed(sp_json *b, const sp_grammar_opts *o)
{
    const bool repeats = o->between != NULL;
    const int32_t start = sp_gram_jump(b->g, b->ret, &b->err);
    int32_t end = o->close ? sp_json_text(b, o->close, b->ret) : b->ret;
    if (repeats) end = sp_json_either(b, end, sp_json_text(b, o->between, start));
    if (o->after) end = sp_json_text(b, o->after, end);
    int32_t first = o->n_heads ? headed(b, o, end) : arguments(b, o, b->root, end);
    if (first < 0) return first;
    if (o->before) first = sp_json_text(b, o->before, first);
    sp_gram_lead(b->g, start, first, &b->err);
    return o->open ? sp_json_text(b, o->open, start) : start;
}
