/* rows.c -- the rows of a step: taken from the slices' plans, dropped by gates and before the last
 * layer; the remaining rows close the gaps.
 *
 *   slices   | request A: todo 5..8 | request B: todo 0..3 |
 *   rows       5 6 7                  0 1 2                     layer 0
 *   rows       5   7                  0 1 2                     after a gate of A dropped todo 6
 *   rows           7                      2                     last layer: whose logits are wanted
 *
 * A dropped row's slot keeps the KV of the layers before; in the remaining layers
 * it gets that of the token's older copy, its twin, if it has one (kv/plan.h).
 *
 * The lists that operations read are a mirror: the host fills them and pushes. What only the host
 * reads (todo ids, keep, first) is host memory. */
#include <string.h>

#include "base/mem.h"
#include "engine/state.h"

/* -- memory --------------------------------------------------------------------------------- */

/* lists_at -- the lists one after the other; 4-byte items first. */
static sp_row_lists lists_at(void *p, size_t m)
{
    int32_t *words = p;
    sp_row_lists l = {.token = words,
                      .pos = words + m,
                      .rot = words + 2 * m,
                      .block = (uint32_t *)(words + 3 * m),
                      .from = words + 4 * m};
    l.see = (uint16_t *)(words + 5 * m);
    l.slot = (uint8_t *)(l.see + m);
    return l;
}

sp_err sp_rows_create(sp_engine *e)
{
    sp_rows *r = &e->rows;
    const size_t m = (size_t)e->o.max_rows, item = 5 * sizeof(int32_t) + 3;
    SP_TRY(sp_mirror_alloc(e->device, m * item, "the rows of a step", &r->lists));
    r->host = lists_at(r->lists.host, m);
    r->dev = lists_at(r->lists.dev, m);
    r->id = SP_NEW_N(int32_t, m);
    r->keep = SP_NEW_N(bool, m);
    r->first = SP_NEW_N(int, (size_t)e->o.max_slices + 1);
    if (!r->id || !r->keep || !r->first)
        return sp_fail_nomem("the rows of a step");
    return SP_OK;
}

void sp_rows_destroy(sp_rows *r)
{
    sp_mirror_free(&r->lists);
    sp_free(r->id);
    sp_free(r->keep);
    sp_free(r->first);
}

/* -- from slices ---------------------------------------------------------------------------- */

sp_err sp_rows_check(const sp_engine *e, const sp_slice *slices, int n_slices)
{
    if (n_slices > e->o.max_slices)
        return sp_fail(SP_E_ARG, "step: %d slices, at most %d", n_slices, e->o.max_slices);
    int rows = 0;
    for (int s = 0; s < n_slices; s++) {
        const sp_slice *sl = &slices[s];
        if (sl->n < 1 || sl->from < 0 || sl->from + sl->n > sl->plan->n_todo || !sl->plan->bound)
            return sp_fail(SP_E_ARG, "step: slice %d takes todo %d..%d of %d", s, sl->from,
                           sl->from + sl->n, sl->plan->n_todo);
        if (sl->plan->selector.rewrite && sl->plan->probe.kind == SP_PROBE_COLUMNS)
            return sp_fail(SP_E_ARG, "step: slice %d has a selector and a probe of columns", s);
        rows += sl->n;
        for (int i = sl->from; i < sl->from + sl->n; i++) {
            const sp_todo *t = &sl->plan->todo[i];
            if (t->token < 0 || t->token >= e->o.model->hp.n_vocab)
                return sp_fail(SP_E_ARG, "token id %d is not in the vocabulary of %d", t->token,
                               e->o.model->hp.n_vocab);
            if (t->pos < 0 || t->pos >= e->o.n_ctx)
                return sp_fail(SP_E_CONTEXT, "position %d is outside the context of %d tokens",
                               t->pos, e->o.n_ctx);
        }
    }
    if (rows > e->o.max_rows)
        return sp_fail(SP_E_ARG, "step: %d tokens, at most %d", rows, e->o.max_rows);
    return SP_OK;
}

sp_err sp_rows_gather(sp_rows *r, const sp_slice *slices, int n_slices)
{
    sp_row_lists *l = &r->host;
    SP_TRY(sp_mirror_settle(&r->lists));
    r->n = 0;
    for (int s = 0; s < n_slices; s++) {
        r->first[s] = r->n;
        const sp_plan *p = slices[s].plan;
        for (int i = slices[s].from; i < slices[s].from + slices[s].n; i++, r->n++) {
            const sp_todo *t = &p->todo[i];
            const sp_span *span = &p->spans[t->span];
            r->id[r->n] = i;
            l->token[r->n] = t->token;
            l->pos[r->n] = t->pos;
            l->rot[r->n] = t->pos - span->shift;
            l->see[r->n] = t->see;
            const sp_kv_slot to = sp_span_slot(span, t->index);
            l->block[r->n] = to.block;
            l->slot[r->n] = to.slot;
            assert(!sp_kv_is_sealed(p->pool, l->block[r->n])); /* pool.h I2 */
        }
    }
    r->first[n_slices] = r->n;
    sp_mirror_push(&r->lists, r->lists.mem.n_bytes);
    return SP_OK;
}

/* -- dropping ------------------------------------------------------------------------------- */

