/* test_repeats.c -- what two messages share becomes a chunk; what is sent once more does not. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/requests.h"

enum { LONG = 400 };

/* passage -- text that no other number has. */
static void passage(char out[LONG + 1], unsigned number)
{
    size_t n = 0;
    for (unsigned i = 0; n < LONG - 40; i++)
        n += (size_t)snprintf(out + n, LONG + 1 - n, "Boat %u-%u sails at %u. ", number, i, number * 7 + i);
}

typedef struct bench {
    sp_known *known;
    sp_repeats *repeats;
} bench;

static void bench_begin(bench *b)
{
    assert_ok(sp_known_create(64, &b->known));
    assert_ok(sp_repeats_create(&b->repeats));
}

static void bench_end(bench *b)
{
    sp_repeats_destroy(b->repeats);
    sp_known_destroy(b->known);
}

static int learn(bench *b, uint64_t tenant, const char *text)
{
    return sp_repeats_learn(b->repeats, b->known, tenant, text, strlen(text));
}

/* chunks -- how many a text has now; *first is the text of the first. */
static int chunks(bench *b, uint64_t tenant, const char *text, char *first)
{
    sp_cut_list cut = {0};
    int n = 0;
    assert_ok(sp_cut(b->known, tenant, text, strlen(text), NULL, &cut));
    for (size_t i = 0; i < cut.n; i++) {
        if (!cut.v[i].is_chunk) continue;
        if (n++ == 0 && first) snprintf(first, cut.v[i].n + 1, "%s", cut.v[i].text);
    }
    sp_vec_fini(&cut);
    return n;
}

static void what_two_messages_share_is_found(void **state)
{
    bench b;
    char p[5][LONG + 1], text[4 * LONG], first[4 * LONG];
    bench_begin(&b);
    for (unsigned i = 0; i < 5; i++) passage(p[i], i + 1);
    snprintf(text, sizeof text, "<source id=\"1\">%s</source><source id=\"2\">%s</source> Who?", p[0], p[1]);
    assert_int_equal(learn(&b, 1, text), 0);
    assert_int_equal(learn(&b, 1, text), 0); /* an earlier turn, once more */
    assert_int_equal(chunks(&b, 1, text, NULL), 0);
    snprintf(text, sizeof text, "<source id=\"7\">%s</source><source id=\"8\">%s</source> When?", p[1], p[2]);
    assert_int_equal(learn(&b, 1, text), 1);
    assert_int_equal(chunks(&b, 1, text, first), 1);
    assert_non_null(strstr(first, p[1]));
    assert_null(strstr(first, "id=\"7"));
    snprintf(text, sizeof text, "<source id=\"3\">%s</source><source id=\"4\">%s</source> Where?", p[3], p[1]);
    assert_int_equal(chunks(&b, 1, text, NULL), 1); /* from now on wherever it is */
    assert_int_equal(chunks(&b, 2, text, NULL), 0); /* and for its tenant alone */
    bench_end(&b);
}

static void tenants_share_nothing_and_forgetting_forgets(void **state)
{
    bench b;
    char p[LONG + 1], text[2 * LONG];
    bench_begin(&b);
    passage(p, 1);
    snprintf(text, sizeof text, "One: %s", p);
    learn(&b, 1, text);
    snprintf(text, sizeof text, "Two: %s", p);
    assert_int_equal(learn(&b, 2, text), 0);
    sp_repeats_forget(b.repeats, 1);
    assert_int_equal(learn(&b, 1, text), 0);
    snprintf(text, sizeof text, "Three: %s", p);
    assert_int_equal(learn(&b, 2, text), 1);
    bench_end(&b);
}

/* 40 MiB of noise through a ring of 8: nothing that was overwritten is found or read. */
static void a_text_that_memory_lacks_for_is_not_learned(void **state)
{
    char p[LONG + 1], first[LONG + 8], second[LONG + 8];
    passage(p, 1);
    snprintf(first, sizeof first, "One: %s", p);
    snprintf(second, sizeof second, "Two: %s", p);
    for (long n = 1; n <= 2; n++) { /* of its two allocations */
        bench b;
        bench_begin(&b);
        sp_fault_after(n);
        assert_int_equal(learn(&b, 1, first), 0);
        sp_fault_after(-1);
        assert_int_equal(learn(&b, 1, second), 0);
        assert_int_equal(learn(&b, 1, first), 1);
        bench_end(&b);
    }
}

