/* keep.c -- adds the copies that a plan has computed to the ledger, as the policy decides. Copies of chunks and
 * heads, and paths of policies that find by path only, are also written to the store, in the background.
 *
 *   path     exact after its path                head, prompt, answer
 *   plain    after the head alone                the fill
 *   fused    after other chunks                  sp_chunk_fuse, the policy inplace
 *   placed   after what preceded it, or a patch  Cache-Craft
 *
 * Without room or memory in the ledger, a later request computes them again; this one still gets its answer. */
#include "base/clock.h"
#include "base/log.h"
#include "serve/request/request.h"

/* whole_path -- the path copy of all of segment i, in the prompt's own order; NULL when there is
 * none. */
static const sp_copy *whole_path(const sp_request *r, int i)
{
    const sp_found *f = &r->look.found[i];
    bool whole = f->exact && f->copy && sp_digest_eq(&f->copy->facts.id, &r->prompt.segs[i].id);
    return whole ? f->copy : NULL;
}

/* replace -- found[i] names a copy that this request has computed; for the account the rest
 * stays. */
static void replace(sp_request *r, int i, const sp_copy *copy)
{
    sp_ledger *l = r->ctx->ledger;
    sp_ledger_pin(l, copy);
    if (r->look.found[i].copy) sp_ledger_unpin(l, r->look.found[i].copy);
    r->look.found[i].copy = copy;
    r->look.found[i].exact = copy->facts.kind == SP_COPY_PATH;
}

static sp_err store(sp_request *r, int i, const sp_copy *copy, bool must)
{
    sp_context *c = r->ctx;
    const bool storable = copy->facts.kind != SP_COPY_PATH;
    const sp_tiers_key key = {
        .copy = copy, .seg = &r->prompt.segs[i], .head = r->prompt.ids, .n_head = r->prompt.n_head};
    if (!c->tiers || !storable) return SP_OK;
    if (copy->facts.kind != SP_COPY_PLACED) SP_TRY(sp_tiers_share(c->tiers, &key));
    const bool stores = sp_tiers_has_store(c->tiers);
    if (!must && (!stores || sp_tiers_has_all(copy) || !sp_tiers_admits(c->tiers, copy, SP_AT_DISK))) return SP_OK;
    if (stores) SP_TRY(sp_tiers_store(c->tiers, &key));
    if (must && (stores || sp_tiers_remote(c->tiers))) {
        sp_ledger_pin(c->ledger, copy);
        r->must = copy;
    }
    return SP_OK;
}

/* is_worth_storing -- questions and answers are, once others continue them. */
static bool is_worth_storing(const sp_segment *seg, const sp_copy *copy)
{
    return (seg->kind != SP_SEG_QUESTION && seg->kind != SP_SEG_TEXT) || copy->children.first;
}

enum {
    SHARE = 4 /* of KV memory: while others wait for it, 1 / SHARE of it may wait to be written */
};

/* store_paths -- whatever the request has found or computed and the store lacks, root first; of policies
 * that find chunks by content the head. What is left out is written after its next use. */
static void store_paths(sp_request *r)
{
    sp_context *c = r->ctx;
    if (!sp_tiers_has_store(c->tiers)) return;
    int64_t most = sp_kv_pool_n_blocks(c->pool) / (c->waiting.first ? SHARE : 1);
    for (int i = 0; i < (r->reuse.policy->by_path ? r->prompt.n_segs : r->prompt.n_head); i++) {
        const sp_copy *copy = whole_path(r, i);
        if (!copy || !is_worth_storing(&r->prompt.segs[i], copy)) continue;
        sp_err err = sp_tiers_store_path(c->tiers, copy, most);
        if (err != SP_OK) sp_log(SP_LOG_WARN, "a copy is not stored: %s", sp_error_detail());
    }
}

/* store_missed -- writes copies of chunks that the request has found and that an unresponsive store missed earlier. */
static void store_missed(sp_request *r)
{
    if (!sp_tiers_has_missed(r->ctx->tiers)) return;
    for (int i = 0; i < r->prompt.n_segs; i++) {
        const sp_copy *copy = r->look.found[i].copy;
        if (!copy || copy->state != SP_COPY_READY) continue;
        if (store(r, i, copy, false) != SP_OK)
            sp_log(SP_LOG_WARN, "a copy is not stored: %s", sp_error_detail());
    }
}

static sp_err add(sp_request *r, sp_kept *k, const sp_copy **out)
{
    sp_context *c = r->ctx;
    sp_copy_spec *s = &k->spec;
    int parent = sp_segment_parent(r->prompt.segs, k->seg);
    if (s->facts.kind == SP_COPY_PATH && parent >= 0) {
        s->parent = whole_path(r, parent);
        if (!s->parent) return SP_OK; /* it found no room */
    }
    if (s->base)
        sp_kv_seal(c->pool, s->patch.blocks, sp_blocks_for(s->patch.n));
    else
        sp_kv_seal(c->pool, s->blocks, sp_blocks_for(s->first + s->seg->n));
    return sp_ledger_add(c->ledger, s, c->now, out);
}

void sp_request_retain(sp_request *r, int i, const sp_copy *copy)
{
    if (!copy || !r->o.retain_ms || (r->o.n_retain && i >= r->o.n_retain)) return;
    sp_ledger_retain(r->ctx->ledger, copy, sp_clock_us() + r->o.retain_ms * 1000);
}

