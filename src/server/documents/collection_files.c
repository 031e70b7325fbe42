/* collection_files.c -- the files of a --collection, as /v1/documents lists documents. */
#include <stdlib.h>
#include <string.h>

#include "server/documents/collections.h"
#include "server/documents/documents.h"
#include "server/http/reply.h"

enum { LISTED = 100, MOST_LISTED = 1000 };

/* file_json -- as a document of an uploaded collection; its tokens are not counted before it is used. */
static json_t *file_json(const srv_collection *c, const sp_file_info *i)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:n, s:I, s:I, s:n, s:b, s:s, s:s, s:o}", "id", i->name, "object",
                     "document", "title", "", "created", (json_int_t)i->changed_s, "expires", "bytes",
                     (json_int_t)i->n_bytes, "chunks", (json_int_t)i->n_chunks, "tokens", "pinned", 0, "collection",
                     c->name, "file", i->name, "tags", srv_tags_json(i->tags));
}

static srv_sent fail(const srv_call *call, sp_err err)
{
    const char *code;
    int status = srv_error_status(err, &code);
    if (err == SP_E_NOTFOUND) status = 404, code = "document_not_found";
    return srv_reply_error(call->connection, status, NULL, code, sp_error_detail());
}

static const char *argument(const srv_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, name);
}

static srv_sent list(const srv_call *call, const srv_collection *c)
{
    int limit;
    sp_file_list l;
    if (!srv_query_limit(call, LISTED, MOST_LISTED, &limit))
        return srv_reply_error(call->connection, 400, "limit", NULL, "limit must be between 1 and 1000");
    const sp_file_query q = {.after = argument(call, "after"), .limit = limit + 1};
    sp_err err = sp_retriever_files(c->retriever, &q, &l);
    if (err != SP_OK) return fail(call, err);
    json_t *data = json_array();
    for (int i = 0; i < l.n && i < limit; i++) json_array_append_new(data, file_json(c, &l.v[i]));
    json_t *o = json_pack("{s:s, s:o, s:b}", "object", "list", "data", data, "has_more", l.n > limit);
    sp_file_list_fini(&l);
    return srv_reply_json(call->connection, 200, o);
}

srv_sent srv_collection_files(const srv_call *call, const srv_collection *c, const char *name)
{
    sp_file_list l;
    if (!name) return list(call, c);
    sp_err err = sp_retriever_files(c->retriever, &(sp_file_query){.name = name}, &l);
    if (err != SP_OK) return fail(call, err);
    json_t *o = file_json(c, &l.v[0]);
    sp_file_list_fini(&l);
    return srv_reply_json(call->connection, 200, o);
}
