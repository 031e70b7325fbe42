/* test_any_tier.c -- what every tier promises (store/tier.h). A new tier is one line of `kinds`. */
#include "support/check.h"

#include "base/clock.h"
#include "store/host/tier.h"
#include "store/sweep.h"
#include "store/remote/tier.h"
#include "support/far_tier.h"
#include "support/redis.h"
#include "support/s3.h"
#include "tier.h"

typedef struct bench {
    char dir[128];
    sp_tier *tier; /* NULL: what it needs is not installed */
    redis server;
} bench;

static void open_host(bench *b)
{
    assert_ok(sp_host_tier_open(&(sp_host_tier_opts){.max_bytes = 64 << 20}, &b->tier));
}

static void open_disk(bench *b)
{
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = b->dir, .space = &noise_space}, &b->tier));
}

static void open_far(bench *b)
{
    sp_tier *there;
    assert_ok(sp_host_tier_open(&(sp_host_tier_opts){.max_bytes = 64 << 20}, &there));
    b->tier = &far_open(there, 2000, 0)->base;
}

static void open_remote(bench *b)
{
    b->server = redis_start(NULL);
    if (b->server.pid)
        assert_ok(sp_remote_tier_open(
            &(sp_remote_tier_opts){.url = b->server.url, .space = &noise_space, .timeout_us = 30000000}, &b->tier));
}

static void open_s3(bench *b)
{
    static int n;
    char url[64];
    snprintf(url, sizeof url, "s3://first/bench-%d", n++);
    if (s3_start())
        assert_ok(sp_remote_tier_open(
            &(sp_remote_tier_opts){.url = url, .space = &noise_space, .timeout_us = 30000000}, &b->tier));
}

static const struct {
    const char *name;
    void (*open)(bench *b);
} kinds[] = {{"host", open_host}, {"disk", open_disk}, {"far", open_far}, {"remote", open_remote},
             {"remote", open_s3}};

/* bench_begin -- false: a tier that cannot be tested here. */
static bool bench_begin(bench *b, size_t kind)
{
    *b = (bench){0};
    make_folder(b->dir, sizeof b->dir);
    kinds[kind].open(b);
    if (b->tier) assert_string_equal(sp_tier_name(b->tier), kinds[kind].name);
    if (!b->tier) remove_folder(b->dir);
    return b->tier != NULL;
}

static void bench_end(bench *b)
{
    sp_tier_close(b->tier);
    redis_stop(&b->server);
    remove_folder(b->dir);
}

/* -- copies --------------------------------------------------------------------------------- */

/* check_counts -- after the four puts, the gets of each in whole and of one in ranges, a drop and a miss of the test
 * below. */
static void check_counts(sp_tier *t)
{
    const sp_tier_stats s = sp_tier_stats_of(t);
    assert_int_equal(s.n_copies, 3);
    assert_int_equal(s.n_put, 4);
    assert_int_equal(s.n_got, 4 + NOISE_LAYERS);
    assert_int_equal(s.n_dropped, 1);
    assert_int_equal(s.n_missed, 1);
    assert_int_equal(s.n_failed + s.n_damaged + s.n_evicted, 0);
    assert_in_range(s.bytes_written, 4, 1 << 24);
    assert_in_range(s.bytes_read, 4, 1 << 24);
}

static void what_was_put_comes_back_in_any_range_of_layers(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        bench b;
        if (!bench_begin(&b, k)) continue;
        for (uint32_t i = 0; i < 4; i++) assert_ok(noise_put(b.tier, i, 1));
        for (uint32_t i = 0; i < 4; i++) assert_ok(noise_get(b.tier, i, 1));
        for (int first = 0; first < NOISE_LAYERS; first++) {
            noise c;
            noise_init(&c, 2, 1);
            const sp_tier_job job = noise_get_job(&c, first, NOISE_LAYERS - first);
            assert_ok(sp_tier_run(b.tier, &job));
            assert_int_equal(c.n_layers, NOISE_LAYERS - first);
        }
        assert_ok(noise_drop(b.tier, 1));
        assert_int_equal(noise_get(b.tier, 1, 1), SP_E_NOTFOUND);
        check_counts(b.tier);
        noise c;
        noise_init(&c, 2, 1);
        const sp_tier_job beyond = noise_get_job(&c, 1, NOISE_LAYERS);
        assert_int_equal(sp_tier_run(b.tier, &beyond), SP_E_ARG);
        bench_end(&b);
    }
}

