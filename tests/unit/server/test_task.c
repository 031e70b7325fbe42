/* A body's fields: what they ask for, what they default to, and the first error by name. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "server/api/retain.h"
#include "server/body/task.h"
#include "support/check.h"

static srv_options options = {
    .max_tokens = 99, .sampling = {.temperature = 0.5f, .top_p = 1, .repeat_penalty = 1}};

/* read -- the task of a body; the body is the caller's to free. */
static srv_task read_task(const char *text, srv_fields *f, json_t **body)
{
    srv_task t = {.chat = true};
    *body = srv_fields_parse(f, text, strlen(text));
    if (*body) srv_task_read(&t, f, &options);
    return t;
}

static srv_task good(const char *text, json_t **body)
{
    srv_fields f;
    srv_task t = read_task(text, &f, body);
    assert_string_equal(f.why, "");
    assert_false(f.failed);
    return t;
}

static void bad(const char *text, const char *param)
{
    srv_fields f;
    json_t *body;
    srv_task t = read_task(text, &f, &body);
    srv_task_fini(&t);
    assert_true(f.failed);
    assert_string_equal(f.param, param);
    assert_true(*f.why);
    json_decref(body);
}

static void fields_have_defaults(void **state)
{
    json_t *body;
    srv_task t = good("{\"n\": null, \"stop\": null, \"unknown\": {\"x\": 1}}", &body);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.max_tokens, 99);
    assert_int_equal(t.stop.n, 0);
    assert_true(t.sampling.temperature == 0.5f);
    assert_false(t.reply.stream || t.own_reuse || t.ignore_end);
    json_decref(body);
}

static void the_seed_of_the_server_is_the_default(void **state)
{
    json_t *body;
    const srv_options before = options;
    srv_task greedy = good("{\"temperature\": 0}", &body);
    assert_int_equal(greedy.sampling.seed, 0); /* nothing is drawn: a settings object shows no random number */
    json_decref(body);
    options.sampling.seed = 7;
    const char *const texts[] = {"{\"temperature\": 1}", "{\"temperature\": 0}", "{\"seed\": 9}"};
    for (int i = 0; i < 3; i++) {
        srv_task t = good(texts[i], &body);
        assert_int_equal(t.sampling.seed, i < 2 ? 7 : 9);
        json_decref(body);
    }
    options = before;
}

static void fields_have_values(void **state)
{
    json_t *body;
    srv_task t =
        good("{\"n\": 3, \"max_tokens\": 5, \"max_completion_tokens\": 7, \"temperature\": 0, "
             "\"top_k\": -1, \"repeat_last_n\": -1,"
             " \"seed\": 12, \"frequency_penalty\": 0.5, \"stop\": [\"a\", \"\", \"b\"], "
             "\"stream\": true,"
             " \"stream_options\": {\"include_usage\": true}, \"reuse\": {\"mode\": \"fusion\"}}",
             &body);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.max_tokens, 7);
    assert_true(t.sampling.temperature == 0);
    assert_int_equal(t.sampling.top_k, 0);
    assert_int_equal(t.sampling.repeat_last, 1000000);
    assert_int_equal(t.sampling.seed, 12);
    assert_true(t.sampling.frequency_penalty == 0.5f);
    assert_int_equal(t.stop.n, 2);
    assert_string_equal(t.stop.texts[1], "b");
    assert_true(t.reply.stream && t.reply.include_usage && t.own_reuse);
    assert_string_equal(t.reuse.policy, "fusion");
    assert_true(t.reuse.recompute > 0);
    json_decref(body);
    srv_task_fini(&t);
    t = good("{\"n_predict\": 0, \"quality\": \"fast\"}", &body);
    assert_int_equal(t.max_tokens, 0);
    assert_string_equal(t.reuse.policy, "inplace");
    assert_true(t.own_reuse && t.reuse.exact_first && t.reuse.recompute == 0);
    json_decref(body);
    srv_task_fini(&t);
    t = good("{\"n_predict\": -1, \"cache_prompt\": false, \"reuse\": \"full\"}", &body);
    assert_true(t.max_tokens > 99);
    assert_string_equal(t.reuse.policy, "off");
    json_decref(body);
}

