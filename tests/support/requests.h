/* requests.h -- contexts on a small random model, and requests over documents named by digits.
 *
 * Every step also checks the invariants of serve/request/request.h: what is set aside for the running
 * requests is there, and enough for their answers. */
#ifndef SP_TESTS_REQUESTS_H
#define SP_TESTS_REQUESTS_H

#include <stdlib.h>

#include "support/check.h"

#include "base/hash.h"
#include "serve/check/measure.h"
#include "serve/request/request.h"

#define MODEL "tests/golden/tiny.gguf"

typedef struct policy {
    const char *name;
    float recompute;
} policy;

/* Policies of the library's list, by what they do. */
typedef enum policy_set {
    EVERY_POLICY,
    CHUNKS_ANYWHERE, /* take chunks at any position */
    PLAIN_COPIES,    /* of these, those that keep no placed copies */
    FUSED_COPIES,    /* of these, those that fused copies can serve */
    RECOMPUTING,
} policy_set;

static inline bool is_in_set(const sp_reuse_info *p, policy_set which)
{
    if (which == RECOMPUTING) return p->recomputes;
    if (which == CHUNKS_ANYWHERE) return p->anywhere;
    if (which == PLAIN_COPIES) return p->anywhere && !p->keeps_placed;
    return which == EVERY_POLICY || (p->anywhere && (p->keeps_placed || !p->own_statistics));
}

/* policy_at -- the i-th of a set, with this share where it recomputes one; false after the last. */
static inline bool policy_at(policy_set which, float share, int i, policy *out)
{
    int n;
    const sp_reuse_info *all = sp_reuse_policies(&n);
    for (int k = 0; k < n; k++)
        if (is_in_set(&all[k], which) && i-- == 0) {
            *out = (policy){all[k].name, all[k].recomputes ? share : 0};
            return true;
        }
    return false;
}

/* policies_of -- how many are in it. */
static inline int policies_of(policy_set which)
{
    policy p;
    int n = 0;
    while (policy_at(which, 0, n, &p)) n++;
    return n;
}

static const char *const texts[] = {"Boats leave Velm at nine.", "Torin has two hotels.",
                                    "The Anchor has twelve rooms at the pier.", "x"};

/* open_with -- what is not named is small. */
static inline sp_context *open_with(sp_context_opts o)
{
    sp_context *c = NULL;
    o.model = MODEL;
    if (!o.machine.n_threads) o.machine.n_threads = 1;
    if (!o.cache.kv_bytes) o.cache.kv_bytes = 4 << 20;
    assert_ok(sp_context_open(&o, &c));
    c->loads.patience_us = 60000000; /* a busy machine may let a tier's thread wait longer than requests would */
    return c;
}

static inline sp_context *open_policy(const policy *p)
{
    return open_with(
        (sp_context_opts){.reuse.policy = p->name, .reuse.recompute = p->recompute, .n_batch = 40});
}

/* Nothing but the cache may hold KV once every request is gone. */
static inline void close_clean(sp_context *c)
{
    assert_int_equal(c->reserved, 0);
    assert_int_equal(c->n_running, 0);
    sp_context_forget(c);
    sp_context_info i = sp_context_describe(c);
    assert_int_equal(i.kv_blocks_free, i.kv_blocks);
    assert_int_equal(i.cached_segments, 0);
    sp_context_close(c);
}

/* copy_hash -- of all keys and values of a READY copy's whole blocks. */
static inline uint64_t copy_hash(const sp_context *c, const sp_copy *v)
{
    const size_t n = sp_kv_pool_layer_block_bytes(c->pool);
    uint8_t *staging = malloc(n);
    uint64_t sum = 0;
    for (int l = 0; l < sp_kv_pool_shape(c->pool)->n_layers; l++)
        for (int32_t b = 0; b < v->n / SP_BLOCK_TOKENS; b++) {
            const uint8_t *from;
            assert_ok(sp_kv_pool_read(
                c->pool, (sp_kv_run){.layer = l, .first = v->blocks[b], .n = 1}, staging, &from));
            sum = sum * 31 + sp_hash64(from, n);
        }
    free(staging);
    return sum;
}

/* Copies in memory, by how they are found. */
typedef struct copy_count {
    int n_path, n_content, n_placed;
} copy_count;

