/* config.c -- reads a configuration in three steps: the table `params` copies the numbers that have
 * a field, the tables `refused` and `rope_known` reject parameters that would change the result in
 * a way that Spolia does not implement, and fill_in() derives missing values and checks that the
 * sizes agree. Messages use the names of the file (name_of).
 */
#include "model/config.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "base/log.h"

typedef struct source {
    const char *path;
    const sp_arch *arch;
    const sp_gguf *gguf;      /* NULL: a config.json */
    const json_t *root;       /* config.json */
    json_t *rope;             /* its rope_scaling or rope_parameters, or NULL */
    const char *rope_section; /* the name of that section */
} source;

typedef enum kind { INT, FLOAT, DOUBLE } kind;

/* A number and its names. GGUF keys follow "<architecture>."; "rope." in config.json means inside
 * rope_scaling or rope_parameters. If a file has both names, the later row wins. */
typedef struct param {
    size_t field; /* offset in sp_config */
    kind kind;
    const char *gguf, *hf;
    double min, max;
    bool required;
} param;

#define AT(field) offsetof(sp_config, field)

static const param params[] = {
    {AT(hp.n_layers), INT, "block_count", "num_hidden_layers", 1, 1024, true},
    {AT(hp.n_embd), INT, "embedding_length", "hidden_size", 1, 1 << 20, true},
    {AT(hp.n_ff), INT, "feed_forward_length", "intermediate_size", 1, 1 << 24, true},
    {AT(hp.n_heads), INT, "attention.head_count", "num_attention_heads", 1, 4096, true},
    {AT(hp.n_kv_heads), INT, "attention.head_count_kv", "num_key_value_heads", 1, 4096, false},
    {AT(hp.head), INT, "attention.key_length", "head_dim", 2, 4096, false},
    {AT(hp.n_ctx), INT, "context_length", "max_position_embeddings", 1, 1 << 30, true},
    {AT(hp.n_vocab), INT, NULL, "vocab_size", 1, 1 << 26, true},
    {AT(hp.sliding_window), INT, "attention.sliding_window", "sliding_window", 0, 1 << 30, false},
    {AT(hp.norm_eps), FLOAT, "attention.layer_norm_rms_epsilon", "rms_norm_eps", 0, 1, true},
    {AT(rope.base), DOUBLE, "rope.freq_base", "rope_theta", 2, 1e15, false},
    {AT(rope.base), DOUBLE, NULL, "rope.rope_theta", 2, 1e15, false},
    {AT(rope.n_rot), INT, "rope.dimension_count", NULL, 2, 4096, false},
    {AT(rope.part), DOUBLE, NULL, "partial_rotary_factor", 1e-3, 1, false},
    {AT(rope.part), DOUBLE, NULL, "rope.partial_rotary_factor", 1e-3, 1, false},
    {AT(rope.factor), DOUBLE, "rope.scale_linear", NULL, 0, 1e6, false},
    {AT(rope.factor), DOUBLE, "rope.scaling.factor", "rope.factor", 0, 1e6, false},
    {AT(rope.trained_ctx), INT, "rope.scaling.original_context_length",
     "rope.original_max_position_embeddings", 1, 1 << 30, false},
    {AT(rope.low), DOUBLE, NULL, "rope.low_freq_factor", 1e-3, 1e6, false},
    {AT(rope.high), DOUBLE, NULL, "rope.high_freq_factor", 1e-3, 1e6, false},
    {AT(rope.beta_fast), DOUBLE, "rope.scaling.yarn_beta_fast", "rope.beta_fast", 1e-3, 1e6, false},
    {AT(rope.beta_slow), DOUBLE, "rope.scaling.yarn_beta_slow", "rope.beta_slow", 1e-3, 1e6, false},
    {AT(rope.attention), DOUBLE, NULL, "rope.attention_factor", 1e-3, 1e3, false},
};

/* Numbers that must have a neutral value if present: any other value needs a computation that the
 * forward pass does not have. */
