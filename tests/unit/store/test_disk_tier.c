/* test_disk_tier.c -- what was put comes back, and nothing else ever does. */
#include "support/check.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>

#include "disk.h"
#include "store/disk/disk_int.h"

static const char *const kinds[] = {"threads", "uring"};

/* -- what was put comes back ---------------------------------------------------------------- */

static void a_copy_round_trips(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        bench b;
        if (!bench_begin(&b, (sp_disk_tier_opts){.io = kinds[k]})) continue;
        assert_string_equal(sp_disk_tier_io(b.tier), kinds[k]);
        for (uint32_t i = 0; i < 30; i++) {
            assert_int_equal(noise_get(b.tier, i, 1), SP_E_NOTFOUND);
            assert_ok(noise_put(b.tier, i, 1));
            assert_ok(noise_get(b.tier, i, 1));
        }
        for (uint32_t i = 0; i < 30; i += 2) assert_ok(noise_put(b.tier, i, 2));
        bench_reopen(&b);
        for (uint32_t i = 0; i < 30; i++) assert_ok(noise_get(b.tier, i, i % 2 ? 1 : 2));
        sp_tier_stats s = sp_tier_stats_of(b.tier);
        assert_int_equal(s.n_copies, 30);
        assert_int_equal(s.n_got, 30);
        assert_int_equal(s.n_damaged, 0);
        assert_true(s.bytes_live < s.bytes_used && s.index_bytes > 0);
        bench_end(&b);
    }
}

static void ranges_of_layers_are_read(void **state)
{
    bench b;
    noise c;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    noise_init(&c, 7, 1);
    assert_ok(noise_put(b.tier, 7, 1));
    for (int first = 0; first <= NOISE_LAYERS; first++)
        for (int n = 0; first + n <= NOISE_LAYERS; n++) {
            sp_tier_job job = noise_get_job(&c, first, n);
            c.has_head = false;
            assert_ok(sp_tier_run(b.tier, &job));
            assert_true(c.has_head);
            assert_int_equal(c.n_layers, n);
        }
    sp_tier_job beyond = noise_get_job(&c, 3, NOISE_LAYERS);
    assert_fails(sp_tier_run(b.tier, &beyond), SP_E_ARG, "layers 3 to 7 of a copy of 5");
    assert_ok(noise_get(b.tier, 7, 1));
    bench_end(&b);
}

/* What is written is what the memory holds when the disk is ready for it, here after a while. */
static atomic_bool disk_is_slow;

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    if (atomic_load(&disk_is_slow)) usleep(20000);
    return (ssize_t)syscall(SYS_pwrite64, fd, data, n, at);
}

static void large_layers_are_read_in_pieces(void **state)
{
    enum { LAYERS = 3 };
    static const uint64_t sizes[] = {4096, 3 << 20, 9 << 20}; /* the last is larger than the arena */
    for (size_t k = 0; k < SP_COUNT(kinds); k++)
        for (size_t i = 0; i < SP_COUNT(sizes); i++) {
            bench b;
            noise c;
            if (!bench_begin(&b, (sp_disk_tier_opts){.io = kinds[k]})) continue;
            noise_init(&c, (uint32_t)i, 1);
            c.record.n_layers = LAYERS;
            c.record.layer_bytes = sizes[i];
            sp_tier_job put = noise_put_job(&c), get = noise_get_job(&c, 0, LAYERS);
            atomic_store(&disk_is_slow, true); /* a layer after the second has the memory of an earlier one */
            assert_ok(sp_tier_run(b.tier, &put));
            atomic_store(&disk_is_slow, false);
            assert_ok(sp_tier_run(b.tier, &get));
            assert_int_equal(c.n_layers, LAYERS);
            bench_end(&b);
        }
}

/* Layers larger than half of the arena have two slots. (AddressSanitizer's allocator reports no bytes.) */
static void large_layers_need_memory_for_two(void **state)
{
    enum { LAYERS = 6, LAYER = 5 << 20 };
    bench b;
    noise c;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){.n_readers = 1}));
    noise_init(&c, 1, 1);
    c.record.n_layers = LAYERS;
    c.record.layer_bytes = LAYER;
    sp_tier_job put = noise_put_job(&c), get = noise_get_job(&c, 0, LAYERS);
    assert_ok(sp_tier_run(b.tier, &put));
    const size_t before = mallinfo2().hblkhd;
    assert_ok(sp_tier_run(b.tier, &get));
    assert_true(mallinfo2().hblkhd < before + 3 * LAYER);
    bench_end(&b);
}

