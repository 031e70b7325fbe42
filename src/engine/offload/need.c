/* need.c -- what a step takes of the budget beside near blocks and seats: the window of the layer that is computed,
 * and the blocks that it fills. Requests whose windows do not fit together take turns. */
#include "engine/offload/offload_int.h"

void sp_offload_begin_step(sp_offload *o)
{
    o->need.step++;
    o->need.n_read = o->need.n_fresh = 0;
}

int64_t sp_need_blocks(const sp_offload *o)
{
    return SP_DIV_UP(o->need.n_read, (int64_t)o->shape.n_layers) + o->need.n_fresh;
}

/* reads_seats -- steps of this plan read no window: the first step of sparse decoding makes summaries of all. */
static bool reads_seats(const sp_plan *p)
{
    return p->sparse && sp_sparse_account_of(p->sparse).n_steps > 0;
}

/* unseen -- blocks of the plan that have bytes and that the step does not read so far; `count`: it does now. */
static int64_t unseen(sp_offload *o, const sp_plan *p, bool count)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_spans; i++)
        for (int32_t b = 0; b < sp_span_n_blocks(&p->spans[i]); b++) {
            const uint32_t block = p->spans[i].blocks[b];
            if (o->need.seen[block] == o->need.step || sp_kv_is_empty(o->pool, block)) continue;
            if (count) o->need.seen[block] = o->need.step;
            n++;
        }
    return n;
}

bool sp_offload_add_slice(sp_offload *o, const sp_plan *p, int *n)
{
    const int64_t read = reads_seats(p) ? 0 : unseen(o, p, false);
    const bool is_first = o->need.n_fresh == 0;
    if (!is_first && o->need.n_read + read > o->max_window) return false;
    const int64_t room = o->n_budget - sp_need_blocks(o) - SP_DIV_UP(read, (int64_t)o->shape.n_layers);
    if (!is_first && room < 2) return false;
    *n = (int)SP_MIN((int64_t)*n, SP_MAX(room - 1, (int64_t)1) * SP_BLOCK_TOKENS);
    if (read) o->need.n_read += unseen(o, p, true);
    o->need.n_fresh += SP_DIV_UP(*n, SP_BLOCK_TOKENS);
    return true;
}
