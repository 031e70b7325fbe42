/* offload.c -- which blocks leave memory, and when.
 *
 *   near, sealed --turn: batch--> held, being written --turn: drop--> away
 *                                 (writer thread)
 *
 * The writer only reads blocks. They are marked and dropped by the engine's thread, between steps, so
 * that no step loses what it reads. Other threads read blocks through sp_kv_pool_read. */
#include "engine/offload/offload_int.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

enum { LEAST_NEAR = 2 };

/* -- the writer ----------------------------------------------------------------------------- */

/* write_run -- neighbours, in all layers. */
static sp_err write_run(sp_offload *o, uint32_t first, int32_t n)
{
    for (int l = 0; l < o->shape.n_layers; l++) {
        const sp_kv_run run = {.layer = l, .first = first, .n = n};
        for (int i = 0; i < o->n_planes; i++) {
            const sp_pages_run to = sp_offload_run_here(o, run, i);
            SP_TRY(sp_pages_write(o->pages, &to));
        }
    }
    return SP_OK;
}

static sp_err write_blocks(sp_offload *o, const uint32_t *blocks, int32_t n)
{
    for (int32_t i = 0, m; i < n; i += m) {
        for (m = 1; i + m < n && blocks[i + m] == blocks[i] + (uint32_t)m; m++) continue;
        SP_TRY(write_run(o, blocks[i], m));
    }
    return SP_OK;
}

static void *write_batches(void *user)
{
    sp_offload *o = user;
    sp_leaving *v = &o->leaving;
    pthread_mutex_lock(&v->lock);
    for (;;) {
        while (!v->stop && (!v->busy || v->done)) pthread_cond_wait(&v->changed, &v->lock);
        if (v->stop) break;
        pthread_mutex_unlock(&v->lock);
        sp_err err = write_blocks(o, v->blocks, v->n);
        pthread_mutex_lock(&v->lock);
        v->err = err;
        if (err != SP_OK) snprintf(v->why, sizeof v->why, "%s", sp_error_detail());
        v->done = true;
        pthread_cond_broadcast(&v->changed);
    }
    pthread_mutex_unlock(&v->lock);
    return NULL;
}

/* -- leaving -------------------------------------------------------------------------------- */

/* left -- these blocks are now in the file. */
static void left(sp_offload *o, const uint32_t *blocks, int32_t n)
{
    sp_residents_begin(o);
    sp_kv_set_away(o->pool, blocks, n, true);
    sp_residents_fit(o);
    for (int32_t i = 0, m; i < n; i += m) {
        for (m = 1; i + m < n && blocks[i + m] == blocks[i] + (uint32_t)m; m++) continue;
        for (int l = 0; l < o->shape.n_layers; l++)
            sp_offload_drop(o, (sp_kv_run){.layer = l, .first = blocks[i], .n = m});
    }
    o->stats.n_left += n;
}

/* collect -- takes back the batch if it is written; `wait`: waits for that. Returns whether no batch
 * remains. */
static bool collect(sp_offload *o, bool wait)
{
    sp_leaving *v = &o->leaving;
    pthread_mutex_lock(&v->lock);
    while (wait && v->busy && !v->done) pthread_cond_wait(&v->changed, &v->lock);
    const bool idle = !v->busy || v->done, has = v->busy && v->done;
    if (has) v->busy = v->done = false;
    pthread_mutex_unlock(&v->lock);
    if (!has) return idle;
    if (v->err == SP_OK)
        left(o, v->blocks, v->n);
    else
        sp_log(SP_LOG_WARN, "KV blocks stay in memory: %s", v->why);
    sp_kv_release(o->pool, v->blocks, v->n);
    return true;
}

static bool can_leave(const sp_offload *o, uint32_t block)
{
    return sp_kv_refs(o->pool, block) > 0 && sp_kv_is_sealed(o->pool, block) &&
           !sp_kv_is_away(o->pool, block);
}

/* begin -- begins to write the next batch of blocks. Returns whether there was one. */
static bool begin(sp_offload *o, int64_t most)
{
    sp_leaving *v = &o->leaving;
    v->n = 0;
    most = SP_MIN(most, SP_LEAVE_BATCH);
    for (int64_t i = 0; i < o->n_blocks && v->n < most; i++) {
        const uint32_t b = o->hand;
        o->hand = b + 1 < o->n_blocks ? b + 1 : 0;
        if (can_leave(o, b)) v->blocks[v->n++] = b;
    }
    if (v->n == 0) return false;
    sp_kv_retain(o->pool, v->blocks, v->n);
    pthread_mutex_lock(&v->lock);
    v->busy = true;
    pthread_cond_broadcast(&v->changed);
    pthread_mutex_unlock(&v->lock);
    return true;
}

