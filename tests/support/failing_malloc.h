/* failing_malloc.h -- malloc of the whole program, one call of which fails. For one file of a program. */
#ifndef SP_TESTS_FAILING_MALLOC_H
#define SP_TESTS_FAILING_MALLOC_H

#include <dlfcn.h>
#include <stddef.h>

static int until_failure = -1; /* calls; -1: none fails */

void *malloc(size_t n)
{
    typedef void *allocator(size_t);
    static allocator *next;
    if (!next) next = (allocator *)dlsym(RTLD_NEXT, "malloc");
    if (until_failure >= 0 && until_failure-- == 0) return NULL;
    return next(n);
}

#endif