static const struct {
    param p;
    double neutral;
    const char *what;
} refused[] = {
    {{.gguf = "expert_count", .hf = "num_local_experts"}, 0, "a mixture of experts"},
    {{.gguf = "attention.causal"}, 1, "attention that is not causal"},
    {{.gguf = "rope.scaling.attn_factor"}, 1, "this factor on attention"},
    {{.gguf = "rope.scaling.yarn_attn_factor"}, 1, "this factor on attention"},
    {{.gguf = "rope.scaling.yarn_ext_factor"}, 1, "this ramp of YaRN"},
    {{.gguf = "rope.scaling.yarn_log_multiplier"}, 0, "this factor on attention"},
};

/* The known parameters of rope_scaling. Ignoring an unknown one would silently rotate wrongly. */
static const char *const rope_known[] = {
    "rope_type",        "type",      "rope_theta",      "partial_rotary_factor",
    "factor",           "finetuned", "low_freq_factor", "original_max_position_embeddings",
    "high_freq_factor", "beta_fast", "beta_slow",       "attention_factor",
};

/* GGUF has no name for llama3: its factors are a tensor of the file. */
static const struct {
    const char *gguf, *hf;
    sp_rope_scaling scaling;
} rope_types[] = {
    {"none", "default", SP_ROPE_PLAIN},
    {"linear", "linear", SP_ROPE_LINEAR},
    {NULL, "llama3", SP_ROPE_LLAMA3},
    {"yarn", "yarn", SP_ROPE_YARN},
};

/* -- names and numbers ---------------------------------------------------------------------- */

#define NAME_BYTES 128

static const char *full_name(const source *s, const param *p, char *buf)
{
    const char *name = s->gguf ? p->gguf : p->hf;
    assert(name);
    if (s->gguf)
        snprintf(buf, NAME_BYTES, "%s.%s", s->arch->gguf, name);
    else if (strncmp(name, "rope.", 5) == 0)
        snprintf(buf, NAME_BYTES, "%s.%s", s->rope_section, name + 5);
    else
        snprintf(buf, NAME_BYTES, "%s", name);
    return buf;
}

/* The name of a field in this file. */
static const char *name_of(const source *s, size_t field, char *buf)
{
    for (size_t i = 0; i < SP_COUNT(params); i++)
        if (params[i].field == field && (s->gguf ? params[i].gguf : params[i].hf))
            return full_name(s, &params[i], buf);
    return "a field";
}

/* Some converters write one number for each layer; the supported architectures need them equal. */
static sp_err gguf_number(const source *s, const char *key, double *out, bool *found)
{
    const sp_gguf_entry *e = sp_gguf_find(s->gguf, key);
    double x = 0, other;
    *found = e != NULL;
    if (!e) return SP_OK;
    if (!sp_gguf_number(e, 0, &x))
        return sp_fail(SP_E_FORMAT, "%s: %s: is not a number", s->path, key);
    for (uint64_t i = 1; i < e->n; i++) {
        sp_gguf_number(e, i, &other);
        if (other != x)
            return sp_fail(SP_E_UNSUPPORTED, "%s: %s: differs from layer to layer", s->path, key);
    }
    *out = x;
    return SP_OK;
}

/* The number that p names in this file; *found is false if it is missing or null. */
static sp_err number(const source *s, const param *p, double *out, bool *found)
{
    char name[NAME_BYTES];
    *found = false;
    if (!(s->gguf ? p->gguf : p->hf)) return SP_OK;
    full_name(s, p, name);
    if (s->gguf) return gguf_number(s, name, out, found);
    bool in_rope = strncmp(p->hf, "rope.", 5) == 0;
    const json_t *j = json_object_get(in_rope ? s->rope : s->root, in_rope ? p->hf + 5 : p->hf);
    if (!j || json_is_null(j)) return SP_OK;
    if (!json_is_number(j)) return sp_fail(SP_E_FORMAT, "%s: %s: is not a number", s->path, name);
    *out = json_number_value(j);
    *found = true;
    return SP_OK;
}

