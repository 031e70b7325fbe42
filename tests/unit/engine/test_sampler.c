/* The sampler: which tokens may be drawn, how often, and which never. */
#include "support/check.h"

#include <math.h>

#include "engine/sampler.h"

enum { MAX_VOCAB = 64 };

static sp_sampling plain(float temperature)
{
    return (sp_sampling){
        .temperature = temperature, .top_p = 1, .repeat_penalty = 1, .repeat_last = 8, .seed = 42};
}

static sp_sampler begin(sp_sampling p, int n_vocab)
{
    sp_sampler s;
    assert_ok(sp_sampler_init(&s, &p, n_vocab));
    return s;
}

/* draw -- how often each of n tokens comes in n_draws, nothing being accepted. */
static void draw(sp_sampling p, const float *logits, int n, int n_draws, int *counts)
{
    sp_sampler s = begin(p, n);
    memset(counts, 0, (size_t)n * sizeof *counts);
    for (int i = 0; i < n_draws; i++) {
        int32_t id = sp_sampler_pick(&s, logits);
        assert_in_range(id, 0, n - 1);
        counts[id]++;
    }
    sp_sampler_fini(&s);
}

/* assert_support -- of n tokens exactly those of the mask (bit i for token i) are ever drawn. */
static void assert_support(sp_sampling p, const float *logits, int n, unsigned mask)
{
    int counts[MAX_VOCAB];
    unsigned seen = 0;
    draw(p, logits, n, 4000, counts);
    for (int i = 0; i < n; i++) seen |= counts[i] ? 1u << i : 0;
    if (seen != mask) fail_msg("drawn: 0x%x, not 0x%x", seen, mask);
}

/* -- greedy --------------------------------------------------------------------------------- */

static void temperature_zero_takes_the_best(void **state)
{
    sp_sampler s = begin(plain(0), 5);
    assert_int_equal(sp_sampler_pick(&s, (float[]){1, 3, 2, -1, 0}), 1);
    assert_int_equal(sp_sampler_pick(&s, (float[]){-5, -4, -3, -2, -1}), 4);
    assert_int_equal(sp_sampler_pick(&s, (float[]){0, 7, 7, 7, 0}),
                     1); /* of equals, the lower id */
    assert_int_equal(sp_sampler_pick(&s, (float[]){2, 2, 2, 2, 2}), 0);
    assert_int_equal(sp_sampler_pick(&s, (float[]){1, INFINITY, 3, 4, 5}), 1);
    sp_sampler_fini(&s);
}

static void logits_are_only_read(void **state)
{
    float logits[] = {1, NAN, 3, -2}, copy[4];
    sp_sampling p = plain(0.7f);
    p.repeat_penalty = 2;
    memcpy(copy, logits, sizeof copy);
    sp_sampler s = begin(p, 4);
    sp_sampler_accept(&s, 2);
    for (int i = 0; i < 10; i++) sp_sampler_accept(&s, sp_sampler_pick(&s, logits));
    assert_memory_equal(logits, copy, sizeof copy);
    sp_sampler_fini(&s);
}

/* -- what may be drawn ----------------------------------------------------------------------- */

/* probabilities 0.4, 0.3, 0.2, 0.1 in mixed order: tokens 2, 0, 3, 1 */
static const float four[] = {-1.2039728f, -2.3025851f, -0.9162907f, -1.6094379f};
enum { BEST = 1 << 2, SECOND = 1 << 0, THIRD = 1 << 3, LAST = 1 << 1, ALL = 15 };

static void without_limits_every_token_comes(void **state)
{
    assert_support(plain(1), four, 4, ALL);
}

static void top_k_keeps_the_k_best(void **state)
{
    static const unsigned masks[] = {ALL, BEST, BEST | SECOND, BEST | SECOND | THIRD, ALL, ALL};
    for (int k = 0; k < 6; k++) {
        sp_sampling p = plain(1);
        p.top_k = k; /* 0: all; more than there are: all */
        assert_support(p, four, 4, masks[k]);
    }
    sp_sampling p = plain(1);
    p.top_k = 2; /* of equals, the lower ids */
    assert_support(p, (float[]){1, 1, 1, 1}, 4, 3);
}

