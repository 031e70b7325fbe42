/* lookup.c -- what memory and disk know of a prompt, pinned until the request lets go.
 *
 *   knowledge tree   the longest known path: of the whole prompt, or of its head
 *   chunk index      a copy of each chunk: fused if there is one, else plain; or, for a policy that
 *                    chooses, the best of its variants
 *   store            copies that memory does not have are read into it first
 */
#include <string.h>

#include "base/log.h"
#include "serve/context_int.h"

/* -- the store ------------------------------------------------------------------------------ */

static sp_disk_key key_of(const sp_request *r, int i, sp_disk_kind kind)
{
    return (sp_disk_key){.kind = kind, .seg = &r->segs[i], .head = r->ids, .n_head = r->n_head};
}

/* enter -- a copy read from disk goes into the chunk index; false when it finds no room there. */
static bool enter(sp_request *r, int i, sp_copy_kind kind, const sp_disk_copy *copy,
                  const uint32_t *blocks)
{
    bool added = false;
    sp_variant v = {.kind = kind,
                    .before = copy->before,
                    .n_before = copy->n_before,
                    .at = copy->at,
                    .blocks = blocks};
    sp_err err = sp_chunks_insert(r->ctx->cache.chunks, &r->segs[i], &v, r->ctx->now, &added);
    if (err != SP_OK) sp_log(SP_LOG_WARN, "chunk from the store not cached: %s", sp_error_detail());
    return err == SP_OK && added;
}

static bool load(sp_request *r, int i, sp_copy_kind kind)
{
    sp_context *c = r->ctx;
    sp_disk_key key = key_of(r, i, kind == SP_COPY_FUSED ? SP_DISK_FUSED : SP_DISK_PLAIN);
    int32_t n = sp_blocks_for(r->segs[i].n);
    if (!c->disk || !sp_disk_has(c->disk, &key)) return false;
    if (!sp_cache_free_up(&c->cache, c->reserved + n)) return false;
    uint32_t *blocks = sp_arena_take(&r->lookup, (size_t)n, sizeof *blocks);
    if (!blocks || sp_kv_acquire(c->pool, n, blocks) != SP_OK) return false;
    sp_disk_copy copy;
    bool there = sp_disk_load(c->disk, &key, blocks, &copy);
    sp_kv_seal(c->pool, blocks, n);
    there = there && enter(r, i, kind, &copy, blocks);
    sp_kv_release(c->pool, blocks, n);
    return there;
}

/* -- copies of chunks ----------------------------------------------------------------------- */

static const sp_variant *in_memory(sp_request *r, int i, sp_copy_kind kind)
{
    sp_chunks *chunks = r->ctx->cache.chunks;
    return kind == SP_COPY_FUSED
               ? sp_chunks_find_fused(chunks, &r->segs[i], r->ids, r->n_head, r->ctx->now)
               : sp_chunks_find(chunks, &r->segs[i], r->ids, r->n_head, r->ctx->now);
}

/* find_kind -- in memory, or brought there. */
static const sp_variant *find_kind(sp_request *r, int i, sp_copy_kind kind)
{
    const sp_variant *v = in_memory(r, i, kind);
    if (v) {
        r->sources[i] = SP_FROM_MEMORY;
    } else if (load(r, i, kind)) {
        v = in_memory(r, i, kind);
        if (v) r->sources[i] = SP_FROM_DISK;
    }
    return v;
}

static const sp_variant *find_copy(sp_request *r, int i)
{
    bool heavy = r->reuse.policy->wants_heavy;
    const sp_variant *v = NULL;
    if (!r->reuse.unfused && !heavy) v = find_kind(r, i, SP_COPY_FUSED);
    if (!v) v = find_kind(r, i, SP_COPY_PLAIN);
    if (v && heavy && !v->heavy) { /* computed for another policy: once more, and measured */
        sp_chunks_unpin(r->ctx->cache.chunks, v);
        v = NULL;
    }
    return v;
}

