/* tokenizer_priv.h -- the inside of a tokenizer, shared by the files that implement it. */
#ifndef SP_MODEL_TOKENIZER_PRIV_H
#define SP_MODEL_TOKENIZER_PRIV_H

#include "base/dict.h"
#include "model/pretokenize.h"
#include "model/token_merge.h"
#include "model/tokenizer_int.h"

/* -- special tokens: found in the text before anything else (token_special.c) ---------------- */

typedef struct sp_special {
    sp_text_view text;
    int32_t id;
    bool always; /* user-defined: also found where special tokens are plain text */
} sp_special;

typedef struct sp_specials {
    sp_special *v; /* sorted by text */
    size_t n;
    uint8_t first[256]; /* by first byte: 1 some token starts so, 2 one that is always found */
} sp_specials;

/* sp_specials_sort -- call once, after the last of v is filled in. */
void sp_specials_sort(sp_specials *s);
/* sp_specials_find -- the first special token in text[from..n), the longest at its place; false:
 * none. `all` false: only those that are always found. Cost: O(n) for texts that hold few of them.
 */
bool sp_specials_find(const sp_specials *s, const char *text, size_t n, size_t from, bool all,
                      size_t *at, const sp_special **found);

/* -- the tokenizer --------------------------------------------------------------------------- */

typedef struct sp_merge_rule {
    int32_t left, right; /* together the key of by_pair */
    int32_t result;
} sp_merge_rule;

struct sp_tokenizer {
    sp_arena arena; /* everything below that is no table */
    bool spm, ignore_merges;
    bool add_space_prefix, prefix_first_only, prefix_unless_space, split_words, fuse_unk;
    bool add_bos;
    int32_t bos, eos, eot, unk;
    char kind[24];

    size_t n_tokens;
    sp_text_view *texts;   /* as in the file */
    sp_text_view *pieces;  /* the bytes they stand for */
    uint8_t *types;        /* sp_token_type */
    const float *scores;   /* SentencePiece by score, else NULL */
    size_t longest;        /* bytes of the longest text of a token that merging may yield */
    sp_dict by_text;       /* text as in the file -> id */
    sp_dict by_piece;      /* ignore_merges: bytes -> id of a normal token */
    int32_t byte_ids[256]; /* token of a single byte, or -1 */

    sp_merge_rule *rules; /* by rank */
    size_t n_rules;
    sp_dict by_pair; /* left and right of a rule -> rank */

    sp_specials specials;
    sp_splitter *splitter; /* byte-level */
};

/* What one call of encode works with. */
typedef struct sp_encode_work {
    sp_merger merger;
    sp_split split;   /* byte-level */
    sp_bytes escaped; /* SentencePiece: the text with U+2581 for spaces */
} sp_encode_work;

/* sp_token_mergeable -- may merging yield it? Texts of control tokens stay plain text. */
static inline bool sp_token_mergeable(const sp_tokenizer *t, uint32_t id)
{
    return t->types[id] == SP_TOKEN_NORMAL || t->types[id] == SP_TOKEN_USER ||
           t->types[id] == SP_TOKEN_UNUSED;
}

/* sp_token_printed -- has it text where special tokens are not shown? */
static inline bool sp_token_printed(const sp_tokenizer *t, int32_t id)
{
    return t->types[id] != SP_TOKEN_CONTROL && t->types[id] != SP_TOKEN_UNKNOWN;
}

/* sp_rules_load -- the merges of the file, checked (bpe.c). */
sp_err sp_rules_load(sp_tokenizer *t, const sp_vocab_spec *spec) SP_MUST_CHECK;
/* sp_pair_by_rank -- the sp_pair_fn of ranked merges; user: the tokenizer. */
bool sp_pair_by_rank(const void *user, const sp_symbol *left, const sp_symbol *right,
                     sp_candidate *out);

/* sp_bpe_load -- pieces, byte tokens, merges and pattern of a byte-level vocabulary. */
sp_err sp_bpe_load(sp_tokenizer *t, const sp_vocab_spec *spec) SP_MUST_CHECK;
/* sp_bpe_encode -- text without special tokens. */
sp_err sp_bpe_encode(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                     sp_tokens *out) SP_MUST_CHECK;

sp_err sp_spm_load(sp_tokenizer *t, const sp_vocab_spec *spec) SP_MUST_CHECK;
/* sp_spm_encode -- the same; `prefix`: a dummy space belongs in front. */
sp_err sp_spm_encode(const sp_tokenizer *t, sp_encode_work *w, const char *text, size_t n,
                     bool prefix, sp_tokens *out) SP_MUST_CHECK;

#endif
