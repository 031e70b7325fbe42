/* run.c -- runs the statements of a chat template.
 *
 * Scopes are as in Jinja2: a loop body and a macro have a scope of their own; `if` has none. What a
 * loop body sets is gone after the iteration; namespaces outlive it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/template/template_int.h"

#define MAX_STEPS   2000000
#define SPARE_BYTES ((size_t)64 << 20)

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

static sp_err run_list(sp_tpl_machine *m, const sp_tpl_node *n, flow *f);

/* -- limits -------------------------------------------------------------------------------------- */

sp_err sp_tpl_fail(const sp_tpl_machine *m, sp_err code, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return sp_fail(code, "chat template: line %d: %s", m->line, text);
}

sp_err sp_tpl_step(sp_tpl_machine *m)
{
    if (--m->steps_left >= 0) return SP_OK;
    return sp_tpl_fail(m, SP_E_LIMIT, "it takes too many steps");
}

sp_err sp_tpl_work(sp_tpl_machine *m, sp_tpl_val v)
{
    size_t n = v.kind == SP_TPL_STRING ? v.s->n / 256
               : v.kind == SP_TPL_LIST ? v.list->n / 16
               : v.kind == SP_TPL_DICT ? v.dict->n / 16
                                       : 0;
    m->steps_left -= (int64_t)n;
    return sp_tpl_step(m);
}

sp_err sp_tpl_deeper(sp_tpl_machine *m)
{
    SP_TRY(sp_tpl_step(m));
    if (++m->depth <= SP_TPL_MAX_DEPTH) return SP_OK;
    return sp_tpl_fail(m, SP_E_LIMIT, "more than %d nested levels", SP_TPL_MAX_DEPTH);
}

sp_err sp_tpl_take(sp_tpl_machine *m, size_t n, size_t size, void *out)
{
    size_t total = n * size + 32; /* with the arena's own rounding */
    if (n > m->bytes_left / size || total > m->bytes_left)
        return sp_tpl_fail(m, SP_E_LIMIT, "its values take too much memory");
    void *p = sp_arena_take(&m->arena, SP_MAX(n, 1), size);
    if (!p) return sp_fail_nomem("the values of the chat template");
    m->bytes_left -= total;
    memcpy(out, &p, sizeof p);
    return SP_OK;
}

/* -- variables ----------------------------------------------------------------------------------- */

static sp_tpl_variable *find(const sp_tpl_scope *s, const char *name, size_t n)
{
    for (sp_tpl_variable *v = s->first; v; v = v->next)
        if (v->n == n && memcmp(v->name, name, n) == 0) return v;
    return NULL;
}

sp_tpl_variable *sp_tpl_get(const sp_tpl_machine *m, const char *name, size_t n)
{
    sp_tpl_variable *v = NULL;
    for (const sp_tpl_scope *s = m->scope; s && !v; s = s->parent) v = find(s, name, n);
    return v;
}

sp_err sp_tpl_set(sp_tpl_machine *m, const char *name, size_t n, sp_tpl_val value)
{
    sp_tpl_variable *v = find(m->scope, name, n);
    if (!v) {
        SP_TRY(sp_tpl_take(m, 1, sizeof *v, &v));
        *v = (sp_tpl_variable){.name = name, .n = n, .next = m->scope->first};
        m->scope->first = v;
    }
    v->value = value;
    return SP_OK;
}

static sp_err push_scope(sp_tpl_machine *m, sp_tpl_scope *parent)
{
    sp_tpl_scope *s;
    SP_TRY(sp_tpl_take(m, 1, sizeof *s, &s));
    s->parent = parent;
    m->scope = s;
    return SP_OK;
}

