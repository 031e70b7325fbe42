/* packing.h -- keys and values in a smaller type while they are in a tier. */
#ifndef SP_STORE_PACKING_H
#define SP_STORE_PACKING_H

#include "store/record.h"

/* A smaller form of layers. All functions run on any thread. */
typedef struct sp_kv_packing {
    const char *name;
    bool (*wants)(void *user, const sp_record *r); /* false: this copy is kept as it is */
    size_t (*packed_bytes)(void *user, size_t layer_bytes);
    void (*pack)(void *user, const uint8_t *layer, size_t layer_bytes, uint8_t *out);
    void (*unpack)(void *user, const uint8_t *packed, size_t layer_bytes, uint8_t *out);
    void *user;
} sp_kv_packing;

#endif
