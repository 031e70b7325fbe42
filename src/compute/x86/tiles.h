/* tiles.h -- AMX's tile operations as tiles.c and attend_tiles.c use them; in plain C where instructions are emulated.
 *
 * A tile is 16 rows of 64 bytes. A tile of x is 16 rows of 32 columns in bf16; one of weights is 16 pairs of columns,
 * each of 16 outputs by 2 columns; one of sums is 16 rows by 16 outputs in f32:
 *
 *   tile_dot(sums, x, w):   for each row and output   even = x[0] w[0] + x[2] w[2] + ... + x[30] w[30]
 *                                                     odd  = x[1] w[1] + x[3] w[3] + ... + x[31] w[31]
 *                                                     sum  = sum + (even + odd)
 *
 * A product of two bf16 is exact in f32, so even and odd are chains of 16 FMAs that start at zero. Rounding is to
 * nearest even, denormals count as zero. The manual's pseudo-code of TDPBF16PS says so, and 512,000 random sums on a
 * Xeon had these bits. So plain C, and any vector unit with FMAs and flushed denormals, computes them, too.
 *
 * Numbers of tiles are constants: they are parts of instructions. */
#ifndef SP_COMPUTE_X86_TILES_H
#define SP_COMPUTE_X86_TILES_H

#include <string.h>

#include "compute/simd/vec.h"

enum { TILE_ROWS = 16, TILE_BYTES = 64, N_TILES = 8 };

/* Denormals count as zero while the vector unit computes, as they do in tiles. Returns the state to restore. */
INLINE unsigned flush(void)
{
    const unsigned state = _mm_getcsr();
    _mm_setcsr(state | 0x8040);
    return state;
}

#if SP_EMULATE

typedef struct emulated_tile {
    uint8_t row[TILE_ROWS][TILE_BYTES];
} emulated_tile;

static _Thread_local emulated_tile emulated_tiles[N_TILES];

INLINE void tiles_begin(void)
{
    memset(emulated_tiles, 0xff, sizeof emulated_tiles); /* NaN: a tile that was not loaded shows */
}

INLINE void tiles_end(void)
{
}

INLINE void tile_load(int t, const void *p, size_t stride)
{
    for (int i = 0; i < TILE_ROWS; i++)
        memcpy(emulated_tiles[t].row[i], (const uint8_t *)p + (size_t)i * stride, TILE_BYTES);
}

INLINE void tile_zero(int t)
{
    memset(&emulated_tiles[t], 0, sizeof emulated_tiles[t]);
}

INLINE void tile_store(int t, void *p, size_t stride)
{
    for (int i = 0; i < TILE_ROWS; i++)
        memcpy((uint8_t *)p + (size_t)i * stride, emulated_tiles[t].row[i], TILE_BYTES);
}

INLINE float emulated_bf16(const uint8_t *row, int i)
{
    uint16_t half;
    memcpy(&half, row + 2 * i, sizeof half);
    const uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

INLINE void tile_dot(int sums, int x, int w)
{
    for (int i = 0; i < TILE_ROWS; i++) {
        float s[TILE_ROWS];
        memcpy(s, emulated_tiles[sums].row[i], sizeof s);
        for (int o = 0; o < TILE_ROWS; o++) {
            float chain[2] = {0, 0};
            for (int c = 0; c < 32; c++)
                chain[c % 2] = fmaf(emulated_bf16(emulated_tiles[x].row[i], c),
                                    emulated_bf16(emulated_tiles[w].row[c / 2], 2 * o + c % 2), chain[c % 2]);
            s[o] += chain[0] + chain[1];
        }
        memcpy(emulated_tiles[sums].row[i], s, sizeof s);
    }
}

#else

/* All tiles are whole. */
INLINE void tiles_begin(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < N_TILES; t++) config.row_bytes[t] = TILE_BYTES, config.rows[t] = TILE_ROWS;
    /* GCC 12 does not know that the next instruction reads memory, and would drop the writes. */
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

/* Shrinks the thread's state again, so that context switches need not save tiles. */
INLINE void tiles_end(void)
{
    _tile_release();
}

#define tile_load(t, p, stride)  _tile_loadd(t, p, stride)
#define tile_zero(t)             _tile_zero(t)
#define tile_store(t, p, stride) _tile_stored(t, p, stride)
#define tile_dot(sums, x, w)     _tile_dpbf16ps(sums, x, w)

#endif

/* -- bf16 -------------------------------------------------------------------------------------- */

/* Rounds to bf16, to nearest even; denormals become zeros: words 0 .. 15 are a, 16 .. 31 are b. */
INLINE __m512i bf16_of(vec a, vec b)
{
#if SP_EMULATE
    return emulate_cvtne2ps_pbh(b, a);
#else
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
#endif
}

/* The first and the second bf16 of each pair, as floats. */
INLINE vec bf16_even(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
INLINE vec bf16_odd(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000)));
}

#endif
