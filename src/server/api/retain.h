/* retain.h -- cache_control {"type": "ephemeral", "ttl": "5m"}: for that long, what is cached of a
 * prompt leaves memory after other copies. It may be in the body or in a part of a message's content. Marks on system
 * messages alone keep the first segment; others keep the whole prompt. */
#ifndef SP_SERVER_API_RETAIN_H
#define SP_SERVER_API_RETAIN_H

#include "server/api/task.h"

/* srv_retain_read -- sets retain_ms and n_retain; errors are in *f. */
void srv_retain_read(srv_task *t, srv_fields *f);

#endif
