/* test_fuse.c -- sp_chunk_fuse: copies of chunks computed among chunks like them, in memory and on disk.
 */
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

#include "compute/kernels.h"
#include "serve/check/measure.h"
#include "serve/documents/erase.h"
#include "support/requests.h"
#include "support/stored.h"
#include "support/tiers.h"

static bool fuse(sp_context *c, const char *order)
{
    sp_prompt *p = prompt_of(c, order, NULL);
    bool fresh = false;
    assert_ok(sp_chunk_fuse(c, p, &fresh));
    sp_prompt_destroy(p);
    return fresh;
}

/* fused -- the copy of the chunk named by the last digit; the caller unpins it. */
static const sp_copy *fused(sp_context *c, const char *order)
{
    sp_prompt *p = prompt_of(c, order, NULL);
    const sp_segment *segs = p->segs.v;
    const sp_content_query q = {.seg = &segs[p->segs.n - 1], .head = &segs[0].id, .n_head = 1};
    const sp_copy *v = sp_by_content_find(c->ledger, &q, SP_COPY_FUSED, ++c->now);
    sp_prompt_destroy(p);
    return v;
}

static int64_t n_copies(const sp_context *c)
{
    return count_copies(c).n_content;
}

/* -- which copy is there -------------------------------------------------------------------- */

static void a_fused_copy_is_known_until_its_neighbours_change(void **state)
{
    sp_context *c = open_with((sp_context_opts){.n_batch = 16});
    assert_true(fuse(c, "021"));
    assert_int_equal(n_copies(c), 4); /* plain copies of three chunks, and the fused one */
    assert_false(fuse(c, "021"));
    assert_true(fuse(c, "201")); /* the order is part of what it saw */
    assert_false(fuse(c, "201"));
    assert_int_equal(n_copies(c), 4); /* the older fused copy is gone */
    assert_true(fuse(c, "31"));
    assert_true(fuse(c, "321")); /* one more of them is another neighbourhood, ... */
    assert_true(fuse(c, "31"));  /* ... and one less */
    assert_true(fuse(c, "021"));
    assert_int_equal(n_copies(c), 5);
    assert_true(fuse(c, "010")); /* a chunk among others and itself */
    sp_prompt *p = prompt_of(c, "01", NULL);
    assert_ok(sp_chunk_fuse(c, p, NULL));
    sp_prompt_destroy(p);
    close_clean(c);
}

static void what_cannot_be_fused_is_refused(void **state)
{
    static const struct {
        const char *order, *question;
    } wrong[] = {{"", NULL}, {"1", "Why?"}, {"01", "Why?"}, {"", "Why?"}};
    sp_context *c = open_with((sp_context_opts){0});
    bool fresh = true;
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        sp_prompt *p = prompt_of(c, wrong[i].order, wrong[i].question);
        assert_fails(sp_chunk_fuse(c, p, &fresh), SP_E_ARG, "fuse");
        sp_prompt_destroy(p);
    }
    sp_prompt *empty;
    assert_ok(sp_prompt_create(c, &empty));
    assert_fails(sp_chunk_fuse(c, empty, &fresh), SP_E_ARG, "fuse");
    sp_prompt_destroy(empty);
    assert_true(fresh); /* untouched */
    assert_int_equal(n_copies(c), 0);
    close_clean(c);
}

