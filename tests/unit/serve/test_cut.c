/* test_cut.c -- chunks found in plain texts: cutting loses nothing, finds what is there, and only
 * that. */
#include <stdio.h>
#include <stdlib.h>

#include "support/check.h"

#include "serve/request/context.h"

#define MODEL "tests/golden/tiny.gguf"

static const char harbour[] =
    "[Harbour]\nBoats leave Velm for Torin at nine and at noon, in winter "
    "at noon alone.\n\n";
static const char hotels[] =
    "[Hotels]\nTorin has two hotels: the Anchor with twelve rooms, and the "
    "Mill with nine.\n\n";

static sp_known *known_of(int32_t max, const char *const *texts, int n)
{
    sp_known *k = NULL;
    assert_ok(sp_known_create(max, &k));
    for (int i = 0; i < n; i++) sp_known_add(k, 0, texts[i], strlen(texts[i]));
    return k;
}

/* marked -- the pieces of a text with marks around them: (text) and <chunk>. */
static const char *marked(sp_known *k, const char *text, const char *separator)
{
    static char out[4096];
    sp_cut_list cut = {0};
    size_t n = 0;
    assert_ok(sp_cut(k, 0, text, strlen(text), separator, &cut));
    for (size_t i = 0; i < cut.n; i++) {
        const sp_cut_piece *c = &cut.v[i];
        assert_true(n + c->n + 3 < sizeof out);
        out[n++] = c->is_chunk ? '<' : '(';
        memcpy(out + n, c->text, c->n);
        n += c->n;
        out[n++] = c->is_chunk ? '>' : ')';
    }
    out[n] = '\0';
    sp_vec_fini(&cut);
    return out;
}

static void separators_cut_a_text(void **state)
{
    assert_string_equal(marked(NULL, "head|one|two|ask", "|"), "(head|)<one|><two|>(ask)");
    assert_string_equal(marked(NULL, "head|ask", "|"), "(head|)(ask)");
    assert_string_equal(marked(NULL, "all", "|"), "(all)");
    assert_string_equal(marked(NULL, "all|", "|"), "(all|)");
    assert_string_equal(marked(NULL, "|one|", "|"), "(|)<one|>");
    assert_string_equal(marked(NULL, "a||b||c", "|"), "(a|)(|)<b|>(|)(c)");
    assert_string_equal(marked(NULL, "a\n# #\nb\n# #\nc # #", "\n# #\n"),
                        "(a\n# #\n)<b\n# #\n>(c # #)");
    assert_string_equal(marked(NULL, "aaaaa", "aa"), "(aa)(aa)(a)");
    assert_string_equal(marked(NULL, "a|b", ""), "(a|b)");
    assert_string_equal(marked(NULL, "a|b", NULL), "(a|b)");
    assert_string_equal(marked(NULL, "", "|"), "");
}

static void known_texts_are_found(void **state)
{
    const char *const texts[] = {harbour, hotels, "too short to be known\n\n"};
    sp_known *k = known_of(8, texts, 3);
    char text[1000], wanted[1000];
    assert_int_equal(sp_known_n(k), 2);
    snprintf(text, sizeof text, "Read this:\n%s%sWhen?%s", hotels, harbour, hotels);
    snprintf(wanted, sizeof wanted, "(Read this:\n)<%s><%s>(When?)<%s>", hotels, harbour, hotels);
    assert_string_equal(marked(k, text, NULL), wanted);
    snprintf(wanted, sizeof wanted, "<%s>", harbour);
    assert_string_equal(marked(k, harbour, NULL), wanted);
    assert_string_equal(marked(k, "too short to be known\n\n", NULL),
                        "(too short to be known\n\n)");
    sp_known_add(k, 0, harbour, strlen(harbour)); /* once is enough */
    assert_int_equal(sp_known_n(k), 2);
    sp_known_destroy(k);
}

static void known_texts_are_found_beside_separators(void **state)
{
    const char *const texts[] = {harbour};
    sp_known *k = known_of(8, texts, 1);
    char text[1000], wanted[1000];
    snprintf(text, sizeof text, "Head %s|one|%s ask", harbour, harbour);
    snprintf(wanted, sizeof wanted, "(Head )<%s>(|)<one|><%s>( ask)", harbour, harbour);
    assert_string_equal(marked(k, text, "|"), wanted);
    sp_known_destroy(k);
}

