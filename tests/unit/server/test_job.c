/* A streamed answer on a small model. The test steps the engine, so the stream's thread never waits long. */
#include <dlfcn.h>
#include <microhttpd.h>
#include <pthread.h>
#include <unistd.h>

#include "server/api/dialect.h"
#include "server/api/explain.h"
#include "server/api/stream.h"
#include "server/http/exchange.h"
#include "support/requests.h"

/* -- memory that cannot grow ------------------------------------------------------------------------- */

static const void *stuck; /* realloc fails for this memory */

__attribute__((visibility("default"))) void *realloc(void *p, size_t n)
{
    typedef void *allocator(void *, size_t);
    static allocator *next;
    if (!next) next = (allocator *)dlsym(RTLD_NEXT, "realloc");
    return p && p == stuck ? NULL : next(p, n);
}

__attribute__((visibility("default"))) void *reallocarray(void *p, size_t n, size_t size)
{
    return realloc(p, n * size);
}

/* -- a stream ------------------------------------------------------------------------------------------ */

typedef struct scene {
    srv_server s;
    srv_record record;
    srv_job *j;
    sp_prompt *prompt;
    char sent[8192]; /* by the last read */
} scene;

/* begin -- a job of n answers with up to two tokens, as a stream; nothing is computed yet. */
static void begin(scene *x, srv_reply_opts reply, int n)
{
    static const srv_tenant tenant;
    srv_place place = {0};
    srv_left left;
    reply.stream = true;
    const srv_task task = {.dialect = &srv_openai, .reply = reply, .n = n, .n_prompts = 1, .max_tokens = 2,
                           .ignore_end = true, .sampling = {.top_p = 1, .repeat_penalty = 1, .seed = 7}};
    assert_int_equal(srv_quotas_enter(x->s.quotas, &tenant, 1, 1, &place.account, &left), SRV_ADMITTED);
    const srv_call call = {.s = &x->s, .place = &place, .record = &x->record};
    x->j = srv_job_create(&call, &task, json_object(), &(srv_documents){0});
    assert_non_null(x->j);
    assert_ok(sp_prompt_create(x->s.ctx, &x->prompt));
    for (int i = 0; i < 4; i++) assert_ok(sp_prompt_text(x->prompt, texts[i], false));
    assert_ok(srv_job_start(x->j, &x->prompt));
}

/* open_streams -- of a server whose first job has n answers. */
static void open_streams(scene *x, srv_reply_opts reply, int n)
{
    *x = (scene){.s.ctx = open_with((sp_context_opts){.n_batch = 16})};
    srv_server *s = &x->s;
    s->vocab = sp_context_vocab(s->ctx);
    s->info = sp_context_describe(s->ctx);
    s->quotas = srv_quotas_open(4);
    s->explain = srv_explain_open();
    s->o.alias = "tiny";
    srv_metrics_init(&s->metrics);
    srv_pace_init(&s->pace);
    pthread_mutex_init(&s->jobs.lock, NULL);
    begin(x, reply, n);
}

static void open_stream(scene *x, srv_reply_opts reply)
{
    open_streams(x, reply, 1);
}

/* step_on -- computes everything. */
static void step_on(scene *x)
{
    for (bool busy = true; busy;) assert_ok(sp_context_step(x->s.ctx, &busy));
}

static void end(scene *x)
{
    srv_job_leave(x->j);
    step_on(x);
    srv_job_destroy(x->j);
    sp_prompt_destroy(x->prompt);
}

static void close_stream(scene *x)
{
    srv_server *s = &x->s;
    end(x);
    stuck = NULL; /* its address may be another's now */
    pthread_mutex_destroy(&s->jobs.lock);
    srv_pace_fini(&s->pace);
    srv_metrics_fini(&s->metrics);
    srv_explain_close(s->explain);
    srv_quotas_close(s->quotas);
    sp_context_close(s->ctx);
}

/* read_stream -- the next bytes are in x->sent; returns what MHD gets. */
static ssize_t read_stream(scene *x)
{
    const ssize_t n = srv_stream_read(x->j, 0, x->sent, sizeof x->sent - 1);
    x->sent[n > 0 ? n : 0] = '\0';
    return n;
}

static ssize_t read_to_end(scene *x)
{
    ssize_t n;
    while ((n = read_stream(x)) > 0) continue;
    return n;
}

static void *step_on_later(void *x)
{
    usleep(400000);
    step_on(x);
    return NULL;
}

