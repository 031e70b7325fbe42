/* write.c -- put and drop on the one writing thread. Records are written first; many share one sync
 * and one append to the index. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "store/disk/disk_int.h"
#include "store/files.h"

enum { ARENA_BYTES = 8 << 20, MAX_SLOTS = 64 };

/* -- space in segments ---------------------------------------------------------------------- */

void sp_disk_leave_segment(sp_disk_tier *d)
{
    sp_err err = sp_disk_commit(d); /* it told the operations */
    SP_UNUSED(err);
    if (!d->writing.active) return;
    pthread_mutex_lock(&d->lock);
    sp_segments_unpin(&d->segments, d->writing.active);
    pthread_mutex_unlock(&d->lock);
    d->writing.active = NULL;
}

static sp_err begin_segment(sp_disk_tier *d)
{
    sp_segment_file *f = NULL;
    pthread_mutex_lock(&d->lock);
    sp_err err = sp_segments_need(&d->segments, d->writing.next_segment, &f);
    if (err == SP_OK) {
        err = sp_segments_pin(&d->segments, f, true, true, &d->lock);
        if (err != SP_OK) sp_segments_remove(&d->segments, f, false, &d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    if (err == SP_E_NOTFOUND) err = SP_E_IO; /* the folder is gone */
    SP_TRY(err);
    d->writing.next_segment++;
    d->writing.active = f;
    d->writing.new_segment = true;
    return SP_OK;
}

/* claim -- asks for the disk space before anything is written. */
static sp_err claim(const sp_disk_tier *d, const sp_disk_place *place)
{
    int error = 0;
    if (!sp_store_fails(SP_CALL_WRITE, &error) &&
        fallocate(d->writing.active->fd, 0, (off_t)place->page * SP_PAGE, (off_t)place->pages * SP_PAGE) !=
            0)
        error = errno;
    if (error == 0 || error == EOPNOTSUPP || error == ENOSYS || error == EINTR) return SP_OK;
    return sp_fail(SP_E_IO, "%s/%08x.kv: cannot write: %s", d->folder, place->segment,
                   strerror(error));
}

sp_err sp_disk_allocate(sp_disk_tier *d, uint32_t pages, sp_disk_place *out)
{
    if (d->writing.active && d->writing.active->end && d->writing.active->end + pages > d->segment_pages)
        sp_disk_leave_segment(d);
    if (!d->writing.active) SP_TRY(begin_segment(d));
    *out = (sp_disk_place){
        .segment = d->writing.active->number, .page = (uint32_t)d->writing.active->end, .pages = pages};
    SP_TRY(claim(d, out));
    pthread_mutex_lock(&d->lock);
    d->writing.active->end += pages;
    pthread_mutex_unlock(&d->lock);
    return SP_OK;
}

void sp_disk_give_back(sp_disk_tier *d, const sp_disk_place *place)
{
    pthread_mutex_lock(&d->lock);
    if (d->writing.active && d->writing.active->number == place->segment &&
        d->writing.active->end == (uint64_t)place->page + place->pages) {
        d->writing.active->end = place->page;
        d->writing.active->tail = true;
    }
    pthread_mutex_unlock(&d->lock);
}

/* -- one record ----------------------------------------------------------------------------- */

typedef struct put {
    sp_disk_tier *d;
    sp_tier_op *op;
    sp_record_layout layout;
    sp_disk_place place;
    uint8_t *arena;
    sp_layer_sum *sums;
    int n_slots;
    int left[1 + MAX_SLOTS]; /* pieces in flight: of the header, of each slot */
    sp_aio_piece pieces[SP_AIO_MAX_FLIGHT], *idle[SP_AIO_MAX_FLIGHT];
    int n_idle;
} put;

static sp_err wait_piece(put *w)
{
    sp_aio_piece *p = sp_aio_wait(w->d->writing.aio);
    w->idle[w->n_idle++] = p;
    w->left[p->tag]--;
    if (p->error == 0) return SP_OK;
    return sp_fail(SP_E_IO, "%s/%08x.kv: cannot write: %s", w->d->folder, w->place.segment,
                   strerror(p->error));
}

/* write_part -- begins to write; the data must stay until left[part] is 0. */
static sp_err write_part(put *w, unsigned part, uint8_t *data, uint64_t page, uint64_t pages)
{
    const uint64_t n = pages * SP_PAGE;
    for (uint64_t at = 0; at < n;) {
        if (w->n_idle == 0) SP_TRY(wait_piece(w));
        sp_aio_piece *p = w->idle[--w->n_idle];
        *p = (sp_aio_piece){.fd = w->d->writing.active->fd,
                            .write = true,
                            .offset = page * SP_PAGE + at,
                            .data = data + at,
                            .n = (uint32_t)SP_MIN(n - at, (uint64_t)SP_AIO_PIECE_BYTES),
                            .tag = part};
        at += p->n;
        w->left[part]++;
        sp_aio_submit(w->d->writing.aio, p);
    }
    return SP_OK;
}

static sp_err write_layer(put *w, int layer)
{
    const sp_tier_job *job = &w->op->job;
    const uint64_t padded = (uint64_t)w->layout.layer_pages * SP_PAGE, n = job->record->layer_bytes,
                   notes = job->record->facts.note_bytes;
    const unsigned slot = (unsigned)(layer % w->n_slots);
    uint8_t *data = w->arena + (uint64_t)w->layout.head_pages * SP_PAGE + slot * padded;
    if (sp_tier_op_is_cancelled(w->op)) return sp_fail(SP_E_CANCELED, "a put was cancelled");
    while (w->left[1 + slot]) SP_TRY(wait_piece(w));
    SP_TRY(job->source(job->user, layer, data));
    memset(data + n + notes, 0, padded - n - notes);
    w->sums[layer] = sp_layer_sum_of(data, n);
    if (notes) w->sums[job->record->n_layers + layer] = sp_layer_sum_of(data + n, notes);
    return write_part(w, 1 + slot, data,
                      w->place.page + w->layout.head_pages +
                          (uint64_t)layer * w->layout.layer_pages,
                      w->layout.layer_pages);
}

static sp_err write_parts(put *w)
{
    const sp_record *r = w->op->job.record;
    sp_err err = SP_OK;
    for (int i = 0; i < r->n_layers && err == SP_OK; i++) err = write_layer(w, i);
    if (err == SP_OK && sp_tier_op_is_cancelled(w->op)) /* the records read last may already be lost */
        err = sp_fail(SP_E_CANCELED, "a put was cancelled");
    if (err == SP_OK) err = sp_record_write(r, w->sums, w->arena);
    if (err == SP_OK) err = write_part(w, 0, w->arena, w->place.page, w->layout.head_pages);
    while (w->n_idle < SP_AIO_MAX_FLIGHT) {
        sp_err one = wait_piece(w);
        if (err == SP_OK) err = one;
    }
    return err;
}

static sp_err write_record(put *w)
{
    const sp_record *r = w->op->job.record;
    const uint64_t layer = (uint64_t)w->layout.layer_pages * SP_PAGE;
    const uint64_t head = (uint64_t)w->layout.head_pages * SP_PAGE;
    w->n_slots = (int)SP_MIN((uint64_t)MAX_SLOTS, SP_MAX(ARENA_BYTES / layer, 2u));
    w->n_slots = SP_MIN(w->n_slots, r->n_layers);
    for (int i = 0; i < SP_AIO_MAX_FLIGHT; i++) w->idle[i] = &w->pieces[i];
    w->n_idle = SP_AIO_MAX_FLIGHT;
    size_t n = head + (uint64_t)w->n_slots * layer;
    SP_TRY(sp_aio_arena(w->d->writing.aio, SP_MAX(n, (size_t)ARENA_BYTES), &w->arena));
    const size_t n_sums = (size_t)sp_record_n_sums(r);
    w->sums = sp_alloc(n_sums, sizeof *w->sums);
    if (!w->sums) return sp_fail_nomem("checksums");
    sp_err err = write_parts(w);
    sp_free(w->sums);
    return err;
}

/* -- the index ------------------------------------------------------------------------------ */

static bool moves(const sp_disk_pending *p)
{
    return p->line.event == SP_EVENT_PUT && !p->op;
}

/* is_gone -- whether a copy was found damaged while it was moved. Only this thread could have put it again. Called
 * with the lock held. */
static bool is_gone(const sp_disk_tier *d, const sp_disk_pending *p)
{
    return moves(p) && sp_table_find(&d->table, &p->line.key) == SP_NO_ENTRY;
}

/* is_put -- whether the table has the copy, or one of the first n pending lines puts it. Called with the lock held. */
static bool is_put(const sp_disk_tier *d, const sp_tier_key *key, int n)
{
    bool found = sp_table_find(&d->table, key) != SP_NO_ENTRY;
    for (int i = 0; i < n && !found; i++) {
        const sp_disk_pending *p = &d->writing.pending[i];
        found = p->line.event == SP_EVENT_PUT && sp_tier_key_eq(&p->line.key, key) && !is_gone(d, p);
    }
    return found;
}

/* needs_line -- not of a copy that is gone: after its erasure, a line would be a trace. Called with the lock held. */
static bool needs_line(const sp_disk_tier *d, int i)
{
    const sp_disk_pending *p = &d->writing.pending[i];
    return p->line.event == SP_EVENT_DROP ? is_put(d, &p->line.key, i) : !is_gone(d, p);
}

/* enter -- appends the lines and applies all of them or none. Holding journal_lock prevents that a copy is marked
 * damaged in between. */
static sp_err enter(sp_disk_tier *d)
{
    sp_journal_line lines[SP_DISK_BATCH];
    size_t n = 0;
    pthread_mutex_lock(&d->journal_lock);
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < d->writing.n_pending; i++)
        if (needs_line(d, i)) lines[n++] = d->writing.pending[i].line;
    sp_err err = sp_table_reserve(&d->table, n);
    pthread_mutex_unlock(&d->lock);
    if (err == SP_OK && n) err = sp_journal_append(&d->journal, lines, n, false);
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < d->writing.n_pending && err == SP_OK; i++) {
        const sp_disk_pending *p = &d->writing.pending[i];
        if (is_gone(d, p)) continue;
        err = sp_disk_apply(d, &p->line); /* cannot fail: all is reserved */
        assert(err == SP_OK);
        d->stats.n_put += p->op && p->line.event == SP_EVENT_PUT;
        d->stats.n_dropped += p->op && p->line.event == SP_EVENT_DROP;
        d->stats.n_evicted += !p->op && p->line.event == SP_EVENT_DROP;
        d->stats.bytes_written += p->bytes;
        d->stats.bytes_moved += moves(p) ? (int64_t)p->line.place.pages * SP_PAGE : 0;
    }
    d->stats.n_failed += err == SP_OK ? 0 : (int64_t)n;
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_unlock(&d->journal_lock);
    return err;
}