static void top_p_keeps_until_the_mass_is_reached(void **state)
{
    static const struct {
        float top_p;
        unsigned mask;
    } cases[] = {
        {1e-6f, BEST},
        {0.39f, BEST},
        {0.41f, BEST | SECOND},
        {0.69f, BEST | SECOND},
        {0.71f, BEST | SECOND | THIRD},
        {0.89f, BEST | SECOND | THIRD},
        {0.91f, ALL},
        {1, ALL},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_sampling p = plain(1);
        p.top_p = cases[i].top_p;
        assert_support(p, four, 4, cases[i].mask);
    }
}

/* Halves are exact, so the first token has the whole mass that is asked for. */
static void top_p_ends_where_the_mass_is_equal(void **state)
{
    sp_sampling p = plain(1);
    p.top_p = 0.5f;
    assert_support(p, (float[]){0, 0}, 2, 1);
    p.top_k = 2;
    assert_support(p, (float[]){0, 0}, 2, 1);
}

static void top_p_counts_the_mass_of_the_top_k(void **state)
{
    sp_sampling p = plain(1);
    p.top_k = 2; /* 0.4 and 0.3: 0.571 and 0.429 of what is left */
    p.top_p = 0.55f;
    assert_support(p, four, 4, BEST);
    p.top_p = 0.58f;
    assert_support(p, four, 4, BEST | SECOND);
}

static void min_p_is_relative_to_the_best(void **state)
{
    static const struct {
        float min_p;
        unsigned mask;
    } cases[] = {
        {0, ALL},
        {0.24f, ALL}, /* 0.1 is a quarter of 0.4 */
        {0.26f, BEST | SECOND | THIRD},
        {0.49f, BEST | SECOND | THIRD},
        {0.51f, BEST | SECOND},
        {0.76f, BEST},
        {1, BEST},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        for (int with = 0; with < 3; with++) { /* alone, and beside limits that cut nothing */
            sp_sampling p = plain(1);
            p.min_p = cases[i].min_p;
            if (with == 1) p.top_k = 4;
            if (with == 2) p.top_p = 0.9999f;
            assert_support(p, four, 4, cases[i].mask);
        }
    sp_sampling p = plain(1);
    p.min_p = 1; /* all that are as good as the best */
    assert_support(p, (float[]){2, 1, 2, 2}, 4, 1 | 4 | 8);
}

/* The limits look at the distribution before temperature bends it. */
static void limits_come_before_temperature(void **state)
{
    sp_sampling p = plain(100);
    p.top_p = 0.69f;
    assert_support(p, four, 4, BEST | SECOND);
    p = plain(100);
    p.min_p = 0.51f;
    assert_support(p, four, 4, BEST | SECOND);
}

/* Where rounding lets the best carry the whole mass, "all" still means all. */
static void a_high_temperature_reaches_the_unlikely(void **state)
{
    const float logits[] = {0, -60, -61, -62};
    sp_sampling p = plain(60);
    assert_support(p, logits, 4, ALL);
    p.top_k = 4;
    assert_support(p, logits, 4, ALL);
    p.top_k = 3;
    assert_support(p, logits, 4, 7);
}

static void a_low_temperature_is_greedy(void **state)
{
    assert_support(plain(1e-30f), four, 4, BEST);
    assert_support(plain(1e-3f), four, 4, BEST);
}

/* Large vocabularies: the heap must find the best among many, wherever they stand. */
static void the_best_are_found_among_many(void **state)
{
    enum { N = 5000, K = 5 };
    static float logits[N];
    uint64_t seed = 3;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < N; i++) logits[i] = (float)check_random(&seed, 100000) * 1e-4f;
        int best[K];
        for (int k = 0; k < K; k++) {
            best[k] = (k * 997 + round * 331) % N;
            logits[best[k]] = 20;
        }
        sp_sampling p = plain(1);
        p.top_k = K;
        p.seed = (uint64_t)round;
        sp_sampler s = begin(p, N);
        bool seen[K] = {false};
        for (int i = 0; i < 200; i++) {
            int32_t id = sp_sampler_pick(&s, logits);
            int k = 0;
            while (k < K && best[k] != id) k++;
            assert_in_range(k, 0, K - 1);
            seen[k] = true;
        }
        for (int k = 0; k < K; k++) assert_true(seen[k]);
        sp_sampler_fini(&s);
    }
}

