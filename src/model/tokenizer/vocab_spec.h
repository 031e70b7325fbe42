/* vocab_spec.h -- the vocabulary of a file, from which a tokenizer is created; for model/ alone. */
#ifndef SP_MODEL_VOCAB_SPEC_H
#define SP_MODEL_VOCAB_SPEC_H

#include "model/tokenizer/tokenizer.h"

/* GGUF token types, also used for tokenizer.json. */
typedef enum sp_token_type {
    SP_TOKEN_NORMAL = 1,
    SP_TOKEN_UNKNOWN = 2,
    SP_TOKEN_CONTROL = 3,
    SP_TOKEN_USER = 4,
    SP_TOKEN_UNUSED = 5,
    SP_TOKEN_BYTE = 6,
    SP_TOKEN_MARK = 7, /* not in files: a control token that is part of an answer's text */
} sp_token_type;

/* Published ways to split text into words (pre_table.c). */
typedef enum sp_pre_tokenizer {
    SP_PRE_GPT2,
    SP_PRE_LLAMA3,
    SP_PRE_QWEN2,
    SP_PRE_QWEN35,
    SP_PRE_SMOLLM,
    SP_PRE_FALCON,
    SP_PRE_FALCON_DIGITS,
    SP_PRE_DEEPSEEK_LLM,
    SP_PRE_DEEPSEEK_CODER,
    SP_PRE_DEEPSEEK3,
    SP_PRE_PORO,
    SP_PRE_VIKING,
    SP_PRE_TEKKEN,
    SP_PRE_GPT4O,
    SP_PRE_KIMI,
    SP_PRE_SUPERBPE,
    SP_PRE_BAILING,
    SP_PRE_SEED_CODER,
    SP_PRE_EXAONE_MOE,
    SP_PRE_CHAMELEON,
    SP_PRE_YOUTU,
    SP_PRE_MINICPM5,
    SP_PRE_LAGUNA,
    SP_PRE_TINY_AYA,
    SP_PRE_UFAKZEKA,
    SP_PRE_N,
} sp_pre_tokenizer;

typedef struct sp_text_view {
    const char *s;
    size_t n;
} sp_text_view;

/* What SentencePiece does with the spaces of a text, beside writing them as U+2581 (normalize.c). */
typedef struct sp_spaces {
    bool squeeze;                 /* runs of spaces become one */
    bool strip_left, strip_right; /* spaces at the start, and at the end, are removed */
    bool strip_marks;             /* so is a U+2581 of the text at its end */
    bool any;                     /* every character with Unicode's White_Space property counts */
} sp_spaces;

/* WordPiece: how BERT models read a text (wordpiece.c). The steps are those of Hugging Face's BertNormalizer. */
typedef struct sp_wordpiece {
    bool on;
    bool marked;        /* GGUF: a first piece has U+2581 before it; else later ones have "##" */
    bool clean;         /* control characters are removed, white space becomes a space */
    bool split_cjk;     /* each Chinese character is a word */
    bool strip_accents; /* the text is decomposed, and non-spacing marks are removed */
    bool lower;
    int max_chars;      /* of a word; longer ones are unknown */
} sp_wordpiece;

enum { SP_MAX_ENDS = 16 };

/* The tokens with a meaning. */
typedef struct sp_token_marks {
    int32_t bos, eos, eot, unk; /* -1: none */
    int32_t ends[SP_MAX_ENDS];  /* [n_ends] more tokens that end an answer */
    int n_ends;
    bool add_bos, add_eos;      /* add_eos: an encoder's input ends with EOS; prompts never do */
} sp_token_marks;

/* SentencePiece: how words begin and end. Only tokenizer.json sets prefix_first_only, prefix_unless_space and
 * split_words. */
typedef struct sp_word_rules {
    bool add_space_prefix;    /* a dummy space starts the text, see spm.c ... */
    bool prefix_first_only;   /* ... only at the start of the text ... */
    bool prefix_unless_space; /* ... and not if the text starts with a space */
    bool split_words;         /* no token spans two words */
    bool fuse_unk;            /* consecutive unknown characters become one unk */
} sp_word_rules;

/* The vocabulary of a file. All views are borrowed for one call: the tokenizer copies what it
 * needs. */
typedef struct sp_vocab_spec {
    const char *path;     /* for messages */
    bool spm;             /* SentencePiece, else byte-level BPE or WordPiece */
    bool unigram;         /* SentencePiece unigram (unigram.c), else BPE (spm.c) */
    sp_wordpiece wordpiece; /* on: neither BPE nor unigram */
    sp_pre_tokenizer pre; /* byte-level only */
    bool ignore_merges;   /* byte-level: a word that is a token is not merged (llama-3) */
    size_t n_tokens;
    const sp_text_view *tokens; /* as in the file: byte-level alphabet or SentencePiece text */
    const double *scores; /* [n_tokens] or NULL; SentencePiece without scores merges by rank */
    const int32_t *types; /* [n_tokens] sp_token_type, or NULL: all normal */
    size_t n_merges;
    const sp_text_view *merges; /* "left right" */
    sp_token_marks marks;
    double unk_score; /* unigram: of an unknown character */
    bool single; /* unigram: sums have single precision, which decides between equal ones */
    sp_text_view charsmap; /* SentencePiece: precompiled_charsmap, or empty */
    sp_word_rules words;
    sp_spaces spaces;
} sp_vocab_spec;

/* sp_tokenizer_create -- the first of equal tokens wins; a merge of unknown tokens is an error.
 * Errors: SP_E_FORMAT names path and field; SP_E_LIMIT (over 2^24 tokens); SP_E_NOMEM. */
sp_err sp_tokenizer_create(const sp_vocab_spec *spec, sp_tokenizer **out) SP_MUST_CHECK;

/* sp_tokenizer_from_json -- reads tokenizer.json and, if present, tokenizer_config.json of a
 * folder. */
sp_err sp_tokenizer_from_json(const char *dir, sp_tokenizer **out) SP_MUST_CHECK;

#endif
