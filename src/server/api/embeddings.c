#include "server/api/embeddings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "server/api/dialect.h"
#include "server/body/fields.h"
#include "server/documents/side.h"
#include "server/http/reply.h"

enum { MOST_INPUTS = 2048 };

/* A call: inputs, and what is made of them. */
typedef struct embedding {
    srv_call *call;
    srv_fields f;
    json_t *body;
    sp_embed_opts o;
    size_t n;
    int n_dims;
    sp_embed_input *inputs; /* [n]; texts are in `body` */
    int32_t **ids;          /* [n] or NULL: token ids of an input, freed with it */
    float *vectors;         /* [n, n_dims] */
    int32_t *n_tokens;      /* [n] */
    int64_t total, us;      /* tokens; time of computing */
    bool left;              /* the client hung up meanwhile */
} embedding;

/* -- inputs ------------------------------------------------------------------------------------ */

static bool read_ids(embedding *e, const char *field, const json_t *list, size_t i)
{
    const size_t n = json_array_size(list);
    e->ids[i] = calloc(n + 1, sizeof **e->ids);
    if (!e->ids[i]) return srv_fields_refuse(&e->f, field, "out of memory"), false;
    for (size_t k = 0; k < n; k++) {
        const json_t *id = json_array_get(list, k);
        const json_int_t x = json_integer_value(id);
        if (!json_is_integer(id) || x < 0 || x > INT32_MAX)
            return srv_fields_refuse(&e->f, field, "%s: token %zu of input %zu is no token id", field, k, i), false;
        e->ids[i][k] = (int32_t)x;
    }
    e->inputs[i] = (sp_embed_input){.ids = e->ids[i], .n_ids = n};
    return true;
}

static bool read_input(embedding *e, const char *field, const json_t *v, size_t i)
{
    if (json_is_array(v)) return read_ids(e, field, v, i);
    if (!json_is_string(v))
        return srv_fields_refuse(&e->f, field, "%s: input %zu is neither a text nor a list of token ids", field, i),
               false;
    e->inputs[i] = (sp_embed_input){.text = json_string_value(v), .n = json_string_length(v)};
    return true;
}

/* A text, texts, token ids, or lists of them. */
static bool read_inputs(embedding *e, const char *field)
{
    const json_t *v = srv_field(&e->f, field);
    const bool one = !json_is_array(v) || json_is_integer(json_array_get(v, 0));
    e->n = one ? 1 : json_array_size(v);
    if (!v || e->n == 0 || e->n > MOST_INPUTS)
        return srv_fields_refuse(&e->f, field, "%s must be a text, or a list of 1 to %d", field, MOST_INPUTS), false;
    e->inputs = calloc(e->n, sizeof *e->inputs);
    e->ids = calloc(e->n, sizeof *e->ids);
    if (!e->inputs || !e->ids) return srv_fields_refuse(&e->f, field, "out of memory"), false;
    for (size_t i = 0; i < e->n; i++)
        if (!read_input(e, field, one ? v : json_array_get(v, i), i)) return false;
    return true;
}

static void read_kind(embedding *e)
{
    static const char *const names[] = {"query", "search_query", "document", "passage", "search_document"};
    const char *type = srv_field_string(&e->f, "input_type");
    for (int i = 0; type && i < 5; i++)
        if (strcmp(type, names[i]) == 0) {
            e->o.kind = i < 2 ? SP_EMBED_QUERY : SP_EMBED_DOCUMENT;
            return;
        }
    if (type) srv_fields_refuse(&e->f, "input_type", "input_type must be query or document");
}

/* -- computing --------------------------------------------------------------------------------- */

static void compute(embedding *e)
{
    srv_server *s = e->call->s;
    const size_t floats = e->n * (size_t)e->n_dims;
    e->vectors = malloc(floats * sizeof *e->vectors);
    e->n_tokens = calloc(e->n, sizeof *e->n_tokens);
    if (!e->vectors || !e->n_tokens) {
        srv_fields_refuse(&e->f, "input", "out of memory");
        return;
    }
    const int64_t from = srv_now_us();
    srv_side *side = srv_side_begin(e->call);
    const sp_embed_opts beside = srv_side_opts(side);
    e->o.stop = beside.stop;
    e->o.step_us = beside.step_us;
    e->o.rests = beside.rests;
    e->o.user = side;
    const sp_err err =
        side ? sp_embedder_embed(s->o.models.embedder, e->inputs, e->n, &e->o, e->vectors, e->n_tokens) : SP_E_NOMEM;
    e->left = side && srv_side_left(side);
    srv_side_end(e->call, side);
    e->us = srv_now_us() - from;
    if (err != SP_OK) srv_fields_fail(&e->f, "input", NULL, err);
    for (size_t i = 0; i < e->n && err == SP_OK; i++) e->total += e->n_tokens[i];
}

/* run -- reads the body and computes; false after a refusal in e->f. truncate: whether long texts are cut when the
 * body does not say. */
static bool run(embedding *e, srv_call *call, const char *field, bool truncate)
{
    *e = (embedding){.call = call};
    if (!call->s->o.models.embedder) {
        srv_fields_refuse(&e->f, "model", "the server has no model for vectors: --embedding names one");
        return false;
    }
    e->body = srv_fields_parse(&e->f, call->body, call->n);
    if (!e->body || !read_inputs(e, field)) return false;
    const int n_embd = sp_embedder_describe(call->s->o.models.embedder).n_embd;
    e->o.dimensions = e->n_dims = (int)srv_field_int(&e->f, "dimensions", n_embd, 1, n_embd);
    e->o.refuse_long = !srv_field_bool(&e->f, "truncate", truncate);
    read_kind(e);
    if (!e->f.failed) compute(e);
    return !e->f.failed;
}

