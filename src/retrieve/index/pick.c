#include "retrieve/index/pick.h"

#include <stdlib.h>
#include <string.h>

#include "retrieve/index/open.h"
#include "retrieve/index/tags.h"

sp_err sp_ranking_add(sp_ranking *r, int64_t id, double score)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].id == id) return r->v[i].score += score, SP_OK;
    SP_TRY(sp_vec_reserve(r, 1));
    r->v[r->n++] = (sp_ranked){id, score};
    return SP_OK;
}

static int by_score(const void *a, const void *b)
{
    const sp_ranked *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score) - (x->score > y->score) : (x->id > y->id) - (x->id < y->id);
}

void sp_ranking_sort(sp_ranking *r)
{
    if (r->n) qsort(r->v, r->n, sizeof *r->v, by_score);
}

static int by_id(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool has(const sp_ids *ids, int64_t id)
{
    return !ids || (ids->n && bsearch(&id, ids->v, ids->n, sizeof id, by_id));
}

sp_err sp_ranking_words(sp_index *ix, const char *question, int k, const sp_ids *allowed, sp_ranking *out)
{
    sp_err err = SP_OK;
    for (int64_t most = k;; most *= 8) { /* until enough of what is found is allowed */
        sp_hits hits;
        const int all = (int)SP_MIN(most, SP_MAX(ix->n_chunks, 1));
        SP_TRY(sp_index_rank(ix, question, all, 0, &hits));
        out->n = 0;
        for (int i = 0; i < hits.n && (int64_t)out->n < k && err == SP_OK; i++) {
            if (!has(allowed, hits.v[i].id)) continue;
            err = sp_vec_reserve(out, 1);
            if (err == SP_OK) out->v[out->n++] = (sp_ranked){hits.v[i].id, hits.v[i].score};
        }
        const bool enough = err != SP_OK || (int64_t)out->n == k || hits.n < all || all >= ix->n_chunks;
        sp_hits_fini(&hits);
        if (enough) return err;
    }
}

static const char in_files_sql[] =
    "SELECT id FROM hits WHERE file = ?1 OR substr(file, 1, length(rtrim(?1, '/')) + 1) = rtrim(?1, '/') || '/'";

sp_err sp_ranking_ids(sp_index *ix, const char *sql, const char *const *texts, int n, sp_ids *out)
{
    sqlite3_stmt *s;
    int rc = SQLITE_DONE;
    sp_err err = SP_OK;
    SP_TRY(sp_db_prepare(ix->db, ix->path, sql, &s));
    for (int i = 0; i < n && err == SP_OK; i++) {
        sqlite3_bind_text(s, 1, texts[i], -1, SQLITE_STATIC);
        while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
            err = sp_vec_reserve(out, 1);
            if (err == SP_OK) out->v[out->n++] = sqlite3_column_int64(s, 0);
        }
        if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(ix->db, ix->path, "cannot search");
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return err;
}

/* arrange -- ascending, each once: files and folders may name a chunk twice. */
static void arrange(sp_ids *ids)
{
    size_t n = 0;
    if (ids->n) qsort(ids->v, ids->n, sizeof *ids->v, by_id);
    for (size_t i = 0; i < ids->n; i++)
        if (i == 0 || ids->v[i] != ids->v[n - 1]) ids->v[n++] = ids->v[i];
    ids->n = n;
}

sp_err sp_ranking_allowed(sp_index *ix, const sp_retrieve_query *q, sp_ids *out)
{
    sp_ids tagged = {0};
    size_t n = 0;
    sp_err err = q->n_files ? sp_ranking_ids(ix, in_files_sql, q->files, q->n_files, out) : SP_OK;
    if (err == SP_OK && q->n_tags) err = sp_tags_allowed(ix, q->tags, q->n_tags, q->n_files ? &tagged : out);
    arrange(out);
    arrange(&tagged);
    for (size_t i = 0; i < out->n && q->n_files && q->n_tags; i++)
        if (has(&tagged, out->v[i])) out->v[n++] = out->v[i];
    if (q->n_files && q->n_tags) out->n = n;
    sp_vec_fini(&tagged);
    return err;
}

sp_err sp_index_files(sp_index *ix, int64_t *n, int64_t *n_bytes)
{
    SP_TRY(sp_db_number(ix->db, ix->path, "SELECT count(*) FROM files WHERE n_chunks > 0", n));
    return sp_db_number(ix->db, ix->path, "SELECT coalesce(sum(size), 0) FROM files WHERE n_chunks > 0", n_bytes);
}

/* -- files ------------------------------------------------------------------------------------- */

/* tags: a line each. */
#define LIST_SQL(tags)                                                                                                \
    "SELECT name, size, mtime_ns / 1000000000, n_chunks, " tags " FROM (SELECT f.id, f.root, f.path, f.size,"         \
    " f.mtime_ns, f.n_chunks, CASE r.label WHEN '' THEN f.path ELSE r.label || '/' || f.path END AS name"             \
    " FROM files AS f JOIN roots AS r ON r.id = f.root WHERE f.n_chunks > 0) AS f"                                    \
    " WHERE (?1 IS NULL OR name = ?1) AND (?2 IS NULL OR name > ?2) ORDER BY name LIMIT ?3"

static const char list_sql[] = LIST_SQL("''");
static const char tagged_sql[] =
    LIST_SQL("coalesce((SELECT group_concat(tag || char(10), '') FROM (SELECT DISTINCT tag FROM tags AS t"
             " WHERE " SP_TAGS_FILE " ORDER BY tag)), '')");

typedef SP_VEC(sp_file_info) file_infos;

static const char *copy_text(sqlite3_stmt *s, int column, sp_arena *arena)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    const size_t n = (size_t)sqlite3_column_bytes(s, column) + 1;
    char *copy = text ? sp_arena_take(arena, n, 1) : NULL;
    return copy ? memcpy(copy, text, n) : NULL;
}

