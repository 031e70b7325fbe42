/* threads.c -- how a team distributes a job and how its threads wait for each other.
 *
 *   the caller                                 a worker
 *     fn, arg, n_pieces := the job               waits on `open`: spins, then sleeps
 *     left := n_pieces
 *     open := n_pieces                ------->
 *     loop: takes a piece, runs it               loop: takes a piece, runs it
 *     left -= pieces it ran                      left -= pieces it ran
 *     waits on `left`: spins, then sleeps <---   the thread that brings left to 0 wakes the caller
 *
 * A step of the model runs hundreds of such jobs, 10 us to a few milliseconds each. Three choices
 * make them cheap on an otherwise idle machine: waiting threads spin; the caller makes no system
 * call unless a thread sleeps; the caller waits only for workers that hold a piece, not for workers
 * that start late.
 *
 * When other programs compete for the cores, the system takes a core from one of our threads now
 * and then, for 3 to 10 ms, the length of dozens of jobs. Speed then depends on what the other
 * threads do: if they only spin, one busy loop elsewhere costs half of the speed or more
 * (bench/team.c measures it). So:
 *
 *   keep apart   The system often puts a woken thread on the core of the thread that woke it. Two
 *                of our threads would then keep sharing that core and leave the other core to the
 *                foreign program. A worker that finds itself on the caller's core moves away.
 *   lend         A caller that waits for a piece checks whether the holder runs: if not, the
 *                holder's CPU time does not advance. The caller then moves the holder to its own
 *                core and sleeps.
 *
 * Both move only workers, never the caller's thread, which belongs to the program, and both restore
 * the affinity that they found. On a quiet machine the first is rare and the second does not
 * happen. With more threads than cores, no thread spins and none is moved.
 *
 * Invariants
 *  I1  The job is written only while left = 0, when no thread holds a piece, and read only by
 *      threads that hold one. Pieces are taken by compare-and-swap on `open`, which is raised
 *      (release) after the job is written.
 *  I2  Each piece is taken once, because `open` falls by one each time. Jobs have no number: a late
 *      worker finds either no piece or a piece of a later job, and may run it. So there is no job
 *      counter that could wrap around.
 *  I3  A thread announces its sleep (n_asleep, caller_asleep) before the system compares the futex
 *      word; a thread that changes the word checks afterwards for sleepers. All of these accesses
 *      are sequentially consistent, so one side always sees the other and no wake-up is lost.
 *  I4  After its last `left -= ...` a worker may still read the team; the team is freed only after
 *      all workers are joined.
 *  I5  One worker is moved at a time, so no move mistakes the temporary affinity of another move
 *      for the allowed cores.
 */
#include "base/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    QUIT = -1,     /* value of `open` that ends the workers */
    SPIN_US = 200, /* before sleeping: longer than the gap between two operations of a step */
    LOOK_US = 40,  /* between checks of the threads that hold a piece */
};

typedef struct worker {
    sp_team *team;
    pthread_t thread;
    clockid_t clock;                           /* its CPU time */
    int64_t used_us;                           /* CPU time at the last check; caller only */
    bool was_holding;                          /* held a piece at the last check; caller only */
    alignas(SP_CACHE_LINE) _Atomic bool holds; /* pieces that it has not reported as done */
} worker;

struct sp_team {
    worker *workers; /* [n_threads]; 0 is the caller and has no thread */
    int n_threads, n_started;
    int64_t spin_us; /* 0: more threads than cores */
    sp_team_fn *fn;  /* the job: I1 */
    void *arg;
    int n_pieces;
    _Atomic int caller_cpu; /* the caller's core when it announced the job */
    _Atomic int n_asleep;   /* workers: I3 */
    _Atomic int caller_asleep;
    atomic_flag moving;                      /* I5 */
    alignas(SP_CACHE_LINE) _Atomic int open; /* pieces not taken yet, or QUIT; a futex */
    alignas(SP_CACHE_LINE) _Atomic int left; /* pieces not done yet; a futex */
};

/* -- spinning and sleeping ------------------------------------------------------------------ */

static_assert(sizeof(_Atomic int) == 4, "a futex is four bytes");

