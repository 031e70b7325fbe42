/* test_heads.c -- the file of a model's heads, and the thresholds that follow from it. */
#include "support/check.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/sparse/heads.h"
#include "engine/sparse/sparse.h"
#include "support/failing_json.h"

enum { L = 2, H = 4, G = 2 };

static sp_heads *some_heads(void)
{
    static const float importance[L * H] = {0, 0.5f, 1, 0.25f, 0, 0, 0.1f, 0.2f};
    static const float similarity[L * H] = {0.9f, 0.8f, 0.5f, 1, -0.25f, 0.5f, 0.75f, 1};
    sp_heads *h;
    assert_ok(sp_heads_create(L, H, G, &h));
    memcpy(h->importance, importance, sizeof importance);
    memcpy(h->similarity, similarity, sizeof similarity);
    return h;
}

/* eq. 3-5: importance 1 has the threshold eta, importance 0 none. */
static void thresholds_rise_with_importance(void **state)
{
    sp_heads *h = some_heads();
    assert_float_equal(sp_heads_tau(h, 0, 1, 0.8f, 3), 0.8f, 1e-6f);
    assert_float_equal(sp_heads_tau(h, 1, 0, 0.8f, 3), -1, 1e-6f);
    const float lambda = 0.125f, pi = 3.14159265f; /* the most important of the group: 0.5 */
    assert_float_equal(sp_heads_tau(h, 0, 0, 0.8f, 3),
                       cosf(lambda * acosf(0.8f) + (1 - lambda) * pi), 1e-6f);
    const float s = (1 + 0.25f) / (1 / 0.5f + 0.25f / 1); /* eq. 2 of group 1 */
    assert_float_equal(sp_heads_difficulty(h, 0, 1, 0.8f, 0.1f), 0.8f - (s - 0.1f), 1e-6f);
    float difficulty[L * G];
    sp_heads_rank(h, 0.8f, 3, difficulty);
    assert_float_equal(difficulty[1], 0.8f - (s - 0.1f), 1e-6f); /* the paper's epsilon */
    float usual[L * G], given[L * G]; /* 0: the default */
    sp_heads_rank(h, 0, 0, usual);
    sp_heads_rank(h, SP_SPARSE_ETA, SP_SPARSE_POWER, given);
    assert_memory_equal(usual, given, sizeof usual);
    sp_heads_destroy(h);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void a_file_of_heads_is_read_and_checked(void **state)
{
    char path[] = "/tmp/heads-XXXXXX";
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "line 1"},
        {"{\"version\": 2}", "field version"},
        {"{\"version\": 1, \"version\": 1}", "duplicate object key"},
        {"{\"version\": 1}", "field importance has 0 layers, the model 2"},
        {"{\"version\": 1, \"importance\": [[1, 1, 1, 1], [1, 1, 1]]}", "importance[1] has 3 heads"},
        {"{\"version\": 1, \"importance\": [[1, 1, 1, 1, 1], [1, 1, 1, 1]]}", "importance[0] has 5 heads"},
        {"{\"version\": 1, \"importance\": [[1, 1, 1, 2], [1, 1, 1, 1]]}", "importance[0][3]"},
        {"{\"version\": 1, \"importance\": [[1, 1, 1, 1], [1, 1, 1, \"x\"]]}", "importance[1][3]"},
        {"{\"version\": 1, \"importance\": [[1, 1, 1, 1], [1, 1, 1, 1]], \"similarity\": 5}",
         "field similarity has 0 layers"},
    };
    sp_heads *h = some_heads(), *got;
    assert_ok(sp_heads_create(L, H, G, &got));
    close(mkstemp(path));
    assert_ok(sp_heads_write(path, h));
    assert_ok(sp_heads_read(path, got));
    for (int i = 0; i < L * H; i++) {
        assert_float_equal(got->importance[i], h->importance[i], 1e-4f);
        assert_float_equal(got->similarity[i], h->similarity[i], 1e-4f);
    }
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        write_text(path, bad[i].text);
        assert_fails(sp_heads_read(path, got), SP_E_FORMAT, bad[i].why);
    }
    unlink(path);
    assert_fails(sp_heads_read(path, got), SP_E_NOTFOUND, "spolia profile --decode");
    assert_fails(sp_heads_write("/nowhere/heads.json", h), SP_E_IO, "/nowhere/heads.json");
    sp_heads_destroy(h);
    sp_heads_destroy(got);
}

/* The file is whole, or writing it is an error: jansson leaves out of a value what it has no memory for. */
static void a_file_that_lacks_a_part_is_an_error(void **state)
{
    char path[] = "/tmp/heads-XXXXXX";
    sp_heads *h = some_heads(), *got;
    int n_errors = 0;
    sp_json_watch(json_allocate);
    assert_ok(sp_heads_create(L, H, G, &got));
    close(mkstemp(path));
    for (int i = 0; i < 120; i++) {
        until_failure = i;
        const sp_err err = sp_heads_write(path, h);
        until_failure = -1;
        n_errors += err != SP_OK;
        if (err == SP_OK) assert_ok(sp_heads_read(path, got));
    }
    assert_true(n_errors > 40 && n_errors < 120); /* so many allocations are needed, and not more */
    assert_fails(sp_heads_write("/dev/full", h), SP_E_IO, "No space left");
    unlink(path);
    sp_heads_destroy(h);
    sp_heads_destroy(got);
}

/* Where nobody counts jansson's failures, some come without a word of its own. */
static void lost_memory_has_a_reason(void **state)
{
    char path[] = "/tmp/heads-XXXXXX";
    sp_heads *h = some_heads();
    int n_errors = 0;
    close(mkstemp(path));
    assert_ok(sp_heads_write(path, h));
    json_set_alloc_funcs(json_allocate, free);
    for (int i = 0; i < 60; i++) {
        until_failure = i;
        const sp_err err = sp_heads_read(path, h);
        until_failure = -1;
        const char *why = sp_error_detail();
        if (err != SP_OK && why[strlen(why) - 1] == ' ') fail_msg("\"%s\"", why);
        n_errors += err == SP_E_NOMEM;
    }
    assert_true(n_errors > 0);
    unlink(path);
    sp_heads_destroy(h);
}

static void the_path_is_beside_the_model(void **state)
{
    static const char *const cases[][2] = {{"m.gguf", "m.gguf.heads.json"},
                                           {"folder//", "folder.heads.json"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char *path = sp_heads_path(cases[i][0]);
        assert_string_equal(path, cases[i][1]);
        sp_free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thresholds_rise_with_importance),
        cmocka_unit_test(a_file_of_heads_is_read_and_checked),
        cmocka_unit_test(a_file_that_lacks_a_part_is_an_error),
        cmocka_unit_test(lost_memory_has_a_reason),
        cmocka_unit_test(the_path_is_beside_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
