/* device.h -- a device runs operations and owns the memory that they work on.
 *
 * The KV pool, weights and the engine's activations are *device memory*. It is obtained from a
 * device, named by pointers that may be offset like any other, and passed to operations in the
 * argument structs of ops.h. On a GPU the host cannot follow such a pointer; on the CPU it can, but
 * still must not unless it has checked `unified`. The tests enforce this:
 * they run the exactness suite on a device whose memory the host cannot reach
 * (tests/support/far_device.h).
 *
 *   host                                      device
 *     todo list, rows        -- mirror push ->  ids, positions, slots
 *     weights in a file      -- load -------->  matrices in the layout of its kernels
 *                                               sp_device_matmul, sp_device_attend, ...
 *     mass, columns, logits  <- mirror pull --  activations
 *     files of the KV store  <- copy out/in ->  blocks of the KV pool
 *
 * Who may touch device memory, and when
 *  I1  The device, while it runs an operation or a copy. Nobody else: the host reads and writes
 *      through copies, or through a mirror's host side.
 *  I2  Operations and copies take effect in the order of the calls. A call may return before its
 *      work is done; what it wrote is on the host after the event of the copy out.
 *  I3  The host side of a copy belongs to the copy until its event: what is copied in must not be
 *      changed, what is copied out must not be read.
 *  I4  A copy onto itself does nothing. On a unified device both sides of a mirror are the same
 *      memory, so pushing and pulling cost nothing there.
 *  I5  Descriptors (ops.h) are host memory; the device reads them before the call returns.
 *
 * Events. A copy returns an event, a number in the order of the calls; 0 is always complete.
 * sp_device_wait(event) returns when everything up to it is done, with the device's first error
 * since the last wait: operations themselves return none. sp_device_synchronise waits for all.
 *
 * Thread: operations, reserve and load from one thread at a time. Copies from any thread.
 *
 * To add a device: a file compute/<name>.c (kernels in compute/<name>/) with a struct that begins
 * with sp_device, the calls of sp_device_calls, and a line in the table of device.c. `run` is a
 * switch over sp_op that launches the kernel for an argument struct; `reserve` sizes the scratch of
 * those kernels, so that a step allocates nothing; weight_bytes and weight_load choose the layout of
 * matrices. Add it to the devices of tests/support/tiny_model.h, and the exactness suite covers it.
 */
#ifndef SP_COMPUTE_DEVICE_H
#define SP_COMPUTE_DEVICE_H

#include "compute/ops.h"
#include "compute/summary.h"

typedef struct sp_device sp_device;

typedef struct sp_event {
    uint64_t n; /* 0: complete */
} sp_event;

/* The operations: each takes the struct sp_<name>_args of ops.h or summary.h. */
typedef enum sp_op {
    SP_OP_EMBED,
    SP_OP_RMSNORM,
    SP_OP_LAYERNORM,
    SP_OP_ACT_MUL,
    SP_OP_BLEND,
    SP_OP_TAKE,
    SP_OP_SPREAD,
    SP_OP_PRODUCTS,
    SP_OP_GATHER,
    SP_OP_KV_STORE,
    SP_OP_KV_COPY,
    SP_OP_KV_DIFFER,
    SP_OP_ATTEND,
    SP_OP_COLUMNS,
    SP_OP_SUMMARIZE,
    SP_OP_PICK
} sp_op;

/* What a matrix is for: products with it, or rows taken from it (an embedding). */
typedef enum sp_weight_use { SP_WEIGHT_PRODUCTS, SP_WEIGHT_ROWS } sp_weight_use;

/* The largest operations to come, for which the device reserves scratch. 0: none of that kind. */
typedef struct sp_step_sizes {
    int64_t rows, width;           /* products: rows of x, and the columns of the widest matrix */
    int n_heads, n_kv_heads, head; /* attention: H, G, D */
    int n_spans;                   /* spans of a request */
    int64_t column_rows;           /* queries of one sp_columns_args */
    size_t pick_floats;            /* sp_pick_scratch of all requests of a step together */
} sp_step_sizes;

