/* extract.c -- `spolia graph extract`: a model reads the chunks of an index one by one and
 * writes triples, each with the chunk that it came from, to a file for `spolia graph import`.
 *
 * The file is its own record of progress: the last line names the last chunk with triples, and a
 * second run begins with that chunk. What it writes twice merges in the import. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/alloc.h"
#include "cli/options/model_options.h"
#include "cli/progress.h"
#include "cmd/graph/graph.h"
#include "cmd/graph/answer.h"

/* The lines that an answer has: a model that was not trained for it keeps to the form, too. */
#define LINES "([^|\n]{1,80} \\| [^|\n]{1,60} \\| [^|\n]{1,80}\n){1,24}"

typedef struct extraction {
    sp_context *ctx;
    sp_index *index;
    const sampling_options *sampling;
    sp_grammar *grammar; /* LINES */
    FILE *out;
    const char *path; /* of out */
    bool keep_all;
    int64_t n_chunks, n_triples, n_dropped, n_bad; /* bad: lines that are no triple */
    progress progress;
} extraction;

/* -- one chunk ------------------------------------------------------------------------------ */

static sp_err ask(const extraction *x, const sp_hit *chunk, sp_request **out)
{
    sp_prompt *p;
    sp_err err = sp_prompt_create(x->ctx, &p);
    if (err != SP_OK) return err;
    err = sp_prompt_system(p, GRAPH_EXTRACT_SYSTEM);
    if (err == SP_OK) err = sp_prompt_chunk(p, chunk->title, chunk->text);
    if (err == SP_OK) err = sp_prompt_question(p, GRAPH_EXTRACT_QUESTION);
    if (err == SP_OK)
        err = sp_generate(x->ctx, p,
                          &(sp_request_opts){.sampling = x->sampling->s,
                                             .max_tokens = x->sampling->max_tokens,
                                             .grammar = x->grammar,
                                             .stop = x->sampling->stop.v,
                                             .n_stop = x->sampling->stop.n},
                          out);
    sp_prompt_destroy(p);
    return err;
}

/* one_line -- names must not break the lines and columns of the file. */
static void one_line(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7F) *s = ' ';
}

static void write_triples(extraction *x, const sp_hit *chunk, const char *answer)
{
    char *copy = cli_copy(answer), *rest = copy, *file = cli_copy(chunk->file);
    one_line(file);
    for (char *line; (line = strsep(&rest, "\n"));) {
        graph_answer t;
        bool blank = line[strspn(line, " \t\r")] == '\0';
        if (!graph_answer_parse(line, &t)) {
            x->n_bad += !blank;
            continue;
        }
        one_line(t.subject);
        one_line(t.relation);
        one_line(t.object);
        if (!x->keep_all && !graph_answer_grounded(&t, chunk->text)) {
            x->n_dropped++;
            continue;
        }
        fprintf(x->out, "%s\t%s\t%s\t%s#%" PRId64 "\n", t.subject, t.relation, t.object,
                file, chunk->id);
        x->n_triples++;
    }
    free(file);
    free(copy);
}

static int read_chunk(extraction *x, const sp_hit *chunk)
{
    sp_request *r = NULL;
    sp_err err = ask(x, chunk, &r);
    if (err != SP_OK) return cli_fail(err);
    const sp_result *result = sp_request_result(r);
    int code = 0;
    if (result->finish == SP_FINISH_ERROR)
        code = cli_fail_with("%s, chunk %" PRId64 ": %s", chunk->file, chunk->id, result->detail);
    else
        write_triples(x, chunk, result->text);
    sp_request_destroy(r);
    if (code == 0 && fflush(x->out) != 0) code = cli_fail_with("%s: %s", x->path, strerror(errno));
    x->n_chunks++;
    return code;
}

/* -- all chunks ----------------------------------------------------------------------------- */

/* open_output -- for adding; a line that was cut off is removed. *last: the chunk of the last line,
 * 0 when there is none. */
