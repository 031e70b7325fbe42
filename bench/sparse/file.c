/* file.c -- sparse decoding from a file, beside the same from memory and what the disk allows.
 *
 *   context   random keys and values in spans of 1,024 tokens, written to the file as they are made
 *   full      the same answers with full attention, in memory
 *   greedy    each answer decodes its most likely tokens; the run in memory must have the same ones
 *   hits      so many of the blocks that a step reads are those that the step before read, the others
 *             random (forced.h)
 *   bound     min(rate in memory, bytes a second of random reads / bytes that a token reads) */
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "engine/engine.h"
#include "engine/offload/offload.h"
#include "forced.h"
#include "random_kv.h"
#include "serve/request/decode.h"
#include "store/aio/pages.h"

enum { SPAN = 1024, WARM = 2, MAX_TOKENS = 256, MAX_ANSWERS = 8 };

typedef struct disk {
    const file_bench *b;
    sp_model *model;
    sp_device *device;
    sp_kv_pool *pool;
    sp_offload *offload; /* or NULL: all in memory */
    sp_engine *engine;
    sp_decode_choice choice;
    sp_plan plan;
    bool has_plan;
    int depth;
    float *logits;
    uint64_t random;
} disk;

/* What an answer took. */
typedef struct outcome {
    double rate; /* tokens a second */
    int32_t tokens[MAX_TOKENS];
    sp_sparse_account sparse;
    sp_offload_stats then, now;
} outcome;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double resident_bytes(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*s %ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* -- a context ------------------------------------------------------------------------------ */

/* memory_bytes -- for sp_offload_opts; false: --memory is no share and no size. */
static bool memory_bytes(const disk *d, const sp_kv_shape *shape, int64_t n_blocks, size_t *out)
{
    char *end;
    double v = strtod(d->b->memory, &end);
    const double kv = (double)sp_kv_block_bytes(shape) * sp_blocks_for(d->depth);
    const double lists = (double)shape->n_layers * shape->n_heads * (double)n_blocks;
    const double index = lists * (double)(sp_summary_bytes(SP_SUMMARY_BOUNDS, shape->head) + 8 +
                                          sp_pages_sum_bytes());
    if (strcmp(end, "%") == 0)
        v = v / 100 * kv + index;
    else if (strcmp(end, "G") == 0)
        v *= 1 << 30;
    else if (strcmp(end, "M") == 0)
        v *= 1 << 20;
    else
        return false;
    *out = (size_t)v;
    return v > 0;
}

/* answer_room -- tokens of all answers over one context. */
static int answer_room(const disk *d)
{
    return (d->b->predict + WARM) * MAX_ANSWERS;
}

static const char *folder_of(const disk *d)
{
    return d->b->dir ? d->b->dir : "/var/tmp";
}

static sp_err open_pool(disk *d, bool from_disk)
{
    const file_bench *b = d->b;
    const sp_hparams *hp = &d->model->hp;
    sp_kv_shape shape = {
        .n_layers = hp->n_layers, .n_heads = hp->n_kv_heads, .head = hp->head, .type = SP_Q16};
    if (b->kv_type && strcmp(b->kv_type, SP_KV_TYPE) != 0)
        return sp_fail(SP_E_ARG, "--from-disk: the KV type is " SP_KV_TYPE);
    const int64_t n = sp_blocks_for(d->depth) + sp_blocks_for(answer_room(d)) + SPAN;
    size_t bytes;
    if (!memory_bytes(d, &shape, n + n / 8, &bytes))
        return sp_fail(SP_E_ARG, "--memory: \"%s\" is no share (10%%) and no size (1G, 500M)",
                       b->memory);
    SP_TRY(sp_kv_pool_create(d->device, &shape, n + (from_disk ? n / 8 : 0), &d->pool));
    if (!from_disk) return SP_OK;
    return sp_offload_create(&(sp_offload_opts){.pool = d->pool,
                                                .max_bytes = bytes,
                                                .dir = folder_of(d)},
                             &d->offload);
}

static sp_err add_spans(disk *d, random_kv *random)
{
    uint32_t blocks[SPAN / SP_BLOCK_TOKENS];
    int span, see;
    for (int at = 0, n; at < d->depth; at += n) {
        n = SP_MIN(SPAN, d->depth - at);
        const int m = sp_blocks_for(n);
        SP_TRY(sp_kv_acquire(d->pool, m, blocks));
        sp_err err = random_kv_store(random, blocks, at, n);
        sp_kv_seal(d->pool, blocks, m);
        if (err == SP_OK && d->offload) err = sp_offload_leave(d->offload, blocks, m);
        if (err == SP_OK)
            err = sp_plan_add_span(
                &d->plan, &(sp_span_spec){.n = n, .at = at, .known = blocks, .n_known = n}, &span);
        sp_kv_release(d->pool, blocks, m);
        SP_TRY(err);
    }
    SP_TRY(
        sp_plan_add_span(&d->plan, &(sp_span_spec){.room = answer_room(d), .at = d->depth}, &span));
    SP_TRY(sp_plan_add_sight(&d->plan, NULL, d->plan.n_spans, &see));
    return sp_plan_bind(&d->plan);
}

static sp_err fill(disk *d)
{
    random_kv random;
    sp_err err = random_kv_open(d->pool, &d->random, &random);
    if (err == SP_OK) err = add_spans(d, &random);
    random_kv_close(&random);
    return err;
}

static sp_err disk_open(disk *d, bool from_disk)
{
    const file_bench *b = d->b;
    SP_TRY(sp_decode_parse(b->decode, &d->choice));
    d->choice.o.min_depth = -1;
    if (d->choice.o.refine == 0)
        d->choice.o.refine = 1; /* as blocks that leave memory are chosen */
    SP_TRY(sp_model_open(b->model, &d->model));
    SP_TRY(sp_device_open(NULL, &(sp_device_opts){.kernels = b->cpu, .n_threads = b->n_threads},
                          &d->device));
    SP_TRY(sp_model_load(d->model, d->device, &(sp_pack_opts){0}));
    SP_TRY(open_pool(d, from_disk));
    SP_TRY(sp_engine_create(&(sp_engine_opts){.model = d->model,
                                              .pool = d->pool,
                                              .n_ctx = d->depth + answer_room(d),
                                              .max_rows = 8,
                                              .max_slices = 8},
                            &d->engine));
    if (d->offload) sp_engine_set_offload(d->engine, d->offload);
    d->logits = sp_alloc((size_t)d->model->hp.n_vocab, sizeof *d->logits);
    if (!d->logits) return sp_fail_nomem("logits");
    d->random = b->seed;
    sp_plan_init(&d->plan, d->pool);
    d->has_plan = true;
    return fill(d);
}

static void disk_close(disk *d)
{
    if (d->has_plan) sp_plan_fini(&d->plan);
    sp_free(d->logits);
    sp_engine_destroy(d->engine);
    sp_offload_destroy(d->offload);
    sp_kv_pool_destroy(d->pool);
    sp_model_close(d->model);
    sp_device_close(d->device);
}

/* -- answers -------------------------------------------------------------------------------- */

static int32_t most_likely(const disk *d)
{
    int32_t best = 0;
    for (int32_t i = 1; i < d->model->hp.n_vocab; i++)
        if (d->logits[i] > d->logits[best]) best = i;
    return best;
}

/* decode -- o NULL: with full attention. */
static sp_err decode(disk *d, const sp_sparse_opts *o, outcome *out)
{
    sp_plan *p = &d->plan;
    sp_err err = o ? sp_sparse_create(o, &p->sparse) : SP_OK;
    double start = 0;
    int32_t token = 1;
    for (int i = 0; i < d->b->predict + WARM && err == SP_OK; i++) {
        if (i == WARM) {
            start = now();
            if (d->offload) out->then = sp_offload_stats_of(d->offload);
        }
        err = sp_plan_grow(p, p->n_spans - 1, token, d->depth + p->spans[p->n_spans - 1].n, 0);
        if (err == SP_OK)
            err = sp_engine_step(d->engine,
                                 &(sp_slice){p, p->n_todo - 1, 1, SP_WANT_LAST, d->logits}, 1);
        if (d->offload) sp_offload_turn(d->offload);
        if (err == SP_OK) out->tokens[i] = token = most_likely(d);
    }
    out->rate = d->b->predict / (now() - start);
    if (d->offload) out->now = sp_offload_stats_of(d->offload);
    if (p->sparse) out->sparse = sp_sparse_account_of(p->sparse);
    sp_sparse_destroy(p->sparse);
    p->sparse = NULL;
    return err;
}

static sp_err decode_forced(disk *d, double hit, outcome *out)
{
    forced f;
    sp_sparse_opts o = d->choice.o;
    sp_err err = forced_open(&f,
                             &(forced_opts){.offload = d->offload,
                                            .plan = &d->plan,
                                            .random = &d->random,
                                            .hit = hit,
                                            .guessed = (double)d->b->guessed / 100},
                             d->pool, sp_blocks_for(d->depth) + 1);
    o.source = forced_source(&f);
    if (err == SP_OK) err = decode(d, &o, out);
    forced_close(&f);
    return err;
}

/* random_reads -- bytes a second that the disk gives for reads of one record, as many at once as decoding has, from a file of
 * its own. */
static sp_err random_reads(const disk *d, size_t record_bytes, double *rate)
{
    enum { AT_ONCE = 512, FILE_BYTES = 1 << 28 };
    const int64_t n_records = (int64_t)(FILE_BYTES / record_bytes / AT_ONCE * AT_ONCE);
    sp_pages *pages = NULL;
    SP_TRY(sp_pages_open(&(sp_pages_opts){.dir = folder_of(d), .record_bytes = record_bytes, .n_records = n_records}, &pages));
    const size_t n = sp_pages_stride(pages);
    uint8_t *to = sp_pages_alloc(AT_ONCE * n); /* of base/mem.h */
    sp_pages_group group = {0};
    uint64_t random = 1;
    sp_err err = to ? SP_OK : sp_fail_nomem("random reads");
    if (to) memset(to, 1, AT_ONCE * n);
    for (int64_t at = 0; at < n_records && err == SP_OK; at += AT_ONCE)
        err = sp_pages_write(pages, &(sp_pages_run){.first = at, .n_rows = 1, .n_cols = AT_ONCE, .row_bytes = AT_ONCE * record_bytes, .at = to});
    const double start = now();
    int64_t total = 0;
    while (err == SP_OK && now() - start < 1) {
        for (int i = 0; i < AT_ONCE; i++, total++)
            sp_pages_fetch(pages, (int64_t)(lab_random(&random) >> 16) % n_records, to + (size_t)i * n, &group);
        if (sp_pages_wait(pages, &group)) err = sp_fail(SP_E_IO, "%s: random reads failed", folder_of(d));
    }
    *rate = (double)total * (double)n / (now() - start);
    sp_pages_free(to, AT_ONCE * n);
    sp_pages_close(pages);
    return err;
}

/* -- the table ------------------------------------------------------------------------------ */

/* How far the comparison in memory went. */
typedef struct compared {
    outcome from_disk, in_memory, full;
    double grown, disk_rate;
} compared;

static void print_row(const disk *d, const char *what, const outcome *o, double ram,
                      double disk_rate)
{
    const double n = d->b->predict, wanted = (double)(o->now.n_wanted - o->then.n_wanted);
    const double bytes =
        (double)(o->now.n_fetched - o->then.n_fetched) * (double)o->now.record_bytes / n;
    const double allowed = bytes > 0 ? disk_rate / bytes : 1e9,
                 least = ram > 0 ? SP_MIN(ram, allowed) : allowed;
    printf("%8d %-10s %8.2f %8.1f %% %9.2f %9.1f %9.2f %7.0f %%\n", d->depth, what, o->rate,
           wanted > 0 ? 100 * (double)(o->now.n_found - o->then.n_found) / wanted : 0, bytes / 1e6,
           (double)(o->now.wait_us - o->then.wait_us) / 1e3 / n, least, 100 * o->rate / least);
    fflush(stdout);
}

static sp_err run_hits(disk *d, compared *c)
{
    bench_list hits = {0};
    if (!d->b->hits) return SP_OK;
    if (!bench_list_parse("hit", d->b->hits, 0, 100, false, &hits))
        return sp_fail(SP_E_ARG, "--hit: \"%s\"", d->b->hits);
    if (hits.n > MAX_ANSWERS - 2)
        return sp_fail(SP_E_ARG, "--hit: at most %d", MAX_ANSWERS - 2);
    for (int i = 0; i < hits.n; i++) {
        outcome o = {0};
        char what[32];
        snprintf(what, sizeof what, "hit %g %%", hits.v[i]);
        SP_TRY(decode_forced(d, hits.v[i] / 100, &o));
        print_row(d, what, &o, c->in_memory.rate, c->disk_rate);
    }
    return SP_OK;
}

static sp_err run_in_memory(const file_bench *b, int depth, compared *c)
{
    disk d = {.b = b, .depth = depth};
    sp_err err = disk_open(&d, false);
    if (err == SP_OK) err = decode(&d, &d.choice.o, &c->in_memory);
    if (err == SP_OK) err = decode(&d, NULL, &c->full);
    disk_close(&d);
    if (err == SP_OK)
        printf("%8d %-10s %8.2f\n%8d %-10s %8.2f\n", depth, "full", c->full.rate, depth, "memory",
               c->in_memory.rate);
    fflush(stdout);
    return err;
}

static sp_err run_from_disk(disk *d, compared *c)
{
    const double before = resident_bytes();
    const double start = now();
    SP_TRY(disk_open(d, true));
    printf("# %d tokens made and written in %.1f s; ", d->depth, now() - start);
    SP_TRY(decode(d, &d->choice.o, &c->from_disk));
    SP_TRY(random_reads(d, c->from_disk.now.record_bytes, &c->disk_rate));
    c->grown = resident_bytes() - before;
    printf("random reads of %zu bytes: %.0f MB/s; summaries %.1f MB, made in %.1f s; memory %.0f "
           "MB with "
           "weights of %.0f MB\n",
           c->from_disk.now.record_bytes, c->disk_rate / 1e6,
           (double)c->from_disk.sparse.summary_bytes / 1e6,
           (double)c->from_disk.sparse.summarize_us / 1e6, c->grown / 1e6,
           (double)d->model->on_device.n_bytes / 1e6);
    print_row(d, "disk", &c->from_disk, c->in_memory.rate, c->disk_rate);
    return run_hits(d, c);
}

static sp_err run_depth(const file_bench *b, int depth)
{
    compared c = {0};
    disk d = {.b = b, .depth = depth};
    const size_t n = (size_t)(b->predict + WARM) * sizeof c.from_disk.tokens[0];
    if (!b->only) SP_TRY(run_in_memory(b, depth, &c));
    sp_err err = run_from_disk(&d, &c);
    disk_close(&d);
    SP_TRY(err);
    if (b->only) return SP_OK;
    if (memcmp(c.from_disk.tokens, c.in_memory.tokens, n) != 0)
        return sp_fail(SP_E_FORMAT, "the tokens from the file are not those from memory");
    printf("# the same %d tokens from the file and from memory\n", b->predict + WARM);
    return SP_OK;
}

int bench_decode_file(const file_bench *b)
{
    if (b->predict + WARM > MAX_TOKENS)
        return cli_fail_with("--predict: at most %d with --from-disk", MAX_TOKENS - WARM), 2;
    printf("%8s %-10s %8s %10s %9s %9s %9s %9s\n", "depth", "from", "tok/s", "found", "MB/tok",
           "ms waited", "bound", "of it");
    for (int i = 0; i < b->depths->n; i++) {
        sp_err err = run_depth(b, (int)b->depths->v[i]);
        if (err != SP_OK) return cli_fail(err);
    }
    return 0;
}
