/* style.c -- whether the declarations of a style attribute hide its element (CSS Syntax Level 3, CSS Cascade).
 *
 * Between tokens are blanks and comments; keywords are of any case and may have escapes. Of the declarations of a
 * property the last counts, or the last that is important. Semicolons in strings, brackets and url() end nothing.
 */
#include "retrieve/documents/readers_int.h"

#include <string.h>
#include <strings.h>

#include "base/digits.h"
#include "retrieve/text/text.h"

/* skip_blanks -- and comments; one that is not closed goes to the end. */
static const char *skip_blanks(const char *s)
{
    for (;;) {
        if (sp_is_blank(*s)) {
            s++;
        } else if (s[0] == '/' && s[1] == '*') {
            const char *end = strstr(s + 2, "*/");
            s = end ? end + 2 : s + strlen(s);
        } else {
            return s;
        }
    }
}

/* take_letter -- the character at *s, which is moved after it; a backslash escapes one, or has its number in up to
 * 6 digits and a blank. */
static int take_letter(const char **s)
{
    if (**s != '\\') return (unsigned char)*(*s)++;
    int c = 0, n = 0;
    for (++*s; n < 6 && sp_digit16(**s) >= 0; n++) c = c * 16 + sp_digit16(*(*s)++);
    if (n) {
        *s += sp_is_blank(**s);
        return c;
    }
    return **s ? (unsigned char)*(*s)++ : 0;
}

/* takes -- whether the keyword is at *s, which is then moved after it and the blanks after it. */
static bool takes(const char **s, const char *word)
{
    const char *at = *s;
    for (; *word; word++) {
        if (!*at) return false;
        const int c = take_letter(&at);
        if ((c >= 'A' && c <= 'Z' ? c | 32 : c) != *word) return false;
    }
    *s = skip_blanks(at);
    return true;
}

static bool ends(const char *s)
{
    return *s == '\0' || *s == ';';
}

/* skip_until -- after the next `end`, which a backslash escapes; at the end of the text without one. */
static const char *skip_until(const char *s, char end)
{
    for (; *s && *s != end; s++) s += *s == '\\' && s[1];
    return s + (*s == end);
}

/* skip_value -- to the semicolon after a declaration. *important: whether it says so. */
static const char *skip_value(const char *s, bool *important)
{
    const char *from = s;
    int depth = 0; /* brackets that are open */
    *important = false;
    while (*(s = skip_blanks(s)) && (depth || *s != ';')) {
        const char c = *s++;
        const char *at = skip_blanks(s);
        if (c == '\\' && *s) s++;
        if (c == '"' || c == '\'') s = skip_until(s, c);
        if (c == '!' && !depth) *important = takes(&at, "important") && ends(at);
        if (c == ')' || c == ']' || c == '}') depth -= depth > 0;
        const bool url = c == '(' && s - from > 3 && strncasecmp(s - 4, "url", 3) == 0 && *at != '"' && *at != '\'';
        if (url) s = skip_until(s, ')'); /* no strings and no comments are in it */
        if (!url && (c == '(' || c == '[' || c == '{')) depth++;
    }
    return s;
}

bool sp_style_hides(const char *s)
{
    static const char *const hiding[][2] = {{"display", "none"}, {"visibility", "hidden"}, {"visibility", "collapse"}};
    bool hides[SP_COUNT(hiding)] = {false}, fixed[SP_COUNT(hiding)] = {false};
    for (; *(s = skip_blanks(s)); s += *s == ';') {
        bool important;
        const char *next = skip_value(s, &important);
        for (size_t i = 0; i < SP_COUNT(hiding); i++) {
            const char *at = s;
            if (!takes(&at, hiding[i][0]) || *at != ':' || (fixed[i] && !important)) continue;
            at = skip_blanks(at + 1);
            hides[i] = takes(&at, hiding[i][1]) && (ends(at) || (*at == '!' && important));
            fixed[i] = important;
        }
        s = next;
    }
    return hides[0] || hides[1] || hides[2];
}
