/* mail.c -- a message (RFC 5322) with MIME parts: its subject, who wrote it to whom and when, and its text.
 *
 *     multipart/alternative   the first part that is plain text, else the first that is HTML
 *     multipart/ other        all parts
 *     text/plain, text/html   decoded (base64, quoted-printable), converted from its charset
 *     attachments             by name only
 */
#include "retrieve/documents/readers_int.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/digits.h"
#include "retrieve/text/text.h"

#define MAX_DEPTH 8
#define MAX_PARTS 256
#define MAX_PIECES 64 /* of one parameter */

typedef struct part {
    const char *head, *body;
    size_t n_head, n_body;
} part;

typedef struct mail {
    sp_bytes out, value, parameter, decoded, own;
    int n_parts;
} mail;

/* -- header ----------------------------------------------------------------------------------- */

/* split -- the header ends at an empty line. */
static part split(const char *s, size_t n)
{
    for (size_t at = 0; at < n;) {
        const char *end = memchr(s + at, '\n', n - at);
        size_t to = end ? (size_t)(end - s) : n, next = end ? to + 1 : n;
        bool empty = to == at || (to == at + 1 && s[at] == '\r');
        if (empty) return (part){s, s + next, at, n - next};
        at = next;
    }
    return (part){s, s + n, n, 0};
}

/* field -- the value of a header field in m->value, unfolded and NUL-terminated; "" when there is none. */
static sp_err field(mail *m, const part *p, const char *name)
{
    size_t length = strlen(name);
    bool inside = false;
    m->value.n = 0;
    for (size_t at = 0; at < p->n_head;) {
        const char *end = memchr(p->head + at, '\n', p->n_head - at);
        size_t to = end ? (size_t)(end - p->head) : p->n_head;
        bool more = p->head[at] == ' ' || p->head[at] == '\t';
        if (!more && inside) break;
        bool found = !more && to - at > length && p->head[at + length] == ':' &&
                     strncasecmp(p->head + at, name, length) == 0;
        size_t from = found ? at + length + 1 : at;
        if (found || (inside && more)) {
            from = sp_skip_blanks(p->head, from, to);
            if (m->value.n) SP_TRY(sp_bytes_add(&m->value, " ", 1));
            SP_TRY(sp_bytes_add(&m->value, p->head + from, sp_trim_end(p->head, from, to) - from));
            inside = true;
        }
        at = end ? to + 1 : p->n_head;
    }
    for (size_t i = 0; i < m->value.n; i++)
        if (!m->value.v[i]) m->value.v[i] = ' ';
    return sp_bytes_add(&m->value, "", 1);
}

/* is_escaped -- in a quoted string. Other backslashes belong to a path of Windows, which programs do not escape. */
static bool is_escaped(const char *s)
{
    return *s == '\\' && (s[1] == '"' || s[1] == '\\');
}

static const char *skip_spaces(const char *s)
{
    while (sp_is_blank(*s)) s++;
    return s;
}

/* next_parameter -- after the next semicolon that is not quoted; NULL: there is none. */
static const char *next_parameter(const char *s)
{
    for (bool quoted = false; *s; s++) {
        if (quoted && is_escaped(s))
            s++;
        else if (*s == '"')
            quoted = !quoted;
        else if (*s == ';' && !quoted)
            return skip_spaces(s + 1);
    }
    return NULL;
}

/* parameter -- of m->value, as boundary="..."; in m->parameter, NUL-terminated, "" when there is none. */
static sp_err parameter(mail *m, const char *name)
{
    const size_t length = strlen(name);
    m->parameter.n = 0;
    for (const char *at = m->value.v; (at = next_parameter(at));) {
        const char *s = skip_spaces(strncasecmp(at, name, length) == 0 ? at + length : "");
        if (*s != '=') continue;
        s = skip_spaces(s + 1);
        const bool quoted = *s == '"';
        for (s += quoted; *s && (quoted ? *s != '"' : *s != ';' && !sp_is_blank(*s)); s++) {
            s += quoted && is_escaped(s);
            SP_TRY(sp_bytes_add(&m->parameter, s, 1));
        }
        break;
    }
    return sp_bytes_add(&m->parameter, "", 1);
}

