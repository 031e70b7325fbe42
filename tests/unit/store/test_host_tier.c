/* test_host_tier.c -- what was put comes back under a budget, from many threads at once. */
#include "support/check.h"

#include <pthread.h>

#include "store/host/tier.h"
#include "store/table.h"
#include "tier.h"

static sp_tier *open_host(int64_t max_bytes, const sp_kv_packing *packing)
{
    sp_tier *t = NULL;
    assert_ok(sp_host_tier_open(
        &(sp_host_tier_opts){.max_bytes = max_bytes, .packing = packing}, &t));
    assert_string_equal(sp_tier_name(t), "host");
    return t;
}

static int64_t bytes_of(sp_tier *t, uint32_t number)
{
    noise c;
    noise_init(&c, number, 1);
    return sp_host_tier_bytes(t, &c.record);
}

static void a_copy_round_trips(void **state)
{
    sp_tier *t = open_host(64 << 20, NULL);
    int64_t bytes = 0;
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(noise_get(t, i, 1), SP_E_NOTFOUND);
        assert_ok(noise_put(t, i, 1));
        assert_ok(noise_get(t, i, 1));
        bytes += bytes_of(t, i);
    }
    assert_int_equal(sp_tier_stats_of(t).bytes_used, bytes);
    assert_int_equal(sp_tier_stats_of(t).n_copies, 30);
    for (uint32_t i = 0; i < 30; i += 2) assert_ok(noise_put(t, i, 2)); /* in place of the older */
    for (uint32_t i = 0; i < 30; i++) assert_ok(noise_get(t, i, 1 + (i % 2 == 0)));
    for (uint32_t i = 0; i < 30; i += 3) assert_ok(noise_drop(t, i));
    for (uint32_t i = 0; i < 30; i++)
        assert_int_equal(noise_get(t, i, 1 + (i % 2 == 0)), i % 3 ? SP_OK : SP_E_NOTFOUND);
    assert_ok(noise_drop(t, 99));
    assert_int_equal(sp_tier_stats_of(t).n_copies, 20);
    sp_tier_close(t);
}

/* The table, as a table of as many keys has it, and a pointer for each copy. */
static void the_memory_of_the_index_is_counted(void **state)
{
    enum { N = 200 };
    static const sp_disk_place nowhere;
    sp_tier *t = open_host(64 << 20, NULL);
    sp_table table;
    uint32_t list = SP_NO_ENTRY;
    sp_table_init(&table);
    for (uint32_t i = 0; i < N; i++) {
        noise c;
        noise_init(&c, i, 1);
        const sp_tier_key key = sp_tier_key_of(&c.record);
        assert_ok(noise_put(t, i, 1));
        assert_ok(sp_table_reserve(&table, 1));
        sp_table_add(&table, &key, &nowhere, &list);
    }
    const int64_t beside = sp_tier_stats_of(t).index_bytes - (int64_t)sp_table_bytes(&table);
    assert_in_range(beside, N * sizeof(void *), 4 * N * sizeof(void *));
    sp_table_fini(&table);
    sp_tier_close(t);
}

static void the_budget_is_kept(void **state)
{
    sp_tier *t = open_host(10 * (64 << 10), NULL);
    for (uint32_t i = 0; i < 40; i++) {
        assert_ok(noise_put(t, i, 1));
        if (i) assert_ok(noise_get(t, 0, 1)); /* the first one stays: it is used */
        assert_true(sp_tier_stats_of(t).bytes_used <= 10 * (64 << 10));
    }
    assert_true(sp_tier_stats_of(t).n_evicted > 20);
    assert_int_equal(noise_get(t, 1, 1), SP_E_NOTFOUND);
    sp_tier_close(t);
    t = open_host(16 << 10, NULL);
    assert_int_equal(noise_put(t, 1, 1), SP_E_LIMIT);
    assert_int_equal(sp_tier_stats_of(t).bytes_used, 0);
    sp_tier_close(t);
    assert_int_equal(sp_host_tier_open(&(sp_host_tier_opts){0}, &t), SP_E_ARG);
}

