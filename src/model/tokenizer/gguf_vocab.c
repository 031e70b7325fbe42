/* gguf_vocab.c -- reads the tokenizer.ggml.* keys of a GGUF file. */
#include "model/tokenizer/gguf_vocab.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "model/tokenizer/pretokenize.h"

#define KEY "tokenizer.ggml."

/* -- scalars -------------------------------------------------------------------------------- */

/* Reads a token id: `otherwise` if the key is absent, -1 for "none", which some files write as
 * unsigned. */
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

static sp_err read_scalars(const sp_gguf *g, bool bos, sp_vocab_spec *v)
{
    size_t n = v->n_tokens;
    /* Files of SentencePiece models may omit the ids that their vocabularies share; T5 has others. */
    bool low = v->spm && n > 2, t5 = v->unigram;
    SP_TRY(read_id(g, KEY "bos_token_id", n, low && !t5 ? 1 : -1, &v->marks.bos));
    SP_TRY(read_id(g, KEY "eos_token_id", n, low ? (t5 ? 1 : 2) : -1, &v->marks.eos));
    SP_TRY(read_id(g, KEY "unknown_token_id", n, low ? (t5 ? 2 : 0) : -1, &v->marks.unk));
    /* Byte-level vocabularies drop a byte that they lack. Converters name their padding or end of text here. */
    if (!v->spm) v->marks.unk = -1;
    SP_TRY(read_id(g, KEY "eot_token_id", n, -1, &v->marks.eot));
    SP_TRY(read_id(g, KEY "eom_token_id", n, -1, &v->marks.ends[0])); /* a message, a call for example */
    v->marks.n_ends = v->marks.ends[0] >= 0;
    SP_TRY(read_flag(g, KEY "add_bos_token", (v->spm && !t5) || bos, &v->marks.add_bos));
    SP_TRY(read_flag(g, KEY "add_eos_token", t5, &v->marks.add_eos));
    return read_flag(g, KEY "add_space_prefix", v->spm && !t5, &v->words.add_space_prefix);
}

/* Files of BERT models do not say how a text is read: assume the uncased models' way. */
static const sp_wordpiece bert = {.on = true,
                                  .marked = true,
                                  .clean = true,
                                  .split_cjk = true,
                                  .strip_accents = true,
                                  .lower = true,
                                  .max_chars = 100};

static sp_err read_bert_scalars(const sp_gguf *g, sp_vocab_spec *v)
{
    const size_t n = v->n_tokens;
    SP_TRY(read_id(g, KEY "cls_token_id", n, n > 101 ? 101 : -1, &v->marks.bos));
    SP_TRY(read_id(g, KEY "seperator_token_id", n, n > 102 ? 102 : -1, &v->marks.eos));
    SP_TRY(read_id(g, KEY "unknown_token_id", n, n > 100 ? 100 : -1, &v->marks.unk));
    v->marks.eot = -1;
    v->marks.add_bos = v->marks.add_eos = true;
    if (v->marks.unk < 0) return sp_fail(SP_E_FORMAT, "%s: " KEY "unknown_token_id: is missing", g->path);
    return SP_OK;
}

/* Unknown names are refused: splitting the text differently would silently yield other tokens. */
static sp_err read_pre(const sp_gguf *g, sp_vocab_spec *v, bool *bos)
{
    sp_text_view name;
    SP_TRY(sp_gguf_text(g, KEY "pre", &name));
    if (!name.s || sp_view_is(name, "default")) {
        sp_log(SP_LOG_WARN, "%s: " KEY "pre: is missing; assuming gpt-2", g->path);
        v->pre = SP_PRE_GPT2;
        return SP_OK;
    }
    const sp_pre_row *row = sp_pre_find(name);
    if (!row)
        return sp_fail(SP_E_UNSUPPORTED, "%s: " KEY "pre: \"%.*s\" is not supported", g->path,
                       SP_VIEW(name));
    v->pre = row->kind;
    v->ignore_merges = row->ignore_merges;
    *bos = row->add_bos;
    return SP_OK;
}

