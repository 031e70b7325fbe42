/* test_unigram.c -- SentencePiece unigram: the best path, unknown characters, the table of characters, spaces. */
#include "tiny_vocab.h"

#include <math.h>

#include "model/tokenizer/charsmap.h"
#include "model/tokenizer/trie.h"

#define SP "\xE2\x96\x81" /* U+2581 */

enum { PAD, EOS, UNK, SPACE_, A, B, AB, ABC, C, BCD, D, SPACE_A, N_TOKENS };

static void fill(tiny_vocab *v)
{
    tv_begin(v, true);
    v->spec.unigram = v->spec.words.fuse_unk = true;
    v->spec.words.add_space_prefix = false;
    v->spec.unk_score = -20;
    tv_add(v, "<pad>", SP_TOKEN_CONTROL, 0);
    v->spec.marks.eos = tv_add(v, "</s>", SP_TOKEN_CONTROL, 0);
    v->spec.marks.unk = tv_add(v, "<unk>", SP_TOKEN_UNKNOWN, 0);
    tv_add(v, SP, SP_TOKEN_NORMAL, -2);
    tv_add(v, "a", SP_TOKEN_NORMAL, -3);
    tv_add(v, "b", SP_TOKEN_NORMAL, -4);
    tv_add(v, "ab", SP_TOKEN_NORMAL, -5);
    tv_add(v, "abc", SP_TOKEN_NORMAL, -10);
    tv_add(v, "c", SP_TOKEN_NORMAL, -4.5);
    tv_add(v, "bcd", SP_TOKEN_NORMAL, -9);
    tv_add(v, "d", SP_TOKEN_NORMAL, -5.5);
    tv_add(v, SP "a", SP_TOKEN_NORMAL, -5);
}

static void the_largest_sum(void **state)
{
    tiny_vocab v;
    fill(&v);
    sp_tokenizer *t = tv_create(&v);
    assert_string_equal(sp_tokenizer_kind(t), "unigram");
    assert_string_equal(tv_ids(t, "ab", 0), "6");     /* -5 over -7 */
    assert_string_equal(tv_ids(t, "abc", 0), "6 8");  /* -9.5 over -10 */
    assert_string_equal(tv_ids(t, "abcd", 0), "4 9"); /* a bcd: -12; ab c d: -15 */
    assert_string_equal(tv_ids(t, " a", 0), "11"); /* equal to _ a: the token that begins first */
    assert_string_equal(tv_ids(t, "", 0), "");
    sp_tokenizer_destroy(t);
}

/* SentencePiece adds in single precision, where -3 - 1.99999988 is -5; the library of tokenizer.json in double. */
static void sums_have_the_precision_of_the_file(void **state)
{
    for (int single = 0; single < 2; single++) {
        tiny_vocab v;
        fill(&v);
        tv_add(&v, "x", SP_TOKEN_NORMAL, -3);
        tv_add(&v, "y", SP_TOKEN_NORMAL, -1.99999988f);
        tv_add(&v, "xy", SP_TOKEN_NORMAL, -5);
        v.spec.single = single;
        sp_tokenizer *t = tv_create(&v);
        assert_string_equal(tv_ids(t, "xy", 0), single ? "14" : "12 13");
        sp_tokenizer_destroy(t);
    }
}

static void unknown_characters(void **state)
{
    static char names[256][8];
    tiny_vocab v;
    fill(&v);
    sp_tokenizer *t = tv_create(&v);
    assert_string_equal(tv_ids(t, "axya", 0), "4 2 4"); /* one for the run */
    assert_string_equal(tv_ids(t, "\xFF\xE2\x96", 0), "2");
    assert_string_equal(tv_ids(t, "</s><unk>", 0),
                        "2"); /* texts of special tokens are plain text */
    sp_tokenizer_destroy(t);
    v.spec.words.fuse_unk = false;
    v.spec.unk_score =
        -1; /* better than any token: yet a character that is a token is not unknown */
    t = tv_create(&v);
    assert_string_equal(tv_ids(t, "xyb", 0), "2 2 5");
    sp_tokenizer_destroy(t);
    fill(&v);
    for (int b = 0; b < 256; b++) {
        snprintf(names[b], sizeof names[b], "<0x%02X>", b);
        tv_add(&v, names[b], SP_TOKEN_BYTE, 0);
    }
    t = tv_create(&v);
    assert_string_equal(tv_ids(t, "a\xC3\xA9z", 0), "4 207 181 134");
    tv_round_trip(t, "a\xC3\xA9z \xFF", 6);
    sp_tokenizer_destroy(t);
}