static void without_similar_chunks_it_is_the_plain_copy(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *p = prompt_of(c, "1", NULL), *question = prompt_of(c, "01", "Why?");
    const sp_reuse_opts full = {.policy = "full", .unfused = true};
    sp_request_opts o = {.sampling = sp_sampling_default(), .max_tokens = 1, .reuse = &full};
    sp_request *r;
    bool fresh = false;
    assert_ok(sp_chunk_fuse(c, p, &fresh));
    assert_true(fresh);
    assert_ok(sp_chunk_fuse(c, p, &fresh));
    assert_false(fresh);
    assert_ok(sp_generate(c, question, &o, &r));
    const sp_result *result = sp_request_result(r);
    assert_string_equal(result->segments[result->n_segments - 2].from, "memory");
    assert_string_equal(result->segments[result->n_segments - 3].from, "");
    sp_request_destroy(r);
    sp_prompt_destroy(question);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* -- what it holds -------------------------------------------------------------------------- */

/* by_hand -- the plan of (system, similar copies as cached, chunk), made of known blocks. */
static void by_hand(sp_context *c, const sp_prompt *p, sp_plan *plan, const sp_copy **copies)
{
    int n = (int)p->segs.n, span, see;
    int32_t place = 0;
    sp_plan_init(plan, c->pool);
    assert_int_equal(sp_by_path_find(c->ledger, p->segs.v, 1, ++c->now, copies).n, 1);
    for (int i = 0; i < n; i++) {
        const sp_segment *seg = &p->segs.v[i];
        const uint32_t *known = i ? NULL : copies[0]->blocks;
        int32_t at = place;
        if (i && i < n - 1) {
            const sp_content_query q = {.seg = seg, .head = &p->segs.v[0].id, .n_head = 1};
            copies[i] = sp_by_content_find(c->ledger, &q, SP_COPY_PLAIN, ++c->now);
            assert_non_null(copies[i]);
            known = copies[i]->blocks;
            at = copies[i]->facts.at;
        }
        assert_ok(sp_plan_add_span(plan,
                                   &(sp_span_spec){.n = seg->n,
                                                   .at = at,
                                                   .shift = place - at,
                                                   .known = known,
                                                   .n_known = known ? seg->n : 0},
                                   &span));
        place += seg->n;
    }
    assert_ok(sp_plan_add_sight(plan, NULL, n, &see));
    const sp_segment *last = &p->segs.v[n - 1];
    for (int32_t t = 0; t < last->n; t++)
        assert_ok(sp_plan_add_todo(plan, (sp_todo){.token = last->tokens[t],
                                                   .pos = place - last->n + t,
                                                   .span = (uint16_t)span,
                                                   .see = (uint16_t)see,
                                                   .index = t}));
    assert_ok(sp_plan_bind(plan));
    assert_ok(sp_plan_check(plan));
    for (int t = 0; t < plan->n_todo; t++)
        assert_ok(sp_engine_step(c->engine, &(sp_slice){plan, t, 1, SP_WANT_NONE, NULL}, 1));
}

static void assert_same_kv(const sp_context *c, const uint32_t *a, const uint32_t *b, int32_t n)
{
    for (int l = 0; l < c->model->hp.n_layers; l++) {
        sp_kv_view kv = sp_kv_pool_layer(c->pool, l); /* the CPU's: the host may read it */
        for (int32_t t = 0; t < n; t++)
            for (int h = 0; h < kv.n_heads; h++) {
                float k[2][SP_HEAD_MAX], v[2][SP_HEAD_MAX];
                uint8_t slot = (uint8_t)(t % SP_BLOCK_TOKENS);
                sp_kv_read(&kv, &(sp_kv_slot){a[t / SP_BLOCK_TOKENS], slot, 0}, h, k[0], v[0]);
                sp_kv_read(&kv, &(sp_kv_slot){b[t / SP_BLOCK_TOKENS], slot, 0}, h, k[1], v[1]);
                assert_memory_equal(k[0], k[1], (size_t)kv.head * sizeof(float));
                assert_memory_equal(v[0], v[1], (size_t)kv.head * sizeof(float));
            }
    }
}

static void the_copy_is_that_of_a_plain_run(void **state)
{
    static const char *const types[] = {"f32", "f16", "bf16", "q8_0"};
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        sp_context *c = open_with((sp_context_opts){.cache.kv_type = types[i], .n_batch = 9});
        sp_plan plan;
        const sp_copy *copies[8] = {0};
        assert_true(fuse(c, "3021"));
        const sp_copy *v = fused(c, "1");
        sp_prompt *p = prompt_of(c, "3021", NULL);
        by_hand(c, p, &plan, copies);
        assert_int_equal(v->facts.kind, SP_COPY_FUSED);
        assert_int_equal(v->facts.n_before, 4);
        for (int k = 0; k < 4; k++)
            assert_true(sp_digest_eq(&v->facts.before[k], &p->segs.v[k].id));
        assert_int_equal(v->facts.at, plan.spans[4].at);
        assert_same_kv(c, v->blocks, plan.spans[4].blocks, v->n);
        assert_true(sp_copy_is_measured(&v->facts));
        assert_in_range((int)(v->facts.stats.cci * 1000), 500, 1000);
        for (int k = 0; k < 8; k++)
            if (copies[k]) sp_ledger_unpin(c->ledger, copies[k]);
        sp_plan_fini(&plan);
        sp_prompt_destroy(p);
        sp_ledger_unpin(c->ledger, v);
        close_clean(c);
    }
}

