/* rtf.c -- the text of RTF: groups in braces, control words, characters of a code page or as \uN.
 *
 * Groups that are not text (fonts, styles, pictures, all that begin with \*) are skipped; of the fonts, which code
 * pages they have is kept. Bytes of one code page wait in `raw` and are converted together, as a character may have
 * two. */
#include "retrieve/documents/readers_int.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/digits.h"
#include "retrieve/text/text.h"

#define MAX_GROUPS 256
#define MAX_FONTS  32768 /* numbers are 16 bits with a sign */

typedef struct group {
    bool skipped, fonts; /* fonts: in the table of them */
    int fallback;        /* characters after \uN that replace it */
    int32_t font;
} group;

typedef struct rtf {
    const char *s;
    size_t n, at;
    group groups[MAX_GROUPS];
    int depth;
    int to_skip;  /* characters of a fallback */
    int32_t high; /* first half of a surrogate pair, or 0 */
    int code_page; /* of the document */
    int raw_page;  /* of the bytes in raw */
    int32_t plain_font;
    int32_t font; /* in the table of fonts: the one that is described */
    int *pages;   /* [MAX_FONTS] their code pages, 0: the document's; NULL: there is no table */
    sp_bytes raw, page, out;
} rtf;

/* -- text ------------------------------------------------------------------------------------- */

/* name_page -- a code page as iconv knows it. */
static void name_page(int page, char *out, size_t size)
{
    if (page == 10000)
        snprintf(out, size, "MACINTOSH");
    else if (page == 65001)
        snprintf(out, size, "UTF-8");
    else
        snprintf(out, size, "CP%d", page);
}

static sp_err flush(rtf *r)
{
    bool done = false;
    char name[16];
    if (!r->raw.n) return SP_OK;
    name_page(r->raw_page, name, sizeof name);
    SP_TRY(sp_text_convert(name, r->raw.v, r->raw.n, 0, &r->page, &done));
    if (!done) SP_TRY(sp_text_convert("ISO-8859-1", r->raw.v, r->raw.n, 0, &r->page, &done));
    r->raw.n = 0;
    return done ? sp_bytes_add(&r->out, r->page.v, r->page.n) : SP_OK;
}

static group *current(rtf *r)
{
    return &r->groups[SP_MIN(r->depth, MAX_GROUPS - 1)];
}

/* page_now -- the code page of the current font, or the document's. */
static int page_now(rtf *r)
{
    const int32_t font = current(r)->font;
    const int page = r->pages && font >= 0 && font < MAX_FONTS ? r->pages[font] : 0;
    return page ? page : r->code_page;
}

static sp_err add_byte(rtf *r, unsigned char c)
{
    if (current(r)->skipped) return SP_OK;
    if (r->to_skip) return r->to_skip--, SP_OK;
    if (c == 0) return SP_OK;
    r->high = 0;
    const int page = page_now(r);
    if (page != r->raw_page) SP_TRY(flush(r));
    r->raw_page = page;
    return sp_bytes_add(&r->raw, &c, 1);
}

static sp_err add_text(rtf *r, const char *s)
{
    if (current(r)->skipped) return SP_OK;
    r->high = 0;
    SP_TRY(flush(r));
    return sp_bytes_add(&r->out, s, strlen(s));
}

/* add_symbol -- a control word or symbol that is text, and may replace a character; a break shows that no more do. */
static sp_err add_symbol(rtf *r, const char *s, bool breaks)
{
    if (breaks) r->to_skip = 0;
    return r->to_skip ? (r->to_skip--, SP_OK) : add_text(r, s);
}

static sp_err add_character(rtf *r, int32_t c)
{
    utf8proc_uint8_t bytes[4];
    r->to_skip = current(r)->fallback;
    if (current(r)->skipped) return SP_OK;
    if (c < 0) c += 65536;
    if (c >= 0xD800 && c < 0xDC00) return r->high = c, SP_OK;
    if (c >= 0xDC00 && c < 0xE000)
        c = r->high ? 0x10000 + ((r->high - 0xD800) << 10) + (c - 0xDC00) : 0xFFFD;
    r->high = 0;
    if (c <= 0 || !utf8proc_codepoint_valid(c)) return SP_OK;
    SP_TRY(flush(r));
    return sp_bytes_add(&r->out, bytes, (size_t)utf8proc_encode_char(c, bytes));
}

