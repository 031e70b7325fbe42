#include "store/disk/disk_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "store/files.h"

#define SEGMENT_BYTES     ((int64_t)256 << 20)
#define MIN_SEGMENT_BYTES ((int64_t)64 << 10)

enum { READERS = 2, SPACE_BYTES = 16 /* of a namespace, in its folder's name */ };

static sp_disk_tier *disk_of(sp_tier *t)
{
    return (sp_disk_tier *)t;
}

/* -- the index in memory -------------------------------------------------------------------- */

sp_tier_info sp_disk_info_of(const sp_tier_key *key, const sp_disk_place *place)
{
    return (sp_tier_info){.key = *key,
                          .n = place->n,
                          .bytes = (int64_t)place->pages * SP_PAGE,
                          .facts = place->facts,
                          .n_uses = place->uses,
                          .cost_us = place->cost_us};
}

/* take_out -- an entry, before it is gone or replaced. */
static void take_out(sp_disk_tier *d, uint32_t entry)
{
    const sp_disk_place place = d->table.entries.v[entry].place;
    sp_segment_file *f = sp_segments_find(&d->segments, place.segment);
    f->live -= place.pages;
    sp_table_remove(&d->table, entry, &f->first);
}

void sp_disk_forget(sp_disk_tier *d, uint32_t entry)
{
    const sp_tier_key key = d->table.entries.v[entry].key;
    take_out(d, entry);
    if (d->evict.removed) d->evict.removed(d->evict.user, &key);
}

/* has_at -- whether the copy is at this place. Called with the lock held. */
static bool has_at(const sp_disk_tier *d, const sp_tier_key *key, const sp_disk_place *place)
{
    const uint32_t i = sp_table_find(&d->table, key);
    return i != SP_NO_ENTRY && sp_disk_place_eq(&d->table.entries.v[i].place, place);
}

sp_err sp_disk_apply(sp_disk_tier *d, const sp_journal_line *line)
{
    sp_segment_file *f = NULL;
    if (line->event == SP_EVENT_PUT) {
        SP_TRY(sp_table_reserve(&d->table, 1));
        SP_TRY(sp_segments_need(&d->segments, line->place.segment, &f));
    }
    uint32_t old = sp_table_find(&d->table, &line->key);
    if (old != SP_NO_ENTRY && (line->event != SP_EVENT_DAMAGED || has_at(d, &line->key, &line->place))) {
        if (!f) sp_disk_forget(d, old);
        if (f) take_out(d, old);
    }
    if (!f) return SP_OK;
    sp_table_add(&d->table, &line->key, &line->place, &f->first);
    f->live += line->place.pages;
    f->end = SP_MAX(f->end, (uint64_t)line->place.page + line->place.pages);
    const sp_tier_info info = sp_disk_info_of(&line->key, &line->place);
    if (d->evict.added) d->evict.added(d->evict.user, &info);
    return SP_OK;
}

static sp_err apply_line(void *user, const sp_journal_line *line)
{
    return sp_disk_apply(user, line);
}

/* read_index -- calls fn for every line. */
static sp_err read_index(sp_disk_tier *d, bool make, sp_journal_fn *fn, void *user)
{
    sp_bytes path = {0};
    SP_TRY(sp_bytes_addf(&path, "%s/index", d->folder));
    sp_err err = sp_bytes_add(&path, "", 1);
    if (err == SP_OK) err = sp_journal_open(&d->journal, path.v, &d->space, make, fn, user);
    sp_vec_fini(&path);
    return err;
}

static void forget_all(sp_disk_tier *d)
{
    while (d->table.oldest != SP_NO_ENTRY) sp_disk_forget(d, d->table.oldest);
    for (size_t i = d->segments.list.n; i-- > 0;)
        sp_segments_remove(&d->segments, d->segments.list.v[i], false, NULL);
}

typedef SP_VEC(sp_journal_line) line_list;

static sp_err collect_line(void *user, const sp_journal_line *line)
{
    line_list *lines = user;
    SP_TRY(sp_vec_reserve(lines, 1));
    lines->v[lines->n++] = *line;
    return SP_OK;
}

/* read_news -- reads new lines; *replaced: the file is another one, and all its lines are read. Called with
 * journal_lock held but not lock, since the disk may be slow. */
