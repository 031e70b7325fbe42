#include "serve/documents/search.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/need.h"
#include "retrieve/texts.h"
#include "serve/documents/documents_int.h"

enum { N_SEATS = 8 };

/* The index of one tenant. */
typedef struct seat {
    pthread_mutex_t lock; /* guards the following */
    char tenant[SP_TENANT_BYTES];
    uint64_t version; /* of the shelf when the index was made */
    sp_hits chunks;   /* of all its documents */
    sp_index *index;  /* over `chunks`; NULL: the seat is free */
} seat;

struct sp_searches {
    sp_shelf *shelf;
    seat seats[N_SEATS]; /* a tenant's is chosen by its name */
};

sp_err sp_searches_create(sp_shelf *shelf, sp_searches **out)
{
    sp_searches *s = SP_NEW(sp_searches);
    if (!s) return sp_fail_nomem(sizeof *s, "searches");
    s->shelf = shelf;
    for (int i = 0; i < N_SEATS; i++) pthread_mutex_init(&s->seats[i].lock, NULL);
    *out = s;
    return SP_OK;
}

/* Called with the seat's lock held. */
static void leave(seat *t)
{
    sp_index_close(t->index);
    t->index = NULL;
    sp_hits_fini(&t->chunks);
}

void sp_searches_destroy(sp_searches *s)
{
    if (!s) return;
    for (int i = 0; i < N_SEATS; i++) {
        leave(&s->seats[i]);
        pthread_mutex_destroy(&s->seats[i].lock);
    }
    sp_free(s);
}

void sp_searches_drop_stale(sp_searches *s)
{
    const uint64_t version = sp_shelf_version(s->shelf);
    for (int i = 0; i < N_SEATS; i++) {
        seat *t = &s->seats[i];
        if (pthread_mutex_trylock(&t->lock) != 0) continue; /* the next tick sees it */
        if (t->index && t->version != version) leave(t);
        pthread_mutex_unlock(&t->lock);
    }
}

/* fill -- the seat with the tenant's chunks as they are now. Called with its lock held. */
static sp_err fill(seat *t, sp_shelf *shelf, const char *tenant)
{
    leave(t);
    t->version = sp_shelf_version(shelf); /* before reading: a change meanwhile makes the index stale */
    SP_TRY(sp_shelf_chunks(shelf, tenant, NULL, &t->chunks));
    sp_index_text *v = sp_alloc((size_t)t->chunks.n + 1, sizeof *v);
    if (!v) return sp_fail_nomem((size_t)t->chunks.n * sizeof *v, "chunks");
    for (int i = 0; i < t->chunks.n; i++)
        v[i] = (sp_index_text){.title = t->chunks.v[i].title, .text = t->chunks.v[i].text};
    sp_err err = sp_texts_index(v, t->chunks.n, &t->index);
    sp_free(v);
    snprintf(t->tenant, sizeof t->tenant, "%s", tenant);
    return err;
}

static const char *copy_text(sp_arena *arena, const char *text)
{
    size_t n = strlen(text) + 1;
    char *to = sp_arena_take(arena, n, 1);
    return to ? memcpy(to, text, n) : NULL;
}

static bool is_wanted(const sp_documents_query *q, const char *id)
{
    for (int i = 0; i < q->n_ids; i++)
        if (strcmp(q->ids[i], id) == 0) return true;
    return q->n_ids == 0;
}

/* copy -- the found chunks, with their documents' ids; they outlive the seat. */
static sp_err copy(const seat *t, const sp_documents_query *q, const sp_hits *found, sp_hits *out)
{
    SP_VEC(sp_hit) hits = {0};
    sp_arena *arena = SP_NEW(sp_arena);
    sp_err err = arena ? SP_OK : sp_fail_nomem(sizeof *arena, "hits");
    if (arena) sp_arena_init(arena);
    for (int i = 0; i < found->n && err == SP_OK && (int)hits.n < q->k; i++) {
        const sp_hit *chunk = &t->chunks.v[found->v[i].id - 1];
        if (!is_wanted(q, chunk->file)) continue;
        sp_hit hit = {.id = chunk->id,
                      .score = found->v[i].score,
                      .file = copy_text(arena, chunk->file),
                      .title = copy_text(arena, chunk->title),
                      .text = copy_text(arena, chunk->text),
                      .root = ""};
        if (!hit.file || !hit.title || !hit.text) err = sp_fail_nomem(strlen(chunk->text), "hits");
        if (err == SP_OK) err = sp_vec_reserve(&hits, 1);
        if (err == SP_OK) hits.v[hits.n++] = hit;
    }
    sp_hits result = {.v = hits.v, .n = (int)hits.n, .strings = arena};
    if (err == SP_OK)
        *out = result;
    else
        sp_hits_fini(&result);
    return err;
}

sp_err sp_searches_run(sp_searches *s, const char *tenant, const sp_documents_query *q, sp_hits *out)
{
    sp_hits found = {0};
    seat *t = &s->seats[sp_hash64(tenant, strlen(tenant)) % N_SEATS];
    pthread_mutex_lock(&t->lock);
    bool current = t->index && t->version == sp_shelf_version(s->shelf) && strcmp(t->tenant, tenant) == 0;
    sp_err err = current ? SP_OK : fill(t, s->shelf, tenant);
    if (err == SP_OK) err = sp_index_search(t->index, q->text, q->n_ids ? t->chunks.n : q->k, &found);
    if (err == SP_OK) err = copy(t, q, &found, out);
    pthread_mutex_unlock(&t->lock);
    sp_hits_fini(&found);
    return err;
}

sp_err sp_documents_search(sp_documents *d, const char *salt, const sp_documents_query *q, sp_hits *out)
{
    SP_NEED(d);
    SP_NEED(q);
    SP_NEED(q->text);
    SP_NEED(out);
    char tenant[SP_TENANT_BYTES];
    if (q->k < 1) return sp_fail(SP_E_ARG, "a search for %d chunks", q->k);
    SP_TRY(sp_tenant_name(salt, tenant));
    return sp_searches_run(d->searches, tenant, q, out);
}
