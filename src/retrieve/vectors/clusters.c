/* clusters.c -- vectors in lists: one list (flat), or the list of the nearest of some centroids (IVF).
 *
 *   centroids  [n_lists, n_dims]       found by k-means of a sample, of length 1
 *   list       ids [n], rows [n, n_dims]
 *
 * A search visits the lists of the `breadth` nearest centroids, nearest first, in groups; flat: slices of the list. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "retrieve/vectors/vectors_int.h"

enum {
    ROUNDS = 10,       /* of k-means */
    STOP_ROWS = 4096,  /* between two checks for the end of a stage */
    DEFAULT_SHARE = 16, /* 1/16 of the clusters are searched, */
    DEFAULT_LEAST = 8,  /* but at least this many */
    SIEVE_BITS = 65536  /* of the ids that a query allows */
};

typedef struct list {
    SP_VEC(int64_t) ids;
    SP_VEC(float) rows;
} list;

struct sp_clusters {
    size_t n_dims, most; /* most: lists of IVF; 0: as many as suit; of flat 1 */
    bool flat;
    sp_product_fn *product;
    list *lists; /* [n_lists] */
    float *centroids;
    size_t n_lists, n;
};

sp_err sp_clusters_create(const sp_vectors_opts *o, sp_clusters **out)
{
    sp_clusters *c = SP_NEW(sp_clusters);
    if (!c) return sp_fail_nomem("vectors");
    *c = (sp_clusters){.n_dims = (size_t)o->n_dims,
                       .most = (size_t)o->n_clusters,
                       .flat = o->kind == SP_VECTORS_FLAT,
                       .product = sp_product_best()};
    c->lists = c->flat ? SP_NEW(list) : NULL;
    c->n_lists = c->flat;
    if (c->flat && !c->lists) {
        sp_free(c);
        return sp_fail_nomem("vectors");
    }
    *out = c;
    return SP_OK;
}

static void free_lists(sp_clusters *c)
{
    for (size_t i = 0; i < c->n_lists; i++) {
        sp_vec_fini(&c->lists[i].ids);
        sp_vec_fini(&c->lists[i].rows);
    }
    sp_free(c->lists);
    sp_free(c->centroids);
}

void sp_clusters_destroy(sp_clusters *c)
{
    if (!c) return;
    free_lists(c);
    sp_free(c);
}

size_t sp_clusters_count(const sp_clusters *c)
{
    return c->n;
}

const float *sp_clusters_centroids(const sp_clusters *c, size_t *n)
{
    *n = c->centroids ? c->n_lists : 0;
    return c->centroids;
}

sp_err sp_clusters_use(sp_clusters *c, const float *centroids, size_t n)
{
    if (n == 0 || c->n) return sp_fail(SP_E_ARG, "vectors: %zu clusters", n);
    list *lists = SP_NEW_N(list, n);
    float *copy = sp_alloc(n * c->n_dims, sizeof *copy);
    if (!lists || !copy) {
        sp_free(lists);
        sp_free(copy);
        return sp_fail_nomem("clusters");
    }
    memcpy(copy, centroids, n * c->n_dims * sizeof *copy);
    free_lists(c);
    c->lists = lists;
    c->centroids = copy;
    c->n_lists = n;
    return SP_OK;
}

/* -- k-means ----------------------------------------------------------------------------------- */

/* nearest -- of n centroids. */
static size_t nearest(const sp_clusters *c, const float *centroids, size_t n, const float *v)
{
    size_t best = 0;
    float most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const float p = c->product(centroids + i * c->n_dims, v, c->n_dims);
        if (p > most) best = i, most = p;
    }
    return best;
}

typedef struct assigning {
    const sp_clusters *c;
    const float *centroids, *v;
    size_t n_centroids, n;
    uint32_t *to; /* [n] */
} assigning;

enum { PIECE = 64 };

static void assign_piece(void *arg, int piece, int n_pieces)
{
    const assigning *a = arg;
    const size_t from = (size_t)piece * PIECE, to = SP_MIN(from + PIECE, a->n);
    for (size_t i = from; i < to; i++)
        a->to[i] = (uint32_t)nearest(a->c, a->centroids, a->n_centroids, a->v + i * a->c->n_dims);
}

static void assign(assigning *a, sp_team *team)
{
    const int n_pieces = (int)((a->n + PIECE - 1) / PIECE);
    if (team)
        sp_team_share(team, assign_piece, a, n_pieces);
    else
        for (int i = 0; i < n_pieces; i++) assign_piece(a, i, n_pieces);
}

static void scale(float *v, size_t n, sp_product_fn *product)
{
    const float length = sqrtf(product(v, v, n));
    for (size_t i = 0; i < n && length > 0; i++) v[i] /= length;
}

