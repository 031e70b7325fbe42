#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/remote/remote_int.h"

enum {
    LEAST_PAUSE_US = 100000, /* of the listener after a failure; doubles each time */
    MOST_PAUSE_US = 1000000,
};

static sp_remote_tier *remote_of(sp_tier *t)
{
    return (sp_remote_tier *)t;
}

/* -- sizes and parts of a copy ----------------------------------------------------------------------- */

int64_t sp_remote_bytes(const sp_remote_notice *n)
{
    return (int64_t)(n->stride * (uint64_t)n->n_layers);
}

uint64_t sp_remote_stride(const sp_record *r)
{
    return r->layer_bytes + r->facts.note_bytes;
}

sp_remote_shape sp_remote_shape_of(const sp_remote_tier *t, uint64_t head, uint64_t stride, int n_layers, bool varies)
{
    const uint64_t seal = t->seal.n_key ? SP_SEAL_BYTES : 0;
    const int per = sp_remote_per_group(stride), n = (n_layers + per - 1) / per;
    return (sp_remote_shape){.head = head,
                             .group = (uint64_t)per * stride + seal,
                             .last = (uint64_t)(n_layers - (n - 1) * per) * stride + seal,
                             .n_groups = n,
                             .varies = varies};
}

void sp_remote_field(int part, char out[SP_REMOTE_FIELD])
{
    snprintf(out, SP_REMOTE_FIELD, part == SP_PART_HEAD ? "head" : "%d", part);
}

/* -- the index; lock is held ------------------------------------------------------------------------- */

static int64_t entry_bytes(const sp_entry *e)
{
    return (int64_t)e->place.pages * SP_PAGE;
}

void sp_remote_forget(sp_remote_tier *t, const sp_tier_key *key)
{
    uint32_t i = sp_table_find(&t->table, key);
    if (i == SP_NO_ENTRY) return;
    t->stats.bytes_used -= entry_bytes(&t->table.entries.v[i]);
    sp_table_remove(&t->table, i, &t->first);
}

void sp_remote_doubt(sp_remote_tier *t, const sp_tier_key *key)
{
    const uint32_t i = sp_table_find(&t->table, key);
    if (i != SP_NO_ENTRY) t->table.entries.v[i].place.facts |= SP_REMOTE_DOUBTFUL;
}

uint32_t sp_remote_find(const sp_remote_tier *t, const sp_tier_key *key)
{
    const uint32_t i = sp_table_find(&t->table, key);
    return i != SP_NO_ENTRY && t->table.entries.v[i].place.facts & SP_REMOTE_DOUBTFUL ? SP_NO_ENTRY : i;
}

static bool is_known(const sp_remote_tier *t, const sp_tier_key *key, const sp_disk_place *place)
{
    const uint32_t i = sp_remote_find(t, key);
    return i != SP_NO_ENTRY && sp_disk_place_eq(&t->table.entries.v[i].place, place);
}

sp_err sp_remote_learn(sp_remote_tier *t, const sp_remote_notice *n, bool tell)
{
    const sp_disk_place place = {.segment = (uint32_t)sp_remote_per_group(n->stride),
                                 .page = (uint32_t)n->stride,
                                 .pages = (uint32_t)(sp_remote_bytes(n) / SP_PAGE),
                                 .head_pages = (uint32_t)n->head_bytes,
                                 .n = n->n,
                                 .n_layers = (uint32_t)n->n_layers,
                                 .facts = n->facts & 0xff & ~SP_REMOTE_DOUBTFUL,
                                 .cost_us = n->cost_us};
    if (is_known(t, &n->key, &place)) return SP_OK;
    SP_TRY(sp_table_reserve(&t->table, 1));
    if (tell) SP_TRY(sp_vec_reserve(&t->fresh, 1));
    sp_remote_forget(t, &n->key);
    sp_table_add(&t->table, &n->key, &place, &t->first);
    t->stats.bytes_used += (int64_t)place.pages * SP_PAGE;
    if (!tell) return SP_OK;
    t->fresh.v[t->fresh.n++] = (sp_tier_info){.key = n->key,
                                              .n = n->n,
                                              .bytes = sp_remote_bytes(n),
                                              .facts = n->facts,
                                              .cost_us = n->cost_us};
    atomic_store(&t->some_news, true);
    return SP_OK;
}

/* -- connections ------------------------------------------------------------------------------------- */

static void hang_up(const sp_remote_tier *t, sp_remote_line *l)
{
    if (l->link) t->kind->close(l->link);
    l->link = NULL;
}

void sp_remote_fail_line(sp_remote_tier *t, sp_remote_line *l)
{
    hang_up(t, l);
    if (!atomic_exchange(&t->up, false)) return;
    t->n_failed++;
    sp_log(t->must ? SP_LOG_DEBUG : SP_LOG_WARN, "the remote tier does not answer: %s", sp_error_detail());
}

