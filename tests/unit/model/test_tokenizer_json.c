/* test_tokenizer_json.c -- tokenizer.json: the same ids as the library that wrote the files;
 * unknown steps are refused. */
#include "tiny_vocab.h"
#include "temp_folder.h"

#include <jansson.h>

#include "base/dict.h"
#include "model/json_file.h"
#include "model/tokenizer/tokenizer_json.h"

#define GOLDEN "tests/golden/tokenizer/"

static const char *const kinds[] = {"gpt2",   "llama3",          "qwen2",
                                    "llama2", "metaspace_first", "metaspace_split"};

static json_t *cases;

static int load_cases(void **state)
{
    cases = json_load_file(GOLDEN "cases.json", 0, NULL);
    return cases ? 0 : -1;
}

static int drop_cases(void **state)
{
    json_decref(cases);
    return 0;
}

static sp_tokenizer *open_golden(const char *kind)
{
    char dir[128];
    sp_tokenizer *t = NULL;
    snprintf(dir, sizeof dir, GOLDEN "%s", kind);
    if (sp_tokenizer_from_json(dir, &t) != SP_OK) fail_msg("%s", sp_error_detail());
    return t;
}

/* -- the golden cases ------------------------------------------------------------------------ */

static void expect_ids(const sp_tokenizer *t, const char *kind, const char *what, unsigned flags)
{
    json_t *texts = json_object_get(cases, "texts"), *text;
    json_t *all = json_object_get(json_object_get(json_object_get(cases, "kinds"), kind), what);
    size_t i;
    assert_true(json_array_size(all) == json_array_size(texts) && json_array_size(all) > 50);
    json_array_foreach(texts, i, text)
    {
        sp_tokens ids = {0};
        json_t *want = json_array_get(all, i);
        assert_int_equal(
            sp_tokenizer_encode(t, json_string_value(text), json_string_length(text), flags, &ids),
            SP_OK);
        bool same = ids.n == json_array_size(want);
        for (size_t k = 0; same && k < ids.n; k++)
            same = ids.v[k] == json_integer_value(json_array_get(want, k));
        if (!same)
            fail_msg("%s, %s, text %zu \"%s\": got %s, want %s", kind, what, i,
                     json_string_value(text),
                     tv_ids_n(t, json_string_value(text), json_string_length(text), flags),
                     json_dumps(want, JSON_COMPACT));
        sp_vec_fini(&ids);
    }
}

static void expect_texts(const sp_tokenizer *t, const char *kind)
{
    json_t *of_kind = json_object_get(json_object_get(cases, "kinds"), kind), *want;
    json_t *all_ids = json_object_get(of_kind, "special");
    size_t i;
    json_array_foreach(json_object_get(of_kind, "decoded"), i, want)
    {
        json_t *list = json_array_get(all_ids, i);
        sp_bytes text = {0};
        int32_t ids[256];
        size_t n = json_array_size(list);
        assert_true(n <= SP_COUNT(ids));
        for (size_t k = 0; k < n; k++)
            ids[k] = (int32_t)json_integer_value(json_array_get(list, k));
        assert_int_equal(sp_tokenizer_decode(t, ids, n, false, &text), SP_OK);
        if (text.n != json_string_length(want) ||
            (text.n && memcmp(text.v, json_string_value(want), text.n)))
            fail_msg("%s, decoded text %zu: got \"%.*s\", want \"%s\"", kind, i, (int)text.n,
                     text.v ? text.v : "", json_string_value(want));
        sp_vec_fini(&text);
    }
}

static void golden(void **state)
{
    const char *kind = *state;
    sp_tokenizer *t = open_golden(kind);
    expect_ids(t, kind, "special", SP_TOK_SPECIAL);
    expect_ids(t, kind, "plain", 0);
    expect_texts(t, kind);
    sp_tokenizer_destroy(t);
}

