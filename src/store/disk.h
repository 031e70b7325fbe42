/* disk.h -- chunk copies in the disk tier, from and into blocks of a pool. Calls wait for the tier, which
 * reads and writes on its own threads (store/disk_tier.h: format, crashes, several processes).
 *
 * What is served was verified: find checks the header of a copy, load all of it. A damaged copy is a
 * miss with one log line, and is not found again, so whoever fills the store sees that it is missing.
 *
 * One process writes a store at a time. Others read it and see what is put; their puts fail and say why.
 * Thread: one owner.
 */
#ifndef SP_STORE_DISK_H
#define SP_STORE_DISK_H

#include "kv/pool.h"
#include "kv/segment.h"
#include "store/tier.h"

typedef struct sp_disk sp_disk;

typedef enum sp_disk_kind {
    SP_DISK_PLAIN, /* computed after the head alone */
    SP_DISK_FUSED, /* computed after the head and similar chunks */
    SP_DISK_PATH,  /* computed after its whole path: that takes the place of the head */
} sp_disk_kind;

/* Which copy of which chunk. One of each kind is kept for each head. */
typedef struct sp_disk_key {
    sp_disk_kind kind;
    const sp_segment *seg; /* id and tokens: the name discovers, the tokens verify */
    const sp_digest *head; /* [n_head] segments before the first chunk */
    int n_head;
} sp_disk_key;

/* What is stored of a copy, beside keys and values. */
typedef struct sp_disk_copy {
    const sp_digest *before; /* [n_before] segments in sight when it was computed: the head first */
    int n_before;
    int32_t at;           /* position that its first key was rotated for */
    bool exact;           /* equals a plain forward pass after `before` */
    float cost_us;        /* time that computing it took; 0: unknown */
    const float *inter;   /* [n_before] attention to each of `before`; NULL: not measured */
    const int32_t *order; /* [n] tokens by falling attention outwards; with inter */
    float cci;            /* with inter */
    const int32_t *heavy; /* [n] tokens by falling attention received; NULL: not measured */
    int32_t slot;         /* put: of the first token in blocks[0]; what is written begins a block */
} sp_disk_copy;

/* sp_disk_copy_own -- the same with arrays of its own, in one allocation *memory; n: tokens. Errors:
 * SP_E_NOMEM. */
sp_err sp_disk_copy_own(const sp_disk_copy *c, int32_t n, sp_disk_copy *out,
                        void **memory) SP_MUST_CHECK;

typedef struct sp_disk_opts {
    const char *dir;        /* created if need be */
    const sp_digest *space; /* whatever must keep copies apart: model, KV type, layout */
    sp_kv_pool *pool;       /* borrowed: copies have its shape */
    int64_t max_bytes; /* of all copies in the folder; 0: what it holds and half of what is free */
    int64_t reserve_bytes; /* sp_disk_tier_opts */
    sp_tier_evict evict;
} sp_disk_opts;

/* sp_disk_open -- the copies of one namespace. Errors: SP_E_IO names the folder; SP_E_LIMIT (other
 * namespaces fill the budget), SP_E_NOMEM. */
sp_err sp_disk_open(const sp_disk_opts *o, sp_disk **out) SP_MUST_CHECK;
void sp_disk_close(sp_disk *d);

/* sp_disk_each -- calls fn for every copy that is known; its first error ends the walk. */
typedef struct sp_disk_found {
    sp_digest id;
    sp_disk_kind kind;
    uint64_t head;  /* sp_head_key of the segments before the first chunk, or of the path */
    unsigned facts; /* set of sp_tier_fact */
    int64_t n_uses; /* since it was put */
    float cost_us;
} sp_disk_found;
typedef sp_err sp_disk_each_fn(const sp_disk_found *copy, void *user);
sp_err sp_disk_each(sp_disk *d, sp_disk_each_fn *fn, void *user) SP_MUST_CHECK;

/* sp_disk_put -- writes a copy, in place of an older one under this key. blocks [ceil((slot + n) / B)].
 * Errors: SP_E_IO names the file, SP_E_NOMEM, SP_E_ARG when `before` does not begin with the head;
 * then the older copy is still there, and nothing else. */
sp_err sp_disk_put(sp_disk *d, const sp_disk_key *key, const sp_disk_copy *copy,
                   const uint32_t *blocks) SP_MUST_CHECK;

/* sp_disk_n_read -- layers that puts have read from the pool: it rises while a put advances. Thread: any. */
int64_t sp_disk_n_read(const sp_disk *d);
/* sp_disk_bytes_of -- what a copy of n tokens with n_before segments before it takes in the tier, with
 * its statistics. */
int64_t sp_disk_bytes_of(const sp_kv_pool *pool, int32_t n, int n_before);
/* sp_disk_has -- a copy of this name is there, as far as is known. Cost: no system call. */
bool sp_disk_has(sp_disk *d, const sp_disk_key *key);
/* sp_disk_find -- the header of a copy; false is a miss. The arrays of *out are valid until the next
 * call with d. Cost: one read. */
bool sp_disk_find(sp_disk *d, const sp_disk_key *key, sp_disk_copy *out);
/* sp_disk_load -- keys and values into open blocks [ceil(n / B)] of the caller; false is a miss,
 * and the blocks then hold anything. out as with find, may be NULL. Cost: one read. */
bool sp_disk_load(sp_disk *d, const sp_disk_key *key, const uint32_t *blocks, sp_disk_copy *out);

/* sp_disk_has_elsewhere -- the same folder holds a copy of a chunk after this head, under the same salt,
 * for another model or KV type whose tokens are the same. For reporting only; never loaded. Thread: any;
 * it reads only what open has found. Cost: for each namespace that had copies at open (64 at most), the
 * hash of these tokens. */
bool sp_disk_has_elsewhere(const sp_disk *d, const sp_segment *seg, const sp_segment *head,
                           int n_head, const char *salt);

/* sp_disk_remove -- deletes a copy; one that is not there is fine. */
sp_err sp_disk_remove(sp_disk *d, const sp_disk_key *key) SP_MUST_CHECK;
/* sp_disk_retain -- deletes all plain and fused copies of chunks that `keep` does not want, and path copies
 * that contain one of these. Errors: SP_E_IO, after trying them all. */
typedef bool sp_disk_keep_fn(const sp_digest *id, void *user);
sp_err sp_disk_retain(sp_disk *d, sp_disk_keep_fn *keep, void *user,
                      int64_t *n_removed) SP_MUST_CHECK;

typedef struct sp_disk_stats {
    int64_t n_copies;                  /* known */
    int64_t n_loaded, n_put, n_failed; /* since open */
    int64_t bytes_read, bytes_written;
} sp_disk_stats;

sp_disk_stats sp_disk_stats_of(sp_disk *d);
/* sp_disk_tier_of -- the tier itself: export, import, statistics. */
sp_tier *sp_disk_tier_of(sp_disk *d);

#endif
