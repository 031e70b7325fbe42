/* test_disk_faults.c -- damage, failing system calls, missing memory, other processes: a clear error or a
 * miss, never a wrong copy, and the tier works afterwards. */
#include "support/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/wait.h>

#include "disk.h"

static const char *const kinds[] = {"threads", "uring"};

/* Lines that the library logged. */
static int n_lines;
static char last_line[512];
static void note_line(sp_log_level level, const char *line, void *user)
{
    n_lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static sp_err open_tier(const char *dir, const char *io, bool read_only, sp_tier **out)
{
    return sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir,
                                                  .space = &noise_space,
                                                  .io = io,
                                                  .n_readers = 1,
                                                  .read_only = read_only},
                             out);
}

static void read_file(const char *path, sp_bytes *out)
{
    FILE *f = fopen(path, "rb");
    char buf[4096];
    assert_non_null(f);
    out->n = 0;
    for (size_t n; (n = fread(buf, 1, sizeof buf, f));) assert_ok(sp_bytes_add(out, buf, n));
    fclose(f);
}

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* -- damage ---------------------------------------------------------------------------------- */

/* Every part of a record: a flipped bit is a miss of exactly that copy, said once, and stays one. */
static void a_flipped_bit_of_a_segment_is_a_miss(void **state)
{
    const char *dir = *state;
    char path[600];
    sp_bytes file = {0};
    sp_tier *t;
    fill(dir, 3);
    sp_log_set(SP_LOG_WARN, note_line, NULL);
    read_file(file_in(dir, "00000001.kv", path), &file);
    size_t step = file.n / 60, n_hits = 0;
    for (size_t at = 0; at < file.n; at += at < 700 ? 37 : step) {
        file.v[at] ^= 16;
        write_file(path, file.v, file.n);
        t = must_open(dir);
        int n_missed = 0;
        n_lines = 0;
        for (uint32_t i = 0; i < 3; i++) {
            sp_err err = noise_get(t, i, 1);
            assert_true(err == SP_OK || err == SP_E_FORMAT);
            if (err == SP_OK) continue;
            n_missed++;
            assert_int_equal(noise_get(t, i, 1), SP_E_NOTFOUND);
            assert_ok(noise_put(t, i, 1)); /* whoever fills the store can do so again */
            assert_ok(noise_get(t, i, 1));
        }
        assert_true(n_missed <= 1 && n_lines == n_missed);
        assert_int_equal(sp_tier_stats_of(t).n_damaged, n_missed);
        n_hits += (size_t)n_missed;
        t = reopen(t, dir); /* quarantined for the next process too */
        assert_has(t, 3, 1);
        sp_tier_close(t);
        remove_folder(dir);
        assert_int_equal(mkdir(dir, 0700), 0);
        fill(dir, 3);
        file.v[at] ^= 16;
    }
    assert_true(n_hits > 40); /* the rest is padding */
    sp_log_set(SP_LOG_WARN, NULL, NULL);
    sp_vec_fini(&file);
}

