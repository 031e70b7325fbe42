/* index.c -- builds the index and brings it up to date.
 *
 * Two sorted lists are merged, the files of the folder and those of the index:
 *
 *     in the folder only   ──> add_file
 *     in both              ──> update_file ──> kept        same size and time, or same SHA-256
 *                                          ──> add_file    its old chunks removed first
 *     in the index only    ──> forget_file
 *
 * A file that cannot be read or is no text is skipped: warned about, counted, and not in the index.
 * All of it is one SQLite transaction; whatever fails, is canceled or dies leaves the index as it
 * was.
 */
#include "retrieve/index.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "retrieve/db_int.h"
#include "retrieve/documents_int.h"
#include "retrieve/folder_int.h"

#define MAX_FILE_BYTES  INT32_MAX
#define PROGRESS_CHUNKS 1024
/* Times of files may be this coarse: one written at most so long before a build began may be
 * written again later and keep its time. */
#define TIME_GRAIN_NS INT64_C(2000000000)

/* A file as the index knows it. */
typedef struct known_file {
    int64_t id, size, mtime_ns, n_chunks;
    sp_digest sha256;
    const char *path;
} known_file;

enum {
    ADD_FILE,
    SET_TIME,
    SET_CHUNKS,
    REMOVE_FILE,
    REMOVE_CHUNKS,
    REMOVE_WORDS,
    ADD_CHUNK,
    ADD_WORDS,
    N_STATEMENTS
};

static const char *const statements[N_STATEMENTS] = {
    [ADD_FILE] =
        "INSERT INTO files (path, size, mtime_ns, sha256, n_chunks) VALUES (?, ?, ?, ?, 0)",
    [SET_TIME] = "UPDATE files SET mtime_ns = ?2 WHERE id = ?1",
    [SET_CHUNKS] = "UPDATE files SET n_chunks = ?2 WHERE id = ?1",
    [REMOVE_FILE] = "DELETE FROM files WHERE id = ?",
    [REMOVE_CHUNKS] = "DELETE FROM chunks WHERE file = ?",
    [REMOVE_WORDS] = ("INSERT INTO words (words, rowid, title, text)"
                      " SELECT 'delete', id, title, text FROM chunks WHERE file = ?"),
    [ADD_CHUNK] = ("INSERT INTO chunks (file, line, title, text, n_words, sha256)"
                   " VALUES (?, ?, ?, ?, ?, ?)"),
    [ADD_WORDS] = "INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)",
};

typedef struct builder {
    const char *dir, *path; /* of the documents and of the index */
    sp_chunk_opts opts;
    sp_index_progress *progress;
    void *user;
    sp_index_stats *stats;

    sqlite3 *db;
    sqlite3_stmt *run[N_STATEMENTS];
    sp_folder folder;
    SP_VEC(known_file) known; /* sorted by path */
    sp_arena known_paths;
    int64_t built_ns; /* when the build before began */

    const char *file; /* being read, relative to dir */
    int64_t file_id, n_done;
    const sp_document *document; /* being chunked */
    sp_bytes full, content, title;
} builder;

/* -- statements ----------------------------------------------------------------------------- */

static sp_err fail(builder *b)
{
    return sp_db_fail(b->db, b->path, "cannot write the index");
}

/* finish -- runs a statement whose parameters are bound; a bind that failed fails here. */
static sp_err finish(builder *b, int which)
{
    sp_err err = sqlite3_step(b->run[which]) == SQLITE_DONE ? SP_OK : fail(b);
    sqlite3_reset(b->run[which]);
    return err;
}

static void bind_text(sqlite3_stmt *s, int parameter, const char *text, size_t n)
{
    sqlite3_bind_text64(s, parameter, n ? text : "", n, SQLITE_STATIC, SQLITE_UTF8);
}

