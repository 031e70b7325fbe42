/* config.c -- reads a configuration in three steps: tables copy the numbers that have a field,
 * config_claims.c rejects every other parameter that would change the result, and fill_in() derives
 * missing values and checks that the sizes agree. Messages use the names of the file. Rotary
 * embeddings: config_rope.c. Windows: config_layers.c.
 */
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "model/config_int.h"

#define AT(field) SP_CONFIG_AT(field)
#define INT       SP_PARAM_INT
#define FLOAT     SP_PARAM_FLOAT

static const sp_param numbers[] = {
    {AT(hp.n_layers), INT, "block_count", "num_hidden_layers", 1, SP_LAYERS_MAX, true},
    {AT(hp.n_embd), INT, "embedding_length", "hidden_size", 1, 1 << 20, true},
    {AT(hp.n_ff), INT, "feed_forward_length", "intermediate_size", 0, 1 << 24, true},
    {AT(hp.n_heads), INT, "attention.head_count", "num_attention_heads", 1, 4096, true},
    {AT(hp.n_kv_heads), INT, "attention.head_count_kv", "num_key_value_heads", 1, 4096, false},
    {AT(hp.head), INT, "attention.key_length", "head_dim", 2, 4096, false},
    {AT(hp.n_ctx), INT, "context_length", "max_position_embeddings", 1, 1 << 30, true},
    {AT(hp.n_vocab), INT, NULL, "vocab_size", 1, 1 << 26, true},
    {AT(hp.sliding_window), INT, "attention.sliding_window", "sliding_window", 0, 1 << 30, false},
    {AT(window_from), INT, NULL, "max_window_layers", 0, 1 << 20, false},
    {AT(hp.norm_eps), FLOAT, "attention.layer_norm_rms_epsilon", "rms_norm_eps", 0, 1, false},
    {AT(hp.norm_eps), FLOAT, "attention.layer_norm_epsilon", "layer_norm_eps", 0, 1, false, SP_LAYERNORM},
    {AT(hp.norm_eps), FLOAT, NULL, "norm_epsilon", 0, 1, false, SP_C_NAMES},
    {AT(hp.norm_eps), FLOAT, NULL, "norm_eps", 0, 1, false, SP_LAYERNORM},
    {AT(hp.attn_cap), FLOAT, "attn_logit_softcapping", "attn_logit_softcapping", 0, 1e6, false, SP_CAPS},
    {AT(hp.logit_cap), FLOAT, "final_logit_softcapping", "final_logit_softcapping", 0, 1e6, false, SP_LOGIT_CAP},
    {AT(hp.attn_scale), FLOAT, NULL, "query_pre_attn_scalar", 1e-6, 1e9, false, SP_QUERY_SCALAR},
    {AT(hp.attn_scale), FLOAT, "attention.scale", NULL, 1e-9, 1e9, false, SP_MULTIPLIERS},
    {AT(hp.attn_scale), FLOAT, NULL, "attention_multiplier", 1e-9, 1e9, true, SP_MULTIPLIERS},
    {AT(hp.embed_scale), FLOAT, "embedding_scale", "embedding_multiplier", 1e-9, 1e9, true, SP_MULTIPLIERS},
    {AT(hp.residual_scale), FLOAT, "residual_scale", "residual_multiplier", 1e-9, 1e9, true, SP_MULTIPLIERS},
    {AT(hp.logit_scale), FLOAT, "logit_scale", "logits_scaling", 1e-9, 1e9, true, SP_MULTIPLIERS},
    {AT(hp.logit_scale), FLOAT, "logit_scale", "logit_scale", 1e-9, 1e9, true, SP_LOGIT_FACTOR},
    {AT(hp.moe.n), INT, "expert_count", "num_experts", 1, 4096, false, SP_EXPERTS},
    {AT(hp.moe.n), INT, NULL, "num_local_experts", 1, 4096, false, SP_EXPERTS},
    {AT(hp.moe.n), INT, NULL, "n_routed_experts", 1, 4096, false, SP_EXPERTS_SIGMOID},
    {AT(hp.moe.n), INT, NULL, "moe_num_experts", 1, 4096, false, SP_EXPERTS_ERNIE},
    {AT(hp.moe.n_used), INT, "expert_used_count", "num_experts_per_tok", 1, 4096, false, SP_EXPERTS},
    {AT(hp.moe.n_used), INT, NULL, "moe_k", 1, 4096, false, SP_EXPERTS_ERNIE},
    {AT(hp.moe.n_ff), INT, "expert_feed_forward_length", "moe_intermediate_size", 1, 1 << 24, false, SP_EXPERTS},
    {AT(hp.moe.n_shared), INT, "expert_shared_feed_forward_length", "shared_expert_intermediate_size", 1, 1 << 24, false, SP_SHARED_EXPERT},
    {AT(hp.moe.n_shared), INT, "expert_shared_feed_forward_length", NULL, 0, 1 << 24, false, SP_EXPERTS_LATER},
    {AT(n_shared), INT, "expert_shared_count", NULL, 0, 4096, false, SP_EXPERTS_LATER},
    {AT(n_shared), INT, NULL, "n_shared_experts", 0, 4096, false, SP_EXPERTS_SIGMOID},
    {AT(n_shared), INT, NULL, "moe_num_shared_experts", 0, 4096, false, SP_EXPERTS_ERNIE},
    {AT(hp.moe.n_dense), INT, "leading_dense_block_count", NULL, 0, SP_LAYERS_MAX, false, SP_EXPERTS_LATER},
    {AT(hp.moe.n_dense), INT, NULL, "first_k_dense_replace", 0, SP_LAYERS_MAX, false, SP_EXPERTS_SIGMOID},
    {AT(hp.moe.n_dense), INT, NULL, "moe_layer_start_index", 0, SP_LAYERS_MAX, false, SP_EXPERTS_ERNIE},
    {AT(last_mixture), INT, NULL, "moe_layer_end_index", -1, SP_LAYERS_MAX, false, SP_EXPERTS_ERNIE},
    {AT(hp.moe.scale), FLOAT, "expert_weights_scale", "routed_scaling_factor", 0, 1e6, false, SP_EXPERTS_SIGMOID},
    {AT(hp.moe.n_groups), INT, "expert_group_count", "n_group", 0, 4096, false, SP_EXPERTS_SIGMOID},
    {AT(hp.moe.n_groups_used), INT, "expert_group_used_count", "topk_group", 1, 4096, false, SP_EXPERTS_SIGMOID},
    {AT(gating), INT, "expert_gating_func", NULL, 0, 2, false, SP_EXPERTS_LATER},
    {AT(n_extra), INT, "nextn_predict_layers", "num_nextn_predict_layers", 0, SP_LAYERS_MAX, false, SP_EXPERTS_LATER},
    {AT(n_extra), INT, NULL, "num_mtp_layers", 0, SP_LAYERS_MAX, false, SP_EXPERTS_LATER},
};

