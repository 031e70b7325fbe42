/* test_craft_requests.c -- requests under Cache-Craft: copies behind other chunks are kept, chosen,
 * mended and given up. */
#include <math.h>
#include <stdio.h>

#include "support/requests.h"

enum { NEVER = 0 }; /* focus: tokens are never dropped */

static sp_context *open_craft(float recompute, int focus, int max_variants)
{
    char name[32];
    snprintf(name, sizeof name, "craft:focus=%d", focus);
    return open_with(
        (sp_context_opts){.reuse = {.policy = name, .recompute = recompute},
                          .cache.kv_type = "f32",
                          .cache.max_placed = max_variants,
                          .n_batch = 40});
}

static const policy off = {"off", 0};

/* exactly -- what full attention answers, with keys and values of full precision. */
static char *exactly(const char *order, const char *question, int max_tokens)
{
    return text_of(open_with((sp_context_opts){.reuse.policy = off.name, .cache.kv_type = "f32"}), order, question,
                   max_tokens);
}

static int64_t n_evicted(const sp_context *c)
{
    return sp_ledger_stats_of(c->ledger).n_evicted;
}

static int n_chunk_tokens(const sp_result *r)
{
    int n = 0;
    for (int i = 0; i < r->n_segments; i++)
        if (strcmp(r->segments[i].kind, "chunk") == 0) n += r->segments[i].n_tokens;
    return n;
}

/* -- logits, to compare bits ---------------------------------------------------------------- */

typedef struct heard {
    float logits[8][512];
    int n;
} heard;

static sp_err hear(int position, const float *logits, int n_vocab, void *user)
{
    heard *h = user;
    SP_UNUSED(position);
    assert_in_range(n_vocab, 1, 512);
    assert_in_range(h->n, 0, 7);
    memcpy(h->logits[h->n++], logits, (size_t)n_vocab * sizeof *logits);
    return SP_OK;
}

/* ask_hearing -- four tokens that are forced, so that all logits are of the same text; the request
 * keeps its KV. */
static sp_request *ask_hearing(sp_context *c, const sp_reuse_opts *reuse, const char *order,
                               const char *question, heard *h)
{
    static const int32_t forced[] = {70, 71, 72, 73};
    sp_prompt *p = prompt_of(c, order, question);
    sp_request *r;
    *h = (heard){0};
    const sp_measure m = {
        .forced = forced, .n_forced = 4, .on_logits = hear, .user = h, .keep_kv = true};
    assert_ok(sp_measure_submit(c, p,
                                &(sp_request_opts){.reuse = reuse,
                                                   .sampling = sp_sampling_default(),
                                                   .max_tokens = 4},
                                &m, &r));
    sp_prompt_destroy(p);
    run(c, r);
    if (sp_request_result(r)->finish != SP_FINISH_LENGTH)
        fail_msg("%s", sp_request_result(r)->detail);
    assert_int_equal(h->n, 4);
    return r;
}

static void assert_same_logits(const heard *a, const heard *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->logits, b->logits, sizeof a->logits);
}

/* -- which copies are kept ------------------------------------------------------------------- */

static void a_known_prefix_is_reused_whole(void **state)
{
    for (int share = 0; share < 4; share++) {
        sp_context *c = open_craft((float)share * 0.25f, 0, 0);
        heard cold, warm;
        sp_request *first = ask_hearing(c, NULL, "0122", "Where?", &cold),
                   *again = ask_hearing(c, NULL, "0122", "Where?", &warm);
        const sp_result *a = sp_request_result(first), *b = sp_request_result(again);
        assert_int_equal(a->n_reused, 0);
        assert_int_equal(a->n_recomputed, 0);
        assert_int_equal(b->n_recomputed, 0);
        assert_int_equal(b->n_computed, b->segments[5].n_tokens);
        for (int i = 1; i < 5; i++) {
            assert_string_equal(a->segments[i].missed, "never seen");
            assert_string_equal(b->segments[i].from, "memory");
            assert_true(again->look.found[i].cfo == 0);
        }
        assert_same_logits(&warm, &cold);
        assert_int_equal(count_copies(c).n_content, 4);
        assert_int_equal(count_copies(c).n_placed, 3); /* the first one: after the head */
        sp_request_destroy(first);
        sp_request_destroy(again);
        sp_request *other = ask(c, "0122", "How many rooms?", 12); /* nothing is approximate here */
        assert_text(other, exactly("0122", "How many rooms?", 12));
        sp_request_destroy(other);
        close_clean(c);
    }
}

