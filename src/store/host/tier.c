#include "store/host/tier.h"

#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "store/table.h"
#include "store/tier_type.h"

enum { COPY_BYTES = 256 /* of the index and of the allocator, for each copy */ };

/* A copy: never changes while anybody holds it. */
typedef struct host_copy {
    atomic_int refs;
    sp_record record; /* in head */
    uint8_t *head;
    uint8_t *layers; /* [n_layers, stride] each as it is kept, then its notes */
    size_t kept;     /* bytes of a layer without its notes */
    size_t stride;
    bool packed;
    int64_t bytes; /* I2 */
} host_copy;

typedef struct host_tier {
    sp_tier base; /* first */
    int64_t max_bytes;
    sp_kv_packing packing; /* name NULL: none */
    sp_tier_evict evict;
    sp_op_queue queue;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock; /* of the following */
    sp_table table;
    uint32_t first;             /* of the table's one list */
    SP_VEC(host_copy *) copies; /* by index of the entry */
    sp_tier_stats stats;
} host_tier;

static host_tier *host_of(sp_tier *t)
{
    return (host_tier *)t;
}

/* -- copies --------------------------------------------------------------------------------- */

static void release(host_copy *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1) return;
    if (c->layers && c->record.n_layers) { /* nothing of an erased document is left */
        explicit_bzero(c->layers, (size_t)c->record.n_layers * c->stride);
        explicit_bzero(c->head, sp_record_layout_of(&c->record).head_pages * (size_t)SP_PAGE);
    }
    sp_free(c->head);
    sp_free(c->layers);
    sp_free(c);
}

static bool is_packed(const host_tier *h, const sp_record *r)
{
    return h->packing.name && h->packing.wants(h->packing.user, r);
}

/* kept_of -- the bytes of a layer in the tier's type, without its notes. */
static size_t kept_of(const host_tier *h, const sp_record *r)
{
    const sp_kv_packing *p = &h->packing;
    return is_packed(h, r) ? p->packed_bytes(p->user, r->layer_bytes) : r->layer_bytes;
}

int64_t sp_host_tier_bytes(sp_tier *t, const sp_record *r)
{
    return (int64_t)(sp_record_layout_of(r).head_pages * (size_t)SP_PAGE +
                     (size_t)r->n_layers * (kept_of(host_of(t), r) + r->facts.note_bytes) +
                     COPY_BYTES);
}

/* Buffers for a layer and its notes in the caller's type; NULL if the tier stores that type. */
static sp_err take_staging(const host_copy *c, const sp_record *r, uint8_t **out)
{
    const size_t bytes = r->layer_bytes + r->facts.note_bytes;
    *out = c->packed ? sp_alloc(1, bytes) : NULL;
    return c->packed && !*out ? sp_fail_nomem("a layer of the host tier") : SP_OK;
}

/* fill_layers -- from the source of a put, with the checksums of what is kept. */
static sp_err fill_layers(host_tier *h, const sp_tier_op *op, host_copy *c, sp_layer_sum *sums)
{
    const sp_tier_job *job = &op->job;
    const sp_kv_packing *p = &h->packing;
    const sp_record *r = job->record;
    uint8_t *staging;
    sp_err err = take_staging(c, r, &staging);
    for (int l = 0; err == SP_OK && l < r->n_layers; l++) {
        uint8_t *to = c->layers + (size_t)l * c->stride;
        if (sp_tier_op_is_cancelled(op)) err = sp_fail(SP_E_CANCELED, "a put was cancelled");
        if (err == SP_OK) err = job->source(job->user, l, staging ? staging : to);
        if (err != SP_OK) break;
        if (staging) {
            p->pack(p->user, staging, r->layer_bytes, to);
            memcpy(to + c->kept, staging + r->layer_bytes, r->facts.note_bytes);
        }
        sums[l] = sp_layer_sum_of(to, c->kept);
        if (r->facts.note_bytes)
            sums[r->n_layers + l] = sp_layer_sum_of(to + c->kept, r->facts.note_bytes);
    }
    sp_free(staging);
    return err;
}

