/* recover.c -- rebuilds the index from the headers in the segments. Records are only appended, so the last one of a
 * key is the newest. Files whose names were swapped are renamed back. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "store/disk/disk_int.h"
#include "store/files.h"

typedef SP_VEC(uint32_t) numbers;
typedef SP_VEC(sp_journal_line) line_list;

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static sp_err list_segments(const sp_disk_tier *d, numbers *out)
{
    DIR *dir = opendir(d->folder);
    sp_err err = SP_OK;
    if (!dir) return sp_fail(SP_E_IO, "%s: %s", d->folder, strerror(errno));
    for (struct dirent *e; err == SP_OK && (e = readdir(dir));) {
        uint32_t number = sp_segment_number_of(e->d_name);
        if (number == 0) continue;
        err = sp_vec_reserve(out, 1);
        if (err == SP_OK) out->v[out->n++] = number;
    }
    closedir(dir);
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_number);
    return err;
}

typedef struct scanned {
    const sp_disk_tier *d;
    int fd;
    uint64_t n_pages;
    sp_bytes *buf;
} scanned;

/* read_header -- of the record at this page, if one is there: *pages is its length, or 1. */
static sp_err read_header(const scanned *s, uint64_t page, sp_journal_line *out, uint32_t *pages)
{
    const sp_disk_tier *d = s->d;
    sp_bytes *buf = s->buf;
    const int fd = s->fd;
    const uint64_t n_pages = s->n_pages;
    size_t got;
    uint32_t head_pages;
    sp_record r;
    *pages = 1;
    SP_TRY(sp_vec_reserve(buf, SP_PAGE));
    uint8_t *data = (uint8_t *)buf->v;
    SP_TRY(sp_files_read(fd, d->folder, page * SP_PAGE, data, SP_PAGE, &got));
    if (got < SP_PAGE || sp_record_size(data, &head_pages) != SP_OK || page + head_pages > n_pages)
        return SP_E_NOTFOUND;
    SP_TRY(sp_vec_reserve(buf, (size_t)head_pages * SP_PAGE));
    data = (uint8_t *)buf->v;
    SP_TRY(sp_files_read(fd, d->folder, page * SP_PAGE, data, (size_t)head_pages * SP_PAGE, &got));
    if (sp_record_read(data, got, &r) != SP_OK || !sp_digest_eq(&r.space, &d->space))
        return SP_E_NOTFOUND;
    sp_record_layout l = sp_record_layout_of(&r);
    if (page + l.pages > n_pages) return SP_E_NOTFOUND;
    *pages = (uint32_t)l.pages;
    *out = (sp_journal_line){.event = SP_EVENT_PUT, .key = sp_tier_key_of(&r)};
    out->place = (sp_disk_place){.page = (uint32_t)page,
                                 .pages = *pages,
                                 .head_pages = head_pages,
                                 .n_layers = (uint32_t)r.n_layers,
                                 .n = r.n,
                                 .facts = sp_tier_facts_of(&r),
                                 .cost_us = r.facts.cost_us};
    return SP_OK;
}

static sp_err scan(sp_disk_tier *d, uint32_t number, sp_bytes *buf, line_list *lines)
{
    struct stat st;
    char *path = sp_segments_path(&d->segments, number);
    if (!path) return sp_fail_nomem("a path");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    sp_err err = SP_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        err = sp_fail(SP_E_IO, "%s: cannot open: %s", path, strerror(errno));
    const uint64_t n = err == SP_OK ? (uint64_t)st.st_size / SP_PAGE : 0;
    for (uint64_t page = 0; err == SP_OK && page < n;) {
        uint32_t pages;
        err = sp_vec_reserve(lines, 1);
        if (err != SP_OK) break;
        sp_journal_line *line = &lines->v[lines->n];
        err = read_header(&(scanned){d, fd, n, buf}, page, line, &pages);
        line->place.segment = number;
        lines->n += err == SP_OK;
        if (err == SP_E_NOTFOUND) err = SP_OK;
        page += pages;
    }
    if (fd >= 0) close(fd);
    sp_free(path);
    return err;
}

