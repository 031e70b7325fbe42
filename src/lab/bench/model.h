/* model.h -- a model whose speed is measured: the least cost of its tokens, and prompts of random
 * tokens after contexts of given lengths.
 *
 * Request r has its own random text, cut into segments at every measured depth. So all its contexts
 * are prefixes of the deepest one, and the cache stores shared prefixes once:
 *
 *     depths 512, 4096:   | 512 tokens | 3,584 tokens |      then the new tokens of a run
 */
#ifndef SP_LAB_BENCH_MODEL_H
#define SP_LAB_BENCH_MODEL_H

#include "lab/bench/bench.h"
#include "lab/bench/machine.h"
#include "cli/options/model_options.h"

typedef struct bench_model_options {
    opt_list models;
    model_options m; /* its table is not used */
    uint64_t seed;
    opt table[10];
} bench_model_options;

void bench_model_options_init(bench_model_options *o);
/* bench_model_options_check -- false after an error message. */
bool bench_model_options_check(const bench_model_options *o, const char *command);

typedef struct bench_model {
    const char *path;
    sp_context *ctx;
    sp_context_info info;
    const bench_list *depths; /* borrowed; ascending */
    uint64_t random;
    bench_work token;    /* of each prompt token; without bytes */
    bench_work last;     /* in addition, of each token whose logits are computed */
    double weight_bytes; /* read in a step */
} bench_model;

/* bench_models_open -- opens all models, [o->models.n], for max_requests at a time. NULL after an
 * error message. Sorts depths and removes duplicates. */
bench_model *bench_models_open(bench_model_options *o, int n_threads, const char *cpu,
                               int max_requests, bench_list *depths);
void bench_models_close(bench_model *models, int n);

typedef struct bench_load {
    int n_requests;
    int depth, fresh, answer; /* tokens of each: context, new ones, answer */
} bench_load;

/* bench_model_fits -- whether the load fits context and KV memory; if not, why[size] says why not. */
bool bench_model_fits(const bench_model *m, const bench_load *load, char *why, size_t size);

/* bench_model_hold -- computes the context of a request if it is not cached. */
bool bench_model_hold(bench_model *m, int request, int depth);
/* bench_model_prompt -- that context, then `fresh` new random tokens. */
sp_prompt *bench_model_prompt(bench_model *m, int request, int depth, int fresh);
/* bench_model_reuse -- the policy that reuses the context and nothing else. */
sp_reuse_opts bench_model_reuse(int depth);

/* bench_model_prefill -- seconds to the first token of a prompt of `fresh` tokens after a context, which is computed
 * first, untimed, if it was evicted. 0 after an error message. */
double bench_model_prefill(bench_model *m, int depth, int fresh);

/* The least work of a prompt of `fresh` tokens after a context, and of a decode step of n_requests
 * that attend to `keys` keys each. */
bench_work bench_model_prefill_work(const bench_model *m, int depth, int fresh);
bench_work bench_model_step_work(const bench_model *m, int n_requests, double keys);

#endif
