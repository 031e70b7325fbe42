/* rerank.c -- /v1/rerank, as Jina and Cohere have it, and /v1/score, as vLLM has it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/api/rank.h"
#include "server/api/handlers.h"
#include "server/http/memory.h"
#include "server/http/reply.h"

typedef struct ranking {
    srv_call *call;
    srv_fields f;
    json_t *body;
    srv_ranking r;
    sp_pair *pairs; /* [r.n]; texts are in `body` */
    const char **titles; /* [r.n] likewise; NULL: none */
} ranking;

/* -- bodies ------------------------------------------------------------------------------------ */

/* text_of -- a string, or {"text": string}. */
static bool text_of(ranking *k, const char *field, const json_t *v, size_t i, const char **text, size_t *n)
{
    if (json_is_object(v)) v = json_object_get(v, "text");
    if (!json_is_string(v) || json_string_length(v) == 0) {
        srv_fields_refuse(&k->f, field, "%s[%zu] must be a text that is not empty, or {\"text\": ...}", field, i);
        return false;
    }
    *text = json_string_value(v);
    *n = json_string_length(v);
    return true;
}

/* title_of -- of {"text": ..., "title": string}; NULL: none. */
static const char *title_of(ranking *k, const json_t *v, size_t i)
{
    const json_t *title = json_is_object(v) ? json_object_get(v, "title") : NULL;
    if (title && !json_is_null(title) && !json_is_string(title))
        srv_fields_refuse(&k->f, "documents", "documents[%zu].title must be a text", i);
    return json_string_value(title);
}

static bool make_room(ranking *k, const char *field, size_t n)
{
    if (n < 1 || n > SRV_MOST_RANKED)
        return srv_fields_refuse(&k->f, field, "%s must be a list of 1 to %d texts", field, SRV_MOST_RANKED), false;
    k->pairs = calloc(n, sizeof *k->pairs);
    k->titles = calloc(n, sizeof *k->titles);
    k->r = (srv_ranking){.pairs = k->pairs, .titles = k->titles, .n = n, .scores = calloc(n, sizeof(float))};
    if (!k->pairs || !k->titles || !k->r.scores) return srv_fields_refuse(&k->f, field, "out of memory"), false;
    return true;
}

/* read_query -- one, of a list of documents. */
static bool read_query(ranking *k)
{
    const json_t *list = srv_field(&k->f, "documents");
    const char *query = NULL;
    size_t n_query = 0;
    const json_t *q = srv_field(&k->f, "query");
    if (!json_is_string(q) || json_string_length(q) == 0)
        return srv_fields_refuse(&k->f, "query", "query must be a text that is not empty"), false;
    query = json_string_value(q);
    n_query = json_string_length(q);
    if (!make_room(k, "documents", json_is_array(list) ? json_array_size(list) : 0)) return false;
    for (size_t i = 0; i < k->r.n; i++) {
        sp_pair *p = &k->pairs[i];
        p->query = query;
        p->n_query = n_query;
        if (!text_of(k, "documents", json_array_get(list, i), i, &p->document, &p->n_document)) return false;
        k->titles[i] = title_of(k, json_array_get(list, i), i);
    }
    return !k->f.failed;
}

/* check_fields -- Cohere's first version also ranks other fields of documents, or some only. */
static void check_fields(ranking *k)
{
    const json_t *list = srv_field(&k->f, "rank_fields");
    bool has_text = !list, known = !list || json_is_array(list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        const bool is_text = name && strcmp(name, "text") == 0;
        has_text |= is_text;
        known = known && (is_text || (name && strcmp(name, "title") == 0));
    }
    if (!known || !has_text)
        srv_fields_refuse(&k->f, "rank_fields",
                          "rank_fields must have \"text\", and may have \"title\": no other field is ranked");
}

/* field_of -- the first of two names that the body has. */
static const char *field_of(const ranking *k, const char *a, const char *b)
{
    return srv_field(&k->f, b) && !srv_field(&k->f, a) ? b : a;
}

/* item -- text i of a list, or the text itself of one. */
static const json_t *item(const json_t *v, size_t i)
{
    return json_is_array(v) ? json_array_get(v, json_array_size(v) == 1 ? 0 : i) : v;
}

/* read_texts -- two texts, a text and a list, or two lists of one length. */
static bool read_texts(ranking *k)
{
    const char *first = field_of(k, "text_1", "queries"), *second = field_of(k, "text_2", "documents");
    const json_t *a = srv_field(&k->f, first), *b = srv_field(&k->f, second);
    const size_t n_a = json_is_array(a) ? json_array_size(a) : 1, n_b = json_is_array(b) ? json_array_size(b) : 1;
    if (!make_room(k, second, n_b)) return false;
    if (n_a != 1 && n_a != n_b)
        return srv_fields_refuse(&k->f, first, "%s has %zu texts, %s has %zu: it must be one, or as many", first, n_a,
                                 second, n_b),
               false;
    for (size_t i = 0; i < n_b; i++) {
        sp_pair *p = &k->pairs[i];
        if (!text_of(k, first, item(a, i), i, &p->query, &p->n_query) ||
            !text_of(k, second, json_is_array(b) ? json_array_get(b, i) : b, i, &p->document, &p->n_document))
            return false;
    }
    return true;
}

