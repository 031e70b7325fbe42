#include "store/remote/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/remote/tls.h"

enum { PORT = 6379 };

/* -- URLs ----------------------------------------------------------------------------------------- */

static int hex_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* decode -- n bytes with %XX into out[size]; false: too long, or no such escape. */
static bool decode(const char *from, size_t n, char *out, size_t size)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)from[i];
        if (c == '%') {
            if (i + 2 >= n || hex_of(from[i + 1]) < 0 || hex_of(from[i + 2]) < 0) return false;
            c = hex_of(from[i + 1]) * 16 + hex_of(from[i + 2]);
            i += 2;
        }
        if (k + 1 >= size || c == 0) return false;
        out[k++] = (char)c;
    }
    out[k] = '\0';
    return true;
}

/* take_number -- parses all of the text; false: it is not a number within the limits. */
static bool take_number(const char *text, size_t n, int least, int most, int *out)
{
    char *end, digits[12];
    if (n == 0 || n >= sizeof digits || text[0] < '0' || text[0] > '9') return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    long v = strtol(digits, &end, 10);
    *out = (int)v;
    return *end == '\0' && v >= least && v <= most;
}

/* take_login -- "user:password", ":password" or "password" before the @. */
static bool take_login(const char *text, size_t n, sp_redis_address *out)
{
    const char *colon = memchr(text, ':', n);
    const size_t n_user = colon ? (size_t)(colon - text) : 0;
    const char *password = colon ? colon + 1 : text;
    return decode(text, n_user, out->user, sizeof out->user) &&
           decode(password, n - (size_t)(password - text), out->password, sizeof out->password);
}

sp_err sp_redis_parse(const char *url, sp_redis_address *out)
{
    const bool tls = strncmp(url, "rediss://", 9) == 0;
    *out = (sp_redis_address){.port = PORT, .tls = tls};
    if (!tls && strncmp(url, "redis://", 8) != 0)
        return sp_fail(SP_E_ARG,
                       "a remote tier is redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// with TLS");
    const char *rest = url + 8 + tls, *slash = strchr(rest, '/');
    const char *end = slash ? slash : rest + strlen(rest), *at = end;
    while (at > rest && *at != '@') at--;
    if (*at == '@' && !take_login(rest, (size_t)(at - rest), out))
        return sp_fail(SP_E_ARG, "redis://: the user or the password is too long, or has a wrong %%XX");
    const char *host = *at == '@' ? at + 1 : rest, *colon = memchr(host, ':', (size_t)(end - host));
    if (!decode(host, (size_t)((colon ? colon : end) - host), out->host, sizeof out->host) || !*out->host)
        return sp_fail(SP_E_ARG, "redis://: there is no host");
    if (colon && !take_number(colon + 1, (size_t)(end - colon - 1), 1, 65535, &out->port))
        return sp_fail(SP_E_ARG, "redis://%s: the port is no number between 1 and 65535", out->host);
    if (slash && slash[1] && !take_number(slash + 1, strlen(slash + 1), 0, 1 << 20, &out->database))
        return sp_fail(SP_E_ARG, "redis://%s: the database is no number", out->host);
    return SP_OK;
}

/* -- commands --------------------------------------------------------------------------------------- */

sp_err sp_redis_append(redisContext *c, const sp_redis_command *command)
{
    size_t sizes[SP_COUNT(command->sizes)];
    for (int i = 0; i < command->n; i++) sizes[i] = command->sizes[i] ? command->sizes[i] : strlen(command->words[i]);
    if (redisAppendCommandArgv(c, command->n, (const char **)command->words, sizes) == REDIS_OK) return SP_OK;
    return sp_fail(SP_E_NOMEM, "redis: %s", c->errstr);
}

sp_err sp_redis_next(redisContext *c, redisReply **out)
{
    void *reply = NULL;
    *out = NULL;
    if (redisGetReply(c, &reply) != REDIS_OK || !reply)
        return sp_fail(SP_E_IO, "redis: %s", c->err ? c->errstr : "no reply");
    redisReply *r = reply;
    if (r->type != REDIS_REPLY_ERROR) {
        *out = r;
        return SP_OK;
    }
    bool full = strncmp(r->str, "OOM", 3) == 0;
    sp_err err = sp_fail(full ? SP_E_LIMIT : SP_E_IO, "redis: %.160s", r->str);
    freeReplyObject(r);
    return err;
}

