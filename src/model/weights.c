/* weights.c -- which tensor becomes which weight, as data: a row gives the tensor's names in both
 * kinds of files, its shape, when it must be there and the place of the weight in the struct.
 * Binding a file and walking over a model's weights both go by these rows.
 *
 * A shape of two letters is a matrix, borrowed from the file; of one letter a vector, converted to
 * f32. Letters are those of shapes.h, and Q = H D, K = G D, R = n_rot / 2, X experts, f and S the widths
 * of an expert and of the shared one. A tensor that no row of the architecture names is refused: it
 * implies a computation that the forward pass does not do.
 */
#include "model/weights.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "model/fp8.h"
#include "model/mxfp4.h"

typedef enum need { ALWAYS, MAYBE } need;

/* A matrix that is part of a tensor: its rows start after those of the letters before it. */
typedef struct part {
    const char *rows; /* letters of all parts, or NULL: the tensor is the matrix */
    int index;
} part;

typedef struct row {
    const char *gguf, *hf; /* after the prefix of the layer; NULL: not in this kind of file */
    const char *shape;
    need need;
    size_t field;          /* offset in sp_layer, sp_mlp or sp_model */
    uint64_t when, unless; /* traits: all of `when`, and none of `unless`; else the row is not there */
    part part;
    bool norm;             /* holds norms */
    bool twin;             /* of a row before it that has the same field */
    uint64_t must;         /* MAYBE: must be there with these traits */
    uint8_t claim;         /* SP_BIAS_*: in a folder, config.json must say that there are these biases */
    int columns;           /* not 0: the tensor is transposed, and output r of part i is its column `columns` r + i */
} row;

#define LAYER(f)  offsetof(sp_layer, f)
#define EXPERT(f) offsetof(sp_mlp, f)
#define MODEL(f)  offsetof(sp_model, f)
#define NORM      .norm = true
#define TWIN      .twin = true
#define QKV(i)    .part = {"QKK", i}, TWIN
#define UP(i)     .part = {"FF", i}, TWIN
#define NO_FFN_NORM (SP_NO_PRE_NORMS | SP_PARALLEL | SP_FFN_NORM_AFTER_NAME)
#define NO_GATE   (SP_EXPERTS | SP_FUSED_UP | SP_PLAIN_FFN)
#define OWN_NAMES (SP_EXPERTS_MIXTRAL | SP_EXPERTS_GRANITE | SP_EXPERTS_OSS)
#define SHARED    SP_EXPERTS | SP_SHARED_EXPERT

