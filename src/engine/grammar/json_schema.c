/* json_schema.c -- compiles a JSON schema into an automaton (grammar_int.h).
 *
 * A schema is a rule, which is called wherever the schema is used, so recursive schemas need no special
 * case. A rule that can call itself before it reads a byte is an error. Keywords that must hold together are merged
 * first (json_merge.c); the types are in json_object.c, json_array.c, json_string.c and json_number.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/json_int.h"
#include "engine/grammar/run.h"

enum { MAX_BLANKS = 20, MAX_DEPTH = 64 };

int32_t sp_json_fail(sp_json *b, sp_err code, const char *what, const char *name)
{
    if (b->err == SP_OK)
        b->err = sp_fail(code, "schema: #%.*s: %s%s%s", (int)b->path.n, b->path.v ? b->path.v : "",
                         what, name ? " " : "", name ? name : "");
    return 0;
}

int32_t sp_json_contradict(sp_json *b, const char *why)
{
    if (!*b->nothing)
        snprintf(b->nothing, sizeof b->nothing, "#%.*s: %s", (int)SP_MIN(b->path.n, 100),
                 b->path.v ? b->path.v : "", why);
    return SP_JSON_NOTHING;
}

size_t sp_json_enter(sp_json *b, const char *name)
{
    size_t mark = b->path.n;
    if (sp_vec_reserve(&b->path, strlen(name) + 1) != SP_OK) {
        b->err = SP_E_NOMEM;
        return mark;
    }
    b->path.v[b->path.n++] = '/';
    memcpy(b->path.v + b->path.n, name, strlen(name));
    b->path.n += strlen(name);
    return mark;
}

void sp_json_leave(sp_json *b, size_t mark)
{
    b->path.n = mark;
}

/* -- nodes ------------------------------------------------------------------------------------- */

static int32_t add(sp_json *b, sp_gram_node n)
{
    return sp_gram_add(b->g, n, &b->err);
}

int32_t sp_json_range(sp_json *b, char lo, char hi, int32_t next)
{
    if (next < 0) return next;
    return add(b, (sp_gram_node){
                      .kind = SP_GRAM_BYTE, .lo = (uint8_t)lo, .hi = (uint8_t)hi, .next = next});
}

int32_t sp_json_either(sp_json *b, int32_t one, int32_t other)
{
    if (one < 0 || other < 0 || one == other) return one < 0 ? other : one;
    return add(b, (sp_gram_node){.kind = SP_GRAM_SPLIT, .next = one, .alt = other});
}

int32_t sp_json_call(sp_json *b, int32_t start, int32_t next)
{
    if (start < 0 || next < 0) return SP_JSON_NOTHING;
    return add(b, (sp_gram_node){.kind = SP_GRAM_CALL, .alt = start, .next = next});
}

static int32_t literal(sp_json *b, const char *s, size_t n, int32_t next)
{
    while (n--) next = sp_json_range(b, s[n], s[n], next);
    return next;
}

int32_t sp_json_text(sp_json *b, const char *s, int32_t next)
{
    return literal(b, s, strlen(s), next);
}

int32_t sp_json_spaced(sp_json *b, int32_t next)
{
    return sp_json_call(b, b->space, next);
}

