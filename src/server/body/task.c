#include "server/body/task.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cli/options/policies.h"
#include "server/body/constrain.h"
#include "server/body/unsupported.h"

#define MOST_TOKENS 1000000 /* the context's size limits them further */

static float number(srv_fields *f, const char *name, float otherwise, double least, double most)
{
    return (float)srv_field_number(f, name, otherwise, least, most);
}

/* any_seed -- a different seed each time, for sampling without one. */
static uint64_t any_seed(void)
{
    uint64_t seed = 1;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = (uint64_t)(uintptr_t)&seed;
    return seed;
}

static void read_sampling(srv_task *t, srv_fields *f, const srv_options *o)
{
    const sp_sampling *d = &o->sampling;
    t->sampling = (sp_sampling){
        .temperature = number(f, "temperature", d->temperature, 0, 100),
        .top_p = number(f, "top_p", d->top_p, 0, 1),
        .min_p = number(f, "min_p", d->min_p, 0, 1),
        .top_k = (int)srv_field_int(f, "top_k", d->top_k, -1, INT32_MAX),
        .frequency_penalty = number(f, "frequency_penalty", d->frequency_penalty, -2, 2),
        .presence_penalty = number(f, "presence_penalty", d->presence_penalty, -2, 2),
        .repeat_last = (int)srv_field_int(f, "repeat_last_n", d->repeat_last, -1, MOST_TOKENS),
    };
    const char *penalty =
        srv_field(f, "repetition_penalty") ? "repetition_penalty" : "repeat_penalty";
    t->sampling.repeat_penalty = number(f, penalty, d->repeat_penalty, 0.01, 100);
    if (t->sampling.top_k < 0) t->sampling.top_k = 0; /* vLLM: all */
    if (t->sampling.repeat_last < 0) t->sampling.repeat_last = MOST_TOKENS; /* llama.cpp, Ollama: all */
    json_int_t seed = srv_field_int(f, "seed", -1, INT64_MIN, INT64_MAX);
    if (seed != -1)
        t->sampling.seed = (uint64_t)seed;
    else
        t->sampling.seed = t->sampling.temperature > 0 && d->seed == 0 ? any_seed() : d->seed;
}

/* read_place -- reads what determines its place in the queue. */
static void read_place(srv_task *t, srv_fields *f)
{
    t->queue.priority = (int)srv_field_int(f, "priority", 0, -1000000, 1000000);
    t->queue.max_wait_ms = srv_field_int(f, "max_wait_ms", 0, 0, 86400000);
}

/* read_max_tokens -- the field has three names. -1 is no limit, as with llama.cpp and LM Studio; OpenAI, which refuses
 * it, has no other meaning for it. */
static void read_max_tokens(srv_task *t, srv_fields *f, const srv_options *o)
{
    const char *name = "max_tokens";
    if (srv_field(f, "max_completion_tokens")) name = "max_completion_tokens";
    if (!srv_field(f, name) && srv_field(f, "n_predict")) name = "n_predict";
    json_int_t n = srv_field_int(f, name, o->max_tokens, -1, INT32_MAX);
    t->max_tokens = n < 0 || n > MOST_TOKENS ? MOST_TOKENS : (int)n;
}

static void read_stop(srv_task *t, srv_fields *f)
{
    const json_t *stop = srv_field(f, "stop");
    if (!stop) return;
    if (!json_is_array(stop)) {
        if (!json_is_string(stop))
            srv_fields_refuse(f, "stop", "stop must be a string or a list of strings");
        else if (*(t->stop.texts[0] = json_string_value(stop)))
            t->stop.n = 1;
        return;
    }
    if (json_array_size(stop) > SRV_MAX_STOP) {
        srv_fields_refuse(f, "stop", "stop has %zu strings, at most %d are allowed",
                          json_array_size(stop), SRV_MAX_STOP);
        return;
    }
    for (size_t i = 0; i < json_array_size(stop); i++) {
        const char *s = json_string_value(json_array_get(stop, i));
        char name[32];
        snprintf(name, sizeof name, "stop[%zu]", i);
        if (!s)
            srv_fields_refuse(f, name, "%s must be a string", name);
        else if (*s)
            t->stop.texts[t->stop.n++] = s;
    }
}

