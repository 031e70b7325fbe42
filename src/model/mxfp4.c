#include "model/mxfp4.h"

enum { GROUP = 32, GROUP_BYTES = GROUP / 2 };

static sp_err check_part(const sp_tensor *t, const int64_t *want, int n)
{
    if (strcmp(t->type, "U8") != 0)
        return sp_fail(SP_E_FORMAT, "%s: tensor %.*s: its type is %s, MXFP4 weights are U8", t->path, SP_VIEW(t->name),
                       t->type);
    return sp_tensor_check_shape(t, want, n);
}

sp_err sp_mxfp4_check(const sp_mxfp4_parts *p, int64_t n, int64_t n_rows, int64_t n_cols)
{
    const int64_t want[] = {n, n_rows, n_cols / GROUP, GROUP_BYTES};
    if (n_cols % GROUP)
        return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: rows of MXFP4 weights are not whole groups of %d",
                       p->blocks->path, SP_VIEW(p->blocks->name), GROUP);
    SP_TRY(check_part(p->blocks, want, 4));
    return check_part(p->scales, want, 3);
}

static void repack(const uint8_t *from, uint8_t scale, uint8_t *to)
{
    to[0] = scale;
    for (int j = 0; j < GROUP_BYTES / 2; j++) {
        const uint8_t low = from[j], high = from[j + GROUP_BYTES / 2];
        to[1 + 2 * j] = (uint8_t)((low & 15) | (high & 15) << 4);
        to[2 + 2 * j] = (uint8_t)(low >> 4 | (high & 0xF0));
    }
}

void sp_mxfp4_row(const sp_mxfp4_parts *p, int64_t row, int64_t n_cols, uint8_t *to)
{
    const int64_t n = n_cols / GROUP, first = row * n;
    for (int64_t g = first; g < first + n; g++, to += 1 + GROUP_BYTES)
        repack(p->blocks->data + GROUP_BYTES * g, p->scales->data[g], to);
}
