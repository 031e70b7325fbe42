/* test_sweep.c -- what a sweep drops, and that after one that overwrites no file of the store holds a byte of it. */
#include "support/check.h"
#include "support/files_with.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "store/sweep.h"
#include "disk.h"

enum { SAMPLE = 64, COPIES = 24 };

/* put_as -- a copy of a kind; id, earlier: its own, and one that it was computed after; NULL: as noise has them. */
static void put(bench *b, noise *c)
{
    assert_ok(sp_tier_run(
        b->tier, &(sp_tier_job){.verb = SP_TIER_PUT, .record = &c->record, .source = noise_source, .user = c}));
}

static void put_as(bench *b, uint32_t number, sp_copy_kind kind, const sp_digest *id, const sp_digest *earlier)
{
    noise c;
    noise_init(&c, number, 1);
    c.record.facts.kind = kind;
    if (id) c.record.facts.id = *id;
    if (earlier) c.before[2] = *earlier;
    put(b, &c);
}

/* put_after -- a copy of kind 1 that was computed after another. */
static void put_after(bench *b, uint32_t number, const sp_digest *earlier)
{
    put_as(b, number, SP_COPY_FUSED, NULL, earlier);
}

/* -- what is in the files ------------------------------------------------------------------- */

/* n_layers_seen -- how many layers of a copy the files hold, in any place. */
static int n_layers_seen(const bench *b, uint32_t number, uint32_t version)
{
    noise c;
    int n = 0;
    noise_init(&c, number, version);
    uint8_t *layer = malloc(c.record.layer_bytes);
    for (int i = 0; i < NOISE_LAYERS; i++) {
        noise_layer(&c, i, layer);
        n += files_with(b->dir, layer + 1000, SAMPLE) > 0 ||
             files_with(b->dir, layer + c.record.layer_bytes - SAMPLE, SAMPLE) > 0;
    }
    free(layer);
    return n;
}

static sp_digest id_of(uint32_t number)
{
    noise c;
    noise_init(&c, number, 1);
    return c.record.facts.id;
}

/* -- tests ---------------------------------------------------------------------------------- */

/* erase -- copies of these segments, and copies of kind 1 that were computed after one. */
static sp_err erase(bench *b, const sp_digest *ids, size_t n, int64_t *n_gone)
{
    return sp_sweep_run(b->tier,
                        &(sp_sweep_opts){.ids = ids, .n = n, .after = 1u << 1, .overwrite = true},
                        n_gone);
}

static void nothing_of_a_swept_copy_is_left(void **state)
{
    bench b;
    int64_t n_gone = 0;
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    for (uint32_t i = 0; i < COPIES; i++) assert_ok(noise_put(b.tier, i, 1));
    assert_ok(noise_put(b.tier, 6, 2)); /* the older bytes are dead space */
    sp_digest ids[] = {id_of(6), id_of(8)};
    put_after(&b, 50, &ids[0]);
    sp_digest other = id_of(7);
    put_after(&b, 51, &other);
    assert_int_equal(n_layers_seen(&b, 6, 2), NOISE_LAYERS);
    assert_int_equal(n_layers_seen(&b, 50, 1), NOISE_LAYERS);
    assert_true(files_with(b.dir, &ids[0], sizeof ids[0]) > 0);
    assert_ok(erase(&b, ids, 2, &n_gone));
    assert_int_equal(n_gone, 3);
    assert_int_equal(n_layers_seen(&b, 6, 1), 0);
    assert_int_equal(n_layers_seen(&b, 6, 2), 0);
    assert_int_equal(n_layers_seen(&b, 8, 1), 0);
    assert_int_equal(n_layers_seen(&b, 50, 1), 0); /* computed after one of them */
    assert_int_equal(n_layers_seen(&b, 51, 1), NOISE_LAYERS);
    for (int i = 0; i < 2; i++) assert_int_equal(files_with(b.dir, &ids[i], sizeof ids[i]), 0);
    bench_end(&b);
}

