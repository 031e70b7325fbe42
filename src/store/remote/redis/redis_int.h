/* redis_int.h -- the servers of a cluster, and the owner of each slot. */
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
    bool known, cluster;           /* known: it has answered whether it is a cluster */
    bool stale;                    /* the owners of slots may have changed */
    int64_t asked_us;              /* when they were last asked for */
    SP_VEC(sp_redis_node *) nodes;
    SP_VEC(struct pollfd) polls;   /* of the open ones; room for all */
    uint16_t owner[SP_SLOTS];      /* index of nodes; SP_NO_NODE */
    uint16_t tags[SP_SLOT_PARTS];
    size_t turn;        /* the node to look at first */
    sp_redis_node *ear; /* the node with the subscription; NULL: none */
    int64_t pinged_us;  /* when it was sent a PING that it has not answered; 0: none */
};

/* -- redis.c ---------------------------------------------------------------------------------------- */

/* sp_redis_push -- a command to one node. Errors: those of sp_node_push. */
sp_err sp_redis_push(sp_redis_node *n, const sp_redis_command *c, uint32_t id, int slot,
                     sp_redis_aim aim) SP_MUST_CHECK;
/* sp_redis_ask_node -- one command and its reply. Pre: the node has no outstanding command. Errors: those of
 * sp_redis_answer. */
sp_err sp_redis_ask_node(sp_redis *r, sp_redis_node *n, const sp_redis_command *c, redisReply **out) SP_MUST_CHECK;
/* sp_redis_is_idle -- no command waits anywhere. */
bool sp_redis_is_idle(const sp_redis *r);
/* sp_redis_wait -- waits until some node has sent or received, at most us. */
void sp_redis_wait(sp_redis *r, int64_t us);

/* -- cluster.c -------------------------------------------------------------------------------------- */

/* sp_cluster_add -- adds a node, or finds the one with this address; *index: in r->nodes. Errors: SP_E_NOMEM. */
sp_err sp_cluster_add(sp_redis *r, const sp_redis_address *a, uint16_t *index) SP_MUST_CHECK;
/* sp_cluster_learn -- asks the servers for the owners of slots. Errors: SP_E_IO: none answers, or it refuses. */
sp_err sp_cluster_learn(sp_redis *r) SP_MUST_CHECK;
/* sp_cluster_node_of -- the owner of the slot; any node if it is unknown or slot is -1. */
sp_redis_node *sp_cluster_node_of(sp_redis *r, int slot);

/* sp_cluster_has -- whether the node owns slots. */
bool sp_cluster_has(const sp_redis *r, const sp_redis_node *n);
/* sp_cluster_redirect -- handles a command that `from` refused with this error. true: it was sent to another node,
 * which takes ownership of its text. */
bool sp_cluster_redirect(sp_redis *r, const sp_redis_node *from, const sp_redis_pending *p, const char *error);

#endif
