/* gguf.c -- reads GGUF, versions 2 and 3. All numbers are little-endian and unaligned.
 *
 *   offset  size  meaning
 *   0       4     magic "GGUF"
 *   4       4     version: 2 or 3 (1 had 32-bit counts; a byte-swapped 2 or 3 is a big-endian file)
 *   8       8     number of tensors
 *   16      8     number of metadata entries
 *   24      ...   entries, one after the other:
 *                   string key; u32 type; value
 *                   string = u64 length, bytes          array = u32 type, u64 count, elements
 *   ...     ...   tensor descriptions, one after the other:
 *                   string name; u32 n_dims; u64 dims[n_dims], innermost first;
 *                   u32 type; u64 offset from the start of the data
 *   ...     pad   to a multiple of general.alignment (default 32)
 *   ...     ...   data; each tensor starts at a multiple of the alignment
 *
 * Before the reader allocates memory for n items, it checks that n items of the smallest size fit in
 * the remaining bytes. So the size of the file bounds the memory.
 */
#include "model/gguf.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    MIN_ENTRY_BYTES = 8 + 4 + 1,          /* empty key, type, one byte of value */
    MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8, /* empty name, one dimension */
    MAX_ALIGNMENT = 1 << 20,
    MAX_DIMS = 4,
};

static const struct {
    const char *name;
    int bytes; /* of one element; a string: of its length field */
} types[SP_GGUF_TYPE_N] = {
    [SP_GGUF_U8] = {"u8", 1},        [SP_GGUF_I8] = {"i8", 1},     [SP_GGUF_U16] = {"u16", 2},
    [SP_GGUF_I16] = {"i16", 2},      [SP_GGUF_U32] = {"u32", 4},   [SP_GGUF_I32] = {"i32", 4},
    [SP_GGUF_F32] = {"f32", 4},      [SP_GGUF_BOOL] = {"bool", 1}, [SP_GGUF_STRING] = {"string", 8},
    [SP_GGUF_ARRAY] = {"array", 12}, [SP_GGUF_U64] = {"u64", 8},   [SP_GGUF_I64] = {"i64", 8},
    [SP_GGUF_F64] = {"f64", 8},
};

/* Tensor types of the format without an sp_dtype, so that messages and `inspect` can name them. */
static const struct {
    uint32_t id;
    const char *name;
    int n_group, group_bytes;
} foreign[] = {
    {9, "q8_1", 32, 40},
    {15, "q8_k", 256, 292},   {16, "iq2_xxs", 256, 66}, {17, "iq2_xs", 256, 74},
    {18, "iq3_xxs", 256, 98}, {19, "iq1_s", 256, 50},   {21, "iq3_s", 256, 110},
    {22, "iq2_s", 256, 82},   {24, "i8", 1, 1},         {25, "i16", 1, 2},
    {26, "i32", 1, 4},        {27, "i64", 1, 8},        {28, "f64", 1, 8},
    {29, "iq1_m", 256, 56},   {34, "tq1_0", 256, 54},   {35, "tq2_0", 256, 66},
};

/* -- the cursor ----------------------------------------------------------------------------- */

/* The reader's position in the header; `where` names the current item, for messages. */
typedef struct cursor {
    const char *path;
    const uint8_t *base;
    size_t at, size;
    char where[192];
} cursor;

static size_t left(const cursor *c)
{
    return c->size - c->at;
}

static sp_err take(cursor *c, uint64_t n, const char *what, const uint8_t **out)
{
    if (n > left(c))
        return sp_fail(SP_E_FORMAT,
                       "%s: %s: %s: needs %" PRIu64
                       " bytes at offset %zu, the file has %zu: is it cut short?",
                       c->path, c->where, what, n, c->at, c->size);
    *out = c->base + c->at;
    c->at += (size_t)n;
    return SP_OK;
}

static uint64_t little(const uint8_t *p, int n)
{
    uint64_t x = 0;
    for (int i = n - 1; i >= 0; i--) x = x << 8 | p[i];
    return x;
}

static sp_err take_u32(cursor *c, const char *what, uint32_t *out)
{
    const uint8_t *p = NULL;
    SP_TRY(take(c, 4, what, &p));
    *out = (uint32_t)little(p, 4);
    return SP_OK;
}

static sp_err take_u64(cursor *c, const char *what, uint64_t *out)
{
    const uint8_t *p = NULL;
    SP_TRY(take(c, 8, what, &p));
    *out = little(p, 8);
    return SP_OK;
}

static sp_err take_text(cursor *c, const char *what, sp_text_view *out)
{
    uint64_t n;
    const uint8_t *p = NULL;
    SP_TRY(take_u64(c, what, &n));
    SP_TRY(take(c, n, what, &p));
    *out = (sp_text_view){.s = (const char *)p, .n = (size_t)n};
    return SP_OK;
}

