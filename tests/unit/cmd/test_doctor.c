/* test_doctor.c -- `spolia doctor` without a model: findings as text and as JSON, and its exit codes. */
#include "doctor/doctor.h"

#include <jansson.h>

#include "support/caught.h"

static int code;

/* doctor -- what it prints to `of`; its exit code is in `code`. */
static const char *doctor(FILE *of, char *a, char *b)
{
    char name[] = "doctor";
    char *argv[] = {name, a, b, NULL};
    caught c = catch_begin(of);
    code = doctor_main(1 + (a != NULL) + (b != NULL), argv);
    return catch_end(&c);
}

/* The sets of instructions that kernels are chosen by, as the kernel of the system names them. */
static void the_cpu_is_described(void **state)
{
    static const char *const sets[] = {"avx2",     "fma",      "f16c",        "avx_vnni",    "avx512f",
                                       "avx512bw", "avx512dq", "avx512vl",    "avx512_vnni", "avx512_bf16",
                                       "amx_tile", "amx_bf16", "asimddp",     "i8mm"};
    char flags[8192] = "", line[8192], said[8192], word[32];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0)
            snprintf(flags, sizeof flags, "%.*s ", (int)strcspn(line, "\n"), line);
    if (f) fclose(f);
    if (!*flags) skip();
    const char *cpu = strstr(doctor(stdout, NULL, NULL), "cpu");
    assert_non_null(cpu);
    snprintf(said, sizeof said, "%.*s ", (int)strcspn(cpu, "\n"), cpu);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        snprintf(word, sizeof word, " %s ", sets[i]);
        if (!strstr(flags, word) != !strstr(said, word)) fail_msg("%s: %s", sets[i], said);
    }
}

static void findings_are_json(void **state)
{
    char flag[] = "--json";
    json_error_t e;
    size_t i;
    const json_t *f;
    bool works = true;
    json_t *told = json_loads(doctor(stdout, flag, NULL), 0, &e);
    assert_non_null(told);
    json_array_foreach(json_object_get(told, "findings"), i, f)
        works &= strcmp(json_string_value(json_object_get(f, "state")), "problem") != 0;
    assert_true(i > 5);
    assert_int_equal(json_is_true(json_object_get(told, "works")), works);
    assert_int_equal(code, !works);
    json_decref(told);
}

/* Groups have a line of their own, with an empty one before all but the first. */
static void findings_are_lines(void **state)
{
    const char *said = doctor(stdout, NULL, NULL);
    assert_int_equal(strncmp(said, "machine\n  ok ", 13), 0);
    assert_non_null(strstr(said, "\n\nsystem\n  "));
    assert_non_null(strstr(said, "\n\nsettings\n  ok       config file    "));
    assert_null(strstr(said, "\nmodel\n"));
    assert_in_range(code, 0, 1);
}

static void other_words_are_refused(void **state)
{
    char word[] = "word", option[] = "--jsn", flag[] = "--json", help[] = "--help";
    assert_string_equal(doctor(stderr, word, NULL), "spolia: doctor: unexpected \"word\"\n");
    assert_int_equal(code, 2);
    assert_non_null(strstr(doctor(stderr, option, NULL), "did you mean --json?"));
    assert_int_equal(code, 2);
    assert_non_null(strstr(doctor(stdout, help, NULL), "spolia doctor [-m MODEL] [options]"));
    assert_int_equal(code, 0);
    assert_non_null(strstr(doctor(stdout, flag, word), "{\"error\":"));
    assert_int_equal(code, 2);
}

int main(void)
{
    setenv("SPOLIA_CONFIG", "", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_are_lines),
        cmocka_unit_test(the_cpu_is_described),
        cmocka_unit_test(other_words_are_refused), /* from --json on, errors are JSON, too */
        cmocka_unit_test(findings_are_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
