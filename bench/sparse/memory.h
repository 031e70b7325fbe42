/* memory.h -- sparse decoding against full attention, contexts in memory. */
#ifndef SP_BENCH_SPARSE_MEMORY_H
#define SP_BENCH_SPARSE_MEMORY_H

#include "lab/bench/bench.h"
#include "lab/numbers.h"

typedef struct sparse_bench {
    const char *model, *cpu, *kv_type;
    const char *decode; /* as --decode of ask: "sparse:10%" */
    const bench_list *depths, *batches;
    int n_threads, rounds, predict;
    uint64_t seed;
} sparse_bench;

/* bench_decode_sparse -- prints a table; returns the exit code. */
int bench_decode_sparse(const sparse_bench *b);

#endif
