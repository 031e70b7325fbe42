/* test_fill.c -- the plan that computes what is missing of head and chunks. */
#include "support/policies.h"

static void fill(bench *b)
{
    sp_plan_init(&b->plan, b->pool);
    assert_ok(sp_reuse_plan_fill(&b->in, &b->plan));
    assert_int_equal(b->plan.n_spans, b->n_segs);
    assert_int_equal(sp_reuse_wants_fill(&b->in), b->plan.n_todo > 0);
}

/* assert_fills -- span i is computed at `at`, all of it, and sees the spans named by the n digits.
 */
static void assert_fills(const bench *b, int i, int32_t at, const char *sees, int *t)
{
    const sp_plan *p = &b->plan;
    assert_int_equal(p->spans[i].n, b->segs[i].n);
    assert_int_equal(p->spans[i].at, at);
    assert_int_equal(p->spans[i].shift, 0);
    assert_int_equal(p->slots[i].n_known, 0);
    for (int32_t x = 0; x < b->segs[i].n; x++, ++*t) {
        const sp_todo *d = &p->todo[*t];
        const sp_sight *see = &p->sights[d->see];
        assert_in_range(*t, 0, p->n_todo - 1);
        assert_int_equal(d->token, b->segs[i].tokens[x]);
        assert_int_equal(d->pos, at + x);
        assert_int_equal(d->span, i);
        assert_int_equal(d->index, x);
        assert_int_equal(see->n, strlen(sees));
        for (int32_t k = 0; k < see->n; k++)
            assert_int_equal(see->list ? see->list[k] : k, sees[k] - '0');
    }
}

static void assert_empty(const bench *b, int i)
{
    assert_int_equal(b->plan.spans[i].n, 0);
    assert_int_equal(b->plan.slots[i].n_known, 0);
}

static void a_cold_prompt_fills_everything(void **state)
{
    bench b;
    int t = 0;
    bench_begin(&b, "sscctccq", (const int32_t[]){20, 5, 18, 33, 6, 70, 18, 9});
    twin(&b, 6, 2);
    look_up(&b, 0.5f);
    assert_int_equal(b.in.n_head, 2);
    fill(&b);
    assert_fills(&b, 0, 0, "0", &t);
    assert_fills(&b, 1, 20, "01", &t);
    assert_fills(&b, 2, 25, "012", &t);
    assert_fills(&b, 3, 25, "013", &t);
    assert_empty(&b, 4); /* text between */
    assert_fills(&b, 5, 25, "015", &t);
    assert_empty(&b, 6); /* the second of two equal ones */
    assert_empty(&b, 7); /* the question */
    assert_int_equal(b.plan.n_todo, t);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 2 + 1 + 2 + 3 + 5);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    bench_end(&b);
}

/* A part of the head is no copy of a chunk, nor of another part: each is computed. */
static void texts_of_the_head_are_filled_wherever_they_come_again(void **state)
{
    bench b;
    int t = 0;
    bench_begin(&b, "sscq", (const int32_t[]){20, 20, 20, 9});
    twin(&b, 1, 0);
    twin(&b, 2, 1);
    look_up(&b, 0);
    fill(&b);
    assert_fills(&b, 0, 0, "0", &t);
    assert_fills(&b, 1, 20, "01", &t);
    assert_fills(&b, 2, 40, "012", &t);
    bench_end(&b);
}

static void only_what_is_missing_is_filled(void **state)
{
    bench b;
    int t = 0;
    bench_begin(&b, "sscctccq", (const int32_t[]){20, 5, 18, 33, 6, 70, 18, 9});
    know_head(&b, 1);
    know_chunk(&b, 2, 25);
    know_chunk(&b, 5, 25);
    look_up(&b, 0);
    fill(&b);
    assert_blocks(&b.plan, 0, b.found[0].copy->blocks);
    assert_int_equal(b.plan.spans[0].n, 20);
    assert_fills(&b, 1, 20, "01", &t);
    assert_fills(&b, 3, 25, "013", &t);
    assert_fills(&b, 6, 25, "016", &t);
    for (int i = 2; i < 8; i++)
        if (i != 3 && i != 6) assert_empty(&b, i);
    assert_int_equal(b.plan.n_todo, t);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 1 + 3 + 2);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    bench_end(&b);
}

