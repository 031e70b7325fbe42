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

static void kinds_have_names(void **state)
{
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
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