static sp_err sync_segment(sp_disk_tier *d)
{
    bool has_data = false;
    for (int i = 0; i < d->writing.n_pending; i++) has_data |= d->writing.pending[i].line.event == SP_EVENT_PUT;
    if (!has_data) return SP_OK;
    SP_TRY(sp_files_sync(d->writing.active->fd, d->folder));
    if (d->writing.new_segment) SP_TRY(sp_files_sync_folder(d->folder));
    d->writing.new_segment = false;
    return SP_OK;
}

sp_err sp_disk_commit(sp_disk_tier *d)
{
    if (d->writing.n_pending == 0) return SP_OK;
    char why[256] = "";
    sp_err err = sync_segment(d);
    if (err == SP_OK) err = enter(d);
    if (err != SP_OK) snprintf(why, sizeof why, "%s", sp_error_detail());
    const int n = d->writing.n_pending;
    d->writing.n_pending = 0;
    for (int i = 0; i < n; i++) {
        const sp_disk_pending *p = &d->writing.pending[i];
        if (err == SP_OK && !p->op && p->line.event == SP_EVENT_DROP && d->evict.dropped)
            d->evict.dropped(d->evict.user, &p->line.key);
        if (p->op) sp_tier_op_finish(p->op, err == SP_OK ? SP_OK : sp_fail(err, "%s", why));
    }
    if (err == SP_OK) return SP_OK;
    sp_disk_leave_segment(d); /* what failed to sync is not written over */
    return sp_fail(err, "%s", why);
}