/* What asks for nothing is no error. */
static void what_asks_for_nothing_is_no_error(void **state)
{
    json_t *body;
    srv_task t = good("{\"response_format\": {\"type\": \"json_object\"}, \"grammar\": \"\", \"guided_json\": false, "
                      "\"guided_choice\": null}", &body);
    assert_non_null(t.grammar);
    json_decref(body);
    srv_task_fini(&t);
    good("{\"tools\": [], \"logprobs\": false, \"frequency_penalty\": 0, \"logit_bias\": {}, "
         "\"best_of\": 1,"
         " \"response_format\": {\"type\": \"text\"}}",
         &body);
    json_decref(body);
}

static void what_is_not_supported_is_refused_where_it_asks_for_something(void **state)
{
    json_t *body;
    good("{\"top_n_sigma\": 0, \"thinking_budget\": -1, \"typical_p\": 1, \"length_penalty\": 1.0, "
         "\"detokenize\": true, \"modalities\": [\"text\"], \"mirostat\": 0}",
         &body);
    json_decref(body);
    bad("{\"top_n_sigma\": 1}", "top_n_sigma");
    bad("{\"thinking_budget\": 0.5}", "thinking_budget");
    bad("{\"typical_p\": 0}", "typical_p");
    bad("{\"typical_p\": 2}", "typical_p");
    bad("{\"detokenize\": false}", "detokenize");
    bad("{\"modalities\": [\"audio\"]}", "modalities");
    bad("{\"modalities\": [\"text\", \"audio\"]}", "modalities");
    bad("{\"mirostat\": 2}", "mirostat");
}

/* nested -- "{"x": [[...]]}" of this depth, with a string of brackets in it. */
static const char *nested(int depth)
{
    static char text[4 * SRV_MAX_DEPTH + 256];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"s\": \"\\\"[[[[{{{{\\\\\", \"x\": ");
    for (int i = 1; i < depth; i++) text[n++] = '[';
    for (int i = 1; i < depth; i++) text[n++] = ']';
    memcpy(text + n, "}", 2);
    return text;
}

static void numbers_have_a_least_and_a_most(void **state)
{
    json_t *o = json_pack("{s:i, s:f}", "n", 5, "x", 1.5);
    srv_fields f = {.object = o};
    assert_int_equal(srv_field_int(&f, "n", 1, 5, 5), 5);
    assert_true(srv_field_number(&f, "x", 1, 1.5, 1.5) == 1.5 && !f.failed);
    assert_int_equal(srv_field_int(&f, "n", 1, 6, 9), 1);
    assert_true(f.failed);
    f = (srv_fields){.object = o};
    assert_true(srv_field_number(&f, "x", 1, 0, 1.25) == 1 && f.failed);
    json_decref(o);
}

static void bodies_have_a_depth_at_most(void **state)
{
    json_t *body;
    good(nested(SRV_MAX_DEPTH), &body);
    json_decref(body);
    bad(nested(SRV_MAX_DEPTH + 1), "");
}

#define MARKED(role, mark) "{\"role\": \"" role "\", \"content\": [{\"text\": \"a\", \"cache_control\": " mark "}]}"
#define MARK(ttl)          "{\"type\": \"ephemeral\", \"ttl\": " ttl "}"

/* retained -- the milliseconds that a body asks for, n segments of them (0: all); -1: it is refused. */
static int64_t retained(const char *text, int *n)
{
    srv_fields f;
    srv_task t = {.chat = true};
    json_t *body = srv_fields_parse(&f, text, strlen(text));
    srv_retain_read(&t, &f);
    *n = t.retain.n;
    json_decref(body);
    return f.failed ? -1 : t.retain.ms;
}

