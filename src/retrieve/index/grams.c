/* grams.c -- Chinese, Japanese, Korean and the scripts of South-East Asia as overlapping pairs of
 * characters, and identifiers in parts.
 *
 *     text                    in the index                     in a question
 *     人工智能                人工 工智 智能 能                人工 工智 智能
 *     猫                      猫                               猫*
 *     parseHttpRequest        parse http request               parsehttprequest parse http request
 *     parse                   -                                parse
 *
 * Pairs need no dictionary and find words of two characters, the most frequent length in Chinese. A
 * run ends with its last character alone, so that a question of one character, as a prefix, finds it
 * at every place. A character is one with the marks that follow it (vowels and tones in Thai).
 * Compatibility forms (full-width letters, half-width kana) are folded first; words that were
 * written so are grams as a whole, as the word index does not fold them. Outside source code only
 * identifiers that cannot be names are cut.
 */
#include "retrieve/index/grams_int.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "retrieve/text/text.h"

static const struct range {
    int32_t from, to;
} unspaced[] = {
    {0x0E00, 0x0EFF},   /* Thai, Lao */
    {0x1000, 0x109F},   /* Myanmar */
    {0x1100, 0x11FF},   /* Hangul letters */
    {0x1780, 0x17FF},   /* Khmer */
    {0x2E80, 0x2FDF},   /* radicals */
    {0x3005, 0x3007},   /* ideographic marks */
    {0x3040, 0x31FF},   /* kana, bopomofo, Hangul letters */
    {0x3400, 0x4DBF},   /* ideographs */
    {0x4E00, 0x9FFF},   /* ideographs */
    {0xAC00, 0xD7FF},   /* Hangul */
    {0xF900, 0xFAFF},   /* ideographs */
    {0x20000, 0x3FFFF}, /* ideographs */
};

bool sp_is_unspaced(int32_t c)
{
    if (c < unspaced[0].from) return false;
    for (size_t i = 0; i < SP_COUNT(unspaced); i++) {
        if (c < unspaced[i].from || c > unspaced[i].to) continue;
        utf8proc_category_t category = utf8proc_category(c);
        return category != UTF8PROC_CATEGORY_PO && category != UTF8PROC_CATEGORY_SC &&
               category != UTF8PROC_CATEGORY_CN;
    }
    return false;
}

static bool is_mark(int32_t c)
{
    utf8proc_category_t category = c < 0x300 ? UTF8PROC_CATEGORY_CN : utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC;
}

typedef struct cutter {
    const char *s;
    size_t n;
    sp_gram_source source;
    bool whole; /* words are grams, not only their parts */
    sp_gram_fn *fn;
    void *user;
} cutter;

/* next -- the character at `at` and its length; -1 for a byte that is none. */
static int32_t next(const cutter *c, size_t at, size_t *length)
{
    utf8proc_int32_t code = -1;
    *length = sp_utf8_length(c->s + at, c->n - at);
    if (!*length)
        *length = 1;
    else
        utf8proc_iterate((const utf8proc_uint8_t *)c->s + at, (utf8proc_ssize_t)*length, &code);
    return code;
}

/* unit_end -- the end of the character at `at`, with its marks; `at` when it is none of those. */
static size_t unit_end(const cutter *c, size_t at)
{
    size_t length;
    if (at >= c->n || !sp_is_unspaced(next(c, at, &length))) return at;
    at += length;
    while (at < c->n && is_mark(next(c, at, &length))) at += length;
    return at;
}

static sp_err cut_pairs(const cutter *c, size_t at, size_t *end)
{
    size_t from = at, to = unit_end(c, at), after;
    bool pairs = false;
    for (; (after = unit_end(c, to)) > to; from = to, to = after) {
        SP_TRY(c->fn(c->s + from, after - from, false, c->user));
        pairs = true;
    }
    *end = to;
    if (c->source == SP_GRAMS_QUESTION && pairs) return SP_OK;
    return c->fn(c->s + from, to - from, c->source == SP_GRAMS_QUESTION, c->user);
}

