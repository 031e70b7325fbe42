/* gbnf.c -- parses GBNF, the grammars of llama.cpp:
 *
 *     root  ::= "yes" | "no" ("," ws word){0,3}     # a rule, to the end of its line
 *     word  ::= [a-z]+ [^"\\] . "\x41\u00e9\n"      # sets, any character, escapes
 *
 * Inside parentheses, after "|" and after "::=" a line may end. Tokens ("<think>") are refused. */
#include <string.h>

#include "engine/grammar/tree.h"

static int32_t alternatives(sp_tree *t, bool nested);

static bool is_name(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* skip -- blanks and comments, and (lines) ends of lines. */
static void skip(sp_tree *t, bool lines)
{
    for (int c; (c = sp_tree_peek(t)) >= 0;) {
        if (c == '#') {
            while (t->at < t->n && t->source[t->at] != '\n') t->at++;
        } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
            t->at++;
        } else {
            return;
        }
    }
}

/* rule_of -- the number of the rule with the name that begins here. */
static int32_t rule_of(sp_tree *t)
{
    const char *name = t->source + t->at;
    size_t n = 0;
    while (is_name(sp_tree_peek(t))) t->at++, n++;
    if (t->err == SP_OK && n == 0) sp_tree_fail(t, SP_E_ARG, t->at, "a name is missing", NULL, 0);
    for (size_t i = 0; i < t->rules.n; i++)
        if (t->rules.v[i].n_name == n && memcmp(t->rules.v[i].name, name, n) == 0)
            return (int32_t)i;
    if (t->rules.n >= SP_TREE_MAX_RULES)
        sp_tree_fail(t, SP_E_LIMIT, t->at, "more than 512 rules are not supported", NULL, 0);
    if (t->err == SP_OK) t->err = sp_vec_reserve(&t->rules, 1);
    if (t->err != SP_OK) return 0;
    t->rules.v[t->rules.n++] = (sp_tree_rule){.name = name, .n_name = n, .body = -1};
    return (int32_t)t->rules.n - 1;
}

/* character -- of a text or a set, perhaps escaped. */
static uint32_t character(sp_tree *t)
{
    uint32_t c = sp_tree_char(t);
    if (c != '\\' || t->err != SP_OK) return c;
    size_t begin = t->at - 1;
    switch (c = sp_tree_char(t)) {
    case 'x':
        return sp_tree_hex(t, 2);
    case 'u':
        return sp_tree_hex(t, 4);
    case 'U':
        return sp_tree_hex(t, 8);
    case 't':
        return '\t';
    case 'r':
        return '\r';
    case 'n':
        return '\n';
    default:
        if (c < 0x80 && c && strchr("\\\"[]-^./", (int)c)) return c;
        sp_tree_fail(t, SP_E_ARG, begin, "an unknown escape", NULL, 0);
        return 0;
    }
}

static int32_t one_char(sp_tree *t, uint32_t c)
{
    size_t first = t->ranges.n;
    sp_tree_range(t, c, c);
    return sp_tree_set(t, first, false);
}

static int32_t text(sp_tree *t)
{
    int32_t at = -1;
    size_t begin = t->at++;
    while (t->err == SP_OK && sp_tree_peek(t) != '"') {
        if (t->at >= t->n) sp_tree_fail(t, SP_E_ARG, begin, "this text has no end", NULL, 0);
        if (t->err == SP_OK) at = sp_tree_seq(t, at, one_char(t, character(t)));
    }
    t->at++;
    return at < 0 ? sp_tree_add(t, (sp_grammar_node){.kind = SP_TREE_EMPTY}) : at;
}

static int32_t set(sp_tree *t)
{
    size_t begin = t->at++, first = t->ranges.n;
    bool negated = sp_tree_peek(t) == '^';
    t->at += negated;
    while (t->err == SP_OK && sp_tree_peek(t) != ']') {
        if (t->at >= t->n) sp_tree_fail(t, SP_E_ARG, begin, "this set has no end", NULL, 0);
        size_t at = t->at;
        uint32_t lo = character(t), hi = lo;
        bool range = sp_tree_peek(t) == '-' && t->at + 1 < t->n && t->source[t->at + 1] != ']';
        if (range) t->at++, hi = character(t);
        if (hi < lo) sp_tree_fail(t, SP_E_ARG, at, "the range of characters is empty", NULL, 0);
        sp_tree_range(t, lo, hi);
    }
    t->at++;
    return sp_tree_set(t, first, negated);
}

static int32_t group(sp_tree *t)
{
    size_t begin = t->at++;
    if (++t->depth > SP_TREE_MAX_DEPTH)
        sp_tree_fail(t, SP_E_LIMIT, begin, "parentheses are nested too deeply", NULL, 0);
    skip(t, true);
    int32_t at = alternatives(t, true);
    if (sp_tree_peek(t) != ')')
        sp_tree_fail(t, SP_E_ARG, begin, "this parenthesis is not closed", NULL, 0);
    t->at++;
    t->depth--;
    return at;
}

