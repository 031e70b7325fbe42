/* sqlite.c -- a graph in a SQLite file, read-only. All statements are prepared once; texts of users
 * are bound, never part of a statement. */
#include <stdlib.h>
#include <string.h>

#include "retrieve/graph/db_int.h"
#include "retrieve/graph/store.h"

enum {
    NEXT_KEY,
    BY_KEY,
    LIKE,
    OUT,
    IN,
    NEXT_OUT,
    NEXT_IN,
    OUT_OF,
    IN_OF,
    NODE,
    RELATION,
    SOURCE,
    BEGIN,
    END,
    N_STATEMENTS
};

static const char *const statements[N_STATEMENTS] = {
    [NEXT_KEY] = "SELECT key FROM graph_keys WHERE key >= ?1 ORDER BY key LIMIT 1",
    [BY_KEY] =
        "SELECT entity, alias FROM graph_keys WHERE key = ?1 ORDER BY alias, entity LIMIT ?2",
    [LIKE] = "SELECT k.entity, k.key FROM"
             " (SELECT rowid FROM graph_letters WHERE graph_letters MATCH ?1"
             "  ORDER BY bm25(graph_letters), rowid LIMIT ?2) AS m"
             " JOIN graph_keys AS k ON k.id = m.rowid ORDER BY k.entity, k.id",
    [OUT] = "SELECT relation, object FROM graph_triples WHERE subject = ?1"
            " ORDER BY relation, object LIMIT ?2",
    [IN] = "SELECT relation, subject FROM graph_triples WHERE object = ?1"
           " ORDER BY relation, subject LIMIT ?2",
    [NEXT_OUT] = "SELECT relation FROM graph_triples WHERE subject = ?1 AND relation > ?2"
                 " ORDER BY relation LIMIT 1",
    [NEXT_IN] = "SELECT relation FROM graph_triples WHERE object = ?1 AND relation > ?2"
                " ORDER BY relation LIMIT 1",
    [OUT_OF] = "SELECT relation, object FROM graph_triples WHERE subject = ?1 AND relation = ?3"
               " ORDER BY object LIMIT ?2",
    [IN_OF] = "SELECT relation, subject FROM graph_triples WHERE object = ?1 AND relation = ?3"
              " ORDER BY subject LIMIT ?2",
    [NODE] = "SELECT coalesce(name, ident), ident FROM graph_entities WHERE id = ?1",
    [RELATION] = "SELECT name FROM graph_relations WHERE id = ?1",
    [SOURCE] = "SELECT s.name FROM graph_triples AS t JOIN graph_sources AS s ON s.id = t.source"
               " WHERE t.subject = ?1 AND t.relation = ?2 AND t.object = ?3",
    [BEGIN] = "BEGIN",
    [END] = "COMMIT",
};

typedef struct sqlite_graph {
    sp_graph base;
    sqlite3 *db;
    char *path;
    sqlite3_stmt *run[N_STATEMENTS];
} sqlite_graph;

/* Most entities of one name: more would not help anybody. */
#define MOST_OF_A_NAME 32
/* Trigrams of a fuzzy search; names are looked up by their first ones. */
#define MOST_TRIGRAMS 64

/* own -- the store of a graph; base is the first member. */
static sqlite_graph *own(sp_graph *g)
{
    return (sqlite_graph *)g;
}

static sp_err fail(sqlite_graph *g)
{
    return sp_db_fail(g->db, g->path, "cannot read the graph");
}

/* done -- ends a statement; rc is its last result. */
static sp_err done(sqlite_graph *g, sqlite3_stmt *s, int rc)
{
    sp_err err = rc == SQLITE_ROW || rc == SQLITE_DONE ? SP_OK : fail(g);
    sqlite3_reset(s);
    return err;
}

static sp_err column(sqlite3_stmt *s, int i, sp_arena *strings, const char **out)
{
    const char *text = (const char *)sqlite3_column_text(s, i);
    size_t n = (size_t)sqlite3_column_bytes(s, i);
    if (!text && sqlite3_errcode(sqlite3_db_handle(s)) == SQLITE_NOMEM) return sp_fail_nomem("a name");
    return sp_graph_copy(strings, text ? text : "", text ? n : 0, out);
}

/* -- open and close ------------------------------------------------------------------------- */

