/* load.c -- loads copies from lower tiers to the device, while decoding requests continue.
 *
 *   found FREE ---begin---> LOADING ---all layers are there---> READY
 *       | no room              | \
 *       v                      |  --the first Lp layers are---> the request begins early; before each
 *     a miss with its reason   |                                layer a step waits for it (engine.h)
 *                              v
 *                  damaged, gone, or slower than computing: the policy looks again, for what is left
 *
 * Lp = (L - 1) (1 - T_prefill / T_load) + 1 of L layers, from recent times of reading and computing:
 * then every later layer has arrived when it is needed. A request begins early only if no other
 * decodes, so tokens of answers never wait. Source: Cache-Craft section 3.4.2 (C8), 3.5 (C9); FusionRAG
 * section 4.2 (F6). */
#include <math.h>

#include "base/clock.h"
#include "serve/request/request.h"

void sp_request_load_failed(void *context, const sp_copy *copy, sp_miss why)
{
    const sp_context *c = context;
    for (sp_request *r = c->waiting.first; r; r = r->next)
        for (int i = 0; i < r->prompt.n_segs; i++)
            if (r->look.found[i].copy == copy) r->look.found[i].miss = (uint8_t)why;
}

/* What segments need that are neither READY nor LOADING: those to be computed, and those whose load has not begun. */
typedef struct rest {
    int64_t n_blocks;
    int64_t n_joined; /* tokens of short nodes, which share blocks when they are computed */
} rest;

static void count(const sp_request *r, int i, int sign, rest *out)
{
    const sp_segment *seg = &r->prompt.segs[i];
    const int parent = sp_segment_parent(r->prompt.segs, i);
    const bool is_root =
        seg->kind == SP_SEG_NODE && (parent < 0 || r->prompt.segs[parent].kind != SP_SEG_NODE);
    if (sp_segment_joins(seg))
        out->n_joined += sign * seg->n;
    else
        out->n_blocks += sign * sp_blocks_for(seg->n);
    out->n_blocks += sign * is_root; /* each tree begins a block */
}

static rest rest_of(const sp_request *r)
{
    rest all = {.n_blocks = sp_blocks_for(r->answer.max_tokens)};
    for (int i = 0; i < r->prompt.n_segs; i++) {
        const sp_copy *copy = r->look.found[i].copy;
        if (!copy || copy->state == SP_COPY_FREE) count(r, i, 1, &all);
    }
    return all;
}

/* room_beside -- blocks that stay free when a segment is loaded. A node that is loaded takes blocks of its own:
 * the others must still fit when they are computed. */
static int64_t room_beside(const sp_segment *seg, const rest *others)
{
    if (!sp_segment_joins(seg)) return 0;
    return others->n_blocks + SP_DIV_UP(others->n_joined, SP_BLOCK_TOKENS);
}

static void begin(sp_request *r, int i, bool is_ahead, rest *others);

/* begin_parent -- loads the parent of a path copy first. */
static void begin_parent(sp_request *r, int i, bool is_ahead, rest *others)
{
    const sp_copy *parent = r->look.found[i].copy->parent;
    if (!parent || parent->state != SP_COPY_FREE) return;
    for (int k = 0; k < r->prompt.n_segs; k++)
        if (r->look.found[k].copy == parent && r->look.found[k].miss == SP_MISS_NONE)
            begin(r, k, is_ahead, others);
}

/* begin -- starts to load the copy of segment i; if it cannot be loaded now, notes why. */
static void begin(sp_request *r, int i, bool is_ahead, rest *others)
{
    sp_context *c = r->ctx;
    begin_parent(r, i, is_ahead, others);
    sp_tiers_key key = {.copy = r->look.found[i].copy,
                        .seg = &r->prompt.segs[i],
                        .head = r->prompt.ids,
                        .n_head = r->prompt.n_head,
                        .patience_us = c->loads.patience_us};
    count(r, i, -1, others);
    sp_err err = sp_tiers_load(c->tiers, &key, is_ahead,
                               c->reserved + room_beside(&r->prompt.segs[i], others), c->now);
    if (err == SP_OK) return;
    count(r, i, 1, others);
    r->look.found[i].miss = err == SP_E_IO ? SP_MISS_LATE : SP_MISS_NO_ROOM;
}

