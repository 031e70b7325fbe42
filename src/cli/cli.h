/* cli.h -- what every command of the `spolia` program shares: its table, options (options/options.h), errors
 * (fail.h).
 *
 * The program is a client of the public library (spolia.h). A command is a function of (argc, argv)
 * with argv[0] = its own name; it begins with opt_parse, before it touches anything else. */
#ifndef SP_CLI_CLI_H
#define SP_CLI_CLI_H

#include "cli/fail.h"
#include "cli/options/options.h"
#include "spolia.h"

/* The system text of answers from documents, unless --system gives another. */
#define CLI_SYSTEM_TEXT "Answer the question from the documents."

typedef struct cli_command {
    const char *name;
    const char *group;                     /* heading in `spolia --help`: what people do with it */
    const char *summary;                   /* one line, imperative */
    int (*run)(int argc, char **argv);     /* or: */
    const struct cli_command *subcommands; /* the last has no name */
} cli_command;

/* cli_main -- runs the command that argv names in the table (the last entry has no name), prints help
 * and version, and checks that standard output was written. Returns the exit code. */
int cli_main(const cli_command *commands, int argc, char **argv);

/* cli_visit -- shows the visitor the options of every command, each with its defaults. Within cli_main. */
void cli_visit(opt_visitor *visitor, void *user);

#endif
