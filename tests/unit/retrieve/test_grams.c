/* Grams and queries: what a text is found by, and what a question asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

#include <string.h>

#include "retrieve/index/grams_int.h"

static void assert_grams_of(bool code, const char *text, const char *expected)
{
    sp_bytes out = {0};
    assert_int_equal(sp_grams(text, strlen(text), code, &out), SP_OK);
    assert_int_equal(sp_bytes_add(&out, "", 1), SP_OK);
    assert_string_equal(out.v, expected);
    sp_vec_fini(&out);
}

static void assert_grams(const char *text, const char *expected)
{
    assert_grams_of(false, text, expected);
}

static void assert_query(const char *question, const char *words, const char *grams)
{
    sp_query q;
    assert_int_equal(sp_query_make(question, &q), SP_OK);
    assert_string_equal(q.words.v, words);
    assert_string_equal(q.grams.v, grams);
    sp_query_fini(&q);
}

static void scripts_without_spaces_give_pairs(void **state)
{
    assert_grams("人工智能", "人工 工智 智能 能");
    assert_grams("猫，狗。", "猫 狗");
    assert_grams("在Python中", "在 中");
    assert_grams("東京タワー", "東京 京タ タワ ワー ー");
    assert_grams("ﾀﾜｰ", "タワ ワー ー"); /* half-width kana */
    assert_grams("서울은 크다", "서울 울은 은 크다 다");
    assert_grams("ที่นี่", "ที่นี่ นี่"); /* two characters with their vowels and tones */
    assert_grams("𠮷野家", "𠮷野 野家 家");
}

static void prose_of_other_scripts_gives_none(void **state)
{
    assert_grams("Plain words, naïve café. Москва हिन्दी العربية", "");
    assert_grams("", "");
    assert_grams("\xFF\xE4\xBA", "");
    assert_grams("a\xFF人工", "人工 工"); /* what is no UTF-8 does no harm */
}

static void identifiers_give_their_parts(void **state)
{
    assert_grams_of(true, "parseHttpRequest", "parse http request");
    assert_grams_of(true, "HTTPServer x2Y read_all", "http server");
    assert_grams("call parseHttpRequest", "parse http request");
    assert_grams("an iPhone of McDonald on YouTube, HTTPServer", ""); /* names, in prose */
    assert_grams_of(true, "xRay aB", "ray"); /* a letter is no word */
    assert_grams("ＡＢＣ def", "abc def"); /* full-width letters: the word index lacks them */
    assert_grams("\xEF\xA4\x80 def", "\xE8\xB1\x88"); /* U+F900 becomes U+8C48; the word is in the other index */
}

static void a_question_asks_for_words_and_grams(void **state)
{
    assert_query("read_lines store_open",
                 "\"read\" OR \"lines\" OR \"read lines\" OR \"store\" OR \"open\" OR \"store open\"",
                 "\"read\" OR \"lines\" OR \"store\" OR \"open\"");
    assert_query("Who digs tunnels?", "\"digs\" OR \"tunnels\"", "\"digs\" OR \"tunnels\"");
    assert_query("什么是人工智能？", "",
                 "\"什么\" OR \"么是\" OR \"是人\" OR \"人工\" OR \"工智\" OR \"智能\"");
    assert_query("猫", "", "\"猫\"*");
    assert_query("Python的GIL", "\"python\" OR \"gil\"", "\"python\" OR \"的\"* OR \"gil\"");
    assert_query("read_all_lines", "\"read\" OR \"lines\" OR \"read all lines\"",
                 "\"read\" OR \"lines\"");
    assert_query("Store::open", "\"store\" OR \"open\" OR \"store open\"", "\"store\" OR \"open\"");
    assert_query("trains at 10:30", "\"trains\" OR \"10\" OR \"30\"", "\"trains\" OR \"10\" OR \"30\"");
    assert_query("who is 猫", "", "\"猫\"*");
    assert_query("École ÉCOLE", "\"école\"", "\"cole\"");
    assert_query("who are they", "\"who\" OR \"are\" OR \"they\"", "");
    assert_query("\"*^ ( ) \xFF", "", "");
    assert_query("", "", "");
}

static void of_a_long_question_256_words_are_asked_for(void **state)
{
    char text[4096];
    size_t n = 0, n_or = 0;
    sp_query q = {0};
    for (int i = 0; i < 300; i++) n += (size_t)sprintf(text + n, "word%d ", i);
    assert_int_equal(sp_query_make(text, &q), SP_OK);
    for (const char *at = q.words.v; (at = strstr(at, " OR ")); at++) n_or++;
    assert_int_equal(n_or, 255);
    sp_query_fini(&q);
}

static void running_out_of_memory_is_an_error(void **state)
{
    sp_err err = SP_E_NOMEM;
    int allocation = 1;
    for (; err != SP_OK; allocation++) {
        assert_in_range(allocation, 1, 100);
        sp_query q = {0};
        sp_fault_after(allocation);
        err = sp_query_make("some words, 人工智能 and parseHttpRequest", &q);
        sp_fault_after(-1);
        assert_true(err == SP_OK || err == SP_E_NOMEM);
        sp_query_fini(&q);
    }
    assert_true(allocation > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_without_spaces_give_pairs),
        cmocka_unit_test(prose_of_other_scripts_gives_none),
        cmocka_unit_test(identifiers_give_their_parts),
        cmocka_unit_test(a_question_asks_for_words_and_grams),
        cmocka_unit_test(of_a_long_question_256_words_are_asked_for),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
