/* repeats.h -- learns chunks that are not registered: a passage of a message that occurred in an earlier, different
 * message becomes a known text (cut.h), and so a segment with copies of its own.
 *
 *   first message    ### Use this: <s>AAAA</s> <s>BBBB</s> Who?
 *   second           ### Use this: <s>BBBB</s> <s>CCCC</s> When?     "<s>BBBB</s>" is known from here on
 *   third            ### Use this: <s>DDDD</s> <s>BBBB</s> Where?    its copy is reused
 *
 * The texts of the last messages are kept in memory, at most 8 MiB. Tenants do not share texts.
 * Thread: any. */
#ifndef SP_SERVE_REPEATS_H
#define SP_SERVE_REPEATS_H

#include "serve/prompt/cut.h"

#define SP_REPEAT_MIN_BYTES 256 /* shorter repeats are not learned */

typedef struct sp_repeats sp_repeats;

sp_err sp_repeats_create(sp_repeats **out) SP_MUST_CHECK;
void sp_repeats_destroy(sp_repeats *r);
/* sp_repeats_learn -- adds repeated passages of a text to k, and remembers the text. A text that was seen before as a
 * whole is an earlier turn, sent again, and teaches nothing. Returns the number of learned passages (0 if memory is
 * exhausted). Cost: O(n), and a look-up for every 32 bytes. */
int sp_repeats_learn(sp_repeats *r, sp_known *k, uint64_t tenant, const char *text, size_t n);
/* sp_repeats_forget -- overwrites and forgets the texts of a tenant. */
void sp_repeats_forget(sp_repeats *r, uint64_t tenant);

#endif
