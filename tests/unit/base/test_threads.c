/* test_threads.c -- the team of threads, and the division of work into parts. Also run under the
 * thread sanitizer. */
#include "support/check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads.h"

/* -- the clock ------------------------------------------------------------------------------ */

static int64_t us_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void the_clock_counts_microseconds(void **state)
{
    const int64_t began = sp_clock_us();
    usleep(3000);
    assert_in_range(sp_clock_us() - began, 3000, 60000000);
}

static void a_time_limit_is_after_now(void **state)
{
    static const int64_t waits[] = {0, 1, 999999, 1000000, 2500000};
    for (int i = 0; i < 10; i++)
        for (size_t k = 0; k < SP_COUNT(waits); k++) {
            const int64_t now = sp_clock_us();
            const struct timespec t = sp_clock_after(waits[k]);
            assert_in_range(t.tv_nsec, 0, 999999999);
            assert_in_range(us_of(t) - now, waits[k], waits[k] + 60000000);
        }
    const int64_t now = sp_clock_us(), year = INT64_C(31536000000000);
    assert_in_range(us_of(sp_clock_after(-5000000)) - now, 0, 60000000);
    assert_in_range(us_of(sp_clock_after(INT64_MAX)) - now, year, year + 60000000);
}

/* -- parts ---------------------------------------------------------------------------------- */

static void parts_cover_everything_once(void **state)
{
    static const int64_t grains[] = {1, 3, 16, 64};
    for (int64_t n = 0; n < 300; n++)
        for (size_t g = 0; g < SP_COUNT(grains); g++)
            for (int n_parts = 1; n_parts < 12; n_parts++) {
                int64_t at = 0, least = INT64_MAX, most = 0;
                for (int part = 0; part < n_parts; part++) {
                    int64_t from, to;
                    sp_part(n, grains[g], part, n_parts, &from, &to);
                    assert_int_equal(from, at); /* no gap, no overlap */
                    assert_true(to >= from);
                    assert_true(from % grains[g] == 0 || from == n);
                    least = SP_MIN(least, to - from);
                    most = SP_MAX(most, to - from);
                    at = to;
                }
                assert_int_equal(at, n);
                assert_true(most - least < 2 * grains[g]); /* fair to a grain and the last piece */
            }
}

static void parts_of_large_counts_do_not_wrap(void **state)
{
    int64_t n = INT64_C(1) << 45, at = 0;
    for (int part = 0; part < 1024; part++) {
        int64_t from, to;
        sp_part(n, 64, part, 1024, &from, &to);
        assert_true(from == at && to == at + n / 1024);
        at = to;
    }
}

/* -- the team ------------------------------------------------------------------------------- */

#define MAX_PARTS  16
#define MAX_PIECES 1000

/* The counters of the pieces are deliberately not atomic: only the synchronisation of the team
 * prevents races with the caller, which reads them after every job. */
typedef struct tally {
    int n_calls[MAX_PIECES];
    int n_pieces[MAX_PIECES];
    int epoch; /* written by the caller before each job */
    int seen[MAX_PIECES];
    int lazy; /* this piece sleeps, so that the others wait */
} tally;

static void count(void *arg, int piece, int n_pieces)
{
    tally *t = arg;
    if (piece == t->lazy) usleep(500);
    t->n_calls[piece]++;
    t->n_pieces[piece] = n_pieces;
    t->seen[piece] = t->epoch;
}

/* share_epochs -- runs jobs of n_pieces; 0: sp_team_run, one piece for each thread. */
static void share_epochs(int n_threads, int n_pieces, int n_epochs, int lazy)
{
    sp_team *team;
    static tally t;
    t = (tally){.lazy = lazy};
    assert_ok(sp_team_create(&team, n_threads));
    assert_int_equal(sp_team_size(team), n_threads);
    const int expected = n_pieces ? n_pieces : n_threads;
    for (int e = 1; e <= n_epochs; e++) {
        t.epoch = e;
        if (n_pieces)
            sp_team_share(team, count, &t, n_pieces);
        else
            sp_team_run(team, count, &t);
        for (int p = 0; p < expected; p++) {
            assert_int_equal(t.n_calls[p], e);
            assert_int_equal(t.n_pieces[p], expected);
            assert_int_equal(t.seen[p], e);
        }
    }
    for (int p = expected; p < MAX_PIECES; p++) assert_int_equal(t.n_calls[p], 0);
    sp_team_destroy(team);
}

static const int sizes[] = {1, 2, 3, 4, 7, MAX_PARTS};

