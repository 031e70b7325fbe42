/* Bodies of HTTP requests from any bytes: fields, sampling, schemas, tools, messages, responses, up to the
 * prompt; and tool calls in answers from any bytes. The first byte selects the path. Run it in the root
 * of the repository, which has the model. */
#include <stdlib.h>
#include <string.h>

#include "exact.h"
#include "server/body/chat.h"
#include "server/api/dialect.h"
#include "server/api/messages.h"
#include "server/body/task.h"

static srv_server server;

static void require(bool holds)
{
    if (!holds) abort();
}

static void open_server(void)
{
    sp_context *c;
    sp_log_set(SP_LOG_ERROR, NULL, NULL);
    require(sp_context_open(&(sp_context_opts){.model = "tests/golden/tiny.gguf",
                                               .machine.n_threads = 1,
                                               .cache.kv_bytes = 1 << 20},
                            &c) == SP_OK);
    server = (srv_server){.o = {.max_tokens = 16, .sampling = {.top_p = 1, .repeat_penalty = 1}},
                          .ctx = c,
                          .vocab = sp_context_vocab(c),
                          .info = sp_context_describe(c)};
}

/* read_calls -- an answer, and each beginning of a short one: what was text remains text. */
static void read_calls(const char *text, size_t n)
{
    srv_fields f;
    static const char body[] = "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}";
    json_t *o = srv_fields_parse(&f, body, sizeof body - 1);
    srv_tools tools = {0};
    size_t n_text = 0, n_calls = 0;
    srv_tools_read(&tools, &f);
    for (size_t k = n > 300 ? n : 0; k <= n; k++) {
        srv_calls c;
        const bool is_cut = k < n && k % 2; /* a call that is cut is a call; one that grows is not yet */
        srv_calls_read(&tools, text, k, k == n ? SRV_WHOLE : is_cut ? SRV_CUT : SRV_GROWS, &c);
        require(c.n_text <= k && c.n_text >= n_text && json_array_size(c.v) >= n_calls);
        n_text = is_cut ? n_text : c.n_text;
        n_calls = is_cut ? n_calls : json_array_size(c.v);
        json_decref(c.v);
        json_decref(c.open);
    }
    json_decref(o);
}

/* read_prompt -- a prompt, or an error that says why there is none. */
static void read_prompt(srv_call *call, srv_task *t, srv_fields *f)
{
    srv_documents d = {0};
    sp_err err = SP_OK;
    sp_prompt *p = t->chat ? srv_prompt_chat(call, f, &t->tools, &d, &err)
                           : srv_prompt_plain(call, f, 0, t->suffix, &err);
    require(p ? !f->failed && err == SP_OK : f->failed && *f->why);
    for (size_t i = 0; i < d.n && p; i++) require(d.v[i].segment < sp_prompt_n_segments(p));
    sp_prompt_destroy(p);
    free(d.v);
}

/* The paths by the first byte: each dialect, and completions in OpenAI's. */
static const struct path {
    const srv_dialect *dialect;
    bool chat;
} paths[] = {{&srv_openai, false},       {&srv_openai, true},           {&srv_responses, true},
             {&srv_anthropic, true},     {&srv_ollama_chat, true},      {&srv_ollama_generate, true},
             {&srv_llama_completion, true}, {&srv_llama_infill, true}};

static void read_body(const struct path *path, const char *text, size_t n)
{
    srv_fields f;
    srv_call call = {.s = &server, .path = "/v1"};
    srv_task t = {.chat = path->chat, .dialect = path->dialect};
    json_t *body = srv_fields_parse(&f, text, n), *same = NULL;
    require(body ? !f.failed : f.failed && *f.why);
    if (body && t.dialect->body) f.object = same = t.dialect->body(&f, &t.chat);
    if (body && t.dialect->body) require(same ? !f.failed : f.failed && *f.why);
    if (body && !f.failed) srv_task_read(&t, &f, &server.o);
    if (body && !f.failed) {
        bool shows;
        sp_grammar *g = srv_tools_grammar(&t.tools, srv_tools_form("", &shows), &f);
        sp_grammar_destroy(g);
    }
    if (body && !f.failed) read_prompt(&call, &t, &f);
    srv_task_fini(&t);
    json_decref(same);
    json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!server.ctx) open_server();
    if (n < 1) return 0;
    char *text = (char *)exact_new(n); /* NUL-terminated, as HTTP delivers it */
    memcpy(text, data + 1, n - 1);
    text[n - 1] = '\0';
    if (*data % 16 == 3)
        read_calls(text, n - 1);
    else
        read_body(&paths[*data % 16 % (sizeof paths / sizeof *paths)], text, n - 1);
    exact_free((uint8_t *)text, n);
    return 0;
}
