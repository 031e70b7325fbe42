/* Near-duplicates among the hits of a question. */
#include "support/check.h"

#include <stdio.h>

#include "retrieve/index/index.h"
#include "spolia.h"

#define LEASE                                                                                      \
    "This lease is made between Anna Berg and the harbour office of Velm. The tenant rents the "   \
    "boathouse at the quay "                                                                       \
    "for 900 crowns a month, and keeps its roof, its doors and its slip in repair at all times."

static void leaves(const sp_hit *hits, int n, int k, const char *ids, int n_left_out)
{
    sp_hit copy[16];
    char got[64] = "";
    int left_out = -1;
    memcpy(copy, hits, (size_t)n * sizeof *hits);
    sp_hits h = {.v = copy, .n = n};
    assert_ok(sp_hits_distinct(&h, k, &left_out));
    for (int i = 0; i < h.n; i++) got[i] = (char)('0' + h.v[i].id);
    assert_string_equal(got, ids);
    assert_int_equal(left_out, n_left_out);
}

static void copies_leave_their_places_to_others(void **state)
{
    const sp_hit hits[] = {{.id = 1, .title = "a", .text = LEASE},
                           {.id = 2, .title = "b", .text = LEASE},
                           {.id = 3, .title = "c", .text = "COPY\n" LEASE "  "},
                           {.id = 4, .title = "d", .text = "The crane lifts four tons."},
                           {.id = 5, .title = "e", .text = "Nets dry on the mole."},
                           {.id = 6, .title = "f", .text = LEASE}};
    leaves(hits, 2, 8, "1", 1);
    leaves(hits, 6, 3, "134", 1); /* "COPY" may be a name */
    leaves(hits + 3, 3, 8, "456", 0);
    leaves(hits, 0, 8, "", 0);
    leaves(hits, 6, 0, "", 0);
    const sp_hit later[] = {hits[3], hits[0], hits[5], {.id = 7, .title = "g", .text = LEASE " " LEASE}};
    leaves(later, 4, 8, "41", 2); /* of the second; also where it is there twice */
}

static void another_name_or_number_is_no_duplicate(void **state)
{
#define FORM(who, sum)                                                                             \
    "This lease is made between " who                                                              \
    " and the harbour office. The tenant rents the boathouse at the quay for " sum                 \
    " crowns a month, and keeps its roof, its doors and its slip in repair at all times and at "   \
    "no cost to others."
    const sp_hit hits[] = {{.id = 1, .title = "", .text = FORM("Anna", "900")},
                           {.id = 2, .title = "", .text = FORM("Berta", "900")},
                           {.id = 3, .title = "", .text = FORM("Anna", "950")},
                           {.id = 4, .title = "", .text = FORM("Anna,", "900")},
                           {.id = 5, .title = "", .text = FORM("Anna", "(-900)")},
                           {.id = 6, .title = "", .text = FORM("Anna", "-900")}};
    leaves(hits, 6, 8, "1235", 2);
}

/* What one version of a text allows another forbids. */
static void a_negation_is_no_duplicate(void **state)
{
#define RULE(may)                                                                                  \
    "a guest " may " bring a dog into the rooms of the house, provided that it is small and quiet " \
    "and that the host has been asked before the day of arrival, and that it sleeps in its own "   \
    "bed at night"
    static const char *const negated[] = {"may not", "may never", "DOES NOT", "doesn't", "doesn\xe2\x80\x99t",
                                          "darf nicht", "ne peut pas", "n\xc3\xa3o pode", "may (not)"};
    for (size_t i = 0; i < SP_COUNT(negated); i++) {
        char text[400];
        snprintf(text, sizeof text, RULE("%s"), negated[i]);
        const sp_hit hits[] = {{.id = 1, .title = "", .text = RULE("may")},
                               {.id = 2, .title = "", .text = text},
                               {.id = 3, .title = "", .text = RULE("may")},
                               {.id = 4, .title = "", .text = text}};
        const sp_hit turned[] = {hits[1], hits[0], hits[3]};
        leaves(hits, 4, 8, "12", 2);
        leaves(turned, 3, 8, "21", 1);
    }
    const sp_hit hits[] = {{.id = 1, .title = "", .text = RULE("may not") " and not on the sofa or in the kitchen"},
                           {.id = 2, .title = "", .text = RULE("may not")},
                           {.id = 3, .title = "", .text = RULE("will not")}};
    leaves(hits, 3, 8, "123", 0);
    const sp_hit parts[] = {{.id = 1, .title = "", .text = RULE("may not") ". " RULE("will not")},
                            {.id = 2, .title = "", .text = RULE("may not")}};
    leaves(parts, 2, 8, "1", 1); /* what the rest forbids is no matter */
}

