/* Content ids: what must tell segments apart, and what must not. */
#include "support/check.h"

#include "kv/segment.h"

static const sp_digest space_a = {{1}}, space_b = {{2}};

static sp_digest id_of(const sp_digest *space, const char *salt, const int32_t *tokens, int32_t n)
{
    sp_digest id;
    assert_ok(sp_segment_id(space, salt, tokens, n, &id));
    return id;
}

static void equal_contents_have_equal_ids(void **state)
{
    const int32_t tokens[] = {5, 6, 7}, copy[] = {5, 6, 7};
    char salt[] = "tenant";
    sp_digest a = id_of(&space_a, "tenant", tokens, 3), b = id_of(&space_a, salt, copy, 3);
    assert_true(sp_digest_eq(&a, &b));
}

static void whatever_matters_changes_the_id(void **state)
{
    const int32_t t[] = {5, 6, 7}, swapped[] = {6, 5, 7}, other[] = {5, 6, 8},
                  more[] = {5, 6, 7, 0};
    sp_digest ids[] = {
        id_of(&space_a, NULL, t, 3),
        id_of(&space_b, NULL, t, 3), /* another model or KV type */
        id_of(&space_a, "", t, 3),   /* the tenant with the empty name is a tenant */
        id_of(&space_a, "x", t, 3),
        id_of(&space_a, "xy", t, 3),
        id_of(&space_b, "x", t, 3),
        id_of(&space_a, NULL, t, 2),
        id_of(&space_a, NULL, t, 1),
        id_of(&space_a, NULL, t, 0),
        id_of(&space_a, NULL, swapped, 3),
        id_of(&space_a, NULL, other, 3),
        id_of(&space_a, NULL, more, 4), /* a token 0 more */
        id_of(&space_a, "tokens", t, 3),
        id_of(&space_a, "no salt", t, 3),
    };
    for (size_t i = 0; i < SP_COUNT(ids); i++)
        for (size_t j = 0; j < i; j++)
            if (sp_digest_eq(&ids[i], &ids[j])) fail_msg("ids %zu and %zu agree", j, i);
}

/* A salt cannot be chosen so that it passes for tokens. */
static void bytes_do_not_move_between_salt_and_tokens(void **state)
{
    const int32_t text[] = {0x64636261, 0x68676665}; /* "abcdefgh" */
    sp_digest a = id_of(&space_a, "abcd", text + 1, 1), b = id_of(&space_a, "", text, 2);
    sp_digest c = id_of(&space_a, "abcdefgh", text, 0);
    assert_false(sp_digest_eq(&a, &b));
    assert_false(sp_digest_eq(&a, &c));
    assert_false(sp_digest_eq(&b, &c));
}

/* Nothing said: each segment follows the preceding one, and looks at all before it. */
static void segments_are_a_list(void **state)
{
    const sp_segment segs[] = {{.n = 5}, {.n = 1}, {.n = 7}, {.n = 2}};
    const int32_t at[] = {0, 5, 6, 13};
    uint16_t list[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sp_segment_parent(segs, i), i - 1);
        assert_int_equal(sp_segment_at(segs, i), at[i]);
        assert_int_equal(sp_segment_sight(segs, i, list), i + 1);
        for (int k = 0; k <= i; k++) assert_int_equal(list[k], k);
    }
}

/*     0 -- 1 -- 3         2 and its child 4 are beside 1 and 3; 5 has a place of its own
 *      \-- 2 -- 4 -- 5                                                                     */
