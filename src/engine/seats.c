/* seats.c -- where sparse steps read records that are away: a cache with the clock as its policy.
 *
 *   want    in a seat: found           else: the hand finds a seat, a fetch begins
 *   wait    the layer's fetches are over; failed ones are read once more
 *
 * Invariants
 *  I1  a seat that this layer wanted (epoch) or whose fetch is under way (pending) is not taken.
 *  I2  a seat counts for a block only while the block's birth is the one that was fetched.
 *  I3  the seats of the layer that is computed are emptied between steps only.
 *  I4  after an error no seat of the failed layer counts. */
#include "engine/offload_int.h"

#include "base/clock.h"
#include "base/mem.h"

sp_err sp_seats_create(sp_offload *o)
{
    const int n_lists = o->shape.n_layers * o->shape.n_heads;
    const size_t n = (size_t)o->n_seats;
    o->seats = SP_NEW_N(uint32_t, n);
    o->rows = SP_NEW_N(sp_row, (size_t)n_lists);
    o->arrivals = SP_NEW_N(sp_arrivals, (size_t)o->shape.n_layers);
    if (!o->seats || !o->rows || !o->arrivals)
        return sp_fail_nomem(n * sizeof(uint32_t), "seats for KV records");
    for (int i = 0; i < n_lists; i++) {
        o->rows[i].seats = SP_NEW_N(sp_seat, n);
        o->rows[i].seat_of = SP_NEW_N(uint32_t, (size_t)o->n_blocks);
        if (!o->rows[i].seats || !o->rows[i].seat_of)
            return sp_fail_nomem(n * sizeof(sp_seat), "seats for KV records");
    }
    for (int l = 0; l < o->shape.n_layers; l++) {
        o->arrivals[l].list = SP_NEW_N(sp_pending, n * (size_t)o->shape.n_heads);
        if (!o->arrivals[l].list)
            return sp_fail_nomem(n * sizeof(sp_pending), "seats for KV records");
    }
    SP_TRY(sp_kv_acquire(o->pool, o->n_seats, o->seats));
    o->epoch = 1;
    return SP_OK;
}

void sp_seats_destroy(sp_offload *o)
{
    for (int l = 0; o->arrivals && l < o->shape.n_layers; l++) {
        sp_pages_wait(o->pages, &o->arrivals[l].group);
        sp_free(o->arrivals[l].list);
    }
    for (int i = 0; o->rows && i < o->shape.n_layers * o->shape.n_heads; i++) {
        sp_free(o->rows[i].seats);
        sp_free(o->rows[i].seat_of);
    }
    if (o->epoch) sp_kv_release(o->pool, o->seats, o->n_seats);
    sp_free(o->arrivals);
    sp_free(o->rows);
    sp_free(o->seats);
}

void sp_seats_empty(sp_offload *o, int but_layer)
{
    for (int l = 0; l < o->shape.n_layers; l++) {
        if (l == but_layer) continue;
        sp_pages_wait(o->pages, &o->arrivals[l].group);
        o->arrivals[l].n = 0;
        for (int g = 0; g < o->shape.n_heads; g++)
            for (int32_t s = 0; s < o->n_seats; s++)
                o->rows[l * o->shape.n_heads + g].seats[s] = (sp_seat){0};
        for (int32_t s = 0; s < o->n_seats; s++)
            sp_kv_drop_contents(o->pool, l, o->seats[s]);
    }
}

/* -- seats of a row ------------------------------------------------------------------------- */

static sp_row *row_of(const sp_offload *o, int layer, int kv_head)
{
    return &o->rows[layer * o->shape.n_heads + kv_head];
}

/* seat_with -- the seat that has or is to have the block, or -1. */
static int32_t seat_with(const sp_offload *o, const sp_row *row, uint32_t block)
{
    const int32_t s = (int32_t)row->seat_of[block] - 1;
    if (s < 0 || row->seats[s].block != block) return -1;
    return row->seats[s].birth == sp_kv_birth(o->pool, block) ? s : -1; /* I2 */
}

/* take_seat -- the next that was not wanted since the hand last passed, or -1. */
static int32_t take_seat(sp_offload *o, sp_row *row)
{
    for (int32_t i = 0; i < 2 * o->n_seats; i++) {
        const int32_t at = row->hand;
        sp_seat *s = &row->seats[at];
        row->hand = at + 1 < o->n_seats ? at + 1 : 0;
        if (s->pending || (s->birth && s->epoch == o->epoch)) continue; /* I1 */
        if (!s->used) return at;
        s->used = false;
    }
    return -1;
}

