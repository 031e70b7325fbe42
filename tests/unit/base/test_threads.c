/* The team of workers, and how work is cut into parts. Also meant for the thread sanitizer. */
#include "support/check.h"

#include <unistd.h>

#include "base/threads.h"

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

#define MAX_PARTS 16

/* The counters of the parts are plain numbers on purpose: only the team's own order keeps them from
 * racing with the caller, who reads them after every run. */
typedef struct tally {
    int n_calls[MAX_PARTS];
    int n_parts[MAX_PARTS];
    int epoch; /* written by the caller before each run */
    int seen[MAX_PARTS];
    int lazy; /* this part sleeps, so that the others get to wait */
} tally;

static void count(void *arg, int part, int n_parts)
{
    tally *t = arg;
    if (part == t->lazy) usleep(500);
    t->n_calls[part]++;
    t->n_parts[part] = n_parts;
    t->seen[part] = t->epoch;
}

static void run_epochs(int n_threads, int n_epochs, int lazy)
{
    sp_team *team;
    tally t = {.lazy = lazy};
    assert_ok(sp_team_create(&team, n_threads));
    assert_int_equal(sp_team_size(team), n_threads);
    for (int e = 1; e <= n_epochs; e++) {
        t.epoch = e;
        sp_team_run(team, count, &t);
        for (int p = 0; p < n_threads; p++) {
            assert_int_equal(t.n_calls[p], e);
            assert_int_equal(t.n_parts[p], n_threads);
            assert_int_equal(t.seen[p], e);
        }
    }
    for (int p = n_threads; p < MAX_PARTS; p++) assert_int_equal(t.n_calls[p], 0);
    sp_team_destroy(team);
}

static void every_part_runs_once_an_epoch(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 7, MAX_PARTS};
    for (size_t i = 0; i < SP_COUNT(sizes); i++) run_epochs(sizes[i], 300, -1);
}

/* A lazy caller lets the workers fall asleep between epochs; a lazy worker lets the caller. */
static void sleepers_wake(void **state)
{
    run_epochs(4, 50, 0);
    run_epochs(4, 50, 3);
    sp_team *team;
    tally t = {.lazy = -1};
    assert_ok(sp_team_create(&team, 3));
    for (int e = 1; e <= 20; e++) {
        usleep(1000);
        sp_team_run(team, count, &t);
        assert_int_equal(t.n_calls[2], e);
    }
    sp_team_destroy(team);
}

/* What one run writes, all parts of the next may read. */
static void relay(void *arg, int part, int n_parts)
{
    int *cell = arg; /* [2][MAX_PARTS + 1], the last: which half is read */
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

static void teams_stop_without_having_run(void **state)
{
    for (int n = 1; n <= 8; n++) {
        sp_team *team;
        assert_ok(sp_team_create(&team, n));
        sp_team_destroy(team);
    }
    sp_team_destroy(NULL);
}

static void zero_threads_means_the_cores_there_are(void **state)
{
    sp_team *team;
    assert_ok(sp_team_create(&team, 0));
    assert_in_range(sp_team_size(team), 1, sysconf(_SC_NPROCESSORS_CONF));
    sp_team_destroy(team);
}

static void sizes_out_of_range_are_refused(void **state)
{
    sp_team *team = (sp_team *)&team;
    assert_fails(sp_team_create(&team, -1), SP_E_ARG, "-1");
    assert_fails(sp_team_create(&team, 1025), SP_E_ARG, "1025");
    assert_ptr_equal(team, &team);
}

static void a_team_survives_faults(void **state)
{
    sp_team *team = NULL;
    assert_survives_faults(sp_team_create(&team, 3), team == NULL);
    tally t = {.lazy = -1};
    sp_team_run(team, count, &t);
    assert_int_equal(t.n_calls[2], 1);
    sp_team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_cover_everything_once),
        cmocka_unit_test(parts_of_large_counts_do_not_wrap),
        cmocka_unit_test(every_part_runs_once_an_epoch),
        cmocka_unit_test(sleepers_wake),
        cmocka_unit_test(a_run_sees_all_of_the_run_before),
        cmocka_unit_test(teams_stop_without_having_run),
        cmocka_unit_test(zero_threads_means_the_cores_there_are),
        cmocka_unit_test(sizes_out_of_range_are_refused),
        cmocka_unit_test(a_team_survives_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