static void ends_and_beginnings(void **state)
{
    static const struct {
        const char *kind, *name, *bos, *eos;
        bool adds_bos;
    } want[] = {
        {"gpt2", "bpe/gpt-2", "<|end|>", "<|end|>", false},
        {"llama3", "bpe/llama-3", "<|start|>", "<|end|>", true},
        {"qwen2", "bpe/qwen2", NULL, "<|end|>", false},
        {"llama2", "spm", "<s>", "</s>", true},
    };
    for (size_t i = 0; i < SP_COUNT(want); i++) {
        sp_tokenizer *t = open_golden(want[i].kind);
        assert_string_equal(sp_tokenizer_kind(t), want[i].name);
        int32_t bos = want[i].bos ? sp_tokenizer_find(t, want[i].bos) : -1;
        int32_t eos = sp_tokenizer_find(t, want[i].eos);
        assert_true(eos >= 0 && (bos >= 0) == (want[i].bos != NULL));
        assert_int_equal(sp_tokenizer_bos(t), bos);
        assert_int_equal(sp_tokenizer_eos(t), eos);
        assert_true(sp_tokenizer_is_end(t, eos));
        assert_false(sp_tokenizer_is_end(t, 0)); /* no file of these names another end */
        assert_int_equal(sp_tokenizer_adds_bos(t), want[i].adds_bos);
        sp_tokenizer_destroy(t);
    }
}

/* -- what is refused ------------------------------------------------------------------------- */

/* Sets the value at a path of keys and indexes, "model.vocab" or "decoder.decoders.0". */
static void edit(json_t *root, const char *path, const char *value)
{
    char key[64];
    json_t *at = root, *v = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(!value || v);
    for (;;) {
        size_t n = strcspn(path, ".");
        memcpy(key, path, n);
        key[n] = '\0';
        if (path[n] == '\0') break;
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
        assert_non_null(at);
        path += n + 1;
    }
    if (json_is_array(at))
        assert_int_equal(json_array_set_new(at, (size_t)atoi(key), v), 0);
    else if (v)
        assert_int_equal(json_object_set_new(at, key, v), 0);
    else
        assert_int_equal(json_object_del(at, key), 0);
}