void sp_disk_add_pending(sp_disk_tier *d, const sp_disk_pending *p)
{
    d->writing.pending[d->writing.n_pending++] = *p;
    if (d->writing.n_pending < SP_DISK_BATCH) return;
    sp_err err = sp_disk_commit(d); /* it told the operations */
    SP_UNUSED(err);
}

/* -- operations ----------------------------------------------------------------------------- */

static sp_err check_writable(const sp_disk_tier *d)
{
    return d->lock_fd >= 0 ? SP_OK : sp_fail(SP_E_IO, "%s: %s", d->folder, d->refused);
}

static sp_err run_put(sp_disk_tier *d, sp_tier_op *op)
{
    put w = {.d = d, .op = op};
    sp_record r = *op->job.record;
    SP_TRY(check_writable(d));
    if (!sp_digest_eq(&r.space, &d->space))
        return sp_fail(SP_E_ARG, "%s: a copy of another namespace", d->folder);
    w.layout = sp_record_layout_of(&r);
    const uint64_t bytes = w.layout.pages * SP_PAGE;
    if (w.layout.pages > UINT32_MAX / 2 || (d->max_bytes && bytes > (uint64_t)d->max_bytes))
        return sp_fail(SP_E_LIMIT, "%s: a copy of %llu bytes in a budget of %lld", d->folder,
                       (unsigned long long)bytes, (long long)d->max_bytes);
    SP_TRY(sp_disk_make_room(d, (uint64_t)d->max_bytes, bytes));
    SP_TRY(sp_disk_check_reserve(d, bytes));
    SP_TRY(sp_disk_allocate(d, (uint32_t)w.layout.pages, &w.place));
    sp_err err = write_record(&w);
    if (err != SP_OK) {
        sp_disk_give_back(d, &w.place);
        return err;
    }
    w.place.head_pages = w.layout.head_pages;
    w.place.n_layers = (uint32_t)r.n_layers;
    w.place.n = r.n;
    w.place.facts = sp_tier_facts_of(&r);
    w.place.cost_us = r.facts.cost_us;
    sp_disk_add_pending(d, &(sp_disk_pending){.op = op,
                                              .line = {SP_EVENT_PUT, op->job.key, w.place},
                                              .bytes = (int64_t)bytes});
    return SP_OK;
}