/* refuse -- dialect: of the error, NULL: OpenAI's. */
static srv_sent refuse(const embedding *e, const srv_dialect *dialect)
{
    const char *code = NULL;
    if (e->left) return MHD_NO;
    if (!dialect) return srv_fields_reply(e->call, &e->f);
    const int status = e->f.err == SP_OK ? 400 : srv_error_status(e->f.err, &code);
    return srv_dialect_error(e->call, dialect, status, &e->f, code);
}

static srv_sent end(embedding *e, char *text, const srv_dialect *dialect)
{
    const srv_sent sent = e->f.failed ? refuse(e, dialect)
                                      : srv_reply_text(e->call->connection, 200, "application/json", text);
    for (size_t i = 0; i < e->n && e->ids; i++) free(e->ids[i]);
    free(e->ids);
    free(e->inputs);
    free(e->vectors);
    free(e->n_tokens);
    json_decref(e->body);
    return sent;
}

/* -- replies ----------------------------------------------------------------------------------- */

static void put_numbers(FILE *f, const float *v, int n)
{
    putc('[', f);
    for (int i = 0; i < n; i++) fprintf(f, "%s%.9g", i ? "," : "", (double)v[i]);
    putc(']', f);
}

/* Little-endian f32 in base64. */
static void put_base64(FILE *f, const float *v, int n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *b = (const uint8_t *)v;
    const size_t n_bytes = (size_t)n * sizeof *v;
    putc('"', f);
    for (size_t i = 0; i < n_bytes; i += 3) {
        const size_t left = n_bytes - i;
        const uint32_t w = (uint32_t)b[i] << 16 | (left > 1 ? (uint32_t)b[i + 1] << 8 : 0) | (left > 2 ? b[i + 2] : 0);
        putc(digits[w >> 18], f);
        putc(digits[w >> 12 & 63], f);
        putc(left > 1 ? digits[w >> 6 & 63] : '=', f);
        putc(left > 2 ? digits[w & 63] : '=', f);
    }
    putc('"', f);
}

static void put_name(FILE *f, const srv_server *s)
{
    json_t *name = srv_text_json(s->o.models.embedder_name, strlen(s->o.models.embedder_name));
    json_dumpf(name, f, JSON_ENCODE_ANY);
    json_decref(name);
}

/* A reply of OpenAI's route with vectors as numbers or as base64, of Ollama's route, and of its older one. */
typedef enum form { OPENAI, OPENAI_BASE64, OLLAMA, OLLAMA_ONE } form;

static char *reply_text(const embedding *e, form kind)
{
    static const char *const opening[] = {"\"object\":\"list\",\"data\":[", "\"object\":\"list\",\"data\":[",
                                          "\"embeddings\":[", "\"embedding\":"};
    const bool objects = kind <= OPENAI_BASE64;
    char *text = NULL;
    size_t size;
    FILE *f = cli_text_open(&text, &size);
    if (!f) return NULL;
    fputs("{\"model\":", f);
    put_name(f, e->call->s);
    fprintf(f, ",%s", opening[kind]);
    for (size_t i = 0; i < e->n; i++) {
        if (i) putc(',', f);
        if (objects) fprintf(f, "{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i);
        (kind == OPENAI_BASE64 ? put_base64 : put_numbers)(f, e->vectors + i * (size_t)e->n_dims, e->n_dims);
        if (objects) putc('}', f);
    }
    if (kind != OLLAMA_ONE) putc(']', f);
    const long long total = e->total;
    if (objects)
        fprintf(f, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}", total, total);
    else
        fprintf(f, ",\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%lld}",
                (long long)e->us * 1000, total);
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}

srv_sent srv_embeddings(srv_call *call)
{
    embedding e;
    char *text = NULL;
    bool base64 = false;
    if (run(&e, call, "input", false)) {
        const char *format = srv_field_string(&e.f, "encoding_format");
        base64 = format && strcmp(format, "base64") == 0;
        if (format && !base64 && strcmp(format, "float") != 0)
            srv_fields_refuse(&e.f, "encoding_format", "encoding_format must be float or base64");
        if (!e.f.failed) text = reply_text(&e, base64 ? OPENAI_BASE64 : OPENAI);
    }
    return end(&e, text, NULL);
}

srv_sent srv_ollama_embed(srv_call *call)
{
    embedding e;
    char *text = run(&e, call, "input", true) ? reply_text(&e, OLLAMA) : NULL;
    return end(&e, text, &srv_ollama_chat);
}

srv_sent srv_ollama_embeddings(srv_call *call)
{
    embedding e;
    bool good = run(&e, call, "prompt", true);
    if (good && e.n != 1) srv_fields_refuse(&e.f, "prompt", "prompt must be one text");
    char *text = good && e.n == 1 ? reply_text(&e, OLLAMA_ONE) : NULL;
    return end(&e, text, &srv_ollama_chat);
}

json_t *srv_encoder_json(const srv_server *s, const sp_embedder *e, const char *name)
{
    const sp_embedder_info i = sp_embedder_describe(e);
    return json_pack("{s:s, s:s, s:I, s:s, s:i, s:{s:s, s:i, s:i}}", "id", name, "object", "model",
                     "created", (json_int_t)s->started, "owned_by", "spolia", "max_model_len", i.max_tokens, "meta",
                     "arch", "bert", "n_embd", i.n_embd, "n_vocab", i.n_vocab);
}
