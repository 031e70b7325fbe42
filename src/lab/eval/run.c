/* run.c -- one question in every setting, each from a comparable state of the cache.
 *
 * "off" answers first: its answer and its logits are the reference. Then each setting answers the
 * same prompt. What a setting can do depends on the cached copies, so the cache is prepared:
 *
 *   lane     settings                     before a question is measured
 *   common   off, full, random, h2o,      each chunk gets a plain copy (and a fused copy for
 *            blend, fusion, flow          "+fused"). These settings keep nothing else, so they can
 *                                         share the lane
 *   traces   craft, inplace               craft keeps placed copies, and would find this very prompt
 *                                         in a second run. So the cache is emptied, and two other
 *                                         prompts place this question's chunks: chunks of the next
 *                                         question, then every other chunk of this one
 *   stream   prefix, set: one each        what earlier questions left, as in production
 *
 * A lane is a context with its own KV memory. With --cold every setting but off has a lane of its
 * own and nothing is prepared, as in production from the first request on.
 *
 * The first run of a setting answers freely: it gives answer, first token, time and KV deviation.
 * If its answer differs from off's, a second run is forced along off's answer to measure the
 * divergence of the later tokens; otherwise the first run has measured it.
 *
 * EVAL_LIKELIHOOD replaces both by one run that is forced along the reference answer: its negative
 * log-likelihood tells settings apart where a small model's answers are mostly wrong. */
#include "lab/eval/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/logprob.h"
#include "lab/metrics.h"
#include "serve/check/measure.h"

/* The logits before each token of an answer. */
typedef struct trace {
    float *logits; /* [n, n_vocab] */
    int n, n_vocab;
    size_t cap; /* rows */
} trace;

typedef struct lane {
    sp_context *ctx;
    bool compares_kv;      /* its settings' keys and values are compared with those of off */
    sp_request *reference; /* this question under off */
    const eval_question *kept; /* its chunks have copies: plain ones; in lane traces, of a steady policy ... */
    const char *kept_by;       /* ... with these parameters */
} lane;

struct eval_run {
    eval_run_opts o;
    model_options model;
    lane *lanes;
    int n_lanes;
    int *lane_of; /* [settings] */
    trace off, other;
    int n_layers;
};

/* A question while it is measured. */
typedef struct asked {
    const eval_question *q;
    eval_context chunks, strangers; /* its own; those of the next question */
    int32_t *reference;             /* [n_reference] tokens of its first answer; unless only answers are wanted */
    size_t n_reference;
} asked;

/* -- prompts and requests ------------------------------------------------------------------- */

static bool good(sp_err err)
{
    if (err != SP_OK) cli_fail(err);
    return err == SP_OK;
}

/* begin_prompt -- the system text; the caller adds what follows. */
static sp_err begin_prompt(sp_context *c, const char *system, sp_prompt **out)
{
    sp_prompt *p;
    sp_err err = sp_prompt_create(c, &p);
    if (err != SP_OK) return err;
    err = sp_prompt_system(p, system);
    if (err == SP_OK)
        *out = p;
    else
        sp_prompt_destroy(p);
    return err;
}

/* add_chunks -- every step-th of the chunks [from, to). */
static sp_err add_chunks(sp_prompt *p, const eval_context *c, size_t from, size_t to, size_t step)
{
    sp_err err = SP_OK;
    for (size_t i = from; i < to && err == SP_OK; i += step)
        err = sp_prompt_chunk(p, c->v[i].title, c->v[i].text);
    return err;
}

static sp_prompt *make_prompt(const eval_run *e, sp_context *c, const asked *a)
{
    sp_prompt *p = NULL;
    sp_err err = begin_prompt(c, e->o.system, &p);
    if (err == SP_OK) err = add_chunks(p, &a->chunks, 0, a->chunks.n, 1);
    char *question = cli_join(a->q->text, e->o.cue);
    if (err == SP_OK) err = sp_prompt_question(p, question);
    free(question);
    if (good(err)) return p;
    sp_prompt_destroy(p);
    return NULL;
}