static void the_share_is_recomputed(void **state)
{
    for (int share = 0; share <= 4; share++) {
        float r = (float)share * 0.25f;
        sp_context *c = open_craft(r, NEVER, 0);
        sp_request *first = ask(c, "012", "Where?", 2), *other = ask(c, "210", "Where?", 2);
        const sp_result *b = sp_request_result(other);
        int n = (int)ceilf(r * (float)n_chunk_tokens(b));
        assert_adds_up(b);
        assert_int_equal(b->n_recomputed, n);
        assert_int_equal(b->n_computed, n + b->segments[4].n_tokens);
        for (int i = 1; i < 4; i++) assert_string_equal(b->segments[i].from, "memory");
        /* three copies, and a patch for each that was mended */
        int n_patches = 0;
        for (int i = 1; i < 4; i++) n_patches += b->segments[i].n_recomputed > 0;
        assert_int_equal(count_copies(c).n_content, 3 + n_patches);
        assert_int_equal(count_copies(c).n_placed, 2 + n_patches);
        sp_request_destroy(first);
        sp_request_destroy(other);
        close_clean(c);
    }
}

/* A patch over its base is what was computed when it came to be, and so are the logits behind
 * it. */
static void patches_serve_their_prefix(void **state)
{
    static const char *const types[] = {"f32", "f16", "bf16", "q8_0"};
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        sp_context *c = open_with(
            (sp_context_opts){.reuse = {.policy = "craft:focus=0", .recompute = 0.3f},
                              .cache.kv_type = types[i],
                              .n_batch = 11});
        heard mended, patched;
        sp_request *first = ask(c, "012", "Where?", 2),
                   *other = ask_hearing(c, NULL, "210", "Where?", &mended),
                   *again = ask_hearing(c, NULL, "210", "Where?", &patched);
        float differ[2];
        assert_true(sp_request_result(other)->n_recomputed > 0);
        assert_int_equal(sp_request_result(again)->n_recomputed, 0);
        for (int s = 1; s < 4; s++)
            if (sp_request_result(other)->segments[s].n_recomputed > 0)
                assert_non_null(again->look.found[s].copy->base);
        assert_same_logits(&patched, &mended);
        assert_ok(sp_request_kv_deviation(again, other, differ));
        assert_true(differ[0] == 0 && differ[1] == 0);
        sp_request_destroy(first);
        sp_request_destroy(other);
        sp_request_destroy(again);
        close_clean(c);
    }
}

/* Eq. 12: ceil(alpha CFO n) tokens, chunk by chunk. */
static void alpha_counts_tokens_chunk_by_chunk(void **state)
{
    static const float alphas[] = {0.01f, 0.4f, 1, 50};
    for (size_t i = 0; i < SP_COUNT(alphas); i++) {
        sp_context *c = open_craft(0, NEVER, 0);
        char name[48];
        snprintf(name, sizeof name, "craft:alpha=%.9g,focus=0", (double)alphas[i]);
        sp_reuse_opts o = {.policy = name};
        heard h;
        sp_request *first = ask(c, "2103", "Where?", 2),
                   *other = ask_hearing(c, &o, "2310", "Where?", &h);
        const sp_result *b = sp_request_result(other);
        for (int s = 1; s < 5; s++) {
            double share = fmin(1, (double)alphas[i] * (double)other->look.found[s].cfo);
            assert_int_equal(b->segments[s].n_recomputed, ceil(share * b->segments[s].n_tokens));
        }
        assert_int_equal(b->segments[1].n_recomputed, 0); /* it stands where it stood */
        assert_true(b->n_recomputed > 0);
        sp_request_destroy(first);
        sp_request_destroy(other);
        close_clean(c);
    }
}

static void all_again_is_exact(void **state)
{
    static const char *const orders[] = {"012", "210", "01", "1", "0011", "3120", "012", "210"};
    sp_context *c = open_craft(1, 1, 0);
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        sp_request *r = ask(c, orders[i], "Where?", 12);
        assert_adds_up(sp_request_result(r));
        assert_text(r, exactly(orders[i], "Where?", 12));
        sp_request_destroy(r);
    }
    close_clean(c);
}

/* Tokens dropped on the way count as computed again and as dropped, but leave no patch. */
static void dropped_tokens_leave_no_patch(void **state)
{
    static const char *const orders[] = {"0123", "3210", "2031", "1302", "0312"};
    int n_dropped = 0;
    sp_context *c = open_craft(0.5f, 1, 0);
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        heard h;
        int64_t before = count_copies(c).n_content;
        sp_request *r = ask_hearing(c, NULL, orders[i], "Where?", &h);
        const sp_result *got = sp_request_result(r);
        int mended = 0, kept = (int)(count_copies(c).n_content - before);
        for (int s = 1; s < 5; s++)
            mended += got->segments[s].n_recomputed > 0 && !r->look.found[s].copy->base;
        assert_adds_up(got);
        if (i > 0) assert_in_range(kept, 0, mended);
        n_dropped += i > 0 ? mended - kept : 0;
        assert_in_range(got->n_dropped, mended > kept ? 1 : 0, mended > kept ? got->n_recomputed : 0);
        sp_request_destroy(r);
    }
    assert_true(n_dropped > 0);
    close_clean(c);
}

