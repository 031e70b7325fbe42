/* answer.c -- one question: retrieve, build the prompt, answer, print.
 *
 * The prompt of a conversation repeats the earlier turns with the chunks that they had, so its
 * beginning is the prompt of the turn before and is reused as a prefix. A chunk that an earlier turn
 * has is not added to a later one. When the context is full, the oldest turns are dropped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "cmd/ask/ask.h"

#define SPARE     4   /* times the wanted chunks are looked at: near-duplicates are left out */
#define SHOW_FROM 300 /* tokens: the prompt's progress is worth a line */

/* -- turns ---------------------------------------------------------------------------------- */

static void turn_drop(ask_turn *t)
{
    free(t->question);
    free(t->answer);
    sp_hits_fini(&t->hits);
    *t = (ask_turn){0};
}

static void drop_oldest(asking *a)
{
    turn_drop(&a->turns[0]);
    a->n_turns--;
    memmove(a->turns, a->turns + 1, (size_t)a->n_turns * sizeof *a->turns);
}

static void add_turn(asking *a, const ask_turn *t)
{
    ask_turn *more = realloc(a->turns, (size_t)(a->n_turns + 1) * sizeof *more);
    a->turns = cli_checked(more);
    a->turns[a->n_turns++] = *t;
}

void ask_forget(asking *a)
{
    for (int i = 0; i < a->n_turns; i++) turn_drop(&a->turns[i]);
    free(a->turns);
    a->turns = NULL;
    a->n_turns = 0;
}

/* -- retrieval ------------------------------------------------------------------------------ */

static int by_id(const void *x, const void *y)
{
    int64_t i = ((const sp_hit *)x)->id, j = ((const sp_hit *)y)->id;
    return (i > j) - (i < j);
}

static bool is_known(const asking *a, int64_t id)
{
    for (int t = 0; t < a->n_turns; t++)
        for (int i = 0; i < a->turns[t].hits.n; i++)
            if (a->turns[t].hits.v[i].id == id) return true;
    return false;
}

/* retrieve -- the best chunks that the conversation does not have yet, [*n_found] with those it has.
 * In the order of their ids unless ranked order is wanted: equal sets in equal order share a
 * prefix. */
static sp_err retrieve(const asking *a, ask_turn *t, int *n_found)
{
    if (!a->index || !a->top_k) return SP_OK;
    const int looked = a->keep_duplicates ? a->top_k : SPARE * a->top_k;
    const int k = looked < ASK_MOST_CHUNKS ? looked : ASK_MOST_CHUNKS;
    const sp_retrieve_query q = {.text = t->question, .k = k};
    sp_err err = sp_retriever_search(a->index, &q, &t->hits);
    if (err == SP_OK && !a->keep_duplicates)
        err = sp_hits_distinct(&t->hits, a->top_k, &t->n_duplicates);
    if (err != SP_OK) return err;
    int n = 0;
    *n_found = t->hits.n;
    for (int i = 0; i < t->hits.n; i++)
        if (!is_known(a, t->hits.v[i].id)) t->hits.v[n++] = t->hits.v[i];
    t->hits.n = n;
    if (a->stable_order && n > 1) qsort(t->hits.v, (size_t)n, sizeof *t->hits.v, by_id);
    return SP_OK;
}

/* -- the prompt ----------------------------------------------------------------------------- */

static sp_err begin_user(sp_prompt *p, const sp_hits *hits, int *first_segment)
{
    sp_err err = sp_prompt_begin(p, SP_ROLE_USER);
    *first_segment = sp_prompt_n_segments(p);
    for (int i = 0; i < hits->n && err == SP_OK; i++)
        err = sp_prompt_chunk(p, hits->v[i].title, hits->v[i].text);
    return err;
}

/* add_earlier -- a turn with its answer: the tokens that sp_prompt_question made of it, so that
 * their copy is found. */
