/* expr.c -- parses the expressions of chat templates, with Jinja2's precedence:
 *   a if c else b < or < and < not < comparisons, in < + - < ~ < * / // % < unary - < | filter, is test
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/template/template_int.h"

enum { MAX_NESTING = 100 };

static sp_err unsupported(const sp_tpl_token *t, const char *what)
{
    return sp_fail(SP_E_UNSUPPORTED, "chat template: line %d: %s '%.*s' is not supported", t->line,
                   what, (int)SP_MIN(t->n, 60), t->s);
}

const sp_tpl_token *sp_tpl_peek(const sp_tpl_parser *p)
{
    return &p->t->tokens.v[p->at];
}

bool sp_tpl_is(const sp_tpl_parser *p, sp_tpl_token_kind kind, const char *text)
{
    const sp_tpl_token *t = sp_tpl_peek(p);
    return t->kind == kind && (!text || (t->n == strlen(text) && memcmp(t->s, text, t->n) == 0));
}

bool sp_tpl_accept(sp_tpl_parser *p, sp_tpl_token_kind kind, const char *text)
{
    bool is = sp_tpl_is(p, kind, text);
    p->at += is;
    return is;
}

sp_err sp_tpl_expect(sp_tpl_parser *p, sp_tpl_token_kind kind, const char *text)
{
    const sp_tpl_token *t = sp_tpl_peek(p);
    if (sp_tpl_accept(p, kind, text)) return SP_OK;
    return sp_fail(SP_E_FORMAT, "chat template: line %d: '%s' is expected before '%.*s'", t->line,
                   text                         ? text
                   : kind == SP_TOKEN_NAME      ? "a name"
                   : kind == SP_TOKEN_BLOCK_END ? "%}"
                                                : "}}",
                   (int)SP_MIN(t->n, 40), t->s);
}

sp_err sp_tpl_enter(sp_tpl_parser *p)
{
    if (++p->depth > MAX_NESTING)
        return sp_fail(SP_E_LIMIT, "chat template: line %d: more than %d nested levels",
                       sp_tpl_peek(p)->line, MAX_NESTING);
    return SP_OK;
}

sp_err sp_tpl_node_new(sp_tpl_parser *p, sp_tpl_node_kind kind, sp_tpl_node **out)
{
    sp_tpl_node *n = sp_arena_take(&p->t->arena, 1, sizeof *n);
    if (!n) return sp_fail_nomem("the chat template");
    n->kind = kind;
    n->line = sp_tpl_peek(p)->line;
    *out = n;
    return SP_OK;
}

static bool op(sp_tpl_parser *p, const char *text)
{
    return sp_tpl_accept(p, SP_TOKEN_OP, text);
}

static bool word(sp_tpl_parser *p, const char *text)
{
    return sp_tpl_accept(p, SP_TOKEN_NAME, text);
}

/* wrap -- a node of this kind around *n. */
static sp_err wrap(sp_tpl_parser *p, sp_tpl_node_kind kind, sp_tpl_node **n)
{
    sp_tpl_node *outer = NULL;
    SP_TRY(sp_tpl_node_new(p, kind, &outer));
    outer->a = *n;
    *n = outer;
    return SP_OK;
}

/* parse_arguments -- up to the closing bracket; spreads: *list may be one of them. */
static sp_err parse_arguments(sp_tpl_parser *p, bool spreads, sp_tpl_node **list)
{
    int n = 0;
    while (!op(p, ")")) {
        const sp_tpl_token *t = sp_tpl_peek(p);
        sp_tpl_node *arg = NULL;
        if (n++) SP_TRY(sp_tpl_expect(p, SP_TOKEN_OP, ","));
        if (n > 1 && op(p, ")")) break;
        if ((sp_tpl_is(p, SP_TOKEN_OP, "*") && !spreads) || sp_tpl_is(p, SP_TOKEN_OP, "**"))
            return unsupported(sp_tpl_peek(p), "the argument list");
        SP_TRY(sp_tpl_node_new(p, SP_NODE_ARG, &arg));
        if (op(p, "*")) arg->op = '*';
        t = sp_tpl_peek(p);
        if (t->kind == SP_TOKEN_NAME && t[1].kind == SP_TOKEN_OP && t[1].n == 1 && *t[1].s == '=') {
            arg->text = (sp_tpl_str){.s = t->s, .n = t->n};
            p->at += 2;
        }
        SP_TRY(sp_tpl_parse_expression(p, &arg->a));
        *list = arg;
        list = &arg->next;
    }
    return SP_OK;
}

