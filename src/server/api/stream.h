/* stream.h -- an answer as server-sent events:
 *
 *   data: {... "delta": {"role": "assistant"}}      of each choice (chat)
 *   data: {... "delta": {"content": "..."}}         as text arrives
 *   : ping                                          when nothing arrives for a while
 *   data: {... "finish_reason": "stop"}             of each choice
 *   data: {... "choices": [], "usage": {...}}       with stream_options.include_usage
 *   data: [DONE]
 *
 * Timings and the account are in the last event that has a finish_reason. */
#ifndef SP_SERVER_API_STREAM_H
#define SP_SERVER_API_STREAM_H

#include "server/api/job.h"

/* srv_stream_read -- MHD's content reader over a job; it blocks until there is an event. */
ssize_t srv_stream_read(void *job, uint64_t at, char *out, size_t size);

/* srv_stream_text -- adds bytes. Called with the lock held; false: out of memory. */
bool srv_stream_text(srv_job *j, const char *s);
/* srv_stream_event -- adds an event to what is to be sent; name NULL: without one. o is consumed.
 * Called with the lock held; false: out of memory. */
bool srv_stream_event(srv_job *j, const char *name, json_t *o);

#endif
