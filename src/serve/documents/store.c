/* index.c -- an index and its store: how large the copies of all chunks and their head are, and which copies are of
 * chunks that are in no document any more. */
#include <stdlib.h>
#include <string.h>

#include "base/need.h"
#include "serve/request/context.h"
#include "store/disk/folder.h"
#include "store/moves.h"

enum { MOST_SIMILAR = 16 /* chunks before a fused copy; their ids are a part of its header */ };

typedef SP_VEC(sp_digest) digests;

/* A chunk, and its copy. */
typedef struct sized {
    sp_digest id;
    int32_t n;
    int64_t one; /* bytes of a copy */
    bool has_plain, has_fused;
} sized;

static sp_err need_store(const sp_context *c)
{
    return sp_tiers_has_store(c->tiers) ? SP_OK : sp_fail(SP_E_ARG, "the context has no store");
}

/* Called for every chunk of an index: the segment that it is in prompts. */
typedef sp_err chunk_fn(sp_context *c, const sp_segment *head, int n_head, const sp_segment *seg,
                        void *user);

static sp_err visit_chunk(sp_context *c, const char *system, const sp_hit *chunk, chunk_fn *fn,
                          void *user)
{
    sp_prompt *p;
    SP_TRY(sp_prompt_create(c, &p));
    sp_err err = sp_prompt_system(p, system); /* a chunk never begins a prompt */
    size_t before = p->segs.n;
    if (err == SP_OK) err = sp_prompt_chunk(p, chunk->title, chunk->text);
    if (err == SP_OK && p->segs.n > before)
        err = fn(c, p->segs.v, (int)before, &p->segs.v[before], user);
    sp_prompt_destroy(p);
    return err;
}

static sp_err each_chunk(sp_context *c, sp_index *ix, const char *system, chunk_fn *fn, void *user)
{
    for (int64_t id = 0;;) {
        sp_hits hits;
        SP_TRY(sp_index_chunk(ix, id, &hits));
        bool any = hits.n > 0;
        sp_err err = any ? visit_chunk(c, system, &hits.v[0], fn, user) : SP_OK;
        if (any) id = hits.v[0].id;
        sp_hits_fini(&hits);
        if (err != SP_OK || !any) return err;
    }
}

/* -- what is in no document any more -------------------------------------------------------- */

static sp_err add_id(sp_context *c, const sp_segment *head, int n_head, const sp_segment *seg,
                     void *user)
{
    digests *out = user;
    SP_UNUSED(c);
    SP_UNUSED(head);
    SP_UNUSED(n_head);
    SP_TRY(sp_vec_reserve(out, 1));
    out->v[out->n++] = seg->id;
    return SP_OK;
}

typedef struct retain_args {
    sp_index *index;
    sp_tiers_sweep *sweep;
    int64_t n_removed;
} retain_args;

/* begin_retain -- path copies that contain a chunk that goes are deleted with it. */
static sp_err begin_retain(sp_context *c, void *arg)
{
    retain_args *a = arg;
    SP_TRY(need_store(c));
    digests known = {0};
    sp_err err = each_chunk(c, a->index, "", add_id, &known);
    sp_digests_sort(known.v, known.n);
    const sp_sweep_opts o = {
        .ids = known.v, .n = known.n, .keep = true, .after = 1u << SP_COPY_PATH};
    if (err == SP_OK) err = sp_tiers_sweep_begin(c->tiers, &o, SP_AT_DISK, &a->sweep);
    sp_vec_fini(&known);
    return err;
}

static sp_err end_retain(sp_context *c, void *arg)
{
    retain_args *a = arg;
    SP_UNUSED(c);
    return sp_tiers_sweep_end(a->sweep, &a->n_removed);
}

sp_err sp_store_retain(sp_context *c, sp_index *ix, int64_t *n_removed)
{
    SP_NEED(c);
    SP_NEED(ix);
    retain_args a = {.index = ix};
    sp_err err = sp_driver_call(c, begin_retain, &a);
    if (err == SP_OK) sp_tiers_sweep_wait(a.sweep);
    if (err == SP_OK) err = sp_driver_call(c, end_retain, &a);
    if (n_removed) *n_removed = a.n_removed;
    return err;
}

/* -- how large -------------------------------------------------------------------------------- */

typedef struct estimate_args {
    sp_index *index;
    const char *system;
    SP_VEC(sized) all;
    sp_store_need need;
} estimate_args;

