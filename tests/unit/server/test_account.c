/* What a client is told of an answer: tokens, times, and where the keys and values of each segment came from. */
#include <string.h>

#include "serve/request/request.h"
#include "server/api/answer.h"
#include "server/api/job.h"
#include "support/check.h"

enum { CHOICES = 4 };

/* An answer of several choices, and the job that it is of. */
typedef struct answer {
    srv_server server;
    sp_request requests[CHOICES];
    srv_job job;
} answer;

static answer *answer_of(int n_prompts, int n)
{
    answer *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->server.o.alias = "tiny";
    srv_job *j = &a->job;
    j->s = &a->server;
    snprintf(j->id, sizeof j->id, "chatcmpl-00ff");
    j->task.n = n;
    j->task.n_prompts = n_prompts;
    j->run.n_started = n_prompts * n;
    for (int i = 0; i < j->run.n_started; i++) {
        a->requests[i].account.result = (sp_result){.finish = SP_FINISH_STOP,
                                                    .text = "yes",
                                                    .detail = "",
                                                    .n_prompt = 100,
                                                    .n_reused = 60,
                                                    .n_recomputed = 7,
                                                    .n_computed = 40,
                                                    .n_generated = 9,
                                                    .queue_us = 1000,
                                                    .ttft_us = 5000,
                                                    .decode_us = 2000};
        j->choices[i] = (srv_choice){.job = j, .index = i, .request = &a->requests[i], .done = true};
    }
    return a;
}

static sp_result *result_of(answer *a, int i)
{
    return &a->requests[i].account.result;
}

/* check -- that the object has these members, written with ' for ". Consumes o. */
static void check(json_t *o, const char *members)
{
    char text[2000];
    snprintf(text, sizeof text, "%s", members);
    for (char *c = text; *c; c++) *c = *c == '\'' ? '"' : *c;
    json_t *wanted = json_loads(text, 0, NULL), *value;
    const char *key;
    assert_non_null(wanted);
    json_object_foreach(wanted, key, value)
    {
        const json_t *is = json_object_get(o, key);
        const bool equal = json_is_number(value) && json_is_number(is)
                               ? json_number_value(value) == json_number_value(is)
                               : json_equal((json_t *)is, value);
        if (!equal) fail_msg("%s is %s", key, is ? json_dumps(is, JSON_ENCODE_ANY) : "not there");
    }
    json_decref(wanted);
    json_decref(o);
}

static void times_and_speeds_are_those_of_the_result(void **state)
{
    answer *a = answer_of(1, 1);
    sp_result *r = result_of(a, 0);
    check(srv_answer_timings(r), "{'cache_n': 60, 'prompt_n': 40, 'prompt_ms': 4, 'prompt_per_second': 10000, "
                                 "'predicted_n': 9, 'predicted_ms': 2, 'predicted_per_second': 4000, 'queue_ms': 1, "
                                 "'ttft_ms': 5, 'cold_ms': null}"); /* the first token is of the prompt's time */
    r->cold_us = 12000;
    check(srv_answer_timings(r), "{'cold_ms': 12}");
    *r = (sp_result){.queue_us = 3000}; /* canceled while it waited */
    check(srv_answer_timings(r), "{'prompt_ms': 0, 'prompt_per_second': 0, 'predicted_per_second': 0, 'queue_ms': 3}");
    free(a);
}

static void a_prompt_counts_once_and_each_answer(void **state)
{
    answer *a = answer_of(2, 2);
    for (int i = 0; i < 4; i++) result_of(a, i)->n_generated = i + 1;
    result_of(a, 2)->n_prompt = 50; /* the second prompt */
    result_of(a, 2)->n_reused = 20;
    result_of(a, 2)->n_recomputed = 3;
    check(srv_answer_usage(&a->job),
          "{'prompt_tokens': 150, 'completion_tokens': 10, 'total_tokens': 160, "
          "'prompt_tokens_details': {'cached_tokens': 80, 'recomputed_tokens': 10}}");
    free(a);
}

static void the_failure_of_any_choice_is_that_of_the_answer(void **state)
{
    answer *a = answer_of(2, 2);
    assert_null(srv_answer_failure(&a->job));
    result_of(a, 2)->finish = SP_FINISH_ERROR;
    assert_ptr_equal(srv_answer_failure(&a->job), result_of(a, 2));
    free(a);
}

