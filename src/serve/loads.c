/* loads.c -- copies come to the device from the highest tier that has them.
 *
 *   begin ---> get (host) ---> there ---> acknowledged: READY
 *     |          | not there, damaged
 *     |          v
 *     +------> get (disk) ---> there      an error of the device is tried again, TRIES times in all
 *                | cancelled, damaged, gone
 *                v
 *              FREE: a miss
 *
 * The tiers read on threads of their own; what has arrived is acknowledged on the engine thread, a
 * path copy after the one that it continues. A load pins its copy until then. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/tiers_int.h"

enum { TRIES = 3 };

struct sp_load {
    sp_move move; /* first */
    sp_io_job job;
    sp_tiers *tiers;
    const sp_copy *copy; /* pinned by the ledger's load */
    sp_digest *head;     /* [n_head] own */
    sp_tier_op *op;
    sp_place from;
    int n_tries;
    int64_t now, begun_us;
    bool cancelled;
    bool arrived; /* done, and not acknowledged */
    sp_load *next;
};

static sp_load *load_of(sp_io_job *job)
{
    return (sp_load *)(void *)((char *)job - offsetof(sp_load, job));
}

/* -- a get ---------------------------------------------------------------------------------- */

/* got -- on the tier's thread. */
static void got(void *user, sp_tier_op *op)
{
    sp_load *x = user;
    x->job.err = sp_tier_op_result(op);
    if (x->job.err != SP_OK)
        snprintf(x->job.detail, sizeof x->job.detail, "%s", sp_error_detail());
    sp_io_end(x->tiers->io, &x->job);
}

static sp_err get(sp_load *x)
{
    sp_tiers *t = x->tiers;
    x->from = x->copy->places & SP_AT_HOST && t->host ? SP_AT_HOST : SP_AT_DISK;
    sp_tier *tier = x->from == SP_AT_HOST ? t->host : t->disk ? sp_disk_tier_of(t->disk) : NULL;
    if (!tier) return sp_fail(SP_E_NOTFOUND, "no tier has the copy");
    x->n_tries++;
    x->arrived = false;
    x->begun_us = sp_clock_us();
    SP_TRY(sp_move_get(&x->move, tier, got, &x->op));
    sp_io_begin(t->io, &x->job);
    return SP_OK;
}

/* -- the end -------------------------------------------------------------------------------- */

static sp_miss why_failed(sp_err err)
{
    return err == SP_E_FORMAT     ? SP_MISS_DAMAGED
           : err == SP_E_NOTFOUND ? SP_MISS_EVICTED /* somebody else has deleted it */
                                  : SP_MISS_NO_ROOM;
}

/* note_speed -- a mean in which the last load counts a quarter. */
static void note_speed(sp_load *x)
{
    const sp_move *m = &x->move;
    double *mean = &x->tiers->byte_us[x->from == SP_AT_DISK];
    double bytes = (double)sp_blocks_for(m->seg.n) * (double)sp_kv_pool_layer_block_bytes(m->pool) *
                   sp_kv_pool_shape(m->pool)->n_layers;
    double us = (double)(sp_clock_us() - x->begun_us) / bytes;
    *mean = *mean == 0 ? us : *mean * 0.75 + us * 0.25;
}

/* try_again -- from the next tier, or from the same one; false: there is no point in it. */
static bool try_again(sp_load *x)
{
    sp_tiers *t = x->tiers;
    sp_err err = x->job.err;
    if (err == SP_OK || x->cancelled || x->n_tries >= TRIES) return false;
    if (x->from == SP_AT_HOST && x->copy->places & SP_AT_DISK)
        sp_ledger_unplaced(t->ledger, x->copy, SP_AT_HOST);
    else if (err != SP_E_IO)
        return false;
    sp_log(SP_LOG_INFO, "a load is tried again: %s", x->job.detail);
    sp_tier_op_release(x->op);
    x->op = NULL;
    return get(x) == SP_OK;
}

static void free_load(sp_load *x)
{
    sp_load **link = &x->tiers->loading;
    while (*link && *link != x) link = &(*link)->next;
    if (*link) *link = x->next;
    sp_tier_op_release(x->op);
    sp_move_fini(&x->move);
    sp_free(x->head);
    sp_free(x);
}

