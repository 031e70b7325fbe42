/* The queue of background work. What it computes is replaced by a function that reports progress until the test lets
 * it end. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/documents/work.h"
#include "support/check.h"

/* The document that is computed now; under the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char ran[2 * SRV_MAX_WORK][16]; /* [n_ran] ids, in order */
    int n_ran, n_allowed;           /* documents that may end */
    sp_err err;                     /* how they end */
} now = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

sp_err sp_documents_tick(sp_documents *d, int64_t now_s)
{
    return SP_OK;
}

sp_err sp_documents_precompute(sp_documents *d, const char *salt, const char *id, const sp_documents_compute *o,
                               sp_documents_computed *out)
{
    pthread_mutex_lock(&now.lock);
    const int mine = now.n_ran++;
    snprintf(now.ran[mine], sizeof now.ran[mine], "%s", id);
    pthread_cond_broadcast(&now.changed);
    bool wanted = true;
    while (wanted && now.n_allowed <= mine) {
        struct timespec end;
        pthread_mutex_unlock(&now.lock);
        wanted = o->progress(1, 3, o->user);
        pthread_mutex_lock(&now.lock);
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_nsec += 2000000;
        end.tv_sec += end.tv_nsec / 1000000000;
        end.tv_nsec %= 1000000000;
        if (wanted && now.n_allowed <= mine) pthread_cond_timedwait(&now.changed, &now.lock, &end);
    }
    const sp_err err = wanted ? now.err : SP_E_CANCELED;
    pthread_mutex_unlock(&now.lock);
    out->n_computed = 3;
    return err == SP_OK || err == SP_E_CANCELED ? err : sp_fail(err, "no model");
}

/* allow -- the next n documents may end. */
static void allow(int n)
{
    pthread_mutex_lock(&now.lock);
    now.n_allowed += n;
    pthread_cond_broadcast(&now.changed);
    pthread_mutex_unlock(&now.lock);
}

/* wait_ran -- until the n-th document has begun. */
static void wait_ran(int n)
{
    pthread_mutex_lock(&now.lock);
    while (now.n_ran < n) pthread_cond_wait(&now.changed, &now.lock);
    pthread_mutex_unlock(&now.lock);
}

static void pause_shortly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static bool add(srv_work *w, const char *salt, const char *id)
{
    return srv_work_add(w, &(srv_work_item){.salt = salt, .id = id, .system = ""});
}

static srv_phase phase_of(srv_work *w, const char *salt, const char *id)
{
    srv_progress p;
    assert_true(srv_work_get(w, salt, id, &p));
    return p.phase;
}

/* wait_over -- until it is done, failed or canceled. */
static srv_phase wait_over(srv_work *w, const char *salt, const char *id)
{
    while (phase_of(w, salt, id) <= SRV_RUNNING) pause_shortly();
    return phase_of(w, salt, id);
}

static srv_work *open_work(void)
{
    srv_work *w = NULL;
    now.n_ran = now.n_allowed = 0;
    now.err = SP_OK;
    assert_true(srv_work_open((sp_documents *)&now, &w));
    return w;
}

static void documents_are_computed_in_the_order_of_their_requests(void **state)
{
    srv_work *w = open_work();
    srv_progress p;
    assert_true(add(w, NULL, "a") && add(w, NULL, "b") && add(w, NULL, "c"));
    wait_ran(1);
    assert_int_equal(phase_of(w, NULL, "a"), SRV_RUNNING);
    assert_int_equal(phase_of(w, NULL, "c"), SRV_QUEUED);
    do {
        pause_shortly();
        assert_true(srv_work_get(w, NULL, "a", &p));
    } while (p.done == 0);
    assert_true(p.done == 1 && p.total == 3);
    allow(3);
    assert_int_equal(wait_over(w, NULL, "c"), SRV_DONE);
    assert_string_equal(now.ran[0], "a");
    assert_string_equal(now.ran[1], "b");
    assert_string_equal(now.ran[2], "c");
    assert_true(srv_work_get(w, NULL, "a", &p) && p.sum.n_computed == 3);
    assert_false(srv_work_get(w, NULL, "d", &p));
    srv_work_close(w);
}

static void a_document_is_in_the_queue_once(void **state)
{
    srv_work *w = open_work();
    assert_true(add(w, NULL, "a") && add(w, NULL, "b"));
    wait_ran(1);
    assert_false(add(w, NULL, "a")); /* runs */
    assert_false(add(w, NULL, "b")); /* waits */
    allow(2);
    assert_int_equal(wait_over(w, NULL, "b"), SRV_DONE);
    assert_true(add(w, NULL, "a")); /* its result is replaced */
    wait_ran(3);
    assert_int_equal(phase_of(w, NULL, "a"), SRV_RUNNING);
    allow(1);
    assert_int_equal(wait_over(w, NULL, "a"), SRV_DONE);
    srv_work_close(w);
}

