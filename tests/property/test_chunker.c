/* What holds for every text, every size and every overlap, on random texts made of the pieces that
 * the chunker looks at: blanks, marks, headings, fences, tables, ideographs, broken UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "retrieve/text/chunker.h"
#include "retrieve/text/text.h"

static uint64_t seed;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static size_t make_text(char *out, size_t cap)
{
    static const char *const pieces[] = {
        " ",
        " ",
        "  ",
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        ".",
        ". ",
        "! ",
        "? ",
        "Dr. ",
        "e.g. ",
        "J. ",
        "3.14",
        "word",
        "Word",
        "a",
        "B",
        "in",
        "The",
        "\"",
        ")",
        "(",
        "# ",
        "\n# ",
        "\n## Head\n",
        "\n===\n",
        "\n---\n",
        "\n- ",
        "\n1. ",
        "\n```\n",
        "\n~~~\n",
        "\n| a | b |\n",
        "|",
        "---",
        "\xC3\xA9",
        "\xE2\x80\xA6",
        "\xE2\x80\x9D",
        "\xE6\x97\xA5",
        "\xE6\x9C\xAC\xE3\x80\x82",
        "\xF0\x9F\x98\x80",
        "\xF0\xA0\x80\x80",
        "\x80",
        "\xE2",
        "\xFF",
        "averyveryveryveryveryveryveryveryverylongwordthatgoesonandonandonandon",
    };
    size_t n = 0, n_pieces = draw(400);
    for (size_t i = 0; i < n_pieces; i++) {
        const char *p = pieces[draw(SP_COUNT(pieces))];
        size_t length = strlen(p);
        if (n + length > cap) break;
        memcpy(out + n, p, length);
        n += length;
    }
    return n;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* The definition of a word once more, written the plainest way. */
static int n_words(const char *s, size_t n)
{
    int words = 0;
    size_t run = 0; /* bytes of the word that is open */
    for (size_t i = 0; i < n;) {
        size_t length = 1;
        while (!blank(s[i]) && i + length < n && is_continuation(s[i + length])) length++;
        unsigned char a = (unsigned char)s[i], b = n - i >= 3 ? (unsigned char)s[i + 1] : 0;
        bool ideograph = n - i >= 3 && ((a == 0xE3 && b > 0x80) || (a >= 0xE4 && a <= 0xE9) ||
                                        (a == 0xF0 && b >= 0xA0));
        if (blank(s[i])) {
            run = 0;
        } else if (ideograph) {
            words++;
            run = 0;
        } else {
            if (run == 0 || run >= 64) {
                words++;
                run = 0;
            }
            run += length;
        }
        i += length;
    }
    return words;
}

/* Whether a well-formed character starts before `at` and ends after it. */
static bool splits_character(const char *s, size_t n, size_t at)
{
    if (at >= n || !is_continuation(s[at])) return false;
    for (size_t back = 1; back <= 3 && back <= at; back++)
        for (size_t length = back + 1; length <= 4 && at - back + length <= n; length++)
            if (sp_utf8_valid(s + at - back, length)) return true;
    return false;
}

typedef struct check {
    const char *text;
    size_t n;
    sp_chunk_opts o;
    size_t from, to; /* of the chunk before */
    size_t n_chunks, n_overlaps;
} check;

static sp_err look(const sp_text_chunk *c, void *user)
{
    check *k = user;
    size_t from = (size_t)(c->text - k->text), to = from + c->n;
    assert_true(c->n > 0 && to <= k->n);
    assert_false(blank(c->text[0]) || blank(c->text[c->n - 1]));
    assert_false(splits_character(k->text, k->n, from) || splits_character(k->text, k->n, to));
    /* the size holds */
    assert_true(c->n_words >= 1 && c->n_words <= k->o.size_words);
    assert_true(n_words(c->text, c->n) <= c->n_words);
    /* in order, each with something new, nothing but blanks left out between two */
    assert_true(k->n_chunks == 0 || (from > k->from && to > k->to));
    for (size_t i = k->to; i < from; i++) assert_true(blank(k->text[i]));
    /* what is repeated is no more than asked for */
    if (k->n_chunks && from < k->to) {
        k->n_overlaps++;
        assert_true(n_words(c->text, k->to - from) <= k->o.overlap_words);
    }
    /* the heading stands before the end of the chunk; a cut one may have just its marks there */
    assert_true(c->n_heading == 0 || c->heading >= k->text);
    for (const char *p = k->text + to; c->n_heading && p < c->heading; p++) assert_true(blank(*p));
    k->from = from;
    k->to = to;
    k->n_chunks++;
    return SP_OK;
}

static void every_text_is_covered_in_order_within_the_size(void **state)
{
    static char buffer[4096];
    size_t n_chunks = 0, n_overlaps = 0;
    for (int round = 0; round < 8000; round++) {
        seed = (uint64_t)round;
        size_t n = make_text(buffer, sizeof buffer);
        /* a copy of its exact size, so that a sanitizer sees every byte read too many */
        char *exact = sp_alloc(n, 1);
        memcpy(exact, buffer, n);
        int size = 1 + (int)draw(draw(2) ? 8 : 60);
        check k = {.text = exact, .n = n, .o = {size, (int)draw((uint32_t)size)}};
        bool markdown = draw(2);
        assert_int_equal(sp_chunk_text(exact, n, markdown, &k.o, look, &k), SP_OK);
        for (size_t i = k.to; i < n; i++) assert_true(blank(exact[i]));
        n_chunks += k.n_chunks;
        n_overlaps += k.n_overlaps;
        sp_free(exact);
    }
    assert_true(n_chunks > 50000); /* the texts did exercise it */
    assert_true(n_overlaps > 500);
}

static sp_err count(const sp_text_chunk *c, void *user)
{
    *(size_t *)user += c->n;
    return SP_OK;
}

/* Texts that would take hours if any rule looked at a byte more than a few times. */
static void no_text_is_quadratic(void **state)
{
    static const char *const units[] = {
        "a",  ".",     "a.",   "a. ",   "(((",          "\"",    "\xE2\x80\xA6", "\n",
        "- ", "\n- a", "# ",   "#",     "\n# ",         "```",   "\n|",          "   ",
        "1.", "\n1. ", "\x80", "---\n", "\xE6\x97\xA5", "e.g. ",
    };
    const size_t n = 1u << 19;
    char *text = sp_alloc(n, 1);
    assert_non_null(text);
    for (size_t u = 0; u < SP_COUNT(units); u++) {
        size_t length = strlen(units[u]), covered = 0;
        for (size_t i = 0; i < n; i++) text[i] = units[u][i % length];
        assert_int_equal(
            sp_chunk_text(text, n, u % 2 == 0, &(sp_chunk_opts){150, 30}, count, &covered), SP_OK);
        assert_true(covered <= 3 * n);
    }
    sp_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_text_is_covered_in_order_within_the_size),
        cmocka_unit_test(no_text_is_quadratic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
