/* Citations: sentences of an answer, and the documents that their tokens look at more than the question does. */
#include <stdio.h>
#include <string.h>

#include "serve/request/request.h"
#include "server/api/citations.h"
#include "support/check.h"

enum { N_SEGMENTS = 6, MOST_TOKENS = 64 };

/* An answer of one token a word (with the blanks before it); three documents are segments 1, 2 and 3 to 4. */
typedef struct cited {
    sp_request request;
    srv_job job;
    srv_document documents[3];
    float looks[MOST_TOKENS][N_SEGMENTS], before[N_SEGMENTS], asking[N_SEGMENTS];
    int text_at[MOST_TOKENS + 1];
} cited;

/* open -- looks: for each word the document (0, 1, 2) that it looks at; others get a tenth of that. */
static void open(cited *c, const char *text, const char *looks)
{
    *c = (cited){.documents = {{.id = "a", .segment = 1}, {.id = "b", .segment = 2}, {.id = "a", .segment = 3}}};
    c->documents[2].n_segments = 2;
    int n = 0;
    for (const char *s = text; *s && looks[n]; n++) {
        const int at = looks[n] - '0';
        c->text_at[n] = (int)(s - text);
        for (int k = 1; k <= 3; k++) c->looks[n][k] = 0.02f;
        c->looks[n][at + 1] = 0.2f;
        s += strspn(s, " \n");
        s += strcspn(s, " \n");
    }
    c->text_at[n] = (int)strlen(text);
    for (int k = 1; k <= 4; k++) c->before[k] = k < 3 ? 0.1f : 0.05f;
    c->request.account.result = (sp_result){.text = text,
                                            .looks = c->looks[0],
                                            .looks_before = c->before,
                                            .text_at = c->text_at,
                                            .n_looks = n,
                                            .n_segments = N_SEGMENTS};
    c->job.choices[0].request = &c->request;
    c->job.documents = (srv_documents){.v = c->documents, .n = 3};
    c->job.task.n = 1;
    c->job.task.reply.citations = true;
}

static json_t *citations_of(const cited *c)
{
    json_t *o = json_object();
    srv_citations_add(&c->job, 0, o);
    json_t *list = json_incref(json_object_get(o, "citations"));
    json_decref(o);
    assert_non_null(list);
    return list;
}

static int number(const json_t *o, const char *name)
{
    return (int)json_integer_value(json_object_get(o, name));
}

/* first_of -- the number of the document that sentence i looks at most. */
static int first_of(const json_t *list, size_t i)
{
    return number(json_array_get(json_object_get(json_array_get(list, i), "sources"), 0), "document");
}

/* ends_are -- where the sentences of a text end; each begins where the one before ended. */
static void ends_are(const char *text, const int *ends, size_t n)
{
    static cited c;
    open(&c, text, "");
    json_t *list = citations_of(&c);
    assert_int_equal(json_array_size(list), n);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);
        assert_int_equal(number(one, "start"), i ? ends[i - 1] : 0);
        assert_int_equal(number(one, "end"), ends[i]);
    }
    json_decref(list);
}

#define ENDS_ARE(text, ...) ends_are(text, (const int[]){__VA_ARGS__}, sizeof(int[]){__VA_ARGS__} / sizeof(int))

static void sentences_end_at_their_signs(void **state)
{
    ENDS_ARE("One. Two", 5, 8);
    ENDS_ARE("One!  Two?\n\nThree.", 6, 12, 18); /* blanks belong to the sentence before */
    ENDS_ARE("It is 1.5 m at 9.30, see a.b", 28); /* a sign within a word ends nothing */
    ENDS_ARE("One\nTwo\n", 4, 8);
    ENDS_ARE("一。二！三？四", 6, 12, 18, 21);
    ENDS_ARE("...", 3);
}

static void each_sentence_names_what_its_own_words_look_at(void **state)
{
    static cited c;
    open(&c, "Anna keeps it. Boats sleep there.", "001111");
    c.looks[2][1] = 0.2f; /* "it." looks at the first document, as the words before it */
    c.looks[2][2] = 0.02f;
    json_t *list = citations_of(&c);
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(first_of(list, 0), 0);
    assert_int_equal(first_of(list, 1), 1);
    json_decref(list);
    open(&c, "One. Two three.", "011"); /* " Two" begins with a blank of the sentence before it */
    list = citations_of(&c);
    const json_t *sources = json_object_get(json_array_get(list, 0), "sources");
    assert_int_equal(json_array_size(sources), 1);
    assert_float_equal(json_real_value(json_object_get(json_array_get(sources, 0), "mass")), 2 / 2.4, 1e-6);
    json_decref(list);
    open(&c, "One.  Two.", "00");
    c.text_at[2] = 6; /* two blanks are a token of their own, of the first sentence */
    c.text_at[3] = 10;
    c.looks[1][1] = 0.5f;
    c.looks[2][2] = 0.2f;
    c.request.account.result.n_looks = 3;
    list = citations_of(&c);
    assert_int_equal(first_of(list, 0), 0);
    assert_int_equal(first_of(list, 1), 1);
    json_decref(list);
}