static sp_err run_with(builder *b, int which, int64_t first, int64_t second)
{
    sqlite3_stmt *s = b->run[which];
    sqlite3_bind_int64(s, 1, first);
    if (sqlite3_bind_parameter_count(s) > 1) sqlite3_bind_int64(s, 2, second);
    return finish(b, which);
}

static sp_err prepare(builder *b)
{
    for (int i = 0; i < N_STATEMENTS; i++)
        SP_TRY(sp_db_prepare(b->db, b->path, statements[i], &b->run[i]));
    return SP_OK;
}

/* -- chunks --------------------------------------------------------------------------------- */

static sp_err report(builder *b)
{
    if (!b->progress || b->progress(b->file, b->n_done, (int64_t)b->folder.files.n, b->user))
        return SP_OK;
    return sp_fail(SP_E_CANCELED, "%s: canceled, the index is as it was", b->path);
}

/* chunk_title -- "Document > Heading", or what there is of it, in b->title. */
static sp_err chunk_title(builder *b, const sp_text_chunk *c)
{
    const sp_document *d = b->document;
    b->title.n = 0;
    SP_TRY(sp_bytes_add(&b->title, d->title, d->n_title));
    bool same = c->n_heading == d->n_title && memcmp(c->heading, d->title, d->n_title) == 0;
    if (c->n_heading == 0 || same) return SP_OK;
    if (b->title.n) SP_TRY(sp_bytes_add(&b->title, " > ", 3));
    return sp_bytes_add(&b->title, c->heading, c->n_heading);
}

static sp_err add_chunk(const sp_text_chunk *c, void *user)
{
    builder *b = user;
    sp_sha256 *hash;
    sp_digest digest;
    SP_TRY(chunk_title(b, c));
    SP_TRY(sp_sha256_create(&hash));
    sp_sha256_update(hash, c->text, c->n);
    sp_sha256_final(hash, &digest);

    sqlite3_stmt *row = b->run[ADD_CHUNK], *words = b->run[ADD_WORDS];
    sqlite3_bind_int64(row, 1, b->file_id);
    sqlite3_bind_int64(row, 2, b->document->line);
    bind_text(row, 3, b->title.v, b->title.n);
    bind_text(row, 4, c->text, c->n);
    sqlite3_bind_int(row, 5, c->n_words);
    sqlite3_bind_blob(row, 6, digest.b, sizeof digest.b, SQLITE_STATIC);
    SP_TRY(finish(b, ADD_CHUNK));
    sqlite3_bind_int64(words, 1, sqlite3_last_insert_rowid(b->db));
    bind_text(words, 2, b->title.v, b->title.n);
    bind_text(words, 3, c->text, c->n);
    SP_TRY(finish(b, ADD_WORDS));
    return ++b->stats->n_chunks % PROGRESS_CHUNKS == 0 ? report(b) : SP_OK;
}

static sp_err add_document(const sp_document *d, void *user)
{
    builder *b = user;
    b->document = d;
    return sp_chunk_text(d->text, d->n, d->markdown, &b->opts, add_chunk, b);
}

/* -- files ---------------------------------------------------------------------------------- */

/* What is known of a file in the folder; sha256 only after reading it. */
typedef struct found_file {
    int64_t size, mtime_ns;
    sp_digest sha256;
} found_file;

static void skip(builder *b)
{
    sp_log(SP_LOG_WARN, "skipped: %s", sp_error_detail());
    b->stats->n_skipped++;
}

static sp_err forget_file(builder *b, const known_file *k)
{
    SP_TRY(run_with(b, REMOVE_WORDS, k->id, 0));
    SP_TRY(run_with(b, REMOVE_CHUNKS, k->id, 0));
    return run_with(b, REMOVE_FILE, k->id, 0);
}

