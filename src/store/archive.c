/* archive.c -- copies in one file. Integers are little endian.
 *
 *   offset  size   meaning
 *   0       8      "SPOLIAAR"
 *   8       4      version: 1
 *   12      4      0
 *   16      32     namespace
 *   48      8      XXH3-64 of the above
 *   4096    ...    records (record.c) one after another, at pages
 *   ...     8      "SPOLIAEN" at the next page: the archive is whole
 *   +8      8      how many records
 *   +16     8      XXH3-64 of these 16 bytes
 */
#include "store/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "store/files.h"

enum { VERSION = 1, HEADER_BYTES = 56, END_BYTES = 24 };

static const char magic[8] = {'S', 'P', 'O', 'L', 'I', 'A', 'A', 'R'};
static const char end_magic[8] = {'S', 'P', 'O', 'L', 'I', 'A', 'E', 'N'};

static void sign(uint8_t *p, size_t n)
{
    uint64_t sum = XXH3_64bits(p, n);
    memcpy(p + n, &sum, sizeof sum);
}

static bool is_signed(const uint8_t *p, size_t n)
{
    uint64_t sum = XXH3_64bits(p, n);
    return memcmp(p + n, &sum, sizeof sum) == 0;
}

/* -- export --------------------------------------------------------------------------------- */

typedef struct writer {
    int fd;
    const char *path;
    uint64_t at;                  /* where the next record begins */
    uint64_t layer_at;            /* of this record */
    sp_bytes buf;                 /* a header; then a layer, padded */
    uint64_t layer_bytes, padded; /* layer_bytes: with notes */
} writer;

static sp_err reserve_zeroed(sp_bytes *b, size_t n)
{
    b->n = 0;
    SP_TRY(sp_vec_reserve(b, n));
    memset(b->v, 0, n);
    return SP_OK;
}

static sp_err write_head(void *user, const sp_record *r)
{
    writer *w = user;
    const sp_record_layout l = sp_record_layout_of(r);
    const size_t n = (size_t)l.head_pages * SP_PAGE;
    SP_TRY(reserve_zeroed(&w->buf, n));
    SP_TRY(sp_record_write(r, r->sums, (uint8_t *)w->buf.v));
    SP_TRY(sp_files_write(w->fd, w->path, w->at, w->buf.v, n));
    w->layer_at = w->at + n;
    w->layer_bytes = r->layer_bytes + r->facts.note_bytes;
    w->padded = (uint64_t)l.layer_pages * SP_PAGE;
    return reserve_zeroed(&w->buf, w->padded);
}

static sp_err write_layer(void *user, int layer, const void *from)
{
    writer *w = user;
    memcpy(w->buf.v, from, w->layer_bytes);
    return sp_files_write(w->fd, w->path, w->layer_at + (uint64_t)layer * w->padded, w->buf.v,
                          w->padded);
}

typedef struct selection {
    sp_archive_keep_fn *keep;
    void *user;
    SP_VEC(sp_tier_info) list;
} selection;

static sp_err select_copy(void *user, const sp_tier_info *info)
{
    selection *s = user;
    if (s->keep && !s->keep(s->user, info)) return SP_OK;
    SP_TRY(sp_vec_reserve(&s->list, 1));
    s->list.v[s->list.n++] = *info;
    return SP_OK;
}

static sp_err read_n_layers(void *user, const sp_record *r)
{
    int *n = user;
    *n = r->n_layers;
    return SP_OK;
}

/* export_one -- the next record replaces one that could not be read whole. */
static sp_err export_one(sp_tier *t, writer *w, const sp_tier_info *info, sp_archive_stats *s)
{
    int n_layers = 0;
    sp_tier_job ask = {
        .verb = SP_TIER_GET, .key = info->key, .head = read_n_layers, .user = &n_layers};
    sp_err err = sp_tier_run(t, &ask);
    sp_tier_job get = {.verb = SP_TIER_GET,
                       .key = info->key,
                       .n_layers = n_layers,
                       .head = write_head,
                       .sink = write_layer,
                       .user = w};
    if (err == SP_OK) err = sp_tier_run(t, &get);
    s->n_damaged += err == SP_E_FORMAT;
    if (err == SP_E_FORMAT || err == SP_E_NOTFOUND) return SP_OK;
    SP_TRY(err);
    w->at = w->layer_at + (uint64_t)n_layers * w->padded;
    s->n_copies++;
    return SP_OK;
}

