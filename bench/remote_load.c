/* remote_load.c -- how fast copies are loaded from Redis, and what a plain client reaches with the same values.
 *
 *     build/bench/remote_load URL [ROUNDS]
 *
 * Eight copies of a chunk of 256 tokens (30 layers of 192 KiB) are put, without a key and with one. In each round, in
 * turn: all values of the copies without a key by hiredis, all commands sent before the first reply is read, the
 * replies freed; the same copies by the remote tier, checked and copied to other memory; those with a key. Prints GB/s,
 * the ratios within rounds, and the CPU's time in this process, which a busy machine changes least. The server must be
 * empty. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "store/remote/redis/address.h"
#include "store/remote/tier.h"

#include <hiredis/hiredis.h>

enum { COPIES = 8, LAYERS = 30, LAYER_BYTES = 192 << 10, TOKENS = 256, ROUNDS = 9, MOST_ROUNDS = 99 };
enum { PLAIN, LOAD, SEALED, WAYS };

static const char *const names[WAYS] = {"plain hiredis", "remote tier", "remote tier with a key"};
static const double ALL = (double)COPIES * LAYERS * LAYER_BYTES;
static int32_t tokens[TOKENS];

static void check(sp_err err)
{
    if (err == SP_OK) return;
    fprintf(stderr, "remote_load: %s\n", sp_error_detail());
    exit(1);
}

static sp_record record_of(uint32_t number, const sp_digest *space)
{
    sp_record r = {
        .space = *space, .tokens = tokens, .n = TOKENS, .n_layers = LAYERS, .layer_bytes = LAYER_BYTES};
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

static sp_tier *open_tier(const char *url, const sp_digest *space, const char *key)
{
    sp_tier *t;
    check(sp_remote_tier_open(&(sp_remote_tier_opts){.url = url,
                                                     .space = space,
                                                     .mac_key = key,
                                                     .n_mac_key = key ? strlen(key) : 0,
                                                     .timeout_us = 30000000},
                              &t));
    check(sp_remote_tier_await(t, 30000000));
    for (uint32_t i = 0; i < COPIES; i++) {
        sp_record r = record_of(i, space);
        check(sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_PUT, .record = &r, .source = source, .user = &i}));
    }
    return t;
}

/* load -- all copies, asked for together. */
static void load(sp_tier *t, const sp_digest *space, uint8_t *memory)
{
    sp_tier_job jobs[COPIES];
    sp_tier_op *ops[COPIES];
    for (uint32_t i = 0; i < COPIES; i++) {
        const sp_record r = record_of(i, space);
        jobs[i] = (sp_tier_job){.verb = SP_TIER_GET,
                                .key = sp_tier_key_of(&r),
                                .n_layers = LAYERS,
                                .sink = sink,
                                .user = memory + (size_t)i * LAYERS * LAYER_BYTES};
    }
    check(sp_tier_submit_all(t, jobs, COPIES, ops));
    for (int i = 0; i < COPIES; i++) {
        if (!sp_tier_op_wait(ops[i], 60000000)) check(sp_fail(SP_E_IO, "a load is not over after a minute"));
        check(sp_tier_op_result(ops[i]));
        sp_tier_op_release(ops[i]);
    }
}

static redisReply *reply_of(redisContext *c)
{
    void *r = NULL;
    if (redisGetReply(c, &r) != REDIS_OK) {
        fprintf(stderr, "remote_load: %s\n", c->errstr);
        exit(1);
    }
    return r;
}

/* The values of the copies: [n] commands that get them. */
typedef struct values {
    redisReply *keys, *fields[COPIES];
} values;

static values find_values(redisContext *c)
{
    values v = {.keys = redisCommand(c, "KEYS SPOLIA:*:copy:*")};
    if (!v.keys || v.keys->elements != COPIES) check(sp_fail(SP_E_ARG, "the server is not empty"));
    for (int i = 0; i < COPIES; i++) v.fields[i] = redisCommand(c, "HKEYS %s", v.keys->element[i]->str);
    return v;
}

static void get_values(redisContext *c, const values *v)
{
    size_t n = 0, bytes = 0;
    for (int i = 0; i < COPIES; i++)
        for (size_t k = 0; k < v->fields[i]->elements; k++, n++)
            redisAppendCommand(c, "HGET %s %s", v->keys->element[i]->str, v->fields[i]->element[k]->str);
    for (; n; n--) {
        redisReply *r = reply_of(c);
        bytes += r->len;
        freeReplyObject(r);
    }
    if ((double)bytes < ALL) check(sp_fail(SP_E_IO, "values are missing"));
}

/* cpu_s -- of this process. */
static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void say(const char *name, double *v, int n, const char *unit)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    printf("%-36s %6.2f %s (%.2f to %.2f)\n", name, v[n / 2], unit, v[0], v[n - 1]);
}

int main(int argc, char **argv)
{
    static const sp_digest open_space = {{0xbe}}, sealed_space = {{0xbf}};
    static double speed[WAYS][MOST_ROUNDS], ratio[WAYS][MOST_ROUNDS], cpu[WAYS][MOST_ROUNDS];
    const int n_rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;
    sp_redis_address a;
    if (argc < 2 || n_rounds < 1 || n_rounds > MOST_ROUNDS) return fprintf(stderr, "remote_load URL [ROUNDS]\n"), 2;
    check(sp_redis_parse(argv[1], &a));
    redisContext *c = redisConnect(a.host, a.port);
    uint8_t *memory = malloc((size_t)ALL);
    if (!c || c->err || !memory) return fprintf(stderr, "remote_load: no connection\n"), 1;
    sp_tier *t = open_tier(argv[1], &open_space, NULL);
    const values v = find_values(c);
    sp_tier *sealed = open_tier(argv[1], &sealed_space, "a key of thirty-two bytes, at the most");
    for (int i = -1; i < n_rounds; i++) /* the first round is not counted */
        for (int k = 0; k < WAYS; k++) {
            const int way = (k + i + 1) % WAYS;
            const int64_t began = sp_clock_us();
            const double cpu_began = cpu_s();
            if (way == PLAIN) get_values(c, &v);
            if (way == LOAD) load(t, &open_space, memory);
            if (way == SEALED) load(sealed, &sealed_space, memory);
            if (i < 0) continue;
            speed[way][i] = ALL / 1e3 / (double)(sp_clock_us() - began);
            cpu[way][i] = (cpu_s() - cpu_began) * 1e3 / (ALL / 1e9);
        }
    for (int way = LOAD; way < WAYS; way++)
        for (int i = 0; i < n_rounds; i++) ratio[way][i] = speed[way][i] / speed[PLAIN][i];
    for (int way = 0; way < WAYS; way++) say(names[way], speed[way], n_rounds, "GB/s");
    for (int way = 0; way < WAYS; way++) say(names[way], cpu[way], n_rounds, "ms of CPU a GB");
    say("remote tier / plain", ratio[LOAD], n_rounds, "");
    say("remote tier with a key / plain", ratio[SEALED], n_rounds, "");
    sp_tier_close(t);
    sp_tier_close(sealed);
    redisFree(c);
    free(memory);
    return 0;
}
