#include "server/http/gate.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/reply.h"

#define NAME_SIZE    256
#define HOST_SIZE    (NAME_SIZE + 16) /* with a port */
#define METHODS_SIZE 96

static const char *header(const srv_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

/* is_listed -- among names that commas separate, or the list is "*". */
static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at && *at;) {
        at += strspn(at, ", ");
        size_t k = strcspn(at, ", ");
        if ((k == 1 && *at == '*') || (k > 0 && k == n && strncasecmp(at, name, n) == 0)) return true;
        at += k;
    }
    return false;
}

/* -- hosts ------------------------------------------------------------------------------------- */

/* host_name -- of "name:port" or "[address]:port"; false: it is neither. */
static bool host_name(const char *host, char out[NAME_SIZE])
{
    bool bracket = *host == '[';
    const char *from = host + bracket;
    size_t n = strcspn(from, bracket ? "]" : ":");
    const char *rest = from + n + (bracket && from[n] == ']');
    if (n == 0 || n >= NAME_SIZE || (bracket && from[n] != ']')) return false;
    if (*rest && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")])) return false;
    memcpy(out, from, n);
    out[n] = '\0';
    if (!bracket && n > 1 && out[n - 1] == '.') out[n - 1] = '\0'; /* the root's dot */
    return true;
}

static bool is_address(const char *name)
{
    struct in6_addr a;
    return inet_pton(AF_INET, name, &a) == 1 || inet_pton(AF_INET6, name, &a) == 1;
}

static bool is_local_name(const char *name)
{
    static const char local[] = ".localhost";
    size_t n = strlen(name), k = sizeof local - 1;
    return strcasecmp(name, local + 1) == 0 || (n > k && strcasecmp(name + n - k, local) == 0);
}

/* is_host_allowed -- a request of HTTP/1.0 may have none. */
static bool is_host_allowed(const srv_options *o, const char *host)
{
    char name[NAME_SIZE];
    if (!host) return true;
    if (!host_name(host, name)) return is_listed(o->allowed_hosts, "*");
    return is_address(name) || is_local_name(name) || strcasecmp(name, o->host) == 0 ||
           is_listed(o->allowed_hosts, name);
}

/* -- web pages --------------------------------------------------------------------------------- */

static bool is_own_origin(const char *origin, const char *host)
{
    const char *name = strstr(origin, "://");
    return name && host && strcasecmp(name + 3, host) == 0;
}

void srv_gate_add_headers(const srv_server *s, struct MHD_Connection *c, struct MHD_Response *r)
{
    const char *origin = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);
    if (!s->o.cors_origins) return;
    srv_add_header(r, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN);
    if (!origin || !is_listed(s->o.cors_origins, origin)) return;
    srv_add_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    srv_add_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_EXPOSE_HEADERS,
                   "X-Request-Id, Retry-After, x-ratelimit-limit-requests, "
                   "x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
                   "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
                   "x-ratelimit-reset-tokens");
}

/* -- routes ------------------------------------------------------------------------------------ */

static bool is_path(const srv_route *r, const char *path)
{
    return r->below ? strncmp(path, r->path, strlen(r->path)) == 0 : strcmp(path, r->path) == 0;
}

/* is_method -- HEAD is GET without the body, which MHD leaves out. */
static bool is_method(const srv_route *r, const char *method)
{
    return strcmp(method, r->method) == 0 ||
           (strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 && strcmp(r->method, "GET") == 0);
}

/* list_methods -- of a path; "": there is no such path. */
static void list_methods(const srv_server *s, const char *path, char out[METHODS_SIZE])
{
    size_t n = 0;
    *out = '\0';
    for (const srv_route *r = s->routes; r->method; r++) {
        if (!is_path(r, path)) continue;
        const char *more = strcmp(r->method, "GET") == 0 ? "GET, HEAD" : r->method;
        n += (size_t)snprintf(out + n, METHODS_SIZE - n, "%s, ", more);
    }
    if (n) snprintf(out + n, METHODS_SIZE - n, "OPTIONS");
}

static const srv_route *find_route(const srv_call *call)
{
    for (const srv_route *r = call->s->routes; r->method; r++)
        if (is_path(r, call->path) && is_method(r, call->method)) return r;
    return NULL;
}

/* answer_options -- the methods of a path, also for a browser's preflight request. */
static srv_sent answer_options(const srv_call *call, const char *methods)
{
    const char *wanted = header(call, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_METHOD);
    const char *headers = header(call, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_HEADERS);
    struct MHD_Response *r = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    srv_add_header(r, MHD_HTTP_HEADER_ALLOW, methods);
    if (wanted && call->s->o.cors_origins) {
        srv_add_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, methods);
        if (headers)
            srv_add_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, headers);
        if (header(call, "Access-Control-Request-Private-Network"))
            srv_add_header(r, "Access-Control-Allow-Private-Network", "true");
        srv_add_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "600");
    }
    srv_sent sent = srv_send(call->connection, MHD_HTTP_NO_CONTENT, r);
    MHD_destroy_response(r);
    return sent;
}

