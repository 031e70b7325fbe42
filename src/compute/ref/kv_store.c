/* kv_store.c -- the definition of storing a token's keys and values in its slot. */
#include <math.h>
#include <string.h>

#include "compute/kernel/kv.h"
#include "compute/kernel/ops.h"
#include "compute/kernel/quant.h"

enum { B = SP_BLOCK_TOKENS };

/* -- Q16 --------------------------------------------------------------------------------------- */

/* The sum of squares: first over channels that are 16 apart, an order that vectors of every width
 * can reproduce. */
static float sum_of_squares(const float *x, int n)
{
    float sum[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) sum[k] += x[i + k] * x[i + k];
    for (int k = 0; i < n; i++, k++) sum[k] += x[i] * x[i];
    for (int half = 8; half > 0; half /= 2)
        for (int k = 0; k < half; k++) sum[k] += sum[k + half];
    return sum[0];
}

/* q = x * inverse, rounded to nearest even. Pre: |x * inverse| < 2^15. */
static void round_to_words(const float *x, int n, float inverse, int16_t *q)
{
    for (int i = 0; i < n; i++) {
        const float whole = x[i] * inverse + 0x1.8p23f; /* the low bits are now the integer */
        uint32_t bits;
        memcpy(&bits, &whole, sizeof bits);
        q[i] = (int16_t)bits;
    }
}

/* Rounds x, scaled so that its norm or largest element `size` becomes `most`. Returns the scale. */
static float to_words(const float *x, int n, float size, float most, int16_t *q)
{
    if (sp_q16_is_usual(size)) {
        round_to_words(x, n, most / size, q);
        return size / most;
    }
    memset(q, 0, (size_t)n * sizeof *q);
    return size <= 1 ? 0 : NAN;
}

static float key_to_words(const float *key, int n, int16_t *q)
{
    return to_words(key, n, sqrtf(sum_of_squares(key, n)), SP_Q16_KEY_NORM, q);
}

static float value_to_words(const float *value, int n, int16_t *q)
{
    float most = 0;
    for (int i = 0; i < n && !isnan(most); i++)
        most = fabsf(value[i]) <= most ? most : fabsf(value[i]);
    return to_words(value, n, most, SP_Q16_VALUE_MAX, q);
}

/* -- all types --------------------------------------------------------------------------------- */

/* Writes an encoded key into column `slot` of a head of keys. */
static void scatter_key(sp_dtype type, int head, const uint8_t *row, uint8_t *keys, int slot)
{
    if (type == SP_Q8_0) {
        for (int g = 0; g < head / 32; g++, row += 34, keys += 34 * B) {
            memcpy(keys + 2 * slot, row, 2);
            for (int i = 0; i < 32; i++) keys[2 * B + i * B + slot] = row[2 + i];
        }
        return;
    }
    size_t size = sp_row_bytes(type, 1);
    for (int d = 0; d < head; d++) {
        memcpy(keys + (size_t)(d * B + slot) * size, row + (size_t)d * size, size);
    }
}

void sp_kv_put_key(sp_dtype type, int head, const float *key, uint8_t *keys, int slot)
{
    if (type == SP_Q16) {
        int16_t q[SP_HEAD_MAX];
        const float scale = key_to_words(key, head, q);
        memcpy(keys + 4 * slot, &scale, 4);
        for (int d = 0; d < head; d++) memcpy(keys + sp_q16_key_at(d, slot), q + d, 2);
    } else {
        uint8_t row[SP_HEAD_MAX * sizeof(float)];
        sp_row_from_f32(type, key, row, head);
        scatter_key(type, head, row, keys, slot);
    }
}

void sp_kv_put_value(sp_dtype type, int head, const float *value, uint8_t *values, int slot)
{
    if (type == SP_Q16) {
        int16_t q[SP_HEAD_MAX];
        const float scale = value_to_words(value, head, q);
        memcpy(values + 4 * slot, &scale, 4);
        for (int d = 0; d < head; d++) memcpy(values + sp_q16_value_at(d, slot), q + d, 2);
    } else {
        sp_row_from_f32(type, value, values + (size_t)slot * sp_row_bytes(type, head), head);
    }
}

void sp_kv_store_ref(const sp_kv_store_args *a, int part, int n_parts)
{
    const sp_kv_view *kv = a->kv;
    const int64_t width = (int64_t)kv->n_heads * kv->head;
    assert(kv->head <= SP_HEAD_MAX);
    int64_t from, to; /* of [G, m]: parts get whole heads where possible */
    sp_part(kv->n_heads * a->m, 1, part, n_parts, &from, &to);
    for (int64_t i = from; i < to; i++) {
        int head = (int)(i / a->m);
        int64_t t = i % a->m, at = t * width + (int64_t)head * kv->head;
        float key[SP_HEAD_MAX];
        memcpy(key, a->k + at, (size_t)kv->head * sizeof(float));
        sp_rope_rotate(a->rope, key, a->rot[t]);
        sp_kv_put_key(kv->type, kv->head, key, sp_kv_keys(kv, a->block[t], head), a->slot[t]);
        sp_kv_put_value(kv->type, kv->head, a->v + at, sp_kv_values(kv, a->block[t], head),
                        a->slot[t]);
    }
}
