/* learned.c -- what a watched plan leaves behind: copies of chunks with what was measured of them.
 *
 *   computed as a whole   a copy: CCI, attention to each chunk before, tokens by that attention
 *   in part               a patch over the copy that was used; CCI and the order of tokens are
 *                         those of that copy, as properties of the chunk
 *
 * Source: Cache-Craft sections 3.1 and 3.3 (rows C2, C4, C5, C7). */
#include <stdlib.h>

#include "reuse/overlap.h"
#include "reuse/reuse_int.h"
#include "reuse/watch.h"

typedef struct ranked {
    float score;
    int32_t token;
} ranked;

static int by_score(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

/* order_of -- tokens by falling attention to the chunks before; NULL when memory is out. */
static const int32_t *order_of(const sp_watched *c, int32_t n, sp_arena *arena)
{
    ranked *all = sp_arena_take(arena, (size_t)n, sizeof *all);
    int32_t *order = sp_arena_take(arena, (size_t)n, sizeof *order);
    if (!all || !order) return NULL;
    for (int32_t t = 0; t < n; t++) all[t] = (ranked){c->to_prior[t], t};
    qsort(all, (size_t)n, sizeof *all, by_score);
    for (int32_t t = 0; t < n; t++) order[t] = all[t].token;
    return order;
}

/* stats_of -- of a copy computed as a whole; of a patch: its own attention, the rest its base's. */
static const sp_copy_stats *stats_of(const sp_reuse_input *in, int i, const sp_watched *c,
                                     sp_arena *arena)
{
    sp_copy_stats *s = sp_arena_take(arena, 1, sizeof *s);
    int32_t *n_of = sp_arena_take(arena, (size_t)i + 1, sizeof *n_of);
    if (!s || !n_of) return NULL;
    for (int j = in->n_head; j < i; j++)
        n_of[j] = in->segs[j].kind == SP_SEG_CHUNK ? in->segs[j].n : 0;
    s->inter = c->inter;
    if (in->chunks[i]) {
        s->cci = in->chunks[i]->stats->cci;
        s->order = in->chunks[i]->stats->order;
    } else {
        s->cci = sp_overlap_cci(c->inter, n_of, i, c->intra, in->segs[i].n);
        s->order = order_of(c, in->segs[i].n, arena);
    }
    return s->order ? s : NULL;
}

/* again_span -- the span of tokens of chunk i that were computed again; -1: none. */
static int again_span(const sp_plan *plan, const sp_watch *w, int i)
{
    for (int s = plan->n_spans - 1; s >= w->n_segs; s--)
        if (w->seg_of[s] == i && plan->slots[s].n_known == 0) return s;
    return -1;
}

bool sp_reuse_learned(const sp_reuse_input *in, const sp_plan *plan, int i, sp_variant *out)
{
    const sp_watch *w = sp_watch_of(plan);
    const sp_variant *used = in->chunks[i];
    if (!w || !w->chunks[i].on || w->chunks[i].dropped) return false;
    if (used && used->base) return false; /* a patch is not patched again */
    sp_arena *arena = &((sp_plan *)plan)->arena;
    *out = (sp_variant){.kind = i == in->n_head ? SP_COPY_PLAIN : SP_COPY_PLACED,
                        .before = in->ids,
                        .n_before = i,
                        .at = plan->spans[i].at,
                        .blocks = plan->spans[i].blocks,
                        .stats = stats_of(in, i, &w->chunks[i], arena)};
    if (!out->stats) return false;
    if (!used) return true;
    int span = again_span(plan, w, i);
    if (span < 0) return false;
    int32_t n = plan->spans[span].n;
    int32_t *patch = sp_arena_take(arena, (size_t)n, sizeof *patch);
    if (!patch) return false;
    for (int32_t k = 0; k < n; k++) patch[k] = plan->spans[span].pos[k] - used->at;
    out->kind = SP_COPY_PLACED;
    out->base = used;
    out->n_patch = n;
    out->patch = patch;
    out->patch_blocks = plan->spans[span].blocks;
    return true;
}
