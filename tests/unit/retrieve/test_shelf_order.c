/* test_shelf_order.c -- registrations and deletions of one document take effect in the order in which they arrived. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "retrieve/shelf/collections.h"
#include "retrieve/shelf/shelf_int.h"

static const sp_shelf_chunk text = {.title = "T", .text = "a text", .n_tokens = 2};

static sp_shelf *open_shelf(void)
{
    sp_shelf *s;
    assert_int_equal(sp_shelf_open(NULL, &s), SP_OK);
    return s;
}

static sp_err put_titled(sp_shelf *s, const char *id, const char *title, bool replace, sp_documents_arrival *arrival)
{
    const sp_shelf_row row = {.tenant = "t", .id = id, .title = title, .replace = replace, .arrival = arrival};
    return sp_shelf_put(s, &row, &text, 1);
}

/* put -- arrival NULL: it arrives now, and nothing is later. */
static sp_err put(sp_shelf *s, const char *id, sp_documents_arrival *arrival)
{
    return put_titled(s, id, id, true, arrival);
}

static void assert_title(sp_shelf *s, const char *id, const char *title)
{
    sp_document_list l;
    assert_int_equal(sp_shelf_list(s, &(sp_shelf_query){.tenant = "t", .id = id, .limit = 9}, &l), SP_OK);
    assert_int_equal(l.n, 1);
    assert_string_equal(l.v[0].title, title);
    sp_document_list_fini(&l);
}

static bool is_there(sp_shelf *s, const char *id)
{
    sp_hits h;
    if (sp_shelf_chunks(s, "t", id, 0, &h) != SP_OK) return false;
    sp_hits_fini(&h);
    return true;
}

static void what_arrived_before_a_deletion_does_not_appear_after_it(void **state)
{
    for (int found = 0; found < 2; found++) {
        sp_shelf *s = open_shelf();
        sp_documents_arrival before, after;
        if (found) assert_int_equal(put(s, "a", NULL), SP_OK);
        sp_shelf_arrive(s, &before);
        assert_int_equal(sp_shelf_doom(s, "t", "a"), found ? SP_OK : SP_E_NOTFOUND);
        sp_shelf_arrive(s, &after);
        assert_int_equal(put(s, "a", &before), SP_E_CANCELED);
        assert_non_null(strstr(sp_error_detail(), "\"a\" was deleted"));
        assert_false(is_there(s, "a"));
        assert_int_equal(put(s, "a", &after), SP_OK);
        assert_true(is_there(s, "a"));
        sp_shelf_depart(s, &before);
        sp_shelf_depart(s, &after);
        sp_shelf_close(s);
    }
}

static void other_deletions_do_not_matter(void **state)
{
    sp_shelf *s = open_shelf();
    sp_documents_arrival early, late;
    sp_shelf_arrive(s, &early);
    assert_int_equal(sp_shelf_doom(s, "t", "a"), SP_E_NOTFOUND);
    sp_shelf_arrive(s, &late);
    assert_int_equal(sp_shelf_doom(s, "t", "b"), SP_E_NOTFOUND);
    assert_int_equal(sp_shelf_doom(s, "another", "a"), SP_E_NOTFOUND);
    assert_int_equal(put(s, "a", &late), SP_OK);
    assert_int_equal(put(s, "c", &early), SP_OK);
    sp_shelf_depart(s, &late);
    sp_shelf_depart(s, &early);
    sp_shelf_close(s);
}

/* Also when there is a new collection of its name. */
static void nothing_appears_in_a_collection_that_was_deleted_later(void **state)
{
    sp_shelf *s = open_shelf();
    sp_documents_arrival before;
    assert_int_equal(sp_shelf_add_collection(s, "t", "box", 1), SP_OK);
    assert_int_equal(sp_shelf_add_collection(s, "t", "bo", 1), SP_OK);
    sp_shelf_arrive(s, &before);
    assert_int_equal(sp_shelf_drop_collection(s, "t", "box"), SP_OK);
    assert_int_equal(sp_shelf_add_collection(s, "t", "box", 1), SP_OK);
    assert_int_equal(put(s, "box/a", &before), SP_E_CANCELED);
    assert_int_equal(put(s, "bo/a", &before), SP_OK);
    assert_int_equal(put(s, "box", &before), SP_OK); /* a document outside collections */
    sp_shelf_depart(s, &before);
    assert_int_equal(put(s, "box/a", NULL), SP_OK);
    sp_shelf_close(s);
}

