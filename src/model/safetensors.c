/* safetensors.c -- reads safetensors: a JSON header, then the bytes of the tensors.
 *
 *   offset  size  meaning
 *   0       8     N, bytes of the header, little-endian
 *   8       N     JSON object: name -> {"dtype": "F32", "shape": [rows, columns],
 *                 "data_offsets": [begin, end]}; "__metadata__" -> free text; padded with spaces
 *   8 + N   ...   data; the offsets count from here, end - begin = elements * bytes of the type
 *
 * A folder of several files has model.safetensors.index.json: {"weight_map": {tensor: file}}.
 */
#include "model/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "model/json_file.h"

#define MAX_HEADER_BYTES ((size_t)32 << 20) /* a model of 10,000 tensors has about 1 MiB */
#define INDEX_NAME       "model.safetensors.index.json"
#define SINGLE_NAME      "model.safetensors"

static const struct {
    const char *name;
    sp_dtype dtype;
    int bytes;
} types[] = {
    {"F32", SP_F32, 4},      {"F16", SP_F16, 2},         {"BF16", SP_BF16, 2},
    {"F64", SP_DTYPE_N, 8},  {"I64", SP_DTYPE_N, 8},     {"I32", SP_DTYPE_N, 4},
    {"I16", SP_DTYPE_N, 2},  {"I8", SP_DTYPE_N, 1},      {"U64", SP_DTYPE_N, 8},
    {"U32", SP_DTYPE_N, 4},  {"U16", SP_DTYPE_N, 2},     {"U8", SP_DTYPE_N, 1},
    {"BOOL", SP_DTYPE_N, 1}, {"F8_E4M3", SP_DTYPE_N, 1}, {"F8_E5M2", SP_DTYPE_N, 1},
};

/* -- one tensor ----------------------------------------------------------------------------- */

/* Reports a bad description: "path: tensor name: field: what is wrong". */
static sp_err bad(const sp_tensor *t, const char *field, const char *what)
{
    return sp_fail(SP_E_FORMAT, "%s: tensor %.*s: %s: %s", t->path, SP_VIEW(t->name), field, what);
}

static sp_err read_shape(const json_t *shape, sp_tensor *t)
{
    if (!json_is_array(shape)) return bad(t, "shape", "is not an array");
    size_t n = json_array_size(shape);
    if (n > SP_TENSOR_DIMS) return bad(t, "shape", "has more than five dimensions");
    t->n_dims = n ? (int)n : 1;
    t->shape[0] = 1; /* a scalar has an empty shape */
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return bad(t, "shape", "is not a list of sizes");
        t->shape[i] = json_integer_value(dim);
    }
    return SP_OK;
}

/* Sets the type, and the size that the shape requires; -1 for a type of unknown size. */
static sp_err read_type(const json_t *dtype, sp_tensor *t, int64_t *bytes)
{
    const char *name = json_string_value(dtype);
    if (!name) return bad(t, "dtype", "is not a string");
    snprintf(t->type, sizeof t->type, "%s", name);
    t->dtype = SP_DTYPE_N;
    *bytes = -1;
    int64_t n;
    SP_TRY(sp_tensor_elements(t, &n));
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        if (strcmp(types[i].name, name) != 0) continue;
        t->dtype = types[i].dtype;
        if (t->dtype != SP_DTYPE_N)
            snprintf(t->type, sizeof t->type, "%s", sp_dtype_of(t->dtype)->name);
        if (__builtin_mul_overflow(n, (int64_t)types[i].bytes, bytes))
            return bad(t, "shape", "requires more than 2^63 bytes");
    }
    return SP_OK;
}

/* One file in memory. */
typedef struct contents {
    const char *path;
    const uint8_t *data;
    size_t header, size; /* bytes before the tensors, and of the file */
} contents;

static sp_err read_place(const json_t *offsets, int64_t bytes, const contents *f, sp_tensor *t)
{
    const size_t n_data = f->size - f->header;
    const json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return bad(t, "data_offsets", "is not [begin, end]");
    json_int_t begin = json_integer_value(b), end = json_integer_value(e);
    if (begin < 0 || end < begin || (uint64_t)end > n_data)
        return sp_fail(SP_E_FORMAT,
                       "%s: tensor %.*s: data_offsets: [%" PRId64 ", %" PRId64
                       "] is not a range of the %zu bytes of data: is the file cut short?",
                       t->path, SP_VIEW(t->name), (int64_t)begin, (int64_t)end, n_data);
    if (bytes >= 0 && end - begin != bytes)
        return sp_fail(SP_E_FORMAT,
                       "%s: tensor %.*s: data_offsets: %" PRId64
                       " bytes, the shape requires %" PRId64,
                       t->path, SP_VIEW(t->name), (int64_t)(end - begin), bytes);
    t->offset = f->header + (size_t)begin;
    t->n_bytes = (size_t)(end - begin);
    return SP_OK;
}

static sp_err add_tensor(sp_safetensors *s, const contents *f, const char *name, const json_t *info)
{
    sp_tensor t = {.name = {.s = name, .n = strlen(name)}, .path = f->path};
    int64_t bytes = -1;
    if (!json_is_object(info)) return bad(&t, "description", "is not an object");
    SP_TRY(read_shape(json_object_get(info, "shape"), &t));
    SP_TRY(read_type(json_object_get(info, "dtype"), &t, &bytes));
    SP_TRY(read_place(json_object_get(info, "data_offsets"), bytes, f, &t));
    t.data = t.n_bytes ? f->data + t.offset : NULL;
    return sp_tensor_dir_add(&s->tensors, &t);
}

