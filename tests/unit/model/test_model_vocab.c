/* test_model_vocab.c -- the tokenizer of a GGUF file: lists, ids, flags, and what is refused by
 * name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "gguf_writer.h"
#include "model/tokenizer/gguf_vocab.h"
#include "model/model.h"
#include "tiny_model.h"

#define KEY "tokenizer.ggml."

/* A vocabulary: a key to omit, and additional entries. */
typedef struct vocab {
    const char *model, *pre, *drop;
    void (*more)(gguf_writer *w);
} vocab;

static const char *const spm_tokens[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81",
                                         "a",     "b",   "ab",   "<end>"};
static const float spm_scores[] = {0, 0, 0, -1, -2, -3, -0.5f, 0};
static const int32_t spm_types[] = {2, 3, 3, 1, 1, 1, 1, 3};
static const char *const bpe_tokens[] = {"a", "b", "ab", "c", "<x>", "<y>", "<z>", "d"};
static const char *const bpe_merges[] = {"a b"};
static const int32_t bpe_types[] = {1, 1, 1, 1, 3, 3, 4, 1};
enum { N = 8 };

static bool wants(const vocab *v, const char *key)
{
    return !v->drop || strcmp(v->drop, key) != 0;
}

static void write_vocab(gguf_writer *w, const vocab *v)
{
    bool spm = v->model && strcmp(v->model, "llama") == 0;
    if (v->model) gw_text(w, KEY "model", v->model);
    if (v->pre) gw_text(w, KEY "pre", v->pre);
    if (wants(v, KEY "tokens")) gw_texts(w, KEY "tokens", N, spm ? spm_tokens : bpe_tokens);
    if (wants(v, KEY "token_type")) gw_i32s(w, KEY "token_type", N, spm ? spm_types : bpe_types);
    if (spm && wants(v, KEY "scores")) gw_f32s(w, KEY "scores", N, spm_scores);
    if (!spm && wants(v, KEY "merges")) gw_texts(w, KEY "merges", 1, bpe_merges);
    if (v->more) v->more(w);
}

static sp_err read_vocab(const vocab *v, sp_tokenizer **t)
{
    gguf_writer w;
    sp_bytes file = {0};
    sp_gguf g;
    gw_begin(&w, 3);
    write_vocab(&w, v);
    gw_file(&w, &file);
    assert_int_equal(sp_gguf_parse((const uint8_t *)file.v, file.n, TINY_NAME, &g), SP_OK);
    sp_err err = sp_gguf_tokenizer(&g, t);
    sp_gguf_close(&g);
    sp_vec_fini(&file);
    gw_end(&w);
    return err;
}

static sp_tokenizer *good_vocab(const vocab *v)
{
    sp_tokenizer *t;
    if (read_vocab(v, &t) != SP_OK) fail_msg("%s", sp_error_detail());
    return t;
}

static void refuse(const vocab *v, sp_err code, const char *text)
{
    sp_tokenizer *t = NULL;
    sp_err err = read_vocab(v, &t);
    if (err != code)
        fail_msg("%d, not %d: \"%s\" was expected (%s)", err, code, text, sp_error_detail());
    assert_detail(TINY_NAME ": ");
    assert_detail(text);
    assert_null(t);
}

#define ENTRY(name, statement)                                                                     \
    static void name(gguf_writer *w)                                                               \
    {                                                                                              \
        statement;                                                                                 \
    }

/* -- what is handed over -------------------------------------------------------------------- */

ENTRY(own_ids, {
    gw_u32(w, KEY "bos_token_id", 4);
    gw_u32(w, KEY "eos_token_id", 5);
    gw_u32(w, KEY "eot_token_id", 6);
    gw_bool(w, KEY "add_bos_token", true);
})
ENTRY(bos_alone, gw_u32(w, KEY "bos_token_id", 4))
ENTRY(no_ids, {
    gw_number(w, KEY "bos_token_id", SP_GGUF_I32, (uint32_t)-1, 4);
    gw_u32(w, KEY "eos_token_id", UINT32_MAX);
    gw_bool(w, KEY "add_bos_token", false);
})