static int by_text(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* branch -- one of sorted texts, which are equal up to `at`: the bytes that all have, then a way for each next
 * byte. */
static int32_t branch(sp_json *b, const char **texts, size_t n, size_t at, int32_t next)
{
    size_t same = at, from = 0;
    while (texts[0][same] && texts[0][same] == texts[n - 1][same]) same++;
    int32_t node = SP_JSON_NOTHING;
    while (from < n && !texts[from][same]) node = next, from++;
    while (from < n && b->err == SP_OK) {
        size_t to = from;
        while (to < n && texts[to][same] == texts[from][same]) to++;
        node = sp_json_either(b, branch(b, texts + from, to - from, same, next), node);
        from = to;
    }
    return literal(b, texts[0] + at, same - at, node);
}

int32_t sp_json_choice(sp_json *b, const char **texts, size_t n, int32_t next)
{
    if (!n || b->err != SP_OK) return SP_JSON_NOTHING;
    qsort(texts, n, sizeof *texts, by_text);
    return branch(b, texts, n, 0, next);
}

/* -- rules --------------------------------------------------------------------------------------- */

static int32_t build_schema(sp_json *b, json_t *schema, int32_t next);

/* rule_of -- where the rule of a schema begins: a jump, which leads to its first node when that is built. */
static int32_t rule_of(sp_json *b, json_t *schema)
{
    if (b->err != SP_OK) return 0;
    for (size_t i = 0; i < b->rules.n; i++)
        if (b->rules.v[i].schema == schema)
            return b->rules.v[i].nothing ? SP_JSON_NOTHING : b->rules.v[i].start;
    if (++b->depth > MAX_DEPTH)
        return sp_json_fail(b, SP_E_LIMIT, "the schema is nested too deeply", NULL);
    int32_t start = sp_gram_jump(b->g, b->ret, &b->err);
    if (b->err == SP_OK) b->err = sp_vec_reserve(&b->rules, 1);
    if (b->err != SP_OK) return 0;
    size_t i = b->rules.n++;
    b->rules.v[i] = (sp_json_rule){.schema = schema, .start = start};
    int32_t first = build_schema(b, schema, b->ret);
    b->depth--;
    if (b->err != SP_OK) return 0;
    b->rules.v[i].nothing = first < 0;
    if (first < 0) /* a byte that never occurs, for rules that refer to this one from within */
        first = add(b, (sp_gram_node){.kind = SP_GRAM_BYTE, .lo = 1, .hi = 0, .next = b->ret});
    sp_gram_lead(b->g, start, first, &b->err);
    return b->rules.v[i].nothing ? SP_JSON_NOTHING : start;
}

int32_t sp_json_use(sp_json *b, json_t *schema, int32_t next)
{
    return sp_json_call(b, rule_of(b, schema), next);
}

int32_t sp_json_use_at(sp_json *b, const char *name, json_t *schema, int32_t next)
{
    size_t mark = sp_json_enter(b, name);
    next = sp_json_use(b, schema, next);
    sp_json_leave(b, mark);
    return next;
}

int32_t sp_json_bound(sp_json *b, json_t *schema, const char *name, int32_t absent)
{
    json_t *j = json_object_get(schema, name);
    double v = json_number_value(j);
    if (!j) return absent;
    if (!json_is_number(j) || v < 0 || v != (double)(int64_t)v)
        return sp_json_fail(b, SP_E_ARG, name, "is not a number of 0 or more");
    return (int32_t)SP_MIN(v, 1 << 30);
}

/* -- types ------------------------------------------------------------------------------------------- */

static int32_t of_type(sp_json *b, const char *type, json_t *schema, int32_t next)
{
    if (strcmp(type, "object") == 0) return sp_json_object(b, schema, next);
    if (strcmp(type, "array") == 0) return sp_json_array(b, schema, next);
    if (strcmp(type, "string") == 0) return sp_json_string(b, schema, next);
    if (strcmp(type, "integer") == 0) return sp_json_number(b, schema, true, next);
    if (strcmp(type, "number") == 0) return sp_json_number(b, schema, false, next);
    if (strcmp(type, "boolean") == 0)
        return sp_json_either(b, sp_json_text(b, "true", next), sp_json_text(b, "false", next));
    if (strcmp(type, "null") == 0) return sp_json_text(b, "null", next);
    return sp_json_fail(b, SP_E_ARG, "unknown type", type);
}

static bool has_any(json_t *schema, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (json_object_get(schema, names[i])) return true;
    return false;
}

/* untyped -- the types of a schema without `type`: what its keywords are about, or all. */
static const char *untyped(json_t *schema)
{
    static const char *const object[] = {"properties", "additionalProperties", "required",
                                         "patternProperties"};
    static const char *const array[] = {"items", "prefixItems"};
    if (has_any(schema, object, SP_COUNT(object))) return "object";
    return has_any(schema, array, SP_COUNT(array)) ? "array" : NULL;
}

static int32_t of_types(sp_json *b, json_t *schema, int32_t next)
{
    static const char *const all[] = {"object", "array", "string", "number", "boolean", "null"};
    json_t *type = json_object_get(schema, "type");
    const char *only = type ? json_string_value(type) : untyped(schema);
    int32_t at = SP_JSON_NOTHING;
    if (only) return of_type(b, only, schema, next);
    if (type && !json_array_size(type))
        return sp_json_fail(b, SP_E_ARG, "type is not a name", NULL);
    size_t n = type ? json_array_size(type) : SP_COUNT(all);
    for (size_t i = 0; i < n && b->err == SP_OK; i++) {
        const char *name = type ? json_string_value(json_array_get(type, i)) : all[i];
        at = sp_json_either(b, at, of_type(b, name ? name : "?", schema, next));
    }
    return at;
}

/* -- values ------------------------------------------------------------------------------------------ */

/* holds -- whether the automaton reads the whole text. If the run has no room for all its states, it forgets those
 * before: *begins is false, and state 0 is no longer the first. */
static bool holds(sp_gram_run *r, const char *text, bool *begins)
{
    int32_t at = 0;
    for (; *text && at != SP_GRAM_DEAD; text++) {
        int32_t to = sp_gram_step(r, at, (uint8_t)*text);
        if (to == SP_GRAM_DEAD && r->full) {
            sp_gram_forget(r, at);
            *begins = false;
            to = sp_gram_step(r, 0, (uint8_t)*text);
        }
        at = to;
    }
    return at != SP_GRAM_DEAD && r->states[at].complete;
}

/* text_of -- a value as JSON; reals with as few digits as they need. Owned. */
static char *text_of(sp_json *b, json_t *value)
{
    char *text = NULL;
    for (size_t digits = 1; digits < 18; digits++) {
        free(text);
        text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        if (!json_is_real(value) || (text && strtod(text, NULL) == json_real_value(value))) break;
    }
    if (!text) sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
    return text;
}

/* keep_valid -- the values that a schema accepts, tested with its own automaton. */
static sp_err keep_valid(sp_json *b, json_t *schema, json_t *values, json_t *out)
{
    sp_grammar g = {0};
    sp_gram_run r;
    bool begins = true; /* r is at the start of a text */
    sp_json inner = {
        .g = &g, .root = b->root, .any = b->any, .any_object = b->any_object, .made = b->made};
    inner.ret = add(&inner, (sp_gram_node){.kind = SP_GRAM_RETURN});
    inner.space = sp_json_either(&inner, inner.ret, sp_json_range(&inner, ' ', ' ', inner.ret));
    g.start = build_schema(&inner, schema, inner.ret);
    sp_err err = inner.err;
    sp_gram_classify(&g);
    if (err == SP_OK && g.start >= 0) err = sp_gram_run_init(&r, &g);
    for (size_t i = 0; err == SP_OK && g.start >= 0 && i < json_array_size(values); i++) {
        char *text = text_of(&inner, json_array_get(values, i));
        if (!begins) sp_gram_run_fini(&r), err = sp_gram_run_init(&r, &g);
        begins = true;
        if (err == SP_OK && text && holds(&r, text, &begins))
            json_array_append(out, json_array_get(values, i));
        free(text);
    }
    if (inner.err == SP_OK && g.start >= 0 && err == SP_OK) sp_gram_run_fini(&r);
    sp_vec_fini(&g.nodes);
    sp_vec_fini(&inner.rules);
    sp_vec_fini(&inner.path);
    return err;
}

static bool has_type(json_t *value, const char *type)
{
    static const char *const names[] = {"object", "array",   "string",  "integer",
                                        "number", "boolean", "boolean", "null"};
    const char *name = names[json_typeof(value)];
    return strcmp(name, type) == 0 || (json_is_integer(value) && strcmp(type, "number") == 0);
}

/* keep_typed -- the values of some types: a name or a list of names; NULL: any. */
static void keep_typed(json_t *values, json_t *type, json_t *out)
{
    for (size_t i = 0; i < json_array_size(values); i++) {
        json_t *value = json_array_get(values, i);
        bool fits = !type || (json_is_string(type) && has_type(value, json_string_value(type)));
        for (size_t k = 0; k < json_array_size(type); k++) {
            const char *name = json_string_value(json_array_get(type, k));
            fits = fits || (name && has_type(value, name));
        }
        if (fits) json_array_append(out, value);
    }
}

/* valid_values -- those of enum for which the other keywords hold. Owned. */
static json_t *valid_values(sp_json *b, json_t *schema)
{
    json_t *values = json_object_get(schema, "enum"), *others = json_copy(schema),
           *out = json_array();
    if (!others || !out) sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
    if (!json_array_size(values)) sp_json_fail(b, SP_E_ARG, "enum is not a list of values", NULL);
    if (json_array_size(values) > SP_JSON_MAX_VALUES)
        sp_json_fail(b, SP_E_LIMIT, "more than 20000 values are not supported", NULL);
    json_object_del(others, "enum");
    json_object_del(others, "type");
    sp_json_strip(others);
    bool more = json_object_size(others) > 0;
    json_t *type = json_object_get(schema, "type");
    if (type) json_object_set(others, "type", type);
    if (b->err == SP_OK && more) {
        sp_err err = keep_valid(b, others, values, out);
        if (err != SP_OK && b->err == SP_OK) b->err = err;
    } else if (b->err == SP_OK) {
        keep_typed(values, type, out);
    }
    json_decref(others);
    return out;
}

static int32_t of_values(sp_json *b, json_t *schema, int32_t next)
{
    json_t *values = valid_values(b, schema);
    size_t n = json_array_size(values);
    int32_t at = SP_JSON_NOTHING;
    const char **texts = SP_NEW_N(const char *, n + 1);
    if (!texts) sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
    for (size_t i = 0; i < n && b->err == SP_OK; i++)
        texts[i] = text_of(b, json_array_get(values, i));
    if (b->err == SP_OK)
        at = n ? sp_json_choice(b, texts, n, next)
               : sp_json_contradict(b, "no value of enum is valid");
    for (size_t i = 0; texts && i < n; i++) free((char *)texts[i]);
    sp_free(texts);
    json_decref(values);
    return b->err == SP_OK ? at : 0;
}

/* values_of -- adds the values of a schema without references; false: they are not listed. */
static bool values_of(sp_json *b, json_t *schema, json_t *out)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    if (json_object_get(schema, "enum")) {
        json_t *values = valid_values(b, schema);
        json_array_extend(out, values);
        json_decref(values);
        return b->err == SP_OK;
    }
    if (type && strcmp(type, "boolean") == 0) {
        json_array_append(out, json_true());
        json_array_append(out, json_false());
    }
    if (type && strcmp(type, "null") == 0) json_array_append(out, json_null());
    return type && (strcmp(type, "boolean") == 0 || strcmp(type, "null") == 0);
}

