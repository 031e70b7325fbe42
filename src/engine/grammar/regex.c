/* regex.c -- parses regular expressions that match a whole text, or (the pattern of a JSON schema) are found
 * somewhere in it:
 *
 *     characters, ".", [a-z^-], \d \w \s \D \W \S, \n \t \r \f \v \0, \xHH, \uHHHH, \ and a sign
 *     (...), (?:...), (?P<name>...), (?<name>...), |, * + ? {m} {m,} {m,n}, also lazy ("*?")
 *     ^ and $ at the two ends of the expression, and of alternatives outside groups
 *
 * \d, \w, \s are of ASCII, and "." is any character but a line end (in a pattern, all that JavaScript has).
 * Look-around, references, flags, \b and Unicode classes are refused by name. */
#include <string.h>

#include "engine/grammar/tree.h"

static int32_t alternatives(sp_tree *t);

static void refuse(sp_tree *t, size_t at, const char *what)
{
    sp_tree_fail(t, SP_E_UNSUPPORTED, at, what, NULL, 0);
}

/* class_of -- adds the ranges of \d, \w, \s; false: c is none of them. */
static bool class_of(sp_tree *t, uint32_t c)
{
    switch (c | 32) {
    case 'd':
        sp_tree_range(t, '0', '9');
        return true;
    case 'w':
        sp_tree_range(t, '0', '9');
        sp_tree_range(t, 'A', 'Z');
        sp_tree_range(t, '_', '_');
        sp_tree_range(t, 'a', 'z');
        return true;
    case 's':
        sp_tree_range(t, '\t', '\r');
        sp_tree_range(t, ' ', ' ');
        return true;
    default:
        return false;
    }
}

/* escaped -- the character after a backslash that has been read. */
static uint32_t escaped(sp_tree *t)
{
    static const char *const names = "ntrfv0", *const values = "\n\t\r\f\v";
    size_t begin = t->at - 1;
    uint32_t c = sp_tree_char(t);
    const char *name = c && c < 0x80 ? strchr(names, (int)c) : NULL;
    if (name) return *name == '0' ? 0 : (uint32_t)values[name - names];
    if (c == 'x') return sp_tree_hex(t, 2);
    if (c == 'u') return sp_tree_hex(t, 4);
    if (c >= '1' && c <= '9') refuse(t, begin, "references to groups are not supported");
    if (c == 'b' || c == 'B') refuse(t, begin, "\\b and \\B are not supported");
    if (c == 'p' || c == 'P') refuse(t, begin, "\\p and \\P are not supported");
    if ((c | 32) >= 'a' && (c | 32) <= 'z') refuse(t, begin, "an escape that is not supported");
    return c;
}

/* is_class -- whether a backslash and the letter of a class are next. */
static bool is_class(const sp_tree *t)
{
    return sp_tree_peek(t) == '\\' && t->at + 1 < t->n && t->source[t->at + 1] &&
           strchr("dwsDWS", t->source[t->at + 1]);
}

static int32_t class_escape(sp_tree *t)
{
    size_t first = t->ranges.n;
    uint32_t c = (uint8_t)t->source[t->at + 1];
    t->at += 2;
    class_of(t, c);
    return sp_tree_set(t, first, c < 'a');
}

static uint32_t set_char(sp_tree *t)
{
    uint32_t c = sp_tree_char(t);
    return c == '\\' ? (sp_tree_peek(t) == 'b' ? (t->at++, '\b') : escaped(t)) : c;
}

/* set_item -- a character, a range or a class. */
static void set_item(sp_tree *t)
{
    size_t begin = t->at;
    if (is_class(t)) {
        uint32_t c = (uint8_t)t->source[t->at + 1];
        if (c < 'a') refuse(t, begin, "\\D, \\W and \\S in a set are not supported");
        t->at += 2;
        class_of(t, c);
        return;
    }
    if (sp_tree_peek(t) == '[' && t->at + 1 < t->n && t->source[t->at + 1] == ':')
        refuse(t, begin, "[:classes:] are not supported");
    uint32_t lo = set_char(t), hi = lo;
    if (sp_tree_peek(t) == '-' && t->at + 1 < t->n && t->source[t->at + 1] != ']') {
        t->at++;
        if (is_class(t)) sp_tree_fail(t, SP_E_ARG, begin, "a class cannot end a range", NULL, 0);
        hi = set_char(t);
    }
    if (hi < lo) sp_tree_fail(t, SP_E_ARG, begin, "the range of characters is empty", NULL, 0);
    sp_tree_range(t, lo, hi);
}

static int32_t set(sp_tree *t)
{
    size_t begin = t->at++, first = t->ranges.n;
    bool negated = sp_tree_peek(t) == '^';
    t->at += negated;
    do { /* a "]" at the beginning is a character */
        if (t->at >= t->n) sp_tree_fail(t, SP_E_ARG, begin, "this set has no end", NULL, 0);
        if (t->err == SP_OK) set_item(t);
    } while (t->err == SP_OK && sp_tree_peek(t) != ']');
    t->at++;
    return sp_tree_set(t, first, negated);
}

/* open_group -- what comes after "(": nothing, ?:, ?P<name>, ?<name>. */
static void open_group(sp_tree *t, size_t begin)
{
    if (sp_tree_peek(t) != '?') return;
    t->at++;
    int c = sp_tree_peek(t);
    t->at++;
    if (c == ':') return;
    if (c == 'P') c = sp_tree_peek(t), t->at++;
    int next = sp_tree_peek(t);
    if (c == '=' || c == '!' || (c == '<' && (next == '=' || next == '!'))) {
        refuse(t, begin, "look-around is not supported");
    } else if (c == '<') {
        while (sp_tree_peek(t) >= 0 && sp_tree_peek(t) != '>') t->at++;
        t->at++;
    } else {
        refuse(t, begin, "flags and special groups are not supported");
    }
}

