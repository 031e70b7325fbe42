/* loads.c -- loads copies to the device from the highest tier that has them.
 *
 *   begin ---> get (host) ---> there ---> acknowledged: READY
 *     |          | not there, damaged
 *     |          v
 *     +------> get (disk) ---> there      an error of the device is tried again, TRIES times in all
 *                | cancelled, damaged, gone
 *                v
 *              FREE: a miss
 *
 * A get without progress for timeout_us is abandoned: its copy and its blocks are FREE at once. Until it has ended, no
 * other load from that tier begins, since it would wait as long.
 *
 * Tiers read on their own threads; the engine thread acknowledges completed loads, a path copy after
 * its parent. A load pins its copy until then. */
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/tiers/tiers_int.h"

enum {
    TRIES = 3,
    LEAST_LATE_US = 5000, /* a load may take at least this long */
    GAP_DEVS = 4,         /* a tier is silent once it is so for the usual time and this many deviations from it */
    LEAST_RETRY_US = 1000000, /* a tier that was slower than computing is tried again; the pause doubles */
    MOST_RETRY_US = 64000000,
    MOST_REMOTE_RETRY_US = 8000000, /* of the remote one: a try wastes SILENT_SHARE at most */
};

/* Of the time that computing takes: a tier that is silent, or known to be slow, may waste it. */
#define SILENT_SHARE 0.05

#define DISK_TIMES 2.0 /* a disk is slow where a copy takes this many times what computing takes, or more */

struct sp_load {
    sp_move move; /* first */
    sp_post post;
    sp_tiers *tiers;
    const sp_copy *copy; /* pinned by the ledger's load; NULL: abandoned */
    sp_level *from;
    int n_tries;
    int64_t now;
    int64_t since_us; /* it began, or its last layer came ... */
    int n_seen;       /* ... which made this many */
    _Atomic bool cancelled;
    _Atomic bool ended; /* no further layer will arrive */
    bool arrived;       /* done, and not acknowledged */
    bool holds;         /* abandoned, with blocks that the tier still writes */
    sp_load *next;
};

static sp_load *load_of(sp_post *post)
{
    return (sp_load *)(void *)((char *)post - offsetof(sp_load, post));
}

/* -- how fast a tier is ---------------------------------------------------------------------- */

static double bytes_of(const sp_move *m, int n_layers)
{
    return (double)sp_blocks_for(m->seg.n) * (double)sp_kv_pool_layer_block_bytes(m->pool) *
           n_layers;
}

/* missing_bytes -- of a load. */
static double missing_bytes(const sp_load *x)
{
    const int there = SP_MAX(atomic_load(&x->move.n_there), 0);
    return bytes_of(&x->move, sp_kv_pool_shape(x->move.pool)->n_layers - there);
}

/* all_bytes -- of a copy of n tokens. */
static double all_bytes(const sp_tiers *t, int32_t n)
{
    return sp_blocks_for(n) * (double)sp_kv_pool_layer_block_bytes(t->pool) * sp_kv_pool_shape(t->pool)->n_layers;
}

/* is_slow -- whether loading this many bytes would take longer than computing the copy did. A disk reads while the
 * engine computes something else, so it must be slower by far, and what requests wait for anyway is loaded. */
static bool is_slow(const sp_level *l, const sp_tiers_key *key, double bytes)
{
    const double us = bytes * l->byte_us, cost_us = (double)key->copy->facts.cost_us;
    if (cost_us <= 0 || l->place == SP_AT_HOST) return false;
    if (l->place == SP_AT_DISK) return us >= SP_MAX(DISK_TIMES * cost_us, (double)key->patience_us);
    return us >= cost_us;
}

