/* cmd_graph_import.c -- `spolia graph import`: triples of files into a graph. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd_graph.h"
#include "cmd/live.h"

/* An import as it is shown: the library keeps the counts current while it runs. */
typedef struct progress {
    live live;
    sp_graph_stats stats;
} progress;

static bool show(const char *file, int64_t done, int64_t total, void *user)
{
    progress *p = user;
    double percent = total ? 100.0 * (double)done / (double)total : 100;
    double rate =
        (double)(p->stats.n_triples + p->stats.n_duplicates) / (live_seconds(&p->live) + 1e-9);
    live_draw(&p->live, "%.40s  %.0f%%  %" PRId64 " triples  %.0f/s", file, percent,
              p->stats.n_triples, rate);
    return !live_interrupted();
}

static void print_json(const char *path, const sp_graph_stats *s, double took)
{
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "graph", path,
                          "files", (json_int_t)s->n_files, "unchanged", (json_int_t)s->n_unchanged,
                          "triples", (json_int_t)s->n_triples, "duplicates",
                          (json_int_t)s->n_duplicates, "entities", (json_int_t)s->n_entities,
                          "aliases", (json_int_t)s->n_aliases, "bad", (json_int_t)s->n_bad, "lines",
                          (json_int_t)s->n_lines, "bytes", (json_int_t)s->n_bytes, "seconds", took);
    json_dumpf(o, stdout, 0);
    putchar('\n');
    json_decref(o);
}

static void print_summary(const char *path, const sp_graph_stats *s, double took)
{
    printf("%s: %" PRId64 " new triples, %" PRId64 " duplicates, %" PRId64 " new entities, %" PRId64
           " new aliases, %" PRId64 " bad lines; %" PRId64 " files read, %" PRId64
           " unchanged; %.1f MB in %.2f s\n",
           path, s->n_triples, s->n_duplicates, s->n_entities, s->n_aliases, s->n_bad, s->n_files,
           s->n_unchanged, (double)s->n_bytes * 1e-6, took);
}

int cmd_graph_import(int argc, char **argv)
{
    const char *path = NULL;
    sp_graph_import_opts o = {0};
    bool quiet = false, as_json = false;
    const opt table[] = {
        {OPT_STRING, "output", 'o', "FILE", &path,
         "the graph; new triples are added to an old one. May be an index of documents",
         .required = true},
        {OPT_STRING, "format", 0, "NAME", &o.format,
         "tsv, csv, jsonl, graphml, lightrag (by the suffix of the file)"},
        {OPT_FLAG, "strict", 0, NULL, &o.strict, "stop at the first bad line"},
        {OPT_INT, "batch", 0, "N", &o.batch, "triples in one transaction (100000)"},
        {OPT_FLAG, "quiet", 'q', NULL, &quiet, "no progress, no summary; warnings stay"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print the summary as JSON"},
        {0},
    };
    const opt *const tables[] = {table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){"graph import FILE... -o GRAPH [options]",
                     "Adds triples to a graph: .tsv (subject, relation, object, source), .csv "
                     "(with a header, or\nan export of Neo4j), .jsonl, .graphml, .json of "
                     "LightRAG. Equal triples are merged; a bad\nline is named and skipped. An "
                     "import that was interrupted continues where it stopped."},
        tables);
    if (at < 0) return -1 - at;
    if (at == argc) return cmd_fail_with("graph import: name at least one file"), 2;
    if (o.batch < 0) return cmd_fail_with("graph import: --batch is at least 1"), 2;
    progress p = {0};
    live_begin(&p.live, quiet, SP_LOG_WARN);
    o.progress = show;
    o.user = &p;
    sp_err err = sp_graph_import((const char *const *)(argv + at), argc - at, path, &o, &p.stats);
    live_end(&p.live);
    if (err != SP_OK) return cmd_fail(err);
    if (as_json)
        print_json(path, &p.stats, live_seconds(&p.live));
    else if (!quiet)
        print_summary(path, &p.stats, live_seconds(&p.live));
    return 0;
}