static void a_short_chunk_means_what_its_title_says(void **state)
{
    const sp_hit hits[] = {{.id = 1, .title = "Flat 3", .text = "Rent: 900."},
                           {.id = 2, .title = "Flat 4", .text = "Rent: 900."},
                           {.id = 3, .title = "Flat 3", .text = "rent 900"},
                           {.id = 4, .title = "Flat 3", .text = ""}};
    leaves(hits, 4, 8, "124", 1);
}

/* Words of any script are words. The last byte of a word may be the first above ASCII: it ends "р". */
static void words_of_other_scripts_differ(void **state)
{
    static const struct {
        const char *one, *same, *other;
    } cases[] = {
        {"Лодка стоит у причала до вечера", "\"Лодка\" стоит у причала, до вечера.", "Кран поднимает четыре тонны груза утром"},
        {"Капитан ждёт пар", "Капитан ждёт пар!", "Капитан ждёт пап"},
        {"Το πλοίο φεύγει το βράδυ από το λιμάνι", "(Το πλοίο φεύγει) το βράδυ από το λιμάνι!",
         "Ο γερανός σηκώνει τέσσερις τόνους το πρωί"},
        {"船 晚上 离开 港口", "船 晚上 离开 港口", "起重机 早上 吊 四吨"},
        {"السفينة تغادر الميناء مساء", "السفينة تغادر الميناء مساء", "الرافعة ترفع أربعة أطنان"},
        {"Der Kran hebt Öl", "Der Kran hebt Öl.", "Der Kran hebt Äl"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        const sp_hit hits[] = {{.id = 1, .title = "", .text = cases[i].one},
                               {.id = 2, .title = "", .text = cases[i].same},
                               {.id = 3, .title = "", .text = cases[i].other}};
        leaves(hits, 3, 8, "13", 1);
    }
}

/* words -- n different words without names. The first `from` are the same in each call, others depend on `other`. */
static const char *words(char *out, int n, int from, char other)
{
    char *at = out;
    for (int i = 0; i < n; i++) {
        const char mark = i < from ? 'x' : other;
        *at++ = mark;
        *at++ = (char)('a' + i / 26);
        *at++ = (char)('a' + i % 26);
        *at++ = ' ';
    }
    at[-1] = '\0';
    return out;
}

/* Of 42 words there are 40 runs of three. If the first 34 are equal, 32 runs are, 80 %; one less is too few. */
static void four_fifths_of_the_runs_are_enough(void **state)
{
    char one[256], same[256], other[256];
    const sp_hit hits[] = {{.id = 1, .title = "a", .text = words(one, 42, 42, 'x')},
                           {.id = 2, .title = "b", .text = words(same, 42, 34, 'y')},
                           {.id = 3, .title = "c", .text = words(other, 42, 33, 'z')}};
    leaves(hits, 3, 8, "13", 1);
}

/* A part of a better chunk adds nothing; a longer one does. */
static void a_part_is_a_duplicate_and_the_whole_is_not(void **state)
{
    char part[256], whole[512];
    const sp_hit hits[] = {{.id = 1, .title = "a", .text = words(part, 40, 40, 'x')},
                           {.id = 2, .title = "b", .text = words(whole, 80, 80, 'x')}};
    const sp_hit turned[] = {hits[1], hits[0]};
    leaves(hits, 2, 8, "12", 0);
    leaves(turned, 2, 8, "2", 1);
}

/* Below 30 words the titles must be equal, from there on they need not. One and two words are a run, too. */
static void titles_count_below_thirty_words(void **state)
{
    static const int lengths[] = {1, 2, 3, 29, 30};
    for (size_t i = 0; i < SP_COUNT(lengths); i++) {
        char text[256];
        words(text, lengths[i], lengths[i], 'x');
        const sp_hit hits[] = {{.id = 1, .title = "a", .text = text},
                               {.id = 2, .title = "b", .text = text},
                               {.id = 3, .title = "a", .text = text}};
        leaves(hits, 3, 8, lengths[i] < 30 ? "12" : "1", lengths[i] < 30 ? 1 : 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_leave_their_places_to_others),
        cmocka_unit_test(another_name_or_number_is_no_duplicate),
        cmocka_unit_test(a_negation_is_no_duplicate),
        cmocka_unit_test(words_of_other_scripts_differ),
        cmocka_unit_test(four_fifths_of_the_runs_are_enough),
        cmocka_unit_test(a_part_is_a_duplicate_and_the_whole_is_not),
        cmocka_unit_test(titles_count_below_thirty_words),
        cmocka_unit_test(a_short_chunk_means_what_its_title_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