/* -- one file ------------------------------------------------------------------------------- */

static sp_err header_bytes(const uint8_t *data, size_t size, const char *path, size_t *out)
{
    uint64_t n = 0;
    if (size < 8)
        return sp_fail(SP_E_FORMAT, "%s: header: needs 8 bytes, the file has %zu", path, size);
    for (int i = 7; i >= 0; i--) n = n << 8 | data[i];
    if (n > size - 8)
        return sp_fail(SP_E_FORMAT,
                       "%s: header: needs %" PRIu64 " bytes at offset 8, the file has %zu", path, n,
                       size);
    if (n > MAX_HEADER_BYTES)
        return sp_fail(SP_E_LIMIT, "%s: header: %" PRIu64 " bytes, the limit is %zu", path, n,
                       MAX_HEADER_BYTES);
    *out = (size_t)n;
    return SP_OK;
}

sp_err sp_safetensors_parse(sp_safetensors *s, const uint8_t *data, size_t size, const char *path)
{
    size_t n = 0, from = s->tensors.list.n;
    SP_TRY(header_bytes(data, size, path, &n));
    SP_TRY(sp_vec_reserve(&s->files, 1));
    sp_safetensors_file file = {.path = sp_strdup_n(path, strlen(path))};
    if (!file.path) return sp_fail_nomem("a path");
    sp_err err = sp_json_parse((const char *)data + 8, n, path, &file.header);
    if (err != SP_OK) {
        sp_free(file.path);
        return err;
    }
    s->files.v[s->files.n++] = file;
    const contents f = {.path = file.path, .data = data, .header = 8 + n, .size = size};
    const char *name;
    json_t *info;
    json_object_foreach(file.header, name, info)
    {
        if (strcmp(name, "__metadata__") == 0) continue;
        SP_TRY(add_tensor(s, &f, name, info));
    }
    return sp_tensor_dir_check(&s->tensors, from);
}

/* -- a folder ------------------------------------------------------------------------------- */

static sp_err open_file(sp_safetensors *s, const char *dir, const char *name)
{
    char *path = sp_path_join(dir, name);
    if (!path) return sp_fail_nomem("a path");
    sp_file_map map = {0};
    sp_err err = sp_file_map_open(path, &map);
    size_t before = s->files.n;
    if (err == SP_OK) err = sp_safetensors_parse(s, map.data, map.size, path);
    if (s->files.n > before)
        s->files.v[before].map = map;
    else
        sp_file_map_close(&map);
    sp_free(path);
    return err;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct file names of the weight map, sorted. They must be plain names, so that an index
 * cannot refer to files outside its folder. */
static sp_err shard_names(json_t *map, const char *dir, const char **names, size_t *n_names)
{
    const char *tensor;
    json_t *value;
    size_t n = 0, kept = 0;
    json_object_foreach(map, tensor, value)
    {
        const char *file = json_string_value(value);
        if (!file || !*file || strchr(file, '/') || file[0] == '.')
            return sp_fail(SP_E_FORMAT, "%s/" INDEX_NAME ": weight_map: %.100s: not a file name",
                           dir, tensor);
        names[n++] = file;
    }
    qsort(names, n, sizeof *names, by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0) names[kept++] = names[i];
    *n_names = kept;
    return SP_OK;
}

/* Checks that every tensor of the map is in the file that the map names. */
static sp_err check_map(const sp_safetensors *s, json_t *map, const char *dir)
{
    const char *tensor;
    json_t *value;
    json_object_foreach(map, tensor, value)
    {
        const char *file = json_string_value(value);
        const sp_tensor *t = sp_tensor_find(&s->tensors, tensor, strlen(tensor));
        const char *base = t ? strrchr(t->path, '/') : NULL;
        if (!t || strcmp(base ? base + 1 : t->path, file) != 0)
            return sp_fail(SP_E_FORMAT,
                           "%s/" INDEX_NAME ": weight_map: tensor %.100s is not in %.100s", dir,
                           tensor, file);
    }
    return SP_OK;
}

static sp_err open_shards(sp_safetensors *s, const char *dir, const json_t *index)
{
    json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        return sp_fail(SP_E_FORMAT, "%s/" INDEX_NAME ": weight_map: is not an object with entries",
                       dir);
    size_t n = 0;
    const char **names = sp_alloc(json_object_size(map), sizeof *names);
    if (!names) return sp_fail_nomem("a list of shards");
    sp_err err = shard_names(map, dir, names, &n);
    for (size_t i = 0; i < n && err == SP_OK; i++) err = open_file(s, dir, names[i]);
    sp_free(names);
    return err == SP_OK ? check_map(s, map, dir) : err;
}

sp_err sp_safetensors_open(const char *dir, sp_safetensors *out)
{
    sp_safetensors s = {0};
    json_t *index = NULL;
    sp_err err = sp_json_read(dir, INDEX_NAME, &index);
    if (err == SP_OK) err = index ? open_shards(&s, dir, index) : open_file(&s, dir, SINGLE_NAME);
    json_decref(index);
    if (err != SP_OK) {
        sp_safetensors_close(&s);
        return err;
    }
    *out = s;
    return SP_OK;
}

void sp_safetensors_close(sp_safetensors *s)
{
    sp_tensor_dir_fini(&s->tensors);
    for (size_t i = 0; i < s->files.n; i++) {
        json_decref(s->files.v[i].header);
        sp_file_map_close(&s->files.v[i].map);
        sp_free(s->files.v[i].path);
    }
    sp_vec_fini(&s->files);
}
