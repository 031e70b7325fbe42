#include "cache/tree.h"

#include <stdlib.h>
#include <string.h>

#include "cache/ledger_int.h"

/* The segments before a first chunk, by their key. */
typedef struct head {
    uint64_t key;
    int64_t n;     /* copies of chunks after it */
    bool has_copy; /* a path copy ends with it */
} head;

typedef SP_VEC(head) head_table; /* sorted by key */

typedef struct walk {
    const sp_ledger *l;
    const sp_tree_query *q;
    uint64_t key;               /* of the head that the parent ends */
    head_table heads;           /* without a parent: those that the reader's chunks were computed after */
    SP_VEC(sp_digest) ids;      /* memory of key_of */
    SP_VEC(const sp_copy *) page; /* limit + 1 at most, in order */
} walk;

/* -- heads ------------------------------------------------------------------------------------- */

static bool is_path(const sp_copy *c)
{
    return c->facts.kind == SP_COPY_PATH;
}

/* key_of -- the key of the head that ends with a path copy. */
static sp_err key_of(walk *w, const sp_copy *c, uint64_t *out)
{
    size_t n = 0;
    for (const sp_copy *p = c; p; p = p->parent) n++;
    w->ids.n = 0;
    SP_TRY(sp_vec_reserve(&w->ids, n));
    for (const sp_copy *p = c; p; p = p->parent) w->ids.v[--n] = p->facts.id, w->ids.n++;
    *out = sp_head_key(w->ids.v, (int)w->ids.n);
    return SP_OK;
}

