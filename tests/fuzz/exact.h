/* exact.h -- memory that ends at a page that cannot be read: reading past its end is noticed without a sanitizer. For
 * targets that must change their input; others read it in place, where the replay has such a page, too. */
#ifndef SP_FUZZ_EXACT_H
#define SP_FUZZ_EXACT_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { EXACT_PAGE = 1 << 16 /* no machine has larger ones */ };

static inline size_t exact_pages(size_t n)
{
    return (n + EXACT_PAGE - 1) / EXACT_PAGE * EXACT_PAGE;
}

/* exact_new -- n bytes of zeros, at an address that is a multiple of 16 if n is. Aborts without memory. */
static inline uint8_t *exact_new(size_t n)
{
    const size_t whole = exact_pages(n);
    uint8_t *p = mmap(NULL, whole + EXACT_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + whole, EXACT_PAGE, PROT_NONE) != 0) abort();
    return p + whole - n;
}

static inline void exact_free(uint8_t *p, size_t n)
{
    const size_t whole = exact_pages(n);
    if (munmap(p + n - whole, whole + EXACT_PAGE) != 0) abort();
}

#endif
