/* run.c -- the states of a text under a grammar.
 *
 * A configuration is one way to read the text so far: a node, a stack of nodes to return to, and inside a
 * string the number of characters and the position in one. Its node is one that reads a byte (BYTE,
 * CHARS) or DONE. A state is the set of all configurations of a text.
 *
 *     bytes --class_of--> to[state][class] --known--> state
 *                              | UNKNOWN
 *                              v
 *          read() each configuration -> follow() to nodes that read -> intern() the set
 *
 * States are numbered, and each step from state to state is found once: a walk over a vocabulary takes
 * the same few steps for most tokens. Equal stacks are the same cell, so configurations compare by value.
 *
 *   I1  A number names one set of configurations until sp_gram_forget.
 *   I2  Sizes are fixed at init; what does not fit sets `full`, and its step stays UNKNOWN.
 *   I3  A state has at most MAX_VISITS configurations and a stack at most SP_GRAM_MAX_STACK cells; ways beyond these
 *       limits are dropped, so the language shrinks.
 */
#include "engine/grammar/run.h"

#include <string.h>

enum {
    MAX_STATES = 1 << 12,
    MAX_CONFIGS = 1 << 16, /* of all states */
    MAX_CELLS = 1 << 15,
    MAX_VISITS = 1 << 13,     /* nodes that one step may pass */
    N_SLOTS = 2 * MAX_VISITS, /* at most half of them are used */
    N_BUCKETS = 1 << 12,
    DONE = -1,
    NO_CELL = -1, /* an empty stack */
};

struct sp_gram_config {
    int32_t node, cell;
    int32_t count, position; /* CHARS: whole characters, and the position in the next one */
};

struct sp_gram_cell {
    int32_t node, below, depth;
    int32_t next; /* of its bucket */
};

struct sp_gram_visit {
    sp_gram_config c;
    int32_t slot;
};

/* -- stacks --------------------------------------------------------------------------------------- */

static uint32_t hash_of(const sp_gram_config *v, int n)
{
    uint32_t h = 2166136261u;
    for (int i = 0; i < n; i++) {
        h = (h ^ (uint32_t)v[i].node) * 2654435761u;
        h = (h ^ (uint32_t)v[i].cell) * 2246822519u;
        h = (h ^ (uint32_t)v[i].count ^ (uint32_t)v[i].position << 24) * 3266489917u;
        h ^= h >> 15;
    }
    return h;
}

/* push -- the stack `below` with a node on it; false: it is too deep, or there is no room. */
static bool push(sp_gram_run *r, int32_t node, int32_t below, int32_t *out)
{
    uint32_t h = hash_of(&(sp_gram_config){.node = node, .cell = below}, 1) % N_BUCKETS;
    int32_t depth = below == NO_CELL ? 1 : r->cells[below].depth + 1;
    for (int32_t i = r->cell_buckets[h]; i >= 0; i = r->cells[i].next)
        if (r->cells[i].node == node && r->cells[i].below == below) return *out = i, true;
    if (depth > SP_GRAM_MAX_STACK) return false;
    if (r->n_cells == MAX_CELLS) return r->full = true, false;
    r->cells[r->n_cells] =
        (sp_gram_cell){.node = node, .below = below, .depth = depth, .next = r->cell_buckets[h]};
    *out = r->cell_buckets[h] = r->n_cells++;
    return true;
}

/* -- finding a state ------------------------------------------------------------------------------- */

/* The set that is being found is configs[n_configs ..]; begin() starts it and intern() ends it. */
typedef struct set {
    sp_gram_run *r;
    sp_gram_config *v;
    int n;
} set;

static set begin(sp_gram_run *r)
{
    r->n_visits = 0;
    return (set){.r = r, .v = r->configs + r->n_configs};
}

