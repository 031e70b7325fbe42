/* posts.h -- what tiers have done, on its way to the engine thread.
 *
 *   engine thread   begin ---> a tier works ---> end (its thread) ---> poll, wait_for: done
 *
 * `done` is called on the engine thread and gives the post up. Nothing here waits without a limit. */
#ifndef SP_SERVE_POSTS_H
#define SP_SERVE_POSTS_H

#include "base/err.h"

typedef struct sp_posts sp_posts;
typedef struct sp_post sp_post;

struct sp_post {
    void (*done)(sp_post *post);
    sp_err err;       /* of what it tells of, set before end; the engine thread reads it in done */
    char detail[256]; /* its explanation */
    sp_post *next;
};

sp_err sp_posts_create(sp_posts **out) SP_MUST_CHECK;
/* sp_posts_destroy -- Pre: nothing is under way. NULL is fine. */
void sp_posts_destroy(sp_posts *p);

/* sp_posts_end -- what the post tells of is over; once for each begin, before or after it. Thread: any. */
void sp_posts_end(sp_posts *p, sp_post *post, sp_err err);
/* sp_posts_poke -- something else has happened that the engine thread waits for. Thread: any. */
void sp_posts_poke(sp_posts *p);

/* -- engine thread -------------------------------------------------------------------------- */

/* sp_posts_begin -- one more is under way. */
void sp_posts_begin(sp_posts *p);
/* sp_posts_poll -- calls `done` of those that have ended. */
void sp_posts_poll(sp_posts *p);
/* sp_posts_wait_for -- until one has ended, sp_posts_poke was called since the last wait, or `us` have
 * passed; then polls. */
void sp_posts_wait_for(sp_posts *p, int64_t us);
/* sp_posts_busy -- some are under way. */
bool sp_posts_busy(const sp_posts *p);

#endif
