/* chroma.c -- vectors in a collection of a Chroma server, over its HTTP API (v2).
 *
 *   url         http://HOST:PORT/COLLECTION, or .../TENANT/DATABASE/COLLECTION
 *   records     ids are our ids in decimal; no texts, no metadata of records
 *   collection  space "cosine"; metadata spolia_mark is its index's number, so that two indexes never write into
 *               one collection, and a collection of another program is not touched
 *
 * A collection is created with the first vectors. The server searches in its own way (HNSW), in one stage. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/http.h"
#include "base/json.h"
#include "retrieve/vectors/vectors_int.h"

enum {
    TIMEOUT_MS = 30000,
    ADD_AT_ONCE = 256,     /* vectors of a request; the least that a server refuses is 5,461 */
    NAME_AT_ONCE = 4096,   /* ids of a request */
    MOST_IDLE = 8,         /* connections that are kept */
    MOST_ANSWERS = 100000  /* k of a search */
};

struct sp_chroma {
    sp_bytes server, path; /* strings: "http://HOST:PORT", "/api/v2/tenants/T/databases/D/collections" */
    char name[513], id[65], token[4096];
    int64_t mark;
    int n_dims;
    size_t n; /* records; the caller's changes are counted */
    pthread_mutex_t lock; /* guards idle, n_idle: several threads search */
    sp_http *idle[MOST_IDLE];
    int n_idle;
};

/* -- requests ---------------------------------------------------------------------------------- */

static sp_err take(sp_chroma *c, sp_http **out)
{
    *out = NULL;
    pthread_mutex_lock(&c->lock);
    if (c->n_idle) *out = c->idle[--c->n_idle];
    pthread_mutex_unlock(&c->lock);
    return *out ? SP_OK : sp_http_open(c->server.v, TIMEOUT_MS, out);
}

static void put_back(sp_chroma *c, sp_http *h)
{
    pthread_mutex_lock(&c->lock);
    const bool keep = c->n_idle < MOST_IDLE;
    if (keep) c->idle[c->n_idle++] = h;
    pthread_mutex_unlock(&c->lock);
    if (!keep) sp_http_close(h);
}

/* parse -- *out is NULL for an answer without a body. */
static sp_err parse(const char *path, const sp_bytes *reply, json_t **out)
{
    json_error_t why;
    *out = reply->n ? sp_json_load(reply->v, reply->n, JSON_DECODE_ANY, &why) : NULL;
    if (*out || !reply->n) return SP_OK;
    return sp_fail(sp_json_code(&why, SP_E_FORMAT), "%s: the answer is not JSON: %s", path, why.text);
}

/* ask -- *out: json_decref. *status, where it is not NULL, is the status of an answer that is no success, too. */
static sp_err ask(sp_chroma *c, const char *method, const char *path, const sp_bytes *body, json_t **out,
                  long *status)
{
    sp_http *h;
    sp_bytes reply = {0};
    SP_TRY(take(c, &h));
    const sp_http_request r = {.method = method,
                               .path = path,
                               .accept = "application/json",
                               .type = "application/json",
                               .header = *c->token ? c->token : NULL,
                               .body = body ? body->v : NULL,
                               .n = body ? body->n : 0};
    sp_err err = sp_http_send(h, &r, &reply);
    if (status) *status = sp_http_status(h);
    if (err == SP_OK) err = parse(path, &reply, out);
    put_back(c, h);
    sp_vec_fini(&reply);
    return err;
}

/* ask_records -- of the collection: its path, then what. */
static sp_err ask_records(sp_chroma *c, const char *method, const char *what, const sp_bytes *body, json_t **out)
{
    sp_bytes path = {0};
    sp_err err = sp_bytes_addf(&path, "%s/%s/%s%c", c->path.v, c->id, what, '\0');
    if (err == SP_OK) err = ask(c, method, path.v, body, out, NULL);
    sp_vec_fini(&path);
    return err;
}

static sp_err no_member(const sp_chroma *c, const char *member)
{
    return sp_fail(SP_E_FORMAT, "%s, collection %s: the answer has no %s", c->server.v, c->name, member);
}

/* -- opening ----------------------------------------------------------------------------------- */

/* is_part -- of a URL's path, with nothing that another part or a query would begin with. */
static bool is_part(const char *s, size_t n)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    for (size_t i = 0; i < n; i++)
        if (!strchr(good, s[i])) return false;
    return n > 0 && n <= 512;
}

