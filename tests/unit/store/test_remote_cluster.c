/* test_remote_cluster.c -- the remote tier on a cluster of three redis-servers: slots that move, servers that die. */
#include "support/check.h"

#include "base/clock.h"
#include "store/remote/notice.h"
#include "store/remote/tier.h"
#include "support/cluster.h"
#include "tier.h"

enum { COPIES = 60, STEP = 4 /* between their numbers: ids begin with them, and so all servers get some */ };

static const char shared_key[] = "0123456789abcdef0123456789abcdef";

static sp_tier *open_at(const cluster *c, int node)
{
    sp_tier *t;
    assert_ok(sp_remote_tier_open(&(sp_remote_tier_opts){.url = c->node[node].url,
                                                         .space = &noise_space,
                                                         .mac_key = shared_key,
                                                         .n_mac_key = strlen(shared_key),
                                                         .timeout_us = 10000000},
                                  &t));
    return t;
}

static int64_t keys_of(const cluster *c, int node)
{
    redisReply *r = cluster_ask(c, node, "DBSIZE");
    const int64_t n = r->integer;
    freeReplyObject(r);
    return n;
}

/* slot_of_copy -- and the name of its key. */
static int slot_of_copy(uint32_t number, char key[200])
{
    uint16_t tags[SP_SLOT_PARTS];
    char space[33], name[SP_REMOTE_NAME];
    const sp_tier_key k = noise_key(number);
    sp_slot_tags(tags);
    sp_digest_hex(&noise_space, 16, space);
    sp_remote_name(&k, name);
    snprintf(key, 200, "SPOLIA:%s{%u}:copy:%s", space, tags[k.id.b[0]], name);
    return sp_slot_of(key, strlen(key));
}

static int node_of(int slot)
{
    for (int i = 0;; i++)
        if (slot < (i + 1) * SP_SLOTS / N_MASTERS) return i;
}

/* -- who has what ------------------------------------------------------------------------------------ */

static void copies_are_spread_and_all_servers_lead_to_them(void **state)
{
    cluster c;
    if (!cluster_start(&c)) skip();
    sp_tier *one = open_at(&c, 0), *two = open_at(&c, 1);
    for (uint32_t i = 0; i < COPIES; i++) assert_ok(noise_put(one, i * STEP, 1));
    for (uint32_t i = 0; i < COPIES; i++) assert_true(noise_known(two, i * STEP, true));
    for (uint32_t i = 0; i < COPIES; i++) assert_ok(noise_get(two, i * STEP, 1));
    for (int i = 0; i < N_MASTERS; i++) assert_true(keys_of(&c, i) > COPIES / 10);
    sp_tier *late = open_at(&c, 2); /* reads all parts of the index */
    for (uint32_t i = 0; i < COPIES; i++) assert_true(noise_known(late, i * STEP, true));
    assert_ok(noise_drop(late, 8));
    assert_true(noise_known(one, 8, false) && noise_known(two, 8, false));
    assert_int_equal(sp_tier_stats_of(two).n_failed, 0);
    sp_tier_close(one);
    sp_tier_close(two);
    sp_tier_close(late);
    cluster_stop(&c);
}

/* get_all -- in one submission: the reader asks all servers at once. */
static void get_all(sp_tier *t)
{
    static noise all[COPIES];
    sp_tier_job jobs[COPIES];
    sp_tier_op *ops[COPIES];
    for (uint32_t i = 0; i < COPIES; i++) {
        noise_init(&all[i], i * STEP, 1);
        jobs[i] = noise_get_job(&all[i], 0, NOISE_LAYERS);
    }
    assert_ok(sp_tier_submit_all(t, jobs, COPIES, ops));
    for (uint32_t i = 0; i < COPIES; i++) {
        assert_true(sp_tier_op_wait(ops[i], -1));
        assert_ok(sp_tier_op_result(ops[i]));
        assert_int_equal(all[i].n_layers, NOISE_LAYERS);
        sp_tier_op_release(ops[i]);
    }
}

static void many_gets_are_under_way_at_all_servers(void **state)
{
    cluster c;
    if (!cluster_start(&c)) skip();
    sp_tier *t = open_at(&c, 0);
    for (uint32_t i = 0; i < COPIES; i++) assert_ok(noise_put(t, i * STEP, 1));
    for (int k = 0; k < 5; k++) get_all(t);
    sp_tier_close(t);
    cluster_stop(&c);
}

/* -- slots that move --------------------------------------------------------------------------------- */

