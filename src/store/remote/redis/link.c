/* link.c -- copies in a Redis or Valkey server, or in a cluster of them. There a key has the tag of one of some
 * hundred parts, "SPOLIA:<space>{<part>}:copy:<name>", and so has the index: a copy, its lock and the index that names
 * it are in one slot, so that a server that is lost takes no others along.
 *
 *   SPOLIA:<space>:copy:<name>       a hash: "head", the header; "0", "1" ..., groups of layers. Without a head it
 *                                    expires soon
 *   SPOLIA:<space>:copy:<name>:lock  the tier that is writing the copy
 *   SPOLIA:<space>:index             a hash: name -> notice
 *   SPOLIA:<space>:news              a channel: "SENDER + NAME NOTICE" of each put, "SENDER - NAME" of each drop */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/remote/notice.h"
#include "store/remote/redis/redis.h"
#include "store/remote/redis/clean.h"
#include "store/remote/redis/slots.h"

enum {
    FIELD_SIZE = 12,
    KEY_SIZE = 160, LOCK_SIZE = 176, INDEX_SIZE = 64, NEWS_SIZE = 288,
    POLL_MS = 200,
    PART_BITS = 16, /* of an answer's id; a copy has fewer groups (sp_remote_read_notice) */
};

#define UNFINISHED_S "300" /* that a copy without a head is kept */
#define LOCK_S       "60"  /* how long others wait for the process that writes a copy */
#define LEAST_PAUSE_US INT64_C(100000) /* after a part of the index could not be read; doubles each time */
#define MOST_PAUSE_US  INT64_C(5000000)

/* Parts of the index that the listener has still to read. */
typedef struct unread {
    bool part[SP_SLOT_PARTS];
    int n;
    int64_t pause_us, again_us;
} unread;

