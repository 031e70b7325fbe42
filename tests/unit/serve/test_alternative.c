/* test_alternative.c -- the alternative path: an exact prefix where one is known, copies of chunks
 * after it; one copy of a chunk for both (FusionRAG section 4.1, F5). */
#include "support/check.h"

#include <string.h>

#include "serve/request/context.h"

#define MODEL "tests/golden/tiny.gguf"

static sp_request *ask(sp_context *c, const char *order, const sp_reuse_opts *reuse, int max_tokens)
{
    static const char *const texts[] = {"Boats leave Velm at nine.", "Torin has two hotels.",
                                        "The Anchor has twelve rooms at the pier."};
    sp_prompt *p;
    sp_request *r;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    for (; *order; order++) assert_ok(sp_prompt_chunk(p, "T", texts[*order - '0']));
    if (max_tokens) assert_ok(sp_prompt_question(p, "Where?"));
    assert_ok(sp_generate(c, p,
                          &(sp_request_opts){.sampling = sp_sampling_default(),
                                             .max_tokens = max_tokens,
                                             .reuse = reuse,
                                             .ignore_end = true},
                          &r));
    sp_prompt_destroy(p);
    return r;
}

static void an_exact_prefix_comes_before_copies(void **state)
{
    int n_policies;
    const sp_reuse_info *policies = sp_reuse_policies(&n_policies);
    for (int i = 0; i < n_policies; i++) {
        if (!policies[i].anywhere) continue;
        const sp_reuse_opts prefix = {.policy = "prefix"};
        const sp_reuse_opts first = {.policy = policies[i].name, .recompute = 0.5f, .exact_first = true};
        sp_context *c = NULL;
        assert_ok(sp_context_open(&(sp_context_opts){.model = MODEL, .machine.n_threads = 1}, &c));
        sp_request_destroy(ask(c, "012", &first, 0)); /* a copy of every chunk */
        sp_request *known = ask(c, "01", &prefix, 6); /* an exact prefix of the next one */
        sp_request *same = ask(c, "01", &first, 6), *longer = ask(c, "012", &first, 6);
        const sp_result *a = sp_request_result(known), *b = sp_request_result(same),
                        *l = sp_request_result(longer);
        assert_memory_equal(a->tokens, b->tokens,
                            6 * sizeof *a->tokens); /* exact: nothing mended */
        assert_int_equal(b->n_recomputed, 0);
        assert_int_equal(b->n_computed, b->segments[3].n_tokens);
        for (int s = 1; s <= 2; s++) {
            assert_int_equal(l->segments[s].n_reused, l->segments[s].n_tokens);
            assert_string_equal(l->segments[s].from, "memory");
        }
        /* the third has a copy, and the policy mends that */
        assert_string_equal(l->segments[3].from, "memory");
        assert_int_equal(l->n_recomputed, l->segments[3].n_recomputed);
        sp_request_destroy(known);
        sp_request_destroy(same);
        sp_request_destroy(longer);
        sp_context_close(c);
    }
}

/* -- one copy a chunk ------------------------------------------------------------------------ */

static sp_context *open_context(void)
{
    sp_context *c = NULL;
    assert_ok(sp_context_open(&(sp_context_opts){.model = MODEL, .machine.n_threads = 1}, &c));
    return c;
}

static int64_t n_blocks(const sp_context *c)
{
    return sp_ledger_stats_of(c->ledger).n_blocks;
}

static void same_answer(const sp_request *a, const sp_request *b)
{
    const sp_result *x = sp_request_result(a), *y = sp_request_result(b);
    assert_int_equal(x->n_generated, y->n_generated);
    assert_memory_equal(x->tokens, y->tokens, (size_t)x->n_generated * sizeof *x->tokens);
}

/* chunks_reused -- "10": the first chunk was reused as a whole, the second was not. */
static void chunks_reused(const sp_request *r, const char *wanted)
{
    const sp_result *x = sp_request_result(r);
    for (int i = 0; wanted[i]; i++)
        assert_int_equal(x->segments[1 + i].n_reused, wanted[i] == '1' ? x->segments[1 + i].n_tokens : 0);
}

/* Figure 10: queries 1 and 2 cache [S, b] and [S, a, b] by path; query 3 has [S, b, a] and computes no chunk. */
static void a_path_copy_after_the_head_serves_anywhere(void **state)
{
    const sp_reuse_opts prefix = {.policy = "prefix"}, full = {.policy = "full"};
    sp_context *c = open_context(), *cold = open_context();
    sp_request *one = ask(c, "1", &prefix, 1), *two = ask(c, "01", &prefix, 1);
    const int64_t before = n_blocks(c);
    sp_request *three = ask(c, "10", &full, 8), *alone = ask(cold, "10", &full, 8);
    chunks_reused(three, "11");
    assert_int_equal(n_blocks(c), before); /* nothing was stored twice; its question has no path */
    same_answer(three, alone);
    chunks_reused(alone, "00");
    sp_request_destroy(one);
    sp_request_destroy(two);
    sp_request_destroy(three);
    sp_request_destroy(alone);
    sp_context_close(c);
    sp_context_close(cold);
}

/* A path copy that does not follow the head saw another chunk: it serves nowhere else. */
static void a_path_copy_after_a_chunk_serves_its_path_alone(void **state)
{
    const sp_reuse_opts prefix = {.policy = "prefix"}, full = {.policy = "full"};
    sp_context *c = open_context();
    sp_request *two = ask(c, "01", &prefix, 1), *three = ask(c, "10", &full, 1);
    chunks_reused(three, "01");
    sp_request_destroy(two);
    sp_request_destroy(three);
    sp_context_close(c);
}