static void a_source_that_fails_leaves_the_older_copy(void **state)
{
    sp_tier *t = open_host(1 << 20, NULL);
    noise c;
    assert_ok(noise_put(t, 3, 1));
    noise_init(&c, 3, 2);
    c.source_fails_at = 4;
    sp_tier_job job = noise_put_job(&c);
    assert_int_equal(sp_tier_run(t, &job), SP_E_NOKV);
    assert_ok(noise_get(t, 3, 1));
    job = noise_get_job(&c, 0, NOISE_LAYERS + 1);
    assert_int_equal(sp_tier_run(t, &job), SP_E_ARG);
    sp_tier_close(t);
}

/* flip -- of an unpacked copy a sink gets the tier's own memory. */
static sp_err flip(void *user, int layer, const void *from)
{
    SP_UNUSED(user);
    if (layer == 2) ((uint8_t *)(uintptr_t)from)[100] ^= 1;
    return SP_OK;
}

static void a_bit_that_changed_in_memory_is_a_miss(void **state)
{
    sp_tier *t = open_host(1 << 20, NULL);
    noise c;
    for (uint32_t i = 0; i < 2; i++) assert_ok(noise_put(t, i, 1));
    noise_init(&c, 0, 1);
    sp_tier_job job = noise_get_job(&c, 0, NOISE_LAYERS);
    job.sink = flip;
    assert_ok(sp_tier_run(t, &job));
    assert_int_equal(noise_get(t, 0, 1), SP_E_FORMAT);
    assert_int_equal(noise_get(t, 0, 1), SP_E_NOTFOUND);
    assert_ok(noise_get(t, 1, 1));
    assert_int_equal(sp_tier_stats_of(t).n_damaged, 1);
    sp_tier_close(t);
}

/* -- packed --------------------------------------------------------------------------------- */

static size_t half(void *user, size_t layer_bytes)
{
    return layer_bytes / 2;
}

static bool wants_even(void *user, const sp_record *r)
{
    return r->facts.kind == 0;
}

static void pack(void *user, const uint8_t *layer, size_t n, uint8_t *out)
{
    memcpy(out, layer, n / 2);
}

static void unpack(void *user, const uint8_t *packed, size_t n, uint8_t *out)
{
    memcpy(out, packed, n / 2);
    memset(out + n / 2, 0, n - n / 2);
}

static sp_err check_half(void *user, int layer, const void *from)
{
    noise *c = user;
    const uint8_t *got = from;
    uint8_t wanted[NOISE_BYTES + 3 * 4096];
    size_t n = c->record.layer_bytes;
    noise_layer(c, layer, wanted);
    c->n_layers++;
    return memcmp(got, wanted, n / 2) == 0 && got[n - 1] == 0 ? SP_OK
                                                              : sp_fail(SP_E_LIMIT, "wrong");
}

static void packed_copies_are_unpacked(void **state)
{
    const sp_kv_packing packing = {
        .name = "half", .wants = wants_even, .packed_bytes = half, .pack = pack, .unpack = unpack};
    sp_tier *plain = open_host(1 << 20, NULL), *t = open_host(1 << 20, &packing);
    assert_true(bytes_of(t, 2) < bytes_of(plain, 2));
    assert_int_equal(bytes_of(t, 3), bytes_of(plain, 3));
    assert_ok(noise_put(t, 2, 1));
    assert_ok(noise_put(t, 3, 1));
    assert_ok(noise_get(t, 3, 1)); /* not wanted: as it was */
    noise c;
    noise_init(&c, 2, 1);
    sp_tier_job job = noise_get_job(&c, 1, 3);
    job.sink = check_half;
    assert_ok(sp_tier_run(t, &job));
    assert_int_equal(c.n_layers, 3);
    sp_tier_close(plain);
    sp_tier_close(t);
}

/* -- notes ---------------------------------------------------------------------------------- */

enum { NOTES = 96 };

static void fill_notes(const noise *c, int layer, uint8_t *out)
{
    for (int i = 0; i < NOTES; i++) out[i] = (uint8_t)(c->number * 31 + (uint32_t)(layer * 7 + i));
}

static sp_err source_with_notes(void *user, int layer, void *to)
{
    const noise *c = user;
    fill_notes(c, layer, (uint8_t *)to + c->record.layer_bytes);
    return noise_source(user, layer, to);
}

