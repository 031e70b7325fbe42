/* given.c -- documents that a body gives, or names. */
#include "server/documents/given.h"

#include <stdio.h>
#include <stdlib.h>

void srv_documents_fini(srv_documents *d)
{
    for (size_t i = 0; i < d->n_owned; i++) sp_hits_fini(&d->owned[i]);
    free(d->owned);
    free(d->v);
    *d = (srv_documents){0};
}

/* take_chunks -- of one registered document, into `to`. */
static bool take_chunks(srv_documents *to, const srv_document *from, const sp_hits *chunks)
{
    srv_document *more = realloc(to->v, (to->n + (size_t)chunks->n) * sizeof *more);
    if (!more) return false;
    to->v = more;
    for (int i = 0; i < chunks->n; i++)
        to->v[to->n++] = (srv_document){.id = from->id,
                                        .title = *chunks->v[i].title ? chunks->v[i].title : NULL,
                                        .text = chunks->v[i].text,
                                        .segment = -1};
    return true;
}

static bool take_given(srv_documents *to, const srv_document *from)
{
    srv_document *more = realloc(to->v, (to->n + 1) * sizeof *more);
    if (!more) return false;
    to->v = more;
    to->v[to->n++] = *from;
    return true;
}

/* expand -- adds the i-th document: itself, or its chunks. */
static bool expand(const srv_call *call, const char *salt, srv_fields *f, srv_documents *to, size_t i,
                   const srv_document *from)
{
    char name[40];
    snprintf(name, sizeof name, "documents[%zu].id", i);
    if (from->text || from->tree) {
        if (take_given(to, from)) return true;
        srv_fields_refuse(f, name, "out of memory");
        return false;
    }
    sp_hits *owned = realloc(to->owned, (to->n_owned + 1) * sizeof *owned);
    if (owned) to->owned = owned;
    sp_err err = SP_E_NOMEM;
    if (owned) err = sp_documents_chunks(call->s->documents, salt, from->id, &owned[to->n_owned]);
    if (err != SP_OK) {
        srv_fields_fail(f, name, name, err == SP_E_FORMAT ? SP_E_IO : err);
        return false;
    }
    to->n_owned++;
    const bool taken = take_chunks(to, from, &owned[to->n_owned - 1]);
    if (taken && to->n <= SRV_MAX_DOCUMENTS) return true;
    if (taken)
        srv_fields_refuse(f, name, "%s: more than %d chunks", name, SRV_MAX_DOCUMENTS);
    else
        srv_fields_refuse(f, name, "out of memory");
    return false;
}

static bool names_registered(const srv_documents *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (!d->v[i].text && !d->v[i].tree) return true;
    return false;
}

bool srv_documents_expand(const srv_call *call, srv_fields *f, srv_documents *d)
{
    srv_documents all = {0};
    char *salt;
    if (!names_registered(d)) return true;
    if (!srv_salt_of(call, &salt)) {
        srv_fields_refuse(f, "documents", "out of memory");
        return false;
    }
    for (size_t i = 0; i < d->n && !f->failed; i++) expand(call, salt, f, &all, i, &d->v[i]);
    free(salt);
    srv_documents_fini(d);
    *d = all;
    return !f->failed;
}
