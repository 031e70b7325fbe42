/* model_files.h -- the files of a model, and loading weights from them onto a device. For model/ alone.
 *
 * Language models (model.c, load.c) and text encoders (encoder/encoder.c) share this: mapped files, what was
 * converted or copied from them, and a list of weights, each with its place in a struct.
 */
#ifndef SP_MODEL_MODEL_FILES_H
#define SP_MODEL_MODEL_FILES_H

#include "compute/device.h"
#include "model/gguf.h"
#include "model/safetensors.h"

/* Matrices that were made from tensors of another form, each until the device has its own copy. */
typedef struct sp_made {
    SP_VEC(void *) list;
    size_t next; /* where the next to go probably is */
} sp_made;

/* sp_made_take -- n_bytes, 16-byte aligned, or NULL. */
void *sp_made_take(sp_made *m, size_t n_bytes);
/* sp_made_let_go -- frees `data` if it is one of them. */
void sp_made_let_go(sp_made *m, const void *data);
void sp_made_fini(sp_made *m);

/* The mappings that weights point into: a GGUF file or a folder is open. */
typedef struct sp_model_files {
    sp_gguf gguf;
    sp_safetensors folder;
    sp_arena arena; /* layer table, vectors, frequencies, texts */
    sp_made made;
    char *path;
} sp_model_files;

/* sp_model_files_create -- opens no file yet. Errors: SP_E_NOMEM. */
sp_err sp_model_files_create(const char *path, sp_model_files **out) SP_MUST_CHECK;
/* sp_model_files_close -- unmaps the files and frees what was copied from them. */
void sp_model_files_close(sp_model_files *f);

/* One weight: a matrix, or a vector of n floats. The other is NULL. */
typedef struct sp_weight {
    sp_mat *mat;
    sp_weight_use use; /* of the matrix */
    const float **vec;
    int64_t n;
} sp_weight;

/* sp_weight_bytes -- device memory that the weight needs; 0: the device reads it in place. */
size_t sp_weight_bytes(sp_device *d, const sp_weight *w);
/* sp_weight_let_go -- of a matrix that the device has its own copy of: the pages or the memory at `data` [n_bytes]. */
void sp_weight_let_go(sp_model_files *files, const void *data, size_t n_bytes);
/* sp_weight_load -- puts a weight at `to` [sp_weight_bytes]. What a matrix was packed from is released. files NULL:
 * the model was made in memory. */
sp_err sp_weight_load(sp_device *d, const sp_weight *w, sp_model_files *files, void *to) SP_MUST_CHECK;

#endif