typedef struct listed {
    int n;
    int64_t bytes;
} listed;

static sp_err count_one(void *user, const sp_tier_info *info)
{
    listed *l = user;
    l->n++;
    l->bytes += info->bytes;
    return info->n == NOISE_TOKENS ? SP_OK : sp_fail(SP_E_LIMIT, "%d tokens", info->n);
}

static int count_listed(sp_tier *t)
{
    listed l = {0};
    assert_ok(sp_tier_run(
        t, &(sp_tier_job){.verb = SP_TIER_LIST, .each = count_one, .user = &l}));
    assert_int_equal(l.bytes, sp_tier_stats_of(t).bytes_live);
    return l.n;
}

static void dropped_copies_are_not_listed(void **state)
{
    bench b;
    noise c;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    put_all(b.tier, 8, 1);
    assert_int_equal(count_listed(b.tier), 8);
    assert_ok(noise_drop(b.tier, 3));
    assert_ok(noise_drop(b.tier, 3));
    noise_init(&c, 3, 1);
    sp_tier_key key = sp_tier_key_of(&c.record);
    assert_false(sp_tier_knows(b.tier, &key));
    assert_int_equal(noise_get(b.tier, 3, 1), SP_E_NOTFOUND);
    bench_reopen(&b);
    assert_int_equal(noise_get(b.tier, 3, 1), SP_E_NOTFOUND);
    assert_int_equal(count_listed(b.tier), 7);
    bench_end(&b);
}

static void what_cannot_be_is_refused(void **state)
{
    bench b;
    noise c;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    noise_init(&c, 1, 1);
    sp_tier_job job = noise_put_job(&c);
    c.record.n = 0;
    assert_fails(sp_tier_run(b.tier, &job), SP_E_ARG, "0 tokens");
    noise_init(&c, 1, 1);
    c.record.facts.n_head = 9;
    assert_fails(sp_tier_run(b.tier, &job), SP_E_ARG, "head of 9");
    noise_init(&c, 1, 1);
    c.record.space = other_noise_space;
    assert_fails(sp_tier_run(b.tier, &job), SP_E_ARG, "another namespace");
    noise_init(&c, 1, 1);
    c.source_fails_at = 3;
    assert_fails(sp_tier_run(b.tier, &job), SP_E_NOKV, "device is lost");
    assert_int_equal(sp_tier_stats_of(b.tier).bytes_used, 0);
    assert_int_equal(noise_get(b.tier, 1, 1), SP_E_NOTFOUND);
    bench_end(&b);
}

static void namespaces_are_apart(void **state)
{
    bench b;
    sp_tier *other;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    assert_ok(noise_put(b.tier, 1, 1));
    assert_ok(sp_disk_tier_open(
        &(sp_disk_tier_opts){.dir = b.dir, .space = &other_noise_space}, &other));
    assert_true(sp_tier_is_writer(other));
    assert_int_equal(noise_get(other, 1, 1), SP_E_NOTFOUND);
    sp_tier_close(other);
    bench_end(&b);
}

/* -- cancelling ------------------------------------------------------------------------------ */

typedef struct gate {
    noise c;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int layer; /* whose source waits */
    bool entered, open;
} gate;

static sp_err wait_at_gate(void *user, int layer, void *to)
{
    gate *g = user;
    pthread_mutex_lock(&g->lock);
    g->entered |= layer == g->layer;
    pthread_cond_broadcast(&g->changed);
    while (g->entered && !g->open) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return noise_source(&g->c, layer, to);
}

