/* tiers.c -- how fast copies are read from a tier, and what loading them costs others.
 *
 *     build/bench/tiers read DIR [MiB]     copies of a chunk (24 layers of 256 KiB) in a store in DIR, all of them
 *                                          read: GB/s, 3 rounds
 *     build/bench/tiers decode DIR MODEL   tokens a second of a request that decodes, alone and while 1 GB is
 *                                          read from that store, alternating, 5 rounds; and two controls in
 *                                          place of the read, as long as it took: memory is copied at the same
 *                                          rate; a thread counts and touches no memory
 *
 * The store is written first. Reads go around the system's cache (O_DIRECT). bench/tiers.py runs fio's
 * sequential read in the same sitting. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "spolia.h"
#include "store/disk/tier.h"

enum { LAYERS = 24, LAYER_BYTES = 256 << 10, TOKENS = 500, FLIGHT = 4, ROUNDS = 5 };

static int32_t tokens[TOKENS];
static const sp_digest space = {{0xbe}};

static void check(sp_err err)
{
    if (err == SP_OK) return;
    fprintf(stderr, "tiers: %s\n", sp_error_detail());
    exit(1);
}

static sp_record record_of(uint32_t number)
{
    sp_record r = {.space = space,
                   .tokens = tokens,
                   .n = TOKENS,
                   .n_layers = LAYERS,
                   .layer_bytes = LAYER_BYTES};
    memcpy(r.facts.id.b, &number, sizeof number);
    return r;
}

static sp_err source(void *user, int layer, void *to)
{
    uint64_t x = (uint64_t)layer * 2654435761u + *(const uint32_t *)user + 1, *out = to;
    for (size_t i = 0; i < LAYER_BYTES / sizeof x; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        out[i] = x;
    }
    return SP_OK;
}

/* sink -- what loading does: the layer goes to other memory. */
static sp_err sink(void *user, int layer, const void *from)
{
    memcpy((uint8_t *)user + (size_t)layer * LAYER_BYTES, from, LAYER_BYTES);
    return SP_OK;
}

static sp_tier *fill(const char *dir, uint32_t n)
{
    sp_tier *t;
    check(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir, .space = &space}, &t));
    for (uint32_t i = 0; i < n; i++) {
        sp_record r = record_of(i);
        const sp_tier_key key = sp_tier_key_of(&r);
        if (!sp_tier_knows(t, &key))
            check(sp_tier_run(
                t, &(sp_tier_job){.verb = SP_TIER_PUT, .record = &r, .source = source, .user = &i}));
    }
    return t;
}

/* read_all -- FLIGHT gets at a time; returns seconds. */
static double read_all(sp_tier *t, uint32_t n, uint8_t *memory)
{
    sp_tier_op *ops[FLIGHT] = {0};
    const int64_t start = sp_clock_us();
    for (uint32_t i = 0; i < n + FLIGHT; i++) {
        sp_tier_op **op = &ops[i % FLIGHT];
        if (*op) {
            sp_tier_op_wait(*op, -1);
            check(sp_tier_op_result(*op));
            sp_tier_op_release(*op);
            *op = NULL;
        }
        if (i >= n) continue;
        sp_record r = record_of(i);
        check(sp_tier_submit(t,
                             &(sp_tier_job){.verb = SP_TIER_GET,
                                            .key = sp_tier_key_of(&r),
                                            .n_layers = LAYERS,
                                            .sink = sink,
                                            .user = memory + (size_t)(i % FLIGHT) * LAYERS * LAYER_BYTES},
                             op));
    }
    return (double)(sp_clock_us() - start) * 1e-6;
}

static double gigabytes(uint32_t n)
{
    return (double)n * LAYERS * LAYER_BYTES * 1e-9;
}

/* -- decoding ------------------------------------------------------------------------------- */

/* What runs beside a request that decodes. */
typedef struct neighbour {
    sp_tier *tier;
    uint32_t n;
    uint8_t *memory;
    double seconds; /* that reading took */
    _Atomic bool done;
} neighbour;

static void *read_beside(void *arg)
{
    neighbour *b = arg;
    b->seconds = read_all(b->tier, b->n, b->memory);
    b->done = true;
    return NULL;
}