/* -- how long ------------------------------------------------------------------------------- */

static bool is_loading(const sp_found *f)
{
    return f->copy && f->copy->state == SP_COPY_LOADING;
}

/* compute_us -- of the tokens that are loading, if they were computed instead; 0: unknown. */
static double compute_us(const sp_request *r)
{
    double n = 0;
    for (int i = 0; i < r->prompt.n_segs; i++)
        n += is_loading(&r->look.found[i]) ? r->look.found[i].n_known : 0;
    return n * r->ctx->loads.token_us;
}

/* prefill_us -- of the tokens that are computed in any case; 0: unknown. */
static double prefill_us(const sp_request *r)
{
    const sp_reuse_choice *o = &r->reuse;
    double n = 0, share = o->policy->recomputes ? (double)o->recompute : 0;
    for (int i = 0; i < r->prompt.n_segs; i++) {
        int32_t known = r->look.found[i].copy ? r->look.found[i].n_known : 0;
        n += r->prompt.segs[i].n - known + share * known;
    }
    return n * r->ctx->loads.token_us;
}

/* layers_needed -- Lp; all of them when a time is unknown. */
static int layers_needed(sp_request *r)
{
    const int n_layers = r->ctx->model->hp.n_layers;
    if (r->ctx->loads.preload == SP_PRELOAD_FIRST) return 1;
    double load = 0, prefill = prefill_us(r);
    for (int i = 0; i < r->prompt.n_segs; i++) {
        if (!is_loading(&r->look.found[i])) continue;
        double us;
        sp_tiers_n_there(r->ctx->tiers, r->look.found[i].copy, &us);
        if (us <= 0) return n_layers;
        load += us;
    }
    if (prefill <= 0) return n_layers;
    double lp = ceil((n_layers - 1) * (1 - prefill / load)) + 1;
    return (int)SP_MIN(SP_MAX(lp, 1), n_layers);
}

/* nobody_decodes -- requests that decode must not wait in a step. */
static bool nobody_decodes(const sp_context *c)
{
    for (const sp_request *r = c->running; r; r = r->next)
        if (r->state == SP_REQ_DECODE) return false;
    return true;
}

/* may_begin_early -- whether the missing layers will arrive in time. */
static bool may_begin_early(sp_request *r)
{
    sp_context *c = r->ctx;
    const bool by_layers = c->loads.preload == SP_PRELOAD_LAYERS || c->loads.preload == SP_PRELOAD_FIRST;
    if (!by_layers || !nobody_decodes(c)) return false;
    const int n = layers_needed(r);
    bool all = true; /* all headers are read in any case: plans need what they say */
    for (int i = 0; i < r->prompt.n_segs; i++)
        all &= !is_loading(&r->look.found[i]) ||
               sp_tiers_n_there(c->tiers, r->look.found[i].copy, NULL) >= n;
    return all;
}

int64_t sp_request_patience(const sp_request *r)
{
    const int64_t for_ever = INT64_C(10000000);
    double us = compute_us(r);
    if (us <= 0) return for_ever;
    int64_t waited = r->loads.since_us ? sp_clock_us() - r->loads.since_us : 0;
    return SP_MAX((int64_t)us, r->ctx->loads.patience_us) - waited;
}

/* too_late -- whether waiting costs more than computing. */
static bool too_late(sp_request *r)
{
    if (!r->loads.since_us) r->loads.since_us = sp_clock_us();
    return sp_request_patience(r) < 0;
}

/* give_up -- treats copies that have not arrived as missing; their loads continue, for other requests. */
static void give_up(sp_request *r)
{
    for (int i = 0; i < r->prompt.n_segs; i++) {
        sp_found *f = &r->look.found[i];
        if (f->copy && f->copy->state != SP_COPY_READY) f->miss = SP_MISS_LATE;
    }
    r->loads.state = SP_LOADS_READY_ONLY;
}