static void scores_are_numbers(void **state)
{
    tiny_vocab v;
    sp_tokenizer *t;
    fill(&v);
    v.spec.unk_score = NAN;
    assert_int_equal(sp_tokenizer_create(&v.spec, &t), SP_E_FORMAT);
    fill(&v);
    v.scores[A] = NAN;
    assert_int_equal(sp_tokenizer_create(&v.spec, &t), SP_E_FORMAT);
}

static void fewer_spaces(void **state)
{
    tiny_vocab v;
    fill(&v);
    v.spec.words.add_space_prefix = true;
    v.spec.spaces = (sp_spaces){.squeeze = true, .strip_left = true, .strip_right = true};
    sp_tokenizer *t = tv_create(&v);
    assert_string_equal(tv_ids(t, "  a   a ", 0), "11 11");
    assert_string_equal(tv_ids(t, "   ", 0), "");
    assert_string_equal(tv_ids(t, "a" SP, 0), "11 3"); /* a mark of the text is no space */
    sp_tokenizer_destroy(t);
    v.spec.spaces.strip_marks = true;
    t = tv_create(&v);
    assert_string_equal(tv_ids(t, "a" SP " " SP, 0), "11");
    sp_tokenizer_destroy(t);
    for (int left = 0; left < 2; left++) { /* one end alone */
        fill(&v);
        v.spec.spaces = (sp_spaces){.squeeze = true, .strip_left = left, .strip_right = !left};
        t = tv_create(&v);
        assert_string_equal(tv_ids(t, "  a  a  ", 0), left ? "4 11 3" : "11 11");
        sp_tokenizer_destroy(t);
    }
    fill(&v);
    v.spec.spaces = (sp_spaces){.any = true};
    t = tv_create(&v);
    assert_string_equal(tv_ids(t, "a\xE3\x80\x80" "a\xE2\x80\x8A" "a\xC2\xA0" "a\ta", 0), "4 11 11 11 11");
    assert_string_equal(tv_ids(t, "a " SP "a", 0), "4 11"); /* spaces before a mark */
    sp_tokenizer_destroy(t);
}

/* A trie that maps "x" to "ab" and "xy" to "c": units of Darts-clone, by hand. */
static size_t small_charsmap(uint8_t out[600])
{
    uint32_t units[128] = {0};
    units[0] = 0; /* the root: its children are at their bytes */
    units[0x78] = 0x78 | 1u << 8 | 0x60u << 10; /* "x" ends; its children at 0x78 ^ 0x60 = 0x18 */
    memset(out, 0, 600);
    const uint32_t n = 128;
    units[0x18] = 0x80000000u | 0; /* the value of "x": offset 0 */
    units[0x18 ^ 0x79] =
        0x79 | 1u << 8 | 0x40u << 10; /* "xy": 0x61; its value at 0x61 ^ 0x40 = 0x21 */
    units[0x21] = 0x80000000u | 3;
    out[0] = (uint8_t)(n * 4);
    out[1] = (uint8_t)(n * 4 >> 8);
    for (uint32_t i = 0; i < n; i++)
        for (int b = 0; b < 4; b++) out[4 + 4 * i + (uint32_t)b] = (uint8_t)(units[i] >> 8 * b);
    memcpy(out + 4 + 4 * n, "ab\0c", 5);
    return 4 + 4 * n + 5;
}

