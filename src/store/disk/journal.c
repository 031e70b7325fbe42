/* journal.c -- the index as a file. Integers are little endian; header and lines have 88 bytes.
 *
 *   header  offset  size   meaning
 *           0       8      "SPOLIAIX"
 *           8       4      version: 1
 *           12      4      number of the first segment that may be made
 *           16      32     namespace
 *           48      32     zeros
 *           80      8      XXH3-64 of the above
 *   line    0       4      event: 1 put, 2 drop, 3 damaged
 *           4       4      kind
 *           8       32     content id
 *           40      8      hash of the ids of the head
 *           48      4      segment
 *           52      4      first page
 *           56      4      pages
 *           60      4      pages of the header
 *           64      4      layers
 *           68      4      tokens
 *           72      1      facts: 1 exact, 2 attention was measured, 4 heavy tokens were measured
 *           73      3      how often it was used when this line was written
 *           76      4      f32 time that computing it took, us; 0: unknown
 *           80      8      XXH3-64 of the above, seeded with the number of the line
 */
#include "store/disk/journal_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "store/files.h"
#include "store/bytes.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "integers are stored as in memory");

enum {
    VERSION = 1,
    LINE = SP_JOURNAL_LINE_BYTES,
    SUM_AT = 80,
    BATCH = 2048 /* lines that are read at once */
};

static const char magic[8] = {'S', 'P', 'O', 'L', 'I', 'A', 'I', 'X'};

/* -- bytes ---------------------------------------------------------------------------------- */

static void sign(uint8_t *p, uint64_t seed)
{
    uint64_t sum = XXH3_64bits_withSeed(p, SUM_AT, seed);
    memcpy(p + SUM_AT, &sum, sizeof sum);
}

static bool is_signed(const uint8_t *p, uint64_t seed)
{
    uint64_t sum = XXH3_64bits_withSeed(p, SUM_AT, seed);
    return memcmp(p + SUM_AT, &sum, sizeof sum) == 0;
}

static void write_header(uint8_t *p, const sp_digest *space, uint32_t next_segment)
{
    memset(p, 0, LINE);
    memcpy(p, magic, sizeof magic);
    put32(p + 8, VERSION);
    put32(p + 12, next_segment);
    memcpy(p + 16, space->b, sizeof space->b);
    sign(p, 0);
}

static void write_line(uint8_t *p, uint64_t i, const sp_journal_line *l)
{
    memset(p, 0, LINE);
    put32(p, (uint32_t)l->event);
    put32(p + 4, l->key.kind);
    memcpy(p + 8, l->key.id.b, sizeof l->key.id.b);
    memcpy(p + 40, &l->key.head, 8);
    put32(p + 48, l->place.segment);
    put32(p + 52, l->place.page);
    put32(p + 56, l->place.pages);
    put32(p + 60, l->place.head_pages);
    put32(p + 64, l->place.n_layers);
    put32(p + 68, (uint32_t)l->place.n);
    put32(p + 72, l->place.facts | (uint32_t)l->place.uses << 8);
    memcpy(p + 76, &l->place.cost_us, 4);
    sign(p, i + 1);
}

bool sp_journal_parse(const uint8_t *p, uint64_t i, sp_journal_line *out)
{
    if (!is_signed(p, i + 1)) return false;
    sp_journal_line l = {.event = (sp_journal_event)get32(p), .key.kind = get32(p + 4)};
    memcpy(l.key.id.b, p + 8, sizeof l.key.id.b);
    memcpy(&l.key.head, p + 40, 8);
    l.place = (sp_disk_place){.segment = get32(p + 48),
                              .page = get32(p + 52),
                              .pages = get32(p + 56),
                              .head_pages = get32(p + 60),
                              .n_layers = get32(p + 64),
                              .n = (int32_t)get32(p + 68),
                              .facts = get32(p + 72) & 0xff,
                              .uses = get32(p + 72) >> 8,
                              .cost_us = get_float(p + 76)};
    const sp_disk_place *at = &l.place;
    if (l.event < SP_EVENT_PUT || l.event > SP_EVENT_DAMAGED) return false;
    if (l.event == SP_EVENT_PUT &&
        (at->segment == 0 || at->n < 1 || at->n_layers < 1 || at->head_pages < 1 ||
         at->pages <= at->head_pages || (at->pages - at->head_pages) % at->n_layers != 0 ||
         at->page > UINT32_MAX - at->pages))
        return false;
    *out = l;
    return true;
}

/* -- reading -------------------------------------------------------------------------------- */