static void futex_wait(_Atomic int *word, int value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic int *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* becomes -- spins until the word is zero (or nonzero) or `us` elapse; returns whether it
 * changed. */
static bool becomes(_Atomic int *word, bool zero, int64_t us)
{
    int64_t end = 0, now;
    do {
        for (int i = 0; i < 32; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) == 0) == zero) return true;
            relax();
        }
        now = sp_clock_us();
        if (end == 0) end = now + us;
    } while (now < end);
    return false;
}

/* -- sharing the cores with other programs -------------------------------------------------- */

/* move -- moves a thread onto a core, or off it, and then restores its affinity. False if the core
 * is not allowed or another move is under way (I5). */
static bool move(sp_team *t, pthread_t thread, int cpu, bool onto)
{
    cpu_set_t allowed, to, one;
    if (cpu < 0 || atomic_flag_test_and_set(&t->moving)) return false;
    bool moved = pthread_getaffinity_np(thread, sizeof allowed, &allowed) == 0;
    if (moved) {
        CPU_ZERO(&one);
        CPU_SET((size_t)cpu, &one);
        CPU_AND(&to, &allowed, &one);
        if (!onto) CPU_XOR(&to, &allowed, &to);
        moved = CPU_COUNT(&to) > 0 && pthread_setaffinity_np(thread, sizeof to, &to) == 0;
        if (moved) pthread_setaffinity_np(thread, sizeof allowed, &allowed);
    }
    atomic_flag_clear(&t->moving);
    return moved;
}

/* keep_apart -- moves the calling worker off the caller's core. */
static void keep_apart(sp_team *t)
{
    const int cpu = sched_getcpu();
    if (SP_LIKELY(cpu != atomic_load_explicit(&t->caller_cpu, memory_order_relaxed))) return;
    if (t->spin_us > 0) move(t, pthread_self(), cpu, false);
}

static int64_t cpu_time_us(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0) return 0;
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* is_stalled -- whether a worker has held a piece since the last check and has hardly run. */
static bool is_stalled(worker *w)
{
    const bool held = w->was_holding;
    const int64_t before = w->used_us;
    w->was_holding = atomic_load_explicit(&w->holds, memory_order_relaxed);
    if (w->was_holding) w->used_us = cpu_time_us(w->clock);
    return held && w->was_holding && w->used_us - before < LOOK_US / 4;
}

/* lend -- moves a stalled worker to the caller's core; the caller must then sleep. False if no
 * worker is stalled. */
static bool lend(sp_team *t)
{
    int i = 1;
    while (i < t->n_threads && !is_stalled(&t->workers[i])) i++;
    return i < t->n_threads && move(t, t->workers[i].thread, sched_getcpu(), true);
}

/* -- a job ---------------------------------------------------------------------------------- */