static sp_err read_param(const source *s, const param *p, sp_config *c)
{
    double x = 0;
    bool found;
    char name[NAME_BYTES];
    SP_TRY(number(s, p, &x, &found));
    if (!found && p->required && (s->gguf ? p->gguf : p->hf))
        return sp_fail(SP_E_FORMAT, "%s: %s: is missing", s->path, full_name(s, p, name));
    if (!found) return SP_OK;
    if (!(x >= p->min && x <= p->max))
        return sp_fail(SP_E_FORMAT, "%s: %s: %g is not in %g..%g", s->path, full_name(s, p, name),
                       x, p->min, p->max);
    if (p->kind == INT && x != floor(x))
        return sp_fail(SP_E_FORMAT, "%s: %s: %g is not a whole number", s->path,
                       full_name(s, p, name), x);
    void *field = (char *)c + p->field;
    if (p->kind == INT) *(int *)field = (int)x;
    if (p->kind == FLOAT) *(float *)field = (float)x;
    if (p->kind == DOUBLE) *(double *)field = x;
    return SP_OK;
}

static sp_err read_params(const source *s, sp_config *c)
{
    for (size_t i = 0; i < SP_COUNT(params); i++) SP_TRY(read_param(s, &params[i], c));
    for (size_t i = 0; i < SP_COUNT(refused); i++) {
        double x = 0;
        bool found;
        char name[NAME_BYTES];
        SP_TRY(number(s, &refused[i].p, &x, &found));
        if (found && x != refused[i].neutral)
            return sp_fail(SP_E_UNSUPPORTED, "%s: %s: %g: %s is not supported", s->path,
                           full_name(s, &refused[i].p, name), x, refused[i].what);
    }
    return SP_OK;
}

/* -- rotary scaling ------------------------------------------------------------------------- */

static sp_err rope_type(const source *s, const char *field, sp_text_view name, sp_rope_scaling *out)
{
    for (size_t i = 0; i < SP_COUNT(rope_types); i++) {
        const char *known = s->gguf ? rope_types[i].gguf : rope_types[i].hf;
        if (!known || !sp_view_is(name, known)) continue;
        *out = rope_types[i].scaling;
        return SP_OK;
    }
    return sp_fail(SP_E_UNSUPPORTED, "%s: %s: rotary scaling \"%.*s\" is not supported", s->path,
                   field, SP_VIEW(name));
}

static sp_err rope_type_of_gguf(const source *s, sp_config *c)
{
    char key[NAME_BYTES];
    sp_text_view name;
    snprintf(key, sizeof key, "%s.rope.scaling.type", s->arch->gguf);
    SP_TRY(sp_gguf_text(s->gguf, key, &name));
    if (name.s) return rope_type(s, key, name, &c->rope.scaling);
    c->rope.scaling = c->rope.factor > 0 ? SP_ROPE_LINEAR : SP_ROPE_PLAIN;
    return SP_OK;
}

static sp_err rope_type_of_json(const source *s, sp_config *c)
{
    const char *key;
    json_t *value;
    json_object_foreach(s->rope, key, value)
    {
        size_t i = 0;
        while (i < SP_COUNT(rope_known) && strcmp(key, rope_known[i]) != 0) i++;
        if (i == SP_COUNT(rope_known) && !json_is_null(value))
            return sp_fail(SP_E_UNSUPPORTED, "%s: %s.%.100s: is not supported", s->path,
                           s->rope_section, key);
    }
    const json_t *type = json_object_get(s->rope, "rope_type");
    if (!type) type = json_object_get(s->rope, "type");
    if (!type) return SP_OK;
    if (!json_is_string(type))
        return sp_fail(SP_E_FORMAT, "%s: %s.rope_type: is not a string", s->path, s->rope_section);
    sp_text_view name = {.s = json_string_value(type), .n = json_string_length(type)};
    return rope_type(s, s->rope_section, name, &c->rope.scaling);
}

static sp_err need(const source *s, size_t field, bool there)
{
    char name[NAME_BYTES];
    if (there) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: %s: is missing or does not fit this rotary scaling", s->path,
                   name_of(s, field, name));
}

