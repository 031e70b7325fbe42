#include "model/gguf_vocab.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/log.h"

#define KEY "tokenizer.ggml."

/* Pre-tokenizers by the names that converters use. A name that is not here is refused: another way
 * to cut the text gives other tokens, silently. */
static const struct {
    const char *name;
    sp_pre_tokenizer pre;
    bool llama3; /* whole pre-tokens are taken before merging; BOS unless the file says no */
} pre_names[] = {
    {"gpt-2", SP_PRE_GPT2, false},      {"phi-2", SP_PRE_GPT2, false},
    {"llama-bpe", SP_PRE_LLAMA3, true}, {"llama3", SP_PRE_LLAMA3, true},
    {"llama-v3", SP_PRE_LLAMA3, true},  {"falcon3", SP_PRE_LLAMA3, true},
    {"qwen2", SP_PRE_QWEN2, false},     {"deepseek-r1-qwen", SP_PRE_QWEN2, false},
};

/* -- scalars -------------------------------------------------------------------------------- */

/* A token id; `otherwise` where the key is absent, -1 where it says so (some write it unsigned). */
static sp_err read_id(const sp_gguf *g, const char *key, size_t n_tokens, int32_t otherwise,
                      int32_t *out)
{
    const sp_gguf_entry *e = sp_gguf_find(g, key);
    double x;
    *out = otherwise;
    if (!e) return SP_OK;
    if (e->is_array || !sp_gguf_number(e, 0, &x) || x != floor(x))
        return sp_fail(SP_E_FORMAT, "%s: %s: is not a token id", g->path, key);
    bool none = x == -1 || (e->type == SP_GGUF_U32 && x == UINT32_MAX);
    if (none) x = -1;
    if (!none && (x < 0 || x >= (double)n_tokens))
        return sp_fail(SP_E_FORMAT, "%s: %s: %g is not one of the %zu tokens", g->path, key, x,
                       n_tokens);
    *out = (int32_t)x;
    return SP_OK;
}

static sp_err read_flag(const sp_gguf *g, const char *key, bool otherwise, bool *out)
{
    const sp_gguf_entry *e = sp_gguf_find(g, key);
    double x = otherwise;
    if (e && (e->type != SP_GGUF_BOOL || !sp_gguf_number(e, 0, &x)))
        return sp_fail(SP_E_FORMAT, "%s: %s: is not a boolean", g->path, key);
    *out = x != 0;
    return SP_OK;
}

static sp_err read_scalars(const sp_gguf *g, bool llama3, sp_vocab_spec *v)
{
    size_t n = v->n_tokens;
    /* Files of SentencePiece models may leave out what their vocabularies have in common. */
    bool low = v->spm && n > 2;
    SP_TRY(read_id(g, KEY "bos_token_id", n, low ? 1 : -1, &v->bos));
    SP_TRY(read_id(g, KEY "eos_token_id", n, low ? 2 : -1, &v->eos));
    SP_TRY(read_id(g, KEY "unknown_token_id", n, low ? 0 : -1, &v->unk));
    SP_TRY(read_id(g, KEY "eot_token_id", n, -1, &v->eot));
    SP_TRY(read_flag(g, KEY "add_bos_token", v->spm || llama3, &v->add_bos));
    SP_TRY(read_flag(g, KEY "add_eos_token", false, &v->add_eos));
    return read_flag(g, KEY "add_space_prefix", v->spm, &v->add_space_prefix);
}

static sp_err read_pre(const sp_gguf *g, sp_vocab_spec *v, bool *llama3)
{
    sp_text_view name;
    SP_TRY(sp_gguf_text(g, KEY "pre", &name));
    if (!name.s || sp_view_is(name, "default")) {
        sp_log(SP_LOG_WARN, "%s: " KEY "pre: not given, gpt-2 is assumed", g->path);
        v->pre = SP_PRE_GPT2;
        return SP_OK;
    }
    for (size_t i = 0; i < SP_COUNT(pre_names); i++) {
        if (!sp_view_is(name, pre_names[i].name)) continue;
        v->pre = pre_names[i].pre;
        v->ignore_merges = *llama3 = pre_names[i].llama3;
        return SP_OK;
    }
    return sp_fail(SP_E_UNSUPPORTED, "%s: " KEY "pre: \"%.*s\" is not supported", g->path,
                   SP_VIEW(name));
}

/* -- lists ---------------------------------------------------------------------------------- */

