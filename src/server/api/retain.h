/* retain.h -- cache_control {"type": "ephemeral", "ttl": "5m"}: for that long, copies of the prompt are evicted after
 * all others. It may be in the body or in a part of a message's content. If only system messages have it, it covers
 * the first segment; otherwise the whole prompt. */
#ifndef SP_SERVER_API_RETAIN_H
#define SP_SERVER_API_RETAIN_H

#include "server/body/task.h"

/* srv_retain_read -- sets retain_ms and n_retain; errors are in *f. */
void srv_retain_read(srv_task *t, srv_fields *f);

#endif
