/* gguf.h -- reader of GGUF files, versions 2 and 3: metadata as typed views, tensors as a
 * directory.
 *
 * All views point into the bytes of the file; only the two indexes are copies. Opening checks every
 * count, length, offset and size against the file, so accessors need no bounds checks.
 */
#ifndef SP_MODEL_GGUF_H
#define SP_MODEL_GGUF_H

#include "base/file.h"
#include "model/tensors.h"

typedef enum sp_gguf_type {
    SP_GGUF_U8,
    SP_GGUF_I8,
    SP_GGUF_U16,
    SP_GGUF_I16,
    SP_GGUF_U32,
    SP_GGUF_I32,
    SP_GGUF_F32,
    SP_GGUF_BOOL,
    SP_GGUF_STRING,
    SP_GGUF_ARRAY,
    SP_GGUF_U64,
    SP_GGUF_I64,
    SP_GGUF_F64,
    SP_GGUF_TYPE_N,
} sp_gguf_type;

/* One metadata entry. A scalar has n = 1 and is_array = false. */
typedef struct sp_gguf_entry {
    sp_text_view key;
    sp_gguf_type type; /* of the elements; never SP_GGUF_ARRAY */
    bool is_array;
    uint64_t n;          /* elements */
    const uint8_t *data; /* first element as in the file: little-endian, unaligned */
} sp_gguf_entry;

typedef struct sp_gguf {
    char *path;      /* owned copy */
    sp_file_map map; /* empty after sp_gguf_parse */
    uint32_t version;
    size_t alignment;
    size_t data_offset; /* of the tensor data, bytes from the start of the file */
    SP_VEC(sp_gguf_entry) entries;
    sp_dict by_key;
    sp_tensor_dir tensors;
    SP_VEC(struct sp_gguf) parts; /* the other files of a split model; their tensors are in `tensors` */
} sp_gguf;

/* sp_gguf_open -- maps a file and parses its header. The first file of a split model opens the others, too.
 * Errors: SP_E_IO, SP_E_FORMAT (names file, key or tensor), SP_E_UNSUPPORTED (version 1, big-endian, nested
 * arrays), SP_E_NOMEM.
 * Owns: close it with sp_gguf_close, after everything that points into it. */
sp_err sp_gguf_open(const char *path, sp_gguf *out) SP_MUST_CHECK;
/* sp_gguf_open_one -- the same for one file alone. */
sp_err sp_gguf_open_one(const char *path, sp_gguf *out) SP_MUST_CHECK;
/* sp_gguf_parse -- the same for bytes in memory, which must outlive `out`; path is for messages. */
sp_err sp_gguf_parse(const uint8_t *data, size_t size, const char *path,
                     sp_gguf *out) SP_MUST_CHECK;
void sp_gguf_close(sp_gguf *g);

/* sp_gguf_find -- the entry of a key, or NULL. */
const sp_gguf_entry *sp_gguf_find(const sp_gguf *g, const char *key);
const char *sp_gguf_type_name(sp_gguf_type t);

/* sp_gguf_number -- element i of a numeric or boolean entry as a double; false for strings. */
bool sp_gguf_number(const sp_gguf_entry *e, uint64_t i, double *out);
/* sp_gguf_strings -- the views of the first n elements of a string entry (n <= e->n). */
void sp_gguf_strings(const sp_gguf_entry *e, uint64_t n, sp_text_view *out);
/* sp_gguf_text -- the string of a key; {NULL, 0} if it is absent. Errors: SP_E_FORMAT if it is not
 * a string. */
sp_err sp_gguf_text(const sp_gguf *g, const char *key, sp_text_view *out) SP_MUST_CHECK;

#endif
