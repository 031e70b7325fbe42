/* test_dataset.c -- question files of spolia eval. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lab/eval/dataset.h"
#include "support/caught.h"

static bool read_text(const char *text, const char *kind_field, eval_questions *out)
{
    char path[40];
    int fd = memfd_create("questions", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool good = eval_questions_read(path, kind_field, out);
    close(fd);
    return good;
}

/* An id that is made replaces an empty one, which the kind may have been. */
static void kinds_are_ids(void **state)
{
    eval_questions q;
    assert_true(read_text("{\"id\": \"\", \"question\": \"Who?\", \"answers\": [\"a\"]}\n"
                          "{\"id\": \"x\", \"question\": \"Why?\", \"answers\": [\"b\", \"c\"]}\n",
                          "id", &q));
    assert_int_equal(q.n, 2);
    assert_string_equal(q.v[0].id, "q1");
    assert_string_equal(q.v[0].kind, "q1");
    assert_string_equal(q.v[1].kind, "x");
    assert_int_equal(q.v[1].n_answers, 2);
    eval_questions_drop(&q);
}

/* A run that goes on knows its questions by the hash of their file: any other byte is another file. */
static void the_hash_is_of_the_whole_file(void **state)
{
    static const char *const texts[] = {"{\"question\": \"Who?\", \"answers\": [\"a\"]}\n",
                                        "{\"question\": \"Who?\", \"answers\": [\"b\"]}\n",
                                        "{\"question\": \"Who?\", \"answers\": [\"a\"]}\n\n"};
    eval_questions q[4];
    for (int i = 0; i < 4; i++) assert_true(read_text(texts[i % 3], "kind", &q[i]));
    assert_true(q[0].hash == q[3].hash && q[0].hash != q[1].hash && q[0].hash != q[2].hash && q[0].hash != 0);
    for (int i = 0; i < 4; i++) eval_questions_drop(&q[i]);
}

static void ids_are_unique(void **state)
{
    eval_questions q;
    assert_false(read_text("{\"id\": \"q2\", \"question\": \"Who?\", \"answers\": [\"a\"]}\n"
                           "{\"question\": \"Why?\", \"answers\": [\"b\"]}\n",
                           "kind", &q));
}

static void blank_lines_and_a_byte_order_mark_are_nothing(void **state)
{
    eval_questions q;
    assert_true(read_text("\xEF\xBB\xBF\n{\"question\": \"Who?\", \"answers\": [\"a\"]}\n\n \t\r\n"
                          "{\"question\": \"Why?\", \"answers\": [\"b\"]}\n\n",
                          "kind", &q));
    assert_int_equal(q.n, 2);
    eval_questions_drop(&q);
}

/* Nothing is returned, and the error names the line. */
static void what_is_no_set_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "contains no questions"},
        {"\n \n", "contains no questions"},
        {"{\"question\": \"Who?\", \"answers\": [\"a\"]}\n{\"question\": ", "line 2: "},
        {"\n\n[1]\n", "line 3: not a JSON object"},
        {"{\"question\": \"Who?\", \"answers\": []}", "line 1: field answers is empty"},
        {"{\"question\": \"Who?\", \"answers\": [7]}", "line 1: "},
        {"{\"answers\": [\"a\"]}", "line 1: "},
        {"{\"id\": \"a\", \"question\": \"Who?\", \"answers\": [\"a\"]}\n"
         "{\"id\": \"a\", \"question\": \"Who?\", \"answers\": [\"a\"]}\n", "line 2: "},
        {NULL, "/missing/questions.jsonl"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char shown[512];
        eval_questions q = {.n = 77};
        FILE *err = tmpfile();
        assert_non_null(err);
        const int before = catch(stderr, err);
        const char *text = cases[i].text;
        const bool good =
            text ? read_text(text, "kind", &q) : eval_questions_read("/missing/questions.jsonl", "kind", &q);
        give_back(stderr, before);
        read_all(err, shown, sizeof shown);
        assert_false(good);
        assert_int_equal(q.n, 77);
        assert_ptr_equal(strchr(shown, '\n'), shown + strlen(shown) - 1); /* one error is one line */
        if (!strstr(shown, cases[i].why)) fail_msg("%s: %s, not %s", text, shown, cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_ids),
        cmocka_unit_test(the_hash_is_of_the_whole_file),
        cmocka_unit_test(ids_are_unique),
        cmocka_unit_test(what_is_no_set_is_refused),
        cmocka_unit_test(blank_lines_and_a_byte_order_mark_are_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
