/* serve.c -- `spolia serve`: options of the server. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options/advice.h"
#include "cli/options/model_options.h"
#include "cli/path.h"
#include "cmd/commands.h"
#include "server/server.h"

enum { MODEL, EMBEDDER, RERANKER, N_NAMES };

typedef struct serving {
    srv_options o;
    const char *log, *find;
    model_options model;
    sampling_options sampling;
    const char *embedding, *reranker;
    char *names[N_NAMES]; /* last parts of their paths; owned */
    opt_list collections;
    opt table[43];
} serving;

#define DAY 86400 /* seconds */

#define EMBEDDING_OPTION                                                                                   \
    {OPT_STRING, "embedding", 0, "PATH", &s->embedding,                                                    \
     "text encoder for /v1/embeddings and the vectors of collections: folder of a sentence-transformers "  \
     "model, GGUF file (bert), or hf:ORG/REPO (none)",                                                     \
     .is_model = true}
#define RERANKER_OPTION                                                                                    \
    {OPT_STRING, "reranker", 0, "PATH", &s->reranker,                                                      \
     "cross-encoder for /v1/rerank and /v1/score: folder, or hf:ORG/REPO (none: the model's own likelihood)", \
     .is_model = true}

#define AHEAD_OPTION                                                                                       \
    {OPT_INT, "ahead", 0, "N", &s->o.limits.n_ahead,                                                              \
     "where searches in a collection take long, answers begin with the passages found so far, as long as " \
     "fewer than N prompts wait or are computed; 0: never (1)",                                            \
     .limits = {0, 4096}}

#define COLLECTION_OPTION                                                                                  \
    {OPT_LIST, "collection", 0, "NAME=PATH", &s->collections,                                              \
     "documents that requests with \"collection\": NAME are answered from: an index of spolia index, or a " \
     "folder whose index is kept in the user's cache",                                                     \
     .common = true}

#define IDLE_OPTION                                                                                        \
    {OPT_FLOAT, "idle-copies", 0, "SHARE", &s->o.idle_share,                                               \
     "share of the KV memory for copies of passages of collections, computed while the server is idle, "   \
     "the most retrieved first; needs a --reuse that takes chunks at any position; 0: none (0.5)",         \
     .limits = {0, 0.9}}

