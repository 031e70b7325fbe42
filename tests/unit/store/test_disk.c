/* test_disk.c -- chunk copies on disk: what was put comes back, and nothing else ever does. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* -- what was put comes back ----------------------------------------------------------------- */

static void test_round_trip(void **state)
{
    static const int32_t sizes[] = {1, 15, 16, 17, 64, 100};
    for (size_t t = 0; t < SP_COUNT(kv_types); t++) {
        bench b;
        bench_begin(&b, kv_types[t]);
        for (size_t i = 0; i < SP_COUNT(sizes); i++) {
            chunk c;
            chunk_begin(&b, &c, 1000 * (int)i, sizes[i]);
            assert_false(loads_as(&b, &c, SP_DISK_PLAIN, 1));
            assert_ok(put(&b, &c, SP_DISK_PLAIN, 1));
            assert_true(loads_as(&b, &c, SP_DISK_PLAIN, 1));
            store_reopen(&b);
            assert_true(finds(&b, &c, SP_DISK_PLAIN));
            assert_true(loads_as(&b, &c, SP_DISK_PLAIN, 1));
            chunk_end(&b, &c);
        }
        assert_int_equal(sp_disk_stats_of(b.disk).n_copies, SP_COUNT(sizes));
        assert_int_equal(count_files(&b), SP_COUNT(sizes));
        bench_end(&b);
    }
}

static void test_scattered_blocks(void **state)
{
    bench b;
    chunk c, gap;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &gap, 0, 16);
    chunk_begin(&b, &c, 100, 80);
    uint32_t swap = c.blocks[0]; /* not neighbours, and not ascending */
    c.blocks[0] = c.blocks[3];
    c.blocks[3] = swap;
    assert_ok(put(&b, &c, SP_DISK_PLAIN, 1));
    assert_true(loads_as(&b, &c, SP_DISK_PLAIN, 1));
    chunk_end(&b, &c);
    chunk_end(&b, &gap);
    bench_end(&b);
}

static void test_plain_and_fused_live_side_by_side(void **state)
{
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 40);
    assert_ok(put(&b, &c, SP_DISK_PLAIN, 1));
    assert_false(loads_as(&b, &c, SP_DISK_FUSED, 3));
    chunk fused;
    chunk_begin(&b, &fused, 0, 40); /* the same tokens, other KV */
    assert_ok(put(&b, &fused, SP_DISK_FUSED, 3));
    assert_true(loads_as(&b, &c, SP_DISK_PLAIN, 1));
    assert_true(loads_as(&b, &fused, SP_DISK_FUSED, 3));
    chunk_end(&b, &c);
    chunk_end(&b, &fused);
    bench_end(&b);
}

static void test_a_newer_copy_takes_the_place(void **state)
{
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 40);
    assert_ok(put(&b, &c, SP_DISK_FUSED, 2));
    fill_noise(&b, c.blocks, sp_blocks_for(40));
    assert_ok(put(&b, &c, SP_DISK_FUSED, 4));
    assert_true(loads_as(&b, &c, SP_DISK_FUSED, 4));
    assert_int_equal(count_files(&b), 1);
    assert_int_equal(sp_disk_stats_of(b.disk).n_copies, 1);
    chunk_end(&b, &c);
    bench_end(&b);
}

static void test_each_head_has_its_copy(void **state)
{
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    sp_disk_copy copy = {.before = before, .n_before = 2, .at = 9};
    sp_disk_key key = {.seg = &c.seg, .head = before, .n_head = 2};
    assert_ok(sp_disk_put(b.disk, &key, &copy, c.blocks));
    assert_false(finds(&b, &c, SP_DISK_PLAIN)); /* behind a head of one segment */
    assert_true(sp_disk_find(b.disk, &key, &copy));
    assert_int_equal(copy.at, 9);
    sp_disk_key without = {.seg = &c.seg};
    assert_false(sp_disk_has(b.disk, &without));
    assert_ok(sp_disk_put(b.disk, &without, &(sp_disk_copy){0}, c.blocks));
    assert_true(sp_disk_find(b.disk, &without, &copy));
    assert_int_equal(copy.n_before, 0);
    assert_fails(
        sp_disk_put(b.disk, &key, &(sp_disk_copy){.before = before + 1, .n_before = 2}, c.blocks),
        SP_E_ARG, "head");
    assert_fails(
        sp_disk_put(b.disk, &key, &(sp_disk_copy){.before = before, .n_before = 1}, c.blocks),
        SP_E_ARG, "head");
    chunk_end(&b, &c);
    bench_end(&b);
}

