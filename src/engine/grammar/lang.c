/* lang.c -- conditions of a string, joined.
 *
 *     parts --parse--> trees --add_tree--> one nondeterministic automaton with a start for each part
 *           --determine--> states: sets of its nodes; accepted where each part (or its opposite) accepts
 *           --mark_live, reach--> which states lead to the end with how many characters
 *           --write--> nodes of the grammar, from the last length to the first
 *
 * Characters that no condition tells apart are one class: cuts[i] .. cuts[i + 1] - 1. */
#include "engine/grammar/lang.h"

#include <stdlib.h>
#include <string.h>

#include "engine/grammar/tree.h"

enum {
    MAX_ATOMS = 1 << 16,
    MAX_STATES = 1 << 12,
    MAX_SETS = 1 << 21,     /* members of all sets */
    MAX_WORK = 1 << 26,     /* members looked at */
    MAX_ALL_WORK = 1 << 28, /* the same, of all strings of a grammar */
    MAX_LAYERED = 1 << 15,  /* states times lengths */
    N_BUCKETS = 1 << 10,
};

/* An atom is a node of the nondeterministic automaton. */
typedef struct atom {
    enum { SPLIT, SET, ACCEPT } kind;
    int32_t next, alt; /* ACCEPT: next is the part */
    const sp_char_range *ranges;
    int32_t n_ranges;
} atom;

typedef struct set {
    int32_t first, n, bucket; /* its atoms; bucket: the next set of it */
    bool accepted;
    bool live; /* leads to an accepted one */
} set;

typedef struct lang {
    const sp_lang *l;
    sp_tree trees[SP_LANG_MAX_PARTS];
    int n_trees;
    SP_VEC(atom) atoms;
    SP_VEC(uint32_t) cuts;
    SP_VEC(set) sets;
    SP_VEC(int32_t) members, to; /* to[set][class]: a set; -1: none */
    int32_t buckets[N_BUCKETS];
    int32_t *seen; /* [atoms] the step that saw an atom last */
    int32_t step, work;
    sp_err err;
} lang;

/* -- trees as atoms ---------------------------------------------------------------------------------- */

static int32_t add(lang *a, atom n)
{
    if (a->err == SP_OK && a->atoms.n >= MAX_ATOMS)
        a->err =
            sp_fail(SP_E_LIMIT, "pattern: its repetitions are too large for another condition");
    if (a->err == SP_OK) a->err = sp_vec_reserve(&a->atoms, 1);
    if (a->err != SP_OK) return 0;
    a->atoms.v[a->atoms.n++] = n;
    return (int32_t)a->atoms.n - 1;
}

static int32_t add_tree(lang *a, const sp_tree *t, int32_t at, int32_t next);

static int32_t add_repeat(lang *a, const sp_tree *t, const sp_grammar_node *n, int32_t next)
{
    int32_t max = n->max, end = next;
    if (max < 0) {
        int32_t loop = add(a, (atom){.kind = SPLIT, .next = next, .alt = next});
        int32_t part = add_tree(a, t, n->one, loop);
        if (a->err == SP_OK) a->atoms.v[loop].next = part;
        next = loop;
        max = n->min;
    }
    for (int32_t i = max; i > 0 && a->err == SP_OK; i--) {
        int32_t part = add_tree(a, t, n->one, next);
        next = i > n->min ? add(a, (atom){.kind = SPLIT, .next = part, .alt = end}) : part;
    }
    return next;
}

static int32_t add_tree(lang *a, const sp_tree *t, int32_t at, int32_t next)
{
    int32_t alt = -1, end = next;
    while (a->err == SP_OK) {
        const sp_grammar_node *n = &t->nodes.v[at];
        if (n->kind == SP_TREE_SEQ) {
            next = add_tree(a, t, n->two, next);
        } else if (n->kind == SP_TREE_ALT && next == end) {
            int32_t two = add_tree(a, t, n->two, end);
            alt = alt < 0 ? two : add(a, (atom){.kind = SPLIT, .next = two, .alt = alt});
        } else {
            break;
        }
        at = n->one;
    }
    if (a->err != SP_OK) return 0;
    const sp_grammar_node *n = &t->nodes.v[at];
    if (n->kind == SP_TREE_ALT)
        next = add_tree(a, t, at, next);
    else if (n->kind == SP_TREE_REPEAT)
        next = add_repeat(a, t, n, next);
    else if (n->kind == SP_TREE_SET)
        next = add(a, (atom){.kind = SET,
                             .next = next,
                             .ranges = t->ranges.v + n->ranges,
                             .n_ranges = n->n_ranges});
    return alt < 0 ? next : add(a, (atom){.kind = SPLIT, .next = next, .alt = alt});
}

