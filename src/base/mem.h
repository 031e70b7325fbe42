/* mem.h -- allocation. Every allocator returns NULL on failure and checks sizes for overflow.
 * Arenas hold objects that are freed together (a plan, a step's scratch): bump allocation from
 * chunks, one release. */
#ifndef SP_BASE_MEM_H
#define SP_BASE_MEM_H

#include "base/err.h"

#define SP_CACHE_LINE 64

/* sp_alloc -- n * size bytes, uninitialised; NULL on overflow or when memory is exhausted. */
void *sp_alloc(size_t n, size_t size);
/* sp_alloc_zero -- sp_alloc, zeroed. */
void *sp_alloc_zero(size_t n, size_t size);
/* sp_resize -- grows or shrinks; when it returns NULL the old memory is untouched. */
void *sp_resize(void *p, size_t n, size_t size);
/* sp_alloc_aligned -- n_bytes aligned to a cache line, zeroed by the calling thread (first touch);
 * free with sp_free. */
void *sp_alloc_aligned(size_t n_bytes);
void sp_free(void *p);
/* sp_pages_alloc -- n_bytes of zeroed pages that use memory only once touched, huge pages where the
 * system provides them; for pools. Free with sp_pages_free and the same size. */
void *sp_pages_alloc(size_t n_bytes);
void sp_pages_free(void *p, size_t n_bytes);
/* sp_strdup_n -- a NUL-terminated copy of n bytes. */
char *sp_strdup_n(const char *s, size_t n);

#define SP_NEW(type)      ((type *)sp_alloc_zero(1, sizeof(type)))
#define SP_NEW_N(type, n) ((type *)sp_alloc_zero((n), sizeof(type)))

/* sp_fault_after -- test hook: the n-th allocation from now and all later ones fail, until the next
 * call. 0: all fail; negative: none (the default). Thread: single-threaded tests only. */
void sp_fault_after(long n);

/* -- arena ---------------------------------------------------------------------------------- */

typedef struct sp_arena_chunk sp_arena_chunk;
typedef struct sp_arena {
    sp_arena_chunk *chunks; /* newest first */
    size_t used, size;      /* of the newest chunk, bytes */
} sp_arena;

void sp_arena_init(sp_arena *a);
/* sp_arena_take -- n * size bytes, 16-byte aligned, zeroed; NULL on failure. Valid until
 * sp_arena_reset or sp_arena_fini. */
void *sp_arena_take(sp_arena *a, size_t n, size_t size);
/* sp_arena_reset -- releases all objects but keeps the largest chunk for reuse. */
void sp_arena_reset(sp_arena *a);
void sp_arena_fini(sp_arena *a);

/* -- growable arrays ------------------------------------------------------------------------ */

/* SP_VEC(T) -- a struct { T *v; size_t n, cap; }. sp_vec_reserve makes room for `extra` more items:
 *     SP_TRY(sp_vec_reserve(&vec, 1)); vec.v[vec.n++] = item;
 */
#define SP_VEC(type)                                                                               \
    struct {                                                                                       \
        type *v;                                                                                   \
        size_t n, cap;                                                                             \
    }
#define sp_vec_reserve(vec, extra)                                                                 \
    sp_vec_grow((void **)&(vec)->v, (vec)->n, &(vec)->cap, (extra), sizeof *(vec)->v)
#define sp_vec_fini(vec)                                                                           \
    do {                                                                                           \
        sp_free((vec)->v);                                                                         \
        (vec)->v = NULL;                                                                           \
        (vec)->n = (vec)->cap = 0;                                                                 \
    } while (0)
sp_err sp_vec_grow(void **v, size_t n, size_t *cap, size_t extra, size_t size) SP_MUST_CHECK;

typedef SP_VEC(char) sp_bytes;     /* growable byte string */
typedef SP_VEC(int32_t) sp_tokens; /* growable list of token ids */

/* sp_bytes_add -- appends n bytes; the string is not NUL-terminated. */
sp_err sp_bytes_add(sp_bytes *b, const void *data, size_t n) SP_MUST_CHECK;
/* sp_bytes_addf -- appends formatted text. */
sp_err sp_bytes_addf(sp_bytes *b, const char *fmt, ...) SP_MUST_CHECK SP_PRINTF(2, 3);

#endif
