#include "retrieve/graph/names_int.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/digits.h"
#include "base/utf8.h"
#include "retrieve/text/text.h"

#define MAX_FOLDED 16 /* bytes: four characters */
#define DOTTED_I   0x130
#define DOT_ABOVE  0x307

/* -- characters ----------------------------------------------------------------------------- */

/* decode -- the character at s and its length; a byte that begins no character is one by itself. */
static uint32_t decode(const uint8_t *s, size_t n, size_t *length)
{
    int k = sp_utf8_step(s, n);
    *length = k > 0 ? (size_t)k : 1;
    switch (k) {
    case 2:
        return (uint32_t)(s[0] & 0x1F) << 6 | (s[1] & 0x3Fu);
    case 3:
        return (uint32_t)(s[0] & 0x0F) << 12 | (uint32_t)(s[1] & 0x3F) << 6 | (s[2] & 0x3Fu);
    case 4:
        return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3F) << 12 |
               (uint32_t)(s[2] & 0x3F) << 6 | (s[3] & 0x3Fu);
    default:
        return s[0] < 0x80 ? s[0] : 0xFFFD;
    }
}

static bool in(uint32_t c, uint32_t from, uint32_t to)
{
    return c >= from && c <= to;
}

/* fold -- a character as Unicode folds its case, at `out`; returns the bytes. Turkish dotted I is an i. */
static size_t fold(uint32_t c, char out[MAX_FOLDED])
{
    utf8proc_int32_t folded[4];
    size_t n = 0;
    if (c < 0x80) return out[0] = (char)(in(c, 'A', 'Z') ? c + 32 : c), 1;
    utf8proc_ssize_t length = utf8proc_decompose_char((utf8proc_int32_t)c, folded, SP_COUNT(folded),
                                                      UTF8PROC_CASEFOLD, NULL);
    if (length < 1 || length > (utf8proc_ssize_t)SP_COUNT(folded)) {
        folded[0] = (utf8proc_int32_t)c;
        length = 1;
    }
    for (utf8proc_ssize_t i = 0; i < length; i++) {
        if (c == DOTTED_I && i > 0) break;
        n += (size_t)utf8proc_encode_char(folded[i], (utf8proc_uint8_t *)out + n);
    }
    return n;
}

static bool is_letter(uint32_t c)
{
    if (c < 0x80) return in(c, 'a', 'z') || in(c, 'A', 'Z') || in(c, '0', '9');
    if (in(c, 0x80, 0xBF)) return c == 0xAA || c == 0xB5 || c == 0xBA;
    return c != 0xD7 && c != 0xF7 && !in(c, 0x2000, 0x206F) && !in(c, 0x3000, 0x303F);
}

/* is_joined -- whether a character may be one with the one before it: an accent, a vowel sign, a part of a Hangul
 * syllable. */
static bool is_joined(uint32_t c)
{
    if (c < 0x300) return false;
    const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || in(c, 0x1160, 0x11FF);
}

/* is_ideograph -- scripts without blanks: each character is a word. */
static bool is_ideograph(uint32_t c)
{
    return in(c, 0x3040, 0x30FF) || in(c, 0x3400, 0x9FFF) || in(c, 0xF900, 0xFAFF) ||
           in(c, 0x20000, 0x3FFFF);
}

/* -- capital letters ------------------------------------------------------------------------ */

static bool has_capital(const char *s, size_t n)
{
    for (size_t i = 0, length; i < n; i += length) {
        const uint32_t c = decode((const uint8_t *)s + i, n - i, &length);
        if (utf8proc_tolower((utf8proc_int32_t)c) != (utf8proc_int32_t)c) return true;
    }
    return false;
}

sp_err sp_name_capitals(const char *s, size_t n, sp_bytes *out)
{
    const bool all = has_capital(s, n); /* stays as it is */
    bool inside = all;                  /* a word */
    for (size_t i = 0, length; i < n; i += length) {
        const uint32_t c = decode((const uint8_t *)s + i, n - i, &length);
        if (inside || !is_letter(c) || (c == 0xFFFD && length == 1)) {
            SP_TRY(sp_bytes_add(out, !all && c == '_' ? " " : s + i, length));
        } else {
            char title[4];
            SP_TRY(sp_bytes_add(out, title, (size_t)utf8proc_encode_char(utf8proc_totitle((utf8proc_int32_t)c),
                                                                         (utf8proc_uint8_t *)title)));
        }
        inside = all || is_letter(c) || (inside && c == '\''); /* "mother's" */
    }
    return SP_OK;
}

/* -- keys ----------------------------------------------------------------------------------- */

/* trimmed -- the key of a text without words. */
static sp_err trimmed(const char *s, size_t n, sp_bytes *key)
{
    while (n && (unsigned char)s[0] <= ' ') s++, n--;
    while (n && (unsigned char)s[n - 1] <= ' ') n--;
    return sp_bytes_add(key, s, n);
}

