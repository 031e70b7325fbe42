/* model.c -- the model in `spolia doctor`. The file is mapped and its sizes are checked; weights are
 * not loaded. The speed is a sum: each kind of matrix is multiplied, and attention is run, on random
 * data of its size (lab/meter.h), times how often a step does it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compute/kernels.h"
#include "kv/pool.h"
#include "lab/doctor/doctor.h"
#include "lab/meter.h"
#include "model/model.h"

#define MIB       ((double)(1 << 20))
#define BATCH     256  /* rows of a step, as in sp_context_opts */
#define N_PROMPT  2048 /* tokens of the prompt that is timed */
#define MAX_KINDS 64
#define KV_BYTES  ((size_t)1 << 30) /* as in sp_context_opts */
#define SLOW_MS   10000

/* -- what it is ----------------------------------------------------------------------------------- */

static void say_file(doctor *d, sp_model *m)
{
    const sp_hparams *hp = &m->hp;
    json_t *f = doctor_say(d, DOCTOR_OK, "model", NULL,
                           "%s: %s, %.0f million weights, trained for %d "
                           "tokens",
                           m->path, hp->arch, (double)sp_model_n_params(m) / 1e6, hp->n_ctx);
    doctor_number(f, "n_params", (double)sp_model_n_params(m));
    if (!m->tokenizer)
        doctor_say(d, DOCTOR_PROBLEM, "tokenizer", "use a file that has one", "none in the file");
    if (!m->chat_template)
        doctor_say(d, DOCTOR_WARNING, "chat template", "use a model that is tuned for chats",
                   "none in the file: prompts are plain text");
}

/* -- memory ----------------------------------------------------------------------------------------- */

static size_t matrix_bytes(const sp_mat *w)
{
    return (size_t)w->n_rows * sp_row_bytes(w->type, w->n_cols);
}

/* weight_bytes -- memory that the weights take: packed, or as in the file. */
static size_t weight_bytes(sp_model *m, const sp_ops *ops)
{
    size_t sum = 0;
    int i = 0;
    for (const sp_mat *w; (w = sp_model_next_matrix(m, &i));) {
        size_t packed = ops->pack_bytes ? ops->pack_bytes(w) : 0;
        sum += packed ? packed : matrix_bytes(w);
    }
    return sum;
}

static int n_ctx_of(const doctor *d, const sp_model *m)
{
    return d->o->ctx.n_ctx ? d->o->ctx.n_ctx : SP_MIN(m->hp.n_ctx, 8192);
}

/* token_bytes -- keys and values of a token; 0 after a problem. */
static double token_bytes(doctor *d, const sp_model *m)
{
    const model_options *o = d->o;
    const char *name = o->type_k ? o->type_k : o->type_v ? o->type_v : SP_KV_TYPE;
    sp_kv_shape shape = {.n_layers = m->hp.n_layers,
                         .n_heads = m->hp.n_kv_heads,
                         .head = m->hp.head,
                         .type = SP_DTYPE_END};
    for (int t = 0; t < SP_DTYPE_END; t++)
        if (t != SP_DTYPE_N && strcmp(sp_dtype_of((sp_dtype)t)->name, name) == 0)
            shape.type = (sp_dtype)t;
    if (shape.type == SP_DTYPE_END) {
        doctor_say(d, DOCTOR_PROBLEM, "KV type", "f32, f16, bf16, q16 or q8_0", "%s is unknown",
                   name);
        return 0;
    }
    if (sp_kv_shape_check(&shape) == SP_OK)
        return (double)sp_kv_block_bytes(&shape) / SP_BLOCK_TOKENS;
    doctor_say(d, DOCTOR_PROBLEM, "KV type", "choose another -ctk", "%s", sp_error_detail());
    return 0;
}

