/* readings.c -- who reads registered texts for requests that are not submitted yet. From their submission on the
 * context knows them by their segments (erase.c). */
#include <pthread.h>
#include <string.h>

#include "base/need.h"
#include "serve/documents/documents_int.h"

void sp_readings_init(sp_readings *r)
{
    pthread_mutex_init(&r->lock, NULL);
    r->last = &r->first;
}

void sp_readings_fini(sp_readings *r)
{
    pthread_mutex_destroy(&r->lock);
}

static uint64_t number_of(const char *tenant)
{
    return sp_hash64(tenant, strlen(tenant));
}

sp_err sp_documents_begin_reading(sp_documents *d, const char *salt, sp_documents_reading *r)
{
    char tenant[SP_TENANT_BYTES];
    SP_NEED(d);
    SP_NEED(r);
    *r = (sp_documents_reading){0};
    SP_TRY(sp_tenant_name(salt, tenant));
    *r = (sp_documents_reading){.of = d, .tenant = number_of(tenant)};
    pthread_mutex_lock(&d->readings.lock);
    r->number = d->readings.n_begun++;
    *d->readings.last = r;
    d->readings.last = &r->next;
    pthread_mutex_unlock(&d->readings.lock);
    return SP_OK;
}

void sp_documents_end_reading(sp_documents_reading *r)
{
    if (!r || !r->of) return;
    sp_readings *all = &r->of->readings;
    pthread_mutex_lock(&all->lock);
    sp_documents_reading **at = &all->first;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    if (!*at) all->last = at;
    pthread_mutex_unlock(&all->lock);
    r->of = NULL;
}

uint64_t sp_readings_begun(sp_readings *r)
{
    pthread_mutex_lock(&r->lock);
    const uint64_t n = r->n_begun;
    pthread_mutex_unlock(&r->lock);
    return n;
}

int64_t sp_readings_among(sp_readings *r, const char *tenant, uint64_t n)
{
    const uint64_t number = tenant ? number_of(tenant) : 0;
    int64_t among = 0;
    pthread_mutex_lock(&r->lock);
    for (const sp_documents_reading *at = r->first; at && at->number < n; at = at->next)
        among += !tenant || at->tenant == number;
    pthread_mutex_unlock(&r->lock);
    return among;
}
