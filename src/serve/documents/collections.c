/* collections.c -- collections of registered documents: made, listed, embedded, counted. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/need.h"
#include "serve/documents/documents_int.h"

enum {
    MOST_NAME = 64,
    BATCH = 128,        /* chunks that are embedded and written at a time */
    MOST_PENDING = 4096 /* counts that wait for a tick */
};

sp_err sp_collection_check_name(const char *name)
{
    const size_t n = strnlen(name, MOST_NAME + 1);
    bool good = n > 0 && n <= MOST_NAME;
    for (size_t i = 0; i < n && good; i++) good = isalnum((unsigned char)name[i]) || strchr("._-", name[i]);
    if (good) return SP_OK;
    return sp_fail(SP_E_ARG, "a collection's name has 1 to %d letters, digits, '.', '_' and '-'", MOST_NAME);
}

sp_err sp_collection_create(sp_documents *d, const char *salt, const char *name)
{
    SP_NEED(d);
    SP_NEED(name);
    char tenant[SP_TENANT_BYTES];
    SP_TRY(sp_collection_check_name(name));
    SP_TRY(sp_tenant_name(salt, tenant));
    return sp_shelf_add_collection(d->shelf, tenant, name, d->opened_s + (sp_clock_us() - d->opened_us) / 1000000);
}

/* -- counts ------------------------------------------------------------------------------------ */

/* name_place -- "TENANT/COLLECTION". */
static sp_err name_place(const char *salt, const char *name, char out[SP_PLACE_BYTES])
{
    char tenant[SP_TENANT_BYTES];
    SP_TRY(sp_tenant_name(salt, tenant));
    snprintf(out, SP_PLACE_BYTES, "%s/%.*s", tenant, MOST_NAME, name);
    return SP_OK;
}

sp_err sp_collection_count(sp_documents *d, const char *salt, const char *name, const sp_hits *hits)
{
    SP_NEED(d);
    SP_NEED(name);
    SP_NEED(hits);
    char place[SP_PLACE_BYTES];
    sp_err err = name_place(salt, name, place);
    pthread_mutex_lock(&d->counting);
    for (int i = 0; i < hits->n && err == SP_OK && d->counts.n < MOST_PENDING; i++) {
        sp_shelf_count c = {.n = 1};
        memcpy(c.place, place, sizeof place);
        err = sp_shelf_chunk_hash(hits->v[i].title, hits->v[i].text, &c.chunk);
        if (err == SP_OK) err = sp_vec_reserve(&d->counts, 1);
        if (err == SP_OK) d->counts.v[d->counts.n++] = c;
    }
    pthread_mutex_unlock(&d->counting);
    return err;
}

/* keep_counts -- of a failed flush: the next one tries again. Those for which there is no memory are lost. */
static void keep_counts(sp_documents *d, sp_shelf_counts *taken)
{
    pthread_mutex_lock(&d->counting);
    const sp_shelf_counts newer = d->counts;
    d->counts = *taken;
    *taken = newer;
    for (size_t i = 0; i < newer.n && d->counts.n < MOST_PENDING; i++) {
        if (sp_vec_reserve(&d->counts, 1) != SP_OK) break;
        d->counts.v[d->counts.n++] = newer.v[i];
    }
    pthread_mutex_unlock(&d->counting);
}

sp_err sp_counts_flush(sp_documents *d)
{
    sp_err err = SP_OK;
    pthread_mutex_lock(&d->counting);
    sp_shelf_counts taken = d->counts;
    d->counts = (sp_shelf_counts){0};
    pthread_mutex_unlock(&d->counting);
    if (taken.n && sp_shelf_writes(d->shelf)) err = sp_shelf_count_all(d->shelf, taken.v, taken.n);
    if (err != SP_OK) keep_counts(d, &taken);
    sp_vec_fini(&taken);
    return err;
}

void sp_counts_try(sp_documents *d)
{
    const sp_err err = sp_counts_flush(d);
    SP_UNUSED(err);
}

/* n_kept -- passages of a collection that are counted, and not on the shelf yet. */
static int64_t n_kept(sp_documents *d, const char *place)
{
    int64_t n = 0;
    pthread_mutex_lock(&d->counting);
    for (size_t i = 0; i < d->counts.n; i++)
        if (strcmp(d->counts.v[i].place, place) == 0) n += d->counts.v[i].n;
    pthread_mutex_unlock(&d->counting);
    return n;
}

/* -- lists ------------------------------------------------------------------------------------- */