static void a_truncated_segment_is_a_miss(void **state)
{
    const char *dir = *state;
    char path[600];
    sp_tier *t;
    fill(dir, 4);
    struct stat st;
    assert_int_equal(stat(file_in(dir, "00000001.kv", path), &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    t = must_open(dir);
    assert_has(t, 3, 1);
    assert_int_equal(noise_get(t, 3, 1), SP_E_NOTFOUND);
    assert_int_equal(sp_tier_stats_of(t).n_damaged, 1);
    assert_true(sp_tier_stats_of(t).bytes_used < st.st_size); /* what is not there takes no space */
    assert_int_equal(truncate(path, 100), 0); /* while it is open */
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(noise_get(t, i, 1), SP_E_FORMAT);
    assert_ok(noise_put(t, 9, 1));
    assert_ok(noise_get(t, 9, 1));
    sp_tier_close(t);
}

/* Every byte of the index: copies may be missing, none is wrong, and the tier opens. */
static void a_flipped_bit_of_the_index_is_no_wrong_copy(void **state)
{
    const char *dir = *state;
    char path[600];
    sp_bytes file = {0};
    sp_tier *t = must_open(dir);
    put_all(t, 3, 1);
    assert_ok(noise_put(t, 0, 2));
    sp_tier_close(t);
    read_file(file_in(dir, "index", path), &file);
    assert_int_equal(file.n, 88 * 5);
    for (size_t at = 0; at < file.n; at += 5) {
        int n_there = 0;
        file.v[at] ^= 1;
        write_file(path, file.v, file.n);
        sp_err opened = open_tier(dir, "threads", true, &t); /* changes nothing */
        assert_int_equal(opened, at < 88 ? SP_E_FORMAT : SP_OK);
        file.v[at] ^= at < 88;
        if (at < 88) continue;
        for (uint32_t i = 0; i < 3; i++) {
            noise c;
            noise_init(&c, i, 0);
            c.any = i == 0; /* without its last line, the older version is there */
            sp_tier_job job = noise_get_job(&c, 0, NOISE_LAYERS);
            sp_err err = sp_tier_run(t, &job);
            assert_true(err == SP_OK || err == SP_E_NOTFOUND || err == SP_E_LIMIT);
            if (err == SP_E_LIMIT) err = noise_get(t, i, 1);
            n_there += err == SP_OK;
        }
        assert_true(n_there >= 2);
        sp_tier_close(t);
        file.v[at] ^= 1;
    }
    sp_vec_fini(&file);
}

/* has_facts -- a policy finds a copy by what the index says was measured of it. */
static sp_err has_facts(void *user, const sp_tier_info *info)
{
    uint32_t number;
    memcpy(&number, info->key.id.b, sizeof number);
    const unsigned facts = (number % 3 == 0 ? SP_FACT_EXACT : 0u) | (number % 4 ? SP_FACT_STATS : 0u) |
                           (number % 5 ? SP_FACT_HEAVY : 0u);
    assert_int_equal(info->facts, facts);
    assert_true(info->cost_us == 12.5f);
    ++*(int *)user;
    return SP_OK;
}

/* Without its index a store is not lost: the segments tell what they hold. */
static void a_lost_index_is_rebuilt(void **state)
{
    for (int way = 0; way < 3; way++) {
        char dir[128], path[600];
        make_folder(dir, sizeof dir);
        sp_tier *t = must_open(dir);
        put_all(t, 6, 1);
        put_all(t, 3, 2);
        sp_tier_close(t);
        file_in(dir, "index", path);
        if (way == 0) assert_int_equal(unlink(path), 0);
        if (way == 1) assert_int_equal(truncate(path, 50), 0);
        if (way == 2) write_file(path, "SPOLIAIX, but something else", 28);
        int n_listed = 0;
        t = must_open(dir);
        assert_ok(sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_LIST, .each = has_facts, .user = &n_listed}));
        assert_int_equal(n_listed, 6);
        for (uint32_t i = 0; i < 6; i++) assert_ok(noise_get(t, i, i < 3 ? 2 : 1));
        assert_ok(noise_put(t, 7, 1));
        sp_tier_close(t);
        assert_int_equal(access(file_in(dir, "index.damaged", path), F_OK), way ? 0 : -1);
        t = must_open(dir);
        for (uint32_t i = 0; i < 6; i++) assert_ok(noise_get(t, i, i < 3 ? 2 : 1));
        assert_ok(noise_get(t, 7, 1));
        sp_tier_close(t);
        remove_folder(dir);
    }
}

/* rename_backwards -- segments 1 to n get new names and their own again, the last one first: a folder that lists its
 * files in the order of their creation lists the last one first. */
static void rename_backwards(const char *dir, uint32_t n)
{
    char name[20], path[600], aside[600];
    for (int back = 0; back < 2; back++)
        for (uint32_t i = n; i > 0; i--) {
            snprintf(name, sizeof name, "%08x.kv", i);
            file_in(dir, name, path);
            snprintf(name, sizeof name, "aside-%u", i);
            file_in(dir, name, aside);
            assert_int_equal(back ? rename(aside, path) : rename(path, aside), 0);
        }
}

