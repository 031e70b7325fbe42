/* blocks.c -- blocks of the syntaxes that are simpler than Markdown: reStructuredText and code. */
#include "retrieve/text/text.h"

#include <string.h>

static bool is_punctuation(char c)
{
    return c > ' ' && c < 0x7f && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", c);
}

/* -- reStructuredText ------------------------------------------------------------------------ */

/* adornment -- the length of a line that repeats one punctuation mark, 0 for others. */
static size_t adornment(const char *s, const sp_line *l)
{
    size_t n = l->to - l->from;
    if (n < 2 || l->indent || !is_punctuation(s[l->from])) return 0;
    for (size_t i = l->from; i < l->to; i++)
        if (s[i] != s[l->from]) return 0;
    return n;
}

/* columns -- characters of a line; a wide character may count as one, so an underline that is only
 * half as long as its title still passes. */
static size_t columns(const char *s, const sp_line *l)
{
    size_t n = 0;
    for (size_t i = l->from; i < l->to; i++) n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

/* rst_heading -- a title above an adornment, with or without another one above it. */
static bool rst_heading(const char *s, size_t n, const sp_line *l, sp_block *out)
{
    sp_line title = *l;
    size_t over = adornment(s, l);
    if (over) {
        if (l->next >= n) return false;
        title = sp_line_at(s, n, l->next);
    }
    if (title.from == title.to || title.next >= n || adornment(s, &title) ||
        (title.indent && !over))
        return false;
    sp_line under = sp_line_at(s, n, title.next);
    size_t length = adornment(s, &under);
    if (!length || length < columns(s, &title) || (over && s[l->from] != s[under.from]))
        return false;
    out->kind = SP_BLOCK_HEADING;
    out->heading_from = title.from;
    out->heading_to = title.to;
    out->to = under.next;
    return true;
}

/* indented_end -- after the indented lines from `at` on, and the blank lines between them. */
static size_t indented_end(const char *s, size_t n, size_t at)
{
    size_t end = at;
    while (at < n) {
        sp_line l = sp_line_at(s, n, at);
        if (l.from < l.to && l.indent == 0) break;
        at = l.next;
        if (l.from < l.to) end = at;
    }
    return end;
}

static bool is_table_border(const char *s, const sp_line *l)
{
    if (l->to - l->from < 3 || (s[l->from] != '+' && s[l->from] != '=')) return false;
    for (size_t i = l->from; i < l->to; i++)
        if (!strchr("+-= ", s[i])) return false;
    return true;
}

static size_t paragraph_end(const char *s, size_t n, const sp_line *first)
{
    size_t at = first->next;
    while (at < n) {
        sp_line l = sp_line_at(s, n, at);
        if (l.from == l.to) break;
        at = l.next;
    }
    return at;
}

void sp_rst_block(const char *s, size_t n, const sp_line *l, sp_block *out)
{
    if (rst_heading(s, n, l, out)) return;
    bool directive = l->to - l->from >= 3 && memcmp(s + l->from, ".. ", 3) == 0;
    bool lines = l->indent || directive || is_table_border(s, l);
    out->kind = lines ? SP_BLOCK_LINES : SP_BLOCK_TEXT;
    out->to = l->indent || directive ? indented_end(s, n, l->next) : paragraph_end(s, n, l);
}

/* -- source code ----------------------------------------------------------------------------- */

/* closes -- a line that ends a definition rather than starting one: "}", ")", "]", "end". */
static bool closes(const char *s, const sp_line *l)
{
    size_t n = l->to - l->from;
    return strchr("})]", s[l->from]) || (n >= 3 && n <= 4 && memcmp(s + l->from, "end", 3) == 0);
}

/* A definition ends before the first line without indentation that follows a blank line, or after
 * one that is nothing but a closing brace. */
void sp_code_block(const char *s, size_t n, const sp_line *first, sp_block *out)
{
    size_t at = first->next, end = first->next;
    bool after_blank = false;
    out->kind = SP_BLOCK_LINES;
    while (at < n) {
        sp_line l = sp_line_at(s, n, at);
        bool blank = l.from == l.to;
        bool top = !blank && l.indent == 0;
        if (top && after_blank && !closes(s, &l) && s[l.from] != '{') break;
        at = l.next;
        if (!blank) end = at;
        if (top && closes(s, &l)) break;
        after_blank = blank;
    }
    out->to = end;
}
