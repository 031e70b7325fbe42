/* notes.h -- notes: data derived from the keys of blocks and stored beside them, such as the summaries of
 * sparse decoding. Only the engine knows their meaning; a store moves bytes.
 *
 *   put   prepare (engine's thread) --> each layer: read
 *   get   each layer: write --> whole, for the parts that were valid in all layers
 *
 * A copy without notes, or with damaged ones, can be used: they are derived again. */
#ifndef SP_KV_NOTES_H
#define SP_KV_NOTES_H

#include "kv/pool.h"

/* Of the first n tokens in blocks [ceil(n / B)]. */
typedef struct sp_kv_notes {
    /* Of one layer. Thread: any. */
    size_t (*bytes)(void *user, int32_t n);
    /* Sealed blocks will be read. Thread: the engine's. */
    void (*prepare)(void *user, const uint32_t *blocks, int32_t n);
    /* Whether some of these blocks have notes. Thread: any holder of the blocks. */
    bool (*has)(void *user, const uint32_t *blocks, int32_t n);
    /* false: some have none. Thread: any holder of the blocks. */
    bool (*read)(void *user, int layer, const uint32_t *blocks, int32_t n, uint8_t *to);
    /* Returns the accepted parts, a bit each; 0: these bytes are of other kinds or another
     * version. Thread: the one that loads the blocks. */
    uint32_t (*write)(void *user, int layer, const uint32_t *blocks, int32_t n, const uint8_t *from,
                      size_t n_bytes);
    void (*whole)(void *user, const uint32_t *blocks, int32_t n, uint32_t parts);
    void *user;
} sp_kv_notes;

/* sp_kv_pool_set_notes -- sets the pool's notes; NULL: none. Borrowed. Pre: no transfer is in progress. */
void sp_kv_pool_set_notes(sp_kv_pool *p, const sp_kv_notes *notes);
/* sp_kv_pool_notes -- or NULL. Thread: any. */
const sp_kv_notes *sp_kv_pool_notes(const sp_kv_pool *p);

#endif