/* read_stop_tokens -- vLLM's; check_ids checks that the model has them. */
static void read_stop_tokens(srv_task *t, srv_fields *f)
{
    const json_t *list = srv_field(f, "stop_token_ids");
    if (list && (!json_is_array(list) || json_array_size(list) > SRV_MAX_STOP)) {
        srv_fields_refuse(f, "stop_token_ids",
                          "stop_token_ids must be a list of at most %d token ids", SRV_MAX_STOP);
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        json_int_t n = json_integer_value(id);
        if (!json_is_integer(id) || n < 0 || n > INT32_MAX) {
            srv_fields_refuse(f, "stop_token_ids", "stop_token_ids: item %zu is no token id", i);
            return;
        }
        t->stop.tokens[t->stop.n_tokens++] = (int32_t)n;
    }
}

/* read_continue -- messages.h reads what a chat continues. */
static void read_continue(srv_task *t, srv_fields *f)
{
    t->continues = srv_field_bool(f, "continue_final_message", false);
    if (t->continues && !t->chat)
        srv_fields_refuse(f, "continue_final_message", "continue_final_message needs a chat");
    if (!srv_field_bool(f, "add_generation_prompt", true) && !t->continues)
        srv_fields_refuse(f, "add_generation_prompt", "add_generation_prompt: false needs continue_final_message");
}

/* read_suffix -- of completions; a chat has no such field. */
static void read_suffix(srv_task *t, srv_fields *f)
{
    const char *suffix = srv_field_string(f, "suffix");
    if (!suffix || !*suffix) return;
    if (t->chat || t->reply.echo)
        srv_fields_refuse(f, "suffix",
                          t->chat ? "suffix is for /v1/completions" : "suffix: not with echo");
    t->suffix = suffix;
}

/* -- probabilities ---------------------------------------------------------------------------- */

#define MOST_BIASES 4096

/* read_one_bias -- llama.cpp: false means never. */
static bool read_one_bias(srv_fields *f, const char *id, const json_t *value, sp_logit_bias *out)
{
    char *end;
    long long n = strtoll(id, &end, 10);
    double bias = json_is_false(value) ? -100 : json_number_value(value);
    bool good = *id && !*end && n >= 0 && n <= INT32_MAX &&
                (json_is_number(value) || json_is_false(value)) && bias >= -100 && bias <= 100;
    if (!good)
        srv_fields_refuse(f, "logit_bias",
                          "logit_bias: \"%.20s\" must be a token id with a number from -100 to 100",
                          id);
    /* OpenAI: 100 in effect selects a token and -100 forbids it */
    *out = (sp_logit_bias){(int32_t)n, bias <= -100 ? -INFINITY : (float)bias};
    return good;
}

/* read_bias -- {"id": bias}, or llama.cpp's [[id, bias]]. */
static void read_bias(srv_task *t, srv_fields *f)
{
    json_t *given = srv_field(f, "logit_bias");
    bool is_list = json_is_array(given);
    size_t n = is_list ? json_array_size(given) : json_object_size(given);
    if (given && !is_list && !json_is_object(given))
        srv_fields_refuse(f, "logit_bias",
                          "logit_bias must be an object from token ids to numbers");
    if (n > MOST_BIASES)
        srv_fields_refuse(f, "logit_bias", "logit_bias has more than %d tokens", MOST_BIASES);
    if (f->failed || n == 0) return;
    t->bias = calloc(n, sizeof *t->bias);
    if (!t->bias) {
        srv_fields_refuse(f, "logit_bias", "out of memory for logit_bias");
        return;
    }
    t->sampling.bias = t->bias;
    const char *id;
    const json_t *value;
    for (size_t i = 0; is_list && i < n; i++) {
        const json_t *pair = json_array_get(given, i);
        char text[24] = "";
        if (json_is_integer(json_array_get(pair, 0)))
            snprintf(text, sizeof text, "%lld",
                     (long long)json_integer_value(json_array_get(pair, 0)));
        if (!read_one_bias(f, text, json_array_get(pair, 1), &t->bias[t->sampling.n_bias++]))
            return;
    }
    json_object_foreach(is_list ? NULL : given, id, value)
    {
        if (!read_one_bias(f, id, value, &t->bias[t->sampling.n_bias++])) return;
    }
}

