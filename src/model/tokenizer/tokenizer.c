/* tokenizer.c -- a vocabulary and its algorithms, with one interface.
 *
 *   text --special tokens--> pieces of plain text --bpe.c, spm.c, unigram.c or wordpiece.c--> ids
 *   ids  --pieces[]--------> text
 *
 * A tokenizer copies and indexes its data at creation and never changes afterwards. Encoding
 * allocates its own working memory, so no lock is needed.
 */
#include "model/tokenizer/tokenizer.h"

#include <string.h>

#include "model/tokenizer/tokenizer_int.h"

#define MAX_TEXT_BYTES ((size_t)1 << 30)
#define MAX_TOKENS     ((size_t)1 << 24)

/* -- creation -------------------------------------------------------------------------------- */

static sp_err check_id(const sp_vocab_spec *spec, const char *name, int32_t id)
{
    if (id >= -1 && (id < 0 || (size_t)id < spec->n_tokens)) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: %s token %d is outside the vocabulary of %zu tokens",
                   spec->path, name, id, spec->n_tokens);
}

static sp_err check_spec(const sp_vocab_spec *spec)
{
    if (spec->n_tokens == 0) return sp_fail(SP_E_FORMAT, "%s: the vocabulary is empty", spec->path);
    if (spec->n_tokens > MAX_TOKENS)
        return sp_fail(SP_E_LIMIT, "%s: a vocabulary of %zu tokens (at most %zu)", spec->path,
                       spec->n_tokens, MAX_TOKENS);
    if (spec->n_merges > 4 * MAX_TOKENS)
        return sp_fail(SP_E_LIMIT, "%s: %zu merges (at most %zu)", spec->path, spec->n_merges,
                       4 * MAX_TOKENS);
    for (size_t i = 0; spec->types && i < spec->n_tokens; i++)
        if (spec->types[i] < SP_TOKEN_NORMAL || spec->types[i] > SP_TOKEN_BYTE)
            return sp_fail(SP_E_FORMAT, "%s: token_type[%zu] is %d", spec->path, i, spec->types[i]);
    SP_TRY(check_id(spec, "BOS", spec->marks.bos));
    SP_TRY(check_id(spec, "EOS", spec->marks.eos));
    SP_TRY(check_id(spec, "EOT", spec->marks.eot));
    return check_id(spec, "unknown", spec->marks.unk);
}

static void copy_types(sp_tokenizer *t, const sp_vocab_spec *spec)
{
    for (size_t i = 0; i < t->n_tokens; i++)
        t->types[i] = (uint8_t)(spec->types ? spec->types[i] : SP_TOKEN_NORMAL);
    if (spec->types) return;
    const int32_t control[] = {t->marks.bos, t->marks.eos, t->marks.eot};
    for (size_t i = 0; i < SP_COUNT(control); i++)
        if (control[i] >= 0) t->types[control[i]] = SP_TOKEN_CONTROL;
    if (t->marks.unk >= 0) t->types[t->marks.unk] = SP_TOKEN_UNKNOWN;
}

/* mark_channels -- gpt-oss writes thoughts, text and calls as messages (the harmony format): their marks are part of
 * the answer's text. */