/* What a device implements. Calls that return nothing keep their error for `wait`. */
typedef struct sp_device_calls {
    void (*close)(sp_device *d);
    /* zeroed, aligned to a cache line; NULL: out of memory */
    void *(*alloc)(sp_device *d, size_t n_bytes);
    void (*free)(sp_device *d, void *p, size_t n_bytes);
    sp_event (*copy_in)(sp_device *d, void *to, const void *from, size_t n_bytes);
    sp_event (*copy_out)(sp_device *d, void *to, const void *from, size_t n_bytes);
    sp_err (*wait)(sp_device *d, sp_event e);
    bool (*done)(sp_device *d, sp_event e);
    size_t (*weight_bytes)(sp_device *d, const sp_mat *w, sp_weight_use use);
    void (*weight_load)(sp_device *d, sp_mat *w, sp_weight_use use, void *to);
    /* NULL where device memory is not the host's */
    void (*weight_adopt)(sp_device *d, sp_mat *w, sp_weight_use use, const void *loaded);
    sp_err (*reserve)(sp_device *d, const sp_step_sizes *sizes);
    void (*run)(sp_device *d, sp_op op, const void *args);
} sp_device_calls;

struct sp_device {
    const char *name;    /* "cpu" */
    const char *kernels; /* which of its kernels run: "avx2" */
    int n_threads;       /* of the host that compute for it */
    bool exact_products; /* see sp_machine_opts */
    bool unified;        /* the host can access its memory */
    const sp_device_calls *calls;
};

typedef struct sp_device_opts {
    const char *kernels; /* the device's kernels to use, by name; NULL: the best */
    int n_threads;       /* 0: one for each core */
    bool exact_products, amx_f16, amx_attend; /* see sp_machine_opts */
} sp_device_opts;

/* sp_device_open -- name: "cpu", or NULL for it. Errors: SP_E_ARG for an unknown device or kernels,
 * SP_E_UNSUPPORTED when the machine lacks them, SP_E_NOMEM. Owns: close it after everything that
 * holds memory of it. */
sp_err sp_device_open(const char *name, const sp_device_opts *o, sp_device **out) SP_MUST_CHECK;
void sp_device_close(sp_device *d);

/* -- memory --------------------------------------------------------------------------------- */

/* A piece of device memory. A zeroed struct holds none. */
typedef struct sp_mem {
    void *p;
    size_t n_bytes;
    sp_device *device;
} sp_mem;

/* sp_mem_alloc -- n_bytes, zeroed, aligned to a cache line; large pieces cost memory once touched.
 * `what` names their purpose in the message of SP_E_NOMEM. n_bytes = 0 allocates nothing. */
sp_err sp_mem_alloc(sp_device *d, size_t n_bytes, const char *what, sp_mem *out) SP_MUST_CHECK;
void sp_mem_free(sp_mem *m);
/* sp_mem_grow -- to at least n_bytes; the content is lost. On failure nothing changes. */
sp_err sp_mem_grow(sp_device *d, size_t n_bytes, const char *what, sp_mem *m) SP_MUST_CHECK;

/* Memory that exists on both sides: the host writes and pushes, or pulls and reads. */
typedef struct sp_mirror {
    void *host, *dev; /* equal on a unified device */
    sp_mem mem;
    sp_event pushed; /* the host side may be written after it */
} sp_mirror;

sp_err sp_mirror_alloc(sp_device *d, size_t n_bytes, const char *what,
                       sp_mirror *out) SP_MUST_CHECK;
void sp_mirror_free(sp_mirror *m);
/* sp_mirror_grow -- as sp_mem_grow. */
sp_err sp_mirror_grow(sp_device *d, size_t n_bytes, const char *what, sp_mirror *m) SP_MUST_CHECK;
/* sp_mirror_push -- copies the first n_bytes to the device. The host may write them again after
 * sp_mirror_settle. */
void sp_mirror_push(sp_mirror *m, size_t n_bytes);
sp_err sp_mirror_settle(sp_mirror *m) SP_MUST_CHECK;
/* sp_mirror_pull -- copies the first n_bytes to the host and waits for them. */
sp_err sp_mirror_pull(sp_mirror *m, size_t n_bytes) SP_MUST_CHECK;

/* -- copies and events ---------------------------------------------------------------------- */