static void every_part_runs_once_an_epoch(void **state)
{
    for (size_t i = 0; i < SP_COUNT(sizes); i++) share_epochs(sizes[i], 0, 300, -1);
}

static void every_piece_runs_once_an_epoch(void **state)
{
    static const int pieces[] = {1, 2, 3, 16, 100, MAX_PIECES};
    for (size_t i = 0; i < SP_COUNT(sizes); i++)
        for (size_t k = 0; k < SP_COUNT(pieces); k++) share_epochs(sizes[i], pieces[k], 20, -1);
}

static void jobs_of_changing_size_do_not_mix(void **state)
{
    sp_team *team;
    uint64_t seed = 1;
    int calls[MAX_PIECES] = {0};
    static tally t;
    t = (tally){.lazy = -1};
    assert_ok(sp_team_create(&team, 5));
    for (int e = 1; e <= 1000; e++) {
        int n = check_random(&seed, check_random(&seed, 10) ? 8 : 200); /* often few, and none */
        t.epoch = e;
        sp_team_share(team, count, &t, n);
        for (int p = 0; p < n; p++) {
            assert_int_equal(t.n_calls[p], ++calls[p]);
            assert_int_equal(t.n_pieces[p], n);
            assert_int_equal(t.seen[p], e);
        }
        assert_memory_equal(t.n_calls, calls, sizeof calls);
    }
    sp_team_destroy(team);
}

/* A slow first piece makes the workers sleep between jobs; a slow last one makes the caller
 * sleep. */
static void sleepers_wake(void **state)
{
    share_epochs(4, 0, 50, 0);
    share_epochs(4, 0, 50, 3);
    share_epochs(4, 20, 50, 0);
    share_epochs(4, 20, 50, 19);
    sp_team *team;
    static tally t;
    t = (tally){.lazy = -1};
    assert_ok(sp_team_create(&team, 3));
    for (int e = 1; e <= 20; e++) {
        usleep(1000);
        sp_team_share(team, count, &t, 30);
        assert_int_equal(t.n_calls[29], e);
    }
    sp_team_destroy(team);
}

static void a_job_may_be_empty(void **state)
{
    sp_team *team;
    static tally t;
    t = (tally){.lazy = -1};
    assert_ok(sp_team_create(&team, 2));
    sp_team_share(team, count, &t, 0);
    assert_int_equal(t.n_calls[0], 0);
    sp_team_destroy(team);
}

/* -- those who are late --------------------------------------------------------------------- */

/* The first pieces end only when all others have. */
typedef struct stuck {
    _Atomic int n_done;
    int n_stuck;
} stuck;

static void wait_for_others(void *arg, int piece, int n_pieces)
{
    stuck *s = arg;
    while (piece < s->n_stuck && atomic_load(&s->n_done) < n_pieces - s->n_stuck) sched_yield();
    atomic_fetch_add(&s->n_done, 1);
}

static void a_held_piece_holds_up_no_other(void **state)
{
    sp_team *team;
    assert_ok(sp_team_create(&team, 4));
    for (int i = 0; i < 50; i++) {
        stuck s = {.n_stuck = i % 4};
        sp_team_share(team, wait_for_others, &s, 40);
        assert_int_equal(atomic_load(&s.n_done), 40);
    }
    sp_team_destroy(team);
}

/* The caller sleeps, and signals come: it returns when all is done, not before. */
typedef struct signalled {
    pthread_t caller;
    _Atomic int n_done;
} signalled;

static void note_signal(int signal)
{
    SP_UNUSED(signal);
}

static void signal_the_caller(void *arg, int piece, int n_pieces)
{
    signalled *s = arg;
    const bool is_caller = pthread_equal(pthread_self(), s->caller);
    SP_UNUSED(piece);
    SP_UNUSED(n_pieces);
    for (int i = 0; i < 20 && !is_caller; i++) {
        usleep(2000);
        pthread_kill(s->caller, SIGUSR2);
    }
    if (is_caller) usleep(1000); /* so that a worker comes */
    atomic_fetch_add(&s->n_done, 1);
}

static void a_signal_ends_no_job(void **state)
{
    sp_team *team;
    struct sigaction old, act = {.sa_handler = note_signal};
    assert_int_equal(sigaction(SIGUSR2, &act, &old), 0);
    assert_ok(sp_team_create(&team, 2));
    for (int i = 0; i < 20; i++) {
        signalled s = {.caller = pthread_self()};
        sp_team_share(team, signal_the_caller, &s, 2);
        assert_int_equal(atomic_load(&s.n_done), 2);
    }
    sp_team_destroy(team);
    sigaction(SIGUSR2, &old, NULL);
}

