/* json.h -- JSON of the program: on standard output, in its files, in texts. Where memory has run out, jansson leaves
 * something out or calls it a syntax error; here it is an error of its own. */
#ifndef SP_CLI_JSON_H
#define SP_CLI_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* cli_watch_json -- from now on failed allocations of jansson's are noticed. */
void cli_watch_json(void);

#define CLI_NO_MEMORY "out of memory"

/* cli_json_text -- a value as JSON. NULL, and why: memory has run out since the last text was made (CLI_NO_MEMORY), so
 * that the value may lack a part; or a text in it, or instead of it NULL, is not UTF-8. Owns: free. */
char *cli_json_text(const json_t *value, size_t flags, const char **why);

/* cli_print_json -- prints a value and the end of its line, and releases it. Jansson leaves out of a value what it has
 * no memory for: then, and for NULL, an error is said instead, and the program ends with 1. */
void cli_print_json(json_t *value, size_t flags);

/* cli_json_string -- a text that may not be UTF-8: what is not becomes U+FFFD. */
json_t *cli_json_string(const char *text);

/* cli_load_json -- json_loadb, which is left when memory runs out (sp_json_whole); *why may be NULL. */
json_t *cli_load_json(const char *text, size_t n, size_t flags, json_error_t *why);

/* cli_read_json -- a text as JSON. NULL after an error message that begins with `where`, and names the line of a text
 * that has several. Owns: json_decref. */
json_t *cli_read_json(const char *where, const char *text, size_t flags);

/* cli_write_json -- replaces a file, which is whole or stays as it is. False after an error message. */
bool cli_write_json(const char *path, const json_t *value, size_t flags);

#endif
