#include "store/remote/s3/http.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "spolia.h"
#include "store/remote/s3/account.h"
#include "store/remote/s3/reply.h"

enum {
    CONNECTIONS = 8,      /* at most, with HTTP/1.1; requests beyond wait */
    WAIT_MS = 50,         /* until callers are asked whether they still want it */
    EXPECT_MS = 100,      /* for a store to refuse a large body before it is sent */
    TEXT_BYTES = 4 << 20, /* of an answer that nobody takes: 1,000 names are 500 KB */
    URL_BYTES = 2048,
};

struct sp_s3_http {
    sp_s3_address address;
    sp_s3_account account;
    char *ca_file;
    int64_t timeout_us;
    CURLM *multi;
    char base[768];    /* URL of the bucket, with a slash at its end */
    char sign[96];     /* CURLOPT_AWS_SIGV4 */
    char login[520];   /* CURLOPT_USERPWD: key and secret */
    curl_off_t n_moved; /* bytes of all requests, both ways */
    int64_t moved_us;   /* when it last grew */
    bool broken;
};

/* A request that is sent and answered. */
typedef struct sp_s3_way {
    sp_s3_http *h;
    sp_s3_request *r;
    CURL *easy;
    struct curl_slist *headers;
    curl_off_t n_moved;
    bool resumes; /* sp_s3_resume */
    long status;
    char why[CURL_ERROR_SIZE];
} sp_s3_way;

/* -- the bucket -------------------------------------------------------------------------------------- */

/* name_base -- AWS: the bucket is part of the host, unless a dot keeps it out of the certificate. */
static void name_base(sp_s3_http *h)
{
    const char *bucket = h->address.bucket, *region = h->account.region;
    if (*h->account.endpoint)
        snprintf(h->base, sizeof h->base, "%s/%s/", h->account.endpoint, bucket);
    else if (strchr(bucket, '.'))
        snprintf(h->base, sizeof h->base, "https://s3.%s.amazonaws.com/%s/", region, bucket);
    else
        snprintf(h->base, sizeof h->base, "https://%s.s3.%s.amazonaws.com/", bucket, region);
    snprintf(h->sign, sizeof h->sign, "aws:amz:%s:s3", region);
    snprintf(h->login, sizeof h->login, "%s:%s", h->account.key, h->account.secret);
}

static void begin_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static sp_err open_multi(sp_s3_http *h)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin_curl);
    h->multi = curl_multi_init();
    if (!h->multi) return sp_fail_nomem("connections to an object store");
    curl_multi_setopt(h->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)CONNECTIONS);
    curl_multi_setopt(h->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
    return SP_OK;
}

sp_err sp_s3_http_open(const sp_remote_site *s, sp_s3_http **out)
{
    sp_s3_http *h = SP_NEW(sp_s3_http);
    if (!h) return sp_fail_nomem("an object store");
    h->timeout_us = s->timeout_us;
    sp_err err = sp_s3_parse(s->url, &h->address);
    if (err == SP_OK) err = sp_s3_account_find(&h->account);
    if (s->ca_file) h->ca_file = sp_strdup_n(s->ca_file, strlen(s->ca_file));
    if (err == SP_OK && s->ca_file && !h->ca_file) err = sp_fail_nomem("the name of a file");
    if (err == SP_OK) err = open_multi(h);
    if (err != SP_OK) {
        sp_s3_http_close(h);
        return err;
    }
    name_base(h);
    *out = h;
    return SP_OK;
}

void sp_s3_http_close(sp_s3_http *h)
{
    if (!h) return;
    curl_multi_cleanup(h->multi);
    sp_s3_account_fini(&h->account);
    explicit_bzero(h->login, sizeof h->login);
    sp_free(h->ca_file);
    sp_free(h);
}

const char *sp_s3_http_prefix(const sp_s3_http *h)
{
    return h->address.prefix;
}

bool sp_s3_http_is_broken(const sp_s3_http *h)
{
    return h->broken;
}

/* -- callbacks of curl -------------------------------------------------------------------------------- */

static size_t keep_text(sp_s3_request *r, const char *data, size_t n)
{
    if (r->text.n + n > TEXT_BYTES || sp_vec_reserve(&r->text, n + 1) != SP_OK) return 0;
    memcpy(r->text.v + r->text.n, data, n);
    r->text.n += n;
    r->text.v[r->text.n] = '\0';
    return n;
}