static sp_err add_earlier(sp_prompt *p, const ask_turn *t)
{
    int segment;
    char *question = cli_join("Question: ", t->question);
    sp_err err = begin_user(p, &t->hits, &segment);
    if (err == SP_OK) err = sp_prompt_text(p, question, false);
    if (err == SP_OK) err = sp_prompt_end(p);
    if (err == SP_OK) err = sp_prompt_message(p, SP_ROLE_ASSISTANT, t->answer);
    free(question);
    return err;
}

/* add_all -- the system text, the earlier turns with their documents, and the question with its own. */
static sp_err add_all(const asking *a, const ask_turn *t, sp_prompt *p, int *first_segment)
{
    sp_err err = sp_prompt_message(p, SP_ROLE_SYSTEM, a->system);
    for (int i = 0; i < a->n_turns && err == SP_OK; i++) err = add_earlier(p, &a->turns[i]);
    if (err == SP_OK) err = begin_user(p, &t->hits, first_segment);
    return err == SP_OK ? sp_prompt_question(p, t->question) : err;
}

static sp_err build_prompt(const asking *a, const ask_turn *t, sp_prompt **out, int *first_segment)
{
    sp_prompt *p;
    sp_err err = sp_prompt_create(a->ctx, &p);
    if (err != SP_OK) return err;
    err = a->index ? add_all(a, t, p, first_segment) : ask_chat_prompt(a, t, p);
    if (err != SP_OK) {
        sp_prompt_destroy(p);
        return err;
    }
    *out = p;
    return SP_OK;
}

/* drop_worst -- leaves out the chunk that fits the question least; the others keep their order. */
static void drop_worst(sp_hits *hits)
{
    int worst = 0;
    for (int i = 1; i < hits->n; i++)
        if (hits->v[i].score <= hits->v[worst].score) worst = i;
    hits->n--;
    memmove(&hits->v[worst], &hits->v[worst + 1], (size_t)(hits->n - worst) * sizeof *hits->v);
}

/* is_too_long -- answer_tokens: room for the answer. */
static bool is_too_long(const asking *a, const sp_prompt *p, int answer_tokens)
{
    return sp_prompt_n_tokens(p) + answer_tokens > sp_context_describe(a->ctx).n_ctx;
}

/* warn_dropped -- what the context has no room for. */
static void warn_dropped(const asking *a, int n_turns, int n_chunks, int n_found)
{
    int n_ctx = sp_context_describe(a->ctx).n_ctx;
    if (n_turns == 1) cli_warn("the context of %d tokens is full: the oldest question is dropped", n_ctx);
    if (n_turns > 1) cli_warn("the context of %d tokens is full: the oldest %d questions are dropped", n_ctx, n_turns);
    if (n_chunks)
        cli_warn("%d of %d chunks are left out: they do not fit the context of %d tokens (-c N raises it, up to what "
                 "the model was trained for)",
                 n_chunks, n_found, n_ctx);
}

/* build_alone -- the prompt of the question without earlier turns and chunks. */
static sp_err build_alone(asking *a, ask_turn *t, sp_prompt **out, int *first_segment)
{
    const int n_turns = a->n_turns, n_hits = t->hits.n;
    a->n_turns = t->hits.n = 0;
    const sp_err err = build_prompt(a, t, out, first_segment);
    a->n_turns = n_turns;
    t->hits.n = n_hits;
    return err;
}

/* is_half -- turns are dropped down to half of the context, and not one by one: the next questions continue what is
 * left, which is reused. */
static bool is_half(const asking *a, const sp_prompt *p)
{
    return a->n_turns < 2 || 2 * sp_prompt_n_tokens(p) <= sp_context_describe(a->ctx).n_ctx;
}

/* fitting_prompt -- drops the oldest turns, then the chunks that fit the question least, until prompt and
 * answer fit the context. A question that the context cannot hold drops nothing: it is refused when submitted. */
