/* Search: ranking on a small corpus, and questions that are anything but plain words. */
#include "folder.h"

static int corpus_setup(void **state)
{
    if (folder_setup(state) != 0) return -1;
    folder *f = *state;
    folder_write(
        f, "animals.jsonl",
        "{\"title\": \"Badger\", \"text\": \"It digs setts and eats earthworms at night.\"}\n"
        "{\"title\": \"Mole\", \"text\": \"It digs tunnels and stores earthworms.\"}\n"
        "{\"title\": \"Otter\", \"text\": \"It swims in rivers and catches fish.\"}\n"
        "{\"title\": \"Heron\", \"text\": \"It stands in rivers. A badger never does.\"}\n"
        "{\"title\": \"The Who\", \"text\": \"They were a band from London.\"}\n"
        "{\"title\": \"Caf\\u00e9\", \"text\": \"Na\\u00efve cr\\u00e8me br\\u00fbl\\u00e9e for "
        "\\u6771\\u4eac.\"}\n");
    folder_index(f);
    return 0;
}

#define CORPUS_TEST(test) cmocka_unit_test_setup_teardown(test, corpus_setup, folder_teardown)

/* The titles of the hits, with blanks between. */
static const char *titles(folder *f, const char *question, int k)
{
    static char out[512];
    const char *line = folder_ask(f, question, k);
    size_t n = 0;
    out[0] = '\0';
    while (*line) {
        const char *title = strchr(line, ':') + 1, *end = strchr(title, ':');
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%.*s", n ? " " : "", (int)(end - title),
                              title);
        line = strchr(end, '\n') + 1;
    }
    return out;
}

static void the_best_match_comes_first(void **state)
{
    assert_string_equal(titles(*state, "Which animal digs tunnels?", 9), "Mole Badger");
    assert_string_equal(titles(*state, "fish in a river", 9), "Otter Heron");
    assert_string_equal(titles(*state, "fish in a river", 1), "Otter");
    assert_string_equal(titles(*state, "zebra", 9), "");
}

static void words_match_after_stemming_and_folding(void **state)
{
    assert_string_equal(titles(*state, "tunnel", 9), "Mole");
    assert_string_equal(titles(*state, "EARTHWORM digging tunnelling", 1), "Mole");
    assert_string_equal(titles(*state, "creme", 9), "Caf\xC3\xA9");
    assert_string_equal(titles(*state, "cr\xC3\xA8me", 9), "Caf\xC3\xA9");
    assert_string_equal(titles(*state, "\xE6\x9D\xB1\xE4\xBA\xAC", 9), "Caf\xC3\xA9");
}

static void a_title_counts_more_than_the_text(void **state)
{
    assert_string_equal(titles(*state, "badger", 9), "Badger Heron");
    folder_write(*state, "b.jsonl", "{\"title\": \"Kiln\", \"text\": \"Clay is dried for days before it is fired "
                                    "there, in stacks of a hundred and more.\"}\n"
                                    "{\"title\": \"Brick\", \"text\": \"A kiln makes it.\"}\n");
    folder_index(*state);
    assert_string_equal(titles(*state, "kiln", 9), "Kiln Brick"); /* though its text is longer */
}

static void stop_words_count_when_nothing_else_is_there(void **state)
{
    assert_string_equal(titles(*state, "Who are they?", 1), "The Who");
    /* with a word that says something, "in" and "it" find nothing more */
    assert_string_equal(titles(*state, "Is it in London?", 9), "The Who");
}

static void a_repeated_word_counts_once(void **state)
{
    assert_string_equal(titles(*state, "fish earthworms tunnels", 1), "Mole");
    assert_string_equal(titles(*state, "fish fish fish FISH fish fish earthworms tunnels", 1),
                        "Mole");
}

static void scores_fall_and_equal_ones_stand_by_id(void **state)
{
    folder *f = *state;
    char name[32];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "same%02d.jsonl", i);
        folder_write(f, name, "{\"title\": \"\", \"text\": \"Equal texts about quartz.\"}");
    }
    folder_index(f);
    sp_index *ix;
    sp_hits hits;
    assert_int_equal(sp_index_open(f->index, &ix), SP_OK);
    assert_int_equal(sp_index_n_chunks(ix), 26);
    assert_int_equal(sp_index_search(ix, "quartz equal", 15, &hits), SP_OK);
    assert_int_equal(hits.n, 15);
    for (int i = 1; i < hits.n; i++) {
        assert_true(hits.v[i].score <= hits.v[i - 1].score);
        if (hits.v[i].score == hits.v[i - 1].score) assert_true(hits.v[i].id > hits.v[i - 1].id);
    }
    assert_true(hits.v[0].score > 0);
    sp_hits_fini(&hits);
    sp_index_close(ix);
}

