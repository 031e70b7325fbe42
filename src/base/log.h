/* log.h -- the library never prints: log lines go to the sink that the program sets. */
#ifndef SP_BASE_LOG_H
#define SP_BASE_LOG_H

#include "base/err.h"

/* sp_log -- logs one line, given without newline. Cheap when the level is disabled.
 * Thread: any, once the sink is set. */
void sp_log(sp_log_level level, const char *fmt, ...) SP_PRINTF(2, 3);

#endif
