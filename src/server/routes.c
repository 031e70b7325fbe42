#include "server/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/answer.h"
#include "server/documents.h"

/* -- replies ---------------------------------------------------------------------------------- */

/* send_later -- `text` is freed; `retry`: seconds until the client should try again. */
static srv_sent send_later(struct MHD_Connection *c, int status, const char *type, char *text,
                           int retry)
{
    char seconds[16];
    static char nothing[] = "out of memory\n";
    struct MHD_Response *r =
        text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE)
             : MHD_create_response_from_buffer(strlen(nothing), nothing, MHD_RESPMEM_PERSISTENT);
    if (!r) {
        free(text);
        return MHD_NO;
    }
    if (!text) status = 503;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, text ? type : "text/plain");
    snprintf(seconds, sizeof seconds, "%d", retry);
    if (status == 429 || status == 503)
        MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    if (status == 401) MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    srv_sent sent = srv_send(c, status, r);
    MHD_destroy_response(r);
    return sent;
}

static srv_sent send_text(struct MHD_Connection *c, int status, const char *type, char *text)
{
    return send_later(c, status, type, text, 1);
}

srv_sent srv_reply_events(struct MHD_Connection *c, struct MHD_Response *r)
{
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream; charset=utf-8");
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    MHD_add_response_header(r, "X-Accel-Buffering", "no"); /* nginx passes events on at once */
    srv_sent sent = srv_send(c, 200, r);
    MHD_destroy_response(r);
    return sent;
}

/* take_text -- of an object, which is freed; NULL: out of memory. */
static char *take_text(json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    return text;
}

srv_sent srv_reply_full(const srv_call *call)
{
    int retry = srv_pace_retry(&call->s->pace);
    char message[96];
    snprintf(message, sizeof message, "too many requests are waiting; try again in %d s", retry);
    char *text = take_text(srv_error_json(429, NULL, "queue_full", message));
    return send_later(call->connection, 429, "application/json", text, retry);
}

srv_sent srv_reply_json(struct MHD_Connection *c, int status, json_t *o)
{
    return send_text(c, status, "application/json", take_text(o));
}

srv_sent srv_reply_error(struct MHD_Connection *c, int status, const char *param, const char *code,
                         const char *message)
{
    return srv_reply_json(c, status, srv_error_json(status, param, code, message));
}

/* -- small handlers --------------------------------------------------------------------------- */

/* health -- 503 while the server shuts down: a proxy sends its requests elsewhere. */
static srv_sent health(srv_call *call)
{
    bool draining = call->s->draining;
    return srv_reply_json(call->connection, draining ? 503 : 200,
                          json_pack("{s:s}", "status", draining ? "draining" : "ok"));
}

static srv_sent ping(srv_call *call)
{
    return send_text(call->connection, 200, "text/plain", strdup("pong\n"));
}

static srv_sent version(srv_call *call)
{
    return srv_reply_json(call->connection, 200, json_pack("{s:s}", "version", SPOLIA_VERSION));
}

static json_t *model_json(const srv_server *s)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:i, s:{s:s, s:I, s:i}}", "id", s->o.alias, "object",
                     "model", "created", (json_int_t)s->started, "owned_by", "spolia",
                     "max_model_len", s->info.n_ctx, "meta", "arch", s->info.arch, "n_params",
                     (json_int_t)s->info.n_params, "n_vocab", s->info.n_vocab);
}

static srv_sent models(srv_call *call)
{
    return srv_reply_json(call->connection, 200,
                          json_pack("{s:s, s:[o]}", "object", "list", "data", model_json(call->s)));
}

static srv_sent one_model(srv_call *call)
{
    const char *id = call->path + strlen("/v1/models/");
    if (strcmp(id, call->s->o.alias) == 0)
        return srv_reply_json(call->connection, 200, model_json(call->s));
    return srv_reply_error(call->connection, 404, "model", "model_not_found",
                           "there is no such model");
}

static srv_sent metrics(srv_call *call)
{
    srv_server *s = call->s;
    sp_context_info i = sp_context_describe(s->ctx);
    srv_load load = srv_load_of(s);
    srv_gauges g = {.n_running = load.n_running, .n_waiting = load.n_waiting, .info = &i};
    g.n_guards = sp_context_guard_read(s->ctx, g.guards, SRV_MAX_GUARDS);
    if (g.n_guards > SRV_MAX_GUARDS) g.n_guards = SRV_MAX_GUARDS;
    char *text = srv_metrics_text(&s->metrics, &g);
    return send_text(call->connection, 200, "text/plain; version=0.0.4; charset=utf-8", text);
}

