/* lex.c -- cuts a chat template into data and the tokens of its tags.
 *
 * White space around tags follows Jinja2 with trim_blocks and lstrip_blocks: a tag "{%" takes the
 * blanks before it on its line and the newline after it, "-" takes all white space, "+" keeps it.
 */
#include <string.h>

#include "model/template/template_int.h"
#include "base/digits.h"
#include "base/utf8.h"

#define MAX_TEMPLATE_BYTES ((size_t)1 << 20)

typedef struct lexer {
    sp_template *t;
    const char *s;
    size_t n, at;
    int line;
    bool line_starts; /* the last tag ended with a newline */
    char tag;         /* '%', '{' */
} lexer;

static sp_err bad(const lexer *l, const char *what)
{
    return sp_fail(SP_E_FORMAT, "chat template: line %d: %s", l->line, what);
}

static sp_err push(lexer *l, sp_tpl_token_kind kind, const char *s, size_t n)
{
    SP_TRY(sp_vec_reserve(&l->t->tokens, 1));
    l->t->tokens.v[l->t->tokens.n++] =
        (sp_tpl_token){.kind = kind, .line = l->line, .s = s, .n = n};
    return SP_OK;
}

static void advance(lexer *l, size_t to)
{
    for (; l->at < to; l->at++) l->line += l->s[l->at] == '\n';
}

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* next_tag -- the offset of the next "{{", "{%" or "{#"; n: none. */
static size_t next_tag(const lexer *l)
{
    for (size_t i = l->at; i + 1 < l->n; i++)
        if (l->s[i] == '{' && strchr("{%#", l->s[i + 1]) && l->s[i + 1]) return i;
    return l->n;
}

/* data_end -- where the data before the tag at `tag` ends. */
static size_t data_end(const lexer *l, size_t tag)
{
    char sign = tag + 2 < l->n ? l->s[tag + 2] : 0;
    size_t end = tag;
    if (sign == '-') {
        while (end > l->at && blank(l->s[end - 1])) end--;
        return end;
    }
    if (sign == '+' || l->s[tag + 1] == '{') return tag;
    while (end > l->at && blank(l->s[end - 1]) && l->s[end - 1] != '\n') end--;
    bool whole = end == l->at ? l->line_starts : l->s[end - 1] == '\n';
    return whole ? end : tag;
}

/* after_tag -- moves past the white space that the end of a tag takes. */
static void after_tag(lexer *l, bool dash, bool plus, bool trims)
{
    size_t to = l->at;
    if (dash)
        while (to < l->n && blank(l->s[to])) to++;
    else if (trims && !plus && to < l->n && l->s[to] == '\n')
        to++;
    l->line_starts = to > l->at && l->s[to - 1] == '\n';
    advance(l, to);
}

static sp_err comment(lexer *l)
{
    const char *end = sp_tpl_search(l->s + l->at, l->n - l->at, "#}", 2);
    if (!end) return bad(l, "a comment does not end");
    bool dash = end[-1] == '-', plus = end[-1] == '+';
    advance(l, (size_t)(end - l->s) + 2);
    after_tag(l, dash, plus, true);
    return SP_OK;
}

/* -- inside a tag ---------------------------------------------------------------------------- */

