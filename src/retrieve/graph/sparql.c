/* sparql.c -- a graph at a SPARQL 1.1 endpoint (Virtuoso, Wikidata, DBpedia, Neptune ...).
 *
 * Nodes are IRIs and literals, numbered in the order they are first seen and kept with their labels
 * while the graph is open. All queries have a LIMIT and the connection a time-out. Input from users
 * or from the endpoint enters a query as a quoted string with escapes, or as an IRI that was
 * checked for characters that would end it.
 *
 *   mentions     labels equal to a run of words, as written and with capitals, with the tag @en or
 *                none: one query with VALUES
 *   candidates   labels that contain the longest word: FILTER CONTAINS, a scan on most endpoints
 *   expand       NODES_AT_ONCE nodes a query, both directions, labels included
 *
 * Of a node with more edges than the limit of a query only some are seen; the query is ordered, so
 * always the same ones.
 */
#include <stdlib.h>
#include <string.h>

#include "base/dict.h"
#include "base/http.h"
#include "base/json.h"
#include "retrieve/graph/store.h"

#define DEFAULT_TIMEOUT_MS 10000
#define MAX_RUN            8   /* words of a name */
#define MAX_STRINGS        256 /* runs of words in a query */
#define MAX_ROWS           10000
#define MAX_RELATIONS      128 /* of a node with many edges */
#define NODES_AT_ONCE      32
#define NODE_BYTES         4096
#define MOST_COUNTED       100 /* relations of a description */

static const char rdfs_label[] = "http://www.w3.org/2000/01/rdf-schema#label";

typedef struct term {
    const char *value; /* IRI or text */
    const char *name;  /* its label; NULL until one is seen */
    bool literal;
} term;

typedef struct sparql_graph {
    sp_graph base;
    sp_http *http;
    char *url, *graph, *label;
    SP_VEC(term) terms; /* term i is node i + 1 */
    sp_dict by_value;   /* 'i' or 'l', then the value -> index */
    sp_arena strings;
    sp_bytes query, reply, key;
} sparql_graph;

static sparql_graph *own(sp_graph *g)
{
    return (sparql_graph *)g;
}

/* -- queries -------------------------------------------------------------------------------- */

/* is_iri -- whether <s> is an IRI reference in a query: no blank, control or closing character. */
static bool is_iri(const char *s)
{
    bool colon = false;
    for (const unsigned char *c = (const unsigned char *)s; *c; c++) {
        if (*c <= ' ' || strchr("<>\"{}|^`\\", *c)) return false;
        colon |= *c == ':';
    }
    return colon && strlen(s) < NODE_BYTES;
}

/* add_string -- a literal in double quotes. */
static sp_err add_string(sp_bytes *q, const char *s, size_t n)
{
    SP_TRY(sp_bytes_add(q, "\"", 1));
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            SP_TRY(sp_bytes_addf(q, "\\%c", c));
        else if (c < 0x20 || c == 0x7F)
            SP_TRY(sp_bytes_addf(q, "\\u%04X", c));
        else
            SP_TRY(sp_bytes_add(q, &s[i], 1));
    }
    return sp_bytes_add(q, "\"", 1);
}

static sp_err ask(sparql_graph *g, json_t **answer, const json_t **rows)
{
    sp_http_field fields[] = {{"query", g->query.v, g->query.n},
                              {"default-graph-uri", g->graph, g->graph ? strlen(g->graph) : 0}};
    SP_TRY(sp_http_post(g->http, fields, g->graph ? 2 : 1, "application/sparql-results+json",
                        &g->reply));
    json_error_t why;
    json_t *all = sp_json_load(g->reply.v ? g->reply.v : "", g->reply.n, 0, &why);
    if (!all)
        return sp_fail(sp_json_code(&why, SP_E_FORMAT), "%s: the answer is not JSON: line %d: %s", g->url, why.line,
                       why.text);
    *rows = json_object_get(json_object_get(all, "results"), "bindings");
    if (!json_is_array(*rows)) {
        json_decref(all);
        return sp_fail(SP_E_FORMAT, "%s: the answer has no array results.bindings", g->url);
    }
    *answer = all;
    return SP_OK;
}

static const char *value_of(const json_t *row, const char *variable)
{
    return json_string_value(json_object_get(json_object_get(row, variable), "value"));
}

