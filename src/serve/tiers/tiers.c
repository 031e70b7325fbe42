#include "serve/tiers/tiers.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/tiers/tiers_int.h"
#include "store/disk/tier.h"
#include "store/disk/folder.h"

/* -- levels ---------------------------------------------------------------------------------- */

static sp_err open_disk(sp_tiers *t, const sp_tiers_opts *o, sp_tier **out);

static sp_err open_host(sp_tiers *t, const sp_tiers_opts *o, sp_tier **out)
{
    return o->host_bytes ? sp_tiers_open_host(t, o, out) : SP_OK;
}

/* How the tiers are opened, in the order of SP_TIERS without the device. *out stays NULL: the options name none. */
static sp_err (*const openers[SP_LEVELS])(sp_tiers *t, const sp_tiers_opts *o, sp_tier **out) = {
    open_host, open_disk, sp_tiers_open_remote};

sp_level *sp_tiers_level(const sp_tiers *t, sp_place place)
{
    return (sp_level *)&t->levels[__builtin_ctz((unsigned)place) - 1];
}

sp_level *sp_tiers_highest(sp_tiers *t, const sp_copy *c, const sp_level *below)
{
    for (sp_level *l = below ? t->levels + (below - t->levels) + 1 : t->levels; l < t->levels + SP_LEVELS; l++)
        if (l->tier && c->places & l->place) return l;
    return NULL;
}

enum { PIECES = 4 /* gets for a copy whose first layers are needed first */ };

/* adopt -- plain and fused copies by their names alone; paths.c adopts the others. */
typedef struct adopting {
    sp_ledger *ledger;
    sp_place place;
} adopting;

static sp_err adopt(void *user, const sp_tier_info *info)
{
    const adopting *a = user;
    const sp_copy_kind kind = (sp_copy_kind)info->key.kind;
    if (kind != SP_COPY_PLAIN && kind != SP_COPY_FUSED) return SP_OK;
    return sp_ledger_adopt(a->ledger, &(sp_adopted){.facts.id = info->key.id,
                                                    .facts.kind = kind,
                                                    .facts.head = info->key.head,
                                                    .facts.exact = info->facts & SP_FACT_EXACT,
                                                    .n = info->n,
                                                    .place = a->place,
                                                    .measured = info->facts & SP_FACT_STATS,
                                                    .heavy = info->facts & SP_FACT_HEAVY,
                                                    .facts.cost_us = info->cost_us,
                                                    .n_uses = info->n_uses});
}

/* adopt_all -- what a tier has when it is opened; a shared one tells of it by news. */
static sp_err adopt_all(sp_tiers *t, const sp_level *l)
{
    adopting a = {t->ledger, l->place};
    if (!l->tier || sp_tier_has_news(l->tier)) return SP_OK;
    return sp_tier_run(l->tier, &(sp_tier_job){.verb = SP_TIER_LIST, .each = adopt, .user = &a});
}

/* hear -- adds copies that other processes have put to the ledger. */
static void hear(sp_tiers *t)
{
    for (const sp_level *l = t->levels; l < t->levels + SP_LEVELS; l++) {
        adopting a = {t->ledger, l->place};
        if (l->tier && sp_tier_news(l->tier, adopt, &a) != SP_OK)
            sp_log(SP_LOG_WARN, "the names of the copies in the %s tier cannot be read: %s", l->name,
                   sp_error_detail());
    }
}

static void close_all(sp_tiers *t)
{
    for (int i = SP_LEVELS; i-- > 0;) sp_tier_close(t->levels[i].tier);
    sp_disk_order_destroy(t->order);
    sp_others_close(t->others);
    sp_posts_destroy(t->posts);
    sp_vec_fini(&t->path);
    sp_vec_fini(&t->sweeps.erasing);
    pthread_cond_destroy(&t->loads.more);
    pthread_mutex_destroy(&t->loads.lock);
    sp_free(t);
}