static inline copy_count count_copies(const sp_context *c)
{
    copy_count n = {0};
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) {
        if (v->state != SP_COPY_READY) continue;
        n.n_path += v->facts.kind == SP_COPY_PATH;
        n.n_content += v->facts.kind != SP_COPY_PATH;
        n.n_placed += v->facts.kind == SP_COPY_PLACED;
    }
    return n;
}

/* prompt_of -- a system text, chunks named by digits, and perhaps a question. */
static inline sp_prompt *prompt_of(sp_context *c, const char *order, const char *question)
{
    sp_prompt *p;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    for (; *order; order++) assert_ok(sp_prompt_chunk(p, "T", texts[*order - '0']));
    if (question) assert_ok(sp_prompt_question(p, question));
    return p;
}

/* sampled -- with a temperature: greedy text of a random model is one token over and over. */
static inline sp_request_opts sampled(int max_tokens)
{
    sp_request_opts o = {.sampling = sp_sampling_default(), .max_tokens = max_tokens, .ignore_end = true};
    o.sampling.temperature = 1;
    o.sampling.seed = 7;
    return o;
}

static inline sp_request *submit_prompt(sp_context *c, sp_prompt *p, int max_tokens)
{
    const sp_request_opts o = sampled(max_tokens);
    sp_request *r;
    assert_ok(sp_request_submit(c, p, &o, &r));
    sp_prompt_destroy(p);
    return r;
}

static inline sp_request *submit(sp_context *c, const char *order, const char *question,
                                 int max_tokens)
{
    return submit_prompt(c, prompt_of(c, order, question), max_tokens);
}

/* submit_if_it_fits -- NULL: it never fits the KV memory. */
static inline sp_request *submit_if_it_fits(sp_context *c, const char *order, const char *question, int max_tokens)
{
    const sp_request_opts o = sampled(max_tokens);
    sp_request *r = NULL;
    sp_prompt *p = prompt_of(c, order, question);
    const sp_err err = sp_request_submit(c, p, &o, &r);
    sp_prompt_destroy(p);
    if (err != SP_E_CONTEXT) assert_ok(err);
    return r;
}

/* step -- one step, and the invariants after it. */
static inline void step(sp_context *c)
{
    bool busy;
    int64_t sum = 0;
    sp_err err = sp_context_step(c, &busy);
    if (err != SP_E_NOMEM) assert_ok(err);
    for (const sp_request *r = c->running; r; r = r->next) {
        int64_t answer = sp_blocks_for(r->answer.max_tokens);
        if (r->plans.role == SP_PLAN_ANSWER) answer -= sp_blocks_for(r->plans.now.spans[r->plans.answer_span].n);
        assert_true(r->plans.reserved >= SP_MAX(answer, 0));
        for (int i = 0; i < r->prompt.n_segs; i++)
            if (r->look.found[i].copy && r->loads.state != SP_LOADS_EARLY)
                assert_int_equal(r->look.found[i].copy->state, SP_COPY_READY);
        sum += r->plans.reserved;
    }
    assert_int_equal(c->reserved, sum);
    assert_true(sum <= sp_kv_pool_n_free(c->pool));
    assert_int_equal(busy, c->running || c->waiting.first);
}

static inline bool done(const sp_request *r)
{
    return sp_request_result(r)->finish != SP_FINISH_NONE;
}

/* assert_refused -- for want of KV memory, and before anything of it was computed. */
static inline void assert_refused(const sp_request *r)
{
    assert_int_equal(sp_request_result(r)->finish, SP_FINISH_ERROR);
    if (sp_request_result(r)->err != SP_E_CONTEXT) assert_int_equal(sp_request_result(r)->err, SP_E_NOKV);
    assert_int_equal(r->account.start_us, 0);
}

static inline sp_request *run(sp_context *c, sp_request *r)
{
    while (!done(r)) step(c);
    return r;
}

static inline sp_request *ask(sp_context *c, const char *order, const char *question,
                              int max_tokens)
{
    sp_request *r = run(c, submit(c, order, question, max_tokens));
    if (sp_request_result(r)->finish != SP_FINISH_LENGTH)
        fail_msg("%s", sp_request_result(r)->detail);
    assert_int_equal(sp_request_result(r)->n_generated, max_tokens);
    return r;
}

static inline void assert_same_text(const sp_request *a, const sp_request *b)
{
    assert_string_equal(sp_request_result(a)->text, sp_request_result(b)->text);
    assert_int_equal(sp_request_result(a)->n_generated, sp_request_result(b)->n_generated);
}