/* Of several versions of a copy the last is found, in whatever order the folder lists its segments. */
static void a_rebuilt_index_has_the_newest_copies(void **state)
{
    enum { VERSIONS = 12 };
    for (int backwards = 0; backwards < 2; backwards++) {
        char dir[128], path[600];
        sp_tier *t = NULL;
        make_folder(dir, sizeof dir);
        const sp_disk_tier_opts o = {.dir = dir, .space = &noise_space, .segment_bytes = 256 << 10};
        assert_ok(sp_disk_tier_open(&o, &t));
        for (uint32_t v = 1; v <= VERSIONS; v++) { /* a segment for each; two copies that stay keep it */
            assert_ok(noise_put(t, 6 * v + 30, 1));
            assert_ok(noise_put(t, 6 * v + 33, 1));
            assert_ok(noise_put(t, 1, v));
        }
        sp_tier_close(t);
        assert_int_equal(unlink(file_in(dir, "index", path)), 0);
        if (backwards) rename_backwards(dir, VERSIONS);
        assert_ok(sp_disk_tier_open(&o, &t));
        assert_ok(noise_get(t, 1, VERSIONS));
        sp_tier_close(t);
        remove_folder(dir);
    }
}

/* Its records are of another model. */
static void a_segment_of_another_namespace_is_not_in_a_rebuilt_index(void **state)
{
    const char *dir = *state;
    char from[300], to[600];
    sp_tier *t = NULL;
    noise c;
    fill(dir, 2);
    noise_init(&c, 7, 1);
    c.record.space = other_noise_space;
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir, .space = &other_noise_space}, &t));
    const sp_tier_job job = noise_put_job(&c);
    assert_ok(sp_tier_run(t, &job));
    sp_tier_close(t);
    snprintf(from, sizeof from, "%s/5b010000000000000000000000000000/00000001.kv", dir);
    assert_int_equal(rename(from, file_in(dir, "00000002.kv", to)), 0);
    assert_int_equal(unlink(file_in(dir, "index", to)), 0);
    t = must_open(dir);
    assert_int_equal(sp_tier_stats_of(t).n_copies, 2);
    assert_int_equal(noise_get(t, 7, 1), SP_E_NOTFOUND);
    assert_has(t, 2, 1);
    sp_tier_close(t);
}

/* A start finds no index, or the index and a segment exchanged, and ends while it makes the new one: the next start
 * finds all copies. */
static void a_start_that_ends_while_it_rebuilds_loses_nothing(void **state)
{
    for (int exchanged = 0; exchanged < 2; exchanged++)
        for (long n = 1, failed = 1; failed; n++) {
            char dir[128], index[600], segment[600], aside[600];
            make_folder(dir, sizeof dir);
            sp_tier *t;
            fill(dir, 3);
            file_in(dir, "index", index);
            file_in(dir, "00000001.kv", segment);
            assert_int_equal(rename(index, file_in(dir, "aside", aside)), 0);
            if (exchanged) assert_int_equal(rename(segment, index) | rename(aside, segment), 0);
            sp_store_fault(SP_CALL_READ | SP_CALL_WRITE | SP_CALL_SYNC, n, EIO, true);
            failed = open_tier(dir, "threads", false, &t) != SP_OK;
            sp_store_fault(0, 0, 0, false);
            assert_true(failed || n > 2);
            if (failed) t = must_open(dir);
            assert_has(t, 3, 1);
            sp_tier_close(t);
            remove_folder(dir);
        }
}

/* An index whose name a segment has: both get their names back, with what the index knew; without an index the segment
 * is read. */
static void an_index_and_a_segment_that_were_exchanged_are_put_back(void **state)
{
    for (int way = 0; way < 2; way++) {
        char dir[128], index[600], segment[600], aside[600];
        make_folder(dir, sizeof dir);
        sp_tier *t = must_open(dir);
        put_all(t, 6, 1);
        assert_ok(noise_drop(t, 5));
        sp_tier_close(t);
        file_in(dir, "index", index);
        file_in(dir, "00000001.kv", segment);
        file_in(dir, "aside", aside);
        assert_int_equal(rename(index, aside), 0);
        assert_int_equal(rename(segment, index), 0);
        if (way == 0) assert_int_equal(rename(aside, segment), 0);
        if (way == 1) assert_int_equal(unlink(aside), 0);
        sp_log_set(SP_LOG_WARN, note_line, NULL);
        for (int again = 0; again < 2; again++) {
            n_lines = 0;
            t = must_open(dir);
            assert_has(t, 5, 1);
            if (way == 0) assert_int_equal(noise_get(t, 5, 1), SP_E_NOTFOUND);
            assert_int_equal(n_lines, again ? 0 : 2 + way);
            sp_tier_close(t);
        }
        sp_log_set(SP_LOG_WARN, NULL, NULL);
        remove_folder(dir);
    }
}

