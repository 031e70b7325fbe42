/* test_tokenizer.c -- what both algorithms share: special tokens, decoding, properties, errors,
 * threads. */
#include "tiny_vocab.h"

#include <pthread.h>

#include "model/tokenizer/tokenizer_int.h"

static void text_of(const sp_tokenizer *t, const int32_t *ids, size_t n, bool special,
                    const char *want)
{
    sp_bytes out = {0};
    assert_int_equal(sp_tokenizer_decode(t, ids, n, special, &out), SP_OK);
    assert_int_equal(sp_bytes_add(&out, "", 1), SP_OK);
    assert_string_equal(out.v, want);
    sp_vec_fini(&out);
}

/* -- special tokens -------------------------------------------------------------------------- */

enum { LT = '<', END = 256, ENDING, START, TOOL, SECOND_END, ALONE };

static void fill(tiny_vocab *v)
{
    tv_begin(v, false);
    tv_bytes(v);
    tv_add(v, "<end>", SP_TOKEN_CONTROL, 0);
    tv_add(v, "<end>ing", SP_TOKEN_CONTROL, 0);
    tv_add(v, "<start>", SP_TOKEN_CONTROL, 0);
    tv_add(v, "<tool>", SP_TOKEN_USER, 0);
    tv_add(v, "<end>", SP_TOKEN_CONTROL, 0);
    tv_add(v, "{tool}", SP_TOKEN_USER, 0);
    v->spec.marks.eos = END;
    v->spec.marks.bos = START;
    v->spec.marks.add_bos = true;
}

static void special_tokens_in_text(void **state)
{
    tiny_vocab v;
    fill(&v);
    sp_tokenizer *t = tv_create(&v);
    const unsigned on = SP_TOK_SPECIAL;
    assert_string_equal(tv_ids(t, "<end>", on), "256");    /* the first of equal texts */
    assert_string_equal(tv_ids(t, "<end>ing", on), "257"); /* the longest */
    assert_string_equal(tv_ids(t, "<end>in", on), "256 105 110");
    assert_string_equal(tv_ids(t, "<<end><start>>", on), "60 256 258 62");
    assert_string_equal(tv_ids(t, "<end", on), "60 101 110 100");
    assert_string_equal(tv_ids(t, "<end>", 0),
                        "60 101 110 100 62");               /* plain text without the flag */
    assert_string_equal(tv_ids(t, "a<tool>", 0), "97 259"); /* always found */
    assert_string_equal(tv_ids(t, "a<tool>", on), "97 259");
    assert_string_equal(tv_ids(t, "a{tool}", 0), "97 261");
    assert_string_equal(tv_ids(t, "a{tool}", on), "97 261"); /* the only one that begins so */
    assert_string_equal(tv_ids(t, "a", SP_TOK_BOS | on), "258 97");
    assert_string_equal(tv_ids(t, "", SP_TOK_BOS), "258");
    assert_string_equal(tv_ids(t, "", on), "");
    sp_tokenizer_destroy(t);
}

/* DeepSeek's are written with U+FF5C. */
static void special_tokens_of_other_letters(void **state)
{
    tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    tv_add(&v, "<\xEF\xBD\x9C" "end\xEF\xBD\x9C>", SP_TOKEN_CONTROL, 0);
    tv_add(&v, "<|end|>", SP_TOKEN_CONTROL, 0);
    sp_tokenizer *t = tv_create(&v);
    assert_string_equal(tv_ids(t, "a<\xEF\xBD\x9C" "end\xEF\xBD\x9C>", SP_TOK_SPECIAL), "97 256");
    assert_string_equal(tv_ids(t, "a<|end|>", SP_TOK_SPECIAL), "97 257");
    sp_tokenizer_destroy(t);
    v.spec.marks.unk = tv_add(&v, "<unk>", SP_TOKEN_UNKNOWN, 0);
    t = tv_create(&v);
    assert_string_equal(tv_ids(t, "a<unk>", SP_TOK_SPECIAL), "97 258");
    sp_tokenizer_destroy(t);
}

static void a_vocabulary_without_bos(void **state)
{
    tiny_vocab v;
    fill(&v);
    v.spec.marks.bos = -1;
    sp_tokenizer *t = tv_create(&v);
    assert_false(sp_tokenizer_adds_bos(t));
    assert_string_equal(tv_ids(t, "a", SP_TOK_BOS), "97");
    sp_tokenizer_destroy(t);
}

