/* pace.h -- the server's throughput, and when a refused client should retry. Time is passed in. Thread: any. */
#ifndef SP_SERVER_HTTP_PACE_H
#define SP_SERVER_HTTP_PACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SRV_RETRY_MOST 60 /* seconds */

typedef struct srv_pace {
    pthread_mutex_t lock;   /* guards the following */
    int n_open;             /* requests in the library */
    int64_t open_tokens;    /* of their prompts */
    int64_t since_us;       /* when the last request ended, or the first one after an idle time began */
    double seconds, tokens; /* of finished requests; older ones count less */
} srv_pace;

void srv_pace_init(srv_pace *p);
void srv_pace_fini(srv_pace *p);
/* srv_pace_begin, srv_pace_end -- a request with a prompt of n tokens is submitted, and ends; answered: it
 * was not canceled and did not fail. */
void srv_pace_begin(srv_pace *p, int n, int64_t now_us);
void srv_pace_end(srv_pace *p, int n, bool answered, int64_t now_us);
/* srv_pace_retry -- seconds until the current requests are done at the present pace: 1 to SRV_RETRY_MOST; 1 before
 * anything has been measured. */
int srv_pace_retry(srv_pace *p);

#endif
