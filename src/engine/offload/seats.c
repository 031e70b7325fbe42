/* seats.c -- seats hold the away records that sparse steps read: a cache replaced by the clock policy, or,
 * for comparison, LRU.
 *
 *   want    in a seat: found           else: the policy finds a seat, a fetch begins
 *   wait    the layer's fetches are over; failed ones are read once more
 *
 *   seats   0 ............ n_open ....... n_seats ........ + n_spare
 *           kept for later  closed: near    spare: for what a layer wants beyond its open seats;
 *           steps           blocks have     they are forgotten before the next layer
 *                           that memory
 *
 * Invariants
 *  I1  a seat that this layer wanted (epoch) or whose fetch is pending is not taken.
 *  I2  a seat is valid for a block only while the block's birth is the one that was fetched.
 *  I3  the seats of the layer being computed are emptied only between steps.
 *  I4  after an error no seat of the failed layer is valid. */
#include "engine/offload/offload_int.h"

#include "base/clock.h"
#include "base/mem.h"

sp_err sp_seats_create(sp_offload *o)
{
    const int n_lists = o->shape.n_layers * o->shape.n_heads;
    const size_t n = (size_t)(o->seats.n + o->seats.n_spare);
    o->seats.blocks = SP_NEW_N(uint32_t, n);
    o->seats.rows = SP_NEW_N(sp_row, (size_t)n_lists);
    o->seats.arrivals = SP_NEW_N(sp_arrivals, (size_t)o->shape.n_layers);
    if (!o->seats.blocks || !o->seats.rows || !o->seats.arrivals)
        return sp_fail_nomem("seats for KV records");
    for (int i = 0; i < n_lists; i++) {
        o->seats.rows[i].seats = SP_NEW_N(sp_seat, n);
        o->seats.rows[i].seat_of = SP_NEW_N(uint32_t, (size_t)o->n_blocks);
        if (!o->seats.rows[i].seats || !o->seats.rows[i].seat_of)
            return sp_fail_nomem("seats for KV records");
    }
    for (int l = 0; l < o->shape.n_layers; l++) {
        o->seats.arrivals[l].list = SP_NEW_N(sp_pending, n * (size_t)o->shape.n_heads);
        if (!o->seats.arrivals[l].list)
            return sp_fail_nomem("seats for KV records");
    }
    SP_TRY(sp_kv_acquire(o->pool, (int64_t)n, o->seats.blocks));
    o->seats.n_open = o->seats.n;
    o->seats.epoch = 1;
    return SP_OK;
}

void sp_seats_destroy(sp_offload *o)
{
    for (int l = 0; o->seats.arrivals && l < o->shape.n_layers; l++) {
        sp_pages_wait(o->pages, &o->seats.arrivals[l].group);
        sp_free(o->seats.arrivals[l].list);
    }
    for (int i = 0; o->seats.rows && i < o->shape.n_layers * o->shape.n_heads; i++) {
        sp_free(o->seats.rows[i].seats);
        sp_free(o->seats.rows[i].seat_of);
    }
    if (o->seats.epoch) sp_kv_release(o->pool, o->seats.blocks, o->seats.n + o->seats.n_spare);
    sp_free(o->seats.arrivals);
    sp_free(o->seats.rows);
    sp_free(o->seats.blocks);
}

static sp_row *row_of(const sp_offload *o, int layer, int kv_head)
{
    return &o->seats.rows[layer * o->shape.n_heads + kv_head];
}

/* forget -- the records in seats from .. to - 1 of a layer, and gives their memory back. */
static void forget(sp_offload *o, int layer, int32_t from, int32_t to)
{
    for (int g = 0; g < o->shape.n_heads; g++)
        for (int32_t s = from; s < to; s++) row_of(o, layer, g)->seats[s] = (sp_seat){0};
    for (int32_t s = from, n; s < to; s += n) {
        for (n = 1; s + n < to && o->seats.blocks[s + n] == o->seats.blocks[s] + (uint32_t)n; n++) continue;
        sp_kv_drop_contents(o->pool, (sp_kv_run){.layer = layer, .first = o->seats.blocks[s], .n = n});
    }
}

static void forget_spares(sp_offload *o)
{
    int32_t most = 0;
    for (int g = 0; g < o->shape.n_heads; g++) {
        sp_row *row = row_of(o, o->seats.spare_layer, g);
        most = SP_MAX(most, row->n_spare);
        row->n_spare = 0;
    }
    forget(o, o->seats.spare_layer, o->seats.n, o->seats.n + most);
}