/* -- identifiers ------------------------------------------------------------------------------ */

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_word(char c)
{
    return is_upper(c) || is_lower(c) || (c >= '0' && c <= '9');
}

static sp_err give_small(const cutter *c, size_t from, size_t to)
{
    char small[SP_WORD_BYTES];
    size_t n = 0;
    if (to - from < 2 || to - from > sizeof small) return SP_OK;
    for (size_t i = from; i < to; i++)
        small[n++] = is_upper(c->s[i]) ? (char)(c->s[i] | 0x20) : c->s[i];
    return c->fn(small, n, false, c->user);
}

/* part_end -- "parse|Http|Request", "HTTP|Server": before a capital that follows a small letter or
 * precedes one. */
static size_t part_end(const char *s, size_t at, size_t to)
{
    for (size_t i = at + 1; i < to; i++) {
        if (!is_upper(s[i])) continue;
        if (is_lower(s[i - 1]) || (i + 1 < to && is_lower(s[i + 1]))) return i;
    }
    return to;
}

/* has_parts -- in prose only words that can hardly be names (not iPhone, YouTube, McDonald): parts of names
 * would be found by questions that do not mean them. */
static bool has_parts(const cutter *c, size_t from, size_t to)
{
    size_t first = part_end(c->s, from, to);
    if (first == to) return false;
    return c->source != SP_GRAMS_PROSE || (is_lower(c->s[from]) && first - from > 1);
}

static sp_err cut_word(const cutter *c, size_t at, size_t *end)
{
    size_t from = at, to = at;
    while (to < c->n && is_word(c->s[to])) to++;
    *end = to;
    if (c->source == SP_GRAMS_QUESTION || c->whole) SP_TRY(give_small(c, from, to));
    if (!has_parts(c, from, to)) return SP_OK;
    for (size_t stop; from < to; from = stop) {
        stop = part_end(c->s, from, to);
        SP_TRY(give_small(c, from, stop));
    }
    return SP_OK;
}

/* -- texts ------------------------------------------------------------------------------------ */

static sp_err cut(const cutter *c)
{
    for (size_t at = 0, length; at < c->n;) {
        int32_t code = next(c, at, &length);
        if (code >= 0 && code < 0x80 && is_word((char)code))
            SP_TRY(cut_word(c, at, &at));
        else if (sp_is_unspaced(code))
            SP_TRY(cut_pairs(c, at, &at));
        else
            at += length;
    }
    return SP_OK;
}

/* holds_wide -- U+FF00..U+FFEF: full-width and half-width forms. */
static bool holds_wide(const char *s, size_t n)
{
    for (const char *at = s; (at = memchr(at, 0xEF, n - (size_t)(at - s))); at++)
        if (n - (size_t)(at - s) >= 3 && (unsigned char)at[1] >= 0xBC) return true;
    return false;
}

static bool is_ascii(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= 0x80) return false;
    return true;
}

sp_err sp_grams_each(const char *s, size_t n, sp_gram_source source, sp_gram_fn *fn, void *user)
{
    cutter c = {.s = s, .n = n, .source = source, .fn = fn, .user = user};
    if (is_ascii(s, n)) return cut(&c);
    utf8proc_uint8_t *folded = NULL;
    utf8proc_ssize_t length =
        utf8proc_map((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &folded,
                     UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    if (length == UTF8PROC_ERROR_NOMEM) return sp_fail_nomem("the grams of a text");
    if (length >= 0) { /* else not all of it is UTF-8, and it stays as it is */
        c.s = (const char *)folded;
        c.n = (size_t)length;
        c.whole = holds_wide(s, n);
    }
    sp_err err = cut(&c);
    free(folded);
    return err;
}

static sp_err append(const char *s, size_t n, bool prefix, void *user)
{
    sp_bytes *out = user;
    if (out->n) SP_TRY(sp_bytes_add(out, " ", 1));
    return sp_bytes_add(out, s, n);
}

sp_err sp_grams(const char *s, size_t n, bool code, sp_bytes *out)
{
    return sp_grams_each(s, n, code ? SP_GRAMS_CODE : SP_GRAMS_PROSE, append, out);
}