/* check_with_notes -- kind 0 is packed to a half, and other kinds come back as they were. */
static sp_err check_with_notes(void *user, int layer, const void *from)
{
    noise *c = user;
    uint8_t wanted[NOTES];
    fill_notes(c, layer, wanted);
    SP_TRY(c->record.facts.kind == 0 ? check_half(user, layer, from)
                                     : noise_sink(user, layer, from));
    return memcmp(wanted, (const uint8_t *)from + c->record.layer_bytes, NOTES) == 0
               ? SP_OK
               : sp_fail(SP_E_LIMIT, "wrong notes");
}

static void notes_come_back_whole(void **state)
{
    const sp_kv_packing packing = {
        .name = "half", .wants = wants_even, .packed_bytes = half, .pack = pack, .unpack = unpack};
    sp_tier *t = open_host(1 << 20, &packing);
    for (uint32_t number = 2; number < 4; number++) {
        noise c;
        noise_init(&c, number, 1);
        const int64_t without = sp_host_tier_bytes(t, &c.record);
        c.record.facts.note_bytes = NOTES;
        assert_int_equal(sp_host_tier_bytes(t, &c.record), without + NOTES * NOISE_LAYERS);
        sp_tier_job job = noise_put_job(&c);
        job.source = source_with_notes;
        assert_ok(sp_tier_run(t, &job));
        job = noise_get_job(&c, 1, 3);
        job.sink = check_with_notes;
        assert_ok(sp_tier_run(t, &job));
        assert_int_equal(c.n_layers, 3);
    }
    sp_tier_close(t);
}

/* -- many threads --------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 150, KEYS = 12 };

typedef struct worker {
    sp_tier *tier;
    uint64_t seed;
    int n_got, n_cancelled;
    bool wrong;
} worker;

/* cancel_one -- submits a get, and cancels it at once. */
static void cancel_one(worker *w, uint32_t number)
{
    noise c;
    sp_tier_op *op;
    noise_init(&c, number, 1);
    sp_tier_job job = noise_get_job(&c, 0, NOISE_LAYERS);
    if (sp_tier_submit(w->tier, &job, &op) != SP_OK) return;
    sp_tier_op_cancel(op);
    sp_tier_op_wait(op, -1);
    sp_err err = sp_tier_op_result(op);
    w->n_cancelled += err == SP_E_CANCELED;
    w->wrong |= err != SP_OK && err != SP_E_CANCELED && err != SP_E_NOTFOUND;
    sp_tier_op_release(op);
}

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t number = (uint32_t)check_random(&w->seed, KEYS);
        int what = check_random(&w->seed, 8);
        sp_err err = SP_OK;
        if (what < 3)
            err = noise_put(w->tier, number, 1);
        else if (what < 6)
            err = noise_get(w->tier, number, 1);
        else if (what < 7)
            err = noise_drop(w->tier, number);
        else
            cancel_one(w, number);
        w->n_got += what >= 3 && what < 6 && err == SP_OK;
        w->wrong |= err != SP_OK && err != SP_E_NOTFOUND;
    }
    return NULL;
}

static void put_get_drop_and_cancel_at_once(void **state)
{
    sp_tier *t = open_host(6 * (64 << 10), NULL); /* so that puts drop copies that are being read */
    worker w[THREADS];
    pthread_t threads[THREADS];
    int n_got = 0;
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){.tier = t, .seed = (uint64_t)i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(w[i].wrong);
        n_got += w[i].n_got;
    }
    assert_true(n_got > 20);
    assert_true(sp_tier_stats_of(t).bytes_used <= 6 * (64 << 10));
    sp_tier_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_round_trips),
        cmocka_unit_test(the_memory_of_the_index_is_counted),
        cmocka_unit_test(the_budget_is_kept),
        cmocka_unit_test(a_source_that_fails_leaves_the_older_copy),
        cmocka_unit_test(packed_copies_are_unpacked),
        cmocka_unit_test(notes_come_back_whole),
        cmocka_unit_test(put_get_drop_and_cancel_at_once),
        cmocka_unit_test(a_bit_that_changed_in_memory_is_a_miss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
