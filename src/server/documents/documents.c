#include "server/documents/documents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "server/body/upload.h"
#include "server/documents/idle.h"
#include "server/documents/side.h"
#include "server/documents/watch.h"
#include "server/documents/work.h"
#include "server/http/reply.h"

#define DELETE_US   10000000 /* how long a deletion waits for requests */
#define MOST_LISTED 1000
#define PREFIX      "/v1/documents/"
#define COLLECTIONS "/v1/collections/"
#define COMPUTE     "/precompute"

/* One call about documents. */
typedef struct query {
    srv_call *call;
    sp_documents *d;
    char *salt;   /* owned; NULL: none */
    char *id;     /* owned; NULL: all. In a collection: COLLECTION/ID */
    char *collection; /* owned; NULL: none */
    bool compute; /* the path ends with /precompute */
} query;

/* -- opening ----------------------------------------------------------------------------------- */

bool srv_documents_open(srv_server *s)
{
    const sp_documents_opts o = {.path = s->o.documents_path,
                                 .size_words = s->o.size_words,
                                 .overlap_words = s->o.overlap_words,
                                 .embedder = s->o.models.embedder};
    sp_err err = sp_documents_open(s->ctx, &o, &s->documents);
    if (err != SP_OK) return cli_fail(err), false;
    if (srv_work_open(s->documents, &s->work)) return true;
    return cli_fail_with("out of memory for documents"), false;
}

void srv_documents_close(srv_server *s)
{
    srv_work_close(s->work);
    sp_documents_close(s->documents);
}

/* -- the query --------------------------------------------------------------------------------- */

static const char *argument(const query *q, const char *name)
{
    return MHD_lookup_connection_value(q->call->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* id_of -- the end of a path: of a document, or of its copies. NULL: there is none. */
static const char *id_of(const char *path)
{
    if (strncmp(path, PREFIX, strlen(PREFIX)) == 0) return path + strlen(PREFIX);
    if (strncmp(path, COLLECTIONS, strlen(COLLECTIONS)) != 0) return NULL;
    const char *rest = strchrnul(path + strlen(COLLECTIONS), '/'); /* "/documents/ID" */
    const char *slash = *rest ? strchr(rest + 1, '/') : NULL;
    return slash && slash[1] ? slash + 1 : NULL;
}

/* is_of_copies -- not of the document itself, whose id may be "precompute". */
static bool is_of_copies(const srv_call *call)
{
    const char *id = id_of(call->path);
    const size_t n = id ? strlen(id) : 0, n_end = strlen(COMPUTE);
    return n > n_end && strcmp(id + n - n_end, COMPUTE) == 0;
}

/* take_path -- "/v1/documents[/ID]", "/v1/collections/NAME/documents[/ID]". False: out of memory. */
static bool take_path(query *q, const char *path)
{
    const char *id = id_of(path);
    if (strncmp(path, PREFIX, strlen(PREFIX)) == 0) return (q->id = strdup(id));
    if (strncmp(path, COLLECTIONS, strlen(COLLECTIONS)) != 0) return true;
    path += strlen(COLLECTIONS);
    q->collection = strndup(path, (size_t)(strchrnul(path, '/') - path));
    if (!q->collection || !id) return q->collection;
    return asprintf(&q->id, "%s/%s", q->collection, id) >= 0;
}

/* own_id -- without the collection. */
static const char *own_id(const query *q, const char *id)
{
    return q->collection ? id + strlen(q->collection) + 1 : id;
}

/* open_query -- false: out of memory. */
static bool open_query(query *q, srv_call *call)
{
    *q = (query){.call = call, .d = call->s->documents};
    if (!call->cache_salt) call->cache_salt = argument(q, "cache_salt");
    if (!srv_salt_of(call, &q->salt)) return false;
    if (!take_path(q, call->path)) return false;
    q->compute = is_of_copies(call);
    if (q->compute) q->id[strlen(q->id) - strlen(COMPUTE)] = '\0';
    return true;
}

static void close_query(query *q)
{
    free(q->salt);
    free(q->id);
    free(q->collection);
}

static srv_sent refuse(const query *q, const srv_fields *f)
{
    return srv_fields_reply(q->call, f);
}

/* fail_at -- param: the field of the body that is wrong, or NULL. */
static srv_sent fail_at(const query *q, sp_err err, const char *param)
{
    const char *code;
    int status = srv_error_status(err, &code);
    if (err == SP_E_NOTFOUND)
        status = 404,
        code = strstr(sp_error_detail(), "no collection") ? "collection_not_found" : "document_not_found";
    return srv_reply_error(q->call->connection, status, status == 400 ? param : NULL, code, sp_error_detail());
}

static srv_sent fail(const query *q, sp_err err)
{
    return fail_at(q, err, NULL);
}

static srv_sent fail_memory(const query *q)
{
    return srv_reply_error(q->call->connection, 503, NULL, "out_of_memory", "out of memory");
}

/* -- JSON -------------------------------------------------------------------------------------- */

static json_t *progress_json(const srv_progress *p)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s*}", "status", srv_phase_name(p->phase), "done",
                     (json_int_t)p->done, "total", (json_int_t)p->total, "computed",
                     (json_int_t)p->sum.n_computed, "known", (json_int_t)p->sum.n_known, "error",
                     *p->why ? p->why : NULL);
}

