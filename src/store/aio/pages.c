#include "store/aio/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/aio/aio.h"
#include "store/files.h"
#include "store/record.h"

enum { RING = 4096, STAGING = 1 << 20, PAUSES = 200, NAP_NS = 40000, SLACK_NS = 1000 };

typedef struct fetch {
    int64_t record;
    uint8_t *to;
    sp_pages_group *group;
} fetch;

/* Memory between the file and records that are not aligned. */
typedef struct staging {
    pthread_mutex_t lock;
    uint8_t *data; /* [STAGING] */
} staging;

struct sp_pages {
    int fd;
    char *dir;
    size_t record_bytes, stride;
    int64_t n_records;
    _Atomic uint64_t *sums; /* [n_records] checksums of what was written; 0: nothing was */
    _Atomic int64_t n_damaged;
    staging in, out;
    sp_aio *aio; /* the thread's */
    uint8_t *arena;
    pthread_t thread;
    bool has_thread;

    fetch ring[RING]; /* head .. tail, modulo RING */
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic bool asleep, stop;
    pthread_mutex_t lock; /* for sleeping */
    pthread_cond_t wake;
};

/* -- checksums ------------------------------------------------------------------------------ */

/* sum_of -- XXH3, 64 bits; never 0. */
static uint64_t sum_of(const sp_pages *p, const uint8_t *record)
{
    const uint64_t sum = XXH3_64bits(record, p->record_bytes);
    return sum ? sum : 1;
}

/* is_whole -- whether the bytes match the checksum of the last write. */
static bool is_whole(sp_pages *p, int64_t i, const uint8_t *record)
{
    if (atomic_load_explicit(&p->sums[i], memory_order_relaxed) == sum_of(p, record)) return true;
    atomic_fetch_add(&p->n_damaged, 1);
    return false;
}

/* -- the transfer thread -------------------------------------------------------------------- */

static bool pop(sp_pages *p, fetch *f)
{
    const uint64_t head = atomic_load_explicit(&p->head, memory_order_relaxed);
    if (head == atomic_load(&p->tail)) return false;
    *f = p->ring[head % RING];
    atomic_store_explicit(&p->head, head + 1, memory_order_release);
    return true;
}

static bool is_empty(sp_pages *p)
{
    return atomic_load(&p->head) == atomic_load(&p->tail);
}

static void finish(sp_pages *p, const fetch *f, const sp_aio_piece *piece)
{
    const bool whole = !piece->error && is_whole(p, f->record, piece->data);
    if (whole)
        memcpy(f->to, piece->data, p->record_bytes);
    else
        atomic_fetch_add(&f->group->n_failed, 1);
    atomic_fetch_sub_explicit(&f->group->n_left, 1, memory_order_release);
}

/* idle -- sleeps briefly a few times, then until it is woken. It leaves the cores to the threads that compute. */
static void idle(sp_pages *p, int64_t last_us)
{
    if (sp_clock_us() - last_us < SP_PAGES_POLL_US) {
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        return;
    }
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->asleep, true);
    while (is_empty(p) && !atomic_load(&p->stop)) pthread_cond_wait(&p->wake, &p->lock);
    atomic_store(&p->asleep, false);
    pthread_mutex_unlock(&p->lock);
}

static void *transfer(void *arg)
{
    sp_pages *p = arg;
    sp_aio_piece pieces[SP_AIO_MAX_FLIGHT];
    fetch of[SP_AIO_MAX_FLIGHT];
    uint32_t unused[SP_AIO_MAX_FLIGHT];
    int n_unused = SP_AIO_MAX_FLIGHT;
    int64_t last_us = sp_clock_us();
    prctl(PR_SET_TIMERSLACK, (unsigned long)SLACK_NS); /* naps of the length that they ask for */
    for (int i = 0; i < SP_AIO_MAX_FLIGHT; i++) unused[i] = (uint32_t)i;
    while (!atomic_load(&p->stop)) {
        while (n_unused && pop(p, &of[unused[n_unused - 1]])) {
            const uint32_t i = unused[--n_unused];
            pieces[i] =
                (sp_aio_piece){.fd = p->fd,
                               .offset = (uint64_t)of[i].record * p->stride,
                               .data = p->arena + i * SP_ROUND_UP(p->stride, (size_t)SP_PAGE),
                               .n = (uint32_t)p->stride,
                               .tag = i};
            sp_aio_submit(p->aio, &pieces[i]);
        }
        if (n_unused == SP_AIO_MAX_FLIGHT) {
            idle(p, last_us);
            continue;
        }
        const sp_aio_piece *done = sp_aio_wait(p->aio);
        finish(p, &of[done->tag], done);
        unused[n_unused++] = done->tag;
        last_us = sp_clock_us();
    }
    return NULL;
}