static sp_err read_news(sp_disk_tier *d, line_list *lines, bool *replaced)
{
    *replaced = !d->journal.path;
    if (d->journal.path) SP_TRY(sp_journal_more(&d->journal, replaced, collect_line, lines));
    if (!*replaced) return SP_OK;
    lines->n = 0;
    sp_journal_close(&d->journal);
    return read_index(d, false, collect_line, lines);
}

sp_err sp_disk_refresh(sp_disk_tier *d)
{
    line_list lines = {0};
    bool replaced;
    if (d->lock_fd >= 0 || d->is_absent) return SP_OK; /* the writer's index is always current */
    pthread_mutex_lock(&d->journal_lock);
    sp_err err = read_news(d, &lines, &replaced);
    pthread_mutex_lock(&d->lock);
    if (err == SP_OK && replaced) forget_all(d);
    for (size_t i = 0; err == SP_OK && i < lines.n; i++) err = sp_disk_apply(d, &lines.v[i]);
    pthread_mutex_unlock(&d->lock);
    if (err != SP_OK && lines.n) sp_journal_close(&d->journal); /* all is read again */
    pthread_mutex_unlock(&d->journal_lock);
    sp_vec_fini(&lines);
    return err;
}

void sp_disk_quarantine(sp_disk_tier *d, const sp_tier_key *key, const sp_disk_place *place)
{
    sp_journal_line line = {.event = SP_EVENT_DAMAGED, .key = *key, .place = *place};
    char why[200];
    snprintf(why, sizeof why, "%s", sp_error_detail());
    sp_log(SP_LOG_WARN, "%s/%08x.kv, page %u: not used: %s", d->folder, place->segment, place->page,
           why);
    pthread_mutex_lock(&d->journal_lock);
    pthread_mutex_lock(&d->lock);
    const bool is_here = has_at(d, key, place);
    pthread_mutex_unlock(&d->lock);
    /* one that was erased meanwhile leaves no line */
    if (is_here && d->lock_fd >= 0 && sp_journal_append(&d->journal, &line, 1, true) != SP_OK)
        sp_log(SP_LOG_WARN, "%s", sp_error_detail());
    pthread_mutex_lock(&d->lock);
    sp_err err = sp_disk_apply(d, &line); /* cannot fail: it only removes */
    assert(err == SP_OK);
    d->stats.n_damaged++;
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_unlock(&d->journal_lock);
    err = sp_fail(SP_E_FORMAT, "%s", why); /* restores the detail of the first error */
}

/* -- the writer's folder -------------------------------------------------------------------- */

/* only_reads -- whether an error means that this user, or anybody, cannot write here. Then the tier says so and only
 * reads. */
static bool only_reads(sp_disk_tier *d, int number, bool must_write)
{
    if (must_write || (number != EROFS && number != EACCES && number != EPERM)) return false;
    snprintf(d->refused, sizeof d->refused, "%s; the store is only read",
             number == EROFS ? "the file system is read-only" : "this user may not write here");
    sp_log(SP_LOG_WARN, "%s: %s", d->folder, d->refused);
    return true;
}

/* make_folder -- or finds that none can be made, in a store that can be read. */
static sp_err make_folder(sp_disk_tier *d, const sp_disk_tier_opts *o)
{
    SP_TRY(sp_files_make_folder(o->dir));
    if (mkdir(d->folder, 0700) == 0 || errno == EEXIST) return SP_OK;
    const int number = errno;
    d->is_absent = faccessat(AT_FDCWD, o->dir, R_OK | X_OK, AT_EACCESS) == 0 && only_reads(d, number, o->must_write);
    if (d->is_absent) return SP_OK;
    return sp_fail(SP_E_IO, "%s: cannot make the folder: %s", d->folder, strerror(number));
}

