/* test_download.c -- one download at a time of a file, where the file system has locks. */
#include "support/caught.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli/hub/hub_int.h"

static int lock_error; /* 0: locked */

/* flock -- of the whole program. */
int flock(int fd, int operation)
{
    (void)fd;
    (void)operation;
    errno = lock_error;
    return lock_error ? -1 : 0;
}

/* pull -- an empty file, for which the hub is not asked. */
static bool pull(const char *to, int64_t size, const char **said)
{
    char path[] = "empty.json";
    progress p = {0};
    const hub_file file = {.path = path, .size = size};
    const hub_download d = {.file = &file, .to = to, .progress = &p};
    caught c = catch_begin(stderr);
    const bool good = hub_download_file(&d);
    *said = catch_end(&c);
    return good;
}

static void a_file_system_may_have_no_locks(void **state)
{
    char folder[] = "/tmp/spolia-download-XXXXXX", to[64], part[80];
    const char *said;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(to, sizeof to, "%s/empty.json", folder);
    snprintf(part, sizeof part, "%s.part", to);
    lock_error = EWOULDBLOCK;
    assert_false(pull(to, 0, &said));
    assert_non_null(strstr(said, "another process is downloading this file"));
    assert_int_equal(access(to, F_OK), -1);
    for (int i = 0; i < 2; i++) {
        lock_error = i ? 0 : ENOLCK;
        assert_true(pull(to, 0, &said));
        assert_int_equal(unlink(to), 0);
        assert_int_equal(access(part, F_OK), -1);
    }
    assert_false(pull(to, -1, &said));
    assert_non_null(strstr(said, "does not list its size"));
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_file_system_may_have_no_locks)};
    return cmocka_run_group_tests_name("downloads", tests, NULL, NULL);
}
