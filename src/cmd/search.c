/* search.c -- `spolia search`: the chunks that `spolia ask` puts into a prompt, and those that
 * `spolia index --precompute` conditions a fused copy on. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/asked.h"
#include "cli/json.h"
#include "cli/show.h"
#include "cmd/commands.h"

static json_t *hit_json(const sp_hit *h)
{
    return json_pack("{s:I, s:f, s:s, s:s, s:I, s:I, s:I, s:s, s:s}", "id", (json_int_t)h->id,
                     "score", h->score, "root", h->root, "file", h->file, "first_line",
                     (json_int_t)h->first_line, "last_line", (json_int_t)h->last_line, "page",
                     (json_int_t)h->page, "title", h->title, "text", h->text);
}

static void print_json(const sp_hits *hits)
{
    json_t *all = json_array();
    for (int i = 0; i < hits->n; i++) json_array_append_new(all, hit_json(&hits->v[i]));
    cli_print_json(all, JSON_INDENT(1));
}

/* print_score -- that of words which most chunks have is tiny, and ranks all the same: three digits show it. */
static void print_score(double score)
{
    const double size = fabs(score);
    if (size > 0 && size < 0.001)
        printf(", score %.3g)\n", score);
    else
        printf(", score %.*f)\n", size < 1 ? 4 : 2, score);
}

static void print_hits(const sp_hits *hits)
{
    for (int i = 0; i < hits->n; i++) {
        const sp_hit *h = &hits->v[i];
        printf("%s[%d] ", i ? "\n" : "", i + 1);
        show_line(stdout, h->title, 0);
        fputs("  (", stdout);
        show_line(stdout, h->file, 0);
        if (h->first_line) printf(":%" PRId64, h->first_line);
        if (h->page) printf(" page %" PRId64, h->page);
        printf(", chunk %" PRId64, h->id);
        print_score(h->score);
        show_text(stdout, h->text, strlen(h->text));
        putchar('\n');
    }
}

typedef struct search_options {
    const char *path, *question, *similar, *asked, *embedding, *by;
    opt_list files, tags;
    int k, like, breadth;
    bool as_json, told; /* told: what failed was said */
} search_options;

static sp_err find_like(search_options *o, sp_hits *hits)
{
    sp_index *ix = NULL;
    sp_err err = sp_index_open(o->path, &ix);
    o->told = err == SP_OK && o->asked && !cli_note_asked(ix, o->asked);
    if (o->told) err = SP_E_ARG;
    if (err == SP_OK) err = sp_index_similar(ix, o->similar, o->like, o->k, hits);
    sp_index_close(ix);
    return err;
}

/* has_files -- whether a file is called so, or is in a folder that is. */
static sp_err has_files(sp_retriever *f, const char *name, bool *out)
{
    char *folder;
    sp_file_list l = {0};
    size_t n = strlen(name);
    sp_err err = sp_retriever_files(f, &(sp_file_query){.name = name}, &l);
    *out = err == SP_OK;
    sp_file_list_fini(&l);
    if (err != SP_E_NOTFOUND) return err;
    while (n && name[n - 1] == '/') n--;
    if (asprintf(&folder, "%.*s/", (int)n, name) < 0) return SP_E_NOMEM;
    err = sp_retriever_files(f, &(sp_file_query){.after = folder, .limit = 1}, &l);
    *out = err == SP_OK && l.n && strncmp(l.v[0].name, folder, n + 1) == 0;
    sp_file_list_fini(&l);
    free(folder);
    return err;
}

/* check_files -- each --only names something. */
static sp_err check_files(search_options *o, sp_retriever *f)
{
    bool found = true;
    for (int i = 0; i < o->files.n && found; i++) {
        sp_err err = has_files(f, o->files.v[i], &found);
        if (err != SP_OK) return err;
        if (!found)
            cli_fail_with("--only %s: %s has no chunk of such a file or folder (its name is as search prints it)",
                          o->files.v[i], o->path);
    }
    o->told = !found;
    return found ? SP_OK : SP_E_ARG;
}