typedef struct redis_link {
    sp_remote_link base; /* first */
    const sp_remote_site *site;
    sp_redis *redis;
    char prefix[48], news[64]; /* prefix: of all keys, without the tag of a part */
    /* Of the put under way. */
    char name[SP_REMOTE_NAME], says[SP_REMOTE_NOTICE], key[KEY_SIZE], lock[LOCK_SIZE];
    sp_redis *index; /* the listener's second one: the first has a subscription; NULL: not subscribed */
    unread unread;
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

static sp_err check_url(const char *url)
{
    sp_redis_address a;
    return sp_redis_parse(url, &a);
}

static sp_err check(const sp_remote_site *s)
{
    sp_redis_address a;
    return address_of(s, &a);
}

static sp_err share_servers(sp_remote_site *s)
{
    s->shared = sp_redis_known_new();
    return s->shared ? SP_OK : sp_fail_nomem("the servers of a cluster");
}

static void unshare_servers(sp_remote_site *s)
{
    sp_redis_known_free(s->shared);
}

static void close_link(sp_remote_link *base)
{
    sp_redis_free(link_of(base)->redis);
    sp_redis_free(link_of(base)->index);
    sp_free(base);
}

static sp_err open_redis(const sp_remote_site *s, sp_redis **out)
{
    sp_redis_address a;
    sp_redis *r;
    SP_TRY(address_of(s, &a));
    SP_TRY(sp_redis_new(&a, s->timeout_us, s->shared, &r));
    sp_err err = sp_redis_connect(r);
    if (err == SP_OK)
        *out = r;
    else
        sp_redis_free(r);
    return err;
}

static sp_err open_link(const sp_remote_site *s, sp_remote_link **out)
{
    redis_link *l = SP_NEW(redis_link);
    if (!l) return sp_fail_nomem("a connection to redis");
    *l = (redis_link){.site = s};
    sp_err err = open_redis(s, &l->redis);
    if (err != SP_OK) {
        sp_free(l);
        return err;
    }
    snprintf(l->prefix, sizeof l->prefix, "SPOLIA:%s", s->space);
    snprintf(l->news, sizeof l->news, "%s:news", l->prefix);
    *out = &l->base;
    return SP_OK;
}

/* tag_of -- of the part that has a copy. */
static void tag_of(const redis_link *l, const char *name, char out[SP_REDIS_TAG])
{
    sp_tier_key k = {0};
    SP_UNUSED(sp_remote_read_name(name, &k));
    sp_redis_tag(l->redis, k.id.b[0], out);
}

static void key_of(const redis_link *l, const char *name, char out[KEY_SIZE])
{
    char tag[SP_REDIS_TAG];
    tag_of(l, name, tag);
    snprintf(out, KEY_SIZE, "%s%s:copy:%s", l->prefix, tag, name);
}

static void index_of(const redis_link *l, const char *name, char out[INDEX_SIZE])
{
    char tag[SP_REDIS_TAG];
    tag_of(l, name, tag);
    snprintf(out, INDEX_SIZE, "%s%s:index", l->prefix, tag);
}

/* noted -- passes an error on, and notes what it means for the link. */
static sp_err noted(redis_link *l, sp_err err)
{
    l->base.broken = sp_redis_is_lost(l->redis);
    return err;
}

/* -- get ---------------------------------------------------------------------------------------------- */

static void field_of(int part, char out[FIELD_SIZE])
{
    snprintf(out, FIELD_SIZE, part == SP_PART_HEAD ? "head" : "%d", part);
}

/* An ask under way. */
typedef struct asking {
    int n_left; /* answers to come */
    sp_err err; /* the first */
    char why[200];
} asking;

static void fail_ask(asking *a, sp_err err)
{
    if (err == SP_OK || a->err != SP_OK) return;
    a->err = err;
    snprintf(a->why, sizeof a->why, "%s", sp_error_detail());
}

static void end_ask(const asking *a, const sp_remote_ask *ask)
{
    ask->end(ask->user, a->err == SP_OK ? SP_OK : sp_fail(a->err, "%s", a->why));
}

/* send_ask -- for all parts; the ids of the answers are that of the ask and, of the groups, 1, 2 ... */
static void send_ask(redis_link *l, asking *a, const sp_remote_ask *ask, uint32_t id)
{
    char field[FIELD_SIZE], key[KEY_SIZE];
    key_of(l, ask->name, key);
    for (int i = 0; i <= ask->n && a->err == SP_OK; i++) {
        field_of(i ? ask->first + i - 1 : SP_PART_HEAD, field);
        const sp_redis_command c = {.words = {"HGET", key, field}, .n = 3};
        fail_ask(a, sp_redis_send(l->redis, &c, id << PART_BITS | (uint32_t)i));
        a->n_left += a->err == SP_OK;
    }
    if (!a->n_left) end_ask(a, ask);
}

/* take_answer -- answers of one copy come in order, unless it is moving to another server. */
static void take_answer(asking *a, const sp_remote_ask *ask, int i, const sp_redis_answer *answer)
{
    const redisReply *r = answer->reply;
    const int part = i ? ask->first + i - 1 : SP_PART_HEAD;
    sp_err err = answer->err;
    if (err == SP_OK && a->err == SP_OK && a->n_left != ask->n + 1 - i)
        err = sp_fail(SP_E_IO, "redis: parts of a copy out of order");
    if (err == SP_OK && a->err == SP_OK) {
        const bool there = r->type == REDIS_REPLY_STRING;
        err = ask->take(ask->user, part, there ? (const uint8_t *)r->str : NULL, there ? r->len : 0);
    }
    fail_ask(a, err);
    if (--a->n_left == 0) end_ask(a, ask);
}

static void get(sp_remote_link *base, const sp_remote_ask *asks, int n)
{
    redis_link *l = link_of(base);
    sp_redis_answer answer;
    asking *all = SP_NEW_N(asking, (size_t)n);
    for (int i = 0; i < n && !all; i++) asks[i].end(asks[i].user, sp_fail_nomem("a get of copies"));
    if (!all) return;
    for (int i = 0; i < n; i++) send_ask(l, &all[i], &asks[i], (uint32_t)i);
    while (sp_redis_receive(l->redis, &answer)) {
        const uint32_t i = answer.id >> PART_BITS;
        take_answer(&all[i], &asks[i], (int)(answer.id & ((1u << PART_BITS) - 1)), &answer);
        freeReplyObject(answer.reply);
    }
    sp_free(all);
    SP_UNUSED(noted(l, SP_OK));
}

/* -- put ---------------------------------------------------------------------------------------------- */

static sp_err begin(sp_remote_link *base, const char *name, const char *says, const sp_remote_shape *shape,
                    bool *taken)
{
    redis_link *l = link_of(base);
    redisReply *r;
    SP_UNUSED(shape);
    snprintf(l->name, sizeof l->name, "%s", name);
    snprintf(l->says, sizeof l->says, "%s", says);
    key_of(l, name, l->key);
    snprintf(l->lock, sizeof l->lock, "%s:lock", l->key);
    SP_TRY(noted(l, sp_redis_call(l->redis, &(sp_redis_command){.words = {"HEXISTS", l->key, "head"}, .n = 3}, &r)));
    *taken = r->type == REDIS_REPLY_INTEGER && r->integer == 1;
    freeReplyObject(r);
    if (*taken) return SP_OK;
    const sp_redis_command lock = {.words = {"SET", l->lock, l->site->self, "NX", "EX", LOCK_S}, .n = 6};
    SP_TRY(noted(l, sp_redis_call(l->redis, &lock, &r)));
    *taken = r->type == REDIS_REPLY_NIL;
    freeReplyObject(r);
    return SP_OK;
}

/* let_expire -- before it has any bytes of the copy, so that they expire if this process ends in between. A hash has
 * no command that makes it with a limit: the two go out together, and the server has both or none. */
static sp_err let_expire(redis_link *l, const char *field)
{
    const sp_redis_command make = {.words = {"HSET", l->key, field, ""}, .n = 4};
    const sp_redis_command limit = {.words = {"EXPIRE", l->key, UNFINISHED_S}, .n = 3};
    return noted(l, sp_redis_run_both(l->redis, &make, &limit));
}

static sp_err add(sp_remote_link *base, int part, const uint8_t *data, size_t n)
{
    redis_link *l = link_of(base);
    char field[FIELD_SIZE];
    field_of(part, field);
    if (part == 0) SP_TRY(let_expire(l, field));
    const sp_redis_command set = {.words = {"HSET", l->key, field, (const char *)data}, .sizes = {0, 0, 0, n}, .n = 4};
    return noted(l, sp_redis_run(l->redis, &set));
}

/* unlock -- a lock that stays expires. */
static void unlock(redis_link *l)
{
    if (noted(l, sp_redis_run(l->redis, &(sp_redis_command){.words = {"DEL", l->lock}, .n = 2})) != SP_OK)
        sp_log(SP_LOG_DEBUG, "a lock was not released; it expires on its own");
}

/* publish -- at any server of a cluster; the first one may be lost. */
static sp_err publish(redis_link *l, const char *news)
{
    const sp_redis_command c = {.words = {"PUBLISH", l->news, news}, .n = 3, .anywhere = true};
    sp_err err = noted(l, sp_redis_run(l->redis, &c));
    if (err != SP_E_IO || l->base.broken) return err;
    return noted(l, sp_redis_run(l->redis, &c));
}

/* finish -- the index names the copy before it stays: a copy that it does not name would never be deleted. */
static sp_err finish(sp_remote_link *base, bool *taken)
{
    redis_link *l = link_of(base);
    char news[NEWS_SIZE], index[INDEX_SIZE], ttl[24];
    *taken = false;
    index_of(l, l->name, index);
    snprintf(news, sizeof news, "%s + %s %s", l->site->self, l->name, l->says);
    snprintf(ttl, sizeof ttl, "%lld", (long long)l->site->ttl_s);
    sp_redis_command keep = {.words = {"EXPIRE", l->key, ttl}, .n = 3};
    if (!l->site->ttl_s) keep = (sp_redis_command){.words = {"PERSIST", l->key}, .n = 2};
    SP_TRY(noted(l, sp_redis_run(l->redis, &(sp_redis_command){.words = {"HSET", index, l->name, l->says}, .n = 4})));
    SP_TRY(noted(l, sp_redis_run(l->redis, &keep)));
    SP_TRY(publish(l, news));
    unlock(l);
    return SP_OK;
}

static void abandon(sp_remote_link *base)
{
    redis_link *l = link_of(base);
    if (l->base.broken) return; /* the lock expires, and what was written */
    if (noted(l, sp_redis_run(l->redis, &(sp_redis_command){.words = {"DEL", l->key}, .n = 2})) != SP_OK)
        sp_log(SP_LOG_DEBUG, "an unfinished copy was not deleted; it expires on its own");
    unlock(l);
}

/* drop -- the index loses the name after the copy is gone: if this process ends in between, others find it. What
 * another writes meanwhile may lose its name, so the copy is deleted again: else no deletion would find it. */
static sp_err drop(sp_remote_link *base, const char *name)
{
    redis_link *l = link_of(base);
    char key[KEY_SIZE], index[INDEX_SIZE], news[NEWS_SIZE];
    key_of(l, name, key);
    index_of(l, name, index);
    snprintf(news, sizeof news, "%s - %s", l->site->self, name);
    const sp_redis_command delete = {.words = {"DEL", key}, .n = 2};
    SP_TRY(noted(l, sp_redis_run(l->redis, &delete)));
    SP_TRY(noted(l, sp_redis_run(l->redis, &(sp_redis_command){.words = {"HDEL", index, name}, .n = 3})));
    SP_TRY(noted(l, sp_redis_run(l->redis, &delete)));
    return publish(l, news);
}

/* -- what others say ---------------------------------------------------------------------------------- */

/* What a message is for. */
typedef struct hearing {
    const redis_link *link;
    const sp_remote_ears *ears;
} hearing;

/* hear_message -- "SENDER + NAME NOTICE" or "SENDER - NAME". */
static sp_err hear_message(void *user, char *says)
{
    const hearing *h = user;
    char *save = NULL, *sender = strtok_r(says, " ", &save), *what = strtok_r(NULL, " ", &save);
    char *name = strtok_r(NULL, " ", &save);
    if (!sender || !what || !name || strcmp(sender, h->link->site->self) == 0) return SP_OK;
    if (strcmp(what, "+") == 0) SP_TRY(h->ears->learn(h->ears->user, name, save));
    if (strcmp(what, "-") == 0) h->ears->forget(h->ears->user, name);
    return SP_OK;
}

/* read_index -- what is unread. Errors: that of a part which cannot be read; the others are read. */
static sp_err read_index(redis_link *l, const sp_remote_ears *ears)
{
    char why[200] = "", tag[SP_REDIS_TAG], key[INDEX_SIZE];
    sp_err any = SP_OK;
    for (unsigned i = 0; i < SP_SLOT_PARTS && any != SP_E_CANCELED; i++) {
        if (!l->unread.part[i]) continue;
        sp_redis_tag(l->index, i, tag);
        snprintf(key, sizeof key, "%s%s:index", l->prefix, tag);
        sp_err err = sp_redis_scan_hash(l->index, key, ears->learn, ears->user);
        l->unread.part[i] = err != SP_OK;
        l->unread.n -= err == SP_OK;
        if (err == SP_OK) continue;
        any = err;
        snprintf(why, sizeof why, "%s", sp_error_detail());
    }
    return any == SP_OK ? SP_OK : sp_fail(any, "%s", why);
}

/* subscribe -- before the index is read, so that no news is missed in between. */
static sp_err subscribe(redis_link *l)
{
    SP_TRY(noted(l, sp_redis_subscribe(l->redis, l->news)));
    if (!l->index) SP_TRY(open_redis(l->site, &l->index)); /* else it knows more servers than that of the URL */
    l->unread = (unread){.n = sp_redis_n_parts(l->index)};
    for (int i = 0; i < l->unread.n; i++) l->unread.part[i] = true;
    return SP_OK;
}

/* catch_up -- reads the index. What a lost server of a cluster has of it is read when it is back. */
static sp_err catch_up(redis_link *l, const sp_remote_ears *ears)
{
    unread *u = &l->unread;
    if (!u->n || sp_clock_us() < u->again_us) return SP_OK;
    sp_err err = read_index(l, ears);
    if (err == SP_OK || sp_redis_n_parts(l->index) == 1) return err;
    if (!u->pause_us) sp_log(SP_LOG_WARN, "a part of the remote tier does not answer: %s", sp_error_detail());
    u->pause_us = SP_MIN(SP_MAX(2 * u->pause_us, LEAST_PAUSE_US), MOST_PAUSE_US);
    u->again_us = sp_clock_us() + u->pause_us;
    return sp_redis_is_lost(l->index) ? err : SP_OK;
}

static sp_err hear(sp_remote_link *base, const sp_remote_ears *ears)
{
    redis_link *l = link_of(base);
    hearing h = {.link = l, .ears = ears};
    const bool fresh = !l->index;
    if (fresh) SP_TRY(subscribe(l));
    SP_TRY(catch_up(l, ears));
    if (fresh) return SP_OK;
    sp_err err = noted(l, sp_redis_hear(l->redis, POLL_MS, hear_message, &h));
    if (err != SP_E_IO || sp_redis_n_parts(l->redis) == 1) return err;
    return subscribe(l); /* at another server of the cluster */
}

const sp_remote_kind sp_remote_redis = {.check_url = check_url,
                                        .check = check,
                                        .share = share_servers,
                                        .unshare = unshare_servers,
                                        .open = open_link,
                                        .close = close_link,
                                        .get = get,
                                        .begin = begin,
                                        .add = add,
                                        .finish = finish,
                                        .abandon = abandon,
                                        .drop = drop,
                                        .strike_out = drop,
                                        .hear = hear,
                                        .each_space = sp_redis_each_space,
                                        .clean = sp_redis_clean};
