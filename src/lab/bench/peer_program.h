/* peer_program.h -- another program's benchmark, run between our own. */
#ifndef SP_LAB_BENCH_PEER_PROGRAM_H
#define SP_LAB_BENCH_PEER_PROGRAM_H

#include <stdbool.h>

typedef struct peer_program peer_program;

/* Replaces {name} in a command. */
typedef struct bench_value {
    const char *name, *value;
} bench_value;

/* peer_program_open -- match: an extended regular expression (POSIX) with one group, which
 * matches the result in the command's standard output; NULL: the first number. The texts are
 * borrowed. NULL after an error message. */
peer_program *peer_program_open(const char *command, const char *match);
void peer_program_close(peer_program *p);

/* peer_program_run -- runs the command in a shell with the quoted values inserted (values: the last
 * has no name). *rate: the number it printed. False after an error message with the command and the
 * last line it printed. */
bool peer_program_run(peer_program *p, const bench_value *values, double *rate);

#endif