/* generate -- runs a request to its end; NULL after an error message, or silently when interrupted. */
static sp_request *generate(const eval_run *e, sp_context *c, const sp_prompt *p,
                            const sp_request_opts *o, const sp_measure *m)
{
    sp_request *r = NULL;
    sp_err err = sp_measure_submit(c, p, o, m, &r);
    for (bool busy = true; err == SP_OK && busy && !progress_interrupted();)
        err = sp_context_step(c, &busy);
    const sp_result *res = r ? sp_request_result(r) : NULL;
    bool failed = err == SP_OK && res->finish == SP_FINISH_ERROR;
    if (failed) cli_fail_with("%s (%s)", res->detail, sp_error_text(res->err));
    if (good(err) && !failed && res->finish != SP_FINISH_NONE) return r;
    sp_request_destroy(r);
    return NULL;
}

static bool warm(const eval_run *e, sp_context *c, const sp_prompt *p, const sp_reuse_opts *reuse)
{
    sp_request_opts o = {.reuse = reuse, .sampling = sp_sampling_default()};
    sp_request *r = generate(e, c, p, &o, &(sp_measure){0});
    sp_request_destroy(r);
    return r != NULL;
}

static sp_err keep_logits(int position, const float *logits, int n_vocab, void *user)
{
    trace *t = user;
    size_t row = (size_t)n_vocab * sizeof *logits;
    t->n_vocab = n_vocab;
    t->logits = cli_grow(t->logits, (size_t)t->n, &t->cap, row);
    memcpy(t->logits + (size_t)t->n++ * (size_t)n_vocab, logits, row);
    return SP_OK;
}

static const float *logits_at(const trace *t, int i)
{
    return t->logits + (size_t)i * (size_t)t->n_vocab;
}

/* answer -- the answer of a setting, with its logits in *t unless it is NULL. */
static sp_request *answer(const eval_run *e, sp_context *c, const sp_prompt *p,
                          const sp_reuse_opts *reuse, bool keep_kv, trace *t)
{
    sp_request_opts o = {.reuse = reuse,
                         .sampling = sp_sampling_default(),
                         .max_tokens = e->o.max_tokens,
                         .stop = e->o.stop->v,
                         .n_stop = e->o.stop->n};
    const sp_measure m = {.on_logits = t ? keep_logits : NULL, .user = t, .keep_kv = keep_kv};
    if (t) t->n = 0;
    return generate(e, c, p, &o, &m);
}

/* -- before a measurement ------------------------------------------------------------------- */

/* id_of -- the chunk of the index with the text of one of a JSONL file; 0: none. */
static sp_err id_of(const eval_run *e, const eval_chunk *chunk, int64_t *out)
{
    enum { LOOKED_AT = 8 };
    sp_hits hits = {0};
    *out = chunk->id;
    if (chunk->id) return SP_OK;
    SP_TRY(sp_index_search(e->o.docs->index, chunk->text, LOOKED_AT, &hits));
    for (int i = 0; i < hits.n && !*out; i++)
        if (strcmp(hits.v[i].text, chunk->text) == 0) *out = hits.v[i].id;
    sp_hits_fini(&hits);
    return SP_OK;
}

/* similar_to -- the chunks of the index most similar to this one, without itself. */
static sp_err similar_to(const eval_run *e, const eval_chunk *chunk, sp_hits *out)
{
    sp_index *index = e->o.docs->index;
    const bool by_words = strcmp(e->o.similar, "bm25") == 0;
    int64_t id = chunk->id;
    if (!id && strcmp(e->o.similar, "neighbour") == 0) return SP_OK; /* see prior_text */
    if (!by_words) SP_TRY(id_of(e, chunk, &id));
    if (id) return sp_index_similar(index, e->o.similar, id, e->o.n_fuse, out);
    if (!by_words) return sp_fail(SP_E_NOTFOUND, "%s: not in the index, as its similar chunks must be", chunk->title);
    sp_err err = sp_index_search(index, chunk->text, e->o.n_fuse + 1, out);
    int n = 0;
    for (int i = 0; err == SP_OK && i < out->n && n < e->o.n_fuse; i++)
        if (strcmp(out->v[i].text, chunk->text) != 0) out->v[n++] = out->v[i];
    if (err == SP_OK) out->n = n;
    return err;
}