/* -- primary expressions --------------------------------------------------------------------- */

static sp_err parse_items(sp_tpl_parser *p, sp_tpl_node *n, const char *close)
{
    bool dict = n->kind == SP_NODE_DICT;
    for (sp_tpl_node **tail = &n->list; !op(p, close);) {
        if (n->list) SP_TRY(sp_tpl_expect(p, SP_TOKEN_OP, ","));
        if (n->list && op(p, close)) break;
        SP_TRY(sp_tpl_parse_expression(p, tail));
        tail = &(*tail)->next;
        if (!dict) continue;
        SP_TRY(sp_tpl_expect(p, SP_TOKEN_OP, ":"));
        SP_TRY(sp_tpl_parse_expression(p, tail));
        tail = &(*tail)->next;
    }
    return SP_OK;
}

static sp_err parse_bracket(sp_tpl_parser *p, sp_tpl_node **out)
{
    if (op(p, "[")) {
        SP_TRY(sp_tpl_node_new(p, SP_NODE_LIST, out));
        return parse_items(p, *out, "]");
    }
    if (op(p, "{")) {
        SP_TRY(sp_tpl_node_new(p, SP_NODE_DICT, out));
        return parse_items(p, *out, "}");
    }
    SP_TRY(sp_tpl_expect(p, SP_TOKEN_OP, "("));
    if (op(p, ")")) {
        SP_TRY(sp_tpl_node_new(p, SP_NODE_LIST, out));
        (*out)->op = 't';
        return SP_OK;
    }
    SP_TRY(sp_tpl_parse_tuple(p, out));
    return sp_tpl_expect(p, SP_TOKEN_OP, ")");
}

static sp_err parse_strings(sp_tpl_parser *p, sp_tpl_node *n)
{
    const sp_tpl_token *t = sp_tpl_peek(p);
    size_t total = 0, k = 0;
    for (k = 0; t[k].kind == SP_TOKEN_TEXT; k++) total += t[k].n;
    sp_tpl_str *s = sp_arena_take(&p->t->arena, 1, sizeof *s);
    char *text = sp_arena_take(&p->t->arena, total + 1, 1);
    if (!s || !text) return sp_fail_nomem("a string of the chat template");
    for (total = 0; sp_tpl_peek(p)->kind == SP_TOKEN_TEXT; p->at++) {
        memcpy(text + total, sp_tpl_peek(p)->s, sp_tpl_peek(p)->n);
        total += sp_tpl_peek(p)->n;
    }
    *s = (sp_tpl_str){.s = text, .n = total};
    n->value = (sp_tpl_val){.kind = SP_TPL_STRING, .s = s};
    return SP_OK;
}

static sp_err parse_number(sp_tpl_parser *p, sp_tpl_node *n)
{
    const sp_tpl_token *t = sp_tpl_peek(p);
    char text[32];
    if (t->n >= sizeof text)
        return sp_fail(SP_E_LIMIT, "chat template: line %d: a number of %zu digits", t->line, t->n);
    memcpy(text, t->s, t->n);
    text[t->n] = 0;
    errno = 0;
    n->value = t->kind == SP_TOKEN_INT
                   ? sp_tpl_int(strtoll(text, NULL, 10))
                   : (sp_tpl_val){.kind = SP_TPL_FLOAT, .f = strtod(text, NULL)};
    if (errno) return sp_fail(SP_E_LIMIT, "chat template: line %d: %s is too large", t->line, text);
    p->at++;
    return SP_OK;
}

