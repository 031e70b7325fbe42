/* grammar.c -- runs the automaton of a grammar over bytes, and finds the tokens that it allows.
 *
 * A configuration is a node, a stack of nodes to return to, and inside a string the number of
 * characters and the position in a character. A state is a set of configurations: all ways to read
 * the text so far. Configurations only rest on nodes that read a byte (BYTE, CHARS) or on DONE.
 *
 * Stacks share their cells: a cell is a node and the cell below; equal stacks are the same cell, so
 * configurations compare by value. Cells are compacted between tokens.
 *
 * Tokens are sorted by their bytes. The walk keeps the state after each byte of the current token;
 * the next token shares a prefix with it, so that each prefix is read once, and a byte that is
 * refused skips all tokens with that prefix. Inside a string most tokens are plain characters; they
 * are allowed as a block and only the others are walked.
 */
#include "engine/grammar_int.h"

#include <stdlib.h>
#include <string.h>

#include "model/vocab_spec.h"

enum {
    MAX_CONFIGS = 256,
    MAX_CELLS = 1 << 15,
    N_BUCKETS = 1 << 16,
    MAX_STACK = 256,
    MAX_TOKEN = 64,
    MAX_FOLLOWED = 20000,
    DONE = -1
};

/* Positions in a character of a string. */
enum {
    WHOLE,
    ESCAPE,
    HEX1,
    HEX2,
    HEX2_D,
    HEX3,
    HEX4,
    REST1,
    REST2,
    REST3,
    AFTER_E0,
    AFTER_ED,
    AFTER_F0,
    AFTER_F4
};

typedef struct config {
    int32_t node, cell; /* cell -1: an empty stack */
    int32_t count;
    int32_t part;
} config;

typedef struct configs {
    config v[MAX_CONFIGS];
    int n;
} configs;

typedef struct cell {
    int32_t node, below, depth;
    int32_t next; /* of its bucket */
} cell;

typedef struct sorted {
    int32_t *ids;
    uint8_t *shared; /* bytes that a token shares with the one before */
    size_t n;
    size_t first[257]; /* where tokens with each first byte begin */
} sorted;

struct sp_token_set {
    size_t n;
    sp_text_view *pieces;
    bool *end;
    uint64_t *plain;     /* tokens of whole plain characters of a string */
    uint16_t *n_chars;   /* of plain ones */
    sorted all, special; /* tokens with bytes; of these, those that are not plain */
    sp_arena arena;
};

struct sp_grammar_state {
    const sp_grammar *g;
    const sp_token_set *v;
    configs *at; /* [MAX_TOKEN + 1]; [0] is the state, others belong to the walk */
    cell *cells;
    int32_t *buckets;
    int32_t n_cells;
    uint64_t *mask;
    int left;   /* nodes that may be followed for this byte */
    bool fresh; /* the mask is that of the state */
    bool full;  /* a limit was reached: the state may lack configurations */
};

/* -- cells and configurations -------------------------------------------------------------------- */

static int32_t cell_of(sp_grammar_state *s, int32_t node, int32_t below)
{
    uint32_t h = ((uint32_t)node * 2654435761u ^ (uint32_t)(below + 1) * 2246822519u) >> 16;
    for (int32_t i = s->buckets[h]; i >= 0; i = s->cells[i].next)
        if (s->cells[i].node == node && s->cells[i].below == below) return i;
    int32_t depth = below < 0 ? 1 : s->cells[below].depth + 1;
    if (s->n_cells == MAX_CELLS || depth > MAX_STACK) {
        s->full = true;
        return -2;
    }
    s->cells[s->n_cells] =
        (cell){.node = node, .below = below, .depth = depth, .next = s->buckets[h]};
    return s->buckets[h] = s->n_cells++;
}

static void insert(sp_grammar_state *s, configs *to, config c)
{
    for (int i = 0; i < to->n; i++)
        if (memcmp(&to->v[i], &c, sizeof c) == 0) return;
    if (to->n == MAX_CONFIGS)
        s->full = true;
    else
        to->v[to->n++] = c;
}

