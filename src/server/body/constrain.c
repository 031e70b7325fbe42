#include "server/body/constrain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"

#define MAX_CHOICES 1024

static sp_grammar *compile(srv_fields *f, const char *param, const sp_grammar_opts *o)
{
    sp_grammar *g = NULL;
    const sp_err err = sp_grammar_compile(o, &g);
    if (err != SP_OK) srv_fields_fail(f, param, param, err);
    return g;
}

sp_grammar *srv_constrain_json(srv_fields *f, const char *param, const json_t *schema)
{
    if (json_is_true(schema)) return compile(f, param, &(sp_grammar_opts){0});
    if (!json_is_object(schema)) {
        srv_fields_refuse(f, param, "%s must be a JSON Schema: an object", param);
        return NULL;
    }
    char *text = json_dumps(schema, JSON_COMPACT);
    sp_grammar *g = text ? compile(f, param, &(sp_grammar_opts){.schema = text}) : NULL;
    if (!text) srv_fields_refuse(f, param, "out of memory for %s", param);
    free(text);
    return g;
}

/* of_format -- {"type": "text" | "json_object" | "json_schema"}; llama.cpp has a schema beside
 * json_object, too. */
static sp_grammar *of_format(srv_fields *f, const json_t *format)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    const json_t *schema = json_object_get(format, "schema");
    if (type && strcmp(type, "text") == 0) return NULL;
    if (type && strcmp(type, "json_object") == 0)
        return schema ? srv_constrain_json(f, "response_format.schema", schema)
                      : compile(f, "response_format", &(sp_grammar_opts){0});
    if (type && strcmp(type, "json_schema") == 0) {
        const json_t *named = json_object_get(json_object_get(format, "json_schema"), "schema");
        return srv_constrain_json(f, "response_format.json_schema.schema", named ? named : schema);
    }
    srv_fields_refuse(f, "response_format.type",
                      "response_format.type must be text, json_object or json_schema");
    return NULL;
}

static sp_grammar *of_choices(srv_fields *f, const char *param, const json_t *list)
{
    const char *texts[MAX_CHOICES];
    size_t n = json_array_size(list);
    if (n == 0 || n > MAX_CHOICES) {
        srv_fields_refuse(f, param, "%s must be a list of 1 to %d texts", param, MAX_CHOICES);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        texts[i] = json_string_value(json_array_get(list, i));
        if (texts[i] && *texts[i]) continue;
        srv_fields_refuse(f, param, "%s: item %zu is not a text", param, i);
        return NULL;
    }
    return compile(f, param, &(sp_grammar_opts){.texts = texts, .n_texts = (int)n});
}

static sp_grammar *of_text(srv_fields *f, const char *param, const json_t *v, bool regex)
{
    const char *s = json_string_value(v);
    if (!s) {
        srv_fields_refuse(f, param, "%s must be a string", param);
        return NULL;
    }
    return compile(f, param,
                   regex ? &(sp_grammar_opts){.regex = s} : &(sp_grammar_opts){.gbnf = s});
}

/* of_guided_text -- a regular expression or a grammar, in vLLM's fields or llama.cpp's. */
static sp_grammar *of_guided_text(srv_fields *f, const json_t *inner)
{
    static const struct {
        const char *name, *inside; /* NULL: not in structured_outputs */
        bool regex;
    } fields[] = {{"grammar", NULL, false},
                  {"guided_grammar", "grammar", false},
                  {"guided_regex", "regex", true}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *inside = fields[i].inside;
        const json_t *v =
            inner && inside ? json_object_get(inner, inside) : srv_field(f, fields[i].name);
        char param[64];
        snprintf(param, sizeof param, "%s%s", inner && inside ? "structured_outputs." : "",
                 inner && inside ? inside : fields[i].name);
        if (!v || json_is_null(v) || (json_is_string(v) && !json_string_length(v))) continue;
        return of_text(f, param, v, fields[i].regex);
    }
    return NULL;
}

/* of_guided -- vLLM's fields: at the top with the prefix guided_, or in structured_outputs. */
static sp_grammar *of_guided(srv_fields *f)
{
    const json_t *inner = srv_field(f, "structured_outputs");
    const json_t *json = inner ? json_object_get(inner, "json") : srv_field(f, "guided_json");
    const json_t *choice = inner ? json_object_get(inner, "choice") : srv_field(f, "guided_choice");
    const char *json_name = inner ? "structured_outputs.json" : "guided_json";
    const char *choice_name = inner ? "structured_outputs.choice" : "guided_choice";
    const json_t *tag = json_object_get(inner, "structural_tag");
    srv_fields_only(f, inner, "structured_outputs",
                    "json choice regex grammar json_object structural_tag disable_fallback disable_any_whitespace "
                    "disable_additional_properties");
    if (inner && !json_is_object(inner))
        srv_fields_refuse(f, "structured_outputs", "structured_outputs must be an object");
    if (f->failed) return NULL;
    if (tag && !json_is_null(tag)) {
        srv_fields_refuse(f, "structured_outputs",
                          "structured_outputs.structural_tag is not supported");
        return NULL;
    }
    sp_grammar *g = of_guided_text(f, inner);
    if (g || f->failed) return g;
    if (json_is_true(json_object_get(inner, "json_object"))) return compile(f, json_name, &(sp_grammar_opts){0});
    if (json_is_string(json)) { /* vLLM takes the schema as a text, too */
        json_t *parsed = cli_load_json(json_string_value(json), json_string_length(json), 0, NULL);
        g = srv_constrain_json(f, json_name, parsed);
        json_decref(parsed);
        return g;
    }
    if (json && !json_is_null(json)) return srv_constrain_json(f, json_name, json);
    return choice && !json_is_null(choice) ? of_choices(f, choice_name, choice) : NULL;
}

/* note -- a field that says what the answer is like, if it has a value; it must be the only one. */
static void note(srv_fields *f, const char *name, const json_t *value, char first[64])
{
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!value || json_is_null(value) || json_is_false(value) || (json_is_string(value) && !json_string_length(value)))
        return;
    if (strcmp(name, "response_format") == 0 && type && strcmp(type, "text") == 0) return;
    if (*first)
        srv_fields_refuse(f, name, "%s and %s: only one of them can say what the answer is like", first, name);
    else
        snprintf(first, 64, "%s", name);
}

static void refuse_two(srv_fields *f)
{
    static const char *const names[] = {"response_format", "json_schema",   "grammar",       "guided_json",
                                        "guided_choice",   "guided_regex", "guided_grammar"};
    static const char *const inside[] = {"json", "choice", "regex", "grammar", "json_object"};
    char first[64] = "", name[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) note(f, names[i], srv_field(f, names[i]), first);
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        snprintf(name, sizeof name, "structured_outputs.%s", inside[i]);
        note(f, name, json_object_get(srv_field(f, "structured_outputs"), inside[i]), first);
    }
}

sp_grammar *srv_constrain_read(srv_fields *f)
{
    const json_t *format = srv_field(f, "response_format");
    const json_t *schema = srv_field(f, "json_schema");
    sp_grammar *g = NULL;
    refuse_two(f);
    if (f->failed) return NULL;
    if (format && !json_is_object(format))
        srv_fields_refuse(f, "response_format", "response_format must be an object");
    else if (format)
        g = of_format(f, format);
    if (!g && !f->failed && schema) g = srv_constrain_json(f, "json_schema", schema);
    return g || f->failed ? g : of_guided(f);
}
