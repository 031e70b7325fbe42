/* test_chunk_requests.c -- the life of requests whose policy reuses chunks at any position.
 *
 * Every step of every test also checks the invariants of serve/request/request.h: what is set aside for
 * the running requests is there, and enough for their answers. */
#include <stdio.h>

#include "support/requests.h"

static const policy full = {"full", 0}, fusion = {"fusion", 0.25f};

/* -- the account ---------------------------------------------------------------------------- */

static void another_order_reuses_all(void **state)
{
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        sp_context *c = open_policy(&how);
        sp_request *cold = ask(c, "012", "When?", 8), *warm = ask(c, "201", "How many rooms?", 8);
        const sp_result *a = sp_request_result(cold), *b = sp_request_result(warm);
        int n_chunks = 0;
        assert_int_equal(a->n_reused, 0);
        assert_int_equal(a->n_computed, a->n_prompt);
        assert_adds_up(a);
        assert_adds_up(b);
        assert_int_equal(b->n_segments, 5);
        assert_string_equal(b->segments[0].kind, "system");
        for (int s = 0; s < 4; s++)
            assert_int_equal(b->segments[s].n_reused + b->segments[s].n_recomputed,
                             b->segments[s].n_tokens);
        assert_int_equal(b->segments[0].n_recomputed, 0);
        for (int s = 1; s < 4; s++) {
            assert_string_equal(b->segments[s].kind, "chunk");
            n_chunks += b->segments[s].n_tokens;
        }
        assert_int_equal(b->n_recomputed, how.recompute > 0 ? (n_chunks + 3) / 4 : 0);
        assert_int_equal(b->n_computed, b->segments[4].n_tokens + b->n_recomputed);
        sp_request_destroy(cold);
        sp_request_destroy(warm);
        close_clean(c);
    }
}

/* A policy that recomputes nothing says so, whatever share it is given. */
static void a_share_that_is_not_used_is_not_reported(void **state)
{
    sp_context *c = open_policy(&(policy){"full", 0.5f});
    sp_request *r = ask(c, "01", "Why?", 2);
    assert_true(sp_request_result(r)->recompute == 0);
    sp_request_destroy(r);
    close_clean(c);
    c = open_policy(&(policy){"craft", 0.5f});
    r = ask(c, "01", "Why?", 2);
    assert_true(sp_request_result(r)->recompute == 0.5f);
    sp_request_destroy(r);
    close_clean(c);
}

/* What is computed on the way is what is found later: the same text cold and warm. */
static void cold_equals_warm(void **state)
{
    static const char *const orders[] = {"012", "201", "3", "0033", "10", "012"};
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        sp_context *c = open_policy(&how);
        for (size_t k = 0; k < SP_COUNT(orders); k++) {
            sp_request *r = ask(c, orders[k], "Where?", 10),
                       *again = ask(c, orders[k], "Where?", 10);
            assert_same_text(r, again);
            assert_text(r, alone(&how, orders[k], "Where?", 10));
            sp_request_destroy(r);
            sp_request_destroy(again);
        }
        close_clean(c);
    }
}

static void recompute_nothing_is_full(void **state)
{
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        policy none = {how.name, 0};
        sp_context *c = open_policy(&none);
        sp_request *r = ask(c, "102", "Who?", 20);
        assert_int_equal(sp_request_result(r)->n_recomputed, 0);
        assert_text(r, alone(&full, "102", "Who?", 20));
        sp_request_destroy(r);
        close_clean(c);
    }
}

/* Behind the head stands every first chunk: with one chunk nothing is approximate. */
static void one_chunk_is_exact(void **state)
{
    static const policy off = {"off", 0};
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        policy none = {how.name, 0};
        sp_context *c = open_policy(&none);
        sp_request *other = ask(c, "21", "Who?", 3);
        sp_request *r = ask(c, "1", "Where are the hotels?", 24);
        assert_true(sp_request_result(r)->n_reused > 0);
        assert_text(r, alone(&off, "1", "Where are the hotels?", 24));
        sp_request_destroy(other);
        sp_request_destroy(r);
        close_clean(c);
    }
}

