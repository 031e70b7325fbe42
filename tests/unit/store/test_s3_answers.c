/* test_s3_answers.c -- what becomes of an object store's answers, also of those that moto never gives. */
#include "support/check.h"

#include <malloc.h>
#include <time.h>

#include "store/remote/s3/clean.h"
#include "store/remote/s3/list.h"
#include "store/remote/tier.h"
#include "support/canned.h"
#include "support/failing_curl.h"
#include "support/s3.h"

static canned store;
static char heard[1 << 14]; /* the first lines of all requests */

static void begin(canned_fn *answer)
{
    *heard = '\0';
    canned_start(&store, "\r\n\r\n", answer);
    s3_use(store.port);
    setenv("AWS_REGION", "eu-west-1", 1);
}

static void reply(char *answer, size_t size, const char *request, const char *status, const char *body)
{
    const size_t n = strlen(heard);
    snprintf(heard + n, sizeof heard - n, "%.*s\n", (int)strcspn(request, "\r"), request);
    snprintf(answer, size, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s", status, strlen(body), body);
}

/* -- errors ------------------------------------------------------------------------------------------- */

static const struct wrong {
    const char *status, *code;
    bool if_absent;
    sp_err err;
    bool broken, is_there;
    const char *names;
} errors[] = {
    {"503 Slow Down", "SlowDown", false, SP_E_IO, true, false, "503 SlowDown"},
    {"500 Error", "InternalError", true, SP_E_IO, true, false, "500"},
    {"429 Too Many", "", false, SP_E_IO, true, false, "429"},
    {"503 Slow Down", "", false, SP_E_IO, true, false, ": 503"},
    {"400 Bad", "InvalidArgument", false, SP_E_IO, false, false, "InvalidArgument"},
    {"412 No", "PreconditionFailed", true, SP_OK, false, true, NULL},
    {"409 No", "ConditionalRequestConflict", true, SP_OK, false, true, NULL},
    {"412 No", "PreconditionFailed", false, SP_E_IO, false, false, "412"},
    {"501 No", "NotImplemented", true, SP_E_UNSUPPORTED, false, false, "If-None-Match"},
    {"404 No", "NoSuchKey", false, SP_E_NOTFOUND, false, false, "some/key"},
    {"404 No", "NoSuchBucket", false, SP_E_IO, true, false, "bucket first does not exist"},
    {"416 No", "InvalidRange", false, SP_E_FORMAT, false, false, "cut short"},
    {"301 Moved", "PermanentRedirect", false, SP_E_IO, true, false, "eu-west-1"},
    {"400 Bad", "AuthorizationHeaderMalformed", false, SP_E_IO, true, false, "AWS_REGION"},
    {"403 No", "AccessDenied", false, SP_E_IO, true, false, "AccessDenied with the key of AWS_ACCESS_KEY_ID"},
};
static const struct wrong *error;

static void answer_with_the_error(canned *c, const char *request, char *answer, size_t size)
{
    char body[256] = "";
    if (*error->code) snprintf(body, sizeof body, "<Error><Code>%s</Code><Message>m</Message></Error>", error->code);
    reply(answer, size, request, error->status, body);
}

/* broken: the next request would meet the same. */
static void each_error_is_what_it_means(void **state)
{
    begin(answer_with_the_error);
    const sp_remote_site site = s3_site("s3://first");
    for (error = errors; error < errors + SP_COUNT(errors); error++) {
        sp_s3_http *h;
        sp_s3_request r = {
            .method = error->if_absent ? "PUT" : "GET", .key = "some/key", .if_absent = error->if_absent};
        assert_ok(sp_s3_http_open(&site, &h));
        const sp_err err = sp_s3_run(h, &r, 1);
        if (err != error->err || sp_s3_http_is_broken(h) != error->broken || r.is_there != error->is_there ||
            (err != SP_OK && (!strstr(sp_error_detail(), error->names) ||
                              sp_error_detail()[strlen(sp_error_detail()) - 1] == ' ')))
            fail_msg("%s %s: %d %d %d %s", error->status, error->code, err, sp_s3_http_is_broken(h), r.is_there,
                     r.detail);
        sp_s3_request_fini(&r);
        sp_s3_http_close(h);
    }
    canned_stop(&store);
}

static void refuse_to_connect(canned *c, const char *request, char *answer, size_t size)
{
    reply(answer, size, request, "403 No", "");
}

/* As a proxy sees it. A bucket with a dot would not be in the certificate. */
static void without_an_endpoint_the_host_is_of_aws(void **state)
{
    static const char *const urls[] = {"s3://first", "s3://first.two"};
    begin(refuse_to_connect);
    setenv("https_proxy", getenv("AWS_ENDPOINT_URL"), 1);
    unsetenv("AWS_ENDPOINT_URL");
    for (size_t i = 0; i < SP_COUNT(urls); i++) {
        const sp_remote_site site = s3_site(urls[i]);
        sp_s3_http *h;
        sp_s3_request r = {.method = "GET", .key = "k"};
        assert_ok(sp_s3_http_open(&site, &h));
        assert_int_equal(sp_s3_run(h, &r, 1), SP_E_IO);
        sp_s3_request_fini(&r);
        sp_s3_http_close(h);
    }
    assert_string_equal(heard, "CONNECT first.s3.eu-west-1.amazonaws.com:443 HTTP/1.1\n"
                               "CONNECT s3.eu-west-1.amazonaws.com:443 HTTP/1.1\n");
    unsetenv("https_proxy");
    canned_stop(&store);
}

static void answer_with_another_place(canned *c, const char *request, char *answer, size_t size)
{
    char status[128];
    snprintf(status, sizeof status, "307 Elsewhere\r\nLocation: http://127.0.0.1:%d/elsewhere", c->port);
    reply(answer, size, request, status, "");
}

/* It would be signed for whoever is there. */
static void a_request_is_sent_nowhere_else(void **state)
{
    begin(answer_with_another_place);
    assert_fails(s3_ask("s3://first", "PUT", "some/key", "abc", 3), SP_E_IO, "AWS_REGION");
    assert_null(strstr(heard, "/elsewhere"));
    canned_stop(&store);
}

static void answer_at_length(canned *c, const char *request, char *answer, size_t size)
{
    c->n_after = 5 << 20;
    snprintf(answer, size, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", c->n_after);
}

static void an_answer_without_end_takes_4_mebibytes_at_most(void **state)
{
    begin(answer_at_length);
    assert_int_equal(s3_ask("s3://first", "GET", "some/key", NULL, 0), SP_E_IO);
    canned_stop(&store);
}

static void note_the_request(canned *c, const char *request, char *answer, size_t size)
{
    snprintf(heard, sizeof heard, "%s", request);
    snprintf(answer, size, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

static void a_request_has_the_token_and_the_sum_of_its_body(void **state)
{
    begin(note_the_request);
    setenv("AWS_SESSION_TOKEN", "for-an-hour", 1);
    assert_ok(s3_ask("s3://first", "PUT", "some/key", "abc", 3));
    unsetenv("AWS_SESSION_TOKEN");
    assert_non_null(strcasestr(heard, "\r\nx-amz-security-token: for-an-hour\r\n"));
    assert_non_null(strcasestr(heard, "\r\nx-amz-content-sha256: "
                                      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\r\n"));
    canned_stop(&store);
}

/* -- lists -------------------------------------------------------------------------------------------- */

static bool repeats; /* the store gives one page for ever */

static void answer_in_pages(canned *c, const char *request, char *answer, size_t size)
{
    const bool second = strstr(request, "continuation-token=t1") != NULL;
    reply(answer, size, request, "200 OK",
          second && !repeats ? "<L><Contents><Key>b</Key></Contents></L>"
                             : "<L><Contents><Key>a</Key></Contents>"
                               "<NextContinuationToken>t1</NextContinuationToken></L>");
}

static sp_err add_key(void *user, const sp_s3_row *row)
{
    strcat(user, row->key);
    return SP_OK;
}

static void a_list_has_all_its_pages(void **state)
{
    begin(answer_in_pages);
    const sp_remote_site site = s3_site("s3://first");
    for (int i = 0; i < 2; i++) {
        char keys[64] = "";
        sp_s3_http *h;
        repeats = i;
        assert_ok(sp_s3_http_open(&site, &h));
        sp_err err = sp_s3_list(h, &(sp_s3_which){.prefix = "p/", .after = "p/x"}, add_key, keys);
        assert_int_equal(err, repeats ? SP_E_FORMAT : SP_OK);
        if (!repeats) assert_string_equal(keys, "ab");
        sp_s3_http_close(h);
    }
    assert_non_null(strstr(heard, "start-after=p%2Fx"));
    canned_stop(&store);
}

/* -- news --------------------------------------------------------------------------------------------- */

#define SPACE "00112233445566778899aabbccddeeff" /* of s3_site */
#define NEWS(time, name) "<Contents><Key>" SPACE "/index/" time "." name ".1_2_3_0_4_5000_0</Key></Contents>"

static bool late; /* a put that began before the newest one has its notice now */

static void answer_with_news(canned *c, const char *request, char *answer, size_t size)
{
    reply(answer, size, request, "200 OK",
          late ? "<L>" NEWS("018f0a1b0000", "late") NEWS("018f0a1b2c3d", "new") "</L>"
               : "<L>" NEWS("018f0a1b2c3d", "new") "</L>");
}

static sp_err learn(void *user, const char *name, const char *says)
{
    strcat(strcat(user, name), " ");
    return SP_OK;
}

/* Clocks differ, and an upload takes time: ten minutes before the newest are read once more. */
static void what_comes_late_is_heard_of_once(void **state)
{
    char names[256] = "";
    sp_remote_link *l;
    begin(answer_with_news);
    const sp_remote_site site = s3_site("s3://first");
    const sp_remote_ears ears = {.learn = learn, .user = names};
    assert_ok(sp_remote_s3.open(&site, &l));
    assert_ok(sp_remote_s3.hear(l, &ears));
    assert_string_equal(names, "new ");
    late = true;
    for (int i = 0; i < 200 && !strstr(names, "late"); i++) assert_ok(sp_remote_s3.hear(l, &ears));
    assert_string_equal(names, "new late ");
    assert_non_null(strstr(heard, "start-after=" SPACE "%2Findex%2F018f0a12047d" /* 600,000 ms before */));
    sp_remote_s3.close(l);
    canned_stop(&store);
}

static void answer_with_news_of_tomorrow(canned *c, const char *request, char *answer, size_t size)
{
    reply(answer, size, request, "200 OK", "<L>" NEWS("018f0a1b2c3d", "new") NEWS("ffffffff0000", "ahead") "</L>");
}

/* list_from -- the time in the last request for a list that begins amid the index; 0: there was none. */
static uint64_t list_from(void)
{
    static const char after[] = "start-after=" SPACE "%2Findex%2F";
    const char *at = NULL;
    for (const char *next = heard; (next = strstr(next, after));) at = next += strlen(after);
    return at ? strtoull(at, NULL, 16) : 0;
}

/* Else nothing would be heard until that time has come. */
static void a_writer_whose_clock_is_ahead_hides_no_news(void **state)
{
    char names[256] = "";
    sp_remote_link *l;
    begin(answer_with_news_of_tomorrow);
    const sp_remote_site site = s3_site("s3://first");
    const sp_remote_ears ears = {.learn = learn, .user = names};
    assert_ok(sp_remote_s3.open(&site, &l));
    for (int i = 0; i < 200 && !list_from(); i++) assert_ok(sp_remote_s3.hear(l, &ears));
    assert_string_equal(names, "new ahead ");
    const uint64_t now_ms = (uint64_t)time(NULL) * 1000;
    assert_true(list_from() > now_ms - 700000 && list_from() <= now_ms - 590000);
    sp_remote_s3.close(l);
    canned_stop(&store);
}

/* -- notices ------------------------------------------------------------------------------------------ */

static char long_body[8000];

static void answer_a_notice_at_length(canned *c, const char *request, char *answer, size_t size)
{
    const bool is_notice = strncmp(request, "PUT", 3) == 0 && strstr(request, "/index/");
    reply(answer, size, request, strncmp(request, "HEAD", 4) == 0 ? "404 No" : "200 OK", is_notice ? long_body : "");
}

static void put_small(sp_remote_link *l)
{
    bool taken;
    const sp_remote_shape shape = {.head = 4, .group = 4, .last = 4, .n_groups = 1};
    assert_ok(sp_remote_s3.begin(l, "abc-0123-0", "1 2 3 0 4 5000 0", &shape, &taken));
    assert_ok(sp_remote_s3.add(l, 0, (const uint8_t *)"last", 4));
    assert_ok(sp_remote_s3.add(l, SP_PART_HEAD, (const uint8_t *)"head", 4));
    assert_ok(sp_remote_s3.finish(l, &taken));
    assert_false(taken);
}

/* (AddressSanitizer's allocator says 0, and finds leaks itself.) */
static size_t n_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void the_answer_to_a_notice_is_freed(void **state)
{
    enum { N = 20 };
    sp_remote_link *l;
    memset(long_body, 'x', sizeof long_body - 1);
    begin(answer_a_notice_at_length);
    const sp_remote_site site = s3_site("s3://first");
    assert_ok(sp_remote_s3.open(&site, &l));
    for (int i = 0; i < N; i++) put_small(l);
    const size_t before = n_bytes();
    for (int i = 0; i < N; i++) put_small(l);
    assert_true(n_bytes() < before + N * sizeof long_body / 2);
    assert_non_null(strstr(heard, "PUT /first/" SPACE "/index/"));
    sp_remote_s3.close(l);
    canned_stop(&store);
}

static int n_puts_of(const char *what)
{
    int n = 0;
    for (const char *at = heard; (at = strstr(at, what)); at++) n++;
    return n;
}

static void answer_without_conditions(canned *c, const char *request, char *answer, size_t size)
{
    reply(answer, size, request,
          strncmp(request, "HEAD", 4) == 0     ? "404 No"
          : strcasestr(request, "If-None-Match") ? "501 Not Implemented"
                                                 : "200 OK",
          "");
}

static void a_store_without_conditions_is_asked_for_them_once(void **state)
{
    sp_remote_link *l;
    begin(answer_without_conditions);
    const sp_remote_site site = s3_site("s3://first");
    assert_ok(sp_remote_s3.open(&site, &l));
    for (int i = 0; i < 3; i++) put_small(l);
    assert_int_equal(n_puts_of("PUT /first/" SPACE "/copy/"), 4);
    assert_int_equal(n_puts_of("PUT /first/" SPACE "/index/"), 3);
    sp_remote_s3.close(l);
    canned_stop(&store);
}

static void answer_ok_and_then_an_error(canned *c, const char *request, char *answer, size_t size)
{
    const bool is_head = strncmp(request, "HEAD", 4) == 0;
    reply(answer, size, request, is_head ? "404 No" : "200 OK",
          is_head ? "" : "<Error><Code>InternalError</Code><Message>We are sorry</Message></Error>");
}

/* As S3 does while it puts the parts of an upload together. */
static void a_success_that_became_an_error_names_no_copy(void **state)
{
    bool taken;
    sp_remote_link *l;
    begin(answer_ok_and_then_an_error);
    const sp_remote_site site = s3_site("s3://first");
    const sp_remote_shape shape = {.head = 4, .group = 4, .last = 4, .n_groups = 1};
    assert_ok(sp_remote_s3.open(&site, &l));
    assert_ok(sp_remote_s3.begin(l, "abc-0123-0", "1 2 3 0 4 5000 0", &shape, &taken));
    assert_ok(sp_remote_s3.add(l, 0, (const uint8_t *)"last", 4));
    assert_ok(sp_remote_s3.add(l, SP_PART_HEAD, (const uint8_t *)"head", 4));
    assert_fails(sp_remote_s3.finish(l, &taken), SP_E_IO, "InternalError: We are sorry");
    assert_null(strstr(heard, "/index/"));
    sp_remote_s3.abandon(l);
    sp_remote_s3.close(l);
    canned_stop(&store);
}

/* -- a header and layers that come apart -------------------------------------------------------------- */

/* Layers that were asked for beside the header, and come before it. */
static const struct apart {
    const char *layers, *head; /* status, body */
    const char *layers_body, *head_body;
    sp_err err;
    bool gone, broken;
} aparts[] = {
    {"206 Part", "206 Part", "two!", "head", SP_OK, false, false},
    {"206 Part", "206 Part", "two!", "he", SP_E_FORMAT, false, false},
    {"206 Part", "206 Part", "tw", "head", SP_E_FORMAT, false, false},
    {"206 Part", "404 No", "two!", "", SP_E_NOTFOUND, true, false},
    {"404 No", "206 Part", "", "head", SP_E_NOTFOUND, true, false},
    {"404 No", "404 No", "", "", SP_E_NOTFOUND, true, false}, /* told once */
    {"416 No", "206 Part", "", "head", SP_E_FORMAT, false, false},
    {"206 Part", "503 Slow", "two!", "", SP_E_IO, false, true},
    {"503 Slow", "206 Part", "", "head", SP_E_IO, false, true},
};
static const struct apart *apart;

static void answer_the_header_last(canned *c, const char *request, char *answer, size_t size)
{
    const bool is_head = strcasestr(request, "\r\nRange: bytes=0-3\r\n") != NULL;
    if (is_head) usleep(50000); /* the layers are read by then */
    c->together = 0;
    reply(answer, size, request, is_head ? apart->head : apart->layers,
          is_head ? apart->head_body : apart->layers_body);
}

typedef struct bringing {
    char parts[64];
    int n_gone, n_ended;
    sp_err err;
} bringing;

static sp_err take_part(void *user, int part, const uint8_t *data, size_t n)
{
    bringing *b = user;
    b->n_gone += !data;
    if (!data) return sp_fail(SP_E_NOTFOUND, "gone");
    sprintf(b->parts + strlen(b->parts), "%d %.*s ", part, (int)n, (const char *)data);
    return SP_OK;
}

static bool always(void *user)
{
    return true;
}

static void end_bringing(void *user, sp_err err)
{
    bringing *b = user;
    b->n_ended++;
    b->err = err;
}

static void layers_that_come_before_their_header_wait_for_it(void **state)
{
    const sp_remote_site site = s3_site("s3://first");
    for (apart = aparts; apart < aparts + SP_COUNT(aparts); apart++) {
        bringing b = {0};
        sp_remote_link *l;
        const sp_remote_ask ask = {.name = "abc-0123-0",
                                   .shape = {.head = 4, .group = 4, .last = 4, .n_groups = 2},
                                   .first = 1,
                                   .n = 1,
                                   .take = take_part,
                                   .is_wanted = always,
                                   .end = end_bringing,
                                   .user = &b};
        begin(answer_the_header_last);
        store.together = 2;
        assert_ok(sp_remote_s3.open(&site, &l));
        sp_remote_s3.get(l, &ask, 1);
        const bool good = b.err == apart->err && b.n_gone == apart->gone && b.n_ended == 1 &&
                          l->broken == apart->broken &&
                          (b.err != SP_OK || strcmp(b.parts, "-1 head 1 two! ") == 0);
        if (!good)
            fail_msg("%s, %s: %d, %d, %d, %d, %s", apart->layers, apart->head, b.err, b.n_gone, b.n_ended, l->broken,
                     b.parts);
        sp_remote_s3.close(l);
        canned_stop(&store);
    }
}

/* -- namespaces ------------------------------------------------------------------------------------- */

#define FOLDER(name) "<CommonPrefixes><Prefix>" name "/</Prefix></CommonPrefixes>"

static void answer_with_folders(canned *c, const char *request, char *answer, size_t size)
{
    reply(answer, size, request, "200 OK",
          "<L>" FOLDER("notes") FOLDER(SPACE) FOLDER(SPACE "0") FOLDER("x0112233445566778899aabbccddeeff") "</L>");
}

static sp_err take_space(void *user, const sp_digest *space)
{
    char *all = user;
    for (int i = 0; i < 16; i++) sprintf(all + strlen(all), "%02x", space->b[i]);
    strcat(all, " ");
    return SP_OK;
}

static void a_namespace_is_a_folder_of_32_digits(void **state)
{
    char all[256] = "";
    begin(answer_with_folders);
    const sp_remote_site site = s3_site("s3://first");
    assert_ok(sp_s3_each_space(&site, take_space, all));
    assert_string_equal(all, SPACE " ");
    canned_stop(&store);
}

/* -- cleaning ----------------------------------------------------------------------------------------- */

static void answer_with_uploads(canned *c, const char *request, char *answer, size_t size)
{
    static const int ages_s[] = {60, 80000, 90000};
    char body[2048] = "<L>", when[32];
    size_t n = strlen(body);
    for (size_t i = 0; i < SP_COUNT(ages_s) && strstr(request, "&uploads="); i++) {
        struct tm t;
        const time_t began = time(NULL) - ages_s[i];
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S.000Z", gmtime_r(&began, &t));
        n += (size_t)snprintf(body + n, sizeof body - n,
                              "<Upload><Key>k</Key><UploadId>u%d</UploadId><Initiated>%s</Initiated></Upload>",
                              ages_s[i], when);
    }
    snprintf(body + n, sizeof body - n, "</L>");
    reply(answer, size, request, strncmp(request, "DELETE", 6) == 0 ? "204 Gone" : "200 OK",
          strncmp(request, "DELETE", 6) == 0 ? "" : body);
}

static void uploads_of_more_than_a_day_are_stopped(void **state)
{
    int64_t n_orphans = 0, n_gone = 0;
    begin(answer_with_uploads);
    const sp_remote_site site = s3_site("s3://first");
    assert_ok(sp_s3_clean(&site, &n_orphans, &n_gone));
    assert_true(n_orphans == 0 && n_gone == 0);
    assert_non_null(strstr(heard, "DELETE /first/k?uploadId=u90000 "));
    assert_null(strstr(heard, "u60"));
    assert_null(strstr(heard, "u80000"));
    canned_stop(&store);
}

#define SPACES2 "ffeeddccbbaa99887766554433221100"
#define ID      "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a-012345678"
#define COPY(space, n)         "<Contents><Key>" space "/copy/" ID "9abcde" n "-0</Key></Contents>"
#define NOTICE(space, n, ends) "<Contents><Key>" space "/index/018f0a1b2c3d." ID "9abcde" n "-0.1_2_3_0_4_5000_" ends \
                               "</Key></Contents>"
#define LISTS(space, ...) {space "%2Fcopy", "<L>" COPY(space, "1") COPY(space, "2") "</L>", \
                           "<L>" COPY(space, "1") COPY(space, "2") COPY(space, "3") "</L>"}, \
    {space "%2Findex", "<L>" NOTICE(space, "2", "1") NOTICE(space, "3", "0") NOTICE(space, "4", "0") "</L>", NULL}

/* In each of two namespaces 1 has no notice, the time of 2 is over, 3 was put after the copies were listed, and 4 is
 * gone. */
static void answer_with_copies(canned *c, const char *request, char *answer, size_t size)
{
    static struct {
        const char *of, *first, *then; /* the list; as it is later, or NULL: the same */
    } lists[] = {LISTS(SPACE), LISTS(SPACES2)};
    const char *body = "<L></L>";
    if (strstr(request, "delimiter")) body = "<L>" FOLDER(SPACE) FOLDER(SPACES2) "</L>";
    for (size_t i = 0; i < SP_COUNT(lists) && strncmp(request, "GET", 3) == 0; i++) {
        if (!strstr(request, lists[i].of)) continue;
        body = lists[i].first;
        if (lists[i].then) lists[i].first = lists[i].then;
    }
    reply(answer, size, request, strncmp(request, "DELETE", 6) == 0 ? "204 Gone" : "200 OK",
          strncmp(request, "GET", 3) == 0 ? body : "");
}

static void what_is_cleaned_is_counted_over_all_namespaces(void **state)
{
    int64_t n_orphans = 0, n_gone = 0;
    begin(answer_with_copies);
    const sp_remote_site site = s3_site("s3://first");
    assert_ok(sp_s3_clean(&site, &n_orphans, &n_gone));
    assert_int_equal(n_orphans, 4); /* 1 and 2 of both */
    assert_int_equal(n_gone, 2);
    assert_non_null(strstr(heard, "DELETE /first/" SPACE "/copy/" ID "9abcde2-0"));
    assert_null(strstr(heard, "DELETE /first/" SPACE "/copy/" ID "9abcde3-0"));
    assert_null(strstr(heard, "DELETE /first/" SPACE "/index/018f0a1b2c3d." ID "9abcde3-0"));
    assert_non_null(strstr(heard, "DELETE /first/" SPACES2 "/index/018f0a1b2c3d." ID "9abcde4-0"));
    canned_stop(&store);
}

static sp_s3_took take_nothing(void *user, const uint8_t *data, size_t n)
{
    fail_msg("%zu bytes are taken that nobody asked for", n);
    return SP_S3_TAKEN;
}

static void answer_with_all(canned *c, const char *request, char *answer, size_t size)
{
    reply(answer, size, request, "200 OK", "all of the object");
}

static void a_store_that_ignores_the_range_is_an_error(void **state)
{
    begin(answer_with_all);
    const sp_remote_site site = s3_site("s3://first");
    sp_s3_http *h;
    sp_s3_request r = {.method = "GET", .key = "some/key", .first = 10, .n = 5, .take = take_nothing};
    assert_ok(sp_s3_http_open(&site, &h));
    assert_fails(sp_s3_run(h, &r, 1), SP_E_IO, "Range was ignored");
    sp_s3_request_fini(&r);
    sp_s3_http_close(h);
    canned_stop(&store);
}

/* -- memory ------------------------------------------------------------------------------------------- */

static char arrived[1 << 14]; /* the last request */

static void answer_well(canned *c, const char *request, char *answer, size_t size)
{
    snprintf(arrived, sizeof arrived, "%s", request);
    reply(answer, size, request, strstr(request, "Range: ") ? "206 Partial" : "200 OK", "");
}

static sp_s3_request request_of(size_t i)
{
    static const sp_s3_request all[] = {{.method = "DELETE", .key = "some/key"},
                                        {.method = "GET", .key = "some/key", .first = 10, .n = 20},
                                        {.method = "PUT", .key = "some/key", .body = "abc", .n_body = 3}};
    return all[i];
}

/* try -- with the allocation `at` failing; *failed: there was such a one. */
static sp_err try(size_t i, int at, bool *failed)
{
    const sp_remote_site site = s3_site("s3://first");
    sp_s3_http *h;
    sp_s3_request r = request_of(i);
    *arrived = '\0';
    assert_ok(sp_s3_http_open(&site, &h));
    curl_until_failure = at;
    const sp_err err = sp_s3_run(h, &r, 1);
    *failed = curl_until_failure < 0;
    curl_until_failure = -1;
    sp_s3_request_fini(&r);
    sp_s3_http_close(h);
    return err;
}

/* libcurl would send a GET for a DELETE, or the account's secret as it is. It may leave out the signature, which the
 * store refuses, or the part that is wanted. */
static void without_memory_a_request_is_not_another_one(void **state)
{
    begin(answer_well);
    for (size_t i = 0; i < 3; i++) {
        const sp_s3_request r = request_of(i);
        bool failed = true;
        int n_short = 0;
        for (int at = 0; failed; at++) {
            const sp_err err = try(i, at, &failed);
            n_short += err == SP_E_NOMEM;
            if (!*arrived) assert_int_not_equal(err, SP_OK);
            if (!*arrived) continue;
            const bool right = strncmp(arrived, r.method, strlen(r.method)) == 0 &&
                               !strstr(arrived, "Authorization: Basic");
            const bool part = !r.n || strstr(arrived, "bytes=10-29");
            if (!part) assert_int_equal(err, SP_E_IO);
            if (!right) fail_msg("allocation %d of %s fails, and is sent:\n%s", at, r.method, arrived);
        }
        assert_true(n_short > 5);
    }
    canned_stop(&store);
}

int main(void)
{
    failing_curl_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_error_is_what_it_means),
        cmocka_unit_test(without_an_endpoint_the_host_is_of_aws),
        cmocka_unit_test(a_request_is_sent_nowhere_else),
        cmocka_unit_test(an_answer_without_end_takes_4_mebibytes_at_most),
        cmocka_unit_test(a_request_has_the_token_and_the_sum_of_its_body),
        cmocka_unit_test(a_list_has_all_its_pages),
        cmocka_unit_test(what_comes_late_is_heard_of_once),
        cmocka_unit_test(a_writer_whose_clock_is_ahead_hides_no_news),
        cmocka_unit_test(the_answer_to_a_notice_is_freed),
        cmocka_unit_test(a_store_without_conditions_is_asked_for_them_once),
        cmocka_unit_test(a_success_that_became_an_error_names_no_copy),
        cmocka_unit_test(layers_that_come_before_their_header_wait_for_it),
        cmocka_unit_test(a_namespace_is_a_folder_of_32_digits),
        cmocka_unit_test(uploads_of_more_than_a_day_are_stopped),
        cmocka_unit_test(what_is_cleaned_is_counted_over_all_namespaces),
        cmocka_unit_test(a_store_that_ignores_the_range_is_an_error),
        cmocka_unit_test(without_memory_a_request_is_not_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