/* fuse -- makes a fused copy of a chunk, conditioned on as many similar chunks as fit. */
static bool fuse(const eval_run *e, sp_context *c, const eval_chunk *chunk)
{
    sp_hits similar = {0};
    sp_prompt *p = NULL;
    int n_ctx = sp_context_describe(c).n_ctx;
    sp_err err = similar_to(e, chunk, &similar);
    sp_hit prior = {.title = chunk->prior_title, .text = chunk->prior_text};
    bool use_prior = similar.n == 0 && prior.text && strcmp(e->o.similar, "neighbour") == 0;
    const sp_hit *v = use_prior ? &prior : similar.v;
    if (err == SP_OK && similar.n == 0 && !use_prior) {
        sp_hits_fini(&similar);
        return true; /* no similar chunk: the plain copy is used */
    }
    for (int n = use_prior ? 1 : similar.n; err == SP_OK; n--) {
        err = begin_prompt(c, e->o.system, &p);
        for (int i = 0; i < n && err == SP_OK; i++) err = sp_prompt_chunk(p, v[i].title, v[i].text);
        if (err == SP_OK) err = sp_prompt_chunk(p, chunk->title, chunk->text);
        if (n == 0 || err != SP_OK || sp_prompt_n_tokens(p) <= n_ctx) break;
        sp_prompt_destroy(p);
        p = NULL;
    }
    if (err == SP_OK) err = sp_chunk_fuse(c, p, NULL);
    sp_prompt_destroy(p);
    sp_hits_fini(&similar);
    return good(err);
}

static bool fuse_all(const eval_run *e, sp_context *c, const asked *a)
{
    for (size_t i = 0; i < a->chunks.n; i++)
        if (!fuse(e, c, &a->chunks.v[i])) return false;
    return true;
}

/* read_elsewhere -- gives each chunk a placed copy from another prompt: some chunks of the next
 * question, then every other chunk of this one. */
static bool read_elsewhere(const eval_run *e, sp_context *c, const asked *a,
                           const sp_reuse_opts *reuse)
{
    bool done = true;
    for (size_t parity = 0; parity < 2 && parity < a->chunks.n && done; parity++) {
        sp_prompt *p = NULL;
        size_t n_strangers = a->strangers.n < a->chunks.n / 2 ? a->strangers.n : a->chunks.n / 2;
        sp_err err = begin_prompt(c, e->o.system, &p);
        if (err == SP_OK) err = add_chunks(p, &a->strangers, 0, n_strangers, 1);
        if (err == SP_OK) err = add_chunks(p, &a->chunks, parity, a->chunks.n, 2);
        if (err == SP_OK) err = sp_prompt_question(p, a->q->text);
        done = good(err) && warm(e, c, p, reuse);
        sp_prompt_destroy(p);
    }
    return done;
}

/* make_copies -- that a setting starts with. */
static bool make_copies(const eval_run *e, lane *l, const eval_setting *s, const asked *a,
                        const sp_prompt *p)
{
    if (e->o.cold || s->habits & EVAL_STREAM) return true;
    if (s->habits & EVAL_TRACES) {
        if (s->habits & EVAL_STEADY && l->kept == a->q && strcmp(l->kept_by, s->spec) == 0) return true;
        l->kept = s->habits & EVAL_STEADY ? a->q : NULL;
        l->kept_by = s->spec;
        sp_context_forget(l->ctx);
        return (s->reuse.unfused || fuse_all(e, l->ctx, a)) &&
               read_elsewhere(e, l->ctx, a, &s->reuse);
    }
    if (strcmp(s->reuse.policy, "off") == 0) return true;
    sp_reuse_opts plain = s->reuse; /* the policy itself runs: it may record facts about a copy */
    plain.unfused = true;
    const bool known = s->habits & EVAL_STEADY && l->kept == a->q;
    if (!known && !warm(e, l->ctx, p, &plain)) return false;
    l->kept = a->q;
    return s->reuse.unfused || fuse_all(e, l->ctx, a);
}

/* prepare -- and moves them to the host, if they are to come from there. */
static bool prepare(const eval_run *e, lane *l, const eval_setting *s, const asked *a,
                    const sp_prompt *p)
{
    return make_copies(e, l, s, a, p) &&
           (!e->o.from_host || e->o.cold || good(sp_measure_swap_out(l->ctx)));
}

/* -- measuring ------------------------------------------------------------------------------ */

static bool same_answer(const sp_result *a, const sp_result *b)
{
    return a->n_generated == b->n_generated &&
           memcmp(a->tokens, b->tokens, (size_t)a->n_generated * sizeof *a->tokens) == 0;
}