static void all_documents_above_the_mean_are_sources(void **state)
{
    static cited c;
    open(&c, "One two.", "01");
    json_t *list = citations_of(&c);
    const json_t *sources = json_object_get(json_array_get(list, 0), "sources");
    assert_int_equal(json_array_size(sources), 2);
    assert_int_equal(number(json_array_get(sources, 0), "document"), 0);
    assert_int_equal(number(json_array_get(sources, 1), "document"), 1);
    json_decref(list);
}

/* A little above the mean is above it. */
static void a_source_need_not_stand_out(void **state)
{
    static cited c;
    open(&c, "One", "0");
    for (int k = 1; k <= 3; k++) c.looks[0][k] = (const float[]){0.112f, 0.104f, 0.084f}[k - 1];
    json_t *list = citations_of(&c);
    assert_int_equal(json_array_size(json_object_get(json_array_get(list, 0), "sources")), 2);
    json_decref(list);
}

static void a_sentence_names_five_sources_at_most(void **state)
{
    static cited c;
    srv_document many[8];
    open(&c, "One", "0");
    for (int i = 0; i < 8; i++) many[i] = (srv_document){.id = "a", .segment = i < 7 ? 1 : -1};
    c.job.documents = (srv_documents){.v = many, .n = 8};
    json_t *list = citations_of(&c);
    assert_int_equal(json_array_size(json_object_get(json_array_get(list, 0), "sources")), 5);
    json_decref(list);
}

static void attention_is_relative_to_that_of_the_question(void **state)
{
    static cited c;
    open(&c, "One two.", "01");
    c.before[1] = 0.4f; /* the first document always gets much */
    json_t *list = citations_of(&c);
    assert_int_equal(first_of(list, 0), 1);
    json_decref(list);
    sp_segment_report reports[N_SEGMENTS] = {
        {0}, {.n_tokens = 10}, {.n_tokens = 90}, {.n_tokens = 50}, {.n_tokens = 50}};
    c.request.account.result.looks_before = NULL; /* then by the number of tokens */
    c.request.account.result.segments = reports;
    list = citations_of(&c);
    assert_int_equal(first_of(list, 0), 0);
    json_decref(list);
}

static void a_document_of_several_segments_has_their_sum(void **state)
{
    static cited c;
    open(&c, "One two.", "22");
    json_t *list = citations_of(&c);
    const json_t *source = json_array_get(json_object_get(json_array_get(list, 0), "sources"), 0);
    assert_int_equal(number(source, "document"), 2);
    assert_int_equal(number(source, "chunk"), 1); /* the second with this id */
    assert_string_equal(json_string_value(json_object_get(source, "id")), "a");
    json_decref(list);
    for (int t = 0; t < 2; t++) { /* only the second segment of it is looked at */
        c.looks[t][3] = 0;
        c.looks[t][4] = 0.2f;
    }
    list = citations_of(&c);
    assert_int_equal(first_of(list, 0), 2);
    json_decref(list);
}

static void a_document_without_a_segment_gets_nothing(void **state)
{
    static cited c;
    open(&c, "One two.", "00");
    c.documents[0].segment = -1;
    c.documents[1].segment = N_SEGMENTS; /* it did not fit */
    json_t *list = citations_of(&c);
    const json_t *sources = json_object_get(json_array_get(list, 0), "sources");
    assert_int_equal(json_array_size(sources), 1);
    assert_int_equal(first_of(list, 0), 2);
    json_decref(list);
}

/* A chat that continues a begun answer returns that, too. */
static void places_count_from_the_echo(void **state)
{
    static char begun[] = "Well then: ";
    static cited c;
    open(&c, "One. Two.", "01");
    c.job.echoes[0].text = begun;
    json_t *list = citations_of(&c);
    assert_int_equal(number(json_array_get(list, 0), "start"), strlen(begun));
    assert_int_equal(number(json_array_get(list, 1), "start"), number(json_array_get(list, 0), "end"));
    assert_int_equal(number(json_array_get(list, 1), "end"), strlen(begun) + strlen("One. Two."));
    json_decref(list);
}

static void documents_are_rated_by_the_question(void **state)
{
    static cited c;
    open(&c, "One.", "0");
    json_t *documents = json_pack("[{}, {}, {}]");
    c.asking[1] = 0.1f;
    c.asking[2] = 0.3f;
    c.request.account.result.looks_asking = c.asking;
    srv_citations_rate(&c.job, documents);
    static const double want[] = {0.25, 0.75, 0};
    for (size_t i = 0; i < 3; i++)
        assert_float_equal(json_real_value(json_object_get(json_array_get(documents, i), "attention")), want[i], 1e-6);
    json_decref(documents);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_end_at_their_signs),
        cmocka_unit_test(each_sentence_names_what_its_own_words_look_at),
        cmocka_unit_test(all_documents_above_the_mean_are_sources),
        cmocka_unit_test(a_source_need_not_stand_out),
        cmocka_unit_test(a_sentence_names_five_sources_at_most),
        cmocka_unit_test(attention_is_relative_to_that_of_the_question),
        cmocka_unit_test(a_document_of_several_segments_has_their_sum),
        cmocka_unit_test(a_document_without_a_segment_gets_nothing),
        cmocka_unit_test(places_count_from_the_echo),
        cmocka_unit_test(documents_are_rated_by_the_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