sp_params sp_config_numbers(void)
{
    return (sp_params){numbers, SP_COUNT(numbers)};
}

/* -- names and numbers ---------------------------------------------------------------------- */

const char *sp_config_full_name(const sp_source *s, const sp_param *p, char *buf)
{
    const char *name = s->gguf ? p->gguf : p->hf;
    assert(name);
    if (s->gguf)
        snprintf(buf, SP_CONFIG_NAME_BYTES, "%s.%s", s->prefix, name);
    else if (strncmp(name, "rope.", 5) == 0)
        snprintf(buf, SP_CONFIG_NAME_BYTES, "%s.%s", s->rope_section, name + 5);
    else
        snprintf(buf, SP_CONFIG_NAME_BYTES, "%s", name);
    return buf;
}

const char *sp_config_name(const sp_source *s, size_t field, char *buf)
{
    const sp_params tables[] = {sp_config_numbers(), sp_config_rope_numbers()};
    for (size_t t = 0; t < SP_COUNT(tables); t++)
        for (size_t i = 0; i < tables[t].n; i++)
            if (tables[t].v[i].field == field && sp_config_reads(s, &tables[t].v[i]))
                return sp_config_full_name(s, &tables[t].v[i], buf);
    return "a field";
}

/* Some converters write one number for each layer; the supported architectures need them equal. */
static sp_err gguf_number(const sp_source *s, const char *key, double *out, bool *found)
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

