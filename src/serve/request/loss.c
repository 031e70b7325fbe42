/* loss.c -- handles lost keys and values: all of the device, after an error of the device in a step, when nothing in
 * its memory can be trusted; or one block, which cannot be read from the file of contexts larger than memory.
 *
 *                       the device                         a block
 *   running requests    restart                            restart if they read it, or measure as they go
 *   waiting requests    let go of what they found, and look again
 *   loads, writes       are cancelled; if the tier does    continue
 *                       not answer, they are abandoned
 *   copies              lose their blocks, even pinned     with the block, and those that continue them
 *                       ones; lower tiers keep theirs
 *
 * A restarted request loads what lower tiers have and computes the rest from its text: before its first token it
 * starts over, later it also computes its answer so far, and continues. Source: RAGCache section 6 (R8). */
#include <stdio.h>

#include "base/log.h"
#include "serve/request/request.h"

static void let_waiting_go(sp_context *c)
{
    for (sp_request *r = c->waiting.first; r; r = r->next) {
        sp_request_let_go(r);
        r->state = SP_REQ_QUEUED;
        r->loads.since_us = 0;
        r->loads.fetched_at = -1;
        if (r->loads.state == SP_LOADS_EARLY) r->loads.state = SP_LOADS_ANY;
    }
}

/* reads -- one of its plans names the block. */
static bool reads(const sp_request *r, uint32_t block)
{
    const sp_plan *const plans[] = {&r->plans.now, &r->plans.last};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < plans[k]->n_spans; i++)
            for (int32_t b = 0; b < sp_span_n_blocks(&plans[k]->spans[i]); b++)
                if (plans[k]->spans[i].blocks && plans[k]->spans[i].blocks[b] == block) return true;
    return false;
}

/* measures -- whether the request is measured: a repeated step would count twice. */
static bool measures(const sp_request *r)
{
    const sp_plan *p = &r->plans.now;
    return p->gate.after_layer || p->probe.kind != SP_PROBE_NONE || p->sparse || p->observer.look;
}

/* restart_running -- youngest first, so that they keep their order in the queue; block NULL: all. */
static void restart_running(sp_context *c, const uint32_t *block, sp_err err, const char *why)
{
    for (;;) {
        sp_request *last = NULL;
        for (sp_request *r = c->running; r; r = r->next)
            if (!block || reads(r, *block) || measures(r)) last = r;
        if (!last) return;
        sp_request_restart(last, sp_fail(err, "%s", why));
    }
}

void sp_context_lose_device(sp_context *c, sp_err err)
{
    char detail[200], why[256];
    snprintf(detail, sizeof detail, "%s", sp_error_detail());
    snprintf(why, sizeof why, "the device has lost its memory: %s", detail);
    sp_log(SP_LOG_ERROR, "%s", why);
    let_waiting_go(c);
    restart_running(c, NULL, err, why);
    sp_tiers_lose(c->tiers);
    sp_ledger_lose_pinned(c->ledger);
    sp_fail(err, "%s", detail);
}

bool sp_context_lose_block(sp_context *c, sp_err err)
{
    char why[200];
    uint32_t block;
    if (err == SP_OK || !c->offload || !sp_offload_take_damage(c->offload, &block)) return false;
    snprintf(why, sizeof why, "%s", sp_error_detail());
    sp_log(SP_LOG_WARN, "restarting the requests that read a damaged block: %s", why);
    let_waiting_go(c);
    restart_running(c, &block, err, why);
    sp_ledger_lose_block(c->ledger, block);
    return true;
}