static void the_same_chunk_may_come_twice(void **state)
{
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        sp_context *c = open_policy(&how);
        sp_request *r = ask(c, "1001", "Which?", 6);
        assert_adds_up(sp_request_result(r));
        assert_int_equal(count_copies(c).n_content, 2);
        sp_request *again = ask(c, "0110", "Which?", 6);
        const sp_result *b = sp_request_result(again);
        assert_adds_up(b);
        assert_int_equal(b->n_computed, b->segments[5].n_tokens + b->n_recomputed);
        assert_int_equal(count_copies(c).n_content, 2);
        sp_request_destroy(r);
        sp_request_destroy(again);
        close_clean(c);
    }
}

/* Chunks are computed behind their head: another head shares nothing. */
static void another_head_shares_nothing(void **state)
{
    sp_context *c = open_policy(&fusion);
    sp_request *r = ask(c, "01", "Which?", 2);
    sp_prompt *p;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "Be long."));
    assert_ok(sp_prompt_chunk(p, "T", texts[0]));
    assert_ok(sp_prompt_question(p, "Which?"));
    sp_request *other = run(c, submit_prompt(c, p, 2));
    assert_int_equal(sp_request_result(other)->n_reused, 0);
    assert_int_equal(count_copies(c).n_content, 3);
    sp_request_destroy(r);
    sp_request_destroy(other);
    close_clean(c);
}

/* A copy of which nobody measured what h2o or craft goes by is computed once more, and is then
 * there for all. */
static void what_was_not_measured_is_recomputed(void **state)
{
    static const policy measuring[] = {{"h2o", 0.25f}, {"craft", 0.25f}};
    for (size_t i = 0; i < SP_COUNT(measuring); i++) {
        const sp_reuse_opts reuse = {.policy = measuring[i].name, .recompute = 0.25f};
        sp_context *c = open_policy(&full);
        sp_request *r[4];
        r[0] = ask(c, "01", "Which?", 2);
        int64_t n = count_copies(c).n_content;
        for (int k = 1; k < 3; k++) {
            sp_prompt *p = prompt_of(c, "01", "Which?");
            sp_request_opts o = {.reuse = &reuse,
                                 .sampling = sp_sampling_default(),
                                 .max_tokens = 2,
                                 .ignore_end = true};
            assert_ok(sp_generate(c, p, &o, &r[k]));
            sp_prompt_destroy(p);
            const sp_result *got = sp_request_result(r[k]);
            assert_adds_up(got);
            for (int s = 1; s < 3; s++)
                assert_int_equal(got->segments[s].n_reused + got->segments[s].n_recomputed,
                                 k == 1 ? 0 : got->segments[s].n_tokens);
        }
        r[3] = ask(c, "10", "Which?", 2);
        assert_int_equal(sp_request_result(r[3])->n_computed,
                         sp_request_result(r[3])->segments[3].n_tokens);
        if (i == 0) assert_int_equal(count_copies(c).n_content, n);
        for (int k = 0; k < 4; k++) sp_request_destroy(r[k]);
        close_clean(c);
    }
}

/* -- prompts of other forms ------------------------------------------------------------------ */

static void no_chunks_is_prefix(void **state)
{
    static const policy off = {"off", 0};
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        sp_context *c = open_policy(&how);
        sp_request *r = ask(c, "", "How are you?", 20), *again = ask(c, "", "How are you?", 20);
        assert_same_text(r, again);
        assert_text(r, alone(&off, "", "How are you?", 20));
        assert_in_range(sp_request_result(again)->n_computed, 1, 16);
        assert_adds_up(sp_request_result(again));
        assert_ptr_equal(r->reuse.policy, sp_reuse_policy_default());
        sp_request *rag = ask(c, "0", "When?", 2); /* the system prompt is the same node */
        assert_int_equal(sp_request_result(rag)->segments[0].n_reused,
                         sp_request_result(rag)->segments[0].n_tokens);
        sp_request_destroy(r);
        sp_request_destroy(again);
        sp_request_destroy(rag);
        close_clean(c);
    }
}

