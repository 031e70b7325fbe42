/* log.h -- the library prints nothing itself: lines go to the sink that the program sets. */
#ifndef SP_BASE_LOG_H
#define SP_BASE_LOG_H

#include "base/err.h"

/* sp_log -- one line without newline. Cheap when the level is off. Thread: any; set the sink
 * first. */
void sp_log(sp_log_level level, const char *fmt, ...) SP_PRINTF(2, 3);

#endif