/* names_tree -- the keys of an object as alternatives. */
static sp_err names_tree(sp_tree *t, json_t *names)
{
    const char *name;
    json_t *value;
    int32_t all = -1;
    SP_TRY(sp_tree_init(t, "names", ""));
    json_object_foreach(names, name, value)
    {
        int32_t one = -1;
        t->source = name;
        t->n = strlen(name);
        for (t->at = 0; t->at < t->n && t->err == SP_OK;) {
            size_t first = t->ranges.n;
            uint32_t c = sp_tree_char(t);
            sp_tree_range(t, c, c);
            one = sp_tree_seq(t, one, sp_tree_set(t, first, false));
        }
        if (one < 0) one = sp_tree_add(t, (sp_grammar_node){.kind = SP_TREE_EMPTY});
        all = sp_tree_alt(t, all, one);
    }
    if (t->err == SP_OK) t->err = sp_vec_reserve(&t->rules, 1);
    if (t->err == SP_OK) t->rules.v[t->rules.n++] = (sp_tree_rule){.body = all};
    return t->err;
}

static int compare(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

static sp_err cut_classes(lang *a)
{
    SP_TRY(sp_vec_reserve(&a->cuts, 1));
    a->cuts.v[a->cuts.n++] = 0;
    for (int i = 0; i < a->n_trees; i++) {
        const sp_tree *t = &a->trees[i];
        SP_TRY(sp_vec_reserve(&a->cuts, 2 * t->ranges.n + 1));
        for (size_t k = 0; k < t->ranges.n; k++) {
            a->cuts.v[a->cuts.n++] = t->ranges.v[k].lo;
            if (t->ranges.v[k].hi < SP_CHAR_TOP) a->cuts.v[a->cuts.n++] = t->ranges.v[k].hi + 1;
        }
    }
    qsort(a->cuts.v, a->cuts.n, sizeof *a->cuts.v, compare);
    size_t n = 0;
    for (size_t i = 0; i < a->cuts.n; i++)
        if (!n || a->cuts.v[i] != a->cuts.v[n - 1]) a->cuts.v[n++] = a->cuts.v[i];
    a->cuts.n = n;
    return SP_OK;
}

/* -- sets of atoms ----------------------------------------------------------------------------------- */

/* close -- adds an atom, and what it leads to without a character, to the set that grows. */
static void close_over(lang *a, int32_t at)
{
    size_t from = a->members.n;
    for (int32_t more = 1; more && a->err == SP_OK;) {
        if (a->seen[at] != a->step) {
            a->seen[at] = a->step;
            if (a->members.n >= MAX_SETS || ++a->work > MAX_WORK)
                a->err = sp_fail(SP_E_LIMIT, "pattern: too large for another condition");
            else if (a->work + *a->l->work > MAX_ALL_WORK)
                a->err = sp_fail(SP_E_LIMIT, "pattern: with those before it too large for other conditions");
            else
                a->err = sp_vec_reserve(&a->members, 1);
            if (a->err != SP_OK) return;
            a->members.v[a->members.n++] = at;
        }
        for (more = 0; from < a->members.n && !more;) { /* the first way that is not followed yet */
            const atom *n = &a->atoms.v[a->members.v[from]];
            if (n->kind == SPLIT && a->seen[n->next] != a->step)
                at = n->next, more = 1;
            else if (n->kind == SPLIT && a->seen[n->alt] != a->step)
                at = n->alt, more = 1;
            else
                from++;
        }
    }
}

static int compare_ids(const void *x, const void *y)
{
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

static bool accepts(const lang *a, const set *s)
{
    uint32_t found = 0;
    for (int32_t i = 0; i < s->n; i++) {
        const atom *n = &a->atoms.v[a->members.v[s->first + i]];
        if (n->kind == ACCEPT) found |= 1u << n->next;
    }
    for (int i = 0; i < a->l->n; i++)
        if ((found >> i & 1) == a->l->parts[i].not ) return false;
    return true;
}

/* intern -- the number of the set that grew since `first`. */
static int32_t intern(lang *a, int32_t first)
{
    int32_t n = (int32_t)a->members.n - first, *v = a->members.v + first;
    uint32_t h = 2166136261u;
    if (a->err != SP_OK) return 0;
    if (n) qsort(v, (size_t)n, sizeof *v, compare_ids);
    for (int32_t i = 0; i < n; i++) h = (h ^ (uint32_t)v[i]) * 16777619u;
    h %= N_BUCKETS;
    for (int32_t i = a->buckets[h]; i >= 0; i = a->sets.v[i].bucket) {
        const set *s = &a->sets.v[i];
        if (s->n != n || (n && memcmp(a->members.v + s->first, v, (size_t)n * sizeof *v) != 0))
            continue;
        a->members.n = (size_t)first;
        return i;
    }
    if (a->sets.n >= MAX_STATES)
        a->err = sp_fail(SP_E_LIMIT, "pattern: too large for another condition");
    else if ((a->err = sp_vec_reserve(&a->sets, 1)) == SP_OK)
        a->err = sp_vec_reserve(&a->to, a->cuts.n);
    if (a->err != SP_OK) return 0;
    set s = {.first = first, .n = n, .bucket = a->buckets[h]};
    s.accepted = s.live = accepts(a, &s);
    a->sets.v[a->sets.n] = s;
    a->to.n += a->cuts.n;
    return a->buckets[h] = (int32_t)a->sets.n++;
}

static bool has(const atom *n, uint32_t c)
{
    for (int32_t i = 0; i < n->n_ranges; i++)
        if (c >= n->ranges[i].lo && c <= n->ranges[i].hi) return true;
    return false;
}

/* determine -- all sets that characters lead to, from set 0. */
static void determine(lang *a, const int32_t *starts)
{
    memset(a->buckets, 0xFF, sizeof a->buckets);
    a->step = 1;
    for (int i = 0; i < a->n_trees; i++) close_over(a, starts[i]);
    intern(a, 0);
    for (size_t i = 0; i < a->sets.n && a->err == SP_OK; i++)
        for (size_t c = 0; c < a->cuts.n && a->err == SP_OK; c++) {
            int32_t first = (int32_t)a->members.n;
            set from = a->sets.v[i];
            a->step++;
            for (int32_t k = 0; k < from.n && a->err == SP_OK; k++) {
                const atom *n = &a->atoms.v[a->members.v[from.first + k]];
                a->work++;
                if (n->kind == SET && has(n, a->cuts.v[c])) close_over(a, n->next);
            }
            int32_t to = intern(a, first);
            if (a->err == SP_OK) a->to.v[i * a->cuts.n + c] = to;
        }
}

static void mark_live(lang *a)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = a->sets.n; i-- > 0;)
            for (size_t c = 0; c < a->cuts.n && !a->sets.v[i].live; c++)
                if (a->sets.v[a->to.v[i * a->cuts.n + c]].live) more = a->sets.v[i].live = true;
    }
}

