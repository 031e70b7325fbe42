#include "server/api/collections.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cache_dir.h"
#include "cli/cli.h"
#include "server/api/answer.h"

enum { PASSAGES = 5 /* of a request that does not say how many */ };

typedef struct srv_collection {
    char *name, *path; /* of the index */
    sp_retriever *retriever;
    _Atomic int64_t mean_us; /* of its last searches */
} srv_collection;

struct srv_collections {
    srv_collection *v;
    int n;
};

/* -- opening ----------------------------------------------------------------------------------- */

static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i])) return false;
    return n > 0 && n <= 64;
}

/* index_path -- where the index of a folder is. Owns: free. NULL after an error message. */
static char *index_path(const char *name, const char *folder)
{
    char where[4096], *out = NULL, *whole = realpath(folder, NULL);
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a: folders of one name have indexes of their own */
    for (const char *c = whole ? whole : ""; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    if (!whole)
        cli_fail_with("serve: --collection %s=%s: no such file or folder", name, folder);
    else if (!cache_dir("collections", where, sizeof where) || !cache_dir_make(where))
        cli_fail_with("serve: --collection %s: the user's cache cannot be written; name an index of spolia index",
                      name);
    else if (asprintf(&out, "%s/%s-%016llx.db", where, name, (unsigned long long)hash) < 0)
        out = NULL;
    free(whole);
    return out;
}

/* is_index -- a file that SQLite made. */
static bool is_index(const char *path)
{
    char head[16] = "";
    FILE *f = fopen(path, "rb");
    const bool read = f && fread(head, 1, sizeof head, f) == sizeof head;
    if (f) fclose(f);
    return read && memcmp(head, "SQLite format 3", sizeof head) == 0;
}

/* on_progress -- a line a minute. */
static bool on_progress(int64_t done, int64_t total, void *user)
{
    int64_t *told_us = user;
    if (srv_now_us() - *told_us < 60000000) return true;
    *told_us = srv_now_us();
    fprintf(stderr, "collection: %lld of %lld vectors\n", (long long)done, (long long)total);
    return true;
}

/* make_index -- of a folder or file, with vectors where there is an encoder. */
static sp_err make_index(const srv_server *s, const srv_collection *c, const char *folder)
{
    const sp_index_opts o = {.replace = true};
    int64_t told_us = srv_now_us();
    sp_err err = sp_index_build(&folder, 1, c->path, &o, NULL);
    if (err != SP_OK || !s->o.embedder) return err;
    return sp_index_embed(c->path, s->o.embedder, &(sp_index_embed_opts){.progress = on_progress, .user = &told_us},
                          NULL);
}

static bool open_one(const srv_server *s, srv_collection *c, const char *given)
{
    const char *path = strchr(given, '=');
    if (!path || !is_name(given, (size_t)(path - given)) || !path[1]) {
        cli_fail_with("serve: --collection %s: must be NAME=PATH; a name has letters, digits, . _ and -", given);
        return false;
    }
    c->name = strndup(given, (size_t)(path++ - given));
    const bool ready = is_index(path);
    c->path = !c->name ? NULL : ready ? strdup(path) : index_path(c->name, path);
    if (!c->path) return false;
    sp_err err = ready ? SP_OK : make_index(s, c, path);
    if (err == SP_OK) err = sp_retriever_open(c->path, s->o.embedder, &c->retriever);
    if (err != SP_OK) return cli_fail(err), false;
    if (sp_retriever_n_chunks(c->retriever) == 0) cli_warn("serve: --collection %s: no documents with text", given);
    return true;
}

bool srv_collections_open(srv_server *s)
{
    srv_collections *all = calloc(1, sizeof *all);
    s->collections = all;
    if (all) all->v = calloc((size_t)s->o.n_collections + 1, sizeof *all->v);
    if (!all || !all->v) return cli_fail_with("out of memory for collections"), false;
    for (int i = 0; i < s->o.n_collections; i++) {
        all->n++;
        if (!open_one(s, &all->v[i], s->o.collections[i])) return false;
        for (int k = 0; k < i; k++)
            if (strcmp(all->v[k].name, all->v[i].name) == 0)
                return cli_fail_with("serve: --collection %s is given twice", all->v[i].name), false;
    }
    return true;
}

void srv_collections_close(srv_server *s)
{
    srv_collections *all = s->collections;
    if (!all) return;
    for (int i = 0; i < all->n; i++) {
        srv_collection *c = &all->v[i];
        sp_retriever_close(c->retriever);
        free(c->name);
        free(c->path);
    }
    free(all->v);
    free(all);
}

/* -- names ------------------------------------------------------------------------------------- */

static srv_collection *find(const srv_server *s, const char *name, size_t n)
{
    for (int i = 0; i < s->collections->n; i++) {
        srv_collection *c = &s->collections->v[i];
        if (strlen(c->name) == n && memcmp(c->name, name, n) == 0) return c;
    }
    return NULL;
}

sp_retriever *srv_collection_find(const srv_server *s, const char *name)
{
    srv_collection *c = find(s, name, strlen(name));
    return c ? c->retriever : NULL;
}

/* of_model -- the collection of "docs@model"; NULL: the name of a model alone. */
static srv_collection *of_model(const srv_server *s, const char *model)
{
    const char *at = model ? strchr(model, '@') : NULL;
    return at ? find(s, model, (size_t)(at - model)) : NULL;
}

void srv_collections_models(const srv_server *s, json_t *list)
{
    for (int i = 0; i < s->collections->n; i++)
        json_array_append_new(list, json_pack("{s:o, s:s, s:I, s:s}", "id",
                                              json_sprintf("%s@%s", s->collections->v[i].name, s->o.alias), "object",
                                              "model", "created", (json_int_t)s->started, "owned_by", "spolia"));
}

bool srv_collections_names(const srv_server *s, const char *model)
{
    return of_model(s, model) != NULL;
}

/* -- requests ---------------------------------------------------------------------------------- */

void srv_retrieval_read(const srv_call *call, srv_fields *f, srv_retrieval *out)
{
    json_t *given = srv_field(f, "collection");
    const char *name = json_string_value(given);
    srv_fields inner = {.object = json_is_object(given) ? given : f->object};
    *out = (srv_retrieval){.k = PASSAGES};
    if (given && !name && !json_is_object(given))
        srv_fields_refuse(f, "collection", "collection must be a name or an object with a name");
    if (json_is_object(given)) {
        name = srv_field_string(&inner, "name");
        if (!name) srv_fields_refuse(f, "collection.name", "collection.name must be a string");
    }
    if (!given) out->from = of_model(call->s, srv_field_string(f, "model"));
    if (!name) return;
    out->from = find(call->s, name, strlen(name));
    if (!out->from) srv_fields_refuse(f, "collection", "there is no collection \"%.64s\"", name);
    out->k = (int)srv_field_int(&inner, "top_k", PASSAGES, 1, SRV_MAX_PASSAGES);
    out->rerank = srv_field_bool(&inner, "rerank", false);
    if (json_is_object(given) && srv_field(&inner, "ahead"))
        out->ahead = srv_field_bool(&inner, "ahead", true) ? SRV_AHEAD_ALWAYS : SRV_AHEAD_NEVER;
    if (out->rerank) out->ahead = SRV_AHEAD_NEVER; /* which passages come is known at the end */
    if (inner.failed) {
        char param[sizeof inner.param + 12];
        snprintf(param, sizeof param, "collection.%s", inner.param);
        srv_fields_refuse(f, param, "%s", inner.why);
    }
    if (inner.object == f->object) json_object_del((json_t *)f->object, "top_k"); /* else it is that of sampling */
}

/* by_id -- equal sets of passages, in equal order, share a prefix. */
static int by_id(const void *a, const void *b)
{
    const sp_hit *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

bool srv_retrieval_take(const srv_retrieval *r, srv_documents *d)
{
    sp_hits *owned = realloc(d->owned, (d->n_owned + 1) * sizeof *owned), *hits;
    if (owned) d->owned = owned;
    srv_document *v = realloc(d->v, (d->n + (size_t)r->now->n + 1) * sizeof *v);
    if (v) d->v = v;
    if (!owned || !v || sp_hits_copy(r->now, &owned[d->n_owned]) != SP_OK) return false;
    hits = &owned[d->n_owned++];
    for (int i = 0; i < hits->n; i++)
        d->v[d->n++] = (srv_document){.id = hits->v[i].file,
                                      .title = *hits->v[i].title ? hits->v[i].title : NULL,
                                      .text = hits->v[i].text,
                                      .segment = -1};
    return true;
}

/* A search whose stages are told. */
typedef struct telling {
    srv_retrieval *r;
    srv_passages_fn *fn;
    void *user;
    int64_t ids[SRV_MAX_PASSAGES]; /* as they were told last */
    int n;                         /* -1: nothing was */
    int64_t us;                    /* of the calls */
} telling;

/* is_told -- these passages, in any order, are those that were told; they are from here on. */
static bool is_told(telling *t, const sp_hits *h)
{
    bool same = t->n == h->n;
    for (int i = 0; i < h->n; i++) {
        same = same && t->ids[i] == h->v[i].id;
        t->ids[i] = h->v[i].id;
    }
    t->n = h->n;
    return same;
}

static bool on_stage(const sp_hits *best, bool last, void *user)
{
    telling *t = user;
    sp_hits sorted = {.v = malloc(((size_t)best->n + 1) * sizeof *best->v), .n = best->n};
    if (!sorted.v) return false;
    if (best->n) memcpy(sorted.v, best->v, (size_t)best->n * sizeof *best->v);
    if (best->n > 1) qsort(sorted.v, (size_t)sorted.n, sizeof *sorted.v, by_id);
    t->r->n_stages++;
    t->r->n_found = best->n;
    const bool changed = !is_told(t, &sorted);
    const int64_t from = srv_now_us();
    const bool good = t->fn(&sorted, changed, last, t->user);
    t->us += srv_now_us() - from;
    free(sorted.v);
    return good;
}

enum {
    STAGES = 8,
    LONG_US = 20000, /* searches that take longer are worth a guess: a wrong one costs a step */
    TO_RANK = 4      /* times as many passages are found as a ranking keeps */
};

bool srv_retrieval_is_slow(const srv_retrieval *r)
{
    return atomic_load(&r->from->mean_us) > LONG_US;
}

bool srv_retrieval_search(srv_retrieval *r, srv_fields *f, const char *question, srv_passages_fn *fn, void *user,
                          sp_err *err)
{
    telling t = {.r = r, .fn = fn, .user = user, .n = -1};
    sp_hits hits = {0};
    const int64_t from = srv_now_us(), mean = atomic_load(&r->from->mean_us);
    const sp_retrieve_query q = {.text = question,
                                 .k = r->rerank && r->k <= SRV_MAX_PASSAGES / TO_RANK ? r->k * TO_RANK : r->k,
                                 .distinct = true,
                                 .n_stages = r->ahead == SRV_AHEAD_NEVER ? 1 : STAGES,
                                 .on_stage = on_stage,
                                 .user = &t};
    *err = sp_retriever_search(r->from->retriever, &q, &hits);
    r->search_us = srv_now_us() - from - t.us;
    sp_hits_fini(&hits);
    if (*err == SP_OK) {
        atomic_store(&r->from->mean_us, mean ? mean + (r->search_us - mean) / 4 : r->search_us);
        return true;
    }
    if (*err == SP_E_CANCELED)
        *err = SP_OK; /* the caller knows why */
    else
        srv_fields_refuse(f, "collection", "collection: %s", sp_error_detail());
    return false;
}

json_t *srv_retrieval_json(const srv_retrieval *r)
{
    json_t *o =
        json_pack("{s:s, s:i, s:i, s:f, s:f, s:i, s:i, s:i}", "collection", r->from->name, "top_k", r->k, "found",
                  r->n_found, "search_ms", (double)r->search_us / 1e3, "exposed_ms", (double)r->exposed_us / 1e3,
                  "stages", r->n_stages, "begun_ahead", r->n_begun, "wrong", r->n_wrong);
    if (o && r->rerank) {
        json_object_set_new(o, "ranked", json_integer(r->n_ranked));
        json_object_set_new(o, "rank_ms", json_real((double)r->rank_us / 1e3));
    }
    return o;
}
