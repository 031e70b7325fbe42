/* erase.c -- overwrites the bytes that dropped, moved and replaced copies left in the segments of the disk tier, on
 * the writing thread. Space between live copies becomes a hole if the file system supports holes, which also frees it;
 * otherwise zeros. The index is rewritten without the lines of dropped copies; a damaged one that an open kept is
 * deleted, whatever it contains. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/disk/disk_int.h"
#include "store/files.h"

enum { ZERO_BYTES = 1 << 20 };

typedef struct extent {
    uint64_t from, to; /* pages */
} extent;

typedef SP_VEC(extent) extents;

static int by_place(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* live_extents -- of a segment, in order. lock is held. */
static sp_err live_extents(const sp_disk_tier *d, const sp_segment_file *f, extents *out)
{
    out->n = 0;
    for (uint32_t i = f->first; i != SP_NO_ENTRY; i = d->table.entries.v[i].next) {
        const sp_disk_place *p = &d->table.entries.v[i].place;
        SP_TRY(sp_vec_reserve(out, 1));
        out->v[out->n++] = (extent){p->page, (uint64_t)p->page + p->pages};
    }
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_place);
    return SP_OK;
}

static sp_err write_zeros(sp_disk_tier *d, int fd, uint64_t from, uint64_t n)
{
    uint8_t *zeros;
    SP_TRY(sp_aio_arena(d->writing.aio, ZERO_BYTES, &zeros));
    memset(zeros, 0, ZERO_BYTES);
    for (uint64_t at = 0; at < n; at += ZERO_BYTES)
        SP_TRY(
            sp_files_write(fd, d->folder, from + at, zeros, SP_MIN(n - at, (uint64_t)ZERO_BYTES)));
    return SP_OK;
}

static sp_err erase_pages(sp_disk_tier *d, int fd, uint64_t from, uint64_t to)
{
    if (from >= to) return SP_OK;
    const uint64_t at = from * SP_PAGE, n = (to - from) * SP_PAGE;
    const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (fallocate(fd, mode, (off_t)at, (off_t)n) == 0) return SP_OK;
    return write_zeros(d, fd, at, n);
}

/* erase_gaps -- everything of a pinned segment but its live copies. */
static sp_err erase_gaps(sp_disk_tier *d, const sp_segment_file *f, const extents *live)
{
    struct stat st;
    uint64_t at = 0;
    if (fstat(f->fd, &st) != 0)
        return sp_fail(SP_E_IO, "%s: cannot read: %s", d->folder, strerror(errno));
    for (size_t i = 0; i < live->n; i++) {
        SP_TRY(erase_pages(d, f->fd, at, live->v[i].from));
        at = SP_MAX(at, live->v[i].to);
    }
    SP_TRY(erase_pages(d, f->fd, at, SP_DIV_UP((uint64_t)st.st_size, (uint64_t)SP_PAGE)));
    return sp_files_sync(f->fd, d->folder);
}

/* erase_segment -- the list of segments changes on this thread alone. */
static sp_err erase_segment(sp_disk_tier *d, sp_segment_file *f, extents *live)
{
    pthread_mutex_lock(&d->lock);
    bool has_dead = f->live < f->end || f->tail || f == d->writing.active;
    sp_err err = has_dead ? live_extents(d, f, live) : SP_OK;
    bool pinned = false;
    if (err == SP_OK && has_dead) {
        err = sp_segments_pin(&d->segments, f, true, false, &d->lock);
        pinned = err == SP_OK;
    }
    pthread_mutex_unlock(&d->lock);
    if (!pinned) return err == SP_E_NOTFOUND ? SP_OK : err; /* its file is gone */
    err = erase_gaps(d, f, live);
    pthread_mutex_lock(&d->lock);
    if (err == SP_OK) f->tail = false;
    sp_segments_unpin(&d->segments, f);
    pthread_mutex_unlock(&d->lock);
    return err;
}

sp_err sp_disk_erase(sp_disk_tier *d)
{
    extents live = {0};
    sp_err err = sp_disk_commit(d);
    for (size_t i = 0; i < d->segments.list.n; i++) {
        sp_err one = erase_segment(d, d->segments.list.v[i], &live);
        if (one != SP_OK) err = one;
    }
    sp_vec_fini(&live);
    sp_err index = sp_disk_shorten_index(d, true);
    if (index == SP_OK) index = sp_journal_remove_damaged(&d->journal);
    return err == SP_OK ? index : err;
}
