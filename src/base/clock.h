/* clock.h -- monotonic time, and waiting by it. Policies never read it: time is passed in. */
#ifndef SP_BASE_CLOCK_H
#define SP_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* sp_clock_us -- microseconds since some fixed moment; never goes back. */
int64_t sp_clock_us(void);

/* sp_cond_init -- a condition whose timed waits end at a moment of this clock (sp_clock_after). */
void sp_cond_init(pthread_cond_t *c);
/* sp_clock_after -- the moment in us from now; more than a year is a year, less than nothing is now. */
struct timespec sp_clock_after(int64_t us);

#endif
