/* One rule for NULL in spolia.h: options that are NULL or zeroed mean all defaults, a required
 * argument that is NULL is SP_E_ARG and named, ending nothing is allowed. */
#include <stdio.h>

#include "spolia_copies.h"
#include "support/requests.h"

/* refuses -- the detail names the function and the argument. */
static void refuses(sp_err err, const char *function, const char *argument)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s: %s is NULL", function, argument);
    assert_string_equal(err == SP_E_ARG ? sp_error_detail() : "it passed", wanted);
}

#define REFUSES(function, arguments, name) refuses(function arguments, #function, name)

static sp_err ignore(int position, const float *logits, int n_vocab, void *user)
{
    return SP_OK;
}

static void null_contexts_are_allowed(void **state)
{
    sp_context *c = NULL;
    const sp_context_opts o = {.model = MODEL};
    refuses(sp_context_open(&o, NULL), "sp_context_open_on", "out");
    assert_fails(sp_context_open(NULL, &c), SP_E_ARG, "model: give a GGUF");
    refuses(sp_context_check(NULL), "sp_context_check", "o");
    assert_null(c);
    sp_context_close(NULL);
    sp_context_forget(NULL);
    sp_context_stop(NULL);
    assert_int_equal(sp_context_describe(NULL).n_ctx, 0);
    assert_null(sp_context_guard(NULL, NULL));
    assert_int_equal(sp_context_guard_read(NULL, NULL, 0), 0);
    assert_null(sp_context_vocab(NULL));
    assert_non_null(sp_reuse_policies(NULL));
    REFUSES(sp_context_start, (NULL), "c");
    REFUSES(sp_context_step, (NULL, NULL), "c");
}

static void null_queries_list_copies(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_copies l = {.n = -7};
    REFUSES(sp_copies_list, (NULL, NULL, NULL, &l), "c");
    REFUSES(sp_copies_list, (c, NULL, NULL, NULL), "out");
    assert_fails(sp_copies_list(c, NULL, &(sp_copies_query){.limit = -1}, &l), SP_E_ARG, "limit: -1 is negative");
    assert_int_equal(l.n, -7);
    assert_ok(sp_copies_list(c, NULL, NULL, &l));
    assert_int_equal(l.n, 0);
    sp_copies_fini(&l);
    sp_context_close(c);
}

