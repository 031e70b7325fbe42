/* encoder_int.h -- an encoder being opened. For model/encoder/ alone. */
#ifndef SP_MODEL_ENCODER_ENCODER_INT_H
#define SP_MODEL_ENCODER_ENCODER_INT_H

#include "model/encoder/encoder.h"
#include "model/json_file.h"
#include "model/model_files.h"

/* -- encoder_config.c ------------------------------------------------------------------------ */

/* sp_encoder_config_of_gguf, sp_encoder_config_of_folder -- fill m->size; from a GGUF file also the recipe, from a
 * cross-encoder's folder also the head, without its weights. */
sp_err sp_encoder_config_of_gguf(const sp_gguf *g, sp_encoder *m) SP_MUST_CHECK;
sp_err sp_encoder_config_of_folder(const char *dir, sp_encoder *m) SP_MUST_CHECK;

/* -- encoder_recipe.c ------------------------------------------------------------------------ */

/* sp_encoder_recipe_of_folder -- fills m->recipe from the files of
 * sentence-transformers; without modules.json it is the mean, not normalized, as in
 * that library. For a cross-encoder only max_tokens is read. Pre: m->size, m->head. */
sp_err sp_encoder_recipe_of_folder(const char *dir, sp_encoder *m) SP_MUST_CHECK;

/* -- encoder_weights.c ----------------------------------------------------------------------- */

/* sp_encoder_bind -- binds the tensors of a file to weights. A tensor that no weight needs is refused by name. */
sp_err sp_encoder_bind(const sp_tensor_dir *dir, bool gguf, sp_encoder *m) SP_MUST_CHECK;

/* sp_encoder_next -- the weight at *i, which starts at 0 and is advanced; false after the last. */
bool sp_encoder_next(sp_encoder *m, int *i, sp_weight *out);

#endif
