/* test_deletion_waits.c -- a deletion waits for whoever has the text and may yet compute a copy of it: requests that
 * wait or run, readings, the computing of copies ahead, checks of the guard. It does not wait for a registration of
 * the same document, which fails. */
#include <pthread.h>
#include <time.h>

#include "registered.h"
#include "retrieve/shelf/shelf_int.h"
#include "serve/guard/checks.h"

/* What a request that waits, or that computes the text first, keeps: there is no copy to be pinned when its document
 * is deleted. */
static void what_a_request_computes_meanwhile_goes_too(void **state)
{
    for (int runs = 0; runs < 2; runs++) {
        bench b;
        sp_documents_removed n;
        bool busy;
        bench_begin(&b);
        bench_close(&b);
        bench_open(&b, (sp_context_opts){.n_batch = 8});
        put(&b, NULL, "one", story);
        sp_request *r = submit_about(&b, prompt_about(&b, NULL, story));
        if (runs) assert_ok(sp_context_step(b.c, &busy));
        assert_ok(sp_documents_remove(b.d, NULL, "one", 0, &n));
        assert_int_equal(n.n_pending, 1);
        finish(&b);
        assert_int_equal(sp_request_result(r)->n_generated, 8);
        sp_request_destroy(r);
        tiers_rest(b.c->tiers);
        assert_ok(sp_documents_tick(b.d, 0));
        assert_int_equal(files_with(b.dir, story + 8, 40), 0);
        assert_string_equal(ask_about(&b, NULL, "full", story, NULL).missed, "never seen");
        bench_end(&b);
    }
}

/* is_in_file -- its text is in the file, doomed or not. */
static bool is_in_file(const bench *b)
{
    return files_with(b->dir, story + 8, 40) > 0;
}

static void a_deletion_waits_for_readings_before_it(void **state)
{
    bench b;
    sp_documents_removed n;
    sp_documents_reading before, also, after;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    compute(&b, NULL, "one", 0);
    assert_ok(sp_documents_begin_reading(b.d, NULL, &before));
    assert_ok(sp_documents_begin_reading(b.d, NULL, &also));
    sp_prompt *p = prompt_about(&b, NULL, story);
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, &n));
    assert_int_equal(n.n_pending, 2);
    assert_ok(sp_documents_tick(b.d, 0));
    assert_ok(sp_documents_begin_reading(b.d, NULL, &after));
    sp_request *r = submit_about(&b, p);
    sp_documents_end_reading(&also);
    sp_documents_end_reading(&also); /* nothing more */
    assert_ok(sp_documents_tick(b.d, 0));
    finish(&b);
    sp_request_destroy(r);
    assert_ok(sp_documents_tick(b.d, 0));
    assert_true(is_in_file(&b)); /* the first reading might submit another one */
    sp_documents_end_reading(&before);
    assert_ok(sp_documents_tick(b.d, 0));
    assert_false(is_in_file(&b)); /* the last one cannot have seen it */
    sp_documents_end_reading(&after);
    assert_string_equal(ask_about(&b, NULL, "full", story, NULL).missed, "never seen");
    bench_end(&b);
}

static void every_list_has_readings_of_its_own(void **state)
{
    bench b;
    sp_documents_reading first, second;
    sp_document_list l;
    const int64_t later = time(NULL) + 100;
    const sp_document_new expiring = {.id = "one", .title = "T", .text = story, .ttl_s = 1};
    bench_begin(&b);
    for (int again = 0; again < 2; again++) {
        assert_ok(sp_documents_put(b.d, NULL, &expiring, &l));
        sp_document_list_fini(&l);
        assert_ok(sp_documents_begin_reading(b.d, NULL, again ? &second : &first));
        assert_ok(sp_documents_tick(b.d, later));
        assert_true(is_in_file(&b));
        sp_documents_end_reading(again ? &second : &first);
        assert_ok(sp_documents_tick(b.d, later));
        assert_false(is_in_file(&b));
    }
    bench_end(&b);
}

/* Neither waits for it nor counts it. */
static void a_deletion_knows_nothing_of_another_tenants_readings(void **state)
{
    bench b;
    sp_documents_removed n;
    sp_documents_reading reds, nobodys, blues;
    bench_begin(&b);
    put(&b, "red", "one", story);
    assert_ok(sp_documents_begin_reading(b.d, "blue", &blues));
    assert_ok(sp_documents_begin_reading(b.d, "red", &reds));
    assert_ok(sp_documents_begin_reading(b.d, NULL, &nobodys));
    assert_ok(sp_documents_remove(b.d, "red", "one", 0, &n));
    assert_int_equal(n.n_pending, 1);
    sp_documents_end_reading(&reds);
    put(&b, "red", "two", other);
    assert_ok(sp_documents_remove(b.d, "red", "two", 0, &n));
    assert_int_equal(n.n_pending, 0);
    assert_false(is_in_file(&b));
    sp_documents_end_reading(&nobodys);
    sp_documents_end_reading(&blues);
    bench_end(&b);
}

