/* pack.c -- writes weights in the layout of pack_int.h, for integer products. */
#include "compute/pack_int.h"

#include "base/mem.h"
#include "compute/quant_int.h"

/* One group of 32 columns of one row. */
typedef struct group {
    uint16_t d;         /* f16: the scale */
    uint16_t m;         /* f16: the constant (Q4_1, Q5_1) or the scale of `min` (Q4_K, Q5_K) */
    uint8_t scale, min; /* K types; Q6_K: the scales of both halves */
    uint8_t code[32];
} group;

/* The low or high nibbles of n bytes as n codes. */
static void nibbles(const uint8_t *p, int n, int high, uint8_t *code)
{
    for (int i = 0; i < n; i++) code[i] = (uint8_t)(high ? p[i] >> 4 : p[i] & 15);
}

static void read_plain(sp_dtype type, const uint8_t *p, group *g)
{
    const bool shifted = type == SP_Q4_1 || type == SP_Q5_1;
    const bool fifth = type == SP_Q5_0 || type == SP_Q5_1;
    g->d = sp_load_u16(p);
    g->m = shifted ? sp_load_u16(p + 2) : 0;
    p += shifted ? 4 : 2;
    if (type == SP_Q8_0) {
        memcpy(g->code, p, 32);
        return;
    }
    uint32_t bits = fifth ? sp_load_u32(p) : 0;
    p += fifth ? 4 : 0;
    nibbles(p, 16, 0, g->code);
    nibbles(p, 16, 1, g->code + 16);
    for (int i = 0; i < 32; i++) g->code[i] |= (uint8_t)((bits >> i & 1) << 4);
}

/* Group k of the eight in a block of a K type. */
static void read_k(sp_dtype type, const uint8_t *block, int k, group *g)
{
    uint8_t scale[8], min[8];
    if (type == SP_Q6_K) {
        g->d = sp_load_u16(block + 208);
        g->scale = block[192 + 2 * k];
        g->min = block[192 + 2 * k + 1];
        nibbles(block + k / 4 * 64 + k % 2 * 32, 32, k / 2 % 2, g->code);
        const uint8_t *high = block + 128 + k / 4 * 32;
        for (int i = 0; i < 32; i++) g->code[i] |= (uint8_t)((high[i] >> k % 4 * 2 & 3) << 4);
        return;
    }
    g->d = sp_load_u16(block);
    g->m = sp_load_u16(block + 2);
    sp_k_scales(block + 4, scale, min);
    g->scale = scale[k];
    g->min = min[k];
    nibbles(block + (type == SP_Q4_K ? 16 : 48) + k / 2 * 32, 32, k % 2, g->code);
    for (int i = 0; type == SP_Q5_K && i < 32; i++)
        g->code[i] |= (uint8_t)((block[16 + i] >> k & 1) << 4);
}

static void read_group(const sp_dtype_info *info, sp_dtype type, const uint8_t *row, int64_t i,
                       group *g)
{
    if (info->n_group == 32)
        read_plain(type, row + (size_t)i * (size_t)info->group_bytes, g);
    else
        read_k(type, row + (size_t)(i / 8) * (size_t)info->group_bytes, (int)(i % 8), g);
}

/* -- writing -------------------------------------------------------------------------------- */

/* Stores the factors of output r. head: of a K type, else NULL. */
static void put_factors(sp_dtype type, const group *g, int R, int r, uint8_t *head, uint8_t *out)
{
    if (!head) {
        sp_store_u16(out + 2 * r, g->d);
        if (type == SP_Q4_1 || type == SP_Q5_1) sp_store_u16(out + 2 * (R + r), g->m);
        return;
    }
    out[r] = g->scale;
    out[R + r] = g->min;
    sp_store_u16(head + 2 * r, g->d);
    if (type != SP_Q6_K) sp_store_u16(head + 2 * (R + r), g->m);
}