/* cancel_in -- a put is cancelled while it reads a layer, and one that waits for it. */
static void cancel_in(int layer)
{
    bench b;
    noise second;
    sp_tier_op *first_op, *second_op;
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .layer = layer};
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    noise_init(&g.c, 1, 1);
    noise_init(&second, 2, 1);
    sp_tier_job slow = {
        .verb = SP_TIER_PUT, .record = &g.c.record, .source = wait_at_gate, .user = &g};
    sp_tier_job waiting = noise_put_job(&second);
    assert_ok(sp_tier_submit(b.tier, &slow, &first_op));
    pthread_mutex_lock(&g.lock);
    while (!g.entered) pthread_cond_wait(&g.changed, &g.lock);
    pthread_mutex_unlock(&g.lock);
    assert_ok(sp_tier_submit(b.tier, &waiting, &second_op));
    assert_false(sp_tier_op_wait(first_op, 1000)); /* a time-out */
    assert_int_equal(noise_get(b.tier, 1, 1), SP_E_NOTFOUND); /* reads do not wait for a write */
    sp_tier_op_cancel(first_op);
    sp_tier_op_cancel(second_op);
    pthread_mutex_lock(&g.lock);
    g.open = true;
    pthread_cond_broadcast(&g.changed);
    pthread_mutex_unlock(&g.lock);
    assert_true(sp_tier_op_wait(first_op, -1));
    assert_true(sp_tier_op_wait(second_op, -1));
    assert_true(sp_tier_op_is_done(second_op));
    assert_int_equal(sp_tier_op_result(first_op), SP_E_CANCELED);
    assert_int_equal(sp_tier_op_result(second_op), SP_E_CANCELED);
    sp_tier_op_release(first_op);
    sp_tier_op_release(second_op);
    assert_int_equal(sp_tier_stats_of(b.tier).n_copies, 0);
    assert_ok(noise_put(b.tier, 1, 1));
    assert_ok(noise_get(b.tier, 1, 1));
    bench_end(&b);
}

/* After the last layer, too: whoever cancels may no longer hold the copy that was read. */
static void a_canceled_operation_ends(void **state)
{
    for (int i = 0; i < NOISE_LAYERS; i += NOISE_LAYERS - 1) cancel_in(i);
}

/* -- space ----------------------------------------------------------------------------------- */

static int64_t bytes_of_files(const bench *b)
{
    char path[600];
    int64_t sum = 0;
    DIR *dir = opendir(file_in(b->dir, "", path));
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        if (strstr(e->d_name, ".kv") && stat(file_in(b->dir, e->d_name, path), &st) == 0)
            sum += st.st_size;
    }
    closedir(dir);
    return sum;
}

static int n_dropped;
static void note_dropped(void *user, const sp_tier_key *key)
{
    n_dropped++;
}

static void the_budget_is_kept(void **state)
{
    enum { BUDGET = 1 << 20, N = 160 };
    bench b;
    int n_there = 0;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    sp_tier_close(b.tier);
    b.opts.max_bytes = BUDGET;
    b.opts.segment_bytes = 128 << 10;
    b.opts.evict.dropped = note_dropped;
    n_dropped = 0;
    bench_open(&b);
    for (uint32_t i = 0; i < N; i++) {
        assert_ok(noise_put(b.tier, i, 1));
        assert_true(bytes_of_files(&b) <= BUDGET + b.opts.segment_bytes);
        if (i > 10) assert_ok(noise_get(b.tier, 5, 1)); /* used all the time, so never dropped */
        if (i % 7 == 0) assert_ok(noise_put(b.tier, i / 2 + 6, 1));
    }
    sp_tier_stats s = sp_tier_stats_of(b.tier);
    assert_true(s.bytes_used <= BUDGET && s.bytes_live > BUDGET / 2);
    assert_true(s.n_evicted > 0 && s.n_evicted == n_dropped && s.bytes_moved > 0);
    bench_reopen(&b);
    for (uint32_t i = 0; i < N; i++) {
        sp_err err = noise_get(b.tier, i, 1);
        assert_true(err == SP_OK || err == SP_E_NOTFOUND);
        n_there += err == SP_OK;
    }
    assert_int_equal(n_there, s.n_copies);
    assert_ok(noise_get(b.tier, 5, 1));
    assert_ok(noise_get(b.tier, N - 1, 1));
    assert_int_equal(sp_tier_stats_of(b.tier).n_damaged, 0);
    bench_end(&b);
}

static bool drop_copy_2(void *user, sp_tier_key *out)
{
    noise c;
    noise_init(&c, 2, 1);
    *out = sp_tier_key_of(&c.record);
    return true;
}

