/* tier.h -- the disk tier: copies of one namespace in a folder of segments.
 *
 *   DIR/<namespace>/index          which copies are where (journal.c)
 *                   0000002a.kv    a segment: page-aligned records (record.c)
 *                   lock           held by the one process that writes
 *
 *            source: written, synced            a line in the index, synced
 *   put ---------------------------> in a segment ---------------------> a copy, acknowledged
 *                                       |                                     |  dropped, replaced,
 *             crash: not in the index; overwritten                            v  damaged
 *                                                                        dead space
 *   A segment with much dead space: its copies move to the newest segment, then its file is deleted.
 *
 * Invariants
 *  I1  a line of the index is written only after the record is synced; a put is acknowledged only after
 *      its line is.
 *  I2  bytes of a segment that the index names are not overwritten while it names them. A reader with an
 *      old index may find other bytes there, or no file: the checksum fails, and it reads the index
 *      again and retries once.
 *  I3  segment files take at most max_bytes in all, except while copies of one segment move.
 *  I4  one process writes at a time (a lock that ends with the process). All others read, and see its
 *      puts; their own puts and drops fail with an error that names it.
 *
 * The order of use and counts are saved when the writer closes, by rewriting the index.
 * Reads and writes overlap (store/aio/aio.h) on their own threads: a read never waits for a write. */
#ifndef SP_STORE_DISK_TIER_H
#define SP_STORE_DISK_TIER_H

#include "store/tier.h"

typedef struct sp_disk_tier_opts {
    const char *dir;        /* created if missing */
    const sp_digest *space; /* a hash of everything that separates copies: model, KV type, layout */
    int64_t max_bytes;      /* I3; 0: none */
    int64_t
        reserve_bytes; /* bytes of the file system that a put leaves free; 0: 1 GiB, or 5 % if that is less;
                          negative: none */
    int64_t segment_bytes; /* of a new segment; 0: 256 MiB, less for a small budget */
    const char *io;        /* "uring", "threads"; NULL: io_uring where it is allowed */
    int n_readers;         /* threads that read; 0: 2 */
    bool read_only;        /* never becomes the writer, creates nothing */
    bool must_write;       /* opening fails while another process writes */
    sp_tier_evict evict;
} sp_disk_tier_opts;

/* sp_disk_tier_open -- Errors: SP_E_IO names the file; SP_E_UNSUPPORTED (an index of a later version);
 * SP_E_NOTFOUND (read_only, and there is no store); SP_E_NOMEM. If another process writes, the tier
 * opens for reading and logs that, or, with must_write, fails with SP_E_IO naming the process. */
sp_err sp_disk_tier_open(const sp_disk_tier_opts *o, sp_tier **out) SP_MUST_CHECK;
/* sp_disk_tier_io -- "uring" or "threads". */
const char *sp_disk_tier_io(sp_tier *t);

#endif