static void mark_channels(sp_tokenizer *t)
{
    static const char *const marks[] = {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>"};
    int32_t ids[SP_COUNT(marks)];
    bool all = sp_tokenizer_find(t, "<|return|>") >= 0;
    for (size_t i = 0; i < SP_COUNT(marks); i++) {
        ids[i] = sp_tokenizer_find(t, marks[i]);
        all = all && ids[i] >= 0 && t->types[ids[i]] == SP_TOKEN_CONTROL;
    }
    for (size_t i = 0; all && i < SP_COUNT(marks); i++) t->types[ids[i]] = SP_TOKEN_MARK;
}

/* mark_thoughts -- some models (Magistral, Command A, Seed-OSS) have control tokens around their thoughts. */
static void mark_thoughts(sp_tokenizer *t)
{
    static const char *const marks[] = {"<think>",  "</think>", "<seed:think>",       "</seed:think>",
                                        "[THINK]",  "[/THINK]", "<|START_THINKING|>", "<|END_THINKING|>"};
    for (size_t i = 0; i < SP_COUNT(marks); i++) {
        const int32_t id = sp_tokenizer_find(t, marks[i]);
        if (id >= 0 && t->types[id] == SP_TOKEN_CONTROL) t->types[id] = SP_TOKEN_MARK;
    }
}

static sp_err copy_texts(sp_tokenizer *t, const sp_vocab_spec *spec)
{
    size_t total = 0;
    for (size_t i = 0; i < t->n_tokens; i++)
        if (spec->tokens[i].n > MAX_TEXT_BYTES ||
            __builtin_add_overflow(total, spec->tokens[i].n, &total))
            return sp_fail(SP_E_LIMIT, "%s: tokens[%zu] has %zu bytes", spec->path, i,
                           spec->tokens[i].n);
    char *blob = sp_arena_take(&t->arena, total, 1);
    t->texts = sp_arena_take(&t->arena, t->n_tokens, sizeof *t->texts);
    t->pieces = sp_arena_take(&t->arena, t->n_tokens, sizeof *t->pieces);
    t->types = sp_arena_take(&t->arena, t->n_tokens, 1);
    if (!blob || !t->texts || !t->pieces || !t->types) return sp_fail_nomem("token texts");
    SP_TRY(sp_dict_init(&t->by.text, t->n_tokens));
    for (size_t i = 0; i < t->n_tokens; i++) {
        size_t n = spec->tokens[i].n;
        if (n) memcpy(blob, spec->tokens[i].s, n);
        t->texts[i] = (sp_text_view){blob, n};
        blob += n;
        if (sp_dict_get(&t->by.text, t->texts[i].s, n) == SP_DICT_NONE)
            SP_TRY(sp_dict_put(&t->by.text, t->texts[i].s, n, (uint32_t)i));
    }
    copy_types(t, spec);
    mark_channels(t);
    mark_thoughts(t);
    return SP_OK;
}

static sp_err collect_specials(sp_tokenizer *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_tokens; i++)
        n += sp_token_control(t, (int32_t)i) || t->types[i] == SP_TOKEN_USER || t->types[i] == SP_TOKEN_UNKNOWN;
    t->specials.v = sp_arena_take(&t->arena, n, sizeof *t->specials.v);
    if (!t->specials.v) return sp_fail_nomem("special tokens");
    for (size_t i = 0; i < t->n_tokens; i++) {
        bool user = t->types[i] == SP_TOKEN_USER;
        bool special = user || sp_token_control(t, (int32_t)i) || t->types[i] == SP_TOKEN_UNKNOWN;
        if (special && t->texts[i].n)
            t->specials.v[t->specials.n++] =
                (sp_special){.text = t->texts[i], .id = (int32_t)i, .always = user};
    }
    sp_specials_sort(&t->specials);
    return SP_OK;
}

static sp_err load(sp_tokenizer *t, const sp_vocab_spec *spec)
{
    t->spm = spec->spm;
    t->unigram = spec->unigram;
    t->ignore_merges = spec->ignore_merges;
    t->words = spec->words;
    t->words.add_space_prefix &= spec->spm;
    t->marks = spec->marks;
    t->marks.add_bos &= spec->marks.bos >= 0;
    t->marks.add_eos &= spec->marks.eos >= 0;
    t->wordpiece = spec->wordpiece;
    t->n_tokens = spec->n_tokens;
    for (size_t i = 0; i < SP_COUNT(t->byte_ids); i++) t->byte_ids[i] = -1;
    SP_TRY(copy_texts(t, spec));
    if (t->wordpiece.on)
        SP_TRY(sp_wordpiece_load(t, spec));
    else
        SP_TRY(t->spm ? sp_spm_load(t, spec) : sp_bpe_load(t, spec));
    return collect_specials(t);
}

sp_err sp_tokenizer_create(const sp_vocab_spec *spec, sp_tokenizer **out)
{
    SP_TRY(check_spec(spec));
    sp_tokenizer *t = SP_NEW(sp_tokenizer);
    if (!t) return sp_fail_nomem("a tokenizer");
    sp_arena_init(&t->arena);
    sp_err err = load(t, spec);
    if (err != SP_OK) {
        sp_tokenizer_destroy(t);
        return err;
    }
    *out = t;
    return SP_OK;
}

void sp_tokenizer_destroy(sp_tokenizer *t)
{
    if (!t) return;
    sp_splitter_destroy(t->splitter);
    sp_dict_fini(&t->by.text);
    sp_dict_fini(&t->by.piece);
    sp_dict_fini(&t->by.tail);
    sp_dict_fini(&t->merges.by_pair);
    sp_arena_fini(&t->arena);
    sp_free(t);
}

/* -- encoding -------------------------------------------------------------------------------- */

static sp_err encode_plain(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                           bool prefix, sp_tokens *out)
{
    if (n == 0) return SP_OK;
    if (t->wordpiece.on) return sp_wordpiece_encode(t, w, text, n, out);
    return t->spm ? sp_spm_encode(t, w, text, n, prefix, out) : sp_bpe_encode(t, w, text, n, out);
}

static sp_err encode_all(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                         unsigned flags, sp_tokens *out)
{
    if ((flags & SP_TOK_BOS) && t->marks.add_bos) {
        SP_TRY(sp_vec_reserve(out, 1));
        out->v[out->n++] = t->marks.bos;
    }
    bool prefix = t->words.add_space_prefix && !(flags & SP_TOK_JOINED);
    for (size_t at = 0; at < n;) {
        size_t stop = n;
        const sp_special *found = sp_specials_find(&t->specials, (sp_text_view){text, n}, at,
                                                   flags & SP_TOK_SPECIAL, &stop);
        SP_TRY(encode_plain(t, w, text + at, stop - at, prefix, out));
        if (!found) break;
        SP_TRY(sp_vec_reserve(out, 1));
        out->v[out->n++] = found->id;
        at = stop + found->text.n;
        prefix = t->words.add_space_prefix && !t->words.prefix_first_only;
    }
    return SP_OK;
}

