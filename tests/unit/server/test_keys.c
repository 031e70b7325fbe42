/* API keys: who is known, and whose salt is whose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/http/keys.h"
#include "support/check.h"

static char path[] = "/tmp/spolia-keys-XXXXXX";

static void write_file(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void keys_are_read_and_checked(void **state)
{
    srv_keys *k;
    srv_tenant red, blue, again;
    assert_true(mkstemp(path) >= 0);
    write_file("# comment\n\n# name: Anna\x1b B\n  red key  \r\nblue");
    assert_true(srv_keys_open(path, &k));
    assert_int_equal(srv_keys_count(k), 2);
    assert_true(srv_keys_check(k, "Bearer red key", NULL, &red));
    assert_string_equal(red.name, "Anna__B");
    assert_true(srv_keys_check(k, "bearer blue", NULL, &blue));
    assert_string_equal(blue.name, "key-2");
    assert_true(srv_keys_check(k, NULL, "blue", &again)); /* X-Api-Key */
    assert_int_equal(strlen(red.salt), SRV_SALT_SIZE - 1);
    assert_string_equal(blue.salt, again.salt);
    assert_string_not_equal(red.salt, blue.salt);
    const char *const unknown[] = {NULL, "", "Bearer", "Bearer ", "Bearer re", "Bearer red keyy", "Basic blue", "blue",
                                   "Bearer # comment"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_false(srv_keys_check(k, unknown[i], NULL, &again));
    assert_false(srv_keys_check(k, NULL, "Bearer blue", &again));
    write_file("green\n");
    assert_true(srv_keys_reload(k));
    assert_false(srv_keys_check(k, "Bearer blue", NULL, &again));
    assert_true(srv_keys_check(k, "Bearer green", NULL, &again));
    unlink(path);
    assert_false(srv_keys_reload(k)); /* the old ones remain */
    assert_true(srv_keys_check(k, "Bearer green", NULL, &again));
    srv_keys_close(k);
}

static void a_line_before_a_key_says_what_it_may(void **state)
{
    srv_keys *k;
    srv_tenant t;
    write_file("# limits: requests=60 tokens=20000 documents=5 bytes=64M\n# may: priority\none\ntwo\n");
    assert_true(srv_keys_open(path, &k));
    assert_true(srv_keys_check(k, "Bearer one", NULL, &t));
    assert_true(t.may_priority);
    assert_int_equal(t.limits.requests, 60);
    assert_int_equal(t.limits.tokens, 20000);
    assert_int_equal(t.limits.documents, 5);
    assert_int_equal(t.limits.bytes, 64 << 20);
    assert_true(srv_keys_check(k, "Bearer two", NULL, &t));
    assert_false(t.may_priority);
    assert_int_equal(t.limits.requests, 0);
    const char *const bad[] = {"# limits: request=60\none\n", "# limits: requests=0\none\n",
                               "# limits: requests\none\n",   "# limits: tokens=1X\none\n",
                               "# limits: bytes=-1\none\n",   "# may: all\none\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(bad[i]);
        assert_false(srv_keys_reload(k));
    }
    srv_keys_close(k);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_are_read_and_checked),
                                       cmocka_unit_test(a_line_before_a_key_says_what_it_may)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
