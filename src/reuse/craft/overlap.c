#include "reuse/craft/overlap.h"

#include <math.h>

/* place_of -- index of an id among the segments that precede the copy now; -1: none. */
static int place_of(const sp_digest *id, const sp_digest *now, int n_now)
{
    for (int i = 0; i < n_now; i++)
        if (sp_digest_eq(id, &now[i])) return i;
    return -1;
}

/* is_first -- whether before[j] is the first with its id. */
static bool is_first(const sp_copy *c, int n_head, int j)
{
    return place_of(&c->facts.before[j], c->facts.before + n_head, j - n_head) < 0;
}

/* disorder -- gamma: the share of pairs that are in the other order now (eq. 7). */
static float disorder(const sp_copy *c, int n_head, const sp_digest *now, int n_now)
{
    int pairs = 0, discordant = 0;
    for (int a = n_head; a < c->facts.n_before; a++) {
        int place_a = place_of(&c->facts.before[a], now, n_now);
        if (place_a < 0 || !is_first(c, n_head, a)) continue;
        for (int b = a + 1; b < c->facts.n_before; b++) {
            int place_b = place_of(&c->facts.before[b], now, n_now);
            if (place_b < 0 || !is_first(c, n_head, b)) continue;
            pairs++;
            discordant += place_b < place_a;
        }
    }
    return pairs ? (float)discordant / (float)pairs : 0;
}

float sp_overlap_beta(const sp_copy *c, int n_head, const sp_digest *now, int n_now)
{
    double all = 0, common = 0;
    if (c->facts.n_before == n_head) return n_now == 0;
    for (int j = n_head; j < c->facts.n_before; j++) {
        all += (double)c->facts.stats.inter[j];
        if (place_of(&c->facts.before[j], now, n_now) >= 0)
            common += (double)c->facts.stats.inter[j];
    }
    if (all <= 0) return 1; /* it looked at none of them */
    return (float)(common / all) * (1 - disorder(c, n_head, now, n_now));
}

float sp_overlap_cci(const float *inter, const int32_t *n_of, int n_before, float intra, int32_t n)
{
    double a = 0, b = (double)intra / ((double)n * n);
    for (int j = 0; j < n_before; j++)
        if (n_of[j]) a += (double)inter[j] / ((double)n * n_of[j]);
    if (b <= 0) return a > 0 ? 1 : 0.5f;
    return (float)(1 / (1 + exp(-a / b)));
}

/* -- sharing out ------------------------------------------------------------------------------ */

static double wanted(float weight, double alpha, int32_t n)
{
    return fmin(1, alpha * (double)weight) * n;
}

static double wanted_together(const float *weight, const int32_t *n, int count, double alpha)
{
    double sum = 0;
    for (int i = 0; i < count; i++) sum += wanted(weight[i], alpha, n[i]);
    return sum;
}

/* alpha_for -- by bisection: the factor that yields `target` tokens in all. */
static double alpha_for(const float *weight, const int32_t *n, int count, double target)
{
    double low = 0, high = 1;
    while (high < 1e9 && wanted_together(weight, n, count, high) < target) high *= 2;
    for (int step = 0; step < 60; step++) {
        double mid = (low + high) / 2;
        if (wanted_together(weight, n, count, mid) < target)
            low = mid;
        else
            high = mid;
    }
    return high;
}

/* hand_out -- distributes `left` more tokens, one at a time, to the chunk that lacks most of what it wants. */
static void hand_out(const float *weight, const int32_t *n, int count, double alpha, int32_t left,
                     int32_t *out)
{
    while (left > 0) {
        int best = -1;
        double most = -INFINITY;
        for (int i = 0; i < count; i++) {
            double lacks = wanted(weight[i], alpha, n[i]) - out[i];
            if (weight[i] > 0 && out[i] < n[i] && lacks > most) {
                most = lacks;
                best = i;
            }
        }
        if (best < 0) return;
        out[best]++;
        left--;
    }
}

void sp_overlap_share(const float *weight, const int32_t *n, int count, float alpha, float share,
                      int32_t *out)
{
    if (alpha > 0) {
        for (int i = 0; i < count; i++)
            out[i] = (int32_t)ceil(wanted(weight[i], (double)alpha, n[i]));
        return;
    }
    int64_t all = 0;
    for (int i = 0; i < count; i++) all += n[i];
    if (share >= 1) {
        for (int i = 0; i < count; i++) out[i] = n[i];
        return;
    }
    int32_t target = (int32_t)ceilf(share * (float)all), given = 0;
    double factor = alpha_for(weight, n, count, target);
    for (int i = 0; i < count; i++) {
        out[i] = (int32_t)floor(wanted(weight[i], factor, n[i]) + 1e-9);
        given += out[i];
    }
    hand_out(weight, n, count, factor, target - given, out);
}
