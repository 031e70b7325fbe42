#include "serve/tiers/tiers.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/tiers/tiers_int.h"
#include "store/disk_tier.h"

/* A copy on its way to the store: a job that owns all it reads, but for the pinned copy. */
typedef struct sp_storing {
    sp_io_job job; /* first */
    sp_tiers *tiers;
    const sp_copy *copy;
    sp_segment seg;  /* tokens: the copy's */
    sp_digest *head; /* [n_head] own */
    int n_head;
    struct sp_storing *next;
} transfer;

/* -- opening --------------------------------------------------------------------------------- */

static sp_copy_kind kind_of(sp_disk_kind k)
{
    return k == SP_DISK_FUSED ? SP_COPY_FUSED : SP_COPY_PLAIN;
}

static sp_disk_kind disk_kind_of(sp_copy_kind k)
{
    return k == SP_COPY_PATH ? SP_DISK_PATH : k == SP_COPY_FUSED ? SP_DISK_FUSED : SP_DISK_PLAIN;
}

static sp_err adopt(const sp_disk_found *name, void *user)
{
    if (name->kind == SP_DISK_PATH) return SP_OK; /* paths.c */
    return sp_ledger_adopt(user, &(sp_adopted){.id = name->id,
                                               .kind = kind_of(name->kind),
                                               .head = name->head,
                                               .place = SP_AT_DISK,
                                               .measured = name->facts & SP_FACT_STATS,
                                               .heavy = name->facts & SP_FACT_HEAVY,
                                               .cost_us = name->cost_us,
                                               .n_uses = name->n_uses});
}

enum { PIECES = 4 /* gets of a copy, when its first layers are wanted first */ };

/* open_waiting -- a deadline is on the monotonic clock. */
static void open_waiting(sp_tiers *t)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->more, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void close_all(sp_tiers *t)
{
    sp_tier_close(t->host);
    sp_disk_order_destroy(t->order);
    sp_vec_fini(&t->path);
    pthread_cond_destroy(&t->more);
    pthread_mutex_destroy(&t->lock);
    sp_free(t);
}

/* open_store -- the disk, and what it has. */
static sp_err open_store(sp_tiers *t, const sp_tiers_opts *o)
{
    if (!o->dir) return SP_OK;
    SP_TRY(sp_disk_order_create(o->store_evict, o->cost, &t->order));
    SP_TRY(sp_disk_open(&(sp_disk_opts){.dir = o->dir,
                                        .space = o->space,
                                        .pool = o->pool,
                                        .max_bytes = o->max_bytes,
                                        .evict = sp_disk_order_hooks(t->order)},
                        &t->disk));
    SP_TRY(sp_disk_each(t->disk, adopt, o->ledger));
    return sp_tiers_adopt_paths(t);
}

sp_err sp_tiers_open(const sp_tiers_opts *o, sp_tiers **out)
{
    sp_tiers *t = SP_NEW(sp_tiers);
    if (!t) return sp_fail_nomem(sizeof *t, "the tiers");
    *t = (sp_tiers){.ledger = o->ledger,
                    .pool = o->pool,
                    .space = *o->space,
                    .salt = o->salt,
                    .load_failed = o->load_failed,
                    .user = o->user};
    t->admit_cheaper = o->admit_cheaper;
    t->timeout_us = o->timeout_us;
    if (o->by_layers) t->piece = SP_DIV_UP(sp_kv_pool_shape(o->pool)->n_layers, PIECES);
    open_waiting(t);
    sp_err err = o->host_bytes ? sp_tiers_open_host(t, o) : SP_OK;
    sp_ledger_set_tiers(
        o->ledger,
        &(sp_ledger_tiers){.leaving = sp_tiers_leaving, .useless = sp_tiers_useless, .user = t});
    if (err == SP_OK) err = open_store(t, o);
    if (err == SP_OK) err = sp_io_open(t->disk, &t->io);
    if (err != SP_OK) {
        sp_ledger_set_tiers(o->ledger, &(sp_ledger_tiers){0});
        sp_disk_close(t->disk);
        close_all(t);
        return err;
    }
    *out = t;
    return SP_OK;
}

void sp_tiers_close(sp_tiers *t)
{
    if (!t) return;
    sp_tiers_end_loads(t);
    sp_ledger_set_tiers(t->ledger, &(sp_ledger_tiers){0});
    sp_io_close(t->io);
    assert(!t->storing && !t->loading && !t->abandoned);
    close_all(t);
}

/* come_to_rest -- ends what is under way; false: a tier has not answered for timeout_us. */
static bool come_to_rest(sp_tiers *t)
{
    sp_tiers_drain(t);
    const int64_t end = sp_clock_us() + t->timeout_us;
    for (int64_t left; sp_io_busy(t->io) && (left = end - sp_clock_us()) > 0;)
        sp_io_wait_for(t->io, left);
    return !sp_io_busy(t->io);
}

