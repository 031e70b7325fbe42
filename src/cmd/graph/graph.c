/* graph.c -- `spolia graph`: its table of subcommands, shared options, show and search. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/fail.h"
#include "cmd/graph/graph.h"

const cli_command cmd_graphs[] = {
    {"import", NULL, "add triples from files to a graph", cmd_graph_import},
    {"show", NULL, "count entities, triples and relations", cmd_graph_show},
    {"search", NULL, "find entities by name", cmd_graph_search},
    {"paths", NULL, "find the relation paths for a question", cmd_graph_paths},
    {"extract", NULL, "find triples in indexed documents with a model", cmd_graph_extract},
    {"eval", NULL, "measure how often the paths contain the answer, and how fast", cmd_graph_eval},
    {0},
};

/* -- shared options ------------------------------------------------------------------------- */

void graph_options_init(graph_options *g)
{
    *g = (graph_options){0};
    const opt table[] = {
        {OPT_STRING, "graph", 'g', "WHERE", &g->open.where,
         "file written by spolia graph import, or URL of a SPARQL endpoint", .required = true},
        {OPT_STRING, "rdf-graph", 0, "IRI", &g->open.rdf_graph,
         "SPARQL: the graph to query (the endpoint's default)"},
        {OPT_STRING, "rdf-label", 0, "IRI", &g->open.rdf_label,
         "SPARQL: the property that holds names (rdfs:label)"},
        {OPT_INT, "query-timeout", 0, "MS", &g->open.timeout_ms,
         "SPARQL: time limit of one query (10000)", .limits = {0, INT32_MAX}},
        {OPT_END, NULL, 0, NULL, NULL, NULL},
    };
    memcpy(g->table, table, sizeof table);
}

/* -- show ----------------------------------------------------------------------------------- */

static void print_info_json(const sp_graph_info *info)
{
    json_t *relations = json_array();
    for (int i = 0; i < info->n_relations; i++)
        json_array_append_new(relations,
                              json_pack("{s:s, s:I}", "name", info->relations[i].name, "triples",
                                        (json_int_t)info->relations[i].n_triples));
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:o}", "backend", info->backend, "entities",
                          (json_int_t)info->n_entities, "aliases", (json_int_t)info->n_aliases,
                          "triples", (json_int_t)info->n_triples, "relations", relations);
    cli_print_json(o, JSON_INDENT(1));
}

static void print_info(const char *where, const sp_graph_info *info)
{
    if (strcmp(info->backend, "sqlite") == 0)
        printf("%s: %" PRId64 " entities, %" PRId64 " aliases, ", where, info->n_entities,
               info->n_aliases);
    else
        printf("%s: ", where);
    printf("%" PRId64 " triples, %d relations\n", info->n_triples, info->n_relations);
    for (int i = 0; i < info->n_relations && i < 40; i++)
        printf("%12" PRId64 "  %s\n", info->relations[i].n_triples, info->relations[i].name);
    if (info->n_relations > 40) printf("%12s  %d more\n", "...", info->n_relations - 40);
}

int cmd_graph_show(int argc, char **argv)
{
    graph_options g;
    bool as_json = false;
    graph_options_init(&g);
    const opt own[] = {{OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"}, {0}};
    const opt *const tables[] = {g.table, own, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"graph show -g WHERE [--json]",
                                    "Counts entities, aliases, triples and relations."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("graph show: takes options only"), 2;
    sp_graph *graph = NULL;
    sp_graph_info info = {0};
    sp_err err = sp_graph_open(&g.open, &graph);
    if (err == SP_OK) err = sp_graph_describe(graph, &info);
    if (err == SP_OK && as_json) print_info_json(&info);
    if (err == SP_OK && !as_json) print_info(g.open.where, &info);
    int code = err == SP_OK ? 0 : cli_fail(err);
    sp_graph_info_fini(&info);
    sp_graph_close(graph);
    return code;
}

/* -- search --------------------------------------------------------------------------------- */

const char *graph_match_name(sp_graph_match m)
{
    static const char *const names[] = {"exact", "alias", "fuzzy"};
    return names[m];
}

json_t *graph_entity_json(const sp_graph_entity *e)
{
    return json_pack("{s:I, s:s, s:s, s:o, s:s, s:i}", "id", (json_int_t)e->id, "name", e->name,
                     "ident", e->ident, "mention", cli_json_string(e->mention), "match", graph_match_name(e->match),
                     "distance", e->distance);
}

static void print_found(const sp_graph_answer *a, bool as_json)
{
    json_t *all = as_json ? json_array() : NULL;
    for (int i = 0; i < a->n_entities; i++) {
        const sp_graph_entity *e = &a->entities[i];
        if (as_json)
            json_array_append_new(all, graph_entity_json(e));
        else
            printf("%10" PRId64 "  %-5s  %s%s%s%s\n", e->id, graph_match_name(e->match), e->name,
                   strcmp(e->name, e->ident) ? "  (" : "",
                   strcmp(e->name, e->ident) ? e->ident : "", strcmp(e->name, e->ident) ? ")" : "");
    }
    if (!all) return;
    cli_print_json(all, JSON_INDENT(1));
}

int cmd_graph_search(int argc, char **argv)
{
    graph_options g;
    int k = 10;
    bool as_json = false;
    graph_options_init(&g);
    const opt own[] = {{OPT_INT, "top", 'k', "N", &k, "how many entities (10)", .limits = {1, INT32_MAX}},
                       {OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"},
                       {0}};
    const opt *const tables[] = {g.table, own, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"graph search -g WHERE [options] NAME",
                                    "Finds entities by name: exact matches, else aliases, else "
                                    "names with similar letters. The exit\ncode is 3 when there are none."},
                       tables);
    if (at < 0) return -1 - at;
    if (at + 1 != argc) return cli_fail_with("graph search: give one name"), 2;
    sp_graph *graph = NULL;
    sp_graph_answer found = {0};
    sp_err err = sp_graph_open(&g.open, &graph);
    if (err == SP_OK) err = sp_graph_search(graph, argv[at], k, &found);
    if (err == SP_OK) print_found(&found, as_json);
    int code = err != SP_OK ? cli_fail(err) : found.n_entities ? 0 : CLI_NO_HIT;
    if (code == CLI_NO_HIT) cli_warn("no entity of the graph has such a name");
    sp_graph_answer_fini(&found);
    sp_graph_close(graph);
    return code;
}
