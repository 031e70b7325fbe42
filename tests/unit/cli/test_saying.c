/* What is printed of an answer that comes in pieces, at a terminal and elsewhere. */
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/answer/saying.h"
#include "support/check.h"

#define WHOLE    "<think>\nI add 2 < 3.\n</think>\n\nIt is \x1b[1mnine."
#define DIM(x)   "\033[2m" x "\033[0m"
#define CHANNELS "<|channel|>analysis<|message|>I add.<|end|><|start|>assistant<|channel|>final<|message|>Nine."

/* print_pieces -- an answer, `step` bytes at a time; standard output is the file fd. */
static void print_pieces(saying *s, const char *answer, size_t step, int fd)
{
    fflush(stdout);
    const int before = dup(STDOUT_FILENO);
    assert_true(before >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    for (size_t at = 0, all = strlen(answer); at < all; at += step)
        assert_true(saying_print(answer + at, all - at < step ? all - at : step, s));
    assert_true(saying_end(s));
    fflush(stdout);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    close(before);
    saying_fini(s);
}

/* read_all -- up to the end of a file, or of a terminal that nobody has open. */
static void read_all(int fd, char *out, size_t n)
{
    size_t at = 0;
    for (ssize_t got; at + 1 < n && (got = read(fd, out + at, n - 1 - at)) > 0;) at += (size_t)got;
    out[at] = '\0';
}

/* At a terminal of this kind. */
static void expect_at_terminal(const char *term, const char *answer, thoughts_form form, bool shown,
                               const char *wanted)
{
    for (size_t step = 1; step < 9; step += 3) {
        int outside, inside;
        struct termios raw;
        char out[512];
        assert_int_equal(openpty(&outside, &inside, NULL, NULL, NULL), 0);
        tcgetattr(inside, &raw);
        cfmakeraw(&raw);
        tcsetattr(inside, TCSANOW, &raw);
        setenv("TERM", term, 1);
        unsetenv("NO_COLOR");
        saying s = {.form = form, .to = shown ? stdout : NULL};
        print_pieces(&s, answer, step, inside);
        close(inside);
        read_all(outside, out, sizeof out);
        close(outside);
        /* pieces that follow each other look like one */
        for (char *p; (p = strstr(out, "\033[0m\033[2m"));) memmove(p, p + 8, strlen(p + 8) + 1);
        assert_string_equal(out, wanted);
    }
}

static void a_terminal_shows_thoughts_dimmed_before_the_text(void **state)
{
    expect_at_terminal("xterm", WHOLE, THOUGHTS_TAGS, true, DIM("I add 2 < 3.") "\n\nIt is \xEF\xBF\xBD[1mnine.");
    expect_at_terminal("xterm", WHOLE, THOUGHTS_TAGS, false, "It is \xEF\xBF\xBD[1mnine.");
    expect_at_terminal("xterm", CHANNELS, THOUGHTS_CHANNELS, true, DIM("I add.") "\n\nNine.");
    expect_at_terminal("xterm", "<think>still", THOUGHTS_TAGS, true, DIM("still") "\n\n");
    expect_at_terminal("xterm", " \n<think>I add.</think>Nine.", THOUGHTS_TAGS, true, DIM("I add.") "\n\nNine.");
    expect_at_terminal("dumb", WHOLE, THOUGHTS_TAGS, true,
                       "[thoughts]\nI add 2 < 3.\n[answer]\nIt is \xEF\xBF\xBD[1mnine.");
    expect_at_terminal("xterm", "<think>\n\n</think>\n\nNine.", THOUGHTS_TAGS, true, "Nine.");
    expect_at_terminal("xterm", "Nine <think>.", THOUGHTS_TAGS, true, "Nine <think>.");
}

/* In a file: what standard output has, and the file of thoughts (NULL: there is none). */
static void expect_in_files(const char *answer, thoughts_form form, const char *text, const char *thoughts)
{
    for (size_t step = 1; step < 40; step += 13) {
        FILE *to = thoughts ? tmpfile() : NULL, *f = tmpfile();
        char out[512], thought[512] = "";
        saying s = {.form = form, .to = to};
        assert_non_null(f);
        print_pieces(&s, answer, step, fileno(f));
        lseek(fileno(f), 0, SEEK_SET);
        read_all(fileno(f), out, sizeof out);
        assert_string_equal(out, text);
        if (to) {
            rewind(to);
            thought[fread(thought, 1, sizeof thought - 1, to)] = '\0';
            assert_string_equal(thought, thoughts);
            fclose(to);
        }
        fclose(f);
    }
}

static void a_file_has_the_text_alone(void **state)
{
    expect_in_files(WHOLE, THOUGHTS_TAGS, "It is \x1b[1mnine.", NULL);
    expect_in_files(WHOLE, THOUGHTS_TAGS, "It is \x1b[1mnine.", "I add 2 < 3.\n");
    expect_in_files(WHOLE, THOUGHTS_NONE, WHOLE, NULL);
    expect_in_files(CHANNELS, THOUGHTS_CHANNELS, "Nine.", "I add.\n");
    expect_in_files("No tags </think>Nine.", THOUGHTS_OPENED, "Nine.", "No tags\n");
    expect_in_files("Nine <thin", THOUGHTS_TAGS, "Nine <thin", "");
    expect_in_files("<thin", THOUGHTS_TAGS, "<thin", ""); /* held back until the end */
}

static void json_has_both_apart(void **state)
{
    saying s = {.form = THOUGHTS_TAGS};
    json_t *o = saying_json(&s, WHOLE, json_pack("{s:s}", "question", "Which?"));
    assert_string_equal(json_string_value(json_object_get(o, "thoughts")), "I add 2 < 3.");
    assert_string_equal(json_string_value(json_object_get(o, "text")), "It is \x1b[1mnine.");
    assert_string_equal(json_string_value(json_object_get(o, "question")), "Which?");
    json_decref(o);
    s.how = "hide";
    o = saying_json(&s, WHOLE, NULL);
    assert_null(json_object_get(o, "thoughts"));
    json_decref(o);
    char *text = saying_text(&s, WHOLE);
    assert_string_equal(text, "It is \x1b[1mnine.");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_shows_thoughts_dimmed_before_the_text),
        cmocka_unit_test(a_file_has_the_text_alone),
        cmocka_unit_test(json_has_both_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
