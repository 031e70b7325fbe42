/* attention.c -- one layer's span attention for the slices of a step.
 *
 *   plan->spans ---------------------------------> spans           the same for every KV head
 *          \-- selector, or sparse decoding,
 *              once for each KV head ------------> spans_of_head   a copy that it rewrites
 *
 * A layer with a window reads its window, without sparse decoding; blocks before the window are not
 * read.
 *
 * Mass, if a gate needs it, is written on the device and copied to the host after the layer. An observer sees what
 * was read. */
#include <string.h>

#include "base/mem.h"
#include "engine/sparse/steps.h"

/* span_copies -- span lists that are rewritten for a slice. */
static size_t span_copies(const sp_engine *e, const sp_slice *slice)
{
    const sp_plan *p = slice->plan;
    const bool rewrites = p->selector.rewrite || sp_sparse_of(slice);
    return rewrites ? (size_t)p->n_spans * (size_t)e->o.model->hp.n_kv_heads : 0;
}

static size_t mass_of(const sp_engine *e, const sp_plan *p, int64_t m)
{
    if (!p->gate.wants_mass) return 0;
    return (size_t)m * (size_t)e->o.model->hp.n_heads * (size_t)p->n_spans;
}

sp_err sp_attention_make_room(sp_engine *e, const sp_slice *slices, int n_slices)
{
    size_t mass = 0, spans = 0;
    SP_TRY(sp_sparse_ahead_make_room(e, slices, n_slices));
    for (int s = 0; s < n_slices; s++) {
        mass += mass_of(e, slices[s].plan, slices[s].n);
        spans += span_copies(e, &slices[s]);
    }
    if (spans > e->cap_head_spans) {
        sp_span *v = sp_alloc(spans, sizeof *v);
        if (!v) return sp_fail_nomem("the span lists of a selector");
        sp_free(e->head_spans);
        e->head_spans = v;
        e->cap_head_spans = spans;
    }
    return sp_mirror_grow(e->device, mass * sizeof(float), "attention mass", &e->mass);
}

/* select_spans -- lets the selector of slice s, or sparse decoding, rewrite the plan's spans for each
 * KV head; the copies start at `next`. Returns their lists, or NULL without. */
static const sp_span *const *select_spans(sp_engine *e, const sp_slice *slice, int s, int layer,
                                          sp_span *next)
{
    const int n_heads = e->o.model->hp.n_kv_heads;
    const sp_plan *p = slice->plan;
    const sp_span **lists = e->of_head + (size_t)s * (size_t)n_heads;
    sp_sparse *sparse = sp_sparse_of(slice);
    if (!p->selector.rewrite && !sparse) return NULL;
    for (int g = 0; g < n_heads; g++, next += p->n_spans) {
        memcpy(next, p->spans, (size_t)p->n_spans * sizeof *next);
        if (sparse)
            sp_sparse_rewrite(sparse, layer, g, next);
        else
            p->selector.rewrite(
                p->selector.user,
                &(sp_selector_view){.plan = p, .layer = layer, .kv_head = g, .spans = next});
        lists[g] = next;
    }
    return lists;
}

/* request_of -- the rows of slice s. */
static sp_attend_req request_of(const sp_engine *e, const sp_plan *p, int s)
{
    const sp_hparams *hp = &e->o.model->hp;
    const sp_rows *r = &e->rows;
    const size_t first = (size_t)r->first[s], width = (size_t)hp->n_heads * (size_t)hp->head;
    return (sp_attend_req){.q = e->q + first * width,
                           .out = e->att + first * width,
                           .pos = r->dev.pos + first,
                           .see = r->dev.see + first,
                           .m = r->first[s + 1] - r->first[s],
                           .spans = p->spans,
                           .n_spans = p->n_spans,
                           .sights = p->sights,
                           .lse = e->lse + first * (size_t)hp->n_heads};
}

/* rewrite_all -- the span lists of all slices. */
static sp_err rewrite_all(sp_engine *e, const sp_slice *slices, int n_slices, int layer)
{
    sp_span *next = e->head_spans;
    const bool local = e->o.model->layers[layer].window > 0;
    if (!local) SP_TRY(sp_sparse_pick(e, slices, n_slices, layer));
    for (int s = 0; s < n_slices; s++) {
        if (e->reqs[s].m == 0) continue;
        if (local && sp_sparse_of(&slices[s])) continue; /* it reads its window */
        e->reqs[s].spans_of_head = select_spans(e, &slices[s], s, layer, next);
        next += span_copies(e, &slices[s]);
    }
    SP_TRY(sp_sparse_ahead(e, slices, n_slices, layer));
    return sp_sparse_arrive(slices, n_slices, layer);
}

typedef struct read_from {
    int layer;
    int32_t pos; /* of the first query */
} read_from;

