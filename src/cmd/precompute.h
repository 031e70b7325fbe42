/* precompute.h -- `spolia precompute` and `spolia index --precompute`: a copy of each chunk of an index. */
#ifndef SP_CMD_PRECOMPUTE_H
#define SP_CMD_PRECOMPUTE_H

#include "cli/options/model_options.h"

typedef struct precompute_options {
    model_options model;
    int n_similar;
    const char *similar, *asked, *system, *shard;
    int part, n_parts; /* what `shard` says: 1 <= part <= n_parts */
    opt table[8];
} precompute_options;

void precompute_init(precompute_options *o);
/* precompute_check -- reads the options. Returns the exit code after an error message, which begins with the command's
 * name, or 0. */
int precompute_check(precompute_options *o, const char *command);
/* precompute -- updates the store of an index, or the remote tier; returns the exit code. */
int precompute(precompute_options *o, const char *index_path, bool quiet, bool as_json);

#endif