static void test_remove_and_retain(void **state)
{
    bench b;
    chunk c[6];
    bench_begin(&b, SP_Q8_0);
    for (int i = 0; i < 6; i++) {
        chunk_begin(&b, &c[i], 100 * i, 20);
        assert_ok(put(&b, &c[i], SP_DISK_PLAIN, 1));
        assert_ok(put(&b, &c[i], SP_DISK_FUSED, 2));
    }
    sp_disk_key gone = key_of(&c[0], SP_DISK_FUSED);
    assert_ok(sp_disk_remove(b.disk, &gone));
    assert_ok(sp_disk_remove(b.disk, &gone));
    assert_false(sp_disk_has(b.disk, &gone));
    assert_true(finds(&b, &c[0], SP_DISK_PLAIN));
    assert_int_equal(count_files(&b), 11);
    chunk_end(&b, &c[0]);
    for (int i = 1; i < 6; i++) chunk_end(&b, &c[i]);
    bench_end(&b);
}

typedef struct wanted {
    const chunk *chunks;
    int n;
} wanted;

static bool is_wanted(const sp_digest *id, void *user)
{
    const wanted *w = user;
    for (int i = 0; i < w->n; i++)
        if (sp_digest_eq(id, &w->chunks[i].seg.id)) return true;
    return false;
}

static void test_retain_deletes_what_is_not_wanted(void **state)
{
    enum { N = 90 }; /* the set of names doubles once */
    static chunk c[N];
    bench b;
    int64_t n_removed = -1;
    bench_begin(&b, SP_F16);
    for (int i = 0; i < N; i++) {
        chunk_begin(&b, &c[i], 100 * i, 20);
        assert_ok(put(&b, &c[i], i % 2 ? SP_DISK_FUSED : SP_DISK_PLAIN, 1));
        chunk_end(&b, &c[i]);
    }
    assert_ok(sp_disk_retain(b.disk, is_wanted, &(wanted){c, 30}, &n_removed));
    assert_int_equal(n_removed, N - 30);
    assert_int_equal(count_files(&b), 30);
    for (int i = 0; i < N; i++)
        assert_int_equal(finds(&b, &c[i], i % 2 ? SP_DISK_FUSED : SP_DISK_PLAIN), i < 30);
    assert_ok(sp_disk_retain(b.disk, is_wanted, &(wanted){c, 30}, &n_removed));
    assert_int_equal(n_removed, 0);
    bench_end(&b);
}

/* -- nothing else ever does ------------------------------------------------------------------ */

/* small_file -- a store with one file, and its bytes. */
static void small_file(bench *b, chunk *c, sp_bytes *file, char path[400])
{
    bench_begin(b, SP_Q8_0);
    chunk_begin(b, c, 0, 3);
    assert_ok(put(b, c, SP_DISK_FUSED, 2));
    snprintf(path, 400, "%s", only_file(b));
    read_file(path, file);
}

static void test_truncated_at_every_length(void **state)
{
    bench b;
    chunk c;
    sp_bytes file = {0};
    char path[400];
    lines said = {0};
    small_file(&b, &c, &file, path);
    sp_log_set(SP_LOG_WARN, note_line, &said);
    for (size_t n = 0; n < file.n; n++) {
        write_file(path, file.v, n);
        store_reopen(&b);
        assert_false(loads_as(&b, &c, SP_DISK_FUSED, 2));
        assert_int_equal(said.n, (int)n + 1);
        assert_non_null(strstr(said.last, path));
        assert_int_equal(count_files(&b), 0); /* and is gone */
        assert_false(loads_as(&b, &c, SP_DISK_FUSED, 2));
        assert_int_equal(said.n, (int)n + 1);
    }
    sp_log_set(SP_LOG_WARN, NULL, NULL);
    write_file(path, file.v, file.n);
    store_reopen(&b);
    assert_true(loads_as(&b, &c, SP_DISK_FUSED, 2));
    assert_ok(sp_bytes_add(&file, "", 1)); /* too long is damaged as well */
    write_file(path, file.v, file.n);
    assert_false(finds(&b, &c, SP_DISK_FUSED));
    assert_int_equal(sp_disk_stats_of(b.disk).n_failed, 1);
    sp_vec_fini(&file);
    chunk_end(&b, &c);
    bench_end(&b);
}

