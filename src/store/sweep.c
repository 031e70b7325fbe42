#include "store/sweep.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64 /* operations at a time */ };

typedef enum stage { SYNC, LIST, HEADERS, DROPS, OVERWRITE, DONE } stage;

/* A copy that is looked at or dropped. */
typedef struct item {
    sp_sweep *of;
    sp_tier_key key;
    bool depends;
} item;

struct sp_sweep {
    sp_tier *tier;
    sp_sweep_opts o;
    sp_digest *ids;    /* o.ids */
    atomic_int refs;   /* the walk's and the owner's */
    atomic_bool cancelled;

    /* -- the walk's: one thread at a time */
    stage stage;
    SP_VEC(sp_tier_key) look; /* headers to read */
    SP_VEC(sp_tier_key) doomed, gone;
    SP_VEC(sp_digest) going; /* keep: ids of plain and fused copies that go; sorted */
    size_t next;             /* of the stage's list */
    item batch[BATCH];
    atomic_size_t n_left;    /* operations under way */

    pthread_mutex_t lock;    /* of the following */
    pthread_cond_t changed;
    int64_t n_ended;         /* operations */
    bool finished;
    sp_err err;
    char detail[256];
};

/* -- lists of ids --------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(sp_digest));
}

bool sp_digest_among(const sp_digest *id, const sp_digest *sorted, size_t n)
{
    return n && bsearch(id, sorted, n, sizeof *sorted, by_bytes) != NULL;
}

void sp_digests_sort(sp_digest *ids, size_t n)
{
    if (n) qsort(ids, n, sizeof *ids, by_bytes);
}

bool sp_copy_depends(const sp_copy_facts *f, const sp_digest *ids, size_t n)
{
    if (sp_digest_among(&f->id, ids, n)) return true;
    for (int i = 0; i < f->n_before; i++)
        if (sp_digest_among(&f->before[i], ids, n)) return true;
    for (int i = 0; i < f->n_below; i++)
        if (sp_digest_among(&f->below[i], ids, n)) return true;
    return n && f->n_below == 1 && sp_digest_eq(f->below, &sp_copy_below_all);
}

/* -- which copies --------------------------------------------------------------------------- */

static bool is_path(const sp_tier_key *key)
{
    return key->kind == (uint32_t)SP_COPY_PATH;
}

/* is_unwanted -- whether `keep` does not list it. Paths also contain heads and questions, which have no ids there. */
static bool is_unwanted(const sp_sweep *s, const sp_tier_key *key)
{
    return s->o.keep && key->kind < SP_COPY_STORED_KINDS && !is_path(key) &&
           !sp_digest_among(&key->id, s->ids, s->o.n);
}

static sp_err take_key(void *user, const sp_tier_info *info)
{
    sp_sweep *s = user;
    const sp_tier_key *key = &info->key;
    if (is_unwanted(s, key)) {
        SP_TRY(sp_vec_reserve(&s->going, 1));
        s->going.v[s->going.n++] = key->id;
    }
    if (is_unwanted(s, key) || (!s->o.keep && sp_digest_among(&key->id, s->ids, s->o.n))) {
        SP_TRY(sp_vec_reserve(&s->doomed, 1));
        s->doomed.v[s->doomed.n++] = *key;
    } else if (key->kind < 32 && s->o.after & 1u << key->kind) {
        SP_TRY(sp_vec_reserve(&s->look, 1));
        s->look.v[s->look.n++] = *key;
    }
    return SP_OK;
}

static sp_err take_header(void *user, const sp_record *head)
{
    item *x = user;
    const sp_sweep *s = x->of;
    x->depends = s->o.keep ? sp_copy_depends(&head->facts, s->going.v, s->going.n)
                           : sp_copy_depends(&head->facts, s->ids, s->o.n); /* a get may be retried */
    return SP_OK;
}

/* -- the walk ------------------------------------------------------------------------------- */

static void advance(sp_sweep *s);

static void note(sp_sweep *s, sp_err err)
{
    if (err == SP_OK || s->err != SP_OK) return;
    s->err = err;
    snprintf(s->detail, sizeof s->detail, "%s", sp_error_detail());
}

