/* model.c -- the model in `spolia doctor`. The file is mapped and its sizes are checked; of its weights only those of
 * a few layers are loaded, to measure the speed (speed.c). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compute/kernels.h"
#include "compute/meter.h"
#include "doctor/doctor_int.h"
#include "doctor/speed.h"
#include "kv/pool.h"
#include "model/model.h"

#define MIB       ((double)(1 << 20))
#define BATCH     256  /* rows of a step, as in sp_context_opts */
#define N_PROMPT  2048 /* tokens of the prompt that is timed */
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

/* weight_bytes -- memory that the weights take: packed, or as in the file. */
static size_t weight_bytes(sp_model *m, const sp_ops *ops)
{
    size_t sum = 0;
    int i = 0;
    for (const sp_mat *w; (w = sp_model_next_matrix(m, &i));) {
        size_t packed = ops->pack_bytes ? ops->pack_bytes(w) : 0;
        sum += packed ? packed : (size_t)w->n_rows * sp_row_bytes(w->type, w->n_cols);
    }
    return sum;
}

static int n_ctx_of(const doctor *d, const sp_model *m)
{
    return d->o->ctx.n_ctx ? d->o->ctx.n_ctx : SP_MIN(m->hp.n_ctx, 8192);
}

/* token_bytes -- keys and values of a token, and their type; 0 after a problem. */
static double token_bytes(doctor *d, const sp_model *m, sp_dtype *type)
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
    *type = shape.type;
    if (sp_kv_shape_check(&shape) == SP_OK)
        return (double)sp_kv_block_bytes(&shape) / SP_BLOCK_TOKENS;
    doctor_say(d, DOCTOR_PROBLEM, "KV type", "choose another -ctk", "%s", sp_error_detail());
    return 0;
}

/* say_store -- a store without a limit takes half of what is free. */
static void say_store(doctor *d, double per_token)
{
    const double half = (double)d->disk_bytes / 2, limit = (double)d->o->ctx.tiers.store_bytes;
    const double bytes = limit > 0 && limit < (double)d->disk_bytes ? limit : half;
    json_t *f = doctor_say(d, DOCTOR_OK, "store", NULL, "room for %.2g million tokens of documents in %.1f GiB%s",
                           bytes / per_token / 1e6, bytes / MIB / 1024,
                           limit > 0 ? "" : ", half of what is free (--store-max sets another limit)");
    doctor_number(f, "tokens", bytes / per_token);
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
        say_store(d, per_token);
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

static void say_speed(doctor *d, int n_prompt, const doctor_speed *s)
{
    const double first = s->prefill * 1e3;
    const bool slow = first > SLOW_MS;
    json_t *f = doctor_say(d, slow ? DOCTOR_WARNING : DOCTOR_OK, "prefill",
                           slow ? "long prompts will be slow until their documents are cached: "
                                  "--reuse fusion, --store"
                                : NULL,
                           "about %.0f tokens/s: %.0f ms for %d tokens", n_prompt / s->prefill, first, n_prompt);
    doctor_number(f, "tokens_per_second", n_prompt / s->prefill);
}

static sp_err say_decode(doctor *d, int n_prompt, double bytes, const doctor_speed *s)
{
    sp_meter *meter;
    SP_TRY(sp_meter_open(d->o->ctx.machine.n_threads, d->o->ctx.machine.cpu, &meter));
    const sp_peaks p = sp_meter_peaks(meter);
    sp_meter_close(meter);
    doctor_say(d, DOCTOR_OK, "peaks", NULL, "fp32 %.0f GFLOP/s, int8 %.0f Gop/s, read %.1f GB/s with %d threads",
               p.fp32 / 1e9, p.int8 / 1e9, p.read / 1e9, p.n_threads);
    json_t *f = doctor_say(d, DOCTOR_OK, "decode", NULL,
                           "about %.1f tokens/s after %d tokens (memory bandwidth allows %.1f)", 1 / s->decode,
                           n_prompt, p.read / bytes);
    doctor_number(f, "tokens_per_second", 1 / s->decode);
    return SP_OK;
}

static void measure(doctor *d, sp_model *m, sp_dtype kv_type)
{
    const sp_context_opts *o = &d->o->ctx;
    const int n_prompt = SP_MIN(N_PROMPT, n_ctx_of(d, m));
    const doctor_run run = {.cpu = o->machine.cpu,
                            .n_threads = o->machine.n_threads,
                            .kv_type = kv_type,
                            .n_prompt = n_prompt,
                            .n_batch = SP_MIN(o->n_batch > 0 ? o->n_batch : BATCH, n_prompt)};
    const double bytes = (double)doctor_step_bytes(m);
    doctor_speed s;
    sp_err err = doctor_measure(m, &run, &s);
    if (err == SP_OK) say_speed(d, n_prompt, &s);
    if (err == SP_OK) err = say_decode(d, n_prompt, bytes, &s);
    if (err != SP_OK) doctor_say(d, DOCTOR_WARNING, "speed", NULL, "not measured: %s", sp_error_detail());
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
        sp_dtype type = SP_F16;
        double per_token = token_bytes(d, m, &type);
        say_memory(d, m, ops);
        if (per_token > 0) say_kv(d, m, per_token);
        if (per_token > 0 && n_ctx_of(d, m) > 0) measure(d, m, type);
    }
    sp_model_close(m);
}