/* -- how often ------------------------------------------------------------------------------ */

/* Pearson's sum over n tokens; their number of degrees of freedom is n - 1. The seed is fixed: the
 * test passes or fails always, and 30 is far beyond chance for three to nine degrees. */
static double chi_square(const int *counts, const double *prob, int n, int n_draws)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double expected = prob[i] * n_draws;
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
}

static void frequencies_are_the_probabilities(void **state)
{
    enum { DRAWS = 50000 };
    static const float temperatures[] = {0.5f, 1, 2};
    for (size_t t = 0; t < SP_COUNT(temperatures); t++)
        for (int with = 0; with < 3;
             with++) { /* each of the ways to draw, all with the same result */
            sp_sampling p = plain(temperatures[t]);
            if (with == 1) p.top_k = 4;
            if (with == 2) p.top_p = 0.999999f;
            int counts[4];
            double prob[4], total = 0;
            for (int i = 0; i < 4; i++) total += prob[i] = exp(four[i] / temperatures[t]);
            for (int i = 0; i < 4; i++) prob[i] /= total;
            draw(p, four, 4, DRAWS, counts);
            assert_true(chi_square(counts, prob, 4, DRAWS) < 30);
        }
}

static void what_is_kept_shares_the_mass(void **state)
{
    enum { DRAWS = 50000 };
    int counts[4];
    sp_sampling p = plain(1);
    p.top_k = 3;
    draw(p, four, 4, DRAWS, counts);
    int kept[] = {counts[0], counts[2], counts[3]};
    assert_int_equal(counts[1], 0);
    assert_true(chi_square(kept, (double[]){3 / 9.0, 4 / 9.0, 2 / 9.0}, 3, DRAWS) < 30);
}

static void equal_tokens_come_equally_often(void **state)
{
    enum { N = 10, DRAWS = 50000 };
    float logits[N];
    double prob[N];
    int counts[N];
    for (int i = 0; i < N; i++) {
        logits[i] = 5;
        prob[i] = 1.0 / N;
    }
    draw(plain(1), logits, N, DRAWS, counts);
    assert_true(chi_square(counts, prob, N, DRAWS) < 30);
}

/* -- seeds ---------------------------------------------------------------------------------- */

static void one_seed_gives_one_text(void **state)
{
    sp_sampling p = plain(1), q = plain(1);
    q.seed = 43;
    sp_sampler a = begin(p, 4), b = begin(p, 4), c = begin(q, 4);
    int n_different = 0;
    for (int i = 0; i < 200; i++) {
        int32_t id = sp_sampler_pick(&a, four);
        assert_int_equal(sp_sampler_pick(&b, four), id);
        n_different += sp_sampler_pick(&c, four) != id;
    }
    assert_in_range(n_different, 50, 199);
    sp_sampler_fini(&a);
    sp_sampler_fini(&b);
    sp_sampler_fini(&c);
}

/* -- numbers that are none -------------------------------------------------------------------- */

static void nan_is_never_chosen(void **state)
{
    const float logits[] = {NAN, -5, NAN, -6};
    sp_sampler s = begin(plain(0), 4);
    assert_int_equal(sp_sampler_pick(&s, logits), 1);
    sp_sampler_fini(&s);
    for (int with = 0; with < 4; with++) {
        sp_sampling p = plain(50);
        if (with == 1) p.top_k = 4;
        if (with == 2) p.top_p = 0.9999f;
        if (with == 3) p.min_p = 0.01f;
        assert_support(p, logits, 4, 2 | 8);
    }
}

