/* rope_spec.c -- frequencies of rotary positions: the angle of pair i at position p is p *
 * freq[i]. */
#include <math.h>

#include "model/config.h"

#define TWO_PI 6.283185307179586476925286766559

/* Llama 3.1: wavelengths above trained_ctx / low are stretched by `factor`, those below
 * trained_ctx / high are kept; between them, frequencies are interpolated linearly in
 * 1 / wavelength. */
static double llama3(const sp_rope_config *c, double freq)
{
    double turns = c->trained_ctx * freq / TWO_PI; /* of this pair within the trained context */
    if (turns < c->low) return freq / c->factor;
    if (turns > c->high) return freq;
    double keep = (turns - c->low) / (c->high - c->low);
    return (1 - keep) * freq / c->factor + keep * freq;
}

/* The index (a real number) of the pair that makes `turns` turns within the trained context. */
static double pair_of_turns(const sp_rope_config *c, double turns)
{
    return c->n_rot * log(c->trained_ctx / (turns * TWO_PI)) / (2 * log(c->base));
}

/* YaRN: pairs with more than beta_fast turns are kept, those with fewer than beta_slow
 * stretched. */
static double yarn(const sp_rope_config *c, int pair, double freq)
{
    double first = pair_of_turns(c, c->beta_fast), last = pair_of_turns(c, c->beta_slow);
    if (!c->exact_ramp) {
        first = floor(first);
        last = ceil(last);
    }
    first = fmax(first, 0);
    last = fmin(last, c->n_rot - 1);
    double stretch = fmin(fmax((pair - first) / fmax(last - first, 0.001), 0), 1);
    return stretch * freq / c->factor + (1 - stretch) * freq;
}

void sp_rope_fill(const sp_rope_config *c, const float *factors, bool adjacent, sp_rope_spec *out)
{
    for (int i = 0; i < c->n_rot / 2; i++) {
        double freq = pow(c->base, -2.0 * i / c->n_rot);
        if (factors) freq /= (double)factors[i];
        if (c->scaling == SP_ROPE_LONG && !factors) freq /= (double)c->short_factor[i];
        if (c->scaling == SP_ROPE_LINEAR) freq /= c->factor;
        if (c->scaling == SP_ROPE_LLAMA3) freq = llama3(c, freq);
        if (c->scaling == SP_ROPE_YARN) freq = yarn(c, i, freq);
        out->freq[i] = (float)freq;
    }
    out->n_rot = c->n_rot;
    out->adjacent = adjacent;
    const bool yarn_alone = c->attention == 0 && c->scaling == SP_ROPE_YARN;
    out->magnitude = c->attention > 0 ? (float)c->attention : 1;
    if (yarn_alone) out->magnitude = (float)(1 + 0.1 * log(fmax(c->factor, 1)));
}
