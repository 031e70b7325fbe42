/* query.c -- from a question in plain words to expressions of FTS5.
 *
 * Each different word becomes a string in double quotes, and the strings are joined by OR:
 * `"when" OR "oil" OR "crisis"`. A word is a run of letters, marks and digits, so no quote, operator
 * or column name can get in. FTS5 splits each string by its own rules, stems it, and ranks. The
 * words of an identifier (`read_all_lines`, `Store::open`) are terms as well as, together, a phrase.
 * Characters of scripts without spaces are left to the grams (grams.c).
 */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/dict.h"
#include "retrieve/index/grams_int.h"
#include "retrieve/text/text.h"

#define MAX_TERMS 256

/* Words that do not tell what is asked for, sorted. */
static const char *const stop_words[] = {
    "a",      "about", "after", "all",   "also",   "am",    "an",     "and",   "any",   "are",
    "as",     "at",    "be",    "been",  "before", "being", "but",    "by",    "can",   "could",
    "d",      "did",   "do",    "does",  "doing",  "for",   "from",   "had",   "has",   "have",
    "he",     "her",   "him",   "his",   "how",    "i",     "if",     "in",    "into",  "is",
    "it",     "its",   "just",  "ll",    "m",      "me",    "might",  "must",  "my",    "no",
    "nor",    "not",   "of",    "on",    "or",     "our",   "please", "re",    "s",     "she",
    "should", "so",    "some",  "such",  "t",      "tell",  "than",   "that",  "the",   "their",
    "them",   "then",  "there", "these", "they",   "this",  "those",  "to",    "too",   "up",
    "ve",     "was",   "we",    "were",  "what",   "when",  "where",  "which", "while", "who",
    "whom",   "whose", "why",   "will",  "with",   "would", "you",    "your",
};

static int by_word(const void *key, const void *element)
{
    return strcmp(key, *(const char *const *)element);
}

static bool is_stop_word(const char *word)
{
    return bsearch(word, stop_words, SP_COUNT(stop_words), sizeof *stop_words, by_word) != NULL;
}

/* An expression that grows by terms, each different one once. */
typedef struct terms {
    sp_bytes *out;
    sp_dict seen;
    sp_arena strings; /* the keys of seen */
    size_t n;
    bool stop; /* stop words as well */
} terms;

static sp_err add_term(terms *t, const char *s, size_t n, bool prefix)
{
    if (t->n == MAX_TERMS || sp_dict_get(&t->seen, s, n) != SP_DICT_NONE) return SP_OK;
    char *key = sp_arena_take(&t->strings, n + 1, 1);
    if (!key) return sp_fail_nomem("a question");
    memcpy(key, s, n);
    if (!t->stop && is_stop_word(key)) return SP_OK;
    SP_TRY(sp_dict_put(&t->seen, key, n, 1));
    return sp_bytes_addf(t->out, "%s\"%s\"%s", t->n++ ? " OR " : "", key, prefix ? "*" : "");
}

static sp_err add_gram(const char *s, size_t n, bool prefix, void *user)
{
    return add_term(user, s, n, prefix);
}

/* -- words ------------------------------------------------------------------------------------ */

/* What is being read of a question: a word, and the identifier that it may be a part of. */
typedef struct reader {
    terms *terms;
    sp_bytes word, identifier;
    int n_parts;
} reader;

static bool is_word_character(int32_t c)
{
    if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return !sp_is_unspaced(c);
    default:
        return false;
    }
}

static sp_err end_word(reader *r)
{
    size_t n = r->word.n;
    if (!n) return SP_OK;
    r->word.n = 0;
    SP_TRY(add_term(r->terms, r->word.v, n, false));
    if (r->n_parts++) SP_TRY(sp_bytes_add(&r->identifier, " ", 1));
    return sp_bytes_add(&r->identifier, r->word.v, n);
}

static sp_err end_identifier(reader *r)
{
    SP_TRY(end_word(r));
    if (r->n_parts > 1) SP_TRY(add_term(r->terms, r->identifier.v, r->identifier.n, false));
    r->identifier.n = 0;
    r->n_parts = 0;
    return SP_OK;
}

/* joins -- the length of what holds the words of an identifier together at s: "_" or "::". */
static size_t joins(const char *s)
{
    return s[0] == '_' ? 1 : s[0] == ':' && s[1] == ':' ? 2 : 0;
}

static sp_err read_question(reader *r, const char *s)
{
    for (size_t n = strlen(s), at = 0, length; at < n; at += length) {
        utf8proc_int32_t c = ' ';
        length = sp_utf8_length(s + at, n - at);
        if (length)
            utf8proc_iterate((const utf8proc_uint8_t *)s + at, (utf8proc_ssize_t)length, &c);
        else
            length = 1;
        c = utf8proc_tolower(c);
        utf8proc_uint8_t small[4];
        if (is_word_character(c)) {
            SP_TRY(sp_bytes_add(&r->word, small, (size_t)utf8proc_encode_char(c, small)));
        } else if (joins(s + at)) {
            length = joins(s + at);
            SP_TRY(end_word(r));
        } else {
            SP_TRY(end_identifier(r));
        }
    }
    return end_identifier(r);
}

static sp_err add_words(terms *t, const char *question)
{
    reader r = {.terms = t};
    sp_err err = read_question(&r, question);
    sp_vec_fini(&r.word);
    sp_vec_fini(&r.identifier);
    return err;
}

static sp_err add_grams(terms *t, const char *question)
{
    return sp_grams_each(question, strlen(question), SP_GRAMS_QUESTION, add_gram, t);
}

/* collect -- the terms that `add` finds; stop words only when there is nothing else. */
static sp_err collect(sp_err (*add)(terms *t, const char *question), const char *question,
                      bool stop, sp_bytes *out)
{
    terms t = {.out = out, .stop = stop};
    SP_TRY(sp_dict_init(&t.seen, 32));
    sp_arena_init(&t.strings);
    sp_err err = add(&t, question);
    if (err == SP_OK) err = sp_bytes_add(out, "", 1);
    sp_dict_fini(&t.seen);
    sp_arena_fini(&t.strings);
    return err;
}

sp_err sp_query_make(const char *question, sp_query *out)
{
    sp_query q = {0};
    sp_err err = collect(add_words, question, false, &q.words);
    if (err == SP_OK) err = collect(add_grams, question, false, &q.grams);
    if (err == SP_OK && !*q.words.v && !*q.grams.v) {
        q.words.n = 0;
        err = collect(add_words, question, true, &q.words);
    }
    if (err == SP_OK)
        *out = q;
    else
        sp_query_fini(&q);
    return err;
}

void sp_query_fini(sp_query *q)
{
    sp_vec_fini(&q->words);
    sp_vec_fini(&q->grams);
}