/* take -- takes the next piece; -1 if none is left. */
static int take(sp_team *t)
{
    int n = atomic_load_explicit(&t->open, memory_order_relaxed);
    while (n > 0)
        if (atomic_compare_exchange_weak_explicit(&t->open, &n, n - 1, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return t->n_pieces - n;
    return -1;
}

/* help -- runs pieces until none is left; returns how many it ran. */
static int help(sp_team *t, worker *w)
{
    int n = 0;
    for (int piece; (piece = take(t)) >= 0; n++) {
        if (n == 0) atomic_store_explicit(&w->holds, true, memory_order_relaxed);
        t->fn(t->arg, piece, t->n_pieces);
    }
    if (n) atomic_store_explicit(&w->holds, false, memory_order_relaxed);
    return n;
}

static void *work(void *arg)
{
    worker *w = arg;
    sp_team *t = w->team;
    for (;;) {
        keep_apart(t);
        if (!becomes(&t->open, false, t->spin_us)) {
            atomic_fetch_add(&t->n_asleep, 1);
            futex_wait(&t->open, 0);
            atomic_fetch_sub(&t->n_asleep, 1);
        }
        if (atomic_load(&t->open) == QUIT) return NULL;
        keep_apart(t);
        int n = help(t, w);
        if (n && atomic_fetch_sub(&t->left, n) == n && atomic_load(&t->caller_asleep))
            futex_wake(&t->left, 1);
    }
}

static void announce(sp_team *t, int open)
{
    atomic_store(&t->open, open);
    int n_asleep = atomic_load(&t->n_asleep);
    if (n_asleep > 0) futex_wake(&t->open, open == QUIT ? n_asleep : SP_MIN(n_asleep, open - 1));
}

static void sleep_until_done(sp_team *t)
{
    atomic_store(&t->caller_asleep, 1);
    for (int left; (left = atomic_load(&t->left)) != 0;) futex_wait(&t->left, left);
    atomic_store(&t->caller_asleep, 0);
}

/* wait_until_done -- no piece is left to take, but other threads still run theirs. */
static void wait_until_done(sp_team *t)
{
    for (int i = 1; i < t->n_threads; i++) t->workers[i].was_holding = false;
    for (int64_t us = 0; us < t->spin_us; us += LOOK_US) {
        if (becomes(&t->left, true, LOOK_US)) return;
        if (lend(t)) break;
    }
    sleep_until_done(t);
}

void sp_team_share(sp_team *t, sp_team_fn *fn, void *arg, int n_pieces)
{
    assert(n_pieces >= 0 && atomic_load(&t->left) == 0);
    t->fn = fn;
    t->arg = arg;
    t->n_pieces = n_pieces;
    atomic_store_explicit(&t->left, n_pieces, memory_order_relaxed);
    atomic_store_explicit(&t->caller_cpu, sched_getcpu(), memory_order_relaxed);
    if (t->n_threads > 1 && n_pieces > 1) {
        announce(t, n_pieces);
        int n = help(t, &t->workers[0]);
        if (atomic_fetch_sub(&t->left, n) != n) wait_until_done(t);
    } else {
        for (int i = 0; i < n_pieces; i++) fn(arg, i, n_pieces);
        atomic_store(&t->left, 0);
    }
}

void sp_team_run(sp_team *t, sp_team_fn *fn, void *arg)
{
    sp_team_share(t, fn, arg, t->n_threads);
}

/* -- the team ------------------------------------------------------------------------------- */

int sp_cores_allowed(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return SP_MAX(1, CPU_COUNT(&set));
}

static sp_err start_worker(sp_team *t, int i)
{
    worker *w = &t->workers[i];
    w->team = t;
    if (pthread_create(&w->thread, NULL, work, w) != 0)
        return sp_fail(SP_E_NOMEM, "cannot start thread %d of %d", i + 1, t->n_threads);
    pthread_getcpuclockid(w->thread, &w->clock);
    t->n_started++;
    return SP_OK;
}

sp_err sp_team_create(sp_team **out, int n_threads)
{
    if (n_threads < 0 || n_threads > 1024)
        return sp_fail(SP_E_ARG, "threads: %d is not in 0..1024", n_threads);
    const int n_cores = sp_cores_allowed();
    if (n_threads == 0) n_threads = SP_MIN(n_cores, 1024);
    sp_team *t = sp_alloc_aligned(sizeof *t);
    if (!t) return sp_fail_nomem("the thread team");
    t->workers = sp_alloc_aligned((size_t)n_threads * sizeof(worker));
    if (!t->workers) {
        sp_free(t);
        return sp_fail_nomem("the thread team");
    }
    t->n_threads = n_threads;
    t->n_started = 1;
    atomic_init(&t->caller_cpu, -1);
    t->spin_us = n_threads <= n_cores ? SPIN_US : 0;
    for (int i = 1; i < n_threads; i++) {
        sp_err err = start_worker(t, i);
        if (err != SP_OK) return sp_team_destroy(t), err;
    }
    *out = t;
    return SP_OK;
}

void sp_team_destroy(sp_team *t)
{
    if (!t) return;
    announce(t, QUIT);
    for (int i = 1; i < t->n_started; i++) pthread_join(t->workers[i].thread, NULL);
    sp_free(t->workers);
    sp_free(t);
}

int sp_team_size(const sp_team *t)
{
    return t->n_threads;
}

void sp_part(int64_t n, int64_t grain, int part, int n_parts, int64_t *from, int64_t *to)
{
    int64_t units = SP_DIV_UP(n, grain);
    *from = SP_MIN(n, units * part / n_parts * grain);
    *to = SP_MIN(n, units * (part + 1) / n_parts * grain);
}
