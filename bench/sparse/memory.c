/* memory.c -- the rate of sparse decoding against full attention over the same keys, and the
 * ratio that the bytes allow.
 *
 *   context   random keys and values, written into the blocks of spans of 1,024 tokens: computing
 *             131,072 tokens would take an hour, and the speed is the same
 *   rounds    full and sparse steps alternate over one plan, so that both have the same moments of a
 *             shared machine; a round gives one ratio, the table their median
 *   bound     bytes of a full step / bytes of a sparse one: weights, keys and values, summaries
 *
 * Random keys say nothing of quality, nor of how often a choice is reused: `spolia eval` does. */
#include "memory.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "engine/engine.h"
#include "random_kv.h"
#include "serve/request/decode.h"

enum { SPAN = 1024, MAX_BATCH = 8 };

typedef struct machine {
    const sparse_bench *b;
    sp_model *model;
    sp_device *device;
    sp_kv_pool *pool;
    sp_engine *engine;
    sp_decode_choice choice;
    double weight_bytes;
    uint64_t random;
    float *logits; /* [batch, V] */
} machine;

/* One depth. */
typedef struct setting {
    machine *m;
    int depth, batch, n_grown;
    sp_plan plans[MAX_BATCH];
    sp_sparse *sparse[MAX_BATCH];
} setting;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int32_t random_token(machine *m)
{
    return (int32_t)(lab_random(&m->random) % (uint64_t)m->model->hp.n_vocab);
}

static void count_weights(machine *m)
{
    int i = 0;
    for (sp_mat *w; (w = sp_model_next_matrix(m->model, &i));)
        if (w != &m->model->embed || m->model->tied)
            m->weight_bytes += (double)w->n_rows * (double)sp_row_bytes(w->type, w->n_cols);
    if (m->model->tied) /* it came twice */
        m->weight_bytes -= (double)m->model->embed.n_rows *
                           (double)sp_row_bytes(m->model->embed.type, m->model->embed.n_cols);
}

static sp_err parse_type(const char *name, sp_dtype *out)
{
    static const sp_dtype allowed[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};
    for (size_t i = 0; i < SP_COUNT(allowed); i++)
        if (strcmp(sp_dtype_of(allowed[i])->name, name) == 0) {
            *out = allowed[i];
            return SP_OK;
        }
    return sp_fail(SP_E_ARG, "KV type \"%s\" is unknown", name);
}

static int largest(const bench_list *l)
{
    double v = 0;
    for (int i = 0; i < l->n; i++) v = SP_MAX(v, l->v[i]);
    return (int)v;
}

static sp_err machine_open(machine *m)
{
    const sparse_bench *b = m->b;
    const int deepest = largest(b->depths), batch = largest(b->batches);
    const int grown = 2 * (b->rounds + 1) * b->predict + SP_BLOCK_TOKENS;
    SP_TRY(sp_decode_parse(b->decode, &m->choice));
    m->choice.o.min_depth = -1;
    SP_TRY(sp_model_open(b->model, &m->model));
    const sp_hparams *hp = &m->model->hp;
    SP_TRY(sp_device_open(NULL, &(sp_device_opts){.kernels = b->cpu, .n_threads = b->n_threads},
                          &m->device));
    sp_kv_shape shape = {.n_layers = hp->n_layers, .n_heads = hp->n_kv_heads, .head = hp->head};
    SP_TRY(parse_type(b->kv_type ? b->kv_type : SP_KV_TYPE, &shape.type));
    SP_TRY(sp_kv_pool_create(m->device, &shape,
                             (int64_t)batch * (sp_blocks_for(deepest) + sp_blocks_for(grown) + 2),
                             &m->pool));
    SP_TRY(sp_model_load(m->model, m->device, &(sp_pack_opts){0}));
    SP_TRY(sp_engine_create(&(sp_engine_opts){.model = m->model,
                                              .pool = m->pool,
                                              .n_ctx = deepest + grown,
                                              .max_rows = MAX_BATCH,
                                              .max_slices = MAX_BATCH},
                            &m->engine));
    m->logits = sp_alloc((size_t)MAX_BATCH * (size_t)hp->n_vocab, sizeof *m->logits);
    if (!m->logits) return sp_fail_nomem("logits");
    count_weights(m);
    return SP_OK;
}

static void machine_close(machine *m)
{
    sp_free(m->logits);
    sp_engine_destroy(m->engine);
    sp_kv_pool_destroy(m->pool);
    sp_model_close(m->model);
    sp_device_close(m->device);
}

/* -- a context ------------------------------------------------------------------------------ */

/* add_context -- spans of known blocks, then the answer's. */
static sp_err add_context(machine *m, random_kv *random, sp_plan *p, int depth, int room)
{
    uint32_t blocks[SPAN / SP_BLOCK_TOKENS];
    int span, see;
    for (int at = 0, n; at < depth; at += n) {
        n = SP_MIN(SPAN, depth - at);
        SP_TRY(sp_kv_acquire(m->pool, sp_blocks_for(n), blocks));
        SP_TRY(random_kv_store(random, blocks, at, n));
        sp_err err = sp_plan_add_span(
            p, &(sp_span_spec){.n = n, .at = at, .known = blocks, .n_known = n}, &span);
        sp_kv_release(m->pool, blocks, sp_blocks_for(n));
        SP_TRY(err);
    }
    SP_TRY(sp_plan_add_span(p, &(sp_span_spec){.room = room, .at = depth}, &span));
    SP_TRY(sp_plan_add_sight(p, NULL, p->n_spans, &see));
    return sp_plan_bind(p);
}

