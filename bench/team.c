/* team.c -- the overhead of the thread team, alone and on a shared machine.
 *
 *     build/bench/team [-t threads] [-j jobs] [-s] [-r rounds] [-m milliseconds]
 *
 * An operation is a fixed amount of arithmetic in registers; a step is a sequence of operations
 * that wait for each other, like those of the forward pass. Each is timed
 * alternately: with nothing else running, and with busy loops in other processes (-s: in sessions of
 * their own, each of which many systems schedule as one). Once with one part per thread (run), once
 * in pieces (share).
 *
 * Figures are medians over the rounds, in per cent of threads that never wait for each other and
 * have a core each. With T threads and J loops on C < T + J cores the fair share
 * is C / (T + J). `kept` is shared / alone; `cores` is the CPU time that the team got
 * with the loops running, spinning included.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads.h"

enum {
    MAX_JOBS = 64,
    MAX_ROUNDS = 1000,
    PIECE_US = 50,
    PIECES = 8,   /* of a thread, at most */
    ALONE_US = 20 /* what is shorter is not given to the team: as in engine/run_int.h */
};

typedef struct step {
    const char *name;
    int n_ops;
    int us[16]; /* of each operation, on one thread */
} step;

static const step steps[] = {
    {"40 us", 1, {40}},
    {"200 us", 1, {200}},
    {"1 ms", 1, {1000}},
    {"5 ms", 1, {5000}},
    {"decode layer", 9, {3, 60, 10, 10, 15, 60, 360, 360, 360}},
    {"prefill layer", 12, {50, 600, 100, 100, 50, 800, 600, 50, 3600, 3600, 200, 3600}},
};

/* -- arithmetic ----------------------------------------------------------------------------- */

static double turns_of_us;
static volatile uint32_t sink;

static void turn(int64_t n)
{
    uint32_t x = 1;
    for (int64_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        __asm__ volatile("" : "+r"(x)); /* no shorter way to the result */
    }
    sink = x;
}

static void calibrate(void)
{
    const int64_t n = 1000000;
    for (int i = 0; i < 50; i++) {
        int64_t start = sp_clock_us();
        turn(n);
        double rate = (double)n / (double)SP_MAX(1, sp_clock_us() - start);
        turns_of_us = SP_MAX(turns_of_us, rate);
    }
}

static void op_part(void *arg, int part, int n_parts)
{
    const int64_t *n = arg;
    int64_t from, to;
    sp_part(*n, 1, part, n_parts, &from, &to);
    turn(to - from);
}

static void nothing(void *arg, int part, int n_parts)
{
    SP_UNUSED(arg);
    SP_UNUSED(part);
    SP_UNUSED(n_parts);
}

/* -- others --------------------------------------------------------------------------------- */

static pid_t jobs[MAX_JOBS];
static int n_jobs;

static void signal_jobs(int signal)
{
    for (int i = 0; i < n_jobs; i++) kill(jobs[i], signal);
}

static void start_jobs(int n, bool sessions)
{
    for (; n_jobs < n; n_jobs++) {
        jobs[n_jobs] = fork();
        if (jobs[n_jobs] < 0) break;
        if (jobs[n_jobs] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (sessions) setsid();
            for (;;) turn(1000000);
        }
    }
    signal_jobs(SIGSTOP);
}

static void end_jobs(void)
{
    signal_jobs(SIGKILL);
    for (int i = 0; i < n_jobs; i++) waitpid(jobs[i], NULL, 0);
}

/* -- timing --------------------------------------------------------------------------------- */

/* What a round measures: [alone, shared] x [run, share] */
typedef struct figures {
    double rate[2][2][MAX_ROUNDS];
    double cores[MAX_ROUNDS]; /* shared, share */
} figures;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int64_t cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void run_op(sp_team *team, bool share, int us)
{
    int64_t turns = (int64_t)(us * turns_of_us);
    const int n = sp_team_size(team);
    if (us < ALONE_US)
        op_part(&turns, 0, 1);
    else if (share)
        sp_team_share(team, op_part, &turns, SP_MAX(n, SP_MIN(us / PIECE_US, PIECES * n)));
    else
        sp_team_run(team, op_part, &turns);
}