/* compose -- the key from there on with composed characters (NFC): "e" and an accent are one. */
static sp_err compose(sp_bytes *key, size_t from)
{
    utf8proc_uint8_t *made = NULL;
    const utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)key->v + from, (utf8proc_ssize_t)(key->n - from),
                                            &made, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (n == UTF8PROC_ERROR_NOMEM) return sp_fail_nomem("a name");
    if (n < 0) return SP_OK; /* not UTF-8 */
    key->n = from;
    const sp_err err = sp_bytes_add(key, made, (size_t)n);
    free(made);
    return err;
}

/* add_word -- folds the word s[from, to) to the end of the key, after a blank if it is not first. */
static sp_err add_word(const char *s, size_t from, size_t to, size_t key_begin, sp_bytes *key,
                       sp_name_words *words)
{
    SP_TRY(sp_vec_reserve(key, 1));
    if (key->n > key_begin) key->v[key->n++] = ' ';
    size_t at = key->n;
    bool composed = true;
    for (size_t i = from, length; i < to; i += length) {
        char folded[MAX_FOLDED];
        uint32_t c = decode((const uint8_t *)s + i, to - i, &length);
        composed &= !is_joined(c);
        if (c == 0xFFFD && length == 1)
            SP_TRY(sp_bytes_add(key, s + i, 1));
        else if (c != DOT_ABOVE || key->n == at || key->v[key->n - 1] != 'i') /* Turkish again */
            SP_TRY(sp_bytes_add(key, folded, fold(c, folded)));
    }
    if (!composed) SP_TRY(compose(key, at));
    if (!words) return SP_OK;
    SP_TRY(sp_vec_reserve(words, 1));
    words->v[words->n++] = (sp_name_word){.from = (uint32_t)from,
                                          .to = (uint32_t)to,
                                          .key_from = (uint32_t)at,
                                          .key_to = (uint32_t)key->n};
    return SP_OK;
}

sp_err sp_name_key(const char *s, size_t n, sp_bytes *key, sp_name_words *words)
{
    if (n > UINT32_MAX / 4) return sp_fail(SP_E_LIMIT, "a text of %zu bytes", n);
    size_t begin = key->n, length;
    for (size_t at = 0; at < n;) {
        uint32_t c = decode((const uint8_t *)s + at, n - at, &length);
        size_t to = at + length;
        if (is_letter(c)) {
            const bool alone = is_ideograph(c); /* with its marks */
            while (to < n) {
                c = decode((const uint8_t *)s + to, n - to, &length);
                if (!is_letter(c) || (!is_joined(c) && (alone || is_ideograph(c)))) break;
                to += length;
            }
            SP_TRY(add_word(s, at, to, begin, key, words));
        }
        at = to;
    }
    return key->n == begin ? trimmed(s, n, key) : SP_OK;
}

/* -- similarity ----------------------------------------------------------------------------- */

#define MAX_TRIGRAMS 48

static size_t trigrams(const char *s, size_t n, uint32_t out[MAX_TRIGRAMS])
{
    size_t count = 0;
    uint32_t window = '^';
    for (size_t i = 0; i < n && count < MAX_TRIGRAMS; i++) {
        window = (window << 8 | (uint8_t)s[i]) & 0xFFFFFF;
        if (i >= 1) out[count++] = window;
    }
    return count;
}

double sp_name_likeness(const char *a, size_t n_a, const char *b, size_t n_b)
{
    if (n_a == n_b && memcmp(a, b, n_a) == 0) return 1;
    if (n_a < 3 || n_b < 3) return 0;
    uint32_t x[MAX_TRIGRAMS], y[MAX_TRIGRAMS];
    size_t n_x = trigrams(a, n_a, x), n_y = trigrams(b, n_b, y), common = 0;
    for (size_t i = 0; i < n_x; i++)
        for (size_t j = 0; j < n_y; j++)
            if (x[i] == y[j]) {
                y[j] = UINT32_MAX; /* each counts once */
                common++;
                break;
            }
    return 2.0 * (double)common / (double)(n_x + n_y);
}

