/* gate.c -- see gate.h. */
#include "reuse/craft/gate.h"

#include <math.h>
#include <string.h>

/* -- focused chunks ------------------------------------------------------------------------- */

static void sort_falling(const float *score, int n, int32_t *order)
{
    for (int i = 0; i < n; i++) { /* few chunks: insertion */
        int k = i;
        for (; k > 0 && score[order[k - 1]] < score[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
}

void sp_craft_focus(const float *score, int n, int32_t *order, bool *focused)
{
    sort_falling(score, n, order);
    double all = n ? (double)score[order[0]] - (double)score[order[n - 1]] : 0;
    int cut = n;
    double most = -1;
    for (int i = 1; i + 1 < n && all > 0; i++) { /* h(i+1) - h(i) = -p log p of difference i+1 */
        double p = ((double)score[order[i]] - (double)score[order[i + 1]]) / all;
        double gain = p > 0 ? -p * log(p) : 0;
        if (gain > most) {
            most = gain;
            cut = i;
        }
    }
    for (int i = 0; i < n; i++) focused[order[i]] = i < cut;
}

/* focus_step -- the focused chunks after this layer; true when they have been the same for long. */
static bool focus_step(sp_craft_gate *w)
{
    int n = 0;
    float score[UINT8_MAX];
    int32_t seg[UINT8_MAX], order[UINT8_MAX];
    bool in_focus[UINT8_MAX];
    for (int i = 0; i < w->n_segs && n < UINT8_MAX; i++)
        if (w->is_chunk[i]) {
            score[n] = w->looks[i];
            seg[n++] = i;
        }
    sp_craft_focus(score, n, order, in_focus);
    memcpy(w->was_focused, w->focused, (size_t)w->n_segs * sizeof *w->focused);
    for (int i = 0; i < w->n_segs; i++) w->focused[i] = true;
    for (int i = 0; i < n; i++) w->focused[seg[i]] = in_focus[i];
    bool same = memcmp(w->was_focused, w->focused, (size_t)w->n_segs * sizeof *w->focused) == 0;
    w->n_same = same ? w->n_same + 1 : 1;
    return w->n_same == w->focus;
}

static void drop_unfocused(sp_craft_gate *w, const sp_gate_view *view)
{
    for (int r = 0; r < view->n && w->probes; r++) view->keep[r] = false;
    for (int r = 0; r < view->n && !w->probes; r++) {
        int span = view->plan->todo[view->id[r]].span, seg = w->seg_of[span];
        if (span < w->n_segs || seg < 0 || w->focused[seg]) continue; /* it has no cached copy */
        view->keep[r] = false;
        w->chunks[seg].dropped = true;
    }
}

/* -- measuring ------------------------------------------------------------------------------ */

/* token_of -- which token of its segment a todo token is. */
static int32_t token_of(const sp_craft_gate *w, const sp_plan *p, const sp_todo *t, int seg)
{
    const sp_span *s = &p->spans[t->span];
    return s->pos ? s->pos[t->index] - w->first_of[seg] : t->index;
}

/* mass_of -- attention of row r to a span, mean over heads. */
static float mass_of(const sp_gate_view *v, int r, int span)
{
    int n_spans = v->plan->n_spans;
    const float *m = v->mass + (size_t)r * (size_t)v->n_heads * (size_t)n_spans + span;
    float sum = 0;
    for (int h = 0; h < v->n_heads; h++) sum += m[(size_t)h * (size_t)n_spans];
    return sum / (float)v->n_heads;
}

static void measure_token(sp_craft_gate *w, const sp_gate_view *v, int r, int seg)
{
    sp_craft_measured *c = &w->chunks[seg];
    int32_t token = token_of(w, v->plan, &v->plan->todo[v->id[r]], seg);
    for (int s = 0; s < v->plan->n_spans; s++) {
        int to = w->seg_of[s];
        if (to < 0 || to > seg || !w->is_chunk[to]) continue;
        float mass = mass_of(v, r, s) / (float)w->n_layers;
        if (to == seg) {
            c->intra += mass;
        } else {
            c->inter[to] += mass;
            c->to_prior[token] += mass;
        }
    }
}

static void measure_question(sp_craft_gate *w, const sp_gate_view *v, int r)
{
    for (int s = 0; s < v->plan->n_spans; s++)
        if (w->seg_of[s] >= 0) w->looks[w->seg_of[s]] += mass_of(v, r, s);
}

static void after_layer(void *user, const sp_gate_view *v)
{
    sp_craft_gate *w = user;
    bool asked = false;
    if (v->layer == 0) w->n_same = 0; /* a new piece of the plan */
    for (int r = 0; r < v->n; r++) {
        int seg = w->seg_of[v->plan->todo[v->id[r]].span];
        if (seg < 0) continue;
        if (w->chunks[seg].on) measure_token(w, v, r, seg);
        if (seg == w->n_segs - 1 && !w->is_chunk[seg]) {
            measure_question(w, v, r);
            asked = true;
        }
    }
    const bool is_last = v->layer + 1 == w->n_layers; /* what has passed it is whole, and no work is left to save */
    if (!asked || w->focus == 0 || !focus_step(w)) return;
    w->stable = true;
    if (!is_last) drop_unfocused(w, v);
}

/* -- making one ----------------------------------------------------------------------------- */

static sp_err measure_chunk(const sp_reuse_input *in, sp_plan *plan, int i, sp_craft_measured *out)
{
    out->to_prior = sp_arena_take(&plan->arena, (size_t)in->segs[i].n, sizeof *out->to_prior);
    out->inter = sp_arena_take(&plan->arena, (size_t)i, sizeof *out->inter);
    out->on = out->to_prior && out->inter;
    return out->on ? SP_OK
                   : sp_fail_nomem("attention statistics");
}

sp_err sp_craft_gate_begin(const sp_reuse_input *in, sp_plan *plan, const int32_t *seg_of,
                           const int32_t *recomputed, int focus)
{
    size_t n = (size_t)in->n_segs;
    sp_craft_gate *w = sp_arena_take(&plan->arena, 1, sizeof *w);
    int32_t *first_of = sp_arena_take(&plan->arena, n, sizeof *first_of);
    bool *flags = sp_arena_take(&plan->arena, 3 * n, sizeof *flags);
    float *looks = sp_arena_take(&plan->arena, n, sizeof *looks);
    sp_craft_measured *chunks = sp_arena_take(&plan->arena, n, sizeof *chunks);
    if (!w || !first_of || !flags || !looks || !chunks)
        return sp_fail_nomem("attention statistics");
    for (int i = 0; i < in->n_segs; i++) {
        bool is_new = plan->slots[i].n_known == 0, computed = recomputed && (is_new || recomputed[i] >= 0);
        bool is_chunk = in->segs[i].kind == SP_SEG_CHUNK && (recomputed || !is_new);
        first_of[i] = plan->spans[i].at;
        flags[i] = is_chunk;
        if (is_chunk && computed) SP_TRY(measure_chunk(in, plan, i, &chunks[i]));
    }
    *w = (sp_craft_gate){.n_segs = in->n_segs,
                         .n_layers = in->n_layers,
                         .focus = focus,
                         .seg_of = seg_of,
                         .first_of = first_of,
                         .is_chunk = flags,
                         .chunks = chunks,
                         .looks = looks,
                         .probes = !recomputed,
                         .focused = flags + n,
                         .was_focused = flags + 2 * n};
    plan->gate = (sp_gate){.after_layer = after_layer, .user = w, .wants_mass = true};
    return SP_OK;
}

const sp_craft_gate *sp_craft_gate_of(const sp_plan *plan)
{
    return plan->gate.after_layer == after_layer ? plan->gate.user : NULL;
}

bool sp_craft_is_unfocused(const sp_plan *probe, int i)
{
    const sp_craft_gate *w = sp_craft_gate_of(probe);
    assert(w && i < w->n_segs);
    return w->stable && w->is_chunk[i] && !w->focused[i];
}
