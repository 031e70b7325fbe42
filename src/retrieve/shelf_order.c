/* shelf_order.c -- a deletion also holds for what arrived before it. A registration takes a while until it is
 * published: its text is cut, and it waits for other calls. A deletion that passes it meanwhile finds nothing, or an
 * older text; if the registration was published afterwards, the document would appear although the client knows that
 * it is deleted. So registrations and deletions are numbered as they arrive, and a registration is refused if a later
 * deletion was first.
 *
 * Invariant: `deletions` has each one that is later than the oldest arrival, in the order of their transactions. */
#include "retrieve/shelf_int.h"

#include <string.h>

static uint64_t number_of(const char *text, size_t n)
{
    return sp_hash64(text, n);
}

void sp_shelf_order_init(sp_shelf_order *o)
{
    pthread_mutex_init(&o->lock, NULL);
    o->last = &o->first;
}

void sp_shelf_order_fini(sp_shelf_order *o)
{
    pthread_mutex_destroy(&o->lock);
    sp_vec_fini(&o->deletions);
}

void sp_shelf_arrive(sp_shelf *s, sp_documents_arrival *a)
{
    sp_shelf_order *o = &s->order;
    pthread_mutex_lock(&o->lock);
    a->number = o->n++;
    a->next = NULL;
    *o->last = a;
    o->last = &a->next;
    pthread_mutex_unlock(&o->lock);
}

/* forget -- deletions that no arrival is earlier than. Called with the lock held. */
static void forget(sp_shelf_order *o)
{
    size_t n = 0;
    for (size_t i = 0; o->first && i < o->deletions.n; i++)
        if (o->deletions.v[i].number > o->first->number) o->deletions.v[n++] = o->deletions.v[i];
    o->deletions.n = n;
}

void sp_shelf_depart(sp_shelf *s, sp_documents_arrival *a)
{
    sp_shelf_order *o = &s->order;
    pthread_mutex_lock(&o->lock);
    sp_documents_arrival **at = &o->first;
    while (*at != a) at = &(*at)->next;
    *at = a->next;
    if (!*at) o->last = at;
    if (at == &o->first) forget(o);
    pthread_mutex_unlock(&o->lock);
}

uint64_t sp_shelf_number(sp_shelf *s)
{
    pthread_mutex_lock(&s->order.lock);
    const uint64_t number = s->order.n++;
    pthread_mutex_unlock(&s->order.lock);
    return number;
}

sp_err sp_shelf_note_deletion(sp_shelf *s, uint64_t number, const char *tenant, const char *id)
{
    sp_shelf_order *o = &s->order;
    pthread_mutex_lock(&o->lock);
    const bool any = o->first && o->first->number < number;
    const sp_err err = any ? sp_vec_reserve(&o->deletions, 1) : SP_OK;
    if (any && err == SP_OK)
        o->deletions.v[o->deletions.n++] = (sp_shelf_deletion){
            number, number_of(tenant, strlen(tenant)), number_of(id, strlen(id))};
    pthread_mutex_unlock(&o->lock);
    return err;
}

sp_err sp_shelf_check_order(sp_shelf *s, const sp_shelf_row *r)
{
    sp_shelf_order *o = &s->order;
    const char *slash = strchr(r->id, '/');
    const uint64_t tenant = number_of(r->tenant, strlen(r->tenant)), id = number_of(r->id, strlen(r->id));
    const uint64_t collection = slash ? number_of(r->id, (size_t)(slash + 1 - r->id)) : id;
    bool deleted = false;
    pthread_mutex_lock(&o->lock);
    for (size_t i = 0; r->arrival && i < o->deletions.n; i++) {
        const sp_shelf_deletion *d = &o->deletions.v[i];
        deleted |= d->number > r->arrival->number && d->tenant == tenant && (d->id == id || d->id == collection);
    }
    pthread_mutex_unlock(&o->lock);
    return deleted ? sp_fail(SP_E_CANCELED, "document \"%.200s\" was deleted while it was being registered", r->id)
                   : SP_OK;
}