static void test_every_flipped_byte(void **state)
{
    bench b;
    chunk c;
    sp_bytes file = {0};
    char path[400];
    small_file(&b, &c, &file, path);
    for (size_t i = 0; i < file.n; i++) {
        char bit = (char)(1 << check_random(&b.seed, 8));
        file.v[i] ^= bit;
        write_file(path, file.v, file.n);
        store_reopen(&b);
        assert_false(loads_as(&b, &c, SP_DISK_FUSED, 2));
        file.v[i] ^= bit;
    }
    write_file(path, file.v, file.n);
    store_reopen(&b);
    assert_true(loads_as(&b, &c, SP_DISK_FUSED, 2));
    sp_vec_fini(&file);
    chunk_end(&b, &c);
    bench_end(&b);
}

static void test_a_damaged_copy_is_replaced(void **state)
{
    bench b;
    chunk c;
    sp_bytes file = {0};
    char path[400];
    small_file(&b, &c, &file, path);
    file.v[file.n / 2] ^= 1;
    write_file(path, file.v, file.n);
    assert_false(loads_as(&b, &c, SP_DISK_FUSED, 2));
    assert_ok(put(&b, &c, SP_DISK_FUSED, 2));
    assert_true(loads_as(&b, &c, SP_DISK_FUSED, 2));
    sp_vec_fini(&file);
    chunk_end(&b, &c);
    bench_end(&b);
}

/* A whole, sound file under a name that is not its own. */
static void test_a_file_under_another_name(void **state)
{
    bench b;
    chunk c, other;
    sp_bytes file = {0};
    char path[400];
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    chunk_begin(&b, &other, 50, 20);
    assert_ok(put(&b, &c, SP_DISK_FUSED, 2));
    snprintf(path, sizeof path, "%s", only_file(&b));
    unlink(path);
    assert_ok(put(&b, &other, SP_DISK_FUSED, 2));
    read_file(only_file(&b), &file);
    write_file(path, file.v, file.n);
    assert_false(loads_as(&b, &c, SP_DISK_FUSED, 2));
    assert_int_equal(sp_disk_stats_of(b.disk).n_failed, 1);
    assert_true(loads_as(&b, &other, SP_DISK_FUSED, 2));
    sp_vec_fini(&file);
    chunk_end(&b, &c);
    chunk_end(&b, &other);
    bench_end(&b);
}

static void test_namespaces_do_not_meet(void **state)
{
    bench b;
    chunk c;
    sp_bytes file = {0};
    char path[400], moved[400];
    lines said = {0};
    small_file(&b, &c, &file, path);
    sp_disk_close(b.disk);
    assert_ok(sp_disk_open(b.dir, &other_space, b.pool, &b.disk));
    assert_int_equal(sp_disk_stats_of(b.disk).n_copies, 0);
    assert_false(loads_as(&b, &c, SP_DISK_FUSED, 2));
    assert_int_equal(sp_disk_stats_of(b.disk).n_failed, 0);
    /* the same file, carried over into the other namespace */
    assert_ok(put(&b, &c, SP_DISK_FUSED, 2));
    snprintf(moved, sizeof moved, "%s", path);
    *strstr(moved, "/5a01") = '\0';
    snprintf(moved + strlen(moved), sizeof moved - strlen(moved), "/5b01%s",
             strstr(path, "/5a01") + 5);
    assert_int_equal(access(moved, F_OK), 0);
    write_file(moved, file.v, file.n);
    sp_log_set(SP_LOG_WARN, note_line, &said);
    assert_false(loads_as(&b, &c, SP_DISK_FUSED, 2));
    sp_log_set(SP_LOG_WARN, NULL, NULL);
    assert_non_null(strstr(said.last, "another model"));
    assert_int_equal(access(moved, F_OK), 0); /* not ours to delete */
    sp_vec_fini(&file);
    chunk_end(&b, &c);
    bench_end(&b);
}

/* -- what other namespaces have --------------------------------------------------------------- */

/* put_in -- into a namespace of the same folder, behind a head, of one tenant. */
static void put_in(bench *b, const sp_digest *in, const char *salt, const chunk *c,
                   const chunk *head, sp_disk_kind kind)
{
    sp_disk *d;
    sp_segment seg = c->seg;
    sp_digest ids[1];
    assert_ok(sp_segment_id(in, salt, head->seg.tokens, head->seg.n, &ids[0]));
    assert_ok(sp_segment_id(in, salt, seg.tokens, seg.n, &seg.id));
    assert_ok(sp_disk_open(b->dir, in, b->pool, &d));
    sp_disk_key key = {.kind = kind, .seg = &seg, .head = ids, .n_head = 1};
    assert_ok(sp_disk_put(d, &key, &(sp_disk_copy){.before = ids, .n_before = 1}, c->blocks));
    sp_disk_close(d);
}

