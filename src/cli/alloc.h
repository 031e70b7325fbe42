/* alloc.h -- memory of the program; a command that runs out of it ends with an error message. */
#ifndef SP_CLI_ALLOC_H
#define SP_CLI_ALLOC_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *cli_checked(void *p)
{
    if (p) return p;
    fputs("spolia: out of memory\n", stderr);
    exit(1);
}

/* cli_alloc -- n zeroed elements; never NULL. */
static inline void *cli_alloc(size_t n, size_t size)
{
    return cli_checked(calloc(n ? n : 1, size));
}

/* cli_grow -- room for element n; *cap is updated. */
static inline void *cli_grow(void *p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return p;
    size_t more = *cap ? 2 * *cap : 16;
    if (more > SIZE_MAX / size) cli_checked(NULL);
    p = cli_checked(realloc(p, more * size));
    *cap = more;
    return p;
}

static inline char *cli_copy(const char *text)
{
    return cli_checked(strdup(text));
}

/* cli_join -- a followed by b. */
static inline char *cli_join(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    char *s = cli_alloc(n + m + 1, 1);
    memcpy(s, a, n);
    memcpy(s + n, b, m);
    return s;
}

#endif
