/* prompts.h -- prompts of synthetic chunks with an exact number of tokens.
 *
 * The texts are words of the model's vocabulary, so another server can be sent the same text. */
#ifndef SP_LAB_BENCH_PROMPTS_H
#define SP_LAB_BENCH_PROMPTS_H

#include "spolia.h"

typedef struct bench_words bench_words;

/* bench_words_create -- the words of a context's model; the same seed gives the same texts. */
bench_words *bench_words_create(sp_context *c, uint64_t seed);
void bench_words_destroy(bench_words *w);
/* bench_words_n_head -- tokens before the first chunk. */
int bench_words_n_head(const bench_words *w);

/* A new text of n_tokens, as a chunk or a question of a prompt; free() it. n_tokens counts
 * the whole segment, including the text that the prompt format and the chat template add. */
char *bench_chunk_text(bench_words *w, int n_tokens);
char *bench_question_text(bench_words *w, int n_tokens);
/* bench_chunk_texts -- n of them; bench_texts_free() it. */
char **bench_chunk_texts(bench_words *w, int n, int n_tokens);
void bench_texts_free(char **texts, int n);

/* A prompt: CLI_SYSTEM_TEXT, chunks, a question. */
typedef struct bench_prompt {
    char *const *chunks; /* [n] */
    int n;
    const char *question;
} bench_prompt;

/* bench_run -- runs a prompt to its end (max_tokens 0: the prompt alone), ignoring end tokens; frees the prompt.
 * Returns the finished request, or NULL after an error message. */
sp_request *bench_run(sp_context *c, sp_prompt *p, const sp_reuse_opts *reuse, int max_tokens);
/* bench_ask -- the same with a prompt of these texts. */
sp_request *bench_ask(sp_context *c, const bench_prompt *p, const sp_reuse_opts *reuse,
                      int max_tokens);
#endif