/* judge -- handles the result of an operation of the stage. Called with the lock held. */
static void judge(sp_sweep *s, item *x, sp_err err)
{
    /* nobody can tell what a copy of a later version was computed after, or a damaged one: an erasure removes it */
    const bool unreadable = err == SP_E_UNSUPPORTED || err == SP_E_FORMAT;
    bool doomed = s->stage == HEADERS && unreadable && s->o.overwrite;
    if (s->stage == HEADERS && !doomed && (err == SP_E_NOTFOUND || err == SP_E_FORMAT)) return;
    doomed |= s->stage == HEADERS && err == SP_OK && x->depends;
    if (doomed) {
        err = sp_vec_reserve(&s->doomed, 1);
        if (err == SP_OK) s->doomed.v[s->doomed.n++] = x->key;
    } else if (s->stage == DROPS && err == SP_OK) {
        s->gone.v[s->gone.n++] = x->key; /* reserved */
    }
    note(s, err);
}

static void ended(void *user, sp_tier_op *op)
{
    item *x = user;
    sp_sweep *s = x->of;
    sp_err err = sp_tier_op_result(op);
    pthread_mutex_lock(&s->lock);
    judge(s, x, err);
    s->n_ended++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (atomic_fetch_sub(&s->n_left, 1) == 1) advance(s);
}

/* submit -- starts n operations; false: none could start, and the reason is noted. */
static bool submit(sp_sweep *s, const sp_tier_job *jobs, size_t n)
{
    sp_tier_op *ops[BATCH];
    atomic_store(&s->n_left, n);
    sp_err err = sp_tier_submit_all(s->tier, jobs, n, ops);
    for (size_t i = 0; err == SP_OK && i < n; i++) sp_tier_op_release(ops[i]);
    if (err == SP_OK) return true;
    pthread_mutex_lock(&s->lock);
    note(s, err);
    pthread_mutex_unlock(&s->lock);
    return false;
}

static bool submit_one(sp_sweep *s, sp_tier_verb verb)
{
    s->batch[0] = (item){.of = s};
    return submit(s, &(sp_tier_job){.verb = verb, .done = ended, .user = &s->batch[0]}, 1);
}

/* submit_list -- `each` and `done` have one user: the sweep is the first item's. */
static sp_err list_one(void *user, const sp_tier_info *info)
{
    return take_key(((item *)user)->of, info);
}

static bool submit_list(sp_sweep *s)
{
    s->batch[0] = (item){.of = s};
    return submit(
        s,
        &(sp_tier_job){
            .verb = SP_TIER_LIST, .each = list_one, .done = ended, .user = &s->batch[0]},
        1);
}

/* submit_some -- the next of a list of keys; false: there is none. */
static bool submit_some(sp_sweep *s, sp_tier_verb verb, const sp_tier_key *keys, size_t n_keys)
{
    sp_tier_job jobs[BATCH];
    const size_t n = SP_MIN(n_keys - s->next, (size_t)BATCH);
    for (size_t i = 0; i < n; i++) {
        s->batch[i] = (item){.of = s, .key = keys[s->next + i]};
        jobs[i] = (sp_tier_job){.verb = verb,
                                .key = s->batch[i].key,
                                .head = take_header,
                                .done = ended,
                                .user = &s->batch[i]};
    }
    s->next += n;
    return n && submit(s, jobs, n);
}

/* begin_drops -- false: nothing is dropped. */
static bool begin_drops(sp_sweep *s)
{
    s->next = 0;
    if (s->o.all_or_none && s->err != SP_OK) return false;
    pthread_mutex_lock(&s->lock);
    sp_err err = sp_vec_reserve(&s->gone, s->doomed.n);
    note(s, err);
    pthread_mutex_unlock(&s->lock);
    return err == SP_OK;
}

/* step -- starts the next operations; false: the stage has none left. */
static bool step(sp_sweep *s)
{
    switch (s->stage) {
    case SYNC:
        return submit_one(s, SP_TIER_SYNC);
    case LIST:
        return submit_list(s);
    case HEADERS:
        return submit_some(s, SP_TIER_GET, s->look.v, s->look.n);
    case DROPS:
        return (s->next || begin_drops(s)) &&
               submit_some(s, SP_TIER_DROP, s->doomed.v, s->doomed.n);
    default:
        return s->o.overwrite && submit_one(s, SP_TIER_ERASE);
    }
}

