/* test_seen.c -- what copies that are computed in their places depend on. */
#include "support/check.h"

#include "reuse/parts.h"
#include "store/sweep.h"

enum { N = 4 }; /* head, three chunks */

static sp_digest id_of(int i)
{
    sp_digest d = {{0}};
    d.b[0] = 1;
    d.b[1] = (uint8_t)(i >> 8);
    d.b[2] = (uint8_t)i;
    return d;
}

/* A prompt of segments 0 .. N - 1. */
typedef struct bench {
    sp_digest ids[N];
    sp_segment segs[N];
    sp_found found[N];
    sp_copy copies[N];
    sp_arena arena;
    sp_reuse_input in;
} bench;

static void bench_begin(bench *b)
{
    *b = (bench){0};
    sp_arena_init(&b->arena);
    for (int i = 0; i < N; i++) b->ids[i] = b->segs[i].id = id_of(i);
    b->in = (sp_reuse_input){.segs = b->segs, .n_segs = N, .ids = b->ids, .n_head = 1, .found = b->found};
}

/* served -- segment i has a copy that depends on these. */
static void served(bench *b, int i, const sp_digest *before, int n_before, const sp_digest *below, int n_below)
{
    b->copies[i].facts = (sp_copy_facts){
        .id = b->ids[i], .before = before, .n_before = n_before, .below = below, .n_below = n_below};
    b->found[i].copy = &b->copies[i];
}

static sp_copy_facts list(bench *b, int i, int n_before)
{
    sp_copy_facts f = {.id = b->ids[i], .before = b->ids, .n_before = n_before};
    assert_ok(sp_reuse_list_below(&b->in, i, &b->arena, &f));
    return f;
}

static bool depends(const sp_copy_facts *f, int i)
{
    const sp_digest id = id_of(i);
    return sp_copy_depends(f, &id, 1);
}

static void a_copy_takes_over_what_those_before_it_depend_on(void **state)
{
    bench b;
    bench_begin(&b);
    const sp_digest before[] = {id_of(0), id_of(10)}, below[] = {id_of(12), id_of(11), id_of(3), id_of(1)};
    served(&b, 1, before, 2, NULL, 0);
    served(&b, 2, before, 1, below, 4);
    sp_copy_facts f = list(&b, 3, 3);
    assert_int_equal(f.n_below, 3); /* not itself, nor what is before it */
    for (int i = 0; i < 16; i++) assert_int_equal(depends(&f, i), i <= 3 || (i >= 10 && i <= 12));
    f = list(&b, 1, 1); /* a patch over a copy */
    assert_int_equal(f.n_below, 1);
    assert_true(depends(&f, 10) && !depends(&f, 11));
    sp_arena_fini(&b.arena);
}

static void a_copy_depends_on_what_it_sees_through_others(void **state)
{
    bench b;
    bench_begin(&b);
    const sp_copy_facts f = list(&b, 3, 1); /* computed after the head; 1 and 2 in the same plan */
    assert_int_equal(f.n_below, 2);
    assert_true(depends(&f, 1) && depends(&f, 2));
    sp_arena_fini(&b.arena);
}

static void too_many_are_all(void **state)
{
    static sp_digest many[SP_COPY_MOST_BELOW + 1];
    for (int i = 0; i <= SP_COPY_MOST_BELOW; i++) many[i] = id_of(1000 - i);
    for (int more = 0; more < 2; more++) {
        bench b;
        bench_begin(&b);
        served(&b, 1, NULL, 0, many, SP_COPY_MOST_BELOW + more);
        sp_copy_facts f = list(&b, 2, 2);
        assert_int_equal(f.n_below, more ? 1 : SP_COPY_MOST_BELOW);
        assert_int_equal(depends(&f, 2000), more);
        assert_true(depends(&f, 1000) && !sp_copy_depends(&f, NULL, 0));
        served(&b, 2, NULL, 0, f.below, f.n_below); /* and is handed on */
        f = list(&b, 3, 3);
        assert_int_equal(f.n_below, more ? 1 : SP_COPY_MOST_BELOW);
        assert_int_equal(depends(&f, 2000), more);
        sp_arena_fini(&b.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_takes_over_what_those_before_it_depend_on),
        cmocka_unit_test(a_copy_depends_on_what_it_sees_through_others),
        cmocka_unit_test(too_many_are_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
