/* page_encoding.c -- HTML pages as UTF-8, before libxml2 reads them: what it opens to convert them itself would stay
 * open if memory ends (libxml.c).
 *
 *     UTF-8                          ──> unchanged, whatever the page says
 *     nearly UTF-8, and it says so   ──> U+FFFD for bad bytes
 *     <meta charset=...>, <?xml encoding=...?>  near its beginning
 *                                    ──> converted; U+FFFD for bad bytes, if they are few
 *     otherwise                      ──> as a text file (encoding.c)
 */
#include "retrieve/documents/readers_int.h"

#include <string.h>
#include <strings.h>

#include "retrieve/text/text.h"

#define PRESCAN 4096 /* bytes in which the encoding is declared; HTML wants it in the first 1024 */

/* What the labels of pages mean to browsers: supersets of the encodings that they name.
 * Source: WHATWG, Encoding Standard, section 4.2 */
static const char *const supersets[][2] = {
    {"iso-8859-1", "WINDOWS-1252"}, {"iso8859-1", "WINDOWS-1252"},    {"latin1", "WINDOWS-1252"},
    {"ascii", "WINDOWS-1252"},      {"us-ascii", "WINDOWS-1252"},     {"iso-8859-9", "WINDOWS-1254"},
    {"iso-8859-11", "CP874"},       {"tis-620", "CP874"},             {"gb2312", "GB18030"},
    {"gbk", "GB18030"},             {"gb_2312-80", "GB18030"},        {"x-gbk", "GB18030"},
    {"shift_jis", "CP932"},         {"shift-jis", "CP932"},           {"x-sjis", "CP932"},
    {"sjis", "CP932"},              {"euc-kr", "CP949"},              {"ks_c_5601-1987", "CP949"},
    {"big5", "BIG5-HKSCS"},         {"x-mac-roman", "MACINTOSH"},     {"macintosh", "MACINTOSH"},
};

static const char *find(const char *s, const char *end, const char *word)
{
    const size_t n = strlen(word);
    for (; (size_t)(end - s) >= n; s++)
        if (strncasecmp(s, word, n) == 0) return s;
    return NULL;
}

/* value_after -- what is given to `name` in s[, end): NAME = "value". label [64]; false: nothing. */
static bool value_after(const char *s, const char *end, const char *name, char *label)
{
    size_t n = 0;
    s = find(s, end, name);
    if (!s) return false;
    s += strlen(name);
    while (s < end && sp_is_blank(*s)) s++;
    if (s == end || *s++ != '=') return false;
    while (s < end && (sp_is_blank(*s) || *s == '"' || *s == '\'')) s++;
    while (s < end && n < 63 && !sp_is_blank(*s) && !strchr("\"';>/?", *s)) label[n++] = *s++;
    label[n] = '\0';
    return n > 0;
}

/* declared -- the label of the page's encoding. Comments do not count. */
static bool declared(const char *s, size_t n, char *label)
{
    const char *end = s + SP_MIN(n, (size_t)PRESCAN);
    if (n > 5 && memcmp(s, "<?xml", 5) == 0) {
        const char *to = memchr(s, '>', (size_t)(end - s));
        if (to && value_after(s, to, "encoding", label)) return true;
    }
    while ((s = memchr(s, '<', (size_t)(end - s)))) {
        const bool comment = end - s >= 4 && memcmp(s, "<!--", 4) == 0;
        const bool meta = end - s >= 5 && strncasecmp(s, "<meta", 5) == 0;
        const char *to = comment ? find(s, end, "-->") : memchr(s, '>', (size_t)(end - s));
        if (!to) return false;
        if (meta && value_after(s, to, "charset", label)) return true;
        s = to;
    }
    return false;
}

sp_err sp_page_decode(const char *html, size_t n, sp_bytes *own, const char **text, size_t *n_text)
{
    char label[64];
    bool done = false;
    *text = html;
    *n_text = n;
    if (sp_utf8_valid(html, n)) return SP_OK;
    const bool says = declared(html, n, label), utf8 = says && strncasecmp(label, "utf-8", 5) == 0;
    if (utf8 && !memchr(html, '\0', n)) SP_TRY(sp_text_repair(html, n, 1, own, &done));
    if (says && strncasecmp(label, "utf", 3) != 0) {
        const char *encoding = label;
        for (size_t i = 0; i < SP_COUNT(supersets); i++)
            if (strcasecmp(label, supersets[i][0]) == 0) encoding = supersets[i][1];
        SP_TRY(sp_text_convert(encoding, html, n, n / 20 + 1, own, &done));
    }
    if (!done) return sp_text_decode(html, n, own, text, n_text);
    *text = own->n ? own->v : "";
    *n_text = own->n;
    return SP_OK;
}
