/* speed.c -- the engine runs plans over the first layers of a model; a hook that it calls before each layer notes the
 * time.
 *
 *   hook 0     hook 1                hook n-1          end
 *     | layer 0  | ...   | layer n-2   | layer n-1, head |        a layer takes (hook n-1 - hook 0) / (n - 1)
 *
 * So many layers run that their weights exceed the caches, or all. */
#include "doctor/speed.h"

#include "base/clock.h"
#include "engine/engine.h"

#define WEIGHT_BYTES ((size_t)64 << 20) /* of the layers that run */

enum { N_ANSWER = 8 /* tokens that are decoded */ };

typedef struct rig {
    const sp_model *m;
    int n_layers; /* of the model in its file */
    sp_device *device;
    sp_kv_pool *pool;
    sp_engine *engine;
    sp_plan plan;
    float *logits;
    int64_t first_us, last_us; /* when the first and the last layer began in the present step */
} rig;

static bool note(void *user, int layer)
{
    rig *r = user;
    if (layer == 0) r->first_us = sp_clock_us();
    if (layer == r->m->hp.n_layers - 1) r->last_us = sp_clock_us();
    return true;
}

size_t doctor_step_bytes(sp_model *m)
{
    size_t all = 0;
    int i = 0;
    sp_model_next_matrix(m, &i); /* the embedding */
    for (const sp_mat *w; (w = sp_model_next_matrix(m, &i));)
        all += (size_t)w->n_rows * sp_row_bytes(w->type, w->n_cols);
    return all;
}

static sp_err open_rig(rig *r, sp_model *m, const doctor_run *run)
{
    const sp_hparams *hp = &m->hp;
    const sp_kv_shape shape = {.n_layers = hp->n_layers, .n_heads = hp->n_kv_heads, .head = hp->head,
                               .type = run->kv_type};
    const int n_ctx = run->n_prompt + N_ANSWER;
    r->logits = SP_NEW_N(float, (size_t)hp->n_vocab);
    if (!r->logits) return sp_fail_nomem("logits");
    SP_TRY(sp_device_open(NULL, &(sp_device_opts){.kernels = run->cpu, .n_threads = run->n_threads}, &r->device));
    SP_TRY(sp_model_load(m, r->device, NULL));
    SP_TRY(sp_kv_pool_create(r->device, &shape, sp_blocks_for(n_ctx), &r->pool));
    return sp_engine_create(
        &(sp_engine_opts){.model = m, .pool = r->pool, .n_ctx = n_ctx, .max_rows = run->n_batch, .max_slices = 1},
        &r->engine);
}

static void close_rig(rig *r, sp_model *m)
{
    sp_plan_fini(&r->plan);
    sp_engine_destroy(r->engine);
    sp_kv_pool_destroy(r->pool);
    sp_model_unload(m);
    sp_device_close(r->device);
    sp_free(r->logits);
}

/* step -- n tokens of the plan; *layers and *head: seconds of all layers of the model, and of what follows them. */
static sp_err step(rig *r, int from, int n, sp_want want, double *layers, double *head)
{
    const int n_run = r->m->hp.n_layers;
    const sp_slice slice = {.plan = &r->plan, .from = from, .n = n, .want = want, .logits = r->logits,
                            .await = {.there = note, .user = r}};
    SP_TRY(sp_engine_step(r->engine, &slice, 1));
    const double rest = (double)(sp_clock_us() - r->last_us) * 1e-6;
    const double each = n_run > 1 ? (double)(r->last_us - r->first_us) * 1e-6 / (n_run - 1) : rest;
    *layers = each * r->n_layers;
    *head = SP_MAX(rest - each, 0);
    return SP_OK;
}

static int32_t random_token(const rig *r, int i)
{
    return (int32_t)((uint32_t)i * 2654435761u % (uint32_t)r->m->hp.n_vocab);
}

static sp_err make_plan(rig *r, int n_prompt)
{
    int span, see;
    sp_plan_init(&r->plan, r->pool);
    SP_TRY(sp_plan_add_span(&r->plan, &(sp_span_spec){.n = n_prompt, .room = n_prompt + N_ANSWER}, &span));
    SP_TRY(sp_plan_add_sight(&r->plan, NULL, 1, &see));
    for (int i = 0; i < n_prompt; i++)
        SP_TRY(sp_plan_add_todo(&r->plan, (sp_todo){.token = random_token(r, i), .pos = i, .index = i}));
    return sp_plan_bind(&r->plan);
}

static sp_err run_all(rig *r, const doctor_run *run, doctor_speed *out)
{
    double layers, head;
    *out = (doctor_speed){0};
    SP_TRY(make_plan(r, run->n_prompt));
    for (int from = 0; from < run->n_prompt; from += run->n_batch) {
        SP_TRY(step(r, from, SP_MIN(run->n_batch, run->n_prompt - from), SP_WANT_NONE, &layers, &head));
        out->prefill += layers;
    }
    for (int i = 0; i < N_ANSWER; i++) {
        const int at = run->n_prompt + i;
        SP_TRY(sp_plan_grow(&r->plan, 0, random_token(r, at), at, 0));
        SP_TRY(step(r, at, 1, SP_WANT_LAST, &layers, &head));
        out->decode += (layers + head) / N_ANSWER;
    }
    out->prefill += head;
    return SP_OK;
}

sp_err doctor_measure(sp_model *m, const doctor_run *run, doctor_speed *out)
{
    rig r = {.m = m, .n_layers = m->hp.n_layers};
    const size_t layer_bytes = doctor_step_bytes(m) / (size_t)m->hp.n_layers; /* with its share of the head */
    const size_t enough = 2 + WEIGHT_BYTES / SP_MAX(layer_bytes, 1);
    m->hp.n_layers = (int)SP_MIN(enough, (size_t)r.n_layers);
    sp_err err = open_rig(&r, m, run);
    if (err == SP_OK) err = run_all(&r, run, out);
    close_rig(&r, m);
    return err;
}