static bool elsewhere(const bench *b, const chunk *c, const chunk *head, const char *salt)
{
    return sp_disk_has_elsewhere(b->disk, &c->seg, &head->seg, 1, salt);
}

static void test_known_to_another_model(void **state)
{
    static const sp_digest third = {{0x5c, 1}};
    bench b;
    chunk head, plain, fused, mine, theirs;
    bench_begin(&b, SP_F16);
    chunk_tokens(&head, 900, 10);
    chunk_begin(&b, &plain, 0, 20);
    chunk_begin(&b, &fused, 100, 40);
    chunk_begin(&b, &mine, 200, 20);
    chunk_begin(&b, &theirs, 300, 20);
    put_in(&b, &other_space, NULL, &plain, &head, SP_DISK_PLAIN);
    put_in(&b, &third, NULL, &fused, &head, SP_DISK_FUSED);
    put_in(&b, &space, NULL, &mine, &head, SP_DISK_PLAIN);
    put_in(&b, &third, "them", &theirs, &head, SP_DISK_PLAIN);
    assert_false(elsewhere(&b, &plain, &head, NULL)); /* opened before there was any */
    store_reopen(&b);
    assert_true(elsewhere(&b, &plain, &head, NULL));
    assert_true(elsewhere(&b, &fused, &head, NULL));
    assert_false(elsewhere(&b, &mine, &head, NULL)); /* this model's */
    /* another tenant's, whoever asks */
    assert_false(elsewhere(&b, &theirs, &head, NULL));
    assert_false(elsewhere(&b, &theirs, &head, "us"));
    assert_false(elsewhere(&b, &plain, &head, "us"));
    assert_true(elsewhere(&b, &theirs, &head, "them"));
    /* another head, another text */
    assert_false(elsewhere(&b, &plain, &plain, NULL));
    assert_false(elsewhere(&b, &head, &head, NULL));
    chunk_end(&b, &plain);
    chunk_end(&b, &fused);
    chunk_end(&b, &mine);
    chunk_end(&b, &theirs);
    bench_end(&b);
}

/* Files that are no copies tell nothing, and a copy that is gone is not there. */
static void test_another_model_is_asked_when_it_counts(void **state)
{
    bench b;
    chunk head, c;
    sp_bytes file = {0};
    char path[400], none[200];
    bench_begin(&b, SP_F16);
    chunk_tokens(&head, 900, 10);
    chunk_begin(&b, &c, 0, 20);
    put_in(&b, &other_space, NULL, &c, &head, SP_DISK_PLAIN);
    snprintf(path, sizeof path, "%s", only_file(&b));
    read_file(path, &file);
    snprintf(none, sizeof none, "%s/%032x", b.dir, 1); /* an empty namespace */
    assert_int_equal(mkdir(none, 0700), 0);
    store_reopen(&b);
    assert_true(elsewhere(&b, &c, &head, NULL));
    assert_int_equal(unlink(path), 0);
    assert_false(elsewhere(&b, &c, &head, NULL));
    for (size_t n = 0; n < 112; n += 37) { /* truncated */
        write_file(path, file.v, n);
        store_reopen(&b);
        assert_false(elsewhere(&b, &c, &head, NULL));
    }
    for (size_t at = 0; at < 80; at += at == 8 ? 40 : 8) { /* magic, version, namespace */
        file.v[at] ^= 1;
        write_file(path, file.v, file.n);
        store_reopen(&b);
        assert_false(elsewhere(&b, &c, &head, NULL));
        file.v[at] ^= 1;
    }
    write_file(path, file.v, file.n);
    store_reopen(&b);
    assert_true(elsewhere(&b, &c, &head, NULL));
    sp_fault_after(1);
    assert_false(elsewhere(&b, &c, &head, NULL)); /* without memory: nothing is known */
    sp_fault_after(-1);
    sp_vec_fini(&file);
    chunk_end(&b, &c);
    bench_end(&b);
}

/* Keys and values go through copies: the host never touches the pool's memory, in runs of blocks
 * nor in single ones. */
