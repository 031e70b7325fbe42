/* tiers.h -- the tiers of a context, for tests. */
#ifndef SP_TESTS_TIERS_H
#define SP_TESTS_TIERS_H

#include "serve/tiers/tiers_int.h"

/* tiers_rest -- waits until nothing is under way. */
static inline void tiers_rest(sp_tiers *t)
{
    while (sp_tiers_is_busy(t)) sp_tiers_wait_for(t, 10000000);
}

#endif
