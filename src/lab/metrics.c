#include "lab/metrics.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "cli/alloc.h"
#include "cli/logprob.h"
#include "lab/numbers.h"

/* -- normalised words ----------------------------------------------------------------------- */

/* next_code -- the code point at *s; advances *s. A byte that is not UTF-8 is its own code point. */
static utf8proc_int32_t next_code(const unsigned char **s)
{
    utf8proc_int32_t c;
    const utf8proc_ssize_t n = utf8proc_iterate(*s, -1, &c);
    if (n < 1) return *(*s)++;
    *s += n;
    return c;
}

static bool is_blank(utf8proc_int32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xA0 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x3000;
}

static bool is_punctuation(utf8proc_int32_t c)
{
    return c > 0 && c < 0x80 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", c);
}

static bool is_article(const char *word, size_t n)
{
    return (n == 1 && word[0] == 'a') || (n == 2 && memcmp(word, "an", 2) == 0) ||
           (n == 3 && memcmp(word, "the", 3) == 0);
}

char *metric_normalise(const char *text)
{
    /* a byte that is not UTF-8 may become two, and each word adds a blank; lower case adds half at most */
    char *out = cli_alloc(2 * strlen(text) + 2, 1), *to = out, *word = out;
    for (const unsigned char *s = (const unsigned char *)text;;) {
        const utf8proc_int32_t c = *s ? next_code(&s) : 0;
        if (c && !is_blank(c)) {
            if (!is_punctuation(c)) to += utf8proc_encode_char(utf8proc_tolower(c), (unsigned char *)to);
            continue;
        }
        if (is_article(word, (size_t)(to - word))) to = word;
        if (to > word) *to++ = ' ';
        word = to;
        if (!c) break;
    }
    if (to > out) to--;
    *to = '\0';
    return out;
}

typedef struct word_list {
    char *text; /* normalised, cut at its blanks */
    const char **v;
    int n;
} word_list;

static word_list words_of(const char *text)
{
    word_list w = {.text = metric_normalise(text)};
    w.v = cli_alloc(strlen(w.text) / 2 + 1, sizeof *w.v);
    char *rest = NULL;
    for (char *s = strtok_r(w.text, " ", &rest); s; s = strtok_r(NULL, " ", &rest)) w.v[w.n++] = s;
    return w;
}

static void drop_words(word_list *w)
{
    free(w->v);
    free(w->text);
}

/* -- scores --------------------------------------------------------------------------------- */

static bool equal(const word_list *a, const word_list *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->v[i], b->v[i]) != 0) return false;
    return true;
}

/* n_common -- words in both; repeated words count as often as in the text that has fewer. */
static int n_common(const word_list *a, const word_list *b)
{
    bool *taken = cli_alloc((size_t)b->n, sizeof *taken);
    int n = 0;
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            if (!taken[j] && strcmp(a->v[i], b->v[j]) == 0) {
                taken[j] = true;
                n++;
                break;
            }
    free(taken);
    return n;
}

/* n_in_order -- length of the longest common subsequence. */
static int n_in_order(const word_list *a, const word_list *b)
{
    int *best = cli_alloc((size_t)b->n + 1, sizeof *best); /* of a[0..i) and b[0..j) */
    for (int i = 0; i < a->n; i++) {
        int diagonal = 0;
        for (int j = 0; j < b->n; j++) {
            int above = best[j + 1];
            if (strcmp(a->v[i], b->v[j]) == 0)
                best[j + 1] = diagonal + 1;
            else if (best[j] > above)
                best[j + 1] = best[j];
            diagonal = above;
        }
    }
    int n = best[b->n];
    free(best);
    return n;
}

/* f1_of -- harmonic mean of n / n_a and n / n_b; two empty texts agree. */
static double f1_of(int n, int n_a, int n_b)
{
    if (n_a == 0 || n_b == 0) return n_a == n_b;
    return 2.0 * n / (n_a + n_b);
}

answer_score metric_score(const char *answer, const char *const *wanted, int n_wanted)
{
    answer_score best = {0};
    word_list a = words_of(answer);
    for (int i = 0; i < n_wanted; i++) {
        word_list w = words_of(wanted[i]);
        best.em = fmax(best.em, equal(&a, &w));
        best.f1 = fmax(best.f1, f1_of(n_common(&a, &w), a.n, w.n));
        best.rouge_l = fmax(best.rouge_l, f1_of(n_in_order(&a, &w), a.n, w.n));
        drop_words(&w);
    }
    drop_words(&a);
    return best;
}

/* -- distributions -------------------------------------------------------------------------- */

double metric_kl(const float *p, const float *q, int n)
{
    double log_zp = log_sum_exp(p, n), log_zq = log_sum_exp(q, n), kl = 0;
    for (int i = 0; i < n; i++) {
        double lp = (double)p[i] - log_zp, lq = (double)q[i] - log_zq;
        if (lp > -700) kl += exp(lp) * (lp - lq); /* exp is 0 beyond: 0 log 0 = 0 */
    }
    return fmax(kl, 0); /* rounding may leave -1e-17 */
}

int metric_best(const float *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}
