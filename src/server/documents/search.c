/* search.c -- POST /v1/search: the chunks of registered documents that answer a question best. */
#include <stdlib.h>
#include <string.h>

#include "server/body/filter.h"
#include "server/documents/collections.h"
#include "server/documents/documents.h"
#include "server/http/reply.h"

#define MOST_FOUND 1000

/* take_ids -- "documents": ids, at most MOST_FOUND; the strings are the body's. */
static const char **take_ids(srv_fields *f, int *n)
{
    const json_t *list = srv_field(f, "documents");
    const json_t *id;
    size_t i;
    *n = 0;
    if (!list) return NULL;
    if (!json_is_array(list) || json_array_size(list) > MOST_FOUND) {
        srv_fields_refuse(f, "documents", "documents must be a list of at most %d ids", MOST_FOUND);
        return NULL;
    }
    const char **ids = calloc(json_array_size(list) + 1, sizeof *ids);
    if (!ids) srv_fields_refuse(f, "documents", "out of memory");
    json_array_foreach(list, i, id)
    {
        if (ids && json_is_string(id))
            ids[(*n)++] = json_string_value(id);
        else
            srv_fields_refuse(f, "documents", "documents[%zu] must be the id of a document", i);
    }
    return ids;
}

static json_t *found_json(const sp_hits *hits, bool numbers)
{
    json_t *data = json_array();
    for (int i = 0; i < hits->n; i++) {
        const sp_hit *h = &hits->v[i];
        json_t *o = json_pack("{s:s, s:s, s:s, s:f}", "document", h->file, "title", h->title, "text", h->text, "score",
                              h->score);
        if (numbers) json_object_set_new(o, "chunk", json_integer(h->id));
        json_array_append_new(data, o);
    }
    return json_pack("{s:s, s:o}", "object", "list", "data", data);
}

/* run -- in a collection, or (NULL) in the key's documents outside all. */
static srv_sent run(const srv_call *call, const srv_found *in, const sp_retrieve_query *q)
{
    sp_hits hits;
    char *salt = NULL;
    sp_err err = in || srv_salt_of(call, &salt) ? SP_OK : SP_E_NOMEM;
    if (err == SP_OK)
        err = in ? srv_collection_search(call, in, q, &hits)
                 : sp_documents_search(call->s->documents, salt, NULL, q, &hits);
    free(salt);
    if (err != SP_OK) {
        const char *code;
        const int status = srv_error_status(err, &code);
        const bool of_by = status == 400 && strncmp(sp_error_detail(), "by: ", 4) == 0;
        return srv_reply_error(call->connection, status, of_by ? "by" : NULL, code, sp_error_detail());
    }
    json_t *o = found_json(&hits, in);
    sp_hits_fini(&hits);
    return srv_reply_json(call->connection, 200, o);
}

/* read_query -- ids: what "documents" names. */
static sp_retrieve_query read_query(srv_fields *f, const char *const *ids, int n_ids, srv_filter *filter)
{
    srv_filter_read(f, filter);
    const sp_retrieve_query q = {.text = srv_field_string(f, "query"),
                                 .k = (int)srv_field_int(f, "top_k", 5, 1, MOST_FOUND),
                                 .by = srv_field_string(f, "by"),
                                 .files = ids ? ids : filter->files,
                                 .n_files = ids ? n_ids : filter->n_files,
                                 .tags = filter->tags,
                                 .n_tags = filter->n_tags};
    if (!q.text) srv_fields_refuse(f, "query", "query must be a string");
    if (ids && filter->n_files)
        srv_fields_refuse(f, "filter", "filter: documents and a file are given, which say the same");
    return q;
}

srv_sent srv_search(srv_call *call)
{
    srv_fields f;
    srv_sent sent;
    srv_found in;
    srv_filter filter;
    int n_ids;
    json_t *body = srv_fields_parse(&f, call->body, call->n);
    if (!body) return srv_fields_reply(call, &f);
    const char **ids = take_ids(&f, &n_ids);
    const sp_retrieve_query q = read_query(&f, ids, n_ids, &filter);
    call->cache_salt = srv_field_string(&f, "cache_salt");
    const char *name = srv_field_string(&f, "collection");
    const bool found = name && srv_collection_read(call, &f, name, &in);
    srv_fields_only(&f, body, "", "query top_k by documents filter filters collection cache_salt");
    if (f.failed)
        sent = srv_fields_reply(call, &f);
    else if (ids && n_ids == 0) /* of no document */
        sent = srv_reply_json(call->connection, 200, found_json(&(sp_hits){0}, false));
    else
        sent = run(call, found ? &in : NULL, &q);
    free(ids);
    json_decref(body);
    return sent;
}
