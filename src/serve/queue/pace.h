/* pace.h -- estimates the time to compute a prompt on this machine.
 *
 *   us of a prompt's tokens = token_us * (number of tokens + positions that they look at / sight)
 *
 * `sight` depends on the model's shape. token_us is a guess from a few layers (serve/request/guess.c) until steps have
 * measured it: the lower quartile of recent steps, since steps that read weights from a disk, compute few tokens or
 * share the machine take longer per token, and none takes less. Pure: time is passed in. */
#ifndef SP_SERVE_PACE_H
#define SP_SERVE_PACE_H

#include "model/model.h"

enum { SP_PACE_STEPS = 16 };

typedef struct sp_pace {
    double token_us; /* of a token that looks at nothing; 0: unknown */
    double sight;    /* positions whose attention costs as much as the rest of a token; 0: infinitely many */
    bool measured;   /* in steps */
    double each_us[SP_PACE_STEPS]; /* token_us of the last steps, a ring ... */
    int64_t n;                     /* ... that has had n values so far */
} sp_pace;

/* sp_pace_sight -- a model's multiply-adds with weights, divided by those of attention to one position. Layers with a
 * window count as without attention. Pre: the layers are loaded. */
double sp_pace_sight(const sp_model *m);

/* sp_pace_guess -- n tokens at positions 0 .. n-1 would take us; ignored once it is measured. */
void sp_pace_guess(sp_pace *p, int n, double us);
/* sp_pace_learn -- n tokens of prompts, whose positions sum up to `positions`, took us. */
void sp_pace_learn(sp_pace *p, int n, double positions, double us);
/* sp_pace_us -- time of a prompt of n tokens without reuse, computed alone; 0: unknown. */
double sp_pace_us(const sp_pace *p, int n);

#endif
