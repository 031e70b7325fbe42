/* Conversations as segments: the tokens are those of the rendered template, an earlier answer is found again. */
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>

#include "../model/tiny_vocab.h"
#include "model/tokenizer/tokenizer_int.h"
#include "support/requests.h"

static const char *const bad = "a turn in the wrong place passed";

static sp_prompt *new_prompt(sp_context *c)
{
    sp_prompt *p;
    assert_ok(sp_prompt_create(c, &p));
    return p;
}

/* talk -- a system text, then turns of user and assistant by turns; the last user turn is answered. */
static sp_prompt *talk(sp_context *c, const char *const *turns, int n)
{
    sp_prompt *p = new_prompt(c);
    assert_ok(sp_prompt_message(p, SP_ROLE_SYSTEM, "Be brief."));
    for (int i = 0; i < n; i++)
        assert_ok(sp_prompt_message(p, i % 2 ? SP_ROLE_ASSISTANT : SP_ROLE_USER, turns[i]));
    assert_ok(sp_prompt_answer(p));
    return p;
}

static bool same_segments(const sp_prompt *a, const sp_prompt *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!sp_digest_eq(&a->segs.v[i].id, &b->segs.v[i].id)) return false;
    return true;
}

/* dirty_heap -- memory that comes from the system is full of zeros, which would end any text. */
static void dirty_heap(void)
{
    enum { N = 4 << 20 };
    mallopt(M_MMAP_THRESHOLD, 2 * N);
    mallopt(M_TRIM_THRESHOLD, 2 * N);
    mallopt(M_PERTURB, 'x'); /* what is freed, and what is allocated */
    void *volatile v = malloc(N);
    free(v);
}

static void the_description_of_a_model_is_a_text(void **state)
{
    char *text = NULL;
    dirty_heap();
    assert_ok(sp_model_describe(MODEL, &text));
    const size_t n = strlen(text);
    assert_true(n > 2 && text[0] == '{' && text[n - 1] == '}');
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_object(o));
    json_decref(o);
    sp_buffer_free(text);
    mallopt(M_PERTURB, 0);
}

/* The bytes of the tokens, each with a zero after its last byte, are the text. */
static void pieces_are_the_text(void **state)
{
    static const char text[] = "Boats leave Velm at 9.";
    char joined[64] = "";
    sp_context *c = open_with((sp_context_opts){0});
    const sp_vocab *v = sp_context_vocab(c);
    int32_t *ids;
    size_t n;
    assert_ok(sp_vocab_encode(v, text, strlen(text), false, &ids, &n));
    for (size_t i = 0; i < n; i++) {
        char *piece;
        size_t n_piece;
        assert_ok(sp_vocab_piece(v, ids[i], &piece, &n_piece));
        assert_int_equal(strlen(piece), n_piece);
        strncat(joined, piece, sizeof joined - strlen(joined) - 1);
        sp_buffer_free(piece);
    }
    assert_non_null(strstr(joined, text)); /* some tokenizers begin with a space */
    sp_buffer_free(ids);
    close_clean(c);
}

/* What a turn adds comes after segments that do not change. */
static void turns_extend_what_was_there(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    const char *const turns[] = {"When do boats leave?", "At nine.", "And on Sunday?"};
    sp_prompt *first = talk(c, turns, 1), *third = talk(c, turns, 3);
    assert_int_equal(first->segs.n, 2);
    assert_int_equal(third->segs.n, 4);
    assert_true(same_segments(first, third, 2));
    assert_int_equal(third->segs.v[0].kind, SP_SEG_SYSTEM);
    assert_int_equal(third->segs.v[1].kind, SP_SEG_QUESTION);
    assert_int_equal(third->segs.v[2].kind, SP_SEG_TEXT);
    assert_int_equal(third->segs.v[3].kind, SP_SEG_QUESTION);
    int n = 0;
    for (size_t i = 0; i < third->segs.n; i++) n += third->segs.v[i].n;
    assert_int_equal(n, sp_prompt_n_tokens(third));
    sp_prompt_destroy(first);
    sp_prompt_destroy(third);
    close_clean(c);
}

