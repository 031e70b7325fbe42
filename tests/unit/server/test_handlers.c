/* Parts of the server on a small model, without a connection: what they free, how long they wait, whose work it is. */
#include <dirent.h>
#include <malloc.h>
#include <microhttpd.h>

#include "base/clock.h"
#include "server/api/dialect.h"
#include "server/api/explain.h"
#include "server/api/handlers.h"
#include "server/api/job.h"
#include "server/api/messages.h"
#include "server/api/rank.h"
#include "server/api/room.h"
#include "server/dialects/anthropic.h"
#include "server/documents/collections.h"
#include "server/documents/documents.h"
#include "server/documents/idle.h"
#include "server/http/reply.h"
#include "support/caught.h"
#include "support/folder.h"
#include "support/requests.h"

/* -- a connection that nobody reads ----------------------------------------------------------------- */

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *c,
                                                        enum MHD_ConnectionInfoType what, ...)
{
    return NULL;
}

enum MHD_Result MHD_set_connection_option(struct MHD_Connection *c, enum MHD_CONNECTION_OPTION option, ...)
{
    return MHD_YES;
}

static unsigned status;
static const sp_documents_reading *reading; /* of the call; NULL: of no interest */
static uint64_t reading_tenant;             /* when the reply was queued */

enum MHD_Result MHD_queue_response(struct MHD_Connection *c, unsigned code, struct MHD_Response *r)
{
    status = code;
    if (reading) reading_tenant = reading->tenant;
    return MHD_YES;
}

static char replied[4096]; /* the last text, or its beginning */

struct MHD_Response *MHD_create_response_from_buffer(size_t n, void *text, enum MHD_ResponseMemoryMode mode)
{
    snprintf(replied, sizeof replied, "%.*s", (int)n, (char *)text);
    return MHD_create_response_from_buffer_with_free_callback(n, text, mode == MHD_RESPMEM_MUST_FREE ? free : NULL);
}

static srv_place place;
static srv_record record;
static srv_running running;

static srv_call call_to(srv_server *s)
{
    return (srv_call){.s = s, .place = &place, .record = &record, .running = &running};
}

/* -- what is freed ------------------------------------------------------------------------------------ */

/* n_bytes -- that this process has allocated. AddressSanitizer's allocator says 0, and finds leaks itself. */
static size_t n_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void tokens_that_were_sent_are_freed(void **state)
{
    enum { N = 8, LETTERS = 8000 };
    sp_vocab *vocab;
    char body[LETTERS + 32] = "{\"content\": \"";
    assert_ok(sp_vocab_open(MODEL, &vocab));
    srv_server s = {.vocab = vocab, .info.n_ctx = 100};
    srv_call call = call_to(&s);
    const size_t n = strlen(body);
    for (size_t i = 0; i < LETTERS; i++) body[n + i] = (char)('a' + i % 26);
    strcpy(body + n + LETTERS, "\"}");
    call.body = body;
    call.n = strlen(body);
    size_t before = 0;
    for (int i = 0; i < 2 * N; i++) {
        if (i == N) before = n_bytes();
        status = 0;
        assert_int_equal(srv_tokenize(&call), MHD_YES);
        assert_int_equal(status, 200);
    }
    assert_true(n_bytes() < before + N * LETTERS);
    sp_vocab_close(vocab);
}

/* A server that answers chats; closed by close_chats. */
static srv_server *open_chats(const char *db)
{
    srv_server *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->ctx = open_with((sp_context_opts){0});
    s->vocab = sp_context_vocab(s->ctx);
    s->info = sp_context_describe(s->ctx);
    s->quotas = srv_quotas_open(4);
    s->most_text = srv_room_most(s->vocab, &s->info);
    s->o.alias = "tiny";
    s->o.sampling = (sp_sampling){.top_p = 1, .repeat_penalty = 1};
    srv_metrics_init(&s->metrics);
    srv_pace_init(&s->pace);
    pthread_mutex_init(&s->jobs.lock, NULL);
    assert_ok(sp_documents_open(s->ctx, &(sp_documents_opts){.path = db}, &s->documents));
    assert_ok(sp_context_start(s->ctx));
    return s;
}

