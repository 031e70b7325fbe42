/* kv_convert.h -- blocks of keys and values from one type to another. */
#ifndef SP_COMPUTE_KV_CONVERT_H
#define SP_COMPUTE_KV_CONVERT_H

#include "compute/ops.h"

/* sp_kv_convert -- blocks 0 .. n_blocks-1 of a layer, token by token through floats: exact where the type
 * of `to` holds what `from` has. Pre: equal heads; `to` is not `from`. Cost: about 1 ns an element. */
void sp_kv_convert(const sp_kv_view *from, const sp_kv_view *to, int64_t n_blocks);

#endif