/* -- nodes of the grammar ------------------------------------------------------------------------------- */

typedef struct writer {
    lang *a;
    sp_grammar *g;
    sp_gram_out out;
    int32_t end;
} writer;

/* write_set -- a character, then the node of its set in `to` (-1: none); or the end. */
static int32_t write_set(writer *w, size_t i, const int32_t *to, bool ends)
{
    lang *a = w->a;
    int32_t at = ends ? w->end : -1;
    for (size_t c = 0; c < a->cuts.n;) {
        int32_t next = to[a->to.v[i * a->cuts.n + c]];
        sp_char_range r = {a->cuts.v[c], 0};
        do c++;
        while (c < a->cuts.n && to[a->to.v[i * a->cuts.n + c]] == next);
        r.hi = c < a->cuts.n ? a->cuts.v[c] - 1 : SP_CHAR_TOP;
        if (next >= 0) at = sp_gram_json_range(&w->out, r, at, next);
    }
    return at;
}

/* write_free -- nodes for any further characters: [sets] their numbers; -1: the set leads nowhere. */
static void write_free(writer *w, int32_t *nodes)
{
    lang *a = w->a;
    for (size_t i = 0; i < a->sets.n; i++)
        nodes[i] = a->sets.v[i].live ? sp_gram_jump(w->g, w->end, &a->err) : -1;
    for (size_t i = 0; i < a->sets.n && a->err == SP_OK; i++)
        if (nodes[i] >= 0)
            sp_gram_lead(w->g, nodes[i], write_set(w, i, nodes, a->sets.v[i].accepted), &a->err);
}