static void null_prompts_are_allowed(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *p = NULL;
    REFUSES(sp_prompt_create, (NULL, &p), "c");
    REFUSES(sp_prompt_create, (c, NULL), "out");
    REFUSES(sp_prompt_create_for, (NULL, NULL, &p), "c");
    REFUSES(sp_prompt_create_for, (c, NULL, NULL), "out");
    REFUSES(sp_prompt_tree, (NULL, NULL, 0), "p");
    REFUSES(sp_prompt_graph, (NULL, NULL), "p");
    REFUSES(sp_prompt_system, (NULL, "x"), "p");
    REFUSES(sp_prompt_chunk, (NULL, NULL, "x"), "p");
    REFUSES(sp_prompt_question, (NULL, "x"), "p");
    REFUSES(sp_prompt_message, (NULL, SP_ROLE_USER, "x"), "p");
    REFUSES(sp_prompt_begin, (NULL, SP_ROLE_USER), "p");
    REFUSES(sp_prompt_end, (NULL), "p");
    REFUSES(sp_prompt_answer, (NULL), "p");
    REFUSES(sp_prompt_continue, (NULL, "x"), "p");
    REFUSES(sp_prompt_text, (NULL, "x", false), "p");
    REFUSES(sp_prompt_fill, (NULL, "x", "y"), "p");
    REFUSES(sp_prompt_cut, (NULL, "x", NULL, false), "p");
    REFUSES(sp_prompt_find_chunks, (NULL, SP_FIND_NONE), "p");
    REFUSES(sp_prompt_tokens, (NULL, NULL, 0), "p");
    assert_ok(sp_prompt_create(c, &p));
    REFUSES(sp_prompt_system, (p, NULL), "text");
    REFUSES(sp_prompt_chunk, (p, NULL, NULL), "text");
    REFUSES(sp_prompt_question, (p, NULL), "text");
    REFUSES(sp_prompt_message, (p, SP_ROLE_USER, NULL), "text");
    REFUSES(sp_prompt_text, (p, NULL, false), "text");
    REFUSES(sp_prompt_fill, (p, NULL, "x"), "before");
    REFUSES(sp_prompt_fill, (p, "x", NULL), "after");
    REFUSES(sp_prompt_cut, (p, NULL, NULL, false), "text");
    REFUSES(sp_prompt_chat, (NULL, NULL), "p");
    REFUSES(sp_prompt_chat, (p, NULL), "o");
    REFUSES(sp_prompt_chat, (p, &(sp_chat_opts){0}), "o->request");
    assert_null(sp_vocab_template(NULL));
    REFUSES(sp_prompt_tree, (p, NULL, 1), "nodes");
    REFUSES(sp_prompt_graph, (p, NULL), "t");
    assert_int_equal(sp_prompt_tokens(p, NULL, 1), SP_E_ARG);
    assert_int_equal(sp_prompt_n_tokens(p), 0); /* nothing of it was taken */
    assert_int_equal(sp_prompt_n_tokens(NULL), 0);
    assert_int_equal(sp_prompt_n_segments(NULL), 0);
    sp_prompt_destroy(p);
    sp_prompt_destroy(NULL);
    close_clean(c);
}

/* What zeroed options generate is what the documented defaults generate. */
static void zeroed_options_are_the_defaults(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *p;
    sp_request *zeroed, *named, *none;
    bool fresh;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_message(p, SP_ROLE_USER, "Boats?"));
    assert_ok(sp_prompt_answer(p));
    REFUSES(sp_request_submit, (NULL, p, NULL, &none), "c");
    REFUSES(sp_request_submit, (c, NULL, NULL, &none), "p");
    REFUSES(sp_request_submit, (c, p, NULL, NULL), "out");
    REFUSES(sp_generate, (NULL, p, NULL, &none), "c");
    REFUSES(sp_generate, (c, NULL, NULL, &none), "p");
    REFUSES(sp_generate, (c, p, NULL, NULL), "out");
    REFUSES(sp_chunk_fuse_while, (NULL, p, NULL, NULL, &fresh), "c");
    REFUSES(sp_chunk_fuse_while, (c, NULL, NULL, NULL, &fresh), "p");
    assert_ok(sp_generate(c, p, NULL, &none));
    assert_int_equal(sp_request_result(none)->n_generated, 0);
    assert_ok(sp_generate(c, p, &(sp_request_opts){.max_tokens = 8}, &zeroed));
    assert_ok(sp_generate(
        c, p, &(sp_request_opts){.max_tokens = 8, .sampling = sp_sampling_default()}, &named));
    assert_string_equal(sp_request_result(zeroed)->text, sp_request_result(named)->text);
    assert_true(sp_request_result(zeroed)->n_generated > 0);
    sp_request_destroy(none);
    sp_request_destroy(zeroed);
    sp_request_destroy(named);
    sp_request_destroy(NULL);
    sp_request_cancel(NULL);
    sp_grammar *any;
    REFUSES(sp_grammar_compile, (NULL, NULL), "out");
    assert_int_equal(sp_grammar_compile(&(sp_grammar_opts){.schema = "{"}, &any), SP_E_FORMAT);
    assert_int_equal(sp_grammar_compile(&(sp_grammar_opts){.n_texts = 1}, &any), SP_E_ARG);
    assert_ok(sp_grammar_compile(NULL, &any));
    sp_grammar_destroy(any);
    sp_grammar_destroy(NULL);
    REFUSES(sp_grammar_either, (NULL, NULL, NULL), "one");
    assert_false(sp_request_wait(NULL, 0));
    assert_null(sp_request_result(NULL));
    sp_prompt_destroy(p);
    close_clean(c);
}