/* A line that a crash cut off is overwritten. */
static void a_cut_off_line_is_overwritten(void **state)
{
    const char *dir = *state;
    char path[600];
    sp_bytes file = {0};
    sp_tier *t = must_open(dir);
    assert_ok(noise_put(t, 1, 1));
    assert_ok(noise_put(t, 2, 1));
    sp_tier_close(t);
    read_file(file_in(dir, "index", path), &file);
    for (size_t n = 88 * 2; n < 88 * 3; n += 29) {
        write_file(path, file.v, n);
        t = must_open(dir);
        assert_ok(noise_get(t, 1, 1));
        assert_int_equal(noise_get(t, 2, 1), SP_E_NOTFOUND);
        assert_ok(noise_put(t, 2, 1));
        assert_ok(noise_get(t, 2, 1));
        t = reopen(t, dir);
        assert_ok(noise_get(t, 1, 1));
        assert_ok(noise_get(t, 2, 1));
        sp_tier_close(t);
    }
    sp_vec_fini(&file);
}

/* -- system calls that fail ------------------------------------------------------------------ */

/* The n-th call of a kind fails, once or from then on, or transfers less: what was acknowledged is
 * there, what is not may be missing, nothing is wrong; and without faults all works again. */
static void with_faults(const char *io, unsigned calls, int error, bool stays)
{
    for (long n = 1; n <= 24; n += 1 + n / 6) {
        char dir[128];
        bool acknowledged[6] = {0};
        sp_tier *t = NULL;
        make_folder(dir, sizeof dir);
        if (open_tier(dir, io, false, &t) != SP_OK) { /* no io_uring here */
            remove_folder(dir);
            return;
        }
        sp_store_fault(calls, n, error, stays);
        for (uint32_t i = 0; i < 6; i++) {
            sp_err err = noise_put(t, i, 1);
            assert_true(err == SP_OK || (error && err == SP_E_IO));
            if (err == SP_E_IO) assert_non_null(strstr(sp_error_detail(), dir));
            acknowledged[i] = err == SP_OK;
            err = noise_get(t, i, 1);
            assert_true(err == SP_OK || err == SP_E_IO ||
                        (err == SP_E_NOTFOUND && !acknowledged[i]));
        }
        sp_store_fault(0, 0, 0, false);
        for (uint32_t i = 0; i < 6; i++) {
            if (acknowledged[i]) assert_ok(noise_get(t, i, 1));
            assert_ok(noise_put(t, i, 2));
            assert_ok(noise_get(t, i, 2));
        }
        t = reopen(t, dir);
        assert_has(t, 6, 2);
        assert_int_equal(sp_tier_stats_of(t).n_damaged, 0);
        sp_tier_close(t);
        remove_folder(dir);
    }
}

