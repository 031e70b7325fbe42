/* test_documents.c -- registered documents: found by name and by text, computed ahead, pinned, ended and searched.
 * That a deletion leaves nothing is test_documents_deletion.c's. */
#include <fcntl.h>
#include <time.h>

#include "registered.h"
#include "retrieve/index/texts.h"
#include "serve/search/search.h"

static int64_t clock_ahead_s; /* of the kernel's */

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec + clock_ahead_s;
    return t.tv_sec + clock_ahead_s;
}

/* -- the shelf --------------------------------------------------------------------------------- */

static void a_document_is_its_tenants(void **state)
{
    bench b;
    sp_document_list l;
    sp_hits h;
    bench_begin(&b);
    put(&b, "red", "one", story);
    put(&b, "red", "two", other);
    put(&b, "blue", "one", other);
    assert_ok(sp_documents_list(b.d, "red", NULL, 10, &l));
    assert_int_equal(l.n, 2);
    assert_string_equal(l.v[1].id, "two");
    assert_string_equal(l.v[0].title, "T");
    assert_int_equal(l.v[0].n_bytes, strlen(story));
    assert_true(l.v[0].n_tokens > 10);
    sp_document_list_fini(&l);
    assert_ok(sp_documents_list(b.d, "red", "one", 10, &l));
    assert_int_equal(l.n, 1);
    sp_document_list_fini(&l);
    assert_ok(sp_documents_chunks(b.d, "blue", "one", &h));
    assert_int_equal(h.n, 1);
    assert_string_equal(h.v[0].text, other);
    sp_hits_fini(&h);
    assert_fails(sp_documents_get(b.d, "blue", "two", &l), SP_E_NOTFOUND, "two");
    assert_fails(sp_documents_get(b.d, NULL, "one", &l), SP_E_NOTFOUND, "one");
    assert_fails(sp_documents_remove(b.d, "blue", "two", 0, NULL), SP_E_NOTFOUND, "two");
    bench_end(&b);
}

static void what_cannot_be_registered_is_refused(void **state)
{
    bench b;
    sp_document_list l;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    const struct {
        sp_document_new n;
        sp_err err;
        const char *why;
    } bad[] = {
        {{.id = "one", .text = other}, SP_E_ARG, "already"},
        {{.id = "", .text = other}, SP_E_ARG, "id"},
        {{.id = "a/b", .text = other}, SP_E_ARG, "slash"},
        {{.id = "two"}, SP_E_ARG, "text or a file"},
        {{.id = "two", .text = " \n "}, SP_E_ARG, "no text"},
        {{.id = "two", .text = "\xff\xfe\x80"}, SP_E_UNSUPPORTED, "UTF-8"},
        {{.id = "two", .file = "a.bin", .data = "x", .n_data = 1}, SP_E_UNSUPPORTED, "a.bin"},
        {{.id = "two", .file = "a.pdf", .data = "x", .n_data = 1}, SP_E_UNSUPPORTED, "a.pdf"},
        {{.id = "two", .file = "a.docx", .data = "PK", .n_data = 2}, SP_E_UNSUPPORTED, "a.docx"},
        {{.id = "two", .file = "a.jsonl", .data = "[]", .n_data = 2}, SP_E_UNSUPPORTED, "a.jsonl"},
        {{.id = "two", .text = other, .ttl_s = -1}, SP_E_ARG, "ttl"},
    };
    for (size_t i = 0; i < SP_COUNT(bad); i++)
        assert_fails(sp_documents_put(b.d, NULL, &bad[i].n, &l), bad[i].err, bad[i].why);
    const sp_document_new md = {.file = "a.md", .data = "# Boats\n\nForty.\n", .n_data = 16};
    assert_ok(sp_documents_put(b.d, NULL, &md, &l));
    assert_string_equal(l.v[0].title, "Boats");
    assert_memory_equal(l.v[0].id, "doc-", 4);
    sp_document_list_fini(&l);
    bench_end(&b);
}

static sp_err put_new(const bench *b, const sp_document_new *n)
{
    sp_document_list l;
    const sp_err err = sp_documents_put(b->d, NULL, n, &l);
    if (err == SP_OK) sp_document_list_fini(&l);
    return err;
}

