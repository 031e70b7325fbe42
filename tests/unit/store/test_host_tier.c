/* test_host_tier.c -- what was put comes back under a budget, from many threads at once. */
#include "support/check.h"

#include <pthread.h>
#include <stdatomic.h>

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

/* What the tier overwrites, in bytes: libc's own, counted. */
static atomic_size_t n_overwritten;

void explicit_bzero(void *s, size_t n)
{
    atomic_fetch_add(&n_overwritten, n);
    memset(s, 0, n);
    __asm__ volatile("" : : "r"(s) : "memory");
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

static void entries_of_dropped_copies_are_used_again(void **state)
{
    sp_tier *t = open_host(64 << 20, NULL);
    int64_t bytes = 0;
    for (int round = 0; round < 100; round++) {
        for (uint32_t i = 0; i < 3; i++) assert_ok(noise_put(t, i, 1));
        if (round == 0) bytes = sp_tier_stats_of(t).index_bytes;
        for (uint32_t i = 0; i < 3; i++) assert_ok(noise_drop(t, i));
    }
    assert_int_equal(sp_tier_stats_of(t).index_bytes, bytes);
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

static void the_budget_is_exact(void **state)
{
    sp_tier *t = open_host(1 << 20, NULL);
    const int64_t bytes = bytes_of(t, 1);
    assert_int_equal(bytes_of(t, 4), bytes);
    sp_tier_close(t);
    for (int missing = 0; missing < 2; missing++) {
        t = open_host(bytes - missing, NULL);
        assert_int_equal(noise_put(t, 1, 1), missing ? SP_E_LIMIT : SP_OK);
        sp_tier_close(t);
        t = open_host(2 * bytes - missing, NULL);
        assert_ok(noise_put(t, 1, 1));
        assert_ok(noise_put(t, 4, 1));
        assert_int_equal(sp_tier_stats_of(t).n_copies, 2 - missing);
        sp_tier_close(t);
    }
}

static void trimming_keeps_what_was_used_last(void **state)
{
    sp_tier *t = open_host(1 << 20, NULL);
    for (uint32_t i = 0; i < 6; i++) assert_ok(noise_put(t, i, 1));
    assert_ok(noise_get(t, 0, 1));
    const int64_t most = bytes_of(t, 0) + bytes_of(t, 5) + bytes_of(t, 4) - 1;
    assert_ok(sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_TRIM, .max_bytes = most}));
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(noise_get(t, i, 1), i % 5 ? SP_E_NOTFOUND : SP_OK);
    assert_ok(sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_TRIM, .max_bytes = 2 << 20})); /* more than it has */
    assert_int_equal(sp_tier_stats_of(t).n_copies, 2);
    sp_tier_close(t);
}

/* A policy that drops copy 2 first, and hears of it. */
typedef struct second_first {
    sp_tier_key dropped;
    int n_dropped;
    bool none;
} second_first;

static bool drop_second(void *user, sp_tier_key *out)
{
    *out = noise_key(2);
    return !((second_first *)user)->none;
}

static void note_dropped(void *user, const sp_tier_key *key)
{
    second_first *f = user;
    f->dropped = *key;
    f->n_dropped++;
}

static void the_policy_chooses_and_is_told(void **state)
{
    sp_tier *t = open_host(1 << 20, NULL);
    int64_t all = 0;
    for (uint32_t i = 1; i < 4; i++) all += bytes_of(t, i);
    sp_tier_close(t);
    second_first f = {0};
    assert_ok(sp_host_tier_open(&(sp_host_tier_opts){.max_bytes = all,
                                                     .evict = {drop_second, note_dropped, .user = &f}},
                                &t));
    for (uint32_t i = 1; i < 4; i++) assert_ok(noise_put(t, i, 1));
    assert_int_equal(f.n_dropped, 0);
    assert_ok(noise_put(t, 5, 1));
    assert_int_equal(f.n_dropped, 1);
    const sp_tier_key second = noise_key(2);
    assert_true(sp_digest_eq(&f.dropped.id, &second.id));
    assert_int_equal(noise_get(t, 2, 1), SP_E_NOTFOUND);
    f.none = true;
    assert_fails(noise_put(t, 6, 1), SP_E_LIMIT, "pinned");
    for (uint32_t i = 1; i < 6; i += 2) assert_ok(noise_get(t, i, 1));
    sp_tier_close(t);
}

