/* test_loading.c -- loads that take their time, layer by layer: a request begins when the first layers are there,
 * starts over when the others are late or damaged, and does not wait for what is slower than computing. */
#include "support/folder.h"
#include "support/stepped_tier.h"

#include "base/clock.h"

/* -- early ---------------------------------------------------------------------------------- */

static void *allow_later(void *s)
{
    for (int i = 0; i < 8; i++, usleep(5000)) allow(s, 1);
    allow(s, 1 << 20);
    return NULL;
}

static void check_early(const policy *p, const char *order)
{
    stepped s;
    pthread_t thread;
    sp_context *c = begin(&s, p, (sp_context_opts){0});
    assert_true(c->model->hp.n_layers > 1);
    hurry(c);
    sp_request *r = submit(c, order, "Which?", 6);
    step(c); /* the loads begin */
    assert_int_equal(r->state, SP_REQ_LOADING);
    int n = n_copies_in(c, SP_COPY_LOADING);
    assert_true(n >= 2);
    allow(&s, n); /* the first layer of each: gets take turns */
    wait_given(&s, n);
    pthread_create(&thread, NULL, allow_later, &s);
    while (!done(r)) step(c);
    pthread_join(thread, NULL);
    assert_int_equal(c->loads.n_early, 1);
    assert_int_equal(c->loads.n_late, 0);
    assert_true(n_from(r, "host") >= 2);
    assert_text(r, alone(p, order, "Which?", 6));
    assert_adds_up(sp_request_result(r));
    sp_request_destroy(r);
    stepped_end(&s, c);
    close_clean(c);
}

static void a_request_begins_with_the_first_layers(void **state)
{
    check_early(&full, "10");
    check_early(&prefix, "01");
}

/* A plain copy of the first chunk is what computing it gives: none of its tokens are computed again, unless its header
 * says that it is not exact. */
static void a_first_chunk_that_is_loaded_is_exact(void **state)
{
    static const policy fusion = {"fusion", 0.25f};
    const sp_context_opts o = {.reuse = {.policy = "fusion", .recompute = 0.25f, .exact_first = true}, .n_batch = 40};
    for (int inexact = 0; inexact < 2; inexact++) {
        stepped s;
        sp_context *c = begin(&s, &fusion, (sp_context_opts){.reuse.exact_first = true});
        s.inexact = inexact;
        allow(&s, 1 << 20);
        sp_request *r = submit(c, "10", "Which?", 6);
        while (!done(r)) step(c);
        const sp_result *res = sp_request_result(r);
        assert_string_equal(res->segments[1].copy, "plain");
        assert_string_equal(res->segments[1].from, "host");
        assert_int_equal(res->segments[1].n_recomputed > 0, inexact);
        assert_true(res->segments[2].n_recomputed > 0);
        if (!inexact) assert_text(r, text_of(open_with(o), "10", "Which?", 6));
        assert_adds_up(res);
        sp_request_destroy(r);
        stepped_end(&s, c);
        close_clean(c);
    }
}

/* Lp = (L - 1)(1 - T_prefill / T_load) + 1: where loads take far longer than the prefill, all layers are needed first;
 * and where the speed of a tier is not known. Else as above. With SP_PRELOAD_FIRST one is always enough. Source:
 * Cache-Craft section 3.4.2 (C8). */
static void slow_loads_need_more_layers(void **state)
{
    for (int k = 0; k < 4; k++) {
        const bool unknown = k & 1, first = k & 2;
        stepped s;
        pthread_t thread;
        sp_context *c =
            begin(&s, &full, (sp_context_opts){.tiers.preload = first ? SP_PRELOAD_FIRST : SP_PRELOAD_LAYERS});
        hurry(c);
        sp_request *r = submit(c, "10", "Which?", 6);
        step(c);
        const int n = n_copies_in(c, SP_COPY_LOADING);
        assert_true(n >= 2 && c->model->hp.n_layers >= 2);
        allow(&s, n);
        wait_given(&s, n);
        c->loads.token_us = 1;
        sp_tiers_level(c->tiers, SP_AT_HOST)->byte_us = unknown ? 0 : 1e6;
        bool ready;
        assert_ok(sp_request_load(r, &ready));
        assert_int_equal(ready, first);
        pthread_create(&thread, NULL, allow_later, &s);
        while (!done(r)) step(c);
        pthread_join(thread, NULL);
        assert_true(n_from(r, "host") >= 2);
        assert_text(r, alone(&full, "10", "Which?", 6));
        sp_request_destroy(r);
        stepped_end(&s, c);
        close_clean(c);
    }
}

