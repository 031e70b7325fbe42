/* nodes.c -- the nodes of an automaton, and the bytes that they tell apart. */
#include <string.h>

#include "base/digits.h"
#include "engine/grammar/grammar_int.h"

int32_t sp_gram_add(sp_grammar *g, sp_gram_node n, sp_err *err)
{
    if (*err != SP_OK) return 0;
    if (g->nodes.n >= SP_GRAM_MAX_NODES)
        *err =
            sp_fail(SP_E_LIMIT, "grammar: it is too large: more than %d nodes", SP_GRAM_MAX_NODES);
    else
        *err = sp_vec_reserve(&g->nodes, 1);
    if (*err != SP_OK) return 0;
    g->nodes.v[g->nodes.n++] = n;
    return (int32_t)g->nodes.n - 1;
}

int32_t sp_gram_jump(sp_grammar *g, int32_t to, sp_err *err)
{
    return sp_gram_add(g, (sp_gram_node){.kind = SP_GRAM_SPLIT, .next = to, .alt = to}, err);
}

void sp_gram_lead(sp_grammar *g, int32_t jump, int32_t to, const sp_err *err)
{
    if (*err == SP_OK) g->nodes.v[jump].next = g->nodes.v[jump].alt = to;
}

/* -- characters of JSON strings -------------------------------------------------------------------- */

/* Positions in a character; the first two are SP_CHAR_WHOLE and SP_CHAR_ESCAPE. */
enum {
    HEX1 = SP_CHAR_ESCAPE + 1,
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
    AFTER_F4,
    N_POSITIONS
};

static int after_lead(uint8_t b)
{
    if (b < 0x80) return b < 0x20 || b == '"' ? -1 : b == '\\' ? SP_CHAR_ESCAPE : SP_CHAR_WHOLE;
    if (b < 0xC2 || b > 0xF4) return -1;
    if (b < 0xE0) return REST1;
    if (b < 0xF0) return b == 0xE0 ? AFTER_E0 : b == 0xED ? AFTER_ED : REST2;
    return b == 0xF0 ? AFTER_F0 : b == 0xF4 ? AFTER_F4 : REST3;
}

static bool is_hex(uint8_t b)
{
    return sp_digit16((char)b) >= 0;
}

int sp_json_char(int position, uint8_t b)
{
    bool rest = b >= 0x80 && b <= 0xBF;
    switch (position) {
    case SP_CHAR_WHOLE:
        return after_lead(b);
    case SP_CHAR_ESCAPE:
        return b == 'u' ? HEX1 : b && strchr("\"\\/bfnrt", b) ? SP_CHAR_WHOLE : -1;
    case HEX1:
        return !is_hex(b) ? -1 : (b | 32) == 'd' ? HEX2_D : HEX2;
    case HEX2:
        return is_hex(b) ? HEX3 : -1;
    case HEX2_D:
        return b >= '0' && b <= '7' ? HEX3 : -1;
    case HEX3:
        return is_hex(b) ? HEX4 : -1;
    case HEX4:
        return is_hex(b) ? SP_CHAR_WHOLE : -1;
    case REST1:
        return rest ? SP_CHAR_WHOLE : -1;
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

/* -- classes of bytes ------------------------------------------------------------------------------- */

/* cut_chars -- cuts where a character of a string goes elsewhere on byte b than on the byte before. */
static void cut_chars(bool *cut)
{
    for (int b = 1; b < 256; b++)
        for (int p = 0; p < N_POSITIONS && !cut[b]; p++)
            cut[b] = sp_json_char(p, (uint8_t)b) != sp_json_char(p, (uint8_t)(b - 1));
}

void sp_gram_classify(sp_grammar *g)
{
    bool cut[257] = {0}, chars = false;
    for (size_t i = 0; i < g->nodes.n; i++) {
        const sp_gram_node *n = &g->nodes.v[i];
        if (n->kind == SP_GRAM_BYTE) cut[n->lo] = cut[n->hi + 1] = true;
        chars = chars || n->kind == SP_GRAM_CHARS;
    }
    if (chars) cut_chars(cut);
    int class = 0;
    for (int b = 0; b < 256; b++) g->class_of[b] = (uint8_t)(class += b && cut[b]);
    g->n_classes = class + 1;
}

/* -- stacks --------------------------------------------------------------------------------------- */

/* need -- the least stack that leads from a node to the end of its rule, by what is known of the others. */
static int32_t need(const sp_grammar *g, const int32_t *needs, const sp_gram_node *n)
{
    const int32_t next = n->next >= 0 ? needs[n->next] : 0;
    if (n->kind == SP_GRAM_RETURN) return 0;
    if (n->kind == SP_GRAM_SPLIT) return SP_MIN(next, needs[n->alt]);
    if (n->kind != SP_GRAM_CALL) return next;
    const bool pushes = n->next < 0 || g->nodes.v[n->next].kind != SP_GRAM_RETURN; /* as run.c */
    const int32_t called = needs[n->alt];
    return SP_MAX(next, called == INT32_MAX ? called : called + pushes);
}

sp_err sp_gram_check_stack(const sp_grammar *g)
{
    const size_t n = g->nodes.n;
    int32_t *needs = sp_alloc(n, sizeof *needs);
    if (!needs) return sp_fail_nomem("a grammar");
    for (size_t i = 0; i < n; i++) needs[i] = INT32_MAX;
    for (bool moves = true; moves;) {
        moves = false;
        for (size_t i = 0; i < n; i++) {
            const int32_t less = need(g, needs, &g->nodes.v[i]);
            moves |= less < needs[i];
            needs[i] = less;
        }
    }
    const int32_t most = n && g->start >= 0 ? needs[g->start] : 0;
    sp_free(needs);
    if (most == INT32_MAX || most <= SP_GRAM_MAX_STACK) return SP_OK;
    return sp_fail(SP_E_LIMIT, "grammar: every text is within %d rules at once; at most %d are supported", most,
                   SP_GRAM_MAX_STACK);
}