static void sentencepiece_has_defaults(void **state)
{
    sp_tokenizer *t = good_vocab(&(vocab){.model = "llama"});
    assert_int_equal(sp_tokenizer_size(t), N);
    assert_int_equal(sp_tokenizer_bos(t), 1);
    assert_int_equal(sp_tokenizer_eos(t), 2);
    assert_true(sp_tokenizer_adds_bos(t));
    assert_int_equal(sp_tokenizer_find(t, "ab"), 6);
    assert_string_equal(sp_tokenizer_kind(t), "spm");
    sp_tokenizer_destroy(t);
    t = good_vocab(&(vocab){.model = "llama", .drop = KEY "token_type"});
    assert_int_equal(sp_tokenizer_size(t), N);
    sp_tokenizer_destroy(t);
    t = good_vocab(&(vocab){.model = "llama", .more = no_ids});
    assert_int_equal(sp_tokenizer_bos(t), -1);
    assert_int_equal(sp_tokenizer_eos(t), -1);
    assert_false(sp_tokenizer_adds_bos(t));
    sp_tokenizer_destroy(t);
}

ENTRY(t5_scores, gw_f32s(w, KEY "scores", N, spm_scores))
ENTRY(undefined_types, gw_i32s(w, KEY "token_type", N, (const int32_t[]){0, 1, 0, 1, 3, 3, 4, 1}))
ENTRY(end_of_message, gw_u32(w, KEY "eom_token_id", 5))

ENTRY(whole_word, gw_texts(w, KEY "tokens", N, (const char *const[]){"a", "b", "ab", "c", "<x>", "<y>", "<z>", "ca"}))
ENTRY(t5_spaces, {
    gw_f32s(w, KEY "scores", N, spm_scores);
    gw_bool(w, KEY "remove_extra_whitespaces", true);
})
/* A control token has the least score, which does not count. */
ENTRY(t5_unknown, {
    gw_texts(w, KEY "tokens", N, (const char *const[]){"<p>", "</s>", "<u>", "xa", "b", "ab", "q", "r"});
    gw_i32s(w, KEY "token_type", N, (const int32_t[]){3, 3, 2, 1, 1, 1, 1, 1});
    gw_f32s(w, KEY "scores", N, (const float[]){-1000, 0, 0, -50, -30, -2, -1, -1});
})

/* ids_of -- of a text, and gives the tokenizer back. */
static const char *ids_of(sp_tokenizer *t, const char *text)
{
    static char line[256];
    sp_tokens ids = {0};
    size_t n = 0;
    assert_int_equal(sp_tokenizer_encode(t, text, strlen(text), 0, &ids), SP_OK);
    *line = '\0';
    for (size_t i = 0; i < ids.n; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, "%s%d", i ? " " : "", ids.v[i]);
    sp_vec_fini(&ids);
    sp_tokenizer_destroy(t);
    return line;
}

/* What a file's names and flags decide of its texts. */
static void texts_are_read_as_the_file_says(void **state)
{
    vocab v = {.model = "gpt2", .pre = "llama-bpe", .drop = KEY "tokens", .more = whole_word};
    assert_string_equal(ids_of(good_vocab(&v), "ca"), "7"); /* a word that is a token is not merged */
    v.pre = "gpt-2";
    assert_string_equal(ids_of(good_vocab(&v), "ca"), "3 0");
    v = (vocab){.model = "t5", .more = t5_scores};
    assert_string_equal(ids_of(good_vocab(&v), " a  b "), "2 0 2 1 2"); /* a space is unknown here */
    v.more = t5_spaces;
    assert_string_equal(ids_of(good_vocab(&v), " a  b "), "0 2 1");
}