static FILE *open_output(const char *path, int64_t *last)
{
    char *line = NULL;
    size_t cap = 0;
    long whole = 0;
    *last = 0;
    FILE *f = fopen(path, "a+");
    if (!f) {
        cli_fail_with("%s: %s", path, strerror(errno));
        return NULL;
    }
    rewind(f);
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0 && line[n - 1] == '\n';) {
        const char *mark = strrchr(line, '#');
        if (mark) *last = strtoll(mark + 1, NULL, 10);
        whole += n;
    }
    const bool read = cli_check_end(f, path);
    free(line);
    if (read && ftruncate(fileno(f), whole) == 0 && fseek(f, 0, SEEK_END) == 0) return f;
    if (read) cli_fail_with("%s: %s", path, strerror(errno));
    fclose(f);
    return NULL;
}

static int read_chunks(extraction *x, int64_t after, int limit)
{
    int code = 0;
    while (code == 0 && (!limit || x->n_chunks < limit)) {
        sp_hits one;
        sp_err err = sp_index_chunk(x->index, after, &one);
        if (err != SP_OK) return cli_fail(err);
        bool end = one.n == 0;
        if (!end) {
            after = one.v[0].id;
            code = read_chunk(x, &one.v[0]);
            progress_draw(&x->progress, "chunk %" PRId64 "  %" PRId64 " triples  %.40s", after,
                          x->n_triples, one.v[0].file);
        }
        sp_hits_fini(&one);
        if (end) break;
        if (code == 0 && progress_interrupted())
            code = cli_fail_with("interrupted; the next run continues with chunk %" PRId64, after);
    }
    return code;
}

static int extract(extraction *x, int limit, bool quiet)
{
    int64_t last;
    x->out = open_output(x->path, &last);
    if (!x->out) return 1;
    progress_begin(&x->progress, quiet, SP_LOG_WARN);
    int code = read_chunks(x, last ? last - 1 : 0, limit);
    progress_end(&x->progress);
    if (fclose(x->out) != 0 && code == 0) code = cli_fail_with("%s: %s", x->path, strerror(errno));
    if (code == 0 && !quiet)
        printf("%s: %" PRId64 " triples of %" PRId64 " chunks; %" PRId64
               " dropped whose names are not in the chunk, %" PRId64 " lines were no triples\n",
               x->path, x->n_triples, x->n_chunks, x->n_dropped, x->n_bad);
    return code;
}

int cmd_graph_extract(int argc, char **argv)
{
    model_options m;
    sampling_options s;
    extraction x = {.sampling = &s};
    const char *index = NULL;
    int limit = 0;
    bool quiet = false;
    model_options_init(&m);
    sampling_options_init(&s, 512);
    const opt own[] = {
        {OPT_STRING, "index", 'i', "FILE", &index, "index made by spolia index", .required = true},
        {OPT_STRING, "output", 'o', "FILE", &x.path, "TSV file for graph import; lines are added",
         .required = true},
        {OPT_INT, "limit", 0, "N", &limit, "chunks to read (all)", .limits = {0, INT32_MAX}},
        {OPT_FLAG, "keep-all", 0, NULL, &x.keep_all,
         "keep triples whose subject or object is not in the chunk"},
        {OPT_FLAG, "quiet", 'q', NULL, &quiet, "no progress, no summary"},
        {0},
    };
    const opt *const tables[] = {own, s.table, m.table, NULL};
    int at = opt_parse(
        argc, argv,
        &(opt_usage){
            "graph extract -m MODEL --index FILE -o TRIPLES.tsv [options]",
            "Asks a chat model for the facts of each chunk and writes them as triples, each "
            "with its\nchunk. A second run continues after the last chunk in the file."},
        tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("graph extract: takes options only"), 2;
    const int wrong = model_options_check(&m);
    if (wrong) return wrong;
    sp_err err = sp_index_open(index, &x.index);
    if (err != SP_OK) return cli_fail(err);
    x.ctx = model_options_open(&m);
    err = sp_grammar_compile(&(sp_grammar_opts){.regex = LINES}, &x.grammar);
    int code = !x.ctx ? 1 : err == SP_OK ? extract(&x, limit, quiet) : cli_fail(err);
    sp_context_close(x.ctx);
    sp_grammar_destroy(x.grammar);
    sp_index_close(x.index);
    return code;
}
