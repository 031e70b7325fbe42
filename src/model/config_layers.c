/* config_layers.c -- which layers of a configuration have a window, and which do not rotate. */
#include <stdio.h>

#include "model/config_int.h"

/* A flag of layers, from every source that a file has for it. */
typedef struct flag {
    const sp_source *s;
    sp_config *c;
    uint8_t bit;
} flag;

static void set(const flag *f, int layer, bool on)
{
    uint8_t *l = &f->c->layers[layer];
    *l = (uint8_t)(on ? *l | f->bit : *l & ~f->bit);
}

/* Every period-th layer lacks it. */
static void set_period(const flag *f, int period)
{
    for (int l = 0; l < f->c->hp.n_layers; l++) set(f, l, period == 0 || (l + 1) % period != 0);
}

/* -- GGUF ----------------------------------------------------------------------------------- */

/* attention.sliding_window_pattern: a period, or a flag for each layer. */
static sp_err read_pattern_of_gguf(const flag *f)
{
    char key[SP_CONFIG_NAME_BYTES];
    double x;
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", f->s->prefix);
    const sp_gguf_entry *e = sp_gguf_find(f->s->gguf, key);
    if (!e) return SP_OK;
    const bool each = e->is_array;
    if (each && e->n != (uint64_t)f->c->hp.n_layers)
        return sp_fail(SP_E_FORMAT, "%s: %s: %llu items for %d layers", f->s->path, key,
                       (unsigned long long)e->n, f->c->hp.n_layers);
    for (int l = 0; l < (each ? f->c->hp.n_layers : 1); l++) {
        if (!sp_gguf_number(e, (uint64_t)l, &x) || x < 0 || x > SP_LAYERS_MAX)
            return sp_fail(SP_E_FORMAT, "%s: %s: is neither a period nor a list of flags",
                           f->s->path, key);
        if (each)
            set(f, l, x != 0);
        else
            set_period(f, (int)x);
    }
    return SP_OK;
}

/* -- config.json ---------------------------------------------------------------------------- */

static sp_err read_period(const flag *f, const char *key)
{
    const json_t *j = json_object_get(f->s->root, key);
    if (!j || json_is_null(j)) return SP_OK;
    if (json_is_string(j) && json_is_array(json_object_get(f->s->root, "layer_types"))) return SP_OK; /* "LLLG" */
    if (!json_is_integer(j) || json_integer_value(j) < 0 || json_integer_value(j) > SP_LAYERS_MAX)
        return sp_fail(SP_E_FORMAT, "%s: %s: is not a number of layers", f->s->path, key);
    set_period(f, (int)json_integer_value(j));
    return SP_OK;
}

/* check_list -- a list with an item for each layer. */
static sp_err check_list(const flag *f, const char *key, const json_t *list)
{
    if (json_is_array(list) && json_array_size(list) >= (size_t)f->c->hp.n_layers) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: %s: is not a list of %d layers", f->s->path, key,
                   f->c->hp.n_layers);
}

static sp_err read_layer_types(const flag *f)
{
    const char *key = "layer_types";
    const json_t *list = json_object_get(f->s->root, key);
    if (!list || json_is_null(list)) return SP_OK;
    SP_TRY(check_list(f, key, list));
    for (int l = 0; l < f->c->hp.n_layers; l++) {
        const char *type = json_string_value(json_array_get(list, (size_t)l));
        const bool local = type && strcmp(type, "sliding_attention") == 0;
        if (!local && !(type && strcmp(type, "full_attention") == 0))
            return sp_fail(SP_E_UNSUPPORTED, "%s: %s: \"%.40s\" is not supported", f->s->path, key,
                           type ? type : "?");
        set(f, l, local);
    }
    return SP_OK;
}

/* by_layer -- whether the class gives some layers a window and others none; the others ignore these fields. */
static bool by_layer(const sp_source *s)
{
    if (s->arch->window == SP_WINDOW_FLAG) return json_is_true(json_object_get(s->root, "use_sliding_window"));
    return s->arch->period > 0 || strcmp(s->arch->name, "ministral") == 0;
}

