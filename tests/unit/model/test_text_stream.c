/* test_text_stream.c -- streaming: only whole characters, wherever tokens end. */
#include "tiny_vocab.h"

#define BAD "\xEF\xBF\xBD" /* U+FFFD */

static sp_tokenizer *bytes_tokenizer;

static int setup(void **state)
{
    static tiny_vocab v;
    tv_begin(&v, false);
    tv_bytes(&v);
    tv_add(&v, "<end>", SP_TOKEN_CONTROL, 0);
    bytes_tokenizer = tv_create(&v);
    return 0;
}

static int teardown(void **state)
{
    sp_tokenizer_destroy(bytes_tokenizer);
    return 0;
}

/* Pushes each byte as a token; returns the output after each token, separated by '|'. */
static const char *stream(const char *bytes, size_t n)
{
    static char line[1024];
    sp_text_stream s;
    size_t at = 0;
    sp_text_stream_init(&s, bytes_tokenizer);
    for (size_t i = 0; i <= n; i++) {
        sp_bytes out = {0};
        sp_err err = i < n ? sp_text_stream_push(&s, (uint8_t)bytes[i], &out)
                           : sp_text_stream_flush(&s, &out);
        assert_int_equal(err, SP_OK);
        if (i == n && out.n) assert_int_equal(sp_text_stream_flush(&s, &out), SP_OK); /* adds nothing */
        assert_in_range(s.n_held, 0, 3);
        assert_true(at + out.n + 2 < sizeof line);
        if (out.n) memcpy(line + at, out.v, out.n);
        at += out.n;
        line[at++] = '|';
        sp_vec_fini(&out);
    }
    line[at] = '\0';
    return line;
}

#define STREAM(text) stream(text, sizeof text - 1)

static void characters_come_out_whole(void **state)
{
    assert_string_equal(STREAM("ab"), "a|b||");
    assert_string_equal(STREAM("\xC3\xA9x"), "|\xC3\xA9|x||");
    assert_string_equal(STREAM("\xE2\x82\xAC"), "||\xE2\x82\xAC||");
    assert_string_equal(STREAM("\xF0\x9F\x9A\x80"), "|||\xF0\x9F\x9A\x80||");
}

/* One U+FFFD for each maximal subpart, as in browsers and Python's errors="replace". */
static void bad_bytes_are_replaced(void **state)
{
    assert_string_equal(STREAM("\xFF"
                               "a"),
                        BAD "|a||");
    assert_string_equal(STREAM("\x80\x80"), BAD "|" BAD "||");
    assert_string_equal(STREAM("\xE2\x82"
                               "a"),
                        "||" BAD "a||");
    assert_string_equal(STREAM("\xE2\xE2\x82\xAC"), "|" BAD "||\xE2\x82\xAC||");
    assert_string_equal(STREAM("\xC0\xAF"), BAD "|" BAD "||");             /* overlong */
    assert_string_equal(STREAM("\xED\xA0\x80"), "|" BAD BAD "|" BAD "||"); /* surrogate */
    assert_string_equal(STREAM("\xF4\x90\x80\x80"),
                        "|" BAD BAD "|" BAD "|" BAD "||"); /* over U+10FFFF */
    assert_string_equal(STREAM("a\0b"), "a|" BAD "|b||"); /* an answer is a C string */
    assert_string_equal(STREAM("\xC3\0b"), "|" BAD BAD "|b||");
}

static void the_end_of_a_stream(void **state)
{
    assert_string_equal(STREAM("a\xF0\x9F\x9A"), "a||||" BAD "|");
    assert_string_equal(STREAM("a\xC3"), "a||" BAD "|");
    assert_string_equal(STREAM(""), "|");
}

static void control_tokens_are_silent(void **state)
{
    sp_text_stream s;
    sp_bytes out = {0};
    sp_text_stream_init(&s, bytes_tokenizer);
    assert_int_equal(sp_text_stream_push(&s, 0xC3, &out), SP_OK);
    assert_int_equal(sp_text_stream_push(&s, 256, &out), SP_OK);
    assert_int_equal(out.n, 0);
    assert_int_equal(sp_text_stream_push(&s, 0xA9, &out), SP_OK);
    assert_int_equal(out.n, 2);
    assert_int_equal(sp_text_stream_push(&s, 257, &out), SP_E_ARG);
    assert_int_equal(out.n, 2);
    sp_vec_fini(&out);
}

