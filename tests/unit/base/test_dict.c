/* test_dict.c -- the hash table from byte strings to numbers. */
#include "support/check.h"

#include <stdio.h>

#include "base/dict.h"

static void an_empty_table_has_nothing(void **state)
{
    sp_dict never = {0}, d;
    assert_int_equal(sp_dict_get(&never, "a", 1), SP_DICT_NONE);
    assert_ok(sp_dict_init(&d, 0));
    assert_int_equal(sp_dict_get(&d, "a", 1), SP_DICT_NONE);
    assert_int_equal(sp_dict_get(&d, NULL, 0), SP_DICT_NONE);
    sp_dict_fini(&d);
    assert_int_equal(sp_dict_get(&d, "a", 1), SP_DICT_NONE);
    assert_ok(sp_dict_put(&d, "a", 1, 7)); /* the table is usable after fini */
    assert_int_equal(sp_dict_get(&d, "a", 1), 7);
    sp_dict_fini(&d);
}

static void keys_are_bytes_with_a_length(void **state)
{
    sp_dict d;
    assert_ok(sp_dict_init(&d, 4));
    assert_ok(sp_dict_put(&d, "ab", 2, 1));
    assert_ok(sp_dict_put(&d, "abc", 3, 2));
    assert_ok(sp_dict_put(&d, "a\0b", 3, 3));
    assert_ok(sp_dict_put(&d, "a\0c", 3, 4));
    assert_int_equal(sp_dict_get(&d, "abc", 2), 1);
    assert_int_equal(sp_dict_get(&d, "abc", 3), 2);
    assert_int_equal(sp_dict_get(&d, "a\0b", 3), 3);
    assert_int_equal(sp_dict_get(&d, "a\0c", 3), 4);
    assert_int_equal(sp_dict_get(&d, "a", 1), SP_DICT_NONE);
    assert_int_equal(d.n, 4);
    sp_dict_fini(&d);
}

static void the_empty_key_is_a_key(void **state)
{
    sp_dict d;
    assert_ok(sp_dict_init(&d, 4));
    assert_ok(sp_dict_put(&d, NULL, 0, 5));
    assert_int_equal(sp_dict_get(&d, NULL, 0), 5);
    assert_int_equal(sp_dict_get(&d, "x", 0), 5);
    assert_ok(sp_dict_put(&d, "y", 0, 6));
    assert_int_equal(sp_dict_get(&d, NULL, 0), 6);
    assert_int_equal(d.n, 1);
    sp_dict_fini(&d);
}

static void putting_again_replaces(void **state)
{
    sp_dict d;
    assert_ok(sp_dict_init(&d, 1));
    for (uint32_t i = 0; i < 1000; i++) assert_ok(sp_dict_put(&d, "key", 3, i));
    assert_int_equal(sp_dict_get(&d, "key", 3), 999);
    assert_int_equal(d.n, 1);
    sp_dict_fini(&d);
}

/* Ten thousand keys in a table created for none: collisions and every growth. */
static void it_grows_and_keeps_everything(void **state)
{
    enum { N = 10000 };
    static char keys[N][8];
    sp_dict d;
    assert_ok(sp_dict_init(&d, 0));
    for (uint32_t i = 0; i < N; i++) {
        int len = snprintf(keys[i], sizeof keys[i], "%u", i * 7);
        assert_ok(sp_dict_put(&d, keys[i], (size_t)len, i));
        assert_true(d.n * 2 <= d.cap);
    }
    assert_int_equal(d.n, N);
    for (uint32_t i = 0; i < N; i++) assert_int_equal(sp_dict_get(&d, keys[i], strlen(keys[i])), i);
    for (uint32_t i = 0; i < N; i++) {
        char absent[16];
        int len = snprintf(absent, sizeof absent, "%u", i * 7 + 3);
        assert_int_equal(sp_dict_get(&d, absent, (size_t)len), SP_DICT_NONE);
    }
    sp_dict_fini(&d);
}

static void room_asked_for_is_there(void **state)
{
    sp_dict d;
    uint32_t keys[100];
    assert_ok(sp_dict_init(&d, 100));
    sp_fault_after(0); /* so nothing may grow */
    for (uint32_t i = 0; i < 100; i++) {
        keys[i] = i;
        assert_ok(sp_dict_put(&d, &keys[i], sizeof keys[i], i));
    }
    sp_fault_after(-1);
    sp_dict_fini(&d);
}

static void sizes_beyond_memory_are_refused(void **state)
{
    sp_dict d;
    assert_fails(sp_dict_init(&d, SIZE_MAX), SP_E_NOMEM, "table");
    assert_fails(sp_dict_init(&d, SIZE_MAX / 2), SP_E_NOMEM, "table");
    assert_fails(sp_dict_init(&d, SIZE_MAX / 4), SP_E_NOMEM, "table");
    assert_ok(sp_dict_init(&d, 0));
    assert_fails(sp_dict_put(&d, "a", (size_t)UINT32_MAX + 1, 0), SP_E_LIMIT, "key");
    assert_int_equal(d.n, 0);
    sp_dict_fini(&d);
}

static void a_failed_growth_loses_nothing(void **state)
{
    sp_dict d;
    uint32_t keys[64];
    assert_survives_faults(sp_dict_init(&d, 4), true);
    for (uint32_t i = 0; i < 64; i++) {
        keys[i] = i;
        sp_fault_after(1);
        sp_err err = sp_dict_put(&d, &keys[i], sizeof keys[i], i);
        sp_fault_after(-1);
        for (uint32_t j = 0; j < i; j++)
            assert_int_equal(sp_dict_get(&d, &keys[j], sizeof keys[j]), j);
        assert_int_equal(d.n, err == SP_OK ? i + 1 : i);
        if (err != SP_OK) {
            assert_int_equal(err, SP_E_NOMEM);
            assert_int_equal(sp_dict_get(&d, &keys[i], sizeof keys[i]), SP_DICT_NONE);
            assert_ok(sp_dict_put(&d, &keys[i], sizeof keys[i], i));
        }
    }
    assert_int_equal(d.cap, 128); /* three growths from 16, each failed once */
    sp_dict_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_has_nothing),
        cmocka_unit_test(keys_are_bytes_with_a_length),
        cmocka_unit_test(the_empty_key_is_a_key),
        cmocka_unit_test(putting_again_replaces),
        cmocka_unit_test(it_grows_and_keeps_everything),
        cmocka_unit_test(room_asked_for_is_there),
        cmocka_unit_test(sizes_beyond_memory_are_refused),
        cmocka_unit_test(a_failed_growth_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
