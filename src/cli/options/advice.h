/* advice.h -- options that have no effect, given the others. */
#ifndef SP_CLI_ADVICE_H
#define SP_CLI_ADVICE_H

#include "cli/options/model_options.h"

typedef struct advice {
    char ignored[128]; /* by the reuse policy: "--recompute, --alpha"; "" when there are none */
    char idle[400];    /* because another option is missing: "--host-evict without --host-memory; ..." */
    const char *policy;
} advice;

/* advice_of -- after opt_parse and before model_options_open, which fills in defaults. */
advice advice_of(const model_options *m);
/* advice_print -- a line on standard error for each kind. */
void advice_print(const advice *a);

#endif
