/* json.h -- reads and writes JSON, and says when memory is missing. jansson ignores failed allocations: a text loses
 * its end, an object a member, and others it calls syntax errors. Where each is noted (sp_json_watch, sp_json_lost)
 * nothing that may be incomplete is returned; elsewhere only errors that jansson names are lacks of memory. */
#ifndef SP_BASE_JSON_H
#define SP_BASE_JSON_H

#include <jansson.h>

#include "base/err.h"

/* sp_json_load, sp_json_load_file -- json_loadb and json_load_file. NULL: *why has the text, "out of memory" if an
 * allocation has failed. */
json_t *sp_json_load(const char *s, size_t n, size_t flags, json_error_t *why);
json_t *sp_json_load_file(const char *path, size_t flags, json_error_t *why);
/* sp_json_code -- SP_E_NOMEM if memory was missing, else `code`. */
sp_err sp_json_code(const json_error_t *why, sp_err code);

/* sp_json_n_lost -- this thread's failed allocations so far. */
unsigned sp_json_n_lost(void);
/* sp_json_dump -- json_dumps of a value that was made since there were `before` of them. NULL: memory was missing, and
 * the value, which may be NULL, or its text would lack a part. Owns: free. */
char *sp_json_dump(const json_t *value, size_t flags, unsigned before);

#endif