sp_err sp_config_number(const sp_source *s, const sp_param *p, double *out, bool *found)
{
    char name[SP_CONFIG_NAME_BYTES];
    *found = false;
    if (!sp_config_reads(s, p)) return SP_OK;
    sp_config_full_name(s, p, name);
    if (s->gguf) return gguf_number(s, name, out, found);
    bool in_rope = strncmp(p->hf, "rope.", 5) == 0;
    const json_t *j = json_object_get(in_rope ? s->rope : s->root, in_rope ? p->hf + 5 : p->hf);
    if (!j || json_is_null(j)) return SP_OK;
    if (!json_is_number(j)) return sp_fail(SP_E_FORMAT, "%s: %s: is not a number", s->path, name);
    *out = json_number_value(j);
    *found = true;
    return SP_OK;
}

/* is_preset -- whether a number has the default of its class. */
static bool is_preset(const sp_param *p, const sp_config *c)
{
    const void *field = (const char *)c + p->field;
    return p->kind == SP_PARAM_INT ? *(const int *)field != 0 : *(const float *)field != 0;
}

static sp_err read_param(const sp_source *s, const sp_param *p, sp_config *c)
{
    double x = 0;
    bool found;
    char name[SP_CONFIG_NAME_BYTES];
    SP_TRY(sp_config_number(s, p, &x, &found));
    if (!found && p->required && sp_config_reads(s, p) && !is_preset(p, c))
        return sp_fail(SP_E_FORMAT, "%s: %s: is missing", s->path, sp_config_full_name(s, p, name));
    if (!found) return SP_OK;
    if (!(x >= p->min && x <= p->max))
        return sp_fail(SP_E_FORMAT, "%s: %s: %g is not in %g..%g", s->path, sp_config_full_name(s, p, name),
                       x, p->min, p->max);
    if (p->kind == SP_PARAM_INT && x != floor(x))
        return sp_fail(SP_E_FORMAT, "%s: %s: %g is not a whole number", s->path,
                       sp_config_full_name(s, p, name), x);
    void *field = (char *)c + p->field;
    if (p->kind == SP_PARAM_INT) *(int *)field = (int)x;
    if (p->kind == SP_PARAM_FLOAT) *(float *)field = (float)x;
    if (p->kind == SP_PARAM_DOUBLE) *(double *)field = x;
    return SP_OK;
}

sp_err sp_config_read(const sp_source *s, sp_params params, sp_config *c)
{
    for (size_t i = 0; i < params.n; i++) SP_TRY(read_param(s, &params.v[i], c));
    return SP_OK;
}

/* -- sizes ---------------------------------------------------------------------------------- */