/* -- lists ---------------------------------------------------------------------------------- */

/* A vocabulary and the lists that hold its views. */
typedef struct vocab {
    sp_vocab_spec spec;
    sp_text_view *tokens, *merges;
    double *scores;
    int32_t *types;
    char *charsmap;
} vocab;

static sp_err read_strings(const sp_gguf *g, const char *key, sp_text_view **out, size_t *n)
{
    const sp_gguf_entry *e = sp_gguf_find(g, key);
    if (!e) return sp_fail(SP_E_FORMAT, "%s: %s: is missing", g->path, key);
    if (!e->is_array || e->type != SP_GGUF_STRING)
        return sp_fail(SP_E_FORMAT, "%s: %s: is not a list of strings", g->path, key);
    sp_text_view *list = sp_alloc((size_t)e->n, sizeof *list);
    if (!list) return sp_fail_nomem("a list of tokens");
    sp_gguf_strings(e, e->n, list);
    *out = list;
    *n = (size_t)e->n;
    return SP_OK;
}

/* read_numbers -- a list with one number for each token; NULL if it is absent. */
static sp_err read_numbers(const sp_gguf *g, const char *key, size_t n_tokens, double **out)
{
    const sp_gguf_entry *e = sp_gguf_find(g, key);
    *out = NULL;
    if (!e) return SP_OK;
    if (!e->is_array || e->type == SP_GGUF_STRING)
        return sp_fail(SP_E_FORMAT, "%s: %s: is not a list of numbers", g->path, key);
    if (e->n != n_tokens)
        return sp_fail(SP_E_FORMAT, "%s: %s: %" PRIu64 " numbers for %zu tokens", g->path, key, e->n, n_tokens);
    double *list = SP_NEW_N(double, n_tokens);
    if (!list) return sp_fail_nomem("a list of numbers");
    for (size_t i = 0; i < n_tokens; i++) sp_gguf_number(e, i, &list[i]);
    *out = list;
    return SP_OK;
}

static sp_err check_types(const sp_gguf *g, const double *x, size_t n, int32_t *out)
{
    for (size_t i = 0; i < n; i++) {
        if (!(x[i] >= 0 && x[i] <= SP_TOKEN_BYTE))
            return sp_fail(SP_E_FORMAT, "%s: " KEY "token_type: token %zu has the unknown type %g", g->path, i, x[i]);
        out[i] = x[i] < 1 ? SP_TOKEN_NORMAL : (int32_t)x[i]; /* 0: undefined */
    }
    return SP_OK;
}

static sp_err read_types(const sp_gguf *g, vocab *v)
{
    double *x;
    const size_t n = v->spec.n_tokens;
    SP_TRY(read_numbers(g, KEY "token_type", n, &x));
    if (!x) return SP_OK;
    v->spec.types = v->types = SP_NEW_N(int32_t, n);
    const sp_err err = v->types ? check_types(g, x, n, v->types) : sp_fail_nomem("token types");
    sp_free(x);
    return err;
}

/* -- unigram -------------------------------------------------------------------------------- */

/* read_charsmap -- the table of characters, a list of bytes. */
static sp_err read_charsmap(const sp_gguf *g, vocab *v)
{
    const sp_gguf_entry *e = sp_gguf_find(g, KEY "precompiled_charsmap");
    double x = 0;
    if (!e) return SP_OK;
    if (!e->is_array || (e->type != SP_GGUF_U8 && e->type != SP_GGUF_I8))
        return sp_fail(SP_E_FORMAT, "%s: " KEY "precompiled_charsmap: is not a list of bytes",
                       g->path);
    v->charsmap = sp_alloc((size_t)e->n, 1);
    if (!v->charsmap) return sp_fail_nomem("a table of characters");
    for (size_t i = 0; i < e->n; i++) {
        sp_gguf_number(e, i, &x);
        v->charsmap[i] = (char)(uint8_t)(int)x;
    }
    v->spec.charsmap = (sp_text_view){v->charsmap, (size_t)e->n};
    return SP_OK;
}