/* The tokens of all segments together spell the template. */
static void the_template_is_spelled(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    for (int f = SP_CHAT_NONE; f <= SP_CHAT_MISTRAL; f++) {
        const sp_chat_family family = (sp_chat_family)f;
        c->texts.prompts.chat = family;
        const char *const turns[] = {"Hi", "Hello!", "Who?"};
        sp_prompt *p = talk(c, turns, 3);
        sp_tokens ids = {0};
        sp_bytes said = {0}, want = {0};
        for (size_t i = 0; i < p->segs.n; i++)
            for (int32_t t = 0; t < p->segs.v[i].n; t++) {
                assert_ok(sp_vec_reserve(&ids, 1));
                ids.v[ids.n++] = p->segs.v[i].tokens[t];
            }
        assert_ok(sp_tokenizer_decode(c->texts.prompts.tokenizer, ids.v, ids.n, true, &said));
        const sp_role roles[] = {SP_ROLE_SYSTEM, SP_ROLE_USER, SP_ROLE_ASSISTANT, SP_ROLE_USER};
        const char *const words[] = {"Be brief.", "Hi", "Hello!", "Who?"};
        for (int i = 0; i < 4; i++)
            assert_ok(sp_bytes_addf(&want, "%s%s%s", sp_chat_before(family, roles[i], i == 0, i == 1),
                                    words[i], sp_chat_after(family, roles[i])));
        assert_ok(sp_bytes_addf(&want, "%s", sp_chat_open(family)));
        assert_true(said.n >= want.n && said.n <= want.n + 5); /* BOS */
        assert_memory_equal(said.v + said.n - want.n, want.v, want.n);
        sp_vec_fini(&ids);
        sp_vec_fini(&said);
        sp_vec_fini(&want);
        sp_prompt_destroy(p);
    }
    close_clean(c);
}

/* The second turn of a chat reuses the first one and its answer. */
static void a_chat_is_reused(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    const char *turns[] = {"When do boats leave?", NULL, "And on Sunday?"};
    sp_request *r = run(c, submit_prompt(c, talk(c, turns, 1), 40));
    char answer[512];
    snprintf(answer, sizeof answer, "%s", sp_request_result(r)->text);
    int n_first = sp_request_result(r)->n_prompt;
    sp_request_destroy(r);
    turns[1] = answer;
    r = run(c, submit_prompt(c, talk(c, turns, 3), 1));
    assert_true(sp_request_result(r)->n_reused >= n_first);
    sp_request_destroy(r);
    close_clean(c);
}

/* Documents and texts may follow each other inside a turn; a chunk keeps the id that it has elsewhere. */
static void chunks_may_follow_each_other_in_a_turn(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *a = prompt_of(c, "0", NULL), *b = new_prompt(c);
    assert_ok(sp_prompt_message(b, SP_ROLE_USER, "Hi"));
    assert_ok(sp_prompt_message(b, SP_ROLE_ASSISTANT, "Hello!"));
    assert_ok(sp_prompt_begin(b, SP_ROLE_USER));
    assert_ok(sp_prompt_text(b, "Read this: ", false));
    assert_ok(sp_prompt_chunk(b, "T", texts[0]));
    assert_ok(sp_prompt_text(b, "When?", false));
    assert_ok(sp_prompt_answer(b));
    const sp_segment *chunk = &b->segs.v[b->segs.n - 2];
    assert_int_equal(chunk->kind, SP_SEG_CHUNK);
    assert_true(sp_digest_eq(&chunk->id, &a->segs.v[1].id));
    sp_prompt_destroy(a);
    sp_prompt_destroy(b);
    close_clean(c);
}

