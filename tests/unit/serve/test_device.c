/* test_device.c -- whole requests on a device whose memory the host cannot reach: the answers and
 * the account are those of the CPU, for policies that probe, watch, gate, fuse and patch, and for
 * copies that come from disk. */
#include "support/requests.h"

#include <ftw.h>
#include <stdio.h>

#include "serve/check/measure.h"
#include "support/far_device.h"

enum { TOKENS = 12 };

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    return remove(path);
}

static sp_context *open_far(const sp_context_opts *o, sp_device **d)
{
    sp_context *c = NULL;
    assert_ok(far_device_open(&(sp_device_opts){.n_threads = 2}, d));
    assert_ok(sp_context_open_on(*d, o, &c));
    assert_string_equal(sp_context_describe(c).kernels, (*d)->kernels);
    assert_int_equal(sp_context_describe(c).n_threads, 2);
    return c;
}

static const char *const orders[] = {"012", "210", "102"};

typedef struct answers {
    char *text[SP_COUNT(orders)];
    int n_reused[SP_COUNT(orders)], n_recomputed[SP_COUNT(orders)];
} answers;

static void ask_all(sp_context *c, answers *out)
{
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        sp_request *r = ask(c, orders[i], "How many?", TOKENS);
        out->text[i] = strdup(sp_request_result(r)->text);
        out->n_reused[i] = sp_request_result(r)->n_reused;
        out->n_recomputed[i] = sp_request_result(r)->n_recomputed;
        sp_request_destroy(r);
    }
    close_clean(c);
}

/* take_same -- frees both. */
static void take_same(answers *a, answers *b, const char *name)
{
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        if (strcmp(a->text[i], b->text[i]) != 0)
            fail_msg("%s, %s: \"%s\", not \"%s\"", name, orders[i], a->text[i], b->text[i]);
        assert_int_equal(a->n_reused[i], b->n_reused[i]);
        assert_int_equal(a->n_recomputed[i], b->n_recomputed[i]);
        free(a->text[i]);
        free(b->text[i]);
    }
}

static void answers_are_the_same(void **state)
{
    policy how;
    for (int i = 0; policy_at(EVERY_POLICY, 0.3f, i, &how); i++) {
        const sp_context_opts o = {
            .model = MODEL,
            .cache.kv_bytes = 4 << 20,
            .n_batch = 40,
            .machine.n_threads = 2,
            .reuse = {.policy = how.name, .recompute = how.recompute}};
        sp_context *near = NULL;
        sp_device *d;
        answers want, got;
        assert_ok(sp_context_open(&o, &near));
        ask_all(near, &want);
        ask_all(open_far(&o, &d), &got);
        sp_device_close(d);
        take_same(&got, &want, how.name);
    }
}

/* fuse -- copies of chunks 0 and 1, in memory and on disk. */
static void fuse(sp_context *c)
{
    for (int i = 0; i < 2; i++) {
        sp_prompt *p = prompt_of(c, i ? "10" : "01", NULL);
        bool fresh = false;
        assert_ok(sp_chunk_fuse(c, p, &fresh));
        assert_true(fresh);
        sp_prompt_destroy(p);
    }
}

/* What one device has written to disk is read on the other. */
static void copies_on_disk_serve_another_device(void **state)
{
    char dir[] = "/tmp/spolia-device-XXXXXX";
    assert_non_null(mkdtemp(dir));
    const sp_context_opts o = {.model = MODEL,
                               .cache.kv_bytes = 4 << 20,
                               .machine.n_threads = 2,
                               .tiers.store = dir,
                               .reuse = {.policy = "full", .recompute = 0}};
    sp_context *near = NULL;
    sp_device *d;
    answers first, second, third;
    near = open_far(&o, &d);
    fuse(near);
    ask_all(near, &first);
    sp_device_close(d);
    assert_ok(sp_context_open(&o, &near));
    ask_all(near, &second);
    ask_all(open_far(&o, &d), &third);
    sp_device_close(d);
    assert_int_equal(nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    assert_true(second.n_reused[0] > 0); /* of a new context: from disk */
    for (size_t i = 0; i < SP_COUNT(orders); i++)
        assert_string_equal(first.text[i], second.text[i]);
    for (size_t i = 0; i < SP_COUNT(orders); i++) free(first.text[i]);
    take_same(&second, &third, "full");
}

/* -- distance of keys and values ------------------------------------------------------------- */

static sp_request *ask_keeping(sp_context *c, const char *reuse)
{
    const sp_reuse_opts how = {.policy = reuse};
    const sp_request_opts o = {.sampling = sp_sampling_default(), .max_tokens = 1, .reuse = &how};
    sp_request *r;
    sp_prompt *p = prompt_of(c, "01", "How many?");
    assert_ok(sp_measure_submit(c, p, &o, &(sp_measure){.keep_kv = true}, &r));
    sp_prompt_destroy(p);
    return run(c, r);
}

static void deviations(sp_context *c, float *out)
{
    sp_request *warm = ask_keeping(c, "full"), *reused = ask_keeping(c, "full"),
               *off = ask_keeping(c, "off");
    assert_ok(sp_request_kv_deviation(reused, off, out));
    sp_request_destroy(warm);
    sp_request_destroy(reused);
    sp_request_destroy(off);
    close_clean(c);
}

static void the_deviation_is_the_same(void **state)
{
    float want[64] = {0}, got[64] = {0};
    const sp_context_opts o = {.model = MODEL,
                               .cache.kv_bytes = 4 << 20,
                               .n_batch = 9,
                               .machine.n_threads = 2}; /* in several pieces */
    sp_context *near = NULL;
    sp_device *d;
    assert_ok(sp_context_open(&o, &near));
    const int n_layers = sp_context_describe(near).n_layers;
    deviations(near, want);
    deviations(open_far(&o, &d), got);
    sp_device_close(d);
    assert_memory_equal(got, want, sizeof got);
    for (int l = 1; l < n_layers; l++) assert_true(want[l] > 0 && want[l] < 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same),
        cmocka_unit_test(copies_on_disk_serve_another_device),
        cmocka_unit_test(the_deviation_is_the_same),
    };
    return cmocka_run_group_tests_name("requests on a far device", tests, NULL, NULL);
}
