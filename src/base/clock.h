/* clock.h -- monotonic time, and waits that use it. Policies never read it: time is passed in. */
#ifndef SP_BASE_CLOCK_H
#define SP_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* sp_clock_us -- microseconds since some fixed moment; never goes back. */
int64_t sp_clock_us(void);

/* sp_cond_init -- initializes a condition whose timed waits use this clock (sp_clock_after). */
void sp_cond_init(pthread_cond_t *c);
/* sp_clock_after -- the moment `us` from now; us is clamped to 0 .. a year. */
struct timespec sp_clock_after(int64_t us);

#endif
