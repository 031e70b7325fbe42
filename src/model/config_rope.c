/* config_rope.c -- reads the rotary parameters of a configuration. Layers with a window may have
 * parameters of their own (gemma3): a second section of config.json, or a second base.
 *
 * Scalings that change with the length of the prompt (dynamic NTK, longrope) are computed as for
 * prompts within the trained length, and the context is limited to it: a key that is kept must not
 * change when a longer prompt uses it. */
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "model/config_int.h"

#define AT(field) SP_CONFIG_AT(field)
#define INT       SP_PARAM_INT
#define DOUBLE    SP_PARAM_DOUBLE

static const sp_param numbers[] = {
    {AT(rope.base), DOUBLE, "rope.freq_base", "rope_theta", 2, 1e15},
    {AT(rope.base), DOUBLE, NULL, "rope.rope_theta", 2, 1e15},
    {AT(rope.n_rot), INT, "rope.dimension_count", NULL, 2, 4096},
    {AT(rope.part), DOUBLE, NULL, "partial_rotary_factor", 1e-3, 1, false, SP_PARTIAL_ROPE},
    {AT(rope.part), DOUBLE, NULL, "rope.partial_rotary_factor", 1e-3, 1, false, SP_PARTIAL_ROPE},
    {AT(rope.factor), DOUBLE, "rope.scale_linear", NULL, 0, 1e6},
    {AT(rope.factor), DOUBLE, "rope.scaling.factor", "rope.factor", 0, 1e6},
    {AT(rope.trained_ctx), INT, "rope.scaling.original_context_length", "rope.original_max_position_embeddings", 1, 1 << 30},
    {AT(rope.trained_ctx), INT, NULL, "original_max_position_embeddings", 1, 1 << 30},
    {AT(rope.low), DOUBLE, NULL, "rope.low_freq_factor", 1e-3, 1e6},
    {AT(rope.high), DOUBLE, NULL, "rope.high_freq_factor", 1e-3, 1e6},
    {AT(rope.beta_fast), DOUBLE, "rope.scaling.yarn_beta_fast", "rope.beta_fast", 1e-3, 1e6},
    {AT(rope.beta_slow), DOUBLE, "rope.scaling.yarn_beta_slow", "rope.beta_slow", 1e-3, 1e6},
    {AT(rope.attention), DOUBLE, "rope.scaling.attn_factor", "rope.attention_factor", 1e-3, 1e3},
    {AT(rope.mscale), DOUBLE, NULL, "rope.mscale", 0, 1e3},
    {AT(rope.mscale_all), DOUBLE, NULL, "rope.mscale_all_dim", 0, 1e3},
    {AT(rope.mscale_all), DOUBLE, "rope.scaling.yarn_log_multiplier", NULL, 0, 1e3, false, SP_ATTN_TEMPERATURE},
    {AT(hp.attn_growth), SP_PARAM_FLOAT, "attention.temperature_scale", "rope.llama_4_scaling_beta", 0, 1e3, false,
     SP_ATTN_TEMPERATURE},
};
static const sp_param local_base = {AT(rope_local.base), DOUBLE, "rope.freq_base_swa", "rope_local_base_freq", 2, 1e15,
                                    false, SP_TWO_ROPES};

sp_params sp_config_rope_numbers(void)
{
    return (sp_params){numbers, SP_COUNT(numbers)};
}

/* The other known parameters of rope_scaling. Ignoring an unknown one would silently rotate wrongly. */
static const char *const known[] = {"rope_type", "type",         "finetuned",
                                    "truncate",  "short_factor", "long_factor", "max_position_embeddings"};

/* How pictures are rotated: positions of text have three equal parts. */
static const char *const of_pictures[] = {"mrope_section", "mrope_interleaved"};

/* GGUF has no name for llama3 and longrope: their factors are tensors of the file. */
static const struct {
    const char *gguf, *hf;
    sp_rope_scaling scaling;
} types[] = {
    {"none", "default", SP_ROPE_PLAIN}, {"linear", "linear", SP_ROPE_LINEAR},
    {NULL, "llama3", SP_ROPE_LLAMA3},   {"yarn", "yarn", SP_ROPE_YARN},
    {NULL, "dynamic", SP_ROPE_PLAIN},   {"longrope", "longrope", SP_ROPE_LONG},
    {NULL, "su", SP_ROPE_LONG},
};

/* -- sections ------------------------------------------------------------------------------- */