static void move_row(sp_rows *r, int from, int to)
{
    sp_row_lists *l = &r->host;
    r->id[to] = r->id[from];
    l->token[to] = l->token[from];
    l->pos[to] = l->pos[from];
    l->rot[to] = l->rot[from];
    l->see[to] = l->see[from];
    l->block[to] = l->block[from];
    l->slot[to] = l->slot[from];
}

/* close_lists -- returns whether a row has moved. */
static bool close_lists(sp_rows *r, int n_slices)
{
    int to = 0;
    bool moved = false;
    for (int s = 0; s < n_slices; s++) {
        int from = r->first[s], end = r->first[s + 1];
        r->first[s] = to;
        for (; from < end; from++) {
            if (!r->keep[from]) continue;
            r->host.from[to] = from;
            if (to != from) {
                move_row(r, from, to);
                moved = true;
            }
            to++;
        }
    }
    r->first[n_slices] = r->n = to;
    return moved;
}

sp_err sp_rows_close(sp_engine *e, int n_slices)
{
    sp_rows *r = &e->rows;
    const sp_hparams *hp = &e->o.model->hp;
    const int64_t heads = (int64_t)hp->n_heads * hp->head;
    SP_TRY(sp_mirror_settle(&r->lists));
    if (!close_lists(r, n_slices)) return SP_OK;
    sp_mirror_push(&r->lists, r->lists.mem.n_bytes);
    sp_gather_args a = {.x = e->x, .from = r->dev.from, .m = r->n, .n = hp->n_embd};
    sp_device_gather(e->device, &a);
    a.x = e->h;
    sp_device_gather(e->device, &a);
    a.x = e->att;
    a.n = heads;
    sp_device_gather(e->device, &a);
    return SP_OK;
}

bool sp_row_wanted(const sp_slice *sl, int id)
{
    return sl->want == SP_WANT_ALL || (sl->want == SP_WANT_LAST && id == sl->from + sl->n - 1);
}

sp_err sp_rows_drop_unwanted(sp_engine *e, const sp_slice *slices, int n_slices)
{
    sp_rows *r = &e->rows;
    for (int s = 0; s < n_slices; s++)
        for (int i = r->first[s]; i < r->first[s + 1]; i++)
            r->keep[i] = slices[s].plan->gate.after_layer || sp_row_wanted(&slices[s], r->id[i]) ||
                         slices[s].plan->probe.kind == SP_PROBE_COLUMNS;
    return sp_rows_close(e, n_slices);
}

/* twins_of -- the slots of the rows of a plan that are dropped and have twins, into the mirror of
 * slots: where their KV is to come from, and where it goes. Returns how many. */
static int64_t twins_of(sp_engine *e, const sp_plan *p, int first, int end)
{
    const sp_rows *r = &e->rows;
    sp_kv_slot *from = e->slots.host, *to = from + e->o.max_rows;
    int64_t m = 0;
    for (int i = first; i < end; i++) {
        const int id = r->id[i];
        if (r->keep[i] || id >= p->n_twins || p->twins[id].span < 0) continue;
        from[m] = sp_span_slot(&p->spans[p->twins[id].span], p->twins[id].index);
        to[m++] =
            (sp_kv_slot){.block = r->host.block[i], .slot = r->host.slot[i], .rot = r->host.rot[i]};
    }
    return m;
}

bool sp_slice_is_there(const sp_slice *slice, int layer)
{
    return !slice->await.there || slice->await.there(slice->await.user, layer);
}

/* fall_back -- rows that a gate has dropped get their twins' KV in the layers that remain. */
static sp_err fall_back(sp_engine *e, const sp_slice *slice, int first, int end, int layer)
{
    const int last = e->o.model->hp.n_layers - 1;
    if (layer == last || slice->plan->n_twins == 0) return SP_OK;
    SP_TRY(sp_mirror_settle(&e->slots));
    int64_t m = twins_of(e, slice->plan, first, end);
    if (m == 0) return SP_OK;
    if (sp_slice_is_there(slice, last))
        sp_engine_copy_slots(e, layer + 1, m);
    else
        for (int i = first; i < end; i++) e->rows.keep[i] = false;
    return SP_OK;
}

sp_err sp_rows_pass_gates(sp_engine *e, const sp_slice *slices, int n_slices, int layer)
{
    sp_rows *r = &e->rows;
    bool any = false;
    for (int i = 0; i < r->n; i++) r->keep[i] = true;
    for (int s = 0; s < n_slices; s++) {
        const sp_gate *g = &slices[s].plan->gate;
        if (!g->after_layer || r->first[s] == r->first[s + 1]) continue;
        any = true;
        g->after_layer(g->user, &(sp_gate_view){.plan = slices[s].plan,
                                                .layer = layer,
                                                .n_heads = e->o.model->hp.n_heads,
                                                .n = r->first[s + 1] - r->first[s],
                                                .id = r->id + r->first[s],
                                                .mass = sp_mass_on_host(e, s),
                                                .keep = r->keep + r->first[s]});
        for (int i = r->first[s]; i < r->first[s + 1] && layer + 1 < e->o.model->hp.n_layers; i++)
            slices[s].plan->n_dropped += !r->keep[i];
        SP_TRY(fall_back(e, &slices[s], r->first[s], r->first[s + 1], layer));
    }
    return any ? sp_rows_close(e, n_slices) : SP_OK;
}