json_t *sp_json_values(sp_json *b, json_t *schema)
{
    json_t *list = sp_json_expand(b, schema), *out = json_array(), *once = json_array();
    bool ok = out && once && b->err == SP_OK;
    for (size_t i = 0; ok && i < json_array_size(list); i++)
        ok = values_of(b, json_array_get(list, i), out);
    for (size_t i = 0; ok && i < json_array_size(out); i++) {
        bool there = false;
        for (size_t k = 0; k < json_array_size(once) && !there; k++)
            there = json_equal(json_array_get(once, k), json_array_get(out, i));
        if (!there) json_array_append(once, json_array_get(out, i));
    }
    json_decref(list);
    json_decref(out);
    if (!ok) json_decref(once);
    return ok ? once : NULL;
}

/* -- schemas ----------------------------------------------------------------------------------------- */

static int32_t any_of(sp_json *b, json_t *list, const char *keyword, int32_t next)
{
    int32_t at = SP_JSON_NOTHING;
    size_t mark = sp_json_enter(b, keyword);
    if (!json_array_size(list)) sp_json_fail(b, SP_E_ARG, "is not a list of schemas", NULL);
    for (size_t i = json_array_size(list); i-- > 0 && b->err == SP_OK;)
        at = sp_json_either(b, sp_json_use(b, json_array_get(list, i), next), at);
    sp_json_leave(b, mark);
    return at;
}