static const row layer_rows[] = {
    {"attn_norm.weight",   "input_layernorm.weight",          "E",  ALWAYS, LAYER(attn_norm), .unless = SP_NO_PRE_NORMS, NORM},
    {"attn_norm.bias",     "input_layernorm.bias",            "E",  ALWAYS, LAYER(b_attn_norm), .when = SP_LAYERNORM, .unless = SP_PARALLEL},
    {"ffn_norm.bias",      "post_attention_layernorm.bias",   "E",  ALWAYS, LAYER(b_ffn_norm), .when = SP_LAYERNORM, .unless = SP_PARALLEL},
    {"ffn_norm.weight",    "post_attention_layernorm.weight", "E",  ALWAYS, LAYER(ffn_norm), .unless = NO_FFN_NORM | SP_PRE_FFN_NAME, NORM},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", "E", ALWAYS, LAYER(ffn_norm), .when = SP_FFN_NORM_AFTER_NAME, NORM, TWIN},
    {"ffn_norm.weight",    "pre_feedforward_layernorm.weight", "E", ALWAYS, LAYER(ffn_norm), .when = SP_PRE_FFN_NAME, NORM, TWIN},
    {"attn_q.weight",      "self_attn.q_proj.weight",         "QE", ALWAYS, LAYER(wq), .unless = SP_FUSED_QKV},
    {"attn_k.weight",      "self_attn.k_proj.weight",         "KE", ALWAYS, LAYER(wk), .unless = SP_FUSED_QKV},
    {"attn_v.weight",      "self_attn.v_proj.weight",         "KE", ALWAYS, LAYER(wv), .unless = SP_FUSED_QKV},
    {"attn_qkv.weight",    "self_attn.qkv_proj.weight",       "QE", ALWAYS, LAYER(wq), .when = SP_FUSED_QKV, QKV(0)},
    {"attn_qkv.weight",    "self_attn.qkv_proj.weight",       "KE", ALWAYS, LAYER(wk), .when = SP_FUSED_QKV, QKV(1)},
    {"attn_qkv.weight",    "self_attn.qkv_proj.weight",       "KE", ALWAYS, LAYER(wv), .when = SP_FUSED_QKV, QKV(2)},
    {"attn_output.weight", "self_attn.o_proj.weight",         "EQ", ALWAYS, LAYER(wo)},
    {"attn_q.bias",        "self_attn.q_proj.bias",           "Q",  MAYBE,  LAYER(bq), .must = SP_QKV_BIAS, .claim = SP_BIAS_QKV},
    {"attn_k.bias",        "self_attn.k_proj.bias",           "K",  MAYBE,  LAYER(bk), .must = SP_QKV_BIAS, .claim = SP_BIAS_QKV},
    {"attn_v.bias",        "self_attn.v_proj.bias",           "K",  MAYBE,  LAYER(bv), .must = SP_QKV_BIAS, .claim = SP_BIAS_QKV},
    {"attn_output.bias",   "self_attn.o_proj.bias",           "E",  MAYBE,  LAYER(bo), .claim = SP_BIAS_OUT},
    {"attn_sinks.weight",  "self_attn.sinks",                 "H",  ALWAYS, LAYER(sinks), .when = SP_SINKS},
    {"attn_q_norm.weight", "self_attn.q_norm.weight",         "D",  ALWAYS, LAYER(q_norm), .when = SP_QK_NORM, .unless = SP_QK_NORM_WIDE, NORM},
    {"attn_k_norm.weight", "self_attn.k_norm.weight",         "D",  ALWAYS, LAYER(k_norm), .when = SP_QK_NORM, .unless = SP_QK_NORM_WIDE, NORM},
    {"attn_q_norm.weight", "self_attn.q_norm.weight",         "Q",  ALWAYS, LAYER(q_norm), .when = SP_QK_NORM_WIDE, NORM, TWIN},
    {"attn_k_norm.weight", "self_attn.k_norm.weight",         "K",  ALWAYS, LAYER(k_norm), .when = SP_QK_NORM_WIDE, NORM, TWIN},
    {"attn_q_norm.weight", "self_attn.q_norm.weight",         "D",  MAYBE,  LAYER(q_norm), .when = SP_QK_NORM_MAYBE, NORM, TWIN},
    {"attn_k_norm.weight", "self_attn.k_norm.weight",         "D",  MAYBE,  LAYER(k_norm), .when = SP_QK_NORM_MAYBE, NORM, TWIN},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", "E", ALWAYS, LAYER(attn_post_norm), .when = SP_POST_NORMS, .unless = SP_GLM_NAMES, NORM},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight", "E", ALWAYS, LAYER(ffn_post_norm), .when = SP_POST_NORMS, .unless = SP_GLM_NAMES, NORM},
    {"post_attention_norm.weight", "post_self_attn_layernorm.weight", "E", ALWAYS, LAYER(attn_post_norm), .when = SP_GLM_NAMES, NORM, TWIN},
    {"post_ffw_norm.weight", "post_mlp_layernorm.weight",     "E",  ALWAYS, LAYER(ffn_post_norm), .when = SP_GLM_NAMES, NORM, TWIN},
    {"ffn_gate.weight",    "mlp.gate_proj.weight",            "FE", ALWAYS, LAYER(mlp.w_gate), .unless = NO_GATE},
    {"ffn_up.weight",      "mlp.up_proj.weight",              "FE", ALWAYS, LAYER(mlp.w_up), .unless = SP_EXPERTS | SP_FUSED_UP | SP_C_NAMES},
    {"ffn_up.weight",      "mlp.gate_up_proj.weight",         "FE", ALWAYS, LAYER(mlp.w_gate), .when = SP_FUSED_UP, UP(0)},
    {"ffn_up.weight",      "mlp.gate_up_proj.weight",         "FE", ALWAYS, LAYER(mlp.w_up), .when = SP_FUSED_UP, UP(1)},
    {"ffn_down.weight",    "mlp.down_proj.weight",            "EF", ALWAYS, LAYER(mlp.w_down), .unless = SP_EXPERTS | SP_C_NAMES},
    {"ffn_up.weight",      "mlp.c_fc.weight",                 "FE", ALWAYS, LAYER(mlp.w_up), .when = SP_C_NAMES, TWIN},
    {"ffn_down.weight",    "mlp.c_proj.weight",               "EF", ALWAYS, LAYER(mlp.w_down), .when = SP_C_NAMES, TWIN},
    {"ffn_gate.bias",      "mlp.gate_proj.bias",              "F",  MAYBE,  LAYER(mlp.b_gate), .unless = NO_GATE, .claim = SP_BIAS_FFN},
    {"ffn_up.bias",        "mlp.up_proj.bias",                "F",  MAYBE,  LAYER(mlp.b_up), .unless = SP_EXPERTS | SP_FUSED_UP | SP_C_NAMES, .claim = SP_BIAS_FFN},
    {"ffn_down.bias",      "mlp.down_proj.bias",              "E",  MAYBE,  LAYER(mlp.b_down), .unless = SP_EXPERTS | SP_C_NAMES, .claim = SP_BIAS_FFN},
    {"ffn_up.bias",        "mlp.c_fc.bias",                   "F",  MAYBE,  LAYER(mlp.b_up), .when = SP_C_NAMES, TWIN, .claim = SP_BIAS_FFN},
    {"ffn_down.bias",      "mlp.c_proj.bias",                 "E",  MAYBE,  LAYER(mlp.b_down), .when = SP_C_NAMES, TWIN, .claim = SP_BIAS_FFN},
    {"ffn_gate_inp.weight", "mlp.gate.weight",                "XE", ALWAYS, LAYER(router), .when = SP_EXPERTS, .unless = OWN_NAMES},
    {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight",   "XE", ALWAYS, LAYER(router), .when = SP_EXPERTS_MIXTRAL, TWIN},
    {"ffn_gate_inp.weight", "block_sparse_moe.router.layer.weight", "XE", ALWAYS, LAYER(router), .when = SP_EXPERTS_GRANITE, TWIN},
    {"ffn_gate_inp.weight", "mlp.router.weight",              "XE", ALWAYS, LAYER(router), .when = SP_EXPERTS_OSS, TWIN},
    {"ffn_gate_inp.bias",  "mlp.router.bias",                 "X",  ALWAYS, LAYER(b_router), .when = SP_EXPERTS_OSS},
    {"exp_probs_b.bias",   "mlp.gate.e_score_correction_bias", "X", ALWAYS, LAYER(b_choice), .when = SP_EXPERTS_LATER, .unless = SP_EXPERTS_ERNIE},
    {"exp_probs_b.bias",   "mlp.moe_statics.e_score_correction_bias", "X", MAYBE, LAYER(b_choice), .when = SP_EXPERTS_ERNIE, TWIN},
    {"ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight", "SE", ALWAYS, LAYER(shared.w_gate), .when = SP_EXPERTS_LATER, TWIN},
    {"ffn_up_shexp.weight",   "mlp.shared_experts.up_proj.weight",   "SE", ALWAYS, LAYER(shared.w_up), .when = SP_EXPERTS_LATER, TWIN},
    {"ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight", "ES", ALWAYS, LAYER(shared.w_down), .when = SP_EXPERTS_LATER, TWIN},
    {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight", "SE", ALWAYS, LAYER(shared.w_gate), .when = SHARED},
    {"ffn_up_shexp.weight",   "mlp.shared_expert.up_proj.weight",   "SE", ALWAYS, LAYER(shared.w_up), .when = SHARED},
    {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight", "ES", ALWAYS, LAYER(shared.w_down), .when = SHARED},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight",  "1E", ALWAYS, LAYER(shared_gate), .when = SHARED},
};

/* For each expert. GGUF files, granite's and gpt-oss's have one tensor [X, rows, columns] for all of them; the
 * others one per expert, with its number for %d. */
static const row expert_rows[] = {
    {"ffn_gate_exps.weight", "mlp.experts.%d.gate_proj.weight", "fE", ALWAYS, EXPERT(w_gate), .unless = OWN_NAMES},
    {"ffn_up_exps.weight",   "mlp.experts.%d.up_proj.weight",   "fE", ALWAYS, EXPERT(w_up), .unless = OWN_NAMES},
    {"ffn_down_exps.weight", "mlp.experts.%d.down_proj.weight", "Ef", ALWAYS, EXPERT(w_down), .unless = OWN_NAMES},
    {"ffn_gate_exps.weight", "block_sparse_moe.experts.%d.w1.weight", "fE", ALWAYS, EXPERT(w_gate), .when = SP_EXPERTS_MIXTRAL, TWIN},
    {"ffn_up_exps.weight",   "block_sparse_moe.experts.%d.w3.weight", "fE", ALWAYS, EXPERT(w_up), .when = SP_EXPERTS_MIXTRAL, TWIN},
    {"ffn_down_exps.weight", "block_sparse_moe.experts.%d.w2.weight", "Ef", ALWAYS, EXPERT(w_down), .when = SP_EXPERTS_MIXTRAL, TWIN},
    {"ffn_gate_exps.weight", NULL, "fE", ALWAYS, EXPERT(w_gate), .when = SP_EXPERTS_GRANITE, TWIN},
    {"ffn_up_exps.weight",   NULL, "fE", ALWAYS, EXPERT(w_up), .when = SP_EXPERTS_GRANITE, TWIN},
    {"ffn_down_exps.weight", "block_sparse_moe.output_linear.weight", "Ef", ALWAYS, EXPERT(w_down), .when = SP_EXPERTS_GRANITE, TWIN},
    {NULL, "block_sparse_moe.input_linear.weight", "fE", ALWAYS, EXPERT(w_gate), .when = SP_EXPERTS_GRANITE, .part = {"ff", 0}, TWIN},
    {NULL, "block_sparse_moe.input_linear.weight", "fE", ALWAYS, EXPERT(w_up), .when = SP_EXPERTS_GRANITE, .part = {"ff", 1}, TWIN},
    {"ffn_gate_exps.weight", NULL, "fE", ALWAYS, EXPERT(w_gate), .when = SP_EXPERTS_OSS, TWIN},
    {"ffn_up_exps.weight",   NULL, "fE", ALWAYS, EXPERT(w_up), .when = SP_EXPERTS_OSS, TWIN},
    {"ffn_down_exps.weight", NULL, "Ef", ALWAYS, EXPERT(w_down), .when = SP_EXPERTS_OSS, TWIN},
    {"ffn_gate_exps.bias",   NULL, "f",  ALWAYS, EXPERT(b_gate), .when = SP_EXPERTS_OSS},
    {"ffn_up_exps.bias",     NULL, "f",  ALWAYS, EXPERT(b_up), .when = SP_EXPERTS_OSS},
    {"ffn_down_exps.bias",   NULL, "E",  ALWAYS, EXPERT(b_down), .when = SP_EXPERTS_OSS},
    {NULL, "mlp.experts.gate_up_proj", "fE", ALWAYS, EXPERT(w_gate), .when = SP_EXPERTS_OSS, .columns = 2, .part = {NULL, 0}, TWIN},
    {NULL, "mlp.experts.gate_up_proj", "fE", ALWAYS, EXPERT(w_up), .when = SP_EXPERTS_OSS, .columns = 2, .part = {NULL, 1}, TWIN},
    {NULL, "mlp.experts.down_proj",    "Ef", ALWAYS, EXPERT(w_down), .when = SP_EXPERTS_OSS, .columns = 1, TWIN},
    {NULL, "mlp.experts.gate_up_proj_bias", "f", ALWAYS, EXPERT(b_gate), .when = SP_EXPERTS_OSS, .columns = 2, .part = {NULL, 0}, TWIN},
    {NULL, "mlp.experts.gate_up_proj_bias", "f", ALWAYS, EXPERT(b_up), .when = SP_EXPERTS_OSS, .columns = 2, .part = {NULL, 1}, TWIN},
    {NULL, "mlp.experts.down_proj_bias",    "E", ALWAYS, EXPERT(b_down), .when = SP_EXPERTS_OSS, .columns = 1, TWIN},
};

static const row
    embed_row   = {"token_embd.weight",  "model.embed_tokens.weight", "VE", ALWAYS, MODEL(embed)},
    output_row  = {"output.weight",      "lm_head.weight",            "VE", ALWAYS, MODEL(output)},
    norm_row    = {"output_norm.weight", "model.norm.weight",         "E",  ALWAYS, MODEL(output_norm), NORM},
    norm_bias_row = {"output_norm.bias", "model.norm.bias",           "E",  ALWAYS, MODEL(b_output_norm),
                     .when = SP_LAYERNORM, .unless = SP_PARALLEL},
    factors_row = {"rope_freqs.weight",  NULL,                        "R",  MAYBE,  0},
    short_row   = {"rope_factors_short.weight", NULL,                 "R",  MAYBE,  0},
    long_row    = {"rope_factors_long.weight",  NULL,                 "R",  MAYBE,  0};

/* Tensors that repeat what the configuration says. */
static const char *const harmless[] = {".rotary_emb.inv_freq", ".attn_rot_embd.weight"};

enum { NO_LAYER = -1, NAME_BYTES = 128 };

/* What names of a folder begin with: that of the output matrix, and those of all other tensors. */
typedef struct naming {
    const char *output, *others;
} naming;

/* The first is that of models of text; those of several media have any. */
static const naming namings[] = {
    {"", "model."}, {"language_model.", "language_model.model."}, {"", "model.language_model."}};

typedef struct binder {
    const sp_tensor_dir *dir;
    const sp_config *config;
    const char *path;
    bool gguf;
    const naming *names; /* of a folder */
    sp_arena *arena;
    sp_made *made;
    sp_model *m;
    bool *used; /* [dir->list.n] */
} binder;

/* What a row is bound for: a layer or none, and one of its experts or none. */
typedef struct place {
    int layer, expert; /* NO_LAYER */
    void *base;        /* the struct; zeroed where nothing is bound */
} place;

/* -- one tensor ----------------------------------------------------------------------------- */

static int64_t size_of(const sp_hparams *hp, int n_rot, char letter)
{
    switch (letter) {
    case 'E':
        return hp->n_embd;
    case 'F':
        return hp->moe.n ? hp->moe.n_dense_ff : hp->n_ff;
    case 'Q':
        return (int64_t)hp->n_heads * hp->head;
    case 'K':
        return (int64_t)hp->n_kv_heads * hp->head;
    case 'D':
        return hp->head;
    case 'H':
        return hp->n_heads;
    case 'R':
        return n_rot / 2;
    case 'V':
        return hp->n_vocab;
    case 'X':
        return hp->moe.n;
    case 'f':
        return hp->moe.n_ff;
    case 'S':
        return hp->moe.n_shared;
    case '1':
        return 1;
    default:
        return 0;
    }
}

static bool applies(const row *r, uint64_t traits)
{
    return (traits & r->when) == r->when && !(traits & r->unless);
}

/* traits_at -- those of a layer: the first ones may have no mixture. */
static uint64_t traits_at(const binder *b, const place *at)
{
    const uint64_t mixture = SP_EXPERTS | SP_EXPERTS_LATER | SP_EXPERTS_SIGMOID | SP_EXPERTS_ERNIE;
    const bool dense = at->layer != NO_LAYER && at->layer < b->config->hp.moe.n_dense;
    return dense ? b->config->arch->traits & ~mixture : b->config->arch->traits;
}

static bool must_be_there(const binder *b, const row *r)
{
    if (strchr(r->shape, 'S') && b->config->hp.moe.n_shared == 0) return false;
    return r->need == ALWAYS || (b->config->arch->traits & r->must) || (!b->gguf && b->config->biases & r->claim);
}

/* name_tensor -- `end` as in a row, with the number of the expert. */
static void name_tensor(const binder *b, const char *end, int layer, char *name)
{
    static const char others[] = "model.";
    const size_t n = sizeof others - 1;
    if (b->gguf && layer == NO_LAYER)
        snprintf(name, NAME_BYTES, "%s", end);
    else if (b->gguf)
        snprintf(name, NAME_BYTES, "blk.%d.%.96s", layer, end);
    else if (layer != NO_LAYER)
        snprintf(name, NAME_BYTES, "%slayers.%d.%.88s", b->names->others, layer, end);
    else if (strncmp(end, others, n) == 0)
        snprintf(name, NAME_BYTES, "%s%.96s", b->names->others, end + n);
    else
        snprintf(name, NAME_BYTES, "%s%.96s", b->names->output, end);
}

/* The tensor of a row, marked as used; NULL when the file has none. */
static const sp_tensor *find(binder *b, const row *r, const place *at, char *name)
{
    const char *end = b->gguf ? r->gguf : r->hf;
    char suffix[NAME_BYTES];
    *name = 0;
    if (!end) return NULL;
    const char *number = strstr(end, "%d");
    if (number)
        snprintf(suffix, NAME_BYTES, "%.*s%d%s", (int)(number - end), end, at->expert, number + 2);
    else
        snprintf(suffix, NAME_BYTES, "%s", end);
    name_tensor(b, suffix, at->layer, name);
    const sp_tensor *t = sp_tensor_find(b->dir, name, strlen(name));
    if (t) b->used[t - b->dir->list.v] = true;
    return t;
}

/* The part of a tensor that a row takes: rows from .. from + n - 1, counted over all experts. */
typedef struct slice {
    int64_t from, n, of; /* of: rows of one expert, or of the tensor */
} slice;

static slice slice_of(const binder *b, const row *r, const place *at, const sp_tensor *t)
{
    const sp_hparams *hp = &b->m->hp;
    slice s = {.n = size_of(hp, b->config->rope.n_rot, r->shape[0])};
    s.of = s.n;
    if (r->part.rows) {
        s.of = 0;
        for (int i = 0; r->part.rows[i]; i++) {
            if (i == r->part.index) s.from = s.of;
            s.of += size_of(hp, b->config->rope.n_rot, r->part.rows[i]);
        }
    }
    if (at->expert != NO_LAYER && t->n_dims == 3) s.from += at->expert * s.of;
    return s;
}

static sp_err check(const binder *b, const row *r, const place *at, const sp_tensor *t)
{
    const slice s = slice_of(b, r, at, t);
    const bool all = at->expert != NO_LAYER && !strstr(b->gguf ? r->gguf : r->hf, "%d");
    int64_t want[3] = {b->m->hp.moe.n};
    int n = all;
    want[n++] = s.of;
    if (r->shape[1]) want[n++] = size_of(&b->m->hp, b->config->rope.n_rot, r->shape[1]);
    if (r->columns) {
        want[n - 1] = s.of * r->columns;
        if (r->shape[1]) want[n - 2] = size_of(&b->m->hp, b->config->rope.n_rot, r->shape[1]);
    }
    if (t->dtype == SP_DTYPE_N && !(b->config->fp8.used && r->shape[1] && !r->columns && sp_is_fp8(t)))
        return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: its type %s is not supported", t->path,
                       SP_VIEW(t->name), t->type);
    if (r->shape[0] == '1' && t->n_dims == 1 && t->shape[0] == want[1]) return SP_OK;
    if (r->field == LAYER(b_choice) && t->n_dims == 2 && t->shape[0] == 1 && t->shape[1] == want[0]) return SP_OK;
    return sp_tensor_check_shape(t, want, n);
}

