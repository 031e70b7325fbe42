/* queue.h -- moves the request that starts next to the front of the queue (serve/queue/order.h).
 *
 * The queue is ordered from oldest to newest, except for the front request: once it has looked for
 * copies it holds pins, so it stays in front until it starts. Only the SP_QUEUE_LOOK oldest are compared, and
 * at most SP_QUEUE_FRESH look-ups are repeated for one choice, so a choice costs the same whether
 * 300 requests wait or 30,000.
 *
 * A request is deferred while the next step computes a copy that it would compute, too: the same
 * beginning, or, for policies that find chunks at any position, the same chunk. It starts after that
 * step, and finds the copy.
 */
#ifndef SP_SERVE_QUEUE_H
#define SP_SERVE_QUEUE_H

#include "serve/queue/order.h"
#include "serve/request/request.h"

enum { SP_QUEUE_LOOK = 256, SP_QUEUE_FRESH = 32, SP_QUEUE_DEFER = 16, SP_QUEUE_AHEAD = 64, SP_ORDER_WINDOW = 32 };

/* sp_queue_choose -- returns whether a request starts now, and moves it to the front. Pre: the queue is not empty. */
bool sp_queue_choose(sp_context *c);
/* sp_queue_preview -- the waiting requests in the order in which they will start, as far as is known now: the first
 * SP_QUEUE_AHEAD by the order's rules, the others by arrival; out [SP_QUEUE_LOOK]. Returns how many.
 * Cost: O(SP_QUEUE_AHEAD SP_QUEUE_LOOK). */
int sp_queue_preview(const sp_context *c, sp_request **out);
/* sp_queue_enter -- appends a request to the queue. */
void sp_queue_enter(sp_request *r);
/* sp_queue_expire -- finishes canceled requests and those that have waited too long. Costs nothing if there are
 * none. */
void sp_queue_expire(sp_context *c);

#endif
