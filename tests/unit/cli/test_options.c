/* test_options.c -- options from the command line and the environment, and the nearest name. */
#include "cli/options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/options/config.h"
#include "support/check.h"

typedef struct values {
    bool flag;
    int number;
    uint64_t large;
    float real;
    size_t bytes;
    const char *text, *needed;
    opt_list list;
    int64_t size;
    opt table[12];
} values;

static void reset(values *v)
{
    *v = (values){.number = 7};
    const opt table[] = {
        {OPT_GROUP, "Test"},
        {OPT_FLAG, "flag", 'f', NULL, &v->flag, "a flag"},
        {OPT_INT, "number", 'n', "N", &v->number, "an int"},
        {OPT_U64, "large-number", 0, "N", &v->large, "an uint64_t"},
        {OPT_FLOAT, "real", 0, "X", &v->real, "a float"},
        {OPT_MIB, "memory", 0, "MiB", &v->bytes, "a size"},
        {OPT_SIZE, "size", 0, "SIZE", &v->size, "bytes"},
        {OPT_STRING, "text", 0, "TEXT", &v->text, "a text"},
        {OPT_STRING, "needed", 0, "TEXT", &v->needed, "a text", .required = true},
        {OPT_LIST, "item", 'i', "TEXT", &v->list, "texts"},
        {0},
    };
    memcpy(v->table, table, sizeof table);
}

/* parse -- of "test" and the words, up to NULL. */
static int parse(values *v, const char *const *words)
{
    static char copies[24][32];
    char *argv[25] = {copies[0]};
    int argc = 1;
    reset(v);
    strcpy(copies[0], "test");
    for (; words[argc - 1]; argc++) {
        snprintf(copies[argc], sizeof copies[argc], "%s", words[argc - 1]);
        argv[argc] = copies[argc];
    }
    const opt *const tables[] = {v->table, NULL};
    return opt_parse(argc, argv, &(opt_usage){"test [options]", "A test."}, tables);
}
#define PARSE(v, ...) parse(v, (const char *const[]){__VA_ARGS__, NULL})

static void sizes_have_units(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"3", 3 << 20}, {"500K", 500 << 10}, {"1.5G", 3LL << 29},
                {"2gib", 2LL << 30}, {"7MB", 7 << 20}, {"1T", 1LL << 40}};
    static const char *const bad[] = {"", "x", "-1", "0", "5X", "5GG", "5 G", "inf", "1e30", "K"};
    values v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(PARSE(&v, "--needed", "x", "--size", good[i].text), 5);
        assert_true(v.size == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(PARSE(&v, "--needed", "x", "--size", bad[i]), -3);
}

static void each_kind_of_value_is_read(void **state)
{
    values v;
    assert_int_equal(PARSE(&v, "operand", "-f", "--number", "-3", "--large-number",
                           "18446744073709551615", "--real=0.5", "--memory", "3", "--text", "",
                           "--needed", "x", "-i", "a", "--item", "b"),
                     17);
    assert_true(v.flag && v.number == -3 && v.large == UINT64_MAX && v.real == 0.5f);
    assert_true(v.bytes == (size_t)3 << 20 && !*v.text && !strcmp(v.needed, "x"));
    assert_int_equal(v.list.n, 2);
    assert_string_equal(v.list.v[1], "b");
    assert_int_equal(PARSE(&v, "--needed", "x", "--", "-f"), 4);
    assert_false(v.flag);
    assert_int_equal(v.number, 7);
}

static void wrong_values_are_named(void **state)
{
    values v;
    const char *const wrong[][2] = {
        {"--number", "2147483648"}, {"--number", "1x"},  {"--number", ""},
        {"--large-number", "-1"},   {"--memory", "-1"},  {"--memory", "99999999999999999"},
        {"--real", "inf"},          {"--real", "1e999"}, {"--rael", "1"},
        {"--real", ""},             {"--memory", ""},    {"--memory", "-18446744073709551615"},
        {"--flag=1", "x"},          {"-x", "1"},
    };
    for (size_t i = 0; i < SP_COUNT(wrong); i++)
        assert_int_equal(PARSE(&v, "--needed", "x", wrong[i][0], wrong[i][1]), -3);
    assert_int_equal(PARSE(&v, "--needed"), -3);
    assert_int_equal(PARSE(&v, "-f"), -3); /* --needed is missing */
    const char *many[2 * 17 + 1] = {0};
    for (int i = 0; i < 10; i++) many[i] = "-ia";
    many[10] = "--needed=x";
    assert_int_equal(parse(&v, many), 12);
    for (int i = 10; i < 16; i++) many[i] = "-ia";
    many[16] = "--needed=x";
    assert_int_equal(parse(&v, many), 18);
    assert_int_equal(v.list.n, 16);
    many[17] = "-ia"; /* one too many */
    assert_int_equal(parse(&v, many), -3);
}

