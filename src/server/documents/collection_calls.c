/* collection_calls.c -- /v1/collections. */
#include <stdlib.h>
#include <string.h>

#include "server/body/fields.h"
#include "server/documents/collections.h"
#include "server/documents/documents.h"
#include "server/documents/idle.h"
#include "server/http/reply.h"

#define PREFIX    "/v1/collections/"
#define DELETE_US 10000000 /* how long a deletion waits for requests */

/* -- JSON -------------------------------------------------------------------------------------- */

/* add_common -- what the server says of every collection. */
static json_t *add_common(const srv_call *call, const srv_found *c, json_t *o, int64_t n_vectors)
{
    const srv_options *has = &call->s->o;
    const srv_idle_report ahead = srv_idle_of(call, c);
    char *salt = NULL;
    int64_t n_retrieved = 0;
    if (c->served || srv_salt_of(call, &salt)) {
        const sp_err err = sp_collection_n_retrieved(call->s->documents, salt, c->name, &n_retrieved);
        (void)err; /* none are known */
    }
    free(salt);
    json_object_set_new(o, "retrieved", json_integer(n_retrieved));
    json_object_set_new(o, "ahead", json_pack("{s:I, s:I}", "passages", (json_int_t)ahead.n_planned, "done",
                                              (json_int_t)ahead.n_done));
    json_object_set_new(o, "embedding", has->models.embedder ? json_string(has->models.embedder_name) : json_null());
    json_object_set_new(o, "embedded", json_integer(n_vectors));
    json_object_set_new(o, "rerank", json_string(has->models.reranker ? has->models.reranker_name : has->alias));
    return o;
}

static json_t *served_json(const srv_call *call, const srv_collection *c)
{
    srv_found found = {.served = (srv_collection *)c};
    strncat(found.name, c->name, SRV_MAX_NAME);
    const sp_retriever_info i = sp_retriever_describe(c->retriever);
    json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b}", "name", c->name, "object", "collection", "created",
                          (json_int_t)call->s->started, "documents", (json_int_t)i.n_documents, "chunks",
                          (json_int_t)i.n_chunks, "bytes", (json_int_t)i.n_bytes, "writable", 0);
    return add_common(call, &found, o, i.n_vectors);
}

static json_t *created_json(const srv_call *call, const sp_collection_info *i)
{
    srv_found found = {0};
    strncat(found.name, i->name, SRV_MAX_NAME);
    json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:b}", "name", i->name, "object", "collection", "created",
                          (json_int_t)i->created_s, "documents", (json_int_t)i->n_documents, "chunks",
                          (json_int_t)i->n_chunks, "bytes", (json_int_t)i->n_bytes, "writable", 1);
    return add_common(call, &found, o, i->n_embedded);
}

/* -- replies ----------------------------------------------------------------------------------- */

static srv_sent fail(const srv_call *call, sp_err err)
{
    const char *code;
    int status = srv_error_status(err, &code);
    if (err == SP_E_NOTFOUND) status = 404, code = "collection_not_found";
    if (err == SP_E_UNSUPPORTED) status = 409, code = "store_read_only";
    return srv_reply_error(call->connection, status, NULL, code, sp_error_detail());
}

static srv_sent refuse_served(const srv_call *call)
{
    return srv_reply_error(call->connection, 409, NULL, "collection_read_only",
                           "this collection is an index of files (--collection): change them and restart the server");
}

/* reply_created -- replies with a collection that the key has created. */
static srv_sent reply_created(const srv_call *call, int status, const char *salt, const char *name)
{
    sp_collection_list l;
    sp_err err = sp_collections(call->s->documents, salt, name, &l);
    if (err != SP_OK) return fail(call, err);
    json_t *o = created_json(call, &l.v[0]);
    sp_collection_list_fini(&l);
    return srv_reply_json(call->connection, status, o);
}

static srv_sent list(const srv_call *call, const char *salt)
{
    int n;
    sp_collection_list l;
    const srv_collection *served = srv_collections_served(call->s, &n);
    sp_err err = sp_collections(call->s->documents, salt, NULL, &l);
    if (err != SP_OK) return fail(call, err);
    json_t *data = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(data, served_json(call, &served[i]));
    for (int i = 0; i < l.n; i++) json_array_append_new(data, created_json(call, &l.v[i]));
    sp_collection_list_fini(&l);
    return srv_reply_json(call->connection, 200, json_pack("{s:s, s:o}", "object", "list", "data", data));
}

/* -- changes ----------------------------------------------------------------------------------- */

/* check_new -- whether the key may create a collection of this name. False: the reply has been sent. */
static bool check_new(const srv_call *call, const char *salt, const char *name, srv_sent *sent)
{
    srv_found found;
    sp_collection_list l;
    sp_err err = srv_collection_find(call, name, strlen(name), &found);
    if (err == SP_OK) {
        *sent = srv_reply_error(call->connection, 409, "name", "collection_exists",
                                "there is a collection of this name");
        return false;
    }
    if (err == SP_E_NOTFOUND) err = sp_collections(call->s->documents, salt, NULL, &l);
    if (err != SP_OK) return *sent = fail(call, err), false;
    const bool full = l.n >= SRV_MAX_CREATED;
    sp_collection_list_fini(&l);
    if (full)
        *sent = srv_reply_error(call->connection, 429, NULL, "insufficient_quota", "a key may have 1000 collections");
    return !full;
}

