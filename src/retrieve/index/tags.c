#include "retrieve/index/tags.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "retrieve/index/open.h"
#include "retrieve/text/text.h"

enum { MOST_BYTES = 1 << 20, MOST_TAGS = 16, MOST_TAG_BYTES = 64 /* as of uploaded documents */ };

static const char table_sql[] = "CREATE TABLE IF NOT EXISTS tags (root INTEGER NOT NULL, path TEXT NOT NULL,"
                                " tag TEXT NOT NULL, PRIMARY KEY (tag, root, path)) WITHOUT ROWID";
static const char put_sql[] = "INSERT OR IGNORE INTO tags VALUES (?, ?, ?)";
static const char is_file_sql[] = "SELECT 1 FROM files WHERE root = ?1 AND (path = ?2 OR (path > ?2 || '/' AND"
                                  " path < ?2 || '0')) LIMIT 1"; /* '0' is after '/' */
static const char allowed_sql[] = "SELECT c.id FROM tags AS t JOIN files AS f ON " SP_TAGS_FILE
                                  " JOIN chunks AS c ON c.file = f.id WHERE t.tag = ?";

sp_err sp_tags_has(sqlite3 *db, const char *path, bool *out)
{
    int64_t n;
    SP_TRY(sp_db_number(db, path, "SELECT count(*) FROM sqlite_schema WHERE name = 'tags'", &n));
    *out = n > 0;
    return SP_OK;
}

/* -- reading `.tags` --------------------------------------------------------------------------- */

/* A `.tags` being read; text is cut into strings. */
typedef struct tags_file {
    sp_builder *b;
    const char *path;
    sqlite3_stmt *put, *is_file;
    int line;
} tags_file;

/* trim -- without blanks at both ends; writes into the text. */
static char *trim(char *s)
{
    s += strspn(s, " \t\r");
    size_t n = strlen(s);
    while (n && strchr(" \t\r", s[n - 1])) n--;
    s[n] = '\0';
    return s;
}

static sp_err bad_line(tags_file *t, const char *why)
{
    const sp_err err = sp_fail(SP_E_FORMAT, "%s:%d: %s", t->path, t->line, why);
    if (t->b->o.strict) return err;
    t->b->stats->n_bad_lines++;
    sp_log(SP_LOG_WARN, "skipped: %s", sp_error_detail());
    return SP_OK;
}

static sp_err put(tags_file *t, const char *name, const char *tag)
{
    sqlite3_bind_int64(t->put, 1, t->b->root->id);
    sqlite3_bind_text(t->put, 2, name, -1, SQLITE_STATIC);
    sqlite3_bind_text(t->put, 3, tag, -1, SQLITE_STATIC);
    const bool done = sqlite3_step(t->put) == SQLITE_DONE;
    sqlite3_reset(t->put);
    return done ? SP_OK : sp_db_fail(t->b->db, t->b->path, "cannot write tags");
}

/* is_known -- whether the index has this file, or one in this folder; "": all. */
static sp_err is_known(tags_file *t, const char *name, bool *out)
{
    sqlite3_bind_int64(t->is_file, 1, t->b->root->id);
    sqlite3_bind_text(t->is_file, 2, name, -1, SQLITE_STATIC);
    const int code = *name ? sqlite3_step(t->is_file) : SQLITE_ROW;
    sqlite3_reset(t->is_file);
    *out = code == SQLITE_ROW;
    return *out || code == SQLITE_DONE ? SP_OK : sp_db_fail(t->b->db, t->b->path, "cannot read the files");
}

/* read_line -- "NAME: TAG, TAG". */
static sp_err read_line(tags_file *t, char *line)
{
    char *colon = strstr(line, ": "), *rest = NULL, *tags[MOST_TAGS + 1];
    int n = 0;
    line = trim(line);
    if (!*line || *line == '#') return SP_OK;
    if (!colon) return bad_line(t, "not NAME: TAG, TAG");
    *colon = '\0';
    char *name = trim(line);
    for (char *tag = strtok_r(colon + 2, ",", &rest); tag && n <= MOST_TAGS; tag = strtok_r(NULL, ",", &rest))
        if (*(tag = trim(tag))) tags[n++] = tag;
    for (int i = 0; i < n; i++)
        if (strlen(tags[i]) > MOST_TAG_BYTES) return bad_line(t, "a tag of more than 64 bytes");
    if (!n || n > MOST_TAGS || !*name) return bad_line(t, "must be NAME: and 1 to 16 tags");
    if (strncmp(name, "./", 2) == 0) name += 2;
    for (size_t end = strlen(name); end && name[end - 1] == '/';) name[--end] = '\0';
    if (strcmp(name, ".") == 0) name = "";
    bool known;
    SP_TRY(is_known(t, name, &known));
    if (!known && t->b->root->is_file) return SP_OK; /* beside it */
    if (!known) return bad_line(t, "the index has no such file or folder");
    for (int i = 0; i < n; i++) SP_TRY(put(t, name, tags[i]));
    return SP_OK;
}

static sp_err read_text(tags_file *t, sp_bytes *text)
{
    SP_TRY(sp_bytes_add(text, "", 1));
    if (!sp_utf8_valid(text->v, text->n - 1) || strlen(text->v) != text->n - 1)
        return bad_line(t, "not UTF-8 without NULs; no tag of it is taken");
    SP_TRY(sp_db_exec(t->b->db, t->b->path, table_sql));
    SP_TRY(sp_db_prepare(t->b->db, t->b->path, put_sql, &t->put));
    sp_err err = sp_db_prepare(t->b->db, t->b->path, is_file_sql, &t->is_file);
    const size_t mark = strncmp(text->v, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* of an editor */
    for (char *line = text->v + mark, *next; line && err == SP_OK; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        t->line++;
        err = read_line(t, line);
    }
    sqlite3_finalize(t->put);
    sqlite3_finalize(t->is_file);
    return err;
}

sp_err sp_tags_forget(sp_builder *b, int64_t root)
{
    bool there;
    char sql[80];
    SP_TRY(sp_tags_has(b->db, b->path, &there));
    snprintf(sql, sizeof sql, "DELETE FROM tags WHERE root = %lld", (long long)root);
    return there ? sp_db_exec(b->db, b->path, sql) : SP_OK;
}

sp_err sp_tags_update(sp_builder *b)
{
    sp_bytes path = {0}, text = {0};
    sp_err err = sp_tags_forget(b, b->root->id);
    if (err == SP_OK) err = sp_bytes_addf(&path, "%s/.tags%c", b->root->folder, '\0');
    if (err == SP_OK && access(path.v, F_OK) == 0) {
        tags_file t = {.b = b, .path = path.v};
        err = sp_file_read(path.v, MOST_BYTES, &text);
        if (err == SP_OK) err = read_text(&t, &text);
    }
    sp_vec_fini(&path);
    sp_vec_fini(&text);
    return err;
}

/* -- searching --------------------------------------------------------------------------------- */

sp_err sp_tags_allowed(sp_index *ix, const char *const *tags, int n, sp_ids *out)
{
    bool there;
    SP_TRY(sp_tags_has(ix->db, ix->path, &there));
    return there ? sp_ranking_ids(ix, allowed_sql, tags, n, out) : SP_OK;
}
