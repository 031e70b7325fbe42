/* read.c -- get: the header and a range of layers in one pass, with as many reads in flight as the
 * arena has room for.
 *
 *   arena   | header | slot 0 | slot 1 | ... |     a slot is one layer, padded
 *
 *   layers  delivered | read | being read | not begun           slot of a layer: layer % n_slots
 *                     ^ in order, once the header is verified
 */
#include <errno.h>
#include <string.h>

#include "kv/segment.h"
#include "store/disk/disk_int.h"

enum { ARENA_BYTES = 8 << 20, MAX_SLOTS = 64 };

typedef struct get {
    sp_disk_tier *d;
    sp_aio *aio;
    sp_tier_op *op;
    sp_disk_place place;
    int fd;
    uint8_t *arena;
    uint64_t head_bytes, layer_bytes; /* padded */
    int n_slots;
    int64_t delivered, begun, end; /* layers; the header counts as layer -1 */
    uint64_t begun_bytes;          /* of layer `begun` */
    uint64_t left[1 + MAX_SLOTS];  /* bytes to come: header, slots */
    sp_aio_piece pieces[SP_AIO_MAX_FLIGHT], *idle[SP_AIO_MAX_FLIGHT];
    int n_idle;
    sp_record record;
    bool refused; /* a callback failed, not the copy */
} get;

/* -- transfers ------------------------------------------------------------------------------ */

static unsigned part_of(const get *g, int64_t layer)
{
    return layer < 0 ? 0 : 1 + (unsigned)(layer % g->n_slots);
}

static uint8_t *data_of(const get *g, int64_t layer)
{
    if (layer < 0) return g->arena;
    return g->arena + g->head_bytes + (uint64_t)(layer % g->n_slots) * g->layer_bytes;
}

static uint64_t offset_of(const get *g, int64_t layer)
{
    const uint64_t at = (uint64_t)g->place.page * SP_PAGE;
    return layer < 0 ? at : at + g->head_bytes + (uint64_t)layer * g->layer_bytes;
}

static uint64_t bytes_of(const get *g, int64_t layer)
{
    return layer < 0 ? g->head_bytes : g->layer_bytes;
}

/* may_begin -- whether a layer is left to read and a slot is free. */
static bool may_begin(const get *g)
{
    return g->begun < g->end && g->n_idle > 0 &&
           (g->begun < 0 || g->begun < g->delivered + g->n_slots);
}

static void begin_piece(get *g)
{
    const int64_t layer = g->begun;
    const uint64_t n = bytes_of(g, layer);
    const unsigned part = part_of(g, layer);
    sp_aio_piece *p = g->idle[--g->n_idle];
    if (g->begun_bytes == 0) g->left[part] = n;
    *p = (sp_aio_piece){.fd = g->fd,
                        .offset = offset_of(g, layer) + g->begun_bytes,
                        .data = data_of(g, layer) + g->begun_bytes,
                        .n = (uint32_t)SP_MIN(n - g->begun_bytes, (uint64_t)SP_AIO_PIECE_BYTES),
                        .tag = part};
    g->begun_bytes += p->n;
    if (g->begun_bytes == n) {
        g->begun_bytes = 0;
        g->begun = layer < 0 ? g->delivered : layer + 1;
    }
    sp_aio_submit(g->aio, p);
}

static sp_err end_piece(get *g, sp_aio_piece *p)
{
    g->idle[g->n_idle++] = p;
    g->left[p->tag] -= p->n;
    if (p->error == 0) return SP_OK;
    if (p->error == ENODATA) return sp_fail(SP_E_FORMAT, "damaged: the segment ends early");
    return sp_fail(SP_E_IO, "%s/%08x.kv: cannot read: %s", g->d->folder, g->place.segment,
                   strerror(p->error));
}

/* -- what was read -------------------------------------------------------------------------- */

/* check_head -- checks that the record is the copy named in the index. */
static sp_err check_head(get *g)
{
    sp_record *r = &g->record;
    const sp_tier_key *wanted = &g->op->job.key;
    SP_TRY(sp_record_read(g->arena, g->head_bytes, r));
    if (!sp_digest_eq(&r->space, &g->d->space))
        return sp_fail(SP_E_FORMAT, "a copy of another namespace");
    const sp_tier_key key = sp_tier_key_of(r);
    const sp_record_layout l = sp_record_layout_of(r);
    if (sp_digest_eq(&key.id, &wanted->id) && key.head == wanted->head &&
        key.kind == wanted->kind && l.head_pages == g->place.head_pages &&
        l.pages == g->place.pages && (uint32_t)r->n_layers == g->place.n_layers)
        return SP_OK;
    return sp_fail(SP_E_FORMAT, "not the copy that the index names");
}

