/* Plans: which blocks they hold, what they check, how they grow. */
#include "support/small_kv.h"

#include <limits.h>

#include "kv/plan.h"

enum { B = SP_BLOCK_TOKENS };

typedef struct bench {
    sp_kv_pool *pool;
    sp_plan plan;
} bench;

static void bench_begin(bench *b, int64_t n_blocks)
{
    b->pool = small_pool(n_blocks);
    sp_plan_init(&b->plan, b->pool);
}

static void bench_end(bench *b)
{
    sp_plan_fini(&b->plan);
    small_pool_end(b->pool);
}

static int add_span(sp_plan *p, int32_t n, int32_t room, const uint32_t *known, int32_t n_known)
{
    int span = -1;
    assert_ok(sp_plan_add_span(
        p, &(sp_span_spec){.n = n, .room = room, .known = known, .n_known = n_known}, &span));
    return span;
}

/* Adds consecutive spans of these lengths, nothing of them known, with all that must be computed.
 */
static void fill(sp_plan *p, const int32_t *lengths, int n_spans)
{
    int32_t at = 0;
    for (int s = 0; s < n_spans; s++) {
        int span, see;
        assert_ok(sp_plan_add_span(p, &(sp_span_spec){.n = lengths[s], .at = at}, &span));
        assert_ok(sp_plan_add_sight(p, NULL, s + 1, &see));
        for (int32_t i = 0; i < lengths[s]; i++)
            assert_ok(sp_plan_add_todo(p, (sp_todo){.token = 100 + i,
                                                    .pos = at + i,
                                                    .span = (uint16_t)span,
                                                    .see = (uint16_t)see,
                                                    .index = i}));
        at += lengths[s];
    }
}

/* add_joined -- a span that is computed whole; packed: it may begin in the last block of the one before. */
static int add_joined(sp_plan *p, int32_t n, int32_t at, bool joined, bool packed)
{
    static const int32_t tokens[64];
    int span, see;
    assert_ok(sp_plan_add_span(p, &(sp_span_spec){.n = n, .at = at, .joined = joined, .packed = packed}, &span));
    assert_ok(sp_plan_add_sight(p, NULL, span + 1, &see));
    const sp_todo first = {.pos = at, .span = (uint16_t)span, .see = (uint16_t)see};
    assert_ok(sp_plan_add_run(p, first, tokens, n));
    return span;
}

static void packed_spans_share_a_block_and_both_hold_it(void **state)
{
    bench b;
    bench_begin(&b, 8);
    const int first = add_joined(&b.plan, 5, 0, true, false), second = add_joined(&b.plan, 20, 5, true, true);
    assert_int_equal(b.plan.spans[second].first, 5);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 2);
    assert_ok(sp_plan_bind(&b.plan));
    const uint32_t shared = b.plan.spans[first].blocks[0];
    assert_int_equal(b.plan.spans[second].blocks[0], shared);
    assert_int_equal(sp_kv_refs(b.pool, shared), 2);
    assert_int_equal(sp_kv_refs(b.pool, b.plan.spans[second].blocks[1]), 1);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 8 - 2);
    assert_ok(sp_plan_check(&b.plan));
    bench_end(&b);
}

static void whole_blocks_are_sealed_unless_others_write_to_them(void **state)
{
    for (int joined = 0; joined < 2; joined++) {
        bench b;
        bench_begin(&b, 8);
        const int span = add_joined(&b.plan, 40, 0, joined, false);
        assert_ok(sp_plan_bind(&b.plan));
        const uint32_t *blocks = b.plan.spans[span].blocks;
        sp_plan_seal_done(&b.plan, 0, B - 1);
        assert_false(sp_kv_is_sealed(b.pool, blocks[0]));
        sp_plan_seal_done(&b.plan, B - 1, 40);
        for (int i = 0; i < 3; i++) assert_int_equal(sp_kv_is_sealed(b.pool, blocks[i]), i < 2 && !joined);
        bench_end(&b);
    }
}

