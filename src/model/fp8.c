#include "model/fp8.h"

#include <inttypes.h>
#include <math.h>

bool sp_is_fp8(const sp_tensor *t)
{
    return strcmp(t->type, "F8_E4M3") == 0;
}

/* n_blocks -- along one side; a last block may be smaller. */
static int64_t n_blocks(int64_t n, int block)
{
    return block ? (n + block - 1) / block : 1;
}

sp_err sp_fp8_check(const sp_tensor *t, const sp_tensor *scale, const sp_fp8_blocks *blocks)
{
    const int64_t want[] = {n_blocks(t->shape[0], blocks->rows), n_blocks(t->shape[1], blocks->columns)};
    if (t->n_dims != 2)
        return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: %d dimensions, FP8 is supported for matrices", t->path,
                       SP_VIEW(t->name), t->n_dims);
    if (scale->dtype != SP_F32 && scale->dtype != SP_BF16 && scale->dtype != SP_F16)
        return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: scales of type %s are not supported", scale->path,
                       SP_VIEW(scale->name), scale->type);
    const bool one = want[0] * want[1] == 1 && scale->n_dims == 1 && scale->shape[0] == 1;
    return one ? SP_OK : sp_tensor_check_shape(scale, want, 2);
}

/* value_of -- NaN for the two codes that are not a number. */
static float value_of(uint8_t code)
{
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    if (exponent == 15 && mantissa == 7) return NAN;
    const float x = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    return code & 128 ? -x : x;
}

static float scale_at(const sp_tensor *scale, int64_t i)
{
    float x;
    sp_row_to_f32(scale->dtype, scale->data + (size_t)i * sp_row_bytes(scale->dtype, 1), &x, 1);
    return x;
}

sp_err sp_fp8_rows(const sp_tensor *t, const sp_tensor *scale, const sp_fp8_blocks *blocks, int64_t from, int64_t n,
                   uint16_t *out)
{
    float values[256];
    const int64_t n_cols = t->shape[1], width = blocks->columns ? blocks->columns : n_cols;
    const int64_t per_row = n_blocks(n_cols, blocks->columns);
    for (int i = 0; i < 256; i++) values[i] = value_of((uint8_t)i);
    for (int64_t r = from; r < from + n; r++) {
        const uint8_t *row = t->data + r * n_cols;
        const int64_t first = blocks->rows ? r / blocks->rows * per_row : 0;
        bool numbers = true;
        for (int64_t b = 0; b < per_row; b++) {
            const float by = scale_at(scale, first + b);
            for (int64_t c = b * width; c < SP_MIN((b + 1) * width, n_cols); c++) {
                const float x = values[row[c]] * by;
                numbers &= !isnan(x);
                *out++ = sp_f32_to_bf16(x);
            }
        }
        if (!numbers)
            return sp_fail(SP_E_FORMAT, "%s: tensor %.*s: row %" PRId64 " holds a value that is not a number", t->path,
                           SP_VIEW(t->name), r);
    }
    return SP_OK;
}