static void a_prompt_may_end_in_a_chunk(void **state)
{
    static const policy off = {"off", 0};
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        sp_context *c = open_policy(&how);
        sp_request *only = ask(c, "1", NULL, 8), *r = ask(c, "01", NULL, 8),
                   *again = ask(c, "01", NULL, 8);
        const sp_result *b = sp_request_result(again);
        assert_text(only, alone(&off, "1", NULL, 8));
        assert_same_text(r, again);
        assert_adds_up(b);
        assert_string_equal(b->segments[1].kind, "chunk");
        assert_string_equal(b->segments[2].kind, "text"); /* computed like a question */
        assert_int_equal(b->segments[2].n_reused, 0);
        assert_int_equal(b->n_computed, b->segments[2].n_tokens + b->n_recomputed);
        assert_int_equal(count_copies(c).n_content, 1);
        sp_request_destroy(only);
        sp_request_destroy(r);
        sp_request_destroy(again);
        close_clean(c);
    }
}

/* n_expected -- copies of the request's chunks that the present look at the queue expects. */
static int n_expected(const sp_context *c, const sp_request *r)
{
    int n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        for (int i = 0; i < r->prompt.n_segs; i++)
            n += v->facts.kind != SP_COPY_PATH &&
                 sp_digest_eq(&v->facts.id, &r->prompt.segs[i].id) && v->expected.aside && v->expected.uses > 0;
    return n;
}

/* A request that waits will read chunks by content: a policy that looks ahead knows it. */
static void waiting_requests_expect_chunks(void **state)
{
    static const char *const evict[] = {"lacr", "hazard", "lru"};
    for (size_t i = 0; i < SP_COUNT(evict); i++) {
        sp_context *c = open_with((sp_context_opts){.reuse.policy = "full",
                                                    .cache.evict = evict[i],
                                                    .max_requests = 1,
                                                    .queue.order = "fcfs"});
        sp_request_destroy(ask(c, "01", "When?", 2));
        sp_request *busy = submit(c, "2", "How?", 8), *first = submit(c, "3", "Who?", 2),
                   *waits = submit(c, "10", "Where?", 2);
        while (!sp_request_result(busy)->n_generated) step(c);
        assert_int_equal(n_expected(c, waits), i < 2 ? 2 : 0);
        run(c, waits);
        sp_request_destroy(busy);
        sp_request_destroy(first);
        sp_request_destroy(waits);
        close_clean(c);
    }
}

/* What the order of the queue goes by: head and two chunks are cached, a share of the chunks will be recomputed. */
static void waiting_requests_count_what_is_cached(void **state)
{
    policy how = {"full", 0};
    for (int i = 0; i < 2; i++, how = fusion) {
        sp_context *c = open_with((sp_context_opts){
            .reuse.policy = how.name, .reuse.recompute = how.recompute, .max_requests = 1, .queue.order = "reorder"});
        sp_request_destroy(ask(c, "01", "When?", 2));
        sp_request *busy = submit(c, "2", "How?", 8), *waits = submit(c, "013", "Where?", 2);
        while (!sp_request_result(busy)->n_generated) step(c);
        const sp_segment *s = waits->prompt.segs;
        const int32_t chunks = s[1].n + s[2].n, rest = s[3].n + s[4].n;
        assert_int_equal(waits->place.waiting.n_cached, s[0].n + chunks);
        assert_int_equal(waits->place.waiting.n_computed, rest + (int32_t)(how.recompute * (float)chunks));
        run(c, waits);
        sp_request_destroy(busy);
        sp_request_destroy(waits);
        close_clean(c);
    }
}

/* n_of_copies -- tokens of its segments for which a copy was found. */
static int32_t n_of_copies(const sp_request *r)
{
    const sp_result *res = sp_request_result(r);
    int32_t n = 0;
    for (int i = 0; i < res->n_segments; i++)
        if (*res->segments[i].from) n += res->segments[i].n_tokens;
    return n;
}

static sp_request *submit_with(sp_context *c, const sp_reuse_opts *reuse, const char *order)
{
    sp_prompt *p = prompt_of(c, order, "Where?");
    sp_request *r;
    assert_ok(sp_request_submit(c, p, &(sp_request_opts){.reuse = reuse, .max_tokens = 2}, &r));
    sp_prompt_destroy(p);
    return r;
}

