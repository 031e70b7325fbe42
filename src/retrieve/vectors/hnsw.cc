/* hnsw.cc -- the graph of hnswlib, with searches that stop after a number of visited nodes and continue.
 *
 * `visit` below walks the lowest layer in the order of the library's searchBaseLayerST: the same candidates, the same
 * bound, the same end. So it finds what the library's searchKnn finds (tests/property/test_staged.c); it can also
 * leave out ids, which the library of this version cannot. */
/* Its functions are not inline: names of our own, for programs that use it, too. */
#define hnswlib       sp_hnswlib
#define AVXCapable    sp_hnswlib_avx
#define AVX512Capable sp_hnswlib_avx512
#define cpuid         sp_hnswlib_cpuid
#define xgetbv        sp_hnswlib_xgetbv
#include <cstdlib>

/* The library prefetches what the link after the last one of a list leads to: lists get room for that link. */
static void *with_room(size_t n)
{
    return std::malloc(n + sizeof(unsigned int));
}
#define malloc(n) with_room(n)
#include <hnswlib/hnswlib.h>
#undef malloc

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <new>

extern "C" {
#include "retrieve/vectors/vectors_int.h"
}

#ifdef __SANITIZE_THREAD__
/* What ThreadSanitizer says of the library's addPoint, and why it is harmless:
 *
 *   lock order  addPoint holds its new node while it locks the node that it looks at, and `global`. It waits for
 *               another new node only on a layer where that one was linked before its own search of the layer began,
 *               so waits follow the order of linking and have no circle. Before a node is linked, nobody who holds
 *               `global` reaches it. Such reports often have no stack to suppress them by, so programs with this
 *               file do without reports on lock order.
 *   race        the state of getRandomLevel is one word: two threads may draw the same layer, which is a valid one. */
extern "C" __attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
    return "detect_deadlocks=0";
}

extern "C" __attribute__((visibility("default"))) const char *__tsan_default_suppressions(void)
{
    return "race:getRandomLevel\n";
}
#endif

namespace {

enum { DEFAULT_BREADTH = 64, FEW = 64 /* allowed ids, times the breadth: each is looked at */ };

struct space final : hnswlib::SpaceInterface<float> {
    struct param {
        size_t n;
        sp_product_fn *product;
    } p;
    explicit space(int n_dims) : p{(size_t)n_dims, sp_product_best()} {}
    static float distance(const void *a, const void *b, const void *param)
    {
        const struct param *p = (const struct param *)param;
        return 1 - p->product((const float *)a, (const float *)b, p->n);
    }
    size_t get_data_size() override { return p.n * sizeof(float); }
    hnswlib::DISTFUNC<float> get_dist_func() override { return distance; }
    void *get_dist_func_param() override { return &p; }
};

typedef hnswlib::HierarchicalNSW<float> graph;
typedef hnswlib::tableint node;
typedef std::pair<float, node> near;

struct by_distance {
    bool operator()(const near &a, const near &b) const noexcept { return a.first < b.first; }
};
typedef std::priority_queue<near, std::vector<near>, by_distance> queue;

/* guarded -- runs fn; an exception becomes an error. */
template <typename F> sp_err guarded(const char *doing, F fn)
{
    try {
        return fn();
    } catch (const std::bad_alloc &) {
        return sp_fail(SP_E_NOMEM, "%s: out of memory", doing);
    } catch (const std::exception &e) {
        return sp_fail(SP_E_FORMAT, "%s: %s", doing, e.what());
    }
}

/* descend -- from the entry to the node of the lowest layer where the search begins. */
node descend(const graph &g, const float *v)
{
    node at = g.enterpoint_node_;
    float nearest = g.fstdistfunc_(v, g.getDataByInternalId(at), g.dist_func_param_);
    for (int level = g.maxlevel_; level > 0; level--)
        for (bool changed = true; changed;) {
            const hnswlib::linklistsizeint *links = g.get_linklist(at, level);
            changed = false;
            for (unsigned short i = 0, n = *(const unsigned short *)links; i < n; i++) {
                const node next = ((const node *)(links + 1))[i];
                const float d = g.fstdistfunc_(v, g.getDataByInternalId(next), g.dist_func_param_);
                if (d < nearest) nearest = d, at = next, changed = true;
            }
        }
    return at;
}

/* A search of the lowest layer under way. */
class visit {
    const graph &g;
    const sp_vectors_query &q;
    const size_t breadth;
    const bool some_hidden; /* removed, or not allowed */
    hnswlib::VisitedList *seen;
    queue best, open; /* open: distances negated */
    float bound = std::numeric_limits<float>::max();