static sp_err check_version(const char *path, const uint8_t *p, size_t n)
{
    if (n < LINE || memcmp(p, magic, sizeof magic) != 0 || !is_signed(p, 0))
        return sp_fail(SP_E_FORMAT, "%s: damaged, or not an index", path);
    if (get32(p + 8) == VERSION) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: version %u, this program reads version %d", path,
                   get32(p + 8), VERSION);
}

static sp_err check_header(const sp_journal *j, const uint8_t *p, size_t n)
{
    SP_TRY(check_version(j->path, p, n));
    if (memcmp(p + 16, j->space.b, sizeof j->space.b) == 0) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: of another namespace", j->path);
}

sp_err sp_journal_space(const char *path, sp_digest *out)
{
    uint8_t header[LINE];
    size_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return sp_fail(SP_E_IO, "%s: %s", path, strerror(errno));
    sp_err err = sp_files_read(fd, path, 0, header, sizeof header, &got);
    close(fd);
    if (err == SP_OK) err = check_version(path, header, got);
    if (err == SP_OK) memcpy(out->b, header + 16, sizeof out->b);
    return err;
}

/* replay -- reads the lines from number `from`; sets n_lines to the end of the last valid one. */
static sp_err replay(sp_journal *j, uint64_t from, sp_journal_fn *fn, void *user)
{
    uint8_t *lines = sp_alloc(BATCH, LINE);
    sp_err err = lines ? SP_OK : sp_fail_nomem("the index");
    uint64_t n_skipped = 0;
    for (size_t got = (size_t)BATCH * LINE; err == SP_OK && got == (size_t)BATCH * LINE;) {
        err = sp_files_read(j->fd, j->path, (from + 1) * LINE, lines, (size_t)BATCH * LINE, &got);
        for (size_t i = 0; err == SP_OK && (i + 1) * LINE <= got; i++, from++) {
            sp_journal_line line;
            n_skipped++;
            if (!sp_journal_parse(lines + i * LINE, from, &line)) continue;
            err = fn(user, &line);
            if (err != SP_OK) break;
            j->n_damaged += n_skipped - 1;
            n_skipped = 0;
            j->n_lines = from + 1;
        }
    }
    sp_free(lines);
    return err;
}

static sp_err open_file(sp_journal *j, bool write)
{
    struct stat st;
    uint8_t header[LINE];
    size_t got = 0;
    j->fd = open(j->path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (j->fd < 0)
        return sp_fail(errno == ENOENT ? SP_E_NOTFOUND : SP_E_IO, "%s: %s", j->path,
                       strerror(errno));
    if (fstat(j->fd, &st) != 0) return sp_fail(SP_E_IO, "%s: %s", j->path, strerror(errno));
    j->device = st.st_dev;
    j->inode = st.st_ino;
    SP_TRY(sp_files_read(j->fd, j->path, 0, header, sizeof header, &got));
    SP_TRY(check_header(j, header, got));
    j->next_segment = get32(header + 12);
    return SP_OK;
}

static void close_file(sp_journal *j)
{
    if (j->fd >= 0) close(j->fd);
    j->fd = -1;
}

/* -- a new file ----------------------------------------------------------------------------- */

static char *with_suffix(const char *path, const char *suffix)
{
    sp_bytes b = {0};
    if (sp_bytes_addf(&b, "%s%s", path, suffix) != SP_OK || sp_bytes_add(&b, "", 1) != SP_OK)
        sp_vec_fini(&b);
    return b.v;
}

static sp_err write_lines(int fd, const char *path, const sp_journal *j,
                          const sp_journal_line *lines, size_t n, uint32_t next_segment)
{
    uint8_t *bytes = sp_alloc(n + 1, LINE);
    if (!bytes) return sp_fail_nomem("the index");
    write_header(bytes, &j->space, next_segment);
    for (size_t i = 0; i < n; i++) write_line(bytes + (i + 1) * LINE, i, &lines[i]);
    sp_err err = sp_files_write(fd, path, 0, bytes, (n + 1) * LINE);
    sp_free(bytes);
    return err == SP_OK ? sp_files_sync(fd, path) : err;
}

static sp_err sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? sp_strdup_n(path, (size_t)(slash - path)) : sp_strdup_n(".", 1);
    if (!folder) return sp_fail_nomem("a path");
    sp_err err = sp_files_sync_folder(folder);
    sp_free(folder);
    return err;
}

