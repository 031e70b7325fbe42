/* test_order.c -- what a tier below the device drops next: parents after their children, and nothing that may not
 * go. */
#include "support/check.h"

#include "cache/order.h"
#include "spolia.h"

typedef struct bench {
    sp_order order;
    sp_copy copies[3]; /* used once, twice, three times */
} bench;

static void bench_begin(bench *b, const char *policy)
{
    *b = (bench){0};
    assert_ok(sp_order_init(&b->order, &(sp_evict_opts){.name = policy, .max_copies = 8}));
    for (int i = 0; i < 3; i++) {
        assert_ok(sp_order_reserve(&b->order));
        b->copies[i] = (sp_copy){.state = SP_COPY_READY, .n = 16, .name = 1 + 2 * (uint64_t)i};
        sp_order_add(&b->order, &b->copies[i], 1);
        for (int k = 0; k < i; k++) sp_order_use(&b->order, &b->copies[i], 2 + k);
    }
}

/* victim -- 0, 1 or 2; -1: none. */
static int victim(bench *b, bool (*may_go)(const sp_copy *c))
{
    const sp_copy *c = sp_order_victim(&b->order, may_go);
    return c ? (int)(c - b->copies) : -1;
}

/* By every policy, as soon as the last child is gone. */
static void a_parent_goes_after_its_children(void **state)
{
    int n;
    const sp_evict_info *policies = sp_evict_policies(&n);
    for (int p = 0; p < n; p++) {
        bench b;
        bench_begin(&b, policies[p].name);
        for (int i = 1; i < 3; i++) sp_order_follow(&b.order, &b.copies[i], &b.copies[0]);
        sp_order_follow(&b.order, &b.copies[2], &b.copies[0]); /* again: nothing changes */
        assert_int_equal(b.copies[0].children.n, 2);
        for (int left = 2; left > 0; left--) {
            const int i = victim(&b, NULL);
            assert_in_range(i, 1, 2);
            sp_order_drop(&b.order, &b.copies[i]);
        }
        assert_int_equal(victim(&b, NULL), 0);
        sp_order_drop(&b.order, &b.copies[0]);
        assert_int_equal(victim(&b, NULL), -1);
        sp_order_fini(&b.order);
    }
}

static void children_outlive_their_parent(void **state)
{
    bench b;
    bench_begin(&b, "lfu");
    for (int i = 1; i < 3; i++) sp_order_follow(&b.order, &b.copies[i], &b.copies[0]);
    sp_order_drop(&b.order, &b.copies[0]);
    b.copies[0] = (sp_copy){0}; /* its memory is used again */
    assert_null(b.copies[1].parent);
    assert_null(b.copies[2].parent);
    assert_int_equal(victim(&b, NULL), 1);
    sp_order_drop(&b.order, &b.copies[1]);
    assert_int_equal(victim(&b, NULL), 2);
    sp_order_drop(&b.order, &b.copies[2]);
    sp_order_fini(&b.order);
}

static bool is_last(const sp_copy *c)
{
    return c->uses.n == 3;
}

/* What may not go now is the first victim again when it may. */
static void what_may_not_go_keeps_its_place(void **state)
{
    int n;
    const sp_evict_info *policies = sp_evict_policies(&n);
    for (int p = 0; p < n; p++) {
        bench b;
        bench_begin(&b, policies[p].name);
        const int first = victim(&b, NULL);
        assert_int_equal(victim(&b, is_last), 2);
        assert_int_equal(victim(&b, NULL), first);
        for (int i = 0; i < 3; i++) assert_int_equal(b.copies[i].n_pins, 0);
        sp_order_fini(&b.order);
    }
}

/* A touch is no use: it moves a copy only where the time of use alone decides. */
static void a_touch_counts_for_the_order_of_use_alone(void **state)
{
    static const struct {
        const char *policy;
        int victim;
    } all[] = {{"lru", 1}, {"lfu", 0}, {"gdsf", 0}, {"fr", 0}, {"hazard", 0}};
    for (size_t i = 0; i < SP_COUNT(all); i++) {
        bench b;
        bench_begin(&b, all[i].policy);
        sp_order_drop(&b.order, &b.copies[1]);
        b.copies[1] = (sp_copy){.state = SP_COPY_READY, .n = 16, .name = 7};
        sp_order_add(&b.order, &b.copies[1], 1); /* as copy 0, but later */
        sp_order_drop(&b.order, &b.copies[2]);
        assert_int_equal(victim(&b, NULL), 0);
        sp_order_touch(&b.order, &b.copies[0]);
        assert_int_equal(victim(&b, NULL), all[i].victim);
        assert_int_equal(b.copies[0].uses.n, 1);
        sp_order_fini(&b.order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parent_goes_after_its_children),
        cmocka_unit_test(children_outlive_their_parent),
        cmocka_unit_test(what_may_not_go_keeps_its_place),
        cmocka_unit_test(a_touch_counts_for_the_order_of_use_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
