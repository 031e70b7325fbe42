/* Texts of a body against the bytes that a context holds: which count, and what is named. */
#include <string.h>

#include "server/api/room.h"
#include "support/check.h"

/* lacks -- the field that has too many bytes for 20; "" for none. */
static void lacks(const char *text, const char *param)
{
    srv_server s = {.most_text = 20, .info.n_ctx = 5};
    srv_call call = {.s = &s};
    srv_fields f;
    json_t *body = srv_fields_parse(&f, text, strlen(text));
    assert_non_null(body);
    assert_int_equal(srv_room_lacks(&call, &f), *param != '\0');
    assert_string_equal(f.param, param);
    json_decref(body);
}

#define TEN  "0123456789"
#define SAYS(text) "\"messages\": [{\"role\": \"user\", \"content\": \"" text "\"}]"

static void texts_are_counted_in_bytes(void **state)
{
    lacks("{" SAYS(TEN TEN) "}", "");
    lacks("{" SAYS(TEN TEN "x") "}", "messages");
    lacks("{" SAYS("a \\n\\t       \\n\\n            \\n   b") "}", ""); /* blanks in a row are one */
    lacks("{" SAYS(TEN "       " TEN) "}", "messages");
    lacks("{\"messages\": [{\"content\": \"" TEN "\"}, {\"content\": \"" TEN "x\"}]}", "messages");
    lacks("{\"messages\": [{\"content\": [{\"text\": \"" TEN "\"}, \"" TEN "\"]}]}", "");
    lacks("{\"messages\": [{\"content\": [{\"text\": \"" TEN "\"}, \"" TEN "x\"]}]}", "messages");
    lacks("{\"messages\": [{\"content\": [{\"text\": \"" TEN TEN "x\"}]}]}", "messages");
}

static void documents_are_part_of_the_prompt(void **state)
{
    lacks("{\"documents\": [\"" TEN "\", {\"text\": \"" TEN "\"}]}", "");
    lacks("{\"documents\": [\"" TEN "\", {\"text\": \"" TEN "x\"}]}", "documents");
    lacks("{\"documents\": [{\"content\": \"" TEN "\"}, {\"page_content\": \"" TEN "x\"}]}", "documents");
    lacks("{\"chat_template_kwargs\": {\"documents\": [\"" TEN TEN "x\"]}}", "documents");
    lacks("{\"documents\": [\"" TEN "x\"], " SAYS(TEN) "}", "messages"); /* both together */
}

static void each_prompt_of_a_list_is_one(void **state)
{
    lacks("{\"prompt\": \"" TEN TEN "x\"}", "prompt");
    lacks("{\"prompt\": [\"" TEN TEN "\", \"" TEN TEN "\"]}", "");
    lacks("{\"prompt\": [\"" TEN "\", \"" TEN TEN "x\"]}", "prompt");
    lacks("{\"prompt\": [1, 2, 3]}", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_counted_in_bytes),
        cmocka_unit_test(documents_are_part_of_the_prompt),
        cmocka_unit_test(each_prompt_of_a_list_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
