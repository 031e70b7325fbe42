#include "serve/request/cite.h"

#include <string.h>

#include "base/log.h"
#include "serve/request/request.h"

#define MOST_BYTES ((size_t)64 << 20) /* of a request's rows */

/* segment_at -- of a list of segments, the one that has a position; -1: none. */
static int32_t segment_at(const sp_request *r, int32_t pos)
{
    int32_t end = 0;
    for (int i = 0; i < r->prompt.n_segs; i++)
        if (pos < (end += r->prompt.segs[i].n)) return i;
    return -1;
}

/* map_spans -- a segment has the span of its own index; recomputed tokens have spans after those. */
static bool map_spans(sp_request *r)
{
    const sp_plan *p = &r->plans.now;
    int32_t *of = sp_arena_take(&r->arena, (size_t)p->n_spans, sizeof *of);
    if (!of) return false;
    for (int s = 0; s < p->n_spans; s++) {
        const sp_span *span = &p->spans[s];
        of[s] = s < r->prompt.n_segs                ? s
                : s == r->plans.answer_span || !span->n ? -1
                : segment_at(r, (span->pos ? span->pos[0] : span->at) + span->shift);
    }
    r->citing.seg_of = of;
    r->citing.n_spans = p->n_spans;
    return true;
}

/* add -- mass [H, n_spans] of a row, mean over layers and heads, to the segments' sums. */
static void add(const sp_request *r, const sp_gate_view *v, int row, float *to)
{
    const sp_request_citing *c = &r->citing;
    const float *mass = v->mass + (size_t)row * (size_t)v->n_heads * (size_t)v->plan->n_spans;
    const float share = 1 / (float)(r->ctx->model->hp.n_layers * v->n_heads);
    for (int h = 0; h < v->n_heads; h++, mass += v->plan->n_spans)
        for (int s = 0; s < c->n_spans; s++)
            if (c->seg_of[s] >= 0) to[c->seg_of[s]] += mass[s] * share;
}

static void watch_prompt(void *user, const sp_gate_view *v)
{
    sp_request *r = user;
    sp_request_citing *c = &r->citing;
    for (int i = 0; i < v->n; i++) {
        const sp_todo *t = &v->plan->todo[v->id[i]];
        if (t->span != r->prompt.n_segs - 1) continue;
        const bool first = t->index < SP_CITE_BEFORE;
        *(first ? &c->n_before : &c->n_asking) += v->layer == 0;
        add(r, v, i, first ? c->before : c->asking);
    }
}

static void watch_answer(void *user, const sp_gate_view *v)
{
    sp_request *r = user;
    sp_request_citing *c = &r->citing;
    for (int i = 0; i < v->n; i++) {
        const sp_todo *t = &v->plan->todo[v->id[i]];
        if (t->span != r->plans.answer_span || t->index >= c->n_rows) continue;
        float *to = c->looks + (size_t)t->index * (size_t)r->prompt.n_segs;
        if (v->layer == 0) memset(to, 0, (size_t)r->prompt.n_segs * sizeof *to);
        add(r, v, i, to);
        if (v->layer == r->ctx->model->hp.n_layers - 1 && c->n_looks <= t->index) c->n_looks = t->index + 1;
    }
}

/* take_rows -- memory for as many tokens as there may be, or as MOST_BYTES have. */
static bool take_rows(sp_request *r)
{
    sp_request_citing *c = &r->citing;
    const size_t n_segs = (size_t)r->prompt.n_segs, most = MOST_BYTES / (n_segs * sizeof *c->looks);
    c->n_rows = (int)SP_MIN((size_t)r->answer.max_tokens, SP_MAX(1, most));
    c->looks = sp_arena_take(&r->arena, (size_t)c->n_rows * n_segs, sizeof *c->looks);
    c->text_at = sp_arena_take(&r->arena, (size_t)c->n_rows + 1, sizeof *c->text_at);
    if (c->looks && c->text_at) return true;
    c->looks = NULL;
    return false;
}

static bool is_cited(const sp_request *r)
{
    return r->o.citations && !r->answer.sparse && !r->answer.window;
}

void sp_request_cite_prompt(sp_request *r)
{
    sp_request_citing *c = &r->citing;
    const size_t n = (size_t)r->prompt.n_segs;
    if (!is_cited(r) || r->plans.role != SP_PLAN_ANSWER || r->plans.now.gate.after_layer) return;
    if (!c->before) c->before = sp_arena_take(&r->arena, 2 * n, sizeof *c->before);
    if (!c->before || !map_spans(r)) return;
    c->asking = c->before + n;
    memset(c->before, 0, 2 * n * sizeof *c->before);
    c->n_before = c->n_asking = 0;
    r->plans.now.gate = (sp_gate){.after_layer = watch_prompt, .user = r, .wants_mass = true};
}

void sp_request_cite(sp_request *r)
{
    if (!is_cited(r)) return;
    if ((!r->citing.looks && !take_rows(r)) || !map_spans(r)) {
        sp_log(SP_LOG_WARN, "an answer without citations: out of memory");
        return;
    }
    r->plans.now.gate = (sp_gate){.after_layer = watch_answer, .user = r, .wants_mass = true};
}

void sp_request_cite_token(sp_request *r, int n)
{
    if (r->citing.looks && n <= r->citing.n_rows) r->citing.text_at[n] = (int)r->answer.text.n;
}

void sp_request_report_citing(sp_request *r)
{
    const sp_request_citing *c = &r->citing;
    sp_result *res = &r->account.result;
    if (!c->looks || res->n_segments == 0) return;
    for (int i = 0; i < res->n_segments && c->n_before && c->n_asking; i++) {
        c->before[i] /= (float)c->n_before;
        c->asking[i] /= (float)c->n_asking;
    }
    res->looks_before = c->n_before && c->n_asking ? c->before : NULL;
    res->looks_asking = res->looks_before ? c->asking : NULL;
    res->looks = c->looks;
    res->text_at = c->text_at;
    res->n_looks = SP_MIN(c->n_looks, (int)r->answer.tokens.n);
}
