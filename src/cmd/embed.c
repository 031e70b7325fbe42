/* embed.c -- `spolia embed`: the vectors of texts. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/model_options.h"
#include "cli/progress.h"
#include "cmd/commands.h"

enum { AT_ONCE = 512 }; /* texts of one call, between two looks at Ctrl-C */

typedef struct embedding {
    const char *model, *file, *as;
    int dimensions, step;
    bool strict, as_json;
    sp_machine_opts machine;
    sp_embed_input *inputs; /* [n] */
    size_t n;
    char *text; /* of the file; the inputs point into it */
    int n_dims;
    float *vectors;    /* [n, n_dims] */
    int32_t *n_tokens; /* [n] */
    double seconds;    /* of computing */
} embedding;

/* -- texts ----------------------------------------------------------------------------------- */

static bool add(embedding *e, char *s, size_t n)
{
    if ((e->n & (e->n - 1)) == 0) { /* a power of two: full */
        sp_embed_input *more = realloc(e->inputs, (e->n ? 2 * e->n : 1) * sizeof *more);
        if (!more) return false;
        e->inputs = more;
    }
    e->inputs[e->n++] = (sp_embed_input){.text = s, .n = n};
    return true;
}

/* A text a line; an empty line is an empty text. */
static bool read_lines(embedding *e)
{
    size_t n;
    e->text = cli_read_file(e->file, &n);
    if (!e->text) return false;
    for (char *s = e->text, *end = e->text + n; s < end;) {
        char *line_end = memchr(s, '\n', (size_t)(end - s));
        if (!line_end) line_end = end;
        if (!add(e, s, (size_t)(line_end - s))) return cli_fail(SP_E_NOMEM), false;
        s = line_end + 1;
    }
    return true;
}

/* -- output ---------------------------------------------------------------------------------- */

static void print_vectors(const embedding *e)
{
    for (size_t i = 0; i < e->n; i++)
        for (int k = 0; k < e->n_dims; k++)
            printf("%.9g%c", (double)e->vectors[i * (size_t)e->n_dims + (size_t)k], k + 1 < e->n_dims ? ' ' : '\n');
}

static void print_json(const embedding *e)
{
    int64_t tokens = 0;
    printf("{\"dimensions\": %d, \"data\": [", e->n_dims);
    for (size_t i = 0; i < e->n; i++) {
        printf("%s\n {\"index\": %zu, \"tokens\": %" PRId32 ", \"embedding\": [", i ? "," : "", i, e->n_tokens[i]);
        for (int k = 0; k < e->n_dims; k++)
            printf("%s%.9g", k ? ", " : "", (double)e->vectors[i * (size_t)e->n_dims + (size_t)k]);
        printf("]}");
        tokens += e->n_tokens[i];
    }
    printf("],\n \"tokens\": %" PRId64 ", \"seconds\": %.6f}\n", tokens, e->seconds);
}

/* -- the vectors ------------------------------------------------------------------------------ */

static sp_err compute(embedding *e, sp_embedder *em, const sp_embed_opts *o)
{
    progress p;
    sp_err err = SP_OK;
    progress_begin(&p, false, SP_LOG_WARN);
    for (size_t at = 0, n; at < e->n && err == SP_OK; at += n) {
        n = e->n - at < AT_ONCE ? e->n - at : AT_ONCE;
        err = sp_embedder_embed(em, e->inputs + at, n, o, e->vectors + at * (size_t)e->n_dims, e->n_tokens + at);
        progress_draw(&p, "%zu of %zu texts", at + n, e->n);
        if (err == SP_OK && progress_interrupted()) err = SP_E_CANCELED;
    }
    e->seconds = progress_seconds(&p);
    progress_end(&p);
    return err;
}

static int embed(embedding *e, sp_embed_kind kind)
{
    sp_embedder *em = NULL;
    const sp_embedder_opts open = {.model = e->model, .step_tokens = e->step, .machine = e->machine};
    const sp_embed_opts o = {.kind = kind, .dimensions = e->dimensions, .refuse_long = e->strict};
    sp_err err = sp_embedder_open(&open, &em);
    if (err != SP_OK) return cli_fail(err);
    e->n_dims = e->dimensions ? e->dimensions : sp_embedder_describe(em).n_embd;
    e->vectors = calloc(e->n + 1, (size_t)e->n_dims * sizeof *e->vectors);
    e->n_tokens = calloc(e->n + 1, sizeof *e->n_tokens);
    err = e->vectors && e->n_tokens ? compute(e, em, &o) : SP_E_NOMEM;
    if (err == SP_OK) (e->as_json ? print_json : print_vectors)(e);
    sp_embedder_close(em);
    free(e->vectors);
    free(e->n_tokens);
    return err == SP_OK ? 0 : cli_fail(err);
}

static bool kind_of(const char *name, sp_embed_kind *out)
{
    static const char *const names[] = {"text", "query", "document"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) return *out = (sp_embed_kind)i, true;
    return false;
}

int cmd_embed(int argc, char **argv)
{
    embedding e = {.as = "text"};
    sp_embed_kind kind;
    const opt table[] = {
        {OPT_STRING, "model", 'm', "PATH", &e.model,
         "text encoder: folder of a sentence-transformers model, GGUF file (bert), or hf:ORG/REPO", .required = true,
         .is_model = true},
        {OPT_STRING, "file", 'f', "FILE", &e.file, "read texts from a file, one a line; - for standard input"},
        {OPT_STRING, "as", 0, "WHAT", &e.as,
         "what the texts are: text, query, document; the model may want a prompt before them (text)"},
        {OPT_INT, "dimensions", 0, "N", &e.dimensions, "the first N elements of each vector (all)",
         .limits = {0, INT32_MAX}},
        {OPT_FLAG, "strict", 0, NULL, &e.strict, "a text that is too long for the model is an error; else it is cut"},
        {OPT_INT, "threads", 't', "N", &e.machine.n_threads, "threads; 0: one for each core (0)", .limits = {0, 1024}},
        OPT_CPU(&e.machine.cpu),
        OPT_EXACT_PRODUCTS(&e.machine.exact_products),
        OPT_AMX_F16(&e.machine.amx_f16),
        OPT_AMX_ATTEND(&e.machine.amx_attend),
        {OPT_INT, "batch", 'b', "N", &e.step, "tokens computed together (1024)", .limits = {0, 1048576}},
        {OPT_FLAG, "json", 0, NULL, &e.as_json, "print JSON"},
        {0},
    };
    const opt *const tables[] = {table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"embed -m MODEL [options] (TEXT ... | -f FILE)",
                                    "Prints the vector of each text: a line of numbers, or JSON."},
                       tables);
    if (at < 0) return -1 - at;
    if ((at == argc) == !e.file) return cli_fail_with("embed: give texts, or a file of them with -f"), 2;
    if (!kind_of(e.as, &kind)) return cli_fail_with("embed: --as %s: text, query or document", e.as), 2;
    if (sp_context_check(&(sp_context_opts){.model = e.model, .machine.cpu = e.machine.cpu}) != SP_OK)
        return cli_fail_with("embed: --cpu: %s", sp_error_detail()), 2;
    bool good = !e.file || read_lines(&e);
    for (; good && at < argc; at++) good = add(&e, argv[at], strlen(argv[at]));
    int code = good ? embed(&e, kind) : 1;
    free(e.inputs);
    free(e.text);
    return code;
}