/* take -- memory for a matrix that is made. One of no layer may be the output matrix and the embedding, which is read
 * in place: it stays. */
static void *take(binder *b, const place *at, size_t n_bytes)
{
    return at->layer == NO_LAYER ? sp_arena_take(b->arena, n_bytes, 1) : sp_made_take(b->made, n_bytes);
}

/* find_beside -- a tensor whose name has this end in place of t's `weight`, marked as used. */
static const sp_tensor *find_beside(binder *b, const sp_tensor *t, const char *end, char *name)
{
    const int n = (int)t->name.n - (int)strlen("weight");
    snprintf(name, NAME_BYTES, "%.*s%s", SP_MAX(n, 0), t->name.s, end);
    const sp_tensor *found = sp_tensor_find(b->dir, name, strlen(name));
    if (found) b->used[found - b->dir->list.v] = true;
    return found;
}

/* bind_fp8 -- as transformers does without kernels for it: each weight times its scale, as BF16. Scales of inputs are
 * not used: inputs are not rounded to 8-bit floats. */
static sp_err bind_fp8(binder *b, const row *r, const place *at, const sp_tensor *t, sp_mat *out)
{
    static const char *const of_inputs[] = {"activation_scale", "input_scale"};
    char name[NAME_BYTES];
    const slice s = slice_of(b, r, at, t);
    const sp_fp8_blocks *blocks = &b->config->fp8;
    for (size_t i = 0; i < SP_COUNT(of_inputs); i++) find_beside(b, t, of_inputs[i], name);
    const sp_tensor *scale = find_beside(b, t, "weight_scale_inv", name);
    if (!scale) return sp_fail(SP_E_FORMAT, "%s: tensor %s: is missing", t->path, name);
    SP_TRY(sp_fp8_check(t, scale, blocks));
    uint16_t *to = take(b, at, (size_t)(s.n * t->shape[1]) * sizeof *to);
    if (!to) return sp_fail_nomem("FP8 weights");
    *out = (sp_mat){.type = SP_BF16, .n_rows = s.n, .n_cols = t->shape[1], .data = to};
    return sp_fp8_rows(t, scale, blocks, s.from, s.n, to);
}

