/* tier_type.h -- what each tier implements, and the threads that run its operations. */
#ifndef SP_STORE_TIER_TYPE_H
#define SP_STORE_TIER_TYPE_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/tier.h"

/* Operations that wait, urgent ones first, otherwise in order. */
typedef struct sp_op_list {
    sp_tier_op *first, *last;
} sp_op_list;

typedef struct sp_op_queue {
    pthread_mutex_t lock;
    pthread_cond_t some;
    sp_op_list urgent, others;
    bool closing; /* no further operations */
} sp_op_queue;

struct sp_tier_op {
    sp_tier_job job;
    atomic_int refs; /* the tier's and the submitter's */
    atomic_bool cancelled, withdrawn; /* withdrawn: also while it runs */
    bool is_done; /* under lock, as is the result */
    pthread_mutex_t lock;
    pthread_cond_t done;
    sp_err err;
    char detail[256];
    sp_op_queue *queue; /* where it waits, or waited */
    sp_tier_op *next;
};

/* The functions of a tier. */
typedef struct sp_tier_type {
    const char *name;
    sp_op_queue *(*queue_of)(sp_tier *t, sp_tier_verb verb); /* the queue for this verb */
    /* Runs an operation on the caller's thread, bypassing the queue; NULL: not supported. */
    sp_err (*run)(sp_tier *t, const sp_tier_op *op);
    bool (*knows)(sp_tier *t, const sp_tier_key *key);
    bool (*answers)(sp_tier *t);   /* NULL: always */
    bool (*takes)(sp_tier *t);     /* NULL: never */
    bool (*is_writer)(sp_tier *t); /* NULL: always */
    /* NULL: only this process puts copies there */
    sp_err (*news)(sp_tier *t, sp_err (*each)(void *user, const sp_tier_info *info), void *user);
    void (*use)(sp_tier *t, const sp_tier_key *key, bool counts); /* NULL: uses do not matter */
    sp_tier_stats (*stats)(sp_tier *t);
    void (*close)(sp_tier *t);
} sp_tier_type;

struct sp_tier {
    const sp_tier_type *type;
};

sp_err sp_op_queue_init(sp_op_queue *q) SP_MUST_CHECK;
void sp_op_queue_fini(sp_op_queue *q);
/* sp_op_queue_pop -- the next operation; NULL: none waits (and, with `wait`, none will come). */
sp_tier_op *sp_op_queue_pop(sp_op_queue *q, bool wait);
/* sp_op_queue_push -- n operations, one after another. */
void sp_op_queue_push(sp_op_queue *q, sp_tier_op *const *ops, size_t n);
/* sp_op_queue_remove -- removes a waiting operation; false: it is not waiting. */
bool sp_op_queue_remove(sp_op_queue *q, sp_tier_op *op);
/* sp_op_queue_close -- wakes all waiting threads; queued operations can still be popped. */
void sp_op_queue_close(sp_op_queue *q);

bool sp_tier_op_is_cancelled(const sp_tier_op *op);
/* sp_tier_op_is_withdrawn -- cancelled, and its duration is not measured. */
bool sp_tier_op_is_withdrawn(const sp_tier_op *op);
/* sp_tier_op_begin -- called by a tier before it runs an operation. Errors: SP_E_CANCELED, SP_E_IO (its deadline has
 * passed). */
sp_err sp_tier_op_begin(const sp_tier_op *op) SP_MUST_CHECK;
/* sp_tier_op_list -- SP_TIER_LIST: passes the copies to `each`. Errors: those of `each`, SP_E_CANCELED. */
sp_err sp_tier_op_list(const sp_tier_op *op, const sp_tier_info *v, size_t n) SP_MUST_CHECK;
/* sp_tier_op_finish -- with err and, unless it is SP_OK, this thread's detail; calls `done`. */
void sp_tier_op_finish(sp_tier_op *op, sp_err err);

#endif
