/* ops.h -- the operations of the forward pass, as argument structs that every device takes.
 *
 * Arrays of numbers (weights, activations, KV, lists with an item per row) are in device memory.
 * Descriptors (the structs themselves, spans and what they point to, sights, lists of pointers) are
 * in host memory; the device reads them before the call returns. Fields say `host` where it is not
 * obvious. How a device runs an operation: compute/device.h; the CPU's kernels: compute/kernels.h.
 *
 * One arithmetic for one token: on one device, the result for a row is the same bit for bit,
 * whatever other rows are computed with it. A matmul's sum for (row, output) has one fixed order,
 * and attention walks the blocks of a span list in one fixed order. Therefore a prompt computed
 * whole, in pieces or after a reused prefix gives the same bits.
 */
#ifndef SP_COMPUTE_OPS_H
#define SP_COMPUTE_OPS_H

#include "base/err.h"
#include "compute/dtype.h"
#include "compute/shapes.h"

/* -- weights -------------------------------------------------------------------------------- */

/* A weight matrix [n_rows, n_cols] in the type of its file, rows contiguous; a vector has one row. */
typedef struct sp_mat {
    sp_dtype type;
    int64_t n_rows, n_cols;
    const void *data;   /* as in the file; in host memory until the device loads the matrix */
    const void *packed; /* the same weights in the layout of the device's kernels, or NULL */
} sp_mat;

/* y[m, r] = sum_c x[m, c] * w[r, c]  (+ bias[r])  (+ y[m, r] before, when add) */
typedef struct sp_matmul_args {
    const sp_mat *w;
    const float *x; /* [m, w->n_cols] */
    int64_t m;
    float *y;          /* [m, w->n_rows] */
    const float *bias; /* [w->n_rows] or NULL */
    bool add;
} sp_matmul_args;

/* Products of the same rows: x and m are equal in all of them. */
enum { SP_PRODUCTS_MAX = 3 };
typedef struct sp_products_args {
    const sp_matmul_args *a; /* [n] */
    int n;                   /* 1 .. SP_PRODUCTS_MAX */
} sp_products_args;

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
    bool feeds; /* products read y next: a device that multiplies integers rounds it meanwhile */
} sp_rmsnorm_args;

/* y[i, :] = (x[i, :] - mean) / sqrt(variance + eps) * w + b, mean and variance of the row; y may be x, and b
 * NULL: 0.
 * Source: Layer Normalization (Ba et al. 2016). */
typedef struct sp_layernorm_args {
    const float *x, *w, *b;
    float *y;
    int64_t m, n;
    float eps;
    bool feeds; /* as in sp_rmsnorm_args */
} sp_layernorm_args;

/* Activations of a feed-forward layer: x / (1 + exp(-z)) with z = x, or, the approximation of GELU
 * that uses tanh, z = sqrt(8 / pi) (x + 0.044715 x^3); or GELU itself, x (1 + erf(x / sqrt(2))) / 2; or
 * gpt-oss's, with z = 1.702 x of x = min(gate, 7), where `up` becomes 1 + its value limited to -7..7; or
 * max(x, 0)^2. */
typedef enum sp_act {
    SP_ACT_SILU,
    SP_ACT_GELU,
    SP_ACT_GELU_ERF,
    SP_ACT_SWIGLU_OAI,
    SP_ACT_RELU2,
    SP_ACT_N
} sp_act;

/* y = act(gate) * up, n elements; y may be gate; up NULL: y = act(gate). */
typedef struct sp_act_mul_args {
    const float *gate, *up;
    float *y;
    int64_t n;
    int64_t feeds; /* rows in y that products read next; 0: none */
    sp_act act;
} sp_act_mul_args;

/* y[i] = keep * y[i] + scale * x[i], n elements; x NULL: y[i] = keep * y[i], or 0 where keep is. */
typedef struct sp_blend_args {
    const float *x;
    float *y;
    int64_t n;
    float keep, scale;
} sp_blend_args;

/* y[i, :] = x[from[i], :] */
typedef struct sp_take_args {
    const float *x;
    float *y;
    const int32_t *from; /* [m] */
    int64_t m, n;
} sp_take_args;

/* y[to[i], :] += weight[i] * x[i, :]; no two of `to` are equal. */
typedef struct sp_spread_args {
    const float *x;
    float *y;
    const int32_t *to;   /* [m] */
    const float *weight; /* [m] */
    int64_t m, n;
} sp_spread_args;

/* x[i, :] = x[from[i], :]; from is ascending and from[i] >= i. Closes the gaps of dropped rows. */
typedef struct sp_gather_args {
    float *x; /* [.., n] */
    const int32_t *from;
    int64_t m, n;
} sp_gather_args;

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

/* -- keys and values ------------------------------------------------------------------------ */