/* -- encodings -------------------------------------------------------------------------------- */

static int digit64(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static sp_err decode_base64(const char *s, size_t n, sp_bytes *out)
{
    uint32_t bits = 0;
    int n_bits = 0;
    for (size_t i = 0; i < n && s[i] != '='; i++) {
        int d = digit64(s[i]);
        if (d < 0) continue;
        bits = bits << 6 | (uint32_t)d;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        unsigned char c = (unsigned char)(bits >> n_bits);
        SP_TRY(sp_bytes_add(out, &c, 1));
    }
    return SP_OK;
}

/* decode_quoted -- word: in a header, where "_" is a blank. */
static sp_err decode_quoted(const char *s, size_t n, bool word, sp_bytes *out)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '_' && word) c = ' ';
        if (c == '=' && i + 1 < n && (s[i + 1] == '\n' || s[i + 1] == '\r')) {
            i += 1 + (s[i + 1] == '\r' && i + 2 < n && s[i + 2] == '\n');
            continue;
        }
        if (c == '=' && i + 2 < n && sp_digit16(s[i + 1]) >= 0 && sp_digit16(s[i + 2]) >= 0) {
            c = (unsigned char)(sp_digit16(s[i + 1]) << 4 | sp_digit16(s[i + 2]));
            i += 2;
        }
        SP_TRY(sp_bytes_add(out, &c, 1));
    }
    return SP_OK;
}

/* add_converted -- text of a charset, without what cannot be in a document. */
static sp_err add_converted(mail *m, const char *charset, const char *s, size_t n)
{
    bool done = false;
    const char *text = s;
    if (n == 0) return SP_OK;
    m->own.n = 0;
    if (*charset && strcasecmp(charset, "utf-8") != 0 && n)
        SP_TRY(sp_text_convert(charset, s, n, 0, &m->own, &done));
    if (done) {
        text = m->own.v;
        n = m->own.n;
    } else {
        sp_err err = sp_text_decode(s, n, &m->own, &text, &n);
        if (err == SP_E_UNSUPPORTED) return SP_OK;
        SP_TRY(err);
    }
    for (size_t at = 0, to; at < n; at = to + 1) {
        const char *nul = memchr(text + at, '\0', n - at);
        to = nul ? (size_t)(nul - text) : n;
        SP_TRY(sp_bytes_add(&m->out, text + at, to - at));
    }
    return m->out.n > SP_DOC_MAX_BYTES ? sp_fail(SP_E_LIMIT, "too much text") : SP_OK;
}

/* add_word -- "=?charset?B?...?=" at s; *length: what it takes, 0: it is none. *last: the "?=" that the word before
 * found, at first the start of the value; NULL: none follows. So beginnings without an end cost one search. */
static sp_err add_word(mail *m, const char *s, const char **last, size_t *length)
{
    char charset[40];
    const char *way = strchr(s + 2, '?');
    const bool begins = way && way[1] && way[2] == '?';
    if (begins && *last && *last < way + 3) *last = strstr(way + 3, "?=");
    const char *end = begins ? *last : NULL;
    *length = 0;
    if (!end || (size_t)(way - s - 2) >= sizeof charset) return SP_OK;
    memcpy(charset, s + 2, (size_t)(way - s - 2));
    charset[way - s - 2] = '\0';
    charset[strcspn(charset, "*")] = '\0'; /* a language */
    m->decoded.n = 0;
    *length = (size_t)(end + 2 - s);
    SP_TRY((way[1] | 32) == 'b'
               ? decode_base64(way + 3, (size_t)(end - way - 3), &m->decoded)
               : decode_quoted(way + 3, (size_t)(end - way - 3), true, &m->decoded));
    return m->decoded.n ? add_converted(m, charset, m->decoded.v, m->decoded.n) : SP_OK;
}

