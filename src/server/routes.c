#include "server/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/embeddings.h"
#include "server/api/explain.h"
#include "server/api/handlers.h"
#include "server/api/rank.h"
#include "server/api/trees.h"
#include "server/dialects/anthropic.h"
#include "server/dialects/llama.h"
#include "server/dialects/ollama.h"
#include "server/documents/collections.h"
#include "server/documents/documents.h"
#include "server/documents/idle.h"
#include "server/http/memory.h"
#include "server/http/reply.h"
#include "server/page/page.h"

/* -- small handlers --------------------------------------------------------------------------- */

const char *srv_health_of(bool draining, int64_t step_us)
{
    const int64_t longest_us = 60 * INT64_C(1000000);
    return draining ? "draining" : step_us > longest_us ? "stalled" : "ok";
}

/* health -- 503 while the server shuts down or runs no steps, so that a proxy sends requests elsewhere. */
static srv_sent health(srv_call *call)
{
    const char *is = srv_health_of(call->s->counts.draining, sp_context_step_us(call->s->ctx));
    return srv_reply_json(call->connection, strcmp(is, "ok") == 0 ? 200 : 503,
                          json_pack("{s:s}", "status", is));
}

static srv_sent ping(srv_call *call)
{
    return srv_reply_text(call->connection, 200, "text/plain", strdup("pong\n"));
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

/* refuse_model -- which collections there are could not be read. */
static srv_sent refuse_model(const srv_call *call, sp_err err)
{
    const char *code;
    const int status = srv_error_status(err, &code);
    return srv_reply_error(call->connection, status, "model", code, sp_error_detail());
}

static srv_sent models(srv_call *call)
{
    const srv_models *m = &call->s->o.models;
    json_t *list = json_pack("[o]", model_json(call->s));
    const sp_err err = srv_collections_models(call, list);
    if (err != SP_OK) return json_decref(list), refuse_model(call, err);
    if (m->embedder) json_array_append_new(list, srv_encoder_json(call->s, m->embedder, m->embedder_name));
    if (m->reranker) json_array_append_new(list, srv_encoder_json(call->s, m->reranker, m->reranker_name));
    return srv_reply_json(call->connection, 200, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

static srv_sent one_model(srv_call *call)
{
    const char *id = call->path + strlen("/v1/models/");
    srv_found c;
    const sp_err err = strcmp(id, call->s->o.alias) == 0 ? SP_OK : srv_collection_of_model(call, id, &c);
    if (err == SP_OK) return srv_reply_json(call->connection, 200, model_json(call->s));
    const srv_models *m = &call->s->o.models;
    if (m->embedder && strcmp(id, m->embedder_name) == 0)
        return srv_reply_json(call->connection, 200, srv_encoder_json(call->s, m->embedder, m->embedder_name));
    if (m->reranker && strcmp(id, m->reranker_name) == 0)
        return srv_reply_json(call->connection, 200, srv_encoder_json(call->s, m->reranker, m->reranker_name));
    if (err != SP_E_NOTFOUND) return refuse_model(call, err);
    return srv_reply_error(call->connection, 404, "model", "model_not_found",
                           "there is no such model");
}

static srv_sent metrics(srv_call *call)
{
    srv_server *s = call->s;
    sp_context_info i = sp_context_describe(s->ctx);
    srv_load load = srv_load_of(s);
    srv_gauges g = {.n_running = load.n_running, .n_waiting = load.n_waiting, .info = &i};
    const srv_idle_report idle = srv_idle_describe(s);
    g.idle.n_planned = idle.n_planned;
    g.idle.n_done = idle.n_done;
    g.idle.n_computed = idle.n_computed;
    g.idle.n_given_up = idle.n_given_up;
    g.idle.busy_us = idle.busy_us;
    g.n_guards = sp_context_guard_read(s->ctx, g.guards, SRV_MAX_GUARDS);
    if (g.n_guards > SRV_MAX_GUARDS) g.n_guards = SRV_MAX_GUARDS;
    char *text = srv_metrics_text(&s->metrics, &g);
    return srv_reply_text(call->connection, 200, "text/plain; version=0.0.4; charset=utf-8", text);
}

static srv_sent explain(srv_call *call)
{
    static const char end[] = "/explain";
    const char *id = call->path + strlen("/v1/requests/");
    size_t n = strlen(id), n_end = strlen(end);
    bool good = n > n_end && strcmp(id + n - n_end, end) == 0;
    char *name = good ? strndup(id, n - n_end) : NULL;
    if (good && !name) srv_memory_lost(); /* the reply is an error */
    json_t *o = name ? srv_explain_get(call->s->explain, call->salt, name) : NULL;
    free(name);
    if (o) return srv_reply_json(call->connection, 200, o);
    return srv_reply_error(call->connection, 404, NULL, "request_not_found",
                           "there is no account of this request; only the latest ones are kept");
}

/* -- the table -------------------------------------------------------------------------------- */

const srv_route srv_routes[] = {
    {"GET", "/", srv_page, .open = true, .probe = true},
    {"GET", "/page/", srv_page, .open = true, .probe = true, .below = true},
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
    {"POST", "/v1/responses", srv_response},
    {"POST", "/v1/messages", srv_anthropic_messages},
    {"POST", "/v1/messages/count_tokens", srv_anthropic_count},
    {"POST", "/api/chat", srv_ollama_chat_call},
    {"POST", "/api/generate", srv_ollama_generate_call},
    {"GET", "/api/tags", srv_ollama_tags},
    {"POST", "/api/show", srv_ollama_show},
    {"GET", "/api/ps", srv_ollama_ps},
    {"GET", "/api/version", srv_ollama_version},
    {"POST", "/completion", srv_llama_completion_call},
    {"POST", "/infill", srv_llama_infill_call},
    {"POST", "/v1/completions", srv_completion},
    {"POST", "/completions", srv_completion},
    {"POST", "/v1/embeddings", srv_embeddings},
    {"POST", "/embeddings", srv_embeddings},
    {"POST", "/v1/rerank", srv_rerank},
    {"POST", "/v2/rerank", srv_rerank},
    {"POST", "/rerank", srv_rerank},
    {"POST", "/v1/score", srv_score},
    {"POST", "/score", srv_score},
    {"POST", "/api/embed", srv_ollama_embed},
    {"POST", "/api/embeddings", srv_ollama_embeddings},
    {"POST", "/tokenize", srv_tokenize},
    {"POST", "/detokenize", srv_detokenize},
    {"POST", "/apply-template", srv_apply_template},
    {"GET", "/v1/documents", srv_documents_all},
    {"POST", "/v1/documents", srv_documents_all, .form = true},
    {"GET", "/v1/documents/", srv_documents_one, .below = true},
    {"POST", "/v1/documents/", srv_documents_one, .below = true},
    {"PUT", "/v1/documents/", srv_documents_one, .below = true, .form = true},
    {"PATCH", "/v1/documents/", srv_documents_one, .below = true},
    {"DELETE", "/v1/documents/", srv_documents_one, .below = true},
    {"GET", "/v1/copies", srv_copies},
    {"GET", "/v1/collections", srv_collections_all},
    {"POST", "/v1/collections", srv_collections_all},
    {"GET", "/v1/collections/", srv_collections_one, .below = true},
    {"POST", "/v1/collections/", srv_collections_one, .below = true, .form = true},
    {"PUT", "/v1/collections/", srv_collections_one, .below = true, .form = true},
    {"PATCH", "/v1/collections/", srv_collections_one, .below = true},
    {"DELETE", "/v1/collections/", srv_collections_one, .below = true},
    {"POST", "/v1/search", srv_search},
    {"POST", "/v1/graph", srv_graph},
    {"GET", "/v1/requests", srv_requests, .probe = true},
    {"GET", "/v1/requests/", explain, .below = true},
    {NULL, NULL, NULL},
};

srv_error_form *srv_form_of_path(const char *path)
{
    static const char anthropic[] = "/v1/messages", ollama[] = "/api/";
    if (strncmp(path, anthropic, sizeof anthropic - 1) == 0) return srv_anthropic.error;
    return strncmp(path, ollama, sizeof ollama - 1) == 0 ? srv_ollama_chat.error : NULL;
}
