/* tokens.c -- /tokenize, /detokenize and /apply-template, as llama.cpp ("content", "tokens") and vLLM ("prompt")
 * have them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/json.h"
#include "cli/text.h"
#include "server/body/fields.h"
#include "server/api/logprobs.h"
#include "server/api/messages.h"
#include "server/api/handlers.h"
#include "server/http/memory.h"
#include "server/http/reply.h"

static srv_sent refuse(const srv_call *call, const srv_fields *f)
{
    return srv_fields_reply(call, f);
}

/* piece_json -- an id with its text; a piece of a character is a list of bytes, as in llama.cpp. */
static json_t *piece_json(const srv_call *call, int32_t id)
{
    char *piece = NULL;
    size_t n_piece = 0;
    const sp_err err = sp_vocab_piece(call->s->vocab, id, &piece, &n_piece);
    if (err == SP_E_NOMEM) srv_memory_lost();
    json_t *text = err == SP_OK ? json_stringn(piece, n_piece) : json_string("");
    for (size_t k = 0; k < n_piece && err == SP_OK && (!text || json_is_array(text)); k++) {
        if (!text) text = json_array();
        json_array_append_new(text, json_integer((unsigned char)piece[k]));
    }
    sp_buffer_free(piece);
    return json_pack("{s:i, s:o}", "id", (int)id, "piece", text);
}

/* What the ids of a text are like. */
typedef struct form {
    bool begins; /* with BOS, if the model wants one */
    bool parses; /* texts of special tokens are read as these tokens */
    bool pieces; /* each with its text */
} form;

static void add_ids(const srv_call *call, form as, const int32_t *ids, size_t n, json_t *list)
{
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, as.pieces ? piece_json(call, ids[i]) : json_integer(ids[i]));
}

static sp_err tokens_of(const srv_call *call, const char *text, form as, json_t *list)
{
    int32_t *bos = NULL, *ids = NULL;
    size_t n_bos = 0, n = 0;
    sp_err err = sp_vocab_encode(call->s->vocab, "", 0, true, &bos, &n_bos);
    if (err == SP_OK) err = sp_vocab_encode(call->s->vocab, text, strlen(text), as.parses, &ids, &n);
    const size_t from = as.parses ? n_bos : 0; /* then ids have BOS, too */
    if (err == SP_OK && as.begins) add_ids(call, as, bos, n_bos, list);
    if (err == SP_OK) add_ids(call, as, ids + from, n - from, list);
    sp_buffer_free(bos);
    sp_buffer_free(ids);
    return err;
}

srv_sent srv_tokenize(srv_call *call)
{
    srv_fields f;
    json_t *body = srv_fields_parse(&f, call->body, call->n);
    if (!body) return refuse(call, &f);
    const char *name = srv_field(&f, "prompt") ? "prompt" : "content";
    const char *text = srv_field_string(&f, name);
    const bool begins = srv_field_bool(&f, "add_special_tokens", srv_field_bool(&f, "add_special", false));
    const form as = {begins, srv_field_bool(&f, "parse_special", begins), srv_field_bool(&f, "with_pieces", false)};
    if (!text) srv_fields_refuse(&f, name, "%s must be a string", name);
    json_t *tokens = json_array();
    const sp_err err = f.failed ? SP_OK : tokens_of(call, text, as, tokens);
    if (err != SP_OK) srv_fields_fail(&f, name, NULL, err);
    json_decref(body);
    const json_int_t n = (json_int_t)json_array_size(tokens);
    json_t *o = json_pack("{s:o, s:I, s:i}", "tokens", tokens, "count", n, "max_model_len", call->s->info.n_ctx);
    if (!f.failed) return srv_reply_json(call->connection, 200, o);
    json_decref(o);
    return refuse(call, &f);
}

char *srv_pieces(const srv_server *s, const json_t *ids, size_t *n)
{
    char *text = NULL;
    FILE *f = cli_text_open(&text, n);
    bool good = f != NULL;
    for (size_t i = 0; i < json_array_size(ids) && good; i++) {
        char *piece = NULL;
        size_t n_piece = 0;
        json_int_t id = json_integer_value(json_array_get(ids, i));
        good = id >= 0 && id <= INT32_MAX &&
               sp_vocab_piece(s->vocab, (int32_t)id, &piece, &n_piece) == SP_OK;
        if (good) fwrite(piece, 1, n_piece, f);
        sp_buffer_free(piece);
    }
    if (f && fclose(f) == 0 && good) return text;
    free(text);
    return NULL;
}

srv_sent srv_detokenize(srv_call *call)
{
    srv_fields f;
    json_t *body = srv_fields_parse(&f, call->body, call->n);
    if (!body) return refuse(call, &f);
    const json_t *tokens = srv_field(&f, "tokens");
    int n_vocab = call->s->info.n_vocab;
    if (!json_is_array(tokens)) srv_fields_refuse(&f, "tokens", "tokens must be a list of ids");
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *id = json_array_get(tokens, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= n_vocab)
            srv_fields_refuse(&f, "tokens", "tokens must be ids below %d", n_vocab);
    }
    size_t n = 0;
    char *text = f.failed ? NULL : srv_pieces(call->s, tokens, &n);
    json_decref(body);
    if (!f.failed && !text) srv_fields_refuse(&f, "tokens", "out of memory"); /* the ids are checked */
    if (f.failed) return refuse(call, &f);
    json_t *content = srv_text_json(text, n);
    free(text);
    json_t *o = json_pack("{s:O, s:o}", "content", content, "prompt", content);
    return srv_reply_json(call->connection, 200, o);
}

/* apply -- the text of a chat; NULL after an error in *f. Owns: json_decref. */
static json_t *apply(const srv_call *call, srv_fields *f)
{
    srv_tools tools = {0};
    srv_conversation c = {0};
    char *json = NULL;
    json_t *text = NULL;
    srv_tools_read(&tools, f);
    if (!f->failed && srv_conversation_open(call, f, &tools, &c)) {
        json_t *request = json_pack(
            "{s:O, s:b, s:b, s:O*, s:O*}", "messages", c.messages, "add_generation_prompt",
            (int)srv_field_bool(f, "add_generation_prompt", !c.continues), "continue_final_message", (int)c.continues,
            "chat_template_kwargs", srv_field(f, "chat_template_kwargs"), "tools", c.shows_tools ? c.tools : NULL);
        char *dump = request ? json_dumps(request, JSON_COMPACT) : NULL;
        if (!dump) srv_fields_refuse(f, "messages", "out of memory for the messages");
        const sp_err err = dump ? sp_template_apply(call->s->vocab, NULL, dump, time(NULL), &json) : SP_OK;
        if (err != SP_OK) srv_fields_fail(f, "messages", NULL, err);
        free(dump);
        json_decref(request);
    }
    srv_conversation_close(&c);
    json_t *whole = json ? cli_load_json(json, strlen(json), 0, NULL) : NULL;
    text = json_incref(json_object_get(whole, "text"));
    json_decref(whole);
    sp_buffer_free(json);
    return text;
}

srv_sent srv_apply_template(srv_call *call)
{
    srv_fields f;
    json_t *body = srv_fields_parse(&f, call->body, call->n);
    if (!body) return refuse(call, &f);
    json_t *text = apply(call, &f);
    json_decref(body);
    if (f.failed) return refuse(call, &f);
    return srv_reply_json(call->connection, 200, json_pack("{s:o}", "prompt", text));
}