static void test_on_a_far_device(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kv_types); k++) {
        sp_device *d;
        bench b;
        chunk c;
        uint32_t odd[BLOCKS];
        assert_ok(far_device_open(&(sp_device_opts){.kernels = "ref", .n_threads = 1}, &d));
        bench_begin_with(&b, store_pool_on(d, kv_types[k], LAYERS));
        chunk_begin(&b, &c, 0, MAX_CHUNK);
        assert_ok(put(&b, &c, SP_DISK_PLAIN, 1));
        assert_true(loads_as(&b, &c, SP_DISK_PLAIN, 1));
        chunk_end(&b, &c);
        assert_ok(sp_kv_acquire(b.pool, BLOCKS, odd)); /* leaves every second block */
        for (int i = 0; i < BLOCKS; i += 2) sp_kv_release(b.pool, &odd[i], 1);
        chunk_begin(&b, &c, 7, 5 * SP_BLOCK_TOKENS);
        assert_ok(put(&b, &c, SP_DISK_PLAIN, 1));
        assert_true(loads_as(&b, &c, SP_DISK_PLAIN, 1));
        for (int i = 1; i < BLOCKS; i += 2) sp_kv_release(b.pool, &odd[i], 1);
        chunk_end(&b, &c);
        bench_end(&b);
    }
}

static void test_another_shape(void **state)
{
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    assert_ok(put(&b, &c, SP_DISK_PLAIN, 1));
    sp_kv_pool *deep = store_pool(SP_F16, LAYERS + 1), *wide = store_pool(SP_F32, LAYERS);
    sp_kv_pool *others[] = {deep, wide};
    for (int i = 0; i < 2; i++) {
        sp_disk *d;
        assert_ok(sp_disk_open(b.dir, &space, others[i], &d));
        sp_disk_key key = key_of(&c, SP_DISK_PLAIN);
        sp_disk_copy copy;
        assert_true(sp_disk_has(d, &key));
        assert_false(sp_disk_find(d, &key, &copy));
        assert_int_equal(sp_disk_stats_of(d).n_failed, 1);
        assert_int_equal(count_files(&b), 1);
        sp_disk_close(d);
        store_pool_close(others[i]);
    }
    chunk_end(&b, &c);
    bench_end(&b);
}

static void test_deleted_by_others(void **state)
{
    bench b;
    chunk c;
    lines said = {0};
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    assert_ok(put(&b, &c, SP_DISK_PLAIN, 1));
    unlink(only_file(&b));
    sp_log_set(SP_LOG_WARN, note_line, &said);
    assert_false(loads_as(&b, &c, SP_DISK_PLAIN, 1));
    sp_log_set(SP_LOG_WARN, NULL, NULL);
    assert_int_equal(said.n, 0);
    assert_int_equal(sp_disk_stats_of(b.disk).n_copies, 0);
    assert_int_equal(sp_disk_stats_of(b.disk).n_failed, 0);
    chunk_end(&b, &c);
    bench_end(&b);
}

/* -- writes that fail ------------------------------------------------------------------------ */

static void limit_files(rlim_t bytes)
{
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static void test_full_disk(void **state)
{
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    assert_ok(put(&b, &c, SP_DISK_PLAIN, 1));
    chunk older = c;
    assert_ok(sp_kv_acquire(b.pool, 2, older.blocks));
    for (int l = 0; l < LAYERS; l++) { /* what is on disk now */
        sp_kv_view kv = sp_kv_pool_layer(b.pool, l);
        for (int i = 0; i < 2; i++)
            memcpy(kv.base + older.blocks[i] * kv.block_bytes,
                   kv.base + c.blocks[i] * kv.block_bytes, kv.block_bytes);
    }
    fill_noise(&b, c.blocks, 2);
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t n = 0; n < 6000; n += 1000) {
        limit_files(n);
        assert_fails(put(&b, &c, SP_DISK_PLAIN, 1), SP_E_IO, b.dir);
        assert_fails(put(&b, &c, SP_DISK_FUSED, 2), SP_E_IO, b.dir);
    }
    limit_files(RLIM_INFINITY);
    signal(SIGXFSZ, old);
    assert_int_equal(count_files(&b), 1);
    assert_false(finds(&b, &c, SP_DISK_FUSED));
    assert_true(loads_as(&b, &older, SP_DISK_PLAIN, 1)); /* the older copy is untouched */
    chunk_end(&b, &c);
    chunk_end(&b, &older);
    bench_end(&b);
}