/* What is measured is the prompt; decoding is as fast as without. */
static void decoding_is_not_measured(void **state)
{
    sp_context *c = open_craft(0.25f, 0, 0);
    sp_request *r = submit(c, "012", "Where?", 4);
    while (r->state != SP_REQ_DECODE) {
        assert_true(r->state != SP_REQ_PREFILL || r->plans.now.gate.wants_mass);
        step(c);
    }
    assert_null(r->plans.now.gate.after_layer);
    assert_false(r->plans.now.gate.wants_mass);
    run(c, r);
    sp_request_destroy(r);
    close_clean(c);
}

/* -- what goes ------------------------------------------------------------------------------- */

static void at_most_max_variants(void **state)
{
    static const char *const orders[] = {"012", "210", "120", "0213", "3012", "2013", "1032"};
    sp_context *c = open_craft(0.25f, NEVER, 3);
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        sp_request *r = ask(c, orders[i], "Where?", 4);
        assert_in_range(count_copies(c).n_placed, 0, 3);
        sp_request_destroy(r);
    }
    assert_true(n_evicted(c) > 0);
    close_clean(c);
}

static sp_context *open_blocks(float recompute, int64_t n_blocks)
{
    sp_context *c = open_craft(recompute, 0, 0);
    size_t block = sp_context_describe(c).kv_block_bytes;
    sp_context_close(c);
    return open_with((sp_context_opts){.reuse = {.policy = "craft", .recompute = recompute},
                                       .cache.kv_type = "f32",
                                       .n_batch = 40,
                                       .cache.kv_bytes = (size_t)n_blocks * block});
}

/* The pool holds one prompt, and hardly more: copies and patches come and go. */
static void little_memory_is_enough(void **state)
{
    static const char *const orders[] = {"01", "2", "10", "3", "02", "12", "201", "20"};
    for (int share = 1; share <= 4; share += 3) {
        sp_context *c = open_blocks(0.25f * (float)share, 24);
        sp_request *r[SP_COUNT(orders)];
        for (size_t k = 0; k < SP_COUNT(orders); k++)
            r[k] = submit(c, orders[k], "Where then?", 18);
        for (size_t k = 0; k < SP_COUNT(orders); k++) {
            run(c, r[k]);
            assert_int_equal(sp_request_result(r[k])->finish, SP_FINISH_LENGTH);
            if (share == 4) assert_text(r[k], exactly(orders[k], "Where then?", 18));
        }
        for (size_t k = 0; k < SP_COUNT(orders); k++) sp_request_destroy(r[k]);
        assert_true(n_evicted(c) > 0);
        close_clean(c);
    }
}

static void requests_may_leave_in_every_stage(void **state)
{
    bool was_done = false;
    for (int n_steps = 0; !was_done; n_steps++) {
        sp_context *c = open_with((sp_context_opts){
            .reuse = {.policy = "craft", .recompute = 1}, .cache.kv_type = "f32", .n_batch = 9});
        sp_request *warm = ask(c, "012", "Who?", 2);
        sp_request *r = submit(c, "210", "Who?", 4), *stays = submit(c, "12", "Which?", 4);
        for (int i = 0; i < n_steps; i++) step(c);
        was_done = done(r);
        if (n_steps % 2) {
            sp_request_cancel(r);
            run(c, r);
        }
        sp_request_destroy(r);
        assert_text(run(c, stays), exactly("12", "Which?", 4));
        sp_request_destroy(stays);
        sp_request_destroy(warm);
        close_clean(c);
        assert_in_range(n_steps, 0, 200);
    }
}

static sp_err life(void)
{
    return life_of(&(policy){"craft", 0.25f}, /* cold, recomputed in part, with patches */
                   (const char *const[]){"01", "10", "10", NULL});
}

static void every_allocation_may_fail(void **state)
{
    survive_every_fault(life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_prefix_is_reused_whole),
        cmocka_unit_test(the_share_is_recomputed),
        cmocka_unit_test(patches_serve_their_prefix),
        cmocka_unit_test(alpha_counts_tokens_chunk_by_chunk),
        cmocka_unit_test(all_again_is_exact),
        cmocka_unit_test(dropped_tokens_leave_no_patch),
        cmocka_unit_test(decoding_is_not_measured),
        cmocka_unit_test(at_most_max_variants),
        cmocka_unit_test(little_memory_is_enough),
        cmocka_unit_test(requests_may_leave_in_every_stage),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
