/* pages.h -- a file of KV records, read at random during decoding.
 *
 *   record   keys, then values, of one KV head in one block and layer: what a sparse step reads
 *   file     record i at i * stride; stride = its bytes, rounded up to what direct I/O can address
 *            (512 bytes or a page). The file has no name and ends with the process.
 *
 *   caller                      ring                     transfer thread
 *     fetch (record, to) -----> [ ][ ][ ][ ] ----------> reads that overlap (store/aio)
 *     waits for the group <---- counters <-------------- bytes are at `to`
 *
 * Each record has a checksum in memory (XXH3, 64 bits), computed when it is written. Bytes that do not
 * match it are a failed read: damage, a lost write, or another record's bytes.
 *
 * While fetches arrive, and for SP_PAGES_POLL_US after the last, the thread polls the ring between short sleeps,
 * so that a decoding step makes no system calls for them; then it sleeps until the next one.
 *
 * Thread: fetch from one thread at a time; read and write from any. */
#ifndef SP_STORE_AIO_PAGES_H
#define SP_STORE_AIO_PAGES_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

#define SP_PAGES_POLL_US 200000

typedef struct sp_pages sp_pages;

typedef struct sp_pages_opts {
    const char *dir; /* the folder whose disk is used */
    const char *io;  /* as sp_aio_open: "uring", "threads"; NULL: the best */
    size_t record_bytes;
    int64_t n_records;
} sp_pages_opts;

/* sp_pages_open -- Errors: SP_E_IO names the folder; SP_E_NOMEM. */
sp_err sp_pages_open(const sp_pages_opts *o, sp_pages **out) SP_MUST_CHECK;
/* sp_pages_close -- Pre: no fetch is in flight. NULL is allowed. */
void sp_pages_close(sp_pages *p);

/* Consecutive records, and where they are in memory: rows of n_cols, row_bytes apart. */
typedef struct sp_pages_run {
    int64_t first;
    int64_t n_rows;
    int n_cols;
    size_t row_bytes;
    uint8_t *at;
} sp_pages_run;

/* sp_pages_write, sp_pages_read -- transfers a run; a failed read is repeated once. Errors: SP_E_IO names the
 * folder, and the record if it is damaged. */
sp_err sp_pages_write(sp_pages *p, const sp_pages_run *run) SP_MUST_CHECK;
sp_err sp_pages_read(sp_pages *p, const sp_pages_run *run) SP_MUST_CHECK;

/* Fetches to wait for together. */
typedef struct sp_pages_group {
    _Atomic int32_t n_left, n_failed;
} sp_pages_group;

/* sp_pages_fetch -- starts to read a record to `to`; waits while the ring is full. The group must stay valid
 * until its n_left is 0. */
void sp_pages_fetch(sp_pages *p, int64_t record, uint8_t *to, sp_pages_group *group);
/* sp_pages_is_full -- whether the next fetch would wait. */
bool sp_pages_is_full(const sp_pages *p);
/* sp_pages_wait -- waits for all fetches of the group. Returns how many failed, and resets that number. */
int32_t sp_pages_wait(sp_pages *p, sp_pages_group *group);

/* sp_pages_n_damaged -- reads whose bytes did not match their checksum. Thread: any. */
int64_t sp_pages_n_damaged(const sp_pages *p);
/* sp_pages_sum_bytes -- memory of the checksum of a record. */
static inline size_t sp_pages_sum_bytes(void)
{
    return sizeof(uint64_t);
}

size_t sp_pages_stride(const sp_pages *p);

#endif
