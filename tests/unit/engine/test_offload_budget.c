/* test_offload_budget.c -- which blocks leave memory, how many stay, and what is forgotten when a block in the file is
 * overwritten. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/offload/offload_int.h"

#include "store/files.h"
#include "support/offload_scene.h"

static int n_resident(const scene *s)
{
    int n = 0;
    for (int i = 0; i < LAYERS * G; i++) n += sp_offload_is_resident(s->offload, i / G, i % G);
    return n;
}

/* Each head has its part of what the pool overwrites, and no head keeps what it had in memory. */
static void what_is_overwritten_is_forgotten(void **state)
{
    scene s;
    const uint8_t *at;
    tight(&s, 60, 30, 50);
    const size_t n = 3 * sp_kv_pool_layer_block_bytes(s.t.pool);
    const sp_kv_run run = {.layer = 1, .first = s.known.spans[0].blocks[2], .n = 3};
    uint8_t *fresh = malloc(n), *got = malloc(n);
    for (size_t i = 0; i < n; i++) fresh[i] = (uint8_t)(i * 13 + i / 256);
    assert_int_equal(n_resident(&s), 2);
    assert_ok(sp_kv_pool_write(s.t.pool, run, fresh));
    assert_ok(sp_kv_pool_read(s.t.pool, run, got, &at));
    assert_memory_equal(got, fresh, n);
    sp_offload_turn(s.offload);
    assert_int_equal(n_resident(&s), 0);
    free(fresh);
    free(got);
    scene_close(&s);
}

/* What a step reads and writes leaves less of the budget to near blocks. */
static void near_blocks_make_way_for_a_step(void **state)
{
    static float logits[STEPS * V];
    scene s;
    sp_plan p;
    int n = 160;
    tight_open(&s, 26, 0, 0);
    const int64_t held = sp_kv_pool_n_near(s.t.pool);
    chunks_compute(&s.t, &chunks, &s.known);
    assert_ok(decode(&s, NULL, logits));
    assert_ok(prompt(&s, &p));
    sp_offload_begin_step(s.offload);
    assert_true(sp_offload_add_slice(s.offload, &p, &n));
    assert_int_equal(n, 160);
    sp_offload_turn(s.offload);
    assert_in_range(sp_kv_pool_n_near(s.t.pool) - held, 0, 26 - 10 - 25 / LAYERS);
    sp_plan_fini(&p);
    scene_close(&s);
}

/* A block that nobody holds is not written, although it was sealed. */
static void freed_blocks_do_not_leave(void **state)
{
    enum { N = 46 };
    scene s;
    uint32_t b[N];
    tight_open(&s, 26, 0, 0);
    sp_plan_init(&s.known, s.t.pool);
    assert_ok(sp_kv_acquire(s.t.pool, N, b));
    for (int i = 0; i < N; i++) sp_kv_touch(s.t.pool, b[i]);
    sp_kv_seal(s.t.pool, b, N);
    for (int i = 0; i < N; i += 2) sp_kv_release(s.t.pool, &b[i], 1);
    const int64_t n_near = sp_kv_pool_n_near(s.t.pool);
    for (int i = 0; i < 5; i++) sp_offload_turn(s.offload);
    const int64_t gone = n_near - sp_kv_pool_n_near(s.t.pool);
    assert_true(gone > 0);
    assert_int_equal(sp_offload_stats_of(s.offload).n_left, gone);
    for (int i = 1; i < N; i += 2) sp_kv_release(s.t.pool, &b[i], 1);
    scene_close(&s);
}

/* More blocks than are written together leave within one turn. */
static void many_blocks_leave_at_once(void **state)
{
    enum { N = 600 };
    static uint32_t b[N];
    scene s;
    tiny_spec spec = TINY_SPEC_DEFAULT;
    spec.kv_type = SP_Q16;
    spec.n_blocks = N + 100;
    assert_ok(tiny_open(&s.t, &spec, 21));
    const sp_offload_opts o = tight_opts(&s, 26, 0, 0);
    assert_ok(sp_offload_create(&o, &s.offload));
    sp_engine_set_offload(s.t.engine, s.offload);
    sp_plan_init(&s.known, s.t.pool);
    assert_ok(sp_kv_acquire(s.t.pool, N, b));
    for (int i = 0; i < N; i++) sp_kv_touch(s.t.pool, b[i]);
    sp_kv_seal(s.t.pool, b, N);
    sp_offload_turn(s.offload);
    assert_in_range(sp_offload_stats_of(s.offload).n_left, N - 26, N);
    assert_in_range(sp_kv_pool_n_near(s.t.pool), 0, 26);
    sp_kv_release(s.t.pool, b, N);
    scene_close(&s);
}

/* Blocks that two requests read take memory once. */
static void shared_blocks_are_counted_once(void **state)
{
    scene s;
    sp_plan p[2];
    int n[2] = {1, 10000};
    tight(&s, 40, 10, 0);
    for (int i = 0; i < 2; i++) assert_ok(prompt(&s, &p[i]));
    sp_offload_begin_step(s.offload);
    for (int i = 0; i < 2; i++) assert_true(sp_offload_add_slice(s.offload, &p[i], &n[i]));
    assert_in_range(n[1] / B, 40 - 1 - 30 / LAYERS - 5, 40);
    for (int i = 0; i < 2; i++) sp_plan_fini(&p[i]);
    scene_close(&s);
}