/* Kernels read whole elements: a matrix that a file placed at an odd address is copied. The fields
 * of a quantized group are 16-bit at most. */
static sp_err bind_matrix(binder *b, const row *r, const place *at, const sp_tensor *t, sp_mat *out)
{
    const slice s = slice_of(b, r, at, t);
    const int64_t n_cols = t->shape[t->n_dims - 1];
    const size_t row_bytes = sp_row_bytes(t->dtype, n_cols), n_bytes = (size_t)s.n * row_bytes;
    const void *data = t->data + (size_t)s.from * row_bytes;
    uintptr_t align = t->dtype == SP_F32 ? sizeof(float) : sizeof(uint16_t);
    if ((uintptr_t)data % align) {
        void *copy = sp_arena_take(b->arena, n_bytes, 1);
        if (!copy) return sp_fail_nomem("an unaligned tensor");
        data = memcpy(copy, data, n_bytes);
        sp_log(SP_LOG_DEBUG, "%s: tensor %.*s: unaligned, copied", t->path, SP_VIEW(t->name));
    }
    *out = (sp_mat){.type = t->dtype, .n_rows = s.n, .n_cols = n_cols, .data = data};
    return SP_OK;
}

/* bind_transposed -- a copy whose rows are the tensor's columns. */
static sp_err bind_transposed(binder *b, const row *r, const place *at, const sp_tensor *t, sp_mat *out)
{
    const slice s = slice_of(b, r, at, t);
    const int64_t n_cols = t->shape[1], n_from = t->shape[2];
    const size_t item = sp_row_bytes(t->dtype, 1);
    if (sp_dtype_of(t->dtype)->n_group != 1)
        return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: its type %s is not supported transposed", t->path,
                       SP_VIEW(t->name), t->type);
    uint8_t *to = take(b, at, (size_t)(s.n * n_cols) * item);
    if (!to) return sp_fail_nomem("a transposed tensor");
    const uint8_t *from = t->data + (size_t)(at->expert * n_cols * n_from + r->part.index) * item;
    for (int64_t c = 0; c < n_cols; c++)
        for (int64_t i = 0; i < s.n; i++)
            memcpy(to + (size_t)(i * n_cols + c) * item,
                   from + (size_t)(c * n_from + i * r->columns) * item, item);
    *out = (sp_mat){.type = t->dtype, .n_rows = s.n, .n_cols = n_cols, .data = to};
    return SP_OK;
}

