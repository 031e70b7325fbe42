/* test_spm.c -- SentencePiece BPE: scores, the dummy space, byte fallback. */
#include "tiny_vocab.h"

#define SP "\xE2\x96\x81" /* U+2581 */

enum { UNK, BOS, EOS, BYTE0, AFTER = BYTE0 + 256 };

static char byte_names[256][8];

/* <unk> <s> </s>, the bytes, then the tokens of the test. */
static void begin(tiny_vocab *v)
{
    tv_begin(v, true);
    v->spec.marks.unk = tv_add(v, "<unk>", SP_TOKEN_UNKNOWN, 0);
    v->spec.marks.bos = tv_add(v, "<s>", SP_TOKEN_CONTROL, 0);
    v->spec.marks.eos = tv_add(v, "</s>", SP_TOKEN_CONTROL, 0);
    v->spec.marks.add_bos = true;
    for (int b = 0; b < 256; b++) {
        snprintf(byte_names[b], sizeof byte_names[b], "<0x%02X>", b);
        tv_add(v, byte_names[b], SP_TOKEN_BYTE, 0);
    }
}

enum { SPACE_ = AFTER, A, B, C, AB, BC, SPACE_A, SPACE_AB, U_UML };

static void fill(tiny_vocab *v)
{
    begin(v);
    tv_add(v, SP, SP_TOKEN_NORMAL, -10);
    tv_add(v, "a", SP_TOKEN_NORMAL, -11);
    tv_add(v, "b", SP_TOKEN_NORMAL, -12);
    tv_add(v, "c", SP_TOKEN_NORMAL, -13);
    tv_add(v, "ab", SP_TOKEN_NORMAL, -2);
    tv_add(v, "bc", SP_TOKEN_NORMAL, -1);
    tv_add(v, SP "a", SP_TOKEN_NORMAL, -3);
    tv_add(v, SP "ab", SP_TOKEN_NORMAL, -4);
    tv_add(v, "\xC3\xBC", SP_TOKEN_NORMAL, -14);
}

#define EXPECT(t, text, flags, ...)                                                                \
    do {                                                                                           \
        const int32_t want_ids[] = {__VA_ARGS__};                                                  \
        tv_expect(t, text, flags, want_ids, SP_COUNT(want_ids));                                   \
    } while (0)

static void highest_score_first(void **state)
{
    tiny_vocab v;
    fill(&v);
    sp_tokenizer *t = tv_create(&v);
    EXPECT(t, "ab", 0, SPACE_AB);     /* ab (-2) before _a (-3), then _ab */
    EXPECT(t, "abc", 0, SPACE_A, BC); /* bc (-1) first: no ab is left */
    EXPECT(t, "a b", 0, SPACE_A, SPACE_, B);
    EXPECT(t, "\xC3\xBC", 0, SPACE_, U_UML);
    sp_tokenizer_destroy(t);
}

static void leftmost_of_equal_scores(void **state)
{
    tiny_vocab v;
    begin(&v);
    v.spec.words.add_space_prefix = false;
    int32_t x = tv_add(&v, "x", SP_TOKEN_NORMAL, -5), xx = tv_add(&v, "xx", SP_TOKEN_NORMAL, -1);
    sp_tokenizer *t = tv_create(&v);
    EXPECT(t, "xxx", 0, xx, x);
    EXPECT(t, "xxxxx", 0, xx, xx, x);
    sp_tokenizer_destroy(t);
}

static void bytes_and_unused_tokens_are_their_texts(void **state)
{
    tiny_vocab v;
    sp_bytes out = {0};
    begin(&v);
    v.spec.words.add_space_prefix = false;
    tv_add(&v, "<0x41>", SP_TOKEN_BYTE, 0); /* again */
    int32_t unused = tv_add(&v, SP "q", SP_TOKEN_UNUSED, 0);
    sp_tokenizer *t = tv_create(&v);
    EXPECT(t, "A", 0, BYTE0 + 0x41);
    assert_int_equal(sp_tokenizer_piece(t, unused, false, &out), SP_OK);
    assert_int_equal(out.n, 2);
    assert_memory_equal(out.v, " q", 2);
    sp_vec_fini(&out);
    sp_tokenizer_destroy(t);
}