static sp_err export_all(sp_tier *t, writer *w, const sp_digest *space, const selection *chosen,
                         sp_archive_stats *s)
{
    uint8_t header[SP_PAGE] = {0}, end[END_BYTES];
    const uint32_t version = VERSION;
    memcpy(header, magic, sizeof magic);
    memcpy(header + 8, &version, 4);
    memcpy(header + 16, space->b, sizeof space->b);
    sign(header, HEADER_BYTES - 8);
    SP_TRY(sp_files_write(w->fd, w->path, 0, header, sizeof header));
    w->at = sizeof header;
    for (size_t i = 0; i < chosen->list.n; i++) SP_TRY(export_one(t, w, &chosen->list.v[i], s));
    memcpy(end, end_magic, sizeof end_magic);
    memcpy(end + 8, &s->n_copies, 8);
    sign(end, END_BYTES - 8);
    SP_TRY(sp_files_write(w->fd, w->path, w->at, end, sizeof end));
    s->bytes = (int64_t)w->at + END_BYTES;
    if (ftruncate(w->fd, s->bytes) != 0)
        return sp_fail(SP_E_IO, "%s: cannot truncate: %s", w->path, strerror(errno));
    return sp_files_sync(w->fd, w->path);
}

static sp_err export_to(sp_tier *t, const char *temporary, const sp_digest *space,
                        const selection *chosen, sp_archive_stats *s)
{
    writer w = {.path = temporary};
    w.fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (w.fd < 0) return sp_fail(SP_E_IO, "%s: cannot create: %s", temporary, strerror(errno));
    sp_err err = export_all(t, &w, space, chosen, s);
    if (close(w.fd) != 0 && err == SP_OK)
        err = sp_fail(SP_E_IO, "%s: cannot write: %s", temporary, strerror(errno));
    sp_vec_fini(&w.buf);
    return err;
}

sp_err sp_archive_export(sp_tier *t, const char *path, const sp_digest *space,
                         sp_archive_keep_fn *keep, void *user, sp_archive_stats *out)
{
    selection chosen = {.keep = keep, .user = user};
    sp_archive_stats s = {0};
    sp_bytes temporary = {0};
    sp_err err = sp_bytes_addf(&temporary, "%s.%ld.new", path, (long)getpid());
    if (err == SP_OK) err = sp_bytes_add(&temporary, "", 1);
    if (err == SP_OK)
        err = sp_tier_run(
            t, &(sp_tier_job){.verb = SP_TIER_LIST, .each = select_copy, .user = &chosen});
    if (err == SP_OK) {
        err = export_to(t, temporary.v, space, &chosen, &s);
        if (err == SP_OK && rename(temporary.v, path) != 0)
            err = sp_fail(SP_E_IO, "%s: cannot put in place: %s", path, strerror(errno));
        if (err != SP_OK) unlink(temporary.v);
    }
    sp_vec_fini(&temporary);
    sp_vec_fini(&chosen.list);
    if (err == SP_OK) *out = s;
    return err;
}

/* -- reading -------------------------------------------------------------------------------- */

typedef struct reader {
    int fd;
    const char *path;
    sp_digest space;
    uint64_t at;  /* of the record */
    sp_bytes buf; /* its header */
    sp_record record;
    sp_record_layout layout;
    sp_bytes layer;
} reader;

static sp_err ends_early(const reader *r)
{
    return sp_fail(SP_E_FORMAT, "%s: ends early", r->path);
}

static sp_err open_archive(reader *r, const char *path)
{
    uint8_t header[HEADER_BYTES];
    uint32_t version;
    size_t got = 0;
    *r = (reader){.path = path, .at = SP_PAGE};
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r->fd < 0) return sp_fail(SP_E_IO, "%s: cannot open: %s", path, strerror(errno));
    SP_TRY(sp_files_read(r->fd, path, 0, header, sizeof header, &got));
    if (got < sizeof header || memcmp(header, magic, sizeof magic) != 0 ||
        !is_signed(header, HEADER_BYTES - 8))
        return sp_fail(SP_E_FORMAT, "%s: damaged, or not an archive of copies", path);
    memcpy(&version, header + 8, 4);
    memcpy(r->space.b, header + 16, sizeof r->space.b);
    if (version == VERSION) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: version %u, this program reads version %d", path, version,
                   VERSION);
}

static void close_archive(reader *r)
{
    if (r->fd >= 0) close(r->fd);
    sp_vec_fini(&r->buf);
    sp_vec_fini(&r->layer);
}

sp_err sp_archive_space(const char *path, sp_digest *out)
{
    reader r;
    sp_err err = open_archive(&r, path);
    if (err == SP_OK) *out = r.space;
    close_archive(&r);
    return err;
}

/* read_next -- reads the header of the next record; *is_end: no record is left and the archive is complete. If a
 * header is unreadable, the start of the next record is unknown. */