/* A put leaves the reserve of the disk free; what is there is served, dropped and moved as ever. */
static void a_reserve_stays_free(void **state)
{
    bench b;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    assert_ok(noise_put(b.tier, 1, 1));
    assert_ok(noise_put(b.tier, 2, 1));
    b.opts.reserve_bytes = INT64_MAX;
    bench_reopen(&b);
    assert_fails(noise_put(b.tier, 3, 1), SP_E_LIMIT, "MiB of the disk are free");
    assert_fails(noise_put(b.tier, 1, 2), SP_E_LIMIT, b.dir);
    assert_ok(noise_get(b.tier, 1, 1));
    assert_int_equal(noise_get(b.tier, 3, 1), SP_E_NOTFOUND);
    sp_tier_key key = noise_key(2);
    assert_ok(sp_tier_run(b.tier, &(sp_tier_job){.verb = SP_TIER_DROP, .key = key}));
    b.opts.reserve_bytes = -1;
    bench_reopen(&b);
    assert_ok(noise_put(b.tier, 3, 1));
    assert_ok(noise_get(b.tier, 1, 1));
    bench_end(&b);
}

/* The space of the disk, while a test says it. */
static int64_t free_pages;

int statvfs(const char *path, struct statvfs *out)
{
    const int fd = open(path, O_RDONLY);
    const int rc = fd < 0 ? -1 : fstatvfs(fd, out);
    if (fd >= 0) close(fd);
    if (!free_pages) return rc;
    *out = (struct statvfs){.f_frsize = SP_PAGE, .f_blocks = 1 << 20, .f_bavail = (fsblkcnt_t)free_pages};
    return 0;
}

/* It is free after the put, not only before. */
static void a_reserve_is_free_after_a_put(void **state)
{
    enum { RESERVE = 100 };
    bench b;
    noise c;
    noise_init(&c, 1, 1);
    const int64_t pages = (int64_t)sp_record_layout_of(&c.record).pages;
    free_pages = RESERVE + pages;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){.reserve_bytes = RESERVE * SP_PAGE}));
    assert_ok(noise_put(b.tier, 1, 1));
    free_pages--;
    assert_fails(noise_put(b.tier, 1, 2), SP_E_LIMIT, "MiB of the disk are free");
    free_pages = 0;
    bench_end(&b);
}

typedef struct uses {
    int n;
    int64_t of[8];
    uint32_t number[8]; /* in the order of use */
} uses;

static sp_err note_uses(void *user, const sp_tier_info *info)
{
    uses *u = user;
    for (uint32_t i = 0; i < 8; i++) {
        const sp_tier_key key = noise_key(i);
        if (memcmp(&key.id, &info->key.id, sizeof key.id) == 0) u->number[u->n] = i;
    }
    u->of[u->n++] = info->n_uses;
    return SP_OK;
}

/* The order of use and the counts are there after a restart; a read alone is no use by a request. */
static void the_order_of_use_outlives_a_restart(void **state)
{
    bench b;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    put_all(b.tier, 4, 1);
    for (int i = 0; i < 3; i++) sp_tier_use(b.tier, &(sp_tier_key){.kind = 99});
    for (int start = 0; start < 3; start++) {
        const sp_tier_key first = noise_key(0), third = noise_key(2);
        sp_tier_use(b.tier, &first);
        sp_tier_use(b.tier, &third);
        sp_tier_use(b.tier, &first);
        assert_ok(noise_get(b.tier, 1, 1));
        bench_reopen(&b);
        uses u = {0};
        assert_ok(sp_tier_run(b.tier, &(sp_tier_job){.verb = SP_TIER_LIST, .each = note_uses, .user = &u}));
        const uint32_t order[] = {3, 2, 0, 1};
        const int64_t counts[] = {0, start + 1, 2 * (start + 1), 0};
        assert_int_equal(u.n, 4);
        assert_memory_equal(u.number, order, sizeof order);
        assert_memory_equal(u.of, counts, sizeof counts);
    }
    const sp_tier_key third = noise_key(2); /* of a process that reads nothing, too */
    sp_tier_use(b.tier, &third);
    bench_reopen(&b);
    uses u = {0};
    assert_ok(sp_tier_run(b.tier, &(sp_tier_job){.verb = SP_TIER_LIST, .each = note_uses, .user = &u}));
    assert_int_equal(u.n, 4);
    assert_memory_equal(u.number, ((uint32_t[]){3, 0, 1, 2}), 4 * sizeof *u.number);
    assert_memory_equal(u.of, ((int64_t[]){0, 6, 0, 4}), 4 * sizeof *u.of);
    bench_end(&b);
}

static sp_err head_only(void *user, const sp_record *r)
{
    SP_UNUSED(user);
    SP_UNUSED(r);
    return SP_OK;
}