static int by_key(const void *a, const void *b)
{
    const head *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static sp_err add_head(head_table *t, uint64_t key)
{
    if (t->n && t->v[t->n - 1].key == key) return SP_OK; /* mostly */
    SP_TRY(sp_vec_reserve(t, 1));
    t->v[t->n++] = (head){.key = key};
    return SP_OK;
}

static void sort_heads(head_table *t)
{
    size_t n = 0;
    if (t->n) qsort(t->v, t->n, sizeof *t->v, by_key);
    for (size_t i = 0; i < t->n; i++)
        if (i == 0 || t->v[i].key != t->v[i - 1].key) t->v[n++] = t->v[i];
    t->n = n;
}

static head *find_head(const head_table *t, uint64_t key)
{
    return t->n ? bsearch(&(head){.key = key}, t->v, t->n, sizeof *t->v, by_key) : NULL;
}

/* -- whose ------------------------------------------------------------------------------------- */

static bool is_nobodys(const sp_copy *c)
{
    return c->tenant == sp_ledger_nobody(&c->facts.id);
}

/* owns_path -- whether the path that begins with this copy is the reader's: by its tenant, or because the reader's
 * salt gives the tokens this id. */
static bool owns_path(const sp_tree_reader *r, const sp_copy *root)
{
    sp_digest id;
    if (root->tenant == r->tenant) return true;
    if (!is_nobodys(root) || !root->tokens) return false;
    const sp_err err = sp_segment_id(r->space, r->salt, root->tokens, root->n, &id);
    return err == SP_OK && sp_digest_eq(&id, &root->facts.id);
}

/* is_kept -- some tier has it, or will, or has what continues it. */
static bool is_kept(const sp_copy *c)
{
    return c->state != SP_COPY_FREE || c->places || c->children.first;
}

/* is_after -- whether a copy of a chunk was computed after the head of this key, by the reader: that of another tenant
 * has another key. */
static bool is_after(const walk *w, const sp_copy *c, uint64_t key)
{
    return c->facts.head == key && (c->tenant == w->q->reader.tenant || is_nobodys(c));
}

/* is_below -- whether a copy is directly below the parent. One that begins a path may still be another tenant's:
 * owns_path. */
static bool is_below(const walk *w, const sp_copy *c)
{
    if (!is_kept(c)) return false;
    if (is_path(c)) return c->parent == w->q->parent;
    if (w->q->parent) return is_after(w, c, w->key);
    const head *h = c->tenant == w->q->reader.tenant ? find_head(&w->heads, c->facts.head) : NULL;
    return h && !h->has_copy;
}

/* -- a page ------------------------------------------------------------------------------------ */

static sp_tree_place place_of(const sp_copy *c)
{
    return (sp_tree_place){c->uses.n, c->name};
}

static bool precedes(sp_tree_place a, sp_tree_place b)
{
    return a.n_uses != b.n_uses ? a.n_uses > b.n_uses : a.name < b.name;
}

/* offer -- takes the copy into the page, in order, unless it is full of copies that precede it. */
static void offer(walk *w, const sp_copy *c)
{
    const size_t most = (size_t)w->q->limit + 1;
    const sp_tree_place at = place_of(c);
    size_t i = w->page.n;
    if (w->q->after.name && !precedes(w->q->after, at)) return;
    if (i == most && !precedes(at, place_of(w->page.v[i - 1]))) return;
    if (is_path(c) && !c->parent && !owns_path(&w->q->reader, c)) return;
    if (i == most) i--;
    w->page.n = i + 1;
    for (; i > 0 && precedes(at, place_of(w->page.v[i - 1])); i--) w->page.v[i] = w->page.v[i - 1];
    w->page.v[i] = c;
}

/* list_heads -- those of the reader's chunks, and which of them a path copy ends with. */
static sp_err list_heads(walk *w)
{
    uint64_t key;
    for (const sp_copy *c = NULL; (c = sp_ledger_next(w->l, c));)
        if (!is_path(c) && c->tenant == w->q->reader.tenant) SP_TRY(add_head(&w->heads, c->facts.head));
    sort_heads(&w->heads);
    for (const sp_copy *c = NULL; w->heads.n && (c = sp_ledger_next(w->l, c));) {
        if (!is_path(c)) continue;
        SP_TRY(key_of(w, c, &key));
        head *h = find_head(&w->heads, key);
        if (h) h->has_copy = true;
    }
    return SP_OK;
}

/* count_below -- of the nodes of a page. */
static sp_err count_below(walk *w, sp_tree_node *nodes, int n)
{
    uint64_t key;
    w->heads.n = 0;
    for (int i = 0; i < n; i++) {
        if (!is_path(nodes[i].copy)) continue;
        for (const sp_copy *c = nodes[i].copy->children.first; c; c = c->sibling.next) nodes[i].n_below += is_kept(c);
        SP_TRY(key_of(w, nodes[i].copy, &key));
        SP_TRY(add_head(&w->heads, key));
    }
    sort_heads(&w->heads);
    for (const sp_copy *c = NULL; w->heads.n && (c = sp_ledger_next(w->l, c));) {
        head *h = is_path(c) || !is_kept(c) ? NULL : find_head(&w->heads, c->facts.head);
        if (h) h->n += is_after(w, c, h->key);
    }
    for (int i = 0; i < n; i++) {
        if (!is_path(nodes[i].copy)) continue;
        SP_TRY(key_of(w, nodes[i].copy, &key));
        nodes[i].n_below += find_head(&w->heads, key)->n;
    }
    return SP_OK;
}

static sp_err list(walk *w, sp_tree_node *nodes, int *n, bool *more)
{
    SP_TRY(sp_vec_reserve(&w->page, (size_t)w->q->limit + 1));
    SP_TRY(w->q->parent ? key_of(w, w->q->parent, &w->key) : list_heads(w));
    for (const sp_copy *c = NULL; (c = sp_ledger_next(w->l, c));)
        if (is_below(w, c)) offer(w, c);
    const int found = SP_MIN((int)w->page.n, w->q->limit);
    for (int i = 0; i < found; i++) nodes[i] = (sp_tree_node){.copy = w->page.v[i]};
    SP_TRY(count_below(w, nodes, found));
    *more = (int)w->page.n > found;
    *n = found;
    return SP_OK;
}

sp_err sp_tree_list(const sp_ledger *l, const sp_tree_query *q, sp_tree_node *nodes, int *n, bool *more)
{
    walk w = {.l = l, .q = q};
    sp_err err = list(&w, nodes, n, more);
    sp_vec_fini(&w.heads);
    sp_vec_fini(&w.ids);
    sp_vec_fini(&w.page);
    return err;
}

const sp_copy *sp_tree_find(const sp_ledger *l, const sp_tree_reader *reader, uint64_t name)
{
    for (const sp_copy *c = NULL; (c = sp_ledger_next(l, c));) {
        if (!is_path(c) || c->name != name) continue;
        const sp_copy *root = c;
        while (root->parent) root = root->parent;
        if (owns_path(reader, root)) return c;
    }
    return NULL;
}
