#include "server/api/retrieval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/documents/idle.h"

enum { PASSAGES = 5 /* default of a request */ };

/* -- the body ---------------------------------------------------------------------------------- */

/* read_beside -- fields of the body beside "collection" as an object, which may have them, too. */
static void read_beside(srv_fields *f, const srv_fields *inner, srv_retrieval *out)
{
    if (srv_field(f, "filter") || srv_field(f, "filters")) {
        if (srv_field(inner, "filter") || srv_field(inner, "filters"))
            srv_fields_refuse(f, "filter", "filter is given twice: in collection and beside it");
        srv_filter_read(f, &out->filter);
    }
    if (!srv_field(inner, "rerank")) out->rerank = srv_field_bool(f, "rerank", false);
}

/* read_inner -- the fields beside the name: of the body, or of "collection" as an object. */
static void read_inner(srv_fields *f, srv_fields *inner, bool own, srv_retrieval *out)
{
    out->k = (int)srv_field_int(inner, "top_k", PASSAGES, 1, SRV_MAX_PASSAGES);
    out->rerank = srv_field_bool(inner, "rerank", false);
    if (own && srv_field(inner, "ahead"))
        out->ahead = srv_field_bool(inner, "ahead", true) ? SRV_AHEAD_ALWAYS : SRV_AHEAD_NEVER;
    srv_filter_read(inner, &out->filter);
    if (own) read_beside(f, inner, out);
    if (out->rerank) out->ahead = SRV_AHEAD_NEVER; /* which passages come is known at the end */
    if (inner->failed) {
        char param[sizeof inner->param + 12];
        snprintf(param, sizeof param, "%s%s", own ? "collection." : "", inner->param);
        srv_fields_refuse(f, param, "%s", inner->why);
    }
    if (!own) json_object_del((json_t *)f->object, "top_k"); /* else it is that of sampling */
}

/* read_of_model -- without the field: the collection that the model's name has before an "@", if it has one. */
static void read_of_model(const srv_call *call, srv_fields *f, srv_retrieval *out)
{
    const sp_err err = srv_collection_of_model(call, srv_field_string(f, "model"), &out->from);
    out->rerank = srv_field_bool(f, "rerank", false);
    if (out->rerank) out->ahead = SRV_AHEAD_NEVER;
    if (err == SP_OK)
        srv_filter_read(f, &out->filter);
    else if (err != SP_E_NOTFOUND)
        srv_fields_break(f, "model", err);
    else if (srv_field(f, "filter") || srv_field(f, "filters"))
        srv_fields_refuse(f, "filter", "filter needs a collection to choose documents from");
    else if (out->rerank)
        srv_fields_refuse(f, "rerank", "rerank needs a collection");
}