/* is_left_alone -- a slow tier; false now and then, so that its speed is measured again. */
static bool is_left_alone(sp_level *l, const sp_tiers_key *key, double bytes)
{
    const int64_t now_us = sp_clock_us();
    if (!is_slow(l, key, bytes)) {
        l->slow_pause_us = 0;
        return false;
    }
    if (l->slow_pause_us && now_us - l->slow_us < l->slow_pause_us) return true;
    l->slow_us = now_us;
    const int64_t most_us = l->place == SP_AT_REMOTE ? MOST_REMOTE_RETRY_US : MOST_RETRY_US;
    l->slow_pause_us = SP_MIN(SP_MAX(2 * l->slow_pause_us, LEAST_RETRY_US), most_us);
    return false;
}

/* limit_us -- how long a load from the remote tier may take at most: as long as computing; a small share of that where
 * a delay is all that can be expected. */
static double limit_us(const sp_level *l, double cost_us, double bytes)
{
    if (cost_us > 0 && bytes * l->byte_us >= cost_us) return SILENT_SHARE * cost_us;
    return SP_MAX(cost_us, LEAST_LATE_US);
}

/* is_busy -- a load from there is under way. */
static bool is_busy(const sp_tiers *t, const sp_level *l)
{
    const sp_load *x = t->loads.first;
    while (x && x->from != l) x = x->next;
    return x != NULL;
}

/* come_from -- the load takes its time from there. */
static void come_from(sp_load *x, sp_level *l)
{
    sp_tiers *t = x->tiers;
    const bool is_remote = l->place == SP_AT_REMOTE;
    if (is_remote) atomic_store(&t->loads.heard_us, sp_clock_us());
    if (x->from == l) return; /* it is tried again */
    if (!is_busy(t, l)) {
        l->busy_since_us = sp_clock_us();
        l->busy_bytes = l->busy_asked = l->busy_limit_us = l->busy_cost_us = 0;
        if (is_remote) t->loads.gap_us = 0;
    }
    x->from = l;
    const double bytes = all_bytes(t, x->move.seg.n);
    l->busy_asked += bytes;
    l->busy_limit_us += limit_us(l, (double)x->copy->facts.cost_us, bytes);
    l->busy_cost_us += (double)x->copy->facts.cost_us;
}

/* -- a get ---------------------------------------------------------------------------------- */

static void tell(void *user)
{
    sp_tiers *t = user;
    pthread_mutex_lock(&t->loads.lock);
    pthread_cond_broadcast(&t->loads.more);
    pthread_mutex_unlock(&t->loads.lock);
    sp_posts_poke(t->posts);
}

/* note_layer -- Thread: the tier's. */
static void note_layer(void *user)
{
    const sp_load *x = user;
    sp_tiers *t = x->tiers;
    if (x->from->place == SP_AT_REMOTE) {
        const int64_t now_us = sp_clock_us(), gap_us = now_us - atomic_exchange(&t->loads.heard_us, now_us);
        /* No other thread writes it now. */
        if (gap_us > atomic_load(&t->loads.gap_us)) atomic_store(&t->loads.gap_us, gap_us);
    }
    tell(t);
}

static void got(void *user, sp_tier_op *op);

/* get_more -- gets the next piece; false: there is none, or it cannot be submitted. Its operation replaces the last
 * one, which has ended. Thread: any, one at a time. */
static bool get_more(sp_load *x)
{
    sp_move *m = &x->move;
    if (!m->n || m->first + m->n >= sp_kv_pool_shape(m->pool)->n_layers || x->cancelled)
        return false;
    m->first += m->n;
    return sp_move_get(m, x->from->tier, got) == SP_OK;
}

/* got -- on the tier's thread. */
static void got(void *user, sp_tier_op *op)
{
    sp_load *x = user;
    sp_err err = sp_tier_op_result(op);
    if (err == SP_OK && get_more(x)) return;
    const sp_move *m = &x->move;
    if (err == SP_OK && atomic_load(&m->n_there) < sp_kv_pool_shape(m->pool)->n_layers)
        err = sp_fail(SP_E_CANCELED, "a load was cancelled");
    x->ended = true;
    tell(x->tiers);
    sp_posts_end(x->tiers->posts, &x->post, err);
}