sp_err sp_config_find_rope(sp_source *s)
{
    s->rope_section = "rope_scaling"; /* the older name; transformers reads it first, unless it is empty */
    s->rope = json_object_get(s->root, s->rope_section);
    if (!s->rope || json_is_null(s->rope) || (json_is_object(s->rope) && json_object_size(s->rope) == 0)) {
        s->rope_section = "rope_parameters";
        s->rope = json_object_get(s->root, s->rope_section);
    }
    if (json_is_null(s->rope)) s->rope = NULL;
    if (s->rope && !json_is_object(s->rope))
        return sp_fail(SP_E_FORMAT, "%s: %s: is not an object", s->path, s->rope_section);
    const bool two = s->arch->traits & SP_TWO_ROPES;
    json_t *full = json_object_get(s->rope, "full_attention");
    if (!json_is_object(full) && !(two && s->rope && strcmp(s->rope_section, "rope_parameters") == 0)) return SP_OK;
    s->rope_local = json_object_get(s->rope, "sliding_attention");
    if (json_object_size(s->rope) != 2 || !json_object_get(s->rope_local, "rope_theta") ||
        !json_object_get(full, "rope_theta") || !two)
        return sp_fail(SP_E_UNSUPPORTED, "%s: %s.full_attention: is not supported in %s%s", s->path,
                       s->rope_section, s->arch->name, two ? " without both sections and rope_theta" : "");
    s->rope = full;
    return SP_OK;
}

static bool is_known(const sp_source *s, const char *key)
{
    for (size_t i = 0; i < SP_COUNT(known); i++)
        if (strcmp(key, known[i]) == 0) return true;
    for (size_t i = 0; i < SP_COUNT(of_pictures) && s->arch->traits & SP_TEXT_OF_VISION; i++)
        if (strcmp(key, of_pictures[i]) == 0) return true;
    for (size_t i = 0; i < SP_COUNT(numbers); i++)
        if (sp_config_reads(s, &numbers[i]) && strncmp(numbers[i].hf, "rope.", 5) == 0 &&
            strcmp(key, numbers[i].hf + 5) == 0)
            return true;
    return false;
}

/* -- type ----------------------------------------------------------------------------------- */

static sp_err rope_type(const sp_source *s, const char *field, sp_text_view name,
                        sp_rope_scaling *out)
{
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        const char *type = s->gguf ? types[i].gguf : types[i].hf;
        if (!type || !sp_view_is(name, type)) continue;
        *out = types[i].scaling;
        return SP_OK;
    }
    return sp_fail(SP_E_UNSUPPORTED, "%s: %s: rotary scaling \"%.*s\" is not supported", s->path,
                   field, SP_VIEW(name));
}

static sp_err type_of_gguf(const sp_source *s, sp_config *c)
{
    char key[SP_CONFIG_NAME_BYTES];
    sp_text_view name;
    snprintf(key, sizeof key, "%s.rope.scaling.type", s->prefix);
    SP_TRY(sp_gguf_text(s->gguf, key, &name));
    c->rope.exact_ramp = s->arch->traits & SP_EXPERTS_OSS; /* its config.json has "truncate": false */
    if (name.s) return rope_type(s, key, name, &c->rope.scaling);
    c->rope.scaling = c->rope.factor > 0 ? SP_ROPE_LINEAR : SP_ROPE_PLAIN;
    return SP_OK;
}

/* limit_context -- to the trained length. */
static void limit_context(const sp_source *s, sp_config *c, const char *why)
{
    const int limit = c->rope.trained_ctx ? c->rope.trained_ctx : c->hp.n_ctx;
    if (limit >= c->hp.n_ctx) return;
    sp_log(SP_LOG_INFO, "%s: context limited from %d to %d tokens, before %s begins", s->path,
           c->hp.n_ctx, limit, why);
    c->hp.n_ctx = limit;
}

