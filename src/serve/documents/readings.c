/* readings.c -- who reads registered texts for requests that are not submitted yet. From their submission on the
 * context knows them by their segments (erase.c). */
#include <pthread.h>
#include <stdlib.h>
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

static uint64_t number_of(const char *text)
{
    return sp_hash64(text, strlen(text));
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

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void sp_documents_narrow_reading(sp_documents_reading *r, const sp_hits *texts)
{
    if (!r || !r->of || !texts) return;
    const size_t n = (size_t)texts->n;
    uint64_t *v = sp_alloc(n + 1, sizeof *v), *old;
    if (!v) return;
    for (size_t i = 0; i < n; i++) v[i] = number_of(texts->v[i].text);
    qsort(v, n, sizeof *v, by_number);
    pthread_mutex_lock(&r->of->readings.lock);
    old = r->texts;
    r->texts = v;
    r->n_texts = n;
    pthread_mutex_unlock(&r->of->readings.lock);
    sp_free(old);
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
    sp_free(r->texts);
    *r = (sp_documents_reading){0};
}

uint64_t sp_readings_begun(sp_readings *r)
{
    pthread_mutex_lock(&r->lock);
    const uint64_t n = r->n_begun;
    pthread_mutex_unlock(&r->lock);
    return n;
}

static bool may_have(const sp_documents_reading *r, const sp_hits *texts)
{
    bool some = !r->texts;
    for (int i = 0; i < texts->n && !some; i++) {
        const uint64_t text = number_of(texts->v[i].text);
        some = bsearch(&text, r->texts, r->n_texts, sizeof text, by_number) != NULL;
    }
    return some;
}

int64_t sp_readings_among(sp_readings *r, const char *tenant, uint64_t n, const sp_hits *texts)
{
    const uint64_t number = tenant ? number_of(tenant) : 0;
    int64_t among = 0;
    pthread_mutex_lock(&r->lock);
    for (const sp_documents_reading *at = r->first; at && at->number < n; at = at->next)
        among += (!tenant || at->tenant == number) && may_have(at, texts);
    pthread_mutex_unlock(&r->lock);
    return among;
}