static void reading_a_header_is_no_use(void **state)
{
    bench b;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    put_all(b.tier, 3, 1);
    assert_ok(sp_tier_run(b.tier, &(sp_tier_job){.verb = SP_TIER_GET, .key = noise_key(0), .head = head_only}));
    uses u = {0};
    assert_ok(sp_tier_run(b.tier, &(sp_tier_job){.verb = SP_TIER_LIST, .each = note_uses, .user = &u}));
    assert_int_equal(u.n, 3);
    assert_int_equal(u.number[0], 0); /* the oldest still */
    bench_end(&b);
}

enum { NOTES = 64 };

/* with_notes -- layers whose notes are all 7. */
static sp_err with_notes(void *user, int layer, void *to)
{
    const noise *c = user;
    memset((uint8_t *)to + c->record.layer_bytes, 7, NOTES);
    return noise_source(user, layer, to);
}

/* take_notes -- user: the first byte of the notes of each layer. */
static sp_err take_notes(void *user, int layer, const void *from)
{
    ((uint8_t *)user)[layer] = ((const uint8_t *)from)[NOISE_BYTES + NOTES - 1];
    return SP_OK;
}

/* Notes can be derived again: damaged ones come as zeros, and the copy is no miss. */
static void damaged_notes_are_left_out(void **state)
{
    bench b;
    noise c;
    char path[600];
    uint8_t got[NOISE_LAYERS] = {0};
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    noise_init(&c, 3, 1);
    assert_int_equal(c.record.layer_bytes, NOISE_BYTES);
    c.record.facts.note_bytes = NOTES;
    const sp_record_layout l = sp_record_layout_of(&c.record);
    sp_tier_job job = noise_put_job(&c);
    job.source = with_notes;
    assert_ok(sp_tier_run(b.tier, &job));
    FILE *f = fopen(file_in(b.dir, "00000001.kv", path), "r+");
    assert_non_null(f);
    const long at = (long)(l.head_pages + 2 * l.layer_pages) * SP_PAGE + NOISE_BYTES + NOTES - 1;
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fgetc(f), 7);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fputc(8, f), 8);
    fclose(f);
    const sp_tier_job get = {.verb = SP_TIER_GET, .key = sp_tier_key_of(&c.record), .n_layers = NOISE_LAYERS,
                             .sink = take_notes, .user = got};
    assert_ok(sp_tier_run(b.tier, &get));
    for (int i = 0; i < NOISE_LAYERS; i++) assert_int_equal(got[i], i == 2 ? 0 : 7);
    bench_end(&b);
}

enum { SAME, OTHER_ID, OTHER_HEAD, OTHER_KIND, OTHER_SPACE, N_VARIANTS };

/* write_variant -- the first segment of a store that has copy 3, or one of the same size, there. */
static void write_variant(const char *dir, int variant)
{
    noise c;
    sp_tier *t;
    const sp_digest *in = variant == OTHER_SPACE ? &other_noise_space : &noise_space;
    noise_init(&c, variant == OTHER_ID ? 63 : 3, 1);
    if (variant == OTHER_HEAD) c.before[0].b[0] ^= 1;
    if (variant == OTHER_KIND) c.record.facts.kind = 0;
    c.record.space = *in;
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir, .space = in}, &t));
    const sp_tier_job job = noise_put_job(&c);
    assert_ok(sp_tier_run(t, &job));
    sp_tier_close(t);
}

/* Whole and with right checksums, but not what the index names. */
static void a_segment_of_another_store_is_damage(void **state)
{
    for (int variant = 0; variant < N_VARIANTS; variant++) {
        bench b;
        char dir[128], from[300], to[600];
        assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
        assert_ok(noise_put(b.tier, 3, 1));
        sp_tier_close(b.tier);
        make_folder(dir, sizeof dir);
        write_variant(dir, variant);
        snprintf(from, sizeof from, "%s/%s010000000000000000000000000000/00000001.kv", dir,
                 variant == OTHER_SPACE ? "5b" : "5a");
        assert_int_equal(rename(from, file_in(b.dir, "00000001.kv", to)), 0);
        bench_open(&b);
        assert_int_equal(noise_get(b.tier, 3, 1), variant == SAME ? SP_OK : SP_E_FORMAT);
        assert_int_equal(sp_tier_stats_of(b.tier).n_failed, 0);
        assert_int_equal(sp_tier_stats_of(b.tier).n_copies, variant == SAME);
        bench_end(&b);
        remove_folder(dir);
    }
}

