/* test_store_requests.c -- requests and the store: copies are loaded without stalling those that
 * decode, written back in the background, and missed with a reason. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/failing_malloc.h"
#include "support/folder.h"
#include "support/requests.h"
#include "support/slow_store.h"
#include "support/stored.h"
#include "support/tiers.h"

static sp_context *open_store(const char *dir)
{
    return open_with((sp_context_opts){
        .tiers.store = dir, .queue.order = "fcfs", .reuse.policy = "full", .n_batch = 40});
}

/* fill_store -- plain copies of these chunks, as requests leave them. */
static void fill_store(const char *dir, const char *order)
{
    sp_context *c = open_store(dir);
    sp_request_destroy(ask(c, order, "Which?", 2));
    close_clean(c);
}

static void assert_from(const sp_request *r, int seg, const char *from, const char *missed)
{
    assert_string_equal(sp_request_result(r)->segments[seg].from, from);
    assert_string_equal(sp_request_result(r)->segments[seg].missed, missed);
}

static const policy full = {"full", 0};

/* -- a slow store ---------------------------------------------------------------------------- */

/* leave -- all copies of chunks leave the device: the store has them. */
static void leave(sp_context *c)
{
    while (sp_ledger_free_up(c->ledger, sp_kv_pool_n_free(c->pool) + 1)) {
    }
}

static void set_costs(sp_context *c, float us)
{
    for (const sp_copy *k = NULL; (k = sp_ledger_next(c->ledger, k));)
        ((sp_copy *)(uintptr_t)k)->facts.cost_us = us;
}

/* one_load_after -- a disk that is slow, and was left alone for as long as it should be: one load of several, and the
 * next pause is as long as said. */
static void one_load_after(sp_context *c, int64_t pause_s, int64_t next_s)
{
    sp_level *disk = sp_tiers_level(c->tiers, SP_AT_DISK);
    leave(c);
    set_costs(c, 1e5F);
    c->loads.token_us = 1e9;
    disk->byte_us = 1e3;
    disk->slow_pause_us = pause_s * 1000000;
    disk->slow_us = sp_clock_us() - disk->slow_pause_us - 1;
    sp_request *r = ask(c, "10", "Which?", 2);
    assert_int_equal(n_from(r, "disk"), 1);
    assert_int_equal(disk->slow_pause_us, next_s * 1000000);
    sp_request_destroy(r);
}

/* A disk that takes far longer than computing is left alone, but for a load now and then that measures it again and is
 * believed; what takes a moment is loaded however fast computing was. */
static void a_disk_slower_than_computing_is_left_alone(void **state)
{
    static const struct {
        double byte_us; /* 1e3: minutes */
        float cost_us;
        int64_t patience_us;
        const char *from, *missed;
    } cases[] = {{1e3, 1e5F, 1000, "", "late"},
                 {1e-6, 1e7F, 1000, "disk", ""},
                 {1e3, 1e12F, 1000, "disk", ""},
                 {1e3, 1e5F, INT64_C(1) << 40, "disk", ""}};
    const char *dir = *state;
    fill_store(dir, "01");
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_context *c = open_store(dir);
        sp_level *disk = sp_tiers_level(c->tiers, SP_AT_DISK);
        set_costs(c, cases[i].cost_us);
        c->loads.patience_us = cases[i].patience_us;
        c->loads.token_us = 1e9; /* nobody gives up on a load */
        disk->byte_us = cases[i].byte_us;
        disk->slow_us = sp_clock_us();
        disk->slow_pause_us = 60000000; /* measured a moment ago */
        sp_request *r = ask(c, "10", "Which?", 2);
        assert_from(r, 1, cases[i].from, cases[i].missed);
        sp_request_destroy(r);
        if (i == 0) { /* the pause is over: one load */
            static const int64_t pauses_s[][2] = {{0, 1}, {1, 2}, {5, 10}, {40, 64}, {64, 64}};
            for (size_t k = 0; k < SP_COUNT(pauses_s); k++) one_load_after(c, pauses_s[k][0], pauses_s[k][1]);
            leave(c); /* it was fast: what it was before does not count */
            set_costs(c, cases[i].cost_us);
            c->loads.token_us = 1e9;
            r = ask(c, "10", "Which?", 2);
            assert_from(r, 1, "disk", "");
            assert_from(r, 2, "disk", "");
            assert_int_equal(disk->slow_pause_us, 0);
            sp_request_destroy(r);
        }
        close_clean(c);
    }
}