static sp_err parse_primary(sp_tpl_parser *p, sp_tpl_node **out)
{
    const sp_tpl_token *t = sp_tpl_peek(p);
    if (t->kind == SP_TOKEN_OP) return parse_bracket(p, out);
    SP_TRY(sp_tpl_node_new(p, SP_NODE_LITERAL, out));
    if (t->kind == SP_TOKEN_TEXT) return parse_strings(p, *out);
    if (t->kind == SP_TOKEN_INT || t->kind == SP_TOKEN_FLOAT) return parse_number(p, *out);
    if (word(p, "true") || word(p, "True")) return (*out)->value = sp_tpl_bool(true), SP_OK;
    if (word(p, "false") || word(p, "False")) return (*out)->value = sp_tpl_bool(false), SP_OK;
    if (word(p, "none") || word(p, "None")) return (*out)->value.kind = SP_TPL_NONE, SP_OK;
    SP_TRY(sp_tpl_expect(p, SP_TOKEN_NAME, NULL));
    (*out)->kind = SP_NODE_NAME;
    (*out)->text = (sp_tpl_str){.s = t->s, .n = t->n};
    return SP_OK;
}

/* -- what follows a primary expression ---------------------------------------------------------- */

static sp_err parse_subscript(sp_tpl_parser *p, sp_tpl_node **n)
{
    sp_tpl_node *part[3] = {NULL};
    int at = 0;
    bool slice = false;
    SP_TRY(wrap(p, SP_NODE_ITEM, n));
    while (!op(p, "]")) {
        if (op(p, ":")) {
            slice = true;
            if (++at > 2) return sp_tpl_expect(p, SP_TOKEN_OP, "]");
            continue;
        }
        if (part[at]) return sp_tpl_expect(p, SP_TOKEN_OP, "]");
        SP_TRY(sp_tpl_parse_expression(p, &part[at]));
    }
    if (!slice && !part[0]) return sp_tpl_expect(p, SP_TOKEN_NAME, "an index");
    (*n)->kind = slice ? SP_NODE_SLICE : SP_NODE_ITEM;
    (*n)->b = part[0], (*n)->c = part[1], (*n)->d = part[2];
    return SP_OK;
}

static sp_err parse_attribute(sp_tpl_parser *p, sp_tpl_node **n)
{
    const sp_tpl_token *t = sp_tpl_peek(p);
    if (sp_tpl_is(p, SP_TOKEN_INT, NULL)) { /* a.0 is a[0] */
        SP_TRY(wrap(p, SP_NODE_ITEM, n));
        SP_TRY(sp_tpl_node_new(p, SP_NODE_LITERAL, &(*n)->b));
        return parse_number(p, (*n)->b);
    }
    SP_TRY(sp_tpl_expect(p, SP_TOKEN_NAME, NULL));
    bool call = sp_tpl_is(p, SP_TOKEN_OP, "(");
    SP_TRY(wrap(p, call ? SP_NODE_METHOD : SP_NODE_ATTR, n));
    (*n)->text = (sp_tpl_str){.s = t->s, .n = t->n};
    if (!call) return SP_OK;
    p->at++;
    return parse_arguments(p, false, &(*n)->list);
}

static sp_err parse_postfix(sp_tpl_parser *p, sp_tpl_node **n)
{
    for (;;) {
        if (op(p, ".")) {
            SP_TRY(parse_attribute(p, n));
        } else if (op(p, "[")) {
            SP_TRY(parse_subscript(p, n));
        } else if (op(p, "(")) {
            SP_TRY(wrap(p, SP_NODE_CALL, n));
            SP_TRY(parse_arguments(p, true, &(*n)->list));
        } else {
            return SP_OK;
        }
    }
}

static bool begins_argument(const sp_tpl_parser *p)
{
    static const char *const not_one[] = {"else", "or", "and", "is", "if", "in", "not"};
    const sp_tpl_token *t = sp_tpl_peek(p);
    for (size_t i = 0; i < SP_COUNT(not_one); i++)
        if (sp_tpl_is(p, SP_TOKEN_NAME, not_one[i])) return false;
    return t->kind == SP_TOKEN_NAME || t->kind == SP_TOKEN_TEXT || t->kind == SP_TOKEN_INT ||
           t->kind == SP_TOKEN_FLOAT || sp_tpl_is(p, SP_TOKEN_OP, "[") ||
           sp_tpl_is(p, SP_TOKEN_OP, "{");
}

/* note_function -- the filter or test of n. Outside of conditions an unknown one is an error of the whole
 * template, as in Jinja2; inside, an error when it is evaluated. */
