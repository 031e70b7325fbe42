/* "filter" of a body: files and tags, as this server and as OpenAI's vector stores write them. */
#include <string.h>

#include "server/body/filter.h"
#include "support/check.h"

/* reads -- the files and tags of a body, as "files: a b, tags: c"; or the error. */
static void reads(const char *text, const char *expected)
{
    srv_fields f;
    srv_filter filter;
    char got[512] = "files:";
    json_t *body = srv_fields_parse(&f, text, strlen(text));
    assert_non_null(body);
    srv_filter_read(&f, &filter);
    for (int i = 0; i < filter.n_files; i++) strcat(strcat(got, " "), filter.files[i]);
    strcat(got, ", tags:");
    for (int i = 0; i < filter.n_tags; i++) strcat(strcat(got, " "), filter.tags[i]);
    if (f.failed) assert_string_equal(f.param, "filter");
    const char *told = f.failed ? f.why : got;
    if (strncmp(told, expected, strlen(expected)) != 0) fail_msg("\"%s\", not \"%s\"", told, expected);
    json_decref(body);
}

static void a_filter_has_files_and_tags(void **state)
{
    reads("{}", "files:, tags:");
    reads("{\"filter\": null}", "files:, tags:");
    reads("{\"filter\": {\"file\": \"a.md\"}}", "files: a.md, tags:");
    reads("{\"filter\": {\"tag\": [\"x\", \"y\"], \"file\": [\"a\"]}}", "files: a, tags: x y");
    reads("{\"filters\": {\"tag\": \"x\"}}", "files:, tags: x");
}

#define IS(key, value) "{\"type\": \"eq\", \"key\": \"" key "\", \"value\": " value "}"

static void filters_of_other_clients_are_read(void **state)
{
    reads("{\"filters\": " IS("file", "\"a\"") "}", "files: a, tags:");
    reads("{\"filters\": {\"type\": \"in\", \"key\": \"tag\", \"value\": [\"x\", \"y\"]}}", "files:, tags: x y");
    reads("{\"filters\": {\"type\": \"and\", \"filters\": [" IS("file", "\"a\"") ", " IS("tag", "[\"x\"]") "]}}",
          "files: a, tags: x");
    reads("{\"filters\": {\"type\": \"and\", \"filters\": []}}", "files:, tags:");
}

static void what_is_no_filter_is_named(void **state)
{
    reads("{\"filter\": \"a\"}", "filter must be an object");
    reads("{\"filter\": {\"author\": \"a\"}}", "filter: \"author\" is unknown; the fields are: file tag");
    reads("{\"filter\": {\"tag\": []}}", "filter: tag must be a text, or a list of 1 to 64");
    reads("{\"filter\": {\"tag\": \"\"}}", "filter: tag must be a text, or a list of texts");
    reads("{\"filter\": {\"tag\": [\"x\", 1]}}", "filter: tag must be a text, or a list of texts");
    reads("{\"filters\": " IS("author", "\"a\"") "}", "filter: key must be file or tag");
    reads("{\"filters\": {\"type\": \"eq\", \"value\": \"a\"}}", "filter: key must be file or tag");
    reads("{\"filters\": {\"type\": \"or\", \"filters\": []}}", "filter: type must be eq, in, or and");
    reads("{\"filters\": {\"type\": \"and\"}}", "filter: and must have a list");
    reads("{\"filters\": {\"type\": \"and\", \"filters\": [" IS("tag", "\"x\"") ", " IS("tag", "\"y\"") "]}}",
          "filter: tag is given twice");
    reads("{\"filter\": {\"tag\": \"x\"}, \"filters\": {\"tag\": \"y\"}}", "filter and filters are names of one");
}

static void a_list_has_a_limit(void **state)
{
    for (int n = SRV_MAX_FILTER; n <= SRV_MAX_FILTER + 1; n++) {
        char text[1024] = "{\"filter\": {\"tag\": [\"x\"";
        for (int i = 1; i < n; i++) strcat(text, ", \"x\"");
        strcat(text, "]}}");
        reads(text, n <= SRV_MAX_FILTER ? "files:, tags: x x" : "filter: tag must be a text, or a list of");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_has_files_and_tags),
        cmocka_unit_test(filters_of_other_clients_are_read),
        cmocka_unit_test(what_is_no_filter_is_named),
        cmocka_unit_test(a_list_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