    bool is_hidden(node x) const
    {
        if (!some_hidden) return false;
        return const_cast<graph &>(g).isMarkedDeleted(x) || !sp_is_allowed(&q, (int64_t)g.getExternalLabel(x));
    }
    void look_at(node x)
    {
        if (seen->mass[x] == seen->curV) return;
        seen->mass[x] = seen->curV;
        const float d = g.fstdistfunc_(q.v, g.getDataByInternalId(x), g.dist_func_param_);
        if (best.size() >= breadth && !(bound > d)) return;
        open.emplace(-d, x);
        __builtin_prefetch(g.get_linklist0(open.top().second));
        if (!is_hidden(x)) best.emplace(d, x);
        if (best.size() > breadth) best.pop();
        if (!best.empty()) bound = best.top().first;
    }

public:
    visit(const graph &g, const sp_vectors_query &q, size_t breadth)
        : g(g), q(q), breadth(breadth), some_hidden(g.num_deleted_ > 0 || q.allowed),
          seen(g.visited_list_pool_->getFreeVisitedList())
    {
        const node from = descend(g, q.v);
        seen->mass[from] = seen->curV;
        const float d = is_hidden(from) ? bound : g.fstdistfunc_(q.v, g.getDataByInternalId(from), g.dist_func_param_);
        if (!is_hidden(from)) best.emplace(d, from), bound = d;
        open.emplace(-d, from);
    }
    ~visit() { g.visited_list_pool_->releaseVisitedList(seen); }
    visit(const visit &) = delete;

    /* run -- visits n nodes; false: the search has ended. */
    bool run(size_t n)
    {
        for (; n && !open.empty(); n--) {
            const near now = open.top();
            if (-now.first > bound && (best.size() == breadth || !some_hidden)) return false;
            open.pop();
            const hnswlib::linklistsizeint *links = g.get_linklist0(now.second);
            const node *to = (const node *)(links + 1);
            const unsigned short count = *(const unsigned short *)links;
            if (count) __builtin_prefetch(g.getDataByInternalId(to[0]));
            for (unsigned short i = 0; i < count; i++) {
                if (i + 1 < count) {
                    __builtin_prefetch(seen->mass + to[i + 1]);
                    __builtin_prefetch(g.getDataByInternalId(to[i + 1]));
                }
                look_at(to[i]);
            }
        }
        return !open.empty();
    }
    /* tell -- reports the best k of what was seen. */
    void tell(sp_best *out) const
    {
        queue copy = best;
        out->n = 0;
        for (; !copy.empty(); copy.pop())
            sp_best_add(out, sp_near{(int64_t)g.getExternalLabel(copy.top().second), copy.top().first});
    }
};

size_t breadth_of(const sp_vectors_query *q)
{
    const int breadth = q->breadth > 0 ? q->breadth : DEFAULT_BREADTH;
    return (size_t)(breadth > q->k ? breadth : q->k);
}

} // namespace

struct sp_hnsw {
    space where;
    std::unique_ptr<graph> g;
    size_t links, effort;
    sp_hnsw(int n_dims, size_t links, size_t effort)
        : where(n_dims), g(new graph(&where, 64, links, effort)), links(links), effort(effort) {}
};

sp_err sp_hnsw_create(const sp_vectors_opts *o, sp_hnsw **out)
{
    if (o->links < 2 || o->links > 1024 || o->effort < 1 || o->effort > 1000000)
        return sp_fail(SP_E_ARG, "a graph of %d links and %d candidates for them", o->links, o->effort);
    return guarded("graph", [&] {
        *out = new sp_hnsw(o->n_dims, (size_t)o->links, (size_t)o->effort);
        return SP_OK;
    });
}

void sp_hnsw_destroy(sp_hnsw *h)
{
    delete h;
}

size_t sp_hnsw_count(const sp_hnsw *h)
{
    return h->g->cur_element_count - h->g->num_deleted_;
}

