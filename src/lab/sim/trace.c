#include <jansson.h>
#include <string.h>

#include "base/dict.h"
#include "cli/alloc.h"
#include "cli/cli.h"
#include "compute/shapes.h"
#include "lab/files.h"
#include "lab/sim/sim.h"

#define BYTES_A_TOKEN 4 /* of a chunk's text, where its file does not say its tokens */
#define NO_SIZE       128

/* A trace while it is read. */
typedef struct reader {
    const char *path;
    int line, top_k;
    sim_trace *t;
    sp_dict ids; /* name -> document */
    size_t room_refs, room_first, room_docs, room_names;
} reader;

static bool bad(const reader *r, const char *field, const char *what)
{
    cli_fail_with("%s: line %d: %s: %s", r->path, r->line, field, what);
    return false;
}

static reader *begin_line(reader *r, const char *path, int line)
{
    r->path = path;
    r->line = line;
    return r;
}

/* doc_of -- the number of a document; -1 after an error message. */
static int32_t doc_of(reader *r, const char *name)
{
    sim_trace *t = r->t;
    uint32_t known = sp_dict_get(&r->ids, name, strlen(name));
    if (known != SP_DICT_NONE) return (int32_t)known;
    t->names = cli_grow(t->names, (size_t)t->n_docs, &r->room_names, sizeof *t->names);
    t->size = cli_grow(t->size, (size_t)t->n_docs, &r->room_docs, sizeof *t->size);
    t->names[t->n_docs] = cli_copy(name);
    t->size[t->n_docs] = 0;
    sp_err err = sp_dict_put(&r->ids, t->names[t->n_docs], strlen(name), (uint32_t)t->n_docs);
    if (err != SP_OK) return cli_fail(err), -1;
    return t->n_docs++;
}

/* set_size -- a document has one size. */
static bool set_size(reader *r, int32_t doc, const json_t *size)
{
    json_int_t n = json_integer_value(size);
    if (!json_is_integer(size) || n < 1 || n > 1 << 24)
        return bad(r, "sizes", "tokens from 1 to 16777216");
    if (r->t->size[doc] && r->t->size[doc] != n)
        return bad(r, "sizes", "the document had another size before");
    r->t->size[doc] = (int32_t)n;
    return true;
}

static bool add_request(const char *path, int line, json_t *o, void *user)
{
    reader *r = begin_line(user, path, line);
    sim_trace *t = r->t;
    const json_t *ids = json_object_get(o, "doc_ids"), *sizes = json_object_get(o, "sizes");
    size_t n = json_array_size(ids);
    if (!json_is_array(ids)) return bad(r, "doc_ids", "a list of names is needed");
    if (sizes && json_array_size(sizes) != n) return bad(r, "sizes", "one for each of doc_ids");
    if (r->top_k && n > (size_t)r->top_k) n = (size_t)r->top_k;
    t->first = cli_grow(t->first, (size_t)t->n_requests + 1, &r->room_first, sizeof *t->first);
    t->first[t->n_requests++] = t->n_refs;
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(ids, i));
        if (!name || !*name) return bad(r, "doc_ids", "names are strings");
        int32_t doc = doc_of(r, name);
        if (doc < 0 || (sizes && !set_size(r, doc, json_array_get(sizes, i)))) return false;
        t->docs = cli_grow(t->docs, (size_t)t->n_refs, &r->room_refs, sizeof *t->docs);
        t->docs[t->n_refs++] = doc;
    }
    t->first[t->n_requests] = t->n_refs;
    t->most = SP_MAX(t->most, (int)n);
    return true;
}

/* add_chunk -- the size of a document that the trace names and gives no size. */
static bool add_chunk(const char *path, int line, json_t *o, void *user)
{
    reader *r = begin_line(user, path, line);
    const char *id = json_string_value(json_object_get(o, "id"));
    const char *text = json_string_value(json_object_get(o, "text"));
    const json_t *tokens = json_object_get(o, "tokens");
    if (!id) return bad(r, "id", "a string is needed");
    uint32_t doc = sp_dict_get(&r->ids, id, strlen(id));
    if (doc == SP_DICT_NONE || r->t->size[doc]) return true;
    if (tokens) return set_size(r, (int32_t)doc, tokens);
    if (!text) return bad(r, "text", "a string is needed, or \"tokens\"");
    r->t->size[doc] = (int32_t)SP_MAX(strlen(text) / BYTES_A_TOKEN, (size_t)1);
    return true;
}

bool sim_trace_read(const char *path, const char *chunks, int top_k, sim_trace *out)
{
    *out = (sim_trace){0};
    reader r = {.top_k = top_k, .t = out};
    sp_err err = sp_dict_init(&r.ids, 1024);
    if (err != SP_OK) return cli_fail(err), false;
    bool good = lab_json_lines(path, 0, add_request, &r, NULL);
    if (good && !out->n_refs) {
        cli_fail_with("%s: no request names a document", path);
        good = false;
    }
    if (good && chunks) good = lab_json_lines(chunks, 0, add_chunk, &r, NULL);
    for (int32_t i = 0; i < out->n_docs; i++) {
        if (!out->size[i]) out->size[i] = NO_SIZE;
        out->largest = SP_MAX(out->largest, out->size[i]);
    }
    sp_dict_fini(&r.ids);
    if (!good) sim_trace_free(out);
    return good;
}

/* -- the rest -------------------------------------------------------------------------------- */

void sim_trace_free(sim_trace *t)
{
    for (int32_t i = 0; t->names && i < t->n_docs; i++) free(t->names[i]);
    free(t->names);
    free(t->docs);
    free(t->first);
    free(t->size);
    *t = (sim_trace){0};
}

int64_t sim_trace_tokens(const sim_trace *t)
{
    int64_t n = 0;
    for (int32_t i = 0; i < t->n_docs; i++) n += SP_ROUND_UP(t->size[i], SP_BLOCK_TOKENS);
    return n;
}

int64_t sim_trace_read_tokens(const sim_trace *t)
{
    int64_t n = 0;
    for (int64_t i = 0; i < t->n_refs; i++) n += SP_ROUND_UP(t->size[t->docs[i]], SP_BLOCK_TOKENS);
    return n;
}

static void write_request(const sim_trace *t, int64_t r, FILE *f)
{
    fprintf(f, "{\"id\":\"%lld\",\"doc_ids\":[", (long long)r);
    for (int64_t i = t->first[r]; i < t->first[r + 1]; i++)
        fprintf(f, "%s\"d%d\"", i > t->first[r] ? "," : "", t->docs[i]);
    fputs("],\"sizes\":[", f);
    for (int64_t i = t->first[r]; i < t->first[r + 1]; i++)
        fprintf(f, "%s%d", i > t->first[r] ? "," : "", t->size[t->docs[i]]);
    fputs("]}\n", f);
}

bool sim_trace_write(const sim_trace *t, const char *path)
{
    FILE *f = fopen(path, "w");
    for (int64_t r = 0; f && r < t->n_requests; r++) write_request(t, r, f);
    return lab_close(f, path);
}