/* Each policy counts the copies that it will find, whichever policy has left them: fused ones unless they are
 * unwanted, measured ones. */
static void waiting_requests_count_what_their_policy_finds(void **state)
{
    policy made, how;
    sp_context_opts o = {.max_requests = 1, .queue.order = "reorder"};
    int n_more = 0; /* with fused copies */
    for (int m = 0; policy_at(CHUNKS_ANYWHERE, 0.25f, m, &made); m++)
        for (int k = 0; policy_at(CHUNKS_ANYWHERE, 0.25f, k, &how); k++) {
            int32_t n_found[2];
            for (int unfused = 0; unfused < 2; unfused++) {
                o.reuse = (sp_reuse_opts){.policy = made.name, .recompute = made.recompute};
                sp_context *c = open_with(o);
                const sp_reuse_opts reuse = {.policy = how.name, .recompute = how.recompute, .unfused = unfused};
                sp_request_destroy(ask(c, "01", "When?", 2));
                sp_request *busy = submit(c, "2", "How?", 8), *waits = submit_with(c, &reuse, "310");
                while (!sp_request_result(busy)->n_generated) step(c);
                const int32_t n_cached = waits->place.waiting.n_cached;
                run(c, waits);
                n_found[unfused] = n_of_copies(waits);
                if (n_cached != n_found[unfused])
                    fail_msg("%s after %s, unfused %d: %d counted, %d found", how.name, made.name, unfused, n_cached,
                             n_found[unfused]);
                sp_request_destroy(busy);
                sp_request_destroy(waits);
                close_clean(c);
            }
            n_more += n_found[0] > n_found[1];
        }
    assert_true(n_more > 0);
}

/* The window is the queue: the last of many waiting requests counts, and least. */
static void the_last_of_a_long_queue_is_expected(void **state)
{
    enum { N = 40 };
    sp_context *c = open_with((sp_context_opts){
        .reuse.policy = "full", .cache.evict = "lacr", .max_requests = 1, .queue.order = "fcfs"});
    sp_request_destroy(ask(c, "012", "When?", 2));
    sp_request *r[N + 1], *busy = submit(c, "3", "How?", 8);
    for (int i = 0; i <= N; i++) r[i] = submit(c, i == 0 ? "3" : i == 1 ? "2" : i < N ? "3" : "10", "Who?", 1);
    while (!sp_request_result(busy)->n_generated) step(c);
    assert_int_equal(n_expected(c, r[N]), 2);
    float first = 0, last = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) {
        if (v->facts.kind == SP_COPY_PATH) continue;
        if (sp_digest_eq(&v->facts.id, &r[1]->prompt.segs[1].id)) first = v->expected.uses;
        if (sp_digest_eq(&v->facts.id, &r[N]->prompt.segs[1].id)) last = v->expected.uses;
    }
    assert_true(first > 0.9f && last > 0 && last < 0.1f);
    run(c, r[N]);
    sp_request_destroy(busy);
    for (int i = 0; i <= N; i++) sp_request_destroy(r[i]);
    close_clean(c);
}

/* With a profile, what a copy cost is what the profile says: here 7 us a token. */
static void copies_cost_what_the_profile_says(void **state)
{
    char path[] = "/tmp/spolia-profile-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    fputs("{\"cached\": [0, 1000], \"new\": [1, 1001], \"us\": [[7, 7007], [7, 7007]]}", f);
    assert_int_equal(fclose(f), 0);
    sp_context *c = open_with(
        (sp_context_opts){.reuse.policy = "full", .cache.evict = "pgdsf", .cache.profile = path});
    sp_request_destroy(ask(c, "01", "When?", 2));
    int n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) {
        if (v->facts.kind == SP_COPY_PATH) continue;
        assert_true(v->facts.cost_us > 6.99 * v->n && v->facts.cost_us < 7.01 * v->n);
        n++;
    }
    assert_int_equal(n, 2);
    close_clean(c);
    remove(path);
}

/* What pgdsf weighs is the cost of a token of the request that computed the copy, by what this request found and what
 * it computed; by the formula without a profile, and never by the time that it took. */
