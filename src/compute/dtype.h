/* dtype.h -- element types of weights and caches, and how their rows are stored.
 *
 * A quantized type stores groups of `n_group` consecutive elements of a row in `group_bytes` bytes,
 * in the layouts of GGUF. A row is a whole number of groups.
 */
#ifndef SP_COMPUTE_DTYPE_H
#define SP_COMPUTE_DTYPE_H

#include "base/err.h"

typedef enum sp_dtype {
    SP_F32,
    SP_F16,
    SP_BF16,
    SP_Q8_0,
    SP_Q4_0,
    SP_Q4_1,
    SP_Q5_0,
    SP_Q5_1,
    SP_Q2_K,
    SP_Q3_K,
    SP_Q4_K,
    SP_Q5_K,
    SP_Q6_K,
    SP_IQ4_NL,
    SP_IQ4_XS,
    SP_MXFP4,
    SP_DTYPE_N, /* number of weight types */
    SP_Q16,     /* keys and values only; a scale for each token and head: see sp_kv_view */
    SP_DTYPE_END,
} sp_dtype;

typedef struct sp_dtype_info {
    const char *name; /* as users write it, such as "q8_0" */
    int n_group;      /* elements in a group */
    int group_bytes;
    int gguf_id; /* number of the type in GGUF files; weights only */
} sp_dtype_info;

const sp_dtype_info *sp_dtype_of(sp_dtype type);

/* sp_row_bytes -- bytes of a row of n elements; n must be a multiple of the group (asserted). */
size_t sp_row_bytes(sp_dtype type, int64_t n);

/* sp_row_to_f32 -- decodes n elements (whole groups). It defines every type. src may be
 * unaligned. */
void sp_row_to_f32(sp_dtype type, const void *src, float *dst, int64_t n);
/* sp_row_from_f32 -- encodes n elements as F32, F16, BF16 (round to nearest even) or Q8_0 (as GGUF
 * writers do: scale = max|x| / 127 in f16). Other types are read-only (asserted). */
void sp_row_from_f32(sp_dtype type, const float *src, void *dst, int64_t n);

float sp_f16_to_f32(uint16_t h);
uint16_t sp_f32_to_f16(float f);
float sp_bf16_to_f32(uint16_t h);
uint16_t sp_f32_to_bf16(float f);

#endif
