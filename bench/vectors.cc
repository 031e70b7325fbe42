/* vectors.cc -- search for vectors against hnswlib called directly, in turns; and recall and time of each kind.
 *
 *     build/bench/vectors [N=20000] [DIMS=384] [ROUNDS=3]
 *
 * Vectors are points around N / 50 middles, of length 1; queries are points of the same kind. Both sides have one
 * thread, the same M, efConstruction and ef, and hnswlib its own distance (AVX-512 where this file is compiled with it).
 */
#include <hnswlib/hnswlib.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

extern "C" {
#include "retrieve/vectors/vectors.h"
}

namespace {

enum { M = 16, EFFORT = 200, BREADTH = 64, K = 10, QUERIES = 500 };

double now()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<float> points(size_t n, size_t dims, const std::vector<float> &middles, unsigned seed)
{
    std::mt19937 rng(seed);
    std::normal_distribution<float> noise(0, 1);
    std::vector<float> v(n * dims);
    const size_t n_middles = middles.size() / dims;
    for (size_t i = 0; i < n; i++) {
        const float *m = middles.data() + rng() % n_middles * dims;
        double square = 0;
        for (size_t k = 0; k < dims; k++) v[i * dims + k] = m[k] + 0.8f * noise(rng);
        for (size_t k = 0; k < dims; k++) square += (double)v[i * dims + k] * v[i * dims + k];
        for (size_t k = 0; k < dims; k++) v[i * dims + k] /= (float)std::sqrt(square);
    }
    return v;
}

void check(sp_err err)
{
    if (err == SP_OK) return;
    fprintf(stderr, "vectors: %s\n", sp_error_detail());
    exit(1);
}

typedef std::vector<std::vector<int64_t>> found;

double recall(const found &a, const found &truth)
{
    size_t n = 0, all = 0;
    for (size_t i = 0; i < truth.size(); i++) {
        const std::set<int64_t> wanted(truth[i].begin(), truth[i].end());
        for (int64_t id : a[i]) n += wanted.count(id);
        all += wanted.size();
    }
    return (double)n / (double)all;
}

sp_vectors *make(sp_vectors_kind kind, const std::vector<float> &v, size_t n, size_t dims, double *seconds)
{
    sp_vectors *x;
    sp_vectors_opts o = {};
    o.kind = kind;
    o.n_dims = (int)dims;
    o.links = M;
    o.effort = EFFORT;
    std::vector<int64_t> ids(n);
    for (size_t i = 0; i < n; i++) ids[i] = (int64_t)i;
    const double from = now();
    check(sp_vectors_create(&o, &x));
    check(sp_vectors_train(x, v.data(), n < 25000 ? n : 25000, NULL));
    check(sp_vectors_add(x, ids.data(), v.data(), n, NULL));
    *seconds = now() - from;
    return x;
}

bool go_on(const sp_near *, int, bool, void *)
{
    return true;
}

double ask(const sp_vectors *x, const std::vector<float> &q, size_t dims, int n_stages, found *out)
{
    sp_near near[K];
    out->assign(QUERIES, {});
    const double from = now();
    for (size_t i = 0; i < QUERIES; i++) {
        sp_vectors_query o = {};
        int n;
        o.v = q.data() + i * dims;
        o.k = K;
        o.breadth = 0;
        o.n_stages = n_stages;
        o.on_stage = n_stages ? go_on : NULL;
        check(sp_vectors_search(x, &o, near, &n));
        for (int k = 0; k < n; k++) (*out)[i].push_back(near[k].id);
    }
    return (now() - from) / QUERIES * 1e6;
}

double ask_directly(hnswlib::HierarchicalNSW<float> &g, const std::vector<float> &q, size_t dims, found *out)
{
    out->assign(QUERIES, {});
    const double from = now();
    for (size_t i = 0; i < QUERIES; i++) {
        auto best = g.searchKnn(q.data() + i * dims, K);
        for (; !best.empty(); best.pop()) (*out)[i].push_back((int64_t)best.top().second);
    }
    return (now() - from) / QUERIES * 1e6;
}

} // namespace

int main(int argc, char **argv)
{
    const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000, dims = argc > 2 ? strtoul(argv[2], NULL, 10) : 384;
    const int rounds = argc > 3 ? atoi(argv[3]) : 3;
    std::mt19937 rng(1);
    std::normal_distribution<float> noise(0, 1);
    std::vector<float> middles((n / 50 + 1) * dims);
    for (float &x : middles) x = noise(rng);
    const std::vector<float> v = points(n, dims, middles, 2), q = points(QUERIES, dims, middles, 3);
    found truth, got;
    double seconds;
    sp_vectors *flat = make(SP_VECTORS_FLAT, v, n, dims, &seconds), *ivf, *graph = NULL;
    const double flat_us = ask(flat, q, dims, 0, &truth);
    ivf = make(SP_VECTORS_IVF, v, n, dims, &seconds);
    const double ivf_us = ask(ivf, q, dims, 0, &got);
    printf("%zu vectors of %zu, %d queries, k %d; one thread\n", n, dims, (int)QUERIES, (int)K);
    printf("flat  %8.0f us a search\n", flat_us);
    printf("ivf   %8.0f us a search, recall %.3f; built in %.1f s\n", ivf_us, recall(got, truth), seconds);
    for (int r = 0; r < rounds; r++) {
        hnswlib::InnerProductSpace space(dims);
        const double from = now();
        hnswlib::HierarchicalNSW<float> g(&space, n, M, EFFORT);
        for (size_t i = 0; i < n; i++) g.addPoint(v.data() + i * dims, i);
        const double directly = now() - from;
        g.setEf(BREADTH);
        sp_vectors_destroy(graph);
        graph = make(SP_VECTORS_HNSW, v, n, dims, &seconds);
        found mine, staged;
        const double direct_us = ask_directly(g, q, dims, &got), us = ask(graph, q, dims, 0, &mine);
        const double again_us = ask_directly(g, q, dims, &got), staged_us = ask(graph, q, dims, 8, &staged);
        printf("hnsw  build %.1f s, hnswlib %.1f s: %.2fx; search %.0f us (8 stages %.0f), hnswlib %.0f, %.0f: %.2fx; "
               "recall %.3f, hnswlib %.3f; staged = unstaged: %s\n",
               seconds, directly, seconds / directly, us, staged_us, direct_us, again_us,
               us / ((direct_us + again_us) / 2), recall(mine, truth), recall(got, truth), mine == staged ? "yes" : "NO");
    }
    sp_vectors_destroy(flat);
    sp_vectors_destroy(ivf);
    sp_vectors_destroy(graph);
    return 0;
}