static sp_err new_copy(host_tier *h, const sp_tier_op *op, host_copy **out)
{
    const sp_record *r = op->job.record;
    const size_t n_layers = (size_t)r->n_layers;
    const size_t head = sp_record_layout_of(r).head_pages * (size_t)SP_PAGE;
    host_copy *c = SP_NEW(host_copy);
    sp_layer_sum *sums = sp_alloc((size_t)sp_record_n_sums(r), sizeof *sums);
    sp_err err = SP_OK;
    if (c) {
        atomic_init(&c->refs, 1);
        c->kept = kept_of(h, r);
        c->stride = c->kept + r->facts.note_bytes;
        c->packed = is_packed(h, r);
        c->bytes = sp_host_tier_bytes(&h->base, r);
        c->head = sp_alloc(1, head);
        c->layers = sp_alloc(n_layers, c->stride);
    }
    if (!c || !sums || !c->head || !c->layers)
        err = sp_fail_nomem("a copy in the host tier");
    if (err == SP_OK) err = fill_layers(h, op, c, sums);
    sp_record kept = *r;
    if (c && c->packed) kept.facts.exact = false;
    if (err == SP_OK) err = sp_record_write(&kept, sums, c->head);
    if (err == SP_OK) err = sp_record_read(c->head, head, &c->record);
    sp_free(sums);
    if (err == SP_OK)
        *out = c;
    else
        release(c);
    return err;
}

/* -- the index; lock is held ---------------------------------------------------------------- */

/* take_out -- removes an entry; the caller releases what is returned. */
static host_copy *take_out(host_tier *h, uint32_t i)
{
    host_copy *c = h->copies.v[i];
    sp_table_remove(&h->table, i, &h->first);
    h->copies.v[i] = NULL;
    h->stats.bytes_used -= c->bytes;
    return c;
}

/* next_victim -- by the caller's policy, or the least recently used; SP_NO_ENTRY: none may be dropped. */
static uint32_t next_victim(const host_tier *h)
{
    sp_tier_key key;
    uint32_t i = SP_NO_ENTRY;
    if (h->evict.victim && !h->evict.victim(h->evict.user, &key)) return SP_NO_ENTRY;
    if (h->evict.victim) i = sp_table_find(&h->table, &key);
    return i == SP_NO_ENTRY ? h->table.oldest : i;
}

/* bytes_beside -- of all copies but that of a name, which a newer one replaces; NULL: of all. */
static int64_t bytes_beside(const host_tier *h, const sp_tier_key *key)
{
    const uint32_t i = key ? sp_table_find(&h->table, key) : SP_NO_ENTRY;
    return h->stats.bytes_used - (i == SP_NO_ENTRY ? 0 : h->copies.v[i]->bytes);
}

/* make_room -- I1. */
static sp_err make_room(host_tier *h, int64_t bytes, const sp_tier_key *replaced)
{
    if (bytes > h->max_bytes)
        return sp_fail(SP_E_LIMIT, "a copy of %lld bytes, the host tier has %lld", (long long)bytes,
                       (long long)h->max_bytes);
    while (bytes_beside(h, replaced) + bytes > h->max_bytes) {
        uint32_t i = next_victim(h);
        if (i == SP_NO_ENTRY) return sp_fail(SP_E_LIMIT, "the host tier is full of pinned copies");
        const sp_tier_key key = h->table.entries.v[i].key;
        release(take_out(h, i));
        h->stats.n_evicted++;
        if (h->evict.dropped) h->evict.dropped(h->evict.user, &key);
    }
    return SP_OK;
}

static sp_err insert(host_tier *h, const sp_tier_key *key, host_copy *c)
{
    const sp_record *r = &c->record;
    SP_TRY(sp_table_reserve(&h->table, 1));
    SP_TRY(sp_vec_reserve(&h->copies, h->table.entries.n + 1 - h->copies.n));
    SP_TRY(make_room(h, c->bytes, key));
    const uint32_t old = sp_table_find(&h->table, key); /* unless it was a victim */
    if (old != SP_NO_ENTRY) release(take_out(h, old));
    uint32_t i = sp_table_add(
        &h->table, key, &(sp_disk_place){.n_layers = (uint32_t)r->n_layers, .n = r->n}, &h->first);
    while (h->copies.n <= i) h->copies.v[h->copies.n++] = NULL;
    h->copies.v[i] = c;
    h->stats.bytes_used += c->bytes;
    return SP_OK;
}

/* -- operations ----------------------------------------------------------------------------- */

/* has_all -- the copies that a put continues. */
static sp_err has_all(host_tier *h, const sp_tier_key *keys, int n)
{
    bool all = true;
    pthread_mutex_lock(&h->lock);
    for (int i = 0; i < n && all; i++) all = sp_table_find(&h->table, &keys[i]) != SP_NO_ENTRY;
    pthread_mutex_unlock(&h->lock);
    return all ? SP_OK
               : sp_fail(SP_E_NOTFOUND, "the host tier lacks the copy that this one continues");
}

static sp_err run_put(host_tier *h, const sp_tier_op *op)
{
    host_copy *c = NULL;
    SP_TRY(has_all(h, op->job.after, op->job.n_after));
    SP_TRY(new_copy(h, op, &c));
    const int64_t bytes = c->bytes; /* the copy is the table's once it is inserted */
    pthread_mutex_lock(&h->lock);
    sp_err err = insert(h, &op->job.key, c);
    h->stats.n_put += err == SP_OK;
    h->stats.bytes_written += err == SP_OK ? bytes : 0;
    pthread_mutex_unlock(&h->lock);
    if (err != SP_OK) release(c);
    return err;
}