static void fill(char *out, char c, size_t n)
{
    memset(out, c, n);
    out[n] = '\0';
}

static void names_and_tags_have_a_length(void **state)
{
    bench b;
    sp_documents *d;
    char id[258], tag[66];
    const char *tags[17], *const bell[] = {"a\a"}, *const delete[] = {"a\x7f"};
    for (size_t i = 0; i < SP_COUNT(tags); i++) tags[i] = tag;
    bench_begin(&b);
    assert_ok(sp_collection_create(b.d, NULL, "c"));
    fill(id, 'i', 256);
    fill(tag, 't', 64);
    const sp_document_new most = {.id = id, .collection = "c", .text = other, .tags = tags, .n_tags = 16};
    assert_ok(put_new(&b, &most));
    sp_document_new n = {.id = "two", .collection = "c", .text = other, .tags = tags, .n_tags = 17};
    assert_fails(put_new(&b, &n), SP_E_ARG, "17 tags");
    n.n_tags = 1;
    fill(tag, 't', 65);
    assert_fails(put_new(&b, &n), SP_E_ARG, "65 bytes");
    n.tags = bell;
    assert_fails(put_new(&b, &n), SP_E_ARG, "control");
    n.tags = delete;
    assert_fails(put_new(&b, &n), SP_E_ARG, "control");
    n.collection = NULL;
    assert_fails(put_new(&b, &n), SP_E_ARG, "of a collection");
    fill(id, 'i', 257);
    assert_fails(put_new(&b, &(sp_document_new){.id = id, .text = other}), SP_E_ARG, "257 bytes");
    assert_fails(put_new(&b, &(sp_document_new){.id = "a\x7f", .text = other}), SP_E_ARG, "control");
    assert_fails(sp_documents_open(b.c, &(sp_documents_opts){.size_words = 9, .overlap_words = 9}, &d), SP_E_ARG,
                 "smaller");
    bench_end(&b);
}

/* id_of -- of a document that is put without an id. */
static void id_of(const bench *b, const char *title, char out[32])
{
    sp_document_list l;
    assert_ok(sp_documents_put(b->d, NULL, &(sp_document_new){.title = title, .text = other}, &l));
    snprintf(out, 32, "%s", l.v[0].id);
    sp_document_list_fini(&l);
}

static void an_id_that_is_made_is_of_title_and_text(void **state)
{
    bench b;
    char one[32], again[32], titled[32];
    bench_begin(&b);
    id_of(&b, "T", one);
    id_of(&b, "T", again); /* replaces it */
    id_of(&b, "U", titled);
    assert_string_equal(one, again);
    assert_string_not_equal(one, titled);
    bench_end(&b);
}

/* -- copies ------------------------------------------------------------------------------------ */

static void a_document_is_computed_ahead(void **state)
{
    bench b;
    bench_begin(&b);
    put(&b, "red", "one", story);
    sp_documents_computed n = compute(&b, "red", "one", 0);
    assert_int_equal(n.n_chunks, 1);
    assert_int_equal(n.n_computed, 2); /* with its title, and without */
    assert_int_equal(compute(&b, "red", "one", 0).n_known, 2);
    sp_segment_report r = ask_about(&b, "red", "full", story, NULL);
    assert_string_equal(r.from, "memory");
    assert_int_equal(r.n_reused, r.n_tokens);
    char message[400];
    snprintf(message, sizeof message, "<source id=\"3\">%s</source>\nWho is it?", story);
    assert_string_equal(ask_about(&b, "red", "full", NULL, message).from, "memory");
    assert_string_equal(ask_about(&b, "blue", "full", story, NULL).missed, "never seen");
    bench_close(&b);
    bench_open(&b, (sp_context_opts){0}); /* a restart */
    assert_string_equal(ask_about(&b, "green", "full", story, NULL).missed, "never seen");
    assert_string_equal(ask_about(&b, "red", "full", NULL, message).from, "disk");
    assert_string_equal(ask_about(&b, "red", "full", story, NULL).from, "disk");
    bench_end(&b);
}