/* add_value -- m->value with its encoded words. Blanks between two of them are none. */
static sp_err add_value(mail *m)
{
    bool word = false;
    const char *last = m->value.v;
    for (size_t at = 0, n = m->value.n - 1, length; at < n; at += length) {
        length = 0;
        if (memcmp(m->value.v + at, "=?", 2) == 0) SP_TRY(add_word(m, m->value.v + at, &last, &length));
        if (length) {
            word = true;
            continue;
        }
        size_t blanks = sp_skip_blanks(m->value.v, at, n) - at;
        bool between =
            word && blanks && at + blanks + 1 < n && memcmp(m->value.v + at + blanks, "=?", 2) == 0;
        word = false;
        length = blanks ? blanks : 1;
        while (!blanks && at + length < n &&
               ((unsigned char)m->value.v[at + length] & 0xC0) == 0x80)
            length++;
        if (!between) SP_TRY(add_converted(m, "", m->value.v + at, length));
    }
    return SP_OK;
}

/* -- parts ------------------------------------------------------------------------------------ */

static sp_err decode_body(mail *m, const part *p, const char **s, size_t *n)
{
    *s = p->body;
    *n = p->n_body;
    SP_TRY(field(m, p, "Content-Transfer-Encoding"));
    m->decoded.n = 0;
    SP_TRY(sp_vec_reserve(&m->decoded, 1));
    if (strncasecmp(m->value.v, "base64", 6) == 0)
        SP_TRY(decode_base64(*s, *n, &m->decoded));
    else if (strncasecmp(m->value.v, "quoted-printable", 16) == 0)
        SP_TRY(decode_quoted(*s, *n, false, &m->decoded));
    else
        return SP_OK;
    *s = m->decoded.v;
    *n = m->decoded.n;
    return SP_OK;
}

/* add_html -- the charset of the mail counts more than what the page declares. */
static sp_err add_html(mail *m, const char *charset, const char *s, size_t n)
{
    sp_bytes text = {0}, title = {0}, page = {0};
    bool done = false;
    sp_err err = SP_OK;
    if (*charset && strcasecmp(charset, "utf-8") != 0)
        err = sp_text_convert(charset, s, n, 0, &page, &done);
    if (err == SP_OK) err = sp_html_to_markdown(done ? page.v : s, done ? page.n : n, &text, &title, NULL);
    if (err == SP_OK && text.n) err = add_converted(m, "utf-8", text.v, text.n);
    sp_vec_fini(&page);
    sp_vec_fini(&text);
    sp_vec_fini(&title);
    return err == SP_E_UNSUPPORTED ? SP_OK : err;
}

/* extended -- a parameter of m->value as RFC 2231 has it: name*=charset''percents, or pieces name*0, name*1* ... Its
 * bytes go to m->decoded; none when there is none. */
static sp_err extended(mail *m, const char *name, char charset[40])
{
    char key[32];
    m->decoded.n = 0;
    *charset = '\0';
    for (int k = -1; k < MAX_PIECES; k++) { /* -1: whole */
        snprintf(key, sizeof key, k < 0 ? "%s*" : "%s*%d*", name, k);
        SP_TRY(parameter(m, key));
        const bool coded = *m->parameter.v;
        key[strlen(key) - 1] = '\0';
        if (!coded && k >= 0) SP_TRY(parameter(m, key));
        const char *text = m->parameter.v;
        if (!*text && k >= 0) break;
        const char *at = text, *quote = coded && k <= 0 ? strchr(text, '\'') : NULL,
                   *second = quote ? strchr(quote + 1, '\'') : NULL;
        if (second) snprintf(charset, 40, "%.*s", (int)SP_MIN(quote - text, 39), text);
        if (second) at = second + 1;
        for (; *at; at++) {
            const bool code = coded && *at == '%' && sp_digit16(at[1]) >= 0 && sp_digit16(at[2]) >= 0;
            const char c = code ? (char)(sp_digit16(at[1]) << 4 | sp_digit16(at[2])) : *at;
            SP_TRY(sp_bytes_add(&m->decoded, &c, 1));
            if (code) at += 2;
        }
        if (k < 0 && coded) break;
    }
    return SP_OK;
}

