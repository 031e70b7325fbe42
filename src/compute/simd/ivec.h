/* ivec.h -- one vector of integer sums for SP_VL outputs, and the products that each variant has.
 *
 *   words   x and weights int16: adds 2 columns to a sum
 *   bytes   x int8, weights unsigned (x86) or signed (ARM64). SP_DOT: one instruction adds 4 columns to a
 *           sum. Signed weights become w + DOT_OFFSET, and a sum starts with -DOT_OFFSET * sum of x
 *
 * x is one 32-bit word of a row, 2 or 4 columns, in all lanes.
 */
#ifndef SP_COMPUTE_SIMD_IVEC_H
#define SP_COMPUTE_SIMD_IVEC_H

#include "compute/simd/vec.h"

#ifndef SP_MMLA
#define SP_MMLA 0
#endif

#if SP_ARM64
#include "compute/arm64/bytes.h"
#else
#include "compute/x86/bytes.h"
#endif

#endif
