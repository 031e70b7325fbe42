#include "server/api/answer.h"

#include <inttypes.h>
#include <string.h>

#include "cli/answer/account.h"
#include "server/api/citations.h"
#include "server/api/dialect.h"
#include "server/api/logprobs.h"
#include "server/http/reply.h"

const char *srv_answer_finish(sp_finish f, bool calls)
{
    if (f == SP_FINISH_LENGTH) return "length"; /* more calls may have followed */
    return calls ? "tool_calls" : "stop";
}

const sp_result *srv_answer_failure(const srv_job *j)
{
    for (int i = 0; i < j->run.n_started; i++)
        if (srv_job_result(j, i)->finish == SP_FINISH_ERROR) return srv_job_result(j, i);
    return NULL;
}

/* text_json -- an answer has whole UTF-8 characters; anything else that a model writes is replaced. */
static json_t *text_json(const char *text)
{
    return srv_text_json(text, strlen(text));
}

json_t *srv_answer_frame(const srv_job *j, const char *object, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", j->id, "object", object, "created",
                     (json_int_t)j->created, "model", j->s->o.alias, "system_fingerprint",
                     "spolia-" SPOLIA_VERSION, "choices", choices);
}

json_t *srv_answer_usage(const srv_job *j)
{
    int n_generated = 0, n_prompt = 0, n_reused = 0, n_recomputed = 0;
    for (int i = 0; i < j->run.n_started; i++) {
        const sp_result *r = srv_job_result(j, i);
        bool first = i % j->task.n == 0; /* a prompt counts once */
        n_generated += r->n_generated;
        n_prompt += first ? r->n_prompt : 0;
        n_reused += first ? r->n_reused : 0;
        n_recomputed += first ? r->n_recomputed : 0;
    }
    return json_pack("{s:i, s:i, s:i, s:{s:i, s:i}}", "prompt_tokens", n_prompt,
                     "completion_tokens", n_generated, "total_tokens", n_prompt + n_generated,
                     "prompt_tokens_details", "cached_tokens", n_reused, "recomputed_tokens",
                     n_recomputed);
}

static double per_second(int n, double ms)
{
    return ms > 0 && n > 0 ? n * 1e3 / ms : 0;
}

json_t *srv_answer_timings(const sp_result *r)
{
    double prompt_ms = (double)(r->ttft_us - r->queue_us) / 1e3;
    double predicted_ms = (double)r->decode_us / 1e3;
    if (prompt_ms < 0) prompt_ms = 0;
    return json_pack("{s:i, s:i, s:f, s:f, s:i, s:f, s:f, s:f, s:f, s:o}", "cache_n", r->n_reused,
                     "prompt_n", r->n_computed, "prompt_ms", prompt_ms, "prompt_per_second",
                     per_second(r->n_computed, prompt_ms), "predicted_n", r->n_generated,
                     "predicted_ms", predicted_ms, "predicted_per_second",
                     per_second(r->n_generated - 1, predicted_ms), "queue_ms",
                     (double)r->queue_us / 1e3, "ttft_ms", (double)r->ttft_us / 1e3, "cold_ms",
                     r->cold_us > 0 ? json_real((double)r->cold_us / 1e3) : json_null());
}

/* -- the account --------------------------------------------------------------------------------- */

static json_t *segment_json(const sp_segment_report *s)
{
    char origin[17] = "";
    if (*s->copy) snprintf(origin, sizeof origin, "%016" PRIx64, s->origin);
    return json_pack("{s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:i, s:s}", "kind", s->kind, "tokens", s->n_tokens,
                     "reused", s->n_reused, "recomputed", s->n_recomputed, "from", s->from,
                     "missed", s->missed, "copy", s->copy, "patched", s->n_patched, "origin", origin);
}

/* sum_json -- of the segments of a tree. */
static json_t *sum_json(const srv_document *d, const sp_result *r)
{
    sp_segment_report sum = {.kind = "tree", .from = "", .missed = "", .copy = ""};
    for (int i = d->segment; i < d->segment + d->n_segments && i < r->n_segments; i++) {
        const sp_segment_report *s = &r->segments[i];
        sum.n_tokens += s->n_tokens;
        sum.n_reused += s->n_reused;
        if (*s->from) sum.from = s->from;
    }
    json_t *o = segment_json(&sum);
    json_object_set_new(o, "nodes", json_integer(d->n_segments));
    return o;
}

/* document_json -- with its text if the answer is cited: a client of a collection has no other source of it. */
static json_t *document_json(const srv_document *d, const sp_result *r, bool text)
{
    bool is_there = d->segment >= 0 && d->segment < r->n_segments;
    json_t *o = !is_there       ? json_object()
                : d->n_segments ? sum_json(d, r)
                                : segment_json(&r->segments[d->segment]);
    if (d->id) json_object_set_new(o, "id", json_string(d->id));
    if (d->title) json_object_set_new(o, "title", json_string(d->title));
    if (d->text && text) json_object_set_new(o, "text", text_json(d->text));
    json_object_del(o, "kind");
    return o;
}

/* found_json -- chunks that were found in messages, without those of documents. */
static json_t *found_json(const srv_documents *d, const sp_result *r)
{
    int n = 0, n_tokens = 0;
    for (int i = 0; i < r->n_segments; i++) {
        const sp_segment_report *s = &r->segments[i];
        bool is_document = false;
        for (size_t k = 0; k < d->n && !is_document; k++) is_document = d->v[k].segment == i;
        if (is_document || strcmp(s->kind, "chunk") != 0) continue;
        n++;
        n_tokens += s->n_tokens;
    }
    return json_pack("{s:i, s:i}", "chunks", n, "tokens", n_tokens);
}

