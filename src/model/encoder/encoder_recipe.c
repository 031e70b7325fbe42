/* encoder_recipe.c -- how a text becomes a vector, from the files that sentence-transformers writes:
 *
 *   modules.json                        the steps: Transformer, Pooling, Normalize
 *   1_Pooling/config.json               the mean, or the first token
 *   sentence_bert_config.json           the longest text, tokens
 *   config_sentence_transformers.json   prompts: what is put before queries and documents
 *   tokenizer_config.json               the longest text; the least of the two holds
 */
#include <stdio.h>
#include <string.h>

#include "model/encoder/encoder_int.h"

static sp_err unsupported(const char *dir, const char *file, const char *field, const char *value)
{
    return sp_fail(SP_E_UNSUPPORTED, "%s/%s: %s: %.80s is not supported", dir, file, field, value);
}

/* -- steps ---------------------------------------------------------------------------------- */

/* The last word of a class such as "sentence_transformers.models.Pooling". */
static const char *class_of(const json_t *module)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    return dot ? dot + 1 : type ? type : "";
}

/* The folder of the step that pools: `into`, or "" without one. */
static sp_err read_modules(const char *dir, const json_t *modules, char *into, size_t n_into, bool *normalize)
{
    json_t *module;
    size_t i;
    *into = 0;
    json_array_foreach(modules, i, module)
    {
        const char *name = class_of(module), *path = json_string_value(json_object_get(module, "path"));
        if (strcmp(name, "Pooling") == 0 && i == 1 && path && strlen(path) < n_into && !strstr(path, ".."))
            memcpy(into, path, strlen(path) + 1);
        else if (strcmp(name, "Normalize") == 0 && i == 2)
            *normalize = true;
        else if (strcmp(name, "Transformer") != 0 || i != 0)
            return unsupported(dir, "modules.json", "type", *name ? name : "a module without one");
    }
    return SP_OK;
}

static sp_err pooling_of(const char *dir, const json_t *o, sp_pooling *out)
{
    const char *mode = json_string_value(json_object_get(o, "pooling_mode")); /* as newer versions write it */
    const char *key;
    json_t *value;
    bool mean = mode && strcmp(mode, "mean") == 0, first = mode && strcmp(mode, "cls") == 0;
    if (mode && !mean && !first) return unsupported(dir, "config.json", "pooling_mode", mode);
    json_object_foreach((json_t *)o, key, value)
    {
        if (strncmp(key, "pooling_mode_", 13) != 0 || !json_is_true(value)) continue;
        if (strcmp(key, "pooling_mode_mean_tokens") == 0)
            mean = true;
        else if (strcmp(key, "pooling_mode_cls_token") == 0)
            first = true;
        else
            return unsupported(dir, "config.json", key, "true");
    }
    if (mean == first)
        return sp_fail(SP_E_UNSUPPORTED, "%s/config.json: pooling_mode: %s", dir,
                       mean ? "two at the same time are not supported" : "none is set");
    if (json_is_false(json_object_get(o, "include_prompt")))
        return unsupported(dir, "config.json", "include_prompt", "false");
    *out = first ? SP_POOL_FIRST : SP_POOL_MEAN;
    return SP_OK;
}

static sp_err read_pooling(const char *dir, const char *folder, sp_pooling *out)
{
    json_t *o = NULL;
    char *path = sp_path_join(dir, folder);
    if (!path) return sp_fail_nomem("a path");
    sp_err err = sp_json_read(path, "config.json", &o);
    if (err == SP_OK && !o) err = sp_fail(SP_E_IO, "%s/config.json: no such file", path);
    if (err == SP_OK) err = pooling_of(path, o, out);
    json_decref(o);
    sp_free(path);
    return err;
}

static sp_err read_steps(const char *dir, sp_encoder_recipe *out)
{
    char folder[256] = "";
    json_t *modules = NULL;
    SP_TRY(sp_json_read_list(dir, "modules.json", &modules));
    sp_err err = modules ? read_modules(dir, modules, folder, sizeof folder, &out->normalize) : SP_OK;
    json_decref(modules);
    return err == SP_OK && *folder ? read_pooling(dir, folder, &out->pooling) : err;
}

/* -- prompts -------------------------------------------------------------------------------- */

static sp_err keep(sp_encoder *m, const char *text, const char **out)
{
    char *copy = sp_arena_take(&m->files->arena, strlen(text) + 1, 1);
    if (!copy) return sp_fail_nomem("a prompt of the encoder");
    *out = strcpy(copy, text);
    return SP_OK;
}

/* The first of these names that has a prompt. */
static const char *prompt_of(const json_t *prompts, const char *const *names)
{
    for (; *names; names++) {
        const char *text = json_string_value(json_object_get(prompts, *names));
        if (text) return text;
    }
    return "";
}

static sp_err read_prompts(const char *dir, sp_encoder *m)
{
    static const char *const query[] = {"query", NULL}, *const document[] = {"document", "passage", "corpus", NULL};
    json_t *o = NULL;
    SP_TRY(sp_json_read(dir, "config_sentence_transformers.json", &o));
    const json_t *prompts = json_object_get(o, "prompts");
    const char *named[] = {json_string_value(json_object_get(o, "default_prompt_name")), NULL};
    sp_encoder_recipe *r = &m->recipe;
    sp_err err = keep(m, prompt_of(prompts, query), &r->prompt[SP_ENCODE_QUERY]);
    if (err == SP_OK) err = keep(m, prompt_of(prompts, document), &r->prompt[SP_ENCODE_DOCUMENT]);
    if (err == SP_OK) err = keep(m, prompt_of(prompts, named), &r->prompt[SP_ENCODE_PLAIN]);
    json_decref(o);
    return err;
}

/* -- the longest text ------------------------------------------------------------------------ */

static void lower_to(int *out, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    const double x = json_is_number(v) ? json_number_value(v) : 0; /* "none" may be written as 1e30 */
    if (x >= 3 && x < *out) *out = (int)x;
}

static sp_err read_longest(const char *dir, sp_encoder *m)
{
    json_t *sentence = NULL, *tokenizer = NULL;
    m->recipe.max_tokens = m->size.n_ctx;
    SP_TRY(sp_json_read(dir, "sentence_bert_config.json", &sentence));
    lower_to(&m->recipe.max_tokens, sentence, "max_seq_length");
    const bool lower = json_is_true(json_object_get(sentence, "do_lower_case"));
    json_decref(sentence);
    if (lower) return unsupported(dir, "sentence_bert_config.json", "do_lower_case", "true");
    SP_TRY(sp_json_read(dir, "tokenizer_config.json", &tokenizer));
    lower_to(&m->recipe.max_tokens, tokenizer, "model_max_length");
    json_decref(tokenizer);
    return SP_OK;
}

sp_err sp_encoder_recipe_of_folder(const char *dir, sp_encoder *m)
{
    m->recipe.pooling = SP_POOL_MEAN;
    if (m->head) {
        for (int k = 0; k < SP_ENCODE_KINDS; k++) m->recipe.prompt[k] = "";
        return read_longest(dir, m);
    }
    SP_TRY(read_steps(dir, &m->recipe));
    SP_TRY(read_longest(dir, m));
    return read_prompts(dir, m);
}
