/* show.h -- text from documents and file names, fit for a terminal. */
#ifndef SP_CLI_SHOW_H
#define SP_CLI_SHOW_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* show_text -- prints text with every character that a terminal would interpret (controls, changes of
 * direction) or that is not UTF-8 as U+FFFD; line ends and tabs stay. */
void show_text(FILE *to, const char *s, size_t n);

/* show_line -- the same for a name: line ends and tabs become blanks. With width > 0 it is exactly
 * as many columns wide: padded with blanks, or cut between characters and ended by an ellipsis. */
void show_line(FILE *to, const char *s, int width);

/* show_copy -- what show_line prints, as a string to be freed; NULL: out of memory. */
char *show_copy(const char *s, int width);

/* show_dim, show_plain -- what switches a terminal to dim text and back; "" where `to` is no terminal,
 * NO_COLOR is set, or TERM is "dumb". */
const char *show_dim(FILE *to);
const char *show_plain(FILE *to);

/* show_size -- "12.3 MiB", into text; returns text. */
enum { SHOW_SIZE = 24 };
char *show_size(char *text, int64_t bytes);

/* show_columns -- columns that show_line needs for a whole name. */
int show_columns(const char *s);

#endif