static void a_wrong_order_is_refused(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *p = new_prompt(c);
    if (sp_prompt_end(p) != SP_E_ARG) fail_msg("%s: end", bad);
    assert_ok(sp_prompt_message(p, SP_ROLE_USER, "Hi"));
    if (sp_prompt_message(p, SP_ROLE_SYSTEM, "late") != SP_E_ARG) fail_msg("%s: system", bad);
    assert_ok(sp_prompt_begin(p, SP_ROLE_ASSISTANT));
    if (sp_prompt_begin(p, SP_ROLE_USER) != SP_E_ARG) fail_msg("%s: begin", bad);
    if (sp_prompt_begin(p, (sp_role)9) != SP_E_ARG) fail_msg("%s: role", bad);
    assert_ok(sp_prompt_end(p));
    assert_ok(sp_prompt_answer(p));
    if (sp_prompt_text(p, "more", false) != SP_E_ARG) fail_msg("%s: text", bad);
    if (sp_prompt_chunk(p, NULL, "more") != SP_E_ARG) fail_msg("%s: chunk", bad);
    if (sp_prompt_message(p, SP_ROLE_USER, NULL) != SP_E_ARG) fail_msg("%s: NULL", bad);
    sp_prompt_destroy(p);
    close_clean(c);
}

static const char *const chatml =
    "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{%- if tools %}<|im_start|>tools\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}{% endif %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/* The model's own template makes the same segments as the turns of its family. */
static void templates_make_the_same_segments(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    c->texts.prompts.chat = SP_CHAT_CHATML;
    const char *const turns[] = {"When do boats leave?", "At nine.", "And on Sunday?"};
    sp_prompt *by_turns = talk(c, turns, 3), *by_template = new_prompt(c);
    assert_ok(sp_prompt_chat(by_template,
                             &(sp_chat_opts){.jinja = chatml,
                                             .request = "{\"messages\":["
                                                        "{\"role\":\"system\",\"content\":\"Be brief.\"},"
                                                        "{\"role\":\"user\",\"content\":\"When do boats leave?\"},"
                                                        "{\"role\":\"assistant\",\"content\":\"At nine.\"},"
                                                        "{\"role\":\"user\",\"content\":\"And on Sunday?\"}]}"}));
    assert_int_equal(by_template->segs.n, by_turns->segs.n);
    assert_true(same_segments(by_template, by_turns, by_turns->segs.n));
    for (size_t i = 0; i < by_turns->segs.n; i++)
        assert_int_equal(by_template->segs.v[i].kind, by_turns->segs.v[i].kind);
    sp_prompt_destroy(by_turns);
    sp_prompt_destroy(by_template);
    close_clean(c);
}

static void documents_are_segments_of_a_template(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    c->texts.prompts.chat = SP_CHAT_CHATML;
    sp_prompt *by_turns = new_prompt(c), *by_template = new_prompt(c), *bad_prompt = new_prompt(c);
    assert_ok(sp_prompt_system(by_turns, "Be brief."));
    assert_ok(sp_prompt_chunk(by_turns, "A", texts[0]));
    assert_ok(sp_prompt_chunk(by_turns, NULL, texts[1]));
    assert_ok(sp_prompt_question(by_turns, "When?"));
    sp_chat_chunk chunks[] = {{.title = "A", .text = texts[0]}, {.text = texts[1]}};
    sp_chat_opts o = {.jinja = chatml,
                      .chunks = chunks,
                      .n_chunks = 2,
                      .chunks_at = 1,
                      .request = "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
                                 "{\"role\":\"user\",\"content\":\"Question: When?\"}]}"};
    assert_ok(sp_prompt_chat(by_template, &o));
    assert_int_equal(by_template->segs.n, 4);
    assert_true(same_segments(by_template, by_turns, 4));
    assert_int_equal(chunks[0].segment, 1);
    assert_int_equal(chunks[1].segment, 2);
    o.chunks_at = 7;
    assert_fails(sp_prompt_chat(bad_prompt, &o), SP_E_ARG, "messages[7]");
    sp_prompt_destroy(by_turns);
    sp_prompt_destroy(by_template);
    sp_prompt_destroy(bad_prompt);
    close_clean(c);
}

