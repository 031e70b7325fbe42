/* cluster.h -- a cluster of redis-servers for a test. */
#ifndef SP_TESTS_CLUSTER_H
#define SP_TESTS_CLUSTER_H

#include <hiredis/hiredis.h>
#include <string.h>

#include "store/remote/redis/slots.h"
#include "support/redis.h"

enum { N_MASTERS = 3 };

typedef struct cluster {
    redis node[N_MASTERS];
    char id[N_MASTERS][48]; /* CLUSTER MYID */
} cluster;

/* cluster_ask -- a command to one server, which no redirection follows; the caller frees the reply. */
static inline redisReply *cluster_ask(const cluster *c, int node, const char *format, ...)
{
    va_list words;
    redisContext *r = redisConnect("127.0.0.1", c->node[node].port);
    assert_true(r && !r->err);
    va_start(words, format);
    redisReply *reply = redisvCommand(r, format, words);
    va_end(words);
    redisFree(r);
    assert_non_null(reply);
    return reply;
}

#define cluster_do(...)                                                                                               \
    do {                                                                                                              \
        redisReply *done_ = cluster_ask(__VA_ARGS__);                                                                 \
        if (done_->type == REDIS_REPLY_ERROR) fail_msg("%s", done_->str);                                             \
        freeReplyObject(done_);                                                                                       \
    } while (0)

/* cluster_is_ok -- node i says that all slots are served, and has a line to each other node: what is published
 * before is not passed on. */
static inline bool cluster_is_ok(const cluster *c, int i)
{
    redisReply *r = cluster_ask(c, i, "CLUSTER INFO"), *nodes = cluster_ask(c, i, "CLUSTER NODES");
    const bool ok = strstr(r->str, "cluster_state:ok") && strstr(r->str, "cluster_known_nodes:3") &&
                    strstr(r->str, "cluster_slots_assigned:16384") && !strstr(nodes->str, "disconnected") &&
                    !strstr(nodes->str, "handshake");
    freeReplyObject(r);
    freeReplyObject(nodes);
    return ok;
}

static inline bool cluster_run(redis *r)
{
    char port[12], bus[12];
    snprintf(port, sizeof port, "%d", r->port);
    snprintf(bus, sizeof bus, "%d", free_port());
    r->pid = fork();
    if (r->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!freopen("/dev/null", "w", stdout) || chdir("/tmp") != 0) _exit(1);
        char file[64];
        snprintf(file, sizeof file, "spolia-test-nodes-%s.conf", port);
        execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
               "no", "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-config-file", file,
               "--cluster-require-full-coverage", "no", "--cluster-node-timeout", "15000", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 15000; i++) {
        usleep(20000);
        if (waitpid(r->pid, NULL, WNOHANG) == r->pid) break;
        redisContext *c = redisConnect("127.0.0.1", r->port);
        const bool good = c && !c->err;
        if (c) redisFree(c);
        if (good) return true;
    }
    r->pid = 0;
    return false;
}

static inline void cluster_stop(cluster *c)
{
    char file[64];
    for (int i = 0; i < N_MASTERS; i++) {
        redis_stop(&c->node[i]);
        snprintf(file, sizeof file, "/tmp/spolia-test-nodes-%d.conf", c->node[i].port);
        unlink(file);
    }
}

/* cluster_start -- false: there is no redis-server. */
static inline bool cluster_start(cluster *c)
{
    *c = (cluster){0};
    for (int i = 0; i < N_MASTERS; i++) {
        redis *r = &c->node[i];
        r->port = free_port();
        snprintf(r->url, sizeof r->url, "redis://127.0.0.1:%d", r->port);
        if (!cluster_run(r)) return cluster_stop(c), false;
        const int first = i * SP_SLOTS / N_MASTERS, last = (i + 1) * SP_SLOTS / N_MASTERS - 1;
        cluster_do(c, i, "CLUSTER ADDSLOTSRANGE %d %d", first, last);
        redisReply *id = cluster_ask(c, i, "CLUSTER MYID");
        snprintf(c->id[i], sizeof c->id[i], "%s", id->str);
        freeReplyObject(id);
    }
    for (int i = 1; i < N_MASTERS; i++) { /* the bus is not at the usual port */
        redisReply *info = cluster_ask(c, i, "CONFIG GET cluster-port");
        cluster_do(c, 0, "CLUSTER MEET 127.0.0.1 %d %s", c->node[i].port, info->element[1]->str);
        freeReplyObject(info);
    }
    for (int i = 0; i < N_MASTERS; i++)
        for (int k = 0; k < 15000 && !cluster_is_ok(c, i); k++) usleep(20000);
    for (int i = 0; i < N_MASTERS; i++) assert_true(cluster_is_ok(c, i));
    return true;
}

#endif
