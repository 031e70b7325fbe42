/* cmd.h -- the `spolia` program: a client of the public library, one file a command.
 *
 * Exit codes: 0 done, 1 failed (one line on standard error), 2 wrong usage. */
#ifndef SP_CMD_CMD_H
#define SP_CMD_CMD_H

#include "cmd/options.h"
#include "spolia.h"

/* What answers from documents are told at first, unless --system says otherwise. */
#define CMD_SYSTEM_TEXT "Answer the question from the documents."

/* A command gets argv[0] = its own name. */
int cmd_ask(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_index(int argc, char **argv);
int cmd_search(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_perplexity(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_graph(int argc, char **argv);

/* cmd_fail -- prints "spolia: <what failed>" from the library's error and returns exit code 1. */
int cmd_fail(sp_err err);
/* cmd_fail_with -- the same with a sentence of the program's own. */
int cmd_fail_with(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* cmd_read_file -- a whole file, NUL-terminated, "-" for standard input; NULL after printing why
 * not. */
char *cmd_read_file(const char *path, size_t *n);

#endif
