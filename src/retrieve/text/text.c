#include "retrieve/text/text.h"

#include <string.h>

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_letter(char c)
{
    return is_lower((char)(c | 0x20));
}

static bool starts_with(const char *s, size_t at, size_t to, const char *what)
{
    size_t n = strlen(what);
    return n <= to - at && memcmp(s + at, what, n) == 0;
}

static size_t char_end(const char *s, size_t at, size_t to)
{
    at++;
    while (at < to && is_continuation(s[at])) at++;
    return at;
}

/* -- UTF-8 ---------------------------------------------------------------------------------- */

/* The second byte has the narrower range of the Unicode standard's table 3-7. */
size_t sp_utf8_length(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned char lead = p[0], low = 0x80, high = 0xBF;
    if (lead < 0x80) return 1;
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || length > n) return 0;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if (!is_continuation((char)p[i])) return 0;
    return length;
}

bool sp_utf8_valid(const char *s, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t length = sp_utf8_length(s + at, n - at);
        if (!length) return false;
        at += length;
    }
    return true;
}

/* -- words ---------------------------------------------------------------------------------- */

size_t sp_skip_blanks(const char *s, size_t at, size_t to)
{
    while (at < to && sp_is_blank(s[at])) at++;
    return at;
}

size_t sp_trim_end(const char *s, size_t at, size_t to)
{
    while (to > at && sp_is_blank(s[to - 1])) to--;
    return to;
}

/* Kana and CJK ideographs, U+3040..U+9FFF and U+20000..U+3FFFF, by their first two bytes. */
static bool is_ideograph(const char *s, size_t at, size_t to)
{
    unsigned char a = (unsigned char)s[at];
    if (a < 0xE3 || a > 0xF0 || to - at < 3) return false;
    unsigned char b = (unsigned char)s[at + 1];
    return (a == 0xE3 && b >= 0x81) || (a >= 0xE4 && a <= 0xE9) || (a == 0xF0 && b >= 0xA0);
}

size_t sp_word_end(const char *s, size_t at, size_t to)
{
    if (is_ideograph(s, at, to)) return char_end(s, at, to);
    size_t end = at;
    do end = char_end(s, end, to);
    while (end < to && !sp_is_blank(s[end]) && !is_ideograph(s, end, to) &&
           end - at < SP_WORD_BYTES);
    return end;
}

int64_t sp_count_words(const char *s, size_t at, size_t to)
{
    int64_t n = 0;
    for (at = sp_skip_blanks(s, at, to); at < to; at = sp_skip_blanks(s, at, to)) {
        at = sp_word_end(s, at, to);
        n++;
    }
    return n;
}

/* -- sentences ------------------------------------------------------------------------------
 *
 * A sentence ends at a run of . ! ? or an ellipsis, with the quotes and brackets that close there,
 * when a blank or the end follows, unless
 *   1. the next word starts with a small letter ("Yahoo! is", "e.g. this", "wait ... what"), or
 *   2. the mark is a single period after an abbreviation of the table below, or
 *   3. after a single letter or letters with periods ("J. R. R. Tolkien", "U.S. Army"), or
 *   4. after up to three digits that open the sentence (the number of a list item).
 * Decimals and dotted names have no blank after the period. The full-width marks of Chinese and
 * Japanese always end one. When in doubt the rules do not cut: a sentence that is too long is cut at
 * words later, but a wrong cut cannot be undone.
 */

/* Words before a name, a number or an example; "etc" and others that end sentences are not
 * here. */
static const char *const abbreviations[] = {
    "Adm",    "Apr",  "Aug", "Brig", "Capt", "Ch",   "Cmdr", "Col",  "Dec", "Dr",  "Eq",   "Feb",
    "Fig",    "Figs", "Ft",  "Gen",  "Gov",  "Hon",  "Jan",  "Jr",   "Lt",  "Maj", "Mar",  "Messrs",
    "Mme",    "Mr",   "Mrs", "Ms",   "Mt",   "No",   "Nos",  "Nov",  "Oct", "Op",  "Pres", "Prof",
    "Rep",    "Rev",  "Sec", "Sen",  "Sep",  "Sept", "Sgt",  "Sr",   "St",  "Ste", "Vol",  "al",
    "approx", "ca",   "cf",  "ed",   "eds",  "fig",  "pp",   "resp", "viz", "vol", "vs",
};

static bool is_abbreviation(const char *word, size_t n)
{
    for (size_t i = 0; i < SP_COUNT(abbreviations); i++)
        if (strlen(abbreviations[i]) == n && memcmp(abbreviations[i], word, n) == 0) return true;
    return false;
}

/* end_mark -- the length of the sentence mark at `at`, 0 for none. */
static size_t end_mark(const char *s, size_t at, size_t to)
{
    if (s[at] == '.' || s[at] == '!' || s[at] == '?') return 1;
    return starts_with(s, at, to, "\xE2\x80\xA6") ? 3 : 0; /* ellipsis */
}

static size_t wide_end_mark(const char *s, size_t at, size_t to)
{
    static const char *const marks[] = {"\xE3\x80\x82", "\xEF\xBC\x81", "\xEF\xBC\x9F"};
    if (!((unsigned char)s[at] & 0x80)) return 0;
    for (size_t i = 0; i < SP_COUNT(marks); i++)
        if (starts_with(s, at, to, marks[i])) return 3;
    return 0;
}

/* closing_mark -- quotes, brackets and Markdown emphasis that belong to the sentence they close. */
static size_t closing_mark(const char *s, size_t at, size_t to)
{
    static const char *const marks[] = {
        "\"", "'", ")", "]", "*", "_", "\xC2\xBB", "\xE2\x80\x9D", "\xE2\x80\x99", "\xE3\x80\x8D",
    };
    for (size_t i = 0; i < SP_COUNT(marks); i++)
        if (starts_with(s, at, to, marks[i])) return strlen(marks[i]);
    return 0;
}

/* is_inner_period -- rules 2 to 4 for the period at `dot` in the sentence that starts at `from`. */
static bool is_inner_period(const char *s, size_t from, size_t dot)
{
    size_t word = dot;
    while (word > from && !sp_is_blank(s[word - 1])) word--;
    bool opens = word == from;
    while (word < dot && strchr("\"'([*_", s[word]) && s[word]) word++;

    size_t n = dot - word;
    if (is_abbreviation(s + word, n)) return true;
    if (n >= 1 && is_letter(s[dot - 1]) && (n == 1 || s[dot - 2] == '.')) return true;
    if (!opens || n < 1 || n > 3) return false;
    while (word < dot && is_digit(s[word])) word++;
    return word == dot;
}

size_t sp_sentence_end(const char *s, size_t from, size_t to)
{
    for (size_t at = from; at < to;) {
        bool wide = wide_end_mark(s, at, to) > 0;
        size_t mark = at, step;
        while (at < to && (step = wide ? wide_end_mark(s, at, to) : end_mark(s, at, to)))
            at += step;
        if (at == mark) {
            at++;
            continue;
        }
        bool single_period = s[mark] == '.' && at == mark + 1;
        while (at < to && (step = closing_mark(s, at, to))) at += step;
        if (wide) return at;
        if (at < to && !sp_is_blank(s[at])) continue;
        size_t next = sp_skip_blanks(s, at, to);
        if (next < to && is_lower(s[next])) continue;
        if (single_period && is_inner_period(s, from, mark)) continue;
        return at;
    }
    return to;
}