bool sp_tiers_end(sp_tiers *t)
{
    if (!t) return true;
    sp_tiers_cancel_loads(t);
    return come_to_rest(t);
}

bool sp_tiers_has_store(const sp_tiers *t)
{
    return t && t->disk;
}

sp_io *sp_tiers_io(sp_tiers *t)
{
    return t->io;
}

/* -- transfers ------------------------------------------------------------------------------- */

static void free_transfer(transfer *x)
{
    sp_free(x->head);
    sp_free(x);
}

static transfer *new_transfer(sp_tiers *t, const sp_tiers_key *key)
{
    size_t n = (size_t)key->n_head;
    transfer *x = SP_NEW(transfer);
    if (!x) return NULL;
    *x = (transfer){.tiers = t, .copy = key->copy, .seg = *key->seg, .n_head = key->n_head};
    x->head = sp_alloc(n ? n : 1, sizeof *x->head);
    if (!x->head) {
        free_transfer(x);
        return NULL;
    }
    if (n) memcpy(x->head, key->head, n * sizeof *x->head);
    return x;
}

static sp_disk_key disk_key_of(const transfer *x)
{
    return (sp_disk_key){
        .kind = disk_kind_of(x->copy->kind), .seg = &x->seg, .head = x->head, .n_head = x->n_head};
}

/* -- storing --------------------------------------------------------------------------------- */

static void run_store(sp_io_job *job, sp_disk *disk)
{
    transfer *x = (transfer *)job;
    const sp_copy *c = x->copy;
    sp_disk_key key = disk_key_of(x);
    sp_disk_copy copy = {.before = c->before,
                         .n_before = c->n_before,
                         .at = c->at,
                         .exact = c->exact,
                         .cost_us = c->cost_us,
                         .heavy = c->heavy,
                         .slot = c->first};
    if (c->stats) {
        copy.inter = c->stats->inter;
        copy.order = c->stats->order;
        copy.cci = c->stats->cci;
    }
    if (c->kind == SP_COPY_PATH) {
        copy.before = x->head;
        copy.n_before = x->n_head;
        job->err = sp_tiers_put_path(x->tiers, &key, &copy, c->blocks);
    } else {
        job->err = sp_disk_put(disk, &key, &copy, c->blocks);
    }
}

/* note_failure -- one warning until there is room; a copy whose parent was not written is not one. */
static void note_failure(sp_tiers *t, const transfer *x)
{
    const sp_err err = x->job.err;
    bool follows = x->copy->kind == SP_COPY_PATH && err == SP_E_NOTFOUND;
    bool told = follows || (err == SP_E_LIMIT && t->full);
    sp_log(told ? SP_LOG_DEBUG : SP_LOG_WARN, "a copy was not stored: %s", x->job.detail);
    if (follows) return;
    t->n_failed++;
    t->err = err;
    t->full = err == SP_E_LIMIT;
    snprintf(t->detail, sizeof t->detail, "%s", x->job.detail);
}

/* end_store -- the transfer is over: its copy may leave the device. */
static void end_store(transfer *x)
{
    sp_tiers *t = x->tiers;
    transfer **link = &t->storing;
    while (*link != x) link = &(*link)->next;
    *link = x->next;
    sp_ledger_unpin(t->ledger, x->copy);
    free_transfer(x);
}

static void store_done(sp_io_job *job)
{
    transfer *x = (transfer *)job;
    sp_tiers *t = x->tiers;
    if (t->stuck) sp_log(SP_LOG_INFO, "the store answers once more: copies are written");
    t->stuck = false;
    if (job->err == SP_OK) {
        sp_ledger_placed(t->ledger, x->copy, SP_AT_DISK);
        t->full = false;
    } else {
        note_failure(t, x);
    }
    end_store(x);
}

/* -- a store that does not answer ----------------------------------------------------------- */

static transfer *running(const sp_tiers *t)
{
    transfer *x = t->storing;
    while (x && atomic_load(&x->job.began_us) == 0) x = x->next;
    return x;
}

/* count_given_up -- a copy that is not written because of a write that hangs; its next use tries again. */
static void count_given_up(sp_tiers *t)
{
    t->n_failed++;
    t->n_given_up++;
    t->err = SP_E_IO;
    snprintf(t->detail, sizeof t->detail, "the store has written nothing for %lld ms",
             (long long)(t->timeout_us / 1000));
}