/* What was found is known, and is being ranked: other documents can be deleted. */
static void a_deletion_waits_for_readings_that_may_have_its_text(void **state)
{
    bench b;
    sp_hits one, two;
    sp_documents_removed n;
    sp_documents_reading narrow, empty;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    put(&b, NULL, "two", other);
    assert_ok(sp_documents_chunks(b.d, NULL, "one", &one));
    assert_ok(sp_documents_chunks(b.d, NULL, "two", &two));
    assert_ok(sp_documents_begin_reading(b.d, NULL, &narrow));
    assert_ok(sp_documents_begin_reading(b.d, NULL, &empty));
    sp_documents_narrow_reading(&narrow, &two);
    sp_documents_narrow_reading(&narrow, &one);
    sp_documents_narrow_reading(&empty, &(sp_hits){0});
    assert_ok(sp_documents_remove(b.d, NULL, "two", 0, &n));
    assert_int_equal(n.n_pending, 0);
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, &n));
    assert_int_equal(n.n_pending, 1);
    sp_documents_end_reading(&narrow);
    sp_documents_end_reading(&empty);
    sp_documents_narrow_reading(&narrow, &one); /* nothing: it has ended */
    assert_ok(sp_documents_tick(b.d, 0));
    assert_false(is_in_file(&b));
    sp_hits_fini(&one);
    sp_hits_fini(&two);
    bench_end(&b);
}

typedef struct removing {
    bench *b;
    sp_documents_removed n;
} removing;

static bool remove_it(int64_t done, int64_t total, void *user)
{
    removing *r = user;
    SP_UNUSED(total);
    if (done == 1) assert_ok(sp_documents_remove(r->b->d, NULL, "one", 0, &r->n));
    return true;
}

/* n_chunk_copies -- of any document. */
static int n_chunk_copies(const bench *b)
{
    int n = 0;
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->c->ledger, c));)
        n += c->facts.kind == SP_COPY_PLAIN || c->facts.kind == SP_COPY_FUSED;
    return n;
}

/* Their chunks were read before the deletion, which does not wait for those that have no request yet. */
static void no_more_chunks_of_it_are_computed(void **state)
{
    for (int n_fuse = 0; n_fuse < 2; n_fuse++) {
        bench b;
        char text[1200] = "";
        sp_documents_computed n;
        bench_begin(&b);
        for (int i = 0; i < 8; i++) {
            const size_t n_text = strlen(text);
            snprintf(text + n_text, sizeof text - n_text, "%d. %s\n\n", i, i % 2 ? story : other);
        }
        removing r = {.b = &b};
        sp_documents_close(b.d);
        assert_ok(sp_documents_open(b.c, &(sp_documents_opts){.path = b.db, .size_words = 20}, &b.d));
        put(&b, NULL, "one", text);
        const sp_documents_compute o = {.system = SYSTEM, .n_fuse = n_fuse, .progress = remove_it, .user = &r};
        assert_fails(sp_documents_precompute(b.d, NULL, "one", &o, &n), SP_E_NOTFOUND, "deleted");
        assert_true(n.n_chunks > 1);
        assert_int_equal(n.n_computed, 1);
        assert_int_equal(r.n.n_pending, 0);
        assert_int_equal(n_chunk_copies(&b), 0);
        bench_end(&b);
    }
}

static bool nobody_reads(void *user)
{
    const bench *b = user;
    return sp_readings_among(&b->d->readings, NULL, UINT64_MAX, &(sp_hits){0}) == 0;
}

/* Passages of an index are of no document, and cannot be deleted. */
static void a_passage_of_a_deleted_document_is_not_computed(void **state)
{
    bench b;
    sp_hits all;
    sp_collection_computed n;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    assert_ok(sp_documents_chunks(b.d, NULL, "one", &all));
    sp_collection_copy o = {
        .system = SYSTEM, .passage = &all.v[0], .registered = true, .go_on = nobody_reads, .user = &b};
    assert_ok(sp_collection_compute(b.d, &o, &n)); /* while it runs, other documents can be deleted at once */
    assert_true(n.fresh);
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, NULL));
    assert_fails(sp_collection_compute(b.d, &o, &n), SP_E_NOTFOUND, "deleted");
    assert_int_equal(n_chunk_copies(&b), 0);
    o.registered = false;
    assert_ok(sp_collection_compute(b.d, &o, &n));
    assert_true(n.fresh);
    sp_hits_fini(&all);
    bench_end(&b);
}

/* ask_sampled -- as the context's policy says, so that the guard samples it. */
static void ask_sampled(bench *b, const char *text)
{
    sp_request *r;
    sp_prompt *p = prompt_about(b, NULL, text);
    const sp_request_opts o = {.sampling = sp_sampling_default(), .max_tokens = 2};
    assert_ok(sp_generate(b->c, p, &o, &r));
    sp_request_destroy(r);
    sp_prompt_destroy(p);
}

