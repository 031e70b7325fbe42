/* tree.c -- dependency trees in a prompt: nodes, lists and tables.
 *
 *   system 0..4     exact     A  5..6           shifted    A  5..6    keys for  5..6
 *     A (2)                   B  7                         B  7                 7
 *       B (1)                 C  7..8                      C  8..9              8..9
 *       C (2)                 D  5..7                      D 10..12             5..7
 *     D (3)                   question 9..                 question 13..
 *
 * Exact: positions count depth. The KV of a node depends on its path alone.
 * Shifted: positions are consecutive, as in a linear prompt. Keys are rotated as if their tree were
 * the first one; a span shifts them. So a tree serves at any position; what changes is its distance to
 * the system text, and of a node that was computed with other siblings its distance to its ancestors.
 * Source: DepCache sections 3.1, 4.1 and 5 (D2, D3, D4, D9). */
#include <string.h>

#include "base/need.h"
#include "serve/prompt/prompt.h"

enum { MAX_DEPTH = 256 }; /* nodes above a node */

static sp_err check_nodes(const sp_prompt *p, const sp_prompt_node *nodes, int n)
{
    SP_TRY(sp_prompt_check_open(p));
    if (n < 0 || (n && !nodes)) return sp_fail(SP_E_ARG, "prompt: a tree of %d nodes", n);
    if ((size_t)n > SP_PROMPT_MAX_SEGMENTS - SP_MIN(p->segs.n, SP_PROMPT_MAX_SEGMENTS))
        return sp_fail(SP_E_LIMIT, "prompt: a tree of %d nodes; a prompt has %d segments at most",
                       n, SP_PROMPT_MAX_SEGMENTS);
    for (int i = 0; i < n; i++) {
        if (!nodes[i].text) return sp_fail(SP_E_ARG, "prompt: the text of node %d is NULL", i);
        if (nodes[i].parent < -1 || nodes[i].parent >= i)
            return sp_fail(SP_E_ARG, "prompt: node %d has the parent %d", i, nodes[i].parent);
    }
    return SP_OK;
}

/* A node that has been added, as its children need it. */
typedef struct added_node {
    int seg;      /* index of its segment; of a node without tokens, its parent's */
    int32_t end;  /* position after it */
    int32_t from; /* shifted: where its tree begins */
    int depth;
} added_node;

/* begin_trees -- the roots' parent is the last segment so far. A tree never begins a prompt: BOS
 * would give it other tokens than it has elsewhere. */
static sp_err begin_trees(sp_prompt *p)
{
    if (p->n_base) return SP_OK;
    SP_TRY(sp_prompt_start(p));
    if (p->segs.n == 0) return sp_fail(SP_E_ARG, "prompt: trees follow a system text");
    p->end = p->n_tokens; /* a list so far */
    p->n_base = (int)p->segs.n;
    return SP_OK;
}

/* place_node -- after its parent; or after all that precede it, with keys as if its tree, which begins
 * at `from`, began after the system text. */
static sp_segment place_node(const sp_prompt *p, const added_node *parent, int32_t from)
{
    sp_segment seg = {.kind = SP_SEG_NODE, .parent = 1 + parent->seg, .place = 1 + parent->end};
    if (p->trees == SP_TREE_SHIFTED) {
        const sp_segment *segs = p->segs.v;
        int base = p->n_base - 1;
        seg.place = 1 + p->end;
        seg.origin = seg.place - from + sp_segment_at(segs, base) + segs[base].n;
    }
    return seg;
}

static sp_err add_node(sp_prompt *p, const char *text, const added_node *parent, added_node *out)
{
    sp_tokens ids = {0};
    if (parent->depth >= MAX_DEPTH)
        return sp_fail(SP_E_LIMIT, "prompt: a tree of over %d levels", MAX_DEPTH);
    *out = *parent;
    out->depth++;
    if (p->trees == SP_TREE_SHIFTED && parent->depth == 0) out->from = p->end;
    sp_err err = sp_tokenizer_encode(p->space->tokenizer, text, strlen(text), SP_TOK_JOINED, &ids);
    if (err == SP_OK && ids.n) {
        sp_segment seg = place_node(p, parent, out->from);
        out->seg = (int)p->segs.n;
        out->end = seg.place - 1 + (int32_t)ids.n;
        err = sp_prompt_push(p, seg, ids.v, ids.n);
    }
    sp_vec_fini(&ids);
    return err;
}

