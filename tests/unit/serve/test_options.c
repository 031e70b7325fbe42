/* test_options.c -- options of a context and of a request: their limits, to the last value that is allowed, their
 * units, and what is copied of them. */
#include <limits.h>

#include "base/clock.h"
#include "support/folder.h"
#include "support/requests.h"

static sp_err open_small(sp_context_opts o, sp_context **out)
{
    o.model = MODEL;
    o.machine.n_threads = 1;
    return sp_context_open(&o, out);
}

static void nothing_is_negative(void **state)
{
    static const struct {
        sp_context_opts o;
        const char *name;
    } cases[] = {{{.n_ctx = -1}, "n_ctx"},
                 {{.n_batch = -1}, "n_batch"},
                 {{.max_requests = -1}, "max_requests"},
                 {{.cache.max_placed = -1}, "max_placed"},
                 {{.cache.max_variants = -1}, "max_variants"},
                 {{.cache.keep_chunks = -1}, "keep_chunks"},
                 {{.tiers.host_bytes = -1}, "host_bytes"},
                 {{.tiers.store_bytes = -1}, "store_bytes"},
                 {{.tiers.load_timeout_ms = -1}, "load_timeout_ms"},
                 {{.decode.context_bytes = -1}, "context_bytes"},
                 {{.queue.window = -1}, "queue.window"},
                 {{.queue.wait_ms = -1}, "wait_ms"},
                 {{.queue.gap_ms = -1}, "gap_ms"}};
    sp_context *c = NULL;
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        assert_fails(open_small(cases[i].o, &c), SP_E_ARG, cases[i].name);
}

static void no_path_is_empty(void **state)
{
    static const struct {
        sp_context_opts o;
        const char *name;
    } cases[] = {{{.tiers.store = ""}, "store: the name is empty"},
                 {{.decode.context_dir = ""}, "context_dir: the name is empty"},
                 {{.machine.packs = ""}, "packs: the name is empty"},
                 {{.cache.profile = ""}, "profile: the name is empty"}};
    sp_context *c = NULL;
    sp_embedder *e = NULL;
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        assert_fails(open_small(cases[i].o, &c), SP_E_ARG, cases[i].name);
    assert_fails(sp_context_open(&(sp_context_opts){.model = ""}, &c), SP_E_ARG, "model: give a GGUF file");
    assert_fails(sp_embedder_open(&(sp_embedder_opts){.model = ""}, &e), SP_E_ARG, "model: give a GGUF");
    assert_fails(sp_embedder_open(&(sp_embedder_opts){0}, &e), SP_E_ARG, "model: give a GGUF");
}

