#include "server/http/limits.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The rest of a minute's allowance. */
typedef struct bucket {
    double left;
    int64_t at_us; /* when `left` was counted; 0: never */
} bucket;

/* Kept until the end: there are as many as keys have been used. */
struct srv_account {
    srv_account *next;
    char salt[SRV_SALT_SIZE];
    srv_limits limits;
    int n_taken; /* places */
    bucket requests, tokens;
};

struct srv_quotas {
    int n_places;
    pthread_mutex_t lock; /* guards the following, and accounts */
    srv_account *first;
    int n_taken;
    size_t n_accounts;
};

srv_quotas *srv_quotas_open(int n_places)
{
    srv_quotas *q = calloc(1, sizeof *q);
    if (!q) return NULL;
    q->n_places = n_places;
    pthread_mutex_init(&q->lock, NULL);
    return q;
}

void srv_quotas_close(srv_quotas *q)
{
    if (!q) return;
    for (srv_account *a = q->first, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    pthread_mutex_destroy(&q->lock);
    free(q);
}

/* account_of -- with the current limits: the keys may have been reloaded. NULL: out of memory. */
static srv_account *account_of(srv_quotas *q, const srv_tenant *t)
{
    srv_account *a = q->first;
    while (a && strcmp(a->salt, t->salt) != 0) a = a->next;
    if (!a) {
        a = calloc(1, sizeof *a);
        if (!a) return NULL;
        memcpy(a->salt, t->salt, sizeof a->salt);
        a->next = q->first;
        q->first = a;
        q->n_accounts++;
    }
    a->limits = t->limits;
    return a;
}

/* -- buckets; lock is held --------------------------------------------------------------------- */

/* refill -- without a limit nothing is counted: one that a reload brings begins with a full minute. */
static void refill(bucket *b, int64_t a_minute, int64_t now_us)
{
    if (a_minute == 0) {
        *b = (bucket){0};
        return;
    }
    if (b->at_us == 0)
        b->left = (double)a_minute;
    else
        b->left += (double)(now_us - b->at_us) / 60e6 * (double)a_minute;
    if (b->left > (double)a_minute) b->left = (double)a_minute;
    b->at_us = now_us;
}

/* until -- seconds until a bucket has n. */
static double until(const bucket *b, int64_t a_minute, double n)
{
    return a_minute && b->left < n ? (n - b->left) / (double)a_minute * 60 : 0;
}

static int64_t whole(double left)
{
    return left > 0 ? (int64_t)left : 0;
}

static void report(const srv_account *a, srv_left *out)
{
    *out = (srv_left){.limits = a->limits,
                      .requests = whole(a->requests.left),
                      .tokens = whole(a->tokens.left),
                      .requests_full_s =
                          until(&a->requests, a->limits.requests, (double)a->limits.requests),
                      .tokens_full_s = until(&a->tokens, a->limits.tokens, (double)a->limits.tokens)};
}

static void refill_both(srv_account *a, int64_t now_us)
{
    refill(&a->requests, a->limits.requests, now_us);
    refill(&a->tokens, a->limits.tokens, now_us);
}

/* -- places; lock is held ---------------------------------------------------------------------- */

/* has_place -- whether the key has a place of its own, or one is neither taken nor reserved for another key. */
static bool has_place(const srv_quotas *q, const srv_account *a, size_t n_tenants)
{
    size_t n_keys = n_tenants > q->n_accounts ? n_tenants : q->n_accounts;
    if (n_keys <= 1) return q->n_taken < q->n_places;
    int own = (int)((size_t)q->n_places / (2 * n_keys));
    if (own < 1) own = 1;
    if (a->n_taken < own) return true;
    int64_t reserved = (int64_t)(n_keys - q->n_accounts) * own; /* for others: the key has taken its own */
    for (const srv_account *o = q->first; o; o = o->next)
        if (o->n_taken < own) reserved += own - o->n_taken;
    return q->n_taken + reserved < q->n_places;
}

/* -- requests ---------------------------------------------------------------------------------- */

static srv_verdict enter(srv_quotas *q, srv_account *a, size_t n_tenants, srv_left *left)
{
    if (a->limits.requests && a->requests.left < 1) {
        left->retry_s = until(&a->requests, a->limits.requests, 1);
        return SRV_TOO_MANY_REQUESTS;
    }
    if (a->limits.tokens && a->tokens.left < 1) {
        left->retry_s = until(&a->tokens, a->limits.tokens, 1);
        return SRV_TOO_MANY_TOKENS;
    }
    if (!has_place(q, a, n_tenants)) return SRV_NO_PLACE;
    a->requests.left -= 1;
    a->n_taken++;
    q->n_taken++;
    return SRV_ADMITTED;
}

srv_verdict srv_quotas_enter(srv_quotas *q, const srv_tenant *t, size_t n_tenants, int64_t now_us,
                             srv_account **place, srv_left *left)
{
    srv_verdict v = SRV_NO_PLACE;
    *left = (srv_left){0};
    pthread_mutex_lock(&q->lock);
    srv_account *a = account_of(q, t);
    if (a) {
        refill_both(a, now_us);
        v = enter(q, a, n_tenants, left);
        double retry_s = left->retry_s;
        report(a, left);
        left->retry_s = retry_s;
    }
    pthread_mutex_unlock(&q->lock);
    if (v == SRV_ADMITTED) *place = a;
    return v;
}

srv_verdict srv_quotas_prompt(srv_quotas *q, srv_account *a, int64_t n, int64_t now_us,
                              srv_left *left)
{
    srv_verdict v = SRV_ADMITTED;
    double retry_s = 0;
    pthread_mutex_lock(&q->lock);
    refill_both(a, now_us);
    if (a->limits.tokens && n > a->limits.tokens) {
        v = SRV_TOO_LONG;
    } else if (a->limits.tokens && (double)n > a->tokens.left) {
        v = SRV_TOO_MANY_TOKENS;
        retry_s = until(&a->tokens, a->limits.tokens, (double)n);
    } else {
        a->tokens.left -= (double)n;
    }
    report(a, left);
    left->retry_s = retry_s;
    pthread_mutex_unlock(&q->lock);
    return v;
}

void srv_quotas_answer(srv_quotas *q, srv_account *a, int64_t n, int64_t now_us)
{
    pthread_mutex_lock(&q->lock);
    refill_both(a, now_us);
    a->tokens.left -= (double)n;
    pthread_mutex_unlock(&q->lock);
}

void srv_quotas_more(srv_quotas *q, srv_account *a, int n)
{
    pthread_mutex_lock(&q->lock);
    a->n_taken += n;
    q->n_taken += n;
    pthread_mutex_unlock(&q->lock);
}

void srv_quotas_leave(srv_quotas *q, srv_account *a, int n)
{
    srv_quotas_more(q, a, -n);
}