/* The guard notes prompts and computes them again when nothing else is to be done. */
static void the_guard_forgets_prompts_with_it(void **state)
{
    bench b;
    sp_digests ids = {0};
    char tenant[SP_TENANT_BYTES];
    bench_begin(&b);
    bench_close(&b);
    bench_open(&b, (sp_context_opts){.reuse.policy = "full", .guard = {.share = 1, .bound = 1e6f}});
    put(&b, NULL, "one", story);
    assert_ok(sp_tenant_name(NULL, tenant));
    assert_ok(sp_shelf_ids(b.d->shelf, tenant, "one", &ids));
    sp_digests_sort(ids.v, ids.n);
    const sp_guard *g = b.c->guard;
    ask_sampled(&b, other);
    ask_sampled(&b, story);
    ask_sampled(&b, other);
    assert_int_equal(g->n_waiting, 3);
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, NULL));
    assert_int_equal(g->n_waiting, 2);
    for (int i = 0; i < g->n_waiting; i++)
        for (size_t k = 0; k < g->waiting[i]->prompt.segs.n; k++)
            assert_false(sp_digest_among(&g->waiting[i]->prompt.segs.v[k].id, ids.v, ids.n));
    finish(&b);
    assert_int_equal(g->n_waiting, 0);
    sp_vec_fini(&ids);
    bench_end(&b);
}

/* -- registrations that a deletion passes -------------------------------------------------------- */

typedef struct registering {
    bench b;
    sp_document_new n;
    sp_err err;
} registering;

static void *register_it(void *arg)
{
    registering *r = arg;
    sp_document_list l;
    r->err = sp_documents_put(r->b.d, NULL, &r->n, &l);
    if (r->err == SP_OK) sp_document_list_fini(&l);
    return NULL;
}

static uint64_t n_arrived(const bench *b)
{
    sp_shelf_order *o = &b->d->shelf->order;
    pthread_mutex_lock(&o->lock);
    const uint64_t n = o->n;
    pthread_mutex_unlock(&o->lock);
    return n;
}

static void a_text_that_is_deleted_while_it_is_cut_is_not_registered(void **state)
{
    enum { WORDS = 100000 };
    registering r = {0};
    pthread_t thread;
    char *text = malloc(WORDS * sizeof "harbour "), *end = text;
    for (int i = 0; i < WORDS; i++) end = stpcpy(end, "harbour ");
    bench_begin(&r.b);
    r.n = (sp_document_new){.id = "one", .text = text};
    const uint64_t n = n_arrived(&r.b);
    assert_int_equal(pthread_create(&thread, NULL, register_it, &r), 0);
    while (n_arrived(&r.b) == n) sched_yield();
    assert_fails(sp_documents_remove(r.b.d, NULL, "one", 0, NULL), SP_E_NOTFOUND, "one");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(r.err, SP_E_CANCELED);
    put(&r.b, NULL, "one", story); /* which arrives later */
    bench_end(&r.b);
    free(text);
}

static void a_registration_arrives_when_the_caller_says_so(void **state)
{
    sp_documents_arrival a, another;
    registering r = {.n = {.id = "one", .text = story, .arrival = &a}};
    bench_begin(&r.b);
    sp_documents_arrive(r.b.d, &a);
    sp_documents_arrive(r.b.d, &another);
    assert_fails(sp_documents_remove(r.b.d, NULL, "one", 0, NULL), SP_E_NOTFOUND, "one");
    register_it(&r);
    assert_int_equal(r.err, SP_E_CANCELED);
    sp_documents_depart(&a);
    sp_documents_depart(&a); /* nothing more */
    register_it(&r); /* as one that arrives with the call */
    assert_int_equal(r.err, SP_OK);
    sp_documents_depart(&another);
    bench_end(&r.b);
}

/* Between its end on the shelf and the end of the call. */
static void a_document_that_is_deleted_at_once_was_deleted(void **state)
{
    registering r = {.n = {.id = "one", .text = story}};
    pthread_t thread;
    sp_document_list l;
    bench_begin(&r.b);
    pthread_mutex_lock(&r.b.d->lock);
    assert_int_equal(pthread_create(&thread, NULL, register_it, &r), 0);
    while (sp_documents_get(r.b.d, NULL, "one", &l) != SP_OK) sched_yield();
    sp_document_list_fini(&l);
    assert_ok(sp_shelf_doom(r.b.d->shelf, "", "one"));
    pthread_mutex_unlock(&r.b.d->lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(r.err, SP_E_CANCELED);
    bench_end(&r.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_request_computes_meanwhile_goes_too),
        cmocka_unit_test(a_deletion_waits_for_readings_before_it),
        cmocka_unit_test(every_list_has_readings_of_its_own),
        cmocka_unit_test(a_deletion_knows_nothing_of_another_tenants_readings),
        cmocka_unit_test(a_deletion_waits_for_readings_that_may_have_its_text),
        cmocka_unit_test(no_more_chunks_of_it_are_computed),
        cmocka_unit_test(a_passage_of_a_deleted_document_is_not_computed),
        cmocka_unit_test(the_guard_forgets_prompts_with_it),
        cmocka_unit_test(a_text_that_is_deleted_while_it_is_cut_is_not_registered),
        cmocka_unit_test(a_registration_arrives_when_the_caller_says_so),
        cmocka_unit_test(a_document_that_is_deleted_at_once_was_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