static void a_slow_load_stalls_nobody(void **state)
{
    const char *dir = *state;
    barrier b;
    fill_store(dir, "01");
    sp_context *c = open_store(dir);
    sp_request *decodes = submit(c, "3", "Why?", 40);
    while (decodes->state != SP_REQ_DECODE) step(c);
    barrier_close(&b, c);
    sp_request *loads = submit(c, "10", "Which?", 6);
    step(c);
    assert_int_equal(loads->state, SP_REQ_LOADING);
    for (int i = 0; i < 12; i++) {
        size_t before = decodes->answer.tokens.n;
        step(c);
        assert_int_equal(decodes->answer.tokens.n, before + 1);
        assert_int_equal(loads->state, SP_REQ_LOADING);
    }
    barrier_open(&b);
    run(c, loads);
    assert_from(loads, 1, "disk", "");
    assert_from(loads, 2, "disk", "");
    assert_adds_up(sp_request_result(loads));
    assert_text(loads, alone(&full, "10", "Which?", 6));
    assert_text(run(c, decodes), alone(&full, "3", "Why?", 40));
    sp_request_destroy(loads);
    sp_request_destroy(decodes);
    barrier_end(&b);
    close_clean(c);
}

/* open_later -- opens the barrier after a while. */
static void *open_later(void *b)
{
    usleep(50000);
    barrier_open(b);
    return NULL;
}

/* With nothing else to compute, a step sleeps until the load ends. */
static void waiting_for_a_load_does_not_spin(void **state)
{
    const char *dir = *state;
    barrier b;
    pthread_t thread;
    int n_steps = 0;
    fill_store(dir, "01");
    sp_context *c = open_store(dir);
    barrier_close(&b, c);
    sp_request *r = submit(c, "01", "Which?", 2);
    pthread_create(&thread, NULL, open_later, &b);
    for (; !done(r); n_steps++) step(c);
    pthread_join(thread, NULL);
    assert_in_range(n_steps, 3, 40); /* the barrier, layers of two loads, prefill, two tokens */
    assert_from(r, 1, "disk", "");
    sp_request_destroy(r);
    barrier_end(&b);
    close_clean(c);
}

/* A request may leave while its copies are on their way; the next one waits for the same loads. */
static void a_request_may_leave_while_its_copies_load(void **state)
{
    for (int cancel = 0; cancel < 2; cancel++) {
        char dir[128];
        barrier b;
        make_folder(dir, sizeof dir);
        fill_store(dir, "01");
        sp_context *c = open_store(dir);
        sp_request *decodes = submit(c, "", "Why?", 40); /* so that no step waits */
        while (decodes->state != SP_REQ_DECODE) step(c);
        barrier_close(&b, c);
        sp_request *leaves = submit(c, "01", "Which?", 2), *stays = submit(c, "01", "Why?", 6);
        step(c);
        assert_int_equal(leaves->state, SP_REQ_LOADING);
        if (cancel) {
            sp_request_cancel(leaves);
            step(c);
            assert_int_equal(sp_request_result(leaves)->finish, SP_FINISH_CANCELED);
        }
        sp_request_destroy(leaves);
        step(c);
        assert_int_equal(stays->state, SP_REQ_LOADING);
        barrier_open(&b);
        assert_text(run(c, stays), alone(&full, "01", "Why?", 6));
        assert_from(stays, 1, "disk", "");
        sp_request_destroy(stays);
        sp_request_destroy(decodes);
        barrier_end(&b);
        close_clean(c);
        remove_folder(dir);
    }
}

/* -- misses with a reason -------------------------------------------------------------------- */

