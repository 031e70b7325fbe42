/* fail.h -- how commands fail: error messages, exit codes; what could not be printed or read.
 *
 * Exit codes: 0 done, 1 failed (one line on standard error), 2 wrong usage, 3 no document
 * matches the question. */
#ifndef SP_CLI_FAIL_H
#define SP_CLI_FAIL_H

#include <stddef.h>
#include <stdio.h>

#include "spolia.h"

#define CLI_NO_HIT 3 /* exit code */

/* cli_fail -- prints "spolia: <what failed>" from the library's error and returns exit code 1. */
int cli_fail(sp_err err);
/* cli_fail_with -- the same with the caller's own sentence. */
int cli_fail_with(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* cli_fail_to -- from now on both leave their line in `line` and print nothing; NULL: they print again. */
void cli_fail_to(char *line, size_t size);

/* cli_warn -- prints "spolia: <sentence>"; control characters become U+FFFD. */
void cli_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* cli_error_name -- "E_IO" of SP_E_IO; "OK". */
const char *cli_error_name(sp_err err);
/* cli_fail_as_json -- from now on cli_fail and cli_fail_with also print
 * {"error": {"code": ..., "message": ...}} on standard output. */
void cli_fail_as_json(void);

/* cli_lose_output -- an error message, "what: why", in place of what should have been printed. */
void cli_lose_output(const char *what, const char *why);
/* cli_check_output -- flushes standard output. Returns `code`, or 1 after an error message when what
 * was printed could not be written, or was lost before. */
int cli_check_output(int code);

/* cli_read_file -- a whole file, NUL-terminated; "-": standard input. NULL after an error message. */
char *cli_read_file(const char *path, size_t *n);
/* cli_read_text -- the same without a byte order mark, with which editors on Windows begin files. */
char *cli_read_text(const char *path, size_t *n);
/* cli_check_end -- whether lines were read until the file ended; false after an error message: reading failed. Before
 * another call changes errno. */
bool cli_check_end(FILE *f, const char *path);

/* cli_nearest -- the name that `word` probably misspells, or NULL. names [n]. */
const char *cli_nearest(const char *word, const char *const *names, size_t n);

#endif