static void nothing_in_a_question_is_syntax(void **state)
{
    static const char *const questions[] = {
        "",
        " ",
        "\"",
        "\"\"",
        "\"badger",
        "badger\"",
        "'",
        "*",
        "badger*",
        "^badger",
        "-badger",
        "+",
        "(",
        ")",
        "NEAR(badger mole)",
        "NOT badger",
        "badger AND",
        "OR",
        "AND OR NOT",
        "title: badger",
        "title:badger",
        "{title text}: badger",
        "a\\b",
        "; DROP TABLE chunks; --",
        "words MATCH 'x'",
        "?1",
        ":name",
        "\x01\x02",
        "\xF0\x9F\x98\x80",
        "\xF0\x9F\xA6\xA1 badger \xF0\x9F\x98\x80",
        ("\xE2\x80\x9C"
         "badger\xE2\x80\x9D"),
        "\xE2\x80\x94",
        "\xFF\xFE badger \xC3",
        "\xE2\x80",
        "badger\xE2",
        "%s%n",
        "badger\nmole\tfish\r",
    };
    for (size_t i = 0; i < SP_COUNT(questions); i++) {
        const char *found = titles(*state, questions[i], 9);
        if (strstr(questions[i], "badger") && !strstr(found, "Badger"))
            fail_msg("\"%s\" finds only \"%s\"", questions[i], found);
    }
    assert_string_equal(titles(*state, "title:badger", 9), "Badger Heron");
    assert_string_equal(titles(*state, "NOT badger", 9), "Badger Heron");
    assert_string_equal(titles(*state, "badger\xE2\x80\x94mole", 9), "Mole Badger Heron");
    assert_string_equal(titles(*state, "mole\0badger", 9), "Mole");
}

static void random_bytes_are_a_question(void **state)
{
    folder *f = *state;
    sp_index *ix;
    assert_int_equal(sp_index_open(f->index, &ix), SP_OK);
    uint32_t seed = 1;
    for (int round = 0; round < 500; round++) {
        char question[64];
        for (size_t i = 0; i < sizeof question - 1; i++) {
            seed = seed * 1664525u + 1013904223u;
            question[i] = (char)(seed >> 24);
        }
        question[sizeof question - 1] = '\0';
        sp_hits hits;
        sp_err err = sp_index_search(ix, question, 3, &hits);
        if (err != SP_OK) fail_msg("round %d: %s", round, sp_error_detail());
        sp_hits_fini(&hits);
    }
    sp_index_close(ix);
}

static void a_very_long_question_is_answered(void **state)
{
    char *question = malloc(1 << 20);
    size_t n = 0;
    for (int i = 0; n + 32 < 1 << 20; i++) n += (size_t)sprintf(question + n, "w%d ", i);
    memcpy(question, "tunnels ", 8);
    assert_string_equal(titles(*state, question, 9), "Mole");
    memset(question, 'x', (1 << 20) - 1);
    question[(1 << 20) - 1] = '\0';
    assert_string_equal(titles(*state, question, 9), "");
    free(question);
}

static void a_number_of_hits_below_one_is_refused(void **state)
{
    folder *f = *state;
    sp_index *ix;
    sp_hits hits = {.n = 77};
    assert_int_equal(sp_index_open(f->index, &ix), SP_OK);
    assert_int_equal(sp_index_search(ix, "badger", 0, &hits), SP_E_ARG);
    assert_int_equal(sp_index_search(ix, "badger", -5, &hits), SP_E_ARG);
    assert_int_equal(hits.n, 77); /* untouched */
    assert_int_equal(sp_index_search(ix, "badger", 1 << 30, &hits), SP_OK);
    assert_int_equal(hits.n, 2);
    sp_hits_fini(&hits);
    sp_hits_fini(&hits); /* once more does no harm */
    sp_index_close(ix);
    sp_index_close(NULL);
}

static sp_err open_and_search(folder *f, int *n)
{
    sp_index *ix;
    sp_hits hits;
    SP_TRY(sp_index_open(f->index, &ix));
    sp_err err = sp_index_search(ix, "badger digs rivers", 9, &hits);
    if (err == SP_OK) {
        *n = hits.n;
        sp_hits_fini(&hits);
    }
    sp_index_close(ix);
    return err;
}

static void running_out_of_memory_is_an_error(void **state)
{
    sp_err err = SP_E_NOMEM;
    int allocation = 1, n = 0;
    for (; err != SP_OK; allocation++) {
        assert_in_range(allocation, 1, 1000);
        sp_fault_after(allocation);
        err = open_and_search(*state, &n);
        sp_fault_after(-1);
        assert_true(err == SP_OK || err == SP_E_NOMEM);
    }
    assert_true(allocation > 5);
    assert_int_equal(n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CORPUS_TEST(the_best_match_comes_first),
        CORPUS_TEST(words_match_after_stemming_and_folding),
        CORPUS_TEST(a_title_counts_more_than_the_text),
        CORPUS_TEST(stop_words_count_when_nothing_else_is_there),
        CORPUS_TEST(a_repeated_word_counts_once),
        CORPUS_TEST(scores_fall_and_equal_ones_stand_by_id),
        CORPUS_TEST(nothing_in_a_question_is_syntax),
        CORPUS_TEST(random_bytes_are_a_question),
        CORPUS_TEST(a_very_long_question_is_answered),
        CORPUS_TEST(a_number_of_hits_below_one_is_refused),
        CORPUS_TEST(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