/* -- opening -------------------------------------------------------------------------------- */

/* open_file -- a file without a name; directly where the file system can. */
static sp_err open_file(sp_pages *p)
{
    const int flags = O_TMPFILE | O_RDWR | O_CLOEXEC;
    p->fd = open(p->dir, flags | O_DIRECT, 0600);
    if (p->fd < 0 && errno == EINVAL) p->fd = open(p->dir, flags, 0600);
    if (p->fd < 0)
        return sp_fail(SP_E_IO, "%s: cannot create a file for contexts: %s", p->dir,
                       strerror(errno));
    return SP_OK;
}

/* grain -- what direct I/O addresses. */
static size_t grain(const sp_pages *p)
{
#ifdef STATX_DIOALIGN
    struct statx x;
    if (statx(p->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) == 0 && (x.stx_mask & STATX_DIOALIGN) &&
        x.stx_dio_offset_align >= 512 && SP_PAGE % x.stx_dio_offset_align == 0)
        return x.stx_dio_offset_align;
#endif
    return SP_PAGE;
}

static sp_err staging_open(staging *s)
{
    pthread_mutex_init(&s->lock, NULL);
    s->data = sp_pages_alloc(STAGING);
    return s->data ? SP_OK : sp_fail_nomem("buffers of a context's file");
}

static void staging_close(staging *s)
{
    sp_pages_free(s->data, STAGING);
    pthread_mutex_destroy(&s->lock);
}

static sp_err open_all(sp_pages *p, const sp_pages_opts *o)
{
    SP_TRY(staging_open(&p->in));
    SP_TRY(staging_open(&p->out));
    if (!(p->dir = sp_strdup_n(o->dir, strlen(o->dir))))
        return sp_fail_nomem("the folder of a context's file");
    if (!(p->sums = sp_alloc_zero((size_t)o->n_records, sizeof *p->sums)))
        return sp_fail_nomem("checksums of a context");
    SP_TRY(open_file(p));
    p->stride = SP_ROUND_UP(o->record_bytes, grain(p));
    if (p->stride > STAGING)
        return sp_fail(SP_E_ARG, "%s: records of %zu bytes are too large", p->dir, o->record_bytes);
    SP_TRY(sp_aio_open(o->io, &p->aio));
    SP_TRY(sp_aio_arena(p->aio, SP_AIO_MAX_FLIGHT * SP_ROUND_UP(p->stride, (size_t)SP_PAGE),
                        &p->arena));
    if (pthread_create(&p->thread, NULL, transfer, p) != 0)
        return sp_fail(SP_E_NOMEM, "no thread for the transfers of a context");
    p->has_thread = true;
    return SP_OK;
}

sp_err sp_pages_open(const sp_pages_opts *o, sp_pages **out)
{
    sp_pages *p = sp_alloc_aligned(sizeof *p);
    if (!p) return sp_fail_nomem("a context's file");
    p->fd = -1;
    p->record_bytes = o->record_bytes;
    p->n_records = o->n_records;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    sp_err err = open_all(p, o);
    if (err != SP_OK) {
        sp_pages_close(p);
        return err;
    }
    *out = p;
    return SP_OK;
}

