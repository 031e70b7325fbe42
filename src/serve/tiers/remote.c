/* remote.c -- copies that several processes share.
 *
 *   news   copies of other processes become FREE copies of the ledger, which look-ups find like those on disk
 *          (tiers.c)
 *   share  a READY plain or fused copy is put once for all processes. It is pinned until the put ends, or until a
 *          request lacks the memory and the put takes long
 *   load   as from every tier, unless computing would be faster (loads.c)
 *
 * Puts end by themselves, whatever the server does (store/remote/tier.h I2), so nothing here expires. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/tiers/tiers_int.h"
#include "store/remote/link.h"
#include "store/remote/server.h"
#include "store/remote/tier.h"

enum {
    MOST_SHARES = 64,    /* under way; what is computed beyond is not put */
    MOST_COMPRESS = 19,  /* level of zstd */
    SHARE = 4,           /* nor beyond 1 / SHARE of the memory: a server that hangs holds no more */
    LEAST_YIELD_US = 2000, /* that a request without room waits for puts; or: */
};

#define YIELD_SHARE 0.05 /* of the time that computing the oldest of their copies takes */

struct sp_sharing {
    sp_move move; /* first */
    sp_post post;
    sp_tiers *tiers;
    const sp_copy *copy; /* pinned; NULL: given up, and its blocks are not held */
    sp_sharing *next;
};

sp_tier *sp_tiers_remote(const sp_tiers *t)
{
    return t ? sp_tiers_level(t, SP_AT_REMOTE)->tier : NULL;
}

/* -- opening ------------------------------------------------------------------------------------------- */

sp_err sp_tiers_check_remote(const char *url, const char *kv, int compress)
{
    if (kv && strcmp(kv, "q8_0") != 0)
        return sp_fail(SP_E_ARG, "remote_kv: type \"%s\" is not supported; copies are packed in q8_0", kv);
    if (compress < 0 || compress > MOST_COMPRESS)
        return sp_fail(SP_E_ARG, "remote_compress: level %d, not 0 to %d", compress, MOST_COMPRESS);
    const sp_err err = url ? sp_remote_check_url(url) : SP_OK;
    return err == SP_OK ? SP_OK : sp_fail_in(err, "remote");
}

/* choose_form -- copies of others may be in q8_0, whatever this process puts. */
static sp_err choose_form(sp_tiers *t, const sp_tiers_opts *o, const sp_kv_packing **packing)
{
    sp_kv_shape small = *sp_kv_pool_shape(o->pool);
    small.type = SP_Q8_0;
    *packing = NULL;
    if (!o->remote_kv && sp_kv_shape_check(&small) != SP_OK) return SP_OK; /* nobody has this model's in q8_0 */
    return sp_host_kv_init(&t->remote_kv, sp_kv_pool_shape(o->pool), "q8_0", packing);
}

sp_err sp_tiers_open_remote(sp_tiers *t, const sp_tiers_opts *o, sp_tier **out)
{
    uint8_t key[SP_REMOTE_KEY_BYTES];
    if (!o->remote) return SP_OK;
    sp_remote_tier_opts r = {.url = o->remote,
                             .ca_file = o->remote_ca,
                             .space = o->remote_space,
                             .mac_key = key,
                             .ttl_s = o->remote_ttl_s,
                             .packs = o->remote_kv != NULL,
                             .compress = o->remote_compress,
                             .timeout_us = o->timeout_us / 2,
                             .must = o->remote_must};
    SP_TRY(choose_form(t, o, &r.packing));
    SP_TRY(sp_remote_read_key(o->remote_key, key, &r.n_mac_key));
    sp_err err = sp_remote_tier_open(&r, out);
    explicit_bzero(key, sizeof key);
    if (err != SP_OK) return err;
    err = sp_remote_tier_await(*out, o->remote_must ? INT64_MAX : r.timeout_us);
    if (err == SP_OK || !o->remote_must) return SP_OK;
    sp_tier_close(*out);
    *out = NULL;
    return err;
}

/* -- sharing ------------------------------------------------------------------------------------------- */

static int64_t n_blocks_of(const sp_sharing *x)
{
    return sp_blocks_for(x->move.slot + x->move.seg.n);
}

/* note_failure -- without a store, also for sp_tiers_stored. */
static void note_failure(sp_tiers *t, sp_err err, const char *why)
{
    sp_log(SP_LOG_DEBUG, "a copy is not shared: %s", why);
    t->shares.n_failed++;
    if (sp_tiers_has_store(t)) return;
    t->err = err;
    snprintf(t->detail, sizeof t->detail, "%s", why);
}

/* let_go -- its copy may leave the device. */
static void let_go(sp_sharing *x)
{
    sp_tiers *t = x->tiers;
    t->shares.n_blocks -= n_blocks_of(x);
    sp_kv_release(t->pool, x->move.blocks, n_blocks_of(x));
    sp_ledger_unpin(t->ledger, x->copy);
    x->copy = NULL;
}

static void done(sp_post *post)
{
    sp_sharing *x = (sp_sharing *)(void *)((char *)post - offsetof(sp_sharing, post));
    sp_tiers *t = x->tiers;
    sp_sharing **link = &t->shares.first;
    while (*link != x) link = &(*link)->next;
    *link = x->next;
    t->shares.n--;
    t->shares.yields_since_us = 0;
    if (post->err != SP_OK)
        note_failure(t, post->err, post->detail);
    else if (x->copy)
        sp_ledger_placed(t->ledger, x->copy, SP_AT_REMOTE);
    if (x->copy) let_go(x);
    sp_move_fini(&x->move);
    sp_free(x);
}