/* Broken logits give some token, always the same way; they do not break the sampler. */
static void logits_without_a_finite_best_give_the_best(void **state)
{
    const float nothing[] = {NAN, NAN, -INFINITY, NAN}, beyond[] = {1, 2, INFINITY, NAN};
    for (int with = 0; with < 3; with++) {
        sp_sampling p = plain(1);
        if (with == 1) p.top_k = 3;
        if (with == 2) p.top_p = 0.5f;
        assert_support(p, nothing, 4, 1);
        assert_support(p, beyond, 4, 4);
    }
}

/* -- the repeat penalty ----------------------------------------------------------------------- */

static sp_sampling penalised(float penalty, int window)
{
    sp_sampling p = plain(0);
    p.repeat_penalty = penalty;
    p.repeat_last = window;
    return p;
}

static void repeated_tokens_are_penalised(void **state)
{
    sp_sampler s = begin(penalised(2, 8), 3);
    const float above[] = {10, 6, 4}, below[] = {-2, -3, -9};
    assert_int_equal(sp_sampler_pick(&s, above), 0);
    sp_sampler_accept(&s, 0);
    assert_int_equal(sp_sampler_pick(&s, above), 1); /* 10 / 2 = 5 */
    assert_int_equal(sp_sampler_pick(&s, below), 1); /* -2 * 2 = -4 */
    sp_sampler_accept(&s, 1);
    assert_int_equal(sp_sampler_pick(&s, above), 0); /* 5, 3, 4 */
    sp_sampler_fini(&s);
}

static void a_token_is_penalised_once(void **state)
{
    sp_sampler s = begin(penalised(2, 8), 2);
    for (int i = 0; i < 5; i++) sp_sampler_accept(&s, 0);
    assert_int_equal(sp_sampler_pick(&s, (float[]){10, 4.9f}), 0); /* 5; not 10 / 32 */
    assert_int_equal(sp_sampler_pick(&s, (float[]){10, 5.1f}), 1);
    sp_sampler_fini(&s);
}

static void tokens_leave_the_window(void **state)
{
    const float logits[] = {10, 6, 1};
    sp_sampler s = begin(penalised(2, 3), 3);
    sp_sampler_accept(&s, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sp_sampler_pick(&s, logits), 1);
        sp_sampler_accept(&s, 2);
    }
    assert_int_equal(sp_sampler_pick(&s, logits), 0); /* three others later it is forgotten */
    sp_sampler_accept(&s, 0);
    assert_int_equal(sp_sampler_pick(&s, logits), 1); /* and remembered again */
    sp_sampler_fini(&s);
}

static void a_penalty_of_one_or_no_window_is_none(void **state)
{
    const float logits[] = {10, 9.99f};
    sp_sampler one = begin(penalised(1, 8), 2), none = begin(penalised(5, 0), 2);
    for (int i = 0; i < 20; i++) {
        sp_sampler_accept(&one, 0);
        sp_sampler_accept(&none, 0);
    }
    assert_int_equal(sp_sampler_pick(&one, logits), 0);
    assert_int_equal(sp_sampler_pick(&none, logits), 0);
    sp_sampler_fini(&one);
    sp_sampler_fini(&none);
}

static void foreign_ids_in_the_window_do_no_harm(void **state)
{
    sp_sampler s = begin(penalised(2, 4), 2);
    sp_sampler_accept(&s, -1);
    sp_sampler_accept(&s, 2);
    sp_sampler_accept(&s, INT32_MAX);
    assert_int_equal(sp_sampler_pick(&s, (float[]){3, 2}), 0);
    sp_sampler_fini(&s);
}

static void the_penalty_comes_before_the_limits(void **state)
{
    sp_sampling p = plain(1);
    p.repeat_penalty = 4;
    p.top_k = 1;
    sp_sampler s = begin(p, 3);
    sp_sampler_accept(&s, 0);
    for (int i = 0; i < 50; i++) assert_int_equal(sp_sampler_pick(&s, (float[]){8, 3, 1}), 1);
    sp_sampler_fini(&s);
}