static bool is_kind(const json_t *row, const char *variable, const char *kind)
{
    const char *type = json_string_value(json_object_get(json_object_get(row, variable), "type"));
    return type && strcmp(type, kind) == 0;
}

/* -- terms ---------------------------------------------------------------------------------- */

/* name_of -- a term's label, a text as it is, or the readable part of an IRI, decoded in g->key. */
static sp_err name_of(sparql_graph *g, const term *t, sp_arena *strings, const char **out)
{
    const char *text = t->name ? t->name : t->value, *part = text;
    if (t->name || t->literal) return sp_graph_copy(strings, text, strlen(text), out);
    for (const char *c = text; *c; c++)
        if ((*c == '/' || *c == '#') && c[1]) part = c + 1;
    g->key.n = 0;
    SP_TRY(sp_name_unescape(part, strlen(part), &g->key));
    return sp_graph_copy(strings, g->key.v, g->key.n, out);
}

/* find_term -- the number of a value, new if need be; its label is kept if it is the first. */
static sp_err find_term(sparql_graph *g, const char *value, const char *label, bool literal,
                        int64_t *out)
{
    g->key.n = 0;
    SP_TRY(sp_bytes_addf(&g->key, "%c%s", literal ? 'l' : 'i', value));
    uint32_t known = sp_dict_get(&g->by_value, g->key.v, g->key.n);
    if (known == SP_DICT_NONE) {
        const char *copy;
        SP_TRY(sp_vec_reserve(&g->terms, 1));
        SP_TRY(sp_graph_copy(&g->strings, g->key.v, g->key.n, &copy));
        SP_TRY(sp_dict_put(&g->by_value, copy, g->key.n, (uint32_t)g->terms.n));
        known = (uint32_t)g->terms.n;
        g->terms.v[g->terms.n++] = (term){.value = copy + 1, .literal = literal};
    }
    term *t = &g->terms.v[known];
    if (!t->name && label && *label)
        SP_TRY(sp_graph_copy(&g->strings, label, strlen(label), &t->name));
    *out = (int64_t)known + 1;
    return SP_OK;
}

/* row_term -- a variable of a row as a node. *ok is false for blank nodes and IRIs that no query
 * can name again. */
static sp_err row_term(sparql_graph *g, const json_t *row, const char *variable,
                       const char *label_variable, int64_t *out, bool *ok)
{
    const char *value = value_of(row, variable);
    bool iri = is_kind(row, variable, "uri");
    bool literal = is_kind(row, variable, "literal") || is_kind(row, variable, "typed-literal");
    *ok = value && *value && ((iri && is_iri(value)) || (literal && strlen(value) < NODE_BYTES));
    if (!*ok) return SP_OK;
    return find_term(g, value, label_variable ? value_of(row, label_variable) : NULL, literal, out);
}

/* row_relation -- as row_term, of an IRI: a relation that is a text would break the queries that name it. */
static sp_err row_relation(sparql_graph *g, const json_t *row, const char *label_variable,
                           int64_t *out, bool *ok)
{
    *ok = is_kind(row, "p", "uri");
    return *ok ? row_term(g, row, "p", label_variable, out, ok) : SP_OK;
}

static sp_err term_text(sp_graph *base, int64_t node, sp_arena *strings, const char **name,
                        const char **ident)
{
    sparql_graph *g = own(base);
    if (node < 1 || (size_t)node > g->terms.n)
        return sp_fail(SP_E_ARG, "%s: there is no node %lld", g->url, (long long)node);
    const term *t = &g->terms.v[node - 1];
    SP_TRY(name_of(g, t, strings, name));
    return ident ? sp_graph_copy(strings, t->value, strlen(t->value), ident) : SP_OK;
}

static sp_err relation_text(sp_graph *base, int64_t relation, sp_arena *strings, const char **name)
{
    return term_text(base, relation, strings, name, NULL);
}

static sp_err source_text(sp_graph *base, int64_t subject, int64_t relation, int64_t object,
                          sp_arena *strings, const char **name)
{
    *name = "";
    return SP_OK;
}

/* -- names ---------------------------------------------------------------------------------- */

/* add_label -- a run of words as a label: without a language and as English. `capitals`: each word
 * begins with one. */