static void a_record_that_cannot_be_is_refused(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        bench b;
        noise c;
        if (!bench_begin(&b, k)) continue;
        noise_init(&c, 2, 1);
        c.record.facts.n_head = NOISE_BEFORE + 1;
        const sp_tier_job job = noise_put_job(&c);
        assert_fails(sp_tier_run(b.tier, &job), SP_E_ARG, "with a head of 4");
        assert_int_equal(sp_tier_stats_of(b.tier).n_copies, 0);
        assert_int_equal(sp_tier_stats_of(b.tier).n_failed, 0);
        bench_end(&b);
    }
}

static void a_copy_comes_after_what_it_continues(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        bench b;
        noise c;
        if (!bench_begin(&b, k)) continue;
        const sp_tier_key after[] = {noise_key(2), noise_key(3)};
        noise_init(&c, 4, 1);
        sp_tier_job job = noise_put_job(&c);
        job.after = after;
        job.n_after = 1;
        assert_int_equal(sp_tier_run(b.tier, &job), SP_E_NOTFOUND);
        job.n_after = 2;
        assert_ok(noise_put(b.tier, 3, 1));
        assert_int_equal(sp_tier_run(b.tier, &job), SP_E_NOTFOUND);
        assert_ok(noise_put(b.tier, 2, 1));
        assert_ok(sp_tier_run(b.tier, &job));
        assert_ok(noise_get(b.tier, 4, 1));
        bench_end(&b);
    }
}

static void a_sweep_drops_copies_and_what_was_computed_after_them(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        bench b;
        noise c;
        int64_t n_gone = 0;
        if (!bench_begin(&b, k)) continue;
        for (uint32_t i = 0; i < 8; i += 2) assert_ok(noise_put(b.tier, i, 1));
        noise_init(&c, 2, 1);
        const sp_digest id = c.record.facts.id;
        noise_init(&c, 9, 1);
        c.before[1] = id;
        const sp_tier_job job = noise_put_job(&c);
        assert_ok(sp_tier_run(b.tier, &job));
        assert_ok(sp_sweep_run(
            b.tier, &(sp_sweep_opts){.ids = &id, .n = 1, .after = 1u << 1, .overwrite = true},
            &n_gone));
        assert_int_equal(n_gone, 2);
        assert_int_equal(sp_tier_stats_of(b.tier).n_copies, 3);
        bench_end(&b);
    }
}

/* -- operations ----------------------------------------------------------------------------- */

enum { MANY = 40 };

static void operations_of_one_batch_are_all_done(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        bench b;
        static noise c[MANY];
        sp_tier_job jobs[MANY];
        sp_tier_op *ops[MANY];
        if (!bench_begin(&b, k)) continue;
        for (uint32_t i = 0; i < MANY; i++) {
            noise_init(&c[i], i, 1);
            jobs[i] = noise_put_job(&c[i]);
        }
        assert_ok(sp_tier_submit_all(b.tier, jobs, MANY, ops));
        for (int i = 0; i < MANY; i++) {
            assert_true(sp_tier_op_wait(ops[i], 60000000));
            assert_ok(sp_tier_op_result(ops[i]));
            sp_tier_op_release(ops[i]);
        }
        for (int i = 0; i < MANY; i++) jobs[i] = noise_get_job(&c[i], 0, NOISE_LAYERS);
        assert_ok(sp_tier_submit_all(b.tier, jobs, MANY, ops));
        for (int i = 0; i < MANY; i++) {
            assert_true(sp_tier_op_wait(ops[i], 60000000));
            assert_ok(sp_tier_op_result(ops[i]));
            assert_int_equal(c[i].n_layers, NOISE_LAYERS);
            sp_tier_op_release(ops[i]);
        }
        if (b.tier->type->close == far_close) /* a batch is a message, or two */
            assert_in_range(((far_tier *)b.tier)->n_messages, 2, 4);
        bench_end(&b);
    }
}