/* Checks a count of items that take at least min_bytes each. */
static sp_err check_count(const cursor *c, uint64_t n, size_t min_bytes, const char *what)
{
    if (n <= left(c) / min_bytes && n < SP_DICT_NONE) return SP_OK;
    return sp_fail(SP_E_FORMAT,
                   "%s: %s: %" PRIu64 " %s do not fit in the %zu bytes that follow: is the file cut short?",
                   c->path, c->where, n, what, left(c));
}

/* -- metadata ------------------------------------------------------------------------------- */

static sp_err read_value(cursor *c, sp_gguf_entry *e)
{
    uint32_t type;
    SP_TRY(take_u32(c, "type", &type));
    e->n = 1;
    if (type == SP_GGUF_ARRAY) {
        e->is_array = true;
        SP_TRY(take_u32(c, "type of the elements", &type));
        SP_TRY(take_u64(c, "number of elements", &e->n));
        if (type == SP_GGUF_ARRAY)
            return sp_fail(SP_E_UNSUPPORTED, "%s: %s: an array of arrays", c->path, c->where);
    }
    if (type >= SP_GGUF_TYPE_N)
        return sp_fail(SP_E_FORMAT, "%s: %s: unknown value type %" PRIu32, c->path, c->where, type);
    e->type = (sp_gguf_type)type;
    size_t bytes = (size_t)types[type].bytes;
    SP_TRY(check_count(c, e->n, bytes, "elements"));
    e->data = c->base + c->at;
    if (type != SP_GGUF_STRING) {
        c->at += (size_t)e->n * bytes;
        return SP_OK;
    }
    sp_text_view s;
    for (uint64_t i = 0; i < e->n; i++) SP_TRY(take_text(c, "string", &s));
    return SP_OK;
}

static sp_err read_entries(cursor *c, uint64_t n, sp_gguf *g)
{
    for (uint64_t i = 0; i < n; i++) {
        sp_gguf_entry e = {0};
        snprintf(c->where, sizeof c->where, "metadata entry %" PRIu64 " of %" PRIu64, i + 1, n);
        SP_TRY(take_text(c, "key", &e.key));
        snprintf(c->where, sizeof c->where, "%.*s", SP_VIEW(e.key));
        SP_TRY(read_value(c, &e));
        if (sp_dict_get(&g->by_key, e.key.s, e.key.n) != SP_DICT_NONE)
            return sp_fail(SP_E_FORMAT, "%s: %s: the key occurs twice", c->path, c->where);
        SP_TRY(sp_vec_reserve(&g->entries, 1));
        SP_TRY(sp_dict_put(&g->by_key, e.key.s, e.key.n, (uint32_t)i));
        g->entries.v[g->entries.n++] = e;
    }
    return SP_OK;
}

/* -- tensors -------------------------------------------------------------------------------- */

/* Sets the tensor's type and the size of its groups; false for an unknown type. */
static bool type_of(uint32_t id, sp_tensor *t, int *n_group, int *group_bytes)
{
    for (sp_dtype d = 0; d < SP_DTYPE_N; d++) {
        const sp_dtype_info *info = sp_dtype_of(d);
        if ((uint32_t)info->gguf_id != id) continue;
        t->dtype = d;
        snprintf(t->type, sizeof t->type, "%s", info->name);
        *n_group = info->n_group;
        *group_bytes = info->group_bytes;
        return true;
    }
    t->dtype = SP_DTYPE_N;
    for (size_t i = 0; i < SP_COUNT(foreign); i++) {
        if (foreign[i].id != id) continue;
        snprintf(t->type, sizeof t->type, "%s", foreign[i].name);
        *n_group = foreign[i].n_group;
        *group_bytes = foreign[i].group_bytes;
        return true;
    }
    snprintf(t->type, sizeof t->type, "type %" PRIu32, id);
    return false;
}

static sp_err size_of(const cursor *c, uint32_t type_id, sp_tensor *t)
{
    int n_group = 1, group_bytes = 1;
    int64_t n, bytes;
    SP_TRY(sp_tensor_elements(t, &n));
    if (!type_of(type_id, t, &n_group, &group_bytes)) return SP_OK;
    if (t->shape[t->n_dims - 1] % n_group != 0)
        return sp_fail(SP_E_FORMAT, "%s: %s: rows of %" PRId64 " are not whole groups of %d (%s)",
                       c->path, c->where, t->shape[t->n_dims - 1], n_group, t->type);
    if (__builtin_mul_overflow(n / n_group, (int64_t)group_bytes, &bytes))
        return sp_fail(SP_E_FORMAT, "%s: %s: its size is over 2^63 bytes", c->path, c->where);
    t->n_bytes = (size_t)bytes;
    return SP_OK;
}