void sp_seats_empty(sp_offload *o, int but_layer)
{
    for (int l = 0; l < o->shape.n_layers; l++) {
        if (l == but_layer) continue;
        sp_pages_wait(o->pages, &o->seats.arrivals[l].group);
        o->seats.arrivals[l].n = 0;
        forget(o, l, 0, o->seats.n);
    }
    if (o->seats.spare_layer != but_layer) forget_spares(o);
}

void sp_seats_open(sp_offload *o, int64_t n)
{
    const int32_t n_open = (int32_t)SP_MAX(SP_MIN(n, o->seats.n), 0);
    for (int l = 0; l < o->shape.n_layers && n_open < o->seats.n_open; l++) {
        sp_err err =
            sp_offload_wait(o, l); /* of a step that failed; what did not arrive is invalid */
        SP_UNUSED(err);
        forget(o, l, n_open, o->seats.n_open);
    }
    o->seats.n_open = n_open;
}

/* -- seats of a row ------------------------------------------------------------------------- */

/* seat_with -- the seat that has the block, or will have it, or -1. */
static int32_t seat_with(const sp_offload *o, const sp_row *row, uint32_t block)
{
    const int32_t s = (int32_t)row->seat_of[block] - 1;
    if (s < 0 || row->seats[s].block != block) return -1;
    return row->seats[s].birth == sp_kv_birth(o->pool, block) ? s : -1; /* I2 */
}

/* may_take -- I1. */
static bool may_take(const sp_offload *o, const sp_seat *s)
{
    return !s->pending && !(s->birth && s->epoch == o->seats.epoch);
}

/* oldest_seat -- a free one, or the one whose record was wanted longest ago, or -1. */
static int32_t oldest_seat(const sp_offload *o, const sp_row *row)
{
    int32_t best = -1;
    for (int32_t at = 0; at < o->seats.n_open; at++) {
        const sp_seat *s = &row->seats[at];
        if (!may_take(o, s)) continue;
        if (!s->birth) return at;
        if (best < 0 || s->epoch < row->seats[best].epoch) best = at;
    }
    return best;
}

/* take_seat -- by the clock: the next that was not wanted since the hand last passed, or -1. For a guess
 * the hand passes nothing: wrong ones must not drive out what is used. */
static int32_t take_seat(const sp_offload *o, sp_row *row, bool guess)
{
    if (o->seats.policy == SP_SEATS_LRU) return oldest_seat(o, row);
    for (int32_t i = 0; i < (guess ? 1 : 2) * o->seats.n_open; i++) {
        const int32_t at = row->hand < o->seats.n_open ? row->hand : 0;
        sp_seat *s = &row->seats[at];
        row->hand = at + 1;
        if (!may_take(o, s)) continue;
        if (!s->used) return at;
        if (!guess) s->used = false;
    }
    return -1;
}

/* take_spare -- a seat for this layer only, or -1. */
static int32_t take_spare(const sp_offload *o, sp_row *row)
{
    return row->n_spare < o->seats.n_spare ? o->seats.n + row->n_spare++ : -1;
}

static uint8_t *bytes_of(const sp_offload *o, int layer, int kv_head, int32_t seat)
{
    return sp_kv_pool_bytes_at(o->pool, layer, kv_head / o->n_cols, o->seats.blocks[seat]) +
           (size_t)(kv_head % o->n_cols) * o->record_bytes;
}

/* load -- starts fetching a block into seat `at` of the row. */
static void load(sp_offload *o, int layer, int kv_head, uint32_t block, int32_t at)
{
    sp_row *row = row_of(o, layer, kv_head);
    sp_arrivals *a = &o->seats.arrivals[layer];
    sp_pages_fetch(o->pages, sp_offload_record(o, layer, block, kv_head),
                   bytes_of(o, layer, kv_head, at), &a->group);
    row->seats[at] = (sp_seat){
        .block = block, .birth = sp_kv_birth(o->pool, block), .epoch = o->seats.epoch, .pending = true};
    row->seat_of[block] = (uint32_t)at + 1;
    a->list[a->n++] = (sp_pending){kv_head, at};
    o->stats.n_fetched++;
}

/* -- a layer's choice ----------------------------------------------------------------------- */

/* load_wanted -- for the layer that is about to be computed. */
static int32_t load_wanted(sp_offload *o, int layer, int kv_head, uint32_t block)
{
    sp_row *row = row_of(o, layer, kv_head);
    int32_t at = take_seat(o, row, false);
    if (at < 0) {
        o->seats.lacked = true;
        at = take_spare(o, row);
    }
    if (at >= 0) load(o, layer, kv_head, block, at);
    return at;
}

/* find -- the seat that has the block, or will have it, or -1. SP_SEATS_FORGET finds only pending
 * ones. */