/* meet -- a job of two pieces that run at the same time, so on both threads of a team. */
typedef struct meeting {
    _Atomic int n_here;
    pthread_t caller, worker;
    int worker_cpu;
} meeting;

static void meet(void *arg, int piece, int n_pieces)
{
    meeting *m = arg;
    if (!pthread_equal(pthread_self(), m->caller)) {
        m->worker = pthread_self();
        m->worker_cpu = sched_getcpu();
    }
    atomic_fetch_add(&m->n_here, 1);
    while (atomic_load(&m->n_here) < n_pieces) sched_yield();
}

static meeting meet_worker(sp_team *team)
{
    meeting m = {.caller = pthread_self()};
    sp_team_share(team, meet, &m, 2);
    return m;
}

/* A signal handler delays the worker; for a limited time, so that a team that waits for it fails
 * the test instead of hanging. */
static _Atomic int held, let_go, gave_up;

static void hold(int signal)
{
    SP_UNUSED(signal);
    atomic_store(&held, 1);
    for (int i = 0; i < 120000 && !atomic_load(&let_go); i++) usleep(1000);
    if (!atomic_load(&let_go)) atomic_store(&gave_up, 1);
}

static void a_worker_that_does_not_come_is_not_waited_for(void **state)
{
    sp_team *team;
    static tally t;
    struct sigaction old, act = {.sa_handler = hold};
    assert_int_equal(sigaction(SIGUSR1, &act, &old), 0);
    for (int i = 0; i < 4; i++) {
        assert_ok(sp_team_create(&team, 2));
        t = (tally){.lazy = -1};
        meeting m = meet_worker(team);
        if (i % 2) usleep(20000); /* asleep; else it spins */
        atomic_store(&held, 0);
        atomic_store(&let_go, 0);
        assert_int_equal(pthread_kill(m.worker, SIGUSR1), 0);
        while (!atomic_load(&held)) usleep(100);
        for (int e = 1; e <= 10; e++) {
            sp_team_share(team, count, &t, 50);
            sp_team_run(team, count, &t);
        }
        assert_false(atomic_load(&gave_up));
        atomic_store(&let_go, 1);
        for (int p = 0; p < 50; p++) assert_int_equal(t.n_calls[p], p < 2 ? 20 : 10);
        meet_worker(team); /* it is back */
        sp_team_destroy(team);
    }
    sigaction(SIGUSR1, &old, NULL);
}

static _Atomic int naps, napped;

static void nap(int signal)
{
    SP_UNUSED(signal);
    atomic_store(&naps, 1);
    usleep(50000);
    atomic_store(&napped, 1);
}

/* It reads the team until then. */
static void a_team_ends_after_its_last_worker(void **state)
{
    sp_team *team;
    struct sigaction old, act = {.sa_handler = nap};
    assert_int_equal(sigaction(SIGUSR2, &act, &old), 0);
    assert_ok(sp_team_create(&team, 2));
    meeting m = meet_worker(team);
    assert_int_equal(pthread_kill(m.worker, SIGUSR2), 0);
    while (!atomic_load(&naps)) usleep(100);
    sp_team_destroy(team);
    assert_int_equal(atomic_load(&napped), 1);
    sigaction(SIGUSR2, &old, NULL);
}

/* -- a machine that others use -------------------------------------------------------------- */

static _Atomic int stop_neighbours;

static void *be_busy(void *arg)
{
    while (!atomic_load_explicit(&stop_neighbours, memory_order_relaxed)) {
    }
    return arg;
}

static bool may_run_on(pthread_t thread, const cpu_set_t *expected)
{
    cpu_set_t set;
    assert_int_equal(pthread_getaffinity_np(thread, sizeof set, &set), 0);
    return CPU_EQUAL(&set, expected);
}

/* A worker may be moved briefly; afterwards it has its old affinity. */
static void assert_free_again(pthread_t worker, const cpu_set_t *expected)
{
    for (int i = 0; i < 120000 && !may_run_on(worker, expected); i++) usleep(1000);
    assert_true(may_run_on(worker, expected));
}

static void work_a_little(void *arg, int piece, int n_pieces)
{
    volatile unsigned x = 0;
    for (int i = 0; i < 20000; i++) x += (unsigned)i;
    count(arg, piece, n_pieces);
}

