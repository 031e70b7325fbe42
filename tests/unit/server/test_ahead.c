/* Whether beginning an answer during its search is expected to gain time, and what each stage reports. */
#include "server/documents/ahead.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "server/api/retrieval.h"
#include "server/documents/idle.h"
#include "support/check.h"

#define MS 1000

/* note -- a search of 100 ms whose passages after `first` and `second` stage are, or are not, those of its end. */
static void note(srv_ahead_notes *a, bool first, bool second, int64_t second_ms)
{
    const srv_ahead_search s = {
        .passages = {first ? 7 : 1, second ? 7 : 2, 7}, .at_us = {5 * MS, second_ms * MS, 99 * MS}, .n = 3};
    srv_ahead_note(a, &s, 100 * MS);
}

static const srv_ahead_machine idle = {.token_us = 400, .n_layers = 10, .spare_core = true},
                               busy = {.token_us = 400, .n_layers = 10, .spare_core = false};

static void nothing_is_expected_of_searches_that_were_not_seen(void **state)
{
    (void)state;
    srv_ahead_notes a;
    srv_ahead_init(&a);
    for (int i = 0; i < 3; i++) {
        assert_true(srv_ahead_gain(&a, 0, &idle) <= 0);
        note(&a, true, true, 10);
    }
    assert_true(srv_ahead_gain(&a, 0, &idle) > 0);
    assert_true(srv_ahead_gain(&a, SRV_AHEAD_STAGES, &idle) <= 0);
    srv_ahead_fini(&a);
}

/* Of 95 ms that are left, all are gained when the passages are always right; a wrong one costs a layer. */
static void the_gain_is_what_is_left_of_the_search(void **state)
{
    (void)state;
    srv_ahead_notes a;
    srv_ahead_init(&a);
    srv_ahead_note_prompt(&a, 500); /* 200 ms, a layer 20 */
    for (int i = 0; i < 40; i++) note(&a, i % 2 == 0, true, 50);
    assert_float_equal(srv_ahead_gain(&a, 1, &idle), 50 * MS, 1);
    /* the first is right half of the time: 95 ms, or 50 ms less a layer, instead of 50 by waiting */
    assert_float_equal(srv_ahead_gain(&a, 0, &idle), 0.5 * 95 * MS + 0.5 * (50 - 20) * MS - 50 * MS, 3 * MS);
    /* without a core to spare half of what is shared is gained, and lost */
    assert_float_equal(srv_ahead_gain(&a, 1, &busy), 25 * MS, 1);
    assert_float_equal(srv_ahead_gain(&a, 0, &busy),
                       0.5 * 47.5 * MS + 0.5 * (25 - 20 - 0.5 * 45) * MS - 25 * MS, 3 * MS);
    srv_ahead_fini(&a);
}

/* A stage that is right half of the time is not worth a layer when the next one, which is always right, is near. */
static void it_waits_for_a_stage_that_knows_better(void **state)
{
    (void)state;
    srv_ahead_notes a;
    srv_ahead_init(&a);
    srv_ahead_note_prompt(&a, 500);
    for (int i = 0; i < 40; i++) note(&a, i % 2 == 0, true, 12);
    assert_true(srv_ahead_gain(&a, 0, &idle) < 0 && srv_ahead_gain(&a, 1, &idle) > 80 * MS);
    srv_ahead_fini(&a);
}

/* What counts is the end of the search: the second stage always differs from it, the first never. */
static void a_stage_is_right_when_it_has_the_passages_of_the_end(void **state)
{
    (void)state;
    srv_ahead_notes a;
    srv_ahead_init(&a);
    for (int i = 0; i < 10; i++) note(&a, true, false, 50);
    assert_float_equal(srv_ahead_gain(&a, 0, &idle), 95 * MS, 1);
    assert_true(srv_ahead_gain(&a, 1, &idle) < 0);
    srv_ahead_fini(&a);
}

static void guesses_that_are_nearly_always_wrong_gain_nothing(void **state)
{
    (void)state;
    srv_ahead_notes a;
    srv_ahead_init(&a);
    srv_ahead_note_prompt(&a, 1000); /* a layer 40 ms */
    for (int i = 0; i < 40; i++) note(&a, i % 8 == 0, i % 8 == 0, 95);
    assert_true(srv_ahead_gain(&a, 0, &idle) < 0 && srv_ahead_gain(&a, 1, &idle) < 0);
    for (int i = 0; i < 60; i++) note(&a, true, true, 95); /* the collection has changed */
    assert_true(srv_ahead_gain(&a, 0, &idle) > 50 * MS);
    srv_ahead_fini(&a);
}

static void quick_searches_need_no_stages(void **state)
{
    (void)state;
    srv_ahead_notes a;
    const srv_ahead_search s = {.passages = {1, 1}, .at_us = {0, 100}, .n = 2};
    srv_ahead_init(&a);
    assert_false(srv_ahead_is_quick(&a));
    for (int i = 0; i < 3; i++) srv_ahead_note(&a, &s, 2 * MS);
    assert_true(srv_ahead_is_quick(&a));
    for (int i = 0; i < 40; i++) srv_ahead_note(&a, &s, 30 * MS);
    assert_false(srv_ahead_is_quick(&a));
    srv_ahead_fini(&a);
}