static sp_err fitting_prompt(asking *a, ask_turn *t, sp_prompt **out, int *first_segment)
{
    const int n_ctx = sp_context_describe(a->ctx).n_ctx, n_found = t->hits.n;
    const int wanted = a->sampling->max_tokens, least = wanted < n_ctx / 4 ? wanted : n_ctx / 4;
    int n_turns = 0;
    sp_err err = build_prompt(a, t, out, first_segment);
    if (err == SP_OK && is_too_long(a, *out, a->n_turns ? wanted : least)) {
        sp_prompt *alone = NULL;
        int first;
        err = build_alone(a, t, &alone, &first);
        if (err == SP_OK && is_too_long(a, alone, wanted > 0)) {
            sp_prompt_destroy(*out);
            *out = alone;
            *first_segment = first;
            return SP_OK;
        }
        sp_prompt_destroy(alone);
    }
    while (err == SP_OK && (a->n_turns || t->hits.n) &&
           (is_too_long(a, *out, a->n_turns ? wanted : least) || (n_turns && !is_half(a, *out)))) {
        sp_prompt_destroy(*out);
        *out = NULL;
        if (a->n_turns) {
            drop_oldest(a);
            n_turns++;
        } else {
            drop_worst(&t->hits);
        }
        err = build_prompt(a, t, out, first_segment);
    }
    warn_dropped(a, n_turns, n_found - t->hits.n, n_found);
    return err;
}

/* -- the answer ----------------------------------------------------------------------------- */

static void wipe(asking *a)
{
    if (a->drawn) fputs("\r\033[K", stderr);
    a->drawn = false;
}

static bool print_text(const char *text, size_t n, void *user)
{
    asking *a = user;
    wipe(a);
    return saying_print(text, n, &a->said);
}

static void draw(asking *a, sp_request *r)
{
    int done, total;
    if (a->as_json || !isatty(STDERR_FILENO)) return;
    sp_request_progress(r, &done, &total);
    if (total < SHOW_FROM || done >= total) return;
    fprintf(stderr, "\r\033[Kreading %d/%d tokens", done, total);
    fflush(stderr);
    a->drawn = true;
}

/* run -- until the request has finished; Ctrl-C ends it early in a conversation. */
static sp_err run(asking *a, sp_request *r)
{
    const sp_result *res = sp_request_result(r);
    bool busy;
    sp_err err = SP_OK;
    while (err == SP_OK && res->finish == SP_FINISH_NONE) {
        if (a->stop && *a->stop) sp_request_cancel(r);
        err = sp_context_step(a->ctx, &busy);
        if (err == SP_OK) draw(a, r);
    }
    wipe(a);
    return res->finish == SP_FINISH_ERROR ? res->err : err;
}

/* goes_on -- of a prompt: Ctrl-C does not wait for the end of a step. */
static bool goes_on(void *user)
{
    const asking *a = user;
    return !a->stop || !*a->stop;
}

sp_err ask_generate(asking *a, const sp_prompt *p, sp_request **out)
{
    const sampling_options *s = a->sampling;
    saying_begin(&a->said, a->ctx, p, a->grammar != NULL);
    sp_err err = sp_request_submit(a->ctx, p,
                                   &(sp_request_opts){.reuse = a->reuse,
                                                      .sampling = s->s,
                                                      .max_tokens = s->max_tokens,
                                                      .stop = s->stop.v,
                                                      .n_stop = s->stop.n,
                                                      .grammar = a->grammar,
                                                      .on_text = a->as_json ? NULL : print_text,
                                                      .go_on = goes_on,
                                                      .user = a},
                                   out);
    if (err == SP_OK) err = run(a, *out);
    if (!a->as_json) saying_end(&a->said);
    return err;
}

/* -- one question --------------------------------------------------------------------------- */

int ask_failed(const asking *a, const ask_failure *f, int exit)
{
    cli_warn("%s", f->why);
    if (a->as_json)
        account_error(f->code, f->why, json_pack("{s:o, s:[]}", "question", cli_json_string(f->question), f->list));
    return exit;
}