static void characters_are_rewritten(void **state)
{
    uint8_t blob[600];
    tiny_vocab v;
    fill(&v);
    v.spec.charsmap = (sp_text_view){(char *)blob, small_charsmap(blob)};
    sp_tokenizer *t = tv_create(&v);
    assert_string_equal(tv_ids(t, "x", 0), "6");
    assert_string_equal(tv_ids(t, "xya", 0), "8 4"); /* the longest entry */
    assert_string_equal(tv_ids(t, "xx", 0), "6 6");
    assert_string_equal(tv_ids(t, "x</s>xy", SP_TOK_SPECIAL), "6 1 8");
    sp_tokenizer_destroy(t);
}

static void any_table_is_safe(void **state)
{
    uint8_t blob[600];
    uint32_t seed = 5;
    sp_charsmap m;
    sp_text_view to;
    const size_t n = small_charsmap(blob);
    for (size_t k = 0; k < n; k++) { /* cut short: refused, or the last text is */
        uint8_t cut[600];
        memcpy(cut, blob, k);
        if (sp_charsmap_open(&m, (sp_text_view){(char *)cut, k}, "cut") != SP_OK)
            assert_non_null(strstr(sp_error_detail(), "cut: precompiled_charsmap"));
    }
    assert_int_equal(sp_charsmap_open(&m, (sp_text_view){(char *)blob, n - 1}, "open"), SP_E_FORMAT);
    blob[0]++; /* the size of the trie is one of whole units */
    assert_int_equal(sp_charsmap_open(&m, (sp_text_view){(char *)blob, n}, "odd"), SP_E_FORMAT);
    for (int round = 0; round < 20000; round++) {
        small_charsmap(blob);
        for (int k = 0; k < 40; k++) blob[4 + tv_random(&seed) % 512] = (uint8_t)tv_random(&seed);
        assert_int_equal(sp_charsmap_open(&m, (sp_text_view){(char *)blob, n}, "any"), SP_OK);
        char text[8];
        for (int k = 0; k < 8; k++) text[k] = (char)(k % 2 ? tv_random(&seed) : 'x');
        if (sp_charsmap_longest(&m, text, 8, &to))
            assert_true(to.s >= m.texts && to.s + to.n < m.texts + m.n_texts);
    }
}

/* The trie finds what comparing every key finds. */
static void all_beginnings(void **state)
{
    enum { N = 300 };
    static char texts[N][8];
    sp_trie_key keys[N], sorted[N];
    uint32_t seed = 9;
    sp_arena arena;
    sp_trie trie;
    sp_arena_init(&arena);
    for (int i = 0; i < N; i++) {
        const size_t n = tv_random(&seed) % 6;
        for (size_t k = 0; k < n; k++) texts[i][k] = (char)("ab\xFF"[tv_random(&seed) % 3]);
        keys[i] = sorted[i] = (sp_trie_key){{texts[i], n}, i};
    }
    assert_int_equal(sp_trie_build(&trie, &arena, sorted, N), SP_OK);
    for (int round = 0; round < 2000; round++) {
        char text[7];
        for (int k = 0; k < 7; k++) text[k] = (char)("ab\xFF"[tv_random(&seed) % 3]);
        uint32_t node = 0;
        for (size_t n = 1; n <= 7; n++) {
            int32_t want = -1;
            node = node || n == 1 ? sp_trie_step(&trie, node, (uint8_t)text[n - 1]) : 0;
            for (int i = N - 1; i >= 0; i--)
                if (keys[i].text.n == n && memcmp(texts[i], text, n) == 0) want = i;
            assert_int_equal(node ? trie.nodes[node].id : -1, want);
        }
    }
    sp_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_sum),   cmocka_unit_test(unknown_characters),
        cmocka_unit_test(scores_are_numbers),
        cmocka_unit_test(fewer_spaces),      cmocka_unit_test(characters_are_rewritten),
        cmocka_unit_test(any_table_is_safe), cmocka_unit_test(all_beginnings),
        cmocka_unit_test(sums_have_the_precision_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
