/* server.c -- start, signals, shutdown. */
#include "server/server.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "server/api/explain.h"
#include "server/api/room.h"
#include "server/api/trees.h"
#include "server/documents/collections.h"
#include "server/documents/documents.h"
#include "server/documents/idle.h"
#include "server/http/exchange.h"
#include "server/http/memory.h"
#include "server/routes.h"

enum { CLOSE_S = 10 }; /* how long closing may take before the process ends without it */

static void list_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

void srv_prepare(void)
{
    sigset_t set;
    list_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int n_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* any_run -- the time, and a random number. */
static uint64_t any_run(void)
{
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) random = (uint32_t)getpid();
    return (uint64_t)time(NULL) << 32 | random;
}

static bool open_server(srv_server *s, const srv_options *o, sp_context *c, int *port)
{
    *s = (srv_server){.o = *o,
                      .ctx = c,
                      .routes = srv_routes,
                      .error_form_of = srv_form_of_path,
                      .bodies = {.most_each = o->limits.body_bytes, .most_all = o->limits.bodies_bytes},
                      .vocab = sp_context_vocab(c),
                      .info = sp_context_describe(c),
                      .n_cores = n_cores(),
                      .started = time(NULL),
                      .run = any_run()};
    s->most_text = srv_room_most(s->vocab, &s->info);
    srv_metrics_init(&s->metrics);
    srv_pace_init(&s->pace);
    pthread_mutex_init(&s->graph.lock, NULL);
    pthread_mutex_init(&s->counting, NULL);
    pthread_mutex_init(&s->jobs.lock, NULL);
    if (o->keys_path && !srv_keys_open(o->keys_path, &s->keys)) return false;
    s->explain = srv_explain_open();
    s->quotas = srv_quotas_open(o->limits.n_parallel + o->limits.n_queue);
    if (!s->explain || !s->quotas) return cli_fail_with("out of memory for the server"), false;
    sp_err err = sp_context_start(c);
    if (err != SP_OK) return cli_fail(err), false;
    if (sp_context_guess(c) != SP_OK) srv_log_event(o->log, "what a token takes is known after the first answer");
    if (!srv_graph_open(s) || !srv_documents_open(s) || !srv_collections_open(s) || !srv_idle_open(s))
        return false;
    return srv_exchanges_open(s, port);
}

/* drain -- lets running requests finish: for drain_seconds, or until a second signal. Meanwhile /health
 * answers 503 and new requests are refused. */
static void drain(srv_server *s, const sigset_t *signals)
{
    const struct timespec tick = {.tv_nsec = 50000000};
    int64_t end = srv_now_us() + (int64_t)s->o.limits.drain_seconds * 1000000;
    while (s->counts.n_active > 0 && srv_now_us() < end) {
        int n = sigtimedwait(signals, NULL, &tick);
        if (n == SIGINT || n == SIGTERM) break;
    }
    srv_exchanges_refuse(s->exchanges);
    srv_exchanges_cancel(s->exchanges);
    int64_t n_left = 0;
    if (sp_context_hand_over(s->ctx, end - srv_now_us(), &n_left) != SP_OK || n_left)
        srv_log_event(s->o.log, "not all copies were handed over");
}

/* What ends the process when threads do not end: one that waits for a disk that hangs cannot be canceled. */
typedef struct ending {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    srv_log_format log;
    bool runs, ended;
} ending;

/* end_late -- what is on the disk by then is what a killed process leaves: usable. */
static void *end_late(void *arg)
{
    ending *e = arg;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += CLOSE_S;
    pthread_mutex_lock(&e->lock);
    while (!e->ended && pthread_cond_timedwait(&e->changed, &e->lock, &end) == 0) {}
    const bool ended = e->ended;
    pthread_mutex_unlock(&e->lock);
    if (ended) return NULL;
    srv_log_event(e->log, "stopped before all calls had ended");
    _exit(1);
}

static void begin_ending(ending *e, srv_log_format log)
{
    pthread_condattr_t monotonic;
    *e = (ending){.log = log};
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&e->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    e->runs = pthread_create(&e->thread, NULL, end_late, e) == 0;
}

static void end_ending(ending *e)
{
    pthread_mutex_lock(&e->lock);
    e->ended = true;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
    if (e->runs) pthread_join(e->thread, NULL);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
}

/* close_threads -- those that use the files of documents, which have no limit of time of their own. */
static void close_threads(srv_server *s)
{
    ending e;
    begin_ending(&e, s->o.log);
    srv_exchanges_close(s->exchanges);
    srv_idle_close(s);
    srv_collections_close(s);
    srv_documents_close(s);
    srv_graph_close(s);
    end_ending(&e);
}

static void close_server(srv_server *s)
{
    close_threads(s);
    sp_context_stop(s->ctx);
    srv_explain_close(s->explain);
    srv_keys_close(s->keys);
    srv_quotas_close(s->quotas);
    pthread_mutex_destroy(&s->counting);
    pthread_mutex_destroy(&s->jobs.lock);
    srv_metrics_fini(&s->metrics);
    srv_pace_fini(&s->pace);
}

/* wait_for_end -- until SIGINT or SIGTERM; SIGHUP reloads the API keys. */
static void wait_for_end(srv_server *s, const sigset_t *signals)
{
    for (;;) {
        int n = sigwaitinfo(signals, NULL);
        if (n == SIGINT || n == SIGTERM) return;
        if (n == SIGHUP && s->keys && srv_keys_reload(s->keys))
            srv_log_event(s->o.log, "API keys read");
        if (n < 0 && errno != EINTR) return;
    }
}

/* warn_if_open -- other machines can connect, and need no key. */
static void warn_if_open(const srv_options *o)
{
    bool is_local = strncmp(o->host, "127.", 4) == 0 || strcmp(o->host, "::1") == 0 ||
                    strcmp(o->host, "localhost") == 0;
    if (!is_local && !o->keys_path)
        cli_warn("serve: other machines can reach %s, and no key is needed; --api-keys FILE "
                 "requires one",
                 o->host);
}

int srv_run(const srv_options *o, sp_context *c)
{
    sigset_t signals;
    srv_server s;
    int port;
    list_signals(&signals);
    srv_memory_open(malloc);
    bool good = open_server(&s, o, c, &port);
    if (good) {
        warn_if_open(o);
        bool is_v6 = strchr(o->host, ':') != NULL;
        printf("listening on http://%s%s%s:%d\n", is_v6 ? "[" : "", o->host, is_v6 ? "]" : "",
               port);
        good = fflush(stdout) == 0;
        wait_for_end(&s, &signals);
        s.counts.draining = true;
        srv_log_event(o->log, "draining");
        drain(&s, &signals);
    }
    close_server(&s);
    return good ? 0 : 1;
}
