#include "server/http/exchange.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "server/http/gate.h"
#include "server/http/memory.h"
#include "server/http/reply.h"

#define WATCH_MS         100
#define STOPPED_US       1000000 /* no round of the watcher for so long: the process did not run */
#define CONNECTION_BYTES 32768 /* request line and headers */
#define STACK_BYTES      (1024 * 1024)

/* A connection: created when it is accepted. */
typedef struct connection {
    const srv_server *s;
    struct connection *next, **link;
    int fd;
    int64_t since_us; /* the request began, or the connection is idle since then */
    bool answering, hung_up;
    srv_running running; /* what computes the reply */
    struct request *request; /* under way; of the connection's thread alone */
} connection;

struct srv_exchanges {
    srv_server *s;
    struct MHD_Daemon *daemon;
    int listener;
    pthread_t watcher;
    bool watches;
    pthread_mutex_t lock; /* guards the following, and what is in connections */
    connection *first;
    bool stop;
};

/* A request: created when its headers have arrived. */
typedef struct request {
    srv_body body;
    size_t length; /* of the body, as announced; 0: unknown */
    const srv_route *route; /* NULL: it was refused by its headers */
    srv_tenant tenant;
    srv_place place;
    srv_left left;
    srv_running running;
    srv_record record;
    srv_error_form *error_form; /* NULL: OpenAI's */
} request;

int64_t srv_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

srv_load srv_load_of(const srv_server *s)
{
    int n = s->counts.n_active, n_running = n < s->o.limits.n_parallel ? n : s->o.limits.n_parallel;
    return (srv_load){.n_running = n_running, .n_waiting = n - n_running};
}

/* -- connections -------------------------------------------------------------------------------- */

static connection *connection_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return i ? i->socket_context : NULL;
}

static void add_connection(srv_exchanges *x, struct MHD_Connection *c, void **context)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    connection *k = i ? calloc(1, sizeof *k) : NULL;
    *context = k;
    if (!k) return;
    *k = (connection){.s = x->s, .fd = i->connect_fd, .since_us = srv_now_us()};
    pthread_mutex_lock(&x->lock);
    k->next = x->first;
    k->link = &x->first;
    if (k->next) k->next->link = &k->next;
    x->first = k;
    pthread_mutex_unlock(&x->lock);
}

static void remove_connection(srv_exchanges *x, connection *k)
{
    if (!k) return;
    pthread_mutex_lock(&x->lock);
    *k->link = k->next;
    if (k->next) k->next->link = k->link;
    pthread_mutex_unlock(&x->lock);
    free(k);
}

static void on_connection(void *user, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        add_connection(user, c, context);
    else
        remove_connection(user, *context);
}

/* set_state -- from READING to ANSWERING, or back. */
static void set_state(srv_exchanges *x, connection *k, bool answering)
{
    if (!k) return;
    pthread_mutex_lock(&x->lock);
    k->answering = answering;
    k->since_us = srv_now_us();
    k->running = (srv_running){0};
    pthread_mutex_unlock(&x->lock);
}

/* -- the watcher -------------------------------------------------------------------------------- */

/* list_answering -- the sockets of connections that wait for an answer. Called with the lock held. */
static int list_answering(srv_exchanges *x, struct pollfd *fds)
{
    int n = 0;
    for (const connection *k = x->first; k; k = k->next)
        if (k->running.of && !k->hung_up)
            fds[n++] = (struct pollfd){.fd = k->fd, .events = POLLRDHUP};
    return n;
}

/* excuse -- this process did not run for so long (SIGSTOP, a paused machine): no client is late for that. Called with
 * the lock held. */
static void excuse(srv_exchanges *x, int64_t us)
{
    for (connection *k = x->first; k; k = k->next) k->since_us += us;
}

static void shut_late(srv_exchanges *x)
{
    int64_t limit = srv_now_us() - (int64_t)x->s->o.limits.read_seconds * 1000000;
    for (connection *k = x->first; k; k = k->next)
        if (!k->answering && !k->hung_up && k->since_us < limit) {
            k->hung_up = true;
            shutdown(k->fd, SHUT_RDWR);
        }
}

/* leave -- the client of a socket has hung up; checks again, since by now the number may be another
 * connection's. */
static void leave(srv_exchanges *x, int fd)
{
    for (connection *k = x->first; k; k = k->next) {
        struct pollfd p = {.fd = fd, .events = POLLRDHUP};
        if (k->fd != fd || !k->running.of || poll(&p, 1, 0) < 1) continue;
        k->hung_up = true;
        k->running.leave(k->running.of);
    }
}