static sp_err refuse(get *g, sp_err err)
{
    g->refused = err != SP_OK;
    return err;
}

static sp_err deliver_head(get *g)
{
    const sp_tier_job *job = &g->op->job;
    SP_TRY(check_head(g));
    if (g->end > g->record.n_layers)
        return refuse(g, sp_fail(SP_E_ARG, "layer %lld of a copy of %d layers",
                                 (long long)g->end - 1, g->record.n_layers));
    return job->head ? refuse(g, job->head(job->user, &g->record)) : SP_OK;
}

static sp_err deliver_layer(get *g)
{
    const sp_tier_job *job = &g->op->job;
    const sp_record *r = &g->record;
    uint8_t *data = data_of(g, g->delivered);
    if (sp_tier_op_is_cancelled(g->op))
        return refuse(g, sp_fail(SP_E_CANCELED, "a load was cancelled"));
    if (!sp_layer_sum_eq(sp_layer_sum_of(data, g->record.layer_bytes),
                         g->record.sums[g->delivered]))
        return sp_fail(SP_E_FORMAT, "damaged: the checksum of layer %lld is wrong",
                       (long long)g->delivered);
    if (r->facts.note_bytes && !sp_record_notes_ok(r, (int)g->delivered, data))
        memset(data + r->layer_bytes, 0, r->facts.note_bytes); /* derived again */
    if (job->sink) SP_TRY(refuse(g, job->sink(job->user, (int)g->delivered, data)));
    g->delivered++;
    return SP_OK;
}

static sp_err read_parts(get *g)
{
    bool has_head = false;
    sp_err err = SP_OK;
    for (;;) {
        while (err == SP_OK && may_begin(g)) begin_piece(g);
        if (err == SP_OK && !has_head && g->left[0] == 0) {
            err = deliver_head(g);
            has_head = true;
            continue;
        }
        if (err == SP_OK && has_head && g->delivered < g->begun &&
            g->left[part_of(g, g->delivered)] == 0) {
            err = deliver_layer(g);
            continue;
        }
        sp_aio_piece *p = sp_aio_wait(g->aio);
        if (!p) return err;
        sp_err one = end_piece(g, p);
        if (err == SP_OK) err = one;
    }
}

static sp_err prepare(get *g)
{
    const sp_tier_job *job = &g->op->job;
    const sp_disk_place *at = &g->place;
    if (job->first < 0 || job->n_layers < 0 ||
        (uint32_t)job->first + (uint32_t)job->n_layers > at->n_layers)
        return refuse(g, sp_fail(SP_E_ARG, "layers %d to %d of a copy of %u layers", job->first,
                                 job->first + job->n_layers - 1, at->n_layers));
    g->head_bytes = (uint64_t)at->head_pages * SP_PAGE;
    g->layer_bytes = (uint64_t)(at->pages - at->head_pages) / at->n_layers * SP_PAGE;
    g->n_slots = (int)SP_MIN((uint64_t)MAX_SLOTS, SP_MAX(ARENA_BYTES / g->layer_bytes, 2u));
    g->n_slots = SP_MAX(SP_MIN(g->n_slots, job->n_layers), 1);
    g->begun = -1;
    g->delivered = job->first;
    g->end = (int64_t)job->first + job->n_layers;
    g->left[0] = UINT64_MAX;
    for (int i = 0; i < SP_AIO_MAX_FLIGHT; i++) g->idle[i] = &g->pieces[i];
    g->n_idle = SP_AIO_MAX_FLIGHT;
    size_t n = g->head_bytes + (job->n_layers ? (size_t)g->n_slots * g->layer_bytes : 0);
    return sp_aio_arena(g->aio, SP_MAX(n, (size_t)ARENA_BYTES), &g->arena);
}

/* -- one operation -------------------------------------------------------------------------- */

/* find -- looks up where the copy is and pins its segment. Reading layers counts as a use, reading only the header
 * does not. */