static double now(void)
{
    return (double)sp_clock_us() * 1e-6;
}

/* copy_beside -- the bytes of the copies from memory to memory, spread over the time that reading took. */
static void *copy_beside(void *arg)
{
    neighbour *b = arg;
    const double start = now();
    const uint32_t n = b->n * LAYERS, slots = FLIGHT * LAYERS;
    for (uint32_t i = 0; i < n; i++) {
        const size_t from = i % slots, to = (i + slots / 2) % slots;
        memcpy(b->memory + to * LAYER_BYTES, b->memory + from * LAYER_BYTES, LAYER_BYTES);
        while (now() - start < b->seconds * i / n) {}
    }
    b->done = true;
    return NULL;
}

static void *count_beside(void *arg)
{
    neighbour *b = arg;
    const double start = now();
    while (now() - start < b->seconds) {}
    b->done = true;
    return NULL;
}

/* decode -- tokens a second of n tokens, or until the neighbour is done. */
static double decode(sp_context *c, int n, const neighbour *beside, int *n_tokens)
{
    sp_prompt *p;
    sp_request *r;
    bool busy = true;
    check(sp_prompt_create(c, &p));
    check(sp_prompt_text(p, "Once upon a time", false));
    const sp_request_opts o = {
        .sampling = sp_sampling_default(), .max_tokens = n, .ignore_end = true};
    check(sp_request_submit(c, p, &o, &r));
    check(sp_context_step(c, &busy));
    const double start = now();
    int done = 0;
    for (; busy && !(beside && beside->done); done++) check(sp_context_step(c, &busy));
    *n_tokens = done;
    const double rate = done / (now() - start);
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return rate;
}

static double decode_beside(sp_context *c, neighbour *b, void *(*run)(void *), int *n_tokens)
{
    pthread_t thread;
    b->done = false;
    if (pthread_create(&thread, NULL, run, b) != 0) exit(1);
    const double rate = decode(c, 2000, b, n_tokens);
    pthread_join(thread, NULL);
    return rate;
}

static void bench_decode(sp_tier *t, uint32_t n, uint8_t *memory, const char *model)
{
    sp_context *c;
    check(sp_context_open(&(sp_context_opts){.model = model, .machine.n_threads = 1}, &c));
    printf("alone tok/s,read,copied,counted,GB/s\n");
    for (int i = 0; i < ROUNDS; i++) {
        neighbour b = {.tier = t, .n = n, .memory = memory};
        int n_tokens, unused;
        const double read = decode_beside(c, &b, read_beside, &n_tokens);
        const double copied = decode_beside(c, &b, copy_beside, &unused);
        const double counted = decode_beside(c, &b, count_beside, &unused);
        const double alone = decode(c, SP_MAX(n_tokens, 8), NULL, &unused);
        printf("%.1f,%.3f,%.3f,%.3f,%.2f\n", alone, read / alone, copied / alone, counted / alone,
               gigabytes(n) / b.seconds);
        fflush(stdout);
    }
    sp_context_close(c);
}

int main(int argc, char **argv)
{
    const bool decodes = argc == 4 && strcmp(argv[1], "decode") == 0;
    if (argc < 3 || (!decodes && strcmp(argv[1], "read") != 0)) {
        fprintf(stderr, "usage: tiers read DIR [MiB] | tiers decode DIR MODEL\n");
        return 2;
    }
    const int mib = !decodes && argc > 3 ? atoi(argv[3]) : 1024;
    const uint32_t n = (uint32_t)(mib / (LAYERS * LAYER_BYTES >> 20));
    uint8_t *memory = malloc((size_t)FLIGHT * LAYERS * LAYER_BYTES);
    if (!memory) return 1;
    memset(memory, 0, (size_t)FLIGHT * LAYERS * LAYER_BYTES);
    sp_tier *t = fill(argv[2], n);
    if (!decodes) printf("io,GB/s\n");
    for (int i = 0; !decodes && i < 3; i++)
        printf("%s,%.3f\n", sp_disk_tier_io(t), gigabytes(n) / read_all(t, n, memory));
    if (decodes) bench_decode(t, n, memory, argv[3]);
    sp_tier_close(t);
    free(memory);
    return 0;
}