static double mean_kl(const trace *p, const trace *q)
{
    int n = p->n < q->n ? p->n : q->n;
    double sum = 0;
    for (int i = 0; i < n; i++) sum += metric_kl(logits_at(p, i), logits_at(q, i), p->n_vocab);
    return n ? sum / n : NAN;
}

/* forced -- the setting along these tokens, with its logits in *t; NULL as generate. */
static sp_request *forced(const eval_run *e, lane *l, const eval_setting *s, const sp_prompt *p,
                          const sp_measure *along, trace *t)
{
    sp_request_opts o = {
        .reuse = &s->reuse, .sampling = sp_sampling_default(), .max_tokens = along->n_forced};
    sp_measure m = *along;
    if (m.rewinds) {
        if (e->o.max_tokens > o.max_tokens) o.max_tokens = e->o.max_tokens;
        o.stop = e->o.stop->v;
        o.n_stop = e->o.stop->n;
    }
    m.on_logits = keep_logits;
    m.user = t;
    t->n = 0;
    return generate(e, l->ctx, p, &o, &m);
}

/* force -- the setting along off's answer; the logits are in e->other. */
static bool force(eval_run *e, lane *l, const eval_setting *s, const asked *a, const sp_prompt *p,
                  const sp_result *off)
{
    const sp_measure along = {.forced = off->tokens, .n_forced = off->n_generated};
    sp_request *r = prepare(e, l, s, a, p) ? forced(e, l, s, p, &along, &e->other) : NULL;
    sp_request_destroy(r);
    return r != NULL;
}

/* nll -- nats a token of the reference answer under the logits of a run forced along it. */
static double nll(const asked *a, const trace *t)
{
    double sum = 0;
    for (int i = 0; i < t->n; i++) {
        const float *logits = logits_at(t, i);
        sum += log_sum_exp(logits, t->n_vocab) - (double)logits[a->reference[i]];
    }
    return t->n ? sum / t->n : NAN;
}

/* forced_along_reference -- the setting along the reference answer. */
static sp_request *forced_along_reference(const eval_run *e, lane *l, const eval_setting *s, const asked *a,
                                          trace *t)
{
    sp_prompt *p = make_prompt(e, l->ctx, a);
    const sp_measure along = {
        .forced = a->reference, .n_forced = (int)a->n_reference, .rewinds = e->o.measure == EVAL_BOTH};
    sp_request *r = p && prepare(e, l, s, a, p) ? forced(e, l, s, p, &along, t) : NULL;
    sp_prompt_destroy(p);
    return r;
}

static bool compare_kv(const eval_run *e, const lane *l, const sp_request *r, eval_row *row)
{
    float *by_layer = cli_alloc((size_t)e->n_layers, sizeof *by_layer);
    double sum = 0;
    size_t n = 0, room = (size_t)e->n_layers * 16 + 1;
    bool done = good(sp_request_kv_deviation(r, l->reference, by_layer));
    if (done) {
        free(row->text[ROW_KV_LAYERS]);
        char *text = row->text[ROW_KV_LAYERS] = cli_alloc(room, 1);
        for (int i = 0; i < e->n_layers; i++) {
            sum += (double)by_layer[i];
            n += (size_t)snprintf(text + n, room - n, "%s%.4g", i ? ";" : "", (double)by_layer[i]);
        }
        row->number[ROW_KV] = sum / e->n_layers;
    }
    free(by_layer);
    return done;
}

static void fill_row(const asked *a, const eval_setting *s, const sp_result *res, double off_us,
                     eval_row *row)
{
    answer_score score = metric_score(res->text, a->q->answers, a->q->n_answers);
    double *v = row->number;
    int n_chunk = 0;
    for (int i = 0; i < res->n_segments; i++)
        if (strcmp(res->segments[i].kind, "chunk") == 0) n_chunk += res->segments[i].n_tokens;
    for (int i = 0; i < N_ROW_NUMBERS; i++) v[i] = NAN;
    row->text[ROW_ID] = cli_copy(a->q->id);
    row->text[ROW_KIND] = cli_copy(a->q->kind);
    row->text[ROW_POLICY] = cli_copy(s->name);
    row->text[ROW_KV_LAYERS] = cli_copy("");
    row->text[ROW_ANSWER] = cli_copy(res->text);
    v[ROW_RECOMPUTE] = (double)s->reuse.recompute;
    v[ROW_ALPHA] = s->amount;
    v[ROW_EM] = score.em;
    v[ROW_F1] = score.f1;
    v[ROW_ROUGE] = score.rouge_l;
    v[ROW_N_PROMPT] = res->n_prompt;
    v[ROW_N_CHUNK] = n_chunk;
    v[ROW_N_REUSED] = res->n_reused;
    v[ROW_N_AGAIN] = res->n_recomputed;
    v[ROW_N_ANSWER] = res->n_generated;
    v[ROW_TTFT] = (double)res->ttft_us / 1e3;
    v[ROW_SPEEDUP] = res->ttft_us > 0 ? off_us / (double)res->ttft_us : NAN;
    v[ROW_PLAN] = (double)res->plan_us / 1e3;
}

