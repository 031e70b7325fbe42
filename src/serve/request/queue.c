#include "serve/request/queue.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cache/by_path.h"

/* -- what is cached of a request ------------------------------------------------------------ */

/* peek -- path copies of its segments [n_segs], in its scratch memory; NULL without memory. */
static const sp_copy **peek(sp_request *r)
{
    const sp_copy **found = sp_request_scratch(r, sizeof *found); /* no look-up yet: nothing is in use */
    if (found) sp_by_path_peek(r->ctx->ledger, r->prompt.segs, r->prompt.n_segs, found);
    return found;
}

/* look -- recounts the cached tokens of a request. Out of memory: keeps the old count. */
static void look(sp_request *r, int64_t n_added)
{
    const sp_reuse_policy *p = r->reuse.policy;
    const sp_copy **found = p->keep ? peek(r) : NULL; /* otherwise it reads no copies */
    if (!found) return;
    int32_t n_cached = 0, n_chunks = 0; /* tokens; n_chunks: of n_cached, those of chunks */
    for (int i = 0; i < r->prompt.n_segs; i++) {
        if (!found[i] && !sp_request_peek_chunk(r, i)) continue;
        n_cached += r->prompt.segs[i].n;
        n_chunks += r->prompt.segs[i].kind == SP_SEG_CHUNK ? r->prompt.segs[i].n : 0;
    }
    r->place.waiting.n_cached = n_cached;
    r->place.waiting.n_computed = r->prompt.n_tokens - n_cached;
    if (p->recomputes)
        r->place.waiting.n_computed += (int32_t)(r->reuse.recompute * (float)n_chunks);
    r->place.counted_at = n_added;
}

static bool holds_pins(const sp_request *r)
{
    return r->state != SP_REQ_QUEUED || r->look.at >= 0;
}

/* refresh -- recounts some requests, those with the oldest counts first. */
static void refresh(sp_context *c, sp_request **v, int n)
{
    int64_t n_added = sp_ledger_stats_of(c->ledger).n_added;
    int left = SP_QUEUE_FRESH;
    for (int i = 0; i < n; i++)
        if (v[i]->place.counted_at < 0 && !holds_pins(v[i])) look(v[i], n_added), left--;
    for (int k = 0; k < n && left > 0; k++) {
        sp_request *r = v[c->waiting.next_fresh++ % (unsigned)n];
        if (r->place.counted_at != n_added && !holds_pins(r)) look(r, n_added), left--;
    }
}

/* -- what is being computed ----------------------------------------------------------------- */

/* extends_path -- whether o, which runs, computes a path that r begins with and that is not cached. */
static bool extends_path(const sp_request *r, const sp_request *o, const sp_copy *const *found)
{
    int n = 0, most = SP_MIN(r->prompt.n_segs, o->prompt.n_segs);
    while (n < most && sp_digest_eq(&r->prompt.ids[n], &o->prompt.ids[n]) &&
           sp_segment_on_path(r->prompt.segs, n))
        n++;
    return n > 0 && !found[n - 1];
}

/* fills_chunk -- whether o, which runs, computes a chunk after the same head that r needs and that is not cached. */
static bool fills_chunk(const sp_request *r, const sp_request *o)
{
    if (o->plans.role != SP_PLAN_FILL || o->prompt.n_head != r->prompt.n_head ||
        memcmp(o->prompt.ids, r->prompt.ids, (size_t)r->prompt.n_head * sizeof *r->prompt.ids) != 0)
        return false;
    for (int i = r->prompt.n_head; i < r->prompt.n_segs; i++)
        for (int k = o->prompt.n_head; k < o->prompt.n_segs; k++)
            if (sp_digest_eq(&r->prompt.ids[i], &o->prompt.ids[k]) &&
                r->prompt.segs[i].kind == SP_SEG_CHUNK && !o->look.found[k].copy && !sp_request_peek_chunk(r, i))
                return true;
    return false;
}

/* is_coming -- whether a running request computes a copy that r would compute, too. It is ready after the step.
 * Requests start only once the step has room for all tokens of those before (scheduler.c). */