/* Each call transfers half of what it should. */
static void short_transfers_continue_where_they_ended(void **state)
{
    enum { N = 100, PART = 60 };
    char dir[128], path[600];
    uint8_t bytes[N], got[N];
    size_t n = 0;
    make_folder(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/file", dir);
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    for (int i = 0; i < N; i++) bytes[i] = (uint8_t)(i + 1);
    memset(got, 0, sizeof got);
    sp_store_fault(SP_CALL_READ | SP_CALL_WRITE, 1, 0, true);
    assert_ok(sp_files_write(fd, path, 0, bytes, PART));
    assert_int_equal(lseek(fd, 0, SEEK_END), PART);
    assert_ok(sp_files_write(fd, path, PART, bytes + PART, N - PART));
    assert_ok(sp_files_read(fd, path, 10, got, PART, &n));
    assert_int_equal(n, PART);
    assert_memory_equal(got, bytes + 10, PART);
    for (int i = PART; i < N; i++) assert_int_equal(got[i], 0);
    assert_ok(sp_files_read(fd, path, PART, got, N, &n));
    assert_int_equal(n, N - PART);
    sp_store_fault(0, 0, 0, false);
    close(fd);
    remove_folder(dir);
}

static void failing_reads_are_misses(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        with_faults(kinds[k], SP_CALL_READ, EIO, false);
        with_faults(kinds[k], SP_CALL_READ, EIO, true);
        with_faults(kinds[k], SP_CALL_READ, 0, true);
    }
}

static void failing_writes_leave_what_was_there(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        with_faults(kinds[k], SP_CALL_WRITE, ENOSPC, false);
        with_faults(kinds[k], SP_CALL_WRITE, ENOSPC, true);
        with_faults(kinds[k], SP_CALL_WRITE, 0, true);
    }
}

static void failing_syncs_are_errors(void **state)
{
    with_faults("threads", SP_CALL_SYNC, EIO, false);
    with_faults("threads", SP_CALL_SYNC, EIO, true);
}

/* A full disk is noticed before a copy is read from the device. */
static void space_is_claimed_before_a_copy_is_read(void **state)
{
    const char *dir = *state;
    noise c;
    sp_tier *t = must_open(dir);
    noise_init(&c, 1, 1);
    c.source_fails_at = 1;
    const sp_tier_job job = noise_put_job(&c);
    sp_store_fault(SP_CALL_WRITE, 1, ENOSPC, false);
    assert_fails(sp_tier_run(t, &job), SP_E_IO, "cannot write");
    sp_store_fault(0, 0, 0, false);
    assert_int_equal(sp_tier_run(t, &job), SP_E_NOKV);
    sp_tier_close(t);
}

/* A later sync of its file may succeed without it, so what follows is in another one. */
static void nothing_is_added_to_a_file_that_failed_to_sync(void **state)
{
    const char *dir = *state;
    char path[600];
    sp_tier *t = must_open(dir);
    assert_ok(noise_put(t, 1, 1));
    sp_store_fault(SP_CALL_SYNC, 1, EIO, false);
    assert_int_equal(noise_put(t, 2, 1), SP_E_IO);
    sp_store_fault(0, 0, 0, false);
    assert_ok(noise_put(t, 3, 1));
    assert_int_equal(access(file_in(dir, "00000002.kv", path), F_OK), 0);
    assert_ok(noise_get(t, 1, 1));
    assert_ok(noise_get(t, 3, 1));
    sp_tier_close(t);
}

/* Also while the tier opens. */
static void opening_may_fail_anywhere(void **state)
{
    const char *dir = *state;
    sp_tier *t = NULL;
    for (long n = 1; n < 6; n++) {
        sp_store_fault(SP_CALL_READ | SP_CALL_WRITE | SP_CALL_SYNC, n, EIO, true);
        sp_err err = open_tier(dir, "threads", false, &t);
        sp_store_fault(0, 0, 0, false);
        if (err == SP_OK) sp_tier_close(t);
        if (err != SP_OK) assert_non_null(strstr(sp_error_detail(), dir));
        t = must_open(dir);
        assert_ok(noise_put(t, 1, 1));
        sp_tier_close(t);
    }
}

/* The disk is full: files may not grow. */
static void a_full_disk_refuses_puts(void **state)
{
    const char *dir = *state;
    struct rlimit l;
    sp_tier *t = must_open(dir);
    assert_ok(noise_put(t, 1, 1));
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
    rlim_t none = l.rlim_cur;
    l.rlim_cur = 80000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
    assert_fails(noise_put(t, 2, 1), SP_E_IO, dir);
    assert_ok(noise_get(t, 1, 1));
    assert_int_equal(noise_get(t, 2, 1), SP_E_NOTFOUND);
    l.rlim_cur = none;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
    signal(SIGXFSZ, old);
    assert_ok(noise_put(t, 2, 1));
    assert_ok(noise_get(t, 2, 1));
    sp_tier_close(t);
}