/* move_centroids -- to the direction of the mean of the vectors nearest to each; empty ones stay. sizes: scratch. */
static void move_centroids(const assigning *a, float *centroids, size_t *sizes)
{
    const size_t d = a->c->n_dims;
    memset(sizes, 0, a->n_centroids * sizeof *sizes);
    for (size_t i = 0; i < a->n; i++) {
        float *to = centroids + a->to[i] * d;
        if (sizes[a->to[i]]++ == 0) memset(to, 0, d * sizeof *to);
        for (size_t k = 0; k < d; k++) to[k] += a->v[i * d + k];
    }
    for (size_t i = 0; i < a->n_centroids; i++) scale(centroids + i * d, d, a->c->product);
}

sp_err sp_clusters_train(sp_clusters *c, const float *v, size_t n, sp_team *team)
{
    const size_t fitting = (size_t)(2 * sqrt((double)n)) + 1, n_lists = SP_MIN(c->most ? c->most : fitting, n);
    if (n == 0) return sp_fail(SP_E_ARG, "vectors: no vectors to cluster");
    float *centroids = sp_alloc(n_lists * c->n_dims, sizeof *centroids);
    assigning a = {.c = c, .centroids = centroids, .v = v, .n = n, .n_centroids = n_lists};
    size_t *sizes = sp_alloc(n_lists, sizeof *sizes);
    a.to = sp_alloc(n, sizeof *a.to);
    sp_err err = centroids && sizes && a.to ? SP_OK : sp_fail_nomem("clusters");
    for (size_t i = 0; i < n_lists && err == SP_OK; i++) /* evenly spaced ones begin */
        memcpy(centroids + i * c->n_dims, v + i * n / n_lists * c->n_dims, c->n_dims * sizeof *centroids);
    for (int i = 0; i < ROUNDS && err == SP_OK; i++) {
        assign(&a, team);
        move_centroids(&a, centroids, sizes);
    }
    if (err == SP_OK) err = sp_clusters_use(c, centroids, n_lists);
    sp_free(centroids);
    sp_free(sizes);
    sp_free(a.to);
    return err;
}

/* -- changes ----------------------------------------------------------------------------------- */

void sp_clusters_assign(const sp_clusters *c, const float *v, size_t n, sp_team *team, uint32_t *lists)
{
    assigning a = {
        .c = c, .centroids = c->centroids, .v = v, .n = n, .n_centroids = c->n_lists, .to = lists};
    if (c->flat)
        memset(lists, 0, n * sizeof *lists);
    else
        assign(&a, team);
}

sp_err sp_clusters_add(sp_clusters *c, const int64_t *ids, const float *v, size_t n, const uint32_t *lists)
{
    for (size_t i = 0; i < n; i++) {
        const size_t to = c->flat ? 0 : lists[i];
        if (to >= c->n_lists) return sp_fail(SP_E_FORMAT, "vectors: there is no cluster %zu", to);
        list *l = &c->lists[to];
        SP_TRY(sp_vec_reserve(&l->ids, 1));
        SP_TRY(sp_vec_reserve(&l->rows, c->n_dims));
        l->ids.v[l->ids.n++] = ids[i];
        memcpy(l->rows.v + l->rows.n, v + i * c->n_dims, c->n_dims * sizeof *v);
        l->rows.n += c->n_dims;
        c->n++;
    }
    return SP_OK;
}

