/* Near-duplicates among the hits of a question. */
#include "support/check.h"

#include "retrieve/index.h"
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
                           {.id = 4, .title = "", .text = FORM("Anna,", "900")}};
    leaves(hits, 4, 8, "123", 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_leave_their_places_to_others),
        cmocka_unit_test(another_name_or_number_is_no_duplicate),
        cmocka_unit_test(words_of_other_scripts_differ),
        cmocka_unit_test(a_short_chunk_means_what_its_title_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