static void spaces_at_the_start(void **state)
{
    tiny_vocab v;
    tv_begin(&v, true);
    int32_t s = tv_add(&v, "<s>", SP_TOKEN_CONTROL, 0), a = tv_add(&v,
                                                                   "\xE2\x96\x81"
                                                                   "a",
                                                                   SP_TOKEN_NORMAL, 0);
    int32_t space = tv_add(&v, "\xE2\x96\x81", SP_TOKEN_NORMAL, 0);
    sp_tokenizer *t = tv_create(&v);
    static const struct {
        bool started;
        int first;
        const char *want;
    } cases[] = {{false, 1, "a a"}, {true, 1, " a a"}, {false, 2, " a"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        const int32_t ids[] = {s, cases[i].first == 2 ? space : a, a};
        sp_text_stream st;
        sp_bytes out = {0};
        sp_text_stream_init(&st, t);
        st.started = cases[i].started;
        for (size_t k = 0; k < SP_COUNT(ids); k++)
            assert_int_equal(sp_text_stream_push(&st, ids[k], &out), SP_OK);
        assert_int_equal(out.n, strlen(cases[i].want));
        assert_memory_equal(out.v, cases[i].want, out.n);
        sp_vec_fini(&out);
    }
    sp_tokenizer_destroy(t);
}

/* Any bytes give the same text however they are split into tokens; valid text is unchanged. */
static void cuts_make_no_difference(void **state)
{
    static const char *const parts[] = {"a",        "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x9A\x80",
                                        "\xF0\x9F", "\xFF",     "\x80"};
    static char names[64][16];
    uint32_t rng = 9;
    for (int run = 0; run < 300; run++) {
        char text[64];
        size_t n = 0;
        bool valid = run % 2;
        while (n < 40) {
            const char *p = parts[tv_random(&rng) % (valid ? 4 : SP_COUNT(parts))];
            memcpy(text + n, p, strlen(p));
            n += strlen(p);
        }
        sp_bytes whole = {0}, cut = {0};
        tiny_vocab v; /* user-defined tokens, spelled as plain text, of one to nine bytes */
        tv_begin(&v, false);
        size_t n_ids = 0;
        for (size_t i = 0; i < n;) {
            size_t k = 1 + tv_random(&rng) % 9;
            k = SP_MIN(k, n - i);
            memcpy(names[n_ids], text + i, k);
            v.tokens[n_ids] = (sp_text_view){names[n_ids], k};
            v.types[n_ids] = SP_TOKEN_USER;
            v.spec.n_tokens = ++n_ids;
            i += k;
        }
        sp_tokenizer *t = tv_create(&v);
        sp_text_stream a, b;
        sp_text_stream_init(&a, bytes_tokenizer);
        sp_text_stream_init(&b, t);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(sp_text_stream_push(&a, (uint8_t)text[i], &whole), SP_OK);
        for (size_t i = 0; i < n_ids; i++)
            assert_int_equal(sp_text_stream_push(&b, (int32_t)i, &cut), SP_OK);
        assert_int_equal(sp_text_stream_flush(&a, &whole), SP_OK);
        assert_int_equal(sp_text_stream_flush(&b, &cut), SP_OK);
        assert_int_equal(whole.n, cut.n);
        assert_memory_equal(whole.v, cut.v, cut.n);
        if (valid) assert_int_equal(whole.n, n);
        if (valid) assert_memory_equal(whole.v, text, n);
        sp_vec_fini(&whole);
        sp_vec_fini(&cut);
        sp_tokenizer_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_come_out_whole), cmocka_unit_test(bad_bytes_are_replaced),
        cmocka_unit_test(the_end_of_a_stream),       cmocka_unit_test(control_tokens_are_silent),
        cmocka_unit_test(spaces_at_the_start),       cmocka_unit_test(cuts_make_no_difference),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