static void say_kv(doctor *d, const sp_model *m, double per_token)
{
    double memory = (double)(d->o->ctx.cache.kv_bytes ? d->o->ctx.cache.kv_bytes : KV_BYTES);
    int n_ctx = n_ctx_of(d, m);
    bool short_ctx = n_ctx > m->hp.n_ctx, few = memory / per_token < n_ctx;
    const char *advice = short_ctx ? "the model was not trained for that many: lower --ctx-size"
                         : few ? "less than one context fits: raise --kv-memory or lower --ctx-size"
                               : NULL;
    json_t *f = doctor_say(d,
                           short_ctx ? DOCTOR_PROBLEM
                           : few     ? DOCTOR_WARNING
                                     : DOCTOR_OK,
                           "KV memory", advice, "%.0f MiB: %.0f tokens of %.1f KiB; context %d",
                           memory / MIB, memory / per_token, per_token / 1024, n_ctx);
    doctor_number(f, "tokens", memory / per_token);
    doctor_number(f, "bytes_per_token", per_token);
    if (d->disk_bytes)
        doctor_say(d, DOCTOR_OK, "store", NULL, "room for %.2g million tokens of documents",
                   (double)d->disk_bytes / per_token / 1e6);
}

static void say_memory(doctor *d, sp_model *m, const sp_ops *ops)
{
    double weights = (double)weight_bytes(m, ops);
    double kv = (double)(d->o->ctx.cache.kv_bytes ? d->o->ctx.cache.kv_bytes : KV_BYTES);
    double have = (double)d->available_bytes;
    bool fits = have == 0 || weights + kv < have;
    json_t *f = doctor_say(d, fits ? DOCTOR_OK : DOCTOR_PROBLEM, "memory",
                           fits ? NULL : "a smaller or more quantized model, or less --kv-memory",
                           "weights %.0f MiB and KV %.0f MiB of %.0f MiB available", weights / MIB,
                           kv / MIB, have / MIB);
    doctor_number(f, "weight_bytes", weights);
    doctor_number(f, "needed_bytes", weights + kv);
}

/* -- speed -------------------------------------------------------------------------------------------- */

/* Matrices of one type and size. */
typedef struct kind {
    sp_dtype type;
    int n_out, n_in, count;
} kind;

typedef struct timing {
    sp_meter *meter;
    const sp_model *model;
    kind kinds[MAX_KINDS];
    int n_kinds;
    kind head; /* the output matrix: once a prompt, and in every decode step */
    int batch, n_prompt;
    double prefill, decode; /* seconds: of the prompt, of a token after it */
} timing;

static void add_kind(timing *t, const sp_mat *w)
{
    for (int i = 0; i < t->n_kinds; i++) {
        kind *k = &t->kinds[i];
        if (k->type == w->type && k->n_out == w->n_rows && k->n_in == w->n_cols) {
            k->count++;
            return;
        }
    }
    if (t->n_kinds < MAX_KINDS)
        t->kinds[t->n_kinds++] = (kind){w->type, (int)w->n_rows, (int)w->n_cols, 1};
}

/* list_kinds -- the first matrix is the embedding, of which a step reads a few rows, the last one is
 * the output. */
static void list_kinds(timing *t, sp_model *m)
{
    const sp_mat *last = NULL;
    int i = 0;
    sp_model_next_matrix(m, &i);
    for (const sp_mat *w; (w = sp_model_next_matrix(m, &i)); last = w)
        if (last) add_kind(t, last);
    if (last) t->head = (kind){last->type, (int)last->n_rows, (int)last->n_cols, 1};
}

static sp_err time_gemm(timing *t, const kind *k, int rows, double *seconds)
{
    sp_meter_sample s;
    SP_TRY(sp_meter_run(t->meter,
                        &(sp_meter_op){.kind = "gemm",
                                       .type = sp_dtype_of(k->type)->name,
                                       .rows = rows,
                                       .n_out = k->n_out,
                                       .n_in = k->n_in},
                        &s));
    *seconds += s.seconds * k->count;
    return SP_OK;
}

static sp_err time_attend(timing *t, const char *type, int rows, int keys, double *seconds)
{
    const sp_hparams *hp = &t->model->hp;
    sp_meter_sample s;
    SP_TRY(sp_meter_run(t->meter,
                        &(sp_meter_op){.kind = "attend",
                                       .type = type,
                                       .rows = rows,
                                       .n_heads = hp->n_heads,
                                       .n_kv_heads = hp->n_kv_heads,
                                       .head = hp->head,
                                       .n_keys = keys},
                        &s));
    *seconds += s.seconds * hp->n_layers;
    return SP_OK;
}

