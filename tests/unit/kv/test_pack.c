/* Packing: what moves, where it goes, and who holds which blocks afterwards. */
#include "support/small_kv.h"

#include <stdlib.h>

#include "kv/pack.h"

enum { B = SP_BLOCK_TOKENS, N_BLOCKS = 40, MAX_SPANS = 12 };

/* A plan of spans whose blocks all exist. */
typedef struct bench {
    sp_kv_pool *pool;
    sp_plan plan;
    int32_t *copied; /* [N_BLOCKS * B] 1 + the slot that was copied there */
    bool fails;
} bench;

static void bench_begin(bench *b)
{
    *b = (bench){.pool = small_pool(N_BLOCKS)};
    b->copied = calloc(N_BLOCKS * B, sizeof *b->copied);
    assert_non_null(b->copied);
    sp_plan_init(&b->plan, b->pool);
}

static void bench_end(bench *b)
{
    sp_plan_fini(&b->plan);
    small_pool_end(b->pool);
    free(b->copied);
}

/* add -- n tokens that begin in slot `first` of blocks of their own. */
static void add(bench *b, int32_t first, int32_t n, int32_t shift, bool joined)
{
    uint32_t blocks[4];
    const int32_t n_blocks = sp_blocks_for(first + n);
    int span;
    assert_in_range(n_blocks, 0, SP_COUNT(blocks));
    assert_ok(sp_kv_acquire(b->pool, n_blocks, blocks));
    sp_kv_seal(b->pool, blocks, n_blocks);
    assert_ok(sp_plan_add_span(&b->plan,
                               &(sp_span_spec){.n = n,
                                               .at = 5,
                                               .shift = shift,
                                               .known = n ? blocks : NULL,
                                               .n_known = n,
                                               .first = n ? first : 0,
                                               .joined = joined},
                               &span));
    sp_kv_release(b->pool, blocks, n_blocks); /* the plan holds them */
}

static int32_t index_of(sp_kv_slot s)
{
    return (int32_t)s.block * B + s.slot;
}

static sp_err copy(void *user, const sp_kv_slot *from, const sp_kv_slot *to, int64_t n)
{
    bench *b = user;
    if (b->fails) return sp_fail(SP_E_IO, "as the test wants it");
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(from[i].rot, to[i].rot);
        assert_int_equal(b->copied[index_of(to[i])], 0);
        assert_false(sp_kv_is_sealed(b->pool, to[i].block));
        b->copied[index_of(to[i])] = 1 + index_of(from[i]);
    }
    return SP_OK;
}

/* Where each token of each span is. */
typedef struct places {
    sp_kv_slot v[MAX_SPANS * 4 * B];
    int n;
} places;

static void note(const sp_plan *p, places *out)
{
    out->n = 0;
    for (int s = 0; s < p->n_spans; s++)
        for (int32_t i = 0; i < p->spans[s].n; i++) {
            assert_in_range(out->n, 0, SP_COUNT(out->v) - 1);
            out->v[out->n++] = sp_span_slot(&p->spans[s], i);
        }
}

/* pack -- every token is where it was, or where its bytes went; `n_moved` went. */
static void pack(bench *b, int n_moved, int64_t n_blocks)
{
    places *old = malloc(sizeof *old), *now = malloc(sizeof *now);
    assert_true(old && now);
    assert_ok(sp_plan_bind(&b->plan));
    note(&b->plan, old);
    const sp_packing what = sp_plan_packing(&b->plan);
    assert_int_equal(what.n_tokens, n_moved);
    assert_int_equal(what.n_blocks, n_blocks);
    assert_ok(sp_plan_pack(&b->plan, &what, copy, b));
    note(&b->plan, now);
    assert_int_equal(now->n, old->n);
    for (int i = 0, n = 0; i < now->n; i++) {
        const int32_t from = b->copied[index_of(now->v[i])];
        assert_int_equal(from ? from - 1 : index_of(now->v[i]), index_of(old->v[i]));
        assert_int_equal(now->v[i].rot, old->v[i].rot);
        n += from != 0;
        if (i == now->n - 1) assert_int_equal(n, n_moved);
    }
    for (int s = 0; s < b->plan.n_spans; s++)
        for (int32_t k = 0; k < sp_span_n_blocks(&b->plan.spans[s]); k++)
            assert_true(sp_kv_is_sealed(b->pool, b->plan.spans[s].blocks[k]));
    assert_int_equal(sp_plan_packing(&b->plan).n_tokens, 0); /* all are in place now */
    free(old);
    free(now);
}

