/* precompute.h -- `spolia index --precompute`: a fused copy of each chunk of an index. */
#ifndef SP_CMD_PRECOMPUTE_H
#define SP_CMD_PRECOMPUTE_H

#include "cli/model_options.h"

typedef struct precompute_options {
    model_options model;
    bool wanted;
    int n_similar;
    const char *similar, *system;
    opt table[8];
} precompute_options;

void precompute_init(precompute_options *o);
/* precompute_check -- false after an error message. */
bool precompute_check(const precompute_options *o);
/* precompute -- updates the store of an index; returns the exit code. */
int precompute(precompute_options *o, const char *index_path, bool quiet, bool as_json);

#endif
