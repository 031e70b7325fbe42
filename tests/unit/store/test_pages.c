/* test_pages.c -- the thread that fetches records of a context's file; what it reads is in test_offload.c. */
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>

#include "store/aio/pages.h"
#include "support/check.h"
#include "support/folder.h"

static atomic_int slack_ns; /* how late the sleeping thread may be woken */

int nanosleep(const struct timespec *how_long, struct timespec *left)
{
    slack_ns = prctl(PR_GET_TIMERSLACK);
    return clock_nanosleep(CLOCK_MONOTONIC, 0, how_long, left);
}

/* Linux adds 50 us to a nap of 40 us unless the thread forbids it. */
static void naps_are_no_longer_than_they_are_meant_to_be(void **state)
{
    char dir[128];
    sp_pages *p;
    make_folder(dir, sizeof dir);
    assert_ok(sp_pages_open(&(sp_pages_opts){.dir = dir, .record_bytes = 512, .n_records = 1}, &p));
    for (int i = 0; i < 3000 && !slack_ns; i++) usleep(1000);
    assert_in_range(slack_ns, 1, 1000);
    sp_pages_close(p);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(naps_are_no_longer_than_they_are_meant_to_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