static void marks_say_how_long_what_is_kept(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
        int n;
    } all[] = {
        {"{}", 0, 0},
        {"{\"cache_control\": null}", 0, 0},
        {"{\"cache_control\": {\"type\": \"ephemeral\"}}", 300000, 0},
        {"{\"cache_control\": " MARK("\"90s\"") "}", 90000, 0},
        {"{\"cache_control\": " MARK("\"24h\"") "}", 86400000, 0},
        {"{\"messages\": [" MARKED("system", MARK("\"1h\"")) "]}", 3600000, 1},
        {"{\"messages\": [" MARKED("developer", MARK("\"1h\"")) "]}", 3600000, 1},
        {"{\"messages\": [" MARKED("user", MARK("\"5m\"")) "]}", 300000, 0},
        {"{\"messages\": [" MARKED("system", MARK("\"1h\"")) ", " MARKED("user", MARK("\"5m\"")) "]}", 3600000, 0},
        {"{\"messages\": [" MARKED("user", MARK("\"5m\"")) ", " MARKED("system", MARK("\"1h\"")) "]}", 3600000, 0},
    };
    static const char *const bad[] = {"\"25h\"", "\"0s\"", "\"5\"", "\"5m \"", "\"m\"", "\"-5m\"", "5", "\"1441m\""};
    int n;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(retained(all[i].text, &n), all[i].ms);
        assert_int_equal(n, all[i].n);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[96];
        snprintf(text, sizeof text, "{\"cache_control\": {\"ttl\": %s}}", bad[i]);
        assert_int_equal(retained(text, &n), -1);
    }
    assert_int_equal(retained("{\"cache_control\": {\"type\": \"for ever\"}}", &n), -1);
}

static void lists_are_read_whole(void **state)
{
    json_t *body;
    srv_task t =
        good("{\"logit_bias\": {\"7\": 1.5, \"8\": -100}, \"logprobs\": true, \"top_logprobs\": 3,"
             " \"min_tokens\": 4, \"response_format\": {\"type\": \"json_object\"}}",
             &body);
    assert_int_equal(t.sampling.n_bias, 2);
    assert_ptr_equal(t.sampling.bias, t.bias);
    assert_true(t.bias[0].id == 7 && t.bias[0].bias == 1.5f && isinf(t.bias[1].bias));
    assert_true(t.reply.logprobs && t.grammar);
    assert_int_equal(t.reply.top_logprobs, 3);
    assert_int_equal(t.min_tokens, 4);
    json_decref(body);
    srv_task_fini(&t);
    t = good("{\"logit_bias\": [[9, 2], [10, false]], \"guided_choice\": [\"a\", \"b\"]}", &body);
    assert_true(t.bias[0].id == 9 && t.bias[1].id == 10 && isinf(t.bias[1].bias));
    assert_non_null(t.grammar);
    json_decref(body);
    srv_task_fini(&t);
    t = good("{\"structured_outputs\": {\"grammar\": null, \"regex\": \"a\"}}", &body);
    json_decref(body);
    srv_task_fini(&t);
    t = good("{\"structured_outputs\": {\"json\": {\"type\": \"null\"}}}", &body);
    assert_non_null(t.grammar);
    json_decref(body);
    srv_task_fini(&t);
}

/* A list of as many token ids as are allowed, and of one more. */
static void up_to_the_largest_number_of_tokens_stop(void **state)
{
    json_t *body, *ids = json_array();
    for (int i = 0; i < SRV_MAX_STOP; i++) json_array_append_new(ids, json_integer(i));
    json_t *o = json_pack("{s:O}", "stop_token_ids", ids);
    char *text = json_dumps(o, 0);
    srv_task t = good(text, &body);
    assert_int_equal(t.stop.n_tokens, SRV_MAX_STOP);
    srv_task_fini(&t);
    json_decref(body);
    free(text);
    json_array_append_new(ids, json_integer(7));
    text = json_dumps(o, 0);
    bad(text, "stop_token_ids");
    free(text);
    json_decref(ids);
    json_decref(o);
}