static void a_span_that_shrinks_gives_back_whole_blocks(void **state)
{
    bench b;
    bench_begin(&b, 8);
    const int span = add_span(&b.plan, 40, 64, NULL, 0);
    assert_ok(sp_plan_bind(&b.plan));
    static const int32_t sizes[] = {40, 33, 32, 17, 16, 1, 0}, n_blocks[] = {3, 3, 2, 2, 1, 1, 0};
    for (size_t i = 0; i < SP_COUNT(sizes); i++) {
        const int64_t n_free = sp_kv_pool_n_free(b.pool);
        const int32_t released = sp_plan_shrink(&b.plan, span, sizes[i]);
        assert_int_equal(released, i ? n_blocks[i - 1] - n_blocks[i] : 0);
        assert_int_equal(sp_kv_pool_n_free(b.pool), n_free + released);
        assert_int_equal(b.plan.spans[span].n, sizes[i]);
    }
    bench_end(&b);
}

/* -- holding blocks ------------------------------------------------------------------------- */

static void known_blocks_are_retained_until_the_end(void **state)
{
    bench b;
    uint32_t known[3];
    bench_begin(&b, 8);
    assert_ok(sp_kv_acquire(b.pool, 3, known));
    int whole = add_span(&b.plan, 2 * B + 5, 2 * B + 5, known, 2 * B + 5);
    int piece = add_span(&b.plan, 3 * B, 3 * B, known, B);
    assert_int_equal(sp_kv_refs(b.pool, known[0]), 3);
    assert_int_equal(sp_kv_refs(b.pool, known[1]), 2);
    assert_int_equal(sp_kv_refs(b.pool, known[2]), 2);
    assert_memory_equal(b.plan.spans[whole].blocks, known, sizeof known);
    assert_int_equal(b.plan.spans[piece].blocks[0], known[0]);
    assert_int_equal(b.plan.slots[piece].n_known, B);
    known[0] = 99; /* the plan keeps a copy */
    assert_int_not_equal(b.plan.spans[whole].blocks[0], 99);
    known[0] = b.plan.spans[whole].blocks[0];
    sp_plan_fini(&b.plan); /* never bound */
    for (int i = 0; i < 3; i++) assert_int_equal(sp_kv_refs(b.pool, known[i]), 1);
    sp_kv_release(b.pool, known, 3);
    bench_end(&b); /* a second fini is harmless */
}

/* A copy that begins within a block: its tokens reach into one more. */
static void known_blocks_are_counted_from_the_first_slot(void **state)
{
    bench b;
    bench_begin(&b, 8);
    uint32_t known[2];
    int span;
    assert_ok(sp_kv_acquire(b.pool, 2, known));
    const sp_span_spec spec = {.n = B, .first = B / 2, .known = known, .n_known = B};
    assert_ok(sp_plan_add_span(&b.plan, &spec, &span));
    assert_memory_equal(b.plan.spans[span].blocks, known, sizeof known);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(sp_kv_refs(b.pool, known[i]), 2);
    sp_kv_release(b.pool, known, 2);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 6);
    sp_plan_fini(&b.plan);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 8);
    bench_end(&b);
}

static void binding_takes_what_it_said(void **state)
{
    bench b;
    uint32_t known[2];
    bench_begin(&b, 40);
    assert_ok(sp_kv_acquire(b.pool, 2, known));
    add_span(&b.plan, 2 * B, 2 * B, known, 2 * B);     /* needs none */
    add_span(&b.plan, 4 * B + 1, 4 * B + 1, known, B); /* 4 more */
    add_span(&b.plan, 1, 100, NULL, 0);                /* 1: room is not taken yet */
    add_span(&b.plan, 0, 100, NULL, 0);                /* none */
    assert_int_equal(sp_plan_n_fresh(&b.plan), 5);
    assert_ok(sp_plan_bind(&b.plan));
    assert_int_equal(sp_kv_pool_n_free(b.pool), 40 - 2 - 5);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 0);
    const sp_span *s = &b.plan.spans[1];
    assert_int_equal(s->blocks[0], known[0]);
    for (int i = 1; i < 5; i++) {
        assert_int_equal(sp_kv_refs(b.pool, s->blocks[i]), 1);
        for (int j = 0; j < i; j++) assert_int_not_equal(s->blocks[i], s->blocks[j]);
        assert_int_not_equal(s->blocks[i], b.plan.spans[2].blocks[0]);
    }
    sp_kv_release(b.pool, known, 2); /* the plan holds them on its own */
    assert_int_equal(sp_kv_refs(b.pool, known[0]), 2);
    bench_end(&b);
}

