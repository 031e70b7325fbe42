/* probe.c -- what plans that measure get: attention by key, and distances between copies of KV.
 * The policies that ask are in reuse/; sources: FusionRAG sections 2.2.2 and 3.2 (rows F2, F4). */
#include "engine/run_int.h"

/* ends -- whether the rows of a slice are done after being measured at this layer. */
static bool ends(const sp_slice *slice, sp_probe_kind kind, int layer)
{
    return slice->plan->probe.kind == kind && slice->plan->probe.layer == layer;
}

static bool probed(const sp_slice *slice, sp_probe_kind kind, int layer)
{
    return ends(slice, kind, layer) ||
           (slice->plan->probe.kind == kind && slice->plan->probe.layer == SP_EVERY_LAYER);
}

/* end_rows -- the measured slices' rows are done; the others go on. */
static void end_rows(sp_engine *e, const sp_slice *slices, int n_slices, sp_probe_kind kind,
                     int layer)
{
    bool any = false;
    for (int s = 0; s < n_slices; s++) {
        bool done = ends(&slices[s], kind, layer);
        for (int i = e->rows.first[s]; i < e->rows.first[s + 1]; i++) e->rows.keep[i] = !done;
        any |= done;
    }
    if (any) sp_rows_close(e, n_slices);
}

sp_err sp_probe_make_room(sp_engine *e, const sp_slice *slices, int n_slices)
{
    const sp_hparams *hp = &e->o.model->hp;
    size_t want = 0;
    for (int s = 0; s < n_slices; s++) {
        size_t n = (size_t)slices[s].n;
        if (slices[s].plan->probe.kind == SP_PROBE_DEVIATION)
            want = SP_MAX(want, n * (2 * sizeof(sp_kv_slot) + sizeof(float)));
        if (slices[s].plan->probe.kind == SP_PROBE_COLUMNS)
            want = SP_MAX(want, (size_t)sp_team_size(e->o.team) * sizeof(float) *
                                    sp_columns_scratch(slices[s].n, hp->n_heads, hp->head));
    }
    if (want <= e->probe_bytes) return SP_OK;
    void *p = sp_alloc_aligned(want);
    if (!p) return sp_fail_nomem(want, "the scratch of a probe");
    sp_free(e->probe);
    e->probe = p;
    e->probe_bytes = want;
    return SP_OK;
}

static void measure_deviation(sp_engine *e, const sp_kv_view *kv, const sp_plan *p, int first,
                              int end)
{
    const sp_rows *r = &e->rows;
    sp_kv_slot *now = e->probe, *then = now + (end - first);
    float *out = (float *)(then + (end - first));
    int m = 0;
    for (int i = first; i < end; i++) {
        sp_twin twin = p->twins[r->id[i]];
        if (twin.span < 0) continue;
        now[m] = (sp_kv_slot){.block = r->block[i], .slot = r->slot[i], .rot = r->rot[i]};
        then[m++] = sp_span_slot(&p->spans[twin.span], twin.index);
    }
    run_kv_differ(
        e, (int64_t)m * kv->n_heads * kv->head * SP_BLOCK_TOKENS,
        &(sp_kv_differ_args){.kv = kv, .rope = &e->rope, .a = now, .b = then, .m = m, .out = out});
    m = 0;
    for (int i = first; i < end; i++)
        if (p->twins[r->id[i]].span >= 0) p->probe.deviation[r->id[i]] = out[m++];
}

void sp_probe_deviation(sp_engine *e, const sp_kv_view *kv, const sp_slice *slices, int n_slices,
                        int layer)
{
    for (int s = 0; s < n_slices; s++)
        if (probed(&slices[s], SP_PROBE_DEVIATION, layer))
            measure_deviation(e, kv, slices[s].plan, e->rows.first[s], e->rows.first[s + 1]);
    end_rows(e, slices, n_slices, SP_PROBE_DEVIATION, layer);
}

/* same_sight -- the queries from `from` on that share their sight. */
static sp_attend_req same_sight(const sp_attend_req *req, int64_t from, const sp_hparams *hp)
{
    sp_attend_req part = *req;
    int64_t n = 1;
    while (from + n < req->m && req->see[from + n] == req->see[from]) n++;
    part.q += (size_t)from * (size_t)hp->n_heads * (size_t)hp->head;
    part.lse += (size_t)from * (size_t)hp->n_heads;
    part.pos += from;
    part.see += from;
    part.m = n;
    return part;
}

static void add_columns(sp_engine *e, const sp_kv_view *kv, const sp_plan *p,
                        const sp_attend_req *req)
{
    const sp_hparams *hp = &e->o.model->hp;
    int64_t keys = 0;
    for (int i = 0; i < p->n_spans; i++) keys += p->spans[i].n;
    run_columns(e, req->m * keys * hp->n_heads * hp->head,
                &(sp_columns_args){.kv = kv,
                                   .rope = &e->rope,
                                   .n_heads = hp->n_heads,
                                   .scale = hp->attn_scale,
                                   .req = req,
                                   .columns = p->probe.columns,
                                   .scratch = e->probe});
}

void sp_probe_columns(sp_engine *e, const sp_kv_view *kv, const sp_slice *slices, int n_slices,
                      int layer)
{
    const sp_hparams *hp = &e->o.model->hp;
    for (int s = 0; s < n_slices; s++) {
        if (!probed(&slices[s], SP_PROBE_COLUMNS, layer)) continue;
        sp_attend_req part = e->reqs[s];
        for (int64_t from = 0; from < e->reqs[s].m; from += part.m) {
            part = same_sight(&e->reqs[s], from, hp);
            add_columns(e, kv, slices[s].plan, &part);
        }
    }
    end_rows(e, slices, n_slices, SP_PROBE_COLUMNS, layer);
}