static void replacement_weighs_requests_not_the_clock(void **state)
{
    char path[] = "/tmp/spolia-profile-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    fputs("{\"cached\": [0, 1000], \"new\": [1, 1001], \"us\": [[7, 7007], [70, 70070]]}", f);
    assert_int_equal(fclose(f), 0);
    for (int i = 0; i < 2; i++) {
        sp_context *c = open_with((sp_context_opts){
            .reuse.policy = "prefix", .cache.evict = "pgdsf", .cache.profile = i ? path : NULL});
        const sp_cost *cost = i ? &c->cost : NULL;
        float expected[2];
        for (int k = 0; k < 2; k++) { /* the second finds the head and chunk 0 */
            sp_request *r = ask(c, k ? "02" : "01", "When?", 2);
            const sp_result *got = sp_request_result(r);
            assert_true(k == 0 ? got->n_reused == 0 : got->n_reused > 0);
            expected[k] = (float)(sp_cost_us(cost, got->n_reused, got->n_computed) / got->n_computed);
            sp_request_destroy(r);
        }
        assert_true(expected[1] > expected[0]);
        int n[2] = {0};
        for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) {
            assert_int_equal(v->uses.n_costs, 1);
            n[0] += v->uses.mean_cost == expected[0];
            n[1] += v->uses.mean_cost == expected[1];
        }
        assert_int_equal(n[0], 4); /* the head, both chunks, the question */
        assert_int_equal(n[1], 2);
        close_clean(c);
    }
    remove(path);
}

/* Chunks first, and text between them. */
static void text_may_come_between_chunks(void **state)
{
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        sp_context *c = open_policy(&how);
        sp_request *r[2];
        for (int k = 0; k < 2; k++) {
            sp_prompt *p;
            assert_ok(sp_prompt_create(c, &p));
            assert_ok(sp_prompt_chunk(p, NULL, texts[2]));
            assert_ok(sp_prompt_text(p, "And then: ", false));
            assert_ok(sp_prompt_chunk(p, NULL, texts[1]));
            assert_ok(sp_prompt_text(p, "So ", false));
            r[k] = run(c, submit_prompt(c, p, 12));
            assert_int_equal(sp_request_result(r[k])->finish, SP_FINISH_LENGTH);
            assert_adds_up(sp_request_result(r[k]));
        }
        const sp_result *b = sp_request_result(r[1]);
        assert_same_text(r[0], r[1]);
        assert_int_equal(b->segments[1].n_reused, 0);
        assert_int_equal(b->n_computed,
                         b->segments[1].n_tokens + b->segments[3].n_tokens + b->n_recomputed);
        sp_request_destroy(r[0]);
        sp_request_destroy(r[1]);
        close_clean(c);
    }
}

static void a_warm_up_leaves_copies(void **state)
{
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++)
        for (int k = 0; k < 2; k++) { /* with a question that nobody asks, and without */
            const char *question = k ? NULL : "Nothing?";
            sp_context *c = open_policy(&how);
            sp_request *first = ask(c, "0021", question, 0), *second = ask(c, "0021", question, 0);
            int64_t n_cached = sp_context_describe(c).cached_segments;
            assert_int_equal(n_cached, 4); /* the head and three chunks */
            assert_int_equal(sp_request_result(first)->n_reused, 0);
            assert_adds_up(sp_request_result(second));
            for (int s = 0; s < 5; s++)
                assert_int_equal(sp_request_result(second)->segments[s].n_reused,
                                 sp_request_result(second)->segments[s].n_tokens);
            sp_request *r = ask(c, "120", "When?", 8);
            assert_int_equal(sp_context_describe(c).cached_segments, n_cached);
            assert_int_equal(sp_request_result(r)->n_computed,
                             sp_request_result(r)->segments[4].n_tokens +
                                 sp_request_result(r)->n_recomputed);
            assert_text(r, alone(&how, "120", "When?", 8));
            sp_request_destroy(first);
            sp_request_destroy(second);
            sp_request_destroy(r);
            close_clean(c);
        }
}

/* -- many at once --------------------------------------------------------------------------- */

