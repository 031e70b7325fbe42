/* posts.h -- completions of tier operations, handed to the engine thread.
 *
 *   engine thread   begin ---> a tier works ---> end (its thread) ---> poll, wait_for: done
 *
 * `done` is called on the engine thread and owns the post from then on. Nothing here waits without a limit. */
#ifndef SP_SERVE_POSTS_H
#define SP_SERVE_POSTS_H

#include "base/err.h"

typedef struct sp_posts sp_posts;
typedef struct sp_post sp_post;

struct sp_post {
    void (*done)(sp_post *post);
    sp_err err;       /* of the operation; set before end, read in done */
    char detail[256]; /* its explanation */
    sp_post *next;
};

sp_err sp_posts_create(sp_posts **out) SP_MUST_CHECK;
/* sp_posts_destroy -- Pre: nothing is under way. NULL is allowed. */
void sp_posts_destroy(sp_posts *p);

/* sp_posts_end -- the operation has ended. Once for each begin, before or after it. Thread: any. */
void sp_posts_end(sp_posts *p, sp_post *post, sp_err err);
/* sp_posts_poke -- wakes the engine thread for another reason. Thread: any. */
void sp_posts_poke(sp_posts *p);

/* -- engine thread -------------------------------------------------------------------------- */

/* sp_posts_begin -- one more operation is under way. */
void sp_posts_begin(sp_posts *p);
/* sp_posts_poll -- calls `done` for each operation that has ended. */
void sp_posts_poll(sp_posts *p);
/* sp_posts_wait_for -- waits until one ends, sp_posts_poke is called or `us` elapse; then polls. A poke since
 * the last wait counts. */
void sp_posts_wait_for(sp_posts *p, int64_t us);
/* sp_posts_busy -- operations are under way. */
bool sp_posts_busy(const sp_posts *p);

#endif
