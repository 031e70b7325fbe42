/* json_string.c -- strings of JSON: a length, patterns and formats.
 *
 * One pattern is an automaton of its own (sp_pattern_build); with a length or another pattern it becomes a
 * deterministic one (lang.h). */
#include <stdio.h>
#include <string.h>

#include "engine/grammar/json_int.h"
#include "engine/grammar/lang.h"

/* fail_of -- passes on an error of a pattern with its detail and the path. */
static int32_t fail_of(sp_json *b, sp_err err)
{
    char why[256];
    snprintf(why, sizeof why, "%s", sp_error_detail());
    return sp_json_fail(b, err, why, NULL);
}

/* add_part -- a pattern, or the expression of a format. */
static void add_part(sp_json *b, sp_lang *l, json_t *value, bool format)
{
    const char *text = json_string_value(value);
    if (!text) {
        sp_json_fail(b, SP_E_ARG, format ? "format" : "pattern", "is not a text");
        return;
    }
    const char *expression = format ? sp_json_format(text) : text;
    if (!expression)
        sp_json_fail(b, SP_E_UNSUPPORTED, "unsupported format", text);
    else if (l->n == SP_LANG_MAX_PARTS)
        sp_json_fail(b, SP_E_LIMIT, "more than 24 patterns are not supported", NULL);
    else if (*expression || !format) /* a format without one restricts nothing */
        l->parts[l->n++].pattern = expression;
}

/* add_parts -- keyword `name`, and what merging made of several (" pattern"). */
static void add_parts(sp_json *b, json_t *schema, sp_lang *l, const char *name)
{
    char several[16];
    bool format = *name == 'f';
    json_t *one = json_object_get(schema, name);
    snprintf(several, sizeof several, " %s", name);
    if (one) add_part(b, l, one, format);
    json_t *list = json_object_get(schema, several);
    for (size_t i = 0; i < json_array_size(list) && b->err == SP_OK; i++)
        add_part(b, l, json_array_get(list, i), format);
}

/* chars -- quotes around characters of any kind. */
static int32_t chars(sp_json *b, const sp_lang *l, int32_t next)
{
    sp_gram_node n = {.kind = SP_GRAM_CHARS, .min = l->min, .max = l->max};
    if (next < 0) return next;
    n.next = sp_json_range(b, '"', '"', next);
    return sp_json_range(b, '"', '"', sp_gram_add(b->g, n, &b->err));
}

int32_t sp_json_string(sp_json *b, json_t *schema, int32_t next)
{
    sp_lang l = {.min = sp_json_bound(b, schema, "minLength", 0),
                 .max = sp_json_bound(b, schema, "maxLength", -1),
                 .work = &b->work};
    int32_t start = 0;
    add_parts(b, schema, &l, "pattern");
    add_parts(b, schema, &l, "format");
    if (b->err != SP_OK) return 0;
    if (l.max >= 0 && l.min > l.max) return sp_json_contradict(b, "minLength exceeds maxLength");
    if (l.n == 0) return chars(b, &l, next);
    sp_err err = l.n == 1 && l.min == 0 && l.max < 0
                     ? sp_pattern_build(l.parts[0].pattern, b->g, &start)
                     : sp_lang_build(&l, b->g, &start);
    if (err != SP_OK) return fail_of(b, err);
    if (start < 0) return sp_json_contradict(b, "no string has this pattern and length");
    return sp_json_range(b, '"', '"', sp_json_call(b, start, sp_json_range(b, '"', '"', next)));
}

bool sp_json_matches(sp_json *b, const char *pattern, const char *name)
{
    int32_t found = -1;
    json_t *names = json_pack("{s:n}", name);
    sp_lang l = {.parts = {{.pattern = pattern}, {.names = names}}, .n = 2, .max = -1, .work = &b->work};
    if (b->err == SP_OK) {
        sp_err err = names ? sp_lang_build(&l, NULL, &found) : sp_fail_nomem("a grammar");
        if (err != SP_OK) fail_of(b, err);
    }
    json_decref(names);
    return b->err == SP_OK && found >= 0;
}
