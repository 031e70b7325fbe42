/* swap.c -- moves evicted copies to the host tier.
 *
 *   the ledger evicts a copy ---> on the host already: nothing is written ("swapped out once")
 *                            \--> else the host tier copies it, on this thread; its policy drops copies
 *                                 to make room
 *
 * The host keeps its copy when the device loads it again, until its own policy drops it; so a copy
 * that is swapped repeatedly is written once. While a path copy is on the host, its parent is on the host
 * or the device: the ledger drops the lowest first. Source: RAGCache section
 * 5.1 (R3). */
#include <string.h>

#include "base/log.h"
#include "serve/tiers/tiers_int.h"
#include "store/host/tier.h"

sp_err sp_tiers_open_host(sp_tiers *t, const sp_tiers_opts *o, sp_tier **out)
{
    const sp_kv_packing *packing;
    SP_TRY(sp_host_kv_init(&t->host_kv, sp_kv_pool_shape(o->pool), o->host_kv, &packing));
    return sp_host_tier_open(&(sp_host_tier_opts){.max_bytes = o->host_bytes, .packing = packing},
                             out);
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
    for (const sp_copy *p = c->parent; p; p = p->parent) t->path.v[--n] = p->facts.id;
    return SP_OK;
}

sp_err sp_tiers_key_of(sp_tiers *t, const sp_copy *c, sp_tier_key *out)
{
    *out =
        (sp_tier_key){.id = c->facts.id, .head = sp_copy_key_head(&c->facts), .kind = (uint32_t)c->facts.kind};
    if (c->facts.kind != SP_COPY_PATH) return SP_OK;
    SP_TRY(path_of(t, c));
    out->head = sp_head_key(t->path.v, (int)t->path.n);
    return SP_OK;
}

sp_err sp_tiers_move_of(sp_tiers *t, const sp_copy *c, const sp_digest *head, int n_head,
                        sp_move *out)
{
    *out =
        (sp_move){.pool = t->pool,
                  .space = &t->space,
                  .kind = (uint32_t)c->facts.kind,
                  .seg = {.tokens = c->tokens, .n = c->n, .id = c->facts.id, .tenant = c->tenant},
                  .head = head,
                  .n_head = n_head,
                  .blocks = c->blocks,
                  .slot = c->first,
                  .patch = {.tokens = c->patch.tokens, .blocks = c->patch.blocks, .n = c->patch.n}};
    if (c->facts.kind == SP_COPY_PLACED) {
        out->head = c->facts.before;
        out->n_head = c->facts.n_before;
    }
    if (c->facts.kind != SP_COPY_PATH) return SP_OK;
    SP_TRY(path_of(t, c));
    out->head = t->path.v;
    out->n_head = (int)t->path.n;
    return SP_OK;
}

void sp_tiers_record_of(const sp_move *m, const sp_copy *c, sp_record *out)
{
    *out = (sp_record){.facts = c->facts};
    if (c->facts.kind == SP_COPY_PATH) {
        out->facts.before = m->head;
        out->facts.n_before = m->n_head;
        out->facts.stats = (sp_copy_stats){0};
    }
    sp_move_record(m, out);
}

int sp_tiers_n_head(const sp_copy *c)
{
    int n = c->facts.n_before;
    while (n > 0 && sp_head_key(c->facts.before, n) != c->facts.head) n--;
    return n;
}

/* -- out ------------------------------------------------------------------------------------ */

static void drop(sp_tiers *t, const sp_copy *c)
{
    sp_tier_key key;
    sp_err err = sp_tiers_key_of(t, c, &key);
    if (err == SP_OK) err = sp_tier_run(sp_tiers_host(t), &(sp_tier_job){.verb = SP_TIER_DROP, .key = key});
    if (err != SP_OK) sp_log(SP_LOG_WARN, "a copy was not dropped from the host tier: %s", sp_error_detail());
}

void sp_tiers_useless(void *user, const sp_copy *c, unsigned places)
{
    sp_tiers *t = user;
    if (sp_tiers_host(t) && places & SP_AT_HOST) drop(t, c);
    if (!sp_tiers_tier(t) || !(places & SP_AT_DISK)) return;
    if (c->facts.kind == SP_COPY_PATH) sp_tiers_drop_path(t, c);
    /* one that could not be loaded may be whole */
    if (c->facts.kind == SP_COPY_PLACED && c->state != SP_COPY_LOADING) sp_tiers_drop_placed(t, c);
}

/* make_room -- false: the copies there must stay. */
static bool make_room(sp_tiers *t, int64_t bytes)
{
    for (;;) {
        const sp_tier_stats s = sp_tier_stats_of(sp_tiers_host(t));
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
    sp_record r;
    const bool path = c->facts.kind == SP_COPY_PATH;
    SP_TRY(sp_tiers_move_of(t, c, c->facts.before, path ? 0 : sp_tiers_n_head(c), &m));
    if (m.slot == 0 && sp_notes_has(t->pool, m.blocks, m.seg.n)) /* the others follow */
        sp_notes_prepare(t->pool, m.blocks, m.seg.n);
    sp_tiers_record_of(&m, c, &r);
    SP_TRY(sp_record_check(&r));
    if (!make_room(t, sp_host_tier_bytes(sp_tiers_host(t), &r)))
        return sp_fail(SP_E_LIMIT, "no room in the host tier");
    if (path) { /* making room has used the scratch */
        SP_TRY(path_of(t, c));
        r.facts.before = m.head = t->path.v;
    }
    return sp_move_put_here(&m, sp_tiers_host(t), &r);
}

void sp_tiers_leaving(void *user, const sp_copy *c)
{
    sp_tiers *t = user;
    if (!sp_tiers_host(t) || c->places & SP_AT_HOST || !sp_tiers_admits(t, c, SP_AT_HOST) ||
        sp_tiers_is_erasing(t, c))
        return;
    if (write_to_host(t, c) == SP_OK)
        sp_ledger_placed(t->ledger, c, SP_AT_HOST);
    else
        sp_log(SP_LOG_DEBUG, "a copy was not put into the host tier: %s", sp_error_detail());
}

enum { HOT_USES = 3, UPPER = 2 /* levels of the tree */ };

void sp_tiers_replicate(sp_tiers *t, const sp_copy *c)
{
    int depth = 1;
    for (const sp_copy *p = c->parent; p && depth <= UPPER; p = p->parent) depth++;
    if (c->facts.kind == SP_COPY_PATH && c->state == SP_COPY_READY && c->uses.n >= HOT_USES &&
        depth <= UPPER)
        sp_tiers_leaving(t, c);
}

sp_tier *sp_tiers_host(const sp_tiers *t)
{
    return sp_tiers_level(t, SP_AT_HOST)->tier;
}