/* Trimming once is no budget: what was used longest ago goes, and later puts stay. */
static void trimming_drops_the_least_used(void **state)
{
    bench b;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    put_all(b.tier, 40, 1);
    assert_ok(noise_get(b.tier, 0, 1)); /* used last */
    const int64_t half = sp_tier_stats_of(b.tier).bytes_used / 2;
    sp_tier_job trim = {.verb = SP_TIER_TRIM, .max_bytes = half};
    assert_ok(sp_tier_run(b.tier, &trim));
    sp_tier_stats s = sp_tier_stats_of(b.tier);
    assert_true(s.n_copies > 10 && s.n_copies < 20 && s.bytes_used <= half);
    assert_true(bytes_of_files(&b) <= half);
    assert_ok(noise_get(b.tier, 0, 1));
    assert_ok(noise_get(b.tier, 39, 1));
    assert_int_equal(noise_get(b.tier, 1, 1), SP_E_NOTFOUND);
    for (uint32_t i = 100; i < 140; i++) assert_ok(noise_put(b.tier, i, 1));
    assert_int_equal(sp_tier_stats_of(b.tier).n_copies, s.n_copies + 40);
    bench_reopen(&b);
    assert_ok(noise_get(b.tier, 0, 1));
    trim.max_bytes = 0;
    assert_ok(sp_tier_run(b.tier, &trim));
    assert_int_equal(sp_tier_stats_of(b.tier).n_copies, 0);
    assert_int_equal(bytes_of_files(&b), 0);
    b.opts.must_write = true;
    sp_tier *second = NULL;
    assert_fails(sp_disk_tier_open(&b.opts, &second), SP_E_IO, "another process");
    assert_null(second);
    bench_end(&b);
}

/* The files fit when the operation ends, and stay so: nothing is moved afterwards, which takes space for a while. */
static void after_trimming_nothing_is_moved(void **state)
{
    enum { N_DROPS = 30 };
    for (int i = 2; i < 8; i++) {
        bench b;
        sp_tier_job jobs[N_DROPS + 1];
        sp_tier_op *ops[N_DROPS + 1];
        assert_true(bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 400 << 10}));
        put_all(b.tier, 40, 1);
        const int64_t most = sp_tier_stats_of(b.tier).bytes_used * i / 8;
        for (uint32_t k = 0; k < N_DROPS; k++) /* three of four */
            jobs[k] = (sp_tier_job){.verb = SP_TIER_DROP, .key = noise_key(k + k / 3 + 1)};
        jobs[N_DROPS] = (sp_tier_job){.verb = SP_TIER_TRIM, .max_bytes = most};
        assert_ok(sp_tier_submit_all(b.tier, jobs, N_DROPS + 1, ops)); /* at once: no pause to tidy in between */
        assert_true(sp_tier_op_wait(ops[N_DROPS], -1));
        const int64_t used = sp_tier_stats_of(b.tier).bytes_used;
        assert_true(used <= most);
        for (int k = 0; k < 20; k++, usleep(5000)) assert_int_equal(sp_tier_stats_of(b.tier).bytes_used, used);
        for (int k = 0; k <= N_DROPS; k++) sp_tier_op_release(ops[k]);
        bench_end(&b);
    }
}

static void the_policy_chooses_the_victim(void **state)
{
    bench b;
    noise large;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    put_all(b.tier, 4, 1);
    int64_t live = sp_tier_stats_of(b.tier).bytes_live;
    sp_tier_close(b.tier);
    b.opts.max_bytes = live + live / 4;
    b.opts.evict.victim = drop_copy_2;
    bench_open(&b);
    assert_ok(noise_put(b.tier, 4, 1));
    assert_int_equal(noise_get(b.tier, 2, 1), SP_E_NOTFOUND);
    assert_ok(noise_get(b.tier, 4, 1));
    noise_init(&large, 9, 1);
    large.record.layer_bytes = (uint64_t)live;
    sp_tier_job job = noise_put_job(&large);
    assert_fails(sp_tier_run(b.tier, &job), SP_E_LIMIT, "budget");
    bench_end(&b);
}