/* is_whole -- whether the checksum of a layer and its notes matches. */
static bool is_whole(const host_copy *c, int layer, const uint8_t *from)
{
    const sp_record *r = &c->record;
    if (!sp_layer_sum_eq(sp_layer_sum_of(from, c->kept), r->sums[layer])) return false;
    return r->facts.note_bytes == 0 ||
           sp_layer_sum_eq(sp_layer_sum_of(from + c->kept, r->facts.note_bytes),
                           r->sums[r->n_layers + layer]);
}

static sp_err deliver(host_tier *h, const sp_tier_op *op, const host_copy *c)
{
    const sp_tier_job *job = &op->job;
    const sp_kv_packing *p = &h->packing;
    if (job->first < 0 || job->n_layers < 0 || job->n_layers > c->record.n_layers - job->first)
        return sp_fail(SP_E_ARG, "layers %d to %d of a copy of %d layers", job->first,
                       job->first + job->n_layers - 1, c->record.n_layers);
    if (job->head) SP_TRY(job->head(job->user, &c->record));
    const sp_record *r = &c->record;
    uint8_t *staging = NULL;
    sp_err err = job->n_layers ? take_staging(c, r, &staging) : SP_OK;
    for (int l = job->first; err == SP_OK && l < job->first + job->n_layers; l++) {
        const uint8_t *from = c->layers + (size_t)l * c->stride;
        if (sp_tier_op_is_cancelled(op)) err = sp_fail(SP_E_CANCELED, "a load was cancelled");
        if (err == SP_OK && !is_whole(c, l, from))
            err = sp_fail(SP_E_FORMAT, "damaged in memory: the checksum of layer %d is wrong", l);
        if (err == SP_OK && staging) {
            p->unpack(p->user, from, r->layer_bytes, staging);
            memcpy(staging + r->layer_bytes, from + c->kept, r->facts.note_bytes);
        }
        if (err == SP_OK && job->sink) err = job->sink(job->user, l, staging ? staging : from);
    }
    sp_free(staging);
    return err;
}

/* quarantine -- removes a damaged copy from the index. */
static void quarantine(host_tier *h, const sp_tier_key *key, const host_copy *c)
{
    uint32_t i = sp_table_find(&h->table, key);
    if (i == SP_NO_ENTRY || h->copies.v[i] != c) return;
    release(take_out(h, i));
    h->stats.n_damaged++;
}

static sp_err run_get(host_tier *h, const sp_tier_op *op)
{
    host_copy *c = NULL;
    pthread_mutex_lock(&h->lock);
    uint32_t i = sp_table_find(&h->table, &op->job.key);
    if (i != SP_NO_ENTRY) {
        sp_table_use(&h->table, i);
        c = h->copies.v[i];
        atomic_fetch_add(&c->refs, 1);
    }
    h->stats.n_missed += !c;
    pthread_mutex_unlock(&h->lock);
    if (!c) return sp_fail(SP_E_NOTFOUND, "no such copy in the host tier");
    sp_err err = deliver(h, op, c);
    pthread_mutex_lock(&h->lock);
    h->stats.n_got += err == SP_OK;
    h->stats.n_failed += err != SP_OK && err != SP_E_CANCELED && err != SP_E_FORMAT;
    if (err == SP_OK) h->stats.bytes_read += (int64_t)((size_t)op->job.n_layers * c->stride);
    if (err == SP_E_FORMAT) quarantine(h, &op->job.key, c);
    pthread_mutex_unlock(&h->lock);
    release(c);
    return err;
}

static sp_err run_drop(host_tier *h, const sp_tier_op *op)
{
    pthread_mutex_lock(&h->lock);
    uint32_t i = sp_table_find(&h->table, &op->job.key);
    host_copy *c = i == SP_NO_ENTRY ? NULL : take_out(h, i);
    h->stats.n_dropped += c != NULL;
    pthread_mutex_unlock(&h->lock);
    release(c);
    return SP_OK;
}

/* run_list -- lists a copy of the index, so that a slow `each` does not hold the lock. */
static sp_err run_list(host_tier *h, const sp_tier_op *op)
{
    SP_VEC(sp_tier_info) all = {0};
    pthread_mutex_lock(&h->lock);
    sp_err err = sp_vec_reserve(&all, h->table.n);
    for (uint32_t i = h->table.oldest; err == SP_OK && i != SP_NO_ENTRY;) {
        const sp_entry *e = &h->table.entries.v[i];
        all.v[all.n++] =
            (sp_tier_info){.key = e->key, .n = e->place.n, .bytes = h->copies.v[i]->bytes};
        i = e->newer;
    }
    pthread_mutex_unlock(&h->lock);
    if (err == SP_OK) err = sp_tier_op_list(op, all.v, all.n);
    sp_vec_fini(&all);
    return err;
}