static void close_graph(sp_graph *base)
{
    sqlite_graph *g = own(base);
    for (int i = 0; i < N_STATEMENTS; i++) sqlite3_finalize(g->run[i]);
    sqlite3_close(g->db);
    sp_free(g->path);
    sp_free(g);
}

/* A read transaction: statements in it need no locks of their own, and see one state of the file. A
 * writer commits when no transaction is open, so none outlives a question, though memory be short: both statements are
 * compiled already. */
static sp_err begin(sp_graph *base)
{
    sqlite_graph *g = own(base);
    if (sqlite3_get_autocommit(g->db)) return done(g, g->run[BEGIN], sqlite3_step(g->run[BEGIN]));
    return SP_OK; /* END failed */
}

static void end(sp_graph *base)
{
    sqlite_graph *g = own(base);
    sqlite3_step(g->run[END]); /* of reads: nothing to lose */
    sqlite3_reset(g->run[END]);
}

static sp_err describe(sp_graph *base, sp_graph_info *out, sp_arena *strings)
{
    sqlite_graph *g = own(base);
    sqlite3_stmt *s;
    SP_VEC(sp_graph_relation) relations = {0};
    SP_TRY(sp_db_number(g->db, g->path, "SELECT count(*) FROM graph_entities", &out->n_entities));
    SP_TRY(sp_db_number(g->db, g->path, "SELECT count(*) FROM graph_keys WHERE alias = 1",
                        &out->n_aliases));
    SP_TRY(sp_db_number(g->db, g->path, "SELECT sum(n) FROM graph_relations", &out->n_triples));
    SP_TRY(sp_graph_db_prepare(g->db, g->path,
                               "SELECT name, n FROM graph_relations ORDER BY n DESC, name", &s));
    sp_err err = SP_OK;
    int rc = SQLITE_DONE;
    while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        sp_graph_relation r = {.n_triples = sqlite3_column_int64(s, 1)};
        err = column(s, 0, strings, &r.name);
        if (err == SP_OK) err = sp_vec_reserve(&relations, 1);
        if (err == SP_OK) relations.v[relations.n++] = r;
    }
    if (err == SP_OK) err = done(g, s, rc);
    sqlite3_finalize(s);
    out->relations = relations.v;
    out->n_relations = (int)relations.n;
    return err;
}

/* -- names ---------------------------------------------------------------------------------- */

/* take_key -- the entities of a key, which words [from, to) have. */
static sp_err take_key(sqlite_graph *g, const char *key, int n, uint32_t from, uint32_t to,
                       sp_graph_mentions *out)
{
    sqlite3_stmt *s = g->run[BY_KEY];
    int rc;
    sqlite3_bind_text(s, 1, key, n, SQLITE_STATIC);
    sqlite3_bind_int(s, 2, MOST_OF_A_NAME);
    sp_err err = SP_OK;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        sp_graph_mention m = {sqlite3_column_int64(s, 0), from, to, sqlite3_column_int(s, 1) == SP_KEY_ALIAS};
        err = sp_vec_reserve(out, 1);
        if (err != SP_OK) break;
        out->v[out->n++] = m;
    }
    sp_err end = done(g, s, rc);
    return err != SP_OK ? err : end;
}

/* mentions -- from each word on, the run of words grows as long as some key begins with it: the
 * first key at or after the run says so, and is the run itself where that is a name. A text without
 * words is a key as a whole. */
static sp_err mentions(sp_graph *base, const sp_graph_question *q, sp_graph_mentions *out)
{
    sqlite_graph *g = own(base);
    sqlite3_stmt *s = g->run[NEXT_KEY];
    const sp_name_word *w = q->words.v;
    if (!q->words.n) return take_key(g, q->key.v, (int)q->key.n, 0, 0, out);
    for (uint32_t from = 0; from < q->words.n; from++) {
        bool more = true;
        for (uint32_t to = from + 1; more && to <= q->words.n; to++) {
            const char *run = q->key.v + w[from].key_from;
            int n = (int)(w[to - 1].key_to - w[from].key_from);
            sqlite3_bind_text(s, 1, run, n, SQLITE_STATIC);
            int rc = sqlite3_step(s);
            const void *key = rc == SQLITE_ROW ? sqlite3_column_text(s, 0) : NULL;
            int n_key = key ? sqlite3_column_bytes(s, 0) : 0;
            more = n_key >= n && memcmp(key, run, (size_t)n) == 0;
            SP_TRY(done(g, s, rc));
            if (more && n_key == n) SP_TRY(take_key(g, run, n, from, to, out));
        }
    }
    return SP_OK;
}

