/* exchange.h -- HTTP by libmicrohttpd, a thread for each connection.
 *
 *   accepted -> READING --(the whole request is here)--> ANSWERING --(the reply is sent)--> READING ...
 *                  |                                         |
 *                  | read_seconds have passed                | the client hangs up
 *                  v                                         v
 *               shut down by the watcher                  the watcher calls srv_running.leave
 *
 * libmicrohttpd limits the number of connections and the time between two bytes; the watcher, one
 * thread, limits the time of a whole request (a client that sends a byte now and then) and notices
 * clients that hang up while their answer is computed. */
#ifndef SP_SERVER_HTTP_EXCHANGE_H
#define SP_SERVER_HTTP_EXCHANGE_H

#include <stdbool.h>

#include "server/http/call.h"

/* srv_exchanges_open -- listens; *port is the one in use. False after an error message. */
bool srv_exchanges_open(srv_server *s, int *port);
/* srv_exchanges_refuse -- accepts no further connections. */
void srv_exchanges_refuse(srv_exchanges *x);
/* srv_exchanges_cancel -- cancels all jobs. */
void srv_exchanges_cancel(srv_exchanges *x);
/* srv_exchange_watch -- the exchange owns r from here on; the watcher calls r.leave when the client hangs up. */
void srv_exchange_watch(const srv_call *call, srv_running r);
/* srv_exchanges_close -- ends all connections; waits for their threads. NULL is allowed. */
void srv_exchanges_close(srv_exchanges *x);

#endif