int sp_name_distance(const char *a, size_t n_a, const char *b, size_t n_b, int most)
{
    if (n_a == n_b && memcmp(a, b, n_a) == 0) return 0;
    size_t gap = n_a > n_b ? n_a - n_b : n_b - n_a;
    if (n_a > SP_NAME_DISTANCE_BYTES || n_b > SP_NAME_DISTANCE_BYTES || gap > (size_t)most)
        return most + 1;
    int rows[3][SP_NAME_DISTANCE_BYTES + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= n_b; j++) last[j] = (int)j;
    for (size_t i = 1; i <= n_a; i++) {
        int least = now[0] = (int)i;
        for (size_t j = 1; j <= n_b; j++) {
            int d = last[j - 1] + (a[i - 1] != b[j - 1]);
            d = SP_MIN(d, SP_MIN(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d = SP_MIN(d, before[j - 2] + 1);
            now[j] = d;
            least = SP_MIN(least, d);
        }
        if (least > most) return most + 1;
        int *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return SP_MIN(last[n_b], most + 1);
}

/* -- words ---------------------------------------------------------------------------------- */

static const char *const common_words[] = {
    "a",     "about", "all",   "also",  "am",   "an",   "and",   "any",   "are",   "as",
    "at",    "be",    "been",  "but",   "by",   "can",  "could", "did",   "do",    "does",
    "for",   "from",  "had",   "has",   "have", "he",   "her",   "him",   "his",   "how",
    "i",     "if",    "in",    "into",  "is",   "it",   "its",   "list",  "me",    "my",
    "name",  "no",    "not",   "of",    "on",   "or",   "our",   "s",     "she",   "so",
    "some",  "t",     "tell",  "than",  "that", "the",  "their", "them",  "there", "these",
    "they",  "this",  "those", "to",    "was",  "we",   "were",  "what",  "when",  "where",
    "which", "who",   "whom",  "whose", "why",  "will", "with",  "would", "you",   "your",
};

typedef struct word {
    const char *s;
    size_t n;
} word;

static int by_word(const void *key, const void *element)
{
    const word *w = key;
    const char *other = *(const char *const *)element;
    int order = strncmp(w->s, other, w->n);
    return order ? order : -(int)(strlen(other) > w->n);
}

bool sp_name_is_common(const char *s, size_t n)
{
    word w = {s, n};
    return bsearch(&w, common_words, SP_COUNT(common_words), sizeof *common_words, by_word);
}

sp_err sp_name_readable(const char *s, size_t n, sp_bytes *out)
{
    while (n > 1 && (s[n - 1] == '/' || s[n - 1] == '#')) n--;
    for (size_t i = n - (n > 0); i-- > 0;) /* not the last: something is left */
        if (s[i] == '/' || s[i] == '#') {
            s += i + 1;
            n -= i + 1;
            break;
        }
    for (size_t i = 0; i < n; i++) {
        char c = s[i] == '_' || s[i] == '-' ? ' ' : s[i];
        bool upper = c >= 'A' && c <= 'Z';
        bool hump = upper && i && s[i - 1] >= 'a' && s[i - 1] <= 'z';
        if (hump) SP_TRY(sp_bytes_add(out, " ", 1));
        if (hump) c = (char)(c + 32);
        SP_TRY(sp_bytes_add(out, &c, 1));
    }
    return SP_OK;
}

sp_err sp_name_unescape(const char *s, size_t n, sp_bytes *out)
{
    const size_t from = out->n;
    bool good = true, blank = true;
    for (size_t i = 0; i < n; i++) {
        const bool coded = s[i] == '%' && i + 2 < n && sp_digit16(s[i + 1]) >= 0 && sp_digit16(s[i + 2]) >= 0;
        const char c = coded ? (char)(sp_digit16(s[i + 1]) << 4 | sp_digit16(s[i + 2])) : s[i];
        good &= !coded || ((unsigned char)c >= 0x20 && c != 0x7F);
        blank &= c == ' ';
        SP_TRY(sp_bytes_add(out, &c, 1));
        i += coded ? 2 : 0;
    }
    if (!blank && good && sp_utf8_valid(out->v + from, out->n - from)) return SP_OK;
    out->n = from;
    return sp_bytes_add(out, s, n);
}

sp_err sp_name_of_iri(const char *s, size_t n, sp_bytes *out)
{
    size_t to = n;
    while (to && (s[to - 1] == '/' || s[to - 1] == '#')) to--;
    size_t from = to;
    while (from && s[from - 1] != '/' && s[from - 1] != '#') from--;
    return from < to ? sp_name_unescape(s + from, to - from, out) : sp_name_unescape(s, n, out);
}

sp_err sp_name_relation_key(const char *relation, sp_bytes *key, sp_name_words *words)
{
    sp_bytes readable = {0};
    size_t n = 0;
    sp_err err = sp_name_readable(relation, strlen(relation), &readable);
    if (err == SP_OK) err = sp_name_key(readable.v, readable.n, key, words);
    for (size_t i = 0; err == SP_OK && i < words->n; i++) {
        const sp_name_word *w = &words->v[i];
        if (!sp_name_is_common(key->v + w->key_from, w->key_to - w->key_from)) words->v[n++] = *w;
    }
    if (err == SP_OK) words->n = n;
    sp_vec_fini(&readable);
    return err;
}
