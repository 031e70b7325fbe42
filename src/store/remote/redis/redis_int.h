/* redis_int.h -- the servers of a cluster, and who has which slot. */
#ifndef SP_STORE_REMOTE_REDIS_REDIS_INT_H
#define SP_STORE_REMOTE_REDIS_REDIS_INT_H

#include <poll.h>

#include "store/remote/redis/node.h"
#include "store/remote/redis/redis.h"
#include "store/remote/redis/slots.h"

enum { SP_NO_NODE = UINT16_MAX, SP_MOST_HOPS = 5 };

struct sp_redis {
    size_t n_named; /* nodes [0, n_named) are those of the URL, which are kept */
    size_t alone;   /* without a cluster: the node that has answered */
    int64_t timeout_us;
    sp_redis_known *others; /* borrowed; may be NULL */
    bool known, cluster;           /* known: it has answered what it is */
    bool stale;                    /* who has which slot may have changed */
    int64_t asked_us;              /* when that was asked last */
    SP_VEC(sp_redis_node *) nodes;
    SP_VEC(struct pollfd) polls;   /* of the open ones; room for all */
    uint16_t owner[SP_SLOTS];      /* index of nodes; SP_NO_NODE */
    uint16_t tags[SP_SLOT_PARTS];
    size_t turn;        /* node that is looked at first */
    sp_redis_node *ear; /* that has the subscription; NULL: none */
    int64_t pinged_us;  /* it has not answered since; 0: it was not asked */
};

/* -- redis.c ---------------------------------------------------------------------------------------- */

/* sp_redis_push -- a command to one node. Errors: those of sp_node_push. */
sp_err sp_redis_push(sp_redis_node *n, const sp_redis_command *c, uint32_t id, int slot,
                     sp_redis_aim aim) SP_MUST_CHECK;
/* sp_redis_ask_node -- one command of which nothing else is outstanding. Errors: those of sp_redis_answer. */
sp_err sp_redis_ask_node(sp_redis *r, sp_redis_node *n, const sp_redis_command *c, redisReply **out) SP_MUST_CHECK;
/* sp_redis_is_idle -- no command waits anywhere. */
bool sp_redis_is_idle(const sp_redis *r);
/* sp_redis_wait -- until some node has moved, us at most. */
void sp_redis_wait(sp_redis *r, int64_t us);

/* -- cluster.c -------------------------------------------------------------------------------------- */

/* sp_cluster_add -- a node, or the one that has this address; *index is that of r->nodes. Errors: SP_E_NOMEM. */
sp_err sp_cluster_add(sp_redis *r, const sp_redis_address *a, uint16_t *index) SP_MUST_CHECK;
/* sp_cluster_learn -- asks the servers who has which slot. Errors: SP_E_IO: none answers, or it refuses. */
sp_err sp_cluster_learn(sp_redis *r) SP_MUST_CHECK;
/* sp_cluster_node_of -- that has the slot; of one that nobody is known to have, and -1, any. */
sp_redis_node *sp_cluster_node_of(sp_redis *r, int slot);

/* sp_cluster_has -- the node has slots. */
bool sp_cluster_has(const sp_redis *r, const sp_redis_node *n);
/* sp_cluster_redirect -- what becomes of a command that `from` refused with this error: true: it was sent on, and its
 * text is no longer the caller's. */
bool sp_cluster_redirect(sp_redis *r, const sp_redis_node *from, const sp_redis_pending *p, const char *error);

#endif
