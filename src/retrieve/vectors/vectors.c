#include "retrieve/vectors/vectors.h"

#include <stdlib.h>
#include <string.h>

#include "retrieve/vectors/vectors_int.h"

struct sp_vectors {
    sp_vectors_opts o;
    sp_clusters *clusters; /* flat, IVF */
    sp_hnsw *graph;        /* HNSW */
    sp_chroma *chroma;     /* Chroma: the url of `o` is not kept */
};

static sp_err make(sp_vectors *x)
{
    switch (x->o.kind) {
    case SP_VECTORS_HNSW:
        return sp_hnsw_create(&x->o, &x->graph);
    case SP_VECTORS_CHROMA:
        return sp_chroma_open(&x->o, &x->chroma);
    default:
        return sp_clusters_create(&x->o, &x->clusters);
    }
}

sp_err sp_vectors_create(const sp_vectors_opts *o, sp_vectors **out)
{
    if (o->n_dims < 1 || o->n_dims > 65536) return sp_fail(SP_E_ARG, "vectors of %d numbers", o->n_dims);
    sp_vectors *x = SP_NEW(sp_vectors);
    if (!x) return sp_fail_nomem("vectors");
    x->o = *o;
    if (!x->o.links) x->o.links = 16;
    if (!x->o.effort) x->o.effort = 200;
    sp_err err = make(x);
    x->o.url = NULL;
    if (err == SP_OK)
        *out = x;
    else
        sp_vectors_destroy(x);
    return err;
}

void sp_vectors_destroy(sp_vectors *x)
{
    if (!x) return;
    sp_clusters_destroy(x->clusters);
    sp_hnsw_destroy(x->graph);
    sp_chroma_close(x->chroma);
    sp_free(x);
}

sp_err sp_vectors_clear(sp_vectors *x)
{
    const sp_vectors old = *x;
    if (x->chroma) return sp_chroma_clear(x->chroma);
    sp_err err = make(x);
    if (err != SP_OK) {
        *x = old;
        return err;
    }
    sp_clusters_destroy(old.clusters);
    sp_hnsw_destroy(old.graph);
    return SP_OK;
}

size_t sp_vectors_count(const sp_vectors *x)
{
    return x->chroma  ? sp_chroma_count(x->chroma)
           : x->graph ? sp_hnsw_count(x->graph)
                      : sp_clusters_count(x->clusters);
}

sp_err sp_vectors_train(sp_vectors *x, const float *v, size_t n, sp_team *team)
{
    return x->o.kind == SP_VECTORS_IVF ? sp_clusters_train(x->clusters, v, n, team) : SP_OK;
}

const float *sp_vectors_centroids(const sp_vectors *x, size_t *n)
{
    *n = 0;
    return x->clusters ? sp_clusters_centroids(x->clusters, n) : NULL;
}

sp_err sp_vectors_use(sp_vectors *x, const float *centroids, size_t n)
{
    return x->o.kind == SP_VECTORS_IVF ? sp_clusters_use(x->clusters, centroids, n) : SP_OK;
}

/* -- changes ----------------------------------------------------------------------------------- */

enum { PIECE = 64 }; /* vectors that a thread adds at a time */

typedef struct adding {
    sp_vectors *x;
    const int64_t *ids;
    const float *v;
    size_t n;
    sp_err err; /* written by any thread, only to fail */
} adding;

static void add_piece(void *arg, int piece, int n_pieces)
{
    adding *a = arg;
    const size_t from = (size_t)piece * PIECE, to = SP_MIN(from + PIECE, a->n);
    for (size_t i = from; i < to; i++) {
        sp_err err = sp_hnsw_add(a->x->graph, a->ids[i], a->v + i * (size_t)a->x->o.n_dims);
        if (err != SP_OK) __atomic_store_n(&a->err, err, __ATOMIC_RELAXED);
    }
}

/* add_to_graph -- the first vector alone: it becomes the entry. */
static sp_err add_to_graph(sp_vectors *x, const int64_t *ids, const float *v, size_t n, sp_team *team)
{
    size_t first = 0;
    SP_TRY(sp_hnsw_reserve(x->graph, n));
    if (n && sp_hnsw_count(x->graph) == 0) {
        SP_TRY(sp_hnsw_add(x->graph, ids[0], v));
        first = 1;
    }
    adding a = {.x = x, .ids = ids + first, .v = v + first * (size_t)x->o.n_dims, .n = n - first};
    const int n_pieces = (int)((a.n + PIECE - 1) / PIECE);
    if (team)
        sp_team_share(team, add_piece, &a, n_pieces);
    else
        for (int i = 0; i < n_pieces; i++) add_piece(&a, i, n_pieces);
    return a.err == SP_OK ? SP_OK : sp_fail(a.err, "vectors: the graph is full");
}

void sp_vectors_assign(const sp_vectors *x, const float *v, size_t n, sp_team *team, uint32_t *clusters)
{
    if (x->clusters)
        sp_clusters_assign(x->clusters, v, n, team, clusters);
    else
        memset(clusters, 0, n * sizeof *clusters);
}

