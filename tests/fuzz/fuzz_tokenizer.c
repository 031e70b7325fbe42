/* Encoding and decoding any bytes. The first byte chooses the tokenizer (three byte-level ones, two
 * SentencePiece ones) and whether special tokens are found; the rest is the text. Aborts when the
 * text does not come back, when an id is none, or when streaming gives other text than decoding. */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer/vocab_spec.h"
#include "base/utf8.h"

#define SPACE "\xE2\x96\x81" /* U+2581 */

enum { N_KINDS = 6, N_MAX = 512 };

typedef struct vocab {
    sp_vocab_spec spec;
    sp_text_view tokens[N_MAX];
    double scores[N_MAX];
    int32_t types[N_MAX];
} vocab;

static void require(bool holds)
{
    if (!holds) abort();
}

static void add(vocab *v, const char *text, int32_t type, float score)
{
    size_t i = v->spec.n_tokens++;
    v->tokens[i] = (sp_text_view){text, strlen(text)};
    v->types[i] = type;
    v->scores[i] = score;
}

static void begin(vocab *v, bool spm)
{
    static const char *const control[] = {"<s>", "</s>", "<|end|>", "<|end|>x", "<"};
    *v = (vocab){.spec = {.path = "fuzz", .spm = spm, .marks = {.bos = 0, .eos = 1, .eot = -1, .unk = -1}}};
    v->spec.tokens = v->tokens;
    v->spec.types = v->types;
    v->spec.marks.add_bos = true;
    for (size_t i = 0; i < SP_COUNT(control); i++) add(v, control[i], SP_TOKEN_CONTROL, 0);
}

static sp_tokenizer *create(const vocab *v)
{
    sp_tokenizer *t = NULL;
    require(sp_tokenizer_create(&v->spec, &t) == SP_OK);
    return t;
}

static sp_tokenizer *create_bpe(sp_pre_tokenizer pre)
{
    static const char *const rules[] = {"a a",
                                        "aa aa",
                                        "b c",
                                        "a bc",
                                        "\xC4\xA0 a",
                                        "\xC4\xA0 \xC4\xA0",
                                        "\xC3\x83 \xC2\xA9",
                                        "1 2",
                                        "\xC4\x8A \xC4\x8A",
                                        "' s"};
    static char alphabet[256][3], made[SP_COUNT(rules)][16];
    static vocab v;
    sp_text_view merges[SP_COUNT(rules)];
    unsigned other = 0x100;
    begin(&v, false);
    for (unsigned b = 0; b < 256; b++) {
        unsigned c = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD) ? b : other++;
        alphabet[b][0] = (char)(c < 0x80 ? c : 0xC0 | c >> 6);
        alphabet[b][1] = (char)(c < 0x80 ? 0 : 0x80 | (c & 0x3F));
        add(&v, alphabet[b], SP_TOKEN_NORMAL, 0);
    }
    for (size_t i = 0; i < SP_COUNT(rules); i++) {
        size_t left = strcspn(rules[i], " ");
        memcpy(made[i], rules[i], left);
        strcpy(made[i] + left, rules[i] + left + 1);
        merges[i] = (sp_text_view){rules[i], strlen(rules[i])};
        add(&v, made[i], SP_TOKEN_NORMAL, 0);
    }
    add(&v, "<tool>", SP_TOKEN_USER, 0);
    add(&v, "whole", SP_TOKEN_NORMAL, 0);
    v.spec.pre = pre;
    v.spec.ignore_merges = pre == SP_PRE_LLAMA3;
    v.spec.merges = merges;
    v.spec.n_merges = SP_COUNT(rules);
    return create(&v);
}

