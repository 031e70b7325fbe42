/* vectors.cc -- search for vectors against hnswlib called directly, in turns; recall, time and memory of each kind.
 *
 *     build/bench/vectors [N=20000] [DIMS=384] [ROUNDS=3] [FILE]
 *     bench/real_vectors.py INDEX vectors.f32      makes FILE from an index with vectors
 *
 * ROUNDS 0: no hnswlib; the graph is built with all cores, written and opened again, in wall time. For 10^6 vectors.
 *
 * FILE has real vectors (f32, DIMS each, of length 1): those are taken, and beyond them copies with noise. Without it,
 * vectors are points around N / 50 middles. Queries are copies with noise, too. Both sides have one thread, the same
 * M, efConstruction and ef, and hnswlib its own distance (AVX-512 where this file is compiled with it). They take
 * turns, at building every SLICE vectors, at searching every query; times are the thread's CPU time, so that what else
 * the machine does counts little.
 */
#include <hnswlib/hnswlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

#include <ctime>
#include <unistd.h>

extern "C" {
#include "base/threads.h"
#include "retrieve/vectors/vectors.h"
}

#include <sys/stat.h>

namespace {

enum { M = 16, EFFORT = 200, BREADTH = 64, K = 10, QUERIES = 500, SLICE = 500 };

double now()
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double resident_mb()
{
    long all = 0, here = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &all, &here) != 2) here = 0;
    if (f) fclose(f);
    return (double)here * (double)sysconf(_SC_PAGESIZE) * 1e-6;
}

/* read_points -- the rows of a file. */
std::vector<float> read_points(const char *path, size_t dims)
{
    std::vector<float> v;
    FILE *f = fopen(path, "rb");
    if (!f) return v;
    for (std::vector<float> row(dims); fread(row.data(), sizeof(float), dims, f) == dims;)
        v.insert(v.end(), row.begin(), row.end());
    fclose(f);
    return v;
}

