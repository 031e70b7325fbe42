/* test_mem.c -- allocation, arenas and growable arrays. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "support/check.h"

#include <sys/mman.h>

static bool all_zero(const void *p, size_t n)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        if (b[i]) return false;
    return true;
}

/* -- allocation ----------------------------------------------------------------------------- */

static void sizes_that_overflow_are_refused(void **state)
{
    char *p = sp_alloc(10, 1);
    assert_non_null(p);
    memset(p, 'x', 10);
    assert_null(sp_alloc(SIZE_MAX / 2 + 1, 2)); /* the product wraps to 0 */
    assert_null(sp_alloc(SIZE_MAX / 2, 2));
    assert_null(sp_alloc_zero(SIZE_MAX / 2 + 1, 2));
    assert_null(sp_resize(p, SIZE_MAX / 2 + 1, 2));
    assert_memory_equal(p, "xxxxxxxxxx", 10); /* a failed resize keeps the old memory */
    assert_null(sp_alloc_aligned(SIZE_MAX));
    assert_null(sp_alloc_aligned((size_t)PTRDIFF_MAX));
    assert_null(sp_pages_alloc(SIZE_MAX));
    assert_null(sp_pages_alloc(0));
    sp_free(p);
}

static void nothing_is_something(void **state)
{
    void *none[] = {sp_alloc(0, 8), sp_alloc_zero(8, 0), sp_resize(NULL, 0, 1), sp_resize(sp_alloc(9, 1), 0, 1),
                    sp_alloc_aligned(0)};
    for (size_t i = 0; i < SP_COUNT(none); i++) {
        assert_non_null(none[i]); /* NULL means failure, and only that */
        sp_free(none[i]);
    }
    sp_free(NULL);
    sp_pages_free(NULL, 1);
}

static void zeroed_means_zeroed(void **state)
{
    for (size_t n = 1; n < 5000; n = n * 3 + 1) {
        unsigned char *dirty = sp_alloc(n, 1); /* may be reused below */
        memset(dirty, 0xff, n);
        sp_free(dirty);
        dirty = sp_alloc_aligned(n);
        memset(dirty, 0xff, n);
        sp_free(dirty);
        unsigned char *z = sp_alloc_zero(n, 1), *a = sp_alloc_aligned(n), *p = sp_pages_alloc(n);
        assert_true(all_zero(z, n) && all_zero(a, n) && all_zero(p, n));
        assert_int_equal((uintptr_t)a % SP_CACHE_LINE, 0);
        assert_int_equal((uintptr_t)p % 4096, 0);
        memset(p, 0xff, n);
        sp_free(z);
        sp_free(a);
        sp_pages_free(p, n);
    }
}

/* Whether the page at p is in memory. */
static bool is_resident(const void *p)
{
    unsigned char in = 0;
    assert_int_equal(mincore((void *)((uintptr_t)p & ~(uintptr_t)4095), 1, &in), 0);
    return in & 1;
}

static void pages_cost_nothing_untouched(void **state)
{
    size_t n = (size_t)1 << 28;
    uint8_t *p = sp_pages_alloc(n);
    assert_non_null(p);
    p[0] = 1;
    p[n - 1] = 2;
    assert_true(is_resident(p) && is_resident(p + n - 1));
    assert_false(is_resident(p + n / 2));
    sp_pages_free(p, n);
}

static void copies_of_strings_end(void **state)
{
    char *s = sp_strdup_n("abcdef", 3);
    assert_string_equal(s, "abc");
    sp_free(s);
    s = sp_strdup_n(NULL, 0);
    assert_string_equal(s, "");
    sp_free(s);
}

static void faults_begin_when_told_and_last(void **state)
{
    void *got[3];
    sp_fault_after(3);
    for (int i = 0; i < 3; i++) got[i] = sp_alloc(1, 1);
    void *after[] = {sp_alloc(1, 1),      sp_alloc_zero(1, 1), sp_resize(NULL, 1, 1),
                     sp_alloc_aligned(1), sp_pages_alloc(1),   sp_strdup_n("", 0)};
    sp_fault_after(-1);
    assert_non_null(got[0]);
    assert_non_null(got[1]);
    assert_null(got[2]);
    for (size_t i = 0; i < SP_COUNT(after); i++) assert_null(after[i]);
    sp_free(got[0]);
    sp_free(got[1]);
    void *again = sp_alloc(1, 1);
    assert_non_null(again);
    sp_free(again);
}