static void close_chats(srv_server *s)
{
    sp_context_stop(s->ctx);
    pthread_mutex_destroy(&s->jobs.lock);
    srv_pace_fini(&s->pace);
    srv_metrics_fini(&s->metrics);
    srv_quotas_close(s->quotas);
    sp_documents_close(s->documents);
    sp_context_close(s->ctx);
    free(s);
}

/* post -- the status of a path's reply to a body; its job is freed, as at the end of an exchange. */
static unsigned post(srv_server *s, srv_sent (*path)(srv_call *), const char *body)
{
    const srv_tenant tenant = {0};
    srv_left left;
    srv_call call = call_to(s);
    call.body = body;
    call.n = strlen(body);
    call.tenant = &tenant;
    call.left = &left;
    s->explain = srv_explain_open();
    assert_int_equal(path(&call), MHD_YES);
    srv_explain_close(s->explain);
    if (running.end) running.end(running.of);
    srv_quotas_leave(s->quotas, place.account, place.n);
    running = (srv_running){0};
    place = (srv_place){0};
    return status;
}

static void a_chat_that_was_answered_leaves_nothing(void **state)
{
    enum { N = 40, NODES = 60 };
    char dir[128], db[160], body[4096] = "{\"max_tokens\": 2, \"messages\": [{\"role\": \"user\", "
                                         "\"content\": \"Who?\"}], \"documents\": [{\"type\": \"tree\", "
                                         "\"nodes\": [{\"text\": \"a\"}";
    make_folder(dir, sizeof dir);
    snprintf(db, sizeof db, "%s/documents.db", dir);
    srv_server *s = open_chats(db);
    for (int i = 1; i < NODES; i++) strcat(body, ", {\"text\": \"b\", \"parent\": 0}");
    strcat(body, "]}]}");
    size_t most = 0, least = SIZE_MAX; /* of the first and of the last N: the engine may be at work still */
    for (int i = 0; i < 3 * N; i++) {
        assert_int_equal(post(s, srv_chat, body), 200);
        const size_t n = n_bytes();
        if (i < N) most = SP_MAX(most, n);
        if (i >= 2 * N) least = SP_MIN(least, n);
    }
    assert_true(least < most + N / 2 * NODES * sizeof(sp_prompt_node));
    assert_int_equal(s->counts.n_prefilling, 0);
    assert_int_equal(s->counts.n_active, 0);
    close_chats(s);
    remove_folder(dir);
}

static ssize_t no_bytes(void *user, uint64_t at, char *to, size_t most)
{
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static void count_free(void *user)
{
    (*(int *)user)++;
}

static void a_stream_is_freed_with_its_connection(void **state)
{
    int n = 0;
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16, no_bytes, &n, count_free);
    assert_int_equal(srv_reply_events(NULL, r, false), MHD_YES);
    assert_int_equal(n, 1); /* nobody else holds it */
}

static int n_open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void a_collection_that_is_closed_has_no_file_open(void **state)
{
    const char *docs = "demo/docs";
    char dir[128], given[160] = "velm=";
    make_folder(dir, sizeof dir);
    snprintf(given + 5, sizeof given - 5, "%s/velm.db", dir);
    assert_ok(sp_index_build(&docs, 1, given + 5, NULL, NULL));
    const char *all[] = {given};
    srv_server s = {.o.collections = all, .o.n_collections = 1};
    const int before = n_open_files();
    assert_true(srv_collections_open(&s));
    assert_true(n_open_files() > before);
    srv_collections_close(&s);
    assert_int_equal(n_open_files(), before);
    remove_folder(dir);
}

/* growth -- bytes that n calls of a handler leave allocated. */
static size_t growth(srv_call *call, srv_sent handler(srv_call *), int n, unsigned expected)
{
    size_t before = 0;
    for (int i = -5; i < n; i++) { /* the first ones fill caches */
        if (i == 0) before = n_bytes();
        assert_int_equal(handler(call), MHD_YES);
        assert_int_equal(status, expected);
    }
    const size_t after = n_bytes();
    return after - SP_MIN(before, after);
}

