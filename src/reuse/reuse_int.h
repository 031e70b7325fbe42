/* reuse_int.h -- the table of policies. */
#ifndef SP_REUSE_REUSE_INT_H
#define SP_REUSE_REUSE_INT_H

#include "reuse/reuse.h"

extern const sp_reuse_policy sp_reuse_off;
extern const sp_reuse_policy sp_reuse_prefix;

#endif