static sp_err fill_in_heads(const sp_source *s, sp_hparams *hp)
{
    char name[SP_CONFIG_NAME_BYTES];
    if (hp->n_kv_heads == 0) hp->n_kv_heads = hp->n_heads;
    if (hp->n_heads % hp->n_kv_heads)
        return sp_fail(SP_E_FORMAT, "%s: %s: %d does not divide the %d query heads", s->path,
                       sp_config_name(s, AT(hp.n_kv_heads), name), hp->n_kv_heads, hp->n_heads);
    if (hp->head == 0 && hp->n_embd % hp->n_heads)
        return sp_fail(SP_E_FORMAT, "%s: %s: is missing and the width %d is not %d heads", s->path,
                       sp_config_name(s, AT(hp.head), name), hp->n_embd, hp->n_heads);
    if (hp->head == 0) hp->head = hp->n_embd / hp->n_heads;
    if (hp->head < 2 || hp->head > 4096 || hp->head % 2)
        return sp_fail(SP_E_FORMAT, "%s: %s: a head of %d is not an even number from 2 to 4096",
                       s->path, sp_config_name(s, AT(hp.head), name), hp->head);
    return SP_OK;
}

static sp_err missing(const sp_source *s, size_t field)
{
    char name[SP_CONFIG_NAME_BYTES];
    return sp_fail(SP_E_FORMAT, "%s: %s: is missing", s->path, sp_config_name(s, field, name));
}

/* fill_in_groups -- of experts: a group has two at least, and those that are used have enough. */
static sp_err fill_in_groups(const sp_source *s, sp_moe *x)
{
    char name[SP_CONFIG_NAME_BYTES];
    if (x->n_groups <= 1) {
        x->n_groups = x->n_groups_used = 0;
        return SP_OK;
    }
    const int n = x->n / x->n_groups, used = x->n_groups_used;
    if (x->n % x->n_groups == 0 && n >= 2 && used >= 1 && used <= x->n_groups && n * used >= x->n_used) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: %s: %d of %d groups do not fit %d experts, of which %d are used", s->path,
                   sp_config_name(s, AT(hp.moe.n_groups_used), name), used, x->n_groups, x->n, x->n_used);
}

/* fill_in_later -- of mixtures that begin in a later layer. */
static sp_err fill_in_later(const sp_source *s, sp_config *c)
{
    char name[SP_CONFIG_NAME_BYTES];
    sp_hparams *hp = &c->hp;
    sp_moe *x = &hp->moe;
    x->sigmoid = s->arch->traits & SP_EXPERTS_SIGMOID;
    if (c->gating && (c->gating == 2) != x->sigmoid)
        return sp_fail(SP_E_UNSUPPORTED, "%s: %s: %d: this choice of experts is not supported for %s", s->path,
                       sp_config_name(s, AT(gating), name), c->gating, s->arch->name);
    if (x->n_shared == 0) x->n_shared = c->n_shared * x->n_ff;
    if (x->scale == 1) x->scale = 0;
    SP_TRY(fill_in_groups(s, x));
    if (s->gguf) hp->n_layers -= c->n_extra;
    if (hp->n_layers < 1 || x->n_dense > hp->n_layers)
        return sp_fail(SP_E_FORMAT, "%s: %s: %d of %d layers", s->path, sp_config_name(s, AT(hp.moe.n_dense), name),
                       x->n_dense, hp->n_layers);
    if (c->last_mixture >= 0 && c->last_mixture != hp->n_layers - 1)
        return sp_fail(SP_E_UNSUPPORTED, "%s: %s: %d: layers without experts after those with them are not supported",
                       s->path, sp_config_name(s, AT(last_mixture), name), c->last_mixture);
    if (x->n_dense && hp->n_ff == 0) return missing(s, AT(hp.n_ff));
    if (x->n_dense) x->n_dense_ff = hp->n_ff;
    return SP_OK;
}

