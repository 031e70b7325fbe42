/* ask.c -- `spolia ask`: retrieves chunks, or relation paths of a graph (graph.c), reuses their
 * KV in a prompt, streams the answer.
 *
 * One question on the command line, a batch of them on standard input, or a conversation at the
 * terminal. All share one context, so a question reuses what earlier ones computed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/options/advice.h"
#include "cmd/ask/ask.h"
#include "cmd/graph/graph.h"
#include "cmd/ask/store.h"
#include "cmd/commands.h"

static int answer_all(asking *a, const char *question)
{
    if (question) return ask_question(a, question, false);
    return isatty(STDIN_FILENO) && !a->as_json ? ask_chat(a) : ask_batch(a);
}

/* Where answers come from, and their grammar. */
typedef struct ask_sources {
    const char *index, *embedding, *schema;
    bool no_store;
    sp_graph_open_opts graph;
} ask_sources;

/* open_sources -- the index or the graph, and the context. The caller closes *e. False after an error message. */
static bool open_sources(asking *a, const ask_sources *from, model_options *m, sp_embedder **e)
{
    const sp_machine_opts *with = &m->ctx.machine;
    const sp_embedder_opts o = {.model = from->embedding,
                                .machine = {.n_threads = with->n_threads, .cpu = with->cpu}};
    sp_err err = o.model ? sp_embedder_open(&o, e) : SP_OK;
    if (err == SP_OK)
        err = from->graph.where ? sp_graph_open(&from->graph, &a->graph)
                                : sp_retriever_open(from->index, *e, &a->index);
    if (err != SP_OK) return cli_fail(err), false;
    if (*e && a->index && !*sp_retriever_describe(a->index).kind)
        cli_warn("%s has no vectors: it is searched by words (spolia index --embedding)", from->index);
    a->ctx = model_options_open(m);
    return a->ctx != NULL;
}

static int answer_from(asking *a, const ask_sources *from, model_options *m, const char *question)
{
    ask_store store = {.said = true};
    if (!from->no_store) ask_store_choose(&store, m, from->index);
    advice ignored = advice_of(m);
    int code = 1;
    sp_embedder *e = NULL;
    if (schema_open(from->schema, &a->grammar) && open_sources(a, from, m, &e)) {
        advice_print(&ignored);
        ask_store_say(&store, m);
        code = answer_all(a, question);
    }
    sp_context_close(a->ctx);
    sp_retriever_close(a->index);
    sp_embedder_close(e);
    sp_graph_close(a->graph);
    sp_grammar_destroy(a->grammar);
    saying_fini(&a->said);
    return code;
}

/* check -- false after an error message. */
static bool check(asking *a, const char *index, const char *graph, const char *style,
                  const char *tree)
{
    if (!index == !graph)
        return cli_fail_with("ask: give an index of documents (--index) or a graph (--graph)"),
               false;
    if (!graph_style_parse("ask", style, &a->paths.style)) return false;
    bool shifted = strcmp(tree, "shifted") == 0;
    if (!shifted && strcmp(tree, "exact") != 0)
        return cli_fail_with("ask: --tree is exact or shifted, not \"%s\"", tree), false;
    a->trees = shifted ? SP_TREE_SHIFTED : SP_TREE_EXACT;
    return true;
}

#define EMBEDDING_OPTION(dest)                                                                              \
    {OPT_STRING, "embedding", 0, "PATH", &dest,                                                            \
     "the text encoder of the index's vectors: chunks are found by words and by meaning (none: by words)", \
     .is_model = true}

static const opt_usage usage = {
    "ask -m MODEL (--index FILE | --graph WHERE) [\"question\"] [options]",
    "Answers a question from indexed documents, or from the relation paths of a knowledge graph.\n"
    "Without a question on the command line it reads questions from standard input, one a line;\n"
    "at a terminal it holds a conversation."};

int cmd_ask(int argc, char **argv)
{
    model_options m;
    sampling_options s;
    ask_sources from = {0};
    const char *style = GRAPH_STYLE, *tree = "exact";
    bool ranked = false;
    asking a = {.sampling = &s, .system = CLI_SYSTEM_TEXT, .top_k = 8};
    model_options_init(&m);
    sampling_options_init(&s, 64);
    const opt own[] = {
        {OPT_STRING, "index", 'i', "FILE", &from.index, "index written by spolia index", .common = true},
        EMBEDDING_OPTION(from.embedding),
        {OPT_STRING, "graph", 'g', "WHERE", &from.graph.where,
         "graph written by spolia graph import, or URL of a SPARQL endpoint", .common = true},
        {OPT_STRING, "rdf-graph", 0, "IRI", &from.graph.rdf_graph,
         "SPARQL: the graph to query (the endpoint's default)"},
        {OPT_STRING, "rdf-label", 0, "IRI", &from.graph.rdf_label,
         "SPARQL: the property that holds names (rdfs:label)"},
        {OPT_INT, "chunks", 'k', "K", &a.top_k, "chunks in the prompt (8)", .common = true,
         .limits = {1, ASK_MOST_CHUNKS}},
        {OPT_INT, "paths", 0, "N", &a.paths.k, "graph: paths for each entity (30)", .common = true,
         .limits = {0, INT32_MAX}},
        {OPT_INT, "hops", 0, "N", &a.paths.hops, "graph: most relations in a path (2)", .limits = {0, 8}},
        {OPT_INT, "entities", 0, "N", &a.paths.max_entities, "graph: entities of a question (8)",
         .limits = {0, INT32_MAX}},
        {OPT_STRING, "style", 0, "NAME", &style,
         "graph: text of paths: " GRAPH_STYLES},
        {OPT_STRING, "tree", 0, "MODE", &tree,
         "graph: positions: exact (count depth), shifted (consecutive; reuse is approximate) "
         "(exact)"},
        {OPT_STRING, "system", 0, "TEXT", &a.system, "system text of the prompt"},
        {OPT_FLAG, "ranked", 0, NULL, &ranked,
         "order chunks by relevance, not as in the index (which shares more prefixes)"},
        {OPT_FLAG, "keep-duplicates", 0, NULL, &a.keep_duplicates,
         "keep chunks that repeat a better one; otherwise the next best takes their place"},
        {OPT_FLAG, "no-store", 0, NULL, &from.no_store,
         "use no copies on disk: neither FILE.kv beside the index nor the store in the user's cache"},
        {OPT_FLAG, "allow-empty", 0, NULL, &a.allow_empty,
         "answer when nothing matches; else the exit code is 3"},
        {OPT_STRING, "json-schema", 0, "FILE", &from.schema, SCHEMA_HELP},
        SAYING_OPTION(a.said),
        {OPT_FLAG, "json", 0, NULL, &a.as_json, "print one JSON object per question",
         .common = true},
        {0},
    };
    const opt *const tables[] = {own, s.table, m.table, NULL};
    int at = opt_parse(argc, argv, &usage, tables);
    if (at < 0) return -1 - at;
    if (argc - at > 1) return cli_fail_with("ask: give one question, in quotes"), 2;
    if (!check(&a, from.index, from.graph.where, style, tree) || !saying_check(&a.said)) return 2;
    const int wrong = model_options_check(&m);
    if (wrong) return wrong;
    a.stable_order = !ranked;
    a.verbose = m.verbose;
    a.model = m.ctx.model;
    return answer_from(&a, &from, &m, at < argc ? argv[at] : NULL);
}