static void a_plain_copy_after_the_head_begins_a_path(void **state)
{
    const sp_reuse_opts prefix = {.policy = "prefix"}, full = {.policy = "full"}, off = {.policy = "off"};
    sp_context *c = open_context(), *cold = open_context();
    sp_request *fill = ask(c, "10", &full, 0);
    const int64_t before = n_blocks(c);
    sp_request *known = ask(c, "02", &prefix, 8), *again = ask(c, "02", &prefix, 8);
    sp_request *alone = ask(cold, "02", &off, 8);
    chunks_reused(known, "10"); /* chunk 0, although it was the second chunk of the first prompt */
    same_answer(known, alone);
    chunks_reused(again, "11"); /* what was computed after it is found by path */
    same_answer(again, alone);
    const sp_result *x = sp_request_result(known);
    int64_t fresh = 0;
    for (int i = 2; i < 4; i++) fresh += sp_blocks_for(x->segments[i].n_tokens);
    assert_int_equal(n_blocks(c), before + fresh); /* chunk 2 and the question, not chunk 0 */
    sp_request_destroy(fill);
    sp_request_destroy(known);
    sp_request_destroy(again);
    sp_request_destroy(alone);
    sp_context_close(c);
    sp_context_close(cold);
}

/* In its own place it is exact: inplace recomputes nothing there, and its share elsewhere. */
static void a_path_copy_is_recomputed_only_where_it_moved(void **state)
{
    const sp_reuse_opts prefix = {.policy = "prefix"}, inplace = {.policy = "inplace", .recompute = 0.5f};
    sp_context *c = open_context();
    sp_request *known = ask(c, "0", &prefix, 1), *other = ask(c, "1", &prefix, 1);
    sp_request *same = ask(c, "02", &inplace, 1), *moved = ask(c, "10", &inplace, 1);
    chunks_reused(same, "10");
    assert_int_equal(sp_request_result(same)->n_recomputed, 0);
    const sp_result *x = sp_request_result(moved);
    assert_int_equal(x->segments[1].n_recomputed, 0);
    assert_int_equal(x->segments[2].n_recomputed, (x->segments[2].n_tokens + 1) / 2);
    sp_request_destroy(known);
    sp_request_destroy(other);
    sp_request_destroy(same);
    sp_request_destroy(moved);
    sp_context_close(c);
}

/* Both names of a copy leave and come back from the host tier once. */
static void two_names_take_one_place_on_the_host(void **state)
{
    const sp_reuse_opts prefix = {.policy = "prefix"}, full = {.policy = "full"};
    sp_context *c = NULL;
    assert_ok(sp_context_open(
        &(sp_context_opts){.model = MODEL, .machine.n_threads = 1, .tiers.host_bytes = 1 << 24}, &c));
    sp_request_destroy(ask(c, "0", &full, 0));
    sp_request_destroy(ask(c, "0", &prefix, 1));
    sp_ledger_free_up(c->ledger, sp_kv_pool_n_blocks(c->pool));
    int n = 0;
    for (const sp_copy *copy = NULL; (copy = sp_ledger_next(c->ledger, copy));)
        n += copy->facts.kind == SP_COPY_PLAIN || (copy->facts.kind == SP_COPY_PATH && copy->parent &&
                                                   !copy->parent->parent);
    assert_int_equal(n, 1);
    sp_request *back = ask(c, "10", &full, 1);
    assert_string_equal(sp_request_result(back)->segments[2].from, "host");
    sp_request_destroy(back);
    sp_context_close(c);
}

/* -- leading chunks only --------------------------------------------------------------------- */

/* With two chunks kept of each prompt, what was third is computed once more, as the question after it; its answer is
 * that of any other context. */
static void only_leading_chunks_are_kept(void **state)
{
    static const char *const names[] = {"prefix", "full", "inplace"};
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        const sp_reuse_opts o = {.policy = names[i]}, off = {.policy = "off"};
        sp_context *c = NULL, *all = open_context();
        assert_ok(sp_context_open(
            &(sp_context_opts){.model = MODEL, .machine.n_threads = 1, .cache.keep_chunks = 2}, &c));
        sp_request *one = ask(c, "012", &o, 8), *two = ask(c, "012", &o, 8), *whole = ask(all, "012", &o, 8);
        sp_request *again = ask(all, "012", &o, 8), *cold = ask(all, "012", &off, 8);
        chunks_reused(two, "110");
        chunks_reused(again, "111");
        assert_int_equal(sp_request_result(two)->segments[4].n_reused, 0);
        assert_true(n_blocks(c) < n_blocks(all));
        if (i == 0) same_answer(two, cold);
        if (i == 0) same_answer(one, whole);
        sp_request *lead = ask(c, "2", &o, 1), *third = ask(c, "012", &o, 1); /* it leads another prompt: it is kept */
        chunks_reused(third, i ? "111" : "110");
        sp_request *const done[] = {one, two, whole, again, cold, lead, third};
        for (size_t k = 0; k < SP_COUNT(done); k++) sp_request_destroy(done[k]);
        sp_context_close(c);
        sp_context_close(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_prefix_comes_before_copies),
        cmocka_unit_test(a_path_copy_after_the_head_serves_anywhere),
        cmocka_unit_test(a_path_copy_after_a_chunk_serves_its_path_alone),
        cmocka_unit_test(a_plain_copy_after_the_head_begins_a_path),
        cmocka_unit_test(a_path_copy_is_recomputed_only_where_it_moved),
        cmocka_unit_test(two_names_take_one_place_on_the_host),
        cmocka_unit_test(only_leading_chunks_are_kept),
    };
    return cmocka_run_group_tests_name("serve/alternative", tests, NULL, NULL);
}
