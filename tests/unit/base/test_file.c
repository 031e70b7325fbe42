/* test_file.c -- reading files, mapped and copied, and replacing them. */
#include "support/check.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "unit/model/temp_folder.h"

static temp_folder folder;
static int until_error = -1; /* reads; -1: none fails */
static int error = EIO;

/* read -- of the whole program: at most 4 bytes while a failure is to come. */
ssize_t read(int fd, void *to, size_t n)
{
    typedef ssize_t reader(int, void *, size_t);
    static reader *next;
    if (!next) next = (reader *)dlsym(RTLD_NEXT, "read");
    if (until_error < 0) return next(fd, to, n);
    if (until_error-- > 0) return next(fd, to, SP_MIN(n, (size_t)4));
    errno = error;
    return -1;
}

static int until_failure = -1; /* writes, syncs, closes and renamings; -1: none fails */

/* fails -- the next of these calls. */
static bool fails(void)
{
    if (until_failure < 0) return false;
    if (until_failure-- > 0) return false;
    errno = ENOSPC;
    return true;
}

/* write -- of the whole program: at most 4 bytes while a failure is to come. */
ssize_t write(int fd, const void *from, size_t n)
{
    typedef ssize_t writer(int, const void *, size_t);
    static writer *next;
    if (!next) next = (writer *)dlsym(RTLD_NEXT, "write");
    if (until_failure < 0) return next(fd, from, n);
    return fails() ? -1 : next(fd, from, SP_MIN(n, (size_t)4));
}

int fsync(int fd)
{
    typedef int syncer(int);
    syncer *next = (syncer *)dlsym(RTLD_NEXT, "fsync");
    return fails() ? -1 : next(fd);
}

int rename(const char *from, const char *to)
{
    typedef int renamer(const char *, const char *);
    renamer *next = (renamer *)dlsym(RTLD_NEXT, "rename");
    return fails() ? -1 : next(from, to);
}

static int make_folder(void **state)
{
    temp_folder_make(&folder);
    return 0;
}

static int remove_folder(void **state)
{
    temp_folder_remove(&folder);
    return 0;
}

static void contents_arrive_unchanged(void **state)
{
    static char text[20000]; /* several pages, the last one not full */
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 13);
    temp_folder_write(&folder, "some.bin", text, sizeof text);
    const char *path = temp_folder_file(&folder, "some.bin");

    sp_file_map map;
    assert_ok(sp_file_map_open(path, &map));
    assert_int_equal(map.size, sizeof text);
    assert_memory_equal(map.data, text, sizeof text);
    sp_file_map_close(&map);
    assert_null(map.data);
    sp_file_map_close(&map); /* twice is harmless */

    sp_bytes b = {0};
    assert_ok(sp_bytes_add(&b, "before", 6));
    assert_ok(sp_file_read(path, sizeof text, &b)); /* exactly the limit */
    assert_int_equal(b.n, 6 + sizeof text);
    assert_memory_equal(b.v, "before", 6);
    assert_memory_equal(b.v + 6, text, sizeof text);
    sp_vec_fini(&b);
}

/* A file that was written again in the same second is another one. */
static void a_map_knows_when_its_file_was_written(void **state)
{
    const struct timespec times[2] = {{1000, 5}, {1234567890, 987654321}};
    temp_folder_text(&folder, "dated", "12345");
    const char *path = temp_folder_file(&folder, "dated");
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    sp_file_map map;
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_ok(sp_file_map_open(path, &map));
    assert_true(map.id.modified_ns == INT64_C(1234567890987654321));
    assert_true(map.id.inode == st.st_ino && map.id.size == 5);
    sp_file_map_close(&map);
}

static void an_empty_file_is_a_file(void **state)
{
    temp_folder_text(&folder, "empty", "");
    const char *path = temp_folder_file(&folder, "empty");
    sp_file_map map = {.size = 9};
    assert_ok(sp_file_map_open(path, &map));
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    sp_file_map_close(&map);
    sp_bytes b = {0};
    assert_ok(sp_file_read(path, 0, &b));
    assert_int_equal(b.n, 0);
    sp_vec_fini(&b);
}

/* Both ways of reading refuse `path` with its name and `reason`, and do not change their
 * outputs. */
