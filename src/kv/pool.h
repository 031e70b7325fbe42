/* pool.h -- the pool of KV blocks, which stores every key and value.
 *
 * A block holds B = 16 tokens in all layers. Memory is ordered by layer first, so that the blocks
 * of a chunk, which are adjacent if possible, are contiguous in each layer:
 *
 *   layer 0 | block 0 | block 1 | ... | block N-1 |     one block of one layer: sp_kv_view in
 *   layer 1 | block 0 | block 1 | ... | block N-1 |     compute/ops.h (keys [G][D][B],
 *   ...                                                 values [G][B][D])
 *
 * If heads leave memory one by one (sp_kv_elsewhere, by_head), each head has its own plane in a layer:
 *
 *   layer 0 | head 0 of block 0 | of block 1 | ... | head 1 of block 0 | ...
 *
 * Outside the pool (sp_kv_pool_read, sp_kv_pool_write) the heads of a block are always contiguous.
 *
 *   free --acquire--> open --seal--> sealed            release by the last holder: back to free
 *
 * The memory is the device's: operations read and write it, and the host copies blocks out and in
 * (sp_kv_pool_read, sp_kv_pool_write).
 *
 * Invariants
 *  I1  a block is written only while open, for its only holder: by the engine, or by the load of a
 *      stored copy. A plan may hold it for several nodes of a tree, each with its own slots.
 *  I2  a sealed block never changes until it is free again; any number may hold and read it.
 *  I3  refs counts the holders; exactly the blocks with refs = 0 are free.
 *  I4  a block that is away (sp_kv_pool_let_leave) is sealed, and its bytes are in a file: they are
 *      in memory only while the engine reads them.
 */
#ifndef SP_KV_POOL_H
#define SP_KV_POOL_H

#include "compute/device.h"

typedef struct sp_kv_pool sp_kv_pool;

/* sp_blocks_for -- blocks that n tokens fill; the last may be part full. */
static inline int32_t sp_blocks_for(int32_t n_tokens)
{
    return SP_DIV_UP(n_tokens, SP_BLOCK_TOKENS);
}

typedef struct sp_kv_shape {
    int n_layers, n_heads, head; /* L, G, D */
    sp_dtype type;               /* F32, F16, BF16 or Q8_0 */
} sp_kv_shape;

/* sp_kv_shape_check -- SP_E_ARG names a size out of range, or a type that cannot hold this head
 * size. */
sp_err sp_kv_shape_check(const sp_kv_shape *shape) SP_MUST_CHECK;

/* sp_kv_block_bytes -- one block in all layers. Pre: a shape that passes the check. */
size_t sp_kv_block_bytes(const sp_kv_shape *shape);

/* sp_kv_pool_create -- a pool of n_blocks blocks on a device, which must outlive it; memory is
 * touched as blocks are first written. device NULL: a pool without memory, whose blocks are only
 * counted, for simulation. Errors: SP_E_ARG (type cannot hold this head size),
 * SP_E_NOMEM. */
sp_err sp_kv_pool_create(sp_device *device, const sp_kv_shape *shape, int64_t n_blocks,
                         sp_kv_pool **out) SP_MUST_CHECK;
void sp_kv_pool_destroy(sp_kv_pool *p);

const sp_kv_shape *sp_kv_pool_shape(const sp_kv_pool *p);
sp_device *sp_kv_pool_device(const sp_kv_pool *p);
int64_t sp_kv_pool_n_blocks(const sp_kv_pool *p);
int64_t sp_kv_pool_n_free(const sp_kv_pool *p);

/* sp_kv_pool_layer -- the view that operations use; its base is device memory. */
sp_kv_view sp_kv_pool_layer(const sp_kv_pool *p, int layer);
/* sp_kv_pool_layer_block_bytes -- one block in one layer. */
size_t sp_kv_pool_layer_block_bytes(const sp_kv_pool *p);
/* sp_kv_pool_outside -- the view of blocks that sp_kv_pool_read has copied. */
sp_kv_view sp_kv_pool_outside(const sp_kv_pool *p, uint8_t *base);
/* sp_kv_pool_n_planes -- planes of a layer: 1, or one for each head. */
int sp_kv_pool_n_planes(const sp_kv_pool *p);

/* Adjacent blocks of one layer: first .. first + n - 1. */
typedef struct sp_kv_run {
    int layer;
    uint32_t first;
    int32_t n;
} sp_kv_run;

/* sp_kv_pool_read -- makes the run's bytes readable by the host until the blocks are released:
 * in the pool itself on a unified device, else copied to `staging` [n * layer_block_bytes].
 * Errors: of the device. Thread: any for sealed blocks, the holder for open ones. */
sp_err sp_kv_pool_read(sp_kv_pool *p, sp_kv_run run, void *staging,
                       const uint8_t **out) SP_MUST_CHECK;
