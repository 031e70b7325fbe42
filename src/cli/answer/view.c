#include "cli/answer/view.h"

#include <ctype.h>
#include <string.h>

void cli_view_skip(cli_view *v, size_t n)
{
    v->s += n;
    v->n -= n;
}

void cli_view_skip_space(cli_view *v)
{
    while (v->n && isspace((unsigned char)*v->s)) cli_view_skip(v, 1);
}

bool cli_view_take(cli_view *v, const char *text)
{
    size_t n = strlen(text);
    if (v->n < n || memcmp(v->s, text, n) != 0) return false;
    cli_view_skip(v, n);
    return true;
}

bool cli_view_may_begin(const cli_view *v, const char *text)
{
    size_t n = strlen(text);
    return memcmp(v->s, text, v->n < n ? v->n : n) == 0;
}
