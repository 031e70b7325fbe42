/* find.c -- finds a copy for each segment, as the policy decides; copies stay pinned until the request lets go. */
#include <string.h>

#include "base/clock.h"

#include "serve/request/request.h"

sp_reuse_input sp_request_input(const sp_request *r)
{
    const sp_reuse_choice *o = &r->reuse;
    sp_reuse_input in = {.segs = r->prompt.segs,
                         .n_segs = r->prompt.n_segs,
                         .ids = r->prompt.ids,
                         .n_head = r->prompt.n_head,
                         .found = r->look.found,
                         .recompute = o->policy->recomputes ? o->recompute : 0,
                         .by_segment = r->o.citations,
                         .unfused = o->unfused,
                         .exact_first = o->exact_first,
                         .keep_chunks = r->answer.max_tokens ? r->ctx->keep_chunks : 0,
                         .warm = r->answer.max_tokens == 0,
                         .answer_room = r->answer.max_tokens,
                         .window = r->answer.window,
                         .n_layers = r->ctx->model->hp.n_layers,
                         .max_rows = r->ctx->limits.n_batch,
                         .last = r->plans.last.n_spans ? &r->plans.last : NULL};
    memcpy(in.n_done, r->plans.n_done, sizeof in.n_done);
    memcpy(in.params, o->params, sizeof in.params);
    return in;
}

void sp_request_unpin(sp_request *r, sp_found *found)
{
    for (int i = 0; i < r->prompt.n_segs; i++) {
        if (found[i].copy) sp_ledger_unpin(r->ctx->ledger, found[i].copy);
        found[i] = (sp_found){0};
    }
}

void *sp_request_scratch(sp_request *r, size_t size)
{
    sp_arena_reset(&r->look.arena);
    return sp_arena_take(&r->look.arena, (size_t)r->prompt.n_segs, size);
}

const sp_copy *sp_request_peek_chunk(const sp_request *r, int i)
{
    const sp_reuse_policy *p = r->reuse.policy;
    const sp_content_query q = {.seg = &r->prompt.segs[i], .head = r->prompt.ids, .n_head = r->prompt.n_head};
    if (r->prompt.segs[i].kind != SP_SEG_CHUNK || !p->peek) return NULL;
    return p->peek(r->ctx->ledger, &q, r->reuse.unfused);
}

/* has_own_salt -- whether its tenant is not the context's. */
static bool has_own_salt(const sp_request *r)
{
    const char *salt = r->ctx->salt;
    return r->prompt.salt && (!salt || strcmp(r->prompt.salt, salt) != 0);
}

/* explain -- says of segments that no copy serves what the store has of them. It has names of the context's own tenant
 * only. */
static void explain(const sp_request *r, sp_found *found)
{
    const sp_request_prompt *p = &r->prompt;
    if (has_own_salt(r)) return;
    for (int i = 0; i < p->n_segs; i++) {
        const bool is_chunk = i >= p->n_head && p->segs[i].kind == SP_SEG_CHUNK && !found[i].copy;
        const sp_tiers_miss miss = {.segs = p->segs, .ids = p->ids, .i = i, .n_head = p->n_head,
                                    .unread = is_chunk && r->reuse.policy->by_path, .why = (sp_miss)found[i].miss};
        found[i].miss = (uint8_t)sp_tiers_explain(r->ctx->tiers, &miss);
    }
}

/* look -- fills `found`, which must be empty and stays empty on failure. */
static sp_err look(sp_request *r, bool ready_only, sp_found *found)
{
    sp_context *c = r->ctx;
    sp_reuse_input in = sp_request_input(r);
    in.found = found;
    sp_finder f = {.in = &in,
                   .ledger = c->ledger,
                   .arena = &r->look.arena,
                   .now = ++c->now,
                   .ready_only = ready_only};
    int64_t start = sp_clock_us();
    sp_err err = r->reuse.policy->find(&f);
    if (err != SP_OK) sp_request_unpin(r, found);
    r->plans.us += sp_clock_us() - start;
    return err;
}

sp_err sp_request_find(sp_request *r)
{
    int64_t n_added = sp_ledger_stats_of(r->ctx->ledger).n_added;
    if (r->look.at == n_added) return SP_OK;
    sp_request_let_go(r);
    sp_arena_reset(&r->look.arena);
    r->plans.us = 0;
    SP_TRY(look(r, r->loads.state == SP_LOADS_READY_ONLY, r->look.found));
    const int64_t start = sp_clock_us();
    explain(r, r->look.found);
    r->plans.us += sp_clock_us() - start;
    r->look.at = n_added;
    return SP_OK;
}

sp_err sp_request_look(sp_request *r, sp_found *found)
{
    const sp_ledger_stats before = sp_ledger_stats_of(r->ctx->ledger);
    int64_t plan_us = r->plans.us;
    sp_err err = look(r, false, found);
    sp_ledger_uncount(r->ctx->ledger, &before);
    r->plans.us = plan_us;
    return err;
}

/* remember -- saves for the account what was found when the request arrived. */
static void remember(const sp_found *old, bool computed, sp_found *now)
{
    bool same = now->copy && now->copy == old->copy;
    if (computed || same) now->source = old->source;
    if (!now->copy || now->source == SP_AT_NONE)
        if (old->miss != SP_MISS_NONE) now->miss = old->miss;
}

sp_err sp_request_find_again(sp_request *r, bool ready_only, bool computed)
{
    size_t n = (size_t)r->prompt.n_segs;
    sp_found *now = sp_request_scratch(r, sizeof *now);
    if (!now) return sp_fail_nomem("a look-up");
    SP_TRY(look(r, ready_only, now));
    for (int i = 0; i < r->prompt.n_segs; i++) remember(&r->look.found[i], computed, &now[i]);
    sp_request_unpin(r, r->look.found); /* only now: what is found in both stays pinned */
    memcpy(r->look.found, now, n * sizeof *now);
    return SP_OK;
}

void sp_request_let_go(sp_request *r)
{
    sp_plan_fini(&r->plans.now);
    sp_plan_fini(&r->plans.last);
    sp_request_unpin(r, r->look.found);
    if (r->must) sp_ledger_unpin(r->ctx->ledger, r->must);
    r->must = NULL;
    r->look.at = -1;
}
