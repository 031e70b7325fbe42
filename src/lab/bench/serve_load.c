/* serve_load.c -- one thread drives all connections of a run through libcurl's multi interface.
 *
 *     due (Poisson) -> start: a free client, or a new one -> bytes of the answer -> finish -> free
 *
 * The load is open: a request is due when its time has come, however late the server is. A limit of
 * concurrency delays its start, and the delay counts in its times, as it does for a user. */
#include "lab/bench/serve_load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/bench/bench.h"

typedef struct client {
    CURL *curl;
    load_answer answer;
    char *body;
    int64_t due_us;
    int leave_after; /* events; 0: stays */
    char error[CURL_ERROR_SIZE];
    struct client *next; /* of the free ones */
} client;

typedef struct load {
    const load_run *run;
    load_result *result;
    CURLM *multi;
    client **clients; /* all [n_clients] */
    client *unused;   /* list of those without a request */
    size_t n_clients, cap_clients;
    char url[1024];
    int64_t *due_us; /* [run->n_requests] */
    int n_open;
    int64_t end_us; /* of the run */
    uint64_t random;
} load;

/* -- the server ----------------------------------------------------------------------------- */

static size_t keep_body(char *data, size_t size, size_t n, void *user)
{
    return fwrite(data, size, n, (FILE *)user) * size;
}

static char *base_of(const char *url)
{
    size_t n = strlen(url);
    while (n && url[n - 1] == '/') n--;
    if (n >= 3 && strncmp(url + n - 3, "/v1", 3) == 0) n -= 3;
    while (n && url[n - 1] == '/') n--;
    return cli_checked(strndup(url, n));
}

/* get_models -- the server's list; NULL after an error message. */
static json_t *get_models(const load_server *s)
{
    char url[1024], *text = NULL, error[CURL_ERROR_SIZE] = "";
    size_t n;
    long status = 0;
    FILE *f = cli_checked(open_memstream(&text, &n));
    CURL *curl = cli_checked(curl_easy_init());
    snprintf(url, sizeof url, "%s/v1/models", s->base);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, s->headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    json_error_t at;
    bool closed = fclose(f) == 0;
    json_t *list = closed && code == CURLE_OK && status == 200 ? json_loads(text, 0, &at) : NULL;
    if (code != CURLE_OK)
        cli_fail_with("%s: %s", url, error[0] ? error : curl_easy_strerror(code));
    else if (!list)
        cli_fail_with("%s: status %ld, and no list of models", url, status);
    free(text);
    return list;
}

static bool take_model(load_server *s, const load_server_opts *o)
{
    json_t *list = get_models(s);
    const json_t *first = json_array_get(json_object_get(list, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    const char *owner = json_string_value(json_object_get(first, "owned_by"));
    bool good = list && (o->model || id);
    if (list && !good) cli_fail_with("%s/v1/models: lists no model; --model names one", s->base);
    if (good) s->model = cli_copy(o->model ? o->model : id);
    s->in_text = strcmp(o->documents, "text") == 0 ||
                 (strcmp(o->documents, "auto") == 0 && !(owner && strcmp(owner, "spolia") == 0));
    json_decref(list);
    return good;
}

bool load_server_open(const load_server_opts *o, load_server *out)
{
    const char *equal = strchr(o->url, '='), *scheme = strstr(o->url, "://");
    bool named = equal && scheme && equal < scheme;
    const char *url = named ? equal + 1 : o->url;
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return cli_fail_with("--url: \"%s\" must begin with http:// or https://", url), false;
    *out = (load_server){.base = base_of(url), .extra = o->extra};
    out->name =
        named ? cli_checked(strndup(o->url, (size_t)(equal - o->url))) : cli_copy(out->base);
    char line[1024];
    int n = snprintf(line, sizeof line, "Authorization: Bearer %s", o->key ? o->key : "");
    out->headers = curl_slist_append(NULL, "Content-Type: application/json");
    bool good = out->headers && n < (int)sizeof line;
    if (good && o->key) good = curl_slist_append(out->headers, line) != NULL;
    if (!good) cli_fail_with("--key is too long");
    if (good && take_model(out, o)) return true;
    load_server_close(out);
    return false;
}

void load_server_close(load_server *s)
{
    curl_slist_free_all(s->headers);
    free(s->name);
    free(s->base);
    free(s->model);
    *s = (load_server){0};
}

static char *body_of(const load *l, int number)
{
    const load_server *s = l->run->server;
    load_prompt p;
    load_source_prompt(l->run->source, l->run->first + number, &p);
    json_t *body = cli_checked(json_pack("{s:s, s:i, s:b, s:i, s:{s:b}, s:o}", "model", s->model,
                                         "max_tokens", l->run->n_predict, "stream", 1,
                                         "temperature", 0, "stream_options", "include_usage", 1,
                                         "messages", load_prompt_messages(&p, s->in_text)));
    if (!s->in_text) json_object_set(body, "documents", p.documents);
    if (s->extra) json_object_update(body, s->extra);
    char *text = cli_checked(json_dumps(body, JSON_COMPACT));
    json_decref(body);
    load_prompt_fini(&p);
    return text;
}

/* -- one request ---------------------------------------------------------------------------- */

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    client *c = user;
    if (!load_answer_feed(&c->answer, data, size * n, sp_clock_us()))
        return 0; /* ends the transfer */
    return c->leave_after && c->answer.n_events >= c->leave_after ? 0 : size * n;
}

static size_t on_header(char *data, size_t size, size_t n, void *user)
{
    static const char name[] = "content-type:", type[] = "text/event-stream";
    client *c = user;
    size_t len = size * n, at = sizeof name - 1;
    if (len < at || strncasecmp(data, name, at) != 0) return len;
    while (at < len && data[at] == ' ') at++;
    c->answer.is_stream =
        len - at >= sizeof type - 1 && strncasecmp(data + at, type, sizeof type - 1) == 0;
    return len;
}

static client *client_create(load *l)
{
    client *c = cli_alloc(1, sizeof *c);
    c->curl = cli_checked(curl_easy_init());
    curl_easy_setopt(c->curl, CURLOPT_URL, l->url);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, l->run->server->headers);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, c->error);
    curl_easy_setopt(c->curl, CURLOPT_PRIVATE, c);
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, (long)l->run->timeout_s);
    curl_easy_setopt(c->curl, CURLOPT_TCP_NODELAY, 1L);
    l->clients = cli_grow(l->clients, l->n_clients, &l->cap_clients, sizeof *l->clients);
    return l->clients[l->n_clients++] = c;
}