static void *watch(void *arg)
{
    srv_exchanges *x = arg;
    const short gone = POLLRDHUP | POLLHUP | POLLERR;
    struct pollfd *fds = calloc((size_t)x->s->o.limits.n_connections + 1, sizeof *fds);
    int64_t last_us = srv_now_us();
    pthread_mutex_lock(&x->lock);
    while (!x->stop) {
        const int64_t now_us = srv_now_us();
        if (now_us - last_us > STOPPED_US) excuse(x, now_us - last_us);
        last_us = now_us;
        shut_late(x);
        int n = fds ? list_answering(x, fds) : 0;
        pthread_mutex_unlock(&x->lock);
        int n_events = poll(fds, (nfds_t)n, WATCH_MS);
        pthread_mutex_lock(&x->lock);
        for (int i = 0; i < n && n_events > 0; i++)
            if (fds[i].revents & gone) leave(x, fds[i].fd);
    }
    pthread_mutex_unlock(&x->lock);
    free(fds);
    return NULL;
}

/* -- replies -------------------------------------------------------------------------------------- */

srv_record *srv_record_of(struct MHD_Connection *c)
{
    connection *k = connection_of(c);
    return k && k->request ? &k->request->record : NULL;
}

srv_error_form *srv_error_form_of(struct MHD_Connection *c)
{
    connection *k = connection_of(c);
    return k && k->request ? k->request->error_form : NULL;
}

static void add_limit(struct MHD_Response *r, const char *what, int64_t limit, int64_t left, double full_s)
{
    char name[48], value[32];
    const char *const fields[] = {"limit", "remaining", "reset"};
    const double values[] = {(double)limit, (double)left, full_s};
    if (limit == 0) return;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        snprintf(name, sizeof name, "x-ratelimit-%s-%s", fields[i], what);
        snprintf(value, sizeof value, i < 2 ? "%.0f" : "%.3fs", values[i]);
        srv_add_header(r, name, value);
    }
}

srv_sent srv_send(struct MHD_Connection *c, int status, struct MHD_Response *r)
{
    connection *k = connection_of(c);
    if (k && k->request) {
        const srv_left *l = &k->request->left;
        k->request->record.status = status;
        srv_add_header(r, "X-Request-Id", k->request->record.id);
        add_limit(r, "requests", l->limits.requests, l->requests, l->requests_full_s);
        add_limit(r, "tokens", l->limits.tokens, l->tokens, l->tokens_full_s);
    }
    if (k) srv_gate_add_headers(k->s, c, r);
    if (k && k->s->counts.draining) srv_add_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    if (srv_memory_failed() && status != 503) return srv_reply_no_memory(c);
    return MHD_queue_response(c, (unsigned)status, r);
}

/* -- requests ------------------------------------------------------------------------------------- */

void srv_exchange_watch(const srv_call *call, srv_running r)
{
    srv_exchanges *x = call->s->exchanges;
    connection *k = connection_of(call->connection);
    *call->running = r;
    if (!k) return;
    pthread_mutex_lock(&x->lock);
    k->running = r;
    pthread_mutex_unlock(&x->lock);
}

/* The request line. */
typedef struct line {
    const char *method, *path, *version;
    const char *authority; /* of an absolute target, with what follows it; or NULL */
} line;

/* line_of -- the target is a path, or absolute: http://host/path, as clients of a proxy send it. */
static line line_of(const char *method, const char *target, const char *version)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const size_t n = strlen(schemes[i]);
        if (strncasecmp(target, schemes[i], n) != 0) continue;
        const char *path = strchr(target + n, '/');
        return (line){method, path ? path : "/", version, target + n};
    }
    return (line){method, target, version, NULL};
}

static srv_call call_of(srv_exchanges *x, struct MHD_Connection *c, line l, request *r)
{
    return (srv_call){.s = x->s,
                      .connection = c,
                      .method = l.method,
                      .path = l.path,
                      .version = l.version,
                      .authority = l.authority,
                      .route = r->route,
                      .tenant = &r->tenant,
                      .salt = *r->tenant.salt ? r->tenant.salt : NULL,
                      .body = r->body.data ? r->body.data : "",
                      .n = r->body.n,
                      .running = &r->running,
                      .place = &r->place,
                      .left = &r->left,
                      .record = &r->record};
}

/* begin -- the headers have arrived. */
static srv_sent begin(srv_exchanges *x, struct MHD_Connection *c, line l, request *r)
{
    srv_sent sent = MHD_YES;
    connection *k = connection_of(c);
    const char *id = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "X-Request-Id");
    const char *length =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    srv_record_begin(&r->record, id, l.method, l.path);
    r->length = length ? strtoull(length, NULL, 10) : 0;
    r->error_form = x->s->error_form_of(l.path);
    if (k) k->request = r;
    srv_call call = call_of(x, c, l, r);
    if (srv_gate_check(&call, &r->tenant, &sent)) r->route = call.route;
    return sent;
}

/* answer -- the whole request has arrived. */
static srv_sent answer(srv_exchanges *x, struct MHD_Connection *c, line l, request *r)
{
    srv_call call = call_of(x, c, l, r);
    set_state(x, connection_of(c), true);
    if (r->body.fit == SRV_BODY_TOO_LONG) return srv_reply_too_long(&call);
    if (r->body.fit == SRV_BODIES_FULL) return srv_reply_bodies_full(&call);
    srv_sent sent = r->route->run(&call);
    srv_body_fini(&x->s->bodies, &r->body); /* a stream does not need it any longer */
    return sent;
}

