/* Scores of answers, and distances of distributions. */
#include "lab/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/numbers.h"
#include "support/check.h"

static const double near = 1e-12;

static void assert_normalised(const char *text, const char *wanted)
{
    char *got = metric_normalise(text);
    assert_string_equal(got, wanted);
    free(got);
}

static void texts_are_normalised_as_squad_does(void **state)
{
    assert_normalised("", "");
    assert_normalised("The", "");
    assert_normalised("  The Eiffel-Tower, in  a PARIS! ", "eiffeltower in paris");
    assert_normalised("an apple a day\tthe end", "apple day end");
    assert_normalised("Another theory: a.n.", "another theory"); /* "a.n." becomes "an" */
    assert_normalised("$12 (nearly)", "12 nearly");
    assert_normalised("\xC3\x89mile ZOL\xC3\x80", "\xC3\xA9mile zol\xC3\xA0");       /* É, À */
    assert_normalised("\xCE\x91\xCE\xA9 \xD0\x96", "\xCE\xB1\xCF\x89 \xD0\xB6");     /* ΑΩ Ж */
    assert_normalised("a\xC2\xA0tree", "tree");                                      /* no-break */
    assert_normalised("a\xC2\x85tree", "tree");                                      /* next line */
    assert_normalised("x\xFFy", "x\xC3\xBFy"); /* a byte that is not UTF-8 ends no word */
    assert_normalised("\xE2\x80\x9CThe\xE2\x80\x9D", "\xE2\x80\x9Cthe\xE2\x80\x9D"); /* “The” */
}

static void any_bytes_are_normalised(void **state)
{
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        char text[40];
        int n = check_random(&seed, 39);
        for (int i = 0; i < n; i++) text[i] = (char)(1 + check_random(&seed, 255));
        text[n] = '\0';
        char *once = metric_normalise(text), *twice = metric_normalise(once);
        assert_true(strlen(once) <= 2 * strlen(text));
        assert_null(strstr(once, "  "));
        free(twice);
        free(once);
    }
}

static void assert_score(const char *answer, const char *wanted, double em, double f1, double rouge)
{
    answer_score s = metric_score(answer, &wanted, 1);
    assert_true(fabs(s.em - em) < near);
    assert_true(fabs(s.f1 - f1) < near);
    assert_true(fabs(s.rouge_l - rouge) < near);
}

static void answers_are_scored(void **state)
{
    assert_score("The purple.", "purple", 1, 1, 1);
    assert_score("purple", "green", 0, 0, 0);
    assert_score("", "", 1, 1, 1);
    assert_score("", "green", 0, 0, 0);
    assert_score("x y z", "z y", 0, 0.8, 0.4);      /* in common: 2; in order: 1 */
    assert_score("x x x", "x y", 0, 0.4, 0.4);      /* x counts once */
    assert_score("p q r s", "p r s q", 0, 1, 0.75); /* same words, another order */
}

static void each_measure_takes_its_best_answer(void **state)
{
    const char *const names[] = {"Paris", "the city of light"};
    assert_true(metric_score("paris", names, 2).em == 1 && metric_score("City of light!", names, 2).em == 1);
    const char *const wanted[] = {"b a1 c1", "c1 b", "x"};
    answer_score s = metric_score("b c1 d1", wanted, 3);
    assert_true(s.em == 0);
    assert_true(fabs(s.f1 - 0.8) < near);
    assert_true(fabs(s.rouge_l - 2.0 * 2 / 6) < near); /* of the first; the second has 0.4 */
}

static void kl_is_that_of_the_distributions(void **state)
{
    const float p[] = {0, logf(3)}, q[] = {5, 5}, shifted[] = {100, 100 + logf(3)};
    double wanted = 0.25 * log(0.25 / 0.5) + 0.75 * log(0.75 / 0.5);
    assert_true(fabs(metric_kl(p, q, 2) - wanted) < 1e-7);
    assert_true(metric_kl(p, p, 2) == 0);
    assert_true(metric_kl(p, shifted, 2) < 1e-10); /* logits are known up to a constant */
    for (int i = 0; i < 1000; i++) { /* rounding makes no distance negative */
        const float one[] = {0.1f * (float)i, 1.7f, -0.3f}, same[] = {one[0] + 64, one[1] + 64, one[2] + 64};
        assert_true(metric_kl(one, same, 3) >= 0);
    }
    const float banned[] = {0, -INFINITY, 2}, turned[] = {2, -INFINITY, 0}, two[] = {0, 2}, turned_two[] = {2, 0};
    assert_true(metric_kl(two, turned_two, 2) > 1); /* what cannot come adds nothing */
    assert_true(fabs(metric_kl(banned, turned, 3) - metric_kl(two, turned_two, 2)) < 1e-12);
    const float sure[] = {2000, 0}, other[] = {0, 2000};
    assert_true(fabs(metric_kl(sure, other, 2) - 2000) < 1e-6); /* exp(-2000) is 0, not NaN */
}

static void the_best_and_the_median_are_kept(void **state)
{
    const float logits[] = {1, 7, 7, -2};
    double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2};
    assert_int_equal(metric_best(logits, 4), 1);
    assert_true(lab_quantile(odd, 3, 0.5) == 5);
    assert_true(lab_quantile(even, 4, 0.5) == 2.5);
    assert_true(isnan(lab_quantile(odd, 0, 0.5)));
}

/* Every order is possible, also the one that there was. */
static void a_shuffle_may_be_any_order(void **state)
{
    uint64_t seed = 1;
    int n_same = 0;
    for (int i = 0; i < 100; i++) {
        int v[2] = {7, 9};
        lab_shuffle(v, 2, &seed);
        assert_int_equal(v[0] + v[1], 16);
        n_same += v[0] == 7;
    }
    assert_in_range(n_same, 30, 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_normalised_as_squad_does),
        cmocka_unit_test(any_bytes_are_normalised),
        cmocka_unit_test(answers_are_scored),
        cmocka_unit_test(each_measure_takes_its_best_answer),
        cmocka_unit_test(kl_is_that_of_the_distributions),
        cmocka_unit_test(the_best_and_the_median_are_kept),
        cmocka_unit_test(a_shuffle_may_be_any_order),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