/* A writer is killed half-way; what it leaves is swept, and no copy is seen. */
static void test_crash_while_writing(void **state)
{
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_DFL);
        limit_files(3000);
        _exit(put(&b, &c, SP_DISK_PLAIN, 1) == SP_OK ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    assert_non_null(strstr(only_file(&b), "/tmp/"));
    store_reopen(&b);
    assert_int_equal(count_files(&b), 0);
    assert_false(finds(&b, &c, SP_DISK_PLAIN));
    assert_ok(put(&b, &c, SP_DISK_PLAIN, 1));
    assert_true(loads_as(&b, &c, SP_DISK_PLAIN, 1));
    chunk_end(&b, &c);
    bench_end(&b);
}

/* Whole, but never renamed; and one that another process is still writing. */
static void test_crash_before_the_rename(void **state)
{
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    assert_ok(put(&b, &c, SP_DISK_PLAIN, 1));
    char temporary[500], *space_end;
    snprintf(temporary, sizeof temporary, "%s", only_file(&b));
    space_end = strstr(temporary, "/5a01") + 1 + 32;
    snprintf(space_end, 100, "/tmp/99-1");
    assert_int_equal(rename(only_file(&b), temporary), 0);
    int fd = open(temporary, O_WRONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    store_reopen(&b);
    assert_int_equal(count_files(&b), 1);
    close(fd);
    store_reopen(&b);
    assert_int_equal(count_files(&b), 0);
    assert_false(finds(&b, &c, SP_DISK_PLAIN));
    chunk_end(&b, &c);
    bench_end(&b);
}

static void test_folder_that_cannot_be(void **state)
{
    bench b;
    chunk c;
    sp_disk *d = NULL;
    char path[200];
    bench_begin(&b, SP_F16);
    snprintf(path, sizeof path, "%s/file", b.dir);
    write_file(path, "x", 1);
    assert_fails(sp_disk_open(path, &space, b.pool, &d), SP_E_IO, path);
    snprintf(path, sizeof path, "%s/none/below", b.dir);
    assert_fails(sp_disk_open(path, &space, b.pool, &d), SP_E_IO, path);
    assert_null(d);
    /* the folder of temporary files is gone: root may write everywhere, but not there */
    chunk_begin(&b, &c, 0, 20);
    snprintf(path, sizeof path, "%s/5a010000000000000000000000000000/tmp", b.dir);
    assert_int_equal(rmdir(path), 0);
    assert_fails(put(&b, &c, SP_DISK_PLAIN, 1), SP_E_IO, path);
    assert_false(finds(&b, &c, SP_DISK_PLAIN));
    chunk_end(&b, &c);
    bench_end(&b);
}

/* -- out of memory --------------------------------------------------------------------------- */

static void test_without_memory(void **state)
{
    bench b;
    chunk c;
    sp_disk *d = NULL;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    assert_survives_faults(put(&b, &c, SP_DISK_PLAIN, 1), !finds(&b, &c, SP_DISK_PLAIN));
    put_in(&b, &other_space, NULL, &c, &c, SP_DISK_PLAIN); /* a namespace to learn of */
    assert_survives_faults(sp_disk_open(b.dir, &space, b.pool, &d), d == NULL);
    sp_disk_close(d);
    store_reopen(&b);
    sp_fault_after(1);
    assert_false(finds(&b, &c, SP_DISK_PLAIN)); /* a miss, but not for ever */
    sp_fault_after(-1);
    assert_true(loads_as(&b, &c, SP_DISK_PLAIN, 1));
    chunk_end(&b, &c);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_scattered_blocks),
        cmocka_unit_test(test_plain_and_fused_live_side_by_side),
        cmocka_unit_test(test_a_newer_copy_takes_the_place),
        cmocka_unit_test(test_each_head_has_its_copy),
        cmocka_unit_test(test_remove_and_retain),
        cmocka_unit_test(test_retain_deletes_what_is_not_wanted),
        cmocka_unit_test(test_truncated_at_every_length),
        cmocka_unit_test(test_every_flipped_byte),
        cmocka_unit_test(test_a_damaged_copy_is_replaced),
        cmocka_unit_test(test_a_file_under_another_name),
        cmocka_unit_test(test_namespaces_do_not_meet),
        cmocka_unit_test(test_known_to_another_model),
        cmocka_unit_test(test_another_model_is_asked_when_it_counts),
        cmocka_unit_test(test_on_a_far_device),
        cmocka_unit_test(test_another_shape),
        cmocka_unit_test(test_deleted_by_others),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_crash_while_writing),
        cmocka_unit_test(test_crash_before_the_rename),
        cmocka_unit_test(test_folder_that_cannot_be),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