/* alternatives -- of a schema that must be merged first. */
static int32_t alternatives(sp_json *b, json_t *schema, int32_t next)
{
    json_t *list = sp_json_expand(b, schema);
    int32_t at = SP_JSON_NOTHING;
    for (size_t i = json_array_size(list); i-- > 0 && b->err == SP_OK;) {
        json_t *one = sp_json_keep(b, json_incref(json_array_get(list, i)));
        if (one) at = sp_json_either(b, sp_json_use(b, one, next), at);
    }
    json_decref(list);
    return at;
}

static int32_t build_schema(sp_json *b, json_t *schema, int32_t next)
{
    static const char *const merging[] = {"$ref", "allOf", "anyOf", "oneOf", "nullable", "const"};
    if (b->err != SP_OK) return 0;
    if (json_is_true(schema)) return sp_json_use(b, b->any, next);
    if (json_is_false(schema)) return sp_json_contradict(b, "false allows no value");
    if (!json_is_object(schema)) return sp_json_fail(b, SP_E_ARG, "is not a schema", NULL);
    sp_json_check(b, schema);
    json_t *ref = json_object_get(schema, "$ref"), *any = json_object_get(schema, "anyOf"),
           *one = json_object_get(schema, "oneOf");
    if (ref || any || one) { /* alone: no copies */
        if (sp_json_is_alone(schema, "$ref")) {
            json_t *target = sp_json_resolve(b, ref);
            return target ? sp_json_use(b, target, next) : 0;
        }
        if (sp_json_is_alone(schema, "anyOf")) return any_of(b, any, "anyOf", next);
        if (sp_json_is_alone(schema, "oneOf")) return any_of(b, one, "oneOf", next);
    }
    if (has_any(schema, merging, SP_COUNT(merging))) return alternatives(b, schema, next);
    return json_object_get(schema, "enum") ? of_values(b, schema, next) : of_types(b, schema, next);
}