/* Files of mixtures whose experts are as wide as a dense layer do not repeat the width. */
static sp_err fill_in_experts(const sp_source *s, sp_config *c)
{
    char name[SP_CONFIG_NAME_BYTES];
    sp_hparams *hp = &c->hp;
    sp_moe *x = &hp->moe;
    const uint64_t traits = s->arch->traits;
    if (!(traits & SP_EXPERTS)) {
        if (hp->n_ff == 0) return missing(s, AT(hp.n_ff));
        return SP_OK;
    }
    if (x->n == 0) return missing(s, AT(hp.moe.n));
    if (x->n_used == 0) return missing(s, AT(hp.moe.n_used));
    if (x->n_used > x->n)
        return sp_fail(SP_E_FORMAT, "%s: %s: %d of %d experts", s->path,
                       sp_config_name(s, AT(hp.moe.n_used), name), x->n_used, x->n);
    if (x->n_ff == 0) x->n_ff = s->gguf && (traits & SP_SHARED_EXPERT) ? hp->n_ff / x->n_used : hp->n_ff;
    if (x->n_ff == 0) return missing(s, AT(hp.moe.n_ff));
    if (traits & SP_SHARED_EXPERT && x->n_shared == 0) x->n_shared = hp->n_ff;
    if (traits & SP_NORM_TOP) x->sum_to_1 = true;
    if (traits & SP_EXPERTS_LATER) SP_TRY(fill_in_later(s, c));
    hp->n_ff = SP_MAX(x->n_dense_ff, SP_MAX(x->n_ff, x->n_shared));
    return SP_OK;
}

/* Gemma's largest models scale by the width of a head before it was fixed; their GGUF files do not
 * say so, and llama.cpp knows them by the number of layers. */
static int query_scalar_of_gguf(const sp_hparams *hp)
{
    const bool largest = (strcmp(hp->arch, "gemma2") == 0 && hp->n_layers == 46) ||
                         (strcmp(hp->arch, "gemma3") == 0 && hp->n_layers == 62);
    return largest ? hp->n_embd / hp->n_heads : hp->head;
}

static void fill_in_scales(const sp_source *s, sp_hparams *hp)
{
    const uint64_t traits = s->arch->traits;
    hp->act = traits & SP_GELU          ? SP_ACT_GELU
              : traits & SP_RELU2       ? SP_ACT_RELU2
              : traits & SP_EXPERTS_OSS ? SP_ACT_SWIGLU_OAI
                                        : SP_ACT_SILU;
    hp->parallel = traits & SP_PARALLEL;
    hp->layer_norm = traits & SP_LAYERNORM;
    hp->wide_qk_norm = traits & SP_QK_NORM_WIDE;
    if (traits & SP_EMBED_ROOT) hp->embed_scale = sqrtf((float)hp->n_embd);
    if (hp->logit_scale > 0 && !(traits & SP_LOGIT_FACTOR)) hp->logit_scale = 1 / hp->logit_scale;
    if (traits & SP_QUERY_SCALAR) {
        const double scalar = hp->attn_scale > 0 ? (double)hp->attn_scale : query_scalar_of_gguf(hp);
        hp->attn_scale = (float)(1 / sqrt(scalar));
    }
    if (hp->attn_scale == 0) hp->attn_scale = (float)(1 / sqrt((double)hp->head));
}

static sp_err fill_in(const sp_source *s, sp_config *c)
{
    c->arch = s->arch;
    c->hp.arch = s->arch->name;
    if (c->hp.norm_eps < 0) return missing(s, AT(hp.norm_eps));
    SP_TRY(fill_in_heads(s, &c->hp));
    SP_TRY(fill_in_experts(s, c));
    SP_TRY(sp_config_rope(s, c));
    SP_TRY(sp_config_layers(s, c));
    fill_in_scales(s, &c->hp);
    return SP_OK;
}

/* preset_gemma3 -- what published folders leave out. */
static void preset_gemma3(sp_hparams *hp)
{
    hp->n_heads = 8;
    hp->n_kv_heads = 4;
    hp->head = 256;
    hp->n_vocab = 262208;
    hp->n_ctx = 131072;
    hp->norm_eps = 1e-6F;
}