static json_t *read_golden(const char *kind)
{
    char path[128];
    snprintf(path, sizeof path, GOLDEN "%s/tokenizer.json", kind);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

static void refuse(const char *kind, const char *path, const char *value, sp_err code,
                   const char *named)
{
    json_t *root = read_golden(kind);
    sp_tokenizer *t = NULL;
    edit(root, path, value);
    sp_err err = sp_tokenizer_parse(root, NULL, "some/tokenizer.json", &t);
    if (err != code)
        fail_msg("%s = %s: code %d, %s", path, value, err, err ? sp_error_detail() : "accepted");
    assert_null(t);
    assert_non_null(strstr(sp_error_detail(), "some/tokenizer.json: "));
    if (!strstr(sp_error_detail(), named)) fail_msg("%s = %s: %s", path, value, sp_error_detail());
    json_decref(root);
}

static void unknown_steps_are_refused(void **state)
{
    const sp_err no = SP_E_UNSUPPORTED;
    refuse("gpt2", "model.type", "\"WordLevel\"", no, "model.type: \"WordLevel\"");
    refuse("gpt2", "model.dropout", "0.1", no, "model.dropout");
    refuse("gpt2", "model.continuing_subword_prefix", "\"##\"", no,
           "continuing_subword_prefix: \"##\"");
    refuse("gpt2", "model.end_of_word_suffix", "\"</w>\"", no, "end_of_word_suffix");
    refuse("gpt2", "model.byte_fallback", "true", no, "model.byte_fallback");
    refuse("gpt2", "normalizer", "{\"type\":\"Lowercase\"}", no, "normalizer: \"Lowercase\"");
    refuse("gpt2", "pre_tokenizer", "null", no, "pre_tokenizer");
    refuse("gpt2", "pre_tokenizer", "{\"type\":\"BertPreTokenizer\"}", no,
           "pre_tokenizer: \"BertPre");
    refuse("gpt2", "pre_tokenizer.add_prefix_space", "true", no, "pre_tokenizer.add_prefix_space");
    refuse("gpt2", "pre_tokenizer.use_regex", "false", no, "pre_tokenizer.use_regex");
    refuse("gpt2", "decoder", "{\"type\":\"WordLevel\"}", no, "decoder: \"WordLevel\"");
    refuse("gpt2", "post_processor", "{\"type\":\"BertProcessing\"}", no, "post_processor");
    refuse("gpt2", "added_tokens.0.lstrip", "true", no, "lstrip of \"<|end|>\"");
    refuse("gpt2", "added_tokens.0.single_word", "true", no, "single_word of \"<|end|>\"");
    refuse("gpt2", "model.merges.0", "[\"a b\", \"c\"]", no, "model.merges");
    refuse("llama3", "post_processor.processors.1.single",
           "[{\"SpecialToken\": {\"id\": \"<|start|>\"}}, {\"SpecialToken\": {\"id\": \"<|end|>\"}},"
           " {\"Sequence\": {}}]",
           no, "post_processor.single");
    refuse("llama3", "post_processor.processors.1.single",
           "[{\"Sequence\": {}}, {\"SpecialToken\": {\"id\": \"<|end|>\"}},"
           " {\"SpecialToken\": {\"id\": \"<|start|>\"}}]",
           no, "post_processor.single");
    refuse("llama2", "normalizer.normalizers",
           "[{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xE2\x96\x81\"},"
           " {\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, \"content\": \" \"}]",
           no, "normalizer: \"Replace\"");
    refuse("qwen2", "pre_tokenizer.pretokenizers.0.pattern.Regex", "\"\\\\w+\"", no,
           "pre_tokenizer.pattern: \"\\w+\"");
    refuse("qwen2", "pre_tokenizer.pretokenizers.0.behavior", "\"Removed\"", no,
           "pre_tokenizer.behavior");
    refuse("qwen2", "pre_tokenizer.pretokenizers.0.type", "\"Digits\"", no,
           "pre_tokenizer.pattern: \"\\p{N}+\"");
    refuse("qwen2", "pre_tokenizer.pretokenizers.1.use_regex", "true", no,
           "and what follows it");
    refuse("llama2", "normalizer.normalizers.0.prepend", "\"x\"", no, "normalizer: \"Prepend\"");
    refuse("llama2", "normalizer.normalizers.1.content", "\"_\"", no, "normalizer: \"Replace\"");
    refuse("llama2", "pre_tokenizer", "{\"type\":\"Whitespace\"}", no,
           "pre_tokenizer: \"Whitespace\"");
    refuse("llama2", "model.ignore_merges", "true", no, "model.ignore_merges");
    refuse("llama2", "decoder.decoders.1.type", "\"CTC\"", no, "decoder: \"CTC\"");
    refuse("metaspace_first", "pre_tokenizer.replacement", "\"_\"", no,
           "pre_tokenizer.replacement");
    refuse("metaspace_first", "pre_tokenizer.prepend_scheme", "\"last\"", no,
           "prepend_scheme: \"last\"");
}

static void damage_is_refused(void **state)
{
    const sp_err bad = SP_E_FORMAT;
    refuse("gpt2", "model", NULL, bad, "model: is missing");
    refuse("gpt2", "model.vocab", "[]", bad, "model.vocab: is not an object");
    refuse("gpt2", "model.vocab", "{\"a\": -1}", bad, "model.vocab: an id is not");
    refuse("gpt2", "model.vocab", "{\"a\": 1.5}", bad, "model.vocab: an id is not");
    refuse("gpt2", "model.vocab", "{\"a\": 9000000000}", bad, "model.vocab: id 9000000000");
    refuse("gpt2", "model.vocab", "{\"a\": 0, \"b\": 0}", bad,
           "\"b\" has the id 0, which is \"a\"");
    refuse("gpt2", "model.vocab.zz", "5", bad, "\"zz\" has the id 5");
    refuse("gpt2", "model.merges", "{}", bad, "model.merges: is not an array");
    refuse("gpt2", "model.vocab", "{\"a\": 200000}", bad, "model.vocab: id 200000");
    refuse("gpt2", "model.merges", "[[\"a\"]]", bad, "model.merges: an element");
    refuse("gpt2", "model.merges", "[[\"a\", \"b\", \"c\"]]", bad, "model.merges: an element");
    refuse("gpt2", "model.merges", "[\"ab\"]", bad, "merges[0] 'ab'");
    refuse("gpt2", "model.merges.0", "\"a \"", bad, "merges[0]");
    refuse("gpt2", "model.merges.3", "\"a zzz\"", bad, "merges[3] 'a zzz': its right side");
    refuse("gpt2", "model.merges.0", "\"! !\"", bad, "its result");
    refuse("gpt2", "model.unk_token", "\"nowhere\"", bad, "model.unk_token");
    refuse("gpt2", "model.ignore_merges", "\"yes\"", bad, "model.ignore_merges: is not a boolean");
    refuse("gpt2", "added_tokens", "{}", bad, "added_tokens: is not an array");
    refuse("gpt2", "added_tokens.0.content", "7", bad, "added_tokens.content");
    refuse("gpt2", "added_tokens.0.id", "\"7\"", bad, "added_tokens.id");
    refuse("gpt2", "added_tokens.0.id", "3", bad, "\"<|end|>\" has the id 3");
    refuse("llama3", "post_processor.processors.1.single", "1", bad, "post_processor.single");
    refuse("llama3", "post_processor.processors.1.single.0.SpecialToken.id", "\"<nowhere>\"", bad,
           "post_processor.single");
}

static void config_must_fit(void **state)
{
    json_t *root = read_golden("gpt2"), *config = json_pack("{s:s}", "eos_token", "<|nothing|>");
    sp_tokenizer *t = NULL;
    assert_int_equal(sp_tokenizer_parse(root, config, "x.json", &t), SP_E_FORMAT);
    assert_non_null(strstr(sp_error_detail(), "eos_token of tokenizer_config.json"));
    json_decref(config);
    config = json_pack("{s:s}", "add_bos_token", "yes");
    assert_int_equal(sp_tokenizer_parse(root, config, "x.json", &t), SP_E_FORMAT);
    assert_null(t);
    json_decref(config);
    json_t *ids = json_array();
    for (int i = 0; i <= SP_MAX_ENDS; i++) json_array_append_new(ids, json_integer(i));
    config = json_pack("{s:{s:o}}", "generation_config.json", "eos_token_id", ids);
    assert_int_equal(sp_tokenizer_parse(root, config, "x.json", &t), SP_E_LIMIT);
    json_array_remove(ids, 0);
    assert_int_equal(sp_tokenizer_parse(root, config, "x.json", &t), SP_OK);
    assert_true(sp_tokenizer_is_end(t, SP_MAX_ENDS));
    sp_tokenizer_destroy(t);
    json_decref(config);
    json_decref(root);
    root = read_golden("llama3"); /* its template names another beginning */
    config = json_pack("{s:s}", "bos_token", "<|end|>");
    assert_int_equal(sp_tokenizer_parse(root, config, "x.json", &t), SP_OK);
    assert_int_equal(sp_tokenizer_bos(t), sp_tokenizer_find(t, "<|start|>"));
    sp_tokenizer_destroy(t);
    json_decref(config);
    json_decref(root);
}

/* first_id -- of a text, after metaspace_first's golden file with this scheme. */
static int32_t first_id(const char *scheme, const char *text)
{
    json_t *root = read_golden("metaspace_first");
    sp_tokenizer *t = NULL;
    sp_tokens ids = {0};
    edit(root, "pre_tokenizer.prepend_scheme", scheme);
    assert_int_equal(sp_tokenizer_parse(root, NULL, "x.json", &t), SP_OK);
    assert_int_equal(sp_tokenizer_encode(t, text, strlen(text), 0, &ids), SP_OK);
    assert_true(ids.n > 0);
    const int32_t id = ids.v[0];
    sp_vec_fini(&ids);
    sp_tokenizer_destroy(t);
    json_decref(root);
    return id;
}

static void a_space_is_put_before_a_text_unless_never(void **state)
{
    const int32_t spaced = first_id("\"first\"", "the");
    assert_int_equal(first_id("\"always\"", "the"), spaced);
    assert_int_equal(first_id("\"never\"", " the"), spaced);
    assert_int_not_equal(first_id("\"never\"", "the"), spaced);
}

/* with_added -- gpt2 with control tokens at the end: the first gets the number *first. */
static sp_tokenizer *with_added(const char *const *texts, size_t n, json_t *config, int32_t *first)
{
    json_t *root = read_golden("gpt2"), *added = json_object_get(root, "added_tokens");
    sp_tokenizer *t = NULL;
    *first = (int32_t)json_object_size(json_object_get(json_object_get(root, "model"), "vocab")) + 100;
    for (size_t i = 0; i < n; i++)
        json_array_append_new(added, json_pack("{s:i, s:s, s:b}", "id", *first + (int)i, "content", texts[i],
                                               "special", true));
    if (sp_tokenizer_parse(root, config, "x.json", &t) != SP_OK) fail_msg("%s", sp_error_detail());
    json_decref(root);
    json_decref(config);
    return t;
}

static void answers_end_where_the_family_ends_a_turn(void **state)
{
    static const char *const gemma[] = {"<start_of_turn>", "<end_of_turn>", "<|user|>", "<x>", "<y>"};
    static const char *const glm[] = {"<|user|>", "<|observation|>", "<|assistant|>"};
    static const char *const phi[] = {"<|user|>", "<|ends|>"};
    int32_t first;
    json_t *listed = json_pack("{s:{s:[i, I]}}", "generation_config.json", "eos_token_id", 3,
                               (json_int_t)UINT32_MAX + 3); /* not token 2 */
    sp_tokenizer *t = with_added(gemma, 5, listed, &first);
    assert_false(sp_tokenizer_is_end(t, first) || sp_tokenizer_is_end(t, first + 2) || sp_tokenizer_is_end(t, 2));
    assert_true(sp_tokenizer_is_end(t, first + 1) && sp_tokenizer_is_end(t, 3));
    sp_tokenizer_destroy(t);
    t = with_added(gemma, 5, json_pack("{s:{s:i}}", "generation_config.json", "eos_token_id", 2), &first);
    assert_true(sp_tokenizer_is_end(t, 2) && !sp_tokenizer_is_end(t, 3));
    sp_tokenizer_destroy(t);
    t = with_added(glm, 3, NULL, &first);
    assert_true(sp_tokenizer_is_end(t, first) && sp_tokenizer_is_end(t, first + 1));
    assert_false(sp_tokenizer_is_end(t, first + 2));
    sp_tokenizer_destroy(t);
    t = with_added(phi, 2, NULL, &first);
    assert_false(sp_tokenizer_is_end(t, first));
    assert_true(sp_tokenizer_is_end(t, sp_tokenizer_find(t, "<|end|>")));
    sp_tokenizer_destroy(t);
}

/* The folder's generation_config.json names more ends, with or without a tokenizer_config.json beside it. */
static void a_file_of_the_folder_names_the_ends(void **state)
{
    json_t *root = read_golden("gpt2");
    char *text = json_dumps(root, 0);
    for (int with = 0; with < 2; with++) {
        temp_folder f;
        sp_tokenizer *t = NULL;
        temp_folder_make(&f);
        temp_folder_text(&f, "tokenizer.json", text);
        if (with) temp_folder_text(&f, "tokenizer_config.json", "{\"eos_token\": \"<|end|>\"}");
        assert_int_equal(sp_tokenizer_from_json(f.path, &t), SP_OK);
        assert_false(sp_tokenizer_is_end(t, 3));
        sp_tokenizer_destroy(t);
        temp_folder_text(&f, "generation_config.json", "{\"eos_token_id\": [3, 5]}");
        if (sp_tokenizer_from_json(f.path, &t) != SP_OK) fail_msg("%s", sp_error_detail());
        assert_true(sp_tokenizer_is_end(t, 3) && sp_tokenizer_is_end(t, 5));
        sp_tokenizer_destroy(t);
        temp_folder_text(&f, "generation_config.json", "[");
        assert_int_equal(sp_tokenizer_from_json(f.path, &t), SP_E_FORMAT);
        temp_folder_remove(&f);
    }
    free(text);
    json_decref(root);
}

/* Of some vocabularies it is the first token. */
static void the_end_may_be_the_first_token(void **state)
{
    json_t *root = read_golden("gpt2"), *config = json_pack("{s:s}", "eos_token", "!");
    sp_tokenizer *t;
    assert_int_equal(sp_tokenizer_parse(root, config, "x.json", &t), SP_OK);
    assert_int_equal(sp_tokenizer_find(t, "!"), 0);
    assert_true(sp_tokenizer_is_end(t, 0));
    sp_tokenizer_destroy(t);
    json_decref(config);
    json_decref(root);
}

/* gpt-oss: its marks are text of an answer, <|end|> is the end of a message only. */
static void marks_of_channels_are_text(void **state)
{
    static const char *const marks[] = {"<|return|>", "<|call|>", "<|channel|>", "<|message|>", "<|start|>",
                                        "<|constrain|>"};
    int32_t first;
    for (size_t n = SP_COUNT(marks) - 1; n <= SP_COUNT(marks); n++) { /* without one, they are as others */
        sp_tokenizer *t = with_added(marks, n, NULL, &first);
        const bool all = n == SP_COUNT(marks);
        const int32_t end = sp_tokenizer_find(t, "<|end|>");
        sp_bytes text = {0};
        assert_int_equal(sp_tokenizer_piece(t, first + 2, false, &text), SP_OK);
        assert_int_equal(text.n, all ? strlen("<|channel|>") : 0);
        assert_int_equal(sp_tokenizer_piece(t, first + 1, false, &text), SP_OK);
        assert_int_equal(text.n, all ? strlen("<|channel|>") : 0);
        assert_true(sp_tokenizer_is_end(t, first) && sp_tokenizer_is_end(t, first + 1));
        assert_int_equal(sp_tokenizer_is_end(t, end), !all);
        assert_false(sp_tokenizer_is_end(t, first + 2));
        sp_tokens ids = {0};
        assert_int_equal(sp_tokenizer_encode(t, "<|channel|>", 11, 0, &ids), SP_OK); /* of a user: no mark */
        assert_true(ids.n > 1);
        ids.n = 0;
        assert_int_equal(sp_tokenizer_encode(t, "<|channel|>", 11, SP_TOK_SPECIAL, &ids), SP_OK);
        assert_true(ids.n == 1 && ids.v[0] == first + 2);
        sp_vec_fini(&ids);
        sp_vec_fini(&text);
        sp_tokenizer_destroy(t);
    }
}

static void missing_file(void **state)
{
    sp_tokenizer *t = NULL;
    assert_int_equal(sp_tokenizer_from_json("tests/golden", &t), SP_E_IO);
    assert_non_null(strstr(sp_error_detail(), "tests/golden/tokenizer.json"));
    assert_null(t);
}

/* -- what is understood differently ---------------------------------------------------------- */

static sp_tokenizer *with(const char *kind, const char *path, const char *value)
{
    json_t *root = read_golden(kind);
    sp_tokenizer *t = NULL;
    edit(root, path, value);
    if (sp_tokenizer_parse(root, NULL, "x.json", &t) != SP_OK) fail_msg("%s", sp_error_detail());
    json_decref(root);
    return t;
}

static void other_spellings(void **state)
{
    sp_tokenizer *t = with("qwen2", "normalizer", "{\"type\":\"NFC\"}");
    expect_ids(t, "qwen2", "plain", 0);
    sp_tokenizer_destroy(t);

    t = with("metaspace_split", "pre_tokenizer",
             "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"add_prefix_space\":true}");
    expect_ids(t, "metaspace_split", "plain", 0);
    sp_tokenizer_destroy(t);

    t = with("llama2", "normalizer",
             "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}");
    sp_tokenizer *prefixed = open_golden("llama2");
    sp_tokens joined = {0};
    assert_int_equal(sp_tokenizer_encode(prefixed, "stones", 6, SP_TOK_JOINED, &joined), SP_OK);
    tv_expect(t, "stones", 0, joined.v, joined.n);
    sp_vec_fini(&joined);
    sp_tokenizer_destroy(prefixed);
    sp_tokenizer_destroy(t);
}

/* Without byte_fallback "<0x01>" is a token like others, and no byte. */
static void bytes_have_tokens_if_the_model_falls_back_to_them(void **state)
{
    for (int on = 0; on < 2; on++) {
        sp_tokenizer *t = with("llama2", "model.byte_fallback", on ? "true" : "false");
        const int32_t unk = sp_tokenizer_find(t, "<unk>"), byte = sp_tokenizer_find(t, "<0x01>");
        assert_true(unk >= 0 && byte >= 0);
        tv_expect(t, "\x01", SP_TOK_JOINED, on ? &byte : &unk, 1);
        sp_tokenizer_destroy(t);
    }
}

/* of_text -- the tokenizer of a file with this text, or NULL. */
static sp_tokenizer *of_text(sp_err want, const char *fmt, ...) SP_PRINTF(2, 3);
static sp_tokenizer *of_text(sp_err want, const char *fmt, ...)
{
    char text[4096];
    va_list args;
    sp_tokenizer *t = NULL;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    const sp_err err = sp_tokenizer_parse(root, NULL, "x.json", &t);
    if (err != want) fail_msg("%s: %d, %s", text, err, err ? sp_error_detail() : "accepted");
    json_decref(root);
    return t;
}

#define UNIGRAM                                                                                     \
    "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": ["                                  \
    "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"%s\"},"                                \
    " {\"type\": \"Strip\", \"strip_left\": false, \"strip_right\": true},"                         \
    " {\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, \"content\": \" \"}]},"          \
    " \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\","              \
    " \"prepend_scheme\": \"never\"%s}, \"model\": {\"type\": \"Unigram\", \"unk_id\": %d,"         \
    " \"vocab\": [[\"<unk>\", 0], [\"\xE2\x96\x81\", -2],"                                          \
    " [\"a\", -3], [\"xa\", -50], [\"a\xE2\x96\x81\", -1]]}}"

static void unigram_files(void **state)
{
    /* a table of one unit, which maps nothing, with texts of several lengths */
    static const char *const tables[] = {"BAAAAAAAAAAA", "BAAAAAAAAABhAA==", "BAAAAAAAAABhYgA=", "BAAAAAAAAAD///8A",
                                         "BAAAAAAAAAD7774A"};
    for (size_t i = 0; i < SP_COUNT(tables); i++) {
        sp_tokenizer *t = of_text(SP_OK, UNIGRAM, tables[i], "", 0);
        assert_string_equal(tv_ids(t, "  a  ", 0), "1 2"); /* fewer spaces, and none at the end */
        assert_string_equal(tv_ids(t, "xa", 0), "3");      /* -50; unknown is -60 */
        assert_string_equal(tv_ids(t, "a a", 0), "2 1 2"); /* no token spans words */
        sp_bytes text = {0};
        assert_int_equal(sp_tokenizer_decode(t, (const int32_t[]){0, 2}, 2, false, &text), SP_OK);
        assert_true(text.n == 1 && text.v[0] == 'a'); /* what is unknown has no text */
        sp_vec_fini(&text);
        sp_tokenizer_destroy(t);
    }
    sp_tokenizer *t = of_text(SP_OK, UNIGRAM, tables[0], ", \"split\": false", 0);
    assert_string_equal(tv_ids(t, "a a", 0), "4 2");
    sp_tokenizer_destroy(t);
    assert_null(of_text(SP_E_FORMAT, UNIGRAM, tables[0], "", 5)); /* of no token */
    assert_null(of_text(SP_E_FORMAT, UNIGRAM, "BAAAAAAAAAA=", "", 0)); /* a table without its last zero */
    assert_null(of_text(SP_E_FORMAT, UNIGRAM, "BAAAAAAAAA", "", 0));
    assert_null(of_text(SP_E_FORMAT, UNIGRAM, "BAAAAAA.AAAA", "", 0));
}

static void wordpiece_files(void **state)
{
    static const char text[] =
        "{\"normalizer\": {\"type\": \"BertNormalizer\"%s}, \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},"
        " \"model\": {\"type\": \"WordPiece\", \"max_input_chars_per_word\": 3%s, \"vocab\": {\"[UNK]\": 0, \"e\": 1,"
        " \"##f\": 2, \"\xC3\xA9\": 3}}}";
    static const char unk[] = ", \"unk_token\": \"[UNK]\"";
    sp_tokenizer *t = of_text(SP_OK, text, "", unk);
    assert_string_equal(tv_ids(t, "\xC3\x89" "f", 0), "1 2"); /* accents are removed where letters become small */
    assert_string_equal(tv_ids(t, "eff efff", 0), "1 2 2 0");
    sp_tokenizer_destroy(t);
    t = of_text(SP_OK, text, ", \"strip_accents\": false", unk);
    assert_string_equal(tv_ids(t, "\xC3\x89" "f", 0), "3 2");
    sp_tokenizer_destroy(t);
    assert_null(of_text(SP_E_FORMAT, text, "", ""));
    assert_null(of_text(SP_E_FORMAT, text, "", ", \"unk_token\": \"[unk]\""));
}

static void holes_are_unused(void **state)
{
    sp_tokenizer *t = with("gpt2", "model.vocab.after_a_hole", "1000");
    assert_int_equal(sp_tokenizer_size(t), 1001);
    sp_bytes piece = {0};
    assert_int_equal(sp_tokenizer_piece(t, 999, true, &piece), SP_OK);
    assert_int_equal(piece.n, 0);
    sp_vec_fini(&piece);
    sp_tokenizer_destroy(t);
}

static void out_of_memory(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        json_t *root = read_golden(kinds[k]);
        sp_tokenizer *t = NULL;
        for (long n = 1; !t; n++) {
            sp_fault_after(n);
            sp_err err = sp_tokenizer_parse(root, NULL, "x.json", &t);
            sp_fault_after(-1);
            if (err != SP_OK) assert_int_equal(err, SP_E_NOMEM);
            assert_true((err == SP_OK) == (t != NULL));
        }
        sp_tokenizer_destroy(t);
        json_decref(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"golden gpt2", golden, NULL, NULL, (void *)"gpt2"},
        {"golden llama3", golden, NULL, NULL, (void *)"llama3"},
        {"golden qwen2", golden, NULL, NULL, (void *)"qwen2"},
        {"golden llama2", golden, NULL, NULL, (void *)"llama2"},
        {"golden metaspace_first", golden, NULL, NULL, (void *)"metaspace_first"},
        {"golden metaspace_split", golden, NULL, NULL, (void *)"metaspace_split"},
        cmocka_unit_test(ends_and_beginnings),
        cmocka_unit_test(unknown_steps_are_refused),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(config_must_fit),
        cmocka_unit_test(a_space_is_put_before_a_text_unless_never),
        cmocka_unit_test(answers_end_where_the_family_ends_a_turn),
        cmocka_unit_test(a_file_of_the_folder_names_the_ends),
        cmocka_unit_test(the_end_may_be_the_first_token),
        cmocka_unit_test(marks_of_channels_are_text),
        cmocka_unit_test(missing_file),
        cmocka_unit_test(other_spellings),
        cmocka_unit_test(bytes_have_tokens_if_the_model_falls_back_to_them),
        cmocka_unit_test(unigram_files),
        cmocka_unit_test(wordpiece_files),
        cmocka_unit_test(holes_are_unused),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, load_cases, drop_cases);
}