/* is_other_part -- whether all of an object is the answer where a part was asked for: the store ignores Range, or
 * libcurl lacked the memory to send it. */
static bool is_other_part(const sp_s3_way *w)
{
    return w->r->n && w->status == 200;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    sp_s3_way *w = user;
    if (!w->status) curl_easy_getinfo(w->easy, CURLINFO_RESPONSE_CODE, &w->status);
    if (is_other_part(w)) return 0;
    if (!w->r->take || w->status / 100 != 2) return keep_text(w->r, data, size * n);
    switch (w->r->take(w->r->user, (const uint8_t *)data, size * n)) {
    case SP_S3_LATER:
        return CURL_WRITEFUNC_PAUSE;
    case SP_S3_ENOUGH:
        return 0;
    case SP_S3_TAKEN:
        break;
    }
    return size * n;
}

/* keep_header -- the value of a header of this name, without blanks and the end of the line. */
static void keep_header(const char *line, size_t n, const char *name, char *out, size_t size)
{
    const size_t k = strlen(name);
    if (n <= k || strncasecmp(line, name, k) != 0) return;
    while (n > k && (line[n - 1] == '\r' || line[n - 1] == '\n' || line[n - 1] == ' ')) n--;
    const char *value = line + k;
    while (value < line + n && *value == ' ') value++;
    snprintf(out, size, "%.*s", (int)(line + n - value), value);
}

static size_t on_header(char *data, size_t size, size_t n, void *user)
{
    sp_s3_request *r = ((sp_s3_way *)user)->r;
    keep_header(data, size * n, "etag:", r->etag, sizeof r->etag);
    keep_header(data, size * n, "x-amz-meta-spolia:", r->said_note, sizeof r->said_note);
    return size * n;
}

static int on_progress(void *user, curl_off_t of, curl_off_t down, curl_off_t to, curl_off_t up)
{
    sp_s3_way *w = user;
    SP_UNUSED(of);
    SP_UNUSED(to);
    if (down + up > w->n_moved) w->h->moved_us = sp_clock_us();
    w->n_moved = down + up;
    return w->r->is_wanted && !w->r->is_wanted(w->r->user);
}

/* -- requests ------------------------------------------------------------------------------------------ */

/* add_header -- false: out of memory. */
static bool add_header(sp_s3_way *w, const char *name, const char *value)
{
    char line[9000];
    snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *more = curl_slist_append(w->headers, line);
    explicit_bzero(line, sizeof line);
    if (!more) return false;
    w->headers = more;
    return true;
}

/* add_sum -- of the body. Stores want it beside the signature; libcurl 7.88 signs it, but does not send it. */
static bool add_sum(sp_s3_way *w)
{
    sp_digest sum;
    sp_sha256 *hash;
    char hex[2 * sizeof sum.b + 1];
    if (sp_sha256_create(&hash) != SP_OK) return false;
    if (w->r->n_body) sp_sha256_update(hash, w->r->body, w->r->n_body);
    sp_sha256_final(hash, &sum);
    sp_digest_hex(&sum, sizeof sum.b, hex);
    return add_header(w, "x-amz-content-sha256", hex);
}

static bool add_headers(sp_s3_way *w)
{
    const sp_s3_request *r = w->r;
    const char *token = w->h->account.token;
    return add_sum(w) && (!r->body || add_header(w, "Content-Type", "application/octet-stream")) &&
           (!r->if_absent || add_header(w, "If-None-Match", "*")) &&
           (!r->note || add_header(w, "x-amz-meta-spolia", r->note)) &&
           (!*token || add_header(w, "x-amz-security-token", token));
}

/* set_text -- false: out of memory. Without an option the request would be another one: a GET for a DELETE, all of an
 * object for a part of it, the account's secret unsigned. */
static bool set_text(sp_s3_way *w, CURLoption option, const char *text)
{
    return !text || curl_easy_setopt(w->easy, option, text) != CURLE_OUT_OF_MEMORY;
}