/* An order of arrival, not of what ended first. */
static void of_two_registrations_the_later_one_stays(void **state)
{
    sp_shelf *s = open_shelf();
    sp_documents_arrival first, second, third;
    sp_shelf_arrive(s, &first);
    sp_shelf_arrive(s, &second);
    sp_shelf_arrive(s, &third);
    assert_int_equal(put_titled(s, "a", "2", true, &second), SP_OK);
    assert_false(second.replaced);
    assert_int_equal(put_titled(s, "a", "1", true, &first), SP_OK);
    assert_true(first.replaced);
    assert_title(s, "a", "2");
    assert_int_equal(put_titled(s, "a", "1", false, &first), SP_E_ARG);
    assert_int_equal(put_titled(s, "b", "1", true, &first), SP_OK);
    assert_false(first.replaced);
    assert_title(s, "b", "1");
    assert_int_equal(put_titled(s, "a", "3", true, &third), SP_OK);
    assert_title(s, "a", "3");
    assert_int_equal(sp_shelf_doom(s, "t", "a"), SP_OK);
    assert_int_equal(put_titled(s, "a", "2", true, &second), SP_E_CANCELED);
    sp_shelf_depart(s, &third);
    sp_shelf_depart(s, &first);
    sp_shelf_depart(s, &second);
    assert_int_equal(put_titled(s, "a", "4", true, NULL), SP_OK);
    sp_shelf_close(s);
}

static int refuse_commit(void *unused)
{
    SP_UNUSED(unused);
    return 1;
}

/* What was not done orders nothing. */
static void a_change_that_fails_is_none(void **state)
{
    sp_shelf *s = open_shelf();
    sp_documents_arrival first, second;
    assert_int_equal(sp_shelf_add_collection(s, "t", "box", 1), SP_OK);
    assert_int_equal(put(s, "a", NULL), SP_OK);
    sp_shelf_arrive(s, &first);
    sp_shelf_arrive(s, &second);
    sqlite3_commit_hook(s->db, refuse_commit, NULL);
    assert_int_equal(put_titled(s, "a", "2", true, &second), SP_E_IO);
    assert_int_equal(sp_shelf_doom(s, "t", "a"), SP_E_IO);
    assert_int_equal(sp_shelf_drop_collection(s, "t", "box"), SP_E_IO);
    sqlite3_commit_hook(s->db, NULL, NULL);
    assert_int_equal(put_titled(s, "a", "1", true, &first), SP_OK);
    assert_false(first.replaced);
    assert_title(s, "a", "1");
    assert_int_equal(put(s, "box/a", &first), SP_OK);
    sp_shelf_depart(s, &first);
    sp_shelf_depart(s, &second);
    sp_shelf_close(s);
}

static size_t n_kept(const sp_shelf *s)
{
    return s->order.events.n;
}

