/* redis_link.c -- copies in a Redis or Valkey server.
 *
 *   SPOLIA:<space>:copy:<name>       a hash: "head", the header; "0", "1" ..., groups of layers. Without a head it
 *                                    expires soon
 *   SPOLIA:<space>:copy:<name>:lock  the tier that is writing the copy
 *   SPOLIA:<space>:index             a hash: name -> notice
 *   SPOLIA:<space>:news              a channel: "SENDER + NAME NOTICE" of each put, "SENDER - NAME" of each drop */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/remote/notice.h"
#include "store/remote/redis.h"
#include "store/remote/redis_clean.h"

enum { FIELD_SIZE = 12, KEY_SIZE = 160, LOCK_SIZE = 176, NEWS_SIZE = 288, POLL_MS = 200 };

#define UNFINISHED_S "300" /* that a copy without a head is kept */
#define LOCK_S       "60"  /* how long others wait for the process that writes a copy */

typedef struct redis_link {
    sp_remote_link base; /* first */
    const sp_remote_site *site;
    redisContext *c;
    char prefix[48], index[64], news[64];
    char name[SP_REMOTE_NAME], key[KEY_SIZE], lock[LOCK_SIZE]; /* of the put under way */
    bool is_subscribed;
} redis_link;

static redis_link *link_of(sp_remote_link *l)
{
    return (redis_link *)l;
}

static sp_err address_of(const sp_remote_site *s, sp_redis_address *out)
{
    SP_TRY(sp_redis_parse(s->url, out));
    out->ca_file = s->ca_file;
    return SP_OK;
}

static sp_err check(const sp_remote_site *s)
{
    sp_redis_address a;
    return address_of(s, &a);
}

static void close_link(sp_remote_link *base)
{
    redisFree(link_of(base)->c);
    sp_free(base);
}

static sp_err open_link(const sp_remote_site *s, sp_remote_link **out)
{
    sp_redis_address a;
    SP_TRY(address_of(s, &a));
    redis_link *l = SP_NEW(redis_link);
    if (!l) return sp_fail_nomem(sizeof *l, "a connection to redis");
    *l = (redis_link){.site = s};
    sp_err err = sp_redis_open(&a, s->timeout_us, &l->c);
    if (err != SP_OK) {
        sp_free(l);
        return err;
    }
    snprintf(l->prefix, sizeof l->prefix, "SPOLIA:%s:", s->space);
    snprintf(l->index, sizeof l->index, "%sindex", l->prefix);
    snprintf(l->news, sizeof l->news, "%snews", l->prefix);
    *out = &l->base;
    return SP_OK;
}

static void key_of(const redis_link *l, const char *name, char out[KEY_SIZE])
{
    snprintf(out, KEY_SIZE, "%scopy:%s", l->prefix, name);
}

/* broken -- passes an error on, and notes what it means for the link. */
static sp_err noted(redis_link *l, sp_err err)
{
    l->base.broken = l->c->err != 0;
    return err;
}

/* -- get ---------------------------------------------------------------------------------------------- */

static void field_of(int part, char out[FIELD_SIZE])
{
    snprintf(out, FIELD_SIZE, part == SP_PART_HEAD ? "head" : "%d", part);
}

static sp_err ask(redis_link *l, const sp_remote_ask *a)
{
    char field[FIELD_SIZE], key[KEY_SIZE];
    key_of(l, a->name, key);
    SP_TRY(sp_redis_append(l->c, &(sp_redis_command){.words = {"HGET", key, "head"}, .n = 3}));
    for (int i = 0; i < a->n; i++) {
        field_of(a->first + i, field);
        SP_TRY(sp_redis_append(l->c, &(sp_redis_command){.words = {"HGET", key, field}, .n = 3}));
    }
    return SP_OK;
}

static sp_err take_reply(const sp_remote_ask *a, int part, const redisReply *r)
{
    if (r->type != REDIS_REPLY_STRING) return a->take(a->user, part, NULL, 0);
    return a->take(a->user, part, (const uint8_t *)r->str, r->len);
}

/* take_replies -- reads all replies of one ask, so that the next reply belongs to the next ask; *of_ask: how the ask
 * ends. Errors: SP_E_IO of the connection. */
