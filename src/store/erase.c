#include "store/erase.h"

#include <stdlib.h>
#include <string.h>

typedef SP_VEC(sp_tier_key) key_list;

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(sp_digest));
}

bool sp_digest_among(const sp_digest *id, const sp_digest *sorted, size_t n)
{
    return n && bsearch(id, sorted, n, sizeof *sorted, by_bytes) != NULL;
}

static sp_err take_key(void *user, const sp_tier_info *info)
{
    key_list *keys = user;
    SP_TRY(sp_vec_reserve(keys, 1));
    keys->v[keys->n++] = info->key;
    return SP_OK;
}

/* A header that is being read. */
typedef struct reading {
    const sp_digest *ids; /* [n] sorted */
    size_t n;
    bool depends;
} reading;

static sp_err take_head(void *user, const sp_record *head)
{
    reading *r = user;
    r->depends = false; /* a get may begin anew */
    for (int32_t i = 0; i < head->n_before && !r->depends; i++)
        r->depends = sp_digest_among(&head->before[i], r->ids, r->n);
    return SP_OK;
}

bool sp_tier_depends(sp_tier *t, const sp_tier_key *key, const sp_digest *sorted, size_t n)
{
    reading r = {.ids = sorted, .n = n};
    sp_tier_job job = {.verb = SP_TIER_GET, .key = *key, .user = &r, .head = take_head};
    return sp_tier_run(t, &job) == SP_OK && r.depends;
}

/* is_doomed -- a header that cannot be read is a miss for everyone: its space is overwritten below. */
static bool is_doomed(sp_tier *t, const sp_erase *e, const sp_tier_key *key)
{
    if (sp_digest_among(&key->id, e->ids, e->n)) return true;
    return key->kind != e->alone_kind && sp_tier_depends(t, key, e->ids, e->n);
}

static sp_err drop(sp_tier *t, const sp_erase *e, const sp_tier_key *key)
{
    SP_TRY(sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_DROP, .key = *key}));
    if (e->gone) e->gone(e->user, key);
    return SP_OK;
}

sp_err sp_tier_erase(sp_tier *t, const sp_erase *e)
{
    key_list keys = {0};
    sp_err err =
        sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_LIST, .each = take_key, .user = &keys});
    for (size_t i = 0; i < keys.n; i++) {
        sp_err one = is_doomed(t, e, &keys.v[i]) ? drop(t, e, &keys.v[i]) : SP_OK;
        if (one != SP_OK) err = one;
    }
    sp_vec_fini(&keys);
    sp_err erased = sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_ERASE});
    return err == SP_OK ? erased : err;
}
