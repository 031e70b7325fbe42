/* limits.h -- limits of an API key, so that none starves the others: places in the queue, and requests and tokens a
 * minute.
 *
 * Places: `n_places` requests may run or wait. Half of the places are reserved, the same number for each key; a key
 * that needs more uses places that are neither taken nor reserved. So a key that floods the server leaves every other
 * key its places.
 * A minute: a token bucket, refilled continuously. Prompts are charged when they start, answers when they end, so the
 * bucket may be overdrawn by one answer.
 * Time is passed in. Thread: any. */
#ifndef SP_SERVER_HTTP_LIMITS_H
#define SP_SERVER_HTTP_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SRV_SALT_SIZE     65 /* 64 hexadecimal digits and NUL */
#define SRV_KEY_NAME_SIZE 49

/* Of a key; 0: no limit. */
typedef struct srv_limits {
    int64_t requests, tokens; /* a minute */
    int64_t documents, bytes; /* registered ones, and of their texts */
} srv_limits;

/* The owner of a request. */
typedef struct srv_tenant {
    char salt[SRV_SALT_SIZE]; /* "": no key is needed */
    char name[SRV_KEY_NAME_SIZE];
    bool may_priority; /* its priorities apply across all keys */
    srv_limits limits;
} srv_tenant;

typedef enum srv_verdict {
    SRV_ADMITTED,
    SRV_NO_PLACE,
    SRV_TOO_MANY_REQUESTS,
    SRV_TOO_MANY_TOKENS,
    SRV_TOO_LONG, /* more tokens than a minute's allowance */
} srv_verdict;

/* What is left, for the reply's headers. */
typedef struct srv_left {
    srv_limits limits;
    int64_t requests, tokens;        /* until they are refused */
    double requests_full_s, tokens_full_s; /* until the bucket is full */
    double retry_s;                  /* after a refusal: until the request may be repeated */
} srv_left;

typedef struct srv_quotas srv_quotas;
typedef struct srv_account srv_account;

/* srv_quotas_open -- NULL: out of memory. */
srv_quotas *srv_quotas_open(int n_places);
void srv_quotas_close(srv_quotas *q); /* NULL is allowed */

/* srv_quotas_enter -- a request: takes a place, and counts. *place is set when it is admitted; n_tenants: keys that
 * share the places. */
srv_verdict srv_quotas_enter(srv_quotas *q, const srv_tenant *t, size_t n_tenants, int64_t now_us,
                             srv_account **place, srv_left *left);
/* srv_quotas_prompt -- charges the tokens of its prompts, unless it is refused. */
srv_verdict srv_quotas_prompt(srv_quotas *q, srv_account *place, int64_t n, int64_t now_us,
                              srv_left *left);
/* srv_quotas_answer -- charges generated tokens. */
void srv_quotas_answer(srv_quotas *q, srv_account *place, int64_t n, int64_t now_us);
/* srv_quotas_more -- takes n more places for an admitted request, even if none are free. */
void srv_quotas_more(srv_quotas *q, srv_account *place, int n);
/* srv_quotas_leave -- releases n places. */
void srv_quotas_leave(srv_quotas *q, srv_account *place, int n);

#endif