/* follow -- inserts c, or where its node reads no byte, what comes after it. */
static void follow(sp_grammar_state *s, configs *to, config c)
{
    for (;;) {
        if (s->left-- <= 0) {
            s->full = true;
            return;
        }
        if (c.node == DONE) {
            insert(s, to, c);
            return;
        }
        const sp_gram_node *n = &s->g->nodes.v[c.node];
        if (n->kind == SP_GRAM_BYTE || n->kind == SP_GRAM_CHARS) insert(s, to, c);
        if (n->kind == SP_GRAM_BYTE) return;
        if (n->kind == SP_GRAM_CHARS && (c.part != WHOLE || c.count < n->min)) return;
        if (n->kind == SP_GRAM_SPLIT && n->alt != n->next)
            follow(s, to, (config){.node = n->alt, .cell = c.cell});
        if (n->kind == SP_GRAM_RETURN) {
            c.node = c.cell < 0 ? DONE : s->cells[c.cell].node;
            c.cell = c.cell < 0 ? -1 : s->cells[c.cell].below;
            continue;
        }
        /* a call at the end of a rule returns to where the rule does */
        if (n->kind == SP_GRAM_CALL && s->g->nodes.v[n->next].kind != SP_GRAM_RETURN) {
            c.cell = cell_of(s, n->next, c.cell);
            if (c.cell == -2) return;
        }
        c = (config){.node = n->kind == SP_GRAM_CALL ? n->alt : n->next, .cell = c.cell};
    }
}

/* -- characters of strings -------------------------------------------------------------------------- */

static int after_lead(uint8_t b)
{
    if (b < 0x80) return b < 0x20 || b == '"' ? -1 : b == '\\' ? ESCAPE : WHOLE;
    if (b < 0xC2 || b > 0xF4) return -1;
    if (b < 0xE0) return REST1;
    if (b < 0xF0) return b == 0xE0 ? AFTER_E0 : b == 0xED ? AFTER_ED : REST2;
    return b == 0xF0 ? AFTER_F0 : b == 0xF4 ? AFTER_F4 : REST3;
}

static bool is_hex(uint8_t b)
{
    return (b >= '0' && b <= '9') || ((b | 32) >= 'a' && (b | 32) <= 'f');
}

/* next_part -- the position in a character after byte b; -1: b is not allowed. Escapes of surrogates
 * (\uD800 to \uDFFF) are not allowed. */
static int next_part(int part, uint8_t b)
{
    bool rest = b >= 0x80 && b <= 0xBF;
    switch (part) {
    case WHOLE:
        return after_lead(b);
    case ESCAPE:
        return b == 'u' ? HEX1 : b && strchr("\"\\/bfnrt", b) ? WHOLE : -1;
    case HEX1:
        return !is_hex(b) ? -1 : (b | 32) == 'd' ? HEX2_D : HEX2;
    case HEX2:
        return is_hex(b) ? HEX3 : -1;
    case HEX2_D:
        return b >= '0' && b <= '7' ? HEX3 : -1;
    case HEX3:
        return is_hex(b) ? HEX4 : -1;
    case HEX4:
        return is_hex(b) ? WHOLE : -1;
    case REST1:
        return rest ? WHOLE : -1;
    case REST2:
        return rest ? REST1 : -1;
    case REST3:
        return rest ? REST2 : -1;
    case AFTER_E0:
        return rest && b >= 0xA0 ? REST1 : -1;
    case AFTER_ED:
        return rest && b <= 0x9F ? REST1 : -1;
    case AFTER_F0:
        return rest && b >= 0x90 ? REST2 : -1;
    default:
        return rest && b <= 0x8F ? REST2 : -1;
    }
}

/* read_char -- a byte inside a string. The count stops at `min` where there is no limit, so that the
 * state of a long string stays the same. */
static void read_char(sp_grammar_state *s, configs *to, config c, uint8_t b)
{
    const sp_gram_node *n = &s->g->nodes.v[c.node];
    if (c.part == WHOLE && c.count == n->max) return;
    int part = next_part(c.part, b);
    if (part < 0) return;
    if (part == WHOLE && (n->max >= 0 || c.count < n->min)) c.count++;
    c.part = part;
    follow(s, to, c);
}

/* read_byte -- the state after one more byte; false: there is none. */
static bool read_byte(sp_grammar_state *s, const configs *from, configs *to, uint8_t b)
{
    to->n = 0;
    s->left = MAX_FOLLOWED;
    for (int i = 0; i < from->n; i++) {
        config c = from->v[i];
        if (c.node == DONE) continue;
        const sp_gram_node *n = &s->g->nodes.v[c.node];
        if (n->kind == SP_GRAM_CHARS)
            read_char(s, to, c, b);
        else if (b >= n->lo && b <= n->hi)
            follow(s, to, (config){.node = n->next, .cell = c.cell});
    }
    return to->n > 0;
}

