#include "store/remote/tier.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/bytes.h"
#include "store/remote/form.h"
#include "store/remote/link.h"
#include "store/remote/notice.h"
#include "store/remote/seal.h"
#include "store/table.h"
#include "store/tier_type.h"

enum {
    BATCH = 64, /* gets that are asked for at once */
    FIELD_SIZE = 12,
    EXPIRY_BYTES = 8, /* after a header: seconds since 1970, little-endian */
    LEAST_PAUSE_US = 100000, /* of the listener after a failure; doubles each time */
    MOST_PAUSE_US = 1000000,
};

/* The store, as one thread of the tier sees it. */
typedef struct line {
    sp_remote_link *link; /* NULL: not connected */
    int64_t n_failed;     /* of the tier, when it was connected: after a later failure it is not used again */
} line;

typedef struct remote_tier {
    sp_tier base; /* first */
    const sp_remote_kind *kind;
    sp_remote_site site;
    char *url, *ca_file; /* of it */
    sp_remote_seal seal;
    sp_remote_form form;
    bool must;
    sp_op_queue gets, others; /* a get does not wait for a put */
    struct {
        pthread_t reader, writer, listener;
        int n; /* of these, in this order */
    } threads;
    atomic_bool stop, some_news, taking;
    line in, out; /* the reader's and the writer's */
    atomic_bool up;           /* tier.h I3 */
    _Atomic int64_t n_failed; /* how often it has ceased to be */

    pthread_mutex_t lock; /* of the following */
    sp_table table;
    uint32_t first;             /* of the table's one list */
    SP_VEC(sp_tier_info) fresh; /* news for sp_tier_news */
    sp_tier_stats stats;
    struct {
        pthread_cond_t changed;
        int64_t n;  /* how often the listener has tried to read the index */
        sp_err err; /* of the last time */
        char detail[256];
    } heard;
} remote_tier;

static remote_tier *remote_of(sp_tier *t)
{
    return (remote_tier *)t;
}

/* -- the index; lock is held ------------------------------------------------------------------------- */

static int64_t bytes_of(const sp_remote_notice *n)
{
    return (int64_t)(n->stride * (uint64_t)n->n_layers);
}

static uint64_t stride_of(const sp_record *r)
{
    return r->layer_bytes + r->facts.note_bytes;
}

static int64_t entry_bytes(const sp_entry *e)
{
    return (int64_t)e->place.pages * SP_PAGE;
}

static void forget(remote_tier *t, const sp_tier_key *key)
{
    uint32_t i = sp_table_find(&t->table, key);
    if (i == SP_NO_ENTRY) return;
    t->stats.bytes_used -= entry_bytes(&t->table.entries.v[i]);
    sp_table_remove(&t->table, i, &t->first);
}

static bool is_known(const remote_tier *t, const sp_tier_key *key, const sp_disk_place *place)
{
    uint32_t i = sp_table_find(&t->table, key);
    return i != SP_NO_ENTRY && sp_disk_place_eq(&t->table.entries.v[i].place, place);
}

/* learn -- notes that the store has a copy; `tell`: the engine is notified. Errors: SP_E_NOMEM, since a deletion is to
 * find every copy. */
static sp_err learn(remote_tier *t, const sp_remote_notice *n, bool tell)
{
    const sp_disk_place place = {.segment = (uint32_t)sp_remote_per_group(n->stride),
                                 .page = (uint32_t)n->stride,
                                 .pages = (uint32_t)(bytes_of(n) / SP_PAGE),
                                 .head_pages = (uint32_t)n->head_bytes,
                                 .n = n->n,
                                 .n_layers = (uint32_t)n->n_layers,
                                 .facts = n->facts & 0xff,
                                 .cost_us = n->cost_us};
    if (is_known(t, &n->key, &place)) return SP_OK;
    SP_TRY(sp_table_reserve(&t->table, 1));
    if (tell) SP_TRY(sp_vec_reserve(&t->fresh, 1));
    forget(t, &n->key);
    sp_table_add(&t->table, &n->key, &place, &t->first);
    t->stats.bytes_used += (int64_t)place.pages * SP_PAGE;
    if (!tell) return SP_OK;
    t->fresh.v[t->fresh.n++] =
        (sp_tier_info){.key = n->key, .n = n->n, .bytes = bytes_of(n), .facts = n->facts, .cost_us = n->cost_us};
    atomic_store(&t->some_news, true);
    return SP_OK;
}