/* lock_folder -- I4. */
static sp_err lock_folder(sp_disk_tier *d, bool must_write)
{
    sp_bytes path = {0};
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char pid[24] = "";
    sp_err err = sp_bytes_addf(&path, "%s/lock", d->folder);
    if (err == SP_OK) err = sp_bytes_add(&path, "", 1);
    int fd = err == SP_OK ? open(path.v, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    const int number = errno;
    if (err == SP_OK && fd < 0 && only_reads(d, number, must_write)) {
        sp_vec_fini(&path);
        return SP_OK;
    }
    if (err == SP_OK && fd < 0) err = sp_fail(SP_E_IO, "%s: cannot open: %s", path.v, strerror(number));
    if (err == SP_OK && fcntl(fd, F_OFD_SETLK, &lock) == 0) {
        int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
        if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)n, 0) != n)
            sp_log(SP_LOG_DEBUG, "%s: cannot write: %s", path.v, strerror(errno));
        d->lock_fd = fd;
    } else if (err == SP_OK) {
        ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
        pid[n > 0 ? n - (pid[n - 1] == '\n') : 0] = '\0';
        snprintf(d->refused, sizeof d->refused,
                 "another process (%s) writes this store; this one only reads it", pid);
        if (must_write)
            err = sp_fail(SP_E_IO, "%s: another process (%s) writes this store", d->folder, pid);
        else
            sp_log(SP_LOG_WARN, "%s: %s", d->folder, d->refused);
        close(fd);
    }
    sp_vec_fini(&path);
    return err;
}

/* pages_of -- the length of a segment's file; 0: it does not exist. */
static sp_err pages_of(const char *path, uint64_t *pages)
{
    struct stat st = {0};
    if (!path) return sp_fail_nomem("a path");
    if (stat(path, &st) != 0 && errno != ENOENT) return sp_fail(SP_E_IO, "%s: %s", path, strerror(errno));
    *pages = (uint64_t)st.st_size / SP_PAGE;
    return SP_OK;
}

/* check_segments -- forgets copies whose segment is missing or too short. */
static sp_err check_segments(sp_disk_tier *d)
{
    for (size_t i = d->segments.list.n; i-- > 0;) {
        sp_segment_file *f = d->segments.list.v[i];
        char *path = sp_segments_path(&d->segments, f->number);
        uint64_t pages = 0;
        int64_t n_lost = 0;
        sp_err err = pages_of(path, &pages);
        if (err != SP_OK) {
            sp_free(path);
            return err;
        }
        for (uint32_t e = f->first, next; e != SP_NO_ENTRY; e = next) {
            const sp_entry *entry = &d->table.entries.v[e];
            next = entry->next;
            if ((uint64_t)entry->place.page + entry->place.pages <= pages) continue;
            sp_disk_forget(d, e);
            n_lost++;
        }
        d->stats.n_damaged += n_lost;
        if (n_lost)
            sp_log(SP_LOG_WARN, "%s: %s: %lld copies are lost", path,
                   pages ? "ends early" : "not there", (long long)n_lost);
        f->end = SP_MIN(f->end, pages);
        d->writing.next_segment = SP_MAX(d->writing.next_segment, f->number + 1);
        if (f->first == SP_NO_ENTRY) sp_segments_remove(&d->segments, f, d->lock_fd >= 0, NULL);
        sp_free(path);
    }
    return SP_OK;
}

/* keep_file -- notes a file that could not be deleted, so that its bytes are erased with the next deletion. */
static sp_err keep_file(sp_disk_tier *d, uint32_t number)
{
    sp_segment_file *f;
    SP_TRY(sp_segments_need(&d->segments, number, &f));
    f->tail = true;
    return SP_OK;
}

/* sweep -- deletes segments without copies, and truncates others after their last copy (a crash may leave more). */
static sp_err sweep(sp_disk_tier *d)
{
    DIR *dir = opendir(d->folder);
    if (!dir) return sp_fail(SP_E_IO, "%s: %s", d->folder, strerror(errno));
    d->writing.next_segment = SP_MAX(d->journal.next_segment, d->writing.next_segment);
    sp_err err = SP_OK;
    for (struct dirent *e; err == SP_OK && (e = readdir(dir));) {
        uint32_t number = sp_segment_number_of(e->d_name);
        if (number == 0) continue;
        d->writing.next_segment = SP_MAX(d->writing.next_segment, number + 1);
        sp_segment_file *f = sp_segments_find(&d->segments, number);
        char *path = sp_segments_path(&d->segments, number);
        if (!f && !(path && unlink(path) == 0)) err = keep_file(d, number);
        if (f) f->tail = !(path && truncate(path, (off_t)(f->end * SP_PAGE)) == 0);
        if (f && f->tail) sp_log(SP_LOG_DEBUG, "%s: cannot truncate: %s", path ? path : d->folder, strerror(errno));
        sp_free(path);
    }
    closedir(dir);
    return err;
}

