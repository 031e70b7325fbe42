/* grammar.c -- which tokens may come next in a text under a grammar.
 *
 * run.c gives the text a state. The mask of a state is a walk over the trie of the vocabulary: a
 * byte that the state refuses skips the subtree, so that each prefix is read once and most of the
 * vocabulary not at all. Inside a JSON string most tokens are plain characters; they are allowed as a
 * block, and only the others are visited.
 */
#include "engine/grammar/grammar.h"

#include <string.h>

#include "base/need.h"
#include "engine/grammar/run.h"
#include "engine/grammar/tree.h"
#include "engine/grammar/token_set.h"

struct sp_grammar_state {
    const sp_token_set *v;
    sp_gram_run run;
    int32_t at;     /* the state of the text */
    int32_t masked; /* the state that `mask` is of; -1: none */
    uint64_t *mask;
};

/* -- the mask ---------------------------------------------------------------------------------------- */

/* walk -- allows the tokens of a trie that the state can read. */
static void walk(sp_grammar_state *s, const sp_token_trie *t)
{
    int32_t at[SP_TRIE_MAX_DEPTH + 1]; /* states after the bytes on the way to a node */
    at[0] = s->at;
    for (int32_t i = 0; i < t->n_nodes;) {
        const sp_token_trie_node *n = &t->nodes[i];
        int32_t to = sp_gram_step(&s->run, at[n->depth - 1], n->byte);
        if (to == SP_GRAM_DEAD) {
            i = n->after;
            continue;
        }
        at[n->depth] = to;
        for (int32_t k = n->tokens; k < n[1].tokens; k++) sp_token_bit_set(s->mask, t->ids[k]);
        i++;
    }
}

/* allow_plain -- tokens of up to n plain characters; -1: of any number. */
static void allow_plain(sp_grammar_state *s, int32_t n)
{
    const sp_token_set *v = s->v;
    if (n < 0) memcpy(s->mask, v->plain, SP_DIV_UP(v->n, 64) * sizeof *s->mask);
    for (size_t i = 0; n > 0 && i < v->n; i++)
        if (v->n_chars[i] && v->n_chars[i] <= n) sp_token_bit_set(s->mask, (int32_t)i);
}

static void find_mask(sp_grammar_state *s)
{
    size_t n_words = SP_DIV_UP(s->v->n, 64);
    const sp_gram_state *at = &s->run.states[s->at];
    bool any = false;
    memset(s->mask, 0, n_words * sizeof *s->mask);
    allow_plain(s, at->n_chars);
    walk(s, at->n_chars && at->only_chars ? &s->v->special : &s->v->all);
    for (size_t i = 0; i < n_words && !any; i++) any = s->mask[i] != 0;
    for (size_t i = 0; (!any || at->complete) && i < s->v->n; i++)
        if (s->v->end[i]) sp_token_bit_set(s->mask, (int32_t)i);
}

/* make_room -- drops all states except that of the text. */
static void make_room(sp_grammar_state *s)
{
    sp_gram_forget(&s->run, s->at);
    s->at = 0;
    s->masked = -1;
}

const uint64_t *sp_grammar_mask(sp_grammar_state *s)
{
    if (s->masked == s->at) return s->mask;
    find_mask(s);
    if (s->run.full) {
        make_room(s);
        find_mask(s);
    }
    s->masked = s->at;
    return s->mask;
}

size_t sp_grammar_n_tokens(const sp_grammar_state *s)
{
    return s->v->n;
}

bool sp_grammar_complete(const sp_grammar_state *s)
{
    return s->run.states[s->at].complete;
}

/* -- single tokens ------------------------------------------------------------------------------------- */

/* after_token -- the state after a token with bytes; DEAD: it is not allowed. */
static int32_t after_token(sp_grammar_state *s, int32_t id)
{
    const sp_text_view *t = &s->v->pieces[id];
    if (!t->n || t->n > SP_TRIE_MAX_DEPTH) return SP_GRAM_DEAD;
    for (int attempt = 0;; attempt++) {
        int32_t to = s->at;
        for (size_t i = 0; i < t->n && to != SP_GRAM_DEAD; i++)
            to = sp_gram_step(&s->run, to, (uint8_t)t->s[i]);
        if (to != SP_GRAM_DEAD || !s->run.full || attempt) return to;
        make_room(s);
    }
}

