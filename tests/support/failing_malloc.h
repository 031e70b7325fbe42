/* failing_malloc.h -- malloc and calloc of the whole program, libraries included, one call of which fails. For one
 * file of a program. */
#ifndef SP_TESTS_FAILING_MALLOC_H
#define SP_TESTS_FAILING_MALLOC_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

static int until_failure = -1; /* calls; -1: none fails */

static bool now_fails(void)
{
    const bool fails = until_failure >= 0 && until_failure-- == 0;
    if (fails) errno = ENOMEM;
    return fails;
}

__attribute__((visibility("default"))) void *malloc(size_t n)
{
    typedef void *allocator(size_t);
    static allocator *next;
    if (!next) next = (allocator *)dlsym(RTLD_NEXT, "malloc");
    return now_fails() ? NULL : next(n);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
    typedef void *allocator(size_t, size_t);
    static allocator *next;
    if (!next) next = (allocator *)dlsym(RTLD_NEXT, "calloc");
    return now_fails() ? NULL : next(n, size);
}

#endif
