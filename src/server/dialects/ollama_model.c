/* ollama_model.c -- what clients of Ollama ask about models: there is one, and it is loaded. */
#include <stdio.h>
#include <string.h>

#include "server/dialects/ollama.h"
#include "server/http/reply.h"

static json_t *details_json(const srv_server *s)
{
    char size[32];
    double n = (double)s->info.n_params;
    snprintf(size, sizeof size, n >= 1e9 ? "%.1fB" : "%.1fM", n >= 1e9 ? n / 1e9 : n / 1e6);
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s}", "parent_model", "", "format", "gguf",
                     "family", s->info.arch, "families", s->info.arch, "parameter_size", size,
                     "quantization_level", "unknown");
}

static json_t *model_json(const srv_server *s)
{
    return json_pack("{s:s, s:s, s:o, s:I, s:s, s:o}", "name", s->o.alias, "model", s->o.alias,
                     "modified_at", srv_ollama_time(s->started), "size", (json_int_t)0, "digest",
                     "", "details", details_json(s));
}

srv_sent srv_ollama_tags(srv_call *call)
{
    return srv_reply_json(call->connection, 200,
                          json_pack("{s:[o]}", "models", model_json(call->s)));
}

srv_sent srv_ollama_ps(srv_call *call)
{
    json_t *model = model_json(call->s);
    json_object_set_new(model, "size_vram", json_integer(0));
    json_object_set_new(model, "context_length", json_integer(call->s->info.n_ctx));
    json_object_set_new(model, "expires_at", json_string("9999-12-31T00:00:00Z"));
    return srv_reply_json(call->connection, 200, json_pack("{s:[o]}", "models", model));
}

srv_sent srv_ollama_version(srv_call *call)
{
    return srv_reply_json(call->connection, 200, json_pack("{s:s}", "version", SPOLIA_VERSION));
}

static json_t *info_json(const srv_server *s)
{
    const struct {
        const char *name;
        int64_t n;
    } sizes[] = {{"context_length", s->info.n_ctx},
                 {"embedding_length", s->info.n_embd},
                 {"block_count", s->info.n_layers},
                 {"attention.head_count", s->info.n_heads},
                 {"attention.head_count_kv", s->info.n_kv_heads},
                 {"vocab_size", s->info.n_vocab}};
    json_t *o = json_pack("{s:s, s:I}", "general.architecture", s->info.arch,
                          "general.parameter_count", (json_int_t)s->info.n_params);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[96];
        snprintf(name, sizeof name, "%s.%s", s->info.arch, sizes[i].name);
        json_object_set_new(o, name, json_integer(sizes[i].n));
    }
    return o;
}

srv_sent srv_ollama_show(srv_call *call)
{
    const srv_server *s = call->s;
    const char *jinja = sp_vocab_template(s->vocab);
    return srv_reply_json(call->connection, 200,
                          json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:[s, s]}", "license", "",
                                    "modelfile", "", "parameters", "", "template",
                                    jinja ? jinja : "", "modified_at", srv_ollama_time(s->started),
                                    "details", details_json(s), "model_info", info_json(s),
                                    "capabilities", "completion", "tools"));
}
