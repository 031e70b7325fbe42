#include "retrieve/pick.h"

#include <stdlib.h>
#include <string.h>

#include "retrieve/read_int.h"

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

static const char allowed_sql[] =
    "SELECT id FROM hits WHERE file = ?1 OR substr(file, 1, length(rtrim(?1, '/')) + 1) = rtrim(?1, '/') || '/'";

sp_err sp_ranking_allowed(sp_index *ix, const char *const *files, int n, sp_ids *out)
{
    sqlite3_stmt *s;
    int rc = SQLITE_DONE;
    sp_err err = SP_OK;
    SP_TRY(sp_db_prepare(ix->db, ix->path, allowed_sql, &s));
    for (int i = 0; i < n && err == SP_OK; i++) {
        sqlite3_bind_text(s, 1, files[i], -1, SQLITE_STATIC);
        while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
            err = sp_vec_reserve(out, 1);
            if (err == SP_OK) out->v[out->n++] = sqlite3_column_int64(s, 0);
        }
        if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(ix->db, ix->path, "cannot search");
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_id);
    return err;
}

sp_err sp_index_files(sp_index *ix, int64_t *n, int64_t *n_bytes)
{
    SP_TRY(sp_db_number(ix->db, ix->path, "SELECT count(*) FROM files WHERE n_chunks > 0", n));
    return sp_db_number(ix->db, ix->path, "SELECT coalesce(sum(size), 0) FROM files WHERE n_chunks > 0", n_bytes);
}

/* in_order -- the hits, which have the order of their ids, in that of the ranking. */
static sp_err in_order(const sp_ranking *r, size_t k, sp_hits *hits)
{
    sp_hit *v = sp_alloc(k + 1, sizeof *v);
    int n = 0;
    if (!v) return sp_fail_nomem(k * sizeof *v, "hits");
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
