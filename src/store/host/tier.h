/* tier.h -- the host tier: copies in the memory of this process, within a budget of bytes.
 *
 *   put   stores the header as a record has it, and each layer as it comes from the source, or packed
 *   get   verifies and unpacks layers: the sink gets what was put, or, for a packed layer, what
 *         unpacking yields; notes are never packed, and damaged notes count as damage of the copy
 *
 * Puts run on the thread that calls sp_tier_run; the device releases its blocks afterwards.
 * Submitted operations run on a thread of the tier, in order. A get keeps the memory that it reads, so
 * the copy may be dropped or replaced during it.
 *
 * Invariants
 *  I1  bytes_used is at most max_bytes.
 *  I2  a copy takes its header, its layers, their notes and COPY_BYTES; sp_host_tier_bytes predicts it. */
#ifndef SP_STORE_HOST_TIER_H
#define SP_STORE_HOST_TIER_H

#include "store/packing.h"
#include "store/tier.h"

typedef struct sp_host_tier_opts {
    int64_t max_bytes;
    const sp_kv_packing *packing; /* copied; NULL: layers are not packed */
    sp_tier_evict evict;            /* if a put does not fit */
} sp_host_tier_opts;

/* sp_host_tier_open -- Errors: SP_E_ARG (no budget), SP_E_NOMEM. */
sp_err sp_host_tier_open(const sp_host_tier_opts *o, sp_tier **out) SP_MUST_CHECK;
/* sp_host_tier_bytes -- what a copy takes: I2. Pre: a record that passes sp_record_check. */
int64_t sp_host_tier_bytes(sp_tier *t, const sp_record *r);

#endif