static void a_copy_on_its_way_is_found_at_each_step(void **state)
{
    cluster c;
    char key[200];
    if (!cluster_start(&c)) skip();
    sp_tier *one = open_at(&c, 0), *two = open_at(&c, 1);
    const int slot = slot_of_copy(3, key), from = node_of(slot), to = (from + 1) % N_MASTERS;
    assert_ok(noise_put(one, 3, 1));
    assert_true(noise_known(two, 3, true));
    assert_ok(noise_get(two, 3, 1));
    cluster_do(&c, to, "CLUSTER SETSLOT %d IMPORTING %s", slot, c.id[from]);
    cluster_do(&c, from, "CLUSTER SETSLOT %d MIGRATING %s", slot, c.id[to]);
    assert_ok(noise_get(two, 3, 1)); /* still there */
    cluster_do(&c, from, "MIGRATE 127.0.0.1 %d %s 0 5000", c.node[to].port, key);
    for (int i = 0; i < 3; i++) assert_ok(noise_get(two, 3, 1)); /* ASK */
    assert_ok(noise_drop(one, 3));
    assert_ok(noise_put(one, 3, 1)); /* its keys are made at the new place */
    assert_true(noise_known(two, 3, true));
    assert_ok(noise_get(two, 3, 1));
    for (redisReply *r = NULL;;) { /* the rest of the slot: the index */
        r = cluster_ask(&c, from, "CLUSTER GETKEYSINSLOT %d 1", slot);
        if (!r->elements) {
            freeReplyObject(r);
            break;
        }
        cluster_do(&c, from, "MIGRATE 127.0.0.1 %d %s 0 5000 REPLACE", c.node[to].port, r->element[0]->str);
        freeReplyObject(r);
    }
    for (int i = 0; i < N_MASTERS; i++)
        cluster_do(&c, (to + i) % N_MASTERS, "CLUSTER SETSLOT %d NODE %s", slot, c.id[to]);
    for (int i = 0; i < 3; i++) assert_ok(noise_get(two, 3, 1)); /* MOVED, then known */
    assert_int_equal(sp_tier_stats_of(one).n_failed + sp_tier_stats_of(two).n_failed, 0);
    sp_tier_close(one);
    sp_tier_close(two);
    cluster_stop(&c);
}

/* -- servers that die -------------------------------------------------------------------------------- */

static void a_server_that_dies_takes_its_copies_and_no_others(void **state)
{
    cluster c;
    char key[200];
    if (!cluster_start(&c)) skip();
    sp_tier *t = open_at(&c, 1), *other = open_at(&c, 2); /* t: by the address of the one that dies */
    for (uint32_t i = 0; i < COPIES; i++) assert_ok(noise_put(t, i * STEP, 1));
    for (uint32_t i = 0; i < COPIES; i++) assert_true(noise_known(other, i * STEP, true));
    redis_stop(&c.node[1]);
    for (int round = 0; round < 3; round++)
        for (uint32_t i = 0; i < COPIES; i++) {
            const bool gone = node_of(slot_of_copy(i * STEP, key)) == 1;
            assert_int_equal(noise_get(t, i * STEP, 1), gone ? SP_E_IO : SP_OK);
            assert_int_equal(noise_get(other, i * STEP, 1), gone ? SP_E_IO : SP_OK);
        }
    for (uint32_t i = 64; i < 64 + COPIES; i++) { /* new ones */
        const bool gone = node_of(slot_of_copy(i * STEP, key)) == 1;
        assert_int_equal(noise_put(t, i * STEP, 1), gone ? SP_E_IO : SP_OK);
        if (!gone) assert_true(noise_known(other, i * STEP, true)); /* whom it listens to */
    }
    sp_tier *late = open_at(&c, 0); /* reads the parts that are there */
    for (uint32_t i = 0; i < COPIES; i++)
        if (node_of(slot_of_copy(i * STEP, key)) != 1) assert_true(noise_known(late, i * STEP, true));
    sp_tier_close(t);
    sp_tier_close(other);
    sp_tier_close(late);
    cluster_stop(&c);
}

static void a_server_that_hangs_delays_one_batch(void **state)
{
    cluster c;
    char key[200];
    sp_tier *t;
    if (!cluster_start(&c)) skip();
    assert_ok(sp_remote_tier_open(
        &(sp_remote_tier_opts){.url = c.node[0].url, .space = &noise_space, .timeout_us = 1000000}, &t));
    sp_err err = SP_E_IO;
    for (uint32_t i = 0; i < COPIES; i++, err = SP_E_IO)
        for (int k = 0; k < 1000 && err != SP_OK; k++) err = noise_put(t, i * STEP, 1); /* the machine may be busy */
    kill(c.node[1].pid, SIGSTOP);
    int64_t bad_us = 0; /* of gets that the server has to answer */
    int n_good = 0, n_bad = 0;
    for (uint32_t i = 0; i < COPIES; i++) {
        const bool gone = node_of(slot_of_copy(i * STEP, key)) == 1;
        const int64_t began = sp_clock_us();
        const sp_err got = noise_get(t, i * STEP, 1);
        if (gone) assert_int_equal(got, SP_E_IO);
        if (gone) bad_us += sp_clock_us() - began;
        n_good += !gone && got == SP_OK;
        n_bad += gone;
    }
    assert_true(n_good > 0 && n_bad > 5);
    assert_true(bad_us < (int64_t)n_bad * 1000000); /* not a time-out for each */
    sp_tier_close(t);
    cluster_stop(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_spread_and_all_servers_lead_to_them),
        cmocka_unit_test(many_gets_are_under_way_at_all_servers),
        cmocka_unit_test(a_copy_on_its_way_is_found_at_each_step),
        cmocka_unit_test(a_server_that_dies_takes_its_copies_and_no_others),
        cmocka_unit_test(a_server_that_hangs_delays_one_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
