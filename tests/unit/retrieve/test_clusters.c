/* Vectors in clusters: what k-means finds, what is counted, and what a search of all clusters has in common with that
 * of one list. */
#include <math.h>

#include "retrieve/vectors/vectors_int.h"
#include "support/check.h"

enum { DIMS = 3, N = 6 };

/* Two vectors near each of the axes, of length 1. */
static void make_vectors(float v[N * DIMS])
{
    for (int i = 0; i < N; i++) {
        const float side = i % 2 ? 0.3f : 0.1f;
        float *x = v + i * DIMS;
        for (int d = 0; d < DIMS; d++) x[d] = d == i / 2 ? sqrtf(1 - side * side) : d == (i / 2 + 1) % 3 ? side : 0;
    }
}

static sp_clusters *create(sp_vectors_kind kind)
{
    sp_clusters *c = NULL;
    assert_ok(sp_clusters_create(&(sp_vectors_opts){.kind = kind, .n_dims = DIMS, .n_clusters = 3}, &c));
    return c;
}

static sp_clusters *filled(sp_vectors_kind kind, const float *v)
{
    static const int64_t ids[] = {10, 11, 12, 13, 14, 15};
    uint32_t lists[N];
    sp_clusters *c = create(kind);
    if (kind != SP_VECTORS_FLAT) assert_ok(sp_clusters_train(c, v, N, NULL));
    sp_clusters_assign(c, v, N, NULL, lists);
    assert_ok(sp_clusters_add(c, ids, v, N, lists));
    return c;
}

/* Each centroid is the direction of the mean of the vectors that are nearest to it. */
static void centroids_are_means(void **state)
{
    float v[N * DIMS];
    uint32_t lists[N];
    size_t n;
    make_vectors(v);
    sp_clusters *c = filled(SP_VECTORS_IVF, v);
    const float *centroids = sp_clusters_centroids(c, &n);
    assert_int_equal(n, 3);
    sp_clusters_assign(c, v, N, NULL, lists);
    for (int i = 0; i < N; i += 2) {
        double mean[DIMS], length = 0;
        assert_int_equal(lists[i], lists[i + 1]);
        for (int d = 0; d < DIMS; d++) {
            mean[d] = (double)v[i * DIMS + d] + (double)v[(i + 1) * DIMS + d];
            length += mean[d] * mean[d];
        }
        for (int d = 0; d < DIMS; d++)
            assert_float_equal(centroids[lists[i] * DIMS + (size_t)d], mean[d] / sqrt(length), 1e-6);
    }
    sp_clusters_destroy(c);
}

static void what_is_removed_is_not_counted(void **state)
{
    static const sp_vectors_kind kinds[] = {SP_VECTORS_FLAT, SP_VECTORS_IVF};
    for (size_t i = 0; i < SP_COUNT(kinds); i++) {
        float v[N * DIMS];
        sp_vector_ids ids = {0};
        make_vectors(v);
        sp_clusters *c = filled(kinds[i], v);
        assert_int_equal(sp_clusters_count(c), N);
        sp_clusters_remove(c, (const int64_t[]){10, 13, 99}, 3);
        assert_int_equal(sp_clusters_count(c), N - 2);
        assert_ok(sp_clusters_ids(c, &ids));
        assert_int_equal(ids.n, N - 2);
        sp_near found[N], best_of[N];
        sp_best best = {.v = best_of, .k = N};
        const sp_vectors_query q = {.v = v + 3 * DIMS, .k = N, .breadth = 3}; /* 13: gone */
        assert_ok(sp_clusters_search(c, &q, &best, found));
        assert_int_equal(sp_best_sort(&best, found), N - 2);
        assert_int_equal(found[0].id, 12); /* and its row is its own */
        assert_true(found[0].distance > 1e-3f && found[0].distance < 0.1f);
        sp_vec_fini(&ids);
        sp_clusters_destroy(c);
    }
}

/* The others of a list do not end the search of it. */
static void only_allowed_ids_are_found(void **state)
{
    static const sp_vectors_kind kinds[] = {SP_VECTORS_FLAT, SP_VECTORS_IVF};
    static const int64_t allowed[] = {11, 13, 15};
    for (size_t i = 0; i < SP_COUNT(kinds); i++) {
        float v[N * DIMS];
        make_vectors(v);
        sp_clusters *c = filled(kinds[i], v);
        sp_near found[N], best_of[N];
        sp_best best = {.v = best_of, .k = N};
        const sp_vectors_query q = {.v = v + 3 * DIMS, .k = N, .breadth = 3, .allowed = allowed, .n_allowed = 3};
        assert_ok(sp_clusters_search(c, &q, &best, found));
        assert_int_equal(sp_best_sort(&best, found), 3);
        assert_int_equal(found[0].id, 13);
        sp_clusters_destroy(c);
    }
}