/* read_logprobs -- chat: true, and top_logprobs; completions: a number, whose 0 is only the tokens
 * themselves. */
static void read_logprobs(srv_task *t, srv_fields *f)
{
    const json_t *given = srv_field(f, "logprobs");
    if (!t->chat && given && !json_is_boolean(given)) {
        t->reply.logprobs = true;
        t->reply.top_logprobs = (int)srv_field_int(f, "logprobs", 0, 0, SP_MAX_TOP_LOGPROBS);
        return;
    }
    t->reply.logprobs = srv_field_bool(f, "logprobs", false);
    json_int_t top = srv_field_int(f, "top_logprobs", 0, 0, SP_MAX_TOP_LOGPROBS);
    if (top > 0 && !t->reply.logprobs)
        srv_fields_refuse(f, "top_logprobs", "top_logprobs needs logprobs to be true");
    t->reply.top_logprobs = (int)top;
}

/* -- reuse ------------------------------------------------------------------------------------ */

static void use_reuse(srv_task *t, sp_reuse_opts reuse)
{
    t->own_reuse = true;
    t->reuse = reuse;
}

/* use_calibrated -- applies the model's calibration; `named`, a text of the body, keeps the policy. */
static void use_calibrated(srv_task *t, srv_fields *f, json_t *named, const sp_calibration *found)
{
    if (json_string_set(named, found->policy) != 0)
        srv_fields_refuse(f, "reuse", "out of memory");
    else
        use_reuse(t, (sp_reuse_opts){
                         .policy = json_string_value(named), .recompute = found->recompute, .exact_first = true});
}

/* read_mode -- a policy, with or without parameters. */
static void read_mode(srv_task *t, srv_fields *f, const srv_options *o, json_t *named, const char *param)
{
    const char *mode = json_string_value(named);
    sp_calibration found;
    if (sp_reuse_parse(mode, NULL, NULL) != SP_OK)
        srv_fields_refuse(f, param, "%s", sp_error_detail());
    else if (sp_calibration_of_policy(mode, o->model, &found) != SP_OK)
        srv_fields_refuse(f, param, "%s", sp_error_detail());
    else
        use_calibrated(t, f, named, &found);
}

/* read_params -- fields of the object that are parameters of its policy become part of "mode", which stays in the
 * body. */
static void read_params(srv_task *t, srv_fields *f, const srv_options *o, json_t *object, const char *mode,
                        bool has_share)
{
    const char *key;
    json_t *value;
    char spec[CLI_SPEC];
    size_t n = (size_t)snprintf(spec, sizeof spec, "%s", mode);
    json_object_foreach(object, key, value) {
        if (strcmp(key, "mode") == 0 || strcmp(key, "recompute") == 0 || n >= sizeof spec) continue;
        if (json_is_null(value)) continue;
        if (!json_is_number(value)) {
            srv_fields_refuse(f, "reuse", "reuse.%.40s must be a number", key);
            return;
        }
        n += (size_t)snprintf(spec + n, sizeof spec - n, "%c%.40s=%.9g", strchr(spec, ':') ? ',' : ':',
                              key, json_number_value(value));
    }
    const sp_reuse_param *amount = has_share ? cli_policy_amount_param(cli_policy_find(spec, NULL)) : NULL;
    if (n < sizeof spec && amount) cli_policy_add(spec, amount->name, 0); /* the share decides */
    if (n < sizeof spec && json_object_set_new(object, "mode", json_string(spec)) == 0)
        read_mode(t, f, o, json_object_get(object, "mode"), "reuse.mode");
    else
        srv_fields_refuse(f, "reuse", "reuse is too long");
}