static sp_tokenizer *create_spm(bool split_words, bool unigram)
{
    static const char *const pieces[] = {SPACE,
                                         "a",
                                         "b",
                                         "aa",
                                         "aaaa",
                                         "ab",
                                         SPACE "a",
                                         SPACE SPACE,
                                         SPACE "ab",
                                         "\xC3\xA9",
                                         "a" SPACE,
                                         "\xE2\x82\xAC"
                                         "a"};
    static char bytes[256][8];
    static vocab v;
    begin(&v, true);
    for (unsigned b = 0; b < 256; b++) {
        static const char hex[] = "0123456789ABCDEF";
        memcpy(bytes[b], (char[]){'<', '0', 'x', hex[b / 16], hex[b % 16], '>', 0}, 7);
        add(&v, bytes[b], SP_TOKEN_BYTE, 0);
    }
    for (size_t i = 0; i < SP_COUNT(pieces); i++)
        add(&v, pieces[i], SP_TOKEN_NORMAL, -(float)(i * 7 % 12));
    v.spec.scores = v.scores;
    v.spec.words.add_space_prefix = true;
    v.spec.words.split_words = split_words;
    v.spec.unigram = v.spec.words.fuse_unk = unigram;
    v.spec.unk_score = -20;
    return create(&v);
}

/* What SentencePiece makes of a text: U+2581 and the space are one. */
static void spaces(sp_bytes *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n;) {
        bool space = text->n - i >= 3 && memcmp(text->v + i, SPACE, 3) == 0;
        text->v[n++] = space ? ' ' : text->v[i];
        i += space ? 3 : 1;
    }
    text->n = n;
}

/* is_text -- UTF-8 without NUL: what a text stream writes, and leaves as it is. */
static bool is_text(const sp_bytes *b)
{
    int k = 1;
    for (size_t i = 0; i < b->n; i += (size_t)k) {
        k = sp_utf8_step((const uint8_t *)b->v + i, b->n - i);
        if (k <= 0 || !b->v[i]) return false;
    }
    return true;
}

static void check(const sp_tokenizer *t, const sp_tokens *ids, sp_bytes *text, bool spm)
{
    sp_bytes back = {0}, streamed = {0};
    sp_text_stream s;
    sp_text_stream_init(&s, t);
    for (size_t i = 0; i < ids->n; i++) {
        require(ids->v[i] >= 0 && ids->v[i] < sp_tokenizer_size(t));
        require(sp_text_stream_push(&s, ids->v[i], &streamed) == SP_OK);
    }
    require(sp_text_stream_flush(&s, &streamed) == SP_OK && is_text(&streamed));
    require(sp_tokenizer_decode(t, ids->v, ids->n, true, &back) == SP_OK);
    if (spm) spaces(text);
    if (text) require(back.n == text->n && (!back.n || !memcmp(back.v, text->v, back.n)));
    back.n = 0;
    require(sp_tokenizer_decode(t, ids->v, ids->n, false, &back) == SP_OK);
    if (is_text(&back))
        require(back.n == streamed.n && (!back.n || !memcmp(back.v, streamed.v, back.n)));
    sp_vec_fini(&back);
    sp_vec_fini(&streamed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static sp_tokenizer *all[N_KINDS];
    if (!all[0])
        for (int i = 0; i < N_KINDS; i++)
            all[i] = i < 3 ? create_bpe((sp_pre_tokenizer)i) : create_spm(i == 4, i == 5);
    if (n < 1) return 0;
    int kind = data[0] % N_KINDS;
    unsigned flags = data[0] & 0x80 ? SP_TOK_SPECIAL : 0;
    bool spm = kind >= 3;
    sp_tokens ids = {0};
    sp_bytes text = {0};
    require(sp_bytes_add(&text, data + 1, n - 1) == SP_OK);
    require(sp_tokenizer_encode(all[kind], text.v ? text.v : "", text.n, flags, &ids) == SP_OK);
    /* SentencePiece puts a dummy space after special tokens: the text comes back without them only.
     */
    check(all[kind], &ids, spm && flags ? NULL : &text, spm && !flags);
    sp_vec_fini(&ids);
    sp_vec_fini(&text);
    return 0;
}