static sp_err set_attribute(sp_tpl_machine *m, const sp_tpl_node *target, sp_tpl_val value)
{
    sp_tpl_val object;
    sp_tpl_str *key;
    SP_TRY(sp_tpl_eval(m, target->a, &object));
    if (object.kind != SP_TPL_DICT || !object.dict->is_namespace)
        return sp_tpl_fail(m, SP_E_ARG, "only attributes of a namespace can be set");
    SP_TRY(sp_tpl_take(m, 1, sizeof *key, &key));
    *key = target->text;
    return sp_tpl_dict_put(m, object.dict, sp_tpl_of_str(key), value);
}

/* assign -- to a name, an attribute of a namespace, or to several names. */
static sp_err assign(sp_tpl_machine *m, const sp_tpl_node *target, sp_tpl_val value)
{
    const sp_tpl_list *items;
    size_t i = 0;
    if (target->kind == SP_NODE_ATTR) return set_attribute(m, target, value);
    if (!target->next) return sp_tpl_set(m, target->text.s, target->text.n, value);
    SP_TRY(sp_tpl_items(m, value, &items));
    for (const sp_tpl_node *t = target; t; t = t->next, i++)
        if (i < items->n) SP_TRY(sp_tpl_set(m, t->text.s, t->text.n, items->v[i]));
    if (i != items->n) return sp_tpl_fail(m, SP_E_ARG, "%zu values for %zu names", items->n, i);
    return SP_OK;
}

/* -- statements ---------------------------------------------------------------------------------- */

/* chosen -- the items that the loop's condition accepts. */
static sp_err chosen(sp_tpl_machine *m, const sp_tpl_node *n, const sp_tpl_list **items)
{
    sp_tpl_list *kept;
    sp_tpl_scope *outer = m->scope;
    if (!n->b) return SP_OK;
    SP_TRY(sp_tpl_list_new(m, (*items)->n, &kept));
    kept->n = 0;
    SP_TRY(push_scope(m, outer));
    for (size_t i = 0; i < (*items)->n; i++) {
        sp_tpl_val v;
        SP_TRY(assign(m, n->target, (*items)->v[i]));
        SP_TRY(sp_tpl_eval(m, n->b, &v));
        if (sp_tpl_true(v)) kept->v[kept->n++] = (*items)->v[i];
    }
    m->scope = outer;
    *items = kept;
    return SP_OK;
}

static sp_err run_for(sp_tpl_machine *m, const sp_tpl_node *n, flow *f)
{
    sp_tpl_val over;
    const sp_tpl_list *items;
    sp_tpl_loop *loop;
    sp_tpl_scope *outer = m->scope;
    SP_TRY(sp_tpl_eval(m, n->a, &over));
    SP_TRY(sp_tpl_items(m, over, &items));
    SP_TRY(chosen(m, n, &items));
    if (!items->n) return run_list(m, n->other, f);
    SP_TRY(sp_tpl_take(m, 1, sizeof *loop, &loop));
    loop->items = items;
    for (; loop->i < items->n && *f != FLOW_BREAK; loop->i++) {
        *f = FLOW_NEXT;
        SP_TRY(push_scope(m, outer));
        SP_TRY(sp_tpl_set(m, "loop", 4, (sp_tpl_val){.kind = SP_TPL_LOOP, .loop = loop}));
        SP_TRY(assign(m, n->target, items->v[loop->i]));
        SP_TRY(run_list(m, n->list, f));
    }
    m->scope = outer;
    *f = FLOW_NEXT;
    return SP_OK;
}

static sp_err run_if(sp_tpl_machine *m, const sp_tpl_node *n, flow *f)
{
    for (;;) {
        sp_tpl_val v;
        SP_TRY(sp_tpl_eval(m, n->a, &v));
        if (sp_tpl_true(v)) return run_list(m, n->list, f);
        if (!n->other || n->other->kind != SP_NODE_IF || n->other->next)
            return run_list(m, n->other, f);
        n = n->other;
    }
}

/* run_captured -- what the statements print, as a string. */
static sp_err run_captured(sp_tpl_machine *m, const sp_tpl_node *list, sp_tpl_val *out)
{
    sp_tpl_writer w = {0}, *outer = m->out;
    flow f = FLOW_NEXT;
    m->out = &w;
    sp_err err = run_list(m, list, &f);
    m->out = outer;
    if (err == SP_OK) err = sp_tpl_written(m, &w, out);
    return err;
}

