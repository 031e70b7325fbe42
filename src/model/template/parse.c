/* parse.c -- parses the statements of chat templates. */
#include <string.h>

#include "model/template/template_int.h"

static sp_err parse_until(sp_tpl_parser *p, const char *const *ends, sp_tpl_node **list);

static bool word(sp_tpl_parser *p, const char *text)
{
    return sp_tpl_accept(p, SP_TOKEN_NAME, text);
}

static sp_err end_tag(sp_tpl_parser *p)
{
    return sp_tpl_expect(p, SP_TOKEN_BLOCK_END, NULL);
}

/* close_tag -- "name %}" */
static sp_err close_tag(sp_tpl_parser *p, const char *name)
{
    SP_TRY(sp_tpl_expect(p, SP_TOKEN_NAME, name));
    return end_tag(p);
}

/* parse_target -- a name, a.name for namespaces, or names with commas. */
static sp_err parse_target(sp_tpl_parser *p, bool attributes, sp_tpl_node **out)
{
    bool bracket = sp_tpl_accept(p, SP_TOKEN_OP, "(");
    int n = 0;
    for (sp_tpl_node **tail = out;; tail = &(*tail)->next) {
        const sp_tpl_token *t = sp_tpl_peek(p);
        SP_TRY(sp_tpl_node_new(p, SP_NODE_NAME, tail));
        SP_TRY(sp_tpl_expect(p, SP_TOKEN_NAME, NULL));
        (*tail)->text = (sp_tpl_str){.s = t->s, .n = t->n};
        n++;
        if (attributes && n == 1 && sp_tpl_accept(p, SP_TOKEN_OP, ".")) {
            sp_tpl_node *object = *tail;
            t = sp_tpl_peek(p);
            SP_TRY(sp_tpl_node_new(p, SP_NODE_ATTR, tail));
            SP_TRY(sp_tpl_expect(p, SP_TOKEN_NAME, NULL));
            (*tail)->a = object;
            (*tail)->text = (sp_tpl_str){.s = t->s, .n = t->n};
            break;
        }
        if (!sp_tpl_accept(p, SP_TOKEN_OP, ",")) break;
    }
    return bracket ? sp_tpl_expect(p, SP_TOKEN_OP, ")") : SP_OK;
}

/* parse_inner -- parse_until for statements in a scope of their own, which do not count as conditional. */
static sp_err parse_inner(sp_tpl_parser *p, const char *const *ends, sp_tpl_node **list)
{
    const bool conditional = p->conditional;
    p->conditional = false;
    SP_TRY(parse_until(p, ends, list));
    p->conditional = conditional;
    return SP_OK;
}

static sp_err parse_for(sp_tpl_parser *p, sp_tpl_node **out)
{
    const bool conditional = p->conditional;
    SP_TRY(sp_tpl_node_new(p, SP_NODE_FOR, out));
    sp_tpl_node *n = *out;
    SP_TRY(parse_target(p, false, &n->target));
    SP_TRY(sp_tpl_expect(p, SP_TOKEN_NAME, "in"));
    SP_TRY(sp_tpl_parse_or(p, &n->a));
    p->conditional = false;
    if (word(p, "if")) SP_TRY(sp_tpl_parse_expression(p, &n->b));
    p->conditional = conditional;
    if (sp_tpl_is(p, SP_TOKEN_NAME, "recursive"))
        return sp_fail(SP_E_UNSUPPORTED,
                       "chat template: line %d: a recursive loop is not supported", n->line);
    SP_TRY(end_tag(p));
    p->loops++;
    SP_TRY(parse_inner(p, (const char *[]){"else", "endfor", NULL}, &n->list));
    p->loops--;
    if (word(p, "else")) {
        SP_TRY(end_tag(p));
        SP_TRY(parse_inner(p, (const char *[]){"endfor", NULL}, &n->other));
    }
    return close_tag(p, "endfor");
}