static void an_account_names_what_served_each_segment(void **state)
{
    answer *a = answer_of(1, 1);
    sp_result *r = result_of(a, 0);
    const sp_segment_report segments[] = {
        {.kind = "system", .n_tokens = 5, .n_reused = 5, .from = "memory", .missed = "", .copy = "path", .origin = 0xab},
        {.kind = "chunk", .n_tokens = 20, .from = "", .missed = "evicted", .copy = ""},
        {.kind = "chunk", .n_tokens = 30, .n_reused = 26, .n_recomputed = 4, .from = "disk", .missed = "",
         .copy = "placed", .n_patched = 3, .origin = UINT64_C(0xfedcba9876543210)},
        {.kind = "question", .n_tokens = 9, .from = "", .missed = "never seen", .copy = "", .origin = 1}};
    srv_document given = {.id = "d", .title = "T", .text = "text", .segment = 2}; /* after what was found */
    a->job.documents = (srv_documents){.v = &given, .n = 1};
    r->policy = "craft";
    r->recompute = 0.15f;
    r->n_dropped = 2;
    r->plan_us = 1500;
    r->segments = segments;
    r->n_segments = 4;
    check(srv_answer_account(&a->job),
          "{'policy': 'craft', 'recompute': 0.15, 'reused_tokens': 60, 'recomputed_tokens': 7, 'dropped_tokens': 2, "
          "'computed_tokens': 40, 'plan_ms': 1.5, 'found': {'chunks': 1, 'tokens': 20}, "
          "'documents': [{'id': 'd', 'title': 'T', 'tokens': 30, 'reused': 26, 'recomputed': 4, 'from': 'disk', "
          "'missed': '', 'copy': 'placed', 'patched': 3, 'origin': 'fedcba9876543210'}], 'segments': ["
          "{'kind': 'system', 'tokens': 5, 'reused': 5, 'recomputed': 0, 'from': 'memory', 'missed': '', "
          "'copy': 'path', 'patched': 0, 'origin': '00000000000000ab'}, "
          "{'kind': 'chunk', 'tokens': 20, 'reused': 0, 'recomputed': 0, 'from': '', 'missed': 'evicted', "
          "'copy': '', 'patched': 0, 'origin': ''}, "
          "{'kind': 'chunk', 'tokens': 30, 'reused': 26, 'recomputed': 4, 'from': 'disk', 'missed': '', "
          "'copy': 'placed', 'patched': 3, 'origin': 'fedcba9876543210'}, "
          "{'kind': 'question', 'tokens': 9, 'reused': 0, 'recomputed': 0, 'from': '', 'missed': 'never seen', "
          "'copy': '', 'patched': 0, 'origin': ''}]}");
    free(a);
}

/* Of a tree all nodes count; what was found in a message is no document. */
static void a_tree_is_the_sum_of_its_nodes(void **state)
{
    answer *a = answer_of(1, 1);
    sp_result *r = result_of(a, 0);
    const sp_segment_report segments[] = {
        {.kind = "system", .n_tokens = 5, .from = "", .missed = "", .copy = ""},
        {.kind = "node", .n_tokens = 3, .n_reused = 3, .from = "memory", .missed = "", .copy = "path"},
        {.kind = "node", .n_tokens = 4, .from = "", .missed = "never seen", .copy = ""},
        {.kind = "node", .n_tokens = 6, .n_reused = 6, .from = "memory", .missed = "", .copy = "path"}};
    srv_document given[] = {{.id = "tree", .segment = 1, .n_segments = 3}, {.id = "empty", .segment = -1}};
    a->job.documents = (srv_documents){.v = given, .n = 2};
    r->segments = segments;
    r->n_segments = 4;
    json_t *account = srv_answer_account(&a->job);
    const json_t *documents = json_object_get(account, "documents");
    check(json_incref(json_array_get(documents, 0)),
          "{'id': 'tree', 'nodes': 3, 'tokens': 13, 'reused': 9, 'from': 'memory'}");
    assert_int_equal(json_object_size(json_array_get(documents, 1)), 1); /* the id alone: it is not in the prompt */
    check(account, "{'found': {'chunks': 0, 'tokens': 0}}");
    free(a);
}

static void an_explanation_says_why_there_is_no_answer(void **state)
{
    answer *a = answer_of(1, 1);
    check(srv_answer_explanation(&a->job),
          "{'id': 'chatcmpl-00ff', 'object': 'request.explanation', 'finish': 'stop', "
          "'prompt_tokens': 100, 'generated_tokens': 9}");
    result_of(a, 0)->finish = SP_FINISH_ERROR;
    result_of(a, 0)->detail = "no room for the answer";
    check(srv_answer_explanation(&a->job), "{'finish': 'error', 'error': 'no room for the answer'}");
    free(a);
}

/* Ids of calls differ in each choice, and say nothing of how many requests there were; Mistral's have nine letters. */
static void each_call_has_an_id_of_its_own(void **state)
{
    static const char *const wanted[][2] = {{"call_00ff_1_0", "call_00ff_1_2"}, {"2abcd0100", "2abcd0102"}};
    answer *a = answer_of(1, 2);
    json_t *call = json_pack("{s:s, s:s}", "name", "f", "arguments", "{}");
    a->job.number = 0x12abcd;
    for (int form = 0; form < 2; form++) {
        a->job.task.tool_form = form ? SRV_TOOLS_MISTRAL : SRV_TOOLS_HERMES;
        for (int k = 0; k < 2; k++) {
            json_t *o = srv_answer_call(&a->job, 1, (size_t)(2 * k), call, false);
            assert_string_equal(json_string_value(json_object_get(o, "id")), wanted[form][k]);
            assert_null(json_object_get(o, "index"));
            json_decref(o);
        }
    }
    json_decref(call);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_and_speeds_are_those_of_the_result),
        cmocka_unit_test(a_prompt_counts_once_and_each_answer),
        cmocka_unit_test(the_failure_of_any_choice_is_that_of_the_answer),
        cmocka_unit_test(an_account_names_what_served_each_segment),
        cmocka_unit_test(a_tree_is_the_sum_of_its_nodes),
        cmocka_unit_test(an_explanation_says_why_there_is_no_answer),
        cmocka_unit_test(each_call_has_an_id_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