/* Puts the codes of output r in their order, a step at a time. */
static void place_codes(sp_pack_form f, int r, const uint8_t *from, uint8_t *code)
{
    const int R = f.outputs;
    if (f.step == 4)
        for (int k = 0; k < 8; k++) memcpy(code + 4 * (k * R + r), from + 4 * k, 4);
    else
        for (int k = 0; k < 16; k++) memcpy(code + 2 * (k * R + r), from + 2 * k, 2);
}

/* Packs the codes of a group, which are in the order of pack_int.h. */
static void put_codes(const sp_pack_layout *l, int R, const uint8_t *code, uint8_t *out)
{
    const int n_low = (int)(l->high - l->low), n_high = (int)(l->group - l->high);
    uint8_t *low = out + l->low, *high = out + l->high;
    if (n_low == 32 * R) {
        memcpy(low, code, (size_t)n_low);
        return;
    }
    for (int i = 0; i < n_low; i++) low[i] = (uint8_t)((code[i] & 15) | code[n_low + i] << 4);
    if (n_high == 0) return;
    const int bits = n_high / (4 * R); /* n_high is 4 R for 1 bit, 8 R for 2 */
    memset(high, 0, (size_t)n_high);
    for (int k = 0; k < 8 / bits; k++)
        for (int i = 0; i < n_high; i++)
            high[i] |= (uint8_t)(code[k * n_high + i] >> 4 << k * bits);
}

/* -- the operation -------------------------------------------------------------------------- */

size_t sp_pack_bytes(const sp_mat *w, sp_pack_form f)
{
    sp_pack_layout l;
    if (!sp_pack_layout_of(w->type, (size_t)f.outputs, &l))
        return sp_pack_float_bytes(w, f.outputs);
    return (size_t)SP_DIV_UP(w->n_rows, f.outputs) * sp_pack_panel_bytes(&l, w->n_cols / 32);
}

typedef struct packing {
    sp_dtype type;
    const sp_dtype_info *info;
    sp_pack_form form;
    sp_pack_layout layout;
    int64_t n_groups; /* of a row */
    size_t row_bytes;
} packing;

/* pack_panel -- R outputs; the panel of fewer rows is zeroed before. */
static void pack_panel(const packing *p, const uint8_t *rows, int n_rows, uint8_t *panel)
{
    const sp_pack_layout *l = &p->layout;
    uint8_t code[32 * SP_PACK_OUTPUTS] = {0}, *head = NULL, *out = panel;
    for (int64_t i = 0; i < p->n_groups; i++, out += l->group) {
        if (l->head && i % 8 == 0) head = out, out += l->head;
        for (int r = 0; r < n_rows; r++) {
            group g;
            read_group(p->info, p->type, rows + (size_t)r * p->row_bytes, i, &g);
            put_factors(p->type, &g, p->form.outputs, r, head, out);
            place_codes(p->form, r, g.code, code);
        }
        put_codes(l, p->form.outputs, code, out);
    }
}

void sp_pack(const sp_pack_args *a, sp_pack_form f, int part, int n_parts)
{
    const sp_mat *w = a->w;
    const int R = f.outputs;
    packing p = {.type = w->type,
                 .info = sp_dtype_of(w->type),
                 .form = f,
                 .n_groups = w->n_cols / 32,
                 .row_bytes = sp_row_bytes(w->type, w->n_cols)};
    if (!sp_pack_layout_of(w->type, (size_t)R, &p.layout)) {
        sp_pack_floats(a, R, part, n_parts);
        return;
    }
    const size_t panel_bytes = sp_pack_panel_bytes(&p.layout, p.n_groups);
    int64_t from, to;
    sp_part(w->n_rows, R, part, n_parts, &from, &to);
    for (int64_t first = from; first < to; first += R) {
        uint8_t *panel = (uint8_t *)a->out + (size_t)(first / R) * panel_bytes;
        const int n_rows = (int)SP_MIN(R, w->n_rows - first);
        if (n_rows < R) memset(panel, 0, panel_bytes);
        pack_panel(&p, (const uint8_t *)w->data + (size_t)first * p.row_bytes, n_rows, panel);
    }
}