/* read_url -- into server, path and name. */
static sp_err read_url(sp_chroma *c, const char *url)
{
    const char *host = strstr(url, "://"), *part[4] = {"default_tenant", "default_database"}, *at;
    size_t n[4] = {strlen(part[0]), strlen(part[1])}, n_parts = 0;
    const bool good = host && (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0);
    at = good ? strchr(host + 3, '/') : NULL;
    if (!at || at == host + 3 || memchr(url, '@', (size_t)(at - url)))
        return sp_fail(SP_E_ARG, "%s: not http://HOST:PORT/COLLECTION", url);
    SP_TRY(sp_bytes_addf(&c->server, "%.*s%c", (int)(at - url), url, '\0'));
    const bool all = strchr(at + 1, '/') != NULL;
    for (n_parts = all ? 0 : 2; *at == '/' && n_parts < 3; n_parts++, at += n[n_parts - 1] + 1) {
        part[n_parts] = at + 1;
        n[n_parts] = strcspn(at + 1, "/");
    }
    for (int i = 0; i < 3; i++)
        if (*at || n_parts != 3 || !is_part(part[i], n[i]))
            return sp_fail(SP_E_ARG, "%s: not http://HOST:PORT/COLLECTION or .../TENANT/DATABASE/COLLECTION", url);
    snprintf(c->name, sizeof c->name, "%.*s", (int)n[2], part[2]);
    return sp_bytes_addf(&c->path, "/api/v2/tenants/%.*s/databases/%.*s/collections%c", (int)n[0], part[0], (int)n[1],
                         part[1], '\0');
}

/* take_collection -- reads the server's description. Errors: SP_E_ARG (not this index's), SP_E_FORMAT. */
static sp_err take_collection(sp_chroma *c, const json_t *o)
{
    const char *id = json_string_value(json_object_get(o, "id"));
    const json_t *mark = json_object_get(json_object_get(o, "metadata"), "spolia_mark");
    if (!id || !is_part(id, strlen(id)) || strlen(id) >= sizeof c->id) return no_member(c, "id");
    if (!json_is_integer(mark) || json_integer_value(mark) != c->mark)
        return sp_fail(SP_E_ARG, "%s: collection %s is not this index's: name another one, or delete it", c->server.v,
                       c->name);
    snprintf(c->id, sizeof c->id, "%s", id);
    return SP_OK;
}

static sp_err count(sp_chroma *c)
{
    json_t *n = NULL;
    SP_TRY(ask_records(c, "GET", "count", NULL, &n));
    sp_err err = json_is_integer(n) && json_integer_value(n) >= 0 ? SP_OK : no_member(c, "count");
    if (err == SP_OK) c->n = (size_t)json_integer_value(n);
    json_decref(n);
    return err;
}

/* find -- the collection, if there is one. */
static sp_err find(sp_chroma *c)
{
    sp_bytes path = {0};
    json_t *o = NULL;
    long status = 0;
    sp_err err = sp_bytes_addf(&path, "%s/%s%c", c->path.v, c->name, '\0');
    if (err == SP_OK) err = ask(c, "GET", path.v, NULL, &o, &status);
    sp_vec_fini(&path);
    if (status == 404) return SP_OK; /* the first vectors create it */
    if (err == SP_OK) err = take_collection(c, o);
    if (err == SP_OK) err = count(c);
    json_decref(o);
    return err;
}

sp_err sp_chroma_open(const sp_vectors_opts *o, sp_chroma **out)
{
    const char *token = getenv("SPOLIA_CHROMA_TOKEN");
    sp_chroma *c = SP_NEW(sp_chroma);
    if (!c) return sp_fail_nomem("vectors");
    pthread_mutex_init(&c->lock, NULL);
    c->mark = o->mark;
    c->n_dims = o->n_dims;
    const int n = token && *token ? snprintf(c->token, sizeof c->token, "x-chroma-token: %s", token) : 0;
    sp_err err = n < (int)sizeof c->token ? read_url(c, o->url ? o->url : "")
                                          : sp_fail(SP_E_ARG, "SPOLIA_CHROMA_TOKEN is too long");
    if (err == SP_OK) err = find(c);
    if (err == SP_OK)
        *out = c;
    else
        sp_chroma_close(c);
    return err;
}

