/* probe.c -- measurements for plans: attention by key, and distances between copies of KV.
 * The policies that ask are in reuse/; sources: FusionRAG sections 2.2.2 and 3.2.
 *
 * Columns belong to the plan, in host memory. If the device cannot add to them there, they are copied
 * in, added to and copied out, so that sums have the same order on every device. */
#include <math.h>

#include "base/mem.h"
#include "engine/state.h"

/* ends -- whether the rows of a slice are finished once measured at this layer. */
static bool ends(const sp_slice *slice, sp_probe_kind kind, int layer)
{
    return slice->plan->probe.kind == kind && slice->plan->probe.layer == layer;
}

static bool probed(const sp_slice *slice, sp_probe_kind kind, int layer)
{
    return ends(slice, kind, layer) ||
           (slice->plan->probe.kind == kind && slice->plan->probe.layer == SP_EVERY_LAYER);
}

/* end_rows -- drops the rows of the slices that are measured at this layer. */
static sp_err end_rows(sp_engine *e, const sp_slice *slices, int n_slices, sp_probe_kind kind,
                       int layer)
{
    bool any = false;
    for (int s = 0; s < n_slices; s++) {
        bool done = ends(&slices[s], kind, layer);
        for (int i = e->rows.first[s]; i < e->rows.first[s + 1]; i++) e->rows.keep[i] = !done;
        any |= done;
    }
    return any ? sp_rows_close(e, n_slices) : SP_OK;
}

/* -- distances ------------------------------------------------------------------------------ */

/* compare -- the first m pairs in the mirror of slots; squared distances and sizes come to the
 * host. */
static sp_err compare(sp_engine *e, sp_probed_layer at, int64_t m)
{
    const sp_kv_slot *slots = e->slots.dev;
    float *out = e->differ.dev;
    if (m == 0) return SP_OK;
    sp_mirror_push(&e->slots, e->slots.mem.n_bytes);
    sp_device_kv_differ(e->device, &(sp_kv_differ_args){.kv = at.kv,
                                                        .rope = sp_engine_rope(e, at.layer),
                                                        .a = slots,
                                                        .b = slots + e->o.max_rows,
                                                        .m = m,
                                                        .out = out,
                                                        .size = out + e->o.max_rows});
    return sp_mirror_pull(&e->differ, e->differ.mem.n_bytes);
}

static sp_err measure_deviation(sp_engine *e, sp_probed_layer at, const sp_plan *p, int first,
                                int end)
{
    const sp_rows *r = &e->rows;
    sp_kv_slot *now = e->slots.host, *then = now + e->o.max_rows;
    const float *out = e->differ.host;
    int m = 0;
    SP_TRY(sp_mirror_settle(&e->slots));
    for (int i = first; i < end; i++) {
        sp_twin twin = p->twins[r->id[i]];
        if (twin.span < 0) continue;
        now[m] =
            (sp_kv_slot){.block = r->host.block[i], .slot = r->host.slot[i], .rot = r->host.rot[i]};
        then[m++] = sp_span_slot(&p->spans[twin.span], twin.index);
    }
    SP_TRY(compare(e, at, m));
    m = 0;
    for (int i = first; i < end; i++)
        if (p->twins[r->id[i]].span >= 0) p->probe.deviation[r->id[i]] = out[m++];
    return SP_OK;
}

sp_err sp_probe_deviation(sp_engine *e, sp_probed_layer at, const sp_slice *slices, int n_slices)
{
    for (int s = 0; s < n_slices; s++)
        if (probed(&slices[s], SP_PROBE_DEVIATION, at.layer))
            SP_TRY(measure_deviation(e, at, slices[s].plan, e->rows.first[s],
                                     e->rows.first[s + 1]));
    return end_rows(e, slices, n_slices, SP_PROBE_DEVIATION, at.layer);
}

sp_err sp_engine_kv_distance(sp_engine *e, int layer, const sp_kv_pairs *pairs, float *out)
{
    const sp_kv_view kv = sp_kv_pool_layer(e->o.pool, layer);
    for (int64_t i = 0; e->offload && i < pairs->n; i++) {
        SP_TRY(sp_offload_bring_back(e->offload, &pairs->a[i].block, 1));
        SP_TRY(sp_offload_bring_back(e->offload, &pairs->b[i].block, 1));
    }
    const float *differ = e->differ.host, *size = differ + e->o.max_rows;
    sp_kv_slot *a = e->slots.host, *b = a + e->o.max_rows;
    double difference = 0, norm = 0;
    for (int64_t from = 0, m; from < pairs->n; from += m) {
        m = SP_MIN(pairs->n - from, e->o.max_rows);
        SP_TRY(sp_mirror_settle(&e->slots));
        for (int64_t i = 0; i < m; i++) a[i] = pairs->a[from + i], b[i] = pairs->b[from + i];
        SP_TRY(compare(e, (sp_probed_layer){&kv, layer}, m));
        for (int64_t i = 0; i < m; i++) difference += (double)differ[i], norm += (double)size[i];
    }
    *out = norm > 0 ? (float)sqrt(difference / norm) : 0;
    return SP_OK;
}