/* -- arenas --------------------------------------------------------------------------------- */

static void arena_items_are_aligned_zeroed_and_apart(void **state)
{
    enum { N = 2000 };
    static struct {
        unsigned char *p;
        size_t n;
    } items[N];
    sp_arena a;
    sp_arena_init(&a);
    uint64_t seed = 1;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            items[i].n = (size_t)check_random(&seed, 300);
            items[i].p = sp_arena_take(&a, items[i].n, 1);
            assert_non_null(items[i].p);
            assert_int_equal((uintptr_t)items[i].p % 16, 0);
            assert_true(all_zero(items[i].p, items[i].n)); /* also after a reset */
            memset(items[i].p, i % 255 + 1, items[i].n);
        }
        for (int i = 0; i < N; i++)
            for (size_t k = 0; k < items[i].n; k++)
                assert_int_equal(items[i].p[k], i % 255 + 1); /* not overwritten */
        sp_arena_reset(&a);
    }
    sp_arena_fini(&a);
}

/* AddressSanitizer sees what is read beyond an item, and after a reset. */
static void a_sanitizer_sees_the_ends_of_items(void **state)
{
#if defined(__SANITIZE_ADDRESS__)
    sp_arena a;
    sp_arena_init(&a);
    for (int round = 0; round < 2; round++) {
        for (size_t n = 1; n < 70; n++) {
            char *p = sp_arena_take(&a, n, 1);
            assert_null(__asan_region_is_poisoned(p, n));
            assert_true(__asan_address_is_poisoned(p + n) && __asan_address_is_poisoned(p - 1) == (n > 1));
        }
        char *last = sp_arena_take(&a, 1, 1);
        sp_arena_reset(&a);
        assert_true(__asan_address_is_poisoned(last));
    }
    sp_arena_fini(&a);
#else
    skip();
#endif
}

static void two_empty_items_differ(void **state)
{
    sp_arena a;
    sp_arena_init(&a);
    void *x = sp_arena_take(&a, 0, 8), *y = sp_arena_take(&a, 8, 0);
    assert_non_null(x);
    assert_non_null(y);
    assert_ptr_not_equal(x, y);
    sp_arena_fini(&a);
}

/* After a reset, the memory is reused without another allocation. */
static void reset_keeps_the_largest_chunk(void **state)
{
    sp_arena a;
    sp_arena_init(&a);
    sp_arena_reset(&a); /* of an empty arena: nothing */
    assert_non_null(sp_arena_take(&a, 1000, 1));
    assert_non_null(sp_arena_take(&a, 1 << 20, 1));
    assert_non_null(sp_arena_take(&a, 1000, 1)); /* in an even larger chunk */
    sp_arena_reset(&a);
    sp_fault_after(0);
    void *whole = sp_arena_take(&a, 1 << 20, 1);
    void *rest = sp_arena_take(&a, 1000, 1);
    sp_fault_after(-1);
    assert_non_null(whole);
    assert_non_null(rest);
    sp_arena_fini(&a);
    assert_null(a.chunks);
    sp_arena_fini(&a); /* twice is harmless */
}

static void an_arena_refuses_what_overflows(void **state)
{
    sp_arena a;
    sp_arena_init(&a);
    assert_null(sp_arena_take(&a, SIZE_MAX / 2 + 1, 2));
    assert_null(sp_arena_take(&a, SIZE_MAX, 1));
    assert_null(sp_arena_take(&a, SIZE_MAX - 7, 1)); /* rounding up would wrap */
    char *p = sp_arena_take(&a, 4, 1);
    memcpy(p, "kept", 4);
    sp_fault_after(1);
    void *more = sp_arena_take(&a, 1 << 20, 1);
    sp_fault_after(-1);
    assert_null(more);
    assert_memory_equal(p, "kept", 4);
    assert_non_null(sp_arena_take(&a, 1 << 20, 1));
    assert_memory_equal(p, "kept", 4);
    sp_arena_fini(&a);
}

/* -- growable arrays ------------------------------------------------------------------------ */

