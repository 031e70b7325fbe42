/* test_slots.c -- hash slots of a cluster: the values of the specification and of a redis-server. */
#include "support/check.h"

#include <stdio.h>

#include "store/remote/redis/slots.h"

static void slots_are_those_of_the_specification(void **state)
{
    static const struct {
        const char *key;
        int slot;
    } known[] = {
        {"123456789", 0x31c3}, /* the check value of this CRC16 */
        {"", 0},
        {"foo", 12182},
        {"SPOLIA:00112233445566778899aabbccddeeff{7}:index", 1716},
    };
    for (size_t i = 0; i < SP_COUNT(known); i++)
        assert_int_equal(sp_slot_of(known[i].key, strlen(known[i].key)), known[i].slot);
}

static void a_tag_alone_counts(void **state)
{
    static const char *const pairs[][2] = {
        {"{user1000}.following", "user1000"}, {"{user1000}.followers", "user1000"}, {"foo{bar}{zap}", "bar"},
        {"foo{{bar}}zap", "{bar"},            {"a{b}c}d", "b"},
    };
    static const struct {
        const char *key;
        int slot;
    } whole[] = {{"foo{}{bar}", 8363}, {"{}x", 10595}, {"foo{bar", 15278}, {"foo}bar{", 11073}};
    for (size_t i = 0; i < SP_COUNT(pairs); i++)
        assert_int_equal(sp_slot_of(pairs[i][0], strlen(pairs[i][0])), sp_slot_of(pairs[i][1], strlen(pairs[i][1])));
    for (size_t i = 0; i < SP_COUNT(whole); i++)
        assert_int_equal(sp_slot_of(whole[i].key, strlen(whole[i].key)), whole[i].slot);
}

static void tags_spread_evenly(void **state)
{
    uint16_t tags[SP_SLOT_PARTS];
    char key[32];
    sp_slot_tags(tags);
    for (int p = 0; p < SP_SLOT_PARTS; p++) {
        const int n = snprintf(key, sizeof key, "SPOLIA{%u}:index", tags[p]);
        assert_int_equal(sp_slot_of(key, (size_t)n) / (SP_SLOTS / SP_SLOT_PARTS), p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_those_of_the_specification),
        cmocka_unit_test(a_tag_alone_counts),
        cmocka_unit_test(tags_spread_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
