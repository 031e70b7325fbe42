/* generate.c -- requests to generate, of every dialect. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/answer.h"
#include "server/api/dialect.h"
#include "server/api/handlers.h"
#include "server/api/logprobs.h"
#include "server/api/rank.h"
#include "server/api/retain.h"
#include "server/api/retrieval.h"
#include "server/api/room.h"
#include "server/api/stream.h"
#include "server/http/memory.h"

#define STREAM_BYTES 4096 /* most bytes that one turn of the event loop sends */

sp_err srv_prompt_create(const srv_call *call, sp_prompt **out)
{
    char *salt;
    if (!srv_salt_of(call, &salt)) return SP_E_NOMEM;
    sp_err err =
        salt ? sp_prompt_create_for(call->s->ctx, salt, out) : sp_prompt_create(call->s->ctx, out);
    free(salt);
    if (err == SP_OK) err = sp_prompt_find_chunks(*out, call->find);
    return err;
}

static srv_sent refuse(const srv_call *call, const srv_dialect *dialect, const srv_fields *f,
                       sp_err err)
{
    const char *code = NULL;
    if (err == SP_OK) err = f->err;
    int status = err == SP_OK ? 400 : srv_error_status(err, &code);
    return srv_dialect_error(call, dialect, status, f, code);
}

/* refuse_result -- replies with the library's error of a request that failed. */
static srv_sent refuse_result(const srv_call *call, const srv_job *j, sp_err err, const char *why)
{
    const char *code;
    srv_fields f = {0};
    int status = srv_error_status(err, &code);
    snprintf(f.why, sizeof f.why, "%s", why);
    if (j->task.decode && strncmp(why, "decode: ", strlen("decode: ")) == 0) strcpy(f.param, "decode");
    if (err == SP_E_CONTEXT || strcmp(why, "the prompt is empty") == 0)
        strcpy(f.param, j->task.chat ? "messages" : "prompt");
    return srv_dialect_error(call, j->task.dialect, status, &f, code);
}

static srv_sent reply_stream(const srv_call *call, srv_job *j)
{
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BYTES, srv_stream_read, j, NULL);
    if (!r) return MHD_NO;
    return srv_reply_events(call->connection, r, j->task.dialect->lines);
}

/* reply_whole -- the connection has no time limit while the answer is computed. */
static srv_sent reply_whole(const srv_call *call, srv_job *j)
{
    struct MHD_Connection *c = call->connection;
    MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, 0u);
    bool wanted = srv_job_wait(j);
    MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)call->s->o.limits.stall_seconds);
    if (!wanted) return MHD_NO;
    srv_job_settle(j);
    const sp_result *failed = srv_answer_failure(j);
    if (!failed) return srv_reply_json(c, 200, j->task.dialect->whole(j));
    return refuse_result(call, j, failed->err, failed->detail);
}

/* start -- from here on the exchange owns the job. */
static srv_sent start(srv_call *call, srv_job *j, sp_prompt *const *prompts)
{
    srv_job_watch(call, j);
    sp_err err = srv_job_start(j, prompts);
    sp_documents_end_reading(&call->reading);
    if (err != SP_OK) return refuse_result(call, j, err, sp_error_detail());
    return j->task.reply.stream ? reply_stream(call, j) : reply_whole(call, j);
}

/* check_ids -- biases and stop tokens are tokens of this model. */
static void check_ids(const srv_call *call, const srv_task *t, srv_fields *f)
{
    for (int i = 0; i < t->sampling.n_bias; i++)
        if (t->bias[i].id >= call->s->info.n_vocab)
            srv_fields_refuse(f, "logit_bias", "logit_bias: %d is no token; there are %d",
                              t->bias[i].id, call->s->info.n_vocab);
    for (int i = 0; i < t->stop.n_tokens; i++)
        if (t->stop.tokens[i] >= call->s->info.n_vocab)
            srv_fields_refuse(f, "stop_token_ids", "stop_token_ids: %d is no token; there are %d",
                              t->stop.tokens[i], call->s->info.n_vocab);
}

/* constrain_calls -- in the form of the model's template. A required call is all of the answer; a call that may be is
 * the answer, or the text is as response_format and the like say. */
