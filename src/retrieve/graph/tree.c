/* tree.c -- merges relation paths into dependency trees.
 *
 *     Alice -like-> Titanic -type-> Tragedy          0  Alice             parent -1  depth 0
 *     Alice -like-> Titanic -type-> Romance    =>    1   -like->                  0        1
 *     Bob -age-> 24                                  2   Titanic                  1        2
 *                                                    3   -type->                  2        3
 *                                                    4   Tragedy                  3        4
 *                                                    5   Romance                  3        4
 *                                                    6  Bob                      -1        0  ...
 *
 * In the style of triplets each hop is a path by itself, from its subject: (Titanic, type, Tragedy) is a tree of
 * Titanic. Source: DepCache sections 3.1 and 7 (D2, D10).
 *
 * Segments go into a trie whose children are found by (parent, text) in a hash table; a walk in
 * pre-order then numbers the nodes.
 *
 * Invariants of the result: parent < own index; depth = depth of the parent + 1; a node and its
 * descendants are consecutive; no two children of a node have the same text.
 */
#include "retrieve/graph/tree.h"

#include <string.h>

#include "base/dict.h"
#include "base/need.h"
#include "retrieve/graph/names_int.h"

/* -- text ----------------------------------------------------------------------------------- */

static sp_err arrow(const char *relation, bool inverse, sp_bytes *out)
{
    SP_TRY(sp_bytes_add(out, inverse ? " <-" : " -", inverse ? 3 : 2));
    SP_TRY(sp_bytes_add(out, relation, strlen(relation)));
    return sp_bytes_add(out, inverse ? "-" : "->", inverse ? 1 : 2);
}

/* verb -- the relation of a sentence. After the first hop it opens a sentence of its own, whose
 * subject is the entity that the sentence before ended with. */
static sp_err verb(const sp_graph_path *p, int hop, sp_bytes *out)
{
    if (hop) {
        SP_TRY(sp_bytes_add(out, " ", 1));
        SP_TRY(sp_bytes_add(out, p->nodes[hop], strlen(p->nodes[hop])));
    }
    if (p->inverse[hop]) SP_TRY(sp_bytes_add(out, " is", 3));
    SP_TRY(sp_bytes_add(out, " ", 1));
    SP_TRY(sp_name_readable(p->relations[hop], strlen(p->relations[hop]), out));
    return p->inverse[hop] ? sp_bytes_add(out, " of", 3) : SP_OK;
}

/* triple_of -- a hop as a path of its own, subject first. nodes [2]: its memory. */
static sp_graph_path triple_of(const sp_graph_path *p, int hop, const char *nodes[2])
{
    static const bool forward = false;
    nodes[0] = p->nodes[p->inverse[hop] ? hop + 1 : hop];
    nodes[1] = p->nodes[p->inverse[hop] ? hop : hop + 1];
    return (sp_graph_path){.n_hops = 1, .nodes = nodes, .relations = p->relations + hop, .inverse = &forward};
}

/* triplet -- segment i of a triple: "(A", ", rel", ", B)". */
static sp_err triplet(const sp_graph_path *p, int i, sp_bytes *out)
{
    SP_TRY(sp_bytes_add(out, i ? ", " : "(", i ? 2 : 1));
    if (i == 1) return sp_name_readable(p->relations[0], strlen(p->relations[0]), out);
    SP_TRY(sp_bytes_add(out, p->nodes[i / 2], strlen(p->nodes[i / 2])));
    return i ? sp_bytes_add(out, ")", 1) : SP_OK;
}

static sp_err triplets_text(const sp_graph_path *p, sp_bytes *out)
{
    for (int hop = 0; hop < p->n_hops; hop++) {
        const char *nodes[2];
        const sp_graph_path one = triple_of(p, hop, nodes);
        if (hop) SP_TRY(sp_bytes_add(out, " ", 1));
        for (int i = 0; i < 3; i++) SP_TRY(triplet(&one, i, out));
    }
    return SP_OK;
}

sp_err sp_path_segment(const sp_graph_path *p, sp_graph_style style, int i, sp_bytes *out)
{
    int hop = i / 2;
    bool sentences = style == SP_GRAPH_SENTENCES;
    if (style == SP_GRAPH_TRIPLETS) return triplet(p, i, out);
    if (i % 2)
        return sentences ? verb(p, hop, out) : arrow(p->relations[hop], p->inverse[hop], out);
    if (i) SP_TRY(sp_bytes_add(out, " ", 1));
    SP_TRY(sp_bytes_add(out, p->nodes[hop], strlen(p->nodes[hop])));
    return i && sentences ? sp_bytes_add(out, ".", 1) : SP_OK;
}

sp_err sp_path_text(const sp_graph_path *p, sp_graph_style style, sp_bytes *out)
{
    if (style == SP_GRAPH_TRIPLETS && p->n_hops) return triplets_text(p, out);
    for (int i = 0; i < sp_path_n_segments(p); i++) SP_TRY(sp_path_segment(p, style, i, out));
    return SP_OK;
}

/* -- trie ----------------------------------------------------------------------------------- */

#define NONE (-1)

typedef struct trie_node {
    const char *text;
    int first, last, next; /* first and last child, next sibling; NONE */
} trie_node;