/* continue_segment -- appends to the newest one, unless it is full. */
static sp_err continue_segment(sp_disk_tier *d)
{
    if (d->segments.list.n == 0) return SP_OK;
    sp_segment_file *f = d->segments.list.v[d->segments.list.n - 1];
    if (f->end >= d->segment_pages) return SP_OK;
    SP_TRY(sp_segments_pin(&d->segments, f, true, false, NULL));
    d->writing.active = f;
    return SP_OK;
}

/* -- opening -------------------------------------------------------------------------------- */

static sp_err set_up(sp_disk_tier *d, const sp_disk_tier_opts *o)
{
    char hex[2 * SPACE_BYTES + 1];
    sp_bytes path = {0};
    d->space = *o->space;
    d->evict = o->evict;
    d->max_bytes = o->max_bytes;
    d->reserve_bytes = o->reserve_bytes;
    int64_t n = o->segment_bytes ? o->segment_bytes : SEGMENT_BYTES;
    if (o->max_bytes && !o->segment_bytes) n = SP_MIN(n, o->max_bytes / 16);
    d->segment_pages = (uint64_t)(SP_MAX(n, MIN_SEGMENT_BYTES) / SP_PAGE);
    sp_digest_hex(o->space, SPACE_BYTES, hex);
    SP_TRY(sp_bytes_addf(&path, "%s/%s", o->dir, hex));
    sp_err err = sp_bytes_add(&path, "", 1);
    if (err != SP_OK) {
        sp_vec_fini(&path);
        return err;
    }
    d->folder = path.v;
    return sp_segments_init(&d->segments, d->folder);
}

/* rebuild -- of an index that was lost. */
static sp_err rebuild(sp_disk_tier *d)
{
    bool is_back;
    SP_TRY(sp_disk_exchange(d, &is_back));
    if (is_back) {
        sp_journal_close(&d->journal);
        SP_TRY(read_index(d, true, apply_line, d));
    }
    return d->journal.is_new ? sp_disk_recover(d) : SP_OK;
}

static sp_err open_folder(sp_disk_tier *d, const sp_disk_tier_opts *o)
{
    SP_TRY(set_up(d, o));
    if (o->read_only) {
        snprintf(d->refused, sizeof d->refused, "the store was opened for reading only");
    } else {
        SP_TRY(make_folder(d, o));
        if (d->is_absent) return SP_OK;
        SP_TRY(lock_folder(d, o->must_write));
    }
    const bool writer = d->lock_fd >= 0;
    sp_err err = read_index(d, writer, apply_line, d);
    for (int i = 0; !o->read_only && !writer && err == SP_E_NOTFOUND && i < 100; i++) {
        usleep(10000); /* the writer is making it */
        err = read_index(d, false, apply_line, d);
    }
    SP_TRY(err);
    if (writer && d->journal.is_new) SP_TRY(rebuild(d));
    SP_TRY(check_segments(d));
    if (writer) {
        SP_TRY(sweep(d));
        SP_TRY(continue_segment(d));
    }
    return SP_OK;
}

static sp_err start_threads(sp_disk_tier *d, const sp_disk_tier_opts *o)
{
    int n = SP_MIN(o->n_readers ? o->n_readers : READERS, (int)SP_DISK_MAX_READERS);
    SP_TRY(sp_aio_open(o->io, &d->writing.aio));
    for (int i = 0; i < n; i++) {
        sp_disk_reader *r = &d->readers[i];
        r->tier = d;
        SP_TRY(sp_aio_open(o->io, &r->aio));
        if (pthread_create(&r->thread, NULL, sp_disk_read_thread, r) != 0) {
            sp_aio_close(r->aio);
            return sp_fail(SP_E_NOMEM, "cannot start a thread of the store");
        }
        d->n_readers++;
    }
    d->writing.has_thread = pthread_create(&d->writing.thread, NULL, sp_disk_write_thread, d) == 0;
    return d->writing.has_thread ? SP_OK : sp_fail(SP_E_NOMEM, "cannot start a thread of the store");
}

static void stop_threads(sp_disk_tier *d)
{
    sp_op_queue_close(&d->writing.queue);
    if (d->writing.has_thread) pthread_join(d->writing.thread, NULL);
    sp_op_queue_close(&d->reads);
    for (int i = 0; i < d->n_readers; i++) {
        pthread_join(d->readers[i].thread, NULL);
        sp_aio_close(d->readers[i].aio);
    }
    sp_aio_close(d->writing.aio);
}

