/* trie.c -- built level by level from the sorted keys: a node is a range of keys with one beginning. */
#include "model/tokenizer/trie.h"

#include <stdlib.h>
#include <string.h>

typedef struct range {
    size_t lo, hi, depth; /* keys[lo..hi) have their first `depth` bytes in common */
} range;

typedef struct builder {
    const sp_trie_key *keys;
    SP_VEC(sp_trie_node) nodes;
    SP_VEC(range) ranges; /* of each node */
} builder;

static int by_text(const void *a, const void *b)
{
    const sp_trie_key *x = a, *y = b;
    const size_t n = SP_MIN(x->text.n, y->text.n);
    int order = n ? memcmp(x->text.s, y->text.s, n) : 0;
    if (order) return order;
    if (x->text.n != y->text.n) return x->text.n < y->text.n ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static sp_err add_node(builder *b, range r, uint8_t byte)
{
    if (b->nodes.n == UINT32_MAX) return sp_fail(SP_E_LIMIT, "a vocabulary of over 4 GiB");
    SP_TRY(sp_vec_reserve(&b->nodes, 1));
    SP_TRY(sp_vec_reserve(&b->ranges, 1));
    b->nodes.v[b->nodes.n++] = (sp_trie_node){.byte = byte, .id = -1};
    b->ranges.v[b->ranges.n++] = r;
    return SP_OK;
}

static sp_err add_children(builder *b, size_t node)
{
    const range r = b->ranges.v[node];
    size_t at = r.lo;
    /* keys that end here come first */
    for (; at < r.hi && b->keys[at].text.n == r.depth; at++)
        if (b->nodes.v[node].id < 0 && r.depth) b->nodes.v[node].id = b->keys[at].id;
    b->nodes.v[node].child = (uint32_t)b->nodes.n;
    while (at < r.hi) {
        const char byte = b->keys[at].text.s[r.depth];
        size_t end = at + 1;
        while (end < r.hi && b->keys[end].text.s[r.depth] == byte) end++;
        SP_TRY(add_node(b, (range){at, end, r.depth + 1}, (uint8_t)byte));
        b->nodes.v[node].n++;
        at = end;
    }
    return SP_OK;
}

sp_err sp_trie_build(sp_trie *t, sp_arena *arena, sp_trie_key *keys, size_t n)
{
    builder b = {.keys = keys};
    if (n) qsort(keys, n, sizeof *keys, by_text);
    sp_err err = add_node(&b, (range){0, n, 0}, 0);
    for (size_t i = 0; err == SP_OK && i < b.nodes.n; i++) err = add_children(&b, i);
    const size_t bytes = b.nodes.n * sizeof *b.nodes.v;
    sp_trie_node *nodes = err == SP_OK ? sp_arena_take(arena, b.nodes.n, sizeof *nodes) : NULL;
    if (err == SP_OK && !nodes) err = sp_fail_nomem("a trie of tokens");
    if (nodes) memcpy(nodes, b.nodes.v, bytes);
    if (nodes) t->nodes = nodes;
    sp_vec_fini(&b.nodes);
    sp_vec_fini(&b.ranges);
    return err;
}