sp_err sp_journal_rewrite(sp_journal *j, const sp_journal_line *lines, size_t n,
                          uint32_t next_segment)
{
    struct stat st;
    char *path = with_suffix(j->path, ".new");
    if (!path) return sp_fail_nomem("a path");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    sp_err err = SP_OK;
    if (fd < 0) err = sp_fail(SP_E_IO, "%s: cannot create: %s", path, strerror(errno));
    if (err == SP_OK) err = write_lines(fd, path, j, lines, n, next_segment);
    if (err == SP_OK && (fstat(fd, &st) != 0 || rename(path, j->path) != 0))
        err = sp_fail(SP_E_IO, "%s: cannot put in place: %s", path, strerror(errno));
    if (err == SP_OK) {
        close_file(j);
        j->fd = fd;
        j->n_lines = n;
        j->n_damaged = 0;
        j->must_cut = j->is_new = false;
        j->next_segment = next_segment;
        j->device = st.st_dev;
        j->inode = st.st_ino;
        err = sync_folder_of(path);
    } else if (fd >= 0) {
        unlink(path);
        close(fd);
    }
    sp_free(path);
    return err;
}

/* move_aside -- renames a file that is not an index, and logs it. */
static sp_err move_aside(sp_journal *j)
{
    sp_log(SP_LOG_WARN, "%s; it is kept as %s.damaged until the next deletion", sp_error_detail(), j->path);
    char *path = with_suffix(j->path, ".damaged");
    if (!path) return sp_fail_nomem("a path");
    sp_err err = SP_OK;
    if (rename(j->path, path) != 0)
        err = sp_fail(SP_E_IO, "%s: cannot rename: %s", j->path, strerror(errno));
    sp_free(path);
    return err;
}

sp_err sp_journal_remove_damaged(const sp_journal *j)
{
    char *path = with_suffix(j->path, ".damaged");
    if (!path) return sp_fail_nomem("a path");
    sp_err err = SP_OK;
    if (unlink(path) != 0 && errno != ENOENT) err = sp_fail(SP_E_IO, "%s: cannot delete: %s", path, strerror(errno));
    sp_free(path);
    return err;
}

sp_err sp_journal_open(sp_journal *j, const char *path, const sp_digest *space, bool make,
                       sp_journal_fn *fn, void *user)
{
    *j = (sp_journal){.fd = -1, .space = *space, .next_segment = 1};
    if (!(j->path = sp_strdup_n(path, strlen(path)))) return sp_fail_nomem("a path");
    sp_err err = open_file(j, make);
    if ((err == SP_E_NOTFOUND || err == SP_E_FORMAT) && make) {
        close_file(j);
        err = err == SP_E_NOTFOUND ? SP_OK : move_aside(j);
        j->is_new = true;
    } else if (err == SP_OK) {
        err = replay(j, 0, fn, user);
    }
    if (err != SP_OK) sp_journal_close(j);
    return err;
}

void sp_journal_close(sp_journal *j)
{
    close_file(j);
    sp_free(j->path);
    j->path = NULL;
}

sp_err sp_journal_more(sp_journal *j, bool *replaced, sp_journal_fn *fn, void *user)
{
    struct stat st;
    *replaced = false;
    if (stat(j->path, &st) != 0) return sp_fail(SP_E_IO, "%s: %s", j->path, strerror(errno));
    *replaced = st.st_dev != j->device || st.st_ino != j->inode;
    if (*replaced || (uint64_t)st.st_size < (j->n_lines + 2) * LINE) return SP_OK;
    return replay(j, j->n_lines, fn, user);
}

/* cut -- removes invalid lines at the end (I3). */
static sp_err cut(sp_journal *j)
{
    j->must_cut = ftruncate(j->fd, (off_t)((j->n_lines + 1) * LINE)) != 0;
    if (!j->must_cut) return SP_OK;
    return sp_fail(SP_E_IO, "%s: cannot truncate: %s", j->path, strerror(errno));
}

sp_err sp_journal_append(sp_journal *j, const sp_journal_line *lines, size_t n, bool lazily)
{
    uint8_t *bytes = sp_alloc(n, LINE);
    if (!bytes) return sp_fail_nomem("lines of the index");
    for (size_t i = 0; i < n; i++) write_line(bytes + i * LINE, j->n_lines + i, &lines[i]);
    const uint64_t at = (j->n_lines + 1) * LINE;
    sp_err err = j->must_cut ? cut(j) : SP_OK;
    if (err == SP_OK) err = sp_files_write(j->fd, j->path, at, bytes, n * LINE);
    sp_free(bytes);
    if (err == SP_OK && !lazily) err = sp_files_sync(j->fd, j->path);
    if (err == SP_OK) {
        j->n_lines += n;
        return SP_OK;
    }
    char why[200];
    snprintf(why, sizeof why, "%s", sp_error_detail());
    if (cut(j) != SP_OK) sp_log(SP_LOG_WARN, "%s", sp_error_detail());
    return sp_fail(err, "%s", why);
}