/* -- connections ------------------------------------------------------------------------------------- */

static void hang_up(const remote_tier *t, line *l)
{
    if (l->link) t->kind->close(l->link);
    l->link = NULL;
}

/* fail_line -- after a failure: one warning for each time that the store is lost. */
static void fail_line(remote_tier *t, line *l)
{
    hang_up(t, l);
    if (!atomic_exchange(&t->up, false)) return;
    t->n_failed++;
    sp_log(t->must ? SP_LOG_DEBUG : SP_LOG_WARN, "the remote tier does not answer: %s", sp_error_detail());
}

/* await_first -- waits until the listener has tried to reach the store for the first time. */
static void await_first(remote_tier *t)
{
    pthread_mutex_lock(&t->lock);
    while (!t->heard.n && !t->stop) pthread_cond_wait(&t->heard.changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static sp_err connect_line(remote_tier *t, line *l)
{
    await_first(t);
    if (!atomic_load(&t->up)) return sp_fail(SP_E_IO, "the remote tier has not answered recently");
    if (l->link && l->n_failed == t->n_failed) return SP_OK;
    hang_up(t, l);
    l->n_failed = t->n_failed;
    sp_err err = t->kind->open(&t->site, &l->link);
    if (err != SP_OK) fail_line(t, l);
    return err;
}

/* -- put ---------------------------------------------------------------------------------------------- */

/* A put under way. */
typedef struct putting {
    remote_tier *t;
    const sp_tier_op *op;
    const sp_record *r;
    sp_remote_notice notice;
    char name[SP_REMOTE_NAME];
    sp_layer_sum *sums;
    sp_form_writer form; /* of groups; a seal follows each */
} putting;

static void field_of(int part, char out[FIELD_SIZE])
{
    snprintf(out, FIELD_SIZE, part == SP_PART_HEAD ? "head" : "%d", part);
}

/* send_part -- n bytes, where there is room for a MAC. */
static sp_err send_part(putting *p, int part, uint8_t *data, size_t n)
{
    char field[FIELD_SIZE];
    size_t size = n;
    field_of(part, field);
    SP_TRY(sp_seal_put(&p->t->seal, p->name, field, data, &size));
    return p->t->kind->add(p->t->out.link, part, data, size);
}

/* take_group_in -- layers [first, first + n) from the source. */
static sp_err take_group_in(putting *p, int first, int n)
{
    const sp_tier_job *job = &p->op->job;
    for (int i = 0; i < n; i++) {
        if (sp_tier_op_is_cancelled(p->op)) return sp_fail(SP_E_CANCELED, "a put was cancelled");
        SP_TRY(job->source(job->user, first + i, sp_form_slot(&p->form, i)));
        sp_form_add(&p->form, i, first + i, p->sums);
    }
    return SP_OK;
}

static sp_err send_layers(putting *p)
{
    const int per = sp_remote_per_group(stride_of(p->r));
    for (int first = 0; first < p->r->n_layers; first += per) {
        const int n = SP_MIN(per, p->r->n_layers - first);
        size_t bytes;
        SP_TRY(take_group_in(p, first, n));
        uint8_t *group = sp_form_end(&p->form, n, &bytes);
        SP_TRY(send_part(p, first / per, group, bytes));
    }
    return SP_OK;
}

/* head_bytes -- of the header's value: padded to pages, then the time when the copy expires if it does. */
static size_t head_bytes(const remote_tier *t, const sp_record *r)
{
    return sp_record_layout_of(r).head_pages * (size_t)SP_PAGE + (t->site.ttl_s ? EXPIRY_BYTES : 0);
}

static sp_err send_head(putting *p)
{
    const size_t n = head_bytes(p->t, p->r);
    uint8_t *head = sp_alloc(1, n + SP_SEAL_BYTES);
    if (!head) return sp_fail_nomem("the header of a copy");
    sp_err err = sp_record_write(p->r, p->sums, head);
    if (p->t->site.ttl_s) put64(head + n - EXPIRY_BYTES, (uint64_t)p->notice.expires_s);
    if (err == SP_OK) err = send_part(p, SP_PART_HEAD, head, n);
    sp_free(head);
    return err;
}

/* announce -- makes a complete copy visible, and tells the others its name. After an error the store may name it, and
 * nobody has heard of it: the index has it already, so that a sweep drops it. */
static sp_err announce(putting *p)
{
    bool taken;
    remote_tier *t = p->t;
    pthread_mutex_lock(&t->lock);
    sp_err err = learn(t, &p->notice, false);
    pthread_mutex_unlock(&t->lock);
    if (err == SP_OK) err = t->kind->finish(t->out.link, &taken);
    if (err != SP_OK) return err;
    if (taken) return SP_OK;
    pthread_mutex_lock(&t->lock);
    t->stats.n_put++;
    t->stats.bytes_written += bytes_of(&p->notice);
    pthread_mutex_unlock(&t->lock);
    return SP_OK;
}

/* shape_of -- of a notice of the index; or of a copy that is to be put. */
static sp_remote_shape shape_of(const remote_tier *t, uint64_t head, uint64_t stride, int n_layers, bool varies)
{
    const uint64_t seal = t->seal.n_key ? SP_SEAL_BYTES : 0;
    const int per = sp_remote_per_group(stride), n = (n_layers + per - 1) / per;
    return (sp_remote_shape){.head = head,
                             .group = (uint64_t)per * stride + seal,
                             .last = (uint64_t)(n_layers - (n - 1) * per) * stride + seal,
                             .n_groups = n,
                             .varies = varies};
}

static sp_err write_copy(putting *p)
{
    bool taken;
    char why[256], says[SP_REMOTE_NOTICE];
    remote_tier *t = p->t;
    const sp_remote_shape shape = shape_of(t, p->notice.head_bytes, p->notice.stride, p->notice.n_layers,
                                           p->notice.facts & SP_REMOTE_VARIES);
    sp_remote_write_notice(&p->notice, says);
    SP_TRY(t->kind->begin(t->out.link, p->name, says, &shape, &taken));
    if (taken) return SP_OK;
    sp_err err = send_layers(p);
    if (err == SP_OK) err = send_head(p);
    if (err == SP_OK) err = announce(p);
    if (err == SP_OK) return SP_OK;
    snprintf(why, sizeof why, "%s", sp_error_detail());
    t->kind->abandon(t->out.link);
    return sp_fail(err, "%s", why);
}

/* has_all -- the copies that a put continues. */
static sp_err has_all(remote_tier *t, const sp_tier_key *keys, int n)
{
    bool all = true;
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < n && all; i++) all = sp_table_find(&t->table, &keys[i]) != SP_NO_ENTRY;
    pthread_mutex_unlock(&t->lock);
    return all ? SP_OK : sp_fail(SP_E_NOTFOUND, "the remote tier lacks the copy that this one continues");
}

/* put_record -- of what is stored: with the facts of it. */
static sp_err put_record(remote_tier *t, const sp_tier_op *op, const sp_record *r)
{
    const size_t seal = t->seal.n_key ? SP_SEAL_BYTES : 0;
    putting p = {.t = t,
                 .op = op,
                 .r = r,
                 .notice = {.key = sp_tier_key_of(r),
                            .n = r->n,
                            .n_layers = r->n_layers,
                            .stride = stride_of(r),
                            .facts = sp_tier_facts_of(r),
                            .cost_us = r->facts.cost_us,
                            .head_bytes = head_bytes(t, r) + seal,
                            .expires_s = t->site.ttl_s ? (int64_t)time(NULL) + t->site.ttl_s : 0}};
    SP_TRY(sp_form_writer_init(&p.form, &t->form, r, sp_remote_per_group(stride_of(r)), SP_SEAL_BYTES));
    if (p.form.packed || t->form.level) p.notice.facts |= SP_REMOTE_VARIES;
    sp_remote_name(&op->job.key, p.name);
    p.sums = sp_alloc((size_t)sp_record_n_sums(r), sizeof *p.sums);
    sp_err err = p.sums ? write_copy(&p) : sp_fail_nomem("a copy for the remote tier");
    sp_free(p.sums);
    sp_form_writer_fini(&p.form);
    return err;
}

static sp_err run_put(remote_tier *t, const sp_tier_op *op)
{
    sp_record r = *op->job.record;
    SP_TRY(has_all(t, op->job.after, op->job.n_after));
    SP_TRY(connect_line(t, &t->out));
    if (sp_form_packs(&t->form, &r)) r.facts.exact = false;
    return put_record(t, op, &r);
}

/* -- get ---------------------------------------------------------------------------------------------- */

/* A get of a batch. */
typedef struct getting {
    remote_tier *t;
    sp_tier_op *op;
    char name[SP_REMOTE_NAME];
    int per;           /* layers of a group */
    sp_remote_ask ask; /* groups [first, first + n); n 0: the header alone */
    uint8_t *head;     /* what the record points into */
    sp_record record;
    bool is_gone; /* the store has dropped it, or should */
    bool skips;   /* nobody takes the rest */
} getting;

/* prepare -- fills in what to ask for. Errors: SP_E_NOTFOUND without a message: the index does not have the copy. */
static sp_err prepare(getting *g)
{
    remote_tier *t = g->t;
    const sp_tier_job *job = &g->op->job;
    SP_TRY(sp_tier_op_begin(g->op));
    pthread_mutex_lock(&t->lock);
    uint32_t i = sp_table_find(&t->table, &job->key);
    const sp_disk_place place = i == SP_NO_ENTRY ? (sp_disk_place){0} : t->table.entries.v[i].place;
    t->stats.n_missed += i == SP_NO_ENTRY;
    pthread_mutex_unlock(&t->lock);
    if (i == SP_NO_ENTRY) return sp_fail(SP_E_NOTFOUND, "no such copy in the remote tier");
    if (job->first < 0 || job->n_layers < 0 || job->n_layers > (int)place.n_layers - job->first)
        return sp_fail(SP_E_ARG, "layers %d to %d of a copy of %u layers", job->first, job->first + job->n_layers - 1,
                       place.n_layers);
    g->per = (int)place.segment;
    sp_remote_name(&job->key, g->name);
    g->ask.name = g->name;
    g->ask.shape = shape_of(t, place.head_pages, place.page, (int)place.n_layers, place.facts & SP_REMOTE_VARIES);
    g->ask.first = job->first / g->per;
    g->ask.n = job->n_layers ? (job->first + job->n_layers - 1) / g->per + 1 - g->ask.first : 0;
    return SP_OK;
}

/* check_expiry -- of a header of n bytes. Errors: SP_E_NOTFOUND. */
static sp_err check_expiry(getting *g, const uint8_t *head, size_t n)
{
    if (n % SP_PAGE != EXPIRY_BYTES || get64(head + n - EXPIRY_BYTES) > (uint64_t)time(NULL)) return SP_OK;
    g->is_gone = true;
    return sp_fail(SP_E_NOTFOUND, "a copy of the remote tier has expired");
}

/* take_head -- verifies that the header belongs to the requested copy. */
static sp_err take_head(getting *g, const uint8_t *data, size_t n)
{
    if (!data) return sp_fail(SP_E_NOTFOUND, "the remote tier has dropped the copy");
    if (!sp_seal_check(&g->t->seal, g->name, "head", data, &n))
        return sp_fail(SP_E_FORMAT, "remote tier: the header of a copy is not authentic");
    SP_TRY(check_expiry(g, data, n));
    g->head = sp_alloc(1, n + 1);
    if (!g->head) return sp_fail_nomem("the header of a copy");
    memcpy(g->head, data, n);
    SP_TRY(sp_record_read(g->head, n, &g->record));
    const sp_tier_key is = sp_tier_key_of(&g->record);
    const bool same =
        sp_digest_eq(&is.id, &g->op->job.key.id) && is.head == g->op->job.key.head && is.kind == g->op->job.key.kind;
    if (!same || sp_remote_per_group(stride_of(&g->record)) != g->per)
        return sp_fail(SP_E_FORMAT, "remote tier: the header is of another copy");
    return g->op->job.head ? g->op->job.head(g->op->job.user, &g->record) : SP_OK;
}

/* deliver -- those of a group of layers [from, to) that were asked for. */
static sp_err deliver(const getting *g, const sp_form_reader *f, int from, int to)
{
    const sp_tier_job *job = &g->op->job;
    for (int l = SP_MAX(from, job->first); l < SP_MIN(to, job->first + job->n_layers); l++) {
        const uint8_t *layer;
        if (sp_tier_op_is_cancelled(g->op)) return sp_fail(SP_E_CANCELED, "a load was cancelled");
        SP_TRY(sp_form_layer(f, l - from, l, &layer));
        if (job->sink && layer) SP_TRY(job->sink(job->user, l, layer));
    }
    return SP_OK;
}

/* take_group -- verifies the layers of one value. */
static sp_err take_group(const getting *g, int group, const uint8_t *data, size_t n)
{
    char field[FIELD_SIZE];
    sp_form_reader f;
    const int from = group * g->per, to = SP_MIN(from + g->per, g->record.n_layers);
    if (!data) return sp_fail(SP_E_NOTFOUND, "the remote tier has dropped layers of the copy");
    field_of(group, field);
    if (!sp_seal_check(&g->t->seal, g->name, field, data, &n))
        return sp_fail(SP_E_FORMAT, "remote tier: layers %d to %d are not authentic", from, to - 1);
    SP_TRY(sp_form_reader_init(&f, &g->t->form, &g->record, to - from, data, n));
    sp_err err = deliver(g, &f, from, to);
    sp_form_reader_fini(&f);
    return err;
}

/* take_part -- what was cancelled is received to its end: its time is that of the store (tier.h I5). */
static sp_err take_part(void *user, int part, const uint8_t *data, size_t n)
{
    getting *g = user;
    if (g->skips) return SP_OK;
    if (!data) g->is_gone = true;
    atomic_store(&g->t->taking, true);
    sp_err err = part == SP_PART_HEAD ? take_head(g, data, n) : take_group(g, part, data, n);
    atomic_store(&g->t->taking, false);
    g->skips = err == SP_E_CANCELED;
    return g->skips ? SP_OK : err;
}

static bool is_wanted(void *user)
{
    return !sp_tier_op_is_withdrawn(((const getting *)user)->op);
}

static void end_get(void *user, sp_err err)
{
    getting *g = user;
    remote_tier *t = g->t;
    const bool whole = err == SP_OK;
    if (whole && g->skips) err = sp_fail(SP_E_CANCELED, "a load was cancelled");
    const bool gone = err == SP_E_NOTFOUND || err == SP_E_FORMAT;
    pthread_mutex_lock(&t->lock);
    t->stats.n_got += err == SP_OK;
    t->stats.n_damaged += err == SP_E_FORMAT;
    t->stats.n_failed += err != SP_OK && err != SP_E_CANCELED && !gone;
    if (whole) t->stats.bytes_read += (int64_t)stride_of(&g->record) * g->op->job.n_layers;
    if (gone) forget(t, &g->op->job.key);
    pthread_mutex_unlock(&t->lock);
    if (err == SP_E_FORMAT) sp_log(SP_LOG_WARN, "%s", sp_error_detail());
    sp_tier_op_finish(g->op, err);
    sp_free(g->head);
}

/* run_gets -- a batch. A copy that the store has dropped leaves its index, so that no other process asks for it. */
static void run_gets(remote_tier *t, getting *v, int n)
{
    sp_remote_ask asks[BATCH];
    int n_asked = 0;
    const sp_err line_err = connect_line(t, &t->in);
    for (int i = 0; i < n; i++) {
        v[i].ask = (sp_remote_ask){.take = take_part, .is_wanted = is_wanted, .end = end_get, .user = &v[i]};
        sp_err err = line_err == SP_OK ? prepare(&v[i]) : sp_fail(SP_E_IO, "the remote tier does not answer");
        if (err == SP_OK)
            asks[n_asked++] = v[i].ask;
        else
            end_get(&v[i], err);
    }
    if (n_asked) t->kind->get(t->in.link, asks, n_asked);
    for (int i = 0; i < n_asked && !t->in.link->broken; i++) {
        const getting *g = asks[i].user;
        if (g->is_gone && t->kind->strike_out(t->in.link, g->name) != SP_OK)
            sp_log(SP_LOG_DEBUG, "a deleted copy is still in the index: %s", sp_error_detail());
    }
    if (line_err == SP_OK && t->in.link->broken) fail_line(t, &t->in);
}

static void *read_copies(void *arg)
{
    remote_tier *t = arg;
    getting batch[BATCH];
    for (sp_tier_op *op; (op = sp_op_queue_pop(&t->gets, true));) {
        int n = 0;
        for (; op; op = n < BATCH ? sp_op_queue_pop(&t->gets, false) : NULL) batch[n++] = (getting){.t = t, .op = op};
        run_gets(t, batch, n);
    }
    return NULL;
}

/* -- the others ----------------------------------------------------------------------------------------- */

/* run_drop -- the index has the copy until the store has dropped it: a sweep that is tried again finds it. */
static sp_err run_drop(remote_tier *t, const sp_tier_op *op)
{
    char name[SP_REMOTE_NAME];
    sp_remote_name(&op->job.key, name);
    pthread_mutex_lock(&t->lock);
    const bool known = sp_table_find(&t->table, &op->job.key) != SP_NO_ENTRY;
    pthread_mutex_unlock(&t->lock);
    SP_TRY(connect_line(t, &t->out));
    SP_TRY(t->kind->drop(t->out.link, name));
    pthread_mutex_lock(&t->lock);
    t->stats.n_dropped += known;
    forget(t, &op->job.key);
    pthread_mutex_unlock(&t->lock);
    return SP_OK;
}

/* learn_quietly -- of a copy that may be there. */
static sp_err learn_quietly(void *user, const char *name, const char *says)
{
    remote_tier *t = user;
    sp_remote_notice n;
    if (!sp_remote_read_notice(name, says, &n)) return SP_OK;
    pthread_mutex_lock(&t->lock);
    sp_err err = sp_table_find(&t->table, &n.key) == SP_NO_ENTRY ? learn(t, &n, false) : SP_OK;
    pthread_mutex_unlock(&t->lock);
    return err;
}

/* run_sync -- operations end in order. A sweep, which begins so, is to fail while the index may lack copies of the
 * store, and is to find what a server that was lost has left. */
static sp_err run_sync(remote_tier *t)
{
    const sp_remote_ears ears = {.learn = learn_quietly, .user = t};
    SP_TRY(connect_line(t, &t->out));
    return t->kind->recall ? t->kind->recall(t->out.link, &ears) : SP_OK;
}

/* run_list -- lists a copy of the index, so that a slow `each` does not hold the lock. */
static sp_err run_list(remote_tier *t, const sp_tier_op *op)
{
    SP_VEC(sp_tier_info) all = {0};
    pthread_mutex_lock(&t->lock);
    sp_err err = sp_vec_reserve(&all, t->table.n);
    for (uint32_t i = t->table.oldest; err == SP_OK && i != SP_NO_ENTRY; i = t->table.entries.v[i].newer) {
        const sp_entry *e = &t->table.entries.v[i];
        all.v[all.n++] = (sp_tier_info){.key = e->key,
                                        .n = e->place.n,
                                        .bytes = entry_bytes(e),
                                        .facts = e->place.facts,
                                        .cost_us = e->place.cost_us};
    }
    pthread_mutex_unlock(&t->lock);
    if (err == SP_OK) err = sp_tier_op_list(op, all.v, all.n);
    sp_vec_fini(&all);
    return err;
}

static sp_err run_other(remote_tier *t, const sp_tier_op *op)
{
    SP_TRY(sp_tier_op_begin(op));
    switch (op->job.verb) {
    case SP_TIER_PUT:
        return run_put(t, op);
    case SP_TIER_DROP:
        return run_drop(t, op);
    case SP_TIER_LIST:
        return run_list(t, op);
    case SP_TIER_SYNC:
        return run_sync(t);
    case SP_TIER_TRIM: /* the server keeps to its own budget (maxmemory) */
    case SP_TIER_ERASE: /* what is dropped is gone from the server */
    case SP_TIER_GET:
        break;
    }
    return SP_OK;
}

static void *write_copies(void *arg)
{
    remote_tier *t = arg;
    for (sp_tier_op *op; (op = sp_op_queue_pop(&t->others, true));) {
        sp_err err = run_other(t, op);
        if (t->out.link && t->out.link->broken) fail_line(t, &t->out);
        pthread_mutex_lock(&t->lock);
        t->stats.n_failed += err != SP_OK && err != SP_E_CANCELED;
        pthread_mutex_unlock(&t->lock);
        sp_tier_op_finish(op, err);
    }
    return NULL;
}

/* -- what others say -------------------------------------------------------------------------------------- */

static sp_err learn_name(void *user, const char *name, const char *says)
{
    remote_tier *t = user;
    sp_remote_notice n;
    if (t->stop) return sp_fail(SP_E_CANCELED, "the remote tier is being closed");
    if (!says || !sp_remote_read_notice(name, says, &n)) return SP_OK;
    if (n.expires_s && n.expires_s <= (int64_t)time(NULL)) return SP_OK;
    pthread_mutex_lock(&t->lock);
    sp_err err = learn(t, &n, true);
    pthread_mutex_unlock(&t->lock);
    return err;
}

static void forget_name(void *user, const char *name)
{
    remote_tier *t = user;
    sp_tier_key key;
    if (!sp_remote_read_name(name, &key)) return;
    pthread_mutex_lock(&t->lock);
    forget(t, &key);
    pthread_mutex_unlock(&t->lock);
}

/* tell_heard -- wakes the threads that wait for the index. */
static void tell_heard(remote_tier *t, sp_err err)
{
    pthread_mutex_lock(&t->lock);
    t->heard.n++;
    t->heard.err = err;
    snprintf(t->heard.detail, sizeof t->heard.detail, "%s", err == SP_OK ? "" : sp_error_detail());
    pthread_cond_broadcast(&t->heard.changed);
    pthread_mutex_unlock(&t->lock);
}

/* reach -- connects the listener, unless it is connected and no other line has failed since. */
static sp_err reach(remote_tier *t, line *l, const sp_remote_ears *ears)
{
    if (l->link && atomic_load(&t->up)) return SP_OK;
    hang_up(t, l);
    sp_err err = t->kind->open(&t->site, &l->link);
    if (err == SP_OK) err = t->kind->hear(l->link, ears);
    if (err == SP_OK && !atomic_exchange(&t->up, true)) sp_log(SP_LOG_INFO, "the remote tier answers again");
    if (err != SP_OK) fail_line(t, l);
    tell_heard(t, err);
    return err;
}

static void *listen_to_others(void *arg)
{
    remote_tier *t = arg;
    const sp_remote_ears ears = {.learn = learn_name, .forget = forget_name, .user = t};
    line l = {0};
    for (int pause_us = 0; !t->stop;) {
        sp_err err = reach(t, &l, &ears);
        if (err == SP_OK && (err = t->kind->hear(l.link, &ears)) != SP_OK) fail_line(t, &l);
        pause_us = err == SP_OK ? 0 : SP_MIN(SP_MAX(2 * pause_us, LEAST_PAUSE_US), MOST_PAUSE_US);
        for (int us = 0; us < pause_us && !t->stop; us += LEAST_PAUSE_US) usleep(LEAST_PAUSE_US);
    }
    hang_up(t, &l);
    return NULL;
}

sp_err sp_remote_tier_await(sp_tier *tier, int64_t us)
{
    remote_tier *t = remote_of(tier);
    const struct timespec end = sp_clock_after(us);
    pthread_mutex_lock(&t->lock);
    while (!t->heard.n && pthread_cond_timedwait(&t->heard.changed, &t->lock, &end) == 0) {}
    sp_err err = t->heard.err == SP_OK ? SP_OK : sp_fail(t->heard.err, "%s", t->heard.detail);
    if (!t->heard.n) err = sp_fail(SP_E_IO, "the remote tier did not list its copies in time");
    pthread_mutex_unlock(&t->lock);
    return err;
}

/* -- the type ----------------------------------------------------------------------------------------------- */

static sp_op_queue *queue_of(sp_tier *t, sp_tier_verb verb)
{
    return verb == SP_TIER_GET ? &remote_of(t)->gets : &remote_of(t)->others;
}

static bool knows(sp_tier *tier, const sp_tier_key *key)
{
    remote_tier *t = remote_of(tier);
    pthread_mutex_lock(&t->lock);
    bool known = sp_table_find(&t->table, key) != SP_NO_ENTRY;
    pthread_mutex_unlock(&t->lock);
    return known;
}

static bool answers(sp_tier *tier)
{
    return atomic_load(&remote_of(tier)->up);
}

static bool takes(sp_tier *tier)
{
    return atomic_load(&remote_of(tier)->taking);
}

static sp_tier_stats stats_of(sp_tier *tier)
{
    remote_tier *t = remote_of(tier);
    pthread_mutex_lock(&t->lock);
    sp_tier_stats s = t->stats;
    s.n_copies = (int64_t)t->table.n;
    s.bytes_live = s.bytes_used;
    s.index_bytes = (int64_t)sp_table_bytes(&t->table);
    pthread_mutex_unlock(&t->lock);
    return s;
}

/* free_site -- and the tier. */
static void free_site(remote_tier *t)
{
    if (t->site.shared) t->kind->unshare(&t->site);
    sp_seal_fini(&t->seal);
    sp_free(t->url);
    sp_free(t->ca_file);
    sp_free(t);
}

static void close_tier(sp_tier *tier)
{
    remote_tier *t = remote_of(tier);
    const pthread_t threads[] = {t->threads.reader, t->threads.writer, t->threads.listener};
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->heard.changed);
    pthread_mutex_unlock(&t->lock);
    sp_op_queue_close(&t->gets);
    sp_op_queue_close(&t->others);
    for (int i = 0; i < t->threads.n; i++) pthread_join(threads[i], NULL);
    hang_up(t, &t->in);
    hang_up(t, &t->out);
    sp_table_fini(&t->table);
    sp_vec_fini(&t->fresh);
    sp_op_queue_fini(&t->gets);
    sp_op_queue_fini(&t->others);
    pthread_cond_destroy(&t->heard.changed);
    pthread_mutex_destroy(&t->lock);
    free_site(t);
}

