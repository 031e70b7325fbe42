#include "server/http/reply.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "cli/text.h"
#include "server/http/memory.h"

json_t *srv_text_json(const char *text, size_t n)
{
    json_t *whole_json = json_stringn(text, n);
    char *whole = NULL;
    size_t size;
    FILE *f = whole_json ? NULL : cli_text_open(&whole, &size);
    if (!f) return whole_json;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
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

static const char *error_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    default:
        return status < 500 ? "invalid_request_error" : "server_error";
    }
}

json_t *srv_error_json(int status, const char *param, const char *code, const char *message)
{
    json_t *text = srv_text_json(message, strlen(message));
    return json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", text, "type",
                     error_type(status), "param", param && *param ? param : NULL, "code", code);
}

/* error_json -- as the clients of the path read it. */
static json_t *error_json(struct MHD_Connection *c, int status, const char *param, const char *code,
                          const char *message)
{
    srv_error_form *form = srv_error_form_of(c);
    return form ? form(status, code, message) : srv_error_json(status, param, code, message);
}

void srv_add_header(struct MHD_Response *r, const char *name, const char *value)
{
    errno = 0;
    if (MHD_add_response_header(r, name, value) != MHD_YES && errno == ENOMEM) srv_memory_lost();
}

/* send_later -- `text` is freed; `retry`: seconds until the client should try again. */
static srv_sent send_later(struct MHD_Connection *c, int status, const char *type, char *text,
                           int retry)
{
    char seconds[16];
    static char nothing[] = "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
                            "\"param\":null,\"code\":\"out_of_memory\"}}";
    struct MHD_Response *r =
        text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE)
             : MHD_create_response_from_buffer(strlen(nothing), nothing, MHD_RESPMEM_PERSISTENT);
    if (!r) {
        free(text);
        return MHD_NO;
    }
    if (!text) status = 503;
    srv_add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, text ? type : "application/json");
    snprintf(seconds, sizeof seconds, "%d", retry);
    if (status == 429 || status == 503)
        srv_add_header(r, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    if (status == 401) srv_add_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    srv_sent sent = srv_send(c, status, r);
    MHD_destroy_response(r);
    return sent;
}

srv_sent srv_reply_no_memory(struct MHD_Connection *c)
{
    return send_later(c, 503, NULL, NULL, 1);
}

srv_sent srv_reply_text(struct MHD_Connection *c, int status, const char *type, char *text)
{
    if (srv_memory_failed()) { /* a part of it may be missing */
        free(text);
        text = NULL;
    }
    return send_later(c, status, type, text, 1);
}

srv_sent srv_reply_events(struct MHD_Connection *c, struct MHD_Response *r, bool lines)
{
    srv_add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE,
                   lines ? "application/x-ndjson" : "text/event-stream; charset=utf-8");
    srv_add_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    srv_add_header(r, "X-Accel-Buffering", "no"); /* nginx passes events on at once */
    srv_sent sent = srv_send(c, 200, r);
    MHD_destroy_response(r);
    return sent;
}

/* take_text -- of an object, which is freed; NULL: out of memory. */
static char *take_text(json_t *o)
{
    char *text = o && !srv_memory_failed() ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    if (!srv_memory_failed()) return text;
    free(text);
    return NULL;
}

/* refuse_for -- an error that ends in `retry` seconds. */
static srv_sent refuse_for(const srv_call *call, int status, const char *code, const char *message, int retry)
{
    srv_record_error(srv_record_of(call->connection), NULL, code, message);
    char *text = take_text(error_json(call->connection, status, NULL, code, message));
    return send_later(call->connection, status, "application/json", text, retry);
}

srv_sent srv_reply_refused(const srv_call *call, srv_verdict v)
{
    const srv_limits *l = &call->left->limits;
    double wait = ceil(call->left->retry_s);
    int retry = v == SRV_NO_PLACE ? srv_pace_retry(&call->s->pace) : wait < 1 ? 1 : (int)wait;
    char message[128];
    srv_metrics_refused(&call->s->metrics);
    if (v == SRV_NO_PLACE)
        snprintf(message, sizeof message, "too many requests are waiting; try again in %d s", retry);
    else if (v == SRV_TOO_MANY_REQUESTS)
        snprintf(message, sizeof message, "this key may send %lld requests a minute; try again in %d s",
                 (long long)l->requests, retry);
    else if (v == SRV_TOO_MANY_TOKENS)
        snprintf(message, sizeof message, "this key may use %lld tokens a minute; try again in %d s",
                 (long long)l->tokens, retry);
    else
        snprintf(message, sizeof message, "the prompt is longer than the %lld tokens a minute of this key",
                 (long long)l->tokens);
    return refuse_for(call, 429, v == SRV_NO_PLACE ? "queue_full" : "rate_limit_exceeded", message, retry);
}

srv_sent srv_reply_bodies_full(const srv_call *call)
{
    return refuse_for(call, 503, "too_many_bodies",
                      "the bodies of all requests together are too long now; try again in 1 s", 1);
}

srv_sent srv_reply_too_long(const srv_call *call)
{
    char why[80];
    snprintf(why, sizeof why, "the body is longer than %zu bytes", call->s->o.limits.body_bytes);
    return srv_reply_error(call->connection, 413, NULL, "body_too_long", why);
}

srv_sent srv_reply_method(const srv_call *call, const char *methods)
{
    static const char why[] = "this path has another method";
    srv_record_error(srv_record_of(call->connection), NULL, NULL, why);
    char *text = take_text(error_json(call->connection, 405, NULL, NULL, why));
    struct MHD_Response *r =
        text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!r) {
        free(text);
        return MHD_NO;
    }
    srv_add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    srv_add_header(r, MHD_HTTP_HEADER_ALLOW, methods);
    srv_sent sent = srv_send(call->connection, 405, r);
    MHD_destroy_response(r);
    return sent;
}

srv_sent srv_reply_json(struct MHD_Connection *c, int status, json_t *o)
{
    return srv_reply_text(c, status, "application/json", take_text(o));
}

int srv_error_status(sp_err err, const char **code)
{
    *code = NULL;
    switch (err) {
    case SP_E_CONTEXT:
        *code = "context_length_exceeded";
        return 400;
    case SP_E_ARG:
    case SP_E_LIMIT:
    case SP_E_UNSUPPORTED:
        return 400;
    case SP_E_NOMEM:
    case SP_E_NOKV:
        *code = "out_of_memory";
        return 503;
    case SP_E_CANCELED: /* max_wait_ms */
        *code = "deadline_exceeded";
        return 504;
    default:
        return 500;
    }
}

srv_sent srv_reply_error(struct MHD_Connection *c, int status, const char *param, const char *code,
                         const char *message)
{
    srv_record_error(srv_record_of(c), param, code, message);
    return srv_reply_json(c, status, error_json(c, status, param, code, message));
}
