/* test_window.c -- "window:N": a token looks at the beginning of the prompt and at N tokens before it.
 *
 *   out of reach   what no chain of windows, one a layer, connects with the answer changes no bit of it
 *   in reach       the first tokens and the last ones do change it
 *   a wide window  the probabilities of full attention
 *   the account    nothing is reused and nothing is kept; copies made for others are those of full attention
 *   trees          are refused
 *   sparse         answers are not kept either: their KV is not that of full attention
 */
#include <math.h>

#include "support/requests.h"

enum { N = 480, WINDOW = 64, ANSWER = 20 };

static const policy prefix = {"prefix", 0};

/* What an answer was. */
typedef struct heard {
    float logprob[ANSWER];
    int32_t id[ANSWER];
    int n, n_reused, n_segs;
} heard;

static void on_token(const sp_token_logprob *v, int n, void *user)
{
    heard *h = user;
    assert_int_equal(n, 1);
    assert_true(h->n < ANSWER);
    h->logprob[h->n] = v[0].logprob;
    h->id[h->n++] = v[0].id;
}

/* ask_tokens -- the prompt in two segments, token `at` of it changed. */
static heard ask_tokens(sp_context *c, const char *decode, int at)
{
    int32_t ids[N];
    heard h = {0};
    sp_prompt *p;
    sp_request *r;
    sp_request_opts o = {.sampling = sp_sampling_default(),
                         .max_tokens = ANSWER,
                         .ignore_end = true,
                         .on_token = on_token,
                         .user = &h,
                         .decode = decode};
    for (int i = 0; i < N; i++) ids[i] = 20 + i * 37 % 200 + (i == at);
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_tokens(p, ids, 333));
    assert_ok(sp_prompt_tokens(p, ids + 333, N - 333));
    assert_ok(sp_generate(c, p, &o, &r));
    const sp_result *res = sp_request_result(r);
    if (res->finish != SP_FINISH_LENGTH) fail_msg("%s", res->detail);
    h.n_reused = res->n_reused;
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return h;
}

static void a_token_reads_its_window(void **state)
{
    sp_context *c = open_policy(&prefix);
    const int n_layers = c->model->hp.n_layers, reach = N - n_layers * WINDOW;
    assert_true(reach > 200);
    heard whole = ask_tokens(c, "window:64", -1);
    for (int at = 5; at < reach; at += 41) {
        heard h = ask_tokens(c, "window:64", at);
        assert_memory_equal(h.logprob, whole.logprob, sizeof h.logprob);
        assert_memory_equal(h.id, whole.id, sizeof h.id);
    }
    static const int seen[] = {0, 3, N - WINDOW + 9, N - 1};
    for (size_t i = 0; i < SP_COUNT(seen); i++)
        assert_true(ask_tokens(c, "window:64", seen[i]).logprob[0] != whole.logprob[0]);
    assert_true(ask_tokens(c, "exact", reach - 1).logprob[0] !=
                ask_tokens(c, "exact", -1).logprob[0]);
    close_clean(c);
}

static void a_wide_window_is_full_attention(void **state)
{
    sp_context *c = open_with((sp_context_opts){.cache.kv_type = "f32", .machine.cpu = "ref"});
    heard exact = ask_tokens(c, "exact", -1), wide = ask_tokens(c, "window:4096", -1);
    heard narrow = ask_tokens(c, "window:16", -1);
    assert_memory_equal(wide.id, exact.id, sizeof exact.id);
    for (int i = 0; i < ANSWER; i++) assert_float_equal(wide.logprob[i], exact.logprob[i], 1e-3);
    assert_true(fabsf(narrow.logprob[0] - exact.logprob[0]) > 1e-3f);
    close_clean(c);
}

static void the_account_of_a_window_adds_up(void **state)
{
    sp_context *c = open_with((sp_context_opts){.reuse.policy = "full", .decode.how = "window:64"});
    heard first = ask_tokens(c, NULL, -1), second = ask_tokens(c, NULL, -1);
    assert_int_equal(first.n_reused + second.n_reused, 0);
    assert_memory_equal(first.logprob, second.logprob, sizeof first.logprob);
    assert_int_equal(sp_context_describe(c).cached_segments, 0);
    sp_request_destroy(run(c, submit(c, "01", NULL, 0)));
    const copy_count made = count_copies(c);
    assert_int_equal(made.n_content, 2);
    close_clean(c);
}

static void trees_are_refused(void **state)
{
    static const sp_prompt_node nodes[] = {{"Velm", -1}, {" has", 0}, {" a pier", 1}};
    sp_context *c = open_with((sp_context_opts){.decode.how = "window:64"});
    sp_prompt *p = prompt_of(c, "", NULL);
    assert_ok(sp_prompt_tree(p, nodes, SP_COUNT(nodes)));
    assert_ok(sp_prompt_question(p, "What?"));
    sp_request *r = run(c, submit_prompt(c, p, 4));
    assert_int_equal(sp_request_result(r)->finish, SP_FINISH_ERROR);
    assert_int_equal(sp_request_result(r)->err, SP_E_ARG);
    assert_non_null(strstr(sp_request_result(r)->detail, "window"));
    sp_request_destroy(r);
    close_clean(c);
}

static void sparse_answers_are_not_kept(void **state)
{
    static const char *const decodes[] = {"exact", "sparse:4096", "sparse:20%,depth=0"};
    for (int i = 0; i < 3; i++) {
        sp_context *c = open_policy(&prefix);
        ask_tokens(c, decodes[i], -1);
        assert_int_equal(sp_context_describe(c).cached_segments, i < 2 ? 3 : 2);
        close_clean(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_reads_its_window),
        cmocka_unit_test(a_wide_window_is_full_attention),
        cmocka_unit_test(the_account_of_a_window_adds_up),
        cmocka_unit_test(trees_are_refused),
        cmocka_unit_test(sparse_answers_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
