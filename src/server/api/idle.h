/* idle.h -- what the server does for collections while nobody asks, on one thread: vectors that are missing, then
 * copies of passages, those first that were retrieved most.
 *
 *   round   the passages of all collections that somebody uses, most retrieved first, as many as a share of the
 *           KV memory holds (--idle-copies); it begins when the server starts, when something was retrieved or
 *           uploaded, and again after a request interrupted it
 *
 * A request that comes stops it at the next layer. */
#ifndef SP_SERVER_API_IDLE_H
#define SP_SERVER_API_IDLE_H

#include "server/api/collections.h"

typedef struct srv_idle srv_idle;

/* srv_idle_open -- after documents and collections. False after an error message. */
bool srv_idle_open(srv_server *s);
/* srv_idle_close -- before them. */
void srv_idle_close(srv_server *s);

/* srv_idle_note -- the caller uses a collection, or has changed it. */
void srv_idle_note(const srv_call *call, const srv_found *c);

/* What has been done, for the metrics; of the last round where not said. */
typedef struct srv_idle_report {
    int64_t n_planned, n_done;              /* passages; done: with a copy */
    int64_t n_computed, n_given_up, busy_us; /* since the start: copies that were not there; that a request stopped */
} srv_idle_report;

srv_idle_report srv_idle_describe(const srv_server *s);
/* srv_idle_of -- of the last round, for a collection of the caller. */
srv_idle_report srv_idle_of(const srv_call *call, const srv_found *c);

#endif
