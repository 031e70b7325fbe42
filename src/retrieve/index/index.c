/* index.c -- builds the index and brings it up to date.
 *
 * For each root that is named, two sorted lists are merged, its files and those of the index:
 *
 *     in the root only     ──> add_file
 *     in both              ──> update_file ──> kept        same size and time, or same SHA-256
 *                                          ──> add_file    its old chunks removed first
 *     in the index only    ──> removed
 *
 * A file that cannot be read or is not text is skipped: warned about, counted, and not in the index.
 * All of it is one SQLite transaction: a build that fails, is canceled or crashes leaves the index
 * unchanged.
 */
#include "retrieve/index/index.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "retrieve/index/build_int.h"
#include "retrieve/index/tags.h"

#define MAX_FILE_BYTES INT32_MAX
#define DEFAULT_WORDS  150
/* File times may be this coarse: a file written within this time before a build may be written again
 * and keep its time. */
#define TIME_GRAIN_NS INT64_C(2000000000)

sp_err sp_build_report(sp_builder *b)
{
    if (!b->o.progress || b->o.progress(b->file, b->n_done, b->n_total, b->o.user)) return SP_OK;
    return sp_fail(SP_E_CANCELED, "%s: the index is unchanged", b->path);
}

/* -- files ---------------------------------------------------------------------------------- */

static sp_err skip(sp_builder *b)
{
    sp_log(SP_LOG_WARN, "skipped: %s", sp_error_detail());
    b->stats->n_skipped++;
    return SP_OK;
}

/* find_file -- sets b->full to the path of b->file; *usable is false if it is not a regular file. */
static sp_err find_file(sp_builder *b, sp_known_file *out, bool *usable)
{
    b->full.n = 0;
    SP_TRY(sp_bytes_addf(&b->full, "%s/%s%c", b->root->folder, b->file, '\0'));
    struct stat st;
    bool exists = stat(b->full.v, &st) == 0;
    *usable = exists && S_ISREG(st.st_mode);
    if (!*usable) {
        sp_fail(SP_E_IO, "%s: %s", b->full.v, exists ? "not a regular file" : strerror(errno));
        return SP_OK;
    }
    out->path = b->file;
    out->size = st.st_size;
    out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return SP_OK;
}

/* read_file -- fills b->content and the hash; *usable is false when the file cannot be read. */
static sp_err read_file(sp_builder *b, sp_known_file *f, bool *usable)
{
    b->content.n = 0;
    sp_err err = sp_file_read(b->full.v, MAX_FILE_BYTES, &b->content);
    *usable = err == SP_OK;
    if (err == SP_E_IO || err == SP_E_LIMIT) return SP_OK;
    SP_TRY(err);
    sp_sha256 *hash;
    SP_TRY(sp_sha256_create(&hash));
    sp_sha256_update(hash, b->content.v, b->content.n);
    sp_sha256_final(hash, &f->sha256);
    return SP_OK;
}

static sp_err add_file(sp_builder *b, const sp_known_file *f)
{
    SP_TRY(sp_rows_add_file(b, f));
    int64_t before = b->stats->n_chunks;
    sp_reading r = {
        .path = b->full.v, .fn = sp_rows_add_document, .user = b, .strict = b->o.strict};
    sp_err err = sp_documents_read(&r, sp_document_format(b->file), b->content.v, b->content.n);
    if (err == SP_E_UNSUPPORTED || err == SP_E_LIMIT) {
        SP_TRY(skip(b));
        b->stats->n_chunks = before;
        return sp_rows_remove_file(b, b->file_id); /* with the chunks of sheets before a damaged one */
    }
    SP_TRY(err);
    b->stats->n_bad_lines += r.n_bad_lines;
    b->stats->n_files++;
    b->stats->n_bytes += f->size;
    return sp_rows_run(b, SP_SET_CHUNKS, b->file_id, b->stats->n_chunks - before);
}

static sp_err keep_file(sp_builder *b, const sp_known_file *k, const sp_known_file *f)
{
    b->stats->n_files++;
    b->stats->n_unchanged++;
    b->stats->n_chunks += k->n_chunks;
    b->stats->n_bytes += k->size;
    return k->mtime_ns == f->mtime_ns ? SP_OK : sp_rows_run(b, SP_SET_TIME, k->id, f->mtime_ns);
}

/* update_file -- b->file is in the root and, if k is not NULL, in the index. The detail of the last
 * sp_fail says why a file is not usable. */