void sp_chroma_close(sp_chroma *c)
{
    if (!c) return;
    while (c->n_idle) sp_http_close(c->idle[--c->n_idle]);
    sp_vec_fini(&c->server);
    sp_vec_fini(&c->path);
    pthread_mutex_destroy(&c->lock);
    sp_free(c);
}

size_t sp_chroma_count(const sp_chroma *c)
{
    return c->n;
}

/* -- changes ----------------------------------------------------------------------------------- */

static sp_err make_collection(sp_chroma *c)
{
    sp_bytes body = {0};
    json_t *o = NULL;
    sp_err err = sp_bytes_addf(&body,
                               "{\"name\": \"%s\", \"get_or_create\": true, \"metadata\": {\"spolia_mark\": %lld},"
                               " \"configuration\": {\"hnsw\": {\"space\": \"cosine\"}}}",
                               c->name, (long long)c->mark);
    if (err == SP_OK) err = ask(c, "POST", c->path.v, &body, &o, NULL);
    if (err == SP_OK) err = take_collection(c, o);
    json_decref(o);
    sp_vec_fini(&body);
    return err;
}

/* add_ids -- ["3","5"]; the names of records. */
static sp_err add_ids(sp_bytes *body, const int64_t *ids, size_t n)
{
    SP_TRY(sp_bytes_addf(body, "["));
    for (size_t i = 0; i < n; i++) SP_TRY(sp_bytes_addf(body, "%s\"%lld\"", i ? "," : "", (long long)ids[i]));
    return sp_bytes_addf(body, "]");
}

/* add_vector -- with the digits that give the same f32. */
static sp_err add_vector(sp_bytes *body, const float *v, int n)
{
    SP_TRY(sp_bytes_addf(body, "["));
    for (int i = 0; i < n; i++) SP_TRY(sp_bytes_addf(body, "%s%.9g", i ? "," : "", (double)v[i]));
    return sp_bytes_addf(body, "]");
}

static sp_err add_some(sp_chroma *c, const int64_t *ids, const float *v, size_t n)
{
    sp_bytes body = {0};
    json_t *o = NULL;
    sp_err err = sp_bytes_addf(&body, "{\"ids\": ");
    if (err == SP_OK) err = add_ids(&body, ids, n);
    if (err == SP_OK) err = sp_bytes_addf(&body, ", \"embeddings\": [");
    for (size_t i = 0; i < n && err == SP_OK; i++) {
        if (i) err = sp_bytes_addf(&body, ",");
        if (err == SP_OK) err = add_vector(&body, v + i * (size_t)c->n_dims, c->n_dims);
    }
    if (err == SP_OK) err = sp_bytes_addf(&body, "]}");
    if (err == SP_OK) err = ask_records(c, "POST", "upsert", &body, &o);
    json_decref(o);
    sp_vec_fini(&body);
    return err;
}

sp_err sp_chroma_add(sp_chroma *c, const int64_t *ids, const float *v, size_t n)
{
    if (n && !*c->id) SP_TRY(make_collection(c));
    for (size_t i = 0, some; i < n; i += some) {
        some = SP_MIN((size_t)ADD_AT_ONCE, n - i);
        SP_TRY(add_some(c, ids + i, v + i * (size_t)c->n_dims, some));
    }
    return n ? count(c) : SP_OK;
}

sp_err sp_chroma_remove(sp_chroma *c, const int64_t *ids, size_t n)
{
    sp_err err = SP_OK;
    if (!n || !*c->id) return SP_OK;
    for (size_t i = 0, some; i < n && err == SP_OK; i += some) {
        sp_bytes body = {0};
        json_t *o = NULL;
        some = SP_MIN((size_t)NAME_AT_ONCE, n - i);
        err = sp_bytes_addf(&body, "{\"ids\": ");
        if (err == SP_OK) err = add_ids(&body, ids + i, some);
        if (err == SP_OK) err = sp_bytes_addf(&body, "}");
        if (err == SP_OK) err = ask_records(c, "POST", "delete", &body, &o);
        json_decref(o);
        sp_vec_fini(&body);
    }
    return err == SP_OK ? count(c) : err;
}