void sp_tiers_expire_writes(sp_tiers *t)
{
    const transfer *first = t->storing && !t->stuck ? running(t) : NULL;
    if (!first) return;
    const int64_t now_us = sp_clock_us(), n = sp_disk_n_read(t->disk);
    if (n != t->n_put) t->put_us = now_us;
    t->n_put = n;
    t->put_us = SP_MAX(t->put_us, atomic_load(&first->job.began_us));
    if (now_us - t->put_us <= t->timeout_us) return;
    t->stuck = true;
    sp_log(SP_LOG_WARN,
           "the store has written nothing for %lld ms: no copies are written until it answers",
           (long long)(t->timeout_us / 1000));
    for (transfer *x = t->storing, *next; x; x = next) {
        next = x->next;
        if (!sp_io_withdraw(t->io, &x->job)) continue;
        count_given_up(t);
        end_store(x);
    }
}

int64_t sp_tiers_until_write_expiry(const sp_tiers *t)
{
    const int64_t now_us = t->storing ? sp_clock_us() : 0;
    if (!t->storing || t->stuck) return INT64_MAX;
    const transfer *x = running(t);
    const int64_t since = x ? SP_MAX(t->put_us, atomic_load(&x->job.began_us)) : now_us;
    return since + t->timeout_us - now_us;
}

/* -- what requests store and use ------------------------------------------------------------ */

void sp_tiers_use(sp_tiers *t, const sp_copy *copy)
{
    sp_tier_key key;
    if (!t || !(copy->places & SP_AT_DISK) || sp_tiers_key_of(t, copy, &key) != SP_OK) return;
    sp_disk_order_worth(t->order, &key, copy->worth);
    sp_tier_use(sp_disk_tier_of(t->disk), &key);
}

sp_err sp_tiers_hold(sp_tiers *t, const sp_digest *ids, size_t n)
{
    return t && t->order ? sp_disk_order_hold(t->order, ids, n) : SP_OK;
}

bool sp_tiers_has_all(const sp_copy *copy)
{
    return (copy->places & SP_AT_DISK) && (copy->stored.stats || !copy->stats) &&
           (copy->stored.heavy || !copy->heavy);
}

bool sp_tiers_is_storing(const sp_tiers *t, const sp_copy *copy)
{
    const transfer *x = t->storing;
    while (x && x->copy != copy) x = x->next;
    return x && !t->stuck;
}

int64_t sp_tiers_n_storing_blocks(const sp_tiers *t)
{
    int64_t n = 0;
    for (const transfer *x = t->storing; x; x = x->next) n += sp_copy_n_own_blocks(x->copy);
    return n;
}

sp_err sp_tiers_store(sp_tiers *t, const sp_tiers_key *key)
{
    if (!t->disk || sp_tiers_is_storing(t, key->copy)) return SP_OK;
    if (t->stuck) {
        count_given_up(t);
        return SP_OK;
    }
    transfer *x = new_transfer(t, key);
    if (!x) return sp_fail_nomem(sizeof *x, "storing a copy");
    if (!key->copy->first) sp_notes_prepare(t->pool, key->copy->blocks, key->copy->n);
    sp_ledger_pin(t->ledger, key->copy);
    x->seg.tokens = key->copy->tokens;
    x->next = t->storing;
    t->storing = x;
    x->job = (sp_io_job){.run = run_store, .done = store_done};
    sp_io_submit(t->io, &x->job);
    return SP_OK;
}

sp_err sp_tiers_stored(const sp_tiers *t, const sp_copy *copy)
{
    if (copy->places & SP_AT_DISK) return SP_OK;
    return sp_fail(t->err == SP_OK ? SP_E_IO : t->err, "%s", t->detail);
}

int64_t sp_tiers_n_failed(const sp_tiers *t)
{
    return t->n_failed;
}

bool sp_tiers_has_missed(const sp_tiers *t)
{
    return t && t->n_given_up > 0 && !t->stuck;
}

sp_tier *sp_tiers_tier(const sp_tiers *t)
{
    return sp_disk_tier_of(t->disk);
}

/* -- questions ------------------------------------------------------------------------------- */

bool sp_tiers_has(const sp_tiers *t, const sp_tiers_key *key, sp_copy_kind kind)
{
    return sp_disk_has(t->disk, &(sp_disk_key){.kind = disk_kind_of(kind),
                                               .seg = key->seg,
                                               .head = key->head,
                                               .n_head = key->n_head});
}

bool sp_tiers_writes(const sp_tiers *t)
{
    return sp_disk_tier_is_writer(sp_disk_tier_of(t->disk));
}

bool sp_tiers_has_elsewhere(const sp_tiers *t, const sp_segment *seg, const sp_segment *head,
                            int n_head)
{
    return sp_disk_has_elsewhere(t->disk, seg, head, n_head, t->salt);
}