/* Replaced and dropped copies leave dead space, which is reclaimed when nothing else is to do. */
static void space_comes_back(void **state)
{
    bench b;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    sp_tier_close(b.tier);
    b.opts.segment_bytes = 512 << 10;
    bench_open(&b);
    for (uint32_t version = 1; version <= 5; version++)
        for (uint32_t i = 0; i < 40; i++) assert_ok(noise_put(b.tier, i, version));
    for (uint32_t i = 0; i < 40; i++)
        if (i % 4) assert_ok(noise_drop(b.tier, i));
    bench_reopen(&b);
    assert_ok(noise_drop(b.tier, 1));
    sp_tier_stats s = {0};
    for (int i = 0; i < 30000; i++) {
        s = sp_tier_stats_of(b.tier);
        if (s.bytes_used < 2 * s.bytes_live + (1 << 20) && bytes_of_files(&b) == s.bytes_used) break;
        usleep(10000); /* it may still be at work */
    }
    assert_true(s.bytes_used < 2 * s.bytes_live + (1 << 20));
    assert_int_equal(bytes_of_files(&b), s.bytes_used);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(noise_get(b.tier, i, 5), i % 4 ? SP_E_NOTFOUND : SP_OK);
    bench_reopen(&b);
    for (uint32_t i = 0; i < 40; i += 4) assert_ok(noise_get(b.tier, i, 5));
    bench_end(&b);
}

/* keep_info -- of copy 1; user: sp_tier_info. */
static sp_err keep_info(void *user, const sp_tier_info *info)
{
    const sp_tier_key key = noise_key(1);
    if (sp_digest_eq(&key.id, &info->key.id)) *(sp_tier_info *)user = *info;
    return SP_OK;
}

/* Room is made by moving it out of a segment that is mostly dropped copies. */
static void what_is_known_of_a_copy_moves_with_it(void **state)
{
    bench b;
    const sp_tier_key key = noise_key(1);
    const sp_tier_job list = {.verb = SP_TIER_LIST, .each = keep_info};
    sp_tier_info info[2] = {0};
    assert_true(bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 1 << 20}));
    put_all(b.tier, 30, 1);
    for (int i = 0; i < 3; i++) sp_tier_use(b.tier, &key);
    for (int moved = 0; moved < 2; moved++) {
        sp_tier_job job = list;
        job.user = &info[moved];
        assert_ok(sp_tier_run(b.tier, &job));
        assert_int_equal(info[moved].n_uses, 3);
        assert_true(info[moved].cost_us == 12.5f);
        assert_true(info[moved].facts & SP_FACT_STATS && info[moved].facts & SP_FACT_HEAVY);
        assert_int_equal(info[moved].facts, info[0].facts);
        assert_int_equal(info[moved].n, NOISE_TOKENS);
        for (uint32_t i = 2; i < 30 && !moved; i++) assert_ok(noise_drop(b.tier, i));
        for (int i = 0; i < 30000 && !sp_tier_stats_of(b.tier).bytes_moved && !moved; i++) usleep(10000);
        assert_true(sp_tier_stats_of(b.tier).bytes_moved > 0);
    }
    assert_int_equal(sp_tier_stats_of(b.tier).n_evicted, 0); /* dropped copies are none */
    assert_int_equal(sp_tier_stats_of(b.tier).n_dropped, 28);
    bench_end(&b);
}

/* The index does not grow with history. */
static void the_index_stays_short(void **state)
{
    bench b;
    char path[600];
    struct stat st;
    assert_true(bench_begin(&b, (sp_disk_tier_opts){0}));
    assert_ok(noise_put(b.tier, 1, 1));
    sp_tier_op *op = NULL;
    noise c;
    noise_init(&c, 2, 1);
    for (int i = 0; i < 5000; i++) {
        sp_tier_op_release(op);
        assert_ok(sp_tier_submit(b.tier,
                                 &(sp_tier_job){.verb = SP_TIER_DROP,
                                                .key = sp_tier_key_of(&c.record)},
                                 &op));
    }
    assert_true(sp_tier_op_wait(op, -1));
    sp_tier_op_release(op);
    for (int i = 0; i < 30000; i++) {
        assert_int_equal(stat(file_in(b.dir, "index", path), &st), 0);
        if (st.st_size < 100 * 88) break;
        usleep(10000);
    }
    assert_true(st.st_size < 100 * 88);
    assert_ok(noise_get(b.tier, 1, 1));
    bench_reopen(&b);
    assert_ok(noise_get(b.tier, 1, 1));
    bench_end(&b);
}