static sp_err news(sp_tier *tier, sp_err (*each)(void *user, const sp_tier_info *info), void *user)
{
    remote_tier *t = remote_of(tier);
    SP_VEC(sp_tier_info) none = {0};
    if (!atomic_exchange(&t->some_news, false)) return SP_OK;
    pthread_mutex_lock(&t->lock);
    sp_tier_info *v = t->fresh.v;
    const size_t n = t->fresh.n;
    t->fresh.v = none.v;
    t->fresh.n = t->fresh.cap = 0;
    pthread_mutex_unlock(&t->lock);
    sp_err err = SP_OK;
    for (size_t i = 0; i < n && err == SP_OK; i++) err = each(user, &v[i]);
    sp_free(v);
    return err;
}

static const sp_tier_type remote_type = {
    .name = "remote", .queue_of = queue_of, .knows = knows, .answers = answers, .takes = takes, .news = news,
    .stats = stats_of, .close = close_tier};

static sp_err start(remote_tier *t)
{
    struct {
        pthread_t *thread;
        void *(*run)(void *);
    } const all[] = {{&t->threads.reader, read_copies},
                     {&t->threads.writer, write_copies},
                     {&t->threads.listener, listen_to_others}};
    for (size_t i = 0; i < SP_COUNT(all); i++) {
        if (pthread_create(all[i].thread, NULL, all[i].run, t) != 0)
            return sp_fail(SP_E_NOMEM, "cannot start a thread of the remote tier");
        t->threads.n++;
    }
    return SP_OK;
}