/* fused_copy -- the only one. */
static const sp_copy *fused_copy(const bench *b)
{
    const sp_copy *out = NULL;
    for (const sp_copy *c = NULL; (c = sp_ledger_next(b->c->ledger, c));) {
        if (c->facts.kind != SP_COPY_FUSED || c->state != SP_COPY_READY) continue;
        assert_null(out);
        out = c;
    }
    assert_non_null(out);
    return out;
}

static void a_document_is_fused_with_what_is_like_it(void **state)
{
    static const char like_story[] = "Anna Berg, the keeper of the lighthouse, came from the north by boat.";
    static const char like_other[] = "In winter forty boats are in the harbour, which the town of Velm built.";
    bench b;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    put(&b, NULL, "two", other);
    put(&b, NULL, "three", like_other);
    put(&b, NULL, "four", like_story);
    assert_true(compute(&b, NULL, "three", 1).n_computed >= 1);
    sp_prompt *p = prompt_about(&b, NULL, other);
    const sp_copy *c = fused_copy(&b);
    assert_memory_equal(&c->facts.before[c->facts.n_before - 1], &p->segs.v[1].id, sizeof(sp_digest));
    sp_prompt_destroy(p);
    assert_string_equal(ask_about(&b, NULL, "fusion", like_other, NULL).from, "memory");
    bench_end(&b);
}

/* -- the end ----------------------------------------------------------------------------------- */

static void its_time_ends(void **state)
{
    bench b;
    sp_document_list l;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    compute(&b, NULL, "one", 0);
    tiers_rest(b.c->tiers);
    assert_ok(sp_documents_expire(b.d, NULL, "one", 100));
    assert_ok(sp_documents_tick(b.d, time(NULL) + 50));
    assert_ok(sp_documents_get(b.d, NULL, "one", &l));
    assert_true(l.v[0].expires_s > time(NULL) + 50 && l.v[0].n_device == 2 && l.v[0].n_store == 2);
    sp_document_list_fini(&l);
    assert_ok(sp_documents_tick(b.d, time(NULL) + 101));
    assert_fails(sp_documents_get(b.d, NULL, "one", &l), SP_E_NOTFOUND, "one");
    assert_string_equal(ask_about(&b, NULL, "full", story, NULL).missed, "never seen");
    bench_end(&b);
}

static int n_listed(const bench *b)
{
    sp_document_list l;
    assert_ok(sp_documents_list(b->d, NULL, NULL, 9, &l));
    const int n = l.n;
    sp_document_list_fini(&l);
    return n;
}

/* n_found -- how many passages of a collection, or of none, match `story`. */
static int n_found(const bench *b, const char *collection)
{
    sp_hits found;
    assert_ok(sp_documents_search(b->d, NULL, collection, &(sp_retrieve_query){.text = "Anna Berg", .k = 9}, &found));
    const int n = found.n;
    sp_hits_fini(&found);
    return n;
}

/* Before a tick has erased it, or on a file system that is mounted read-only. */
static void a_document_whose_time_has_ended_is_not_shown(void **state)
{
    bench b;
    sp_hits found;
    sp_document_list l;
    sp_collection_list all;
    bench_begin(&b);
    assert_ok(sp_collection_create(b.d, NULL, "c"));
    assert_ok(put_new(&b, &(sp_document_new){.id = "one", .text = story, .ttl_s = 100}));
    assert_ok(put_new(&b, &(sp_document_new){.id = "two", .text = other, .ttl_s = 100}));
    assert_ok(put_new(&b, &(sp_document_new){.id = "one", .collection = "c", .text = story, .ttl_s = 100}));
    assert_ok(sp_documents_expire(b.d, NULL, "two", 0)); /* lives on */
    assert_int_equal(n_listed(&b), 2);
    assert_true(n_found(&b, NULL) == 1 && n_found(&b, "c") == 1); /* and their indexes are kept */
    b.d->opened_us -= INT64_C(101000000); /* seconds later */
    assert_int_equal(n_listed(&b), 1);
    assert_fails(sp_documents_get(b.d, NULL, "one", &l), SP_E_NOTFOUND, "one");
    assert_ok(sp_documents_get(b.d, NULL, "two", &l));
    assert_int_equal(l.v[0].expires_s, 0);
    sp_document_list_fini(&l);
    assert_ok(sp_collection_documents(b.d, NULL, "c", NULL, 9, &l));
    assert_int_equal(l.n, 0);
    sp_document_list_fini(&l);
    assert_int_equal(n_found(&b, NULL) + n_found(&b, "c"), 0);
    assert_fails(sp_documents_chunks(b.d, NULL, "c/one", &found), SP_E_NOTFOUND, "one");
    const sp_documents_compute how = {.system = SYSTEM};
    assert_fails(sp_documents_precompute(b.d, NULL, "one", &how, NULL), SP_E_NOTFOUND, "one");
    assert_ok(sp_collections(b.d, NULL, "c", &all));
    assert_true(all.v[0].n_documents == 0 && all.v[0].n_chunks == 0 && all.v[0].n_bytes == 0);
    sp_collection_list_fini(&all);
    assert_fails(sp_documents_pin(b.d, NULL, "c/one", true), SP_E_NOTFOUND, "one");
    assert_ok(put_new(&b, &(sp_document_new){.id = "brief", .text = story, .ttl_s = 100}));
    b.d->opened_us -= INT64_C(101000000);
    assert_ok(put_new(&b, &(sp_document_new){.id = "brief", .text = other})); /* the id is free */
    bench_end(&b);
}

