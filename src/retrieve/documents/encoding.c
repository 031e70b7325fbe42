/* encoding.c -- text files in other encodings than UTF-8.
 *
 *     byte order mark                          ──> the encoding it names
 *     escapes of ISO 2022 in ASCII             ──> ISO-2022-JP or -KR, if all of it is
 *     valid UTF-8 without NUL                  ──> unchanged
 *     NUL in every other byte                  ──> UTF-16
 *     other control characters                 ──> not text
 *     nearly UTF-8 (a damaged or cut file)     ──> U+FFFD for the bad bytes
 *     otherwise                                ──> what uchardet guesses, or Windows-1252, which
 *                                                  includes the text of Latin-1
 */
#include "retrieve/documents/readers_int.h"

#include <errno.h>
#include <iconv.h>
#include <string.h>

#include "retrieve/documents/guess_int.h"
#include "retrieve/text/text.h"

#define REPLACEMENT "\xEF\xBF\xBD"
/* With fewer bytes outside ASCII, assuming Western Europe is better than a guess. */
#define ENOUGH_BYTES 8
#define MOST_GOOD    10 /* letters beyond ASCII for each bad byte, in a damaged file */

sp_err sp_text_convert(const char *encoding, const char *data, size_t n, size_t most_bad, sp_bytes *own, bool *done)
{
    iconv_t to_utf8 = iconv_open("UTF-8", encoding);
    *done = false;
    own->n = 0;
    if (to_utf8 == (iconv_t)-1) return errno == ENOMEM ? sp_fail_nomem(encoding) : SP_OK;
    union {
        const char *in;
        char *iconv; /* whose parameter lacks a const */
    } at = {data};
    size_t left = n, n_bad = 0;
    sp_err err = SP_OK;
    while (left && n_bad <= most_bad && err == SP_OK) {
        err = sp_vec_reserve(own, left + left / 2 + 64);
        if (err != SP_OK) break;
        char *out = own->v + own->n;
        size_t room = own->cap - own->n, before = left;
        iconv(to_utf8, &at.iconv, &left, &out, &room);
        own->n = own->cap - room;
        if (left == before && ++n_bad <= most_bad) {
            err = sp_bytes_add(own, REPLACEMENT, 3);
            at.in++;
            left--;
        }
        if (own->n > SP_DOC_MAX_BYTES) err = sp_fail(SP_E_LIMIT, "too much text");
    }
    iconv_close(to_utf8);
    *done = err == SP_OK && left == 0;
    if (!*done) own->n = 0;
    return err;
}

static const char *encoding_of_mark(const char *s, size_t n, size_t *length)
{
    static const struct {
        const char *mark;
        size_t n;
        const char *encoding;
    } table[] = {
        {"\xEF\xBB\xBF", 3, "UTF-8"},    {"\xFF\xFE\0\0", 4, "UTF-32LE"},
        {"\0\0\xFE\xFF", 4, "UTF-32BE"}, {"\xFF\xFE", 2, "UTF-16LE"},
        {"\xFE\xFF", 2, "UTF-16BE"},
    };
    for (size_t i = 0; i < SP_COUNT(table); i++) {
        if (n < table[i].n || memcmp(s, table[i].mark, table[i].n) != 0) continue;
        *length = table[i].n;
        return table[i].encoding;
    }
    *length = 0;
    return NULL;
}

/* wide_encoding -- UTF-16 without a mark, recognised by the NULs of its ASCII characters. */
static const char *wide_encoding(const char *s, size_t n)
{
    size_t nuls[2] = {0}, seen = SP_MIN(n, (size_t)4096) & ~(size_t)1;
    for (size_t i = 0; i < seen; i++) nuls[i & 1] += s[i] == '\0';
    if (n & 1 || seen < 4) return NULL;
    if (nuls[1] > seen / 5 && nuls[0] <= seen / 50) return "UTF-16LE";
    if (nuls[0] > seen / 5 && nuls[1] <= seen / 50) return "UTF-16BE";
    return NULL;
}

bool sp_text_is_escaped(const char *s, size_t n)
{
    const char *at = n ? memmem(s, n, "\x1B$", 2) : NULL;
    for (size_t i = 0; at && i < n; i++)
        if ((unsigned char)s[i] >= 0x80) return false;
    return at;
}