/* any_char -- ".", line ends included. */
static int32_t any_char(sp_tree *t)
{
    size_t first = t->ranges.n;
    t->at++;
    sp_tree_range(t, 0, 0x10FFFF);
    return sp_tree_set(t, first, false);
}

static int32_t repeated(sp_tree *t, int32_t at, bool nested)
{
    int32_t min = 1, max = 1;
    size_t begin = t->at;
    int c = sp_tree_peek(t);
    if (c == '{') {
        sp_tree_bounds(t, &min, &max);
    } else if (c == '*' || c == '+' || c == '?') {
        min = c == '+';
        max = c == '?' ? 1 : -1;
        t->at++;
    } else {
        return at;
    }
    skip(t, nested);
    c = sp_tree_peek(t);
    if (c == '*' || c == '+' || c == '?' || c == '{')
        sp_tree_fail(t, SP_E_ARG, t->at, "a repetition of a repetition needs parentheses", NULL, 0);
    if (t->err == SP_OK && at < 0) sp_tree_fail(t, SP_E_ARG, begin, "nothing to repeat", NULL, 0);
    return sp_tree_repeat(t, at, min, max);
}

/* element -- -1: a sequence ends here. */
static int32_t element(sp_tree *t)
{
    int c = sp_tree_peek(t);
    if (c == '"') return text(t);
    if (c == '[') return set(t);
    if (c == '(') return group(t);
    if (c == '.') return any_char(t);
    if (c == '*' || c == '+' || c == '?' || c == '{')
        sp_tree_fail(t, SP_E_ARG, t->at, "nothing to repeat", NULL, 0);
    if (c == '<' || c == '!')
        sp_tree_fail(t, SP_E_UNSUPPORTED, t->at, "tokens of the vocabulary are not supported", NULL,
                     0);
    if (!is_name(c)) return -1;
    int32_t rule = rule_of(t);
    return sp_tree_add(t, (sp_grammar_node){.kind = SP_TREE_RULE, .one = rule});
}

static int32_t sequence(sp_tree *t, bool nested)
{
    int32_t at = -1, next;
    while (t->err == SP_OK && (next = element(t)) >= 0) {
        skip(t, nested);
        at = sp_tree_seq(t, at, repeated(t, next, nested));
        skip(t, nested);
    }
    return at < 0 ? sp_tree_add(t, (sp_grammar_node){.kind = SP_TREE_EMPTY}) : at;
}

static int32_t alternatives(sp_tree *t, bool nested)
{
    int32_t at = sequence(t, nested);
    while (sp_tree_peek(t) == '|') {
        t->at++;
        skip(t, true);
        at = sp_tree_alt(t, at, sequence(t, nested));
    }
    return at;
}

static void parse_rule(sp_tree *t)
{
    size_t begin = t->at;
    int32_t number = rule_of(t);
    skip(t, false);
    if (t->err == SP_OK && (t->n - t->at < 3 || memcmp(t->source + t->at, "::=", 3) != 0))
        sp_tree_fail(t, SP_E_ARG, t->at, "\"::=\" is missing", NULL, 0);
    t->at += 3;
    skip(t, true);
    int32_t body = alternatives(t, false);
    if (t->err != SP_OK) return;
    int c = sp_tree_peek(t);
    sp_tree_rule *r = &t->rules.v[number];
    if (c >= 0 && c != '\n' && c != '\r')
        sp_tree_fail(t, SP_E_ARG, t->at, "neither a part of the rule nor its end", NULL, 0);
    else if (r->body >= 0)
        sp_tree_fail(t, SP_E_ARG, begin, "a second rule of this name: ", r->name, r->n_name);
    r->name = t->source + begin; /* errors name the definition */
    r->body = body;
}

static void check_defined(sp_tree *t)
{
    for (size_t i = 0; i < t->rules.n && t->err == SP_OK; i++) {
        const sp_tree_rule *r = &t->rules.v[i];
        if (r->body >= 0) continue;
        if (i == 0)
            t->err = sp_fail(SP_E_ARG, "grammar: there is no rule with the name root");
        else
            sp_tree_fail(t, SP_E_ARG, (size_t)(r->name - t->source),
                         "a rule that is not defined: ", r->name, r->n_name);
    }
}

sp_err sp_gbnf_build(const char *source, sp_grammar *g)
{
    sp_tree t;
    SP_TRY(sp_tree_init(&t, "grammar", source));
    t.err = sp_vec_reserve(&t.rules, 1);
    if (t.err == SP_OK)
        t.rules.v[t.rules.n++] = (sp_tree_rule){.name = "root", .n_name = 4, .body = -1};
    for (skip(&t, true); t.err == SP_OK && t.at < t.n; skip(&t, true)) parse_rule(&t);
    check_defined(&t);
    sp_err err = sp_tree_compile(&t, g, &g->start);
    sp_tree_fini(&t);
    return err;
}