static sp_err add_label(sparql_graph *g, const char *s, size_t n, bool capitals)
{
    char run[512];
    if (n > sizeof run) return SP_OK;
    memcpy(run, s, n);
    for (size_t i = 0; capitals && i < n; i++)
        if (run[i] >= 'a' && run[i] <= 'z' && (i == 0 || run[i - 1] == ' ')) run[i] -= 32;
    if (capitals && memcmp(run, s, n) == 0) return SP_OK;
    SP_TRY(sp_bytes_add(&g->query, " ", 1));
    SP_TRY(add_string(&g->query, run, n));
    SP_TRY(sp_bytes_add(&g->query, " ", 1));
    SP_TRY(add_string(&g->query, run, n));
    return sp_bytes_add(&g->query, "@en", 3);
}

static sp_err mentions_query(sparql_graph *g, const sp_graph_question *q)
{
    int n = 0;
    g->query.n = 0;
    SP_TRY(sp_bytes_addf(&g->query, "SELECT DISTINCT ?e ?l WHERE { VALUES ?l {"));
    for (uint32_t size = SP_MIN(MAX_RUN, (uint32_t)q->words.n); size > 0; size--)
        for (uint32_t from = 0; from + size <= q->words.n && n < MAX_STRINGS; from++, n++) {
            size_t at = q->words.v[from].from, to = q->words.v[from + size - 1].to;
            SP_TRY(add_label(g, q->text + at, to - at, false));
            SP_TRY(add_label(g, q->text + at, to - at, true));
        }
    return sp_bytes_addf(&g->query, " } ?e <%s> ?l . FILTER isIRI(?e) } ORDER BY ?e ?l LIMIT 256",
                         g->label);
}

/* place -- adds a mention wherever the label's words are in the question. */
static sp_err place(const sp_graph_question *q, const char *label, int64_t node,
                    sp_graph_mentions *out)
{
    sp_bytes key = {0};
    sp_name_words words = {0};
    sp_err err = sp_name_key(label, strlen(label), &key, &words);
    uint32_t n = (uint32_t)words.n;
    for (uint32_t from = 0; err == SP_OK && n && from + n <= q->words.n; from++) {
        size_t at = q->words.v[from].key_from, n_run = q->words.v[from + n - 1].key_to - at;
        if (n_run != key.n || memcmp(q->key.v + at, key.v, n_run) != 0) continue;
        err = sp_vec_reserve(out, 1);
        if (err == SP_OK) out->v[out->n++] = (sp_graph_mention){node, from, from + n, false};
    }
    sp_vec_fini(&words);
    sp_vec_fini(&key);
    return err;
}

static sp_err mentions(sp_graph *base, const sp_graph_question *q, sp_graph_mentions *out)
{
    sparql_graph *g = own(base);
    json_t *answer;
    const json_t *rows, *row;
    size_t i;
    SP_TRY(mentions_query(g, q));
    SP_TRY(ask(g, &answer, &rows));
    sp_err err = SP_OK;
    json_array_foreach(rows, i, row)
    {
        int64_t node;
        bool ok;
        err = row_term(g, row, "e", "l", &node, &ok);
        if (err == SP_OK && ok && value_of(row, "l")) err = place(q, value_of(row, "l"), node, out);
        if (err != SP_OK) break;
    }
    json_decref(answer);
    return err;
}

/* candidates_query -- by the longest word of the key; false when there is none. */
static sp_err candidates_query(sparql_graph *g, const sp_bytes *key, int k, bool *any)
{
    size_t best = 0, n_best = 0;
    for (size_t at = 0, n; at < key->n; at += n + 1) {
        for (n = 0; at + n < key->n && key->v[at + n] != ' ';) n++;
        if (n > n_best) {
            best = at;
            n_best = n;
        }
    }
    *any = n_best >= 3;
    g->query.n = 0;
    SP_TRY(sp_bytes_addf(&g->query,
                         "SELECT DISTINCT ?e ?l WHERE { ?e <%s> ?l . FILTER(isIRI(?e) &&"
                         " CONTAINS(LCASE(STR(?l)), ",
                         g->label));
    SP_TRY(add_string(&g->query, key->v + best, n_best));
    return sp_bytes_addf(&g->query, ")) } ORDER BY ?e ?l LIMIT %d", k);
}

