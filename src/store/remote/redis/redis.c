#include "store/remote/redis/redis.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/remote/redis/redis_int.h"

#define LEARN_AGAIN_US INT64_C(500000) /* after the servers were asked who has which slot */
#define NO_LIMIT_US    INT64_C(3600000000)

/* add_servers -- of the URL, then where else the store was found. */
static sp_err add_servers(sp_redis *r, const sp_redis_address *a)
{
    uint16_t index;
    sp_redis_address at = *a;
    do {
        SP_TRY(sp_cluster_add(r, &at, &index));
        r->nodes.v[index]->waits = true;
    } while (sp_redis_next(&at));
    r->n_named = r->nodes.n;
    for (size_t i = 0; r->others && sp_redis_known_get(r->others, i, &at); i++) {
        SP_TRY(sp_cluster_add(r, &at, &index));
        if (i == 0 && index < r->n_named) r->alone = index;
    }
    return SP_OK;
}

sp_err sp_redis_new(const sp_redis_address *a, int64_t timeout_us, sp_redis_known *known, sp_redis **out)
{
    sp_redis *r = SP_NEW(sp_redis);
    if (!r) return sp_fail_nomem("a connection to redis");
    r->timeout_us = timeout_us;
    sp_slot_tags(r->tags);
    r->others = known;
    sp_err err = add_servers(r, a);
    if (err == SP_OK)
        *out = r;
    else
        sp_redis_free(r);
    return err;
}

void sp_redis_free(sp_redis *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->nodes.n; i++) sp_node_free(r->nodes.v[i]);
    sp_vec_fini(&r->nodes);
    sp_vec_fini(&r->polls);
    sp_free(r);
}

bool sp_redis_is_idle(const sp_redis *r)
{
    for (size_t i = 0; i < r->nodes.n; i++)
        if (sp_node_n_waiting(r->nodes.v[i]) && !r->nodes.v[i]->is_on_trial) return false;
    return true;
}

bool sp_redis_is_lost(const sp_redis *r)
{
    for (size_t i = 0; i < r->nodes.n; i++)
        if (sp_cluster_has(r, r->nodes.v[i]) && !sp_node_is_lost(r->nodes.v[i])) return false;
    return true;
}

sp_err sp_redis_connect(sp_redis *r)
{
    const bool again = r->stale && sp_clock_us() - r->asked_us > LEARN_AGAIN_US;
    if (r->known && !again) return SP_OK;
    if (!sp_redis_is_idle(r)) return SP_OK; /* later: it is known already */
    sp_err err = sp_cluster_learn(r);
    return r->known ? SP_OK : err; /* what was known still holds */
}

int sp_redis_n_parts(const sp_redis *r)
{
    return r->cluster ? SP_SLOT_PARTS : 1;
}

void sp_redis_tag(const sp_redis *r, unsigned hash, char out[SP_REDIS_TAG])
{
    out[0] = '\0';
    if (r->cluster) snprintf(out, SP_REDIS_TAG, "{%u}", r->tags[hash % SP_SLOT_PARTS]);
}

/* -- waiting ---------------------------------------------------------------------------------------- */

static bool is_awaited(const sp_redis *r, const sp_redis_node *n)
{
    return n->c && (n == r->ear || sp_node_n_waiting(n) || sp_node_wants_out(n));
}

void sp_redis_wait(sp_redis *r, int64_t us)
{
    const int64_t now = sp_clock_us();
    int64_t until = now + us;
    r->polls.n = 0;
    for (size_t i = 0; i < r->nodes.n; i++) {
        const sp_redis_node *n = r->nodes.v[i];
        if (!is_awaited(r, n)) continue;
        const short out = sp_node_wants_out(n) ? POLLOUT : 0;
        r->polls.v[r->polls.n++] = (struct pollfd){.fd = n->c->fd, .events = (short)(POLLIN | out)};
        if (sp_node_n_waiting(n)) until = SP_MIN(until, n->moved_us + n->timeout_us);
    }
    if (!r->polls.n) return;
    (void)poll(r->polls.v, r->polls.n, (int)(SP_MAX(until - now, 0) / 1000 + 1));
    for (size_t i = 0, k = 0; i < r->nodes.n; i++) {
        sp_redis_node *n = r->nodes.v[i];
        if (is_awaited(r, n)) sp_node_move(n, r->polls.v[k++].revents & (POLLIN | POLLERR | POLLHUP));
    }
}

/* -- commands --------------------------------------------------------------------------------------- */

sp_err sp_redis_push(sp_redis_node *n, const sp_redis_command *c, uint32_t id, int slot, sp_redis_aim aim)
{
    size_t sizes[SP_COUNT(c->sizes)];
    sp_redis_pending p = {.id = id, .slot = slot, .aim = aim};
    for (int i = 0; i < c->n; i++) sizes[i] = c->sizes[i] ? c->sizes[i] : strlen(c->words[i]);
    const int size = redisFormatCommandArgv(&p.text, c->n, (const char **)c->words, sizes);
    if (size < 0) return sp_fail(SP_E_NOMEM, "a command to redis");
    p.n = (size_t)size;
    sp_err err = sp_node_push(n, &p);
    if (err != SP_OK) redisFreeCommand(p.text);
    return err;
}

sp_err sp_redis_send(sp_redis *r, const sp_redis_command *c, uint32_t id)
{
    SP_TRY(sp_redis_connect(r));
    const char *key = c->anywhere ? NULL : c->words[1];
    const int slot = key ? sp_slot_of(key, strlen(key)) : -1;
    sp_err err = sp_redis_push(sp_cluster_node_of(r, slot), c, id, slot, SP_AIM_ANSWER);
    if (err == SP_E_IO) r->stale |= r->cluster;
    return err;
}

