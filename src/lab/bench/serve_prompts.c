#include "lab/bench/serve_prompts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/bench/bench.h"

#define NO_TRACE_CHUNKS 4

typedef struct item {
    json_t *documents; /* array */
    char *question;    /* NULL: the trace has none */
} item;

struct load_source {
    load_source_opts o;
    item *items; /* of a trace */
    size_t n_items, cap_items;
    json_t *by_id; /* of o.docs: id -> {"id", "title", "text"} */
    sp_index *index;
    json_t **random; /* [o.n_documents], without a trace */
    double *weights; /* [o.n_documents] cumulative */
};

/* -- files ---------------------------------------------------------------------------------- */

typedef bool take_object(load_source *s, const json_t *object, const char *where);

static bool bad(const char *where, const char *field, const char *what)
{
    return cli_fail_with("%s: %s: %s", where, field, what), false;
}

/* each_line -- calls `take` with every object of a JSONL file; `where` is "file: line n". */
static bool each_line(load_source *s, const char *path, take_object *take)
{
    size_t n;
    char *text = cli_read_file(path, &n);
    bool good = text != NULL;
    int line = 0;
    for (char *at = text, *end; good && at < text + n; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text + n - at));
        if (!end) end = text + n;
        line++;
        if (strspn(at, " \t\r") >= (size_t)(end - at)) continue;
        char where[512];
        snprintf(where, sizeof where, "%s: line %d", path, line);
        json_error_t why;
        json_t *object = json_loadb(at, (size_t)(end - at), 0, &why);
        if (!json_is_object(object))
            good = (cli_fail_with("%s: %s", where, object ? "is not an object" : why.text), false);
        else
            good = take(s, object, where);
        json_decref(object);
    }
    free(text);
    return good;
}

static json_t *document_of(const char *id, const char *title, const char *text)
{
    return cli_checked(
        json_pack("{s:s, s:s, s:s}", "id", id, "title", title ? title : "", "text", text));
}

static bool take_document(load_source *s, const json_t *o, const char *where)
{
    const char *id = json_string_value(json_object_get(o, "id"));
    const char *text = json_string_value(json_object_get(o, "text"));
    if (!id || !text) return bad(where, id ? "text" : "id", "a string is needed");
    const char *title = json_string_value(json_object_get(o, "title"));
    json_object_set_new(s->by_id, id, document_of(id, title, text));
    return true;
}

static size_t at_most(const load_source *s, size_t n)
{
    return s->o.n_chunks && n > (size_t)s->o.n_chunks ? (size_t)s->o.n_chunks : n;
}

static bool add_named(load_source *s, const json_t *o, const char *where, json_t *out)
{
    static const char *const fields[] = {"context_doc_ids", "docs", "doc_ids"};
    const json_t *ids = NULL;
    const char *field = fields[2];
    for (int i = 0; i < 3 && !ids; i++)
        if ((ids = json_object_get(o, fields[i]))) field = fields[i];
    if (!json_is_array(ids)) return bad(where, field, "a list of ids is needed");
    for (size_t i = 0; i < at_most(s, json_array_size(ids)); i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        if (!id) return bad(where, field, "ids are strings");
        json_t *document = json_object_get(s->by_id, id);
        if (!document) return bad(where, id, "no document of --docs has this id");
        json_array_append(out, document);
    }
    return true;
}

static bool add_found(load_source *s, const char *question, const char *where, json_t *out)
{
    if (!question) return bad(where, "question", "with --index, a string is needed");
    sp_hits hits;
    sp_err err =
        sp_index_search(s->index, question, s->o.n_chunks ? s->o.n_chunks : NO_TRACE_CHUNKS, &hits);
    if (err != SP_OK) return cli_fail(err), false;
    for (int i = 0; i < hits.n; i++) {
        char id[32];
        snprintf(id, sizeof id, "chunk-%lld", (long long)hits.v[i].id);
        json_array_append_new(out, document_of(id, hits.v[i].title, hits.v[i].text));
    }
    sp_hits_fini(&hits);
    return true;
}

static bool take_request(load_source *s, const json_t *o, const char *where)
{
    const char *question = json_string_value(json_object_get(o, "question"));
    json_t *documents = cli_checked(json_array());
    bool good =
        s->index ? add_found(s, question, where, documents) : add_named(s, o, where, documents);
    if (!good || !json_array_size(documents))
        return json_decref(documents), good; /* skip an empty one */
    s->items = cli_grow(s->items, s->n_items, &s->cap_items, sizeof *s->items);
    s->items[s->n_items++] = (item){documents, question ? cli_copy(question) : NULL};
    return true;
}

static bool open_trace(load_source *s)
{
    if (s->o.index) {
        sp_err err = sp_index_open(s->o.index, &s->index);
        if (err != SP_OK) return cli_fail(err), false;
    } else {
        s->by_id = cli_checked(json_object());
        if (!each_line(s, s->o.docs, take_document)) return false;
    }
    if (!each_line(s, s->o.trace, take_request)) return false;
    return s->n_items || (cli_fail_with("%s: has no request with documents", s->o.trace), false);
}

