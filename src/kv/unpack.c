#include "kv/unpack.h"

#include <string.h>

#include "base/mem.h"
#include "compute/kernels.h"

/* A buffer of two parts: the blocks as they are, then the tokens in blocks of their own. */
static sp_err read_blocks(sp_kv_pool *p, int layer, const sp_kv_tokens *t, uint8_t *buffer)
{
    const size_t bytes = sp_kv_pool_layer_block_bytes(p);
    for (int32_t i = 0; i < sp_blocks_for(t->first + t->n); i++) {
        const sp_kv_run run = {.layer = layer, .first = t->blocks[i], .n = 1};
        uint8_t *to = buffer + (size_t)i * bytes;
        const uint8_t *from;
        SP_TRY(sp_kv_pool_read(p, run, to, &from));
        if (from != to) memcpy(to, from, bytes);
    }
    return SP_OK;
}

static sp_kv_slot slot_at(int32_t j)
{
    return (sp_kv_slot){.block = (uint32_t)(j / SP_BLOCK_TOKENS),
                        .slot = (uint8_t)(j % SP_BLOCK_TOKENS)};
}

sp_err sp_kv_unpack(sp_kv_pool *p, int layer, const sp_kv_tokens *t, uint8_t *to)
{
    const size_t bytes = sp_kv_pool_layer_block_bytes(p);
    const int32_t n_from = sp_blocks_for(t->first + t->n), n_to = sp_blocks_for(t->n);
    uint8_t *buffer = sp_alloc_zero((size_t)(n_from + n_to), bytes);
    if (!buffer) return sp_fail_nomem("nodes that share blocks");
    const sp_kv_view view = sp_kv_pool_outside(p, buffer);
    sp_err err = read_blocks(p, layer, t, buffer);
    for (int32_t i = 0; i < t->n && err == SP_OK; i++) {
        const sp_kv_slot from = slot_at(t->first + i), into = slot_at(n_from * SP_BLOCK_TOKENS + i);
        sp_kv_copy(&view, &from, &into);
    }
    if (err == SP_OK) memcpy(to, buffer + (size_t)n_from * bytes, (size_t)n_to * bytes);
    sp_free(buffer);
    return err;
}

sp_err sp_kv_merge(sp_kv_pool *p, int layer, const sp_kv_patch *patch, int32_t n, uint8_t *layer_blocks)
{
    const size_t bytes = sp_kv_pool_layer_block_bytes(p);
    const int32_t n_from = sp_blocks_for(patch->n), n_to = sp_blocks_for(n);
    const sp_kv_tokens fresh = {.blocks = patch->blocks, .n = patch->n};
    uint8_t *buffer = sp_alloc((size_t)(n_from + n_to), bytes);
    if (!buffer) return sp_fail_nomem("a copy with its patch");
    const sp_kv_view view = sp_kv_pool_outside(p, buffer);
    sp_err err = read_blocks(p, layer, &fresh, buffer);
    if (err == SP_OK) memcpy(buffer + (size_t)n_from * bytes, layer_blocks, (size_t)n_to * bytes);
    for (int32_t i = 0; i < patch->n && err == SP_OK; i++) {
        const sp_kv_slot from = slot_at(i), into = slot_at(n_from * SP_BLOCK_TOKENS + patch->tokens[i]);
        sp_kv_copy(&view, &from, &into);
    }
    if (err == SP_OK) memcpy(layer_blocks, buffer + (size_t)n_from * bytes, (size_t)n_to * bytes);
    sp_free(buffer);
    return err;
}
