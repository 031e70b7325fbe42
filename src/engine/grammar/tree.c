/* tree.c -- expressions over characters, and how they become automata.
 *
 * As in json_schema.c, parts are built from their end: build() gets the node that follows. A set of
 * characters becomes ranges of the bytes of UTF-8. A rule is its nodes, then RETURN, and is called.
 *
 * No way through the automaton may return to a node without reading a byte:
 *   - a rule that can reach itself before it reads a character is an error (check_recursion);
 *   - "(a*)*" is built as "(a+)*": the part of an unlimited repetition in the forms that read at least
 *     one character (build_nonempty). */
#include "engine/grammar/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/digits.h"
#include "base/utf8.h"

enum { MAX_STEPS = 1 << 21, MAX_NONEMPTY = 500, TOP = SP_CHAR_TOP };

/* -- the tree ---------------------------------------------------------------------------------- */

sp_err sp_tree_init(sp_tree *t, const char *what, const char *source)
{
    *t = (sp_tree){.what = what, .source = source, .n = strlen(source)};
    if (t->n <= SP_TREE_MAX_SOURCE) return SP_OK;
    return sp_fail(SP_E_LIMIT, "%s: it has more than %d bytes", what, SP_TREE_MAX_SOURCE);
}

void sp_tree_fini(sp_tree *t)
{
    sp_vec_fini(&t->nodes);
    sp_vec_fini(&t->ranges);
    sp_vec_fini(&t->rules);
}

void sp_tree_fail(sp_tree *t, sp_err code, size_t at, const char *why, const char *name,
                  size_t n_name)
{
    int line = 1, column = 1;
    if (t->err != SP_OK) return;
    for (size_t i = 0; i < at && i < t->n; i++) {
        uint8_t b = (uint8_t)t->source[i];
        if (b == '\n') line++, column = 0;
        column += b < 0x80 || b >= 0xC0; /* characters, not bytes */
    }
    if (n_name > 60) n_name = 60;
    t->err = sp_fail(code, "%s: line %d, column %d: %s%.*s", t->what, line, column, why,
                     (int)n_name, name ? name : "");
}

int32_t sp_tree_add(sp_tree *t, sp_grammar_node n)
{
    if (t->err != SP_OK) return 0;
    if (t->nodes.n >= SP_TREE_MAX_NODES)
        return sp_tree_fail(t, SP_E_LIMIT, t->at, "it is too large", NULL, 0), 0;
    if ((t->err = sp_vec_reserve(&t->nodes, 1)) != SP_OK) return 0;
    t->nodes.v[t->nodes.n++] = n;
    return (int32_t)t->nodes.n - 1;
}

int32_t sp_tree_seq(sp_tree *t, int32_t one, int32_t two)
{
    if (one < 0) return two;
    return sp_tree_add(t, (sp_grammar_node){.kind = SP_TREE_SEQ, .one = one, .two = two});
}

int32_t sp_tree_alt(sp_tree *t, int32_t one, int32_t two)
{
    if (one < 0) return two;
    return sp_tree_add(t, (sp_grammar_node){.kind = SP_TREE_ALT, .one = one, .two = two});
}

int32_t sp_tree_repeat(sp_tree *t, int32_t one, int32_t min, int32_t max)
{
    sp_grammar_node n = {.kind = SP_TREE_REPEAT, .one = one, .min = min, .max = max};
    return sp_tree_add(t, n);
}

void sp_tree_range(sp_tree *t, uint32_t lo, uint32_t hi)
{
    if (t->err != SP_OK) return;
    if (t->ranges.n >= SP_TREE_MAX_NODES)
        return sp_tree_fail(t, SP_E_LIMIT, t->at, "it is too large", NULL, 0);
    if ((t->err = sp_vec_reserve(&t->ranges, 1)) != SP_OK) return;
    t->ranges.v[t->ranges.n++] = (sp_char_range){lo, hi};
}

