/* model_int.h -- what a model owns, and opening from memory for tests. For model/ alone. */
#ifndef SP_MODEL_MODEL_INT_H
#define SP_MODEL_MODEL_INT_H

#include "model/config.h"
#include "model/model_files.h"

/* sp_model_from_gguf -- builds a model from an open
 * file. Owns: takes `g`; closes it on failure. */
sp_err sp_model_from_gguf(sp_gguf *g, sp_model **out) SP_MUST_CHECK;

/* sp_model_identify -- fills m->id from hyper-parameters, rotary frequencies and the tensors:
 * names, types, shapes and the first and last 4 KiB of each one's bytes, so that models of one
 * shape differ. */
sp_err sp_model_identify(sp_model *m, const sp_tensor_dir *dir) SP_MUST_CHECK;

/* sp_model_inspect_gguf -- sp_model_inspect of an
 * open file, which the output calls `path`. */
sp_err sp_model_inspect_gguf(const sp_gguf *g, const char *path, sp_bytes *out) SP_MUST_CHECK;

#endif
