/* test_step_calls.c -- which system calls the thread makes that runs a decode step (LiteCache):
 * none in memory; with blocks from a file, those that wait for the transfer thread or wake it.
 *
 * The kernel checks it: a filter of the thread ends the process at any other call. */
#include "support/check.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "engine/offload/offload.h"
#include "engine/sparse/sparse.h"
#include "support/tiny_model.h"

enum { B = SP_BLOCK_TOKENS, V = 101, CHUNK = 320, WARM = 6, STEPS = 24, NO_FILTER = 77, CALLED = 78 };

typedef struct scene {
    tiny t;
    sp_offload *offload;
    sp_plan known, plan;
    float logits[V];
} scene;

static void need(bool good)
{
    if (!good) _exit(1);
}

static void open_scene(scene *s, bool in_file)
{
    tiny_spec spec = TINY_SPEC_DEFAULT;
    int span, see;
    spec.kv_type = SP_Q16;
    spec.n_threads = 1; /* the team is this thread */
    need(tiny_open(&s->t, &spec, 21) == SP_OK);
    if (in_file) {
        need(sp_offload_create(&(sp_offload_opts){.pool = s->t.pool, .dir = "/tmp",
                                                  .max_bytes = (size_t)64 << 20, .n_seats = 12},
                               &s->offload) == SP_OK);
        sp_engine_set_offload(s->t.engine, s->offload);
    }
    sp_plan_init(&s->known, s->t.pool);
    need(sp_plan_add_span(&s->known, &(sp_span_spec){.n = CHUNK}, &span) == SP_OK);
    need(sp_plan_add_sight(&s->known, NULL, 1, &see) == SP_OK);
    for (int k = 0; k < CHUNK; k++)
        need(sp_plan_add_todo(&s->known, (sp_todo){.token = k * 7 % V, .pos = k, .index = k}) ==
             SP_OK);
    need(sp_plan_bind(&s->known) == SP_OK);
    need(sp_engine_step(s->t.engine, &(sp_slice){&s->known, 0, CHUNK, SP_WANT_NONE, NULL}, 1) ==
         SP_OK);
    const uint32_t *blocks = s->known.spans[0].blocks;
    sp_kv_seal(s->t.pool, blocks, CHUNK / B);
    if (in_file) need(sp_offload_leave(s->offload, blocks, CHUNK / B) == SP_OK);
    sp_plan_init(&s->plan, s->t.pool);
    need(sp_plan_add_span(&s->plan, &(sp_span_spec){.n = CHUNK, .known = blocks, .n_known = CHUNK},
                          &span) == SP_OK);
    need(sp_plan_add_span(&s->plan, &(sp_span_spec){.room = 64, .at = CHUNK}, &span) == SP_OK);
    need(sp_plan_add_sight(&s->plan, NULL, 2, &see) == SP_OK);
    need(sp_plan_bind(&s->plan) == SP_OK);
}

static void decode(scene *s, int from, int to)
{
    for (int i = from; i < to; i++) {
        need(sp_plan_grow(&s->plan, 1, (i * 11 + 2) % V, CHUNK + i, 0) == SP_OK);
        need(sp_engine_step(s->t.engine,
                            &(sp_slice){&s->plan, i, 1, SP_WANT_LAST, s->logits}, 1) == SP_OK);
    }
}

static void on_call(int sig, siginfo_t *info, void *context)
{
    char line[64];
    const int n = snprintf(line, sizeof line, "system call %d\n", info->si_syscall);
    if (write(STDERR_FILENO, line, (size_t)n) < 0) _exit(1);
    _exit(CALLED);
}

#define ALLOW(nr)                                                                                  \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* filter -- of this thread; clocks do not count where they are system calls. */
static bool filter(bool waits)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_write),
        ALLOW(SYS_clock_gettime),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP), /* with `waits`: continue */
        ALLOW(SYS_sched_yield),                      /* waits for the transfer thread ... */
        ALLOW(SYS_futex),                            /* ... or wakes it */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    if (waits) code[7] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0);
    const struct sock_fprog program = {.len = SP_COUNT(code), .filter = code};
    struct sigaction a = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &a, NULL);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* run -- in a process of its own; returns its exit status. calls: it makes a call that the filter ends. */
static int run(const sp_sparse_opts *o, bool in_file, bool calls)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static scene s;
        open_scene(&s, in_file);
        if (o) need(sp_sparse_create(o, &s.plan.sparse) == SP_OK);
        decode(&s, 0, WARM);
        if (!filter(in_file)) _exit(NO_FILTER);
        decode(&s, WARM, STEPS);
        if (calls) need(getppid() > 0);
        if (in_file && o) need(sp_offload_stats_of(s.offload).n_fetched > 100);
        if (in_file && o) need(sp_offload_stats_of(s.offload).n_windowed < 200);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_FILTER) skip();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void skip_sanitized(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* they make calls of their own */
#endif
}

static const sp_sparse_opts some = {.tokens = 112, .min_depth = -1, .refine = 1};

static void a_step_in_memory_makes_few_system_calls(void **state)
{
    const sp_sparse_opts two_stages = {.tokens = 112, .min_depth = -1, .refine = 2},
                         reused = {.tokens = 112, .min_depth = -1, .reuse = true};
    skip_sanitized();
    assert_int_equal(run(NULL, false, false), 0);
    assert_int_equal(run(&some, false, false), 0);
    assert_int_equal(run(&two_stages, false, false), 0);
    assert_int_equal(run(&reused, false, false), 0);
    assert_int_equal(run(NULL, false, true), CALLED); /* the filter works */
}

static void a_step_from_a_file_makes_few_system_calls(void **state)
{
    sp_sparse_opts ahead = some;
    ahead.ahead = true;
    skip_sanitized();
    assert_int_equal(run(&some, true, false), 0);
    assert_int_equal(run(&ahead, true, false), 0);
    assert_int_equal(run(&some, true, true), CALLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_in_memory_makes_few_system_calls),
        cmocka_unit_test(a_step_from_a_file_makes_few_system_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