/* -- all of it ----------------------------------------------------------------------------------- */

/* reads_first -- whether every way through the rule at `at` reads a byte before it calls a rule that
 * is being visited. mark: 1 on the way, 2 done, for each node. */
static bool reads_first(const sp_grammar *g, int32_t at, int32_t space, uint8_t *mark, int depth)
{
    const sp_gram_node *n = &g->nodes.v[at];
    if (mark[at] == 2 || n->kind == SP_GRAM_BYTE || n->kind == SP_GRAM_RETURN ||
        n->kind == SP_GRAM_CHARS)
        return true;
    if (mark[at] == 1 || depth > 4096) return false;
    mark[at] = 1;
    bool ok = reads_first(g, n->alt, space, mark, depth + 1);
    if (ok && (n->kind == SP_GRAM_SPLIT || n->alt == space))
        ok = reads_first(g, n->next, space, mark, depth + 1);
    mark[at] = 2;
    return ok;
}

static sp_err check_recursion(const sp_grammar *g, int32_t space)
{
    uint8_t *mark = SP_NEW_N(uint8_t, g->nodes.n);
    bool ok = true;
    if (!mark) return sp_fail_nomem("a grammar");
    for (size_t i = 0; i < g->nodes.n && ok; i++) ok = reads_first(g, (int32_t)i, space, mark, 0);
    sp_free(mark);
    return ok ? SP_OK : sp_fail(SP_E_ARG, "schema: it refers to itself without end");
}

