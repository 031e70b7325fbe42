#include "server/documents/idle.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"

enum {
    MOST_PLACES = 256, /* collections of keys; the least recently used one is dropped */
    QUIET_MS = 200,    /* without a request, before anything begins */
    REST_MS = 1000,    /* the same, where nothing is known to be due */
    TICK_MS = 50,
    STEP_US = 50000,   /* of vectors that are missing */
    TOKENS = 16,       /* of a block */
    SHORT = 64         /* tokens: a round assumes that passages have at least this many */
};

/* A collection, in the cache of one key. */
typedef struct place {
    char *salt; /* NULL: none */
    srv_found found;
    uint64_t used;
    srv_idle_report last;
} place;

struct srv_idle {
    srv_server *s;
    pthread_t thread;
    bool runs;
    atomic_bool stop;
    pthread_mutex_t lock; /* guards the following */
    place places[MOST_PLACES];
    int n;
    uint64_t n_notes, n_seen; /* notes; those that the last whole round knew */
    srv_idle_report sum;
};

/* A passage of a round. */
typedef struct passage {
    const sp_hit *hit;
    int place;
} passage;

/* A round: copies of the places as they are when it begins. */
typedef struct round {
    place *places; /* [n] */
    sp_hits *hits; /* [n] */
    passage *v;    /* [n_v], most retrieved first */
    int n;
    size_t n_v;
} round;

/* -- notes ------------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* find -- Called with the lock held. NULL: there is none. */
static place *find(srv_idle *i, const char *salt, const char *name)
{
    for (int k = 0; k < i->n; k++)
        if (same(i->places[k].salt, salt) && strcmp(i->places[k].found.name, name) == 0) return &i->places[k];
    return NULL;
}

/* note -- takes ownership of the salt. */
static void note(srv_idle *i, char *salt, const srv_found *c)
{
    pthread_mutex_lock(&i->lock);
    place *p = find(i, salt, c->name);
    i->n_notes++;
    if (p) {
        free(salt);
    } else {
        p = i->n < MOST_PLACES ? &i->places[i->n++] : i->places;
        for (int k = 0; p->found.name[0] && k < i->n; k++)
            if (i->places[k].used < p->used) p = &i->places[k];
        free(p->salt);
        *p = (place){.salt = salt, .found = *c};
    }
    p->used = i->n_notes;
    pthread_mutex_unlock(&i->lock);
}

void srv_idle_note(const srv_call *call, const srv_found *c)
{
    char *salt;
    if (call->s->idle && srv_salt_of(call, &salt)) note(call->s->idle, salt, c);
}

/* note_all -- notes the collections that exist when the server starts, if no keys are needed. */
static void note_all(srv_idle *i)
{
    sp_collection_list l;
    int n;
    const srv_collection *served = srv_collections_served(i->s, &n);
    for (int k = 0; k < n; k++) {
        srv_found c = {.served = (srv_collection *)&served[k]};
        strcpy(c.name, served[k].name);
        note(i, NULL, &c);
    }
    if (sp_collections(i->s->documents, NULL, NULL, &l) != SP_OK) return;
    for (int k = 0; k < l.n; k++) {
        srv_found c = {0};
        strncat(c.name, l.v[k].name, SRV_MAX_NAME);
        note(i, NULL, &c);
    }
    sp_collection_list_fini(&l);
}

/* -- a round ----------------------------------------------------------------------------------- */

static bool may_run(const srv_idle *i)
{
    return !i->stop && i->s->counts.n_active == 0;
}

static bool go_on(void *idle)
{
    return may_run(idle);
}

static bool is_over(void *idle)
{
    return !may_run(idle);
}

/* room -- tokens of copies that fit. */
static int64_t room(const srv_idle *i)
{
    return (int64_t)((double)i->s->info.kv_blocks * TOKENS * (double)i->s->o.idle_share);
}

