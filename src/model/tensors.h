/* tensors.h -- the directory of named tensors that GGUF and safetensors files both come down to.
 *
 * The readers check a tensor's place and size before they add it, so that `data` may be read for
 * n_bytes without another look. A type that Spolia cannot compute with is listed all the same: it
 * is an error only for who needs that tensor.
 */
#ifndef SP_MODEL_TENSORS_H
#define SP_MODEL_TENSORS_H

#include <string.h>

#include "base/dict.h"
#include "base/mem.h"
#include "compute/dtype.h"
#include "model/tokenizer_int.h"

#define SP_TENSOR_DIMS 4

typedef struct sp_tensor {
    sp_text_view name; /* borrowed from the file */
    const char *path;  /* of the file it lies in; borrowed */
    char type[16];     /* as users write it: "q4_k", "i64", "type 99" */
    sp_dtype dtype;    /* SP_DTYPE_N: not one to compute with */
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

/* sp_tensor_dir_add -- Errors: SP_E_FORMAT when the name is there already. */
sp_err sp_tensor_dir_add(sp_tensor_dir *d, const sp_tensor *t) SP_MUST_CHECK;
/* sp_tensor_find -- the tensor of that name, or NULL. Valid until the next add. */
const sp_tensor *sp_tensor_find(const sp_tensor_dir *d, const char *name, size_t n);

/* sp_tensor_dir_check -- no two of the tensors list.v[from..] share a byte; they lie in one file.
 * Errors: SP_E_FORMAT names both. */
sp_err sp_tensor_dir_check(const sp_tensor_dir *d, size_t from) SP_MUST_CHECK;

/* sp_tensor_elements -- the product of the shape. Errors: SP_E_FORMAT beyond INT64_MAX. */
sp_err sp_tensor_elements(const sp_tensor *t, int64_t *out) SP_MUST_CHECK;

/* SP_VIEW -- arguments of "%.*s" for a view that a file supplied: cut where a message gets long. */
#define SP_VIEW(v) (int)SP_MIN((v).n, (size_t)160), ((v).s ? (v).s : "")

static inline bool sp_view_is(sp_text_view v, const char *text)
{
    return v.n == strlen(text) && memcmp(v.s, text, v.n) == 0;
}

#endif
