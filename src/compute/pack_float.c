/* pack_float.c -- packs float weights for x86/matmul.c: panels of R rows, transposed. */
#include <string.h>

#include "base/mem.h"
#include "compute/pack_int.h"

size_t sp_pack_float_bytes(const sp_mat *w, int R)
{
    return (size_t)SP_ROUND_UP(w->n_rows, R) * sp_row_bytes(w->type, w->n_cols);
}

/* Writes row r of a panel, its n elements R apart. The file may be unaligned. */
static void put_row(const uint8_t *row, size_t size, int64_t n, int R, int r, uint8_t *panel)
{
    if (size == 2)
        for (int64_t c = 0; c < n; c++) memcpy(panel + 2 * (c * R + r), row + 2 * c, 2);
    else
        for (int64_t c = 0; c < n; c++) memcpy(panel + 4 * (c * R + r), row + 4 * c, 4);
}

void sp_pack_floats(const sp_pack_args *a, int R, int part, int n_parts)
{
    enum { STRETCH = 64 }; /* columns at a time: their source and destination stay in L1 */
    const sp_mat *w = a->w;
    const size_t size = sp_row_bytes(w->type, 1), row_bytes = (size_t)w->n_cols * size;
    int64_t from, to;
    sp_part(w->n_rows, R, part, n_parts, &from, &to);
    for (int64_t first = from; first < to; first += R) {
        uint8_t *panel = (uint8_t *)a->out + (size_t)first * row_bytes;
        const uint8_t *rows = (const uint8_t *)w->data + (size_t)first * row_bytes;
        if (first + R > w->n_rows) memset(panel, 0, (size_t)R * row_bytes);
        for (int64_t c = 0; c < w->n_cols; c += STRETCH)
            for (int r = 0; r < R && first + r < w->n_rows; r++)
                put_row(rows + (size_t)r * row_bytes + (size_t)c * size, size,
                        SP_MIN(STRETCH, w->n_cols - c), R, r, panel + (size_t)(c * R) * size);
    }
}
