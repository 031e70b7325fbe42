/* space.c -- the budget of the disk tier, and moving copies out of segments that are mostly dead. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "store/disk/disk_int.h"
#include "store/disk/folder.h"

enum { ARENA_BYTES = 8 << 20, FEW_LINES = 4096 };

/* -- segments ------------------------------------------------------------------------------- */

static uint64_t dead_of(const sp_segment_file *f)
{
    return f->end - f->live;
}

/* delete_empty -- deletes segments without live copies; false: none could be deleted. Called with the lock held, which
 * is released around system calls: only this thread changes the list. */
static bool delete_empty(sp_disk_tier *d)
{
    bool some = false;
    for (size_t i = d->segments.list.n; i-- > 0;) {
        sp_segment_file *f = d->segments.list.v[i];
        if (f == d->writing.active || f->first != SP_NO_ENTRY) continue;
        some |= sp_segments_remove(&d->segments, f, true, &d->lock);
    }
    return some;
}

static sp_segment_file *most_dead(const sp_disk_tier *d, bool half)
{
    sp_segment_file *most = NULL;
    for (size_t i = 0; i < d->segments.list.n; i++) {
        sp_segment_file *f = d->segments.list.v[i];
        if (half && (f == d->writing.active || f->stuck || 2 * dead_of(f) < f->end)) continue;
        if (dead_of(f) && (!most || dead_of(f) > dead_of(most))) most = f;
    }
    return most;
}

static uint64_t live_bytes(const sp_disk_tier *d)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < d->segments.list.n; i++) pages += d->segments.list.v[i]->live;
    return pages * SP_PAGE;
}

/* -- moving --------------------------------------------------------------------------------- */

static sp_err transfer(sp_disk_tier *d, bool write, int fd, uint64_t offset, uint64_t n,
                       uint8_t *data)
{
    sp_aio_piece pieces[ARENA_BYTES / SP_AIO_PIECE_BYTES];
    sp_err err = SP_OK;
    int i = 0;
    for (uint64_t at = 0; at < n; at += pieces[i++].n) {
        pieces[i] = (sp_aio_piece){.fd = fd,
                                   .write = write,
                                   .offset = offset + at,
                                   .data = data + at,
                                   .n = (uint32_t)SP_MIN(n - at, (uint64_t)SP_AIO_PIECE_BYTES)};
        sp_aio_submit(d->writing.aio, &pieces[i]);
    }
    for (sp_aio_piece *p; (p = sp_aio_wait(d->writing.aio));)
        if (p->error && err == SP_OK)
            err = sp_fail(p->error == ENODATA ? SP_E_FORMAT : SP_E_IO, "%s: cannot %s: %s",
                          d->folder, write ? "write" : "read", strerror(p->error));
    return err;
}

/* copy_bytes -- unverified: the checksums go with them. */
static sp_err copy_bytes(sp_disk_tier *d, int fd, const sp_disk_place *from,
                         const sp_disk_place *to)
{
    uint8_t *arena;
    const uint64_t n = (uint64_t)from->pages * SP_PAGE;
    SP_TRY(sp_aio_arena(d->writing.aio, ARENA_BYTES, &arena));
    for (uint64_t at = 0; at < n; at += ARENA_BYTES) {
        uint64_t part = SP_MIN(n - at, (uint64_t)ARENA_BYTES);
        SP_TRY(transfer(d, false, fd, (uint64_t)from->page * SP_PAGE + at, part, arena));
        SP_TRY(transfer(d, true, d->writing.active->fd, (uint64_t)to->page * SP_PAGE + at, part, arena));
    }
    return SP_OK;
}

typedef struct moving {
    sp_tier_key key;
    sp_disk_place place;
} moving;

/* move_one -- moves a copy; one that cannot be read is dropped. */
static sp_err move_one(sp_disk_tier *d, int fd, const moving *m)
{
    sp_disk_place to;
    SP_TRY(sp_disk_allocate(d, m->place.pages, &to));
    sp_err err = copy_bytes(d, fd, &m->place, &to);
    if (err == SP_E_FORMAT) {
        sp_disk_give_back(d, &to);
        sp_disk_quarantine(d, &m->key, &m->place);
        return SP_OK;
    }
    if (err != SP_OK) {
        sp_disk_give_back(d, &to);
        return err;
    }
    to.head_pages = m->place.head_pages;
    to.n_layers = m->place.n_layers;
    to.n = m->place.n;
    to.facts = m->place.facts;
    to.uses = m->place.uses;
    to.cost_us = m->place.cost_us;
    sp_disk_add_pending(d, &(sp_disk_pending){.line = {SP_EVENT_PUT, m->key, to}});
    return SP_OK;
}

/* move_some -- a batch of copies out of a segment that is not active. */
static sp_err move_some(sp_disk_tier *d, sp_segment_file *f)
{
    moving all[SP_DISK_BATCH];
    int n = 0;
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = f->first; i != SP_NO_ENTRY && n < SP_DISK_BATCH;
         i = d->table.entries.v[i].next)
        all[n++] = (moving){d->table.entries.v[i].key, d->table.entries.v[i].place};
    sp_err err = sp_segments_pin(&d->segments, f, true, false, &d->lock);
    pthread_mutex_unlock(&d->lock);
    if (err == SP_E_NOTFOUND) { /* its file is gone */
        for (int i = 0; i < n; i++) sp_disk_quarantine(d, &all[i].key, &all[i].place);
        return SP_OK;
    }
    SP_TRY(err);
    for (int i = 0; i < n && err == SP_OK; i++) err = move_one(d, f->fd, &all[i]);
    sp_err committed = sp_disk_commit(d);
    pthread_mutex_lock(&d->lock);
    sp_segments_unpin(&d->segments, f);
    pthread_mutex_unlock(&d->lock);
    return err == SP_OK ? committed : err;
}