static sp_err find(sp_disk_tier *d, const sp_tier_job *job, sp_disk_place *place,
                   sp_segment_file **file)
{
    sp_err err = SP_E_NOTFOUND;
    pthread_mutex_lock(&d->lock);
    uint32_t i = sp_table_find(&d->table, &job->key);
    if (i != SP_NO_ENTRY) {
        *place = d->table.entries.v[i].place;
        *file = sp_segments_find(&d->segments, place->segment);
        if (job->n_layers) sp_table_touch(&d->table, i);
        if (job->n_layers && d->evict.used) d->evict.used(d->evict.user, &job->key, false);
        d->used |= job->n_layers > 0;
        err = sp_segments_pin(&d->segments, *file, d->lock_fd >= 0, false, &d->lock);
        if (err == SP_E_NOTFOUND) err = SP_E_FORMAT; /* the index names a file that is not there */
    } else {
        *place = (sp_disk_place){0};
        err = sp_fail(SP_E_NOTFOUND, "no such copy");
    }
    pthread_mutex_unlock(&d->lock);
    return err;
}

static void unpin(sp_disk_tier *d, sp_segment_file *file)
{
    pthread_mutex_lock(&d->lock);
    sp_segments_unpin(&d->segments, file);
    pthread_mutex_unlock(&d->lock);
}

/* try_get -- *is_lost: the copy at *place is damaged or not there. */
static sp_err try_get(sp_disk_reader *r, sp_tier_op *op, sp_disk_place *place, bool *is_lost)
{
    get g = {.d = r->tier, .aio = r->aio, .op = op};
    sp_segment_file *file = NULL;
    sp_err err = find(g.d, &op->job, place, &file);
    *is_lost = err == SP_E_FORMAT || err == SP_E_NOTFOUND;
    if (err != SP_OK) return err;
    g.place = *place;
    g.fd = file->fd;
    err = prepare(&g);
    if (err == SP_OK) err = read_parts(&g);
    *is_lost = err == SP_E_FORMAT && !g.refused;
    unpin(g.d, file);
    if (err == SP_OK) {
        pthread_mutex_lock(&g.d->lock);
        g.d->stats.n_got++;
        g.d->stats.bytes_read +=
            (int64_t)(g.head_bytes + (uint64_t)op->job.n_layers * g.layer_bytes);
        pthread_mutex_unlock(&g.d->lock);
    }
    return err;
}

static sp_err run_get(sp_disk_reader *r, sp_tier_op *op)
{
    sp_disk_tier *d = r->tier;
    sp_disk_place place;
    bool is_lost;
    sp_err err = try_get(r, op, &place, &is_lost);
    if (is_lost && d->lock_fd < 0 && sp_disk_refresh(d) == SP_OK) {
        err = try_get(r, op, &place, &is_lost); /* the index was old, or the copy is really lost */
    }
    if (is_lost && err != SP_E_NOTFOUND) sp_disk_quarantine(d, &op->job.key, &place);
    pthread_mutex_lock(&d->lock);
    d->stats.n_missed += err == SP_E_NOTFOUND;
    d->stats.n_failed += err != SP_OK && err != SP_E_NOTFOUND && err != SP_E_CANCELED && !is_lost;
    pthread_mutex_unlock(&d->lock);
    return err;
}

/* run_list -- lists a copy of the index, so that a slow `each` does not hold the lock. */
static sp_err run_list(sp_disk_tier *d, sp_tier_op *op)
{
    SP_VEC(sp_tier_info) all = {0};
    SP_TRY(sp_disk_refresh(d));
    pthread_mutex_lock(&d->lock);
    sp_err err = sp_vec_reserve(&all, d->table.n);
    for (uint32_t i = d->table.oldest; err == SP_OK && i != SP_NO_ENTRY;) {
        const sp_entry *e = &d->table.entries.v[i];
        all.v[all.n++] = sp_disk_info_of(&e->key, &e->place);
        i = e->newer;
    }
    pthread_mutex_unlock(&d->lock);
    if (err == SP_OK) err = sp_tier_op_list(op, all.v, all.n);
    sp_vec_fini(&all);
    return err;
}

static sp_err run(sp_disk_reader *r, sp_tier_op *op)
{
    SP_TRY(sp_tier_op_begin(op));
    return op->job.verb == SP_TIER_LIST ? run_list(r->tier, op) : run_get(r, op);
}

void *sp_disk_read_thread(void *arg)
{
    sp_disk_reader *r = arg;
    for (sp_tier_op *op; (op = sp_op_queue_pop(&r->tier->reads, true));)
        sp_tier_op_finish(op, run(r, op));
    return NULL;
}
