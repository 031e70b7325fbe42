/* test_calibration.c -- MODEL.reuse.json: what is written is read, what is not there has a default, and what is
 * damaged is an error. */
#include <jansson.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "serve/check/calibration.h"
#include "spolia_quality.h"
#include "support/failing_json.h"
#include "support/folder.h"

static const char *model_in(const char *dir)
{
    static char model[160];
    snprintf(model, sizeof model, "%s/model", dir);
    return model;
}

static void expect(const sp_calibration *c, const char *policy, float recompute, bool calibrated)
{
    assert_string_equal(c->policy, policy);
    assert_float_equal(c->recompute, recompute, 1e-6);
    assert_int_equal(c->calibrated, calibrated);
}

static void of_policy(const char *spec, const char *model, const char *policy, float recompute, bool calibrated)
{
    sp_calibration c;
    assert_ok(sp_calibration_of_policy(spec, model, &c));
    expect(&c, policy, recompute, calibrated);
}

static void of_quality(const char *quality, const char *model, const char *policy, float recompute, bool calibrated)
{
    sp_calibration c;
    assert_ok(sp_calibration_of_quality(quality, model, &c));
    expect(&c, policy, recompute, calibrated);
}

static void without_a_file_there_are_defaults(void **state)
{
    const char *const models[] = {NULL, model_in(*state)};
    sp_calibration c;
    for (size_t i = 0; i < SP_COUNT(models); i++) {
        of_policy("prefix", models[i], "prefix", 0, false);
        of_policy("fusion", models[i], "fusion", SP_DEFAULT_SHARE, false);
        of_policy("craft", models[i], "craft:alpha=0.25", 0, false);
        of_policy("craft:focus=0", models[i], "craft:focus=0,alpha=0.25", 0, false);
        of_policy("craft:alpha=2", models[i], "craft:alpha=2", SP_DEFAULT_SHARE, false);
        of_policy("craft:focus=0,alpha=2", models[i], "craft:focus=0,alpha=2", SP_DEFAULT_SHARE, false);
        of_quality("exact", models[i], "prefix", 0, false);
        of_quality("balanced", models[i], "inplace", SP_DEFAULT_SHARE, false);
        of_quality("fast", models[i], "inplace", 0, false);
    }
    assert_fails(sp_calibration_of_quality("best", NULL, &c), SP_E_ARG, "balanced");
    assert_fails(sp_calibration_of_policy("nothing", NULL, &c), SP_E_ARG, "nothing");
}

static void entry(const char *model, const char *section, const char *name, json_t *e)
{
    assert_non_null(e);
    assert_ok(sp_calibration_write(model, section, name, e));
}

static void what_is_written_is_read(void **state)
{
    const char *model = model_in(*state);
    struct stat st;
    char *path = sp_calibration_path(model);
    entry(model, SP_CALIBRATED_POLICIES, "fusion", json_pack("{s:f, s:f}", "recompute", 0.9, "alpha", 0.0));
    entry(model, SP_CALIBRATED_POLICIES, "craft", json_pack("{s:f, s:f}", "recompute", 0.5, "alpha", 2.5));
    entry(model, SP_CALIBRATED_QUALITIES, "balanced",
          json_pack("{s:s, s:f, s:f}", "policy", "fusion", "recompute", 0.4, "alpha", 0.0));
    entry(model, SP_CALIBRATED_POLICIES, "fusion", json_pack("{s:f, s:f}", "recompute", 0.25, "alpha", 0.0));
    of_policy("fusion", model, "fusion", 0.25f, true);
    of_policy("craft", model, "craft:alpha=2.5", 0, true);
    of_policy("flow", model, "flow", SP_DEFAULT_SHARE, false);
    of_policy("prefix", model, "prefix", 0, false);
    of_quality("balanced", model, "fusion", 0.4f, true);
    of_quality("exact", model, "prefix", 0, false);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    sp_free(path);
    path = sp_calibration_path("a/model//");
    assert_string_equal(path, "a/model.reuse.json");
    sp_free(path);
}

/* An entry is in the file, or writing it is an error and the file stays. */
static void without_memory_the_file_stays(void **state)
{
    const char *model = model_in(*state);
    int n_errors = 0;
    sp_json_watch(json_allocate);
    for (int i = 0; i < 200; i++) {
        char *path = sp_calibration_path(model);
        unlink(path);
        sp_free(path);
        entry(model, SP_CALIBRATED_POLICIES, "fusion", json_pack("{s:f, s:f}", "recompute", 0.9, "alpha", 0.0));
        json_t *e = json_pack("{s:f, s:f}", "recompute", 0.25, "alpha", 0.0);
        until_failure = i;
        const sp_err err = sp_calibration_write(model, SP_CALIBRATED_POLICIES, "flow", e);
        until_failure = -1;
        of_policy("fusion", model, "fusion", 0.9f, true);
        of_policy("flow", model, "flow", err == SP_OK ? 0.25f : SP_DEFAULT_SHARE, err == SP_OK);
        n_errors += err != SP_OK;
    }
    assert_true(n_errors > 20 && n_errors < 200);
}

static void a_damaged_file_is_an_error(void **state)
{
    static const char *const texts[] = {
        "{", "[]", "{\"version\": 2, \"policies\": {}}", "{\"version\": 1, \"policies\": []}",
        "{\"version\": 1, \"version\": 1, \"policies\": {}}", "{\"version\": 1, \"policies\": {}, \"qualities\": 1}",
        "{\"version\": 1, \"policies\": {\"fusion\": {\"recompute\": 1.01, \"alpha\": 0}}}",
        "{\"version\": 1, \"policies\": {\"fusion\": {\"recompute\": -0.1, \"alpha\": 0}}}",
        "{\"version\": 1, \"policies\": {\"fusion\": {\"recompute\": 1}}}",
        "{\"version\": 1, \"policies\": {\"fusion\": {\"recompute\": 1, \"alpha\": 1000001}}}"};
    const char *model = model_in(*state);
    char *path = sp_calibration_path(model);
    sp_calibration c;
    enum { ENTRIES = 6 }; /* from here on: an entry alone is wrong, which the next one of its name may replace */
    assert_ok(sp_calibration_check(model));
    for (size_t i = 0; i < SP_COUNT(texts); i++) {
        FILE *f = fopen(path, "w");
        assert_true(f && fputs(texts[i], f) >= 0 && fclose(f) == 0);
        assert_fails(sp_calibration_of_policy("fusion", model, &c), SP_E_FORMAT, "model.reuse.json");
        if (i >= ENTRIES)
            assert_ok(sp_calibration_check(model));
        else
            assert_fails(sp_calibration_check(model), SP_E_FORMAT, "model.reuse.json");
    }
    sp_free(path);
}

static void a_quality_has_a_policy_that_exists(void **state)
{
    const char *model = model_in(*state);
    sp_calibration c;
    entry(model, SP_CALIBRATED_QUALITIES, "fast",
          json_pack("{s:s, s:f, s:f}", "policy", "nothing", "recompute", 0.4, "alpha", 0.0));
    assert_fails(sp_calibration_of_quality("fast", model, &c), SP_E_FORMAT, "qualities.fast.policy");
    of_quality("exact", model, "prefix", 0, false); /* it is not read */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_file_there_are_defaults, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(without_memory_the_file_stays, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_an_error, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_quality_has_a_policy_that_exists, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
