/* precompute.h -- `spolia index --precompute`: each chunk of an index fused with chunks like it. */
#ifndef SP_CMD_PRECOMPUTE_H
#define SP_CMD_PRECOMPUTE_H

#include "cmd/options.h"

typedef struct precompute_options {
    model_options model;
    bool wanted;
    int n_similar;
    const char *similar, *system;
    opt table[8];
} precompute_options;

void precompute_init(precompute_options *o);
/* precompute_check -- false after explaining what is wrong. */
bool precompute_check(const precompute_options *o);
/* precompute -- brings the store of an index up to date; returns the exit code. */
int precompute(precompute_options *o, const char *index_path, bool quiet, bool as_json);

#endif