/* Fills in the defaults of the scaling; without scaling, its numbers are cleared. */
static sp_err fill_in_rope(const source *s, sp_config *c)
{
    sp_rope_config *r = &c->rope;
    char name[NAME_BYTES];
    if (r->base == 0) r->base = 10000;
    if (r->n_rot == 0) r->n_rot = r->part > 0 ? (int)(r->part * c->hp.head) : c->hp.head;
    if (r->n_rot < 2 || r->n_rot > c->hp.head || r->n_rot % 2)
        return sp_fail(SP_E_FORMAT, "%s: %s: %d is not an even number up to the head size %d",
                       s->path, name_of(s, s->gguf ? AT(rope.n_rot) : AT(rope.part), name),
                       r->n_rot, c->hp.head);
    if (r->scaling == SP_ROPE_PLAIN) return SP_OK;
    if (r->factor == 0 && s->gguf) r->factor = 1; /* scaling without a factor has no effect */
    SP_TRY(need(s, AT(rope.factor), r->factor > 0));
    if (r->scaling == SP_ROPE_LLAMA3) {
        SP_TRY(need(s, AT(rope.trained_ctx), r->trained_ctx > 0));
        SP_TRY(need(s, AT(rope.low), r->low > 0));
        SP_TRY(need(s, AT(rope.high), r->high > r->low));
    }
    if (r->scaling == SP_ROPE_YARN) {
        if (r->trained_ctx == 0) r->trained_ctx = c->hp.n_ctx;
        if (r->beta_fast == 0) r->beta_fast = 32;
        if (r->beta_slow == 0) r->beta_slow = 1;
        SP_TRY(need(s, AT(rope.beta_fast), r->beta_fast > r->beta_slow));
        double stretched = fmin(r->trained_ctx * r->factor, 1 << 30);
        c->hp.n_ctx = SP_MAX(c->hp.n_ctx, (int)stretched);
    }
    return SP_OK;
}

/* -- sizes ---------------------------------------------------------------------------------- */

static sp_err fill_in_heads(const source *s, sp_hparams *hp)
{
    char name[NAME_BYTES];
    if (hp->n_kv_heads == 0) hp->n_kv_heads = hp->n_heads;
    if (hp->n_heads % hp->n_kv_heads)
        return sp_fail(SP_E_FORMAT, "%s: %s: %d does not divide the %d query heads", s->path,
                       name_of(s, AT(hp.n_kv_heads), name), hp->n_kv_heads, hp->n_heads);
    if (hp->head == 0 && hp->n_embd % hp->n_heads)
        return sp_fail(SP_E_FORMAT, "%s: %s: is missing and the width %d is not %d heads", s->path,
                       name_of(s, AT(hp.head), name), hp->n_embd, hp->n_heads);
    if (hp->head == 0) hp->head = hp->n_embd / hp->n_heads;
    if (hp->head < 2 || hp->head > 4096 || hp->head % 2)
        return sp_fail(SP_E_FORMAT, "%s: %s: a head of %d is not an even number from 2 to 4096",
                       s->path, name_of(s, AT(hp.head), name), hp->head);
    return SP_OK;
}

/* Attention over a window equals full attention while the context fits in the window, so limit the
 * context to the window. */
static void fit_window(const source *s, sp_hparams *hp)
{
    if (hp->sliding_window == 0 || hp->sliding_window >= hp->n_ctx) return;
    sp_log(SP_LOG_INFO, "%s: context limited from %d to the sliding window of %d tokens", s->path,
           hp->n_ctx, hp->sliding_window);
    hp->n_ctx = hp->sliding_window;
}

static sp_err fill_in(const source *s, sp_config *c)
{
    c->arch = s->arch;
    c->hp.arch = s->arch->name;
    SP_TRY(fill_in_heads(s, &c->hp));
    SP_TRY(fill_in_rope(s, c));
    fit_window(s, &c->hp);
    c->hp.attn_scale = (float)(1 / sqrt((double)c->hp.head));
    return SP_OK;
}

/* -- GGUF ----------------------------------------------------------------------------------- */

static sp_err check_gguf(const source *s, const sp_config *c)
{
    static const param value_length = {.gguf = "attention.value_length"};
    const sp_gguf_entry *split = sp_gguf_find(s->gguf, "split.count");
    char name[NAME_BYTES];
    double x;
    bool found;
    if (split && (!sp_gguf_number(split, 0, &x) || x > 1))
        return sp_fail(SP_E_UNSUPPORTED,
                       "%s: split.count: a model split over files is not supported", s->path);
    SP_TRY(number(s, &value_length, &x, &found));
    if (found && x != c->hp.head)
        return sp_fail(SP_E_UNSUPPORTED, "%s: %s: %g: values of another size than keys (%d)",
                       s->path, full_name(s, &value_length, name), x, c->hp.head);
    return SP_OK;
}