static sp_err get(sp_load *x)
{
    sp_tiers *t = x->tiers;
    sp_level *from = sp_tiers_highest(t, x->copy, NULL);
    if (!from) return sp_fail(SP_E_NOTFOUND, "no tier has the copy");
    come_from(x, from);
    x->n_tries++;
    x->arrived = false;
    x->ended = false;
    x->move.first = 0;
    x->move.n = x->move.is_ahead ? 0 : t->loads.piece;
    x->since_us = sp_clock_us();
    x->n_seen = -1;
    SP_TRY(sp_move_get(&x->move, x->from->tier, got));
    sp_posts_begin(t->posts);
    return SP_OK;
}

/* -- while it is under way ------------------------------------------------------------------ */

static sp_load *find(const sp_tiers *t, const sp_copy *c)
{
    sp_load *x = t->loads.first;
    while (x && x->copy != c) x = x->next;
    return x;
}

bool sp_tiers_await(sp_tiers *t, const sp_copy *c, int layer, int64_t deadline_us)
{
    sp_load *x = find(t, c);
    const struct timespec end = {.tv_sec = (time_t)(deadline_us / 1000000),
                                 .tv_nsec = (long)(deadline_us % 1000000 * 1000)};
    if (!x) return false;
    const _Atomic int *there = &x->move.n_there;
    if (atomic_load_explicit(there, memory_order_acquire) > layer) return true;
    int rc = 0;
    pthread_mutex_lock(&t->loads.lock);
    while (atomic_load_explicit(there, memory_order_acquire) <= layer && !x->ended && rc == 0)
        rc = pthread_cond_timedwait(&t->loads.more, &t->loads.lock, &end);
    pthread_mutex_unlock(&t->loads.lock);
    return atomic_load_explicit(there, memory_order_acquire) > layer;
}

int sp_tiers_n_there(sp_tiers *t, const sp_copy *c, double *left_us)
{
    sp_load *x = find(t, c);
    const int n = x ? atomic_load_explicit(&x->move.n_there, memory_order_acquire) : -1;
    if (left_us)
        *left_us = x ? bytes_of(&x->move, sp_kv_pool_shape(t->pool)->n_layers - SP_MAX(n, 0)) * x->from->byte_us : 0;
    if (n < 0) return -1;
    return sp_ledger_load_head(t->ledger, c, &x->move.said.facts) == SP_OK ? n : -1;
}

bool sp_tiers_admits(const sp_tiers *t, const sp_copy *c, sp_place to)
{
    double us = all_bytes(t, c->n) * sp_tiers_level(t, to)->byte_us;
    if (c->facts.kind == SP_COPY_PATH) return true; /* a copy that continues it may be there */
    return !t->admit_cheaper || us == 0 || c->facts.cost_us == 0 || us < (double)c->facts.cost_us;
}

/* -- the end -------------------------------------------------------------------------------- */

static sp_miss why_failed(sp_err err)
{
    return err == SP_E_FORMAT || err == SP_E_UNSUPPORTED ? SP_MISS_DAMAGED
           : err == SP_E_NOTFOUND                        ? SP_MISS_EVICTED /* another process has deleted it */
           : err == SP_E_IO                              ? SP_MISS_LATE    /* its tier does not answer */
                                                         : SP_MISS_NO_ROOM;
}

/* learn_speed -- a moving mean in which the last time counts a quarter; only that time if the tier was not used for a
 * while, since the mean is outdated then. */
static void learn_speed(sp_level *l, double byte_us)
{
    const bool alone = l->byte_us == 0 || l->slow_pause_us;
    l->byte_us = alone ? byte_us : l->byte_us * 0.75 + byte_us * 0.25;
}

/* note_speed -- of all loads from there since none was under way. */
static void note_speed(sp_load *x)
{
    const sp_move *m = &x->move;
    sp_level *l = x->from;
    l->busy_bytes += bytes_of(m, sp_kv_pool_shape(m->pool)->n_layers);
    learn_speed(l, (double)(sp_clock_us() - l->busy_since_us) / l->busy_bytes);
}

