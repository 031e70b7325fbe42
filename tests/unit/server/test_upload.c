/* A document that comes as a JSON body: its file in base64, flags, times and tags. */
#include <string.h>

#include "server/body/upload.h"
#include "support/check.h"

/* opened -- a body that is read without an error; close it with srv_upload_fini. */
static srv_upload opened(const char *body)
{
    srv_call call = {.body = (char *)(uintptr_t)body, .n = strlen(body)};
    srv_fields f;
    srv_upload u;
    srv_upload_read(&u, &f, &call);
    assert_string_equal(f.why, "");
    return u;
}

static void refused(const char *body, const char *param)
{
    srv_call call = {.body = (char *)(uintptr_t)body, .n = strlen(body)};
    srv_fields f;
    srv_upload u;
    srv_upload_read(&u, &f, &call);
    assert_true(f.failed);
    assert_string_equal(f.param, param);
    srv_upload_fini(&u);
}

static void files_are_base64(void **state)
{
    static const char *const cases[][2] = {
        {"YQ==", "a"}, {"YWI=", "ab"}, {"YWJj", "abc"}, {"YWJj\\nZGVm \\tZw==\\r\\n", "abcdefg"}, {"", ""}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char body[200];
        snprintf(body, sizeof body, "{\"file\": {\"name\": \"a.txt\", \"data\": \"%s\"}}", cases[i][0]);
        srv_upload u = opened(body);
        assert_string_equal(u.document.file, "a.txt");
        assert_int_equal(u.document.n_data, strlen(cases[i][1]));
        assert_memory_equal(u.document.data, cases[i][1], strlen(cases[i][1]));
        srv_upload_fini(&u);
    }
    srv_upload u = opened("{\"file\": {\"filename\": \"b.txt\", \"data\": \"YQ==\"}}");
    assert_string_equal(u.document.file, "b.txt");
    srv_upload_fini(&u);
    refused("{\"file\": {\"name\": \"a\", \"data\": \"?\"}}", "file.data");
    refused("{\"file\": {\"data\": \"YQ==\"}}", "file");
    refused("{\"file\": {\"name\": \"a\", \"data\": \"YQ==\", \"type\": \"x\"}}", "file.type");
}

static void a_document_has_a_text_or_a_file(void **state)
{
    refused("{\"id\": \"a\"}", "text");
    refused("{\"text\": \"x\", \"file\": {\"name\": \"a\", \"data\": \"YQ==\"}}", "text");
    refused("{\"text\": \"x\", \"ttl\": 5}", "ttl");
}

static void flags_and_times_may_be_texts(void **state)
{
    static const struct {
        const char *value;
        bool is_true;
    } flags[] = {{"true", true},   {"\"true\"", true},   {"\"1\"", true},
                 {"false", false}, {"\"false\"", false}, {"\"0\"", false}};
    for (size_t i = 0; i < SP_COUNT(flags); i++) {
        char body[200];
        snprintf(body, sizeof body, "{\"text\": \"x\", \"pinned\": %s, \"ttl_seconds\": %s}", flags[i].value,
                 i % 2 ? "\"60\"" : "60");
        srv_upload u = opened(body);
        assert_int_equal(u.document.pinned, flags[i].is_true);
        assert_false(u.document.replace);
        assert_int_equal(u.document.ttl_s, 60);
        srv_upload_fini(&u);
    }
    refused("{\"text\": \"x\", \"pinned\": \"yes\"}", "pinned");
    refused("{\"text\": \"x\", \"replace\": 1}", "replace");
    refused("{\"text\": \"x\", \"ttl_seconds\": \"60s\"}", "ttl_seconds");
    refused("{\"text\": \"x\", \"ttl_seconds\": \"-1\"}", "ttl_seconds");
    refused("{\"text\": \"x\", \"ttl_seconds\": \"\"}", "ttl_seconds");
    refused("{\"text\": \"x\", \"ttl_seconds\": -1}", "ttl_seconds");
}

static void tags_are_a_list_or_between_commas(void **state)
{
    static const char *const cases[] = {"[\"a\", \"b c\"]", "\" a ,,b c \"", "\"a,b c\""};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char body[200];
        snprintf(body, sizeof body, "{\"text\": \"x\", \"tags\": %s}", cases[i]);
        srv_upload u = opened(body);
        assert_int_equal(u.document.n_tags, 2);
        assert_string_equal(u.document.tags[0], "a");
        assert_string_equal(u.document.tags[1], "b c");
        srv_upload_fini(&u);
    }
    srv_upload u = opened("{\"text\": \"x\", \"tags\": \"\"}");
    assert_int_equal(u.document.n_tags, 0);
    srv_upload_fini(&u);
    refused("{\"text\": \"x\", \"tags\": {}}", "tags");
    refused("{\"text\": \"x\", \"tags\": [\"a\", 1]}", "tags");
    char body[2000] = "{\"text\": \"x\", \"tags\": [\"a\"";
    for (int i = 1; i < SRV_MAX_TAGS; i++) strcat(body, ", \"a\"");
    const size_t n = strlen(body);
    u = opened(strcat(body, "]}"));
    assert_int_equal(u.document.n_tags, SRV_MAX_TAGS);
    srv_upload_fini(&u);
    strcpy(body + n, ", \"a\"]}");
    refused(body, "tags");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_base64),
        cmocka_unit_test(a_document_has_a_text_or_a_file),
        cmocka_unit_test(flags_and_times_may_be_texts),
        cmocka_unit_test(tags_are_a_list_or_between_commas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
