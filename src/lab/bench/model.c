#include "lab/bench/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "compute/kernels.h"
#include "kv/pool.h"
#include "lab/bench/prompts.h"
#include "model/model.h"

void bench_model_options_init(bench_model_options *o)
{
    *o = (bench_model_options){.seed = 1};
    model_options_init(&o->m);
    o->m.ctx.guard.share = 0; /* it would run between the measurements */
    sp_context_opts *c = &o->m.ctx;
    const opt table[] = {
        {OPT_GROUP, "Models and memory"},
        {OPT_LIST, "model", 'm', "PATH", &o->models,
         "GGUF file, Hugging Face folder or hf:ORG/REPO[:TYPE]; several alternate", .is_model = true},
        {OPT_INT, "ctx-size", 'c', "N", &c->n_ctx,
         "tokens of prompt and answer; 0: as trained, at most 8192 (0)", .limits = {0, INT32_MAX}},
        {OPT_INT, "batch-size", 'b', "N", &c->n_batch, "tokens computed in one step (256)", .limits = {0, INT32_MAX}},
        {OPT_MIB, "kv-memory", 0, "MiB", &c->cache.kv_bytes, "memory for keys and values (1024)"},
        {OPT_STRING, "ctk", 0, "TYPE", &o->m.type_k,
         "type of cached keys and values: f32, f16, bf16, q16, q8_0 (" SP_KV_TYPE ")"},
        {OPT_U64, "seed", 's', "N", &o->seed, "random seed of the tokens (1)"},
        {OPT_FLAG, "verbose", 'v', NULL, &o->m.verbose, "log what the library does"},
        {0},
    };
    memcpy(o->table, table, sizeof table);
}

bool bench_model_options_check(const bench_model_options *o, const char *command)
{
    model_options m = o->m;
    if (!o->models.n) return cli_fail_with("%s: --model PATH is missing", command), false;
    m.ctx.model = o->models.v[0];
    return model_options_check(&m) == 0;
}

/* -- what a token costs --------------------------------------------------------------------- */

/* share_of -- of the tokens, those that use the matrix: an expert has its part of them. */
static double share_of(const sp_model *of, const sp_mat *w)
{
    const sp_moe *moe = &of->hp.moe;
    for (int l = 0; l < of->hp.n_layers; l++)
        for (int x = 0; of->layers[l].experts && x < moe->n; x++) {
            const sp_mlp *e = &of->layers[l].experts[x];
            if (w == &e->w_gate || w == &e->w_up || w == &e->w_down) return (double)moe->n_used / moe->n;
        }
    return 1;
}

/* rounds -- whether the kernels round the inputs of this matrix's products. */
static bool rounds(const bench_model *m, const sp_mat *w)
{
    const sp_ops *ops;
    if (sp_dtype_of(w->type)->n_group > 1) return true;
    return sp_ops_select(m->info.kernels, &ops) == SP_OK && ops->pack_bytes && ops->x_bits(w->type) > 0;
}

/* count_weights -- in the last layer, a token without logits needs its key and value only. */
static bool count_weights(bench_model *m)
{
    sp_model *of;
    const sp_err err = sp_model_open(m->path, &of);
    if (err != SP_OK) return cli_fail(err), false;
    const sp_layer *last = &of->layers[of->hp.n_layers - 1];
    bool in_last = false;
    int i = 0;
    sp_model_next_matrix(of, &i); /* the embedding: a row of it is looked up */
    for (const sp_mat *w; (w = sp_model_next_matrix(of, &i));) {
        in_last |= w == &last->wq;
        bench_work *to = in_last && w != &last->wk && w != &last->wv ? &m->last : &m->token;
        *(rounds(m, w) ? &to->rounded : &to->fp32) += 2 * share_of(of, w) * (double)(w->n_rows * w->n_cols);
        m->weight_bytes += (double)w->n_rows * (double)sp_row_bytes(w->type, w->n_cols);
    }
    sp_model_close(of);
    return true;
}

/* look -- operations of queries that attend to `keys` keys in total, in one layer. */
static double look(const bench_model *m, double keys)
{
    return 4.0 * m->info.n_heads * m->info.head * keys;
}

static double kv_bytes(const bench_model *m, double tokens)
{
    return tokens * (double)m->info.kv_block_bytes / SP_BLOCK_TOKENS;
}

bench_work bench_model_prefill_work(const bench_model *m, int depth, int fresh)
{
    double n = fresh, seen = n * depth + n * (n + 1) / 2;
    bench_work w = {.fp32 = look(m, seen) * (m->info.n_layers - 1) + look(m, depth + n),
                    .bytes = m->weight_bytes + kv_bytes(m, depth)};
    bench_work_add(&w, &m->token, n);
    bench_work_add(&w, &m->last, 1);
    return w;
}

bench_work bench_model_step_work(const bench_model *m, int n_requests, double keys)
{
    bench_work w = {.fp32 = look(m, keys) * m->info.n_layers * n_requests,
                    .bytes = m->weight_bytes + kv_bytes(m, keys) * n_requests};
    bench_work_add(&w, &m->token, n_requests);
    bench_work_add(&w, &m->last, n_requests);
    return w;
}

/* -- opening -------------------------------------------------------------------------------- */

static void sort_depths(bench_list *d)
{
    int n = 0;
    lab_sort(d->v, (size_t)d->n);
    for (int i = 0; i < d->n; i++)
        if (n == 0 || d->v[i] > d->v[n - 1]) d->v[n++] = d->v[i];
    d->n = n;
}

