/* writes.c -- READY copies are written to the store, in the background.
 *
 *   store ---> put (disk) ---> done: the copy has a place there, and may leave the device
 *     |           | an error: one log line, and counted
 *     |           | no progress for timeout_us: the store is stuck. All waiting writes are given up, so that no copy
 *     |           v is held; the put of the oldest goes on without it, and no other begins before it ends
 *     +------> given up
 *
 * Copies being erased are not written (sweeps.c). A put owns everything that it reads except the blocks, which a
 * pin and its own references keep. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/tiers/tiers_int.h"

struct sp_write {
    sp_move move; /* first */
    sp_post post;
    sp_tiers *tiers;
    const sp_copy *copy; /* pinned; NULL: given up, and its blocks are not held */
    sp_write *next;
};

static sp_write *write_of(sp_post *post)
{
    return (sp_write *)(void *)((char *)post - offsetof(sp_write, post));
}

/* -- the end -------------------------------------------------------------------------------- */

/* hold, let_go -- the blocks that the put reads. */
static void hold(const sp_write *x)
{
    sp_kv_retain(x->tiers->pool, x->move.blocks, sp_blocks_for(x->move.slot + x->move.seg.n));
    sp_kv_retain(x->tiers->pool, x->move.patch.blocks, sp_blocks_for(x->move.patch.n));
}

static void let_go(sp_write *x)
{
    sp_kv_release(x->tiers->pool, x->move.blocks, sp_blocks_for(x->move.slot + x->move.seg.n));
    sp_kv_release(x->tiers->pool, x->move.patch.blocks, sp_blocks_for(x->move.patch.n));
    sp_ledger_unpin(x->tiers->ledger, x->copy);
    x->copy = NULL;
}

/* end_write -- its copy may leave the device. */
static void end_write(sp_write *x)
{
    sp_tiers *t = x->tiers;
    sp_write **link = &t->writes.first;
    while (*link != x) link = &(*link)->next;
    *link = x->next;
    if (x->copy) let_go(x);
    sp_move_fini(&x->move);
    sp_free(x);
}

/* count_given_up -- counts a copy that is not written because another write hangs; its next use tries again. */
static void count_given_up(sp_tiers *t)
{
    t->writes.n_failed++;
    t->writes.n_given_up++;
    t->err = SP_E_IO;
    snprintf(t->detail, sizeof t->detail, "the store has written nothing for %lld ms",
             (long long)(t->timeout_us / 1000));
}

/* note_failure -- warns once until there is room again; opening a store has said that it is only read. Copies whose
 * parents were not written do not count. */
static void note_failure(sp_tiers *t, const sp_write *x)
{
    const sp_err err = x->post.err;
    bool follows = x->copy->facts.kind == SP_COPY_PATH && err == SP_E_NOTFOUND;
    bool told = follows || err == SP_E_CANCELED || (err == SP_E_LIMIT && t->writes.full);
    told |= !sp_tiers_writes(t);
    sp_log(told ? SP_LOG_DEBUG : SP_LOG_WARN, "a copy was not stored: %s", x->post.detail);
    if (follows) return;
    t->writes.n_failed++;
    t->err = err;
    t->writes.full = err == SP_E_LIMIT;
    snprintf(t->detail, sizeof t->detail, "%s", x->post.detail);
}

/* touch_path -- marks the ancestors of a copy as used after it, the root last. */
static void touch_path(const sp_write *x)
{
    for (int i = x->move.n_after - 1; i >= 0; i--)
        sp_tier_touch(sp_tiers_tier(x->tiers), &x->move.after[i]);
}

static void done(sp_post *post)
{
    sp_write *x = write_of(post);
    sp_tiers *t = x->tiers;
    if (t->writes.stuck && post->err == SP_E_CANCELED && x->next) { /* it waited behind the oldest */
        count_given_up(t);
        end_write(x);
        return;
    }
    if (t->writes.stuck) sp_log(SP_LOG_INFO, "the store answers again: copies are written");
    t->writes.stuck = false;
    t->writes.took_us = sp_clock_us();
    if (!x->copy) {
        count_given_up(t);
    } else if (post->err == SP_OK) {
        touch_path(x);
        sp_ledger_placed(t->ledger, x->copy, SP_AT_DISK);
        t->writes.full = false;
    } else {
        note_failure(t, x);
    }
    end_write(x);
}

/* -- on the tier's thread ------------------------------------------------------------------- */

static void taken(void *user)
{
    atomic_fetch_add(&((sp_tiers *)user)->writes.n_taken, 1);
}

static void put_done(void *move, sp_tier_op *op)
{
    sp_write *x = move;
    sp_posts_end(x->tiers->posts, &x->post, sp_tier_op_result(op));
}