/* acknowledge -- LOADING -> READY, or FREE. */
static void acknowledge(sp_load *x)
{
    sp_tiers *t = x->tiers;
    const sp_record *r = &x->move.said;
    const sp_copy_stats stats = {.inter = r->inter, .cci = r->cci, .order = r->order};
    sp_loaded loaded = {.before = r->before,
                        .n_before = r->n_before,
                        .at = r->at,
                        .stats = r->inter ? &stats : NULL,
                        .heavy = r->heavy,
                        .cost_us = r->cost_us};
    if (x->job.err == SP_OK && x->copy->kind != SP_COPY_PATH && x->copy->stored.heavy && !r->heavy)
        x->job.err = sp_fail(SP_E_FORMAT, "a copy lacks what the index says of it");
    sp_err err = x->job.err;
    if (err == SP_OK) note_speed(x);
    if (err != SP_OK && err != SP_E_NOTFOUND && err != SP_E_FORMAT && err != SP_E_CANCELED)
        sp_log(SP_LOG_WARN, "not loaded: %s", x->job.detail);
    if (err != SP_OK) t->load_failed(t->user, x->copy, why_failed(err));
    err = sp_ledger_load_end(t->ledger, x->copy, err == SP_OK ? &loaded : NULL,
                             x->cancelled ? (sp_place)0 : x->from, x->now);
    if (err != SP_OK) t->load_failed(t->user, x->copy, why_failed(err));
    free_load(x);
}

/* next_arrived -- one that continues nothing that is on its way. */
static sp_load *next_arrived(const sp_tiers *t)
{
    sp_load *x = t->loading;
    while (x && !(x->arrived &&
                  !(x->copy->parent && x->copy->parent->state == SP_COPY_LOADING)))
        x = x->next;
    return x;
}

static void done(sp_io_job *job)
{
    sp_load *x = load_of(job);
    if (try_again(x)) return;
    x->arrived = true;
    for (sp_tiers *t = x->tiers; (x = next_arrived(t));) acknowledge(x);
}

/* -- the beginning -------------------------------------------------------------------------- */

static sp_load *new_load(sp_tiers *t, const sp_tiers_key *key)
{
    sp_load *x = SP_NEW(sp_load);
    if (!x) return NULL;
    sp_err err = sp_tiers_move_of(t, key->copy, key->head, key->n_head, &x->move);
    size_t n = (size_t)x->move.n_head;
    x->tiers = t;
    x->copy = key->copy;
    x->job = (sp_io_job){.done = done};
    x->head = err == SP_OK ? sp_alloc(n ? n : 1, sizeof *x->head) : NULL;
    if (!x->head) {
        sp_free(x);
        return NULL;
    }
    if (n) memcpy(x->head, x->move.head, n * sizeof *x->head);
    x->move.head = x->head;
    return x;
}

sp_err sp_tiers_load(sp_tiers *t, const sp_tiers_key *key, int64_t spare, int64_t now)
{
    sp_load *x = new_load(t, key);
    if (!x) return sp_fail_nomem(sizeof *x, "loading a copy");
    sp_err err = sp_ledger_load_begin(t->ledger, key->copy, key->seg, spare);
    if (err != SP_OK) {
        free_load(x);
        return err;
    }
    const sp_copy *c = key->copy;
    x->move.seg =
        (sp_segment){.tokens = c->tokens, .n = c->n, .id = c->id, .tenant = c->tenant};
    x->move.blocks = c->blocks;
    x->now = now;
    x->next = t->loading;
    t->loading = x;
    err = get(x);
    if (err == SP_OK) return SP_OK;
    sp_err ended = sp_ledger_load_end(t->ledger, c, NULL, (sp_place)0, now);
    assert(ended == SP_OK); /* a load that ends without contents cannot fail */
    free_load(x);
    return err;
}

void sp_tiers_end_loads(sp_tiers *t)
{
    for (sp_load *x = t->loading; x; x = x->next) {
        x->cancelled = true;
        if (x->op) sp_tier_op_cancel(x->op);
    }
    while (t->loading && sp_io_wait(t->io)) {
    }
}