json_t *srv_tags_json(const char *lines)
{
    json_t *list = json_array();
    for (const char *end; *lines; lines = end + 1) {
        end = strchr(lines, '\n');
        json_array_append_new(list, json_stringn(lines, (size_t)(end - lines)));
    }
    return list;
}

static json_t *info_json(const query *q, const sp_document_info *i, bool whole)
{
    srv_progress p;
    json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:o, s:I, s:I, s:I, s:b}", "id", own_id(q, i->id), "object",
                          "document", "title", i->title, "created", (json_int_t)i->created_s,
                          "expires", i->expires_s ? json_integer(i->expires_s) : json_null(),
                          "bytes", (json_int_t)i->n_bytes, "chunks", (json_int_t)i->n_chunks,
                          "tokens", (json_int_t)i->n_tokens, "pinned", (int)i->pinned);
    if (o && whole)
        json_object_set_new(o, "copies",
                            json_pack("{s:I, s:I}", "device", (json_int_t)i->n_device, "store",
                                      (json_int_t)i->n_store));
    if (o && q->collection) {
        json_object_set_new(o, "collection", json_string(q->collection));
        json_object_set_new(o, "file", json_string(i->file));
        json_object_set_new(o, "tags", srv_tags_json(i->tags));
    }
    if (o && srv_work_get(q->call->s->work, q->salt, i->id, &p))
        json_object_set_new(o, "precompute", progress_json(&p));
    return o;
}

static srv_sent reply_one(const query *q, int status, const char *id)
{
    sp_document_list l;
    sp_err err = sp_documents_get(q->d, q->salt, id, &l);
    if (err != SP_OK) return fail(q, err);
    json_t *o = info_json(q, &l.v[0], true);
    sp_document_list_fini(&l);
    return srv_reply_json(q->call->connection, status, o);
}

/* -- precompute -------------------------------------------------------------------------------- */

/* read_order -- fields of {"system", "fuse", "bare"}; true: all defaults. where: what has the object. */
static srv_work_item read_order(srv_fields *f, const json_t *o, const char *where)
{
    srv_fields inner = {.object = o};
    const char *system = srv_field_string(&inner, "system");
    const srv_work_item new = {.system = system ? system : CLI_SYSTEM_TEXT,
                               .n_fuse = (int)srv_field_int(&inner, "fuse", 0, 0, 64),
                               .bare = srv_field_bool(&inner, "bare", false)};
    srv_fields_only(f, o, where, "system fuse bare");
    if (inner.failed) {
        char param[sizeof inner.param + 16];
        snprintf(param, sizeof param, "%s%s%s", where, *where ? "." : "", inner.param);
        srv_fields_refuse(f, param, "%s", inner.why);
    }
    return new;
}