static void damaged_copies_are_missed(void **state)
{
    const char *dir = *state;
    fill_store(dir, "012");
    stored_damage(dir, SP_COPY_PLAIN);
    sp_context *c = open_store(dir);
    sp_request *r = ask(c, "021", "Which?", 12);
    for (int s = 1; s < 4; s++) assert_from(r, s, "", "damaged");
    assert_int_equal(sp_request_result(r)->n_reused, sp_request_result(r)->segments[0].n_tokens);
    assert_adds_up(sp_request_result(r));
    assert_text(r, alone(&full, "021", "Which?", 12));
    sp_request_destroy(r);
    close_clean(c);
    assert_int_equal(stored_copies(dir, SP_COPY_PLAIN), 3); /* they were computed, and written once more */
    c = open_store(dir);
    r = ask(c, "021", "Which?", 12);
    for (int s = 1; s < 4; s++) assert_from(r, s, "disk", "");
    sp_request_destroy(r);
    close_clean(c);
}

/* A damaged fused copy gives way to the plain one in the store. */
static void what_is_left_serves(void **state)
{
    const char *dir = *state;
    bool fresh;
    sp_context *c = open_store(dir);
    sp_prompt *p = prompt_of(c, "01", NULL);
    assert_ok(sp_chunk_fuse(c, p, &fresh));
    sp_prompt_destroy(p);
    close_clean(c);
    assert_int_equal(stored_copies(dir, SP_COPY_FUSED), 1);
    stored_damage(dir, SP_COPY_FUSED);
    c = open_store(dir);
    sp_request *r = ask(c, "21", "Which?", 8);
    assert_from(r, 2, "disk", "");
    assert_text(r, alone(&full, "21", "Which?", 8)); /* that of the plain copy */
    sp_request_destroy(r);
    close_clean(c);
}

/* An open segment serves although its folder is gone. */
static void a_folder_that_is_gone_still_serves(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    fill_store(dir, "0");
    sp_context *c = open_store(dir);
    remove_folder(dir);
    sp_request *r = ask(c, "0", "Which?", 4);
    assert_from(r, 1, "disk", "");
    assert_text(r, alone(&full, "0", "Which?", 4));
    sp_request_destroy(r);
    close_clean(c);
}

/* A running request has set all KV memory aside: what cannot be loaded is computed in its turn. */
static void what_has_no_room_is_computed(void **state)
{
    const char *dir = *state;
    fill_store(dir, "2");
    sp_context *c = open_store(dir);
    size_t block = sp_context_describe(c).kv_block_bytes;
    close_clean(c);
    c = open_with((sp_context_opts){
        .tiers.store = dir, .reuse.policy = "full", .cache.kv_bytes = 20 * block});
    const sp_reuse_opts alone_opts = {.policy = "off"};
    sp_request_opts o = {.reuse = &alone_opts,
                         .sampling = sp_sampling_default(),
                         .max_tokens = 16 * 14,
                         .ignore_end = true};
    sp_prompt *p = prompt_of(c, "", "Why?");
    sp_request *holds, *r;
    assert_ok(sp_request_submit(c, p, &o, &holds));
    sp_prompt_destroy(p);
    while (holds->state != SP_REQ_DECODE) step(c);
    int64_t left = sp_kv_pool_n_free(c->pool) - c->reserved;
    assert_in_range(left, 0, 3);
    r = submit(c, "2", "Which?", 4);
    step(c);
    assert_int_equal(r->look.found[1].miss, SP_MISS_NO_ROOM);
    run(c, holds);
    run(c, r);
    assert_from(r, 1, "", "no room");
    assert_text(r, alone(&full, "2", "Which?", 4));
    sp_request_destroy(holds);
    sp_request_destroy(r);
    close_clean(c);
}

/* -- writing back ---------------------------------------------------------------------------- */