static double uniform(load *l)
{
    return (double)(bench_random(&l->random) >> 11) / 9007199254740992.0;
}

static bool start(load *l, int number)
{
    client *c = l->unused;
    if (c)
        l->unused = c->next;
    else
        c = client_create(l);
    load_answer_reset(&c->answer);
    c->error[0] = '\0';
    c->due_us = l->due_us[number];
    c->leave_after =
        uniform(l) < l->run->hang_up ? 1 + (int)(uniform(l) * l->run->n_predict / 2) : 0;
    c->body = body_of(l, number);
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(c->body));
    curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, c->body);
    CURLMcode code = curl_multi_add_handle(l->multi, c->curl);
    if (code != CURLM_OK) return cli_fail_with("libcurl: %s", curl_multi_strerror(code)), false;
    if (++l->n_open > l->result->most_open) l->result->most_open = l->n_open;
    return true;
}

static void fail(load *l, const client *c, long status, const char *what)
{
    load_result *r = l->result;
    r->n_failed++;
    if (r->error[0]) return;
    bool shown = !c->answer.is_stream && c->answer.n_line;
    snprintf(r->error, sizeof r->error, "status %ld: %s%s%.120s", status, what, shown ? ": " : "",
             shown ? c->answer.line : "");
    for (char *at = r->error; *at; at++) /* keep the message on one line */
        if ((unsigned char)*at < ' ') *at = ' ';
}

static void count(load *l, const client *c)
{
    const load_answer *a = &c->answer;
    load_result *r = l->result;
    r->n_answered++;
    load_times_add(&r->ttft, (double)(a->first_us - c->due_us) / 1e6);
    load_times_add(&r->total, (double)(sp_clock_us() - c->due_us) / 1e6);
    for (size_t i = 0; i < a->gaps.n; i++) load_times_add(&r->gaps, a->gaps.v[i]);
    r->n_generated += a->n_generated >= 0 ? a->n_generated : a->n_events;
    r->n_prompt += a->n_prompt > 0 ? a->n_prompt : 0;
    r->n_cached += a->n_cached > 0 ? a->n_cached : 0;
}

static void release(load *l, client *c)
{
    curl_multi_remove_handle(l->multi, c->curl);
    free(c->body);
    c->body = NULL;
    c->next = l->unused;
    l->unused = c;
    l->n_open--;
}