/* fill_history -- what earlier questions have left to this one, and this one to later ones. */
static void fill_history(const eval_run *e, const lane *l, const sp_request *r, eval_row *row)
{
    if (!e->o.cold) return;
    const sp_context_info info = sp_context_describe(l->ctx);
    int n_had, n_saw;
    sp_measure_sights(r, &n_had, &n_saw);
    row->number[ROW_N_HAD] = n_had;
    row->number[ROW_N_SAW] = n_saw;
    row->number[ROW_KV_BYTES] = (double)(info.kv_blocks - info.kv_blocks_free) * (double)info.kv_block_bytes;
    row->number[ROW_COPIES] = (double)info.cached_segments;
    row->number[ROW_EVICTED] = (double)info.n_evicted;
}

/* compare_logits -- with off's along the same tokens. */
static void compare_logits(const eval_run *e, eval_row *row)
{
    const float *first = logits_at(&e->other, 0), *wanted = logits_at(&e->off, 0);
    const int n = e->off.n_vocab;
    row->number[ROW_KL_FIRST] = metric_kl(wanted, first, n);
    row->number[ROW_AGREES] = metric_best(wanted, n) == metric_best(first, n);
    row->number[ROW_KL_ALL] = mean_kl(&e->off, &e->other);
}

/* run_likelihood -- one row from one run along the reference answer; off NULL: this is off. */
static bool run_likelihood(eval_run *e, lane *l, const eval_setting *s, const asked *a,
                           const sp_result *off, eval_row *row)
{
    trace *t = off ? &e->other : &e->off;
    sp_request *r = forced_along_reference(e, l, s, a, t);
    if (!r) return false;
    const sp_result *res = sp_request_result(r);
    fill_row(a, s, res, (double)(off ? off : res)->ttft_us, row);
    fill_history(e, l, r, row);
    if (e->o.measure == EVAL_LIKELIHOOD)
        row->number[ROW_EM] = row->number[ROW_F1] = row->number[ROW_ROUGE] = NAN; /* it is not its own answer */
    row->number[ROW_NLL] = nll(a, t);
    if (off) compare_logits(e, row);
    if (off)
        sp_request_destroy(r);
    else
        l->reference = r;
    return true;
}

/* run_setting -- one row; `off` is the result that it is compared with. */
static bool run_setting(eval_run *e, lane *l, const eval_setting *s, const asked *a,
                        const sp_result *off, eval_row *row)
{
    sp_prompt *p = make_prompt(e, l->ctx, a);
    bool compares = !e->o.scores_only;
    sp_request *r = p && prepare(e, l, s, a, p) ? answer(e, l->ctx, p, &s->reuse, l->compares_kv,
                                                         compares ? &e->other : NULL)
                                                : NULL;
    bool done = r != NULL;
    if (done) {
        const sp_result *res = sp_request_result(r);
        fill_row(a, s, res, (double)off->ttft_us, row);
        fill_history(e, l, r, row);
        done = !l->compares_kv || compare_kv(e, l, r, row);
        if (done && compares && e->other.n > 0) {
            const bool differs = !same_answer(res, off) && e->off.n > 1;
            compare_logits(e, row);
            /* in a cold lane a second run would find the copies of the first */
            if (differs && !e->o.cold) done = force(e, l, s, a, p, off);
            row->number[ROW_KL_ALL] = differs && e->o.cold ? NAN : mean_kl(&e->off, &e->other);
        }
    }
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return done;
}