static sp_err bind_vector(binder *b, const row *r, const place *at, const sp_tensor *t, const float **out)
{
    const int64_t n_all = t->shape[t->n_dims - 1], stride = SP_MAX(r->columns, 1), n = n_all / stride;
    const bool one_of_many = at->expert != NO_LAYER && t->n_dims == 2;
    const size_t skip = one_of_many ? (size_t)at->expert * sp_row_bytes(t->dtype, n_all) : 0;
    float *v = sp_arena_take(b->arena, (size_t)n_all, sizeof *v);
    if (!v) return sp_fail_nomem("a weight vector");
    sp_row_to_f32(t->dtype, t->data + skip, v, n_all);
    for (int64_t i = 0; i < n && stride > 1; i++) v[i] = v[i * stride + r->part.index];
    if (r->norm && !b->gguf && (b->config->arch->traits & SP_NORM_PLUS_1))
        for (int64_t i = 0; i < n; i++) v[i] += 1;
    *out = v;
    return SP_OK;
}

static const sp_tensor *find_part(binder *b, const row *r, const place *at, const char *end, char *name)
{
    char whole[NAME_BYTES];
    row one = *r;
    snprintf(whole, sizeof whole, "%s%s", r->hf, end);
    one.hf = whole;
    return find(b, &one, at, name);
}