/* A path copy that directly follows the head serves an equal chunk elsewhere, and is no exact copy there. */
static void a_chunk_that_a_path_serves_after_the_head_is_not_filled(void **state)
{
    bench b;
    bench_begin(&b, "sccq", (const int32_t[]){20, 18, 18, 9});
    twin(&b, 2, 1);
    know_head(&b, 2); /* system and chunk 1 as a path */
    find_as(&b, policy("full"), (sp_reuse_input){.exact_first = true, .n_layers = 4});
    assert_true(b.found[1].exact);
    assert_ptr_equal(b.found[2].copy, b.found[1].copy);
    assert_false(b.found[2].exact);
    fill(&b);
    assert_int_equal(b.plan.n_todo, 0);
    bench_end(&b);
}

/* A chunk that is computed after one which comes from elsewhere sees it where it is now. */
static void what_is_filled_in_place_sees_moved_chunks_at_their_places(void **state)
{
    bench b;
    sp_plan_role role;
    bench_begin(&b, "sccq", (const int32_t[]){20, 18, 33, 9});
    know_head(&b, 1);
    know_chunk(&b, 1, 70);
    find_as(&b, policy("inplace"), (sp_reuse_input){.n_layers = 4});
    sp_plan_init(&b.plan, b.pool);
    assert_ok(policy_with(&b, "inplace")->next_plan(&b.in, &b.plan, &role));
    assert_int_equal(role, SP_PLAN_FILL);
    assert_int_equal(b.plan.spans[1].at, 70);
    assert_int_equal(b.plan.spans[1].at + b.plan.spans[1].shift, 20);
    assert_int_equal(b.plan.spans[2].at, 38);
    assert_int_equal(b.plan.spans[2].shift, 0);
    bench_end(&b);
}

/* Where a text is between the head and a chunk, the chunk does not directly follow the head: its copy serves others,
 * but is not what a prompt without that text computes. */
static void a_chunk_that_is_computed_away_from_the_head_is_no_exact_copy(void **state)
{
    static const char *const kinds[] = {"scq", "stcq"};
    for (int apart = 0; apart < 2; apart++) {
        bench b;
        sp_plan_role role;
        sp_kept v[8];
        sp_kept_list kept = {.v = v};
        bench_begin(&b, kinds[apart], (const int32_t[]){20, 18, 33, 9});
        know_head(&b, 1);
        find_as(&b, policy("inplace"), (sp_reuse_input){.n_layers = 4});
        sp_plan_init(&b.plan, b.pool);
        assert_ok(policy("inplace")->next_plan(&b.in, &b.plan, &role));
        assert_ok(policy("inplace")->keep(&b.in, &b.plan, role, &kept));
        assert_int_equal(kept.n, 1);
        assert_int_equal(v[0].spec.facts.kind, SP_COPY_PLAIN);
        assert_int_equal(v[0].spec.facts.at, apart ? 38 : 20);
        assert_int_equal(v[0].spec.facts.exact, !apart);
        bench_end(&b);
    }
}

/* A share of 1 recomputes every token of every chunk, also of those that are where they were. */
static void all_of_all_chunks_in_place_is_recomputed(void **state)
{
    static const sp_digest elsewhere = {{8}};
    bench b;
    bench_begin(&b, "sccq", (const int32_t[]){20, 18, 33, 9});
    know_head(&b, 1);
    know_chunk(&b, 1, 20); /* as it is here */
    know_copy(&b, 2, (sp_copy_spec){.facts.kind = SP_COPY_FUSED, .facts.before = (sp_digest[]){b.ids[0], elsewhere},
                                    .facts.n_before = 2, .facts.at = 38});
    find_as(&b, policy("inplace"), (sp_reuse_input){.n_layers = 4, .recompute = 1});
    assert_true(b.found[1].copy && b.found[2].copy);
    make_plan(&b, "inplace");
    assert_int_equal(b.plan.n_todo, 18 + 33 + 9);
    bench_end(&b);
}

/* Chunks after the first keep_chunks are computed with the answer, unless a copy of them is known. */
/* A path copy of a chunk that followed the head is recomputed where it does not; one that this prompt has computed is
 * not, whatever it saw. */
