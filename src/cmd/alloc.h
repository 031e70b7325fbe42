/* alloc.h -- memory of the program: a command that gets none can do nothing but say so. */
#ifndef SP_CMD_ALLOC_H
#define SP_CMD_ALLOC_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *cmd_checked(void *p)
{
    if (p) return p;
    fputs("spolia: out of memory\n", stderr);
    exit(1);
}

/* cmd_alloc -- n zeroed elements; never NULL. */
static inline void *cmd_alloc(size_t n, size_t size)
{
    return cmd_checked(calloc(n ? n : 1, size));
}

/* cmd_grow -- room for one more behind n elements; *cap is kept. */
static inline void *cmd_grow(void *p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return p;
    size_t more = *cap ? 2 * *cap : 16;
    if (more > SIZE_MAX / size) cmd_checked(NULL);
    p = cmd_checked(realloc(p, more * size));
    *cap = more;
    return p;
}

static inline char *cmd_copy(const char *text)
{
    return cmd_checked(strdup(text));
}

/* cmd_join -- a and b as one string. */
static inline char *cmd_join(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    char *s = cmd_alloc(n + m + 1, 1);
    memcpy(s, a, n);
    memcpy(s + n, b, m);
    return s;
}

#endif