static void an_unknown_character_is_worse_than_any_token(void **state)
{
    gguf_writer w;
    sp_bytes file = {0};
    sp_gguf g;
    sp_tokenizer *t = NULL;
    gw_begin(&w, 3);
    gw_text(&w, KEY "model", "t5");
    t5_unknown(&w);
    gw_file(&w, &file);
    assert_int_equal(sp_gguf_parse((const uint8_t *)file.v, file.n, TINY_NAME, &g), SP_OK);
    assert_int_equal(sp_gguf_tokenizer(&g, &t), SP_OK);
    assert_string_equal(ids_of(t, "xab"), "2 5"); /* -60 - 2 over -50 - 30 */
    sp_gguf_close(&g);
    sp_vec_fini(&file);
    gw_end(&w);
}

/* bert -- the tokenizer of a file with n tokens, of which the last ones are words. */
static sp_tokenizer *bert(size_t n)
{
    static const char *texts[104];
    static char names[104][8];
    gguf_writer w;
    sp_bytes file = {0};
    sp_gguf g;
    sp_tokenizer *t = NULL;
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "[%zu]", i);
        texts[i] = names[i];
    }
    texts[1] = "\xE2\x96\x81" "cafe";
    gw_begin(&w, 3);
    gw_text(&w, KEY "model", "bert");
    gw_texts(&w, KEY "tokens", n, texts);
    gw_file(&w, &file);
    assert_int_equal(sp_gguf_parse((const uint8_t *)file.v, file.n, TINY_NAME, &g), SP_OK);
    if (sp_gguf_tokenizer(&g, &t) != SP_OK) assert_detail("unknown_token_id: is missing");
    sp_gguf_close(&g);
    sp_vec_fini(&file);
    gw_end(&w);
    return t;
}

/* The ids that BERT's vocabularies share, where there are as many tokens. */
static void files_of_bert_have_its_ids(void **state)
{
    assert_null(bert(100));
    for (size_t n = 101; n < 104; n++) {
        sp_tokenizer *t = bert(n);
        assert_non_null(t);
        assert_int_equal(sp_tokenizer_bos(t), n > 101 ? 101 : -1);
        assert_int_equal(sp_tokenizer_eos(t), n > 102 ? 102 : -1);
        assert_int_equal(sp_tokenizer_adds_bos(t), n > 101);
        assert_int_equal(sp_tokenizer_adds_eos(t), n > 102);
        assert_string_equal(sp_tokenizer_kind(t), "wordpiece");
        assert_string_equal(ids_of(t, "Café x"), "1 100");
    }
}

/* The ids of T5's files; types that are not defined; a token that ends a message. */
static void some_files_have_other_ends(void **state)
{
    sp_tokenizer *t = good_vocab(&(vocab){.model = "t5", .more = t5_scores});
    assert_true(sp_tokenizer_bos(t) == -1 && sp_tokenizer_eos(t) == 1 && !sp_tokenizer_adds_bos(t));
    sp_tokens ids = {0};
    assert_int_equal(sp_tokenizer_encode(t, "ac", 2, 0, &ids), SP_OK);
    assert_true(ids.n == 2 && ids.v[0] == 0 && ids.v[1] == 3); /* no space before them */
    sp_vec_fini(&ids);
    sp_tokenizer_destroy(t);
    sp_tokenizer_destroy(good_vocab(&(vocab){.model = "gpt2", .drop = KEY "token_type", .more = undefined_types}));
    t = good_vocab(&(vocab){.model = "gpt2", .more = end_of_message});
    assert_true(sp_tokenizer_is_end(t, 5) && !sp_tokenizer_is_end(t, 4));
    sp_tokenizer_destroy(t);
}

