/* index.c -- `spolia index`: builds an index of folders and files, or brings it up to date;
 * then, with --precompute, the store of its chunks. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "cmd/commands.h"
#include "cmd/precompute.h"

/* What the progress line shows: the library keeps the counts current while it runs. */
typedef struct build_view {
    progress progress;
    sp_index_stats stats;
} build_view;

static bool draw(const char *file, int64_t done, int64_t total, void *user)
{
    build_view *v = user;
    double rate = (double)v->stats.n_chunks / (progress_seconds(&v->progress) + 1e-9);
    char *name = show_copy(file, 40);
    progress_draw(&v->progress,
                  "%" PRId64 "/%" PRId64 " files  %" PRId64 " chunks  %.0f chunks/s  %s", done,
                  total, v->stats.n_chunks, rate, name ? name : "");
    free(name);
    return !progress_interrupted();
}

/* print_others -- "; 12 files not read: 9 .png, 2 .json, 1 other". */
static void print_others(const sp_index_stats *s)
{
    int64_t rest = s->n_other;
    if (!s->n_other) return;
    printf("; %" PRId64 " file%s in other formats:", s->n_other, s->n_other == 1 ? "" : "s");
    for (int i = 0; i < SP_INDEX_SUFFIXES && s->other[i].n; i++) {
        if (!*s->other[i].suffix) continue;
        printf("%s %" PRId64 " ", rest < s->n_other ? "," : "", s->other[i].n);
        show_line(stdout, s->other[i].suffix, 0);
        rest -= s->other[i].n;
    }
    if (rest) printf("%s %" PRId64 " more", rest < s->n_other ? "," : "", rest);
}

static void print_line(const char *path, const sp_index_stats *s, double took)
{
    char size[SHOW_SIZE];
    show_line(stdout, path, 0);
    printf(": %" PRId64 " chunk%s of %" PRId64 " file%s (%" PRId64 " read, %" PRId64
           " unchanged, %" PRId64 " removed, %" PRId64 " skipped), %s in %.2f s",
           s->n_chunks, s->n_chunks == 1 ? "" : "s", s->n_files, s->n_files == 1 ? "" : "s",
           s->n_files - s->n_unchanged, s->n_unchanged, s->n_removed, s->n_skipped,
           show_size(size, s->n_bytes), took);
    if (s->n_bad_lines) printf("; %" PRId64 " bad line%s skipped", s->n_bad_lines, s->n_bad_lines == 1 ? "" : "s");
    print_others(s);
    if (s->n_all_files != s->n_files)
        printf("; the whole index has %" PRId64 " chunks of %" PRId64 " files", s->n_all_chunks, s->n_all_files);
    putchar('\n');
}

static void print_json(const char *path, const sp_index_stats *s, double took)
{
    json_t *others = json_object();
    for (int i = 0; i < SP_INDEX_SUFFIXES && s->other[i].n; i++)
        json_object_set_new(others, s->other[i].suffix, json_integer(s->other[i].n));
    json_t *o = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:{s:I, s:I}, s:f}", "index", path, "files",
        (json_int_t)s->n_files, "chunks", (json_int_t)s->n_chunks, "read",
        (json_int_t)(s->n_files - s->n_unchanged), "unchanged", (json_int_t)s->n_unchanged,
        "removed", (json_int_t)s->n_removed, "skipped", (json_int_t)s->n_skipped, "bad_lines",
        (json_int_t)s->n_bad_lines, "other", (json_int_t)s->n_other, "other_suffixes", others,
        "bytes", (json_int_t)s->n_bytes, "whole", "files", (json_int_t)s->n_all_files, "chunks",
        (json_int_t)s->n_all_chunks, "seconds", took);
    cli_print_json(o, 0);
}

typedef struct build_options {
    const char *path, *embedding, *vectors;
    sp_index_opts o;
    bool quiet, as_json;
} build_options;

/* build -- 1 when the index has no chunks then: a folder without documents is most likely the wrong
 * one. */
static int build(const build_options *b, const char *const *roots, int n_roots)
{
    build_view v = {0};
    sp_index_opts o = b->o;
    o.progress = draw;
    o.user = &v;
    progress_begin(&v.progress, b->quiet, SP_LOG_WARN);
    sp_err err = sp_index_build(roots, n_roots, b->path, &o, &v.stats);
    progress_end(&v.progress);
    if (err != SP_OK) return cli_fail(err), err == SP_E_ARG && !n_roots ? 2 : 1; /* a new index of what? */
    double took = progress_seconds(&v.progress);
    if (b->as_json)
        print_json(b->path, &v.stats, took);
    else if (!b->quiet)
        print_line(b->path, &v.stats, took);
    if (v.stats.n_chunks) return 0;
    cli_warn("index: no documents with text in %s", n_roots ? roots[0] : b->path);
    return 1;
}

/* -- vectors ---------------------------------------------------------------------------------- */

static bool draw_vectors(int64_t done, int64_t total, void *user)
{
    progress *p = user;
    progress_draw(p, "%" PRId64 "/%" PRId64 " vectors  %.0f a second", done, total,
                  (double)done / (progress_seconds(p) + 1e-9));
    return !progress_interrupted();
}