static void binding_without_blocks_takes_nothing(void **state)
{
    bench b;
    uint32_t other[3];
    bench_begin(&b, 5);
    assert_ok(sp_kv_acquire(b.pool, 3, other));
    add_span(&b.plan, B, B, other, B);
    add_span(&b.plan, 3 * B, 3 * B, NULL, 0);
    assert_fails(sp_plan_bind(&b.plan), SP_E_NOKV, "3 blocks wanted, 2 of 5 free");
    assert_false(b.plan.bound);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 2);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 3);
    sp_kv_release(b.pool, other, 3); /* the first is still held by the plan */
    assert_int_equal(sp_kv_pool_n_free(b.pool), 4);
    assert_ok(sp_plan_bind(&b.plan)); /* and now it works */
    assert_int_equal(sp_kv_pool_n_free(b.pool), 1);
    bench_end(&b);
}

static void a_plan_that_could_not_bind_gives_back_what_it_knew(void **state)
{
    bench b;
    uint32_t known[1];
    bench_begin(&b, 2);
    assert_ok(sp_kv_acquire(b.pool, 1, known));
    add_span(&b.plan, 4 * B, 4 * B, known, B);
    sp_kv_release(b.pool, known, 1);
    assert_fails(sp_plan_bind(&b.plan), SP_E_NOKV, "3 blocks");
    bench_end(&b);
}

static void empty_plans_bind_and_end(void **state)
{
    bench b;
    bench_begin(&b, 1);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 0);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    bench_end(&b);
}

/* -- what spans and sights say -------------------------------------------------------------- */

static void spans_keep_positions_and_shift(void **state)
{
    bench b;
    int span;
    int32_t pos[] = {3, 8, 9};
    bench_begin(&b, 4);
    assert_ok(sp_plan_add_span(
        &b.plan, &(sp_span_spec){.n = 3, .room = 10, .at = 7, .pos = pos, .shift = -2}, &span));
    pos[1] = 0; /* copied */
    const sp_span *s = &b.plan.spans[span];
    assert_int_equal(s->n, 3);
    assert_int_equal(s->at, 7);
    assert_int_equal(s->shift, -2);
    assert_int_equal(s->pos[0], 3);
    assert_int_equal(s->pos[1], 8);
    assert_int_equal(s->pos[2], 9);
    assert_null(s->stale);
    assert_int_equal(b.plan.slots[span].room, 10);
    bench_end(&b);
}

static void sights_are_copied(void **state)
{
    bench b;
    int all, some;
    uint16_t list[] = {0, 2};
    bench_begin(&b, 4);
    for (int i = 0; i < 3; i++) add_span(&b.plan, 1, 1, NULL, 0);
    assert_ok(sp_plan_add_sight(&b.plan, NULL, 3, &all));
    assert_ok(sp_plan_add_sight(&b.plan, list, 2, &some));
    list[1] = 77;
    assert_null(b.plan.sights[all].list);
    assert_int_equal(b.plan.sights[all].n, 3);
    assert_int_equal(b.plan.sights[some].n, 2);
    assert_int_equal(b.plan.sights[some].list[0], 0);
    assert_int_equal(b.plan.sights[some].list[1], 2);
    assert_ok(sp_plan_check(&b.plan));
    bench_end(&b);
}

static void stale_marks_are_single_tokens(void **state)
{
    static const int32_t marks[] = {0, 63, 64, 65, 127, 128, 199};
    bench b;
    bench_begin(&b, 20);
    int span = add_span(&b.plan, 200, 200, NULL, 0), other = add_span(&b.plan, 9, 9, NULL, 0);
    for (size_t i = 0; i < SP_COUNT(marks); i++)
        assert_ok(sp_plan_mark_stale(&b.plan, span, marks[i]));
    assert_ok(sp_plan_mark_stale(&b.plan, span, 64)); /* twice is once */
    const uint64_t *stale = b.plan.spans[span].stale;
    for (int32_t t = 0; t < 200; t++) {
        bool marked = false;
        for (size_t i = 0; i < SP_COUNT(marks); i++) marked |= marks[i] == t;
        assert_int_equal(stale[t / 64] >> (t % 64) & 1, marked);
    }
    assert_null(b.plan.spans[other].stale);
    bench_end(&b);
}