/* -- the stages of a search, which are the test's -------------------------------------------------------- */

enum { STAGES = 7 };

/* The passages of each stage, best first; 0: no more. */
static const int stages[STAGES][5] = {{3, 1, 2}, {2, 3, 1}, {1, 2}, {1, 3}, {1, 3}, {1, 3, 4}, {0}};
static const bool changes[STAGES] = {true, false, true, true, false, true, true};
static int n_asked, n_counted;

sp_err srv_collection_search(const srv_call *call, const srv_found *in, const sp_retrieve_query *q, sp_hits *out)
{
    for (int i = 0; i < STAGES; i++) {
        sp_hit v[5] = {0};
        sp_hits h = {.v = v};
        for (; stages[i][h.n]; h.n++) v[h.n].id = stages[i][h.n];
        if (!q->on_stage(&h, i + 1 == STAGES, q->user)) return SP_E_CANCELED;
    }
    n_asked = q->k;
    *out = (sp_hits){.n = SP_MIN(q->k, 5)};
    return SP_OK;
}

void srv_collection_count(const srv_call *call, const srv_found *in, const sp_hits *hits)
{
    n_counted = hits->n;
}

bool srv_collection_read(const srv_call *call, srv_fields *f, const char *name, srv_found *out)
{
    return true;
}

sp_err srv_collection_of_model(const srv_call *call, const char *model, srv_found *out)
{
    return SP_E_NOTFOUND;
}

void srv_idle_note(const srv_call *call, const srv_found *in)
{
}

static bool on_passages(const sp_hits *h, bool changed, bool last, void *user)
{
    int *n = user;
    for (int i = 1; i < h->n; i++) assert_true(h->v[i - 1].id < h->v[i].id);
    if (changed != changes[*n]) fail_msg("stage %d", *n);
    assert_int_equal(last, ++*n == STAGES);
    if (last) usleep(20000);
    return true;
}

static void a_stage_says_whether_it_has_other_passages(void **state)
{
    (void)state;
    for (int ranks = 0; ranks < 2; ranks++) {
        srv_ahead_notes notes;
        srv_fields f = {0};
        sp_err err = SP_OK;
        int n = n_counted = 0;
        srv_ahead_init(&notes);
        srv_retrieval r = {.k = 3, .rerank = ranks, .from.searches = &notes};
        const int64_t from = sp_clock_us();
        assert_true(srv_retrieval_search(&(srv_call){.retrieval = &r}, &f, "Who?", on_passages, &n, &err));
        const int64_t us = sp_clock_us() - from;
        assert_int_equal(n, STAGES);
        assert_int_equal(r.n_stages, STAGES);
        assert_int_equal(r.n_found, 0); /* of the last one */
        assert_int_equal(n_asked, ranks ? 12 : 3); /* four times as many as are kept */
        assert_int_equal(n_counted, ranks ? 0 : 3); /* the caller counts what the ranking keeps */
        assert_true(r.search_us <= us - 20000); /* without what the caller does meanwhile */
        srv_ahead_fini(&notes);
    }
}

static srv_ahead_notes shared;
static atomic_bool has_begun, has_ended;

static void *use(void *what)
{
    const srv_ahead_search s = {.passages = {1, 1}, .n = 2};
    has_begun = true;
    switch (*(const int *)what) {
    case 0:
        srv_ahead_note(&shared, &s, MS);
        break;
    case 1:
        srv_ahead_note_prompt(&shared, 100);
        break;
    case 2:
        (void)srv_ahead_gain(&shared, 0, &idle);
        break;
    default:
        (void)srv_ahead_is_quick(&shared);
    }
    has_ended = true;
    return NULL;
}

static void each_use_waits_for_the_one_before_it(void **state)
{
    (void)state;
    srv_ahead_init(&shared);
    for (int what = 0; what < 4; what++) {
        pthread_t thread;
        has_begun = has_ended = false;
        pthread_mutex_lock(&shared.lock);
        assert_int_equal(pthread_create(&thread, NULL, use, &what), 0);
        for (int i = 0; i < 1000 && !has_begun; i++) usleep(1000);
        usleep(20000);
        const bool waits = !has_ended;
        pthread_mutex_unlock(&shared.lock);
        pthread_join(thread, NULL);
        assert_true(waits && has_ended);
    }
    srv_ahead_fini(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_expected_of_searches_that_were_not_seen),
        cmocka_unit_test(the_gain_is_what_is_left_of_the_search),
        cmocka_unit_test(it_waits_for_a_stage_that_knows_better),
        cmocka_unit_test(a_stage_is_right_when_it_has_the_passages_of_the_end),
        cmocka_unit_test(guesses_that_are_nearly_always_wrong_gain_nothing),
        cmocka_unit_test(quick_searches_need_no_stages),
        cmocka_unit_test(a_stage_says_whether_it_has_other_passages),
        cmocka_unit_test(each_use_waits_for_the_one_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