static sp_err keep_one(sp_request *r, sp_kept *k)
{
    const sp_copy *copy = NULL;
    SP_TRY(add(r, k, &copy));
    if (!copy && k->must) return sp_fail(SP_E_NOKV, "no room to keep the copy of a chunk");
    if (!copy) return SP_OK;
    sp_request_retain(r, k->seg, copy);
    if (copy->facts.kind == SP_COPY_PATH || r->plans.role == SP_PLAN_FILL) replace(r, k->seg, copy);
    return store(r, k->seg, copy, k->must);
}

/* set_costs -- of a copy that the present plan computed. `measured`: time of a token of the plan. Loading is compared
 * with that time, or with the profile's, which does not depend on what else ran. Replacement policies read what the
 * request found and computed; a chunk that is filled in is computed as if it were alone.
 * Source: RAGCache section 5.1 (R2). */
static void set_costs(const sp_request *r, double measured, sp_copy_spec *s)
{
    const int32_t n = s->base ? s->patch.n : s->seg->n;
    if (r->plans.role != SP_PLAN_FILL) {
        s->n_fresh = r->plans.now.n_todo;
        s->n_cached = SP_MAX(r->prompt.n_tokens - s->n_fresh, 0);
    }
    const int32_t fresh = s->n_fresh ? s->n_fresh : SP_MAX(n, 1);
    const int32_t cached = s->n_fresh ? s->n_cached : s->facts.at;
    const bool profiled = r->ctx->cost.n_new > 0;
    s->facts.cost_us = (float)(n * (profiled ? sp_cost_us(&r->ctx->cost, cached, fresh) / fresh : measured));
}

/* is_there -- all of a segment is computed, in the span of its own that a copy needs. */
static bool is_there(const sp_request *r, const sp_kept *k)
{
    const sp_plan *p = &r->plans.now;
    if (k->spec.base || k->seg >= p->n_spans || k->spec.blocks != p->spans[k->seg].blocks) return false;
    for (int i = r->plans.next_todo; i < p->n_todo; i++)
        if (p->todo[i].span == k->seg) return false;
    return true;
}

/* keep -- what the policy lists; of a plan that is not at its end what is there. */
static sp_err keep(sp_request *r, bool at_end)
{
    const sp_reuse_policy *p = r->reuse.policy;
    sp_reuse_input in = sp_request_input(r);
    sp_kept_list kept = {
        .v = sp_arena_take(&r->plans.now.arena, (size_t)r->prompt.n_segs, sizeof *kept.v)};
    if (!kept.v) return sp_fail_nomem("copies to keep");
    SP_TRY(p->keep(&in, &r->plans.now, r->plans.role, &kept));
    const int n_computed = at_end ? r->plans.now.n_todo : r->plans.next_todo;
    const double measured = n_computed ? r->account.compute_us / n_computed : 0;
    r->account.compute_us = 0;
    for (int i = 0; i < kept.n; i++) {
        if (!sp_reuse_may_keep(&in, kept.v[i].seg)) continue; /* its children would have no parent */
        if (!at_end && !is_there(r, &kept.v[i])) continue;
        set_costs(r, measured, &kept.v[i].spec);
        sp_err err = keep_one(r, &kept.v[i]);
        if (err != SP_OK && kept.v[i].must) return err;
        if (err != SP_OK) sp_log(SP_LOG_WARN, "a copy is not kept: %s", sp_error_detail());
    }
    return SP_OK;
}

sp_err sp_request_keep(sp_request *r)
{
    if (!r->reuse.policy->keep) return SP_OK;
    SP_TRY(keep(r, true));
    store_paths(r);
    store_missed(r);
    return SP_OK;
}

void sp_request_keep_begun(sp_request *r)
{
    const sp_plan *p = &r->plans.now;
    const bool some = r->state == SP_REQ_PREFILL && r->plans.next_todo > 0 && r->reuse.policy->keep;
    const bool apart = !p->last_fresh; /* nodes of trees share blocks, which stay open */
    if (!some || !apart || r->loads.state == SP_LOADS_EARLY || p->probe.kind != SP_PROBE_NONE || r->measure.keep_kv)
        return;
    if (keep(r, false) != SP_OK) sp_log(SP_LOG_WARN, "copies are not kept: %s", sp_error_detail());
}

/* is_sparse -- some of its answer was computed without all of the keys: that KV is not exact. */
static bool is_sparse(const sp_request *r)
{
    return r->answer.sparse && sp_sparse_account_of(r->answer.sparse).n_steps > 0;
}

void sp_request_keep_answer(sp_request *r)
{
    sp_context *c = r->ctx;
    const sp_copy *prompt = whole_path(r, r->prompt.n_segs - 1), *out;
    if (r->state != SP_REQ_DECODE || !prompt || is_sparse(r)) return;
    const sp_span *span = &r->plans.now.spans[r->plans.answer_span];
    /* the last generated token may be planned but not computed */
    int32_t n = r->plans.next_todo == r->plans.now.n_todo ? span->n : span->n - 1;
    if (n < SP_BLOCK_TOKENS) return;
    sp_segment seg = {.kind = SP_SEG_TEXT, .tokens = r->answer.tokens.v, .n = n};
    sp_err err = sp_segment_id(&c->texts.prompts.space, r->prompt.salt, seg.tokens, n, &seg.id);
    if (err == SP_OK) {
        sp_kv_seal(c->pool, span->blocks, sp_blocks_for(n));
        err = sp_ledger_add(c->ledger,
                            &(sp_copy_spec){.seg = &seg,
                                            .facts.kind = SP_COPY_PATH,
                                            .facts.exact = true,
                                            .parent = prompt,
                                            .facts.at = span->at,
                                            .blocks = span->blocks},
                            c->now, &out);
    }
    if (err != SP_OK) sp_log(SP_LOG_WARN, "the answer was not cached: %s", sp_error_detail());
}
