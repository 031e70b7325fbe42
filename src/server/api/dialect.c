#include "server/api/dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "server/api/stream.h"
#include "server/http/memory.h"
#include "server/http/reply.h"

const char *srv_dialect_param(const srv_dialect *dialect, const char *param)
{
    for (size_t i = 0; i < sizeof dialect->renamed / sizeof *dialect->renamed; i++) {
        const char *name = dialect->renamed[i][0];
        const size_t n = name ? strlen(name) : 0; /* "stop[0]" is of "stop", "stop_token_ids" is not */
        const bool begins = name && strncmp(param, name, n) == 0;
        if (begins && (!param[n] || strchr(".[", param[n]))) return dialect->renamed[i][1];
    }
    return param;
}

/* rename_why -- the text of an error, which begins with the name that the field has in a chat, with that of the
 * dialect. Messages are counted differently there, so they lose their numbers. */
static void rename_why(const char *param, const char *own, const char *why, char *out, size_t size)
{
    const size_t n = strcspn(param, ".[");
    const char *rest = why + n;
    const bool begins = n && own != param && strncmp(why, param, n) == 0 && (!*rest || strchr(" :.[", *rest));
    const char *closed = begins && *rest == '[' ? strstr(rest, "].") : NULL;
    if (begins && closed && strncmp(param, "messages", n) == 0)
        snprintf(out, size, "%s: %s", own, closed + 2);
    else
        snprintf(out, size, "%s%s", begins ? own : "", begins ? rest : why);
}

srv_sent srv_dialect_error(const srv_call *call, const srv_dialect *dialect, int status,
                           const srv_fields *f, const char *code)
{
    const char *param = srv_dialect_param(dialect, f->param);
    char why[sizeof f->why + 32];
    rename_why(f->param, param, f->why, why, sizeof why);
    return srv_reply_error(call->connection, status, param, code, why);
}

json_t *srv_body_copy(const srv_fields *f, const char *const *replaced, size_t n)
{
    static const char *const always[] = {
        "n",        "messages",     "return_progress", "stream_options", "echo",
        "logprobs", "top_logprobs", "best_of",         "functions"};
    json_t *o = json_copy((json_t *)f->object);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) json_object_del(o, always[i]);
    for (size_t i = 0; i < n; i++) json_object_del(o, replaced[i]);
    return o;
}

void srv_body_continue(srv_fields *f, json_t *body, const char *why)
{
    const json_t *messages = json_object_get(body, "messages");
    const json_t *m = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(m, "role"));
    if (!role || strcmp(role, "assistant") != 0) return;
    json_object_set_new(body, "continue_final_message", json_true());
    if (json_array_size(json_object_get(m, "tool_calls"))) srv_fields_refuse(f, "messages", "%s", why);
}

const char *srv_job_key(const srv_job *j)
{
    return j->id + strcspn(j->id, "-") + 1;
}

json_t *srv_arguments_json(const json_t *call)
{
    const char *text = json_string_value(json_object_get(call, "arguments"));
    json_t *o = text ? cli_load_json(text, strlen(text), 0, NULL) : NULL;
    if (json_is_object(o)) return o;
    json_decref(o);
    return json_object();
}

void srv_said_of(const srv_job *j, int i, srv_said *found)
{
    const srv_choice *c = &j->choices[i];
    const sp_result *r = c->done ? srv_job_result(j, i) : NULL;
    const char *text = c->text ? c->text : "";
    size_t n = c->n;
    if (r && !j->task.reply.stream) { /* the stream has collected it */
        text = r->text;
        n = strlen(text);
    }
    thoughts_form form = j->task.thoughts;
    if (c->in_thought && form == THOUGHTS_TAGS) form = j->task.continues ? THOUGHTS_WITHIN : THOUGHTS_OPENED;
    srv_said_read(&j->task.tools, form, text, n, r ? srv_end_of(r) : SRV_GROWS, found);
}

bool srv_stream_line(srv_job *j, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    bool good = text && !srv_memory_failed() && srv_stream_text(j, text) && srv_stream_text(j, "\n");
    free(text);
    json_decref(o);
    return good;
}
