/* look_ahead.c -- tells the ledger which copies the waiting requests will read, for a replacement
 * policy that wants to know. The look is repeated when the queue moves or the ledger has more. */
#include "cache/by_content.h"
#include "serve/request/request.h"

enum { WINDOW = 16 }; /* waiting requests that are looked at */

/* by_content -- the copy of a chunk that a policy of chunks would find, READY, or NULL. */
static const sp_copy *by_content(const sp_request *r, int i)
{
    sp_content_query q = {.seg = &r->prompt.segs[i],
                          .head = r->prompt.ids,
                          .n_head = r->prompt.n_head,
                          .ready_only = true};
    if (r->prompt.segs[i].kind != SP_SEG_CHUNK) return NULL;
    const sp_copy *fused = sp_by_content_peek(r->ctx->ledger, &q, SP_COPY_FUSED);
    return fused ? fused : sp_by_content_peek(r->ctx->ledger, &q, SP_COPY_PLAIN);
}

/* expect -- announces the copies of one request. Out of memory: announces none. */
static void expect(sp_request *r, float weight)
{
    sp_arena_reset(&r->look.arena); /* it is not loading: the arena is empty */
    const sp_copy **found = sp_arena_take(&r->look.arena, (size_t)r->prompt.n_segs, sizeof *found);
    if (!found) return;
    sp_by_path_peek(r->ctx->ledger, r->prompt.segs, r->prompt.n_segs, found);
    for (int i = 0; i < r->prompt.n_segs; i++) {
        const sp_copy *copy = found[i] ? found[i] : by_content(r, i);
        if (copy) sp_ledger_expect(r->ctx->ledger, copy, weight);
    }
}

void sp_context_look_ahead(sp_context *c)
{
    int64_t n_added = sp_ledger_stats_of(c->ledger).n_added;
    if (!sp_ledger_looks_ahead(c->ledger) || !c->waiting.first) return;
    if (c->ahead.from == c->waiting.first && c->ahead.at == n_added) return;
    c->ahead.from = c->waiting.first;
    c->ahead.at = n_added;
    sp_ledger_look(c->ledger);
    int k = 0; /* the oldest is admitted next: what it finds is pinned */
    for (sp_request *r = c->waiting.first->next; r && k < WINDOW; r = r->next, k++)
        if (r->state == SP_REQ_QUEUED) expect(r, 1 - (float)k / WINDOW);
}