/* create -- two calls at the same time: the library refuses the second. */
static srv_sent create(srv_call *call)
{
    srv_fields f;
    srv_sent sent;
    char *salt = NULL;
    json_t *body = srv_fields_parse(&f, call->body, call->n);
    if (!body) return srv_fields_reply(call, &f);
    const char *name = srv_field_string(&f, "name");
    call->cache_salt = srv_field_string(&f, "cache_salt");
    srv_fields_only(&f, body, "", "name cache_salt");
    if (!name) srv_fields_refuse(&f, "name", "name must be a string");
    if (call->cache_salt && (call->tenant->limits.documents || call->tenant->limits.bytes))
        srv_fields_refuse(&f, "cache_salt", "cache_salt: a key with limits of documents registers them without one");
    if (f.failed) {
        sent = srv_fields_reply(call, &f);
    } else if (!srv_salt_of(call, &salt)) {
        sent = fail(call, SP_E_NOMEM);
    } else if (check_new(call, salt, name, &sent)) {
        sp_err err = sp_collection_create(call->s->documents, salt, name);
        if (err == SP_OK)
            sent = reply_created(call, 201, salt, name);
        else
            sent = err == SP_E_ARG ? srv_reply_error(call->connection, 400, "name", NULL, sp_error_detail())
                                   : fail(call, err);
    }
    free(salt);
    json_decref(body);
    return sent;
}

/* delete -- 202 while requests still read it, as for a document. */
static srv_sent delete (const srv_call *call, const char *salt, const char *name)
{
    sp_documents_removed n;
    sp_err err = sp_collection_remove(call->s->documents, salt, name, DELETE_US, &n);
    if (err != SP_OK) return fail(call, err);
    return srv_reply_json(call->connection, n.n_pending ? 202 : 200,
                          json_pack("{s:s, s:s, s:b, s:{s:I, s:I, s:I}}", "name", name, "object", "collection.deleted",
                                    "deleted", n.n_pending == 0, "erased", "device", (json_int_t)n.n_device, "store",
                                    (json_int_t)n.n_store, "pending", (json_int_t)n.n_pending));
}

/* -- handlers ---------------------------------------------------------------------------------- */

static bool reads(const srv_call *call)
{
    return strcmp(call->method, "GET") == 0 || strcmp(call->method, "HEAD") == 0;
}

/* registers -- whether a call below a collection's documents registers one. */
static bool registers(const srv_call *call, bool with_id)
{
    return strcmp(call->method, with_id ? "PUT" : "POST") == 0;
}

static void take_salt(srv_call *call)
{
    call->cache_salt = MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, "cache_salt");
}

srv_sent srv_collections_all(srv_call *call)
{
    char *salt;
    if (!reads(call)) return create(call);
    take_salt(call);
    if (!srv_salt_of(call, &salt)) return fail(call, SP_E_NOMEM);
    srv_sent sent = list(call, salt);
    free(salt);
    return sent;
}

/* run_one -- a path that ends with the name. */
static srv_sent run_one(srv_call *call, const srv_found *c)
{
    char *salt;
    if (c->served && !reads(call)) return refuse_served(call);
    if (c->served) return srv_reply_json(call->connection, 200, served_json(call, c->served));
    if (!srv_salt_of(call, &salt)) return fail(call, SP_E_NOMEM);
    srv_sent sent = MHD_NO;
    if (reads(call))
        sent = reply_created(call, 200, salt, c->name);
    else if (strcmp(call->method, "DELETE") == 0)
        sent = delete (call, salt, c->name);
    else
        sent = srv_reply_error(call->connection, 405, NULL, NULL, "this path does not allow this method");
    free(salt);
    return sent;
}

srv_sent srv_collections_one(srv_call *call)
{
    static const char documents[] = "/documents";
    const char *name = call->path + strlen(PREFIX), *rest = strchrnul(name, '/');
    const bool with_id = strncmp(rest, documents, strlen(documents)) == 0 && rest[strlen(documents)] == '/' &&
                         rest[strlen(documents) + 1];
    srv_found c;
    take_salt(call);
    if (*rest && !with_id && strcmp(rest, documents) != 0)
        return srv_reply_error(call->connection, 404, NULL, "not_found", "there is no such path");
    const sp_err err = srv_collection_find(call, name, (size_t)(rest - name), &c);
    if (err != SP_OK && err != SP_E_NOTFOUND) return fail(call, err);
    const bool there = err == SP_OK;
    if (there && *rest && c.served && reads(call))
        return srv_collection_files(call, c.served, with_id ? rest + strlen(documents) + 1 : NULL);
    if (there && *rest && c.served) return refuse_served(call);
    if (there && !*rest) return run_one(call, &c);
    if (!there && !(*rest && registers(call, with_id)))
        return srv_reply_error(call->connection, 404, NULL, "collection_not_found", "there is no such collection");
    return with_id ? srv_documents_one(call) : srv_documents_all(call); /* a registration reads its body first */
}
