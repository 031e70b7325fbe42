/* attend_tiles.h -- the products of span attention with AMX, for keys and values in Q16: operands rounded to bf16,
 * sums in f32.
 *
 *   scores    c[row][key]      =  scale[key] * (query[row][d] . word[d][key])
 *   outputs   c[row][channel] +=  factor[row] * (weight[row][key] . word[key][channel])
 *
 * A line of a panel (kernel/kv.h) is 16 pairs of words: a row of a tile, once each word is rounded to bf16. So the
 * words of a step are rounded once for all rows (`sp_tile_step_open`). A weight is a probability times the scale of
 * the value, rounded. A row's factor is the sum of its weights before they were rounded by the sum after, so that
 * errors of one sign do not add up.
 *
 * Both products are chains of x86/tiles.h: 32 channels, or 32 keys, a group, groups in ascending order from zero. One
 * row has the bits that it has among others. Blocks after the last have zeros.
 */
#ifndef SP_COMPUTE_X86_ATTEND_TILES_H
#define SP_COMPUTE_X86_ATTEND_TILES_H

#include <stdint.h>

enum { SP_STEP_ROWS = 16, SP_STEP_BLOCKS = 4 };

/* A step of 64 keys. */
typedef struct sp_tile_step {
    int n_blocks, width;                                                    /* width: D rounded up to 16 */
    const uint8_t *key_block[SP_STEP_BLOCKS], *value_block[SP_STEP_BLOCKS]; /* of a head, in Q16 */
    const uint8_t *next[SP_STEP_BLOCKS];                                    /* keys of the next step, to prefetch */
    void *keys;   /* [4 blocks][width / 32 up][16 pairs of channels][16 keys][2] bf16 */
    void *values; /* [2 x 32 keys][width / 16][16 pairs of keys][16 channels][2] bf16 */
} sp_tile_step;

/* sp_tiles_open, sp_tiles_close -- around all other calls, in the same thread. */
void sp_tiles_open(void);
void sp_tiles_close(void);

/* sp_tile_step_open -- fills keys and values, each of at least 256 * width bytes. */
void sp_tile_step_open(const sp_tile_step *s);

/* sp_bf16_of_query -- rounds a row of `width` floats in place; zeros follow. */
void sp_bf16_of_query(float *row, int width);

/* sp_bf16_of_probs -- probabilities of 64 keys become weights in place, 0 outside the mask. Returns the factor. */
float sp_bf16_of_probs(float *prob, const float *scale, uint64_t mask);

/* sp_tile_scores -- score [16][64] of 16 rows of queries, `width` floats apart. */
void sp_tile_scores(const sp_tile_step *s, const float *query, float *score);

/* sp_tile_outputs -- adds to rows from .. to-1 of out [16][width]. weight: 16 rows, 64 floats apart. */
void sp_tile_outputs(const sp_tile_step *s, const float *weight, const float *factor, int from, int to, float *out);

#endif