/* said_of -- what is printed about a line with this option. */
static const char *said_of(const char *option)
{
    static char said[256];
    values v;
    FILE *to = tmpfile();
    assert_non_null(to);
    fflush(stderr);
    const int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && dup2(fileno(to), STDERR_FILENO) >= 0);
    const int got = PARSE(&v, "--needed", "x", option);
    fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    assert_int_equal(got, -3);
    rewind(to);
    said[fread(said, 1, sizeof said - 1, to)] = '\0';
    fclose(to);
    return said;
}

static void unknown_options_get_advice(void **state)
{
    assert_string_equal(said_of("--rael"), "spolia: test: --rael is unknown; did you mean --real?\n");
    assert_string_equal(said_of("-x"), "spolia: test: -x is unknown; spolia test --help-all lists all options\n");
    assert_string_equal(said_of("--ne"), "spolia: test: --needed lacks its argument, TEXT\n");
    assert_string_equal(said_of("--n"), "spolia: test: --n is the beginning of several options; "
                                        "spolia test --help-all lists them\n");
}

static void the_environment_comes_after_the_line(void **state)
{
    values v;
    setenv("SPOLIA_ARG_LARGE_NUMBER", "9", 1);
    setenv("SPOLIA_ARG_NEEDED", "there", 1);
    setenv("SPOLIA_ARG_FLAG", "no", 1);
    assert_int_equal(PARSE(&v, "x"), 1);
    assert_true(v.large == 9 && !v.flag && !strcmp(v.needed, "there"));
    assert_int_equal(PARSE(&v, "--large-number", "8", "--flag"), 4);
    assert_true(v.large == 8 && v.flag);
    setenv("SPOLIA_ARG_ITEM", "e", 1);
    assert_int_equal(PARSE(&v, "x"), 1);
    assert_true(v.list.n == 1 && strcmp(v.list.v[0], "e") == 0);
    assert_int_equal(PARSE(&v, "-i", "a", "-i", "b"), 5); /* instead of those of the environment */
    assert_true(v.list.n == 2 && strcmp(v.list.v[0], "a") == 0);
    unsetenv("SPOLIA_ARG_ITEM");
    setenv("SPOLIA_ARG_FLAG", "2", 1);
    assert_int_equal(PARSE(&v, "x"), -3);
    unsetenv("SPOLIA_ARG_FLAG");
    const opt_names known = {.v = {"needed", "large-number"}, .n = 2};
    assert_true(opt_check_environment(&known));
    setenv("SPOLIA_ARG_LARGE_NUMBERS", "9", 1);
    assert_false(opt_check_environment(&known));
    unsetenv("SPOLIA_ARG_LARGE_NUMBERS");
    unsetenv("SPOLIA_ARG_LARGE_NUMBER");
    unsetenv("SPOLIA_ARG_NEEDED");
}

static void from_file(const char *text)
{
    char path[] = "/tmp/spolia-options-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    assert_true(config_open(path));
    unlink(path);
}

/* The command's section counts more than that of all commands, the environment more than both; lists are not added. */
static void the_file_comes_after_the_environment(void **state)
{
    values v;
    from_file("[spolia]\nnumber = 1\ntext = all\nitem = a\nitem = b\n[test]\nnumber = 2\nitem = c\n"
              "[other]\nnumber = 3\n");
    assert_int_equal(PARSE(&v, "--needed", "x"), 3);
    assert_true(v.number == 2 && strcmp(v.text, "all") == 0 && v.list.n == 1 && strcmp(v.list.v[0], "c") == 0);
    setenv("SPOLIA_ARG_NUMBER", "5", 1);
    assert_int_equal(PARSE(&v, "--needed", "x", "--item", "d"), 5);
    assert_true(v.number == 5 && v.list.n == 1 && strcmp(v.list.v[0], "d") == 0);
    unsetenv("SPOLIA_ARG_NUMBER");
    assert_int_equal(PARSE(&v, "--needed", "x", "--config", "/another"), -3);
    from_file("[spolia]\nitem = a\nitem = b\n[test]\ntext = 1\ntext = 2\n");
    assert_int_equal(PARSE(&v, "--needed", "x"), -3); /* text twice */
    config_close();
}