/* The defaults of Qwen and Gemma, if their files leave them out. */
static void preset(const sp_source *s, sp_config *c)
{
    c->hp.norm_eps = -1; /* not given */
    c->last_mixture = -1;
    if (s->arch->window == SP_WINDOW_FLAG && !s->gguf) c->window_from = 28;
    if (s->arch->traits & SP_QUERY_SCALAR && !s->gguf) c->hp.attn_scale = 256;
    if (strcmp(s->arch->name, "gemma3") == 0 && !s->gguf) preset_gemma3(&c->hp);
    if (strcmp(s->arch->name, "gemma2") != 0) return;
    c->hp.attn_cap = 50;
    c->hp.logit_cap = 30;
    c->hp.sliding_window = 4096;
}

/* -- GGUF ----------------------------------------------------------------------------------- */

static sp_err check_gguf(const sp_source *s, const sp_config *c)
{
    static const sp_param value_length = {.gguf = "attention.value_length"};
    char name[SP_CONFIG_NAME_BYTES];
    double x;
    bool found;
    SP_TRY(sp_config_number(s, &value_length, &x, &found));
    if (found && x != c->hp.head)
        return sp_fail(SP_E_UNSUPPORTED, "%s: %s: %g: differs from the size of keys, %d, which is not supported",
                       s->path, sp_config_full_name(s, &value_length, name), x, c->hp.head);
    return SP_OK;
}

/* choose_by_keys -- for architectures without a name of their own in GGUF files. */
static sp_err choose_by_keys(sp_source *s)
{
    static const sp_param keys[] = {{.gguf = "expert_count"}, {.gguf = "attention.sliding_window"}};
    for (size_t i = 0; i < SP_COUNT(keys); i++) {
        const sp_arch *other = sp_arch_with(s->arch, keys[i].gguf);
        double n;
        bool found;
        SP_TRY(sp_config_number(s, &keys[i], &n, &found));
        if (found && n > 0 && other) s->arch = other;
    }
    return SP_OK;
}

/* Whether the weights of the chosen experts sum to 1. */
static sp_err read_top_of_gguf(const sp_source *s, sp_config *c)
{
    static const sp_param norm = {.gguf = "expert_weights_norm"};
    double x;
    bool found;
    if (!(s->arch->traits & SP_EXPERTS)) return SP_OK;
    const uint64_t all = SP_NORM_TOP | SP_EXPERTS_SIGMOID;
    c->hp.moe.sum_to_1 = s->arch->traits & all || strcmp(s->arch->name, "qwen3moe") == 0;
    SP_TRY(sp_config_number(s, &norm, &x, &found));
    if (found) c->hp.moe.sum_to_1 = x != 0;
    return SP_OK;
}

static sp_err unknown(const char *path, const char *field, sp_text_view name)
{
    const char *why = sp_arch_why_not(name);
    return sp_fail(SP_E_UNSUPPORTED, "%s: %s: \"%.*s\" is not supported%s%s (known: %s)", path, field,
                   SP_VIEW(name), why ? ": " : "", why ? why : "", sp_arch_list());
}

sp_err sp_config_of_gguf(const sp_gguf *g, sp_config *out)
{
    sp_source s = {.path = g->path, .gguf = g};
    sp_config c = {0};
    sp_text_view arch;
    SP_TRY(sp_gguf_text(g, "general.architecture", &arch));
    if (!arch.s) return sp_fail(SP_E_FORMAT, "%s: general.architecture: is missing", g->path);
    s.arch = sp_arch_of_gguf(arch);
    if (!s.arch)
        return unknown(g->path, "general.architecture", arch);
    s.prefix = s.arch->gguf;
    SP_TRY(choose_by_keys(&s));
    SP_TRY(sp_config_claims(&s));
    preset(&s, &c);
    SP_TRY(sp_config_read(&s, sp_config_numbers(), &c));
    SP_TRY(read_top_of_gguf(&s, &c));
    SP_TRY(fill_in(&s, &c));
    SP_TRY(check_gguf(&s, &c));
    c.adjacent = s.arch->traits & SP_ADJACENT;
    *out = c;
    return SP_OK;
}

