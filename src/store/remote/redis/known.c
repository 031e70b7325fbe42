#include "store/remote/redis/known.h"

#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"

typedef struct place {
    char host[256];
    int port;
} place;

struct sp_redis_known {
    pthread_mutex_t lock;
    SP_VEC(place) all;
};

sp_redis_known *sp_redis_known_new(void)
{
    sp_redis_known *k = SP_NEW(sp_redis_known);
    if (k) pthread_mutex_init(&k->lock, NULL);
    return k;
}

void sp_redis_known_free(sp_redis_known *k)
{
    if (!k) return;
    pthread_mutex_destroy(&k->lock);
    sp_vec_fini(&k->all);
    sp_free(k);
}

void sp_redis_known_set(sp_redis_known *k, const sp_redis_address *const *all, size_t n)
{
    pthread_mutex_lock(&k->lock);
    if (sp_vec_reserve(&k->all, n) == SP_OK) {
        for (size_t i = 0; i < n; i++) {
            snprintf(k->all.v[i].host, sizeof k->all.v[i].host, "%s", all[i]->host);
            k->all.v[i].port = all[i]->port;
        }
        k->all.n = n;
    }
    pthread_mutex_unlock(&k->lock);
}

bool sp_redis_known_get(sp_redis_known *k, size_t i, sp_redis_address *out)
{
    pthread_mutex_lock(&k->lock);
    const bool there = i < k->all.n;
    if (there) {
        snprintf(out->host, sizeof out->host, "%s", k->all.v[i].host);
        out->port = k->all.v[i].port;
    }
    pthread_mutex_unlock(&k->lock);
    return there;
}