static int by_low(const void *a, const void *b)
{
    const sp_char_range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* negate -- replaces the ranges from number `first` by all characters outside them. */
static void negate(sp_tree *t, size_t first)
{
    size_t n = t->ranges.n - first;
    uint32_t from = 0;
    if (n) qsort(t->ranges.v + first, n, sizeof *t->ranges.v, by_low);
    for (size_t i = 0; i < n && t->err == SP_OK; i++) {
        sp_char_range r = t->ranges.v[first + i];
        if (r.lo > from) sp_tree_range(t, from, r.lo - 1);
        if (r.hi + 1 > from) from = r.hi + 1;
    }
    if (from <= TOP) sp_tree_range(t, from, TOP);
    if (t->err != SP_OK) return;
    memmove(t->ranges.v + first, t->ranges.v + first + n,
            (t->ranges.n - first - n) * sizeof *t->ranges.v);
    t->ranges.n -= n;
}

int32_t sp_tree_set(sp_tree *t, size_t first, bool negated)
{
    if (negated) negate(t, first);
    if (t->err != SP_OK) return 0;
    bool any = false;
    for (size_t i = first; i < t->ranges.n; i++)
        any = any || t->ranges.v[i].lo < 0xD800 || t->ranges.v[i].hi > 0xDFFF;
    if (!any) return sp_tree_fail(t, SP_E_ARG, t->at, "no character is in this set", NULL, 0), 0;
    return sp_tree_add(t, (sp_grammar_node){.kind = SP_TREE_SET,
                                         .ranges = (int32_t)first,
                                         .n_ranges = (int32_t)(t->ranges.n - first)});
}

/* -- reading the source ------------------------------------------------------------------------- */

int sp_tree_peek(const sp_tree *t)
{
    return t->err == SP_OK && t->at < t->n ? (uint8_t)t->source[t->at] : -1;
}

uint32_t sp_tree_char(sp_tree *t)
{
    const uint8_t *s = (const uint8_t *)t->source + t->at;
    int n = t->at < t->n ? sp_utf8_step(s, t->n - t->at) : 0;
    if (n <= 0) {
        sp_tree_fail(t, SP_E_ARG, t->at, t->at < t->n ? "is not UTF-8" : "it ends too early", NULL,
                     0);
        return 0;
    }
    t->at += (size_t)n;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7Fu >> n);
    for (int i = 1; i < n; i++) c = c << 6 | (s[i] & 0x3Fu);
    return c;
}

uint32_t sp_tree_hex(sp_tree *t, int n)
{
    uint32_t v = 0;
    size_t begin = t->at;
    for (int i = 0; i < n; i++) {
        const int c = sp_tree_peek(t), digit = sp_digit16((char)c);
        if (c < 0 || digit < 0) {
            sp_tree_fail(t, SP_E_ARG, t->at, "a hexadecimal digit is missing", NULL, 0);
            return 0;
        }
        v = v << 4 | (uint32_t)digit;
        t->at++;
    }
    if (v > TOP || (v >= 0xD800 && v <= 0xDFFF))
        sp_tree_fail(t, SP_E_ARG, begin, "this number is not a character", NULL, 0);
    return v;
}

/* number -- -1: there is none. */
static int32_t number(sp_tree *t)
{
    int32_t v = -1;
    for (int c; (c = sp_tree_peek(t)) >= '0' && c <= '9'; t->at++) {
        v = (v < 0 ? 0 : v * 10) + c - '0';
        if (v <= SP_TREE_MAX_REPEAT) continue;
        sp_tree_fail(t, SP_E_LIMIT, t->at, "more than 2000 repetitions are not supported", NULL, 0);
        return 0;
    }
    return v;
}

void sp_tree_bounds(sp_tree *t, int32_t *min, int32_t *max)
{
    size_t begin = t->at++;
    *min = *max = number(t);
    if (sp_tree_peek(t) == ',') {
        t->at++;
        *max = number(t);
        if (*min < 0 && *max >= 0) *min = 0;
    }
    if (t->err != SP_OK) return;
    if (sp_tree_peek(t) != '}' || *min < 0)
        sp_tree_fail(t, SP_E_ARG, begin, "a repetition must be {m}, {m,} or {m,n}", NULL, 0);
    else if (*max >= 0 && *min > *max)
        sp_tree_fail(t, SP_E_ARG, begin, "the least number exceeds the largest", NULL, 0);
    t->at++;
}

/* -- building ------------------------------------------------------------------------------------ */

