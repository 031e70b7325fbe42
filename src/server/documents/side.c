#include "server/documents/side.h"

#include <stdlib.h>
#include <time.h>

#include "server/http/exchange.h"

enum {
    REST = 10, /* times the duration of a step */
    TICK_MS = 5,
    STEP_US = 10000 /* about, while answers stream */
};

struct srv_side {
    srv_server *s;
    struct MHD_Connection *connection; /* has no time limit meanwhile */
    atomic_bool left;
    int64_t since_us; /* what is computed now began; 0: nothing has */
    int64_t until_us; /* the end of the rest under way; 0: none is */
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
    atomic_fetch_add(&call->s->counts.n_active, 1);
    srv_exchange_watch(call, (srv_running){.of = side, .leave = leave, .end = keep});
    return side;
}

/* book -- returns when the rest after a step of `us` ends, 0 for none: after the rests of other calls. */
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
    atomic_fetch_sub(&side->s->counts.n_active, 1);
    MHD_set_connection_option(side->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                              (unsigned)side->s->o.limits.stall_seconds);
    free(side);
}

bool srv_side_left(srv_side *side)
{
    return side->left;
}

/* has_rest -- whether to rest now, for what was computed since side->since_us: begins a rest if none is under way. */
static bool has_rest(srv_side *side)
{
    srv_server *s = side->s;
    const int64_t now = srv_now_us();
    const bool decodes = sp_context_n_decoding(s->ctx) > 0;
    if (!side->until_us && decodes) side->until_us = book(s, side->since_us ? now - side->since_us : 0);
    if (!side->left && decodes && now < side->until_us) return true;
    side->until_us = 0;
    side->since_us = now;
    return false;
}

static bool rests(void *of)
{
    return has_rest(of);
}

static bool stop(void *of)
{
    srv_side *side = of;
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000};
    while (has_rest(side)) nanosleep(&tick, NULL);
    side->since_us = srv_now_us();
    return side->left;
}

/* step_us -- it is this call's turn: the time it waited needs no rest. */
static int64_t step_us(void *of)
{
    srv_side *side = of;
    side->since_us = srv_now_us();
    return sp_context_n_decoding(side->s->ctx) ? STEP_US : 0;
}

sp_embed_opts srv_side_opts(srv_side *side)
{
    return (sp_embed_opts){.stop = stop, .step_us = step_us, .rests = rests, .user = side};
}
