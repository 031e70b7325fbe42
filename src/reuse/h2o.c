/* h2o.c -- the most-attended tokens of each chunk are recomputed: a baseline.
 *
 * What counts is the attention that tokens receive within their chunk while its plain copy is
 * computed, over all layers and heads. So it finds plain copies with that measurement only, and its
 * fill measures; a token's score is its rank within its chunk, which weighs chunks by their size.
 * Source: Prefill-H2O of Cache-Craft section 5.1.4. */
#include "reuse/parts.h"

static sp_err find_measured(const sp_finder *f)
{
    const sp_reuse_input *in = f->in;
    SP_TRY(sp_reuse_find_start(f));
    for (int i = in->n_head; i < in->n_segs; i++) {
        if (!sp_reuse_wants_copy(in, i)) continue;
        sp_content_query q = sp_reuse_query(f, i);
        q.heavy = true;
        const sp_copy *c = sp_by_content_find(f->ledger, &q, SP_COPY_PLAIN, f->now);
        if (c)
            sp_reuse_serve(f, i, c, in->segs[i].n);
        else
            in->found[i].miss = (uint8_t)sp_by_content_why(f->ledger, &q);
    }
    return SP_OK;
}

static const sp_copy *peek_measured(const sp_ledger *l, const sp_content_query *q, bool unfused)
{
    sp_content_query heavy = *q;
    SP_UNUSED(unfused);
    heavy.heavy = true;
    return sp_by_content_peek(l, &heavy, SP_COPY_PLAIN);
}

/* measure_received -- attention by key, over all layers, of the chunks that the plan computes. */
static sp_err measure_received(const sp_reuse_input *in, sp_plan *plan)
{
    float **columns = sp_arena_take(&plan->arena, (size_t)in->n_segs, sizeof *columns);
    if (!columns) return sp_fail_nomem("a probe");
    for (int i = in->n_head; i < in->n_segs; i++) {
        size_t n = (size_t)plan->spans[i].n;
        if (in->segs[i].kind != SP_SEG_CHUNK || n == 0) continue;
        columns[i] = sp_arena_take(&plan->arena, n, sizeof **columns);
        if (!columns[i]) return sp_fail_nomem("a probe");
    }
    plan->probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = SP_EVERY_LAYER, .columns = columns};
    return SP_OK;
}

static sp_err answer_h2o(const sp_reuse_input *in, sp_plan *plan)
{
    float *score;
    int32_t first = 0;
    SP_TRY(sp_reuse_scores(in, plan, &score));
    for (int i = 0; i < in->n_segs; i++) {
        if (!sp_reuse_is_chunk(in, i)) continue;
        const int32_t *heavy = in->found[i].copy->facts.heavy;
        int32_t n = in->segs[i].n;
        for (int32_t rank = 0; heavy && rank < n; rank++)
            score[first + heavy[rank]] = -(float)rank / (float)n;
        first += n;
    }
    return sp_reuse_answer(in, score, plan);
}

static sp_err next_h2o(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    SP_TRY(sp_reuse_next(in, &(sp_reuse_makers){.answer = answer_h2o}, plan, role));
    return *role == SP_PLAN_FILL ? measure_received(in, plan) : SP_OK;
}

const sp_reuse_policy sp_reuse_h2o = {
    .name = "h2o",
    .help = "recompute what receives most attention in a chunk",
    .recomputes = true,
    .anywhere = true,
    .own_statistics = true,
    .find = find_measured,
    .peek = peek_measured,
    .next_plan = next_h2o,
    .room = sp_reuse_room,
    .keep = sp_reuse_keep_fill,
};