static void the_other_copies_stay(void **state)
{
    bench b;
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    for (uint32_t i = 0; i < COPIES; i++) assert_ok(noise_put(b.tier, i, 1));
    sp_digest id = id_of(0);
    assert_ok(erase(&b, &id, 1, NULL));
    for (int reopened = 0; reopened < 2; reopened++) {
        assert_int_equal(noise_get(b.tier, 0, 1), SP_E_NOTFOUND);
        for (uint32_t i = 1; i < COPIES; i++) assert_ok(noise_get(b.tier, i, 1));
        sp_tier_close(b.tier);
        assert_ok(sp_disk_tier_open(&b.opts, &b.tier));
    }
    assert_ok(noise_put(b.tier, 0, 3)); /* and it can be put again */
    assert_ok(noise_get(b.tier, 0, 3));
    bench_end(&b);
}

static void it_stays_gone_without_the_index(void **state)
{
    bench b;
    char index[600];
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    for (uint32_t i = 0; i < COPIES; i++) assert_ok(noise_put(b.tier, i, 1));
    sp_digest id = id_of(3);
    assert_ok(erase(&b, &id, 1, NULL));
    sp_tier_close(b.tier);
    assert_int_equal(unlink(file_in(b.dir, "index", index)), 0);
    assert_ok(sp_disk_tier_open(&b.opts, &b.tier)); /* from the segments */
    assert_int_equal(noise_get(b.tier, 3, 1), SP_E_NOTFOUND);
    assert_ok(noise_get(b.tier, 4, 1));
    bench_end(&b);
}

/* A sweep works on some copies at a time: these are more. */
static void all_batches_are_swept(void **state)
{
    enum { MANY = 140 };
    bench b;
    int64_t n_gone = 0;
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 16 << 20});
    const sp_digest id = id_of(2);
    for (uint32_t i = 0; i < MANY; i++) put_after(&b, 100 + i, &id);
    assert_ok(noise_put(b.tier, 1, 1));
    assert_ok(erase(&b, &id, 1, &n_gone));
    assert_int_equal(n_gone, MANY);
    assert_int_equal(sp_tier_stats_of(b.tier).n_copies, 1);
    bench_end(&b);
}

/* A patch has not seen what the copy below it was computed after; its other tokens have. */
static void what_was_below_a_patch_counts(void **state)
{
    bench b;
    int64_t n_gone = 0;
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    const sp_digest id = id_of(2), below[] = {id_of(3), id_of(4), id};
    for (int i = 0; i < 4; i++) { /* 50: below nothing; 53: the last of three */
        noise c;
        noise_init(&c, 50 + (uint32_t)i, 1);
        c.record.facts.kind = SP_COPY_FUSED;
        c.record.facts.below = below + 3 - i;
        c.record.facts.n_below = i;
        put(&b, &c);
    }
    assert_ok(erase(&b, &id, 1, &n_gone));
    assert_int_equal(n_gone, 3);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(n_layers_seen(&b, 50 + i, 1), i ? 0 : NOISE_LAYERS);
    bench_end(&b);
}

/* What is kept is named; heads and questions of paths have no names there. */
static void paths_of_what_is_not_kept_go_with_it(void **state)
{
    bench b;
    int64_t n_gone = 0;
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    const sp_digest stays = id_of(6), goes[] = {id_of(8), id_of(10)};
    assert_ok(noise_put(b.tier, 6, 1));
    assert_ok(noise_put(b.tier, 10, 1)); /* not in the order of their ids */
    assert_ok(noise_put(b.tier, 8, 1));
    put_as(&b, 50, SP_COPY_PATH, &goes[0], NULL);
    put_as(&b, 51, SP_COPY_PATH, NULL, &goes[1]);
    put_as(&b, 52, SP_COPY_PATH, &stays, NULL);
    put_as(&b, 53, SP_COPY_PATH, NULL, &stays);
    const sp_sweep_opts o = {.ids = &stays, .n = 1, .keep = true, .after = 1u << SP_COPY_PATH, .overwrite = true};
    assert_ok(sp_sweep_run(b.tier, &o, &n_gone));
    assert_int_equal(n_gone, 4);
    for (uint32_t i = 50; i < 54; i++) assert_int_equal(n_layers_seen(&b, i, 1), i < 52 ? 0 : NOISE_LAYERS);
    assert_ok(noise_get(b.tier, 6, 1));
    bench_end(&b);
}

