/* A job is announced by raising `epoch`; a worker spins for a short while, then sleeps on the
 * condition. The caller works as part 0 and waits until `left` has fallen to zero.
 *
 * Invariants
 *  I1  fn and arg are written before epoch is raised (release) and read after it is seen (acquire).
 *  I2  a worker runs each epoch exactly once: the caller never raises it while left > 0.
 */
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/mem.h"

#define SPIN_ROUNDS 2000 /* some tens of microseconds: the gap between two operations of a step */

typedef struct worker {
    sp_team *team;
    pthread_t thread;
    int part;
} worker;

struct sp_team {
    worker *workers; /* [n_threads], 0 is the caller */
    int n_threads, n_started;
    sp_team_fn *fn;
    void *arg;
    _Atomic unsigned epoch;
    _Atomic int left;
    _Atomic bool quit;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void wait_epoch(sp_team *t, unsigned seen)
{
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load_explicit(&t->epoch, memory_order_acquire) != seen) return;
        relax();
    }
    pthread_mutex_lock(&t->lock);
    while (atomic_load_explicit(&t->epoch, memory_order_acquire) == seen)
        pthread_cond_wait(&t->wake, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void *work(void *arg)
{
    worker *w = arg;
    sp_team *t = w->team;
    for (unsigned seen = 0;; seen++) {
        wait_epoch(t, seen);
        if (atomic_load(&t->quit)) return NULL;
        t->fn(t->arg, w->part, t->n_threads);
        if (atomic_fetch_sub_explicit(&t->left, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->done);
            pthread_mutex_unlock(&t->lock);
        }
    }
}

static void announce(sp_team *t)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add_explicit(&t->epoch, 1, memory_order_release);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

static int cores_allowed(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return SP_MAX(1, CPU_COUNT(&set));
}

sp_err sp_team_create(sp_team **out, int n_threads)
{
    if (n_threads < 0 || n_threads > 1024)
        return sp_fail(SP_E_ARG, "threads: %d is not in 0..1024", n_threads);
    if (n_threads == 0) n_threads = cores_allowed();
    sp_team *t = SP_NEW(sp_team);
    if (!t) return sp_fail_nomem(sizeof *t, "the thread team");
    t->workers = SP_NEW_N(worker, (size_t)n_threads);
    if (!t->workers) {
        sp_free(t);
        return sp_fail_nomem((size_t)n_threads * sizeof(worker), "the thread team");
    }
    t->n_threads = n_threads;
    t->n_started = 1;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->done, NULL);
    for (int i = 1; i < n_threads; i++) {
        t->workers[i] = (worker){.team = t, .part = i};
        if (pthread_create(&t->workers[i].thread, NULL, work, &t->workers[i]) != 0) {
            sp_team_destroy(t);
            return sp_fail(SP_E_NOMEM, "cannot start thread %d of %d", i + 1, n_threads);
        }
        t->n_started++;
    }
    *out = t;
    return SP_OK;
}

void sp_team_destroy(sp_team *t)
{
    if (!t) return;
    atomic_store(&t->quit, true);
    announce(t);
    for (int i = 1; i < t->n_started; i++) pthread_join(t->workers[i].thread, NULL);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->wake);
    pthread_cond_destroy(&t->done);
    sp_free(t->workers);
    sp_free(t);
}

int sp_team_size(const sp_team *t)
{
    return t->n_threads;
}

void sp_team_run(sp_team *t, sp_team_fn *fn, void *arg)
{
    if (t->n_threads == 1) {
        fn(arg, 0, 1);
        return;
    }
    assert(atomic_load(&t->left) == 0);
    t->fn = fn;
    t->arg = arg;
    atomic_store_explicit(&t->left, t->n_threads - 1, memory_order_relaxed);
    announce(t);
    fn(arg, 0, t->n_threads);
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load_explicit(&t->left, memory_order_acquire) == 0) return;
        relax();
    }
    pthread_mutex_lock(&t->lock);
    while (atomic_load_explicit(&t->left, memory_order_acquire) != 0)
        pthread_cond_wait(&t->done, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void sp_part(int64_t n, int64_t grain, int part, int n_parts, int64_t *from, int64_t *to)
{
    int64_t units = SP_DIV_UP(n, grain);
    *from = SP_MIN(n, units * part / n_parts * grain);
    *to = SP_MIN(n, units * (part + 1) / n_parts * grain);
}
