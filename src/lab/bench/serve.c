/* serve.c -- `spolia bench serve`: a load generator for servers with OpenAI's API. */
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "lab/bench/bench.h"
#include "lab/bench/serve_report.h"

typedef struct bench {
    opt_list urls;
    load_source_opts source;
    load_server_opts server;
    const char *rates, *csv, *svg, *extra, *by;
    float zipf, hang_up, factor;
    int n_requests, n_warm, concurrency, n_predict, timeout_s, limit_s;
    bool json, ignore_end, same, stop;
    bench_list list;
    load_server servers[16];
    int n_servers;
    load_report report;
} bench;

static load_run run_of(const bench *b, const load_source *source, int server)
{
    return (load_run){.server = &b->servers[server],
                      .source = source,
                      .n_requests = b->n_requests,
                      .concurrency = b->concurrency,
                      .n_predict = b->n_predict,
                      .hang_up = (double)b->hang_up,
                      .timeout_s = b->timeout_s,
                      .limit_s = b->limit_s,
                      .seed = b->source.seed};
}

static bool execute(bench *b, int server, const load_run *run, bool report)
{
    load_result r;
    bool good = load_execute(run, &r);
    if (good && report) load_report_add(&b->report, server, run, &r);
    if (good && !report && r.error[0]) cli_warn("%s, first requests: %s", b->report.names[server], r.error);
    load_result_fini(&r);
    return good;
}

/* measure -- every rate for every server in turn; each rate continues in the trace. */
static bool measure(bench *b, const load_source *source)
{
    bool good = true;
    for (int s = 0; good && b->n_warm && s < b->n_servers; s++) {
        load_run run = run_of(b, source, s);
        run.n_requests = b->n_warm;
        run.concurrency = b->concurrency ? b->concurrency : 4;
        run.hang_up = 0;
        good = execute(b, s, &run, false);
    }
    load_report_head(&b->report);
    for (int i = 0; good && i < b->list.n; i++)
        for (int s = 0; good && s < b->n_servers; s++) {
            if (b->stop && load_is_beyond(&b->report, s)) continue;
            load_run run = run_of(b, source, s);
            run.rate = b->list.v[i];
            run.first = b->n_warm + (b->same ? 0 : i * b->n_requests);
            run.seed += (uint64_t)i;
            good = execute(b, s, &run, true);
        }
    if (good && b->list.n > 1) load_report_goodput(&b->report);
    return good && (!b->svg || load_report_plot(&b->report, b->svg));
}

static bool any_answer(const load_report *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->rows[i].n_answered) return true;
    return cli_fail_with("bench serve: no request was answered"), false;
}

static bool open_servers(bench *b)
{
    for (int i = 0; i < b->urls.n; i++) {
        load_server_opts o = b->server;
        o.url = b->urls.v[i];
        if (!load_server_open(&o, &b->servers[i])) return false;
        b->report.names[i] = b->servers[i].name;
        b->report.n_names = ++b->n_servers;
    }
    return true;
}

/* extra_fields -- of --extra and --ignore-end; NULL after an error message. */
static json_t *extra_fields(const bench *b)
{
    json_error_t at;
    json_t *extra = b->extra ? json_loads(b->extra, 0, &at) : json_object();
    if (!json_is_object(extra)) {
        cli_fail_with("--extra: is not a JSON object");
        json_decref(extra);
        return NULL;
    }
    if (b->ignore_end) json_object_set_new(extra, "ignore_eos", json_true());
    return extra;
}

static bool run(bench *b)
{
    if (b->csv && !(b->report.csv = fopen(b->csv, "w")))
        return cli_fail_with("%s: cannot be written: %s", b->csv, strerror(errno)), false;
    b->report.json = b->json;
    b->report.factor = (double)b->factor;
    b->report.median = strcmp(b->by, "median") == 0;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    b->server.extra = extra_fields(b);
    load_source *source = b->server.extra ? load_source_open(&b->source) : NULL;
    bool good = source && open_servers(b) && measure(b, source) && any_answer(&b->report);
    for (int i = 0; i < b->n_servers; i++) load_server_close(&b->servers[i]);
    load_source_close(source);
    json_decref(b->server.extra);
    load_report_fini(&b->report);
    if (b->report.csv && fclose(b->report.csv) != 0)
        good = (cli_fail_with("%s: cannot be written: %s", b->csv, strerror(errno)), false);
    curl_global_cleanup();
    return good;
}

/* has_time -- a limit is longer than the requests take to be sent. */
static bool has_time(const bench *b)
{
    for (int i = 0; b->limit_s && i < b->list.n; i++)
        if (b->list.v[i] > 0 && b->n_requests / b->list.v[i] >= b->limit_s)
            return cli_fail_with("--limit: %d requests at %g a second take longer than %d s", b->n_requests,
                                 b->list.v[i], b->limit_s),
                   false;
    return true;
}