/* -- a store that does not answer ----------------------------------------------------------- */

void sp_tiers_expire_writes(sp_tiers *t)
{
    if (!t->writes.first || t->writes.stuck) return;
    const int64_t now_us = sp_clock_us(), n = atomic_load(&t->writes.n_taken);
    if (n != t->writes.n_seen) t->writes.took_us = now_us;
    t->writes.n_seen = n;
    if (now_us - t->writes.took_us <= t->timeout_us) return;
    t->writes.stuck = true;
    sp_log(SP_LOG_WARN,
           "the store has written nothing for %lld ms: no copies are written until it answers",
           (long long)(t->timeout_us / 1000));
    for (const sp_write *x = t->writes.first; x->next; x = x->next) sp_tier_op_withdraw(x->move.op);
    sp_posts_poll(t->posts);
    sp_write *oldest = t->writes.first; /* it stays: its end shows that the store answers */
    while (oldest && oldest->next) oldest = oldest->next;
    if (oldest && sp_move_cut(&oldest->move)) let_go(oldest);
}

int64_t sp_tiers_until_write_expiry(const sp_tiers *t)
{
    return t->writes.first && !t->writes.stuck ? t->writes.took_us + t->timeout_us - sp_clock_us() : INT64_MAX;
}

void sp_tiers_cancel_writes(sp_tiers *t)
{
    for (const sp_write *x = t->writes.first; x; x = x->next) sp_tier_op_withdraw(x->move.op);
}

void sp_tiers_cancel_erased(sp_tiers *t)
{
    for (const sp_write *x = t->writes.first; x; x = x->next)
        if (x->copy && sp_tiers_is_erasing(t, x->copy)) sp_tier_op_withdraw(x->move.op);
}

/* -- the beginning -------------------------------------------------------------------------- */

bool sp_tiers_is_storing(const sp_tiers *t, const sp_copy *copy)
{
    const sp_write *x = t->writes.first;
    while (x && x->copy != copy) x = x->next;
    return x && !t->writes.stuck;
}

int64_t sp_tiers_n_storing_blocks(const sp_tiers *t)
{
    int64_t n = 0;
    for (const sp_write *x = t->writes.first; x; x = x->next)
        if (x->copy) n += sp_copy_n_own_blocks(x->copy);
    return n;
}

/* begin -- submits the put. */
static sp_err begin(sp_write *x, const sp_tiers_key *key)
{
    sp_tiers *t = x->tiers;
    const bool by_path = key->copy->facts.kind == SP_COPY_PATH;
    sp_move *m = &x->move;
    sp_record r;
    SP_TRY(sp_tiers_move_of(t, key->copy, key->head, key->n_head, m));
    sp_tiers_record_of(m, key->copy, &r);
    m->there = taken;
    m->user = t;
    return sp_move_put(m, sp_tiers_tier(t), &r, by_path, put_done);
}

sp_err sp_tiers_store(sp_tiers *t, const sp_tiers_key *key)
{
    if (!sp_tiers_tier(t) || sp_tiers_is_storing(t, key->copy) ||
        sp_tiers_is_erasing(t, key->copy))
        return SP_OK;
    if (t->writes.stuck) {
        count_given_up(t);
        return SP_OK;
    }
    sp_write *x = SP_NEW(sp_write);
    if (!x) return sp_fail_nomem("storing a copy");
    *x = (sp_write){.post.done = done, .tiers = t, .copy = key->copy};
    if (!key->copy->first) sp_notes_prepare(t->pool, key->copy->blocks, key->copy->n);
    sp_err err = begin(x, key);
    if (err != SP_OK) {
        sp_move_fini(&x->move);
        sp_free(x);
        return err;
    }
    sp_posts_begin(t->posts);
    sp_ledger_pin(t->ledger, key->copy);
    hold(x);
    if (!t->writes.first) t->writes.took_us = sp_clock_us();
    x->next = t->writes.first;
    t->writes.first = x;
    return SP_OK;
}

sp_err sp_tiers_stored(const sp_tiers *t, const sp_copy *copy)
{
    if (copy->places & (sp_tiers_has_store(t) ? SP_AT_DISK : SP_AT_REMOTE)) return SP_OK;
    return sp_fail(t->err == SP_OK ? SP_E_IO : t->err, "%s", t->detail);
}

int64_t sp_tiers_n_failed(const sp_tiers *t)
{
    return t->writes.n_failed;
}

bool sp_tiers_has_missed(const sp_tiers *t)
{
    return t && t->writes.n_given_up > 0 && !t->writes.stuck;
}