/* -- control words ---------------------------------------------------------------------------- */

static const struct {
    const char *word, *text;
    bool breaks;
} texts[] = {
    {"par", "\n\n", true},
    {"sect", "\n\n", true},
    {"page", "\n\n", true},
    {"line", "\n", true},
    {"row", "\n", true},
    {"cell", " | ", true},
    {"tab", " "},
    {"emdash", "\xE2\x80\x94"},
    {"endash", "\xE2\x80\x93"},
    {"lquote", "\xE2\x80\x98"},
    {"rquote", "\xE2\x80\x99"},
    {"ldblquote", "\xE2\x80\x9C"},
    {"rdblquote", "\xE2\x80\x9D"},
    {"bullet", "\xE2\x80\xA2"},
    {"emspace", " "},
    {"enspace", " "},
};

static const char *const skipped[] = {"colortbl",  "stylesheet", "info",      "pict",      "object", "fldinst",
                                      "datafield", "xmlnstbl",   "themedata", "listtable", "filetbl"};

/* The code pages of the character sets of Windows; 0 (ANSI) and 1 (any) are the document's. */
static int page_of_charset(int32_t charset)
{
    static const int pages[][2] = {{77, 10000},  {128, 932},  {129, 949},  {130, 1361}, {134, 936},
                                   {136, 950},      {161, 1253}, {162, 1254}, {163, 1258}, {177, 1255},
                                   {178, 1256},     {186, 1257}, {204, 1251}, {222, 874},  {238, 1250}};
    for (size_t i = 0; i < SP_COUNT(pages); i++)
        if (pages[i][0] == charset) return pages[i][1];
    return 0;
}

/* take_font -- a control word in the table of fonts. */
static sp_err take_font(rtf *r, const char *word, int32_t number)
{
    if (!r->pages && !(r->pages = sp_alloc_zero(MAX_FONTS, sizeof *r->pages))) return sp_fail_nomem("fonts");
    if (strcmp(word, "f") == 0) r->font = number;
    if (r->font < 0 || r->font >= MAX_FONTS) return SP_OK;
    int *page = &r->pages[r->font];
    if (strcmp(word, "f") == 0) *page = 0;
    if (strcmp(word, "fcharset") == 0) *page = page_of_charset(number);
    if (strcmp(word, "cpg") == 0 && number > 0 && number < 100000) *page = (int)number;
    return SP_OK;
}

static sp_err apply(rtf *r, const char *word, int32_t number, bool has_number)
{
    if (current(r)->fonts) return take_font(r, word, number);
    if (strcmp(word, "f") == 0) return current(r)->font = number, SP_OK;
    if (strcmp(word, "plain") == 0) return current(r)->font = r->plain_font, SP_OK;
    if (strcmp(word, "deff") == 0) return current(r)->font = r->plain_font = number, SP_OK;
    if (strcmp(word, "fonttbl") == 0) return current(r)->skipped = current(r)->fonts = true, SP_OK;
    if (strcmp(word, "u") == 0) return add_character(r, number);
    if (strcmp(word, "uc") == 0) return current(r)->fallback = SP_MIN(SP_MAX(number, 0), 16), SP_OK;
    if (strcmp(word, "ansicpg") == 0 && number > 0 && number < 100000) {
        r->code_page = (int)number;
        return SP_OK;
    }
    if (strcmp(word, "bin") == 0 && has_number && number > 0)
        return r->at += SP_MIN((size_t)number, r->n - r->at), SP_OK;
    for (size_t i = 0; i < SP_COUNT(skipped); i++)
        if (strcmp(word, skipped[i]) == 0) return current(r)->skipped = true, SP_OK;
    for (size_t i = 0; i < SP_COUNT(texts); i++)
        if (strcmp(word, texts[i].word) == 0) return add_symbol(r, texts[i].text, texts[i].breaks);
    return SP_OK;
}

