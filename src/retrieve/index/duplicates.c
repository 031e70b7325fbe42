/* duplicates.c -- finds chunks of a prompt that add nothing new.
 *
 * A better chunk makes another one redundant if it has
 *   - at least ENOUGH of its runs of RUN words,
 *   - all of its words that may be names or numbers: two contracts from one form are not duplicates, and
 *   - all of its runs with a negation, and no others if both are about as long: "may" is not "may not".
 * A chunk of a few words depends on its title, so there the titles must be equal, too.
 *
 * Words are compared in lower case without the punctuation around them. Cost: O(n log n) in the words of a
 * chunk, once for each pair of a chunk and a better one. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/need.h"
#include "retrieve/index/open.h"
#include "retrieve/text/text.h"

#define RUN         3
#define ENOUGH      0.8
#define SHORT_WORDS 30

typedef SP_VEC(uint64_t) hashes;

/* What a chunk says, as sorted hashes. */
typedef struct content {
    hashes runs, names, negated; /* negated: the runs with a word of `negations` */
    int64_t n_words;
} content;

/* -- words -------------------------------------------------------------------------------------- */

/* is_word_byte -- unsigned: bytes of other scripts, from 0x80 on, are part of words. */
static bool is_word_byte(unsigned char c)
{
    return c >= 0x80 || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_minus(const char *s, size_t at, size_t to)
{
    return s[at] == '-' && at + 1 < to && is_digit(s[at + 1]);
}

/* hash_word -- of s[from, to) without the punctuation around it, but with a number's minus; *name: it may be a name or
 * a number. */
static uint64_t hash_word(const char *s, size_t from, size_t to, bool *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    while (from < to && !is_word_byte((unsigned char)s[from]) && !is_minus(s, from, to)) from++;
    while (to > from && !is_word_byte((unsigned char)s[to - 1])) to--;
    *name = from < to && ((s[from] >= 'A' && s[from] <= 'Z') || (unsigned char)s[from] >= 0x80);
    for (; from < to; from++) {
        char c = s[from];
        *name |= is_digit(c);
        if (c >= 'A' && c <= 'Z') c = (char)(c | 32);
        h = (h ^ (unsigned char)c) * 0x100000001b3u;
    }
    return h;
}

/* In English, German, French, Spanish, Italian, Portuguese and Dutch. */
static const char *const negations[] = {
    "not",   "no",    "never",  "none",   "nor",    "neither", "without", "cannot",
    "nicht", "kein",  "keine",  "keinen", "keinem", "keiner",  "keines",  "nie",     "niemals", "ohne",
    "ne",    "pas",   "jamais", "sans",   "aucun",  "aucune",
    "nunca", "sin",   "ni",     "non",    "mai",    "senza",
    "não",   "nem",   "sem",    "niet",   "geen",   "nooit",   "zonder",
};

/* is_negation -- of s[from, to), in any case; "don't" is one, too. */
static bool is_negation(const char *s, size_t from, size_t to)
{
    while (to > from && !is_word_byte((unsigned char)s[to - 1])) to--;
    while (from < to && !is_word_byte((unsigned char)s[from])) from++;
    const size_t n = to - from;
    if (n > 3 && strncasecmp(s + to - 3, "n't", 3) == 0) return true;
    if (n > 5 && strncasecmp(s + to - 5, "n\xe2\x80\x99t", 5) == 0) return true;
    for (size_t i = 0; i < SP_COUNT(negations); i++)
        if (strlen(negations[i]) == n && strncasecmp(s + from, negations[i], n) == 0) return true;
    return false;
}

static sp_err push(hashes *to, uint64_t h)
{
    SP_TRY(sp_vec_reserve(to, 1));
    to->v[to->n++] = h;
    return SP_OK;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort(hashes *h)
{
    size_t n = 0;
    if (h->n) qsort(h->v, h->n, sizeof *h->v, by_value);
    for (size_t i = 0; i < h->n; i++)
        if (n == 0 || h->v[n - 1] != h->v[i]) h->v[n++] = h->v[i];
    h->n = n;
}

static sp_err read_content(const char *s, content *out)
{
    uint64_t last[RUN] = {0}, run = 0;
    int64_t negated = -RUN; /* the last word that is a negation */
    size_t n = strlen(s);
    bool name;
    for (size_t at = sp_skip_blanks(s, 0, n); at < n;) {
        size_t end = sp_word_end(s, at, n);
        memmove(last, last + 1, sizeof last - sizeof *last);
        last[RUN - 1] = hash_word(s, at, end, &name);
        if (is_negation(s, at, end)) negated = out->n_words;
        out->n_words++;
        run = 0;
        for (int i = 0; i < RUN; i++) run = (run ^ last[i]) * 0x9e3779b97f4a7c15u;
        if (out->n_words >= RUN) SP_TRY(push(&out->runs, run));
        if (out->n_words - negated <= RUN) SP_TRY(push(&out->negated, run));
        if (name) SP_TRY(push(&out->names, last[RUN - 1]));
        at = sp_skip_blanks(s, end, n);
    }
    if (out->n_words && out->n_words < RUN) SP_TRY(push(&out->runs, run));
    sort(&out->runs);
    sort(&out->names);
    sort(&out->negated);
    return SP_OK;
}

/* -- comparison --------------------------------------------------------------------------------- */

static size_t n_common(const hashes *a, const hashes *b)
{
    size_t n = 0;
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        n += a->v[i] == b->v[j];
        size_t next_i = i + (a->v[i] <= b->v[j]);
        j += b->v[j] <= a->v[i];
        i = next_i;
    }
    return n;
}

static bool says_nothing_new(const content *c, const char *title, const content *better,
                             const char *its_title)
{
    if (c->runs.n == 0) return false;
    if (c->n_words < SHORT_WORDS && strcmp(title, its_title) != 0) return false;
    if (n_common(&c->names, &better->names) < c->names.n) return false;
    if (n_common(&c->negated, &better->negated) < c->negated.n) return false;
    const bool as_long = (double)c->n_words >= ENOUGH * (double)better->n_words;
    if (as_long && c->negated.n < better->negated.n) return false;
    return (double)n_common(&c->runs, &better->runs) >= ENOUGH * (double)c->runs.n;
}

/* Hits being chosen. */
typedef struct choice {
    sp_hits *hits;
    content *contents; /* of hits[0 .. n), which are kept; one more is room for the next */
    int n, n_left_out;
} choice;

static sp_err keep_new(choice *c, int k)
{
    for (int i = 0; i < c->hits->n && c->n < k; i++) {
        const sp_hit hit = c->hits->v[i];
        content *new = &c->contents[c->n];
        bool duplicate = false;
        new->runs.n = new->names.n = new->negated.n = 0;
        new->n_words = 0;
        SP_TRY(read_content(hit.text, new));
        for (int j = 0; j < c->n && !duplicate; j++)
            duplicate = says_nothing_new(new, hit.title, &c->contents[j], c->hits->v[j].title);
        c->n_left_out += duplicate;
        if (!duplicate) c->hits->v[c->n++] = hit;
    }
    return SP_OK;
}

sp_err sp_hits_distinct(sp_hits *h, int k, int *n_left_out)
{
    SP_NEED(h);
    if (k < 0) return sp_fail(SP_E_ARG, "k: %d is negative", k);
    choice c = {.hits = h, .contents = SP_NEW_N(content, (size_t)h->n + 1)};
    if (!c.contents) return sp_fail_nomem("chunks");
    sp_err err = keep_new(&c, k);
    for (int i = 0; i <= h->n; i++) {
        sp_vec_fini(&c.contents[i].runs);
        sp_vec_fini(&c.contents[i].names);
        sp_vec_fini(&c.contents[i].negated);
    }
    sp_free(c.contents);
    h->n = c.n; /* after an error the hits before it */
    if (n_left_out) *n_left_out = c.n_left_out;
    return err;
}