static int64_t most_near(const sp_offload *o)
{
    return o->seats.is_sparse ? o->max_near : o->n_budget - LEAST_NEAR;
}

bool sp_offload_is_full(const sp_offload *o)
{
    return sp_kv_pool_n_near(o->pool) >= most_near(o);
}

void sp_offload_turn(sp_offload *o)
{
    const int64_t start = sp_clock_us(), need = sp_need_blocks(o);
    const int64_t most = SP_MAX(SP_MIN(most_near(o), o->n_budget - need), LEAST_NEAR);
    /* A layer of what leaves comes back as a window: so a little less than the most, or what seats press out. */
    const int64_t enough = o->seats.lacked ? LEAST_NEAR : SP_MIN(most_near(o) * 3 / 4, most);
    sp_offload_window_drop(o);
    if (atomic_exchange(&o->seats.stale, false)) {
        sp_seats_empty(o, -1);
        sp_residents_forget(o);
    }
    while (collect(o, sp_kv_pool_n_near(o->pool) >= most) && sp_kv_pool_n_near(o->pool) > enough) {
        if (!begin(o, sp_kv_pool_n_near(o->pool) - enough)) break;
        if (sp_kv_pool_n_near(o->pool) < most) break;
        if (collect(o, true) && o->leaving.err != SP_OK) break;
    }
    o->seats.lacked = false;
    sp_seats_open(o, o->n_budget - need - SP_MAX(sp_kv_pool_n_near(o->pool) + 1, LEAST_NEAR));
    o->stats.leave_us += sp_clock_us() - start;
}

sp_err sp_offload_leave(sp_offload *o, const uint32_t *blocks, int64_t n)
{
    collect(o, true);
    for (int64_t i = 0, m; i < n; i += m) {
        m = SP_MIN(n - i, SP_LEAVE_BATCH);
        SP_TRY(write_blocks(o, blocks + i, (int32_t)m));
        left(o, blocks + i, (int32_t)m);
    }
    return SP_OK;
}

/* -- as the pool sees it -------------------------------------------------------------------- */

static sp_err read_away(void *user, sp_kv_run run, uint8_t *to)
{
    const sp_offload *o = user;
    const size_t block = sp_kv_pool_layer_block_bytes(o->pool), plane = (size_t)o->n_cols * o->record_bytes;
    for (int i = 0; i < o->n_planes; i++) {
        const sp_pages_run from = sp_offload_run(o, run, i, block, to + (size_t)i * plane);
        SP_TRY(sp_pages_read(o->pages, &from));
    }
    return SP_OK;
}

/* Overwritten in the file: seats and summaries of such a block are no longer valid. */
static sp_err write_away(void *user, sp_kv_run run, const uint8_t *from)
{
    sp_offload *o = user;
    const size_t block = sp_kv_pool_layer_block_bytes(o->pool), n = (size_t)run.n * block;
    uint8_t *copy = sp_alloc(n, 1);
    if (!copy) return sp_fail_nomem("a block to be overwritten");
    memcpy(copy, from, n);
    sp_err err = SP_OK;
    for (int i = 0; i < o->n_planes && err == SP_OK; i++) {
        const sp_pages_run to =
            sp_offload_run(o, run, i, block, copy + (size_t)i * (size_t)o->n_cols * o->record_bytes);
        err = sp_pages_write(o->pages, &to);
    }
    sp_free(copy);
    atomic_store(&o->seats.stale, true);
    return err;
}

/* -- opening -------------------------------------------------------------------------------- */

/* share_out -- divides the budget, in blocks. Spare seats take memory of one layer at a time. */
static sp_err share_out(const sp_kv_shape *shape, int64_t n_blocks, const sp_offload_opts *opts, sp_offload *o)
{
    const size_t block = sp_kv_block_bytes(shape);
    const size_t lists = (size_t)shape->n_layers * (size_t)shape->n_heads;
    const size_t a_summary = sp_summary_bytes(SP_SUMMARY_BOUNDS, shape->head) + sizeof(float);
    const size_t index = lists * ((size_t)n_blocks * (a_summary + sizeof(uint32_t) + sp_pages_sum_bytes()));
    const size_t taken = index + opts->resident_bytes;
    const size_t rest = opts->max_bytes > taken ? opts->max_bytes - taken : 0;
    int64_t n = (int64_t)(rest / block);
    o->seats.n_spare = (int32_t)SP_MIN(n / 4, n_blocks / 8);
    n -= SP_DIV_UP(o->seats.n_spare, shape->n_layers);
    if (n < 8)
        return sp_fail(
            SP_E_ARG,
            "context memory of %zu bytes: the index of %lld blocks and resident heads take %zu, "
            "which leaves less than 8 blocks of %zu; the index grows with the KV memory",
            opts->max_bytes, (long long)n_blocks, taken, block);
    o->seats.n = opts->n_seats ? opts->n_seats : (int32_t)SP_MIN(n - LEAST_NEAR, n_blocks / 2);
    if (o->seats.n >= n)
        return sp_fail(SP_E_ARG, "context memory of %zu bytes: %d seats for blocks take all of it",
                       opts->max_bytes, o->seats.n);
    o->n_budget = n;
    o->max_near = n - SP_MIN(o->seats.n, n * 3 / 4);
    o->max_window = n * shape->n_layers * 15 / 16; /* seats make way */
    o->max_bytes = opts->max_bytes;
    o->resident.bytes = opts->resident_bytes;
    return SP_OK;
}