static void a_stream_ends(void **state)
{
    scene x;
    open_stream(&x, (srv_reply_opts){0});
    step_on(&x);
    assert_int_equal(read_to_end(&x), MHD_CONTENT_READER_END_OF_STREAM);
    close_stream(&x);
}

/* A client must not take what it got for the whole answer. */
static void a_stream_breaks_off_when_its_text_finds_no_memory(void **state)
{
    scene x;
    open_stream(&x, (srv_reply_opts){0});
    stuck = x.j->choices[0].text = malloc(1);
    step_on(&x);
    assert_int_equal(srv_job_result(x.j, 0)->finish, SP_FINISH_CANCELED);
    assert_int_equal(read_to_end(&x), MHD_CONTENT_READER_END_WITH_ERROR);
    close_stream(&x);
}

static void a_stream_breaks_off_when_its_probabilities_find_no_memory(void **state)
{
    scene x;
    open_stream(&x, (srv_reply_opts){.logprobs = true});
    stuck = x.j->choices[0].tokens = malloc(1);
    step_on(&x);
    assert_int_equal(srv_job_result(x.j, 0)->finish, SP_FINISH_CANCELED);
    assert_int_equal(read_to_end(&x), MHD_CONTENT_READER_END_WITH_ERROR);
    close_stream(&x);
}

/* told -- a number of the progress that the last read has last. */
static int told(const scene *x, const char *name)
{
    char quoted[32];
    const char *last = NULL;
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    for (const char *at = x->sent; (at = strstr(at, quoted)); at++) last = at + strlen(quoted);
    assert_non_null(last);
    return atoi(last);
}

/* The second step takes longer than the stream waits for news. */
static void progress_is_sent_when_it_has_grown(void **state)
{
    scene x;
    pthread_t engine;
    open_stream(&x, (srv_reply_opts){.progress = true});
    assert_true(read_stream(&x) > 0);
    assert_int_equal(told(&x, "processed"), 0);
    step(x.s.ctx);
    assert_true(read_stream(&x) > 0);
    const int first = told(&x, "processed");
    assert_int_equal(first, 16);
    assert_int_equal(pthread_create(&engine, NULL, step_on_later, &x), 0);
    assert_true(read_stream(&x) > 0);
    pthread_join(engine, NULL);
    assert_true(told(&x, "processed") > first);
    close_stream(&x);
}

/* Whatever part of it a copy had. */
static void progress_ends_with_the_whole_prompt(void **state)
{
    scene x;
    open_stream(&x, (srv_reply_opts){0});
    step_on(&x);
    end(&x);
    begin(&x, (srv_reply_opts){.progress = true}, 1);
    const int n = sp_prompt_n_tokens(x.prompt);
    assert_true(read_stream(&x) > 0);
    assert_int_equal(told(&x, "cache"), 0); /* nothing is known yet */
    step_on(&x); /* before the stream asks again */
    assert_true(read_stream(&x) > 0);
    assert_true(told(&x, "cache") > 0 && told(&x, "cache") < n);
    assert_int_equal(told(&x, "total"), n);
    assert_int_equal(told(&x, "processed"), n);
    close_stream(&x);
}

static int n_times(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

/* With what holds for the whole request: clients take it from the last event that has it. */
static void the_last_of_several_answers_ends_the_account(void **state)
{
    scene x;
    open_streams(&x, (srv_reply_opts){0}, 2);
    assert_int_equal(x.j->choices[1].request->o.sampling.seed, x.j->choices[0].request->o.sampling.seed + 1);
    step_on(&x);
    assert_true(read_stream(&x) > 0);
    assert_int_equal(n_times(x.sent, "\"finish_reason\":\"length\""), 2);
    assert_int_equal(n_times(x.sent, "\"timings\":"), 1);
    const char *timings = strstr(x.sent, "\"timings\":");
    assert_int_equal(n_times(timings, "\"index\":"), 0);
    assert_int_equal(n_times(timings, "data: "), 1); /* [DONE] */
    close_stream(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_ends),
        cmocka_unit_test(a_stream_breaks_off_when_its_text_finds_no_memory),
        cmocka_unit_test(a_stream_breaks_off_when_its_probabilities_find_no_memory),
        cmocka_unit_test(progress_is_sent_when_it_has_grown),
        cmocka_unit_test(progress_ends_with_the_whole_prompt),
        cmocka_unit_test(the_last_of_several_answers_ends_the_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
