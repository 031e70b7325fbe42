/* test_bpe.c -- byte-level BPE: words, merges, and unusual texts. */
#include "tiny_vocab.h"

#include "model/tokenizer/pretokenize.h"

/* -- words ----------------------------------------------------------------------------------- */

static size_t longest_word; /* of the last text, bytes */
static size_t n_inside;     /* words that start inside a character */

/* The words of a text, each followed by '|'. */
static const char *words_limited(sp_pre_tokenizer kind, const char *text, size_t n,
                                 uint32_t match_limit)
{
    static char out[1024];
    sp_splitter *s = NULL;
    sp_split it;
    sp_text_view w;
    size_t at = 0, seen = 0;
    longest_word = n_inside = 0;
    assert_int_equal(sp_splitter_create(kind, match_limit, &s), SP_OK);
    assert_int_equal(sp_split_init(&it, s), SP_OK);
    sp_split_start(&it, text, n);
    for (bool more;;) {
        assert_int_equal(sp_split_next(&it, &w, &more), SP_OK);
        if (!more) break;
        assert_true(w.n > 0 && w.s == text + seen); /* no gap, no overlap */
        seen += w.n;
        longest_word = SP_MAX(longest_word, w.n);
        n_inside += ((uint8_t)w.s[0] & 0xC0) == 0x80;
        if (at + w.n + 2 > sizeof out) continue;
        memcpy(out + at, w.s, w.n);
        out[at + w.n] = '|';
        at += w.n + 1;
    }
    assert_int_equal(seen, n);
    out[at] = '\0';
    sp_split_fini(&it);
    sp_splitter_destroy(s);
    return out;
}

static const char *words(sp_pre_tokenizer kind, const char *text)
{
    return words_limited(kind, text, strlen(text), 0);
}

static void gpt2_words(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"Hello world", "Hello| world|"},
        {"  two  spaces ", " | two| | spaces| |"},
        {"I'm he'll DON'T", "I|'m| he|'ll| DON|'|T|"},
        {"a1234b", "a|1234|b|"},
        {"x!=  y\n\nz", "x|!=| | y|\n|\n|z|"},
        {"tab\tx", "tab|\t|x|"},
        {"!\r\n\x0B\x0Cx", "!|\r\n\x0B|\x0C|x|"},
        {"\xC3\xA9t\xC3\xA9 \xD0\xB4\xD0\xB0", "\xC3\xA9t\xC3\xA9| \xD0\xB4\xD0\xB0|"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        assert_string_equal(words(SP_PRE_GPT2, cases[i][0]), cases[i][1]);
}

/* The expressions of a pre-tokenizer apply one after the other, each to the pieces of the one before. */
static void words_of_several_steps(void **state)
{
    assert_string_equal(words(SP_PRE_FALCON, "a,b!=12345 c"), "a|,|b|!=|123|45| c|");
    assert_string_equal(words(SP_PRE_DEEPSEEK3, "x 1234\xE4\xB8\x80y"),
                        "x| |123|4|\xE4\xB8\x80|y|");
    assert_string_equal(words(SP_PRE_VIKING, "ab 12, c"), "ab| |1|2|,| c|");
    assert_string_equal(words(SP_PRE_GPT4O, "don't HTTPServer"), "don't| HTTPServer|");
    assert_string_equal(words(SP_PRE_TEKKEN, "aB don't"), "a|B| don|'t|");
    assert_string_equal(words(SP_PRE_KIMI, "ab\xE4\xB8\x80 c"), "ab|\xE4\xB8\x80| c|");
}

static void thousands_are_counted_from_the_right(void **state)
{
    assert_string_equal(words(SP_PRE_SUPERBPE, "of 1234567 to 12 1"), "of |1|234|567| to |12| |1|");
    assert_string_equal(words(SP_PRE_SUPERBPE, "\xD9\xA1\xD9\xA2\xD9\xA3\xD9\xA4"), /* of two bytes each */
                        "\xD9\xA1|\xD9\xA2\xD9\xA3\xD9\xA4|");
    char *text = malloc(300001);
    memset(text, '7', 300001);
    words_limited(SP_PRE_SUPERBPE, text, 300001, 0); /* in linear time */
    assert_int_equal(longest_word, 3);
    free(text);
}

