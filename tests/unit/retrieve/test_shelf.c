/* test_shelf.c -- the shelf alone: deletion of documents that repeat themselves, and the turns of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "retrieve/shelf_int.h"

enum { MANY = 40000 };

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static sp_shelf *open_shelf(void)
{
    sp_shelf *s;
    assert_int_equal(sp_shelf_open(NULL, &s), SP_OK);
    return s;
}

/* chunk -- with ids of its text and, for the dressed one, its title. */
static sp_shelf_chunk chunk(const char *title, const char *text)
{
    sp_shelf_chunk c = {.title = title, .text = text, .n_tokens = 1};
    snprintf((char *)c.ids[0].b, sizeof c.ids[0].b, "%s|%s", title, text);
    snprintf((char *)c.ids[1].b, sizeof c.ids[1].b, "|%s", text);
    return c;
}

static sp_err put(sp_shelf *s, const char *id, bool replace, const sp_shelf_chunk *v, int n)
{
    const sp_shelf_row row = {.tenant = "t", .id = id, .title = id, .replace = replace};
    return sp_shelf_put(s, &row, v, n);
}

static sp_shelf_chunk *equal_chunks(int n)
{
    sp_shelf_chunk *v = calloc((size_t)n, sizeof *v);
    for (int i = 0; i < n; i++) v[i] = chunk("", "a");
    return v;
}

static int count(sp_shelf *s, const char *id)
{
    sp_hits h = {0};
    if (sp_shelf_chunks(s, "t", id, &h) != SP_OK) return -1;
    int n = h.n;
    sp_hits_fini(&h);
    return n;
}

/* -- one text many times ----------------------------------------------------------------------- */

static void a_text_that_a_document_repeats_is_looked_up_once(void **state)
{
    sp_shelf *s = open_shelf();
    sp_shelf_chunk *v = equal_chunks(MANY);
    sp_doomed d;
    assert_int_equal(put(s, "many", false, v, MANY), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "many"), SP_OK);
    double before = cpu_s();
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    double used = cpu_s() - before;
    assert_int_equal(d.rows.n, 1);
    assert_int_equal(d.ids.n, 1); /* without a title both ids are one */
    assert_int_equal(d.texts.n, 1);
    assert_string_equal(d.texts.v[0].text, "a");
    if (used > 5) fail_msg("%d equal chunks take %.1f s", MANY, used); /* 0.1 s; pairwise 100 s */
    assert_int_equal(sp_shelf_forget(s, &d), SP_OK);
    sp_doomed_fini(&d);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.rows.n, 0);
    sp_doomed_fini(&d);
    free(v);
    sp_shelf_close(s);
}

static void a_text_of_a_live_document_is_not_lost(void **state)
{
    sp_shelf *s = open_shelf();
    sp_shelf_chunk both[] = {chunk("T", "shared"), chunk("T", "own"), chunk("U", "shared")};
    sp_shelf_chunk other[] = {chunk("T", "shared")};
    sp_doomed d;
    assert_int_equal(put(s, "a", false, both, 3), SP_OK);
    assert_int_equal(put(s, "b", false, other, 1), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "a"), SP_OK);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.ids.n, 3); /* "T|own", "|own", "U|shared" */
    assert_int_equal(d.texts.n, 2);
    assert_string_equal(d.texts.v[0].text, "own");
    assert_string_equal(d.texts.v[1].title, "U");
    assert_string_equal(d.texts.v[1].root, "t");
    sp_doomed_fini(&d);
    sp_shelf_close(s);
}

static void only_documents_whose_copies_were_listed_are_forgotten(void **state)
{
    sp_shelf *s = open_shelf();
    sp_shelf_chunk one[] = {chunk("", "one")}, two[] = {chunk("", "two")};
    sp_doomed d;
    assert_int_equal(put(s, "one", false, one, 1), SP_OK);
    assert_int_equal(put(s, "two", false, two, 1), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "two"), SP_OK);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "one"), SP_OK); /* while those copies are erased */
    assert_int_equal(sp_shelf_forget(s, &d), SP_OK);
    sp_doomed_fini(&d);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.rows.n, 1);
    assert_int_equal(d.texts.n, 1);
    assert_string_equal(d.texts.v[0].text, "one");
    sp_doomed_fini(&d);
    sp_shelf_close(s);
}

