/* pack.h -- the layout of weights for integer products: pack.c writes, simd/panels.h reads.
 *
 * A panel is R rows of the matrix, the R outputs that a kernel computes together. The last panel is
 * padded with zeros. The groups of 32 columns of a panel are stored one after the other, so a
 * product with one row of x reads memory sequentially.
 *
 *   group    factors | codes              K types: a head before every eight groups | eight groups
 *
 * Codes are the integers from the file, in the order in which kernels read them:
 *
 *   code i  =  step i / (R S)  |  output i / S % R  |  column i % S of the step,   S columns a step
 *
 * 8-bit codes take a signed byte each. Of shorter codes, a byte holds some that are far apart, so
 * that a shift and a mask of a vector give consecutive codes:
 *
 *   4 bits  16 R bytes   code i is nibble i / 16R of byte i % 16R
 *   2 bits   8 R bytes   code i is bits 2 k, 2 k + 1 of byte i % 8R, k = i / 8R
 *   1 bit    4 R bytes   code i is bit i / 4R of byte i % 4R
 *
 *   type   head                     factors                       codes            zero
 *   Q8_0                            d[R] f16                      8 bits              0
 *   Q4_0                            d[R] f16                      4 bits              8
 *   Q4_1                            d[R] m[R] f16                 4 bits              0
 *   Q5_0                            d[R] f16                      4 bits, 1 bit      16
 *   Q5_1                            d[R] m[R] f16                 4 bits, 1 bit       0
 *   Q2_K   d[R] dmin[R] f16         scale[2][R] min[2][R] u8, 16 columns each  4 bits  0
 *   Q4_K   d[R] dmin[R] f16         scale[R] min[R] u8            4 bits              0
 *   Q5_K   d[R] dmin[R] f16         scale[R] min[R] u8            4 bits, 1 bit       0
 *   Q6_K   d[R] f16                 scale[2][R] i8, 16 columns each  4 bits, 2 bits  32
 *
 * Other types are packed as one of these (sp_pack_as): Q3_K as Q6_K, exactly; IQ4_NL as Q8_0, exactly; IQ4_XS as Q8_0,
 * whose d is rounded to f16; MXFP4 as Q8_0, exactly from 2^-24 on.
 *
 * Sizes equal those of the file, except Q4_K (+2.8 %) and Q5_K (+2.3 %), whose six-bit factors take
 * a byte each, and Q2_K (+95 %), Q3_K (+91 %), IQ4_NL, IQ4_XS and MXFP4 (+89 to +100 %), whose codes are widened. */
#ifndef SP_COMPUTE_KERNEL_PACK_H
#define SP_COMPUTE_KERNEL_PACK_H

#include "compute/kernels.h"

#define SP_PACK_OUTPUTS 32 /* largest R */

typedef struct sp_pack_form {
    int outputs; /* R: 16 or 32 */
    int step;    /* S: 2, 4 or 8 */
} sp_pack_form;

/* Offsets within a group, and sizes, in bytes. */
typedef struct sp_pack_layout {
    size_t head;      /* before every eight groups */
    size_t low, high; /* codes: the low 8 or 4 bits, and the 1 or 2 bits above them */
    size_t group;     /* factors and codes */
} sp_pack_layout;

/* sp_pack_as -- the type in whose layout a type is packed. */
static inline sp_dtype sp_pack_as(sp_dtype type)
{
    if (type == SP_Q3_K) return SP_Q6_K;
    return type == SP_IQ4_NL || type == SP_IQ4_XS || type == SP_MXFP4 ? SP_Q8_0 : type;
}

/* sp_pack_layout_of -- false for types that are not packed. Inline, so that kernels evaluate it at
 * compile time. */
static inline bool sp_pack_layout_of(sp_dtype type, size_t R, sp_pack_layout *out)
{
    size_t head = 0, factors, low = 16 * R, high = 0;
    switch (type) {
    case SP_Q8_0:
        factors = 2 * R, low = 32 * R;
        break;
    case SP_Q4_0:
        factors = 2 * R;
        break;
    case SP_Q4_1:
        factors = 4 * R;
        break;
    case SP_Q5_0:
        factors = 2 * R, high = 4 * R;
        break;
    case SP_Q5_1:
        factors = 4 * R, high = 4 * R;
        break;
    case SP_Q2_K:
        head = 4 * R, factors = 4 * R;
        break;
    case SP_Q4_K:
        head = 4 * R, factors = 2 * R;
        break;
    case SP_Q5_K:
        head = 4 * R, factors = 2 * R, high = 4 * R;
        break;
    case SP_Q6_K:
        head = 2 * R, factors = 2 * R, high = 8 * R;
        break;
    default:
        return false;
    }
    *out = (sp_pack_layout){head, factors, factors + low, factors + low + high};
    return true;
}

/* sp_pack_panel_bytes -- the size of a panel of n_groups groups; K types: a multiple of eight. */
static inline size_t sp_pack_panel_bytes(const sp_pack_layout *l, int64_t n_groups)
{
    return (size_t)n_groups * l->group + (size_t)(n_groups / 8) * l->head;
}

/* sp_pack_floats -- F32, F16, BF16: the columns of a panel one after the other, R weights each. The
 * size equals that of the file plus the padding of the last panel. */
size_t sp_pack_float_bytes(const sp_mat *w, int R);
void sp_pack_floats(const sp_pack_args *a, int R, int part, int n_parts);

/* sp_pack_tiles -- F16 and BF16 as the tiles of bf16 that AMX multiplies; n_cols a multiple of 32. For each panel of
 * 32 rows, group of 32 columns and half of the panel a tile of 1 KB:
 *
 *   pair of columns 0 .. 15  |  row 0 .. 15  |  column 0, 1 of the pair
 *
 * F16 is rounded, to nearest even. The size equals that of the file plus the padding of the last panel. */
size_t sp_pack_tiles_bytes(const sp_mat *w);
void sp_pack_tiles(const sp_pack_args *a, int part, int n_parts);

size_t sp_pack_bytes(const sp_mat *w, sp_pack_form f);
void sp_pack(const sp_pack_args *a, sp_pack_form f, int part, int n_parts);

#endif