static void make_table(serving *s)
{
    srv_options *o = &s->o;
    const opt table[] = {
        {OPT_GROUP, "Serving"},
        {OPT_STRING, "host", 0, "ADDR", &o->host, "address to listen on (127.0.0.1)",
         .common = true},
        {OPT_INT, "port", 0, "N", &o->port, "port; 0: any free one (8080)", .common = true, .limits = {0, 65535}},
        {OPT_STRING, "api-keys", 0, "FILE", &o->keys_path,
         "file of API keys, one a line; SIGHUP reloads it (none)", .common = true},
        {OPT_STRING, "allowed-hosts", 0, "NAMES", &o->allowed_hosts,
         "names of this server besides localhost and IP addresses, separated by commas; *: any (none)"},
        {OPT_STRING, "cors-origins", 0, "ORIGINS", &o->cors_origins,
         "web pages that may use it, such as https://chat.example.com, separated by commas; *: any (none)"},
        {OPT_STRING, "alias", 0, "NAME", &o->alias, "name of the model in answers (the last part of its path)"},
        {OPT_INT, "parallel", 0, "N", &o->limits.n_parallel, "requests that run at the same time (8)",
         .common = true, .limits = {1, 4096}},
        {OPT_INT, "queue", 0, "N", &o->limits.n_queue,
         "requests that may wait; more are refused with status 429 (256)", .limits = {0, 1000000}},
        {OPT_INT, "token-gap", 0, "MS", &s->model.ctx.queue.gap_ms,
         "most time between two tokens of an answer while other prompts are computed; 0: no limit (60)",
         .limits = {0, 60000}},
        {OPT_FLAG, "no-page", 0, NULL, &o->no_page, "serve only the API, without the web page at /"},
        {OPT_STRING, "log-format", 0, "FORMAT", &s->log,
         "a line on standard error for each request: text, json, none (text)"},
        {OPT_INT, "drain", 0, "S", &o->limits.drain_seconds,
         "seconds for running requests to finish after SIGTERM (30)", .limits = {0, DAY}},
        {OPT_GROUP, "Documents"},
        {OPT_STRING, "documents", 0, "FILE", &o->documents_path,
         "registered documents (documents.db in --store; without a store: in memory)",
         .common = true},
        {OPT_INT, "chunk-size", 0, "N", &o->size_words, "most words of a chunk (150)", .limits = {0, 100000}},
        {OPT_INT, "chunk-overlap", 0, "N", &o->overlap_words, "words that two chunks share (0)",
         .limits = {0, 100000}},
        {OPT_STRING, "graph", 'g', "WHERE", &o->graph.where,
         "graph for requests with \"graph\": true (file of spolia graph import, or SPARQL "
         "endpoint)"},
        {OPT_STRING, "rdf-graph", 0, "IRI", &o->graph.rdf_graph,
         "SPARQL: the graph to query (the endpoint's default)"},
        {OPT_STRING, "rdf-label", 0, "IRI", &o->graph.rdf_label,
         "SPARQL: the property that holds names (rdfs:label)"},
        {OPT_STRING, "find-chunks", 0, "WHICH", &s->find,
         "chunks in the text of messages: none, known, repeats (known)"},
        EMBEDDING_OPTION, RERANKER_OPTION, COLLECTION_OPTION, AHEAD_OPTION, IDLE_OPTION,
        {OPT_GROUP, "Limits"},
        {OPT_INT, "connections", 0, "N", &o->limits.n_connections, "open connections (1024)", .limits = {1, 65536}},
        {OPT_INT, "address-connections", 0, "N", &o->limits.n_address_connections,
         "open connections of one address (half of --connections)", .limits = {0, 65536}},
        {OPT_MIB, "body", 0, "MiB", &o->limits.body_bytes, "largest body of a request (16)"},
        {OPT_MIB, "bodies", 0, "MiB", &o->limits.bodies_bytes,
         "largest total of the bodies that are being received (256)"},
        {OPT_INT, "read-timeout", 0, "S", &o->limits.read_seconds, "seconds to receive a request (30)",
         .limits = {1, DAY}},
        {OPT_INT, "stall-timeout", 0, "S", &o->limits.stall_seconds,
         "seconds that a client may neither send nor read (60)", .limits = {1, DAY}},
        {OPT_END, NULL, 0, NULL, NULL, NULL},
    };
    _Static_assert(sizeof table <= sizeof s->table, "serving.table is too short");
    memcpy(s->table, table, sizeof table);
}

static bool check(const srv_options *o)
{
    if (o->limits.body_bytes == 0) cli_fail_with("serve: --body 0: must be at least 1");
    if (o->limits.body_bytes > o->limits.bodies_bytes) cli_fail_with("serve: --bodies is less than --body");
    return o->limits.body_bytes > 0 && o->limits.body_bytes <= o->limits.bodies_bytes;
}

/* open_encoder -- with the threads and kernels of the model; path NULL: none. False after an error message. */
static bool open_encoder(const serving *s, const char *path, bool scores, sp_embedder **out, char **name)
{
    const sp_machine_opts *m = &s->model.ctx.machine;
    const sp_embedder_opts o = {
        .model = path,
        .machine = {.n_threads = m->n_threads,
                    .cpu = m->cpu,
                    .exact_products = m->exact_products,
                    .amx_f16 = m->amx_f16,
                    .amx_attend = m->amx_attend}};
    if (!path) return true;
    *name = cli_last_part(path);
    const sp_err err = sp_embedder_open(&o, out);
    if (err != SP_OK) return cli_fail(err), false;
    if (sp_embedder_describe(*out).scores_pairs == scores) return true;
    cli_fail_with("serve: %s: is %s", path,
                  scores ? "an encoder for vectors (--embedding), not a cross-encoder"
                         : "a cross-encoder (--reranker), which makes no vectors");
    return false;
}

static bool open_encoders(serving *s)
{
    const bool open = open_encoder(s, s->embedding, false, &s->o.models.embedder, &s->names[EMBEDDER]) &&
                      open_encoder(s, s->reranker, true, &s->o.models.reranker, &s->names[RERANKER]);
    s->o.models.embedder_name = s->names[EMBEDDER];
    s->o.models.reranker_name = s->names[RERANKER];
    return open;
}

static void close_encoders(serving *s)
{
    sp_embedder_close(s->o.models.embedder);
    sp_embedder_close(s->o.models.reranker);
    for (int i = 0; i < N_NAMES; i++) free(s->names[i]);
}