/* The wait is in the step itself: with what is needed for Lp = 1, the plan runs while layers come. */
static void late_layers_are_not_waited_for(void **state)
{
    stepped s;
    sp_context *c = begin(&s, &full, (sp_context_opts){0});
    hurry(c);
    sp_request *r = submit(c, "10", "Which?", 6);
    step(c);
    int n = n_copies_in(c, SP_COPY_LOADING);
    allow(&s, n);
    wait_given(&s, n);
    c->loads.patience_us = 3000; /* and no more layers come */
    c->loads.token_us = 1e-3;
    sp_tiers_level(c->tiers, SP_AT_HOST)->byte_us = 1e-12;
    while (!done(r)) step(c);
    assert_int_equal(c->loads.n_early, 1);
    assert_int_equal(c->loads.n_late, 1);
    assert_int_equal(n_from(r, "host"), 0);
    assert_text(r, alone(&full, "10", "Which?", 6));
    assert_adds_up(sp_request_result(r));
    sp_request_destroy(r);
    stepped_end(&s, c); /* now they come: the next request has the copies */
    r = ask(c, "10", "Why?", 6);
    assert_true(n_from(r, "memory") >= 2);
    assert_text(r, alone(&full, "10", "Why?", 6));
    sp_request_destroy(r);
    close_clean(c);
}

/* A probe reads the first layer alone. The engine's thread does not wait for the others until a tier that hangs is
 * given up. */
static void layers_that_a_probe_does_not_read_are_not_waited_for(void **state)
{
    static const policy blend = {"blend:layer=1", 0.25f};
    stepped s;
    sp_context *c = begin(&s, &blend, (sp_context_opts){0});
    assert_true(c->model->hp.n_layers > 1);
    hurry(c);
    sp_request *r = submit(c, "10", "Which?", 6);
    step(c);
    const int n = n_copies_in(c, SP_COPY_LOADING);
    assert_true(n >= 2);
    allow(&s, n);
    wait_given(&s, n);
    c->loads.patience_us = 3000; /* and no more layers come */
    c->loads.token_us = 1e-3;
    sp_tiers_level(c->tiers, SP_AT_HOST)->byte_us = 1e-12;
    while (c->loads.n_late == 0 && !done(r)) step(c);
    assert_int_equal(c->loads.n_early, 1);
    assert_int_equal(c->loads.n_late, 1);
    assert_int_equal(n_copies_in(c, SP_COPY_LOADING), n); /* not until the tier is given up */
    while (!done(r)) step(c);
    assert_int_equal(n_from(r, "host"), 0);
    assert_adds_up(sp_request_result(r));
    sp_request_destroy(r);
    stepped_end(&s, c);
    close_clean(c);
}

static void damaged_layers_start_the_request_over(void **state)
{
    for (int from = 0; from < 8; from++) {
        stepped s;
        sp_context *c = begin(&s, from % 2 ? &prefix : &full, (sp_context_opts){0});
        hurry(c);
        s.damaged_from = from;
        allow(&s, 1 << 20);
        sp_request *r = submit(c, "01", "Which?", 6);
        while (!done(r)) step(c);
        assert_text(r, alone(from % 2 ? &prefix : &full, "01", "Which?", 6));
        assert_adds_up(sp_request_result(r));
        sp_request_destroy(r);
        stepped_end(&s, c);
        close_clean(c);
    }
}

/* dirty -- fills n blocks, which the caller holds, with other bytes: what is loaded there later is no longer there. */
static void dirty(const sp_context *c, const uint32_t *blocks, int64_t n)
{
    const size_t bytes = sp_kv_pool_layer_block_bytes(c->pool);
    uint8_t *other = malloc(bytes);
    memset(other, 0x35, bytes);
    for (int64_t i = 0; i < n; i++)
        for (int l = 0; l < c->model->hp.n_layers; l++)
            assert_ok(sp_kv_pool_write(c->pool, (sp_kv_run){.layer = l, .first = blocks[i], .n = 1}, other));
    free(other);
}

