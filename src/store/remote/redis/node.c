#include "store/remote/redis/node.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/sds.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/remote/redis/tls.h"

enum { READ_BYTES = 1 << 17 };

#define LEAST_PAUSE_US INT64_C(100000)
#define MOST_PAUSE_US  INT64_C(10000000)

sp_redis_node *sp_node_new(const sp_redis_address *a, int64_t timeout_us)
{
    sp_redis_node *n = SP_NEW(sp_redis_node);
    if (n) *n = (sp_redis_node){.address = *a, .timeout_us = timeout_us};
    return n;
}

void sp_node_close(sp_redis_node *n)
{
    if (n->c) redisFree(n->c);
    n->c = NULL;
    n->sent = 0;
    n->is_on_trial = false;
}

void sp_node_free(sp_redis_node *n)
{
    if (!n) return;
    for (size_t i = n->first; i < n->queue.n; i++) redisFreeCommand(n->queue.v[i].text);
    sp_vec_fini(&n->queue);
    sp_node_close(n);
    sp_free(n);
}

void sp_node_fail(sp_redis_node *n, sp_err err)
{
    n->err = err;
    snprintf(n->why, sizeof n->why, "%s", sp_error_detail());
    sp_log(SP_LOG_DEBUG, "%s", n->why);
    n->pause_us = SP_MIN(SP_MAX(2 * n->pause_us, LEAST_PAUSE_US), MOST_PAUSE_US);
    n->again_us = sp_clock_us() + n->pause_us;
    sp_node_close(n);
}

/* fail_io -- what hiredis or the system says of this server. */
static sp_err fail_io(sp_redis_node *n, const char *what)
{
    sp_err err = sp_fail(SP_E_IO, "redis at %s:%d: %s", n->address.host, n->address.port, what);
    sp_node_fail(n, err);
    return err;
}

/* -- opening ---------------------------------------------------------------------------------------- */

static sp_err add(sp_redis_node *n, const sp_redis_pending *p)
{
    if (n->first == n->queue.n) n->first = n->queue.n = 0;
    SP_TRY(sp_vec_reserve(&n->queue, 1));
    if (redisAppendFormattedCommand(n->c, p->text, p->n) != REDIS_OK) return sp_fail_nomem("a command to redis");
    if (!sp_node_n_waiting(n)) n->moved_us = sp_clock_us();
    n->queue.v[n->queue.n++] = *p;
    return SP_OK;
}

static sp_err add_login(sp_redis_node *n, int n_words, const char **words)
{
    sp_redis_pending p = {.slot = -1, .aim = SP_AIM_LOGIN};
    const int size = redisFormatCommandArgv(&p.text, n_words, words, NULL);
    if (size < 0) return sp_fail(SP_E_NOMEM, "a command to redis");
    p.n = (size_t)size;
    sp_err err = add(n, &p);
    if (err != SP_OK) redisFreeCommand(p.text);
    return err;
}

static sp_err log_in(sp_redis_node *n)
{
    const sp_redis_address *a = &n->address;
    char number[12];
    snprintf(number, sizeof number, "%d", a->database);
    if (*a->user) SP_TRY(add_login(n, 3, (const char *[]){"AUTH", a->user, a->password}));
    if (!*a->user && *a->password) SP_TRY(add_login(n, 2, (const char *[]){"AUTH", a->password}));
    if (a->database) SP_TRY(add_login(n, 2, (const char *[]){"SELECT", number}));
    return SP_OK;
}

/* connect_socket -- Errors: SP_E_IO, SP_E_NOMEM, of sp_tls_connect. */
static sp_err connect_socket(sp_redis_node *n)
{
    const sp_redis_address *a = &n->address;
    const struct timeval limit = {.tv_sec = n->timeout_us / 1000000, .tv_usec = n->timeout_us % 1000000};
    int fd = -1;
    if (a->tls) SP_TRY(sp_tls_connect(a->host, a->port, a->ca_file, n->timeout_us, &fd));
    const bool waits = n->waits && !sp_node_is_lost(n);
    n->c = a->tls  ? redisConnectFd(fd)
           : waits ? redisConnectWithTimeout(a->host, a->port, limit)
                   : redisConnectNonBlock(a->host, a->port);
    if (!n->c && a->tls) close(fd);
    if (!n->c) return sp_fail_nomem("a connection to redis");
    if (n->c->err) return sp_fail(SP_E_IO, "redis at %s:%d: %s", a->host, a->port, n->c->errstr);
    n->c->flags &= ~REDIS_BLOCK;
    n->c->reader->maxbuf = 0; /* the reply buffer is kept: replies are megabytes and follow each other */
    const int flags = fcntl(n->c->fd, F_GETFL);
    return fcntl(n->c->fd, F_SETFL, flags | O_NONBLOCK) == 0 ? SP_OK : sp_fail(SP_E_IO, "redis: %s", strerror(errno));
}

