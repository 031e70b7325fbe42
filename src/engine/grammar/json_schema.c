/* json_schema.c -- compiles a JSON schema into an automaton (grammar_int.h).
 *
 * A schema is a rule, which is called wherever the schema is used, so recursive schemas need no special
 * case. A rule that can call itself before it reads a byte is an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/grammar_int.h"

enum { MAX_REPEAT = 256, MAX_BLANKS = 20, MAX_DIGITS = 15, MAX_DEPTH = 64, MAX_VALUES = 4000 };

typedef struct rule {
    json_t *schema; /* NULL: white space; the others are named below */
    int32_t start;
} rule;

typedef struct builder {
    sp_grammar *g;
    json_t *root;
    SP_VEC(rule) rules;
    SP_VEC(char) path;
    json_t *any, *any_object; /* {} and {"type": "object"} */
    int32_t space, ret;
    int depth;
    sp_err err; /* the first error; builders do nothing after it */
} builder;

static int32_t build_schema(builder *b, json_t *schema, int32_t next);

static int32_t fail(builder *b, sp_err code, const char *what, const char *name)
{
    if (b->err == SP_OK)
        b->err = sp_fail(code, "schema: #%.*s: %s%s%s", (int)b->path.n, b->path.v ? b->path.v : "",
                         what, name ? " " : "", name ? name : "");
    return 0;
}

static size_t enter(builder *b, const char *name)
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

/* -- nodes ------------------------------------------------------------------------------------- */

static int32_t add(builder *b, sp_gram_node n)
{
    return sp_gram_add(b->g, n, &b->err);
}

static int32_t range(builder *b, char lo, char hi, int32_t next)
{
    return add(b, (sp_gram_node){
                      .kind = SP_GRAM_BYTE, .lo = (uint8_t)lo, .hi = (uint8_t)hi, .next = next});
}

static int32_t either(builder *b, int32_t one, int32_t other)
{
    return add(b, (sp_gram_node){.kind = SP_GRAM_SPLIT, .next = one, .alt = other});
}

static int32_t call(builder *b, int32_t start, int32_t next)
{
    return add(b, (sp_gram_node){.kind = SP_GRAM_CALL, .alt = start, .next = next});
}

static int32_t literal(builder *b, const char *s, size_t n, int32_t next)
{
    while (n--) next = range(b, s[n], s[n], next);
    return next;
}

static int32_t text(builder *b, const char *s, int32_t next)
{
    return literal(b, s, strlen(s), next);
}

/* string -- quotes around min .. max characters. */
static int32_t string(builder *b, int32_t min, int32_t max, int32_t next)
{
    next = range(b, '"', '"', next);
    next = add(b, (sp_gram_node){.kind = SP_GRAM_CHARS, .min = min, .max = max, .next = next});
    return range(b, '"', '"', next);
}

static int32_t digits(builder *b, int n, int32_t next)
{
    int32_t at = next;
    while (n--) at = either(b, range(b, '0', '9', at), next);
    return at;
}

static int32_t number(builder *b, bool integer, int32_t next)
{
    int32_t after = next;
    if (!integer) {
        int32_t exponent = range(b, '0', '9', digits(b, 1, next));
        exponent = either(b, exponent,
                          either(b, range(b, '+', '+', exponent), range(b, '-', '-', exponent)));
        exponent = either(b, range(b, 'e', 'e', exponent), range(b, 'E', 'E', exponent));
        after = either(b, next, exponent);
        int32_t fraction = range(b, '.', '.', range(b, '0', '9', digits(b, MAX_DIGITS, after)));
        after = either(b, after, fraction);
    }
    int32_t whole =
        either(b, range(b, '0', '0', after), range(b, '1', '9', digits(b, MAX_DIGITS, after)));
    return either(b, whole, range(b, '-', '-', whole));
}

static int32_t spaced(builder *b, int32_t next)
{
    return call(b, b->space, next);
}

/* -- rules --------------------------------------------------------------------------------------- */

