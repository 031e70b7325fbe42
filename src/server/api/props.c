/* props.c -- what clients of llama.cpp's server ask it about itself: GET /props and /slots. */
#include "server/api/handlers.h"

/* defaults_json -- sampling of a request that says nothing else, under llama.cpp's names. */
static json_t *defaults_json(const srv_options *o)
{
    const sp_sampling *d = &o->sampling;
    return json_pack("{s:i, s:I, s:f, s:i, s:f, s:f, s:i, s:f, s:f, s:f}", "n_predict",
                     o->max_tokens, "seed", (json_int_t)d->seed, "temperature",
                     (double)d->temperature, "top_k", d->top_k, "top_p", (double)d->top_p, "min_p",
                     (double)d->min_p, "repeat_last_n", d->repeat_last, "repeat_penalty",
                     (double)d->repeat_penalty, "presence_penalty", (double)d->presence_penalty,
                     "frequency_penalty", (double)d->frequency_penalty);
}

/* pace_json -- the speed of reading a prompt; null: unknown. */
static json_t *pace_json(const sp_context_info *now)
{
    if (now->token_us <= 0) return json_null();
    return json_pack("{s:f, s:b}", "ms_per_token", now->token_us / 1e3, "measured", now->token_measured);
}

srv_sent srv_props(srv_call *call)
{
    const srv_server *s = call->s;
    const char *jinja = sp_vocab_template(s->vocab);
    const sp_context_info now = sp_context_describe(s->ctx);
    return srv_reply_json(
        call->connection, 200,
        json_pack("{s:{s:i, s:o}, s:i, s:s, s:s, s:{s:b, s:b}, s:b, s:I, s:o, s:s}", "default_generation_settings",
                  "n_ctx", s->info.n_ctx, "params", defaults_json(&s->o), "total_slots",
                  s->o.limits.n_parallel, "model_alias", s->o.alias, "chat_template", jinja ? jinja : "",
                  "modalities", "vision", 0, "audio", 0, "graph", s->graph.of != NULL, "kv_bytes_per_token",
                  (json_int_t)(s->info.kv_block_bytes / 16), "prefill", pace_json(&now),
                  "build_info", "spolia " SPOLIA_VERSION));
}

/* Requests have no fixed slots here: the first ones of the list are running. */
srv_sent srv_slots(srv_call *call)
{
    const srv_server *s = call->s;
    json_t *list = json_array();
    int n = srv_load_of(s).n_running;
    for (int i = 0; i < s->o.limits.n_parallel; i++)
        json_array_append_new(list, json_pack("{s:i, s:i, s:b}", "id", i, "n_ctx", s->info.n_ctx,
                                              "is_processing", i < n));
    return srv_reply_json(call->connection, 200, list);
}