/* A plan is made once the first layers are there. While it waits for memory, the load fails. */
static void a_load_that_fails_while_a_plan_waits_for_memory_is_not_read(void **state)
{
    for (int k = 0; k < 2; k++) {
        const policy *p = k ? &prefix : &full;
        stepped s;
        sp_context *c = begin(&s, p, (sp_context_opts){0});
        int64_t n_held = sp_kv_pool_n_free(c->pool);
        uint32_t *held = malloc((size_t)n_held * sizeof *held);
        assert_ok(sp_kv_acquire(c->pool, n_held, held));
        dirty(c, held, n_held);
        sp_kv_release(c->pool, held, n_held);
        hurry(c);
        sp_request *r = submit(c, "01", "Which?", 6);
        step(c);
        const int n = n_copies_in(c, SP_COPY_LOADING);
        assert_true(n >= 2);
        allow(&s, n); /* the first layer of each */
        wait_given(&s, n);
        n_held = sp_kv_pool_n_free(c->pool);
        assert_ok(sp_kv_acquire(c->pool, n_held, held));
        while (!r->plans.now.n_spans) step(c);
        assert_int_equal(r->state, SP_REQ_QUEUED);
        assert_int_equal(n_copies_in(c, SP_COPY_LOADING), n);
        s.damaged_from = n; /* nobody reads it before the next layer is allowed */
        allow(&s, 1 << 20);
        for (; n_copies_in(c, SP_COPY_LOADING); usleep(200)) sp_tiers_poll(c->tiers);
        sp_kv_release(c->pool, held, n_held);
        free(held);
        while (!done(r)) step(c);
        assert_text(r, alone(p, "01", "Which?", 6));
        assert_int_equal(n_from(r, "host"), 0);
        assert_adds_up(sp_request_result(r));
        sp_request_destroy(r);
        stepped_end(&s, c);
        close_clean(c);
    }
}

/* The speed is that of all loads under way together: the last one of them is not slower for the others' time. */
static void the_speed_of_a_tier_is_that_of_all_its_loads(void **state)
{
    stepped s;
    sp_context *c = begin(&s, &full, (sp_context_opts){0});
    sp_level *l = sp_tiers_level(c->tiers, SP_AT_HOST);
    const double block_bytes = (double)sp_kv_block_bytes(sp_kv_pool_shape(c->pool));
    int n_blocks = 0;
    l->byte_us = 0;
    sp_request *r = submit(c, "10", "Which?", 6);
    const int64_t start = sp_clock_us();
    step(c);
    const int n = n_copies_in(c, SP_COPY_LOADING);
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        n_blocks += v->state == SP_COPY_LOADING ? sp_blocks_for(v->n) : 0;
    assert_true(n >= 2);
    allow(&s, n * c->model->hp.n_layers - 1);
    for (; n_copies_in(c, SP_COPY_LOADING) > 1; usleep(200)) sp_tiers_poll(c->tiers);
    const double first_us = (double)(sp_clock_us() - start);
    usleep((useconds_t)SP_MIN(40 * first_us, 1e6));
    allow(&s, 1);
    for (; n_copies_in(c, SP_COPY_LOADING); usleep(200)) sp_tiers_poll(c->tiers);
    const double us = (double)(sp_clock_us() - start); /* a quarter of the mean */
    assert_true(l->byte_us > 0 && l->byte_us <= first_us / block_bytes + us / 4 / (n_blocks * block_bytes));
    while (!done(r)) step(c);
    sp_request_destroy(r);
    stepped_end(&s, c);
    close_clean(c);
}

