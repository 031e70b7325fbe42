/* Keys of names, and how alike names are. */
#include "support/check.h"

#include "retrieve/graph/names_int.h"

static const char *key_of(const char *text)
{
    static char out[512];
    sp_bytes key = {0};
    assert_ok(sp_name_key(text, strlen(text), &key, NULL));
    assert_true(key.n < sizeof out);
    memcpy(out, key.v ? key.v : "", key.n);
    out[key.n] = '\0';
    sp_vec_fini(&key);
    return out;
}

static void keys_ignore_case_and_punctuation(void **state)
{
    assert_string_equal(key_of("Ocean's  Eleven"), "ocean s eleven");
    assert_string_equal(key_of("  M*A*S*H "), "m a s h");
    assert_string_equal(key_of("ÉCOLE Ōsaka ΣΟΦΙΑ МОСКВА Ёж Žižek"),
                        "école ōsaka σοφια москва ёж žižek");
    assert_string_equal(key_of("Hauptstraße"), "hauptstrasse");
    assert_string_equal(key_of("HAUPTSTRASSE"), "hauptstrasse");
    assert_string_equal(key_of("I\xCC\x87stanbul"), "istanbul"); /* the dot by itself */
    assert_string_equal(key_of("İstanbul"), "istanbul");
    assert_string_equal(key_of("ՀԱՅ ᲡᲐᲥ"), "հայ საქ"); /* Armenian, Georgian */
    assert_string_equal(key_of("“Quoted” — dash…"), "quoted dash");
    assert_string_equal(key_of("東京Tower"), "東 京 tower");
    assert_string_equal(key_of(" !!! "), "!!!");
    assert_string_equal(key_of(""), "");
    assert_string_equal(key_of("\xff\xfe x"), "\xff\xfe x");
}

static void accents_may_be_characters_of_their_own(void **state)
{
    assert_string_equal(key_of("Cafe\xCC\x81 ZU\xCC\x88RICH"), "caf\xC3\xA9 z\xC3\xBCrich");
    assert_string_equal(key_of("\xE1\x84\x89\xE1\x85\xA5\xE1\x84\x8B\xE1\x85\xAE\xE1\x86\xAF"),
                        "\xEC\x84\x9C\xEC\x9A\xB8"); /* Seoul, in parts of syllables */
    assert_string_equal(key_of("\xE3\x81\x8B\xE3\x82\x99\xE3\x81\x8B"),
                        "\xE3\x81\x8C \xE3\x81\x8B"); /* ka with a mark: ga; ka */
    assert_string_equal(key_of("e\xCC\x81\xFF"), "e\xCC\x81\xFF"); /* a stray byte */
}

static const char *capitals_of(const char *text)
{
    static char out[64];
    sp_bytes name = {0};
    assert_ok(sp_name_capitals(text, strlen(text), &name));
    assert_true(name.n < sizeof out);
    memcpy(out, name.v ? name.v : "", name.n);
    out[name.n] = '\0';
    sp_vec_fini(&name);
    return out;
}

static void names_without_capitals_get_some(void **state)
{
    assert_string_equal(capitals_of("charles_i_of_spain"), "Charles I Of Spain");
    assert_string_equal(capitals_of("saxe-coburg and gotha"), "Saxe-Coburg And Gotha");
    assert_string_equal(capitals_of("élodie_çetin's café 1st"), "Élodie Çetin's Café 1st");
    assert_string_equal(capitals_of("iPhone_5"), "iPhone_5");
    assert_string_equal(capitals_of("Élan vital"), "Élan vital");
    assert_string_equal(capitals_of("1932"), "1932");
    assert_string_equal(capitals_of("\xff_x"), "\xff X");
    assert_string_equal(capitals_of(""), "");
}