/* await_first -- waits until the listener has tried to reach the store for the first time. */
static void await_first(sp_remote_tier *t)
{
    pthread_mutex_lock(&t->lock);
    while (!t->heard.n && !t->stop) pthread_cond_wait(&t->heard.changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

sp_err sp_remote_connect(sp_remote_tier *t, sp_remote_line *l)
{
    await_first(t);
    if (!atomic_load(&t->up)) return sp_fail(SP_E_IO, "the remote tier has not answered recently");
    if (l->link && l->n_failed == t->n_failed) return SP_OK;
    hang_up(t, l);
    l->n_failed = t->n_failed;
    sp_err err = t->kind->open(&t->site, &l->link);
    if (err != SP_OK) sp_remote_fail_line(t, l);
    return err;
}

/* -- what the store says of copies ---------------------------------------------------------------------- */

static bool has_expired(const sp_remote_notice *n)
{
    return n->expires_s && n->expires_s <= (int64_t)time(NULL);
}

static sp_err learn(sp_remote_tier *t, const sp_remote_notice *n)
{
    pthread_mutex_lock(&t->lock);
    sp_err err = sp_remote_learn(t, n, true);
    pthread_mutex_unlock(&t->lock);
    return err;
}

/* doubt -- a copy that may be there. */
static sp_err doubt(sp_remote_tier *t, const sp_remote_notice *n)
{
    sp_err err = SP_OK;
    pthread_mutex_lock(&t->lock);
    if (sp_table_find(&t->table, &n->key) == SP_NO_ENTRY) {
        err = sp_remote_learn(t, n, false);
        sp_remote_doubt(t, &n->key);
    }
    pthread_mutex_unlock(&t->lock);
    return err;
}

/* read_notice -- *reads: it can be read. Errors: SP_E_CANCELED. */
static sp_err read_notice(const sp_remote_tier *t, const char *name, const char *says, sp_remote_notice *out,
                          bool *reads)
{
    if (t->stop) return sp_fail(SP_E_CANCELED, "the remote tier is being closed");
    *reads = says && sp_remote_read_notice(name, says, out);
    return SP_OK;
}

static sp_err learn_name(void *user, const char *name, const char *says)
{
    sp_remote_notice n;
    bool reads = false;
    SP_TRY(read_notice(user, name, says, &n, &reads));
    return reads && !has_expired(&n) ? learn(user, &n) : SP_OK;
}

static sp_err suspect(void *user, const char *name, const char *says)
{
    sp_remote_notice n;
    bool reads = false;
    SP_TRY(read_notice(user, name, says, &n, &reads));
    return reads ? doubt(user, &n) : SP_OK;
}

/* learn_any -- one that has expired may still be there. */
static sp_err learn_any(void *user, const char *name, const char *says)
{
    sp_remote_notice n;
    bool reads = false;
    SP_TRY(read_notice(user, name, says, &n, &reads));
    if (!reads) return SP_OK;
    return has_expired(&n) ? doubt(user, &n) : learn(user, &n);
}

static void forget_name(void *user, const char *name)
{
    sp_remote_tier *t = user;
    sp_tier_key key;
    if (!sp_remote_read_name(name, &key)) return;
    pthread_mutex_lock(&t->lock);
    sp_remote_forget(t, &key);
    pthread_mutex_unlock(&t->lock);
}

/* -- drop, list, sync ----------------------------------------------------------------------------------- */

/* run_drop -- the index has the copy until the store has dropped it: a sweep that is tried again finds it. */
static sp_err run_drop(sp_remote_tier *t, const sp_tier_op *op)
{
    char name[SP_REMOTE_NAME];
    sp_remote_name(&op->job.key, name);
    pthread_mutex_lock(&t->lock);
    const bool known = sp_table_find(&t->table, &op->job.key) != SP_NO_ENTRY;
    pthread_mutex_unlock(&t->lock);
    SP_TRY(sp_remote_connect(t, &t->out));
    SP_TRY(t->kind->drop(t->out.link, name));
    pthread_mutex_lock(&t->lock);
    t->stats.n_dropped += known;
    sp_remote_forget(t, &op->job.key);
    pthread_mutex_unlock(&t->lock);
    return SP_OK;
}

/* run_sync -- operations end in order. A sweep, which begins so, is to fail while the index may lack copies of the
 * store, and is to find what other servers have just put, or have left when they were lost. */
static sp_err run_sync(sp_remote_tier *t)
{
    const sp_remote_ears ears = {.learn = learn_any, .suspect = suspect, .user = t};
    SP_TRY(sp_remote_connect(t, &t->out));
    return t->kind->recall ? t->kind->recall(t->out.link, &ears) : SP_OK;
}

/* run_list -- lists a copy of the index, so that a slow `each` does not hold the lock. */
static sp_err run_list(sp_remote_tier *t, const sp_tier_op *op)
{
    SP_VEC(sp_tier_info) all = {0};
    pthread_mutex_lock(&t->lock);
    sp_err err = sp_vec_reserve(&all, t->table.n);
    for (uint32_t i = t->table.oldest; err == SP_OK && i != SP_NO_ENTRY; i = t->table.entries.v[i].newer) {
        const sp_entry *e = &t->table.entries.v[i];
        all.v[all.n++] = (sp_tier_info){.key = e->key,
                                        .n = e->place.n,
                                        .bytes = entry_bytes(e),
                                        .facts = e->place.facts & ~(unsigned)SP_REMOTE_DOUBTFUL,
                                        .cost_us = e->place.cost_us};
    }
    pthread_mutex_unlock(&t->lock);
    if (err == SP_OK) err = sp_tier_op_list(op, all.v, all.n);
    sp_vec_fini(&all);
    return err;
}

static sp_err run_other(sp_remote_tier *t, const sp_tier_op *op)
{
    SP_TRY(sp_tier_op_begin(op));
    switch (op->job.verb) {
    case SP_TIER_PUT:
        return sp_remote_put(t, op);
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
    sp_remote_tier *t = arg;
    for (sp_tier_op *op; (op = sp_op_queue_pop(&t->others, true));) {
        sp_err err = run_other(t, op);
        if (t->out.link && t->out.link->broken) sp_remote_fail_line(t, &t->out);
        pthread_mutex_lock(&t->lock);
        t->stats.n_failed += err != SP_OK && err != SP_E_CANCELED;
        pthread_mutex_unlock(&t->lock);
        sp_tier_op_finish(op, err);
    }
    return NULL;
}

/* -- the listener ----------------------------------------------------------------------------------------- */

/* tell_heard -- wakes the threads that wait for the index. */
static void tell_heard(sp_remote_tier *t, sp_err err)
{
    pthread_mutex_lock(&t->lock);
    t->heard.n++;
    t->heard.err = err;
    snprintf(t->heard.detail, sizeof t->heard.detail, "%s", err == SP_OK ? "" : sp_error_detail());
    pthread_cond_broadcast(&t->heard.changed);
    pthread_mutex_unlock(&t->lock);
}

/* reach -- connects the listener, unless it is connected and no other line has failed since. */
static sp_err reach(sp_remote_tier *t, sp_remote_line *l, const sp_remote_ears *ears)
{
    if (l->link && atomic_load(&t->up)) return SP_OK;
    hang_up(t, l);
    sp_err err = t->kind->open(&t->site, &l->link);
    if (err == SP_OK) err = t->kind->hear(l->link, ears);
    if (err == SP_OK && !atomic_exchange(&t->up, true)) sp_log(SP_LOG_INFO, "the remote tier answers again");
    if (err != SP_OK) sp_remote_fail_line(t, l);
    tell_heard(t, err);
    return err;
}

static void *listen_to_others(void *arg)
{
    sp_remote_tier *t = arg;
    const sp_remote_ears ears = {.learn = learn_name, .forget = forget_name, .user = t};
    sp_remote_line l = {0};
    for (int pause_us = 0; !t->stop;) {
        sp_err err = reach(t, &l, &ears);
        if (err == SP_OK && (err = t->kind->hear(l.link, &ears)) != SP_OK) sp_remote_fail_line(t, &l);
        pause_us = err == SP_OK ? 0 : SP_MIN(SP_MAX(2 * pause_us, LEAST_PAUSE_US), MOST_PAUSE_US);
        for (int us = 0; us < pause_us && !t->stop; us += LEAST_PAUSE_US) usleep(LEAST_PAUSE_US);
    }
    hang_up(t, &l);
    return NULL;
}

sp_err sp_remote_tier_await(sp_tier *tier, int64_t us)
{
    sp_remote_tier *t = remote_of(tier);
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
    sp_remote_tier *t = remote_of(tier);
    pthread_mutex_lock(&t->lock);
    const bool known = sp_remote_find(t, key) != SP_NO_ENTRY;
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
    sp_remote_tier *t = remote_of(tier);
    pthread_mutex_lock(&t->lock);
    sp_tier_stats s = t->stats;
    s.n_copies = (int64_t)t->table.n;
    s.bytes_live = s.bytes_used;
    s.index_bytes = (int64_t)sp_table_bytes(&t->table);
    pthread_mutex_unlock(&t->lock);
    return s;
}

/* free_site -- and the tier. */
static void free_site(sp_remote_tier *t)
{
    if (t->site.shared) t->kind->unshare(&t->site);
    sp_seal_fini(&t->seal);
    sp_free(t->url);
    sp_free(t->ca_file);
    sp_free(t);
}

static void close_tier(sp_tier *tier)
{
    sp_remote_tier *t = remote_of(tier);
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
    sp_remote_tier *t = remote_of(tier);
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

static sp_err start(sp_remote_tier *t)
{
    struct {
        pthread_t *thread;
        void *(*run)(void *);
    } const all[] = {{&t->threads.reader, sp_remote_read},
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
static sp_err name_site(sp_remote_tier *t, const sp_remote_tier_opts *o)
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
    sp_remote_tier *t = SP_NEW(sp_remote_tier);
    if (!t) return sp_fail_nomem("the remote tier");
    *t = (sp_remote_tier){.base.type = &remote_type, .must = o->must, .first = SP_NO_ENTRY};
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
