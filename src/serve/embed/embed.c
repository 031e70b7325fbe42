/* embed.c -- the public interface of encoders: from texts to vectors; pairs.c has scores.
 *
 *   texts --tokenize (caller's thread)--> ids --steps, under the lock--> vectors --shorten--> out
 *
 * An embedder owns its device, encoder and the memory of a step. Calls of several threads take turns after
 * each step, so a long list does not block a short one. */
#include "serve/embed/embed_int.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/need.h"

/* -- opening -------------------------------------------------------------------------------- */

static sp_err open_all(sp_embedder *e, const sp_embedder_opts *o)
{
    const sp_device_opts d = {.kernels = o->machine.cpu,
                              .n_threads = o->machine.n_threads,
                              .exact_products = o->machine.exact_products,
                              .amx_f16 = o->machine.amx_f16,
                              .amx_attend = o->machine.amx_attend};
    SP_TRY(sp_encoder_open(o->model, &e->encoder));
    SP_TRY(sp_device_open(o->machine.device, &d, &e->device));
    SP_TRY(sp_encoder_load(e->encoder, e->device));
    return sp_encode_pass_create(e->encoder, e->device, o->step_tokens, &e->pass);
}

sp_err sp_embedder_open(const sp_embedder_opts *o, sp_embedder **out)
{
    SP_NEED(o);
    SP_NEED(out);
    if (!o->model || !*o->model) return sp_fail(SP_E_ARG, "model: give a GGUF file or a folder of an encoder");
    if (o->step_tokens < 0 || o->step_tokens > 1 << 20)
        return sp_fail(SP_E_ARG, "step_tokens: %d is not in 0..2^20", o->step_tokens);
    sp_embedder *e = SP_NEW(sp_embedder);
    if (!e) return sp_fail_nomem("the embedder");
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->turn, NULL);
    sp_err err = open_all(e, o);
    if (err == SP_OK)
        *out = e;
    else
        sp_embedder_close(e);
    return err;
}

void sp_embedder_close(sp_embedder *e)
{
    if (!e) return;
    sp_encode_pass_destroy(e->pass);
    sp_encoder_close(e->encoder);
    if (e->device) sp_device_close(e->device);
    pthread_mutex_destroy(&e->lock);
    pthread_mutex_destroy(&e->turn);
    sp_free(e);
}

sp_embedder_info sp_embedder_describe(const sp_embedder *e)
{
    if (!e) return (sp_embedder_info){0};
    const sp_encoder *m = e->encoder;
    sp_embedder_info i = {.path = m->path,
                          .kernels = e->device->kernels,
                          .n_embd = m->size.n_embd,
                          .max_tokens = m->recipe.max_tokens,
                          .n_vocab = m->size.n_vocab,
                          .n_layers = m->size.n_layers,
                          .n_threads = e->device->n_threads,
                          .normalized = m->recipe.normalize,
                          .scores_pairs = m->head != NULL,
                          .query_prompt = m->recipe.prompt[SP_ENCODE_QUERY],
                          .document_prompt = m->recipe.prompt[SP_ENCODE_DOCUMENT]};
    sp_digest_hex(&m->id, 16, i.id);
    return i;
}

/* -- one call ------------------------------------------------------------------------------- */

sp_err sp_embed_job_init(sp_embed_job *j, size_t n, float *out, int width)
{
    j->n = n;
    j->texts = SP_NEW_N(sp_encode_text, n);
    if (!j->texts) return sp_fail_nomem("the inputs of an encoder");
    for (size_t i = 0; i < n; i++) j->texts[i].out = out + i * (size_t)width;
    return SP_OK;
}

void sp_embed_job_fini(sp_embed_job *j)
{
    sp_vec_fini(&j->ids);
    sp_free(j->texts);
}

sp_err sp_embed_too_long(const sp_embed_job *j, size_t i, size_t n)
{
    return sp_fail(SP_E_CONTEXT, "input %zu has %zu tokens, the model takes %d", i, n,
                   j->e->encoder->recipe.max_tokens);
}

