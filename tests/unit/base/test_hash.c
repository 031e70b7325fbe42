/* test_hash.c -- SHA-256 with fields, hex, and the fast hash. */
#include "support/check.h"
#include "support/failing_crypto.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"

static sp_digest digest_of(const void *data, size_t n)
{
    sp_sha256 *s;
    sp_digest d;
    assert_ok(sp_sha256_create(&s));
    sp_sha256_update(s, data, n);
    sp_sha256_final(s, &d);
    return d;
}

static void assert_hex(const sp_digest *d, const char *hex)
{
    char got[65];
    sp_digest_hex(d, 32, got);
    assert_string_equal(got, hex);
}

/* Source: FIPS 180-4, example values of NIST. */
static void it_is_sha256(void **state)
{
    sp_digest d = digest_of("abc", 3);
    assert_hex(&d, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    d = digest_of(NULL, 0);
    assert_hex(&d, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    d = digest_of(two_blocks, strlen(two_blocks));
    assert_hex(&d, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

enum { OUT_OF_MEMORY = 11, ALL_SERVED, HIDDEN }; /* how a child ends */

/* first_digest -- of a process of its own, in which an allocation of libcrypto fails. */
static int first_digest(int at)
{
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
        sp_sha256 *s;
        crypto_until_failure = at;
        if (!failing_crypto_begin()) _exit(1);
        const sp_err err = sp_sha256_create(&s);
        if (err != SP_OK) _exit(err == SP_E_NOMEM ? OUT_OF_MEMORY : 2);
        sp_digest d;
        sp_sha256_update(s, "abc", 3);
        sp_sha256_final(s, &d);
        _exit(d.b[0] != 0xba ? 3 : crypto_until_failure < 0 ? HIDDEN : ALL_SERVED);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) fail_msg("allocation %d fails, and signal %d ends the process", at, WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* It comes first: here nobody has used libcrypto yet. */
static void the_first_digest_is_right_or_memory_was_short(void **state)
{
    int n_short = 0, at = 0;
    for (int end = 0; end != ALL_SERVED && at < 300; at++) {
        end = first_digest(at);
        assert_true(end >= OUT_OF_MEMORY);
        n_short += end == OUT_OF_MEMORY;
    }
    assert_in_range(n_short, 10, at);
}

static void pieces_give_the_digest_of_the_whole(void **state)
{
    char text[300];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 31);
    sp_digest whole = digest_of(text, sizeof text);
    for (size_t cut = 0; cut <= sizeof text; cut += 7) {
        sp_sha256 *s;
        sp_digest d;
        assert_ok(sp_sha256_create(&s));
        sp_sha256_update(s, text, cut);
        sp_sha256_update(s, text + cut, sizeof text - cut);
        sp_sha256_final(s, &d);
        assert_true(sp_digest_eq(&d, &whole));
    }
}

/* -- fields --------------------------------------------------------------------------------- */

typedef struct field {
    const char *tag, *data;
    size_t n;
} field;

#define MAX_FIELDS 3
typedef struct field_list {
    int n;
    field v[MAX_FIELDS];
} field_list;

/* Lists of fields that would be equal, or nearly, without tags or lengths. */
static const field_list lists[] = {
    {0, {{0}}},
    {1, {{"", "", 0}}},
    {2, {{"", "", 0}, {"", "", 0}}},
    {1, {{"a", "", 0}}},
    {1, {{"", "a", 1}}},
    {1, {{"a", "b", 1}}},
    {1, {{"ab", "", 0}}},
    {1, {{"", "ab", 2}}},
    {2, {{"a", "", 0}, {"b", "", 0}}},
    {2, {{"a", "b", 1}, {"", "", 0}}},
    {2, {{"a", "bc", 2}, {"a", "d", 1}}},
    {2, {{"a", "b", 1}, {"a", "cd", 2}}},
    {2, {{"a", "d", 1}, {"a", "bc", 2}}}, /* the order counts */
    {1, {{"a", "bcad", 4}}},
    {1, {{"a", "bca\0\1\0\0\0\0\0\0\0d", 12}}}, /* data that imitates a field */
    {1, {{"t", "\0", 1}}},
    {1, {{"t", "\0\0", 2}}},
    {1, {{"t", "", 0}}},
    {3, {{"x", "1", 1}, {"y", "2", 1}, {"z", "3", 1}}},
    {3, {{"x", "1", 1}, {"z", "2", 1}, {"y", "3", 1}}},
};

static void no_two_lists_of_fields_agree(void **state)
{
    sp_digest d[SP_COUNT(lists)];
    for (size_t i = 0; i < SP_COUNT(lists); i++) {
        sp_sha256 *s;
        assert_ok(sp_sha256_create(&s));
        for (int k = 0; k < lists[i].n; k++)
            sp_sha256_field(s, lists[i].v[k].tag, lists[i].v[k].data, lists[i].v[k].n);
        sp_sha256_final(s, &d[i]);
        for (size_t j = 0; j < i; j++)
            if (sp_digest_eq(&d[i], &d[j])) fail_msg("lists %zu and %zu agree", j, i);
    }
}

/* The byte string of a field is part of every cache on disk: tag, NUL, 64-bit length, data. */
static void the_bytes_of_a_field_are_fixed(void **state)
{
    sp_sha256 *s;
    sp_digest d;
    assert_ok(sp_sha256_create(&s));
    sp_sha256_field(s, "tag", "data", 4);
    sp_sha256_final(s, &d);
    sp_digest bytes = digest_of("tag\0\4\0\0\0\0\0\0\0data", 16);
    assert_true(sp_digest_eq(&d, &bytes));
}

/* -- digests -------------------------------------------------------------------------------- */

static void digests_differ_in_any_byte(void **state)
{
    sp_digest a = digest_of("abc", 3);
    for (size_t i = 0; i < sizeof a.b; i++) {
        sp_digest b = a;
        assert_true(sp_digest_eq(&a, &b));
        b.b[i] ^= 1;
        assert_false(sp_digest_eq(&a, &b));
    }
}

static void hex_writes_what_was_asked_for(void **state)
{
    sp_digest d = {{0x00, 0x9a, 0xff, 0x10}};
    char out[16];
    memset(out, '#', sizeof out);
    sp_digest_hex(&d, 4, out);
    assert_memory_equal(out, "009aff10\0#######", 16);
    sp_digest_hex(&d, 0, out);
    assert_string_equal(out, "");
}

/* -- the hash of tables ---------------------------------------------------------------------- */

/* Tables use the low bits: consecutive numbers, 4,096 of them, must spread over 4,096 slots about
 * like random numbers (63 % of the slots used, and no slot crowded). */
static void table_hash_spreads_in_the_low_bits(void **state)
{
    enum { N = 4096 };
    static int used[N];
    memset(used, 0, sizeof used);
    for (uint32_t i = 0; i < N; i++) used[sp_hash64(&i, sizeof i) % N]++;
    int n_used = 0, most = 0;
    for (int i = 0; i < N; i++) {
        n_used += used[i] > 0;
        most = SP_MAX(most, used[i]);
    }
    assert_in_range(n_used, N * 60 / 100, N * 66 / 100);
    assert_in_range(most, 1, 10);
}

static void table_hash_sees_every_byte_and_the_length(void **state)
{
    uint8_t bytes[32] = {0};
    uint64_t zeros = sp_hash64(bytes, sizeof bytes);
    assert_true(zeros == sp_hash64(bytes, sizeof bytes));
    assert_true(zeros != sp_hash64(bytes, sizeof bytes - 1));
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        assert_true(zeros != sp_hash64(bytes, sizeof bytes));
        bytes[i] = 0;
    }
}

/* Keys in stores are made of it: a store of another version would have nothing. */
static void table_hash_is_fixed(void **state)
{
    assert_true(sp_hash64("", 0) == 0xfdbdf6ac4fc52e7f);
    assert_true(sp_hash64("a", 1) == 0x2ef7d1316eb86f71);
    assert_true(sp_hash64("spolia", 6) == 0x6330df737c5d5d90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_digest_is_right_or_memory_was_short),
        cmocka_unit_test(it_is_sha256),
        cmocka_unit_test(pieces_give_the_digest_of_the_whole),
        cmocka_unit_test(no_two_lists_of_fields_agree),
        cmocka_unit_test(the_bytes_of_a_field_are_fixed),
        cmocka_unit_test(digests_differ_in_any_byte),
        cmocka_unit_test(hex_writes_what_was_asked_for),
        cmocka_unit_test(table_hash_is_fixed),
        cmocka_unit_test(table_hash_spreads_in_the_low_bits),
        cmocka_unit_test(table_hash_sees_every_byte_and_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
