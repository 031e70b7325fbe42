/* summary.c -- how blocks are summarized. */
#include "compute/kernel/summary.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "compute/kernel/ops.h"

enum { B = SP_BLOCK_TOKENS };

size_t sp_summary_bytes(sp_summary_kind kind, int head)
{
    if (sp_is_bounds(kind)) return 2 * (size_t)sp_summary_width(head);
    if (kind == SP_SUMMARY_KEYS4) return (size_t)B / 2 * (size_t)sp_summary_width(head);
    return (size_t)B * (size_t)sp_hash_bits(kind) / 8;
}

/* -- bounds ------------------------------------------------------------------------------------ */

enum { LANES = 4 }; /* of loops that compilers turn into vectors */

/* The least and the largest of a channel's keys; *bad: 0, or NaN where one is not finite. */
static void range_of(const float *x, float *low, float *high, float *bad)
{
    float l[LANES], h[LANES], zero[LANES];
    for (int i = 0; i < LANES; i++) {
        l[i] = h[i] = x[i];
        zero[i] = x[i] * 0;
    }
    for (int at = LANES; at < B; at += LANES)
        for (int i = 0; i < LANES; i++) {
            l[i] = SP_MIN(l[i], x[at + i]);
            h[i] = SP_MAX(h[i], x[at + i]);
            zero[i] += x[at + i] * 0;
        }
    *low = SP_MIN(SP_MIN(l[0], l[1]), SP_MIN(l[2], l[3]));
    *high = SP_MAX(SP_MAX(h[0], h[1]), SP_MAX(h[2], h[3]));
    *bad += zero[0] + zero[1] + zero[2] + zero[3];
}

static int floor_of(float x)
{
    const int n = (int)x;
    return n - (x < (float)n);
}

/* Centre + 128 and half-width of each channel. Rounding is outwards: the bounds hold all keys. Blocks
 * with a key that is not finite are like zeros. */
static void put_bounds(const float *keys, int head, uint8_t *out, float *scale)
{
    const int width = sp_summary_width(head);
    float low[SP_HEAD_MAX], high[SP_HEAD_MAX], bad = 0, most = 0;
    for (int d = 0; d < width; d++) {
        out[d] = 128;
        out[width + d] = 0;
    }
    for (int d = 0; d < head; d++) {
        range_of(keys + d * B, &low[d], &high[d], &bad);
        most = SP_MAX(most, SP_MAX(high[d], -low[d]));
    }
    *scale = bad == 0 ? most / 127 : 0;
    if (!(*scale > FLT_MIN)) {
        *scale = 0;
        return;
    }
    const float inverse = 1 / *scale;
    for (int d = 0; d < head; d++) {
        const int l = floor_of(low[d] * inverse), h = -floor_of(-high[d] * inverse);
        const int middle = (l + h) >> 1, half = h - middle; /* rounded down: l is no farther */
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

/* The scale is the largest norm of a key. */
static void put_hash(const float *keys, int head, int bits, uint8_t *out, float *scale)
{
    uint64_t code[B * SP_HASH_BITS_MAX / 64];
    float most = 0;
    for (int i = 0; i < B; i++) {
        float norm = 0;
        for (int d = 0; d < head; d++) norm += keys[d * B + i] * keys[d * B + i];
        most = SP_MAX(most, norm);
    }
    *scale = most <= FLT_MAX ? sqrtf(most) : 0;
    sp_hash_keys(keys, head, B, bits, code);
    memcpy(out, code, (size_t)bits / 8 * B);
}

/* -- keys in 4 bits ---------------------------------------------------------------------------- */

/* Integers -7 .. 7, stored + 8. Blocks with a key that is not finite are like zeros. */
static void put_keys4(const float *keys, int head, uint8_t *out, float *scale)
{
    float most = 0, bad = 0;
    for (int i = 0; i < head * B; i++) {
        most = SP_MAX(most, fabsf(keys[i]));
        bad += keys[i] * 0;
    }
    *scale = bad == 0 && most / 7 > FLT_MIN ? most / 7 : 0;
    const float inverse = *scale > 0 ? 1 / *scale : 0;
    memset(out, 0x88, (size_t)(B / 2 * sp_summary_width(head)));
    for (int d = 0; d < head && *scale > 0; d++)
        for (int t = 0; t < B / 2; t++) {
            const int low = 8 + (int)lrintf(keys[d * B + t] * inverse);
            const int high = 8 + (int)lrintf(keys[d * B + t + B / 2] * inverse);
            out[sp_keys4_at(d, t)] = (uint8_t)(low | high << 4);
        }
}

/* -- blocks ------------------------------------------------------------------------------------ */

static void summarize_block(const sp_summarize_args *a, int64_t i, int head)
{
    const sp_summary_view *to = a->to;
    const size_t at = (size_t)head * (size_t)to->n_blocks + a->block[i];
    uint8_t *out = to->base + at * sp_summary_bytes(to->kind, to->head);
    float keys[SP_HEAD_MAX * B];
    sp_kv_read_keys(a->kv, a->block[i], head, keys);
    for (int d = 0; d < to->head; d++) /* slots without a key repeat the first one */
        for (int k = a->n[i]; k < B; k++) keys[d * B + k] = keys[d * B];
    if (sp_is_bounds(to->kind))
        put_bounds(keys, to->head, out, &to->scale[at]);
    else if (to->kind == SP_SUMMARY_KEYS4)
        put_keys4(keys, to->head, out, &to->scale[at]);
    else
        put_hash(keys, to->head, sp_hash_bits(to->kind), out, &to->scale[at]);
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
#define OPS_AS(name, v) {#name, {sp_score_bounds_##v, sp_score_hash_##v, sp_score_keys4_##v, sp_combine_##v}}
#define OPS(v)          OPS_AS(v, v)
    static const struct {
        const char *name;
        sp_summary_ops ops;
    } all[] = {
        OPS(ref),
#if SP_HAVE_X86
        OPS(avx2),
        OPS(avxvnni),
        OPS(avx512),
        OPS(vnni),
        OPS_AS(amx, vnni),
#elif SP_HAVE_ARM64
        OPS(neon),
        OPS_AS(i8mm, neon),
#endif
    };
#undef OPS
#undef OPS_AS
    const size_t n = strcspn(variant, "-"); /* "amx-f16" differs from "amx" in other operations */
    for (size_t i = 1; i < SP_COUNT(all); i++)
        if (strlen(all[i].name) == n && memcmp(variant, all[i].name, n) == 0) return &all[i].ops;
    return &all[0].ops;
}