/* refer -- off's KV in a lane of its own, to compare with. */
static bool refer(const eval_run *e, lane *l, const asked *a)
{
    sp_prompt *p = make_prompt(e, l->ctx, a);
    sp_request_opts o = {
        .reuse = &e->o.settings->v[0].reuse, .sampling = sp_sampling_default(), .max_tokens = 1};
    l->reference = p ? generate(e, l->ctx, p, &o, &(sp_measure){.keep_kv = true}) : NULL;
    sp_prompt_destroy(p);
    return l->reference != NULL;
}

/* run_off -- lane 0 answers without reuse; its request is kept to compare the others with. */
static bool run_off(eval_run *e, const asked *a, eval_row *row)
{
    const eval_setting *s = &e->o.settings->v[0];
    lane *l = &e->lanes[0];
    sp_prompt *p = make_prompt(e, l->ctx, a);
    l->reference =
        p ? answer(e, l->ctx, p, &s->reuse, l->compares_kv, e->o.scores_only ? NULL : &e->off)
          : NULL;
    sp_prompt_destroy(p);
    if (!l->reference) return false;
    const sp_result *res = sp_request_result(l->reference);
    fill_row(a, s, res, (double)res->ttft_us, row);
    fill_history(e, l, l->reference, row);
    if (e->o.scores_only) return true;
    row->number[ROW_KL_FIRST] = row->number[ROW_KL_ALL] = 0;
    row->number[ROW_AGREES] = 1;
    return !l->compares_kv || compare_kv(e, l, l->reference, row);
}

static void drop_asked(asked *a)
{
    sp_buffer_free(a->reference);
    eval_context_drop(&a->chunks);
    eval_context_drop(&a->strangers);
}

static bool find_chunks(const eval_run *e, int i, asked *out)
{
    const eval_questions *all = e->o.questions;
    asked a = {.q = &all->v[i]};
    if (!eval_context_find(e->o.docs, all, a.q, &a.chunks)) return false;
    if (all->n > 1 && !eval_context_find(e->o.docs, all, &all->v[(i + 1) % all->n], &a.strangers)) {
        eval_context_drop(&a.chunks);
        return false;
    }
    const char *text = a.q->answers[0];
    if (e->o.measure != EVAL_ANSWERS &&
        !good(sp_vocab_encode(sp_context_vocab(e->lanes[0].ctx), text, strlen(text), false, &a.reference,
                              &a.n_reference))) {
        drop_asked(&a);
        return false;
    }
    *out = a;
    return true;
}
bool eval_run_question(eval_run *e, int i, eval_row *rows)
{
    asked a;
    if (!find_chunks(e, i, &a)) return false;
    const bool likelihood = e->o.measure != EVAL_ANSWERS;
    const eval_setting *v = e->o.settings->v;
    bool done = likelihood ? run_likelihood(e, &e->lanes[0], &v[0], &a, NULL, &rows[0]) : run_off(e, &a, &rows[0]);
    for (int l = 1; l < e->n_lanes && done; l++)
        if (e->lanes[l].compares_kv) done = refer(e, &e->lanes[l], &a);
    for (int s = 1; s < e->o.settings->n && done; s++)
        done = (likelihood ? run_likelihood : run_setting)(
            e, &e->lanes[e->lane_of[s]], &v[s], &a, sp_request_result(e->lanes[0].reference), &rows[s]);
    for (int l = 0; l < e->n_lanes; l++) {
        sp_request_destroy(e->lanes[l].reference);
        e->lanes[l].reference = NULL;
    }
    drop_asked(&a);
    return done;
}

bool eval_run_replay(eval_run *e, int i)
{
    asked a;
    if (!find_chunks(e, i, &a)) return false;
    bool done = true;
    for (int s = 1; s < e->o.settings->n && done; s++) {
        if (!e->o.cold && !(e->o.settings->v[s].habits & EVAL_STREAM)) continue;
        sp_context *c = e->lanes[e->lane_of[s]].ctx;
        sp_prompt *p = make_prompt(e, c, &a);
        sp_request *r = p ? answer(e, c, p, &e->o.settings->v[s].reuse, false, NULL) : NULL;
        done = r != NULL;
        sp_request_destroy(r);
        sp_prompt_destroy(p);
    }
    drop_asked(&a);
    return done;
}

/* -- opening -------------------------------------------------------------------------------- */

