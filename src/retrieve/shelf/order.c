/* order.c -- a deletion also holds for what arrived before it, and of two registrations of one id the later one
 * stays. A registration takes a while until it is published: its text is cut, and it waits for other calls. A deletion
 * that passes it meanwhile finds nothing, or an older text; if the registration was published afterwards, the document
 * would appear although the client knows that it is deleted. A client that gives up a call and registers another text
 * would find the first one. So registrations and deletions are numbered as they arrive. A registration is refused if a
 * later deletion was first, and changes nothing if a later registration was.
 *
 * Invariant: `events` has each one that is later than the oldest arrival and whose transaction has ended, in the order
 * of their transactions. */
#include "retrieve/shelf/shelf_int.h"

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
    sp_vec_fini(&o->events);
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

/* forget -- events that no arrival is earlier than. Called with the lock held. */
static void forget(sp_shelf_order *o)
{
    size_t n = 0;
    for (size_t i = 0; o->first && i < o->events.n; i++)
        if (o->events.v[i].number > o->first->number) o->events.v[n++] = o->events.v[i];
    o->events.n = n;
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

sp_shelf_event sp_shelf_event_of(uint64_t number, const char *tenant, const char *id)
{
    return (sp_shelf_event){.number = number,
                            .tenant = number_of(tenant, strlen(tenant)),
                            .id = number_of(id, strlen(id))};
}

/* is_later -- than something that has not departed. */
static bool is_later(const sp_shelf_order *o, const sp_shelf_event *e)
{
    return o->first && o->first->number < e->number;
}

sp_err sp_shelf_make_room(sp_shelf *s, const sp_shelf_event *e)
{
    sp_shelf_order *o = &s->order;
    pthread_mutex_lock(&o->lock);
    const sp_err err = is_later(o, e) ? sp_vec_reserve(&o->events, 1) : SP_OK;
    pthread_mutex_unlock(&o->lock);
    return err;
}

void sp_shelf_note(sp_shelf *s, const sp_shelf_event *e)
{
    sp_shelf_order *o = &s->order;
    pthread_mutex_lock(&o->lock);
    if (is_later(o, e)) o->events.v[o->events.n++] = *e;
    pthread_mutex_unlock(&o->lock);
}

sp_err sp_shelf_deleted_meanwhile(const char *id)
{
    return sp_fail(SP_E_CANCELED, "document \"%.200s\" was deleted while it was being registered", id);
}

sp_err sp_shelf_check_order(sp_shelf *s, const sp_shelf_row *r)
{
    sp_shelf_order *o = &s->order;
    const char *slash = strchr(r->id, '/');
    const uint64_t tenant = number_of(r->tenant, strlen(r->tenant)), id = number_of(r->id, strlen(r->id));
    const uint64_t collection = slash ? number_of(r->id, (size_t)(slash + 1 - r->id)) : id;
    bool deleted = false, replaced = false;
    pthread_mutex_lock(&o->lock);
    for (size_t i = 0; r->arrival && i < o->events.n; i++) {
        const sp_shelf_event *e = &o->events.v[i];
        const bool matters = e->number > r->arrival->number && e->tenant == tenant &&
                             (e->id == id || e->id == collection);
        if (matters) *(e->registered ? &replaced : &deleted) = true;
    }
    pthread_mutex_unlock(&o->lock);
    if (r->arrival) r->arrival->replaced = replaced;
    return deleted ? sp_shelf_deleted_meanwhile(r->id) : SP_OK;
}
