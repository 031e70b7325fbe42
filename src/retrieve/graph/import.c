/* import.c -- adds the triples of files to a graph.
 *
 * Each batch of triples is one transaction, which also records how far its file was read:
 *
 *     file unknown, or changed since  ──> read from the beginning          (equal triples merge)
 *     state 'part', unchanged         ──> read on from graph_files.at
 *     state 'whole', unchanged        ──> skipped
 *
 * so an import that is interrupted, at any moment and in any way, continues where its last
 * transaction ended. GraphML and JSON cannot be entered in the middle: their `at` stays 0 until the
 * file is whole. A format or columns that were asked for are part of the state, so that a file counts
 * as changed when it is read in another way.
 *
 * Memory is bounded: the file is mapped, and texts that were seen are remembered with their ids up
 * to CACHE_BYTES, then forgotten and looked up again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/dict.h"
#include "base/file.h"
#include "base/log.h"
#include "base/need.h"
#include "retrieve/graph/db_int.h"
#include "retrieve/graph/names_int.h"
#include "retrieve/graph/triples.h"
#include "spolia.h"

#define DEFAULT_BATCH  100000
#define CACHE_BYTES    (48 << 20)
#define PROGRESS_EVERY 4096
#define MAX_WARNINGS   20
#define LET_GO_BYTES   (16 << 20)

enum {
    ADD_ENTITY,
    GET_ENTITY,
    SET_NAME,
    SET_FIRST_NAME,
    SET_FALLBACK,
    ADD_KEY,
    GET_KEY,
    REMOVE_KEY,
    ADD_LETTERS,
    REMOVE_LETTERS,
    ADD_RELATION,
    GET_RELATION,
    COUNT_RELATION,
    ADD_SOURCE,
    GET_SOURCE,
    ADD_TRIPLE,
    ADD_NAMED,
    GET_FILE,
    SET_FILE,
    N_STATEMENTS
};

static const char *const statements[N_STATEMENTS] = {
    [ADD_ENTITY] = "INSERT OR IGNORE INTO graph_entities (ident) VALUES (?1)",
    [GET_ENTITY] = "SELECT id FROM graph_entities WHERE ident = ?1",
    [SET_NAME] =
        "UPDATE graph_entities SET name = ?2 WHERE id = ?1 AND coalesce(name, ident) <> ?2",
    [SET_FIRST_NAME] = "UPDATE graph_entities SET name = ?2 WHERE id = ?1 AND name IS NULL",
    [SET_FALLBACK] = "UPDATE graph_entities SET name = ?2 WHERE id = ?1 AND coalesce(name, ?3) = ?3",
    [ADD_KEY] = "INSERT OR IGNORE INTO graph_keys (key, entity, alias) VALUES (?1, ?2, ?3)",
    [GET_KEY] = "SELECT id, key FROM graph_keys WHERE key = ?1 AND entity = ?2 AND alias = ?3",
    [REMOVE_KEY] = "DELETE FROM graph_keys WHERE id = ?1",
    [ADD_LETTERS] = "INSERT INTO graph_letters (rowid, key) VALUES (?1, ?2)",
    [REMOVE_LETTERS] = "INSERT INTO graph_letters (graph_letters, rowid, key)"
                       " VALUES ('delete', ?1, ?2)",
    [ADD_RELATION] = "INSERT OR IGNORE INTO graph_relations (name, n) VALUES (?1, 0)",
    [GET_RELATION] = "SELECT id FROM graph_relations WHERE name = ?1",
    [COUNT_RELATION] = "UPDATE graph_relations SET n = n + ?2 WHERE id = ?1",
    [ADD_SOURCE] = "INSERT OR IGNORE INTO graph_sources (name) VALUES (?1)",
    [GET_SOURCE] = "SELECT id FROM graph_sources WHERE name = ?1",
    [ADD_TRIPLE] = "INSERT OR IGNORE INTO graph_triples (subject, relation, object, source)"
                   " VALUES (?1, ?2, ?3, ?4)",
    [ADD_NAMED] = "INSERT OR IGNORE INTO graph_named (entity, source) VALUES (?1, ?3), (?2, ?3)",
    [GET_FILE] = "SELECT at, line, state = 'whole' || ?4 FROM graph_files"
                 " WHERE path = ?1 AND size = ?2 AND mtime_ns = ?3 AND state IN ('whole' || ?4, 'part' || ?4)",
    [SET_FILE] = "INSERT OR REPLACE INTO graph_files (path, size, mtime_ns, at, line, state)"
                 " VALUES (?1, ?2, ?3, ?4, ?5, ?6 || ?7)",
};

/* A cache of texts of one kind and their ids. */
typedef struct memory {
    int add, get; /* statements */
    sp_dict ids;
    sp_arena strings;
    size_t n_bytes;
} memory;

