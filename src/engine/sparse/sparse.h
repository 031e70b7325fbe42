/* sparse.h -- sparse decoding: a step reads only the blocks that matter to its query.
 *
 *   prompt, when decoding begins                                  answer
 *   |sink|  candidates ........................ | last 64 tokens | new tokens
 *    read    k of them, chosen for each KV head    read             read
 *            and layer by their summaries
 *
 * The choice works on any span list: the spans of a step name a subset of their blocks, with their
 * shift and stale tokens unchanged. With k = all the result has the bits of full attention.
 *
 * An sp_sparse belongs to one request and follows its plan from the first step of one token on.
 * It is inactive (full attention) below `min_depth`, where choosing costs more than it saves, and
 * when there is no memory for it.
 * Source: LiteCache; Quest; HATA. */
#ifndef SP_ENGINE_SPARSE_SPARSE_H
#define SP_ENGINE_SPARSE_SPARSE_H

#include "compute/summary.h"
#include "engine/sparse/heads.h"
#include "kv/plan.h"

#define SP_SPARSE_SHARE     0.1f /* the default budget */
#define SP_SPARSE_SINK      4
#define SP_SPARSE_RECENT    64
#define SP_SPARSE_MIN_DEPTH 4096
#define SP_SPARSE_REFINE    3.0f
#define SP_SPARSE_ETA       0.8f
#define SP_SPARSE_POWER     3.0f

/* A source of blocks that are not all in the pool. `want` is called with the blocks that KV head g of a
 * layer reads, in order, before its attention; it starts fetches, returns at once, and may replace an id by
 * that of the block that holds (or will hold) the bytes. `wait` returns when all wanted blocks of the layer
 * can be read. */
typedef struct sp_block_source {
    void (*want)(void *user, int layer, int kv_head, uint32_t *blocks, int32_t n);
    sp_err (*wait)(void *user, int layer);
    void *user;
    /* A guess at what a KV head of a layer to come will want. NULL: no guesses. */
    void (*ahead)(void *user, int layer, int kv_head, const uint32_t *blocks, int32_t n);
} sp_block_source;

/* Which fetched blocks are replaced; all but the first are for comparison. */
typedef enum sp_seat_policy {
    SP_SEATS_CLOCK,  /* one that was not wanted recently (the clock algorithm) */
    SP_SEATS_LRU,    /* the least recently wanted one */
    SP_SEATS_FORGET, /* all of them, after each token */
} sp_seat_policy;

typedef struct sp_sparse_opts {
    float share;          /* of the tokens of the prompt, 0..1; or */
    int32_t tokens;       /* this many */
    int32_t min_depth;    /* tokens; 0: SP_SPARSE_MIN_DEPTH; negative: always active */
    sp_summary_kind kind; /* the selector */
    float refine; /* it proposes this many times the blocks to read, SP_SUMMARY_KEYS4 orders them;
                     1: one stage; 0: SP_SPARSE_REFINE, or 1 where blocks can leave memory */
    sp_block_source source; /* want NULL: all blocks are in the pool */
    bool ahead;             /* fetch what the next layer is likely to want while this one computes */
    sp_seat_policy seats;
    /* A choice is reused while queries are similar to the one that made it (QSAC). */
    bool reuse;
    float eta;   /* the largest threshold: of heads of importance 1; 0: SP_SPARSE_ETA */
    float power; /* of importance; 0: SP_SPARSE_POWER; negative: eta is every head's threshold */
    bool least;  /* the least similar query head of a group decides, not their mean */
    const sp_heads *heads; /* borrowed; NULL: all of importance 1 */
} sp_sparse_opts;

/* Why an sp_sparse is inactive. */
typedef enum sp_sparse_full {
    SP_SPARSE_IS_ACTIVE,
    SP_SPARSE_SHORT, /* below min_depth */
    SP_SPARSE_ALL,   /* all is read anyway */
    SP_SPARSE_NOMEM
} sp_sparse_full;

/* What it saved, and what it cost. */
typedef struct sp_sparse_account {
    sp_sparse_full full;     /* since decoding began */
    int64_t n_steps, n_full; /* steps: sparse ones, and others since decoding began */
    int64_t n_read, n_keys;  /* in sparse steps: keys read, keys that full attention reads */
    int64_t n_chosen,
        n_reused;         /* lists of a KV head: made for the query, reused from a step before */
    int64_t n_summarized; /* blocks */
    int64_t summarize_us, choose_us;
    size_t summary_bytes; /* of all blocks it can choose from */
    size_t choice_bytes;  /* of them what a step reads when no list is reused */
} sp_sparse_account;

/* sp_sparse_create -- Errors: SP_E_ARG (neither or both of share and tokens, or out of range),
 * SP_E_NOMEM. */
sp_err sp_sparse_create(const sp_sparse_opts *o, sp_sparse **out) SP_MUST_CHECK;
/* sp_sparse_destroy -- before the device of the pool is closed. */
void sp_sparse_destroy(sp_sparse *s);
/* sp_sparse_renew -- one with the same options, for another plan, in place of *s. Errors: SP_E_NOMEM, and *s stays. */
sp_err sp_sparse_renew(sp_sparse **s) SP_MUST_CHECK;
sp_sparse_account sp_sparse_account_of(const sp_sparse *s);

#endif
