/* ask.c -- `spolia ask`: retrieves chunks, or relation paths of a graph (ask_graph.c), reuses their
 * KV in a prompt, streams the answer.
 *
 * One question on the command line, or one a line from standard input. All share one context, so a
 * question reuses what earlier ones computed. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/account.h"
#include "cli/show.h"
#include "cmd/ask.h"

/* print_text -- to a terminal only what it can show: an answer may quote any document. */
static bool print_text(const char *text, size_t n, void *user)
{
    if (isatty(STDOUT_FILENO))
        show_text(stdout, text, n);
    else
        fwrite(text, 1, n, stdout);
    return fflush(stdout) == 0 && !ferror(stdout);
}

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const sp_hit *)a)->id, y = ((const sp_hit *)b)->id;
    return (x > y) - (x < y);
}

/* retrieve -- the best chunks; in order of their ids unless ranked order is wanted, since equal
 * sets in equal order share a prefix. */
static sp_err retrieve(const asking *a, const char *question, sp_hits *hits)
{
    sp_err err = sp_index_search(a->index, question, a->top_k, hits);
    if (err == SP_OK && a->stable_order && hits->n > 1)
        qsort(hits->v, (size_t)hits->n, sizeof *hits->v, by_id);
    return err;
}

static sp_err build_prompt(const asking *a, const sp_hits *hits, const char *question,
                           sp_prompt **out)
{
    sp_prompt *p;
    sp_err err = sp_prompt_create(a->ctx, &p);
    if (err != SP_OK) return err;
    err = sp_prompt_system(p, a->system);
    for (int i = 0; i < hits->n && err == SP_OK; i++)
        err = sp_prompt_chunk(p, hits->v[i].title, hits->v[i].text);
    if (err == SP_OK) err = sp_prompt_question(p, question);
    if (err != SP_OK) {
        sp_prompt_destroy(p);
        return err;
    }
    *out = p;
    return SP_OK;
}

sp_err ask_generate(const asking *a, const sp_prompt *p, bool stream, sp_request **out)
{
    return sp_generate(a->ctx, p,
                       &(sp_request_opts){.sampling = a->sampling->s,
                                          .max_tokens = a->sampling->max_tokens,
                                          .stop = a->sampling->stop.v,
                                          .n_stop = a->sampling->stop.n,
                                          .on_text = stream ? print_text : NULL},
                       out);
}

/* -- showing what happened ------------------------------------------------------------------ */

/* Segment 0 is the system prompt; chunk i is segment i + 1. */
static const sp_segment_report *chunk_report(const sp_result *r, int i)
{
    return i + 1 < r->n_segments ? &r->segments[i + 1] : NULL;
}

/* print_fate -- where a chunk's copy came from, or why the chunk was computed. */
static void print_fate(const sp_segment_report *seg)
{
    if (!seg || seg->n_reused + seg->n_recomputed == 0)
        fprintf(stderr, "computed%s%s", seg && *seg->missed ? ": " : "", seg ? seg->missed : "");
    else if (seg->n_reused + seg->n_recomputed < seg->n_tokens)
        fprintf(stderr, "reused in part");
    else
        fprintf(stderr, "from %s", *seg->from ? seg->from : "the same prefix");
    if (seg && seg->n_recomputed) fprintf(stderr, ", %d recomputed", seg->n_recomputed);
    fputc('\n', stderr);
}

/* print_place -- "file:line" in 28 columns. */
static void print_place(const sp_hit *h)
{
    char number[32] = "";
    if (h->first_line) snprintf(number, sizeof number, ":%lld", (long long)h->first_line);
    if (h->page) snprintf(number, sizeof number, ":p%lld", (long long)h->page);
    int left = 28 - (int)strlen(number), columns = show_columns(h->file);
    show_line(stderr, h->file, columns > left ? left : 0);
    fprintf(stderr, "%s%*s", number, columns < left ? left - columns : 0, "");
}

