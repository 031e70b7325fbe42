/* look_ahead.c -- tells the ledger which copies the waiting requests will read, for a replacement
 * policy that wants to know. The look is repeated when the queue moves or the ledger has more. */
#include "serve/request_int.h"

enum { WINDOW = 16 }; /* waiting requests that are looked at */

/* expect -- of one request; without memory for the look-up nothing is expected of it. */
static void expect(sp_request *r, float weight)
{
    sp_arena_reset(&r->lookup); /* it is not loading: nothing is in there */
    const sp_copy **found = sp_arena_take(&r->lookup, (size_t)r->n_segs, sizeof *found);
    if (!found) return;
    sp_by_path_peek(r->ctx->ledger, r->segs, r->n_segs, found);
    for (int i = 0; i < r->n_segs; i++)
        if (found[i]) sp_ledger_expect(r->ctx->ledger, found[i], weight);
}

void sp_context_look_ahead(sp_context *c)
{
    int64_t n_added = sp_ledger_stats_of(c->ledger).n_added;
    if (!sp_ledger_looks_ahead(c->ledger) || !c->queue) return;
    if (c->looked_from == c->queue && c->looked_at == n_added) return;
    c->looked_from = c->queue;
    c->looked_at = n_added;
    sp_ledger_look(c->ledger);
    int k = 0; /* the oldest is admitted next: what it finds is pinned */
    for (sp_request *r = c->queue->next; r && k < WINDOW; r = r->next, k++)
        if (r->state == SP_REQ_QUEUED) expect(r, 1 - (float)k / WINDOW);
}