static int by_count(const void *a, const void *b)
{
    const passage *x = a, *y = b;
    if (x->hit->score != y->hit->score) return (x->hit->score < y->hit->score) - (x->hit->score > y->hit->score);
    if (x->hit->id != y->hit->id) return (x->hit->id > y->hit->id) - (x->hit->id < y->hit->id);
    return x->place - y->place;
}

static void round_fini(round *r)
{
    for (int k = 0; k < r->n; k++) {
        if (r->hits) sp_hits_fini(&r->hits[k]);
        free(r->places[k].salt);
    }
    free(r->places);
    free(r->hits);
    free(r->v);
}

/* take_places -- false: out of memory. */
static bool take_places(srv_idle *i, round *r, uint64_t *n_notes)
{
    *r = (round){.places = calloc(MOST_PLACES, sizeof *r->places), .hits = calloc(MOST_PLACES, sizeof *r->hits)};
    if (!r->places || !r->hits) return false;
    bool good = true;
    pthread_mutex_lock(&i->lock);
    *n_notes = i->n_notes;
    for (int k = 0; k < i->n && good; k++) {
        place *to = &r->places[r->n++];
        *to = i->places[k];
        to->last = (srv_idle_report){0};
        if (to->salt) good = (to->salt = strdup(to->salt)) != NULL;
    }
    pthread_mutex_unlock(&i->lock);
    return good;
}

/* plan -- the passages of all places. A collection that is gone has none. */
static bool plan(srv_idle *i, round *r)
{
    const int64_t most = room(i) / SHORT;
    for (int k = 0; k < r->n; k++) {
        const place *p = &r->places[k];
        sp_retriever *of = p->found.served ? p->found.served->retriever : NULL;
        if (sp_collection_ahead(i->s->documents, p->salt, p->found.name, of, most < 1 ? 1 : (int)most, &r->hits[k]) !=
            SP_OK)
            r->hits[k] = (sp_hits){0};
        r->n_v += (size_t)r->hits[k].n;
    }
    r->v = calloc(r->n_v + 1, sizeof *r->v);
    if (!r->v) return false;
    size_t n = 0;
    for (int k = 0; k < r->n; k++)
        for (int j = 0; j < r->hits[k].n; j++) r->v[n++] = (passage){&r->hits[k].v[j], k};
    if (n) qsort(r->v, n, sizeof *r->v, by_count);
    return true;
}

/* publish -- publishes the progress of the round. */
static void publish(srv_idle *i, const round *r, const srv_idle_report *sum)
{
    pthread_mutex_lock(&i->lock);
    i->sum = *sum;
    for (int k = 0; k < r->n; k++) {
        place *p = find(i, r->places[k].salt, r->places[k].found.name);
        if (p) p->last = r->places[k].last;
    }
    pthread_mutex_unlock(&i->lock);
}

/* compute -- computes one passage; *left: tokens that still fit. False: the round ends. */
static bool compute(srv_idle *i, round *r, size_t at, int64_t *left, srv_idle_report *sum)
{
    const passage *p = &r->v[at];
    place *of = &r->places[p->place];
    sp_collection_computed done;
    const int64_t from = srv_now_us();
    if (!may_run(i)) return false;
    const sp_collection_copy o = {.salt = of->salt,
                                  .system = CLI_SYSTEM_TEXT,
                                  .passage = p->hit,
                                  .registered = !of->found.served,
                                  .go_on = go_on,
                                  .user = i};
    const sp_err err = sp_collection_compute(i->s->documents, &o, &done);
    sum->busy_us += srv_now_us() - from;
    sum->n_given_up += err == SP_E_CANCELED;
    if (err != SP_OK) return err != SP_E_CANCELED; /* a passage that cannot be computed is skipped */
    *left -= done.n_tokens;
    sum->n_computed += done.fresh;
    sum->n_done++;
    of->last.n_done++;
    return true;
}

