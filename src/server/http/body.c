#include "server/http/body.h"

#include <stdlib.h>
#include <string.h>

static void release(srv_bodies *all, srv_body *b)
{
    free(b->data);
    atomic_fetch_sub(&all->n_all, b->cap);
    b->data = NULL;
    b->n = b->cap = 0;
}

/* drop -- frees what was kept of a refused body at once. */
static bool drop(srv_bodies *all, srv_body *b, size_t n)
{
    release(all, b);
    b->n_dropped += n;
    return b->n_dropped <= all->most_each;
}

/* grow -- to `cap` bytes; b->fit says whether all bodies, and the memory, have room for it. */
static void grow(srv_bodies *all, srv_body *b, size_t cap)
{
    size_t more = cap - b->cap;
    if (atomic_fetch_add(&all->n_all, more) + more > all->most_all) {
        atomic_fetch_sub(&all->n_all, more);
        b->fit = SRV_BODIES_FULL;
        return;
    }
    char *data = realloc(b->data, cap);
    if (!data) {
        atomic_fetch_sub(&all->n_all, more);
        b->fit = SRV_BODIES_FULL;
        return;
    }
    b->data = data;
    b->cap = cap;
}

bool srv_body_take(srv_bodies *all, srv_body *b, const char *data, size_t n, size_t length)
{
    if (b->fit == SRV_FITS && n > all->most_each - b->n) b->fit = SRV_BODY_TOO_LONG;
    if (b->fit == SRV_FITS && b->cap - b->n <= n) {
        size_t cap = 2 * b->cap + n + 1;
        if (length >= b->n + n && cap > length + 1) cap = length + 1; /* at most what is still to come */
        grow(all, b, cap);
    }
    if (b->fit != SRV_FITS) return drop(all, b, n);
    memcpy(b->data + b->n, data, n);
    b->n += n;
    b->data[b->n] = '\0';
    return true;
}

void srv_body_fini(srv_bodies *all, srv_body *b)
{
    release(all, b);
}