static sp_err define_macro(sp_tpl_machine *m, const sp_tpl_node *n)
{
    sp_tpl_macro *macro;
    SP_TRY(sp_tpl_take(m, 1, sizeof *macro, &macro));
    *macro = (sp_tpl_macro){.node = n, .scope = m->scope};
    return sp_tpl_set(m, n->text.s, n->text.n, (sp_tpl_val){.kind = SP_TPL_MACRO, .macro = macro});
}

static sp_err run_one(sp_tpl_machine *m, const sp_tpl_node *n, flow *f)
{
    sp_tpl_val v;
    m->line = n->line;
    SP_TRY(sp_tpl_step(m));
    switch (n->kind) {
    case SP_NODE_DATA:
        return sp_tpl_write_plain(m, m->out, n->text.s, n->text.n);
    case SP_NODE_PRINT:
        SP_TRY(sp_tpl_eval(m, n->a, &v));
        return sp_tpl_write_value(m, m->out, v);
    case SP_NODE_FOR:
        return run_for(m, n, f);
    case SP_NODE_IF:
        return run_if(m, n, f);
    case SP_NODE_SET:
        SP_TRY(sp_tpl_eval(m, n->a, &v));
        return assign(m, n->target, v);
    case SP_NODE_SET_BLOCK:
        SP_TRY(run_captured(m, n->list, &v));
        return assign(m, n->target, v);
    case SP_NODE_MACRO:
        return define_macro(m, n);
    case SP_NODE_BREAK:
        *f = FLOW_BREAK;
        return SP_OK;
    case SP_NODE_CONTINUE:
        *f = FLOW_CONTINUE;
        return SP_OK;
    default:
        return sp_tpl_fail(m, SP_E_FORMAT, "a statement is expected");
    }
}

static sp_err run_list(sp_tpl_machine *m, const sp_tpl_node *n, flow *f)
{
    SP_TRY(sp_tpl_deeper(m));
    for (; n && *f == FLOW_NEXT; n = n->next) SP_TRY(run_one(m, n, f));
    m->depth--;
    return SP_OK;
}

/* argument_of -- the argument for parameter p, number i: by name, or by position. */
static const sp_tpl_node *argument_of(const sp_tpl_node *args, const sp_tpl_node *p, int i)
{
    for (const sp_tpl_node *a = args; a; a = a->next) {
        if (a->text.n ? a->text.n == p->text.n && memcmp(a->text.s, p->text.s, a->text.n) == 0
                      : i-- == 0)
            return a;
    }
    return NULL;
}

sp_err sp_tpl_call_macro(sp_tpl_machine *m, const sp_tpl_macro *macro, const sp_tpl_node *args,
                         sp_tpl_val *out)
{
    sp_tpl_scope *caller = m->scope, *inner;
    int i = 0, used = 0, n_args = 0;
    SP_TRY(push_scope(m, macro->scope));
    inner = m->scope;
    for (const sp_tpl_node *a = args; a; a = a->next) n_args++;
    for (const sp_tpl_node *p = macro->node->target; p; p = p->next, i++) {
        const sp_tpl_node *a = argument_of(args, p, i);
        sp_tpl_val v = SP_TPL_UNDEF;
        m->scope = a ? caller : inner;
        if (a || p->a) SP_TRY(sp_tpl_eval(m, a ? a->a : p->a, &v));
        m->scope = inner;
        SP_TRY(sp_tpl_set(m, p->text.s, p->text.n, v));
        used += a != NULL;
    }
    if (used != n_args)
        return sp_tpl_fail(m, SP_E_ARG, "macro '%.*s' has no such argument",
                           (int)SP_MIN(macro->node->text.n, 60), macro->node->text.s);
    SP_TRY(run_captured(m, macro->node->list, out));
    m->scope = caller;
    return SP_OK;
}