/* empty -- moves all copies out of a segment, and deletes it. */
static sp_err empty(sp_disk_tier *d, sp_segment_file *f)
{
    const uint32_t number = f->number;
    if (f == d->writing.active) sp_disk_leave_segment(d);
    for (;;) {
        pthread_mutex_lock(&d->lock);
        bool is_empty = f->first == SP_NO_ENTRY;
        if (is_empty) delete_empty(d);
        const bool is_stuck = is_empty && sp_segments_find(&d->segments, number);
        pthread_mutex_unlock(&d->lock);
        if (is_stuck) return sp_fail(SP_E_IO, "%s/%08x.kv: cannot delete", d->folder, number);
        if (is_empty) return SP_OK;
        SP_TRY(move_some(d, f));
    }
}

/* -- the budget ----------------------------------------------------------------------------- */

/* evict -- drops the victim of the replacement policy, or the least recently used copy; false: no copy may be dropped.
 * */
static bool evict(sp_disk_tier *d)
{
    sp_disk_pending p = {.line.event = SP_EVENT_DROP};
    if (d->evict.victim && !d->evict.victim(d->evict.user, &p.line.key)) return false;
    pthread_mutex_lock(&d->lock);
    uint32_t i = d->evict.victim ? sp_table_find(&d->table, &p.line.key) : SP_NO_ENTRY;
    if (i == SP_NO_ENTRY) i = d->table.oldest;
    if (i != SP_NO_ENTRY) p.line.key = d->table.entries.v[i].key;
    pthread_mutex_unlock(&d->lock);
    if (i == SP_NO_ENTRY) return false;
    sp_disk_add_pending(d, &p);
    return sp_disk_commit(d) == SP_OK;
}

sp_err sp_disk_check_reserve(const sp_disk_tier *d, uint64_t bytes)
{
    sp_folder_space space;
    if (d->reserve_bytes < 0) return SP_OK;
    SP_TRY(sp_folder_space_of(d->folder, &space));
    const int64_t reserve = d->reserve_bytes ? d->reserve_bytes : space.reserve;
    if (space.free - (int64_t)bytes >= reserve) return SP_OK;
    return sp_fail(SP_E_LIMIT,
                   "%s: %lld MiB of the disk are free, and %lld MiB must stay "
                   "free: copies are not stored",
                   d->folder, (long long)(space.free >> 20), (long long)(reserve >> 20));
}

/* sp_disk_make_room -- drops copies until the rest fill 7/8 of the budget. Then reclaiming a byte moves at most eight.
 * */
sp_err sp_disk_make_room(sp_disk_tier *d, uint64_t max, uint64_t bytes)
{
    while (max) {
        pthread_mutex_lock(&d->lock);
        bool fits = sp_segments_bytes(&d->segments) + bytes <= max;
        pthread_mutex_unlock(&d->lock);
        if (fits) break;
        SP_TRY(sp_disk_commit(d));
        pthread_mutex_lock(&d->lock);
        bool some = delete_empty(d);
        bool crowded = live_bytes(d) + bytes > max / 8 * 7;
        sp_segment_file *f = most_dead(d, false);
        pthread_mutex_unlock(&d->lock);
        if (some || (crowded && evict(d))) continue;
        if (!f)
            return sp_fail(SP_E_LIMIT, "%s: no room for %llu bytes", d->folder,
                           (unsigned long long)bytes);
        SP_TRY(empty(d, f));
    }
    return SP_OK;
}

/* -- in the background ---------------------------------------------------------------------- */

sp_err sp_disk_shorten_index(sp_disk_tier *d, bool always)
{
    pthread_mutex_lock(&d->journal_lock);
    pthread_mutex_lock(&d->lock);
    const size_t n = d->table.n;
    sp_err err = SP_OK;
    sp_journal_line *lines = NULL;
    if (always || d->journal.n_lines > 2 * n + FEW_LINES) {
        lines = sp_alloc(n + 1, sizeof *lines);
        if (!lines) err = sp_fail_nomem("the index");
        size_t k = 0;
        for (uint32_t i = lines ? d->table.oldest : SP_NO_ENTRY; i != SP_NO_ENTRY;
             i = d->table.entries.v[i].newer)
            lines[k++] = (sp_journal_line){SP_EVENT_PUT, d->table.entries.v[i].key,
                                           d->table.entries.v[i].place};
    }
    pthread_mutex_unlock(&d->lock);
    if (lines) err = sp_journal_rewrite(&d->journal, lines, n, d->writing.next_segment);
    pthread_mutex_unlock(&d->journal_lock);
    sp_free(lines);
    return err;
}

bool sp_disk_tidy(sp_disk_tier *d)
{
    if (d->lock_fd < 0) return false;
    pthread_mutex_lock(&d->lock);
    delete_empty(d);
    sp_segment_file *f = most_dead(d, true);
    pthread_mutex_unlock(&d->lock);
    sp_err err = sp_disk_shorten_index(d, false);
    if (err == SP_OK && f) err = move_some(d, f);
    if (err == SP_OK) return f != NULL;
    sp_log(SP_LOG_WARN, "the store's free space is not reclaimed: %s", sp_error_detail());
    return false;
}
