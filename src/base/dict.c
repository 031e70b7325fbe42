#include "base/dict.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

static const char empty_key[1] = ""; /* used for an empty key given as NULL */

static size_t home(const sp_dict *d, const void *key, size_t n)
{
    return (size_t)sp_hash64(key, n) & (d->cap - 1);
}

static sp_dict_slot *find(const sp_dict *d, const void *key, size_t n)
{
    for (size_t i = home(d, key, n);; i = (i + 1) & (d->cap - 1)) {
        sp_dict_slot *s = &d->slots[i];
        if (!s->key || (s->n_bytes == n && memcmp(s->key, key, n) == 0)) return s;
    }
}

static sp_err rehash(sp_dict *d, size_t cap)
{
    sp_dict bigger = {.slots = SP_NEW_N(sp_dict_slot, cap), .n = d->n, .cap = cap};
    if (!bigger.slots) return sp_fail_nomem("a table");
    for (size_t i = 0; i < d->cap; i++)
        if (d->slots[i].key) *find(&bigger, d->slots[i].key, d->slots[i].n_bytes) = d->slots[i];
    sp_free(d->slots);
    *d = bigger;
    return SP_OK;
}

sp_err sp_dict_init(sp_dict *d, size_t n_expected)
{
    *d = (sp_dict){0};
    if (n_expected > SIZE_MAX / 4) return sp_fail_nomem("a table");
    size_t cap = 16;
    while (cap < n_expected * 2) cap *= 2;
    return rehash(d, cap);
}

void sp_dict_fini(sp_dict *d)
{
    sp_free(d->slots);
    *d = (sp_dict){0};
}

sp_err sp_dict_put(sp_dict *d, const void *key, size_t n_bytes, uint32_t value)
{
    assert(value != SP_DICT_NONE);
    if (!key) key = empty_key;
    if (n_bytes > UINT32_MAX)
        return sp_fail(SP_E_LIMIT, "a table key of %zu bytes is too long", n_bytes);
    if (2 * (d->n + 1) > d->cap) SP_TRY(rehash(d, d->cap ? d->cap * 2 : 16));
    sp_dict_slot *s = find(d, key, n_bytes);
    if (!s->key) d->n++;
    *s = (sp_dict_slot){.key = key, .n_bytes = (uint32_t)n_bytes, .value = value};
    return SP_OK;
}

uint32_t sp_dict_get(const sp_dict *d, const void *key, size_t n_bytes)
{
    if (!d->cap) return SP_DICT_NONE;
    const sp_dict_slot *s = find(d, key ? key : empty_key, n_bytes);
    return s->key ? s->value : SP_DICT_NONE;
}