/* Reads one description; t->offset is still relative to the start of the data. */
static sp_err read_tensor(cursor *c, const sp_gguf *g, sp_tensor *t)
{
    uint32_t n_dims, type_id;
    uint64_t dim, offset;
    SP_TRY(take_text(c, "name", &t->name));
    snprintf(c->where, sizeof c->where, "tensor %.*s", SP_VIEW(t->name));
    t->path = g->path;
    SP_TRY(take_u32(c, "number of dimensions", &n_dims));
    if (n_dims < 1 || n_dims > MAX_DIMS)
        return sp_fail(SP_E_FORMAT, "%s: %s: %" PRIu32 " dimensions, not 1 to %d", c->path,
                       c->where, n_dims, MAX_DIMS);
    t->n_dims = (int)n_dims;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        SP_TRY(take_u64(c, "shape", &dim));
        if (dim < 1 || dim > INT64_MAX)
            return sp_fail(SP_E_FORMAT, "%s: %s: a dimension of %" PRIu64, c->path, c->where, dim);
        t->shape[i] = (int64_t)dim;
    }
    SP_TRY(take_u32(c, "type", &type_id));
    SP_TRY(take_u64(c, "offset", &offset));
    if (offset > c->size)
        return sp_fail(SP_E_FORMAT, "%s: %s: offset %" PRIu64
                       " is outside the file (%zu bytes): is it cut short?",
                       c->path, c->where, offset, c->size);
    if (offset % g->alignment != 0)
        return sp_fail(SP_E_FORMAT, "%s: %s: offset %" PRIu64 " is not a multiple of %zu", c->path,
                       c->where, offset, g->alignment);
    t->offset = (size_t)offset;
    return size_of(c, type_id, t);
}

static sp_err read_tensors(cursor *c, uint64_t n, sp_gguf *g)
{
    for (uint64_t i = 0; i < n; i++) {
        sp_tensor t = {0};
        snprintf(c->where, sizeof c->where, "tensor %" PRIu64 " of %" PRIu64, i + 1, n);
        SP_TRY(read_tensor(c, g, &t));
        SP_TRY(sp_tensor_dir_add(&g->tensors, &t));
    }
    return SP_OK;
}

/* Sets the offset and data of each tensor, once the end of the descriptions is known. */
static sp_err place_tensors(const cursor *c, sp_gguf *g)
{
    g->data_offset = SP_ROUND_UP(c->at, g->alignment);
    for (size_t i = 0; i < g->tensors.list.n; i++) {
        sp_tensor *t = &g->tensors.list.v[i];
        t->offset += g->data_offset; /* no overflow: both are about the file size */
        if (t->offset > c->size || t->n_bytes > c->size - t->offset)
            return sp_fail(SP_E_FORMAT,
                           "%s: tensor %.*s: needs %zu bytes at offset %zu, the file has %zu: is "
                           "it cut short? download it again",
                           c->path, SP_VIEW(t->name), t->n_bytes, t->offset, c->size);
        t->data = t->n_bytes ? c->base + t->offset : NULL;
    }
    return sp_tensor_dir_check(&g->tensors, 0);
}

/* -- the file ------------------------------------------------------------------------------- */

static sp_err read_version(cursor *c, sp_gguf *g)
{
    const uint8_t *p = NULL;
    SP_TRY(take(c, 4, "magic", &p));
    if (memcmp(p, "GGUF", 4) != 0)
        return sp_fail(SP_E_FORMAT, "%s: header: not a GGUF file (magic is not \"GGUF\")", c->path);
    SP_TRY(take_u32(c, "version", &g->version));
    if (g->version >= 2 && g->version <= 3) return SP_OK;
    bool swapped = g->version && g->version % (1u << 24) == 0;
    return sp_fail(SP_E_UNSUPPORTED, "%s: header: %s%" PRIu32 " (2 and 3 are read)", c->path,
                   swapped ? "a big-endian file, version " : "version ",
                   swapped ? g->version >> 24 : g->version);
}

static sp_err read_alignment(const cursor *c, sp_gguf *g)
{
    const sp_gguf_entry *e = sp_gguf_find(g, "general.alignment");
    double x = 32;
    bool good = !e || (e->type == SP_GGUF_U32 && !e->is_array && sp_gguf_number(e, 0, &x));
    g->alignment = (size_t)x;
    if (good && g->alignment >= 8 && g->alignment <= MAX_ALIGNMENT &&
        (g->alignment & (g->alignment - 1)) == 0)
        return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: general.alignment: not a power of two from 8 to %d", c->path,
                   MAX_ALIGNMENT);
}

