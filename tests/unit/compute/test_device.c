/* test_device.c -- memory, copies and mirrors on the CPU and on a device that the host cannot
 * reach; and that it cannot. */
#include "support/check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/far_device.h"

static sp_device *open_device(const char *name)
{
    const sp_device_opts o = {.kernels = "ref", .n_threads = 1};
    sp_device *d = NULL;
    if (strcmp(name, "far") == 0)
        assert_ok(far_device_open(&o, &d));
    else
        assert_ok(sp_device_open(name, &o, &d));
    assert_string_equal(d->name, name);
    return d;
}

static void devices_by_name(void **state)
{
    sp_device *d = NULL;
    const sp_device_opts ref = {.kernels = "ref", .n_threads = 3};
    assert_ok(sp_device_open(NULL, &ref, &d));
    assert_string_equal(d->name, "cpu");
    assert_string_equal(d->kernels, "ref");
    assert_int_equal(d->n_threads, 3);
    assert_true(d->unified);
    sp_device_close(d);
    sp_device_close(NULL);
    d = NULL;
    assert_fails(sp_device_open("abacus", &ref, &d), SP_E_ARG, "device: 'abacus'");
    assert_fails(sp_device_open("cpu", &(sp_device_opts){.kernels = "abacus"}, &d), SP_E_ARG,
                 "abacus");
    assert_fails(sp_device_open("cpu", &(sp_device_opts){.n_threads = -1}, &d), SP_E_ARG,
                 "threads");
    assert_null(d);
    assert_survives_faults(sp_device_open("cpu", &ref, &d), d == NULL);
    sp_device_close(d);
}

static void memory_is_zeroed_and_aligned(void **state)
{
    static const size_t sizes[] = {1, 63, 64, 4097, (2 << 20) - 1, 2 << 20, 3 << 20};
    static const char *const names[] = {"cpu", "far"};
    for (size_t i = 0; i < 2 * SP_COUNT(sizes); i++) {
        sp_device *d = open_device(names[i % 2]);
        const size_t n = sizes[i / 2];
        uint8_t *host = malloc(n);
        sp_mem m = {0}, none = {0};
        for (int pass = 0; pass < 2; pass++) { /* the second time it is memory that was written */
            assert_ok(sp_mem_alloc(d, n, "a test", &m));
            assert_int_equal((uintptr_t)m.p % SP_CACHE_LINE, 0);
            memset(host, 1, n);
            assert_ok(sp_device_wait(d, sp_device_copy_out(d, host, m.p, n)));
            for (size_t k = 0; k < n; k++) assert_int_equal(host[k], 0);
            for (size_t k = 0; k < n; k++) host[k] = (uint8_t)(k * 7);
            assert_ok(sp_device_wait(d, sp_device_copy_in(d, m.p, host, n)));
            memset(host, 0, n);
            sp_event e = sp_device_copy_out(d, host, m.p, n);
            assert_ok(sp_device_synchronise(d));
            assert_true(sp_device_done(d, e));
            for (size_t k = 0; k < n; k++) assert_int_equal(host[k], (uint8_t)(k * 7));
            sp_mem_free(&m);
            assert_null(m.p);
        }
        assert_ok(sp_mem_alloc(d, 0, "nothing", &none));
        assert_null(none.p);
        sp_mem_free(&none);
        free(host);
        sp_device_close(d);
    }
}

static void memory_that_cannot_be_had(void **state)
{
    static const char *const names[] = {"cpu", "far"};
    for (int i = 0; i < 2; i++) {
        sp_device *d = open_device(names[i]);
        sp_mem m = {0};
        sp_mirror both = {0};
        assert_fails(sp_mem_alloc(d, SIZE_MAX / 2, "the moon", &m), SP_E_NOMEM, "the moon");
        assert_survives_faults(sp_mem_alloc(d, 100, "a test", &m), m.p == NULL);
        const void *before = m.p;
        assert_survives_faults(sp_mem_grow(d, 200, "a test", &m), m.p == before);
        assert_int_equal(m.n_bytes, 200);
        before = m.p;
        assert_ok(sp_mem_grow(d, 100, "a test", &m)); /* it is large enough, and keeps what it holds */
        assert_ptr_equal(m.p, before);
        assert_int_equal(m.n_bytes, 200);
        assert_survives_faults(sp_mirror_alloc(d, 100, "a test", &both), both.dev == NULL);
        sp_mirror_free(&both);
        sp_mem_free(&m);
        sp_device_close(d);
    }
}