static void the_window_is_as_long_as_it_says(void **state)
{
    sp_sampler s = begin(penalised(2, 3), 3);
    sp_sampler_accept(&s, 1);
    sp_sampler_accept(&s, 1);
    sp_sampler_accept(&s, 2);
    assert_int_equal(sp_sampler_pick(&s, (float[]){6, 1, 10}), 0); /* 10 / 2 = 5 */
    sp_sampler_fini(&s);
}

static void the_window_holds_no_more_than_it_says(void **state)
{
    sp_sampler s = begin(penalised(2, 3), 3);
    for (int i = 0; i < 7; i++) sp_sampler_accept(&s, 1);
    assert_int_equal(s.n_recent, 3);
    assert_int_equal(s.next_recent, 1);
    sp_sampler_fini(&s);
}

/* -- biases and uses in the answer ----------------------------------------------------------- */

static void biases_are_added_and_banned_tokens_are_not_chosen(void **state)
{
    const sp_logit_bias bias[] = {{1, 5}, {2, -INFINITY}};
    const int32_t banned[] = {1};
    const float logits[] = {3, -1, 9};
    sp_sampling p = plain(0);
    p.bias = bias;
    p.n_bias = 2;
    sp_sampler s = begin(p, 3);
    assert_int_equal(sp_sampler_pick(&s, logits), 1); /* 3, 4, never */
    s.banned = banned;
    s.n_banned = 1;
    assert_int_equal(sp_sampler_pick(&s, logits), 0);
    sp_sampler_fini(&s);
    const sp_logit_bias bad[] = {{-1, 1}, {3, 1}, {0, NAN}};
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        p.bias = &bad[i];
        p.n_bias = 1;
        assert_fails(sp_sampler_init(&s, &p, 3), SP_E_ARG, "logit bias 0");
    }
}

/* The frequency penalty counts for each use, the presence penalty once; only uses in the answer do. */
static void uses_in_the_answer_are_penalised(void **state)
{
    sp_sampling p = plain(0);
    p.frequency_penalty = 1;
    p.presence_penalty = 0.5f;
    p.repeat_last = 0;
    sp_sampler s = begin(p, 2);
    /* 10, used 0 to 3 times, is between these */
    static const float others[][2] = {{9.9f, 10.1f}, {8.4f, 8.6f}, {7.4f, 7.6f}, {6.4f, 6.6f}};
    for (int used = 0; used < 4; used++) {
        sp_sampler_accept(&s, 0); /* of the prompt */
        for (int more = 0; more < 2; more++)
            assert_int_equal(sp_sampler_pick(&s, (float[]){10, others[used][more]}), more);
        assert_true(sp_sampler_answer(&s, 0) && sp_sampler_answer(&s, -1) && sp_sampler_answer(&s, 2));
    }
    sp_sampler_fini(&s);
}

/* -- logprobs --------------------------------------------------------------------------------- */

static void logprobs_are_those_of_all_tokens(void **state)
{
    const float logits[] = {1, NAN, 3, 1, -INFINITY};
    const double norm = log(exp(1) + exp(3) + exp(1));
    sp_sampler s = begin(plain(1), 5);
    sp_token_logprob out[6];
    sp_sampler_logprobs(&s, logits, 3, 5, out);
    const int32_t ids[] = {3, 2, 0, 3, 4, -1}; /* the chosen one, the best, of equals the lower id, none */
    for (int i = 0; i < 6; i++) {
        assert_int_equal(out[i].id, ids[i]);
        const double want = ids[i] < 0 ? -INFINITY : (double)logits[ids[i]] - norm;
        assert_true(out[i].logprob == (float)want || fabs((double)out[i].logprob - want) < 1e-6);
    }
    sp_sampler_logprobs(&s, logits, 0, 2, out);
    assert_int_equal(out[0].id, 0);
    assert_int_equal(out[1].id, 2);
    assert_int_equal(out[2].id, 0);
    sp_sampler_logprobs(&s, logits, 2, 0, out);
    assert_int_equal(out[0].id, 2);
    assert_int_equal(out[1].id, 2); /* untouched */
    sp_sampler_fini(&s);
}

/* -- parameters ----------------------------------------------------------------------------- */