/* Every byte of the text changed, one after another, and it cut short. */
static void near_misses_are_not_found(void **state)
{
    const char *const texts[] = {harbour};
    sp_known *k = known_of(8, texts, 1);
    char text[300];
    size_t n = strlen(harbour);
    for (size_t i = 0; i < n; i++) {
        sp_cut_list cut = {0};
        snprintf(text, sizeof text, "ab%scd", harbour);
        text[2 + i] ^= 1;
        assert_ok(sp_cut(k, 0, text, n + 4, NULL, &cut));
        assert_int_equal(cut.n, 1);
        assert_false(cut.v[0].is_chunk);
        text[2 + i] ^= 1;
        assert_ok(sp_cut(k, 0, text, 2 + i, NULL, &cut));
        assert_int_equal(cut.n, 2);
        assert_false(cut.v[1].is_chunk);
        sp_vec_fini(&cut);
    }
    sp_known_destroy(k);
}

static void the_longest_wins(void **state)
{
    char longer[300], text[700], wanted[700];
    snprintf(longer, sizeof longer, "%sAnd more of it.\n\n", harbour);
    for (int order = 0; order < 2; order++) {
        const char *const texts[] = {order ? longer : harbour, order ? harbour : longer};
        sp_known *k = known_of(8, texts, 2);
        snprintf(text, sizeof text, "x%s%sx", longer, harbour);
        snprintf(wanted, sizeof wanted, "(x)<%s><%s>(x)", longer, harbour);
        assert_string_equal(marked(k, text, NULL), wanted);
        sp_known_destroy(k);
    }
}

/* numbered -- different texts of 70 to 99 bytes, alike in their first 64 when `alike`. */
static size_t numbered(char *out, int i, bool alike)
{
    memset(out, 'a', 110);
    if (!alike) snprintf(out, 20, "%06d", i);
    out[6] = '.';
    snprintf(out + 64, 20, "%06d", i);
    size_t n = 70 + (size_t)i % 30;
    memset(out + 70, 'z', 30);
    out[n] = '\0';
    return n;
}

static bool is_known(sp_known *k, const char *text, size_t n)
{
    sp_cut_list cut = {0};
    assert_ok(sp_cut(k, 0, text, n, NULL, &cut));
    bool known = cut.n == 1 && cut.v[0].is_chunk;
    sp_vec_fini(&cut);
    return known;
}

static void the_oldest_is_forgotten(void **state)
{
    enum { MAX = 100, N = 350 };
    char text[128];
    for (int alike = 0; alike < 2; alike++) {
        sp_known *k = known_of(MAX, NULL, 0);
        for (int i = 0; i < N; i++) {
            sp_known_add(k, 0, text, numbered(text, i, alike));
            assert_int_equal(sp_known_n(k), i < MAX ? i + 1 : MAX);
        }
        for (int i = 0; i < N; i++)
            assert_int_equal(is_known(k, text, numbered(text, i, alike)), i >= N - MAX);
        sp_known_destroy(k);
    }
}

/* -- any text -------------------------------------------------------------------------------- */

/* A text of pieces that are known, nearly known, separators and noise. */
static size_t random_text(uint64_t *seed, char *out, const char *separator)
{
    size_t n = 0;
    for (int i = check_random(seed, 12); i > 0; i--) {
        char piece[200] = "";
        switch (check_random(seed, 5)) {
        case 0:
            snprintf(piece, sizeof piece, "%s", harbour);
            break;
        case 1:
            snprintf(piece, sizeof piece, "%s", hotels);
            break;
        case 2:
            snprintf(piece, sizeof piece, "%s", hotels);
            piece[check_random(seed, (int)strlen(hotels))] = '?';
            break;
        case 3:
            snprintf(piece, sizeof piece, "%s", separator);
            break;
        default:
            for (int c = check_random(seed, 90); c > 0; c--)
                piece[c - 1] = "ab \n#|[\xC3"[check_random(seed, 8)];
        }
        n += (size_t)sprintf(out + n, "%s", piece);
    }
    return n;
}

static void joined_pieces_are_the_text(void **state)
{
    static const char *const separators[] = {"|", "\n# #\n", "aa", "\xC3", NULL};
    const char *const texts[] = {harbour, hotels};
    sp_known *k = known_of(8, texts, 2);
    uint64_t seed = 11;
    char text[4096];
    int n_chunks = 0;
    for (int round = 0; round < 3000; round++) {
        const char *separator = separators[round % 5];
        size_t n = random_text(&seed, text, separator ? separator : ""), at = 0;
        sp_cut_list cut = {0};
        assert_ok(sp_cut(k, 0, text, n, separator, &cut));
        for (size_t i = 0; i < cut.n; i++) {
            assert_ptr_equal(cut.v[i].text, text + at);
            assert_true(cut.v[i].n > 0);
            at += cut.v[i].n;
            n_chunks += cut.v[i].is_chunk;
        }
        assert_int_equal(at, n);
        sp_vec_fini(&cut);
    }
    assert_true(n_chunks > 3000);
    sp_known_destroy(k);
}