static void byte_level_names_its_pre_tokenizer(void **state)
{
    static const struct {
        const char *pre, *kind;
        bool adds_bos;
    } cases[] = {
        {"gpt-2", "bpe/gpt-2", false},      {"phi-2", "bpe/gpt-2", false},
        {NULL, "bpe/gpt-2", false},         {"default", "bpe/gpt-2", false},
        {"llama-bpe", "bpe/llama-3", true}, {"llama3", "bpe/llama-3", true},
        {"llama-v3", "bpe/llama-3", true},  {"falcon3", "bpe/llama-3", true},
        {"qwen2", "bpe/qwen2", false},      {"deepseek-r1-qwen", "bpe/qwen2", false},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        vocab v = {.model = "gpt2", .pre = cases[i].pre, .more = bos_alone};
        sp_tokenizer *t = good_vocab(&v);
        assert_string_equal(sp_tokenizer_kind(t), cases[i].kind);
        assert_int_equal(sp_tokenizer_adds_bos(t), cases[i].adds_bos);
        assert_int_equal(sp_tokenizer_bos(t), 4);
        assert_int_equal(sp_tokenizer_eos(t), -1);
        sp_tokenizer_destroy(t);
    }
    sp_tokenizer *t = good_vocab(&(vocab){.model = "gpt2", .pre = "qwen2", .more = own_ids});
    assert_int_equal(sp_tokenizer_bos(t), 4);
    assert_true(sp_tokenizer_adds_bos(t));
    assert_true(sp_tokenizer_is_end(t, 5) && sp_tokenizer_is_end(t, 6) &&
                !sp_tokenizer_is_end(t, 4));
    sp_tokenizer_destroy(t);
}

ENTRY(end_as_unknown, gw_u32(w, KEY "unknown_token_id", 4))

/* As the `tokenizers` library does: a text never becomes a control token. */
static void byte_level_drops_bytes_without_a_token(void **state)
{
    sp_tokens ids = {0};
    sp_tokenizer *t = good_vocab(&(vocab){.model = "gpt2", .pre = "gpt-2", .more = end_as_unknown});
    assert_int_equal(sp_tokenizer_encode(t, "axb", 3, 0, &ids), SP_OK);
    assert_int_equal(ids.n, 1);
    assert_int_equal(ids.v[0], 2);
    sp_vec_fini(&ids);
    sp_tokenizer_destroy(t);
}

static void a_file_may_have_none(void **state)
{
    sp_tokenizer *t = (sp_tokenizer *)state;
    assert_int_equal(read_vocab(&(vocab){0}, &t), SP_OK);
    assert_null(t);
    assert_int_equal(read_vocab(&(vocab){.model = "none"}, &t), SP_OK);
    assert_null(t);
}

/* -- what is refused ------------------------------------------------------------------------ */

ENTRY(bos_outside, gw_u32(w, KEY "bos_token_id", N))
ENTRY(bos_text, gw_text(w, KEY "bos_token_id", "<s>"))
ENTRY(bos_list, gw_i32s(w, KEY "bos_token_id", 1, &(int32_t){1}))
ENTRY(bos_half, gw_f32(w, KEY "bos_token_id", 1.5f))
ENTRY(bos_below, gw_number(w, KEY "bos_token_id", SP_GGUF_I32, (uint32_t)-2, 4))
ENTRY(flag_number, gw_u32(w, KEY "add_bos_token", 1))
ENTRY(tokens_numbers, gw_i32s(w, KEY "tokens", N, spm_types))
ENTRY(tokens_text, gw_text(w, KEY "tokens", "abc"))
ENTRY(tokens_empty, gw_texts(w, KEY "tokens", 0, NULL))
ENTRY(types_short, gw_i32s(w, KEY "token_type", N - 1, spm_types))
ENTRY(types_texts, gw_texts(w, KEY "token_type", N, spm_tokens))
ENTRY(types_long, gw_i32s(w, KEY "token_type", N + 1, (const int32_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}))
ENTRY(suffix, {
    gw_f32s(w, KEY "scores", N, spm_scores);
    gw_bool(w, KEY "treat_whitespace_as_suffix", true);
})
ENTRY(scores_nan, gw_f32s(w, KEY "scores", N, (const float[]){0, 0, 0, 0, 0, 0, 0, NAN}))
ENTRY(types_wild, gw_i32s(w, KEY "token_type", N, (const int32_t[]){1, 1, 1, 7, 1, 1, 1, 1}))
ENTRY(scores_short, gw_f32s(w, KEY "scores", 1, spm_scores))
ENTRY(merges_unknown, gw_texts(w, KEY "merges", 1, &(const char *){"a zz"}))

