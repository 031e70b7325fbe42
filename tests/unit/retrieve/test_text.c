/* Characters, words, sentences and Markdown blocks: the small rules that cutting stands on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "retrieve/text/text.h"

static void utf8_accepts_only_well_formed_text(void **state)
{
    static const struct {
        const char *s;
        size_t n;
        bool valid;
    } cases[] = {
        {"", 0, true},
        {"plain", 5, true},
        {"a\0b", 3, true},
        {"\xC3\xA9", 2, true},         /* e acute */
        {"\xE2\x82\xAC", 3, true},     /* euro */
        {"\xF0\x9F\x98\x80", 4, true}, /* emoji */
        {"\xF4\x8F\xBF\xBF", 4, true}, /* U+10FFFF */
        {"\xED\x9F\xBF", 3, true},     /* just below the surrogates */
        {"\x80", 1, false},            /* continuation alone */
        {"\xC3", 1, false},            /* cut short */
        {"\xE2\x82", 2, false},
        {"\xF0\x9F\x98", 3, false},
        {"\xC0\xAF", 2, false}, /* overlong */
        {"\xE0\x80\xAF", 3, false},
        {"\xF0\x80\x80\xAF", 4, false},
        {"\xED\xA0\x80", 3, false},     /* surrogate */
        {"\xF4\x90\x80\x80", 4, false}, /* over U+10FFFF */
        {"\xF5\x80\x80\x80", 4, false},
        {"\xFF", 1, false},
        {"ok \xE2\x28\xA1", 6, false},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        if (sp_utf8_valid(cases[i].s, cases[i].n) != cases[i].valid)
            fail_msg("case %zu should be %s", i, cases[i].valid ? "valid" : "invalid");
}

static int64_t words(const char *s)
{
    return sp_count_words(s, 0, strlen(s));
}

static void words_are_runs_ideographs_or_64_bytes(void **state)
{
    assert_int_equal(words(""), 0);
    assert_int_equal(words(" \t\r\n "), 0);
    assert_int_equal(words("one"), 1);
    assert_int_equal(words("  two\nwords\t"), 2);
    assert_int_equal(words("caf\xC3\xA9 na\xC3\xAFve"), 2);
    assert_int_equal(words("\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E"), 3); /* three ideographs */
    assert_int_equal(words("x\xE6\x97\xA5y"), 3);                   /* they end runs of others */
    assert_int_equal(words("\xF0\xA0\x80\x80\xF0\xA0\x80\x81"), 2); /* beyond the first plane */

    char url[3 * SP_WORD_BYTES + 2];
    memset(url, 'u', sizeof url);
    assert_int_equal(sp_count_words(url, 0, SP_WORD_BYTES), 1);
    assert_int_equal(sp_count_words(url, 0, SP_WORD_BYTES + 1), 2);
    assert_int_equal(sp_count_words(url, 0, sizeof url), 4);
}

static void a_long_word_is_cut_between_characters(void **state)
{
    char thai[3 * 60]; /* U+0E01, three bytes each, no blank */
    for (size_t i = 0; i < sizeof thai; i += 3) memcpy(thai + i, "\xE0\xB8\x81", 3);
    for (size_t at = 0; at < sizeof thai;) {
        size_t end = sp_word_end(thai, at, sizeof thai);
        assert_true(end > at);
        assert_int_equal(end % 3, 0);
        at = end;
    }
}

/* Cuts text at its sentences and writes them with bars between. */
static void assert_sentences(const char *text, const char *expected)
{
    char got[1024];
    size_t n = 0, to = strlen(text);
    for (size_t at = sp_skip_blanks(text, 0, to); at < to; at = sp_skip_blanks(text, at, to)) {
        size_t end = sp_sentence_end(text, at, to);
        assert_true(end > at && end <= to);
        if (n) got[n++] = '|';
        memcpy(got + n, text + at, end - at);
        n += end - at;
        at = end;
    }
    got[n] = '\0';
    assert_string_equal(got, expected);
}

static void sentences_end_at_their_marks(void **state)
{
    assert_sentences("One. Two! Three? Four", "One.|Two!|Three?|Four");
    assert_sentences("What?! Yes... No.", "What?!|Yes...|No.");
    assert_sentences("One\xE2\x80\xA6 Two\xE2\x80\xA6 three.", "One\xE2\x80\xA6|Two\xE2\x80\xA6 three.");
    assert_sentences("A line\nbreak is no end. This is.", "A line\nbreak is no end.|This is.");
    assert_sentences("He said \"Stop.\" Then he left.", "He said \"Stop.\"|Then he left.");
    assert_sentences("(In brackets.) Outside.", "(In brackets.)|Outside.");
    assert_sentences("**Note.** Read on.", "**Note.**|Read on.");
    assert_sentences("\xE2\x80\x9CGo.\xE2\x80\x9D She went.",
                     "\xE2\x80\x9CGo.\xE2\x80\x9D|She went.");
    assert_sentences("\xC3\x89t\xC3\xA9. \xC3\x89t\xC3\xA9.",
                     "\xC3\x89t\xC3\xA9.|\xC3\x89t\xC3\xA9.");
}

