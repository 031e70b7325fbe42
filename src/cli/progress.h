/* progress.h -- progress of a long command: one line on the terminal that is redrawn,
 * log lines above it, and Ctrl-C or SIGTERM as a flag that the command checks where it can stop. */
#ifndef SP_CLI_PROGRESS_H
#define SP_CLI_PROGRESS_H

#include <stdbool.h>

#include "spolia.h"

typedef struct progress {
    double started, drawn; /* seconds */
    bool on_terminal;
} progress;

/* progress_begin -- from now on log lines up to `level` appear above the drawn line, and Ctrl-C and
 * SIGTERM set a flag. */
void progress_begin(progress *p, bool quiet, sp_log_level level);
void progress_end(progress *p);
/* progress_draw -- shows a line. Rate-limited; does nothing without a terminal. */
void progress_draw(progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* progress_is_due -- progress_draw would draw now. */
bool progress_is_due(const progress *p);
double progress_seconds(const progress *p); /* since progress_begin */
/* progress_interrupted -- whether either came. */
bool progress_interrupted(void);

#endif