/* The wall clock jumps ten years ahead while documents are open: nothing ends. After a restart, which reads it,
 * nothing ends for a day either. */
static void a_clock_that_jumps_ends_nothing(void **state)
{
    bench b;
    sp_document_list l;
    struct stat st;
    const int64_t years = INT64_C(10) * 365 * 86400;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    assert_ok(sp_documents_expire(b.d, NULL, "one", 3600));
    clock_ahead_s = years;
    for (int start = 0; start < 3; start++) {
        assert_ok(sp_documents_tick(b.d, 0));
        assert_ok(sp_documents_get(b.d, NULL, "one", &l));
        sp_document_list_fini(&l);
        put(&b, NULL, "two", other); /* lives for an hour of whatever clock there is */
        assert_ok(sp_documents_expire(b.d, NULL, "two", 3600));
        assert_ok(sp_documents_get(b.d, NULL, "two", &l));
        assert_true(start == 0 ? l.v[0].expires_s < time(NULL) : l.v[0].expires_s >= time(NULL) + 3590);
        sp_document_list_fini(&l);
        const struct timespec ahead[2] = {{.tv_sec = time(NULL)}, {.tv_sec = time(NULL)}};
        assert_int_equal(utimensat(AT_FDCWD, b.db, ahead, 0), 0); /* by the kernel's clock */
        bench_close(&b);
        assert_int_equal(stat(b.db, &st), 0);
        assert_true(st.st_mtime < time(NULL) - years / 2);
        bench_open(&b, (sp_context_opts){0});
    }
    b.d->opened_us -= INT64_C(86400) * 1000000; /* a day later the clock is believed */
    assert_ok(sp_documents_tick(b.d, 0));
    assert_fails(sp_documents_get(b.d, NULL, "one", &l), SP_E_NOTFOUND, "one");
    clock_ahead_s = 0;
    bench_end(&b);
}

/* A process that ends in order leaves a file that says until when it ran. */
static void a_file_that_is_in_use_is_not_old(void **state)
{
    bench b;
    sp_document_list l;
    const struct timespec old[2] = {{.tv_sec = 86400}, {.tv_sec = 86400}};
    bench_begin(&b);
    put(&b, NULL, "one", story);
    assert_ok(sp_documents_expire(b.d, NULL, "one", 1));
    assert_int_equal(utimensat(AT_FDCWD, b.db, old, 0), 0);
    bench_close(&b);
    sleep(2);
    bench_open(&b, (sp_context_opts){0});
    assert_ok(sp_documents_tick(b.d, 0));
    assert_fails(sp_documents_get(b.d, NULL, "one", &l), SP_E_NOTFOUND, "one");
    bench_end(&b);
}

/* -- pins -------------------------------------------------------------------------------------- */

