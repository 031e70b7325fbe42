#include "retrieve/graph/http_int.h"
#include "spolia.h"

#include <curl/curl.h>
#include <string.h>

#define CONNECT_MS 3000

struct sp_http {
    CURL *curl;
    char *url;
    int timeout_ms;
    sp_bytes form;
    sp_bytes *reply;
    sp_err body_err;
    char why[CURL_ERROR_SIZE];
};

void sp_http_close(sp_http *h)
{
    if (!h) return;
    curl_easy_cleanup(h->curl);
    sp_vec_fini(&h->form);
    sp_free(h->url);
    sp_free(h);
}

sp_err sp_http_open(const char *url, int timeout_ms, sp_http **out)
{
    sp_http *h = SP_NEW(sp_http);
    if (!h) return sp_fail_nomem(sizeof *h, "a connection");
    h->timeout_ms = timeout_ms;
    h->url = sp_strdup_n(url, strlen(url));
    h->curl = curl_easy_init();
    if (!h->url || !h->curl) {
        sp_http_close(h);
        return sp_fail_nomem(strlen(url), "a connection");
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

/* status -- an answer that is no success, with its first line. */
static sp_err status(sp_http *h)
{
    long code = 0;
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code >= 200 && code < 300) return SP_OK;
    size_t n = 0;
    while (n < h->reply->n && n < 300 && h->reply->v[n] != '\n' && h->reply->v[n]) n++;
    return sp_fail(SP_E_IO, "%s: HTTP status %ld%s%.*s", h->url, code, n ? ": " : "", (int)n,
                   n ? h->reply->v : "");
}

static void set_options(sp_http *h, struct curl_slist *headers)
{
    CURL *c = h->curl;
    curl_easy_reset(c); /* keeps the connection */
    curl_easy_setopt(c, CURLOPT_URL, h->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)SP_MIN(CONNECT_MS, h->timeout_ms));
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)h->timeout_ms);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->why);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, h->form.v);
    curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)h->form.n);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, h);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "spolia/" SPOLIA_VERSION);
}

sp_err sp_http_post(sp_http *h, const sp_http_field *fields, int n_fields, const char *accept,
                    sp_bytes *reply)
{
    char header[128];
    SP_TRY(make_form(h, fields, n_fields));
    snprintf(header, sizeof header, "Accept: %s", accept);
    struct curl_slist *headers = curl_slist_append(NULL, header);
    if (!headers) return sp_fail_nomem(sizeof header, "a request");
    h->reply = reply;
    h->body_err = SP_OK;
    h->why[0] = '\0';
    reply->n = 0;
    set_options(h, headers);
    CURLcode rc = curl_easy_perform(h->curl);
    curl_slist_free_all(headers);
    if (h->body_err != SP_OK) return h->body_err;
    if (rc == CURLE_OPERATION_TIMEDOUT)
        return sp_fail(SP_E_IO, "%s: no answer within %d ms", h->url, h->timeout_ms);
    if (rc != CURLE_OK)
        return sp_fail(SP_E_IO, "%s: %s", h->url, *h->why ? h->why : curl_easy_strerror(rc));
    return status(h);
}