static sp_err time_steps(timing *t, const char *kv_type)
{
    double step = 0, last = 0;
    for (int i = 0; i < t->n_kinds; i++) {
        SP_TRY(time_gemm(t, &t->kinds[i], t->batch, &step));
        SP_TRY(time_gemm(t, &t->kinds[i], 1, &t->decode));
    }
    SP_TRY(time_gemm(t, &t->head, 1, &last));
    SP_TRY(time_attend(t, kv_type, t->batch, SP_MAX(t->n_prompt / 2, t->batch), &step));
    SP_TRY(time_attend(t, kv_type, 1, t->n_prompt, &t->decode));
    t->decode += last;
    t->prefill = step * t->n_prompt / t->batch + last;
    return SP_OK;
}

static void say_speed(doctor *d, const timing *t, const sp_peaks *p)
{
    double first = t->prefill * 1e3, bytes = 0;
    for (int i = 0; i <= t->n_kinds; i++) {
        const kind *k = i < t->n_kinds ? &t->kinds[i] : &t->head;
        bytes += (double)k->n_out * (double)sp_row_bytes(k->type, k->n_in) * k->count;
    }
    doctor_say(d, DOCTOR_OK, "peaks", NULL,
               "fp32 %.0f GFLOP/s, int8 %.0f Gop/s, read %.1f GB/s with %d threads", p->fp32 / 1e9,
               p->int8 / 1e9, p->read / 1e9, p->n_threads);
    bool slow = first > SLOW_MS;
    json_t *f = doctor_say(d, slow ? DOCTOR_WARNING : DOCTOR_OK, "prefill",
                           slow ? "long prompts will be slow until their documents are cached: "
                                  "--reuse fusion, --store"
                                : NULL,
                           "about %.0f tokens/s: %.0f ms for %d tokens", t->n_prompt / t->prefill,
                           first, t->n_prompt);
    doctor_number(f, "tokens_per_second", t->n_prompt / t->prefill);
    f = doctor_say(d, DOCTOR_OK, "decode", NULL,
                   "about %.1f tokens/s after %d tokens (memory bandwidth allows %.1f)",
                   1 / t->decode, t->n_prompt, p->read / bytes);
    doctor_number(f, "tokens_per_second", 1 / t->decode);
}

static void measure(doctor *d, sp_model *m)
{
    const model_options *o = d->o;
    const char *kv_type = o->type_k ? o->type_k : o->type_v ? o->type_v : SP_KV_TYPE;
    timing t = {.model = m, .n_prompt = SP_MIN(N_PROMPT, n_ctx_of(d, m))};
    t.batch = SP_MIN(o->ctx.n_batch > 0 ? o->ctx.n_batch : BATCH, t.n_prompt);
    list_kinds(&t, m);
    sp_err err = sp_meter_open(o->ctx.machine.n_threads, o->ctx.machine.cpu, &t.meter);
    if (err == SP_OK) err = time_steps(&t, kv_type);
    if (err == SP_OK) {
        sp_peaks peaks = sp_meter_peaks(t.meter);
        say_speed(d, &t, &peaks);
    } else {
        doctor_say(d, DOCTOR_WARNING, "speed", NULL, "not measured: %s", sp_error_detail());
    }
    sp_meter_close(t.meter);
}

void doctor_model(doctor *d)
{
    sp_model *m;
    const sp_ops *ops;
    d->group = "model";
    sp_err err = sp_model_open(d->o->ctx.model, &m);
    if (err != SP_OK) {
        doctor_say(d, DOCTOR_PROBLEM, "model", "spolia inspect shows what the file has", "%s",
                   sp_error_detail());
        return;
    }
    say_file(d, m);
    if (m->hp.n_layers < 1) {
        doctor_say(d, DOCTOR_PROBLEM, "weights", "use a file that has them", "none in the file");
    } else if (sp_ops_select(d->o->ctx.machine.cpu, &ops) == SP_OK) {
        double per_token = token_bytes(d, m);
        say_memory(d, m, ops);
        if (per_token > 0) say_kv(d, m, per_token);
        if (per_token > 0) measure(d, m);
    }
    sp_model_close(m);
}