static sp_err take_file(sqlite3_stmt *s, sp_arena *arena, file_infos *out)
{
    const sp_file_info i = {.name = copy_text(s, 0, arena),
                            .tags = copy_text(s, 4, arena),
                            .n_bytes = sqlite3_column_int64(s, 1),
                            .changed_s = sqlite3_column_int64(s, 2),
                            .n_chunks = sqlite3_column_int64(s, 3)};
    SP_TRY(sp_vec_reserve(out, 1));
    if (!i.name || !i.tags) return sp_fail_nomem("a file");
    out->v[out->n++] = i;
    return SP_OK;
}

static sp_err take_files(sp_index *ix, const sp_file_query *q, sp_arena *arena, file_infos *out)
{
    sqlite3_stmt *s;
    bool tags;
    int rc = SQLITE_DONE;
    SP_TRY(sp_tags_has(ix->db, ix->path, &tags));
    SP_TRY(sp_db_prepare(ix->db, ix->path, tags ? tagged_sql : list_sql, &s));
    if (q->name) sqlite3_bind_text(s, 1, q->name, -1, SQLITE_STATIC);
    if (q->after) sqlite3_bind_text(s, 2, q->after, -1, SQLITE_STATIC);
    sqlite3_bind_int(s, 3, q->limit > 0 ? q->limit : -1);
    sp_err err = SP_OK;
    while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) err = take_file(s, arena, out);
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(ix->db, ix->path, "cannot list files");
    sqlite3_finalize(s);
    return err;
}

sp_err sp_index_list(sp_index *ix, const sp_file_query *q, sp_file_list *out)
{
    file_infos list = {0};
    sp_arena *arena = SP_NEW(sp_arena);
    if (!arena) return sp_fail_nomem("files");
    sp_err err = take_files(ix, q, arena, &list);
    if (err == SP_OK && q->name && !list.n) err = sp_fail(SP_E_NOTFOUND, "there is no document \"%.200s\"", q->name);
    sp_file_list result = {.v = list.v, .n = (int)list.n, .strings = arena};
    if (err == SP_OK)
        *out = result;
    else
        sp_file_list_fini(&result);
    return err;
}

void sp_file_list_fini(sp_file_list *l)
{
    if (!l) return;
    if (l->strings) sp_arena_fini(l->strings);
    sp_free(l->strings);
    sp_free(l->v);
    *l = (sp_file_list){0};
}

/* -- hits -------------------------------------------------------------------------------------- */

/* in_order -- sorts the hits, which are in the order of their ids, like the ranking. */
static sp_err in_order(const sp_ranking *r, size_t k, sp_hits *hits)
{
    sp_hit *v = sp_alloc(k + 1, sizeof *v);
    int n = 0;
    if (!v) return sp_fail_nomem("hits");
    for (size_t i = 0; i < k; i++)
        for (int j = 0; j < hits->n; j++)
            if (hits->v[j].id == r->v[i].id) {
                v[n] = hits->v[j];
                v[n++].score = r->v[i].score;
                break;
            }
    sp_free(hits->v);
    hits->v = v;
    hits->n = n;
    return SP_OK;
}

sp_err sp_ranking_hits(sp_index *ix, const sp_ranking *r, size_t k, sp_hits *out)
{
    sp_bytes sql = {0};
    sqlite3_stmt *s = NULL;
    sp_err err = sp_bytes_addf(&sql, "SELECT " SP_HIT_COLUMNS("0.0") " FROM hits AS h WHERE h.id IN (");
    for (size_t i = 0; i < k && err == SP_OK; i++)
        err = sp_bytes_addf(&sql, "%s%lld", i ? "," : "", (long long)r->v[i].id);
    if (err == SP_OK) err = sp_bytes_addf(&sql, ")%c", '\0');
    if (err == SP_OK) err = sp_db_prepare(ix->db, ix->path, sql.v, &s);
    if (err == SP_OK) err = sp_hits_take(ix, s, out);
    sqlite3_finalize(s);
    sp_vec_fini(&sql);
    if (err != SP_OK) return err;
    err = in_order(r, k, out);
    if (err != SP_OK) sp_hits_fini(out);
    return err;
}