static sp_err type_of_json(const sp_source *s, sp_config *c)
{
    const char *key;
    json_t *value;
    json_object_foreach(s->rope, key, value)
    {
        const bool whole = strcmp(key, "partial_rotary_factor") == 0 && json_number_value(value) == 1;
        if (!is_known(s, key) && !json_is_null(value) && !whole)
            return sp_fail(SP_E_UNSUPPORTED, "%s: %s.%.100s: is not supported", s->path,
                           s->rope_section, key);
    }
    c->rope.exact_ramp = json_is_false(json_object_get(s->rope, "truncate"));
    const json_t *type = json_object_get(s->rope, "rope_type");
    if (!type) type = json_object_get(s->rope, "type");
    if (!type && s->arch->traits & (SP_EXPERTS_OSS | SP_ATTN_TEMPERATURE)) /* their classes have YaRN then */
        return sp_fail(SP_E_FORMAT, "%s: %s.rope_type: is missing", s->path, s->rope_section);
    if (!type) return SP_OK;
    if (!json_is_string(type))
        return sp_fail(SP_E_FORMAT, "%s: %s.rope_type: is not a string", s->path, s->rope_section);
    if (s->arch->traits & SP_TEXT_OF_VISION && strcmp(json_string_value(type), "mrope") == 0) return SP_OK;
    if (strcmp(json_string_value(type), "dynamic") == 0) limit_context(s, c, "dynamic scaling");
    sp_text_view name = {.s = json_string_value(type), .n = json_string_length(type)};
    SP_TRY(rope_type(s, s->rope_section, name, &c->rope.scaling));
    /* The class of phi3 takes any scaling for longrope. */
    const bool lists = json_object_get(s->rope, "short_factor") || s->arch->traits & SP_FUSED_QKV;
    if (!lists || sp_view_is(name, "default") || c->rope.scaling == SP_ROPE_LONG) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: %s.rope_type: \"%.*s\" is not supported in %s with short_factor", s->path,
                   s->rope_section, SP_VIEW(name), s->arch->name);
}

/* -- defaults ------------------------------------------------------------------------------- */

/* default_base -- of the class of a config.json, or of GGUF files. */
static double default_base(const sp_source *s)
{
    static const struct {
        const char *arch;
        double base;
    } bases[] = {{"mixtral", 1e6},   {"gemma3", 1e6},    {"smollm3", 2e6},   {"olmo3", 5e5},
                 {"command-r", 5e5}, {"ernie4_5", 5e5}, {"ernie4_5-moe", 5e5}, {"gpt-oss", 150000},
                 {"qwen2vl", 1e6},   {"qwen3vl", 5e5}};
    for (size_t i = 0; i < SP_COUNT(bases) && !s->gguf; i++)
        if (strcmp(s->arch->name, bases[i].arch) == 0) return bases[i].base;
    return 10000;
}

static sp_err need(const sp_source *s, size_t field, bool there)
{
    char name[SP_CONFIG_NAME_BYTES];
    if (there) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: %s: is missing or does not fit this rotary scaling", s->path,
                   sp_config_name(s, field, name));
}

static sp_err fill_in_yarn(const sp_source *s, sp_config *c)
{
    sp_rope_config *r = &c->rope;
    if (r->trained_ctx == 0) r->trained_ctx = c->hp.n_ctx;
    if (r->beta_fast == 0) r->beta_fast = 32;
    if (r->beta_slow == 0) r->beta_slow = 1;
    SP_TRY(need(s, AT(rope.beta_fast), r->beta_fast > r->beta_slow));
    /* Programs differ in what a ramp is that ends before the first pair. */
    SP_TRY(need(s, AT(rope.trained_ctx), r->trained_ctx > r->beta_slow * 6.2831853));
    const double stretched = fmin(r->trained_ctx * r->factor, 1 << 30);
    c->hp.n_ctx = SP_MAX(c->hp.n_ctx, (int)stretched);
    /* In GGUF files the factor is beside what follows from the scaling. */
    const double l = log(fmax(r->factor, 1));
    if (s->gguf)
        r->attention = (r->attention > 0 ? r->attention : 1) * (1 + 0.1 * l) / (1 + 0.1 * r->mscale_all * l);
    else if (r->attention == 0 && r->mscale > 0 && r->mscale_all > 0)
        r->attention = (1 + 0.1 * r->mscale * l) / (1 + 0.1 * r->mscale_all * l);
    return SP_OK;
}

/* The short factors, and the context that they are for. In GGUF files the factors are tensors. */
static sp_err fill_in_long(const sp_source *s, sp_config *c)
{
    sp_rope_config *r = &c->rope;
    const json_t *list = json_object_get(s->rope, "short_factor");
    const int half = r->n_rot / 2;
    SP_TRY(need(s, AT(rope.trained_ctx), r->trained_ctx > 0));
    if (r->factor == 0) r->factor = (double)c->hp.n_ctx / r->trained_ctx;
    if (r->attention == 0 && !s->gguf)
        r->attention = r->factor > 1 ? sqrt(1 + log(r->factor) / log(r->trained_ctx)) : 1;
    if (!s->gguf && (json_array_size(list) != (size_t)half || half > SP_HEAD_MAX / 2))
        return sp_fail(SP_E_FORMAT, "%s: %s.short_factor: is not a list of %d numbers", s->path,
                       s->rope_section, half);
    for (int i = 0; i < half && !s->gguf; i++) {
        const double x = json_number_value(json_array_get(list, (size_t)i));
        if (!(x > 0 && x < 1e6))
            return sp_fail(SP_E_FORMAT, "%s: %s.short_factor: item %d is not a positive number",
                           s->path, s->rope_section, i);
        r->short_factor[i] = (float)x;
    }
    limit_context(s, c, "longrope");
    return SP_OK;
}