/* rule_of -- where the rule of a schema begins: a jump, which leads to its first node when that is built. */
static int32_t rule_of(builder *b, json_t *schema)
{
    if (b->err != SP_OK) return 0;
    for (size_t i = 0; i < b->rules.n; i++)
        if (b->rules.v[i].schema == schema) return b->rules.v[i].start;
    if (++b->depth > MAX_DEPTH) return fail(b, SP_E_LIMIT, "the schema is nested too deeply", NULL);
    int32_t start = sp_gram_jump(b->g, b->ret, &b->err);
    if (b->err == SP_OK) b->err = sp_vec_reserve(&b->rules, 1);
    if (b->err != SP_OK) return 0;
    b->rules.v[b->rules.n++] = (rule){.schema = schema, .start = start};
    sp_gram_lead(b->g, start, build_schema(b, schema, b->ret), &b->err);
    b->depth--;
    return start;
}

static int32_t use(builder *b, json_t *schema, int32_t next)
{
    return call(b, rule_of(b, schema), next);
}

static int32_t use_at(builder *b, const char *name, json_t *schema, int32_t next)
{
    size_t mark = enter(b, name);
    next = use(b, schema, next);
    b->path.n = mark;
    return next;
}

/* -- keywords ------------------------------------------------------------------------------------ */

static int32_t bound(builder *b, json_t *schema, const char *name, int32_t absent)
{
    json_t *j = json_object_get(schema, name);
    if (!j) return absent;
    if (!json_is_integer(j) || json_integer_value(j) < 0)
        return fail(b, SP_E_ARG, name, "is not a number of 0 or more");
    return (int32_t)SP_MIN(json_integer_value(j), 1 << 30);
}

/* key -- "name": */
static int32_t key(builder *b, const char *name, int32_t next)
{
    json_t *j = json_string(name);
    char *quoted = j ? json_dumps(j, JSON_ENCODE_ANY) : NULL;
    if (!quoted) b->err = sp_fail_nomem(strlen(name), "a grammar");
    next = spaced(b, range(b, ':', ':', spaced(b, next)));
    if (quoted) next = text(b, quoted, next);
    free(quoted);
    json_decref(j);
    return next;
}

static bool lists(json_t *array, const char *name)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *s = json_string_value(json_array_get(array, i));
        if (s && strcmp(s, name) == 0) return true;
    }
    return false;
}

/* declared -- an object with these properties, in their order. Two chains of nodes: with a comma
 * before the next property, and without one while none came. */
static int32_t declared(builder *b, json_t *properties, json_t *required, int32_t next)
{
    const char *name;
    json_t *schema;
    SP_VEC(const char *) names = {0};
    int32_t comma = spaced(b, range(b, '}', '}', next)), first = comma;
    json_object_foreach(properties, name, schema)
    {
        if (sp_vec_reserve(&names, 1) != SP_OK) {
            b->err = SP_E_NOMEM;
            break;
        }
        names.v[names.n++] = name;
    }
    size_t mark = enter(b, "properties");
    while (names.n && b->err == SP_OK) {
        name = names.v[--names.n];
        int32_t member = key(b, name, use_at(b, name, json_object_get(properties, name), comma));
        int32_t with_comma = spaced(b, range(b, ',', ',', spaced(b, member)));
        int32_t alone = spaced(b, member);
        bool optional = !lists(required, name);
        first = optional ? either(b, alone, first) : alone;
        comma = optional ? either(b, with_comma, comma) : with_comma;
    }
    b->path.n = mark;
    sp_vec_fini(&names);
    return range(b, '{', '{', first);
}

/* repeated -- min .. max parts with commas (max -1: no limit) between brackets; `part` is a rule. */
static int32_t repeated(builder *b, int32_t part, int32_t min, int32_t max, const char *brackets,
                        int32_t next)
{
    if (max >= 0 && min > max) return fail(b, SP_E_ARG, "a least number exceeds the largest", NULL);
    if (min > MAX_REPEAT || max > MAX_REPEAT)
        return fail(b, SP_E_LIMIT, "more than 256 items are not supported", NULL);
    int32_t end = spaced(b, range(b, brackets[1], brackets[1], next)), at = end;
    if (max < 0) {
        int32_t loop = either(b, 0, end);
        int32_t more = spaced(b, range(b, ',', ',', spaced(b, call(b, part, loop))));
        if (b->err == SP_OK) b->g->nodes.v[loop].next = more;
        at = loop;
        max = SP_MAX(min, 1);
    }
    for (int32_t i = max; i > 0; i--) {
        int32_t item = spaced(b, call(b, part, at));
        if (i > 1) item = spaced(b, range(b, ',', ',', item));
        at = i > min ? either(b, item, end) : item;
    }
    return range(b, brackets[0], brackets[0], at);
}