static void names_in_the_store_are_adopted(void **state)
{
    const char *dir = *state;
    fill_store(dir, "012");
    assert_int_equal(stored_copies(dir, SP_COPY_PLAIN), 3);
    sp_context *c = open_store(dir);
    assert_int_equal(sp_ledger_stats_of(c->ledger).n_free, 4); /* the head, too */
    assert_int_equal(sp_context_describe(c).cached_segments, 0);
    sp_request_destroy(ask(c, "012", "Which?", 2));
    sp_context_forget(c); /* from memory, not from the store */
    sp_request *r = ask(c, "012", "Which?", 2);
    for (int s = 0; s < 4; s++) assert_from(r, s, "disk", "");
    sp_request_destroy(r);
    close_clean(c);
}

static char fault_dir[128];

/* opened -- with all copies of chunks that the store has, or not at all. */
static sp_err opened(void)
{
    sp_context *c = NULL;
    sp_context_opts o = {.model = MODEL, .machine.n_threads = 1, .cache.kv_bytes = 4 << 20, .tiers.store = fault_dir};
    int n = 0;
    SP_TRY(sp_context_open(&o, &c));
    for (const sp_copy *k = NULL; (k = sp_ledger_next(c->ledger, k));) n += k->facts.kind == SP_COPY_PLAIN;
    sp_context_close(c);
    assert_int_equal(n, 3);
    return SP_OK;
}

/* One allocation fails, and the later ones do not. */
static void no_name_is_lost_where_an_allocation_fails(void **state)
{
    int n_failed = 0;
    bool over = false;
    make_folder(fault_dir, sizeof fault_dir);
    fill_store(fault_dir, "012");
    for (int n = 0; !over; n++) {
        until_failure = n;
        const sp_err err = opened();
        over = until_failure >= 0;
        until_failure = -1;
        n_failed += err != SP_OK;
    }
    assert_true(n_failed > 30);
    remove_folder(fault_dir);
}

/* Chunks that were stored after the head alone are no path. */
static void what_another_policy_stored_is_said(void **state)
{
    const char *dir = *state;
    fill_store(dir, "01");
    sp_context *c = open_with((sp_context_opts){.tiers.store = dir, .reuse.policy = "prefix", .n_batch = 40});
    sp_request *r = ask(c, "01", "Which?", 2);
    assert_from(r, 1, "", "other policy");
    assert_from(r, 2, "", "other policy");
    sp_request_destroy(r);
    close_clean(c);
}

static int n_lines;

static void count_line(sp_log_level level, const char *line, void *user)
{
    n_lines += strstr(line, "not stored") != NULL;
}

/* A write that fails costs a log line, and nothing else. */
static void a_store_that_cannot_be_written_costs_a_log_line(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    sp_context *c = open_store(dir);
    remove_folder(dir);
    n_lines = 0;
    sp_log_set(SP_LOG_WARN, count_line, NULL);
    sp_request_destroy(ask_as_alone(c, &full, "01", "Which?", 4));
    tiers_rest(c->tiers);
    assert_int_equal(sp_tiers_n_failed(c->tiers), n_lines);
    assert_in_range(n_lines, 3, 4); /* two chunks, and the head after each plan that finds it unwritten */
    sp_log_set(SP_LOG_WARN, NULL, NULL);
    close_clean(c);
}

/* Its root fails; what continues it is not counted, and has no line. */
static void of_a_path_that_cannot_be_written_the_root_counts(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    sp_context *c = open_with((sp_context_opts){.tiers.store = dir, .reuse.policy = "prefix", .n_batch = 40});
    remove_folder(dir);
    n_lines = 0;
    sp_log_set(SP_LOG_WARN, count_line, NULL);
    sp_request_destroy(ask(c, "01", "Which?", 4));
    tiers_rest(c->tiers);
    assert_int_equal(sp_tiers_n_failed(c->tiers), n_lines);
    assert_true(n_lines > 0);
    sp_log_set(SP_LOG_WARN, NULL, NULL);
    close_clean(c);
}

/* Copies that wait to be written are pinned: a request that needs their memory waits for the
 * store. */