/* -- who uses it ---------------------------------------------------------------------------- */

static sp_request *ask_holding(sp_context *c, const policy *p, bool unfused, const char *order)
{
    sp_prompt *prompt = prompt_of(c, order, "Which?");
    const sp_reuse_opts reuse = {.policy = p->name, .recompute = p->recompute, .unfused = unfused};
    sp_request *r;
    assert_ok(sp_measure_submit(c, prompt,
                                &(sp_request_opts){.reuse = &reuse,
                                                   .sampling = sp_sampling_default(),
                                                   .max_tokens = 3,
                                                   .ignore_end = true},
                                &(sp_measure){.keep_kv = true}, &r));
    sp_prompt_destroy(prompt);
    run(c, r);
    assert_int_equal(sp_request_result(r)->finish, SP_FINISH_LENGTH);
    assert_adds_up(sp_request_result(r));
    return r;
}

static void a_fused_copy_is_used_unless_unwanted(void **state)
{
    policy how;
    for (int i = 0; policy_at(FUSED_COPIES, 0.25f, i, &how); i++) {
        sp_context *c = open_with((sp_context_opts){.n_batch = 16});
        assert_true(fuse(c, "01"));
        sp_request *r = ask_holding(c, &how, false, "21"),
                   *plain = ask_holding(c, &how, true, "21");
        assert_non_null(r->look.found[2].copy);
        assert_int_equal(r->look.found[2].copy->facts.kind, SP_COPY_FUSED);
        assert_true(sp_request_result(r)->segments[2].n_reused > 0);
        assert_string_equal(sp_request_result(r)->segments[2].from, "memory");
        const bool wants = strcmp(how.name, "inplace") == 0; /* its own copies are such */
        if (wants) assert_true(sp_request_result(plain)->segments[2].n_reused > 0);
        if (wants || plain->look.found[2].copy)
            assert_int_equal(plain->look.found[2].copy->facts.kind == SP_COPY_FUSED, wants);
        sp_request_destroy(r);
        sp_request_destroy(plain);
        close_clean(c);
    }
}

static bool is_expected(const sp_context *c, const sp_digest *id, sp_copy_kind kind)
{
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        if (v->facts.kind == kind && sp_digest_eq(&v->facts.id, id)) return v->expected.aside && v->expected.uses > 0;
    return false;
}

/* Of a chunk's plain and its fused copy the one that a waiting request will read is to stay in memory. */
static void the_copy_that_a_waiting_request_will_read_is_expected(void **state)
{
    static const sp_reuse_opts reuse[] = {
        {.policy = "full"},  {.policy = "full", .unfused = true},  {.policy = "prefix"},
        {.policy = "craft"}, {.policy = "craft", .unfused = true}, {.policy = "inplace", .unfused = true}};
    for (size_t i = 0; i < SP_COUNT(reuse); i++) {
        sp_context *c = open_with((sp_context_opts){
            .reuse.policy = "full", .cache.evict = "lacr", .max_requests = 1, .queue.order = "fcfs"});
        assert_true(fuse(c, "021"));
        sp_request *busy = submit(c, "3", "How?", 8), *first = submit(c, "3", "Who?", 2), *waits;
        sp_prompt *p = prompt_of(c, "21", "Which?");
        assert_ok(sp_request_submit(c, p, &(sp_request_opts){.reuse = &reuse[i], .max_tokens = 2}, &waits));
        while (!sp_request_result(busy)->n_generated) step(c);
        const sp_digest *id = &waits->prompt.segs[2].id;
        assert_int_equal(is_expected(c, id, SP_COPY_FUSED), i == 0 || i == 3 || i == 5);
        assert_int_equal(is_expected(c, id, SP_COPY_PLAIN), i == 1);
        run(c, waits);
        sp_request_destroy(busy);
        sp_request_destroy(first);
        sp_request_destroy(waits);
        sp_prompt_destroy(p);
        close_clean(c);
    }
}

