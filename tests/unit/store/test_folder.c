/* test_folder.c -- the folder of a store: its disk, what others have of its limit, and the files that stay open. */
#include "support/check.h"

#include "disk.h"

#include "store/disk/folder.h"
#include "store/disk/segments_int.h"

/* From a folder of another file system, which is not asked. */
static void the_disk_of_a_folder_that_is_still_to_be_made(void **state)
{
    static const char *const folders[] = {"/no-such-folder", "/no-such-folder/of/any"};
    sp_folder_space root, got;
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_ok(sp_folder_space_of("/", &root));
    assert_int_equal(chdir("/proc"), 0);
    for (size_t i = 0; i < SP_COUNT(folders); i++) {
        assert_ok(sp_folder_space_of(folders[i], &got));
        assert_int_equal(got.total, root.total);
    }
    assert_int_equal(chdir(here), 0);
}

static void of_a_small_disk_a_share_stays_free(void **state)
{
    static const char *const disks[] = {"/", "/proc"};
    for (size_t i = 0; i < SP_COUNT(disks); i++) {
        sp_folder_space s;
        assert_ok(sp_folder_space_of(disks[i], &s));
        assert_int_equal(s.reserve, SP_MIN(s.total / 20, (int64_t)1 << 30));
    }
}

static sp_err add_up(void *user, const sp_folder_part *part)
{
    *(int64_t *)user += part->bytes;
    return SP_OK;
}

static void what_others_have_is_not_in_the_budget(void **state)
{
    bench b;
    int64_t n_bytes = 0, left;
    if (!bench_begin(&b, (sp_disk_tier_opts){0})) skip();
    put_all(b.tier, 3, 1);
    sp_tier_close(b.tier);
    b.tier = NULL;
    assert_ok(sp_folder_each(b.dir, add_up, &n_bytes));
    assert_true(n_bytes > 0);
    assert_ok(sp_folder_budget(b.dir, &noise_space, n_bytes, &left));
    assert_int_equal(left, n_bytes);
    assert_ok(sp_folder_budget(b.dir, &other_noise_space, n_bytes + 1, &left));
    assert_int_equal(left, 1);
    assert_int_equal(sp_folder_budget(b.dir, &other_noise_space, n_bytes, &left), SP_E_LIMIT);
    bench_end(&b);
}

static void touch(const char *dir, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

/* A note for whom it was made, and hidden files, are no copies. */
static void a_folder_without_copies_is_empty(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    assert_true(sp_folder_is_empty(dir));
    touch(dir, ".hidden");
    touch(dir, "made-for");
    assert_true(sp_folder_is_empty(dir));
    touch(dir, "5a010000000000000000000000000000");
    assert_false(sp_folder_is_empty(dir));
    remove_folder(dir);
}

static void files_that_nobody_reads_are_closed(void **state)
{
    enum { N = 200, MOST = 128 };
    char dir[128];
    sp_segments s;
    sp_segment_file *f;
    make_folder(dir, sizeof dir);
    assert_ok(sp_segments_init(&s, dir));
    for (uint32_t i = 1; i <= N; i++) {
        assert_ok(sp_segments_need(&s, i, &f));
        assert_ok(sp_segments_pin(&s, f, true, true, NULL));
        assert_true(f->fd >= 0);
        sp_segments_unpin(&s, f);
        assert_int_equal(s.n_open, SP_MIN(i, (uint32_t)MOST));
    }
    sp_segments_fini(&s);
    remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_disk_of_a_folder_that_is_still_to_be_made),
        cmocka_unit_test(of_a_small_disk_a_share_stays_free),
        cmocka_unit_test(what_others_have_is_not_in_the_budget),
        cmocka_unit_test(a_folder_without_copies_is_empty),
        cmocka_unit_test(files_that_nobody_reads_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