static void a_whole_span_goes_stale(void **state)
{
    static const int32_t lengths[] = {1, 63, 64, 65, 128, 200};
    bench b;
    bench_begin(&b, 60);
    for (size_t i = 0; i < SP_COUNT(lengths); i++) {
        int32_t n = lengths[i], room = n + 70; /* what it grows by is not stale */
        int span = add_span(&b.plan, n, room, NULL, 0);
        assert_ok(sp_plan_mark_all_stale(&b.plan, span));
        for (int32_t t = 0; t < room; t++)
            assert_int_equal(b.plan.spans[span].stale[t / 64] >> (t % 64) & 1, t < n);
        assert_ok(sp_plan_mark_stale(&b.plan, span, n - 1)); /* it has its map */
    }
    bench_end(&b);
}

static void reserved_todo_stays_in_place(void **state)
{
    bench b;
    bench_begin(&b, 20);
    int span = add_span(&b.plan, 200, 200, NULL, 0);
    for (int32_t i = 0; i < 200; i++) {
        if (i == 3) assert_ok(sp_plan_reserve_todo(&b.plan, 197));
        const sp_todo *before = b.plan.todo;
        assert_ok(sp_plan_add_todo(&b.plan, (sp_todo){.token = i, .span = (uint16_t)span}));
        assert_true(i < 3 || b.plan.todo == before);
        assert_ok(sp_plan_reserve_todo(&b.plan, 0));
    }
    for (int32_t i = 0; i < 200; i++) assert_int_equal(b.plan.todo[i].token, i);
    assert_ok(sp_plan_add_todo(&b.plan, (sp_todo){.token = 200})); /* and more than that */
    assert_int_equal(b.plan.todo[199].token, 199);
    assert_fails(sp_plan_reserve_todo(&b.plan, INT_MAX), SP_E_NOMEM, "plan");
    assert_int_equal(b.plan.n_todo, 201);
    bench_end(&b);
}

static void a_run_is_its_tokens_one_by_one(void **state)
{
    bench b;
    enum { MANY = 4000 }; /* more than the plan's memory still holds */
    int32_t tokens[MANY];
    bench_begin(&b, 20);
    for (int32_t i = 0; i < MANY; i++) tokens[i] = 7 * i;
    int n = 0;
    for (int32_t len = 0; len <= 25; n += len++) { /* 325 in all; the list grows on its way */
        sp_todo first = {.token = -1, .pos = 10 + n, .span = 3, .see = 2, .index = n};
        assert_ok(sp_plan_add_run(&b.plan, first, tokens + len, len));
        assert_int_equal(b.plan.n_todo, n + len);
        for (int32_t i = 0; i < len; i++) {
            const sp_todo *t = &b.plan.todo[n + i];
            assert_int_equal(t->token, 7 * (len + i));
            assert_int_equal(t->pos, 10 + n + i);
            assert_int_equal(t->index, n + i);
            assert_true(t->span == 3 && t->see == 2);
        }
    }
    for (int i = 0; i < n; i++) assert_int_equal(b.plan.todo[i].index, i);
    assert_survives_faults(sp_plan_add_run(&b.plan, (sp_todo){0}, tokens, MANY),
                           b.plan.n_todo == n);
    assert_int_equal(b.plan.n_todo, n + MANY);
    bench_end(&b);
}

/* The map of a span that grows must reach as far as the span may. */
static void tokens_added_later_are_not_stale(void **state)
{
    bench b;
    int see;
    uint16_t ones[400];
    memset(ones, 0xff, sizeof ones);
    bench_begin(&b, 20);
    int span = add_span(&b.plan, 60, 300, NULL, 0);
    assert_ok(sp_plan_mark_stale(&b.plan, span, 0));
    assert_ok(sp_plan_add_sight(&b.plan, ones, 400, &see)); /* what lies next in memory */
    assert_ok(sp_plan_bind(&b.plan));
    for (int32_t i = 60; i < 300; i++) assert_ok(sp_plan_grow(&b.plan, span, 1, i, 0));
    for (int32_t t = 1; t < 300; t++)
        assert_int_equal(b.plan.spans[span].stale[t / 64] >> (t % 64) & 1, 0);
    bench_end(&b);
}

