/* test_parameters.c -- "NAME:key=value[,key=value]": every parameter that a policy declares is read, checked and named
 * in errors; the list of the library is the one of the files. */
#include <stdio.h>

#include "reuse/choice.h"
#include "support/policies.h"

static const sp_reuse_policy *read_one(const sp_reuse_policy *p, const char *text, double *values)
{
    char spec[128];
    const sp_reuse_policy *found = NULL;
    snprintf(spec, sizeof spec, "%s:%s", p->name, text);
    assert_ok(sp_reuse_policy_find(spec, &found, values));
    return found;
}

/* refused -- the error names policy, text and every key of the policy. */
static void refused(const sp_reuse_policy *p, const char *text, const char *why)
{
    char spec[128], quoted[128];
    const sp_reuse_policy *found = NULL;
    double values[SP_REUSE_PARAMS] = {7};
    snprintf(spec, sizeof spec, "%s:%s", p->name, text);
    assert_fails(sp_reuse_policy_find(spec, &found, values), SP_E_ARG, why);
    assert_true(!found && values[0] == 7);
    snprintf(quoted, sizeof quoted, "reuse policy %s: \"", p->name);
    assert_non_null(strstr(sp_error_detail(), quoted));
    for (int i = 0; i < p->n_params; i++)
        assert_non_null(strstr(sp_error_detail(), p->params[i].name));
    if (!p->n_params) assert_non_null(strstr(sp_error_detail(), "its parameters: none"));
}

