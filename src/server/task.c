#include "server/task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "cli/calibration.h"
#include "cli/policies.h"

#define MOST_TOKENS 1000000 /* the context's size limits them further */

static float number(srv_fields *f, const char *name, float otherwise, double least, double most)
{
    return (float)srv_field_number(f, name, otherwise, least, most);
}

/* any_seed -- for sampling without a seed: another one each time. */
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
        .repeat_last = (int)srv_field_int(f, "repeat_last_n", d->repeat_last, 0, MOST_TOKENS),
    };
    const char *penalty = srv_field(f, "repetition_penalty") ? "repetition_penalty" : "repeat_penalty";
    t->sampling.repeat_penalty = number(f, penalty, d->repeat_penalty, 0.01, 100);
    if (t->sampling.top_k < 0) t->sampling.top_k = 0; /* vLLM: all */
    json_int_t seed = srv_field_int(f, "seed", -1, INT64_MIN, INT64_MAX);
    if (seed != -1)
        t->sampling.seed = (uint64_t)seed;
    else
        t->sampling.seed = t->sampling.temperature > 0 && d->seed == 0 ? any_seed() : d->seed;
}

/* read_max_tokens -- the field has three names; llama.cpp's -1 means no limit. */
static void read_max_tokens(srv_task *t, srv_fields *f, const srv_options *o)
{
    const char *name = "max_tokens";
    if (srv_field(f, "max_completion_tokens")) name = "max_completion_tokens";
    bool old_name = !srv_field(f, name) && srv_field(f, "n_predict");
    if (old_name) name = "n_predict";
    json_int_t n = srv_field_int(f, name, o->max_tokens, old_name ? -1 : 0, INT32_MAX);
    t->max_tokens = n < 0 || n > MOST_TOKENS ? MOST_TOKENS : (int)n;
}

static void read_stop(srv_task *t, srv_fields *f)
{
    const json_t *stop = srv_field(f, "stop");
    if (!stop) return;
    if (!json_is_array(stop)) {
        if (!json_is_string(stop))
            srv_fields_refuse(f, "stop", "stop must be a string or a list of strings");
        else if (*(t->stop[0] = json_string_value(stop)))
            t->n_stop = 1;
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
            t->stop[t->n_stop++] = s;
    }
}

/* -- reuse ------------------------------------------------------------------------------------ */

static void use_policy(srv_task *t, const char *policy)
{
    const cli_policy *p = cli_policy_find(policy, NULL);
    t->own_reuse = true;
    t->reuse = (sp_reuse_opts){.policy = policy, .exact_first = true};
    if (p && p->recomputes) t->reuse.recompute = (float)CALIBRATION_DEFAULT_SHARE;
}

static void read_mode(srv_task *t, srv_fields *f, const char *mode, const char *param)
{
    if (!cli_policy_find(mode, NULL) || strchr(mode, '+'))
        srv_fields_refuse(f, param, "%s is \"%.40s\" and must be one of: %s", param, mode,
                          cli_policy_names(CLI_ALL));
    else
        use_policy(t, mode);
}

/* read_reuse -- {"mode": policy, "recompute": share}, or the policy alone. */
static void read_reuse(srv_task *t, srv_fields *f)
{
    json_t *reuse = srv_field(f, "reuse");
    if (!reuse) return;
    if (json_is_string(reuse)) {
        read_mode(t, f, json_string_value(reuse), "reuse");
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
            read_mode(t, f, mode, "reuse.mode");
        if (!isnan(share)) t->reuse.recompute = (float)share;
    } else {
        srv_fields_refuse(f, "reuse", "reuse must be an object {\"mode\", \"recompute\"} or a string");
    }
}

static void read_quality(srv_task *t, srv_fields *f)
{
    static const struct {
        const char *name, *policy;
    } qualities[] = {{"exact", "prefix"}, {"balanced", "fusion"}, {"fast", "full"}};
    const char *quality = srv_field_string(f, "quality");
    if (!quality) return;
    for (size_t i = 0; i < sizeof qualities / sizeof *qualities; i++)
        if (strcmp(quality, qualities[i].name) == 0) {
            use_policy(t, qualities[i].policy);
            return;
        }
    srv_fields_refuse(f, "quality", "quality is \"%.40s\" and must be exact, balanced or fast",
                      quality);
}

/* -- what is not there yet ---------------------------------------------------------------------- */

/* is_empty -- a value that asks for nothing. */
static bool is_empty(const json_t *v)
{
    return json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_number(v) && json_number_value(v) == 0) ||
           (json_is_string(v) && !*json_string_value(v));
}

/* refuse_unsupported -- fields that change the answer are refused where they cannot be honoured. */
static void refuse_unsupported(const srv_task *t, srv_fields *f)
{
    static const char *const names[] = {
        "tools",       "functions",    "logprobs",       "top_logprobs",  "logit_bias",
        "grammar",     "json_schema",  "guided_json",    "guided_regex",  "guided_grammar",
        "guided_choice", "echo",       "suffix",         "audio"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = srv_field(f, names[i]);
        if (v && !is_empty(v))
            srv_fields_refuse(f, names[i], "%s is not supported", names[i]);
    }
    const json_t *format = srv_field(f, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (format && (!type || strcmp(type, "text") != 0))
        srv_fields_refuse(f, "response_format", "response_format: only {\"type\": \"text\"} is supported");
    json_int_t best_of = srv_field_int(f, "best_of", t->n, 1, SRV_MAX_N);
    if (best_of != t->n)
        srv_fields_refuse(f, "best_of", "best_of is not supported unless it equals n");
}

void srv_task_read(srv_task *t, srv_fields *f, const srv_options *o)
{
    t->stream = srv_field_bool(f, "stream", false);
    json_t *stream_options = srv_field(f, "stream_options");
    if (stream_options && !json_is_object(stream_options)) {
        srv_fields_refuse(f, "stream_options", "stream_options must be an object");
    } else if (stream_options) {
        srv_fields inner = {.object = stream_options};
        t->include_usage = srv_field_bool(&inner, "include_usage", false);
        if (inner.failed) srv_fields_refuse(f, "stream_options.include_usage", "%s", inner.why);
    }
    t->n = (int)srv_field_int(f, "n", 1, 1, SRV_MAX_N);
    t->ignore_end = srv_field_bool(f, "ignore_eos", false);
    read_max_tokens(t, f, o);
    read_sampling(t, f, o);
    read_stop(t, f);
    read_quality(t, f);
    read_reuse(t, f);
    if (!srv_field_bool(f, "cache_prompt", true)) use_policy(t, "off");
    refuse_unsupported(t, f);
}