typedef struct relation_count {
    int64_t id, n;
} relation_count;

typedef struct importer {
    const char *path; /* of the graph */
    sp_graph_import_opts opts;
    sp_graph_stats *stats;

    sqlite3 *db;
    sqlite3_stmt *run[N_STATEMENTS];
    memory entities, relations, sources;
    SP_VEC(relation_count) counts; /* of relations in this transaction */
    sp_bytes key, shown[2];
    sp_bytes how; /* what a format and columns that were asked for add to the state of a file */

    const char *file; /* being read, as the caller named it */
    char *real;       /* its absolute path */
    int64_t size, mtime_ns;
    const sp_file_map *map;
    sp_triples_input in;
    bool by_lines;
    size_t let_go;     /* bytes of the map that were given back */
    int64_t n_pending; /* changes in this transaction */
    int64_t n_given;   /* since the last progress */
    int64_t n_warned;
    int64_t n_used; /* triples and names that the file gave */
} importer;

/* -- statements ----------------------------------------------------------------------------- */

static sp_err fail(importer *m)
{
    return sp_db_fail(m->db, m->path, "cannot write the graph");
}

static sp_err finish(importer *m, int which)
{
    sp_err err = sqlite3_step(m->run[which]) == SQLITE_DONE ? SP_OK : fail(m);
    sqlite3_reset(m->run[which]);
    return err;
}

static void bind(importer *m, int which, int parameter, sp_text t)
{
    sqlite3_bind_text64(m->run[which], parameter, t.n ? t.s : "", t.n, SQLITE_STATIC, SQLITE_UTF8);
}

/* number -- the first column of the only row; the row must be there. */
static sp_err number(importer *m, int which, int64_t *out)
{
    sqlite3_stmt *s = m->run[which];
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) *out = sqlite3_column_int64(s, 0);
    sp_err err = rc == SQLITE_ROW ? SP_OK : fail(m);
    sqlite3_reset(s);
    return err;
}

/* -- texts and their ids -------------------------------------------------------------------- */

static void forget(memory *k)
{
    sp_dict_fini(&k->ids);
    sp_arena_fini(&k->strings);
    sp_arena_init(&k->strings);
    k->n_bytes = 0;
}

static sp_err remember(memory *k, sp_text t, int64_t id)
{
    if (id >= SP_DICT_NONE) return SP_OK;
    if (k->n_bytes > CACHE_BYTES) forget(k);
    char *copy = sp_arena_take(&k->strings, t.n + 1, 1);
    if (!copy) return sp_fail_nomem("a name");
    memcpy(copy, t.s, t.n);
    k->n_bytes += t.n + 64; /* with its slot in the table */
    return sp_dict_put(&k->ids, copy, t.n, (uint32_t)id);
}

/* find_or_add -- the id of a text; *fresh tells whether it is new. */
static sp_err find_or_add(importer *m, memory *k, sp_text t, int64_t *id, bool *fresh)
{
    uint32_t known = sp_dict_get(&k->ids, t.s, t.n);
    *fresh = false;
    if (known != SP_DICT_NONE) return *id = known, SP_OK;
    bind(m, k->add, 1, t);
    SP_TRY(finish(m, k->add));
    *fresh = sqlite3_changes(m->db) > 0;
    *id = sqlite3_last_insert_rowid(m->db);
    if (!*fresh) {
        bind(m, k->get, 1, t);
        SP_TRY(number(m, k->get, id));
    }
    return remember(k, t, *id);
}

static sp_err add_key(importer *m, int64_t entity, sp_text name, sp_key_kind kind)
{
    m->key.n = 0;
    SP_TRY(sp_name_key(name.s, name.n, &m->key, NULL));
    sp_text key = {m->key.v, m->key.n};
    bind(m, ADD_KEY, 1, key);
    sqlite3_bind_int64(m->run[ADD_KEY], 2, entity);
    sqlite3_bind_int(m->run[ADD_KEY], 3, (int)kind);
    SP_TRY(finish(m, ADD_KEY));
    if (!sqlite3_changes(m->db)) return SP_OK;
    m->stats->n_aliases += kind == SP_KEY_ALIAS;
    sqlite3_bind_int64(m->run[ADD_LETTERS], 1, sqlite3_last_insert_rowid(m->db));
    bind(m, ADD_LETTERS, 2, key);
    return finish(m, ADD_LETTERS);
}