static void constrain_calls(const srv_call *call, srv_task *t, srv_fields *f)
{
    bool shows;
    t->tool_form = srv_tools_form(sp_vocab_template(call->s->vocab), &shows);
    if (!t->tools.list || (!t->tools.must && !t->grammar)) return;
    sp_grammar *calls = srv_tools_grammar(&t->tools, t->tool_form, f), *either = NULL;
    const sp_err err = calls && !t->tools.must ? sp_grammar_either(calls, t->grammar, &either) : SP_OK;
    if (err != SP_OK) srv_fields_fail(f, "response_format", NULL, err);
    sp_grammar_destroy(t->grammar);
    t->grammar = t->tools.must ? calls : either;
    if (!t->tools.must) sp_grammar_destroy(calls);
}

/* read_thoughts -- how the answer of a chat has them: apart from the text, as the model's template does.
 * reasoning_format: llama.cpp's. */
static void read_thoughts(const srv_call *call, srv_task *t, srv_fields *f)
{
    const char *form = srv_field_string(f, "reasoning_format");
    const thoughts_form own = thoughts_of_template(sp_vocab_template(call->s->vocab));
    const bool apart = !form || strcmp(form, "auto") == 0 || strcmp(form, "deepseek") == 0;
    if (!apart && strcmp(form, "none") != 0)
        srv_fields_refuse(f, "reasoning_format", "reasoning_format must be auto, deepseek or none");
    if (srv_field_bool(f, "think", false) && !own)
        srv_fields_refuse(f, "think", "think: the model's template has no thoughts");
    if (t->chat && apart) t->thoughts = own;
}

bool srv_find_of(const char *name, sp_chunk_find *out)
{
    static const char *const names[] = {
        [SP_FIND_KNOWN] = "known", [SP_FIND_REPEATS] = "repeats", [SP_FIND_NONE] = "none"};
    for (int i = SP_FIND_KNOWN; name && i <= SP_FIND_NONE; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (sp_chunk_find)i;
            return true;
        }
    return false;
}

/* read_find -- false, true, or "none", "known", "repeats". */
static sp_chunk_find read_find(const srv_call *call, srv_fields *f)
{
    const json_t *v = srv_field(f, "find_chunks");
    sp_chunk_find find = call->s->o.find;
    if (json_is_boolean(v))
        find = json_is_false(v) ? SP_FIND_NONE : find == SP_FIND_NONE ? SP_FIND_KNOWN : find;
    else if (v && !srv_find_of(json_string_value(v), &find))
        srv_fields_refuse(f, "find_chunks",
                          "find_chunks must be true, false, none, known or repeats");
    return find;
}

static void read_tree(srv_call *call, srv_fields *f)
{
    const char *mode = srv_field_string(f, "tree");
    if (!mode || strcmp(mode, "exact") == 0) return;
    call->trees = SP_TREE_SHIFTED;
    if (strcmp(mode, "shifted") != 0)
        srv_fields_refuse(f, "tree", "tree is \"%.40s\" and must be exact or shifted", mode);
}

/* read_scope -- what the prompt has besides messages, and its tenant. */
static void read_scope(srv_call *call, srv_fields *f, bool chat)
{
    call->find = read_find(call, f);
    read_tree(call, f);
    if (*call->retrieval->from.name && !chat) srv_fields_refuse(f, "collection", "a collection needs a chat");
    if (!*call->retrieval->from.name) call->retrieval = NULL;
    if (!chat && json_array_size(srv_field_list(f, "documents")))
        srv_fields_refuse(f, "documents", "documents need a chat");
    if (srv_field_bool(f, "graph", false)) call->graph = srv_field(f, "graph");
    if (call->graph && !call->s->graph.of)
        srv_fields_refuse(f, "graph", "graph: the server has none (spolia serve --graph)");
}

/* What a job is made of, besides the task and the body. */
typedef struct parts {
    sp_prompt *prompts[SRV_MAX_N];
    srv_echo echoes[SRV_MAX_N];
    srv_documents documents;
} parts;

static void drop_prompts(parts *p)
{
    for (int i = 0; i < SRV_MAX_N; i++) sp_prompt_destroy(p->prompts[i]);
}

