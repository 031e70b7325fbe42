/* options_int.h -- shared by parsing (options.c), help (help.c) and other sources (sources.c). */
#ifndef SP_CLI_OPTIONS_INT_H
#define SP_CLI_OPTIONS_INT_H

#include "cli/options/options.h"

typedef struct opt_help {
    const char *command;
    const opt_usage *usage;
    const opt *const *tables;
    const opt_origin *origins; /* of the options in the order of opt_flatten */
    bool all;                  /* rare options as well */
} opt_help;

/* opt_print_help -- to standard output. */
void opt_print_help(const opt_help *h);

/* opt_set -- stores a value. spelled: what an error message calls the option. False after one. */
bool opt_set(const opt *o, const char *text, const char *spelled);

#endif