/* refuse_path -- no route: an unknown path, another method, or OPTIONS. */
static srv_sent refuse_path(const srv_call *call)
{
    char methods[METHODS_SIZE];
    list_methods(call->s, call->path, methods);
    if (!*methods)
        return srv_reply_error(call->connection, 404, NULL, NULL, "there is no such path");
    if (strcmp(call->method, MHD_HTTP_METHOD_OPTIONS) == 0) return answer_options(call, methods);
    return srv_reply_method(call, methods);
}

/* -- bodies ------------------------------------------------------------------------------------ */

static bool has_body(const srv_call *call)
{
    const char *length = header(call, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return header(call, MHD_HTTP_HEADER_TRANSFER_ENCODING) ||
           (length && strtoull(length, NULL, 10) > 0);
}

/* is_type_allowed -- application/json, application/...+json, and multipart/form-data where a route takes it. */
static bool is_type_allowed(const srv_route *route, const char *type)
{
    static const char application[] = "application/", form[] = "multipart/form-data";
    if (!type) return false;
    size_t n = strcspn(type, "; \t"), k = sizeof application - 1;
    if (route->form && n == sizeof form - 1 && strncasecmp(type, form, n) == 0) return true;
    if (n <= k || strncasecmp(type, application, k) != 0) return false;
    return (n == k + 4 && strncasecmp(type + k, "json", 4) == 0) ||
           (n > k + 5 && strncasecmp(type + n - 5, "+json", 5) == 0);
}

/* announces_too_much -- by its Content-Length. */
static bool announces_too_much(const srv_call *call)
{
    const char *length = header(call, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length && strtoull(length, NULL, 10) > call->s->o.limits.body_bytes;
}

/* -- heads that can be read in two ways -------------------------------------------------------- */

typedef struct framing {
    int n_hosts, n_lengths, n_encodings;
    const char *encoding;
    bool odd_name, odd_value, folded; /* one of the headers */
} framing;

static bool is_name(const char *name, size_t n)
{
    static const char allowed[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%&'*+-.^_`|~";
    return n > 0 && strspn(name, allowed) == n;
}

/* has_control -- whether a value has a control character other than a tab. */
static bool has_control(const char *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f) return true;
    return false;
}

/* is_longer -- begins with the name of a header, and has more: libmicrohttpd adds what is on the next line of a folded
 * header to its name. */
static bool is_longer(const char *name, const char *of)
{
    const size_t n = strlen(of);
    return strncasecmp(name, of, n) == 0 && name[n];
}

/* A callback of libmicrohttpd. */
static enum MHD_Result count_header(void *user, enum MHD_ValueKind kind, const char *name, size_t n_name,
                                    const char *value, size_t n_value)
{
    framing *f = user;
    (void)kind;
    f->n_hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    f->n_lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    f->odd_name |= !is_name(name, n_name);
    f->odd_value |= has_control(value, n_value);
    f->folded |= is_longer(name, MHD_HTTP_HEADER_CONTENT_LENGTH) ||
                 is_longer(name, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        f->n_encodings++;
        f->encoding = value;
    }
    return MHD_YES;
}

/* ambiguity -- why a proxy may read this head differently and so find another request in the body; NULL: it cannot. */
static const char *ambiguity(const srv_call *call)
{
    framing f = {0};
    MHD_get_connection_values_n(call->connection, MHD_HEADER_KIND, count_header, &f);
    if (f.n_hosts > 1) return "the request has more than one Host";
    if (f.n_hosts == 0 && strcmp(call->version, MHD_HTTP_VERSION_1_1) == 0) return "the request has no Host";
    if (f.n_lengths > 1) return "the request has more than one Content-Length";
    if (f.n_lengths && f.n_encodings) return "the request has both Content-Length and Transfer-Encoding";
    if (f.n_encodings > 1 || (f.encoding && strcasecmp(f.encoding, "chunked") != 0))
        return "Transfer-Encoding can be chunked only";
    if (f.n_encodings && strcmp(call->version, MHD_HTTP_VERSION_1_1) != 0) return "HTTP/1.0 has no Transfer-Encoding";
    if (f.folded) return "Content-Length and Transfer-Encoding must be on one line each";
    if (f.odd_value) return "a header has a control character in its value";
    return f.odd_name ? "a header has a character in its name that is not allowed there" : NULL;
}

/* -- all of them ------------------------------------------------------------------------------- */

/* check_key -- whose the call is; SRV_KEY_KNOWN where no key is needed. */
static srv_key_state check_key(srv_call *call, srv_tenant *tenant)
{
    srv_server *s = call->s;
    *tenant = (srv_tenant){0};
    call->tenant = tenant;
    if (!s->keys || call->route->open) return SRV_KEY_KNOWN;
    const srv_key_state state = srv_keys_check(s->keys, header(call, MHD_HTTP_HEADER_AUTHORIZATION),
                                               header(call, "X-Api-Key"), tenant);
    if (state != SRV_KEY_KNOWN) return state;
    memcpy(call->record->key, tenant->name, sizeof call->record->key);
    call->salt = tenant->salt;
    return state;
}

/* is_known -- if not, the reply has been sent: *sent. */
static bool is_known(srv_call *call, srv_tenant *tenant, srv_sent *sent)
{
    const srv_key_state state = check_key(call, tenant);
    if (state == SRV_KEY_NO_MEMORY)
        *sent = srv_reply_error(call->connection, 503, NULL, "out_of_memory", "out of memory");
    else if (state == SRV_KEY_UNKNOWN)
        *sent = srv_reply_error(call->connection, 401, NULL, "invalid_api_key", "the API key is missing or unknown");
    return state == SRV_KEY_KNOWN;
}

/* is_packed -- whether the body has an encoding of its own, such as gzip. */
static bool is_packed(const srv_call *call)
{
    const char *encoding = header(call, MHD_HTTP_HEADER_CONTENT_ENCODING);
    return has_body(call) && encoding && *encoding && strcasecmp(encoding, "identity") != 0;
}

/* take_body -- whether it may be read; if not, the reply has been sent: *sent. */
static bool take_body(const srv_call *call, srv_sent *sent)
{
    struct MHD_Connection *c = call->connection;
    if (has_body(call) && !is_type_allowed(call->route, header(call, MHD_HTTP_HEADER_CONTENT_TYPE)))
        *sent = srv_reply_error(c, 415, "Content-Type", "unsupported_media_type",
                                call->route->form
                                    ? "Content-Type must be application/json or multipart/form-data"
                                    : "Content-Type must be application/json");
    else if (is_packed(call))
        *sent = srv_reply_error(c, 415, "Content-Encoding", "unsupported_media_type",
                                "Content-Encoding is not supported: send the body as it is");
    else if (announces_too_much(call))
        *sent = srv_reply_too_long(call);
    else
        return true;
    return false;
}

/* host_of -- the target of the request decides, then its header. NULL: neither names one. */
static const char *host_of(const srv_call *call, char out[HOST_SIZE])
{
    if (!call->authority) return header(call, MHD_HTTP_HEADER_HOST);
    snprintf(out, HOST_SIZE, "%.*s", (int)strcspn(call->authority, "/"), call->authority);
    return out;
}

/* check_sender -- of the request: the name it uses for this server, and the page that it comes from. */
static bool check_sender(const srv_call *call, srv_sent *sent)
{
    char why[NAME_SIZE], buffer[HOST_SIZE];
    const srv_options *o = &call->s->o;
    const char *host = host_of(call, buffer), *origin = header(call, MHD_HTTP_HEADER_ORIGIN);
    if (!is_host_allowed(o, host)) {
        snprintf(why, sizeof why, "Host is \"%.100s\", which --allowed-hosts does not name", host);
        *sent = srv_reply_error(call->connection, 403, "Host", "host_not_allowed", why);
        return false;
    }
    if (!origin || is_own_origin(origin, host) || is_listed(o->cors_origins, origin)) return true;
    snprintf(why, sizeof why, "Origin is \"%.100s\", which --cors-origins does not name", origin);
    *sent = srv_reply_error(call->connection, 403, "Origin", "origin_not_allowed", why);
    return false;
}

bool srv_gate_check(srv_call *call, srv_tenant *tenant, srv_sent *sent)
{
    const char *why = ambiguity(call);
    if (why) {
        *sent = srv_reply_error(call->connection, 400, NULL, "bad_request", why);
        return false;
    }
    if (!check_sender(call, sent)) return false;
    call->route = find_route(call);
    if (!call->route) {
        *sent = refuse_path(call);
        return false;
    }
    call->record->probe = call->route->probe;
    if (!is_known(call, tenant, sent)) return false;
    if (call->s->counts.draining && strcmp(call->route->method, "GET") != 0) {
        *sent = srv_reply_error(call->connection, 503, NULL, "shutting_down",
                                "the server is shutting down");
        return false;
    }
    return take_body(call, sent);
}
