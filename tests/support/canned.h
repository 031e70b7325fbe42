/* canned.h -- a server on a free port of this machine that answers as a test says: for what no real one does. */
#ifndef SP_TESTS_CANNED_H
#define SP_TESTS_CANNED_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/redis.h"

enum { CANNED_CLIENTS = 16 };

typedef struct canned canned;

/* canned_fn -- the answer to what a client has sent at once. Thread: the server's. */
typedef void canned_fn(canned *c, const char *request, char *answer, size_t size);

struct canned {
    canned_fn *answer;
    const char *end; /* of a request */
    int port, fd;
    atomic_bool stop;
    atomic_int n_requests;
    atomic_int n_after; /* bytes that follow each answer */
    atomic_int together; /* requests are answered once there are so many: the one of the newest connection first */
    pthread_t thread;
};

/* canned_is_whole -- whether a request has its end; if that is the end of HTTP's headers, its body, too. */
static inline bool canned_is_whole(const canned *c, const char *request, size_t n)
{
    const size_t k = strlen(c->end);
    const char *end = strcmp(c->end, "\r\n\r\n") == 0 ? strstr(request, c->end) : NULL;
    const char *length = end ? strcasestr(request, "\r\nContent-Length:") : NULL;
    if (length && length < end) return n >= (size_t)(end - request) + k + strtoul(length + 17, NULL, 10);
    return n >= k && strcmp(request + n - k, c->end) == 0;
}

/* canned_serve -- false: the client has gone. */
static inline bool canned_serve(canned *c, int fd)
{
    static _Thread_local char request[(1 << 20) + (1 << 16)], answer[1 << 16];
    size_t n = 0;
    do {
        const ssize_t got = recv(fd, request + n, sizeof request - 1 - n, 0);
        if (got <= 0) return false;
        n += (size_t)got;
        request[n] = '\0';
    } while (!canned_is_whole(c, request, n));
    c->n_requests++;
    *answer = '\0';
    c->answer(c, request, answer, sizeof answer);
    bool is_sent = *answer && send(fd, answer, strlen(answer), MSG_NOSIGNAL) > 0;
    memset(answer, 'x', sizeof answer);
    for (int left = c->n_after; is_sent && left > 0;) {
        const ssize_t k = send(fd, answer, SP_MIN((size_t)left, sizeof answer), MSG_NOSIGNAL);
        is_sent = k > 0;
        left -= (int)k;
    }
    return is_sent;
}

static inline int canned_n_ready(const struct pollfd *v, int n)
{
    int n_ready = 0;
    for (int i = 1; i < n; i++) n_ready += v[i].revents != 0;
    return n_ready;
}

static inline void *canned_run(void *arg)
{
    canned *c = arg;
    struct pollfd v[1 + CANNED_CLIENTS] = {{.fd = c->fd, .events = POLLIN}};
    int n = 1;
    while (!c->stop) {
        if (poll(v, (nfds_t)n, 20) <= 0) continue;
        const bool all = canned_n_ready(v, n) >= c->together;
        if (!all) usleep(1000);
        for (int i = n - 1; i > 0 && all; i--)
            if (v[i].revents && !canned_serve(c, v[i].fd)) {
                close(v[i].fd);
                v[i] = v[--n];
            }
        if (v[0].revents && n <= CANNED_CLIENTS)
            v[n++] = (struct pollfd){.fd = accept(c->fd, NULL, NULL), .events = POLLIN};
    }
    while (n) close(v[--n].fd);
    return NULL;
}

/* canned_start -- end: the bytes that end a request, as "\r\n\r\n" of HTTP without a body. */
static inline void canned_start(canned *c, const char *end, canned_fn *answer)
{
    *c = (canned){.answer = answer, .end = end, .port = free_port(), .fd = socket(AF_INET, SOCK_STREAM, 0)};
    const int one = 1;
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)c->port)};
    setsockopt(c->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    assert_int_equal(bind(c->fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(c->fd, 16), 0);
    assert_int_equal(pthread_create(&c->thread, NULL, canned_run, c), 0);
}

static inline void canned_stop(canned *c)
{
    c->stop = true;
    pthread_join(c->thread, NULL);
}

#endif