static void finish(load *l, client *c, CURLcode code)
{
    const load_answer *a = &c->answer;
    long status = 0;
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    bool left = c->leave_after && a->n_events >= c->leave_after && !a->wrong[0];
    if (left)
        l->result->n_left++;
    else if (status == 429)
        l->result->n_refused++;
    else if (a->wrong[0])
        fail(l, c, status, a->wrong);
    else if (code != CURLE_OK)
        fail(l, c, status, c->error[0] ? c->error : curl_easy_strerror(code));
    else if (status != 200)
        fail(l, c, status, "refused");
    else if (!a->is_stream || !a->first_us)
        fail(l, c, status,
             a->is_stream ? "the stream ended before the first token" : "no stream of events");
    else if (!a->done)
        fail(l, c, status, "the stream ended without [DONE]");
    else
        count(l, c);
    release(l, c);
}

/* give_up -- at the end of the time of a run: requests without a complete answer have failed. */
static void give_up(load *l, int next)
{
    load_result *r = l->result;
    for (size_t i = 0; i < l->n_clients; i++) {
        if (!l->clients[i]->body) continue;
        r->n_failed++;
        release(l, l->clients[i]);
    }
    r->n_failed += l->run->n_requests - next;
    if (!r->error[0])
        snprintf(r->error, sizeof r->error, "no answer within --limit, %d s", l->run->limit_s);
}

/* -- the run -------------------------------------------------------------------------------- */

static bool is_due(const load *l, int next)
{
    const load_run *run = l->run;
    return next < run->n_requests && sp_clock_us() >= l->due_us[next] &&
           (!run->concurrency || l->n_open < run->concurrency);
}

/* wait_ms -- until the next request is due, the run ends, or something arrives. */
static int wait_ms(const load *l, int next)
{
    if (l->end_us - sp_clock_us() < 1000000) return 10;
    if (next >= l->run->n_requests || (l->run->concurrency && l->n_open >= l->run->concurrency))
        return 1000;
    int64_t us = l->due_us[next] - sp_clock_us();
    return us <= 0 ? 0 : us > 1000000 ? 1000 : (int)(us / 1000);
}

static bool drive(load *l)
{
    CURLMcode code = CURLM_OK;
    for (int next = 0; code == CURLM_OK && (next < l->run->n_requests || l->n_open);) {
        int running, left;
        if (sp_clock_us() >= l->end_us) {
            give_up(l, next);
            break;
        }
        for (int burst = 0; burst < 32 && is_due(l, next);
             burst++) /* answers are read in between */
            if (!start(l, next++)) return false;
        code = curl_multi_perform(l->multi, &running);
        for (CURLMsg *m; code == CURLM_OK && (m = curl_multi_info_read(l->multi, &left)) != NULL;) {
            client *c = NULL;
            CURLcode done = m->data.result;
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
            if (m->msg == CURLMSG_DONE) finish(l, c, done);
        }
        if (code == CURLM_OK && (next < l->run->n_requests || l->n_open))
            code = curl_multi_poll(l->multi, NULL, 0, wait_ms(l, next), NULL);
    }
    return code == CURLM_OK || (cli_fail_with("libcurl: %s", curl_multi_strerror(code)), false);
}

/* allow_connections -- as many files as the system lets this process open. */
static void allow_connections(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

bool load_execute(const load_run *run, load_result *out)
{
    *out = (load_result){0};
    load l = {.run = run, .result = out, .random = run->seed};
    snprintf(l.url, sizeof l.url, "%s/v1/chat/completions", run->server->base);
    allow_connections();
    l.multi = cli_checked(curl_multi_init());
    l.due_us = cli_alloc((size_t)run->n_requests, sizeof *l.due_us);
    double at = 0;
    int64_t begin = sp_clock_us();
    l.end_us = run->limit_s ? begin + run->limit_s * (int64_t)1000000 : INT64_MAX;
    for (int i = 0; i < run->n_requests; i++) {
        if (run->rate > 0 && i) at -= log(1 - uniform(&l)) / run->rate * 1e6;
        l.due_us[i] = begin + (int64_t)at;
    }
    bool good = drive(&l);
    out->seconds = (double)(sp_clock_us() - begin) / 1e6;
    out->drain = (double)(sp_clock_us() - l.due_us[run->n_requests - 1]) / 1e6;
    for (size_t i = 0; i < l.n_clients; i++) {
        curl_multi_remove_handle(l.multi, l.clients[i]->curl);
        curl_easy_cleanup(l.clients[i]->curl);
        load_answer_fini(&l.clients[i]->answer);
        free(l.clients[i]->body);
        free(l.clients[i]);
    }
    curl_multi_cleanup(l.multi);
    free(l.clients);
    free(l.due_us);
    return good;
}

void load_result_fini(load_result *r)
{
    load_times_fini(&r->ttft);
    load_times_fini(&r->gaps);
    load_times_fini(&r->total);
    *r = (load_result){0};
}