static inline sp_event sp_device_copy_in(sp_device *d, void *to, const void *from, size_t n_bytes)
{
    return to == from ? (sp_event){0} : d->calls->copy_in(d, to, from, n_bytes);
}

static inline sp_event sp_device_copy_out(sp_device *d, void *to, const void *from, size_t n_bytes)
{
    return to == from ? (sp_event){0} : d->calls->copy_out(d, to, from, n_bytes);
}

/* sp_device_wait -- Errors: the first one since the last wait, from any operation or copy. */
static inline sp_err SP_MUST_CHECK sp_device_wait(sp_device *d, sp_event e)
{
    return e.n ? d->calls->wait(d, e) : SP_OK;
}

static inline bool sp_device_done(sp_device *d, sp_event e)
{
    return e.n == 0 || d->calls->done(d, e);
}

/* sp_device_synchronise -- waits for everything. Errors: as wait. */
static inline sp_err SP_MUST_CHECK sp_device_synchronise(sp_device *d)
{
    return d->calls->wait(d, (sp_event){UINT64_MAX});
}

/* -- weights -------------------------------------------------------------------------------- */

/* sp_device_weight_bytes -- device memory that a matrix needs, whole cache lines; 0 when the device
 * reads it in place. */
static inline size_t sp_device_weight_bytes(sp_device *d, const sp_mat *w, sp_weight_use use)
{
    return d->calls->weight_bytes(d, w, use);
}

/* sp_device_weight_load -- lays the matrix out in `to` [weight_bytes] from w->data, which is host
 * memory, and sets w->packed or w->data to it. Done when it returns. Pre: weight_bytes > 0. */
static inline void sp_device_weight_load(sp_device *d, sp_mat *w, sp_weight_use use, void *to)
{
    d->calls->weight_load(d, w, use, to);
}

/* sp_device_weight_adopt -- uses the bytes that weight_load wrote for an equal matrix in place: memory
 * mapped by the host, aligned to a cache line. Pre: weight_bytes > 0, sp_device_adopts. */
static inline void sp_device_weight_adopt(sp_device *d, sp_mat *w, sp_weight_use use,
                                          const void *loaded)
{
    d->calls->weight_adopt(d, w, use, loaded);
}

static inline bool sp_device_adopts(const sp_device *d)
{
    return d->unified && d->calls->weight_adopt;
}

/* -- operations ----------------------------------------------------------------------------- */

/* sp_device_reserve -- grows the device's scratch to these sizes; operations within them allocate
 * nothing. Errors: SP_E_NOMEM. */
static inline sp_err SP_MUST_CHECK sp_device_reserve(sp_device *d, const sp_step_sizes *sizes)
{
    return d->calls->reserve(d, sizes);
}

#define SP_DEVICE_OP(name, op)                                                                     \
    static inline void sp_device_##name(sp_device *d, const sp_##name##_args *a)                   \
    {                                                                                              \
        d->calls->run(d, op, a);                                                                   \
    }

SP_DEVICE_OP(embed, SP_OP_EMBED)
SP_DEVICE_OP(rmsnorm, SP_OP_RMSNORM)
SP_DEVICE_OP(layernorm, SP_OP_LAYERNORM)
SP_DEVICE_OP(act_mul, SP_OP_ACT_MUL)
SP_DEVICE_OP(blend, SP_OP_BLEND)
SP_DEVICE_OP(take, SP_OP_TAKE)
SP_DEVICE_OP(spread, SP_OP_SPREAD)
SP_DEVICE_OP(products, SP_OP_PRODUCTS)
SP_DEVICE_OP(gather, SP_OP_GATHER)
SP_DEVICE_OP(kv_store, SP_OP_KV_STORE)
SP_DEVICE_OP(kv_copy, SP_OP_KV_COPY)
SP_DEVICE_OP(kv_differ, SP_OP_KV_DIFFER)
SP_DEVICE_OP(attend, SP_OP_ATTEND)
SP_DEVICE_OP(columns, SP_OP_COLUMNS)
SP_DEVICE_OP(summarize, SP_OP_SUMMARIZE)
SP_DEVICE_OP(pick, SP_OP_PICK)

#undef SP_DEVICE_OP

#endif
