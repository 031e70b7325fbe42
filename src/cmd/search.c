/* search.c -- `spolia search`: the chunks that `spolia ask` puts into a prompt, and those that
 * `spolia index --precompute` conditions a fused copy on. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

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
    json_dumpf(all, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(all);
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
        printf(", chunk %" PRId64 ", score %.2f)\n", h->id, h->score);
        show_text(stdout, h->text, strlen(h->text));
        putchar('\n');
    }
}

int cmd_search(int argc, char **argv)
{
    const char *path = NULL, *similar = "bm25";
    int k = 8, like = 0;
    bool as_json = false;
    const opt table[] = {
        {OPT_STRING, "index", 'i', "FILE", &path, "index written by spolia index",
         .required = true},
        {OPT_INT, "top", 'k', "N", &k, "how many chunks (8)"},
        {OPT_INT, "like", 0, "ID", &like, "find chunks similar to this one, instead of a question"},
        {OPT_STRING, "similar", 0, "SOURCE", &similar,
         "which chunks are similar: bm25, neighbour (bm25)"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"},
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
    if (as_json) cli_fail_as_json();
    if (at + !like != argc) return cli_fail_with("search: ask one question, or --like ID"), 2;
    if (k < 1) return cli_fail_with("search: -k must be at least 1"), 2;

    sp_index *ix = NULL;
    sp_hits hits = {0};
    sp_err err = sp_index_open(path, &ix);
    if (err == SP_OK)
        err = like ? sp_index_similar(ix, similar, like, k, &hits)
                   : sp_index_search(ix, argv[at], k, &hits);
    if (err == SP_OK) (as_json ? print_json : print_hits)(&hits);
    int code = err != SP_OK ? cli_fail(err) : hits.n ? 0 : CLI_NO_HIT;
    if (code == CLI_NO_HIT) cli_warn("no chunk of %s matches", path);
    sp_hits_fini(&hits);
    sp_index_close(ix);
    return code;
}
