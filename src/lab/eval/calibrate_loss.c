/* calibrate_loss.c -- the choice by likelihood: see calibrate.h. */
#include <math.h>
#include <stdio.h>

#include "lab/eval/calibrate.h"

calibrated_loss calibrate_loss(const calibrating *c, int setting)
{
    const eval_more_of of = {(size_t)c->settings.n, (size_t)setting, c->passages ? ROW_KL_ALL : ROW_NLL};
    const eval_interval more = eval_more_interval(c->rows, (size_t)c->in.n_questions, &of, NULL);
    const double nll = c->sums[0].nll, mean = c->passages ? c->sums[setting].kl_all : c->sums[setting].nll_more;
    return (calibrated_loss){mean / nll, more.low / nll, more.high / nll};
}

/* amount_of -- what a setting is named by. */
static double amount_of(const calibrating *c, int setting)
{
    const eval_setting *v = &c->settings.v[setting];
    return c->alphas ? v->amount : (double)v->reuse.recompute;
}

static void print_losses(const calibrating *c, int chosen)
{
    printf("%d %s, %s; NLL of full attention %.3f\n%12s %11s %8s %18s %9s\n", c->in.n_questions,
           c->passages ? "passages" : "questions", c->policy, c->sums[0].nll, c->alphas ? "alpha" : "recompute",
           "recomputed", "loss", "95 % interval", "off/this");
    for (int s = CALIBRATE_NONE; s < c->settings.n; s++) {
        const calibrated_loss lost = calibrate_loss(c, s);
        printf("%12.4g %9.1f %% %6.2f %% %7.2f to %5.2f %% %8.1fx%s\n",
               amount_of(c, s), c->sums[s].recomputed * 100, lost.mean * 100, lost.low * 100, lost.high * 100,
               c->sums[s].speedup, s == chosen ? "  <-" : "");
    }
}

/* least -- the policy's setting with the least recomputation that loses little enough; 0: none. */
static int least(const calibrating *c, bool certain)
{
    int best = 0;
    for (int s = CALIBRATE_NONE; s < c->settings.n; s++) {
        const calibrated_loss lost = calibrate_loss(c, s);
        const double most = certain ? lost.high : lost.mean;
        if (most <= (double)c->loss && (!best || c->sums[s].recomputed < c->sums[best].recomputed)) best = s;
    }
    return best;
}

/* needed -- about how many questions show that a setting loses little enough; very many if its mean does not. */
static double needed(const calibrating *c, int setting)
{
    const calibrated_loss lost = calibrate_loss(c, setting);
    const double spread = (lost.high - lost.mean) / fmax((double)c->loss - lost.mean, 1e-9);
    return ceil(fmin(spread * spread, 1e4) * c->in.n_questions);
}

/* refuse -- why nothing is chosen, and what would help: more questions for the least amount, or fewer for another. */
static void refuse(const calibrating *c, int likely)
{
    char other[64] = "";
    int easiest = likely;
    const double wanted = (double)c->loss;
    if (!likely) {
        cli_fail_with("no share of %s loses at most %.4g %%: nothing was saved; try larger --ratios or --loss",
                      c->policy, wanted * 100);
        return;
    }
    for (int s = CALIBRATE_NONE; s < c->settings.n; s++)
        if (needed(c, s) < needed(c, easiest)) easiest = s;
    if (easiest != likely)
        snprintf(other, sizeof other, ", %.4g about %.0f", amount_of(c, easiest), needed(c, easiest));
    cli_fail_with("a loss of at most %.4g %% cannot be told apart from chance with %d %s: nothing was saved; "
                  "%s %.4g of %s needs about %.0f of them (--force saves it all the same)%s",
                  wanted * 100, c->in.n_questions, c->passages ? "passages" : "questions",
                  c->alphas ? "alpha" : "recompute", amount_of(c, likely), c->policy, needed(c, likely), other);
}

int calibrate_choose(const calibrating *c)
{
    const int likely = least(c, false);
    int chosen = least(c, true);
    if (!chosen && c->force) chosen = likely;
    print_losses(c, chosen);
    if (!chosen) refuse(c, likely);
    return chosen;
}