namespace {

/* advise -- asks for huge pages for the nodes: a search reads them in random order, one or two pages each. */
void advise(const graph &g)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t from = ((size_t)g.data_level0_memory_ + page - 1) / page * page;
    const size_t to = ((size_t)g.data_level0_memory_ + g.max_elements_ * g.size_data_per_element_) / page * page;
    if (to > from) (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

} // namespace

sp_err sp_hnsw_reserve(sp_hnsw *h, size_t n)
{
    return guarded("graph", [&] {
        const size_t need = h->g->cur_element_count + n, most = h->g->max_elements_;
        if (need <= most) return SP_OK;
        h->g->resizeIndex(std::max(need, most + most / 4));
        advise(*h->g);
        return SP_OK;
    });
}

sp_err sp_hnsw_add(sp_hnsw *h, int64_t id, const float *v)
{
    return guarded("graph", [&] {
        h->g->addPoint(v, (size_t)id, -1);
        return SP_OK;
    });
}

sp_err sp_hnsw_remove(sp_hnsw *h, int64_t id)
{
    return guarded("graph", [&] {
        const auto found = h->g->label_lookup_.find((size_t)id);
        if (found != h->g->label_lookup_.end() && !h->g->isMarkedDeleted(found->second)) h->g->markDelete((size_t)id);
        return SP_OK;
    });
}

sp_err sp_hnsw_ids(const sp_hnsw *h, sp_vector_ids *out)
{
    SP_TRY(sp_vec_reserve(out, h->g->cur_element_count + 1));
    for (node i = 0; i < h->g->cur_element_count; i++)
        if (!h->g->isMarkedDeleted(i)) out->v[out->n++] = (int64_t)h->g->getExternalLabel(i);
    return SP_OK;
}

/* -- search ------------------------------------------------------------------------------------ */

namespace {

/* look_at_allowed -- for a query that allows few ids: without the graph. */
void look_at_allowed(const graph &g, const sp_vectors_query *q, sp_best *best)
{
    for (size_t i = 0; i < q->n_allowed; i++) {
        const auto found = g.label_lookup_.find((size_t)q->allowed[i]);
        if (found == g.label_lookup_.end() || const_cast<graph &>(g).isMarkedDeleted(found->second)) continue;
        const float d = g.fstdistfunc_(q->v, g.getDataByInternalId(found->second), g.dist_func_param_);
        sp_best_add(best, sp_near{q->allowed[i], d});
    }
}

} // namespace

sp_err sp_hnsw_plain(const sp_hnsw *h, const sp_vectors_query *q, sp_best *best)
{
    return guarded("graph", [&] {
        /* searchKnn takes the breadth from the graph, which is shared: its two parts, then */
        const graph &g = *h->g;
        auto found = g.num_deleted_ ? g.searchBaseLayerST<true>(descend(g, q->v), q->v, breadth_of(q))
                                    : g.searchBaseLayerST<false>(descend(g, q->v), q->v, breadth_of(q));
        for (; !found.empty(); found.pop())
            sp_best_add(best, sp_near{(int64_t)g.getExternalLabel(found.top().second), found.top().first});
        return SP_OK;
    });
}

sp_err sp_hnsw_search(const sp_hnsw *h, const sp_vectors_query *q, sp_best *best, sp_near *sorted)
{
    return guarded("graph", [&] {
        const size_t breadth = breadth_of(q), n_stages = q->n_stages > 1 ? (size_t)q->n_stages : 1;
        const bool few = q->allowed && q->n_allowed / FEW <= breadth;
        if (few) {
            look_at_allowed(*h->g, q, best);
            const bool good = !q->on_stage || q->on_stage(sorted, sp_best_sort(best, sorted), true, q->user);
            return good ? SP_OK : SP_E_CANCELED;
        }
        visit v(*h->g, *q, breadth);
        for (bool more = true; more;) {
            more = v.run(n_stages > 1 ? (breadth + n_stages - 1) / n_stages : SIZE_MAX);
            v.tell(best);
            if (q->on_stage && !q->on_stage(sorted, sp_best_sort(best, sorted), !more, q->user)) return SP_E_CANCELED;
        }
        return SP_OK;
    });
}

/* -- files ------------------------------------------------------------------------------------- */

namespace {

/* The head of hnswlib's file. */
struct head {
    size_t offset_level0, most, n, size_each, label_offset, data_offset;
    int top;
    node entry;
    size_t links_upper, links_lowest, links;
    double mult;
    size_t effort;
};

/* file_bytes -- of a graph: the head, the nodes, and of each node the links of its upper layers after their size. */
size_t file_bytes(const graph &g)
{
    size_t n = sizeof(head) + g.cur_element_count * (g.size_data_per_element_ + sizeof(unsigned int));
    for (size_t i = 0; i < g.cur_element_count; i++) n += (size_t)g.element_levels_[i] * g.size_links_per_element_;
    return n;
}

} // namespace

sp_err sp_hnsw_write(const sp_hnsw *h, const char *path)
{
    return guarded(path, [&] {
        h->g->saveIndex(path);
        FILE *f = fopen(path, "rb"); /* the library does not say whether it could write */
        const long size = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
        if (f) fclose(f);
        const bool whole = size >= 0 && (size_t)size == file_bytes(*h->g);
        return whole ? SP_OK : sp_fail(SP_E_IO, "%s: cannot write the graph", path);
    });
}

namespace {

template <typename T> bool take(FILE *f, T *out)
{
    return fread(out, sizeof *out, 1, f) == 1;
}

bool take_head(FILE *f, head *h)
{
    return take(f, &h->offset_level0) && take(f, &h->most) && take(f, &h->n) && take(f, &h->size_each) &&
           take(f, &h->label_offset) && take(f, &h->data_offset) && take(f, &h->top) && take(f, &h->entry) &&
           take(f, &h->links_upper) && take(f, &h->links_lowest) && take(f, &h->links) && take(f, &h->mult) &&
           take(f, &h->effort);
}

/* is_ours -- a head with the sizes that a graph of `like`'s kind has, in a file that is long enough. */
bool is_ours(const head &h, const graph &like, size_t file_bytes)
{
    return h.offset_level0 == like.offsetLevel0_ && h.size_each == like.size_data_per_element_ &&
           h.label_offset == like.label_offset_ && h.data_offset == like.offsetData_ && h.links == like.M_ &&
           h.links_upper == like.maxM_ && h.links_lowest == like.maxM0_ && h.mult == like.mult_ &&
           h.effort == like.ef_construction_ && h.n <= file_bytes / h.size_each && h.most >= h.n &&
           h.most <= 2 * h.n + 1024 && (h.n == 0 || (h.entry < h.n && h.top >= 0));
}

/* links_are_good -- all lead to nodes, of the upper layers to nodes that are there. */
bool links_are_good(const graph &g)
{
    const size_t n = g.cur_element_count;
    if (n && g.maxlevel_ != g.element_levels_[g.enterpoint_node_]) return false;
    for (size_t i = 0; i < n; i++)
        for (int level = 0; level <= g.element_levels_[i]; level++) {
            const hnswlib::linklistsizeint *links = g.get_linklist_at_level((node)i, level);
            const unsigned short count = *(const unsigned short *)links;
            if (count > (level ? g.maxM_ : g.maxM0_)) return false;
            for (unsigned short k = 0; k < count; k++) {
                const node to = ((const node *)(links + 1))[k];
                if (to >= n || g.element_levels_[to] < level) return false;
            }
        }
    return true;
}

/* levels_are_good -- checks the sizes of the lists of upper layers before the library trusts them. */
bool levels_are_good(FILE *f, const head &h, const graph &like)
{
    if (fseek(f, (long)(h.n * h.size_each), SEEK_CUR) != 0) return false;
    for (size_t i = 0; i < h.n; i++) {
        unsigned int size;
        if (!take(f, &size) || size % like.size_links_per_element_ || size / like.size_links_per_element_ > 64 ||
            fseek(f, (long)size, SEEK_CUR) != 0)
            return false;
    }
    const long at = ftell(f);
    return fseek(f, 0, SEEK_END) == 0 && ftell(f) == at;
}

/* load -- into a graph that its constructor leaves empty, and that can be destroyed after a failure. */
void load(graph &g, space &where, const char *path, size_t most)
{
    g.data_level0_memory_ = nullptr;
    g.linkLists_ = nullptr;
    g.visited_list_pool_ = nullptr;
    g.cur_element_count = g.num_deleted_ = 0;
    try {
        g.loadIndex(path, &where, most);
    } catch (...) {
        g.cur_element_count = 0;
        throw;
    }
}

} // namespace

sp_err sp_hnsw_read(sp_hnsw *h, const char *path)
{
    return guarded(path, [&] {
        head top;
        FILE *f = fopen(path, "rb");
        if (!f) return sp_fail(SP_E_NOTFOUND, "%s: no such file", path);
        const bool sized = fseek(f, 0, SEEK_END) == 0;
        const long size = sized ? ftell(f) : -1;
        rewind(f);
        const bool good =
            size > 0 && take_head(f, &top) && is_ours(top, *h->g, (size_t)size) && levels_are_good(f, top, *h->g);
        fclose(f);
        if (!good) return sp_fail(SP_E_FORMAT, "%s: not a graph of such vectors", path);
        std::unique_ptr<graph> g(new graph(&h->where));
        load(*g, h->where, path, top.most);
        advise(*g);
        if (!links_are_good(*g)) return sp_fail(SP_E_FORMAT, "%s: links of the graph point to missing nodes", path);
        h->g = std::move(g);
        return SP_OK;
    });
}
