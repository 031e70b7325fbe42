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

/* Reading that is left when memory is missing. */
typedef struct reading {
    jmp_buf left;
    void **blocks; /* [n] allocated in it; NULL: freed since */
    size_t n, cap;
    struct reading *outer;
} reading;

static void *(*allocator)(size_t);
static _Thread_local unsigned n_lost; /* failed allocations */
static _Thread_local reading *now;    /* NULL: none */

/* note -- a block of it; whoever watches learns when the list lacks memory, too. */
static bool note(reading *r, void *block)
{
    if (r->n == r->cap) {
        const size_t cap = SP_MAX(64, 2 * r->cap);
        void **more = allocator(cap * sizeof *more);
        if (!more) return false;
        if (r->n) memcpy(more, r->blocks, r->n * sizeof *more);
        free(r->blocks);
        r->blocks = more;
        r->cap = cap;
    }
    r->blocks[r->n++] = block;
    return true;
}

static void *take(size_t n)
{
    void *p = allocator(n);
    if (p && now && !note(now, p)) {
        free(p);
        p = NULL;
    }
    if (!p) sp_json_lost();
    if (!p && now) longjmp(now->left, 1);
    return p;
}

/* forget -- a block that is freed; mostly one of the last. */
static void forget(reading *r, const void *block)
{
    size_t i = r->n;
    while (i && r->blocks[i - 1] != block) i--;
    if (i) r->blocks[i - 1] = NULL;
    while (r->n && !r->blocks[r->n - 1]) r->n--;
}

static void give(void *p)
{
    if (p && now) forget(now, p);
    free(p);
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
    for (size_t i = 0; i < r.n && !whole; i++) free(r.blocks[i]);
    free(r.blocks);
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
