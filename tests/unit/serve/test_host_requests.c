/* test_host_requests.c -- copies that leave the device go to the host tier and come back: exact where
 * they were exact, written once, lost in the right order. */
#include <stdio.h>

#include "serve/documents/erase.h"
#include "support/requests.h"
#include "support/tiers.h"

#include "cache/evict.h"

static const policy prefix = {"prefix", 0}, full = {"full", 0};
static const char question[] = "Which?";

static size_t block_bytes(void)
{
    sp_context *c = open_with((sp_context_opts){0});
    size_t n = sp_context_describe(c).kv_block_bytes;
    sp_context_close(c);
    return n;
}

/* open_small -- a device of n_blocks, so that prompts drive each other out, the oldest first. */
static sp_context *open_small(const policy *p, int n_blocks, sp_context_opts o)
{
    o.reuse.policy = p->name;
    o.n_batch = 40;
    o.cache.evict = "lru";
    o.cache.kv_bytes = (size_t)n_blocks * block_bytes();
    if (!o.tiers.host_bytes) o.tiers.host_bytes = 64 << 20;
    return open_with(o);
}

static sp_tier_stats host_stats(const sp_context *c)
{
    return sp_tier_stats_of(sp_tiers_host(c->tiers));
}

/* drive_out -- other prompts fill the device. */
static void drive_out(sp_context *c)
{
    sp_request_destroy(ask(c, "32", "Why was that so, and for how long then?", 20));
    sp_request_destroy(ask(c, "23", "What else is there to say of it at all?", 20));
    sp_request_destroy(ask(c, "3", "Is there anybody who can say who it was?", 20));
}

/* -- there and back ------------------------------------------------------------------------- */

static void paths_come_back_exact(void **state)
{
    sp_context *c = open_small(&prefix, 20, (sp_context_opts){0});
    sp_request_destroy(ask(c, "01", question, 6));
    drive_out(c);
    sp_request *r = ask(c, "01", question, 6);
    assert_true(n_from(r, "host") >= 2); /* and the system prompt was never driven out */
    assert_text(r, alone(&prefix, "01", question, 6));
    assert_adds_up(sp_request_result(r));
    sp_request_destroy(r);
    close_clean(c);
}

static void a_longer_prompt_continues_what_came_back(void **state)
{
    sp_context *c = open_small(&prefix, 22, (sp_context_opts){0});
    sp_request_destroy(ask(c, "0", question, 6));
    drive_out(c);
    sp_request *r = ask(c, "01", "Why?", 6);
    assert_true(n_from(r, "host") >= 1);
    assert_text(r, alone(&prefix, "01", "Why?", 6));
    sp_request_destroy(r);
    close_clean(c);
}

static void chunks_come_back_anywhere(void **state)
{
    sp_context *c = open_small(&full, 12, (sp_context_opts){0});
    sp_request_destroy(ask(c, "01", question, 6));
    drive_out(c);
    sp_request *r = ask(c, "10", question, 6);
    assert_true(n_from(r, "host") >= 1);
    assert_text(r, alone(&full, "10", question, 6));
    sp_request_destroy(r);
    close_clean(c);
}

/* -- nodes that share blocks, and come back in blocks of their own ------------------------------ */

/* A tree of short nodes. */
enum { N_LEAVES = 24, N_ANSWER = 20 };

static sp_request *submit_tree(sp_context *c)
{
    sp_prompt_node nodes[1 + N_LEAVES] = {{"Hub", -1}};
    char names[N_LEAVES][8];
    sp_prompt *p;
    sp_request *r = NULL;
    sp_request_opts o = {
        .sampling = sp_sampling_default(), .max_tokens = N_ANSWER, .ignore_end = true};
    for (int i = 0; i < N_LEAVES; i++) {
        snprintf(names[i], sizeof names[i], " %c%d", 'a' + i % 26, i);
        nodes[1 + i] = (sp_prompt_node){names[i], 0};
    }
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    assert_ok(sp_prompt_tree(p, nodes, SP_COUNT(nodes)));
    assert_ok(sp_prompt_question(p, question));
    sp_err err = sp_request_submit(c, p, &o, &r);
    sp_prompt_destroy(p);
    if (err != SP_E_NOKV && err != SP_E_CONTEXT) assert_ok(err);
    return r;
}

