/* libxml.c -- libxml2's allocators are replaced once in a process. In a thread that is in sp_libxml_run they take
 * memory from chunks of its own, and leave the function when there is none (longjmp). Elsewhere the allocators from
 * before are called; they also free what they allocated. */
#include "retrieve/documents/libxml.h"

#include <libxml/parser.h>
#include <libxml/threads.h>
#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include "base/mem.h"

#define CHUNK_BYTES ((size_t)64 << 10) /* of the first; each next one is at least twice as long */

typedef struct chunk {
    struct chunk *older;
    size_t n;
    _Alignas(16) unsigned char data[];
} chunk;

typedef struct room {
    chunk *chunks; /* newest first */
    size_t used;   /* of the newest */
    jmp_buf no_memory;
} room;

/* Before each block. */
typedef struct head {
    _Alignas(16) size_t n;
} head;

static xmlFreeFunc usual_free;
static xmlMallocFunc usual_malloc;
static xmlReallocFunc usual_realloc;
static xmlStrdupFunc usual_strdup;
static _Thread_local room *here;

static void add_chunk(size_t n)
{
    const size_t size = SP_MAX(n, here->chunks ? 2 * here->chunks->n : CHUNK_BYTES);
    chunk *c = sp_alloc(1, sizeof *c + size);
    if (!c) longjmp(here->no_memory, 1);
    c->older = here->chunks;
    c->n = size;
    here->chunks = c;
    here->used = 0;
}

static void *take(size_t n)
{
    if (!here) return usual_malloc(n);
    if (n > PTRDIFF_MAX / 2) longjmp(here->no_memory, 1);
    const size_t whole = SP_ROUND_UP(sizeof(head) + n, (size_t)16);
    if (!here->chunks || whole > here->chunks->n - here->used) add_chunk(whole);
    head *h = (head *)(here->chunks->data + here->used);
    here->used += whole;
    h->n = n;
    return h + 1;
}

static bool is_here(const void *p)
{
    const uintptr_t at = (uintptr_t)p;
    for (const chunk *c = here ? here->chunks : NULL; c; c = c->older)
        if (at >= (uintptr_t)c->data && at - (uintptr_t)c->data < c->n) return true;
    return false;
}

static void *retake(void *p, size_t n)
{
    if (!p) return take(n);
    if (!is_here(p)) return usual_realloc(p, n);
    const size_t old = ((head *)p - 1)->n;
    return old >= n ? p : memcpy(take(n), p, old);
}

static char *copy(const char *s)
{
    if (!here) return usual_strdup(s);
    const size_t n = strlen(s) + 1;
    return memcpy(take(n), s, n);
}

static void give(void *p)
{
    if (!is_here(p)) usual_free(p);
}

static void replace(void)
{
    xmlInitParser();
    xmlMemGet(&usual_free, &usual_malloc, &usual_realloc, &usual_strdup);
    xmlMemSetup(give, take, retake, copy);
}

#if LIBXML_VERSION >= 21200
static bool has_state(void)
{
    return xmlCheckThreadLocalStorage() == 0;
}
#else
static bool has_state(void)
{
    return xmlIsMainThread() || xmlGetGlobalState(); /* the main thread's is static */
}
#endif

sp_err sp_libxml_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, replace);
    return has_state() ? SP_OK : sp_fail_nomem("the XML parser of a thread");
}

int64_t sp_libxml_line(xmlTextReader *x)
{
    enum { MOST = 65535 }; /* that a node can have */
    const xmlNode *node = xmlTextReaderCurrentNode(x);
    if (node && node->type != XML_ELEMENT_NODE) node = node->parent;
    const int line = node && node->type == XML_ELEMENT_NODE ? node->line : 0;
    return line > 0 && line < MOST ? line : xmlTextReaderGetParserLineNumber(x);
}

sp_err sp_libxml_run(sp_err (*fn)(void *user), void *user)
{
    room r = {.used = 0};
    volatile sp_err err = SP_OK;
    here = &r;
    if (setjmp(r.no_memory) == 0)
        err = fn(user);
    else
        err = sp_fail_nomem("what libxml2 reads");
    xmlResetLastError(); /* its texts are in the chunks */
    here = NULL;
    for (chunk *c = r.chunks, *older; c; c = older) {
        older = c->older;
        sp_free(c);
    }
    return err;
}