static void pinned_copies_stay(void **state)
{
    bench b;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    put(&b, NULL, "two", other);
    compute(&b, NULL, "one", 0);
    compute(&b, NULL, "two", 0);
    assert_ok(sp_documents_pin(b.d, NULL, "one", true));
    tiers_rest(b.c->tiers); /* what is not written yet is not found on disk */
    sp_context_forget(b.c);
    assert_string_equal(ask_about(&b, NULL, "full", story, NULL).from, "memory");
    assert_string_equal(ask_about(&b, NULL, "full", other, NULL).from, "disk");
    assert_ok(sp_documents_pin(b.d, NULL, "one", false));
    sp_context_forget(b.c);
    assert_string_equal(ask_about(&b, NULL, "full", story, NULL).from, "disk");
    assert_ok(sp_documents_pin(b.d, NULL, "one", true));
    assert_ok(sp_documents_remove(b.d, NULL, "one", 0, NULL)); /* pins do not protect it */
    assert_string_equal(ask_about(&b, NULL, "full", story, NULL).missed, "never seen");
    bench_end(&b);
}

static void what_is_computed_after_it_was_pinned_stays(void **state)
{
    bench b;
    sp_document_list l;
    bench_begin(&b);
    put(&b, NULL, "one", story);
    put(&b, NULL, "two", other);
    assert_ok(sp_documents_pin(b.d, NULL, "one", true));
    compute(&b, NULL, "one", 0);
    compute(&b, NULL, "two", 0);
    tiers_rest(b.c->tiers);
    assert_ok(sp_documents_tick(b.d, 0));
    sp_context_forget(b.c);
    for (int i = 0; i < 2; i++) {
        assert_ok(sp_documents_get(b.d, NULL, i ? "two" : "one", &l));
        assert_int_equal(l.v[0].n_device, i ? 0 : 2);
        assert_int_equal(l.v[0].n_store, 2);
        sp_document_list_fini(&l);
    }
    bench_end(&b); /* no pin is left */
}

/* A process that shares a store, but not the file of documents. */
static void who_only_reads_the_store_deletes_nothing(void **state)
{
    bench b;
    sp_documents *d;
    bench_begin(&b);
    sp_context *c = open_with((sp_context_opts){.tiers.store = b.dir});
    assert_ok(sp_documents_open(c, NULL, &d));
    bench reader = {.c = c, .d = d};
    assert_ok(sp_collection_create(d, NULL, "c"));
    put(&reader, NULL, "one", story);
    assert_fails(sp_documents_remove(d, NULL, "one", 0, NULL), SP_E_UNSUPPORTED, "another process");
    assert_fails(sp_collection_remove(d, NULL, "c", 0, NULL), SP_E_UNSUPPORTED, "another process");
    sp_documents_close(d);
    close_clean(c);
    bench_end(&b);
}

static void null_is_allowed(void **state)
{
    bench b;
    sp_document_list l;
    bench_begin(&b);
    assert_fails(sp_documents_open(NULL, NULL, &b.d), SP_E_ARG, "c is NULL");
    assert_fails(sp_documents_put(b.d, NULL, NULL, &l), SP_E_ARG, "n is NULL");
    assert_fails(sp_documents_get(b.d, NULL, NULL, &l), SP_E_ARG, "id is NULL");
    assert_fails(sp_documents_list(b.d, NULL, NULL, 1, NULL), SP_E_ARG, "out is NULL");
    assert_fails(sp_documents_precompute(NULL, NULL, "x", NULL, NULL), SP_E_ARG, "d is NULL");
    assert_fails(sp_documents_tick(NULL, 0), SP_E_ARG, "d is NULL");
    sp_documents_close(NULL);
    sp_document_list_fini(NULL);
    bench_end(&b);
}

/* -- search ------------------------------------------------------------------------------------- */

/* found_in -- ids of the documents whose chunks answer, best first, a blank after each. */
static const char *found_in(bench *b, const char *salt, const char *collection, const sp_retrieve_query *q)
{
    static char ids[256];
    sp_hits hits;
    assert_ok(sp_documents_search(b->d, salt, collection, q, &hits));
    size_t n = 0;
    ids[0] = '\0';
    for (int i = 0; i < hits.n; i++) n += (size_t)snprintf(ids + n, sizeof ids - n, "%s ", hits.v[i].file);
    sp_hits_fini(&hits);
    return ids;
}

