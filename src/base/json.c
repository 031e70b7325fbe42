/* json.c -- JSON with jansson, which must not learn of a failed allocation while it reads: its lexer (lex_save) does
 * not ask whether a byte was added to the text that it then decodes. A text without its closing quote is read beyond
 * its end; one that lost the letter after a backslash ends the process (an assertion). So reading is left by longjmp:
 * when jansson allocates, it holds no lock, and no file but ours. */
#include "base/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { NEAR = 64 /* of the last blocks: one of them is mostly the next to be freed */ };

typedef struct blocks {
    void **v; /* [n]; NULL: freed */
    size_t n, cap;
} blocks;

/* Reading that is left when memory is missing. */
typedef struct reading {
    jmp_buf left;
    blocks had;   /* allocated in it */
    blocks later; /* of these, those to be freed at its end: searching for them would take square time */
    struct reading *outer;
} reading;

static void *(*allocator)(size_t);
static _Thread_local unsigned n_lost; /* failed allocations */
static _Thread_local reading *now;    /* NULL: none */

/* note -- whoever watches learns when the list lacks memory, too. */
static bool note(blocks *list, void *block)
{
    if (list->n == list->cap) {
        const size_t cap = SP_MAX(64, 2 * list->cap);
        void **more = allocator(cap * sizeof *more);
        if (!more) return false;
        if (list->n) memcpy(more, list->v, list->n * sizeof *more);
        free(list->v);
        *list = (blocks){more, list->n, cap};
    }
    list->v[list->n++] = block;
    return true;
}

/* forget -- false: it is none of the last ones. */
static bool forget(blocks *list, const void *block)
{
    const size_t first = list->n > NEAR ? list->n - NEAR : 0;
    size_t i = list->n;
    while (i > first && list->v[i - 1] != block) i--;
    if (i == first) return false;
    list->v[i - 1] = NULL;
    while (list->n && !list->v[list->n - 1]) list->n--;
    return true;
}

/* free_all -- with the list; keeps: the list alone. */
static void free_all(const blocks *list, bool keeps)
{
    for (size_t i = 0; i < list->n && !keeps; i++) free(list->v[i]);
    free(list->v);
}

static void *lose(void)
{
    sp_json_lost();
    if (now) longjmp(now->left, 1);
    return NULL;
}

static void *take(size_t n)
{
    void *p = allocator(n);
    if (p && now && !note(&now->had, p)) {
        free(p);
        p = NULL;
    }
    return p ? p : lose();
}

static void give(void *p)
{
    if (!p || !now || forget(&now->had, p))
        free(p);
    else if (!note(&now->later, p))
        lose();
}

void sp_json_watch(void *(*allocate)(size_t))
{
    allocator = allocate;
    json_set_alloc_funcs(take, give);
}

void sp_json_lost(void)
{
    n_lost++;
}

/* run -- false: it was left. */
static bool run(reading *r, void (*read)(void *user), void *user)
{
    if (setjmp(r->left) != 0) return false;
    read(user);
    return true;
}

bool sp_json_whole(void (*read)(void *user), void *user)
{
    reading r = {.outer = now};
    now = &r;
    const bool whole = run(&r, read, user);
    now = r.outer;
    free_all(&r.had, whole);
    free_all(&r.later, !whole);
    return whole;
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

typedef struct source {
    const char *s; /* NULL: of `file` */
    size_t n;
    FILE *file;
    size_t flags;
    json_error_t *why;
    json_t *out;
} source;

static void read_all(void *user)
{
    source *from = user;
    from->out = from->s ? json_loadb(from->s, from->n, from->flags, from->why)
                        : json_loadf(from->file, from->flags, from->why);
}

static json_t *load(source *from)
{
    const unsigned before = n_lost;
    *from->why = (json_error_t){.line = -1, .column = -1};
    return checked(sp_json_whole(read_all, from) ? from->out : NULL, before, from->why);
}

json_t *sp_json_load(const char *s, size_t n, size_t flags, json_error_t *why)
{
    return load(&(source){.s = s ? s : "", .n = n, .flags = flags, .why = why});
}

json_t *sp_json_load_file(const char *path, size_t flags, json_error_t *why)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        *why = (json_error_t){.line = -1, .column = -1};
        snprintf(why->text, sizeof why->text - 1, "unable to open %s: %s", path, strerror(errno));
        why->text[sizeof why->text - 1] = json_error_cannot_open_file;
        return NULL;
    }
    json_t *j = load(&(source){.file = file, .flags = flags, .why = why});
    fclose(file);
    return j;
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