void srv_retrieval_read(const srv_call *call, srv_fields *f, srv_retrieval *out)
{
    json_t *given = srv_field(f, "collection");
    const char *name = json_string_value(given);
    const bool own = json_is_object(given);
    srv_fields inner = {.object = own ? given : f->object};
    *out = (srv_retrieval){.k = PASSAGES};
    if (given && !name && !own)
        srv_fields_refuse(f, "collection", "collection must be a name or an object with a name");
    if (own) {
        srv_fields_only(f, given, "collection", "name top_k rerank ahead filter filters");
        name = srv_field_string(&inner, "name");
        if (!name) srv_fields_refuse(f, "collection.name", "collection.name must be a string");
    }
    if (!given) read_of_model(call, f, out);
    if (!name) return;
    srv_collection_read(call, f, name, &out->from);
    read_inner(f, &inner, own, out);
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

/* A search that reports its stages. */
typedef struct telling {
    srv_retrieval *r;
    srv_passages_fn *fn;
    void *user;
    int64_t ids[SRV_MAX_PASSAGES]; /* as they were told last */
    int n;                         /* -1: nothing was */
    bool lost;                     /* a stage, for want of memory */
    int64_t from_us, us;           /* when the search began; of the calls */
    srv_ahead_search seen;
} telling;

/* is_told -- whether these passages, in any order, were the last reported ones; from here on they are. */
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

/* note_stage -- h: in the order of their ids. */
static void note_stage(telling *t, const sp_hits *h)
{
    srv_ahead_search *s = &t->seen;
    const int i = s->n < SRV_AHEAD_STAGES ? s->n++ : SRV_AHEAD_STAGES - 1;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (int k = 0; k < h->n; k++) hash = (hash ^ (uint64_t)h->v[k].id) * UINT64_C(1099511628211);
    s->passages[i] = hash;
    s->at_us[i] = srv_now_us() - t->from_us - t->us;
}

static bool on_stage(const sp_hits *best, bool last, void *user)
{
    telling *t = user;
    sp_hits sorted = {.v = malloc(((size_t)best->n + 1) * sizeof *best->v), .n = best->n};
    t->lost |= !sorted.v;
    if (!sorted.v) return false;
    if (best->n) memcpy(sorted.v, best->v, (size_t)best->n * sizeof *best->v);
    if (best->n > 1) qsort(sorted.v, (size_t)sorted.n, sizeof *sorted.v, by_id);
    note_stage(t, &sorted);
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
    TO_RANK = 4 /* times as many passages are found as a ranking keeps, if there may be so many */
};

bool srv_retrieval_gains(const srv_call *call)
{
    const srv_retrieval *r = call->retrieval;
    const sp_context_info i = sp_context_describe(call->s->ctx);
    const srv_ahead_machine m = {
        .token_us = i.token_us, .n_layers = i.n_layers, .spare_core = i.n_threads < call->s->n_cores};
    return srv_ahead_gain(r->from.searches, r->n_stages - 1, &m) > 0;
}

/* n_stages_of -- stages of a search; only as many as are used. */
static int n_stages_of(const srv_retrieval *r)
{
    const bool quick = r->ahead == SRV_AHEAD_SOMETIMES && srv_ahead_is_quick(r->from.searches);
    return r->ahead == SRV_AHEAD_NEVER || quick ? 1 : STAGES;
}

static int n_to_rank(int k)
{
    return k > SRV_MAX_PASSAGES / TO_RANK ? SRV_MAX_PASSAGES : k * TO_RANK;
}

bool srv_retrieval_search(const srv_call *call, srv_fields *f, const char *question, srv_passages_fn *fn, void *user,
                          sp_err *err)
{
    srv_retrieval *r = call->retrieval;
    telling t = {.r = r, .fn = fn, .user = user, .n = -1, .from_us = srv_now_us()};
    sp_hits hits = {0};
    const sp_retrieve_query q = {.text = question,
                                 .k = r->rerank ? n_to_rank(r->k) : r->k,
                                 .files = r->filter.files,
                                 .n_files = r->filter.n_files,
                                 .tags = r->filter.tags,
                                 .n_tags = r->filter.n_tags,
                                 .distinct = true,
                                 .n_stages = n_stages_of(r),
                                 .on_stage = on_stage,
                                 .user = &t};
    const sp_err found = srv_collection_search(call, &r->from, &q, &hits);
    r->search_us = srv_now_us() - t.from_us - t.us;
    if (found == SP_OK) {
        if (!r->rerank) srv_collection_count(call, &r->from, &hits); /* else the caller counts what it keeps */
        srv_idle_note(call, &r->from);
    }
    sp_hits_fini(&hits);
    if (found == SP_OK) {
        srv_ahead_note(r->from.searches, &t.seen, r->search_us);
        return true;
    }
    if (t.lost) srv_fields_refuse(f, "", "out of memory");
    if (found == SP_E_CANCELED) return false; /* else the caller knows why */
    *err = found;
    srv_fields_refuse(f, "collection", "collection: %s", sp_error_detail());
    return false;
}

json_t *srv_retrieval_json(const srv_retrieval *r)
{
    json_t *o =
        json_pack("{s:s, s:i, s:i, s:f, s:f, s:i, s:i, s:i}", "collection", r->from.name, "top_k", r->k, "found",
                  r->n_found, "search_ms", (double)r->search_us / 1e3, "exposed_ms", (double)r->exposed_us / 1e3,
                  "stages", r->n_stages, "begun_ahead", r->n_begun, "wrong", r->n_wrong);
    if (o && r->rerank) {
        json_object_set_new(o, "ranked", json_integer(r->n_ranked));
        json_object_set_new(o, "rank_ms", json_real((double)r->rank_us / 1e3));
    }
    return o;
}
