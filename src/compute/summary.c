/* summary.c -- how blocks are summarized. */
#include "compute/summary_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { B = SP_BLOCK_TOKENS };

size_t sp_summary_bytes(sp_summary_kind kind, int head)
{
    if (sp_is_bounds(kind)) return 2 * (size_t)sp_summary_width(head);
    return (size_t)B * (size_t)sp_hash_bits(kind) / 8;
}

/* -- bounds ------------------------------------------------------------------------------------ */

/* The largest |element| of the first n keys; infinity where one is not finite. */
static float largest_of(const float *keys, int head, int n)
{
    float most = 0;
    for (int d = 0; d < head; d++)
        for (int i = 0; i < n; i++) {
            const float x = fabsf(keys[d * B + i]);
            if (!(x <= FLT_MAX)) return INFINITY;
            most = SP_MAX(most, x);
        }
    return most;
}

/* Centre + 128 and half-width of each channel. Rounding is outwards: the bounds hold all keys. */
static void put_bounds(const float *keys, int head, int n, uint8_t *out, float *scale)
{
    const int width = sp_summary_width(head);
    const float most = largest_of(keys, head, n);
    memset(out, 128, (size_t)width);
    memset(out + width, 0, (size_t)width);
    *scale = most <= FLT_MAX ? most / 127 : 0;
    if (!(*scale > FLT_MIN)) return;
    const float inverse = 1 / *scale;
    for (int d = 0; d < head; d++) {
        float low = keys[d * B], high = low;
        for (int i = 1; i < n; i++) {
            low = SP_MIN(low, keys[d * B + i]);
            high = SP_MAX(high, keys[d * B + i]);
        }
        const float l = floorf(low * inverse), h = ceilf(high * inverse);
        const int middle = (int)floorf((l + h) / 2), half = (int)SP_MAX(h - (float)middle, (float)middle - l);
        out[d] = (uint8_t)(128 + SP_MIN(127, SP_MAX(-127, middle)));
        out[width + d] = (uint8_t)SP_MIN(127, half);
    }
}

/* -- hash -------------------------------------------------------------------------------------- */

/* A sign for channel d of pass p: fixed, so that codes can be compared for ever. */
static float sign_of(int p, int d)
{
    uint64_t z = (uint64_t)(p * SP_HEAD_MAX + d + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z >> 63 ? -1 : 1;
}

/* x = H x for n_rows (a power of two) rows of B tokens. */
static void hadamard(float *x, int n_rows)
{
    for (int step = 1; step < n_rows; step *= 2)
        for (int at = 0; at < n_rows; at += 2 * step)
            for (int r = at; r < at + step; r++) {
                float *a = x + r * B, *b = a + step * B;
                for (int i = 0; i < B; i++) {
                    const float sum = a[i] + b[i];
                    b[i] = a[i] - b[i];
                    a[i] = sum;
                }
            }
}

/* Random signs and a Hadamard transform, twice, are close to a random rotation. */
void sp_hash_keys(const float *x, int head, int n, int bits, uint64_t *code)
{
    float y[SP_HEAD_MAX * B];
    const int words = bits / 64;
    int n_rows = 1;
    while (n_rows < head) n_rows *= 2;
    memset(code, 0, (size_t)(B * words) * sizeof *code);
    for (int at = 0, pass = 0; at < bits; at += n_rows, pass += 2) {
        memset(y, 0, (size_t)(n_rows * B) * sizeof *y);
        for (int d = 0; d < head; d++)
            for (int i = 0; i < B; i++) y[d * B + i] = sign_of(pass, d) * x[d * B + i];
        hadamard(y, n_rows);
        for (int d = 0; d < n_rows; d++)
            for (int i = 0; i < B; i++) y[d * B + i] *= sign_of(pass + 1, d);
        hadamard(y, n_rows);
        for (int r = 0; r < n_rows && at + r < bits; r++)
            for (int i = 0; i < n; i++)
                code[i * words + (at + r) / 64] |= (uint64_t)(y[r * B + i] > 0) << ((at + r) % 64);
    }
}

/* Slots without a key repeat the first one. The scale is the largest norm of a key. */
static void put_hash(const float *keys, int head, int n, int bits, uint8_t *out, float *scale)
{
    uint64_t code[B * SP_HASH_BITS_MAX / 64];
    const size_t row = (size_t)bits / 8;
    float most = 0;
    for (int i = 0; i < n; i++) {
        float norm = 0;
        for (int d = 0; d < head; d++) norm += keys[d * B + i] * keys[d * B + i];
        most = SP_MAX(most, norm);
    }
    *scale = most <= FLT_MAX ? sqrtf(most) : 0;
    sp_hash_keys(keys, head, n, bits, code);
    memcpy(out, code, row * B);
    for (int i = n; i < B; i++) memcpy(out + (size_t)i * row, out, row);
}

/* -- blocks ------------------------------------------------------------------------------------ */

static void summarize_block(const sp_summarize_args *a, int64_t i, int head)
{
    const sp_summary_view *to = a->to;
    const size_t at = (size_t)head * (size_t)to->n_blocks + a->block[i];
    uint8_t *out = to->base + at * sp_summary_bytes(to->kind, to->head);
    float keys[SP_HEAD_MAX * B];
    sp_kv_read_keys(a->kv, a->block[i], head, keys);
    if (sp_is_bounds(to->kind))
        put_bounds(keys, to->head, a->n[i], out, &to->scale[at]);
    else
        put_hash(keys, to->head, a->n[i], sp_hash_bits(to->kind), out, &to->scale[at]);
}

void sp_summarize(const sp_summarize_args *a, int part, int n_parts)
{
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t i = from; i < to; i++)
        for (int g = 0; g < a->to->n_heads; g++) summarize_block(a, i, g);
}

/* -- variants ---------------------------------------------------------------------------------- */

const sp_summary_ops *sp_summary_ops_of(const char *variant)
{
    static const struct {
        const char *name;
        sp_summary_ops ops;
    } all[] = {
        {"ref", {sp_score_bounds_ref, sp_score_hash_ref}},
#if defined(__x86_64__) && !SP_PORTABLE
        {"avx2", {sp_score_bounds_avx2, sp_score_hash_avx2}},
        {"avxvnni", {sp_score_bounds_avxvnni, sp_score_hash_avxvnni}},
        {"avx512", {sp_score_bounds_avx512, sp_score_hash_avx512}},
        {"vnni", {sp_score_bounds_vnni, sp_score_hash_vnni}},
#endif
    };
    for (size_t i = 1; i < SP_COUNT(all); i++)
        if (strcmp(variant, all[i].name) == 0) return &all[i].ops;
    return &all[0].ops;
}