/* check_passages -- without any there is nothing to compare. */
static bool check_passages(const eval_run *e, int n_without)
{
    const char *path = e->o.questions->path;
    const int n = e->o.n_questions;
    if (n > 0 && n_without == n)
        return cli_fail_with("%s: no question has a passage in its prompt: are these its documents?", path), false;
    if (n_without) cli_warn("%s: %d of %d questions have no passage in their prompt", path, n_without, n);
    return true;
}

/* check_prompts -- every prompt and its answer fit the context, and some have a passage. */
static bool check_prompts(const eval_run *e)
{
    const eval_questions *all = e->o.questions;
    int n_ctx = sp_context_describe(e->lanes[0].ctx).n_ctx, n_long = 0, longest = 0, n_without = 0;
    for (int i = 0; i < e->o.n_questions; i++) {
        asked a = {.q = &all->v[i]};
        if (!eval_context_find(e->o.docs, all, a.q, &a.chunks)) return false;
        sp_prompt *p = make_prompt(e, e->lanes[0].ctx, &a);
        int n = p ? sp_prompt_n_tokens(p) : -1;
        n_without += a.chunks.n == 0;
        sp_prompt_destroy(p);
        drop_asked(&a);
        if (n < 0) return false;
        if (n > longest) longest = n;
        n_long += n + e->o.max_tokens > n_ctx;
    }
    if (n_long)
        cli_fail_with("%s: %d of %d prompts (up to %d tokens) do not fit a context of %d tokens "
                      "with %d for the answer; use fewer chunks with -k",
                      all->path, n_long, e->o.n_questions, longest, n_ctx, e->o.max_tokens);
    return n_long == 0 && check_passages(e, n_without);
}

/* assign_lanes -- which settings share a context; returns how many contexts there are. */
static int assign_lanes(eval_run *e)
{
    int n = 1, traces = -1;
    e->lane_of = cli_alloc((size_t)e->o.settings->n, sizeof *e->lane_of);
    e->lanes = cli_alloc((size_t)e->o.settings->n, sizeof *e->lanes);
    for (int s = 0; s < e->o.settings->n; s++) {
        unsigned habits = e->o.settings->v[s].habits;
        int l = 0;
        if (s > 0 && (e->o.cold || habits & EVAL_STREAM))
            l = n++;
        else if (habits & EVAL_TRACES)
            l = traces < 0 ? (traces = n++) : traces;
        e->lane_of[s] = l;
        e->lanes[l].compares_kv = !e->o.cold && !e->o.scores_only && e->o.measure == EVAL_ANSWERS &&
                                  !(habits & EVAL_STREAM);
    }
    return n;
}

/* open_lane -- a store keeps copies that are forgotten, so only the common lane uses it; cold lanes but off's have
 * folders of their own in it, by number. */
static bool open_lane(eval_run *e, int i)
{
    const char *store = e->o.model->ctx.tiers.store;
    char folder[16], *own = NULL;
    snprintf(folder, sizeof folder, "/%d", i);
    if (store && e->o.cold && i > 0) own = cli_join(store, folder);
    if (own && ((mkdir(store, 0777) != 0 && errno != EEXIST) || (mkdir(own, 0777) != 0 && errno != EEXIST))) {
        cli_fail_with("--store: %s: %s", own, strerror(errno));
        free(own);
        return false;
    }
    e->model.ctx.tiers.store = e->o.cold ? own : i == 0 ? store : NULL;
    e->lanes[i].ctx = model_options_open(&e->model);
    free(own);
    return e->lanes[i].ctx != NULL;
}

eval_run *eval_run_open(const eval_run_opts *o)
{
    eval_run *e = cli_alloc(1, sizeof *e);
    e->o = *o;
    e->model = *o->model;
    e->model.ctx.max_requests = 1; /* one at a time: their times are compared */
    e->model.ctx.guard.share = 0;
    int n = assign_lanes(e);
    for (; e->n_lanes < n; e->n_lanes++)
        if (!open_lane(e, e->n_lanes)) break;
    if (e->n_lanes == n) {
        e->n_layers = sp_context_describe(e->lanes[0].ctx).n_layers;
        if (check_prompts(e)) return e;
    }
    eval_run_close(e);
    return NULL;
}

void eval_run_close(eval_run *e)
{
    if (!e) return;
    for (int l = 0; l < e->n_lanes; l++) sp_context_close(e->lanes[l].ctx);
    free(e->lanes);
    free(e->lane_of);
    free(e->off.logits);
    free(e->other.logits);
    free(e);
}