static bool same(const sp_gram_config *a, const sp_gram_config *b, int n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* pass -- marks a configuration; false: this step has passed it before, or passes too many. A slot holds a number
 * of `visits` if that names the slot: numbers of earlier steps need not be cleared. */
static bool pass(sp_gram_run *r, const sp_gram_config *c)
{
    int32_t i = (int32_t)(hash_of(c, 1) % N_SLOTS);
    for (int32_t k; (k = r->slots[i]) < r->n_visits && r->visits[k].slot == i;
         i = (i + 1) % N_SLOTS)
        if (same(&r->visits[k].c, c, 1)) return false;
    if (r->n_visits == MAX_VISITS) return false; /* I3 */
    r->visits[r->n_visits] = (sp_gram_visit){*c, i};
    r->slots[i] = (int16_t)r->n_visits++;
    return true;
}

static void insert(set *s, sp_gram_config c)
{
    if (s->r->n_configs + s->n == MAX_CONFIGS)
        s->r->full = true;
    else
        s->v[s->n++] = c;
}

/* follow -- inserts what c reaches without reading a byte. Each pass adds at most one to `todo`. */
static void follow(set *s, sp_gram_config c)
{
    sp_gram_run *r = s->r;
    int n = 0;
    for (r->todo[n++] = c; n > 0;) {
        c = r->todo[--n];
        if (!pass(r, &c)) continue;
        if (c.node == DONE) {
            insert(s, c);
            continue;
        }
        const sp_gram_node *at = &r->g->nodes.v[c.node];
        sp_gram_config next = {.node = at->next, .cell = c.cell};
        switch (at->kind) {
        case SP_GRAM_BYTE:
            insert(s, c);
            continue;
        case SP_GRAM_CHARS:
            insert(s, c);
            if (c.position != SP_CHAR_WHOLE || c.count < at->min) continue;
            break;
        case SP_GRAM_SPLIT:
            r->todo[n++] = (sp_gram_config){.node = at->alt, .cell = c.cell};
            break;
        case SP_GRAM_CALL: /* at the end of a rule it returns to where the rule does */
            next.node = at->alt;
            if (r->g->nodes.v[at->next].kind != SP_GRAM_RETURN &&
                !push(r, at->next, c.cell, &next.cell))
                continue;
            break;
        case SP_GRAM_RETURN:
            next.node = c.cell == NO_CELL ? DONE : r->cells[c.cell].node;
            next.cell = c.cell == NO_CELL ? NO_CELL : r->cells[c.cell].below;
            break;
        }
        r->todo[n++] = next;
    }
}

/* read -- follows c over byte b. The count of a string without a limit stops at `min`, so that its state
 * stays the same however long it is. */
static void read(set *s, sp_gram_config c, uint8_t b)
{
    if (c.node == DONE) return;
    const sp_gram_node *at = &s->r->g->nodes.v[c.node];
    if (at->kind == SP_GRAM_BYTE) {
        if (b >= at->lo && b <= at->hi)
            follow(s, (sp_gram_config){.node = at->next, .cell = c.cell});
        return;
    }
    if (c.position == SP_CHAR_WHOLE && c.count == at->max) return;
    c.position = sp_json_char(c.position, b);
    if (c.position < 0) return;
    if (c.position == SP_CHAR_WHOLE && (at->max >= 0 || c.count < at->min)) c.count++;
    follow(s, c);
}

/* describe -- the fields of a state that depend on its configurations. */
static void describe(const set *s, sp_gram_state *out)
{
    out->only_chars = true;
    for (int i = 0; i < s->n; i++) {
        const sp_gram_config *c = &s->v[i];
        const sp_gram_node *at = c->node == DONE ? NULL : &s->r->g->nodes.v[c->node];
        bool chars = at && at->kind == SP_GRAM_CHARS && c->position == SP_CHAR_WHOLE;
        int32_t left = !chars ? 0 : at->max < 0 ? -1 : at->max - c->count;
        if (!at) out->complete = true;
        if (left < 0 || (left > out->n_chars && out->n_chars >= 0)) out->n_chars = left;
        if (at && !chars && !(at->kind == SP_GRAM_BYTE && at->lo == '"' && at->hi == '"'))
            out->only_chars = false;
    }
}

/* intern -- the number of a set; an empty one has a number only at the beginning of a text. UNKNOWN: there is
 * no room. */
static int32_t intern(set *s)
{
    sp_gram_run *r = s->r;
    if (r->full) return SP_GRAM_UNKNOWN;
    if (s->n == 0 && r->n_states > 0) return SP_GRAM_DEAD;
    uint32_t h = hash_of(s->v, s->n) % N_BUCKETS;
    for (int32_t i = r->state_buckets[h]; i >= 0; i = r->states[i].next)
        if (r->states[i].n == s->n && same(r->configs + r->states[i].first, s->v, s->n)) return i;
    if (r->n_states == MAX_STATES) return r->full = true, SP_GRAM_UNKNOWN;
    sp_gram_state *state = &r->states[r->n_states];
    *state = (sp_gram_state){.first = r->n_configs, .n = s->n, .next = r->state_buckets[h]};
    describe(s, state);
    int16_t *row = r->to + r->n_states * r->g->n_classes;
    for (int i = 0; i < r->g->n_classes; i++) row[i] = SP_GRAM_UNKNOWN;
    r->n_configs += s->n;
    return r->state_buckets[h] = r->n_states++;
}

int32_t sp_gram_find(sp_gram_run *r, int32_t state, uint8_t b)
{
    set s = begin(r);
    const sp_gram_state *from = &r->states[state];
    for (int i = 0; i < from->n; i++) read(&s, r->configs[from->first + i], b);
    int32_t to = intern(&s);
    r->to[state * r->g->n_classes + r->g->class_of[b]] = (int16_t)to;
    return to == SP_GRAM_UNKNOWN ? SP_GRAM_DEAD : to; /* I2 */
}

/* -- life --------------------------------------------------------------------------------------------- */

static void clear(sp_gram_run *r)
{
    r->n_states = r->n_configs = r->n_cells = 0;
    r->full = false;
    memset(r->state_buckets, 0xFF, N_BUCKETS * sizeof *r->state_buckets);
    memset(r->cell_buckets, 0xFF, N_BUCKETS * sizeof *r->cell_buckets);
}

void sp_gram_forget(sp_gram_run *r, int32_t state)
{
    int32_t path[SP_GRAM_MAX_STACK];
    sp_gram_state kept = r->states[state];
    sp_gram_cell *old = r->cells + MAX_CELLS; /* the second half is room for this copy */
    memcpy(old, r->cells, (size_t)r->n_cells * sizeof *old);
    memmove(r->configs, r->configs + kept.first, (size_t)kept.n * sizeof *r->configs);
    clear(r);
    set s = {.r = r, .v = r->configs, .n = kept.n};
    for (int i = 0; i < s.n; i++) {
        int n = 0;
        int32_t cell = NO_CELL;
        for (int32_t k = s.v[i].cell; k != NO_CELL; k = old[k].below) path[n++] = old[k].node;
        while (n-- > 0 && push(r, path[n], cell, &cell)) continue; /* it had room before */
        s.v[i].cell = cell;
    }
    intern(&s);
}

sp_err sp_gram_run_init(sp_gram_run *r, const sp_grammar *g)
{
    *r = (sp_gram_run){.g = g};
    r->states = SP_NEW_N(sp_gram_state, MAX_STATES);
    r->to = SP_NEW_N(int16_t, MAX_STATES * (size_t)g->n_classes);
    r->configs = SP_NEW_N(sp_gram_config, MAX_CONFIGS);
    r->todo = SP_NEW_N(sp_gram_config, MAX_VISITS + 2);
    r->cells = SP_NEW_N(sp_gram_cell, 2 * MAX_CELLS);
    r->visits = SP_NEW_N(sp_gram_visit, MAX_VISITS);
    r->slots = SP_NEW_N(int16_t, N_SLOTS);
    r->state_buckets = SP_NEW_N(int32_t, N_BUCKETS);
    r->cell_buckets = SP_NEW_N(int32_t, N_BUCKETS);
    if (!r->states || !r->to || !r->configs || !r->todo || !r->cells || !r->visits || !r->slots ||
        !r->state_buckets || !r->cell_buckets) {
        sp_gram_run_fini(r);
        return sp_fail_nomem("the states of a grammar");
    }
    clear(r);
    set s = begin(r);
    follow(&s, (sp_gram_config){.node = g->start, .cell = NO_CELL});
    intern(&s);
    return SP_OK;
}

void sp_gram_run_fini(sp_gram_run *r)
{
    sp_free(r->states);
    sp_free(r->to);
    sp_free(r->configs);
    sp_free(r->todo);
    sp_free(r->cells);
    sp_free(r->visits);
    sp_free(r->slots);
    sp_free(r->state_buckets);
    sp_free(r->cell_buckets);
    *r = (sp_gram_run){0};
}
