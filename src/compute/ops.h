/* ops.h -- the operations of the forward pass, as a table that a CPU variant or a device fills in.
 *
 * Each operation takes one argument struct and one part of the work: op(&args, part, n_parts). All
 * parts together compute the whole; no sum crosses parts (attention combines its pieces in a fixed
 * order), so a result does not depend on the number of threads. The table starts as ref/ (plain C,
 * the definition) and is overridden by what the CPU offers: sp_ops_select().
 *
 * One arithmetic for one token: within one variant, the result for a row is the same bit for bit
 * whatever other rows are computed with it. A matmul's sum for (row, output) has one fixed order,
 * and attention walks the blocks of a span list in one fixed order. On this rests that prefill
 * whole, in pieces and behind a reused prefix give the same bits. */
#ifndef SP_COMPUTE_OPS_H
#define SP_COMPUTE_OPS_H

#include "base/threads.h"
#include "compute/dtype.h"
#include "compute/shapes.h"

/* -- weights -------------------------------------------------------------------------------- */

/* A weight matrix [n_rows, n_cols] in the type of its file, rows contiguous; a vector has one row.
 */
typedef struct sp_mat {
    sp_dtype type;
    int64_t n_rows, n_cols;
    const void *data;   /* borrowed: lives as long as the model */
    const void *packed; /* the same weights as sp_pack lays them out, or NULL */
} sp_mat;

/* y[m, r] = sum_c x[m, c] * w[r, c]  (+ bias[r])  (+ y[m, r] before, when add)
 * A variant that packs weights multiplies packed F32, F16, BF16 here; all else is left to ref. */
typedef struct sp_matmul_args {
    const sp_mat *w;
    const float *x; /* [m, w->n_cols] */
    int64_t m;
    float *y;          /* [m, w->n_rows] */
    const float *bias; /* [w->n_rows] or NULL */
    bool add;
} sp_matmul_args;

/* Packed weights. A variant may have weights laid out anew, once, when a model is opened (pack).
 * Floats are then multiplied by matmul, quantized types by matmul_packed, in integers and without
 * being decoded to floats. For that, rows of x are rounded to integers, once for all products that
 * share them (quantize): groups of 32 columns with a scale each. How finely x is rounded is the
 * variant's affair: sp_ops.x_bits. */

/* Is the matrix one for matmul_packed? */
static inline bool sp_in_integers(const sp_mat *w)
{
    return w->packed && sp_dtype_of(w->type)->n_group > 1;
}

/* Lays a matrix out as matmul or matmul_packed reads it. */
typedef struct sp_pack_args {
    const sp_mat *w;
    void *out; /* sp_ops.pack_bytes(w), on a cache line */
} sp_pack_args;

/* Rounds rows of x. A group with an element that is not finite makes all products of its row NaN. */
typedef struct sp_quantize_args {
    const float *x; /* [m, n], n a multiple of 32 */
    int64_t m, n;
    void *q; /* [m] of sp_ops.quantized_bytes(n), on a cache line */
} sp_quantize_args;

/* y as in sp_matmul_args, x as quantize left it. */
typedef struct sp_matmul_packed_args {
    const sp_mat *w; /* sp_in_integers */
    const void *q;   /* [m] rows of w->n_cols */
    int64_t m;
    float *y;
    const float *bias;
    bool add;
} sp_matmul_packed_args;

/* x[m, :] = row ids[m] of the embedding */
typedef struct sp_embed_args {
    const sp_mat *w;
    const int32_t *ids;
    int64_t m;
    float *x; /* [m, w->n_cols] */
} sp_embed_args;

/* -- element-wise --------------------------------------------------------------------------- */

/* y[i, :] = x[i, :] / sqrt(mean(x[i, :]^2) + eps) * w; y may be x. Rows are stride apart. */
typedef struct sp_rmsnorm_args {
    const float *x, *w;
    float *y;
    int64_t m, n;
    float eps;
} sp_rmsnorm_args;

/* y = silu(gate) * up, n elements; y may be gate. */
typedef struct sp_silu_mul_args {
    const float *gate, *up;
    float *y;
    int64_t n;
} sp_silu_mul_args;

/* -- positions ------------------------------------------------------------------------------ */

/* Rotary embedding of the first n_rot elements of a head. Pairs are (2i, 2i+1) or (i, i + n_rot/2).
 * Source: RoFormer; DESIGN section 2 for the rotation of queries per span. */
typedef struct sp_rope {
    int n_rot;      /* even, <= D; 0: no rotation */
    bool adjacent;  /* pairs (2i, 2i+1), as GGUF llama files are ordered; else halves */
    int n_pos;      /* rows of the tables: positions 0 .. n_pos-1 */
    const float *c; /* [n_pos, n_rot/2] cos(pos * freq_i) * magnitude */
    const float *s; /* [n_pos, n_rot/2] sin(pos * freq_i) * magnitude */
} sp_rope;