static sp_err setting_open(setting *s)
{
    machine *m = s->m;
    const sparse_bench *b = m->b;
    random_kv random;
    sp_err err = random_kv_open(m->pool, &m->random, &random);
    for (int i = 0; i < s->batch; i++) sp_plan_init(&s->plans[i], m->pool);
    for (int i = 0; i < s->batch && err == SP_OK; i++) {
        err = add_context(m, &random, &s->plans[i], s->depth, 2 * (b->rounds + 1) * b->predict);
        if (err == SP_OK) err = sp_sparse_create(&m->choice.o, &s->sparse[i]);
    }
    random_kv_close(&random);
    return err;
}

static void setting_close(setting *s)
{
    for (int i = 0; i < s->batch; i++) {
        sp_sparse_destroy(s->sparse[i]);
        sp_plan_fini(&s->plans[i]);
    }
}

/* -- rounds --------------------------------------------------------------------------------- */

static sp_err steps(setting *s, bool sparse, double *seconds)
{
    machine *m = s->m;
    sp_slice slices[MAX_BATCH];
    const double start = now();
    for (int n = 0; n < m->b->predict; n++, s->n_grown++) {
        for (int i = 0; i < s->batch; i++) {
            sp_plan *p = &s->plans[i];
            p->sparse = sparse ? s->sparse[i] : NULL;
            SP_TRY(sp_plan_grow(p, p->n_spans - 1, random_token(m), s->depth + s->n_grown, 0));
            slices[i] = (sp_slice){.plan = p,
                                   .from = p->n_todo - 1,
                                   .n = 1,
                                   .want = SP_WANT_LAST,
                                   .logits = m->logits + (size_t)i * (size_t)m->model->hp.n_vocab};
        }
        SP_TRY(sp_engine_step(m->engine, slices, s->batch));
    }
    *seconds = now() - start;
    return SP_OK;
}

/* bound -- the ratio of the bytes of a full step to those of a sparse one. */
static double bound(const setting *s)
{
    const machine *m = s->m;
    const sp_sparse_account a = sp_sparse_account_of(s->sparse[0]);
    const double kv = (double)sp_kv_block_bytes(sp_kv_pool_shape(m->pool)) / SP_BLOCK_TOKENS *
                      (s->depth + s->n_grown / 2.0) * s->batch;
    const double read = a.n_keys ? (double)a.n_read / (double)a.n_keys : 1;
    const double chosen = (double)a.n_chosen / (double)SP_MAX(1, a.n_chosen + a.n_reused);
    return (m->weight_bytes + kv) /
           (m->weight_bytes + kv * read + (double)a.choice_bytes * s->batch * chosen);
}

static void print_row(const setting *s, double *full, double *sparse, double *ratio)
{
    const sparse_bench *b = s->m->b;
    const double units = (double)b->predict * s->batch, allowed = bound(s);
    const sp_sparse_account a = sp_sparse_account_of(s->sparse[0]);
    const double gained = lab_quantile(ratio, b->rounds, 0.5);
    printf("%6d %8d %10.2f %10.2f %8.2f %8.2f %8.0f %% %8.1f %% %9.1f %9.1f\n", s->batch, s->depth,
           units / lab_quantile(full, b->rounds, 0.5),
           units / lab_quantile(sparse, b->rounds, 0.5), gained, allowed, 100 * gained / allowed,
           100 * (double)a.n_read / (double)a.n_keys, (double)a.summary_bytes / 1e6,
           (double)a.summarize_us / 1e3);
    fflush(stdout);
}

static sp_err measure(setting *s)
{
    const int n = s->m->b->rounds;
    double full[64], sparse[64], ratio[64], unused;
    SP_TRY(steps(s, false, &unused)); /* page faults, and the summaries */
    SP_TRY(steps(s, true, &unused));
    for (int r = 0; r < n; r++) {
        SP_TRY(steps(s, false, &full[r]));
        SP_TRY(steps(s, true, &sparse[r]));
        ratio[r] = full[r] / sparse[r];
    }
    print_row(s, full, sparse, ratio);
    return SP_OK;
}

static sp_err run(machine *m)
{
    printf("%s: %s, weights %.1f MB, keys and values %.2f KB a token\n", m->b->model, m->b->decode,
           m->weight_bytes / 1e6,
           (double)sp_kv_block_bytes(sp_kv_pool_shape(m->pool)) / SP_BLOCK_TOKENS / 1e3);
    printf("%6s %8s %10s %10s %8s %8s %10s %10s %9s %9s\n", "batch", "depth", "full t/s",
           "sparse t/s", "ratio", "bound", "of it", "keys read", "MB", "ms once");
    for (int d = 0; d < m->b->depths->n; d++)
        for (int n = 0; n < m->b->batches->n; n++) {
            setting s = {
                .m = m, .depth = (int)m->b->depths->v[d], .batch = (int)m->b->batches->v[n]};
            sp_err err = setting_open(&s);
            if (err == SP_OK) err = measure(&s);
            setting_close(&s);
            SP_TRY(err);
        }
    return SP_OK;
}

int bench_decode_sparse(const sparse_bench *b)
{
    machine m = {.b = b, .random = b->seed};
    if (b->rounds > 64) return cli_fail_with("--rounds: %d is more than 64", b->rounds), 2;
    if (largest(b->batches) > MAX_BATCH)
        return cli_fail_with("--batches: at most %d", MAX_BATCH), 2;
    sp_err err = machine_open(&m);
    if (err == SP_OK) err = run(&m);
    int code = err == SP_OK ? 0 : cli_fail(err);
    machine_close(&m);
    return code;
}