/* has_all -- the copies that a put continues are there, as lines of the index. */
static sp_err has_all(sp_disk_tier *d, const sp_tier_key *keys, int n)
{
    SP_TRY(sp_disk_commit(d)); /* one of them may be pending */
    bool all = true;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < n && all; i++) all = sp_table_find(&d->table, &keys[i]) != SP_NO_ENTRY;
    pthread_mutex_unlock(&d->lock);
    return all ? SP_OK
               : sp_fail(SP_E_NOTFOUND, "the store lacks the copy that this one continues");
}

/* run_put_after -- a put that never evicts a copy that it continues. It is committed at once: before that, the index
 * does not know that the copy continues another. */
static sp_err run_put_after(sp_disk_tier *d, sp_tier_op *op)
{
    const sp_tier_key key = op->job.key, after = op->job.after[op->job.n_after - 1];
    const sp_tier_evict *e = &d->evict;
    SP_TRY(check_writable(d));
    SP_TRY(has_all(d, op->job.after, op->job.n_after));
    if (e->coming) e->coming(e->user, &key, &after);
    sp_err err = run_put(d, op);
    if (err == SP_OK) {
        sp_err told = sp_disk_commit(d); /* it told the operation */
        SP_UNUSED(told);
    }
    if (e->coming) e->coming(e->user, NULL, NULL);
    return err;
}

static sp_err run_drop(sp_disk_tier *d, sp_tier_op *op)
{
    SP_TRY(check_writable(d));
    sp_disk_add_pending(
        d, &(sp_disk_pending){.op = op, .line = {.event = SP_EVENT_DROP, .key = op->job.key}});
    return SP_OK;
}

/* run_erase -- finishes the operation, unless it fails. */
static sp_err run_erase(sp_disk_tier *d, sp_tier_op *op)
{
    SP_TRY(check_writable(d));
    SP_TRY(sp_disk_erase(d));
    sp_tier_op_finish(op, SP_OK);
    return SP_OK;
}

/* run_trim -- as run_erase. Nothing is left to reclaim afterwards, since that takes space for a while. */
static sp_err run_trim(sp_disk_tier *d, sp_tier_op *op)
{
    SP_TRY(check_writable(d));
    do {
        SP_TRY(sp_disk_make_room(d, (uint64_t)SP_MAX(op->job.max_bytes, 1), 0));
    } while (sp_disk_tidy(d));
    sp_tier_op_finish(op, SP_OK);
    return SP_OK;
}

/* run_sync -- as run_erase. Operations that failed to commit report it themselves. */
static sp_err run_sync(sp_disk_tier *d, sp_tier_op *op)
{
    sp_err err = sp_disk_commit(d);
    SP_UNUSED(err);
    sp_tier_op_finish(op, SP_OK);
    return SP_OK;
}

static sp_err run_verb(sp_disk_tier *d, sp_tier_op *op)
{
    SP_TRY(sp_tier_op_begin(op));
    switch (op->job.verb) {
    case SP_TIER_PUT:
        return op->job.n_after ? run_put_after(d, op) : run_put(d, op);
    case SP_TIER_SYNC:
        return run_sync(d, op);
    case SP_TIER_ERASE:
        return run_erase(d, op);
    case SP_TIER_TRIM:
        return run_trim(d, op);
    default:
        return run_drop(d, op);
    }
}

static void run(sp_disk_tier *d, sp_tier_op *op)
{
    sp_err err = run_verb(d, op);
    if (err == SP_OK) return; /* finished, or pending: commit finishes it */
    pthread_mutex_lock(&d->lock);
    d->stats.n_failed += err != SP_E_CANCELED;
    pthread_mutex_unlock(&d->lock);
    sp_tier_op_finish(op, err);
}

void *sp_disk_write_thread(void *arg)
{
    sp_disk_tier *d = arg;
    for (;;) {
        sp_tier_op *op = sp_op_queue_pop(&d->writing.queue, false);
        if (op) {
            run(d, op);
            continue;
        }
        sp_err err = sp_disk_commit(d); /* it told the operations */
        SP_UNUSED(err);
        if (sp_disk_tidy(d)) continue;
        op = sp_op_queue_pop(&d->writing.queue, true);
        if (!op) break;
        run(d, op);
    }
    return NULL;
}
