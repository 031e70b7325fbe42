/* live.h -- a long command as it is watched: a line that is drawn again and again, lines of the log
 * above it, and Ctrl-C as a question that the command answers where it can stop. */
#ifndef SP_CMD_LIVE_H
#define SP_CMD_LIVE_H

#include <stdbool.h>

#include "spolia.h"

typedef struct live {
    double started, drawn; /* seconds */
    bool on_terminal;
} live;

/* live_begin -- from now on lines of the log up to `level` go above the drawn one. */
void live_begin(live *l, bool quiet, sp_log_level level);
void live_end(live *l);
/* live_draw -- shows a line, unless the last is a moment old or nobody looks. */
void live_draw(live *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
double live_seconds(const live *l); /* since live_begin */
bool live_interrupted(void);

#endif
