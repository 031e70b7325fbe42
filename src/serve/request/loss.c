/* loss.c -- the device has lost its memory: a step ended with an error of the device, and nothing that is
 * there can be trusted any more.
 *
 *   running requests    end with the error
 *   waiting requests    let go of what they found, and look again
 *   loads, writes       are cancelled; one whose tier does not answer is left to itself
 *   copies              lose their blocks, pinned ones too: the host tier and the store have what they have
 *
 * The next requests compute, and load what lower tiers have. Source: RAGCache section 6 (R8). */
#include <stdio.h>

#include "base/log.h"
#include "serve/request/request.h"

void sp_context_lose_device(sp_context *c, sp_err err)
{
    char why[200];
    snprintf(why, sizeof why, "%s", sp_error_detail());
    sp_log(SP_LOG_ERROR, "the device has lost its memory: %s", why);
    while (c->running)
        sp_request_finish(c->running, SP_FINISH_ERROR,
                          sp_fail(err, "the device has lost its memory: %s", why));
    for (sp_request *r = c->waiting.first; r; r = r->next) {
        sp_request_let_go(r);
        r->state = SP_REQ_QUEUED;
        r->loads.since_us = 0;
        r->loads.fetched_at = -1;
        if (r->loads.state == SP_LOADS_EARLY) r->loads.state = SP_LOADS_ANY;
    }
    sp_tiers_lose(c->tiers);
    sp_ledger_lose_pinned(c->ledger);
    sp_fail(err, "%s", why);
}
