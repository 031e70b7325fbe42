/* test_decode.c -- how the words of --decode are read. */
#include "support/check.h"

#include <string.h>

#include "serve/request/decode.h"

static void every_way_of_decoding_is_read(void **state)
{
    sp_decode_choice d;
    assert_ok(sp_decode_parse(NULL, &d));
    assert_false(d.sparse);
    assert_ok(sp_decode_parse("exact", &d));
    assert_false(d.sparse);
    assert_ok(sp_decode_parse("sparse:12.5%", &d));
    assert_true(d.sparse && d.o.tokens == 0 && d.o.kind == SP_SUMMARY_BOUNDS);
    assert_float_equal(d.o.share, 0.125f, 0);
    assert_int_equal(d.o.min_depth, 0);
    assert_ok(sp_decode_parse("sparse:4096,hash256,depth=0", &d));
    assert_true(d.sparse && d.o.tokens == 4096 && d.o.share == 0);
    assert_true(d.o.kind == SP_SUMMARY_HASH256 && d.o.min_depth < 0);
    assert_ok(sp_decode_parse("sparse", &d));
    assert_true(d.sparse && d.o.share == SP_SPARSE_SHARE && d.o.tokens == 0 && d.o.min_depth == 0);
    assert_ok(sp_decode_parse("sparse,lru", &d));
    assert_true(d.o.seats == SP_SEATS_LRU);
    assert_ok(sp_decode_parse("sparse,forget", &d));
    assert_true(d.o.seats == SP_SEATS_FORGET);
    assert_ok(sp_decode_parse("sparse,quest", &d));
    assert_true(d.o.share == SP_SPARSE_SHARE && d.o.kind == SP_SUMMARY_QUEST);
    assert_ok(sp_decode_parse("sparse:100%,depth=300", &d));
    assert_true(d.o.share == 1 && d.o.min_depth == 300 && !d.o.reuse);
    assert_ok(sp_decode_parse("window:256", &d));
    assert_true(!d.sparse && d.window == 256);
    assert_ok(sp_decode_parse("sparse:10%,reuse", &d));
    assert_int_equal(d.window, 0);
    assert_true(d.o.reuse && d.o.eta == 0 && d.o.power == 0 && !d.o.least);
    assert_ok(sp_decode_parse("sparse:10%,reuse=0.9,least,quest", &d));
    assert_true(d.o.reuse && d.o.least && d.o.power < 0 && d.o.kind == SP_SUMMARY_QUEST);
    assert_float_equal(d.o.eta, 0.9f, 0);
    assert_ok(sp_decode_parse("sparse:10%,reuse,eta=0.7,power=2", &d));
    assert_true(d.o.reuse && d.o.eta == 0.7f && d.o.power == 2 && d.o.refine == 0);
    assert_ok(sp_decode_parse("sparse:10%,reuse,eta=0", &d));
    assert_true(d.o.eta > 0 && d.o.eta < 1e-5f); /* 0 would be the default */
    assert_ok(sp_decode_parse("sparse:10%,reuse=0", &d));
    assert_true(d.o.eta > 0 && d.o.eta < 1e-5f);
    assert_ok(sp_decode_parse("sparse:10%,keys4,refine=2.5", &d));
    assert_true(d.o.kind == SP_SUMMARY_KEYS4 && d.o.refine == 2.5f);
}

static void other_words_are_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "neither"},
        {"fast", "\"fast\" is neither"},
        {"sparse10%", "neither"},
        {"sparse,10%", "\"10%\" in"},
        {"exact,", "neither"},
        {"sparse:", "\"\" in"},
        {"window:", "\"window:\""},
        {"window:15", "16 or more"},
        {"window:64,bounds", "\"window:64,bounds\""},
        {"window:10%", "16 or more"},
        {"sparse:0%", "\"0%\" in"},
        {"sparse:101%", "\"101%\" in"},
        {"sparse:nan%", "\"nan%\" in"},
        {"sparse:-5", "\"-5\" in"},
        {"sparse:1.5", "\"1.5\" in"},
        {"sparse:5000000000", "\"5000000000\" in"},
        {"sparse:10%,best", "\"best\" in"},
        {"sparse:10%,", "\"\" in"},
        {"sparse:10%,depth=", "\"depth=\" in"},
        {"sparse:10%,depth=-1", "\"depth=-1\" in"},
        {"sparse:10%,reuse=2", "\"reuse=2\" in"},
        {"sparse:10%,eta=", "\"eta=\" in"},
        {"sparse:10%,refine=0", "\"refine=0\" in"},
        {"sparse:10%x,bounds", "\"10%x\" in"},
    };
    for (size_t i = 0; i < SP_COUNT(bad); i++) {
        sp_decode_choice d;
        assert_fails(sp_decode_parse(bad[i].text, &d), SP_E_ARG, bad[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_of_decoding_is_read),
        cmocka_unit_test(other_words_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