/* order -- false after an error in *f. */
static bool order(const query *q, srv_fields *f, srv_work_item new, const char *id)
{
    new.salt = q->salt;
    new.id = id;
    if (!f->failed && !srv_work_add(q->call->s->work, &new))
        srv_fields_refuse(f, "precompute", "this document is being computed, or too many wait");
    return !f->failed;
}

static srv_sent reply_progress(const query *q)
{
    srv_progress p;
    if (!srv_work_get(q->call->s->work, q->salt, q->id, &p))
        return srv_reply_error(q->call->connection, 404, NULL, "not_found",
                               "no copies of this document are being computed, or were");
    return srv_reply_json(q->call->connection, 200, progress_json(&p));
}

static srv_sent start_compute(query *q)
{
    srv_fields f = {0};
    sp_document_list l;
    json_t *body = q->call->n ? srv_fields_parse(&f, q->call->body, q->call->n) : json_object();
    if (!body) return q->call->n ? refuse(q, &f) : fail_memory(q);
    sp_err err = sp_documents_get(q->d, q->salt, q->id, &l);
    if (err == SP_OK) sp_document_list_fini(&l);
    bool good = err == SP_OK && order(q, &f, read_order(&f, body, ""), q->id);
    json_decref(body);
    if (err != SP_OK) return fail(q, err);
    return good ? srv_reply_json(q->call->connection, 202, json_pack("{s:s}", "status", "queued"))
                : refuse(q, &f);
}

static srv_sent compute(query *q)
{
    const char *method = q->call->method, *stream = argument(q, "stream");
    if (strcmp(method, "POST") == 0) return start_compute(q);
    if (strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0)
        return srv_reply_method(q->call, "GET, HEAD, POST, DELETE");
    if (strcmp(method, "DELETE") == 0) srv_work_cancel(q->call->s->work, q->salt, q->id);
    if (strcmp(method, "GET") == 0 && stream && strcmp(stream, "true") == 0)
        return srv_watch_reply(q->call, q->salt, q->id);
    return reply_progress(q);
}

/* -- registering ------------------------------------------------------------------------------- */

/* What a tenant has registered, except the document that is replaced. */
typedef struct possessions {
    int64_t documents, bytes;
} possessions;

/* count_collections -- those in collections. */
static sp_err count_collections(const query *q, const char *but, possessions *out)
{
    sp_collection_list all;
    sp_document_list replaced;
    sp_err err = sp_collections(q->d, q->salt, NULL, &all);
    if (err != SP_OK) return err;
    for (int i = 0; i < all.n; i++) {
        out->documents += all.v[i].n_documents;
        out->bytes += all.v[i].n_bytes;
    }
    sp_collection_list_fini(&all);
    if (!but || !strchr(but, '/') || sp_documents_get(q->d, q->salt, but, &replaced) != SP_OK) return SP_OK;
    out->documents--;
    out->bytes -= replaced.v[0].n_bytes;
    sp_document_list_fini(&replaced);
    return SP_OK;
}

static sp_err count_owned(const query *q, const char *but, possessions *out)
{
    char *after = NULL;
    sp_err err = count_collections(q, but, out);
    for (bool more = true; more && err == SP_OK;) {
        sp_document_list l;
        err = sp_documents_list(q->d, q->salt, after, MOST_LISTED, &l);
        if (err != SP_OK) break;
        for (int i = 0; i < l.n; i++) {
            if (but && strcmp(l.v[i].id, but) == 0) continue;
            out->documents++;
            out->bytes += l.v[i].n_bytes;
        }
        free(after);
        after = l.n == MOST_LISTED ? strdup(l.v[l.n - 1].id) : NULL;
        more = after != NULL;
        sp_document_list_fini(&l);
    }
    free(after);
    return err;
}