/* -- headers that cannot be read ------------------------------------------------------------ */

/* A read that fails once is an error of the sweep, and the copy stays: the next sweep finds it. */
static void a_header_that_cannot_be_read_is_an_error(void **state)
{
    for (int all_or_none = 0; all_or_none < 2; all_or_none++) {
        bench b;
        int64_t n_gone = -1;
        bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
        for (uint32_t i = 0; i < 4; i += 2) assert_ok(noise_put(b.tier, i, 1));
        const sp_digest id = id_of(2);
        put_after(&b, 50, &id);
        const sp_sweep_opts o = {
            .ids = &id, .n = 1, .after = 1u << 1, .overwrite = true, .all_or_none = all_or_none};
        sp_store_fault(SP_CALL_READ, 1, EIO, true);
        assert_fails(sp_sweep_run(b.tier, &o, &n_gone), SP_E_IO, "cannot read");
        sp_store_fault(0, 0, 0, false);
        assert_int_equal(n_gone, !all_or_none);
        assert_int_equal(sp_tier_stats_of(b.tier).n_copies, all_or_none ? 3 : 2);
        assert_ok(sp_sweep_run(b.tier, &o, &n_gone));
        assert_int_equal(n_gone, 1 + all_or_none);
        assert_int_equal(n_layers_seen(&b, 50, 1), 0);
        bench_end(&b);
    }
}