/* Only on the line is an option refused that has no effect: the environment is of several commands. */
static void an_option_may_need_a_flag(void **state)
{
    int size = 0;
    bool flag = false;
    const opt more[] = {{OPT_INT, "size", 0, "N", &size, "an int"}, {0}};
    const opt *const tables[] = {more, NULL};
    const opt_needs needs[] = {{more, &flag, "large"}, {0}};
    const opt_usage usage = {"test [options]", "A test.", needs};
    char *argv[] = {"test", "--size", "3", NULL};
    assert_int_equal(opt_parse(3, argv, &usage, tables), -3);
    flag = true;
    assert_int_equal(opt_parse(3, argv, &usage, tables), 3);
    flag = false;
    setenv("SPOLIA_ARG_SIZE", "4", 1);
    assert_int_equal(opt_parse(1, argv, &usage, tables), 1);
    assert_int_equal(size, 4);
    unsetenv("SPOLIA_ARG_SIZE");
}

static void a_flag_in_the_environment_has_a_word(void **state)
{
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "ON"};
    values v;
    for (size_t i = 0; i < SP_COUNT(words); i++) {
        setenv("SPOLIA_ARG_FLAG", words[i], 1);
        assert_int_equal(PARSE(&v, "--needed", "x"), 3);
        assert_int_equal(v.flag, i % 2);
    }
    unsetenv("SPOLIA_ARG_FLAG");
}

static void see(const opt_usage *usage, const opt *const *tables, void *user)
{
    ++*(int *)user;
    assert_string_equal(tables[0][1].name, "flag");
    assert_string_equal(usage->about, "A test.");
}

static void a_visitor_sees_all_options(void **state)
{
    values v;
    int n = 0;
    opt_visit(see, &n);
    assert_int_equal(PARSE(&v, "--number", "3"), -1);
    opt_visit(NULL, NULL);
    assert_int_equal(n, 1);
    assert_int_equal(v.number, 7);
}

static void the_nearest_name_is_proposed(void **state)
{
    static const char *const names[] = {"reuse", "recompute", "top-k", "top-p",
                                        "stop",  "seed",      "n"};
    static const char *const pairs[][2] = {
        {"ruse", "reuse"}, {"reues", "reuse"}, {"recomptue", "recompute"},
        {"topk", "top-k"}, {"sede", "seed"},   {"restructure", NULL},
        {"x", NULL},       {"", NULL},         {"sto", "stop"},
        {"setp", NULL}, /* two edits of a short word */
    };
    for (size_t i = 0; i < SP_COUNT(pairs); i++) {
        const char *got = cli_nearest(pairs[i][0], names, SP_COUNT(names));
        assert_true(got == NULL ? pairs[i][1] == NULL : pairs[i][1] && !strcmp(got, pairs[i][1]));
    }
    char word[200];
    memset(word, 'a', sizeof word);
    word[sizeof word - 1] = '\0';
    assert_null(cli_nearest(word, names, SP_COUNT(names)));
}

/* A table that is too long is a bug that shows at once: no option is dropped in silence. */
static void too_many_options_are_an_assertion(void **state)
{
    static bool flags[OPT_MAX + 1];
    static char names[OPT_MAX + 1][8];
    static opt table[OPT_MAX + 2];
    for (int i = 0; i <= OPT_MAX; i++) {
        snprintf(names[i], sizeof names[i], "o%d", i);
        table[i] = (opt){OPT_FLAG, names[i], 0, NULL, &flags[i], "a flag"};
    }
    const opt *const tables[] = {table, NULL};
    pid_t child = fork();
    if (child == 0) {
        char *argv[] = {"test", NULL};
        fclose(stderr);
        opt_parse(1, argv, &(opt_usage){"test [options]", "A test."}, tables);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_many_options_are_an_assertion),
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(each_kind_of_value_is_read),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(unknown_options_get_advice),
        cmocka_unit_test(the_environment_comes_after_the_line),
        cmocka_unit_test(the_file_comes_after_the_environment),
        cmocka_unit_test(an_option_may_need_a_flag),
        cmocka_unit_test(a_flag_in_the_environment_has_a_word),
        cmocka_unit_test(a_visitor_sees_all_options),
        cmocka_unit_test(the_nearest_name_is_proposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