static void sentences_do_not_end_at_abbreviations(void **state)
{
    assert_sentences("Dr. Smith met Mrs. Jones. They spoke.",
                     "Dr. Smith met Mrs. Jones.|They spoke.");
    assert_sentences("J. R. R. Tolkien wrote. We read.", "J. R. R. Tolkien wrote.|We read.");
    assert_sentences("The U.S. Army came. It left.", "The U.S. Army came.|It left.");
    assert_sentences("Fruits, e.g. Apples, are good. Eat.", "Fruits, e.g. Apples, are good.|Eat.");
    assert_sentences("See (cf. Miller) there. Ok.", "See (cf. Miller) there.|Ok.");
    assert_sentences("It cost 3.14 dollars, v1.2 too. Cheap.",
                     "It cost 3.14 dollars, v1.2 too.|Cheap.");
    assert_sentences("Yahoo! was big. Is it?", "Yahoo! was big.|Is it?");
    assert_sentences("We saw Dr... Then we left.", "We saw Dr...|Then we left."); /* no abbreviation */
    assert_sentences("He met \"Dr. Who\" today. Ok.", "He met \"Dr. Who\" today.|Ok.");
    assert_sentences("Wait ... what? Yes.", "Wait ... what?|Yes.");
    assert_sentences("1. First step. 2. Not at the start.", "1. First step.|2. Not at the start.");
    assert_sentences("999. The last. 2014. A year.", "999. The last.|2014.|A year.");
    assert_sentences("It was in 1914. The war began.", "It was in 1914.|The war began.");
    assert_sentences("Fig. 3 shows No. 5. Look.", "Fig. 3 shows No. 5.|Look.");
    assert_sentences("He said no. Then yes.", "He said no.|Then yes.");
}

static void full_width_marks_need_no_blank(void **state)
{
    assert_sentences("\xE6\x98\xAF\xE3\x80\x82\xE4\xB8\x8D\xEF\xBC\x81\xE5\x90\x97",
                     "\xE6\x98\xAF\xE3\x80\x82|\xE4\xB8\x8D\xEF\xBC\x81|\xE5\x90\x97");
    assert_sentences(
        "\xE6\x98\xAF\xE3\x80\x82\xE3\x80\x8D\xE4\xB8\x8D",
        "\xE6\x98\xAF\xE3\x80\x82\xE3\x80\x8D|\xE4\xB8\x8D"); /* closing bracket stays */
}

/* Writes a letter for each block: H(eading words), T(ext), L(ines). */
static void assert_blocks(const char *text, sp_syntax syntax, const char *expected)
{
    char got[1024];
    size_t n = 0, to = strlen(text);
    sp_block b = {0};
    while (sp_block_next(text, to, b.to, syntax, &b)) {
        assert_true(b.to > b.from);
        got[n++] = b.kind == SP_BLOCK_HEADING ? 'H' : b.kind == SP_BLOCK_TEXT ? 'T' : 'L';
        if (b.kind != SP_BLOCK_HEADING) continue;
        n += (size_t)snprintf(got + n, sizeof got - n, "(%.*s)",
                              (int)(b.heading_to - b.heading_from), text + b.heading_from);
    }
    got[n] = '\0';
    assert_string_equal(got, expected);
}

static void blocks_of_plain_text_are_paragraphs(void **state)
{
    assert_blocks("", SP_SYNTAX_PLAIN, "");
    assert_blocks(" \n\t\n", SP_SYNTAX_PLAIN, "");
    assert_blocks("a\nb\n\nc", SP_SYNTAX_PLAIN, "TT");
    assert_blocks("# no heading\n\n```\n\nx\n```", SP_SYNTAX_PLAIN, "TTT");
    assert_blocks("a\r\n\r\nb\r\n", SP_SYNTAX_PLAIN, "TT");
}

