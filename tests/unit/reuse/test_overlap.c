/* test_overlap.c -- how well a copy serves behind other chunks, and how much of it is mended:
 * worked examples of Cache-Craft's equations 6 to 12, and what must hold of every sharing out. */
#include <math.h>

#include "support/check.h"

#include "reuse/craft/overlap.h"

enum { HEAD = 2, MAX = 12 };

/* id -- of the chunk named by a letter; the head is "HH". */
static sp_digest id(char name)
{
    return (sp_digest){{(uint8_t)name, 1}};
}

static int ids(const char *names, sp_digest *out)
{
    int n = 0;
    for (; names[n]; n++) out[n] = id(names[n]);
    return n;
}

/* beta -- of a copy computed behind the head and `then`, with these inter attentions, when `now`
 * stands before it. */
static double beta(const char *then, const float *inter, const char *now)
{
    sp_digest before[MAX] = {id('H'), id('I')}, here[MAX];
    float all[MAX] = {100, 50}; /* the head does not count */
    int n = ids(then, before + HEAD), n_now = ids(now, here);
    for (int i = 0; i < n; i++) all[HEAD + i] = inter[i];
    sp_copy_stats stats = {.inter = all};
    sp_copy v = {.facts.before = before, .facts.n_before = HEAD + n, .facts.stats = stats};
    return (double)sp_overlap_beta(&v, HEAD, here, n_now);
}

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6)) fail_msg("%.9g, not %.9g", got, want);
}

/* -- beta' ---------------------------------------------------------------------------------- */

static void overlap_is_the_attention_that_still_precedes(void **state)
{
    static const float inter[] = {1, 2, 5, 2};
    assert_near(beta("ABCD", inter, "ABCD"), 1);
    assert_near(beta("ABCD", inter, "ABC"), 0.8);
    assert_near(beta("ABCD", inter, "AC"), 0.6);
    assert_near(beta("ABCD", inter, "C"), 0.5);
    assert_near(beta("ABCD", inter, "AXBYCZD"), 1); /* strangers do not hurt */
    assert_near(beta("ABCD", inter, "XYZ"), 0);
    assert_near(beta("ABCD", inter, ""), 0);
    assert_near(beta("", inter, ""), 1);
    assert_near(beta("", inter, "A"), 0);
    assert_near(beta("AB", (float[]){0, 0}, "XY"), 1); /* it has looked at none of them */
}

/* Kendall's tau distance over the chunks that stand before it then and now. */
static void another_order_is_a_penalty(void **state)
{
    static const float even[] = {1, 1, 1, 1};
    assert_near(beta("ABCD", even, "DCBA"), 0); /* all pairs are discordant */
    assert_near(beta("ABCD", even, "BACD"), 1 - 1 / 6.);
    assert_near(beta("ABCD", even, "BADC"), 1 - 2 / 6.);
    assert_near(beta("ABCD", even, "DABC"), 1 - 3 / 6.);
    assert_near(beta("AB", even, "BA"), 0);
    assert_near(beta("ABCD", even, "CXA"), 0);        /* of two, the one pair has turned */
    assert_near(beta("ABCD", even, "BCA"), 0.75 / 3); /* two of three pairs have turned */
    assert_near(beta("ABCD", even, "DXA"), 0);
    assert_near(beta("ABCD", even, "D"), 0.25); /* of one, no pair */
}

static void the_same_chunk_may_come_twice(void **state)
{
    static const float inter[] = {1, 1, 2};
    assert_near(beta("ABA", inter, "ABA"), 1);
    assert_near(beta("ABA", inter, "AB"), 1); /* it is there, once or twice */
    assert_near(beta("ABA", inter, "BA"), 0); /* the first ones count: A before B then */
    assert_near(beta("ABA", inter, "A"), 0.75);
    assert_near(beta("AAA", inter, "AA"), 1);
}