/* remove_key -- of a name that the entity no longer has. */
static sp_err remove_key(importer *m, int64_t entity, sp_text name, sp_key_kind kind)
{
    sqlite3_stmt *s = m->run[GET_KEY];
    m->key.n = 0;
    SP_TRY(sp_name_key(name.s, name.n, &m->key, NULL));
    sp_text key = {m->key.v, m->key.n};
    bind(m, GET_KEY, 1, key);
    sqlite3_bind_int64(s, 2, entity);
    sqlite3_bind_int(s, 3, (int)kind);
    int rc = sqlite3_step(s);
    int64_t id = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_reset(s);
    if (rc != SQLITE_ROW) return rc == SQLITE_DONE ? SP_OK : fail(m);
    sqlite3_bind_int64(m->run[REMOVE_LETTERS], 1, id);
    bind(m, REMOVE_LETTERS, 2, key);
    SP_TRY(finish(m, REMOVE_LETTERS));
    sqlite3_bind_int64(m->run[REMOVE_KEY], 1, id);
    return finish(m, REMOVE_KEY);
}

/* as_shown -- a name that the file does not give, with the capitals that were asked for; in `room` if it has any. */
static sp_err as_shown(const importer *m, sp_text name, sp_bytes *room, sp_text *out)
{
    *out = name;
    if (!m->opts.capitals) return SP_OK;
    room->n = 0;
    SP_TRY(sp_name_capitals(name.s, name.n, room));
    *out = (sp_text){room->v, room->n};
    return SP_OK;
}

/* show_capitals -- the name of a new entity that the file gives no other. */
static sp_err show_capitals(importer *m, int64_t entity, sp_text ident)
{
    sp_text name;
    SP_TRY(as_shown(m, ident, &m->shown[0], &name));
    if (name.n == ident.n && memcmp(name.s, ident.s, ident.n) == 0) return SP_OK;
    sqlite3_bind_int64(m->run[SET_FIRST_NAME], 1, entity);
    bind(m, SET_FIRST_NAME, 2, name);
    return finish(m, SET_FIRST_NAME);
}

/* set_fallback -- names an entity that is called by its ident. */
static sp_err set_fallback(importer *m, int64_t entity, sp_text ident, sp_text name)
{
    SP_TRY(as_shown(m, ident, &m->shown[0], &ident));
    SP_TRY(as_shown(m, name, &m->shown[1], &name));
    sqlite3_bind_int64(m->run[SET_FALLBACK], 1, entity);
    bind(m, SET_FALLBACK, 2, name);
    bind(m, SET_FALLBACK, 3, ident);
    return finish(m, SET_FALLBACK);
}

static sp_err set_name(importer *m, int64_t entity, sp_text name)
{
    sqlite3_bind_int64(m->run[SET_NAME], 1, entity);
    bind(m, SET_NAME, 2, name);
    return finish(m, SET_NAME);
}

static sp_err find_entity(importer *m, sp_text ident, int64_t *id)
{
    bool fresh;
    SP_TRY(find_or_add(m, &m->entities, ident, id, &fresh));
    if (!fresh) return SP_OK;
    m->stats->n_entities++;
    m->n_pending++;
    if (m->opts.capitals) SP_TRY(show_capitals(m, *id, ident));
    return add_key(m, *id, ident, SP_KEY_NAME);
}

static sp_err count_relation(importer *m, int64_t id)
{
    for (size_t i = m->counts.n; i-- > 0;)
        if (m->counts.v[i].id == id) return m->counts.v[i].n++, SP_OK;
    if (m->counts.n == 64) { /* few relations are in use at a time; write those that are not */
        for (size_t i = 0; i < m->counts.n; i++) {
            sqlite3_bind_int64(m->run[COUNT_RELATION], 1, m->counts.v[i].id);
            sqlite3_bind_int64(m->run[COUNT_RELATION], 2, m->counts.v[i].n);
            SP_TRY(finish(m, COUNT_RELATION));
        }
        m->counts.n = 0;
    }
    SP_TRY(sp_vec_reserve(&m->counts, 1));
    m->counts.v[m->counts.n++] = (relation_count){id, 1};
    return SP_OK;
}