sp_err sp_tokenizer_encode(const sp_tokenizer *t, const char *text, size_t n, unsigned flags,
                           sp_tokens *out)
{
    if (n > MAX_TEXT_BYTES)
        return sp_fail(SP_E_LIMIT, "a text of %zu bytes cannot be tokenized at once (at most %zu)",
                       n, MAX_TEXT_BYTES);
    sp_encode_work work = {0};
    size_t before = out->n;
    sp_err err = t->splitter ? sp_split_init(&work.split, t->splitter) : SP_OK;
    if (err == SP_OK) err = encode_all(t, &work, text, n, flags, out);
    if (err != SP_OK) out->n = before;
    sp_split_fini(&work.split);
    sp_merger_fini(&work.merger);
    sp_vec_fini(&work.mapped);
    sp_vec_fini(&work.escaped);
    sp_vec_fini(&work.path);
    sp_vec_fini(&work.chars);
    return err;
}

/* -- decoding -------------------------------------------------------------------------------- */

sp_err sp_tokenizer_piece(const sp_tokenizer *t, int32_t id, bool special, sp_bytes *out)
{
    if (id < 0 || (size_t)id >= t->n_tokens)
        return sp_fail(SP_E_ARG, "token %d is outside the vocabulary of %zu tokens", id,
                       t->n_tokens);
    if (!special && !sp_token_printed(t, id)) return SP_OK;
    return sp_bytes_add(out, t->pieces[id].s, t->pieces[id].n);
}

bool sp_tokenizer_shows(const sp_tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->n_tokens && sp_token_printed(t, id);
}

sp_err sp_tokenizer_decode(const sp_tokenizer *t, const int32_t *ids, size_t n, bool special,
                           sp_bytes *out)
{
    size_t start = out->n;
    sp_err err = SP_OK;
    bool dummy = t->words.add_space_prefix; /* until the first piece with text */
    for (size_t i = 0; i < n && err == SP_OK; i++) {
        size_t at = out->n;
        err = sp_tokenizer_piece(t, ids[i], special, out);
        if (err != SP_OK || out->n == at) continue;
        if (dummy && out->v[at] == ' ') memmove(out->v + at, out->v + at + 1, --out->n - at);
        dummy = false;
    }
    if (err != SP_OK) out->n = start;
    return err;
}

/* -- properties ------------------------------------------------------------------------------ */

int sp_tokenizer_size(const sp_tokenizer *t)
{
    return (int)t->n_tokens;
}

int32_t sp_tokenizer_bos(const sp_tokenizer *t)
{
    return t->marks.bos;
}

int32_t sp_tokenizer_eos(const sp_tokenizer *t)
{
    return t->marks.eos;
}

bool sp_tokenizer_adds_bos(const sp_tokenizer *t)
{
    return t->marks.add_bos;
}

bool sp_tokenizer_adds_eos(const sp_tokenizer *t)
{
    return t->marks.add_eos;
}

const char *sp_tokenizer_kind(const sp_tokenizer *t)
{
    return t->kind;
}

static bool is_one_of(sp_text_view text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text.n == strlen(list[i]) && memcmp(text.s, list[i], text.n) == 0) return true;
    return false;
}

bool sp_tokenizer_is_end(const sp_tokenizer *t, int32_t id)
{
    /* gpt-oss's <|end|> is a mark, and no control token */
    static const char *const ends[] = {"<|im_end|>",     "<|eot_id|>",    "<|eom_id|>",    "<|end_of_text|>",
                                       "</s>",           "<|endoftext|>", "<end_of_turn>", "<|eot|>",
                                       "[|endofturn|]",  "<|return|>",    "<|call|>",      "<|end|>"};
    static const char *const next[] = {"<|user|>", "<|observation|>"};
    if (id < 0 || (size_t)id >= t->n_tokens) return false;
    if (id == t->marks.eos || id == t->marks.eot) return true;
    for (int i = 0; i < t->marks.n_ends; i++)
        if (t->marks.ends[i] == id) return true;
    if (t->types[id] != SP_TOKEN_CONTROL && t->types[id] != SP_TOKEN_USER) return false;
    if (is_one_of(t->texts[id], ends, SP_COUNT(ends))) return true;
    /* GLM ends its turn with the mark of the next one */
    return is_one_of(t->texts[id], next, SP_COUNT(next)) && sp_tokenizer_find(t, next[1]) >= 0;
}

int32_t sp_tokenizer_find(const sp_tokenizer *t, const char *text)
{
    uint32_t id = sp_dict_get(&t->by.text, text, strlen(text));
    return id == SP_DICT_NONE ? -1 : (int32_t)id;
}