/* letters -- an expression of FTS5: the trigrams of a key, any of them; "" when it has none. Each
 * is a string in double quotes, so nothing in it is an operator. */
static sp_err letters(const sp_bytes *key, sp_bytes *out)
{
    size_t n = 0;
    for (size_t at = 0; at < key->n && n < MOST_TRIGRAMS; n++) {
        size_t to = at, first = 0;
        for (int i = 0; i < 3 && to < key->n; i++) {
            to++;
            while (to < key->n && ((unsigned char)key->v[to] & 0xC0) == 0x80) to++;
            if (i == 0) first = to;
        }
        SP_TRY(sp_bytes_add(out, n ? " OR \"" : "\"", n ? 5 : 1));
        for (size_t i = at; i < to; i++) {
            SP_TRY(sp_bytes_add(out, &key->v[i], 1));
            if (key->v[i] == '"') SP_TRY(sp_bytes_add(out, "\"", 1));
        }
        SP_TRY(sp_bytes_add(out, "\"", 1));
        if (to == key->n) break;
        at = first;
    }
    return SP_OK;
}

static sp_err candidates(sp_graph *base, const sp_bytes *key, int k, sp_arena *strings,
                         sp_graph_candidates *out)
{
    sqlite_graph *g = own(base);
    sqlite3_stmt *s = g->run[LIKE];
    sp_bytes expression = {0};
    int rc = SQLITE_DONE;
    sp_err err = letters(key, &expression);
    if (err == SP_OK && expression.n) {
        sqlite3_bind_text(s, 1, expression.v, (int)expression.n, SQLITE_STATIC);
        sqlite3_bind_int(s, 2, k);
        while (err == SP_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
            sp_graph_candidate c = {.node = sqlite3_column_int64(s, 0)};
            err = column(s, 1, strings, &c.key);
            if (err == SP_OK) err = sp_vec_reserve(out, 1);
            if (err == SP_OK) out->v[out->n++] = c;
        }
        sp_err end = done(g, s, rc);
        if (err == SP_OK) err = end;
    }
    sp_vec_fini(&expression);
    return err;
}

/* -- edges ---------------------------------------------------------------------------------- */

/* take -- the rows (relation, node) of a statement whose parameters but the first two are bound. */
static sp_err take(sqlite_graph *g, sqlite3_stmt *s, int64_t node, int most, sp_graph_edge like,
                   sp_graph_edges *out)
{
    int rc;
    sp_err err = SP_OK;
    sqlite3_bind_int64(s, 1, node);
    sqlite3_bind_int(s, 2, most);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        err = sp_vec_reserve(out, 1);
        if (err != SP_OK) break;
        like.relation = sqlite3_column_int64(s, 0);
        like.node = sqlite3_column_int64(s, 1);
        out->v[out->n++] = like;
    }
    sp_err end = done(g, s, rc);
    return err != SP_OK ? err : end;
}

/* take_each -- `most` edges of each relation of a node with many. */
static sp_err take_each(sqlite_graph *g, int64_t node, int most, sp_graph_edge like,
                        sp_graph_edges *out)
{
    sqlite3_stmt *next = g->run[like.inverse ? NEXT_IN : NEXT_OUT];
    sqlite3_stmt *some = g->run[like.inverse ? IN_OF : OUT_OF];
    for (int64_t relation = 0;;) {
        sqlite3_bind_int64(next, 1, node);
        sqlite3_bind_int64(next, 2, relation);
        int rc = sqlite3_step(next);
        bool more = rc == SQLITE_ROW;
        if (more) relation = sqlite3_column_int64(next, 0);
        SP_TRY(done(g, next, rc));
        if (!more) return SP_OK;
        sqlite3_bind_int64(some, 3, relation);
        SP_TRY(take(g, some, node, most, like, out));
    }
}

