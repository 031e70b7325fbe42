#include "server/api/side.h"

#include <stdlib.h>
#include <time.h>

#include "server/http/exchange.h"

enum {
    REST = 10, /* times what a step took */
    TICK_MS = 5
};

struct srv_side {
    srv_server *s;
    struct MHD_Connection *connection; /* has no time limit meanwhile */
    atomic_bool left;
    int64_t since_us; /* the step began; 0: the first has not */
};

static void leave(void *of)
{
    srv_side *side = of;
    side->left = true;
}

/* keep -- srv_side_end has freed it. */
static void keep(void *of)
{
    (void)of;
}

srv_side *srv_side_begin(const srv_call *call)
{
    srv_side *side = calloc(1, sizeof *side);
    if (!side) return NULL;
    side->s = call->s;
    side->connection = call->connection;
    MHD_set_connection_option(call->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    atomic_fetch_add(&call->s->n_active, 1);
    srv_exchange_watch(call, (srv_running){.of = side, .leave = leave, .end = keep});
    return side;
}

/* book -- the end of the rest after a step that took us, 0 for none: after the rests of other calls. */
static int64_t book(srv_server *s, int64_t us)
{
    const int64_t now = srv_now_us();
    int64_t then = s->side_until_us, until;
    do
        until = (then > now ? then : now) + REST * us;
    while (!atomic_compare_exchange_weak(&s->side_until_us, &then, until));
    return until;
}

void srv_side_end(const srv_call *call, srv_side *side)
{
    if (!side) return;
    srv_exchange_watch(call, (srv_running){0});
    if (side->since_us && sp_context_n_decoding(side->s->ctx)) book(side->s, srv_now_us() - side->since_us);
    atomic_fetch_sub(&side->s->n_active, 1);
    MHD_set_connection_option(side->connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)side->s->o.stall_seconds);
    free(side);
}

bool srv_side_left(srv_side *side)
{
    return side->left;
}

bool srv_side_stop(void *of)
{
    srv_side *side = of;
    srv_server *s = side->s;
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
    const int64_t took = side->since_us ? srv_now_us() - side->since_us : 0;
    const int64_t until = sp_context_n_decoding(s->ctx) ? book(s, took) : 0;
    while (!side->left && srv_now_us() < until && sp_context_n_decoding(s->ctx)) nanosleep(&tick, NULL);
    side->since_us = srv_now_us();
    return side->left;
}