/* What no model and no machine could have is known before any file is opened. */
static void a_check_opens_nothing(void **state)
{
    static const struct {
        sp_context_opts o;
        const char *name;
    } cases[] = {{{.n_ctx = -1}, "n_ctx"},
                 {{.queue.gap_ms = -1}, "gap_ms"},
                 {{.reuse.policy = "magic"}, "magic"},
                 {{.reuse.recompute = 1.5f}, "recompute"},
                 {{.decode.how = "magic"}, "magic"},
                 {{.queue.order = "magic"}, "magic"},
                 {{.cache.kv_type = "magic"}, "magic"},
                 {{.tiers.host_kv = "magic"}, "host_kv: "},
                 {{.cache.evict = "magic"}, "magic"},
                 {{.tiers.host_evict = "magic"}, "host_evict: "},
                 {{.tiers.store_evict = "magic"}, "store_evict: "},
                 {{.tiers.remote = "magic://x"}, "remote: a remote tier"},
                 {{.tiers.remote = "redis://h:99999"}, "remote: redis://h: the port"},
                 {{.tiers.remote = "s3://X"}, "remote: s3://X: the name of a bucket"},
                 {{.tiers.remote_kv = "q4_0"}, "remote_kv: "},
                 {{.tiers.remote_compress = 20}, "remote_compress: "},
                 {{.machine.cpu = "magic"}, "magic"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_context_opts o = cases[i].o;
        o.model = "/nowhere.gguf";
        assert_fails(sp_context_check(&o), SP_E_ARG, cases[i].name);
    }
    assert_fails(sp_context_check(&(sp_context_opts){0}), SP_E_ARG, "model");
    assert_ok(sp_context_check(&(sp_context_opts){.model = "/nowhere.gguf", .machine.cpu = "amx"}));
    assert_ok(sp_context_check(&(sp_context_opts){.model = "/nowhere.gguf", .tiers.remote = "redis://127.0.0.1:1"}));
}

static void a_context_has_two_blocks_and_no_more_tokens_than_its_model(void **state)
{
    sp_context *c;
    assert_ok(open_small((sp_context_opts){0}, &c));
    const size_t block = sp_context_describe(c).kv_block_bytes;
    const int trained = c->model->hp.n_ctx;
    sp_context_close(c);
    assert_fails(open_small((sp_context_opts){.cache.kv_bytes = 2 * block - 1}, &c), SP_E_ARG, "two blocks");
    assert_fails(open_small((sp_context_opts){.n_ctx = trained + 1}, &c), SP_E_ARG, "trained");
    assert_ok(open_small((sp_context_opts){.cache.kv_bytes = 2 * block, .n_ctx = trained}, &c));
    assert_int_equal(sp_context_describe(c).n_ctx, trained);
    assert_int_equal(sp_context_describe(c).kv_blocks, 2);
    sp_context_close(c);
}

static void times_are_in_milliseconds(void **state)
{
    sp_context *c;
    const sp_context_opts o = {.queue.wait_ms = 7, .queue.gap_ms = 3, .n_batch = 2, .max_requests = 5};
    assert_ok(open_small(o, &c));
    assert_int_equal(c->waiting.wait_us, 7000);
    assert_int_equal(c->step.budget.target_us, 3000);
    assert_int_equal(c->limits.n_batch, 5); /* a token of each request */
    sp_context_close(c);
}

/* other_model -- of the same shape; a byte of its weights differs. */
static const char *other_model(const char *dir)
{
    static char path[160];
    FILE *from = fopen(MODEL, "rb"), *to;
    snprintf(path, sizeof path, "%s/other.gguf", dir);
    to = fopen(path, "wb");
    assert_true(from && to && fseek(from, 0, SEEK_END) == 0);
    const long n = ftell(from);
    char *bytes = malloc((size_t)n);
    rewind(from);
    assert_true(bytes && fread(bytes, (size_t)n, 1, from) == 1);
    bytes[n - 64] ^= 1;
    assert_true(fwrite(bytes, (size_t)n, 1, to) == 1 && fclose(to) == 0);
    fclose(from);
    free(bytes);
    return path;
}

/* What other models and types store has other names. */
static void a_namespace_is_of_model_and_type(void **state)
{
    char all[4][65];
    assert_ok(sp_store_space(MODEL, "f16", all[0]));
    assert_ok(sp_store_space(MODEL, "f32", all[1]));
    assert_ok(sp_store_space(MODEL, "q8_0", all[2]));
    assert_ok(sp_store_space(other_model(*state), "f16", all[3]));
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) assert_string_not_equal(all[i], all[k]);
}

static sp_err create(sp_context *c, const sp_request_opts *o, sp_request **out)
{
    sp_prompt *p = prompt_of(c, "01", "Which?");
    sp_err err = sp_request_create(c, p, o, NULL, out);
    sp_prompt_destroy(p);
    return err;
}

static void a_request_has_limits(void **state)
{
    enum { MOST = SP_MAX_TOP_LOGPROBS };
    sp_request *r;
    sp_context *c = open_with((sp_context_opts){.n_ctx = 128});
    sp_prompt *p = prompt_of(c, "01", "Which?");
    const int left = c->limits.n_ctx - p->n_tokens;
    int32_t scored[128] = {0}, beyond[] = {1, c->model->hp.n_vocab};
    sp_prompt_destroy(p);
    assert_ok(create(c, &(sp_request_opts){.scored = scored, .n_scored = left}, &r));
    sp_request_discard(r);
    assert_int_equal(create(c, &(sp_request_opts){.scored = scored, .n_scored = left + 1}, &r), SP_E_CONTEXT);
    assert_fails(create(c, &(sp_request_opts){.scored = beyond, .n_scored = 2}, &r), SP_E_ARG, "token 1");
    assert_ok(create(c, &(sp_request_opts){.max_tokens = 1000, .top_logprobs = MOST}, &r));
    assert_int_equal(r->answer.max_tokens, left);
    sp_request_discard(r);
    assert_fails(create(c, &(sp_request_opts){.max_tokens = 1, .top_logprobs = MOST + 1}, &r), SP_E_ARG, "top_");
    assert_ok(create(c, &(sp_request_opts){.priority = -5, .background = true}, &r));
    assert_int_equal(r->o.priority, INT_MAX); /* all others go first */
    sp_request_discard(r);
    close_clean(c);
}