static bool has_control_characters(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 && !sp_is_blank(s[i]) && c != 0x1B) return true;
    }
    return false;
}

/* cut_length -- bytes at the end of s that begin a character and do not end it. */
static size_t cut_length(const char *s, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        const unsigned char c = (unsigned char)s[n - k];
        const size_t whole = c >= 0xF0 && c < 0xF5 ? 4 : c >= 0xE0 ? 3 : 2;
        if (c >= 0xC2 && c < 0xF5) return whole > k ? k : 0;
        if (c < 0x80 || c >= 0xC0) return 0;
    }
    return 0;
}

sp_err sp_text_repair(const char *s, size_t n, size_t ratio, sp_bytes *own, bool *done)
{
    size_t n_good = 0, n_bad = 0, n_cut = cut_length(s, n), end = n - n_cut;
    for (size_t at = 0, length; at < end; at += length) {
        length = sp_utf8_length(s + at, end - at);
        n_good += length > 1;
        n_bad += length == 0;
        length += length == 0;
    }
    *done = n_good > ratio * n_bad;
    if (!*done) return SP_OK;
    own->n = 0;
    for (size_t at = 0, length; at < end; at += length) {
        length = sp_utf8_length(s + at, end - at);
        SP_TRY(sp_bytes_add(own, length ? s + at : REPLACEMENT, length ? length : 3));
        length += length == 0;
    }
    return n_cut ? sp_bytes_add(own, REPLACEMENT, 3) : SP_OK;
}

/* guess -- converts from what uchardet takes the text for, else from Windows-1252 or Latin-1. */
static sp_err guess(const char *s, size_t n, sp_bytes *own, bool *done)
{
    size_t n_high = 0;
    for (size_t i = 0; i < n && n_high < ENOUGH_BYTES; i++) n_high += (unsigned char)s[i] >= 0x80;
    *done = false;
    if (n_high >= ENOUGH_BYTES) {
        char encoding[64];
        SP_TRY(sp_guess_encoding(s, n, encoding));
        bool utf8 = strcmp(encoding, "UTF-8") == 0 || !*encoding;
        if (!utf8) SP_TRY(sp_text_convert(encoding, s, n, 0, own, done));
    }
    if (!*done) SP_TRY(sp_text_convert("WINDOWS-1252", s, n, 0, own, done));
    return *done ? SP_OK : sp_text_convert("ISO-8859-1", s, n, 0, own, done);
}

sp_err sp_text_decode(const char *data, size_t n, sp_bytes *own, const char **text, size_t *n_text)
{
    size_t mark;
    bool done = false;
    if (!n) data = ""; /* an empty file may have no address */
    const char *encoding = encoding_of_mark(data, n, &mark);
    bool utf8 = !encoding || mark == 3;
    if (n == mark) mark = n; /* a file of nothing but a mark */
    const char *s = data + mark;
    size_t left = n - mark;
    bool nul = left && memchr(s, '\0', left);
    if (utf8 && !nul && sp_text_is_escaped(s, left)) {
        const bool korean = memmem(s, left, "\x1B$)C", 4);
        SP_TRY(sp_text_convert(korean ? "ISO-2022-KR" : "ISO-2022-JP", s, left, 0, own, &done));
        if (done) {
            *text = own->v;
            *n_text = own->n;
            return SP_OK;
        }
    }
    if (utf8 && !nul && sp_utf8_valid(s, left)) {
        *text = s;
        *n_text = left;
        return SP_OK;
    }
    if (utf8 && nul) encoding = wide_encoding(s, left);
    if (encoding && !(utf8 && !nul)) SP_TRY(sp_text_convert(encoding, s, left, 0, own, &done));
    if (utf8 && !nul && !has_control_characters(s, left)) {
        SP_TRY(sp_text_repair(s, left, MOST_GOOD, own, &done));
        if (!done) SP_TRY(guess(s, left, own, &done));
    }
    if (!done || (own->n && memchr(own->v, '\0', own->n)) || !sp_utf8_valid(own->v, own->n))
        return sp_fail(SP_E_UNSUPPORTED, "not a text file");
    *text = own->n ? own->v : "";
    *n_text = own->n;
    return SP_OK;
}
