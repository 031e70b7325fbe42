/* tls.c -- hiredis 0.14 speaks over plain sockets only: a thread relays between one and the TLS connection.
 *
 *   hiredis <-- socket pair --> thread <-- TLS --> server
 *
 * The thread owns its end of the pair, the TLS connection and itself; it ends when either side closes. */
#include "store/remote/redis/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { PIECE = 1 << 16 };

/* Bytes on their way in one direction. */
typedef struct lane {
    uint8_t bytes[PIECE];
    size_t at, end;
} lane;

typedef struct tunnel {
    SSL *ssl;
    int net, local;
    lane up, down;            /* to the server, from it */
    bool needs_in, needs_out; /* what TLS waits for on the net */
    bool over;
} tunnel;

/* -- connecting ------------------------------------------------------------------------------------------- */

static int left_ms(int64_t end_us)
{
    const int64_t us = end_us - sp_clock_us();
    return us > 0 ? (int)SP_MIN(us / 1000 + 1, (int64_t)INT32_MAX) : 0;
}

static bool wait_for(int fd, short events, int64_t end_us)
{
    struct pollfd p = {.fd = fd, .events = events};
    return poll(&p, 1, left_ms(end_us)) == 1;
}

/* connect_one -- a socket that does not block; -1: errno. */
static int connect_one(const struct addrinfo *a, int64_t end_us)
{
    int error = 0, on = 1;
    socklen_t size = sizeof error;
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        error = errno;
        if (error == EINPROGRESS) {
            error = ETIMEDOUT;
            if (wait_for(fd, POLLOUT, end_us) && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
                error = errno;
        }
    }
    if (error == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return fd;
    }
    close(fd);
    errno = error;
    return -1;
}

static sp_err connect_net(const char *host, int port, int64_t end_us, int *fd)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all;
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    const int rc = getaddrinfo(host, service, &hints, &all);
    if (rc != 0) return sp_fail(SP_E_IO, "redis at %s:%d: %s", host, port, gai_strerror(rc));
    *fd = -1;
    for (const struct addrinfo *a = all; a && *fd < 0; a = a->ai_next) *fd = connect_one(a, end_us);
    const int error = errno;
    freeaddrinfo(all);
    return *fd >= 0 ? SP_OK : sp_fail(SP_E_IO, "redis at %s:%d: %s", host, port, strerror(error));
}

/* why -- what OpenSSL says; of a certificate, what is wrong with it. */
static const char *why(const SSL *ssl)
{
    const long bad = SSL_get_verify_result(ssl);
    if (bad != X509_V_OK) return X509_verify_cert_error_string(bad);
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason ? reason : "no TLS";
}

static sp_err shake_hands(SSL *ssl, int net, const char *host, int port, int64_t end_us)
{
    for (;;) {
        ERR_clear_error();
        const int rc = SSL_connect(ssl);
        if (rc == 1) return SP_OK;
        const int error = SSL_get_error(ssl, rc);
        const bool waits = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
        if (!waits) return sp_fail(SP_E_IO, "redis at %s:%d: TLS: %s", host, port, why(ssl));
        if (!wait_for(net, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, end_us))
            return sp_fail(SP_E_IO, "redis at %s:%d: TLS: no answer in time", host, port);
    }
}

/* new_ssl -- NULL after an error. */
static SSL *new_ssl(const char *host, const char *ca_file, sp_err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    *err = sp_fail_nomem("a connection with TLS");
    if (!ctx) return NULL;
    const bool trusts = ca_file ? SSL_CTX_load_verify_locations(ctx, ca_file, NULL) == 1
                                : SSL_CTX_set_default_verify_paths(ctx) == 1;
    if (!trusts) *err = sp_fail(SP_E_IO, "%s: no certificates can be read", ca_file ? ca_file : "the system");
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL *ssl = trusts ? SSL_new(ctx) : NULL;
    SSL_CTX_free(ctx); /* the connection keeps it */
    if (ssl && SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1) return ssl;
    SSL_free(ssl);
    return NULL;
}

/* -- relaying --------------------------------------------------------------------------------------------- */