static void spans_become_neighbours(void **state)
{
    bench b;
    bench_begin(&b);
    add(&b, 0, 20, 0, false); /* stays */
    for (int i = 0; i < 7; i++) add(&b, i % 3, 5 + i, 0, true);
    add(&b, 0, 0, 0, true);   /* of no tokens, as a repeated segment has */
    add(&b, 0, 40, 0, false); /* ends the run */
    add(&b, 3, 30, 0, true);  /* a run of its own */
    pack(&b, 56 + 30, 4 + 2);
    const sp_span *s = b.plan.spans;
    for (int i = 2; i < 8; i++) {
        assert_int_equal(s[i].first, (s[i - 1].first + s[i - 1].n) % B);
        if (s[i].first)
            assert_int_equal(s[i].blocks[0], s[i - 1].blocks[sp_span_n_blocks(&s[i - 1]) - 1]);
    }
    assert_int_equal(s[1].first, 0);
    assert_int_equal(s[10].first, 0);
    assert_int_equal(sp_kv_pool_n_free(b.pool),
                     N_BLOCKS - 2 - 3 - 4 - 2); /* the old ones are free */
    bench_end(&b);
}

static void spans_of_another_shift_begin_a_block(void **state)
{
    bench b;
    bench_begin(&b);
    for (int i = 0; i < 6; i++) add(&b, 1, 5, i < 3 ? 0 : 7, true);
    pack(&b, 30, 2);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(b.plan.spans[i].first, i % 3 * 5);
        assert_int_equal(b.plan.spans[i].shift, i < 3 ? 0 : 7);
    }
    bench_end(&b);
}

/* A run moves when a quarter of its keys would be gathered. */
static void what_is_in_place_stays(void **state)
{
    bench b;
    bench_begin(&b);
    for (int i = 0; i < 3; i++) add(&b, 0, 2 * B, 0, true);
    add(&b, 0, B - 1, 0, true);
    add(&b, 0, 10, 0, true); /* 25 of 121 are not in place */
    add(&b, 0, 2, 0, false);
    pack(&b, 0, 0);
    bench_end(&b);
    bench_begin(&b);
    add(&b, 0, 2 * B, 0, true);
    add(&b, 0, B - 1, 0, true);
    add(&b, 0, 10, 0, true); /* 25 of 57 */
    pack(&b, 57, 4);
    bench_end(&b);
}

/* What follows a run, in place, is no reason to leave it where it is. */
static void a_run_is_judged_by_its_own_keys(void **state)
{
    bench b;
    bench_begin(&b);
    add(&b, 0, 2 * B, 0, true);
    add(&b, 1, B, 0, true); /* B of 3 * B are not in place */
    add(&b, 0, 2 * B, 7, true);
    pack(&b, 3 * B, 3);
    bench_end(&b);
}

static void a_failure_changes_nothing(void **state)
{
    bench b;
    uint32_t rest[N_BLOCKS];
    places *old = malloc(sizeof *old), *now = malloc(sizeof *now);
    assert_true(old && now);
    bench_begin(&b);
    for (int i = 0; i < 4; i++) add(&b, 2, 9, 0, true);
    assert_ok(sp_plan_bind(&b.plan));
    note(&b.plan, old);
    const sp_packing what = sp_plan_packing(&b.plan);
    const int64_t n_free = sp_kv_pool_n_free(b.pool);
    b.fails = true;
    assert_int_equal(sp_plan_pack(&b.plan, &what, copy, &b), SP_E_IO);
    assert_int_equal(sp_kv_pool_n_free(b.pool), n_free);
    assert_ok(sp_kv_acquire(b.pool, n_free, rest));
    b.fails = false;
    assert_int_equal(sp_plan_pack(&b.plan, &what, copy, &b), SP_E_NOKV);
    sp_kv_release(b.pool, rest, n_free);
    sp_fault_after(0);
    assert_int_equal(sp_plan_pack(&b.plan, &what, copy, &b), SP_E_NOMEM);
    sp_fault_after(-1);
    assert_int_equal(sp_kv_pool_n_free(b.pool), n_free);
    note(&b.plan, now);
    assert_int_equal(now->n, old->n);
    for (int i = 0; i < now->n; i++) assert_int_equal(index_of(now->v[i]), index_of(old->v[i]));
    bench_end(&b);
    free(old);
    free(now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_become_neighbours),
        cmocka_unit_test(spans_of_another_shift_begin_a_block),
        cmocka_unit_test(what_is_in_place_stays),
        cmocka_unit_test(a_run_is_judged_by_its_own_keys),
        cmocka_unit_test(a_failure_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
