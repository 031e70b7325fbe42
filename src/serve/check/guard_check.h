/* guard_check.h -- runs the guard's checks: repeats sampled prompts with full attention. */
#ifndef SP_SERVE_GUARD_CHECK_H
#define SP_SERVE_GUARD_CHECK_H

#include "serve/request/context.h"

/* sp_guard_step -- ends a finished check and begins the next one. Pre: the context is idle. */
void sp_guard_step(sp_context *c);
/* sp_guard_busy -- whether checks run or wait. */
bool sp_guard_busy(const sp_context *c);
/* sp_guard_stop -- ends a running check. */
void sp_guard_stop(sp_guard *g);

#endif
