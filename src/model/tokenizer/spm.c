/* spm.c -- SentencePiece: its vocabularies, and BPE: merging by score, byte fallback (unigram.c: the other algorithm).
 *
 * Spaces become U+2581 and the whole text is one word. Merging starts with its characters and
 * continues while two neighbours form a token, the highest score first (files with scores) or the
 * lowest rank first (tokenizer.json, which has merges instead). Remaining text that is not a token
 * is encoded in byte tokens <0xXX>.
 *
 * The dummy space. SentencePiece adds a space before a text, so that its first word has the same
 * token as in the middle. If special tokens split a text into pieces, this follows llama.cpp: the
 * first piece gets a dummy space, and so does each piece after a special token ("[INST]" after
 * "</s>" is U+2581 "[" ...), whatever it starts with; an empty text gets none. tokenizer.json can
 * set other rules: prefix_first_only and prefix_unless_space.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/tokenizer/tokenizer_int.h"
#include "base/digits.h"
#include "base/utf8.h"

/* -- loading --------------------------------------------------------------------------------- */

/* The byte of a text "<0xXX>", or -1. */
static int byte_of(sp_text_view t)
{
    if (t.n != 6 || memcmp(t.s, "<0x", 3) != 0 || t.s[5] != '>') return -1;
    int high = sp_digit16(t.s[3]), low = sp_digit16(t.s[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static size_t unescape(sp_text_view text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n;) {
        bool space = text.n - i >= SP_SPACE_N && memcmp(text.s + i, SP_SPACE, SP_SPACE_N) == 0;
        out[n++] = space ? ' ' : text.s[i];
        i += space ? SP_SPACE_N : 1;
    }
    return n;
}

static sp_err load_piece(sp_tokenizer *t, const sp_vocab_spec *spec, size_t i, char *out)
{
    int byte = byte_of(t->texts[i]);
    if (byte < 0 && t->types[i] == SP_TOKEN_BYTE)
        return sp_fail(SP_E_FORMAT, "%s: tokens[%zu] is a byte token, but '%.*s' is not <0xXX>",
                       spec->path, i, (int)SP_MIN(t->texts[i].n, 64), t->texts[i].s);
    if (byte >= 0 && !spec->types) t->types[i] = SP_TOKEN_BYTE;
    t->pieces[i] = t->texts[i];
    if (t->types[i] == SP_TOKEN_BYTE) {
        out[0] = (char)byte;
        t->pieces[i] = (sp_text_view){out, 1};
        if (t->byte_ids[byte] < 0) t->byte_ids[byte] = (int32_t)i;
    } else if (t->types[i] == SP_TOKEN_NORMAL || t->types[i] == SP_TOKEN_UNUSED) {
        t->pieces[i] = (sp_text_view){out, unescape(t->texts[i], out)};
    }
    return SP_OK;
}

static sp_err load_scores(sp_tokenizer *t, const sp_vocab_spec *spec)
{
    double *scores = sp_arena_take(&t->arena, t->n_tokens, sizeof *scores);
    if (!scores) return sp_fail_nomem("token scores");
    for (size_t i = 0; i < t->n_tokens; i++) {
        if (isnan(spec->scores[i]))
            return sp_fail(SP_E_FORMAT, "%s: scores[%zu] is not a number", spec->path, i);
        scores[i] = spec->scores[i];
    }
    t->scores = scores;
    return SP_OK;
}

static sp_err load_charsmap(sp_tokenizer *t, const sp_vocab_spec *spec)
{
    const size_t n = spec->charsmap.n;
    t->spaces = spec->spaces;
    if (n == 0) return SP_OK;
    char *blob = sp_arena_take(&t->arena, n, 1);
    if (!blob) return sp_fail_nomem("a table of characters");
    memcpy(blob, spec->charsmap.s, n);
    return sp_charsmap_open(&t->charsmap, (sp_text_view){blob, n}, spec->path);
}

sp_err sp_spm_load(sp_tokenizer *t, const sp_vocab_spec *spec)
{
    size_t total = 0;
    for (size_t i = 0; i < t->n_tokens; i++) total += t->texts[i].n;
    char *blob = sp_arena_take(&t->arena, total, 1);
    if (!blob) return sp_fail_nomem("token texts");
    for (size_t i = 0; i < t->n_tokens; i++) {
        SP_TRY(load_piece(t, spec, i, blob));
        if (t->pieces[i].s == blob) blob += t->pieces[i].n;
        if (sp_token_mergeable(t, (uint32_t)i)) t->longest = SP_MAX(t->longest, t->texts[i].n);
    }
    snprintf(t->kind, sizeof t->kind, "spm");
    SP_TRY(load_charsmap(t, spec));
    SP_TRY(spec->scores ? load_scores(t, spec) : sp_rules_load(t, spec));
    return t->unigram ? sp_unigram_load(t, spec) : SP_OK;
}

/* -- encoding -------------------------------------------------------------------------------- */

static int32_t token_of(const sp_tokenizer *t, const char *s, size_t n)
{
    if (n > t->longest) return -1;
    uint32_t id = sp_dict_get(&t->by.text, s, n);
    return id != SP_DICT_NONE && sp_token_mergeable(t, id) ? (int32_t)id : -1;
}

typedef struct word {
    const sp_tokenizer *t;
    const char *s;
} word;

static bool pair_by_score(const void *user, const sp_symbol *left, const sp_symbol *right,
                          sp_merge_pair *out)
{
    const word *w = user;
    out->id = token_of(w->t, w->s + left->at, (size_t)left->n + right->n);
    if (out->id < 0) return false;
    out->cost = -(double)w->t->scores[out->id];
    return true;
}

static sp_err emit_unk(const sp_tokenizer *t, sp_tokens *out, size_t word_start)
{
    bool repeated = out->n > word_start && out->v[out->n - 1] == t->marks.unk;
    if (t->marks.unk < 0 || (t->words.fuse_unk && repeated)) return SP_OK;
    SP_TRY(sp_vec_reserve(out, 1));
    out->v[out->n++] = t->marks.unk;
    return SP_OK;
}

sp_err sp_spm_emit_unknown(const sp_tokenizer *t, const char *s, size_t n, sp_tokens *out,
                           size_t word_start)
{
    for (size_t i = 0; i < n; i++)
        if (t->byte_ids[(uint8_t)s[i]] < 0) return emit_unk(t, out, word_start);
    SP_TRY(sp_vec_reserve(out, n));
    for (size_t i = 0; i < n; i++) out->v[out->n++] = t->byte_ids[(uint8_t)s[i]];
    return SP_OK;
}

static sp_err merge_word(const sp_tokenizer *t, sp_merger *m, const char *s, size_t n,
                         sp_tokens *out)
{
    sp_merger_reset(m);
    for (size_t i = 0; i < n;) {
        int k = sp_utf8_step((const uint8_t *)s + i, n - i);
        uint32_t len = k > 0 ? (uint32_t)k : 1;
        SP_TRY(sp_merger_add(m, (uint32_t)i, len, token_of(t, s + i, len)));
        i += len;
    }
    if (t->scores)
        SP_TRY(sp_merger_run(m, pair_by_score, &(word){t, s}));
    else
        SP_TRY(sp_merger_run(m, sp_pair_by_rank, t));
    size_t start = out->n;
    for (uint32_t i = n ? 0 : SP_SYMBOL_NONE; i != SP_SYMBOL_NONE; i = m->symbols.v[i].next) {
        const sp_symbol *sym = &m->symbols.v[i];
        if (sym->id < 0) {
            SP_TRY(sp_spm_emit_unknown(t, s + sym->at, sym->n, out, start));
            continue;
        }
        SP_TRY(sp_vec_reserve(out, 1));
        out->v[out->n++] = sym->id;
    }
    return SP_OK;
}

/* The end of the word at s[from]: before the next U+2581 if words are split, else the end of the
 * text. */
static size_t word_end(const sp_tokenizer *t, const sp_bytes *s, size_t from)
{
    if (!t->words.split_words) return s->n;
    const char *next = memmem(s->v + from + 1, s->n - from - 1, SP_SPACE, SP_SPACE_N);
    return next ? (size_t)(next - s->v) : s->n;
}

sp_err sp_spm_encode(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                     bool prefix, sp_tokens *out)
{
    SP_TRY(sp_spm_normalize(t, w, text, n, prefix));
    for (size_t at = 0; at < w->escaped.n;) {
        const size_t end = word_end(t, &w->escaped, at);
        const char *s = w->escaped.v + at;
        SP_TRY(t->unigram ? sp_unigram_encode(t, w, s, end - at, out)
                          : merge_word(t, &w->merger, s, end - at, out));
        at = end;
    }
    return SP_OK;
}