/* note_gap -- of a load that has come: how long the tier was silent at most (RFC 6298). */
static void note_gap(const sp_load *x)
{
    sp_level *l = x->from;
    const double us = (double)atomic_load(&x->tiers->loads.gap_us);
    if (l->place != SP_AT_REMOTE) return;
    const double off_us = us > l->gap_us ? us - l->gap_us : l->gap_us - us;
    const bool first = l->gap_us == 0;
    l->gap_dev_us = first ? us / 2 : l->gap_dev_us * 0.75 + off_us * 0.25;
    l->gap_us = first ? us : l->gap_us * 0.875 + us * 0.125;
}

/* try_again -- retries from the next tier or from the same one; false: that would not help. */
static bool try_again(sp_load *x)
{
    sp_tiers *t = x->tiers;
    sp_err err = x->post.err;
    if (err == SP_OK || x->cancelled || x->n_tries >= TRIES || x->copy->has_head) return false;
    if (!sp_tier_answers(x->from->tier)) return false;
    if (sp_tiers_highest(t, x->copy, x->from))
        sp_ledger_unplaced(t->ledger, x->copy, x->from->place);
    else if (err != SP_E_IO)
        return false;
    sp_log(SP_LOG_INFO, "retrying to load a copy: %s", x->post.detail);
    return get(x) == SP_OK;
}

static void unlink_load(sp_load **list, const sp_load *x)
{
    while (*list && *list != x) list = &(*list)->next;
    if (*list) *list = x->next;
}

static void free_load(sp_load *x)
{
    unlink_load(x->copy ? &x->tiers->loads.first : &x->tiers->loads.abandoned, x);
    sp_move_fini(&x->move);
    sp_free(x);
}

/* acknowledge -- LOADING -> READY, or FREE. */
static void acknowledge(sp_load *x)
{
    sp_tiers *t = x->tiers;
    sp_err err = x->post.err;
    if (err == SP_OK) note_speed(x);
    if (err == SP_OK) note_gap(x);
    if (err != SP_OK) x->from->busy_asked -= missing_bytes(x); /* nobody waits for it */
    if (err != SP_OK && err != SP_E_NOTFOUND && err != SP_E_FORMAT && err != SP_E_CANCELED)
        sp_log(SP_LOG_WARN, "a copy was not loaded: %s", x->post.detail);
    if (err != SP_OK) t->loads.failed(t->loads.user, x->copy, why_failed(err));
    err = sp_ledger_load_end(t->ledger, x->copy, err == SP_OK ? &x->move.said.facts : NULL,
                             x->cancelled ? (sp_place)0 : x->from->place, x->now);
    if (err != SP_OK) t->loads.failed(t->loads.user, x->copy, why_failed(err));
    free_load(x);
}

/* next_arrived -- an arrived load whose parent is not LOADING; or NULL. */
static sp_load *next_arrived(const sp_tiers *t)
{
    sp_load *x = t->loads.first;
    while (x && !(x->arrived && !(x->copy->parent && x->copy->parent->state == SP_COPY_LOADING)))
        x = x->next;
    return x;
}

static void acknowledge_arrived(sp_tiers *t)
{
    for (sp_load *x; (x = next_arrived(t));) acknowledge(x);
}

static int64_t n_blocks_of(const sp_load *x)
{
    return sp_blocks_for(x->move.seg.n);
}

/* came_late -- an abandoned load has ended. If its tier has not failed but was slow, its speed is noted once the last
 * one has ended. */
static void came_late(sp_load *x)
{
    sp_tiers *t = x->tiers;
    sp_level *l = x->from;
    if (x->holds) sp_kv_release(t->pool, x->move.blocks, n_blocks_of(x));
    if (x->post.err != SP_E_IO) l->late_bytes += bytes_of(&x->move, sp_kv_pool_shape(t->pool)->n_layers);
    if (--l->n_abandoned == 0 && sp_tier_answers(l->tier)) {
        sp_log(SP_LOG_INFO, "the %s tier answers again", l->name);
        if (l->late_bytes > 0) learn_speed(l, (double)(sp_clock_us() - l->late_since_us) / l->late_bytes);
    }
    free_load(x);
}