/* white_space -- nothing, a blank, or a newline with blanks. */
static int32_t white_space(sp_json *b)
{
    int32_t blanks = b->ret, blank = sp_json_range(b, ' ', ' ', b->ret);
    for (int i = 0; i < MAX_BLANKS; i++)
        blanks = sp_json_either(b, sp_json_range(b, ' ', ' ', blanks), b->ret);
    return sp_json_either(b, b->ret,
                          sp_json_either(b, blank, sp_json_range(b, '\n', '\n', blanks)));
}

/* one_of -- one of these texts. */
static int32_t one_of(sp_json *b, const sp_grammar_opts *o)
{
    if (o->n_texts > SP_JSON_MAX_VALUES)
        return sp_json_fail(b, SP_E_LIMIT, "more than 20000 texts are not supported", NULL);
    const char **texts = SP_NEW_N(const char *, (size_t)o->n_texts);
    if (!texts) return sp_json_fail(b, SP_E_NOMEM, "out of memory", NULL);
    memcpy(texts, o->texts, (size_t)o->n_texts * sizeof *texts);
    int32_t at = sp_json_choice(b, texts, (size_t)o->n_texts, b->ret);
    sp_free(texts);
    return at;
}

static bool is_whole(json_t *value)
{
    double v = json_real_value(value);
    return json_is_real(value) && v == floor(v) && fabs(v) <= 9007199254740992.0;
}

/* as_integers -- 2.0 becomes 2: one value for JSON Schema, but two for jansson. */
static void as_integers(json_t *j)
{
    size_t n = json_array_size(j);
    for (size_t i = 0; i < n; i++) {
        json_t *value = json_array_get(j, i);
        if (is_whole(value))
            json_array_set_new(j, i, json_integer((json_int_t)json_real_value(value)));
        as_integers(json_array_get(j, i));
    }
    for (void *at = json_object_iter(j); at; at = json_object_iter_next(j, at)) {
        json_t *value = json_object_iter_value(at);
        if (is_whole(value))
            json_object_iter_set_new(j, at, json_integer((json_int_t)json_real_value(value)));
        as_integers(json_object_iter_value(at));
    }
}

sp_err sp_json_schema_build(json_t *schema, const sp_grammar_opts *o, sp_grammar *g)
{
    json_t *own = schema ? json_deep_copy(schema) : NULL;
    sp_json b = {.g = g, .any = json_object(), .made = json_array()};
    b.any_object = json_pack("{s:s}", "type", "object");
    if (!b.any || !b.any_object || !b.made || (schema && !own)) b.err = sp_fail_nomem("a grammar");
    as_integers(own);
    b.root = own ? own : b.any_object;
    b.ret = add(&b, (sp_gram_node){.kind = SP_GRAM_RETURN});
    b.space = white_space(&b);
    g->start = o->n_texts ? one_of(&b, o) : sp_json_framed(&b, o);
    if (b.err == SP_OK && g->start < 0)
        b.err = sp_fail(SP_E_ARG, "schema: no value is valid: %s", *b.nothing ? b.nothing : "#");
    if (b.err == SP_OK) b.err = check_recursion(g, b.space);
    sp_vec_fini(&b.rules);
    sp_vec_fini(&b.path);
    json_decref(b.any);
    json_decref(b.any_object);
    json_decref(b.made);
    json_decref(own);
    return b.err;
}