/* -- random documents ----------------------------------------------------------------------- */

static double uniform(uint64_t *random)
{
    return (double)(bench_random(random) >> 11) / 9007199254740992.0;
}

static char *random_text(int n_words, uint64_t *random)
{
    static const char *const syllables[] = {"ka",  "lo", "mi",  "ter", "san", "vel",
                                            "dor", "un", "pre", "sta", "ri",  "gen"};
    size_t room = (size_t)n_words * 12 + 1, n = 0;
    char *text = cli_alloc(room, 1);
    for (int i = 0; i < n_words; i++) {
        uint64_t x = bench_random(random);
        n += (size_t)snprintf(text + n, room - n, "%s%s%s%s", i ? " " : "", syllables[x % 12],
                              syllables[x / 12 % 12], x & 1 << 20 ? syllables[x / 144 % 12] : "");
    }
    return text;
}

static bool open_random(load_source *s)
{
    uint64_t random = s->o.seed;
    double sum = 0;
    if (!s->o.n_chunks) s->o.n_chunks = NO_TRACE_CHUNKS;
    if (s->o.n_chunks > s->o.n_documents)
        return cli_fail_with("--chunks: a prompt cannot have more documents than there are"), false;
    s->random = cli_alloc((size_t)s->o.n_documents, sizeof *s->random);
    s->weights = cli_alloc((size_t)s->o.n_documents, sizeof *s->weights);
    for (int i = 0; i < s->o.n_documents; i++) {
        char id[32], *text = random_text(s->o.n_words, &random);
        snprintf(id, sizeof id, "random-%d", i);
        s->random[i] = document_of(id, "", text);
        s->weights[i] = sum += pow(i + 1, -s->o.zipf);
        free(text);
    }
    return true;
}

/* draw -- adds the documents of a prompt, each once. */
static void draw(const load_source *s, uint64_t random, json_t *out)
{
    int n = s->o.n_documents;
    bool *taken = cli_alloc((size_t)n, sizeof *taken);
    while (json_array_size(out) < (size_t)s->o.n_chunks) {
        double at = uniform(&random) * s->weights[n - 1];
        int low = 0, high = n - 1;
        while (low < high) {
            int middle = (low + high) / 2;
            if (s->weights[middle] < at)
                low = middle + 1;
            else
                high = middle;
        }
        while (taken[low]) low = (low + 1) % n;
        taken[low] = true;
        json_array_append(out, s->random[low]);
    }
    free(taken);
}

/* -- prompts -------------------------------------------------------------------------------- */

load_source *load_source_open(const load_source_opts *o)
{
    load_source *s = cli_alloc(1, sizeof *s);
    s->o = *o;
    if (o->trace ? open_trace(s) : open_random(s)) return s;
    load_source_close(s);
    return NULL;
}

void load_source_close(load_source *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n_items; i++) {
        json_decref(s->items[i].documents);
        free(s->items[i].question);
    }
    for (int i = 0; s->random && i < s->o.n_documents; i++) json_decref(s->random[i]);
    json_decref(s->by_id);
    sp_index_close(s->index);
    free(s->items);
    free(s->random);
    free(s->weights);
    free(s);
}

int load_source_size(const load_source *s)
{
    return (int)s->n_items;
}

void load_source_prompt(const load_source *s, int i, load_prompt *out)
{
    const item *it = s->n_items ? &s->items[(size_t)i % s->n_items] : NULL;
    char question[96];
    snprintf(question, sizeof question, "Question %d: which of these documents says most?", i);
    *out = (load_prompt){.question = cli_copy(it && it->question ? it->question : question)};
    if (it) {
        out->documents = json_incref(it->documents);
    } else {
        out->documents = cli_checked(json_array());
        draw(s, s->o.seed ^ (uint64_t)i * 0x9e3779b97f4a7c15u, out->documents);
    }
}

void load_prompt_fini(load_prompt *p)
{
    json_decref(p->documents);
    free(p->question);
    *p = (load_prompt){0};
}

/* text_of -- documents, then the question. */
static char *text_of(const load_prompt *p)
{
    char *text = NULL;
    size_t n, i;
    json_t *d;
    FILE *f = cli_checked(open_memstream(&text, &n));
    json_array_foreach(p->documents, i, d)
    {
        const char *title = json_string_value(json_object_get(d, "title"));
        fprintf(f, "%s%s%s\n\n", title, *title ? "\n" : "",
                json_string_value(json_object_get(d, "text")));
    }
    fputs(p->question, f);
    return fclose(f) == 0 ? text : cli_checked(NULL);
}

json_t *load_prompt_messages(const load_prompt *p, bool in_text)
{
    char *text = in_text ? text_of(p) : NULL;
    json_t *messages =
        json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "system", "content", CLI_SYSTEM_TEXT, "role",
                  "user", "content", text ? text : p->question);
    free(text);
    return cli_checked(messages);
}
