/* far_device.h -- a device whose memory the host cannot reach: the CPU, with allocations in pages
 * that are PROT_NONE except while the device copies or runs.
 *
 * Whoever touches device memory past compute/device.h dies of SIGSEGV, and the test with it. What is
 * copied to the host arrives when it is waited for: whoever reads it before reads what was there.
 *
 *   | piece | piece | ...      | never used |      one mapping; pieces are taken in order, and all of
 *   0                  used                        it is given back when the last piece is freed
 *
 * far_lose: the first piece (of a context: keys and values) is overwritten, and the device answers every
 * wait with an error until far_found.
 */
#ifndef SP_TESTS_FAR_DEVICE_H
#define SP_TESTS_FAR_DEVICE_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "compute/cpu.h"

#define FAR_BYTES ((size_t)2 << 30)

/* Bytes on their way to the host. */
typedef struct far_copy {
    struct far_copy *next;
    uint64_t event;
    void *to;
    size_t n_bytes;
    uint8_t bytes[];
} far_copy;

typedef struct far_device {
    sp_device base;
    sp_device *cpu;
    uint8_t *memory; /* [FAR_BYTES] */
    size_t used, first_bytes; /* first_bytes: of the first piece */
    int n_pieces;
    pthread_mutex_t lock; /* guards n_open: copies may come from any thread */
    int n_open;           /* copies and operations in progress: the memory is accessible */
    pthread_mutex_t arrival; /* guards `coming` */
    far_copy *coming;        /* in the order of their events */
    pthread_rwlock_t whole; /* shared by those, taken alone by far_lose */
    _Atomic uint64_t n_events;
    _Atomic bool lost;
    bool near; /* far_bring_near */
    _Atomic long n_copied_in, n_copied_out, n_run; /* for tests */
} far_device;

static inline far_device *far_of(sp_device *d)
{
    return (far_device *)d;
}

static inline void far_protect(far_device *f, int protection)
{
    if (f->used && !f->near && mprotect(f->memory, SP_ROUND_UP(f->used, (size_t)4096), protection) != 0)
        abort();
}

static inline void far_open(far_device *f)
{
    pthread_rwlock_rdlock(&f->whole);
    pthread_mutex_lock(&f->lock);
    f->n_open++;
    far_protect(f, PROT_READ | PROT_WRITE); /* also what was taken since */
    pthread_mutex_unlock(&f->lock);
}

static inline void far_shut(far_device *f)
{
    pthread_mutex_lock(&f->lock);
    if (--f->n_open == 0) far_protect(f, PROT_NONE);
    pthread_mutex_unlock(&f->lock);
    pthread_rwlock_unlock(&f->whole);
}

/* -- memory --------------------------------------------------------------------------------- */

static inline void *far_alloc(sp_device *d, size_t n_bytes)
{
    far_device *f = far_of(d);
    void *fault = sp_alloc(1, 1); /* fails where the n-th allocation is to fail */
    if (!fault) return NULL;
    sp_free(fault);
    if (n_bytes > FAR_BYTES - f->used) return NULL;
    pthread_mutex_lock(&f->lock);
    uint8_t *p = f->memory + f->used;
    if (f->used == 0) f->first_bytes = n_bytes;
    f->used += SP_ROUND_UP(n_bytes, (size_t)SP_CACHE_LINE);
    f->n_pieces++;
    pthread_mutex_unlock(&f->lock);
    return p; /* zeroed, as the pages come */
}

static inline void far_free(sp_device *d, void *p, size_t n_bytes)
{
    far_device *f = far_of(d);
    pthread_mutex_lock(&f->lock);
    if (--f->n_pieces == 0) {
        madvise(f->memory, f->used, MADV_DONTNEED);
        f->used = 0;
    }
    pthread_mutex_unlock(&f->lock);
}

static inline bool far_holds(const far_device *f, const void *p)
{
    return (const uint8_t *)p >= f->memory && (const uint8_t *)p < f->memory + FAR_BYTES;
}

static inline sp_event far_copy_in(sp_device *d, void *to, const void *from, size_t n_bytes)
{
    far_device *f = far_of(d);
    if (n_bytes && (!far_holds(f, to) || far_holds(f, from))) abort();
    far_open(f);
    f->cpu->calls->copy_in(f->cpu, to, from, n_bytes);
    far_shut(f);
    f->n_copied_in++;
    return (sp_event){++f->n_events};
}

static inline sp_event far_copy_out(sp_device *d, void *to, const void *from, size_t n_bytes)
{
    far_device *f = far_of(d);
    if (n_bytes && (far_holds(f, to) || !far_holds(f, from))) abort();
    far_copy *c = malloc(sizeof *c + n_bytes);
    if (!c) abort();
    far_open(f);
    f->cpu->calls->copy_out(f->cpu, c->bytes, from, n_bytes);
    far_shut(f);
    f->n_copied_out++;
    pthread_mutex_lock(&f->arrival);
    far_copy **last = &f->coming;
    while (*last) last = &(*last)->next;
    *c = (far_copy){.event = ++f->n_events, .to = to, .n_bytes = n_bytes};
    *last = c;
    const sp_event event = {c->event};
    pthread_mutex_unlock(&f->arrival);
    return event;
}