static sp_err bind_blocks(binder *b, const row *r, const place *at, const sp_mxfp4_parts *p, sp_mat *out)
{
    const int64_t n = size_of(&b->m->hp, 0, r->shape[0]), n_cols = size_of(&b->m->hp, 0, r->shape[1]);
    const size_t row_bytes = sp_row_bytes(SP_MXFP4, SP_ROUND_UP(n_cols, 32));
    SP_TRY(sp_mxfp4_check(p, b->m->hp.moe.n, n * r->columns, n_cols));
    uint8_t *to = take(b, at, (size_t)n * row_bytes);
    if (!to) return sp_fail_nomem("MXFP4 weights");
    *out = (sp_mat){.type = SP_MXFP4, .n_rows = n, .n_cols = n_cols, .data = to};
    for (int64_t i = 0; i < n; i++, to += row_bytes)
        sp_mxfp4_row(p, (at->expert * n + i) * r->columns + r->part.index, n_cols, to);
    return SP_OK;
}

/* bind_parts -- *done: the tensor of a row is two of MXFP4. */
static sp_err bind_parts(binder *b, const row *r, const place *at, bool *done)
{
    char blocks[NAME_BYTES], scales[NAME_BYTES];
    *done = false;
    if (b->gguf || !r->columns || !r->shape[1]) return SP_OK;
    const sp_mxfp4_parts p = {find_part(b, r, at, "_blocks", blocks), find_part(b, r, at, "_scales", scales)};
    if (!p.blocks && !p.scales) return SP_OK;
    if (!p.blocks || !p.scales)
        return sp_fail(SP_E_FORMAT, "%s: tensor %s: is missing", b->path, p.blocks ? scales : blocks);
    *done = true;
    return bind_blocks(b, r, at, &p, (sp_mat *)((char *)at->base + r->field));
}

/* check_bias -- transformers drops biases that config.json does not claim. */
static sp_err check_bias(const binder *b, const row *r, const sp_tensor *t)
{
    if (b->gguf || !r->claim || b->config->biases & r->claim) return SP_OK;
    const char *field = r->claim == SP_BIAS_FFN   ? "mlp_bias"
                        : b->config->bias_field ? b->config->bias_field
                                                : "attention_bias";
    return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: config.json does not have it (%s: true)", t->path,
                   SP_VIEW(t->name), field);
}

/* Binds the tensor of a row. */
static sp_err bind(binder *b, const row *r, const place *at)
{
    char name[NAME_BYTES];
    if (!applies(r, traits_at(b, at)) || !(b->gguf ? r->gguf : r->hf)) return SP_OK;
    const sp_tensor *t = find(b, r, at, name);
    bool done = false;
    if (!t) SP_TRY(bind_parts(b, r, at, &done));
    if (!t && !done && must_be_there(b, r))
        return sp_fail(SP_E_FORMAT, "%s: tensor %s: is missing", b->path, name);
    if (!t) return SP_OK;
    SP_TRY(check(b, r, at, t));
    SP_TRY(check_bias(b, r, t));
    void *field = (char *)at->base + r->field;
    if (!r->shape[1]) return bind_vector(b, r, at, t, field);
    if (t->dtype == SP_DTYPE_N) return bind_fp8(b, r, at, t, field);
    return r->columns ? bind_transposed(b, r, at, t, field) : bind_matrix(b, r, at, t, field);
}

/* -- the model ------------------------------------------------------------------------------ */

/* V is the number of rows of the embedding; a config.json must agree. */
static sp_err bind_embedding(binder *b, const place *whole)
{
    char name[NAME_BYTES];
    int claimed = b->config->hp.n_vocab;
    const sp_tensor *t = find(b, &embed_row, whole, name);
    if (t && claimed == 0 && t->shape[0] >= 1 && t->shape[0] <= 1 << 26)
        b->m->hp.n_vocab = (int)t->shape[0];
    return bind(b, &embed_row, whole);
}

