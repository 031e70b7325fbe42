/* pace.h -- what computing a prompt takes here, in time, before it is computed.
 *
 *   us of a prompt's tokens = token_us * (how many + positions that they look at / sight)
 *
 * The model's shape decides `sight`. token_us is guessed from a few layers (serve/request/guess.c) until steps have
 * shown it: the lower quartile of the last ones, since a step that reads weights from a disk, computes a few tokens or
 * shares the machine takes longer than those of a long prompt, and none takes less. Pure: time is passed in. */
#ifndef SP_SERVE_PACE_H
#define SP_SERVE_PACE_H

#include "model/model.h"

enum { SP_PACE_STEPS = 16 };

typedef struct sp_pace {
    double token_us; /* of a token that looks at nothing; 0: unknown */
    double sight;    /* positions whose attention costs as much as the rest of a token; 0: infinitely many */
    bool measured;   /* by steps */
    double each_us[SP_PACE_STEPS]; /* token_us as the last steps show it, in a ring ... */
    int64_t n;                     /* ... of which so many were put in */
} sp_pace;

/* sp_pace_sight -- of a model: the multiply-adds with weights by those that a position costs in attention. Layers with
 * a window count as if they looked at nothing. Pre: the layers are loaded. */
double sp_pace_sight(const sp_model *m);

/* sp_pace_guess -- n tokens at positions 0 .. n-1 would take us; ignored once steps have shown it. */
void sp_pace_guess(sp_pace *p, int n, double us);
/* sp_pace_learn -- n tokens of prompts, whose positions sum up to `positions`, took us. */
void sp_pace_learn(sp_pace *p, int n, double positions, double us);
/* sp_pace_us -- of a prompt of n tokens, nothing of which is reused, alone; 0: unknown. */
double sp_pace_us(const sp_pace *p, int n);

#endif
