/* walk.c -- all simple paths around a node, breadth first.
 *
 * Each level is expanded at once: its different nodes go to the store together, so a remote store
 * gets few queries per level. A node with too many edges (a genre, a country) ends the paths that
 * reach it; the root is always expanded, up to max_degree edges of each relation.
 */
#include "retrieve/graph/walk_int.h"

#include <string.h>

#define NODES_AT_ONCE 256

/* The different nodes of a level and their edges. */
typedef struct level {
    SP_VEC(int64_t) nodes;
    SP_VEC(size_t) begin; /* edges of node i: [begin[i], begin[i + 1]); expanded nodes only */
    sp_dict index;        /* node -> i */
    sp_graph_edges edges;
} level;

static void level_fini(level *l)
{
    sp_vec_fini(&l->nodes);
    sp_vec_fini(&l->begin);
    sp_dict_fini(&l->index);
    sp_vec_fini(&l->edges);
}

/* collect -- the different nodes of steps [from, to), in the order of their first step. */
static sp_err collect(const sp_graph_walk *w, size_t from, size_t to, level *out)
{
    SP_TRY(sp_dict_init(&out->index, to - from));
    SP_TRY(sp_vec_reserve(&out->nodes, to - from)); /* keys point into it, so it must not move */
    for (size_t i = from; i < to; i++) {
        int64_t *node = &out->nodes.v[out->nodes.n];
        *node = w->steps.v[i].node;
        if (sp_dict_get(&out->index, node, sizeof *node) != SP_DICT_NONE) continue;
        SP_TRY(sp_dict_put(&out->index, node, sizeof *node, (uint32_t)out->nodes.n));
        out->nodes.n++;
    }
    return SP_OK;
}

/* fetch -- the edges of the level's nodes, until there are more than `enough`. */
static sp_err fetch(sp_graph *g, const sp_graph_walk_opts *o, bool root, size_t enough, level *l,
                    sp_graph_walk *w)
{
    SP_TRY(sp_vec_reserve(&l->begin, l->nodes.n + 1));
    for (size_t at = 0; at < l->nodes.n; at += NODES_AT_ONCE) {
        size_t before = l->edges.n, n = SP_MIN(l->nodes.n - at, (size_t)NODES_AT_ONCE);
        if (before > enough) {
            w->cut = true;
            break;
        }
        sp_graph_expand e = {l->nodes.v + at, n, o->max_degree, root};
        SP_TRY(g->ops->expand(g, &e, &l->edges, &w->n_hubs));
        size_t edge = before;
        for (size_t i = 0; i < n; i++) {
            l->begin.v[l->begin.n++] = edge;
            while (edge < l->edges.n && l->edges.v[edge].from == i) edge++;
        }
    }
    SP_TRY(sp_vec_reserve(&l->begin, 1));
    l->begin.v[l->begin.n] = l->edges.n; /* the end of the last; not counted */
    return SP_OK;
}

static bool on_path(const sp_graph_walk *w, int step, int64_t node)
{
    for (; step >= 0; step = w->steps.v[step].parent)
        if (w->steps.v[step].node == node) return true;
    return false;
}

/* find_pattern -- the pattern that continues `parent` with an edge. */
static sp_err find_pattern(sp_graph_walk *w, int parent, const sp_graph_edge *e, int *out)
{
    int64_t key[3] = {parent, e->relation, e->inverse};
    uint32_t known = sp_dict_get(&w->pattern_of, key, sizeof key);
    if (known != SP_DICT_NONE) return *out = (int)known, SP_OK;
    int64_t *kept = sp_arena_take(&w->keys, 1, sizeof key);
    if (!kept) return sp_fail_nomem("paths");
    memcpy(kept, key, sizeof key);
    SP_TRY(sp_vec_reserve(&w->patterns, 1));
    SP_TRY(sp_dict_put(&w->pattern_of, kept, sizeof key, (uint32_t)w->patterns.n));
    *out = (int)w->patterns.n;
    w->patterns.v[w->patterns.n++] = (sp_graph_pattern){
        .parent = parent,
        .depth = w->patterns.v[parent].depth + 1,
        .inverse = e->inverse,
        .relation = e->relation,
    };
    return SP_OK;
}

static sp_err extend(sp_graph_walk *w, int step, const level *l, int max_steps)
{
    int64_t node = w->steps.v[step].node;
    uint32_t i = sp_dict_get(&l->index, &node, sizeof node);
    if (i >= l->begin.n) return SP_OK; /* not expanded: cut */
    for (size_t e = l->begin.v[i]; e < l->begin.v[i + 1]; e++) {
        const sp_graph_edge *edge = &l->edges.v[e];
        if (on_path(w, step, edge->node)) continue;
        if (w->steps.n > (size_t)max_steps) return w->cut = true, SP_OK;
        int pattern = 0;
        SP_TRY(find_pattern(w, w->steps.v[step].pattern, edge, &pattern));
        SP_TRY(sp_vec_reserve(&w->steps, 1));
        w->steps.v[w->steps.n++] = (sp_graph_step){step, pattern, edge->node};
        w->patterns.v[pattern].n_steps++;
    }
    return SP_OK;
}

static sp_err walk_level(sp_graph *g, const sp_graph_walk_opts *o, size_t from, size_t to,
                         sp_graph_walk *w)
{
    level l = {0};
    size_t enough = (size_t)o->max_steps > w->steps.n ? (size_t)o->max_steps - w->steps.n : 0;
    sp_err err = collect(w, from, to, &l);
    if (err == SP_OK) err = fetch(g, o, from == 0, enough, &l, w);
    for (size_t i = from; err == SP_OK && i < to; i++) err = extend(w, (int)i, &l, o->max_steps);
    level_fini(&l);
    return err;
}

sp_err sp_graph_walk_from(sp_graph *g, int64_t root, const sp_graph_walk_opts *o,
                          sp_graph_walk *out)
{
    sp_graph_walk w = {0};
    sp_err err = sp_dict_init(&w.pattern_of, 64);
    if (err == SP_OK) err = sp_vec_reserve(&w.steps, 1);
    if (err == SP_OK) err = sp_vec_reserve(&w.patterns, 1);
    if (err == SP_OK) {
        w.steps.v[w.steps.n++] = (sp_graph_step){-1, 0, root};
        w.patterns.v[w.patterns.n++] = (sp_graph_pattern){.parent = -1, .n_steps = 1};
    }
    size_t from = 0;
    for (int hop = 0; err == SP_OK && hop < o->hops && from < w.steps.n; hop++) {
        size_t to = w.steps.n;
        err = walk_level(g, o, from, to, &w);
        from = to;
    }
    if (err == SP_OK)
        *out = w;
    else
        sp_graph_walk_fini(&w);
    return err;
}

void sp_graph_walk_fini(sp_graph_walk *w)
{
    sp_vec_fini(&w->steps);
    sp_vec_fini(&w->patterns);
    sp_dict_fini(&w->pattern_of);
    sp_arena_fini(&w->keys);
}