/* A device that fails is asked three times in all for each copy; then the text is computed. */
static void a_load_is_tried_three_times(void **state)
{
    const int n_failing[] = {0, 2, 1000};
    int n_host[3], n_failed[3];
    for (int i = 0; i < 3; i++) {
        stepped s;
        sp_context *c = begin(&s, &prefix, (sp_context_opts){0});
        allow(&s, 1 << 20);
        s.n_failing = n_failing[i];
        sp_request *r = submit(c, "0", "Which?", 6);
        while (!done(r)) step(c);
        assert_text(r, alone(&prefix, "0", "Which?", 6));
        n_host[i] = n_from(r, "host");
        n_failed[i] = s.n_failed;
        assert_string_equal(sp_request_result(r)->segments[1].missed, n_host[i] ? "" : "late");
        const double byte_us = sp_tiers_level(c->tiers, SP_AT_HOST)->byte_us;
        assert_int_equal(byte_us > 0, n_host[i] > 0); /* what fails says nothing of the speed */
        sp_request_destroy(r);
        stepped_end(&s, c);
        close_clean(c);
    }
    assert_true(n_host[0] > 0);
    assert_int_equal(n_host[1], n_host[0]); /* the third try succeeds */
    assert_int_equal(n_failed[1], 2);
    assert_int_equal(n_host[2], 0);
    assert_int_equal(n_failed[2], 3 * n_host[0]);
}

/* What the host has lost, or cannot read, is read from disk, and the host is not asked for it again. */
static void what_the_host_fails_to_give_is_read_from_disk(void **state)
{
    static const sp_err errors[] = {SP_E_NOTFOUND, SP_E_FORMAT, SP_E_IO};
    for (size_t i = 0; i < SP_COUNT(errors); i++) {
        stepped s;
        char dir[128];
        make_folder(dir, sizeof dir);
        sp_context *c = begin(&s, &full, (sp_context_opts){.tiers.store = dir});
        allow(&s, 1 << 20);
        s.n_failing = 1000;
        s.fails_with = errors[i];
        sp_request *r = ask(c, "10", "Which?", 6);
        assert_int_equal(n_from(r, "disk"), s.n_failed);
        assert_true(s.n_failed >= 2 && n_from(r, "host") == 0);
        assert_text(r, alone(&full, "10", "Which?", 6));
        sp_request_destroy(r);
        stepped_end(&s, c);
        close_clean(c);
        remove_folder(dir);
    }
}

/* The load of a parent is tried again, so that what continues it is there first. */
static void a_path_is_ready_after_what_it_continues(void **state)
{
    stepped s;
    sp_context *c = begin(&s, &prefix, (sp_context_opts){0});
    allow(&s, 1 << 20);
    s.n_failing = 1;
    sp_request *r = submit(c, "01", "Which?", 6);
    while (!done(r)) {
        step(c);
        for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
            assert_false(v->state == SP_COPY_READY && v->parent && v->parent->state != SP_COPY_READY);
    }
    assert_int_equal(s.n_failed, 1);
    assert_true(n_from(r, "host") >= 3);
    assert_text(r, alone(&prefix, "01", "Which?", 6));
    sp_request_destroy(r);
    stepped_end(&s, c);
    close_clean(c);
}

/* A load may take the time-out for each layer. */
static void a_layer_that_comes_extends_the_time_of_its_load(void **state)
{
    stepped s;
    sp_context *c = begin(&s, &full, (sp_context_opts){0});
    const int64_t timeout_us = c->tiers->timeout_us = 5000000;
    c->loads.token_us = 1e9; /* nobody gives up on a load */
    sp_request *r = submit(c, "", "Which?", 6);
    step(c);
    const sp_copy *head = NULL;
    while ((head = sp_ledger_next(c->ledger, head)) && head->state != SP_COPY_LOADING) {
    }
    assert_non_null(head);
    usleep(50000);
    allow(&s, 1);
    while (sp_tiers_n_there(c->tiers, head, NULL) < 1) usleep(200);
    const int64_t came_us = sp_clock_us();
    sp_tiers_expire(c->tiers);
    const int64_t left_us = sp_tiers_until_expiry(c->tiers);
    assert_true(left_us >= came_us + timeout_us - sp_clock_us());
    allow(&s, 1 << 20);
    while (!done(r)) step(c);
    sp_request_destroy(r);
    stepped_end(&s, c);
    close_clean(c);
}