static void lists_of_collections_are_freed(void **state)
{
    enum { N = 1000 };
    char dir[128], db[160];
    make_folder(dir, sizeof dir);
    snprintf(db, sizeof db, "%s/documents.db", dir);
    srv_server s = {.ctx = open_with((sp_context_opts){0})};
    const srv_tenant tenant = {0};
    s.vocab = sp_context_vocab(s.ctx);
    assert_ok(sp_documents_open(s.ctx, &(sp_documents_opts){.path = db}, &s.documents));
    assert_ok(sp_collection_create(s.documents, NULL, "velm"));
    assert_true(srv_collections_open(&s) && srv_idle_open(&s));
    srv_call call = call_to(&s);
    call.tenant = &tenant;
    call.method = "GET";
    call.path = "/v1/collections";
    const size_t least = N * sizeof(sp_collection_info); /* without the names */
    assert_true(growth(&call, srv_collections_all, N, 200) < least);
    call.path = "/v1/collections/velm"; /* looked for, and shown */
    assert_true(growth(&call, srv_collections_one, N, 200) < least);
    call.method = "POST";
    call.body = "{\"name\": \"a/b\"}"; /* the others are counted; then the name is refused */
    call.n = strlen(call.body);
    assert_true(growth(&call, srv_collections_all, N, 400) < least);
    json_t *models = json_array();
    const size_t before = n_bytes();
    for (int i = 0; i < N; i++) {
        assert_ok(srv_collections_models(&call, models));
        json_array_clear(models);
    }
    assert_true(n_bytes() < before + least);
    json_decref(models);
    srv_idle_close(&s);
    srv_collections_close(&s);
    sp_documents_close(s.documents);
    sp_context_close(s.ctx);
    remove_folder(dir);
}

/* -- how long ----------------------------------------------------------------------------------------- */

static void a_wait_for_news_ends_after_its_time(void **state)
{
    static const srv_dialect dialect = {.id = "x"};
    srv_server s = {0};
    pthread_mutex_init(&s.jobs.lock, NULL);
    const srv_call call = call_to(&s);
    const srv_task task = {.dialect = &dialect};
    srv_documents documents = {0};
    srv_job *j = srv_job_create(&call, &task, json_object(), &documents);
    assert_non_null(j);
    pthread_mutex_lock(&j->run.lock);
    const int64_t began = sp_clock_us();
    assert_false(srv_job_wait_change(j, 30));
    const int64_t us = sp_clock_us() - began;
    pthread_mutex_unlock(&j->run.lock);
    assert_in_range(us, 30000, 20000000);
    srv_job_destroy(j);
    pthread_mutex_destroy(&s.jobs.lock);
}

static void progress_of_an_index_is_printed_once_a_minute(void **state)
{
    caught c = catch_begin(stderr);
    int64_t told_us = srv_now_us() - 50000000;
    assert_true(srv_index_progress(1, 9, &told_us)); /* a busy machine has 10 s for this */
    told_us = srv_now_us() - 61000000;
    assert_true(srv_index_progress(2, 9, &told_us));
    assert_true(srv_index_progress(3, 9, &told_us));
    assert_string_equal(catch_end(&c), "collection: 2 of 9 vectors\n");
}

/* -- the list of jobs ------------------------------------------------------------------------------- */

static void jobs_end_in_any_order(void **state)
{
    static const srv_dialect dialect = {.id = "x"};
    srv_server s = {0};
    srv_job *j[3];
    pthread_mutex_init(&s.jobs.lock, NULL);
    const srv_call call = call_to(&s);
    const srv_task task = {.dialect = &dialect};
    for (int i = 0; i < 3; i++) j[i] = srv_job_create(&call, &task, json_object(), &(srv_documents){0});
    assert_ptr_equal(s.jobs.newest, j[2]);
    srv_job_destroy(j[1]);
    assert_ptr_equal(j[2]->all.older, j[0]);
    assert_ptr_equal(j[0]->all.newer, j[2]);
    srv_job_destroy(j[2]);
    assert_ptr_equal(s.jobs.newest, j[0]);
    assert_null(j[0]->all.newer);
    srv_job_destroy(j[0]);
    assert_null(s.jobs.newest);
    pthread_mutex_destroy(&s.jobs.lock);
}