static void busy_neighbours_change_nothing(void **state)
{
    sp_team *team;
    static tally t;
    pthread_t busy[3];
    cpu_set_t all;
    t = (tally){.lazy = -1};
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_ok(sp_team_create(&team, 2));
    pthread_t worker = meet_worker(team).worker;
    atomic_store(&stop_neighbours, 0);
    for (size_t i = 0; i < SP_COUNT(busy); i++)
        assert_int_equal(pthread_create(&busy[i], NULL, be_busy, NULL), 0);
    for (int e = 1; e <= 100; e++) {
        sp_team_share(team, work_a_little, &t, 12);
        for (int p = 0; p < 12; p++) assert_int_equal(t.n_calls[p], e);
        assert_true(may_run_on(pthread_self(), &all)); /* the caller is never moved */
    }
    atomic_store(&stop_neighbours, 1);
    for (size_t i = 0; i < SP_COUNT(busy); i++) pthread_join(busy[i], NULL);
    assert_free_again(worker, &all);
    sp_team_destroy(team);
}

/* A worker that is put on the caller's core moves away; the caller stays. */
static void a_worker_leaves_the_core_of_the_caller(void **state)
{
    cpu_set_t all, one;
    sp_team *team;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2) skip();
    assert_ok(sp_team_create(&team, 2));
    pthread_t worker = meet_worker(team).worker;
    int cpu = sched_getcpu(), elsewhere = 0;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
    assert_int_equal(pthread_setaffinity_np(worker, sizeof one, &one), 0);
    assert_int_equal(meet_worker(team).worker_cpu, cpu); /* no other core is allowed */
    assert_int_equal(pthread_setaffinity_np(worker, sizeof all, &all), 0);
    for (int i = 0; i < 1000 && !elsewhere; i++) elsewhere = meet_worker(team).worker_cpu != cpu;
    assert_true(elsewhere);
    assert_free_again(worker, &all);
    assert_true(may_run_on(pthread_self(), &one));
    sp_team_destroy(team);
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof all, &all), 0);
}

/* -- order ---------------------------------------------------------------------------------- */

/* All parts of a run can read what the previous run wrote. */
static void relay(void *arg, int part, int n_parts)
{
    int *cell = arg; /* [2][MAX_PARTS + 1]; the last element: the half to read */
    int half = cell[2 * MAX_PARTS];
    int sum = 0;
    for (int p = 0; p < n_parts; p++) sum += cell[half * MAX_PARTS + p];
    cell[(1 - half) * MAX_PARTS + part] = sum % 1000003 + part;
}

static void a_run_sees_all_of_the_run_before(void **state)
{
    int cells[2][2 * MAX_PARTS + 1] = {{0}};
    sp_team *team;
    assert_ok(sp_team_create(&team, 5));
    for (int e = 0; e < 500; e++) {
        sp_team_run(team, relay, cells[0]);
        for (int p = 0; p < 5; p++) relay(cells[1], p, 5);
        for (int k = 0; k < 2; k++) cells[k][2 * MAX_PARTS] ^= 1;
        assert_memory_equal(cells[0], cells[1], sizeof cells[0]);
    }
    sp_team_destroy(team);
}

/* -- beginning and end ---------------------------------------------------------------------- */

static void teams_stop_without_having_run(void **state)
{
    for (int n = 1; n <= 8; n++) {
        sp_team *team;
        assert_ok(sp_team_create(&team, n));
        sp_team_destroy(team);
    }
    sp_team_destroy(NULL);
}

static void teams_stop_spinning_and_asleep(void **state)
{
    static tally t;
    t = (tally){.lazy = -1};
    for (int i = 0; i < 60; i++) {
        sp_team *team;
        assert_ok(sp_team_create(&team, 1 + i % 6));
        sp_team_share(team, count, &t, 20);
        if (i % 3) usleep(i % 3 == 1 ? 100 : 3000);
        sp_team_destroy(team);
    }
    for (int p = 0; p < 20; p++) assert_int_equal(t.n_calls[p], 60);
}

/* -- misuse --------------------------------------------------------------------------------- */

static void call_again(void *arg, int piece, int n_pieces)
{
    static tally t;
    if (piece == 0) sp_team_share(arg, count, &t, 3);
}