static sp_err read_next(reader *r, int64_t n_read, bool *is_end)
{
    size_t got;
    uint32_t head_pages;
    int64_t n;
    SP_TRY(sp_vec_reserve(&r->buf, SP_PAGE));
    SP_TRY(sp_files_read(r->fd, r->path, r->at, r->buf.v, SP_PAGE, &got));
    const uint8_t *p = (const uint8_t *)r->buf.v;
    *is_end = got >= END_BYTES && memcmp(p, end_magic, sizeof end_magic) == 0 &&
              is_signed(p, END_BYTES - 8);
    if (*is_end) {
        memcpy(&n, p + 8, 8);
        return n == n_read ? SP_OK
                           : sp_fail(SP_E_FORMAT, "%s: %lld copies, but its end says %lld", r->path,
                                     (long long)n_read, (long long)n);
    }
    if (got < SP_PAGE) return ends_early(r);
    sp_err err = sp_record_size(p, &head_pages);
    if (err != SP_OK) return sp_fail_in(err, "%s", r->path);
    SP_TRY(sp_vec_reserve(&r->buf, (size_t)head_pages * SP_PAGE));
    SP_TRY(sp_files_read(r->fd, r->path, r->at, r->buf.v, (size_t)head_pages * SP_PAGE, &got));
    if (got < (size_t)head_pages * SP_PAGE) return ends_early(r);
    err = sp_record_read((const uint8_t *)r->buf.v, got, &r->record);
    if (err != SP_OK) return sp_fail_in(err, "%s", r->path);
    if (!sp_digest_eq(&r->record.space, &r->space))
        return sp_fail(SP_E_FORMAT, "%s: holds a copy of another namespace", r->path);
    r->layout = sp_record_layout_of(&r->record);
    return SP_OK;
}

static sp_err read_layer(void *user, int layer, void *to)
{
    reader *r = user;
    const sp_record *rec = &r->record;
    const uint64_t n = rec->layer_bytes + rec->facts.note_bytes;
    size_t got;
    SP_TRY(sp_files_read(
        r->fd, r->path,
        r->at +
            ((uint64_t)r->layout.head_pages + (uint64_t)layer * r->layout.layer_pages) * SP_PAGE,
        to, n, &got));
    if (got < n) return ends_early(r);
    if (rec->facts.note_bytes && !sp_record_notes_ok(rec, layer, to))
        memset((uint8_t *)to + rec->layer_bytes, 0, rec->facts.note_bytes); /* derived again */
    if (sp_layer_sum_eq(sp_layer_sum_of(to, rec->layer_bytes), rec->sums[layer])) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: damaged: the checksum of layer %d is wrong", r->path, layer);
}

static sp_err verify_layers(reader *r)
{
    r->layer.n = 0;
    SP_TRY(sp_vec_reserve(&r->layer, r->record.layer_bytes + r->record.facts.note_bytes));
    for (int i = 0; i < r->record.n_layers; i++) SP_TRY(read_layer(r, i, r->layer.v));
    return SP_OK;
}

/* each_record -- calls fn for every record; a damaged record in a readable file is only counted. */
static sp_err each_record(reader *r, sp_err (*fn)(void *user, reader *r), void *user,
                          sp_archive_stats *s)
{
    bool is_end = false;
    for (int64_t n = 0;; n++) {
        SP_TRY(read_next(r, n, &is_end));
        if (is_end) break;
        off_t size = lseek(r->fd, 0, SEEK_END);
        const uint64_t next = r->at + r->layout.pages * SP_PAGE;
        if (size < 0 || next > (uint64_t)size) return ends_early(r);
        sp_err err = fn(user, r);
        if (err == SP_E_FORMAT) {
            sp_log(SP_LOG_WARN, "a copy was left out: %s", sp_error_detail());
            s->n_damaged++;
        } else {
            SP_TRY(err);
            s->n_copies++;
        }
        r->at = next;
    }
    s->bytes = (int64_t)r->at + END_BYTES;
    return SP_OK;
}

static sp_err import_one(void *user, reader *r)
{
    return sp_tier_run(
        user,
        &(sp_tier_job){.verb = SP_TIER_PUT, .record = &r->record, .source = read_layer, .user = r});
}

sp_err sp_archive_import(sp_tier *t, const char *path, const sp_digest *space,
                         sp_archive_stats *out)
{
    reader r;
    sp_archive_stats s = {0};
    sp_err err = open_archive(&r, path);
    if (err == SP_OK && !sp_digest_eq(&r.space, space))
        err = sp_fail(SP_E_UNSUPPORTED, "%s: of another model, KV type or salt", path);
    if (err == SP_OK) err = each_record(&r, import_one, t, &s);
    close_archive(&r);
    *out = s;
    return err;
}

typedef struct visit {
    bool verify;
    sp_archive_fn *fn;
    void *user;
} visit;

static sp_err visit_one(void *user, reader *r)
{
    const visit *v = user;
    if (v->verify) SP_TRY(verify_layers(r));
    return v->fn ? v->fn(v->user, &r->record) : SP_OK;
}

sp_err sp_archive_each(const char *path, bool verify, sp_archive_fn *fn, void *user,
                       sp_archive_stats *out)
{
    reader r;
    visit v = {.verify = verify, .fn = fn, .user = user};
    sp_archive_stats s = {0};
    sp_err err = open_archive(&r, path);
    if (err == SP_OK) err = each_record(&r, visit_one, &v, &s);
    close_archive(&r);
    *out = s;
    return err;
}
