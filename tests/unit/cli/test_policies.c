/* test_policies.c -- policies as a person writes them: names, parameters, lists. */
#include "cli/options/policies.h"

#include "support/caught.h"

static void every_policy_is_found_by_its_name(void **state)
{
    int n;
    bool fused;
    const cli_policy *all = cli_policies(&n);
    assert_string_equal(all[0].name, "off");
    for (int i = 0; i < n; i++) {
        char spec[CLI_SPEC];
        assert_ptr_equal(cli_policy_find(all[i].name, &fused), &all[i]);
        assert_false(fused);
        snprintf(spec, sizeof spec, "%s:key=1", all[i].name);
        assert_ptr_equal(cli_policy_find(spec, NULL), &all[i]);
        snprintf(spec, sizeof spec, "%s" CLI_FUSED ":key=1", all[i].name);
        assert_ptr_equal(cli_policy_find(spec, &fused), all[i].anywhere ? &all[i] : NULL);
        assert_true(fused);
        snprintf(spec, sizeof spec, "%sx", all[i].name);
        assert_null(cli_policy_find(spec, NULL));
    }
    assert_string_equal(cli_policy_find(NULL, &fused)->name, "prefix");
    assert_null(cli_policy_find(CLI_FUSED, NULL));
    assert_null(cli_policy_find("", NULL));
}

static void lists_have_the_policies_of_a_set(void **state)
{
    char want[CLI_N_SETS][256] = {"", "", "", ""};
    int n;
    const cli_policy *all = cli_policies(&n);
    for (int i = 0; i < n; i++) {
        const bool in[CLI_N_SETS] = {true, all[i].anywhere, all[i].recomputes, i > 0};
        for (int k = 0; k < CLI_N_SETS; k++)
            if (in[k]) strcat(strcat(want[k], *want[k] ? "," : ""), all[i].name);
    }
    for (int k = 0; k < CLI_N_SETS; k++) {
        assert_string_equal(cli_policy_list((cli_policy_set)k), want[k]);
        char *spaced = strdup(cli_policy_names((cli_policy_set)k)), *to = spaced;
        for (const char *c = spaced; *c; c++)
            if (*c != ' ') *to++ = *c;
        *to = '\0';
        assert_string_equal(spaced, want[k]);
        free(spaced);
    }
}

/* read_spec -- what a spec is without "+fused"; or the message. */
static const char *read_spec(const char *spec)
{
    static char out[CLI_SPEC];
    caught c = catch_begin(stderr);
    const bool good = cli_policy_read("--policies", spec, out);
    const char *said = catch_end(&c);
    assert_int_equal(good, !*said);
    return good ? out : said;
}

static void specs_are_read(void **state)
{
    char longer[CLI_SPEC + 8] = "full:";
    assert_string_equal(read_spec("full"), "full");
    assert_string_equal(read_spec("full" CLI_FUSED), "full");
    assert_string_equal(read_spec("craft:focus=2,alpha=0.5"), "craft:focus=2,alpha=0.5");
    assert_int_equal(strncmp(read_spec("fulll"), "spolia: --policies: \"fulll\" is unknown: off, prefix, ", 53), 0);
    assert_int_equal(strncmp(read_spec("craft:x=1"), "spolia: --policies: ", 20), 0);
    memset(longer + 5, 'x', sizeof longer - 6);
    assert_non_null(strstr(read_spec(longer), "...\" is too long"));
}

static void parameters_are_added_where_they_are_missing(void **state)
{
    static const char *const cases[][2] = {
        {"craft", "craft:focus=3"},
        {"craft:alpha=1", "craft:alpha=1,focus=3"},
        {"craft:focus=1", "craft:focus=1"},
        {"craft:alpha=1,focus=1", "craft:alpha=1,focus=1"},
        {"full", "full"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char spec[CLI_SPEC];
        strcpy(spec, cases[i][0]);
        cli_policy_add(spec, "focus", 3);
        assert_string_equal(spec, cases[i][1]);
        assert_int_equal(cli_policy_sets(cases[i][0], "focus"), strstr(cases[i][0], "focus") != NULL);
    }
    assert_false(cli_policy_sets("craft:focus=1", "foc"));
    assert_false(cli_policy_sets("craft:focus=1", "ocus"));
    assert_true(cli_policy_has(cli_policy_find("craft", NULL), "alpha"));
    assert_false(cli_policy_has(cli_policy_find("craft", NULL), "beta"));
    assert_false(cli_policy_has(NULL, "alpha"));
}

static void an_amount_replaces_the_share(void **state)
{
    assert_true(cli_policy_amount("craft:alpha=0.5") == 0.5);
    assert_true(cli_policy_amount("full") == 0);
    assert_true(cli_policy_amount("nothing") == 0);
    assert_string_equal(cli_policy_amount_param(cli_policy_find("craft", NULL))->name, "alpha");
    assert_null(cli_policy_amount_param(cli_policy_find("full", NULL)));
    assert_null(cli_policy_amount_param(NULL));
}

static void a_list_is_cut_at_names(void **state)
{
    char text[] = "off,craft:alpha=1,focus=2,full" CLI_FUSED ",,prefix", *list = text;
    static const char *const items[] = {"off", "craft:alpha=1,focus=2", "full" CLI_FUSED, "", "prefix"};
    for (size_t i = 0; i < SP_COUNT(items); i++) assert_string_equal(cli_policy_next(&list), items[i]);
    assert_null(cli_policy_next(&list));
}

/* count -- rows of a list; each has a name of its own and a help text. */
static int count(const opt_choice *list)
{
    int n = 0;
    for (; list[n].name; n++) {
        assert_true(*list[n].name && list[n].help && *list[n].help);
        for (int i = 0; i < n; i++) assert_string_not_equal(list[i].name, list[n].name);
    }
    return n;
}

static void help_lists_every_choice(void **state)
{
    int n, n_params = 0, n_evict, n_orders;
    const cli_policy *all = cli_policies(&n);
    for (int i = 0; i < n; i++) n_params += all[i].n_params;
    sp_evict_policies(&n_evict);
    sp_queue_orders(&n_orders);
    for (int k = 0; k < 2; k++) assert_int_equal(count(cli_policy_choices()), n + n_params);
    assert_int_equal(count(cli_evict_choices()), n_evict);
    assert_int_equal(count(cli_queue_choices()), n_orders);
    for (const opt_choice *c = cli_policy_choices(); c->name; c++)
        if (strcmp(c->name, "craft:focus=N") == 0) return;
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_is_found_by_its_name),
        cmocka_unit_test(lists_have_the_policies_of_a_set),
        cmocka_unit_test(specs_are_read),
        cmocka_unit_test(parameters_are_added_where_they_are_missing),
        cmocka_unit_test(an_amount_replaces_the_share),
        cmocka_unit_test(a_list_is_cut_at_names),
        cmocka_unit_test(help_lists_every_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