static const char *found(bench *b, const char *salt, const sp_retrieve_query *q)
{
    return found_in(b, salt, NULL, q);
}

static void a_search_sees_what_is_registered_now(void **state)
{
    bench b;
    const sp_retrieve_query boats = {.text = "Who came by boat?", .k = 5}, one = {.text = "harbour by boat", .k = 1};
    bench_begin(&b);
    assert_string_equal(found(&b, NULL, &boats), "");
    put(&b, NULL, "story", story);
    assert_string_equal(found(&b, NULL, &boats), "story ");
    put(&b, NULL, "other", other);
    assert_string_equal(found(&b, NULL, &boats), "story other ");
    assert_string_equal(found(&b, NULL, &one), "other ");
    put(&b, NULL, "story", "Nothing about the sea.");
    assert_string_equal(found(&b, NULL, &boats), "other ");
    assert_ok(sp_documents_remove(b.d, NULL, "other", 1000000, NULL));
    assert_string_equal(found(&b, NULL, &boats), "");
    assert_int_equal(sp_documents_search(b.d, NULL, NULL, &(sp_retrieve_query){.text = "x"}, &(sp_hits){0}), SP_E_ARG);
    bench_end(&b);
}

static void a_search_stays_with_its_tenant_and_its_documents(void **state)
{
    bench b;
    const char *const only_other[] = {"other"};
    const sp_retrieve_query boats = {.text = "boat", .k = 5},
                             among = {.text = "boat", .k = 1, .files = only_other, .n_files = 1};
    bench_begin(&b);
    put(&b, NULL, "story", story);
    put(&b, NULL, "other", other);
    put(&b, "anna", "hers", story);
    assert_string_equal(found(&b, "anna", &boats), "hers ");
    assert_string_equal(found(&b, "bert", &boats), "");
    assert_string_equal(found(&b, NULL, &boats), "story other ");
    assert_string_equal(found(&b, NULL, &among), "other ");
    bench_end(&b);
}

static void a_search_is_in_files_and_folders(void **state)
{
    static const struct {
        const char *of, *found;
    } cases[] = {{"notes", "in "},  {"notes/", "in "},        {"notes//", "in "},
                 {"note", ""},      {"notes/boats.txt", "in "}, {"notes-old.txt", "beside "},
                 {"beside", "beside "}, {"/", ""}};
    static const char text[] = "Boats and more boats.";
    bench b;
    bench_begin(&b);
    sp_document_new n = {.collection = "c", .data = text, .n_data = strlen(text)};
    assert_ok(sp_collection_create(b.d, NULL, "c"));
    n.id = "in", n.file = "notes/boats.txt";
    assert_ok(put_new(&b, &n));
    n.id = "beside", n.file = "notes-old.txt";
    assert_ok(put_new(&b, &n));
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        const sp_retrieve_query q = {.text = "boats", .k = 5, .files = &cases[i].of, .n_files = 1};
        assert_string_equal(found_in(&b, NULL, "c", &q), cases[i].found);
    }
    bench_end(&b);
}

/* They would have the places of others. */
static void near_duplicates_give_way_to_other_hits(void **state)
{
    bench b;
    bench_begin(&b);
    put(&b, NULL, "one", "Boats, boats and more boats lie in the harbour of Velm.");
    put(&b, NULL, "two", "Boats, boats and more boats lie in the harbour of Velm.");
    put(&b, NULL, "three", "The ferry of the island is one of many boats that leave the pier at nine every day.");
    const sp_retrieve_query q = {.text = "boats", .k = 2}, distinct = {.text = "boats", .k = 2, .distinct = true};
    assert_string_equal(found(&b, NULL, &q), "one two ");
    assert_string_equal(found(&b, NULL, &distinct), "one three ");
    bench_end(&b);
}

static void put_in_c(const bench *b, const char *salt, const char *id, const char *text)
{
    sp_document_list l;
    const sp_document_new one = {.collection = "c", .id = id, .title = "T", .text = text};
    assert_ok(sp_documents_put(b->d, salt, &one, &l));
    sp_document_list_fini(&l);
}

static int64_t n_retrieved(const bench *b, const char *salt)
{
    int64_t n = -1;
    assert_ok(sp_collection_n_retrieved(b->d, salt, "c", &n));
    return n;
}

