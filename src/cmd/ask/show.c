/* show.c -- what `spolia ask` prints after an answer: sources, the table of chunks, JSON. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/show.h"
#include "cmd/ask/ask.h"

#define PLACE_COLUMNS 28

static void number_of(const sp_hit *h, char *out, size_t size)
{
    *out = '\0';
    if (h->first_line) snprintf(out, size, ":%lld", (long long)h->first_line);
    if (h->page) snprintf(out, size, ":p%lld", (long long)h->page);
}

void ask_print_place(FILE *to, const sp_hit *h)
{
    char number[32];
    number_of(h, number, sizeof number);
    show_line(to, h->file, 0);
    fputs(number, to);
}

/* print_place -- the same in PLACE_COLUMNS columns. */
static void print_place(const sp_hit *h)
{
    char number[32];
    number_of(h, number, sizeof number);
    int left = PLACE_COLUMNS - (int)strlen(number), columns = show_columns(h->file);
    show_line(stderr, h->file, columns > left ? left : 0);
    fprintf(stderr, "%s%*s", number, columns < left ? left - columns : 0, "");
}

void ask_show_sources(const ask_turn *t, int first)
{
    if (t->hits.n == 0) return;
    fprintf(stderr, "%sSources:", show_dim(stderr));
    for (int i = 0; i < t->hits.n; i++) {
        fprintf(stderr, "%s [%d] ", i ? "," : "", first + i);
        ask_print_place(stderr, &t->hits.v[i]);
    }
    fprintf(stderr, "%s\n", show_plain(stderr));
}

/* -- the table ------------------------------------------------------------------------------ */

static const sp_segment_report *report_of(const sp_result *r, int segment)
{
    return r && segment < r->n_segments ? &r->segments[segment] : NULL;
}

/* print_fate -- where a chunk's copy came from, or why the chunk was computed. */
static void print_fate(const sp_segment_report *seg)
{
    if (seg->n_reused + seg->n_recomputed == 0)
        fprintf(stderr, "computed%s%s", *seg->missed ? ": " : "", seg->missed);
    else if (seg->n_reused + seg->n_recomputed < seg->n_tokens)
        fputs("reused in part", stderr);
    else
        fprintf(stderr, "from %s", *seg->from ? seg->from : "the same prefix");
    if (seg->n_recomputed) fprintf(stderr, ", %d recomputed", seg->n_recomputed);
}

void ask_show_table(const ask_turn *t, int first, const sp_result *r, int first_segment)
{
    for (int i = 0; i < t->hits.n; i++) {
        const sp_segment_report *seg = report_of(r, first_segment + i);
        fprintf(stderr, "  %2d. ", first + i);
        show_line(stderr, t->hits.v[i].title, 32);
        fputc(' ', stderr);
        print_place(&t->hits.v[i]);
        if (seg) {
            fprintf(stderr, " %4d tokens, ", seg->n_tokens);
            print_fate(seg);
        }
        fputc('\n', stderr);
    }
    if (t->n_duplicates)
        fprintf(stderr, "  %d more repeat%s one of these and %s left out\n", t->n_duplicates,
                t->n_duplicates == 1 ? "s" : "", t->n_duplicates == 1 ? "is" : "are");
}

/* -- JSON ----------------------------------------------------------------------------------- */

static json_t *chunk_json(const sp_hit *hit, const sp_segment_report *seg)
{
    return json_pack("{s:I, s:s, s:I, s:I, s:s, s:f, s:i, s:i, s:i, s:s, s:s}", "id",
                     (json_int_t)hit->id, "file", hit->file, "line", (json_int_t)hit->first_line,
                     "page", (json_int_t)hit->page, "title", hit->title, "score", hit->score,
                     "tokens", seg ? seg->n_tokens : 0, "reused", seg ? seg->n_reused : 0,
                     "recomputed", seg ? seg->n_recomputed : 0, "from", seg ? seg->from : "",
                     "missed", seg ? seg->missed : "");
}

void ask_print_json(const asking *a, const ask_turn *t, const sp_result *r, int first_segment)
{
    json_t *chunks = json_array();
    for (int i = 0; i < t->hits.n; i++)
        json_array_append_new(chunks, chunk_json(&t->hits.v[i], report_of(r, first_segment + i)));
    json_t *account = json_pack("{s:o, s:o, s:i}", "question", cli_json_string(t->question), "chunks", chunks,
                                "duplicates", t->n_duplicates);
    account_json(r, saying_json(&a->said, r->text, account));
}