/* is_segment -- whether a file begins with a record of this namespace. */
static sp_err is_segment(sp_disk_tier *d, const char *path, bool *yes)
{
    struct stat st;
    sp_bytes buf = {0};
    sp_journal_line line;
    uint32_t pages;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    *yes = false;
    if (fd < 0) return SP_OK;
    sp_err err = SP_E_NOTFOUND;
    if (fstat(fd, &st) == 0)
        err = read_header(&(scanned){d, fd, (uint64_t)st.st_size / SP_PAGE, &buf}, 0, &line, &pages);
    *yes = err == SP_OK;
    close(fd);
    sp_vec_fini(&buf);
    return err == SP_E_NOTFOUND ? SP_OK : err;
}

/* find_index -- the number of the segment whose file is this namespace's index, or a new number. */
static sp_err find_index(sp_disk_tier *d, uint32_t *number, bool *found)
{
    numbers all = {0};
    sp_err err = list_segments(d, &all);
    *number = 1;
    *found = false;
    for (size_t i = 0; err == SP_OK && i < all.n && !*found; i++) {
        sp_digest space;
        char *path = sp_segments_path(&d->segments, all.v[i]);
        if (!path) err = sp_fail_nomem("a path");
        *found = path && sp_journal_space(path, &space) == SP_OK && sp_digest_eq(&space, &d->space);
        *number = all.v[i] + !*found;
        sp_free(path);
    }
    sp_vec_fini(&all);
    return err;
}

static sp_err move(const char *from, const char *to)
{
    if (rename(from, to) == 0) return SP_OK;
    return sp_fail(SP_E_IO, "%s: cannot rename to %s: %s", from, to, strerror(errno));
}

/* put_back -- renames a segment, and the index if it has the segment's name. The index is renamed last: if that fails,
 * the next start finds no index and repairs both again. */
static sp_err put_back(const char *damaged, const char *segment, const char *index, bool exchanged)
{
    sp_bytes aside = {0};
    SP_TRY(sp_bytes_addf(&aside, "%s.new", index));
    sp_err err = sp_bytes_add(&aside, "", 1);
    if (err == SP_OK && exchanged) err = move(segment, aside.v);
    if (err == SP_OK) err = move(damaged, segment);
    if (err == SP_OK && exchanged) err = move(aside.v, index);
    sp_vec_fini(&aside);
    return err;
}

sp_err sp_disk_exchange(sp_disk_tier *d, bool *index_is_back)
{
    sp_bytes damaged = {0};
    bool yes, found = false;
    uint32_t number;
    *index_is_back = false;
    SP_TRY(sp_bytes_addf(&damaged, "%s.damaged", d->journal.path));
    sp_err err = sp_bytes_add(&damaged, "", 1);
    if (err == SP_OK) err = is_segment(d, damaged.v, &yes);
    if (err == SP_OK && yes) err = find_index(d, &number, &found);
    char *path = err == SP_OK && yes ? sp_segments_path(&d->segments, number) : NULL;
    if (err == SP_OK && yes && !path) err = sp_fail_nomem("a path");
    if (path) err = put_back(damaged.v, path, d->journal.path, found);
    if (path && err == SP_OK)
        sp_log(SP_LOG_WARN, "%s was a segment of the store; it is now %s%s", d->journal.path, path,
               found ? ", whose file was the index" : "");
    *index_is_back = err == SP_OK && found;
    sp_free(path);
    sp_vec_fini(&damaged);
    return err;
}

sp_err sp_disk_recover(sp_disk_tier *d)
{
    numbers segments = {0};
    line_list lines = {0};
    sp_bytes buf = {0};
    sp_err err = list_segments(d, &segments);
    for (size_t i = 0; i < segments.n && err == SP_OK; i++)
        err = scan(d, segments.v[i], &buf, &lines);
    for (size_t i = 0; i < lines.n && err == SP_OK; i++) err = sp_disk_apply(d, &lines.v[i]);
    const uint32_t next = segments.n ? segments.v[segments.n - 1] + 1 : 1;
    if (err == SP_OK) err = sp_journal_rewrite(&d->journal, lines.v, lines.n, next);
    if (err == SP_OK && segments.n)
        sp_log(SP_LOG_WARN, "%s: the index was rebuilt: %zu copies", d->folder, d->table.n);
    sp_vec_fini(&buf);
    sp_vec_fini(&lines);
    sp_vec_fini(&segments);
    return err;
}