/* any_members -- an object whose members all have this schema. */
static int32_t any_members(builder *b, json_t *schema, int32_t next)
{
    int32_t value = use_at(b, "additionalProperties", schema, b->ret);
    int32_t member = string(b, 0, -1, spaced(b, range(b, ':', ':', spaced(b, value))));
    return repeated(b, member, 0, -1, "{}", next);
}

static int32_t object(builder *b, json_t *schema, int32_t next)
{
    json_t *properties = json_object_get(schema, "properties"),
           *more = json_object_get(schema, "additionalProperties");
    json_t *required = json_object_get(schema, "required");
    if ((properties && !json_is_object(properties)) || (required && !json_is_array(required)))
        return fail(b, SP_E_ARG, "properties is not an object, or required is not a list", NULL);
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (!name || !json_object_get(properties, name))
            return fail(b, SP_E_UNSUPPORTED,
                        "required: a property that is not declared:", name ? name : "?");
    }
    if (json_object_size(properties)) return declared(b, properties, required, next);
    if (json_is_false(more) || (properties && !more)) return declared(b, NULL, NULL, next);
    return any_members(b, json_is_object(more) ? more : b->any, next);
}

static int32_t array(builder *b, json_t *schema, int32_t next)
{
    json_t *items = json_object_get(schema, "items");
    size_t mark = enter(b, "items");
    int32_t part = rule_of(b, items && !json_is_true(items) ? items : b->any);
    b->path.n = mark;
    return repeated(b, part, bound(b, schema, "minItems", 0), bound(b, schema, "maxItems", -1),
                    "[]", next);
}

/* of_pattern -- a string with content that a regular expression describes. */
static int32_t of_pattern(builder *b, const char *pattern, int32_t next)
{
    int32_t start = 0;
    if (b->err != SP_OK) return 0;
    sp_err err = sp_pattern_build(pattern, b->g, &start);
    if (err != SP_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s", sp_error_detail());
        return fail(b, err, why, NULL);
    }
    return range(b, '"', '"', call(b, start, range(b, '"', '"', next)));
}

static int32_t of_string(builder *b, json_t *schema, int32_t next)
{
    json_t *pattern = json_object_get(schema, "pattern"),
           *format = json_object_get(schema, "format");
    int32_t min = bound(b, schema, "minLength", 0), max = bound(b, schema, "maxLength", -1);
    if (max >= 0 && min > max) return fail(b, SP_E_ARG, "minLength exceeds maxLength", NULL);
    if (!pattern && !format) return string(b, min, max, next);
    if ((pattern && format) || min > 0 || max >= 0)
        return fail(b, SP_E_UNSUPPORTED, "more than one of pattern, format and a length", NULL);
    const char *text = json_string_value(pattern ? pattern : format);
    if (!text) return fail(b, SP_E_ARG, pattern ? "pattern" : "format", "is not a text");
    const char *expression = pattern ? text : sp_json_format(text);
    if (!expression) return fail(b, SP_E_UNSUPPORTED, "unsupported format", text);
    return of_pattern(b, expression, next);
}

static int32_t of_type(builder *b, const char *type, json_t *schema, int32_t next)
{
    if (strcmp(type, "object") == 0) return object(b, schema, next);
    if (strcmp(type, "array") == 0) return array(b, schema, next);
    if (strcmp(type, "string") == 0) return of_string(b, schema, next);
    if (strcmp(type, "integer") == 0) return number(b, true, next);
    if (strcmp(type, "number") == 0) return number(b, false, next);
    if (strcmp(type, "boolean") == 0)
        return either(b, text(b, "true", next), text(b, "false", next));
    if (strcmp(type, "null") == 0) return text(b, "null", next);
    return fail(b, SP_E_ARG, "unknown type", type);
}

