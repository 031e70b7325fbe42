/* test_wordpiece.c -- WordPiece: words, their pieces, and how BERT reads a text. */
#include "tiny_vocab.h"

#define MARK "\xE2\x96\x81" /* U+2581 */
#define DOT  "\xCC\x87"     /* U+0307, the dot of a dotted I */

static const sp_wordpiece bert = {
    .on = true, .clean = true, .split_cjk = true, .strip_accents = true, .lower = true, .max_chars = 100};

/* fill -- the vocabulary; the last tokens repeat earlier ones. */
static void fill(tiny_vocab *v, const sp_wordpiece *how)
{
    static const char *const pieces[] = {"un",   "##aff", "##able", "hell", "hello", "##o", "harbour", "harbours",
                                         "##s",  ".",     "`",      "中",   "文",    "a",   "##b",     "i",
                                         "##" DOT, "cafe", "мир",   "##а",  "a",     "##s"};
    tv_begin(v, false);
    v->spec.wordpiece = *how;
    tv_add(v, "[PAD]", SP_TOKEN_CONTROL, 0);
    v->spec.marks.unk = tv_add(v, "[UNK]", SP_TOKEN_UNKNOWN, 0);
    for (size_t i = 0; i < SP_COUNT(pieces); i++) tv_add(v, pieces[i], SP_TOKEN_NORMAL, 0);
}

/* gives -- a text has these tokens, with blanks between; of equal ones the first. */
static void gives(const sp_wordpiece *how, const char *text, const char *want)
{
    tiny_vocab v;
    fill(&v, how);
    sp_tokenizer *t = tv_create(&v);
    char line[2048] = "";
    size_t n = 0;
    sp_tokens ids = {0};
    assert_int_equal(sp_tokenizer_encode(t, text, strlen(text), 0, &ids), SP_OK);
    for (size_t i = 0; i < ids.n; i++) {
        const sp_text_view piece = v.tokens[ids.v[i]];
        assert_int_equal(sp_tokenizer_find(t, piece.s), ids.v[i]);
        n += (size_t)snprintf(line + n, sizeof line - n, "%s%s", i ? " " : "", piece.s);
    }
    assert_string_equal(line, want);
    sp_vec_fini(&ids);
    sp_tokenizer_destroy(t);
}

static void the_longest_piece_first(void **state)
{
    gives(&bert, "unaffable", "un ##aff ##able");
    gives(&bert, "hello harbours harbour", "hello harbours harbour");
    gives(&bert, "hellos", "hello ##s");
    gives(&bert, "hellun", "[UNK]"); /* "un" begins words only */
    gives(&bert, "unhello hello", "[UNK] hello");
    gives(&bert, "aff", "[UNK]");
    gives(&bert, "", "");
    gives(&bert, " \n ", "");
}

static void words_end_at_spaces_and_signs(void **state)
{
    gives(&bert, "hello\thello\r\nhello\xC2\xA0hello", "hello hello hello hello");
    gives(&bert, ".hello.a`a", ". hello . a ` a");
    gives(&bert, "a中文a", "a 中 文 a");
    char text[256] = "", want[256] = ""; /* words are counted one by one */
    for (int i = 0; i < 30; i++) strcat(text, i ? ".hello" : "hello"), strcat(want, i ? " . hello" : "hello");
    gives(&bert, text, want);
}

static void accents_and_case_are_removed(void **state)
{
    gives(&bert, "CAFÉ Hello", "cafe hello");
    gives(&bert, "cafe\xCC\x81", "cafe");
    gives(&bert, "a\xE1\xB7\xB6", "[UNK]"); /* U+1DF6 is younger than the models' Unicode: a letter */
    gives(&bert, "he\xC2\xADllo \x01", "hello"); /* a soft hyphen and a control character */
    gives(&bert, "\xC4\xB0", "i");
    sp_wordpiece how = bert;
    how.strip_accents = false;
    gives(&how, "\xC4\xB0", "i ##" DOT);
    gives(&how, "Caf\xC3\xA9", "[UNK]");
    how.lower = false;
    gives(&how, "hello Hello", "hello [UNK]");
    how.split_cjk = false;
    gives(&how, "中 中文", "中 [UNK]");
}

static void bytes_that_are_no_utf8_are_dropped(void **state)
{
    sp_wordpiece how = bert;
    for (int clean = 0; clean < 2; clean++) {
        how.clean = clean;
        gives(&how, "a\xFF" "b hello\xE4\xB8", "a ##b hello");
    }
}

static void a_word_has_a_longest_length_in_characters(void **state)
{
    sp_wordpiece how = bert;
    gives(&how, "мира", "мир ##а");
    how.max_chars = 3;
    gives(&how, "мир мира", "мир [UNK]");
}

/* In GGUF files the first piece has the mark. */
static void pieces_of_gguf_files(void **state)
{
    tiny_vocab v;
    sp_bytes text = {0};
    fill(&v, &bert);
    v.spec.wordpiece.marked = true;
    tv_add(&v, MARK "hell", SP_TOKEN_NORMAL, 0);
    tv_add(&v, "o", SP_TOKEN_NORMAL, 0);
    tv_add(&v, MARK "o", SP_TOKEN_NORMAL, 0);
    sp_tokenizer *t = tv_create(&v);
    const int32_t want[] = {24, 25, 26, 24, 25};
    tv_expect(t, "hello o hello", 0, want, SP_COUNT(want));
    assert_int_equal(sp_tokenizer_decode(t, want, SP_COUNT(want), false, &text), SP_OK);
    assert_int_equal(text.n, strlen("hello o hello"));
    assert_memory_equal(text.v, "hello o hello", text.n);
    sp_vec_fini(&text);
    sp_tokenizer_destroy(t);
}

static void no_unknown_token_is_an_error(void **state)
{
    tiny_vocab v;
    sp_tokenizer *t;
    fill(&v, &bert);
    v.spec.marks.unk = -1;
    assert_int_equal(sp_tokenizer_create(&v.spec, &t), SP_E_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_piece_first),
        cmocka_unit_test(words_end_at_spaces_and_signs),
        cmocka_unit_test(accents_and_case_are_removed),
        cmocka_unit_test(bytes_that_are_no_utf8_are_dropped),
        cmocka_unit_test(a_word_has_a_longest_length_in_characters),
        cmocka_unit_test(pieces_of_gguf_files),
        cmocka_unit_test(no_unknown_token_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