typedef struct maker {
    sp_tree *t;
    sp_grammar *g;
    sp_gram_out out;
    int32_t *starts; /* [rules.n] the nodes where rules begin */
    int32_t steps, depth;
} maker;

static int32_t emit(maker *m, sp_gram_node n)
{
    return sp_gram_add(m->g, n, &m->t->err);
}

/* either -- one of two parts; one -1: the other. */
static int32_t either(maker *m, int32_t one, int32_t other)
{
    if (one < 0) return other;
    return emit(m, (sp_gram_node){.kind = SP_GRAM_SPLIT, .next = one, .alt = other});
}

static int32_t build(maker *m, int32_t at, int32_t next);
static int32_t build_nonempty(maker *m, int32_t at, int32_t next);

/* repeat -- min parts that must come, then up to max - min more; max -1: any number. */
static int32_t repeat(maker *m, const sp_grammar_node *n, int32_t min, int32_t max, int32_t next)
{
    int32_t end = next;
    if (max < 0) {
        int32_t loop = either(m, next, next), part = build_nonempty(m, n->one, loop);
        if (m->t->err == SP_OK && part >= 0) m->g->nodes.v[loop].next = part;
        next = loop;
        max = min;
    }
    for (int32_t i = max; i > 0 && m->t->err == SP_OK; i--) {
        int32_t part = build(m, n->one, next);
        /* without an optional part the later ones are left out as well */
        next = i > min ? either(m, part, end) : part;
    }
    return next;
}

static bool may_step(maker *m)
{
    if (m->t->err == SP_OK && m->steps-- <= 0)
        m->t->err = sp_fail(SP_E_LIMIT, "%s: its repetitions are too large", m->t->what);
    return m->t->err == SP_OK;
}

static int32_t build(maker *m, int32_t at, int32_t next)
{
    int32_t alt = -1;
    while (may_step(m)) {
        const sp_grammar_node *n = &m->t->nodes.v[at];
        if (n->kind == SP_TREE_SEQ) {
            if (alt >= 0) break;
            next = build(m, n->two, next);
            at = n->one;
            continue;
        }
        if (n->kind == SP_TREE_ALT) {
            alt = either(m, alt, build(m, n->two, next));
            at = n->one;
            continue;
        }
        if (alt >= 0) break;
        if (n->kind == SP_TREE_REPEAT) return repeat(m, n, n->min, n->max, next);
        if (n->kind == SP_TREE_RULE)
            return emit(
                m, (sp_gram_node){.kind = SP_GRAM_CALL, .alt = m->starts[n->one], .next = next});
        int32_t set = n->kind == SP_TREE_EMPTY ? next : -1;
        for (int32_t i = 0; n->kind == SP_TREE_SET && i < n->n_ranges; i++) {
            sp_char_range r = m->t->ranges.v[n->ranges + i];
            set = m->t->in_json ? sp_gram_json_range(&m->out, r, set, next)
                                : sp_gram_char_range(&m->out, r, set, next);
        }
        return set < 0 ? 0 : set;
    }
    return m->t->err == SP_OK ? either(m, alt, build(m, at, next)) : 0;
}

/* build_nonempty -- the forms of a part that read a character; -1: there are none. */
static int32_t build_nonempty(maker *m, int32_t at, int32_t next)
{
    if (!may_step(m)) return 0;
    const sp_grammar_node *n = &m->t->nodes.v[at];
    if (!m->t->nodes.v[at].nullable) return build(m, at, next);
    if (n->kind == SP_TREE_EMPTY) return -1;
    if (n->kind == SP_TREE_RULE) {
        const sp_tree_rule *r = &m->t->rules.v[n->one];
        sp_tree_fail(m->t, SP_E_UNSUPPORTED, (size_t)(r->name - m->t->source),
                     "a rule that may be empty is repeated without limit: ", r->name, r->n_name);
        return 0;
    }
    if (n->kind == SP_TREE_REPEAT) {
        if (n->max == 0) return -1;
        return build_nonempty(m, n->one, repeat(m, n, 0, n->max < 0 ? -1 : n->max - 1, next));
    }
    if (++m->depth > MAX_NONEMPTY) {
        sp_tree_fail(m->t, SP_E_LIMIT, 0, "a repeated part is too long to be empty as well", NULL,
                     0);
        return 0;
    }
    bool seq = n->kind == SP_TREE_SEQ; /* one empty, or not */
    int32_t two = build_nonempty(m, n->two, next);
    int32_t one = build_nonempty(m, n->one, seq ? build(m, n->two, next) : next);
    m->depth--;
    return one < 0 ? two : either(m, two, one);
}

