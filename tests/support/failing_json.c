/* failing_json.c -- to be preloaded: one in SPOLIA_FAIL_ONE_IN allocations of jansson fails. The program's own
 * functions for jansson's memory are called with a mark set, and malloc fails under it. */
#include <dlfcn.h>
#include <jansson.h>
#include <stdlib.h>

void *__libc_malloc(size_t n);
void *malloc(size_t n);

typedef void (*set_funcs)(json_malloc_t, json_free_t);

static _Thread_local int inside;
static json_malloc_t take;
static unsigned one_in, n_calls;

void *malloc(size_t n)
{
    if (inside && one_in && __atomic_add_fetch(&n_calls, 1, __ATOMIC_RELAXED) % one_in == 0) return NULL;
    return __libc_malloc(n);
}

static void *take_inside(size_t n)
{
    inside = 1;
    void *p = take(n);
    inside = 0;
    return p;
}

void json_set_alloc_funcs(json_malloc_t allocate, json_free_t release)
{
    const char *given = getenv("SPOLIA_FAIL_ONE_IN");
    set_funcs real = (set_funcs)dlsym(RTLD_NEXT, "json_set_alloc_funcs");
    one_in = given ? (unsigned)atoi(given) : 0;
    take = allocate;
    real(take_inside, release);
}
