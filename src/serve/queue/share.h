/* share.h -- how much each tenant has been served, so that none starves the others.
 *
 * A virtual counter for each tenant: computed tokens of prompts, plus twice the generated ones, as a
 * generated token takes a step of its own. The tenant with the lowest counter is next. After a
 * pause, a tenant's counter is raised to the lowest of the active ones, so that it cannot save
 * up. Source: Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, algorithm 2.
 * Thread: the context's.
 */
#ifndef SP_SERVE_SHARE_H
#define SP_SERVE_SHARE_H

#include "base/err.h"

enum { SP_SHARES_IDLE = 256 }; /* remembered tenants without requests */

typedef struct sp_share sp_share;
typedef struct sp_shares {
    sp_share *first;
    int n_idle;
} sp_shares;

/* sp_shares_join -- a request of this tenant (NULL: the unnamed one) enters the queue.
 * Errors: SP_E_NOMEM. */
sp_err sp_shares_join(sp_shares *s, const char *tenant, sp_share **out) SP_MUST_CHECK;
/* sp_shares_leave -- a request is finished. NULL is allowed. */
void sp_shares_leave(sp_shares *s, sp_share *share);
/* sp_share_serve -- tokens were computed for it. NULL is allowed. */
void sp_share_serve(sp_share *share, int n_prompt, int n_generated);
double sp_share_served(const sp_share *share);
void sp_shares_fini(sp_shares *s);

#endif
