/* test_seal.c -- codes of authentication: only the value that was sealed passes, and only under its name. */
#include "support/check.h"

#include "store/remote/seal.h"

enum { BYTES = 5000 };

typedef struct value {
    uint8_t data[BYTES + SP_SEAL_BYTES];
    size_t n;
} value;

static sp_remote_seal seal_of(const char *key, const char *space)
{
    sp_remote_seal s = {0};
    assert_ok(sp_seal_init(&s, key, strlen(key)));
    snprintf(s.space, sizeof s.space, "%s", space);
    return s;
}

static value sealed(const sp_remote_seal *s)
{
    value v = {.n = BYTES};
    for (int i = 0; i < BYTES; i++) v.data[i] = (uint8_t)(i * 7);
    assert_ok(sp_seal_put(s, "copy", "3", v.data, &v.n));
    return v;
}

static bool passes(const sp_remote_seal *s, const char *name, const char *field, const value *v, size_t n)
{
    const size_t before = n;
    bool good = sp_seal_check(s, name, field, v->data, &n);
    assert_int_equal(n, good ? before - (s->n_key ? SP_SEAL_BYTES : 0) : before);
    return good;
}

static void what_was_sealed_passes_and_nothing_else(void **state)
{
    sp_remote_seal s = seal_of("a key of all replicas", "space:"), same = seal_of("a key of all replicas", "space:");
    value v = sealed(&s);
    assert_int_equal(v.n, BYTES + SP_SEAL_BYTES);
    assert_true(passes(&same, "copy", "3", &v, v.n));
    for (size_t i = 0; i < v.n; i += i < BYTES ? 61 : 1) { /* any byte: of the value, the number, the tag */
        v.data[i] ^= 0x10;
        assert_false(passes(&s, "copy", "3", &v, v.n));
        v.data[i] ^= 0x10;
    }
    assert_false(passes(&s, "copy", "4", &v, v.n));
    assert_false(passes(&s, "cop", "y3", &v, v.n)); /* names are delimited */
    assert_false(passes(&s, "other", "3", &v, v.n));
    assert_false(passes(&s, "copy", "3", &v, v.n - 1));
    assert_false(passes(&s, "copy", "3", &v, SP_SEAL_BYTES - 1));
    assert_false(passes(&s, "copy", "3", &v, 0));
    sp_seal_fini(&s);
    sp_seal_fini(&same);
}

static void another_key_or_namespace_is_refused(void **state)
{
    sp_remote_seal s = seal_of("a key of all replicas", "space:"), key = seal_of("a key of all replicaz", "space:");
    sp_remote_seal space = seal_of("a key of all replicas", "spacf:");
    const value v = sealed(&s);
    assert_false(passes(&key, "copy", "3", &v, v.n));
    assert_false(passes(&space, "copy", "3", &v, v.n));
    sp_seal_fini(&s);
    sp_seal_fini(&key);
    sp_seal_fini(&space);
}

/* Poly1305 needs a key of its own for each message. */
static void no_key_is_used_twice(void **state)
{
    sp_remote_seal s = seal_of("a key of all replicas", "space:");
    const value one = sealed(&s), two = sealed(&s);
    assert_memory_equal(one.data, two.data, BYTES);
    assert_memory_not_equal(one.data + BYTES, two.data + BYTES, 16);
    assert_memory_not_equal(one.data + BYTES + 16, two.data + BYTES + 16, 16);
    assert_true(passes(&s, "copy", "3", &one, one.n) && passes(&s, "copy", "3", &two, two.n));
    sp_seal_fini(&s);
}

static void without_a_key_everything_passes(void **state)
{
    sp_remote_seal s = seal_of("", "space:");
    value v = sealed(&s);
    assert_int_equal(v.n, BYTES);
    assert_true(passes(&s, "another", "1", &v, v.n));
    sp_seal_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_passes_and_nothing_else),
        cmocka_unit_test(another_key_or_namespace_is_refused),
        cmocka_unit_test(no_key_is_used_twice),
        cmocka_unit_test(without_a_key_everything_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
