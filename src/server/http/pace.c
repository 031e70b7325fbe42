#include "server/http/pace.h"

#define KEEP 0.9 /* weight of a request once the next one ends */

void srv_pace_init(srv_pace *p)
{
    *p = (srv_pace){0};
    pthread_mutex_init(&p->lock, NULL);
}

void srv_pace_fini(srv_pace *p)
{
    pthread_mutex_destroy(&p->lock);
}

void srv_pace_begin(srv_pace *p, int n, int64_t now_us)
{
    pthread_mutex_lock(&p->lock);
    if (p->n_open++ == 0) p->since_us = now_us; /* idle time is no work */
    p->open_tokens += n;
    pthread_mutex_unlock(&p->lock);
}

void srv_pace_end(srv_pace *p, int n, bool answered, int64_t now_us)
{
    pthread_mutex_lock(&p->lock);
    p->n_open--;
    p->open_tokens -= n;
    if (answered) {
        p->seconds = KEEP * p->seconds + (double)(now_us - p->since_us) / 1e6;
        p->tokens = KEEP * p->tokens + n;
        p->since_us = now_us;
    }
    pthread_mutex_unlock(&p->lock);
}

int srv_pace_retry(srv_pace *p)
{
    pthread_mutex_lock(&p->lock);
    double seconds = p->tokens > 0 ? (double)p->open_tokens * p->seconds / p->tokens : 0;
    pthread_mutex_unlock(&p->lock);
    if (seconds >= SRV_RETRY_MOST) return SRV_RETRY_MOST;
    int whole = (int)seconds;
    whole += seconds > whole;
    return whole < 1 ? 1 : whole;
}