/* In any memory that a tree can be computed in, it can be asked for again once it is on the host: as many nodes
 * are loaded as leave room for the rest, which is computed. */
static void nodes_come_back_where_they_fit(void **state)
{
    int n_tight = 0, n_whole = 0;
    for (int n_blocks = 8; n_blocks <= 48; n_blocks++) {
        sp_context *c = open_small(&prefix, n_blocks, (sp_context_opts){0});
        sp_request *cold = submit_tree(c), *warm = NULL;
        if (cold && sp_request_result(run(c, cold))->finish == SP_FINISH_LENGTH) {
            assert_ok(sp_measure_swap_out(c));
            warm = run(c, submit_tree(c));
            if (sp_request_result(warm)->finish != SP_FINISH_LENGTH)
                fail_msg("%d blocks: %s", n_blocks, sp_request_result(warm)->detail);
            assert_adds_up(sp_request_result(warm));
            assert_same_text(cold, warm);
            const int n = n_from(warm, "host");
            assert_true(n > 0);
            n_tight += n < 2 + N_LEAVES; /* the system text, the hub, the leaves */
            n_whole += n == 2 + N_LEAVES;
        }
        sp_request_destroy(cold);
        sp_request_destroy(warm);
        close_clean(c);
    }
    assert_true(n_tight > 4 && n_whole > 4);
}

typedef struct counted {
    int n_prepared;
} counted;

static size_t no_bytes(void *user, int32_t n)
{
    return 0;
}

static void count_prepared(void *user, const uint32_t *blocks, int32_t n)
{
    ((counted *)user)->n_prepared++;
}

static bool has_notes(void *user, const uint32_t *blocks, int32_t n)
{
    return true;
}

/* Notes are of whole blocks: none are made of nodes that begin inside one. */
static void notes_are_made_of_copies_that_begin_a_block(void **state)
{
    counted n = {0};
    const sp_kv_notes notes = {
        .bytes = no_bytes, .prepare = count_prepared, .has = has_notes, .user = &n};
    int n_whole = 0, n_inside = 0;
    sp_context *c = open_small(&prefix, 48, (sp_context_opts){0});
    sp_request_destroy(run(c, submit_tree(c)));
    sp_kv_pool_set_notes(c->pool, &notes);
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        if (v->state == SP_COPY_READY && !(v->places & SP_AT_HOST)) *(v->first ? &n_inside : &n_whole) += 1;
    assert_true(n_whole > 0 && n_inside > 0);
    assert_ok(sp_measure_swap_out(c));
    assert_int_equal(n.n_prepared, n_whole);
    sp_kv_pool_set_notes(c->pool, NULL);
    close_clean(c);
}

/* A long answer reads nodes that were loaded as if they had been computed together. */
static void nodes_that_come_back_are_packed(void **state)
{
    sp_context *c = open_small(&prefix, 200, (sp_context_opts){0});
    sp_request *cold = run(c, submit_tree(c));
    assert_ok(sp_measure_swap_out(c));
    sp_request *warm = run(c, submit_tree(c));
    assert_int_equal(n_from(warm, "host"), 2 + N_LEAVES);
    assert_int_equal(sp_request_result(cold)->decode.n_packed, 0); /* one tree: it is in place */
    int n_nodes = 0;
    for (int i = 1; i < 2 + N_LEAVES; i++) n_nodes += sp_request_result(warm)->segments[i].n_reused;
    assert_int_equal(sp_request_result(warm)->decode.n_packed, n_nodes);
    assert_same_text(cold, warm);
    sp_request_destroy(cold);
    sp_request_destroy(warm);
    close_clean(c);
}

/* -- written once --------------------------------------------------------------------------- */

static void a_copy_is_swapped_out_once(void **state)
{
    sp_context *c = open_small(&full, 12, (sp_context_opts){0});
    for (int i = 0; i < 2; i++) {
        sp_request_destroy(ask(c, "01", question, 6));
        drive_out(c);
    }
    const sp_tier_stats s = host_stats(c);
    assert_true(s.n_got > 0 && sp_ledger_stats_of(c->ledger).n_evicted > s.n_put);
    assert_int_equal(s.n_put, s.n_copies); /* no copy twice */
    assert_int_equal(s.n_dropped, 0);
    close_clean(c);
}

/* -- a host that is full -------------------------------------------------------------------- */