static void note_function(sp_tpl_parser *p, sp_tpl_node *n, const sp_tpl_function *f, const sp_tpl_token *t)
{
    n->fn = f;
    n->text = (sp_tpl_str){.s = t->s, .n = t->n};
    if (!f && !p->conditional && !p->unknown) p->unknown = n;
}

static sp_err parse_test(sp_tpl_parser *p, sp_tpl_node **n)
{
    bool negated = word(p, "not");
    const sp_tpl_token *t = sp_tpl_peek(p);
    sp_tpl_node *arg = NULL;
    SP_TRY(wrap(p, SP_NODE_TEST, n));
    sp_tpl_node *test = *n;
    SP_TRY(sp_tpl_expect(p, SP_TOKEN_NAME, NULL));
    note_function(p, test, sp_tpl_find_test(t->s, t->n), t);
    if (op(p, "(")) {
        SP_TRY(parse_arguments(p, false, &test->list));
    } else if (begins_argument(p)) {
        SP_TRY(sp_tpl_node_new(p, SP_NODE_ARG, &arg));
        SP_TRY(parse_primary(p, &arg->a));
        SP_TRY(parse_postfix(p, &arg->a));
        test->list = arg;
    }
    return negated ? wrap(p, SP_NODE_NOT, n) : SP_OK;
}

static sp_err parse_filters(sp_tpl_parser *p, sp_tpl_node **n)
{
    for (;;) {
        if (op(p, "|")) {
            const sp_tpl_token *t = sp_tpl_peek(p);
            SP_TRY(wrap(p, SP_NODE_FILTER, n));
            SP_TRY(sp_tpl_expect(p, SP_TOKEN_NAME, NULL));
            note_function(p, *n, sp_tpl_find_filter(t->s, t->n), t);
            if (op(p, "(")) SP_TRY(parse_arguments(p, false, &(*n)->list));
        } else if (word(p, "is")) {
            SP_TRY(parse_test(p, n));
        } else if (op(p, "(")) {
            SP_TRY(wrap(p, SP_NODE_CALL, n));
            SP_TRY(parse_arguments(p, true, &(*n)->list));
        } else {
            return SP_OK;
        }
    }
}

static sp_err parse_unary(sp_tpl_parser *p, bool filters, sp_tpl_node **out)
{
    SP_TRY(sp_tpl_enter(p));
    if (op(p, "-")) {
        SP_TRY(parse_unary(p, false, out));
        SP_TRY(wrap(p, SP_NODE_NEGATE, out));
    } else if (op(p, "+")) {
        SP_TRY(parse_unary(p, false, out));
    } else {
        SP_TRY(parse_primary(p, out));
    }
    SP_TRY(parse_postfix(p, out));
    if (filters) SP_TRY(parse_filters(p, out));
    sp_tpl_leave(p);
    if (sp_tpl_is(p, SP_TOKEN_OP, "**")) return unsupported(sp_tpl_peek(p), "operator");
    return SP_OK;
}

/* -- operators --------------------------------------------------------------------------------- */

/* levels [0] is + -, [1] is ~, [2] is * / // % */
static sp_err parse_level(sp_tpl_parser *p, int level, sp_tpl_node **out)
{
    static const char *const names[3][5] = {{"+", "-"}, {"~"}, {"*", "/", "//", "%"}};
    if (level == 3) return parse_unary(p, true, out);
    SP_TRY(parse_level(p, level + 1, out));
    for (int i = 0; names[level][i];) {
        if (!op(p, names[level][i])) {
            i++;
            continue;
        }
        SP_TRY(wrap(p, SP_NODE_BINARY, out));
        (*out)->op = strcmp(names[level][i], "//") == 0 ? SP_OP_FLOOR : names[level][i][0];
        SP_TRY(parse_level(p, level + 1, &(*out)->b));
        i = 0;
    }
    return SP_OK;
}

/* comparison -- the operator here, 0 if there is none; *negated for "not in". */
static int comparison(sp_tpl_parser *p, bool *negated)
{
    static const struct {
        const char *text;
        int op;
    } all[] = {{"==", SP_OP_EQ}, {"!=", SP_OP_NE}, {"<=", SP_OP_LE},
               {">=", SP_OP_GE}, {"<", '<'},       {">", '>'}};
    *negated = false;
    for (size_t i = 0; i < SP_COUNT(all); i++)
        if (op(p, all[i].text)) return all[i].op;
    if (word(p, "in")) return SP_OP_IN;
    if (sp_tpl_is(p, SP_TOKEN_NAME, "not") && sp_tpl_peek(p)[1].kind == SP_TOKEN_NAME &&
        sp_tpl_peek(p)[1].n == 2 && memcmp(sp_tpl_peek(p)[1].s, "in", 2) == 0) {
        p->at += 2;
        *negated = true;
        return SP_OP_IN;
    }
    return 0;
}

