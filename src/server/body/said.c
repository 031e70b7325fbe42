#include "server/body/said.h"

#include <stdlib.h>
#include <string.h>

#include "server/body/calls_int.h"
#include "server/http/memory.h"

typedef struct reading {
    const srv_tools *tools;
    srv_end end;
    srv_calls *calls;
} reading;

/* take_call -- a message to a function; false: the function is unknown, or its arguments are not an object. */
static bool take_call(const thoughts_message *m, void *user)
{
    const reading *r = user;
    cli_view to = m->to, arguments = m->body;
    char name[257] = "";
    if (!cli_view_take(&to, "functions.") || to.n >= sizeof name) return false;
    memcpy(name, to.s, to.n);
    if (!srv_calls_tool(r->tools, name)) return false;
    cli_view_skip_space(&arguments);
    cli_view rest = arguments;
    json_t *o = srv_calls_take_json(&rest), *text = NULL;
    const bool whole = json_is_object(o);
    json_decref(o);
    if (whole) {
        text = json_stringn(arguments.s, arguments.n - rest.n);
        const bool added = text && srv_calls_add(r->calls->v, name, text);
        json_decref(text);
        return added;
    }
    if (m->ended || r->end == SRV_WHOLE || (arguments.n && *arguments.s != '{')) return false;
    if (arguments.n) r->calls->open = srv_calls_begun(name, &arguments);
    return true;
}

void srv_said_read(const srv_tools *t, thoughts_form thoughts, const char *text, size_t n, srv_end end, srv_said *out)
{
    thoughts_parts parts;
    srv_calls calls = {.v = json_array()};
    reading r = {t, end, &calls};
    if (!thoughts_split(thoughts, (cli_view){text, n}, end == SRV_GROWS, take_call, &r, &parts)) srv_memory_lost();
    if (parts.owned) {
        calls.n_text = parts.text.n;
    } else {
        json_decref(calls.v);
        srv_calls_read(t, parts.text.s, parts.text.n, end, &calls);
    }
    *out = (srv_said){.thought = parts.thought.s,
                      .n_thought = parts.thought.n,
                      .text = parts.text.s,
                      .n_text = calls.n_text,
                      .calls = calls,
                      .owned = parts.owned};
}

void srv_said_fini(srv_said *s)
{
    json_decref(s->calls.v);
    json_decref(s->calls.open);
    free(s->owned);
}