static sp_prompt *chat_of(sp_context *c, const char *jinja, const char *request)
{
    sp_prompt *p = new_prompt(c);
    assert_ok(sp_prompt_chat(p, &(sp_chat_opts){.jinja = jinja, .request = request}));
    return p;
}

/* begun -- a chat whose last message, of the assistant, has this text. */
static sp_prompt *begun(sp_context *c, const char *jinja, const char *text)
{
    char request[256];
    snprintf(request, sizeof request,
             "{\"continue_final_message\":true,\"messages\":[{\"role\":\"user\",\"content\":\"<think>Who?\"},"
             "{\"role\":\"assistant\",\"content\":\"%s\"}]}",
             text);
    return chat_of(c, jinja, request);
}

/* What is there of an answer is a segment of its own, by turns, too; an empty one begins the turn. */
static void an_answer_that_has_begun_ends_the_prompt(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    c->texts.prompts.chat = SP_CHAT_CHATML;
    sp_prompt *by_turns = new_prompt(c), *by_template = begun(c, chatml, "Anna Berg");
    sp_prompt *empty = begun(c, chatml, "");
    sp_prompt *open = chat_of(c, chatml, "{\"messages\":[{\"role\":\"user\",\"content\":\"<think>Who?\"}]}");
    assert_ok(sp_prompt_message(by_turns, SP_ROLE_USER, "<think>Who?"));
    assert_ok(sp_prompt_continue(by_turns, "Anna Berg"));
    assert_int_equal(by_template->segs.n, 2);
    assert_int_equal(by_turns->segs.n, 2);
    assert_true(same_segments(by_template, by_turns, 2));
    assert_true(same_segments(by_template, open, 1));
    assert_int_equal(by_template->segs.v[1].kind, SP_SEG_TEXT);
    assert_int_equal(empty->segs.n, 1);
    assert_true(same_segments(empty, open, 1));
    assert_fails(sp_prompt_text(by_turns, "more", false), SP_E_ARG, "last");
    sp_prompt_destroy(by_turns);
    sp_prompt_destroy(by_template);
    sp_prompt_destroy(empty);
    sp_prompt_destroy(open);
    close_clean(c);
}

/* Policies look for a question in the last segment. */
static void after_documents_a_begun_answer_is_part_of_the_question(void **state)
{
    static const char request[] = "{\"continue_final_message\":true,\"messages\":[{\"role\":\"user\",\"content\":"
                                  "\"Who?\"},{\"role\":\"assistant\",\"content\":\"Anna\"}]}";
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *p = new_prompt(c), *turns = new_prompt(c);
    sp_chat_chunk chunk = {.text = texts[0]};
    c->texts.prompts.chat = SP_CHAT_CHATML;
    sp_chat_opts o = {.jinja = chatml, .request = request, .chunks = &chunk, .n_chunks = 1};
    assert_ok(sp_prompt_chat(p, &o));
    assert_ok(sp_prompt_begin(turns, SP_ROLE_USER));
    assert_ok(sp_prompt_chunk(turns, NULL, texts[0]));
    assert_ok(sp_prompt_text(turns, "Who?", false));
    assert_ok(sp_prompt_continue(turns, "Anna"));
    assert_int_equal(p->segs.n, 3);
    assert_int_equal(p->segs.v[2].kind, SP_SEG_QUESTION);
    assert_int_equal(turns->segs.n, 3);
    assert_true(same_segments(p, turns, 3));
    sp_prompt_destroy(p);
    sp_prompt_destroy(turns);
    close_clean(c);
}