/* put_done -- on the tier's thread. */
static void put_done(void *move, sp_tier_op *op)
{
    sp_sharing *x = move;
    sp_posts_end(x->tiers->posts, &x->post, sp_tier_op_result(op));
}

static sp_err begin(sp_sharing *x, const sp_tiers_key *key)
{
    sp_tiers *t = x->tiers;
    sp_record r;
    SP_TRY(sp_tiers_move_of(t, key->copy, key->head, key->n_head, &x->move));
    sp_tiers_record_of(&x->move, key->copy, &r);
    return sp_move_put(&x->move, sp_tiers_remote(t), &r, false, put_done);
}

bool sp_tiers_is_sharing(const sp_tiers *t, const sp_copy *copy)
{
    const sp_sharing *x = t->shares.first;
    while (x && x->copy != copy) x = x->next;
    return x != NULL;
}

sp_err sp_tiers_share(sp_tiers *t, const sp_tiers_key *key)
{
    const sp_copy *c = key->copy;
    if (!sp_tiers_remote(t) || c->places & SP_AT_REMOTE || t->shares.n >= MOST_SHARES || sp_tiers_is_erasing(t, c))
        return SP_OK;
    if (sp_tiers_is_sharing(t, c)) return SP_OK;
    if (!sp_tier_answers(sp_tiers_remote(t))) {
        note_failure(t, SP_E_IO, "the remote tier does not answer");
        return SP_OK;
    }
    if (t->shares.n && (t->shares.n_blocks + sp_blocks_for(c->n)) * SHARE > sp_kv_pool_n_blocks(t->pool))
        return SP_OK;
    sp_sharing *x = SP_NEW(sp_sharing);
    if (!x) return sp_fail_nomem("sharing a copy");
    *x = (sp_sharing){.post.done = done, .tiers = t, .copy = c};
    if (!c->first) sp_notes_prepare(t->pool, c->blocks, c->n);
    sp_err err = begin(x, key);
    if (err != SP_OK) {
        sp_move_fini(&x->move);
        sp_free(x);
        return err;
    }
    sp_posts_begin(t->posts);
    sp_ledger_pin(t->ledger, c);
    sp_kv_retain(t->pool, x->move.blocks, n_blocks_of(x));
    x->next = t->shares.first;
    t->shares.first = x;
    t->shares.n++;
    t->shares.n_blocks += n_blocks_of(x);
    return SP_OK;
}

int64_t sp_tiers_until_yield(const sp_tiers *t)
{
    const sp_sharing *oldest = NULL;
    if (!t->shares.yields_since_us) return INT64_MAX;
    for (const sp_sharing *x = t->shares.first; x; x = x->next)
        if (x->copy) oldest = x;
    if (!oldest) return INT64_MAX;
    const double us = SP_MAX(LEAST_YIELD_US, YIELD_SHARE * (double)oldest->copy->facts.cost_us);
    return SP_MAX(t->shares.yields_since_us + (int64_t)us - sp_clock_us(), 0);
}

bool sp_tiers_yield(sp_tiers *t)
{
    bool some = false;
    if (!t || !t->shares.first) return false;
    if (!t->shares.yields_since_us) t->shares.yields_since_us = sp_clock_us();
    if (sp_tiers_until_yield(t) > 0) return false;
    t->shares.yields_since_us = 0;
    for (sp_sharing *x = t->shares.first; x; x = x->next) {
        if (!x->copy || !sp_move_cut(&x->move)) continue;
        sp_tier_op_withdraw(x->move.op);
        let_go(x);
        some = true;
    }
    return some;
}

/* is_due -- the tier takes it, and does not have it. */
static bool is_due(const sp_copy *c)
{
    return c->state == SP_COPY_READY && !c->base && !(c->places & SP_AT_REMOTE) &&
           (c->facts.kind == SP_COPY_PLAIN || c->facts.kind == SP_COPY_FUSED);
}

sp_err sp_tiers_share_rest(sp_tiers *t, sp_tiers_rest *rest)
{
    rest->n_left = 0;
    if (!t || !sp_tiers_remote(t)) return SP_OK;
    if (!rest->began) *rest = (sp_tiers_rest){.began = true, .n_failed = t->shares.n_failed};
    if (t->shares.n_failed > rest->n_failed) return sp_fail(SP_E_IO, "the remote tier does not take copies");
    for (const sp_copy *c = sp_ledger_next(t->ledger, NULL); c; c = sp_ledger_next(t->ledger, c)) {
        if (!is_due(c)) continue;
        rest->n_left++;
        SP_TRY(sp_tiers_share(t, &(sp_tiers_key){.copy = c, .head = c->facts.before, .n_head = sp_tiers_n_head(c)}));
    }
    return SP_OK;
}

void sp_tiers_cancel_shares(sp_tiers *t)
{
    for (const sp_sharing *x = t->shares.first; x; x = x->next) sp_tier_op_withdraw(x->move.op);
}

void sp_tiers_cancel_erased_shares(sp_tiers *t)
{
    for (const sp_sharing *x = t->shares.first; x; x = x->next)
        if (x->copy && sp_tiers_is_erasing(t, x->copy)) sp_tier_op_withdraw(x->move.op);
}