/* far_arrive -- delivers what was copied up to the event. */
static inline void far_arrive(far_device *f, sp_event e)
{
    pthread_mutex_lock(&f->arrival);
    for (far_copy *c; (c = f->coming) && c->event <= e.n;) {
        f->coming = c->next;
        memcpy(c->to, c->bytes, c->n_bytes);
        free(c);
    }
    pthread_mutex_unlock(&f->arrival);
}

static inline sp_err far_wait(sp_device *d, sp_event e)
{
    far_arrive(far_of(d), e);
    return far_of(d)->lost ? sp_fail(SP_E_IO, "device far does not answer") : SP_OK;
}

static inline void far_lose(sp_device *d)
{
    far_device *f = far_of(d);
    f->lost = true;
    pthread_rwlock_wrlock(&f->whole); /* between copies: no byte is written by two threads */
    far_protect(f, PROT_READ | PROT_WRITE);
    memset(f->memory, 0x3c, f->first_bytes);
    far_protect(f, PROT_NONE);
    pthread_rwlock_unlock(&f->whole);
}

static inline void far_found(sp_device *d)
{
    far_of(d)->lost = false;
}

/* far_bring_near -- from now on the host reaches its memory, as that of the CPU. Pre: it has no memory yet. */
static inline void far_bring_near(sp_device *d)
{
    far_device *f = far_of(d);
    f->near = f->base.unified = true;
    if (mprotect(f->memory, FAR_BYTES, PROT_READ | PROT_WRITE) != 0) abort();
}

static inline bool far_done(sp_device *d, sp_event e)
{
    far_arrive(far_of(d), e);
    return true;
}

/* -- weights: packed where the CPU packs, else as in the file; never read from there ---------- */

static inline size_t far_weight_bytes(sp_device *d, const sp_mat *w, sp_weight_use use)
{
    size_t packed = sp_device_weight_bytes(far_of(d)->cpu, w, use);
    size_t plain = (size_t)w->n_rows * sp_row_bytes(w->type, w->n_cols);
    return packed ? packed : SP_ROUND_UP(plain, (size_t)SP_CACHE_LINE);
}

static inline void far_weight_load(sp_device *d, sp_mat *w, sp_weight_use use, void *to)
{
    far_device *f = far_of(d);
    far_open(f);
    if (sp_device_weight_bytes(f->cpu, w, use)) {
        sp_device_weight_load(f->cpu, w, use, to);
        w->data = NULL;
    } else {
        memcpy(to, w->data, (size_t)w->n_rows * sp_row_bytes(w->type, w->n_cols));
        w->data = to;
    }
    far_shut(f);
}

/* -- operations ----------------------------------------------------------------------------- */

static inline sp_err far_reserve(sp_device *d, const sp_step_sizes *sizes)
{
    return sp_device_reserve(far_of(d)->cpu, sizes);
}

static inline void far_run(sp_device *d, sp_op op, const void *args)
{
    far_device *f = far_of(d);
    far_open(f);
    f->cpu->calls->run(f->cpu, op, args);
    far_shut(f);
    f->n_run++;
}

static inline void far_close(sp_device *d)
{
    far_device *f = far_of(d);
    sp_device_close(f->cpu);
    munmap(f->memory, FAR_BYTES);
    for (far_copy *c; (c = f->coming); free(c)) f->coming = c->next; /* nobody waited for them */
    pthread_mutex_destroy(&f->arrival);
    pthread_rwlock_destroy(&f->whole);
    pthread_mutex_destroy(&f->lock);
    sp_free(f);
}

/* far_device_open -- as sp_device_open. */
static inline sp_err far_device_open(const sp_device_opts *o, sp_device **out)
{
    static const sp_device_calls calls = {.close = far_close,
                                          .alloc = far_alloc,
                                          .free = far_free,
                                          .copy_in = far_copy_in,
                                          .copy_out = far_copy_out,
                                          .wait = far_wait,
                                          .done = far_done,
                                          .weight_bytes = far_weight_bytes,
                                          .weight_load = far_weight_load,
                                          .reserve = far_reserve,
                                          .run = far_run};
    sp_device *cpu;
    SP_TRY(sp_cpu_open(o, &cpu));
    far_device *f = SP_NEW(far_device);
    if (!f) abort();
    f->memory =
        mmap(NULL, FAR_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->memory == MAP_FAILED) abort();
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_init(&f->arrival, NULL);
    pthread_rwlock_init(&f->whole, NULL);
    f->base = *cpu;
    f->base.name = "far";
    f->base.unified = false;
    f->base.calls = &calls;
    f->cpu = cpu;
    *out = &f->base;
    return SP_OK;
}

#endif
