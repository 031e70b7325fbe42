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
#include "retrieve/db_int.h"

#define MAX_TERMS 256

struct sp_index {
    sqlite3 *db;
    sqlite3_stmt *search;
    char *path;
    int64_t n_chunks;
};

/* A title counts three times: questions over encyclopedia articles find about one in a hundred more
 * of their sources than with equal weights; beyond that little changes. */
static const char search_sql[] =
    "SELECT c.id, -m.score, f.path, c.title, c.text FROM"
    " (SELECT rowid, bm25(words, 3.0, 1.0) AS score FROM words WHERE words MATCH ?1"
    "  ORDER BY score, rowid LIMIT ?2) AS m"
    " JOIN chunks AS c ON c.id = m.rowid JOIN files AS f ON f.id = c.file"
    " ORDER BY m.score, m.rowid";

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

/* make_expression -- NUL-terminated; empty when the question has no word. */
static sp_err make_expression(const char *question, sp_bytes *out)
{
    terms t;
    char *words = small_letters(question);
    if (!words) return sp_fail_nomem(strlen(question), "a question");
    sp_err err = take_terms(words, false, &t);
    if (err == SP_OK && t.n == 0) err = take_terms(words, true, &t);
    for (size_t i = 0; err == SP_OK && i < t.n; i++)
        err = sp_bytes_addf(out, "%s\"%.*s\"", i ? " OR " : "", (int)t.v[i].n, t.v[i].s);
    if (err == SP_OK) err = sp_bytes_add(out, "", 1);
    sp_free(words);
    return err;
}

/* -- the index, read-only ------------------------------------------------------------------- */

sp_err sp_index_open(const char *path, sp_index **out)
{
    sp_index *ix = SP_NEW(sp_index);
    if (!ix) return sp_fail_nomem(sizeof *ix, "an index");
    sp_err err = SP_OK;
    ix->path = sp_strdup_n(path, strlen(path));
    if (!ix->path) err = sp_fail_nomem(strlen(path), "a file name");
    if (err == SP_OK) err = sp_db_open(path, false, &ix->db);
    if (err == SP_OK) err = sp_db_check(ix->db, path, NULL);
    if (err == SP_OK)
        err = sp_db_number(ix->db, path, "SELECT sum(n_chunks) FROM files", &ix->n_chunks);
    if (err == SP_OK) err = sp_db_prepare(ix->db, path, search_sql, &ix->search);
    if (err != SP_OK) {
        sp_index_close(ix);
        return err;
    }
    *out = ix;
    return SP_OK;
}

void sp_index_close(sp_index *ix)
{
    if (!ix) return;
    sqlite3_finalize(ix->search);
    sqlite3_close(ix->db);
    sp_free(ix->path);
    sp_free(ix);
}

int64_t sp_index_n_chunks(const sp_index *ix)
{
    return ix->n_chunks;
}

/* -- search --------------------------------------------------------------------------------- */

static const char *column_copy(sqlite3_stmt *s, int column, sp_arena *arena)
{
    const unsigned char *text = sqlite3_column_text(s, column);
    size_t n = text ? (size_t)sqlite3_column_bytes(s, column) : 0;
    char *copy = sp_arena_take(arena, n + 1, 1); /* zeroed, so terminated */
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

typedef SP_VEC(sp_hit) hit_list;

static sp_err take_hit(sqlite3_stmt *s, sp_arena *strings, hit_list *out)
{
    sp_hit h = {
        .id = sqlite3_column_int64(s, 0),
        .score = sqlite3_column_double(s, 1),
        .file = column_copy(s, 2, strings),
        .title = column_copy(s, 3, strings),
        .text = column_copy(s, 4, strings),
    };
    if (!h.file || !h.title || !h.text) return sp_fail_nomem(sizeof h, "a hit");
    SP_TRY(sp_vec_reserve(out, 1));
    out->v[out->n++] = h;
    return SP_OK;
}

static sp_err run_search(sp_index *ix, const char *expression, int k, sp_arena *strings,
                         hit_list *out)
{
    sqlite3_bind_text(ix->search, 1, expression, -1, SQLITE_STATIC);
    sqlite3_bind_int(ix->search, 2, k);
    sp_err err = SP_OK;
    int rc = SQLITE_DONE;
    while (err == SP_OK && (rc = sqlite3_step(ix->search)) == SQLITE_ROW)
        err = take_hit(ix->search, strings, out);
    if (err == SP_OK && rc != SQLITE_DONE) err = sp_db_fail(ix->db, ix->path, "cannot search");
    sqlite3_reset(ix->search);
    sqlite3_clear_bindings(ix->search);
    return err;
}

sp_err sp_index_search(sp_index *ix, const char *question, int k, sp_hits *out)
{
    if (k < 1) return sp_fail(SP_E_ARG, "a search for %d chunks", k);
    sp_arena *strings = SP_NEW(sp_arena);
    if (!strings) return sp_fail_nomem(sizeof *strings, "hits");
    hit_list hits = {0};
    sp_bytes expression = {0};
    sp_err err = make_expression(question, &expression);
    if (err == SP_OK && expression.n > 1) err = run_search(ix, expression.v, k, strings, &hits);
    sp_vec_fini(&expression);
    sp_hits result = {.v = hits.v, .n = (int)hits.n, .strings = strings};
    if (err == SP_OK)
        *out = result;
    else
        sp_hits_fini(&result);
    return err;
}

void sp_hits_fini(sp_hits *h)
{
    if (h->strings) sp_arena_fini(h->strings);
    sp_free(h->strings);
    sp_free(h->v);
    *h = (sp_hits){0};
}
