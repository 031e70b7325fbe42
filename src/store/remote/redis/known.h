/* known.h -- the servers of a cluster, shared by the connections of a tier: a new connection finds the cluster even if
 * the server of the URL is lost. Thread: any. */
#ifndef SP_STORE_REMOTE_REDIS_KNOWN_H
#define SP_STORE_REMOTE_REDIS_KNOWN_H

#include "store/remote/redis/address.h"

typedef struct sp_redis_known sp_redis_known;

/* sp_redis_known_new -- an empty list. NULL: out of memory. */
sp_redis_known *sp_redis_known_new(void);
void sp_redis_known_free(sp_redis_known *k);

/* sp_redis_known_set -- replaces the list; keeps the old one if memory is exhausted. */
void sp_redis_known_set(sp_redis_known *k, const sp_redis_address *const *all, size_t n);
/* sp_redis_known_get -- *out is the i-th, the rest of its fields untouched; false: there is none. */
bool sp_redis_known_get(sp_redis_known *k, size_t i, sp_redis_address *out);

#endif
