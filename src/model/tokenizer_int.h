/* tokenizer_int.h -- how a tokenizer is built from a file; for model/ alone. */
#ifndef SP_MODEL_TOKENIZER_INT_H
#define SP_MODEL_TOKENIZER_INT_H

#include "model/tokenizer.h"

/* GGUF token types, also used for tokenizer.json. */
typedef enum sp_token_type {
    SP_TOKEN_NORMAL = 1,
    SP_TOKEN_UNKNOWN = 2,
    SP_TOKEN_CONTROL = 3,
    SP_TOKEN_USER = 4,
    SP_TOKEN_UNUSED = 5,
    SP_TOKEN_BYTE = 6,
} sp_token_type;

typedef enum sp_pre_tokenizer { SP_PRE_GPT2, SP_PRE_LLAMA3, SP_PRE_QWEN2 } sp_pre_tokenizer;

typedef struct sp_text_view {
    const char *s;
    size_t n;
} sp_text_view;

/* What a file says about its vocabulary. All views are borrowed for the call only: the tokenizer
 * copies what it keeps. */
typedef struct sp_vocab_spec {
    const char *path;     /* for messages */
    bool spm;             /* SentencePiece BPE, else byte-level BPE */
    sp_pre_tokenizer pre; /* byte-level only */
    bool ignore_merges; /* byte-level: a pre-token found whole in the vocabulary is taken (llama-3)
                         */
    size_t n_tokens;
    const sp_text_view *tokens; /* as in the file: byte-level alphabet or SentencePiece text */
    const float *scores;  /* [n_tokens] or NULL; SentencePiece without scores merges by rank */
    const int32_t *types; /* [n_tokens] sp_token_type, or NULL: all normal */
    size_t n_merges;
    const sp_text_view *merges; /* "left right" */
    int32_t bos, eos, eot, unk; /* -1: none */
    bool add_bos, add_eos;      /* add_eos is recorded only: no prompt of ours ends with EOS */
    bool add_space_prefix;      /* SentencePiece: text gets a dummy space in front, see spm.c */
    /* What only tokenizer.json can say; zero is what GGUF means. All are SentencePiece's. */
    bool prefix_first_only;   /* the dummy space: at the start of the text alone */
    bool prefix_unless_space; /* ... and not where the text begins with a space of its own */
    bool split_words;         /* no token crosses the start of a word */
    bool fuse_unk;            /* unknown characters in a row become one unk */
} sp_vocab_spec;

/* sp_tokenizer_create -- Errors: SP_E_FORMAT names path and field (duplicate-free is not required:
 * the first of equal tokens wins; a merge of unknown tokens is an error), SP_E_LIMIT (over 2^24
 * tokens), SP_E_NOMEM. */
sp_err sp_tokenizer_create(const sp_vocab_spec *spec, sp_tokenizer **out) SP_MUST_CHECK;

/* sp_tokenizer_from_json -- reads tokenizer.json (and tokenizer_config.json, if it stands beside
 * it). */
sp_err sp_tokenizer_from_json(const char *dir, sp_tokenizer **out) SP_MUST_CHECK;

#endif