/* check_limits -- of the key; false: it has been replied, *sent. A file counts with its own size here, later with the
 * text that was read from it. */
static bool check_limits(const query *q, const sp_document_new *n, srv_sent *sent)
{
    char why[128] = "";
    possessions own = {0};
    const srv_limits *l = &q->call->tenant->limits;
    if (!l->documents && !l->bytes) return true;
    int64_t more = (int64_t)(n->text ? strlen(n->text) : n->n_data);
    sp_err err = count_owned(q, n->replace ? q->id : NULL, &own);
    if (err != SP_OK) {
        *sent = fail(q, err);
        return false;
    }
    if (l->documents && own.documents >= l->documents)
        snprintf(why, sizeof why, "this key may have %lld documents", (long long)l->documents);
    else if (l->bytes && own.bytes + more > l->bytes)
        snprintf(why, sizeof why, "this key may have documents of %lld bytes", (long long)l->bytes);
    if (!*why) return true;
    *sent = srv_reply_error(q->call->connection, 429, NULL, "insufficient_quota", why);
    return false;
}

/* put_counted -- registers within the limits of the key; one thread at a time counts its documents. False: the reply
 * has been sent. */
static bool put_counted(const query *q, const sp_document_new *n, sp_document_list *l, sp_err *err, srv_sent *sent)
{
    const srv_limits *limits = &q->call->tenant->limits;
    pthread_mutex_t *lock = limits->documents || limits->bytes ? &q->call->s->counting : NULL;
    if (lock) pthread_mutex_lock(lock);
    bool fits = check_limits(q, n, sent);
    if (fits) *err = sp_documents_put(q->d, q->salt, n, l);
    if (lock) pthread_mutex_unlock(lock);
    return fits;
}

/* name_new -- the id of a body, after the collection. False: out of memory. */
static bool name_new(query *q, const char *id)
{
    if (q->collection) return asprintf(&q->id, "%s/%s", q->collection, id) >= 0;
    return (q->id = strdup(id));
}

/* embed -- computes the vectors of a new document. Vectors that fail, because the client is gone or memory is out, are
 * computed later (idle.c). */
static void embed(const query *q, const char *id)
{
    srv_found c = {0};
    if (!q->collection) return;
    strncat(c.name, q->collection, SRV_MAX_NAME);
    srv_idle_note(q->call, &c);
    srv_side *side = q->call->s->o.models.embedder ? srv_side_begin(q->call) : NULL;
    if (!side) return;
    const sp_embed_opts o = srv_side_opts(side);
    const sp_err err = sp_collection_embed(q->d, q->salt, id, &o, NULL);
    (void)err;
    srv_side_end(q->call, side);
}

/* is_taken -- whether a document that replaces none has an id that exists. */
static bool is_taken(const query *q, const sp_document_new *n)
{
    sp_document_list l;
    if (!n->id || n->replace || sp_documents_get(q->d, q->salt, q->id, &l) != SP_OK) return false;
    sp_document_list_fini(&l);
    return true;
}

static srv_sent refuse_taken(const query *q)
{
    return srv_reply_error(q->call->connection, 409, "id", "document_exists",
                           "there is a document with this id; replace it with \"replace\": true");
}

/* refused_field -- the field of a new document that the library's message is about. */
static const char *refused_field(const srv_upload *u)
{
    const char *why = sp_error_detail();
    if (strncmp(why, "document: an id", 15) == 0 || strncmp(why, "document: the id", 16) == 0) return "id";
    if (strncmp(why, "document: ", 10) == 0 && strstr(why, " tag")) return "tags";
    return u->name ? "file" : "text";
}

/* put -- 409 for an id that is taken; the id of PUT's path replaces, and a body has that id or none. computes: as
 * `wanted` says. */
