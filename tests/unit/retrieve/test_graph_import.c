/* Importing graphs: merging, names, interruptions, and what hostile files do. */
#include "graph_fixture.h"

#include <sqlite3.h>
#include <utime.h>

static int64_t query(folder *f, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open_v2(f->index, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    int rc = sqlite3_step(s);
    assert_true(rc == SQLITE_ROW || rc == SQLITE_DONE);
    int64_t number = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    sqlite3_close(db);
    return number;
}

/* What must hold after every import, complete or not. */
static void assert_sound(folder *f)
{
    assert_int_equal(
        query(f, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
    assert_int_equal(query(f, "SELECT count(*) FROM graph_triples WHERE subject NOT IN"
                              " (SELECT id FROM graph_entities) OR object NOT IN"
                              " (SELECT id FROM graph_entities) OR relation NOT IN"
                              " (SELECT id FROM graph_relations)"),
                     0);
    assert_int_equal(query(f, "SELECT count(*) FROM graph_relations AS r WHERE n <>"
                              " (SELECT count(*) FROM graph_triples WHERE relation = r.id)"),
                     0);
    assert_int_equal(query(f, "SELECT count(*) FROM graph_entities WHERE id NOT IN"
                              " (SELECT entity FROM graph_keys)"),
                     0);
}

static void equal_triples_merge(void **state)
{
    folder *f = *state;
    sp_graph_stats s = graph_make(f, "a.tsv", "A\tr\tB\tdoc 1\nA\tr\tB\tdoc 2\nA\tr\tC\nB\tr\tA\n");
    assert_int_equal(s.n_triples, 3);
    assert_int_equal(s.n_duplicates, 1);
    assert_int_equal(s.n_entities, 3);
    assert_int_equal(s.n_lines, 4);
    s = graph_make(f, "b.tsv", "A\tr\tB\nA\tq\tB\n");
    assert_int_equal(s.n_triples, 1);
    assert_int_equal(s.n_entities, 0);
    assert_sound(f);
    sp_graph *g = graph_open(f);
    sp_graph_info info;
    assert_ok(sp_graph_describe(g, &info));
    assert_int_equal(info.n_triples, 4);
    assert_int_equal(info.n_relations, 2);
    assert_string_equal(info.relations[0].name, "r");
    assert_int_equal(info.relations[0].n_triples, 3);
    sp_graph_info_fini(&info);
    sp_graph_answer a;
    assert_ok(sp_graph_find_paths(g, "A", &(sp_graph_paths_opts){.hops = 1}, &a));
    assert_string_equal(a.paths[0].sources[0], "doc 1"); /* of the first of equal triples */
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

static void a_file_that_did_not_change_is_not_read_again(void **state)
{
    folder *f = *state;
    graph_make(f, "a.tsv", "A\tr\tB\n");
    sp_graph_stats s;
    assert_ok(graph_import(f, "a.tsv", false, &s));
    assert_int_equal(s.n_unchanged, 1);
    assert_int_equal(s.n_lines, 0);
    s = graph_make(f, "a.tsv", "A\tr\tB\nA\tr\tC\n");
    assert_int_equal(s.n_triples, 1);
    assert_int_equal(s.n_duplicates, 1);
    folder_write(f, "a.tsv", "A\tr\tB\nA\tr\tD\n"); /* as long, at another time */
    assert_int_equal(utime(folder_path(f, "a.tsv"), &(struct utimbuf){1000000000, 1000000000}), 0);
    assert_ok(graph_import(f, "a.tsv", false, &s));
    assert_int_equal(s.n_triples, 1);
}

/* Whoever asks for other columns, or another format, wants what the file then says. */
static void a_file_is_read_again_for_other_columns(void **state)
{
    folder *f = *state;
    graph_make(f, "a.csv", "who,job,town\nAnna,keeper,Velm\n");
    sp_graph_import_opts o = {.columns = {.subject = "who", .object = "town"}};
    const char *file = folder_path(f, "a.csv");
    sp_graph_stats s;
    static const char *const relations[] = {"=lives in", "=lives in", "=knows"};
    for (size_t i = 0; i < SP_COUNT(relations); i++) {
        o.columns.relation = relations[i];
        assert_ok(sp_graph_import(&file, 1, f->index, &o, &s));
        assert_int_equal(s.n_triples, i != 1);
        assert_int_equal(s.n_unchanged, i == 1);
    }
    assert_sound(f);
}

static void bad_lines_are_counted_or_stop(void **state)
{
    folder *f = *state;
    sp_graph_stats s;
    folder_write(f, "a.tsv", "A\tr\tB\nbroken\nA\t\tB\nA\tr\tC\n");
    assert_fails(graph_import(f, "a.tsv", true, &s), SP_E_FORMAT, "a.tsv:2: 1 column;");
    assert_int_equal(query(f, "SELECT count(*) FROM graph_triples"), 0);
    assert_ok(graph_import(f, "a.tsv", false, &s));
    assert_int_equal(s.n_bad, 2);
    assert_int_equal(s.n_triples, 2);
    assert_sound(f);
    folder_write(f, "b.tsv", "no\ntriple\n"); /* a file of another kind */
    assert_fails(graph_import(f, "b.tsv", false, &s), SP_E_FORMAT, "b.tsv: none of its 2 lines is a triple");
}

/* -- interruptions --------------------------------------------------------------------------- */

#define N_LINES 20000

static bool cancel_halfway(const char *file, int64_t done, int64_t total, void *user)
{
    int *calls = user;
    return ++*calls < 3;
}

typedef struct warnings {
    int n;
    char last[200];
} warnings;

static void keep_warning(sp_log_level level, const char *line, void *user)
{
    warnings *w = user;
    if (level == SP_LOG_WARN) w->n++;
    snprintf(w->last, sizeof w->last, "%s", line);
}

/* 20 lines of each file are named, and the rest is counted. */
static void warnings_of_a_file_are_limited(void **state)
{
    folder *f = *state;
    static const int n_bad[] = {25, 20, 22};
    char text[1000] = "A\tr\tB\n", name[8] = "0.tsv";
    for (size_t i = 0; i < SP_COUNT(n_bad); i++) {
        warnings w = {0};
        char rest[40];
        size_t n = strlen("A\tr\tB\n");
        for (int k = 0; k < n_bad[i]; k++) n += (size_t)snprintf(text + n, sizeof text - n, "bad %d\n", k);
        name[0] = (char)('0' + i);
        sp_log_set(SP_LOG_WARN, keep_warning, &w);
        const sp_graph_stats s = graph_make(f, name, text);
        sp_log_set(SP_LOG_ERROR, NULL, NULL);
        assert_int_equal(s.n_bad, n_bad[i]);
        assert_int_equal(w.n, n_bad[i] > 20 ? 21 : 20);
        snprintf(rest, sizeof rest, "skipped %d more lines", n_bad[i] - 20);
        assert_true((strstr(w.last, rest) != NULL) == (n_bad[i] > 20));
    }
}

/* interrupted -- N_LINES of a file, with `head` above them and `by` between their cells. */
static void interrupted(folder *f, const char *name, const char *head, char by)
{
    FILE *out = fopen(folder_path(f, name), "w");
    fputs(head, out);
    for (int i = 0; i < N_LINES; i++) fprintf(out, "s%d%cr%d%co%d\n", i, by, i % 70, by, i % 100);
    fclose(out);
    char path[400];
    snprintf(path, sizeof path, "%s", folder_path(f, name));
    const char *const paths[] = {path};
    int calls = 0;
    sp_graph_import_opts o = {.batch = 1000, .progress = cancel_halfway, .user = &calls};
    sp_graph_stats first, rest;
    assert_fails(sp_graph_import(paths, 1, f->index, &o, &first), SP_E_CANCELED,
                 "; the next import continues there");
    assert_in_range(first.n_triples, 1000, N_LINES - 1000);
    assert_int_equal(query(f, "SELECT count(*) FROM graph_triples"), first.n_triples);
    assert_sound(f);
    o.progress = NULL;
    assert_ok(sp_graph_import(paths, 1, f->index, &o, &rest));
    assert_int_equal(first.n_lines + rest.n_lines, N_LINES + (*head != '\0'));
    assert_int_equal(first.n_triples + rest.n_triples, N_LINES);
    assert_int_equal(rest.n_duplicates, 0);
    assert_int_equal(query(f, "SELECT count(*) FROM graph_triples"), N_LINES);
    assert_sound(f);
}

static void an_interrupted_import_continues(void **state)
{
    interrupted(*state, "big.tsv", "", '\t');
}

static void an_interrupted_table_continues(void **state)
{
    interrupted(*state, "big.csv", "subject,relation,object\n", ',');
}

/* GraphML has no place to continue at, but can be canceled, too. */
static void an_import_of_graphml_can_be_canceled(void **state)
{
    folder *f = *state;
    FILE *out = fopen(folder_path(f, "big.graphml"), "w");
    fputs("<graphml><graph>", out);
    for (int i = 0; i < N_LINES; i++) fprintf(out, "<edge source=\"s%d\" target=\"t%d\"/>\n", i, i % 100);
    fputs("</graph></graphml>", out);
    fclose(out);
    char path[400];
    snprintf(path, sizeof path, "%s", folder_path(f, "big.graphml"));
    const char *const paths[] = {path};
    int calls = 0;
    sp_graph_stats s;
    sp_graph_import_opts o = {.batch = 1000, .progress = cancel_halfway, .user = &calls};
    assert_fails(sp_graph_import(paths, 1, f->index, &o, &s), SP_E_CANCELED, "canceled");
    assert_in_range(query(f, "SELECT count(*) FROM graph_triples"), 1000, N_LINES - 1000);
    assert_sound(f);
}

/* -- names ------------------------------------------------------------------------------------ */

static void entities_with_one_name_are_kept_apart(void **state)
{
    folder *f = *state;
    folder_write(f, "edges.csv", ":START_ID,:TYPE,:END_ID\n1,likes,3\n2,likes,3\n");
    folder_write(f, "nodes.csv", ":ID,name\n1,John Smith\n2,John Smith\n3,Tea\n");
    sp_graph_stats s;
    assert_ok(graph_import(f, "edges.csv", true, &s)); /* edges first: nodes get names later */
    assert_string_equal(graph_names(f, "what does 1 like"), "1=1:1:0");
    assert_ok(graph_import(f, "nodes.csv", true, &s));
    assert_int_equal(s.n_entities, 0);
    assert_string_equal(graph_names(f, "what does john smith like"),
                        "john smith=John Smith:1:0 john smith=John Smith:2:0");
    assert_string_equal(graph_names(f, "what does 1 like"), "");
    assert_string_equal(graph_paths(f, "John Smith", (sp_graph_paths_opts){.hops = 1}),
                        "John Smith -likes-> Tea\nJohn Smith -likes-> Tea\n");
    assert_sound(f);
}

/* Letters of a name that an entity no longer has find nothing, though its new name has the old one's number. */
static void a_replaced_name_is_not_found_by_its_letters(void **state)
{
    folder *f = *state;
    sp_graph_answer a;
    graph_make(f, "a.tsv", "Ann\tlikes\tzebra99\n");
    folder_write(f, "b.jsonl", "{\"entity\": \"zebra99\", \"name\": \"Cup\"}\n");
    sp_graph_stats s;
    assert_ok(graph_import(f, "b.jsonl", true, &s));
    sp_graph *g = graph_open(f);
    assert_ok(sp_graph_search(g, "zebra", 5, &a));
    assert_int_equal(a.n_entities, 0);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

/* n_called -- how many entities have this name. */
static int n_called(folder *f, const char *name)
{
    sp_graph *g = graph_open(f);
    sp_graph_answer a;
    int n = 0;
    assert_ok(sp_graph_search(g, name, 5, &a));
    for (int i = 0; i < a.n_entities; i++) n += a.entities[i].match == SP_GRAPH_EXACT;
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
    return n;
}

#define LABEL " <http://www.w3.org/2000/01/rdf-schema#label> "

/* Whether a label is read first or last: an IRI that has one is not called by its end, unless that is a label, too. */
static void names_do_not_depend_on_the_order(void **state)
{
    static const char *const lines[] = {
        "<http://x/1931>" LABEL "\"Anna\" .\n", "<http://x/heat>" LABEL "\"Heat\" .\n",
        "<http://x/heat>" LABEL "\"Fire\" .\n", "<urn:isbn:7>" LABEL "\"Seven\" .\n",
        "<http://x/1931> <http://x/in> <http://x/heat> .\n",
        "<urn:isbn:7> <http://x/in> <http://x/1931> .\n", "<http://x/other> <http://x/in> <urn:isbn:7> .\n"};
    static const struct {
        const char *name;
        int n;
    } called[] = {{"1931", 0}, {"urn isbn 7", 0}, {"Anna", 1}, {"Heat", 1}, {"Fire", 1}, {"Seven", 1}, {"other", 1}};
    const int n = (int)SP_COUNT(lines);
    folder *f = *state;
    for (int order = 0; order < 2 * n; order++) { /* from each line on, forwards and back */
        char text[2048] = "", name[16];
        for (int i = 0; i < n; i++) strcat(text, lines[(order + (order < n ? i : n - i)) % n]);
        snprintf(name, sizeof name, "%d.nt", order);
        remove(f->index);
        graph_make(f, name, text);
        for (size_t i = 0; i < SP_COUNT(called); i++) assert_int_equal(n_called(f, called[i].name), called[i].n);
        assert_sound(f);
    }
}

static void aliases_find_their_entity(void **state)
{
    folder *f = *state;
    graph_make(f, "a.tsv", "New York City\tin\tUSA\nnyc\tis\tabbreviation\n");
    folder_write(f, "b.jsonl",
                 "{\"entity\": \"New York City\", \"aliases\": [\"NYC\", \"The Big Apple\"]}\n");
    sp_graph_stats s;
    assert_ok(graph_import(f, "b.jsonl", true, &s));
    assert_int_equal(s.n_aliases, 2);
    assert_string_equal(graph_names(f, "where is the big apple?"),
                        "the big apple=New York City:New York City:1");
    assert_string_equal(graph_names(f, "NYC"), "NYC=nyc:nyc:0 NYC=New York City:New York City:1");
}

/* -- files ------------------------------------------------------------------------------------ */

static void a_graph_may_be_in_an_index_of_documents(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Badgers dig.");
    folder_index(f);
    graph_make(f, "g.tsv", "Badger\tdigs\tholes\n");
    assert_string_equal(folder_ask(f, "badgers", 3), "a.txt:a.txt:Badgers dig.\n");
    assert_string_equal(graph_names(f, "badger"), "badger=Badger:Badger:0");
    folder_write(f, "b.txt", "Badgers sleep.");
    sp_index_stats s;
    assert_int_equal(folder_build(f, 7, &s),
                     SP_OK); /* other chunks: all tables of the index are new */
    assert_string_equal(graph_names(f, "badger"), "badger=Badger:Badger:0");
}

static void other_files_are_refused(void **state)
{
    folder *f = *state;
    sp_graph *g;
    sp_graph_stats s;
    sp_graph_open_opts o = {.where = f->index};
    assert_fails(sp_graph_open(&o, &g), SP_E_IO, "cannot open the graph");
    folder_write(f, "a.txt", "text");
    folder_index(f);
    assert_fails(sp_graph_open(&o, &g), SP_E_FORMAT, "holds no graph");
    assert_fails(sp_graph_open(&(sp_graph_open_opts){.where = ""}, &g), SP_E_ARG, "empty file name");
    folder_write(f, "new.tsv", "a\tr\tb\n");
    assert_ok(graph_import(f, "new.tsv", false, &s));
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f->index, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE graph_meta SET version = 2", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_fails(sp_graph_open(&o, &g), SP_E_FORMAT, "a graph of version 2, this program has version 1");
    assert_fails(graph_import(f, "new.tsv", false, &s), SP_E_FORMAT, "a graph of version 2");
    assert_int_equal(truncate(f->index, 1000), 0);
    assert_fails(sp_graph_open(&o, &g), SP_E_FORMAT, f->index);
    FILE *out = fopen(f->index, "w");
    fputs("this is not a database, whatever its name says; long enough for a header of SQLite ...",
          out);
    fclose(out);
    assert_fails(sp_graph_open(&o, &g), SP_E_FORMAT, f->index);
    folder_write(f, "g.tsv", "a\tr\tb\n");
    assert_fails(graph_import(f, "g.tsv", false, &s), SP_E_FORMAT, f->index);
    assert_fails(graph_import(f, "missing.tsv", false, &s), SP_E_FORMAT, f->index);
    assert_int_equal(unlink(f->index), 0);
    assert_fails(graph_import(f, "missing.tsv", false, &s), SP_E_IO, "missing.tsv: No such file");
    assert_fails(graph_import(f, "a.txt", true, &s), SP_E_FORMAT, "a.txt:1: 1 column;");
}

static void long_names_are_found(void **state)
{
    folder *f = *state;
    static char text[16384];
    size_t n = 0;
    for (int i = 0; i < 400; i++) n += (size_t)sprintf(text + n, "word%d ", i);
    char *line = malloc(4 * n + 64);
    sprintf(line, "%s\tr\tB\n%s%s%s\tr\tC\n", text, text, text, text);
    sp_graph_stats s = graph_make(f, "a.tsv", line);
    free(line);
    assert_int_equal(s.n_triples, 1);
    assert_int_equal(s.n_bad, 1); /* over 4,096 bytes */
    sp_graph *g = graph_open(f);
    sp_graph_answer a;
    assert_ok(sp_graph_find_paths(g, text, &(sp_graph_paths_opts){0}, &a));
    assert_int_equal(a.n_entities, 1);
    assert_int_equal(a.n_paths, 1);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
}

static void memory_that_runs_out_is_an_error(void **state)
{
    folder *f = *state;
    sp_graph_stats s;
    folder_write(f, "a.csv", "subject,relation,object\nA,r,B\nB,r,C\n");
    graph_make(f, "warm.tsv", "X\tr\tY\n"); /* the tables are there */
    assert_survives_faults(graph_import(f, "a.csv", false, &s), true);
    assert_sound(f);
    assert_int_equal(query(f, "SELECT count(*) FROM graph_triples"), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(equal_triples_merge),
        FOLDER_TEST(a_file_that_did_not_change_is_not_read_again),
        FOLDER_TEST(a_file_is_read_again_for_other_columns),
        FOLDER_TEST(bad_lines_are_counted_or_stop),
        FOLDER_TEST(warnings_of_a_file_are_limited),
        FOLDER_TEST(an_interrupted_import_continues),
        FOLDER_TEST(an_interrupted_table_continues),
        FOLDER_TEST(an_import_of_graphml_can_be_canceled),
        FOLDER_TEST(entities_with_one_name_are_kept_apart),
        FOLDER_TEST(a_replaced_name_is_not_found_by_its_letters),
        FOLDER_TEST(names_do_not_depend_on_the_order),
        FOLDER_TEST(aliases_find_their_entity),
        FOLDER_TEST(a_graph_may_be_in_an_index_of_documents),
        FOLDER_TEST(other_files_are_refused),
        FOLDER_TEST(long_names_are_found),
        FOLDER_TEST(memory_that_runs_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