/* make -- false after an error in *f; the library's is *err. */
static bool make(const srv_call *call, srv_task *t, srv_fields *f, parts *out, sp_err *err)
{
    t->n_prompts = t->chat ? 1 : srv_prompt_count(f);
    if (t->n_prompts < 1 || t->n * t->n_prompts > SRV_MAX_N)
        srv_fields_refuse(f, "prompt",
                          "prompt: %d prompts with n %d; a request has 1 to %d choices",
                          t->n_prompts, t->n, SRV_MAX_N);
    for (int i = 0; i < t->n_prompts && !f->failed; i++) {
        out->prompts[i] = t->chat ? srv_prompt_chat(call, f, &t->tools, &out->documents, err)
                                  : srv_prompt_plain(call, f, i, t->suffix, err);
        if (out->prompts[i]) srv_echo_read(call, t, f, i, &out->echoes[i]);
    }
    if (srv_memory_failed() && !f->failed) {
        srv_fields_refuse(f, "", "out of memory");
        *err = SP_E_NOMEM;
    }
    return !f->failed;
}

/* charge -- the prompts, and a place for each choice. */
static srv_verdict charge(const srv_call *call, const srv_task *t, const parts *p)
{
    int64_t n = 0;
    for (int i = 0; i < t->n_prompts; i++) n += sp_prompt_n_tokens(p->prompts[i]);
    srv_place *place = call->place;
    srv_verdict v = srv_quotas_prompt(call->s->quotas, place->account, n, srv_now_us(), call->left);
    int more = t->n * t->n_prompts - place->n;
    if (v != SRV_ADMITTED) return v;
    srv_quotas_more(call->s->quotas, place->account, more);
    place->n += more;
    return v;
}

/* drop_texts -- frees those that no job has taken. */
static void drop_texts(parts *p)
{
    for (int i = 0; i < SRV_MAX_N; i++) srv_echo_fini(&p->echoes[i]);
    srv_documents_fini(&p->documents);
}

/* drop_all -- frees what no job has taken. */
static void drop_all(parts *p, srv_task *t, json_t *body)
{
    drop_prompts(p);
    srv_task_fini(t);
    drop_texts(p);
    json_decref(body);
}

static void read_task(srv_call *call, srv_task *t, srv_fields *f)
{
    call->cache_salt = srv_field_string(f, "cache_salt");
    srv_retrieval_read(call, f, call->retrieval);
    srv_task_read(t, f, &call->s->o);
    srv_retain_read(t, f);
    if (!f->failed) constrain_calls(call, t, f);
    if (!f->failed) read_thoughts(call, t, f);
    read_scope(call, f, t->chat);
    t->queue.tenant = call->salt ? call->salt : "";
    t->queue.ranks = !call->salt || call->tenant->may_priority;
    check_ids(call, t, f);
}

/* create -- a job of what was made; takes a reference of the body. NULL: out of memory. */
static srv_job *create(const srv_call *call, const srv_task *t, parts *p, json_t *body)
{
    srv_job *j = srv_job_create(call, t, body, &p->documents);
    if (!j) return NULL;
    json_incref(body);
    memcpy(j->echoes, p->echoes, sizeof p->echoes);
    j->asked = json_incref(call->asked);
    return j;
}

/* -- answers from a collection ------------------------------------------------------------------- */

/* An answer that may begin while its passages are still being searched for: when they change, the answer from the
 * earlier ones is canceled, and a new one begins if few prompts are in the pool. What was computed for the wrong
 * passages stays in the cache; the running step is cut between two layers, because on a CPU it may hold the whole
 * prompt. The last passages always get an answer, unless theirs has begun.
 * Source: RAGCache section 5.3, algorithm 2. */
typedef struct ahead {
    srv_call *call;
    srv_task *t;
    srv_fields *f;
    json_t *body;
    srv_job *job; /* the newest, of the exchange with those before; NULL: none */
    bool runs;    /* it answers from the passages as they are */
    bool left;    /* the client hung up while passages were ranked */
    srv_verdict verdict;
    sp_err err;
    int64_t from_us, began_us;
    const char *question;
} ahead;

/* may_begin -- before the search has ended. */
static bool may_begin(const ahead *a)
{
    const srv_retrieval *r = a->call->retrieval;
    const int others = atomic_load(&a->call->s->counts.n_prefilling) - srv_job_n_prefilling(a->job);
    if (r->ahead == SRV_AHEAD_NEVER || others >= a->call->s->o.limits.n_ahead) return false;
    return r->ahead == SRV_AHEAD_ALWAYS || srv_retrieval_gains(a->call);
}

/* give_up -- cancels the answer: the passages have changed. */
static void give_up(ahead *a)
{
    if (a->runs) a->call->retrieval->n_wrong++;
    a->runs = false;
    if (a->job) srv_job_give_up(a->job);
}

