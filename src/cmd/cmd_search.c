/* cmd_search.c -- `spolia search`: the chunks that `spolia ask` would put into the prompt. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "cmd/cmd.h"

static void print_json(const sp_hits *hits)
{
    json_t *all = json_array();
    for (int i = 0; i < hits->n; i++) {
        const sp_hit *h = &hits->v[i];
        json_array_append_new(all, json_pack("{s:I, s:f, s:s, s:s, s:s}", "id", (json_int_t)h->id,
                                             "score", h->score, "file", h->file, "title", h->title,
                                             "text", h->text));
    }
    json_dumpf(all, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(all);
}

static void print_hits(const sp_hits *hits)
{
    for (int i = 0; i < hits->n; i++) {
        const sp_hit *h = &hits->v[i];
        printf("%s[%d] %s  (%s, chunk %" PRId64 ", score %.2f)\n%s\n", i ? "\n" : "", i + 1,
               h->title, h->file, h->id, h->score, h->text);
    }
}

int cmd_search(int argc, char **argv)
{
    const char *path = NULL;
    int k = 8;
    bool as_json = false;
    const opt table[] = {
        {OPT_STRING, "index", 'i', "FILE", &path, "index made by spolia index", .required = true},
        {OPT_INT, "top", 'k', "N", &k, "how many chunks (8)"},
        {OPT_FLAG, "json", 0, NULL, &as_json, "print JSON"},
        {0},
    };
    const opt *const tables[] = {table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"search --index FILE [options] QUESTION",
                                    "Shows the chunks that a question finds, the best first."},
                       tables);
    if (at < 0) return -1 - at;
    if (at + 1 != argc) return cmd_fail_with("search: ask one question"), 2;
    if (k < 1) return cmd_fail_with("search: -k is at least 1"), 2;

    sp_index *ix = NULL;
    sp_hits hits = {0};
    sp_err err = sp_index_open(path, &ix);
    if (err == SP_OK) err = sp_index_search(ix, argv[at], k, &hits);
    if (err == SP_OK) (as_json ? print_json : print_hits)(&hits);
    int code = err == SP_OK ? 0 : cmd_fail(err);
    sp_hits_fini(&hits);
    sp_index_close(ix);
    return code;
}
