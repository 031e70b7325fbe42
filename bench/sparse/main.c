/* main.c -- build/bench/sparse: sparse decoding against full attention, over contexts of random keys and values, in memory
 * (memory.h) or in a file (file.h).
 *
 *     build/bench/sparse -m q05.gguf --sparse 10% --depths 16384,65536,131072 --batches 1 --rounds 3 -n 4
 *     build/bench/sparse -m q05.gguf --sparse 4096 --from-disk --memory 1G --hit 65,79,90 --depths 1000000 -n 6 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/options/options.h"
#include "file.h"
#include "memory.h"

typedef struct texts {
    const char *batches, *depths, *sparse, *selector;
} texts;

static bool parse(const texts *t, bench_list *batches, bench_list *depths, const sparse_bench *b)
{
    if (!b->model) return cli_fail_with("bench sparse: -m names the model"), false;
    if (b->predict < 1 || b->predict > 1 << 20 || b->rounds < 1)
        return cli_fail_with("bench sparse: --predict and --rounds are at least 1"), false;
    return bench_list_parse("batches", t->batches, 1, 256, true, batches) &&
           bench_list_parse("depths", t->depths, 0, 1 << 20, true, depths);
}

int main(int argc, char **argv)
{
    texts t = {.batches = "1,4", .depths = "512", .sparse = "10%", .selector = ""};
    bench_list batches, depths;
    sparse_bench m = {.depths = &depths, .batches = &batches, .rounds = 3, .predict = 16, .seed = 1};
    file_bench f = {.memory = "10%", .guessed = 50};
    bool from_disk = false;
    char decode[128];
    const opt own[] = {
        {OPT_STRING, "model", 'm', "FILE", &m.model, "GGUF file or Hugging Face folder"},
        {OPT_STRING, "sparse", 0, "BUDGET", &t.sparse, "what a token reads: 10%, 4096 (10%)"},
        {OPT_STRING, "selector", 0, "NAME", &t.selector,
         "bounds, quest, hash128, hash256, keys4, with the options of --decode (bounds)"},
        {OPT_STRING, "batches", 0, "LIST", &t.batches, "numbers of requests decoded together (1,4)"},
        {OPT_STRING, "depths", 0, "LIST", &t.depths, "tokens of context of each request (512)"},
        {OPT_INT, "predict", 'n', "N", &m.predict, "timed tokens of each request (16)"},
        {OPT_INT, "rounds", 0, "N", &m.rounds, "runs of each setting, in turn (3)"},
        {OPT_INT, "threads", 't', "N", &m.n_threads, "threads; 0: one for each core (0)"},
        {OPT_STRING, "cpu", 0, "NAME", &m.cpu, "kernels: ref, avx2, avxvnni, avx512, vnni, amx, neon, i8mm"},
        {OPT_STRING, "cache-type-k", 0, "TYPE", &m.kv_type, "type of keys and values (" SP_KV_TYPE ")"},
        {OPT_U64, "seed", 's', "N", &m.seed, "random seed (1)"},
        {OPT_FLAG, "from-disk", 0, NULL, &from_disk, "the context is in a file"},
        {OPT_STRING, "memory", 0, "SIZE", &f.memory,
         "of --from-disk: what stays in memory: 10% of the context, or 1G altogether (10%)"},
        {OPT_STRING, "hit", 0, "LIST", &f.hits,
         "of --from-disk: forced percentages of blocks that the token before has read"},
        {OPT_FLOAT, "guessed", 0, "PERCENT", &f.guessed,
         "of --hit, with sparse:...,ahead: blocks of the others that are guessed (50)"},
        {OPT_STRING, "dir", 0, "DIR", &f.dir, "of --from-disk: the folder (/var/tmp)"},
        {OPT_FLAG, "only-disk", 0, NULL, &f.only, "of --from-disk: no comparison in memory"},
        {0},
    };
    const opt *const tables[] = {own, NULL};
    int at = opt_parse(argc, argv, &(opt_usage){"bench sparse -m MODEL [options]", "Sparse decoding against full attention."}, tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("bench sparse: unexpected argument \"%s\"", argv[at]), 2;
    if (!parse(&t, &batches, &depths, &m)) return 2;
    snprintf(decode, sizeof decode, "sparse:%s%s%s", t.sparse, *t.selector ? "," : "", t.selector);
    m.decode = f.decode = decode;
    if (!from_disk) return bench_decode_sparse(&m);
    f.model = m.model;
    f.cpu = m.cpu;
    f.kv_type = m.kv_type;
    f.depths = &depths;
    f.n_threads = m.n_threads;
    f.predict = m.predict;
    f.seed = m.seed;
    return bench_decode_file(&f);
}
