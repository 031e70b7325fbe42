#include "store/notes.h"

#include <string.h>

uint64_t sp_notes_bytes(const sp_kv_pool *p, int32_t n)
{
    const sp_kv_notes *notes = sp_kv_pool_notes(p);
    return notes ? notes->bytes(notes->user, n) : 0;
}

bool sp_notes_has(const sp_kv_pool *p, const uint32_t *blocks, int32_t n)
{
    const sp_kv_notes *notes = sp_kv_pool_notes(p);
    return notes && notes->has(notes->user, blocks, n);
}

void sp_notes_prepare(const sp_kv_pool *p, const uint32_t *blocks, int32_t n)
{
    const sp_kv_notes *notes = sp_kv_pool_notes(p);
    if (notes) notes->prepare(notes->user, blocks, n);
}

void sp_notes_read(const sp_kv_pool *p, int layer, const uint32_t *blocks, int32_t n, uint8_t *to,
                   uint64_t n_bytes)
{
    const sp_kv_notes *notes = sp_kv_pool_notes(p);
    if (n_bytes == 0) return;
    if (!notes || !notes->read(notes->user, layer, blocks, n, to)) memset(to, 0, n_bytes);
}

void sp_notes_write(const sp_kv_pool *p, sp_notes_load *load, int layer, const uint32_t *blocks,
                    int32_t n, const uint8_t *from)
{
    const sp_kv_notes *notes = sp_kv_pool_notes(p);
    if (!notes || load->n_bytes == 0 || layer != load->n_layers) return;
    const uint32_t parts = notes->write(notes->user, layer, blocks, n, from, load->n_bytes);
    load->parts = layer == 0 ? parts : load->parts & parts;
    load->n_layers = layer + 1;
    if (load->n_layers == sp_kv_pool_shape(p)->n_layers)
        notes->whole(notes->user, blocks, n, load->parts);
}