static void a_piece_that_calls_its_team_is_caught(void **state)
{
#ifdef NDEBUG
    skip();
#endif
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            sp_team *team;
            signal(SIGABRT, SIG_DFL);
            if (!freopen("/dev/null", "w", stderr)) _exit(1);
            if (sp_team_create(&team, n_threads) == SP_OK) sp_team_share(team, call_again, team, 3);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

static void zero_threads_means_the_cores_there_are(void **state)
{
    sp_team *team;
    assert_ok(sp_team_create(&team, 0));
    assert_int_equal(sp_team_size(team), sp_cores_allowed());
    sp_team_destroy(team);
}

/* A program that is held to some cores has no more threads than these. */
static void only_cores_that_are_allowed_count(void **state)
{
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(sp_cores_allowed(), CPU_COUNT(&before));
    CPU_ZERO(&one);
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before)) cpu++;
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int n = sp_cores_allowed();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(n, 1);
}

static void count_piece(void *arg, int piece, int n_pieces)
{
    atomic_fetch_add((atomic_int *)arg + piece, 1);
}

static void sizes_out_of_range_are_refused(void **state)
{
    sp_team *team = (sp_team *)&team;
    assert_fails(sp_team_create(&team, -1), SP_E_ARG, "-1");
    assert_fails(sp_team_create(&team, 1025), SP_E_ARG, "1025");
    assert_ptr_equal(team, &team);
}

/* As many as a team may have: all of them start, and each of 1024 pieces runs once. */
static void a_team_may_have_1024_threads(void **state)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* their stacks need more memory than a container may have */
#endif
    sp_team *team;
    static atomic_int n_runs[1024];
    assert_ok(sp_team_create(&team, 1024));
    assert_int_equal(sp_team_size(team), 1024);
    sp_team_run(team, count_piece, n_runs);
    for (int i = 0; i < 1024; i++) assert_int_equal(n_runs[i], 1);
    sp_team_destroy(team);
}

enum { UNLIMITED = 3 /* how the child ends */ };

/* A limit of the process allows some threads of a team: those are ended. */
static void threads_that_cannot_start_are_an_error(void **state)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* they need more memory than the limit */
#endif
    int status;
    const pid_t child = fork();
    if (child == 0) {
        long pages = 0;
        FILE *f = fopen("/proc/self/statm", "r");
        const bool read = f && fscanf(f, "%ld", &pages) == 1;
        const rlim_t most = (rlim_t)pages * 4096 + ((rlim_t)40 << 20);
        const struct rlimit limit = {.rlim_cur = most, .rlim_max = most};
        sp_team *team = NULL;
        if (!read || setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
        const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        if (mmap(NULL, (size_t)1 << 30, PROT_NONE, how, -1, 0) != MAP_FAILED) _exit(UNLIMITED);
        _exit(sp_team_create(&team, 200) == SP_E_NOMEM && !team ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == UNLIMITED) skip(); /* qemu-user knows no such limit */
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_team_survives_faults(void **state)
{
    sp_team *team = NULL;
    assert_survives_faults(sp_team_create(&team, 3), team == NULL);
    static tally t;
    t = (tally){.lazy = -1};
    sp_team_run(team, count, &t);
    assert_int_equal(t.n_calls[2], 1);
    sp_team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_counts_microseconds),
        cmocka_unit_test(a_time_limit_is_after_now),
        cmocka_unit_test(parts_cover_everything_once),
        cmocka_unit_test(parts_of_large_counts_do_not_wrap),
        cmocka_unit_test(every_part_runs_once_an_epoch),
        cmocka_unit_test(every_piece_runs_once_an_epoch),
        cmocka_unit_test(jobs_of_changing_size_do_not_mix),
        cmocka_unit_test(sleepers_wake),
        cmocka_unit_test(a_job_may_be_empty),
        cmocka_unit_test(a_held_piece_holds_up_no_other),
        cmocka_unit_test(a_signal_ends_no_job),
        cmocka_unit_test(a_worker_that_does_not_come_is_not_waited_for),
        cmocka_unit_test(a_team_ends_after_its_last_worker),
        cmocka_unit_test(busy_neighbours_change_nothing),
        cmocka_unit_test(a_worker_leaves_the_core_of_the_caller),
        cmocka_unit_test(a_run_sees_all_of_the_run_before),
        cmocka_unit_test(teams_stop_without_having_run),
        cmocka_unit_test(teams_stop_spinning_and_asleep),
        cmocka_unit_test(a_piece_that_calls_its_team_is_caught),
        cmocka_unit_test(zero_threads_means_the_cores_there_are),
        cmocka_unit_test(only_cores_that_are_allowed_count),
        cmocka_unit_test(sizes_out_of_range_are_refused),
        cmocka_unit_test(a_team_may_have_1024_threads),
        cmocka_unit_test(threads_that_cannot_start_are_an_error),
        cmocka_unit_test(a_team_survives_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