/* Fills in the defaults of the scaling. */
static sp_err fill_in(const sp_source *s, sp_config *c)
{
    sp_rope_config *r = &c->rope;
    char name[SP_CONFIG_NAME_BYTES];
    const uint64_t traits = s->arch->traits;
    /* glm's, glm4's and nemotron's classes rotate half a head unless the file says otherwise */
    const bool glm = traits & SP_ADJACENT_HF && traits & SP_FUSED_UP;
    const bool half = glm || traits & SP_QK_NORM_MAYBE || (traits & SP_LAYERNORM && traits & SP_RELU2);
    if (r->part == 0 && !s->gguf && half) r->part = 0.5;
    if (r->part == 0 && !s->gguf && strcmp(s->arch->name, "stablelm") == 0) r->part = 0.25;
    if (r->base == 0) r->base = default_base(s);
    if (r->n_rot == 0) r->n_rot = r->part > 0 ? (int)(r->part * c->hp.head) : c->hp.head;
    if (r->n_rot < 2 || r->n_rot > c->hp.head || r->n_rot % 2)
        return sp_fail(SP_E_FORMAT, "%s: %s: %d is not an even number up to the head size %d",
                       s->path, sp_config_name(s, s->gguf ? AT(rope.n_rot) : AT(rope.part), name),
                       r->n_rot, c->hp.head);
    const bool scales = r->scaling == SP_ROPE_YARN || r->scaling == SP_ROPE_LONG;
    if (!s->gguf && !scales) r->attention = 0; /* the other types do not use it */
    if (r->scaling == SP_ROPE_PLAIN) return SP_OK;
    if (r->scaling == SP_ROPE_LONG) return fill_in_long(s, c);
    if (r->factor == 0 && s->gguf) r->factor = 1; /* scaling without a factor has no effect */
    SP_TRY(need(s, AT(rope.factor), r->factor > 0));
    if (r->scaling == SP_ROPE_LLAMA3) {
        SP_TRY(need(s, AT(rope.trained_ctx), r->trained_ctx > 0));
        SP_TRY(need(s, AT(rope.low), r->low > 0));
        SP_TRY(need(s, AT(rope.high), r->high > r->low));
    }
    return r->scaling == SP_ROPE_YARN ? fill_in_yarn(s, c) : SP_OK;
}

/* -- both sections -------------------------------------------------------------------------- */

static sp_err read_section(const sp_source *s, sp_config *c)
{
    SP_TRY(sp_config_read(s, sp_config_rope_numbers(), c));
    SP_TRY(s->gguf ? type_of_gguf(s, c) : type_of_json(s, c));
    return fill_in(s, c);
}

/* local_rope -- of layers with a window: a section of their own, or a base and no scaling. */
static sp_err local_rope(const sp_source *s, sp_config *c)
{
    sp_rope_config *r = &c->rope_local;
    if (s->rope_local) {
        sp_source local = *s;
        sp_config other = {.arch = c->arch, .hp = c->hp};
        local.rope = s->rope_local;
        SP_TRY(read_section(&local, &other));
        *r = other.rope;
        return SP_OK;
    }
    /* olmo3 leaves out the scaling only */
    const bool gemma = s->arch->traits & SP_NORM_PLUS_1;
    *r = (sp_rope_config){.n_rot = c->rope.n_rot, .base = gemma ? 10000 : c->rope.base};
    return sp_config_read(s, (sp_params){&local_base, 1}, c);
}

sp_err sp_config_rope(const sp_source *s, sp_config *c)
{
    SP_TRY(read_section(s, c));
    if (c->hp.attn_growth > 0) c->hp.attn_period = c->rope.trained_ctx ? c->rope.trained_ctx : c->hp.n_ctx;
    return s->arch->traits & SP_TWO_ROPES ? local_rope(s, c) : SP_OK;
}
