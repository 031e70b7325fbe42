/* window.c -- for steps that read all blocks: a layer's away blocks are in their own memory while it is computed. */
#include "engine/offload/offload_int.h"

#include "base/clock.h"

void sp_offload_window_drop(sp_offload *o)
{
    sp_window *w = &o->window;
    for (int64_t i = 0, n; i < w->n; i += n) {
        for (n = 1; i + n < w->n && w->blocks[i + n] == w->blocks[i] + (uint32_t)n; n++) continue;
        sp_offload_drop(o, (sp_kv_run){w->layer, w->blocks[i], (int32_t)n});
    }
    for (int64_t i = 0; i < w->n; i++) w->is_in[w->blocks[i]] = 0;
    w->n = 0;
}

static bool is_missing(const sp_offload *o, uint32_t block)
{
    return sp_kv_is_away(o->pool, block) && !o->window.is_in[block];
}

/* is_all_resident -- whether no head of the layer needs a window. */
static bool is_all_resident(const sp_offload *o, int layer)
{
    int n = 0;
    for (int i = 0; i < o->n_planes; i++) n += sp_offload_is_plane_resident(o, layer, i);
    return n == o->n_planes;
}

bool sp_offload_take_damage(sp_offload *o, uint32_t *block)
{
    if (!o->damaged) return false;
    *block = (uint32_t)(o->damaged - 1);
    o->damaged = 0;
    return true;
}

/* read_plane -- after a failure one by one, to know which block cannot be read. */
static sp_err read_plane(sp_offload *o, sp_kv_run run, int plane)
{
    sp_pages_run from = sp_offload_run_here(o, run, plane);
    sp_err err = sp_pages_read(o->pages, &from);
    for (int32_t i = 0; err != SP_OK && i < run.n; i++) {
        from = sp_offload_run_here(o, (sp_kv_run){run.layer, run.first + (uint32_t)i, 1}, plane);
        if (sp_pages_read(o->pages, &from) == SP_OK) continue;
        o->damaged = 1 + (int64_t)run.first + i;
        return err;
    }
    return SP_OK;
}

/* read_run -- reads a run of blocks of the heads that are not resident. */
static sp_err read_run(sp_offload *o, sp_kv_run run)
{
    for (int i = 0; i < o->n_planes; i++)
        if (!sp_offload_is_plane_resident(o, run.layer, i)) SP_TRY(read_plane(o, run, i));
    return SP_OK;
}

/* load_run -- n neighbours. */
static sp_err load_run(sp_offload *o, sp_kv_run run)
{
    sp_window *w = &o->window;
    for (int32_t i = 0; i < run.n; i++) { /* first, so that a failure drops them too */
        w->blocks[w->n++] = run.first + (uint32_t)i;
        w->is_in[run.first + (uint32_t)i] = 1;
    }
    o->stats.n_windowed += run.n;
    return read_run(o, run);
}

/* make_room -- for n more blocks: a window takes memory from seats, except those of its layer, which
 * the lists of sparse readers already name. */
static sp_err make_room(sp_offload *o, int64_t n)
{
    const int64_t layers = o->shape.n_layers;
    if (o->window.n + n > o->max_window)
        return sp_fail(SP_E_NOKV,
                       "context memory of %zu bytes: one layer of %lld blocks needs more",
                       o->max_bytes, (long long)(o->window.n + n));
    if (o->window.n + n > (int64_t)o->max_near * layers / 2) sp_seats_empty(o, o->window.layer);
    return SP_OK;
}

int64_t sp_offload_max_context(const sp_offload *o)
{
    return o->max_window + o->n_budget + (int64_t)(o->resident.bytes / sp_kv_block_bytes(&o->shape));
}

static sp_err load_all(sp_offload *o, int layer, const uint32_t *blocks, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!is_missing(o, blocks[i])) continue;
        sp_kv_run run = {.layer = layer, .first = blocks[i], .n = 1};
        while (i + 1 < n && blocks[i + 1] == blocks[i] + 1 && is_missing(o, blocks[i + 1])) {
            run.n++;
            i++;
        }
        SP_TRY(load_run(o, run));
    }
    return SP_OK;
}

sp_err sp_offload_window(sp_offload *o, int layer, const uint32_t *blocks, int64_t n)
{
    int64_t n_missing = 0;
    if (o->window.layer != layer) sp_offload_window_drop(o);
    o->window.layer = layer;
    if (is_all_resident(o, layer)) return SP_OK;
    for (int64_t i = 0; i < n; i++) n_missing += is_missing(o, blocks[i]);
    if (n_missing == 0) return SP_OK;
    SP_TRY(make_room(o, n_missing));
    const int64_t start = sp_clock_us();
    sp_err err = load_all(o, layer, blocks, n);
    if (err != SP_OK) sp_offload_window_drop(o);
    o->stats.window_us += sp_clock_us() - start;
    return err;
}

sp_err sp_offload_bring_back(sp_offload *o, const uint32_t *blocks, int64_t n)
{
    sp_offload_window_drop(o);
    for (int64_t i = 0; i < n; i++) {
        if (!sp_kv_is_away(o->pool, blocks[i])) continue;
        for (int l = 0; l < o->shape.n_layers; l++) {
            SP_TRY(read_run(o, (sp_kv_run){.layer = l, .first = blocks[i], .n = 1}));
        }
        sp_kv_set_away(o->pool, &blocks[i], 1, false);
    }
    return SP_OK;
}