static void plans_hold_many_of_everything(void **state)
{
    enum { N = 1000 };
    bench b;
    bench_begin(&b, N * 2);
    uint32_t known[1];
    assert_ok(sp_kv_acquire(b.pool, 1, known));
    for (int i = 0; i < N; i++) {
        int span, see;
        uint16_t list[] = {(uint16_t)i};
        assert_ok(sp_plan_add_span(
            &b.plan,
            &(sp_span_spec){
                .n = B + 1, .at = i * (B + 1), .shift = i, .known = known, .n_known = B},
            &span));
        assert_int_equal(span, i);
        assert_ok(sp_plan_add_sight(&b.plan, list, 1, &see));
        assert_int_equal(see, i);
        assert_ok(sp_plan_mark_stale(&b.plan, span, i % B));
        assert_ok(sp_plan_add_todo(&b.plan, (sp_todo){.token = i,
                                                      .pos = i * (B + 1) + B + i,
                                                      .span = (uint16_t)span,
                                                      .see = (uint16_t)see,
                                                      .index = B}));
    }
    assert_int_equal(sp_plan_n_fresh(&b.plan), N);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    for (int i = 0; i < N; i++) {
        assert_int_equal(b.plan.spans[i].shift, i);
        assert_int_equal(b.plan.spans[i].blocks[0], known[0]);
        assert_true(b.plan.spans[i].stale[0] == UINT64_C(1) << (i % B));
        assert_int_equal(b.plan.sights[i].list[0], i);
        assert_int_equal(b.plan.todo[i].token, i);
    }
    sp_kv_release(b.pool, known, 1);
    bench_end(&b);
}

static void more_spans_than_can_be_named_are_refused(void **state)
{
    bench b;
    bench_begin(&b, 1);
    int span = -1, see = -1;
    for (int i = 0; i < UINT16_MAX; i++) {
        assert_ok(sp_plan_add_span(&b.plan, &(sp_span_spec){.n = 0}, &span));
        assert_ok(sp_plan_add_sight(&b.plan, NULL, 0, &see));
    }
    assert_fails(sp_plan_add_span(&b.plan, &(sp_span_spec){.n = 0}, &span), SP_E_LIMIT, "spans");
    assert_fails(sp_plan_add_sight(&b.plan, NULL, 0, &see), SP_E_LIMIT, "sights");
    assert_int_equal(span, UINT16_MAX - 1);
    assert_int_equal(see, UINT16_MAX - 1);
    bench_end(&b);
}

/* -- checking ------------------------------------------------------------------------------- */

/* A good plan of two spans, 20 and 10 tokens, ready to be spoilt. */
static void begin_good(bench *b)
{
    bench_begin(b, 8);
    fill(&b->plan, (const int32_t[]){20, 10}, 2);
    assert_ok(sp_plan_bind(&b->plan));
    assert_ok(sp_plan_check(&b->plan));
}

#define SPOILT(change, why)                                                                        \
    do {                                                                                           \
        bench b;                                                                                   \
        begin_good(&b);                                                                            \
        sp_plan *p = &b.plan;                                                                      \
        change;                                                                                    \
        assert_fails(sp_plan_check(p), SP_E_ARG, why);                                             \
        bench_end(&b);                                                                             \
    } while (0)

static void check_finds_what_todo_does_wrong(void **state)
{
    SPOILT(p->todo[5].span = 2, "todo 5 names span 2");
    SPOILT(p->todo[5].see = 2, "todo 5 names span 0, sight 2");
    SPOILT(p->todo[5].index = 20, "todo 5 writes token 20 of span 0");
    SPOILT(p->todo[5].index = -1, "todo 5 writes token -1");
    SPOILT(p->slots[1].n_known = 1, "todo 20 writes token 0 of span 1"); /* it is known already */
    SPOILT(p->todo[5].pos = 6, "todo 5 is at position 6, its slot at 5");
    SPOILT(p->todo[5].index = 6, "todo 5 is at position 5, its slot at 6");
    SPOILT(p->todo[6] = p->todo[5], "todo 6 is not ascending"); /* the same slot twice */
    SPOILT(
        {
            sp_todo first = p->todo[0];
            p->todo[0] = p->todo[1];
            p->todo[1] = first;
        },
        "todo 1 is not ascending");
    SPOILT(p->spans[1].shift = 3, "todo 20 is at position 20, its slot at 23");
    SPOILT(sp_kv_seal(p->pool, &p->spans[0].blocks[1], 1), "todo 16 writes a sealed block");
}