/* find_file -- sets b->full to the path of b->file; *usable is false when it is no regular file. */
static sp_err find_file(builder *b, found_file *out, bool *usable)
{
    b->full.n = 0;
    SP_TRY(sp_bytes_addf(&b->full, "%s/%s%c", b->dir, b->file, '\0'));
    struct stat st;
    bool exists = stat(b->full.v, &st) == 0;
    *usable = exists && S_ISREG(st.st_mode);
    if (!*usable) {
        sp_fail(SP_E_IO, "%s: %s", b->full.v, exists ? "not a regular file" : strerror(errno));
        return SP_OK;
    }
    out->size = st.st_size;
    out->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return SP_OK;
}

/* read_file -- fills b->content and the hash; *usable is false when the file cannot be read. */
static sp_err read_file(builder *b, found_file *f, bool *usable)
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

static sp_err add_file(builder *b, const found_file *f)
{
    sqlite3_stmt *s = b->run[ADD_FILE];
    bind_text(s, 1, b->file, strlen(b->file));
    sqlite3_bind_int64(s, 2, f->size);
    sqlite3_bind_int64(s, 3, f->mtime_ns);
    sqlite3_bind_blob(s, 4, f->sha256.b, sizeof f->sha256.b, SQLITE_STATIC);
    SP_TRY(finish(b, ADD_FILE));
    b->file_id = sqlite3_last_insert_rowid(b->db);

    int64_t before = b->stats->n_chunks;
    sp_err err = sp_documents_read(b->full.v, sp_document_format(b->file), b->content.v,
                                   b->content.n, add_document, b);
    if (err == SP_E_UNSUPPORTED) {
        skip(b);
        return run_with(b, REMOVE_FILE, b->file_id, 0);
    }
    SP_TRY(err);
    b->stats->n_files++;
    b->stats->n_bytes += f->size;
    return run_with(b, SET_CHUNKS, b->file_id, b->stats->n_chunks - before);
}

static sp_err keep_file(builder *b, const known_file *k, const found_file *f)
{
    b->stats->n_files++;
    b->stats->n_unchanged++;
    b->stats->n_chunks += k->n_chunks;
    b->stats->n_bytes += k->size;
    return k->mtime_ns == f->mtime_ns ? SP_OK : run_with(b, SET_TIME, k->id, f->mtime_ns);
}

/* update_file -- b->file is in the folder and, if k is not NULL, in the index. The detail of the
 * last sp_fail says why a file is not usable. */
static sp_err update_file(builder *b, const known_file *k)
{
    found_file f = {0};
    bool usable;
    SP_TRY(find_file(b, &f, &usable));
    bool same_stat = usable && k && k->size == f.size && k->mtime_ns == f.mtime_ns;
    if (same_stat && f.mtime_ns < b->built_ns - TIME_GRAIN_NS) return keep_file(b, k, &f);
    if (usable) SP_TRY(read_file(b, &f, &usable));
    if (usable && k && sp_digest_eq(&k->sha256, &f.sha256)) return keep_file(b, k, &f);
    if (!usable) skip(b);
    if (k) SP_TRY(forget_file(b, k));
    return usable ? add_file(b, &f) : SP_OK;
}

/* -- the whole ------------------------------------------------------------------------------ */

static sp_err know_file(builder *b, sqlite3_stmt *s)
{
    known_file k = {
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
    char *copy = sp_arena_take(&b->known_paths, n, 1);
    if (!copy) return sp_fail_nomem(n, "a file name");
    k.path = memcpy(copy, path, n);
    memcpy(k.sha256.b, sha256, sizeof k.sha256.b);
    SP_TRY(sp_vec_reserve(&b->known, 1));
    b->known.v[b->known.n++] = k;
    return SP_OK;
}

static sp_err know_files(builder *b)
{
    sqlite3_stmt *s;
    SP_TRY(sp_db_prepare(b->db, b->path,
                         "SELECT id, path, size, mtime_ns, sha256, n_chunks FROM files"
                         " ORDER BY path",
                         &s));
    sp_err err = SP_OK;
    int rc = SQLITE_DONE;
    while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) err = know_file(b, s);
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(b->db, b->path, "index");
    sqlite3_finalize(s);
    return err;
}