static int hex(const char *s, size_t n)
{
    int v = 0;
    for (size_t i = 0; i < n; i++) {
        const int d = sp_digit16(s[i]);
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

static size_t put_utf8(char *to, int c)
{
    if (c < 0x80) return *to = (char)c, 1;
    if (c < 0x800) {
        to[0] = (char)(0xC0 | c >> 6), to[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    to[0] = (char)(0xE0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)),
    to[2] = (char)(0x80 | (c & 63));
    return 3;
}

/* unescape -- the escape after a backslash at s; returns how many bytes it has, 0 if it is bad. */
static size_t unescape(const char *s, size_t n, char *to, size_t *n_to)
{
    static const char names[] = "ntr\\'\"0abfv", values[] = "\n\t\r\\'\"\0\a\b\f\v";
    const char *named = *s ? strchr(names, *s) : NULL;
    *n_to = 1;
    if (named) return *to = values[named - names], 1;
    if (*s == 'x' || *s == 'u') {
        size_t digits = *s == 'x' ? 2 : 4;
        int c = n > digits ? hex(s + 1, digits) : -1;
        if (c < 0 || (c >= 0xD800 && c < 0xE000)) return 0;
        *n_to = put_utf8(to, c);
        return digits + 1;
    }
    to[0] = '\\', to[1] = *s;
    *n_to = 2;
    return 1;
}

static sp_err string(lexer *l)
{
    char quote = l->s[l->at];
    size_t i = l->at + 1, n = 0;
    while (i < l->n && l->s[i] != quote) i += l->s[i] == '\\' ? 2 : 1;
    if (i >= l->n) return bad(l, "a string does not end");
    char *text = sp_arena_take(&l->t->arena, 2 * (i - l->at) + 4, 1);
    if (!text) return sp_fail_nomem("a string of the chat template");
    for (size_t k = l->at + 1; k < i;) {
        size_t took = 1, made = 1;
        text[n] = l->s[k];
        if (l->s[k] == '\\') {
            took = unescape(l->s + k + 1, i - k - 1, text + n, &made);
            if (!took) return bad(l, "a string holds a bad escape");
            took++;
        }
        k += took;
        n += made;
    }
    SP_TRY(push(l, SP_TOKEN_TEXT, text, n));
    advance(l, i + 1);
    return SP_OK;
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool letter(char c)
{
    return c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static sp_err number(lexer *l)
{
    size_t i = l->at;
    bool real = false;
    while (i < l->n && digit(l->s[i])) i++;
    if (i + 1 < l->n && l->s[i] == '.' && digit(l->s[i + 1])) {
        real = true;
        for (i++; i < l->n && digit(l->s[i]);) i++;
    }
    size_t exponent = i + 1 < l->n && (l->s[i] | 32) == 'e' ? i + 1 : 0;
    if (exponent && (l->s[exponent] == '+' || l->s[exponent] == '-')) exponent++;
    if (exponent && exponent < l->n && digit(l->s[exponent])) {
        real = true;
        for (i = exponent; i < l->n && digit(l->s[i]);) i++;
    }
    if (i < l->n && letter(l->s[i])) return bad(l, "a number is followed by a letter");
    SP_TRY(push(l, real ? SP_TOKEN_FLOAT : SP_TOKEN_INT, l->s + l->at, i - l->at));
    l->at = i;
    return SP_OK;
}

static sp_err operator(lexer *l)
{
    static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
    const char *s = l->s + l->at;
    size_t n = 0;
    for (size_t i = 0; i < SP_COUNT(two) && l->at + 1 < l->n; i++)
        if (memcmp(s, two[i], 2) == 0) n = 2;
    if (!n && *s && strchr("+-/*%~[](){}><=.:|,", *s)) n = 1;
    if (!n)
        return sp_fail(SP_E_FORMAT, "chat template: line %d: a tag holds the byte 0x%02x", l->line,
                       *s & 255);
    SP_TRY(push(l, SP_TOKEN_OP, s, n));
    l->at += n;
    return SP_OK;
}

/* tag_ends -- whether the tag ends here, with or without a sign. */
static bool tag_ends(const lexer *l, bool *signed_, char *sign)
{
    char first = l->tag == '%' ? '%' : '}', c = l->s[l->at];
    size_t at = l->at;
    *sign = c;
    *signed_ = c == '-' || (c == '+' && l->tag == '%');
    if (*signed_) at++;
    return at + 1 < l->n && l->s[at] == first && l->s[at + 1] == '}';
}

static sp_err inside(lexer *l)
{
    int open = 0; /* brackets; "}}" closes two of them before it ends a tag */
    for (;;) {
        while (l->at < l->n && blank(l->s[l->at])) advance(l, l->at + 1);
        if (l->at >= l->n) return bad(l, "a tag does not end");
        char c = l->s[l->at], sign;
        bool with_sign;
        if (open == 0 && tag_ends(l, &with_sign, &sign)) {
            SP_TRY(
                push(l, l->tag == '%' ? SP_TOKEN_BLOCK_END : SP_TOKEN_PRINT_END, l->s + l->at, 2));
            l->at += 2 + with_sign;
            after_tag(l, with_sign && sign == '-', with_sign && sign == '+', l->tag == '%');
            return SP_OK;
        }
        if (c == '\'' || c == '"') {
            SP_TRY(string(l));
        } else if (digit(c)) {
            SP_TRY(number(l));
        } else if (letter(c)) {
            size_t i = l->at;
            while (i < l->n && (letter(l->s[i]) || digit(l->s[i]))) i++;
            SP_TRY(push(l, SP_TOKEN_NAME, l->s + l->at, i - l->at));
            l->at = i;
        } else {
            if (strchr("([{", c)) open++;
            if (strchr(")]}", c) && --open < 0)
                return bad(l, "a bracket closes that was not opened");
            SP_TRY(operator(l));
        }
    }
}

static sp_err lex(lexer *l)
{
    while (l->at < l->n) {
        size_t tag = next_tag(l);
        size_t end = tag < l->n ? data_end(l, tag) : tag;
        if (end > l->at) SP_TRY(push(l, SP_TOKEN_DATA, l->s + l->at, end - l->at));
        advance(l, tag);
        if (tag == l->n) break;
        l->tag = l->s[tag + 1];
        l->at += 2;
        if (l->tag == '#') {
            SP_TRY(comment(l));
            continue;
        }
        SP_TRY(push(l, l->tag == '%' ? SP_TOKEN_BLOCK : SP_TOKEN_PRINT, l->s + tag, 2));
        if (l->at < l->n && (l->s[l->at] == '-' || (l->s[l->at] == '+' && l->tag == '%'))) l->at++;
        SP_TRY(inside(l));
    }
    return push(l, SP_TOKEN_EOF, "", 0);
}

/* normalise -- a copy with "\n" for every line end, without the last one. */
static sp_err normalise(sp_template *t, const char *text, size_t n, lexer *l)
{
    char *copy = sp_arena_take(&t->arena, n + 1, 1);
    if (!copy) return sp_fail_nomem("the chat template");
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        bool cr = text[i] == '\r';
        copy[k++] = cr ? '\n' : text[i];
        if (cr && i + 1 < n && text[i + 1] == '\n') i++;
    }
    if (k && copy[k - 1] == '\n') k--;
    copy[k] = 0;
    *l = (lexer){.t = t, .s = copy, .n = k, .line = 1, .line_starts = true};
    return SP_OK;
}

sp_err sp_tpl_lex(sp_template *t, const char *text, size_t n)
{
    lexer l = {0};
    if (n > MAX_TEMPLATE_BYTES)
        return sp_fail(SP_E_LIMIT, "chat template: %zu bytes are more than %zu", n,
                       MAX_TEMPLATE_BYTES);
    for (size_t i = 0; i < n;) {
        int k = sp_utf8_step((const uint8_t *)text + i, n - i);
        if (k <= 0) return sp_fail(SP_E_FORMAT, "chat template: byte %zu is not UTF-8", i);
        i += (size_t)k;
    }
    SP_TRY(normalise(t, text, n, &l));
    return lex(&l);
}
