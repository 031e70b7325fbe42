/* test_loading_queue.c -- loads of requests beside others: who decodes does not wait for them, who waits has its
 * copies loaded ahead, in the order of the queue, and who leaves does so at once. */
#include "support/stepped_tier.h"

static void who_decodes_does_not_wait(void **state)
{
    stepped s;
    sp_context *c = begin(&s, &full, (sp_context_opts){0});
    hurry(c);
    allow(&s, sp_kv_pool_shape(c->pool)->n_layers); /* of the head */
    sp_request *decodes = submit(c, "3", "Why?", 30);
    while (decodes->state != SP_REQ_DECODE) step(c);
    sp_request *r = submit(c, "10", "Which?", 4);
    step(c);
    const int n = n_copies_in(c, SP_COPY_LOADING), n_early = (int)c->loads.n_early;
    assert_true(n >= 2);
    allow(&s, n);
    wait_given(&s, sp_kv_pool_shape(c->pool)->n_layers + n);
    for (int i = 0; i < 12; i++) {
        size_t before = decodes->answer.tokens.n;
        step(c);
        assert_int_equal(decodes->answer.tokens.n, before + 1);
        assert_int_equal(r->state, SP_REQ_LOADING); /* a layer of each is not enough now */
        assert_false(sp_request_is_there(r));
    }
    assert_int_equal(c->loads.n_early, n_early);
    allow(&s, 1 << 20);
    while (!done(r)) step(c);
    assert_true(n_from(r, "host") >= 2);
    while (!done(decodes)) step(c);
    assert_text(r, alone(&full, "10", "Which?", 4));
    assert_text(decodes, alone(&full, "3", "Why?", 30));
    sp_request_destroy(decodes);
    sp_request_destroy(r);
    stepped_end(&s, c);
    close_clean(c);
}

static void waiting_requests_have_their_copies_loaded(void **state)
{
    static const sp_preload modes[] = {SP_PRELOAD_LAYERS, SP_PRELOAD_REQUEST, SP_PRELOAD_NONE};
    for (size_t k = 0; k < SP_COUNT(modes); k++) {
        stepped s;
        sp_context *c = begin(
            &s, &full,
            (sp_context_opts){.max_requests = 1, .tiers.preload = modes[k], .queue.order = "fcfs"});
        sp_request *runs = submit(c, "3", "Why?", 40), *oldest = submit(c, "2", "Why?", 2);
        sp_request *waits = submit(c, "10", "Which?", 4);
        allow(&s, 1 << 20);
        while (runs->answer.tokens.n < 20) step(c);
        tiers_rest(c->tiers);
        step(c);
        assert_int_equal(waits->state, SP_REQ_QUEUED);
        int n_pins = 0, n_ready = 0;
        for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) {
            if (v->places & SP_AT_HOST && v->state == SP_COPY_READY &&
                v->facts.kind == SP_COPY_PLAIN)
                n_ready++, n_pins += v->n_pins;
        }
        assert_int_equal(n_ready >= 2, modes[k] != SP_PRELOAD_NONE);
        assert_int_equal(n_pins, 0); /* nobody holds them: they may leave again */
        while (!done(waits)) step(c);
        assert_true(n_from(waits, "host") + n_from(waits, "memory") >= 2);
        assert_text(waits, alone(&full, "10", "Which?", 4));
        sp_request_destroy(runs);
        sp_request_destroy(oldest);
        sp_request_destroy(waits);
        stepped_end(&s, c);
        close_clean(c);
    }
}

/* Who comes while the next one loads its copies is part of the queue, too: a policy that looks ahead knows what it
 * will read when the next one needs memory. */