/* A tenant sees its own, and no answer that was given up for another one of the same request. */
static void the_list_has_the_jobs_of_a_tenant_that_count(void **state)
{
    static const srv_dialect dialect = {.id = "x"};
    srv_server s = {0};
    srv_job *j[4];
    pthread_mutex_init(&s.jobs.lock, NULL);
    srv_call call = call_to(&s);
    const srv_task task = {.dialect = &dialect};
    for (int i = 0; i < 4; i++) {
        call.salt = i == 3 ? "blue" : NULL;
        j[i] = srv_job_create(&call, &task, json_object(), &(srv_documents){0});
        pthread_mutex_init(&j[i]->run.lock, NULL);
        snprintf(j[i]->id, sizeof j[i]->id, "job-%d", i);
        snprintf(j[i]->tenant, sizeof j[i]->tenant, "%s", call.salt ? call.salt : "");
    }
    j[1]->is_wrong = true;
    for (int blue = 0; blue < 2; blue++) {
        call.salt = blue ? "blue" : NULL;
        assert_int_equal(srv_requests(&call), MHD_YES);
        for (int i = 0; i < 4; i++)
            assert_int_equal(strstr(replied, j[i]->id) != NULL, blue ? i == 3 : i == 0 || i == 2);
        if (!blue) assert_true(strstr(replied, "job-0") < strstr(replied, "job-2")); /* the oldest first */
    }
    for (int i = 0; i < 4; i++) srv_job_destroy(j[i]);
    pthread_mutex_destroy(&s.jobs.lock);
}

/* -- whose ---------------------------------------------------------------------------------------------- */

static double served(sp_context *c, const char *tenant)
{
    sp_share *share;
    assert_ok(sp_shares_join(&c->waiting.shares, tenant, &share));
    const double n = sp_share_served(share);
    sp_shares_leave(&c->waiting.shares, share);
    return n;
}

/* A part of its cache is no tenant of its own: it would get a share for each. */
static void ranking_is_work_for_its_tenant(void **state)
{
    sp_context *c = open_with((sp_context_opts){.n_batch = 64});
    srv_server s = {.ctx = c, .vocab = sp_context_vocab(c), .o.limits.n_parallel = 1};
    srv_call call = call_to(&s);
    call.salt = "one";
    call.cache_salt = "part";
    const sp_pair pair = {.query = "When?", .n_query = 5, .document = texts[0], .n_document = strlen(texts[0])};
    float score;
    srv_fields f = {0};
    srv_ranking r = {.pairs = &pair, .n = 1, .scores = &score};
    assert_ok(sp_context_start(c));
    if (!srv_rank(&call, &r, &f)) fail_msg("%s", f.why);
    sp_context_stop(c);
    assert_true(r.n_tokens > 0);
    const double none = served(c, "another"), own = served(c, "one"), part = served(c, "one/part");
    assert_true(own > none && part <= none);
    sp_context_close(c);
}

/* ranked -- tokens that are read to rank a document that is cut to so many (0: it is not). */
static int64_t ranked(srv_call *call, const char *document, int n_most)
{
    const sp_pair pair = {.query = "When?", .n_query = 5, .document = document, .n_document = strlen(document)};
    float score;
    srv_fields f = {0};
    srv_ranking r = {.pairs = &pair, .n = 1, .scores = &score, .document_tokens = n_most};
    if (!srv_rank(call, &r, &f)) fail_msg("%s", f.why);
    return r.n_tokens;
}

static void a_document_is_cut_between_two_characters(void **state)
{
    sp_context *c = open_with((sp_context_opts){.n_batch = 64});
    srv_server s = {.ctx = c, .vocab = sp_context_vocab(c), .o.limits.n_parallel = 1};
    srv_call call = call_to(&s);
    assert_ok(sp_context_start(c));
    assert_true(ranked(&call, "a\xc3\xa9", 0) > ranked(&call, "a", 0) + 1); /* two tokens are one character */
    assert_int_equal(ranked(&call, "a\xc3\xa9", 2), ranked(&call, "a", 0));
    sp_context_stop(c);
    sp_context_close(c);
}

