/* bench_model.h -- a model whose speed is measured: what its tokens cost at least, and prompts of
 * random tokens behind contexts of wanted lengths.
 *
 * Request r has a text of its own, cut into segments at every depth that is measured; so all its
 * contexts are beginnings of the deepest one, and the cache keeps each with what it shares:
 *
 *     depths 512, 4096:   | 512 tokens | 3,584 tokens |      then the new tokens of a run
 */
#ifndef SP_CMD_BENCH_MODEL_H
#define SP_CMD_BENCH_MODEL_H

#include "cmd/bench.h"
#include "cmd/bench_machine.h"
#include "cmd/options.h"

typedef struct bench_model_options {
    opt_list models;
    model_options m; /* its table is not used */
    uint64_t seed;
    opt table[10];
} bench_model_options;

void bench_model_options_init(bench_model_options *o);
/* bench_model_options_check -- false after explaining. */
bool bench_model_options_check(const bench_model_options *o);

typedef struct bench_model {
    const char *path;
    sp_context *ctx;
    sp_context_info info;
    const bench_list *depths; /* borrowed; ascending */
    uint64_t random;
    bench_work token;    /* of each token of a prompt; no bytes */
    bench_work last;     /* besides, of each token whose logits are wanted */
    double weight_bytes; /* read in a step */
} bench_model;

/* bench_models_open -- all that are named, for so many requests at a time; *out [o->models.n]. NULL
 * after explaining. depths is sorted and freed of doubles. */
bench_model *bench_models_open(bench_model_options *o, int n_threads, const char *cpu,
                               int max_requests, bench_list *depths);
void bench_models_close(bench_model *models, int n);

/* bench_model_lacks -- what there is no room for, in words for speed_skip: a prompt of `fresh`
 * tokens behind each of n_requests contexts, and its answer. false: all fits. */
bool bench_model_lacks(const bench_model *m, int n_requests, int depth, int fresh, int answer,
                       char *why, size_t size);

/* bench_model_hold -- computes the context of a request, unless it is cached. */
bool bench_model_hold(bench_model *m, int request, int depth);
/* bench_model_prompt -- that context, then `fresh` tokens that were never seen. */
sp_prompt *bench_model_prompt(bench_model *m, int request, int depth, int fresh);
/* bench_model_reuse -- the policy that finds the context, and nothing else. */
sp_reuse_opts bench_model_reuse(int depth);

/* What a prompt of `fresh` tokens behind a context takes; what a step of n_requests takes, each of
 * which looks at so many keys. */
bench_work bench_model_prefill_work(const bench_model *m, int depth, int fresh);
bench_work bench_model_step_work(const bench_model *m, int n_requests, double keys);

#endif