/* llama.cpp: a dummy space at the start and after each special token, none for an empty text. */
static void dummy_space(void **state)
{
    tiny_vocab v;
    fill(&v);
    sp_tokenizer *t = tv_create(&v);
    const unsigned special = SP_TOK_SPECIAL;
    tv_expect(t, "", 0, NULL, 0);
    EXPECT(t, "", SP_TOK_BOS, BOS);
    EXPECT(t, "a", SP_TOK_BOS, BOS, SPACE_A);
    EXPECT(t, " a", 0, SPACE_, SPACE_A);
    EXPECT(t, "a</s>a", special, SPACE_A, EOS, SPACE_A);
    EXPECT(t, "</s></s> a", special, EOS, EOS, SPACE_, SPACE_A);
    EXPECT(t, "a", SP_TOK_JOINED, A);
    EXPECT(t, "a</s>a", special | SP_TOK_JOINED, A, EOS, SPACE_A);
    sp_tokenizer_destroy(t);

    v.spec.words.prefix_first_only = true;
    t = tv_create(&v);
    EXPECT(t, "a</s>a", special, SPACE_A, EOS, A);
    EXPECT(t, "</s>a", special, EOS, A);
    sp_tokenizer_destroy(t);

    v.spec.words.prefix_unless_space = true;
    t = tv_create(&v);
    EXPECT(t, " a", 0, SPACE_A);
    EXPECT(t, SP "a", 0, SPACE_A);
    sp_tokenizer_destroy(t);

    v.spec.words.add_space_prefix = false;
    t = tv_create(&v);
    EXPECT(t, "a", 0, A);
    sp_tokenizer_destroy(t);
}

static void bytes_for_the_rest(void **state)
{
    static const char mixed[] = "\xFF\0\xE2\x82";
    tiny_vocab v;
    fill(&v);
    sp_tokenizer *t = tv_create(&v);
    EXPECT(t, "\xE2\x82\xAC", SP_TOK_JOINED, BYTE0 + 0xE2, BYTE0 + 0x82, BYTE0 + 0xAC);
    EXPECT(t, "a\n", 0, SPACE_A, BYTE0 + '\n');
    assert_string_equal(tv_ids_n(t, mixed, 4, SP_TOK_JOINED), "258 3 229 133");
    sp_tokenizer_destroy(t);

    v.types[BYTE0 + 0x82] = SP_TOKEN_NORMAL; /* one byte of the character has no token: unk */
    t = tv_create(&v);
    EXPECT(t,
           "\xE2\x82\xAC"
           "a",
           SP_TOK_JOINED, UNK, A);
    sp_tokenizer_destroy(t);
}

static void unknown_characters(void **state)
{
    tiny_vocab v;
    tv_begin(&v, true);
    v.spec.words.add_space_prefix = false;
    v.spec.marks.unk = tv_add(&v, "<unk>", SP_TOKEN_UNKNOWN, 0);
    int32_t a = tv_add(&v, "a", SP_TOKEN_NORMAL, -1);
    sp_tokenizer *t = tv_create(&v);
    EXPECT(t, "xya", 0, UNK, UNK, a);
    sp_tokenizer_destroy(t);
    v.spec.words.fuse_unk = true;
    t = tv_create(&v);
    EXPECT(t, "xyaz", 0, UNK, a, UNK);
    EXPECT(t, "xy z", 0, UNK); /* the space, too */
    sp_tokenizer_destroy(t);
    v.spec.words.split_words = true;
    t = tv_create(&v);
    EXPECT(t, "xy z", 0, UNK, UNK); /* one a word */
    sp_tokenizer_destroy(t);
    v.spec.marks.unk = -1;
    t = tv_create(&v);
    EXPECT(t, "xyaz", 0, a);
    sp_tokenizer_destroy(t);
}

/* Merging never produces a control token, even if its text occurs. */
static void no_control_token_from_text(void **state)
{
    tiny_vocab v;
    fill(&v);
    v.spec.words.add_space_prefix = false;
    static const char *const parts[] = {"<", "s", ">", "<s"};
    int32_t ids[4];
    for (int i = 0; i < 4; i++) ids[i] = tv_add(&v, parts[i], SP_TOKEN_NORMAL, -1);
    sp_tokenizer *t = tv_create(&v);
    EXPECT(t, "<s>", 0, ids[3], ids[2]);
    EXPECT(t, "<s>", SP_TOK_SPECIAL, BOS);
    sp_tokenizer_destroy(t);
}

