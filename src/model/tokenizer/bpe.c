/* bpe.c -- byte-level BPE: the byte alphabet, ranked merges, and encoding of words.
 *
 * A byte-level vocabulary uses GPT-2's alphabet of 256 printable characters, one for each byte: the
 * 188 bytes that are printable in Latin-1 are written as themselves, the others, in order, as
 * U+0100, U+0101 ... So a space is "G with dot" (U+0120), a newline "C with dot" (U+010A). Normal
 * tokens use this alphabet; control and user-defined tokens are plain text.
 */
#include <stdio.h>
#include <string.h>

#include "model/tokenizer/tokenizer_int.h"
#include "base/utf8.h"

/* -- the alphabet ---------------------------------------------------------------------------- */

#define ALPHABET_END 0x144 /* after 188 characters of Latin-1 and 68 from U+0100 */

static bool prints(unsigned b)
{
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

/* byte_of[character] for every character of the alphabet, -1 for others below ALPHABET_END. */
static void alphabet_fill(int16_t byte_of[ALPHABET_END])
{
    unsigned next = 0x100;
    for (unsigned c = 0; c < ALPHABET_END; c++) byte_of[c] = -1;
    for (unsigned b = 0; b < 256; b++) byte_of[prints(b) ? b : next++] = (int16_t)b;
}

/* Converts a token's text to the bytes that it means; a character outside the alphabet is copied.
 * `out` has room for text.n bytes: no character gets longer. */
static size_t alphabet_decode(const int16_t byte_of[ALPHABET_END], sp_text_view text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n;) {
        const uint8_t *s = (const uint8_t *)text.s + i;
        int k = sp_utf8_step(s, text.n - i);
        unsigned c = k == 1 ? s[0] : k == 2 ? (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu) : ALPHABET_END;
        size_t len = k > 0 ? (size_t)k : 1;
        if (k > 0 && c < ALPHABET_END && byte_of[c] >= 0) {
            out[n++] = (char)byte_of[c];
        } else {
            memcpy(out + n, s, len);
            n += len;
        }
        i += len;
    }
    return n;
}

/* -- merges ---------------------------------------------------------------------------------- */

static sp_err rule_parse(const sp_tokenizer *t, const sp_vocab_spec *spec, size_t rank,
                         char *joined, sp_merge_rule *out)
{
    sp_text_view m = spec->merges[rank];
    const char *space = m.n > 2 ? memchr(m.s + 1, ' ', m.n - 2) : NULL;
    if (!space)
        return sp_fail(SP_E_FORMAT, "%s: merges[%zu] '%.*s' is not two tokens with a space between",
                       spec->path, rank, (int)SP_MIN(m.n, 64), m.s);
    size_t n = (size_t)(space - m.s);
    memcpy(joined, m.s, n);
    memcpy(joined + n, space + 1, m.n - n - 1);
    uint32_t left = sp_dict_get(&t->by.text, m.s, n);
    uint32_t right = sp_dict_get(&t->by.text, space + 1, m.n - n - 1);
    uint32_t result = sp_dict_get(&t->by.text, joined, m.n - 1);
    if (left == SP_DICT_NONE || right == SP_DICT_NONE || result == SP_DICT_NONE)
        return sp_fail(SP_E_FORMAT, "%s: merges[%zu] '%.*s': %s is not in the vocabulary",
                       spec->path, rank, (int)SP_MIN(m.n, 64), m.s,
                       left == SP_DICT_NONE    ? "its left side"
                       : right == SP_DICT_NONE ? "its right side"
                                               : "its result");
    *out = (sp_merge_rule){(int32_t)left, (int32_t)right, (int32_t)result};
    return SP_OK;
}

sp_err sp_rules_load(sp_tokenizer *t, const sp_vocab_spec *spec)
{
    size_t longest = 0;
    for (size_t i = 0; i < spec->n_merges; i++) longest = SP_MAX(longest, spec->merges[i].n);
    char *joined = sp_alloc(longest, 1);
    t->merges.v = sp_arena_take(&t->arena, spec->n_merges, sizeof *t->merges.v);
    sp_err err = joined && t->merges.v ? sp_dict_init(&t->merges.by_pair, spec->n_merges)
                                    : sp_fail_nomem("merges");
    for (size_t rank = 0; err == SP_OK && rank < spec->n_merges; rank++) {
        sp_merge_rule *r = &t->merges.v[t->merges.n];
        err = rule_parse(t, spec, rank, joined, r);
        if (err != SP_OK) break;
        if (!sp_token_mergeable(t, (uint32_t)r->result)) continue;
        if (sp_dict_get(&t->merges.by_pair, &r->left, 2 * sizeof r->left) != SP_DICT_NONE) continue;
        err = sp_dict_put(&t->merges.by_pair, &r->left, 2 * sizeof r->left, (uint32_t)t->merges.n++);
    }
    sp_free(joined);
    return err;
}