static void memory_that_waits_to_be_written_is_waited_for(void **state)
{
    const char *dir = *state;
    barrier b;
    pthread_t opens;
    sp_context *c = open_store(dir);
    size_t block = sp_context_describe(c).kv_block_bytes;
    close_clean(c);
    c = open_with((sp_context_opts){
        .tiers.store = dir, .reuse.policy = "full", .cache.kv_bytes = 16 * block});
    barrier_close_writer(&b, c);
    sp_request_destroy(ask(c, "012", "Which?", 2));
    assert_int_equal(pthread_create(&opens, NULL, open_later, &b), 0);
    sp_request *r = ask(c, "3", "Why then, and how many more of them are there?", 60);
    assert_true(b.open);
    sp_request_destroy(r);
    pthread_join(opens, NULL);
    barrier_end(&b);
    close_clean(c);
    assert_int_equal(stored_copies(dir, SP_COPY_PLAIN), 4);
}

/* -- waiting --------------------------------------------------------------------------------- */

/* A request that waits for KV memory keeps its pins and its plan, until the ledger has more. */
static void a_waiting_request_is_looked_up_once(void **state)
{
    sp_context *c = open_with((sp_context_opts){.reuse.policy = "full"});
    size_t block = sp_context_describe(c).kv_block_bytes;
    close_clean(c);
    c = open_with((sp_context_opts){.reuse.policy = "full", .cache.kv_bytes = 24 * block});
    sp_request_destroy(ask(c, "0", "Why?", 2));
    sp_request *runs = submit(c, "0", "Why?", 16 * 14);
    while (runs->state != SP_REQ_DECODE) step(c);
    sp_request *waits = submit(c, "0", "Which?", 16 * 14);
    step(c);
    assert_int_equal(waits->state, SP_REQ_QUEUED);
    const sp_copy *copy = waits->look.found[1].copy;
    const sp_span *spans = waits->plans.now.spans;
    int64_t now = c->now, n_lookups = sp_ledger_stats_of(c->ledger).n_lookups;
    assert_non_null(copy);
    assert_non_null(spans);
    while (!done(runs)) {
        step(c);
        if (done(runs)) break;
        assert_int_equal(c->now, now);
        assert_int_equal(sp_ledger_stats_of(c->ledger).n_lookups, n_lookups);
        assert_ptr_equal(waits->look.found[1].copy, copy);
        assert_ptr_equal(waits->plans.now.spans, spans);
    }
    run(c, waits);
    assert_int_equal(sp_request_result(waits)->finish, SP_FINISH_LENGTH);
    sp_request_destroy(runs);
    sp_request_destroy(waits);
    close_clean(c);
}

/* While it waits, others compute what it needs: then it looks again. */
static void a_waiting_request_finds_what_is_new(void **state)
{
    sp_context *c =
        open_with((sp_context_opts){.reuse.policy = "full", .max_requests = 1, .n_batch = 8});
    sp_request *first = submit(c, "01", "Why?", 4), *second = submit(c, "01", "Which?", 4);
    run(c, first);
    run(c, second);
    assert_int_equal(sp_request_result(second)->n_computed,
                     sp_request_result(second)->segments[3].n_tokens);
    assert_text(second, alone(&full, "01", "Which?", 4));
    sp_request_destroy(first);
    sp_request_destroy(second);
    close_clean(c);
}

static sp_err keep_costs(void *user, const sp_tier_info *info)
{
    float *least = user;
    *least = SP_MIN(*least, info->cost_us);
    return SP_OK;
}

/* h2o reads what was measured while a copy was computed: the store keeps that too, and what
 * computing took. A copy that another policy stored without it is written again. */
static void measurements_survive_a_restart(void **state)
{
    static const policy h2o = {"h2o", 0.3f};
    for (int unmeasured = 0; unmeasured < 2; unmeasured++) {
        char dir[128];
        float least = 1e9f;
        make_folder(dir, sizeof dir);
        if (unmeasured) fill_store(dir, "01");
        const sp_context_opts o = {
            .tiers.store = dir, .reuse = {.policy = "h2o", .recompute = 0.3f}, .n_batch = 40};
        sp_context *c = open_with(o);
        sp_request *r = ask(c, "01", "Which?", 6);
        assert_from(r, 1, "", unmeasured ? "not measured" : "never seen");
        sp_request_destroy(r);
        close_clean(c);
        c = open_with(o);
        r = ask(c, "10", "Which?", 6);
        for (int s = 1; s < 3; s++) assert_from(r, s, "disk", "");
        assert_text(r, alone(&h2o, "10", "Which?", 6));
        assert_ok(sp_tier_run(sp_tiers_tier(c->tiers), &(sp_tier_job){.verb = SP_TIER_LIST,
                                                                      .each = keep_costs,
                                                                      .user = &least}));
        assert_true(least > 0 && least < 1e9f);
        sp_request_destroy(r);
        close_clean(c);
        remove_folder(dir);
    }
}

