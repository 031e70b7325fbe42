/* inspect.c -- describes a model file as JSON. Works for unknown architectures: it lists metadata
 * and tensors as the readers return them. */
#include "model/arch.h"
#include "model/json_file.h"
#include "model/model_int.h"

#define ARRAY_SHOWN 8 /* shown elements of a metadata array; vocabularies have 100,000 */

/* JSON constructors return NULL when memory is exhausted and json_*_set_new then fails too, so one
 * flag, checked at the end, is enough. */
typedef struct builder {
    bool failed;
} builder;

static void set(builder *b, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new_nocheck(object, key, value) != 0) b->failed = true;
}

static void append(builder *b, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0) b->failed = true;
}

/* A string of the file. If it is not valid UTF-8, its non-ASCII bytes become '?'. */
static json_t *text(sp_text_view v)
{
    json_t *j = json_stringn(v.s ? v.s : "", v.n);
    if (j) return j;
    char *copy = sp_strdup_n(v.s, v.n);
    if (!copy) return NULL;
    for (size_t i = 0; i < v.n; i++)
        if ((unsigned char)copy[i] >= 0x80) copy[i] = '?';
    j = json_stringn(copy, v.n);
    sp_free(copy);
    return j;
}

/* A name in the file, printable: control characters also become '?'. */
static json_t *name_text(sp_text_view v)
{
    char *copy = sp_strdup_n(v.s, v.n);
    if (!copy) return NULL;
    for (size_t i = 0; i < v.n; i++)
        if ((unsigned char)copy[i] < 0x20 || copy[i] == 0x7f) copy[i] = '?';
    json_t *j = text((sp_text_view){.s = copy, .n = v.n});
    sp_free(copy);
    return j;
}

/* JSON has no infinities. */
static json_t *number(double x)
{
    return x - x == 0 ? json_real(x) : json_null();
}

/* -- tensors -------------------------------------------------------------------------------- */

static json_t *tensor_json(builder *b, const sp_tensor *t, bool with_file)
{
    json_t *j = json_object(), *shape = json_array();
    const char *base = strrchr(t->path, '/');
    for (int i = 0; i < t->n_dims; i++) append(b, shape, json_integer(t->shape[i]));
    set(b, j, "name", name_text(t->name));
    set(b, j, "type", text((sp_text_view){.s = t->type, .n = strlen(t->type)}));
    set(b, j, "shape", shape);
    set(b, j, "offset", json_integer((json_int_t)t->offset));
    set(b, j, "bytes", json_integer((json_int_t)t->n_bytes));
    if (with_file) set(b, j, "file", json_string(base ? base + 1 : t->path));
    return j;
}

static json_int_t count_of(const json_t *counts, const char *type)
{
    return json_integer_value(json_object_get(counts, type));
}

/* Adds "tensors" and "totals". */
static void add_tensors(builder *b, json_t *root, const sp_tensor_dir *dir, bool with_file)
{
    json_t *list = json_array(), *totals = json_object(), *types = json_object();
    uint64_t bytes = 0, elements = 0;
    for (size_t i = 0; i < dir->list.n; i++) {
        const sp_tensor *t = &dir->list.v[i];
        int64_t n;
        append(b, list, tensor_json(b, t, with_file));
        bytes += t->n_bytes;
        if (sp_tensor_elements(t, &n) == SP_OK) elements += (uint64_t)n;
        set(b, types, t->type, json_integer(count_of(types, t->type) + 1));
    }
    set(b, totals, "tensors", json_integer((json_int_t)dir->list.n));
    set(b, totals, "parameters", json_integer((json_int_t)elements));
    set(b, totals, "bytes", json_integer((json_int_t)bytes));
    set(b, totals, "types", types);
    set(b, root, "tensors", list);
    set(b, root, "totals", totals);
}

/* -- GGUF ----------------------------------------------------------------------------------- */

static json_t *element_json(const sp_gguf_entry *e, uint64_t i)
{
    double x = 0;
    sp_gguf_number(e, i, &x);
    switch (e->type) {
    case SP_GGUF_BOOL:
        return json_boolean(x != 0);
    case SP_GGUF_F32:
    case SP_GGUF_F64:
        return number(x);
    default:
        return x >= -0x1p63 && x < 0x1p63 ? json_integer((json_int_t)x) : json_real(x);
    }
}

static json_t *entry_json(builder *b, const sp_gguf_entry *e)
{
    sp_text_view strings[ARRAY_SHOWN];
    uint64_t shown = SP_MIN(e->n, (uint64_t)ARRAY_SHOWN);
    bool is_text = e->type == SP_GGUF_STRING;
    if (is_text) sp_gguf_strings(e, shown, strings);
    if (!e->is_array) return is_text ? text(strings[0]) : element_json(e, 0);
    json_t *j = json_object(), *first = json_array();
    for (uint64_t i = 0; i < shown; i++)
        append(b, first, is_text ? text(strings[i]) : element_json(e, i));
    set(b, j, "type", json_string(sp_gguf_type_name(e->type)));
    set(b, j, "length", json_integer((json_int_t)e->n));
    set(b, j, "first", first);
    return j;
}