static int fail(const asking *a, const char *question, const char *code, const char *why, int exit)
{
    return ask_failed(
        a, &(ask_failure){.question = question, .code = code, .why = why, .list = "chunks"}, exit);
}

int ask_failed_with(const asking *a, const char *question, const char *list, sp_err err)
{
    char why[512];
    const char *detail = sp_error_detail();
    snprintf(why, sizeof why, "%s (%s)", *detail ? detail : "failed", sp_error_text(err));
    return ask_failed(
        a, &(ask_failure){.question = question, .code = cli_error_name(err), .why = why, .list = list}, 1);
}

static int fail_with(const asking *a, const char *question, sp_err err)
{
    return ask_failed_with(a, question, "chunks", err);
}

static int n_sources(const asking *a)
{
    int n = 0;
    for (int i = 0; i < a->n_turns; i++) n += a->turns[i].hits.n;
    return n;
}

static void show(asking *a, const ask_turn *t, const sp_result *r, int first_segment)
{
    int first = n_sources(a) + 1;
    if (a->as_json) {
        ask_print_json(a, t, r, first_segment);
        return;
    }
    putchar('\n');
    fflush(stdout);
    if (a->verbose) {
        ask_show_table(t, first, r, first_segment);
        account_line(r);
    } else {
        ask_show_sources(t, first);
        account_summary(r, sp_context_describe(a->ctx).n_computed);
    }
}

/* hint -- once: which policy would use the stored copies of chunks that this one cannot use. */
static void hint(asking *a, const sp_result *r)
{
    int n = 0;
    for (int i = 0; i < r->n_segments; i++) n += strcmp(r->segments[i].missed, "other policy") == 0;
    if (!n || a->hinted) return;
    a->hinted = true;
    cli_warn("copies of %d chunk%s are stored that --reuse %s cannot use; --reuse fusion does "
             "(approximate)",
             n, n == 1 ? "" : "s", r->policy);
}

/* answer -- a turn whose chunks are known. */
static int answer(asking *a, ask_turn *t)
{
    sp_prompt *p = NULL;
    sp_request *r = NULL;
    int first_segment = 0;
    sp_err err = fitting_prompt(a, t, &p, &first_segment);
    if (err == SP_OK) err = ask_generate(a, p, &r);
    if (err == SP_OK) {
        const sp_result *res = sp_request_result(r);
        show(a, t, res, first_segment);
        hint(a, res);
        t->answer = saying_text(&a->said, res->text);
        if (!*t->answer) free(t->answer), t->answer = NULL;
    }
    int code = err == SP_OK ? 0 : fail_with(a, t->question, err);
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return code;
}

int ask_question(asking *a, const char *question, bool keep)
{
    if (question[strspn(question, " \t\r\n")] == '\0')
        return fail(a, question, cli_error_name(SP_E_ARG), "the question is empty", 2);
    if (a->graph) return ask_graph(a, question);
    ask_turn t = {.question = cli_copy(question)};
    int n_found = 0, code;
    sp_err err = retrieve(a, &t, &n_found);
    if (err != SP_OK)
        code = fail_with(a, question, err);
    else if (n_found == 0 && a->n_turns == 0 && !a->allow_empty)
        code = fail(a, question, "E_NO_HIT",
                    sp_retriever_describe(a->index).n_chunks
                        ? "no document matches the question (--allow-empty answers without documents)"
                        : "the index has no text: its documents were empty, or there were none",
                    CLI_NO_HIT);
    else
        code = answer(a, &t);
    if (keep && t.answer)
        add_turn(a, &t);
    else
        turn_drop(&t);
    return code;
}

void ask_idle(const asking *a)
{
    bool busy = true;
    while (busy && !(a->stop && *a->stop) && sp_context_step(a->ctx, &busy) == SP_OK) {
    }
}