/* What is pushed can be pulled again; on a unified device both are one place and cost nothing. */
static void mirrors(void **state)
{
    static const char *const names[] = {"cpu", "far"};
    for (int i = 0; i < 2; i++) {
        sp_device *d = open_device(names[i]);
        sp_mirror m = {0};
        assert_ok(sp_mirror_grow(d, 8, "a test", &m));
        assert_ok(sp_mirror_grow(d, 100, "a test", &m));
        assert_int_equal(m.host == m.dev, d->unified);
        uint8_t *host = m.host;
        assert_ok(sp_mirror_grow(d, 100, "a test", &m));
        assert_ptr_equal(m.host, host); /* what is large enough stays */
        for (int k = 0; k < 100; k++) host[k] = (uint8_t)k;
        sp_mirror_push(&m, 60);
        assert_ok(sp_mirror_settle(&m));
        if (!d->unified) memset(host, 0xee, 100);
        assert_ok(sp_mirror_pull(&m, 100));
        for (int k = 0; k < 100; k++)
            assert_int_equal(host[k], k < 60 || d->unified ? (uint8_t)k : 0);
        if (!d->unified) assert_int_equal(far_of(d)->n_copied_in, 1);
        sp_mirror_free(&m);
        if (!d->unified) assert_int_equal(far_of(d)->n_pieces, 0); /* nor what it had before it grew */
        sp_device_close(d);
    }
}

/* The host side may be written again once the device has it: a device that does not answer is an error. */
static void a_push_is_waited_for(void **state)
{
    sp_device *d = open_device("far");
    sp_mirror m = {0};
    assert_ok(sp_mirror_alloc(d, 100, "a test", &m));
    sp_mirror_push(&m, 100);
    far_lose(d);
    assert_int_not_equal(sp_mirror_settle(&m), SP_OK);
    far_found(d);
    assert_ok(sp_mirror_settle(&m));
    sp_mirror_free(&m);
    sp_device_close(d);
}

/* dies -- whether touching the memory kills the process that does it. */
static bool dies(volatile uint8_t *p, bool write)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* no handler of a test framework or a sanitizer */
        if (write) *p = 1;
        _exit(*p == 255);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

/* The tests that run on it would notice. */
static void the_host_cannot_reach_a_far_device(void **state)
{
    sp_device *d = open_device("far");
    sp_mem a, b;
    assert_ok(sp_mem_alloc(d, 100, "a test", &a));
    assert_ok(sp_mem_alloc(d, 100000, "a test", &b));
    assert_true(dies(a.p, false));
    assert_true(dies((uint8_t *)b.p + 99999, true));
    assert_ok(sp_device_wait(d, sp_device_copy_in(d, a.p, "x", 1)));
    assert_true(dies(a.p, false)); /* nor after a copy */
    sp_mem_free(&a);
    sp_mem_free(&b);
    sp_device_close(d);
}

/* -- weights -------------------------------------------------------------------------------- */

static void rows_of_a_matrix_are_loaded(void **state)
{
    enum { ROWS = 4, COLS = 3 };
    const float data[ROWS * COLS] = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};
    const int32_t ids[] = {3, 0, 3};
    static const char *const names[] = {"cpu", "far"};
    for (int i = 0; i < 2; i++) {
        sp_device *d = open_device(names[i]);
        sp_mat w = {.type = SP_F32, .n_rows = ROWS, .n_cols = COLS, .data = data};
        size_t n = sp_device_weight_bytes(d, &w, SP_WEIGHT_ROWS);
        assert_int_equal(n > 0, !d->unified); /* the CPU reads rows where they are */
        sp_mem memory;
        sp_mirror list, x;
        assert_ok(sp_mem_alloc(d, n, "a test", &memory));
        if (n) sp_device_weight_load(d, &w, SP_WEIGHT_ROWS, memory.p);
        assert_ok(sp_mirror_alloc(d, sizeof ids, "a test", &list));
        assert_ok(sp_mirror_alloc(d, 3 * COLS * sizeof(float), "a test", &x));
        memcpy(list.host, ids, sizeof ids);
        sp_mirror_push(&list, sizeof ids);
        sp_device_embed(d, &(sp_embed_args){.w = &w, .ids = list.dev, .m = 3, .x = x.dev});
        assert_ok(sp_mirror_pull(&x, x.mem.n_bytes));
        for (int r = 0; r < 3; r++)
            assert_memory_equal((float *)x.host + r * COLS, data + ids[r] * COLS,
                                COLS * sizeof(float));
        sp_mirror_free(&list);
        sp_mirror_free(&x);
        sp_mem_free(&memory);
        sp_device_close(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_by_name),
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(memory_that_cannot_be_had),
        cmocka_unit_test(mirrors),
        cmocka_unit_test(a_push_is_waited_for),
        cmocka_unit_test(the_host_cannot_reach_a_far_device),
        cmocka_unit_test(rows_of_a_matrix_are_loaded),
    };
    return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
