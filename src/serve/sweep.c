/* sweep.c -- removes from the store the copies of chunks that are in no document any more. */
#include <stdlib.h>
#include <string.h>

#include "base/need.h"
#include "serve/context_int.h"

typedef SP_VEC(sp_digest) digests;

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(sp_digest));
}

static bool is_among(const sp_digest *id, void *user)
{
    const digests *d = user;
    return d->n && bsearch(id, d->v, d->n, sizeof *d->v, by_bytes);
}

/* add_id -- the content id that a chunk has in prompts. */
static sp_err add_id(sp_context *c, const sp_hit *chunk, digests *out)
{
    sp_prompt *p;
    SP_TRY(sp_prompt_create(c, &p));
    sp_err err = sp_prompt_system(p, ""); /* a chunk never begins a prompt */
    size_t before = p->segs.n;
    if (err == SP_OK) err = sp_prompt_chunk(p, chunk->title, chunk->text);
    if (err == SP_OK) err = sp_vec_reserve(out, 1);
    if (err == SP_OK && p->segs.n > before) out->v[out->n++] = p->segs.v[before].id;
    sp_prompt_destroy(p);
    return err;
}

static sp_err ids_of(sp_context *c, sp_index *ix, digests *out)
{
    for (int64_t id = 0;;) {
        sp_hits hits;
        SP_TRY(sp_index_chunk(ix, id, &hits));
        bool any = hits.n > 0;
        sp_err err = any ? add_id(c, &hits.v[0], out) : SP_OK;
        if (any) id = hits.v[0].id;
        sp_hits_fini(&hits);
        if (err != SP_OK || !any) return err;
    }
}

typedef struct retain_args {
    sp_index *index;
    int64_t n_removed;
} retain_args;

static sp_err retain(sp_context *c, void *arg)
{
    retain_args *a = arg;
    if (!c->tiers) return sp_fail(SP_E_ARG, "the context has no store");
    digests known = {0};
    sp_err err = ids_of(c, a->index, &known);
    if (err == SP_OK && known.n) qsort(known.v, known.n, sizeof *known.v, by_bytes);
    if (err == SP_OK) err = sp_tiers_retain(c->tiers, is_among, &known, &a->n_removed);
    sp_vec_fini(&known);
    return err;
}

sp_err sp_store_retain(sp_context *c, sp_index *ix, int64_t *n_removed)
{
    SP_NEED(c);
    SP_NEED(ix);
    retain_args a = {.index = ix};
    sp_err err = sp_driver_call(c, retain, &a);
    if (n_removed) *n_removed = a.n_removed;
    return err;
}