static void assert_refused(const char *path, const char *reason)
{
    static const uint8_t mark[1];
    sp_file_map map = {.data = mark, .size = 77};
    assert_fails(sp_file_map_open(path, &map), SP_E_IO, path);
    assert_non_null(strstr(sp_error_detail(), reason));
    assert_ptr_equal(map.data, mark);
    assert_int_equal(map.size, 77);

    sp_bytes b = {0};
    assert_ok(sp_bytes_add(&b, "x", 1));
    assert_fails(sp_file_read(path, 1000, &b), SP_E_IO, path);
    assert_non_null(strstr(sp_error_detail(), reason));
    assert_int_equal(b.n, 1);
    sp_vec_fini(&b);
}

static void what_is_no_readable_file_is_refused(void **state)
{
    assert_refused(temp_folder_file(&folder, "missing"), "No such file");
    assert_refused(folder.path, "not a regular file");
    assert_refused("/dev/null", "not a regular file");
    const char *pipe = temp_folder_file(&folder, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_refused(pipe, "not a regular file"); /* without waiting: the pipe has no writer */
}

static void files_over_the_limit_are_refused(void **state)
{
    temp_folder_text(&folder, "ten", "0123456789");
    sp_bytes b = {0};
    assert_ok(sp_bytes_add(&b, "x", 1));
    assert_fails(sp_file_read(temp_folder_file(&folder, "ten"), 9, &b), SP_E_LIMIT, "10 bytes");
    assert_int_equal(b.n, 1);
    sp_vec_fini(&b);
}

static void reading_survives_faults(void **state)
{
    temp_folder_text(&folder, "text", "0123456789");
    const char *path = temp_folder_file(&folder, "text");
    sp_bytes b = {0};
    assert_survives_faults(sp_file_read(path, 100, &b), b.n == 0);
    assert_memory_equal(b.v, "0123456789", 10);
    sp_vec_fini(&b);
}

/* A disk that fails in the middle of a file: nothing of it stays. */
static void a_failing_read_changes_nothing(void **state)
{
    temp_folder_text(&folder, "bad sector", "0123456789");
    const char *path = temp_folder_file(&folder, "bad sector");
    sp_bytes b = {0};
    assert_ok(sp_bytes_add(&b, "x", 1));
    until_error = 1;
    const sp_err err = sp_file_read(path, 100, &b);
    until_error = -1;
    assert_int_equal(err, SP_E_IO);
    assert_int_equal(b.n, 1);
    assert_ok(sp_file_read(path, 100, &b));
    assert_memory_equal(b.v, "x0123456789", b.n);
    sp_vec_fini(&b);
}

static void a_signal_during_a_read_is_no_error(void **state)
{
    temp_folder_text(&folder, "slow", "0123456789");
    sp_bytes b = {0};
    error = EINTR;
    until_error = 1;
    const sp_err err = sp_file_read(temp_folder_file(&folder, "slow"), 100, &b);
    until_error = -1;
    error = EIO;
    assert_int_equal(err, SP_OK);
    assert_int_equal(b.n, 10);
    assert_memory_equal(b.v, "0123456789", 10);
    sp_vec_fini(&b);
}

static long n_faults(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return r.ru_minflt + r.ru_majflt;
}

/* A range may end where the map ends. */
static void all_pages_may_be_let_go(void **state)
{
    static char text[1 << 20];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 7 + 1);
    temp_folder_write(&folder, "all", text, sizeof text);
    sp_file_map map;
    assert_ok(sp_file_map_open(temp_folder_file(&folder, "all"), &map));
    assert_memory_equal(map.data, text, sizeof text);
    sp_file_map_let_go(&map, map.data, map.size);
    const long before = n_faults();
    assert_memory_equal(map.data, text, sizeof text);
    assert_true(n_faults() - before >= 8); /* the system maps up to 16 pages for one */
    sp_file_map_close(&map);
}

/* Dropped pages are read again on access; memory outside the map, which the system would clear, is
 * not touched. */