static sp_err parse_if(sp_tpl_parser *p, sp_tpl_node **out)
{
    const bool conditional = p->conditional;
    p->conditional = true;
    for (;;) {
        SP_TRY(sp_tpl_node_new(p, SP_NODE_IF, out));
        SP_TRY(sp_tpl_parse_expression(p, &(*out)->a));
        SP_TRY(end_tag(p));
        SP_TRY(parse_until(p, (const char *[]){"elif", "else", "endif", NULL}, &(*out)->list));
        if (!word(p, "elif")) break;
        out = &(*out)->other;
    }
    if (word(p, "else")) {
        SP_TRY(end_tag(p));
        SP_TRY(parse_until(p, (const char *[]){"endif", NULL}, &(*out)->other));
    }
    p->conditional = conditional;
    return close_tag(p, "endif");
}

static sp_err parse_set(sp_tpl_parser *p, sp_tpl_node **out)
{
    SP_TRY(sp_tpl_node_new(p, SP_NODE_SET, out));
    SP_TRY(parse_target(p, true, &(*out)->target));
    if (sp_tpl_accept(p, SP_TOKEN_OP, "=")) {
        SP_TRY(sp_tpl_parse_tuple(p, &(*out)->a));
        return end_tag(p);
    }
    (*out)->kind = SP_NODE_SET_BLOCK;
    SP_TRY(end_tag(p));
    SP_TRY(parse_inner(p, (const char *[]){"endset", NULL}, &(*out)->list));
    return close_tag(p, "endset");
}

static sp_err parse_macro(sp_tpl_parser *p, sp_tpl_node **out)
{
    SP_TRY(sp_tpl_node_new(p, SP_NODE_MACRO, out));
    sp_tpl_node *n = *out, **tail = &n->target;
    const sp_tpl_token *t = sp_tpl_peek(p);
    SP_TRY(sp_tpl_expect(p, SP_TOKEN_NAME, NULL));
    n->text = (sp_tpl_str){.s = t->s, .n = t->n};
    SP_TRY(sp_tpl_expect(p, SP_TOKEN_OP, "("));
    const bool conditional = p->conditional;
    p->conditional = false; /* defaults are evaluated in the scope of the macro */
    while (!sp_tpl_accept(p, SP_TOKEN_OP, ")")) {
        if (n->target) SP_TRY(sp_tpl_expect(p, SP_TOKEN_OP, ","));
        t = sp_tpl_peek(p);
        SP_TRY(sp_tpl_node_new(p, SP_NODE_ARG, tail));
        SP_TRY(sp_tpl_expect(p, SP_TOKEN_NAME, NULL));
        (*tail)->text = (sp_tpl_str){.s = t->s, .n = t->n};
        if (sp_tpl_accept(p, SP_TOKEN_OP, "=")) SP_TRY(sp_tpl_parse_expression(p, &(*tail)->a));
        tail = &(*tail)->next;
    }
    p->conditional = conditional;
    SP_TRY(end_tag(p));
    int loops = p->loops;
    p->loops = 0;
    SP_TRY(parse_inner(p, (const char *[]){"endmacro", NULL}, &n->list));
    p->loops = loops;
    return close_tag(p, "endmacro");
}

static sp_err parse_jump(sp_tpl_parser *p, sp_tpl_node_kind kind, sp_tpl_node **out)
{
    SP_TRY(sp_tpl_node_new(p, kind, out));
    if (!p->loops)
        return sp_fail(SP_E_FORMAT, "chat template: line %d: break or continue outside of a loop",
                       (*out)->line);
    return end_tag(p);
}

/* parse_generation -- {% generation %} marks what a model wrote; its content is printed as it is. */
static sp_err parse_generation(sp_tpl_parser *p, sp_tpl_node **out)
{
    SP_TRY(end_tag(p));
    SP_TRY(parse_inner(p, (const char *[]){"endgeneration", NULL}, out));
    return close_tag(p, "endgeneration");
}

