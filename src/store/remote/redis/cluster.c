/* cluster.c -- which server has which slot: asked when it is first needed, and after whatever shows that it has
 * changed: MOVED, CLUSTERDOWN, a server that fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/remote/redis/redis_int.h"

/* -- the servers ------------------------------------------------------------------------------------ */

sp_err sp_cluster_add(sp_redis *r, const sp_redis_address *a, uint16_t *index)
{
    for (size_t i = 0; i < r->nodes.n; i++) {
        const sp_redis_address *has = &r->nodes.v[i]->address;
        *index = (uint16_t)i;
        if (has->port == a->port && strcmp(has->host, a->host) == 0) return SP_OK;
    }
    if (r->nodes.n >= SP_NO_NODE) return sp_fail(SP_E_LIMIT, "redis: a cluster of more than %d servers", SP_NO_NODE);
    SP_TRY(sp_vec_reserve(&r->nodes, 1));
    SP_TRY(sp_vec_reserve(&r->polls, r->nodes.n + 1 - r->polls.n));
    sp_redis_node *n = sp_node_new(a, r->timeout_us);
    if (!n) return sp_fail_nomem("a connection to redis");
    *index = (uint16_t)r->nodes.n;
    r->nodes.v[r->nodes.n++] = n;
    return SP_OK;
}

static bool has_slots(const sp_redis *r, size_t index)
{
    for (int s = 0; s < SP_SLOTS; s++)
        if (r->owner[s] == index) return true;
    return false;
}

bool sp_cluster_has(const sp_redis *r, const sp_redis_node *n)
{
    if (!r->cluster) return r->nodes.v[r->alone] == n;
    for (size_t i = 0; i < r->nodes.n; i++)
        if (r->nodes.v[i] == n) return has_slots(r, i);
    return false;
}

/* drop_node -- the last one takes its index. */
static void drop_node(sp_redis *r, size_t index)
{
    const size_t last = --r->nodes.n;
    sp_node_free(r->nodes.v[index]);
    r->nodes.v[index] = r->nodes.v[last];
    for (int s = 0; s < SP_SLOTS; s++)
        if (r->owner[s] == last) r->owner[s] = (uint16_t)index;
}

/* drop_strangers -- the servers that have no slots any more; those of the URL are closed. */
static void drop_strangers(sp_redis *r)
{
    for (size_t i = r->nodes.n; i-- > 0;) {
        if (r->nodes.v[i] == r->ear || has_slots(r, i)) continue;
        if (i < r->n_named)
            sp_node_close(r->nodes.v[i]);
        else
            drop_node(r, i);
    }
}

/* note_servers -- for connections to come. */
static void note_servers(const sp_redis *r)
{
    SP_VEC(const sp_redis_address *) all = {0};
    if (!r->others || sp_vec_reserve(&all, r->nodes.n) != SP_OK) return;
    for (size_t i = 0; i < r->nodes.n; i++)
        if (sp_cluster_has(r, r->nodes.v[i])) all.v[all.n++] = &r->nodes.v[i]->address;
    sp_redis_known_set(r->others, all.v, all.n);
    sp_vec_fini(&all);
}

/* -- CLUSTER SLOTS ---------------------------------------------------------------------------------- */

/* read_range -- [first, last, [host, port, ...], replicas ...]; a host that is not named is that of the server that
 * says so. */
static sp_err read_range(sp_redis *r, const sp_redis_node *says, const redisReply *range, uint16_t owner[SP_SLOTS])
{
    uint16_t index;
    sp_redis_address a = says->address;
    const redisReply *const *e = (const redisReply *const *)range->element;
    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 || e[0]->type != REDIS_REPLY_INTEGER ||
        e[1]->type != REDIS_REPLY_INTEGER || e[2]->type != REDIS_REPLY_ARRAY || e[2]->elements < 2 ||
        e[2]->element[1]->type != REDIS_REPLY_INTEGER)
        return sp_fail(SP_E_IO, "redis: a malformed reply to CLUSTER SLOTS");
    const redisReply *host = e[2]->element[0];
    const long long first = e[0]->integer, last = e[1]->integer, port = e[2]->element[1]->integer;
    if (first < 0 || last >= SP_SLOTS || port < 1 || port > 65535 || (host->str && host->len >= sizeof a.host))
        return sp_fail(SP_E_IO, "redis: a malformed reply to CLUSTER SLOTS");
    if (host->type == REDIS_REPLY_STRING && *host->str && strcmp(host->str, "?") != 0)
        snprintf(a.host, sizeof a.host, "%s", host->str);
    a.port = (int)port;
    SP_TRY(sp_cluster_add(r, &a, &index));
    for (long long s = first; s <= last; s++) owner[s] = index;
    return SP_OK;
}

static sp_err read_slots(sp_redis *r, const sp_redis_node *says, const redisReply *reply)
{
    uint16_t owner[SP_SLOTS];
    memset(owner, 0xff, sizeof owner);
    if (reply->type != REDIS_REPLY_ARRAY || !reply->elements)
        return sp_fail(SP_E_IO, "redis at %s:%d: a cluster without slots", says->address.host, says->address.port);
    for (size_t i = 0; i < reply->elements; i++) SP_TRY(read_range(r, says, reply->element[i], owner));
    memcpy(r->owner, owner, sizeof owner);
    r->cluster = true;
    drop_strangers(r);
    note_servers(r);
    return SP_OK;
}