static void together_equals_alone(void **state)
{
    static const char *const orders[] = {"012", "210", "012", "00", "", "1"};
    enum { N = SP_COUNT(orders) };
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        sp_context *c = open_policy(&how);
        sp_request *r[N];
        for (int k = 0; k < N; k++) {
            r[k] = submit(c, orders[k], k % 2 ? "Why?" : "How many people live there?", 6 + k);
            if (k == 3) step(c); /* later ones join running ones */
        }
        for (int k = 0; k < N; k++) {
            run(c, r[k]);
            assert_adds_up(sp_request_result(r[k]));
            assert_text(r[k], alone(&how, orders[k],
                                    k % 2 ? "Why?" : "How many people live there?", 6 + k));
        }
        for (int k = 0; k < N; k++) sp_request_destroy(r[k]);
        close_clean(c);
    }
}

static sp_context *open_blocks(const policy *p, int64_t n_blocks)
{
    sp_context *c = open_policy(p);
    size_t block = sp_context_describe(c).kv_block_bytes;
    sp_context_close(c);
    return open_with((sp_context_opts){.reuse.policy = p->name,
                                       .reuse.recompute = p->recompute,
                                       .n_batch = 40,
                                       .cache.kv_bytes = (size_t)n_blocks * block});
}

/* least_blocks -- of a pool in which the policy can answer the prompt; 0 tokens: in which it can make the copies. */
static int64_t least_blocks(const policy *p, const char *order, int max_tokens)
{
    for (int64_t n = 2;; n++) {
        sp_context *c = open_blocks(p, n);
        sp_request *r = submit_if_it_fits(c, order, max_tokens ? "Which?" : "", max_tokens);
        const sp_result *got = r ? sp_request_result(run(c, r)) : NULL;
        const bool answers = got && got->finish == SP_FINISH_LENGTH;
        const bool fits = answers && strcmp(got->policy, p->name) == 0;
        if (r && !answers) assert_refused(r);
        sp_request_destroy(r);
        close_clean(c);
        if (fits) return n;
        assert_in_range(n, 2, 100);
    }
}

/* What fits once fits again, whatever is cached by then. */
static void the_least_memory_is_enough_again(void **state)
{
    static const char *const orders[] = {"012", "012", "120", "33", "2", "012"};
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        sp_context *c = open_blocks(&how, least_blocks(&how, "012", 18));
        for (size_t k = 0; k < SP_COUNT(orders); k++) {
            sp_request_destroy(ask_as_alone(c, &how, orders[k], "Which?", 18));
        }
        close_clean(c);
    }
}

/* Recomputed tokens take memory beside those that they replace; where it is too little, nothing is reused. */
static void what_fits_when_it_is_new_fits_when_it_is_known(void **state)
{
    static const policy inplace = {"inplace", 0.25f}, off = {"off", 0};
    static const char *const orders[] = {"012", "210", "102", "21", "120"};
    const int64_t n = least_blocks(&off, "012", 18);
    int n_new = 0;
    assert_int_equal(least_blocks(&fusion, "012", 0), least_blocks(&full, "012", 0)); /* nothing is recomputed */
    assert_int_equal(least_blocks(&inplace, "012", 18), n);
    sp_context *c = open_blocks(&inplace, n);
    for (size_t k = 0; k < SP_COUNT(orders); k++) {
        sp_request *r = ask(c, orders[k], "Which?", 18);
        const sp_result *got = sp_request_result(r);
        int n_missed = 0;
        for (int i = 0; i < got->n_segments; i++) n_missed += strcmp(got->segments[i].missed, "no room") == 0;
        if (n_missed) assert_true(got->n_reused == 0 && got->n_recomputed == 0);
        n_new += n_missed > 0;
        assert_string_equal(got->policy, "inplace"); /* it keeps what it computes */
        assert_adds_up(got);
        sp_request_destroy(r);
    }
    assert_in_range(n_new, 1, 3); /* "21" is shorter */
    close_clean(c);
    c = open_blocks(&inplace, n + 3); /* room for a quarter of the chunks */
    sp_request_destroy(ask(c, "012", "Which?", 18));
    sp_request *r = ask(c, "210", "Which?", 18);
    assert_true(sp_request_result(r)->n_recomputed > 0);
    sp_request_destroy(r);
    close_clean(c);
}