static int32_t group(sp_tree *t)
{
    size_t begin = t->at++;
    if (++t->depth > SP_TREE_MAX_DEPTH)
        sp_tree_fail(t, SP_E_LIMIT, begin, "groups are nested too deeply", NULL, 0);
    open_group(t, begin);
    int32_t at = alternatives(t);
    if (sp_tree_peek(t) != ')')
        sp_tree_fail(t, SP_E_ARG, begin, "this group is not closed", NULL, 0);
    t->at++;
    t->depth--;
    return at;
}

/* any_char -- after ".": any character but a line end. */
static int32_t any_char(sp_tree *t)
{
    size_t first = t->ranges.n;
    sp_tree_range(t, '\n', '\n');
    if (t->in_json) {
        sp_tree_range(t, '\r', '\r');
        sp_tree_range(t, 0x2028, 0x2029);
    }
    return sp_tree_set(t, first, true);
}

static int32_t one_char(sp_tree *t)
{
    size_t first = t->ranges.n, begin = t->at;
    uint32_t c = sp_tree_char(t);
    if (c == '.') return any_char(t);
    if (c == '^' || c == '$') refuse(t, begin, "^ and $ inside the expression are not supported");
    if (c == '\\') c = escaped(t);
    sp_tree_range(t, c, c);
    return sp_tree_set(t, first, false);
}

static bool is_repeat(const sp_tree *t)
{
    int c = sp_tree_peek(t);
    return c == '*' || c == '+' || c == '?' || c == '{';
}

static int32_t repeated(sp_tree *t, int32_t at)
{
    int32_t min, max;
    int c = sp_tree_peek(t);
    if (!is_repeat(t)) return at;
    if (c == '{') {
        sp_tree_bounds(t, &min, &max);
    } else {
        min = c == '+';
        max = c == '?' ? 1 : -1;
        t->at++;
    }
    if (sp_tree_peek(t) == '?')
        t->at++; /* lazy: the same texts */
    else if (sp_tree_peek(t) == '+')
        refuse(t, t->at, "possessive repetitions are not supported");
    if (is_repeat(t)) sp_tree_fail(t, SP_E_ARG, t->at, "a repetition of a repetition", NULL, 0);
    return sp_tree_repeat(t, at, min, max);
}

static bool take_anchor(sp_tree *t, int c)
{
    if (t->depth > 0 || sp_tree_peek(t) != c) return false;
    t->at++;
    return true;
}

static bool at_end_anchor(const sp_tree *t)
{
    return t->depth == 0 && sp_tree_peek(t) == '$' &&
           (t->at + 1 == t->n || t->source[t->at + 1] == '|');
}

/* any_text -- before or after an alternative that is searched for and has no anchor there. */
static int32_t any_text(sp_tree *t)
{
    size_t first = t->ranges.n;
    sp_tree_range(t, 0, 0x10FFFF);
    return sp_tree_repeat(t, sp_tree_set(t, first, false), 0, -1);
}

/* sequence -- an alternative. Where the whole text must match, anchors change nothing. */
static int32_t sequence(sp_tree *t)
{
    bool searched = t->in_json && t->depth == 0;
    int32_t at = !take_anchor(t, '^') && searched ? any_text(t) : -1;
    for (int c; (c = sp_tree_peek(t)) >= 0 && c != '|' && c != ')' && !at_end_anchor(t);) {
        if (is_repeat(t)) sp_tree_fail(t, SP_E_ARG, t->at, "nothing to repeat", NULL, 0);
        int32_t next = c == '('      ? group(t)
                       : c == '['    ? set(t)
                       : is_class(t) ? class_escape(t)
                                     : one_char(t);
        at = sp_tree_seq(t, at, repeated(t, next));
    }
    if (!take_anchor(t, '$') && searched) at = sp_tree_seq(t, at, any_text(t));
    return at < 0 ? sp_tree_add(t, (sp_grammar_node){.kind = SP_TREE_EMPTY}) : at;
}

static int32_t alternatives(sp_tree *t)
{
    int32_t at = sequence(t);
    while (sp_tree_peek(t) == '|') {
        t->at++;
        at = sp_tree_alt(t, at, sequence(t));
    }
    return at;
}

/* parse -- the body becomes rule 0. */
static sp_err parse(sp_tree *t)
{
    t->err = sp_vec_reserve(&t->rules, 1);
    int32_t body = alternatives(t);
    if (sp_tree_peek(t) >= 0)
        sp_tree_fail(t, SP_E_ARG, t->at, "this parenthesis closes nothing", NULL, 0);
    if (t->err == SP_OK)
        t->rules.v[t->rules.n++] = (sp_tree_rule){.name = t->source, .n_name = 0, .body = body};
    return t->err;
}

static sp_err build(sp_tree *t, sp_grammar *g, int32_t *start)
{
    sp_err err = parse(t);
    if (err == SP_OK) err = sp_tree_compile(t, g, start);
    sp_tree_fini(t);
    return err;
}

sp_err sp_regex_build(const char *source, sp_grammar *g)
{
    sp_tree t;
    SP_TRY(sp_tree_init(&t, "regex", source));
    return build(&t, g, &g->start);
}

sp_err sp_pattern_parse(const char *source, sp_tree *t)
{
    SP_TRY(sp_tree_init(t, "pattern", source));
    t->in_json = true;
    return parse(t);
}

sp_err sp_pattern_build(const char *source, sp_grammar *g, int32_t *start)
{
    sp_tree t;
    SP_TRY(sp_tree_init(&t, "pattern", source));
    t.in_json = true;
    return build(&t, g, start);
}
