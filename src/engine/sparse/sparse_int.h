/* sparse_int.h -- sparse decoding, for the files that implement it.
 *
 *   open.c   once        open, summarize: the candidates
 *   sparse.c        each layer  pick, rewrite, arrive: what a step reads
 *   ahead.c         each layer  a guess at what the next one picks
 *   summaries.c                 summaries of the pool's blocks, shared by all requests
 *   notes.c                     writes them to a store and reads them
 *   offload.c ...               blocks that leave memory and return when a step wants them */
#ifndef SP_ENGINE_SPARSE_SPARSE_INT_H
#define SP_ENGINE_SPARSE_SPARSE_INT_H

#include "engine/sparse/steps.h"

/* A span of the plan, as it was when decoding began. */
typedef struct sp_sparse_part {
    int32_t first,
        n; /* its blocks in the numbering of all of them; n: full ones of the answer's span */
    int32_t n_last; /* keys in the last of them */
    bool whole;     /* out of sight, or not all visible: read as it is */
} sp_sparse_part;

struct sp_sparse {
    sp_sparse_opts o;
    sp_sparse_account account;
    const sp_plan *plan; /* that it was opened for; NULL: not yet */
    bool active;
    int n_layers, n_heads; /* L, G */
    sp_arena arena;
    sp_sparse_part *parts;                    /* [plan->n_spans] */
    int32_t *keep;                            /* [n_keep] blocks that are always read, ascending */
    int32_t *block_of;                        /* [n] the block of each candidate, ascending */
    sp_pick_run *runs;                        /* [n_runs] */
    int32_t n_keep, n, k, n_proposed, n_runs; /* n_proposed 0: one stage */
    sp_mirror candidates;                     /* [n] ids of their blocks */
    sp_mirror picked;                         /* [L, G, k] */
    sp_mirror hits;                           /* [L, G] */
    sp_mirror guess;  /* [G, k] of the next layer, then [G] hits; none without `ahead` */
    sp_mirror tau;    /* [L, G] thresholds of reuse, then [L, H] weights of heads; or none */
    sp_mem labels;    /* [L, H, D] rotated queries that made the choices; or none */
    struct {
        uint32_t *blocks; /* [G, cap_blocks] */
        uint64_t *stale;  /* [G, cap_words] */
        size_t cap_blocks, cap_words;
    } rewritten; /* spans of a layer */
};

/* sp_sparse_open -- what a request may choose from, into an object whose plan is set; s->active: false
 * where full attention is better. Errors: SP_E_NOMEM. */
sp_err sp_sparse_open(sp_sparse *s, sp_engine *e, const sp_todo *query) SP_MUST_CHECK;
/* sp_sparse_summarize -- makes the wanted summaries that are missing. Errors: of the device. */
sp_err sp_sparse_summarize(sp_sparse *s, const sp_engine *e) SP_MUST_CHECK;
/* sp_sparse_refine -- how many times as many blocks a selector proposes as are read; 1: no second stage. */
float sp_sparse_refine(const sp_engine *e, const sp_sparse_opts *o);
/* sp_sparse_query -- a choice for query q of the slice; the caller adds where it goes. */
sp_pick_req sp_sparse_query(const sp_slice *slice, const float *q);
/* sp_sparse_reuses -- adds the labels and thresholds of a layer, by which a list is reused; none: nothing. */
void sp_sparse_reuses(const sp_engine *e, const sp_sparse *s, int layer, sp_pick_req *r);
/* sp_sparse_pick_blocks -- of requests whose selectors are of one kind, in a layer. */
void sp_sparse_pick_blocks(sp_engine *e, sp_summary_kind kind, int layer, const sp_pick_req *reqs,
                           int n_reqs);
/* sp_sparse_chose -- adds the time of choosing for all slices together. */
void sp_sparse_chose(const sp_slice *slices, int n_slices, int64_t us);

#endif