static void check_order(const sp_context *c)
{
    int64_t n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) {
        n += (v->places & SP_AT_HOST) != 0;
        if (v->parent && v->places) /* RAGCache section 5.1: never lower than its children */
            assert_true(v->parent->state != SP_COPY_FREE ||
                        (v->state == SP_COPY_FREE && v->parent->places & SP_AT_HOST));
    }
    assert_int_equal(host_stats(c).n_copies, n);
}

static void a_full_host_drops_by_its_policy(void **state)
{
    int n_evict;
    const sp_evict_info *evict = sp_evict_policies(&n_evict);
    for (int k = 0; k < n_evict; k++) {
        sp_context *c = open_small(&prefix, 16,
                                   (sp_context_opts){.tiers.host_bytes = 200 << 10,
                                                     .tiers.host_evict = evict[k].name});
        for (int i = 0; i < 24; i++) {
            static const char *const orders[] = {"0", "01", "012", "3", "31", "20", "21"};
            const char *order = orders[i * 5 % SP_COUNT(orders)];
            sp_request_destroy(ask_as_alone(c, &prefix, order, question, 4));
            check_order(c);
            assert_true(host_stats(c).bytes_used <= 200 << 10);
        }
        assert_true(host_stats(c).n_got > 0 && host_stats(c).n_dropped > 0);
        assert_int_equal(host_stats(c).n_evicted, 0); /* the ledger has always made room before */
        close_clean(c);
    }
}

static void unknown_names_are_refused(void **state)
{
    sp_context *c = NULL;
    sp_context_opts o = {.model = MODEL, .tiers.host_bytes = 1 << 20, .tiers.host_evict = "mru"};
    assert_int_equal(sp_context_open(&o, &c), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "lru, lfu, gdsf"));
    o = (sp_context_opts){.model = MODEL, .tiers.host_bytes = 1 << 20, .tiers.host_kv = "q3"};
    assert_int_equal(sp_context_open(&o, &c), SP_E_ARG);
    o = (sp_context_opts){.model = MODEL, .tiers.host_bytes = -1};
    assert_int_equal(sp_context_open(&o, &c), SP_E_ARG);
}

/* -- packed --------------------------------------------------------------------------------- */

static void packed_copies_are_smaller_and_paths_exact(void **state)
{
    int64_t bytes[2];
    for (int packed = 0; packed < 2; packed++) {
        sp_context *c = open_small(
            &full, 24,
            (sp_context_opts){.cache.kv_type = "f32", .tiers.host_kv = packed ? "q8_0" : NULL});
        sp_request_destroy(ask(c, "01", question, 6));
        drive_out(c);
        sp_request *r = ask(c, "10", question, 6);
        assert_true(n_from(r, "host") >= 1);
        sp_request_destroy(r);
        bytes[packed] = host_stats(c).bytes_written / host_stats(c).n_put;
        close_clean(c);
    }
    assert_true(bytes[1] < bytes[0]);
    sp_context *c = open_small(&prefix, 20, (sp_context_opts){.tiers.host_kv = "q8_0"});
    sp_request_destroy(ask(c, "01", question, 6));
    drive_out(c);
    sp_request *r = ask(c, "01", question, 6);
    assert_true(n_from(r, "host") >= 2);
    assert_text(r, alone(&prefix, "01", question, 6));
    sp_request_destroy(r);
    close_clean(c);
}

/* -- loss of the device --------------------------------------------------------------------- */

static void what_the_host_has_survives_the_device(void **state)
{
    sp_context *c = open_small(&prefix, 20, (sp_context_opts){0});
    sp_request_destroy(ask(c, "01", question, 6));
    drive_out(c);
    sp_ledger_lose_device(c->ledger);
    check_order(c);
    sp_request *r = ask(c, "01", question, 6);
    assert_true(n_from(r, "host") >= 2);
    assert_text(r, alone(&prefix, "01", question, 6));
    sp_request_destroy(r);
    close_clean(c);
}

