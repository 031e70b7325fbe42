/* weights.h -- binds the tensors of a file to the weights of layers. For model/ alone. */
#ifndef SP_MODEL_WEIGHTS_H
#define SP_MODEL_WEIGHTS_H

#include "model/config.h"
#include "model/model_files.h"

/* sp_weights_bind -- fills m->embed, output, output_norm, layers, rope and hp from the directory.
 * Matrices are borrowed from the tensors' data, or made of it (files->made: those of layers); vectors, the layer table
 * and unaligned matrices are copied into files->arena. gguf: which of the two sets of names the file uses.
 * Errors: SP_E_FORMAT (a tensor is missing or has another shape), SP_E_UNSUPPORTED (its type, or a
 * tensor that implies another computation), SP_E_NOMEM; each names path and tensor. */
sp_err sp_weights_bind(const sp_tensor_dir *dir, const sp_config *c, const char *path, bool gguf,
                       sp_model_files *files, sp_model *m) SP_MUST_CHECK;

/* sp_weights_next -- the weight at *i, which starts at 0 and is advanced, in the order in which a step
 * reads them; absent ones are skipped. False after the last. */
bool sp_weights_next(sp_model *m, int *i, sp_weight *out);

#endif
