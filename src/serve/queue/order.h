/* order.h -- which waiting request starts next. Pure: it reads sp_waiting only.
 *
 *   1. priority    the lowest number
 *   2. tenant      of those, requests of the tenant that was served least (serve/queue/share.h)
 *   3. own         of those, the lowest own priority: it orders a tenant's requests among themselves
 *   4. overtaken   of those, the oldest that `window` later requests have overtaken, or that has waited too long
 *   5. order       otherwise the highest score of those that are not deferred; of equal scores the oldest
 *
 * Rule 4 limits how long a request waits for better cached requests of its tenant. If the rules choose a
 * deferred request, none starts in this step, so that the window holds for it, too.
 * Source: RAGCache section 5.2 (R5); DepCache section 6.4.2 (D7).
 */
#ifndef SP_SERVE_ORDER_H
#define SP_SERVE_ORDER_H

#include "base/err.h"

/* A waiting request, as the rules see it. */
typedef struct sp_waiting {
    int priority, own_priority;
    const void *tenant;
    double served;      /* its tenant's counter (share.h) */
    int32_t n_cached;   /* tokens of segments that are cached now */
    int32_t n_computed; /* tokens to compute, those to recompute included */
    int32_t n_shared;   /* leading tokens shared with another waiting request */
    int n_overtaken;    /* later requests of its class that started before it */
    bool waited;        /* it has waited too long: none of its class may start before it */
    bool deferred;      /* the next step computes a copy that it needs, too */
} sp_waiting;

typedef struct sp_queue_order {
    const char *name, *help;
    bool reads_cached, reads_shared;
    double (*score)(const sp_waiting *w); /* NULL: requests of one class keep their order */
} sp_queue_order;

/* sp_queue_order_find -- by name; NULL: the default. Errors: SP_E_ARG lists the names. */
sp_err sp_queue_order_find(const char *name, const sp_queue_order **out) SP_MUST_CHECK;
/* sp_queue_order_next -- index of the request that starts next, or -1; w [n], n > 0, from oldest to newest. */
int sp_queue_order_next(const sp_queue_order *o, const sp_waiting *w, int n, int window);
/* sp_queue_order_overtakes -- notes that w[next] starts before older requests. */
void sp_queue_order_overtakes(sp_waiting *w, int next);

#endif
