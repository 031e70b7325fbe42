/* file.h -- --from-disk: contexts larger than memory. */
#ifndef SP_BENCH_SPARSE_FILE_H
#define SP_BENCH_SPARSE_FILE_H

#include "lab/bench/bench.h"
#include "lab/numbers.h"

typedef struct file_bench {
    const char *model, *cpu, *kv_type;
    const char *decode; /* as --decode of ask: "sparse:10%" */
    const char *memory; /* "10%" of the context beside summaries, or all together, such as "1G" */
    const char *dir;    /* the folder whose disk is read; NULL: /var/tmp */
    const char *hits;   /* percentages, or NULL */
    float guessed;     /* percentage of the blocks that miss, with hits and `ahead` */
    const bench_list *depths;
    int n_threads, predict;
    bool only; /* not in memory for comparison */
    uint64_t seed;
} file_bench;

/* bench_decode_file -- prints a table; returns the exit code. */
int bench_decode_file(const file_bench *b);

#endif
