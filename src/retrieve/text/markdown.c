/* markdown.c -- the line structure of Markdown, as far as cutting a document needs it: headings,
 * and what must not be taken for prose. Inline marks stay in the text. Simplifications against
 * CommonMark: a setext heading has one line, a table's lines start with "|", a fence may be
 * indented by any amount, and a blank line ends a list (its next item starts a new one). */
#include "retrieve/text/text.h"

#include <string.h>

sp_line sp_line_at(const char *s, size_t n, size_t at)
{
    const char *newline = memchr(s + at, '\n', n - at);
    size_t end = newline ? (size_t)(newline - s) : n;
    size_t from = sp_skip_blanks(s, at, end);
    return (sp_line){
        .from = from,
        .to = sp_trim_end(s, from, end),
        .indent = from - at,
        .next = newline ? end + 1 : n,
    };
}

static size_t run_length(const char *s, const sp_line *l, char c)
{
    size_t at = l->from;
    while (at < l->to && s[at] == c) at++;
    return at - l->from;
}

static bool is_only(const char *s, const sp_line *l, char c)
{
    return l->from < l->to && run_length(s, l, c) == l->to - l->from;
}

/* "## Words ##": up to six marks, then a blank or the end of the line. */
static bool is_atx_heading(const char *s, const sp_line *l, sp_block *out)
{
    size_t level = run_length(s, l, '#'), at = l->from + level;
    if (level < 1 || level > 6 || l->indent > 3 || (at < l->to && !sp_is_blank(s[at])))
        return false;
    size_t from = sp_skip_blanks(s, at, l->to), to = l->to;
    while (to > from && s[to - 1] == '#') to--;
    if (to > from && !sp_is_blank(s[to - 1])) to = l->to; /* "# C#" */
    out->heading_from = from;
    out->heading_to = sp_trim_end(s, from, to);
    return true;
}

static bool is_setext_underline(const char *s, const sp_line *l)
{
    return l->indent <= 3 && (is_only(s, l, '=') || (is_only(s, l, '-') && l->to - l->from >= 2));
}

/* fence_length -- the marks of a code fence that this line opens, 0 for none. */
static size_t fence_length(const char *s, const sp_line *l)
{
    size_t n = SP_MAX(run_length(s, l, '`'), run_length(s, l, '~'));
    if (n < 3) return 0;
    bool inline_code = s[l->from] == '`' && memchr(s + l->from + n, '`', l->to - l->from - n);
    return inline_code ? 0 : n;
}

static bool is_table_row(const char *s, const sp_line *l)
{
    return l->from < l->to && s[l->from] == '|';
}

/* fence_end -- after the closing fence; the end of the text when there is none. */
static size_t fence_end(const char *s, size_t n, const sp_line *open)
{
    char mark = s[open->from];
    size_t length = fence_length(s, open), at = open->next;
    while (at < n) {
        sp_line l = sp_line_at(s, n, at);
        at = l.next;
        if (is_only(s, &l, mark) && l.to - l.from >= length) break;
    }
    return at;
}

/* front_matter_end -- after the "---" that closes a YAML header at a file's start, 0 for none. */
static size_t front_matter_end(const char *s, size_t n, const sp_line *first)
{
    if (first->from != 0 || first->to != 3 || memcmp(s, "---", 3) != 0) return 0;
    for (size_t at = first->next; at < n;) {
        sp_line l = sp_line_at(s, n, at);
        bool closing = l.to - l.from == 3 && l.indent == 0 &&
                       (memcmp(s + l.from, "---", 3) == 0 || memcmp(s + l.from, "...", 3) == 0);
        if (closing) return l.next;
        if (l.from == l.to) return 0; /* a thematic break: a header has no blank lines */
        at = l.next;
    }
    return 0;
}

static size_t table_end(const char *s, size_t n, const sp_line *first)
{
    size_t at = first->next;
    while (at < n) {
        sp_line l = sp_line_at(s, n, at);
        if (!is_table_row(s, &l)) break;
        at = l.next;
    }
    return at;
}

/* text_end -- up to a blank line or, in Markdown, what starts another block. */
static size_t text_end(const char *s, size_t n, const sp_line *first, bool markdown)
{
    size_t at = first->next;
    while (at < n) {
        sp_line l = sp_line_at(s, n, at);
        sp_block other;
        if (l.from == l.to) break;
        if (markdown &&
            (is_atx_heading(s, &l, &other) || fence_length(s, &l) || is_table_row(s, &l)))
            break;
        at = l.next;
    }
    return at;
}

bool sp_line_is_item(const char *s, size_t at, size_t to)
{
    at = sp_skip_blanks(s, at, to);
    size_t digits = at;
    while (digits < to && digits - at < 3 && s[digits] >= '0' && s[digits] <= '9') digits++;
    if (digits > at) {
        at = digits;
        if (at == to || (s[at] != '.' && s[at] != ')')) return false;
    } else if (at == to || (s[at] != '-' && s[at] != '*' && s[at] != '+')) {
        return false;
    }
    return at + 1 < to && sp_is_blank(s[at + 1]);
}

static void classify(const char *s, size_t n, const sp_line *l, bool markdown, sp_block *out)
{
    size_t end;
    if (markdown && is_atx_heading(s, l, out)) {
        out->kind = SP_BLOCK_HEADING;
        out->to = l->next;
        return;
    }
    if (markdown && (end = fence_length(s, l)   ? fence_end(s, n, l)
                           : is_table_row(s, l) ? table_end(s, n, l)
                                                : front_matter_end(s, n, l))) {
        out->kind = SP_BLOCK_LINES;
        out->to = end;
        return;
    }
    if (markdown && l->next < n && !sp_line_is_item(s, l->from, l->to)) {
        sp_line under = sp_line_at(s, n, l->next);
        if (is_setext_underline(s, &under)) {
            out->kind = SP_BLOCK_HEADING;
            out->to = under.next;
            out->heading_from = l->from;
            out->heading_to = l->to;
            return;
        }
    }
    out->kind = SP_BLOCK_TEXT;
    out->to = text_end(s, n, l, markdown);
}

bool sp_block_next(const char *s, size_t n, size_t at, sp_syntax syntax, sp_block *out)
{
    while (at < n) {
        sp_line l = sp_line_at(s, n, at);
        if (l.from < l.to) {
            *out = (sp_block){.from = l.from - l.indent};
            if (syntax == SP_SYNTAX_RST)
                sp_rst_block(s, n, &l, out);
            else if (syntax == SP_SYNTAX_CODE)
                sp_code_block(s, n, &l, out);
            else
                classify(s, n, &l, syntax == SP_SYNTAX_MARKDOWN, out);
            return true;
        }
        at = l.next;
    }
    return false;
}