/* add_name -- of an attachment: in its disposition, or in its type, where old programs write it. */
static sp_err add_name(mail *m, const part *p)
{
    static const char *const places[][2] = {{"Content-Disposition", "filename"}, {"Content-Type", "name"}};
    char charset[40];
    for (size_t i = 0; i < SP_COUNT(places); i++) {
        SP_TRY(field(m, p, places[i][0]));
        SP_TRY(extended(m, places[i][1], charset));
        if (m->decoded.n) return add_converted(m, charset, m->decoded.v, m->decoded.n);
        SP_TRY(parameter(m, places[i][1]));
        if (*m->parameter.v) break;
    }
    m->value.n = 0;
    SP_TRY(sp_bytes_add(&m->value, m->parameter.v, m->parameter.n));
    return add_value(m); /* its encoded words, which many programs write there */
}

/* one_line -- what a header gave m->out from `from` on. With a coded line break it could fake other headers. */
static void one_line(mail *m, size_t from)
{
    for (size_t i = from; i < m->out.n; i++)
        if (sp_is_blank(m->out.v[i])) m->out.v[i] = ' ';
}

static sp_err add_leaf(mail *m, const part *p, const char *charset, bool html)
{
    const char *s;
    size_t n;
    SP_TRY(field(m, p, "Content-Disposition"));
    if (strncasecmp(m->value.v, "attachment", 10) == 0) {
        SP_TRY(sp_bytes_add(&m->out, "Attachment: ", 12));
        const size_t from = m->out.n;
        SP_TRY(add_name(m, p));
        one_line(m, from);
        return sp_bytes_add(&m->out, "\n", 1);
    }
    SP_TRY(decode_body(m, p, &s, &n));
    SP_TRY(html ? add_html(m, charset, s, n) : add_converted(m, charset, s, n));
    return sp_bytes_add(&m->out, "\n", 1);
}

static sp_err add_part(mail *m, const part *p, int depth, int *added);

/* delimiter -- the next line from `at` that is the mark alone, or the mark and "--", after the last part; NULL: there
 * is none. Another boundary may begin with this one, and a text may quote it. */
static const char *delimiter(const part *p, size_t at, const char *mark, size_t n_mark)
{
    const char *s = p->body;
    for (size_t to; at < p->n_body; at = to + 1) {
        const char *newline = memchr(s + at, '\n', p->n_body - at);
        to = newline ? (size_t)(newline - s) : p->n_body;
        if (to - at < n_mark || memcmp(s + at, mark, n_mark) != 0) continue;
        const char *rest = s + at + n_mark;
        const size_t n = to - at - n_mark, dashes = n >= 2 && memcmp(rest, "--", 2) == 0 ? 2 : 0;
        if (sp_skip_blanks(rest, dashes, n) == n) return s + at;
    }
    return NULL;
}

/* next_part -- the part after the delimiter at *at, which is moved to the next; false after the last. */
static bool next_part(const part *p, const char *mark, size_t n_mark, size_t *at, part *out)
{
    const char *begin = delimiter(p, *at, mark, n_mark), *all = p->body + p->n_body;
    const char *line = begin ? memchr(begin, '\n', (size_t)(all - begin)) : NULL;
    if (!line || ((size_t)(line - begin) >= n_mark + 2 && memcmp(begin + n_mark, "--", 2) == 0)) return false;
    const char *end = delimiter(p, (size_t)(line - p->body), mark, n_mark);
    if (!end) end = all;
    *at = (size_t)(end - p->body);
    *out = split(line + 1, (size_t)(end - line - 1));
    return true;
}

/* mark_of -- what the delimiters of m->value's parts begin with; of any length. */
static sp_err mark_of(mail *m, sp_bytes *mark)
{
    char charset[40];
    SP_TRY(sp_bytes_add(mark, "--", 2));
    SP_TRY(extended(m, "boundary", charset));
    if (m->decoded.n) return sp_bytes_add(mark, m->decoded.v, m->decoded.n);
    SP_TRY(parameter(m, "boundary"));
    return sp_bytes_add(mark, m->parameter.v, strlen(m->parameter.v));
}