/* copy_of_1 -- what an answer says of the copy of chunk 1. */
static sp_segment_report copy_of_1(sp_context *c, const char *order)
{
    sp_request *r = ask(c, order, "When?", 2);
    const sp_segment_report *s = &sp_request_result(r)->segments[2], *last = s + 1;
    const sp_segment_report said = *s;
    assert_string_equal(last->kind, "question");
    assert_string_equal(last->copy, "");
    assert_int_equal(last->origin, 0);
    sp_request_destroy(r);
    return said;
}

static void a_segment_says_how_its_copy_was_made(void **state)
{
    static const char *const orders[] = {"021", "201", "021"};
    uint64_t origin[SP_COUNT(orders)];
    sp_context *c = open_with((sp_context_opts){.n_batch = 16, .reuse.policy = "full"});
    assert_string_equal(copy_of_1(c, "31").copy, "");
    const sp_segment_report plain = copy_of_1(c, "31"), elsewhere = copy_of_1(c, "01");
    assert_string_equal(plain.copy, "plain");
    assert_true(plain.origin && plain.origin == elsewhere.origin);
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        assert_true(fuse(c, orders[i]));
        const sp_segment_report fused = copy_of_1(c, "31");
        assert_string_equal(fused.copy, "fused");
        assert_int_equal(fused.n_patched, 0);
        origin[i] = fused.origin;
    }
    assert_true(origin[0] != origin[1] && origin[0] == origin[2] && origin[0] != plain.origin);
    close_clean(c);
}

/* begin_to_fuse -- as sp_chunk_fuse, which waits. */
static sp_request *begin_to_fuse(sp_context *c, const char *order)
{
    const sp_request_opts o = {.sampling = sp_sampling_default()};
    sp_prompt *p = prompt_of(c, order, NULL);
    sp_request *r;
    assert_ok(sp_request_create(c, p, &o, &sp_reuse_fuse, &r));
    sp_prompt_destroy(p);
    sp_driver_submit(c, r);
    step(c);
    return r;
}

/* Otherwise two answers to a prompt would differ, and their accounts would not. */
static void a_copy_that_was_fused_meanwhile_is_named(void **state)
{
    policy how;
    for (int i = 0; policy_at(FUSED_COPIES, 0.25f, i, &how); i++) {
        if (strcmp(how.name, "full") != 0 && strcmp(how.name, "fusion") != 0) continue;
        sp_context *c =
            open_with((sp_context_opts){.n_batch = 16, .reuse.policy = how.name, .reuse.recompute = how.recompute});
        sp_request *fuses = begin_to_fuse(c, "01"), *r = submit(c, "31", "When?", 4);
        step(c);
        assert_false(done(fuses));
        const sp_segment_report said = sp_request_result(run(c, r))->segments[2];
        assert_true(done(fuses));
        assert_int_equal(said.n_reused, 0);
        assert_string_equal(said.missed, "never seen");
        assert_string_equal(said.copy, "fused");
        sp_request *again = ask(c, "31", "When?", 4);
        assert_int_equal(sp_request_result(again)->segments[2].origin, said.origin);
        assert_same_text(r, again);
        sp_request_destroy(fuses);
        sp_request_destroy(r);
        sp_request_destroy(again);
        close_clean(c);
    }
}