/* name_site -- Errors: SP_E_NOMEM, SP_E_IO, those of the kind. */
static sp_err name_site(remote_tier *t, const sp_remote_tier_opts *o)
{
    uint64_t own;
    if (getrandom(&own, sizeof own, 0) != sizeof own) return sp_fail(SP_E_IO, "there are no random numbers");
    SP_TRY(sp_remote_kind_of(o->url, &t->kind));
    t->url = sp_strdup_n(o->url, strlen(o->url));
    if (o->ca_file) t->ca_file = sp_strdup_n(o->ca_file, strlen(o->ca_file));
    if (!t->url || (o->ca_file && !t->ca_file)) return sp_fail_nomem("the name of a remote tier");
    t->site = (sp_remote_site){
        .url = t->url, .ca_file = t->ca_file, .timeout_us = o->timeout_us, .ttl_s = SP_MAX(o->ttl_s, 0)};
    sp_digest_hex(o->space, 16, t->site.space);
    snprintf(t->site.self, sizeof t->site.self, "%016" PRIx64, own);
    snprintf(t->seal.space, sizeof t->seal.space, "SPOLIA:%s:", t->site.space);
    SP_TRY(t->kind->check(&t->site));
    return t->kind->share ? t->kind->share(&t->site) : SP_OK;
}

sp_err sp_remote_tier_open(const sp_remote_tier_opts *o, sp_tier **out)
{
    remote_tier *t = SP_NEW(remote_tier);
    if (!t) return sp_fail_nomem("the remote tier");
    *t = (remote_tier){.base.type = &remote_type, .must = o->must, .first = SP_NO_ENTRY};
    t->form = (sp_remote_form){.packs = o->packs, .level = o->compress, .only_checks = o->only_checks};
    if (o->packing) t->form.packing = *o->packing;
    t->up = true; /* nothing is known to the contrary */
    sp_err err = sp_seal_init(&t->seal, o->mac_key, o->n_mac_key);
    if (err == SP_OK) err = name_site(t, o);
    if (err == SP_OK) err = sp_op_queue_init(&t->gets);
    if (err != SP_OK) {
        free_site(t);
        return err;
    }
    sp_table_init(&t->table);
    pthread_mutex_init(&t->lock, NULL);
    sp_cond_init(&t->heard.changed);
    err = sp_op_queue_init(&t->others);
    if (err == SP_OK) err = start(t);
    if (err != SP_OK) {
        close_tier(&t->base);
        return err;
    }
    *out = &t->base;
    return SP_OK;
}
