#include "base/http.h"

#include <curl/curl.h>
#include <string.h>

#include "spolia.h"

#define CONNECT_MS 3000

struct sp_http {
    CURL *curl;
    char *url;
    int timeout_ms;
    sp_bytes form, at; /* at: URL and path of the request */
    sp_bytes *reply;
    sp_err body_err;
    long status;
    char why[CURL_ERROR_SIZE];
};

void sp_http_close(sp_http *h)
{
    if (!h) return;
    curl_easy_cleanup(h->curl);
    sp_vec_fini(&h->form);
    sp_vec_fini(&h->at);
    sp_free(h->url);
    sp_free(h);
}

sp_err sp_http_open(const char *url, int timeout_ms, sp_http **out)
{
    sp_http *h = SP_NEW(sp_http);
    if (!h) return sp_fail_nomem("a connection");
    h->timeout_ms = timeout_ms;
    h->url = sp_strdup_n(url, strlen(url));
    h->curl = curl_easy_init();
    if (!h->url || !h->curl) {
        sp_http_close(h);
        return sp_fail_nomem("a connection");
    }
    *out = h;
    return SP_OK;
}

static size_t take_body(char *data, size_t size, size_t n, void *user)
{
    sp_http *h = user;
    if (h->reply->n + n > SP_HTTP_MAX_BYTES)
        h->body_err = sp_fail(SP_E_LIMIT, "%s: the answer has more than %d MiB", h->url,
                              SP_HTTP_MAX_BYTES >> 20);
    else
        h->body_err = sp_bytes_add(h->reply, data, n);
    return h->body_err == SP_OK ? n : 0;
}

/* encode -- percent-encodes all but the unreserved characters. */
static sp_err encode(const char *s, size_t n, sp_bytes *out)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("-._~", c));
        char coded[3] = {'%', hex[c >> 4], hex[c & 15]};
        SP_TRY(plain ? sp_bytes_add(out, &s[i], 1) : sp_bytes_add(out, coded, 3));
    }
    return SP_OK;
}

static sp_err make_form(sp_http *h, const sp_http_field *fields, int n_fields)
{
    h->form.n = 0;
    for (int i = 0; i < n_fields; i++) {
        SP_TRY(sp_bytes_addf(&h->form, "%s%s=", i ? "&" : "", fields[i].name));
        SP_TRY(encode(fields[i].value, fields[i].n, &h->form));
    }
    return SP_OK;
}

/* check_status -- an answer that is no success is an error with its first line. */
static sp_err check_status(sp_http *h)
{
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &h->status);
    if (h->status >= 200 && h->status < 300) return SP_OK;
    size_t n = 0;
    while (n < h->reply->n && n < 300 && h->reply->v[n] != '\n' && h->reply->v[n]) n++;
    return sp_fail(SP_E_IO, "%s: HTTP status %ld%s%.*s", h->at.v, h->status, n ? ": " : "", (int)n,
                   n ? h->reply->v : "");
}

/* set_text -- without an option the request would be another one. */
static sp_err set_text(sp_http *h, CURLoption option, const char *text)
{
    const bool good = curl_easy_setopt(h->curl, option, text) != CURLE_OUT_OF_MEMORY;
    return good ? SP_OK : sp_fail_nomem("a request");
}

static sp_err set_options(sp_http *h, const sp_http_request *r, struct curl_slist *headers)
{
    CURL *c = h->curl;
    curl_easy_reset(c); /* keeps the connection */
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)h->timeout_ms);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->why);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    if (r->body) curl_easy_setopt(c, CURLOPT_POSTFIELDS, r->body);
    if (r->body) curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->n);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, h);
    SP_TRY(set_text(h, CURLOPT_URL, h->at.v));
    SP_TRY(set_text(h, CURLOPT_CUSTOMREQUEST, r->method));
    SP_TRY(set_text(h, CURLOPT_PROTOCOLS_STR, "http,https"));
    return set_text(h, CURLOPT_USERAGENT, "spolia/" SPOLIA_VERSION);
}

/* make_headers -- *out is NULL after an error. No "Expect": it would cost a round trip for each long body. */
static sp_err make_headers(const sp_http_request *r, struct curl_slist **out)
{
    char accept[128], type[128];
    snprintf(accept, sizeof accept, "Accept: %s", r->accept);
    snprintf(type, sizeof type, "Content-Type: %s", r->type);
    const char *const lines[] = {accept, "Expect:", r->body ? type : NULL, r->header};
    struct curl_slist *all = NULL;
    for (size_t i = 0; i < SP_COUNT(lines); i++) {
        if (!lines[i]) continue;
        struct curl_slist *more = curl_slist_append(all, lines[i]);
        if (!more) {
            curl_slist_free_all(all);
            return sp_fail_nomem("a request");
        }
        all = more;
    }
    *out = all;
    return SP_OK;
}

sp_err sp_http_send(sp_http *h, const sp_http_request *r, sp_bytes *reply)
{
    struct curl_slist *headers = NULL;
    h->at.n = 0;
    h->reply = reply;
    h->body_err = SP_OK;
    h->why[0] = '\0';
    h->status = 0;
    reply->n = 0;
    SP_TRY(sp_bytes_addf(&h->at, "%s%s%c", h->url, r->path ? r->path : "", '\0'));
    SP_TRY(make_headers(r, &headers));
    const sp_err err = set_options(h, r, headers);
    const CURLcode rc = err == SP_OK ? curl_easy_perform(h->curl) : CURLE_OK;
    curl_slist_free_all(headers);
    SP_TRY(err);
    if (h->body_err != SP_OK) return h->body_err;
    if (rc == CURLE_OPERATION_TIMEDOUT)
        return sp_fail(SP_E_IO, "%s: no answer within %d ms", h->at.v, h->timeout_ms);
    if (rc != CURLE_OK)
        return sp_fail(SP_E_IO, "%s: %s", h->at.v, *h->why ? h->why : curl_easy_strerror(rc));
    return check_status(h);
}

long sp_http_status(const sp_http *h)
{
    return h->status;
}

sp_err sp_http_post(sp_http *h, const sp_http_field *fields, int n_fields, const char *accept,
                    sp_bytes *reply)
{
    SP_TRY(make_form(h, fields, n_fields));
    const sp_http_request r = {.method = "POST",
                               .accept = accept,
                               .type = "application/x-www-form-urlencoded",
                               .body = h->form.v ? h->form.v : "",
                               .n = h->form.n};
    return sp_http_send(h, &r, reply);
}
