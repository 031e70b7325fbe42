/* model_files.h -- the files of a model, and its weights on their way from there to a device. For model/ alone.
 *
 * Language models (model.c, load.c) and text encoders (encoder/encoder.c) hold the same: mapped files, what was
 * converted or copied out of them, and a list of weights, each with its place in a struct.
 */
#ifndef SP_MODEL_MODEL_FILES_H
#define SP_MODEL_MODEL_FILES_H

#include "compute/device.h"
#include "model/gguf.h"
#include "model/safetensors.h"

/* The mappings that weights point into: one kind of the two is open. */
typedef struct sp_model_files {
    sp_gguf gguf;
    sp_safetensors folder;
    sp_arena arena; /* layer table, vectors, frequencies, texts */
    char *path;
} sp_model_files;

/* sp_model_files_create -- no file is open yet. Errors: SP_E_NOMEM. */
sp_err sp_model_files_create(const char *path, sp_model_files **out) SP_MUST_CHECK;
/* sp_model_files_close -- unmaps the files and frees what came out of them. */
void sp_model_files_close(sp_model_files *f);

/* One weight: a matrix, or a vector of n floats. The other is NULL. */
typedef struct sp_weight {
    sp_mat *mat;
    sp_weight_use use; /* of the matrix */
    const float **vec;
    int64_t n;
} sp_weight;

/* sp_weight_bytes -- of the device's memory; 0: the device reads the weight where it is. */
size_t sp_weight_bytes(sp_device *d, const sp_weight *w);
/* sp_weight_load -- puts a weight at `to`, which has sp_weight_bytes. The mapped pages that a matrix was packed from
 * leave memory. files may be NULL: the model was made in memory. */
sp_err sp_weight_load(sp_device *d, const sp_weight *w, const sp_model_files *files, void *to) SP_MUST_CHECK;

#endif
