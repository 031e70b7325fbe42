/* kernels.h -- the operations of ops.h as the CPU computes them: one table for each variant.
 *
 * A kernel computes one part of an operation: op(&args, part, n_parts). All parts together compute
 * the whole. No sum crosses parts (attention combines its pieces in a fixed order), so a result
 * does not depend on the number of threads. A table starts as ref/ (plain C, the definition) and is
 * overridden by what the CPU offers: sp_ops_select().
 *
 * For the CPU device (cpu.c), its tests and benchmarks of kernels; the engine and everything above
 * it work through compute/device.h.
 */
#ifndef SP_COMPUTE_KERNELS_H
#define SP_COMPUTE_KERNELS_H

#include "base/threads.h"
#include "compute/ops.h"

/* -- packed weights ------------------------------------------------------------------------- */

/* A variant may change the layout of weights once, when a model is loaded (pack). Packed floats are then
 * multiplied by matmul, quantized types by matmul_packed, in integers and without decoding them to
 * floats. For that, rows of x are rounded to integers, once for all products that share them
 * (quantize): groups of 32 columns with a scale each. sp_ops.x_bits says how finely. "amx" rounds
 * quantized weights and x to bf16 instead, and multiplies BF16 that way, too; "amx-f16" also F16. */

/* Lays a matrix out as matmul or matmul_packed reads it. */
typedef struct sp_pack_args {
    const sp_mat *w;
    void *out; /* sp_ops.pack_bytes(w), on a cache line */
} sp_pack_args;

/* Rounds rows of x. A group with an element that is not finite makes all products of its row NaN. */
typedef struct sp_quantize_args {
    const float *x; /* [m, n], n a multiple of 32 */
    int64_t m, n;
    void *q;    /* [m] of sp_ops.quantized_bytes(n), on a cache line */
    void *rest; /* as q: the error of rounding to 8 bits, itself rounded to 8 bits; or NULL */
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

/* -- the table ------------------------------------------------------------------------------ */

typedef struct sp_ops {
    const char *name; /* "ref", "avx2", "avxvnni", "avx512", "vnni", "amx", "amx-f16", "amx-attend", "amx-f16-attend",
                         "neon", "i8mm" */
    /* Multiplies packed F32, F16 and BF16 where the variant packs them; leaves the rest to ref. */
    void (*matmul)(const sp_matmul_args *a, int part, int n_parts);
    void (*embed)(const sp_embed_args *a, int part, int n_parts);
    void (*rmsnorm)(const sp_rmsnorm_args *a, int part, int n_parts);
    void (*layernorm)(const sp_layernorm_args *a, int part, int n_parts);
    void (*act_mul)(const sp_act_mul_args *a, int part, int n_parts);
    void (*blend)(const sp_blend_args *a, int part, int n_parts);
    void (*take)(const sp_take_args *a, int part, int n_parts);
    void (*spread)(const sp_spread_args *a, int part, int n_parts);
    void (*kv_store)(const sp_kv_store_args *a, int part, int n_parts);
    void (*attend)(const sp_attend_args *a, int part, int n_parts);
    void (*columns)(const sp_columns_args *a, int part, int n_parts);
    void (*kv_differ)(const sp_kv_differ_args *a, int part, int n_parts);

    /* Packed weights and products in integers; pack_bytes is NULL in a variant without. */
    int (*x_bits)(sp_dtype weights); /* of an element of x, sign included; 0: x is not rounded */
    bool rounds_weights;             /* weights and x to bf16: x_bits is 9, and x has no `rest` */
    size_t (*pack_bytes)(const sp_mat *w);
    size_t (*quantized_bytes)(int64_t n); /* of a row of x */
    void (*pack)(const sp_pack_args *a, int part, int n_parts);
    void (*quantize)(const sp_quantize_args *a, int part, int n_parts);
    void (*matmul_packed)(const sp_matmul_packed_args *a, int part, int n_parts);
} sp_ops;

/* sp_in_integers -- whether matmul_packed multiplies the matrix: rows of whole groups, in a type that rounds x. */
static inline bool sp_in_integers(const sp_ops *ops, const sp_mat *w)
{
    return w->packed && w->n_cols % 32 == 0 && ops->x_bits(w->type) > 0;
}

/* sp_ops_select -- the best table for this CPU, or the one named: "ref", "avx2", "avxvnni" (AVX2
 * and AVX-VNNI), "avx512", "vnni" (AVX-512 and its VNNI), "amx" (tiles of bf16), "amx-f16" (also for F16
 * weights, rounded), "amx-attend" and "amx-f16-attend" (attention over Q16 in tiles, too); on 64-bit ARM
 * "neon" (NEON with dot products) and "i8mm" (with products of matrices, too). NULL: the environment
 * variable SPOLIA_CPU, else the best except those of AMX. Errors:
 * SP_E_UNSUPPORTED when the CPU or the operating system lacks it, SP_E_ARG for an unknown name. Thread: any. */
sp_err sp_ops_select(const char *name, const sp_ops **out) SP_MUST_CHECK;
/* sp_ops_amx -- the name of AMX's kernels with these choices (sp_machine_opts); without any, `name`. */
const char *sp_ops_amx(const char *name, bool f16, bool attend);

/* -- scratch -------------------------------------------------------------------------------- */

/* sp_attend_scratch_bytes -- sp_attend_args.scratch_bytes: scratch of one part, enough for any
 * request with at most max_spans. scratch: [n_parts][scratch_bytes], zeroed before its first use
 * only. */
size_t sp_attend_scratch_bytes(int n_heads, int n_kv_heads, int head, int max_spans);

/* sp_columns_scratch -- sp_columns_args.scratch: floats of one part for m queries. */
size_t sp_columns_scratch(int64_t m, int n_heads, int head);

/* -- one head, one token -------------------------------------------------------------------- */

/* sp_rope_rotate -- rotates one head x[D] in place to position pos. */
void sp_rope_rotate(const sp_rope *r, float *x, int32_t pos);
/* sp_kv_read -- key (as rotated) and value of one head, decoded: k, v [D]. */
void sp_kv_read(const sp_kv_view *kv, const sp_kv_slot *at, int head, float *k, float *v);
/* sp_kv_copy -- one token of sp_kv_copy_args. */
void sp_kv_copy(const sp_kv_view *kv, const sp_kv_slot *from, const sp_kv_slot *to);

#endif
