#include "store/aio/aio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/aio/driver_int.h"
#include "store/files.h"
#include "store/record.h"

struct sp_aio {
    const sp_aio_driver *driver;
    void *state;
    uint8_t *arena;
    size_t n_arena;
    int n_flight; /* with the driver */
    sp_aio_piece *failed[SP_AIO_MAX_FLIGHT];
    int n_failed; /* that a test made fail */
};

/* -- opening -------------------------------------------------------------------------------- */

static sp_err open_with(const sp_aio_driver *driver, sp_aio **out)
{
    sp_aio *a = SP_NEW(sp_aio);
    if (!a) return sp_fail_nomem("I/O");
    a->driver = driver;
    sp_err err = driver->open(&a->state);
    if (err != SP_OK) {
        sp_free(a);
        return err;
    }
    *out = a;
    return SP_OK;
}

/* open_uring -- SP_E_UNSUPPORTED where the system, or this build, has none. */
static sp_err open_uring(sp_aio **out)
{
#if SP_NO_URING
    (void)out;
    return sp_fail(SP_E_UNSUPPORTED, "this program was built without io_uring");
#else
    return open_with(&sp_aio_uring, out);
#endif
}

sp_err sp_aio_open(const char *kind, sp_aio **out)
{
    const bool any = !kind || strcmp(kind, "auto") == 0;
    if (!any && strcmp(kind, "threads") == 0) return open_with(&sp_aio_threads, out);
    if (!any && strcmp(kind, "uring") != 0)
        return sp_fail(SP_E_ARG, "I/O of kind \"%s\": uring, threads or auto", kind);
    sp_err err = open_uring(out);
    if (err != SP_E_UNSUPPORTED || !any) return err;
    sp_log(SP_LOG_DEBUG, "%s: using threads to read and write instead", sp_error_detail());
    return open_with(&sp_aio_threads, out);
}

void sp_aio_close(sp_aio *a)
{
    if (!a) return;
    assert(a->n_flight == 0 && a->n_failed == 0);
    a->driver->close(a->state);
    free(a->arena);
    sp_free(a);
}

const char *sp_aio_kind(const sp_aio *a)
{
    return a->driver->kind;
}

sp_err sp_aio_arena(sp_aio *a, size_t n_bytes, uint8_t **out)
{
    assert(a->n_flight == 0);
    if (n_bytes > a->n_arena) {
        void *data;
        size_t n = SP_ROUND_UP(n_bytes, (size_t)SP_PAGE);
        void *probe = sp_alloc(1, 1); /* the allocation that tests make fail */
        sp_free(probe);
        if (!probe || posix_memalign(&data, SP_PAGE, n) != 0)
            return sp_fail_nomem("buffers of the store");
        memset(data, 0, n);
        a->driver->arena(a->state, data, n);
        free(a->arena);
        a->arena = data;
        a->n_arena = n;
    }
    *out = a->arena;
    return SP_OK;
}

/* -- transfers ------------------------------------------------------------------------------ */

/* begin -- submits the rest of a piece, unless a test makes it fail or shortens it. */
static void begin(sp_aio *a, sp_aio_piece *p)
{
    int error;
    p->part = p->n - p->done;
    if (sp_store_fails(p->write ? SP_CALL_WRITE : SP_CALL_READ, &error)) {
        p->flips = error == SP_FLIPS;
        if (error && !p->flips) {
            p->error = error;
            a->failed[a->n_failed++] = p;
            return;
        }
        if (!p->flips) p->part = SP_MIN(p->part, SP_MAX(p->part / 2 / SP_PAGE, 1u) * SP_PAGE);
    }
    a->driver->submit(a->state, p);
    a->n_flight++;
}

void sp_aio_submit(sp_aio *a, sp_aio_piece *p)
{
    assert(a->n_flight + a->n_failed < SP_AIO_MAX_FLIGHT);
    p->done = 0;
    p->error = 0;
    p->flips = false;
    begin(a, p);
}

/* is_whole -- counts the bytes that a piece transferred; false: more must be transferred. Direct I/O continues at a
 * page boundary. */
static bool is_whole(sp_aio_piece *p, int64_t result)
{
    if (result == -EINTR || result == -EAGAIN) return false;
    if (result < 0) {
        p->error = (int)-result;
        return true;
    }
    if (p->done + (uint64_t)result >= p->n) return true;
    uint32_t whole = (uint32_t)result / SP_PAGE * SP_PAGE;
    p->done += whole;
    if (whole == 0) p->error = p->write ? ENOSPC : ENODATA;
    return whole == 0;
}

sp_aio_piece *sp_aio_wait(sp_aio *a)
{
    while (a->n_flight && !a->n_failed) {
        int64_t result;
        sp_aio_piece *p = a->driver->wait(a->state, &result);
        a->n_flight--;
        if (p->flips && result > 0) sp_store_flip(p->data + p->done, (size_t)result);
        p->flips = false;
        if (is_whole(p, result)) return p;
        begin(a, p);
    }
    return a->n_failed ? a->failed[--a->n_failed] : NULL;
}
