/* tokenizer.h -- text to token ids and back, as the model was trained.
 *
 * Two algorithms: byte-level BPE (ranked merges after a pre-tokenizer: gpt-2, llama-3, qwen2) and
 * SentencePiece BPE (scores, byte fallback). A tokenizer is immutable after loading and may be used
 * by any number of threads.
 */
#ifndef SP_MODEL_TOKENIZER_H
#define SP_MODEL_TOKENIZER_H

#include "base/mem.h"

typedef struct sp_tokenizer sp_tokenizer;

enum {
    SP_TOK_BOS = 1,     /* put the BOS token first if the model wants one */
    SP_TOK_SPECIAL = 2, /* texts of special tokens (<|im_start|>) become those tokens */
    SP_TOK_JOINED =
        4, /* the text goes on where another ended: no SentencePiece dummy space in front */
};

/* sp_tokenizer_encode -- appends the ids of text[0..n). Invalid UTF-8 is kept byte for byte.
 * Errors: SP_E_NOMEM; SP_E_LIMIT over 1 GiB. Cost: O(n log n). Thread: any. */
sp_err sp_tokenizer_encode(const sp_tokenizer *t, const char *text, size_t n, unsigned flags,
                           sp_tokens *out) SP_MUST_CHECK;

/* sp_tokenizer_piece -- appends the bytes that token `id` stands for in running text (a
 * SentencePiece space is a space; control tokens give nothing unless `special`). Errors: SP_E_ARG
 * id out of range. */
sp_err sp_tokenizer_piece(const sp_tokenizer *t, int32_t id, bool special,
                          sp_bytes *out) SP_MUST_CHECK;

/* sp_tokenizer_decode -- the text of a list of ids; a SentencePiece dummy space at the very start
 * is dropped. */
sp_err sp_tokenizer_decode(const sp_tokenizer *t, const int32_t *ids, size_t n, bool special,
                           sp_bytes *out) SP_MUST_CHECK;

int sp_tokenizer_size(const sp_tokenizer *t);
int32_t sp_tokenizer_bos(const sp_tokenizer *t); /* -1: none */
int32_t sp_tokenizer_eos(const sp_tokenizer *t); /* -1: none */
bool sp_tokenizer_adds_bos(const sp_tokenizer *t);
/* sp_tokenizer_is_end -- ends a generation: EOS, or an end-of-turn token (<|im_end|>, <|eot_id|>).
 */
bool sp_tokenizer_is_end(const sp_tokenizer *t, int32_t id);
/* sp_tokenizer_find -- the id of the token with exactly this text (as in the file), or -1. */
int32_t sp_tokenizer_find(const sp_tokenizer *t, const char *text);
const char *sp_tokenizer_kind(const sp_tokenizer *t); /* "bpe/qwen2", "spm" ... */

void sp_tokenizer_destroy(sp_tokenizer *t);

/* -- streaming ------------------------------------------------------------------------------- */

/* Tokens may end inside a UTF-8 character: the stream holds back the bytes of an unfinished one. */
typedef struct sp_text_stream {
    const sp_tokenizer *tok;
    uint8_t held[4];
    int n_held;
    bool started;
} sp_text_stream;

/* sp_text_stream_init -- the stream begins a text: a SentencePiece dummy space at its very start is
 * dropped. To go on with the text of a prompt, set `started` after it: that space is then a real
 * one. */
void sp_text_stream_init(sp_text_stream *s, const sp_tokenizer *t);
/* sp_text_stream_push -- appends the whole characters that `id` completes; bytes that can never
 * become a character come out as U+FFFD. */
sp_err sp_text_stream_push(sp_text_stream *s, int32_t id, sp_bytes *out) SP_MUST_CHECK;
/* sp_text_stream_flush -- at the end: what is still held comes out as U+FFFD. */
sp_err sp_text_stream_flush(sp_text_stream *s, sp_bytes *out) SP_MUST_CHECK;

#endif