/* read_reuse -- {"mode": policy, "recompute": share, parameters of the policy}, or the policy alone. */
static void read_reuse(srv_task *t, srv_fields *f, const srv_options *o)
{
    json_t *reuse = srv_field(f, "reuse");
    if (!reuse) return;
    if (json_is_string(reuse)) {
        read_mode(t, f, o, reuse, "reuse");
    } else if (json_is_object(reuse)) {
        srv_fields inner = {.object = reuse};
        const char *mode = srv_field_string(&inner, "mode");
        double share = srv_field_number(&inner, "recompute", NAN, 0, 1);
        if (inner.failed)
            srv_fields_refuse(f, "reuse", "reuse: %s", inner.why);
        else if (!mode)
            srv_fields_refuse(f, "reuse.mode", "reuse.mode is missing: one of: %s",
                              cli_policy_names(CLI_ALL));
        else
            read_params(t, f, o, reuse, mode, !isnan(share));
        if (!isnan(share)) t->reuse.recompute = (float)share;
    } else {
        srv_fields_refuse(f, "reuse",
                          "reuse must be an object {\"mode\", \"recompute\", parameters} or a string");
    }
}

static void read_quality(srv_task *t, srv_fields *f, const srv_options *o)
{
    const char *quality = srv_field_string(f, "quality");
    sp_calibration found;
    if (!quality) return;
    if (srv_field(f, "reuse"))
        srv_fields_refuse(f, "quality", "quality and reuse exclude each other: a quality chooses the policy");
    else if (sp_calibration_of_quality(quality, o->model, &found) != SP_OK)
        srv_fields_refuse(f, "quality", "%s", sp_error_detail());
    else
        use_calibrated(t, f, srv_field(f, "quality"), &found);
}

static void read_best_of(const srv_task *t, srv_fields *f)
{
    json_int_t best_of = srv_field_int(f, "best_of", t->n, 1, SRV_MAX_N);
    if (best_of != t->n)
        srv_fields_refuse(f, "best_of", "best_of is not supported unless it equals n");
}

static void read_stream(srv_task *t, srv_fields *f)
{
    t->reply.stream = srv_field_bool(f, "stream", false);
    t->reply.progress = srv_field_bool(f, "return_progress", false);
    t->reply.citations = srv_field_bool(f, "citations", false);
    json_t *stream_options = srv_field(f, "stream_options");
    if (stream_options && !json_is_object(stream_options)) {
        srv_fields_refuse(f, "stream_options", "stream_options must be an object");
    } else if (stream_options) {
        srv_fields inner = {.object = stream_options};
        t->reply.include_usage = srv_field_bool(&inner, "include_usage", false);
        if (inner.failed) srv_fields_refuse(f, "stream_options.include_usage", "%s", inner.why);
    }
}

void srv_task_read(srv_task *t, srv_fields *f, const srv_options *o)
{
    read_stream(t, f);
    t->n = (int)srv_field_int(f, "n", 1, 1, SRV_MAX_N);
    t->ignore_end = srv_field_bool(f, "ignore_eos", false);
    read_max_tokens(t, f, o);
    read_place(t, f);
    read_sampling(t, f, o);
    t->min_tokens = (int)srv_field_int(f, "min_tokens", 0, 0, MOST_TOKENS);
    t->reply.echo = srv_field_bool(f, "echo", false);
    read_bias(t, f);
    read_logprobs(t, f);
    read_stop(t, f);
    read_stop_tokens(t, f);
    read_suffix(t, f);
    read_continue(t, f);
    if (t->chat) srv_tools_read(&t->tools, f);
    read_quality(t, f, o);
    read_reuse(t, f, o);
    t->decode = srv_field_string(f, "decode");
    if (!srv_field_bool(f, "cache_prompt", true)) use_reuse(t, (sp_reuse_opts){.policy = "off"});
    srv_fields_refuse_unsupported(f);
    read_best_of(t, f);
    if (!f->failed) t->grammar = srv_constrain_read(f);
}

void srv_task_fini(srv_task *t)
{
    sp_grammar_destroy(t->grammar);
    free(t->bias);
    t->grammar = NULL;
    t->bias = NULL;
}
