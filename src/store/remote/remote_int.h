/* remote_int.h -- the remote tier: state shared by its threads.
 *
 *   tier.c  opening and closing; the index; what others say, on the listener; drops and lists, on the writing thread
 *   put.c   put, on the writing thread
 *   get.c   get, on the reading thread
 */
#ifndef SP_STORE_REMOTE_REMOTE_INT_H
#define SP_STORE_REMOTE_REMOTE_INT_H

#include "store/remote/form.h"
#include "store/remote/link.h"
#include "store/remote/notice.h"
#include "store/remote/seal.h"
#include "store/remote/tier.h"
#include "store/table.h"
#include "store/tier_type.h"

enum {
    SP_REMOTE_FIELD = 12,
    SP_REMOTE_EXPIRY_BYTES = 8, /* after a header: seconds since 1970, little-endian */
    SP_REMOTE_DOUBTFUL = 0x40,  /* one of an entry's facts: the copy is not used; if it is there, a sweep drops it */
};

/* The store, as one thread of the tier sees it. */
typedef struct sp_remote_line {
    sp_remote_link *link; /* NULL: not connected */
    int64_t n_failed;     /* of the tier, when it was connected: after a later failure it is not used again */
} sp_remote_line;

typedef struct sp_remote_tier {
    sp_tier base; /* first */
    const sp_remote_kind *kind;
    sp_remote_site site;
    char *url, *ca_file; /* of it */
    sp_remote_seal seal;
    sp_remote_form form;
    bool must;
    sp_op_queue gets, others; /* a get does not wait for a put */
    struct {
        pthread_t reader, writer, listener;
        int n; /* of these, in this order */
    } threads;
    atomic_bool stop, some_news, taking;
    sp_remote_line in, out; /* the reader's and the writer's */
    atomic_bool up;           /* tier.h I3 */
    _Atomic int64_t n_failed; /* how often it has ceased to be */

    pthread_mutex_t lock; /* of the following */
    sp_table table;
    uint32_t first;             /* of the table's one list */
    SP_VEC(sp_tier_info) fresh; /* news for sp_tier_news */
    sp_tier_stats stats;
    struct {
        pthread_cond_t changed;
        int64_t n;  /* how often the listener has tried to read the index */
        sp_err err; /* of the last time */
        char detail[256];
    } heard;
} sp_remote_tier;

/* sp_remote_learn -- notes that the store has a copy; tell: the engine is notified. Errors: SP_E_NOMEM, since a
 * deletion is to find every copy. Pre: the lock. */
sp_err sp_remote_learn(sp_remote_tier *t, const sp_remote_notice *n, bool tell) SP_MUST_CHECK;
/* sp_remote_forget -- one that the store does not have. Pre: the lock. */
void sp_remote_forget(sp_remote_tier *t, const sp_tier_key *key);
/* sp_remote_find -- the entry of a copy that may be used, or SP_NO_ENTRY. Pre: the lock. */
uint32_t sp_remote_find(const sp_remote_tier *t, const sp_tier_key *key);
/* sp_remote_doubt -- one that cannot be read, and may still be there. Pre: the lock. */
void sp_remote_doubt(sp_remote_tier *t, const sp_tier_key *key);

/* sp_remote_connect -- Errors: SP_E_IO at once while the store is lost (tier.h I3). */
sp_err sp_remote_connect(sp_remote_tier *t, sp_remote_line *l) SP_MUST_CHECK;
/* sp_remote_fail_line -- after a failure: one warning for each time that the store is lost. */
void sp_remote_fail_line(sp_remote_tier *t, sp_remote_line *l);

/* Sizes of a copy: of all its layers; of a layer and its notes; of its parts as they are stored. */
int64_t sp_remote_bytes(const sp_remote_notice *n);
uint64_t sp_remote_stride(const sp_record *r);
sp_remote_shape sp_remote_shape_of(const sp_remote_tier *t, uint64_t head, uint64_t stride, int n_layers, bool varies);
/* sp_remote_field -- the name of a part in its seal. */
void sp_remote_field(int part, char out[SP_REMOTE_FIELD]);

/* sp_remote_put -- one operation. Thread: the writer. */
sp_err sp_remote_put(sp_remote_tier *t, const sp_tier_op *op) SP_MUST_CHECK;
/* sp_remote_read -- the reading thread: until the queue of gets is closed. */
void *sp_remote_read(void *tier);

#endif