/* A copy that was computed after another instance of its own text has seen one only where it comes twice. */
static void a_chunk_is_not_another_one_of_its_prompt(void **state)
{
    static const struct {
        const char *order;
        int n_had, n_saw;
    } cases[] = {{"0", 1, 0}, {"00", 2, 2}};
    sp_context *c = open_with((sp_context_opts){.n_batch = 16, .reuse.policy = "full"});
    assert_true(fuse(c, "00"));
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        int n_had, n_saw;
        sp_request *r = ask(c, cases[i].order, "When?", 2);
        sp_measure_sights(r, &n_had, &n_saw);
        assert_int_equal(n_had, cases[i].n_had);
        assert_int_equal(n_saw, cases[i].n_saw);
        sp_request_destroy(r);
    }
    close_clean(c);
}

/* -- the store ------------------------------------------------------------------------------ */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    SP_UNUSED(st);
    SP_UNUSED(kind);
    SP_UNUSED(w);
    return remove(path);
}

static void make_folder(char *dir, size_t n)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, n, "%s/spolia-fuse-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
}

static sp_context *open_store(const char *dir, const char *salt)
{
    return open_with(
        (sp_context_opts){.tiers.store = dir, .salt = salt, .reuse.policy = "full", .n_batch = 40});
}

static void assert_from(const sp_request *r, int seg, const char *from, const char *missed)
{
    assert_string_equal(sp_request_result(r)->segments[seg].from, from);
    assert_string_equal(sp_request_result(r)->segments[seg].missed, missed);
}

