/* aio.h -- overlapping reads and writes of files, from one arena of aligned memory.
 *
 *   uring     io_uring with the arena as a registered buffer
 *   threads   pread and pwrite on a few threads, where io_uring is not allowed (many containers)
 *             or not in this build (SP_NO_URING)
 *
 * Thread: one owner. */
#ifndef SP_STORE_AIO_AIO_H
#define SP_STORE_AIO_AIO_H

#include "base/mem.h"

enum {
    SP_AIO_MAX_FLIGHT = 32,      /* pieces in flight */
    SP_AIO_PIECE_BYTES = 1 << 19 /* larger transfers are cut into such pieces */
};

typedef struct sp_aio sp_aio;

/* A transfer of whole pages; must stay valid until sp_aio_wait returns it. */
typedef struct sp_aio_piece {
    int fd;
    bool write, flips;   /* flips: for tests; private */
    uint64_t offset;     /* in the file */
    uint8_t *data;       /* in the arena */
    uint32_t n;          /* bytes */
    uint32_t tag;        /* for the caller */
    int error;           /* out: 0, or an errno; ENODATA: the file is too short */
    uint32_t done, part; /* bytes transferred, and in flight; private */
} sp_aio_piece;

/* sp_aio_open -- kind: "uring", "threads"; NULL or "auto": io_uring if the system allows it. Errors:
 * SP_E_UNSUPPORTED (no io_uring), SP_E_ARG, SP_E_NOMEM. */
sp_err sp_aio_open(const char *kind, sp_aio **out) SP_MUST_CHECK;
void sp_aio_close(sp_aio *a);
const char *sp_aio_kind(const sp_aio *a);

/* sp_aio_arena -- at least n_bytes, aligned to pages; the old content is lost. Pre: nothing is in
 * flight. Errors: SP_E_NOMEM, and the old arena remains. */
sp_err sp_aio_arena(sp_aio *a, size_t n_bytes, uint8_t **out) SP_MUST_CHECK;

/* sp_aio_submit -- Pre: at most SP_AIO_MAX_FLIGHT in flight, this one included. */
void sp_aio_submit(sp_aio *a, sp_aio_piece *p);
/* sp_aio_wait -- waits for the next finished piece; NULL: none is in flight. */
sp_aio_piece *sp_aio_wait(sp_aio *a);

#endif