/* -- a rendering --------------------------------------------------------------------------------- */

static sp_err set_json(sp_tpl_machine *m, const char *name, json_t *j)
{
    sp_tpl_val v;
    SP_TRY(sp_tpl_from_json(m, j, name, &v));
    return sp_tpl_set(m, name, strlen(name), v);
}

static sp_err set_text(sp_tpl_machine *m, const char *name, const char *text)
{
    sp_tpl_val v;
    if (!text) return SP_OK;
    SP_TRY(sp_tpl_str_new(m, (sp_tpl_str){.s = text, .n = strlen(text)}, &v));
    return sp_tpl_set(m, name, strlen(name), v);
}

static sp_err set_input(sp_tpl_machine *m, const sp_template_input *in)
{
    const char *key;
    json_t *value;
    SP_TRY(set_json(m, "messages", in->messages));
    SP_TRY(set_json(m, "tools", in->tools));
    SP_TRY(set_json(m, "documents", in->documents));
    SP_TRY(sp_tpl_set(m, "add_generation_prompt", 21, sp_tpl_bool(in->add_generation_prompt)));
    SP_TRY(set_text(m, "bos_token", in->bos_token));
    SP_TRY(set_text(m, "eos_token", in->eos_token));
    if (in->kwargs) json_object_foreach(in->kwargs, key, value) SP_TRY(set_json(m, key, value));
    return SP_OK;
}

static size_t json_bytes(json_t *j)
{
    return j ? json_dumpb(j, NULL, 0, JSON_ENCODE_ANY) : 0;
}

static sp_err spans_of(sp_tpl_machine *m, const sp_tpl_writer *w, sp_template_text *out)
{
    sp_template_span *spans;
    SP_TRY(sp_tpl_take(m, w->n_runs, sizeof *spans, &spans));
    for (size_t i = 0; i < w->n_runs; i++) {
        const sp_tpl_run *r = &w->runs[i];
        const sp_tpl_source none = {.origin = SP_TEMPLATE_OTHER, .index = -1, .path = ""};
        const sp_tpl_source *s = r->source < 0 ? &none : &m->sources[r->source];
        spans[i] = (sp_template_span){.from = r->from,
                                      .to = r->from + r->n,
                                      .origin = s->origin,
                                      .index = s->index,
                                      .path = s->path,
                                      .at = r->at};
    }
    SP_TRY(sp_tpl_write_plain(m, m->out, "", 0)); /* so that an empty text has its NUL */
    *out = (sp_template_text){.text = w->s, .n = w->n, .spans = spans, .n_spans = w->n_runs};
    return SP_OK;
}

sp_err sp_template_render(const sp_template *t, const sp_template_input *in, sp_template_text *out)
{
    size_t input = json_bytes(in->messages) + json_bytes(in->tools) + json_bytes(in->documents) +
                   json_bytes(in->kwargs);
    sp_tpl_writer w = {0};
    sp_tpl_machine m = {.bytes_left = in->max_bytes ? in->max_bytes : SPARE_BYTES + 8 * input,
                        .steps_left = in->max_steps ? in->max_steps : MAX_STEPS,
                        .now = in->now,
                        .out = &w};
    flow f = FLOW_NEXT;
    sp_template_text made;
    sp_arena_init(&m.arena);
    sp_err err = push_scope(&m, NULL);
    if (err == SP_OK) err = set_input(&m, in);
    if (err == SP_OK) err = run_list(&m, t->body, &f);
    if (err == SP_OK) err = spans_of(&m, &w, &made);
    if (err != SP_OK) {
        sp_arena_fini(&m.arena);
        return err;
    }
    made.arena = m.arena;
    *out = made;
    return SP_OK;
}

void sp_template_text_fini(sp_template_text *x)
{
    sp_arena_fini(&x->arena);
    *x = (sp_template_text){0};
}
