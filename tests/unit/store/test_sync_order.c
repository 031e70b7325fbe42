/* test_sync_order.c -- what a loss of power leaves depends on the order of syncs: a copy's bytes and the name of its
 * file are on disk before the index names it. Killing a process cannot show this; here fdatasync and fsync are the
 * test's. */
#include "support/check.h"

#include <stdatomic.h>
#include <sys/syscall.h>

#include "store/disk/disk_int.h"
#include "store/sweep.h"
#include "tier.h"

enum { MOST = 64 };
static char order[MOST][48]; /* names of what was synced, in order */
static int n_synced;
static atomic_int sync_us; /* what a sync of a file takes, at least */

/* note -- the last part of the file's name. */
static void note(int fd)
{
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    const char *name = n > 0 ? strrchr(path, '/') : NULL;
    const int at = __atomic_fetch_add(&n_synced, 1, __ATOMIC_SEQ_CST);
    if (at < MOST) snprintf(order[at], sizeof order[at], "%.47s", name ? name + 1 : "?");
}

/* A copy of this tier is found damaged while the next sync of a segment takes its time. */
static sp_disk_tier *moving;
static sp_tier_key damaged;

int fdatasync(int fd)
{
    note(fd);
    sp_disk_tier *d = strstr(order[n_synced - 1], ".kv") ? __atomic_exchange_n(&moving, NULL, __ATOMIC_SEQ_CST) : NULL;
    if (d) {
        const uint32_t at = sp_table_find(&d->table, &damaged);
        const sp_disk_place place = d->table.entries.v[at].place;
        if (sp_fail(SP_E_FORMAT, "damaged, for the test") != SP_OK) sp_disk_quarantine(d, &damaged, &place);
    }
    usleep((useconds_t)sync_us);
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    note(fd);
    return (int)syscall(SYS_fsync, fd);
}

/* first -- the first sync of this name since `from`; -1: none. */
static int first(const char *name, int from)
{
    for (int i = from; i < n_synced && i < MOST; i++)
        if (strcmp(order[i], name) == 0) return i;
    return -1;
}

static void a_copy_is_on_disk_before_the_index_names_it(void **state)
{
    static const char *const kinds[] = {"threads", "uring"};
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        char dir[128], path[600];
        sp_tier *t = NULL;
        make_folder(dir, sizeof dir);
        const sp_disk_tier_opts o = {.dir = dir, .space = &noise_space, .io = kinds[k]};
        if (sp_disk_tier_open(&o, &t) != SP_OK) continue; /* no io_uring here */
        file_in(dir, "", path);
        path[strlen(path) - 1] = '\0';
        const char *folder = strrchr(path, '/') + 1;
        for (uint32_t i = 0; i < 2; i++) {
            const int from = n_synced;
            assert_ok(noise_put(t, i, 1));
            const int segment = first("00000001.kv", from), index = first("index", from);
            assert_true(segment >= 0 && index > segment);
            if (i > 0) continue; /* the segment is new for the first copy alone */
            const int name = first(folder, from);
            assert_true(name >= 0 && name < index);
        }
        sp_tier_close(t);
        n_synced = 0;
        remove_folder(dir);
    }
}

/* On a slow disk, too. */
static void a_sync_ends_after_what_was_submitted_before_it(void **state)
{
    enum { PUTS = 3 };
    char dir[128];
    sp_tier *t = NULL;
    noise c[PUTS];
    sp_tier_job jobs[PUTS + 1];
    sp_tier_op *ops[PUTS + 1];
    make_folder(dir, sizeof dir);
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir, .space = &noise_space, .io = "threads"}, &t));
    for (uint32_t i = 0; i < PUTS; i++) {
        noise_init(&c[i], i, 1);
        jobs[i] = noise_put_job(&c[i]);
    }
    jobs[PUTS] = (sp_tier_job){.verb = SP_TIER_SYNC};
    sync_us = 200000;
    assert_ok(sp_tier_submit_all(t, jobs, PUTS + 1, ops));
    assert_true(sp_tier_op_wait(ops[PUTS], 60000000));
    for (int i = 0; i < PUTS; i++) assert_true(sp_tier_op_is_done(ops[i]));
    sync_us = 0;
    for (int i = 0; i <= PUTS; i++) {
        assert_ok(sp_tier_op_result(ops[i]));
        sp_tier_op_release(ops[i]);
    }
    sp_tier_close(t);
    n_synced = 0;
    remove_folder(dir);
}

