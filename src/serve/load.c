/* load.c -- copies that were found in the store come to the device; requests that decode go on
 * meanwhile.
 *
 *   found FREE ---begin---> LOADING ---the I/O thread has read it---> READY
 *       | no room              | damaged, or gone
 *       v                      v
 *     a miss with its reason: the policy looks again, for what is left
 */
#include "serve/request_int.h"

void sp_request_load_failed(void *context, const sp_copy *copy, sp_miss why)
{
    const sp_context *c = context;
    for (sp_request *r = c->queue; r; r = r->next)
        for (int i = 0; i < r->n_segs; i++)
            if (r->found[i].copy == copy) r->found[i].miss = (uint8_t)why;
}

static void begin(sp_request *r, int i);

/* begin_parent -- what a path copy continues is loaded before it. */
static void begin_parent(sp_request *r, int i)
{
    const sp_copy *parent = r->found[i].copy->parent;
    if (!parent || parent->state != SP_COPY_FREE) return;
    for (int k = 0; k < r->n_segs; k++)
        if (r->found[k].copy == parent && r->found[k].miss == SP_MISS_NONE) begin(r, k);
}

/* begin -- loads the copy of segment i; a copy that cannot be loaded now has a reason why. */
static void begin(sp_request *r, int i)
{
    sp_context *c = r->ctx;
    begin_parent(r, i);
    sp_tiers_key key = {
        .copy = r->found[i].copy, .seg = &r->segs[i], .head = r->ids, .n_head = r->n_head};
    sp_err err = sp_tiers_load(c->tiers, &key, c->reserved, c->now);
    if (err != SP_OK) r->found[i].miss = SP_MISS_NO_ROOM;
}

/* look_for_rest -- what could not be loaded is looked for once more: a damaged copy is in no tier
 * any more, and where there was no room only copies on the device can serve. */
static sp_err look_for_rest(sp_request *r)
{
    bool no_room = false;
    for (int i = 0; i < r->n_segs; i++) {
        sp_found *f = &r->found[i];
        if (!f->copy || f->copy->state == SP_COPY_READY) continue;
        no_room |= f->miss == SP_MISS_NO_ROOM;
        sp_ledger_unpin(r->ctx->ledger, f->copy);
        f->copy = NULL;
        f->n_known = 0;
    }
    return sp_request_find_again(r, no_room, false);
}

/* take_positions -- a copy says only when it is loaded what its keys were rotated for. */
static void take_positions(sp_request *r)
{
    for (int i = 0; i < r->n_segs; i++)
        if (r->found[i].copy) r->found[i].at = r->found[i].copy->at;
}

sp_err sp_request_load(sp_request *r, bool *ready)
{
    int n_loading = 0, n_failed = 0;
    for (int i = 0; i < r->n_segs; i++) {
        sp_found *f = &r->found[i];
        if (!f->copy) continue;
        if (f->copy->state == SP_COPY_FREE && f->miss == SP_MISS_NONE) begin(r, i);
        n_loading += f->copy->state == SP_COPY_LOADING;
        n_failed += f->copy->state == SP_COPY_FREE;
    }
    *ready = n_loading == 0 && n_failed == 0;
    if (*ready) take_positions(r);
    if (n_loading || !n_failed) return SP_OK;
    SP_TRY(look_for_rest(r));
    return sp_request_load(r, ready); /* each round has fewer copies to load, or loads none */
}