/* measure_head -- the path copies of the segments before all chunks. */
static void measure_head(const sp_context *c, const sp_segment *head, const sp_digest *ids,
                         int n_head, sp_store_need *need)
{
    for (int i = 0; i < n_head; i++) {
        const sp_tiers_key key = {.seg = &head[i], .head = ids, .n_head = i};
        const int64_t bytes = sp_move_bytes(c->pool, head[i].n, i);
        const int64_t fresh = sp_tiers_has(c->tiers, &key, SP_COPY_PATH) ? 0 : bytes;
        need->bytes += bytes;
        need->plain_bytes += bytes;
        need->new_bytes += fresh;
        need->new_plain_bytes += fresh;
    }
}

/* measure -- the plain and the fused copy of a chunk. */
static sp_err measure(sp_context *c, const sp_segment *head, int n_head, const sp_segment *seg,
                      void *user)
{
    estimate_args *a = user;
    sp_digest *ids = sp_alloc((size_t)n_head + 1, sizeof *ids);
    if (!ids) return sp_fail_nomem("the head of a chunk");
    for (int i = 0; i < n_head; i++) ids[i] = head[i].id;
    if (!a->all.n) measure_head(c, head, ids, n_head, &a->need);
    const sp_tiers_key key = {.seg = seg, .head = ids, .n_head = n_head};
    const int64_t one = sp_move_bytes(c->pool, seg->n, n_head + MOST_SIMILAR);
    sp_err err = sp_vec_reserve(&a->all, 1);
    const sized s = {.id = seg->id,
                     .n = seg->n,
                     .one = one,
                     .has_plain = sp_tiers_has(c->tiers, &key, SP_COPY_PLAIN),
                     .has_fused = sp_tiers_has(c->tiers, &key, SP_COPY_FUSED)};
    if (err == SP_OK) a->all.v[a->all.n++] = s;
    sp_free(ids);
    return err;
}

static int by_id(const void *a, const void *b)
{
    return memcmp(((const sized *)a)->id.b, ((const sized *)b)->id.b, sizeof(sp_digest));
}

static sp_err estimate(sp_context *c, void *arg)
{
    estimate_args *a = arg;
    SP_TRY(need_store(c));
    sp_err err = each_chunk(c, a->index, a->system, measure, a);
    if (err == SP_OK && a->all.n) qsort(a->all.v, a->all.n, sizeof *a->all.v, by_id);
    for (size_t i = 0; err == SP_OK && i < a->all.n; i++) {
        const sized *s = &a->all.v[i];
        if (i && by_id(s, s - 1) == 0) continue; /* equal texts share a copy */
        a->need.n_chunks++;
        a->need.n_tokens += s->n;
        a->need.bytes += 2 * s->one;
        a->need.plain_bytes += s->one;
        a->need.new_plain_bytes += s->has_plain ? 0 : s->one;
        a->need.new_bytes += (s->has_plain ? 0 : s->one) + (s->has_fused ? 0 : s->one);
    }
    sp_vec_fini(&a->all);
    return err;
}

sp_err sp_store_estimate(sp_context *c, sp_index *ix, const char *system, sp_store_need *out)
{
    SP_NEED(c);
    SP_NEED(ix);
    SP_NEED(out);
    estimate_args a = {.index = ix, .system = system ? system : ""};
    SP_TRY(sp_driver_call(c, estimate, &a));
    *out = a.need;
    return SP_OK;
}

static sp_err describe(sp_context *c, void *arg)
{
    sp_folder_space disk;
    SP_TRY(need_store(c));
    SP_TRY(sp_folder_space_of(c->store, &disk));
    const sp_tier_stats s = sp_tier_stats_of(sp_tiers_tier(c->tiers));
    *(sp_store_info *)arg = (sp_store_info){
        .dir = c->store,
        .n_copies = s.n_copies,
        .bytes = s.bytes_live,
        .max_bytes = s.bytes_max,
        .disk_free = disk.free,
        .disk_reserve = disk.reserve,
        .token_bytes = (int64_t)(sp_kv_block_bytes(sp_kv_pool_shape(c->pool)) / SP_BLOCK_TOKENS),
        .writes = sp_tiers_writes(c->tiers)};
    return SP_OK;
}

sp_err sp_store_describe(sp_context *c, sp_store_info *out)
{
    SP_NEED(c);
    SP_NEED(out);
    sp_store_info info;
    SP_TRY(sp_driver_call(c, describe, &info));
    *out = info;
    return SP_OK;
}