static void thoughts_that_have_begun_are_continued(void **state)
{
    static const char writes[] = "{% for m in messages %}{{ m.role }}{% if m.role == 'assistant' %}<think>{% endif %}"
                                 "{{ m.content }}<end>{% endfor %}";
    static const struct {
        const char *jinja, *text;
        bool thinks;
    } cases[] = {{chatml, "Anna", false},          {chatml, "", false},
                 {chatml, "<think>I ask", true},   {chatml, "<think>I ask</think>Anna", false},
                 {chatml, "a</think>b<think>", true}, {chatml, "[THINK]a", true},
                 {writes, "I ask", true},          {writes, "", true},
                 {writes, "I ask</think>", false}};
    sp_context *c = open_with((sp_context_opts){0});
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_prompt *p = begun(c, cases[i].jinja, cases[i].text);
        if (sp_prompt_thinks(p) != cases[i].thinks) fail_msg("case %zu", i);
        sp_prompt_destroy(p);
    }
    close_clean(c);
}

static void white_space_after_a_tag_does_not_end_thoughts(void **state)
{
    static const char *const ends[] = {"", "\n", " ", " \n\n ", "x"};
    sp_context *c = open_with((sp_context_opts){0});
    for (size_t i = 0; i < SP_COUNT(ends); i++) {
        char text[32];
        sp_prompt *p = new_prompt(c);
        snprintf(text, sizeof text, "So: <think>%s", ends[i]);
        assert_ok(sp_prompt_text(p, text, true));
        assert_int_equal(sp_prompt_thinks(p), i < 4);
        sp_prompt_destroy(p);
    }
    close_clean(c);
}

/* An answer that was cut is found, and what follows it begins where it ends. */
static void an_answer_that_was_cut_is_continued_from_the_cache(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    const char *turns[] = {"When do boats leave?"};
    sp_request *r = run(c, submit_prompt(c, talk(c, turns, 1), 40));
    sp_prompt *p = new_prompt(c);
    const int n_first = sp_request_result(r)->n_prompt;
    assert_ok(sp_prompt_message(p, SP_ROLE_SYSTEM, "Be brief."));
    assert_ok(sp_prompt_message(p, SP_ROLE_USER, turns[0]));
    assert_ok(sp_prompt_continue(p, sp_request_result(r)->text));
    assert_int_equal(p->segs.v[p->segs.n - 1].kind, SP_SEG_TEXT);
    sp_request_destroy(r);
    r = run(c, submit_prompt(c, p, 1));
    assert_true(sp_request_result(r)->n_reused >= n_first);
    sp_request_destroy(r);
    close_clean(c);
}

/* An answer begins without the blank that such a vocabulary puts before each word; one that has begun does not. */
static void an_answer_that_is_continued_keeps_its_first_blank(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    ((sp_tokenizer *)c->model->tokenizer)->words.add_space_prefix = true;
    int32_t *ids;
    size_t n;
    assert_ok(sp_vocab_encode(sp_context_vocab(c), " nine", 5, false, &ids, &n));
    const sp_logit_bias bias = {ids[0], 1e9f};
    for (int continues = 0; continues < 2; continues++) {
        sp_prompt *p = new_prompt(c);
        sp_request_opts o = sampled(1);
        sp_request *r;
        o.sampling.bias = &bias;
        o.sampling.n_bias = 1;
        assert_ok(sp_prompt_begin(p, SP_ROLE_USER));
        assert_ok(sp_prompt_chunk(p, NULL, texts[0]));
        assert_ok(continues ? sp_prompt_continue(p, "Boats leave at") : sp_prompt_answer(p));
        assert_ok(sp_request_submit(c, p, &o, &r));
        run(c, r);
        assert_int_equal(sp_request_result(r)->text[0] == ' ', continues);
        sp_request_destroy(r);
        sp_prompt_destroy(p);
    }
    sp_buffer_free(ids);
    close_clean(c);
}

