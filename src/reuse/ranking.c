/* ranking.c -- which tokens score highest: the best of all chunks, and the order within one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reuse/parts.h"

/* key_of -- an integer for each score, in the scores' order; NaN before all. */
static uint32_t key_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    uint32_t key = bits ^ (bits >> 31 ? UINT32_MAX : UINT32_C(1) << 31);
    return isnan(score) ? 0 : key;
}

/* kth_largest -- of key[n], k from 1, digit by digit from the highest: the digit at which the count
 * of larger keys reaches k. *equal: how many keys equal to it are among the k largest. No branch
 * depends on a key: scores come in an order that a CPU cannot predict. */
static uint32_t kth_largest(const uint32_t *key, int32_t n, int32_t k, int32_t *equal)
{
    uint32_t found = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int32_t count[256] = {0}, digit = 255;
        uint64_t front = found >> shift;
        for (int32_t i = 0; i < n; i++)
            count[key[i] >> shift & 255] += (uint64_t)key[i] >> (shift + 8) == front >> 8;
        for (; count[digit] < k; digit--) k -= count[digit];
        found |= (uint32_t)digit << shift;
    }
    *equal = k;
    return found;
}

sp_err sp_reuse_highest(const sp_reuse_input *in, const float *score, int32_t n, sp_arena *arena,
                        sp_token_ref **out)
{
    int32_t n_all = sp_reuse_n_chunk_tokens(in), equal, taken = 0;
    uint32_t *key = sp_arena_take(arena, (size_t)n_all, sizeof *key);
    sp_token_ref *c = sp_arena_take(arena, (size_t)n + 1, sizeof *c); /* one is overwritten */
    if (!key || !c) return sp_fail_nomem("a choice of tokens");
    for (int32_t i = 0; i < n_all; i++) key[i] = key_of(score[i]);
    uint32_t least = kth_largest(key, n_all, n, &equal);
    for (int i = 0; i < in->n_segs; i++) {
        bool chunk = sp_reuse_is_chunk(in, i);
        for (int32_t t = 0; chunk && t < in->segs[i].n; t++, key++) {
            int32_t as_least = *key == least && equal > 0;
            c[taken] = (sp_token_ref){i, t};
            taken += *key > least || as_least;
            equal -= as_least;
        }
    }
    *out = c;
    return SP_OK;
}

/* -- the order within a chunk ---------------------------------------------------------------- */

typedef struct ranked {
    float score;
    int32_t token;
} ranked;

static int by_score(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

const int32_t *sp_reuse_falling(const float *score, int32_t n, sp_arena *arena)
{
    ranked *all = sp_arena_take(arena, (size_t)n, sizeof *all);
    int32_t *order = sp_arena_take(arena, (size_t)n, sizeof *order);
    if (!all || !order) return NULL;
    for (int32_t t = 0; t < n; t++) all[t] = (ranked){score[t], t};
    qsort(all, (size_t)n, sizeof *all, by_score);
    for (int32_t t = 0; t < n; t++) order[t] = all[t].token;
    return order;
}
