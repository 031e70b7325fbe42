/* summary.h -- what the variants of the selectors' kernels implement. */
#ifndef SP_COMPUTE_KERNEL_SUMMARY_H
#define SP_COMPUTE_KERNEL_SUMMARY_H

#include "compute/kernel/kv.h"
#include "compute/summary.h"

enum {
    SP_PICK_ROWS = 8,                     /* query heads that are scored together */
    SP_HASH_BITS_MAX = 256,
    SP_SUMMARY_WIDTH_MAX = SP_HEAD_MAX,
};

/* W: the bytes of a centre. */
static inline int sp_summary_width(int head)
{
    return SP_ROUND_UP(head, 32);
}

static inline bool sp_is_bounds(sp_summary_kind kind)
{
    return kind == SP_SUMMARY_BOUNDS || kind == SP_SUMMARY_QUEST;
}

static inline bool sp_is_hash(sp_summary_kind kind)
{
    return kind == SP_SUMMARY_HASH128 || kind == SP_SUMMARY_HASH256;
}

/* The byte and the nibble of a key's channel: groups of 4 channels, each with the 16 keys. The low
 * nibbles are of keys 0 .. 7, the high ones of keys 8 .. 15. */
static inline size_t sp_keys4_at(int channel, int slot)
{
    return (size_t)(channel / 4 * 32 + slot % 8 * 4 + channel % 4);
}

static inline int sp_hash_bits(sp_summary_kind kind)
{
    return kind == SP_SUMMARY_HASH128 ? 128 : 256;
}

/* Up to eight rotated queries, in the form that a kind of summary needs; rows beyond n are zero. */
typedef struct sp_pick_query {
    _Alignas(64) int8_t q[SP_PICK_ROWS][SP_SUMMARY_WIDTH_MAX];    /* bounds, keys4: rounded */
    _Alignas(64) int8_t size[SP_PICK_ROWS][SP_SUMMARY_WIDTH_MAX]; /* a |q| */
    int32_t sum[SP_PICK_ROWS];                                    /* of q */
    float scale[SP_PICK_ROWS];                      /* the value of 1; hash: |q| / bits */
    uint64_t code[SP_PICK_ROWS][SP_HASH_BITS_MAX / 64]; /* hash */
    int n;                                              /* rows that are not zero */
} sp_pick_query;

/* Scores of n candidates of one KV head: out [n][SP_PICK_ROWS]. */
typedef struct sp_score_args {
    const sp_summary_view *summary;
    int kv_head;
    const sp_pick_query *query;
    const uint32_t *block; /* [n] */
    int n;
    float *out;
} sp_score_args;

/* Scores of n candidates by `rows` query heads become the attention that these would give to each: the
 * sum over heads of softmax(scale score), with the powers of sp_power_of_two. */
typedef struct sp_combine_args {
    float *scores; /* [n][SP_PICK_ROWS]; replaced */
    int n, rows;
    float scale; /* to powers of 2 */
    float *out;  /* [n] added to */
} sp_combine_args;

typedef struct sp_summary_ops {
    void (*score_bounds)(const sp_score_args *a);
    void (*score_hash)(const sp_score_args *a);
    void (*score_keys4)(const sp_score_args *a);
    void (*combine)(const sp_combine_args *a);
} sp_summary_ops;

/* sp_summary_ops_of -- the kernels for a variant of sp_ops. */
const sp_summary_ops *sp_summary_ops_of(const char *variant);

void sp_score_bounds_ref(const sp_score_args *a);
void sp_score_hash_ref(const sp_score_args *a);
void sp_score_keys4_ref(const sp_score_args *a);
void sp_combine_ref(const sp_combine_args *a);
#define SP_DECLARE_SUMMARY(variant)                                                                \
    void sp_score_bounds_##variant(const sp_score_args *a);                                        \
    void sp_score_hash_##variant(const sp_score_args *a);                                          \
    void sp_score_keys4_##variant(const sp_score_args *a);                                         \
    void sp_combine_##variant(const sp_combine_args *a)
SP_DECLARE_SUMMARY(avx2);
SP_DECLARE_SUMMARY(avxvnni);
SP_DECLARE_SUMMARY(avx512);
SP_DECLARE_SUMMARY(vnni);
SP_DECLARE_SUMMARY(neon);
#undef SP_DECLARE_SUMMARY

/* sp_summarize -- one part of sp_summarize_args. */
void sp_summarize(const sp_summarize_args *a, int part, int n_parts);

/* sp_pick_units -- the pieces of all scores. sp_pick_score -- one part of them. sp_pick_take -- after
 * all scores: one part of the lists. */
int64_t sp_pick_units(const sp_pick_args *a);
void sp_pick_score(const sp_pick_args *a, const sp_summary_ops *ops, int part, int n_parts);
void sp_pick_take(const sp_pick_args *a, const sp_summary_ops *ops, int part, int n_parts);
/* The second stage, after all lists of the first: sp_pick_fine_units, sp_pick_fine_score and
 * sp_pick_fine_take like those of the first. */
int64_t sp_pick_fine_units(const sp_pick_args *a);
void sp_pick_fine_score(const sp_pick_args *a, const sp_summary_ops *ops, int part, int n_parts);
void sp_pick_fine_take(const sp_pick_args *a, const sp_summary_ops *ops, int part, int n_parts);

/* sp_hash_keys -- signs of the projections of n <= B vectors x [D][B]: code [B][bits / 64]. */
void sp_hash_keys(const float *x, int head, int n, int bits, uint64_t *code);

#endif
