/* table.h -- the sizes of an object's groups of layers, if they vary; stored before the header.
 *
 *   offset  size
 *   0       4     "SPT1"
 *   4       4     number of groups
 *   8       4     bytes of the first group ... */
#ifndef SP_STORE_REMOTE_S3_TABLE_H
#define SP_STORE_REMOTE_S3_TABLE_H

#include "store/remote/link.h"

/* sp_s3_table_bytes -- 0: groups have the sizes of the shape, and there is no table. */
size_t sp_s3_table_bytes(const sp_remote_shape *s);
/* sp_s3_most_bytes -- of a group. */
uint64_t sp_s3_most_bytes(const sp_remote_shape *s, int group);

/* sp_s3_write_table -- sizes [n_groups]; to [sp_s3_table_bytes]. */
void sp_s3_write_table(const sp_remote_shape *s, const uint32_t *sizes, uint8_t *to);
/* sp_s3_read_table -- from [sp_s3_table_bytes]; out [n_groups], none larger than the shape has them. Errors:
 * SP_E_FORMAT. */
sp_err sp_s3_read_table(const sp_remote_shape *s, const uint8_t *from, uint32_t *out) SP_MUST_CHECK;

#endif