static sp_err read_all(cursor *c, sp_gguf *g)
{
    uint64_t n_tensors, n_entries;
    SP_TRY(read_version(c, g));
    SP_TRY(take_u64(c, "number of tensors", &n_tensors));
    SP_TRY(take_u64(c, "number of metadata entries", &n_entries));
    SP_TRY(check_count(c, n_entries, MIN_ENTRY_BYTES, "metadata entries"));
    SP_TRY(check_count(c, n_tensors, MIN_TENSOR_BYTES, "tensors"));
    SP_TRY(read_entries(c, n_entries, g));
    SP_TRY(read_alignment(c, g));
    SP_TRY(read_tensors(c, n_tensors, g));
    return place_tensors(c, g);
}

sp_err sp_gguf_parse(const uint8_t *data, size_t size, const char *path, sp_gguf *out)
{
    sp_gguf g = {.path = sp_strdup_n(path, strlen(path))};
    if (!g.path) return sp_fail_nomem("a path");
    cursor c = {.path = g.path, .base = data, .size = size, .where = "header"};
    sp_err err = size > PTRDIFF_MAX / 2 ? sp_fail(SP_E_LIMIT, "%s: the file is too large", path)
                                        : read_all(&c, &g);
    if (err != SP_OK) {
        sp_gguf_close(&g);
        return err;
    }
    *out = g;
    return SP_OK;
}

sp_err sp_gguf_open_one(const char *path, sp_gguf *out)
{
    sp_file_map map;
    SP_TRY(sp_file_map_open(path, &map));
    sp_err err = sp_gguf_parse(map.data, map.size, path, out);
    if (err == SP_OK)
        out->map = map;
    else
        sp_file_map_close(&map);
    return err;
}

void sp_gguf_close(sp_gguf *g)
{
    for (size_t i = 0; i < g->parts.n; i++) sp_gguf_close(&g->parts.v[i]);
    sp_vec_fini(&g->parts);
    sp_tensor_dir_fini(&g->tensors);
    sp_vec_fini(&g->entries);
    sp_dict_fini(&g->by_key);
    sp_file_map_close(&g->map);
    sp_free(g->path);
    *g = (sp_gguf){0};
}

/* -- access --------------------------------------------------------------------------------- */

const sp_gguf_entry *sp_gguf_find(const sp_gguf *g, const char *key)
{
    uint32_t i = sp_dict_get(&g->by_key, key, strlen(key));
    return i == SP_DICT_NONE ? NULL : &g->entries.v[i];
}

const char *sp_gguf_type_name(sp_gguf_type t)
{
    return types[t].name;
}

bool sp_gguf_number(const sp_gguf_entry *e, uint64_t i, double *out)
{
    if (e->type == SP_GGUF_STRING || i >= e->n) return false;
    int bytes = types[e->type].bytes;
    uint64_t bits = little(e->data + i * (uint64_t)bytes, bytes);
    uint32_t bits32 = (uint32_t)bits;
    float f;
    switch (e->type) {
    case SP_GGUF_I8:
        *out = (int8_t)bits;
        break;
    case SP_GGUF_I16:
        *out = (int16_t)bits;
        break;
    case SP_GGUF_I32:
        *out = (int32_t)bits;
        break;
    case SP_GGUF_I64:
        *out = (double)(int64_t)bits;
        break;
    case SP_GGUF_F32:
        memcpy(&f, &bits32, sizeof f);
        *out = (double)f;
        break;
    case SP_GGUF_F64:
        memcpy(out, &bits, sizeof *out);
        break;
    case SP_GGUF_BOOL:
        *out = bits != 0;
        break;
    default:
        *out = (double)bits;
    }
    return true;
}

void sp_gguf_strings(const sp_gguf_entry *e, uint64_t n, sp_text_view *out)
{
    assert(e->type == SP_GGUF_STRING && n <= e->n);
    const uint8_t *p = e->data;
    for (uint64_t i = 0; i < n; i++) {
        out[i] = (sp_text_view){.s = (const char *)p + 8, .n = (size_t)little(p, 8)};
        p += 8 + out[i].n;
    }
}

sp_err sp_gguf_text(const sp_gguf *g, const char *key, sp_text_view *out)
{
    const sp_gguf_entry *e = sp_gguf_find(g, key);
    sp_text_view s = {0};
    if (e && (e->type != SP_GGUF_STRING || e->is_array))
        return sp_fail(SP_E_FORMAT, "%s: %s: is %s%s, not a string", g->path, key,
                       e->is_array ? "an array of " : "", sp_gguf_type_name(e->type));
    if (e) sp_gguf_strings(e, 1, &s);
    *out = s;
    return SP_OK;
}
