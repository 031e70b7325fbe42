/* bench_peerbench.h -- another program's benchmark, run between our own. */
#ifndef SP_CMD_BENCH_PEERBENCH_H
#define SP_CMD_BENCH_PEERBENCH_H

#include <stdbool.h>

typedef struct bench_peerbench bench_peerbench;

/* What stands for {name} in a command. */
typedef struct bench_value {
    const char *name, *value;
} bench_value;

/* bench_peerbench_open -- match: an extended regular expression (POSIX) with one group, which is the
 * number wanted in the command's standard output; NULL: the first number. The texts are borrowed.
 * NULL after explaining. */
bench_peerbench *bench_peerbench_open(const char *command, const char *match);
void bench_peerbench_close(bench_peerbench *p);

/* bench_peerbench_run -- runs the command in a shell, with the quoted values in their places
 * (values: the last has no name). *rate: the number it printed. False after explaining, in one line
 * with the command and the last that it printed. */
bool bench_peerbench_run(bench_peerbench *p, const bench_value *values, double *rate);

#endif