/* -- slices ------------------------------------------------------------------------------------ */

static void a_replaced_document_of_many_slices_is_whole_or_absent(void **state)
{
    sp_shelf *s = open_shelf();
    sp_shelf_chunk *v = equal_chunks(MANY), one[] = {chunk("", "b")};
    sp_doomed d;
    assert_int_equal(put(s, "d", false, one, 1), SP_OK);
    assert_int_equal(put(s, "d", false, v, MANY), SP_E_ARG);
    assert_int_equal(count(s, "d"), 1);
    assert_int_equal(put(s, "d", true, v, MANY), SP_OK);
    assert_int_equal(count(s, "d"), MANY);
    assert_int_equal(put(s, "d", true, one, 1), SP_OK);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.rows.n, 2);
    assert_int_equal(d.ids.n, 1);
    assert_string_equal(d.texts.v[0].text, "a");
    sp_doomed_fini(&d);
    free(v);
    sp_shelf_close(s);
}

/* turns -- how often the connection was given away since *before. */
static int turns(const sp_shelf *s, uint64_t *before)
{
    int n = (int)(s->n_tickets - *before);
    *before = s->n_tickets;
    return n;
}

static void long_documents_are_worked_on_in_many_turns(void **state)
{
    enum { SLICES = MANY / SP_SHELF_SLICE };
    sp_shelf *s = open_shelf();
    sp_shelf_chunk *v = equal_chunks(MANY);
    uint64_t before = 0;
    sp_doomed d;
    turns(s, &before);
    assert_int_equal(put(s, "many", false, v, MANY), SP_OK);
    assert_true(SLICES > 8 && turns(s, &before) >= SLICES);
    assert_int_equal(sp_shelf_doom(s, "t", "many"), SP_OK);
    assert_int_equal(turns(s, &before), 1);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_true(turns(s, &before) >= SLICES);
    assert_int_equal(sp_shelf_forget(s, &d), SP_OK);
    assert_true(turns(s, &before) >= SLICES);
    assert_int_equal(s->n_served, s->n_tickets);
    sp_doomed_fini(&d);
    free(v);
    sp_shelf_close(s);
}

enum { THREADS = 4, ROUNDS = 50 };

static void *put_and_remove(void *arg)
{
    sp_shelf *s = arg;
    char id[24];
    snprintf(id, sizeof id, "%lx", (unsigned long)pthread_self());
    sp_shelf_chunk one[] = {chunk("", "a")};
    for (int i = 0; i < ROUNDS; i++)
        if (put(s, id, false, one, 1) != SP_OK || count(s, id) != 1 ||
            sp_shelf_doom(s, "t", id) != SP_OK)
            return s;
    return NULL;
}

static void threads_take_turns(void **state)
{
    sp_shelf *s = open_shelf();
    pthread_t threads[THREADS];
    sp_doomed d;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_and_remove, s), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.rows.n, THREADS * ROUNDS);
    assert_int_equal(d.ids.n, 1);
    assert_int_equal(sp_shelf_forget(s, &d), SP_OK);
    sp_doomed_fini(&d);
    sp_shelf_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_a_document_repeats_is_looked_up_once),
        cmocka_unit_test(a_text_of_a_live_document_is_not_lost),
        cmocka_unit_test(only_documents_whose_copies_were_listed_are_forgotten),
        cmocka_unit_test(a_replaced_document_of_many_slices_is_whole_or_absent),
        cmocka_unit_test(long_documents_are_worked_on_in_many_turns),
        cmocka_unit_test(threads_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