static sp_err parse_statement(sp_tpl_parser *p, sp_tpl_node **out)
{
    const sp_tpl_token *t = sp_tpl_peek(p);
    if (word(p, "for")) return parse_for(p, out);
    if (word(p, "if")) return parse_if(p, out);
    if (word(p, "set")) return parse_set(p, out);
    if (word(p, "macro")) return parse_macro(p, out);
    if (word(p, "break")) return parse_jump(p, SP_NODE_BREAK, out);
    if (word(p, "continue")) return parse_jump(p, SP_NODE_CONTINUE, out);
    if (word(p, "generation")) return parse_generation(p, out);
    return sp_fail(SP_E_UNSUPPORTED, "chat template: line %d: tag '%.*s' is not supported here",
                   t->line, (int)SP_MIN(t->n, 60), t->s);
}

/* parse_part -- data, a printed expression or a statement. */
static sp_err parse_part(sp_tpl_parser *p, sp_tpl_node **out)
{
    const sp_tpl_token *t = sp_tpl_peek(p);
    if (sp_tpl_accept(p, SP_TOKEN_BLOCK, NULL)) return parse_statement(p, out);
    bool data = t->kind == SP_TOKEN_DATA;
    SP_TRY(sp_tpl_node_new(p, data ? SP_NODE_DATA : SP_NODE_PRINT, out));
    p->at++;
    (*out)->text = (sp_tpl_str){.s = t->s, .n = t->n};
    if (data) return SP_OK;
    SP_TRY(sp_tpl_parse_tuple(p, &(*out)->a));
    return sp_tpl_expect(p, SP_TOKEN_PRINT_END, NULL);
}

static bool ends_here(sp_tpl_parser *p, const char *const *ends)
{
    if (sp_tpl_peek(p)->kind != SP_TOKEN_BLOCK) return false;
    p->at++;
    for (; *ends; ends++)
        if (sp_tpl_is(p, SP_TOKEN_NAME, *ends)) return true;
    p->at--;
    return false;
}

/* parse_until -- the statements before a tag with one of these names, or before the end where there
 * is no name. */
static sp_err parse_until(sp_tpl_parser *p, const char *const *ends, sp_tpl_node **list)
{
    SP_TRY(sp_tpl_enter(p));
    while (!ends_here(p, ends)) {
        if (sp_tpl_peek(p)->kind == SP_TOKEN_EOF) {
            if (!*ends) break;
            return sp_fail(SP_E_FORMAT, "chat template: line %d: the template ends before '%s'",
                           sp_tpl_peek(p)->line, ends[0]);
        }
        SP_TRY(parse_part(p, list));
        while (*list) list = &(*list)->next;
    }
    sp_tpl_leave(p);
    return SP_OK;
}

sp_err sp_template_parse(const char *text, size_t n, sp_template **out)
{
    sp_template *t = SP_NEW(sp_template);
    if (!t) return sp_fail_nomem("a chat template");
    sp_arena_init(&t->arena);
    sp_tpl_parser p = {.t = t};
    sp_err err = sp_tpl_lex(t, text, n);
    if (err == SP_OK) err = parse_until(&p, (const char *[]){NULL}, &t->body);
    if (err == SP_OK && p.unknown)
        err = sp_fail(SP_E_UNSUPPORTED, "chat template: line %d: %s '%.*s' is not supported", p.unknown->line,
                      p.unknown->kind == SP_NODE_TEST ? "test" : "filter", (int)SP_MIN(p.unknown->text.n, 60),
                      p.unknown->text.s);
    if (err != SP_OK) {
        sp_template_destroy(t);
        return err;
    }
    *out = t;
    return SP_OK;
}

void sp_template_destroy(sp_template *t)
{
    if (!t) return;
    sp_vec_fini(&t->tokens);
    sp_arena_fini(&t->arena);
    sp_free(t);
}
