#include "serve/tiers/tiers.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

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

static void store_done(sp_io_job *job)
{
    transfer *x = (transfer *)job, **link = &x->tiers->storing;
    sp_tiers *t = x->tiers;
    while (*link != x) link = &(*link)->next;
    *link = x->next;
    if (job->err == SP_OK) {
        sp_ledger_placed(t->ledger, x->copy, SP_AT_DISK);
        t->full = false;
    } else {
        note_failure(t, x);
    }
    sp_ledger_unpin(t->ledger, x->copy);
    free_transfer(x);
}

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
    return x != NULL;
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

typedef struct before_query {
    sp_disk_key key;
    sp_arena *arena;
    const sp_digest *before;
    int n;
} before_query;

static sp_err read_before(sp_disk *disk, void *arg)
{
    before_query *q = arg;
    sp_disk_copy copy;
    if (!sp_disk_find(disk, &q->key, &copy)) return SP_OK;
    sp_digest *out = sp_arena_take(q->arena, (size_t)copy.n_before, sizeof *out);
    if (!out) return sp_fail_nomem((size_t)copy.n_before * sizeof *out, "a copy from the store");
    if (copy.n_before) memcpy(out, copy.before, (size_t)copy.n_before * sizeof *out);
    q->before = out;
    q->n = copy.n_before;
    return SP_OK;
}

sp_err sp_tiers_before(sp_tiers *t, const sp_tiers_key *key, sp_arena *arena,
                       const sp_digest **before, int *n)
{
    before_query q = {
        .key = {.kind = SP_DISK_FUSED, .seg = key->seg, .head = key->head, .n_head = key->n_head},
        .arena = arena};
    SP_TRY(sp_io_call(t->io, read_before, &q));
    *before = q.before;
    *n = q.n;
    return SP_OK;
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
    sp_io_drain(t->io);
    sp_err err = sp_io_call(t->io, run_retain, &q);
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
    sp_io_drain(t->io);
    sp_err host = t->host ? sp_tier_erase(t->host, e) : SP_OK;
    sp_err disk = t->disk ? sp_io_call(t->io, run_erase, &job) : SP_OK;
    return disk == SP_OK ? host : disk;
}