/* takes_chunks -- the policy uses copies of chunks wherever they are in a prompt. */
static bool takes_chunks(const char *policy)
{
    const sp_reuse_info *info;
    return policy && sp_reuse_parse(policy, &info, NULL) == SP_OK && info->anywhere;
}

/* place_documents -- whether the store, which may be another user's, takes the file of documents. On a file system
 * that is mounted read-only, it is only read. */
static bool place_documents(const serving *s)
{
    const char *store = s->model.ctx.tiers.store;
    if (s->o.documents_path || !store || access(store, W_OK) == 0 || errno != EACCES) return true;
    return cli_fail_with("serve: --store %s: this user may not write here, where registered documents are kept; "
                         "name a file for them with --documents",
                         store),
           false;
}

/* serve -- with registered documents in the store, unless a file is named for them. */
static int serve(serving *s)
{
    char *beside = NULL;
    const char *store = s->model.ctx.tiers.store;
    if (!place_documents(s)) return 1;
    srv_prepare();
    advice ignored = advice_of(&s->model);
    sp_context *c = model_options_open(&s->model);
    if (!c) return 1;
    if (strcmp(sp_context_describe(c).tokenizer, "none") == 0) {
        cli_fail_with("%s: has no tokenizer, which answers need", s->model.ctx.model);
        return sp_context_close(c), 1;
    }
    if (!open_encoders(s)) return close_encoders(s), sp_context_close(c), 1;
    advice_print(&ignored);
    s->o.model = s->model.ctx.model;
    s->o.collections = s->collections.v;
    s->o.n_collections = s->collections.n;
    if (!takes_chunks(s->model.ctx.reuse.policy)) s->o.idle_share = 0;
    if (!s->o.alias) s->o.alias = s->names[MODEL] = cli_last_part(s->model.ctx.model);
    if (!s->o.documents_path && store && asprintf(&beside, "%s/documents.db", store) >= 0)
        s->o.documents_path = beside;
    int code = srv_run(&s->o, c);
    close_encoders(s);
    sp_context_close(c); /* writes what waits for the store */
    if (code == 0) srv_log_event(s->o.log, "stopped");
    free(beside);
    return code;
}

int cmd_serve(int argc, char **argv)
{
    serving s = {.o = {.host = "127.0.0.1",
                       .port = 8080,
                       .limits.n_parallel = 8,
                       .limits.n_queue = 256,
                       .limits.n_connections = 1024,
                       .limits.body_bytes = 16 << 20,
                       .limits.bodies_bytes = 256 << 20,
                       .limits.n_ahead = 1,
                       .idle_share = 0.5f,
                       .limits.read_seconds = 30,
                       .limits.stall_seconds = 60,
                       .limits.drain_seconds = 30},
                 .log = "text",
                 .find = "known"};
    model_options_init(&s.model);
    s.model.ctx.queue.gap_ms = 60;
    sampling_options_init(&s.sampling, 512);
    make_table(&s);
    for (opt *o = s.sampling.table; o->kind != OPT_END; o++)
        if (o->dest == &s.sampling.stop) o->kind = OPT_END; /* the last; requests name their own */
    const opt *const tables[] = {s.table, s.sampling.table, s.model.table, NULL};
    int at =
        opt_parse(argc, argv,
                  &(opt_usage){"serve -m MODEL [options]",
                               "Serves a model to OpenAI's clients over HTTP. Sampling options "
                               "are defaults for\nrequests that do not set them."},
                  tables);
    if (at < 0) return -1 - at;
    s.o.max_tokens = s.sampling.max_tokens;
    s.o.sampling = s.sampling.s;
    if (at != argc) return cli_fail_with("serve: unexpected \"%s\"", argv[at]), 2;
    if (!check(&s.o) || !srv_collections_check(s.collections.v, s.collections.n)) return 2;
    if (!srv_log_format_of(s.log, &s.o.log))
        return cli_fail_with("serve: --log-format %s: text, json or none", s.log), 2;
    s.model.ctx.max_requests = s.o.limits.n_parallel;
    if (!srv_find_of(s.find, &s.o.find))
        return cli_fail_with("serve: --find-chunks %s: none, known or repeats", s.find), 2;
    const int wrong = model_options_check(&s.model);
    return wrong ? wrong : serve(&s);
}