sp_err sp_prompt_tree_mode(sp_prompt *p, sp_tree_mode mode)
{
    SP_NEED(p);
    if (mode != SP_TREE_EXACT && mode != SP_TREE_SHIFTED)
        return sp_fail(SP_E_ARG, "prompt: tree mode %d is unknown", (int)mode);
    if (p->n_base) return sp_fail(SP_E_ARG, "prompt: the tree mode is set before the first tree");
    p->trees = mode;
    return SP_OK;
}

sp_err sp_prompt_tree(sp_prompt *p, const sp_prompt_node *nodes, int n)
{
    SP_NEED(p);
    if (n > 0) SP_NEED(nodes);
    SP_TRY(check_nodes(p, nodes, n));
    if (!p->space->tokenizer)
        return sp_fail(SP_E_ARG, "prompt: the model has no tokenizer for a text");
    if (n == 0) return SP_OK;
    SP_TRY(begin_trees(p));
    added_node *added = sp_alloc((size_t)n, sizeof *added);
    if (!added) return sp_fail_nomem("a tree");
    const sp_segment *segs = p->segs.v;
    added_node base = {.seg = p->n_base - 1};
    base.end = sp_segment_at(segs, base.seg) + segs[base.seg].n;
    sp_err err = SP_OK;
    for (int i = 0; i < n && err == SP_OK; i++)
        err = add_node(p, nodes[i].text, nodes[i].parent < 0 ? &base : &added[nodes[i].parent],
                       &added[i]);
    sp_free(added);
    p->tail = SP_TAIL_SEALED;
    return err;
}

/* -- lists and tables ------------------------------------------------------------------------ */

/* with_newlines -- copies of n texts, one after another in `all`, each with a line end. */
static sp_err with_newlines(const char *const *texts, int n, sp_bytes *all)
{
    for (int i = 0; i < n; i++) {
        if (!texts[i]) return sp_fail(SP_E_ARG, "prompt: text %d is NULL", i);
        size_t len = strlen(texts[i]);
        SP_TRY(sp_bytes_add(all, texts[i], len));
        SP_TRY(sp_bytes_add(all, "\n", 2)); /* and the terminating NUL */
    }
    return SP_OK;
}

/* add_lines -- as nodes: roots, or children of the first of them. */
static sp_err add_lines(sp_prompt *p, const char *text, int n, bool under_first)
{
    sp_prompt_node *nodes = sp_alloc((size_t)n, sizeof *nodes);
    if (!nodes) return sp_fail_nomem("a list");
    for (int i = 0; i < n; i++, text += strlen(text) + 1)
        nodes[i] = (sp_prompt_node){.text = text, .parent = under_first && i ? 0 : -1};
    sp_err err = sp_prompt_tree(p, nodes, n);
    sp_free(nodes);
    return err;
}

sp_err sp_prompt_graph(sp_prompt *p, const sp_graph_tree *t)
{
    SP_NEED(p);
    SP_NEED(t);
    if (t->n == 0) return SP_OK;
    sp_prompt_node *nodes = sp_alloc((size_t)t->n, sizeof *nodes);
    if (!nodes) return sp_fail_nomem("the trees of a prompt");
    for (int i = 0; i < t->n; i++)
        nodes[i] = (sp_prompt_node){.text = t->v[i].text, .parent = t->v[i].parent};
    sp_err err = sp_prompt_tree(p, nodes, t->n);
    sp_free(nodes);
    return err;
}

sp_err sp_prompt_list(sp_prompt *p, const char *const *items, int n)
{
    SP_NEED(p);
    if (n < 0 || (n && !items)) return sp_fail(SP_E_ARG, "prompt: a list of %d items", n);
    if (n == 0) return SP_OK;
    sp_bytes all = {0};
    sp_err err = with_newlines(items, n, &all);
    if (err == SP_OK) err = add_lines(p, all.v, n, false);
    sp_vec_fini(&all);
    return err;
}

sp_err sp_prompt_table(sp_prompt *p, const char *header, const char *const *rows, int n)
{
    SP_NEED(p);
    SP_NEED(header);
    if (n < 0 || n == INT32_MAX || (n && !rows))
        return sp_fail(SP_E_ARG, "prompt: a table of %d rows", n);
    sp_bytes all = {0};
    sp_err err = with_newlines(&header, 1, &all);
    if (err == SP_OK) err = with_newlines(rows, n, &all);
    if (err == SP_OK) err = add_lines(p, all.v, n + 1, true);
    sp_vec_fini(&all);
    return err;
}
