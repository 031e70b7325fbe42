/* fill.c -- computes the head and the chunks that no cache has.
 *
 *   sights   head segment i:  segments 0 .. i          exact, enters the knowledge tree
 *            chunk:           the head, and itself     canonical copy, enters the chunk index
 *
 * Every chunk is computed directly behind the head, wherever it stands in this prompt: its copy
 * depends on head and content only, and a span shifts it to its place. So the positions of the
 * chunks overlap here; they do not see each other. Nothing but head and chunks is in the plan. */
#include "reuse/reuse_int.h"

int sp_reuse_n_head(const sp_segment *segs, int n_segs)
{
    int n = 0;
    while (n < n_segs && segs[n].kind != SP_SEG_CHUNK) n++;
    return n;
}

/* missing -- head or chunk, and cached nowhere. */
static bool missing(const sp_reuse_input *in, int i)
{
    if (i < in->match->n_path) return false;
    if (i < in->n_head) return true;
    return in->segs[i].kind == SP_SEG_CHUNK && !in->chunks[i];
}

bool sp_reuse_needs_fill(const sp_reuse_input *in)
{
    for (int i = 0; i < in->n_segs; i++)
        if (missing(in, i)) return true;
    return false;
}

static sp_err add_sight(const sp_reuse_input *in, int i, sp_plan *plan, int *see)
{
    if (i < in->n_head) return sp_plan_add_sight(plan, NULL, i + 1, see);
    uint16_t *list = sp_arena_take(&plan->arena, (size_t)in->n_head + 1, sizeof *list);
    if (!list) return sp_fail_nomem(((size_t)in->n_head + 1) * sizeof *list, "a plan");
    for (int h = 0; h < in->n_head; h++) list[h] = (uint16_t)h;
    list[in->n_head] = (uint16_t)i;
    return sp_plan_add_sight(plan, list, in->n_head + 1, see);
}

/* has_twin -- an equal chunk earlier in the prompt: computed once is enough. */
static bool has_twin(const sp_reuse_input *in, int i)
{
    for (int k = in->n_head; k < i; k++)
        if (in->segs[k].kind == SP_SEG_CHUNK && sp_digest_eq(&in->segs[k].id, &in->segs[i].id))
            return true;
    return false;
}

/* measure_received -- attention by key, over all layers, of the chunks that the plan computes. */
static sp_err measure_received(const sp_reuse_input *in, sp_plan *plan)
{
    float **columns = sp_arena_take(&plan->arena, (size_t)in->n_segs, sizeof *columns);
    if (!columns) return sp_fail_nomem((size_t)in->n_segs * sizeof *columns, "a probe");
    for (int i = in->n_head; i < in->n_segs; i++) {
        size_t n = (size_t)plan->spans[i].n;
        if (in->segs[i].kind != SP_SEG_CHUNK || n == 0) continue;
        columns[i] = sp_arena_take(&plan->arena, n, sizeof **columns);
        if (!columns[i]) return sp_fail_nomem(n * sizeof **columns, "a probe");
    }
    plan->probe = (sp_probe){.kind = SP_PROBE_COLUMNS, .layer = SP_EVERY_LAYER, .columns = columns};
    return SP_OK;
}

sp_err sp_reuse_fill(const sp_reuse_input *in, sp_plan *plan)
{
    int32_t base = 0; /* where the head ends */
    for (int i = 0; i < in->n_segs; i++) {
        const sp_segment *seg = &in->segs[i];
        bool compute = missing(in, i) && !has_twin(in, i);
        bool known = i < in->n_head && !compute;
        const uint32_t *blocks = known ? sp_node_blocks(in->match->path[i]) : NULL;
        int32_t n =
            compute || known ? seg->n : 0; /* what this plan does not need is an empty span */
        int span, see;
        SP_TRY(sp_plan_add_span(
            plan, &(sp_span_spec){.n = n, .at = base, .known = blocks, .n_known = known ? n : 0},
            &span));
        if (compute) {
            SP_TRY(add_sight(in, i, plan, &see));
            SP_TRY(sp_reuse_add_tokens(in, i, see, plan));
        }
        if (i < in->n_head) base += seg->n;
    }
    return in->wants_heavy ? measure_received(in, plan) : SP_OK;
}