typedef struct trie {
    SP_VEC(trie_node) nodes; /* nodes.v[0] is above all roots */
    sp_dict by_key;          /* parent and text -> node */
    sp_arena *strings;       /* keys: the parent's number, then the text */
    sp_bytes key;
} trie;

static sp_err add_child(trie *t, int parent, int *child)
{
    if (t->nodes.n >= INT32_MAX) return sp_fail(SP_E_LIMIT, "a tree of %zu nodes", t->nodes.n);
    SP_TRY(sp_vec_reserve(&t->nodes, 1));
    char *key = sp_arena_take(t->strings, t->key.n + 1, 1);
    if (!key) return sp_fail_nomem("a tree");
    memcpy(key, t->key.v, t->key.n);
    int node = (int)t->nodes.n;
    SP_TRY(sp_dict_put(&t->by_key, key, t->key.n, (uint32_t)node));
    trie_node *up = &t->nodes.v[parent];
    if (up->last == NONE)
        up->first = node;
    else
        t->nodes.v[up->last].next = node;
    up->last = node;
    t->nodes.v[t->nodes.n++] = (trie_node){key + sizeof parent, NONE, NONE, NONE};
    *child = node;
    return SP_OK;
}

static sp_err insert(trie *t, const sp_graph_path *p, sp_graph_style style)
{
    int at = 0;
    for (int i = 0; i < sp_path_n_segments(p); i++) {
        t->key.n = 0;
        SP_TRY(sp_bytes_add(&t->key, &at, sizeof at));
        SP_TRY(sp_path_segment(p, style, i, &t->key));
        uint32_t known = sp_dict_get(&t->by_key, t->key.v, t->key.n);
        if (known == SP_DICT_NONE)
            SP_TRY(add_child(t, at, &at));
        else
            at = (int)known;
    }
    return SP_OK;
}

/* insert_triples -- each hop of a path by itself: those that are there already merge. */
static sp_err insert_triples(trie *t, const sp_graph_path *p)
{
    for (int hop = 0; hop < p->n_hops; hop++) {
        const char *nodes[2];
        const sp_graph_path one = triple_of(p, hop, nodes);
        SP_TRY(insert(t, &one, SP_GRAPH_TRIPLETS));
    }
    return SP_OK;
}

/* walk -- numbers the nodes in pre-order; the path down is in the parents, so no stack is needed. */
static void walk(const trie *t, int *number, int *up, sp_graph_tree *out)
{
    for (int at = t->nodes.v[0].first; at != NONE;) {
        const trie_node *node = &t->nodes.v[at];
        int parent = up[at] ? number[up[at]] : -1;
        number[at] = out->n;
        out->v[out->n++] = (sp_graph_node){
            .text = node->text,
            .parent = parent,
            .depth = parent < 0 ? 0 : out->v[parent].depth + 1,
        };
        for (int c = node->first; c != NONE; c = t->nodes.v[c].next) up[c] = at;
        if (node->first != NONE) {
            at = node->first;
            continue;
        }
        while (at && t->nodes.v[at].next == NONE) at = up[at];
        at = at ? t->nodes.v[at].next : NONE;
    }
}

static sp_err number_nodes(const trie *t, sp_graph_tree *out)
{
    size_t n = t->nodes.n;
    sp_graph_tree result = {.v = SP_NEW_N(sp_graph_node, n)};
    int *number = SP_NEW_N(int, n), *up = SP_NEW_N(int, n);
    sp_err err = SP_OK;
    if (result.v && number && up)
        walk(t, number, up, &result);
    else
        err = sp_fail_nomem("a tree");
    sp_free(number);
    sp_free(up);
    if (err == SP_OK)
        *out = result;
    else
        sp_free(result.v);
    return err;
}

sp_err sp_graph_tree_build(const sp_graph_path *paths, int n_paths, sp_graph_style style,
                           sp_graph_tree *out)
{
    SP_NEED(out);
    if (n_paths > 0) SP_NEED(paths);
    trie t = {.strings = SP_NEW(sp_arena)};
    sp_graph_tree result = {0};
    sp_err err =
        t.strings ? sp_dict_init(&t.by_key, 64) : sp_fail_nomem("a tree");
    if (err == SP_OK) err = sp_vec_reserve(&t.nodes, 1);
    if (err == SP_OK) t.nodes.v[t.nodes.n++] = (trie_node){"", NONE, NONE, NONE};
    for (int i = 0; err == SP_OK && i < n_paths; i++)
        err = style == SP_GRAPH_TRIPLETS ? insert_triples(&t, &paths[i]) : insert(&t, &paths[i], style);
    if (err == SP_OK) err = number_nodes(&t, &result);
    sp_dict_fini(&t.by_key);
    sp_vec_fini(&t.nodes);
    sp_vec_fini(&t.key);
    result.strings = t.strings;
    if (err == SP_OK)
        *out = result;
    else
        sp_graph_tree_fini(&result);
    return err;
}

void sp_graph_tree_fini(sp_graph_tree *t)
{
    if (!t) return;
    if (t->strings) sp_arena_fini(t->strings);
    sp_free(t->strings);
    sp_free(t->v);
    *t = (sp_graph_tree){0};
}