static int32_t find(const sp_offload *o, const sp_row *row, uint32_t block)
{
    const int32_t s = seat_with(o, row, block);
    const bool kept = s >= 0 && !row->seats[s].pending;
    return kept && o->seats.policy == SP_SEATS_FORGET ? -1 : s;
}

/* Two passes: what is found must not lose its seat to what is fetched. */
void sp_offload_want(sp_offload *o, int layer, int kv_head, uint32_t *blocks, int32_t n)
{
    sp_row *row = row_of(o, layer, kv_head);
    const bool is_resident = sp_offload_is_plane_resident(o, layer, kv_head / o->n_cols);
    if (o->seats.waited) o->seats.epoch++;
    o->seats.waited = false;
    if (o->seats.spare_layer != layer) forget_spares(o);
    o->seats.spare_layer = layer;
    int32_t n_missed = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!sp_kv_is_away(o->pool, blocks[i])) continue;
        const int32_t s = find(o, row, blocks[i]);
        o->stats.n_wanted++;
        if (is_resident) {
            o->stats.n_found++;
            continue;
        }
        n_missed += s < 0;
        if (s < 0) continue;
        o->stats.n_found++;
        row->seats[s].epoch = o->seats.epoch;
        row->seats[s].used = true;
        blocks[i] = o->seats.blocks[s];
    }
    for (int32_t i = 0; n_missed && i < n; i++) {
        if (!sp_kv_is_away(o->pool, blocks[i])) continue;
        int32_t s = find(o, row, blocks[i]); /* one block may be in the list twice */
        if (s < 0) s = load_wanted(o, layer, kv_head, blocks[i]);
        if (s >= 0) blocks[i] = o->seats.blocks[s];
    }
}

void sp_offload_ahead(sp_offload *o, int layer, int kv_head, const uint32_t *blocks, int32_t n)
{
    sp_row *row = row_of(o, layer, kv_head);
    const bool is_resident = sp_offload_is_plane_resident(o, layer, kv_head / o->n_cols);
    for (int32_t i = 0; i < n && !is_resident; i++) {
        if (!sp_kv_is_away(o->pool, blocks[i]) || find(o, row, blocks[i]) >= 0) continue;
        const int32_t at = sp_pages_is_full(o->pages) ? -1 : take_seat(o, row, true);
        if (at < 0) return;
        load(o, layer, kv_head, blocks[i], at);
        o->stats.n_ahead++;
    }
}

/* read_again -- a seat whose fetch may have failed. */
static sp_err read_again(sp_offload *o, int layer, sp_pending p)
{
    sp_seat *s = &row_of(o, layer, p.kv_head)->seats[p.seat];
    o->stats.n_retried++;
    sp_err err = sp_pages_read(
        o->pages, &(sp_pages_run){.first = sp_offload_record(o, layer, s->block, p.kv_head),
                                  .n_rows = 1,
                                  .n_cols = 1,
                                  .at = bytes_of(o, layer, p.kv_head, p.seat)});
    if (err != SP_OK) o->damaged = 1 + (int64_t)s->block;
    if (err != SP_OK) *s = (sp_seat){0}; /* I4 */
    return err;
}

sp_err sp_offload_wait(sp_offload *o, int layer)
{
    sp_arrivals *a = &o->seats.arrivals[layer];
    sp_err err = SP_OK;
    o->seats.waited = true;
    if (a->n == 0) return SP_OK;
    const int64_t start = sp_clock_us();
    const bool failed = sp_pages_wait(o->pages, &a->group) > 0;
    for (int32_t i = 0; i < a->n; i++) {
        row_of(o, layer, a->list[i].kv_head)->seats[a->list[i].seat].pending = false;
        if (!failed) continue;
        sp_err e = read_again(o, layer, a->list[i]);
        if (err == SP_OK) err = e;
    }
    a->n = 0;
    o->stats.wait_us += sp_clock_us() - start;
    return err;
}

static void want(void *user, int layer, int kv_head, uint32_t *blocks, int32_t n)
{
    sp_offload_want(user, layer, kv_head, blocks, n);
}

static sp_err wait_for(void *user, int layer)
{
    return sp_offload_wait(user, layer);
}

static void ahead(void *user, int layer, int kv_head, const uint32_t *blocks, int32_t n)
{
    sp_offload_ahead(user, layer, kv_head, blocks, n);
}

sp_block_source sp_offload_source(sp_offload *o, sp_seat_policy policy)
{
    o->seats.policy = policy;
    o->seats.is_sparse = true;
    return (sp_block_source){.want = want, .wait = wait_for, .ahead = ahead, .user = o};
}
