/* index.c -- `spolia index`: builds or updates an index of a folder, and with --precompute the store
 * of its chunks. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cmd/commands.h"
#include "cli/progress.h"
#include "cmd/precompute.h"

/* What the progress line shows: the library keeps the counts current while it runs. */
typedef struct build_view {
    progress progress;
    sp_index_stats stats;
} build_view;

static bool show(const char *file, int64_t done, int64_t total, void *user)
{
    build_view *v = user;
    double rate = (double)v->stats.n_chunks / (progress_seconds(&v->progress) + 1e-9);
    progress_draw(&v->progress,
                  "%" PRId64 "/%" PRId64 " files  %" PRId64 " chunks  %.0f chunks/s  %.40s", done,
                  total, v->stats.n_chunks, rate, file);
    return !progress_interrupted();
}

static void print_summary(const char *path, const sp_index_stats *s, double took, bool as_json)
{
    int64_t n_read = s->n_files - s->n_unchanged;
    if (!as_json) {
        printf("%s: %" PRId64 " chunks of %" PRId64 " files (%" PRId64 " read, %" PRId64
               " unchanged, %" PRId64 " removed, %" PRId64 " skipped), %.1f MB in %.2f s\n",
               path, s->n_chunks, s->n_files, n_read, s->n_unchanged, s->n_removed, s->n_skipped,
               (double)s->n_bytes * 1e-6, took);
        return;
    }
    json_t *o = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "index", path, "files",
                          (json_int_t)s->n_files, "chunks", (json_int_t)s->n_chunks, "read",
                          (json_int_t)n_read, "unchanged", (json_int_t)s->n_unchanged, "removed",
                          (json_int_t)s->n_removed, "skipped", (json_int_t)s->n_skipped, "bytes",
                          (json_int_t)s->n_bytes, "seconds", took);
    json_dumpf(o, stdout, 0);
    putchar('\n');
    json_decref(o);
}

static int build(const char *dir, const char *path, const sp_chunk_opts *o, bool quiet,
                 bool as_json)
{
    build_view v = {0};
    progress_begin(&v.progress, quiet, SP_LOG_WARN);
    sp_err err = sp_index_build(dir, path, o, show, &v, &v.stats);
    progress_end(&v.progress);
    if (err != SP_OK) return cli_fail(err);
    if (!quiet || as_json) print_summary(path, &v.stats, progress_seconds(&v.progress), as_json);
    return 0;
}

int cmd_index(int argc, char **argv)
{
    const char *path = NULL;
    precompute_options pre;
    precompute_init(&pre);
    sp_chunk_opts chunks = {.size_words = 150};
    bool quiet = false, as_json = false;
    const opt table[] = {
        {OPT_STRING, "output", 'o', "FILE", &path, "the index; an existing one is updated",
         .required = true},
        {OPT_INT, "chunk-words", 0, "N", &chunks.size_words, "most words in a chunk (150)"},
        {OPT_INT, "overlap-words", 0, "N", &chunks.overlap_words,
         "words at the end of a chunk that the next one repeats, whole sentences (0)"},
        {OPT_FLAG, "quiet", 'q', NULL, &quiet, "print warnings only"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print the summary as JSON"},
        {0},
    };
    const opt *const tables[] = {table, pre.table, pre.model.table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){"index DIR -o FILE [options]",
                     "Cuts the .txt, .md, .markdown, .jsonl, .html and .htm files below a "
                     "folder into chunks\nand writes an index for ask and search. With "
                     "--precompute a model also computes each\nchunk together with the chunks most "
                     "similar to it; ask --store reuses these fused copies."},
        tables);
    if (at < 0) return -1 - at;
    if (at + 1 != argc) return cli_fail_with("index: give one folder"), 2;
    if (chunks.size_words < 1 || chunks.overlap_words < 0 ||
        chunks.overlap_words >= chunks.size_words)
        return cli_fail_with(
                   "index: --chunk-words must be at least 1, --overlap-words less than that"),
               2;
    if (!precompute_check(&pre)) return 2;
    int code = build(argv[at], path, &chunks, quiet, as_json);
    return code || !pre.wanted ? code : precompute(&pre, path, quiet, as_json);
}
