/* llama.c -- llama.cpp's /completion and /infill.
 *
 * A body is that of completions; of /infill the prompt is what precedes the gap, with the texts of input_extra before
 * it, and the suffix what follows. A stream has an event for each piece, and "stop": true in the last one. */
#include "server/dialects/llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "server/api/answer.h"
#include "server/api/stream.h"
#include "server/http/memory.h"
#include "server/http/reply.h"

/* -- reading ------------------------------------------------------------------------------------------------ */

/* read_limit -- the first of three names that the body has; no limit without any, as with llama-server. */
static void read_limit(const srv_fields *f, json_t *out)
{
    static const char *const names[] = {"n_predict", "max_tokens", "max_completion_tokens"};
    json_t *v = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !v; i++) v = srv_field(f, names[i]);
    json_object_set_new(out, "n_predict", v ? json_incref(v) : json_integer(-1));
}

static json_t *completion_body(srv_fields *f, bool *chat)
{
    static const char *const replaced[] = {
        "suffix",      "max_tokens", "max_completion_tokens", "input_prefix", "input_suffix",
        "input_extra", "id_slot",    "timings_per_token"};
    json_t *out = srv_body_copy(f, replaced, sizeof replaced / sizeof *replaced);
    *chat = false;
    read_limit(f, out);
    const json_t *prompt = srv_field(f, "prompt");
    if (json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0)))
        srv_fields_refuse(f, "prompt",
                          "prompt must be a text or a list of token ids: one prompt a request");
    if (!f->failed) return out;
    json_decref(out);
    return NULL;
}

/* write_extra -- other files of the repository, each after a line with its name. */
static void write_extra(srv_fields *f, FILE *to)
{
    const json_t *list = srv_field(f, "input_extra");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(one, "filename")),
                   *text = json_string_value(json_object_get(one, "text"));
        if (!text) srv_fields_refuse(f, "input_extra", "input_extra[%zu].text must be a string", i);
        fprintf(to, "# %s\n%s\n\n", name ? name : "", text ? text : "");
    }
}

static json_t *infill_body(srv_fields *f, bool *chat)
{
    const char *prefix = srv_field_string(f, "input_prefix"),
               *suffix = srv_field_string(f, "input_suffix"),
               *prompt = srv_field_string(f, "prompt");
    char *text = NULL;
    size_t n;
    if (!prefix) srv_fields_refuse(f, "input_prefix", "input_prefix is missing");
    if (!suffix) srv_fields_refuse(f, "input_suffix", "input_suffix is missing");
    json_t *out = f->failed ? NULL : completion_body(f, chat);
    FILE *to = out ? cli_text_open(&text, &n) : NULL;
    if (to) {
        write_extra(f, to);
        fprintf(to, "%s%s", prefix, prompt ? prompt : "");
        fclose(to);
    }
    if (out && !text) srv_memory_lost();
    if (text) json_object_set_new(out, "prompt", json_string(text));
    if (out && *suffix) json_object_set_new(out, "suffix", json_string(suffix));
    free(text);
    if (!f->failed) return out;
    json_decref(out);
    return NULL;
}

/* -- writing ------------------------------------------------------------------------------------------------ */

static json_t *piece(const srv_job *j, json_t *text, const sp_result *r)
{
    return json_pack("{s:i, s:o, s:[], s:i, s:b, s:i, s:i}", "index", 0, "content", text, "tokens",
                     "id_slot", 0, "stop", r != NULL, "tokens_predicted", r ? r->n_generated : 0,
                     "tokens_evaluated", j->n_prompt);
}

/* ended -- the fields of the last object: text NULL is "". */
static json_t *ended(const srv_job *j, json_t *text)
{
    const sp_result *r = srv_job_result(j, 0);
    const json_t *prompt = json_object_get(j->body, "prompt");
    bool cut = r->finish == SP_FINISH_LENGTH;
    json_t *o = piece(j, text, r);
    json_object_set_new(o, "model", json_string(j->s->o.alias));
    json_object_set_new(o, "prompt",
                        json_is_string(prompt) ? json_incref((json_t *)prompt) : json_string(""));
    json_object_set_new(o, "stop_type", json_string(cut ? "limit" : r->stop ? "word" : "eos"));
    json_object_set_new(o, "stopping_word", json_string(r->stop ? r->stop : ""));
    json_object_set_new(o, "tokens_cached", json_integer(r->n_prompt + r->n_generated));
    json_object_set_new(o, "truncated", json_false());
    json_object_set_new(o, "has_new_line", json_boolean(strchr(r->text, '\n') != NULL));
    json_object_set_new(o, "generation_settings",
                        json_pack("{s:i, s:f, s:i, s:f, s:f, s:I}", "n_predict", j->task.max_tokens,
                                  "temperature", (double)j->task.sampling.temperature, "top_k",
                                  j->task.sampling.top_k, "top_p", (double)j->task.sampling.top_p,
                                  "min_p", (double)j->task.sampling.min_p, "seed",
                                  (json_int_t)j->task.sampling.seed));
    json_object_set_new(o, "timings", srv_answer_timings(r));
    json_object_set_new(o, "spolia", srv_answer_account(j));
    return o;
}

static json_t *whole(const srv_job *j)
{
    const char *text = srv_job_result(j, 0)->text;
    return ended(j, srv_text_json(text, strlen(text)));
}

static bool write_new(srv_job *j)
{
    srv_choice *c = &j->choices[0];
    bool good = true;
    if (c->ended) return true;
    if (c->n > c->taken) {
        good = srv_stream_event(j, NULL,
                                piece(j, srv_text_json(c->text + c->taken, c->n - c->taken), NULL));
        c->taken = c->seen = c->n;
    }
    if (!good || !c->done) return good;
    const sp_result *r = sp_request_result(c->request);
    c->ended = true;
    if (r->finish != SP_FINISH_ERROR) return srv_stream_event(j, NULL, ended(j, json_string("")));
    const char *code;
    int status = srv_error_status(r->err, &code);
    return srv_stream_event(j, NULL, srv_error_json(status, NULL, code, r->detail));
}

const srv_dialect srv_llama_completion = {
    .body = completion_body, .whole = whole, .write = write_new};
const srv_dialect srv_llama_infill = {
    .renamed = {{"suffix", "input_suffix"}, {"prompt", "input_prefix"}},
    .body = infill_body,
    .whole = whole,
    .write = write_new};

srv_sent srv_llama_completion_call(srv_call *call)
{
    return srv_generate(call, &srv_llama_completion, false);
}

srv_sent srv_llama_infill_call(srv_call *call)
{
    return srv_generate(call, &srv_llama_infill, false);
}
