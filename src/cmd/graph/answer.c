#include "cmd/graph/answer.h"

#include <ctype.h>
#include <string.h>

static bool is_edge(char c, const char *extra)
{
    return (unsigned char)c <= ' ' || (c && strchr(extra, c));
}

/* trim -- cuts blanks and marks from both ends. */
static char *trim(char *s, const char *marks)
{
    while (*s && is_edge(*s, marks)) s++;
    size_t n = strlen(s);
    while (n && is_edge(s[n - 1], marks)) n--;
    s[n] = '\0';
    return s;
}

/* skip_bullet -- "- ", "* ", "12. ", "3) ". */
static char *skip_bullet(char *s)
{
    while (*s && is_edge(*s, "")) s++;
    char *end = s;
    if (*s == '-' || *s == '*') {
        end = s + 1;
    } else {
        while (isdigit((unsigned char)*end)) end++;
        end = end > s && (*end == '.' || *end == ')') ? end + 1 : s;
    }
    return end > s && is_edge(*end, "") && *end ? end : s;
}

/* split -- cuts at every separator; the number of fields, of which the first three are kept. */
static int split(char *s, char separator, char *out[3])
{
    int n = 0;
    for (char *next = s; next; s = next) {
        next = strchr(s, separator);
        if (next) *next++ = '\0';
        if (n < 3) out[n] = s;
        n++;
    }
    return n;
}

/* split_arrow -- "a -r-> b"; also "a -> r -> b". */
static int split_arrow(char *s, char *out[3])
{
    char *head = strstr(s, "->"), *second = head ? strstr(head + 2, "->") : NULL;
    char *tail = strstr(s, " -");
    if (!head) return 0;
    out[0] = s;
    if (second) {
        *head = *second = '\0';
        out[1] = head + 2;
        out[2] = second + 2;
        return strstr(out[2], "->") ? 0 : 3;
    }
    if (!tail || tail + 1 >= head) return 0;
    *tail = *head = '\0';
    out[1] = tail + 2;
    out[2] = head + 2;
    return 3;
}

bool graph_answer_parse(char *line, graph_answer *out)
{
    char *field[3] = {0}, *s = trim(skip_bullet(line), "");
    size_t n = strlen(s);
    int n_fields = 0;
    if (strchr(s, '|')) {
        s = trim(s, "|"); /* a row of a table */
        n_fields = split(s, '|', field);
    } else if (strchr(s, '\t')) {
        n_fields = split(s, '\t', field);
    } else if (strstr(s, "->")) {
        n_fields = split_arrow(s, field);
    } else if (n > 2 && (*s == '(' || *s == '[')) {
        n_fields = split(trim(s, "()[],."), ',', field);
    }
    if (n_fields != 3) return false;
    for (int i = 0; i < 3; i++) {
        field[i] = trim(field[i], "\"'*`<>");
        if (!*field[i] || strspn(field[i], "-: ") == strlen(field[i])) return false;
    }
    *out = (graph_answer){field[0], field[1], field[2]};
    return true;
}

bool graph_answer_grounded(const graph_answer *t, const char *text)
{
    return strcasestr(text, t->subject) && strcasestr(text, t->object);
}