static void done(sp_post *post)
{
    sp_load *x = load_of(post);
    if (!x->copy) {
        came_late(x);
        return;
    }
    if (try_again(x)) return;
    x->arrived = true;
    acknowledge_arrived(x->tiers);
}

/* -- time-outs ------------------------------------------------------------------------------ */

/* abandon -- LOADING -> FREE. */
static void abandon(sp_load *x)
{
    sp_tiers *t = x->tiers;
    sp_level *l = x->from;
    const sp_copy *c = x->copy;
    sp_log(SP_LOG_WARN, "the %s tier did not deliver a copy within %lld ms; it is computed instead", l->name,
           (long long)((sp_clock_us() - l->busy_since_us) / 1000));
    x->cancelled = true;
    l->busy_asked -= missing_bytes(x);
    x->holds = !sp_move_cut(&x->move);
    if (x->holds) sp_kv_retain(t->pool, x->move.blocks, n_blocks_of(x));
    unlink_load(&t->loads.first, x);
    x->copy = NULL;
    x->next = t->loads.abandoned;
    t->loads.abandoned = x;
    if (l->n_abandoned++ == 0) {
        l->late_since_us = l->busy_since_us;
        l->late_bytes = 0;
    }
    l->gap_us = SP_MAX(l->gap_us, SP_MIN(2 * l->gap_us, l->busy_limit_us)); /* it may be slower now than it was */
    t->loads.failed(t->loads.user, c, SP_MISS_LATE);
    sp_err err = sp_ledger_load_end(t->ledger, c, NULL, (sp_place)0, x->now);
    assert(err == SP_OK); /* a load that ends without contents cannot fail */
    SP_UNUSED(err);
    sp_tier_op_cancel(x->move.op); /* not withdrawn: its end shows that the tier answers */
}

/* grace_us -- how long the remote tier may be silent: somewhat longer than usual, or a small share of the time of
 * computing; 0: unknown. So a store that hangs costs a request little time. */
static double grace_us(const sp_level *l)
{
    if (l->gap_us == 0) return 0;
    return SP_MAX(l->gap_us + GAP_DEVS * l->gap_dev_us, SILENT_SHARE * l->busy_cost_us);
}

/* pace_us -- the time after which the loads from there, at their pace so far, need longer for the rest than computing
 * it takes. So requests wait for a slow store as long as it is faster than computing. */
static double pace_us(const sp_tiers *t, const sp_level *l)
{
    double left = 0, cost_us = 0;
    for (const sp_load *x = t->loads.first; x; x = x->next) {
        if (x->from != l || x->arrived) continue;
        left += missing_bytes(x);
        cost_us += (double)x->copy->facts.cost_us;
    }
    return left > 0 ? cost_us * (l->busy_asked - left) / left : cost_us;
}

/* remote_late_us -- of the loads from the remote tier: until when it may be silent, or slow. */
static int64_t remote_late_us(const sp_tiers *t, const sp_level *l)
{
    const int64_t end = l->busy_since_us + (int64_t)l->busy_limit_us;
    const double grace = grace_us(l);
    if (grace == 0) return end;
    const int64_t heard_us = sp_tier_takes(l->tier) ? sp_clock_us() : atomic_load(&t->loads.heard_us);
    const int64_t pace = l->busy_since_us + (int64_t)SP_MAX(SP_MAX(grace, LEAST_LATE_US), pace_us(t, l));
    return SP_MIN(SP_MIN(end, heard_us + (int64_t)grace), pace);
}

/* late_us -- the deadline of a load: from the remote tier, that of all current loads; from others, it is extended
 * while layers arrive. */
static int64_t late_us(const sp_load *x)
{
    const sp_level *l = x->from;
    const int64_t end = x->since_us + x->tiers->timeout_us;
    if (l->place != SP_AT_REMOTE || x->copy->facts.cost_us <= 0) return end;
    return SP_MIN(end, remote_late_us(x->tiers, l));
}