/* One layer of the KV pool. Head g of block b starts at base + b * block_bytes + g * head_bytes:
 *
 *   keys    [D][B]   transposed: one broadcast a channel multiplies a query with 16 keys
 *   values  [B][D]   rows: a probability scales one contiguous vector
 *
 * next to each other, in the order in which attention reads them. The heads of a block follow each
 * other, or all blocks of a head do (kv/pool.h).
 *
 * F32, F16, BF16: elements in that order. Q8_0: groups of 32 along D; a head of keys is [D/32] of
 * { f16 scale[B], int8 q[32][B] }, a head of values [B][D/32] of { f16 scale, int8 q[32] }.
 *
 * Q16: integers of 16 bits with one scale a token and head, in words of the two that a vector of
 * sums takes at a time, W = D rounded up to 16 (channels beyond D are padding):
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
    size_t block_bytes; /* from a block to the next */
    size_t head_bytes;  /* from a head to the next; 0: they follow each other */
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

/* Tokens whose keys and values are in blocks. Key i is in block blocks[j / B], slot j % B, with
 * j = first + i; it was rotated for at(i) = pos ? pos[i] : at + i, and its position in this prompt is
 * at(i) + shift. Borrowed view, in host memory; kv/ owns what it points to.
 *
 * Joined spans that follow each other in a sight, with one shift, are computed as if their keys were
 * in one span, bit for bit, wherever their blocks are. Pre: a query that sees a key of one of them
 * sees all keys of those before it; they have no stale keys. With masses each is computed by itself,
 * which changes the last bits. */
typedef struct sp_span {
    const uint32_t *blocks; /* [ceil((first + n) / B)] */
    int32_t first;          /* slot of key 0 in blocks[0], 0 .. B-1; 0 unless joined */
    int32_t n;              /* tokens */
    int32_t at;             /* first position, when pos is NULL */
    const int32_t *pos;     /* [n] ascending positions of scattered tokens, or NULL */
    int32_t shift;
    const uint64_t *stale; /* bitmap [ceil(n / 64)]: 1 = must not be read; or NULL */
    bool joined;
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
    const sp_span *const *spans_of_head; /* [G] of [n_spans]: in place of `spans` for the queries of
                                            each KV head; or NULL */
} sp_attend_req;

/* sp_req_spans -- the spans that the queries of a KV head attend to. */
static inline const sp_span *sp_req_spans(const sp_attend_req *r, int kv_head)
{
    return r->spans_of_head ? r->spans_of_head[kv_head] : r->spans;
}

/* sp_attend -- out = softmax(scale * rot(q) . K^T) V over the spans in sight, for every request.
 * A query at p is rotated by p - shift for each span: keys are never rewritten.
 * A sum over keys is cut at fixed places of the spans in sight, and its pieces are added in order:
 * threads can share a long context, and the bits do not depend on whether they do.
 * Pre:  every query sees at least one key (itself); p - shift < rope->n_pos.
 * Tol:  NMSE <= 1e-6 against ref for equal KV.
 * Slots that no query of a tile may see may hold anything: it never reaches a result. */
typedef struct sp_attend_args {
    const sp_kv_view *kv;
    const sp_rope *rope;
    int n_heads; /* H */
    float scale; /* usually 1 / sqrt(D) */
    const sp_attend_req *reqs;
    int n_reqs;
    void *scratch; /* scratch and scratch_bytes: set by the device (compute/kernels.h) */
    size_t scratch_bytes;
    float cap;      /* a score s becomes cap * tanh(s / cap); 0: no cap */
    int32_t window; /* a query at p sees keys at positions > p - window only; 0: all up to p */
    const float *sinks; /* [H] a score that takes its share of each query's probability and adds no value; or NULL.
                           Source: gpt-oss (OpenAI 2025); masses of a query then sum to less than 1 */
} sp_attend_args;

/* -- what policies measure ------------------------------------------------------------------ */

/* sp_columns -- attention by key: columns[s][i] += sum over the queries and heads of one request
 * of the probability they gave to key i of span s. Spans whose columns are NULL are skipped.
 * Pre: req->lse as sp_attend left it; all queries have one sight. Source: FusionRAG section 3.2. */
typedef struct sp_columns_args {
    const sp_kv_view *kv;
    const sp_rope *rope;
    int n_heads;
    float scale, cap; /* these three as in sp_attend_args */
    int32_t window;
    const sp_attend_req *req;
    float *const *columns; /* host list [n_spans] of [span.n], or NULL */
    float *scratch;        /* set by the device */
} sp_columns_args;

/* One stored token. */
typedef struct sp_kv_slot {
    uint32_t block;
    uint8_t slot;
    int32_t rot; /* position that its key was rotated for */
} sp_kv_slot;

/* sp_kv_differ -- out[i] = |K - K'|^2 + |V - V'|^2 over all heads, between two stored copies of
 * token i; keys rotated for different positions are turned to a common one first.
 * Source: FusionRAG section 2.2.1, KV deviation. */
typedef struct sp_kv_differ_args {
    const sp_kv_view *kv;
    const sp_rope *rope;
    const sp_kv_slot *a, *b; /* [m] */
    int64_t m;
    float *out;  /* [m] */
    float *size; /* [m] |K'|^2 + |V'|^2 of b; or NULL */
} sp_kv_differ_args;

/* sp_kv_copy -- key and value of each token in all heads, bit for bit. Pre: equal `rot`. */
typedef struct sp_kv_copy_args {
    const sp_kv_view *kv;
    const sp_kv_slot *from, *to; /* [m] */
    int64_t m;
} sp_kv_copy_args;

#endif
