/* tiny_vocab.h -- vocabularies small enough to derive the expected tokens by hand. */
#ifndef TESTS_TINY_VOCAB_H
#define TESTS_TINY_VOCAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/tokenizer/vocab_spec.h"

enum { TINY_MAX = 1024 };

typedef struct tiny_vocab {
    sp_vocab_spec spec;
    sp_text_view tokens[TINY_MAX], merges[TINY_MAX];
    double scores[TINY_MAX];
    int32_t types[TINY_MAX];
    char alphabet[256][3];
} tiny_vocab;

static inline int32_t tv_add(tiny_vocab *v, const char *text, int32_t type, float score)
{
    size_t i = v->spec.n_tokens++;
    assert_true(i < TINY_MAX);
    v->tokens[i] = (sp_text_view){text, strlen(text)};
    v->types[i] = type;
    v->scores[i] = score;
    return (int32_t)i;
}

static inline void tv_begin(tiny_vocab *v, bool spm)
{
    memset(v, 0, sizeof *v);
    v->spec = (sp_vocab_spec){.path = "tiny",
                              .spm = spm,
                              .tokens = v->tokens,
                              .types = v->types,
                              .merges = v->merges,
                              .marks = {.bos = -1, .eos = -1, .eot = -1, .unk = -1}};
    if (spm) v->spec.scores = v->scores;
    if (spm) v->spec.words.add_space_prefix = true;
}

/* The 256 bytes as tokens 0..255: the id of a byte is its value. */
static inline void tv_bytes(tiny_vocab *v)
{
    unsigned other = 0x100;
    for (unsigned b = 0; b < 256; b++) {
        bool prints = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        unsigned c = prints ? b : other++;
        char *s = v->alphabet[b];
        if (c < 0x80)
            s[0] = (char)c;
        else
            s[0] = (char)(0xC0 | c >> 6), s[1] = (char)(0x80 | (c & 0x3F));
        tv_add(v, s, SP_TOKEN_NORMAL, 0);
    }
}

/* "left right"; adds the resulting token if it is missing. */
static inline int32_t tv_merge(tiny_vocab *v, const char *rule, char joined[32])
{
    size_t n = strlen(rule), left = (size_t)(strchr(rule, ' ') - rule);
    memcpy(joined, rule, left);
    memcpy(joined + left, rule + left + 1, n - left);
    v->merges[v->spec.n_merges++] = (sp_text_view){rule, n};
    for (size_t i = 0; i < v->spec.n_tokens; i++)
        if (strcmp(v->tokens[i].s, joined) == 0) return (int32_t)i;
    return tv_add(v, joined, SP_TOKEN_NORMAL, 0);
}

static inline sp_tokenizer *tv_create(const tiny_vocab *v)
{
    sp_tokenizer *t = NULL;
    if (sp_tokenizer_create(&v->spec, &t) != SP_OK) fail_msg("%s", sp_error_detail());
    return t;
}

/* The ids of a text as text, "1 2 3"; valid until the next call. */
static inline const char *tv_ids_n(const sp_tokenizer *t, const char *text, size_t n,
                                   unsigned flags)
{
    static char line[4096];
    sp_tokens ids = {0};
    size_t at = 0;
    if (sp_tokenizer_encode(t, text, n, flags, &ids) != SP_OK) fail_msg("%s", sp_error_detail());
    line[0] = '\0';
    for (size_t i = 0; i < ids.n && at < sizeof line - 16; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%d", i ? " " : "", ids.v[i]);
    sp_vec_fini(&ids);
    return line;
}

static inline const char *tv_ids(const sp_tokenizer *t, const char *text, unsigned flags)
{
    return tv_ids_n(t, text, strlen(text), flags);
}

static inline void tv_expect(const sp_tokenizer *t, const char *text, unsigned flags,
                             const int32_t *want, size_t n)
{
    sp_tokens ids = {0};
    assert_int_equal(sp_tokenizer_encode(t, text, strlen(text), flags, &ids), SP_OK);
    assert_int_equal(ids.n, n);
    if (n) assert_memory_equal(ids.v, want, n * sizeof *want);
    sp_vec_fini(&ids);
}

/* Encodes and decodes; the bytes must be the same. */
static inline void tv_round_trip(const sp_tokenizer *t, const char *text, size_t n)
{
    sp_tokens ids = {0};
    sp_bytes back = {0};
    assert_int_equal(sp_tokenizer_encode(t, text, n, 0, &ids), SP_OK);
    assert_int_equal(sp_tokenizer_decode(t, ids.v, ids.n, true, &back), SP_OK);
    assert_int_equal(back.n, n);
    if (n) assert_memory_equal(back.v, text, n);
    sp_vec_fini(&ids);
    sp_vec_fini(&back);
}

/* A small random generator, the same on every machine. */
static inline uint32_t tv_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

#endif
