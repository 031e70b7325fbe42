#include "server/documents/work.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/http/memory.h"

typedef struct item {
    struct item *next; /* oldest first */
    char *salt, *id, *system;
    int n_fuse;
    bool bare, canceled;
    bool forgotten; /* it runs, cannot be found any more, and is dropped when it ends */
    srv_progress progress;
} item;

struct srv_work {
    sp_documents *d;
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* guards the following, and orders */
    pthread_cond_t changed;
    item *first;
    int n;
    bool stop;
};

const char *srv_phase_name(srv_phase p)
{
    static const char *const names[] = {"queued", "running", "done", "failed", "canceled"};
    return names[p];
}

static bool is_over(const item *o)
{
    return o->progress.phase > SRV_RUNNING;
}

/* -- orders; lock is held ---------------------------------------------------------------------- */

static void free_item(item *o)
{
    if (!o) return;
    free(o->salt);
    free(o->id);
    free(o->system);
    free(o);
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static item *find(srv_work *w, const char *salt, const char *id)
{
    item *o = w->first;
    while (o && (o->forgotten || !same(o->salt, salt) || strcmp(o->id, id) != 0)) o = o->next;
    return o;
}

static void drop(srv_work *w, item *o)
{
    item **link = &w->first;
    while (*link != o) link = &(*link)->next;
    *link = o->next;
    w->n--;
    free_item(o);
}

/* make_place -- makes room for one more by dropping the oldest finished one. */
static bool make_place(srv_work *w)
{
    if (w->n < SRV_MAX_WORK) return true;
    item *o = w->first;
    while (o && !is_over(o)) o = o->next;
    if (o) drop(w, o);
    return o != NULL;
}

static item *copy_item(const srv_work_item *from)
{
    item *o = calloc(1, sizeof *o);
    if (!o) return srv_memory_lost(), NULL;
    *o = (item){.id = strdup(from->id),
                 .system = strdup(from->system),
                 .salt = from->salt ? strdup(from->salt) : NULL,
                 .n_fuse = from->n_fuse,
                 .bare = from->bare};
    if (o->id && o->system && (o->salt || !from->salt)) return o;
    srv_memory_lost();
    free_item(o);
    return NULL;
}

bool srv_work_add(srv_work *w, const srv_work_item *from)
{
    item *o = copy_item(from);
    pthread_mutex_lock(&w->lock);
    item *old = find(w, from->salt, from->id);
    bool good = o && w->runs && !(old && !is_over(old));
    if (good && old) drop(w, old);
    good = good && make_place(w);
    if (good) {
        item **end = &w->first;
        while (*end) end = &(*end)->next;
        *end = o;
        w->n++;
        pthread_cond_signal(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    if (!good) free_item(o);
    return good;
}

bool srv_work_get(srv_work *w, const char *salt, const char *id, srv_progress *out)
{
    pthread_mutex_lock(&w->lock);
    const item *o = find(w, salt, id);
    if (o) *out = o->progress;
    pthread_mutex_unlock(&w->lock);
    return o != NULL;
}

bool srv_work_cancel(srv_work *w, const char *salt, const char *id)
{
    pthread_mutex_lock(&w->lock);
    item *o = find(w, salt, id);
    bool some = o && !is_over(o);
    if (some) o->canceled = true;
    if (some && o->progress.phase == SRV_QUEUED) o->progress.phase = SRV_CANCELED;
    pthread_mutex_unlock(&w->lock);
    return some;
}

void srv_work_forget(srv_work *w, const char *salt, const char *id)
{
    pthread_mutex_lock(&w->lock);
    item *o = find(w, salt, id);
    if (o && o->progress.phase == SRV_RUNNING)
        o->canceled = o->forgotten = true;
    else if (o)
        drop(w, o);
    pthread_mutex_unlock(&w->lock);
}

/* -- the thread -------------------------------------------------------------------------------- */

typedef struct running {
    srv_work *w;
    item *o; /* stays while it runs */
} running;

static bool on_progress(int64_t done, int64_t total, void *user)
{
    running *r = user;
    pthread_mutex_lock(&r->w->lock);
    r->o->progress.done = done;
    r->o->progress.total = total;
    bool wanted = !r->o->canceled && !r->w->stop;
    pthread_mutex_unlock(&r->w->lock);
    return wanted;
}

/* run_item -- Called with the lock held, which it gives up meanwhile. */
static void run_item(srv_work *w, item *o)
{
    running r = {w, o};
    const sp_documents_compute c = {.system = o->system,
                                    .n_fuse = o->n_fuse,
                                    .bare = o->bare,
                                    .progress = on_progress,
                                    .user = &r};
    sp_documents_computed sum = {0};
    o->progress.phase = SRV_RUNNING;
    pthread_mutex_unlock(&w->lock);
    sp_err err = sp_documents_precompute(w->d, o->salt, o->id, &c, &sum);
    pthread_mutex_lock(&w->lock);
    o->progress.sum = sum;
    o->progress.phase = err == SP_OK ? SRV_DONE : err == SP_E_CANCELED ? SRV_CANCELED : SRV_FAILED;
    if (o->progress.phase == SRV_FAILED)
        snprintf(o->progress.why, sizeof o->progress.why, "%s", sp_error_detail());
    if (o->forgotten) drop(w, o);
}

static item *next_item(srv_work *w)
{
    item *o = w->first;
    while (o && o->progress.phase != SRV_QUEUED) o = o->next;
    return o;
}

static void *work(void *arg)
{
    srv_work *w = arg;
    time_t ticked = -1;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec != ticked) {
            pthread_mutex_unlock(&w->lock);
            sp_err err = sp_documents_tick(w->d, 0);
            (void)err; /* the next tick tries again */
            ticked = now.tv_sec;
            pthread_mutex_lock(&w->lock);
        }
        item *o = next_item(w);
        if (o) {
            run_item(w, o);
            continue;
        }
        now.tv_sec++;
        if (!w->stop) pthread_cond_timedwait(&w->changed, &w->lock, &now);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

bool srv_work_open(sp_documents *d, srv_work **out)
{
    srv_work *w = calloc(1, sizeof *w);
    if (!w) return false;
    w->d = d;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_t monotonic; /* setting the wall clock does not change the wait */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    w->runs = d && pthread_create(&w->thread, NULL, work, w) == 0;
    *out = w;
    return w->runs || !d;
}

void srv_work_close(srv_work *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->runs) pthread_join(w->thread, NULL);
    while (w->first) drop(w, w->first);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