/* -- transactions --------------------------------------------------------------------------- */

static sp_err begin(importer *m)
{
    m->n_pending = 0;
    return sp_db_exec(m->db, m->path, "BEGIN IMMEDIATE");
}

static sp_err commit(importer *m, const char *state)
{
    for (size_t i = 0; i < m->counts.n; i++) {
        sqlite3_bind_int64(m->run[COUNT_RELATION], 1, m->counts.v[i].id);
        sqlite3_bind_int64(m->run[COUNT_RELATION], 2, m->counts.v[i].n);
        SP_TRY(finish(m, COUNT_RELATION));
    }
    m->counts.n = 0;
    sqlite3_stmt *s = m->run[SET_FILE];
    bind(m, SET_FILE, 1, sp_text_of(m->real));
    sqlite3_bind_int64(s, 2, m->size);
    sqlite3_bind_int64(s, 3, m->mtime_ns);
    sqlite3_bind_int64(s, 4, (int64_t)m->in.at);
    sqlite3_bind_int64(s, 5, m->in.line);
    bind(m, SET_FILE, 6, sp_text_of(state));
    bind(m, SET_FILE, 7, (sp_text){m->how.v, m->how.n});
    SP_TRY(finish(m, SET_FILE));
    return sp_db_exec(m->db, m->path, "COMMIT");
}

/* report -- calls progress; when it cancels, what is read so far is kept. */
static sp_err report(importer *m)
{
    m->n_given = 0;
    const sp_graph_import_opts *o = &m->opts;
    if (!o->progress || o->progress(m->file, (int64_t)m->in.at, m->size, o->user)) return SP_OK;
    SP_TRY(commit(m, "part"));
    return sp_fail(SP_E_CANCELED,
                   "%s: canceled at line %lld of %s; the next import continues there", m->path,
                   (long long)m->in.line, m->file);
}

static sp_err next_batch(importer *m)
{
    SP_TRY(commit(m, "part"));
    return begin(m);
}

/* -- what the readers give ------------------------------------------------------------------ */

/* name_again -- the source of a triple that is there names its entities, too. */
static sp_err name_again(importer *m, int64_t subject, int64_t object, int64_t source)
{
    m->stats->n_duplicates++;
    if (!source) return SP_OK;
    sqlite3_bind_int64(m->run[ADD_NAMED], 1, subject);
    sqlite3_bind_int64(m->run[ADD_NAMED], 2, object);
    sqlite3_bind_int64(m->run[ADD_NAMED], 3, source);
    return finish(m, ADD_NAMED);
}

static sp_err on_triple(const sp_triple *t, void *user)
{
    importer *m = user;
    int64_t subject, relation, object, source = 0;
    bool fresh;
    m->n_used++;
    SP_TRY(find_entity(m, t->subject, &subject));
    SP_TRY(find_or_add(m, &m->relations, t->relation, &relation, &fresh));
    SP_TRY(find_entity(m, t->object, &object));
    if (t->source.n) SP_TRY(find_or_add(m, &m->sources, t->source, &source, &fresh));
    sqlite3_stmt *s = m->run[ADD_TRIPLE];
    sqlite3_bind_int64(s, 1, subject);
    sqlite3_bind_int64(s, 2, relation);
    sqlite3_bind_int64(s, 3, object);
    sqlite3_bind_int64(s, 4, source);
    SP_TRY(finish(m, ADD_TRIPLE));
    m->n_pending++;
    if (sqlite3_changes(m->db)) {
        m->stats->n_triples++;
        SP_TRY(count_relation(m, relation));
    } else {
        SP_TRY(name_again(m, subject, object, source));
    }
    if (m->by_lines) return SP_OK;
    if (++m->n_given >= PROGRESS_EVERY) SP_TRY(report(m));
    return m->n_pending >= m->opts.batch ? next_batch(m) : SP_OK;
}

/* drop_fallback -- an entity of RDF that has a label is not called by the end of its IRI. */
static sp_err drop_fallback(importer *m, int64_t entity, sp_text ident)
{
    if (m->in.format != SP_GRAPH_NTRIPLES && m->in.format != SP_GRAPH_TURTLE) return SP_OK;
    m->shown[0].n = 0;
    SP_TRY(sp_name_of_iri(ident.s, ident.n, &m->shown[0]));
    return remove_key(m, entity, (sp_text){m->shown[0].v, m->shown[0].n}, SP_KEY_FALLBACK);
}

