#include "cli/text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef struct text {
    char *v, **out;
    size_t n, room, *n_out;
    bool failed;
} text;

static ssize_t put(void *user, const char *from, size_t n)
{
    text *t = user;
    if (!t->failed && t->n + n + 1 > t->room) {
        const size_t room = 2 * (t->n + n + 1);
        char *more = realloc(t->v, room);
        t->failed = !more;
        if (more) t->v = more;
        if (more) t->room = room;
    }
    if (t->failed) return 0;
    memcpy(t->v + t->n, from, n);
    t->n += n;
    return (ssize_t)n;
}

static int end(void *user)
{
    text *t = user;
    const bool failed = t->failed || (!t->v && !(t->v = malloc(1)));
    if (failed) free(t->v);
    if (!failed) t->v[t->n] = '\0';
    *t->out = failed ? NULL : t->v;
    *t->n_out = failed ? 0 : t->n;
    free(t);
    return failed ? EOF : 0;
}

FILE *cli_text_open(char **out, size_t *n)
{
    text *t = calloc(1, sizeof *t);
    *out = NULL;
    *n = 0;
    if (!t) return NULL;
    t->out = out;
    t->n_out = n;
    FILE *f = fopencookie(t, "w", (cookie_io_functions_t){.write = put, .close = end});
    if (!f) free(t);
    return f;
}