static void print_chunks(const sp_result *r, const sp_hits *hits)
{
    for (int i = 0; i < hits->n; i++) {
        const sp_segment_report *seg = chunk_report(r, i);
        fprintf(stderr, "  %2d. ", i + 1);
        show_line(stderr, hits->v[i].title, 32);
        fputc(' ', stderr);
        print_place(&hits->v[i]);
        fprintf(stderr, " %4d tokens, ", seg ? seg->n_tokens : 0);
        print_fate(seg);
    }
}

static json_t *chunk_json(const sp_hit *hit, const sp_segment_report *seg)
{
    return json_pack("{s:I, s:s, s:I, s:I, s:s, s:f, s:i, s:i, s:i, s:s, s:s}", "id",
                     (json_int_t)hit->id, "file", hit->file, "line", (json_int_t)hit->first_line,
                     "page", (json_int_t)hit->page, "title", hit->title, "score", hit->score,
                     "tokens", seg ? seg->n_tokens : 0, "reused", seg ? seg->n_reused : 0,
                     "recomputed", seg ? seg->n_recomputed : 0, "from", seg ? seg->from : "",
                     "missed", seg ? seg->missed : "");
}

static json_t *chunks_json(const sp_result *r, const sp_hits *hits)
{
    json_t *all = json_array();
    for (int i = 0; i < hits->n; i++)
        json_array_append_new(all, chunk_json(&hits->v[i], chunk_report(r, i)));
    return all;
}

int ask_no_hit(const asking *a, const char *question, const char *list, const char *why)
{
    if (a->as_json) {
        json_t *o = json_pack("{s:s, s:[], s:s}", "question", question, list, "error", why);
        json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(o);
    }
    cli_fail_with("%s (--allow-empty answers all the same)", why);
    return CLI_NO_HIT;
}

static int answer_from_chunks(const asking *a, const char *question)
{
    sp_hits hits = {0};
    sp_prompt *p = NULL;
    sp_request *r = NULL;
    sp_err err = retrieve(a, question, &hits);
    if (err == SP_OK && hits.n == 0 && !a->allow_empty) {
        sp_hits_fini(&hits);
        return ask_no_hit(a, question, "chunks", "no document matches the question");
    }
    if (err == SP_OK) err = build_prompt(a, &hits, question, &p);
    if (err == SP_OK) err = ask_generate(a, p, !a->as_json, &r);
    if (err == SP_OK) {
        const sp_result *res = sp_request_result(r);
        if (a->as_json) {
            account_json(res, json_pack("{s:s, s:o}", "question", question, "chunks",
                                        chunks_json(res, &hits)));
        } else {
            putchar('\n');
            fflush(stdout);
            print_chunks(res, &hits);
            account_line(res);
        }
    }
    int code = err == SP_OK ? 0 : cli_fail(err);
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    sp_hits_fini(&hits);
    return code;
}

static int answer(const asking *a, const char *question)
{
    return a->graph ? ask_graph(a, question) : answer_from_chunks(a, question);
}

/* idle -- lets the context do its background work, such as the guard's checks. */
static void idle(const asking *a)
{
    bool busy = true;
    while (busy && sp_context_step(a->ctx, &busy) == SP_OK) {
    }
}

/* -- a conversation at the terminal --------------------------------------------------------- */

static int converse(const asking *a)
{
    char *line = NULL;
    size_t cap = 0;
    bool terminal = isatty(0);
    int code = 0;
    if (terminal)
        fprintf(stderr, "Ask about the %s; an empty line ends.\n", a->graph ? "graph" : "documents");
    for (;;) {
        if (terminal) fputs("\n> ", stderr);
        ssize_t n = getline(&line, &cap, stdin);
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = '\0';
        if (n <= 0) break;
        int failed = answer(a, line);
        if (code == 0 || failed == 1) code = failed;
        if (ferror(stdout)) break; /* nobody reads the answers */
        idle(a);
    }
    free(line);
    return code;
}