/* open_disk -- with an order of its copies, and what its folder has for other models. */
static sp_err open_disk(sp_tiers *t, const sp_tiers_opts *o, sp_tier **out)
{
    sp_disk_tier_opts disk = {.dir = o->dir, .space = o->space};
    if (!o->dir) return SP_OK;
    SP_TRY(sp_disk_order_create(o->store_evict, o->cost, &t->order));
    SP_TRY(sp_folder_budget(o->dir, o->space, o->max_bytes, &disk.max_bytes));
    disk.evict = sp_disk_order_hooks(t->order);
    SP_TRY(sp_disk_tier_open(&disk, out));
    return sp_others_open(o->dir, o->space, &t->others);
}

/* open_levels -- opens the tiers, and enters the copies of the store in the ledger. */
static sp_err open_levels(sp_tiers *t, const sp_tiers_opts *o)
{
    for (int i = 0; i < SP_LEVELS; i++) {
        t->levels[i].place = (sp_place)(1 << (i + 1));
        SP_TRY(openers[i](t, o, &t->levels[i].tier));
        t->levels[i].name = t->levels[i].tier ? sp_tier_name(t->levels[i].tier) : "";
        SP_TRY(adopt_all(t, &t->levels[i]));
    }
    if (!sp_tiers_tier(t)) return SP_OK;
    return sp_tiers_adopt_headers(t, SP_MOST_HEADERS);
}

sp_err sp_tiers_open(const sp_tiers_opts *o, sp_tiers **out)
{
    sp_tiers *t = SP_NEW(sp_tiers);
    if (!t) return sp_fail_nomem("the tiers");
    t->ledger = o->ledger;
    t->pool = o->pool;
    t->space = *o->space;
    t->salt = o->salt;
    t->loads.failed = o->load_failed;
    t->loads.user = o->user;
    t->admit_cheaper = o->admit_cheaper;
    t->timeout_us = o->timeout_us;
    if (o->by_layers) t->loads.piece = SP_DIV_UP(sp_kv_pool_shape(o->pool)->n_layers, PIECES);
    pthread_mutex_init(&t->loads.lock, NULL);
    sp_cond_init(&t->loads.more); /* a deadline is on the monotonic clock */
    sp_ledger_set_tiers(
        o->ledger,
        &(sp_ledger_tiers){.leaving = sp_tiers_leaving, .useless = sp_tiers_useless, .user = t});
    sp_err err = sp_posts_create(&t->posts);
    if (err == SP_OK) err = open_levels(t, o);
    if (err != SP_OK) {
        sp_ledger_set_tiers(o->ledger, &(sp_ledger_tiers){0});
        close_all(t);
        return err;
    }
    *out = t;
    return SP_OK;
}

/* -- the end --------------------------------------------------------------------------------- */

void sp_tiers_close(sp_tiers *t)
{
    if (!t) return;
    sp_ledger_set_tiers(t->ledger, &(sp_ledger_tiers){0});
    assert(!t->writes.first && !t->shares.first && !t->loads.first && !t->loads.abandoned);
    close_all(t);
}

/* come_to_rest -- waits until all operations have ended; false: a tier has not answered for timeout_us. */
static bool come_to_rest(sp_tiers *t)
{
    sp_tiers_drain(t);
    const int64_t end = sp_clock_us() + t->timeout_us;
    for (int64_t left; sp_posts_busy(t->posts) && (left = end - sp_clock_us()) > 0;)
        sp_posts_wait_for(t->posts, left);
    return !sp_posts_busy(t->posts);
}

bool sp_tiers_end(sp_tiers *t)
{
    if (!t) return true;
    sp_tiers_cancel_loads(t);
    return come_to_rest(t);
}

void sp_tiers_lose(sp_tiers *t)
{
    if (!t) return;
    sp_tiers_cancel_loads(t);
    sp_tiers_cancel_writes(t);
    sp_tiers_cancel_shares(t);
    sp_tiers_drain(t);
}

/* -- waiting --------------------------------------------------------------------------------- */

void sp_tiers_poll(sp_tiers *t)
{
    sp_posts_poll(t->posts);
    hear(t);
    sp_tiers_expire(t);
}

bool sp_tiers_is_busy(const sp_tiers *t)
{
    return t && sp_posts_busy(t->posts);
}