/* The index that replaces another is on disk before it has its name, and the name before the next change. */
static void a_new_index_is_on_disk_before_it_has_its_name(void **state)
{
    char dir[128];
    sp_tier *t = NULL;
    make_folder(dir, sizeof dir);
    n_synced = 0;
    const sp_disk_tier_opts o = {.dir = dir, .space = &noise_space, .io = "threads"};
    assert_ok(sp_disk_tier_open(&o, &t));
    const int fresh = first("index.new", 0);
    assert_true(fresh >= 0 && n_synced > fresh + 1); /* the folder follows */
    sp_tier_close(t);
    remove_folder(dir);
}

/* What was confirmed as erased does not come back: its bytes are overwritten on disk before the sweep ends, and the
 * index is there without it. */
static void what_is_erased_is_erased_on_disk(void **state)
{
    char dir[128];
    sp_tier *t = NULL;
    noise c;
    make_folder(dir, sizeof dir);
    const sp_disk_tier_opts o = {.dir = dir, .space = &noise_space, .io = "threads"};
    assert_ok(sp_disk_tier_open(&o, &t));
    for (uint32_t i = 0; i < 3; i++) assert_ok(noise_put(t, i, 1));
    noise_init(&c, 1, 1);
    const sp_digest id = c.record.facts.id;
    n_synced = 0;
    assert_ok(sp_sweep_run(t, &(sp_sweep_opts){.ids = &id, .n = 1, .overwrite = true}, NULL));
    const int dropped = first("index", 0);
    assert_true(dropped >= 0 && first("00000001.kv", dropped) > dropped);
    assert_true(first("index.new", dropped) > dropped);
    sp_tier_close(t);
    n_synced = 0;
    remove_folder(dir);
}

/* A copy moves to another segment, and is found damaged where it was before the index names its new place: it is gone,
 * for this process and for others. */
static void a_copy_found_damaged_while_it_moves_is_gone(void **state)
{
    char dir[128];
    sp_tier *t = NULL, *other = NULL;
    make_folder(dir, sizeof dir);
    const sp_disk_tier_opts o = {.dir = dir, .space = &noise_space, .segment_bytes = 256 << 10};
    assert_ok(sp_disk_tier_open(&o, &t));
    for (uint32_t i = 0; i < 8; i++) assert_ok(noise_put(t, i, 1));
    damaged = noise_key(2);
    n_synced = 0;
    __atomic_store_n(&moving, (sp_disk_tier *)t, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < 2; i++) assert_ok(noise_drop(t, i)); /* of three in the first segment: the third moves */
    for (int i = 0; i < 300000 && __atomic_load_n(&moving, __ATOMIC_SEQ_CST); i++) usleep(1000);
    assert_null(moving);
    assert_ok(noise_put(t, 9, 1)); /* after what is under way */
    sp_disk_tier_opts read = o;
    read.read_only = true;
    assert_ok(sp_disk_tier_open(&read, &other));
    for (uint32_t i = 2; i < 8; i++) assert_int_equal(noise_get(t, i, 1), i == 2 ? SP_E_NOTFOUND : SP_OK);
    for (uint32_t i = 2; i < 8; i++) assert_int_equal(noise_get(other, i, 1), i == 2 ? SP_E_NOTFOUND : SP_OK);
    sp_tier_close(other);
    sp_tier_close(t);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_on_disk_before_the_index_names_it),
        cmocka_unit_test(a_sync_ends_after_what_was_submitted_before_it),
        cmocka_unit_test(a_new_index_is_on_disk_before_it_has_its_name),
        cmocka_unit_test(what_is_erased_is_erased_on_disk),
        cmocka_unit_test(a_copy_found_damaged_while_it_moves_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