/* time_steps -- for `ms` milliseconds; 1 if no thread ever waited. */
static double time_steps(sp_team *team, const step *s, bool share, int ms, double *cores)
{
    int64_t start = sp_clock_us(), cpu = cpu_us(), now = start, done_us = 0;
    while (now - start < ms * 1000) {
        for (int i = 0; i < s->n_ops; i++) {
            run_op(team, share, s->us[i]);
            done_us += s->us[i];
        }
        now = sp_clock_us();
    }
    *cores = (double)(cpu_us() - cpu) / (double)(now - start);
    return (double)done_us / sp_team_size(team) / (double)(now - start);
}

static void bench_empty(sp_team *team, int rounds)
{
    static double run[MAX_ROUNDS], share[MAX_ROUNDS];
    const int n = 20000, pieces = PIECES * sp_team_size(team);
    for (int r = 0; r < rounds; r++) {
        int64_t start = sp_clock_us();
        for (int i = 0; i < n; i++) sp_team_run(team, nothing, NULL);
        int64_t middle = sp_clock_us();
        for (int i = 0; i < n; i++) sp_team_share(team, nothing, NULL, pieces);
        run[r] = (double)(middle - start) / n;
        share[r] = (double)(sp_clock_us() - middle) / n;
    }
    printf("empty: run %.2f us, share of %d pieces %.2f us\n", median(run, rounds), pieces,
           median(share, rounds));
}

static void bench_step(sp_team *team, const step *s, int rounds, int ms)
{
    static figures f;
    for (int r = 0; r < rounds; r++)
        for (int busy = 0; busy < 2; busy++) {
            if (busy) signal_jobs(SIGCONT);
            usleep(20000);
            for (int share = 0; share < 2; share++)
                f.rate[busy][share][r] = time_steps(team, s, share, ms, &f.cores[r]);
            signal_jobs(SIGSTOP);
        }
    double m[2][2];
    for (int i = 0; i < 4; i++) m[i / 2][i % 2] = 100 * median(f.rate[i / 2][i % 2], rounds);
    printf("%-14s %5.1f %5.1f   %5.1f %5.1f   %5.1f %5.1f   %5.2f\n", s->name, m[0][0], m[0][1],
           m[1][0], m[1][1], 100 * m[1][0] / m[0][0], 100 * m[1][1] / m[0][1],
           median(f.cores, rounds));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int n_threads = 0, n = 1, rounds = 5, ms = 200;
    bool sessions = false;
    for (int c; (c = getopt(argc, argv, "t:j:r:m:s")) != -1;) {
        if (c == 't')
            n_threads = atoi(optarg);
        else if (c == 'j')
            n = SP_MIN(SP_MAX(0, atoi(optarg)), MAX_JOBS);
        else if (c == 'r')
            rounds = SP_MIN(SP_MAX(1, atoi(optarg)), MAX_ROUNDS);
        else if (c == 'm')
            ms = SP_MAX(1, atoi(optarg));
        else if (c == 's')
            sessions = true;
        else
            return fprintf(stderr, "usage: team [-t THREADS] [-j JOBS] [-s] [-r ROUNDS] [-m MILLISECONDS]\n"), 2;
    }
    start_jobs(n, sessions); /* before there are threads */
    sp_team *team;
    if (sp_team_create(&team, n_threads) != SP_OK) {
        fprintf(stderr, "%s\n", sp_error_detail());
        return end_jobs(), 1;
    }
    calibrate();
    bench_empty(team, rounds);
    printf("%d threads, %d loops  alone         shared         kept\n"
           "                 run share     run share     run share   cores\n",
           sp_team_size(team), n_jobs);
    for (size_t i = 0; i < SP_COUNT(steps); i++) bench_step(team, &steps[i], rounds, ms);
    sp_team_destroy(team);
    end_jobs();
    return 0;
}