/* check_tied -- an output matrix although config.json ties it to the embedding: programs differ in which they use. */
static sp_err check_tied(binder *b, const place *whole, const sp_tensor *output)
{
    char name[NAME_BYTES];
    const sp_tensor *embed = find(b, &embed_row, whole, name);
    if (!output || !embed || (output->n_bytes == embed->n_bytes && output->dtype == embed->dtype &&
                              memcmp(output->data, embed->data, embed->n_bytes) == 0))
        return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED,
                   "%s: tensor %.*s: differs from %.*s, and config.json ties them (tie_word_embeddings)", output->path,
                   SP_VIEW(output->name), SP_VIEW(embed->name));
}

static sp_err bind_output(binder *b, const place *whole)
{
    char name[NAME_BYTES];
    const sp_config *c = b->config;
    const sp_tensor *there = find(b, &output_row, whole, name);
    if (c->tied) SP_TRY(check_tied(b, whole, there));
    if (c->tied || (!there && !c->untied)) {
        b->m->output = b->m->embed;
        b->m->tied = true;
        return SP_OK;
    }
    return bind(b, &output_row, whole);
}

/* Factors of longrope: the context ends where the long ones would begin. */
static sp_err bind_long_factors(binder *b, const float **factors)
{
    const float *unused = NULL;
    place at = {NO_LAYER, NO_LAYER, &unused};
    sp_hparams *hp = &b->m->hp;
    const int limit = b->config->rope.trained_ctx;
    SP_TRY(bind(b, &long_row, &at));
    at.base = factors;
    SP_TRY(bind(b, &short_row, &at));
    if (!*factors && (unused || (b->gguf && b->config->rope.scaling == SP_ROPE_LONG)))
        return sp_fail(SP_E_FORMAT, "%s: tensor %s: is missing", b->path, short_row.gguf);
    if (!*factors || limit == 0 || limit >= hp->n_ctx) return SP_OK;
    sp_log(SP_LOG_INFO, "%s: context limited from %d to %d tokens, before longrope begins", b->path,
           hp->n_ctx, limit);
    hp->n_ctx = limit;
    return SP_OK;
}

static sp_err fill_rope(binder *b, const sp_rope_config *r, const float *factors, sp_rope_spec *out)
{
    out->freq = sp_arena_take(b->arena, (size_t)r->n_rot / 2, sizeof(float));
    if (!out->freq) return sp_fail_nomem("rotary frequencies");
    sp_rope_fill(r, factors, b->config->adjacent, out);
    return SP_OK;
}

static sp_err bind_rope(binder *b)
{
    const sp_rope_config *r = &b->config->rope;
    const float *factors = NULL;
    SP_TRY(bind(b, &factors_row, &(place){NO_LAYER, NO_LAYER, &factors}));
    SP_TRY(bind_long_factors(b, &factors));
    for (int i = 0; factors && i < r->n_rot / 2; i++)
        if (!(factors[i] > 0))
            return sp_fail(SP_E_FORMAT, "%s: tensor %s: factor %d is not positive", b->path,
                           factors_row.gguf, i);
    SP_TRY(fill_rope(b, r, factors, &b->m->rope));
    const sp_rope_config *local = &b->config->rope_local;
    return local->n_rot ? fill_rope(b, local, NULL, &b->m->rope_local) : SP_OK;
}

static sp_err bind_experts(binder *b, int l)
{
    sp_layer *w = &b->m->layers[l];
    const size_t n = (size_t)b->m->hp.moe.n;
    if (n == 0 || l < b->config->hp.moe.n_dense) return SP_OK;
    w->ffn = SP_FFN_EXPERTS;
    w->experts = sp_arena_take(b->arena, n, sizeof(sp_mlp));
    if (!w->experts) return sp_fail_nomem("the table of experts");
    for (size_t x = 0; x < n; x++)
        for (size_t i = 0; i < SP_COUNT(expert_rows); i++)
            SP_TRY(bind(b, &expert_rows[i], &(place){l, (int)x, &w->experts[x]}));
    return SP_OK;
}

/* check_norms -- heads of queries and keys have norms together. */
static sp_err check_norms(const binder *b, const sp_layer *w, int l)
{
    const bool may = b->config->arch->traits & SP_QK_NORM_MAYBE, there = w->q_norm;
    if (!w->q_norm != !w->k_norm)
        return sp_fail(SP_E_FORMAT, "%s: layer %d: its norm of %s is missing", b->path, l, there ? "keys" : "queries");
    if (!may || b->gguf || there == b->config->head_norms) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: layer %d has %s, and config.json says otherwise (use_qk_norm)", b->path, l,
                   there ? "norms of queries and keys" : "no norms of queries and keys");
}

static sp_err bind_layers(binder *b)
{
    const sp_config *c = b->config;
    size_t n = (size_t)b->m->hp.n_layers;
    b->m->layers = sp_arena_take(b->arena, n, sizeof(sp_layer));
    if (!b->m->layers) return sp_fail_nomem("the layer table");
    for (size_t l = 0; l < n; l++) {
        sp_layer *w = &b->m->layers[l];
        const bool local = c->layers[l] & SP_LAYER_LOCAL;
        for (size_t i = 0; i < SP_COUNT(layer_rows); i++)
            SP_TRY(bind(b, &layer_rows[i], &(place){(int)l, NO_LAYER, w}));
        SP_TRY(check_norms(b, w, (int)l));
        SP_TRY(bind_experts(b, (int)l));
        w->window = local ? c->hp.sliding_window : 0;
        w->rope = local && c->rope_local.n_rot          ? SP_ROPE_LOCAL
                  : c->layers[l] & SP_LAYER_NO_ROPE ? SP_ROPE_NONE
                                                    : SP_ROPE_MAIN;
    }
    return SP_OK;
}

