/* attend_join.h -- keys and values of joined spans, gathered into one block of the same layout.
 *
 *   part 0   slots 3..6 of a block      keys   row of a channel   | 3 4 5 6 | 0 1 2 ... |   16 lanes
 *   part 1   slots 0..2 of another      values rows of tokens, in the same order
 *
 * The block is what sp_kv_store would have written: kernels cannot tell the difference, and results
 * are those of one span bit for bit. Slots after the last key may hold anything.
 */
#ifndef SP_COMPUTE_SIMD_ATTEND_JOIN_H
#define SP_COMPUTE_SIMD_ATTEND_JOIN_H

#include <string.h>

#include "compute/kernel/kv.h"
#include "compute/simd/vec.h"

/* Consecutive slots of a block. */
typedef struct join_part {
    const uint8_t *keys; /* of a head in the block; its values follow */
    int slot, n;
} join_part;

typedef struct join_shape {
    int head, width;              /* D; rounded up to 16 */
    size_t head_bytes, row_bytes; /* the keys of a head in a block; a value */
} join_shape;

/* join_add -- appends a part to a list of n; one that continues the last extends it. */
INLINE int join_add(join_part *list, int n, const join_part *next)
{
    join_part *last = list + n - 1;
    if (n && last->keys == next->keys && last->slot + last->n == next->slot) {
        last->n += next->n;
        return n;
    }
    list[n] = *next;
    return n + 1;
}

/* join_lanes -- rows of 16 lanes of `size` bytes, at `from` in each head. A row is copied from each
 * part as a whole, beyond its lanes: the next part, the next row or the values overwrite that. */
INLINE void join_lanes(const join_part *part, int n, size_t from, int rows, size_t size,
                       uint8_t *to)
{
    const size_t bytes = SP_BLOCK_TOKENS * size;
    for (int r = 0; r < rows; r++, from += bytes) {
        uint8_t *lane = to + from;
        for (int i = 0; i < n; i++) {
            memcpy(lane, part[i].keys + from + (size_t)part[i].slot * size, bytes);
            lane += (size_t)part[i].n * size;
        }
    }
}

INLINE void join_keys(sp_dtype type, const join_shape *s, const join_part *part, int n, uint8_t *to)
{
    enum { GROUP = 32, B = SP_BLOCK_TOKENS };
    switch (type) {
    case SP_F32:
        join_lanes(part, n, 0, s->head, 4, to);
        break;
    case SP_Q16:
        join_lanes(part, n, 0, 1 + s->width / 2, 4, to);
        break;
    case SP_Q8_0:
        for (int g = 0; g < s->head / GROUP; g++) {
            const size_t from = (size_t)g * B * (2 + GROUP);
            join_lanes(part, n, from, 1, 2, to);
            join_lanes(part, n, from + B * 2, GROUP, 1, to);
        }
        break;
    default:
        join_lanes(part, n, 0, s->head, 2, to);
        break;
    }
}

/* join_words -- Q16: 16 channels of two tokens a line; token `slot` of each is at `line`. */
INLINE void join_words(const uint8_t *const line[2], const int slot[2], uint8_t *to)
{
    uint32_t a[16], b[16], out[16];
    memcpy(a, line[0], sizeof a);
    memcpy(b, line[1], sizeof b);
    const int low = slot[0] % 2 * 16, high = slot[1] % 2 * 16;
    for (int c = 0; c < 16; c++) out[c] = (a[c] >> low & 0xffff) | (b[c] >> high << 16);
    memcpy(to, out, sizeof out);
}

static void join_values_q16(const join_shape *s, const join_part *part, int n, uint8_t *to)
{
    enum { LINE = 64, PAIRS = SP_BLOCK_TOKENS / 2 };
    const uint8_t *line[SP_BLOCK_TOKENS + 1];
    int slot[SP_BLOCK_TOKENS + 1], m = 0;
    for (int i = 0; i < n; i++) {
        for (int k = part[i].slot; k < part[i].slot + part[i].n; k++, m++) {
            slot[m] = k;
            line[m] = part[i].keys + s->head_bytes + SP_Q16_SCALES + k / 2 * LINE;
        }
    }
    line[m] = line[m - 1]; /* the second of the last pair, if it has none */
    slot[m] = slot[m - 1];
    join_lanes(part, n, s->head_bytes, 1, sizeof(float), to);
    for (int p = 0; p < SP_DIV_UP(m, 2); p++) {
        for (int w = 0; w < s->width / 16; w++) {
            const size_t at = (size_t)(w * PAIRS * LINE);
            const uint8_t *const from[2] = {line[2 * p] + at, line[2 * p + 1] + at};
            join_words(from, slot + 2 * p, to + s->head_bytes + SP_Q16_SCALES + at + p * LINE);
        }
    }
}

/* join_gather -- the keys and values of all parts, at most a block of them, in order. */
INLINE void join_gather(sp_dtype type, const join_shape *s, const join_part *part, int n,
                        uint8_t *to)
{
    join_keys(type, s, part, n, to);
    if (type == SP_Q16) {
        join_values_q16(s, part, n, to);
        return;
    }
    uint8_t *row = to + s->head_bytes;
    for (int i = 0; i < n; i++) {
        const size_t bytes = (size_t)part[i].n * s->row_bytes;
        memcpy(row, part[i].keys + s->head_bytes + (size_t)part[i].slot * s->row_bytes, bytes);
        row += bytes;
    }
}

#endif
