/* merge.c -- byte-pair merging with a linked list and a heap.
 *
 *   symbols   h <-> e <-> l <-> l <-> o        a list over an array: merging only relinks
 *   heap      (he, 3) (ll, 7) (lo, 9)          every adjacent pair that may be merged
 *
 * Merging the cheapest candidate changes at most two adjacent pairs, which are pushed again; their
 * old candidates stay in the heap and are recognised as outdated when popped:
 *
 *   I1  A symbol only grows to the right, and the symbol that it absorbs gets n = 0.
 *   I2  So a candidate is current if and only if its left symbol is alive and the bytes of that
 *       symbol and its current neighbour are as many as when it was pushed: any merge of either
 *       symbol makes the sum larger.
 *   I3  Each merge removes one symbol and pushes at most two candidates: at most 3 n in all.
 */
#include "model/tokenizer/merge.h"

void sp_merger_fini(sp_merger *m)
{
    sp_vec_fini(&m->symbols);
    sp_vec_fini(&m->heap);
}

void sp_merger_reset(sp_merger *m)
{
    m->symbols.n = m->heap.n = 0;
}

sp_err sp_merger_add(sp_merger *m, uint32_t at, uint32_t n, int32_t id)
{
    if (m->symbols.n == SP_SYMBOL_NONE) return sp_fail(SP_E_LIMIT, "text: too many symbols");
    SP_TRY(sp_vec_reserve(&m->symbols, 1));
    uint32_t i = (uint32_t)m->symbols.n++;
    m->symbols.v[i] = (sp_symbol){
        .at = at, .n = n, .id = id, .prev = i ? i - 1 : SP_SYMBOL_NONE, .next = SP_SYMBOL_NONE};
    if (i) m->symbols.v[i - 1].next = i;
    return SP_OK;
}

/* -- heap: the cheapest candidate on top, of equals the leftmost ----------------------------- */

static bool before(const sp_merge_pair *a, const sp_merge_pair *b)
{
    return a->cost < b->cost || (a->cost == b->cost && a->left < b->left);
}

static sp_err heap_push(sp_merger *m, sp_merge_pair c)
{
    SP_TRY(sp_vec_reserve(&m->heap, 1));
    sp_merge_pair *h = m->heap.v;
    size_t i = m->heap.n++;
    for (; i > 0 && before(&c, &h[(i - 1) / 2]); i = (i - 1) / 2) h[i] = h[(i - 1) / 2];
    h[i] = c;
    return SP_OK;
}

static sp_merge_pair heap_pop(sp_merger *m)
{
    sp_merge_pair *h = m->heap.v, top = h[0], last = h[--m->heap.n];
    size_t i = 0, n = m->heap.n;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&h[child + 1], &h[child])) child++;
        if (!before(&h[child], &last)) break;
        h[i] = h[child];
    }
    h[i] = last;
    return top;
}

/* -- merging --------------------------------------------------------------------------------- */

/* Pushes the pair whose left symbol is `left`, if it exists and can be merged. */
static sp_err offer(sp_merger *m, uint32_t left, sp_pair_fn *pair, const void *user)
{
    if (left == SP_SYMBOL_NONE || m->symbols.v[left].next == SP_SYMBOL_NONE) return SP_OK;
    const sp_symbol *l = &m->symbols.v[left], *r = &m->symbols.v[l->next];
    sp_merge_pair c = {.left = left, .n = l->n + r->n};
    return pair(user, l, r, &c) ? heap_push(m, c) : SP_OK;
}

sp_err sp_merger_run(sp_merger *m, sp_pair_fn *pair, const void *user)
{
    m->heap.n = 0;
    for (uint32_t i = 0; i < m->symbols.n; i++) SP_TRY(offer(m, i, pair, user));
    while (m->heap.n) {
        sp_merge_pair c = heap_pop(m);
        sp_symbol *l = &m->symbols.v[c.left];
        if (l->n == 0 || l->next == SP_SYMBOL_NONE) continue; /* outdated: I2 */
        sp_symbol *r = &m->symbols.v[l->next];
        if (l->n + r->n != c.n) continue;
        l->n = c.n;
        l->id = c.id;
        l->next = r->next;
        r->n = 0; /* I1 */
        if (l->next != SP_SYMBOL_NONE) m->symbols.v[l->next].prev = c.left;
        SP_TRY(offer(m, l->prev, pair, user));
        SP_TRY(offer(m, c.left, pair, user));
    }
    return SP_OK;
}
