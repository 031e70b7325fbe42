/* pack_float.c -- packs float weights: transposed panels of R rows for simd/matmul.c, tiles for x86/tiles.c. */
#include <string.h>

#include "base/mem.h"
#include "compute/kernel/pack.h"

size_t sp_pack_float_bytes(const sp_mat *w, int R)
{
    return (size_t)SP_ROUND_UP(w->n_rows, R) * sp_row_bytes(w->type, w->n_cols);
}

typedef uint16_t u16x8 __attribute__((vector_size(16)));

static u16x8 low(u16x8 a, u16x8 b)
{
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

static u16x8 high(u16x8 a, u16x8 b)
{
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

/* interleave -- rows i and i + 4, for each i. Three times, it transposes. */
static void interleave(const u16x8 a[8], u16x8 b[8])
{
    for (int i = 0; i < 4; i++) {
        b[2 * i] = low(a[i], a[i + 4]);
        b[2 * i + 1] = high(a[i], a[i + 4]);
    }
}

/* put_square -- eight columns of eight rows of 16-bit weights. */
static void put_square(const uint8_t *rows, size_t row_bytes, int R, uint8_t *panel)
{
    u16x8 a[8], b[8];
    for (int r = 0; r < 8; r++) memcpy(&a[r], rows + (size_t)r * row_bytes, sizeof a[r]);
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
    for (int c = 0; c < 8; c++) memcpy(panel + 2 * c * R, &b[c], sizeof b[c]);
}

/* Writes row r of a panel, its n elements R apart. The file may be unaligned. */
static void put_row(const uint8_t *row, size_t size, int64_t n, int R, int r, uint8_t *panel)
{
    if (size == 2)
        for (int64_t c = 0; c < n; c++) memcpy(panel + 2 * (c * R + r), row + 2 * c, 2);
    else
        for (int64_t c = 0; c < n; c++) memcpy(panel + 4 * (c * R + r), row + 4 * c, 4);
}

/* Rows of a matrix in the file that become one panel. */
typedef struct source {
    const uint8_t *rows;
    size_t row_bytes, size; /* size: of a weight */
    int n_rows;             /* R, or fewer in the last panel */
} source;

/* put_columns -- n columns of all rows, from column c; 16-bit weights in squares, as far as they
 * fit. */
static void put_columns(const source *s, int64_t c, int64_t n, int R, uint8_t *panel)
{
    const int64_t squares = s->size == 2 ? n / 8 * 8 : 0;
    const uint8_t *row = s->rows + (size_t)c * s->size;
    uint8_t *out = panel + (size_t)(c * R) * s->size;
    for (int r = 0; r < s->n_rows;) {
        const bool square = squares && r + 8 <= s->n_rows;
        const int64_t done = square ? squares : 0;
        for (int64_t i = 0; i < done; i += 8)
            put_square(row + 2 * i, s->row_bytes, R, out + 2 * (i * R + r));
        for (int end = r + (square ? 8 : 1); r < end; r++, row += s->row_bytes)
            put_row(row + (size_t)done * s->size, s->size, n - done, R, r,
                    out + (size_t)(done * R) * s->size);
    }
}

void sp_pack_floats(const sp_pack_args *a, int R, int part, int n_parts)
{
    enum { STRETCH = 64 }; /* columns at a time: their source and destination stay in L1 */
    const sp_mat *w = a->w;
    source s = {.size = sp_row_bytes(w->type, 1)};
    s.row_bytes = (size_t)w->n_cols * s.size;
    int64_t from, to;
    sp_part(w->n_rows, R, part, n_parts, &from, &to);
    for (int64_t first = from; first < to; first += R) {
        uint8_t *panel = (uint8_t *)a->out + (size_t)first * s.row_bytes;
        s.rows = (const uint8_t *)w->data + (size_t)first * s.row_bytes;
        s.n_rows = (int)SP_MIN(R, w->n_rows - first);
        if (s.n_rows < R) memset(panel, 0, (size_t)R * s.row_bytes);
        for (int64_t c = 0; c < w->n_cols; c += STRETCH)
            put_columns(&s, c, SP_MIN(STRETCH, w->n_cols - c), R, panel);
    }
}

/* -- tiles of bf16 --------------------------------------------------------------------------------- */

enum { TILES_R = 32, GROUP = 32, TILE_BYTES = 1024 };

size_t sp_pack_tiles_bytes(const sp_mat *w)
{
    assert(w->n_cols % GROUP == 0);
    return (size_t)SP_ROUND_UP(w->n_rows, TILES_R) * (size_t)w->n_cols * 2;
}

/* put_pairs -- a group of one row, 64 bytes apart, which is a row of a tile. */
static void put_pairs(sp_dtype type, const uint8_t *row, uint8_t *tile)
{
    uint16_t bf16[GROUP];
    if (type == SP_BF16) {
        memcpy(bf16, row, sizeof bf16);
    } else {
        float f[GROUP];
        sp_row_to_f32(type, row, f, GROUP);
        sp_row_from_f32(SP_BF16, f, bf16, GROUP);
    }
    for (int s = 0; s < GROUP / 2; s++) memcpy(tile + 64 * s, bf16 + 2 * s, 4);
}

void sp_pack_tiles(const sp_pack_args *a, int part, int n_parts)
{
    const sp_mat *w = a->w;
    const size_t row_bytes = sp_row_bytes(w->type, w->n_cols);
    const int64_t n_groups = w->n_cols / GROUP;
    int64_t from, to;
    sp_part(w->n_rows, TILES_R, part, n_parts, &from, &to);
    for (int64_t r = from; r < to; r += TILES_R) {
        uint8_t *panel = (uint8_t *)a->out + (size_t)(r * w->n_cols) * 2;
        const int n = (int)SP_MIN(TILES_R, w->n_rows - r);
        if (n < TILES_R) memset(panel, 0, (size_t)(TILES_R * w->n_cols) * 2);
        for (int64_t g = 0; g < n_groups; g++)
            for (int i = 0; i < n; i++)
                put_pairs(w->type, (const uint8_t *)w->data + (size_t)(r + i) * row_bytes + (size_t)g * GROUP * 2,
                          panel + (size_t)(2 * g + i / 16) * TILE_BYTES + (size_t)(i % 16) * 4);
    }
}
