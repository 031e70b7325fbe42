/* merge.h -- the loop of both BPE algorithms: repeatedly merge the cheapest adjacent pair. */
#ifndef SP_MODEL_MERGE_H
#define SP_MODEL_MERGE_H

#include "base/mem.h"

#define SP_SYMBOL_NONE UINT32_MAX

/* A piece of the text; symbols form a list in text order. */
typedef struct sp_symbol {
    uint32_t at, n;      /* bytes of the text; n = 0: merged into the symbol before it */
    int32_t id;          /* token, or -1 if the vocabulary has none */
    uint32_t prev, next; /* indexes, or SP_SYMBOL_NONE */
} sp_symbol;

/* A pair that may be merged. */
typedef struct sp_merge_pair {
    double cost;
    uint32_t left; /* index of its left symbol */
    uint32_t n;    /* bytes of both; shows whether the pair is still current when it is popped */
    int32_t id;    /* the token that it becomes */
} sp_merge_pair;

typedef struct sp_merger {
    SP_VEC(sp_symbol) symbols;
    SP_VEC(sp_merge_pair) heap;
} sp_merger;

/* sp_pair_fn -- whether these neighbours can be merged; sets the cost and id of the candidate. */
typedef bool sp_pair_fn(const void *user, const sp_symbol *left, const sp_symbol *right,
                        sp_merge_pair *out);

void sp_merger_fini(sp_merger *m);
/* sp_merger_reset -- removes all symbols but keeps the memory. */
void sp_merger_reset(sp_merger *m);
/* sp_merger_add -- appends a symbol. Errors: SP_E_NOMEM, SP_E_LIMIT. */
sp_err sp_merger_add(sp_merger *m, uint32_t at, uint32_t n, int32_t id) SP_MUST_CHECK;
/* sp_merger_run -- merges until no pair can be merged: the cheapest first, the leftmost of equals.
 * The result is the list from symbols.v[0] along `next`. Cost: O(n log n). Errors: SP_E_NOMEM. */
sp_err sp_merger_run(sp_merger *m, sp_pair_fn *pair, const void *user) SP_MUST_CHECK;

#endif
