/* API keys: who is known, and whose salt is whose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/http/keys.h"
#include "support/check.h"
#include "support/failing_crypto.h"

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
    write_file("# comment\n\n# name: An-n_a.@\x1b B\n  red key  \r\nblue");
    assert_true(srv_keys_open(path, &k));
    assert_int_equal(srv_keys_count(k), 2);
    assert_int_equal(srv_keys_check(k, "Bearer red key", NULL, &red), SRV_KEY_KNOWN);
    assert_string_equal(red.name, "An-n_a.@__B");
    assert_int_equal(srv_keys_check(k, "bearer blue", NULL, &blue), SRV_KEY_KNOWN);
    assert_string_equal(blue.name, "key-2");
    assert_int_equal(srv_keys_check(k, NULL, "blue", &again), SRV_KEY_KNOWN); /* X-Api-Key */
    assert_int_equal(strlen(red.salt), SRV_SALT_SIZE - 1);
    assert_string_equal(blue.salt, again.salt);
    assert_string_not_equal(red.salt, blue.salt);
    const char *const unknown[] = {NULL, "", "Bearer", "Bearer ", "Bearer re", "Bearer red keyy", "Basic blue", "blue",
                                   "Bearer # comment"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_int_equal(srv_keys_check(k, unknown[i], NULL, &again), SRV_KEY_UNKNOWN);
    assert_int_equal(srv_keys_check(k, NULL, "Bearer blue", &again), SRV_KEY_UNKNOWN);
    /* a wrong key, not a missing one */
    assert_int_equal(srv_keys_check(k, "Basic blue", "blue", &again), SRV_KEY_UNKNOWN);
    write_file("green\n");
    assert_true(srv_keys_reload(k));
    assert_int_equal(srv_keys_check(k, "Bearer blue", NULL, &again), SRV_KEY_UNKNOWN);
    assert_int_equal(srv_keys_check(k, "Bearer green", NULL, &again), SRV_KEY_KNOWN);
    unlink(path);
    assert_false(srv_keys_reload(k)); /* the old ones remain */
    assert_int_equal(srv_keys_check(k, "Bearer green", NULL, &again), SRV_KEY_KNOWN);
    srv_keys_close(k);
}

static void a_line_before_a_key_says_what_it_may(void **state)
{
    srv_keys *k;
    srv_tenant t;
    write_file("# limits: requests=60 tokens=20000 documents=5 bytes=64M\n# may: priority\none\ntwo\n");
    assert_true(srv_keys_open(path, &k));
    assert_int_equal(srv_keys_check(k, "Bearer one", NULL, &t), SRV_KEY_KNOWN);
    assert_true(t.may_priority);
    assert_int_equal(t.limits.requests, 60);
    assert_int_equal(t.limits.tokens, 20000);
    assert_int_equal(t.limits.documents, 5);
    assert_int_equal(t.limits.bytes, 64 << 20);
    assert_int_equal(srv_keys_check(k, "Bearer two", NULL, &t), SRV_KEY_KNOWN);
    assert_false(t.may_priority);
    assert_int_equal(t.limits.requests, 0);
    const char *const bad[] = {"# limits: request=60\none\n", "# limits: requests=0\none\n",
                               "# limits: requests\none\n",   "# limits: tokens=1X\none\n",
                               "# limits: bytes=-1\none\n",   "# may: all\none\n",
                               "# limits: bytes=1000000000000G\none\n", /* more than a number can hold */
                               "# limits: bytes=17179869184G\none\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(bad[i]);
        assert_false(srv_keys_reload(k));
    }
    srv_keys_close(k);
    unlink(path);
}

/* Tenants are apart by their salts: a salt that is that of another key is another one's cache. */
static void each_key_has_a_salt_of_its_own(void **state)
{
    enum { KEYS = 300 };
    static char text[KEYS * 16];
    static char salts[KEYS][SRV_SALT_SIZE];
    srv_keys *k;
    size_t n = 0;
    for (int i = 0; i < KEYS; i++) n += (size_t)snprintf(text + n, sizeof text - n, "key%d\n", i);
    write_file(text);
    assert_true(srv_keys_open(path, &k));
    for (int i = 0; i < KEYS; i++) {
        char header[32];
        srv_tenant t;
        snprintf(header, sizeof header, "Bearer key%d", i);
        assert_int_equal(srv_keys_check(k, header, NULL, &t), SRV_KEY_KNOWN);
        strcpy(salts[i], t.salt);
        for (int j = 0; j < i; j++) assert_string_not_equal(salts[i], salts[j]);
    }
    srv_keys_close(k);
    unlink(path);
}