/* What the header of a copy says. The tier's thread may come after the one that asks has left. */
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
    const size_t n = (size_t)r->n, n_before = (size_t)r->n_before;
    q->tokens = sp_alloc(n + 1, sizeof *q->tokens);
    q->before = sp_alloc(n_before + 1, sizeof *q->before);
    if (!q->tokens || !q->before)
        return sp_fail_nomem(n * sizeof *q->tokens, "the header of a copy");
    memcpy(q->tokens, r->tokens, n * sizeof *q->tokens);
    if (n_before) memcpy(q->before, r->before, n_before * sizeof *q->before);
    q->n = r->n;
    q->n_before = r->n_before;
    q->n_head = r->n_head;
    return SP_OK;
}

static void before_done(void *user, sp_tier_op *op)
{
    SP_UNUSED(op);
    release_query(user);
}

/* is_of -- the header is that of a copy of this segment, after this head. */
static bool is_of(const before_query *q, const sp_tiers_key *key)
{
    return q->n == key->seg->n && q->n_head == key->n_head &&
           memcmp(q->tokens, key->seg->tokens, (size_t)q->n * sizeof *q->tokens) == 0 &&
           (!q->n_head || memcmp(q->before, key->head, (size_t)q->n_head * sizeof *q->before) == 0);
}

/* read_before -- SP_E_IO: not in time; then the query is the tier's until it is done. */
static sp_err read_before(sp_tiers *t, const sp_tiers_key *key, before_query *q)
{
    sp_tier_op *op;
    const sp_tier_key name = {.id = key->seg->id,
                              .head = sp_head_key(key->head, key->n_head),
                              .kind = (uint32_t)SP_DISK_FUSED};
    sp_err err = sp_tier_submit(sp_disk_tier_of(t->disk),
                                &(sp_tier_job){.verb = SP_TIER_GET,
                                               .urgent = true,
                                               .key = name,
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
    if (t->stuck) return sp_fail(SP_E_IO, "the store does not answer");
    before_query *q = SP_NEW(before_query);
    if (!q) return sp_fail_nomem(sizeof *q, "the header of a copy");
    atomic_init(&q->refs, 2);
    sp_err err = read_before(t, key, q);
    if (err == SP_OK && is_of(q, key)) {
        sp_digest *out = sp_arena_take(arena, (size_t)q->n_before, sizeof *out);
        if (!out)
            err = sp_fail_nomem((size_t)q->n_before * sizeof *out, "a copy from the store");
        else if (q->n_before)
            memcpy(out, q->before, (size_t)q->n_before * sizeof *out);
        *before = out;
        *n = out ? q->n_before : 0;
    }
    release_query(q);
    return err == SP_E_NOTFOUND || err == SP_E_FORMAT ? SP_OK : err;
}

typedef struct retain_query {
    sp_disk_keep_fn *keep;
    void *user;
    int64_t n_removed;
} retain_query;

static sp_err run_retain(sp_disk *disk, void *arg)
{
    retain_query *q = arg;
    return sp_disk_retain(disk, q->keep, q->user, &q->n_removed);
}

/* forget_removed -- places of copies that `keep` does not want. */
static sp_err forget_removed(sp_tiers *t, sp_disk_keep_fn *keep, void *user)
{
    SP_VEC(const sp_copy *) gone = {0}; /* a list: the walk allows no change */
    sp_err err = SP_OK;
    for (const sp_copy *c = NULL; err == SP_OK && (c = sp_ledger_next(t->ledger, c));) {
        if (!(c->places & SP_AT_DISK) || c->kind == SP_COPY_PATH || keep(&c->id, user)) continue;
        err = sp_vec_reserve(&gone, 1);
        if (err == SP_OK) gone.v[gone.n++] = c;
    }
    for (size_t i = 0; i < gone.n; i++) sp_ledger_unplaced(t->ledger, gone.v[i], SP_AT_DISK);
    sp_vec_fini(&gone);
    return err;
}

sp_err sp_tiers_retain(sp_tiers *t, sp_disk_keep_fn *keep, void *user, int64_t *n_removed)
{
    retain_query q = {.keep = keep, .user = user};
    if (n_removed) *n_removed = 0;
    if (!come_to_rest(t)) return sp_fail(SP_E_IO, "the store does not answer");
    sp_err err = sp_io_call(t->io, run_retain, &q, t->timeout_us);
    if (n_removed) *n_removed = q.n_removed;
    sp_err forgotten = forget_removed(t, keep, user);
    return err == SP_OK ? forgotten : err;
}

static sp_err run_erase(sp_disk *disk, void *arg)
{
    return sp_tier_erase(sp_disk_tier_of(disk), arg);
}

sp_err sp_tiers_erase(sp_tiers *t, const sp_erase *e)
{
    sp_erase job = *e;
    if (!come_to_rest(t)) return sp_fail(SP_E_IO, "the store does not answer");
    sp_err host = t->host ? sp_tier_erase(t->host, e) : SP_OK;
    sp_err disk = t->disk ? sp_io_call(t->io, run_erase, &job, t->timeout_us) : SP_OK;
    return disk == SP_OK ? host : disk;
}