/* Every expression compiles; names are unique and name what they are found by. */
static void every_row_splits(void **state)
{
    const sp_pre_row *row;
    for (size_t i = 0; (row = sp_pre_row_at(i)); i++) {
        assert_ptr_equal(sp_pre_find((sp_text_view){row->name, strlen(row->name)}), row);
        assert_non_null(words(row->kind, "It's a test: 12345 \xC3\xA9\xE4\xB8\x80!\n\n  x"));
    }
    assert_null(sp_pre_find((sp_text_view){"gpt-2x", 6}));
    for (int kind = 0; kind < SP_PRE_N; kind++) {
        sp_pre_tokenizer found;
        size_t n = 0;
        while (n < SP_PRE_MAX_STEPS && sp_pre_steps((sp_pre_tokenizer)kind)[n]) n++;
        assert_true(sp_pre_from_steps(sp_pre_steps((sp_pre_tokenizer)kind), n, &found) &&
                    (int)found == kind);
        assert_true(n == 1 ||
                    !sp_pre_from_steps(sp_pre_steps((sp_pre_tokenizer)kind) + 1, n - 1, &found) ||
                    (int)found != kind);
    }
}

/* Each digit is a word, and the text before one is split as if it ended there. */
static void smollm_words(void **state)
{
    assert_string_equal(words(SP_PRE_SMOLLM, "a1234  5 b"), "a|1|2|3|4|  |5| b|");
    assert_string_equal(words(SP_PRE_SMOLLM, "it's  two"), "it|'s| | two|");
}