static void words_know_their_places(void **state)
{
    const char *text = "Who is Éric Rohmer?";
    sp_bytes key = {0};
    sp_name_words w = {0};
    assert_ok(sp_name_key(text, strlen(text), &key, &w));
    assert_int_equal(w.n, 4);
    assert_memory_equal(text + w.v[2].from, "Éric", 5);
    assert_memory_equal(key.v + w.v[2].key_from, "éric", 5);
    assert_int_equal(w.v[3].key_to, key.n);
    sp_vec_fini(&w);
    sp_vec_fini(&key);
}

static double likeness(const char *a, const char *b)
{
    return sp_name_likeness(a, strlen(a), b, strlen(b));
}

static void inflected_words_are_alike(void **state)
{
    assert_true(likeness("directors", "directed") > 0.5);
    assert_true(likeness("starring", "starred") > 0.5);
    assert_true(likeness("languages", "language") > 0.8);
    assert_true(likeness("genre", "year") < 0.2);
    assert_true(likeness("is", "in") == 0 && likeness("is", "is") == 1);
    assert_true(likeness("aaaaaaaa", "aaa") < 1);
    char a[4000], b[4000]; /* of long words the beginning is compared */
    for (int i = 0; i < 3999; i++) a[i] = b[i] = (char)('a' + i * i % 23);
    a[3999] = b[3999] = '\0';
    b[100] = '_';
    assert_true(likeness(a, b) == 1);
    b[20] = '_';
    assert_true(likeness(a, b) > 0.8 && likeness(a, b) < 1);
}

static int distance(const char *a, const char *b, int most)
{
    return sp_name_distance(a, strlen(a), b, strlen(b), most);
}

static void distance_counts_edits_and_swaps(void **state)
{
    assert_int_equal(distance("kitten", "sitting", 9), 3);
    assert_int_equal(distance("fog", "fgo", 9), 1);
    assert_int_equal(distance("", "abc", 9), 3);
    assert_int_equal(distance("kitten", "sitting", 2), 3);
    assert_int_equal(distance("same", "same", 0), 0);
    char longer[400];
    memset(longer, 'x', sizeof longer);
    longer[399] = '\0';
    assert_int_equal(distance(longer, longer + 1, 5), 6);
    assert_int_equal(distance(longer, longer, 5), 0);
}

static void relations_become_readable(void **state)
{
    static const char *const pairs[][2] = {
        {"directed_by", "directed by"},
        {"/film/film/genre", "genre"},
        {"/a/b./c/d_e", "d e"},
        {"http://example.org/bornIn", "born in"},
        {"http://example.org/ns#memberOf", "member of"},
        {"http://example.org/genre/", "genre"},
        {"ISO_code", "ISO code"},
        {"is a", "is a"},
        {"/", "/"},
    };
    for (size_t i = 0; i < SP_COUNT(pairs); i++) {
        sp_bytes out = {0};
        assert_ok(sp_name_readable(pairs[i][0], strlen(pairs[i][0]), &out));
        assert_int_equal(out.n, strlen(pairs[i][1]));
        assert_memory_equal(out.v, pairs[i][1], out.n);
        sp_vec_fini(&out);
    }
}

static void the_list_of_common_words_is_sorted(void **state)
{
    assert_true(sp_name_is_common("a", 1) && sp_name_is_common("your", 4));
    assert_true(sp_name_is_common("which", 5) && sp_name_is_common("it", 2));
    assert_true(sp_name_is_common("list", 4) && sp_name_is_common("so", 2));
    assert_false(sp_name_is_common("film", 4) || sp_name_is_common("th", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_ignore_case_and_punctuation),
        cmocka_unit_test(accents_may_be_characters_of_their_own),
        cmocka_unit_test(names_without_capitals_get_some),
        cmocka_unit_test(words_know_their_places),
        cmocka_unit_test(inflected_words_are_alike),
        cmocka_unit_test(distance_counts_edits_and_swaps),
        cmocka_unit_test(relations_become_readable),
        cmocka_unit_test(the_list_of_common_words_is_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
