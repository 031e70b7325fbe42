/* keep.c -- what a plan has computed enters the caches, each copy where it is true:
 *
 *   exact behind its path       knowledge tree    head, prompt, answer
 *   behind the head alone       chunk index       plain copies, from the fill; offline: the store
 *   behind similar chunks       chunk index       fused copy; and the store
 *   behind what stood there     chunk index       placed copies and patches (Cache-Craft)
 *
 * A cache that has no room, or no memory, costs the next request time, never this one its answer.
 */
#include "base/log.h"
#include "serve/context_int.h"

static void warn(const char *what, sp_err err)
{
    if (err != SP_OK) sp_log(SP_LOG_WARN, "%s not cached: %s", what, sp_error_detail());
}

static void seal(sp_request *r, int span)
{
    const sp_span *s = &r->plan.spans[span];
    sp_kv_seal(r->ctx->pool, s->blocks, sp_blocks_for(s->n));
}

/* keep_path -- segments from the end of the match on enter the tree. */
static sp_err keep_path(sp_request *r, int n_segs)
{
    sp_context *c = r->ctx;
    bool added = r->match.tip != NULL;
    for (int i = r->match.n_path; i < n_segs && added; i++) {
        SP_TRY(sp_tree_extend(c->cache.tree, &r->match, &r->segs[i], r->plan.spans[i].blocks,
                              c->now, &added));
        if (added) r->match.path[r->match.n_path++] = r->match.tip;
    }
    return SP_OK;
}

/* store -- a copy of segment i goes to disk. */
static sp_err store(sp_request *r, int i, sp_disk_kind kind, const sp_variant *v)
{
    sp_disk_key key = {.kind = kind, .seg = &r->segs[i], .head = r->ids, .n_head = r->n_head};
    return sp_disk_put(r->ctx->disk, &key,
                       &(sp_disk_copy){.before = v->before, .n_before = v->n_before, .at = v->at},
                       v->blocks);
}

/* keep_plain -- into memory; and the store when this is offline work, where time is cheap. */
static sp_err keep_plain(sp_request *r)
{
    sp_context *c = r->ctx;
    bool added;
    for (int i = r->n_head; i < r->n_segs; i++) {
        const sp_span *s = &r->plan.spans[i];
        if (r->segs[i].kind != SP_SEG_CHUNK || s->n == 0) continue;
        sp_variant v = {.kind = SP_COPY_PLAIN,
                        .before = r->ids,
                        .n_before = r->n_head,
                        .at = s->at,
                        .blocks = s->blocks,
                        .heavy = sp_reuse_heavy(&r->plan, i)};
        SP_TRY(sp_chunks_insert(c->cache.chunks, &r->segs[i], &v, c->now, &added));
        if (c->disk && r->fuse) SP_TRY(store(r, i, SP_DISK_PLAIN, &v));
    }
    return SP_OK;
}

static sp_err keep_placed(sp_request *r)
{
    sp_context *c = r->ctx;
    sp_reuse_input in = sp_request_input(r);
    for (int i = r->n_head; i < r->n_segs; i++) {
        sp_variant v;
        bool added;
        if (r->segs[i].kind != SP_SEG_CHUNK) continue;
        if (!sp_reuse_learned(&in, &r->plan, i, &v)) continue;
        SP_TRY(sp_chunks_insert(c->cache.chunks, &r->segs[i], &v, c->now, &added));
    }
    return SP_OK;
}

/* keep_fused -- the last segment, into memory and the store. A store that cannot be written is an
 * error: the copy is all that the request was for. */
static sp_err keep_fused(sp_request *r)
{
    sp_context *c = r->ctx;
    int last = r->n_segs - 1;
    sp_variant v;
    bool added;
    sp_reuse_input in = sp_request_input(r);
    if (!sp_reuse_learned(&in, &r->plan, last, &v)) return sp_fail_nomem(sizeof v, "a fused copy");
    v.kind = SP_COPY_FUSED;
    warn("fused chunk", sp_chunks_insert(c->cache.chunks, &r->segs[last], &v, c->now, &added));
    return c->disk ? store(r, last, SP_DISK_FUSED, &v) : SP_OK;
}

void sp_request_keep_fill(sp_request *r)
{
    for (int i = 0; i < r->n_segs; i++) seal(r, i);
    warn("system prompt", keep_path(r, r->n_head));
    warn("chunks", keep_plain(r));
    warn("chunks", sp_request_find_chunks(r));
}

sp_err sp_request_keep_prompt(sp_request *r)
{
    const sp_reuse_policy *p = r->reuse.policy;
    if (r->fuse) {
        seal(r, r->n_segs - 1);
        return keep_fused(r);
    }
    if (p->places) {
        for (int i = 0; i < r->plan.n_spans - 1; i++) seal(r, i);
        warn("system prompt", keep_path(r, r->n_head));
        warn("chunks", keep_placed(r));
        r->plan.gate = (sp_gate){0}; /* decoding has nothing to measure */
    } else if (!p->uses_chunks && sp_request_in_order(r)) {
        for (int i = 0; i < r->n_segs; i++) seal(r, i);
        warn("prompt", keep_path(r, r->n_segs));
    }
    return SP_OK;
}

/* The answer's KV becomes a node below the prompt: the next turn of a chat repeats it. */
void sp_request_keep_answer(sp_request *r)
{
    if (r->state != SP_REQ_DECODE || r->reuse.policy->uses_chunks || !sp_request_in_order(r))
        return; /* none, or an approximate one */
    sp_context *c = r->ctx;
    const sp_span *span = &r->plan.spans[r->answer_span];
    /* the last generated token may be planned but not computed */
    int32_t n = r->next_todo == r->plan.n_todo ? span->n : span->n - 1;
    bool added = false;
    if (n < SP_BLOCK_TOKENS) return;
    if (!r->match.tip || r->match.n_path < r->n_segs)
        return; /* its prompt is not whole in the tree */
    sp_segment seg = {.kind = SP_SEG_TEXT, .tokens = r->tokens.v, .n = n};
    sp_err err = sp_segment_id(&c->prompts.space, c->salt, seg.tokens, n, &seg.id);
    if (err == SP_OK) {
        sp_kv_seal(c->pool, span->blocks, sp_blocks_for(n));
        err = sp_tree_extend(c->cache.tree, &r->match, &seg, span->blocks, c->now, &added);
    }
    warn("answer", err);
}