static bool is_coming(sp_request *r)
{
    const sp_reuse_policy *p = r->reuse.policy;
    const sp_copy **found = p->by_path && !holds_pins(r) ? peek(r) : NULL;
    for (const sp_request *o = r->ctx->running; o; o = o->next) {
        if (o->state != SP_REQ_PREFILL || o->loads.state == SP_LOADS_EARLY || o->reuse.policy != p)
            continue;
        if (found ? extends_path(r, o, found) : p->anywhere && fills_chunk(r, o)) return true;
    }
    return false;
}

/* -- what requests have in common ----------------------------------------------------------- */

typedef struct beginning {
    const sp_digest *ids;
    const sp_segment *segs;
    int n_segs;
    sp_waiting *w;
} beginning;

static int compare(const void *x, const void *y)
{
    const beginning *a = x, *b = y;
    int n = a->n_segs < b->n_segs ? a->n_segs : b->n_segs;
    int order = memcmp(a->ids, b->ids, (size_t)n * sizeof *a->ids);
    return order ? order : a->n_segs - b->n_segs;
}

/* tokens_in_common -- of a's leading segments that are also ids [n]. */
static int32_t tokens_in_common(const beginning *a, const sp_digest *ids, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < a->n_segs && i < n; i++) {
        if (!sp_digest_eq(&a->ids[i], &ids[i])) break;
        sum += a->segs[i].n;
    }
    return sum;
}

/* share_beginnings -- in sorted order, whoever has most in common with a request is beside it. What
 * began last counts, too: so the last of a group follows the others. */
static void share_beginnings(sp_context *c, sp_request **v, int n)
{
    beginning s[SP_QUEUE_LOOK];
    for (int i = 0; i < n; i++) {
        s[i] = (beginning){v[i]->prompt.ids, v[i]->prompt.segs, v[i]->prompt.n_segs,
                           &v[i]->place.waiting};
        v[i]->place.waiting.n_shared =
            tokens_in_common(&s[i], c->waiting.began, c->waiting.n_began);
    }
    qsort(s, (size_t)n, sizeof *s, compare);
    for (int i = 1; i < n; i++) {
        int32_t common = tokens_in_common(&s[i - 1], s[i].ids, s[i].n_segs);
        s[i].w->n_shared = SP_MAX(s[i].w->n_shared, common);
        s[i - 1].w->n_shared = SP_MAX(s[i - 1].w->n_shared, common);
    }
}

/* -- the choice ----------------------------------------------------------------------------- */

static void bring_to_front(sp_context *c, sp_request *r)
{
    sp_request **at = &c->waiting.first;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    r->next = c->waiting.first;
    c->waiting.first = r;
}

/* note_beginning -- remembers the first segments of r, so that requests with the same beginning follow it. */
static void note_beginning(sp_context *c, const sp_request *r)
{
    sp_digest *ids = sp_alloc((size_t)r->prompt.n_segs, sizeof *ids);
    sp_free(c->waiting.began);
    c->waiting.began = ids;
    c->waiting.n_began = ids ? r->prompt.n_segs : 0;
    if (ids) memcpy(ids, r->prompt.ids, (size_t)r->prompt.n_segs * sizeof *ids);
}

/* place_of -- what the order reads of it at time `now`, us. */
static sp_waiting place_of(const sp_request *r, int64_t now)
{
    sp_waiting w = r->place.waiting;
    w.waited = r->ctx->waiting.wait_us && now - r->account.submit_us >= r->ctx->waiting.wait_us;
    w.priority = r->o.priority;
    w.own_priority = r->o.own_priority;
    w.tenant = r->place.share;
    w.served = sp_share_served(r->place.share);
    return w;
}

/* choose -- the index in v [n] of the request that starts next; -1: all are deferred. */
static int choose(const sp_context *c, sp_request **v, sp_waiting *w, int n)
{
    for (int k = 0; k < SP_QUEUE_DEFER; k++) {
        int next = sp_queue_order_next(c->waiting.order, w, n, c->waiting.window);
        if (next < 0 || !is_coming(v[next])) return next;
        w[next].deferred = true;
    }
    return -1;
}