static bool check(bench *b)
{
    const load_source_opts *s = &b->source;
    if (!b->urls.n) return cli_fail_with("--url is missing"), false;
    if (s->trace && !s->docs == !s->index)
        return cli_fail_with("--trace needs --docs, or --index, and not both"), false;
    if (!s->trace && (s->docs || s->index)) return cli_fail_with("--docs and --index need --trace"), false;
    if (strcmp(b->server.documents, "auto") != 0 && strcmp(b->server.documents, "field") != 0 &&
        strcmp(b->server.documents, "text") != 0)
        return cli_fail_with("--documents: \"%s\" is none of auto, field, text", b->server.documents), false;
    if (strcmp(b->by, "mean") != 0 && strcmp(b->by, "median") != 0)
        return cli_fail_with("--by: \"%s\" is neither mean nor median", b->by), false;
    bool good = b->limit_s >= 0 && b->n_requests >= 1 && b->n_requests <= 10000000 && b->n_warm >= 0 && b->n_warm <= 10000000 &&
                b->concurrency >= 0 && b->n_predict >= 1 && b->timeout_s >= 1 && b->hang_up >= 0 &&
                b->hang_up <= 1 && b->factor >= 1 && s->n_chunks >= 0 && s->n_documents >= 1 &&
                s->n_documents <= 1 << 24 && s->n_words >= 1 && s->n_words <= 1 << 20 && b->zipf >= 0;
    if (!good) return cli_fail_with("bench serve: a number is out of range"), false;
    return bench_list_parse("rates", b->rates, 0, 1e6, false, &b->list) && has_time(b);
}

int bench_serve(int argc, char **argv)
{
    bench b = {.source = {.n_documents = 1000, .n_words = 80, .seed = 1}, .server = {.documents = "auto"},
               .rates = "1", .by = "mean", .zipf = 1, .factor = 5, .n_requests = 100, .n_predict = 16, .timeout_s = 600};
    const opt own[] = {
        {OPT_LIST, "url", 0, "[NAME=]URL", &b.urls, "a server; several are measured in turn", .common = true},
        {OPT_STRING, "rates", 'r', "LIST", &b.rates, "requests a second, a Poisson process; 0: all at once (1)",
         .common = true},
        {OPT_INT, "requests", 0, "N", &b.n_requests, "requests at each rate (100)", .common = true},
        {OPT_INT, "concurrency", 0, "N", &b.concurrency,
         "most requests at the same time; the others wait, which counts (no limit)", .common = true},
        {OPT_INT, "predict", 'n', "N", &b.n_predict, "most tokens of an answer (16)", .common = true},
        {OPT_STRING, "trace", 0, "FILE", &b.source.trace,
         "requests: JSON lines with doc_ids and perhaps a question (random documents)", .common = true},
        {OPT_STRING, "docs", 0, "FILE", &b.source.docs, "their documents: JSON lines with id, title, text",
         .common = true},
        {OPT_STRING, "index", 0, "FILE", &b.source.index, "or an index, which is searched for each question"},
        {OPT_INT, "chunks", 0, "N", &b.source.n_chunks, "most documents of a prompt (all; 4 without --docs)"},
        {OPT_INT, "random-documents", 0, "N", &b.source.n_documents, "different random documents (1000)"},
        {OPT_INT, "words", 0, "N", &b.source.n_words, "words of each (80)"},
        {OPT_FLOAT, "zipf", 0, "S", &b.zipf, "random document i is drawn in proportion to i^-S (1)"},
        {OPT_STRING, "documents", 0, "HOW", &b.server.documents,
         "field: the field `documents`; text: in the message; auto: field for spolia serve (auto)"},
        {OPT_STRING, "model", 'm', "NAME", &b.server.model, "model (the first in the server's list)"},
        {OPT_STRING, "key", 0, "KEY", &b.server.key, "API key (none)"},
        {OPT_STRING, "extra", 0, "JSON", &b.extra, "further fields of each request, as an object (none)"},
        {OPT_FLAG, "ignore-end", 0, NULL, &b.ignore_end, "answers of exactly --predict tokens: ignore_eos"},
        {OPT_INT, "warm", 0, "N", &b.n_warm, "requests before the measurement (0)"},
        {OPT_FLAG, "same", 0, NULL, &b.same, "every rate has the same prompts, instead of the next ones"},
        {OPT_FLOAT, "hang-up", 0, "SHARE", &b.hang_up, "clients that close the connection during the answer (0)"},
        {OPT_INT, "timeout", 0, "S", &b.timeout_s, "seconds that a request may take (600)"},
        {OPT_INT, "limit", 0, "S", &b.limit_s, "seconds for each rate; what is not answered then has failed (no limit)"},
        {OPT_FLOAT, "factor", 0, "X", &b.factor, "goodput: times within X times those of the lowest rate (5)"},
        {OPT_STRING, "by", 0, "WHAT", &b.by, "goodput: of mean or median times (mean)"},
        {OPT_FLAG, "stop-beyond", 0, NULL, &b.stop, "rates rise; no higher rate for a server that did not keep up"},
        {OPT_U64, "seed", 's', "N", &b.source.seed, "random seed (1)"},
        {OPT_STRING, "csv", 0, "FILE", &b.csv, "a line for each run", .common = true},
        {OPT_STRING, "svg", 0, "FILE", &b.svg, "a plot over the rates", .common = true},
        {OPT_FLAG, "json", 0, NULL, &b.json, "a JSON line for each run", .common = true},
        {0},
    };
    const opt *const tables[] = {own, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"bench serve --url URL [options]",
                                    "Sends streamed chat requests with documents to servers with OpenAI's API, and "
                                    "measures\nthe time to the first token, between tokens, throughput and errors."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("bench serve: \"%s\" is no option", argv[at]), 2;
    b.source.zipf = (double)b.zipf;
    if (!check(&b)) return 2;
    return run(&b) ? 0 : 1;
}
