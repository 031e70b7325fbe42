/* pack.c -- writes weights in the layout of kernel/pack.h, for integer products. */
#include "compute/kernel/pack.h"

#include "base/mem.h"
#include "compute/kernel/quant.h"

/* One group of 32 columns of one row. */
typedef struct group {
    uint16_t d; /* f16: the scale */
    uint16_t m; /* f16: the constant (Q4_1, Q5_1) or the scale of `min` (Q4_K, Q5_K) */
    uint8_t scale[2], min[2]; /* K types: of both halves, if they differ */
    uint8_t code[32];
} group;

/* The low or high nibbles of n bytes as n codes. */
static void nibbles(const uint8_t *p, int n, int high, uint8_t *code)
{
    for (int i = 0; i < n; i++) code[i] = (uint8_t)(high ? p[i] >> 4 : p[i] & 15);
}

/* Levels of a table as codes of Q8_0: element i is in a nibble of byte i % 16. */
static void read_levels(const int8_t level[16], const uint8_t *p, uint8_t *code)
{
    nibbles(p, 16, 0, code);
    nibbles(p, 16, 1, code + 16);
    for (int i = 0; i < 32; i++) code[i] = (uint8_t)level[code[i]];
}

/* MXFP4 as Q8_0: a scale too small for f16 moves into the codes, one too large becomes the largest power of two. */
static void read_mxfp4(const uint8_t *p, group *g)
{
    const int e = p[0] - 128, shift = SP_MIN(SP_MAX(-24 - e, 0), 8);
    g->d = sp_f32_to_f16(ldexpf(1, SP_MIN(SP_MAX(e, -24), 15)));
    read_levels(sp_mxfp4_steps, p + 1, g->code);
    for (int i = 0; shift && i < 32; i++) g->code[i] = (uint8_t)((int8_t)g->code[i] / (1 << shift));
}

static void read_plain(sp_dtype type, const uint8_t *p, group *g)
{
    if (type == SP_MXFP4) {
        read_mxfp4(p, g);
        return;
    }
    if (type == SP_IQ4_NL) {
        g->d = sp_load_u16(p);
        read_levels(sp_iq4_levels, p + 2, g->code);
        return;
    }
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

/* Q3_K as Q6_K: the scales of two halves, and codes from the zero point 32. */
static void read_q3_k(const uint8_t *block, int k, group *g)
{
    int8_t scale[16];
    sp_q3_scales(block + 96, scale);
    g->d = sp_load_u16(block + 108);
    g->scale[0] = (uint8_t)scale[2 * k];
    g->scale[1] = (uint8_t)scale[2 * k + 1];
    for (int i = 0; i < 32; i++) g->code[i] = (uint8_t)(sp_q3_code(block, 32 * k + i) + 32);
}

static void read_q2_k(const uint8_t *block, int k, group *g)
{
    g->d = sp_load_u16(block + 80);
    g->m = sp_load_u16(block + 82);
    for (int half = 0; half < 2; half++) {
        g->scale[half] = block[2 * k + half] & 15;
        g->min[half] = block[2 * k + half] >> 4;
    }
    for (int i = 0; i < 32; i++) g->code[i] = block[16 + k / 4 * 32 + i] >> (k % 4 * 2) & 3;
}

static void read_iq4_xs(const uint8_t *block, int k, group *g)
{
    g->d = sp_f32_to_f16(sp_f16_to_f32(sp_load_u16(block)) * (float)sp_iq4_scale(block, k));
    read_levels(sp_iq4_levels, block + 8 + 16 * k, g->code);
}

/* Group k of the eight in a block of Q4_K, Q5_K or Q6_K. */
static void read_k(sp_dtype type, const uint8_t *block, int k, group *g)
{
    uint8_t scale[8], min[8];
    if (type == SP_Q6_K) {
        g->d = sp_load_u16(block + 208);
        memcpy(g->scale, block + 192 + 2 * k, 2);
        nibbles(block + k / 4 * 64 + k % 2 * 32, 32, k / 2 % 2, g->code);
        const uint8_t *high = block + 128 + k / 4 * 32;
        for (int i = 0; i < 32; i++) g->code[i] |= (uint8_t)((high[i] >> k % 4 * 2 & 3) << 4);
        return;
    }
    g->d = sp_load_u16(block);
    g->m = sp_load_u16(block + 2);
    sp_k_scales(block + 4, scale, min);
    g->scale[0] = scale[k];
    g->min[0] = min[k];
    nibbles(block + (type == SP_Q4_K ? 16 : 48) + k / 2 * 32, 32, k % 2, g->code);
    for (int i = 0; type == SP_Q5_K && i < 32; i++)
        g->code[i] |= (uint8_t)((block[16 + i] >> k & 1) << 4);
}

static void read_block(sp_dtype type, const uint8_t *block, int k, group *g)
{
    switch (type) {
    case SP_Q2_K:
        read_q2_k(block, k, g);
        break;
    case SP_Q3_K:
        read_q3_k(block, k, g);
        break;
    case SP_IQ4_XS:
        read_iq4_xs(block, k, g);
        break;
    default:
        read_k(type, block, k, g);
    }
}

static void read_group(const sp_dtype_info *info, sp_dtype type, const uint8_t *row, int64_t i,
                       group *g)
{
    if (info->n_group == 32)
        read_plain(type, row + (size_t)i * (size_t)info->group_bytes, g);
    else
        read_block(type, row + (size_t)(i / 8) * (size_t)info->group_bytes, (int)(i % 8), g);
}

/* -- writing -------------------------------------------------------------------------------- */

/* Stores the factors of output r in the layout of a type. head: of a K type, else NULL. */
static void put_factors(sp_dtype type, const group *g, int R, int r, uint8_t *head, uint8_t *out)
{
    if (!head) {
        sp_store_u16(out + 2 * r, g->d);
        if (type == SP_Q4_1 || type == SP_Q5_1) sp_store_u16(out + 2 * (R + r), g->m);
        return;
    }
    sp_store_u16(head + 2 * r, g->d);
    out[r] = g->scale[0];
    if (type == SP_Q4_K || type == SP_Q5_K) {
        out[R + r] = g->min[0];
    } else { /* in halves */
        out[R + r] = g->scale[1];
        for (int half = 0; type == SP_Q2_K && half < 2; half++)
            out[(2 + half) * R + r] = g->min[half];
    }
    if (type != SP_Q6_K) sp_store_u16(head + 2 * (R + r), g->m);
}

/* Puts the codes of output r in their order, a step at a time. */
static void place_codes(sp_pack_form f, int r, const uint8_t *from, uint8_t *code)
{
    const int R = f.outputs;
    if (f.step == 8)
        for (int k = 0; k < 4; k++) memcpy(code + 8 * (k * R + r), from + 8 * k, 8);
    else if (f.step == 4)
        for (int k = 0; k < 8; k++) memcpy(code + 4 * (k * R + r), from + 4 * k, 4);
    else
        for (int k = 0; k < 16; k++) memcpy(code + 2 * (k * R + r), from + 2 * k, 2);
}

/* Packs the codes of a group, which are in the order of kernel/pack.h. */
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
    if (!sp_pack_layout_of(sp_pack_as(w->type), (size_t)f.outputs, &l))
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
            put_factors(sp_pack_as(p->type), &g, p->form.outputs, r, head, out);
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
    if (!sp_pack_layout_of(sp_pack_as(w->type), (size_t)R, &p.layout)) {
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