static void check_finds_what_sights_do_wrong(void **state)
{
    uint16_t beyond[] = {0, 2}, falling[] = {1, 0}, twice[] = {1, 1};
    int see;
    SPOILT(p->sights[0].n = 3, "sight 0 holds 3 of 2 spans");
    SPOILT(p->sights[1].n = -1, "sight 1 holds -1");
    SPOILT(assert_ok(sp_plan_add_sight(p, beyond, 2, &see)), "sight 2 names span 2");
    SPOILT(assert_ok(sp_plan_add_sight(p, falling, 2, &see)), "sight 2 names span 0");
    SPOILT(assert_ok(sp_plan_add_sight(p, twice, 2, &see)), "sight 2 names span 1");
}

static void check_finds_scattered_positions_out_of_order(void **state)
{
    bench b;
    int span;
    bench_begin(&b, 8);
    assert_ok(sp_plan_add_span(&b.plan, &(sp_span_spec){.n = 3, .pos = (const int32_t[]){4, 9, 10}},
                               &span));
    assert_ok(sp_plan_check(&b.plan));
    assert_ok(sp_plan_add_span(&b.plan, &(sp_span_spec){.n = 3, .pos = (const int32_t[]){4, 9, 9}},
                               &span));
    assert_fails(sp_plan_check(&b.plan), SP_E_ARG, "span 1 is not ascending at token 2");
    bench_end(&b);
}

/* Recomputed tokens stand at their old positions in a span of their own. */
static void scattered_tokens_check_against_their_positions(void **state)
{
    static const int32_t pos[] = {4, 9, 10};
    bench b;
    int span, see;
    bench_begin(&b, 8);
    assert_ok(sp_plan_add_span(&b.plan, &(sp_span_spec){.n = 3, .pos = pos, .shift = 100}, &span));
    assert_ok(sp_plan_add_sight(&b.plan, NULL, 1, &see));
    for (int32_t i = 0; i < 3; i++)
        assert_ok(sp_plan_add_todo(&b.plan, (sp_todo){.pos = pos[i] + 100, .index = i}));
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    b.plan.todo[1].pos = 108;
    assert_fails(sp_plan_check(&b.plan), SP_E_ARG, "todo 1 is at position 108, its slot at 109");
    bench_end(&b);
}

/* -- growing -------------------------------------------------------------------------------- */

static void an_answer_grows_to_its_room_and_no_further(void **state)
{
    enum { PROMPT = 20, ROOM = 200 * B + 3 }; /* more than an arena has at hand */
    bench b;
    int span, see;
    bench_begin(&b, 210);
    fill(&b.plan, (const int32_t[]){PROMPT}, 1);
    assert_ok(sp_plan_add_span(&b.plan, &(sp_span_spec){.room = ROOM, .at = PROMPT}, &span));
    assert_ok(sp_plan_add_sight(&b.plan, NULL, 2, &see));
    assert_ok(sp_plan_bind(&b.plan));
    int64_t n_free = sp_kv_pool_n_free(b.pool);
    for (int32_t i = 0; i < ROOM; i++) {
        sp_fault_after(0); /* a decode step allocates nothing */
        sp_err err = sp_plan_grow(&b.plan, span, 500 + i, PROMPT + i, (uint16_t)see);
        sp_fault_after(-1);
        assert_ok(err);
        assert_int_equal(b.plan.spans[span].n, i + 1);
        assert_int_equal(b.plan.n_todo, PROMPT + i + 1);
        const sp_todo *t = &b.plan.todo[PROMPT + i];
        assert_int_equal(t->token, 500 + i);
        assert_int_equal(t->pos, PROMPT + i);
        assert_int_equal(t->span, span);
        assert_int_equal(t->see, see);
        assert_int_equal(t->index, i);
        assert_int_equal(sp_kv_pool_n_free(b.pool), n_free - small_blocks(i + 1));
    }
    assert_ok(sp_plan_check(&b.plan));
    assert_fails(sp_plan_grow(&b.plan, span, 1, PROMPT + ROOM, (uint16_t)see), SP_E_LIMIT,
                 "room of 3203 tokens");
    assert_int_equal(b.plan.spans[span].n, ROOM);
    assert_int_equal(b.plan.n_todo, PROMPT + ROOM);
    bench_end(&b);
}