/* Tools and special texts from the request: one segment with the template, and plain text. */
static void tools_are_data(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *one = new_prompt(c), *two = new_prompt(c);
    const char *request = "{\"messages\":[{\"role\":\"user\",\"content\":\"x<|im_end|>\"}],"
                          "\"tools\":[{\"name\":\"<|im_end|>\"},{\"name\":\"b\"}]}";
    assert_ok(sp_prompt_chat(one, &(sp_chat_opts){.jinja = chatml, .request = request}));
    assert_in_range(one->segs.n, 1, 2);
    int32_t end = sp_tokenizer_find(c->model->tokenizer, "<|im_end|>");
    int n_ends = 0;
    for (size_t i = 0; i < one->segs.n; i++)
        for (int t = 0; t < one->segs.v[i].n; t++) n_ends += end >= 0 && one->segs.v[i].tokens[t] == end;
    assert_int_equal(n_ends, end >= 0 ? 1 : 0);
    assert_fails(sp_prompt_chat(one, &(sp_chat_opts){.jinja = chatml, .request = request}), SP_E_ARG, "begun");
    assert_fails(sp_prompt_chat(two, &(sp_chat_opts){.jinja = "{{ raise_exception('no') }}", .request = request}),
                 SP_E_ARG, "no");
    sp_prompt_destroy(one);
    sp_prompt_destroy(two);
    close_clean(c);
}

/* without_bos -- a context whose prompts begin with nothing, as with most models of today. */
static sp_context *without_bos(void)
{
    sp_context *c = NULL;
    assert_ok(sp_context_open(&(sp_context_opts){.model = "demo/model.gguf",
                                                 .machine.n_threads = 1,
                                                 .cache.kv_bytes = 4 << 20},
                              &c));
    assert_false(sp_tokenizer_adds_bos(c->texts.prompts.tokenizer));
    return c;
}

/* Any role may have no text, first or later, whatever the template puts around it. */
static void texts_may_be_empty_in_every_role(void **state)
{
    sp_context *c = without_bos();
    for (int f = SP_CHAT_NONE; f <= SP_CHAT_MISTRAL; f++)
        for (int first = SP_ROLE_SYSTEM; first <= SP_ROLE_TOOL; first++)
            for (int second = SP_ROLE_USER; second <= SP_ROLE_TOOL; second++) {
                c->texts.prompts.chat = (sp_chat_family)f;
                sp_prompt *p = new_prompt(c);
                assert_ok(sp_prompt_message(p, (sp_role)first, ""));
                assert_ok(sp_prompt_message(p, (sp_role)second, ""));
                assert_ok(sp_prompt_message(p, SP_ROLE_USER, "Hi"));
                assert_ok(sp_prompt_answer(p));
                sp_request_destroy(run(c, submit_prompt(c, p, 1)));
            }
    close_clean(c);
}

static void a_prompt_of_nothing_is_refused(void **state)
{
    sp_context *c = without_bos();
    c->texts.prompts.chat = SP_CHAT_NONE;
    sp_prompt *p = new_prompt(c);
    sp_request *r = NULL;
    assert_ok(sp_prompt_text(p, "", false));
    assert_fails(sp_request_submit(c, p, &(sp_request_opts){.max_tokens = 1}, &r), SP_E_ARG, "empty");
    sp_prompt_destroy(p);
    close_clean(c);
}

static const char *const plain =
    "{%- for m in messages -%}{{ m.content }}\n{% endfor %}";