/* -- the mask ---------------------------------------------------------------------------------------- */

static void set(uint64_t *mask, int32_t id)
{
    mask[id >> 6] |= (uint64_t)1 << (id & 63);
}

/* walk -- allows the tokens of a sorted list that the state can read. */
static void walk(sp_grammar_state *s, const sorted *list)
{
    size_t depth = 0; /* at[0 .. depth] hold the states after the first bytes of the token before */
    for (size_t i = 0; i < list->n;) {
        const sp_text_view *t = &s->v->pieces[list->ids[i]];
        depth = SP_MIN(depth, list->shared[i]);
        while (depth < t->n && read_byte(s, &s->at[depth], &s->at[depth + 1], (uint8_t)t->s[depth]))
            depth++;
        if (depth == t->n) set(s->mask, list->ids[i]);
        if (depth == 0) { /* no token with this first byte */
            i = list->first[(uint8_t)t->s[0] + 1];
            continue;
        }
        for (i++; depth < t->n && i < list->n && list->shared[i] > depth;) i++;
    }
}

/* chars_left -- how many plain characters a configuration at the start of a character can take; -1:
 * no limit, 0: none. */
static int32_t chars_left(const sp_grammar_state *s, const config *c)
{
    if (c->node == DONE || c->part != WHOLE) return 0;
    const sp_gram_node *n = &s->g->nodes.v[c->node];
    if (n->kind != SP_GRAM_CHARS) return 0;
    return n->max < 0 ? -1 : n->max - c->count;
}

static void allow_plain(sp_grammar_state *s, int32_t left)
{
    for (size_t i = 0; left < 0 && i < SP_DIV_UP(s->v->n, 64); i++) s->mask[i] |= s->v->plain[i];
    for (size_t i = 0; left > 0 && i < s->v->n; i++)
        if (s->v->n_chars[i] && s->v->n_chars[i] <= left) set(s->mask, (int32_t)i);
}

static void allow_ends(sp_grammar_state *s)
{
    for (size_t i = 0; i < s->v->n; i++)
        if (s->v->end[i]) set(s->mask, (int32_t)i);
}

size_t sp_grammar_n_tokens(const sp_grammar_state *s)
{
    return s->v->n;
}

bool sp_grammar_complete(const sp_grammar_state *s)
{
    for (int i = 0; i < s->at[0].n; i++)
        if (s->at[0].v[i].node == DONE) return true;
    return false;
}

const uint64_t *sp_grammar_mask(sp_grammar_state *s)
{
    size_t n_words = SP_DIV_UP(s->v->n, 64);
    bool in_string = false, elsewhere = false, any = false;
    if (s->fresh) return s->mask;
    memset(s->mask, 0, n_words * sizeof *s->mask);
    for (int i = 0; i < s->at[0].n; i++) {
        const config *c = &s->at[0].v[i];
        int32_t left = chars_left(s, c);
        bool quote = c->node != DONE && s->g->nodes.v[c->node].kind == SP_GRAM_BYTE &&
                     s->g->nodes.v[c->node].lo == '"' && s->g->nodes.v[c->node].hi == '"';
        if (left) allow_plain(s, left);
        if (left) in_string = true;
        if (!left && !quote && c->node != DONE) elsewhere = true;
    }
    walk(s, in_string && !elsewhere ? &s->v->special : &s->v->all);
    for (size_t i = 0; i < n_words && !any; i++) any = s->mask[i] != 0;
    if (!any || sp_grammar_complete(s)) allow_ends(s);
    s->fresh = true;
    return s->mask;
}

/* -- accepting ------------------------------------------------------------------------------------------ */

static void forget_cells(sp_grammar_state *s)
{
    memset(s->buckets, 0xFF, N_BUCKETS * sizeof *s->buckets);
    s->n_cells = 0;
}

/* compact -- keeps the cells that the state uses. */
static void compact(sp_grammar_state *s)
{
    int32_t path[MAX_STACK];
    cell *old = s->cells + MAX_CELLS; /* the second half is room for this copy */
    memcpy(old, s->cells, (size_t)s->n_cells * sizeof *old);
    forget_cells(s);
    for (int i = 0; i < s->at[0].n; i++) {
        int n = 0;
        int32_t below = -1;
        for (int32_t k = s->at[0].v[i].cell; k >= 0; k = old[k].below) path[n++] = old[k].node;
        while (n--) below = cell_of(s, path[n], below);
        s->at[0].v[i].cell = below;
    }
}