/* -- a request that is the oldest ----------------------------------------------------------- */

/* look_for_rest -- looks up again what could not be loaded. A damaged copy is in no tier now; if there was no room,
 * only copies on the device are searched. A plan that was made while they were loading, and waits for memory, reads
 * them: it is made again. */
static sp_err look_for_rest(sp_request *r)
{
    bool no_room = false;
    sp_plan_fini(&r->plans.now);
    for (int i = 0; i < r->prompt.n_segs; i++) {
        sp_found *f = &r->look.found[i];
        if (!f->copy || f->copy->state == SP_COPY_READY) continue;
        no_room |= f->miss == SP_MISS_NO_ROOM || f->miss == SP_MISS_LATE;
        sp_ledger_unpin(r->ctx->ledger, f->copy);
        f->copy = NULL;
        f->n_known = 0;
    }
    return sp_request_find_again(r, no_room, false);
}

/* take_loaded -- what is known of a copy only once it is loaded: the position of its keys, whether a plain one is
 * exact, and which tier gave it (one that failed to no longer has it). */
static void take_loaded(sp_request *r)
{
    for (int i = 0; i < r->prompt.n_segs; i++) {
        sp_found *f = &r->look.found[i];
        if (!f->copy) continue;
        f->at = f->copy->facts.at;
        if (f->copy->facts.kind == SP_COPY_PLAIN) f->exact &= f->copy->facts.exact;
        const unsigned below = f->copy->places & SP_BELOW_DEVICE;
        if (f->source & SP_BELOW_DEVICE && !(f->source & below) && below) f->source = sp_place_fastest(below);
    }
}

/* is_later -- whether a copy is loaded only after others have been loaded and have left memory. */
static bool is_later(const sp_request *r, int n_loading)
{
    return r->ctx->offload && n_loading > 0 && sp_offload_is_full(r->ctx->offload);
}

sp_err sp_request_load(sp_request *r, bool *ready)
{
    int n_loading = 0, n_failed = 0, n_later = 0;
    rest others = rest_of(r);
    if (r->ctx->offload) sp_offload_turn(r->ctx->offload);
    for (int i = 0; i < r->prompt.n_segs; i++) {
        sp_found *f = &r->look.found[i];
        if (!f->copy) continue;
        if (f->copy->state == SP_COPY_FREE && f->miss == SP_MISS_NONE) {
            n_later += is_later(r, n_loading);
            if (is_later(r, n_loading)) continue;
            begin(r, i, false, &others);
        }
        n_loading += f->copy->state == SP_COPY_LOADING;
        n_failed += f->copy->state == SP_COPY_FREE;
    }
    if (n_later) r->loads.since_us = 0; /* what waits here is not late */
    const bool early = n_loading && !n_failed && !n_later && may_begin_early(r);
    if (r->loads.state != SP_LOADS_READY_ONLY)
        r->loads.state = early ? SP_LOADS_EARLY : SP_LOADS_ANY;
    *ready = early || (n_loading == 0 && n_failed == 0);
    if (*ready) take_loaded(r);
    if (*ready) r->loads.since_us = 0;
    if (n_loading && !*ready && too_late(r)) {
        give_up(r);
        n_loading = 0;
    }
    if (*ready || n_loading) return SP_OK;
    SP_TRY(look_for_rest(r));
    return sp_request_load(r, ready); /* each round has fewer copies to load, or loads none */
}

/* -- a request that began early ------------------------------------------------------------- */

/* goes_on -- false: the request is canceled, and the step computes no more of it. */
static bool goes_on(sp_request *r)
{
    if (r->o.go_on && !r->o.go_on(r->o.user)) r->cancel = true;
    r->cut = r->cancel;
    return !r->cut;
}

