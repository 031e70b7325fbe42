/* idle.h -- work for collections while the server is idle, on one thread: computes missing vectors, then copies of
 * passages, the most retrieved first.
 *
 *   round   the passages of all used collections, most retrieved first, as many as fit into a share of the KV
 *           memory (--idle-copies); it begins when the server starts, after a retrieval or an upload, and again
 *           after a request interrupted it
 *
 * A request stops it at the next layer. */
#ifndef SP_SERVER_DOCUMENTS_IDLE_H
#define SP_SERVER_DOCUMENTS_IDLE_H

#include "server/documents/collections.h"

typedef struct srv_idle srv_idle;

/* srv_idle_open -- after documents and collections. False after an error message. */
bool srv_idle_open(srv_server *s);
/* srv_idle_close -- before documents and collections are closed. */
void srv_idle_close(srv_server *s);

/* srv_idle_note -- the caller uses a collection, or has changed it. */
void srv_idle_note(const srv_call *call, const srv_found *c);

/* For the metrics: */
typedef struct srv_idle_report {
    int64_t n_planned, n_done;              /* passages of the last round; those of them with a copy */
    int64_t n_computed, n_given_up, busy_us; /* since the start: copies computed; copies that a request stopped */
} srv_idle_report;

srv_idle_report srv_idle_describe(const srv_server *s);
/* srv_idle_of -- of the last round, for a collection of the caller. */
srv_idle_report srv_idle_of(const srv_call *call, const srv_found *c);

#endif