sp_err sp_chroma_clear(sp_chroma *c)
{
    sp_bytes path = {0};
    json_t *o = NULL;
    if (!*c->id) return SP_OK;
    sp_err err = sp_bytes_addf(&path, "%s/%s%c", c->path.v, c->name, '\0');
    if (err == SP_OK) err = ask(c, "DELETE", path.v, NULL, &o, NULL);
    if (err == SP_OK) *c->id = '\0';
    if (err == SP_OK) c->n = 0;
    json_decref(o);
    sp_vec_fini(&path);
    return err;
}

/* -- reading ----------------------------------------------------------------------------------- */

static bool take_id(const json_t *o, int64_t *out)
{
    const char *s = json_string_value(o);
    char *end = NULL;
    *out = s ? strtoll(s, &end, 10) : 0;
    return s && end != s && *end == '\0';
}

sp_err sp_chroma_ids(sp_chroma *c, sp_vector_ids *out)
{
    for (size_t n_got = 1, offset = 0; n_got && *c->id; offset += n_got) {
        char text[96];
        snprintf(text, sizeof text, "{\"limit\": %d, \"offset\": %zu, \"include\": []}", (int)NAME_AT_ONCE, offset);
        const sp_bytes body = {.v = text, .n = strlen(text)};
        json_t *o = NULL;
        SP_TRY(ask_records(c, "POST", "get", &body, &o));
        const json_t *ids = json_object_get(o, "ids");
        n_got = json_array_size(ids);
        sp_err err = json_is_array(ids) ? sp_vec_reserve(out, n_got) : no_member(c, "ids");
        for (size_t i = 0; i < n_got && err == SP_OK; i++)
            if (!take_id(json_array_get(ids, i), &out->v[out->n++])) err = no_member(c, "number as an id");
        json_decref(o);
        SP_TRY(err);
    }
    return SP_OK;
}

static sp_err take_found(const sp_chroma *c, const json_t *o, sp_best *best)
{
    const json_t *ids = json_array_get(json_object_get(o, "ids"), 0);
    const json_t *distances = json_array_get(json_object_get(o, "distances"), 0);
    const size_t n = json_array_size(ids);
    if (!json_is_array(ids) || !json_is_array(distances) || json_array_size(distances) != n)
        return no_member(c, "ids and distances");
    for (size_t i = 0; i < n; i++) {
        const json_t *distance = json_array_get(distances, i);
        sp_near x = {.distance = (float)json_number_value(distance)};
        if (!take_id(json_array_get(ids, i), &x.id) || !json_is_number(distance))
            return no_member(c, "number as an id and a distance");
        sp_best_add(best, x);
    }
    return SP_OK;
}

/* search_some -- of the n allowed ids; NULL: of all. */
static sp_err search_some(sp_chroma *c, const sp_vectors_query *q, const int64_t *allowed, size_t n, sp_best *best)
{
    sp_bytes body = {0};
    json_t *o = NULL;
    sp_err err = sp_bytes_addf(&body, "{\"n_results\": %d, \"include\": [\"distances\"], ", best->k);
    if (err == SP_OK && allowed) err = sp_bytes_addf(&body, "\"ids\": ");
    if (err == SP_OK && allowed) err = add_ids(&body, allowed, n);
    if (err == SP_OK) err = sp_bytes_addf(&body, "%s\"query_embeddings\": [", allowed ? ", " : "");
    if (err == SP_OK) err = add_vector(&body, q->v, c->n_dims);
    if (err == SP_OK) err = sp_bytes_addf(&body, "]}");
    if (err == SP_OK) err = ask_records(c, "POST", "query", &body, &o);
    if (err == SP_OK) err = take_found(c, o, best);
    json_decref(o);
    sp_vec_fini(&body);
    return err;
}

sp_err sp_chroma_search(sp_chroma *c, const sp_vectors_query *q, sp_best *best, sp_near *sorted)
{
    if (q->k > MOST_ANSWERS) return sp_fail(SP_E_ARG, "a search for %d vectors", q->k);
    if (!q->allowed) SP_TRY(search_some(c, q, NULL, 0, best));
    for (size_t i = 0, some; q->allowed && i < q->n_allowed; i += some) { /* the best of each part, then of all */
        some = SP_MIN((size_t)NAME_AT_ONCE, q->n_allowed - i);
        SP_TRY(search_some(c, q, q->allowed + i, some, best));
    }
    if (!q->on_stage) return SP_OK;
    return q->on_stage(sorted, sp_best_sort(best, sorted), true, q->user) ? SP_OK : SP_E_CANCELED;
}