static void a_file_without_a_key_lets_nobody_in(void **state)
{
    srv_keys *k;
    static const char *const none[] = {"", "\n\n", "# name: anna\n", "  \r\n# may: priority"};
    write_file("one\n");
    assert_true(srv_keys_open(path, &k));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        srv_keys *other = NULL;
        write_file(none[i]);
        assert_false(srv_keys_open(path, &other));
        assert_false(srv_keys_reload(k));
        assert_int_equal(srv_keys_count(k), 1);
    }
    srv_keys_close(k);
    unlink(path);
}

static void a_key_that_no_header_can_carry_is_refused(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        bool good;
    } cases[] = {
#define CASE(text, good) {text, sizeof text - 1, good}
        CASE("a~!key\n", true),         CASE("\t a b \r\n\n#\x01 no key\n", true), CASE("a\nb\x01" "c\n", false),
        CASE("a\nb\0c\n", false),       CASE("\0\n", false),                      CASE("caf\xc3\xa9\n", false),
        CASE("a\tb\n", false),          CASE("a\x7f", false),                     CASE("\xef\xbb\xbf" "a\n", true),
        CASE("a\n\xef\xbb\xbf" "b\n", false),
        CASE("\n \n# name: a\n", false), CASE("", false),
#undef CASE
    };
    srv_keys *k;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(fwrite(cases[i].text, 1, cases[i].n, f), cases[i].n);
        assert_int_equal(fclose(f), 0);
        const bool opened = srv_keys_open(path, &k);
        if (opened != cases[i].good) fail_msg("case %zu", i);
        if (opened) srv_keys_close(k);
    }
}

/* What a hash leaves that was not computed is somebody else's, perhaps: the key or the salt of the call before. */
static void a_key_is_not_taken_for_another_without_memory(void **state)
{
    srv_keys *k;
    srv_tenant red, blue, again;
    int n_short = 0, at = 0;
    write_file("red\nblue\n");
    assert_true(srv_keys_open(path, &k));
    assert_int_equal(srv_keys_check(k, "Bearer red", NULL, &red), SRV_KEY_KNOWN);
    for (bool failed = true; failed; at++) {
        assert_int_equal(srv_keys_check(k, "Bearer blue", NULL, &blue), SRV_KEY_KNOWN);
        crypto_until_failure = at;
        const srv_key_state s = srv_keys_check(k, "Bearer red", NULL, &again);
        failed = crypto_until_failure < 0;
        crypto_until_failure = -1;
        if (s == SRV_KEY_KNOWN) assert_string_equal(again.salt, red.salt);
        if (s != SRV_KEY_KNOWN) assert_int_equal(s, SRV_KEY_NO_MEMORY);
        n_short += s == SRV_KEY_NO_MEMORY;
    }
    assert_true(n_short >= 1);
    srv_keys_close(k);
    unlink(path);
}

static void keys_that_cannot_be_hashed_are_not_read(void **state)
{
    srv_keys *k;
    srv_tenant red, again;
    int n_short = 0;
    write_file("red\n");
    assert_true(srv_keys_open(path, &k));
    assert_int_equal(srv_keys_check(k, "Bearer red", NULL, &red), SRV_KEY_KNOWN);
    bool failed = true;
    for (int at = 0; failed; at++) {
        crypto_until_failure = at;
        n_short += !srv_keys_reload(k);
        failed = crypto_until_failure < 0;
        crypto_until_failure = -1;
        assert_int_equal(srv_keys_check(k, "Bearer red", NULL, &again), SRV_KEY_KNOWN);
        assert_string_equal(again.salt, red.salt);
    }
    assert_true(n_short >= 2); /* the hash and the salt */
    srv_keys_close(k);
    unlink(path);
}

int main(void)
{
    if (!failing_crypto_begin()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_are_read_and_checked),
                                       cmocka_unit_test(a_line_before_a_key_says_what_it_may),
                                       cmocka_unit_test(each_key_has_a_salt_of_its_own),
                                       cmocka_unit_test(a_file_without_a_key_lets_nobody_in),
                                       cmocka_unit_test(a_key_that_no_header_can_carry_is_refused),
                                       cmocka_unit_test(a_key_is_not_taken_for_another_without_memory),
                                       cmocka_unit_test(keys_that_cannot_be_hashed_are_not_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
