/* advice.h -- options that the reuse policy does not use. */
#ifndef SP_CLI_ADVICE_H
#define SP_CLI_ADVICE_H

#include "cli/model_options.h"

typedef struct advice {
    char ignored[128]; /* "--recompute, --alpha"; "" when there are none */
    const char *policy;
} advice;

/* advice_of -- after opt_parse and before model_options_open, which fills in defaults. */
advice advice_of(const model_options *m);
/* advice_print -- a line on standard error for what is ignored. */
void advice_print(const advice *a);

#endif