static void arrays_grow_and_keep_their_items(void **state)
{
    SP_VEC(uint64_t) v = {0};
    int n_grown = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        size_t cap = v.cap;
        assert_ok(sp_vec_reserve(&v, 1));
        n_grown += v.cap != cap;
        assert_true(v.cap > v.n);
        v.v[v.n++] = i * i;
    }
    for (uint64_t i = 0; i < 10000; i++) assert_true(v.v[i] == i * i);
    assert_in_range(n_grown, 1, 40); /* by a factor, not one by one */
    size_t cap = v.cap;
    assert_ok(sp_vec_reserve(&v, cap - v.n)); /* fits: no growth */
    assert_int_equal(v.cap, cap);
    sp_vec_fini(&v);
    assert_null(v.v);
}

static void arrays_refuse_what_overflows(void **state)
{
    SP_VEC(uint64_t) v = {0};
    assert_ok(sp_vec_reserve(&v, 4));
    uint64_t *before = v.v;
    size_t cap = v.cap;
    v.n = 4;
    assert_fails(sp_vec_reserve(&v, SIZE_MAX), SP_E_NOMEM, "array");     /* n + extra wraps */
    assert_fails(sp_vec_reserve(&v, SIZE_MAX / 8), SP_E_NOMEM, "array"); /* times the size */
    sp_fault_after(1);
    sp_err err = sp_vec_reserve(&v, 100);
    sp_fault_after(-1);
    assert_int_equal(err, SP_E_NOMEM);
    assert_ptr_equal(v.v, before);
    assert_int_equal(v.cap, cap);
    sp_vec_fini(&v);
}

static void byte_strings_append(void **state)
{
    sp_bytes b = {0};
    assert_ok(sp_bytes_add(&b, NULL, 0));
    assert_int_equal(b.n, 0);
    assert_ok(sp_bytes_add(&b, "a\0b", 3));
    assert_ok(sp_bytes_addf(&b, "[%d %s]", -5, "x"));
    assert_int_equal(b.n, 9);
    assert_memory_equal(b.v, "a\0b[-5 x]", 9);
    assert_ok(sp_bytes_addf(&b, "%s", ""));
    assert_int_equal(b.n, 9);
    sp_vec_fini(&b);
}

/* Formatted text of every length around the points where the string must grow. */
static void formatted_text_of_any_length_fits(void **state)
{
    for (int n = 0; n < 200; n++) {
        sp_bytes b = {0};
        assert_ok(sp_bytes_add(&b, "ab", 2));
        assert_ok(sp_bytes_addf(&b, "%*d", n, 7));
        int len = SP_MAX(n, 1);
        assert_int_equal(b.n, 2 + len);
        assert_int_equal(b.v[1 + len], '7');
        for (int i = 0; i < len - 1; i++) assert_int_equal(b.v[2 + i], ' ');
        sp_vec_fini(&b);
    }
}

static void a_failed_append_changes_nothing(void **state)
{
    sp_bytes b = {0};
    assert_ok(sp_bytes_add(&b, "old", 3));
    char more[4000];
    memset(more, 'm', sizeof more - 1);
    more[sizeof more - 1] = '\0';
    assert_survives_faults(sp_bytes_add(&b, more, sizeof more),
                           b.n == 3 && memcmp(b.v, "old", 3) == 0);
    b.n = 3;
    sp_bytes c = {0};
    assert_survives_faults(sp_bytes_addf(&c, "%s", more), c.n == 0 && !c.v);
    assert_int_equal(c.n, sizeof more - 1);
    sp_vec_fini(&b);
    sp_vec_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(nothing_is_something),
        cmocka_unit_test(zeroed_means_zeroed),
        cmocka_unit_test(pages_cost_nothing_untouched),
        cmocka_unit_test(copies_of_strings_end),
        cmocka_unit_test(faults_begin_when_told_and_last),
        cmocka_unit_test(arena_items_are_aligned_zeroed_and_apart),
        cmocka_unit_test(a_sanitizer_sees_the_ends_of_items),
        cmocka_unit_test(two_empty_items_differ),
        cmocka_unit_test(reset_keeps_the_largest_chunk),
        cmocka_unit_test(an_arena_refuses_what_overflows),
        cmocka_unit_test(arrays_grow_and_keep_their_items),
        cmocka_unit_test(arrays_refuse_what_overflows),
        cmocka_unit_test(byte_strings_append),
        cmocka_unit_test(formatted_text_of_any_length_fits),
        cmocka_unit_test(a_failed_append_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