static void modern_words(void **state)
{
    static const char *const cases[][3] = {
        /* text, llama-3, qwen2 */
        {"a1234b", "a|123|4|b|", "a|1|2|3|4|b|"},
        {"DON'T he'LL", "DON|'T| he|'LL|", "DON|'T| he|'LL|"},
        {"(word) .x\n", "(word|)| .|x|\n|", "(word|)| .|x|\n|"},
        {"end.\n\n  next", "end|.\n\n| | next|", "end|.\n\n| | next|"},
        {"a \n \n b", "a| \n \n| b|", "a| \n \n| b|"},
        {"    x", "   | x|", "   | x|"},
        {"x   ", "x|   |", "x|   |"},
        {"\r\n\r\n", "\r\n\r\n|", "\r\n\r\n|"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        assert_string_equal(words(SP_PRE_LLAMA3, cases[i][0]), cases[i][1]);
        assert_string_equal(words(SP_PRE_QWEN2, cases[i][0]), cases[i][2]);
    }
}

/* Exactly White_Space: U+3000 is a space, U+180E and U+200B are not. */
static void spaces_of_unicode(void **state)
{
    assert_string_equal(words(SP_PRE_GPT2, "a\xE3\x80\x80\xE3\x80\x80"
                                           "b"),
                        "a|\xE3\x80\x80|\xE3\x80\x80|b|");
    assert_string_equal(words(SP_PRE_GPT2, "a\xE1\xA0\x8E!"), "a|\xE1\xA0\x8E!|");
    assert_string_equal(words(SP_PRE_LLAMA3, "a\xE2\x80\x8B!"), "a|\xE2\x80\x8B!|");
}

static void bad_bytes_are_words(void **state)
{
    static const char text[] = "ab\xFF\xFE"
                               "c\xE2\x82 d\xED\xA0\x80";
    assert_string_equal(words_limited(SP_PRE_GPT2, text, sizeof text - 1, 0),
                        "ab|\xFF|\xFE|c|\xE2|\x82| d|\xED|\xA0|\x80|");
    assert_string_equal(words_limited(SP_PRE_GPT2, "a\0b", 3, 0), "a|"); /* seen as C text */
}

/* With a limit that every match hits, the whole text is still split, at character borders. */
static void limits_cut_by_force(void **state)
{
    const size_t letters = 9000, n = 21000;
    char *text = malloc(n);
    for (size_t i = 0; i < n; i += 3) memcpy(text + i, "\xE0\xB8\x81", 3); /* a Thai letter */
    memset(text + letters, ' ', n - 2 * letters);
    for (int kind = SP_PRE_GPT2; kind <= SP_PRE_SMOLLM; kind++) {
        words_limited((sp_pre_tokenizer)kind, text, n, 0);
        assert_int_equal(longest_word, letters + 1); /* with the last space before them */
        words_limited((sp_pre_tokenizer)kind, text, n, 1);
        assert_in_range(longest_word, 4000, 4096);
        assert_int_equal(n_inside, 0);
    }
    free(text);
}

/* -- merges ---------------------------------------------------------------------------------- */

static void lowest_rank_first(void **state)
{
    static char made[8][32];
    tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    int32_t bc = tv_merge(&v, "b c", made[0]), ab = tv_merge(&v, "a b", made[1]);
    int32_t abc = tv_merge(&v, "a bc", made[2]);
    tv_merge(&v, "ab c", made[3]); /* never reached in "abc": bc is made first */
    sp_tokenizer *t = tv_create(&v);
    const int32_t want[] = {abc, ab, 'x', bc, 'c'};
    tv_expect(t, "abcabxbcc", 0, want, SP_COUNT(want));
    sp_tokenizer_destroy(t);
}

static void leftmost_of_equals(void **state)
{
    static char made[8][32];
    tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    int32_t aa = tv_merge(&v, "a a", made[0]), aaaa = tv_merge(&v, "aa aa", made[1]);
    sp_tokenizer *t = tv_create(&v);
    tv_expect(t, "aaa", 0, (int32_t[]){aa, 'a'}, 2);
    tv_expect(t, "aaaaaaa", 0, (int32_t[]){aaaa, aa, 'a'}, 3);
    sp_tokenizer_destroy(t);
}

static void first_of_equal_merges(void **state)
{
    static char made[8][32];
    tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    int32_t ab = tv_merge(&v, "a b", made[0]);
    tv_merge(&v, "b c", made[1]);
    tv_merge(&v, "a b", made[2]);
    sp_tokenizer *t = tv_create(&v);
    tv_expect(t, "abc", 0, (int32_t[]){ab, 'c'}, 2);
    sp_tokenizer_destroy(t);
}

/* Of tokens of one text, the first is the one that texts get. */
static void first_of_equal_tokens(void **state)
{
    static char made[8][32];
    tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    tv_add(&v, "a", SP_TOKEN_NORMAL, 0);
    int32_t ab = tv_merge(&v, "a b", made[0]);
    tv_add(&v, "ab", SP_TOKEN_NORMAL, 0);
    for (int whole = 0; whole < 2; whole++) {
        v.spec.ignore_merges = whole;
        sp_tokenizer *t = tv_create(&v);
        tv_expect(t, "a!ab", 0, (int32_t[]){'a', '!', ab}, 3);
        sp_tokenizer_destroy(t);
    }
}

/* What a user writes is text, even if the vocabulary can merge it to a control token. */
static void no_merge_makes_a_control_token(void **state)
{
    static char made[8][32];
    tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    v.types[tv_merge(&v, "< |", made[0])] = SP_TOKEN_CONTROL;
    sp_tokenizer *t = tv_create(&v);
    tv_expect(t, "<|", 0, (int32_t[]){'<', '|'}, 2);
    tv_expect(t, "<|", SP_TOK_SPECIAL, (int32_t[]){256}, 1);
    sp_tokenizer_destroy(t);
}

static void merges_stay_in_words(void **state)
{
    static char made[8][32];
    tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    tv_merge(&v, "a !", made[0]);
    sp_tokenizer *t = tv_create(&v);
    tv_expect(t, "a!", 0, (int32_t[]){'a', '!'}, 2);
    sp_tokenizer_destroy(t);
}

static void whole_words_before_merges(void **state)
{
    static char made[8][32];
    tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    v.spec.pre = SP_PRE_LLAMA3;
    int32_t ab = tv_merge(&v, "a b", made[0]), xab = tv_add(&v, "xab", SP_TOKEN_NORMAL, 0);
    tv_add(&v, "zab", SP_TOKEN_CONTROL, 0);
    sp_tokenizer *t = tv_create(&v);
    tv_expect(t, "xab", 0, (int32_t[]){'x', ab}, 2);
    sp_tokenizer_destroy(t);
    v.spec.ignore_merges = true;
    t = tv_create(&v);
    tv_expect(t, "xab", 0, (int32_t[]){xab}, 1);
    tv_expect(t, "zab", 0, (int32_t[]){'z', ab}, 2); /* a control token is not a word */
    sp_tokenizer_destroy(t);
}

/* The definition, in quadratic time: merge the leftmost pair of lowest rank until none is left. */
static size_t merge_plainly(const tiny_vocab *v, const int32_t *rank, int32_t *ids, size_t n)
{
    for (;;) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i + 1 < n; i++) {
            int32_t r = rank[(size_t)ids[i] * TINY_MAX + (size_t)ids[i + 1]];
            if (r >= 0 && (best == SIZE_MAX ||
                           r < rank[(size_t)ids[best] * TINY_MAX + (size_t)ids[best + 1]]))
                best = i;
        }
        if (best == SIZE_MAX) return n;
        ids[best] = 256 + rank[(size_t)ids[best] * TINY_MAX + (size_t)ids[best + 1]];
        memmove(ids + best + 1, ids + best + 2, (n - best - 2) * sizeof *ids);
        n--;
    }
}