/* begin -- begins an answer from the current passages. False: there will be none. */
static bool begin(ahead *a)
{
    parts p = {0};
    srv_job *j = NULL;
    const bool good = make(a->call, a->t, a->f, &p, &a->err);
    if (good && !a->job) a->verdict = charge(a->call, a->t, &p);
    if (good && a->verdict == SRV_ADMITTED) {
        j = create(a->call, a->t, &p, a->body);
        if (!j) srv_fields_refuse(a->f, "", "out of memory");
        if (!j) a->err = SP_E_NOMEM;
    }
    if (j) {
        if (a->job) srv_job_follow(j, a->job);
        a->job = j;
        srv_job_watch(a->call, j);
        a->began_us = srv_now_us();
        a->err = srv_job_start(j, p.prompts);
        a->runs = a->err == SP_OK;
        if (!a->runs) srv_fields_refuse(a->f, "", "%s", sp_error_detail());
    } else {
        drop_texts(&p);
    }
    drop_prompts(&p);
    return a->runs;
}

/* begin_ranked -- begins an answer from the best k of these passages, in the order of the index. */
static bool begin_ranked(ahead *a, const sp_hits *h)
{
    srv_retrieval *r = a->call->retrieval;
    const size_t n = (size_t)h->n;
    const int64_t from = srv_now_us();
    sp_documents_narrow_reading(&a->call->reading, h);
    sp_pair *pairs = calloc(n + 1, sizeof *pairs);
    const char **titles = calloc(n + 1, sizeof *titles);
    float *scores = calloc(n + 1, sizeof *scores);
    sp_hits best = {.v = calloc(n + 1, sizeof *best.v)};
    srv_ranking k = {.pairs = pairs, .titles = titles, .n = n, .scores = scores, .err = SP_E_NOMEM};
    bool good = pairs && titles && scores && best.v;
    for (size_t i = 0; i < n && good; i++) {
        pairs[i] = (sp_pair){a->question, h->v[i].text, strlen(a->question), strlen(h->v[i].text)};
        titles[i] = h->v[i].title;
    }
    good = good && (n == 0 || srv_rank(a->call, &k, a->f));
    for (size_t i = 0; i < n && good; i++) {
        int n_better = 0;
        for (size_t j = 0; j < n; j++) n_better += scores[j] > scores[i] || (scores[j] == scores[i] && j < i);
        if (n_better < r->k) best.v[best.n++] = h->v[i];
    }
    if (!good && a->f->err == SP_OK) a->f->err = k.err;
    a->left = !good && k.left;
    r->n_ranked = h->n;
    r->n_found = best.n;
    r->rank_us = srv_now_us() - from;
    r->now = &best;
    if (good) srv_collection_count(a->call, &r->from, &best);
    good = good && begin(a);
    r->now = h;
    free(pairs);
    free(titles);
    free(scores);
    free(best.v);
    return good;
}

static bool on_passages(const sp_hits *h, bool changed, bool last, void *user)
{
    ahead *a = user;
    srv_retrieval *r = a->call->retrieval;
    if (r->rerank) return !last || begin_ranked(a, h);
    r->now = h;
    if (changed) give_up(a);
    if (a->job && srv_job_is_gone(a->job)) return false; /* the client hung up */
    if (a->runs || (!last && !may_begin(a))) return true;
    r->n_begun += !last;
    return begin(a);
}

/* count -- counts the time of the search for the account and the metrics. */
static void count(const ahead *a)
{
    srv_retrieval *r = a->call->retrieval;
    const int64_t before = a->began_us - a->from_us;
    r->exposed_us = before < r->search_us ? before : r->search_us;
    r->now = NULL;
    a->job->retrieval = *r;
    srv_ahead_note_prompt(r->from.searches, a->job->n_prompt);
    srv_metrics_retrieved(&a->call->s->metrics, &(srv_retrieved){.search_us = r->search_us,
                                                                 .exposed_us = r->exposed_us,
                                                                 .n_begun = r->n_begun,
                                                                 .n_wrong = r->n_wrong});
}