/* The prompt's progress grows from step to step up to all that is not reused. */
static void progress_grows_to_what_is_not_reused(void **state)
{
    sp_context *c = open_with((sp_context_opts){.n_batch = 16});
    sp_prompt *p;
    sp_request *r;
    bool busy;
    int done = -1, total = -1, last = 0, n_seen = 0;
    sp_request_progress(NULL, &done, &total);
    assert_int_equal(done + total, 0);
    assert_ok(sp_prompt_create(c, &p));
    for (int i = 0; i < 4; i++) assert_ok(sp_prompt_text(p, texts[i], false));
    assert_ok(sp_request_submit(c, p, &(sp_request_opts){.max_tokens = 1}, &r));
    sp_request_progress(r, &done, &total);
    assert_int_equal(total, 0);
    while (sp_request_result(r)->finish == SP_FINISH_NONE) {
        assert_ok(sp_context_step(c, &busy));
        sp_request_progress(r, &done, &total);
        assert_int_equal(total, sp_prompt_n_tokens(p));
        assert_in_range(done, last + (last < total), total);
        last = done;
        n_seen++;
    }
    assert_true(n_seen > 2);
    assert_int_equal(last, sp_prompt_n_tokens(p)); /* it stays what it was */
    sp_request_progress(r, NULL, NULL);
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    close_clean(c);
}

static void null_vocabularies_are_allowed(void **state)
{
    sp_vocab *v;
    int32_t *ids;
    size_t n;
    char *text;
    REFUSES(sp_vocab_open, (NULL, &v), "path");
    REFUSES(sp_vocab_open, (MODEL, NULL), "out");
    assert_ok(sp_vocab_open(MODEL, &v));
    REFUSES(sp_vocab_encode, (NULL, "x", 1, false, &ids, &n), "v");
    REFUSES(sp_vocab_encode, (v, NULL, 1, false, &ids, &n), "text");
    REFUSES(sp_vocab_encode, (v, "x", 1, false, NULL, &n), "ids");
    REFUSES(sp_vocab_encode, (v, "x", 1, false, &ids, NULL), "n_ids");
    REFUSES(sp_vocab_piece, (NULL, 0, &text, &n), "v");
    REFUSES(sp_vocab_piece, (v, 0, NULL, &n), "text");
    REFUSES(sp_vocab_piece, (v, 0, &text, NULL), "n");
    REFUSES(sp_model_describe, (NULL, &text), "path");
    REFUSES(sp_model_describe, (MODEL, NULL), "json");
    REFUSES(sp_tokens_score, (NULL, NULL, 0, 0, ignore, NULL), "c");
    sp_vocab_close(v);
    sp_vocab_close(NULL);
    sp_buffer_free(NULL);
    sp_log_set(SP_LOG_ERROR, NULL, NULL);
    assert_non_null(sp_error_text(SP_OK));
}