/* count_all -- as if all passages of the collection had been put into `times` prompts. */
static void count_all(const bench *b, const char *salt, int times)
{
    sp_hits hits;
    const sp_retrieve_query q = {.text = "lighthouse harbour boat", .k = 5};
    assert_ok(sp_documents_search(b->d, salt, "c", &q, &hits));
    for (int i = 0; i < times; i++) {
        assert_ok(sp_collection_count(b->d, salt, "c", &hits));
        assert_ok(sp_counts_flush(b->d));
    }
    sp_hits_fini(&hits);
}

static void counts_of_passages_are_its_tenants_and_end_with_them(void **state)
{
    static const char *const salts[] = {"red", "blue"};
    bench b;
    bench_begin(&b);
    for (int i = 0; i < 2; i++) {
        assert_ok(sp_collection_create(b.d, salts[i], "c"));
        put_in_c(&b, salts[i], "one", story);
        put_in_c(&b, salts[i], "two", other);
    }
    assert_int_equal(sp_collection_create(b.d, "red", "c"), SP_E_ARG);
    count_all(&b, "red", 3);
    count_all(&b, "blue", 1);
    assert_int_equal(n_retrieved(&b, "red"), 6);
    assert_int_equal(n_retrieved(&b, "blue"), 2);
    assert_ok(sp_documents_remove(b.d, "red", "c/one", 0, NULL));
    assert_int_equal(n_retrieved(&b, "red"), 3);
    assert_int_equal(n_retrieved(&b, "blue"), 2);
    assert_ok(sp_collection_remove(b.d, "red", "c", 0, NULL));
    assert_ok(sp_collection_create(b.d, "red", "c"));
    assert_int_equal(n_retrieved(&b, "red"), 0);
    assert_int_equal(n_retrieved(&b, "blue"), 2);
    bench_end(&b);
}

/* Whether a tick or the end of the process writes them. */
static void counts_are_written(void **state)
{
    bench b;
    sp_hits hits;
    const sp_retrieve_query q = {.text = "lighthouse", .k = 5};
    bench_begin(&b);
    assert_ok(sp_collection_create(b.d, NULL, "c"));
    put_in_c(&b, NULL, "one", story);
    assert_ok(sp_documents_search(b.d, NULL, "c", &q, &hits));
    assert_ok(sp_collection_count(b.d, NULL, "c", &hits));
    assert_ok(sp_documents_tick(b.d, 0));
    assert_int_equal(b.d->counts.n, 0);
    assert_ok(sp_collection_count(b.d, NULL, "c", &hits));
    sp_documents_close(b.d);
    assert_null(b.c->texts.prompts.watch.added); /* prompts do not call what is closed */
    b.d = NULL;
    bench_close(&b);
    bench_open(&b, (sp_context_opts){0});
    assert_int_equal(n_retrieved(&b, NULL), 2);
    sp_hits_fini(&hits);
    bench_end(&b);
}

/* A shelf that cannot be written, or a process that never ticks. */
static void counts_that_wait_have_a_limit(void **state)
{
    bench b;
    sp_hit one = {.title = "T", .text = story};
    const sp_hits hits = {.v = &one, .n = 1};
    bench_begin(&b);
    for (int i = 0; i < 4100; i++) assert_ok(sp_collection_count(b.d, NULL, "c", &hits));
    assert_int_equal(b.d->counts.n, 4096);
    bench_end(&b);
}

/* Not those of whoever asks. */
static void passages_of_an_index_have_counts_of_their_own(void **state)
{
    bench b;
    sp_index *ix;
    sp_retriever *of;
    sp_hit counted = {.title = "T", .text = other};
    sp_hits hits = {.v = &counted, .n = 1};
    const sp_index_text v[] = {{"T", story}, {"T", other}};
    bench_begin(&b);
    assert_ok(sp_texts_index(v, 2, &ix));
    assert_ok(sp_retriever_of(ix, NULL, NULL, &of));
    assert_ok(sp_collection_count(b.d, NULL, "c", &hits));
    assert_ok(sp_collection_ahead(b.d, "red", "c", of, 2, &hits));
    assert_int_equal(hits.n, 2);
    assert_string_equal(hits.v[0].text, other);
    sp_hits_fini(&hits);
    sp_retriever_close(of);
    bench_end(&b);
}

