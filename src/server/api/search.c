/* search.c -- POST /v1/search: the chunks of registered documents that answer a question best. */
#include <stdlib.h>

#include "server/api/answer.h"
#include "server/api/collections.h"
#include "server/api/documents.h"
#include "server/api/routes.h"

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

static json_t *found_json(const sp_hits *hits)
{
    json_t *data = json_array();
    for (int i = 0; i < hits->n; i++)
        json_array_append_new(data, json_pack("{s:s, s:s, s:s, s:f}", "document", hits->v[i].file, "title",
                                              hits->v[i].title, "text", hits->v[i].text, "score",
                                              hits->v[i].score));
    return json_pack("{s:s, s:o}", "object", "list", "data", data);
}

/* fail -- what the library says. */
static srv_sent fail(const srv_call *call, sp_err err)
{
    const char *code;
    const int status = srv_error_status(err, &code);
    return srv_reply_error(call->connection, status, NULL, code, sp_error_detail());
}

/* run_in_collection -- with the chunks' numbers; the ids of documents are files and folders. */
static srv_sent run_in_collection(const srv_call *call, srv_fields *f, sp_retriever *in, const sp_documents_query *q)
{
    sp_hits hits;
    const sp_retrieve_query asked = {.text = q->text,
                                     .k = q->k,
                                     .by = srv_field_string(f, "by"),
                                     .files = q->ids,
                                     .n_files = q->n_ids};
    sp_err err = sp_retriever_search(in, &asked, &hits);
    if (err != SP_OK) return fail(call, err);
    json_t *o = found_json(&hits);
    for (int i = 0; i < hits.n; i++)
        json_object_set_new(json_array_get(json_object_get(o, "data"), (size_t)i), "chunk",
                            json_integer(hits.v[i].id));
    sp_hits_fini(&hits);
    return srv_reply_json(call->connection, 200, o);
}

/* run -- a search in the cache that `salt` names. */
static srv_sent run(const srv_call *call, const char *salt, const sp_documents_query *q)
{
    sp_hits hits;
    sp_err err = sp_documents_search(call->s->documents, salt, q, &hits);
    if (err != SP_OK) return fail(call, err);
    json_t *o = found_json(&hits);
    sp_hits_fini(&hits);
    return srv_reply_json(call->connection, 200, o);
}

srv_sent srv_search(srv_call *call)
{
    srv_fields f;
    srv_sent sent;
    char *salt = NULL;
    json_t *body = srv_fields_parse(&f, call->body, call->n);
    if (!body) return srv_fields_reply(call, &f);
    sp_documents_query q = {.text = srv_field_string(&f, "query"),
                            .k = (int)srv_field_int(&f, "top_k", 5, 1, MOST_FOUND)};
    const char **ids = take_ids(&f, &q.n_ids);
    q.ids = ids;
    call->cache_salt = srv_field_string(&f, "cache_salt");
    if (!q.text) srv_fields_refuse(&f, "query", "query must be a string");
    const char *name = srv_field_string(&f, "collection");
    sp_retriever *in = name ? srv_collection_find(call->s, name) : NULL;
    if (name && !in) srv_fields_refuse(&f, "collection", "there is no collection \"%.64s\"", name);
    if (f.failed)
        sent = srv_fields_reply(call, &f);
    else if (q.ids && q.n_ids == 0) /* of no document */
        sent = srv_reply_json(call->connection, 200, found_json(&(sp_hits){0}));
    else if (in)
        sent = run_in_collection(call, &f, in, &q);
    else if (!srv_salt_of(call, &salt))
        sent = srv_reply_error(call->connection, 503, NULL, "out_of_memory", "out of memory");
    else
        sent = run(call, salt, &q);
    free(salt);
    free(ids);
    json_decref(body);
    return sent;
}