/* take_word -- after a backslash and before a letter. */
static sp_err take_word(rtf *r)
{
    char word[32];
    size_t n = 0;
    bool has_number, minus;
    int32_t number = 0;
    for (; r->at < r->n && ((r->s[r->at] | 32) >= 'a' && (r->s[r->at] | 32) <= 'z'); r->at++)
        if (n < sizeof word - 1) word[n++] = r->s[r->at];
    word[n] = '\0';
    minus = r->at + 1 < r->n && r->s[r->at] == '-';
    if (minus) r->at++;
    has_number = r->at < r->n && r->s[r->at] >= '0' && r->s[r->at] <= '9';
    for (; r->at < r->n && r->s[r->at] >= '0' && r->s[r->at] <= '9'; r->at++)
        if (number < 100000000) number = number * 10 + (r->s[r->at] - '0');
    if (r->at < r->n && r->s[r->at] == ' ') r->at++;
    return apply(r, word, minus ? -number : number, has_number);
}

static sp_err take_control(rtf *r)
{
    if (r->at == r->n) return SP_OK;
    char c = r->s[r->at];
    if ((c | 32) >= 'a' && (c | 32) <= 'z') return take_word(r);
    r->at++;
    if (c == '\'' && r->at + 1 < r->n) {
        int high = sp_digit16(r->s[r->at]), low = sp_digit16(r->s[r->at + 1]);
        r->at += 2;
        return high < 0 || low < 0 ? SP_OK : add_byte(r, (unsigned char)(high << 4 | low));
    }
    if (c == '*') return current(r)->skipped = true, SP_OK;
    if (c == '~') return add_symbol(r, " ", false);
    if (c == '\n' || c == '\r') return add_symbol(r, "\n\n", true);
    if (c == '-' || c == ':' || c == '|') return r->to_skip -= r->to_skip > 0, SP_OK;
    return add_byte(r, (unsigned char)(c == '_' ? '-' : c));
}

static void open_group(rtf *r)
{
    group around = *current(r);
    r->to_skip = 0;
    r->depth++;
    if (r->depth < MAX_GROUPS) *current(r) = around;
}

static sp_err read_all(rtf *r)
{
    while (r->at < r->n && r->depth >= 0) {
        char c = r->s[r->at++];
        if (c == '{')
            open_group(r);
        else if (c == '}')
            r->to_skip = 0, r->depth--;
        else if (c == '\\')
            SP_TRY(take_control(r));
        else if (c != '\n' && c != '\r')
            SP_TRY(add_byte(r, (unsigned char)c));
        if (r->out.n > SP_DOC_MAX_BYTES) return sp_fail(SP_E_LIMIT, "too much text");
        if (r->depth < 1) break; /* what follows is not part of the document */
    }
    r->depth = 0;
    return flush(r);
}

sp_err sp_rtf_read(sp_reading *r, const char *data, size_t n)
{
    if (n < 6 || memcmp(data, "{\\rtf", 5) != 0) return sp_fail(SP_E_UNSUPPORTED, "not RTF");
    rtf *t = SP_NEW(rtf);
    if (!t) return sp_fail_nomem("an RTF reader");
    *t = (rtf){.s = data, .n = n, .groups[0].fallback = 1, .code_page = 1252};
    sp_err err = read_all(t);
    if (err == SP_OK && t->out.n && !sp_utf8_valid(t->out.v, t->out.n))
        err = sp_fail(SP_E_UNSUPPORTED, "damaged RTF");
    if (err == SP_OK) {
        sp_document d = {.text = t->out.n ? t->out.v : "", .n = t->out.n};
        err = sp_document_emit(r, &d, NULL);
    }
    sp_free(t->pages);
    sp_vec_fini(&t->raw);
    sp_vec_fini(&t->page);
    sp_vec_fini(&t->out);
    sp_free(t);
    return err;
}
