/* summary.c -- the definition of the scores of block summaries, and of their sum over heads. */
#include "compute/kernel/summary.h"

#include <math.h>
#include <string.h>

enum { B = SP_BLOCK_TOKENS, ROWS = SP_PICK_ROWS };

void sp_score_bounds_ref(const sp_score_args *a)
{
    const sp_summary_view *s = a->summary;
    const sp_pick_query *x = a->query;
    const int width = sp_summary_width(s->head);
    for (int i = 0; i < a->n; i++) {
        const size_t at = (size_t)a->kv_head * (size_t)s->n_blocks + a->block[i];
        const uint8_t *middle = s->base + at * 2 * (size_t)width, *half = middle + width;
        for (int r = 0; r < ROWS; r++) {
            int32_t sum = 0;
            for (int d = 0; d < s->head; d++)
                sum += x->q[r][d] * (middle[d] - 128) + x->size[r][d] * half[d];
            a->out[i * ROWS + r] = (float)sum * (s->scale[at] * x->scale[r]);
        }
    }
}

void sp_score_hash_ref(const sp_score_args *a)
{
    const sp_summary_view *s = a->summary;
    const sp_pick_query *x = a->query;
    const int bits = sp_hash_bits(s->kind), words = bits / 64;
    uint64_t code[B * SP_HASH_BITS_MAX / 64];
    for (int i = 0; i < a->n; i++) {
        const size_t at = (size_t)a->kv_head * (size_t)s->n_blocks + a->block[i];
        const size_t bytes = (size_t)(B * words) * sizeof *code;
        memcpy(code, s->base + at * bytes, bytes);
        for (int r = 0; r < ROWS; r++) {
            int least = bits;
            for (int t = 0; t < B; t++) {
                int n = 0;
                for (int w = 0; w < words; w++)
                    n += __builtin_popcountll(code[t * words + w] ^ x->code[r][w]);
                least = SP_MIN(least, n);
            }
            a->out[i * ROWS + r] = (float)(bits - 2 * least) * (s->scale[at] * x->scale[r]);
        }
    }
}

void sp_score_keys4_ref(const sp_score_args *a)
{
    const sp_summary_view *s = a->summary;
    const sp_pick_query *x = a->query;
    const size_t bytes = sp_summary_bytes(SP_SUMMARY_KEYS4, s->head);
    for (int i = 0; i < a->n; i++) {
        const size_t at = (size_t)a->kv_head * (size_t)s->n_blocks + a->block[i];
        const uint8_t *keys = s->base + at * bytes;
        for (int r = 0; r < ROWS; r++) {
            int32_t most = INT32_MIN;
            for (int t = 0; t < B; t++) {
                int32_t sum = 0;
                for (int d = 0; d < s->head; d++) {
                    const int both = keys[sp_keys4_at(d, t)];
                    sum += x->q[r][d] * ((t < B / 2 ? both & 15 : both >> 4) - 8);
                }
                most = SP_MAX(most, sum);
            }
            a->out[i * ROWS + r] = (float)most * (s->scale[at] * x->scale[r]);
        }
    }
}

/* power_of_two -- 2^x for x <= 0, linear between powers: it only orders blocks. */
static float power_of_two(float x)
{
    const int32_t bits = (int32_t)(SP_MAX(x + 127, 0.0f) * 0x1p23f);
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* The rows are added by pairs, and pairs by pairs, as vectors add them. */
void sp_combine_ref(const sp_combine_args *a)
{
    float most[ROWS], sum[ROWS] = {0}, *x = a->scores;
    for (int r = 0; r < ROWS; r++) most[r] = -INFINITY;
    for (int i = 0; i < a->n; i++)
        for (int r = 0; r < ROWS; r++) most[r] = SP_MAX(most[r], x[i * ROWS + r]);
    for (int i = 0; i < a->n; i++)
        for (int r = 0; r < ROWS; r++) {
            x[i * ROWS + r] = power_of_two((x[i * ROWS + r] - most[r]) * a->scale);
            sum[r] += x[i * ROWS + r];
        }
    for (int r = 0; r < ROWS; r++) sum[r] = r < a->rows && sum[r] > 0 ? 1 / sum[r] : 0;
    for (int i = 0; i < a->n; i++, x += ROWS) {
        const float low = (x[0] * sum[0] + x[1] * sum[1]) + (x[2] * sum[2] + x[3] * sum[3]);
        const float high = (x[4] * sum[4] + x[5] * sum[5]) + (x[6] * sum[6] + x[7] * sum[7]);
        a->out[i] += low + high;
    }
}