/* there -- the hook of its slices: waits for a layer, at most as long as computing would take. */
static bool there(void *user, int layer)
{
    sp_request *r = user;
    if (!goes_on(r)) return false;
    for (int i = 0; i < r->prompt.n_segs && r->loads.state != SP_LOADS_LATE; i++)
        if (is_loading(&r->look.found[i]) &&
            !sp_tiers_await(r->ctx->tiers, r->look.found[i].copy, layer, r->loads.await_us))
            r->loads.state = SP_LOADS_LATE;
    return r->loads.state != SP_LOADS_LATE;
}

sp_await sp_request_awaits(sp_request *r)
{
    double us = compute_us(r);
    r->loads.await_us = sp_clock_us() + SP_MAX((int64_t)us, r->ctx->loads.patience_us);
    return (sp_await){.there = there, .user = r};
}

bool sp_request_is_there(sp_request *r)
{
    bool all = true;
    for (int i = 0; i < r->prompt.n_segs; i++)
        all &= !is_loading(&r->look.found[i]) ||
               sp_tiers_n_there(r->ctx->tiers, r->look.found[i].copy, NULL) == r->ctx->model->hp.n_layers;
    return all;
}

bool sp_request_load_end(sp_request *r)
{
    const int last = r->ctx->model->hp.n_layers - 1; /* a probe of the first layers has not read the others */
    bool all = true;
    for (int i = 0; i < r->prompt.n_segs; i++)
        if (is_loading(&r->look.found[i]) &&
            !sp_tiers_await(r->ctx->tiers, r->look.found[i].copy, last, r->loads.await_us))
            return false;
    for (int i = 0; i < r->prompt.n_segs; i++) {
        while (is_loading(&r->look.found[i])) sp_tiers_wait(r->ctx->tiers);
        all &= !r->look.found[i].copy || r->look.found[i].copy->state == SP_COPY_READY;
    }
    r->loads.state = SP_LOADS_ANY;
    return all;
}

/* -- requests that wait --------------------------------------------------------------------- */

enum {
    AHEAD = 16 /* requests for which loads begin */,
    SHARE = 4 /* of the pool: 1 / SHARE loads */
};

/* n_loading_blocks -- of all loads. */
static int64_t n_loading_blocks(const sp_context *c)
{
    int64_t n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        n += v->state == SP_COPY_LOADING ? sp_copy_n_own_blocks(v) : 0;
    return n;
}

/* fetch -- begins the loads of one request, in *room blocks. */
static void fetch(sp_request *r, int64_t *room)
{
    sp_found *found = sp_request_scratch(r, sizeof *found), *own = r->look.found;
    if (!found || sp_request_look(r, found) != SP_OK) return;
    r->look.found = found;
    rest others = rest_of(r);
    for (int i = 0; i < r->prompt.n_segs && 0 < *room; i++) {
        const sp_copy *copy = found[i].copy;
        if (!copy || copy->state != SP_COPY_FREE) continue;
        begin(r, i, true, &others);
        if (copy->state == SP_COPY_LOADING) *room -= sp_copy_n_own_blocks(copy);
    }
    r->look.found = own;
    sp_request_unpin(r, found);
}

void sp_context_prefetch(sp_context *c)
{
    if (c->offload) return; /* memory is for the request that is next */
    if (!c->tiers || c->loads.preload == SP_PRELOAD_NONE || !c->waiting.first ||
        !c->waiting.first->next)
        return;
    const int64_t n_added = sp_ledger_stats_of(c->ledger).n_added;
    int64_t room = -1;
    int k = 0;
    for (sp_request *r = c->waiting.first->next; r && k < AHEAD; r = r->next, k++) {
        if (r->state != SP_REQ_QUEUED || r->look.at >= 0 || r->loads.fetched_at == n_added)
            continue;
        r->loads.fetched_at = n_added;
        if (room < 0) room = sp_kv_pool_n_blocks(c->pool) / SHARE - n_loading_blocks(c);
        if (room <= 0) return;
        fetch(r, &room);
    }
}