static void a_removed_folder_is_an_error(void **state)
{
    const char *dir = *state;
    sp_tier *t = NULL;
    assert_ok(sp_disk_tier_open(
        &(sp_disk_tier_opts){.dir = dir, .space = &noise_space, .segment_bytes = 64 << 10}, &t));
    put_all(t, 4, 1);
    remove_folder(dir);
    for (uint32_t i = 0; i < 4; i++) {
        sp_err err = noise_get(t, i, 1); /* an open file is there still */
        assert_true(err == SP_OK || err == SP_E_FORMAT);
        err = noise_put(t, 10 + i, 1);
        assert_true(err == SP_OK || err == SP_E_IO);
    }
    assert_fails(noise_put(t, 20, 1), SP_E_IO, dir);
    t = reopen(t, dir);
    assert_ok(noise_put(t, 1, 1));
    assert_ok(noise_get(t, 1, 1));
    sp_tier_close(t);
}

static void a_folder_that_cannot_be_is_refused(void **state)
{
    const char *dir = *state;
    char path[600];
    sp_tier *t = NULL;
    snprintf(path, sizeof path, "%s/file", dir);
    write_file(path, "x", 1);
    assert_fails(open_tier(path, NULL, false, &t), SP_E_IO, path);
    snprintf(path, sizeof path, "%s/none/below", dir);
    assert_fails(open_tier(path, NULL, false, &t), SP_E_IO, path);
    assert_int_equal(open_tier(dir, NULL, true, &t), SP_E_NOTFOUND);
    assert_fails(open_tier(dir, "floppy", false, &t), SP_E_ARG, "floppy");
    assert_null(t);
}

static void every_allocation_may_fail(void **state)
{
    const char *dir = *state;
    sp_tier *t = NULL;
    assert_survives_faults(open_tier(dir, "threads", false, &t), t == NULL);
    for (uint32_t i = 0; i < 3; i++) {
        sp_err err = SP_E_NOMEM;
        for (long n = 1; err != SP_OK; n++) {
            sp_fault_after(n);
            err = noise_put(t, i, 1);
            sp_fault_after(-1);
            assert_true(err == SP_OK || err == SP_E_NOMEM);
            if (err != SP_OK) assert_int_equal(noise_get(t, i, 1), SP_E_NOTFOUND);
        }
        err = SP_E_NOMEM;
        for (long n = 1; err != SP_OK; n++) {
            sp_fault_after(n);
            err = noise_get(t, i, 1);
            sp_fault_after(-1);
            assert_true(err == SP_OK || err == SP_E_NOMEM);
        }
    }
    sp_tier_close(t);
}

/* -- several processes ----------------------------------------------------------------------- */

static void expect_byte(int fd)
{
    char c;
    assert_int_equal(read(fd, &c, 1), 1);
}

