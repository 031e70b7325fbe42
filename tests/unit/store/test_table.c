/* test_table.c -- the index of the disk tier in memory, compared with a list: what is found, the order of use, and
 * the copies of each segment. */
#include "support/check.h"

#include "store/table.h"

enum { KEYS = 90, SEGMENTS = 3, ROUNDS = 20000 };

/* key_of -- few hashes, so that keys collide; of one id there are two heads and three kinds. */
static sp_tier_key key_of(int i)
{
    sp_tier_key key = {.kind = (uint32_t)(i % 3), .head = (uint64_t)(i / 3 % 2)};
    key.id.b[0] = (uint8_t)(60 + i / 6 % 4);
    key.id.b[31] = (uint8_t)(i / 6);
    return key;
}

typedef struct model {
    sp_table t;
    uint32_t first[SEGMENTS];
    int order[KEYS], n; /* the keys that are there, the least recently used first */
    int segment_of[KEYS];
} model;

static int place_of(const model *m, int key)
{
    for (int i = 0; i < m->n; i++)
        if (m->order[i] == key) return i;
    return -1;
}

static void take_out(model *m, int at)
{
    memmove(&m->order[at], &m->order[at + 1], (size_t)(--m->n - at) * sizeof *m->order);
}

static void step(model *m, uint64_t *seed)
{
    const int k = (int)check_random(seed, KEYS), at = place_of(m, k);
    const sp_tier_key key = key_of(k);
    const uint32_t i = sp_table_find(&m->t, &key);
    assert_int_equal(i != SP_NO_ENTRY, at >= 0);
    if (at < 0) {
        m->segment_of[k] = (int)check_random(seed, SEGMENTS);
        assert_ok(sp_table_reserve(&m->t, 1));
        sp_table_add(&m->t, &key, &(sp_disk_place){.segment = (uint32_t)m->segment_of[k], .page = (uint32_t)k},
                     &m->first[m->segment_of[k]]);
        m->order[m->n++] = k;
        return;
    }
    assert_int_equal(m->t.entries.v[i].place.page, k);
    take_out(m, at);
    if (check_random(seed, 3)) {
        sp_table_touch(&m->t, i);
        m->order[m->n++] = k;
    } else {
        sp_table_remove(&m->t, i, &m->first[m->segment_of[k]]);
    }
}

static void check(const model *m)
{
    int n = 0, n_listed = 0;
    for (uint32_t i = m->t.oldest; i != SP_NO_ENTRY; i = m->t.entries.v[i].newer, n++)
        assert_int_equal(m->t.entries.v[i].place.page, m->order[n]);
    assert_int_equal(n, m->n);
    assert_int_equal(m->t.n, m->n);
    for (int s = 0; s < SEGMENTS; s++)
        for (uint32_t i = m->first[s]; i != SP_NO_ENTRY; i = m->t.entries.v[i].next, n_listed++)
            assert_int_equal(m->t.entries.v[i].place.segment, s);
    assert_int_equal(n_listed, m->n);
}

static void what_was_added_is_found_until_it_is_removed(void **state)
{
    static model m;
    uint64_t seed = 11;
    (void)state;
    sp_table_init(&m.t);
    for (int s = 0; s < SEGMENTS; s++) m.first[s] = SP_NO_ENTRY;
    for (int i = 0; i < ROUNDS; i++) {
        step(&m, &seed);
        if (i % 50 == 0) check(&m);
    }
    sp_table_fini(&m.t);
}

/* A copy that was used most often does not become one that nobody used. */
static void uses_stop_at_the_most_that_a_line_can_say(void **state)
{
    const sp_tier_key key = key_of(0);
    uint32_t first = SP_NO_ENTRY;
    sp_table t;
    (void)state;
    sp_table_init(&t);
    assert_ok(sp_table_reserve(&t, 1));
    const uint32_t i = sp_table_add(&t, &key, &(sp_disk_place){.uses = SP_MOST_USES - 1}, &first);
    for (int k = 0; k < 3; k++) {
        sp_table_use(&t, i);
        assert_int_equal(t.entries.v[i].place.uses, SP_MOST_USES);
    }
    sp_table_fini(&t);
}

static void without_memory_nothing_changes(void **state)
{
    sp_table t;
    (void)state;
    sp_table_init(&t);
    assert_survives_faults(sp_table_reserve(&t, 100), t.n == 0 && sp_table_find(&t, &(sp_tier_key){0}) == SP_NO_ENTRY);
    sp_table_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found_until_it_is_removed),
        cmocka_unit_test(uses_stop_at_the_most_that_a_line_can_say),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