bool sp_grammar_accept(sp_grammar_state *s, int32_t id)
{
    if (id < 0 || (size_t)id >= s->v->n) return false;
    if (s->v->end[id]) return sp_grammar_complete(s);
    const sp_text_view *t = &s->v->pieces[id];
    if (!t->n || t->n > MAX_TOKEN) return false;
    for (size_t i = 0; i < t->n; i++)
        if (!read_byte(s, &s->at[i], &s->at[i + 1], (uint8_t)t->s[i])) return false;
    bool same = s->at[0].n == s->at[t->n].n &&
                memcmp(s->at[0].v, s->at[t->n].v, (size_t)s->at[0].n * sizeof(config)) == 0;
    if (!same) {
        s->at[0] = s->at[t->n];
        s->fresh = false;
    }
    if (s->n_cells > MAX_CELLS / 2) compact(s);
    return true;
}

/* -- creation -------------------------------------------------------------------------------------------- */

sp_err sp_grammar_create(json_t *schema, sp_grammar **out)
{
    return sp_grammar_create_as(schema, &(sp_grammar_opts){0}, out);
}

sp_err sp_grammar_create_as(json_t *schema, const sp_grammar_opts *o, sp_grammar **out)
{
    sp_grammar *g = SP_NEW(sp_grammar);
    if (!g) return sp_fail_nomem(sizeof *g, "a grammar");
    sp_err err = sp_grammar_build(g, schema, o);
    if (err != SP_OK) {
        sp_grammar_destroy(g);
        return err;
    }
    *out = g;
    return SP_OK;
}

void sp_grammar_destroy(sp_grammar *g)
{
    if (!g) return;
    sp_vec_fini(&g->nodes);
    sp_free(g);
}

sp_err sp_grammar_start(const sp_grammar *g, const sp_token_set *v, sp_grammar_state **out)
{
    sp_grammar_state *s = SP_NEW(sp_grammar_state);
    if (!s) return sp_fail_nomem(sizeof *s, "the state of a grammar");
    *s = (sp_grammar_state){.g = g, .v = v};
    s->at = SP_NEW_N(configs, MAX_TOKEN + 1);
    s->cells = SP_NEW_N(cell, 2 * MAX_CELLS);
    s->buckets = SP_NEW_N(int32_t, N_BUCKETS);
    s->mask = SP_NEW_N(uint64_t, SP_DIV_UP(v->n, 64));
    if (!s->at || !s->cells || !s->buckets || !s->mask) {
        sp_grammar_stop(s);
        return sp_fail_nomem(MAX_CELLS * sizeof(cell), "the state of a grammar");
    }
    forget_cells(s);
    s->left = MAX_FOLLOWED;
    follow(s, &s->at[0], (config){.node = g->start, .cell = -1});
    *out = s;
    return SP_OK;
}

void sp_grammar_stop(sp_grammar_state *s)
{
    if (!s) return;
    sp_free(s->at);
    sp_free(s->cells);
    sp_free(s->buckets);
    sp_free(s->mask);
    sp_free(s);
}

/* plain_chars -- the characters of a piece that any string may hold; 0: it is not of that kind. */
static uint16_t plain_chars(const sp_text_view *t)
{
    uint16_t n = 0;
    int part = WHOLE;
    for (size_t i = 0; i < t->n; i++) {
        part = next_part(part, (uint8_t)t->s[i]);
        if (part < 0 || part == ESCAPE) return 0;
        n += part == WHOLE;
    }
    return part == WHOLE ? n : 0;
}

static int by_bytes(const void *a, const void *b, void *user)
{
    const sp_text_view *pieces = user, *x = &pieces[*(const int32_t *)a],
                       *y = &pieces[*(const int32_t *)b];
    int d = memcmp(x->s, y->s, SP_MIN(x->n, y->n));
    return d ? d : (x->n > y->n) - (x->n < y->n);
}