/* A damaged header is a miss for everyone, and nothing of its copy is left. */
static void a_damaged_header_is_erased(void **state)
{
    bench b;
    char path[600];
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    const sp_digest id = id_of(2);
    put_after(&b, 50, &id);
    FILE *f = fopen(file_in(b.dir, "00000001.kv", path), "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 40, SEEK_SET), 0);
    assert_int_equal(fputc('x', f), 'x');
    fclose(f);
    assert_ok(erase(&b, &id, 1, NULL));
    assert_int_equal(sp_tier_stats_of(b.tier).n_copies, 0);
    assert_int_equal(n_layers_seen(&b, 50, 1), 0);
    bench_end(&b);
}

/* put_later -- put_after, by a later version. */
static void put_later(bench *b, uint32_t number, const sp_digest *earlier)
{
    char path[600];
    put_after(b, number, earlier);
    FILE *f = fopen(file_in(b->dir, "00000001.kv", path), "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 8, SEEK_SET), 0);
    assert_int_equal(fputc(99, f), 99);
    fclose(f);
}

/* Nobody here can say what a copy of a later version has seen: an erasure removes it, another sweep fails. */
static void a_copy_of_a_later_version_is_erased(void **state)
{
    bench b;
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    const sp_digest id = id_of(2);
    put_later(&b, 50, &id);
    const sp_sweep_opts o = {.ids = &id, .n = 1, .after = 1u << 1};
    assert_fails(sp_sweep_run(b.tier, &o, NULL), SP_E_UNSUPPORTED, "version 99");
    assert_int_equal(sp_tier_stats_of(b.tier).n_copies, 1);
    assert_ok(erase(&b, &id, 1, NULL));
    assert_int_equal(sp_tier_stats_of(b.tier).n_copies, 0);
    assert_int_equal(n_layers_seen(&b, 50, 1), 0);
    bench_end(&b);
}

/* A header that cannot be read, and then a drop that is refused: this process is not the writer. */
static void the_first_error_is_the_sweeps(void **state)
{
    bench b;
    sp_tier *reader;
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    const sp_digest id = id_of(2);
    put_later(&b, 50, &id);
    assert_ok(noise_put(b.tier, 2, 1));
    sp_disk_tier_opts o = b.opts;
    o.read_only = true;
    assert_ok(sp_disk_tier_open(&o, &reader));
    assert_int_equal(sp_sweep_run(reader, &(sp_sweep_opts){.ids = &id, .n = 1}, NULL), SP_E_IO);
    assert_fails(sp_sweep_run(reader, &(sp_sweep_opts){.ids = &id, .n = 1, .after = 1u << 1}, NULL),
                 SP_E_UNSUPPORTED, "version 99");
    sp_tier_close(reader);
    bench_end(&b);
}

/* -- bytes that no copy has ----------------------------------------------------------------- */

/* Deleting a file fails while a test says so. */
static atomic_bool refuses;
static atomic_int n_refused;

int unlink(const char *path)
{
    if (!atomic_load(&refuses) || access(path, F_OK) != 0) return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    atomic_fetch_add(&n_refused, 1);
    errno = EIO;
    return -1;
}

/* drop_all -- of copies 0 .. n-1; nothing is overwritten. */
static void drop_all(bench *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        assert_ok(sp_tier_run(b->tier, &(sp_tier_job){.verb = SP_TIER_DROP, .key = noise_key(i)}));
}

/* A segment without copies whose file cannot be deleted is erased by the next deletion, and deleted later. */
static void a_file_that_cannot_be_deleted_is_erased(void **state)
{
    for (int reopened = 0; reopened < 2; reopened++) {
        bench b;
        char path[600];
        bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 64 << 10});
        for (uint32_t i = 0; i < 4; i++) assert_ok(noise_put(b.tier, i, 1));
        atomic_store(&n_refused, 0);
        atomic_store(&refuses, true);
        drop_all(&b, 3);
        assert_ok(noise_get(b.tier, 3, 1)); /* so that the index is rewritten, without the dropped ones */
        if (reopened) bench_reopen(&b);
        for (int i = 0; i < 10000 && atomic_load(&n_refused) == 0; i++) usleep(2000);
        assert_true(atomic_load(&n_refused) > 0);
        assert_true(n_layers_seen(&b, 0, 1) > 0); /* the file is there */
        const sp_digest id = id_of(0);
        assert_ok(erase(&b, &id, 1, NULL));
        for (uint32_t i = 0; i < 3; i++) assert_int_equal(n_layers_seen(&b, i, 1), 0);
        assert_ok(noise_get(b.tier, 3, 1));
        atomic_store(&refuses, false);
        bench_reopen(&b);
        assert_ok(noise_get(b.tier, 3, 1));
        assert_int_equal(access(file_in(b.dir, "00000001.kv", path), F_OK), -1);
        bench_end(&b);
    }
}

static sp_err erase_now(void *user)
{
    bench *b = user;
    const sp_tier_key key = noise_key(1);
    SP_TRY(sp_tier_run(b->tier, &(sp_tier_job){.verb = SP_TIER_DROP, .key = key}));
    return sp_tier_run(b->tier, &(sp_tier_job){.verb = SP_TIER_ERASE});
}

/* The id of a copy would be a trace of it. */
static void what_is_dropped_after_its_erasure_leaves_no_line(void **state)
{
    bench b;
    const sp_digest id = id_of(1);
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    put_all(b.tier, 3, 1);
    for (int again = 0; again < 2; again++) {
        assert_ok(erase_now(&b));
        assert_int_equal(files_with(b.dir, &id, sizeof id), 0);
        assert_ok(sp_tier_run(b.tier, &(sp_tier_job){.verb = SP_TIER_DROP, .key = noise_key(1)}));
        assert_int_equal(files_with(b.dir, &id, sizeof id), 0);
        assert_ok(noise_put(b.tier, 1, 1)); /* and a drop right after a put is one */
        assert_ok(sp_tier_run(b.tier, &(sp_tier_job){.verb = SP_TIER_DROP, .key = noise_key(1)}));
        assert_int_equal(noise_get(b.tier, 1, 1), SP_E_NOTFOUND);
    }
    bench_reopen(&b);
    assert_int_equal(noise_get(b.tier, 1, 1), SP_E_NOTFOUND);
    assert_ok(noise_get(b.tier, 2, 1));
    bench_end(&b);
}

