#include "lab/bench/prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "lab/bench/bench.h"
#include "cli/cli.h"

#define MAX_WORDS  2048
#define WORD_BYTES 12 /* with NUL */
#define FILL_BYTES 64 /* room for single letters at the end of a text */

struct bench_words {
    sp_context *ctx; /* borrowed */
    uint64_t random;
    int n, n_head;
    char v[MAX_WORDS][WORD_BYTES];
};

/* -- words ---------------------------------------------------------------------------------- */

/* take_word -- a token is a word if it is a blank and lower-case letters. */
static bool take_word(bench_words *w, int32_t id)
{
    char *piece;
    size_t n;
    if (sp_vocab_piece(sp_context_vocab(w->ctx), id, &piece, &n) != SP_OK) return false;
    bool good = n >= 3 && n <= WORD_BYTES && piece[0] == ' ' &&
                strspn(piece + 1, "abcdefghijklmnopqrstuvwxyz") == n - 1;
    if (good) memcpy(w->v[w->n++], piece + 1, n);
    sp_buffer_free(piece);
    return good;
}

/* collect -- random words of the vocabulary; single letters when it has none. */
static void collect(bench_words *w, int n_vocab)
{
    for (int i = 0; i < 16 * MAX_WORDS && w->n < MAX_WORDS; i++)
        take_word(w, (int32_t)(lab_random(&w->random) % (uint64_t)n_vocab));
    if (w->n) return;
    for (char letter = 'a'; letter <= 'z'; letter++) w->v[w->n++][0] = letter;
}

bench_words *bench_words_create(sp_context *c, uint64_t seed)
{
    sp_prompt *p = NULL;
    sp_err err = sp_prompt_create(c, &p);
    if (err == SP_OK) err = sp_prompt_system(p, CLI_SYSTEM_TEXT);
    if (err != SP_OK) {
        cli_fail(err);
        sp_prompt_destroy(p);
        return NULL;
    }
    bench_words *w = cli_alloc(1, sizeof *w);
    w->ctx = c;
    w->random = seed;
    w->n_head = sp_prompt_n_tokens(p);
    collect(w, sp_context_describe(c).n_vocab);
    sp_prompt_destroy(p);
    return w;
}

void bench_words_destroy(bench_words *w)
{
    free(w);
}

int bench_words_n_head(const bench_words *w)
{
    return w->n_head;
}

/* -- texts of a length ---------------------------------------------------------------------- */

typedef sp_err add_segment(sp_prompt *p, const char *text);

static sp_err add_chunk(sp_prompt *p, const char *text)
{
    return sp_prompt_chunk(p, NULL, text);
}

/* count -- tokens of the segment made of a text; -1 after an error message. */
static int count(const bench_words *w, add_segment *add, const char *text)
{
    sp_prompt *p = NULL;
    sp_err err = sp_prompt_create(w->ctx, &p);
    if (err == SP_OK) err = sp_prompt_system(p, CLI_SYSTEM_TEXT);
    if (err == SP_OK) err = add(p, text);
    int n = err == SP_OK ? sp_prompt_n_tokens(p) - w->n_head : (cli_fail(err), -1);
    sp_prompt_destroy(p);
    return n;
}

/* fill_up -- appends single letters until the text has n_tokens; it has *have. */
static bool fill_up(bench_words *w, add_segment *add, int n_tokens, char *text, int *have)
{
    size_t n = strlen(text), end = n + FILL_BYTES - 2;
    for (int tries = 0; tries < 256 && *have < n_tokens && n < end; tries++) {
        uint64_t drawn = lab_random(&w->random);
        const char fill[] = {drawn & 1 ? ' ' : (char)('a' + (drawn >> 40) % 26),
                             (char)('a' + (drawn >> 8) % 26), '\0'};
        memcpy(text + n, fill, sizeof fill);
        int now = count(w, add, text);
        if (now < 0) return false;
        if (now > *have && now <= n_tokens) {
            *have = now;
            n += 2;
        }
        text[n] = '\0';
    }
    return *have == n_tokens ||
           (cli_fail_with("found no text of exactly %d tokens", n_tokens), false);
}