/* run_retrieved -- takes the body and what the task owns. */
static srv_sent run_retrieved(srv_call *call, srv_task *t, srv_fields *f, json_t *body)
{
    ahead a = {.call = call, .t = t, .f = f, .body = body, .from_us = srv_now_us(), .verdict = SRV_ADMITTED};
    srv_sent sent;
    char *question = srv_prompt_question(call, f, &t->tools);
    a.question = question;
    if (question)
        srv_retrieval_search(call, f, question, on_passages, &a, &a.err);
    else
        srv_fields_refuse(f, "", "out of memory");
    sp_documents_end_reading(&call->reading);
    free(question);
    if (a.job) count(&a);
    if (a.verdict != SRV_ADMITTED)
        sent = srv_reply_refused(call, a.verdict);
    else if (a.runs)
        sent = t->reply.stream ? reply_stream(call, a.job) : reply_whole(call, a.job);
    else if (a.left || (a.job && srv_job_is_gone(a.job)))
        sent = MHD_NO;
    else
        sent = refuse(call, t->dialect, f, a.err);
    if (!a.job) srv_task_fini(t);
    json_decref(body);
    call->retrieval = NULL;
    return sent;
}

/* begin_reading -- of registered texts, by the call's tenant; it ends once all requests are submitted. */
static sp_err begin_reading(srv_call *call, srv_fields *f)
{
    char *salt;
    sp_err err = srv_salt_of(call, &salt) ? SP_OK : SP_E_NOMEM;
    if (err == SP_OK) err = sp_documents_begin_reading(call->s->documents, salt, &call->reading);
    if (err != SP_OK) srv_fields_refuse(f, "", "out of memory");
    free(salt);
    return err;
}

static srv_sent run_read(srv_call *call, srv_task *t, srv_fields *f, json_t *body)
{
    parts p = {0};
    sp_err err = SP_OK;
    srv_retrieval retrieval;
    call->retrieval = &retrieval;
    read_task(call, t, f);
    if (!f->failed) err = begin_reading(call, f);
    if (!f->failed && srv_room_lacks(call, f)) err = SP_E_CONTEXT;
    if (!f->failed && call->retrieval) return run_retrieved(call, t, f, body);
    bool good = !f->failed && make(call, t, f, &p, &err);
    srv_verdict v = good ? charge(call, t, &p) : SRV_ADMITTED;
    if (v != SRV_ADMITTED) {
        drop_all(&p, t, body);
        return srv_reply_refused(call, v);
    }
    srv_job *j = good ? create(call, t, &p, body) : NULL;
    if (j) {
        json_decref(body);
        srv_sent sent = start(call, j, p.prompts);
        drop_prompts(&p);
        return sent;
    }
    if (good) srv_fields_refuse(f, "", "out of memory");
    if (good) err = SP_E_NOMEM;
    const srv_dialect *dialect = t->dialect;
    drop_all(&p, t, body);
    return refuse(call, dialect, f, err);
}

static srv_sent run(srv_call *call, srv_task *t, srv_fields *f, json_t *body)
{
    srv_sent sent = run_read(call, t, f, body);
    sp_documents_end_reading(&call->reading);
    return sent;
}

srv_verdict srv_enter(srv_call *call)
{
    srv_server *s = call->s;
    size_t n_keys = s->keys ? srv_keys_count(s->keys) : 1;
    srv_verdict v = srv_quotas_enter(s->quotas, call->tenant, n_keys, srv_now_us(), &call->place->account,
                                     call->left);
    if (v == SRV_ADMITTED) call->place->n = 1;
    return v;
}

srv_sent srv_generate(srv_call *call, const srv_dialect *dialect, bool chat)
{
    srv_fields f;
    srv_task t = {.chat = chat, .dialect = dialect};
    srv_verdict v = srv_enter(call);
    if (v != SRV_ADMITTED) return srv_reply_refused(call, v);
    json_t *body = srv_fields_parse(&f, call->body, call->n);
    if (!body || !dialect->body)
        return body ? run(call, &t, &f, body) : refuse(call, dialect, &f, SP_OK);
    json_t *same = dialect->body(&f, &t.chat);
    f.object = same;
    call->asked = body;
    srv_sent sent = same ? run(call, &t, &f, same) : refuse(call, dialect, &f, SP_OK);
    call->asked = NULL;
    json_decref(body);
    return sent;
}

srv_sent srv_chat(srv_call *call)
{
    return srv_generate(call, &srv_openai, true);
}

srv_sent srv_completion(srv_call *call)
{
    return srv_generate(call, &srv_openai, false);
}

srv_sent srv_response(srv_call *call)
{
    return srv_generate(call, &srv_responses, true);
}
