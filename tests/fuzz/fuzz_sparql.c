/* Replies of a hostile SPARQL endpoint. The input is their bodies, one after another, each ended by a
 * byte 0xFF; without one left the endpoint is gone. Aborts when a query that goes out is not well
 * formed, whatever the replies before said, or when a path is not what it promises to be. The
 * functions of http.h are these here, not those of the library. */
#include <stdlib.h>
#include <string.h>

#include "base/http.h"
#include "spolia.h"

struct sp_http {
    int unused;
};

static const uint8_t *replies;
static size_t n_replies;
static struct sp_http only;

static void require(bool holds)
{
    if (!holds) abort();
}

/* in_string, in_iri -- the character after it. */
static size_t in_string(const char *q, size_t n, size_t i)
{
    for (; i < n && q[i] != '"'; i++) {
        require((unsigned char)q[i] >= 0x20);
        i += q[i] == '\\';
    }
    require(i < n);
    return i + 1;
}

static size_t in_iri(const char *q, size_t n, size_t i)
{
    for (; i < n && q[i] != '>'; i++)
        require((unsigned char)q[i] > ' ' && !strchr("<\"{}|^`\\", q[i]));
    require(i < n);
    return i + 1;
}

/* check_query -- strings and IRIs end, and nothing in them ends them early. */
static void check_query(const char *q, size_t n)
{
    int depth = 0;
    for (size_t i = 0; i < n;) {
        const char c = q[i++];
        if (c == '"') i = in_string(q, n, i);
        if (c == '<') i = in_iri(q, n, i);
        depth += (c == '{') - (c == '}');
        require(depth >= 0 && c != '>');
    }
    require(depth == 0);
}

sp_err sp_http_open(const char *url, int timeout_ms, sp_http **out)
{
    *out = &only;
    return SP_OK;
}

void sp_http_close(sp_http *h)
{
    require(!h || h == &only);
}

sp_err sp_http_post(sp_http *h, const sp_http_field *fields, int n_fields, const char *accept,
                    sp_bytes *reply)
{
    require(h == &only && n_fields == 1 && strcmp(fields[0].name, "query") == 0);
    check_query(fields[0].value, fields[0].n);
    const uint8_t *end = n_replies ? memchr(replies, 0xFF, n_replies) : NULL;
    if (!end) return sp_fail(SP_E_IO, "the endpoint is gone");
    const size_t n = (size_t)(end - replies);
    reply->n = 0;
    SP_TRY(sp_bytes_add(reply, (const char *)replies, n));
    replies += n + 1;
    n_replies -= n + 1;
    return SP_OK;
}

static void check_path(const sp_graph_answer *a, const sp_graph_path *p)
{
    require(p->entity >= 0 && p->entity < a->n_entities);
    require(p->n_hops >= 1 && p->n_hops <= 3 && *p->text);
    require(strcmp(p->nodes[0], a->entities[p->entity].name) == 0);
    for (int i = 0; i < p->n_hops; i++)
        require(strlen(p->nodes[i + 1]) < 4096 && strlen(p->relations[i]) < 4096);
}

static void ask(sp_graph *g)
{
    const sp_graph_paths_opts o = {.k = 5, .hops = 3, .max_degree = 4, .max_steps = 200};
    sp_graph_answer a = {0};
    sp_graph_tree t = {0};
    sp_err err = sp_graph_find_paths(g, "Where was Anna Berg born?", &o, &a);
    require(err == SP_OK || err == SP_E_IO || err == SP_E_FORMAT);
    for (int i = 0; i < a.n_paths; i++) check_path(&a, &a.paths[i]);
    if (err == SP_OK)
        require(sp_graph_tree_build(a.paths, a.n_paths, SP_GRAPH_ARROWS, &t) == SP_OK);
    sp_graph_tree_fini(&t);
    sp_graph_answer_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    sp_graph *g;
    sp_graph_info info = {0};
    replies = data;
    n_replies = n;
    require(sp_graph_open(&(sp_graph_open_opts){.where = "http://endpoint/"}, &g) == SP_OK);
    ask(g);
    const bool described = sp_graph_describe(g, &info) == SP_OK;
    require(described || info.n_relations == 0);
    for (int i = 0; i < info.n_relations; i++)
        require(*info.relations[i].name >= 0 && info.relations[i].n_triples <= info.n_triples);
    sp_graph_info_fini(&info);
    sp_graph_close(g);
    return 0;
}