/* run_trim -- by the policy's order, as a put does. */
static sp_err run_trim(host_tier *h, const sp_tier_op *op)
{
    pthread_mutex_lock(&h->lock);
    sp_err err = make_room(h, h->max_bytes - SP_MIN(op->job.max_bytes, h->max_bytes), NULL);
    pthread_mutex_unlock(&h->lock);
    return err;
}

/* run_nothing -- dropped copies are overwritten when the last reader releases them, and operations end in order. */
static sp_err run_nothing(host_tier *h, const sp_tier_op *op)
{
    SP_UNUSED(h);
    SP_UNUSED(op);
    return SP_OK;
}

static sp_err run(sp_tier *t, const sp_tier_op *op)
{
    static sp_err (*const verbs[])(host_tier *, const sp_tier_op *) = {
        [SP_TIER_PUT] = run_put,   [SP_TIER_GET] = run_get,       [SP_TIER_DROP] = run_drop,
        [SP_TIER_LIST] = run_list, [SP_TIER_ERASE] = run_nothing, [SP_TIER_TRIM] = run_trim,
        [SP_TIER_SYNC] = run_nothing,
    };
    SP_TRY(sp_tier_op_begin(op));
    return verbs[op->job.verb](host_of(t), op);
}

static void *work(void *arg)
{
    host_tier *h = arg;
    for (sp_tier_op *op; (op = sp_op_queue_pop(&h->queue, true));)
        sp_tier_op_finish(op, run(&h->base, op));
    return NULL;
}

/* -- the type ------------------------------------------------------------------------------- */

static sp_op_queue *queue_of(sp_tier *t, sp_tier_verb verb)
{
    SP_UNUSED(verb);
    return &host_of(t)->queue;
}

static bool knows(sp_tier *t, const sp_tier_key *key)
{
    host_tier *h = host_of(t);
    pthread_mutex_lock(&h->lock);
    bool known = sp_table_find(&h->table, key) != SP_NO_ENTRY;
    pthread_mutex_unlock(&h->lock);
    return known;
}

static sp_tier_stats stats_of(sp_tier *t)
{
    host_tier *h = host_of(t);
    pthread_mutex_lock(&h->lock);
    sp_tier_stats s = h->stats;
    s.n_copies = (int64_t)h->table.n;
    s.bytes_live = s.bytes_used;
    s.bytes_max = h->max_bytes;
    s.index_bytes = (int64_t)(sp_table_bytes(&h->table) + h->copies.cap * sizeof *h->copies.v);
    pthread_mutex_unlock(&h->lock);
    return s;
}

static void close_tier(sp_tier *t)
{
    host_tier *h = host_of(t);
    sp_op_queue_close(&h->queue);
    if (h->has_thread) pthread_join(h->thread, NULL);
    while (h->table.oldest != SP_NO_ENTRY) release(take_out(h, h->table.oldest));
    sp_vec_fini(&h->copies);
    sp_table_fini(&h->table);
    sp_op_queue_fini(&h->queue);
    pthread_mutex_destroy(&h->lock);
    sp_free(h);
}

static const sp_tier_type host_type = {.name = "host",
                                       .queue_of = queue_of,
                                       .run = run,
                                       .knows = knows,
                                       .stats = stats_of,
                                       .close = close_tier};

sp_err sp_host_tier_open(const sp_host_tier_opts *o, sp_tier **out)
{
    if (o->max_bytes <= 0)
        return sp_fail(SP_E_ARG, "host tier of %lld bytes", (long long)o->max_bytes);
    host_tier *h = SP_NEW(host_tier);
    if (!h) return sp_fail_nomem("the host tier");
    *h = (host_tier){.base.type = &host_type,
                     .max_bytes = o->max_bytes,
                     .evict = o->evict,
                     .first = SP_NO_ENTRY};
    if (o->packing) h->packing = *o->packing;
    sp_table_init(&h->table);
    sp_err err = sp_op_queue_init(&h->queue);
    if (err != SP_OK) {
        sp_free(h);
        return err;
    }
    pthread_mutex_init(&h->lock, NULL);
    h->has_thread = pthread_create(&h->thread, NULL, work, h) == 0;
    if (!h->has_thread) {
        close_tier(&h->base);
        return sp_fail(SP_E_NOMEM, "cannot start the thread of the host tier");
    }
    *out = &h->base;
    return SP_OK;
}