static void finish(sp_sweep *s)
{
    void (*done)(void *) = s->o.done;
    void *user = s->o.user;
    pthread_mutex_lock(&s->lock);
    s->finished = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    sp_sweep_release(s);
    if (done) done(user);
}

/* is_once -- the stage is one operation. */
static bool is_once(stage st)
{
    return st == SYNC || st == LIST || st == OVERWRITE;
}

/* advance -- after the operations of a batch, on the thread that ended the last of them. */
static void advance(sp_sweep *s)
{
    bool again = !is_once(s->stage); /* a list may have more */
    while (s->stage != DONE) {
        if (atomic_load(&s->cancelled)) {
            pthread_mutex_lock(&s->lock);
            note(s, sp_fail(SP_E_CANCELED, "a sweep was cancelled"));
            pthread_mutex_unlock(&s->lock);
            break;
        }
        if (!again) {
            s->stage++;
            s->next = 0;
        }
        if (s->stage == HEADERS && !again) sp_digests_sort(s->going.v, s->going.n);
        if (s->stage != DONE && step(s)) return;
        again = false;
    }
    finish(s);
}

/* -- what the owner calls ------------------------------------------------------------------- */

static void set_up(sp_sweep *s, sp_tier *t, const sp_sweep_opts *o)
{
    s->tier = t;
    s->o = *o;
    atomic_init(&s->refs, 2);
    atomic_init(&s->cancelled, false);
    atomic_init(&s->n_left, 0);
    pthread_mutex_init(&s->lock, NULL);
    sp_cond_init(&s->changed);
}

sp_err sp_sweep_begin(sp_tier *t, const sp_sweep_opts *o, sp_sweep **out)
{
    sp_sweep *s = SP_NEW(sp_sweep);
    if (!s) return sp_fail_nomem("a sweep");
    set_up(s, t, o);
    s->ids = sp_alloc(o->n + 1, sizeof *s->ids);
    sp_err err = s->ids ? SP_OK : sp_fail_nomem("a sweep");
    if (err == SP_OK && o->n) memcpy(s->ids, o->ids, o->n * sizeof *s->ids);
    if (err == SP_OK && !step(s)) err = sp_fail(s->err, "%s", s->detail);
    if (err != SP_OK) {
        sp_sweep_release(s);
        sp_sweep_release(s);
        return err;
    }
    *out = s;
    return SP_OK;
}

bool sp_sweep_wait(sp_sweep *s, int64_t patience_us)
{
    struct timespec end = sp_clock_after(patience_us);
    pthread_mutex_lock(&s->lock);
    for (int64_t seen = s->n_ended; !s->finished;) {
        if (pthread_cond_timedwait(&s->changed, &s->lock, &end) == ETIMEDOUT) break;
        if (s->n_ended != seen) end = sp_clock_after(patience_us);
        seen = s->n_ended;
    }
    const bool finished = s->finished;
    pthread_mutex_unlock(&s->lock);
    return finished;
}

void sp_sweep_cancel(sp_sweep *s)
{
    atomic_store(&s->cancelled, true);
}

sp_err sp_sweep_result(const sp_sweep *s)
{
    return s->err == SP_OK ? SP_OK : sp_fail(s->err, "%s", s->detail);
}

const sp_tier_key *sp_sweep_gone(const sp_sweep *s, size_t *n)
{
    *n = s->gone.n;
    return s->gone.v;
}

void sp_sweep_release(sp_sweep *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) > 1) return;
    sp_vec_fini(&s->look);
    sp_vec_fini(&s->doomed);
    sp_vec_fini(&s->gone);
    sp_vec_fini(&s->going);
    sp_free(s->ids);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    sp_free(s);
}

sp_err sp_sweep_run(sp_tier *t, const sp_sweep_opts *o, int64_t *n_gone)
{
    const int64_t minute_us = 60000000;
    sp_sweep *s;
    size_t n;
    SP_TRY(sp_sweep_begin(t, o, &s));
    while (!sp_sweep_wait(s, minute_us)) {
    }
    sp_err err = sp_sweep_result(s);
    sp_sweep_gone(s, &n);
    if (n_gone) *n_gone = (int64_t)n;
    sp_sweep_release(s);
    return err;
}