static sp_err candidates(sp_graph *base, const sp_bytes *key, int k, sp_arena *strings,
                         sp_graph_candidates *out)
{
    sparql_graph *g = own(base);
    json_t *answer;
    const json_t *rows, *row;
    size_t i;
    bool any;
    SP_TRY(candidates_query(g, key, k, &any));
    if (!any) return SP_OK;
    SP_TRY(ask(g, &answer, &rows));
    sp_err err = SP_OK;
    sp_bytes folded = {0};
    json_array_foreach(rows, i, row)
    {
        sp_graph_candidate c;
        bool ok;
        const char *label = value_of(row, "l");
        err = row_term(g, row, "e", "l", &c.node, &ok);
        if (err != SP_OK) break;
        if (!ok || !label) continue;
        folded.n = 0;
        err = sp_name_key(label, strlen(label), &folded, NULL);
        if (err == SP_OK) err = sp_graph_copy(strings, folded.v, folded.n, &c.key);
        if (err == SP_OK) err = sp_vec_reserve(out, 1);
        if (err != SP_OK) break;
        out->v[out->n++] = c;
    }
    sp_vec_fini(&folded);
    json_decref(answer);
    return err;
}

/* -- edges ---------------------------------------------------------------------------------- */

/* Edges to ask for: of nodes [from, to) of e, in one direction, of one relation (0: of all). */
typedef struct batch {
    const sp_graph_expand *e;
    size_t from, to;
    bool inverse;
    int64_t relation;
} batch;

/* most_rows -- the LIMIT of a batch: a node may have two labels in each of the rows. */
static int most_rows(const batch *b)
{
    int64_t rows = (int64_t)(b->to - b->from) * (b->e->most + 1) * 2;
    return (int)SP_MIN(rows, MAX_ROWS);
}

/* Directions are two queries: a UNION of both with labels is slow on some endpoints. */
static sp_err edges_query(sparql_graph *g, const batch *b)
{
    sp_bytes *q = &g->query;
    q->n = 0;
    SP_TRY(sp_bytes_addf(q, "SELECT ?s ?p ?o ?pl ?ol WHERE { VALUES ?s {"));
    for (size_t i = b->from; i < b->to; i++)
        SP_TRY(sp_bytes_addf(q, " <%s>", g->terms.v[b->e->nodes[i] - 1].value));
    SP_TRY(sp_bytes_addf(q, " }"));
    if (b->relation)
        SP_TRY(sp_bytes_addf(q, " VALUES ?p { <%s> }", g->terms.v[b->relation - 1].value));
    SP_TRY(sp_bytes_addf(q, " %s FILTER(?p != <%s> && !isBlank(?o))",
                         b->inverse ? "?o ?p ?s ." : "?s ?p ?o .", g->label));
    SP_TRY(
        sp_bytes_addf(q, " OPTIONAL { ?p <%s> ?pl } OPTIONAL { ?o <%s> ?ol }", g->label, g->label));
    return sp_bytes_addf(q, " } ORDER BY ?s ?p ?o ?pl ?ol LIMIT %d", most_rows(b));
}

static int by_edge(const void *a, const void *b)
{
    const sp_graph_edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->inverse != y->inverse) return x->inverse ? 1 : -1;
    if (x->relation != y->relation) return x->relation < y->relation ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static sp_err take_row(sparql_graph *g, const sp_graph_expand *e, const json_t *row, bool inverse,
                       sp_graph_edges *out)
{
    int64_t s, p, o;
    bool ok[3];
    SP_TRY(row_term(g, row, "s", NULL, &s, &ok[0]));
    SP_TRY(row_relation(g, row, "pl", &p, &ok[1]));
    SP_TRY(row_term(g, row, "o", "ol", &o, &ok[2]));
    if (!ok[0] || !ok[1] || !ok[2]) return SP_OK;
    for (uint32_t i = 0; i < e->n; i++)
        if (e->nodes[i] == s) {
            SP_TRY(sp_vec_reserve(out, 1));
            out->v[out->n++] = (sp_graph_edge){i, inverse, p, o};
            return SP_OK;
        }
    return SP_OK;
}