static void every_allocation_may_fail(void **state)
{
    const char *const texts[] = {harbour};
    sp_known *k = NULL;
    assert_survives_faults(sp_known_create(8, &k), k == NULL);
    sp_known_add(k, 0, texts[0], strlen(texts[0]));
    sp_cut_list cut = {0};
    assert_survives_faults(sp_cut(k, 0, harbour, strlen(harbour), "e", &cut), cut.n == 0);
    assert_true(cut.n > 2);
    sp_vec_fini(&cut);
    sp_known_destroy(k);
    sp_known_destroy(NULL);
}

/* -- prompts --------------------------------------------------------------------------------- */

static sp_context *open_context(void)
{
    sp_context *c = NULL;
    assert_ok(sp_context_open(
        &(sp_context_opts){.model = MODEL, .machine.n_threads = 1, .cache.kv_bytes = 4 << 20}, &c));
    return c;
}

static sp_prompt *message(sp_context *c, const char *text, const char *separator)
{
    sp_prompt *p;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_cut(p, text, separator, false));
    return p;
}

/* A chunk in a message has the content id that sp_prompt_chunk gives it, once it has been one. */
static void a_chunk_in_a_message_has_its_content_id(void **state)
{
    sp_context *c = open_context();
    char text[1000];
    snprintf(text, sizeof text, "Read this:\n%sWhen do boats leave?", harbour);
    sp_prompt *before = message(c, text, NULL), *over;
    assert_int_equal(before->segs.n, 1);
    assert_ok(sp_prompt_create(c, &over));
    assert_ok(sp_prompt_system(over, "Be brief."));
    assert_ok(sp_prompt_chunk(over, "Harbour",
                              "Boats leave Velm for Torin at nine and at noon, in "
                              "winter at noon alone."));
    sp_prompt *after = message(c, text, NULL), *alone = message(c, harbour, NULL);
    assert_int_equal(after->segs.n, 3);
    assert_int_equal(after->segs.v[0].kind, SP_SEG_TEXT);
    assert_int_equal(after->segs.v[1].kind, SP_SEG_CHUNK);
    assert_int_equal(after->segs.v[2].kind, SP_SEG_TEXT);
    assert_true(sp_digest_eq(&after->segs.v[1].id, &over->segs.v[1].id));
    const sp_segment *last = &alone->segs.v[alone->segs.n - 1]; /* BOS is no part of it */
    assert_int_equal(last->kind, SP_SEG_CHUNK);
    assert_true(sp_digest_eq(&last->id, &over->segs.v[1].id));
    text[20] ^= 1;
    sp_prompt *near = message(c, text, NULL);
    assert_int_equal(near->segs.n, 1);
    sp_prompt *all[] = {before, over, after, alone, near};
    for (size_t i = 0; i < SP_COUNT(all); i++) sp_prompt_destroy(all[i]);
    sp_context_close(c);
}

/* Chunks between separators are the same wherever they stand, and known from then on. */
static void chunks_between_separators_are_known_from_then_on(void **state)
{
    sp_context *c = open_context();
    char text[1000];
    snprintf(text, sizeof text, "Head.|%s|%s|When?", harbour, hotels);
    sp_prompt *a = message(c, text, "|");
    snprintf(text, sizeof text, "Another head.|%s|%s|Where?", hotels, harbour);
    sp_prompt *b = message(c, text, "|");
    snprintf(text, sizeof text, "Plain: %s| and on", hotels);
    sp_prompt *plain = message(c, text, NULL), *none = message(c, "", "|");
    assert_int_equal(a->segs.n, 4);
    assert_int_equal(b->segs.n, 4);
    assert_true(sp_digest_eq(&a->segs.v[1].id, &b->segs.v[2].id));
    assert_true(sp_digest_eq(&a->segs.v[2].id, &b->segs.v[1].id));
    assert_int_equal(plain->segs.n, 3);
    assert_true(sp_digest_eq(&plain->segs.v[1].id, &a->segs.v[2].id));
    assert_true(none->segs.n <= 1); /* BOS, if the model wants one */
    sp_prompt_destroy(a);
    sp_prompt_destroy(b);
    sp_prompt_destroy(plain);
    sp_prompt_destroy(none);
    sp_context_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(separators_cut_a_text),
        cmocka_unit_test(known_texts_are_found),
        cmocka_unit_test(known_texts_are_found_beside_separators),
        cmocka_unit_test(near_misses_are_not_found),
        cmocka_unit_test(the_longest_wins),
        cmocka_unit_test(the_oldest_is_forgotten),
        cmocka_unit_test(joined_pieces_are_the_text),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_chunk_in_a_message_has_its_content_id),
        cmocka_unit_test(chunks_between_separators_are_known_from_then_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