static int by_id(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void sp_clusters_remove(sp_clusters *c, const int64_t *ids, size_t n)
{
    for (size_t i = 0; i < c->n_lists; i++) {
        list *l = &c->lists[i];
        size_t kept = 0;
        for (size_t k = 0; k < l->ids.n; k++) {
            if (n && bsearch(&l->ids.v[k], ids, n, sizeof *ids, by_id)) continue;
            if (kept != k) memcpy(l->rows.v + kept * c->n_dims, l->rows.v + k * c->n_dims, c->n_dims * sizeof(float));
            l->ids.v[kept++] = l->ids.v[k];
        }
        c->n -= l->ids.n - kept;
        l->ids.n = kept;
        l->rows.n = kept * c->n_dims;
    }
}

sp_err sp_clusters_ids(const sp_clusters *c, sp_vector_ids *out)
{
    SP_TRY(sp_vec_reserve(out, c->n + 1));
    for (size_t i = 0; i < c->n_lists; i++)
        for (size_t k = 0; k < c->lists[i].ids.n; k++) out->v[out->n++] = c->lists[i].ids.v[k];
    return SP_OK;
}

/* -- search ------------------------------------------------------------------------------------ */

/* A running search. */
typedef struct visit {
    const sp_clusters *c;
    const sp_vectors_query *q;
    sp_best *best;
    sp_near *sorted;
    size_t n_done, n_next, n_each, n_all; /* units, lists or rows of the one list: a stage ends at n_next */
    uint64_t *sieve; /* [SIEVE_BITS / 64]: the bit of an allowed id is set; NULL: all are allowed */
} visit;

static size_t bit_of(int64_t id)
{
    return (size_t)((uint64_t)id % SIEVE_BITS);
}

static sp_err make_sieve(visit *v)
{
    const sp_vectors_query *q = v->q;
    if (!q->allowed) return SP_OK;
    v->sieve = SP_NEW_N(uint64_t, SIEVE_BITS / 64);
    if (!v->sieve) return sp_fail_nomem("vectors");
    for (size_t i = 0; i < q->n_allowed; i++)
        v->sieve[bit_of(q->allowed[i]) / 64] |= UINT64_C(1) << bit_of(q->allowed[i]) % 64;
    return SP_OK;
}

/* is_allowed -- the sieve alone rejects most ids that are not. */
static bool is_allowed(const visit *v, int64_t id)
{
    return !v->sieve || ((v->sieve[bit_of(id) / 64] >> bit_of(id) % 64 & 1) && sp_is_allowed(v->q, id));
}

/* advance -- n units are done. Errors: SP_E_CANCELED. */
static sp_err advance(visit *v, size_t n)
{
    v->n_done += n;
    if (!v->q->on_stage || (v->n_done < v->n_next && v->n_done < v->n_all)) return SP_OK;
    v->n_next = v->n_done + v->n_each;
    const int n_best = sp_best_sort(v->best, v->sorted);
    return v->q->on_stage(v->sorted, n_best, v->n_done >= v->n_all, v->q->user) ? SP_OK : SP_E_CANCELED;
}

static void compare(const visit *v, const list *l, size_t from, size_t to)
{
    const sp_clusters *c = v->c;
    for (size_t i = from; i < to; i++) {
        if (!is_allowed(v, l->ids.v[i])) continue;
        const float distance = 1 - c->product(v->q->v, l->rows.v + i * c->n_dims, c->n_dims);
        sp_best_add(v->best, (sp_near){l->ids.v[i], distance});
    }
}

static sp_err visit_one(visit *v)
{
    const list *l = &v->c->lists[0];
    for (size_t i = 0, to; i < l->ids.n; i = to) {
        to = SP_MIN(SP_MIN(i + STOP_ROWS, v->n_next), l->ids.n);
        compare(v, l, i, to);
        SP_TRY(advance(v, to - i));
    }
    return SP_OK;
}

static sp_err visit_lists(visit *v, size_t n)
{
    const sp_clusters *c = v->c;
    sp_best near = {.k = (int)n, .v = sp_alloc(2 * n, sizeof *near.v)};
    if (!near.v) return sp_fail_nomem("clusters");
    for (size_t i = 0; i < c->n_lists; i++)
        sp_best_add(&near, (sp_near){(int64_t)i, 1 - c->product(v->q->v, c->centroids + i * c->n_dims, c->n_dims)});
    sp_near *order = near.v + n;
    sp_best_sort(&near, order);
    sp_err err = SP_OK;
    for (size_t i = 0; i < n && err == SP_OK; i++) {
        const list *l = &c->lists[order[i].id];
        compare(v, l, 0, l->ids.n);
        err = advance(v, 1);
    }
    sp_free(near.v);
    return err;
}

sp_err sp_clusters_search(const sp_clusters *c, const sp_vectors_query *q, sp_best *best, sp_near *sorted)
{
    const size_t share = SP_MAX((c->n_lists + DEFAULT_SHARE - 1) / DEFAULT_SHARE, (size_t)DEFAULT_LEAST);
    size_t n_probes = q->breadth > 0 ? (size_t)q->breadth : share;
    if (n_probes > c->n_lists || q->allowed) n_probes = c->n_lists; /* what is allowed may be anywhere */
    const size_t n_all = c->flat ? c->lists[0].ids.n : n_probes;
    const size_t n_stages = q->on_stage && q->n_stages > 1 ? (size_t)q->n_stages : 1;
    visit v = {.c = c, .q = q, .best = best, .sorted = sorted, .n_all = n_all};
    v.n_each = v.n_next = SP_MAX((n_all + n_stages - 1) / n_stages, (size_t)1);
    SP_TRY(make_sieve(&v));
    sp_err err = c->flat ? visit_one(&v) : visit_lists(&v, n_probes);
    sp_free(v.sieve);
    return err;
}