/* -- columns -------------------------------------------------------------------------------- */

/* keys_of -- keys that a probe has columns for. */
static size_t keys_of(const sp_plan *p)
{
    size_t n = 0;
    for (int i = 0; i < p->n_spans; i++)
        if (p->probe.columns[i]) n += (size_t)p->spans[i].n;
    return n;
}

sp_err sp_probe_make_room(sp_engine *e, const sp_slice *slices, int n_slices)
{
    size_t keys = 0, spans = 0;
    for (int s = 0; s < n_slices && !e->device->unified; s++) {
        const sp_plan *p = slices[s].plan;
        if (p->probe.kind != SP_PROBE_COLUMNS) continue;
        keys = SP_MAX(keys, keys_of(p));
        spans = SP_MAX(spans, (size_t)p->n_spans);
    }
    if (spans > e->cap_column_list) {
        float **list = sp_alloc(spans, sizeof *list);
        if (!list) return sp_fail_nomem("the columns of a probe");
        sp_free(e->column_list);
        e->column_list = list;
        e->cap_column_list = spans;
    }
    return sp_mem_grow(e->device, keys * sizeof(float), "the columns of a probe", &e->columns);
}

/* columns_in -- the plan's columns where the device can add to them. */
static float *const *columns_in(sp_engine *e, const sp_plan *p)
{
    float *next = e->columns.p;
    if (e->device->unified) return p->probe.columns;
    for (int i = 0; i < p->n_spans; i++) {
        const size_t n = (size_t)p->spans[i].n;
        e->column_list[i] = p->probe.columns[i] ? next : NULL;
        if (!p->probe.columns[i]) continue;
        sp_device_copy_in(e->device, next, p->probe.columns[i], n * sizeof *next);
        next += n;
    }
    return e->column_list;
}

static sp_err columns_out(sp_engine *e, const sp_plan *p)
{
    sp_event last = {0};
    for (int i = 0; i < p->n_spans && !e->device->unified; i++)
        if (p->probe.columns[i])
            last = sp_device_copy_out(e->device, p->probe.columns[i], e->column_list[i],
                                      (size_t)p->spans[i].n * sizeof(float));
    return sp_device_wait(e->device, last);
}

/* same_sight -- the queries from `from` on that share their sight. */
static sp_attend_req same_sight(const sp_attend_req *req, const uint16_t *see, int64_t from,
                                const sp_hparams *hp)
{
    sp_attend_req part = *req;
    int64_t n = 1;
    while (from + n < req->m && see[from + n] == see[from]) n++;
    part.q += (size_t)from * (size_t)hp->n_heads * (size_t)hp->head;
    part.lse += (size_t)from * (size_t)hp->n_heads;
    part.pos += from;
    part.see += from;
    part.m = n;
    return part;
}

static sp_err measure_columns(sp_engine *e, sp_probed_layer at, const sp_plan *p, int s)
{
    const sp_hparams *hp = &e->o.model->hp;
    const sp_attend_req *req = &e->reqs[s];
    float *const *columns = columns_in(e, p);
    sp_attend_req part;
    for (int64_t from = 0; from < req->m; from += part.m) {
        part = same_sight(req, e->rows.host.see + e->rows.first[s], from, hp);
        sp_device_columns(e->device, &(sp_columns_args){.kv = at.kv,
                                                        .rope = sp_engine_rope(e, at.layer),
                                                        .n_heads = hp->n_heads,
                                                        .scale = hp->attn_scale,
                                                        .cap = hp->attn_cap,
                                                        .window =
                                                            e->o.model->layers[at.layer].window,
                                                        .req = &part,
                                                        .columns = columns});
    }
    return columns_out(e, p);
}

sp_err sp_probe_columns(sp_engine *e, sp_probed_layer at, const sp_slice *slices, int n_slices)
{
    for (int s = 0; s < n_slices; s++)
        if (probed(&slices[s], SP_PROBE_COLUMNS, at.layer))
            SP_TRY(measure_columns(e, at, slices[s].plan, s));
    return end_rows(e, slices, n_slices, SP_PROBE_COLUMNS, at.layer);
}