/* be_alone -- the node belongs to no cluster, or to a kind that has none. */
static sp_err be_alone(sp_redis *r, size_t index)
{
    r->cluster = false;
    r->alone = index;
    note_servers(r);
    return SP_OK;
}

/* check_alone -- of a server that does not say it: whether it serves every slot that is asked for. */
static sp_err check_alone(sp_redis *r, size_t index)
{
    char key[24];
    sp_redis_node *n = r->nodes.v[index];
    r->cluster = false;
    for (int part = 0; part < SP_SLOT_PARTS; part += SP_SLOT_PARTS / 8) {
        redisReply *reply;
        snprintf(key, sizeof key, "SPOLIA:{%u}", r->tags[part]);
        sp_err err = sp_redis_ask_node(r, n, &(sp_redis_command){.words = {"EXISTS", key}, .n = 2}, &reply);
        freeReplyObject(reply);
        if (err != SP_OK && strstr(sp_error_detail(), "redis: MOVED"))
            return sp_fail(SP_E_IO, "redis at %s:%d belongs to a cluster: its user must be allowed cluster|slots",
                           n->address.host, n->address.port);
    }
    return n->c ? be_alone(r, index) : sp_fail(n->err, "%s", n->why);
}

/* ask_slots -- one server. */
static sp_err ask_slots(sp_redis *r, size_t index)
{
    redisReply *reply;
    sp_redis_node *n = r->nodes.v[index];
    sp_err err = sp_redis_ask_node(r, n, &(sp_redis_command){.words = {"CLUSTER", "SLOTS"}, .n = 2}, &reply);
    const char *why = err == SP_OK ? "" : sp_error_detail();
    if (n->c && strstr(why, "redis: NOPERM")) return check_alone(r, index);
    if (n->c && strstr(why, "redis: ERR")) return be_alone(r, index);
    if (err == SP_OK) err = read_slots(r, n, reply);
    freeReplyObject(reply);
    return err;
}

sp_err sp_cluster_learn(sp_redis *r)
{
    sp_err err = SP_OK;
    const size_t n_nodes = r->nodes.n; /* the first to be asked: one that is known to have answered */
    const size_t first = n_nodes > r->n_named ? r->n_named : r->alone;
    r->asked_us = sp_clock_us();
    for (size_t k = 0; k < 2 * n_nodes; k++) { /* first those that are connected */
        const size_t i = (first + k) % n_nodes;
        const sp_redis_node *n = r->nodes.v[i];
        if (n == r->ear || (n->c != NULL) != (k < n_nodes)) continue;
        err = ask_slots(r, i);
        if (err != SP_OK) continue;
        r->known = true;
        r->stale = false;
        return SP_OK;
    }
    return err;
}

/* -- where commands go ------------------------------------------------------------------------------ */

/* any_node -- one that has slots and is not lost, if there is one: it knows who has the others. */
static size_t any_node(const sp_redis *r)
{
    size_t index = 0;
    while (index + 1 < r->nodes.n && (!has_slots(r, index) || sp_node_is_lost(r->nodes.v[index]))) index++;
    return index;
}

sp_redis_node *sp_cluster_node_of(sp_redis *r, int slot)
{
    if (!r->cluster) return r->nodes.v[r->alone];
    const size_t owner = slot < 0 ? SP_NO_NODE : r->owner[slot];
    r->stale |= slot >= 0 && owner == SP_NO_NODE;
    return r->nodes.v[owner < r->nodes.n ? owner : any_node(r)];
}

/* read_target -- of "MOVED 1234 host:port". */
static bool read_target(const char *error, const sp_redis_node *from, int *slot, sp_redis_address *out)
{
    char *end;
    const char *number = strchr(error, ' ');
    const long s = number ? strtol(number, &end, 10) : -1;
    if (s < 0 || s >= SP_SLOTS || *end != ' ') return false;
    const char *host = end + 1, *colon = strrchr(host, ':');
    const long port = colon ? strtol(colon + 1, &end, 10) : 0;
    if (port < 1 || port > 65535 || *end || (size_t)(colon - host) >= sizeof out->host) return false;
    *out = from->address;
    *slot = (int)s;
    out->port = (int)port;
    if (colon > host && *host != '?') snprintf(out->host, sizeof out->host, "%.*s", (int)(colon - host), host);
    return true;
}

bool sp_cluster_redirect(sp_redis *r, const sp_redis_node *from, const sp_redis_pending *p, const char *error)
{
    const bool moved = strncmp(error, "MOVED ", 6) == 0, ask = strncmp(error, "ASK ", 4) == 0;
    sp_redis_pending again = *p;
    sp_redis_address to;
    uint16_t index;
    int slot;
    if (strncmp(error, "CLUSTERDOWN", 11) == 0) r->stale = true;
    if (!moved && !ask) return false;
    r->stale = true;
    if (!r->cluster || p->hops >= SP_MOST_HOPS || !read_target(error, from, &slot, &to)) return false;
    if (sp_cluster_add(r, &to, &index) != SP_OK) return false;
    if (moved) r->owner[slot] = index;
    sp_redis_node *n = r->nodes.v[index];
    if (ask && sp_redis_push(n, &(sp_redis_command){.words = {"ASKING"}, .n = 1}, 0, -1, SP_AIM_NONE) != SP_OK)
        return false;
    again.hops++;
    return sp_node_push(n, &again) == SP_OK;
}
