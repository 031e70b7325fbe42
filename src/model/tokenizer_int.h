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
    const char *path;      /* for messages */
    bool spm;              /* SentencePiece BPE, else byte-level BPE */
    sp_pre_tokenizer pre;  /* byte-level only */
    bool ignore_merges;    /* byte-level: a pre-token found whole in the vocabulary is taken (llama-3) */
    size_t n_tokens;
    const sp_text_view *tokens; /* as in the file: byte-level alphabet or SentencePiece text */
    const float *scores;        /* [n_tokens] or NULL */
    const int32_t *types;       /* [n_tokens] sp_token_type, or NULL: all normal */
    size_t n_merges;
    const sp_text_view *merges; /* "left right" */
    int32_t bos, eos, eot, unk; /* -1: none */
    bool add_bos, add_eos, add_space_prefix;
} sp_vocab_spec;

/* sp_tokenizer_create -- Errors: SP_E_FORMAT names path and field (duplicate-free is not required: the
 * first of equal tokens wins; a merge of unknown tokens is an error), SP_E_NOMEM. */
sp_err sp_tokenizer_create(const sp_vocab_spec *spec, sp_tokenizer **out) SP_MUST_CHECK;

/* sp_tokenizer_from_json -- reads tokenizer.json (and tokenizer_config.json, if it stands beside it). */
sp_err sp_tokenizer_from_json(const char *dir, sp_tokenizer **out) SP_MUST_CHECK;

#endif