/* A damaged file: nothing is written beside the lists. */
static void a_cluster_that_there_is_not_is_refused(void **state)
{
    float v[N * DIMS];
    const int64_t id = 20;
    make_vectors(v);
    sp_clusters *c = filled(SP_VECTORS_IVF, v);
    for (uint32_t to = 3; to < 5; to++)
        assert_fails(sp_clusters_add(c, &id, v, 1, &to), SP_E_FORMAT, "no cluster");
    assert_int_equal(sp_clusters_count(c), N);
    assert_fails(sp_clusters_use(c, v, 2), SP_E_ARG, "clusters"); /* it has vectors */
    sp_clusters_destroy(c);
}

static void nothing_to_train_or_to_find_is_an_error(void **state)
{
    float v[N * DIMS];
    sp_vectors *x;
    sp_near found[N];
    int n = 0;
    make_vectors(v);
    assert_ok(sp_vectors_create(&(sp_vectors_opts){.kind = SP_VECTORS_IVF, .n_dims = DIMS}, &x));
    assert_fails(sp_vectors_train(x, v, 0, NULL), SP_E_ARG, "no vectors to cluster");
    assert_ok(sp_vectors_train(x, v, N, NULL));
    assert_fails(sp_vectors_search(x, &(sp_vectors_query){.v = v, .k = 0}, found, &n), SP_E_ARG, "for 0 vectors");
    sp_vectors_destroy(x);
}

/* The vectors of documents follow each other: each group of them gets its cluster. */
static void groups_in_order_are_told_apart(void **state)
{
    enum { GROUPS = 8, EACH = 20 };
    static float v[GROUPS * EACH * GROUPS];
    uint32_t lists[GROUPS * EACH];
    sp_clusters *c;
    uint64_t seed = 3;
    for (int i = 0; i < GROUPS * EACH; i++)
        for (int d = 0; d < GROUPS; d++)
            v[i * GROUPS + d] = (float)(d == i / EACH) + (float)check_random(&seed, 100) / 1000;
    assert_ok(sp_clusters_create(
        &(sp_vectors_opts){.kind = SP_VECTORS_IVF, .n_dims = GROUPS, .n_clusters = GROUPS}, &c));
    assert_ok(sp_clusters_train(c, v, GROUPS * EACH, NULL));
    sp_clusters_assign(c, v, GROUPS * EACH, NULL, lists);
    for (int i = 0; i < GROUPS * EACH; i++)
        for (int k = 0; k < i; k++) assert_int_equal(lists[i] == lists[k], i / EACH == k / EACH);
    sp_clusters_destroy(c);
}

static bool count_stage(const sp_near *v, int n, bool last, void *user)
{
    ++*(int *)user;
    return true;
}

/* A 16th of the clusters, rounded up, and 8 at least, if there are as many. */
static void some_clusters_are_searched_by_default(void **state)
{
    static const int n_lists[] = {5, 20, 128, 129, 161}, want[] = {5, 8, 8, 9, 11};
    static float v[161 * DIMS];
    static int64_t ids[161];
    static uint32_t lists[161];
    for (int i = 0; i < 161; i++) {
        v[i * DIMS] = cosf((float)i / 30);
        v[i * DIMS + 1] = sinf((float)i / 30);
        ids[i] = i + 1;
    }
    for (size_t i = 0; i < SP_COUNT(n_lists); i++) {
        sp_clusters *c = create(SP_VECTORS_IVF);
        const size_t n = (size_t)n_lists[i];
        int n_stages = 0;
        sp_near found[1], best_of[1];
        sp_best best = {.v = best_of, .k = 1};
        assert_ok(sp_clusters_use(c, v, n));
        sp_clusters_assign(c, v, n, NULL, lists);
        assert_ok(sp_clusters_add(c, ids, v, n, lists));
        const sp_vectors_query q = {.v = v, .k = 1, .n_stages = 1000, .on_stage = count_stage, .user = &n_stages};
        assert_ok(sp_clusters_search(c, &q, &best, found));
        assert_int_equal(n_stages, want[i]);
        sp_clusters_destroy(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(centroids_are_means),
        cmocka_unit_test(what_is_removed_is_not_counted),
        cmocka_unit_test(only_allowed_ids_are_found),
        cmocka_unit_test(a_cluster_that_there_is_not_is_refused),
        cmocka_unit_test(nothing_to_train_or_to_find_is_an_error),
        cmocka_unit_test(groups_in_order_are_told_apart),
        cmocka_unit_test(some_clusters_are_searched_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