static sp_err erase_at_head(void *user, const sp_record *head)
{
    SP_UNUSED(head);
    return erase_now(user);
}

static sp_err no_layer(void *user, int layer, const void *from)
{
    SP_UNUSED(user), SP_UNUSED(layer), SP_UNUSED(from);
    return SP_OK;
}

/* A copy that is erased while it is read seems damaged. */
static void what_is_read_during_its_erasure_leaves_no_line(void **state)
{
    bench b;
    char path[600];
    const sp_digest id = id_of(1);
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10, .n_readers = 1});
    put_all(b.tier, 2, 1);
    const sp_tier_stats stats = sp_tier_stats_of(b.tier);
    FILE *f = fopen(file_in(b.dir, "00000001.kv", path), "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, -2 * SP_PAGE, SEEK_END), 0); /* in the last layer of copy 1 */
    for (int i = 0; i < 2 * SP_PAGE; i++) fputc('x', f);
    fclose(f);
    const sp_err err = sp_tier_run(b.tier, &(sp_tier_job){.verb = SP_TIER_GET, .key = noise_key(1),
                                                          .n_layers = NOISE_LAYERS, .head = erase_at_head,
                                                          .sink = no_layer, .user = &b});
    assert_int_equal(err, SP_E_FORMAT);
    assert_int_equal(sp_tier_stats_of(b.tier).n_copies, stats.n_copies - 1);
    assert_int_equal(files_with(b.dir, &id, sizeof id), 0);
    bench_end(&b);
}

/* The index that an open has put aside names copies, or contains anything else. */
static void a_damaged_index_that_was_kept_is_deleted(void **state)
{
    bench b;
    char path[600];
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 64 << 10});
    for (uint32_t i = 0; i < 4; i++) assert_ok(noise_put(b.tier, i, 1));
    sp_tier_close(b.tier);
    FILE *f = fopen(file_in(b.dir, "index", path), "r+");
    assert_true(f && fputc('x', f) == 'x' && fclose(f) == 0);
    bench_open(&b);
    assert_int_equal(access(file_in(b.dir, "index.damaged", path), F_OK), 0);
    const sp_digest id = id_of(1);
    atomic_store(&refuses, true);
    assert_fails(erase(&b, &id, 1, NULL), SP_E_IO, "index.damaged: cannot delete");
    atomic_store(&refuses, false);
    assert_ok(erase(&b, &id, 1, NULL));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(files_with(b.dir, &id, sizeof id), 0);
    assert_ok(noise_get(b.tier, 2, 1));
    bench_end(&b);
}

/* A full budget is an error, not an endless loop, while no file can be deleted. */
static void a_put_that_needs_a_file_deleted_fails(void **state)
{
    bench b;
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 64 << 10, .max_bytes = 400 << 10});
    for (uint32_t i = 0; i < 4; i++) assert_ok(noise_put(b.tier, i, 1));
    atomic_store(&refuses, true);
    sp_err err = SP_OK;
    for (uint32_t i = 4; i < 12 && err == SP_OK; i++) err = noise_put(b.tier, i, 1);
    assert_fails(err, SP_E_IO, "cannot delete");
    atomic_store(&refuses, false);
    for (uint32_t i = 12; i < 20; i++) assert_ok(noise_put(b.tier, i, 1));
    assert_ok(noise_get(b.tier, 19, 1));
    bench_end(&b);
}