/* text_of -- the answer's text, which the caller frees; closes the context. */
static inline char *text_of(sp_context *c, const char *order, const char *question, int max_tokens)
{
    sp_request *r = ask(c, order, question, max_tokens);
    char *text = strdup(sp_request_result(r)->text);
    sp_request_destroy(r);
    close_clean(c);
    return text;
}

/* alone -- text_of in a context of its own. */
static inline char *alone(const policy *p, const char *order, const char *question, int max_tokens)
{
    return text_of(open_policy(p), order, question, max_tokens);
}

static inline void assert_text(const sp_request *r, char *text)
{
    assert_string_equal(sp_request_result(r)->text, text);
    free(text);
}

/* ask_as_alone -- ask; the answer is that of a context of its own. */
static inline sp_request *ask_as_alone(sp_context *c, const policy *p, const char *order, const char *question,
                                       int max_tokens)
{
    sp_request *r = ask(c, order, question, max_tokens);
    assert_text(r, alone(p, order, question, max_tokens));
    return r;
}

/* assert_adds_up -- the account of a request. */
static inline void assert_adds_up(const sp_result *r)
{
    int reused = 0, again = 0, tokens = 0;
    for (int i = 0; i < r->n_segments; i++) {
        const sp_segment_report *s = &r->segments[i];
        assert_in_range(s->n_reused, 0, s->n_tokens);
        assert_in_range(s->n_recomputed, 0, s->n_tokens - s->n_reused);
        reused += s->n_reused;
        again += s->n_recomputed;
        tokens += s->n_tokens;
    }
    assert_int_equal(r->n_prompt, tokens);
    assert_int_equal(r->n_reused, reused);
    assert_int_equal(r->n_recomputed, again);
    assert_int_equal(r->n_prompt, r->n_reused + r->n_computed);
}

/* try_ask -- as ask, but an error is returned, whatever it is, and nothing is left of the request. */
static inline sp_err try_ask(sp_context *c, const char *order, int max_tokens)
{
    sp_prompt *p = NULL;
    sp_request *r = NULL;
    const sp_request_opts o = {
        .sampling = sp_sampling_default(), .max_tokens = max_tokens, .ignore_end = true};
    sp_err err = sp_prompt_create(c, &p);
    if (err == SP_OK) err = sp_prompt_system(p, "s");
    for (; *order && err == SP_OK; order++) err = sp_prompt_chunk(p, NULL, texts[*order - '0']);
    if (err == SP_OK) err = sp_prompt_question(p, "q?");
    if (err == SP_OK) err = sp_generate(c, p, &o, &r);
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return err;
}

/* life_of -- a context with a policy, its requests, and its end; orders end with NULL. */
static inline sp_err life_of(const policy *p, const char *const *orders)
{
    sp_context *c = NULL;
    sp_err err = sp_context_open(&(sp_context_opts){.model = MODEL,
                                                    .cache.kv_bytes = 1 << 20,
                                                    .machine.n_threads = 1,
                                                    .machine.cpu = "ref",
                                                    .reuse.policy = p->name,
                                                    .reuse.recompute = p->recompute},
                                 &c);
    for (; *orders && err == SP_OK; orders++) err = try_ask(c, *orders, 2);
    if (c) {
        sp_fault_after(-1);
        close_clean(c);
    }
    return err;
}

/* survive_every_fault -- a whole life, run with the first allocation failing, the second ..., until
 * it succeeds: no other error than SP_E_NOMEM on the way. */
static inline void survive_every_fault(sp_err (*life)(void))
{
    sp_err err = SP_E_NOMEM;
    for (long n = 1; err != SP_OK; n++) {
        sp_fault_after(n);
        err = life();
        sp_fault_after(-1);
        if (err != SP_OK && err != SP_E_NOMEM) fail_msg("allocation %ld: %s", n, sp_error_detail());
        assert_in_range(n, 1, 100000);
    }
}

/* n_from -- segments whose KV came from a tier: "host". */
static inline int n_from(const sp_request *r, const char *tier)
{
    const sp_result *res = sp_request_result(r);
    int n = 0;
    for (int i = 0; i < res->n_segments; i++) n += strcmp(res->segments[i].from, tier) == 0;
    return n;
}

#endif