static sp_err take_replies(redis_link *l, const sp_remote_ask *a, sp_err *of_ask)
{
    *of_ask = SP_OK;
    for (int i = -1; i < a->n; i++) {
        redisReply *r;
        sp_err err = sp_redis_next(l->c, &r);
        if (err != SP_OK && l->c->err) return err;
        if (err == SP_OK && *of_ask == SP_OK) *of_ask = take_reply(a, i < 0 ? SP_PART_HEAD : a->first + i, r);
        if (err != SP_OK && *of_ask == SP_OK) *of_ask = err;
        if (err == SP_OK) freeReplyObject(r);
    }
    return SP_OK;
}

static void get(sp_remote_link *base, const sp_remote_ask *asks, int n)
{
    redis_link *l = link_of(base);
    sp_err err = SP_OK;
    for (int i = 0; i < n && err == SP_OK; i++) err = noted(l, ask(l, &asks[i]));
    for (int i = 0; i < n; i++) {
        sp_err of_ask = err;
        if (err == SP_OK) err = noted(l, take_replies(l, &asks[i], &of_ask));
        asks[i].end(asks[i].user, err == SP_OK ? of_ask : err);
    }
}

/* -- put ---------------------------------------------------------------------------------------------- */

static sp_err begin(sp_remote_link *base, const char *name, const sp_remote_shape *shape, bool *taken)
{
    redis_link *l = link_of(base);
    redisReply *r;
    SP_UNUSED(shape);
    snprintf(l->name, sizeof l->name, "%s", name);
    key_of(l, name, l->key);
    snprintf(l->lock, sizeof l->lock, "%s:lock", l->key);
    SP_TRY(noted(l, sp_redis_call(l->c, &(sp_redis_command){.words = {"HEXISTS", l->key, "head"}, .n = 3}, &r)));
    *taken = r->type == REDIS_REPLY_INTEGER && r->integer == 1;
    freeReplyObject(r);
    if (*taken) return SP_OK;
    const sp_redis_command lock = {.words = {"SET", l->lock, l->site->self, "NX", "EX", LOCK_S}, .n = 6};
    SP_TRY(noted(l, sp_redis_call(l->c, &lock, &r)));
    *taken = r->type == REDIS_REPLY_NIL;
    freeReplyObject(r);
    return SP_OK;
}

static sp_err add(sp_remote_link *base, int part, const uint8_t *data, size_t n)
{
    redis_link *l = link_of(base);
    char field[FIELD_SIZE];
    field_of(part, field);
    const sp_redis_command set = {.words = {"HSET", l->key, field, (const char *)data}, .sizes = {0, 0, 0, n}, .n = 4};
    SP_TRY(noted(l, sp_redis_run(l->c, &set)));
    if (part != 0) return SP_OK;
    return noted(l, sp_redis_run(l->c, &(sp_redis_command){.words = {"EXPIRE", l->key, UNFINISHED_S}, .n = 3}));
}

/* unlock -- a lock that stays expires. */
static void unlock(redis_link *l)
{
    if (noted(l, sp_redis_run(l->c, &(sp_redis_command){.words = {"DEL", l->lock}, .n = 2})) != SP_OK)
        sp_log(SP_LOG_DEBUG, "a lock expires by itself");
}

static sp_err finish(sp_remote_link *base, const char *says, bool *taken)
{
    redis_link *l = link_of(base);
    char news[NEWS_SIZE], ttl[24];
    *taken = false;
    snprintf(news, sizeof news, "%s + %s %s", l->site->self, l->name, says);
    snprintf(ttl, sizeof ttl, "%lld", (long long)l->site->ttl_s);
    sp_redis_command keep = {.words = {"EXPIRE", l->key, ttl}, .n = 3};
    if (!l->site->ttl_s) keep = (sp_redis_command){.words = {"PERSIST", l->key}, .n = 2};
    SP_TRY(noted(l, sp_redis_run(l->c, &keep)));
    SP_TRY(noted(l, sp_redis_run(l->c, &(sp_redis_command){.words = {"HSET", l->index, l->name, says}, .n = 4})));
    SP_TRY(noted(l, sp_redis_run(l->c, &(sp_redis_command){.words = {"PUBLISH", l->news, news}, .n = 3})));
    unlock(l);
    return SP_OK;
}

