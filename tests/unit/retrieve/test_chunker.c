/* How blocks become chunks: what opens one, what is kept whole, where a long block is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "retrieve/text/chunker.h"

typedef struct cut {
    char *v[256];
    char *heading[256];
    int n, fail_at;
} cut;

static sp_err take(const sp_text_chunk *c, void *user)
{
    cut *all = user;
    if (all->n == all->fail_at) return sp_fail(SP_E_CANCELED, "enough");
    assert_in_range(all->n, 0, SP_COUNT(all->v) - 1);
    all->heading[all->n] = sp_strdup_n(c->heading, c->n_heading);
    all->v[all->n++] = sp_strdup_n(c->text, c->n);
    return SP_OK;
}

static void forget(cut *c)
{
    for (int i = 0; i < c->n; i++) {
        sp_free(c->v[i]);
        sp_free(c->heading[i]);
    }
}

static void assert_texts(char *const *got, int n, va_list expected, const char *what)
{
    int i = 0;
    for (const char *e; (e = va_arg(expected, const char *)); i++) {
        if (i >= n) fail_msg("only %d chunks, no %s \"%s\"", n, what, e);
        assert_string_equal(got[i], e);
    }
    if (i < n) fail_msg("%d chunks, one too many: \"%s\"", n, got[i]);
}

/* syntax: false and true are plain text and Markdown. */
static void assert_chunks(const char *text, sp_syntax syntax, int size, int overlap, ...)
{
    cut c = {.fail_at = -1};
    va_list expected;
    va_start(expected, overlap);
    assert_int_equal(
        sp_chunk_text(text, strlen(text), syntax, &(sp_chunk_opts){size, overlap}, take, &c),
        SP_OK);
    assert_texts(c.v, c.n, expected, "chunk");
    va_end(expected);
    forget(&c);
}

static void assert_headings(const char *text, int size, ...)
{
    cut c = {.fail_at = -1};
    va_list expected;
    va_start(expected, size);
    assert_int_equal(sp_chunk_text(text, strlen(text), true, &(sp_chunk_opts){size, 0}, take, &c),
                     SP_OK);
    assert_texts(c.heading, c.n, expected, "heading");
    va_end(expected);
    forget(&c);
}

static void nothing_gives_no_chunk(void **state)
{
    assert_chunks("", false, 10, 0, NULL);
    assert_chunks(" \n\n\t \r\n", true, 10, 0, NULL);
}

static void a_short_text_is_one_chunk_without_its_blanks(void **state)
{
    assert_chunks("\n  one two.\n\nthree. \n", false, 10, 0, "one two.\n\nthree.", NULL);
}

static void a_paragraph_that_fits_is_not_cut(void **state)
{
    assert_chunks("Aa bb cc. Dd ee ff.\n\nGg hh ii. Jj kk ll.", false, 9, 0, "Aa bb cc. Dd ee ff.",
                  "Gg hh ii. Jj kk ll.", NULL);
}

static void a_long_paragraph_is_cut_evenly_at_sentences(void **state)
{
    assert_chunks("Aa bb cc. Dd ee ff. Gg hh ii. Jj kk ll.", false, 9, 0, "Aa bb cc. Dd ee ff.",
                  "Gg hh ii. Jj kk ll.", NULL);
    assert_chunks("Aa bb. Cc dd. Ee ff. Gg hh. Ii jj.", false, 4, 0, "Aa bb. Cc dd.",
                  "Ee ff. Gg hh.", "Ii jj.", NULL);
}

static void the_last_item_is_not_cut_either(void **state)
{
    assert_chunks("- Aa bb cc.\n- Dd. Ee ff gg hh ii.\n", true, 8, 0, "- Aa bb cc.", "- Dd. Ee ff gg hh ii.", NULL);
}

static void a_long_sentence_is_cut_at_words(void **state)
{
    assert_chunks("aa bb cc dd ee ff gg", false, 3, 0, "aa bb cc", "dd ee ff", "gg", NULL);
    assert_chunks("a  b", false, 1, 0, "a", "b", NULL);
}

static void a_heading_opens_a_chunk(void **state)
{
    assert_chunks("intro\n# One\ntext\n# Two\nmore", true, 50, 0, "intro", "# One\ntext",
                  "# Two\nmore", NULL);
    assert_headings("intro\n# One\ntext\n## Two\nmore", 50, "", "One", "Two", NULL);
}

static void headings_without_text_stay_together(void **state)
{
    assert_chunks("# Book\n\n## Chapter\n\nText.\n\n# Last", true, 50, 0,
                  "# Book\n\n## Chapter\n\nText.", "# Last", NULL);
    assert_headings("# Book\n\n## Chapter\n\nText.\n\n# Last", 50, "Chapter", "Last", NULL);
}

