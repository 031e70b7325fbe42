/* driver.h -- the engine thread and its queue of commands.
 *
 *   any thread                            engine thread
 *   submit, cancel, destroy, ... ------>  commands, oldest first ------> a step ------> commands ...
 *   wait  <------------------------------ finished                        on_text, on_done
 *
 * A context belongs to the thread that calls it until sp_context_start. From then on it belongs to
 * the engine thread, and the functions of the public interface become commands. A command runs
 * between two steps, so nothing below serve/ needs a lock.
 *
 * Invariants
 *  I1  only the engine thread touches what a context owns, and unfinished requests.
 *  I2  `done` of a request is set once, under the lock, after its result is complete; from then on
 *      the request belongs to its owner again.
 *  I3  a caller that waits for its command gets its error and its detail.
 */
#ifndef SP_SERVE_DRIVER_H
#define SP_SERVE_DRIVER_H

#include "base/err.h"
#include "spolia.h"

typedef struct sp_driver sp_driver;

/* A command; returns an error for the caller that waits for it. */
typedef sp_err sp_command_fn(sp_context *c, void *arg);

/* sp_driver_call -- runs fn on the engine thread, between two steps, and returns its error; on the calling
 * thread if there is no engine thread or it is the caller. */
sp_err sp_driver_call(sp_context *c, sp_command_fn *fn, void *arg) SP_MUST_CHECK;

/* sp_driver_submit -- the request joins the queue: at the next step, or at once without an engine thread. */
void sp_driver_submit(sp_context *c, sp_request *r);
/* sp_driver_wake -- ends a wait for the tiers after a flag of a request has changed: the engine thread only sleeps
 * when all requests are finished. Thread: any. */
void sp_driver_wake(sp_context *c);
/* sp_driver_finished -- the result of r is complete. Thread: the context's. */
void sp_driver_finished(sp_context *c, sp_request *r);
/* sp_driver_is_done -- whether sp_driver_finished was called. Thread: any. */
bool sp_driver_is_done(sp_context *c, const sp_request *r);
/* sp_driver_runs -- whether an engine thread has been started. Thread: any. */
bool sp_driver_runs(const sp_context *c);

/* sp_driver_create -- does not start a thread. sp_driver_destroy -- stops it if one runs. */
sp_err sp_driver_create(sp_context *c, sp_driver **out) SP_MUST_CHECK;
void sp_driver_destroy(sp_driver *d);

#endif
