/* node.h -- a non-blocking connection to one Redis or Valkey server: commands are queued and sent together, replies
 * arrive in order.
 *
 *   closed ---> open (login sent) ---> closed after a failure: nothing is sent before again_us
 *                 ^                         |
 *                 +---- on trial: only a PING, which nobody waits for -----+
 *
 * Invariants
 *  I1  each pushed command is popped once, with its reply or after a failure.
 *  I2  while a command waits, the server sends or takes a byte within the time-out, or the node fails. */
#ifndef SP_STORE_REMOTE_REDIS_NODE_H
#define SP_STORE_REMOTE_REDIS_NODE_H

#include <hiredis/hiredis.h>

#include "base/mem.h"
#include "store/remote/redis/address.h"

/* What a reply is for. */
typedef enum sp_redis_aim {
    SP_AIM_ANSWER, /* the caller */
    SP_AIM_LOGIN,  /* for nobody, but an error ends the connection */
    SP_AIM_NONE,
} sp_redis_aim;

/* A command that waits for its reply. */
typedef struct sp_redis_pending {
    char *text; /* the bytes to send; redisFreeCommand */
    size_t n;
    uint32_t id; /* for the caller */
    int slot;    /* of its key; -1: any server will do */
    int hops;    /* servers that have redirected it */
    sp_redis_aim aim;
} sp_redis_pending;

typedef struct sp_redis_node {
    sp_redis_address address;
    redisContext *c;                /* NULL: closed */
    SP_VEC(sp_redis_pending) queue; /* [first, n) wait; c NULL: they have failed */
    size_t first;
    size_t sent; /* bytes of c->obuf */
    int64_t timeout_us;
    int64_t moved_us;           /* I2: last byte, or first command */
    int64_t heard_us;           /* last byte that came */
    int64_t pause_us, again_us; /* after a failure; the pause doubles each time */
    bool waits;                 /* until the first connection: a host may have several addresses */
    bool is_on_trial;
    sp_err err;                 /* of the failure */
    char why[200];
} sp_redis_node;

/* sp_node_new -- closed. NULL: out of memory. */
sp_redis_node *sp_node_new(const sp_redis_address *a, int64_t timeout_us);
void sp_node_free(sp_redis_node *n);

/* sp_node_push -- opens the connection if it is closed. Errors: SP_E_IO (it failed and has not passed its trial),
 * SP_E_NOMEM. Owns: p->text, if it succeeds. */
sp_err sp_node_push(sp_redis_node *n, const sp_redis_pending *p) SP_MUST_CHECK;
/* sp_node_pop -- the oldest command, if its reply has arrived or the node has failed; then *reply is NULL and n->err
 * the reason. Owns: out->text, *reply. */
bool sp_node_pop(sp_redis_node *n, sp_redis_pending *out, redisReply **reply);

static inline size_t sp_node_n_waiting(const sp_redis_node *n)
{
    return n->queue.n - n->first;
}

/* sp_node_is_lost -- whether it has failed and not answered since. */
static inline bool sp_node_is_lost(const sp_redis_node *n)
{
    return n->pause_us > 0;
}

/* sp_node_fail -- closes the connection after the failure that sp_error_detail describes, and does not contact the
 * server for a while. */
void sp_node_fail(sp_redis_node *n, sp_err err);
/* sp_node_close -- without a pause. Pre: nothing waits. */
void sp_node_close(sp_redis_node *n);

/* sp_node_move -- sends and receives as much as possible without waiting. `readable`: the socket has bytes or was
 * closed. */
void sp_node_move(sp_redis_node *n, bool readable);
/* sp_node_wants_out -- whether it has bytes to send. */
bool sp_node_wants_out(const sp_redis_node *n);

#endif