/* A callback of libmicrohttpd. */
static srv_sent on_request(void *user, struct MHD_Connection *c, const char *url,
                           const char *method, const char *version, const char *data,
                           size_t *n_data, void **context)
{
    srv_exchanges *x = user;
    request *r = *context;
    const line l = line_of(method, url, version);
    if (!r) {
        srv_memory_begin();
        *context = r = calloc(1, sizeof *r);
        return r ? begin(x, c, l, r) : MHD_NO;
    }
    if (*n_data > 0) {
        size_t n = *n_data;
        *n_data = 0;
        return srv_body_take(&x->s->bodies, &r->body, data, n, r->length) ? MHD_YES : MHD_NO;
    }
    return r->route ? answer(x, c, l, r) : MHD_NO;
}

static void on_completed(void *user, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode why)
{
    srv_exchanges *x = user;
    request *r = *context;
    set_state(x, connection_of(c), false);
    (void)why;
    if (r && r->running.of) r->running.end(r->running.of);
    srv_memory_end();
    if (!r) return;
    if (r->place.account) srv_quotas_leave(x->s->quotas, r->place.account, r->place.n);
    srv_log_request(x->s->o.log, &r->record);
    connection *k = connection_of(c);
    if (k) k->request = NULL;
    srv_body_fini(&x->s->bodies, &r->body);
    free(r);
    *context = NULL;
}

/* -- open and close ------------------------------------------------------------------------------- */

static void log_http(void *user, const char *fmt, va_list ap)
{
    (void)user; /* broken requests are the clients' */
    (void)fmt;
    (void)ap;
}

/* listen_on -- a socket; -1 after an error message. */
static int listen_on(const char *host, int port)
{
    char service[16];
    struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    snprintf(service, sizeof service, "%d", port);
    int failed = getaddrinfo(host, service, &hints, &found);
    if (failed) return cli_fail_with("--host %s: %s", host, gai_strerror(failed)), -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool listens =
        fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0;
    freeaddrinfo(found);
    if (listens) return fd;
    cli_fail_with("cannot listen on %s, port %d: %m", host, port);
    if (fd >= 0) close(fd);
    return -1;
}

static struct MHD_Daemon *start_daemon(srv_exchanges *x)
{
    const srv_options *o = &x->s->o;
    const srv_server_limits *most = &o->limits;
    int of_address = most->n_address_connections ? most->n_address_connections : (most->n_connections + 1) / 2;
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, x, MHD_OPTION_EXTERNAL_LOGGER, log_http, NULL,
        MHD_OPTION_LISTEN_SOCKET, x->listener, MHD_OPTION_NOTIFY_COMPLETED, on_completed, x,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, x, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)o->limits.n_connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)of_address,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->limits.stall_seconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)STACK_BYTES, MHD_OPTION_END);
}

static int port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char service[16];
    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0) return 0;
    if (getnameinfo((struct sockaddr *)&a, n, NULL, 0, service, sizeof service, NI_NUMERICSERV))
        return 0;
    return atoi(service);
}

bool srv_exchanges_open(srv_server *s, int *port)
{
    srv_exchanges *x = calloc(1, sizeof *x);
    if (!x) return cli_fail_with("out of memory for the server"), false;
    *x = (srv_exchanges){.s = s, .listener = listen_on(s->o.host, s->o.port)};
    pthread_mutex_init(&x->lock, NULL);
    s->exchanges = x;
    if (x->listener < 0) return false;
    *port = port_of(x->listener);
    x->watches = pthread_create(&x->watcher, NULL, watch, x) == 0;
    if (x->watches) x->daemon = start_daemon(x);
    if (!x->daemon) return cli_fail_with("cannot start the HTTP server: %m"), false;
    return true;
}

void srv_exchanges_refuse(srv_exchanges *x)
{
    MHD_quiesce_daemon(x->daemon);
}

void srv_exchanges_cancel(srv_exchanges *x)
{
    pthread_mutex_lock(&x->lock);
    for (connection *k = x->first; k; k = k->next)
        if (k->running.of) k->running.leave(k->running.of);
    pthread_mutex_unlock(&x->lock);
}

void srv_exchanges_close(srv_exchanges *x)
{
    if (!x) return;
    bool quiet = false; /* MHD closes the listener unless it was taken from it */
    if (x->daemon) {
        quiet = x->s->counts.draining;
        MHD_stop_daemon(x->daemon);
    }
    if (x->listener >= 0 && (quiet || !x->daemon)) close(x->listener);
    pthread_mutex_lock(&x->lock);
    x->stop = true;
    pthread_mutex_unlock(&x->lock);
    if (x->watches) pthread_join(x->watcher, NULL);
    pthread_mutex_destroy(&x->lock);
    free(x);
}