void sp_tiers_wait_for(sp_tiers *t, int64_t us)
{
    sp_posts_wait_for(t->posts, us);
}

void sp_tiers_poke(sp_tiers *t)
{
    if (t) sp_posts_poke(t->posts);
}

/* -- what requests use ----------------------------------------------------------------------- */

void sp_tiers_use(sp_tiers *t, const sp_copy *copy)
{
    sp_tier_key key;
    if (!t || !(copy->places & SP_AT_DISK) || sp_tiers_key_of(t, copy, &key) != SP_OK) return;
    sp_disk_order_worth(t->order, &key, copy->uses.worth);
    sp_tier_use(sp_tiers_tier(t), &key);
}

bool sp_tiers_looks_ahead(const sp_tiers *t)
{
    return t && t->order && sp_disk_order_looks_ahead(t->order);
}

void sp_tiers_look(sp_tiers *t)
{
    if (sp_tiers_looks_ahead(t)) sp_disk_order_look(t->order);
}

void sp_tiers_expect(sp_tiers *t, const sp_copy *copy, float weight)
{
    sp_tier_key key;
    if (!sp_tiers_looks_ahead(t) || !(copy->places & SP_AT_DISK)) return;
    if (sp_tiers_key_of(t, copy, &key) == SP_OK) sp_disk_order_expect(t->order, &key, weight);
}

sp_err sp_tiers_hold(sp_tiers *t, const sp_digest *ids, size_t n)
{
    return t && t->order ? sp_disk_order_hold(t->order, ids, n) : SP_OK;
}

bool sp_tiers_has_all(const sp_copy *copy)
{
    return (copy->places & SP_AT_DISK) &&
           (copy->stored.stats || !sp_copy_is_measured(&copy->facts)) &&
           (copy->stored.heavy || !copy->facts.heavy);
}

/* -- questions ------------------------------------------------------------------------------- */

bool sp_tiers_has_store(const sp_tiers *t)
{
    return t && sp_tiers_tier(t);
}

sp_tier *sp_tiers_tier(const sp_tiers *t)
{
    return sp_tiers_level(t, SP_AT_DISK)->tier;
}

static sp_tier_key name_of(const sp_tiers_key *key, sp_copy_kind kind)
{
    return (sp_tier_key){.id = key->seg->id,
                         .head = sp_head_key(key->head, key->n_head),
                         .kind = (uint32_t)kind};
}

bool sp_tiers_has(const sp_tiers *t, const sp_tiers_key *key, sp_copy_kind kind)
{
    const sp_tier_key name = name_of(key, kind);
    return sp_tier_knows(sp_tiers_tier(t), &name);
}

/* keeper -- the tier for copies that are computed in advance. */
static sp_tier *keeper(const sp_tiers *t)
{
    return sp_tiers_has_store(t) ? sp_tiers_tier(t) : sp_tiers_remote(t);
}

bool sp_tiers_keeps(const sp_tiers *t, const sp_tiers_key *key, sp_copy_kind kind)
{
    const sp_tier_key name = name_of(key, kind);
    return sp_tier_knows(keeper(t), &name);
}

bool sp_tiers_writes(const sp_tiers *t)
{
    return sp_tier_is_writer(sp_tiers_tier(t));
}

/* has_elsewhere -- whether the store has the segment for another model or KV type. */
static bool has_elsewhere(const sp_tiers *t, const sp_segment *segs, int i, int n_head)
{
    return sp_others_have(t->others, &(sp_others_query){.seg = &segs[i],
                                                         .head = segs,
                                                         .n_head = n_head,
                                                         .salt = t->salt,
                                                         .n_kinds = SP_COPY_FUSED + 1});
}

sp_miss sp_tiers_explain(const sp_tiers *t, const sp_tiers_miss *m)
{
    if (!sp_tiers_has_store(t)) return m->why;
    const sp_tiers_key key = {.seg = &m->segs[m->i], .head = m->ids, .n_head = m->n_head};
    if (m->unread && (sp_tiers_has(t, &key, SP_COPY_FUSED) || sp_tiers_has(t, &key, SP_COPY_PLAIN)))
        return SP_MISS_POLICY;
    const bool is_new = m->why == SP_MISS_NEVER_SEEN || m->why == SP_MISS_EDITED;
    return is_new && has_elsewhere(t, m->segs, m->i, m->n_head) ? SP_MISS_OTHER_MODEL : m->why;
}