/* sp_rope_rotate -- rotates one head x[D] in place to position pos. */
void sp_rope_rotate(const sp_rope *r, float *x, int32_t pos);

/* -- keys and values ------------------------------------------------------------------------ */

/* One layer of the KV pool. Block b starts at base + b * block_bytes: for each of G heads
 *
 *   keys    [D][B]   transposed, so that a query meets 16 keys with one broadcast a channel
 *   values  [B][D]   rows, so that a probability scales one contiguous vector
 *
 * one behind the other, since they are read one after the other.
 *
 * F32, F16, BF16: elements in that order. Q8_0: groups of 32 along D; a head of keys is [D/32] of
 * { f16 scale[B], int8 q[32][B] }, a head of values [B][D/32] of { f16 scale, int8 q[32] }.
 *
 * Q16: integers of 16 bits with one scale a token and head, in words of the two that a vector of
 * sums takes at a time, W = D rounded up to 16 (what is beyond D means nothing):
 *
 *   keys    f32 scale[B], int16 q[W/2][B][2]           two channels of a token
 *   values  f32 scale[B], int16 q[W/16][B/2][16][2]    a channel of two tokens
 *
 * A key's scale is its norm / 32700, a value's its largest element / 32767: rounding leaves a
 * relative error in the square of D / 12 / 32700^2 (5e-9 at D = 64; F16: 4e-8). */
typedef struct sp_kv_view {
    sp_dtype type;
    int n_heads; /* G */
    int head;    /* D */
    uint8_t *base;
    size_t block_bytes; /* of this layer */
} sp_kv_view;

#define SP_HEAD_MAX 256 /* D at most: a head fits the stack */

/* bytes of the keys (or of the values: the same) of one KV head in a block */
size_t sp_kv_head_bytes(sp_dtype type, int head);

/* Writes keys and values of m tokens into their slots; keys are rotated to rot[m] on the way. */
typedef struct sp_kv_store_args {
    const sp_kv_view *kv;
    const sp_rope *rope;
    const float *k, *v; /* [m, G, D], keys not rotated */
    int64_t m;
    const uint32_t *block; /* [m] block of each token */
    const uint8_t *slot;   /* [m] 0..B-1 */
    const int32_t *rot;    /* [m] position that the key is rotated for ("at") */
} sp_kv_store_args;

/* -- span attention ------------------------------------------------------------------------- */

/* A run of tokens whose keys and values lie in blocks. Key i stands in blocks[i / B], slot i % B,
 * was rotated for at(i) = pos ? pos[i] : at + i, and stands in this prompt at at(i) + shift.
 * Borrowed view; kv/ owns what it points to. */
typedef struct sp_span {
    const uint32_t *blocks; /* [ceil(n / B)] */
    int32_t n;              /* tokens */
    int32_t at;             /* first position, when pos is NULL */
    const int32_t *pos;     /* [n] ascending positions of scattered tokens, or NULL */
    int32_t shift;
    const uint64_t *stale; /* bitmap [ceil(n / 64)]: 1 = must not be read; or NULL */
} sp_span;

/* What a segment's tokens may look at: the spans listed (ascending), or the first n when list is
 * NULL. Within them causality holds: a query at position p sees keys at positions <= p. */
typedef struct sp_sight {
    const uint16_t *list;
    int32_t n;
} sp_sight;

/* The queries of one request in this step. */
typedef struct sp_attend_req {
    const float *q;      /* [m, H, D] not rotated */
    float *out;          /* [m, H, D] */
    const int32_t *pos;  /* [m] ascending positions in the prompt */
    const uint16_t *see; /* [m] index into sights */
    int64_t m;
    const sp_span *spans;
    int32_t n_spans;
    const sp_sight *sights;
    float *mass; /* [m, H, n_spans] probability mass of each span, 0 where not seen; or NULL */
    float *lse;  /* [m, H] log of the sum of exp(score): what sp_columns needs; or NULL */
} sp_attend_req;

/* sp_attend -- out = softmax(scale * rot(q) . K^T) V over the spans in sight, for every request.
 * A query at p meets a span as rot(q, p - shift): keys are never rewritten.
 * A sum over keys is cut at fixed places of the spans in sight, and its pieces are taken together
 * in order: so threads can share a long context, and the bits do not say whether they did. Parts
 * share out the work by themselves.
 * Pre:  every query sees at least one key (itself); p - shift < rope->n_pos.
 * Tol:  NMSE <= 1e-6 against ref for equal KV.
 * What lies in slots that no query of a tile may see never reaches a result: it may be anything. */
