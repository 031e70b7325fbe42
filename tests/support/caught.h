/* caught.h -- what a call prints to a standard stream. */
#ifndef SP_TESTS_CAUGHT_H
#define SP_TESTS_CAUGHT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/check.h"

/* catch -- sends a standard stream to a file; returns where it went before, for give_back. */
static inline int catch(FILE *stream, FILE *to)
{
    fflush(stream);
    const int before = dup(fileno(stream));
    assert_true(before >= 0 && dup2(fileno(to), fileno(stream)) >= 0);
    return before;
}

static inline void give_back(FILE *stream, int before)
{
    fflush(stream);
    assert_true(dup2(before, fileno(stream)) >= 0);
    close(before);
}

static inline void read_all(FILE *f, char *text, size_t size)
{
    rewind(f);
    text[fread(text, 1, size - 1, f)] = '\0';
    fclose(f);
}

typedef struct caught {
    FILE *stream, *to;
    int before;
} caught;

static inline caught catch_begin(FILE *stream)
{
    caught c = {.stream = stream, .to = tmpfile()};
    assert_non_null(c.to);
    c.before = catch(stream, c.to);
    return c;
}

/* catch_end -- what was printed since; valid until the next call. */
static inline const char *catch_end(caught *c)
{
    static char said[1 << 15];
    give_back(c->stream, c->before);
    read_all(c->to, said, sizeof said);
    return said;
}

#endif
