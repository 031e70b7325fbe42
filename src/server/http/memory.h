/* memory.h -- detects failed allocations inside jansson, which ignores some of them: a text loses its end, an object a
 * member, and a parser that cannot store a character continues with the next. Once an allocation has failed, all
 * later ones of the request fail, too, so that no incomplete data is used, and the reply is 503.
 * Thread: a request belongs to its connection's thread; other threads record nothing. */
#ifndef SP_SERVER_HTTP_MEMORY_H
#define SP_SERVER_HTTP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* srv_memory_open -- before jansson is used in threads: jansson allocates with `allocate`, and frees with free. */
void srv_memory_open(void *(*allocate)(size_t));
/* srv_memory_begin, srv_memory_end -- of a request, on its thread. */
void srv_memory_begin(void);
void srv_memory_end(void);
/* srv_memory_lost -- an allocation outside jansson has failed, and the request cannot be read or answered. */
void srv_memory_lost(void);
/* srv_memory_failed -- whether an allocation of the current request has failed. */
bool srv_memory_failed(void);

#endif
