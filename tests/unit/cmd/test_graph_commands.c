/* test_graph_commands.c -- `spolia graph` and `spolia search` in one process: what they print, exit codes. */
#include "cmd/commands.h"

#include <jansson.h>

#include "support/caught.h"
#include "support/folder.h"

static const char *folder;
static int code;

static const char *in_folder(const char *name)
{
    static char paths[8][200];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *written(const char *name, const char *text)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* run -- a command with these words up to NULL; what it prints to `of`. Its exit code is in `code`. */
static const char *run(FILE *of, int (*command)(int, char **), const char *const *words)
{
    static char copies[16][256];
    char *argv[17] = {copies[0]};
    int argc = 1;
    strcpy(copies[0], "test");
    for (; words[argc - 1]; argc++) {
        assert_true(argc < 16);
        snprintf(copies[argc], sizeof copies[argc], "%s", words[argc - 1]);
        argv[argc] = copies[argc];
    }
    caught c = catch_begin(of), other = catch_begin(of == stdout ? stderr : stdout);
    code = command(argc, argv);
    catch_end(&other);
    return catch_end(&c);
}
#define RUN(of, command, ...) run(of, command, (const char *const[]){__VA_ARGS__, NULL})

static int (*graph(const char *name))(int, char **)
{
    for (const cli_command *c = cmd_graphs; c->name; c++)
        if (strcmp(c->name, name) == 0) return c->run;
    fail();
    return NULL;
}

static json_t *parsed(const char *text)
{
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    return o;
}

/* import -- four relations of films; the path of the graph. */
static const char *import(void)
{
    static char db[200];
    const char *tsv = written("movies.tsv", "Heat\tdirected_by\tMichael Mann\nHeat\tstarred_actors\tAl Pacino\n"
                                            "no triple\n"
                                            "The Insider\tdirected_by\tMichael Mann\n"
                                            "The Insider\twritten_by\tEric Roth\n");
    snprintf(db, sizeof db, "%s", in_folder("movies.db"));
    unlink(db);
    json_t *made = parsed(RUN(stdout, graph("import"), tsv, "-o", db, "--json", "-q"));
    assert_int_equal(code, 0);
    assert_int_equal(json_integer_value(json_object_get(made, "triples")), 4);
    assert_int_equal(json_integer_value(json_object_get(made, "bad")), 1);
    json_decref(made);
    return db;
}

static const char questions[] =
    "{\"question\": \"who directed Heat\", \"answers\": [\"michael mann\", \"Nobody\"], \"hops\": 1}\n\n"
    "{\"question\": \"who wrote the films of Michael Mann\", \"answers\": [\"Al Pacino\", \"Heat\"], \"hops\": 2}\n"
    "{\"question\": \"what?\", \"answers\": [\"x\"], \"hops\": 2}\n";

static void answers_on_paths_are_counted(void **state)
{
    const char *db = import(), *q = written("q.jsonl", questions);
    json_t *o = parsed(RUN(stdout, graph("eval"), "-g", db, q, "--json"));
    char *groups = json_dumps(json_object_get(o, "groups"), JSON_COMPACT);
    assert_int_equal(code, 0);
    assert_string_equal(groups, "[{\"hops\":1,\"questions\":1,\"named\":1.0,\"recall\":1.0,\"answers\":0.5},"
                                "{\"hops\":2,\"questions\":2,\"named\":0.5,\"recall\":0.5,\"answers\":0.5}]");
    assert_true(json_real_value(json_object_get(o, "median_ms")) <= json_real_value(json_object_get(o, "p99_ms")));
    assert_true(json_real_value(json_object_get(o, "p99_cpu_ms")) > 0);
    assert_true(json_real_value(json_object_get(o, "paths")) > 0.5);
    free(groups);
    json_decref(o);
    const char *table = RUN(stdout, graph("eval"), "-g", db, q);
    assert_non_null(strstr(table, "\n   1          1        100.0%               100.0%             50.0%\n"
                                  "   2          2         50.0%                50.0%             50.0%\n"));
    o = parsed(RUN(stdout, graph("eval"), "-g", db, q, "--json", "-n", "1"));
    assert_int_equal(json_array_size(json_object_get(o, "groups")), 1);
    json_decref(o);
    q = written("two.jsonl", "{\"question\": \"Heat\", \"answers\": [\"x\"], \"hops\": 1}\n" /* the last has no end */
                             "{\"question\": \"Heat\", \"answers\": [\"x\"], \"hops\": 2}");
    o = parsed(RUN(stdout, graph("eval"), "-g", db, q, "--json", "-n", "1"));
    assert_int_equal(json_array_size(json_object_get(o, "groups")), 1);
    json_decref(o);
}

static void wrong_questions_are_named(void **state)
{
    const char *db = import();
    const char *said = RUN(stderr, graph("eval"), "-g", db, written("bad.jsonl", "\n{\"question\": \"x\"}\n"));
    assert_non_null(strstr(said, "bad.jsonl:2"));
    assert_int_equal(code, 1);
    said = RUN(stderr, graph("eval"), "-g", db, written("no.jsonl", "\n"));
    assert_non_null(strstr(said, "no.jsonl: contains no question"));
    assert_int_equal(code, 1);
    assert_non_null(strstr(RUN(stderr, graph("eval"), "-g", db), "give one file of questions"));
    assert_int_equal(code, 2);
    assert_non_null(strstr(RUN(stderr, graph("eval"), "-g", in_folder("none.db"), "q"), "none.db"));
    assert_int_equal(code, 1);
}

static void paths_are_json(void **state)
{
    json_t *o = parsed(RUN(stdout, graph("paths"), "-g", import(), "--json", "-k", "1", "--style", "arrows", "--tree",
                           "writers of films directed by Michael Mann?"));
    const json_t *path = json_array_get(json_object_get(o, "paths"), 0);
    assert_int_equal(json_array_size(json_object_get(o, "paths")), 1);
    assert_string_equal(json_string_value(json_object_get(path, "text")),
                        "Michael Mann <-directed_by- The Insider -written_by-> Eric Roth");
    assert_true(json_is_true(json_array_get(json_object_get(path, "inverse"), 0)));
    assert_false(json_is_true(json_array_get(json_object_get(path, "inverse"), 1)));
    assert_int_equal(json_array_size(json_object_get(o, "tree")), 5);
    json_decref(o);
}

static void forty_relations_are_shown(void **state)
{
    char tsv[1000];
    size_t n = 0;
    for (int i = 0; i < 42; i++) n += (size_t)snprintf(tsv + n, sizeof tsv - n, "a\tr%d\tb\n", i);
    const char *db = in_folder("wide.db");
    RUN(stdout, graph("import"), written("wide.tsv", tsv), "-o", db, "-q");
    const char *said = RUN(stdout, graph("show"), "-g", in_folder("wide.db"));
    int n_lines = 0;
    for (const char *c = said; *c; c++) n_lines += *c == '\n';
    assert_int_equal(n_lines, 1 + 40 + 1);
    assert_non_null(strstr(said, "...  2 more\n"));
    assert_non_null(strstr(RUN(stderr, graph("search"), "-g", in_folder("wide.db"), "-k", "0", "a"), "from 1 to"));
    assert_int_equal(code, 2);
}

static void hits_are_all_shown(void **state)
{
    written("one.md", "# Harbour\n\nThe harbour has a lighthouse.\n");
    written("two.md", "# Lighthouse\n\nA lighthouse shows ships the harbour.\n");
    written("three.md", "# Sheep\n\nSheep eat grass.\n");
    const char *db = in_folder("i.db");
    RUN(stdout, cmd_index, in_folder("one.md"), in_folder("two.md"), in_folder("three.md"), "-o", db, "-q");
    assert_int_equal(code, 0);
    json_t *all = parsed(RUN(stdout, cmd_search, "-i", in_folder("i.db"), "--json", "lighthouse of the harbour"));
    assert_int_equal(json_array_size(all), 2);
    const char *first = json_string_value(json_object_get(json_array_get(all, 0), "title"));
    const char *second = json_string_value(json_object_get(json_array_get(all, 1), "title"));
    assert_string_not_equal(first, second);
    char want[80];
    snprintf(want, sizeof want, "[1] %s  (", first);
    const char *said = RUN(stdout, cmd_search, "-i", in_folder("i.db"), "lighthouse of the harbour");
    assert_int_equal(strncmp(said, want, strlen(want)), 0);
    snprintf(want, sizeof want, "\n\n[2] %s  (", second);
    assert_non_null(strstr(said, want));
    json_decref(all);
    said = RUN(stdout, cmd_search, "-i", in_folder("i.db"), "-k", "1", "lighthouse of the harbour");
    assert_null(strstr(said, "[2]"));
    RUN(stderr, cmd_search, "-i", in_folder("none.db"), "x");
    assert_int_equal(code, 1);
}

static int setup(void **state)
{
    setenv("SPOLIA_CONFIG", "", 1);
    const int failed = folder_setup(state);
    folder = *state;
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_on_paths_are_counted),
        cmocka_unit_test(wrong_questions_are_named),
        cmocka_unit_test(paths_are_json),
        cmocka_unit_test(forty_relations_are_shown),
        cmocka_unit_test(hits_are_all_shown),
    };
    return cmocka_run_group_tests(tests, setup, folder_teardown);
}