/* Files that somebody else has deleted no longer count against the budget. */
static void files_that_are_gone_need_no_deletion(void **state)
{
    bench b;
    char name[16], path[600];
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 64 << 10, .max_bytes = 400 << 10});
    for (uint32_t i = 0; i < 4; i++) assert_ok(noise_put(b.tier, i, 1));
    for (int i = 1; i <= 4; i++) {
        snprintf(name, sizeof name, "%08x.kv", i);
        assert_int_equal(unlink(file_in(b.dir, name, path)), 0);
    }
    for (uint32_t i = 4; i < 20; i++) assert_ok(noise_put(b.tier, i, 1));
    assert_ok(noise_get(b.tier, 19, 1));
    bench_end(&b);
}

/* What a put that failed has written may be longer than what is written over it. */
static void bytes_of_a_put_that_failed_are_erased(void **state)
{
    bench b;
    noise c;
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 160 << 10});
    noise_init(&c, 2, 1);
    c.source_fails_at = (sp_err)NOISE_LAYERS;
    const sp_tier_job job = noise_put_job(&c);
    assert_fails(sp_tier_run(b.tier, &job), SP_E_NOKV, "the device is lost");
    assert_ok(noise_put(b.tier, 3, 1)); /* shorter, in the same place */
    assert_ok(noise_put(b.tier, 5, 1)); /* in the next file */
    assert_true(n_layers_seen(&b, 2, 1) > 0);
    const sp_digest id = id_of(2);
    assert_ok(erase(&b, &id, 1, NULL));
    assert_int_equal(n_layers_seen(&b, 2, 1), 0);
    assert_ok(noise_get(b.tier, 3, 1));
    assert_ok(noise_get(b.tier, 5, 1));
    bench_end(&b);
}

/* -- a tier that hangs ---------------------------------------------------------------------- */

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
} gate;

static sp_err wait_at(void *user, const sp_tier_info *info)
{
    gate *g = user;
    SP_UNUSED(info);
    pthread_mutex_lock(&g->lock);
    while (!g->open) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return SP_OK;
}

static sp_err wait_to_write(void *user, int layer, void *to)
{
    SP_UNUSED(layer);
    SP_UNUSED(to);
    return wait_at(user, NULL);
}

static void open_gate(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* While a test runs its own clock, each wait opens the next gate, and a deadline that was waited for before passes. */
static struct {
    gate *next[3]; /* NULL: the system's clock */
    struct timespec last;
    int n_waits;
} clocked;

typedef int timed_wait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct timespec *end)
{
    static timed_wait *real;
    if (!real) real = (timed_wait *)dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    if (!clocked.next[0]) return real(cond, lock, end);
    if (memcmp(&clocked.last, end, sizeof *end) == 0) return ETIMEDOUT;
    clocked.last = *end;
    if (clocked.next[clocked.n_waits]) open_gate(clocked.next[clocked.n_waits++]);
    return pthread_cond_wait(cond, lock);
}

/* The time to wait begins again with each operation that ends: here the sync waits for a put, the list for readers. */
static void a_sweep_that_makes_progress_is_waited_for(void **state)
{
    bench b;
    noise c;
    sp_sweep *sweep;
    gate put = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}, read = put;
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    assert_ok(noise_put(b.tier, 1, 1));
    noise_init(&c, 2, 1);
    assert_ok(sp_tier_submit(
        b.tier,
        &(sp_tier_job){.verb = SP_TIER_PUT, .record = &c.record, .source = wait_to_write, .user = &put},
        NULL));
    for (int i = 0; i < 2; i++) /* all threads that read */
        assert_ok(
            sp_tier_submit(b.tier, &(sp_tier_job){.verb = SP_TIER_LIST, .each = wait_at, .user = &read}, NULL));
    const sp_digest id = id_of(1);
    assert_ok(sp_sweep_begin(b.tier, &(sp_sweep_opts){.ids = &id, .n = 1}, &sweep));
    clocked.next[0] = &put;
    clocked.next[1] = &read;
    assert_true(sp_sweep_wait(sweep, 1000000));
    assert_int_equal(clocked.n_waits, 2);
    clocked.next[0] = NULL;
    assert_ok(sp_sweep_result(sweep));
    sp_sweep_release(sweep);
    bench_end(&b);
}

