/* ahead.c -- guesses what the next layer will choose, and fetches it while this layer computes.
 *
 *   layer l      pick, want --> [guess for l + 1] --> wait, attention, feed-forward
 *   layer l + 1  pick, want: correct guesses are in their seats, or on their way
 *
 * The guess is the choice of an approximate query: the residual stream before this layer's attention,
 * through the norm and the query projection of the next layer. Where that query would reuse a head's list (QSAC),
 * the list's blocks were read for a step before, and nothing is guessed. A guess changes when records are read,
 * never which. Source: LiteCache section 4.6 (missed heads only); InfiniGen. */
#include "engine/sparse/sparse_int.h"

#include <string.h>

#include "base/clock.h"

static bool guesses(const sp_slice *slice)
{
    const sp_sparse *s = sp_sparse_of(slice);
    return s && s->o.source.ahead && s->guess.dev;
}

sp_err sp_sparse_ahead_make_room(sp_engine *e, const sp_slice *slices, int n_slices)
{
    const sp_hparams *hp = &e->o.model->hp;
    bool any = false;
    for (int i = 0; i < n_slices; i++) any |= guesses(&slices[i]);
    const size_t floats = (size_t)e->o.max_slices * (size_t)(hp->n_heads * hp->head);
    return any ? sp_mem_grow(e->device, floats * sizeof(float), "approximate queries", &e->ahead)
               : SP_OK;
}

/* approximate -- queries of the next layer for all rows, into e->ahead. e->h is free until the
 * feed-forward. */
static void approximate(sp_engine *e, const sp_layer *next)
{
    const float *in = sp_norm_rows(e, next->attn_norm, next->b_attn_norm);
    sp_matmul_args q = {
        .w = &next->wq, .x = in, .m = e->rows.n, .y = e->ahead.p, .bias = next->bq};
    sp_device_products(e->device, &(sp_products_args){&q, 1});
    sp_norm_heads(e, e->ahead.p, next->q_norm, e->o.model->hp.n_heads);
}

/* guess -- of slice i for a layer: lists of candidates. */
static sp_err guess(sp_engine *e, const sp_slice *slice, int i, int layer)
{
    sp_sparse *s = slice->plan->sparse;
    const sp_hparams *hp = &e->o.model->hp;
    const size_t heads = (size_t)s->n_heads, row = (size_t)(hp->n_heads * hp->head);
    const size_t ids = heads * (size_t)s->k * sizeof(uint32_t);
    memcpy((uint8_t *)s->guess.host + ids, (const uint8_t *)s->hits.host + (size_t)layer * heads, heads);
    sp_mirror_push(&s->guess, s->guess.mem.n_bytes);
    sp_pick_req req =
        sp_sparse_query(slice, (const float *)e->ahead.p + (size_t)e->rows.first[i] * row);
    req.picked = s->guess.dev;
    req.hit = (uint8_t *)s->guess.dev + ids;
    req.is_guess = true;
    sp_sparse_reuses(e, s, layer, &req);
    sp_sparse_pick_blocks(e, s->o.kind, layer, &req, 1);
    return sp_mirror_pull(&s->guess, ids + heads);
}

/* fetch -- fetches the guesses for the heads that miss, as ids of blocks. */
static void fetch(sp_sparse *s, int layer)
{
    const uint32_t *ids = s->candidates.host;
    uint32_t *picked = s->guess.host;
    const uint8_t *hit = (const uint8_t *)(picked + (size_t)s->n_heads * (size_t)s->k);
    for (int g = 0; g < s->n_heads; g++, picked += s->k) {
        if (hit[g]) continue;
        for (int32_t i = 0; i < s->k; i++) picked[i] = ids[picked[i]];
        s->o.source.ahead(s->o.source.user, layer, g, picked, s->k);
    }
}

sp_err sp_sparse_ahead(sp_engine *e, const sp_slice *slices, int n_slices, int layer)
{
    const int next = layer + 1;
    bool any = false;
    for (int i = 0; i < n_slices; i++) any |= guesses(&slices[i]) && e->reqs[i].m;
    if (!any || next == e->o.model->hp.n_layers || e->rows.n > e->o.max_slices) return SP_OK;
    if (e->o.model->layers[next].window) return SP_OK; /* reads its window */
    const int64_t start = sp_clock_us();
    approximate(e, &e->o.model->layers[next]);
    for (int i = 0; i < n_slices; i++) {
        if (!guesses(&slices[i]) || !e->reqs[i].m) continue;
        SP_TRY(guess(e, &slices[i], i, next));
        fetch(slices[i].plan->sparse, next);
    }
    sp_sparse_chose(slices, n_slices, sp_clock_us() - start);
    return SP_OK;
}