static sp_err sort_tokens(sp_token_set *v, bool special, sorted *out)
{
    out->ids = sp_arena_take(&v->arena, v->n + 1, sizeof *out->ids);
    out->shared = sp_arena_take(&v->arena, v->n + 1, 1);
    if (!out->ids || !out->shared) return sp_fail_nomem(v->n * 5, "a sorted vocabulary");
    for (size_t i = 0; i < v->n; i++)
        if (v->pieces[i].n && v->pieces[i].n <= MAX_TOKEN && !v->end[i] &&
            !(special && v->n_chars[i]))
            out->ids[out->n++] = (int32_t)i;
    qsort_r(out->ids, out->n, sizeof *out->ids, by_bytes, v->pieces);
    for (size_t i = 1; i < out->n; i++) {
        const sp_text_view *a = &v->pieces[out->ids[i - 1]], *b = &v->pieces[out->ids[i]];
        size_t k = 0;
        while (k < a->n && k < b->n && a->s[k] == b->s[k]) k++;
        out->shared[i] = (uint8_t)k;
    }
    size_t i = 0;
    for (int byte = 0; byte < 256; byte++) {
        while (i < out->n && (uint8_t)v->pieces[out->ids[i]].s[0] < byte) i++;
        out->first[byte] = i;
    }
    out->first[256] = out->n;
    return SP_OK;
}

static sp_err fill(sp_token_set *v, const sp_token_piece *pieces)
{
    v->pieces = sp_arena_take(&v->arena, v->n, sizeof *v->pieces);
    v->end = sp_arena_take(&v->arena, v->n, sizeof *v->end);
    v->plain = sp_arena_take(&v->arena, SP_DIV_UP(v->n, 64), sizeof *v->plain);
    v->n_chars = sp_arena_take(&v->arena, v->n, sizeof *v->n_chars);
    if (!v->pieces || !v->end || !v->plain || !v->n_chars)
        return sp_fail_nomem(v->n * 16, "a sorted vocabulary");
    for (size_t i = 0; i < v->n; i++) {
        char *copy = sp_arena_take(&v->arena, pieces[i].n + 1, 1);
        if (!copy) return sp_fail_nomem(pieces[i].n, "a sorted vocabulary");
        if (pieces[i].n) memcpy(copy, pieces[i].s, pieces[i].n);
        v->pieces[i] = (sp_text_view){.s = copy, .n = pieces[i].n};
        v->end[i] = pieces[i].end;
        if (v->end[i] || pieces[i].n > MAX_TOKEN) continue;
        v->n_chars[i] = plain_chars(&v->pieces[i]);
        if (v->n_chars[i]) set(v->plain, (int32_t)i);
    }
    SP_TRY(sort_tokens(v, false, &v->all));
    return sort_tokens(v, true, &v->special);
}

sp_err sp_token_set_create(const sp_token_piece *pieces, size_t n, sp_token_set **out)
{
    sp_token_set *v = SP_NEW(sp_token_set);
    if (!v) return sp_fail_nomem(sizeof *v, "a sorted vocabulary");
    sp_arena_init(&v->arena);
    v->n = n;
    sp_err err = fill(v, pieces);
    if (err != SP_OK) {
        sp_token_set_destroy(v);
        return err;
    }
    *out = v;
    return SP_OK;
}

sp_err sp_token_set_of(const sp_tokenizer *t, sp_token_set **out)
{
    int n = sp_tokenizer_size(t);
    sp_bytes text = {0};
    size_t *at = SP_NEW_N(size_t, (size_t)n + 1);
    sp_token_piece *pieces = SP_NEW_N(sp_token_piece, (size_t)n + 1);
    sp_err err = at && pieces ? SP_OK : sp_fail_nomem((size_t)n * 32, "a sorted vocabulary");
    for (int i = 0; i < n && err == SP_OK; i++) {
        err = sp_tokenizer_piece(t, i, false, &text);
        at[i + 1] = text.n;
    }
    for (int i = 0; i < n && err == SP_OK; i++)
        pieces[i] = (sp_token_piece){
            .s = text.v + at[i], .n = at[i + 1] - at[i], .end = sp_tokenizer_is_end(t, i)};
    if (err == SP_OK) err = sp_token_set_create(pieces, (size_t)n, out);
    sp_vec_fini(&text);
    sp_free(at);
    sp_free(pieces);
    return err;
}

void sp_token_set_destroy(sp_token_set *v)
{
    if (!v) return;
    sp_arena_fini(&v->arena);
    sp_free(v);
}
