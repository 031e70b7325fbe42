/* unigram.c -- SentencePiece unigram: the tokens whose scores (logarithms of probabilities) have the largest sum.
 *
 * Viterbi's algorithm over the bytes of a word. Each character is reached from the left by every token that ends
 * there, or, if no token is this character alone, as unknown, for unk_score. Of equal sums the path through the
 * token that begins first wins, so rounding matters: SentencePiece computes in single precision, the
 * `tokenizers` library, which reads tokenizer.json, in double. Adjacent unknown characters form one unknown text. */
#include <math.h>
#include <stdio.h>

#include "model/tokenizer/tokenizer_int.h"
#include "base/utf8.h"

sp_err sp_unigram_load(sp_tokenizer *t, const sp_vocab_spec *spec)
{
    sp_trie_key *keys = sp_alloc(t->n_tokens, sizeof *keys);
    size_t n = 0;
    if (!keys) return sp_fail_nomem("token texts");
    for (size_t i = 0; i < t->n_tokens; i++)
        if (sp_token_mergeable(t, (uint32_t)i)) keys[n++] = (sp_trie_key){t->texts[i], (int32_t)i};
    sp_err err = sp_trie_build(&t->trie, &t->arena, keys, n);
    sp_free(keys);
    t->unk_score = spec->unk_score;
    t->single = spec->single;
    if (err == SP_OK && isnan(t->unk_score))
        err =
            sp_fail(SP_E_FORMAT, "%s: the score of unknown characters is not a number", spec->path);
    snprintf(t->kind, sizeof t->kind, "unigram");
    return err;
}

/* -- the best path -------------------------------------------------------------------------- */

/* reach -- position `to` by way of `from`. */
static void reach(const sp_tokenizer *t, sp_path_step *v, size_t from, size_t to, int32_t id)
{
    double sum = v[from].sum + (id < 0 ? t->unk_score : t->scores[id]);
    if (t->single) sum = (double)(float)sum;
    if (v[to].from != SP_NO_STEP && !(sum > v[to].sum)) return;
    v[to] = (sp_path_step){.sum = sum, .from = (uint32_t)from, .id = id};
}

/* extend -- by all tokens, and the unknown character, that begin at `at`. */
static void extend(const sp_tokenizer *t, sp_path_step *v, const char *s, size_t n, size_t at,
                   size_t len)
{
    bool single = false;
    uint32_t node = 0;
    for (size_t i = at; i < n; i++) {
        node = sp_trie_step(&t->trie, node, (uint8_t)s[i]);
        if (node == 0) break;
        const int32_t id = t->trie.nodes[node].id;
        if (id < 0) continue;
        reach(t, v, at, i + 1, id);
        single |= i + 1 - at == len;
    }
    if (!single) reach(t, v, at, at + len, -1);
}

/* turn -- reverses the links of the best path. */
static void turn(sp_path_step *v, size_t n)
{
    for (size_t at = n; at > 0; at = v[at].from) v[v[at].from].to = (uint32_t)at;
}

sp_err sp_unigram_encode(const sp_tokenizer *t, sp_encode_work *w, const char *s, size_t n,
                         sp_tokens *out)
{
    const size_t start = out->n;
    w->path.n = 0;
    SP_TRY(sp_vec_reserve(&w->path, n + 1));
    sp_path_step *v = w->path.v;
    for (size_t i = 0; i <= n; i++) v[i].from = SP_NO_STEP;
    v[0] = (sp_path_step){0};
    for (size_t at = 0; at < n;) {
        const int k = sp_utf8_step((const uint8_t *)s + at, n - at);
        const size_t len = k > 0 ? (size_t)k : 1;
        extend(t, v, s, n, at, len);
        at += len;
    }
    turn(v, n);
    for (size_t at = 0; at < n;) {
        size_t to = v[at].to;
        const int32_t id = v[to].id;
        while (id < 0 && t->words.fuse_unk && to < n && v[v[to].to].id < 0) to = v[to].to;
        if (id < 0) {
            SP_TRY(sp_spm_emit_unknown(t, s + at, to - at, out, start));
        } else {
            SP_TRY(sp_vec_reserve(out, 1));
            out->v[out->n++] = id;
        }
        at = to;
    }
    return SP_OK;
}