/* -- rules ----------------------------------------------------------------------------------------- */

static bool is_nullable(const sp_tree *t, const sp_grammar_node *n)
{
    switch (n->kind) {
    case SP_TREE_EMPTY:
        return true;
    case SP_TREE_SET:
        return false;
    case SP_TREE_RULE:
        return t->nodes.v[t->rules.v[n->one].body].nullable;
    case SP_TREE_REPEAT:
        return n->min == 0 || t->nodes.v[n->one].nullable;
    case SP_TREE_SEQ:
        return t->nodes.v[n->one].nullable && t->nodes.v[n->two].nullable;
    default:
        return t->nodes.v[n->one].nullable || t->nodes.v[n->two].nullable;
    }
}

/* find_nullable -- parts come before what they are parts of, so one pass is enough but for rules. */
static void find_nullable(sp_tree *t)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < t->nodes.n; i++) {
            sp_grammar_node *n = &t->nodes.v[i];
            if (n->nullable || !is_nullable(t, n)) continue;
            n->nullable = true;
            more = more || t->rules.n > 1;
        }
    }
}

/* mark_first -- sets the rules that part `at` may call before it reads a character. */
static void mark_first(const sp_tree *t, int32_t at, bool *first)
{
    for (;;) {
        const sp_grammar_node *n = &t->nodes.v[at];
        if (n->kind == SP_TREE_EMPTY || n->kind == SP_TREE_SET) return;
        if (n->kind == SP_TREE_RULE) {
            first[n->one] = true;
            return;
        }
        if (n->kind == SP_TREE_ALT || (n->kind == SP_TREE_SEQ && t->nodes.v[n->one].nullable))
            mark_first(t, n->two, first);
        at = n->one;
    }
}

/* check_recursion -- removes rules that first call only removed ones; the remaining ones call themselves. */
static void check_recursion(sp_tree *t)
{
    size_t n = t->rules.n, left = n;
    bool *first = SP_NEW_N(bool, n *n), *taken = SP_NEW_N(bool, n);
    if (!first || !taken) t->err = sp_fail_nomem("a grammar");
    for (size_t i = 0; i < n && t->err == SP_OK; i++)
        mark_first(t, t->rules.v[i].body, first + i * n);
    for (bool more = true; more && t->err == SP_OK;) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            bool ready = !taken[i];
            for (size_t k = 0; k < n && ready; k++) ready = !first[i * n + k] || taken[k];
            if (ready) taken[i] = more = true, left--;
        }
    }
    for (size_t i = 0; i < n && left && t->err == SP_OK; i++) {
        const sp_tree_rule *r = &t->rules.v[i];
        if (taken[i]) continue;
        sp_tree_fail(t, SP_E_ARG, (size_t)(r->name - t->source),
                     "a rule calls itself before it reads a character: ", r->name, r->n_name);
    }
    sp_free(first);
    sp_free(taken);
}

sp_err sp_tree_compile(sp_tree *t, sp_grammar *g, int32_t *start)
{
    maker m = {.t = t, .g = g, .out = {g, &t->err}, .steps = MAX_STEPS};
    if (t->err != SP_OK) return t->err;
    m.starts = SP_NEW_N(int32_t, t->rules.n);
    if (!m.starts) return sp_fail_nomem("a grammar");
    find_nullable(t);
    check_recursion(t);
    int32_t end = emit(&m, (sp_gram_node){.kind = SP_GRAM_RETURN});
    for (size_t i = 0; i < t->rules.n; i++) m.starts[i] = sp_gram_jump(g, end, &t->err);
    for (size_t i = 0; i < t->rules.n && t->err == SP_OK; i++)
        sp_gram_lead(g, m.starts[i], build(&m, t->rules.v[i].body, end), &t->err);
    *start = m.starts[0];
    sp_free(m.starts);
    return t->err;
}
