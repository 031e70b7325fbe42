/* text.h -- a stream that writes into memory. That of libc is not used: when its memory cannot grow it loses a part of
 * the text without an error. */
#ifndef SP_CLI_TEXT_H
#define SP_CLI_TEXT_H

#include <stdio.h>

/* cli_text_open -- fclose sets *text (ends with '\0'; Owns: free) and *n; if something did not fit in memory it
 * returns EOF, and *text is NULL. NULL: out of memory, and *text is NULL. */
FILE *cli_text_open(char **text, size_t *n);

#endif