/* A put whose source waits: everything after it in the queue waits, too. */
typedef struct held {
    noise c;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool begun, open;
    sp_tier_op *op;
} held;

static sp_err wait_source(void *user, int layer, void *to)
{
    held *h = user;
    pthread_mutex_lock(&h->lock);
    h->begun = true;
    pthread_cond_broadcast(&h->changed);
    while (!h->open) pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
    return noise_source(&h->c, layer, to);
}

static void hold(bench *b, held *h)
{
    *h = (held){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    noise_init(&h->c, 1, 1);
    sp_tier_job job = noise_put_job(&h->c);
    job.source = wait_source;
    job.user = h;
    assert_ok(sp_tier_submit(b->tier, &job, &h->op));
    pthread_mutex_lock(&h->lock);
    while (!h->begun) pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static void let_go(held *h)
{
    pthread_mutex_lock(&h->lock);
    h->open = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    assert_true(sp_tier_op_wait(h->op, 60000000));
    assert_ok(sp_tier_op_result(h->op));
    sp_tier_op_release(h->op);
}

static void count(void *user, sp_tier_op *op)
{
    SP_UNUSED(op);
    atomic_fetch_add((atomic_int *)user, 1);
}

static void one_that_waits_is_withdrawn_cancelled_or_late(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        bench b;
        held h;
        atomic_int n_done = 0;
        sp_tier_op *withdrawn, *cancelled, *late, *sync;
        sp_tier_job job = {.verb = SP_TIER_DROP, .key = noise_key(7), .done = count, .user = &n_done};
        if (!bench_begin(&b, k)) continue;
        assert_ok(noise_put(b.tier, 7, 1));
        hold(&b, &h);
        assert_ok(sp_tier_submit(b.tier, &job, &withdrawn));
        assert_ok(sp_tier_submit(b.tier, &job, &cancelled));
        job.deadline_us = sp_clock_us() + 1000;
        assert_ok(sp_tier_submit(b.tier, &job, &late));
        assert_ok(sp_tier_submit(
            b.tier, &(sp_tier_job){.verb = SP_TIER_SYNC, .done = count, .user = &n_done}, &sync));
        sp_tier_op_withdraw(withdrawn);
        assert_true(sp_tier_op_is_done(withdrawn));
        assert_int_equal(n_done, 1);
        sp_tier_op_withdraw(withdrawn); /* once is enough */
        sp_tier_op_cancel(cancelled);
        assert_false(sp_tier_op_wait(cancelled, 5000));
        assert_false(sp_tier_op_is_done(sync));
        let_go(&h);
        assert_true(sp_tier_op_wait(sync, 60000000));
        assert_ok(sp_tier_op_result(sync));
        assert_int_equal(n_done, 4);
        assert_fails(sp_tier_op_result(withdrawn), SP_E_CANCELED, "cancelled");
        assert_fails(sp_tier_op_result(cancelled), SP_E_CANCELED, "cancelled");
        assert_fails(sp_tier_op_result(late), SP_E_IO, "too long");
        assert_ok(noise_get(b.tier, 7, 1)); /* nobody has dropped it */
        sp_tier_op *all[] = {withdrawn, cancelled, late, sync};
        for (int i = 0; i < 4; i++) sp_tier_op_release(all[i]);
        bench_end(&b);
    }
}

/* A get that is cancelled at its second layer. */
typedef struct cancelling {
    sp_tier_op *_Atomic op; /* once its submitter knows it */
    _Atomic int n_layers;
} cancelling;

static sp_err cancel_at_second(void *user, int layer, const void *from)
{
    cancelling *g = user;
    SP_UNUSED(layer);
    SP_UNUSED(from);
    while (!atomic_load(&g->op)) usleep(1000);
    if (++g->n_layers == 2) sp_tier_op_cancel(atomic_load(&g->op));
    return SP_OK;
}

static void after_a_cancellation_no_layer_is_delivered(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        bench b;
        sp_tier_op *op;
        cancelling g = {0};
        if (kinds[k].open == open_far) continue; /* a tier of the tests, which knows nothing of it */
        if (!bench_begin(&b, k)) continue;
        assert_ok(noise_put(b.tier, 3, 1));
        const sp_tier_job job = {.verb = SP_TIER_GET, .key = noise_key(3), .n_layers = NOISE_LAYERS,
                                 .sink = cancel_at_second, .user = &g};
        assert_ok(sp_tier_submit(b.tier, &job, &op));
        atomic_store(&g.op, op);
        assert_true(sp_tier_op_wait(op, 60000000));
        assert_int_equal(sp_tier_op_result(op), SP_E_CANCELED);
        assert_int_equal(g.n_layers, 2);
        sp_tier_op_release(op);
        assert_ok(noise_get(b.tier, 3, 1)); /* it is as it was */
        bench_end(&b);
    }
}