static void chunks_in_other_places_than_their_copies_are_recomputed(void **state)
{
    for (int here = 0; here < 2; here++) {
        bench b;
        bench_begin(&b, "sccq", (const int32_t[]){20, 18, 33, 9});
        know_path(&b, (const sp_segment[]){b.segs[0], b.segs[2]}, 2);
        know_chunk(&b, 1, 20); /* as it is here */
        find_as(&b, policy("inplace"), (sp_reuse_input){.n_layers = 4, .recompute = 0.5f});
        assert_int_equal(b.found[2].copy->facts.kind, SP_COPY_PATH);
        if (here) b.found[2].source = SP_AT_NONE;
        make_plan(&b, "inplace");
        assert_int_equal(b.plan.n_todo, 9 + (here ? 0 : 17)); /* the question, and a half of chunk 2 */
        bench_end(&b);
    }
}

static void chunks_that_are_not_kept_are_not_filled(void **state)
{
    for (int keep = 0; keep <= 3; keep++) {
        bench b;
        int t = 0;
        bench_begin(&b, "scccq", (const int32_t[]){20, 18, 33, 6, 9});
        know_head(&b, 1);
        know_chunk(&b, 2, 20);
        find_as(&b, policy("full"), (sp_reuse_input){.keep_chunks = keep, .n_layers = 4});
        assert_non_null(b.found[2].copy);
        fill(&b);
        assert_fills(&b, 1, 20, "01", &t);
        if (keep == 0 || keep > 2) assert_fills(&b, 3, 20, "03", &t);
        assert_int_equal(b.plan.n_todo, t);
        bench_end(&b);
    }
}

/* A fill whose copies found no room is not tried for ever: what is missing is computed with the answer. */
static void what_was_filled_once_is_not_filled_again(void **state)
{
    bench b;
    bench_begin(&b, "sccq", (const int32_t[]){20, 18, 18, 9});
    look_up(&b, 0);
    assert_true(sp_reuse_wants_fill(&b.in));
    b.in.n_done[SP_PLAN_FILL] = 1;
    assert_false(sp_reuse_wants_fill(&b.in));
    bench_end(&b);
}

static void the_head_is_the_system_text_or_what_precedes_the_chunks(void **state)
{
    static const struct {
        const char *kinds;
        int n;
    } all[] = {{"scq", 1}, {"sscq", 2}, {"stcq", 1}, {"tccq", 1}, {"cq", 0}, {"sq", 2}, {"tcsq", 1}};
    for (size_t i = 0; i < SP_COUNT(all); i++) {
        bench b;
        bench_begin(&b, all[i].kinds, (const int32_t[]){20, 5, 18, 33});
        assert_int_equal(sp_reuse_n_head(b.segs, b.n_segs), all[i].n);
        bench_end(&b);
    }
}

/* A warm-up leaves a plain copy of every chunk, also where a path would serve it. */
static void a_warm_up_does_not_take_paths_for_copies(void **state)
{
    for (int warm = 0; warm < 2; warm++) {
        bench b;
        bench_begin(&b, "sccq", (const int32_t[]){20, 18, 33, 9});
        know_head(&b, 2);
        find_as(&b, policy("full"), (sp_reuse_input){.exact_first = true, .warm = warm, .n_layers = 4});
        assert_non_null(b.found[0].copy);
        assert_int_equal(b.found[1].copy != NULL, !warm);
        bench_end(&b);
    }
}

/* A look-up that uses whole copies alone lets go of one that serves a part: else it could never leave memory. */
static void a_head_that_is_known_in_part_stays_unpinned(void **state)
{
    static const char *const names[] = {"full", "set", "h2o"};
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        bench b;
        bench_begin(&b, "scq", (const int32_t[]){60, 18, 9});
        const sp_segment part = small_segment(b.tokens[0], 40);
        know_path(&b, &part, 1);
        const sp_copy *known = sp_ledger_next(b.ledger, NULL);
        find_as(&b, policy(names[i]), (sp_reuse_input){.n_layers = 4});
        assert_null(b.found[0].copy);
        assert_int_equal(known->n_pins, 0);
        bench_end(&b);
    }
}