/* A deletion is known for as long as something that arrived before it has not ended. */
static void deletions_are_forgotten(void **state)
{
    sp_shelf *s = open_shelf();
    sp_documents_arrival a, b, c;
    assert_int_equal(sp_shelf_doom(s, "t", "x"), SP_E_NOTFOUND);
    assert_int_equal(n_kept(s), 0);
    sp_shelf_arrive(s, &a);
    assert_int_equal(sp_shelf_doom(s, "t", "x"), SP_E_NOTFOUND);
    sp_shelf_arrive(s, &b);
    assert_int_equal(sp_shelf_doom(s, "t", "y"), SP_E_NOTFOUND);
    sp_shelf_arrive(s, &c);
    assert_int_equal(n_kept(s), 2);
    sp_shelf_depart(s, &c);
    assert_int_equal(n_kept(s), 2);
    sp_shelf_depart(s, &a);
    assert_int_equal(n_kept(s), 1);
    assert_int_equal(put(s, "y", &b), SP_E_CANCELED);
    assert_int_equal(put(s, "x", &b), SP_OK);
    sp_shelf_arrive(s, &c); /* at the end of the list, which has lost its last */
    sp_shelf_depart(s, &b);
    assert_int_equal(n_kept(s), 0);
    assert_int_equal(sp_shelf_doom(s, "t", "y"), SP_E_NOTFOUND);
    assert_int_equal(put(s, "y", &c), SP_E_CANCELED);
    sp_shelf_depart(s, &c);
    sp_shelf_close(s);
}

/* -- a document of several slices ---------------------------------------------------------------- */

enum { N = 20 * SP_SHELF_SLICE };

typedef struct long_one {
    sp_shelf *s;
    sp_documents_arrival arrival;
    bool replace;
    sp_err err;
} long_one;

static void *put_long(void *arg)
{
    long_one *l = arg;
    sp_shelf_chunk *v = calloc(N, sizeof *v);
    for (int i = 0; i < N; i++) v[i] = text;
    const sp_shelf_row row = {.tenant = "t", .id = "long", .title = "", .replace = l->replace, .arrival = &l->arrival};
    l->err = sp_shelf_put(l->s, &row, v, N);
    free(v);
    return NULL;
}

static int64_t n_partial(sp_shelf *s)
{
    int64_t n;
    sp_shelf_enter(s);
    assert_int_equal(sp_db_number(s->db, s->path, "SELECT count(*) FROM documents WHERE doomed = 2", &n), SP_OK);
    sp_shelf_leave(s);
    return n;
}

static void a_deletion_between_two_slices_holds(void **state)
{
    long_one l = {.s = open_shelf()};
    pthread_t thread;
    sp_shelf_arrive(l.s, &l.arrival);
    assert_int_equal(pthread_create(&thread, NULL, put_long, &l), 0);
    while (!n_partial(l.s)) continue;
    assert_int_equal(sp_shelf_doom(l.s, "t", "long"), SP_E_NOTFOUND);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(l.err, SP_E_CANCELED);
    assert_false(is_there(l.s, "long"));
    assert_int_equal(n_partial(l.s), 0);
    sp_shelf_depart(l.s, &l.arrival);
    sp_shelf_close(l.s);
}

static void a_registration_between_two_slices_stays(void **state)
{
    long_one l = {.s = open_shelf(), .replace = true};
    pthread_t thread;
    sp_documents_arrival later;
    sp_shelf_arrive(l.s, &l.arrival);
    sp_shelf_arrive(l.s, &later);
    assert_int_equal(pthread_create(&thread, NULL, put_long, &l), 0);
    while (!n_partial(l.s)) continue;
    assert_int_equal(put_titled(l.s, "long", "short", true, &later), SP_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(l.err, SP_OK);
    assert_true(l.arrival.replaced);
    assert_title(l.s, "long", "short");
    assert_int_equal(n_partial(l.s), 0);
    sp_shelf_depart(l.s, &l.arrival);
    sp_shelf_depart(l.s, &later);
    sp_shelf_close(l.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_arrived_before_a_deletion_does_not_appear_after_it),
        cmocka_unit_test(other_deletions_do_not_matter),
        cmocka_unit_test(nothing_appears_in_a_collection_that_was_deleted_later),
        cmocka_unit_test(of_two_registrations_the_later_one_stays),
        cmocka_unit_test(a_change_that_fails_is_none),
        cmocka_unit_test(deletions_are_forgotten),
        cmocka_unit_test(a_deletion_between_two_slices_holds),
        cmocka_unit_test(a_registration_between_two_slices_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
