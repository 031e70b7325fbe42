/* gguf_writer.h -- writes small GGUF files, valid or deliberately invalid, to memory. It checks
 * only allocations. */
#ifndef TEST_GGUF_WRITER_H
#define TEST_GGUF_WRITER_H

#include <string.h>

#include "model/gguf.h"

enum { GGUF_F32 = 0, GGUF_F16 = 1, GGUF_Q8_0 = 8, GGUF_IQ2_XS = 17, GGUF_I32 = 26, GGUF_BF16 = 30 };

typedef struct gguf_writer {
    uint32_t version;
    size_t alignment;
    uint64_t n_entries, n_tensors;
    sp_bytes entries, tensors, data;
} gguf_writer;

static inline void gw_raw(sp_bytes *b, const void *data, size_t n)
{
    assert_int_equal(sp_bytes_add(b, data, n), SP_OK);
}

static inline void gw_int(sp_bytes *b, uint64_t x, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++) gw_raw(b, &(uint8_t){i < 8 ? (uint8_t)(x >> (8 * i)) : 0}, 1);
}

static inline void gw_str(sp_bytes *b, const char *s)
{
    gw_int(b, strlen(s), 8);
    gw_raw(b, s, strlen(s));
}

/* -- metadata ------------------------------------------------------------------------------- */

static inline void gw_key(gguf_writer *w, const char *key, sp_gguf_type type)
{
    w->n_entries++;
    gw_str(&w->entries, key);
    gw_int(&w->entries, type, 4);
}

static inline void gw_number(gguf_writer *w, const char *key, sp_gguf_type type, uint64_t bits,
                             int n)
{
    gw_key(w, key, type);
    gw_int(&w->entries, bits, n);
}

static inline void gw_u32(gguf_writer *w, const char *key, uint32_t x)
{
    gw_number(w, key, SP_GGUF_U32, x, 4);
}

static inline void gw_f32(gguf_writer *w, const char *key, float x)
{
    gw_key(w, key, SP_GGUF_F32);
    gw_raw(&w->entries, &x, 4);
}

static inline void gw_bool(gguf_writer *w, const char *key, bool x)
{
    gw_number(w, key, SP_GGUF_BOOL, x, 1);
}

static inline void gw_text(gguf_writer *w, const char *key, const char *text)
{
    gw_key(w, key, SP_GGUF_STRING);
    gw_str(&w->entries, text);
}

static inline void gw_array(gguf_writer *w, const char *key, sp_gguf_type type, uint64_t n)
{
    gw_key(w, key, SP_GGUF_ARRAY);
    gw_int(&w->entries, type, 4);
    gw_int(&w->entries, n, 8);
}

static inline void gw_texts(gguf_writer *w, const char *key, size_t n, const char *const *texts)
{
    gw_array(w, key, SP_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) gw_str(&w->entries, texts[i]);
}

static inline void gw_f32s(gguf_writer *w, const char *key, size_t n, const float *x)
{
    gw_array(w, key, SP_GGUF_F32, n);
    gw_raw(&w->entries, x, n * 4);
}

static inline void gw_i32s(gguf_writer *w, const char *key, size_t n, const int32_t *x)
{
    gw_array(w, key, SP_GGUF_I32, n);
    gw_raw(&w->entries, x, n * 4);
}

/* -- tensors -------------------------------------------------------------------------------- */

/* Only the description; dims innermost first, as in the file. */
static inline void gw_describe(gguf_writer *w, const char *name, uint32_t type, int n_dims,
                               const uint64_t *dims, uint64_t offset)
{
    w->n_tensors++;
    gw_str(&w->tensors, name);
    gw_int(&w->tensors, (uint64_t)n_dims, 4);
    for (int i = 0; i < n_dims; i++) gw_int(&w->tensors, dims[i], 8);
    gw_int(&w->tensors, type, 4);
    gw_int(&w->tensors, offset, 8);
}

static inline void gw_pad(sp_bytes *b, size_t alignment)
{
    while (b->n % alignment) gw_raw(b, "", 1);
}

/* Description and bytes of [rows, cols], rows = 0 for a vector. F32 elements are positive and
 * depend on `seed`; the bytes of other types also encode small numbers. */
static inline void gw_tensor(gguf_writer *w, const char *name, uint32_t type, size_t rows,
                             size_t cols, unsigned seed)
{
    static const struct {
        uint32_t id;
        size_t n_group, group_bytes;
    } sizes[] = {{GGUF_F32, 1, 4},    {GGUF_F16, 1, 2},       {GGUF_BF16, 1, 2},
                 {GGUF_Q8_0, 32, 34}, {GGUF_IQ2_XS, 256, 74}, {GGUF_I32, 1, 4}};
    size_t n = (rows ? rows : 1) * cols, bytes = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].id == type) bytes = n / sizes[i].n_group * sizes[i].group_bytes;
    gw_pad(&w->data, w->alignment);
    gw_describe(w, name, type, rows ? 2 : 1, (uint64_t[]){cols, rows}, w->data.n);
    for (size_t i = 0; i < n && type == GGUF_F32; i++)
        gw_raw(&w->data, &(float){(float)(1 + (i * 37 + seed * 11) % 101) / 64}, 4);
    for (size_t i = 0; i < bytes && type != GGUF_F32; i++) gw_int(&w->data, (i + seed) % 61, 1);
}

/* -- the file ------------------------------------------------------------------------------- */

static inline void gw_begin(gguf_writer *w, uint32_t version)
{
    *w = (gguf_writer){.version = version, .alignment = 32};
}

/* Offset of the first byte after the tensor descriptions. */
static inline size_t gw_head_bytes(const gguf_writer *w)
{
    return 24 + w->entries.n + w->tensors.n;
}

static inline void gw_file(const gguf_writer *w, sp_bytes *out)
{
    out->n = 0;
    gw_raw(out, "GGUF", 4);
    gw_int(out, w->version, 4);
    gw_int(out, w->n_tensors, 8);
    gw_int(out, w->n_entries, 8);
    gw_raw(out, w->entries.v, w->entries.n);
    gw_raw(out, w->tensors.v, w->tensors.n);
    if (w->data.n) gw_pad(out, w->alignment);
    gw_raw(out, w->data.v, w->data.n);
}

static inline void gw_end(gguf_writer *w)
{
    sp_vec_fini(&w->entries);
    sp_vec_fini(&w->tensors);
    sp_vec_fini(&w->data);
}

/* The message of the last failure names the file and holds `text`. */
static inline void assert_detail(const char *text)
{
    const char *detail = sp_error_detail();
    if (!strstr(detail, text)) fail_msg("\"%s\" does not hold \"%s\"", detail, text);
}

#endif