static bool set_method(sp_s3_way *w)
{
    const sp_s3_request *r = w->r;
    const bool sends = strcmp(r->method, "PUT") == 0 || strcmp(r->method, "POST") == 0;
    if (sends) {
        curl_easy_setopt(w->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->n_body);
        curl_easy_setopt(w->easy, CURLOPT_POSTFIELDS, r->body ? r->body : "");
    }
    if (strcmp(r->method, "GET") == 0) return true;
    if (strcmp(r->method, "HEAD") != 0) return set_text(w, CURLOPT_CUSTOMREQUEST, r->method);
    curl_easy_setopt(w->easy, CURLOPT_NOBODY, 1L);
    return true;
}

static bool set_place(sp_s3_way *w)
{
    const sp_s3_request *r = w->r;
    char url[URL_BYTES], range[48];
    snprintf(url, sizeof url, "%s%s%s%s", w->h->base, r->key, r->query ? "?" : "", r->query ? r->query : "");
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, r->first, r->first + r->n - 1);
    return set_text(w, CURLOPT_URL, url) && (!r->n || set_text(w, CURLOPT_RANGE, range));
}

static bool set_account(sp_s3_way *w)
{
    const sp_s3_http *h = w->h;
    return set_text(w, CURLOPT_AWS_SIGV4, h->sign) && set_text(w, CURLOPT_USERPWD, h->login) &&
           set_text(w, CURLOPT_CAINFO, h->ca_file) && set_text(w, CURLOPT_PROTOCOLS_STR, "http,https") &&
           set_text(w, CURLOPT_USERAGENT, "spolia/" SPOLIA_VERSION);
}

static bool set_all(sp_s3_way *w)
{
    CURL *c = w->easy;
    const sp_s3_http *h = w->h;
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(h->timeout_us / 1000));
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, w->headers);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, w->why);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, w);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, w);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, w);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_PRIVATE, w);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(c, CURLOPT_EXPECT_100_TIMEOUT_MS, (long)EXPECT_MS);
    return set_place(w) && set_method(w) && set_account(w);
}

static void free_way(sp_s3_way *w)
{
    if (!w) return;
    if (w->easy) {
        curl_multi_remove_handle(w->h->multi, w->easy);
        curl_easy_cleanup(w->easy);
    }
    curl_slist_free_all(w->headers);
    w->r->way = NULL;
    sp_free(w);
}

SP_PRINTF(4, 5) static void fail(sp_s3_way *w, sp_err err, bool broken, const char *how, ...)
{
    va_list args;
    char why[256];
    const sp_s3_http *h = w->h;
    va_start(args, how);
    vsnprintf(why, sizeof why, how, args);
    va_end(args);
    w->h->broken |= broken;
    w->r->err = err;
    snprintf(w->r->detail, sizeof w->r->detail, "s3://%s at %.100s: %s", h->address.bucket, h->base, why);
}

/* judge_status -- of an answer that is no success. */
static void judge_status(sp_s3_way *w)
{
    sp_s3_request *r = w->r;
    sp_s3_error e;
    const char *region = w->h->account.region;
    sp_s3_read_error(r->text.v, r->text.n, &e);
    const bool no_bucket = strcmp(e.code, "NoSuchBucket") == 0;
    if (r->if_absent && (w->status == 412 || w->status == 409))
        r->is_there = true;
    else if (r->if_absent && w->status == 501)
        fail(w, SP_E_UNSUPPORTED, false, "If-None-Match: %s", e.code);
    else if (w->status == 404 && !no_bucket)
        fail(w, SP_E_NOTFOUND, false, "%s does not exist", r->key);
    else if (w->status == 416)
        fail(w, SP_E_FORMAT, false, "%s is cut short", r->key);
    else if (no_bucket)
        fail(w, SP_E_IO, true, "bucket %s does not exist", w->h->address.bucket);
    else if (w->status == 301 || w->status == 307 || strcmp(e.code, "AuthorizationHeaderMalformed") == 0)
        fail(w, SP_E_IO, true, "%ld %s: the bucket is not in the region %s (AWS_REGION): %.120s", w->status, e.code,
             region, e.message);
    else if (w->status == 401 || w->status == 403)
        fail(w, SP_E_IO, true, "%ld %s with the key of %.120s: %.100s", w->status, *e.code ? e.code : "no access",
             w->h->account.from, e.message);
    else /* HEAD is answered without code and message */
        fail(w, SP_E_IO, w->status >= 500 || w->status == 429, "%ld%s%s%s%.160s", w->status, *e.code ? " " : "",
             e.code, *e.message ? ": " : "", e.message);
}