/* A deletion waits for requests of its tenant: they read in its name. */
static void texts_are_read_for_their_tenant(void **state)
{
    char dir[128], db[160];
    make_folder(dir, sizeof dir);
    snprintf(db, sizeof db, "%s/documents.db", dir);
    srv_server s = {.ctx = open_with((sp_context_opts){0}), .quotas = srv_quotas_open(4)};
    s.vocab = sp_context_vocab(s.ctx);
    assert_ok(sp_documents_open(s.ctx, &(sp_documents_opts){.path = db}, &s.documents));
    const srv_tenant tenant = {.salt = "red"};
    srv_left left;
    srv_call call = call_to(&s);
    call.body = "{\"messages\": [{\"role\": \"user\", \"content\": \"A text for which there is no room\"}]}";
    call.n = strlen(call.body);
    call.tenant = &tenant;
    call.salt = tenant.salt;
    call.left = &left;
    sp_documents_reading own;
    assert_ok(sp_documents_begin_reading(s.documents, "red", &own));
    reading = &call.reading;
    assert_int_equal(srv_chat(&call), MHD_YES);
    reading = NULL;
    assert_int_equal(status, 400);
    assert_int_equal(reading_tenant, own.tenant);
    sp_documents_end_reading(&own);
    srv_quotas_leave(s.quotas, place.account, place.n);
    place = (srv_place){0};
    srv_quotas_close(s.quotas);
    sp_documents_close(s.documents);
    sp_context_close(s.ctx);
    remove_folder(dir);
}

/* A --collection is the server's: what one key has asked it counts for all. */
static void a_served_collection_counts_for_all_keys(void **state)
{
    const char *docs = "demo/docs";
    char dir[128], given[160] = "velm=", db[160];
    make_folder(dir, sizeof dir);
    snprintf(given + 5, sizeof given - 5, "%s/velm.db", dir);
    snprintf(db, sizeof db, "%s/documents.db", dir);
    assert_ok(sp_index_build(&docs, 1, given + 5, NULL, NULL));
    const char *all[] = {given};
    srv_server s = {.ctx = open_with((sp_context_opts){0}), .o.collections = all, .o.n_collections = 1};
    assert_ok(sp_documents_open(s.ctx, &(sp_documents_opts){.path = db}, &s.documents));
    assert_true(srv_collections_open(&s) && srv_idle_open(&s));
    srv_call call = call_to(&s);
    srv_found found;
    sp_hit hit = {.file = "a", .title = "", .text = "a"};
    call.method = "GET";
    call.path = "/v1/collections/velm";
    for (int i = 1; i <= 2; i++) {
        call.salt = i == 1 ? "one" : "two";
        assert_ok(srv_collection_find(&call, "velm", 4, &found));
        srv_collection_count(&call, &found, &(sp_hits){.v = &hit, .n = 1});
        assert_int_equal(srv_collections_one(&call), MHD_YES);
        assert_int_equal(status, 200);
        json_t *o = json_loads(replied, 0, NULL);
        assert_int_equal(json_integer_value(json_object_get(o, "retrieved")), i);
        json_decref(o);
    }
    srv_idle_close(&s);
    srv_collections_close(&s);
    sp_documents_close(s.documents);
    sp_context_close(s.ctx);
    remove_folder(dir);
}

/* -- what is refused ------------------------------------------------------------------------------------ */

static void a_refused_conversation_is_not_opened(void **state)
{
    static const char *const last[] = {
        "{\"role\": \"user\", \"content\": \"Who?\"}",
        "{\"role\": \"assistant\", \"content\": \"I look.\", \"tool_calls\": [{\"function\": "
        "{\"name\": \"boats\", \"arguments\": {}}}]}"};
    sp_vocab *vocab;
    assert_ok(sp_vocab_open(MODEL, &vocab));
    srv_server s = {.vocab = vocab};
    const srv_call call = call_to(&s);
    for (size_t i = 0; i < SP_COUNT(last); i++) {
        char body[300];
        srv_fields f;
        srv_conversation c;
        snprintf(body, sizeof body, "{\"messages\": [%s], \"continue_final_message\": true}", last[i]);
        json_t *o = srv_fields_parse(&f, body, strlen(body));
        assert_false(srv_conversation_open(&call, &f, &(srv_tools){0}, &c));
        assert_string_equal(f.param, "continue_final_message");
        srv_conversation_close(&c);
        json_decref(o);
    }
    sp_vocab_close(vocab);
}

#define HELLO "\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]"