/* A document that is erased is also one of whose copies others take the place. */
static void what_leaves_is_overwritten(void **state)
{
    enum { BESIDE = 256 }; /* bytes that the budget counts for the index */
    sp_tier *t = open_host(1 << 20, NULL);
    const size_t bytes = (size_t)bytes_of(t, 3) - BESIDE;
    assert_ok(noise_put(t, 3, 1));
    assert_ok(noise_get(t, 3, 1));
    atomic_store(&n_overwritten, 0);
    assert_ok(noise_put(t, 3, 2)); /* in place of the older */
    assert_int_equal(atomic_load(&n_overwritten), bytes);
    assert_ok(noise_drop(t, 3));
    assert_int_equal(atomic_load(&n_overwritten), 2 * bytes);
    assert_ok(noise_put(t, 3, 1));
    assert_ok(sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_TRIM}));
    assert_int_equal(atomic_load(&n_overwritten), 3 * bytes);
    assert_ok(noise_put(t, 3, 1));
    sp_tier_close(t); /* with a copy in it */
    assert_int_equal(atomic_load(&n_overwritten), 4 * bytes);
}

/* cancel_at_1 -- user: the operation, once its submitter knows it. */
static sp_err cancel_at_1(void *user, int layer, const void *from)
{
    sp_tier_op *_Atomic *op = user;
    SP_UNUSED(from);
    while (!atomic_load(op)) usleep(1000);
    if (layer == 1) sp_tier_op_cancel(atomic_load(op));
    return SP_OK;
}