/* take_turn -- Owns: e->lock. */
static void take_turn(const sp_embed_job *j)
{
    sp_embedder *e = j->e;
    const int urgent = j->o->rests ? 0 : 1;
    atomic_fetch_add(&e->n_urgent, urgent);
    pthread_mutex_lock(&e->turn);
    pthread_mutex_lock(&e->lock);
    pthread_mutex_unlock(&e->turn);
    atomic_fetch_sub(&e->n_urgent, urgent);
}

/* rest -- between two layers. Called with e->lock held. */
static void rest(void *user)
{
    const sp_embed_job *j = user;
    const struct timespec tick = {.tv_nsec = 1000000};
    const int64_t from = sp_clock_us();
    while (!atomic_load(&j->e->n_urgent) && j->o->rests(j->o->user)) nanosleep(&tick, NULL);
    j->e->rested_us += sp_clock_us() - from;
}

/* most_tokens -- of the next step; 0: any number. Called with e->lock held. */
static int64_t most_tokens(const sp_embed_job *j)
{
    const int64_t us = j->o->step_us ? j->o->step_us(j->o->user) : 0;
    if (us <= 0) return 0;
    return j->e->token_us > 0 ? SP_MAX((int64_t)((double)us / j->e->token_us), 1) : 1;
}

/* step -- of n texts. Called with e->lock held. */
static sp_err step(sp_embed_job *j, const sp_encode_text *texts, size_t n)
{
    sp_embedder *e = j->e;
    int64_t n_tokens = 0;
    const int64_t from = sp_clock_us();
    for (size_t i = 0; i < n; i++) n_tokens += texts[i].n;
    e->rested_us = 0;
    sp_err err = sp_encode_step(e->pass, texts, n, j->o->rests ? rest : NULL, j);
    const double us = (double)(sp_clock_us() - from - e->rested_us) / (double)n_tokens;
    e->token_us = e->token_us > 0 ? (e->token_us + us) / 2 : us;
    return err;
}

/* The steps of one call; before each it waits for its turn. */
static sp_err compute(sp_embed_job *j)
{
    sp_embedder *e = j->e;
    sp_err err = SP_OK;
    for (size_t at = 0, n = 0; at < j->n && err == SP_OK; at += n) {
        if (j->o->stop && j->o->stop(j->o->user)) return sp_fail(SP_E_CANCELED, "the caller is gone");
        take_turn(j);
        n = sp_encode_fit(e->pass, j->texts + at, j->n - at, most_tokens(j));
        err = step(j, j->texts + at, n);
        pthread_mutex_unlock(&e->lock);
    }
    return err;
}

sp_err sp_embed_job_run(sp_embed_job *j, int32_t *n_tokens)
{
    size_t at = 0;
    for (size_t i = 0; i < j->n; at += (size_t)j->texts[i++].n) j->texts[i].ids = j->ids.v + at;
    for (size_t i = 0; i < j->n && n_tokens; i++) n_tokens[i] = j->texts[i].n;
    return compute(j);
}

/* -- vectors -------------------------------------------------------------------------------- */

static const char *prompt_of(const sp_embed_job *j)
{
    static const sp_encode_kind kinds[] = {SP_ENCODE_PLAIN, SP_ENCODE_QUERY, SP_ENCODE_DOCUMENT};
    return j->e->encoder->recipe.prompt[kinds[j->o->kind]];
}

static sp_err add_id(sp_embed_job *j, int32_t id)
{
    SP_TRY(sp_vec_reserve(&j->ids, 1));
    j->ids.v[j->ids.n++] = id;
    return SP_OK;
}

/* Texts of special tokens are those tokens, as in the tokenizers library. A long text loses its end, but keeps the
 * last special token. */
static sp_err add_text(sp_embed_job *j, size_t i, const sp_embed_input *in)
{
    const sp_tokenizer *t = j->e->encoder->tokenizer;
    const char *prompt = prompt_of(j);
    const size_t from = j->ids.n, n_end = sp_tokenizer_adds_eos(t), n_prompt = strlen(prompt);
    const size_t most = (size_t)j->e->encoder->recipe.max_tokens - n_end;
    sp_bytes text = {0};
    sp_err err = n_prompt ? sp_bytes_add(&text, prompt, n_prompt) : SP_OK;
    if (err == SP_OK && n_prompt) err = sp_bytes_add(&text, in->text, in->n);
    if (err == SP_OK)
        err = sp_tokenizer_encode(t, n_prompt ? text.v : in->text, n_prompt ? text.n : in->n,
                                  SP_TOK_BOS | SP_TOK_SPECIAL, &j->ids);
    sp_vec_fini(&text);
    SP_TRY(err);
    if (j->ids.n - from > most && j->o->refuse_long) return sp_embed_too_long(j, i, j->ids.n - from + n_end);
    if (j->ids.n - from > most) j->ids.n = from + most;
    if (n_end) SP_TRY(add_id(j, sp_tokenizer_eos(t)));
    if (j->ids.n == from) return sp_fail(SP_E_ARG, "input %zu has no tokens", i);
    return SP_OK;
}

