/* rows.c -- the rows of a step: taken from the slices' plans, dropped by gates and before the last
 * layer, closed up behind what is dropped.
 *
 *   slices   | request A: todo 5..8 | request B: todo 0..3 |
 *   rows       5 6 7                  0 1 2                     layer 0
 *   rows       5   7                  0 1 2                     after a gate of A dropped todo 6
 *   rows           7                      2                     last layer: whose logits are wanted
 *
 * A dropped row's slot keeps the KV that the layers before have given it; in the layers that remain
 * it gets that of the token's older copy, its twin, if it has one (kv/plan.h). */
#include <string.h>

#include "engine/run_int.h"

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

void sp_rows_gather(sp_rows *r, const sp_slice *slices, int n_slices)
{
    r->n = 0;
    for (int s = 0; s < n_slices; s++) {
        r->first[s] = r->n;
        const sp_plan *p = slices[s].plan;
        for (int i = slices[s].from; i < slices[s].from + slices[s].n; i++, r->n++) {
            const sp_todo *t = &p->todo[i];
            const sp_span *span = &p->spans[t->span];
            r->id[r->n] = i;
            r->token[r->n] = t->token;
            r->pos[r->n] = t->pos;
            r->rot[r->n] = t->pos - span->shift;
            r->see[r->n] = t->see;
            r->block[r->n] = span->blocks[t->index / SP_BLOCK_TOKENS];
            r->slot[r->n] = (uint8_t)(t->index % SP_BLOCK_TOKENS);
            assert(!sp_kv_is_sealed(p->pool, r->block[r->n])); /* pool.h I2 */
        }
    }
    r->first[n_slices] = r->n;
}

void sp_rows_close(sp_engine *e, int n_slices)
{
    sp_rows *r = &e->rows;
    size_t width = (size_t)e->o.model->hp.n_embd;
    size_t heads = (size_t)e->o.model->hp.n_heads * (size_t)e->o.model->hp.head;
    int to = 0;
    for (int s = 0; s < n_slices; s++) {
        int from = r->first[s], end = r->first[s + 1];
        r->first[s] = to;
        for (; from < end; from++) {
            if (!r->keep[from]) continue;
            if (to != from) {
                r->id[to] = r->id[from];
                r->token[to] = r->token[from];
                r->pos[to] = r->pos[from];
                r->rot[to] = r->rot[from];
                r->see[to] = r->see[from];
                r->block[to] = r->block[from];
                r->slot[to] = r->slot[from];
                memcpy(e->x + (size_t)to * width, e->x + (size_t)from * width,
                       width * sizeof *e->x);
                memcpy(e->h + (size_t)to * width, e->h + (size_t)from * width,
                       width * sizeof *e->h);
                memcpy(e->att + (size_t)to * heads, e->att + (size_t)from * heads,
                       heads * sizeof *e->att);
            }
            to++;
        }
    }
    r->first[n_slices] = r->n = to;
}

bool sp_row_wanted(const sp_slice *sl, int id)
{
    return sl->want == SP_WANT_ALL || (sl->want == SP_WANT_LAST && id == sl->from + sl->n - 1);
}

void sp_rows_drop_unwanted(sp_engine *e, const sp_slice *slices, int n_slices)
{
    sp_rows *r = &e->rows;
    for (int s = 0; s < n_slices; s++)
        for (int i = r->first[s]; i < r->first[s + 1]; i++)
            r->keep[i] = slices[s].plan->gate.after_layer || sp_row_wanted(&slices[s], r->id[i]) ||
                         slices[s].plan->probe.kind == SP_PROBE_COLUMNS;
    sp_rows_close(e, n_slices);
}

/* twin_slot -- where the older copy of a todo token lies; false when it has none. */
static bool twin_slot(const sp_plan *p, int id, sp_kv_slot *out)
{
    if (id >= p->n_twins || p->twins[id].span < 0) return false;
    *out = sp_span_slot(&p->spans[p->twins[id].span], p->twins[id].index);
    return true;
}

/* fall_back -- rows that a gate has dropped keep their twins' KV in the layers that remain. */
static void fall_back(sp_engine *e, const sp_plan *p, int first, int end, int layer)
{
    const sp_rows *r = &e->rows;
    for (int l = layer + 1; l < e->o.model->hp.n_layers; l++) {
        sp_kv_view kv = sp_kv_pool_layer(e->o.pool, l);
        sp_kv_slot twin;
        for (int i = first; i < end; i++)
            if (!r->keep[i] && twin_slot(p, r->id[i], &twin))
                sp_kv_copy(
                    &kv, &twin,
                    &(sp_kv_slot){.block = r->block[i], .slot = r->slot[i], .rot = r->rot[i]});
    }
}

void sp_rows_pass_gates(sp_engine *e, const sp_slice *slices, int n_slices, int layer)
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
                                                .mass = e->reqs[s].mass,
                                                .keep = r->keep + r->first[s]});
        fall_back(e, slices[s].plan, r->first[s], r->first[s + 1], layer);
    }
    if (any) sp_rows_close(e, n_slices);
}
