/* search.c -- searches in registered documents.
 *
 *   shelf --passages, vectors--> view: an index in memory --search among what the filters allow--> hits
 *
 * A view shows one version of a collection. Searches hold it while they run; the table holds the views of the
 * collections that were searched last, and releases outdated ones. */
#include "serve/documents/search.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/need.h"
#include "retrieve/index/texts.h"
#include "serve/documents/documents_int.h"

enum { N_VIEWS = 16, N_MAKERS = 8 };

typedef struct view {
    char place[SP_PLACE_BYTES]; /* "TENANT/COLLECTION" */
    uint64_t version;           /* of the shelf's collection */
    int n_users;                /* searches, and the table */
    uint64_t used;              /* when it was searched last, in searches */
    sp_shelf_passages passages; /* chunk i has the id i + 1 */
    sp_retriever *retriever;
} view;

struct sp_searches {
    sp_shelf *shelf;
    sp_embedder *embedder;
    pthread_mutex_t makers[N_MAKERS]; /* one thread makes the view of a place, others wait for it */
    pthread_mutex_t lock;             /* guards the following */
    view *views[N_VIEWS];
    uint64_t n_searches;
};

sp_err sp_searches_create(sp_shelf *shelf, sp_embedder *e, sp_searches **out)
{
    sp_searches *s = SP_NEW(sp_searches);
    if (!s) return sp_fail_nomem("searches");
    s->shelf = shelf;
    s->embedder = e;
    pthread_mutex_init(&s->lock, NULL);
    for (int i = 0; i < N_MAKERS; i++) pthread_mutex_init(&s->makers[i], NULL);
    *out = s;
    return SP_OK;
}

/* -- views ------------------------------------------------------------------------------------- */

static void view_free(view *v)
{
    if (!v) return;
    sp_retriever_close(v->retriever);
    sp_shelf_passages_fini(&v->passages);
    sp_free(v);
}

/* let_go -- of a view; the last one frees it. */
static void let_go(sp_searches *s, view *v)
{
    pthread_mutex_lock(&s->lock);
    const bool last = --v->n_users == 0;
    pthread_mutex_unlock(&s->lock);
    if (last) view_free(v);
}

void sp_searches_destroy(sp_searches *s)
{
    if (!s) return;
    for (int i = 0; i < N_VIEWS; i++) view_free(s->views[i]);
    for (int i = 0; i < N_MAKERS; i++) pthread_mutex_destroy(&s->makers[i]);
    pthread_mutex_destroy(&s->lock);
    sp_free(s);
}

static bool is_current(const sp_searches *s, const view *v, int64_t now_s)
{
    char tenant[SP_PLACE_BYTES];
    snprintf(tenant, sizeof tenant, "%s", v->place);
    char *slash = strchr(tenant, '/');
    *slash = '\0';
    if (v->passages.until_s && v->passages.until_s < now_s) return false;
    return v->version == sp_shelf_version(s->shelf, tenant, slash + 1);
}

void sp_searches_drop_stale(sp_searches *s, int64_t now_s)
{
    view *gone[N_VIEWS];
    int n = 0;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < N_VIEWS; i++) {
        view *v = s->views[i];
        if (!v || is_current(s, v, now_s)) continue;
        s->views[i] = NULL;
        if (--v->n_users == 0) gone[n++] = v;
    }
    pthread_mutex_unlock(&s->lock);
    while (n) view_free(gone[--n]);
}