static uint8_t *bytes_of(const sp_offload *o, int layer, int kv_head, int32_t seat)
{
    return sp_kv_pool_bytes_at(o->pool, layer, o->seats[seat]) + (size_t)kv_head * o->record_bytes;
}

/* load -- begins to fetch a block into a seat of the row, or -1. */
static int32_t load(sp_offload *o, int layer, int kv_head, uint32_t block)
{
    sp_row *row = row_of(o, layer, kv_head);
    sp_arrivals *a = &o->arrivals[layer];
    const int32_t at = take_seat(o, row);
    if (at < 0) return -1;
    row->seats[at] = (sp_seat){0};
    if (!sp_pages_fetch(o->pages, sp_offload_record(o, layer, block, kv_head),
                        bytes_of(o, layer, kv_head, at), &a->group))
        return -1;
    row->seats[at] = (sp_seat){
        .block = block, .birth = sp_kv_birth(o->pool, block), .epoch = o->epoch, .pending = true};
    row->seat_of[block] = (uint32_t)at + 1;
    a->list[a->n++] = (sp_pending){kv_head, at};
    o->stats.n_fetched++;
    return at;
}

/* -- a layer's choice ----------------------------------------------------------------------- */

/* Two passes: what is found must not lose its seat to what is fetched. Without `keeps` only what was
 * fetched ahead, or for this step, is found. */
static void want_blocks(sp_offload *o, int layer, int kv_head, uint32_t *blocks, int32_t n,
                        bool keeps)
{
    sp_row *row = row_of(o, layer, kv_head);
    if (o->waited) o->epoch++;
    o->waited = false;
    int32_t n_missed = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!sp_kv_is_away(o->pool, blocks[i])) continue;
        int32_t s = seat_with(o, row, blocks[i]);
        if (s >= 0 && !keeps && !row->seats[s].pending) s = -1;
        o->stats.n_wanted++;
        if (o->is_resident[layer]) {
            o->stats.n_found++;
            continue;
        }
        n_missed += s < 0;
        if (s < 0) continue;
        o->stats.n_found++;
        row->seats[s].epoch = o->epoch;
        row->seats[s].used = true;
        blocks[i] = o->seats[s];
    }
    for (int32_t i = 0; n_missed && i < n; i++) {
        if (!sp_kv_is_away(o->pool, blocks[i])) continue;
        int32_t s = seat_with(o, row, blocks[i]); /* one block may be in the list twice */
        if (s >= 0 && !keeps && !row->seats[s].pending) s = -1;
        if (s < 0) s = load(o, layer, kv_head, blocks[i]);
        if (s >= 0) blocks[i] = o->seats[s];
    }
}

void sp_offload_want(sp_offload *o, int layer, int kv_head, uint32_t *blocks, int32_t n)
{
    want_blocks(o, layer, kv_head, blocks, n, true);
}

static void fetch_ahead(sp_offload *o, int layer, int kv_head, const uint32_t *blocks, int32_t n,
                        bool keeps)
{
    const sp_row *row = row_of(o, layer, kv_head);
    for (int32_t i = 0; i < n && !o->is_resident[layer]; i++) {
        const int32_t s = seat_with(o, row, blocks[i]);
        if (!sp_kv_is_away(o->pool, blocks[i])) continue;
        if (s >= 0 && (keeps || row->seats[s].pending)) continue;
        if (load(o, layer, kv_head, blocks[i]) < 0) return;
        o->stats.n_ahead++;
    }
}

void sp_offload_ahead(sp_offload *o, int layer, int kv_head, const uint32_t *blocks, int32_t n)
{
    fetch_ahead(o, layer, kv_head, blocks, n, true);
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
    if (err != SP_OK) *s = (sp_seat){0}; /* I4 */
    return err;
}

sp_err sp_offload_wait(sp_offload *o, int layer)
{
    sp_arrivals *a = &o->arrivals[layer];
    sp_err err = SP_OK;
    o->waited = true;
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

static void want_anew(void *user, int layer, int kv_head, uint32_t *blocks, int32_t n)
{
    want_blocks(user, layer, kv_head, blocks, n, false);
}

static void ahead_anew(void *user, int layer, int kv_head, const uint32_t *blocks, int32_t n)
{
    fetch_ahead(user, layer, kv_head, blocks, n, false);
}

sp_block_source sp_offload_source(sp_offload *o, bool keeps)
{
    return (sp_block_source){.want = keeps ? want : want_anew,
                             .wait = wait_for,
                             .ahead = keeps ? ahead : ahead_anew,
                             .user = o};
}