/* -- config.json ---------------------------------------------------------------------------- */

static const char *act_of(const sp_source *s)
{
    const uint64_t traits = s->arch->traits;
    return traits & SP_GELU ? "gelu_pytorch_tanh" : traits & SP_RELU2 ? "relu2" : "silu";
}

static bool is_act(const sp_source *s, const char *name)
{
    /* Configurations of the first Gemma say "gelu" and mean this. */
    return strcmp(name, act_of(s)) == 0 ||
           (strcmp(s->arch->name, "gemma") == 0 && strcmp(name, "gelu") == 0);
}

/* read_fp8 -- of a quantization_config. */
static sp_err read_fp8(const sp_source *s, const json_t *quant, sp_fp8_blocks *out)
{
    const json_t *format = json_object_get(quant, "fmt"), *block = json_object_get(quant, "weight_block_size");
    const json_int_t rows = json_integer_value(json_array_get(block, 0));
    const json_int_t columns = json_integer_value(json_array_get(block, 1));
    if (format && !json_is_null(format) && !(json_is_string(format) && strcmp(json_string_value(format), "e4m3") == 0))
        return sp_fail(SP_E_UNSUPPORTED, "%s: quantization_config.fmt: it is not \"e4m3\"", s->path);
    out->used = true;
    if (!block || json_is_null(block)) return SP_OK;
    if (json_array_size(block) != 2 || rows < 1 || columns < 1 || rows > 1 << 20 || columns > 1 << 20)
        return sp_fail(SP_E_FORMAT, "%s: quantization_config.weight_block_size: is not two sizes", s->path);
    out->rows = (int)rows;
    out->columns = (int)columns;
    return SP_OK;
}

/* read_quantization -- of the whole file or of its text part. */
static sp_err read_quantization(const sp_source *s, const json_t *root, sp_config *c)
{
    const json_t *quant = json_object_get(root, "quantization_config");
    const char *method = json_string_value(json_object_get(quant, "quant_method"));
    const bool experts = s->arch->traits & SP_EXPERTS_OSS && method && strcmp(method, "mxfp4") == 0; /* weights.c */
    if (!quant || json_is_null(quant) || experts) return SP_OK;
    if (method && strcmp(method, "fp8") == 0) return read_fp8(s, quant, &c->fp8);
    return sp_fail(SP_E_UNSUPPORTED, "%s: quantization_config: \"%.40s\" is not supported", s->path,
                   method ? method : "?");
}

static sp_err check_json(const sp_source *s)
{
    static const char *const acts[] = {"hidden_act", "hidden_activation"};
    for (size_t i = 0; i < SP_COUNT(acts); i++) {
        const json_t *act = json_object_get(s->root, acts[i]);
        if (act && !json_is_null(act) &&
            !(json_is_string(act) && is_act(s, json_string_value(act))))
            return sp_fail(SP_E_UNSUPPORTED, "%s: %s: \"%.40s\" is not supported (%s is)", s->path,
                           acts[i], json_is_string(act) ? json_string_value(act) : "?",
                           act_of(s));
    }
    return SP_OK;
}

static sp_err find_arch(sp_source *s, char **path)
{
    const char *type;
    SP_TRY(sp_config_find_text(s, &type, path));
    const json_t *classes = json_object_get(s->root, "architectures");
    const char *class_name = json_string_value(json_array_get(classes, 0));
    if (!type && !class_name) return sp_fail(SP_E_FORMAT, "%s: model_type: is missing", s->path);
    s->arch = sp_arch_of_hf(type, class_name);
    if (s->arch) return SP_OK;
    const char *name = type ? type : class_name;
    return unknown(s->path, "model_type", (sp_text_view){.s = name, .n = strlen(name)});
}

