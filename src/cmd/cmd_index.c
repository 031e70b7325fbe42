/* cmd_index.c -- `spolia index`: builds an index of a folder, or brings it up to date; then, if
 * wanted, the store of its chunks. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/live.h"
#include "cmd/precompute.h"

/* A build as it is shown: the library keeps the counts current while it runs. */
typedef struct progress {
    live live;
    sp_index_stats stats;
} progress;

static bool show(const char *file, int64_t done, int64_t total, void *user)
{
    progress *p = user;
    double rate = (double)p->stats.n_chunks / (live_seconds(&p->live) + 1e-9);
    live_draw(&p->live, "%" PRId64 "/%" PRId64 " files  %" PRId64 " chunks  %.0f chunks/s  %.40s",
              done, total, p->stats.n_chunks, rate, file);
    return !live_interrupted();
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
    progress p = {0};
    live_begin(&p.live, quiet, SP_LOG_WARN);
    sp_err err = sp_index_build(dir, path, o, show, &p, &p.stats);
    live_end(&p.live);
    if (err != SP_OK) return cmd_fail(err);
    if (!quiet || as_json) print_summary(path, &p.stats, live_seconds(&p.live), as_json);
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
        {OPT_STRING, "output", 'o', "FILE", &path, "the index; an old one is brought up to date",
         .required = true},
        {OPT_INT, "chunk-words", 0, "N", &chunks.size_words, "words of a chunk at most (150)"},
        {OPT_INT, "overlap-words", 0, "N", &chunks.overlap_words,
         "words at the end of a chunk that the next repeats, whole sentences (0)"},
        {OPT_FLAG, "quiet", 'q', NULL, &quiet, "no progress, no summary; warnings stay"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print the summary as JSON"},
        {0},
    };
    const opt *const tables[] = {table, pre.table, pre.model.table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){"index DIR -o FILE [options]",
                     "Cuts the .txt, .md, .markdown, .jsonl, .html and .htm files below a "
                     "folder into chunks\nand puts them into a file for ask and search. With "
                     "--precompute a model then reads\neach chunk among those most like it, and "
                     "what it made of it goes to a folder for ask --store."},
        tables);
    if (at < 0) return -1 - at;
    if (at + 1 != argc) return cmd_fail_with("index: name one folder"), 2;
    if (chunks.size_words < 1 || chunks.overlap_words < 0 ||
        chunks.overlap_words >= chunks.size_words)
        return cmd_fail_with("index: --chunk-words is at least 1, --overlap-words less than that"),
               2;
    if (!precompute_check(&pre)) return 2;
    int code = build(argv[at], path, &chunks, quiet, as_json);
    return code || !pre.wanted ? code : precompute(&pre, path, quiet, as_json);
}