/* parse_compare -- a < b < c is (a < b) and (b < c): operands have no side effects. */
static sp_err parse_compare(sp_tpl_parser *p, sp_tpl_node **out)
{
    bool negated;
    sp_tpl_node *last = NULL;
    SP_TRY(parse_level(p, 0, out));
    for (int code; (code = comparison(p, &negated));) {
        sp_tpl_node *n = NULL;
        SP_TRY(sp_tpl_node_new(p, SP_NODE_BINARY, &n));
        n->op = code;
        n->a = last ? last : *out;
        SP_TRY(parse_level(p, 0, &n->b));
        bool chained = last != NULL;
        last = n->b;
        if (negated) SP_TRY(wrap(p, SP_NODE_NOT, &n));
        if (!chained) {
            *out = n;
            continue;
        }
        SP_TRY(wrap(p, SP_NODE_AND, out));
        (*out)->b = n;
    }
    return SP_OK;
}

static sp_err parse_not(sp_tpl_parser *p, sp_tpl_node **out)
{
    if (!word(p, "not")) return parse_compare(p, out);
    SP_TRY(sp_tpl_enter(p));
    SP_TRY(parse_not(p, out));
    sp_tpl_leave(p);
    return wrap(p, SP_NODE_NOT, out);
}

static sp_err parse_and(sp_tpl_parser *p, sp_tpl_node **out)
{
    SP_TRY(parse_not(p, out));
    while (word(p, "and")) {
        SP_TRY(wrap(p, SP_NODE_AND, out));
        SP_TRY(parse_not(p, &(*out)->b));
    }
    return SP_OK;
}

sp_err sp_tpl_parse_or(sp_tpl_parser *p, sp_tpl_node **out)
{
    SP_TRY(parse_and(p, out));
    while (word(p, "or")) {
        SP_TRY(wrap(p, SP_NODE_OR, out));
        SP_TRY(parse_and(p, &(*out)->b));
    }
    return SP_OK;
}

sp_err sp_tpl_parse_expression(sp_tpl_parser *p, sp_tpl_node **out)
{
    const bool conditional = p->conditional;
    const sp_tpl_node *unknown = p->unknown;
    SP_TRY(sp_tpl_enter(p));
    SP_TRY(sp_tpl_parse_or(p, out));
    while (word(p, "if")) {
        p->unknown = unknown; /* what precedes the "if" is conditional, too */
        p->conditional = true;
        SP_TRY(wrap(p, SP_NODE_IF_ELSE, out));
        sp_tpl_node *n = *out;
        n->b = n->a;
        SP_TRY(sp_tpl_parse_or(p, &n->a));
        if (word(p, "else")) SP_TRY(sp_tpl_parse_expression(p, &n->c));
    }
    p->conditional = conditional;
    sp_tpl_leave(p);
    return SP_OK;
}

sp_err sp_tpl_parse_tuple(sp_tpl_parser *p, sp_tpl_node **out)
{
    SP_TRY(sp_tpl_parse_expression(p, out));
    if (!sp_tpl_is(p, SP_TOKEN_OP, ",")) return SP_OK;
    sp_tpl_node *first = *out, **tail = &first->next;
    SP_TRY(sp_tpl_node_new(p, SP_NODE_LIST, out));
    (*out)->op = 't';
    (*out)->list = first;
    while (op(p, ",")) {
        const sp_tpl_token *t = sp_tpl_peek(p);
        if (t->kind == SP_TOKEN_BLOCK_END || t->kind == SP_TOKEN_PRINT_END ||
            sp_tpl_is(p, SP_TOKEN_OP, ")"))
            break;
        SP_TRY(sp_tpl_parse_expression(p, tail));
        tail = &(*tail)->next;
    }
    return SP_OK;
}