/* ask_edges -- one query; *full: there may be more rows. */
static sp_err ask_edges(sparql_graph *g, const batch *b, sp_graph_edges *out, bool *full)
{
    json_t *answer;
    const json_t *rows, *row;
    size_t i;
    SP_TRY(edges_query(g, b));
    SP_TRY(ask(g, &answer, &rows));
    *full = json_array_size(rows) >= (size_t)most_rows(b);
    sp_err err = SP_OK;
    json_array_foreach(rows, i, row)
    {
        err = take_row(g, b->e, row, b->inverse, out);
        if (err != SP_OK) break;
    }
    json_decref(answer);
    return err;
}

/* expand_each -- the edges of each relation of one node, which has too many for one query. */
static sp_err expand_each(sparql_graph *g, batch b, sp_graph_edges *out)
{
    const char *node = g->terms.v[b.e->nodes[b.from] - 1].value;
    json_t *answer;
    const json_t *rows, *row;
    size_t i;
    bool full;
    g->query.n = 0;
    SP_TRY(sp_bytes_addf(&g->query,
                         b.inverse ? "SELECT DISTINCT ?p WHERE { ?o ?p <%s> }"
                                   : "SELECT DISTINCT ?p WHERE { <%s> ?p ?o }",
                         node));
    SP_TRY(sp_bytes_addf(&g->query, " ORDER BY ?p LIMIT %d", MAX_RELATIONS));
    SP_TRY(ask(g, &answer, &rows));
    sp_err err = SP_OK;
    json_array_foreach(rows, i, row)
    {
        bool ok;
        err = row_relation(g, row, NULL, &b.relation, &ok);
        if (err == SP_OK && ok) err = ask_edges(g, &b, out, &full);
        if (err != SP_OK) break;
    }
    json_decref(answer);
    return err;
}

/* expand_some -- a batch; where its answer is full, a node with many edges may have left no rows to
 * others, so its halves are asked for alone. */
static sp_err expand_some(sparql_graph *g, batch b, sp_graph_edges *out)
{
    size_t begin = out->n, middle = b.from + (b.to - b.from) / 2;
    bool full;
    SP_TRY(ask_edges(g, &b, out, &full));
    if (!full) return SP_OK;
    if (b.to - b.from == 1 && !b.e->each) return SP_OK; /* a hub */
    out->n = begin;
    if (b.to - b.from == 1) return expand_each(g, b, out);
    batch half = b;
    half.to = middle;
    SP_TRY(expand_some(g, half, out));
    half.from = middle;
    half.to = b.to;
    return expand_some(g, half, out);
}

/* settle -- sorts the edges, drops equal ones and those beyond the limits. */
static void settle(const sp_graph_expand *e, sp_graph_edges *out, size_t begin, int64_t *n_hubs)
{
    sp_graph_edge *v = out->v;
    size_t kept = begin;
    if (out->n > begin) qsort(v + begin, out->n - begin, sizeof *v, by_edge);
    for (size_t i = begin; i < out->n;) {
        size_t first = kept, n = 0; /* of this node, direction and, with `each`, relation */
        const sp_graph_edge head = v[i];
        bool same = true;
        for (; i < out->n && same; i += same) {
            same = v[i].from == head.from && v[i].inverse == head.inverse &&
                   (!e->each || v[i].relation == head.relation);
            if (!same || (n && by_edge(&v[i], &v[kept - 1]) == 0)) continue;
            if (n++ < (size_t)e->most || !e->each) v[kept++] = v[i];
        }
        if (n <= (size_t)e->most) continue;
        *n_hubs += 1;
        if (e->each) continue;
        kept = first; /* a hub ends its paths: nothing of either direction */
        while (kept > begin && v[kept - 1].from == head.from) kept--;
        while (i < out->n && v[i].from == head.from) i++;
    }
    out->n = kept;
}

static sp_err expand(sp_graph *base, const sp_graph_expand *e, sp_graph_edges *out, int64_t *n_hubs)
{
    sparql_graph *g = own(base);
    size_t begin = out->n;
    for (size_t at = 0; at < e->n;) {
        while (at < e->n && g->terms.v[e->nodes[at] - 1].literal) at++; /* literals have no edges */
        size_t to = at;
        while (to < e->n && to - at < NODES_AT_ONCE && !g->terms.v[e->nodes[to] - 1].literal) to++;
        for (int inverse = 0; to > at && inverse <= 1; inverse++)
            SP_TRY(expand_some(g, (batch){e, at, to, inverse, 0}, out));
        at = to;
    }
    settle(e, out, begin, n_hubs);
    return SP_OK;
}

