#include <errno.h>
#include <liburing.h>
#include <string.h>

#include "base/log.h"
#include "store/aio/driver_int.h"

typedef struct uring {
    struct io_uring ring;
    bool registered; /* the arena is */
} uring;

static sp_err open_ring(void **state)
{
    uring *u = SP_NEW(uring);
    if (!u) return sp_fail_nomem("io_uring");
    int rc = io_uring_queue_init(SP_AIO_MAX_FLIGHT, &u->ring, 0);
    if (rc < 0) {
        sp_free(u);
        return sp_fail(SP_E_UNSUPPORTED, "no io_uring: %s", strerror(-rc));
    }
    *state = u;
    return SP_OK;
}

static void close_ring(void *state)
{
    uring *u = state;
    io_uring_queue_exit(&u->ring);
    sp_free(u);
}

/* Registering fails if the limit of locked memory is low; the kernel then maps pages at each transfer. */
static void set_arena(void *state, uint8_t *data, size_t n)
{
    uring *u = state;
    struct iovec all = {.iov_base = data, .iov_len = n};
    if (u->registered) io_uring_unregister_buffers(&u->ring);
    int rc = io_uring_register_buffers(&u->ring, &all, 1);
    u->registered = rc == 0;
    if (rc < 0) sp_log(SP_LOG_DEBUG, "io_uring without registered buffers: %s", strerror(-rc));
}

static void submit(void *state, sp_aio_piece *p)
{
    uring *u = state;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    assert(sqe); /* the queue has room for all that can be in flight, and each is submitted immediately */
    uint8_t *data = p->data + p->done;
    uint64_t at = p->offset + p->done;
    if (u->registered && p->write)
        io_uring_prep_write_fixed(sqe, p->fd, data, p->part, at, 0);
    else if (u->registered)
        io_uring_prep_read_fixed(sqe, p->fd, data, p->part, at, 0);
    else if (p->write)
        io_uring_prep_write(sqe, p->fd, data, p->part, at);
    else
        io_uring_prep_read(sqe, p->fd, data, p->part, at);
    io_uring_sqe_set_data(sqe, p);
    int rc;
    do rc = io_uring_submit(&u->ring);
    while (rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
    assert(rc >= 0);
}

static sp_aio_piece *wait_one(void *state, int64_t *result)
{
    uring *u = state;
    struct io_uring_cqe *cqe = NULL;
    int rc;
    do rc = io_uring_wait_cqe(&u->ring, &cqe);
    while (rc == -EINTR || rc == -EAGAIN);
    assert(rc == 0 && cqe);
    sp_aio_piece *p = io_uring_cqe_get_data(cqe);
    *result = cqe->res;
    io_uring_cqe_seen(&u->ring, cqe);
    return p;
}

const sp_aio_driver sp_aio_uring = {
    .kind = "uring",
    .open = open_ring,
    .close = close_ring,
    .arena = set_arena,
    .submit = submit,
    .wait = wait_one,
};