bool sp_grammar_allows(sp_grammar_state *s, int32_t id)
{
    if (id < 0 || (size_t)id >= s->v->n) return false;
    if (s->masked == s->at) return sp_token_bit(s->mask, id);
    if (!s->v->end[id]) return after_token(s, id) != SP_GRAM_DEAD;
    return sp_grammar_complete(s) || sp_token_bit(sp_grammar_mask(s), id);
}

bool sp_grammar_accept(sp_grammar_state *s, int32_t id)
{
    if (id < 0 || (size_t)id >= s->v->n) return false;
    if (s->v->end[id]) return sp_grammar_complete(s);
    int32_t to = after_token(s, id);
    if (to == SP_GRAM_DEAD) return false;
    s->at = to;
    return true;
}

/* -- creation -------------------------------------------------------------------------------------------- */

static sp_err check_form(const sp_grammar_opts *o)
{
    if ((o->gbnf != NULL) + (o->regex != NULL) + (o->schema != NULL) + (o->n_texts > 0) > 1)
        return sp_fail(SP_E_ARG, "grammar: more than one of schema, texts, gbnf, regex");
    if (o->n_texts < 0 || (o->n_texts > 0 && !o->texts))
        return sp_fail(SP_E_ARG, "grammar: a list of %d texts", o->n_texts);
    for (int i = 0; i < o->n_texts; i++)
        if (!o->texts[i] || !*o->texts[i])
            return sp_fail(SP_E_ARG, "grammar: text %d is NULL or empty", i);
    return SP_OK;
}

static sp_err build(json_t *schema, const sp_grammar_opts *o, sp_grammar *g)
{
    SP_TRY(check_form(o));
    if (o->gbnf) return sp_gbnf_build(o->gbnf, g);
    if (o->regex) return sp_regex_build(o->regex, g);
    return sp_json_schema_build(schema, o, g);
}

sp_err sp_grammar_create(json_t *schema, sp_grammar **out)
{
    return sp_grammar_create_as(schema, &(sp_grammar_opts){0}, out);
}

sp_err sp_grammar_create_as(json_t *schema, const sp_grammar_opts *o, sp_grammar **out)
{
    sp_grammar *g = SP_NEW(sp_grammar);
    if (!g) return sp_fail_nomem("a grammar");
    sp_err err = build(schema, o, g);
    if (err == SP_OK) err = sp_gram_check_stack(g);
    if (err != SP_OK) {
        sp_grammar_destroy(g);
        return err;
    }
    sp_gram_classify(g);
    *out = g;
    return SP_OK;
}

/* append -- the nodes of `from`; *start is where its texts begin. */
static sp_err append(sp_grammar *g, const sp_grammar *from, int32_t *start)
{
    const int32_t at = (int32_t)g->nodes.n;
    sp_err err = SP_OK;
    for (size_t i = 0; i < from->nodes.n; i++) {
        sp_gram_node n = from->nodes.v[i];
        if (n.next >= 0) n.next += at;
        if (n.alt >= 0) n.alt += at;
        sp_gram_add(g, n, &err);
    }
    *start = from->start + at;
    return err;
}

sp_err sp_grammar_either(const sp_grammar *one, const sp_grammar *other, sp_grammar **out)
{
    SP_NEED(one);
    SP_NEED(other);
    SP_NEED(out);
    sp_gram_node first = {.kind = SP_GRAM_SPLIT};
    sp_grammar *g = SP_NEW(sp_grammar);
    if (!g) return sp_fail_nomem("a grammar");
    sp_err err = append(g, one, &first.next);
    if (err == SP_OK) err = append(g, other, &first.alt);
    if (err == SP_OK) g->start = sp_gram_add(g, first, &err);
    if (err != SP_OK) {
        sp_grammar_destroy(g);
        return err;
    }
    sp_gram_classify(g);
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
    if (!s) return sp_fail_nomem("the state of a grammar");
    *s = (sp_grammar_state){.v = v, .masked = -1};
    s->mask = SP_NEW_N(uint64_t, SP_DIV_UP(v->n, 64));
    sp_err err = s->mask ? SP_OK : sp_fail_nomem("the state of a grammar");
    if (err == SP_OK) err = sp_gram_run_init(&s->run, g);
    if (err != SP_OK) {
        sp_grammar_stop(s);
        return err;
    }
    *out = s;
    return SP_OK;
}

void sp_grammar_stop(sp_grammar_state *s)
{
    if (!s) return;
    sp_gram_run_fini(&s->run);
    sp_free(s->mask);
    sp_free(s);
}
