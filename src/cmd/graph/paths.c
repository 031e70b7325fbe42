/* paths.c -- `spolia graph paths`: the entities of a question and the paths from them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/graph/graph.h"

void graph_path_options_init(graph_path_options *p)
{
    *p = (graph_path_options){.style = GRAPH_STYLE};
    sp_graph_paths_opts *o = &p->paths;
    const opt table[] = {
        {OPT_INT, "top", 'k', "N", &o->k, "paths for each entity (30)", .limits = {0, INT32_MAX}},
        {OPT_INT, "hops", 0, "N", &o->hops, "relations in a path at most (2)", .limits = {0, 8}},
        {OPT_INT, "entities", 0, "N", &o->max_entities, "entities of a question (8)", .limits = {0, INT32_MAX}},
        {OPT_INT, "degree", 0, "N", &o->max_degree,
         "a node with more edges in one direction ends its paths (128)", .limits = {0, 1048576}},
        {OPT_INT, "steps", 0, "N", &o->max_steps, "most edges followed from one entity (20000)",
         .limits = {0, 16777216}},
        {OPT_STRING, "style", 0, "NAME", &p->style,
         "text of paths: " GRAPH_STYLES},
        {OPT_END, NULL, 0, NULL, NULL, NULL},
    };
    memcpy(p->table, table, sizeof table);
}

bool graph_path_options_check(graph_path_options *p)
{
    return graph_style_parse("graph", p->style, &p->paths.style);
}

bool graph_style_parse(const char *command, const char *name, sp_graph_style *out)
{
    static const char *const names[] = {
        [SP_GRAPH_ARROWS] = "arrows", [SP_GRAPH_SENTENCES] = "sentences", [SP_GRAPH_TRIPLETS] = "triplets"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return *out = (sp_graph_style)i, true;
    return cli_fail_with("%s: --style is arrows, sentences or triplets, not \"%s\"", command, name), false;
}

static json_t *texts(const char *const *v, int n)
{
    json_t *all = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(all, json_string(v[i]));
    return all;
}

static json_t *path_json(const sp_graph_path *p, bool explain)
{
    json_t *inverse = json_array();
    for (int i = 0; i < p->n_hops; i++) json_array_append_new(inverse, json_boolean(p->inverse[i]));
    json_t *o = json_pack("{s:i, s:o, s:o, s:o, s:o, s:f, s:s}", "entity", p->entity, "nodes",
                          texts(p->nodes, p->n_hops + 1), "relations",
                          texts(p->relations, p->n_hops), "inverse", inverse, "sources",
                          texts(p->sources, p->n_hops), "score", p->score, "text", p->text);
    if (explain) json_object_set_new(o, "why", json_string(p->why));
    return o;
}

static json_t *tree_json(const sp_graph_tree *t)
{
    json_t *all = json_array();
    for (int i = 0; i < t->n; i++)
        json_array_append_new(all, json_pack("{s:s, s:i, s:i}", "text", t->v[i].text, "parent",
                                             t->v[i].parent, "depth", t->v[i].depth));
    return all;
}

static void print_json(const sp_graph_answer *a, const sp_graph_tree *tree, bool explain)
{
    json_t *entities = json_array(), *paths = json_array();
    for (int i = 0; i < a->n_entities; i++)
        json_array_append_new(entities, graph_entity_json(&a->entities[i]));
    for (int i = 0; i < a->n_paths; i++)
        json_array_append_new(paths, path_json(&a->paths[i], explain));
    json_t *o = json_pack("{s:o, s:o}", "entities", entities, "paths", paths);
    if (explain)
        json_object_set_new(o, "explain",
                            json_pack("{s:I, s:I, s:I, s:b}", "steps", (json_int_t)a->n_steps,
                                      "patterns", (json_int_t)a->n_patterns, "hubs",
                                      (json_int_t)a->n_hubs, "cut", a->cut));
    if (tree) json_object_set_new(o, "tree", tree_json(tree));
    cli_print_json(o, JSON_INDENT(1));
}

static void print_entity(const sp_graph_entity *e)
{
    printf("%s", e->name);
    if (strcmp(e->name, e->ident) != 0) printf(" (%s)", e->ident);
    printf("  [\"%s\": %s", e->mention, graph_match_name(e->match));
    if (e->match == SP_GRAPH_FUZZY) printf(", distance %d", e->distance);
    puts("]");
}

static void print_paths(const sp_graph_answer *a, bool explain)
{
    int at = 0;
    for (int i = 0; i < a->n_entities; i++) {
        print_entity(&a->entities[i]);
        for (; at < a->n_paths && a->paths[at].entity == i; at++) {
            printf("  %6.2f  %s\n", a->paths[at].score, a->paths[at].text);
            if (explain && *a->paths[at].why) printf("          %s\n", a->paths[at].why);
        }
    }
    if (explain)
        printf("%" PRId64 " edges followed, %" PRId64 " patterns of relations, %" PRId64
               " hubs not followed%s\n",
               a->n_steps, a->n_patterns, a->n_hubs, a->cut ? "; --steps cut the search" : "");
}

static void print_tree(const sp_graph_tree *t)
{
    for (int i = 0; i < t->n; i++) printf("%*s%s\n", 2 * t->v[i].depth, "", t->v[i].text);
}

static int answer(sp_graph *graph, const char *question, const graph_path_options *p, bool as_json,
                  bool as_tree)
{
    sp_graph_answer a = {0};
    sp_graph_tree tree = {0};
    sp_err err = sp_graph_find_paths(graph, question, &p->paths, &a);
    if (err == SP_OK && as_tree)
        err = sp_graph_tree_build(a.paths, a.n_paths, p->paths.style, &tree);
    if (err == SP_OK && as_json)
        print_json(&a, as_tree ? &tree : NULL, p->paths.explain);
    else if (err == SP_OK && as_tree)
        print_tree(&tree);
    else if (err == SP_OK)
        print_paths(&a, p->paths.explain);
    const int code = err != SP_OK ? cli_fail(err) : a.n_paths ? 0 : CLI_NO_HIT;
    if (code == CLI_NO_HIT)
        cli_warn(a.n_entities ? "no path from what the question names" : "the question names no entity of the graph");
    sp_graph_tree_fini(&tree);
    sp_graph_answer_fini(&a);
    return code;
}

int cmd_graph_paths(int argc, char **argv)
{
    graph_options g;
    graph_path_options p;
    bool as_json = false, as_tree = false;
    graph_options_init(&g);
    graph_path_options_init(&p);
    const opt own[] = {
        {OPT_FLAG, "tree", 0, NULL, &as_tree, "merge the paths into trees"},
        {OPT_FLAG, "explain", 0, NULL, &p.paths.explain, "show which words made the score"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"},
        {0},
    };
    const opt *const tables[] = {g.table, p.table, own, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"graph paths -g WHERE [options] QUESTION",
                                    "Finds the entities that a question names, and from each the "
                                    "relation paths most\nsimilar to the question. The exit code is 3 when there "
                                    "are none."},
                       tables);
    if (at < 0) return -1 - at;
    if (at + 1 != argc) return cli_fail_with("graph paths: ask one question"), 2;
    if (!graph_path_options_check(&p)) return 2;
    sp_graph *graph;
    sp_err err = sp_graph_open(&g.open, &graph);
    if (err != SP_OK) return cli_fail(err);
    int code = answer(graph, argv[at], &p, as_json, as_tree);
    sp_graph_close(graph);
    return code;
}