sp_err sp_config_of_gguf(const sp_gguf *g, sp_config *out)
{
    source s = {.path = g->path, .gguf = g};
    sp_config c = {0};
    sp_text_view arch;
    SP_TRY(sp_gguf_text(g, "general.architecture", &arch));
    if (!arch.s) return sp_fail(SP_E_FORMAT, "%s: general.architecture: is missing", g->path);
    s.arch = sp_arch_of_gguf(arch);
    if (!s.arch)
        return sp_fail(SP_E_UNSUPPORTED,
                       "%s: general.architecture: \"%.*s\" is not supported (known: %s)", g->path,
                       SP_VIEW(arch), sp_arch_list());
    SP_TRY(read_params(&s, &c));
    SP_TRY(rope_type_of_gguf(&s, &c));
    SP_TRY(fill_in(&s, &c));
    SP_TRY(check_gguf(&s, &c));
    c.adjacent = s.arch->gguf_adjacent;
    *out = c;
    return SP_OK;
}

/* -- config.json ---------------------------------------------------------------------------- */

static sp_err check_json(const source *s)
{
    const json_t *act = json_object_get(s->root, "hidden_act");
    if (act && !(json_is_string(act) && strcmp(json_string_value(act), "silu") == 0))
        return sp_fail(SP_E_UNSUPPORTED, "%s: hidden_act: \"%.40s\" is not supported (silu is)",
                       s->path, json_is_string(act) ? json_string_value(act) : "?");
    const json_t *quant = json_object_get(s->root, "quantization_config");
    const char *method = json_string_value(json_object_get(quant, "quant_method"));
    if (quant && !json_is_null(quant))
        return sp_fail(SP_E_UNSUPPORTED, "%s: quantization_config: \"%.40s\" is not supported",
                       s->path, method ? method : "?");
    return SP_OK;
}

static sp_err find_arch(source *s)
{
    const char *type = json_string_value(json_object_get(s->root, "model_type"));
    const json_t *classes = json_object_get(s->root, "architectures");
    const char *class_name = json_string_value(json_array_get(classes, 0));
    if (!type && !class_name) return sp_fail(SP_E_FORMAT, "%s: model_type: is missing", s->path);
    s->arch = sp_arch_of_hf(type, class_name);
    if (s->arch) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: model_type: \"%.100s\" is not supported (known: %s)",
                   s->path, type ? type : class_name, sp_arch_list());
}

static sp_err find_rope(source *s)
{
    s->rope_section = "rope_parameters";
    s->rope = json_object_get(s->root, s->rope_section);
    if (!s->rope || json_is_null(s->rope)) {
        s->rope_section = "rope_scaling";
        s->rope = json_object_get(s->root, s->rope_section);
    }
    if (json_is_null(s->rope)) s->rope = NULL;
    if (s->rope && !json_is_object(s->rope))
        return sp_fail(SP_E_FORMAT, "%s: %s: is not an object", s->path, s->rope_section);
    return SP_OK;
}

sp_err sp_config_of_json(const json_t *root, const char *path, sp_config *out)
{
    source s = {.path = path, .root = root};
    sp_config c = {0};
    SP_TRY(find_arch(&s));
    SP_TRY(find_rope(&s));
    SP_TRY(check_json(&s));
    SP_TRY(read_params(&s, &c));
    SP_TRY(rope_type_of_json(&s, &c));
    bool windowed = s.arch->window == SP_WINDOW_ALWAYS ||
                    (s.arch->window == SP_WINDOW_FLAG &&
                     json_is_true(json_object_get(root, "use_sliding_window")));
    if (!windowed) c.hp.sliding_window = 0;
    SP_TRY(fill_in(&s, &c));
    const json_t *tie = json_object_get(root, "tie_word_embeddings");
    c.tied = json_is_true(tie);
    c.untied = json_is_false(tie);
    *out = c;
    return SP_OK;
}