static sp_err read_windows_of_json(const flag *f)
{
    uint8_t before[SP_LAYERS_MAX];
    const size_t n = (size_t)f->c->hp.n_layers;
    memcpy(before, f->c->layers, n);
    SP_TRY(read_period(f, "sliding_window_pattern"));
    SP_TRY(read_period(f, "_sliding_window_pattern"));
    SP_TRY(read_layer_types(f));
    if (by_layer(f->s) || memcmp(before, f->c->layers, n) == 0) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: %s: windows by layer are not supported for %s", f->s->path,
                   json_object_get(f->s->root, "layer_types") ? "layer_types" : "sliding_window_pattern",
                   f->s->arch->name);
}

/* no_rope_layers: 1 for a layer that rotates. */
static sp_err read_rotations_of_json(const flag *f)
{
    const char *key = "no_rope_layers";
    const json_t *list = json_object_get(f->s->root, key);
    SP_TRY(read_period(f, "no_rope_layer_interval"));
    for (int l = 0; l < f->c->hp.n_layers; l++) f->c->layers[l] ^= f->bit; /* every n-th has it */
    if (!list || json_is_null(list)) return SP_OK;
    SP_TRY(check_list(f, key, list));
    for (int l = 0; l < f->c->hp.n_layers; l++)
        set(f, l, json_integer_value(json_array_get(list, (size_t)l)) == 0);
    return SP_OK;
}

/* -- both ----------------------------------------------------------------------------------- */

static bool has_windows(const sp_source *s)
{
    /* GGUF: a window is enough; config_claims.c refuses one for architectures without windows. */
    if (s->gguf || s->arch->window == SP_WINDOW_ALWAYS) return true;
    return s->arch->window == SP_WINDOW_FLAG &&
           json_is_true(json_object_get(s->root, "use_sliding_window"));
}

/* need_window -- the window must be given if a layer has one, and where classes have a default. GGUF files without one
 * have no such layers, except for two architectures. */
static sp_err need_window(const sp_source *s, const sp_config *c, bool any)
{
    const uint64_t traits = s->arch->traits;
    const bool always = traits & SP_SINKS || (traits & SP_PARALLEL && traits & SP_LOCAL_ROPE);
    const bool said = s->gguf || json_object_get(s->root, "sliding_window");
    const bool mistral = strcmp(s->arch->name, "mistral") == 0;
    const bool has_default = s->arch->window == SP_WINDOW_ALWAYS && (mistral || by_layer(s));
    const bool needed = s->gguf ? always : (any && by_layer(s)) || (!said && has_default);
    char name[SP_CONFIG_NAME_BYTES];
    if (c->hp.sliding_window > 0 || !needed) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: %s: is missing", s->path,
                   sp_config_name(s, SP_CONFIG_AT(hp.sliding_window), name));
}

/* set_still -- layers without a window do not rotate. exaone4 without windows rotates. */
static void set_still(const flag *f, int window)
{
    const bool parallel = f->s->arch->traits & SP_PARALLEL;
    for (int l = 0; l < f->c->hp.n_layers && (window > 0 || parallel); l++)
        set(f, l, !(f->c->layers[l] & SP_LAYER_LOCAL));
}

sp_err sp_config_layers(const sp_source *s, sp_config *c)
{
    const flag local = {s, c, SP_LAYER_LOCAL}, still = {s, c, SP_LAYER_NO_ROPE};
    const bool windows = has_windows(s);
    const int window = c->hp.sliding_window;
    set_period(&local, s->arch->period);
    for (int l = 0; l < c->hp.n_layers; l++)
        if (!windows || (s->arch->window == SP_WINDOW_FLAG && l < c->window_from))
            set(&local, l, false);
    SP_TRY(s->gguf ? read_pattern_of_gguf(&local) : read_windows_of_json(&local));
    bool any = false;
    for (int l = 0; l < c->hp.n_layers; l++) any |= c->layers[l] & SP_LAYER_LOCAL;
    SP_TRY(need_window(s, c, any));
    if (!any) c->hp.sliding_window = 0;
    /* A GGUF file without a window has no local layers: converters leave it out then. */
    for (int l = 0; l < c->hp.n_layers && s->gguf && c->hp.sliding_window == 0; l++)
        set(&local, l, false);
    if (s->arch->traits & SP_LOCAL_ROPE) set_still(&still, window);
    if (!(s->arch->traits & SP_NO_ROPE_LAYERS)) return SP_OK;
    set_period(&still, 4);
    if (!s->gguf) return read_rotations_of_json(&still);
    for (int l = 0; l < c->hp.n_layers; l++) c->layers[l] ^= SP_LAYER_NO_ROPE;
    return SP_OK;
}