static void judge(sp_s3_way *w, CURLcode code)
{
    sp_s3_request *r = w->r;
    curl_easy_getinfo(w->easy, CURLINFO_RESPONSE_CODE, &w->status);
    if (is_other_part(w)) {
        fail(w, SP_E_IO, true, "200 for a part of %s, and not 206: Range was ignored", r->key);
        return;
    }
    if (code == CURLE_ABORTED_BY_CALLBACK || (code == CURLE_WRITE_ERROR && r->take && w->status / 100 == 2)) {
        r->err = SP_E_CANCELED;
        snprintf(r->detail, sizeof r->detail, "a request to an object store was cancelled");
        return;
    }
    if (code != CURLE_OK) {
        fail(w, SP_E_IO, true, "%.200s", *w->why ? w->why : curl_easy_strerror(code));
        return;
    }
    if (w->status / 100 != 2) judge_status(w);
}

static void end_way(sp_s3_way *w)
{
    sp_s3_request *r = w->r;
    free_way(w);
    if (r->end) r->end(r);
}

/* begin_way -- Errors: in r->err. */
static void begin_way(sp_s3_http *h, sp_s3_request *r)
{
    sp_s3_way *w = SP_NEW(sp_s3_way);
    if (w) *w = (sp_s3_way){.h = h, .r = r, .easy = curl_easy_init()};
    if (w && w->easy && add_headers(w) && set_all(w)) {
        r->way = w;
        if (curl_multi_add_handle(h->multi, w->easy) == CURLM_OK) return;
    }
    r->err = SP_E_NOMEM;
    snprintf(r->detail, sizeof r->detail, "out of memory for a request to an object store");
    if (w)
        end_way(w);
    else if (r->end)
        r->end(r);
}

/* reap -- ends those that have been answered. */
static void reap(sp_s3_http *h)
{
    int n;
    for (CURLMsg *m; (m = curl_multi_info_read(h->multi, &n));) {
        sp_s3_way *w = NULL;
        if (m->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&w);
        judge(w, m->data.result);
        end_way(w);
    }
}

/* give_up -- on all that are under way. */
static void give_up(sp_s3_http *h, sp_s3_request *v, int n)
{
    for (int i = 0; i < n; i++) {
        if (!v[i].way) continue;
        fail(v[i].way, SP_E_IO, true, "no answer within %.1f s", (double)h->timeout_us / 1e6);
        end_way(v[i].way);
    }
}

/* resume -- outside of curl's callbacks. */
static void resume(sp_s3_request *v, int n)
{
    for (int i = 0; i < n; i++) {
        if (!v[i].way || !v[i].way->resumes) continue;
        v[i].way->resumes = false;
        curl_easy_pause(v[i].way->easy, CURLPAUSE_CONT);
    }
}

sp_err sp_s3_run(sp_s3_http *h, sp_s3_request *v, int n)
{
    int n_running = 1;
    h->moved_us = sp_clock_us();
    for (int i = 0; i < n; i++) begin_way(h, &v[i]);
    while (n_running) {
        if (curl_multi_perform(h->multi, &n_running) != CURLM_OK) h->moved_us = INT64_MIN / 2;
        reap(h);
        resume(v, n);
        if (n_running && sp_clock_us() - h->moved_us > h->timeout_us) give_up(h, v, n);
        if (n_running) curl_multi_poll(h->multi, NULL, 0, WAIT_MS, NULL);
    }
    for (int i = 0; i < n; i++)
        if (v[i].err != SP_OK) return sp_s3_request_fail(&v[i]);
    return SP_OK;
}

void sp_s3_resume(sp_s3_request *r)
{
    if (r->way) r->way->resumes = true;
}

void sp_s3_request_fini(sp_s3_request *r)
{
    sp_vec_fini(&r->text);
}

sp_err sp_s3_request_fail(const sp_s3_request *r)
{
    return sp_fail(r->err, "%s", r->detail);
}
