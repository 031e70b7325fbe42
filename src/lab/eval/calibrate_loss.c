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

static void print_losses(const calibrating *c, int chosen)
{
    printf("%d %s, %s; NLL of full attention %.3f\n%12s %11s %8s %18s %9s\n", c->in.n_questions,
           c->passages ? "passages" : "questions", c->policy, c->sums[0].nll, c->alphas ? "alpha" : "recompute",
           "recomputed", "loss", "95 % interval", "off/this");
    for (int s = CALIBRATE_NONE; s < c->settings.n; s++) {
        const eval_setting *v = &c->settings.v[s];
        const calibrated_loss lost = calibrate_loss(c, s);
        printf("%12.4g %9.1f %% %6.2f %% %7.2f to %5.2f %% %8.1fx%s\n",
               c->alphas ? v->amount : (double)v->reuse.recompute,
               c->sums[s].recomputed * 100, lost.mean * 100, lost.low * 100, lost.high * 100, c->sums[s].speedup,
               s == chosen ? "  <-" : "");
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

/* refuse -- why nothing is chosen, and what would help. */
static void refuse(const calibrating *c, int likely)
{
    const double wanted = (double)c->loss;
    if (!likely) {
        cli_fail_with("no share of %s loses at most %.4g %%: nothing was saved; try larger --ratios or --loss",
                      c->policy, wanted * 100);
        return;
    }
    const calibrated_loss lost = calibrate_loss(c, likely);
    const eval_setting *v = &c->settings.v[likely];
    const double spread = (lost.high - lost.mean) / fmax(wanted - lost.mean, 1e-9);
    cli_fail_with("a loss of at most %.4g %% cannot be told apart from chance with %d %s: nothing was saved; "
                  "%s%.4g of %s needs about %.0f of them (--force saves it all the same)",
                  wanted * 100, c->in.n_questions, c->passages ? "passages" : "questions",
                  c->alphas ? "alpha " : "", c->alphas ? v->amount : (double)v->reuse.recompute, c->policy,
                  ceil(fmin(spread * spread, 1e4) * c->in.n_questions));
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
