/* tokens.c -- /tokenize and /detokenize, as llama.cpp ("content", "tokens") and vLLM ("prompt")
 * have them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "server/fields.h"
#include "server/routes.h"

static srv_sent refuse(const srv_call *call, const srv_fields *f)
{
    return srv_reply_error(call->connection, 400, f->param, NULL, f->why);
}

static json_t *ids_json(const int32_t *ids, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

srv_sent srv_tokenize(srv_call *call)
{
    srv_fields f;
    json_t *body = srv_fields_parse(&f, call->body, call->n);
    if (!body) return refuse(call, &f);
    const char *name = srv_field(&f, "prompt") ? "prompt" : "content";
    const char *text = srv_field_string(&f, name);
    bool special = srv_field_bool(&f, "add_special_tokens", srv_field_bool(&f, "add_special", false));
    if (!text) srv_fields_refuse(&f, "content", "content (or prompt) must be a string");
    int32_t *ids = NULL;
    size_t n = 0;
    if (!f.failed &&
        sp_vocab_encode(call->s->vocab, text, strlen(text), special, &ids, &n) != SP_OK)
        srv_fields_refuse(&f, name, "%s", sp_error_detail());
    json_decref(body);
    if (f.failed) return refuse(call, &f);
    json_t *o = json_pack("{s:o, s:I, s:i}", "tokens", ids_json(ids, n), "count", (json_int_t)n,
                          "max_model_len", call->s->info.n_ctx);
    sp_buffer_free(ids);
    return srv_reply_json(call->connection, 200, o);
}

/* add_piece -- the bytes of one token, appended to *text [*n]. */
static bool add_piece(const srv_call *call, srv_fields *f, const json_t *id, char **text, size_t *n)
{
    json_int_t v = json_integer_value(id);
    char *piece;
    size_t n_piece;
    if (!json_is_integer(id) || v < 0 || v >= call->s->info.n_vocab) {
        srv_fields_refuse(f, "tokens", "tokens must be ids below %d", call->s->info.n_vocab);
        return false;
    }
    if (sp_vocab_piece(call->s->vocab, (int32_t)v, &piece, &n_piece) != SP_OK) {
        srv_fields_refuse(f, "tokens", "%s", sp_error_detail());
        return false;
    }
    char *more = realloc(*text, *n + n_piece + 1);
    if (more) {
        memcpy(more + *n, piece, n_piece);
        *text = more;
        *n += n_piece;
    } else {
        srv_fields_refuse(f, "tokens", "out of memory");
    }
    sp_buffer_free(piece);
    return more != NULL;
}

/* utf8_json -- a string; bytes that are no UTF-8 (a character that was cut) become U+FFFD. */
static json_t *utf8_json(const char *text, size_t n)
{
    char *whole = NULL;
    size_t size;
    FILE *f = open_memstream(&whole, &size);
    if (!f) return NULL;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                              (utf8proc_ssize_t)(n - i), &c);
        if (k > 0)
            fwrite(text + i, 1, (size_t)k, f);
        else
            fputs("\xef\xbf\xbd", f);
        i += k > 0 ? (size_t)k : 1;
    }
    json_t *s = fclose(f) == 0 ? json_stringn(whole, size) : NULL;
    free(whole);
    return s;
}

srv_sent srv_detokenize(srv_call *call)
{
    srv_fields f;
    json_t *body = srv_fields_parse(&f, call->body, call->n);
    if (!body) return refuse(call, &f);
    const json_t *tokens = srv_field(&f, "tokens");
    char *text = NULL;
    size_t n = 0;
    if (!json_is_array(tokens)) srv_fields_refuse(&f, "tokens", "tokens must be a list of ids");
    for (size_t i = 0; i < json_array_size(tokens) && !f.failed; i++)
        add_piece(call, &f, json_array_get(tokens, i), &text, &n);
    json_decref(body);
    json_t *content = f.failed ? NULL : utf8_json(text, n);
    free(text);
    if (f.failed) return refuse(call, &f);
    json_t *o = json_pack("{s:O, s:o}", "content", content, "prompt", content);
    return srv_reply_json(call->connection, 200, o);
}