static void words_apart(void **state)
{
    tiny_vocab v;
    fill(&v);
    int32_t crossing = tv_add(&v, "b" SP "a", SP_TOKEN_NORMAL, -0.5f);
    tv_add(&v, "b" SP, SP_TOKEN_NORMAL, -0.5f);
    sp_tokenizer *t = tv_create(&v);
    EXPECT(t, "b a", 0, SPACE_, crossing);
    sp_tokenizer_destroy(t);
    v.spec.words.split_words = true;
    t = tv_create(&v);
    EXPECT(t, "b a", 0, SPACE_, B, SPACE_A);
    sp_tokenizer_destroy(t);
}

/* Without scores, merging follows the ranks of the merges, as in tokenizer.json. */
static void merges_instead_of_scores(void **state)
{
    tiny_vocab v;
    static const char *const rules[] = {"a b", "b c", SP " a", SP " ab"};
    fill(&v);
    v.spec.scores = NULL;
    for (size_t i = 0; i < SP_COUNT(rules); i++)
        v.merges[v.spec.n_merges++] = (sp_text_view){rules[i], strlen(rules[i])};
    sp_tokenizer *t = tv_create(&v);
    EXPECT(t, "abc", 0, SPACE_AB, C);
    sp_tokenizer_destroy(t);
}

static void every_text_comes_back(void **state)
{
    char text[2048];
    uint32_t rng = 11;
    tiny_vocab v;
    fill(&v);
    sp_tokenizer *t = tv_create(&v);
    for (int run = 0; run < 300; run++) {
        size_t n = tv_random(&rng) % sizeof text;
        for (size_t i = 0; i < n; i++) {
            uint32_t r = tv_random(&rng);
            text[i] = run % 2 ? (char)r : " abc"[r % 4];
        }
        tv_round_trip(t, text, n);
    }
    sp_tokenizer_destroy(t);
}

static void long_runs(void **state)
{
    const size_t n = 100000;
    tiny_vocab v;
    begin(&v);
    v.spec.words.add_space_prefix = false;
    tv_add(&v, "a", SP_TOKEN_NORMAL, -5);
    tv_add(&v, "aa", SP_TOKEN_NORMAL, -4);
    tv_add(&v, "aaaa", SP_TOKEN_NORMAL, -3);
    sp_tokenizer *t = tv_create(&v);
    char *text = malloc(n);
    for (int k = 0; k < 3; k++) {
        sp_tokens ids = {0};
        memset(text, "a\n "[k], n);
        assert_int_equal(sp_tokenizer_encode(t, text, n, 0, &ids), SP_OK);
        assert_int_equal(ids.n, k == 0   ? n / 4
                                : k == 1 ? n
                                         : 3 * n); /* a space is the bytes of U+2581 */
        sp_vec_fini(&ids);
    }
    free(text);
    sp_tokenizer_destroy(t);
}

static void bad_files(void **state)
{
    tiny_vocab v;
    sp_tokenizer *t = NULL;
    fill(&v);
    v.tokens[BYTE0 + 7] = (sp_text_view){"<0xZZ>", 6};
    assert_int_equal(sp_tokenizer_create(&v.spec, &t), SP_E_FORMAT);
    assert_non_null(strstr(sp_error_detail(), "tiny: tokens[10] is a byte token"));
    fill(&v);
    v.tokens[BYTE0 + 8] = (sp_text_view){"<0x08)", 6};
    assert_int_equal(sp_tokenizer_create(&v.spec, &t), SP_E_FORMAT);
    assert_non_null(strstr(sp_error_detail(), "tiny: tokens[11] is a byte token"));
    fill(&v);
    v.scores[5] = (float)(0.0 / 0.0);
    assert_int_equal(sp_tokenizer_create(&v.spec, &t), SP_E_FORMAT);
    assert_non_null(strstr(sp_error_detail(), "tiny: scores[5]"));
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(highest_score_first),
        cmocka_unit_test(leftmost_of_equal_scores),
        cmocka_unit_test(bytes_and_unused_tokens_are_their_texts),
        cmocka_unit_test(dummy_space),
        cmocka_unit_test(bytes_for_the_rest),
        cmocka_unit_test(unknown_characters),
        cmocka_unit_test(no_control_token_from_text),
        cmocka_unit_test(words_apart),
        cmocka_unit_test(merges_instead_of_scores),
        cmocka_unit_test(every_text_comes_back),
        cmocka_unit_test(long_runs),
        cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