/* reach -- which sets that lead to the end k characters lead to: [k][sets]. */
static void reach(const lang *a, int32_t n_layers, bool *at)
{
    size_t n = a->sets.n;
    at[0] = true;
    for (int32_t k = 0; k + 1 < n_layers; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; at[(size_t)k * n + i] && a->sets.v[i].live && c < a->cuts.n; c++)
                at[((size_t)k + 1) * n + (size_t)a->to.v[i * a->cuts.n + c]] = true;
}

/* write -- nodes for each set and number of characters, from the largest number. */
static int32_t write_layers(writer *w, int32_t min, int32_t max)
{
    lang *a = w->a;
    size_t n = a->sets.n;
    int32_t n_layers = (max < 0 ? min : max) + 1, start = -1;
    bool *at = SP_NEW_N(bool, n *(size_t)n_layers);
    int32_t *nodes = SP_NEW_N(int32_t, n), *before = SP_NEW_N(int32_t, n);
    if (!at || !nodes || !before) a->err = sp_fail_nomem("a grammar");
    if (a->err == SP_OK) {
        reach(a, n_layers, at);
        if (max < 0)
            write_free(w, nodes);
        else
            memset(nodes, 0xFF, n * sizeof *nodes);
    }
    for (int32_t k = n_layers - (max < 0 ? 2 : 1); k >= 0 && a->err == SP_OK; k--) {
        for (size_t i = 0; i < n; i++)
            before[i] = at[(size_t)k * n + i] && a->sets.v[i].live
                            ? write_set(w, i, nodes, a->sets.v[i].accepted && k >= min)
                            : -1;
        memcpy(nodes, before, n * sizeof *nodes);
    }
    if (a->err == SP_OK) start = nodes[0];
    sp_free(at);
    sp_free(nodes);
    sp_free(before);
    return start;
}

typedef struct reached {
    bool seen;
    int32_t n_in;  /* ways into it that were not followed */
    int32_t depth; /* characters before it: the fewest, then the most */
} reached;

/* reach_live -- the sets that lead to the end, from set 0 and with the nearest first; returns their number. */
static size_t reach_live(const lang *a, reached *r, int32_t *queue, int32_t *shortest)
{
    size_t n = a->sets.v[0].live;
    r[0].seen = true;
    queue[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t from = (size_t)queue[i];
        if (a->sets.v[from].accepted) *shortest = SP_MIN(*shortest, r[from].depth);
        for (size_t c = 0; c < a->cuts.n; c++) {
            const int32_t to = a->to.v[from * a->cuts.n + c];
            if (!a->sets.v[to].live) continue;
            r[to].n_in++;
            if (r[to].seen) continue;
            r[to] = (reached){.seen = true, .n_in = 1, .depth = r[from].depth + 1};
            queue[n++] = to;
        }
    }
    return n;
}

