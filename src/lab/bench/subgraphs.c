#include "lab/bench/subgraphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "retrieve/graph/tree.h"

/* -- entities ------------------------------------------------------------------------------- */

typedef struct names {
    char **v;
    int n, room;
} names;

static void names_fini(names *s)
{
    for (int i = 0; i < s->n; i++) free(s->v[i]);
    free(s->v);
}

static bool names_add(names *s, const char *text, size_t n)
{
    if (s->n == s->room) {
        int room = s->room ? 2 * s->room : 1024;
        char **v = realloc(s->v, (size_t)room * sizeof *v);
        if (!v) return false;
        s->v = v;
        s->room = room;
    }
    return (s->v[s->n] = strndup(text, n)) != NULL && (s->n++, true);
}

/* read_names -- subjects and objects as often as they occur, so frequent ones are drawn more often. */
static bool read_names(const char *path, names *out)
{
    FILE *f = fopen(path, "r");
    if (!f) return cli_fail_with("%s: cannot be read", path), false;
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    while (good && getline(&line, &room, f) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        const char *a = strchr(line, '\t'), *b = a ? strchr(a + 1, '\t') : NULL;
        if (!b) continue;
        good =
            names_add(out, line, (size_t)(a - line)) && names_add(out, b + 1, strcspn(b + 1, "\t"));
    }
    free(line);
    fclose(f);
    if (!good) return cli_fail_with("out of memory"), false;
    return out->n || (cli_fail_with("%s: has no triples", path), false);
}

static bool is_known(const bench_subgraphs *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->v[i].paths[0].nodes[0], name) == 0) return true;
    return false;
}

/* draw -- random entities until o->n have enough paths. */
static bool draw(sp_graph *g, const bench_subgraphs_opts *o, const names *all, bench_subgraphs *out)
{
    const sp_graph_paths_opts paths = {.k = o->max_paths, .hops = o->hops, .max_entities = 1};
    uint64_t random = o->seed;
    for (int64_t tried = 0; out->n < o->n && tried < 200 * (int64_t)o->n; tried++) {
        const char *name = all->v[bench_random(&random) % (uint64_t)all->n];
        sp_graph_answer *a = &out->v[out->n];
        sp_err err = sp_graph_find_paths(g, name, &paths, a);
        if (err != SP_OK) return cli_fail(err), false;
        if (a->n_entities == 1 && a->n_paths >= o->min_paths &&
            !is_known(out, a->paths[0].nodes[0]))
            out->n++;
        else
            sp_graph_answer_fini(a);
    }
    return out->n == o->n ||
           (cli_fail_with("%s: %d entities with %d paths were found, %d are needed", o->graph,
                          out->n, o->min_paths, o->n),
            false);
}

bool bench_subgraphs_open(const bench_subgraphs_opts *o, bench_subgraphs *out)
{
    names all = {0};
    sp_graph *g = NULL;
    sp_err err = sp_graph_open(&(sp_graph_open_opts){.where = o->graph}, &g);
    if (err != SP_OK) return cli_fail(err), false;
    *out = (bench_subgraphs){.v = calloc((size_t)o->n + 1, sizeof *out->v)};
    bool good = out->v || (cli_fail_with("out of memory"), false);
    good = good && read_names(o->triples, &all) && draw(g, o, &all, out);
    names_fini(&all);
    sp_graph_close(g);
    if (!good) bench_subgraphs_close(out);
    return good;
}

void bench_subgraphs_close(bench_subgraphs *s)
{
    for (int i = 0; i < s->n; i++) sp_graph_answer_fini(&s->v[i]);
    free(s->v);
    *s = (bench_subgraphs){0};
}

/* -- prompts -------------------------------------------------------------------------------- */

static sp_err add_lines(sp_prompt *p, const sp_graph_answer *a, int n)
{
    sp_bytes text = {0};
    sp_err err = SP_OK;
    for (int i = 0; i < n && err == SP_OK; i++) {
        err = sp_path_text(&a->paths[i], SP_GRAPH_ARROWS, &text);
        if (err == SP_OK) err = sp_bytes_addf(&text, "\n");
    }
    if (err == SP_OK) err = sp_prompt_text(p, text.v, false);
    sp_vec_fini(&text);
    return err;
}

/* add_preorder -- the texts of the nodes as one: nearly the same tokens, since each begins a word. */
static sp_err add_preorder(sp_prompt *p, const sp_graph_tree *t)
{
    sp_bytes text = {0};
    sp_err err = SP_OK;
    for (int i = 0; i < t->n && err == SP_OK; i++) err = sp_bytes_addf(&text, "%s", t->v[i].text);
    if (err == SP_OK) err = sp_prompt_text(p, text.v, false);
    sp_vec_fini(&text);
    return err;
}

static sp_err add_subgraph(sp_prompt *p, const subgraph_prompt *o, const sp_graph_answer *a)
{
    int n = a->n_paths < o->n_paths ? a->n_paths : o->n_paths;
    sp_graph_tree tree = {0};
    if (o->form == SUBGRAPH_PATHS) return add_lines(p, a, n);
    sp_err err = sp_graph_tree_build(a->paths, n, SP_GRAPH_ARROWS, &tree);
    if (err == SP_OK)
        err = o->form == SUBGRAPH_PREORDER ? add_preorder(p, &tree) : sp_prompt_graph(p, &tree);
    sp_graph_tree_fini(&tree);
    return err;
}

sp_prompt *bench_subgraph_prompt(sp_context *c, const subgraph_prompt *o)
{
    sp_prompt *p = NULL;
    sp_err err = sp_prompt_create(c, &p);
    if (err == SP_OK) err = sp_prompt_system(p, CLI_SYSTEM_TEXT);
    if (err == SP_OK) err = sp_prompt_tree_mode(p, o->mode);
    for (int i = 0; i < o->n && err == SP_OK; i++)
        err = add_subgraph(p, o, &o->from->v[o->which ? o->which[i] : i]);
    if (err == SP_OK && o->question) err = sp_prompt_question(p, o->question);
    if (err == SP_OK) return p;
    cli_fail(err);
    sp_prompt_destroy(p);
    return NULL;
}