bool sp_pair_by_rank(const void *user, const sp_symbol *left, const sp_symbol *right,
                     sp_merge_pair *out)
{
    const sp_tokenizer *t = user;
    if (left->id < 0 || right->id < 0) return false;
    int32_t key[2] = {left->id, right->id};
    uint32_t rank = sp_dict_get(&t->merges.by_pair, key, sizeof key);
    if (rank == SP_DICT_NONE) return false;
    out->cost = rank;
    out->id = t->merges.v[rank].result;
    return true;
}

/* -- loading --------------------------------------------------------------------------------- */

static sp_err load_pieces(sp_tokenizer *t)
{
    int16_t byte_of[ALPHABET_END];
    alphabet_fill(byte_of);
    size_t total = 0;
    for (size_t i = 0; i < t->n_tokens; i++) total += t->texts[i].n;
    char *blob = sp_arena_take(&t->arena, total, 1);
    if (!blob) return sp_fail_nomem("token texts");
    for (size_t i = 0; i < t->n_tokens; i++) {
        if (t->types[i] != SP_TOKEN_NORMAL) {
            t->pieces[i] = t->texts[i];
            continue;
        }
        size_t n = alphabet_decode(byte_of, t->texts[i], blob);
        t->pieces[i] = (sp_text_view){blob, n};
        blob += n;
        if (n == 1 && t->byte_ids[(uint8_t)blob[-1]] < 0)
            t->byte_ids[(uint8_t)blob[-1]] = (int32_t)i;
    }
    return SP_OK;
}

static sp_err load_whole_words(sp_tokenizer *t)
{
    SP_TRY(sp_dict_init(&t->by.piece, t->n_tokens));
    for (size_t i = t->n_tokens; i-- > 0;) /* backwards, so that the first of equals wins */
        if (t->types[i] == SP_TOKEN_NORMAL)
            SP_TRY(sp_dict_put(&t->by.piece, t->pieces[i].s, t->pieces[i].n, (uint32_t)i));
    return SP_OK;
}

sp_err sp_bpe_load(sp_tokenizer *t, const sp_vocab_spec *spec)
{
    SP_TRY(load_pieces(t));
    SP_TRY(sp_rules_load(t, spec));
    if (t->ignore_merges) SP_TRY(load_whole_words(t));
    snprintf(t->kind, sizeof t->kind, "bpe/%s", sp_pre_name(spec->pre));
    return sp_splitter_create(spec->pre, 0, &t->splitter);
}

/* -- encoding -------------------------------------------------------------------------------- */

/* A byte without a token becomes unk, or nothing if the vocabulary has no unk. */
static int32_t byte_token(const sp_tokenizer *t, char byte)
{
    int32_t id = t->byte_ids[(uint8_t)byte];
    return id >= 0 ? id : t->marks.unk;
}

static sp_err encode_word(const sp_tokenizer *t, sp_merger *m, sp_text_view word, sp_tokens *out)
{
    if (t->ignore_merges) {
        uint32_t id = sp_dict_get(&t->by.piece, word.s, word.n);
        if (id != SP_DICT_NONE) {
            SP_TRY(sp_vec_reserve(out, 1));
            out->v[out->n++] = (int32_t)id;
            return SP_OK;
        }
    }
    sp_merger_reset(m);
    for (size_t i = 0; i < word.n; i++) {
        int32_t id = byte_token(t, word.s[i]);
        if (id >= 0) SP_TRY(sp_merger_add(m, (uint32_t)i, 1, id));
    }
    SP_TRY(sp_merger_run(m, sp_pair_by_rank, t));
    SP_TRY(sp_vec_reserve(out, m->symbols.n));
    for (uint32_t i = m->symbols.n ? 0 : SP_SYMBOL_NONE; i != SP_SYMBOL_NONE;
         i = m->symbols.v[i].next)
        out->v[out->n++] = m->symbols.v[i].id;
    return SP_OK;
}

sp_err sp_bpe_encode(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                     sp_tokens *out)
{
    sp_text_view word;
    bool more;
    sp_split_start(&w->split, text, n);
    for (;;) {
        SP_TRY(sp_split_next(&w->split, &word, &more));
        if (!more) return SP_OK;
        SP_TRY(encode_word(t, &w->merger, word, out));
    }
}