static void a_full_ring_finds_nothing_overwritten(void **state)
{
    bench b;
    char p[LONG + 1], text[2 * LONG];
    enum { NOISE = 1 << 20 };
    char *noise = malloc(NOISE + 1);
    uint32_t x = 1;
    bench_begin(&b);
    passage(p, 1);
    snprintf(text, sizeof text, "One: %s", p);
    learn(&b, 1, text);
    for (int k = 0; k < 40; k++) {
        for (int i = 0; i < NOISE; i++) noise[i] = (char)('a' + ((x = x * 1664525u + 1013904223u) >> 24) % 26);
        noise[NOISE] = '\0';
        assert_int_equal(learn(&b, 1, noise), 0);
    }
    snprintf(text, sizeof text, "Two: %s", p);
    assert_int_equal(learn(&b, 1, text), 0);
    free(noise);
    bench_end(&b);
}

static void random_texts_are_cut_where_they_repeat(void **state)
{
    bench b;
    uint32_t x = 7;
    static const char *const parts[] = {"abc", "\xc3\xa9", " ", "\xe6\xbc\xa2\xe5\xad\x97", "\n", "xyz 12"};
    bench_begin(&b);
    for (int round = 0; round < 400; round++) {
        char text[3000], joined[3000] = "";
        size_t n = 0;
        unsigned period = 1 + (x >> 20) % 97; /* short periods: many repeats */
        for (unsigned i = 0; n < 2900; i++) {
            x = x * 1664525u + 1013904223u;
            const char *part = parts[((i % period) * 2654435761u + (x >> 28) / 15) % SP_COUNT(parts)];
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", part);
        }
        learn(&b, 1 + (uint64_t)round % 2, text);
        sp_cut_list cut = {0};
        assert_ok(sp_cut(b.known, 1, text, n, NULL, &cut));
        for (size_t i = 0; i < cut.n; i++) {
            strncat(joined, cut.v[i].text, cut.v[i].n);
            assert_int_not_equal((unsigned char)cut.v[i].text[0] & 0xC0, 0x80); /* whole characters */
        }
        assert_string_equal(joined, text);
        sp_vec_fini(&cut);
    }
    bench_end(&b);
}

/* -- in prompts -------------------------------------------------------------------------------- */

/* ask_pasted -- what is reused of the chunks of a message. */
static int ask_pasted(sp_context *c, sp_chunk_find find, const char *message)
{
    sp_prompt *p;
    sp_request *r;
    const sp_reuse_opts full = {.policy = "full"};
    sp_request_opts o = {.reuse = &full, .sampling = sp_sampling_default(), .max_tokens = 2};
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_find_chunks(p, find));
    assert_ok(sp_prompt_message(p, SP_ROLE_SYSTEM, "Be brief."));
    assert_ok(sp_prompt_message(p, SP_ROLE_USER, message));
    assert_ok(sp_prompt_answer(p));
    assert_ok(sp_generate(c, p, &o, &r));
    int n = 0;
    const sp_result *res = sp_request_result(r);
    for (int i = 0; i < res->n_segments; i++)
        if (strcmp(res->segments[i].kind, "chunk") == 0) n += res->segments[i].n_reused;
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    return n;
}

static void the_third_message_reuses(void **state)
{
    char p[4][LONG + 1], text[3 * LONG];
    for (unsigned i = 0; i < 4; i++) passage(p[i], i + 1);
    for (int find = SP_FIND_KNOWN; find <= SP_FIND_NONE; find++) {
        sp_context *c = open_with((sp_context_opts){0});
        int n = 0;
        for (int round = 0; round < 3; round++) {
            snprintf(text, sizeof text, "<a>%.40s</a> <b>%.300s</b> Question %d?", p[round], p[3], round);
            n = ask_pasted(c, (sp_chunk_find)find, text);
            if (round < 2) assert_int_equal(n, 0);
        }
        assert_true(find == SP_FIND_REPEATS ? n > 20 : n == 0);
        close_clean(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_two_messages_share_is_found),
        cmocka_unit_test(tenants_share_nothing_and_forgetting_forgets),
        cmocka_unit_test(a_text_that_memory_lacks_for_is_not_learned),
        cmocka_unit_test(a_full_ring_finds_nothing_overwritten),
        cmocka_unit_test(random_texts_are_cut_where_they_repeat),
        cmocka_unit_test(the_third_message_reuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
