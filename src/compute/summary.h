/* summary.h -- summaries of KV blocks, and the choice of the blocks that a query reads by them.
 *
 * Sparse decoding scores blocks by a few bytes each instead of reading their keys. A selector is a
 * kind of summary:
 *
 *   bounds   of each channel the range of the block's 16 keys, as centre and half-width in bytes:
 *            score = q . centre + a |q| . half, with a = 2 / sqrt(D): about the largest score of a
 *            key, for the channels of one key are not all at their bounds. 2 W bytes a block and
 *            head, W = D rounded up to 32.
 *   quest    the same with a = 1, which no key of the block exceeds (but for the query's rounding)
 *   hash     128 or 256 signs of random projections of each key; score = the largest cosine that
 *            the Hamming distances suggest, times the norms (HATA without training).
 *   keys4    the keys in 4 bits, one scale a block; score = the largest product of a key. 8 W bytes.
 *
 * Keys are summarized as they are stored: rotated for `at`. A query at p is rotated by p - shift for
 * the blocks of a span, as span attention does.
 *
 * A choice may have two stages: summaries of one kind propose candidates, and those of another, finer
 * kind (`fine`), which are read for the proposed ones only, order them.
 *
 * A request's choice for one KV head and layer is a list of candidates, kept from step to step. A
 * query that is similar enough to the one that made the list reuses it (QSAC); otherwise the query
 * replaces that one, and the best k candidates for it replace the list. Similarities of the query
 * heads that share the KV head are combined by their harmonic mean, weighted by importance.
 *
 * For a KV head a block is worth the attention that it would get: exp(score) over the sum of those,
 * added up over the query heads of the group.
 *
 * All arithmetic on summaries is in integers, so every variant chooses the same blocks.
 * Sources: Quest (Tang et al. 2024); HATA (Gong et al. 2025); LiteCache algorithm 1, eq. 2. */
#ifndef SP_COMPUTE_SUMMARY_H
#define SP_COMPUTE_SUMMARY_H

#include "compute/ops.h"

typedef enum sp_summary_kind {
    SP_SUMMARY_BOUNDS,
    SP_SUMMARY_QUEST,
    SP_SUMMARY_HASH128,
    SP_SUMMARY_HASH256,
    SP_SUMMARY_KEYS4,
    SP_SUMMARY_N
} sp_summary_kind;

/* One layer. Like all arrays of numbers, in device memory. */
typedef struct sp_summary_view {
    sp_summary_kind kind;
    int n_heads, head; /* G, D */
    int64_t n_blocks;
    uint8_t *base; /* [G][n_blocks] of sp_summary_bytes */
    float *scale;  /* [G][n_blocks] the value of 1; hash: the largest norm of a key */
} sp_summary_view;

/* sp_summary_bytes -- of one block and KV head, without its scale. */
size_t sp_summary_bytes(sp_summary_kind kind, int head);

/* Summarizes the first n[i] keys of blocks. */
typedef struct sp_summarize_args {
    const sp_kv_view *kv;
    const sp_summary_view *to;
    const uint32_t *block; /* [m] */
    const uint8_t *n;      /* [m] 1 .. B */
    int64_t m;
} sp_summarize_args;

/* Neighbouring candidates whose keys have one shift. Host memory. */
typedef struct sp_pick_run {
    int32_t first, n, shift;
} sp_pick_run;

/* The one query of a request in a decode step. */
typedef struct sp_pick_req {
    const float *q; /* [H, D] not rotated */
    int32_t pos;
    const sp_pick_run *runs; /* host [n_runs], in order, of all candidates */
    int n_runs;
    const uint32_t *block; /* [n] of each candidate */
    int32_t n, k;          /* k <= n */
    int32_t n_proposed;    /* 0: one stage; else k .. n: the candidates that `fine` orders */
    uint32_t *picked;      /* [G, k] ascending: read on a hit, else written */
    float *label;          /* [H, D] rotated query that made `picked` */
    bool is_guess;         /* q is not the query itself: its choice replaces no label */
    uint8_t *hit;          /* [G] 2: picked holds nothing yet; out: 1 reused, 0 replaced */
    const float *tau;      /* [G] a similarity above it reuses the list; NULL: none does */
    const float *weight;   /* [H] importance; NULL: the least similar head of a group decides */
} sp_pick_req;

typedef struct sp_pick_args {
    const sp_summary_view *summary;
    const sp_summary_view *fine; /* NULL: no request has a second stage */
    const sp_rope *rope;
    int n_heads; /* H */
    float scale; /* of scores, as in attention */
    const sp_pick_req *reqs;
    int n_reqs;
    float *scratch; /* set by the device: sp_pick_scratch */
} sp_pick_args;

/* sp_pick_scratch -- floats for a request with n candidates. */
size_t sp_pick_scratch(int64_t n, int n_heads, int n_kv_heads);

/* sp_head_similarity -- of one KV head's queries to the label: eq. 2; the least without weights, or
 * where one is not positive and the mean has no meaning. sim [n]. */
float sp_head_similarity(const float *sim, const float *weight, int n);

#endif
