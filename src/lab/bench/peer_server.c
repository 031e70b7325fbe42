/* peer_server.c -- one request at a time over one persistent connection.
 *
 * The body of an answer arrives in pieces of any length (on_body) and is cut into lines. In a
 * stream of server-sent events, a line is "data: {...}", "data: [DONE]", another field or a comment;
 * in anything else (an error, the list of models) the lines are the beginning of a JSON text. */
#include "lab/bench/peer_server.h"

#include <curl/curl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"

#define MAX_LINE    (1 << 20) /* of a stream; of a whole answer that is not a stream */
#define SHOWN_BYTES 200       /* of an error's body */

struct peer_server {
    CURL *curl;
    struct curl_slist *headers;
    char *base; /* without trailing slash and /v1 */
    char *model;
    bool chat; /* the server has no text completions */
    /* of the answer being received */
    char *line;
    size_t n_line, line_room;
    bool stream;
    int64_t start_us, first_us;
    char wrong[256]; /* what was wrong with an event */
    char curl_error[CURL_ERROR_SIZE];
};

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* -- events --------------------------------------------------------------------------------- */

static bool is_text(const json_t *v)
{
    return json_string_length(v) > 0; /* 0 for anything but a string */
}

/* has_token -- whether the event carries a token: text, or the end of an answer without text. */
static bool has_token(const json_t *event)
{
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta");
    return is_text(json_object_get(choice, "text")) || is_text(json_object_get(delta, "content")) ||
           is_text(json_object_get(delta, "reasoning_content")) ||
           is_text(json_object_get(choice, "finish_reason"));
}

static void take_event(peer_server *p, const char *data)
{
    if (p->first_us || strcmp(data, "[DONE]") == 0) return;
    json_error_t at;
    json_t *event = json_loads(data, 0, &at);
    const json_t *error = json_object_get(event, "error");
    const json_t *said = json_is_string(error) ? error : json_object_get(error, "message");
    if (!event)
        snprintf(p->wrong, sizeof p->wrong, "an event that is not JSON: %.100s", data);
    else if (error)
        snprintf(p->wrong, sizeof p->wrong, "an error: %.200s",
                 json_is_string(said) ? json_string_value(said) : "without a message");
    else if (has_token(event))
        p->first_us = now_us();
    json_decref(event);
}

static void take_line(peer_server *p)
{
    const char *line = p->line;
    if (p->n_line && line[p->n_line - 1] == '\r') p->line[--p->n_line] = '\0';
    if (strncmp(line, "data:", 5) != 0) return;
    take_event(p, line + 5 + (line[5] == ' '));
}

static bool add_byte(peer_server *p, char byte)
{
    if (p->n_line + 1 >= p->line_room) {
        size_t room = p->line_room ? 2 * p->line_room : 4096;
        char *line = room <= MAX_LINE ? realloc(p->line, room) : NULL;
        if (!line) return false;
        p->line = line;
        p->line_room = room;
    }
    p->line[p->n_line++] = byte;
    p->line[p->n_line] = '\0';
    return true;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    peer_server *p = user;
    for (size_t i = 0; i < size * n; i++) {
        bool ends = p->stream && data[i] == '\n';
        if (!ends && !add_byte(p, data[i])) {
            snprintf(p->wrong, sizeof p->wrong, "an answer that is too long");
            return 0; /* ends the transfer */
        }
        if (ends && p->n_line) take_line(p);
        if (ends) p->n_line = 0;
    }
    return size * n;
}

static size_t on_header(char *data, size_t size, size_t n, void *user)
{
    static const char name[] = "content-type:", type[] = "text/event-stream";
    peer_server *p = user;
    size_t len = size * n, at = sizeof name - 1;
    if (len < at || strncasecmp(data, name, at) != 0) return len;
    while (at < len && data[at] == ' ') at++;
    p->stream = len - at >= sizeof type - 1 && strncasecmp(data + at, type, sizeof type - 1) == 0;
    return len;
}

/* -- one exchange --------------------------------------------------------------------------- */

static bool complain(peer_server *p, const char *what)
{
    for (char *c = p->line; c && *c; c++) /* keep the message on one line */
        if ((unsigned char)*c < ' ') *c = ' ';
    bool shown = !p->stream && p->n_line;
    return cli_fail_with("peer %s: %s%s%.*s", p->base, what, shown ? ": " : "", SHOWN_BYTES,
                         shown ? p->line : ""),
           false;
}

/* exchange -- POSTs `body`, or GETs without one. False after an error message when there is no
 * answer. */
static bool exchange(peer_server *p, const char *path, const char *body, long *status)
{
    char url[1024];
    if ((size_t)snprintf(url, sizeof url, "%s%s", p->base, path) >= sizeof url)
        return cli_fail_with("--peer: the URL is too long"), false;
    p->n_line = 0;
    p->first_us = 0;
    p->stream = false;
    p->wrong[0] = p->curl_error[0] = '\0';
    curl_easy_setopt(p->curl, CURLOPT_URL, url);
    if (body) {
        curl_easy_setopt(p->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
        curl_easy_setopt(p->curl, CURLOPT_POSTFIELDS, body);
    } else {
        curl_easy_setopt(p->curl, CURLOPT_HTTPGET, 1L);
    }
    p->start_us = now_us();
    void (*on_pipe)(int) =
        signal(SIGPIPE, SIG_IGN); /* a server that hangs up is an error message */
    CURLcode code = curl_easy_perform(p->curl);
    signal(SIGPIPE, on_pipe);
    if (p->wrong[0]) return complain(p, p->wrong);
    if (code != CURLE_OK)
        return complain(p, p->curl_error[0] ? p->curl_error : curl_easy_strerror(code));
    curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, status);
    return true;
}