/* Compared with the definition: at each position, the longest of all texts. */
static void many_special_tokens(void **state)
{
    static char names[200][12];
    tiny_vocab v;
    uint32_t rng = 3;
    tv_begin(&v, false);
    tv_bytes(&v);
    for (int i = 0; i < 200;) {
        size_t n = 2 + tv_random(&rng) % 10;
        for (size_t k = 0; k < n; k++) names[i][k] = "<|x>"[tv_random(&rng) % 4];
        names[i][n] = '\0';
        bool known = false;
        for (int k = 0; k < i; k++) known = known || strcmp(names[k], names[i]) == 0;
        if (known) continue;
        tv_add(&v, names[i], i % 3 ? SP_TOKEN_CONTROL : SP_TOKEN_USER, 0);
        i++;
    }
    sp_tokenizer *t = tv_create(&v);
    for (int run = 0; run < 500; run++) {
        char text[80];
        int32_t want[80];
        size_t n = tv_random(&rng) % 79, n_want = 0;
        bool all = run % 2;
        for (size_t i = 0; i < n; i++) text[i] = "<|x>a"[tv_random(&rng) % 5];
        text[n] = '\0';
        for (size_t i = 0; i < n;) {
            int best = -1;
            for (int s = 0; s < 200; s++)
                if ((all || s % 3 == 0) && strncmp(text + i, names[s], strlen(names[s])) == 0 &&
                    (best < 0 || strlen(names[s]) > strlen(names[best])))
                    best = s;
            want[n_want++] = best < 0 ? text[i] : 256 + best;
            i += best < 0 ? 1 : strlen(names[best]);
        }
        sp_tokens ids = {0};
        assert_int_equal(sp_tokenizer_encode(t, text, n, all ? SP_TOK_SPECIAL : 0, &ids), SP_OK);
        assert_int_equal(ids.n, n_want);
        if (n_want) assert_memory_equal(ids.v, want, n_want * sizeof *want);
        sp_vec_fini(&ids);
    }
    sp_tokenizer_destroy(t);
}

/* -- decoding -------------------------------------------------------------------------------- */

static void decode_bytes(void **state)
{
    static char made[1][32];
    tiny_vocab v;
    fill(&v);
    int32_t space_a =
        tv_merge(&v, "\xC4\xA0 a", made[0]); /* G with dot: the space of the alphabet */
    int32_t raw = tv_add(&v, "\xC3\xA9 \xC4\xA0", SP_TOKEN_USER, 0);
    int32_t odd = tv_add(&v, "\xE2\x82\xAC", SP_TOKEN_NORMAL, 0); /* not in the alphabet */
    sp_tokenizer *t = tv_create(&v);
    text_of(t, (int32_t[]){'a', space_a, '\n'}, 3, false, "a a\n");
    text_of(t, (int32_t[]){space_a, END, 'b', TOOL}, 4, false, " ab<tool>");
    text_of(t, (int32_t[]){space_a, END, 'b'}, 3, true, " a<end>b");
    text_of(t, (int32_t[]){raw, odd}, 2, false, "\xC3\xA9 \xC4\xA0\xE2\x82\xAC");
    text_of(t, (int32_t[]){0xE2, 0x82, 0xAC}, 3, false, "\xE2\x82\xAC");
    text_of(t, NULL, 0, false, "");
    sp_tokenizer_destroy(t);
}

static void decode_sentencepiece(void **state)
{
    tiny_vocab v;
    tv_begin(&v, true);
    int32_t s = tv_add(&v, "<s>", SP_TOKEN_CONTROL, 0), a = tv_add(&v,
                                                                   "\xE2\x96\x81"
                                                                   "a\xE2\x96\x81",
                                                                   SP_TOKEN_NORMAL, 0);
    int32_t nl = tv_add(&v, "<0x0A>", SP_TOKEN_BYTE, 0), u = tv_add(&v, "<|u|>", SP_TOKEN_USER, 0);
    sp_tokenizer *t = tv_create(&v);
    text_of(t, (int32_t[]){a, nl, a}, 3, false, "a \n a ");
    text_of(t, (int32_t[]){s, a}, 2, false,
            "a "); /* a control token without text does not start the text */
    text_of(t, (int32_t[]){s, a}, 2, true, "<s> a ");
    text_of(t, (int32_t[]){u, a}, 2, false, "<|u|> a ");
    sp_bytes piece = {0};
    assert_int_equal(sp_tokenizer_piece(t, a, false, &piece), SP_OK);
    assert_int_equal(piece.n, 3); /* within a text the space stays */
    sp_vec_fini(&piece);
    sp_tokenizer_destroy(t);
}