static void resident_heads_lengthen_the_context(void **state)
{
    int64_t n[2];
    for (int i = 0; i < 2; i++) {
        scene s;
        tight_open(&s, 60, 30, i * 10 * LAYERS * G);
        sp_plan_init(&s.known, s.t.pool);
        n[i] = sp_offload_max_context(s.offload);
        scene_close(&s);
    }
    assert_int_equal(n[1] - n[0], 10);
}

/* Of 60 blocks 5 are spare seats of one layer at a time, and one is not a seat. */
static void seats_do_not_take_the_whole_budget(void **state)
{
    scene s;
    tight_open(&s, 60, 54, 0);
    sp_plan_init(&s.known, s.t.pool);
    for (int n = 54; n <= 55; n++) {
        const sp_offload_opts o = tight_opts(&s, 60, n, 0);
        const sp_kv_shape *shape = sp_kv_pool_shape(s.t.pool);
        assert_int_equal(sp_offload_n_extra(shape, sp_kv_pool_n_blocks(s.t.pool), &o), n == 54 ? 54 + 15 : 0);
    }
    assert_non_null(strstr(sp_error_detail(), "55 seats for blocks take all of it"));
    scene_close(&s);
}

/* A window that could not be read is read again, whole. */
static void a_window_that_failed_is_not_there(void **state)
{
    scene s;
    tight(&s, 60, 30, 0);
    const uint8_t *at;
    const uint32_t *blocks = s.known.spans[0].blocks;
    const size_t n = sp_kv_pool_layer_block_bytes(s.t.pool);
    uint8_t *want = malloc(n);
    assert_ok(sp_kv_pool_read(s.t.pool, (sp_kv_run){.layer = 1, .first = blocks[2], .n = 1}, want, &at));
    sp_store_fault(SP_CALL_READ, 1, EIO, true);
    assert_fails(sp_offload_window(s.offload, 1, blocks, 5), SP_E_IO, "/tmp");
    sp_store_fault(0, 0, 0, false);
    assert_ok(sp_offload_window(s.offload, 1, blocks, 5));
    assert_memory_equal(sp_kv_pool_bytes_at(s.t.pool, 1, 0, blocks[2]), want, n);
    free(want);
    scene_close(&s);
}

/* Of a block that cannot be read its owner is told once. */
static void damage_is_told_once(void **state)
{
    scene s;
    uint32_t block = UINT32_MAX;
    tight(&s, 60, 30, 0);
    const uint32_t *blocks = s.known.spans[0].blocks;
    assert_false(sp_offload_take_damage(s.offload, &block));
    sp_store_fault(SP_CALL_READ, 1, SP_FLIPS, true);
    assert_fails(sp_offload_window(s.offload, 1, &blocks[3], 1), SP_E_IO, "damaged at record");
    sp_store_fault(0, 0, 0, false);
    assert_true(sp_offload_take_damage(s.offload, &block));
    assert_int_equal(block, blocks[3]);
    assert_false(sp_offload_take_damage(s.offload, &block));
    scene_close(&s);
}

/* the_file -- of contexts, for writing: it has no name, as the one that takes the output may have none. */
static int the_file(void)
{
    char link[64], target[512];
    int found = -1;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    for (struct dirent *e; found < 0 && (e = readdir(all));) {
        if (atoi(e->d_name) <= STDERR_FILENO) continue; /* "." and ".." are 0 */
        snprintf(link, sizeof link, "/proc/self/fd/%.20s", e->d_name);
        const ssize_t n = readlink(link, target, sizeof target - 1);
        if (n <= 0) continue;
        target[n] = '\0';
        if (strncmp(target, "/tmp/#", 6) == 0 && strstr(target, "deleted")) found = open(link, O_WRONLY);
    }
    closedir(all);
    assert_true(found >= 0);
    return found;
}

/* Neighbours are read together; only those who read the damaged one must start again. */
static void the_damaged_one_of_several_blocks_is_named(void **state)
{
    scene s;
    char junk[64];
    uint32_t block = UINT32_MAX;
    tight(&s, 60, 30, 0);
    const uint32_t *blocks = s.known.spans[0].blocks;
    const int fd = the_file();
    memset(junk, 0x5a, sizeof junk);
    const int64_t at = sp_offload_record(s.offload, 1, blocks[3], 0) * (int64_t)sp_pages_stride(s.offload->pages);
    assert_int_equal(pwrite(fd, junk, sizeof junk, at), sizeof junk);
    assert_int_equal(close(fd), 0);
    assert_fails(sp_offload_window(s.offload, 1, &blocks[2], 3), SP_E_IO, "damaged at record");
    assert_true(sp_offload_take_damage(s.offload, &block));
    assert_int_equal(block, blocks[3]);
    scene_close(&s);
}

static int n_open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void the_file_is_closed_with_its_owner(void **state)
{
    scene s;
    const int before = n_open_files();
    tight_open(&s, 26, 0, 0);
    assert_true(n_open_files() > before);
    scene_close(&s);
    assert_int_equal(n_open_files(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_closed_with_its_owner),
        cmocka_unit_test(what_is_overwritten_is_forgotten),
        cmocka_unit_test(near_blocks_make_way_for_a_step),
        cmocka_unit_test(freed_blocks_do_not_leave),
        cmocka_unit_test(many_blocks_leave_at_once),
        cmocka_unit_test(shared_blocks_are_counted_once),
        cmocka_unit_test(resident_heads_lengthen_the_context),
        cmocka_unit_test(seats_do_not_take_the_whole_budget),
        cmocka_unit_test(a_window_that_failed_is_not_there),
        cmocka_unit_test(damage_is_told_once),
        cmocka_unit_test(the_damaged_one_of_several_blocks_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