static sp_err expand_node(sqlite_graph *g, const sp_graph_expand *e, uint32_t i,
                          sp_graph_edges *out, bool *hub)
{
    size_t begin = out->n;
    for (int inverse = 0; inverse <= 1; inverse++) {
        size_t before = out->n;
        sp_graph_edge like = {.from = i, .inverse = inverse};
        SP_TRY(take(g, g->run[inverse ? IN : OUT], e->nodes[i], e->most + 1, like, out));
        if (out->n - before <= (size_t)e->most) continue;
        *hub = true;
        if (!e->each) {
            out->n = begin;
            return SP_OK;
        }
        out->n = before;
        SP_TRY(take_each(g, e->nodes[i], e->most, like, out));
    }
    return SP_OK;
}

static sp_err expand(sp_graph *base, const sp_graph_expand *e, sp_graph_edges *out, int64_t *n_hubs)
{
    for (uint32_t i = 0; i < e->n; i++) {
        bool hub = false;
        SP_TRY(expand_node(own(base), e, i, out, &hub));
        *n_hubs += hub;
    }
    return SP_OK;
}

/* -- texts ---------------------------------------------------------------------------------- */

static sp_err node_text(sp_graph *base, int64_t node, sp_arena *strings, const char **name,
                        const char **ident)
{
    sqlite_graph *g = own(base);
    sqlite3_stmt *s = g->run[NODE];
    sqlite3_bind_int64(s, 1, node);
    int rc = sqlite3_step(s);
    sp_err err = rc == SQLITE_ROW ? column(s, 0, strings, name) : SP_OK;
    if (rc == SQLITE_ROW && err == SP_OK && ident) err = column(s, 1, strings, ident);
    if (rc == SQLITE_DONE)
        err = sp_fail(SP_E_FORMAT, "%s: a triple names entity %lld, which is missing", g->path,
                      (long long)node);
    sp_err end = done(g, s, rc);
    return err != SP_OK ? err : end;
}

static sp_err relation_text(sp_graph *base, int64_t relation, sp_arena *strings, const char **name)
{
    sqlite_graph *g = own(base);
    sqlite3_stmt *s = g->run[RELATION];
    sqlite3_bind_int64(s, 1, relation);
    int rc = sqlite3_step(s);
    sp_err err = rc == SQLITE_ROW ? column(s, 0, strings, name) : SP_OK;
    if (rc == SQLITE_DONE)
        err = sp_fail(SP_E_FORMAT, "%s: a triple names relation %lld, which is missing", g->path,
                      (long long)relation);
    sp_err end = done(g, s, rc);
    return err != SP_OK ? err : end;
}

static sp_err source_text(sp_graph *base, int64_t subject, int64_t relation, int64_t object,
                          sp_arena *strings, const char **name)
{
    sqlite_graph *g = own(base);
    sqlite3_stmt *s = g->run[SOURCE];
    sqlite3_bind_int64(s, 1, subject);
    sqlite3_bind_int64(s, 2, relation);
    sqlite3_bind_int64(s, 3, object);
    int rc = sqlite3_step(s);
    sp_err err = SP_OK;
    *name = "";
    if (rc == SQLITE_ROW) err = column(s, 0, strings, name);
    sp_err end = done(g, s, rc);
    return err != SP_OK ? err : end;
}

static const sp_graph_ops ops = {
    .name = "sqlite",
    .close = close_graph,
    .begin = begin,
    .end = end,
    .describe = describe,
    .mentions = mentions,
    .candidates = candidates,
    .expand = expand,
    .node = node_text,
    .relation = relation_text,
    .source = source_text,
};

sp_err sp_graph_sqlite_open(const sp_graph_open_opts *o, sp_graph **out)
{
    sqlite_graph *g = SP_NEW(sqlite_graph);
    if (!g) return sp_fail_nomem("a graph");
    g->base.ops = &ops;
    sp_err err = SP_OK;
    g->path = sp_strdup_n(o->where, strlen(o->where));
    if (!g->path) err = sp_fail_nomem("a file name");
    if (err == SP_OK) err = sp_graph_db_open(o->where, false, &g->db);
    for (int i = 0; err == SP_OK && i < N_STATEMENTS; i++)
        err = sp_graph_db_prepare(g->db, g->path, statements[i], &g->run[i]);
    if (err != SP_OK) {
        close_graph(&g->base);
        return err;
    }
    *out = &g->base;
    return SP_OK;
}
