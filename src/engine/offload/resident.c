/* resident.c -- layers whose records stay in memory although their blocks are away.
 *
 *   rank          layer 7   layer 2   layer 0   layer 5 ...      the hardest first
 *   is_resident   yes       yes       no        no               n_resident = 2
 *
 * Invariants
 *  I1  of a resident layer all blocks that are away are in their own memory.
 *  I2  a layer that stopped being resident becomes it again only when no block is away. */
#include "engine/offload/offload_int.h"

#include "base/mem.h"

sp_err sp_residents_create(sp_offload *o)
{
    const int n = o->shape.n_layers;
    o->rank = SP_NEW_N(uint16_t, (size_t)n);
    o->is_resident = SP_NEW_N(uint8_t, (size_t)n);
    if (!o->rank || !o->is_resident) return sp_fail_nomem((size_t)n * 3, "resident layers");
    for (int l = 0; l < n; l++) o->rank[l] = (uint16_t)l;
    return SP_OK;
}

void sp_residents_destroy(sp_offload *o)
{
    sp_free(o->rank);
    sp_free(o->is_resident);
}

void sp_offload_rank(sp_offload *o, const float *difficulty)
{
    for (int i = 1; i < o->shape.n_layers; i++) { /* few layers, once */
        const uint16_t layer = o->rank[i];
        int at = i;
        for (; at > 0 && difficulty[o->rank[at - 1]] < difficulty[layer]; at--)
            o->rank[at] = o->rank[at - 1];
        o->rank[at] = layer;
    }
}

bool sp_offload_is_resident(const sp_offload *o, int layer)
{
    return o->is_resident[layer];
}

/* stop -- the easiest of the resident layers leaves memory. */
static void stop(sp_offload *o)
{
    const int layer = o->rank[--o->n_resident];
    o->is_resident[layer] = 0;
    sp_kv_drop(o->pool, (sp_kv_run){.layer = layer, .first = 0, .n = (int32_t)o->n_blocks});
}

void sp_residents_begin(sp_offload *o)
{
    if (o->resident_bytes == 0 || sp_kv_pool_n_away(o->pool) > 0) return; /* I2 */
    o->n_resident = o->shape.n_layers;
    for (int l = 0; l < o->n_resident; l++) o->is_resident[l] = 1;
}

void sp_residents_fit(sp_offload *o)
{
    const size_t block = sp_kv_pool_layer_block_bytes(o->pool), away = (size_t)sp_kv_pool_n_away(o->pool);
    while (o->n_resident && (size_t)o->n_resident * away * block > o->resident_bytes) stop(o);
}

void sp_residents_forget(sp_offload *o)
{
    while (o->n_resident) stop(o);
}