static void who_comes_while_another_loads_is_looked_at(void **state)
{
    stepped s;
    sp_context *c = begin(&s, &full, (sp_context_opts){.cache.evict = "lacr", .queue.order = "fcfs"});
    c->loads.token_us = 1e9; /* nobody gives up on a load */
    sp_request *next = submit(c, "0", "Which?", 4);
    step(c);
    assert_int_equal(next->state, SP_REQ_LOADING);
    sp_request *later = submit(c, "1", "Why?", 4);
    allow(&s, 1);
    step(c);
    assert_int_equal(next->state, SP_REQ_LOADING);
    assert_int_equal(later->state, SP_REQ_QUEUED);
    int n_expected = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        n_expected += sp_digest_eq(&v->facts.id, &later->prompt.segs[1].id) && v->expected.uses > 0;
    assert_int_equal(n_expected, 1);
    allow(&s, 1 << 20);
    while (!done(later)) step(c);
    sp_request_destroy(next);
    sp_request_destroy(later);
    stepped_end(&s, c);
    close_clean(c);
}

/* Copies of the request that is next come first, all of them; those loaded ahead follow. */
static void who_is_next_is_loaded_first(void **state)
{
    stepped s;
    sp_context *c = begin(&s, &full, (sp_context_opts){.max_requests = 1, .queue.order = "fcfs"});
    const int n_layers = c->model->hp.n_layers;
    sp_request *next = submit(c, "0", "Which?", 4), *later = submit(c, "1", "Why?", 4);
    const int64_t n_before = sp_ledger_stats_of(c->ledger).n_lookups;
    step(c); /* the loads of both begin */
    assert_int_equal(sp_ledger_stats_of(c->ledger).n_lookups - n_before, next->prompt.n_segs); /* not of the other */
    assert_int_equal(next->state, SP_REQ_LOADING);
    assert_int_equal(later->state, SP_REQ_QUEUED);
    const int n = n_copies_in(c, SP_COPY_LOADING);
    assert_true(n >= 2);
    allow(&s, n_layers * (n - 1));
    wait_given(&s, n_layers * (n - 1));
    while (!done(next)) step(c);
    assert_true(n_from(next, "host") >= 1);
    assert_int_equal(n_from(next, "late"), 0);
    assert_int_equal(n_copies_in(c, SP_COPY_LOADING), 1);
    assert_text(next, alone(&full, "0", "Which?", 4));
    allow(&s, 1 << 20);
    while (!done(later)) step(c);
    assert_true(n_from(later, "host") + n_from(later, "memory") >= 2); /* the head is one */
    sp_request_destroy(next);
    sp_request_destroy(later);
    stepped_end(&s, c);
    close_clean(c);
}

static void a_request_may_leave_while_it_loads(void **state)
{
    stepped s;
    sp_context *c = begin(&s, &prefix, (sp_context_opts){0});
    hurry(c);
    sp_request *r = submit(c, "01", "Which?", 6);
    step(c);
    assert_int_equal(r->state, SP_REQ_LOADING);
    sp_request_cancel(r);
    step(c);
    assert_int_equal(sp_request_result(r)->finish, SP_FINISH_CANCELED);
    sp_request_destroy(r);
    stepped_end(&s, c);
    assert_int_equal(n_copies_in(c, SP_COPY_LOADING), 0);
    close_clean(c);
}

/* A request that waits long looks copies up again and again. */
static void look_ups_use_the_same_memory(void **state)
{
    sp_request r = {.prompt.n_segs = 500};
    assert_non_null(sp_request_scratch(&r, 8));
    const size_t size = r.look.arena.size;
    for (int i = 0; i < 100; i++) {
        uint64_t *v = sp_request_scratch(&r, sizeof *v);
        for (int k = 0; k < 500; k++) assert_true(v[k] == 0);
        memset(v, 1, 500 * sizeof *v);
    }
    assert_int_equal(r.look.arena.size, size);
    sp_arena_fini(&r.look.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_decodes_does_not_wait),
        cmocka_unit_test(look_ups_use_the_same_memory),
        cmocka_unit_test(waiting_requests_have_their_copies_loaded),
        cmocka_unit_test(who_comes_while_another_loads_is_looked_at),
        cmocka_unit_test(who_is_next_is_loaded_first),
        cmocka_unit_test(a_request_may_leave_while_it_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
