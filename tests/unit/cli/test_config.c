/* test_config.c -- the config file: which one is read, what a setting is, and what is refused. */
#include "cli/options/config.h"

#include "support/caught.h"
#include "support/folder.h"

static char path[160];

static void write_file(const char *folder, const char *text, size_t n)
{
    snprintf(path, sizeof path, "%s/config", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void assert_setting(size_t i, const char *section, const char *key, const char *value, int line)
{
    const config_file *c = config_get();
    assert_true(i < c->n);
    assert_string_equal(c->v[i].section, section);
    assert_string_equal(c->v[i].key, key);
    assert_string_equal(c->v[i].value, value);
    assert_int_equal(c->v[i].line, line);
}

static void settings_have_a_section_and_a_line(void **state)
{
    static const char text[] = "; a comment\n[spolia]\nmodel = ~/m.gguf\nitem = a\n\n[bench reuse]\nitem = b\n"
                               "text = one\n  two\n\tthree\nitem = c ; more\n[ask]\nitem = d\n  item e\n";
    setenv("HOME", "/home/x", 1);
    write_file(*state, text, sizeof text - 1);
    assert_true(config_open(path));
    assert_string_equal(config_get()->path, path);
    assert_true(config_get()->is_there);
    assert_int_equal(config_get()->n, 6);
    assert_setting(0, "spolia", "model", "/home/x/m.gguf", 3);
    assert_setting(1, "spolia", "item", "a", 4);
    assert_setting(2, "bench reuse", "item", "b", 7);
    assert_setting(3, "bench reuse", "text", "one\ntwo\nthree", 8);
    assert_setting(4, "bench reuse", "item", "c", 11);
    assert_setting(5, "ask", "item", "d\nitem e", 13);
    config_close();
    assert_int_equal(config_get()->n, 0);
    assert_null(config_get()->path);
}

/* In another section the same key is another setting; in the same one, not indented, too. */
static void the_same_key_may_be_repeated(void **state)
{
    static const char text[] = "[a]\nk = 1\nk = 2\n[b]\nk = ~3\n";
    write_file(*state, text, sizeof text - 1);
    assert_true(config_open(path));
    assert_int_equal(config_get()->n, 3);
    assert_setting(0, "a", "k", "1", 2);
    assert_setting(1, "a", "k", "2", 3);
    assert_setting(2, "b", "k", "~3", 5);
    config_close();
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    char longer[CONFIG_LINE + 40], want[256];
    memset(longer, 'x', sizeof longer);
    memcpy(longer, "[a]\nk = ", 8);
    longer[sizeof longer - 1] = '\0';
    const struct {
        const char *text, *said;
        size_t n;
    } cases[] = {
        {"[a]\nk = 1\n k-2 = 2\n",
         ":3: an indented line continues the value above; write a setting without blanks before it", 18},
        {"[a]\nk\n", ":2: neither \"[command]\" nor \"option = value\"", 6},
        {"[a]\n= 1\n", ":2: the name of an option is missing before its value", 8},
        {"[a]\n\0\n", ":2: a NUL byte: this is no text file", 6},
        {longer, ":2: the line is too long; split it: an indented line continues the value above", sizeof longer - 1},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        write_file(*state, cases[i].text, cases[i].n);
        caught c = catch_begin(stderr);
        const bool opened = config_open(path);
        const char *said = catch_end(&c);
        snprintf(want, sizeof want, "spolia: %s%s\n", path, cases[i].said);
        assert_string_equal(said, want);
        assert_false(opened);
    }
    config_close();
}

/* that_file -- the path of what was read, or would be; NULL: nothing. */
static const char *that_file(void)
{
    assert_true(config_open(NULL));
    return config_get()->path;
}

static void the_usual_file_may_be_missing(void **state)
{
    char want[200];
    const char *folder = *state;
    write_file(folder, "[a]\nk = 1\n", 10);
    setenv("SPOLIA_CONFIG", path, 1);
    assert_string_equal(that_file(), path);
    assert_int_equal(config_get()->n, 1);
    setenv("SPOLIA_CONFIG", "", 1);
    assert_null(that_file());
    unsetenv("SPOLIA_CONFIG");
    setenv("HOME", folder, 1);
    setenv("XDG_CONFIG_HOME", "not/absolute", 1);
    snprintf(want, sizeof want, "%s/.config/spolia/config", folder);
    assert_string_equal(that_file(), want);
    assert_false(config_get()->is_there);
    setenv("XDG_CONFIG_HOME", folder, 1);
    snprintf(want, sizeof want, "%s/spolia/config", folder);
    assert_string_equal(that_file(), want);
    setenv("XDG_CONFIG_HOME", path, 1); /* a file */
    assert_non_null(that_file());
    assert_false(config_get()->is_there);
    setenv("HOME", "", 1);
    unsetenv("XDG_CONFIG_HOME");
    assert_null(that_file());
    caught c = catch_begin(stderr);
    const bool opened = config_open("/nowhere/config");
    assert_string_equal(catch_end(&c), "spolia: /nowhere/config: No such file or directory\n");
    assert_false(opened);
    config_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_have_a_section_and_a_line),
        cmocka_unit_test(the_same_key_may_be_repeated),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(the_usual_file_may_be_missing),
    };
    return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