/* fit_words -- cuts the text after as many of its n_tokens words as n_tokens tokens hold. end[k]:
 * bytes of the first k words. */
static bool fit_words(const bench_words *w, add_segment *add, int n_tokens, char *text,
                      const size_t *end, int *have)
{
    int low = 0, high = n_tokens; /* low words fit; more than high do not */
    *have = -1;
    while (low < high || *have < 0) {
        int k = low + (high - low + 1) / 2;
        char cut = text[end[k]];
        text[end[k]] = '\0';
        int n = count(w, add, text);
        text[end[k]] = cut;
        if (n < 0) return false;
        if (n <= n_tokens) {
            low = k;
            *have = n;
        } else if (k == 0) {
            return cli_fail_with("%d tokens are too few: the prompt format alone takes %d",
                                 n_tokens, n),
                   false;
        } else {
            high = k - 1;
        }
    }
    text[end[low]] = '\0';
    return true;
}

static char *text_of(bench_words *w, add_segment *add, int n_tokens)
{
    size_t room = (size_t)n_tokens * (WORD_BYTES + 1) + FILL_BYTES, n = 0;
    char *text = cli_alloc(room, 1);
    size_t *end = cli_alloc((size_t)n_tokens + 1, sizeof *end);
    for (int k = 0; k < n_tokens; k++) { /* a word has at least one token */
        const char *word = w->v[lab_random(&w->random) % (uint64_t)w->n];
        n += (size_t)snprintf(text + n, room - n, "%s%s", k ? " " : "", word);
        end[k + 1] = n;
    }
    int have = 0;
    const bool good = fit_words(w, add, n_tokens, text, end, &have) && fill_up(w, add, n_tokens, text, &have);
    free(end);
    if (good) return text;
    free(text);
    return NULL;
}

char *bench_chunk_text(bench_words *w, int n_tokens)
{
    return text_of(w, add_chunk, n_tokens);
}

char *bench_question_text(bench_words *w, int n_tokens)
{
    return text_of(w, sp_prompt_question, n_tokens);
}

char **bench_chunk_texts(bench_words *w, int n, int n_tokens)
{
    char **texts = cli_alloc((size_t)n, sizeof *texts);
    for (int i = 0; i < n; i++)
        if (!(texts[i] = bench_chunk_text(w, n_tokens))) {
            bench_texts_free(texts, n);
            return NULL;
        }
    return texts;
}

void bench_texts_free(char **texts, int n)
{
    for (int i = 0; texts && i < n; i++) free(texts[i]);
    free(texts);
}

/* -- prompts -------------------------------------------------------------------------------- */

sp_request *bench_run(sp_context *c, sp_prompt *p, const sp_reuse_opts *reuse, int max_tokens)
{
    sp_request *r = NULL;
    const sp_request_opts o = {
        .reuse = reuse, .sampling = sp_sampling_default(), .max_tokens = max_tokens, .ignore_end = true};
    const sp_err err = sp_generate(c, p, &o, &r);
    sp_prompt_destroy(p);
    if (err != SP_OK) cli_fail(err);
    return r;
}

sp_request *bench_ask(sp_context *c, const bench_prompt *b, const sp_reuse_opts *reuse,
                      int max_tokens)
{
    sp_prompt *p = NULL;
    sp_err err = sp_prompt_create(c, &p);
    if (err == SP_OK) err = sp_prompt_system(p, CLI_SYSTEM_TEXT);
    for (int i = 0; i < b->n && err == SP_OK; i++) err = sp_prompt_chunk(p, NULL, b->chunks[i]);
    if (err == SP_OK && b->question) err = sp_prompt_question(p, b->question);
    if (err == SP_OK) return bench_run(c, p, reuse, max_tokens);
    sp_prompt_destroy(p);
    cli_fail(err);
    return NULL;
}