static void what_a_fill_leaves_says_what_it_was_computed_after(void **state)
{
    bench b;
    sp_kept v[8];
    sp_kept_list kept = {.v = v};
    bench_begin(&b, "sscq", (const int32_t[]){20, 5, 18, 9});
    look_up(&b, 0);
    fill(&b);
    assert_ok(sp_reuse_keep_fill(&b.in, &b.plan, SP_PLAN_FILL, &kept));
    assert_int_equal(kept.n, 3);
    for (int i = 0; i < kept.n; i++) {
        const sp_copy_facts *f = &v[i].spec.facts;
        assert_int_equal(v[i].seg, i);
        assert_true(f->exact);
        assert_int_equal(f->kind, i < 2 ? SP_COPY_PATH : SP_COPY_PLAIN);
        assert_int_equal(f->at, i == 0 ? 0 : i == 1 ? 20 : 25);
    }
    assert_int_equal(v[2].spec.facts.n_head, 2);
    assert_int_equal(v[2].spec.facts.n_before, 2);
    assert_memory_equal(v[2].spec.facts.before, b.ids, 2 * sizeof *b.ids);
    kept.n = 0;
    assert_ok(sp_reuse_keep_fill(&b.in, &b.plan, SP_PLAN_ANSWER, &kept));
    assert_int_equal(kept.n, 0);
    bench_end(&b);
}

/* What follows an approximate copy on a path is no exact copy of the path. */
static void nothing_is_kept_as_exact_after_what_is_not(void **state)
{
    for (int exact = 0; exact < 2; exact++) {
        bench b;
        sp_kept v[8];
        sp_kept_list kept = {.v = v};
        bench_begin(&b, "sscq", (const int32_t[]){20, 5, 18, 9});
        know_head(&b, 1);
        look_up(&b, 0);
        fill(&b);
        b.found[0].exact = exact;
        sp_reuse_keep_path(&b.in, &b.plan, 2, &kept);
        assert_int_equal(kept.n, exact);
        bench_end(&b);
    }
}

static void a_known_prompt_fills_nothing(void **state)
{
    bench b;
    usual(&b, 0.5f);
    fill(&b);
    assert_int_equal(b.plan.n_todo, 0);
    assert_int_equal(b.plan.n_sights, 0);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 0);
    bench_end(&b);
}

static void every_allocation_may_fail(void **state)
{
    bench b;
    bench_begin(&b, "sscctccq", (const int32_t[]){20, 5, 18, 33, 6, 70, 18, 9});
    know_head(&b, 1);
    look_up(&b, 0);
    for (int heavy = 0; heavy < 2; heavy++) {
        uint64_t before = refs(&b);
        const sp_reuse_policy *p = policy(heavy ? "h2o" : "full");
        assert_survives_faults(made(&b, p), refs(&b) == before);
        assert_true(refs(&b) == before);
    }
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cold_prompt_fills_everything),
        cmocka_unit_test(texts_of_the_head_are_filled_wherever_they_come_again),
        cmocka_unit_test(only_what_is_missing_is_filled),
        cmocka_unit_test(a_chunk_that_a_path_serves_after_the_head_is_not_filled),
        cmocka_unit_test(what_is_filled_in_place_sees_moved_chunks_at_their_places),
        cmocka_unit_test(a_chunk_that_is_computed_away_from_the_head_is_no_exact_copy),
        cmocka_unit_test(all_of_all_chunks_in_place_is_recomputed),
        cmocka_unit_test(chunks_in_other_places_than_their_copies_are_recomputed),
        cmocka_unit_test(chunks_that_are_not_kept_are_not_filled),
        cmocka_unit_test(what_was_filled_once_is_not_filled_again),
        cmocka_unit_test(the_head_is_the_system_text_or_what_precedes_the_chunks),
        cmocka_unit_test(a_warm_up_does_not_take_paths_for_copies),
        cmocka_unit_test(a_head_that_is_known_in_part_stays_unpinned),
        cmocka_unit_test(what_a_fill_leaves_says_what_it_was_computed_after),
        cmocka_unit_test(nothing_is_kept_as_exact_after_what_is_not),
        cmocka_unit_test(a_known_prompt_fills_nothing),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