/* keep_uses -- saves the order and counts of uses for the next process. */
static void keep_uses(sp_disk_tier *d)
{
    if (d->lock_fd < 0 || !d->used || !d->journal.path) return;
    if (sp_disk_shorten_index(d, true) != SP_OK)
        sp_log(SP_LOG_WARN, "the order of use was not saved: %s", sp_error_detail());
}

static void close_tier(sp_tier *t)
{
    sp_disk_tier *d = disk_of(t);
    stop_threads(d);
    keep_uses(d);
    if (d->writing.active) sp_segments_unpin(&d->segments, d->writing.active);
    sp_journal_close(&d->journal);
    sp_segments_fini(&d->segments);
    sp_table_fini(&d->table);
    sp_op_queue_fini(&d->writing.queue);
    sp_op_queue_fini(&d->reads);
    pthread_mutex_destroy(&d->journal_lock);
    pthread_mutex_destroy(&d->lock);
    if (d->lock_fd >= 0) close(d->lock_fd);
    sp_free(d->folder);
    sp_free(d);
}

/* -- the type ------------------------------------------------------------------------------- */

static sp_op_queue *queue_of(sp_tier *t, sp_tier_verb verb)
{
    return verb == SP_TIER_GET || verb == SP_TIER_LIST ? &disk_of(t)->reads : &disk_of(t)->writing.queue;
}

static bool knows(sp_tier *t, const sp_tier_key *key)
{
    sp_disk_tier *d = disk_of(t);
    pthread_mutex_lock(&d->lock);
    bool known = sp_table_find(&d->table, key) != SP_NO_ENTRY;
    pthread_mutex_unlock(&d->lock);
    return known;
}

static void use(sp_tier *t, const sp_tier_key *key, bool counts)
{
    sp_disk_tier *d = disk_of(t);
    pthread_mutex_lock(&d->lock);
    uint32_t i = sp_table_find(&d->table, key);
    if (i != SP_NO_ENTRY) (counts ? sp_table_use : sp_table_touch)(&d->table, i);
    if (i != SP_NO_ENTRY && d->evict.used) d->evict.used(d->evict.user, key, counts);
    d->used |= i != SP_NO_ENTRY;
    pthread_mutex_unlock(&d->lock);
}

static sp_tier_stats stats_of(sp_tier *t)
{
    sp_disk_tier *d = disk_of(t);
    pthread_mutex_lock(&d->lock);
    sp_tier_stats s = d->stats;
    s.n_copies = (int64_t)d->table.n;
    for (size_t i = 0; i < d->segments.list.n; i++)
        s.bytes_live += (int64_t)d->segments.list.v[i]->live * SP_PAGE;
    s.bytes_used = (int64_t)sp_segments_bytes(&d->segments);
    s.bytes_max = d->max_bytes;
    s.index_bytes = (int64_t)sp_table_bytes(&d->table);
    pthread_mutex_unlock(&d->lock);
    return s;
}

static bool is_writer(sp_tier *t)
{
    return disk_of(t)->lock_fd >= 0;
}

static const sp_tier_type disk_type = {.name = "disk",
                                       .queue_of = queue_of,
                                       .knows = knows,
                                       .is_writer = is_writer,
                                       .use = use,
                                       .stats = stats_of,
                                       .close = close_tier};

sp_err sp_disk_tier_open(const sp_disk_tier_opts *o, sp_tier **out)
{
    sp_disk_tier *d = SP_NEW(sp_disk_tier);
    if (!d) return sp_fail_nomem("the disk tier");
    d->base.type = &disk_type;
    d->lock_fd = d->journal.fd = -1;
    sp_table_init(&d->table);
    sp_err err = sp_op_queue_init(&d->writing.queue);
    if (err == SP_OK) err = sp_op_queue_init(&d->reads);
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->journal_lock, NULL);
    if (err == SP_OK) err = open_folder(d, o);
    if (err == SP_OK) err = start_threads(d, o);
    if (err != SP_OK) {
        close_tier(&d->base);
        return err;
    }
    sp_log(SP_LOG_INFO, "%s: %zu copies", d->folder, d->table.n);
    *out = &d->base;
    return SP_OK;
}

const char *sp_disk_tier_io(sp_tier *t)
{
    return sp_aio_kind(disk_of(t)->writing.aio);
}