/* Where copies are, is the device or any tier below it. */
static void what_the_host_has_is_present(void **state)
{
    sp_context *c = open_small(&full, 12, (sp_context_opts){0});
    sp_request_destroy(ask(c, "01", question, 6));
    drive_out(c);
    sp_prompt *p = prompt_of(c, "0", NULL);
    sp_presence there;
    assert_ok(sp_context_presence(c, &p->segs.v[1].id, 1, &there));
    assert_int_equal(there.n_device, 0);
    assert_int_equal(there.n_store, 1);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* A system prompt that many requests use is on the host before anything drives it out. */
static void hot_upper_nodes_are_replicated(void **state)
{
    sp_context *c = open_small(&prefix, 200, (sp_context_opts){0});
    for (int i = 0; i < 5; i++) sp_request_destroy(ask(c, i % 2 ? "0" : "1", question, 2));
    assert_int_equal(sp_ledger_stats_of(c->ledger).n_evicted, 0);
    assert_true(host_stats(c).n_copies >= 1);
    sp_ledger_lose_device(c->ledger);
    sp_request *r = ask(c, "2", question, 6);
    assert_string_equal(sp_request_result(r)->segments[0].from, "host");
    assert_text(r, alone(&prefix, "2", question, 6));
    sp_request_destroy(r);
    close_clean(c);
}

/* -- faults --------------------------------------------------------------------------------- */

static sp_err life(void)
{
    sp_context *c = NULL;
    sp_context_opts o = {.model = MODEL,
                         .machine.n_threads = 1,
                         .n_batch = 40,
                         .tiers.host_bytes = 4 << 20,
                         .cache.kv_bytes = 4 << 20,
                         .reuse.policy = "prefix"};
    SP_TRY(sp_context_open(&o, &c));
    sp_err err = SP_OK;
    for (int i = 0; i < 3 && err == SP_OK; i++) {
        sp_prompt *p = NULL;
        sp_request *r = NULL;
        sp_request_opts ro = {.sampling = sp_sampling_default(), .max_tokens = 2, .ignore_end = true};
        err = sp_prompt_create(c, &p);
        if (err == SP_OK) err = sp_prompt_system(p, "Be brief.");
        if (err == SP_OK) err = sp_prompt_chunk(p, "T", texts[0]);
        if (err == SP_OK) err = sp_prompt_question(p, "Why?");
        if (err == SP_OK) err = sp_generate(c, p, &ro, &r);
        sp_request_destroy(r);
        sp_prompt_destroy(p);
        while (sp_ledger_free_up(c->ledger, sp_kv_pool_n_free(c->pool) + 1)) {
        }
    }
    sp_context_close(c);
    return err;
}

static void every_allocation_may_fail(void **state)
{
    sp_log_set(SP_LOG_ERROR, NULL, NULL);
    survive_every_fault(life);
    sp_log_set(SP_LOG_WARN, NULL, NULL);
}

/* -- admission ------------------------------------------------------------------------------ */

/* A copy that loads slower than it was computed is not taken; while speeds are not known, all are. */
static void only_what_pays_is_taken(void **state)
{
    const double byte_us[] = {0, 1e-9, 1e6};
    for (size_t i = 0; i < SP_COUNT(byte_us); i++) {
        sp_context *c = open_small(&full, 12, (sp_context_opts){.tiers.admit_cheaper = true});
        sp_tiers_level(c->tiers, SP_AT_HOST)->byte_us = byte_us[i];
        sp_request_destroy(ask(c, "01", question, 6));
        for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
            if (v->facts.kind == SP_COPY_PLAIN) assert_true(v->facts.cost_us > 0);
        drive_out(c);
        int n_plain = 0;
        for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
            n_plain += v->facts.kind == SP_COPY_PLAIN && v->places & SP_AT_HOST;
        assert_int_equal(n_plain > 0, byte_us[i] < 1);
        close_clean(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_come_back_exact),
        cmocka_unit_test(a_longer_prompt_continues_what_came_back),
        cmocka_unit_test(chunks_come_back_anywhere),
        cmocka_unit_test(nodes_come_back_where_they_fit),
        cmocka_unit_test(notes_are_made_of_copies_that_begin_a_block),
        cmocka_unit_test(nodes_that_come_back_are_packed),
        cmocka_unit_test(a_copy_is_swapped_out_once),
        cmocka_unit_test(a_full_host_drops_by_its_policy),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(packed_copies_are_smaller_and_paths_exact),
        cmocka_unit_test(what_the_host_has_survives_the_device),
        cmocka_unit_test(what_the_host_has_is_present),
        cmocka_unit_test(hot_upper_nodes_are_replicated),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(only_what_pays_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
