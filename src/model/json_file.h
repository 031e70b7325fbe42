/* json_file.h -- JSON of model folders: parsed with jansson, problems reported with file and place.
 */
#ifndef SP_MODEL_JSON_FILE_H
#define SP_MODEL_JSON_FILE_H

#include <jansson.h>

#include "base/mem.h"

/* sp_json_parse -- an object from text[0..n). Duplicate keys are refused; jansson stops at a depth
 * of 2048. Errors: SP_E_FORMAT names path, line and reason. Owns: json_decref. */
sp_err sp_json_parse(const char *text, size_t n, const char *path, json_t **out) SP_MUST_CHECK;
/* sp_json_read -- the same from dir/name; NULL without error when there is no such file. */
sp_err sp_json_read(const char *dir, const char *name, json_t **out) SP_MUST_CHECK;
/* sp_path_join -- "dir/name". Owns: sp_free; NULL when memory is out. */
char *sp_path_join(const char *dir, const char *name);
/* sp_path_exists -- there is something by that name. */
bool sp_path_exists(const char *path);

#endif