/* -- open ----------------------------------------------------------------------------------- */

/* count_of -- the variable ?n of a row; what is no count is 0, and sums of them do not overflow. */
static int64_t count_of(const json_t *row)
{
    const char *n = value_of(row, "n");
    const int64_t v = n ? strtoll(n, NULL, 10) : 0;
    return v < 0 ? 0 : SP_MIN(v, INT64_MAX / 1000);
}

/* describe -- relations by number of triples, 100 at most; other counts are unknown (0): counting
 * all names is more than an endpoint should be asked. */
static sp_err describe(sp_graph *base, sp_graph_info *out, sp_arena *strings)
{
    sparql_graph *g = own(base);
    json_t *answer;
    const json_t *rows, *row;
    size_t i;
    g->query.n = 0;
    SP_TRY(sp_bytes_addf(&g->query,
                         "SELECT ?p (COUNT(*) AS ?n) WHERE { ?s ?p ?o } GROUP BY ?p"
                         " ORDER BY DESC(?n) ?p LIMIT %d",
                         MOST_COUNTED));
    SP_TRY(ask(g, &answer, &rows));
    sp_err err = SP_OK;
    out->relations = SP_NEW_N(sp_graph_relation, json_array_size(rows));
    if (!out->relations) err = sp_fail_nomem("relations");
    json_array_foreach(rows, i, row)
    {
        const char *p = value_of(row, "p");
        sp_graph_relation *r = &out->relations[out->n_relations];
        if (err != SP_OK || !p || out->n_relations == MOST_COUNTED) continue;
        err = sp_graph_copy(strings, p, strlen(p), &r->name);
        r->n_triples = count_of(row);
        out->n_triples += r->n_triples;
        out->n_relations += err == SP_OK;
    }
    json_decref(answer);
    return err;
}

static void close_graph(sp_graph *base)
{
    sparql_graph *g = own(base);
    sp_http_close(g->http);
    sp_free(g->url);
    sp_free(g->graph);
    sp_free(g->label);
    sp_vec_fini(&g->terms);
    sp_dict_fini(&g->by_value);
    sp_arena_fini(&g->strings);
    sp_vec_fini(&g->query);
    sp_vec_fini(&g->reply);
    sp_vec_fini(&g->key);
    sp_free(g);
}

static const sp_graph_ops ops = {
    .name = "sparql",
    .close = close_graph,
    .describe = describe,
    .mentions = mentions,
    .candidates = candidates,
    .expand = expand,
    .node = term_text,
    .relation = relation_text,
    .source = source_text,
};

static sp_err keep(const char *s, char **out)
{
    *out = s ? sp_strdup_n(s, strlen(s)) : NULL;
    return s && !*out ? sp_fail_nomem("a name") : SP_OK;
}

sp_err sp_graph_sparql_open(const sp_graph_open_opts *o, sp_graph **out)
{
    const char *label = o->rdf_label ? o->rdf_label : rdfs_label;
    if (!is_iri(label)) return sp_fail(SP_E_ARG, "rdf_label: \"%s\" is not an IRI", label);
    if (o->rdf_graph && !is_iri(o->rdf_graph))
        return sp_fail(SP_E_ARG, "rdf_graph: \"%s\" is not an IRI", o->rdf_graph);
    if (o->timeout_ms < 0) return sp_fail(SP_E_ARG, "timeout_ms: %d is negative", o->timeout_ms);
    sparql_graph *g = SP_NEW(sparql_graph);
    if (!g) return sp_fail_nomem("a graph");
    g->base.ops = &ops;
    sp_err err = keep(o->where, &g->url);
    if (err == SP_OK) err = keep(o->rdf_graph, &g->graph);
    if (err == SP_OK) err = keep(label, &g->label);
    if (err == SP_OK) err = sp_dict_init(&g->by_value, 256);
    if (err == SP_OK)
        err = sp_http_open(o->where, o->timeout_ms ? o->timeout_ms : DEFAULT_TIMEOUT_MS, &g->http);
    if (err != SP_OK) {
        close_graph(&g->base);
        return err;
    }
    *out = &g->base;
    return SP_OK;
}