static srv_sent put(query *q, srv_upload *u, srv_fields *f, bool computes, const srv_work_item *wanted)
{
    sp_document_list l;
    sp_document_new *n = &u->document;
    if (q->id && n->id && strcmp(n->id, own_id(q, q->id)) != 0) {
        srv_fields_refuse(f, "id", "id is \"%.80s\", and the path names another document", n->id);
        return refuse(q, f);
    }
    if (q->id) n->id = own_id(q, q->id), n->replace = true;
    n->collection = q->collection;
    if (!q->id && n->id && !name_new(q, n->id)) return fail_memory(q);
    if (is_taken(q, n)) return refuse_taken(q);
    sp_err err = SP_OK;
    srv_sent refused;
    if (!put_counted(q, n, &l, &err, &refused)) return refused;
    if (err == SP_E_ARG && strstr(sp_error_detail(), "\" already")) return refuse_taken(q); /* by a call meanwhile */
    if (err == SP_E_CANCELED)
        return srv_reply_error(q->call->connection, 409, NULL, "document_deleted", sp_error_detail());
    if (err != SP_OK) return fail_at(q, err, refused_field(u));
    bool good = true;
    if (!n->arrival->replaced) {
        srv_work_forget(q->call->s->work, q->salt, l.v[0].id);
        embed(q, l.v[0].id);
        good = !computes || order(q, f, *wanted, l.v[0].id);
    }
    json_t *o = good ? info_json(q, &l.v[0], true) : NULL;
    sp_document_list_fini(&l);
    return good ? srv_reply_json(q->call->connection, 201, o) : refuse(q, f);
}

static srv_sent refuse_change(const srv_call *call)
{
    return srv_reply_error(call->connection, 409, NULL, "store_read_only",
                           "registered documents are on a read-only file system: they can be read, not changed");
}

/* read_precompute -- "precompute" of a new document: true, false, or an object; whether it asks for anything. */
static bool read_precompute(srv_fields *f, srv_work_item *out)
{
    const json_t *o = srv_field(f, "precompute");
    const bool flag = !json_is_object(o) && srv_upload_flag(f, "precompute");
    if (flag || json_is_object(o)) *out = read_order(f, json_is_object(o) ? o : NULL, "precompute");
    return flag || json_is_object(o);
}

static srv_sent register_document(srv_call *call)
{
    srv_fields f;
    srv_upload u;
    query q = {.call = call};
    srv_work_item wanted = {0};
    sp_documents_arrival arrival;
    sp_documents_arrive(call->s->documents, &arrival);
    srv_upload_read(&u, &f, call);
    u.document.arrival = &arrival;
    const bool computes = !f.failed && read_precompute(&f, &wanted);
    if (!f.failed) call->cache_salt = srv_field_string(&f, "cache_salt");
    if (call->cache_salt && (call->tenant->limits.documents || call->tenant->limits.bytes))
        srv_fields_refuse(&f, "cache_salt", "cache_salt: a key with limits of documents registers them without one");
    srv_sent sent;
    if (f.failed)
        sent = refuse(&q, &f);
    else if (!open_query(&q, call))
        sent = fail_memory(&q);
    else
        sent = put(&q, &u, &f, computes, &wanted);
    sp_documents_depart(&arrival);
    close_query(&q);
    srv_upload_fini(&u);
    return sent;
}

/* -- the others -------------------------------------------------------------------------------- */

