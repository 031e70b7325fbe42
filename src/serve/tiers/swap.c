/* swap.c -- copies that leave the device go to the host tier.
 *
 *   the ledger evicts a copy ---> on the host already: nothing is written ("swapped out once")
 *                            \--> else the host tier copies it, right here; copies that its policy gives
 *                                 up make room
 *
 * The host keeps its copy when the device loads it again, until its own policy drops it; so a copy
 * that comes and goes is written once. A parent is on the host, or on the device, while a path copy
 * that continues it is on the host: the ledger gives up the lowest first. Source: RAGCache section
 * 5.1 (R3). */
#include <string.h>

#include "base/log.h"
#include "serve/tiers/tiers_int.h"
#include "store/host_tier.h"

sp_err sp_tiers_open_host(sp_tiers *t, const sp_tiers_opts *o)
{
    const sp_host_packing *packing;
    SP_TRY(sp_host_kv_init(&t->host_kv, sp_kv_pool_shape(o->pool), o->host_kv, &packing));
    return sp_host_tier_open(&(sp_host_tier_opts){.max_bytes = o->host_bytes, .packing = packing},
                             &t->host);
}

/* -- names ---------------------------------------------------------------------------------- */

/* path_of -- the ids of what a path copy continues, from the root, into t->path. */
static sp_err path_of(sp_tiers *t, const sp_copy *c)
{
    size_t n = 0;
    for (const sp_copy *p = c->parent; p; p = p->parent) n++;
    t->path.n = 0;
    SP_TRY(sp_vec_reserve(&t->path, n));
    t->path.n = n;
    for (const sp_copy *p = c->parent; p; p = p->parent) t->path.v[--n] = p->id;
    return SP_OK;
}

sp_err sp_tiers_key_of(sp_tiers *t, const sp_copy *c, sp_tier_key *out)
{
    *out = (sp_tier_key){.id = c->id, .head = c->head, .kind = (uint32_t)SP_DISK_PLAIN};
    if (c->kind == SP_COPY_FUSED) out->kind = (uint32_t)SP_DISK_FUSED;
    if (c->kind != SP_COPY_PATH) return SP_OK;
    SP_TRY(path_of(t, c));
    out->kind = SP_DISK_PATH;
    out->head = sp_head_key(t->path.v, (int)t->path.n);
    return SP_OK;
}

sp_err sp_tiers_move_of(sp_tiers *t, const sp_copy *c, const sp_digest *head, int n_head,
                        sp_move *out)
{
    *out = (sp_move){.pool = t->pool,
                     .space = &t->space,
                     .kind = (uint32_t)(c->kind == SP_COPY_FUSED ? SP_DISK_FUSED : SP_DISK_PLAIN),
                     .seg = {.tokens = c->tokens, .n = c->n, .id = c->id, .tenant = c->tenant},
                     .head = head,
                     .n_head = n_head,
                     .blocks = c->blocks,
                     .slot = c->first};
    if (c->kind != SP_COPY_PATH) return SP_OK;
    SP_TRY(path_of(t, c));
    out->kind = SP_DISK_PATH;
    out->head = t->path.v;
    out->n_head = (int)t->path.n;
    return SP_OK;
}

/* n_head_of -- how many of the segments before a content copy are its head. */
static int n_head_of(const sp_copy *c)
{
    int n = c->n_before;
    while (n > 0 && sp_head_key(c->before, n) != c->head) n--;
    return n;
}

/* -- out ------------------------------------------------------------------------------------ */

static void drop(sp_tiers *t, const sp_copy *c)
{
    sp_tier_key key;
    sp_err err = sp_tiers_key_of(t, c, &key);
    if (err == SP_OK) err = sp_tier_run(t->host, &(sp_tier_job){.verb = SP_TIER_DROP, .key = key});
    if (err != SP_OK) sp_log(SP_LOG_WARN, "not dropped from the host tier: %s", sp_error_detail());
}

void sp_tiers_useless(void *user, const sp_copy *c, unsigned places)
{
    sp_tiers *t = user;
    if (t->host && places & SP_AT_HOST) drop(t, c);
    if (t->disk && places & SP_AT_DISK && c->kind == SP_COPY_PATH) sp_tiers_drop_path(t, c);
}

/* make_room -- false: what is there must stay. */
static bool make_room(sp_tiers *t, int64_t bytes)
{
    for (;;) {
        const sp_tier_stats s = sp_tier_stats_of(t->host);
        if (s.bytes_used + bytes <= s.bytes_max) return true;
        const sp_copy *victim = bytes <= s.bytes_max ? sp_ledger_host_victim(t->ledger) : NULL;
        if (!victim) return false;
        drop(t, victim);
        sp_ledger_unplaced(t->ledger, victim, SP_AT_HOST);
    }
}

static sp_err write_to_host(sp_tiers *t, const sp_copy *c)
{
    sp_move m;
    sp_record r = {.before = c->before,
                   .n_before = c->n_before,
                   .at = c->at,
                   .exact = c->exact,
                   .heavy = c->heavy,
                   .cost_us = c->cost_us};
    bool path = c->kind == SP_COPY_PATH;
    SP_TRY(sp_tiers_move_of(t, c, c->before, path ? 0 : n_head_of(c), &m));
    if (path) {
        r.before = m.head;
        r.n_before = m.n_head;
    } else if (c->stats) {
        r.inter = c->stats->inter;
        r.order = c->stats->order;
        r.cci = c->stats->cci;
    }
    if (m.slot == 0 && sp_notes_has(t->pool, m.blocks, m.seg.n)) /* the others follow */
        sp_notes_prepare(t->pool, m.blocks, m.seg.n);
    sp_move_record(&m, &r);
    SP_TRY(sp_record_check(&r));
    if (!make_room(t, sp_host_tier_bytes(t->host, &r)))
        return sp_fail(SP_E_LIMIT, "no room in the host tier");
    if (path) { /* making room has used the scratch */
        SP_TRY(path_of(t, c));
        r.before = m.head = t->path.v;
    }
    return sp_move_put(&m, t->host, &r);
}

void sp_tiers_leaving(void *user, const sp_copy *c)
{
    sp_tiers *t = user;
    if (!t->host || c->places & SP_AT_HOST || !sp_tiers_admits(t, c, SP_AT_HOST)) return;
    if (write_to_host(t, c) == SP_OK)
        sp_ledger_placed(t->ledger, c, SP_AT_HOST);
    else
        sp_log(SP_LOG_DEBUG, "a copy does not go to the host tier: %s", sp_error_detail());
}

enum { HOT_USES = 3, UPPER = 2 /* levels of the tree */ };

void sp_tiers_replicate(sp_tiers *t, const sp_copy *c)
{
    int depth = 1;
    for (const sp_copy *p = c->parent; p && depth <= UPPER; p = p->parent) depth++;
    if (c->kind == SP_COPY_PATH && c->state == SP_COPY_READY && c->n_uses >= HOT_USES &&
        depth <= UPPER)
        sp_tiers_leaving(t, c);
}