/* Its messages are counted differently than those of the chat that they become. */
static void an_error_has_the_names_of_its_dialect(void **state)
{
    static const struct {
        srv_sent (*path)(srv_call *);
        const char *fields, *said;
    } cases[] = {
        {srv_anthropic_messages, "\"stop_sequences\": {}, " HELLO, "stop_sequences must"},
        {srv_anthropic_messages, "\"top_p\": 9, " HELLO, "top_p is 9"},
        {srv_anthropic_messages, "\"system\": \"a\", \"messages\": [{\"role\": \"assistant\", \"content\": ["
         "{\"type\": \"tool_use\", \"id\": \"t\", \"name\": 5, \"input\": {}}]}]", "messages[0].content[0].name must"},
        {srv_response, "\"instructions\": \"a\", \"input\": [{\"type\": \"function_call\", \"call_id\": \"c\", "
         "\"name\": 5, \"arguments\": \"{}\"}]", "input: tool_calls[0].function.name must"},
    };
    char dir[128], db[160];
    make_folder(dir, sizeof dir);
    snprintf(db, sizeof db, "%s/documents.db", dir);
    srv_server *s = open_chats(db);
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char body[400], said[100];
        snprintf(body, sizeof body, "{\"max_tokens\": 2, %s}", cases[i].fields);
        assert_int_equal(post(s, cases[i].path, body), 400);
        snprintf(said, sizeof said, "\"message\":\"%s", cases[i].said);
        if (!strstr(replied, said)) fail_msg("%s", replied);
    }
    close_chats(s);
    remove_folder(dir);
}

static void a_chat_has_up_to_4096_documents(void **state)
{
    json_t *documents = json_array();
    srv_server s = {.ctx = open_with((sp_context_opts){0})};
    s.vocab = sp_context_vocab(s.ctx);
    const srv_call call = call_to(&s);
    for (size_t n = 1; n <= 4097; n++) {
        json_array_append_new(documents, json_string("a"));
        if (n < 4096) continue;
        json_t *body = json_pack("{s:[{s:s, s:s}], s:O}", "messages", "role", "user", "content", "Who?", "documents",
                                 documents);
        srv_fields f = {.object = body};
        srv_documents d = {0};
        sp_err err = SP_OK;
        sp_prompt_destroy(srv_prompt_chat(&call, &f, &(srv_tools){0}, &d, &err));
        assert_int_equal(d.n, n == 4096 ? n : 0);
        assert_int_equal(strstr(f.why, "at most 4096 documents") != NULL, n > 4096);
        srv_documents_fini(&d);
        json_decref(body);
    }
    json_decref(documents);
    sp_context_close(s.ctx);
}

/* -- texts ------------------------------------------------------------------------------------------------ */

static void a_text_that_is_no_utf8_is_whole(void **state)
{
    json_t *o = srv_text_json("a\0b\xc3", 4);
    const char expected[] = "a\0b\xef\xbf\xbd";
    assert_int_equal(json_string_length(o), sizeof expected - 1);
    assert_memory_equal(json_string_value(o), expected, sizeof expected);
    json_decref(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_that_were_sent_are_freed),
        cmocka_unit_test(a_chat_that_was_answered_leaves_nothing),
        cmocka_unit_test(a_stream_is_freed_with_its_connection),
        cmocka_unit_test(a_collection_that_is_closed_has_no_file_open),
        cmocka_unit_test(lists_of_collections_are_freed),
        cmocka_unit_test(a_wait_for_news_ends_after_its_time),
        cmocka_unit_test(progress_of_an_index_is_printed_once_a_minute),
        cmocka_unit_test(jobs_end_in_any_order),
        cmocka_unit_test(the_list_has_the_jobs_of_a_tenant_that_count),
        cmocka_unit_test(ranking_is_work_for_its_tenant),
        cmocka_unit_test(a_document_is_cut_between_two_characters),
        cmocka_unit_test(texts_are_read_for_their_tenant),
        cmocka_unit_test(a_served_collection_counts_for_all_keys),
        cmocka_unit_test(a_refused_conversation_is_not_opened),
        cmocka_unit_test(an_error_has_the_names_of_its_dialect),
        cmocka_unit_test(a_chat_has_up_to_4096_documents),
        cmocka_unit_test(a_text_that_is_no_utf8_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
