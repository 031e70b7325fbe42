/* tokenizer_int.h -- the internals of a tokenizer, for the files that implement it. */
#ifndef SP_MODEL_TOKENIZER_INT_H
#define SP_MODEL_TOKENIZER_INT_H

#include "base/dict.h"
#include "model/tokenizer/pretokenize.h"
#include "model/tokenizer/merge.h"
#include "model/tokenizer/charsmap.h"
#include "model/tokenizer/trie.h"
#include "model/tokenizer/vocab_spec.h"

/* -- special tokens: found in the text before anything else (special.c) ---------------- */

typedef struct sp_special {
    sp_text_view text;
    int32_t id;
    bool always; /* user-defined: found even where special tokens are plain text */
} sp_special;

typedef struct sp_specials {
    sp_special *v; /* sorted by text */
    size_t n;
    uint8_t first[256]; /* bits by first byte: 1 of any token, 2 of one with `always` */
} sp_specials;

/* sp_specials_sort -- call once, when v is complete. */
void sp_specials_sort(sp_specials *s);
/* sp_specials_find -- the first special token in text from byte `from` on, the longest at its
 * position *at; NULL if there is none. `all` false: only tokens with `always`. Cost: O(n) for texts
 * with few special tokens. */
const sp_special *sp_specials_find(const sp_specials *s, sp_text_view text, size_t from, bool all,
                                   size_t *at);

/* -- the tokenizer --------------------------------------------------------------------------- */

typedef struct sp_merge_rule {
    int32_t left, right; /* the key of merges.by_pair */
    int32_t result;
} sp_merge_rule;

struct sp_tokenizer {
    sp_arena arena; /* owns all arrays below */
    bool spm, unigram, ignore_merges;
    sp_word_rules words;
    sp_token_marks marks;
    sp_wordpiece wordpiece;
    char kind[24];

    size_t n_tokens;
    sp_text_view *texts;   /* as in the file */
    sp_text_view *pieces;  /* the bytes that they mean */
    uint8_t *types;        /* sp_token_type */
    const double *scores;  /* SentencePiece with scores, else NULL */
    size_t longest;        /* bytes of the longest mergeable token */
    struct {
        sp_dict text;  /* as in the file -> id */
        sp_dict piece; /* ignore_merges: bytes -> id of a normal token; WordPiece: -> piece that begins a word */
        sp_dict tail;  /* WordPiece: bytes -> piece that continues a word */
    } by;
    int32_t byte_ids[256]; /* token of each byte, or -1 */

    struct {
        sp_merge_rule *v; /* [n] by rank */
        size_t n;
        sp_dict by_pair; /* (left, right) of a rule -> rank */
    } merges;

    sp_trie trie; /* unigram: of the tokens */
    double unk_score;
    bool single;          /* unigram: sums of scores have single precision */
    sp_charsmap charsmap; /* SentencePiece */
    sp_spaces spaces;

    sp_specials specials;
    sp_splitter *splitter; /* byte-level */
};

/* Unigram: the best way to a byte of a word. */
typedef struct sp_path_step {
    double sum;
    uint32_t from, to; /* the byte before and, on the best path of all, the byte after */
    int32_t id;        /* token between `from` and here; -1: unknown */
} sp_path_step;

#define SP_NO_STEP UINT32_MAX

/* Working memory of one call of encode. */
typedef struct sp_encode_work {
    sp_merger merger;
    sp_split split;            /* byte-level */
    sp_bytes mapped;           /* SentencePiece: the text after the table of characters */
    sp_bytes escaped;          /* SentencePiece: the text with U+2581 for spaces; WordPiece: words */
    SP_VEC(sp_path_step) path; /* unigram */
    SP_VEC(int32_t) chars;     /* WordPiece: characters of the decomposed text */
} sp_encode_work;

/* sp_token_mergeable -- whether merging can produce the token. Texts of control tokens stay plain
 * text. */
static inline bool sp_token_mergeable(const sp_tokenizer *t, uint32_t id)
{
    return t->types[id] == SP_TOKEN_NORMAL || t->types[id] == SP_TOKEN_USER ||
           t->types[id] == SP_TOKEN_UNUSED;
}

static inline bool sp_token_control(const sp_tokenizer *t, int32_t id)
{
    return t->types[id] == SP_TOKEN_CONTROL || t->types[id] == SP_TOKEN_MARK;
}

/* sp_token_printed -- whether the token has text when special tokens are hidden. */
static inline bool sp_token_printed(const sp_tokenizer *t, int32_t id)
{
    return t->types[id] == SP_TOKEN_MARK || (!sp_token_control(t, id) && t->types[id] != SP_TOKEN_UNKNOWN);
}

/* sp_rules_load -- checks and loads the merges of the file (bpe.c). */
sp_err sp_rules_load(sp_tokenizer *t, const sp_vocab_spec *spec) SP_MUST_CHECK;
/* sp_pair_by_rank -- the sp_pair_fn of ranked merges; user: the tokenizer. */
bool sp_pair_by_rank(const void *user, const sp_symbol *left, const sp_symbol *right,
                     sp_merge_pair *out);

/* sp_bpe_load -- loads pieces, byte tokens, merges and pattern of a byte-level vocabulary. */
sp_err sp_bpe_load(sp_tokenizer *t, const sp_vocab_spec *spec) SP_MUST_CHECK;
/* sp_bpe_encode -- encodes text without special tokens. */
sp_err sp_bpe_encode(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                     sp_tokens *out) SP_MUST_CHECK;

#define SP_SPACE   "\xE2\x96\x81" /* U+2581 */
#define SP_SPACE_N (sizeof SP_SPACE - 1)

sp_err sp_spm_load(sp_tokenizer *t, const sp_vocab_spec *spec) SP_MUST_CHECK;
/* sp_spm_encode -- the same for SentencePiece; `prefix`: add a dummy space first. */
sp_err sp_spm_encode(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                     bool prefix, sp_tokens *out) SP_MUST_CHECK;
/* sp_spm_emit_unknown -- emits text that no token covers: its bytes if each has a token, else unk. word_start: where
 * the ids of this word begin in `out`. */
sp_err sp_spm_emit_unknown(const sp_tokenizer *t, const char *s, size_t n, sp_tokens *out,
                           size_t word_start) SP_MUST_CHECK;
/* sp_spm_normalize -- writes the text to w->escaped in the form that tokens have. */
sp_err sp_spm_normalize(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                        bool prefix) SP_MUST_CHECK;

/* sp_unigram_load, sp_unigram_encode -- after sp_spm_load and sp_spm_normalize; a word of n bytes. */
sp_err sp_unigram_load(sp_tokenizer *t, const sp_vocab_spec *spec) SP_MUST_CHECK;
sp_err sp_unigram_encode(const sp_tokenizer *t, sp_encode_work *w, const char *s, size_t n,
                         sp_tokens *out) SP_MUST_CHECK;

/* sp_wordpiece_load -- sorts the vocabulary into pieces that begin a word and pieces that continue one. */
sp_err sp_wordpiece_load(sp_tokenizer *t, const sp_vocab_spec *spec) SP_MUST_CHECK;
/* sp_wordpiece_encode -- the same for WordPiece. */
sp_err sp_wordpiece_encode(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                           sp_tokens *out) SP_MUST_CHECK;

#endif