void sp_pages_close(sp_pages *p)
{
    if (!p) return;
    if (p->has_thread) {
        pthread_mutex_lock(&p->lock);
        atomic_store(&p->stop, true);
        pthread_cond_signal(&p->wake);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    sp_aio_close(p->aio);
    if (p->fd >= 0) close(p->fd);
    staging_close(&p->in);
    staging_close(&p->out);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    sp_free(p->dir);
    sp_free(p->sums);
    sp_free(p);
}

/* -- runs ----------------------------------------------------------------------------------- */

/* in_memory -- record i of a run. */
static uint8_t *in_memory(const sp_pages *p, const sp_pages_run *run, int64_t i)
{
    return run->at + (size_t)(i / run->n_cols) * run->row_bytes +
           (size_t)(i % run->n_cols) * p->record_bytes;
}

/* write_part -- writes n records of a run, starting at record i. They have no checksum until all are written. */
static sp_err write_part(sp_pages *p, const sp_pages_run *run, int64_t i, int64_t n)
{
    const int64_t first = run->first + i;
    for (int64_t k = 0; k < n; k++) {
        atomic_store_explicit(&p->sums[first + k], 0, memory_order_relaxed);
        memcpy(p->out.data + (size_t)k * p->stride, in_memory(p, run, i + k), p->record_bytes);
    }
    SP_TRY(sp_files_write(p->fd, p->dir, (uint64_t)first * p->stride, p->out.data,
                          (size_t)n * p->stride));
    for (int64_t k = 0; k < n; k++)
        atomic_store_explicit(&p->sums[first + k], sum_of(p, p->out.data + (size_t)k * p->stride),
                              memory_order_relaxed);
    return SP_OK;
}

static sp_err read_part(sp_pages *p, const sp_pages_run *run, int64_t i, int64_t n)
{
    const int64_t first = run->first + i;
    const size_t bytes = (size_t)n * p->stride;
    size_t got;
    SP_TRY(sp_files_read(p->fd, p->dir, (uint64_t)first * p->stride, p->in.data, bytes, &got));
    if (got < bytes) return sp_fail(SP_E_IO, "%s: the file of the context ends too early", p->dir);
    for (int64_t k = 0; k < n; k++) {
        const uint8_t *record = p->in.data + (size_t)k * p->stride;
        if (!is_whole(p, first + k, record))
            return sp_fail(SP_E_IO, "%s: the file of the context is damaged at record %lld", p->dir,
                           (long long)(first + k));
        memcpy(in_memory(p, run, i + k), record, p->record_bytes);
    }
    return SP_OK;
}

static sp_err move(sp_pages *p, const sp_pages_run *run, bool out)
{
    const int64_t n = run->n_rows * run->n_cols, most = (int64_t)(STAGING / p->stride);
    pthread_mutex_t *lock = out ? &p->out.lock : &p->in.lock;
    sp_err err = SP_OK;
    assert(run->first >= 0 && run->first + n <= p->n_records);
    pthread_mutex_lock(lock);
    for (int64_t i = 0, m; i < n && err == SP_OK; i += m) {
        m = SP_MIN(most, n - i);
        if (out) {
            err = write_part(p, run, i, m);
            continue;
        }
        err = read_part(p, run, i, m);
        if (err != SP_OK) err = read_part(p, run, i, m); /* once more */
    }
    pthread_mutex_unlock(lock);
    return err;
}

sp_err sp_pages_write(sp_pages *p, const sp_pages_run *run)
{
    return move(p, run, true);
}

sp_err sp_pages_read(sp_pages *p, const sp_pages_run *run)
{
    return move(p, run, false);
}

/* -- fetches -------------------------------------------------------------------------------- */

bool sp_pages_is_full(const sp_pages *p)
{
    return atomic_load_explicit(&p->tail, memory_order_relaxed) -
               atomic_load_explicit(&p->head, memory_order_acquire) ==
           RING;
}

void sp_pages_fetch(sp_pages *p, int64_t record, uint8_t *to, sp_pages_group *group)
{
    assert(record >= 0 && record < p->n_records);
    while (sp_pages_is_full(p)) sched_yield();
    const uint64_t tail = atomic_load_explicit(&p->tail, memory_order_relaxed);
    p->ring[tail % RING] = (fetch){record, to, group};
    atomic_fetch_add_explicit(&group->n_left, 1, memory_order_relaxed);
    atomic_store(&p->tail, tail + 1);
    if (!atomic_load(&p->asleep)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

int32_t sp_pages_wait(sp_pages *p, sp_pages_group *group)
{
    SP_UNUSED(p);
    for (int i = 0; atomic_load_explicit(&group->n_left, memory_order_acquire) > 0; i++)
        if (i > PAUSES) sched_yield();
    return atomic_exchange(&group->n_failed, 0);
}

size_t sp_pages_stride(const sp_pages *p)
{
    return p->stride;
}

int64_t sp_pages_n_damaged(const sp_pages *p)
{
    return atomic_load(&p->n_damaged);
}
