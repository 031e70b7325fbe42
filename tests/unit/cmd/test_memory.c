/* test_memory.c -- what commands print and ask is whole, whichever allocation fails, or an error in its place. */
#include "support/caught.h"
#include "support/failing_malloc.h"
#include "support/requests.h"

#include "cli/json.h"
#include "cmd/ask/ask.h"
#include "cmd/commands.h"

enum { FAR = 1 << 30 };

/* inspect -- what is printed, and what is said, when the allocation after so many fails. Returns how many of them were
 * not made. */
static int inspect(int after, char *printed, char *said, size_t size)
{
    char command[] = "inspect", path[] = MODEL, *argv[] = {command, path, NULL};
    caught out = catch_begin(stdout), err = catch_begin(stderr);
    until_failure = after;
    assert_int_equal(cmd_inspect(2, argv), 0); /* cli_check_output makes it 1 */
    const int left = until_failure;
    until_failure = -1;
    snprintf(said, size, "%s", catch_end(&err));
    snprintf(printed, size, "%s", catch_end(&out));
    return left;
}

static void inspect_leaves_no_line_out(void **state)
{
    enum { SIZE = 1 << 15, LAST = 40 };
    static char whole[SIZE], printed[SIZE], said[SIZE];
    int n_errors = 0;
    cli_watch_json();
    const int n = FAR - inspect(FAR, whole, said, SIZE);
    assert_string_equal(said, "");
    assert_non_null(strstr(whole, "general.architecture"));
    assert_int_equal(cli_check_output(0), 0);
    for (int i = n - LAST; i < n; i++) { /* those that print metadata */
        inspect(i, printed, said, SIZE);
        if (!*said) assert_string_equal(printed, whole);
        if (*said) assert_non_null(strstr(said, ": out of memory\n"));
        n_errors += *said != '\0';
    }
    assert_true(n_errors > LAST / 2);
    assert_int_equal(cli_check_output(0), 1);
}

static void a_chat_is_asked_by_its_template(void **state)
{
    char question[] = "Who?", answer[] = "Anna.";
    sp_context *c = open_with((sp_context_opts){0});
    c->texts.vocab.chat_template = c->texts.prompts.chat_template =
        "{% for m in messages %}[{{ m.role }} says: {{ m.content }}]{% endfor %}";
    ask_turn before = {.question = question, .answer = answer}, now = {.question = question};
    const asking a = {.ctx = c, .system = "Be brief.", .turns = &before, .n_turns = 1};
    int whole = 0, n_errors = 0;
    cli_watch_json();
    for (int i = -1; i < 150; i++) {
        sp_prompt *p;
        assert_ok(sp_prompt_create(c, &p));
        until_failure = i;
        const sp_err err = ask_chat_prompt(&a, &now, p);
        until_failure = -1;
        if (i < 0) whole = sp_prompt_n_tokens(p);
        if (err == SP_OK) assert_int_equal(sp_prompt_n_tokens(p), whole);
        if (err != SP_OK) assert_int_equal(err, SP_E_NOMEM);
        n_errors += err != SP_OK;
        sp_prompt_destroy(p);
    }
    assert_true(whole > 20 && n_errors > 20);
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inspect_leaves_no_line_out),
        cmocka_unit_test(a_chat_is_asked_by_its_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