/* note_need -- after a call of TLS that did not succeed. */
static void note_need(tunnel *t, int rc)
{
    const int error = SSL_get_error(t->ssl, rc);
    if (error == SSL_ERROR_WANT_READ)
        t->needs_in = true;
    else if (error == SSL_ERROR_WANT_WRITE)
        t->needs_out = true;
    else
        t->over = true;
}

/* note_local -- the same of the local socket. */
static void note_local(tunnel *t, ssize_t n)
{
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) t->over = true;
}

static bool move_up(tunnel *t)
{
    lane *l = &t->up;
    if (l->at == l->end) {
        const ssize_t n = recv(t->local, l->bytes, PIECE, MSG_DONTWAIT);
        if (n <= 0) return note_local(t, n), false;
        l->at = 0;
        l->end = (size_t)n;
    }
    ERR_clear_error();
    const int n = SSL_write(t->ssl, l->bytes + l->at, (int)(l->end - l->at));
    if (n <= 0) return note_need(t, n), false;
    l->at += (size_t)n;
    return true;
}

static bool move_down(tunnel *t)
{
    lane *l = &t->down;
    if (l->at == l->end) {
        ERR_clear_error();
        const int n = SSL_read(t->ssl, l->bytes, PIECE);
        if (n <= 0) return note_need(t, n), false;
        l->at = 0;
        l->end = (size_t)n;
    }
    const ssize_t n = send(t->local, l->bytes + l->at, l->end - l->at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n <= 0) return note_local(t, n), false;
    l->at += (size_t)n;
    return true;
}

/* wait_for_either -- an end of the local socket is an event, too: nobody waits for answers to what is still to be
 * sent. */
static void wait_for_either(tunnel *t)
{
    const short local = (short)((t->up.at == t->up.end ? POLLIN : 0) | (t->down.at < t->down.end ? POLLOUT : 0));
    const short net = (short)((t->needs_in ? POLLIN : 0) | (t->needs_out ? POLLOUT : 0));
    struct pollfd p[] = {{.fd = t->local, .events = local}, {.fd = t->net, .events = net}};
    const bool ended = poll(p, 2, -1) > 0 && p[0].revents & (POLLHUP | POLLERR);
    if (ended && !(p[0].revents & POLLIN)) t->over = true;
}

static void end_tunnel(tunnel *t)
{
    SSL_free(t->ssl);
    close(t->net);
    close(t->local);
    sp_free(t);
}

static void *relay(void *arg)
{
    tunnel *t = arg;
    while (!t->over) {
        t->needs_in = t->needs_out = false;
        bool moved = move_up(t);
        if (!t->over) moved |= move_down(t);
        if (!moved && !t->over) wait_for_either(t);
    }
    (void)SSL_shutdown(t->ssl);
    end_tunnel(t);
    return NULL;
}

/* start -- the thread takes no signals: writing to a closed connection is an error there, not the end of the process.
 */
static bool start(tunnel *t)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool good = pthread_create(&thread, NULL, relay, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (good) pthread_detach(thread);
    return good;
}

sp_err sp_tls_connect(const char *host, int port, const char *ca_file, int64_t timeout_us, int *fd)
{
    const int64_t end_us = sp_clock_us() + timeout_us;
    int pair[2];
    sp_err err;
    SSL *ssl = new_ssl(host, ca_file, &err);
    if (!ssl) return err;
    tunnel *t = SP_NEW(tunnel);
    if (!t || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        SSL_free(ssl);
        sp_free(t);
        return sp_fail_nomem("a connection with TLS");
    }
    *t = (tunnel){.ssl = ssl, .net = -1, .local = pair[0]};
    err = connect_net(host, port, end_us, &t->net);
    if (err == SP_OK && SSL_set_fd(ssl, t->net) != 1) err = sp_fail_nomem("a connection with TLS");
    if (err == SP_OK) err = shake_hands(ssl, t->net, host, port, end_us);
    if (err == SP_OK && !start(t)) err = sp_fail(SP_E_NOMEM, "cannot start a thread of the remote tier");
    if (err != SP_OK) {
        end_tunnel(t);
        close(pair[1]);
        return err;
    }
    *fd = pair[1];
    return SP_OK;
}