static sp_err read_strings(const sp_gguf *g, const char *key, const sp_text_view **out, size_t *n)
{
    const sp_gguf_entry *e = sp_gguf_find(g, key);
    if (!e) return sp_fail(SP_E_FORMAT, "%s: %s: is missing", g->path, key);
    if (!e->is_array || e->type != SP_GGUF_STRING)
        return sp_fail(SP_E_FORMAT, "%s: %s: is not a list of strings", g->path, key);
    sp_text_view *list = sp_alloc((size_t)e->n, sizeof *list);
    if (!list) return sp_fail_nomem((size_t)e->n * sizeof *list, "a list of tokens");
    sp_gguf_strings(e, e->n, list);
    *out = list;
    *n = (size_t)e->n;
    return SP_OK;
}

/* A list of one number a token; NULL when it is absent. */
static sp_err find_numbers(const sp_gguf *g, const char *key, size_t n_tokens,
                           const sp_gguf_entry **out)
{
    const sp_gguf_entry *e = sp_gguf_find(g, key);
    if (e && (!e->is_array || e->type == SP_GGUF_STRING))
        return sp_fail(SP_E_FORMAT, "%s: %s: is not a list of numbers", g->path, key);
    if (e && e->n != n_tokens)
        return sp_fail(SP_E_FORMAT, "%s: %s: %" PRIu64 " numbers for %zu tokens", g->path, key,
                       e->n, n_tokens);
    *out = e;
    return SP_OK;
}

static sp_err read_scores(const sp_gguf *g, sp_vocab_spec *v)
{
    const sp_gguf_entry *e = NULL;
    double x = 0;
    SP_TRY(find_numbers(g, KEY "scores", v->n_tokens, &e));
    if (!e) return SP_OK;
    float *scores = sp_alloc(v->n_tokens, sizeof *scores);
    if (!scores) return sp_fail_nomem(v->n_tokens * sizeof *scores, "token scores");
    for (size_t i = 0; i < v->n_tokens; i++) {
        sp_gguf_number(e, i, &x);
        scores[i] = (float)x;
    }
    v->scores = scores;
    return SP_OK;
}

static sp_err read_types(const sp_gguf *g, sp_vocab_spec *v)
{
    const sp_gguf_entry *e = NULL;
    double x = 0;
    SP_TRY(find_numbers(g, KEY "token_type", v->n_tokens, &e));
    if (!e) return SP_OK;
    int32_t *kinds = sp_alloc(v->n_tokens, sizeof *kinds);
    if (!kinds) return sp_fail_nomem(v->n_tokens * sizeof *kinds, "token types");
    v->types = kinds;
    for (size_t i = 0; i < v->n_tokens; i++) {
        sp_gguf_number(e, i, &x);
        if (!(x >= 0 && x <= SP_TOKEN_BYTE))
            return sp_fail(SP_E_FORMAT, "%s: " KEY "token_type: token %zu has the unknown type %g",
                           g->path, i, x);
        kinds[i] = x < 1 ? SP_TOKEN_NORMAL : (int32_t)x; /* 0: undefined */
    }
    return SP_OK;
}

/* -- the vocabulary ------------------------------------------------------------------------- */

static sp_err read_vocab(const sp_gguf *g, sp_vocab_spec *v)
{
    bool llama3 = false;
    SP_TRY(read_strings(g, KEY "tokens", &v->tokens, &v->n_tokens));
    if (v->n_tokens == 0 || v->n_tokens > INT32_MAX)
        return sp_fail(SP_E_FORMAT, "%s: " KEY "tokens: %zu tokens", g->path, v->n_tokens);
    SP_TRY(read_scores(g, v));
    SP_TRY(read_types(g, v));
    if (!v->spm) SP_TRY(read_pre(g, v, &llama3));
    if (!v->spm) SP_TRY(read_strings(g, KEY "merges", &v->merges, &v->n_merges));
    if (v->spm && !v->scores) return sp_fail(SP_E_FORMAT, "%s: " KEY "scores: is missing", g->path);
    return read_scalars(g, llama3, v);
}

sp_err sp_gguf_tokenizer(const sp_gguf *g, sp_tokenizer **out)
{
    sp_text_view model;
    SP_TRY(sp_gguf_text(g, KEY "model", &model));
    if (!model.s || sp_view_is(model, "none") || sp_view_is(model, "no_vocab")) {
        *out = NULL;
        return SP_OK;
    }
    sp_vocab_spec v = {.path = g->path, .spm = sp_view_is(model, "llama")};
    if (!v.spm && !sp_view_is(model, "gpt2"))
        return sp_fail(SP_E_UNSUPPORTED, "%s: " KEY "model: \"%.*s\" is not supported", g->path,
                       SP_VIEW(model));
    sp_err err = read_vocab(g, &v);
    if (err == SP_OK) err = sp_tokenizer_create(&v, out);
    sp_free((void *)v.tokens);
    sp_free((void *)v.merges);
    sp_free((void *)v.scores);
    sp_free((void *)v.types);
    return err;
}