/* has_expired -- whether a load has timed out; notes its progress. */
static bool has_expired(sp_load *x, int64_t now_us)
{
    const int n = atomic_load(&x->move.n_there);
    if (n != x->n_seen) {
        x->n_seen = n;
        x->since_us = now_us;
    }
    if (x->arrived || x->ended) return false;
    return now_us > late_us(x);
}

void sp_tiers_expire(sp_tiers *t)
{
    const int64_t now_us = t->loads.first ? sp_clock_us() : 0;
    bool some = false;
    for (sp_load *x = t->loads.first, *next; x; x = next) {
        next = x->next;
        if (!has_expired(x, now_us)) continue;
        abandon(x);
        some = true;
    }
    if (some) acknowledge_arrived(t);
    sp_tiers_expire_writes(t);
}

int64_t sp_tiers_until_expiry(const sp_tiers *t)
{
    int64_t least = INT64_C(10000000), now_us = t->loads.first ? sp_clock_us() : 0;
    for (const sp_load *x = t->loads.first; x; x = x->next)
        least = SP_MIN(least, late_us(x) - now_us);
    least = SP_MIN(least, sp_tiers_until_yield(t));
    return SP_MAX(SP_MIN(least, sp_tiers_until_write_expiry(t)), 0);
}

void sp_tiers_wait(sp_tiers *t)
{
    sp_posts_wait_for(t->posts, sp_tiers_until_expiry(t) + 50);
    sp_tiers_expire(t);
}

void sp_tiers_drain(sp_tiers *t)
{
    while (t->loads.first || (t->writes.first && !t->writes.stuck)) sp_tiers_wait(t);
}

/* -- the beginning -------------------------------------------------------------------------- */

static sp_err begin(sp_load *x, const sp_tiers_key *key, bool is_ahead)
{
    sp_tiers *t = x->tiers;
    SP_TRY(sp_tiers_move_of(t, key->copy, key->head, key->n_head, &x->move));
    x->move.is_ahead = is_ahead;
    x->move.there = note_layer;
    x->move.user = x;
    return get(x);
}

sp_err sp_tiers_load(sp_tiers *t, const sp_tiers_key *key, bool is_ahead, int64_t spare, int64_t now)
{
    sp_load *x = SP_NEW(sp_load);
    if (!x) return sp_fail_nomem("loading a copy");
    *x = (sp_load){.post.done = done, .tiers = t, .copy = key->copy, .now = now};
    sp_err err = SP_OK;
    sp_level *from = sp_tiers_highest(t, key->copy, NULL);
    const double bytes = all_bytes(t, key->seg->n);
    if (from && (from->n_abandoned || !sp_tier_answers(from->tier))) err = sp_fail(SP_E_IO, "a tier does not answer");
    if (err == SP_OK && from && is_left_alone(from, key, bytes))
        err = sp_fail(SP_E_IO, "the %s tier is slower than computing", from->name);
    if (err == SP_OK) err = sp_ledger_load_begin(t->ledger, key->copy, key->seg, spare);
    if (err != SP_OK) {
        sp_free(x);
        return err;
    }
    x->next = t->loads.first;
    t->loads.first = x;
    err = begin(x, key, is_ahead);
    if (err == SP_OK) return SP_OK;
    sp_err ended = sp_ledger_load_end(t->ledger, key->copy, NULL, (sp_place)0, now);
    assert(ended == SP_OK); /* a load that ends without contents cannot fail */
    free_load(x);
    return err;
}

static void withdraw_all(sp_load *list)
{
    for (sp_load *x = list; x; x = x->next) {
        x->cancelled = true;
        if (x->move.op) sp_tier_op_withdraw(x->move.op);
    }
}

void sp_tiers_cancel_loads(sp_tiers *t)
{
    withdraw_all(t->loads.first);
    withdraw_all(t->loads.abandoned);
}