static void a_request_has_lists_of_its_own(void **state)
{
    sp_request *r;
    int32_t stop[] = {5, 6};
    char word[] = "end", salt[] = "red";
    const char *words[] = {word};
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *p;
    assert_ok(sp_prompt_create_for(c, salt, &p));
    assert_ok(sp_prompt_question(p, "Which?"));
    const sp_request_opts o = {.max_tokens = 4, .stop_tokens = stop, .n_stop_tokens = 2, .stop = words, .n_stop = 1};
    assert_ok(sp_request_create(c, p, &o, NULL, &r));
    sp_prompt_destroy(p);
    stop[0] = stop[1] = 7;
    word[0] = salt[0] = 'x';
    assert_true(r->o.stop_tokens[0] == 5 && r->o.stop_tokens[1] == 6);
    assert_string_equal(r->o.stop[0], "end");
    assert_string_equal(r->o.tenant, "red"); /* who has a salt is a tenant */
    sp_request_discard(r);
    close_clean(c);
}

/* Of four segments of a prompt the first two, or all of them; and each for so long. */
static void the_first_segments_of_a_prompt_are_retained(void **state)
{
    for (int n = 0; n <= 2; n += 2) {
        sp_context *c = open_with((sp_context_opts){.reuse.policy = "prefix"});
        sp_request_opts o = sampled(1);
        o.retain_ms = 3600000;
        o.n_retain = n;
        sp_prompt *p = prompt_of(c, "01", "Which?");
        sp_request *r;
        const int64_t hour_us = INT64_C(3600000000), before = sp_clock_us();
        assert_ok(sp_generate(c, p, &o, &r));
        sp_prompt_destroy(p);
        int n_retained = 0;
        for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
            for (int i = 0; i < r->prompt.n_segs; i++) {
                if (!sp_digest_eq(&v->facts.id, &r->prompt.ids[i])) continue;
                assert_int_equal(v->retained_until > 0, !n || i < n);
                if (v->retained_until) assert_in_range(v->retained_until - hour_us, before, sp_clock_us());
                n_retained += v->retained_until > 0;
            }
        assert_int_equal(n_retained, n ? n : r->prompt.n_segs);
        sp_request_destroy(r);
        close_clean(c);
    }
}

/* Its answer differs from full attention on purpose. */
static void an_answer_with_a_window_is_not_checked(void **state)
{
    for (int window = 0; window < 2; window++) {
        sp_context *c = open_with((sp_context_opts){.guard.share = 1,
                                                    .reuse.policy = "full",
                                                    .decode.how = window ? "window:64" : "exact"});
        sp_request *r = submit(c, "01", "Which?", 2);
        assert_int_equal(r->check.first, !window);
        sp_request_destroy(r);
        sp_context_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_negative),
        cmocka_unit_test(no_path_is_empty),
        cmocka_unit_test(a_check_opens_nothing),
        cmocka_unit_test(a_context_has_two_blocks_and_no_more_tokens_than_its_model),
        cmocka_unit_test(times_are_in_milliseconds),
        cmocka_unit_test_setup_teardown(a_namespace_is_of_model_and_type, folder_setup, folder_teardown),
        cmocka_unit_test(a_request_has_limits),
        cmocka_unit_test(a_request_has_lists_of_its_own),
        cmocka_unit_test(the_first_segments_of_a_prompt_are_retained),
        cmocka_unit_test(an_answer_with_a_window_is_not_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
