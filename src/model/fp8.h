/* fp8.h -- weights of 8-bit floats, as quantization_config "fp8" of a config.json describes them: E4M3 (a sign, 4 bits
 * of exponent, 3 of mantissa, no infinities), and a scale for a whole matrix or each block of it. For model/ alone. */
#ifndef SP_MODEL_FP8_H
#define SP_MODEL_FP8_H

#include "model/config.h"
#include "model/tensors.h"

/* sp_is_fp8 -- whether a tensor has such values. */
bool sp_is_fp8(const sp_tensor *t);

/* sp_fp8_check -- whether `scale` fits the matrix t. Errors: SP_E_FORMAT, SP_E_UNSUPPORTED. */
sp_err sp_fp8_check(const sp_tensor *t, const sp_tensor *scale, const sp_fp8_blocks *blocks) SP_MUST_CHECK;

/* sp_fp8_rows -- rows from .. from + n - 1 of a matrix that was checked, times their scales, as BF16: out
 * [n, columns]. Errors: SP_E_FORMAT: a value is not a number. */
sp_err sp_fp8_rows(const sp_tensor *t, const sp_tensor *scale, const sp_fp8_blocks *blocks, int64_t from, int64_t n,
                   uint16_t *out) SP_MUST_CHECK;

#endif