static void random_merges_as_defined(void **state)
{
    static char rules[40][64], made[40][32];
    int32_t *rank = malloc(sizeof *rank * TINY_MAX * TINY_MAX);
    for (uint32_t seed = 1; seed <= 30; seed++) {
        uint32_t rng = seed;
        tiny_vocab v;
        tv_begin(&v, false);
        tv_bytes(&v);
        memset(rank, -1, sizeof *rank * TINY_MAX * TINY_MAX);
        for (int k = 0; k < 40;) { /* of two earlier tokens that form a new text */
            int32_t pair[2];
            for (int i = 0; i < 2; i++) {
                uint32_t pick = tv_random(&rng) % (unsigned)(3 + k);
                pair[i] = pick < 3 ? (int32_t)('a' + pick) : (int32_t)(256 + pick - 3);
            }
            sp_text_view l = v.tokens[pair[0]], r = v.tokens[pair[1]];
            if (l.n + r.n > 20) continue;
            snprintf(rules[k], sizeof rules[k], "%s %s", l.s, r.s);
            size_t before = v.spec.n_tokens;
            tv_merge(&v, rules[k], made[k]);
            if (v.spec.n_tokens == before) {
                v.spec.n_merges--;
                continue;
            }
            rank[(size_t)pair[0] * TINY_MAX + (size_t)pair[1]] = k++;
        }
        sp_tokenizer *t = tv_create(&v);
        for (int run = 0; run < 50; run++) {
            char text[64];
            int32_t want[64];
            size_t n = 1 + tv_random(&rng) % 62;
            for (size_t i = 0; i < n; i++) want[i] = text[i] = (char)('a' + tv_random(&rng) % 3);
            text[n] = '\0';
            tv_expect(t, text, 0, want, merge_plainly(&v, rank, want, n));
        }
        sp_tokenizer_destroy(t);
    }
    free(rank);
}

/* -- unusual texts --------------------------------------------------------------------------- */

static void every_byte_comes_back(void **state)
{
    static char made[2][32];
    char text[4096];
    uint32_t rng = 5;
    tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    tv_merge(&v, "a b", made[0]);
    sp_tokenizer *t = tv_create(&v);
    for (int b = 0; b < 256; b++) text[b] = (char)b;
    tv_round_trip(t, text, 256);
    for (int run = 0; run < 200; run++) {
        size_t n = tv_random(&rng) % sizeof text;
        for (size_t i = 0; i < n; i++) text[i] = (char)tv_random(&rng);
        tv_round_trip(t, text, n);
    }
    sp_tokenizer_destroy(t);
}

static void long_words(void **state)
{
    static char made[20][32], rules[20][64];
    tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    strcpy(rules[0], "a a");
    tv_merge(&v, rules[0], made[0]);
    for (int i = 1; i < 4; i++) {
        snprintf(rules[i], sizeof rules[i], "%.31s %.31s", made[i - 1], made[i - 1]);
        tv_merge(&v, rules[i], made[i]);
    }
    sp_tokenizer *t = tv_create(&v);
    const size_t n = 100000;
    const char letters[] = {'a', ' ', '\n', '!', '7', (char)0xFF};
    char *text = malloc(n);
    for (size_t k = 0; k < sizeof letters; k++) {
        sp_tokens ids = {0};
        memset(text, letters[k], n);
        assert_int_equal(sp_tokenizer_encode(t, text, n, 0, &ids), SP_OK);
        assert_int_equal(ids.n, letters[k] == 'a' ? n / 16 : n);
        sp_vec_fini(&ids);
        tv_round_trip(t, text, n);
    }
    free(text);
    sp_tokenizer_destroy(t);
}

/* A vocabulary that lacks some bytes: they become unk, or nothing. */
static void missing_bytes(void **state)
{
    static char made[1][32];
    tiny_vocab v;
    tv_begin(&v, false);
    tv_add(&v, "a", SP_TOKEN_NORMAL, 0);
    tv_add(&v, "b", SP_TOKEN_NORMAL, 0);
    tv_merge(&v, "a b", made[0]);
    sp_tokenizer *t = tv_create(&v);
    assert_string_equal(tv_ids(t, "axb", 0), "2");
    sp_tokenizer_destroy(t);
    v.spec.marks.unk = tv_add(&v, "<unk>", SP_TOKEN_UNKNOWN, 0);
    t = tv_create(&v);
    assert_string_equal(tv_ids(t, "axb", 0), "0 3 1");
    sp_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_words),
        cmocka_unit_test(smollm_words),
        cmocka_unit_test(words_of_several_steps),
        cmocka_unit_test(thousands_are_counted_from_the_right),
        cmocka_unit_test(every_row_splits),
        cmocka_unit_test(modern_words),
        cmocka_unit_test(spaces_of_unicode),
        cmocka_unit_test(bad_bytes_are_words),
        cmocka_unit_test(limits_cut_by_force),
        cmocka_unit_test(lowest_rank_first),
        cmocka_unit_test(leftmost_of_equals),
        cmocka_unit_test(first_of_equal_merges),
        cmocka_unit_test(first_of_equal_tokens),
        cmocka_unit_test(no_merge_makes_a_control_token),
        cmocka_unit_test(merges_stay_in_words),
        cmocka_unit_test(whole_words_before_merges),
        cmocka_unit_test(random_merges_as_defined),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(long_words),
        cmocka_unit_test(missing_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