static sp_err add_parts(mail *m, const part *p, const sp_bytes *mark, bool alternative, int depth)
{
    int added = 0;
    part one;
    /* alternatives: plain text first, then any other */
    for (int pass = alternative ? 0 : 1; pass < 2 && !added; pass++) {
        for (size_t at = 0; next_part(p, mark->v, mark->n, &at, &one);) {
            if (m->n_parts++ > MAX_PARTS) return SP_OK;
            SP_TRY(field(m, &one, "Content-Type"));
            bool plain = m->value.n == 1 || strncasecmp(m->value.v, "text/plain", 10) == 0;
            if (pass == 0 && !plain) continue;
            SP_TRY(add_part(m, &one, depth + 1, &added));
            if (alternative && added) return SP_OK;
        }
    }
    return SP_OK;
}

/* add_multipart -- m->value: its type. */
static sp_err add_multipart(mail *m, const part *p, int depth)
{
    const bool alternative = strncasecmp(m->value.v, "multipart/alternative", 21) == 0;
    sp_bytes mark = {0};
    sp_err err = mark_of(m, &mark);
    if (err == SP_OK && mark.n > 2) err = add_parts(m, p, &mark, alternative, depth);
    sp_vec_fini(&mark);
    return err;
}

static sp_err add_part(mail *m, const part *p, int depth, int *added)
{
    char charset[40];
    if (depth > MAX_DEPTH) return SP_OK;
    SP_TRY(field(m, p, "Content-Type"));
    SP_TRY(parameter(m, "charset"));
    snprintf(charset, sizeof charset, "%s", m->parameter.v);
    bool html = strncasecmp(m->value.v, "text/html", 9) == 0;
    bool plain = m->value.n == 1 || strncasecmp(m->value.v, "text/", 5) == 0;
    bool message = strncasecmp(m->value.v, "message/rfc822", 14) == 0;
    size_t before = m->out.n;
    if (strncasecmp(m->value.v, "multipart/", 10) == 0) {
        SP_TRY(add_multipart(m, p, depth));
    } else if (message) {
        part inner = split(p->body, p->n_body);
        SP_TRY(add_part(m, &inner, depth + 1, added));
    } else {
        SP_TRY(field(m, p, "Content-Disposition"));
        bool attached = strncasecmp(m->value.v, "attachment", 10) == 0;
        if (plain || html || attached) SP_TRY(add_leaf(m, p, charset, html));
    }
    *added += m->out.n > before;
    return SP_OK;
}

static sp_err read_mail(mail *m, const part *p, sp_bytes *title)
{
    static const char *const names[] = {"Subject", "From", "To", "Date"};
    int added = 0;
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        SP_TRY(field(m, p, names[i]));
        if (m->value.n == 1) continue;
        SP_TRY(sp_bytes_addf(&m->out, "%s: ", names[i]));
        size_t from = m->out.n;
        SP_TRY(add_value(m));
        one_line(m, from);
        if (i == 0) SP_TRY(sp_bytes_add(title, m->out.v + from, m->out.n - from));
        SP_TRY(sp_bytes_add(&m->out, "\n", 1));
    }
    if (!m->out.n)
        return sp_fail(SP_E_UNSUPPORTED, "not a mail message: it has no subject, sender or date");
    SP_TRY(sp_bytes_add(&m->out, "\n", 1));
    return add_part(m, p, 0, &added);
}

sp_err sp_mail_read(sp_reading *r, const char *data, size_t n)
{
    mail m = {0};
    sp_bytes title = {0};
    part p = split(data, n);
    sp_err err = read_mail(&m, &p, &title);
    if (err == SP_OK &&
        !(sp_utf8_valid(m.out.v, m.out.n) && (!title.n || sp_utf8_valid(title.v, title.n))))
        err = sp_fail(SP_E_UNSUPPORTED, "a damaged message");
    if (err == SP_OK) {
        sp_document d = {.text = m.out.v, .n = m.out.n};
        err = sp_document_emit(r, &d, &title);
    }
    sp_vec_fini(&m.out);
    sp_vec_fini(&m.value);
    sp_vec_fini(&m.parameter);
    sp_vec_fini(&m.decoded);
    sp_vec_fini(&m.own);
    sp_vec_fini(&title);
    return err;
}