sp_err sp_vectors_add_to(sp_vectors *x, const int64_t *ids, const float *v, size_t n, const uint32_t *clusters)
{
    return x->clusters ? sp_clusters_add(x->clusters, ids, v, n, clusters) : sp_vectors_add(x, ids, v, n, NULL);
}

sp_err sp_vectors_add(sp_vectors *x, const int64_t *ids, const float *v, size_t n, sp_team *team)
{
    if (x->graph) return add_to_graph(x, ids, v, n, team);
    if (x->chroma) return sp_chroma_add(x->chroma, ids, v, n);
    uint32_t *clusters = sp_alloc(n + 1, sizeof *clusters);
    if (!clusters) return sp_fail_nomem("vectors");
    sp_vectors_assign(x, v, n, team, clusters);
    sp_err err = sp_clusters_add(x->clusters, ids, v, n, clusters);
    sp_free(clusters);
    return err;
}

sp_err sp_vectors_reserve(sp_vectors *x, size_t n)
{
    return x->graph ? sp_hnsw_reserve(x->graph, n) : SP_OK;
}

sp_err sp_vectors_remove(sp_vectors *x, const int64_t *ids, size_t n)
{
    if (x->chroma) return sp_chroma_remove(x->chroma, ids, n);
    if (x->clusters) sp_clusters_remove(x->clusters, ids, n);
    for (size_t i = 0; i < n && x->graph; i++) SP_TRY(sp_hnsw_remove(x->graph, ids[i]));
    return SP_OK;
}

static int by_id(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

sp_err sp_vectors_ids(const sp_vectors *x, sp_vector_ids *out)
{
    out->n = 0;
    SP_TRY(x->chroma  ? sp_chroma_ids(x->chroma, out)
           : x->graph ? sp_hnsw_ids(x->graph, out)
                      : sp_clusters_ids(x->clusters, out));
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_id);
    return SP_OK;
}

sp_err sp_vectors_write(const sp_vectors *x, const char *path)
{
    return x->graph ? sp_hnsw_write(x->graph, path) : sp_fail(SP_E_ARG, "%s: vectors without a graph", path);
}

sp_err sp_vectors_read(sp_vectors *x, const char *path)
{
    return x->graph ? sp_hnsw_read(x->graph, path) : sp_fail(SP_E_ARG, "%s: vectors without a graph", path);
}

/* -- search ------------------------------------------------------------------------------------ */

bool sp_is_allowed(const sp_vectors_query *q, int64_t id)
{
    return !q->allowed || bsearch(&id, q->allowed, q->n_allowed, sizeof id, by_id) != NULL;
}

static bool is_farther(sp_near a, sp_near b)
{
    return a.distance > b.distance || (a.distance == b.distance && a.id > b.id);
}

void sp_best_add(sp_best *b, sp_near x)
{
    int at = 0;
    if (b->n == b->k && !is_farther(b->v[0], x)) return;
    if (b->n < b->k) { /* up from the end */
        for (at = b->n++; at && is_farther(x, b->v[(at - 1) / 2]); at = (at - 1) / 2) b->v[at] = b->v[(at - 1) / 2];
    } else { /* in place of the farthest, down from the top */
        for (int child; (child = 2 * at + 1) < b->n; at = child) {
            if (child + 1 < b->n && is_farther(b->v[child + 1], b->v[child])) child++;
            if (!is_farther(b->v[child], x)) break;
            b->v[at] = b->v[child];
        }
    }
    b->v[at] = x;
}

static int by_distance(const void *a, const void *b)
{
    const sp_near *x = a, *y = b;
    return is_farther(*x, *y) ? 1 : is_farther(*y, *x) ? -1 : 0;
}

int sp_best_sort(const sp_best *b, sp_near *out)
{
    if (b->n) memcpy(out, b->v, (size_t)b->n * sizeof *out);
    if (b->n) qsort(out, (size_t)b->n, sizeof *out, by_distance);
    return b->n;
}

sp_err sp_vectors_search(const sp_vectors *x, const sp_vectors_query *q, sp_near *out, int *n)
{
    if (q->k < 1) return sp_fail(SP_E_ARG, "a search for %d vectors", q->k);
    const size_t most = SP_MIN((size_t)q->k, sp_vectors_count(x));
    sp_best best = {.k = (int)most, .v = sp_alloc(most + 1, sizeof *best.v)};
    if (!best.v) return sp_fail_nomem("the nearest vectors");
    sp_err err = SP_OK;
    const bool plain = x->graph && !q->on_stage && !q->allowed;
    if (most == 0)
        err = !q->on_stage || q->on_stage(out, 0, true, q->user) ? SP_OK : SP_E_CANCELED;
    else if (plain)
        err = sp_hnsw_plain(x->graph, q, &best);
    else
        err = x->chroma  ? sp_chroma_search(x->chroma, q, &best, out)
              : x->graph ? sp_hnsw_search(x->graph, q, &best, out)
                         : sp_clusters_search(x->clusters, q, &best, out);
    if (err == SP_OK) *n = sp_best_sort(&best, out);
    sp_free(best.v);
    return err;
}
