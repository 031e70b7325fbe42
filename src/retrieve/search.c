/* search.c -- BM25 over the chunks of an index.
 *
 * A question is plain words, FTS5 wants an expression. Each different word becomes a string in
 * double quotes, and the strings are joined by OR: `"when" OR "oil" OR "crisis"`. A word is a run
 * of ASCII letters, digits and bytes of other characters, so no quote, operator or column name can
 * get in. FTS5 splits each string by its own rules, stems it, and ranks.
 */
#include "retrieve/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/dict.h"
#include "retrieve/read_int.h"

#define MAX_TERMS 256

/* -- from a question to an expression ------------------------------------------------------- */

/* Words that say nothing about what is asked for, sorted. */
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

typedef struct term {
    const char *s;
    size_t n;
} term;

typedef struct terms {
    term v[MAX_TERMS];
    size_t n;
} terms;

static int by_word(const void *key, const void *element)
{
    const term *t = key;
    const char *word = *(const char *const *)element;
    int order = strncmp(t->s, word, t->n);
    return order ? order : -(int)(strlen(word) > t->n);
}

static bool is_stop_word(term t)
{
    return bsearch(&t, stop_words, SP_COUNT(stop_words), sizeof *stop_words, by_word) != NULL;
}

static bool is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (unsigned char)c >= 0x80;
}

/* take_terms -- the different words of a question in small letters; `stop`: stop words as well. */
static sp_err take_terms(const char *question, bool stop, terms *out)
{
    sp_dict seen;
    SP_TRY(sp_dict_init(&seen, 32));
    sp_err err = SP_OK;
    out->n = 0;
    for (const char *s = question; err == SP_OK && *s && out->n < MAX_TERMS;) {
        size_t n = 0;
        while (is_word_byte(s[n])) n++;
        term t = {s, n};
        bool fresh = n && sp_dict_get(&seen, s, n) == SP_DICT_NONE;
        if (fresh && (stop || !is_stop_word(t))) {
            out->v[out->n++] = t;
            err = sp_dict_put(&seen, s, n, 1);
        }
        s += n + (n == 0);
    }
    sp_dict_fini(&seen);
    return err;
}

/* small_letters -- a copy with ASCII capitals made small, and general punctuation (U+2000..U+206F:
 * dashes, curly quotes) made blank, which would otherwise glue words together. */
static char *small_letters(const char *s)
{
    char *copy = sp_strdup_n(s, strlen(s));
    for (char *c = copy; c && *c; c++) {
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c + 'a' - 'A');
        bool general = c[0] == '\xE2' && (c[1] == '\x80' || c[1] == '\x81') && c[2];
        if (general) memset(c, ' ', 3);
    }
    return copy;
}

sp_err sp_index_expression(const char *question, sp_bytes *out)
{
    terms t;
    char *words = small_letters(question);
    if (!words) return sp_fail_nomem(strlen(question), "a question");
    sp_err err = take_terms(words, false, &t);
    if (err == SP_OK && t.n == 0) err = take_terms(words, true, &t);
    if (err == SP_OK && t.n == 0) err = sp_bytes_add(out, "\"\"", 2); /* matches nothing */
    for (size_t i = 0; err == SP_OK && i < t.n; i++)
        err = sp_bytes_addf(out, "%s\"%.*s\"", i ? " OR " : "", (int)t.v[i].n, t.v[i].s);
    if (err == SP_OK) err = sp_bytes_add(out, "", 1);
    sp_free(words);
    return err;
}

/* -- search --------------------------------------------------------------------------------- */

/* A title counts three times: questions over encyclopedia articles find about one in a hundred more
 * of their sources than with equal weights; beyond that little changes. */
static const char search_sql[] =
    "SELECT c.id, -m.score, f.path, c.title, c.text FROM"
    " (SELECT rowid, bm25(words, 3.0, 1.0) AS score FROM words WHERE words MATCH ?1"
    "  ORDER BY score, rowid LIMIT ?2) AS m"
    " JOIN chunks AS c ON c.id = m.rowid JOIN files AS f ON f.id = c.file"
    " ORDER BY m.score, m.rowid";

sp_err sp_index_search(sp_index *ix, const char *question, int k, sp_hits *out)
{
    if (k < 1) return sp_fail(SP_E_ARG, "a search for %d chunks", k);
    sp_bytes expression = {0};
    sqlite3_stmt *s = NULL;
    sp_err err = sp_index_expression(question, &expression);
    if (err == SP_OK) err = sp_db_prepare(ix->db, ix->path, search_sql, &s);
    if (err == SP_OK) {
        sqlite3_bind_text(s, 1, expression.v, -1, SQLITE_STATIC);
        sqlite3_bind_int(s, 2, k);
        err = sp_hits_take(ix, s, out);
    }
    sqlite3_finalize(s);
    sp_vec_fini(&expression);
    return err;
}