static void abandon(sp_remote_link *base)
{
    redis_link *l = link_of(base);
    if (l->base.broken) return; /* the lock expires, and what was written */
    if (noted(l, sp_redis_run(l->c, &(sp_redis_command){.words = {"DEL", l->key}, .n = 2})) != SP_OK)
        sp_log(SP_LOG_DEBUG, "a copy that was not finished expires by itself");
    unlock(l);
}

static sp_err drop(sp_remote_link *base, const char *name)
{
    redis_link *l = link_of(base);
    char key[KEY_SIZE], news[NEWS_SIZE];
    key_of(l, name, key);
    snprintf(news, sizeof news, "%s - %s", l->site->self, name);
    SP_TRY(noted(l, sp_redis_run(l->c, &(sp_redis_command){.words = {"DEL", key}, .n = 2})));
    SP_TRY(noted(l, sp_redis_run(l->c, &(sp_redis_command){.words = {"HDEL", l->index, name}, .n = 3})));
    return noted(l, sp_redis_run(l->c, &(sp_redis_command){.words = {"PUBLISH", l->news, news}, .n = 3}));
}

/* -- what others say ---------------------------------------------------------------------------------- */

/* hear_message -- "SENDER + NAME NOTICE" or "SENDER - NAME". */
static sp_err hear_message(const redis_link *l, const sp_remote_ears *ears, char *says)
{
    char *save = NULL, *sender = strtok_r(says, " ", &save), *what = strtok_r(NULL, " ", &save);
    char *name = strtok_r(NULL, " ", &save);
    if (!sender || !what || !name || strcmp(sender, l->site->self) == 0) return SP_OK;
    if (strcmp(what, "+") == 0) SP_TRY(ears->learn(ears->user, name, save));
    if (strcmp(what, "-") == 0) ears->forget(ears->user, name);
    return SP_OK;
}

/* hear_replies -- handles the messages that have arrived. */
static sp_err hear_replies(redis_link *l, const sp_remote_ears *ears)
{
    void *reply = NULL;
    sp_err err = SP_OK;
    if (redisBufferRead(l->c) != REDIS_OK) return sp_fail(SP_E_IO, "redis: %s", l->c->errstr);
    while (err == SP_OK && redisGetReplyFromReader(l->c, &reply) == REDIS_OK && reply) {
        redisReply *r = reply;
        if (r->type == REDIS_REPLY_ARRAY && r->elements == 3 && r->element[0]->type == REDIS_REPLY_STRING &&
            strcmp(r->element[0]->str, "message") == 0 && r->element[2]->type == REDIS_REPLY_STRING)
            err = hear_message(l, ears, r->element[2]->str);
        freeReplyObject(r);
    }
    return l->c->err ? sp_fail(SP_E_IO, "redis: %s", l->c->errstr) : err;
}

/* read_index -- over a connection of its own: this one listens. */
static sp_err read_index(const redis_link *l, const sp_remote_ears *ears)
{
    sp_redis_address a;
    redisContext *c;
    SP_TRY(address_of(l->site, &a));
    SP_TRY(sp_redis_open(&a, l->site->timeout_us, &c));
    sp_err err = sp_redis_scan(c, l->index, NULL, ears->learn, ears->user);
    redisFree(c);
    return err;
}

static sp_err hear(sp_remote_link *base, const sp_remote_ears *ears)
{
    redis_link *l = link_of(base);
    if (!l->is_subscribed) { /* before the index is read, so that no news is missed in between */
        SP_TRY(noted(l, sp_redis_run(l->c, &(sp_redis_command){.words = {"SUBSCRIBE", l->news}, .n = 2})));
        l->is_subscribed = true;
        return read_index(l, ears);
    }
    struct pollfd p = {.fd = l->c->fd, .events = POLLIN};
    return poll(&p, 1, POLL_MS) > 0 ? noted(l, hear_replies(l, ears)) : SP_OK;
}

const sp_remote_kind sp_remote_redis = {.check = check,
                                        .open = open_link,
                                        .close = close_link,
                                        .get = get,
                                        .begin = begin,
                                        .add = add,
                                        .finish = finish,
                                        .abandon = abandon,
                                        .drop = drop,
                                        .hear = hear,
                                        .each_space = sp_redis_each_space,
                                        .clean = sp_redis_clean};
