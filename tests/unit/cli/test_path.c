/* test_path.c -- the name of a model is the last part of its path. */
#include "support/folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/path.h"

static void expect(const char *path, const char *name)
{
    char *got = cli_last_part(path);
    assert_string_equal(got, name);
    free(got);
}

static void slashes_at_the_end_are_no_part(void **state)
{
    expect("model.gguf", "model.gguf");
    expect("/a/b/model.gguf", "model.gguf");
    expect("/a/model/", "model");
    expect("/a//model///", "model");
    expect("model//", "model");
    expect("/model", "model");
    expect("/", "/");
    expect("//", "/");
    expect("", "");
}

static void dots_are_the_folder_that_they_mean(void **state)
{
    char inside[300], path[400];
    snprintf(inside, sizeof inside, "%s/model", (const char *)*state);
    assert_int_equal(mkdir(inside, 0700), 0);
    snprintf(path, sizeof path, "%s/.", inside);
    expect(path, "model");
    snprintf(path, sizeof path, "%s/model/../model/.././", (const char *)*state);
    expect(path, strrchr(*state, '/') + 1);
    assert_int_equal(chdir(inside), 0);
    expect(".", "model");
    expect("./", "model");
    expect("..", strrchr(*state, '/') + 1);
    assert_int_equal(chdir("/"), 0);
    expect(".", "/");
    expect("/no/such/folder/..", ".."); /* it has no name */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slashes_at_the_end_are_no_part),
        cmocka_unit_test(dots_are_the_folder_that_they_mean),
    };
    return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
