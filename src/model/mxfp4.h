/* mxfp4.h -- experts of gpt-oss as folders have them: two tensors of bytes, whose rows are outputs. For model/ alone.
 *
 *   NAME_blocks  [X, rows, columns / 32, 16]  byte j has the codes of values 2 j (low bits) and 2 j + 1
 *   NAME_scales  [X, rows, columns / 32]      exponents, biased by 127
 *
 * A group of the engine's type is the exponent, then 16 bytes with the codes of values j and j + 16. */
#ifndef SP_MODEL_MXFP4_H
#define SP_MODEL_MXFP4_H

#include "model/tensors.h"

typedef struct sp_mxfp4_parts {
    const sp_tensor *blocks, *scales;
} sp_mxfp4_parts;

/* sp_mxfp4_check -- whether they hold n_rows x n_cols values for each of n experts. Errors: SP_E_FORMAT;
 * SP_E_UNSUPPORTED if rows are not whole groups. */
sp_err sp_mxfp4_check(const sp_mxfp4_parts *p, int64_t n, int64_t n_rows, int64_t n_cols) SP_MUST_CHECK;

/* sp_mxfp4_row -- a row, counted over all experts, in the engine's type: to [sp_row_bytes(SP_MXFP4, n_cols)]. */
void sp_mxfp4_row(const sp_mxfp4_parts *p, int64_t row, int64_t n_cols, uint8_t *to);

#endif