static void ids_out_of_range(void **state)
{
    tiny_vocab v;
    fill(&v);
    sp_tokenizer *t = tv_create(&v);
    sp_bytes out = {0};
    assert_int_equal(sp_bytes_add(&out, "x", 1), SP_OK);
    assert_int_equal(sp_tokenizer_piece(t, -1, true, &out), SP_E_ARG);
    assert_int_equal(sp_tokenizer_piece(t, sp_tokenizer_size(t), true, &out), SP_E_ARG);
    assert_int_equal(sp_tokenizer_decode(t, (int32_t[]){'a', 99999}, 2, true, &out), SP_E_ARG);
    assert_non_null(strstr(sp_error_detail(), "token 99999"));
    assert_int_equal(out.n, 1);
    assert_false(sp_tokenizer_is_end(t, -1));
    assert_false(sp_tokenizer_is_end(t, 99999));
    sp_vec_fini(&out);
    sp_tokenizer_destroy(t);
}

/* -- questions ------------------------------------------------------------------------------- */

static void what_ends_a_generation(void **state)
{
    tiny_vocab v;
    fill(&v);
    v.spec.marks.eot = START;
    int32_t im = tv_add(&v, "<|im_end|>", SP_TOKEN_CONTROL, 0),
            s = tv_add(&v, "</s>", SP_TOKEN_NORMAL, 0);
    int32_t eot = tv_add(&v, "<|eot_id|>", SP_TOKEN_CONTROL, 0);
    sp_tokenizer *t = tv_create(&v);
    assert_true(sp_tokenizer_is_end(t, END));
    assert_true(sp_tokenizer_is_end(t, START));
    assert_true(sp_tokenizer_is_end(t, im));
    assert_true(sp_tokenizer_is_end(t, eot));
    assert_false(sp_tokenizer_is_end(t, s)); /* its text alone does not make it a control token */
    assert_false(sp_tokenizer_is_end(t, TOOL));
    assert_int_equal(sp_tokenizer_find(t, "<|im_end|>"), im);
    assert_int_equal(sp_tokenizer_find(t, "<end>"), END);
    assert_int_equal(sp_tokenizer_find(t, "<en"), -1);
    assert_int_equal(sp_tokenizer_size(t), (int)v.spec.n_tokens);
    assert_string_equal(sp_tokenizer_kind(t), "bpe/gpt-2");
    sp_tokenizer_destroy(t);
}

/* Without types, BOS, EOS and EOT are still control tokens. */
static void no_types(void **state)
{
    tiny_vocab v;
    fill(&v);
    v.spec.types = NULL;
    sp_tokenizer *t = tv_create(&v);
    assert_string_equal(tv_ids(t, "<end>", SP_TOK_SPECIAL), "256");
    assert_string_equal(tv_ids(t, "<end>", 0), "60 101 110 100 62");
    text_of(t, (int32_t[]){'a', END}, 2, false, "a");
    sp_tokenizer_destroy(t);
}

/* -- refusals -------------------------------------------------------------------------------- */

static void refuse(const tiny_vocab *v, sp_err code, const char *named)
{
    sp_tokenizer *t = NULL;
    assert_int_equal(sp_tokenizer_create(&v->spec, &t), code);
    assert_null(t);
    if (!strstr(sp_error_detail(), named))
        fail_msg("\"%s\" does not name %s", sp_error_detail(), named);
}

