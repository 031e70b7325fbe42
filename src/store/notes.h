/* notes.h -- transfers notes of blocks (kv/notes.h) between a pool and the layers of a copy:
 *
 *   | keys and values, layer_bytes | notes, note_bytes | zeros to the next page |
 *
 * They have their own checksums. If one is wrong, the disk tier delivers zeros, which mean no notes. */
#ifndef SP_STORE_NOTES_H
#define SP_STORE_NOTES_H

#include "kv/notes.h"

/* sp_notes_bytes -- of one layer of n tokens; 0: the pool keeps none. */
uint64_t sp_notes_bytes(const sp_kv_pool *p, int32_t n);
/* sp_notes_has -- whether some of these blocks have notes. */
bool sp_notes_has(const sp_kv_pool *p, const uint32_t *blocks, int32_t n);
/* sp_notes_prepare -- to be called before a put. Thread: the engine's. */
void sp_notes_prepare(const sp_kv_pool *p, const uint32_t *blocks, int32_t n);
/* sp_notes_read -- copies notes to `to` [n_bytes]; zeros if there are none. */
void sp_notes_read(const sp_kv_pool *p, int layer, const uint32_t *blocks, int32_t n, uint8_t *to,
                   uint64_t n_bytes);

/* A load: layers arrive in order, some of them twice. Starts as zeros. */
typedef struct sp_notes_load {
    uint64_t n_bytes; /* of a layer; 0: the copy has none */
    int n_layers;     /* that have arrived */
    uint32_t parts;   /* valid in all of them */
} sp_notes_load;

void sp_notes_write(const sp_kv_pool *p, sp_notes_load *load, int layer, const uint32_t *blocks,
                    int32_t n, const uint8_t *from);

#endif