sp_err sp_redis_call(redisContext *c, const sp_redis_command *command, redisReply **out)
{
    *out = NULL;
    SP_TRY(sp_redis_append(c, command));
    return sp_redis_next(c, out);
}

sp_err sp_redis_run(redisContext *c, const sp_redis_command *command)
{
    redisReply *r;
    SP_TRY(sp_redis_call(c, command, &r));
    freeReplyObject(r);
    return SP_OK;
}

/* take_page -- the words of one reply. */
static sp_err take_page(const redisReply *page, bool pairs, sp_err (*each)(void *, const char *, const char *),
                        void *user)
{
    for (size_t i = 0; i + pairs < page->elements; i += 1 + (size_t)pairs) {
        const redisReply *word = page->element[i], *value = page->element[i + pairs];
        if (word->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING) continue;
        SP_TRY(each(user, word->str, pairs ? value->str : NULL));
    }
    return SP_OK;
}

sp_err sp_redis_scan(redisContext *c, const char *key, const char *pattern,
                     sp_err (*each)(void *user, const char *word, const char *value), void *user)
{
    char cursor[24] = "0";
    sp_err err = SP_OK;
    do {
        redisReply *r;
        const sp_redis_command hash = {.words = {"HSCAN", key, cursor, "COUNT", "1000"}, .n = 5};
        const sp_redis_command all = {.words = {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}, .n = 6};
        SP_TRY(sp_redis_call(c, key ? &hash : &all, &r));
        if (r->type == REDIS_REPLY_ARRAY && r->elements == 2 && r->element[0]->type == REDIS_REPLY_STRING) {
            snprintf(cursor, sizeof cursor, "%s", r->element[0]->str);
            err = take_page(r->element[1], key != NULL, each, user);
        } else {
            err = sp_fail(SP_E_IO, "redis: a reply to SCAN that is none");
        }
        freeReplyObject(r);
    } while (err == SP_OK && strcmp(cursor, "0") != 0);
    return err;
}

/* -- opening ---------------------------------------------------------------------------------------- */

static sp_err log_in(redisContext *c, const sp_redis_address *a)
{
    if (*a->user) return sp_redis_run(c, &(sp_redis_command){.words = {"AUTH", a->user, a->password}, .n = 3});
    return *a->password ? sp_redis_run(c, &(sp_redis_command){.words = {"AUTH", a->password}, .n = 2}) : SP_OK;
}

static sp_err select_database(redisContext *c, const sp_redis_address *a)
{
    char number[12];
    snprintf(number, sizeof number, "%d", a->database);
    return a->database ? sp_redis_run(c, &(sp_redis_command){.words = {"SELECT", number}, .n = 2}) : SP_OK;
}

sp_err sp_redis_open(const sp_redis_address *a, int64_t timeout_us, redisContext **out)
{
    const struct timeval limit = {.tv_sec = timeout_us / 1000000, .tv_usec = timeout_us % 1000000};
    int fd = -1;
    if (a->tls) SP_TRY(sp_tls_connect(a->host, a->port, a->ca_file, timeout_us, &fd));
    redisContext *c = a->tls ? redisConnectFd(fd) : redisConnectWithTimeout(a->host, a->port, limit);
    if (!c && a->tls) close(fd);
    if (!c) return sp_fail_nomem(sizeof *c, "a connection to redis");
    c->reader->maxbuf = 0; /* the reply buffer is kept: replies are megabytes and follow each other */
    sp_err err = c->err ? sp_fail(SP_E_IO, "redis at %s:%d: %s", a->host, a->port, c->errstr) : SP_OK;
    if (err == SP_OK && redisSetTimeout(c, limit) != REDIS_OK)
        err = sp_fail(SP_E_IO, "redis at %s:%d: %s", a->host, a->port, c->errstr);
    if (err == SP_OK) err = log_in(c, a);
    if (err == SP_OK) err = select_database(c, a);
    if (err == SP_OK)
        *out = c;
    else
        redisFree(c);
    return err;
}
