/* API keys: who is known, and whose salt is whose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/keys.h"
#include "support/check.h"

static char path[] = "/tmp/spolia-keys-XXXXXX";

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void test_keys(void **state)
{
    srv_keys *k;
    char red[SRV_SALT_SIZE], blue[SRV_SALT_SIZE], again[SRV_SALT_SIZE], name[SRV_KEY_NAME_SIZE] = "";
    assert_true(mkstemp(path) >= 0);
    write_file("# comment\n\n# name: Anna\x1b B\n  red key  \r\nblue");
    assert_true(srv_keys_open(path, &k));
    assert_true(srv_keys_check(k, "Bearer red key", red, name));
    assert_string_equal(name, "Anna__B");
    assert_true(srv_keys_check(k, "bearer blue", blue, name));
    assert_string_equal(name, "key-2");
    assert_true(srv_keys_check(k, "Bearer blue", again, name));
    assert_int_equal(strlen(red), SRV_SALT_SIZE - 1);
    assert_string_equal(blue, again);
    assert_string_not_equal(red, blue);
    const char *const unknown[] = {NULL, "", "Bearer", "Bearer ", "Bearer re", "Bearer red keyy", "Basic blue", "blue",
                                   "Bearer # comment"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_false(srv_keys_check(k, unknown[i], again, name));
    write_file("green\n");
    assert_true(srv_keys_reload(k));
    assert_false(srv_keys_check(k, "Bearer blue", again, name));
    assert_true(srv_keys_check(k, "Bearer green", again, name));
    unlink(path);
    assert_false(srv_keys_reload(k)); /* the old ones remain */
    assert_true(srv_keys_check(k, "Bearer green", again, name));
    srv_keys_close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