static sp_err refusal(const char *text)
{
    return sp_fail(strncmp(text, "OOM", 3) == 0 ? SP_E_LIMIT : SP_E_IO, "redis: %.160s", text);
}

/* take_answer -- of one node; false: it has none yet. */
static bool take_answer(sp_redis *r, sp_redis_node *n, sp_redis_answer *out)
{
    sp_redis_pending p;
    redisReply *reply;
    while (sp_node_pop(n, &p, &reply)) {
        const bool refused = reply && reply->type == REDIS_REPLY_ERROR;
        if (refused && sp_cluster_redirect(r, n, &p, reply->str)) {
            freeReplyObject(reply);
            continue;
        }
        *out = (sp_redis_answer){.id = p.id, .reply = refused ? NULL : reply};
        if (refused) out->err = refusal(reply->str);
        if (refused) freeReplyObject(reply);
        if (!reply) out->err = sp_fail(n->err, "%s", n->why);
        if (!reply) r->stale |= r->cluster;
        redisFreeCommand(p.text);
        return true;
    }
    return false;
}

bool sp_redis_receive(sp_redis *r, sp_redis_answer *out)
{
    for (;;) {
        for (size_t i = 0; i < r->nodes.n; i++, r->turn++)
            if (take_answer(r, r->nodes.v[r->turn % r->nodes.n], out)) return true;
        if (sp_redis_is_idle(r)) return false;
        sp_redis_wait(r, NO_LIMIT_US);
    }
}

static sp_err take_only(sp_redis *r, redisReply **out)
{
    sp_redis_answer a;
    if (!sp_redis_receive(r, &a)) return sp_fail(SP_E_IO, "redis: no reply to a command");
    *out = a.reply;
    return a.err;
}

sp_err sp_redis_ask_node(sp_redis *r, sp_redis_node *n, const sp_redis_command *c, redisReply **out)
{
    *out = NULL;
    SP_TRY(sp_redis_push(n, c, 0, -1, SP_AIM_ANSWER));
    return take_only(r, out);
}

sp_err sp_redis_call(sp_redis *r, const sp_redis_command *c, redisReply **out)
{
    *out = NULL;
    SP_TRY(sp_redis_send(r, c, 0));
    return take_only(r, out);
}

sp_err sp_redis_run(sp_redis *r, const sp_redis_command *c)
{
    redisReply *reply;
    SP_TRY(sp_redis_call(r, c, &reply));
    freeReplyObject(reply);
    return SP_OK;
}

sp_err sp_redis_run_both(sp_redis *r, const sp_redis_command *first, const sp_redis_command *second)
{
    sp_redis_answer a;
    SP_TRY(sp_redis_send(r, first, 0));
    sp_err err = sp_redis_send(r, second, 1);
    while (sp_redis_receive(r, &a)) {
        if (a.reply) freeReplyObject(a.reply);
        if (a.err != SP_OK) err = a.err;
    }
    return err;
}

/* -- scans ------------------------------------------------------------------------------------------ */

/* take_page -- the words of one reply, and the cursor of the next. */
static sp_err take_page(const redisReply *r, bool pairs, char cursor[24], sp_redis_each each, void *user)
{
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 || r->element[0]->type != REDIS_REPLY_STRING)
        return sp_fail(SP_E_IO, "redis: a malformed reply to SCAN");
    const redisReply *page = r->element[1];
    snprintf(cursor, 24, "%s", r->element[0]->str);
    for (size_t i = 0; i + pairs < page->elements; i += 1 + (size_t)pairs) {
        const redisReply *word = page->element[i], *value = page->element[i + pairs];
        if (word->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING) continue;
        SP_TRY(each(user, word->str, pairs ? value->str : NULL));
    }
    return SP_OK;
}

sp_err sp_redis_scan_hash(sp_redis *r, const char *key, sp_redis_each each, void *user)
{
    char cursor[24] = "0";
    do {
        redisReply *page;
        const sp_redis_command c = {.words = {"HSCAN", key, cursor, "COUNT", "1000"}, .n = 5};
        SP_TRY(sp_redis_call(r, &c, &page));
        sp_err err = take_page(page, true, cursor, each, user);
        freeReplyObject(page);
        if (err != SP_OK) return err;
    } while (strcmp(cursor, "0") != 0);
    return SP_OK;
}

static sp_err scan_node(sp_redis *r, sp_redis_node *n, const char *pattern, sp_redis_each each, void *user)
{
    char cursor[24] = "0";
    do {
        redisReply *page;
        const sp_redis_command c = {.words = {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}, .n = 6};
        SP_TRY(sp_redis_ask_node(r, n, &c, &page));
        sp_err err = take_page(page, false, cursor, each, user);
        freeReplyObject(page);
        if (err != SP_OK) return err;
    } while (strcmp(cursor, "0") != 0);
    return SP_OK;
}

sp_err sp_redis_scan_keys(sp_redis *r, const char *pattern, sp_redis_each each, void *user)
{
    SP_TRY(sp_redis_connect(r));
    for (size_t i = 0; i < r->nodes.n; i++)
        if (sp_cluster_has(r, r->nodes.v[i])) SP_TRY(scan_node(r, r->nodes.v[i], pattern, each, user));
    return SP_OK;
}
