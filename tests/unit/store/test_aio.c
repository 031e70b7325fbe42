/* test_aio.c -- transfers by themselves; those of the store are in test_disk_tier.c. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#include "store/aio/aio.h"
#include "store/record.h"
#include "support/check.h"

enum { N_ALARMS = 20 };

static atomic_int n_alarms;

static void count_alarm(int number)
{
    SP_UNUSED(number);
    n_alarms++;
}

/* write_late -- user: the end of a pipe. Until its page comes, the reader is interrupted again and again. */
static void *write_late(void *user)
{
    static const uint8_t page[SP_PAGE] = {7};
    while (n_alarms < N_ALARMS) usleep(1000);
    return write(*(const int *)user, page, sizeof page) == sizeof page ? user : NULL;
}

static void signals_do_not_end_a_read(void **state)
{
    const struct sigaction handler = {.sa_handler = count_alarm};
    const struct itimerval often = {{.tv_usec = 2000}, {.tv_usec = 2000}}, never = {0};
    int ends[2];
    sp_aio *a;
    void *written;
    sp_aio_piece p = {.n = SP_PAGE};
    sigset_t alarm;
    pthread_t writer;
    if (sp_aio_open("uring", &a) != SP_OK) skip();
    assert_ok(sp_aio_arena(a, SP_PAGE, &p.data));
    assert_int_equal(pipe(ends), 0);
    p.fd = ends[0];
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* in the writer */
    assert_int_equal(pthread_create(&writer, NULL, write_late, &ends[1]), 0);
    assert_int_equal(sigaction(SIGALRM, &handler, NULL), 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    sp_aio_submit(a, &p);
    assert_ptr_equal(sp_aio_wait(a), &p);
    setitimer(ITIMER_REAL, &never, NULL);
    assert_int_equal(pthread_join(writer, &written), 0);
    assert_ptr_equal(written, &ends[1]);
    assert_true(p.error == 0 && p.data[0] == 7);
    sp_aio_close(a);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_do_not_end_a_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