/* A policy that computes chunks alone, and again in the prompt, needs more than the prompt does. */
static void what_fits_without_reuse_fits_with_every_policy(void **state)
{
    static const policy off = {"off", 0};
    static const char *const names[] = {"fusion", "flow", "blend", "h2o", "link", "random", "craft", "inplace"};
    static const char *const orders[] = {"012", "201", "12", "210"};
    const int64_t n = least_blocks(&off, "012", 18);
    int n_plain = 0;
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        const policy how = {names[i], 0.5f};
        sp_context *c = open_blocks(&how, n);
        for (size_t k = 0; k < SP_COUNT(orders); k++) {
            sp_request *r = ask(c, orders[k], "Which?", 18);
            const sp_result *got = sp_request_result(r);
            if (strcmp(got->policy, "prefix") == 0) {
                n_plain++;
                assert_text(r, alone(&off, orders[k], "Which?", 18));
            }
            sp_request_destroy(r);
        }
        close_clean(c);
    }
    assert_true(n_plain > 6);
}

static void requests_share_little_memory(void **state)
{
    static const char *const orders[] = {"01", "2", "10", "3", "02", "12"};
    enum { N = SP_COUNT(orders) };
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        sp_context *c = open_blocks(&how, least_blocks(&how, "02", 18) + 3);
        sp_request *r[N];
        for (int k = 0; k < N; k++) r[k] = submit(c, orders[k], "Which?", 18);
        for (int k = 0; k < N; k++)
            assert_text(run(c, r[k]), alone(&how, orders[k], "Which?", 18));
        for (int k = 0; k < N; k++) sp_request_destroy(r[k]);
        assert_true(sp_ledger_stats_of(c->ledger).n_evicted > 0);
        close_clean(c);
    }
}

/* -- early ends ----------------------------------------------------------------------------- */

/* One request leaves after some steps, another with the same chunks stays. False when the first was
 * done. */
static bool leave_after(const policy *p, int n_steps, bool cancel, const char *text)
{
    sp_context *c = open_with((sp_context_opts){
        .reuse.policy = p->name, .reuse.recompute = p->recompute, .n_batch = 9, .max_requests = 2});
    sp_request *r = submit(c, "01", "Who?", 4), *stays = submit(c, "10", "Which?", 4);
    for (int i = 0; i < n_steps; i++) step(c);
    bool was_done = done(r);
    if (cancel) {
        sp_request_cancel(r);
        run(c, r);
        assert_int_equal(sp_request_result(r)->finish,
                         was_done ? SP_FINISH_LENGTH : SP_FINISH_CANCELED);
    }
    if (n_steps) assert_adds_up(sp_request_result(r));
    sp_request_destroy(r);
    run(c, stays);
    assert_string_equal(sp_request_result(stays)->text, text);
    sp_request_destroy(stays);
    close_clean(c);
    return !was_done;
}

static void requests_may_leave_in_every_stage(void **state)
{
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        char *text = alone(&how, "10", "Which?", 4);
        int n_steps = 0;
        while (leave_after(&how, n_steps, n_steps % 2, text)) n_steps++;
        assert_in_range(n_steps, 12, 200); /* through fill, probe, answer and decoding */
        free(text);
    }
}

/* -- every allocation may fail --------------------------------------------------------------- */

static sp_err life(void)
{
    return life_of(&(policy){"fusion", 0.25f}, (const char *const[]){"01", "10", NULL});
}

static void every_allocation_may_fail(void **state)
{
    survive_every_fault(life);
}

static void memory_returns(sp_log_level level, const char *line, void *user)
{
    SP_UNUSED(level);
    if (!strstr(line, "not kept")) return;
    ++*(int *)user;
    sp_fault_after(-1);
}

/* faulted_life -- two requests at once; the n-th allocation of the first steps fails, and all after
 * it until something could not be cached. False when there were fewer. */