/* sp_kv_pool_target -- where the host writes the run's bytes, for sp_kv_pool_write to take from: in
 * the pool itself on a unified device, else `staging`. */
uint8_t *sp_kv_pool_target(sp_kv_pool *p, sp_kv_run run, void *staging);
/* sp_kv_pool_write -- copies the run's bytes into the pool, from sp_kv_pool_target or any other memory, and
 * waits. Pre: open blocks of the caller. Errors and Thread: as sp_kv_pool_read. */
sp_err sp_kv_pool_write(sp_kv_pool *p, sp_kv_run run, const void *from) SP_MUST_CHECK;

/* sp_kv_acquire -- n open blocks with one holder each: the first n adjacent free ones, or else the
 * first n free ones. Requests that acquire and release blocks in turn therefore use the same memory;
 * higher blocks are written, and cost page faults, only when the lower ones are held.
 * Errors: SP_E_NOKV, and nothing is taken. Thread: any. Cost: O(N / 64) where a run is free, O(N)
 * in a fragmented pool. */
sp_err sp_kv_acquire(sp_kv_pool *p, int64_t n, uint32_t *blocks) SP_MUST_CHECK;
/* sp_kv_retain, sp_kv_release -- one more, one fewer holder for each of n blocks. Thread: any. */
void sp_kv_retain(sp_kv_pool *p, const uint32_t *blocks, int64_t n);
void sp_kv_release(sp_kv_pool *p, const uint32_t *blocks, int64_t n);

/* sp_kv_seal -- makes blocks immutable. Pre: the caller is the only holder and has written all of them. */
void sp_kv_seal(sp_kv_pool *p, const uint32_t *blocks, int64_t n);
bool sp_kv_is_sealed(const sp_kv_pool *p, uint32_t block);
uint32_t sp_kv_refs(const sp_kv_pool *p, uint32_t block);
/* sp_kv_birth -- how often the block was acquired: data derived from its contents is valid while this number does not
 * change. Thread: holders. */
uint32_t sp_kv_birth(const sp_kv_pool *p, uint32_t block);

/* -- blocks whose bytes are elsewhere --------------------------------------------------------- */

/* Reads and overwrites the bytes of blocks that are away. Thread: any. */
typedef struct sp_kv_elsewhere {
    sp_err (*read)(void *user, sp_kv_run run, uint8_t *to);
    sp_err (*write)(void *user, sp_kv_run run, const uint8_t *from);
    void *user;
    bool by_head; /* each head has a plane */
} sp_kv_elsewhere;

/* sp_kv_pool_let_leave -- from now on sealed blocks may leave memory, and sp_kv_pool_read always copies to
 * `staging`. The pool then uses small pages. Errors: SP_E_UNSUPPORTED if the host cannot access the device's
 * memory; SP_E_NOMEM. Pre: all blocks are free. */
sp_err sp_kv_pool_let_leave(sp_kv_pool *p, const sp_kv_elsewhere *where) SP_MUST_CHECK;
/* sp_kv_is_away -- Thread: holders. */
bool sp_kv_is_away(const sp_kv_pool *p, uint32_t block);
/* sp_kv_set_away -- the bytes of sealed blocks are elsewhere now, or in memory again. sp_kv_drop_plane releases the
 * memory of those that are away. Waits while another thread copies a block. Thread: the engine's. */
void sp_kv_set_away(sp_kv_pool *p, const uint32_t *blocks, int64_t n, bool away);
/* sp_kv_drop_plane -- releases the memory of the run's blocks that are away, in one plane of the layer: the pages that
 * no other block uses. Thread: the engine's. */
void sp_kv_drop_plane(sp_kv_pool *p, sp_kv_run run, int plane);
/* sp_kv_drop_contents -- as sp_kv_drop_plane, for blocks that are not away and whose bytes nobody needs. */
void sp_kv_drop_contents(sp_kv_pool *p, sp_kv_run run);
/* sp_kv_pool_n_near, sp_kv_pool_n_away -- held blocks whose bytes are in memory; held blocks that are away. Blocks not
 * yet written count in neither. */
int64_t sp_kv_pool_n_near(const sp_kv_pool *p);
int64_t sp_kv_pool_n_away(const sp_kv_pool *p);
/* sp_kv_touch -- to be called before the block is written. Thread: its holder's. sp_kv_is_empty -- the block has not
 * been written yet. */
void sp_kv_touch(sp_kv_pool *p, uint32_t block);
bool sp_kv_is_empty(const sp_kv_pool *p, uint32_t block);
/* sp_kv_pool_bytes_at -- the memory of a block in a plane of a layer, for the engine. Pre: sp_kv_pool_let_leave. */
uint8_t *sp_kv_pool_bytes_at(sp_kv_pool *p, int layer, int plane, uint32_t block);

#endif
