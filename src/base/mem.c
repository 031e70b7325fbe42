#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_long fault_countdown = -1; /* threads of a store allocate too */

void sp_fault_after(long n)
{
    atomic_store(&fault_countdown, n);
}

static bool faulted(void)
{
    long left = atomic_load_explicit(&fault_countdown, memory_order_relaxed);
    if (SP_LIKELY(left < 0)) return false;
    while (left > 0 && !atomic_compare_exchange_weak(&fault_countdown, &left, left - 1)) {}
    return left == 0 || left == 1;
}

/* size_of -- the bytes of n objects, at least 1; SIZE_MAX if they overflow. */
static size_t size_of(size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? SIZE_MAX : SP_MAX(bytes, 1);
}

static bool is_allowed(size_t bytes)
{
    return !faulted() && bytes <= PTRDIFF_MAX;
}

/* noted -- p; of NULL the size is noted for the message. */
static void *noted(void *p, size_t bytes)
{
    if (SP_UNLIKELY(!p)) sp_nomem_note(bytes);
    return p;
}

void *sp_alloc(size_t n, size_t size)
{
    const size_t bytes = size_of(n, size);
    return noted(is_allowed(bytes) ? malloc(bytes) : NULL, bytes);
}

void *sp_alloc_zero(size_t n, size_t size)
{
    const size_t bytes = size_of(n, size);
    return noted(is_allowed(bytes) ? calloc(bytes, 1) : NULL, bytes);
}

void *sp_resize(void *p, size_t n, size_t size)
{
    const size_t bytes = size_of(n, size);
    return noted(is_allowed(bytes) ? realloc(p, bytes) : NULL, bytes);
}

void *sp_alloc_aligned(size_t n_bytes)
{
    if (!is_allowed(n_bytes) || n_bytes > PTRDIFF_MAX - SP_CACHE_LINE) return noted(NULL, n_bytes);
    size_t rounded = SP_ROUND_UP(SP_MAX(n_bytes, 1), (size_t)SP_CACHE_LINE);
    void *p = noted(aligned_alloc(SP_CACHE_LINE, rounded), n_bytes);
    if (p) memset(p, 0, rounded);
    return p;
}

void sp_free(void *p)
{
    free(p);
}

void *sp_pages_alloc(size_t n_bytes)
{
    if (!is_allowed(n_bytes) || n_bytes == 0) return noted(NULL, n_bytes);
    void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return noted(NULL, n_bytes);
    madvise(p, n_bytes, MADV_HUGEPAGE); /* a hint: refusal is harmless */
    return p;
}

void sp_pages_free(void *p, size_t n_bytes)
{
    if (p) munmap(p, n_bytes);
}

char *sp_strdup_n(const char *s, size_t n)
{
    char *copy = sp_alloc(n + 1, 1);
    if (!copy) return NULL;
    if (n) memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

/* -- arena ---------------------------------------------------------------------------------- */

/* With AddressSanitizer, what is not taken cannot be read: a gap after each object, and the rest of a chunk. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
enum { ARENA_GAP = 16 };
#define hide(p, n) __asan_poison_memory_region(p, n)
#define show(p, n) __asan_unpoison_memory_region(p, n)
#else
enum { ARENA_GAP = 0 };
#define hide(p, n) SP_UNUSED(p)
#define show(p, n) SP_UNUSED(p)
#endif

struct sp_arena_chunk {
    sp_arena_chunk *older;
    size_t size;
    _Alignas(16) unsigned char data[];
};

#define ARENA_CHUNK_BYTES (64u << 10)

void sp_arena_init(sp_arena *a)
{
    *a = (sp_arena){0};
}

void *sp_arena_take(sp_arena *a, size_t n, size_t size)
{
    size_t object;
    if (__builtin_mul_overflow(n, size, &object) || object > PTRDIFF_MAX / 2) return NULL;
    const size_t bytes = SP_ROUND_UP(SP_MAX(object, 1), (size_t)16) + ARENA_GAP;
    if (!a->chunks || bytes > a->size - a->used) {
        size_t want = SP_MAX(bytes, SP_MAX(a->size * 2, (size_t)ARENA_CHUNK_BYTES));
        sp_arena_chunk *c = sp_alloc(1, sizeof *c + want);
        if (!c) return NULL;
        c->older = a->chunks;
        c->size = want;
        a->chunks = c;
        a->used = 0;
        a->size = want;
        hide(c->data, want);
    }
    void *p = a->chunks->data + a->used;
    a->used += bytes;
    show(p, object);
    memset(p, 0, ARENA_GAP ? object : bytes);
    return p;
}

void sp_arena_reset(sp_arena *a)
{
    if (!a->chunks) return;
    for (sp_arena_chunk *c = a->chunks->older; c;) {
        sp_arena_chunk *older = c->older;
        sp_free(c);
        c = older;
    }
    a->chunks->older = NULL; /* each is twice the size of the one before */
    a->used = 0;
    hide(a->chunks->data, a->size);
}

void sp_arena_fini(sp_arena *a)
{
    sp_arena_reset(a);
    sp_free(a->chunks);
    *a = (sp_arena){0};
}

/* -- growable arrays ------------------------------------------------------------------------ */

sp_err sp_vec_grow(void **v, size_t n, size_t *cap, size_t extra, size_t size)
{
    size_t need;
    if (__builtin_add_overflow(n, extra, &need)) return sp_fail_nomem("an array");
    if (need <= *cap) return SP_OK;
    size_t grown = SP_MAX(need, *cap + *cap / 2 + 8);
    void *p = sp_resize(*v, grown, size);
    if (!p) return sp_fail_nomem("an array");
    *v = p;
    *cap = grown;
    return SP_OK;
}

sp_err sp_bytes_add(sp_bytes *b, const void *data, size_t n)
{
    SP_TRY(sp_vec_reserve(b, n));
    if (n) memcpy(b->v + b->n, data, n);
    b->n += n;
    return SP_OK;
}

sp_err sp_bytes_addf(sp_bytes *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    sp_err err = n < 0 ? sp_fail(SP_E_ARG, "bad format") : sp_vec_reserve(b, (size_t)n + 1);
    if (err == SP_OK) {
        vsnprintf(b->v + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
    return err;
}
