/* options_int.h -- shared by parsing (options.c) and help (help.c). */
#ifndef SP_CLI_OPTIONS_INT_H
#define SP_CLI_OPTIONS_INT_H

#include "cli/options.h"

/* opt_command_of -- the words of the command, such as "bench reuse": the synopsis up to the first
 * word that is not in lower case. */
void opt_command_of(const opt_usage *usage, char *out, size_t size);

/* opt_print_help -- to standard output; all: rare options as well. */
void opt_print_help(const char *command, const opt_usage *usage, const opt *const *tables,
                    bool all);

/* opt_is_short -- llama.cpp's spellings with one dash, such as -ctk. */
bool opt_is_short(const opt *o);

#endif