/* -- room ----------------------------------------------------------------------------------- */

bool bench_model_fits(const bench_model *m, const bench_load *l, char *why, size_t size)
{
    int64_t tokens = (int64_t)l->depth + l->fresh + l->answer;
    int64_t need = sp_blocks_for(l->fresh) + sp_blocks_for(l->answer) + 1;
    for (int d = 0, from = 0; d < m->depths->n && from < l->depth; d++) {
        need += sp_blocks_for((int)m->depths->v[d] - from);
        from = (int)m->depths->v[d];
    }
    need *= l->n_requests;
    if (tokens > m->info.n_ctx)
        snprintf(why, size, "%lld tokens do not fit the context of %d (-c)", (long long)tokens,
                 m->info.n_ctx);
    else if (need > m->info.kv_blocks)
        snprintf(why, size, "it needs %lld MiB of KV memory (--kv-memory)",
                 (long long)(need * (int64_t)m->info.kv_block_bytes / (1 << 20) + 1));
    else
        return true;
    return false;
}

/* -- prompts -------------------------------------------------------------------------------- */

static sp_err add_random(const bench_model *m, sp_prompt *p, int n, uint64_t *state)
{
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    if (!ids) return SP_E_NOMEM;
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(lab_random(state) % (uint64_t)m->info.n_vocab);
    sp_err err = sp_prompt_tokens(p, ids, (size_t)n);
    free(ids);
    return err;
}

static sp_err add_context(const bench_model *m, sp_prompt *p, int request, int depth)
{
    sp_err err = SP_OK;
    for (int d = 0, from = 0; d < m->depths->n && from < depth && err == SP_OK; d++) {
        int to = (int)m->depths->v[d];
        uint64_t state = ((uint64_t)request + 1) << 32 | (uint64_t)to; /* the same each time */
        if (to > from) err = add_random(m, p, to - from, &state);
        from = to;
    }
    return err;
}

sp_prompt *bench_model_prompt(bench_model *m, int request, int depth, int fresh)
{
    sp_prompt *p = NULL;
    sp_err err = sp_prompt_create(m->ctx, &p);
    if (err == SP_OK) err = add_context(m, p, request, depth);
    if (err == SP_OK && fresh) err = add_random(m, p, fresh, &m->random);
    if (err == SP_OK) return p;
    cli_fail(err);
    sp_prompt_destroy(p);
    return NULL;
}

sp_reuse_opts bench_model_reuse(int depth)
{
    return (sp_reuse_opts){.policy = depth ? "prefix" : "off"};
}

/* run_prompt -- as bench_run; NULL also for no prompt. */
static sp_request *run_prompt(bench_model *m, sp_prompt *p, int depth, int max_tokens)
{
    if (!p) return NULL;
    const sp_reuse_opts reuse = bench_model_reuse(depth);
    return bench_run(m->ctx, p, &reuse, max_tokens);
}

static bool run_untimed(bench_model *m, sp_prompt *p, int depth, int max_tokens)
{
    sp_request *r = run_prompt(m, p, depth, max_tokens);
    sp_request_destroy(r);
    return r != NULL;
}

/* warm_up -- a short prompt, which loads the file's pages and wakes the threads. */
static bool warm_up(bench_model *m)
{
    return run_untimed(m, bench_model_prompt(m, 0, 0, SP_BLOCK_TOKENS < m->info.n_ctx ? SP_BLOCK_TOKENS : 1), 0, 1);
}

bool bench_model_hold(bench_model *m, int request, int depth)
{
    return !depth || run_untimed(m, bench_model_prompt(m, request, depth, 0), depth, 0);
}

double bench_model_prefill(bench_model *m, int depth, int fresh)
{
    if (!bench_model_hold(m, 0, depth)) return 0;
    sp_request *r = run_prompt(m, bench_model_prompt(m, 0, depth, fresh), depth, 1);
    if (!r) return 0;
    const sp_result *res = sp_request_result(r);
    const int computed = res->n_computed;
    const double seconds = (double)(res->ttft_us > 0 ? res->ttft_us : 1) * 1e-6;
    sp_request_destroy(r);
    if (computed == fresh) return seconds;
    cli_fail_with("%s: %d tokens were computed for a prompt of %d; increase --kv-memory", m->path, computed, fresh);
    return 0;
}

/* -- opening and closing ----------------------------------------------------------------------- */

bench_model *bench_models_open(bench_model_options *o, int n_threads, const char *cpu,
                               int max_requests, bench_list *depths)
{
    int n = o->models.n;
    bench_model *models = cli_alloc((size_t)n, sizeof *models);
    bool good = true;
    sort_depths(depths);
    for (int i = 0; i < n && good; i++) {
        bench_model *m = &models[i];
        model_options mo = o->m;
        mo.ctx.model = o->models.v[i];
        mo.ctx.machine.n_threads = n_threads;
        mo.ctx.machine.cpu = cpu;
        mo.ctx.max_requests = max_requests;
        *m = (bench_model){.path = mo.ctx.model, .depths = depths, .random = o->seed};
        good = (m->ctx = model_options_open(&mo)) != NULL;
        if (good) m->info = sp_context_describe(m->ctx);
        good = good && count_weights(m) && warm_up(m);
    }
    if (good) return models;
    bench_models_close(models, n);
    return NULL;
}

void bench_models_close(bench_model *models, int n)
{
    for (int i = 0; models && i < n; i++) sp_context_close(models[i].ctx);
    free(models);
}