static bool is_harmless(sp_text_view name)
{
    for (size_t i = 0; i < SP_COUNT(harmless); i++) {
        const size_t n = strlen(harmless[i]);
        if (name.n >= n && memcmp(name.s + name.n - n, harmless[i], n) == 0) return true;
    }
    return false;
}

/* is_extra -- of a layer after the last, which guesses later tokens. */
static bool is_extra(const binder *b, sp_text_view name)
{
    char start[NAME_BYTES], number[8] = "";
    snprintf(start, sizeof start, "%s%s", b->gguf ? "" : b->names->others, b->gguf ? "blk." : "layers.");
    const size_t n = strlen(start);
    if (name.n <= n || memcmp(name.s, start, n) != 0) return false;
    memcpy(number, name.s + n, SP_MIN(name.n - n, sizeof number - 1));
    const int layer = atoi(number), last = b->config->hp.n_layers;
    return layer >= last && layer < last + b->config->n_extra;
}

static sp_err check_unused(const binder *b)
{
    for (size_t i = 0; i < b->dir->list.n; i++) {
        const sp_tensor *t = &b->dir->list.v[i];
        const bool other = b->config->media && sp_config_is_of_media(t->name.s, t->name.n);
        if (!b->used[i] && !other && !is_harmless(t->name) && !is_extra(b, t->name))
            return sp_fail(SP_E_UNSUPPORTED, "%s: tensor %.*s: is not supported for %s",
                           t->path, SP_VIEW(t->name), b->config->arch->name);
    }
    return SP_OK;
}

/* choose_naming -- by the embedding. */
static void choose_naming(binder *b, const place *whole)
{
    char name[NAME_BYTES];
    const size_t n = b->config->media ? SP_COUNT(namings) : 1;
    for (size_t i = n; i-- > 0;) {
        b->names = &namings[i];
        if (i == 0 || find(b, &embed_row, whole, name)) return;
    }
}

static sp_err bind_all(binder *b)
{
    const place whole = {NO_LAYER, NO_LAYER, b->m};
    choose_naming(b, &whole);
    SP_TRY(bind_embedding(b, &whole));
    SP_TRY(bind_output(b, &whole));
    SP_TRY(bind(b, &norm_row, &whole));
    SP_TRY(bind(b, &norm_bias_row, &whole));
    SP_TRY(bind_rope(b));
    SP_TRY(bind_layers(b));
    return check_unused(b);
}

sp_err sp_weights_bind(const sp_tensor_dir *dir, const sp_config *c, const char *path, bool gguf,
                       sp_model_files *files, sp_model *m)
{
    binder b = {.dir = dir, .config = c, .path = path, .gguf = gguf, .m = m};
    b.arena = &files->arena;
    b.made = &files->made;
    b.used = SP_NEW_N(bool, dir->list.n);
    if (!b.used) return sp_fail_nomem("a list of tensors");
    m->hp = c->hp;
    sp_err err = bind_all(&b);
    sp_free(b.used);
    return err;
}

/* -- all weights of a model ----------------------------------------------------------------- */

/* row_at -- row and struct of the i-th weight: embedding, layer after layer, the output; NULL after
 * the last. */
static const row *row_at(sp_model *m, int i, void **base)
{
    const int n_own = (int)SP_COUNT(layer_rows), n_each = (int)SP_COUNT(expert_rows);
    const int n = n_own + n_each * m->hp.moe.n, n_layers = m->hp.n_layers;
    *base = m;
    if (i == 0) return &embed_row;
    if (--i < n * n_layers) {
        sp_layer *w = &m->layers[i / n];
        *base = w;
        i %= n;
        if (i < n_own) return &layer_rows[i];
        *base = w->experts ? &w->experts[(i - n_own) / n_each] : NULL; /* a layer without a mixture */
        return &expert_rows[(i - n_own) % n_each];
    }
    i -= n * n_layers;
    return i == 0 ? &norm_row : i == 1 ? &norm_bias_row : i == 2 ? &output_row : NULL;
}

/* n_floats -- of a vector; norms of heads may be over all of them. */
static int64_t n_floats(const sp_model *m, const row *r)
{
    const sp_hparams *hp = &m->hp;
    const bool wide = hp->wide_qk_norm && r->shape[0] == 'D';
    const int heads = r->field == LAYER(q_norm) ? hp->n_heads : hp->n_kv_heads;
    return size_of(hp, m->rope.n_rot, r->shape[0]) * (wide ? heads : 1);
}

bool sp_weights_next(sp_model *m, int *i, sp_weight *out)
{
    const row *r;
    for (void *base; (r = row_at(m, *i, &base)); ++*i) {
        if (r->twin || !base) continue;
        void *field = (char *)base + r->field;
        sp_weight w = {.n = n_floats(m, r)};
        if (r->shape[1])
            w.mat = field;
        else
            w.vec = field;
        w.use = w.mat == &m->embed ? SP_WEIGHT_ROWS : SP_WEIGHT_PRODUCTS;
        if (w.mat ? w.mat->n_rows == 0 : !*w.vec) continue;
        *out = w;
        ++*i;
        return true;
    }
    return false;
}

sp_mat *sp_model_next_matrix(sp_model *m, int *i)
{
    sp_weight w;
    while (sp_weights_next(m, i, &w))
        if (w.mat) return w.mat;
    return NULL;
}

int64_t sp_model_n_params(sp_model *m)
{
    int64_t n = 0;
    int i = 0;
    for (const sp_mat *w; (w = sp_model_next_matrix(m, &i));)
        if (w != &m->output || !m->tied) n += w->n_rows * w->n_cols;
    return n;
}