static void a_heading_is_not_left_alone(void **state)
{
    /* the paragraph would fit into a chunk of its own, but goes with its heading */
    assert_chunks("# T\n\nAa bb cc. Dd ee ff. Gg hh ii.", true, 9, 0, "# T\n\nAa bb cc.",
                  "Dd ee ff. Gg hh ii.", NULL);
}

static void a_setext_heading_counts(void **state)
{
    assert_headings("One\n===\ntext\n\nTwo\n---\nmore", 50, "One", "Two", NULL);
}

static void lists_and_tables_are_kept_whole_or_cut_at_their_lines(void **state)
{
    const char *list = "Buy these things.\n- red apples\n- green pears\n  and more\n- figs";
    assert_chunks(list, false, 20, 0, list, NULL);
    assert_chunks(list, false, 8, 0, "Buy these things.\n- red apples",
                  "- green pears\n  and more\n- figs", NULL);
    const char *table = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |";
    assert_chunks(table, true, 16, 0, table, NULL);
    assert_chunks(table, true, 10, 0, "| a | b |\n|---|---|", "| 1 | 2 |\n| 3 | 4 |", NULL);
}

static void a_code_fence_is_kept_whole(void **state)
{
    const char *text =
        "Some words that stand before.\n\n```\nx = 1. Y\n\n# no heading\n```\n\nAfter.";
    assert_chunks(text, true, 9, 0, "Some words that stand before.",
                  "```\nx = 1. Y\n\n# no heading\n```", "After.", NULL);
}

static void a_thin_chunk_is_filled_up(void **state)
{
    /* one word of sixteen: goes on with the first sentence of the block that does not fit */
    assert_chunks("Dear.\n\nAa bb cc dd ee ff gg hh. Ii jj kk ll mm nn oo pp.", false, 16, 0,
                  "Dear.\n\nAa bb cc dd ee ff gg hh.", "Ii jj kk ll mm nn oo pp.", NULL);
}

/* A quarter of the size is enough to be a chunk; an eighth is, too. */
static void a_short_chunk_is_not_thin(void **state)
{
    assert_chunks("Aa bb cc dd.\n\nEe ff gg hh ii jj. Kk ll mm nn oo pp qq.", false, 16, 0, "Aa bb cc dd.",
                  "Ee ff gg hh ii jj. Kk ll mm nn oo pp qq.", NULL);
    assert_chunks("Aa bb.\n\nEe ff gg hh ii jj. Kk ll mm nn oo pp qq rr ss.", false, 16, 0, "Aa bb.",
                  "Ee ff gg hh ii jj. Kk ll mm nn oo pp qq rr ss.", NULL);
}

/* After a chunk that sentences made shorter than its share, the rest is divided again. */
static void what_is_left_is_spread_evenly(void **state)
{
    assert_chunks("Aa bb cc dd ee. Ff gg hh ii jj. Kk ll. Mm nn. Oo pp. Qq rr.", false, 9, 0, "Aa bb cc dd ee.",
                  "Ff gg hh ii jj. Kk ll.", "Mm nn. Oo pp. Qq rr.", NULL);
}

/* Code that is longer than a chunk is cut at its lines, not where a sentence would end. */
static void code_is_cut_at_its_lines(void **state)
{
    assert_chunks("def f():\n    a = 1! Bb\n    c = 2! Dd\n\n    e = 3\n", SP_SYNTAX_CODE, 6, 0,
                  "def f():\n    a = 1! Bb", "c = 2! Dd", "e = 3", NULL);
}

static void overlap_repeats_whole_sentences(void **state)
{
    const char *text = "Aa bb cc. Dd ee. Ff gg hh. Ii jj. Kk ll mm.";
    assert_chunks(text, false, 6, 2, "Aa bb cc. Dd ee.", "Dd ee. Ff gg hh.", "Ii jj. Kk ll mm.",
                  NULL);
    assert_chunks(text, false, 6, 1, "Aa bb cc. Dd ee.", "Ff gg hh. Ii jj.", "Kk ll mm.", NULL);
}

/* The next block has seven of ten words: the overlap repeats three at most, and a block of one chunk's
 * size is not cut for it. */
static void overlap_leaves_room_for_the_next_block(void **state)
{
    assert_chunks("Aa bb cc dd. Ee ff gg hh.\n\nIi jj kk ll mm nn oo.", false, 10, 8,
                  "Aa bb cc dd. Ee ff gg hh.", "Ii jj kk ll mm nn oo.", NULL);
    assert_chunks("Aa bb cc dd ee. Ff gg hh.\n\nIi jj kk ll mm nn oo.", false, 10, 8,
                  "Aa bb cc dd ee. Ff gg hh.", "Ff gg hh.\n\nIi jj kk ll mm nn oo.", NULL);
    assert_chunks("Aa bb cc.\n\nDd ee ff gg hh ii jj kk ll mm.", false, 10, 8, "Aa bb cc.",
                  "Dd ee ff gg hh ii jj kk ll mm.", NULL);
}