/* A null turns off what the architecture has otherwise. */
static void take_nulls(const sp_source *s, sp_config *c)
{
    static const struct {
        const char *key;
        size_t field;
    } caps[] = {{"attn_logit_softcapping", AT(hp.attn_cap)},
                {"final_logit_softcapping", AT(hp.logit_cap)}};
    for (size_t i = 0; i < SP_COUNT(caps); i++)
        if (json_is_null(json_object_get(s->root, caps[i].key)))
            *(float *)((char *)c + caps[i].field) = 0;
    if (json_is_null(json_object_get(s->root, "sliding_window"))) c->hp.sliding_window = 0;
}

/* says -- the value of a field of config.json, or the default of the class. */
static bool says(const sp_source *s, const char *field, bool otherwise)
{
    const json_t *j = json_object_get(s->root, field);
    return json_is_boolean(j) ? json_is_true(j) : otherwise;
}

static void read_biases(const sp_source *s, sp_config *c)
{
    static const char *const fields[] = {"attention_bias", "use_bias", "use_qkv_bias", "qkv_bias", "bias"};
    const uint64_t traits = s->arch->traits;
    const bool glm = traits & SP_ADJACENT_HF && traits & SP_FUSED_UP, seed = strcmp(s->arch->name, "seed_oss") == 0;
    const bool none_out = glm || seed || traits & SP_QK_NORM_MAYBE; /* the output has none in these classes */
    const bool attention = says(s, "attention_bias", glm || seed || traits & SP_EXPERTS_OSS);
    const bool all = says(s, "use_bias", traits & SP_C_NAMES), bias = says(s, "bias", false);
    const bool qkv = (traits & SP_QKV_BIAS && says(s, "qkv_bias", true)) || says(s, "use_qkv_bias", false);
    if (attention || all || bias || qkv) c->biases |= SP_BIAS_QKV;
    if (all || bias || says(s, "attention_out_bias", attention && !none_out)) c->biases |= SP_BIAS_OUT;
    if (all || says(s, "mlp_bias", false)) c->biases |= SP_BIAS_FFN;
    for (size_t i = 0; i < SP_COUNT(fields) && !c->bias_field; i++)
        if (json_object_get(s->root, fields[i])) c->bias_field = fields[i];
}

/* read_tie -- of a model of several media, the whole or its text part says it. */
static void read_tie(const sp_source *s, const json_t *root, sp_config *c)
{
    const json_t *whole = json_object_get(root, "tie_word_embeddings");
    const json_t *text = json_object_get(s->root, "tie_word_embeddings");
    c->tied = json_is_true(whole) || json_is_true(text);
    c->untied = !c->tied && (json_is_false(whole) || json_is_false(text));
}

static sp_err read_json(sp_source *s, const json_t *root, char **path, sp_config *c)
{
    SP_TRY(find_arch(s, path));
    SP_TRY(sp_config_find_rope(s));
    SP_TRY(check_json(s));
    SP_TRY(read_quantization(s, root, c));
    if (s->root != root) SP_TRY(read_quantization(s, s->root, c));
    SP_TRY(sp_config_claims(s));
    preset(s, c);
    take_nulls(s, c);
    SP_TRY(sp_config_read(s, sp_config_numbers(), c));
    c->hp.moe.sum_to_1 = says(s, "norm_topk_prob", s->arch->traits & SP_EXPERTS_SIGMOID);
    SP_TRY(fill_in(s, c));
    read_tie(s, root, c);
    read_biases(s, c);
    c->head_norms = says(s, "use_qk_norm", false);
    c->adjacent = s->arch->traits & SP_ADJACENT_HF;
    c->media = s->media;
    return SP_OK;
}

sp_err sp_config_of_json(const json_t *root, const char *path, sp_config *out)
{
    sp_source s = {.path = path, .root = root};
    sp_config c = {0};
    char *text_path = NULL;
    const sp_err err = read_json(&s, root, &text_path, &c);
    sp_free(text_path);
    if (err == SP_OK) *out = c;
    return err;
}
