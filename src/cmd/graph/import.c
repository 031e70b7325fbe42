/* import.c -- `spolia graph import`: triples of files into a graph. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/graph/graph.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/show.h"

/* What the progress line shows: the library keeps the counts current while it runs. */
typedef struct import_view {
    progress progress;
    sp_graph_stats stats;
} import_view;

static bool show(const char *file, int64_t done, int64_t total, void *user)
{
    import_view *v = user;
    double percent = total ? 100.0 * (double)done / (double)total : 100;
    double rate = (double)(v->stats.n_triples + v->stats.n_duplicates) /
                  (progress_seconds(&v->progress) + 1e-9);
    progress_draw(&v->progress, "%.40s  %.0f%%  %" PRId64 " triples  %.0f/s", file, percent,
                  v->stats.n_triples, rate);
    return !progress_interrupted();
}

static void print_json(const char *path, const sp_graph_stats *s, double took)
{
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "graph", path,
                          "files", (json_int_t)s->n_files, "unchanged", (json_int_t)s->n_unchanged,
                          "triples", (json_int_t)s->n_triples, "duplicates",
                          (json_int_t)s->n_duplicates, "entities", (json_int_t)s->n_entities,
                          "aliases", (json_int_t)s->n_aliases, "bad", (json_int_t)s->n_bad, "lines",
                          (json_int_t)s->n_lines, "bytes", (json_int_t)s->n_bytes, "seconds", took);
    cli_print_json(o, 0);
}

static void print_summary(const char *path, const sp_graph_stats *s, double took)
{
    char size[SHOW_SIZE];
    printf("%s: %" PRId64 " new triple%s, %" PRId64 " duplicate%s, %" PRId64 " new entit%s, %" PRId64
           " new alias%s, %" PRId64 " bad line%s; %" PRId64 " file%s read, %" PRId64 " unchanged; %s in %.2f s\n",
           path, s->n_triples, s->n_triples == 1 ? "" : "s", s->n_duplicates, s->n_duplicates == 1 ? "" : "s",
           s->n_entities, s->n_entities == 1 ? "y" : "ies", s->n_aliases, s->n_aliases == 1 ? "" : "es", s->n_bad,
           s->n_bad == 1 ? "" : "s", s->n_files, s->n_files == 1 ? "" : "s", s->n_unchanged,
           show_size(size, s->n_bytes), took);
}

int cmd_graph_import(int argc, char **argv)
{
    const char *path = NULL;
    sp_graph_import_opts o = {0};
    bool quiet = false, as_json = false;
    const opt table[] = {
        {OPT_STRING, "output", 'o', "FILE", &path,
         "the graph; new triples are added to an existing one. May be an index of documents",
         .required = true},
        {OPT_STRING, "format", 0, "NAME", &o.format,
         "tsv, csv, jsonl, graphml, lightrag, ntriples, turtle (by the suffix of the file)"},
        {OPT_STRING, "subject", 0, "COLUMN", &o.columns.subject,
         "CSV: the column of the subjects, by its name in the header"},
        {OPT_STRING, "relation", 0, "COLUMN", &o.columns.relation,
         "CSV: the column of the relations; =TEXT: every row has this relation"},
        {OPT_STRING, "object", 0, "COLUMN", &o.columns.object, "CSV: the column of the objects"},
        {OPT_STRING, "source", 0, "COLUMN", &o.columns.source, "CSV: the column of the sources"},
        {OPT_FLAG, "capitals", 0, NULL, &o.capitals,
         "capitalize names without capital letters: charles_i becomes Charles I, which most models recognise better"},
        {OPT_FLAG, "strict", 0, NULL, &o.strict, "stop at the first bad line"},
        {OPT_INT, "batch", 0, "N", &o.batch, "triples in one transaction (100000)", .limits = {0, INT32_MAX}},
        {OPT_FLAG, "quiet", 'q', NULL, &quiet, "print warnings only"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print the summary as JSON"},
        {0},
    };
    const opt *const tables[] = {table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){
            "graph import FILE... -o GRAPH [options]",
            "Adds triples to a graph: .tsv (subject, relation, object, source), .csv "
            "(with a header, or\nan export of Neo4j), .jsonl, .graphml, .json of "
            "LightRAG, RDF as .nt and .ttl. Equal triples are\nmerged; a bad line is named "
            "and skipped. An import that was interrupted continues where it stopped."},
        tables);
    if (at < 0) return -1 - at;
    if (at == argc) return cli_fail_with("graph import: give at least one file"), 2;
    import_view v = {0};
    progress_begin(&v.progress, quiet, SP_LOG_WARN);
    o.progress = show;
    o.user = &v;
    sp_err err = sp_graph_import((const char *const *)(argv + at), argc - at, path, &o, &v.stats);
    progress_end(&v.progress);
    if (err != SP_OK) return cli_fail(err), err == SP_E_ARG ? 2 : 1; /* a format that there is not, or none */
    if (as_json)
        print_json(path, &v.stats, progress_seconds(&v.progress));
    else if (!quiet)
        print_summary(path, &v.stats, progress_seconds(&v.progress));
    return 0;
}