/* The definition once more, as plainly as can be, for random orders. */
static void beta_of_random_orders_is_the_definition(void **state)
{
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        char then[MAX] = {0}, now[MAX] = {0};
        float inter[MAX];
        int place[26], n = 0, n_now = 0, pairs = 0, turned = 0;
        double all = 0, common = 0;
        for (int c = 0; c < 8; c++) place[c] = -1;
        for (int c = 0; c < 8; c++)
            if (check_random(&seed, 2)) then[n++] = (char)('A' + c);
        for (int i = n - 1; i > 0; i--) { /* in random order */
            int k = check_random(&seed, i + 1);
            char t = then[i];
            then[i] = then[k], then[k] = t;
        }
        for (int c = 7; c >= 0; c--)
            if (check_random(&seed, 3)) place[c] = n_now, now[n_now++] = (char)('A' + c);
        for (int i = 0; i < n; i++) {
            inter[i] = (float)(1 + check_random(&seed, 100));
            all += (double)inter[i];
            if (place[then[i] - 'A'] < 0) continue;
            common += (double)inter[i];
            for (int k = 0; k < i; k++)
                if (place[then[k] - 'A'] >= 0) {
                    pairs++;
                    turned += place[then[k] - 'A'] > place[then[i] - 'A'];
                }
        }
        double want = n == 0 ? n_now == 0 : common / all * (1 - (pairs ? 1. * turned / pairs : 0));
        assert_near(beta(then, inter, now), want);
    }
}

/* -- CCI ------------------------------------------------------------------------------------ */

static double cci(const float *inter, const int32_t *n_of, int n, float intra, int32_t size)
{
    return (double)sp_overlap_cci(inter, n_of, n, intra, size);
}

static void cci_is_that_of_the_paper(void **state)
{
    /* a = 2 / (10 20) + 3 / (10 5) = 0.07, b = 5 / 100 = 0.05 */
    static const float inter[] = {9, 2, 3};
    static const int32_t n_of[] = {0, 20, 5}; /* the head has no tokens that count */
    assert_near(cci(inter, n_of, 3, 5, 10), 1 / (1 + exp(-1.4)));
    assert_near(cci(inter, n_of, 1, 5, 10), 0.5);
    assert_near(cci(inter, n_of, 0, 5, 10), 0.5); /* nothing before it */
    assert_near(cci((float[]){0}, (int32_t[]){7}, 1, 5, 10), 0.5);
    assert_near(cci(inter, n_of, 3, 0, 10), 1); /* it has looked at nothing else */
    assert_near(cci(inter, n_of, 0, 0, 10), 0.5);
    assert_near(cci((float[]){1e30f}, (int32_t[]){1}, 1, 1e-30f, 1), 1);
}

/* -- sharing out ---------------------------------------------------------------------------- */

static int64_t sum_of(const int32_t *v, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    return sum;
}

static void share(const float *weight, const int32_t *n, int count, float alpha, float r,
                  int32_t *out)
{
    for (int i = 0; i < count; i++) out[i] = -7;
    sp_overlap_share(weight, n, count, alpha, r, out);
    for (int i = 0; i < count; i++) assert_in_range(out[i], 0, n[i]);
}

static void alpha_counts_chunk_by_chunk(void **state)
{
    static const float weight[] = {0, 0.5f, 0.25f, 1, 0.001f};
    static const int32_t n[] = {10, 10, 7, 9, 3};
    int32_t out[5];
    share(weight, n, 5, 1, 0.9f, out); /* whatever the share */
    assert_memory_equal(out, ((int32_t[]){0, 5, 2, 9, 1}), sizeof out);
    share(weight, n, 5, 0.1f, 0, out);
    assert_memory_equal(out, ((int32_t[]){0, 1, 1, 1, 1}), sizeof out);
    share(weight, n, 5, 3, 0, out);
    assert_memory_equal(out, ((int32_t[]){0, 10, 6, 9, 1}), sizeof out);
    share(weight, n, 5, 1e6f, 0, out);
    assert_memory_equal(out, ((int32_t[]){0, 10, 7, 9, 3}), sizeof out);
}