/* The facts of a copy's header. The tier's thread may still fill it in after the caller has returned. */
typedef struct before_query {
    atomic_int refs;
    int32_t *tokens;   /* [n] */
    sp_digest *before; /* [n_before] the first n_head are the head */
    int32_t n;
    int n_before, n_head;
} before_query;

static void release_query(before_query *q)
{
    if (atomic_fetch_sub(&q->refs, 1) > 1) return;
    sp_free(q->tokens);
    sp_free(q->before);
    sp_free(q);
}

static sp_err take_before(void *user, const sp_record *r)
{
    before_query *q = user;
    const size_t n = (size_t)r->n, n_before = (size_t)r->facts.n_before;
    q->tokens = sp_alloc(n + 1, sizeof *q->tokens);
    q->before = sp_alloc(n_before + 1, sizeof *q->before);
    if (!q->tokens || !q->before)
        return sp_fail_nomem("the header of a copy");
    memcpy(q->tokens, r->tokens, n * sizeof *q->tokens);
    if (n_before) memcpy(q->before, r->facts.before, n_before * sizeof *q->before);
    q->n = r->n;
    q->n_before = r->facts.n_before;
    q->n_head = r->facts.n_head;
    return SP_OK;
}

static void before_done(void *user, sp_tier_op *op)
{
    SP_UNUSED(op);
    release_query(user);
}

/* is_of -- whether the header is of a copy of this segment after this head. */
static bool is_of(const before_query *q, const sp_tiers_key *key)
{
    return q->n == key->seg->n && q->n_head == key->n_head &&
           memcmp(q->tokens, key->seg->tokens, (size_t)q->n * sizeof *q->tokens) == 0 &&
           (!q->n_head || memcmp(q->before, key->head, (size_t)q->n_head * sizeof *q->before) == 0);
}

/* read_before -- SP_E_IO: timed out; the tier then owns the query until it is done. */
static sp_err read_before(sp_tiers *t, const sp_tiers_key *key, before_query *q)
{
    sp_tier_op *op;
    sp_err err = sp_tier_submit(keeper(t),
                                &(sp_tier_job){.verb = SP_TIER_GET,
                                               .urgent = true,
                                               .key = name_of(key, SP_COPY_FUSED),
                                               .deadline_us = sp_clock_us() + t->timeout_us,
                                               .head = take_before,
                                               .done = before_done,
                                               .user = q},
                                &op);
    if (err != SP_OK) {
        release_query(q); /* for the tier */
        return err;
    }
    const bool came = sp_tier_op_wait(op, t->timeout_us);
    if (!came) sp_tier_op_cancel(op);
    err = came ? sp_tier_op_result(op) : sp_fail(SP_E_IO, "the store does not answer");
    sp_tier_op_release(op);
    return err;
}

sp_err sp_tiers_before(sp_tiers *t, const sp_tiers_key *key, sp_arena *arena,
                       const sp_digest **before, int *n)
{
    *n = 0;
    *before = NULL;
    if (t->writes.stuck) return sp_fail(SP_E_IO, "the store does not answer");
    before_query *q = SP_NEW(before_query);
    if (!q) return sp_fail_nomem("the header of a copy");
    atomic_init(&q->refs, 2);
    sp_err err = read_before(t, key, q);
    if (err == SP_OK && is_of(q, key)) {
        sp_digest *out = sp_arena_take(arena, (size_t)q->n_before, sizeof *out);
        if (!out)
            err = sp_fail_nomem("a copy from the store");
        else if (q->n_before)
            memcpy(out, q->before, (size_t)q->n_before * sizeof *out);
        *before = out;
        *n = out ? q->n_before : 0;
    }
    release_query(q);
    const bool unreadable = err == SP_E_FORMAT || err == SP_E_UNSUPPORTED; /* damaged, or of another version */
    return err == SP_E_NOTFOUND || unreadable ? SP_OK : err;
}