/* A template that writes nothing before the first message. */
static void templates_may_begin_with_an_empty_message(void **state)
{
    sp_context *c = without_bos();
    sp_prompt *p = new_prompt(c);
    assert_ok(sp_prompt_chat(p, &(sp_chat_opts){.jinja = plain,
                                                .request = "{\"messages\":[{\"role\":\"user\",\"content\":\"\"},"
                                                           "{\"role\":\"system\",\"content\":\"\"}]}"}));
    assert_true(p->segs.n > 0);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* Empty words between a chunk and the template's text leave the chunk its tokens. */
static void empty_text_after_a_chunk_leaves_it_alone(void **state)
{
    sp_context *c = without_bos();
    sp_prompt *want = prompt_of(c, "0", NULL), *p = new_prompt(c);
    assert_ok(sp_prompt_begin(p, SP_ROLE_USER));
    assert_ok(sp_prompt_chunk(p, "T", texts[0]));
    assert_ok(sp_prompt_text(p, "", false));
    assert_ok(sp_prompt_answer(p));
    size_t at = 0;
    while (at < p->segs.n && p->segs.v[at].kind != SP_SEG_CHUNK) at++;
    assert_true(at < p->segs.n);
    assert_true(sp_digest_eq(&p->segs.v[at].id, &want->segs.v[1].id));
    sp_prompt_destroy(want);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* As the models' own descriptions say: what comes before the gap, what comes after it, and the gap. */
static void each_family_has_its_marks_of_a_gap(void **state)
{
    static const char *const marks[][3] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
        {"<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>"},
    };
    sp_context *c = open_with((sp_context_opts){0});
    for (size_t i = 0; i < SP_COUNT(marks); i++) {
        int32_t id[3];
        tiny_vocab *v = malloc(sizeof *v);
        tv_begin(v, false);
        tv_bytes(v);
        for (int k = 0; k < 3; k++) id[k] = tv_add(v, marks[i][k], SP_TOKEN_CONTROL, 0);
        sp_tokenizer *t = tv_create(v);
        sp_prompt *p = new_prompt(c);
        sp_prompt_space space = *p->space;
        space.tokenizer = t;
        p->space = &space;
        assert_ok(sp_prompt_fill(p, "ab", "c"));
        const int32_t want[] = {id[0], 'a', 'b', id[1], 'c', id[2]};
        assert_int_equal(p->n_tokens, SP_COUNT(want));
        assert_memory_equal(p->segs.v[0].tokens, want, sizeof want);
        sp_prompt_destroy(p);
        sp_tokenizer_destroy(t);
        free(v);
    }
    close_clean(c);
}

static void a_prompt_has_as_many_segments_as_a_plan_has_spans(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *p = new_prompt(c);
    for (int32_t i = 0; i < SP_PROMPT_MAX_SEGMENTS; i++) assert_ok(sp_prompt_tokens(p, &(int32_t){i % 100}, 1));
    assert_fails(sp_prompt_tokens(p, &(int32_t){1}, 1), SP_E_LIMIT, "65500 segments");
    sp_prompt_destroy(p);
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_make_the_same_segments),
        cmocka_unit_test(documents_are_segments_of_a_template),
        cmocka_unit_test(an_answer_that_has_begun_ends_the_prompt),
        cmocka_unit_test(after_documents_a_begun_answer_is_part_of_the_question),
        cmocka_unit_test(thoughts_that_have_begun_are_continued),
        cmocka_unit_test(white_space_after_a_tag_does_not_end_thoughts),
        cmocka_unit_test(each_family_has_its_marks_of_a_gap),
        cmocka_unit_test(a_prompt_has_as_many_segments_as_a_plan_has_spans),
        cmocka_unit_test(an_answer_that_was_cut_is_continued_from_the_cache),
        cmocka_unit_test(an_answer_that_is_continued_keeps_its_first_blank),
        cmocka_unit_test(tools_are_data),
        cmocka_unit_test(the_description_of_a_model_is_a_text),
        cmocka_unit_test(pieces_are_the_text),
        cmocka_unit_test(turns_extend_what_was_there),
        cmocka_unit_test(the_template_is_spelled),
        cmocka_unit_test(a_chat_is_reused),
        cmocka_unit_test(chunks_may_follow_each_other_in_a_turn),
        cmocka_unit_test(a_wrong_order_is_refused),
        cmocka_unit_test(texts_may_be_empty_in_every_role),
        cmocka_unit_test(a_prompt_of_nothing_is_refused),
        cmocka_unit_test(templates_may_begin_with_an_empty_message),
        cmocka_unit_test(empty_text_after_a_chunk_leaves_it_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
