/* meter_trees.c -- the spans, sights and positions of a prompt of relation paths, for span attention.
 *
 *   system | root | relation | entity | relation | entity | ... | root | ...        spans
 *
 * Each tree has a root and n_paths paths of a relation and an entity; nodes of (nearly) one length. All tokens
 * are queries; a node sees the system text, what is above it and itself. Positions count depth. */
#include "lab/meter_int.h"

enum { DEPTH = 3 }; /* nodes of a path */

/* A node: its parent's index or 0 (the system text), and its level. */
static int parent_of(const sp_meter_op *op, int span, int *level)
{
    int in_tree = (span - 1) % (1 + 2 * op->n_paths);
    if (in_tree == 0) return *level = 0, 0;
    *level = in_tree % 2 ? 1 : 2;
    return in_tree % 2 ? span - in_tree : span - 1;
}

static void lay_queries(sp_meter_trees *t, const sp_span *s, int span, int32_t *row)
{
    for (int32_t i = 0; i < s->n; i++, ++*row) {
        t->pos[*row] = s->at + i;
        t->see[*row] = (uint16_t)span;
    }
}

int sp_meter_tree_spans(const sp_meter_op *op)
{
    return 1 + op->n_trees * (1 + 2 * op->n_paths);
}

double sp_meter_lay_trees(const sp_meter_op *op, sp_meter_trees *t)
{
    int32_t row = 0;
    double pairs = 0;
    for (int s = 0; s < op->n_spans; s++) {
        uint16_t *list = t->lists + (size_t)s * (1 + DEPTH);
        int n = 0, level = -1, parent = s ? parent_of(op, s, &level) : 0;
        sp_span *span = &t->spans[s];
        if (s) {
            const sp_sight *above = &t->sights[parent];
            for (; n < above->n; n++) list[n] = above->list[n];
            span->at = t->spans[parent].at + t->spans[parent].n;
        }
        list[n++] = (uint16_t)s;
        t->sights[s] = (sp_sight){.list = list, .n = n};
        for (int i = 0; i + 1 < n; i++) pairs += (double)span->n * t->spans[list[i]].n;
        pairs += (double)span->n * (span->n + 1) / 2;
        lay_queries(t, span, s, &row);
    }
    return pairs;
}