/* Who waits for the store sees each layer at once: it may be the one that a request needs to begin. */
static void a_layer_that_comes_ends_the_wait_for_it(void **state)
{
    const int64_t most_us = 20000000;
    stepped s;
    sp_context *c = begin(&s, &full, (sp_context_opts){0});
    c->loads.token_us = 1e9; /* nobody gives up on a load */
    sp_request *r = submit(c, "", "Which?", 6);
    step(c);
    assert_int_equal(n_copies_in(c, SP_COPY_LOADING), 1);
    sp_tiers_wait_for(c->tiers, 0); /* for what happened before */
    const int64_t begin_us = sp_clock_us();
    allow(&s, 1);
    sp_tiers_wait_for(c->tiers, most_us);
    assert_true(sp_clock_us() - begin_us < most_us / 2);
    allow(&s, 1 << 20);
    while (!done(r)) step(c);
    sp_request_destroy(r);
    stepped_end(&s, c);
    close_clean(c);
}

/* -- patience ------------------------------------------------------------------------------- */

static void a_load_slower_than_computing_is_not_waited_for(void **state)
{
    stepped s;
    sp_context *c = begin(&s, &full, (sp_context_opts){0});
    c->loads.patience_us = 2000;
    c->loads.token_us = 1e-3;
    sp_request *decodes = submit(c, "", "Why?", 2), *r = submit(c, "10", "Which?", 6);
    while (!done(r)) step(c);
    assert_int_equal(n_from(r, "host"), 0);
    assert_string_equal(sp_request_result(r)->segments[1].missed, "late");
    assert_text(r, alone(&full, "10", "Which?", 6));
    while (!done(decodes)) step(c);
    sp_request_destroy(decodes);
    sp_request_destroy(r);
    stepped_end(&s, c);
    close_clean(c);
}

/* What a copy has of a segment's beginning is all that computing it would save. */
static void patience_is_for_the_tokens_that_load(void **state)
{
    sp_context c = {.loads.token_us = 1000};
    sp_copy loading = {.state = SP_COPY_LOADING}, ready = {.state = SP_COPY_READY};
    sp_found found[] = {{.copy = &loading, .n_known = 3}, {.copy = &ready, .n_known = 50}};
    sp_segment segs[] = {{.n = 70}, {.n = 50}};
    const sp_request r = {.ctx = &c, .prompt = {.segs = segs, .n_segs = 2}, .look.found = found};
    assert_int_equal(sp_request_patience(&r), 3000);
}

/* Once it has computed what came late, a request that starts over (the device lost memory) does not wait for it. */
static void who_gave_up_on_a_load_does_not_wait_for_it_again(void **state)
{
    stepped s;
    sp_context *c = begin(&s, &full, (sp_context_opts){0});
    c->loads.patience_us = 2000;
    c->loads.token_us = 1e-3;
    sp_request *r = submit(c, "10", "Which?", 6);
    while (r->state != SP_REQ_PREFILL && r->state != SP_REQ_DECODE) step(c);
    assert_true(n_copies_in(c, SP_COPY_LOADING) >= 2);
    c->loads.patience_us = 60000000;
    sp_request_restart(r, SP_E_NOKV);
    while (!done(r)) {
        step(c);
        assert_int_not_equal(r->state, SP_REQ_LOADING);
    }
    assert_int_equal(n_from(r, "host"), 0);
    assert_text(r, alone(&full, "10", "Which?", 6));
    sp_request_destroy(r);
    stepped_end(&s, c);
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_begins_with_the_first_layers),
        cmocka_unit_test(a_first_chunk_that_is_loaded_is_exact),
        cmocka_unit_test(slow_loads_need_more_layers),
        cmocka_unit_test(late_layers_are_not_waited_for),
        cmocka_unit_test(layers_that_a_probe_does_not_read_are_not_waited_for),
        cmocka_unit_test(damaged_layers_start_the_request_over),
        cmocka_unit_test(a_load_that_fails_while_a_plan_waits_for_memory_is_not_read),
        cmocka_unit_test(the_speed_of_a_tier_is_that_of_all_its_loads),
        cmocka_unit_test(a_load_is_tried_three_times),
        cmocka_unit_test(what_the_host_fails_to_give_is_read_from_disk),
        cmocka_unit_test(a_path_is_ready_after_what_it_continues),
        cmocka_unit_test(a_layer_that_comes_extends_the_time_of_its_load),
        cmocka_unit_test(a_layer_that_comes_ends_the_wait_for_it),
        cmocka_unit_test(a_load_slower_than_computing_is_not_waited_for),
        cmocka_unit_test(patience_is_for_the_tokens_that_load),
        cmocka_unit_test(who_gave_up_on_a_load_does_not_wait_for_it_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