bool sp_queue_choose(sp_context *c)
{
    sp_request *v[SP_QUEUE_LOOK];
    sp_waiting w[SP_QUEUE_LOOK];
    int n = 0;
    if (holds_pins(c->waiting.first)) return true;
    for (sp_request *r = c->waiting.first; r && n < SP_QUEUE_LOOK; r = r->next) v[n++] = r;
    if (c->waiting.order->reads_cached && n > 1) refresh(c, v, n);
    if (c->waiting.order->reads_shared) share_beginnings(c, v, n);
    const int64_t now = c->waiting.wait_us ? sp_clock_us() : 0;
    for (int i = 0; i < n; i++) w[i] = place_of(v[i], now);
    int next = choose(c, v, w, n);
    if (next < 0) return false;
    sp_queue_order_overtakes(w, next);
    for (int i = 0; i < n; i++) v[i]->place.waiting.n_overtaken = w[i].n_overtaken;
    if (c->waiting.order->reads_shared) note_beginning(c, v[next]);
    bring_to_front(c, v[next]);
    return true;
}

int sp_queue_preview(const sp_context *c, sp_request **out)
{
    sp_waiting w[SP_QUEUE_LOOK];
    int n = 0;
    const int64_t now = c->waiting.wait_us ? sp_clock_us() : 0;
    for (sp_request *r = c->waiting.first; r && n < SP_QUEUE_LOOK; r = r->next) {
        w[n] = place_of(r, now);
        out[n++] = r;
    }
    int k = n && holds_pins(out[0]); /* it starts first, whatever the order says */
    for (; k < n && k < SP_QUEUE_AHEAD; k++) {
        const int next = k + sp_queue_order_next(c->waiting.order, w + k, n - k, c->waiting.window);
        sp_request *r = out[next];
        const sp_waiting of = w[next];
        sp_queue_order_overtakes(w + k, next - k);
        memmove(&out[k + 1], &out[k], (size_t)(next - k) * sizeof(sp_request *));
        memmove(&w[k + 1], &w[k], (size_t)(next - k) * sizeof *w);
        out[k] = r;
        w[k] = of;
    }
    return n;
}

/* -- requests that leave before they start ---------------------------------------------------- */

static int64_t expiry_of(const sp_request *r)
{
    return r->o.max_wait_ms > 0 ? r->account.submit_us + r->o.max_wait_ms * 1000 : INT64_MAX;
}

void sp_queue_enter(sp_request *r)
{
    sp_context *c = r->ctx;
    const int64_t expiry = expiry_of(r);
    if (expiry < INT64_MAX &&
        (c->waiting.next_expiry_us == 0 || expiry < c->waiting.next_expiry_us))
        c->waiting.next_expiry_us = expiry;
    sp_request_append(&c->waiting.first, r);
    c->ahead.from = NULL; /* the last look did not see it */
    if (r->cancel)
        c->waiting.has_canceled = true; /* it may have been canceled before it entered the queue */
}

/* drop -- the canceled and the expired; notes when the next one expires. */
static void drop(sp_context *c, int64_t now)
{
    int64_t next_expiry = INT64_MAX;
    for (sp_request *r = c->waiting.first, *next; r; r = next) {
        next = r->next;
        if (r->cancel)
            sp_request_finish(r, SP_FINISH_CANCELED, SP_OK);
        else if (now > expiry_of(r))
            sp_request_finish(r, SP_FINISH_ERROR,
                              sp_fail(SP_E_CANCELED, "max_wait_ms: not begun after %lld ms",
                                      (long long)r->o.max_wait_ms));
        else
            next_expiry = SP_MIN(next_expiry, expiry_of(r));
    }
    c->waiting.next_expiry_us = next_expiry < INT64_MAX ? next_expiry : 0;
}

void sp_queue_expire(sp_context *c)
{
    const int64_t now = c->waiting.next_expiry_us ? sp_clock_us() : 0;
    if (atomic_exchange(&c->waiting.has_canceled, false) || now > c->waiting.next_expiry_us)
        drop(c, now);
}
