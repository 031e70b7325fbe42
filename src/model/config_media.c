/* config_media.c -- models of several media: the text part of their config.json, and the names of its tensors. The
 * parts for pictures are not read. */
#include <stdio.h>

#include "model/config_int.h"

typedef struct part {
    const char *model_type; /* of the whole */
    const char *text_type;  /* of text_config; without one it is that of the first row of the model */
    const char *arch;       /* model_type of the architecture */
} part;

static const part parts[] = {
    {"gemma3", "gemma3_text", "gemma3_text"},
    {"mistral3", "mistral", "mistral"},
    {"mistral3", "ministral3", "ministral3"},
    {"qwen2_vl", "qwen2_vl_text", "qwen2_vl_text"},
    {"qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl_text"},
    {"qwen3_vl", "qwen3_vl_text", "qwen3_vl_text"},
};

/* Older files of Qwen have the numbers of the text part beside vision_config. */
static bool may_be_flat(const char *arch)
{
    return strcmp(arch, "qwen2_vl_text") == 0;
}

/* part_of -- the text part of a model, with this type or the usual one (NULL); NULL: there is none. */
static const part *part_of(const char *model_type, const char *text_type)
{
    for (size_t i = 0; i < SP_COUNT(parts); i++)
        if (strcmp(model_type, parts[i].model_type) == 0 &&
            (!text_type || strcmp(text_type, parts[i].text_type) == 0))
            return &parts[i];
    return NULL;
}

static const char *text_of(const json_t *object, const char *field)
{
    return json_string_value(json_object_get(object, field));
}

static sp_err into_text_config(sp_source *s, const json_t *text, char **path)
{
    const size_t n = strlen(s->path) + sizeof ": text_config";
    *path = sp_alloc(n, 1);
    if (!*path) return sp_fail_nomem("a path");
    snprintf(*path, n, "%s: text_config", s->path);
    s->path = *path;
    s->root = text;
    return SP_OK;
}

sp_err sp_config_find_text(sp_source *s, const char **type, char **path)
{
    const char *whole = text_of(s->root, "model_type");
    const json_t *text = json_object_get(s->root, "text_config");
    const char *text_type = text_of(text, "model_type");
    const part *p = whole ? part_of(whole, NULL) : NULL;
    *type = p ? p->arch : whole;
    if (!p) return SP_OK;
    s->media = true;
    if (!text && may_be_flat(p->arch)) return SP_OK;
    if (!json_is_object(text))
        return sp_fail(SP_E_FORMAT, "%s: text_config: is %s", s->path, text ? "not an object" : "missing");
    p = part_of(whole, text_type);
    if (!p)
        return sp_fail(SP_E_UNSUPPORTED, "%s: text_config.model_type: \"%.40s\" is not supported in %s", s->path,
                       text_type, whole);
    *type = p->arch;
    return into_text_config(s, text, path);
}

/* -- tensors -------------------------------------------------------------------------------- */

bool sp_config_is_of_media(const char *name, size_t n)
{
    static const char *const others[] = {"vision_tower.", "multi_modal_projector.", "visual."};
    static const char model[] = "model.";
    const size_t skip = n >= sizeof model - 1 && memcmp(name, model, sizeof model - 1) == 0 ? sizeof model - 1 : 0;
    for (size_t i = 0; i < SP_COUNT(others); i++)
        if (n - skip > strlen(others[i]) && memcmp(name + skip, others[i], strlen(others[i])) == 0) return true;
    return false;
}