static void another_context_finds_it(void **state)
{
    char dir[128], *text;
    make_folder(dir, sizeof dir);
    sp_context *c = open_store(dir, NULL);
    assert_true(fuse(c, "01"));
    sp_request *r = ask(c, "21", "Which?", 8);
    assert_from(r, 2, "memory", "");
    text = strdup(sp_request_result(r)->text);
    sp_request_destroy(r);
    close_clean(c);

    c = open_store(dir, NULL);
    assert_false(fuse(c, "01"));
    assert_int_equal(n_copies(c), 0); /* nothing was computed, or read */
    r = ask(c, "21", "Which?", 8);
    assert_from(r, 0, "disk", ""); /* the head */
    assert_from(r, 1, "disk", ""); /* the plain copy that the first context has computed */
    assert_from(r, 2, "disk", "");
    assert_int_equal(sp_request_result(r)->segments[2].n_reused,
                     sp_request_result(r)->segments[2].n_tokens);
    assert_adds_up(sp_request_result(r));
    assert_text(r, text);
    sp_request_destroy(r);
    r = ask(c, "21", "Which?", 8);
    assert_from(r, 0, "memory", "");
    assert_from(r, 2, "memory", "");
    sp_request_destroy(r);
    assert_true(fuse(c, "21")); /* its neighbours changed: the file as well */
    close_clean(c);

    c = open_store(dir, NULL);
    assert_false(fuse(c, "21"));
    assert_true(fuse(c, "01"));
    close_clean(c);
    assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Nobody can tell what it has seen: its version may be one that is not known, or its checksum wrong. */
static void a_copy_with_a_damaged_header_is_computed_again(void **state)
{
    static const int places[] = {9 /* the version */, 57 /* the cost */};
    for (size_t i = 0; i < SP_COUNT(places); i++) {
        char dir[128];
        make_folder(dir, sizeof dir);
        sp_context *c = open_store(dir, NULL);
        assert_true(fuse(c, "01"));
        close_clean(c);
        stored_flip(dir, SP_COPY_FUSED, places[i], 0);
        c = open_store(dir, NULL);
        assert_true(fuse(c, "01"));
        close_clean(c);
        c = open_store(dir, NULL);
        assert_false(fuse(c, "01"));
        close_clean(c);
        assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
}

/* fuse_after -- chunk 1 after a system text and another chunk. */
static void fuse_after(sp_context *c, const char *system, int other)
{
    sp_prompt *p;
    assert_ok(sp_prompt_create(c, &p));
    assert_ok(sp_prompt_system(p, system));
    assert_ok(sp_prompt_chunk(p, "T", texts[other]));
    assert_ok(sp_prompt_chunk(p, "T", texts[1]));
    assert_ok(sp_chunk_fuse(c, p, NULL));
    sp_prompt_destroy(p);
}

/* n_fused_on_disk -- as the ledger knows. */
static int n_fused_on_disk(const sp_context *c)
{
    int n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        n += v->facts.kind == SP_COPY_FUSED && v->places & SP_AT_DISK;
    return n;
}

/* A chunk has a copy after each system text. */
static void a_copy_that_has_not_seen_what_is_erased_is_still_on_disk(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    sp_context *c = open_store(dir, NULL);
    fuse_after(c, "Be brief.", 0);
    fuse_after(c, "Be polite.", 2);
    tiers_rest(c->tiers);
    assert_int_equal(n_fused_on_disk(c), 2);
    sp_prompt *p = prompt_of(c, "0", NULL);
    const sp_digest id = p->segs.v[p->segs.n - 1].id;
    int64_t n;
    sp_prompt_destroy(p);
    assert_ok(sp_context_erase_tiers(c, &id, 1, &n));
    assert_true(n >= 2); /* its own copy, and one of chunk 1 */
    assert_int_equal(n_fused_on_disk(c), 1);
    close_clean(c);
    assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void another_tenant_does_not_find_it(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    sp_context *c = open_store(dir, "one");
    assert_true(fuse(c, "01"));
    close_clean(c);
    c = open_store(dir, "two");
    sp_request *r = ask(c, "1", "Which?", 2);
    assert_from(r, 1, "", "never seen");
    sp_request_destroy(r);
    assert_true(fuse(c, "01"));
    close_clean(c);
    assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* asks_why -- what a context says of chunks 3 and 1, which it has never seen. */
static void asks_why(sp_context *c, const char *why_3, const char *why_1)
{
    sp_request *r = ask(c, "31", "Which?", 2);
    assert_from(r, 1, "", why_3);
    assert_from(r, 2, "", why_1);
    sp_request_destroy(r);
    close_clean(c);
}

static void another_kv_type_has_it(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    sp_context_opts o = {
        .tiers.store = dir, .salt = "us", .reuse.policy = "full", .cache.kv_type = "f16"};
    sp_context *c = open_with(o);
    assert_true(fuse(c, "01"));
    close_clean(c);
    o.cache.kv_type = "q8_0";
    asks_why(open_with(o), "never seen", "other model");
    o.cache.kv_type = "bf16";
    o.reuse.policy = "craft";
    asks_why(open_with(o), "other model",
             "other model"); /* the context before has stored chunk 3 */
    o.salt = "them";
    asks_why(open_with(o), "never seen", "never seen");
    o.salt = "us";
    o.tiers.store = NULL;
    asks_why(open_with(o), "never seen", "never seen");
    assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* When it was opened, the store had copies of the chunk for this very model. */
static void what_was_erased_was_of_no_other_model(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    sp_context *c = open_store(dir, NULL);
    assert_true(fuse(c, "01"));
    close_clean(c);
    c = open_store(dir, NULL);
    sp_prompt *p = prompt_of(c, "1", NULL);
    const sp_digest id = p->segs.v[p->segs.n - 1].id;
    int64_t n;
    sp_erased e;
    sp_prompt_destroy(p);
    assert_ok(sp_context_erase_tiers(c, &id, 1, &n));
    assert_ok(sp_context_erase_device(c, &id, 1, &e));
    assert_true(n > 0);
    sp_request *r = ask(c, "1", "Which?", 2);
    assert_from(r, 1, "", "never seen");
    sp_request_destroy(r);
    close_clean(c);
    assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* What the store has of the context's own tenant is no other's business. */
static void another_tenants_request_is_not_told(void **state)
{
    char dir[128];
    make_folder(dir, sizeof dir);
    sp_context_opts o = {
        .tiers.store = dir, .salt = "us", .reuse.policy = "full", .cache.kv_type = "f16"};
    sp_context *c = open_with(o);
    assert_true(fuse(c, "01"));
    close_clean(c);
    o.cache.kv_type = "q8_0";
    c = open_with(o);
    sp_prompt *p;
    assert_ok(sp_prompt_create_for(c, "them", &p));
    assert_ok(sp_prompt_system(p, "Be brief."));
    assert_ok(sp_prompt_chunk(p, "T", texts[1]));
    assert_ok(sp_prompt_question(p, "Which?"));
    sp_request *r = run(c, submit_prompt(c, p, 2));
    assert_from(r, 1, "", "never seen");
    sp_request_destroy(r);
    close_clean(c);
    assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void a_store_that_cannot_be_written_costs_only_the_copy(void **state)
{
    static const char *const orders[] = {"01", "0"}; /* among similar chunks, and alone */
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        char dir[128];
        make_folder(dir, sizeof dir);
        sp_context *c = open_store(dir, NULL);
        assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
        sp_prompt *p = prompt_of(c, orders[i], NULL);
        bool fresh = false;
        assert_int_equal(sp_chunk_fuse(c, p, &fresh), SP_E_IO);
        assert_false(fresh);
        sp_prompt_destroy(p);
        sp_request_destroy(ask(c, "10", "Which?", 4)); /* the context is none the worse for it */
        close_clean(c);
    }
}

/* -- little memory -------------------------------------------------------------------------- */

static void little_memory_is_enough(void **state)
{
    bool enough = false;
    for (int64_t n = 2; !enough; n++) {
        sp_context *c = open_with((sp_context_opts){0});
        size_t block = sp_context_describe(c).kv_block_bytes;
        sp_context_close(c);
        c = open_with((sp_context_opts){.cache.kv_bytes = (size_t)n * block, .n_batch = 16});
        sp_prompt *p = prompt_of(c, "021", NULL);
        sp_request *r;
        const sp_request_opts o = {.sampling = sp_sampling_default()};
        for (int k = 0; k < 2; k++) { /* the second time much of it is cached */
            const sp_err err = sp_request_create(c, p, &o, &sp_reuse_fuse, &r);
            if (err == SP_E_CONTEXT) continue; /* the prompt alone is larger */
            assert_ok(err);
            sp_driver_submit(c, r);
            run(c, r); /* with the invariants of every step */
            enough = sp_request_result(r)->finish == SP_FINISH_LENGTH;
            if (!enough) assert_refused(r);
            sp_request_destroy(r);
        }
        sp_prompt_destroy(p);
        close_clean(c);
        assert_in_range(n, 2, 60);
    }
}

static void every_allocation_may_fail(void **state)
{
    sp_context *c = open_with((sp_context_opts){0});
    sp_prompt *p = prompt_of(c, "01", NULL);
    sp_err err = SP_E_NOMEM;
    for (long n = 1; err != SP_OK; n++) {
        sp_context_forget(c);
        sp_fault_after(n);
        err = sp_chunk_fuse(c, p, NULL);
        sp_fault_after(-1);
        if (err != SP_OK) assert_int_equal(err, SP_E_NOMEM);
        assert_in_range(n, 1, 2000);
    }
    sp_prompt_destroy(p);
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fused_copy_is_known_until_its_neighbours_change),
        cmocka_unit_test(what_cannot_be_fused_is_refused),
        cmocka_unit_test(without_similar_chunks_it_is_the_plain_copy),
        cmocka_unit_test(the_copy_is_that_of_a_plain_run),
        cmocka_unit_test(a_fused_copy_is_used_unless_unwanted),
        cmocka_unit_test(the_copy_that_a_waiting_request_will_read_is_expected),
        cmocka_unit_test(a_segment_says_how_its_copy_was_made),
        cmocka_unit_test(a_copy_that_was_fused_meanwhile_is_named),
        cmocka_unit_test(a_chunk_is_not_another_one_of_its_prompt),
        cmocka_unit_test(another_context_finds_it),
        cmocka_unit_test(a_copy_with_a_damaged_header_is_computed_again),
        cmocka_unit_test(a_copy_that_has_not_seen_what_is_erased_is_still_on_disk),
        cmocka_unit_test(another_tenant_does_not_find_it),
        cmocka_unit_test(another_kv_type_has_it),
        cmocka_unit_test(what_was_erased_was_of_no_other_model),
        cmocka_unit_test(another_tenants_request_is_not_told),
        cmocka_unit_test(a_store_that_cannot_be_written_costs_only_the_copy),
        cmocka_unit_test(little_memory_is_enough),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