/* has_ended -- while nothing was asked: the server was started again, or closes what is idle. */
static bool has_ended(const sp_redis_node *n)
{
    char byte;
    return n->c && !sp_node_n_waiting(n) && recv(n->c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* drop_oldest -- of no interest to the caller. */
static void drop_oldest(sp_redis_node *n, redisReply *reply)
{
    const sp_redis_pending *p = &n->queue.v[n->first++];
    redisFreeCommand(p->text);
    if (reply && p->aim == SP_AIM_LOGIN && reply->type == REDIS_REPLY_ERROR) SP_UNUSED(fail_io(n, reply->str));
    if (reply) freeReplyObject(reply);
}

/* take_reply -- false: the node has failed, or the reply is not complete. */
static bool take_reply(sp_redis_node *n, redisReply **out)
{
    void *reply = NULL;
    if (n->c && redisGetReplyFromReader(n->c, &reply) != REDIS_OK) {
        SP_UNUSED(fail_io(n, n->c->errstr));
        return false;
    }
    *out = reply;
    return reply != NULL;
}

/* drop_replies -- of commands that nobody waits for; false: the next one is somebody's, or has not come. */
static bool drop_replies(sp_redis_node *n)
{
    while (sp_node_n_waiting(n)) {
        redisReply *reply = NULL;
        if (n->queue.v[n->first].aim == SP_AIM_ANSWER) return false;
        if (!take_reply(n, &reply) && n->c) return false;
        drop_oldest(n, reply);
    }
    return true;
}

/* try_out -- opens a connection over which a PING goes, or looks whether it has been answered; the first time that it
 * has been the node is open again. Errors: those of the failure. */
static sp_err try_out(sp_redis_node *n)
{
    if (!n->is_on_trial) {
        sp_err err = connect_socket(n);
        if (err == SP_OK) err = log_in(n);
        if (err == SP_OK) err = add_login(n, 1, (const char *[]){"PING"});
        if (err != SP_OK) sp_node_fail(n, err);
        n->is_on_trial = err == SP_OK;
    }
    if (n->c) sp_node_move(n, true);
    if (drop_replies(n) && n->c) {
        n->is_on_trial = false;
        n->pause_us = 0;
        return SP_OK;
    }
    return sp_fail(n->err, "%s", n->why);
}

static sp_err open_node(sp_redis_node *n)
{
    if (n->is_on_trial) return try_out(n);
    if (has_ended(n)) sp_node_close(n);
    if (n->c) return SP_OK;
    if (!drop_replies(n) || sp_clock_us() < n->again_us) return sp_fail(n->err, "%s", n->why);
    if (sp_node_is_lost(n)) return try_out(n);
    sp_err err = connect_socket(n);
    if (err == SP_OK) err = log_in(n);
    if (err != SP_OK) sp_node_fail(n, err);
    return err;
}

/* -- commands --------------------------------------------------------------------------------------- */

sp_err sp_node_push(sp_redis_node *n, const sp_redis_pending *p)
{
    SP_TRY(open_node(n));
    return add(n, p);
}

bool sp_node_pop(sp_redis_node *n, sp_redis_pending *out, redisReply **reply)
{
    *reply = NULL;
    if (drop_replies(n)) return false; /* none is left */
    if (n->queue.v[n->first].aim != SP_AIM_ANSWER) return false;
    if (!take_reply(n, reply) && n->c) return false;
    *out = n->queue.v[n->first++];
    if (*reply) n->pause_us = 0;
    return true;
}

/* -- bytes ------------------------------------------------------------------------------------------ */

bool sp_node_wants_out(const sp_redis_node *n)
{
    return n->c && sdslen(n->c->obuf) > n->sent;
}

/* send_some -- without the signal that redisBufferWrite raises where the server has hung up. */
static void send_some(sp_redis_node *n)
{
    sds *out = &n->c->obuf;
    const ssize_t size = send(n->c->fd, *out + n->sent, sdslen(*out) - n->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0 && errno != EAGAIN && errno != EINTR) SP_UNUSED(fail_io(n, strerror(errno)));
    if (size <= 0) return;
    n->moved_us = sp_clock_us();
    n->sent += (size_t)size;
    if (n->sent < sdslen(*out)) return;
    n->sent = 0;
    sdsfree(*out); /* a value may have a megabyte */
    *out = sdsempty();
    if (!*out) SP_UNUSED(fail_io(n, "out of memory"));
}

/* receive_some -- in larger pieces than redisBufferRead. */
static void receive_some(sp_redis_node *n)
{
    char bytes[READ_BYTES];
    const ssize_t size = recv(n->c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
        SP_UNUSED(fail_io(n, size == 0 ? "Server closed the connection" : strerror(errno)));
        return;
    }
    n->moved_us = n->heard_us = sp_clock_us();
    if (redisReaderFeed(n->c->reader, bytes, (size_t)size) != REDIS_OK) SP_UNUSED(fail_io(n, "out of memory"));
}

void sp_node_move(sp_redis_node *n, bool readable)
{
    if (sp_node_wants_out(n)) send_some(n);
    if (n->c && readable) receive_some(n);
    if (n->c && sp_node_n_waiting(n) && sp_clock_us() - n->moved_us > n->timeout_us)
        SP_UNUSED(fail_io(n, "no answer in time"));
}