static void vocabularies_are_checked(void **state)
{
    static const struct {
        vocab v;
        sp_err code;
        const char *text;
    } cases[] = {
        {{.model = "rwkv"}, SP_E_UNSUPPORTED, KEY "model: \"rwkv\" is not supported"},
        {{.model = "gpt2", .pre = "unheard-of"},
         SP_E_UNSUPPORTED,
         KEY "pre: \"unheard-of\" is not supported"},
        {{.model = "llama", .drop = KEY "tokens"}, SP_E_FORMAT, KEY "tokens: is missing"},
        {{.model = "llama", .drop = KEY "scores"}, SP_E_FORMAT, KEY "scores: is missing"},
        {{.model = "gpt2", .drop = KEY "merges"}, SP_E_FORMAT, KEY "merges: is missing"},
        {{.model = "llama", .more = bos_outside},
         SP_E_FORMAT,
         KEY "bos_token_id: 8 is not one of the 8"},
        {{.model = "llama", .more = bos_text}, SP_E_FORMAT, KEY "bos_token_id: is not a token id"},
        {{.model = "llama", .more = bos_list}, SP_E_FORMAT, KEY "bos_token_id: is not a token id"},
        {{.model = "llama", .more = bos_half}, SP_E_FORMAT, KEY "bos_token_id: is not a token id"},
        {{.model = "llama", .more = bos_below}, SP_E_FORMAT, KEY "bos_token_id: -2 is not one of"},
        {{.model = "llama", .more = flag_number},
         SP_E_FORMAT,
         KEY "add_bos_token: is not a boolean"},
        {{.model = "gpt2", .drop = KEY "tokens", .more = tokens_numbers},
         SP_E_FORMAT,
         KEY "tokens: is not a list of strings"},
        {{.model = "gpt2", .drop = KEY "tokens", .more = tokens_text},
         SP_E_FORMAT,
         KEY "tokens: is not a list of strings"},
        {{.model = "gpt2", .drop = KEY "tokens", .more = tokens_empty},
         SP_E_FORMAT,
         KEY "tokens: 0"},
        {{.model = "llama", .drop = KEY "token_type", .more = types_short},
         SP_E_FORMAT,
         KEY "token_type: 7 numbers for 8 tokens"},
        {{.model = "llama", .drop = KEY "token_type", .more = types_long},
         SP_E_FORMAT,
         KEY "token_type: 9 numbers for 8 tokens"},
        {{.model = "llama", .drop = KEY "scores", .more = scores_nan}, SP_E_FORMAT, "scores[7] is not a number"},
        {{.model = "t5", .more = suffix}, SP_E_UNSUPPORTED, KEY "treat_whitespace_as_suffix: true is not supported"},
        {{.model = "llama", .drop = KEY "token_type", .more = types_texts},
         SP_E_FORMAT,
         KEY "token_type: is not a list of numbers"},
        {{.model = "llama", .drop = KEY "token_type", .more = types_wild},
         SP_E_FORMAT,
         KEY "token_type: token 3 has the unknown type 7"},
        {{.model = "llama", .drop = KEY "scores", .more = scores_short},
         SP_E_FORMAT,
         KEY "scores: 1 numbers for 8 tokens"},
        {{.model = "gpt2", .drop = KEY "merges", .more = merges_unknown}, SP_E_FORMAT, "merges"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) refuse(&cases[i].v, cases[i].code, cases[i].text);
}

/* -- whole files ---------------------------------------------------------------------------- */

static void add_vocab(gguf_writer *w)
{
    write_vocab(w, &(vocab){.model = "llama"});
    gw_text(w, "tokenizer.chat_template", "{{ messages }}");
}

static void models_carry_their_tokenizer(void **state)
{
    sp_bytes file = {0};
    sp_model *m;
    tiny_file(&(tiny_spec){.more = add_vocab}, &file);
    assert_int_equal(tiny_open(&file, &m), SP_OK);
    assert_non_null(m->tokenizer);
    assert_int_equal(m->hp.n_vocab, TINY_V); /* rows of the embedding, not tokens */
    assert_string_equal(m->chat_template, "{{ messages }}");
    sp_model_close(m);
    sp_vec_fini(&file);
}

/* A file without tensors is a vocabulary, whatever its architecture. */
static void vocabularies_open_alone(void **state)
{
    gguf_writer w;
    sp_bytes file = {0};
    sp_model *m;
    gw_begin(&w, 3);
    gw_text(&w, "general.architecture", "falcon");
    gw_file(&w, &file);
    assert_int_equal(tiny_open(&file, &m), SP_E_FORMAT);
    assert_detail("has neither tensors nor a tokenizer");
    add_vocab(&w);
    gw_file(&w, &file);
    assert_int_equal(tiny_open(&file, &m), SP_OK);
    assert_string_equal(m->hp.arch, "falcon");
    assert_true(m->hp.n_layers == 0 && m->hp.n_vocab == N && !m->layers && !m->embed.data);
    sp_model_close(m);
    sp_vec_fini(&file);
    gw_end(&w);
}

static void every_failed_allocation_is_reported(void **state)
{
    sp_bytes file = {0};
    sp_model *m;
    sp_err err = SP_E_NOMEM;
    long n = 0;
    tiny_file(&(tiny_spec){.more = add_vocab}, &file);
    while (err != SP_OK) {
        sp_fault_after(++n);
        err = tiny_open(&file, &m);
        sp_fault_after(-1);
        if (err != SP_OK) assert_int_equal(err, SP_E_NOMEM);
    }
    assert_true(n > 15);
    sp_model_close(m);
    sp_vec_fini(&file);
}

/* The vocabularies of real models, if they are available. */
static void real_vocabularies_open(void **state)
{
    static const struct {
        const char *name, *kind;
        int size;
    } files[] = {{"ggml-vocab-llama-spm.gguf", "spm", 32000},
                 {"ggml-vocab-gpt-2.gguf", "bpe/gpt-2", 50257}};
    const char *data = getenv("SPOLIA_DATA");
    if (!data || !*data) skip();
    for (size_t i = 0; i < SP_COUNT(files); i++) {
        char path[512];
        sp_model *m;
        snprintf(path, sizeof path, "%s/tokenizers/%s", data, files[i].name);
        if (sp_model_open(path, &m) != SP_OK) fail_msg("%s", sp_error_detail());
        assert_int_equal(m->hp.n_layers, 0);
        assert_int_equal(m->hp.n_vocab, files[i].size);
        assert_string_equal(sp_tokenizer_kind(m->tokenizer), files[i].kind);
        sp_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece_has_defaults),
        cmocka_unit_test(some_files_have_other_ends),
        cmocka_unit_test(texts_are_read_as_the_file_says),
        cmocka_unit_test(an_unknown_character_is_worse_than_any_token),
        cmocka_unit_test(files_of_bert_have_its_ids),
        cmocka_unit_test(byte_level_names_its_pre_tokenizer),
        cmocka_unit_test(byte_level_drops_bytes_without_a_token),
        cmocka_unit_test(a_file_may_have_none),
        cmocka_unit_test(vocabularies_are_checked),
        cmocka_unit_test(models_carry_their_tokenizer),
        cmocka_unit_test(vocabularies_open_alone),
        cmocka_unit_test(every_failed_allocation_is_reported),
        cmocka_unit_test(real_vocabularies_open),
    };
    return cmocka_run_group_tests_name("model/vocab", tests, NULL, NULL);
}