/* Every policy that keeps copies of chunks finds them after a restart, and answers as it did. */
static void a_restart_finds_what_was_computed(void **state)
{
    policy how;
    for (int i = 0; policy_at(CHUNKS_ANYWHERE, 0.3f, i, &how); i++) {
        char dir[128], *answers[3];
        int64_t n_uses = 0;
        make_folder(dir, sizeof dir);
        const sp_context_opts o = {.tiers.store = dir,
                                   .reuse = {.policy = how.name, .recompute = how.recompute},
                                   .n_batch = 40};
        for (int start = 0; start < 3; start++) {
            sp_context *c = open_with(o);
            sp_request *r = ask(c, "012", "Which?", 6);
            for (int s = 1; s < 4; s++)
                assert_from(r, s, start ? "disk" : "", start ? "" : "never seen");
            for (const sp_copy *k = NULL; (k = sp_ledger_next(c->ledger, k));)
                if (start && k->places & SP_AT_DISK) {
                    if (start == 1) n_uses = k->uses.n;
                    assert_int_equal(k->uses.n, n_uses + start - 1); /* earlier ones count */
                }
            assert_adds_up(sp_request_result(r));
            answers[start] = strdup(sp_request_result(r)->text);
            sp_request_destroy(r);
            close_clean(c);
        }
        assert_string_equal(answers[0], answers[1]);
        for (int start = 0; start < 3; start++) free(answers[start]);
        remove_folder(dir);
    }
}

static void a_store_is_described(void **state)
{
    const char *dir = *state;
    sp_store_info info;
    fill_store(dir, "01");
    sp_context *c = open_with((sp_context_opts){.tiers.store = dir, .tiers.store_bytes = 1 << 20});
    assert_ok(sp_store_describe(c, &info));
    assert_string_equal(info.dir, dir);
    assert_true(info.n_copies == 3 && info.bytes > 0 && info.max_bytes == 1 << 20 && info.writes);
    assert_true(info.disk_free > 0 && info.token_bytes > 0);
    close_clean(c);
    c = open_with((sp_context_opts){0});
    assert_fails(sp_store_describe(c, &info), SP_E_ARG, "no store");
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(a_slow_load_stalls_nobody),
        FOLDER_TEST(a_disk_slower_than_computing_is_left_alone),
        FOLDER_TEST(waiting_for_a_load_does_not_spin),
        cmocka_unit_test(a_request_may_leave_while_its_copies_load),
        FOLDER_TEST(damaged_copies_are_missed),
        FOLDER_TEST(what_is_left_serves),
        cmocka_unit_test(a_folder_that_is_gone_still_serves),
        FOLDER_TEST(what_has_no_room_is_computed),
        FOLDER_TEST(names_in_the_store_are_adopted),
        cmocka_unit_test(no_name_is_lost_where_an_allocation_fails),
        FOLDER_TEST(what_another_policy_stored_is_said),
        cmocka_unit_test(a_store_that_cannot_be_written_costs_a_log_line),
        cmocka_unit_test(of_a_path_that_cannot_be_written_the_root_counts),
        FOLDER_TEST(memory_that_waits_to_be_written_is_waited_for),
        cmocka_unit_test(a_waiting_request_is_looked_up_once),
        cmocka_unit_test(a_waiting_request_finds_what_is_new),
        cmocka_unit_test(measurements_survive_a_restart),
        cmocka_unit_test(a_restart_finds_what_was_computed),
        FOLDER_TEST(a_store_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