static srv_sent explain(srv_call *call)
{
    static const char end[] = "/explain";
    const char *id = call->path + strlen("/v1/requests/");
    size_t n = strlen(id), n_end = strlen(end);
    bool good = n > n_end && strcmp(id + n - n_end, end) == 0;
    char *name = good ? strndup(id, n - n_end) : NULL;
    json_t *o = name ? srv_explain_get(call->s->explain, call->salt, name) : NULL;
    free(name);
    if (o) return srv_reply_json(call->connection, 200, o);
    return srv_reply_error(call->connection, 404, NULL, "request_not_found",
                           "there is no account of such a request; the last ones are kept");
}

/* -- the table -------------------------------------------------------------------------------- */

static const struct {
    const char *method, *path;
    srv_handler *run;
    bool open;  /* without a key */
    bool probe; /* not logged */
    bool below; /* and every path that begins so */
} routes[] = {
    {"GET", "/health", health, .open = true, .probe = true},
    {"GET", "/ping", ping, .probe = true},
    {"GET", "/version", version},
    {"GET", "/metrics", metrics, .probe = true},
    {"GET", "/props", srv_props},
    {"GET", "/slots", srv_slots, .probe = true},
    {"GET", "/v1/models", models},
    {"GET", "/v1/models/", one_model, .below = true},
    {"POST", "/v1/chat/completions", srv_chat},
    {"POST", "/chat/completions", srv_chat},
    {"POST", "/v1/responses", srv_chat},
    {"POST", "/v1/completions", srv_completion},
    {"POST", "/completions", srv_completion},
    {"POST", "/tokenize", srv_tokenize},
    {"POST", "/detokenize", srv_detokenize},
    {"POST", "/apply-template", srv_apply_template},
    {"GET", "/v1/documents", srv_documents_all},
    {"POST", "/v1/documents", srv_documents_all},
    {"GET", "/v1/documents/", srv_documents_one, .below = true},
    {"POST", "/v1/documents/", srv_documents_one, .below = true},
    {"PUT", "/v1/documents/", srv_documents_one, .below = true},
    {"PATCH", "/v1/documents/", srv_documents_one, .below = true},
    {"DELETE", "/v1/documents/", srv_documents_one, .below = true},
    {"GET", "/v1/requests/", explain, .below = true},
};
#define N_ROUTES (sizeof routes / sizeof *routes)

static bool is_path(size_t i, const char *path)
{
    return routes[i].below ? strncmp(path, routes[i].path, strlen(routes[i].path)) == 0
                           : strcmp(path, routes[i].path) == 0;
}

/* is_method -- HEAD is GET without the body, which MHD leaves out. */
static bool is_method(size_t i, const char *method)
{
    return strcmp(method, routes[i].method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(routes[i].method, "GET") == 0);
}

static srv_sent run_route(srv_call *call, size_t i)
{
    char salt[SRV_SALT_SIZE];
    srv_server *s = call->s;
    call->record->probe = routes[i].probe;
    if (s->draining && strcmp(routes[i].method, "GET") != 0)
        return srv_reply_error(call->connection, 503, NULL, "shutting_down",
                               "the server is shutting down");
    if (s->keys && !routes[i].open) {
        const char *given = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND,
                                                        MHD_HTTP_HEADER_AUTHORIZATION);
        if (!srv_keys_check(s->keys, given, salt, call->record->key))
            return srv_reply_error(call->connection, 401, NULL, "invalid_api_key",
                                   "the API key is missing or unknown");
        call->salt = salt;
    }
    srv_sent sent = routes[i].run(call);
    call->salt = NULL;
    return sent;
}

srv_sent srv_route(srv_call *call)
{
    bool is_known = false;
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (!is_path(i, call->path)) continue;
        is_known = true;
        if (is_method(i, call->method)) return run_route(call, i);
    }
    if (is_known)
        return srv_reply_error(call->connection, 405, NULL, NULL, "this path has another method");
    return srv_reply_error(call->connection, 404, NULL, NULL, "there is no such path");
}
