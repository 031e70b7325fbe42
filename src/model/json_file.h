/* json_file.h -- reads the JSON files of model folders (jansson); errors name the file and the
 * line. */
#ifndef SP_MODEL_JSON_FILE_H
#define SP_MODEL_JSON_FILE_H

#include <jansson.h>

#include "base/mem.h"

/* sp_json_parse -- parses text[0..n), which must be an object. Refuses duplicate keys and, as
 * jansson does, a depth over 2048. Errors: SP_E_FORMAT names path, line and reason. Owns:
 * json_decref. */
sp_err sp_json_parse(const char *text, size_t n, const char *path, json_t **out) SP_MUST_CHECK;
/* sp_json_read -- the same for the file dir/name; NULL without error if it does not exist. */
sp_err sp_json_read(const char *dir, const char *name, json_t **out) SP_MUST_CHECK;
/* sp_json_read_list -- the same for a file that holds an array. */
sp_err sp_json_read_list(const char *dir, const char *name, json_t **out) SP_MUST_CHECK;
/* sp_path_join -- "dir/name". Owns: sp_free; NULL when memory is exhausted. */
char *sp_path_join(const char *dir, const char *name);
/* sp_path_exists -- whether a file of any kind has this path. */
bool sp_path_exists(const char *path);

#endif
