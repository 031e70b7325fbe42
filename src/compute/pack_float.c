/* pack_float.c -- packs float weights for simd/matmul.c: panels of R rows, transposed. */
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
