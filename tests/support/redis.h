/* redis.h -- a redis-server of its own for a test, on a free port of this machine. */
#ifndef SP_TESTS_REDIS_H
#define SP_TESTS_REDIS_H

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/remote/redis/redis.h"
#include "support/check.h"

typedef struct redis {
    pid_t pid; /* 0: redis-server is not installed */
    int port;
    char url[96];
} redis;

/* free_port -- not one that the kernel gives to clients. Until this program ends no other test gets it: a socket that
 * does not listen stays bound to it, which keeps nobody out who sets SO_REUSEADDR, as servers do. */
static inline int free_port(void)
{
    static uint64_t seed;
    if (!seed) seed = (uint64_t)sp_clock_us() ^ (uint64_t)getpid() << 40;
    for (int i = 0; i < 10000; i++) {
        const int port = 15000 + (int)check_random(&seed, 17000);
        const struct sockaddr_in a = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                      .sin_port = htons((uint16_t)port)};
        const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
        if (bind(s, (const struct sockaddr *)&a, sizeof a) == 0 &&
            setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0)
            return port;
        close(s);
    }
    return 0;
}

/* redis_try -- one command, on a connection of its own. */
static inline sp_err redis_try(const redis *r, const sp_redis_command *command)
{
    sp_redis_address a;
    sp_redis *c;
    assert_ok(sp_redis_parse(r->url, &a));
    assert_ok(sp_redis_new(&a, 5000000, NULL, &c));
    sp_err err = sp_redis_run(c, command);
    sp_redis_free(c);
    return err;
}

/* redis_run -- at r->port; `option` and `value`: one more setting, or NULL. */
static inline void redis_run(redis *r, const char *option, const char *value)
{
    char port[12];
    snprintf(port, sizeof port, "%d", r->port);
    r->pid = fork();
    if (r->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails does not stop it, and its caller reads until all end */
        if (!freopen("/dev/null", "w", stdout)) _exit(1);
        execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
               "no", "--maxmemory-policy", "noeviction", option, value, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 15000; i++) {
        usleep(20000);
        if (waitpid(r->pid, NULL, WNOHANG) == r->pid) break; /* it could not start */
        if (redis_try(r, &(sp_redis_command){.words = {"PING"}, .n = 1, .anywhere = true}) == SP_OK) return;
    }
    r->pid = 0;
}

/* redis_start -- r.pid 0: there is no redis-server. The password is that of the URL. */
static inline redis redis_start(const char *password)
{
    redis r = {.port = free_port()};
    snprintf(r.url, sizeof r.url, "redis://%s%s%s127.0.0.1:%d/0", password ? ":" : "", password ? password : "",
             password ? "@" : "", r.port);
    redis_run(&r, password ? "--requirepass" : NULL, password);
    return r;
}

static inline void redis_stop(redis *r)
{
    if (!r->pid) return;
    kill(r->pid, SIGCONT);
    kill(r->pid, SIGKILL);
    waitpid(r->pid, NULL, 0);
    r->pid = 0;
}

/* redis_do -- a command of the test itself, its words separated by blanks. */
static inline void redis_do(const redis *r, const char *words)
{
    char text[512], *save = NULL;
    sp_redis_command c = {.anywhere = true};
    snprintf(text, sizeof text, "%s", words);
    for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) c.words[c.n++] = w;
    assert_ok(redis_try(r, &c));
}

#endif
