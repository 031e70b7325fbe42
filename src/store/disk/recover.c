/* recover.c -- rebuilds the index from the headers in the segments. Every record is written at a higher
 * place than all before it, so the last of a key is its newest. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
    if (!path) return sp_fail_nomem(strlen(d->folder), "a path");
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

sp_err sp_disk_recover(sp_disk_tier *d)
{
    numbers segments = {0};
    line_list lines = {0};
    sp_bytes buf = {0};
    sp_err err = list_segments(d, &segments);
    for (size_t i = 0; i < segments.n && err == SP_OK; i++)
        err = scan(d, segments.v[i], &buf, &lines);
    for (size_t i = 0; i < lines.n && err == SP_OK; i++) err = sp_disk_apply(d, &lines.v[i]);
    if (err == SP_OK && segments.n) {
        uint32_t next = segments.v[segments.n - 1] + 1;
        err = sp_journal_rewrite(&d->journal, lines.v, lines.n, next);
        sp_log(SP_LOG_WARN, "%s: the index was rebuilt: %zu copies", d->folder, d->table.n);
    }
    sp_vec_fini(&buf);
    sp_vec_fini(&lines);
    sp_vec_fini(&segments);
    return err;
}