/* -- parts of every tier --------------------------------------------------------------------- */

static void who_leaves_a_queue_takes_nobody_along(void **state)
{
    for (int gone = 0; gone < 3; gone++) {
        sp_op_queue q;
        sp_tier_op op[4] = {0};
        sp_tier_op *const first[] = {&op[0], &op[1], &op[2]}, *const later[] = {&op[3]};
        assert_ok(sp_op_queue_init(&q));
        sp_op_queue_push(&q, first, 3);
        assert_true(sp_op_queue_remove(&q, &op[gone]));
        assert_false(sp_op_queue_remove(&q, &op[gone]));
        sp_op_queue_push(&q, later, 1);
        for (int i = 0; i < 4; i++)
            if (i != gone) assert_ptr_equal(sp_op_queue_pop(&q, false), &op[i]);
        assert_null(sp_op_queue_pop(&q, false));
        sp_op_queue_fini(&q);
    }
}

static sp_err cancel_at_two(void *user, const sp_tier_info *info)
{
    sp_tier_op *op = user;
    if (info->bytes == 2) sp_tier_op_cancel(op);
    return SP_OK;
}

static void a_list_ends_when_it_is_cancelled(void **state)
{
    const sp_tier_info v[] = {{.bytes = 1}, {.bytes = 2}, {.bytes = 3}};
    sp_tier_op op = {.job.each = cancel_at_two};
    op.job.user = &op;
    assert_ok(sp_tier_op_list(&op, v, 2));
    op.cancelled = false;
    assert_fails(sp_tier_op_list(&op, v, 3), SP_E_CANCELED, "list");
}

/* -- a tier that fails ---------------------------------------------------------------------- */

static void a_sweep_of_a_failing_tier_says_so_until_it_has_all(void **state)
{
    sp_tier *there;
    sp_digest id;
    noise c;
    int n_failed = 0;
    assert_ok(sp_host_tier_open(&(sp_host_tier_opts){.max_bytes = 64 << 20}, &there));
    noise_init(&c, 2, 1);
    id = c.record.facts.id;
    for (uint32_t i = 1; i < 60; i += 2) { /* of kind 1 */
        noise_init(&c, i, 1);
        c.before[2] = id;
        const sp_tier_job job = noise_put_job(&c);
        assert_ok(sp_tier_run(there, &job));
    }
    sp_tier *t = &far_open(there, 500, 7)->base;
    const sp_sweep_opts o = {.ids = &id, .n = 1, .after = 1u << 1, .overwrite = true};
    for (int i = 0; i < 50 && sp_tier_stats_of(t).n_copies; i++)
        n_failed += sp_sweep_run(t, &o, NULL) != SP_OK;
    assert_int_equal(sp_tier_stats_of(t).n_copies, 0);
    assert_true(n_failed > 0);
    sp_tier_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_comes_back_in_any_range_of_layers),
        cmocka_unit_test(a_record_that_cannot_be_is_refused),
        cmocka_unit_test(a_copy_comes_after_what_it_continues),
        cmocka_unit_test(a_sweep_drops_copies_and_what_was_computed_after_them),
        cmocka_unit_test(operations_of_one_batch_are_all_done),
        cmocka_unit_test(one_that_waits_is_withdrawn_cancelled_or_late),
        cmocka_unit_test(after_a_cancellation_no_layer_is_delivered),
        cmocka_unit_test(who_leaves_a_queue_takes_nobody_along),
        cmocka_unit_test(a_list_ends_when_it_is_cancelled),
        cmocka_unit_test(a_sweep_of_a_failing_tier_says_so_until_it_has_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
