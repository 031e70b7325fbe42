/* forms.c -- content ids of registered texts in forms that are not the chunk's own: under other titles, as
 * requests sent them, and without a title. A deletion erases copies of these, too.
 *
 *   forms   bare: content id of the text alone, as in chunks; id: of the text in another form. A row stays as long as
 *           a document has the text, whatever its title there */
#include <string.h>

#include "retrieve/shelf/shelf_int.h"

#define TABLE(create) create "forms (bare BLOB NOT NULL, id BLOB NOT NULL, PRIMARY KEY (bare, id)) WITHOUT ROWID;"

sp_err sp_shelf_forms_open(sp_shelf *s)
{
    int64_t n;
    SP_TRY(sp_db_number(s->db, s->path, "SELECT count(*) FROM sqlite_schema WHERE name = 'forms'", &n));
    if (n) return SP_OK;
    const char *sql = s->read_only ? TABLE("CREATE TEMP TABLE ") : TABLE("CREATE TABLE IF NOT EXISTS ");
    return sp_shelf_damage(s, sp_db_exec(s->db, s->path, sql));
}

static void bind(sqlite3_stmt *q, const sp_digest *bare, const sp_digest *id)
{
    sqlite3_bind_blob(q, 1, bare->b, sizeof bare->b, SQLITE_STATIC);
    if (id) sqlite3_bind_blob(q, 2, id->b, sizeof id->b, SQLITE_STATIC);
}

sp_err sp_shelf_forms_put(sp_shelf *s, const sp_shelf_chunk *chunks, int from, int to)
{
    sqlite3_stmt *q;
    sp_err err = SP_OK;
    SP_TRY(sp_shelf_prepare(s, "INSERT OR IGNORE INTO forms VALUES (?, ?)", &q));
    for (int i = from; i < to && err == SP_OK; i++) {
        if (!chunks[i].has_untitled) continue;
        bind(q, &chunks[i].ids[SP_SHELF_IDS - 1], &chunks[i].untitled);
        if (sqlite3_step(q) != SQLITE_DONE)
            err = sp_shelf_damage(s, sp_db_fail(s->db, s->path, "cannot write registered documents"));
        sqlite3_reset(q);
    }
    sqlite3_finalize(q);
    return err;
}

/* -- forms that requests send ------------------------------------------------------------------ */

#define IS_REGISTERED "EXISTS (SELECT 1 FROM chunks AS c CROSS JOIN documents AS d ON d.row = c.document" \
                      "  WHERE c.bare = ?1 AND d.doomed <> 1)"

/* is_new -- whether the text is registered and this form of it unknown; for reading only. */
static sp_err is_new(sp_shelf *s, const sp_digest *bare, const sp_digest *id, bool *fresh)
{
    sqlite3_stmt *q = NULL;
    sp_shelf_enter(s);
    sp_err err = sp_shelf_prepare(s,
                                  "SELECT 1 WHERE " IS_REGISTERED
                                  " AND NOT EXISTS (SELECT 1 FROM forms WHERE bare = ?1 AND id = ?2)"
                                  " AND NOT EXISTS (SELECT 1 FROM chunks WHERE bare = ?1 AND dressed = ?2)",
                                  &q);
    if (err == SP_OK) {
        bind(q, bare, id);
        err = sp_shelf_find(s, q, fresh);
    }
    sqlite3_finalize(q);
    sp_shelf_leave(s);
    return err;
}

sp_err sp_shelf_add_form(sp_shelf *s, const sp_digest *bare, const sp_digest *id)
{
    sqlite3_stmt *q;
    bool fresh = false;
    SP_TRY(is_new(s, bare, id, &fresh));
    if (!fresh) return SP_OK;
    SP_TRY(sp_shelf_begin(s));
    sp_err err = sp_shelf_prepare(s, "INSERT OR IGNORE INTO forms SELECT ?1, ?2 WHERE " IS_REGISTERED, &q);
    if (err == SP_OK) {
        bind(q, bare, id);
        err = sp_shelf_finish(s, q, NULL);
    }
    return sp_shelf_end(s, err);
}

/* -- of doomed documents ----------------------------------------------------------------------- */

sp_err sp_shelf_forms_of(sp_shelf *s, const sp_digest *bare, sp_digests *out)
{
    sqlite3_stmt *q;
    sp_err err = SP_OK;
    bool found = true;
    SP_TRY(sp_shelf_prepare(s, "SELECT id FROM forms WHERE bare = ? AND length(id) = 32", &q));
    bind(q, bare, NULL);
    while (err == SP_OK && found) {
        err = sp_shelf_find(s, q, &found);
        if (err != SP_OK || !found) break;
        err = sp_vec_reserve(out, 1);
        if (err == SP_OK) memcpy(out->v[out->n++].b, sqlite3_column_blob(q, 0), sizeof(sp_digest));
    }
    sqlite3_finalize(q);
    return err;
}

/* Within the transaction that deletes the chunks, before it does. */
sp_err sp_shelf_forms_forget(sp_shelf *s, int64_t document)
{
    sqlite3_stmt *q;
    SP_TRY(sp_shelf_prepare(s,
                            "DELETE FROM forms WHERE bare IN (SELECT bare FROM chunks WHERE document = ?1"
                            "  AND at < ?2 + (SELECT min(at) FROM chunks WHERE document = ?1))"
                            " AND NOT EXISTS (SELECT 1 FROM chunks AS c WHERE c.bare = forms.bare"
                            "  AND c.document <> ?1)",
                            &q));
    sqlite3_bind_int64(q, 1, document);
    sqlite3_bind_int(q, 2, SP_SHELF_SLICE);
    return sp_shelf_finish(s, q, NULL);
}