static void pages_let_go_come_back(void **state)
{
    static char text[50000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 7 + 1);
    temp_folder_write(&folder, "large.bin", text, sizeof text);
    sp_file_map map;
    assert_ok(sp_file_map_open(temp_folder_file(&folder, "large.bin"), &map));
    assert_memory_equal(map.data, text, sizeof text);
    static const size_t ranges[][2] = {
        {0, 50000}, {1, 49999}, {4096, 8192}, {100, 200}, {50000, 0}};
    for (size_t i = 0; i < SP_COUNT(ranges); i++) {
        sp_file_map_let_go(&map, map.data + ranges[i][0], ranges[i][1]);
        assert_memory_equal(map.data, text, sizeof text);
    }
    char *other = sp_pages_alloc(1 << 16);
    assert_non_null(other);
    memset(other, 5, 1 << 16);
    sp_file_map_let_go(&map, other, 1 << 16);
    sp_file_map_let_go(&map, map.data, map.size + (1 << 20)); /* beyond its end */
    sp_file_map_let_go(&(sp_file_map){0}, other, 1 << 16);
    for (int i = 0; i < 1 << 16; i += 512) assert_int_equal(other[i], 5);
    sp_pages_free(other, 1 << 16);
    sp_file_map_close(&map);
}

static void folders_are_told_from_files(void **state)
{
    temp_folder_text(&folder, "plain", "");
    assert_true(sp_file_is_dir(folder.path));
    assert_false(sp_file_is_dir(temp_folder_file(&folder, "plain")));
    assert_false(sp_file_is_dir(temp_folder_file(&folder, "absent")));
}

/* -- replacing ---------------------------------------------------------------------------------- */

static void has_text(const char *path, const char *text)
{
    sp_bytes b = {0};
    assert_ok(sp_file_read(path, 100, &b));
    assert_true(b.n == strlen(text) && memcmp(b.v, text, b.n) == 0);
    sp_vec_fini(&b);
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static int n_files(void)
{
    int n = 0;
    DIR *d = opendir(folder.path);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void a_file_is_made_or_replaced(void **state)
{
    char path[512];
    snprintf(path, sizeof path, "%s", temp_folder_file(&folder, "kept"));
    assert_ok(sp_file_write(path, "first", 5));
    has_text(path, "first");
    assert_int_equal(mode_of(path), 0644);
    assert_int_equal(chmod(path, 0600), 0);
    assert_ok(sp_file_write(path, "another", 7));
    has_text(path, "another");
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(symlink(path, temp_folder_file(&folder, "link")), 0);
    assert_ok(sp_file_write(temp_folder_file(&folder, "link"), "", 0));
    has_text(path, "");
    assert_fails(sp_file_write("/nowhere/file", "x", 1), SP_E_IO, "/nowhere/file: cannot be written: No such");
    assert_fails(sp_file_write("/dev/full", "x", 1), SP_E_IO, "/dev/full: cannot be written: No space left");
    assert_ok(sp_file_write("/dev/null", "x", 1));
}

static void a_file_that_cannot_be_replaced_is_as_it_was(void **state)
{
    char path[512];
    snprintf(path, sizeof path, "%s", temp_folder_file(&folder, "old"));
    assert_ok(sp_file_write(path, "as it was", 9));
    const int n = n_files();
    int n_failures = 0;
    for (bool again = true; again; n_failures += again) {
        until_failure = n_failures;
        sp_err err = sp_file_write(path, "what is new", 11);
        again = until_failure < 0;
        until_failure = -1;
        has_text(path, again ? "as it was" : "what is new");
        assert_int_equal(n_files(), n);
        if (again) assert_fails(err, SP_E_IO, "No space left");
    }
    assert_int_equal(n_failures, 5); /* three writes, the sync and the renaming */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_arrive_unchanged),
        cmocka_unit_test(a_map_knows_when_its_file_was_written),
        cmocka_unit_test(an_empty_file_is_a_file),
        cmocka_unit_test(what_is_no_readable_file_is_refused),
        cmocka_unit_test(files_over_the_limit_are_refused),
        cmocka_unit_test(reading_survives_faults),
        cmocka_unit_test(a_failing_read_changes_nothing),
        cmocka_unit_test(a_signal_during_a_read_is_no_error),
        cmocka_unit_test(pages_let_go_come_back),
        cmocka_unit_test(all_pages_may_be_let_go),
        cmocka_unit_test(folders_are_told_from_files),
        cmocka_unit_test(a_file_is_made_or_replaced),
        cmocka_unit_test(a_file_that_cannot_be_replaced_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