/* first_read -- the first block of a span that queries from position p on read. */
static int32_t first_read(const sp_span *s, int32_t p, int32_t window)
{
    int32_t i = 0;
    const int64_t end = (int64_t)p - window - s->shift; /* the last position before the window */
    if (window == 0 || s->joined) return 0;
    if (!s->pos) i = (int32_t)SP_MAX(0, SP_MIN((int64_t)s->n, end - s->at + 1));
    while (s->pos && i < s->n && s->pos[i] <= end) i++;
    return i == s->n ? sp_span_n_blocks(s) : (s->first + i) / SP_BLOCK_TOKENS;
}

static sp_err read_spans(sp_engine *e, const sp_span *spans, int n_spans, read_from from)
{
    const int32_t window = e->o.model->layers[from.layer].window;
    for (int i = 0; i < n_spans; i++) {
        const int32_t b = first_read(&spans[i], from.pos, window);
        SP_TRY(sp_offload_window(e->offload, from.layer, spans[i].blocks + b,
                                 sp_span_n_blocks(&spans[i]) - b));
    }
    return SP_OK;
}

/* read_away -- reads what attention needs and no seat holds into a window. An observer reads all. */
static sp_err read_away(sp_engine *e, const sp_slice *slices, int n_slices, int layer)
{
    for (int s = 0; s < n_slices; s++) {
        const sp_attend_req *req = &e->reqs[s];
        const int n_lists = req->spans_of_head ? e->o.model->hp.n_kv_heads : 1;
        if (req->m == 0) continue;
        const read_from from = {layer, e->rows.host.pos[e->rows.first[s]]};
        if (slices[s].plan->observer.look) SP_TRY(read_spans(e, req->spans, req->n_spans, from));
        for (int g = 0; g < n_lists; g++) {
            if (req->spans_of_head && sp_offload_is_resident(e->offload, layer, g)) continue;
            SP_TRY(read_spans(e, req->spans_of_head ? req->spans_of_head[g] : req->spans, req->n_spans, from));
        }
    }
    return SP_OK;
}

/* observe -- shows the layer's attention to the observers, each that of its own plan. */
static sp_err observe(sp_engine *e, const sp_attend_args *all, const sp_slice *slices, int layer)
{
    for (int s = 0; s < all->n_reqs; s++) {
        const sp_plan *p = slices[s].plan;
        if (!sp_observes(&slices[s]) || all->reqs[s].m == 0) continue;
        sp_attend_args own = *all;
        own.reqs = &all->reqs[s];
        own.n_reqs = 1;
        SP_TRY(p->observer.look(p->observer.user, &(sp_observed){.plan = p,
                                                                 .layer = layer,
                                                                 .pos = p->todo[slices[s].from].pos,
                                                                 .device = e->device,
                                                                 .args = &own}));
    }
    return SP_OK;
}

/* attend -- with masses, joined spans are computed one by one, and sums have another order. Then the outputs are
 * computed again without masses: an answer is the same whether it is measured or not. */
static void attend(sp_engine *e, const sp_attend_args *all)
{
    sp_device_attend(e->device, all);
    for (int s = 0; s < all->n_reqs; s++) {
        sp_attend_req req = all->reqs[s];
        bool joined = false;
        for (int i = 0; i < req.n_spans && req.mass && !joined; i++) joined = req.spans[i].joined;
        if (!joined) continue;
        sp_attend_args own = *all;
        req.mass = NULL;
        own.reqs = &req;
        own.n_reqs = 1;
        sp_device_attend(e->device, &own);
    }
}

sp_err sp_attention_run(sp_engine *e, const sp_kv_view *kv, const sp_slice *slices, int n_slices,
                        int layer)
{
    const sp_hparams *hp = &e->o.model->hp;
    float *mass = e->mass.dev;
    for (int s = 0; s < n_slices; s++) {
        const sp_plan *p = slices[s].plan;
        sp_attend_req *req = &e->reqs[s];
        *req = request_of(e, p, s);
        if (req->m == 0) continue;
        if (p->gate.wants_mass) req->mass = mass;
        mass += mass_of(e, p, req->m);
    }
    SP_TRY(rewrite_all(e, slices, n_slices, layer));
    if (e->offload) SP_TRY(read_away(e, slices, n_slices, layer));
    const sp_attend_args all = {.kv = kv,
                                .rope = sp_engine_rope(e, layer),
                                .n_heads = hp->n_heads,
                                .scale = hp->attn_scale,
                                .reqs = e->reqs,
                                .n_reqs = n_slices,
                                .cap = hp->attn_cap,
                                .window = e->o.model->layers[layer].window,
                                .sinks = e->o.model->layers[layer].sinks};
    attend(e, &all);
    return observe(e, &all, slices, layer);
}

sp_err sp_attention_mass(sp_engine *e, const sp_slice *slices, int n_slices)
{
    size_t n = 0;
    for (int s = 0; s < n_slices; s++) n += mass_of(e, slices[s].plan, e->reqs[s].m);
    return n ? sp_mirror_pull(&e->mass, n * sizeof(float)) : SP_OK;
}

const float *sp_mass_on_host(const sp_engine *e, int slice)
{
    const float *host = e->mass.host, *dev = e->mass.dev, *mass = e->reqs[slice].mass;
    return mass ? host + (mass - dev) : NULL;
}
