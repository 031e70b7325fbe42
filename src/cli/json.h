/* json.h -- JSON on standard output. */
#ifndef SP_CLI_JSON_H
#define SP_CLI_JSON_H

#include <jansson.h>

/* cli_watch_json -- from now on failed allocations of jansson's are noticed. */
void cli_watch_json(void);

/* cli_print_json -- prints a value and the end of its line, and releases it. Jansson leaves out of a value what it has
 * no memory for: then, and for NULL, an error is said instead, and the program ends with 1. */
void cli_print_json(json_t *value, size_t flags);

#endif