/* run_round -- false: it was interrupted. */
static bool run_round(srv_idle *i, round *r)
{
    int64_t left = room(i);
    bool goes_on = true;
    srv_idle_report sum = i->sum; /* which this thread alone changes */
    sum.n_planned = sum.n_done = 0;
    for (size_t at = 0; at < r->n_v && left > 0 && goes_on; at++) {
        sum.n_planned++;
        r->places[r->v[at].place].last.n_planned++;
        goes_on = compute(i, r, at, &left, &sum);
        publish(i, r, &sum);
    }
    return goes_on;
}

/* -- the thread -------------------------------------------------------------------------------- */

/* wait_for_quiet -- waits until there has been no request for ms, or the server ends. */
static void wait_for_quiet(srv_idle *i, int ms)
{
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
    int64_t since = srv_now_us();
    while (!i->stop && srv_now_us() - since < ms * 1000) {
        nanosleep(&tick, NULL);
        if (i->s->counts.n_active > 0) since = srv_now_us();
    }
}

static bool is_due(srv_idle *i)
{
    pthread_mutex_lock(&i->lock);
    const bool due = i->s->o.idle_share > 0 && i->n_seen != i->n_notes;
    pthread_mutex_unlock(&i->lock);
    return due;
}

static void run_due(srv_idle *i)
{
    round r;
    uint64_t n_notes;
    bool whole = take_places(i, &r, &n_notes);
    whole = whole && plan(i, &r) && run_round(i, &r);
    round_fini(&r);
    pthread_mutex_lock(&i->lock);
    if (whole) i->n_seen = n_notes;
    pthread_mutex_unlock(&i->lock);
}

/* step_us -- a request that comes waits for a step of the encoder. */
static int64_t step_us(void *idle)
{
    (void)idle;
    return STEP_US;
}

static void *work(void *arg)
{
    srv_idle *i = arg;
    while (!i->stop) {
        wait_for_quiet(i, is_due(i) ? QUIET_MS : REST_MS);
        const sp_embed_opts o = {.stop = is_over, .step_us = step_us, .user = i};
        const sp_err err = sp_collection_embed(i->s->documents, NULL, NULL, &o, NULL);
        (void)err; /* the next time */
        if (may_run(i) && is_due(i)) run_due(i);
    }
    return NULL;
}

bool srv_idle_open(srv_server *s)
{
    srv_idle *i = calloc(1, sizeof *i);
    s->idle = i;
    if (!i) return cli_fail_with("out of memory for collections"), false;
    i->s = s;
    pthread_mutex_init(&i->lock, NULL);
    if (!s->keys) note_all(i);
    i->runs = pthread_create(&i->thread, NULL, work, i) == 0;
    return i->runs || (cli_fail_with("serve: no thread for collections"), false);
}

void srv_idle_close(srv_server *s)
{
    srv_idle *i = s->idle;
    if (!i) return;
    i->stop = true;
    if (i->runs) pthread_join(i->thread, NULL);
    for (int k = 0; k < i->n; k++) free(i->places[k].salt);
    pthread_mutex_destroy(&i->lock);
    free(i);
    s->idle = NULL;
}

/* -- reports ----------------------------------------------------------------------------------- */

srv_idle_report srv_idle_describe(const srv_server *s)
{
    srv_idle *i = s->idle;
    pthread_mutex_lock(&i->lock);
    const srv_idle_report sum = i->sum;
    pthread_mutex_unlock(&i->lock);
    return sum;
}

srv_idle_report srv_idle_of(const srv_call *call, const srv_found *c)
{
    char *salt;
    srv_idle *i = call->s->idle;
    srv_idle_report last = {0};
    if (!srv_salt_of(call, &salt)) return last;
    pthread_mutex_lock(&i->lock);
    const place *p = find(i, salt, c->name);
    if (p) last = p->last;
    pthread_mutex_unlock(&i->lock);
    free(salt);
    return last;
}