/* -- a disk that hangs ---------------------------------------------------------------------- */

static void *look_up(void *arg)
{
    const sp_tier_key key = noise_key(1);
    sp_tier *t = arg;
    sp_tier_use(t, &key);
    return sp_tier_knows(t, &key) && sp_tier_stats_of(t).n_copies == 1 ? arg : NULL;
}

/* The file of a segment does not open: look-ups in memory do not wait for it. */
static void a_look_up_does_not_wait_for_the_disk(void **state)
{
    char dir[128], path[600];
    sp_tier *t, *reader;
    sp_tier_op *op;
    pthread_t thread;
    noise c;
    void *known = NULL;
    struct timespec end;
    make_folder(dir, sizeof dir);
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir, .space = &noise_space}, &t));
    assert_ok(noise_put(t, 1, 1));
    assert_ok(sp_disk_tier_open(
        &(sp_disk_tier_opts){.dir = dir, .space = &noise_space, .read_only = true}, &reader));
    file_in(dir, "00000001.kv", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it waits for one who writes */
    noise_init(&c, 1, 1);
    const sp_tier_job job = noise_get_job(&c, 0, NOISE_LAYERS);
    assert_ok(sp_tier_submit(reader, &job, &op));
    usleep(50000);
    assert_false(sp_tier_op_is_done(op));
    assert_int_equal(pthread_create(&thread, NULL, look_up, reader), 0);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 300;
    assert_int_equal(pthread_timedjoin_np(thread, &known, &end), 0);
    assert_ptr_equal(known, reader);
    for (int i = 0; i < 30000 && !sp_tier_op_is_done(op); i++) {
        const int fd = open(path, O_RDWR); /* it opens; what reads it waits until this is closed */
        usleep(10000);
        close(fd);
        usleep(1000);
    }
    assert_true(sp_tier_op_wait(op, 60000000));
    assert_int_not_equal(sp_tier_op_result(op), SP_OK);
    sp_tier_op_release(op);
    sp_tier_close(reader);
    sp_tier_close(t);
    remove_folder(dir);
}

static void as_many_threads_read_as_were_asked_for(void **state)
{
    static const int asked[] = {0, 1, 3, SP_DISK_MAX_READERS, SP_DISK_MAX_READERS + 1};
    for (size_t i = 0; i < SP_COUNT(asked); i++) {
        bench b;
        assert_true(bench_begin(&b, (sp_disk_tier_opts){.n_readers = asked[i], .io = "threads"}));
        const sp_disk_tier *d = (const sp_disk_tier *)b.tier;
        assert_int_equal(d->n_readers, asked[i] ? SP_MIN(asked[i], (int)SP_DISK_MAX_READERS) : 2);
        assert_ok(noise_put(b.tier, 1, 1));
        assert_int_equal(noise_get(b.tier, 1, 1), SP_OK);
        bench_end(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_up_does_not_wait_for_the_disk),
        cmocka_unit_test(as_many_threads_read_as_were_asked_for),
        cmocka_unit_test(a_copy_round_trips),
        cmocka_unit_test(ranges_of_layers_are_read),
        cmocka_unit_test(large_layers_are_read_in_pieces),
        cmocka_unit_test(large_layers_need_memory_for_two),
        cmocka_unit_test(dropped_copies_are_not_listed),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(namespaces_are_apart),
        cmocka_unit_test(a_canceled_operation_ends),
        cmocka_unit_test(the_budget_is_kept),
        cmocka_unit_test(a_reserve_stays_free),
        cmocka_unit_test(a_reserve_is_free_after_a_put),
        cmocka_unit_test(the_order_of_use_outlives_a_restart),
        cmocka_unit_test(reading_a_header_is_no_use),
        cmocka_unit_test(damaged_notes_are_left_out),
        cmocka_unit_test(a_segment_of_another_store_is_damage),
        cmocka_unit_test(trimming_drops_the_least_used),
        cmocka_unit_test(after_trimming_nothing_is_moved),
        cmocka_unit_test(the_policy_chooses_the_victim),
        cmocka_unit_test(space_comes_back),
        cmocka_unit_test(what_is_known_of_a_copy_moves_with_it),
        cmocka_unit_test(the_index_stays_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
