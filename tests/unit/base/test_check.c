/* test_check.c -- support/check.h itself: after a failed test the others run, and are not held up by what it left.
 *
 * The program starts itself with CHECK_FAILING set, and then has the group `failing` alone. Under an emulator, which
 * tests/run.py names in SPOLIA_UNDER, it cannot: the system would start the emulator's file, or none. */
#include "support/check.h"

#include <pthread.h>
#include <stdio.h>

/* A fixture with a thread, on the stack of its test. */
typedef struct fixture {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool given, taken;
    pthread_t thread;
} fixture;

static void *take(void *arg)
{
    fixture *f = arg;
    pthread_mutex_lock(&f->lock);
    while (!f->given) pthread_cond_wait(&f->changed, &f->lock);
    f->taken = true;
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static void begin(fixture *f)
{
    *f = (fixture){0};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    assert_int_equal(pthread_create(&f->thread, NULL, take, f), 0);
}

static void end(fixture *f)
{
    pthread_mutex_lock(&f->lock);
    f->given = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

static int n_failures; /* of this process */

static void leaves_a_thread(void **state)
{
    fixture f;
    begin(&f);
    usleep(50000); /* it waits */
    n_failures++;
    sp_fault_after(1);
    fail();
}

static void finds_nothing_of_it(void **state)
{
    fixture f;
    assert_int_equal(n_failures, 0);
    void *p = sp_alloc(1, 1);
    assert_non_null(p);
    sp_free(p);
    begin(&f);
    end(&f);
    assert_true(f.taken);
}

static void fails_too(void **state)
{
    assert_int_equal(n_failures, 0);
    fail();
}

static void is_left_out(void **state)
{
    skip();
}

static int run_failing(void)
{
    const struct CMUnitTest failing[] = {cmocka_unit_test(is_left_out), cmocka_unit_test(leaves_a_thread),
                                         cmocka_unit_test(finds_nothing_of_it), cmocka_unit_test(fails_too)};
    return cmocka_run_group_tests(failing, NULL, NULL);
}

static void tests_after_a_failed_one_run_in_processes_of_their_own(void **state)
{
    static const char *const verdicts[] = {"not ok 1 # SKIP", "not ok 2 ", "ok 3 ", "not ok 4 "};
    char line[512];
    int n = 0;
    if (getenv("SPOLIA_UNDER")) {
        print_message("skipped: a program under an emulator (%s) cannot start itself again\n", getenv("SPOLIA_UNDER"));
        skip();
    }
    setenv("CHECK_FAILING", "1", 1);
    FILE *f = popen("CMOCKA_MESSAGE_OUTPUT=TAP timeout 60 /proc/$PPID/exe", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "ok ", 3) && strncmp(line, "not ok ", 7)) continue;
        assert_true(n < 4);
        assert_memory_equal(line, verdicts[n], strlen(verdicts[n]));
        n++;
    }
    const int status = pclose(f);
    unsetenv("CHECK_FAILING");
    assert_int_equal(n, 4);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 2); /* failures */
}

int main(void)
{
    if (getenv("CHECK_FAILING")) return run_failing();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tests_after_a_failed_one_run_in_processes_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
