/* inplace.c -- chunks without a usable copy are computed in place, after the prompt's chunks before them; then, as in
 * fusion, what the question attends to is recomputed in the chunks that other prompts left.
 *
 *   first prompt      head | A | B | C | question      A, B, C see all before them: the answer is exact
 *   copies            B, computed after A; C, after A and B
 *   another prompt    head | C | D | B | question      D is computed after C; a share of C and B is recomputed
 *
 * A chunk that is computed after the head alone, as policies that fill do, gives its first tokens the attention that
 * only a prompt's first tokens get, and has no chunk to compare itself with; that is much of what reuse loses, and
 * any preceding chunk restores most of it. Here the prompt that first has the chunk supplies them: nothing is computed
 * twice or offline. It is kept as a fused copy, which the policies that take chunks at any position find. A chunk
 * whose copy was computed after just the segments that precede it here needs no recomputation.
 * Source: our own, after FusionRAG sections 3.1 and 3.2, and Cache-Craft section 3.1 (copies placed by prompts). */
#include <string.h>

#include "reuse/parts.h"

enum { PRIOR, N_PARAMS };

/* is_missing -- head or chunk without a usable copy; a chunk that is not to be kept is computed with the answer. */
static bool is_missing(const sp_reuse_input *in, int i)
{
    return !in->found[i].copy && (i < in->n_head || in->segs[i].kind == SP_SEG_CHUNK) && sp_reuse_may_keep(in, i);
}

/* is_here -- segment i is head or chunk: its KV is known or computed by this plan. */
static bool is_here(const sp_reuse_input *in, int i)
{
    return i < in->n_head || in->segs[i].kind == SP_SEG_CHUNK || in->found[i].n_known == in->segs[i].n;
}

/* add_sight -- the head, the last chunks before segment i, and itself. */
static sp_err add_sight(const sp_reuse_input *in, int i, sp_plan *plan, int *see)
{
    const int most = (int)in->params[PRIOR];
    uint16_t *list = sp_arena_take(&plan->arena, (size_t)i + 1, sizeof *list);
    if (!list) return sp_fail_nomem("a plan");
    int from = i, n = 0;
    for (int k = i - 1, taken = 0; k >= in->n_head && (most == 0 || taken < most); k--)
        if (is_here(in, k)) from = k, taken++;
    for (int k = 0; k <= i; k++)
        if ((k < in->n_head || k >= from) && is_here(in, k)) list[n++] = (uint16_t)k;
    return sp_plan_add_sight(plan, list, n, see);
}

/* plan_fill -- what is missing of head and chunks, at its position in the prompt. */
static sp_err plan_fill(const sp_reuse_input *in, sp_plan *plan)
{
    int32_t place = 0;
    for (int i = 0; i < in->n_segs; i++) {
        const sp_found *found = &in->found[i];
        const bool known = found->n_known == in->segs[i].n, here = is_here(in, i);
        int span, see;
        SP_TRY(sp_plan_add_span(plan,
                                &(sp_span_spec){.n = here ? in->segs[i].n : 0,
                                                .at = known ? found->at : place,
                                                .shift = known ? place - found->at : 0,
                                                .known = known ? found->copy->blocks : NULL,
                                                .n_known = known ? in->segs[i].n : 0},
                                &span));
        if (is_missing(in, i)) {
            SP_TRY(add_sight(in, i, plan, &see));
            SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
        }
        place += in->segs[i].n;
    }
    return SP_OK;
}

/* is_moved -- chunk i was computed after other segments than in this prompt. */
static bool is_moved(const sp_reuse_input *in, int i)
{
    const sp_copy *c = in->found[i].copy;
    if (in->found[i].source == SP_AT_NONE) return false;
    if (c->facts.kind == SP_COPY_PATH) return i != in->n_head;
    return c->facts.n_before != i || memcmp(c->facts.before, in->ids, (size_t)i * sizeof *in->ids) != 0;
}

/* of_moved -- the share of all chunk tokens that `recompute` of the moved ones is; 1 stays 1. */
static float of_moved(const sp_reuse_input *in)
{
    const int32_t all = sp_reuse_n_chunk_tokens(in);
    int32_t n = 0;
    for (int i = 0; i < in->n_segs; i++)
        if (sp_reuse_is_chunk(in, i) && is_moved(in, i)) n += in->segs[i].n;
    return in->recompute >= 1 || all == 0 ? in->recompute : in->recompute * (float)n / (float)all;
}