static srv_sent list(query *q)
{
    int limit;
    sp_document_list l;
    if (!srv_query_limit(q->call, 100, MOST_LISTED, &limit))
        return srv_reply_error(q->call->connection, 400, "limit", NULL,
                               "limit must be between 1 and 1000");
    const char *after = argument(q, "after");
    sp_err err = q->collection ? sp_collection_documents(q->d, q->salt, q->collection, after, limit + 1, &l)
                               : sp_documents_list(q->d, q->salt, after, limit + 1, &l);
    if (err != SP_OK) return fail(q, err);
    json_t *data = json_array();
    for (int i = 0; i < l.n && i < limit; i++)
        json_array_append_new(data, info_json(q, &l.v[i], false));
    json_t *o =
        json_pack("{s:s, s:o, s:b}", "object", "list", "data", data, "has_more", l.n > limit);
    sp_document_list_fini(&l);
    return srv_reply_json(q->call->connection, 200, o);
}

static srv_sent change(query *q)
{
    srv_fields f;
    sp_err err = SP_OK;
    json_t *body = srv_fields_parse(&f, q->call->body, q->call->n);
    if (!body) return refuse(q, &f);
    bool has_pin = srv_field(&f, "pinned"), has_ttl = srv_field(&f, "ttl_seconds");
    bool pinned = srv_field_bool(&f, "pinned", false);
    json_int_t ttl = srv_field_int(&f, "ttl_seconds", 0, 0, 100LL * 366 * 86400);
    srv_fields_only(&f, body, "", "pinned ttl_seconds");
    json_decref(body);
    if (f.failed) return refuse(q, &f);
    if (has_pin) err = sp_documents_pin(q->d, q->salt, q->id, pinned);
    if (err == SP_OK && has_ttl) err = sp_documents_expire(q->d, q->salt, q->id, ttl);
    return err == SP_OK ? reply_one(q, 200, q->id) : fail(q, err);
}

/* delete -- 202 while requests still read it: the rest is erased when they end. */
static srv_sent delete (query *q)
{
    sp_documents_removed n;
    srv_work_cancel(q->call->s->work, q->salt, q->id);
    sp_err err = sp_documents_remove(q->d, q->salt, q->id, DELETE_US, &n);
    if (err == SP_OK) srv_work_forget(q->call->s->work, q->salt, q->id);
    if (err == SP_E_UNSUPPORTED)
        return srv_reply_error(q->call->connection, 409, NULL, "store_read_only", sp_error_detail());
    if (err != SP_OK) return fail(q, err);
    return srv_reply_json(q->call->connection, n.n_pending ? 202 : 200,
                          json_pack("{s:s, s:s, s:b, s:{s:I, s:I, s:I}}", "id", own_id(q, q->id), "object",
                                    "document.deleted", "deleted", n.n_pending == 0, "erased",
                                    "device", (json_int_t)n.n_device, "store",
                                    (json_int_t)n.n_store, "pending", (json_int_t)n.n_pending));
}

static srv_sent run_one(query *q)
{
    const char *method = q->call->method;
    if (q->compute) return compute(q);
    if (strcmp(method, "DELETE") == 0) return delete (q);
    if (strcmp(method, "PATCH") == 0) return change(q);
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) return reply_one(q, 200, q->id);
    return srv_reply_method(q->call, "GET, HEAD, PUT, PATCH, DELETE");
}

static bool is_change(const srv_call *call)
{
    return !is_of_copies(call) && strcmp(call->method, "GET") != 0 && strcmp(call->method, "HEAD") != 0;
}

srv_sent srv_documents_one(srv_call *call)
{
    query q;
    if (is_change(call) && !sp_documents_writes(call->s->documents)) return refuse_change(call);
    if (strcmp(call->method, "PUT") == 0 && !is_of_copies(call)) return register_document(call);
    srv_sent sent = open_query(&q, call) ? run_one(&q) : fail_memory(&q);
    close_query(&q);
    return sent;
}

srv_sent srv_documents_all(srv_call *call)
{
    query q;
    if (is_change(call) && !sp_documents_writes(call->s->documents)) return refuse_change(call);
    if (strcmp(call->method, "POST") == 0) return register_document(call);
    srv_sent sent = open_query(&q, call) ? list(&q) : fail_memory(&q);
    close_query(&q);
    return sent;
}
