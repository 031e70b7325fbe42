#include "store/disk/segments_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

enum { MOST_OPEN = 128 }; /* idle descriptors above this number are closed */

sp_err sp_segments_init(sp_segments *s, const char *folder)
{
    *s = (sp_segments){.folder = sp_strdup_n(folder, strlen(folder))};
    return s->folder ? SP_OK : sp_fail_nomem("a path");
}

static void free_file(sp_segments *s, sp_segment_file *f)
{
    if (f->fd >= 0) {
        close(f->fd);
        s->n_open--;
    }
    sp_free(f);
}

void sp_segments_fini(sp_segments *s)
{
    for (size_t i = 0; i < s->list.n; i++) free_file(s, s->list.v[i]);
    sp_vec_fini(&s->list);
    sp_free(s->folder);
    s->folder = NULL;
}

/* position_of -- the position of the first file whose number is at least this. */
static size_t position_of(const sp_segments *s, uint32_t number)
{
    size_t from = 0, to = s->list.n;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (s->list.v[middle]->number < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

sp_segment_file *sp_segments_find(const sp_segments *s, uint32_t number)
{
    size_t i = position_of(s, number);
    return i < s->list.n && s->list.v[i]->number == number ? s->list.v[i] : NULL;
}

sp_err sp_segments_need(sp_segments *s, uint32_t number, sp_segment_file **out)
{
    sp_segment_file *f = sp_segments_find(s, number);
    if (!f) {
        SP_TRY(sp_vec_reserve(&s->list, 1));
        if (!(f = SP_NEW(sp_segment_file))) return sp_fail_nomem("a segment");
        *f = (sp_segment_file){.number = number, .fd = -1, .first = SP_NO_ENTRY};
        size_t i = position_of(s, number);
        memmove(s->list.v + i + 1, s->list.v + i, (s->list.n - i) * sizeof *s->list.v);
        s->list.v[i] = f;
        s->list.n++;
    }
    *out = f;
    return SP_OK;
}

/* -- files ---------------------------------------------------------------------------------- */

char *sp_segments_path(const sp_segments *s, uint32_t number)
{
    sp_bytes b = {0};
    if (sp_bytes_addf(&b, "%s/%08x.kv", s->folder, number) != SP_OK ||
        sp_bytes_add(&b, "", 1) != SP_OK)
        sp_vec_fini(&b);
    return b.v;
}

uint32_t sp_segment_number_of(const char *name)
{
    char *end, again[SP_SEGMENT_NAME_BYTES];
    unsigned long number = strtoul(name, &end, 16);
    if (number == 0 || number > UINT32_MAX) return 0;
    snprintf(again, sizeof again, "%08x.kv", (unsigned)number);
    return strcmp(name, again) == 0 ? (uint32_t)number : 0;
}

static sp_err open_file(const char *path, bool write, bool make, int *out)
{
    int flags = (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0);
    int fd = open(path, flags | O_DIRECT, 0600);
    if (fd < 0 && errno == EINVAL) fd = open(path, flags, 0600); /* no direct I/O here */
    if (fd < 0)
        return sp_fail(errno == ENOENT ? SP_E_NOTFOUND : SP_E_IO, "%s: cannot open: %s", path,
                       strerror(errno));
    *out = fd;
    return SP_OK;
}

static void give_up(pthread_mutex_t *lock)
{
    if (lock) pthread_mutex_unlock(lock);
}

static void take_back(pthread_mutex_t *lock)
{
    if (lock) pthread_mutex_lock(lock);
}

/* open_pinned -- opens a file that is closed. The pin keeps it from being freed. */
static sp_err open_pinned(sp_segments *s, sp_segment_file *f, bool write, bool make,
                          pthread_mutex_t *lock)
{
    int fd = -1;
    char *path = sp_segments_path(s, f->number);
    if (!path) return sp_fail_nomem("a path");
    give_up(lock);
    sp_err err = open_file(path, write, make, &fd);
    take_back(lock);
    sp_free(path);
    if (err == SP_OK && f->fd >= 0) {
        close(fd); /* another thread was faster */
    } else if (err == SP_OK) {
        f->fd = fd;
        s->n_open++;
    }
    return err;
}

sp_err sp_segments_pin(sp_segments *s, sp_segment_file *f, bool write, bool make,
                       pthread_mutex_t *lock)
{
    f->pins++;
    if (f->fd >= 0) return SP_OK;
    sp_err err = open_pinned(s, f, write, make, lock);
    if (err != SP_OK) sp_segments_unpin(s, f);
    return err;
}

void sp_segments_unpin(sp_segments *s, sp_segment_file *f)
{
    assert(f->pins > 0);
    if (--f->pins > 0) return;
    if (f->gone) {
        free_file(s, f);
    } else if (f->fd >= 0 && s->n_open > MOST_OPEN) {
        close(f->fd);
        f->fd = -1;
        s->n_open--;
    }
}

/* delete_file -- of a segment without copies. A file that stays is still listed, so that its bytes are erased. */
static bool delete_file(sp_segments *s, sp_segment_file *f, pthread_mutex_t *lock)
{
    char *path = sp_segments_path(s, f->number);
    give_up(lock);
    const bool done = path && (unlink(path) == 0 || errno == ENOENT);
    const int error = path ? errno : ENOMEM;
    take_back(lock);
    if (!done && !f->stuck)
        sp_log(SP_LOG_WARN, "%s/%08x.kv: cannot delete: %s", s->folder, f->number, strerror(error));
    f->stuck = !done;
    sp_free(path);
    return done;
}

bool sp_segments_remove(sp_segments *s, sp_segment_file *f, bool delete, pthread_mutex_t *lock)
{
    if (delete && !delete_file(s, f, lock)) return false;
    size_t i = position_of(s, f->number);
    assert(s->list.v[i] == f && f->first == SP_NO_ENTRY);
    memmove(s->list.v + i, s->list.v + i + 1, (--s->list.n - i) * sizeof *s->list.v);
    f->gone = true;
    if (f->pins == 0) free_file(s, f);
    return true;
}

uint64_t sp_segments_bytes(const sp_segments *s)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < s->list.n; i++) pages += s->list.v[i]->end;
    return pages * SP_PAGE;
}