static void tenants_have_documents_of_their_own(void **state)
{
    srv_work *w = open_work();
    srv_progress p;
    assert_true(add(w, "red", "a"));
    assert_false(srv_work_get(w, NULL, "a", &p));
    assert_false(srv_work_get(w, "blue", "a", &p));
    assert_false(srv_work_cancel(w, "blue", "a"));
    srv_work_forget(w, "blue", "a");
    assert_true(add(w, "blue", "a") && add(w, NULL, "a"));
    allow(3);
    assert_int_equal(wait_over(w, "red", "a"), SRV_DONE);
    assert_int_equal(wait_over(w, "blue", "a"), SRV_DONE);
    assert_int_equal(wait_over(w, NULL, "a"), SRV_DONE);
    srv_work_close(w);
}

static void what_is_canceled_does_not_run(void **state)
{
    srv_work *w = open_work();
    assert_true(add(w, NULL, "a") && add(w, NULL, "b") && add(w, NULL, "c"));
    wait_ran(1);
    assert_true(srv_work_cancel(w, NULL, "b"));
    assert_int_equal(phase_of(w, NULL, "b"), SRV_CANCELED); /* at once */
    assert_false(srv_work_cancel(w, NULL, "b"));
    assert_true(srv_work_cancel(w, NULL, "a"));
    assert_int_equal(wait_over(w, NULL, "a"), SRV_CANCELED); /* at its next chunk */
    allow(2);
    assert_int_equal(wait_over(w, NULL, "c"), SRV_DONE);
    assert_int_equal(now.n_ran, 2);
    assert_string_equal(now.ran[1], "c");
    srv_work_close(w);
}

static void a_failure_says_why(void **state)
{
    srv_work *w = open_work();
    srv_progress p;
    now.err = SP_E_NOKV;
    allow(1);
    assert_true(add(w, NULL, "a"));
    assert_int_equal(wait_over(w, NULL, "a"), SRV_FAILED);
    assert_true(srv_work_get(w, NULL, "a", &p));
    assert_string_equal(p.why, "no model");
    srv_work_close(w);
}

static void a_document_that_is_replaced_while_it_runs_is_computed_again(void **state)
{
    srv_work *w = open_work();
    srv_progress p;
    assert_true(add(w, NULL, "a"));
    wait_ran(1);
    srv_work_forget(w, NULL, "a");
    assert_false(srv_work_get(w, NULL, "a", &p));
    assert_true(add(w, NULL, "a"));
    wait_ran(2); /* the first was canceled */
    assert_int_equal(phase_of(w, NULL, "a"), SRV_RUNNING);
    allow(2);
    assert_int_equal(wait_over(w, NULL, "a"), SRV_DONE);
    srv_work_forget(w, NULL, "a"); /* and one that is over */
    assert_false(srv_work_get(w, NULL, "a", &p));
    srv_work_close(w);
}

static void the_oldest_result_makes_place_and_what_is_forgotten_has_none(void **state)
{
    srv_work *w = open_work();
    srv_progress p;
    char id[16];
    allow(1);
    assert_true(add(w, NULL, "kept"));
    assert_int_equal(wait_over(w, NULL, "kept"), SRV_DONE);
    assert_true(add(w, NULL, "gone"));
    wait_ran(2);
    srv_work_forget(w, NULL, "gone");
    assert_true(add(w, NULL, "next"));
    wait_ran(3);
    for (int i = 0; i < SRV_MAX_WORK - 2; i++) {
        snprintf(id, sizeof id, "%d", i);
        assert_true(add(w, NULL, id));
    }
    assert_true(srv_work_get(w, NULL, "kept", &p));
    assert_true(add(w, NULL, "last"));
    assert_false(srv_work_get(w, NULL, "kept", &p));
    assert_false(add(w, NULL, "too many"));
    srv_work_close(w); /* cancels all */
    assert_int_equal(now.n_ran, 3);
}

static int64_t us_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* The wait takes no processor time, and a signal ends it: the best of some, as other processes run, too. */
static void a_queue_without_work_waits_until_it_is_closed(void **state)
{
    int64_t idle = INT64_MAX, end = INT64_MAX;
    for (int i = 0; i < 5 && (idle > 2000 || end > 300000); i++) {
        srv_work *w = open_work();
        allow(1);
        assert_true(add(w, NULL, "a"));
        assert_int_equal(wait_over(w, NULL, "a"), SRV_DONE);
        int64_t from = us_of(CLOCK_PROCESS_CPUTIME_ID);
        nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
        idle = SP_MIN(idle, us_of(CLOCK_PROCESS_CPUTIME_ID) - from);
        from = us_of(CLOCK_MONOTONIC);
        srv_work_close(w);
        end = SP_MIN(end, us_of(CLOCK_MONOTONIC) - from);
    }
    assert_true(idle <= 2000 && end <= 300000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_are_computed_in_the_order_of_their_requests),
        cmocka_unit_test(a_document_is_in_the_queue_once),
        cmocka_unit_test(tenants_have_documents_of_their_own),
        cmocka_unit_test(what_is_canceled_does_not_run),
        cmocka_unit_test(a_failure_says_why),
        cmocka_unit_test(a_document_that_is_replaced_while_it_runs_is_computed_again),
        cmocka_unit_test(the_oldest_result_makes_place_and_what_is_forgotten_has_none),
        cmocka_unit_test(a_queue_without_work_waits_until_it_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
