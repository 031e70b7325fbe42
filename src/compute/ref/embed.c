/* embed.c -- the definition of the embedding look-up. Ids are valid: callers check their input. */
#include "compute/kernel/ops.h"

void sp_embed_ref(const sp_embed_args *a, int part, int n_parts)
{
    const size_t row_bytes = sp_row_bytes(a->w->type, a->w->n_cols);
    int64_t from, to;
    sp_part(a->m, 1, part, n_parts, &from, &to);
    for (int64_t m = from; m < to; m++) {
        assert(a->ids[m] >= 0 && a->ids[m] < a->w->n_rows);
        sp_row_to_f32(a->w->type, (const uint8_t *)a->w->data + (size_t)a->ids[m] * row_bytes,
                      a->x + m * a->w->n_cols, a->w->n_cols);
    }
}
