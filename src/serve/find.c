/* find.c -- where the KV of each segment is, as the policy finds it; pinned until the request lets
 * go. */
#include <string.h>

#include "base/clock.h"

#include "serve/request_int.h"

sp_reuse_input sp_request_input(const sp_request *r)
{
    const sp_reuse_choice *o = &r->reuse;
    sp_reuse_input in = {.segs = r->segs,
                         .n_segs = r->n_segs,
                         .ids = r->ids,
                         .n_head = r->n_head,
                         .found = r->found,
                         .recompute = o->policy->recomputes ? o->recompute : 0,
                         .alpha = o->alpha,
                         .focus = o->focus,
                         .unfused = o->unfused,
                         .exact_first = o->exact_first,
                         .warm = r->max_tokens == 0,
                         .answer_room = r->max_tokens,
                         .window = r->window,
                         .n_layers = r->ctx->model->hp.n_layers,
                         .last = r->last.n_spans ? &r->last : NULL};
    memcpy(in.n_done, r->n_done, sizeof in.n_done);
    return in;
}

void sp_request_unpin(sp_request *r, sp_found *found)
{
    for (int i = 0; i < r->n_segs; i++) {
        if (found[i].copy) sp_ledger_unpin(r->ctx->ledger, found[i].copy);
        found[i] = (sp_found){0};
    }
}

/* has_own_salt -- it is of another tenant than the context. */
static bool has_own_salt(const sp_request *r)
{
    const char *salt = r->ctx->salt;
    return r->salt && (!salt || strcmp(r->salt, salt) != 0);
}

/* note_elsewhere -- a chunk that the ledger knows nothing of may be in the store for another model;
 * that is known of the context's own tenant only. */
static void note_elsewhere(sp_request *r, sp_found *found)
{
    const sp_tiers *t = has_own_salt(r) ? NULL : r->ctx->tiers;
    for (int i = 0; sp_tiers_has_store(t) && i < r->n_segs; i++) {
        bool is_new = found[i].miss == SP_MISS_NEVER_SEEN || found[i].miss == SP_MISS_EDITED;
        if (is_new && sp_tiers_has_elsewhere(t, &r->segs[i], r->segs, r->n_head))
            found[i].miss = SP_MISS_OTHER_MODEL;
    }
}

/* look -- fills `found`, which is empty before; on failure it is empty again. */
static sp_err look(sp_request *r, bool ready_only, sp_found *found)
{
    sp_context *c = r->ctx;
    sp_reuse_input in = sp_request_input(r);
    in.found = found;
    sp_finder f = {.in = &in,
                   .ledger = c->ledger,
                   .arena = &r->lookup,
                   .now = ++c->now,
                   .ready_only = ready_only};
    int64_t start = sp_clock_us();
    sp_err err = r->reuse.policy->find(&f);
    if (err == SP_OK)
        note_elsewhere(r, found);
    else
        sp_request_unpin(r, found);
    r->plan_us += sp_clock_us() - start;
    return err;
}

sp_err sp_request_find(sp_request *r)
{
    int64_t n_added = sp_ledger_stats_of(r->ctx->ledger).n_added;
    if (r->found_at == n_added) return SP_OK;
    sp_request_let_go(r);
    sp_arena_reset(&r->lookup);
    r->plan_us = 0;
    SP_TRY(look(r, r->text_only, r->found));
    r->found_at = n_added;
    return SP_OK;
}

sp_err sp_request_look(sp_request *r, sp_found *found)
{
    const sp_ledger_stats before = sp_ledger_stats_of(r->ctx->ledger);
    int64_t plan_us = r->plan_us;
    sp_err err = look(r, false, found);
    sp_ledger_uncount(r->ctx->ledger, &before);
    r->plan_us = plan_us;
    return err;
}

/* remember -- what the account says of a segment stays as it was when the request came. */
static void remember(const sp_found *old, bool computed, sp_found *now)
{
    bool same = now->copy && now->copy == old->copy;
    if (computed || same) now->source = old->source;
    if (!now->copy || now->source == SP_FROM_NOWHERE)
        if (old->miss != SP_MISS_NONE) now->miss = old->miss;
}

sp_err sp_request_find_again(sp_request *r, bool ready_only, bool computed)
{
    size_t n = (size_t)r->n_segs;
    sp_arena_reset(&r->lookup);
    sp_found *now = sp_arena_take(&r->lookup, n, sizeof *now);
    if (!now) return sp_fail_nomem(n * sizeof *now, "a look-up");
    SP_TRY(look(r, ready_only, now));
    for (int i = 0; i < r->n_segs; i++) remember(&r->found[i], computed, &now[i]);
    sp_request_unpin(r, r->found); /* only now: what is found in both stays pinned */
    memcpy(r->found, now, n * sizeof *now);
    return SP_OK;
}

void sp_request_let_go(sp_request *r)
{
    sp_plan_fini(&r->plan);
    sp_plan_fini(&r->last);
    sp_request_unpin(r, r->found);
    if (r->must) sp_ledger_unpin(r->ctx->ledger, r->must);
    r->must = NULL;
    r->found_at = -1;
}
