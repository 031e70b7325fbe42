#include "cache/rank.h"

sp_err sp_rank_reserve(sp_rank *r, size_t n)
{
    return n > r->heap.n ? sp_vec_reserve(&r->heap, n - r->heap.n) : SP_OK;
}

void sp_rank_fini(sp_rank *r)
{
    sp_vec_fini(&r->heap);
}

static sp_rank_place *place_of(const sp_rank *r, sp_copy *c)
{
    return &c->rank[r->which];
}

/* below -- a leaves before b. */
static bool below(const sp_rank *r, const sp_copy *a, const sp_copy *b)
{
    double x = a->rank[r->which].priority, y = b->rank[r->which].priority;
    return x < y || (x == y && a->used.order < b->used.order);
}

static void set(sp_rank *r, size_t i, sp_copy *c)
{
    r->heap.v[i] = c;
    place_of(r, c)->slot = i + 1;
}

static void rise(sp_rank *r, size_t i)
{
    sp_copy *c = r->heap.v[i];
    for (; i && below(r, c, r->heap.v[(i - 1) / 2]); i = (i - 1) / 2)
        set(r, i, r->heap.v[(i - 1) / 2]);
    set(r, i, c);
}

static void sink(sp_rank *r, size_t i)
{
    sp_copy *c = r->heap.v[i];
    for (size_t child; (child = 2 * i + 1) < r->heap.n; i = child) {
        if (child + 1 < r->heap.n && below(r, r->heap.v[child + 1], r->heap.v[child])) child++;
        if (!below(r, r->heap.v[child], c)) break;
        set(r, i, r->heap.v[child]);
    }
    set(r, i, c);
}

void sp_rank_put(sp_rank *r, sp_copy *c, double priority)
{
    sp_rank_place *at = place_of(r, c);
    at->priority = priority;
    if (!at->slot) {
        assert(r->heap.n < r->heap.cap);
        set(r, r->heap.n++, c);
    }
    rise(r, at->slot - 1);
    sink(r, at->slot - 1);
}

void sp_rank_drop(sp_rank *r, sp_copy *c)
{
    size_t slot = place_of(r, c)->slot;
    if (!slot) return;
    place_of(r, c)->slot = 0;
    sp_copy *last = r->heap.v[--r->heap.n];
    if (last == c) return;
    set(r, slot - 1, last);
    rise(r, slot - 1);
    sink(r, place_of(r, last)->slot - 1);
}

void sp_rank_back(sp_rank *r, sp_copy *c)
{
    sp_rank_place *at = place_of(r, c);
    if (!at->slot) sp_rank_put(r, c, at->priority);
}

sp_copy *sp_rank_least(sp_rank *r)
{
    while (r->heap.n && !sp_copy_evictable(r->heap.v[0])) sp_rank_drop(r, r->heap.v[0]);
    return r->heap.n ? r->heap.v[0] : NULL;
}