static bool faulted_life(const policy *p, long n, int *n_uncached)
{
    int before = *n_uncached;
    sp_context *c = open_blocks(p, 40);
    sp_request *r[] = {submit(c, "01", "Who?", 20), submit(c, "21", "Which?", 20)};
    sp_fault_after(n);
    run(c, r[0]);
    sp_fault_after(-1);
    run(c, r[1]);
    bool faulted = *n_uncached > before;
    for (int i = 0; i < 2; i++) {
        const sp_result *got = sp_request_result(r[i]);
        if (got->finish == SP_FINISH_ERROR) {
            assert_int_equal(got->err, SP_E_NOMEM);
            faulted = true;
        } else {
            assert_int_equal(got->n_generated, 20);
        }
        sp_request_destroy(r[i]);
    }
    close_clean(c);
    return faulted;
}

/* What no cache could take is computed again, in memory that was set aside for it. */
static void what_cannot_be_cached_is_computed_again(void **state)
{
    policy how;
    for (int i = 0; policy_at(PLAIN_COPIES, 0.25f, i, &how); i++) {
        int n_uncached = 0;
        sp_log_set(SP_LOG_WARN, memory_returns, &n_uncached);
        for (long n = 1; faulted_life(&how, n, &n_uncached); n++)
            assert_in_range(n, 1, 5000);
        sp_log_set(SP_LOG_WARN, NULL, NULL);
        assert_true(n_uncached > 0);
    }
}

/* A retry helps when memory is in use, and never when all of it is too little. */
static void what_never_fits_is_told_from_what_does_not_fit_now(void **state)
{
    enum { MOST = 20 };
    uint32_t taken[MOST];
    sp_context *c = open_policy(&fusion);
    const size_t block = sp_context_describe(c).kv_block_bytes;
    close_clean(c);
    c = open_with((sp_context_opts){.cache.kv_bytes = MOST * block, .reuse = {.policy = "fusion"}});
    sp_prompt *p = prompt_of(c, "012", "When?");
    sp_request *r;
    const sp_request_opts most = sampled(MOST * SP_BLOCK_TOKENS), few = sampled(8);
    assert_int_equal(sp_request_submit(c, p, &most, &r), SP_E_CONTEXT);
    assert_non_null(strstr(sp_error_detail(), "which holds 320: raise --kv-memory, or lower max_tokens"));
    assert_int_equal(sp_kv_acquire(c->pool, MOST - 2, taken), SP_OK);
    assert_int_equal(sp_generate(c, p, &few, &r), SP_E_NOKV);
    assert_non_null(strstr(sp_error_detail(), "; 2 of 20 are available: pinned copies have the others"));
    sp_kv_release(c->pool, taken, MOST - 2);
    assert_int_equal(sp_generate(c, p, &few, &r), SP_OK);
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_order_reuses_all),
        cmocka_unit_test(a_share_that_is_not_used_is_not_reported),
        cmocka_unit_test(cold_equals_warm),
        cmocka_unit_test(recompute_nothing_is_full),
        cmocka_unit_test(one_chunk_is_exact),
        cmocka_unit_test(the_same_chunk_may_come_twice),
        cmocka_unit_test(another_head_shares_nothing),
        cmocka_unit_test(what_was_not_measured_is_recomputed),
        cmocka_unit_test(no_chunks_is_prefix),
        cmocka_unit_test(a_prompt_may_end_in_a_chunk),
        cmocka_unit_test(waiting_requests_expect_chunks),
        cmocka_unit_test(waiting_requests_count_what_is_cached),
        cmocka_unit_test(waiting_requests_count_what_their_policy_finds),
        cmocka_unit_test(the_last_of_a_long_queue_is_expected),
        cmocka_unit_test(copies_cost_what_the_profile_says),
        cmocka_unit_test(replacement_weighs_requests_not_the_clock),
        cmocka_unit_test(text_may_come_between_chunks),
        cmocka_unit_test(a_warm_up_leaves_copies),
        cmocka_unit_test(together_equals_alone),
        cmocka_unit_test(the_least_memory_is_enough_again),
        cmocka_unit_test(what_fits_when_it_is_new_fits_when_it_is_known),
        cmocka_unit_test(what_fits_without_reuse_fits_with_every_policy),
        cmocka_unit_test(requests_share_little_memory),
        cmocka_unit_test(requests_may_leave_in_every_stage),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_cannot_be_cached_is_computed_again),
        cmocka_unit_test(what_never_fits_is_told_from_what_does_not_fit_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