/* A span that began with fresh tokens goes on in its last block, which has places left. */
static void growth_fills_the_last_block_first(void **state)
{
    bench b;
    bench_begin(&b, 3);
    int span = add_span(&b.plan, B - 2, 2 * B, NULL, 0);
    assert_ok(sp_plan_bind(&b.plan));
    uint32_t first = b.plan.spans[span].blocks[0];
    for (int32_t i = B - 2; i < B; i++) assert_ok(sp_plan_grow(&b.plan, span, 1, i, 0));
    assert_int_equal(sp_kv_pool_n_free(b.pool), 2);
    assert_ok(sp_plan_grow(&b.plan, span, 1, B, 0));
    assert_int_equal(sp_kv_pool_n_free(b.pool), 1);
    assert_int_equal(b.plan.spans[span].blocks[0], first);
    assert_int_not_equal(b.plan.spans[span].blocks[1], first);
    bench_end(&b);
}

static void growth_without_a_block_changes_nothing(void **state)
{
    bench b;
    uint32_t other[1];
    bench_begin(&b, 2);
    int span = add_span(&b.plan, B, 3 * B, NULL, 0);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_kv_acquire(b.pool, 1, other));
    assert_fails(sp_plan_grow(&b.plan, span, 1, B, 0), SP_E_NOKV, "0 of 2 free");
    assert_int_equal(b.plan.spans[span].n, B);
    assert_int_equal(b.plan.n_todo, 0);
    sp_kv_release(b.pool, other, 1);
    assert_ok(sp_plan_grow(&b.plan, span, 1, B, 0));
    assert_int_equal(b.plan.n_todo, 1);
    bench_end(&b);
}

/* -- memory ---------------------------------------------------------------------------------- */

/* Uses up the newest chunk of an arena but for n_bytes, a multiple of 16. With AddressSanitizer there is a gap after
 * each object. */
static void leave(sp_arena *a, size_t n_bytes)
{
#if defined(__SANITIZE_ADDRESS__)
    enum { GAP = 16 };
#else
    enum { GAP = 0 };
#endif
    size_t rest = a->size - a->used;
    if (rest != n_bytes && rest < n_bytes + 16 + GAP) {
        assert_non_null(sp_arena_take(a, rest + 1, 1));
        rest = a->size - a->used;
    }
    if (rest > n_bytes) assert_non_null(sp_arena_take(a, rest - n_bytes - GAP, 1));
    assert_int_equal(a->size - a->used, n_bytes);
}

/* Additions too large for the arena's chunk, when the arrays have room and when they must grow.
 * What is left of the chunk decides which step is the one that fails. */
static void survive_faults_with(size_t left)
{
    enum { BIG = 20000 };
    static uint16_t list[BIG];
    static int32_t pos[BIG];
    bench b;
    sp_plan *p = &b.plan;
    uint32_t known[1];
    bench_begin(&b, 4);
    assert_ok(sp_kv_acquire(b.pool, 1, known));
    for (int32_t i = 0; i < 10; i++) {
        int span = -1, see = -1;
        if (i != 0 && i != 8) { /* small ones in between */
            assert_ok(sp_plan_add_span(
                p, &(sp_span_spec){.n = B, .pos = pos, .known = known, .n_known = B}, &span));
            assert_ok(sp_plan_add_sight(p, list, 1, &see));
            continue;
        }
        leave(&p->arena, left);
        assert_survives_faults(
            sp_plan_add_span(p, &(sp_span_spec){.n = BIG, .pos = pos, .known = known, .n_known = B},
                             &span),
            span == -1 && p->n_spans == i && (int)sp_kv_refs(b.pool, known[0]) == 1 + i);
        assert_int_equal(span, i);
        leave(&p->arena, left);
        assert_survives_faults(sp_plan_add_sight(p, list, BIG, &see),
                               see == -1 && p->n_sights == i);
        assert_int_equal(see, i);
    }
    for (int32_t i = 0; i < 10; i++) {
        assert_int_equal(p->spans[i].n, i % 8 ? B : BIG);
        assert_int_equal(p->sights[i].n, i % 8 ? 1 : BIG);
    }
    assert_int_equal(sp_kv_refs(b.pool, known[0]), 11);
    sp_kv_release(b.pool, known, 1);
    bench_end(&b);
}

static void additions_survive_faults(void **state)
{
    static const size_t left[] = {0, 128, 256, 512, 1024, 2048};
    for (size_t i = 0; i < SP_COUNT(left); i++) survive_faults_with(left[i]);
}

