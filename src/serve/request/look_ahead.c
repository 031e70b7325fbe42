/* look_ahead.c -- tells the ledger and the store which copies the waiting requests will read, for replacement
 * policies that use it. The look is repeated when a request has come, the queue moves or the ledger has new copies.
 *
 * The window is the queue: of n requests the k-th to start weighs 1 - k / n, in the order in which they will start.
 * A look ends after MOST_SEGMENTS, so that it costs the same however many requests wait.
 * Source: DepCache section 4.2.2 (D6). */
#include "serve/request/queue.h"

enum { MOST_SEGMENTS = 4096 };

/* expect -- announces the copies of one request. Out of memory: announces none. */
static void expect(sp_request *r, float weight)
{
    sp_context *c = r->ctx;
    const sp_copy **found = sp_request_scratch(r, sizeof *found); /* it is not loading: nothing is in use */
    if (!found) return;
    sp_by_path_peek(c->ledger, r->prompt.segs, r->prompt.n_segs, found);
    for (int i = 0; i < r->prompt.n_segs; i++) {
        const sp_copy *copy = found[i] ? found[i] : sp_request_peek_chunk(r, i);
        if (!copy) continue;
        sp_ledger_expect(c->ledger, copy, weight);
        sp_tiers_expect(c->tiers, copy, weight);
    }
}

void sp_context_look_ahead(sp_context *c)
{
    int64_t n_added = sp_ledger_stats_of(c->ledger).n_added;
    bool wanted = sp_ledger_looks_ahead(c->ledger) || sp_tiers_looks_ahead(c->tiers);
    if (!wanted || !c->waiting.first) return;
    if (c->ahead.from == c->waiting.first && c->ahead.at == n_added) return;
    c->ahead.from = c->waiting.first;
    c->ahead.at = n_added;
    sp_ledger_look(c->ledger);
    sp_tiers_look(c->tiers);
    sp_request *v[SP_QUEUE_LOOK];
    const int n = sp_queue_preview(c, v);
    int n_segs = 0;
    for (int k = 1; k < n && n_segs < MOST_SEGMENTS; k++) { /* the first is admitted next: what it finds is pinned */
        if (v[k]->state != SP_REQ_QUEUED) continue;
        expect(v[k], 1 - (float)(k - 1) / (float)n);
        n_segs += v[k]->prompt.n_segs;
    }
}