/* Whoever waits for a sweep may leave; it ends when the tier answers, and frees itself. */
static void a_sweep_may_be_left(void **state)
{
    bench b;
    sp_sweep *sweep;
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    for (int cancel = 0; cancel < 2; cancel++) {
        bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
        g.open = false;
        for (uint32_t i = 0; i < 3; i++) assert_ok(noise_put(b.tier, i, 1));
        for (int i = 0; i < 2; i++) /* all threads that read */
            assert_ok(sp_tier_submit(
                b.tier, &(sp_tier_job){.verb = SP_TIER_LIST, .each = wait_at, .user = &g}, NULL));
        const sp_digest id = id_of(1);
        assert_ok(sp_sweep_begin(b.tier, &(sp_sweep_opts){.ids = &id, .n = 1}, &sweep));
        assert_false(sp_sweep_wait(sweep, 20000));
        if (cancel) sp_sweep_cancel(sweep);
        sp_sweep_release(sweep);
        open_gate(&g);
        assert_ok(sp_tier_run(b.tier, &(sp_tier_job){.verb = SP_TIER_SYNC}));
        for (int i = 0; i < 500 && sp_tier_stats_of(b.tier).n_copies == 3 && !cancel; i++) usleep(2000);
        bench_end(&b);
    }
}

static void a_cancelled_sweep_drops_nothing_more(void **state)
{
    bench b;
    sp_sweep *sweep;
    size_t n_gone;
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    bench_begin(&b, (sp_disk_tier_opts){.segment_bytes = 256 << 10});
    for (uint32_t i = 0; i < 3; i++) assert_ok(noise_put(b.tier, i, 1));
    for (int i = 0; i < 2; i++) /* all threads that read */
        assert_ok(
            sp_tier_submit(b.tier, &(sp_tier_job){.verb = SP_TIER_LIST, .each = wait_at, .user = &g}, NULL));
    const sp_digest id = id_of(1);
    assert_ok(sp_sweep_begin(b.tier, &(sp_sweep_opts){.ids = &id, .n = 1}, &sweep));
    sp_sweep_cancel(sweep);
    open_gate(&g);
    assert_true(sp_sweep_wait(sweep, 60000000));
    assert_int_equal(sp_sweep_result(sweep), SP_E_CANCELED);
    sp_sweep_gone(sweep, &n_gone);
    assert_int_equal(n_gone, 0);
    assert_int_equal(sp_tier_stats_of(b.tier).n_copies, 3);
    sp_sweep_release(sweep);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_a_swept_copy_is_left),
        cmocka_unit_test(the_other_copies_stay),
        cmocka_unit_test(it_stays_gone_without_the_index),
        cmocka_unit_test(all_batches_are_swept),
        cmocka_unit_test(what_was_below_a_patch_counts),
        cmocka_unit_test(paths_of_what_is_not_kept_go_with_it),
        cmocka_unit_test(a_header_that_cannot_be_read_is_an_error),
        cmocka_unit_test(a_damaged_header_is_erased),
        cmocka_unit_test(a_copy_of_a_later_version_is_erased),
        cmocka_unit_test(the_first_error_is_the_sweeps),
        cmocka_unit_test(a_file_that_cannot_be_deleted_is_erased),
        cmocka_unit_test(a_damaged_index_that_was_kept_is_deleted),
        cmocka_unit_test(what_is_dropped_after_its_erasure_leaves_no_line),
        cmocka_unit_test(what_is_read_during_its_erasure_leaves_no_line),
        cmocka_unit_test(a_put_that_needs_a_file_deleted_fails),
        cmocka_unit_test(files_that_are_gone_need_no_deletion),
        cmocka_unit_test(bytes_of_a_put_that_failed_are_erased),
        cmocka_unit_test(a_sweep_that_makes_progress_is_waited_for),
        cmocka_unit_test(a_sweep_may_be_left),
        cmocka_unit_test(a_cancelled_sweep_drops_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