static void overlap_stops_at_headings_and_inside_sentences(void **state)
{
    assert_chunks("Aa bb. Cc dd.\n# H\nEe ff.", true, 20, 5, "Aa bb. Cc dd.", "# H\nEe ff.", NULL);
    assert_chunks("aa bb cc dd ee ff", false, 3, 2, "aa bb cc", "dd ee ff", NULL);
    assert_chunks("# A\n\n## B\n\nAa bb. Cc dd ee. Ff gg hh.", true, 8, 4, "# A\n\n## B\n\nAa bb.",
                  "Aa bb. Cc dd ee. Ff gg hh.", NULL);
}

/* The first sentence of a chunk is not repeated: the next chunk would begin where this one does. */
static void overlap_never_repeats_a_whole_chunk(void **state)
{
    assert_chunks("Aa. Bb. Cc. Dd. Ee. Ff. Gg. Hh.", false, 6, 5, "Aa. Bb. Cc. Dd.", "Bb. Cc. Dd. Ee.",
                  "Cc. Dd. Ee. Ff. Gg. Hh.", NULL);
}

static void the_size_holds_for_every_script(void **state)
{
    /* six ideographs, chunks of four */
    assert_chunks("\xE4\xB8\x80\xE4\xBA\x8C\xE4\xB8\x89\xE5\x9B\x9B\xE4\xBA\x94\xE5\x85\xAD", false,
                  4, 0, "\xE4\xB8\x80\xE4\xBA\x8C\xE4\xB8\x89\xE5\x9B\x9B",
                  "\xE4\xBA\x94\xE5\x85\xAD", NULL);
}

static void bad_sizes_are_refused(void **state)
{
    static const sp_chunk_opts bad[] = {{0, 0}, {-1, 0}, {5, -1}, {5, 5}, {1, 1}};
    cut c = {.fail_at = -1};
    for (size_t i = 0; i < SP_COUNT(bad); i++)
        assert_int_equal(sp_chunk_text("a", 1, false, &bad[i], take, &c), SP_E_ARG);
    assert_int_equal(c.n, 0);
}

static void the_error_of_the_receiver_is_passed_on(void **state)
{
    cut c = {.fail_at = 1};
    assert_int_equal(sp_chunk_text("aa bb cc", 5, false, &(sp_chunk_opts){1, 0}, take, &c),
                     SP_E_CANCELED);
    assert_int_equal(c.n, 1);
    forget(&c);
}

static sp_err count(const sp_text_chunk *c, void *user)
{
    ++*(int *)user;
    return SP_OK;
}

static void running_out_of_memory_is_an_error(void **state)
{
    static const char text[] = "# H\n\nA b c. D e f.\n\n- one\n- two\n\n| a |\n| b |\n";
    sp_chunk_opts o = {3, 1};
    sp_err err = SP_E_NOMEM;
    int allocation = 1, n = 0;
    for (; err != SP_OK; allocation++) {
        assert_in_range(allocation, 1, 100);
        sp_fault_after(allocation);
        err = sp_chunk_text(text, sizeof text - 1, true, &o, count, &n);
        sp_fault_after(-1);
        assert_true(err == SP_OK || err == SP_E_NOMEM);
    }
    assert_true(allocation > 2); /* at least one failure was met */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_gives_no_chunk),
        cmocka_unit_test(a_short_text_is_one_chunk_without_its_blanks),
        cmocka_unit_test(a_paragraph_that_fits_is_not_cut),
        cmocka_unit_test(a_long_paragraph_is_cut_evenly_at_sentences),
        cmocka_unit_test(the_last_item_is_not_cut_either),
        cmocka_unit_test(a_long_sentence_is_cut_at_words),
        cmocka_unit_test(a_heading_opens_a_chunk),
        cmocka_unit_test(headings_without_text_stay_together),
        cmocka_unit_test(a_heading_is_not_left_alone),
        cmocka_unit_test(a_setext_heading_counts),
        cmocka_unit_test(lists_and_tables_are_kept_whole_or_cut_at_their_lines),
        cmocka_unit_test(a_code_fence_is_kept_whole),
        cmocka_unit_test(a_thin_chunk_is_filled_up),
        cmocka_unit_test(a_short_chunk_is_not_thin),
        cmocka_unit_test(what_is_left_is_spread_evenly),
        cmocka_unit_test(code_is_cut_at_its_lines),
        cmocka_unit_test(overlap_repeats_whole_sentences),
        cmocka_unit_test(overlap_leaves_room_for_the_next_block),
        cmocka_unit_test(overlap_stops_at_headings_and_inside_sentences),
        cmocka_unit_test(overlap_never_repeats_a_whole_chunk),
        cmocka_unit_test(the_size_holds_for_every_script),
        cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(the_error_of_the_receiver_is_passed_on),
        cmocka_unit_test(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