int64_t sp_offload_n_extra(const sp_kv_shape *shape, int64_t n_blocks, const sp_offload_opts *opts)
{
    sp_offload share = {0};
    return share_out(shape, n_blocks, opts, &share) == SP_OK ? (int64_t)share.seats.n + share.seats.n_spare : 0;
}

static sp_err open_parts(sp_offload *o, const sp_offload_opts *opts)
{
    SP_TRY(share_out(&o->shape, opts->n_blocks ? opts->n_blocks : o->n_blocks, opts, o));
    SP_TRY(sp_kv_pool_let_leave(
        o->pool, &(sp_kv_elsewhere){.read = read_away, .write = write_away, .user = o,
                                    .by_head = opts->resident_bytes > 0}));
    o->n_planes = sp_kv_pool_n_planes(o->pool);
    o->n_cols = o->shape.n_heads / o->n_planes;
    SP_TRY(sp_pages_open(
        &(sp_pages_opts){.dir = opts->dir,
                         .io = opts->io,
                         .record_bytes = o->record_bytes,
                         .n_records = o->n_blocks * o->shape.n_layers * o->shape.n_heads},
        &o->pages));
    o->window.blocks = SP_NEW_N(uint32_t, (size_t)o->n_blocks);
    o->window.is_in = SP_NEW_N(uint8_t, (size_t)o->n_blocks);
    o->need.seen = SP_NEW_N(uint32_t, (size_t)o->n_blocks);
    if (!o->window.blocks || !o->window.is_in || !o->need.seen)
        return sp_fail_nomem("contexts beyond memory");
    SP_TRY(sp_residents_create(o));
    SP_TRY(sp_seats_create(o));
    if (pthread_create(&o->leaving.thread, NULL, write_batches, o) != 0)
        return sp_fail(SP_E_NOMEM, "no thread for blocks that leave memory");
    o->leaving.has_thread = true;
    return SP_OK;
}

sp_err sp_offload_create(const sp_offload_opts *opts, sp_offload **out)
{
    sp_offload *o = SP_NEW(sp_offload);
    if (!o) return sp_fail_nomem("contexts beyond memory");
    o->pool = opts->pool;
    o->shape = *sp_kv_pool_shape(opts->pool);
    o->n_blocks = sp_kv_pool_n_blocks(opts->pool);
    o->record_bytes = 2 * sp_kv_head_bytes(o->shape.type, o->shape.head);
    pthread_mutex_init(&o->leaving.lock, NULL);
    pthread_cond_init(&o->leaving.changed, NULL);
    sp_err err = open_parts(o, opts);
    if (err != SP_OK) {
        sp_offload_destroy(o);
        return err;
    }
    *out = o;
    return SP_OK;
}

void sp_offload_destroy(sp_offload *o)
{
    if (!o) return;
    sp_leaving *v = &o->leaving;
    if (v->has_thread) {
        collect(o, true);
        pthread_mutex_lock(&v->lock);
        v->stop = true;
        pthread_cond_broadcast(&v->changed);
        pthread_mutex_unlock(&v->lock);
        pthread_join(v->thread, NULL);
    }
    sp_seats_destroy(o);
    sp_residents_destroy(o);
    sp_pages_close(o->pages);
    pthread_mutex_destroy(&v->lock);
    pthread_cond_destroy(&v->changed);
    sp_free(o->window.blocks);
    sp_free(o->window.is_in);
    sp_free(o->need.seen);
    sp_free(o);
}

sp_offload_stats sp_offload_stats_of(const sp_offload *o)
{
    sp_offload_stats s = o->stats;
    s.record_bytes = sp_pages_stride(o->pages);
    s.n_damaged = sp_pages_n_damaged(o->pages);
    s.max_bytes = o->max_bytes;
    s.n_resident = o->resident.n * o->n_cols;
    s.seat_bytes = (size_t)o->seats.n * sp_kv_block_bytes(&o->shape);
    return s;
}
