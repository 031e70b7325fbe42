/* fill.c -- computes the head and the chunks that have no usable copy.
 *
 *   sights   head segment i:  segments 0 .. i          exact: a path copy
 *            chunk:           the head, and itself     a plain copy
 *
 * Every chunk is computed directly after the head, wherever it is in this prompt: its copy depends
 * on head and content only, and a span shifts it to its position. So the positions of the chunks
 * overlap here; they do not see each other. Nothing but head and chunks is in the plan. */
#include "reuse/parts.h"

/* missing -- head or chunk without a usable copy; a chunk that is not to be kept is computed with the answer. */
static bool missing(const sp_reuse_input *in, int i)
{
    return !in->found[i].copy && (i < in->n_head || in->segs[i].kind == SP_SEG_CHUNK) && sp_reuse_may_keep(in, i);
}

bool sp_reuse_wants_fill(const sp_reuse_input *in)
{
    if (in->n_done[SP_PLAN_FILL]) return false;
    for (int i = 0; i < in->n_segs; i++)
        if (missing(in, i)) return true;
    return false;
}

static sp_err add_sight(const sp_reuse_input *in, int i, sp_plan *plan, int *see)
{
    if (i < in->n_head) return sp_plan_add_sight(plan, NULL, i + 1, see);
    uint16_t *list = sp_arena_take(&plan->arena, (size_t)in->n_head + 1, sizeof *list);
    if (!list) return sp_fail_nomem("a plan");
    for (int h = 0; h < in->n_head; h++) list[h] = (uint16_t)h;
    list[in->n_head] = (uint16_t)i;
    return sp_plan_add_sight(plan, list, in->n_head + 1, see);
}

/* is_repeated -- an equal chunk earlier in the prompt is missing, too: computing it once is
 * enough. */
static bool is_repeated(const sp_reuse_input *in, int i)
{
    for (int k = in->n_head; k < i; k++)
        if (missing(in, k) && sp_digest_eq(&in->segs[k].id, &in->segs[i].id)) return true;
    return false;
}

sp_err sp_reuse_plan_fill(const sp_reuse_input *in, sp_plan *plan)
{
    int32_t end = 0; /* of the head */
    for (int i = 0; i < in->n_segs; i++) {
        const sp_segment *seg = &in->segs[i];
        bool compute = missing(in, i) && !is_repeated(in, i);
        bool known = i < in->n_head && !compute;
        int32_t n = compute || known ? seg->n : 0; /* what this plan does not need: an empty span */
        int span, see;
        SP_TRY(sp_plan_add_span(plan,
                                &(sp_span_spec){.n = n,
                                                .at = end,
                                                .known = known ? in->found[i].copy->blocks : NULL,
                                                .n_known = known ? n : 0},
                                &span));
        if (compute) {
            SP_TRY(add_sight(in, i, plan, &see));
            SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
        }
        if (i < in->n_head) end += seg->n;
    }
    return SP_OK;
}

/* -- what is kept ---------------------------------------------------------------------------- */

void sp_reuse_keep_path(const sp_reuse_input *in, const sp_plan *plan, int n, sp_kept_list *out)
{
    for (int i = 0; i < n; i++) {
        const sp_found *found = &in->found[i];
        if (found->n_known && !found->exact) return; /* what follows is approximate */
        bool moves = in->segs[i].origin > 0;
        if (found->n_known == in->segs[i].n) continue;
        if (!moves && !sp_segment_on_path(in->segs, i)) continue;
        out->v[out->n++] = (sp_kept){.seg = i,
                                     .spec = {.seg = &in->segs[i],
                                              .facts.kind = SP_COPY_PATH,
                                              .facts.exact = !moves,
                                              .facts.at = plan->spans[i].at,
                                              .blocks = plan->spans[i].blocks,
                                              .first = plan->spans[i].first}};
    }
}

sp_err sp_reuse_keep_prompt(const sp_reuse_input *in, sp_plan *plan, sp_plan_role role,
                            sp_kept_list *out)
{
    SP_UNUSED(role);
    sp_reuse_keep_path(in, plan, in->n_segs, out);
    return SP_OK;
}

sp_err sp_reuse_keep_fill(const sp_reuse_input *in, sp_plan *plan, sp_plan_role role,
                          sp_kept_list *out)
{
    if (role != SP_PLAN_FILL) return SP_OK;
    sp_reuse_keep_path(in, plan, in->n_head, out);
    for (int i = in->n_head; i < in->n_segs; i++) {
        const sp_span *s = &plan->spans[i];
        if (in->segs[i].kind != SP_SEG_CHUNK || s->n == 0) continue;
        const float *received =
            plan->probe.kind == SP_PROBE_COLUMNS ? plan->probe.columns[i] : NULL;
        out->v[out->n++] = (sp_kept){
            .seg = i,
            .spec = {.seg = &in->segs[i],
                     .facts.kind = SP_COPY_PLAIN,
                     .facts.exact = true,
                     .facts.before = in->ids,
                     .facts.n_before = in->n_head,
                     .facts.n_head = in->n_head,
                     .facts.at = s->at,
                     .blocks = s->blocks,
                     .facts.heavy =
                         received ? sp_reuse_falling(received, s->n, &plan->arena) : NULL}};
    }
    return SP_OK;
}

sp_err sp_reuse_next(const sp_reuse_input *in, const sp_reuse_makers *m, sp_plan *plan,
                     sp_plan_role *role)
{
    if (sp_reuse_wants_fill(in)) {
        *role = SP_PLAN_FILL;
        return sp_reuse_plan_fill(in, plan);
    }
    if (in->warm) {
        *role = SP_PLAN_DONE;
        return SP_OK;
    }
    bool probe = sp_reuse_wants_probe(in, m->n_probes);
    *role = probe ? SP_PLAN_PROBE : SP_PLAN_ANSWER;
    return probe ? m->probe(in, plan) : m->answer(in, plan);
}