static sp_err on_name(sp_text ident, sp_text name, sp_name_kind kind, void *user)
{
    static const sp_key_kind key_of[] = {
        [SP_NAME_MAIN] = SP_KEY_NAME, [SP_NAME_ALIAS] = SP_KEY_ALIAS, [SP_NAME_FALLBACK] = SP_KEY_FALLBACK};
    importer *m = user;
    int64_t entity;
    m->n_used++;
    SP_TRY(find_entity(m, ident, &entity));
    bool same = ident.n == name.n && memcmp(ident.s, name.s, name.n) == 0;
    if (kind == SP_NAME_FALLBACK && same) return SP_OK;
    if (kind != SP_NAME_ALIAS && !same) {
        SP_TRY(kind == SP_NAME_MAIN ? set_name(m, entity, name) : set_fallback(m, entity, ident, name));
        if (sqlite3_changes(m->db))
            SP_TRY(remove_key(m, entity, ident, SP_KEY_NAME));
        else if (kind == SP_NAME_FALLBACK)
            return SP_OK; /* it has a name */
    }
    if (kind == SP_NAME_MAIN) SP_TRY(drop_fallback(m, entity, ident));
    m->n_pending++;
    return add_key(m, entity, name, key_of[kind]);
}

static sp_err on_bad(int64_t line, const char *why, void *user)
{
    importer *m = user;
    m->stats->n_bad++;
    if (m->opts.strict) return sp_fail(SP_E_FORMAT, "%s:%lld: %s", m->file, (long long)line, why);
    if (m->n_warned++ < MAX_WARNINGS)
        sp_log(SP_LOG_WARN, "%s:%lld: skipped: %s", m->file, (long long)line, why);
    return SP_OK;
}

static sp_err on_mark(size_t at, int64_t line, void *user)
{
    importer *m = user;
    m->stats->n_lines += line - m->in.line;
    m->stats->n_bytes += (int64_t)(at - m->in.at);
    m->in.at = at;
    m->in.line = line;
    if (at - m->let_go >= LET_GO_BYTES) {
        sp_file_map_let_go(m->map, m->map->data + m->let_go, at - m->let_go);
        m->let_go = at;
    }
    if (++m->n_given >= PROGRESS_EVERY) SP_TRY(report(m));
    return m->n_pending >= m->opts.batch ? next_batch(m) : SP_OK;
}

/* -- files ---------------------------------------------------------------------------------- */

/* find_file -- sets m->real, size, time, and how far it was read before; *whole: to its end. */
static sp_err find_file(importer *m, bool *whole)
{
    struct stat st;
    free(m->real);
    m->real = realpath(m->file, NULL);
    if (!m->real || stat(m->real, &st) != 0)
        return sp_fail(SP_E_IO, "%s: %s", m->file, strerror(errno));
    m->size = st.st_size;
    m->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    m->in = (sp_triples_input){.path = m->file};
    *whole = false;
    sqlite3_stmt *s = m->run[GET_FILE];
    bind(m, GET_FILE, 1, sp_text_of(m->real));
    sqlite3_bind_int64(s, 2, m->size);
    sqlite3_bind_int64(s, 3, m->mtime_ns);
    bind(m, GET_FILE, 4, (sp_text){m->how.v, m->how.n});
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        m->in.at = (size_t)sqlite3_column_int64(s, 0);
        m->in.line = sqlite3_column_int64(s, 1);
        *whole = sqlite3_column_int(s, 2);
    }
    sp_err err = rc == SQLITE_ROW || rc == SQLITE_DONE ? SP_OK : fail(m);
    sqlite3_reset(s);
    return err;
}

