/* notice.h -- names of copies in the keys of the remote tier, and their notices in its index and its news. */
#ifndef SP_STORE_REMOTE_NOTICE_H
#define SP_STORE_REMOTE_NOTICE_H

#include "store/tier.h"

enum { SP_REMOTE_NAME = 96, SP_REMOTE_NOTICE = 128 }; /* bytes of a name and of a notice, terminated */
enum { SP_REMOTE_VARIES = 0x80 }; /* one of the facts: its groups may be smaller than stride implies */

/* The entry of a copy in the index. */
typedef struct sp_remote_notice {
    sp_tier_key key;
    int32_t n, n_layers;
    uint64_t stride; /* bytes of a layer and its notes */
    unsigned facts;
    float cost_us;
    uint64_t head_bytes; /* of the header as it is stored; 0: unknown */
    int64_t expires_s;   /* since 1970; 0: never */
} sp_remote_notice;

void sp_remote_name(const sp_tier_key *k, char out[SP_REMOTE_NAME]);
/* sp_remote_read_name -- false: not a name. */
bool sp_remote_read_name(const char *name, sp_tier_key *out);

/* sp_remote_per_group -- layers of one value, of `stride` bytes each with their notes. */
int sp_remote_per_group(uint64_t stride);

void sp_remote_write_notice(const sp_remote_notice *n, char out[SP_REMOTE_NOTICE]);
/* sp_remote_read_notice -- false: not a notice. */
bool sp_remote_read_notice(const char *name, const char *says, sp_remote_notice *out);

#endif
