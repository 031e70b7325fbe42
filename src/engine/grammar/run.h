/* run.h -- runs the automaton of a grammar over bytes. */
#ifndef SP_ENGINE_GRAMMAR_RUN_H
#define SP_ENGINE_GRAMMAR_RUN_H

#include "engine/grammar/grammar_int.h"

enum { SP_GRAM_DEAD = -1, SP_GRAM_UNKNOWN = -2 };

/* What a state may read, for masks. */
typedef struct sp_gram_state {
    int32_t first, n; /* its configurations */
    int32_t next;     /* state of its bucket; -1: none */
    int32_t n_chars;  /* plain characters of a JSON string that may come; -1: any number */
    bool only_chars;  /* it reads characters of JSON strings and quotes, nothing else */
    bool complete;    /* the text may end */
} sp_gram_state;

typedef struct sp_gram_config sp_gram_config;
typedef struct sp_gram_cell sp_gram_cell;
typedef struct sp_gram_visit sp_gram_visit;

typedef struct sp_gram_run {
    const sp_grammar *g;
    sp_gram_state *states; /* [n_states] */
    int16_t *to;           /* [n_states, classes]: a state, DEAD or UNKNOWN */
    int32_t n_states, n_configs, n_cells;
    bool full; /* there was no room for a new state */
    /* for run.c */
    sp_gram_config *configs, *todo; /* of all states; those still to follow */
    sp_gram_cell *cells;
    sp_gram_visit *visits; /* [n_visits] configurations visited in this step */
    int16_t *slots;        /* of a hash table: numbers of visits */
    int32_t n_visits;
    int32_t *state_buckets, *cell_buckets;
} sp_gram_run;

/* sp_gram_run_init -- state 0 is the beginning of a text; g is borrowed. Owns: sp_gram_run_fini. */
sp_err sp_gram_run_init(sp_gram_run *r, const sp_grammar *g) SP_MUST_CHECK;
void sp_gram_run_fini(sp_gram_run *r);

/* sp_gram_find -- as sp_gram_step, for a new step. Cost: O(configurations). */
int32_t sp_gram_find(sp_gram_run *r, int32_t state, uint8_t b);

/* sp_gram_step -- the state after byte b; DEAD: b is not allowed, or `full` was set. Allocates nothing. */
static inline int32_t sp_gram_step(sp_gram_run *r, int32_t state, uint8_t b)
{
    int32_t to = r->to[state * r->g->n_classes + r->g->class_of[b]];
    return to == SP_GRAM_UNKNOWN ? sp_gram_find(r, state, b) : to;
}

/* sp_gram_forget -- drops all states but this one, which becomes state 0. */
void sp_gram_forget(sp_gram_run *r, int32_t state);

#endif