/* The second process reads what the first puts, and is refused when it writes. */
static void a_second_process_reads_only(void **state)
{
    const char *dir = *state;
    int to_child[2], to_parent[2], status;
    assert_int_equal(pipe(to_child) | pipe(to_parent), 0);
    pid_t child = fork();
    if (child == 0) { /* the writer */
        sp_tier *t;
        char c;
        bool ok = open_tier(dir, NULL, false, &t) == SP_OK && noise_put(t, 1, 1) == SP_OK;
        ok = ok && write(to_parent[1], "a", 1) == 1 && read(to_child[0], &c, 1) == 1;
        ok = ok && noise_put(t, 2, 1) == SP_OK && noise_put(t, 1, 2) == SP_OK;
        ok = ok && write(to_parent[1], "b", 1) == 1 && read(to_child[0], &c, 1) == 1;
        if (ok) sp_tier_close(t);
        _exit(!ok);
    }
    sp_tier *t;
    char pid[40];
    expect_byte(to_parent[0]);
    n_lines = 0;
    sp_log_set(SP_LOG_WARN, note_line, NULL);
    assert_ok(open_tier(dir, NULL, false, &t));
    sp_log_set(SP_LOG_WARN, NULL, NULL);
    assert_false(sp_tier_is_writer(t));
    snprintf(pid, sizeof pid, "another process (%ld)", (long)child);
    assert_int_equal(n_lines, 1);
    assert_non_null(strstr(last_line, pid));
    assert_ok(noise_get(t, 1, 1));
    assert_int_equal(noise_get(t, 2, 1), SP_E_NOTFOUND);
    assert_fails(noise_put(t, 3, 1), SP_E_IO, pid);
    assert_fails(noise_drop(t, 1), SP_E_IO, pid);
    assert_int_equal(write(to_child[1], "c", 1), 1);
    expect_byte(to_parent[0]);
    assert_ok(noise_get(t, 2, 1)); /* seen without opening again */
    noise c;
    noise_init(&c, 1, 0);
    c.any = true; /* either version: this process has not missed one yet */
    sp_tier_job job = noise_get_job(&c, 0, NOISE_LAYERS);
    assert_ok(sp_tier_run(t, &job));
    assert_int_equal(write(to_child[1], "d", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    t = reopen(t, dir); /* the lock has ended with the writer */
    assert_true(sp_tier_is_writer(t));
    sp_tier_close(t);
    for (int i = 0; i < 2; i++) close(to_child[i]), close(to_parent[i]);
}

/* A reader keeps up with a writer that drops, replaces and moves copies all the time. */
static void a_reader_keeps_up_with_a_writer(void **state)
{
    const char *dir = *state;
    int status, n_ok = 0;
    sp_disk_tier_opts opts = {
        .dir = dir, .space = &noise_space, .max_bytes = 1 << 20, .segment_bytes = 128 << 10};
    sp_tier *t;
    assert_ok(sp_disk_tier_open(&opts, &t));
    put_all(t, 8, 1);
    sp_tier_close(t);
    pid_t child = fork();
    if (child == 0) {
        bool ok = sp_disk_tier_open(&opts, &t) == SP_OK;
        for (uint32_t i = 0; ok && i < 120; i++) ok = noise_put(t, i % 20, 1 + i / 20) == SP_OK;
        if (ok) sp_tier_close(t);
        _exit(!ok);
    }
    opts.read_only = true;
    assert_ok(sp_disk_tier_open(&opts, &t));
    while (waitpid(child, &status, WNOHANG) == 0)
        for (uint32_t i = 0; i < 20; i++) {
            noise c;
            noise_init(&c, i, 0);
            c.any = true;
            sp_tier_job job = noise_get_job(&c, 0, NOISE_LAYERS);
            sp_err err = sp_tier_run(t, &job);
            if (err != SP_OK && err != SP_E_NOTFOUND && err != SP_E_FORMAT)
                fail_msg("%s", sp_error_detail());
            n_ok += err == SP_OK;
        }
    assert_int_equal(status, 0);
    assert_true(n_ok > 0);
    sp_tier_close(t);
}

/* -- several threads ------------------------------------------------------------------------- */

typedef struct user {
    sp_tier *tier;
    pthread_t thread;
    uint64_t seed;
    sp_err err;
    char detail[200];
} user;

static sp_err act(user *u)
{
    const uint32_t number = (uint32_t)check_random(&u->seed, 12);
    noise c;
    noise_init(&c, number, 1);
    c.any = true;
    sp_tier_op *op;
    int what = check_random(&u->seed, 8);
    sp_tier_job job = what < 3   ? noise_put_job(&c)
                      : what < 7 ? noise_get_job(&c, 0, NOISE_LAYERS)
                                 : (sp_tier_job){.verb = SP_TIER_DROP,
                                                 .key = sp_tier_key_of(&c.record)};
    job.urgent = check_random(&u->seed, 2);
    SP_TRY(sp_tier_submit(u->tier, &job, &op));
    sp_tier_knows(u->tier, &job.key);
    sp_tier_stats_of(u->tier);
    if (check_random(&u->seed, 4) == 0) sp_tier_op_cancel(op);
    sp_tier_op_wait(op, -1);
    sp_err err = sp_tier_op_result(op);
    sp_tier_op_release(op);
    return err == SP_E_NOTFOUND || err == SP_E_CANCELED ? SP_OK : err;
}

static void *act_often(void *arg)
{
    user *u = arg;
    for (int i = 0; i < 60 && u->err == SP_OK; i++) u->err = act(u);
    if (u->err != SP_OK) snprintf(u->detail, sizeof u->detail, "%s", sp_error_detail());
    return NULL;
}

static void many_threads_may_use_a_tier(void **state)
{
    enum { N = 6 };
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        char dir[128];
        user users[N];
        sp_tier *t = NULL;
        make_folder(dir, sizeof dir);
        sp_disk_tier_opts opts = {.dir = dir,
                                  .space = &noise_space,
                                  .io = kinds[k],
                                  .max_bytes = 600 << 10,
                                  .segment_bytes = 128 << 10,
                                  .n_readers = 3};
        if (sp_disk_tier_open(&opts, &t) == SP_OK) {
            for (int i = 0; i < N; i++) {
                users[i] = (user){.tier = t, .seed = (uint64_t)i};
                assert_int_equal(
                    pthread_create(&users[i].thread, NULL, act_often, &users[i]), 0);
            }
            for (int i = 0; i < N; i++) {
                pthread_join(users[i].thread, NULL);
                if (users[i].err != SP_OK) fail_msg("%s", users[i].detail);
            }
            assert_int_equal(sp_tier_stats_of(t).n_damaged, 0);
            sp_tier_close(t);
        }
        remove_folder(dir);
    }
}

/* A segment of which nothing can be said, because stat fails, keeps its copies: the store does not open. */
static void a_segment_that_cannot_be_looked_at_is_kept(void **state)
{
    const char *dir = *state;
    char path[600], aside[600];
    sp_tier *t = NULL;
    t = must_open(dir);
    assert_ok(noise_put(t, 0, 1));
    sp_tier_close(t);
    file_in(dir, "00000001.kv", path);
    assert_int_equal(rename(path, file_in(dir, "aside", aside)), 0);
    assert_int_equal(symlink("00000001.kv", path), 0); /* a link to itself */
    assert_fails(open_tier(dir, NULL, false, &t), SP_E_IO, "00000001.kv");
    assert_int_equal(rename(aside, path), 0);
    t = must_open(dir);
    assert_ok(noise_get(t, 0, 1));
    assert_int_equal(sp_tier_stats_of(t).n_damaged, 0);
    sp_tier_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(a_flipped_bit_of_a_segment_is_a_miss),
        FOLDER_TEST(a_truncated_segment_is_a_miss),
        FOLDER_TEST(a_flipped_bit_of_the_index_is_no_wrong_copy),
        cmocka_unit_test(a_lost_index_is_rebuilt),
        cmocka_unit_test(a_rebuilt_index_has_the_newest_copies),
        FOLDER_TEST(a_segment_of_another_namespace_is_not_in_a_rebuilt_index),
        cmocka_unit_test(a_start_that_ends_while_it_rebuilds_loses_nothing),
        cmocka_unit_test(an_index_and_a_segment_that_were_exchanged_are_put_back),
        FOLDER_TEST(a_cut_off_line_is_overwritten),
        cmocka_unit_test(short_transfers_continue_where_they_ended),
        cmocka_unit_test(failing_reads_are_misses),
        cmocka_unit_test(failing_writes_leave_what_was_there),
        cmocka_unit_test(failing_syncs_are_errors),
        FOLDER_TEST(space_is_claimed_before_a_copy_is_read),
        FOLDER_TEST(nothing_is_added_to_a_file_that_failed_to_sync),
        FOLDER_TEST(opening_may_fail_anywhere),
        FOLDER_TEST(a_full_disk_refuses_puts),
        FOLDER_TEST(a_removed_folder_is_an_error),
        FOLDER_TEST(a_folder_that_cannot_be_is_refused),
        FOLDER_TEST(every_allocation_may_fail),
        FOLDER_TEST(a_second_process_reads_only),
        FOLDER_TEST(a_reader_keeps_up_with_a_writer),
        cmocka_unit_test(many_threads_may_use_a_tier),
        FOLDER_TEST(a_segment_that_cannot_be_looked_at_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
