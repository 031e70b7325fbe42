/* tensors.h -- a directory of named tensors, the result of reading GGUF and safetensors files.
 *
 * The readers check the offset and size of a tensor before they add it, so reading n_bytes at
 * `data` is safe. Tensors of unsupported types are listed too: they are an error only where they
 * are needed.
 */
#ifndef SP_MODEL_TENSORS_H
#define SP_MODEL_TENSORS_H

#include <string.h>

#include "base/dict.h"
#include "base/mem.h"
#include "compute/dtype.h"
#include "model/tokenizer/vocab_spec.h"

#define SP_TENSOR_DIMS 5 /* of convolutions over pictures and time, which are listed alone */

typedef struct sp_tensor {
    sp_text_view name; /* borrowed from the file */
    const char *path;  /* of its file; borrowed */
    char type[16];     /* for users: "q4_k", "i64", "type 99" */
    sp_dtype dtype;    /* SP_DTYPE_N: not supported */
    int n_dims;
    int64_t shape[SP_TENSOR_DIMS]; /* outermost first: [rows, columns] */
    size_t offset;                 /* bytes from the start of the file */
    size_t n_bytes;                /* 0 when the type's size is unknown */
    const uint8_t *data;           /* NULL when n_bytes is 0 */
} sp_tensor;

typedef struct sp_tensor_dir {
    SP_VEC(sp_tensor) list; /* in the order of the file */
    sp_dict by_name;        /* -> index in list */
} sp_tensor_dir;

void sp_tensor_dir_fini(sp_tensor_dir *d);

/* sp_tensor_dir_add -- Errors: SP_E_FORMAT if the name exists already. */
sp_err sp_tensor_dir_add(sp_tensor_dir *d, const sp_tensor *t) SP_MUST_CHECK;
/* sp_tensor_find -- the tensor of that name, or NULL. Valid until the next add. */
const sp_tensor *sp_tensor_find(const sp_tensor_dir *d, const char *name, size_t n);

/* sp_tensor_dir_check -- checks that tensors list.v[from..], which are in one file, do not overlap.
 * Errors: SP_E_FORMAT names two that do. */
sp_err sp_tensor_dir_check(const sp_tensor_dir *d, size_t from) SP_MUST_CHECK;

/* sp_tensor_elements -- the number of elements. Errors: SP_E_FORMAT above INT64_MAX. */
sp_err sp_tensor_elements(const sp_tensor *t, int64_t *out) SP_MUST_CHECK;

/* sp_tensor_check_shape -- Errors: SP_E_FORMAT: the shape is not `want` [n], outermost first. */
sp_err sp_tensor_check_shape(const sp_tensor *t, const int64_t *want, int n) SP_MUST_CHECK;

/* SP_VIEW -- arguments of "%.*s" for a view from a file, truncated to 160 bytes. */
#define SP_VIEW(v) (int)SP_MIN((v).n, (size_t)160), ((v).s ? (v).s : "")

static inline bool sp_view_is(sp_text_view v, const char *text)
{
    return v.n == strlen(text) && memcmp(v.s, text, v.n) == 0;
}

#endif
