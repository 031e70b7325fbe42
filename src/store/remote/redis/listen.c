/* listen.c -- a subscription: at one server, which hears what is published at any server of its cluster. */
#include <hiredis/sds.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/remote/redis/redis_int.h"

#define SILENCE_US INT64_C(5000000)  /* after it the server is asked whether it is there */
#define LEARN_US   INT64_C(15000000) /* between looks at whether it still belongs to the cluster */

sp_err sp_redis_subscribe(sp_redis *r, const char *channel)
{
    sp_err err;
    r->ear = NULL;
    SP_TRY(sp_redis_connect(r));
    err = sp_fail(SP_E_IO, "redis: no server to listen to");
    const size_t begin = r->cluster ? (size_t)getpid() : 0; /* not all processes at one */
    for (size_t i = 0; i < r->nodes.n; i++) {
        sp_redis_node *n = r->nodes.v[(begin + i) % r->nodes.n];
        redisReply *reply;
        if (!sp_cluster_has(r, n)) continue;
        err = sp_redis_ask_node(r, n, &(sp_redis_command){.words = {"SUBSCRIBE", channel}, .n = 2}, &reply);
        if (err != SP_OK) continue;
        freeReplyObject(reply);
        r->ear = n;
        r->pinged_us = 0;
        return SP_OK;
    }
    r->stale |= r->cluster;
    return err;
}

/* take_messages -- those that have arrived. */
static sp_err take_messages(sp_redis_node *n, sp_err (*each)(void *user, char *text), void *user)
{
    void *reply = NULL;
    sp_err err = SP_OK;
    while (err == SP_OK && redisGetReplyFromReader(n->c, &reply) == REDIS_OK && reply) {
        const redisReply *m = reply;
        if (m->type == REDIS_REPLY_ARRAY && m->elements == 3 && m->element[0]->type == REDIS_REPLY_STRING &&
            strcmp(m->element[0]->str, "message") == 0 && m->element[2]->type == REDIS_REPLY_STRING)
            err = each(user, m->element[2]->str);
        freeReplyObject(reply);
    }
    return n->c->err ? sp_fail(SP_E_IO, "redis: %s", n->c->errstr) : err;
}

/* ping -- a server that is silent for long must say that it is there. */
static sp_err ping(sp_redis *r, sp_redis_node *n)
{
    static const char text[] = "*1\r\n$4\r\nPING\r\n";
    const int64_t now = sp_clock_us();
    if (n->heard_us > r->pinged_us) r->pinged_us = 0;
    if (r->pinged_us && now - r->pinged_us > r->timeout_us)
        return sp_fail(SP_E_IO, "redis at %s:%d: no answer in time", n->address.host, n->address.port);
    if (r->pinged_us || now - n->heard_us < SILENCE_US) return SP_OK;
    r->pinged_us = now;
    return redisAppendFormattedCommand(n->c, text, sizeof text - 1) == REDIS_OK ? SP_OK
                                                                               : sp_fail(SP_E_NOMEM, "a command");
}

/* check_place -- whether it still belongs to the cluster: one that has left hears nothing. */
static sp_err check_place(sp_redis *r)
{
    if (!r->cluster || sp_clock_us() - r->asked_us < LEARN_US) return SP_OK;
    if (sp_cluster_learn(r) != SP_OK || sp_cluster_has(r, r->ear)) return SP_OK;
    return sp_fail(SP_E_IO, "redis at %s:%d has left the cluster", r->ear->address.host, r->ear->address.port);
}

sp_err sp_redis_hear(sp_redis *r, int ms, sp_err (*each)(void *user, char *text), void *user)
{
    sp_redis_node *n = r->ear;
    if (!n) return sp_fail(SP_E_IO, "redis: not subscribed");
    sp_err err = ping(r, n);
    if (err == SP_OK) err = check_place(r);
    if (err == SP_OK) {
        sp_redis_wait(r, (int64_t)ms * 1000);
        err = n->c ? take_messages(n, each, user) : sp_fail(n->err, "%s", n->why);
    }
    if (err == SP_OK) return SP_OK;
    r->ear = NULL;
    r->stale |= r->cluster;
    if (n->c) sp_node_fail(n, err);
    return err;
}