/* read_unigram -- Source: SentencePiece; an unknown character counts 10 less than the worst token. */
static sp_err read_unigram(const sp_gguf *g, vocab *v)
{
    sp_vocab_spec *s = &v->spec;
    bool squeeze, suffix;
    double least = INFINITY;
    SP_TRY(read_charsmap(g, v));
    SP_TRY(read_flag(g, KEY "remove_extra_whitespaces", false, &squeeze));
    SP_TRY(read_flag(g, KEY "treat_whitespace_as_suffix", false, &suffix));
    if (suffix)
        return sp_fail(SP_E_UNSUPPORTED,
                       "%s: " KEY "treat_whitespace_as_suffix: true is not supported", g->path);
    for (size_t i = 0; s->scores && i < s->n_tokens; i++)
        if ((!s->types || s->types[i] == SP_TOKEN_NORMAL) && s->scores[i] < least)
            least = s->scores[i];
    s->unk_score = isinf(least) ? 0 : least - 10;
    s->spaces = (sp_spaces){
        .squeeze = squeeze, .strip_left = squeeze, .strip_right = squeeze, .strip_marks = squeeze};
    s->words.fuse_unk = s->single = true;
    return SP_OK;
}

/* -- the vocabulary ------------------------------------------------------------------------- */

static sp_err read_vocab(const sp_gguf *g, vocab *v)
{
    sp_vocab_spec *s = &v->spec;
    bool bos = false;
    SP_TRY(read_strings(g, KEY "tokens", &v->tokens, &s->n_tokens));
    s->tokens = v->tokens;
    if (s->n_tokens == 0 || s->n_tokens > INT32_MAX)
        return sp_fail(SP_E_FORMAT, "%s: " KEY "tokens: %zu tokens", g->path, s->n_tokens);
    SP_TRY(read_numbers(g, KEY "scores", s->n_tokens, &v->scores));
    s->scores = v->scores;
    SP_TRY(read_types(g, v));
    if (s->wordpiece.on) return read_bert_scalars(g, s);
    if (!s->spm) SP_TRY(read_pre(g, s, &bos));
    if (!s->spm) SP_TRY(read_strings(g, KEY "merges", &v->merges, &s->n_merges));
    s->merges = v->merges;
    if (s->unigram) SP_TRY(read_unigram(g, v));
    if (s->spm && !s->scores) return sp_fail(SP_E_FORMAT, "%s: " KEY "scores: is missing", g->path);
    return read_scalars(g, bos, s);
}

sp_err sp_gguf_tokenizer(const sp_gguf *g, sp_tokenizer **out)
{
    sp_text_view model;
    SP_TRY(sp_gguf_text(g, KEY "model", &model));
    if (!model.s || sp_view_is(model, "none") || sp_view_is(model, "no_vocab")) {
        *out = NULL;
        return SP_OK;
    }
    const bool unigram = sp_view_is(model, "t5");
    vocab v = {.spec = {.path = g->path,
                        .spm = unigram || sp_view_is(model, "llama"),
                        .unigram = unigram}};
    if (sp_view_is(model, "bert")) v.spec.wordpiece = bert;
    if (!v.spec.spm && !v.spec.wordpiece.on && !sp_view_is(model, "gpt2"))
        return sp_fail(SP_E_UNSUPPORTED, "%s: " KEY "model: \"%.*s\" is not supported", g->path,
                       SP_VIEW(model));
    sp_err err = read_vocab(g, &v);
    if (err == SP_OK) err = sp_tokenizer_create(&v.spec, out);
    sp_free(v.tokens);
    sp_free(v.merges);
    sp_free(v.scores);
    sp_free(v.types);
    sp_free(v.charsmap);
    return err;
}
