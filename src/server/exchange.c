#include "server/exchange.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "server/job.h"
#include "server/routes.h"

#define WATCH_MS         100
#define CONNECTION_BYTES 32768 /* request line and headers */
#define STACK_BYTES      (1024 * 1024)

/* A connection: made when it is accepted. */
typedef struct connection {
    const srv_server *s;
    struct connection *next, **link;
    int fd;
    int64_t since_us; /* the request began, or the connection is idle since then */
    bool answering, hung_up;
    srv_job *job;
    srv_record *record; /* of the request under way; of the connection's thread alone */
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

/* A request: made when its headers are here. */
typedef struct request {
    char *body;
    size_t n, cap;
    size_t n_dropped;
    bool too_long;
    srv_job *job;
    srv_record record;
} request;

int64_t srv_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
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
    k->job = NULL;
    pthread_mutex_unlock(&x->lock);
}

/* -- the watcher -------------------------------------------------------------------------------- */

/* list_answering -- the sockets of connections that wait for an answer. Called with the lock held. */
static int list_answering(srv_exchanges *x, struct pollfd *fds)
{
    int n = 0;
    for (const connection *k = x->first; k; k = k->next)
        if (k->answering && k->job && !k->hung_up)
            fds[n++] = (struct pollfd){.fd = k->fd, .events = POLLRDHUP};
    return n;
}

static void shut_late(srv_exchanges *x)
{
    int64_t limit = srv_now_us() - (int64_t)x->s->o.read_seconds * 1000000;
    for (connection *k = x->first; k; k = k->next)
        if (!k->answering && !k->hung_up && k->since_us < limit) {
            k->hung_up = true;
            shutdown(k->fd, SHUT_RDWR);
        }
}

/* leave -- the client of a socket has hung up; asks again, since by now the number may be another
 * connection's. */
static void leave(srv_exchanges *x, int fd)
{
    for (connection *k = x->first; k; k = k->next) {
        struct pollfd p = {.fd = fd, .events = POLLRDHUP};
        if (k->fd != fd || !k->job || poll(&p, 1, 0) < 1) continue;
        k->hung_up = true;
        srv_job_leave(k->job);
    }
}

static void *watch(void *arg)
{
    srv_exchanges *x = arg;
    const short gone = POLLRDHUP | POLLHUP | POLLERR;
    struct pollfd *fds = calloc((size_t)x->s->o.n_connections + 1, sizeof *fds);
    pthread_mutex_lock(&x->lock);
    while (!x->stop) {
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

srv_sent srv_send(struct MHD_Connection *c, int status, struct MHD_Response *r)
{
    connection *k = connection_of(c);
    if (k && k->record) {
        k->record->status = status;
        MHD_add_response_header(r, "X-Request-Id", k->record->id);
    }
    if (k && k->s->draining) MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    return MHD_queue_response(c, (unsigned)status, r);
}

/* -- requests ------------------------------------------------------------------------------------- */

/* take_body -- appends a piece of the body; a body that is too long is read and dropped for a while,
 * so that the client sees the reply. */
static bool take_body(const srv_server *s, request *r, const char *data, size_t n)
{
    if (r->too_long || n > s->o.body_bytes - r->n) {
        r->too_long = true;
        r->n_dropped += n;
        return r->n_dropped <= s->o.body_bytes;
    }
    if (r->cap - r->n <= n) {
        size_t cap = 2 * r->cap + n + 1;
        char *more = realloc(r->body, cap);
        if (!more) return false;
        r->body = more;
        r->cap = cap;
    }
    memcpy(r->body + r->n, data, n);
    r->n += n;
    r->body[r->n] = '\0';
    return true;
}

static srv_sent reply_too_long(const srv_server *s, struct MHD_Connection *c)
{
    char why[80];
    snprintf(why, sizeof why, "the body is longer than %zu bytes", s->o.body_bytes);
    return srv_reply_error(c, 413, NULL, "body_too_long", why);
}

/* announces_too_much -- by its Content-Length, before the body is read. */
static bool announces_too_much(const srv_server *s, struct MHD_Connection *c)
{
    const char *length =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length && strtoull(length, NULL, 10) > s->o.body_bytes;
}

/* note_job -- from now on the watcher cancels it when the client hangs up. */
static void note_job(srv_exchanges *x, connection *k, srv_job *j)
{
    if (!k) return;
    pthread_mutex_lock(&x->lock);
    k->job = j;
    pthread_mutex_unlock(&x->lock);
}

void srv_job_watch(const srv_call *call, srv_job *j)
{
    *call->job = j;
    note_job(call->s->exchanges, connection_of(call->connection), j);
}

static void begin_record(struct MHD_Connection *c, request *r, const char *method, const char *url)
{
    connection *k = connection_of(c);
    srv_record_begin(&r->record, MHD_lookup_connection_value(c, MHD_HEADER_KIND, "X-Request-Id"),
                     method, url);
    if (k) k->record = &r->record;
}

/* A callback of libmicrohttpd. */
static srv_sent on_request(void *user, struct MHD_Connection *c, const char *url,
                           const char *method, const char *version, const char *data,
                           size_t *n_data, void **context)
{
    srv_exchanges *x = user;
    request *r = *context;
    if (!r) {
        *context = r = calloc(1, sizeof *r);
        if (!r) return MHD_NO;
        begin_record(c, r, method, url);
        return announces_too_much(x->s, c) ? reply_too_long(x->s, c) : MHD_YES;
    }
    if (*n_data > 0) {
        size_t n = *n_data;
        *n_data = 0;
        return take_body(x->s, r, data, n) ? MHD_YES : MHD_NO;
    }
    set_state(x, connection_of(c), true);
    if (r->too_long) return reply_too_long(x->s, c);
    return srv_route(&(srv_call){.s = x->s,
                                 .connection = c,
                                 .method = method,
                                 .path = url,
                                 .body = r->body ? r->body : "",
                                 .n = r->n,
                                 .job = &r->job,
                                 .record = &r->record});
}

static void on_completed(void *user, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode why)
{
    srv_exchanges *x = user;
    request *r = *context;
    set_state(x, connection_of(c), false);
    if (!r) return;
    srv_job_destroy(r->job);
    srv_log_request(x->s->o.log, &r->record);
    connection *k = connection_of(c);
    if (k) k->record = NULL;
    free(r->body);
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
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, x, MHD_OPTION_EXTERNAL_LOGGER, log_http, NULL,
        MHD_OPTION_LISTEN_SOCKET, x->listener, MHD_OPTION_NOTIFY_COMPLETED, on_completed, x,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, x, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)o->n_connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->stall_seconds,
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
        if (k->job) srv_job_leave(k->job);
    pthread_mutex_unlock(&x->lock);
}

void srv_exchanges_close(srv_exchanges *x)
{
    if (!x) return;
    bool quiet = false; /* MHD closes the listener unless it was taken from it */
    if (x->daemon) {
        quiet = x->s->draining;
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
