/* tokenizer.h -- converts text to token ids and back, as when the model was trained.
 *
 * Four algorithms: byte-level BPE (ranked merges after a pre-tokenizer of pre_table.c), SentencePiece
 * BPE (scores, byte fallback), SentencePiece unigram (the most probable tokens) and, for encoders, WordPiece (the
 * longest piece first). A tokenizer is immutable after loading; any number of threads can use it.
 */
#ifndef SP_MODEL_TOKENIZER_H
#define SP_MODEL_TOKENIZER_H

#include "base/mem.h"

typedef struct sp_tokenizer sp_tokenizer;

enum {
    SP_TOK_BOS = 1,     /* start with BOS if the model has one */
    SP_TOK_SPECIAL = 2, /* texts of special tokens (<|im_start|>) become those tokens */
    SP_TOK_JOINED = 4,  /* the text continues another one: no SentencePiece dummy space first */
};

/* sp_tokenizer_encode -- appends the ids of text[0..n). Invalid UTF-8 is kept byte for byte.
 * Errors: SP_E_NOMEM; SP_E_LIMIT over 1 GiB. Cost: O(n log n). Thread: any. */
sp_err sp_tokenizer_encode(const sp_tokenizer *t, const char *text, size_t n, unsigned flags,
                           sp_tokens *out) SP_MUST_CHECK;

/* sp_tokenizer_piece -- appends the bytes of token `id` within a text: a SentencePiece space
 * becomes a space; control tokens add nothing unless `special`. Errors: SP_E_ARG: id out of
 * range. */
sp_err sp_tokenizer_piece(const sp_tokenizer *t, int32_t id, bool special,
                          sp_bytes *out) SP_MUST_CHECK;

/* sp_tokenizer_shows -- whether a text stream has the token: it is no control token, and in range. */
bool sp_tokenizer_shows(const sp_tokenizer *t, int32_t id);

/* sp_tokenizer_decode -- the text of a list of ids; a SentencePiece dummy space at the very start
 * is dropped. */
sp_err sp_tokenizer_decode(const sp_tokenizer *t, const int32_t *ids, size_t n, bool special,
                           sp_bytes *out) SP_MUST_CHECK;

int sp_tokenizer_size(const sp_tokenizer *t);
int32_t sp_tokenizer_bos(const sp_tokenizer *t); /* -1: none */
int32_t sp_tokenizer_eos(const sp_tokenizer *t); /* -1: none */
bool sp_tokenizer_adds_bos(const sp_tokenizer *t);
/* sp_tokenizer_adds_eos -- whether a text for an encoder ends with EOS; encode never adds it. */
bool sp_tokenizer_adds_eos(const sp_tokenizer *t);
/* sp_tokenizer_is_end -- whether the token ends a generation: EOS, one that the file or generation_config.json lists,
 * or an end-of-turn token such as <|im_end|>, <end_of_turn>, <|call|> (gpt-oss) or <|end|> (Phi). */
bool sp_tokenizer_is_end(const sp_tokenizer *t, int32_t id);
/* sp_tokenizer_find -- the id of the token whose text in the file is `text`, or -1. */
int32_t sp_tokenizer_find(const sp_tokenizer *t, const char *text);
const char *sp_tokenizer_kind(const sp_tokenizer *t); /* "bpe/qwen2", "spm", "unigram", "wordpiece" */

void sp_tokenizer_destroy(sp_tokenizer *t);

/* -- streaming ------------------------------------------------------------------------------- */

/* Tokens may end inside a UTF-8 character: the stream buffers the bytes of an incomplete one. */
typedef struct sp_text_stream {
    const sp_tokenizer *tok;
    uint8_t held[4];
    int n_held;
    bool started;
} sp_text_stream;

/* sp_text_stream_init -- starts a text: a SentencePiece dummy space at its start is dropped. To
 * continue the text of a prompt, set `started` afterwards: the first space is then kept. */
void sp_text_stream_init(sp_text_stream *s, const sp_tokenizer *t);
/* sp_text_stream_push -- appends the characters that `id` completes; invalid bytes and NUL become
 * U+FFFD. */
sp_err sp_text_stream_push(sp_text_stream *s, int32_t id, sp_bytes *out) SP_MUST_CHECK;
/* sp_text_stream_flush -- ends the text: an incomplete character becomes U+FFFD. */
sp_err sp_text_stream_flush(sp_text_stream *s, sp_bytes *out) SP_MUST_CHECK;

#endif