sp_reuse_input sp_request_input(const sp_request *r)
{
    const sp_reuse_choice *o = &r->reuse;
    return (sp_reuse_input){.segs = r->segs,
                            .n_segs = r->n_segs,
                            .ids = r->ids,
                            .n_head = r->n_head,
                            .match = &r->match,
                            .order = r->order,
                            .chunks = r->chunks,
                            .known = r->known,
                            .answer_room = r->max_tokens,
                            .n_layers = r->ctx->model->hp.n_layers,
                            .recompute = o->policy->selects ? o->recompute : 0,
                            .alpha = o->alpha,
                            .focus = o->focus,
                            .unfused = o->unfused,
                            .wants_heavy = o->policy->wants_heavy,
                            .probed = r->probed.n_todo ? &r->probed : NULL};
}

/* choose_variant -- pins all measured copies of a chunk, lets the policy choose, keeps that one. */
static sp_err choose_variant(sp_request *r, int i)
{
    sp_chunks *chunks = r->ctx->cache.chunks;
    const sp_variant **all;
    int n;
    SP_TRY(sp_chunks_find_all(chunks, &r->segs[i], r->ids, r->n_head, &r->lookup, &all, &n));
    r->known[i] = (sp_copies){all, n};
    sp_reuse_input in = sp_request_input(r);
    int best = n ? r->reuse.policy->choose(&in, i, &r->cfo[i]) : -1;
    for (int k = 0; k < n; k++)
        if (k != best) sp_chunks_unpin(chunks, all[k]);
    if (best >= 0) {
        r->chunks[i] = all[best];
        r->sources[i] = SP_FROM_MEMORY;
    }
    return SP_OK;
}

sp_err sp_request_find_chunks(sp_request *r)
{
    for (int i = SP_MAX(r->n_head, r->match.n_path); i < r->n_segs; i++) {
        if (r->segs[i].kind != SP_SEG_CHUNK || r->chunks[i]) continue;
        if (r->reuse.policy->choose)
            SP_TRY(choose_variant(r, i));
        else
            r->chunks[i] = find_copy(r, i);
    }
    return SP_OK;
}

/* -- the prompt ----------------------------------------------------------------------------- */

/* match_in_order -- the tree, asked in the order that it knows most of. */
static sp_err match_in_order(sp_request *r)
{
    sp_context *c = r->ctx;
    size_t n = (size_t)r->n_segs;
    if (!r->order) r->order = sp_arena_take(&r->arena, n, sizeof *r->order);
    sp_segment *segs = sp_arena_take(&r->lookup, n, sizeof *segs);
    if (!r->order || !segs) return sp_fail_nomem(n * sizeof *segs, "an order of chunks");
    SP_TRY(sp_tree_order(c->cache.tree, r->segs, r->n_segs, r->n_head, r->order));
    for (int i = 0; i < r->n_segs; i++) segs[i] = r->segs[r->order[i]];
    return sp_tree_match(c->cache.tree, segs, r->n_segs, c->now, &r->lookup, &r->match);
}

/* longest_path -- segments that a chunk policy asks the tree for: the head; or all but what must be
 * computed. A warm-up wants copies of every chunk. Source: FusionRAG section 4.1 (row F5). */
static int longest_path(const sp_request *r)
{
    return r->reuse.exact_first && r->max_tokens > 0 ? r->n_segs - 1 : r->n_head;
}

sp_err sp_request_look_up(sp_request *r)
{
    sp_context *c = r->ctx;
    const sp_reuse_policy *p = r->reuse.policy;
    int n_path = p->uses_chunks ? longest_path(r) : r->n_segs;
    ++c->now;
    sp_arena_reset(&r->lookup); /* a request that waits looks up again */
    memset(r->sources, 0, (size_t)r->n_segs * sizeof *r->sources);
    if (p->reorders)
        SP_TRY(match_in_order(r));
    else if (p->uses_tree)
        SP_TRY(sp_tree_match(c->cache.tree, r->segs, n_path, c->now, &r->lookup, &r->match));
    return p->uses_chunks ? sp_request_find_chunks(r) : SP_OK;
}

bool sp_request_in_order(const sp_request *r)
{
    for (int i = 0; r->order && i < r->n_segs; i++)
        if (r->order[i] != i) return false;
    return true;
}

void sp_request_let_go(sp_request *r)
{
    sp_context *c = r->ctx;
    sp_plan_fini(&r->plan);
    sp_plan_fini(&r->probed);
    sp_tree_release(c->cache.tree, &r->match);
    for (int i = 0; i < r->n_segs; i++) {
        if (r->chunks[i]) sp_chunks_unpin(c->cache.chunks, r->chunks[i]);
        r->chunks[i] = NULL;
    }
}
