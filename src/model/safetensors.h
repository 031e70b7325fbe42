/* safetensors.h -- reader of safetensors files and of Hugging Face folders. */
#ifndef SP_MODEL_SAFETENSORS_H
#define SP_MODEL_SAFETENSORS_H

#include "base/file.h"
#include "model/tensors.h"

typedef struct sp_safetensors_file {
    char *path;
    sp_file_map map;
    struct json_t *header; /* owns the names of its tensors */
} sp_safetensors_file;

typedef struct sp_safetensors {
    SP_VEC(sp_safetensors_file) files; /* ordered by name */
    sp_tensor_dir tensors;
} sp_safetensors;

/* sp_safetensors_open -- opens the files of a folder: those in model.safetensors.index.json, or
 * model.safetensors alone. Errors: SP_E_IO (a shard is missing), SP_E_FORMAT (names file and
 * tensor), SP_E_NOMEM. Owns: close it with sp_safetensors_close, after everything that points into
 * it. */
sp_err sp_safetensors_open(const char *dir, sp_safetensors *out) SP_MUST_CHECK;
/* sp_safetensors_parse -- adds the tensors of one file in memory, which must outlive `s`. On
 * failure, close `s`: it may contain some of them. */
sp_err sp_safetensors_parse(sp_safetensors *s, const uint8_t *data, size_t size,
                            const char *path) SP_MUST_CHECK;
void sp_safetensors_close(sp_safetensors *s);

#endif
