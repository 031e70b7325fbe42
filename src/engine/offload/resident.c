/* resident.c -- KV heads whose records stay in memory although their blocks are away.
 *
 *   rank          head 1 of layer 7   head 0 of layer 2   head 0 of layer 7   ...      the hardest first
 *   is_resident   yes                 yes                 no                  no       n_resident = 2
 *
 * Each head has its own plane in the pool, so a head that is no longer resident frees its pages.
 *
 * Invariants
 *  I1  all away blocks of a resident head are in their own memory.
 *  I2  `resident.n` grows only while no block is away; a new rank exchanges heads and reads the new ones. */
#include "engine/offload/offload_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

static int n_all(const sp_offload *o)
{
    return o->shape.n_layers * o->n_planes;
}

sp_err sp_residents_create(sp_offload *o)
{
    const size_t n = (size_t)n_all(o);
    o->resident.rank = SP_NEW_N(sp_ranked_plane, n);
    o->resident.holds = SP_NEW_N(uint8_t, n);
    if (!o->resident.rank || !o->resident.holds) return sp_fail_nomem("resident heads");
    for (size_t i = 0; i < n; i++) o->resident.rank[i].plane = (int32_t)i;
    return SP_OK;
}

void sp_residents_destroy(sp_offload *o)
{
    sp_free(o->resident.rank);
    sp_free(o->resident.holds);
}

bool sp_offload_is_resident(const sp_offload *o, int layer, int kv_head)
{
    return sp_offload_is_plane_resident(o, layer, kv_head / o->n_cols);
}

/* leave -- frees the memory of a head's away blocks. */
static void leave(sp_offload *o, int32_t plane)
{
    o->resident.holds[plane] = 0;
    sp_kv_drop_plane(o->pool, (sp_kv_run){.layer = plane / o->n_planes, .first = 0, .n = (int32_t)o->n_blocks},
                     plane % o->n_planes);
}

/* stop -- removes the easiest of the resident heads from memory. */
static void stop(sp_offload *o)
{
    leave(o, o->resident.rank[--o->resident.n].plane);
}

/* come -- reads a head's away blocks from the file. */
static sp_err come(sp_offload *o, int32_t plane)
{
    for (int64_t i = 0, n; i < o->n_blocks; i += n) {
        for (n = 0; i + n < o->n_blocks && sp_kv_is_away(o->pool, (uint32_t)(i + n)); n++) continue;
        const sp_kv_run run = {plane / o->n_planes, (uint32_t)i, (int32_t)n};
        const sp_pages_run from = sp_offload_run_here(o, run, plane % o->n_planes);
        if (n) SP_TRY(sp_pages_read(o->pages, &from));
        if (!n) n = 1;
    }
    return SP_OK;
}

static int hardest_first(const void *a, const void *b)
{
    const sp_ranked_plane *x = a, *y = b;
    if (x->difficulty != y->difficulty) return x->difficulty < y->difficulty ? 1 : -1;
    return (x->plane > y->plane) - (x->plane < y->plane);
}

/* exchange -- makes the first `resident.n` heads of the new rank resident, and no others. */
static void exchange(sp_offload *o)
{
    for (int i = o->resident.n; i < n_all(o); i++)
        if (o->resident.holds[o->resident.rank[i].plane]) leave(o, o->resident.rank[i].plane);
    for (int i = 0; i < o->resident.n; i++) {
        const int32_t plane = o->resident.rank[i].plane;
        if (o->resident.holds[plane]) continue;
        o->resident.holds[plane] = 1;
        if (come(o, plane) == SP_OK) continue;
        sp_log(SP_LOG_WARN, "no KV heads stay in memory: %s", sp_error_detail());
        for (int k = 0; k < o->resident.n; k++) leave(o, o->resident.rank[k].plane);
        o->resident.n = 0;
        return;
    }
}

void sp_offload_rank(sp_offload *o, const float *difficulty)
{
    for (int i = 0; i < n_all(o); i++) {
        const float *d = difficulty + i * o->n_cols;
        float hardest = d[0];
        for (int k = 1; k < o->n_cols; k++) hardest = SP_MAX(hardest, d[k]);
        o->resident.rank[i] = (sp_ranked_plane){hardest, i};
    }
    qsort(o->resident.rank, (size_t)n_all(o), sizeof *o->resident.rank, hardest_first);
    exchange(o);
}

void sp_residents_begin(sp_offload *o)
{
    if (o->resident.bytes == 0 || sp_kv_pool_n_away(o->pool) > 0) return; /* I2 */
    o->resident.n = n_all(o);
    memset(o->resident.holds, 1, (size_t)o->resident.n);
}

void sp_residents_fit(sp_offload *o)
{
    const size_t block = (size_t)o->n_cols * o->record_bytes, away = (size_t)sp_kv_pool_n_away(o->pool);
    while (o->resident.n && (size_t)o->resident.n * away * block > o->resident.bytes) stop(o);
}

void sp_residents_forget(sp_offload *o)
{
    while (o->resident.n) stop(o);
}