/* Keys of a set that is half full are often beside each other. */
static void a_text_that_goes_takes_no_other_with_it(void **state)
{
    enum { N = 31 };
    for (int gone = 0; gone < N; gone++) {
        sp_forms f = {0};
        char text[16];
        size_t n = 0;
        sp_forms_init(&f);
        for (int i = 0; i < N; i++) {
            snprintf(text, sizeof text, "text %d", i);
            assert_ok(sp_forms_add(&f, 0, text));
        }
        snprintf(text, sizeof text, "text %d", gone);
        sp_forms_drop(&f, sp_forms_n_published(&f), 0, text);
        for (size_t i = 0; i < f.texts.cap; i++) n += f.texts.v[i] != 0;
        assert_int_equal(n, N - 1);
        assert_int_equal(f.texts.n, N - 1);
        sp_forms_fini(&f);
    }
}

static int64_t n_documents(const bench *b)
{
    sp_collection_list l;
    assert_ok(sp_collections(b->d, NULL, "c", &l));
    const int64_t n = l.v[0].n_documents;
    sp_collection_list_fini(&l);
    return n;
}

/* Its copies are read still; it is in no list. */
static void a_document_that_waits_for_its_end_is_not_listed(void **state)
{
    bench b;
    sp_documents_removed n;
    sp_document_list l;
    bool busy = true;
    bench_begin(&b);
    assert_ok(sp_collection_create(b.d, NULL, "c"));
    put_in_c(&b, NULL, "one", story);
    put_in_c(&b, NULL, "two", other);
    compute(&b, NULL, "c/one", 0);
    assert_int_equal(n_documents(&b), 2);
    sp_request *r = begin_reading(&b, NULL);
    assert_ok(sp_documents_remove(b.d, NULL, "c/one", 0, &n));
    assert_true(n.n_pending > 0);
    assert_int_equal(n_documents(&b), 1);
    assert_ok(sp_collection_documents(b.d, NULL, "c", NULL, 9, &l));
    assert_int_equal(l.n, 1);
    assert_string_equal(l.v[0].id, "c/two");
    sp_document_list_fini(&l);
    while (busy) assert_ok(sp_context_step(b.c, &busy));
    sp_request_destroy(r);
    assert_ok(sp_documents_tick(b.d, 0));
    assert_int_equal(n_documents(&b), 1);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_is_its_tenants),
        cmocka_unit_test(what_cannot_be_registered_is_refused),
        cmocka_unit_test(names_and_tags_have_a_length),
        cmocka_unit_test(an_id_that_is_made_is_of_title_and_text),
        cmocka_unit_test(a_document_is_computed_ahead),
        cmocka_unit_test(a_document_is_fused_with_what_is_like_it),
        cmocka_unit_test(its_time_ends),
        cmocka_unit_test(a_document_whose_time_has_ended_is_not_shown),
        cmocka_unit_test(a_clock_that_jumps_ends_nothing),
        cmocka_unit_test(a_file_that_is_in_use_is_not_old),
        cmocka_unit_test(pinned_copies_stay),
        cmocka_unit_test(what_is_computed_after_it_was_pinned_stays),
        cmocka_unit_test(who_only_reads_the_store_deletes_nothing),
        cmocka_unit_test(null_is_allowed),
        cmocka_unit_test(a_search_sees_what_is_registered_now),
        cmocka_unit_test(a_search_stays_with_its_tenant_and_its_documents),
        cmocka_unit_test(a_search_is_in_files_and_folders),
        cmocka_unit_test(near_duplicates_give_way_to_other_hits),
        cmocka_unit_test(counts_of_passages_are_its_tenants_and_end_with_them),
        cmocka_unit_test(counts_are_written),
        cmocka_unit_test(counts_that_wait_have_a_limit),
        cmocka_unit_test(passages_of_an_index_have_counts_of_their_own),
        cmocka_unit_test(a_text_that_goes_takes_no_other_with_it),
        cmocka_unit_test(a_document_that_waits_for_its_end_is_not_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