/* -- replies ----------------------------------------------------------------------------------- */

static json_t *frame(const ranking *k, const char *kind)
{
    srv_server *s = k->call->s;
    json_t *id = json_sprintf("%s-%016llx%08llx", kind, (unsigned long long)s->run, atomic_fetch_add(&s->next_id, 1));
    json_t *o = json_pack("{s:o, s:s, s:I, s:s}", "id", id, "object", "list", "created", (json_int_t)time(NULL),
                          "model", srv_ranker_name(s));
    json_object_set_new(o, "usage",
                        json_pack("{s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)k->r.n_tokens, "total_tokens",
                                  (json_int_t)k->r.n_tokens, "prompt_tokens_details", "cached_tokens",
                                  (json_int_t)k->r.n_reused));
    return o;
}

static json_t *score_json(const ranking *k)
{
    json_t *o = frame(k, "score"), *data = json_array();
    for (size_t i = 0; i < k->r.n; i++)
        json_array_append_new(data, json_pack("{s:I, s:s, s:f}", "index", (json_int_t)i, "object", "score", "score",
                                              (double)k->r.scores[i]));
    json_object_set_new(o, "data", data);
    return o;
}

/* A position in the order: by score, then by input order. */
typedef struct place {
    float score;
    size_t i;
} place;

static int by_score(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->i < y->i ? -1 : 1;
}

static json_t *rerank_json(const ranking *k, size_t n_top, bool documents)
{
    json_t *o = frame(k, "rerank"), *results = json_array();
    place *order = calloc(k->r.n, sizeof *order);
    if (!order) srv_memory_lost(); /* the reply is an error */
    for (size_t i = 0; i < k->r.n && order; i++) order[i] = (place){k->r.scores[i], i};
    if (order) qsort(order, k->r.n, sizeof *order, by_score);
    for (size_t i = 0; i < n_top && i < k->r.n && order; i++) {
        const sp_pair *p = &k->pairs[order[i].i];
        json_t *one = json_pack("{s:I, s:f}", "index", (json_int_t)order[i].i, "relevance_score",
                                (double)order[i].score);
        if (documents)
            json_object_set_new(one, "document", json_pack("{s:s%}", "text", p->document, p->n_document));
        json_array_append_new(results, one);
    }
    free(order);
    json_object_set_new(o, "results", results);
    return o;
}

static srv_sent refuse(ranking *k, int status, const char *code)
{
    return srv_reply_error(k->call->connection, status, k->f.param, code, k->f.why);
}

/* compute -- NULL body or a failed field is refused; else the reply is made by the caller. */
static bool compute(ranking *k, srv_sent *sent)
{
    if (k->f.failed) return *sent = srv_fields_reply(k->call, &k->f), false;
    const srv_verdict v = srv_enter(k->call);
    if (v != SRV_ADMITTED) return *sent = srv_reply_refused(k->call, v), false;
    if (srv_rank(k->call, &k->r, &k->f)) return true;
    return *sent = k->r.left ? MHD_NO : refuse(k, k->r.status, k->r.code), false;
}

static void end(ranking *k)
{
    free(k->r.scores);
    free(k->titles);
    free(k->pairs);
    json_decref(k->body);
}

srv_sent srv_rerank(srv_call *call)
{
    ranking k = {.call = call};
    srv_sent sent = MHD_NO;
    k.body = srv_fields_parse(&k.f, call->body, call->n);
    if (!k.body) return srv_fields_reply(call, &k.f);
    check_fields(&k);
    read_query(&k);
    const json_int_t n_top = srv_field_int(&k.f, "top_n", SRV_MOST_RANKED, 1, INT32_MAX);
    k.r.document_tokens = (int)srv_field_int(&k.f, "max_tokens_per_doc", 0, 1, INT32_MAX);
    const bool documents = srv_field_bool(&k.f, "return_documents", strcmp(call->path, "/v2/rerank") != 0);
    call->cache_salt = srv_field_string(&k.f, "cache_salt");
    if (compute(&k, &sent))
        sent = srv_reply_json(call->connection, 200, rerank_json(&k, (size_t)n_top, documents));
    end(&k);
    return sent;
}

srv_sent srv_score(srv_call *call)
{
    ranking k = {.call = call};
    srv_sent sent = MHD_NO;
    k.body = srv_fields_parse(&k.f, call->body, call->n);
    if (!k.body) return srv_fields_reply(call, &k.f);
    read_texts(&k);
    call->cache_salt = srv_field_string(&k.f, "cache_salt");
    if (compute(&k, &sent)) sent = srv_reply_json(call->connection, 200, score_json(&k));
    end(&k);
    return sent;
}
