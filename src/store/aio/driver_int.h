/* aio_driver_int.h -- what each kind of asynchronous I/O implements. */
#ifndef SP_STORE_AIO_DRIVER_INT_H
#define SP_STORE_AIO_DRIVER_INT_H

#include "store/aio/aio.h"

typedef struct sp_aio_driver {
    const char *kind;
    sp_err (*open)(void **state);
    void (*close)(void *state);
    /* A new arena; the old one is released afterwards. Must not fail: without it transfers are slower. */
    void (*arena)(void *state, uint8_t *data, size_t n);
    void (*submit)(void *state, sp_aio_piece *p); /* bytes [done, done + part) */
    /* Waits for one; *result: bytes, or a negative errno. */
    sp_aio_piece *(*wait)(void *state, int64_t *result);
} sp_aio_driver;

extern const sp_aio_driver sp_aio_threads;
extern const sp_aio_driver sp_aio_uring; /* not with SP_NO_URING */

#endif