static void bad_vocabularies(void **state)
{
    tiny_vocab v;
    fill(&v);
    v.spec.marks.eos = 5000;
    refuse(&v, SP_E_FORMAT, "tiny: EOS token 5000");
    fill(&v);
    v.spec.marks.bos = -2;
    refuse(&v, SP_E_FORMAT, "tiny: BOS token -2");
    fill(&v);
    v.spec.marks.eot = (int32_t)v.spec.n_tokens;
    refuse(&v, SP_E_FORMAT, "tiny: EOT token");
    fill(&v);
    v.spec.marks.unk = (int32_t)v.spec.n_tokens;
    refuse(&v, SP_E_FORMAT, "tiny: unknown token");
    fill(&v);
    v.types[3] = 9;
    refuse(&v, SP_E_FORMAT, "tiny: token_type[3] is 9");
    fill(&v);
    v.spec.n_tokens = 0;
    refuse(&v, SP_E_FORMAT, "tiny: the vocabulary is empty");
    v.spec.n_tokens = (size_t)1 << 40;
    refuse(&v, SP_E_LIMIT, "tiny: a vocabulary of");
    static const char *const rules[] = {"", " ", "ab", "a ", " b", "a zz", "zz a", "a b"};
    for (size_t i = 0; i < SP_COUNT(rules); i++) {
        fill(&v);
        v.merges[0] = (sp_text_view){rules[i], strlen(rules[i])};
        v.spec.n_merges = 1;
        refuse(&v, SP_E_FORMAT, "tiny: merges[0]");
    }
}

static void text_over_the_limit(void **state)
{
    tiny_vocab v;
    fill(&v);
    sp_tokenizer *t = tv_create(&v);
    sp_tokens ids = {0};
    assert_int_equal(sp_tokenizer_encode(t, "", ((size_t)1 << 30) + 1, 0, &ids), SP_E_LIMIT);
    assert_int_equal(ids.n, 0);
    sp_tokenizer_destroy(t);
}

static void out_of_memory(void **state)
{
    static char made[2][32];
    for (int spm = 0; spm < 2; spm++) {
        tiny_vocab v;
        tv_begin(&v, spm);
        tv_bytes(&v);
        tv_merge(&v, "a b", made[0]);
        v.spec.ignore_merges = !spm;
        v.spec.marks.bos = tv_add(&v, "<s>", SP_TOKEN_CONTROL, 0);
        v.spec.marks.add_bos = true;
        sp_tokenizer *t = NULL;
        for (long n = 1; !t; n++) {
            sp_fault_after(n);
            sp_err err = sp_tokenizer_create(&v.spec, &t);
            sp_fault_after(-1);
            assert_true(err == SP_E_NOMEM || (err == SP_OK && n > 2));
            assert_int_equal(t == NULL, err != SP_OK);
        }
        sp_err err = SP_E_NOMEM;
        for (long n = 1; err != SP_OK; n++) {
            sp_tokens ids = {0};
            sp_fault_after(n);
            err = sp_tokenizer_encode(t, "abba xaxa", 9, SP_TOK_BOS, &ids);
            sp_fault_after(-1);
            assert_true(err == SP_E_NOMEM || (err == SP_OK && n > 2));
            assert_int_equal(ids.n == 0, err != SP_OK);
            sp_vec_fini(&ids);
        }
        sp_tokenizer_destroy(t);
    }
}

/* -- threads --------------------------------------------------------------------------------- */

static void *encode_many(void *arg)
{
    const sp_tokenizer *t = arg;
    size_t total = 0;
    for (int i = 0; i < 200; i++) {
        sp_tokens ids = {0};
        static const char text[] = "it's <end> of 12 \xC3\xA9t\xC3\xA9s \xFF";
        if (sp_tokenizer_encode(t, text, sizeof text - 1, SP_TOK_SPECIAL, &ids) != SP_OK)
            return NULL;
        total += ids.n;
        sp_vec_fini(&ids);
    }
    return (void *)total;
}

static void many_threads(void **state)
{
    tiny_vocab v;
    pthread_t threads[4];
    fill(&v);
    sp_tokenizer *t = tv_create(&v);
    void *want = encode_many(t);
    assert_non_null(want);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_many, t), 0);
    for (int i = 0; i < 4; i++) {
        void *got;
        assert_int_equal(pthread_join(threads[i], &got), 0);
        assert_ptr_equal(got, want);
    }
    sp_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_tokens_in_text), cmocka_unit_test(special_tokens_of_other_letters),
        cmocka_unit_test(a_vocabulary_without_bos),
        cmocka_unit_test(many_special_tokens),    cmocka_unit_test(decode_bytes),
        cmocka_unit_test(decode_sentencepiece),   cmocka_unit_test(ids_out_of_range),
        cmocka_unit_test(what_ends_a_generation), cmocka_unit_test(no_types),
        cmocka_unit_test(bad_vocabularies),       cmocka_unit_test(text_over_the_limit),
        cmocka_unit_test(out_of_memory),          cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