static void segments_may_be_a_tree(void **state)
{
    const sp_segment segs[] = {{.n = 5},
                               {.n = 3},
                               {.n = 4, .parent = 1 + 0},
                               {.n = 2, .parent = 1 + 1},
                               {.n = 6, .parent = 1 + 2},
                               {.n = 1, .place = 1 + 100}};
    const int parents[] = {-1, 0, 0, 1, 2, 4};
    const int32_t at[] = {0, 5, 5, 8, 9, 100};
    const uint16_t sights[][5] = {{0}, {0, 1}, {0, 2}, {0, 1, 3}, {0, 2, 4}, {0, 2, 4, 5}};
    const int n_seen[] = {1, 2, 2, 3, 3, 4};
    for (int i = 0; i < 6; i++) {
        uint16_t list[6];
        assert_int_equal(sp_segment_parent(segs, i), parents[i]);
        assert_int_equal(sp_segment_at(segs, i), at[i]);
        assert_int_equal(sp_segment_sight(segs, i, list), n_seen[i]);
        assert_memory_equal(list, sights[i], (size_t)n_seen[i] * sizeof *list);
    }
    const sp_segment first[] = {{.n = 3, .place = 1 + 20}, {.n = 2}};
    assert_int_equal(sp_segment_at(first, 0), 20);
    assert_int_equal(sp_segment_at(first, 1), 23);
}

/* The question (3) sees both branches though it follows one; what continues it sees all as well. */
static void a_segment_may_look_at_all(void **state)
{
    const sp_segment segs[] = {{.n = 5},
                               {.n = 3, .parent = 1 + 0, .place = 1 + 5},
                               {.n = 4, .parent = 1 + 0, .place = 1 + 5},
                               {.n = 2, .parent = SP_PARENT_ALL, .place = 1 + 9},
                               {.n = 6}};
    const int n_seen[] = {1, 2, 2, 4, 5};
    const uint16_t sights[][5] = {{0}, {0, 1}, {0, 2}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}};
    const bool on_path[] = {true, true, true, false, true};
    for (int i = 0; i < 5; i++) {
        uint16_t list[5];
        assert_int_equal(sp_segment_n_seen(segs, i), n_seen[i]);
        assert_int_equal(sp_segment_sight(segs, i, list), n_seen[i]);
        assert_memory_equal(list, sights[i], (size_t)n_seen[i] * sizeof *list);
        assert_int_equal(sp_segment_on_path(segs, i), on_path[i]);
    }
    assert_int_equal(sp_segment_at(segs, 4), 11);
    assert_int_equal(sp_segments_end(segs, 3), 9);
    assert_int_equal(sp_segments_end(segs, 5), 17);
    const sp_segment short_last[] = {{.n = 5}, {.n = 30, .parent = 1 + 0}, {.n = 3, .parent = 1 + 0}};
    assert_int_equal(sp_segments_end(short_last, 3), 35); /* of the longest branch */
    const sp_segment moved[] = {{.n = 5}, {.n = 3, .parent = 1 + 0, .place = 1 + 6}};
    assert_false(sp_segment_on_path(moved, 1));
    /* a first segment's path is empty: it is on it at the beginning alone */
    for (int at = 0; at < 3; at++)
        assert_int_equal(sp_segment_on_path(&(sp_segment){.n = 5, .place = 1 + at}, 0), at == 0);
}

static void short_nodes_join(void **state)
{
    assert_true(sp_segment_joins(&(sp_segment){.kind = SP_SEG_NODE, .n = SP_JOIN_MAX - 1}));
    assert_false(sp_segment_joins(&(sp_segment){.kind = SP_SEG_NODE, .n = SP_JOIN_MAX}));
    assert_false(sp_segment_joins(&(sp_segment){.kind = SP_SEG_CHUNK, .n = 1}));
}

static void kinds_have_names(void **state)
{
    assert_string_equal(sp_segment_kind_name(SP_SEG_NODE), "node");
    assert_string_equal(sp_segment_kind_name(SP_SEG_SYSTEM), "system");
    assert_string_equal(sp_segment_kind_name(SP_SEG_CHUNK), "chunk");
    assert_string_equal(sp_segment_kind_name(SP_SEG_QUESTION), "question");
    assert_string_equal(sp_segment_kind_name(SP_SEG_TEXT), "text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_contents_have_equal_ids),
        cmocka_unit_test(whatever_matters_changes_the_id),
        cmocka_unit_test(bytes_do_not_move_between_salt_and_tokens),
        cmocka_unit_test(segments_are_a_list),
        cmocka_unit_test(segments_may_be_a_tree),
        cmocka_unit_test(a_segment_may_look_at_all),
        cmocka_unit_test(short_nodes_join),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