static void print_vectors(const char *path, const sp_index_embed_stats *s, double took, bool as_json)
{
    if (as_json) {
        printf("{\"vectors\": \"%s\", \"chunks\": %" PRId64 ", \"embedded\": %" PRId64 ", \"kept\": %" PRId64
               ", \"removed\": %" PRId64 ", \"seconds\": %.3f}\n",
               s->kind, s->n_chunks, s->n_embedded, s->n_kept, s->n_removed, took);
        return;
    }
    show_line(stdout, path, 0);
    printf(": vectors of %" PRId64 " chunks (%" PRId64 " computed, %" PRId64 " kept, %" PRId64
           " removed), %s, %.2f s\n",
           s->n_chunks, s->n_embedded, s->n_kept, s->n_removed, s->kind, took);
}

static int embed(const build_options *b)
{
    progress p;
    sp_embedder *e = NULL;
    sp_index_embed_stats stats = {0};
    const sp_index_embed_opts o = {.kind = b->vectors, .progress = draw_vectors, .user = &p};
    sp_err err = sp_embedder_open(&(sp_embedder_opts){.model = b->embedding}, &e);
    progress_begin(&p, b->quiet, SP_LOG_WARN);
    if (err == SP_OK) err = sp_index_embed(b->path, e, &o, &stats);
    progress_end(&p);
    sp_embedder_close(e);
    if (err != SP_OK) return cli_fail(err);
    if (b->as_json || !b->quiet) print_vectors(b->path, &stats, progress_seconds(&p), b->as_json);
    return 0;
}

/* vectors_check -- false after an error message. */
static bool vectors_check(const build_options *b)
{
    static const char *const kinds[] = {"flat", "ivf", "hnsw"};
    bool known = !b->vectors || strncmp(b->vectors, "chroma:", 7) == 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) known = known || strcmp(b->vectors, kinds[i]) == 0;
    if (!known) return cli_fail_with("index: --vectors %s: flat, ivf, hnsw or chroma:URL", b->vectors), false;
    return !b->vectors || b->embedding || (cli_fail_with("index: --vectors needs --embedding"), false);
}

int cmd_index(int argc, char **argv)
{
    build_options b = {0};
    precompute_options pre;
    bool computes = false;
    precompute_init(&pre);
    const opt table[] = {
        {OPT_STRING, "output", 'o', "FILE", &b.path, "the index; an existing one is updated",
         .required = true},
        {OPT_FLAG, "add", 0, NULL, &b.o.add, "add folders to those that the index has"},
        {OPT_FLAG, "replace", 0, NULL, &b.o.replace,
         "index only the folders named here; also rebuilds an index of an older version"},
        {OPT_FLAG, "moved", 0, NULL, &b.o.moved,
         "the folder named here is one of the index's folders that has moved"},
        {OPT_FLAG, "strict", 0, NULL, &b.o.strict, "stop at a bad line of a JSONL file or of .tags"},
        {OPT_INT, "chunk-words", 0, "N", &b.o.size_words,
         "most words in a chunk (150, or the index's setting)", .limits = {0, INT32_MAX}},
        {OPT_INT, "overlap-words", 0, "N", &b.o.overlap_words,
         "words that a chunk repeats from the end of the one before, in whole sentences (0)",
         .limits = {0, INT32_MAX}},
        {OPT_FLAG, "precompute", 0, NULL, &computes,
         "then compute copies of all chunks, as spolia precompute does", .common = true},
        {OPT_STRING, "embedding", 0, "PATH", &b.embedding,
         "text encoder: the chunks get vectors, too, for searches by meaning (none)", .is_model = true,
         .common = true},
        {OPT_STRING, "vectors", 0, "KIND", &b.vectors,
         "how they are searched: flat, ivf, hnsw (flat up to 20,000 chunks, then hnsw), chroma:URL"},
        {OPT_FLAG, "quiet", 'q', NULL, &b.quiet, "print warnings only"},
        {OPT_FLAG, "json", 0, NULL, &b.as_json, "print the summary as JSON"},
        {0},
    };
    const opt *const tables[] = {table, pre.table, pre.model.table, NULL};
    const opt_needs needs[] = {
        {pre.table, &computes, "precompute"}, {pre.model.table, &computes, "precompute"}, {0}};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){"index [FOLDER | FILE]... -o FILE [options]",
                     "Cuts documents into chunks and puts them into a file for ask and search. It "
                     "reads text,\nMarkdown, RST, HTML, JSON, JSONL, XML, CSV, TSV, PDF, DOCX, "
                     "XLSX, PPTX, ODT, ODS, ODP, EPUB, "
                     "RTF,\nmail, notebooks, any of them packed with gzip, and "
                     "source code. The index\nremembers its folders: without any on the command line, all of them are "
                     "updated; a new one needs\n--add or --replace. With --precompute a model "
                     "also computes each chunk together with the\nchunks most similar to it; ask "
                     "--store reuses these fused copies.",
                     needs},
        tables);
    if (at < 0) return -1 - at;
    bool sized = b.o.size_words || b.o.overlap_words;
    int size = b.o.size_words ? b.o.size_words : 150;
    if (sized && b.o.overlap_words >= size)
        return cli_fail_with("index: --overlap-words must be less than --chunk-words, %d", size), 2;
    const int wrong = computes ? precompute_check(&pre, "index") : 0;
    if (wrong) return wrong;
    if (!vectors_check(&b)) return 2;
    int code = build(&b, (const char *const *)(argv + at), argc - at);
    if (code == 0 && b.embedding) code = embed(&b);
    return code || !computes ? code : precompute(&pre, b.path, b.quiet, b.as_json);
}