static void stale_maps_and_binding_survive_faults(void **state)
{
    bench b;
    sp_plan *p = &b.plan;
    bench_begin(&b, 100);
    int span = add_span(p, 100 * B, 100 * B, NULL, 0);
    leave(&p->arena, 0);
    assert_survives_faults(sp_plan_mark_stale(p, span, 5), p->spans[span].stale == NULL);
    assert_true(p->spans[span].stale[0] == UINT64_C(1) << 5);
    leave(&p->arena, 0);
    assert_survives_faults(sp_plan_bind(p), !p->bound && sp_kv_pool_n_free(b.pool) == 100);
    assert_int_equal(sp_kv_pool_n_free(b.pool), 0);
    bench_end(&b);
}

static void a_todo_list_survives_faults(void **state)
{
    bench b;
    int n_failed = 0;
    bench_begin(&b, 1);
    for (int i = 0; i < 20000; i++) {
        sp_fault_after(0);
        sp_err err = sp_plan_add_todo(&b.plan, (sp_todo){.token = i});
        sp_fault_after(-1);
        if (err == SP_OK) continue;
        n_failed++;
        assert_int_equal(err, SP_E_NOMEM);
        assert_int_equal(b.plan.n_todo, i);
        assert_ok(sp_plan_add_todo(&b.plan, (sp_todo){.token = i}));
    }
    for (int i = 0; i < 20000; i++) assert_int_equal(b.plan.todo[i].token, i);
    assert_in_range(n_failed, 2, 10);
    bench_end(&b);
}

/* A list looks at all spans before it; a branch of a tree at its ancestors' only. */
static void the_sight_of_a_segment(void **state)
{
    bench b;
    bench_begin(&b, 4);
    const sp_segment segs[] = {{.n = 1}, {.n = 1}, {.n = 1, .parent = 1 + 0}};
    int see;
    assert_ok(sp_plan_add_sight_of(&b.plan, segs, 1, &see));
    assert_null(b.plan.sights[see].list);
    assert_int_equal(b.plan.sights[see].n, 2);
    assert_ok(sp_plan_add_sight_of(&b.plan, segs, 2, &see));
    assert_int_equal(b.plan.sights[see].n, 2);
    assert_int_equal(b.plan.sights[see].list[0], 0);
    assert_int_equal(b.plan.sights[see].list[1], 2);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_spans_share_a_block_and_both_hold_it),
        cmocka_unit_test(a_span_that_shrinks_gives_back_whole_blocks),
        cmocka_unit_test(whole_blocks_are_sealed_unless_others_write_to_them),
        cmocka_unit_test(the_sight_of_a_segment),
        cmocka_unit_test(known_blocks_are_retained_until_the_end),
        cmocka_unit_test(known_blocks_are_counted_from_the_first_slot),
        cmocka_unit_test(binding_takes_what_it_said),
        cmocka_unit_test(binding_without_blocks_takes_nothing),
        cmocka_unit_test(a_plan_that_could_not_bind_gives_back_what_it_knew),
        cmocka_unit_test(empty_plans_bind_and_end),
        cmocka_unit_test(spans_keep_positions_and_shift),
        cmocka_unit_test(sights_are_copied),
        cmocka_unit_test(stale_marks_are_single_tokens),
        cmocka_unit_test(tokens_added_later_are_not_stale),
        cmocka_unit_test(a_whole_span_goes_stale),
        cmocka_unit_test(reserved_todo_stays_in_place),
        cmocka_unit_test(a_run_is_its_tokens_one_by_one),
        cmocka_unit_test(plans_hold_many_of_everything),
        cmocka_unit_test(more_spans_than_can_be_named_are_refused),
        cmocka_unit_test(check_finds_what_todo_does_wrong),
        cmocka_unit_test(check_finds_what_sights_do_wrong),
        cmocka_unit_test(check_finds_scattered_positions_out_of_order),
        cmocka_unit_test(scattered_tokens_check_against_their_positions),
        cmocka_unit_test(an_answer_grows_to_its_room_and_no_further),
        cmocka_unit_test(growth_fills_the_last_block_first),
        cmocka_unit_test(growth_without_a_block_changes_nothing),
        cmocka_unit_test(additions_survive_faults),
        cmocka_unit_test(stale_maps_and_binding_survive_faults),
        cmocka_unit_test(a_todo_list_survives_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