static void gets_are_counted_as_what_they_are(void **state)
{
    sp_tier *t = open_host(1 << 20, NULL);
    noise c;
    sp_tier_op *op, *_Atomic known = NULL;
    assert_ok(noise_put(t, 3, 1));
    assert_ok(noise_get(t, 3, 1));
    assert_int_equal(noise_get(t, 4, 1), SP_E_NOTFOUND);
    noise_init(&c, 3, 1);
    sp_tier_job job = noise_get_job(&c, 0, NOISE_LAYERS);
    job.head = NULL;
    job.sink = cancel_at_1;
    job.user = &known;
    assert_ok(sp_tier_submit(t, &job, &op));
    atomic_store(&known, op);
    assert_true(sp_tier_op_wait(op, 60000000));
    assert_int_equal(sp_tier_op_result(op), SP_E_CANCELED);
    sp_tier_op_release(op);
    sp_tier_stats s = sp_tier_stats_of(t);
    assert_int_equal(s.n_got, 1);
    assert_int_equal(s.n_missed, 1);
    assert_int_equal(s.n_failed, 0);
    assert_int_equal(s.bytes_read, (int64_t)NOISE_LAYERS * (int64_t)c.record.layer_bytes);
    job = noise_get_job(&c, 0, NOISE_LAYERS + 1);
    assert_int_equal(sp_tier_run(t, &job), SP_E_ARG);
    assert_ok(noise_drop(t, 3));
    assert_ok(noise_drop(t, 3)); /* nothing is left to drop */
    s = sp_tier_stats_of(t);
    assert_int_equal(s.n_failed, 1);
    assert_int_equal(s.n_dropped, 1);
    assert_int_equal(s.bytes_read, (int64_t)NOISE_LAYERS * (int64_t)c.record.layer_bytes);
    sp_tier_close(t);
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

/* The ledger still counts on the older copy of a name when the newer one finds no room. */
static void a_copy_without_room_leaves_the_older_one(void **state)
{
    sp_tier *t = open_host(1 << 20, NULL);
    const int64_t all = bytes_of(t, 1) + bytes_of(t, 3);
    sp_tier_close(t);
    second_first f = {.none = true};
    assert_ok(sp_host_tier_open(
        &(sp_host_tier_opts){.max_bytes = all, .evict = {drop_second, note_dropped, .user = &f}}, &t));
    assert_ok(noise_put(t, 1, 1));
    assert_ok(noise_put(t, 3, 1));
    noise larger;
    noise_init(&larger, 3, 2);
    larger.record.layer_bytes += 4096;
    const sp_tier_job job = noise_put_job(&larger);
    assert_fails(sp_tier_run(t, &job), SP_E_LIMIT, "pinned");
    assert_ok(noise_get(t, 1, 1));
    assert_ok(noise_get(t, 3, 1));
    assert_ok(noise_put(t, 3, 2)); /* in place of the older one, whose room is enough */
    assert_ok(noise_get(t, 3, 2));
    assert_int_equal(f.n_dropped, 0);
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

static sp_tier *current; /* of the test below */

/* replace_and_flip -- while a copy is read, a newer one takes its place, and the older one is damaged. */
static sp_err replace_and_flip(void *user, int layer, const void *from)
{
    const noise *c = user;
    if (layer) return SP_OK;
    assert_ok(noise_put(current, 3, 2));
    ((uint8_t *)(uintptr_t)from)[c->record.layer_bytes] ^= 1; /* of the next layer */
    return SP_OK;
}

static void damage_of_an_older_copy_is_not_the_newer_ones(void **state)
{
    noise c;
    current = open_host(1 << 20, NULL);
    assert_ok(noise_put(current, 3, 1));
    noise_init(&c, 3, 1);
    sp_tier_job job = noise_get_job(&c, 0, NOISE_LAYERS);
    job.sink = replace_and_flip;
    assert_int_equal(sp_tier_run(current, &job), SP_E_FORMAT);
    assert_ok(noise_get(current, 3, 2));
    assert_int_equal(sp_tier_stats_of(current).n_damaged, 0);
    sp_tier_close(current);
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

/* flip_notes -- of an unpacked copy a sink gets the tier's own memory. */
static sp_err flip_notes(void *user, int layer, const void *from)
{
    const noise *c = user;
    if (layer == 3) ((uint8_t *)(uintptr_t)from)[c->record.layer_bytes + NOTES - 1] ^= 1;
    return SP_OK;
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

static void notes_that_changed_in_memory_are_a_miss(void **state)
{
    sp_tier *t = open_host(1 << 20, NULL);
    noise c;
    noise_init(&c, 3, 1);
    c.record.facts.note_bytes = NOTES;
    sp_tier_job job = noise_put_job(&c);
    job.source = source_with_notes;
    assert_ok(sp_tier_run(t, &job));
    job = noise_get_job(&c, 0, NOISE_LAYERS);
    job.sink = flip_notes;
    assert_ok(sp_tier_run(t, &job));
    job.sink = check_with_notes;
    assert_fails(sp_tier_run(t, &job), SP_E_FORMAT, "layer 3");
    assert_int_equal(sp_tier_stats_of(t).n_damaged, 1);
    sp_tier_close(t);
}

/* see_exact -- user: what the header says. */
static sp_err see_exact(void *user, const sp_record *r)
{
    *(bool *)user = r->facts.exact;
    return SP_OK;
}

static void what_was_rounded_is_not_exact(void **state)
{
    const sp_kv_packing packing = {
        .name = "half", .wants = wants_even, .packed_bytes = half, .pack = pack, .unpack = unpack};
    sp_tier *t = open_host(1 << 20, &packing);
    for (uint32_t number = 3; number <= 6; number += 3) { /* both are exact; 6 is packed */
        bool exact = number == 6;
        assert_ok(noise_put(t, number, 1));
        const sp_tier_job job = {.verb = SP_TIER_GET, .key = noise_key(number), .head = see_exact, .user = &exact};
        assert_ok(sp_tier_run(t, &job));
        assert_int_equal(exact, number == 3);
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
        cmocka_unit_test(entries_of_dropped_copies_are_used_again),
        cmocka_unit_test(the_budget_is_kept),
        cmocka_unit_test(the_budget_is_exact),
        cmocka_unit_test(trimming_keeps_what_was_used_last),
        cmocka_unit_test(the_policy_chooses_and_is_told),
        cmocka_unit_test(what_leaves_is_overwritten),
        cmocka_unit_test(gets_are_counted_as_what_they_are),
        cmocka_unit_test(a_source_that_fails_leaves_the_older_copy),
        cmocka_unit_test(a_copy_without_room_leaves_the_older_one),
        cmocka_unit_test(packed_copies_are_unpacked),
        cmocka_unit_test(notes_come_back_whole),
        cmocka_unit_test(notes_that_changed_in_memory_are_a_miss),
        cmocka_unit_test(what_was_rounded_is_not_exact),
        cmocka_unit_test(put_get_drop_and_cancel_at_once),
        cmocka_unit_test(a_bit_that_changed_in_memory_is_a_miss),
        cmocka_unit_test(damage_of_an_older_copy_is_not_the_newer_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