/* -- the command ---------------------------------------------------------------------------- */

/* open_sources -- the index or the graph, and the context. False after an error message. */
static bool open_sources(asking *a, const char *index, const char *graph, model_options *m)
{
    sp_err err = graph ? sp_graph_open(&(sp_graph_open_opts){.where = graph}, &a->graph)
                       : sp_index_open(index, &a->index);
    if (err != SP_OK) return cli_fail(err), false;
    a->ctx = model_options_open(m);
    return a->ctx != NULL;
}

/* check -- false after an error message. */
static bool check(asking *a, const char *index, const char *graph, const char *style)
{
    if (!index == !graph)
        return cli_fail_with("ask: give an index of documents (--index) or a graph (--graph)"),
               false;
    bool sentences = strcmp(style, "sentences") == 0;
    if (!sentences && strcmp(style, "arrows") != 0)
        return cli_fail_with("ask: --style is arrows or sentences, not \"%s\"", style), false;
    a->paths.style = sentences ? SP_GRAPH_SENTENCES : SP_GRAPH_ARROWS;
    return true;
}

static const opt_usage usage = {
    "ask -m MODEL (--index FILE | --graph WHERE) [\"question\"] [options]",
    "Answers a question from indexed documents, or from the relation paths of a knowledge graph.\n"
    "Without a question on the command line it reads questions from standard input, one a line."};

int cmd_ask(int argc, char **argv)
{
    model_options m;
    sampling_options s;
    const char *index = NULL, *graph = NULL, *style = "arrows";
    bool ranked = false;
    asking a = {.sampling = &s, .system = CLI_SYSTEM_TEXT, .top_k = 8};
    model_options_init(&m);
    sampling_options_init(&s, 64);
    const opt own[] = {
        {OPT_STRING, "index", 'i', "FILE", &index, "index written by spolia index",
         .common = true},
        {OPT_STRING, "graph", 'g', "WHERE", &graph,
         "graph written by spolia graph import, or URL of a SPARQL endpoint", .common = true},
        {OPT_INT, "chunks", 'k', "K", &a.top_k, "chunks in the prompt (8)", .common = true},
        {OPT_INT, "paths", 0, "N", &a.paths.k, "graph: paths for each entity (30)", .common = true},
        {OPT_INT, "hops", 0, "N", &a.paths.hops, "graph: relations in a path at most (2)",
         .common = true},
        {OPT_INT, "entities", 0, "N", &a.paths.max_entities, "graph: entities of a question (8)"},
        {OPT_STRING, "style", 0, "NAME", &style,
         "graph: text of paths: arrows (A -rel-> B), sentences (A rel B.) (arrows)"},
        {OPT_STRING, "system", 0, "TEXT", &a.system, "system text of the prompt"},
        {OPT_FLAG, "ranked", 0, NULL, &ranked,
         "order chunks by relevance, not as in the index (which shares more prefixes)"},
        {OPT_FLAG, "allow-empty", 0, NULL, &a.allow_empty,
         "answer when nothing matches; else the exit code is 3"},
        {OPT_FLAG, "json", 0, NULL, &a.as_json, "print one JSON object per question",
         .common = true},
        {0},
    };
    const opt *const tables[] = {own, s.table, m.table, NULL};
    int at = opt_parse(argc, argv, &usage, tables);
    if (at < 0) return -1 - at;
    if (argc - at > 1 || a.top_k < 0) return cli_fail_with("ask: give one question, in quotes"), 2;
    if (!check(&a, index, graph, style)) return 2;
    a.stable_order = !ranked;
    int code = 1;
    if (open_sources(&a, index, graph, &m))
        code = at < argc ? answer(&a, argv[at]) : converse(&a);
    sp_context_close(a.ctx);
    sp_index_close(a.index);
    sp_graph_close(a.graph);
    return code;
}
