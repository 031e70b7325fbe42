/* roofline_bf16.c -- the loops of roofline.h for products of bf16: an instruction is 8,192 multiply-adds in tiles, 32
 * in vectors. Operands are random: with constants, the instructions draw less power and the clock is higher. */
#include "compute/kernel/roofline.h"
#include "compute/x86/cpu.h"
#include "compute/x86/tiles.h"

enum { OPERANDS = 4, LINES = OPERANDS * TILE_ROWS, WORDS = LINES * TILE_BYTES / 2 };

typedef struct operands {
    _Alignas(64) uint16_t bf16[WORDS];
} operands;

/* Between -1 and 1. */
static void make_operands(operands *o)
{
    uint32_t x = 1;
    for (int i = 0; i < WORDS; i++) {
        x = x * 1664525 + 1013904223;
        const float f = (float)(int32_t)x * 0x1p-31f;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        o->bf16[i] = (uint16_t)(bits >> 16);
    }
}

static uint32_t tile_turns(int64_t n)
{
    operands o;
    _Alignas(64) float sums[4][TILE_ROWS][VL] = {0};
    float all = 0;
    make_operands(&o);
    const uint16_t(*tile)[TILE_ROWS * TILE_BYTES / 2] = (const void *)o.bf16;
    tiles_begin();
    tile_load(0, sums[0], TILE_BYTES);
    tile_load(1, sums[1], TILE_BYTES);
    tile_load(2, sums[2], TILE_BYTES);
    tile_load(3, sums[3], TILE_BYTES);
    tile_load(4, tile[0], TILE_BYTES);
    tile_load(5, tile[1], TILE_BYTES);
    tile_load(6, tile[2], TILE_BYTES);
    tile_load(7, tile[3], TILE_BYTES);
    for (int64_t t = 0; t < n; t++) {
        tile_dot(0, 4, 6);
        tile_dot(1, 4, 7);
        tile_dot(2, 5, 6);
        tile_dot(3, 5, 7);
    }
    tile_store(0, sums[0], TILE_BYTES);
    tile_store(1, sums[1], TILE_BYTES);
    tile_store(2, sums[2], TILE_BYTES);
    tile_store(3, sums[3], TILE_BYTES);
    tiles_end();
    for (int i = 0; i < 4; i++) all += sums[i][i][i];
    return (uint32_t)(int32_t)all;
}

#define EACH12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

static uint32_t vector_turns(int64_t n)
{
    operands o;
    vec all = vec_zero();
    make_operands(&o);
#define LINE(i) (__m512bh) _mm512_load_si512((const void *)(o.bf16 + 32 * (i)))
#define BEGIN(i)                                                                                   \
    vec s##i = vec_all(i);                                                                         \
    SP_ROOF_CHANGES(s##i);
#define TURN(i)  s##i = _mm512_dpbf16_ps(s##i, x[(i) / 3], w[(i) % 3]);
#define TOTAL(i) all = vec_add(all, s##i);
    const __m512bh x[4] = {LINE(0), LINE(1), LINE(2), LINE(3)}, w[3] = {LINE(4), LINE(5), LINE(6)};
    EACH12(BEGIN)
    for (int64_t t = 0; t < n; t++) {
        EACH12(TURN)
    }
    EACH12(TOTAL)
    return (uint32_t)(int32_t)vec_sum(all);
}

const sp_roof_loop sp_roof_bf16_tiles = {
    .kind = SP_ROOF_BF16,
    .name = "amx-bf16",
    .ops = 4 * 2.0 * TILE_ROWS * VL * 32,
    .turns = tile_turns,
    .runs_here = cpu_has_amx,
};
const sp_roof_loop sp_roof_bf16_vectors = {
    .kind = SP_ROOF_BF16,
    .name = "avx512-bf16",
    .ops = 12 * 2 * 32,
    .turns = vector_turns,
    .runs_here = cpu_has_avx512bf16,
};
