/* cost.h -- what computing tokens costs: T(cached, new), the time of a prefill of `new` tokens after
 * `cached` ones that are not computed. Measured on a grid by `spolia profile`; between the points of
 * the grid bilinear, beyond its ends linear. Source: RAGCache section 5.1 (R2).
 */
#ifndef SP_CACHE_COST_H
#define SP_CACHE_COST_H

#include "base/mem.h"

enum { SP_COST_AXIS = 16 }; /* most points of an axis */

typedef struct sp_cost {
    int n_cached, n_new;                    /* points, at least 2 */
    int32_t cached[SP_COST_AXIS];           /* ascending, from 0 */
    int32_t fresh[SP_COST_AXIS];            /* ascending, from 1 */
    double us[SP_COST_AXIS * SP_COST_AXIS]; /* [n_cached, n_new] */
} sp_cost;

/* sp_cost_read -- a profile that `spolia profile` wrote. Errors: SP_E_IO; SP_E_FORMAT names the file
 * and the field. */
sp_err sp_cost_read(const char *path, sp_cost *out) SP_MUST_CHECK;

/* sp_cost_us -- microseconds, at least 0. p NULL: the default, in a unit of its own: one for a
 * token, and one more for each 8,192 that it looks at. Policies compare costs, so the unit does not
 * matter to them. */
double sp_cost_us(const sp_cost *p, int32_t cached, int32_t fresh);

#endif