sp_err sp_collections(sp_documents *d, const char *salt, const char *name, sp_collection_list *out)
{
    SP_NEED(d);
    SP_NEED(out);
    char tenant[SP_TENANT_BYTES];
    sp_embedder_info info = {0};
    SP_TRY(sp_tenant_name(salt, tenant));
    sp_counts_try(d);
    if (d->embedder) info = sp_embedder_describe(d->embedder);
    const sp_collections_query q = {tenant, name, info.id, sp_documents_due_s(d)};
    SP_TRY(sp_shelf_collections(d->shelf, &q, out));
    for (int i = 0; i < out->n; i++) {
        char place[SP_PLACE_BYTES];
        snprintf(place, sizeof place, "%s/%.*s", tenant, MOST_NAME, out->v[i].name);
        out->v[i].n_retrieved += n_kept(d, place);
    }
    return SP_OK;
}

/* -- vectors ----------------------------------------------------------------------------------- */

typedef struct embedding {
    sp_documents *d;
    sp_shelf_encoder encoder;
    sp_embed_opts o;
    float *v; /* [BATCH, n_dims] */
    int64_t n; /* chunks that were embedded */
} embedding;

/* embed_texts -- title and text of each chunk, as in an index (retrieve/index/embedding.c). */
static sp_err embed_texts(embedding *e, const sp_hits *chunks)
{
    sp_bytes all = {0};
    size_t at[BATCH];
    sp_embed_input inputs[BATCH];
    sp_err err = SP_OK;
    for (int i = 0; i < chunks->n && err == SP_OK; i++) {
        const sp_hit *c = &chunks->v[i];
        at[i] = all.n;
        err = sp_bytes_addf(&all, "%s%s%s%c", c->title, *c->title ? "\n" : "", c->text, '\0');
    }
    for (int i = 0; i < chunks->n && err == SP_OK; i++)
        inputs[i] = (sp_embed_input){.text = all.v + at[i], .n = strlen(all.v + at[i])};
    if (err == SP_OK) err = sp_embedder_embed(e->d->embedder, inputs, (size_t)chunks->n, &e->o, e->v, NULL);
    sp_vec_fini(&all);
    return err;
}

/* embed_document -- a batch at a time. The last batch is the one that is not full. */
static sp_err embed_document(embedding *e, int64_t document)
{
    sp_err err = SP_OK;
    bool last = false;
    for (int64_t at = 0; !last && err == SP_OK; at += BATCH) {
        sp_hits chunks = {0};
        err = sp_shelf_slice(e->d->shelf, document, at, BATCH, &chunks);
        if (err == SP_OK && chunks.n) err = embed_texts(e, &chunks);
        last = chunks.n < BATCH;
        const sp_shelf_vectors v = {document, at, e->v, chunks.n, last};
        if (err == SP_OK) err = sp_shelf_put_vectors(e->d->shelf, &e->encoder, &v);
        e->n += err == SP_OK ? chunks.n : 0;
        sp_hits_fini(&chunks);
    }
    return err;
}

sp_err sp_collection_embed(sp_documents *d, const char *salt, const char *id, const sp_embed_opts *o, int64_t *n)
{
    SP_NEED(d);
    char tenant[SP_TENANT_BYTES];
    if (n) *n = 0;
    SP_TRY(sp_tenant_name(salt, tenant));
    if (!d->embedder || !sp_shelf_writes(d->shelf)) return SP_OK;
    const sp_embedder_info info = sp_embedder_describe(d->embedder);
    embedding e = {.d = d, .encoder = {info.id, info.n_embd}};
    if (o) e.o = (sp_embed_opts){.stop = o->stop, .step_us = o->step_us, .rests = o->rests, .user = o->user};
    e.o.kind = SP_EMBED_DOCUMENT;
    e.v = sp_alloc((size_t)BATCH * (size_t)info.n_embd, sizeof *e.v);
    sp_err err = e.v ? SP_OK : sp_fail_nomem("vectors");
    for (int64_t document = 1; document && err == SP_OK;) {
        err = sp_shelf_unembedded(d->shelf, info.id, tenant, id, &document);
        if (err == SP_OK && document) err = embed_document(&e, document);
    }
    sp_free(e.v);
    if (n) *n = e.n;
    return err;
}

sp_err sp_collection_n_retrieved(sp_documents *d, const char *salt, const char *name, int64_t *out)
{
    SP_NEED(d);
    SP_NEED(name);
    SP_NEED(out);
    char place[SP_PLACE_BYTES];
    SP_TRY(name_place(salt, name, place));
    sp_counts_try(d);
    SP_TRY(sp_shelf_count_of(d->shelf, place, out));
    *out += n_kept(d, place);
    return SP_OK;
}