static sp_err update_file(sp_builder *b, const sp_known_file *k)
{
    sp_known_file f = {0};
    bool usable;
    SP_TRY(find_file(b, &f, &usable));
    bool same_stat = usable && k && k->size == f.size && k->mtime_ns == f.mtime_ns;
    if (same_stat && f.mtime_ns < b->root->built_ns - TIME_GRAIN_NS) return keep_file(b, k, &f);
    if (usable) SP_TRY(read_file(b, &f, &usable));
    if (usable && k && sp_digest_eq(&k->sha256, &f.sha256)) return keep_file(b, k, &f);
    if (!usable) SP_TRY(skip(b));
    if (k) SP_TRY(sp_rows_remove_file(b, k->id));
    return usable ? add_file(b, &f) : SP_OK;
}

/* -- a root ----------------------------------------------------------------------------------- */

static sp_err know_file(sp_builder *b, sqlite3_stmt *s, sp_arena *paths)
{
    sp_known_file k = {
        .id = sqlite3_column_int64(s, 0),
        .size = sqlite3_column_int64(s, 2),
        .mtime_ns = sqlite3_column_int64(s, 3),
        .n_chunks = sqlite3_column_int64(s, 5),
    };
    const char *path = (const char *)sqlite3_column_text(s, 1);
    const void *sha256 = sqlite3_column_blob(s, 4);
    if (!path || !sha256 || sqlite3_column_bytes(s, 4) != sizeof k.sha256)
        return sp_fail(SP_E_FORMAT, "%s: index: a damaged row in table files", b->path);
    size_t n = strlen(path) + 1;
    char *copy = sp_arena_take(paths, n, 1);
    if (!copy) return sp_fail_nomem("a file name");
    k.path = memcpy(copy, path, n);
    memcpy(k.sha256.b, sha256, sizeof k.sha256.b);
    SP_TRY(sp_vec_reserve(&b->known, 1));
    b->known.v[b->known.n++] = k;
    return SP_OK;
}

static sp_err know_files(sp_builder *b, sp_arena *paths)
{
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(b->db, b->path,
                         "SELECT id, path, size, mtime_ns, sha256, n_chunks FROM files"
                         " WHERE root = ? ORDER BY path",
                         &s));
    sqlite3_bind_int64(s, 1, b->root->id);
    sp_err err = SP_OK;
    int rc = SQLITE_DONE;
    while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) err = know_file(b, s, paths);
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(b->db, b->path, "index");
    sqlite3_finalize(s);
    return err;
}

static sp_err merge(sp_builder *b)
{
    const char *const *found = b->root->files.files.v;
    size_t i = 0, j = 0, n = b->root->files.files.n;
    while (i < n || j < b->known.n) {
        const sp_known_file *k = j < b->known.n ? &b->known.v[j] : NULL;
        int order = i == n ? 1 : !k ? -1 : strcmp(found[i], k->path);
        if (order > 0) {
            SP_TRY(sp_rows_remove_file(b, k->id));
            b->stats->n_removed++;
            j++;
            continue;
        }
        b->file = found[i++];
        SP_TRY(update_file(b, order == 0 ? k : NULL));
        j += order == 0;
        b->n_done++;
        SP_TRY(sp_build_report(b));
    }
    return SP_OK;
}

static sp_err build_root(sp_builder *b, sp_root *r, int64_t now_ns)
{
    sp_arena paths;
    sp_arena_init(&paths);
    b->root = r;
    b->known.n = 0;
    sp_err err = know_files(b, &paths);
    if (err == SP_OK) err = merge(b);
    if (err == SP_OK) err = sp_tags_update(b);
    sp_arena_fini(&paths);
    r->built_ns = now_ns;
    return err;
}

/* -- the whole ------------------------------------------------------------------------------ */

/* choose_cut -- how chunks are cut: as requested, or as in the index. *other: differently from the
 * index. */
static sp_err choose_cut(sp_builder *b, bool *other)
{
    int64_t size, overlap;
    SP_TRY(sp_db_number(b->db, b->path, "SELECT size_words FROM options", &size));
    SP_TRY(sp_db_number(b->db, b->path, "SELECT overlap_words FROM options", &overlap));
    if (b->o.size_words == 0 && b->o.overlap_words == 0 && size > 0 && size <= INT32_MAX &&
        overlap >= 0 && overlap < size)
        b->cut = (sp_chunk_opts){(int)size, (int)overlap};
    *other = size != b->cut.size_words || overlap != b->cut.overlap_words;
    return SP_OK;
}

/* give_way -- roots without a chunk have nothing to lose: those that are named replace them. */
static sp_err give_way(sp_builder *b, int n_named)
{
    int64_t any = 0;
    SP_TRY(sp_db_number(b->db, b->path, "SELECT EXISTS (SELECT 1 FROM chunks)", &any));
    if (!any && n_named > 0 && !b->o.add && !b->o.moved) b->o.replace = true;
    return SP_OK;
}

