/* text.h -- a stream that writes into memory. open_memstream is not used: if its memory cannot grow, it loses a part
 * of the text without an error. */
#ifndef SP_CLI_TEXT_H
#define SP_CLI_TEXT_H

#include <stdio.h>

/* cli_text_open -- fclose sets *text (NUL-terminated; Owns: free) and *n; after running out of memory it returns EOF
 * and sets *text to NULL. Returns NULL, with *text NULL, if memory is out at once. */
FILE *cli_text_open(char **text, size_t *n);

#endif