static void refuse(sp_sampling p, const char *name)
{
    sp_sampler s = {.n_vocab = 99};
    assert_fails(sp_sampler_init(&s, &p, 10), SP_E_ARG, name);
    assert_int_equal(s.n_vocab, 99);
    assert_null(s.heap);
}

static void parameters_out_of_range_are_named(void **state)
{
    sp_sampling p = plain(1);
#define REFUSE(field, value, name)                                                                 \
    do {                                                                                           \
        sp_sampling bad = p;                                                                       \
        bad.field = value;                                                                         \
        refuse(bad, name);                                                                         \
    } while (0)
    REFUSE(temperature, -0.1f, "temperature -0.1");
    REFUSE(temperature, NAN, "temperature");
    REFUSE(temperature, INFINITY, "temperature");
    REFUSE(top_k, -1, "top-k -1");
    REFUSE(top_p, 0, "top-p 0");
    REFUSE(top_p, 1.01f, "top-p 1.01");
    REFUSE(top_p, NAN, "top-p");
    REFUSE(min_p, -0.5f, "min-p -0.5");
    REFUSE(min_p, 1.5f, "min-p 1.5");
    REFUSE(min_p, NAN, "min-p");
    REFUSE(repeat_penalty, 0, "repeat penalty 0");
    REFUSE(repeat_penalty, -1, "repeat penalty -1");
    REFUSE(repeat_penalty, INFINITY, "repeat penalty");
    REFUSE(repeat_penalty, NAN, "repeat penalty");
    REFUSE(repeat_last, -1, "repeat window -1");
#undef REFUSE
}

static void creation_survives_faults(void **state)
{
    sp_sampler s = {0};
    sp_sampling p = plain(1);
    assert_survives_faults(sp_sampler_init(&s, &p, 4), s.heap == NULL && s.recent == NULL);
    assert_in_range(sp_sampler_pick(&s, four), 0, 3);
    sp_sampler_fini(&s);
    assert_null(s.heap);
    sp_sampler_fini(&s); /* twice is harmless */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_zero_takes_the_best),
        cmocka_unit_test(logits_are_only_read),
        cmocka_unit_test(without_limits_every_token_comes),
        cmocka_unit_test(top_k_keeps_the_k_best),
        cmocka_unit_test(top_p_keeps_until_the_mass_is_reached),
        cmocka_unit_test(top_p_ends_where_the_mass_is_equal),
        cmocka_unit_test(top_p_counts_the_mass_of_the_top_k),
        cmocka_unit_test(min_p_is_relative_to_the_best),
        cmocka_unit_test(limits_come_before_temperature),
        cmocka_unit_test(a_high_temperature_reaches_the_unlikely),
        cmocka_unit_test(a_low_temperature_is_greedy),
        cmocka_unit_test(the_best_are_found_among_many),
        cmocka_unit_test(frequencies_are_the_probabilities),
        cmocka_unit_test(what_is_kept_shares_the_mass),
        cmocka_unit_test(equal_tokens_come_equally_often),
        cmocka_unit_test(one_seed_gives_one_text),
        cmocka_unit_test(nan_is_never_chosen),
        cmocka_unit_test(logits_without_a_finite_best_give_the_best),
        cmocka_unit_test(repeated_tokens_are_penalised),
        cmocka_unit_test(a_token_is_penalised_once),
        cmocka_unit_test(tokens_leave_the_window),
        cmocka_unit_test(a_penalty_of_one_or_no_window_is_none),
        cmocka_unit_test(foreign_ids_in_the_window_do_no_harm),
        cmocka_unit_test(the_penalty_comes_before_the_limits),
        cmocka_unit_test(the_window_is_as_long_as_it_says),
        cmocka_unit_test(the_window_holds_no_more_than_it_says),
        cmocka_unit_test(biases_are_added_and_banned_tokens_are_not_chosen),
        cmocka_unit_test(uses_in_the_answer_are_penalised),
        cmocka_unit_test(logprobs_are_those_of_all_tokens),
        cmocka_unit_test(parameters_out_of_range_are_named),
        cmocka_unit_test(creation_survives_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