static sp_err find(search_options *o, sp_hits *hits)
{
    sp_embedder *e = NULL;
    sp_retriever *f = NULL;
    const sp_retrieve_query q = {.text = o->question,
                             .k = o->k,
                             .by = o->by,
                             .files = o->files.v,
                             .n_files = o->files.n,
                             .tags = o->tags.v,
                             .n_tags = o->tags.n,
                             .breadth = o->breadth};
    const bool by_words = o->by && strcmp(o->by, "words") == 0; /* needs no encoder, and no server of vectors */
    sp_err err = o->embedding && !by_words ? sp_embedder_open(&(sp_embedder_opts){.model = o->embedding}, &e) : SP_OK;
    if (err == SP_OK) err = sp_retriever_open(o->path, e, &f);
    if (err == SP_OK && e && !*sp_retriever_describe(f).kind)
        cli_warn("%s has no vectors: it is searched by words (spolia index --embedding)", o->path);
    if (err == SP_OK) err = check_files(o, f);
    if (err == SP_OK) err = sp_retriever_search(f, &q, hits);
    sp_retriever_close(f);
    sp_embedder_close(e);
    return err;
}

int cmd_search(int argc, char **argv)
{
    search_options o = {.similar = "bm25", .k = 8};
    const opt table[] = {
        {OPT_STRING, "index", 'i', "FILE", &o.path, "index written by spolia index", .required = true},
        {OPT_INT, "top", 'k', "N", &o.k, "how many chunks (8)", .limits = {1, 100000}},
        {OPT_STRING, "embedding", 0, "PATH", &o.embedding,
         "the text encoder of the index's vectors: chunks are found by words and by meaning (none: by words)",
         .is_model = true},
        {OPT_STRING, "by", 0, "WHAT", &o.by, "words, vectors, hybrid (hybrid with --embedding, else words)"},
        {OPT_LIST, "only", 0, "FILE", &o.files,
         "only chunks of this file, or of a folder's files; several times for more"},
        {OPT_LIST, "tag", 0, "TAG", &o.tags, "only chunks of files with this tag; several times for more"},
        {OPT_INT, "breadth", 0, "N", &o.breadth,
         "how much to search: clusters (ivf), candidates (hnsw) (a sixteenth of the clusters, 64)",
         .limits = {0, INT32_MAX}},
        {OPT_INT, "like", 0, "ID", &o.like, "find chunks similar to this one, instead of a question",
         .limits = {1, INT32_MAX}},
        {OPT_STRING, "similar", 0, "SOURCE", &o.similar, CLI_SIMILAR_HELP},
        {OPT_STRING, "asked", 0, "FILE", &o.asked, CLI_ASKED_HELP},
        {OPT_FLAG, "json", 0, NULL, &o.as_json, "print JSON"},
        {0},
    };
    const opt *const tables[] = {table, NULL};
    int at =
        opt_parse(argc, argv,
                  &(opt_usage){"search --index FILE [options] (QUESTION | --like ID)",
                               "Shows the chunks that a question retrieves, the best first. The "
                               "exit code is 3\nwhen there are none."},
                  tables);
    if (at < 0) return -1 - at;
    if (at + !o.like != argc) return cli_fail_with("search: ask one question, or --like ID"), 2;
    const char *wrong = cli_asked_wrong(o.similar, o.asked);
    if (wrong) return cli_fail_with("search: %s", wrong), 2;
    if (o.by && strcmp(o.by, "words") != 0 && strcmp(o.by, "vectors") != 0 && strcmp(o.by, "hybrid") != 0)
        return cli_fail_with("search: --by %s: words, vectors or hybrid", o.by), 2;

    o.question = argv[at];
    sp_hits hits = {0};
    sp_err err = o.like ? find_like(&o, &hits) : find(&o, &hits);
    if (err == SP_OK) (o.as_json ? print_json : print_hits)(&hits);
    int code = o.told ? 1 : err != SP_OK ? cli_fail(err) : hits.n ? 0 : CLI_NO_HIT;
    if (code == CLI_NO_HIT) cli_warn("no chunk of %s matches", o.path);
    sp_hits_fini(&hits);
    return code;
}