static bool has_type(json_t *value, const char *type)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return strcmp(type, "object") == 0;
    case JSON_ARRAY:
        return strcmp(type, "array") == 0;
    case JSON_STRING:
        return strcmp(type, "string") == 0;
    case JSON_INTEGER:
        return strcmp(type, "integer") == 0 || strcmp(type, "number") == 0;
    case JSON_REAL:
        return strcmp(type, "number") == 0;
    case JSON_NULL:
        return strcmp(type, "null") == 0;
    default:
        return strcmp(type, "boolean") == 0;
    }
}

/* of_values -- one of these values, those of another type left out. */
static int32_t of_values(builder *b, json_t *values, const char *type, int32_t next)
{
    int32_t at = -1;
    if (!json_array_size(values)) return fail(b, SP_E_ARG, "enum is not a list of values", NULL);
    if (json_array_size(values) > MAX_VALUES)
        return fail(b, SP_E_LIMIT, "more than 4000 values are not supported", NULL);
    for (size_t i = json_array_size(values); i-- > 0 && b->err == SP_OK;) {
        json_t *value = json_array_get(values, i);
        if (type && !has_type(value, type)) continue;
        char *s = json_dumps(value, JSON_ENCODE_ANY);
        if (!s) b->err = sp_fail_nomem(64, "a grammar");
        int32_t one = s ? text(b, s, next) : 0;
        at = at < 0 ? one : either(b, one, at);
        free(s);
    }
    return at < 0 ? fail(b, SP_E_ARG, "no value of enum has the type", type) : at;
}

/* resolve -- the schema that "#/a/b" names. */
static json_t *resolve(builder *b, const char *ref)
{
    json_t *at = b->root;
    if (*ref != '#') return NULL;
    for (ref++; at && *ref == '/';) {
        char name[256];
        size_t n = 0;
        for (ref++; *ref && *ref != '/' && n + 1 < sizeof name; ref++) {
            bool escaped = *ref == '~' && (ref[1] == '0' || ref[1] == '1');
            name[n++] = escaped ? (ref[1] == '0' ? '~' : '/') : *ref;
            ref += escaped;
        }
        name[n] = 0;
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(name)) : json_object_get(at, name);
    }
    return *ref ? NULL : at;
}

static void check_keywords(builder *b, json_t *schema)
{
    static const char *const known[] = {
        "type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
        "minLength", "maxLength", "pattern", "format", "enum", "const", "anyOf", "oneOf", "$ref",
        "$defs", "definitions",
        /* annotations */
        "title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated",
        "readOnly", "writeOnly", "strict", "name"};
    const char *name;
    json_t *value;
    json_object_foreach(schema, name, value)
    {
        bool found = false;
        for (size_t i = 0; i < SP_COUNT(known) && !found; i++) found = strcmp(name, known[i]) == 0;
        if (!found) fail(b, SP_E_UNSUPPORTED, "unsupported keyword", name);
    }
}

static int32_t any_of(builder *b, json_t *list, const char *keyword, int32_t next)
{
    int32_t at = -1;
    size_t mark = enter(b, keyword);
    for (size_t i = json_array_size(list); i-- > 0;) {
        int32_t one = use(b, json_array_get(list, i), next);
        at = at < 0 ? one : either(b, one, at);
    }
    if (at < 0) fail(b, SP_E_ARG, "is not a list of schemas", NULL);
    b->path.n = mark;
    return at;
}

static int32_t of_types(builder *b, json_t *schema, int32_t next)
{
    static const char *const all[] = {"object", "array", "string", "number", "boolean", "null"};
    json_t *type = json_object_get(schema, "type");
    int32_t at = -1;
    if (json_is_string(type)) return of_type(b, json_string_value(type), schema, next);
    if (type && !json_array_size(type)) return fail(b, SP_E_ARG, "type is not a name", NULL);
    if (!type &&
        (json_object_get(schema, "properties") || json_object_get(schema, "additionalProperties")))
        return object(b, schema, next);
    if (!type && json_object_get(schema, "items")) return array(b, schema, next);
    size_t n = type ? json_array_size(type) : SP_COUNT(all);
    for (size_t i = 0; i < n; i++) {
        const char *name = type ? json_string_value(json_array_get(type, i)) : all[i];
        int32_t one = of_type(b, name ? name : "?", schema, next);
        at = at < 0 ? one : either(b, one, at);
    }
    return at;
}

