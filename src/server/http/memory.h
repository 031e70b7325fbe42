/* memory.h -- notes allocations that fail inside jansson, which ignores some of them: a text loses its end, an object
 * a member, and a parser that cannot keep a character tries again at the next. Once one has failed, all others of the
 * request fail, too, without a call, so that nothing is made of what is left, and the reply is 503.
 * Thread: a request is of one thread, its connection's; other threads note nothing. */
#ifndef SP_SERVER_HTTP_MEMORY_H
#define SP_SERVER_HTTP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* srv_memory_open -- before jansson is used in threads: its memory is `allocate`'s, and free is its opposite. */
void srv_memory_open(void *(*allocate)(size_t));
/* srv_memory_begin, srv_memory_end -- of a request, on its thread. */
void srv_memory_begin(void);
void srv_memory_end(void);
/* srv_memory_lost -- an allocation outside jansson has failed, and the request cannot be read or answered. */
void srv_memory_lost(void);
/* srv_memory_failed -- whether an allocation of the request under way has failed. */
bool srv_memory_failed(void);

#endif