typedef struct sp_attend_args {
    const sp_kv_view *kv;
    const sp_rope *rope;
    int n_heads; /* H */
    float scale; /* 1 / sqrt(D) as a rule */
    const sp_attend_req *reqs;
    int n_reqs;
    void *scratch;        /* [n_parts][scratch_bytes], zeroed before its first use only */
    size_t scratch_bytes; /* of one part, from sp_attend_scratch_bytes */
} sp_attend_args;

/* sp_attend_scratch_bytes -- scratch of one part, enough for any request with at most max_spans. */
size_t sp_attend_scratch_bytes(int n_heads, int n_kv_heads, int head, int max_spans);

/* -- what policies measure ------------------------------------------------------------------ */

/* sp_columns -- attention by key: columns[s][i] += sum over the queries and heads of one request
 * of the probability they gave to key i of span s. Spans whose columns are NULL are passed over.
 * Pre: req->lse as sp_attend left it; all queries have one sight. Source: FusionRAG section 3.2
 * (row F4). */
typedef struct sp_columns_args {
    const sp_kv_view *kv;
    const sp_rope *rope;
    int n_heads;
    float scale;
    const sp_attend_req *req;
    float *const *columns; /* [n_spans] of [span.n], or NULL */
    float *scratch;        /* [n_parts][sp_columns_scratch floats] */
} sp_columns_args;

/* sp_columns_scratch -- floats of one part for m queries. */
size_t sp_columns_scratch(int64_t m, int n_heads, int head);

/* sp_kv_differ -- out[i] = |K - K'|^2 + |V - V'|^2 over all heads, between two stored copies of
 * token i; keys rotated for different positions are turned to a common one first.
 * Source: FusionRAG section 2.2.1, KV deviation (rows F2, F8). */
typedef struct sp_kv_slot {
    uint32_t block;
    uint8_t slot;
    int32_t rot; /* position that its key was rotated for */
} sp_kv_slot;

typedef struct sp_kv_differ_args {
    const sp_kv_view *kv;
    const sp_rope *rope;
    const sp_kv_slot *a, *b; /* [m] */
    int64_t m;
    float *out; /* [m] */
} sp_kv_differ_args;

/* sp_kv_read -- key (as rotated) and value of one head, decoded: k, v [D]. */
void sp_kv_read(const sp_kv_view *kv, const sp_kv_slot *at, int head, float *k, float *v);
/* sp_kv_copy -- key and value of one token in all heads, bit for bit. Pre: equal `rot`. */
void sp_kv_copy(const sp_kv_view *kv, const sp_kv_slot *from, const sp_kv_slot *to);

/* -- the table ------------------------------------------------------------------------------ */

typedef struct sp_ops {
    const char *name; /* "ref", "avx2", "avxvnni", "avx512", "vnni" */
    void (*matmul)(const sp_matmul_args *a, int part, int n_parts);
    void (*embed)(const sp_embed_args *a, int part, int n_parts);
    void (*rmsnorm)(const sp_rmsnorm_args *a, int part, int n_parts);
    void (*silu_mul)(const sp_silu_mul_args *a, int part, int n_parts);
    void (*kv_store)(const sp_kv_store_args *a, int part, int n_parts);
    void (*attend)(const sp_attend_args *a, int part, int n_parts);
    void (*columns)(const sp_columns_args *a, int part, int n_parts);
    void (*kv_differ)(const sp_kv_differ_args *a, int part, int n_parts);

    /* Packed weights and products in integers; pack_bytes is NULL in a variant without. */
    int (*x_bits)(sp_dtype weights); /* of a rounded element of x, its sign among them */
    size_t (*pack_bytes)(const sp_mat *w);
    size_t (*quantized_bytes)(int64_t n); /* of a row of x */
    void (*pack)(const sp_pack_args *a, int part, int n_parts);
    void (*quantize)(const sp_quantize_args *a, int part, int n_parts);
    void (*matmul_packed)(const sp_matmul_packed_args *a, int part, int n_parts);
} sp_ops;

/* sp_ops_select -- the best table for this CPU, or the one named: "ref", "avx2", "avxvnni" (AVX2
 * and AVX-VNNI), "avx512", "vnni" (AVX-512 and its VNNI). NULL: the environment variable
 * SPOLIA_CPU, else the best. Errors: SP_E_UNSUPPORTED when the CPU lacks it, SP_E_ARG for an
 * unknown name. Thread: any. */
sp_err sp_ops_select(const char *name, const sp_ops **out) SP_MUST_CHECK;

#endif