static void a_share_is_dealt_by_weight(void **state)
{
    int32_t out[4];
    share((float[]){0.5f, 0.5f}, (int32_t[]){10, 10}, 2, 0, 0.5f, out);
    assert_memory_equal(out, ((int32_t[]){5, 5}), 2 * sizeof *out);
    share((float[]){0.6f, 0.3f}, (int32_t[]){10, 10}, 2, 0, 0.3f, out);
    assert_memory_equal(out, ((int32_t[]){4, 2}), 2 * sizeof *out);
    share((float[]){0.6f, 0.3f}, (int32_t[]){10, 20}, 2, 0, 0.2f, out);
    assert_memory_equal(out, ((int32_t[]){3, 3}), 2 * sizeof *out);
    share((float[]){0.9f, 0.1f}, (int32_t[]){4, 100}, 2, 0, 0.5f, out); /* the first one is full */
    assert_memory_equal(out, ((int32_t[]){4, 48}), 2 * sizeof *out);
    share((float[]){0.5f, 0.5f, 0.5f}, (int32_t[]){10, 10, 10}, 3, 0, 1 / 30.f, out);
    assert_memory_equal(out, ((int32_t[]){1, 0, 0}), 3 * sizeof *out); /* of equals the first */
}

static void shares_of_nothing_and_all_are_exact(void **state)
{
    static const float weight[] = {0.4f, 0, 0.9f};
    static const int32_t n[] = {10, 5, 0};
    int32_t out[3];
    share(weight, n, 3, 0, 0, out);
    assert_int_equal(sum_of(out, 3), 0);
    share(weight, n, 3, 0, 1, out);
    assert_memory_equal(out, n, sizeof out); /* all means all, also where nothing is needed */
    share(weight, n, 0, 0, 0.5f, out);
    share((float[]){0, 0, 0}, (int32_t[]){10, 5, 7}, 3, 0, 0.5f, out); /* nobody needs any */
    assert_int_equal(sum_of(out, 3), 0);
    share((float[]){0, 0.1f, 0}, (int32_t[]){10, 5, 7}, 3, 0, 0.5f, out);
    assert_memory_equal(out, ((int32_t[]){0, 5, 0}), sizeof out);
}

/* Exactly ceil(share * n) together, as far as chunks need any; never more than there are; who
 * weighs more of the same size gets no fewer. */
static void a_share_is_always_kept(void **state)
{
    static const float shares[] = {0, 0.001f, 0.05f, 0.15f, 0.3f, 0.5f, 0.8f, 0.999f, 1};
    uint64_t seed = 5;
    for (int round = 0; round < 3000; round++) {
        float weight[MAX], r = shares[check_random(&seed, SP_COUNT(shares))];
        int32_t n[MAX], out[MAX];
        int count = 1 + check_random(&seed, MAX);
        int64_t all = 0, willing = 0;
        for (int i = 0; i < count; i++) {
            int w = check_random(&seed, 6);
            weight[i] = w == 0 ? 0 : w == 1 ? 1e-7f : (float)check_random(&seed, 1000) / 999;
            n[i] = check_random(&seed, 5) ? check_random(&seed, 300) : 20;
            all += n[i];
            willing += weight[i] > 0 ? n[i] : 0;
        }
        share(weight, n, count, 0, r, out);
        int64_t want = (int64_t)ceilf(r * (float)all);
        if (r < 1) want = SP_MIN(want, willing);
        assert_int_equal(sum_of(out, count), want);
        for (int i = 0; i < count; i++)
            for (int k = 0; k < count && r < 1; k++)
                if (n[i] == n[k] && weight[i] > weight[k]) assert_true(out[i] + 1 >= out[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlap_is_the_attention_that_still_precedes),
        cmocka_unit_test(another_order_is_a_penalty),
        cmocka_unit_test(the_same_chunk_may_come_twice),
        cmocka_unit_test(beta_of_random_orders_is_the_definition),
        cmocka_unit_test(cci_is_that_of_the_paper),
        cmocka_unit_test(alpha_counts_chunk_by_chunk),
        cmocka_unit_test(a_share_is_dealt_by_weight),
        cmocka_unit_test(shares_of_nothing_and_all_are_exact),
        cmocka_unit_test(a_share_is_always_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
