/* graph_fixture.h -- a graph for a test: files of triples in a folder, imported and opened. */
#ifndef SP_TEST_RETRIEVE_GRAPH_FIXTURE_H
#define SP_TEST_RETRIEVE_GRAPH_FIXTURE_H

#include "folder.h"
#include "support/check.h"

/* graph_import -- imports one file of the folder into f->index. */
static inline sp_err graph_import(folder *f, const char *name, bool strict, sp_graph_stats *stats)
{
    char path[400];
    snprintf(path, sizeof path, "%s", folder_path(f, name));
    const char *const paths[] = {path};
    return sp_graph_import(paths, 1, f->index, &(sp_graph_import_opts){.strict = strict}, stats);
}

/* graph_make -- a graph of these lines of TSV. */
static inline sp_graph_stats graph_make(folder *f, const char *name, const char *text)
{
    sp_graph_stats stats;
    folder_write(f, name, text);
    assert_ok(graph_import(f, name, false, &stats));
    return stats;
}

static inline sp_graph *graph_open(folder *f)
{
    sp_graph *g;
    assert_ok(sp_graph_open(&(sp_graph_open_opts){.where = f->index}, &g));
    return g;
}

/* graph_paths -- the texts of the paths for a question, one a line, in a buffer of its own. */
static inline const char *graph_paths(folder *f, const char *question, sp_graph_paths_opts o)
{
    static char text[65536];
    sp_graph *g = graph_open(f);
    sp_graph_answer a;
    size_t n = 0;
    text[0] = '\0';
    assert_ok(sp_graph_find_paths(g, question, &o, &a));
    for (int i = 0; i < a.n_paths; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\n", a.paths[i].text);
    assert_true(n < sizeof text);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
    return text;
}

/* graph_names -- "mention=name:ident:match ..." of the entities of a question. */
static inline const char *graph_names(folder *f, const char *question)
{
    static char text[8192];
    sp_graph *g = graph_open(f);
    sp_graph_answer a;
    size_t n = 0;
    text[0] = '\0';
    assert_ok(sp_graph_find_paths(g, question, &(sp_graph_paths_opts){0}, &a));
    for (int i = 0; i < a.n_entities; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s=%s:%s:%d", i ? " " : "",
                              a.entities[i].mention, a.entities[i].name, a.entities[i].ident,
                              a.entities[i].match);
    sp_graph_answer_fini(&a);
    sp_graph_close(g);
    return text;
}

#endif