static sp_err add_ids(sp_embed_job *j, size_t i, const sp_embed_input *in)
{
    const sp_encoder *m = j->e->encoder;
    const size_t most = (size_t)m->recipe.max_tokens;
    if (in->n_ids == 0 || !in->ids) return sp_fail(SP_E_ARG, "input %zu has no tokens", i);
    if (in->n_ids > most && j->o->refuse_long) return sp_embed_too_long(j, i, in->n_ids);
    for (size_t k = 0; k < SP_MIN(in->n_ids, most); k++) {
        if (in->ids[k] < 0 || in->ids[k] >= m->size.n_vocab)
            return sp_fail(SP_E_ARG, "input %zu: token %d is not one of the model's %d", i, in->ids[k],
                           m->size.n_vocab);
        SP_TRY(add_id(j, in->ids[k]));
    }
    return SP_OK;
}

static sp_err read_inputs(sp_embed_job *j, const sp_embed_input *inputs)
{
    for (size_t i = 0, at = 0; i < j->n; i++) {
        SP_TRY(inputs[i].text ? add_text(j, i, &inputs[i]) : add_ids(j, i, &inputs[i]));
        j->texts[i].n = (int32_t)(j->ids.n - at);
        at = j->ids.n;
    }
    return SP_OK;
}

/* The first n_dims elements of each vector. */
static void shorten(const sp_embed_job *j, int n_dims, float *out)
{
    const int width = j->e->encoder->size.n_embd;
    const bool scale = n_dims < width && j->e->encoder->recipe.normalize;
    for (size_t i = 0; i < j->n; i++) {
        const float *from = j->texts[i].out;
        float *to = out + i * (size_t)n_dims;
        double square = 0;
        for (int k = 0; k < n_dims; k++) square += (double)from[k] * from[k];
        const double factor = scale ? 1 / fmax(sqrt(square), 1e-12) : 1;
        for (int k = 0; k < n_dims; k++) to[k] = (float)(from[k] * factor);
    }
}

sp_err sp_embedder_embed(sp_embedder *e, const sp_embed_input *inputs, size_t n, const sp_embed_opts *o, float *out,
                         int32_t *n_tokens)
{
    static const sp_embed_opts defaults;
    SP_NEED(e);
    if (n == 0) return SP_OK;
    SP_NEED(inputs);
    SP_NEED(out);
    sp_embed_job j = {.e = e, .o = o ? o : &defaults};
    const int width = e->encoder->size.n_embd, n_dims = j.o->dimensions ? j.o->dimensions : width;
    if (e->encoder->head)
        return sp_fail(SP_E_UNSUPPORTED, "%s: a cross-encoder scores pairs of texts and makes no vectors",
                       e->encoder->path);
    if (n_dims < 1 || n_dims > width)
        return sp_fail(SP_E_ARG, "dimensions: %d is not a number from 1 to %d, the length of the model's vectors",
                       n_dims, width);
    if ((unsigned)j.o->kind > SP_EMBED_DOCUMENT) return sp_fail(SP_E_ARG, "kind: %d is unknown", (int)j.o->kind);
    float *vectors = sp_alloc(n * (size_t)width, sizeof *vectors);
    if (!vectors) return sp_fail_nomem("vectors");
    sp_err err = sp_embed_job_init(&j, n, vectors, width);
    if (err == SP_OK) err = read_inputs(&j, inputs);
    if (err == SP_OK) err = sp_embed_job_run(&j, n_tokens);
    if (err == SP_OK) shorten(&j, n_dims, out);
    sp_embed_job_fini(&j);
    sp_free(vectors);
    return err;
}