static void blocks_of_markdown(void **state)
{
    assert_blocks("# One\ntext\n## Two ##\n", SP_SYNTAX_MARKDOWN, "H(One)TH(Two)");
    assert_blocks("####### seven\n#no blank\n    # code", SP_SYNTAX_MARKDOWN, "T");
    assert_blocks("# C#\n#\n#   \n", SP_SYNTAX_MARKDOWN, "H(C#)H()H()");
    assert_blocks("Title\n=====\nSub\n---\ntext", SP_SYNTAX_MARKDOWN, "H(Title)H(Sub)T");
    assert_blocks("a\nb\n---\n", SP_SYNTAX_MARKDOWN, "T");     /* two lines and a break */
    assert_blocks("a\n-\nb\n", SP_SYNTAX_MARKDOWN, "T");      /* no underline, and no item */
    assert_blocks("- item\n---\n", SP_SYNTAX_MARKDOWN, "T");   /* a list and a break */
    assert_blocks("a\n\n---\n\nb", SP_SYNTAX_MARKDOWN, "TTT"); /* a break alone */
    assert_blocks("x\n```c\n# no heading\n\n|\n```\ny", SP_SYNTAX_MARKDOWN, "TLT");
    assert_blocks("~~~~\n```\n~~~\n~~~~\nT", SP_SYNTAX_MARKDOWN, "LT");
    assert_blocks("```\nnever closed\n\n# x", SP_SYNTAX_MARKDOWN, "L");
    assert_blocks("```inline``` code", SP_SYNTAX_MARKDOWN, "T");
    assert_blocks("text\n| a | b |\n|---|---|\n| 1 | 2 |\nafter", SP_SYNTAX_MARKDOWN, "TLT");
    assert_blocks("---\ntitle: x\n---\n# H", SP_SYNTAX_MARKDOWN, "LH(H)");
    assert_blocks("---\ntitle: x\n...\n# H", SP_SYNTAX_MARKDOWN, "LH(H)");
    assert_blocks("---\nno header\n\ntext\n---\n", SP_SYNTAX_MARKDOWN, "TH(text)");
}

static void blocks_of_rst(void **state)
{
    assert_blocks("=====\nTitle\n=====\nSub\n---\ntext", SP_SYNTAX_RST, "H(Title)H(Sub)T");
    assert_blocks("Title\n===\n\ntext", SP_SYNTAX_RST, "TT"); /* too short */
    assert_blocks("-----\nTitle\n=====\n", SP_SYNTAX_RST, "T"); /* two marks */
    assert_blocks(".. note::\n\n   One.\n\n   Two.\n\nNext\n", SP_SYNTAX_RST, "LT"); /* with its blank lines */
}

static void blocks_of_code_are_definitions(void **state)
{
    assert_blocks("int f(void)\n{\n    x;\n\n    y;\n}\nint g;\n\nint h;\n", SP_SYNTAX_CODE, "LLL");
    assert_blocks("int f(void)\n\n{\n    x;\n}\nint g;\n", SP_SYNTAX_CODE, "LL"); /* its brace is no definition */
    assert_blocks("def f\n  x\nend\ng\n", SP_SYNTAX_CODE, "LL");
    assert_blocks("def f\n  x\nend;\ng\n", SP_SYNTAX_CODE, "LL");
    assert_blocks("def f\n  x\nendless\ng\n", SP_SYNTAX_CODE, "L");
}

static void items_are_told_from_prose(void **state)
{
    static const char *const items[] = {"- a", "* a", "+ a", "  - a", "1. a", "12) a", "999. a"};
    static const char *const prose[] = {"",      "-",         "-a",   "--- ", "1.",
                                        "1.5 l", "1914. The", "a. b", "*a* b"};
    for (size_t i = 0; i < SP_COUNT(items); i++)
        if (!sp_line_is_item(items[i], 0, strlen(items[i])))
            fail_msg("\"%s\" is an item", items[i]);
    for (size_t i = 0; i < SP_COUNT(prose); i++)
        if (sp_line_is_item(prose[i], 0, strlen(prose[i]))) fail_msg("\"%s\" is no item", prose[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_accepts_only_well_formed_text),
        cmocka_unit_test(words_are_runs_ideographs_or_64_bytes),
        cmocka_unit_test(a_long_word_is_cut_between_characters),
        cmocka_unit_test(sentences_end_at_their_marks),
        cmocka_unit_test(sentences_do_not_end_at_abbreviations),
        cmocka_unit_test(full_width_marks_need_no_blank),
        cmocka_unit_test(blocks_of_plain_text_are_paragraphs),
        cmocka_unit_test(blocks_of_markdown),
        cmocka_unit_test(blocks_of_rst),
        cmocka_unit_test(blocks_of_code_are_definitions),
        cmocka_unit_test(items_are_told_from_prose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
