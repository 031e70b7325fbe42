/* tree_order.c -- in which order the knowledge tree knows most of a set of chunks. */
#include <string.h>

#include "cache/tree_int.h"

enum { MOST_NODES = 4096 };

typedef struct walk {
    const sp_tree *tree;
    const sp_segment *segs;
    int n_segs, n_head;
    bool *taken;   /* [n_segs] on the path walked now */
    int32_t *path; /* [n_segs] */
    int32_t *best; /* [n_segs] longest so far, in tokens */
    int n_best, n_nodes;
    int64_t best_tokens;
} walk;

/* descend -- depth first through children that say what a chunk not yet on the path says. */
static void descend(walk *w, const sp_node *at, int depth, int64_t tokens)
{
    if (tokens > w->best_tokens) {
        w->best_tokens = tokens;
        w->n_best = depth;
        memcpy(w->best, w->path, (size_t)depth * sizeof *w->best);
    }
    for (int i = w->n_head; i < w->n_segs && w->n_nodes < MOST_NODES; i++) {
        if (w->taken[i] || w->segs[i].kind != SP_SEG_CHUNK) continue;
        const sp_node *child = sp_tree_child(w->tree, at, &w->segs[i]);
        if (!child) continue;
        w->n_nodes++;
        w->taken[i] = true;
        w->path[depth] = i;
        descend(w, child, depth + 1, tokens + child->n);
        w->taken[i] = false;
    }
}

/* fill_order -- head, best path, the rest. */
static void fill_order(const walk *w, int32_t *out)
{
    int n = 0;
    for (int i = 0; i < w->n_head; i++) out[n++] = i;
    for (int k = 0; k < w->n_best; k++) {
        out[n++] = w->best[k];
        w->taken[w->best[k]] = true;
    }
    for (int i = w->n_head; i < w->n_segs; i++)
        if (!w->taken[i]) out[n++] = i;
}

sp_err sp_tree_order(const sp_tree *t, const sp_segment *segs, int n_segs, int n_head, int32_t *out)
{
    size_t n = (size_t)n_segs;
    walk w = {.tree = t, .segs = segs, .n_segs = n_segs, .n_head = n_head};
    int32_t *lists = SP_NEW_N(int32_t, 2 * n);
    w.taken = SP_NEW_N(bool, n);
    sp_err err = lists && w.taken ? SP_OK : sp_fail_nomem(n * sizeof *lists, "an order of chunks");
    if (err == SP_OK) {
        const sp_node *at = sp_tree_root(t);
        w.path = lists;
        w.best = lists + n;
        for (int i = 0; i < n_head && at; i++) at = sp_tree_child(t, at, &segs[i]);
        if (at) descend(&w, at, 0, 0);
        fill_order(&w, out);
    }
    sp_free(lists);
    sp_free(w.taken);
    return err;
}
