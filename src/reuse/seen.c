/* seen.c -- what a copy that is computed in its place depends on, besides the segments before it.
 *
 *   a prompt      head | A | B | question    B is computed after A
 *   another one   head | B | C | question    C is computed over that copy of B: its keys and values depend on A
 *
 * When A is deleted, C goes with B. So C lists A in `below`, and what is computed over C takes over the list. Lists
 * grow with the prompts; one that is too long becomes an id that stands for all segments. */
#include <stdlib.h>
#include <string.h>

#include "reuse/parts.h"

/* Ascending, without repetitions. */
typedef struct id_set {
    sp_digest *v; /* [SP_COPY_MOST_BELOW + 1] */
    int n;
} id_set;

/* add -- does nothing if the set is too large anyway. */
static void add(id_set *s, const sp_digest *id)
{
    int low = 0, high = s->n;
    while (low < high) {
        const int middle = (low + high) / 2, order = memcmp(s->v[middle].b, id->b, sizeof id->b);
        if (order == 0) return;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (s->n > SP_COPY_MOST_BELOW) return;
    memmove(s->v + low + 1, s->v + low, (size_t)(s->n - low) * sizeof *s->v);
    s->v[low] = *id;
    s->n++;
}

/* add_new -- those that the copy does not list as its own or as `before`. */
static void add_new(id_set *s, const sp_digest *ids, int n, const sp_digest *own, const sp_copy_facts *of)
{
    for (int i = 0; i < n; i++) {
        bool has = sp_digest_eq(&ids[i], own);
        for (int k = 0; k < of->n_before && !has; k++) has = sp_digest_eq(&ids[i], &of->before[k]);
        if (!has) add(s, &ids[i]);
    }
}

static bool is_all(const id_set *s)
{
    return s->n > SP_COPY_MOST_BELOW || (s->n && sp_digest_eq(&s->v[0], &sp_copy_below_all));
}

sp_err sp_reuse_list_below(const sp_reuse_input *in, int i, sp_arena *arena, sp_copy_facts *out)
{
    const sp_digest *own = &in->ids[i];
    id_set s = {.v = sp_arena_take(arena, SP_COPY_MOST_BELOW + 1, sizeof *s.v)};
    if (!s.v) return sp_fail_nomem("what a copy depends on");
    add_new(&s, in->ids, i, own, out); /* computed by this plan after segments that it does not see itself */
    for (int k = 0; k <= i; k++) {
        const sp_copy *used = in->found[k].copy;
        if (!used) continue;
        add_new(&s, used->facts.before, used->facts.n_before, own, out);
        add_new(&s, used->facts.below, used->facts.n_below, own, out);
    }
    out->below = is_all(&s) ? &sp_copy_below_all : s.v;
    out->n_below = is_all(&s) ? 1 : s.n;
    return SP_OK;
}