/* deepest -- characters before the last of n reached sets; -1: some are in a loop, into which ways remain. */
static int32_t deepest(const lang *a, reached *r, int32_t *queue, size_t n)
{
    int32_t most = 0;
    size_t n_free = n && r[0].n_in == 0;
    queue[0] = 0;
    for (size_t i = 0; i < n_free; i++) {
        const size_t from = (size_t)queue[i];
        most = SP_MAX(most, r[from].depth);
        for (size_t c = 0; c < a->cuts.n; c++) {
            const int32_t to = a->to.v[from * a->cuts.n + c];
            if (!a->sets.v[to].live) continue;
            r[to].depth = SP_MAX(r[to].depth, r[from].depth + 1);
            if (--r[to].n_in == 0) queue[n_free++] = to;
        }
    }
    return n_free == n ? most : -1;
}

/* longest -- characters of the longest string (-1: no limit) and of the shortest (INT32_MAX: there is none).
 * Cost: each way of each set twice. */
static int32_t longest(lang *a, int32_t *shortest)
{
    reached *r = SP_NEW_N(reached, a->sets.n);
    int32_t *queue = SP_NEW_N(int32_t, a->sets.n), found = -1;
    *shortest = INT32_MAX;
    if (r && queue)
        found = deepest(a, r, queue, reach_live(a, r, queue, shortest));
    else
        a->err = sp_fail_nomem("a grammar");
    sp_free(r);
    sp_free(queue);
    return found;
}

static int32_t count_live(const lang *a)
{
    int32_t n = 0;
    for (size_t i = 0; i < a->sets.n; i++) n += a->sets.v[i].live;
    return n;
}

static void write(lang *a, sp_grammar *g, int32_t *start)
{
    int32_t least, most = longest(a, &least), min = a->l->min, max = a->l->max;
    writer w = {.a = a, .g = g, .out = {g, &a->err}};
    int32_t limit = MAX_LAYERED / SP_MAX(count_live(a), 1);
    if (a->err != SP_OK) return;
    if (least != INT32_MAX && min <= least) min = 0;
    if (most >= 0 && (max < 0 || max > most)) max = min > 0 ? most : -1;
    if (max >= 0 && max > SP_MAX(min, limit)) max = SP_MAX(min, limit);
    if (min > limit) {
        a->err = sp_fail(SP_E_LIMIT, "pattern: too large for a length of %d characters", min);
        return;
    }
    w.end = sp_gram_add(g, (sp_gram_node){.kind = SP_GRAM_RETURN}, &a->err);
    *start = a->sets.v[0].live && (max < 0 || min <= max) ? write_layers(&w, min, max) : -1;
}

/* -- all of it -------------------------------------------------------------------------------------------- */

static sp_err parse(lang *a, int32_t *starts)
{
    for (int i = 0; i < a->l->n; i++) {
        const sp_lang_part *p = &a->l->parts[i];
        sp_tree *t = &a->trees[a->n_trees++];
        SP_TRY(p->pattern ? sp_pattern_parse(p->pattern, t) : names_tree(t, p->names));
        int32_t end = add(a, (atom){.kind = ACCEPT, .next = i});
        starts[i] = add_tree(a, t, t->rules.v[0].body, end);
        SP_TRY(a->err);
    }
    return cut_classes(a);
}

sp_err sp_lang_build(const sp_lang *l, sp_grammar *g, int32_t *start)
{
    int32_t starts[SP_LANG_MAX_PARTS], at = -1;
    lang *a = SP_NEW(lang);
    if (!a) return sp_fail_nomem("a grammar");
    a->l = l;
    a->err = parse(a, starts);
    if (a->err == SP_OK) {
        a->seen = SP_NEW_N(int32_t, a->atoms.n + 1);
        if (!a->seen) a->err = sp_fail_nomem("a grammar");
    }
    if (a->err == SP_OK) determine(a, starts);
    *l->work += a->work;
    if (a->err == SP_OK) mark_live(a);
    if (a->err == SP_OK && g) write(a, g, &at);
    if (a->err == SP_OK) *start = g ? at : a->sets.v[0].live ? 0 : -1;
    sp_err err = a->err;
    for (int i = 0; i < a->n_trees; i++) sp_tree_fini(&a->trees[i]);
    sp_vec_fini(&a->atoms);
    sp_vec_fini(&a->cuts);
    sp_vec_fini(&a->sets);
    sp_vec_fini(&a->members);
    sp_vec_fini(&a->to);
    sp_free(a->seen);
    sp_free(a);
    return err;
}