/* start -- inside the transaction: an index of this version with the roots of this build. A new way
 * to cut empties it, and every root is read again. */
static sp_err start(sp_builder *b, const char *const *named, int n_named, bool *fresh)
{
    bool empty, other = true;
    SP_TRY(sp_db_check(b->db, b->path, b->o.replace, &empty));
    if (!empty) {
        SP_TRY(choose_cut(b, &other));
        SP_TRY(sp_roots_load(b));
        SP_TRY(give_way(b, n_named));
    }
    if (other) SP_TRY(sp_db_clear(b->db, b->path));
    *fresh = other;
    SP_TRY(sp_rows_prepare(b));
    SP_TRY(sp_roots_name(b, named, n_named));
    for (size_t i = 0; i < b->roots.n && other; i++) {
        b->roots.v[i].wanted = true;
        b->roots.v[i].id = b->roots.v[i].built_ns = 0;
    }
    char sql[160];
    snprintf(sql, sizeof sql, "DELETE FROM options; INSERT INTO options VALUES (%d, %d)",
             b->cut.size_words, b->cut.overlap_words);
    SP_TRY(sp_db_exec(b->db, b->path, sql));
    SP_TRY(sp_roots_list(b));
    return sp_roots_save(b);
}

/* build -- the transaction. A new index is merged into one segment: it costs little then and makes
 * every search cheaper; updates leave that to FTS5's own merging. */
static sp_err build(sp_builder *b, const char *const *named, int n_named)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    bool fresh = false;
    SP_TRY(sp_db_exec(b->db, b->path, "PRAGMA cache_size = -65536; BEGIN IMMEDIATE"));
    SP_TRY(start(b, named, n_named, &fresh));
    for (size_t i = 0; i < b->roots.n; i++)
        if (b->roots.v[i].wanted)
            SP_TRY(build_root(b, &b->roots.v[i], (int64_t)now.tv_sec * 1000000000 + now.tv_nsec));
    SP_TRY(sp_roots_save(b));
    if (fresh)
        SP_TRY(sp_db_exec(b->db, b->path,
                          "INSERT INTO words (words) VALUES ('optimize');"
                          "INSERT INTO grams (grams) VALUES ('optimize')"));
    SP_TRY(sp_db_number(b->db, b->path, "SELECT count(*) FROM files", &b->stats->n_all_files));
    SP_TRY(sp_db_number(b->db, b->path, "SELECT coalesce(sum(n_chunks), 0) FROM files", &b->stats->n_all_chunks));
    return sp_db_exec(b->db, b->path, "COMMIT");
}

static sp_err check(const char *const *roots, int n_roots, const char *path, const sp_index_opts *o)
{
    if (!path) return sp_fail(SP_E_ARG, "sp_index_build: the path of the index is NULL");
    if (n_roots < 0 || (n_roots > 0 && !roots))
        return sp_fail(SP_E_ARG, "sp_index_build: %d folders", n_roots);
    for (int i = 0; i < n_roots; i++)
        if (!roots[i] || !*roots[i])
            return sp_fail(SP_E_ARG, "%s: the name of folder %d is empty", path, i + 1);
    int size = o->size_words ? o->size_words : DEFAULT_WORDS;
    if (size < 1 || o->overlap_words < 0 || o->overlap_words >= size)
        return sp_fail(SP_E_ARG, "size_words %d, overlap_words %d: the overlap must be smaller", size,
                       o->overlap_words);
    return SP_OK;
}

sp_err sp_index_build(const char *const *roots, int n_roots, const char *out_path,
                      const sp_index_opts *o, sp_index_stats *stats)
{
    sp_index_stats unused;
    sp_builder b = {.path = out_path, .stats = stats ? stats : &unused};
    if (o) b.o = *o;
    SP_TRY(check(roots, n_roots, out_path, &b.o));
    b.cut = (sp_chunk_opts){b.o.size_words ? b.o.size_words : DEFAULT_WORDS, b.o.overlap_words};
    *b.stats = (sp_index_stats){0};
    bool existed = access(out_path, F_OK) == 0;
    SP_TRY(sp_db_open(out_path, "cannot open the index", true, &b.db));
    sp_arena_init(&b.names);
    sp_err err = build(&b, roots, n_roots);

    sp_rows_fini(&b);
    sqlite3_close(b.db); /* rolls back what was not committed */
    if (err != SP_OK && !existed) unlink(out_path);
    sp_roots_fini(&b);
    sp_vec_fini(&b.known);
    sp_vec_fini(&b.full);
    sp_vec_fini(&b.content);
    return err;
}