static sp_err read_mapped(importer *m)
{
    static const sp_triple_sink calls = {on_triple, on_name, on_bad, on_mark, NULL};
    sp_triple_sink sink = calls;
    sink.user = m;
    sp_file_map map;
    SP_TRY(sp_file_map_open(m->real, &map));
    m->map = &map;
    m->let_go = 0;
    m->in.data = (const char *)map.data;
    m->in.n = map.size;
    m->by_lines = sp_graph_format_has_lines(m->in.format);
    sp_triples_input in = m->in;
    if (in.at > in.n) in.at = m->in.at = 0;
    sp_err err = sp_triples_read(&in, &sink);
    sp_file_map_close(&map);
    if (err == SP_OK && !m->by_lines) m->stats->n_bytes += (int64_t)m->in.n;
    if (err == SP_OK && m->n_warned > MAX_WARNINGS)
        sp_log(SP_LOG_WARN, "%s: skipped %lld more lines", m->file,
               (long long)(m->n_warned - MAX_WARNINGS));
    return err;
}

static sp_err read_file(importer *m, const char *file)
{
    bool whole = false;
    sp_graph_format format = SP_GRAPH_TSV;
    m->file = file;
    m->n_warned = 0;
    m->n_given = 0;
    SP_TRY(sp_graph_format_find(m->opts.format, file, &format));
    SP_TRY(find_file(m, &whole));
    if (whole) return m->stats->n_unchanged++, SP_OK;
    m->in.format = format;
    m->in.columns = m->opts.columns;
    bool from_start = m->in.at == 0;
    int64_t n_bad = m->stats->n_bad;
    m->n_used = 0;
    SP_TRY(begin(m));
    sp_err err = read_mapped(m);
    if (err == SP_OK && from_start && m->n_used == 0 && m->stats->n_bad > n_bad)
        err = sp_fail(SP_E_FORMAT, "%s: none of its %lld lines is a triple", file,
                      (long long)(m->stats->n_bad - n_bad));
    if (err == SP_OK) err = commit(m, "whole");
    if (err == SP_OK) m->stats->n_files++;
    if (err != SP_OK && !sqlite3_get_autocommit(m->db))
        sqlite3_exec(m->db, "ROLLBACK", NULL, NULL, NULL);
    return err;
}

/* -- import --------------------------------------------------------------------------------- */

static sp_err set_how(importer *m)
{
    const sp_graph_columns *c = &m->opts.columns;
    const char *const asked[] = {m->opts.format, c->subject, c->relation, c->object, c->source};
    size_t n = 0;
    for (size_t i = 0; i < SP_COUNT(asked); i++) n += asked[i] != NULL;
    for (size_t i = 0; n && i < SP_COUNT(asked); i++) {
        SP_TRY(sp_bytes_add(&m->how, "\n", 1));
        if (asked[i]) SP_TRY(sp_bytes_add(&m->how, asked[i], strlen(asked[i])));
    }
    return SP_OK;
}

static void importer_fini(importer *m)
{
    for (int i = 0; i < N_STATEMENTS; i++) sqlite3_finalize(m->run[i]);
    sqlite3_close(m->db);
    forget(&m->entities);
    forget(&m->relations);
    forget(&m->sources);
    sp_vec_fini(&m->counts);
    sp_vec_fini(&m->key);
    sp_vec_fini(&m->shown[0]);
    sp_vec_fini(&m->shown[1]);
    sp_vec_fini(&m->how);
    free(m->real);
}

sp_err sp_graph_import(const char *const *paths, int n_paths, const char *out_path,
                       const sp_graph_import_opts *o, sp_graph_stats *stats)
{
    SP_NEED(out_path);
    if (n_paths > 0) SP_NEED(paths);
    for (int i = 0; i < n_paths; i++) SP_NEED(paths[i]);
    sp_graph_stats unused;
    importer m = {
        .path = out_path,
        .opts = o ? *o : (sp_graph_import_opts){0},
        .stats = stats ? stats : &unused,
        .entities = {ADD_ENTITY, GET_ENTITY},
        .relations = {ADD_RELATION, GET_RELATION},
        .sources = {ADD_SOURCE, GET_SOURCE},
    };
    *m.stats = (sp_graph_stats){0};
    if (m.opts.batch < 0) return sp_fail(SP_E_ARG, "batch %d: at least 1", m.opts.batch);
    if (!m.opts.batch) m.opts.batch = DEFAULT_BATCH;
    sp_err err = set_how(&m);
    if (err == SP_OK) err = sp_graph_db_open(out_path, true, &m.db);
    for (int i = 0; err == SP_OK && i < N_STATEMENTS; i++)
        err = sp_graph_db_prepare(m.db, out_path, statements[i], &m.run[i]);
    for (int i = 0; err == SP_OK && i < n_paths; i++) err = read_file(&m, paths[i]);
    importer_fini(&m);
    return err;
}