/* find -- the view of a place as it is now, for the caller too; NULL: there is none. */
static view *find(sp_searches *s, const char *place, int64_t now_s)
{
    view *found = NULL;
    pthread_mutex_lock(&s->lock);
    s->n_searches++;
    for (int i = 0; i < N_VIEWS && !found; i++)
        if (s->views[i] && strcmp(s->views[i]->place, place) == 0 && is_current(s, s->views[i], now_s))
            found = s->views[i];
    if (found) found->n_users++;
    if (found) found->used = s->n_searches;
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* enter -- into the table, in place of an older one of its place, or of the one whose last search is longest ago. */
static void enter(sp_searches *s, view *v)
{
    int to = 0;
    pthread_mutex_lock(&s->lock);
    for (int i = 1; i < N_VIEWS; i++) {
        const view *a = s->views[to], *b = s->views[i];
        if (a && (!b || b->used < a->used)) to = i;
    }
    for (int i = 0; i < N_VIEWS; i++)
        if (s->views[i] && strcmp(s->views[i]->place, v->place) == 0) to = i;
    view *old = s->views[to];
    s->views[to] = v;
    v->used = s->n_searches;
    v->n_users++;
    const bool last = old && --old->n_users == 0;
    pthread_mutex_unlock(&s->lock);
    if (last) view_free(old);
}

/* make_vectors -- of the passages that have one; *out NULL: there is no encoder. */
static sp_err make_vectors(const sp_shelf_passages *p, int n_dims, sp_vectors **out)
{
    *out = NULL;
    if (!n_dims) return SP_OK;
    SP_TRY(sp_vectors_create(&(sp_vectors_opts){.kind = SP_VECTORS_FLAT, .n_dims = n_dims}, out));
    sp_err err = SP_OK;
    for (size_t i = 0; i < p->v.n && err == SP_OK; i++) {
        const int64_t id = (int64_t)i + 1;
        if (p->v.v[i].v) err = sp_vectors_add(*out, &id, p->v.v[i].v, 1, NULL);
    }
    return err;
}

static sp_err make_index(const sp_shelf_passages *p, sp_index **out)
{
    sp_index_text *v = sp_alloc((size_t)p->chunks.n + 1, sizeof *v);
    if (!v) return sp_fail_nomem("chunks");
    for (int i = 0; i < p->chunks.n; i++)
        v[i] = (sp_index_text){.title = p->chunks.v[i].title, .text = p->chunks.v[i].text};
    sp_err err = sp_texts_index(v, p->chunks.n, out);
    sp_free(v);
    return err;
}

/* fill -- a new view. */
static sp_err fill(sp_searches *s, view *v, const sp_searched *in)
{
    sp_index *ix = NULL;
    sp_vectors *x = NULL;
    sp_passages_query q = {.tenant = in->tenant, .collection = in->collection, .now_s = in->now_s};
    sp_embedder_info info;
    if (s->embedder && *in->collection) {
        info = sp_embedder_describe(s->embedder);
        q.encoder = (sp_shelf_encoder){info.id, info.n_embd};
    }
    /* Before its passages: a change meanwhile makes the view old. */
    v->version = sp_shelf_version(s->shelf, in->tenant, in->collection);
    SP_TRY(sp_shelf_passages_read(s->shelf, &q, &v->passages));
    SP_TRY(make_index(&v->passages, &ix));
    sp_err err = make_vectors(&v->passages, q.encoder.n_dims, &x);
    if (err == SP_OK) return sp_retriever_of(ix, s->embedder, x, &v->retriever);
    sp_index_close(ix);
    sp_vectors_destroy(x);
    return err;
}

/* hold -- the view of a place as it is now, until let_go. */
static sp_err hold(sp_searches *s, const sp_searched *in, view **out)
{
    char place[SP_PLACE_BYTES];
    snprintf(place, sizeof place, "%s/%s", in->tenant, in->collection);
    if ((*out = find(s, place, in->now_s))) return SP_OK;
    pthread_mutex_t *making = &s->makers[sp_hash64(place, strlen(place)) % N_MAKERS];
    pthread_mutex_lock(making);
    sp_err err = SP_OK;
    view *v = find(s, place, in->now_s);
    if (!v) {
        v = SP_NEW(view);
        err = v ? SP_OK : sp_fail_nomem("an index");
        if (v) snprintf(v->place, sizeof v->place, "%s", place);
        if (v) v->n_users = 1;
        if (err == SP_OK) err = fill(s, v, in);
        if (err == SP_OK) enter(s, v);
    }
    pthread_mutex_unlock(making);
    if (err == SP_OK)
        *out = v;
    else
        view_free(v);
    return err;
}

/* -- filters ----------------------------------------------------------------------------------- */

/* is_within -- a name is `of`, or in the folder `of`. */
static bool is_within(const char *name, const char *of)
{
    size_t n = strlen(of);
    while (n > 1 && of[n - 1] == '/') n--;
    return *of && strncmp(name, of, n) == 0 && (name[n] == '\0' || name[n] == '/');
}

static bool has_tag(const char *tags, const char *tag)
{
    const size_t n = strlen(tag);
    for (const char *line = tags; *line; line++) {
        const char *end = strchrnul(line, '\n');
        if ((size_t)(end - line) == n && memcmp(line, tag, n) == 0) return true;
        if (!*(line = end)) return false;
    }
    return false;
}

static bool is_wanted(const view *v, int i, const sp_retrieve_query *q)
{
    bool file = !q->n_files, tag = !q->n_tags;
    for (int k = 0; k < q->n_files && !file; k++)
        file = strcmp(v->passages.chunks.v[i].file, q->files[k]) == 0 ||
               is_within(v->passages.v.v[i].file, q->files[k]);
    for (int k = 0; k < q->n_tags && !tag; k++) tag = has_tag(v->passages.v.v[i].tags, q->tags[k]);
    return file && tag;
}

static sp_err list_allowed(const view *v, const sp_retrieve_query *q, sp_ids *out)
{
    for (int i = 0; i < v->passages.chunks.n; i++) {
        if (!is_wanted(v, i, q)) continue;
        SP_TRY(sp_vec_reserve(out, 1));
        out->v[out->n++] = i + 1;
    }
    return SP_OK;
}

/* -- searches ---------------------------------------------------------------------------------- */

/* A search whose stages are told with the names of documents. */
typedef struct naming {
    const view *v;
    const sp_retrieve_query *q;
    bool lost; /* a stage, for want of memory */
} naming;

/* name_hits -- documents for chunks. */
static void name_hits(const view *v, sp_hits *h)
{
    for (int i = 0; i < h->n; i++) h->v[i].file = v->passages.chunks.v[h->v[i].id - 1].file;
}

static bool on_stage(const sp_hits *best, bool last, void *user)
{
    naming *n = user;
    sp_hits named = {.v = sp_alloc((size_t)best->n + 1, sizeof *named.v), .n = best->n};
    n->lost |= !named.v;
    if (!named.v) return false;
    if (best->n) memcpy(named.v, best->v, (size_t)best->n * sizeof *best->v);
    name_hits(n->v, &named);
    const bool good = n->q->on_stage(&named, last, n->q->user);
    sp_free(named.v);
    return good;
}

/* run -- the hits own their strings: the view may go. */
static sp_err run(view *v, const sp_retrieve_query *q, sp_hits *out)
{
    sp_ids allowed = {0};
    sp_hits hits = {0};
    naming n = {.v = v, .q = q};
    sp_retrieve_query inner = *q;
    const bool filters = q->n_files || q->n_tags;
    if (q->on_stage) inner.on_stage = on_stage;
    inner.user = &n;
    sp_err err = filters ? list_allowed(v, q, &allowed) : SP_OK;
    if (err == SP_OK) err = sp_retriever_search_among(v->retriever, &inner, filters ? &allowed : NULL, &hits);
    sp_vec_fini(&allowed);
    if (n.lost) return sp_fail_nomem("a search");
    SP_TRY(err);
    name_hits(v, &hits);
    err = sp_hits_copy(&hits, out);
    sp_hits_fini(&hits);
    return err;
}

sp_err sp_searches_run(sp_searches *s, const sp_searched *in, const sp_retrieve_query *q, sp_hits *out)
{
    view *v;
    SP_TRY(hold(s, in, &v));
    sp_err err = run(v, q, out);
    let_go(s, v);
    return err;
}

sp_err sp_searches_each(sp_searches *s, const sp_searched *in, sp_chunk_fn *fn, void *user)
{
    view *v;
    SP_TRY(hold(s, in, &v));
    sp_err err = SP_OK;
    for (int i = 0; i < v->passages.chunks.n && err == SP_OK; i++) err = fn(&v->passages.chunks.v[i], user);
    let_go(s, v);
    return err;
}

sp_err sp_documents_search(sp_documents *d, const char *salt, const char *collection, const sp_retrieve_query *q,
                           sp_hits *out)
{
    SP_NEED(d);
    SP_NEED(q);
    SP_NEED(q->text);
    SP_NEED(out);
    char tenant[SP_TENANT_BYTES];
    sp_collection_list there;
    SP_TRY(sp_tenant_name(salt, tenant));
    if (collection) {
        SP_TRY(sp_shelf_collections(d->shelf, &(sp_collections_query){.tenant = tenant, .name = collection}, &there));
        sp_collection_list_fini(&there);
    }
    const sp_searched in = {tenant, collection ? collection : "", sp_documents_due_s(d)};
    return sp_searches_run(d->searches, &in, q, out);
}