/* start -- inside the transaction: what the index holds, emptied when it was cut in another way. */
static sp_err start(builder *b)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    bool empty;
    int64_t size_words = 0, overlap_words = 0;
    SP_TRY(sp_db_check(b->db, b->path, &empty));
    if (!empty) {
        SP_TRY(sp_db_number(b->db, b->path, "SELECT size_words FROM options", &size_words));
        SP_TRY(sp_db_number(b->db, b->path, "SELECT overlap_words FROM options", &overlap_words));
        SP_TRY(sp_db_number(b->db, b->path, "SELECT built_ns FROM options", &b->built_ns));
    }
    if (size_words != b->opts.size_words || overlap_words != b->opts.overlap_words)
        SP_TRY(sp_db_clear(b->db, b->path));
    char sql[160];
    snprintf(sql, sizeof sql, "DELETE FROM options; INSERT INTO options VALUES (%d, %d, %lld)",
             b->opts.size_words, b->opts.overlap_words,
             (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    SP_TRY(sp_db_exec(b->db, b->path, sql));
    return know_files(b);
}

static sp_err merge(builder *b)
{
    size_t i = 0, j = 0;
    while (i < b->folder.files.n || j < b->known.n) {
        const known_file *k = j < b->known.n ? &b->known.v[j] : NULL;
        int order = i == b->folder.files.n ? 1 : !k ? -1 : strcmp(b->folder.files.v[i], k->path);
        if (order > 0) {
            SP_TRY(forget_file(b, k));
            b->stats->n_removed++;
            j++;
            continue;
        }
        b->file = b->folder.files.v[i++];
        SP_TRY(update_file(b, order == 0 ? k : NULL));
        j += order == 0;
        b->n_done++;
        SP_TRY(report(b));
    }
    return SP_OK;
}

/* build -- the transaction. A new index is merged into one segment: it costs little then and makes
 * every search cheaper; updates leave that to FTS5's own merging. */
static sp_err build(builder *b)
{
    SP_TRY(sp_db_exec(b->db, b->path, "PRAGMA cache_size = -65536; BEGIN IMMEDIATE"));
    SP_TRY(start(b));
    SP_TRY(prepare(b));
    SP_TRY(merge(b));
    if (b->known.n == 0)
        SP_TRY(sp_db_exec(b->db, b->path, "INSERT INTO words (words) VALUES ('optimize')"));
    return sp_db_exec(b->db, b->path, "COMMIT");
}

sp_err sp_index_build(const char *dir, const char *out_path, const sp_chunk_opts *o,
                      sp_index_progress *progress, void *user, sp_index_stats *stats)
{
    if (o->size_words < 1 || o->overlap_words < 0 || o->overlap_words >= o->size_words)
        return sp_fail(SP_E_ARG, "chunks of %d words with an overlap of %d", o->size_words,
                       o->overlap_words);
    sp_index_stats unused, *counts = stats ? stats : &unused;
    builder b = {.dir = dir,
                 .path = out_path,
                 .opts = *o,
                 .progress = progress,
                 .user = user,
                 .stats = counts};
    *counts = (sp_index_stats){0};
    bool existed = access(out_path, F_OK) == 0, opened = false;

    sp_err err = sp_folder_list(dir, &b.folder);
    counts->n_skipped = b.folder.n_skipped;
    if (err == SP_OK) err = sp_db_open(out_path, true, &b.db);
    if (err == SP_OK) opened = true;
    if (opened) err = build(&b);

    for (int i = 0; i < N_STATEMENTS; i++) sqlite3_finalize(b.run[i]);
    sqlite3_close(b.db); /* rolls back what was not committed */
    if (err != SP_OK && opened && !existed) unlink(out_path);
    sp_folder_fini(&b.folder);
    sp_vec_fini(&b.known);
    sp_arena_fini(&b.known_paths);
    sp_vec_fini(&b.full);
    sp_vec_fini(&b.content);
    sp_vec_fini(&b.title);
    return err;
}
