/* disk_int.h -- the disk tier: state shared by its reading and writing threads.
 *
 *   tier.c     opening and closing; the index in memory
 *   read.c     get and list, on the reading threads
 *   write.c    put and drop, on the writing thread
 *   recover.c  rebuilds the index from the segments
 *   space.c    budget, and moving copies to reclaim space, on the writing thread
 *   erase.c    overwriting the space of dropped copies, on the writing thread
 */
#ifndef SP_STORE_DISK_DISK_INT_H
#define SP_STORE_DISK_DISK_INT_H

#include "store/aio/aio.h"
#include "store/disk/tier.h"
#include "store/disk/journal_int.h"
#include "store/disk/segments_int.h"
#include "store/tier_type.h"

enum { SP_DISK_MAX_READERS = 8, SP_DISK_BATCH = 32 };

typedef struct sp_disk_tier sp_disk_tier;

typedef struct sp_disk_reader {
    sp_disk_tier *tier;
    pthread_t thread;
    sp_aio *aio;
} sp_disk_reader;

/* A put or drop that is not in the index yet. */
typedef struct sp_disk_pending {
    sp_tier_op *op; /* NULL: a copy that moves, or an eviction */
    sp_journal_line line;
    int64_t bytes; /* of a put */
} sp_disk_pending;

/* What only the writing thread uses. */
typedef struct sp_disk_writing {
    sp_op_queue queue;
    pthread_t thread;
    bool has_thread;
    sp_aio *aio;
    sp_segment_file *active; /* pinned; NULL: the next put begins one */
    bool new_segment;        /* its name is not synced yet */
    uint32_t next_segment;
    sp_disk_pending pending[SP_DISK_BATCH];
    int n_pending;
} sp_disk_writing;

struct sp_disk_tier {
    sp_tier base; /* first */
    sp_digest space;
    int64_t max_bytes, reserve_bytes;
    uint64_t segment_pages;
    sp_tier_evict evict;
    char *folder;      /* of the namespace */
    int lock_fd;       /* -1: another process writes */
    bool is_absent; /* there is no folder of this namespace, and none can be made */
    char refused[160]; /* why this one does not */

    /* -- under lock, held for look-ups in memory only */
    pthread_mutex_t lock;
    sp_table table;
    sp_segments segments;
    sp_tier_stats stats; /* counters; sizes are computed */
    bool used;           /* the order of use differs from that of the journal's lines */

    /* -- under journal_lock, which is taken before lock */
    pthread_mutex_t journal_lock;
    sp_journal journal;

    sp_disk_writing writing;

    sp_op_queue reads;
    sp_disk_reader readers[SP_DISK_MAX_READERS];
    int n_readers;
};

/* -- the index; lock is held --------------------------------------------------------------- */

/* sp_disk_apply -- applies a journal line. Errors: SP_E_NOMEM, and nothing has changed. */
sp_err sp_disk_apply(sp_disk_tier *d, const sp_journal_line *line) SP_MUST_CHECK;
void sp_disk_forget(sp_disk_tier *d, uint32_t entry);
sp_tier_info sp_disk_info_of(const sp_tier_key *key, const sp_disk_place *place);

/* sp_disk_recover -- rebuilds a lost index from the segments, while the tier opens. Dropped copies whose space was
 * not reclaimed yet come back. Errors: SP_E_IO, SP_E_NOMEM. */
sp_err sp_disk_recover(sp_disk_tier *d) SP_MUST_CHECK;
/* sp_disk_exchange -- renames a segment file that has the name of the index. If a file with a segment's name is the
 * index, the two exchange names (*index_is_back); otherwise the segment gets a new name. */
sp_err sp_disk_exchange(sp_disk_tier *d, bool *index_is_back) SP_MUST_CHECK;

/* -- threads -------------------------------------------------------------------------------- */

void *sp_disk_read_thread(void *reader);
void *sp_disk_write_thread(void *tier);
/* sp_disk_refresh -- for a process that reads: applies what the writer has written since. */
sp_err sp_disk_refresh(sp_disk_tier *d) SP_MUST_CHECK;
/* sp_disk_quarantine -- the copy at this place is damaged: no process finds it again. */
void sp_disk_quarantine(sp_disk_tier *d, const sp_tier_key *key, const sp_disk_place *place);

/* -- writing -------------------------------------------------------------------------------- */

/* sp_disk_allocate -- pages at the end of the active segment, or of a new one. Errors: SP_E_IO,
 * SP_E_NOMEM. */
sp_err sp_disk_allocate(sp_disk_tier *d, uint32_t pages, sp_disk_place *out) SP_MUST_CHECK;
/* sp_disk_give_back -- frees the pages that were allocated last. */
void sp_disk_give_back(sp_disk_tier *d, const sp_disk_place *place);
/* sp_disk_commit -- I1: syncs, adds to the index and acknowledges everything pending. On an error all pending
 * operations have ended with it. */
sp_err sp_disk_commit(sp_disk_tier *d) SP_MUST_CHECK;
/* sp_disk_add_pending -- commits when the list is full. Pre: room for one. */
void sp_disk_add_pending(sp_disk_tier *d, const sp_disk_pending *p);
/* sp_disk_leave_segment -- commits; the next put begins a new segment. */
void sp_disk_leave_segment(sp_disk_tier *d);

/* -- space ---------------------------------------------------------------------------------- */

/* sp_disk_make_room -- drops copies and reclaims space until `bytes` more fit into `max` (0: no limit). Errors:
 * SP_E_LIMIT, SP_E_IO, SP_E_NOMEM. */
sp_err sp_disk_make_room(sp_disk_tier *d, uint64_t max, uint64_t bytes) SP_MUST_CHECK;
/* sp_disk_check_reserve -- a put must not fill the disk for others. Errors: SP_E_LIMIT, SP_E_IO. */
sp_err sp_disk_check_reserve(const sp_disk_tier *d, uint64_t bytes) SP_MUST_CHECK;
/* sp_disk_tidy -- one step of reclaiming space, if half of some segment is dead; false: nothing to do. */
bool sp_disk_tidy(sp_disk_tier *d);

/* sp_disk_shorten_index -- rewrites the index without history, if most of it is history or with `always`. Errors:
 * SP_E_IO, SP_E_NOMEM. */
sp_err sp_disk_shorten_index(sp_disk_tier *d, bool always) SP_MUST_CHECK;
/* sp_disk_erase -- commits, then overwrites all space without copies. Errors: SP_E_IO, SP_E_NOMEM, after trying all
 * segments. */
sp_err sp_disk_erase(sp_disk_tier *d) SP_MUST_CHECK;

#endif