json_t *srv_answer_account(const srv_job *j)
{
    const sp_result *r = srv_job_result(j, 0);
    json_t *documents = json_array(), *segments = json_array();
    for (size_t i = 0; i < j->documents.n; i++)
        json_array_append_new(documents, document_json(&j->documents.v[i], r, j->task.reply.citations));
    srv_citations_rate(j, documents);
    for (int i = 0; i < r->n_segments; i++)
        json_array_append_new(segments, segment_json(&r->segments[i]));
    json_t *o = json_pack(
        "{s:s?, s:f, s:i, s:i, s:i, s:i, s:f, s:o, s:o, s:o}", "policy", r->policy, "recompute",
        account_share(r->recompute), "reused_tokens", r->n_reused, "recomputed_tokens", r->n_recomputed,
        "dropped_tokens", r->n_dropped, "computed_tokens", r->n_computed, "plan_ms", (double)r->plan_us / 1e3, "found",
        found_json(&j->documents, r), "documents", documents, "segments", segments);
    if (*j->retrieval.from.name) json_object_set_new(o, "retrieval", srv_retrieval_json(&j->retrieval));
    json_t *decode = account_decode_json(&r->decode);
    if (decode) json_object_set_new(o, "decode", decode);
    return o;
}

json_t *srv_answer_explanation(const srv_job *j)
{
    const sp_result *r = srv_job_result(j, 0);
    json_t *o = srv_answer_account(j);
    json_object_set_new(o, "id", json_string(j->id));
    json_object_set_new(o, "object", json_string("request.explanation"));
    json_object_set_new(o, "created", json_integer(j->created));
    json_object_set_new(o, "finish", json_string(finish_name(r->finish)));
    if (r->finish == SP_FINISH_ERROR) json_object_set_new(o, "error", text_json(r->detail));
    json_object_set_new(o, "prompt_tokens", json_integer(r->n_prompt));
    json_object_set_new(o, "generated_tokens", json_integer(r->n_generated));
    json_object_set_new(o, "timings", srv_answer_timings(r));
    return o;
}

/* -- a whole answer -------------------------------------------------------------------------------- */

/* with_echo -- the echo before a text (consumed). */
static json_t *with_echo(const char *echo, json_t *text)
{
    json_t *whole = json_sprintf("%s%s", echo, json_string_value(text));
    json_decref(text);
    return whole;
}

json_t *srv_answer_call(const srv_job *j, int choice, size_t k, const json_t *call, bool streamed)
{
    /* Mistral's template wants nine letters and digits */
    json_t *id = j->task.tool_form == SRV_TOOLS_MISTRAL
                     ? json_sprintf("%05x%02x%02x", (unsigned)(j->number & 0xfffff),
                                    (unsigned)choice & 255, (unsigned)k & 255)
                     : json_sprintf("call_%s_%d_%zu", j->id + strcspn(j->id, "-") + 1, choice, k);
    json_t *o =
        json_pack("{s:o, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function", "name",
                  json_object_get(call, "name"), "arguments", json_object_get(call, "arguments"));
    if (streamed) json_object_set_new(o, "index", json_integer((json_int_t)k));
    return o;
}

/* message_json -- the message of a chat's choice; *calls: it has complete calls. */
static json_t *message_json(const srv_job *j, int i, bool *calls)
{
    srv_said said;
    srv_said_of(j, i, &said);
    json_t *v = said.calls.v;
    *calls = json_array_size(v) > 0;
    if (said.calls.open) json_array_append(v, said.calls.open);
    const bool any = json_array_size(v) > 0 || j->task.tools.must;
    const char *echo = srv_job_echo(j, i);
    json_t *content = any && said.n_text == 0 && !echo ? json_null() : srv_text_json(said.text, said.n_text);
    if (echo) content = with_echo(echo, content);
    json_t *m = json_pack("{s:s, s:o}", "role", "assistant", "content", content), *list = json_array();
    if (said.n_thought) json_object_set_new(m, "reasoning_content", srv_text_json(said.thought, said.n_thought));
    for (size_t k = 0; k < json_array_size(v); k++)
        json_array_append_new(list, srv_answer_call(j, i, k, json_array_get(v, k), false));
    if (json_array_size(list)) json_object_set(m, "tool_calls", list);
    json_decref(list);
    srv_said_fini(&said);
    return m;
}

static json_t *choice_json(const srv_job *j, int i)
{
    const sp_result *r = srv_job_result(j, i);
    bool calls = false;
    json_t *c = json_pack("{s:i}", "index", i);
    if (j->task.chat)
        json_object_set_new(c, "message", message_json(j, i, &calls));
    else
        json_object_set_new(c, "text",
                            srv_job_echo(j, i) ? with_echo(srv_job_echo(j, i), text_json(r->text))
                                               : text_json(r->text));
    const srv_choice *choice = &j->choices[i];
    json_object_set_new(c, "logprobs", srv_logprobs(choice, 0, choice->n_tokens, (srv_chars){0}));
    json_object_set_new(c, "finish_reason", json_string(srv_answer_finish(r->finish, calls)));
    srv_citations_add(j, i, c);
    return c;
}

json_t *srv_answer(const srv_job *j)
{
    json_t *choices = json_array();
    for (int i = 0; i < j->run.n_started; i++) json_array_append_new(choices, choice_json(j, i));
    json_t *o = srv_answer_frame(j, j->task.chat ? "chat.completion" : "text_completion", choices);
    json_object_set_new(o, "usage", srv_answer_usage(j));
    json_object_set_new(o, "timings", srv_answer_timings(srv_job_result(j, 0)));
    json_object_set_new(o, "spolia", srv_answer_account(j));
    return o;
}