static void up_to_the_largest_number_of_tools_are_read(void **state)
{
    json_t *body, *list = json_array(), *o = json_pack("{s:O}", "tools", list);
    for (int i = 0; i < SRV_MAX_TOOLS; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        json_array_append_new(list, json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", name));
    }
    char *text = json_dumps(o, 0);
    srv_task t = good(text, &body);
    assert_int_equal(json_array_size(t.tools.list), SRV_MAX_TOOLS);
    srv_task_fini(&t);
    json_decref(body);
    free(text);
    json_array_append(list, json_array_get(list, 0));
    text = json_dumps(o, 0);
    bad(text, "tools");
    free(text);
    json_decref(list);
    json_decref(o);
}

static void up_to_4096_tokens_have_a_bias(void **state)
{
    json_t *biases = json_array(), *body, *o = json_pack("{s:o}", "logit_bias", biases);
    for (int i = 0; i < 4096; i++) json_array_append_new(biases, json_pack("[i, i]", i, 1));
    char *text = json_dumps(o, 0);
    srv_task t = good(text, &body);
    assert_int_equal(t.sampling.n_bias, 4096);
    assert_int_equal(t.bias[4095].id, 4095);
    json_decref(body);
    srv_task_fini(&t);
    free(text);
    json_array_append_new(biases, json_pack("[i, i]", 4096, 1));
    text = json_dumps(o, 0);
    bad(text, "logit_bias");
    free(text);
    json_decref(o);
}

/* Parameters of a policy are fields beside its name, or part of it. */
static void parameters_of_a_policy_are_fields(void **state)
{
    static const char *const texts[] = {
        "{\"reuse\": {\"mode\": \"craft\", \"alpha\": 1.5, \"recompute\": 0.25, \"focus\": 0}}",
        "{\"reuse\": {\"mode\": \"craft:alpha=1.5\", \"focus\": 0, \"recompute\": 0.25}}",
        "{\"reuse\": {\"mode\": \"craft:alpha=1.5,focus=0\", \"focus\": null, \"recompute\": 0.25, \"alpha\": null}}",
        "{\"reuse\": \"craft:alpha=1.5,focus=0\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *body;
        srv_task t = good(texts[i], &body), copy = t;
        assert_true(t.own_reuse);
        assert_string_equal(copy.reuse.policy, "craft:alpha=1.5,focus=0");
        assert_true(t.reuse.recompute == (i < 3 ? 0.25f : 0.15f));
        srv_task_fini(&t);
        json_decref(body);
    }
    srv_fields f;
    json_t *body;
    srv_task t = read_task("{\"reuse\": {\"mode\": \"craft\", \"alfa\": 1}}", &f, &body);
    assert_non_null(strstr(f.why, "\"alfa=1\" is unknown; "
                                  "its parameters: alpha (0 to 1000000), focus (0 to 1000 layers)"));
    srv_task_fini(&t);
    json_decref(body);
}

static void errors_name_their_field(void **state)
{
    bad("{\"n\": 0}", "n");
    bad("{\"n\": 1e300}", "n");
    bad("{\"n\": 2, \"best_of\": 4}", "best_of");
    bad("{\"max_tokens\": 3.5}", "max_tokens");
    bad("{\"max_tokens\": -2}", "max_tokens");
    bad("{\"n_predict\": -2}", "n_predict");
    bad("{\"temperature\": -0.1}", "temperature");
    bad("{\"repetition_penalty\": 0}", "repetition_penalty");
    bad("{\"stop\": {}}", "stop");
    bad("{\"stop\": [\"a\", 1]}", "stop[1]");
    bad("{\"stream_options\": 1}", "stream_options");
    bad("{\"reuse\": {}}", "reuse.mode");
    bad("{\"reuse\": 1}", "reuse");
    bad("{\"reuse\": \"fusion+fused\"}", "reuse");
    bad("{\"reuse\": {\"mode\": \"full\", \"recompute\": 2}}", "reuse");
    bad("{\"reuse\": {\"mode\": \"full\", \"focus\": 2}}", "reuse.mode");
    bad("{\"reuse\": {\"mode\": \"craft\", \"focus\": -1}}", "reuse.mode");
    bad("{\"reuse\": {\"mode\": \"craft:focus=1\", \"focus\": 1}}", "reuse.mode");
    bad("{\"reuse\": {\"mode\": \"craft\", \"focus\": \"1\"}}", "reuse");
    bad("{\"reuse\": \"craft:focus=x\"}", "reuse");
    bad("{\"quality\": \"perfect\"}", "quality");
    bad("{\"presence_penalty\": 2.5}", "presence_penalty");
    bad("{\"logit_bias\": {\"7\": 101}}", "logit_bias");
    bad("{\"logit_bias\": {\"-7\": 1}}", "logit_bias");
    bad("{\"logit_bias\": {\"7x\": 1}}", "logit_bias");
    bad("{\"logit_bias\": {\"99999999999999999999\": 1}}", "logit_bias");
    bad("{\"logit_bias\": [[7]]}", "logit_bias");
    bad("{\"logit_bias\": 7}", "logit_bias");
    bad("{\"logprobs\": 3}", "logprobs");
    bad("{\"top_logprobs\": 3}", "top_logprobs");
    bad("{\"logprobs\": true, \"top_logprobs\": 33}", "top_logprobs");
    bad("{\"min_tokens\": -1}", "min_tokens");
    bad("{\"response_format\": {\"type\": \"xml\"}}", "response_format.type");
    bad("{\"response_format\": {\"type\": \"json_schema\"}}", "response_format.json_schema.schema");
    bad("{\"json_schema\": {\"type\": \"text\"}}", "json_schema");
    bad("{\"json_schema\": {\"pattern\": \"(a\"}}", "json_schema");
    bad("{\"guided_choice\": [\"a\", 1]}", "guided_choice");
    bad("{\"guided_json\": \"{\"}", "guided_json");
    bad("{\"structured_outputs\": {\"regex\": \"(?=a)\"}}", "structured_outputs.regex");
    bad("{\"structured_outputs\": {\"grammar\": \"root ::= a\"}}", "structured_outputs.grammar");
    bad("{\"structured_outputs\": {\"structural_tag\": {}}}", "structured_outputs");
    bad("{\"structured_outputs\": {\"josn\": {}}}", "structured_outputs.josn");
    bad("{\"structured_outputs\": \"json\"}", "structured_outputs");
    bad("{\"quality\": \"fast\", \"reuse\": \"full\"}", "quality");
    bad("{\"grammar\": \"root ::= [\"}", "grammar");
    bad("{\"grammar\": 7}", "grammar");
    bad("{\"guided_regex\": \"(a\"}", "guided_regex");
    bad("{\"guided_grammar\": \"a\"}", "guided_grammar");
    bad("{\"response_format\": {\"type\": \"json_object\"}, \"guided_json\": {}}", "guided_json");
    bad("{\"guided_choice\": [\"a\"], \"structured_outputs\": {\"regex\": \"a\"}}", "structured_outputs.regex");
    bad("{\"structured_outputs\": {\"choice\": [\"a\"], \"json_object\": true}}", "structured_outputs.json_object");
    bad("{\"stop_token_ids\": 7}", "stop_token_ids");
    bad("{\"stop_token_ids\": [\"7\"]}", "stop_token_ids");
    bad("{\"stop_token_ids\": [-1]}", "stop_token_ids");
    bad("{\"suffix\": 7}", "suffix");
    bad("{\"suffix\": \"x\"}", "suffix");        /* of a chat */
    bad("{\"n\": 0, \"temperature\": -1}", "n"); /* the first that is read */
}

static void choices_have_a_largest_number(void **state)
{
    json_t *body;
    for (int n = 1024; n <= 1025; n++) {
        char text[16384];
        size_t at = (size_t)sprintf(text, "{\"guided_choice\": [\"c\"");
        for (int i = 1; i < n; i++) at += (size_t)sprintf(text + at, ", \"c%d\"", i);
        strcpy(text + at, "]}");
        if (n > 1024) {
            bad(text, "guided_choice");
            continue;
        }
        srv_task t = good(text, &body);
        assert_non_null(t.grammar);
        json_decref(body);
        srv_task_fini(&t);
    }
}

static void says(const char *text, const char *why)
{
    srv_fields f;
    json_t *body;
    srv_task t = read_task(text, &f, &body);
    srv_task_fini(&t);
    assert_memory_equal(f.why, why, strlen(why));
    json_decref(body);
}

static void errors_say_a_word_once(void **state)
{
    says("{\"grammar\": \"root ::= [\"}", "grammar: line 1");
    says("{\"guided_regex\": \"(a\"}", "guided_regex: line 1");
    says("{\"structured_outputs\": {\"regex\": \"(a\"}}", "structured_outputs.regex: line 1");
    says("{\"json_schema\": {\"not\": {}}}", "json_schema: #: unsupported keyword");
    says("{\"reuse\": \"magic\"}", "reuse policy \"magic\"");
    says("{\"reuse\": {\"mode\": \"magic\"}}", "reuse policy \"magic\"");
    says("{\"guided_json\": {\"not\": {}}}", "guided_json: schema: #"); /* two words */
}

static void only(const char *text, const char *where, const char *param)
{
    srv_fields f = {0};
    json_t *o = json_loads(text, 0, NULL);
    srv_fields_only(&f, o, where, "text ttl_seconds");
    assert_string_equal(f.param, param);
    assert_int_equal(f.failed, *param != '\0');
    json_decref(o);
}

static void an_unknown_field_of_our_objects_is_named(void **state)
{
    only("{\"text\": 1, \"ttl_seconds\": 2, \"ttl\": null}", "", "");
    only("[1]", "", "");
    only("{\"ttl\": 1}", "", "ttl");             /* a part of a word */
    only("{\"seconds\": 1}", "a[0]", "a[0].seconds");
    only("{\"text ttl_seconds\": 1}", "", "text ttl_seconds");
    only("{\"\": 1}", "a", "a.");
}

/* As extractors of PDF write it between words. */
static void a_nul_in_a_text_is_a_space(void **state)
{
    json_t *body;
    srv_task t = good("{\"a\": \"x\\u0000y\"}", &body);
    assert_string_equal(json_string_value(json_object_get(body, "a")), "x y");
    srv_task_fini(&t);
    json_decref(body);
}

static void a_quality_is_what_was_calibrated_for_the_model(void **state)
{
    char model[] = "/tmp/spolia-task-XXXXXX", path[64];
    const int f = mkstemp(model);
    assert_true(f >= 0 && close(f) == 0);
    snprintf(path, sizeof path, "%s.reuse.json", model);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs("{\"version\": 1, \"policies\": {\"flow\": {\"recompute\": 0.25, \"alpha\": 0}}, \"qualities\": "
          "{\"balanced\": {\"policy\": \"blend\", \"recompute\": 0.5, \"alpha\": 0}}}",
          out);
    assert_int_equal(fclose(out), 0);
    options.model = model;
    json_t *body;
    srv_task t = good("{\"quality\": \"balanced\"}", &body);
    assert_string_equal(t.reuse.policy, "blend");
    assert_true(t.reuse.recompute == 0.5f);
    json_decref(body);
    t = good("{\"reuse\": \"flow\"}", &body);
    assert_true(t.reuse.recompute == 0.25f);
    json_decref(body);
    t = good("{\"reuse\": \"fusion\"}", &body);
    assert_true(t.reuse.recompute == SP_DEFAULT_SHARE);
    json_decref(body);
    t = good("{\"quality\": \"exact\"}", &body);
    assert_string_equal(t.reuse.policy, "prefix");
    json_decref(body);
    options.model = NULL;
    unlink(path);
    unlink(model);
}

static void a_body_must_be_an_object(void **state)
{
    bad("", "");
    bad("7", "");
    bad("[]", "");
    char deep[3000];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    bad(deep, "");
    /* brackets in strings are no depth */
    memset(deep, '[', sizeof deep - 1);
    memcpy(deep, "{\"a\": \"\\\"", 9);
    memcpy(deep + sizeof deep - 3, "\"}", 3);
    json_t *body;
    good(deep, &body);
    json_decref(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_have_defaults),
        cmocka_unit_test(fields_have_values),
        cmocka_unit_test(the_seed_of_the_server_is_the_default),
        cmocka_unit_test(what_asks_for_nothing_is_no_error),
        cmocka_unit_test(what_is_not_supported_is_refused_where_it_asks_for_something),
        cmocka_unit_test(numbers_have_a_least_and_a_most),
        cmocka_unit_test(bodies_have_a_depth_at_most),
        cmocka_unit_test(marks_say_how_long_what_is_kept),
        cmocka_unit_test(lists_are_read_whole),
        cmocka_unit_test(up_to_the_largest_number_of_tokens_stop),
        cmocka_unit_test(up_to_the_largest_number_of_tools_are_read),
        cmocka_unit_test(up_to_4096_tokens_have_a_bias),
        cmocka_unit_test(choices_have_a_largest_number),
        cmocka_unit_test(parameters_of_a_policy_are_fields),
        cmocka_unit_test(errors_name_their_field),
        cmocka_unit_test(a_body_must_be_an_object),
        cmocka_unit_test(errors_say_a_word_once),
        cmocka_unit_test(an_unknown_field_of_our_objects_is_named),
        cmocka_unit_test(a_nul_in_a_text_is_a_space),
        cmocka_unit_test(a_quality_is_what_was_calibrated_for_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