static void every_parameter_is_declared_whole(void **state)
{
    int n, n_params = 0;
    const sp_reuse_policy *const *all = sp_reuse_policy_list(&n);
    const sp_reuse_info *infos = sp_reuse_policies(NULL);
    for (int i = 0; i < n; i++) {
        const sp_reuse_policy *p = all[i];
        assert_in_range(p->n_params, 0, SP_REUSE_PARAMS);
        assert_int_equal(infos[i].n_params, p->n_params);
        assert_ptr_equal(infos[i].params, p->params);
        assert_true(infos[i].name == p->name && infos[i].help == p->help && infos[i].exact == p->exact);
        assert_true(infos[i].recomputes == p->recomputes && infos[i].anywhere == p->anywhere);
        assert_true(infos[i].keeps_placed == p->keeps_placed && infos[i].own_statistics == p->own_statistics);
        for (int k = 0; k < p->n_params; k++, n_params++) {
            const sp_reuse_param *a = &p->params[k];
            assert_true(a->name && *a->name && a->help && *a->help && a->unit);
            assert_int_equal(strspn(a->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(a->name));
            assert_string_not_equal(a->name, "mode");      /* fields of the server's object */
            assert_string_not_equal(a->name, "recompute");
            assert_true(a->least < a->most && a->normal >= a->least && a->normal <= a->most);
            if (a->replaces_share) assert_true(p->recomputes && a->least == 0 && a->normal == 0);
            for (int j = 0; j < k; j++) assert_string_not_equal(a->name, p->params[j].name);
        }
    }
    assert_true(n_params >= 3);
}

static void values_are_read_and_others_are_normal(void **state)
{
    int n;
    const sp_reuse_policy *const *all = sp_reuse_policy_list(&n);
    for (int i = 0; i < n; i++) {
        const sp_reuse_policy *p = all[i], *found = NULL;
        double v[SP_REUSE_PARAMS];
        assert_ok(sp_reuse_policy_find(p->name, &found, v));
        for (int k = 0; k < p->n_params; k++) assert_true(v[k] == p->params[k].normal);
        for (int k = 0; k < p->n_params; k++) {
            const double ends[] = {p->params[k].least, p->params[k].most};
            for (int e = 0; e < 2; e++) {
                char text[64];
                snprintf(text, sizeof text, "%s=%.9g", p->params[k].name, ends[e]);
                assert_ptr_equal(read_one(p, text, v), p);
                for (int j = 0; j < p->n_params; j++)
                    assert_true(v[j] == (j == k ? ends[e] : p->params[j].normal));
            }
        }
    }
    double v[SP_REUSE_PARAMS];
    read_one(policy("craft"), "focus=7,alpha=0.25", v);
    assert_true(v[0] == 0.25 && v[1] == 7);
    sp_reuse_choice choice;
    assert_ok(sp_reuse_choose(&(sp_reuse_opts){.policy = "craft:focus=7"}, &choice));
    assert_true(choice.params[1] == 7 && choice.policy == policy("craft"));
    assert_ok(sp_reuse_choose(&(sp_reuse_opts){0}, &choice));
    assert_ptr_equal(choice.policy, sp_reuse_policy_default());
}

static void what_is_wrong_is_named_with_what_there_is(void **state)
{
    int n;
    const sp_reuse_policy *const *all = sp_reuse_policy_list(&n);
    for (int i = 0; i < n; i++) {
        const sp_reuse_policy *p = all[i];
        refused(p, "nonsense=1", "\"nonsense=1\" is unknown");
        refused(p, "nonsense", "\"nonsense\" is unknown");
        refused(p, "", "\"\" is unknown");
        for (int k = 0; k < p->n_params; k++) {
            static const char *const bad[] = {"x", "", "1x", "nan", "inf", "1e999"};
            const sp_reuse_param *a = &p->params[k];
            char text[96];
            for (size_t j = 0; j < SP_COUNT(bad); j++) {
                snprintf(text, sizeof text, "%s=%s", a->name, bad[j]);
                refused(p, text, "is not key=NUMBER");
            }
            snprintf(text, sizeof text, "%s=%.9g", a->name, a->least - 1);
            refused(p, text, "is out of range");
            snprintf(text, sizeof text, "%s=%.9g", a->name, a->most * 2 + 1);
            refused(p, text, "is out of range");
            snprintf(text, sizeof text, "%s=%.9g,%s=%.9g", a->name, a->normal, a->name, a->normal);
            refused(p, text, "is given twice");
            snprintf(text, sizeof text, "%s=%.9g,", a->name, a->normal);
            refused(p, text, "\"\" is unknown");
            refused(p, a->name, "lacks its value");
            snprintf(text, sizeof text, "%s=%.9g", a->name, a->least + 0.5);
            if (a->whole) refused(p, text, "is not a whole number");
        }
    }
    assert_fails(sp_reuse_parse("craft:focus=1001", NULL, NULL), SP_E_ARG, "focus (0 to 1000 layers)");
}

static void users_of_the_library_get_the_same(void **state)
{
    const sp_reuse_info *info = NULL;
    double v[SP_REUSE_PARAMS];
    assert_ok(sp_reuse_parse("craft:alpha=2", &info, v));
    assert_string_equal(info->name, "craft");
    assert_true(v[0] == 2 && v[1] == 3);
    assert_ok(sp_reuse_parse(NULL, &info, NULL));
    assert_string_equal(info->name, sp_reuse_policy_default()->name);
    assert_fails(sp_reuse_parse("magic:alpha=2", &info, v), SP_E_ARG, "\"magic\" is unknown");
}

static void a_choice_has_all_of_the_options(void **state)
{
    sp_reuse_choice c;
    assert_ok(sp_reuse_choose(&(sp_reuse_opts){.policy = "fusion", .recompute = 1, .exact_first = true}, &c));
    assert_true(c.recompute >= 1 && c.exact_first && !c.unfused);
    assert_ok(sp_reuse_choose(&(sp_reuse_opts){.unfused = true}, &c));
    assert_true(c.unfused && !c.exact_first && c.policy == sp_reuse_policy_default());
    assert_fails(sp_reuse_choose(&(sp_reuse_opts){.recompute = 1.01f}, &c), SP_E_ARG, "0..1");
    assert_fails(sp_reuse_choose(&(sp_reuse_opts){.recompute = -0.01f}, &c), SP_E_ARG, "0..1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_is_declared_whole),
        cmocka_unit_test(values_are_read_and_others_are_normal),
        cmocka_unit_test(what_is_wrong_is_named_with_what_there_is),
        cmocka_unit_test(users_of_the_library_get_the_same),
        cmocka_unit_test(a_choice_has_all_of_the_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