static void null_indices_are_allowed(void **state)
{
    sp_index *ix = NULL;
    sp_hits hits;
    const char *const none[] = {NULL};
    assert_int_equal(sp_index_build(NULL, 1, "/nowhere/x.db", NULL, NULL), SP_E_ARG);
    assert_int_equal(sp_index_build(none, 1, "/nowhere/x.db", NULL, NULL), SP_E_ARG);
    assert_int_equal(sp_index_build(NULL, 0, NULL, NULL, NULL), SP_E_ARG);
    const char *const root[] = {"tests/unit/serve"};
    assert_int_equal(sp_index_build(root, 1, "/nowhere/x.db", NULL, NULL), SP_E_IO);
    REFUSES(sp_index_open, (NULL, &ix), "path");
    REFUSES(sp_index_open, ("x.db", NULL), "out");
    REFUSES(sp_index_search, (NULL, "x", 1, &hits), "ix");
    REFUSES(sp_index_chunk, (NULL, 0, &hits), "ix");
    REFUSES(sp_index_document, (NULL, "x", &hits), "ix");
    REFUSES(sp_index_similar, (NULL, NULL, 1, 1, &hits), "ix");
    REFUSES(sp_index_note_question, (NULL, "a", 1), "ix");
    REFUSES(sp_store_retain, (NULL, NULL, NULL), "c");
    REFUSES(sp_store_estimate, (NULL, NULL, NULL, NULL), "c");
    REFUSES(sp_store_describe, (NULL, NULL), "c");
    REFUSES(sp_store_open, (NULL, SP_STORE_READ, NULL), "dir");
    REFUSES(sp_store_open, ("x", SP_STORE_READ, NULL), "out");
    REFUSES(sp_store_list, (NULL, NULL, NULL), "s");
    REFUSES(sp_store_show, (NULL, NULL, NULL, NULL), "s");
    REFUSES(sp_store_drop, (NULL, NULL, NULL), "s");
    REFUSES(sp_store_stats_of, (NULL, NULL), "s");
    REFUSES(sp_store_verify, (NULL, NULL, NULL, NULL), "s");
    REFUSES(sp_store_trim, (NULL, 1), "s");
    REFUSES(sp_store_export, (NULL, NULL, NULL, NULL), "s");
    REFUSES(sp_store_import, (NULL, NULL, NULL, NULL), "s");
    REFUSES(sp_store_space, (NULL, NULL, NULL), "model");
    sp_store_close(NULL);
    assert_int_equal(sp_index_n_chunks(NULL), 0);
    sp_index_close(NULL);
    sp_hits_fini(NULL);
}

static void null_graphs_are_allowed(void **state)
{
    sp_graph *g = NULL;
    sp_graph_info info;
    sp_graph_answer answer;
    sp_graph_tree tree;
    const char *const none[] = {NULL};
    REFUSES(sp_graph_import, (NULL, 0, NULL, NULL, NULL), "out_path");
    REFUSES(sp_graph_import, (NULL, 1, "/nowhere/x.db", NULL, NULL), "paths");
    REFUSES(sp_graph_import, (none, 1, "/nowhere/x.db", NULL, NULL), "paths[i]");
    assert_int_equal(sp_graph_import(NULL, 0, "/nowhere/x.db", NULL, NULL), SP_E_IO);
    REFUSES(sp_graph_open, (NULL, &g), "o");
    REFUSES(sp_graph_open, (&(sp_graph_open_opts){0}, NULL), "out");
    assert_int_equal(sp_graph_open(&(sp_graph_open_opts){0}, &g), SP_E_ARG);
    REFUSES(sp_graph_describe, (NULL, &info), "g");
    REFUSES(sp_graph_search, (NULL, "x", 1, &answer), "g");
    REFUSES(sp_graph_find_paths, (NULL, "x", NULL, &answer), "g");
    REFUSES(sp_graph_tree_build, (NULL, 1, SP_GRAPH_ARROWS, &tree), "paths");
    REFUSES(sp_graph_tree_build, (NULL, 0, SP_GRAPH_ARROWS, NULL), "out");
    sp_graph_close(NULL);
    sp_graph_info_fini(NULL);
    sp_graph_answer_fini(NULL);
    sp_graph_tree_fini(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_contexts_are_allowed),
        cmocka_unit_test(null_queries_list_copies),
        cmocka_unit_test(null_prompts_are_allowed),
        cmocka_unit_test(zeroed_options_are_the_defaults),
        cmocka_unit_test(progress_grows_to_what_is_not_reused),
        cmocka_unit_test(null_vocabularies_are_allowed),
        cmocka_unit_test(null_indices_are_allowed),
        cmocka_unit_test(null_graphs_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
