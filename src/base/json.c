#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

static void *(*allocator)(size_t);
static _Thread_local unsigned n_lost; /* failed allocations */

static void *take(size_t n)
{
    void *p = allocator(n);
    if (!p) sp_json_lost();
    return p;
}

void sp_json_watch(void *(*allocate)(size_t))
{
    allocator = allocate;
    json_set_alloc_funcs(take, free);
}

void sp_json_lost(void)
{
    n_lost++;
}

static bool lacked_memory(const json_error_t *why)
{
    return json_error_code(why) == json_error_out_of_memory || !*why->text; /* it does not always say so */
}

/* checked -- j, unless an allocation has failed since there were `before`. */
static json_t *checked(json_t *j, unsigned before, json_error_t *why)
{
    if (n_lost == before && (j || !lacked_memory(why))) return j;
    json_decref(j);
    *why = (json_error_t){.line = -1, .column = -1};
    snprintf(why->text, sizeof why->text, "out of memory");
    why->text[sizeof why->text - 1] = json_error_out_of_memory; /* where json_error_code has it */
    return NULL;
}

json_t *sp_json_load(const char *s, size_t n, size_t flags, json_error_t *why)
{
    const unsigned before = n_lost;
    return checked(json_loadb(s, n, flags, why), before, why);
}

json_t *sp_json_load_file(const char *path, size_t flags, json_error_t *why)
{
    const unsigned before = n_lost;
    return checked(json_load_file(path, flags, why), before, why);
}

unsigned sp_json_n_lost(void)
{
    return n_lost;
}

char *sp_json_dump(const json_t *value, size_t flags, unsigned before)
{
    char *text = value ? json_dumps(value, flags) : NULL;
    if (n_lost == before) return text;
    free(text);
    return NULL;
}

sp_err sp_json_code(const json_error_t *why, sp_err code)
{
    return lacked_memory(why) ? SP_E_NOMEM : code;
}
