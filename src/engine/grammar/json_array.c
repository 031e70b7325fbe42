/* json_array.c -- arrays of JSON.
 *
 * Items are counted by nodes: item i has its own. Where items must differ, they are values of a list: of few values a
 * node for each set of those that came, of more they come in the order of the list. */
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/json_int.h"

enum { MAX_ITEMS = 4096, MAX_FREE_ORDER = 8, MAX_UNIQUE = 256 };

static int32_t comma(sp_json *b, int32_t next)
{
    return sp_json_spaced(b, sp_json_range(b, ',', ',', sp_json_spaced(b, next)));
}

/* -- items by position ------------------------------------------------------------------------------ */

typedef struct items {
    json_t *prefix, *rest; /* rest false: none */
    int32_t min, max;      /* max -1: no limit */
} items;

static int32_t item(sp_json *b, const items *s, size_t i, int32_t next)
{
    bool first = i < json_array_size(s->prefix);
    return first ? sp_json_use_at(b, "prefixItems", json_array_get(s->prefix, i), next)
                 : sp_json_use_at(b, "items", s->rest, next);
}

/* counted -- the items, then the bracket. Built from the last; `at` is what follows item i - 1. */
static int32_t counted(sp_json *b, const items *s, int32_t next)
{
    int32_t end = sp_json_spaced(b, sp_json_range(b, ']', ']', next)), at = end, n = s->max;
    if (s->max < 0) {
        n = SP_MAX(SP_MAX(s->min, (int32_t)json_array_size(s->prefix)), 1);
        int32_t loop = sp_gram_jump(b->g, end, &b->err),
                more = comma(b, item(b, s, (size_t)n, loop));
        at = sp_json_either(b, more, end);
        sp_gram_lead(b->g, loop, at, &b->err);
    }
    for (int32_t i = n - 1; i >= 0 && b->err == SP_OK; i--) {
        int32_t one = item(b, s, (size_t)i, at);
        one = i > 0 ? comma(b, one) : sp_json_spaced(b, one);
        at = i >= s->min ? sp_json_either(b, one, end) : one;
    }
    return sp_json_range(b, '[', '[', at);
}

/* -- items that differ --------------------------------------------------------------------------------- */

typedef struct unique {
    sp_json *b;
    const char *texts[MAX_UNIQUE];
    int n;
    int32_t min, max, end;
    int cap; /* counts are told apart up to this */
    int32_t known[(MAX_UNIQUE + 2) * (MAX_UNIQUE + 1)];
} unique;

enum { UNKNOWN = -2 };

static int32_t with_comma(unique *u, int count, int32_t value)
{
    return count > 0 ? comma(u->b, value) : sp_json_spaced(u->b, value);
}

/* in_any_order -- the values that are not in the set `came`. */
static int32_t in_any_order(unique *u, unsigned came, int count)
{
    if (u->known[came] != UNKNOWN) return u->known[came];
    int32_t at = SP_JSON_NOTHING;
    for (int i = 0; i < u->n && count < u->max; i++)
        if (!(came >> i & 1))
            at = sp_json_either(
                u->b, at,
                sp_json_text(u->b, u->texts[i], in_any_order(u, came | 1u << i, count + 1)));
    at = with_comma(u, count, at);
    return u->known[came] = count >= u->min ? sp_json_either(u->b, at, u->end) : at;
}

/* in_order -- values from each number and count, from the last. */
static int32_t in_order(unique *u)
{
    enum { ROW = MAX_UNIQUE + 1 };
    for (int i = u->n; i >= 0; i--)
        for (int k = SP_MIN(i, u->cap); k >= 0; k--) {
            const int32_t *after = &u->known[(i + 1) * ROW];
            int32_t skip = i < u->n ? after[k] : k >= u->min ? u->end : SP_JSON_NOTHING;
            int32_t take = SP_JSON_NOTHING;
            if (i < u->n && (k < u->cap || u->max == u->n))
                take =
                    with_comma(u, k, sp_json_text(u->b, u->texts[i], after[SP_MIN(k + 1, u->cap)]));
            u->known[i * ROW + k] = sp_json_either(u->b, take, skip);
        }
    return u->known[0];
}

static int32_t unique_items(sp_json *b, json_t *values, const items *s, int32_t next)
{
    int32_t at = 0;
    unique *u = SP_NEW(unique);
    if (!u) return sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
    u->b = b;
    u->n = (int)json_array_size(values);
    u->min = s->min;
    u->max = s->max < 0 ? u->n : SP_MIN(s->max, u->n);
    u->cap = u->max < u->n ? u->max : SP_MAX(u->min, 1);
    for (size_t i = 0; i < SP_COUNT(u->known); i++) u->known[i] = UNKNOWN;
    for (int i = 0; i < u->n && b->err == SP_OK; i++)
        if (!(u->texts[i] = json_dumps(json_array_get(values, (size_t)i), JSON_ENCODE_ANY)))
            sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
    u->end = sp_json_spaced(b, sp_json_range(b, ']', ']', next));
    if (u->min > u->n)
        at = SP_JSON_NOTHING;
    else if (b->err == SP_OK)
        at = u->n <= MAX_FREE_ORDER ? in_any_order(u, 0, 0) : in_order(u);
    for (int i = 0; i < u->n; i++) free((char *)u->texts[i]);
    sp_free(u);
    return at < 0 ? sp_json_contradict(b, "minItems exceeds the number of different values")
                  : sp_json_range(b, '[', '[', at);
}

static int32_t different(sp_json *b, const items *s, int32_t next)
{
    json_t *values = json_array_size(s->prefix) ? NULL : sp_json_values(b, s->rest);
    int32_t at = 0;
    if (!values)
        sp_json_fail(b, SP_E_UNSUPPORTED, "uniqueItems of values that no enum lists", NULL);
    else if (json_array_size(values) > MAX_UNIQUE)
        sp_json_fail(b, SP_E_LIMIT, "uniqueItems of more than 256 values is not supported", NULL);
    else
        at = unique_items(b, values, s, next);
    json_decref(values);
    return at;
}

/* -- keywords ----------------------------------------------------------------------------------------------- */

int32_t sp_json_array(sp_json *b, json_t *schema, int32_t next)
{
    items s = {.prefix = json_object_get(schema, "prefixItems"),
               .rest = json_object_get(schema, "items"),
               .min = sp_json_bound(b, schema, "minItems", 0),
               .max = sp_json_bound(b, schema, "maxItems", -1)};
    if (json_is_array(s.rest)) { /* as drafts before 2020 have it */
        s.prefix = s.rest;
        s.rest = json_object_get(schema, "additionalItems");
    }
    if (!s.rest || json_is_true(s.rest)) s.rest = b->any;
    if (s.prefix && !json_is_array(s.prefix))
        return sp_json_fail(b, SP_E_ARG, "prefixItems", "is not a list");
    int32_t n = (int32_t)json_array_size(s.prefix);
    if (json_is_false(s.rest) && (s.max < 0 || s.max > n)) s.max = n;
    if (s.max >= 0 && s.min > s.max)
        return sp_json_contradict(b, "minItems exceeds the most items");
    if (json_is_true(json_object_get(schema, "uniqueItems")) && (s.max < 0 || s.max > 1))
        return different(b, &s, next);
    if (s.min > MAX_ITEMS || s.max > MAX_ITEMS || n > MAX_ITEMS)
        return sp_json_fail(b, SP_E_LIMIT, "more than 4096 items are not supported", NULL);
    return b->err == SP_OK ? counted(b, &s, next) : 0;
}
