/* tiktoken.h -- a vocabulary from a file of ranks, as tiktoken has them: a line for each token with its bytes in
 * base64, a blank and its number. The last token is an added one that ends the text. */
#ifndef TESTS_SUPPORT_TIKTOKEN_H
#define TESTS_SUPPORT_TIKTOKEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/grammar.h"

typedef struct tiktoken {
    sp_token_piece *pieces;
    size_t n;
    char *bytes;       /* of all pieces */
    sp_token_set *set; /* of the caller's making; tiktoken_close destroys it */
} tiktoken;

/* tiktoken_base64 -- decodes up to a blank; returns the number of bytes. */
static inline size_t tiktoken_base64(const char *in, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    uint32_t bits = 0;
    int held = 0;
    for (const char *d; *in && (d = strchr(digits, *in)); in++) {
        bits = bits << 6 | (uint32_t)(d - digits);
        if ((held += 6) < 8) continue;
        held -= 8;
        out[n++] = (char)(bits >> held & 0xFF);
    }
    return n;
}

static inline void tiktoken_close(tiktoken *t)
{
    sp_token_set_destroy(t->set);
    free(t->pieces);
    free(t->bytes);
    *t = (tiktoken){0};
}

/* tiktoken_open -- false: the file cannot be read. */
static inline bool tiktoken_open(const char *path, tiktoken *t)
{
    char line[4096];
    size_t used = 0, size = 0;
    FILE *f = fopen(path, "r");
    *t = (tiktoken){0};
    if (!f) return false;
    while (fgets(line, sizeof line, f)) size += strlen(line), t->n++;
    rewind(f);
    t->pieces = calloc(t->n + 1, sizeof *t->pieces);
    t->bytes = malloc(size + 1);
    if (!t->pieces || !t->bytes) t->n = 0;
    for (size_t i = 0; i < t->n && fgets(line, sizeof line, f); i++) {
        size_t n = tiktoken_base64(line, t->bytes + used);
        t->pieces[i] = (sp_token_piece){.s = t->bytes + used, .n = n};
        used += n;
    }
    fclose(f);
    if (t->n == 0) return tiktoken_close(t), false;
    t->pieces[t->n++].end = true;
    return true;
}

/* tiktoken_longest -- the longest token that text[0..n) begins with; -1: there is none. Cost: O(V). */
static inline int32_t tiktoken_longest(const tiktoken *t, const char *text, size_t n)
{
    int32_t best = -1;
    for (size_t i = 0; i < t->n; i++) {
        const sp_token_piece *p = &t->pieces[i];
        if (p->n == 0 || p->n > n || memcmp(p->s, text, p->n) != 0) continue;
        if (best < 0 || p->n > t->pieces[best].n) best = (int32_t)i;
    }
    return best;
}

#endif