static int32_t build_schema(builder *b, json_t *schema, int32_t next)
{
    if (b->err != SP_OK) return 0;
    if (json_is_true(schema)) return use(b, b->any, next);
    if (!json_is_object(schema)) return fail(b, SP_E_ARG, "is not a schema", NULL);
    check_keywords(b, schema);
    json_t *ref = json_object_get(schema, "$ref"), *list = json_object_get(schema, "anyOf");
    if (ref) {
        json_t *target = json_is_string(ref) ? resolve(b, json_string_value(ref)) : NULL;
        return target
                   ? use(b, target, next)
                   : fail(b, SP_E_ARG,
                          "$ref names nothing:", json_is_string(ref) ? json_string_value(ref) : "");
    }
    if (list) return any_of(b, list, "anyOf", next);
    if ((list = json_object_get(schema, "oneOf"))) return any_of(b, list, "oneOf", next);
    const char *type = json_string_value(json_object_get(schema, "type"));
    if ((list = json_object_get(schema, "enum"))) return of_values(b, list, type, next);
    if ((list = json_object_get(schema, "const"))) {
        json_t *values = json_pack("[O]", list);
        int32_t at =
            values ? of_values(b, values, type, next) : fail(b, SP_E_NOMEM, "out of memory", NULL);
        json_decref(values);
        return at;
    }
    return of_types(b, schema, next);
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
    if (!mark) return sp_fail_nomem(g->nodes.n, "a grammar");
    for (size_t i = 0; i < g->nodes.n && ok; i++) ok = reads_first(g, (int32_t)i, space, mark, 0);
    sp_free(mark);
    return ok ? SP_OK : sp_fail(SP_E_ARG, "schema: it refers to itself without end");
}

/* white_space -- nothing, a blank, or a newline with blanks. */
static int32_t white_space(builder *b)
{
    int32_t blanks = b->ret;
    for (int i = 0; i < MAX_BLANKS; i++) blanks = either(b, range(b, ' ', ' ', blanks), b->ret);
    return either(b, b->ret, either(b, range(b, ' ', ' ', b->ret), range(b, '\n', '\n', blanks)));
}

/* one_of -- one of these texts. */
static int32_t one_of(builder *b, const sp_grammar_opts *o)
{
    int32_t at = -1;
    if (o->n_texts > MAX_VALUES)
        return fail(b, SP_E_LIMIT, "more than 4000 texts are not supported", NULL);
    for (int i = o->n_texts; i-- > 0;) {
        int32_t one = text(b, o->texts[i], b->ret);
        at = at < 0 ? one : either(b, one, at);
    }
    return at;
}

/* framed -- JSON between two texts, once or with a text between repetitions. */
static int32_t framed(builder *b, const sp_grammar_opts *o)
{
    bool repeats = o->between && *o->between;
    int32_t start = sp_gram_jump(b->g, b->ret, &b->err), end = b->ret;
    if (repeats) end = either(b, b->ret, text(b, o->between, start));
    if (o->after) end = text(b, o->after, end);
    int32_t first = spaced(b, use(b, b->root, end));
    if (o->before) first = text(b, o->before, first);
    sp_gram_lead(b->g, start, first, &b->err);
    return start;
}

sp_err sp_json_schema_build(json_t *schema, const sp_grammar_opts *o, sp_grammar *g)
{
    builder b = {.g = g, .any = json_object(), .any_object = json_pack("{s:s}", "type", "object")};
    if (!b.any || !b.any_object) b.err = sp_fail_nomem(64, "a grammar");
    b.root = schema ? schema : b.any_object;
    b.ret = add(&b, (sp_gram_node){.kind = SP_GRAM_RETURN});
    b.space = white_space(&b);
    g->start = o->n_texts ? one_of(&b, o) : framed(&b, o);
    if (b.err == SP_OK) b.err = check_recursion(g, b.space);
    sp_vec_fini(&b.rules);
    sp_vec_fini(&b.path);
    json_decref(b.any);
    json_decref(b.any_object);
    return b.err;
}