static bool complain_of_status(peer_server *p, const char *path, long status)
{
    char what[128];
    snprintf(what, sizeof what, "%s: HTTP status %ld", path, status);
    return complain(p, what);
}

/* -- prompts -------------------------------------------------------------------------------- */

static char *completion_body(const peer_server *p, const bench_prompt *prompt)
{
    char *flat = bench_prompt_flat(prompt, !p->chat);
    if (!flat) return NULL;
    json_t *body = json_pack("{s:i, s:b, s:i}", "max_tokens", 1, "stream", 1, "temperature", 0);
    if (p->model) json_object_set_new(body, "model", json_string(p->model));
    if (p->chat)
        json_object_set_new(body, "messages",
                            json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "system", "content",
                                      CLI_SYSTEM_TEXT, "role", "user", "content", flat));
    else
        json_object_set_new(body, "prompt", json_string(flat));
    char *text = json_dumps(body, JSON_COMPACT);
    if (!text) cli_fail_with("out of memory");
    json_decref(body);
    free(flat);
    return text;
}

bool peer_server_ask(peer_server *p, const bench_prompt *prompt, int64_t *ttft_us)
{
    for (;;) {
        const char *path = p->chat ? "/v1/chat/completions" : "/v1/completions";
        char *body = completion_body(p, prompt);
        long status = 0;
        bool good = body && exchange(p, path, body, &status);
        free(body);
        if (!good) return false;
        if (!p->chat && (status == 404 || status == 405)) {
            p->chat = true;
            continue;
        }
        if (status != 200) return complain_of_status(p, path, status);
        if (!p->stream) return complain(p, "the answer is not a stream of events");
        if (!p->first_us) return complain(p, "the stream ended before the first token");
        *ttft_us = p->first_us - p->start_us;
        return true;
    }
}

/* -- opening--------------------------------------------------------------------------------- */

/* first_model -- the first model in the server's list; a server without a list needs no name. */
static bool first_model(peer_server *p)
{
    long status = 0;
    if (!exchange(p, "/v1/models", NULL, &status)) return false;
    if (status == 404 || status == 405) return true;
    if (status != 200) return complain_of_status(p, "/v1/models", status);
    json_error_t at;
    json_t *list = p->n_line ? json_loads(p->line, 0, &at) : NULL;
    const json_t *first = json_array_get(json_object_get(list, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    p->model = id ? strdup(id) : NULL;
    json_decref(list);
    return p->model || complain(p, "/v1/models lists no model");
}

static bool set_headers(peer_server *p, const char *key)
{
    char line[1024];
    p->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!p->headers) return cli_fail_with("out of memory"), false;
    if (!key) return true;
    if ((size_t)snprintf(line, sizeof line, "Authorization: Bearer %s", key) >= sizeof line)
        return cli_fail_with("--peer-key is too long"), false;
    return curl_slist_append(p->headers, line) || (cli_fail_with("out of memory"), false);
}

static void set_options(peer_server *p)
{
    curl_easy_setopt(p->curl, CURLOPT_HTTPHEADER, p->headers);
    curl_easy_setopt(p->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(p->curl, CURLOPT_WRITEDATA, p);
    curl_easy_setopt(p->curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(p->curl, CURLOPT_HEADERDATA, p);
    curl_easy_setopt(p->curl, CURLOPT_ERRORBUFFER, p->curl_error);
    curl_easy_setopt(p->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(p->curl, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(p->curl, CURLOPT_TIMEOUT, 3600L); /* a long prompt on a slow machine */
}

static char *base_of(const char *url)
{
    size_t n = strlen(url);
    while (n && url[n - 1] == '/') n--;
    if (n >= 3 && strncmp(url + n - 3, "/v1", 3) == 0) n -= 3;
    while (n && url[n - 1] == '/') n--;
    return strndup(url, n);
}

peer_server *peer_server_open(const peer_server_opts *o)
{
    if (strncmp(o->url, "http://", 7) != 0 && strncmp(o->url, "https://", 8) != 0)
        return cli_fail_with("--peer: \"%s\" must begin with http:// or https://", o->url), NULL;
    peer_server *p = calloc(1, sizeof *p);
    if (!p) return cli_fail_with("out of memory"), NULL;
    p->base = base_of(o->url);
    p->model = o->model ? strdup(o->model) : NULL;
    p->curl = curl_easy_init();
    bool good = p->base && p->curl && (p->model || !o->model);
    if (!good) cli_fail_with("out of memory");
    good = good && set_headers(p, o->key);
    if (good) set_options(p);
    if (good && !p->model) good = first_model(p);
    if (good) return p;
    peer_server_close(p);
    return NULL;
}

void peer_server_close(peer_server *p)
{
    if (!p) return;
    curl_easy_cleanup(p->curl); /* takes NULL */
    curl_slist_free_all(p->headers);
    free(p->line);
    free(p->model);
    free(p->base);
    free(p);
}