static void add_metadata(builder *b, json_t *root, const sp_gguf *g)
{
    json_t *metadata = json_object();
    for (size_t i = 0; i < g->entries.n; i++) {
        json_t *key = name_text(g->entries.v[i].key);
        if (key)
            set(b, metadata, json_string_value(key), entry_json(b, &g->entries.v[i]));
        else
            b->failed = true;
        json_decref(key);
    }
    set(b, root, "metadata", metadata);
}

/* add_support -- whether the configuration is one that Spolia computes, and what may be reused then. */
static void add_support(builder *b, json_t *root, sp_err err, const sp_config *c)
{
    int n_local = 0;
    set(b, root, "supported", json_boolean(err == SP_OK));
    if (err != SP_OK) {
        const char *why = sp_error_detail();
        set(b, root, "refused", text((sp_text_view){.s = why, .n = strlen(why)}));
        return;
    }
    set(b, root, "reuse", json_string(sp_arch_reuse(c->arch)));
    set(b, root, "context", json_integer(c->hp.n_ctx));
    set(b, root, "layers", json_integer(c->hp.n_layers));
    for (int l = 0; l < c->hp.n_layers; l++) n_local += c->layers[l] & SP_LAYER_LOCAL;
    if (c->hp.sliding_window == 0) return;
    set(b, root, "window", json_integer(c->hp.sliding_window));
    set(b, root, "layers_with_window", json_integer(n_local));
}

static void inspect_gguf(builder *b, json_t *root, const sp_gguf *g)
{
    sp_config c;
    sp_text_view arch = {0};
    set(b, root, "format", json_string("gguf"));
    set(b, root, "version", json_integer(g->version));
    if (sp_gguf_text(g, "general.architecture", &arch) == SP_OK && arch.s) {
        set(b, root, "architecture", text(arch));
        if (g->tensors.list.n > 0)
            add_support(b, root, sp_config_of_gguf(g, &c), &c);
        else
            set(b, root, "supported", json_boolean(sp_arch_of_gguf(arch) != NULL));
    }
    set(b, root, "alignment", json_integer((json_int_t)g->alignment));
    set(b, root, "data_offset", json_integer((json_int_t)g->data_offset));
    add_metadata(b, root, g);
    add_tensors(b, root, &g->tensors, g->parts.n > 0);
}

/* -- folders -------------------------------------------------------------------------------- */

static void inspect_folder(builder *b, json_t *root, const sp_safetensors *st, json_t *config)
{
    sp_config c;
    const char *type = json_string_value(json_object_get(config, "model_type"));
    set(b, root, "format", json_string("safetensors"));
    if (type) {
        set(b, root, "architecture", json_string(type));
        add_support(b, root, sp_config_of_json(config, "config.json", &c), &c);
    }
    if (config) set(b, root, "config", json_incref(config));
    add_tensors(b, root, &st->tensors, true);
}

/* -- output --------------------------------------------------------------------------------- */

static int write_out(const char *chunk, size_t n, void *user)
{
    return sp_bytes_add(user, chunk, n) == SP_OK ? 0 : -1;
}

static json_t *begin(builder *b, const char *path)
{
    json_t *root = json_object();
    set(b, root, "path", text((sp_text_view){.s = path, .n = strlen(path)}));
    return root;
}

/* Appends the description to `out` and frees it. */
static sp_err finish(builder *b, json_t *root, const char *path, sp_bytes *out)
{
    const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(9);
    size_t before = out->n;
    bool good = !b->failed && json_dump_callback(root, write_out, out, flags) == 0;
    json_decref(root);
    if (good) return SP_OK;
    out->n = before;
    return sp_fail(SP_E_NOMEM, "%s: cannot allocate memory for the description", path);
}

sp_err sp_model_inspect_gguf(const sp_gguf *g, const char *path, sp_bytes *out)
{
    builder b = {0};
    json_t *root = begin(&b, path);
    inspect_gguf(&b, root, g);
    return finish(&b, root, path, out);
}

static sp_err inspect_dir(const char *path, sp_bytes *out)
{
    builder b = {0};
    sp_safetensors st = {0};
    json_t *config = NULL;
    SP_TRY(sp_safetensors_open(path, &st));
    sp_err err = sp_json_read(path, "config.json", &config);
    if (err == SP_OK) {
        json_t *root = begin(&b, path);
        inspect_folder(&b, root, &st, config);
        err = finish(&b, root, path, out);
    }
    json_decref(config);
    sp_safetensors_close(&st);
    return err;
}

sp_err sp_model_inspect(const char *path, sp_bytes *out)
{
    sp_gguf g;
    if (sp_file_is_dir(path)) return inspect_dir(path, out);
    SP_TRY(sp_gguf_open(path, &g));
    sp_err err = sp_model_inspect_gguf(&g, path, out);
    sp_gguf_close(&g);
    return err;
}
