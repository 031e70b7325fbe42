/* clock.h -- monotonic time. Policies never read it: time is passed in. */
#ifndef SP_BASE_CLOCK_H
#define SP_BASE_CLOCK_H

#include <stdint.h>

/* sp_clock_us -- microseconds since some fixed moment; never goes back. */
int64_t sp_clock_us(void);

#endif