static sp_err answer(const sp_reuse_input *in, sp_plan *plan)
{
    float *score;
    SP_TRY(sp_reuse_score_columns(in, plan, &score));
    for (int i = 0, k = 0; i < in->n_segs; i++) {
        const bool chunk = sp_reuse_is_chunk(in, i), moved = chunk && is_moved(in, i);
        for (int32_t t = 0; chunk && t < in->segs[i].n; t++, k++)
            if (!moved) score[k] = -1;
    }
    return sp_reuse_answer(in, score, plan);
}

static sp_err next(const sp_reuse_input *in, sp_plan *plan, sp_plan_role *role)
{
    static const sp_reuse_makers makers = {.n_probes = 1, .probe = sp_reuse_probe_question, .answer = answer};
    if (sp_reuse_wants_fill(in)) {
        *role = SP_PLAN_FILL;
        return plan_fill(in, plan);
    }
    sp_reuse_input moved = *in;
    moved.recompute = of_moved(in);
    return sp_reuse_next(&moved, &makers, plan, role);
}

/* room -- what this prompt computes in its place is not recomputed. */
static int64_t room(const sp_reuse_input *in)
{
    return in->recompute >= 1 ? sp_reuse_room(in) : sp_reuse_room_for(in, sp_reuse_n_chunk_tokens(in));
}

/* n_before -- segments that chunk i was computed after, head first; *before [that many] in the plan's arena. */
static int n_before(const sp_reuse_input *in, int i, sp_plan *plan, const sp_digest **before)
{
    const uint16_t *list = NULL;
    int n = 0;
    for (int t = 0; t < plan->n_todo && !list; t++)
        if (plan->todo[t].span == i) {
            list = plan->sights[plan->todo[t].see].list;
            n = plan->sights[plan->todo[t].see].n - 1;
        }
    sp_digest *ids = list ? sp_arena_take(&plan->arena, (size_t)n + 1, sizeof *ids) : NULL;
    for (int k = 0; ids && k < n; k++) ids[k] = in->ids[list[k]];
    *before = ids;
    return ids ? n : -1;
}

/* is_repeated -- an equal chunk earlier in the prompt was missing as well: its copy is kept. */
static bool is_repeated(const sp_reuse_input *in, int i)
{
    for (int k = in->n_head; k < i; k++)
        if (is_missing(in, k) && sp_digest_eq(&in->segs[k].id, &in->segs[i].id)) return true;
    return false;
}

static sp_err keep(const sp_reuse_input *in, sp_plan *plan, sp_plan_role role, sp_kept_list *out)
{
    if (role != SP_PLAN_FILL) return SP_OK;
    sp_reuse_keep_path(in, plan, in->n_head, out);
    for (int i = in->n_head; i < in->n_segs; i++) {
        const sp_span *s = &plan->spans[i];
        const sp_digest *before;
        if (in->segs[i].kind != SP_SEG_CHUNK || plan->slots[i].n_known || is_repeated(in, i)) continue;
        const int n = n_before(in, i, plan, &before);
        if (n < 0) continue;
        const bool plain = n == in->n_head;
        sp_copy_facts facts = {.kind = plain ? SP_COPY_PLAIN : SP_COPY_FUSED,
                               .exact = plain && i == in->n_head, /* no text is between them */
                               .before = before,
                               .n_before = n,
                               .n_head = in->n_head,
                               .at = s->at};
        if (!plain) SP_TRY(sp_reuse_list_below(in, i, &plan->arena, &facts));
        out->v[out->n++] =
            (sp_kept){.seg = i, .spec = {.seg = &in->segs[i], .facts = facts, .blocks = s->blocks}};
    }
    return SP_OK;
}

/* find -- its own copies are fused ones: `unfused` would leave none. */
static sp_err find(const sp_finder *f)
{
    sp_reuse_input all = *f->in;
    all.unfused = false;
    sp_finder finder = *f;
    finder.in = &all;
    return sp_reuse_find_chunks(&finder);
}

static const sp_copy *peek(const sp_ledger *l, const sp_content_query *q, bool unfused)
{
    SP_UNUSED(unfused);
    return sp_reuse_peek_chunk(l, q, false);
}

static const sp_reuse_param params[N_PARAMS] = {
    [PRIOR] = {"prior", "chunks", "preceding chunks that a new chunk sees; 0: all", 0, 1000, 0,
               .whole = true},
};

const sp_reuse_policy sp_reuse_inplace = {
    .name = "inplace",
    .help = "compute new chunks in their places, and recompute what the question looks at in the others",
    .params = params,
    .n_params = N_PARAMS,
    .recomputes = true,
    .anywhere = true,
    .keeps_placed = true,
    .find = find,
    .peek = peek,
    .next_plan = next,
    .room = room,
    .keep = keep,
};