/* points -- n of them: the first are `real`, the others copies of `middles` with noise, of length 1. */
std::vector<float> points(size_t n, size_t dims, const std::vector<float> &middles, bool real, float spread,
                          unsigned seed)
{
    std::mt19937 rng(seed);
    std::normal_distribution<float> noise(0, 1);
    std::vector<float> v(n * dims);
    const size_t n_middles = middles.size() / dims;
    for (size_t i = 0; i < n; i++) {
        const bool copy = real && i < n_middles;
        const float *m = middles.data() + (copy ? i : rng() % n_middles) * dims;
        double square = 0;
        for (size_t k = 0; k < dims; k++) v[i * dims + k] = m[k] + (copy ? 0 : spread * noise(rng));
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

sp_vectors *create(sp_vectors_kind kind, size_t dims)
{
    sp_vectors *x;
    sp_vectors_opts o = {};
    o.kind = kind;
    o.n_dims = (int)dims;
    o.links = M; /* of a graph, as `effort` */
    o.effort = EFFORT;
    check(sp_vectors_create(&o, &x));
    return x;
}

/* make -- flat or IVF, built in one call. */
sp_vectors *make(sp_vectors_kind kind, const std::vector<float> &v, size_t n, size_t dims, double *seconds)
{
    std::vector<int64_t> ids(n);
    for (size_t i = 0; i < n; i++) ids[i] = (int64_t)i;
    const double from = now();
    sp_vectors *x = create(kind, dims);
    check(sp_vectors_train(x, v.data(), n < 25000 ? n : 25000, NULL));
    check(sp_vectors_add(x, ids.data(), v.data(), n, NULL));
    *seconds = now() - from;
    return x;
}

bool go_on(const sp_near *, int, bool, void *)
{
    return true;
}

/* ask -- one query; returns its seconds. */
double ask(const sp_vectors *x, const float *q, int n_stages, std::vector<int64_t> *out)
{
    sp_near near[K];
    sp_vectors_query o = {};
    int n;
    o.v = q;
    o.k = K;
    o.n_stages = n_stages;
    o.on_stage = n_stages ? go_on : NULL;
    const double from = now();
    check(sp_vectors_search(x, &o, near, &n));
    const double took = now() - from;
    for (int k = 0; k < n; k++) out->push_back(near[k].id);
    return took;
}

double ask_all(const sp_vectors *x, const std::vector<float> &q, size_t dims, int n_stages, found *out)
{
    double took = 0;
    out->assign(QUERIES, {});
    for (size_t i = 0; i < QUERIES; i++) took += ask(x, q.data() + i * dims, n_stages, &(*out)[i]);
    return took / QUERIES * 1e6;
}

double ask_directly(hnswlib::HierarchicalNSW<float> &g, const float *q, std::vector<int64_t> *out)
{
    const double from = now();
    auto best = g.searchKnn(q, K);
    for (; !best.empty(); best.pop()) out->push_back((int64_t)best.top().second);
    return now() - from;
}

/* compare_graphs -- a round: both build, both search. */
void compare_graphs(const std::vector<float> &v, const std::vector<float> &q, size_t n, size_t dims,
                    const found &truth)
{
    hnswlib::InnerProductSpace space(dims);
    sp_vectors *graph = create(SP_VECTORS_HNSW, dims);
    double ours = 0, directly = 0, us = 0, direct_us = 0, staged_us = 0, mb = resident_mb(), direct_mb;
    hnswlib::HierarchicalNSW<float> g(&space, n, M, EFFORT);
    check(sp_vectors_reserve(graph, n));
    for (size_t i = 0; i < n; i += SLICE) {
        const size_t end = i + SLICE < n ? i + SLICE : n;
        double from = now();
        for (size_t k = i; k < end; k++) g.addPoint(v.data() + k * dims, k);
        directly += now() - from;
        std::vector<int64_t> ids;
        for (size_t k = i; k < end; k++) ids.push_back((int64_t)k);
        from = now();
        check(sp_vectors_add(graph, ids.data(), v.data() + i * dims, end - i, NULL));
        ours += now() - from;
    }
    g.setEf(BREADTH);
    direct_mb = (double)n * (double)g.size_data_per_element_ * 1e-6;
    mb = resident_mb() - mb - direct_mb;
    found mine(QUERIES), staged(QUERIES), got(QUERIES);
    for (size_t i = 0; i < QUERIES; i++) { /* a search warms the memory of the next on its graph: each is asked twice */
        const float *v = q.data() + i * dims;
        std::vector<int64_t> unused;
        ask_directly(g, v, &unused);
        direct_us += ask_directly(g, v, &got[i]) / QUERIES * 1e6;
        ask(graph, v, 0, &unused);
        us += ask(graph, v, 0, &mine[i]) / QUERIES * 1e6;
        staged_us += ask(graph, v, 8, &staged[i]) / QUERIES * 1e6;
    }
    printf("hnsw  build %.1f s, hnswlib %.1f s: %.2fx; search %.0f us (8 stages %.0f), hnswlib %.0f: %.2fx; "
           "recall %.3f, hnswlib %.3f; %.0f MB, of hnswlib %.0f; staged = unstaged: %s\n",
           ours, directly, ours / directly, us, staged_us, direct_us, us / direct_us, recall(mine, truth),
           recall(got, truth), mb, direct_mb, mine == staged ? "yes" : "NO");
    fflush(stdout);
    sp_vectors_destroy(graph);
}

double wall()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* build_alone -- ours, on all cores, with a line of progress for each tenth; then its file. */
void build_alone(const std::vector<float> &v, const std::vector<float> &q, size_t n, size_t dims, const found &truth)
{
    sp_vectors *graph, *opened;
    sp_team *team;
    check(sp_team_create(&team, 0));
    const double mb = resident_mb();
    double from = wall();
    graph = create(SP_VECTORS_HNSW, dims);
    check(sp_vectors_reserve(graph, n));
    for (size_t i = 0; i < n; i += SLICE) {
        const size_t some = std::min((size_t)SLICE, n - i);
        std::vector<int64_t> ids(some);
        for (size_t k = 0; k < some; k++) ids[k] = (int64_t)(i + k);
        check(sp_vectors_add(graph, ids.data(), v.data() + i * dims, some, team));
        if ((i + some) * 10 / n != i * 10 / n) fprintf(stderr, "%zu of %zu, %.0f s\n", i + some, n, wall() - from);
    }
    const double built = wall() - from, graph_mb = resident_mb() - mb;
    found mine, staged, again;
    ask_all(graph, q, dims, 0, &mine);
    const double us = ask_all(graph, q, dims, 0, &mine), staged_us = ask_all(graph, q, dims, 8, &staged);
    char path[] = "/var/tmp/vectors-XXXXXX";
    close(mkstemp(path));
    from = wall();
    check(sp_vectors_write(graph, path));
    const double written = wall() - from;
    sp_vectors_destroy(graph);
    struct stat st = {};
    stat(path, &st);
    opened = create(SP_VECTORS_HNSW, dims);
    from = wall();
    check(sp_vectors_read(opened, path));
    const double read = wall() - from;
    ask_all(opened, q, dims, 0, &again);
    unlink(path);
    printf("hnsw  built in %.1f s on %d threads, %.0f MB; %.0f us a search (8 stages %.0f), recall %.3f; staged = "
           "unstaged: %s; file of %.0f MB written in %.1f s, opened in %.1f s, the same found: %s\n",
           built, sp_team_size(team), graph_mb, us, staged_us, recall(mine, truth), mine == staged ? "yes" : "NO",
           (double)st.st_size * 1e-6, written, read, again == mine ? "yes" : "NO");
    sp_vectors_destroy(opened);
    sp_team_destroy(team);
}

} // namespace

int main(int argc, char **argv)
{
    const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000, dims = argc > 2 ? strtoul(argv[2], NULL, 10) : 384;
    const int rounds = argc > 3 ? atoi(argv[3]) : 3;
    std::mt19937 rng(1);
    std::normal_distribution<float> noise(0, 1);
    std::vector<float> middles = argc > 4 ? read_points(argv[4], dims) : std::vector<float>((n / 50 + 1) * dims);
    if (argc <= 4)
        for (float &x : middles) x = noise(rng);
    const float spread = argc > 4 ? 0.5f / std::sqrt((float)dims) : 0.8f; /* real ones: a cosine of about 0.9 */
    if (middles.empty()) return fprintf(stderr, "vectors: %s: no vectors\n", argv[4]), 1;
    const std::vector<float> v = points(n, dims, middles, argc > 4, spread, 2);
    const std::vector<float> q = points(QUERIES, dims, middles, false, spread, 3);
    found truth, got, staged;
    double seconds, mb = resident_mb();
    sp_vectors *flat = make(SP_VECTORS_FLAT, v, n, dims, &seconds), *ivf;
    const double flat_mb = resident_mb() - mb, flat_us = ask_all(flat, q, dims, 0, &truth);
    const double flat_staged = ask_all(flat, q, dims, 8, &staged);
    printf("%zu vectors of %zu (%zu of them real), %d queries, k %d; one thread, CPU time\n", n, dims,
           argc > 4 ? std::min(n, middles.size() / dims) : 0, (int)QUERIES, (int)K);
    printf("flat  built in %.2f s, %.0f MB; %.0f us a search (8 stages %.0f); staged = unstaged: %s\n", seconds,
           flat_mb, flat_us, flat_staged, truth == staged ? "yes" : "NO");
    fflush(stdout);
    sp_vectors_destroy(flat);
    mb = resident_mb();
    ivf = make(SP_VECTORS_IVF, v, n, dims, &seconds);
    const double ivf_mb = resident_mb() - mb, ivf_us = ask_all(ivf, q, dims, 0, &got);
    const double ivf_staged = ask_all(ivf, q, dims, 8, &staged);
    printf("ivf   built in %.2f s, %.0f MB; %.0f us a search (8 stages %.0f), recall %.3f; staged = unstaged: %s\n",
           seconds, ivf_mb, ivf_us, ivf_staged, recall(got, truth), got == staged ? "yes" : "NO");
    fflush(stdout);
    sp_vectors_destroy(ivf);
    if (rounds == 0) build_alone(v, q, n, dims, truth);
    for (int r = 0; r < rounds; r++) compare_graphs(v, q, n, dims, truth);
    return 0;
}
