/* test_ledger_states.c -- FREE, LOADING, READY and gone: every arrow of the picture in copy.h. */
#include "support/copy_bench.h"
#include "support/path_bench.h"

#include "cache/cost.h"

static sp_adopted name_of(const sp_segment *seg, sp_copy_kind kind)
{
    return (sp_adopted){.facts.id = seg->id,
                        .facts.kind = kind,
                        .facts.head = sp_head_key(before, 1),
                        .place = SP_AT_DISK};
}

static void adopt(bench *b, const sp_segment *seg, sp_copy_kind kind)
{
    sp_adopted a = name_of(seg, kind);
    assert_ok(sp_ledger_adopt(b->ledger, &a));
}

/* adopted -- a plain copy that only the disk has; pinned. */
static const sp_copy *adopted(bench *b, const sp_segment *seg)
{
    adopt(b, seg, SP_COPY_PLAIN);
    const sp_copy *c = find_copy(b, seg);
    assert_non_null(c);
    assert_int_equal(c->state, SP_COPY_FREE);
    return c;
}

static sp_err load_fails(bench *b, const sp_copy *c)
{
    return sp_ledger_load_end(b->ledger, c, NULL, SP_AT_DISK, ++b->now);
}

static sp_err load_ends(bench *b, const sp_copy *c)
{
    sp_copy_facts loaded = {.before = before, .n_before = 1, .at = 9};
    return sp_ledger_load_end(b->ledger, c, &loaded, SP_AT_DISK, ++b->now);
}

static sp_copy_spec plain_in(const sp_segment *seg, const uint32_t *blocks)
{
    sp_copy_spec spec = computed_after(SP_COPY_PLAIN, 1);
    spec.seg = seg;
    spec.blocks = blocks;
    return spec;
}

/* measured -- after the head, with the attention that its tokens received. */
static sp_copy_spec measured(sp_copy_kind kind, const int32_t *heavy)
{
    sp_copy_spec spec = computed_after(kind, 1);
    spec.facts.heavy = heavy;
    return spec;
}

/* -- loading -------------------------------------------------------------------------------- */

/* What computing a copy of another process would cost is guessed: more, the more tokens it was computed after. */
static void a_copy_far_behind_costs_more(void **state)
{
    bench *b = *state;
    double costs[2];
    for (int i = 0; i < 2; i++) {
        sp_segment seg = numbered(100 * i, 40);
        const sp_copy *c = adopted(b, &seg);
        const sp_copy_facts loaded = {.before = before, .n_before = 1, .at = i ? 16384 : 9};
        assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
        assert_ok(sp_ledger_load_end(b->ledger, c, &loaded, SP_AT_DISK, ++b->now));
        costs[i] = (double)c->uses.mean_cost;
        sp_ledger_unpin(b->ledger, c);
    }
    assert_true(costs[0] > 0 && costs[1] > 2 * costs[0]); /* 8,192 tokens to look at cost as much as a token */
}

static void adopted_copies_are_known_by_name(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), other = numbered(100, 40);
    const sp_copy *c = adopted(b, &seg);
    assert_null(c->tokens);
    assert_null(c->blocks);
    assert_int_equal(c->n, 0);
    assert_int_equal(c->places, SP_AT_DISK);
    assert_true(sp_copy_loadable(c));
    assert_false(sp_copy_evictable(c));
    sp_content_query q = query(&seg, before, 1);
    q.ready_only = true;
    assert_null(sp_by_content_find(b->ledger, &q, SP_COPY_PLAIN, ++b->now));
    q = query(&seg, before, 1);
    q.heavy = true; /* no tier keeps that */
    assert_null(sp_by_content_find(b->ledger, &q, SP_COPY_PLAIN, ++b->now));
    assert_null(find_fused(b, &seg, before));
    assert_null(find_plain(b, &seg, before + 1, 1));
    assert_null(find_plain(b, &seg, before, 2));
    assert_false(has(b, &other));
    assert_int_equal(known(b, &seg, 1), 0);
    assert_int_equal(why(b, &seg, before), SP_MISS_UNMEASURED);
    assert_int_equal(why(b, &seg, before + 1), SP_MISS_OTHER_HEAD);
    assert_int_equal(stats_of(b).n_free, 1);
    assert_int_equal(stats_of(b).n_blocks, 0);
    sp_ledger_unpin(b->ledger, c);
}

static void a_load_makes_a_free_copy_ready(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *c = adopted(b, &seg);
    int64_t n_added = stats_of(b).n_added;
    assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
    sp_ledger_unpin(b->ledger, c); /* the load has a pin of its own */
    assert_int_equal(c->state, SP_COPY_LOADING);
    assert_int_equal(c->n, 40);
    assert_memory_equal(c->tokens, seg.tokens, 40 * sizeof *seg.tokens);
    for (int i = 0; i < 3; i++) assert_false(sp_kv_is_sealed(b->pool, c->blocks[i]));
    uint32_t block = c->blocks[2];
    assert_int_equal(stats_of(b).n_blocks, 3);
    assert_int_equal(stats_of(b).n_free, 0);
    sp_ledger_clear(b->ledger); /* it is no copy that may go */
    const sp_copy *waiting = find_copy(b, &seg);
    assert_ptr_equal(waiting, c);
    sp_ledger_unpin(b->ledger, waiting);
    sp_content_query q = query(&seg, before, 1);
    q.ready_only = true;
    assert_null(sp_by_content_find(b->ledger, &q, SP_COPY_PLAIN, ++b->now));
    assert_int_equal(stats_of(b).n_added, n_added);
    assert_ok(load_ends(b, c));
    assert_int_equal(stats_of(b).n_added, n_added + 1);
    assert_int_equal(c->state, SP_COPY_READY);
    assert_int_equal(c->n_pins, 0);
    assert_int_equal(c->facts.at, 9);
    assert_int_equal(c->facts.n_before, 1);
    assert_true(sp_digest_eq(c->facts.before, before));
    assert_int_equal(c->blocks[2], block);
    assert_int_equal(c->uses.last, b->now);
    assert_int_equal(c->places, SP_AT_DEVICE | SP_AT_DISK);
    for (int i = 0; i < 3; i++) {
        assert_true(sp_kv_is_sealed(b->pool, c->blocks[i]));
        assert_int_equal(sp_kv_refs(b->pool, c->blocks[i]), 1);
    }
    assert_true(has(b, &seg));
}

/* Costs are of requests that computed the copy: loading it adds none, whatever its record says, and the host's
 * policy knows the same mean. A copy that this ledger never computed has the cost of its size. */
static void a_load_is_no_computation(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), other = numbered(100, 40);
    uint32_t blocks[3];
    const sp_copy *c;
    sp_copy_spec spec = plain_in(&seg, blocks);
    spec.n_cached = 4000;
    spec.n_fresh = 100;
    sealed(b->pool, 40, blocks);
    assert_ok(sp_ledger_add(b->ledger, &spec, ++b->now, &c));
    sp_kv_release(b->pool, blocks, 3);
    const float computed = (float)(sp_cost_us(NULL, 4000, 100) / 100);
    assert_true(c->uses.mean_cost == computed && c->uses.n_costs == 1);
    sp_ledger_placed(b->ledger, c, SP_AT_HOST);
    assert_true(c->host->uses.mean_cost == computed && c->host->uses.n_costs == 1);
    for (int i = 0; i < 2; i++) {
        sp_ledger_lose_device(b->ledger);
        sp_ledger_pin(b->ledger, c);
        assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
        sp_copy_facts loaded = {
            .before = before, .n_before = 1, .n_head = 1, .at = 9, .cost_us = 1e6f};
        assert_ok(sp_ledger_load_end(b->ledger, c, &loaded, SP_AT_HOST, ++b->now));
        sp_ledger_unpin(b->ledger, c);
        assert_int_equal(c->state, SP_COPY_READY);
        assert_true(c->uses.mean_cost == computed && c->uses.n_costs == 1);
    }
    const sp_copy *found = adopted(b, &other);
    assert_ok(sp_ledger_load_begin(b->ledger, found, &other, 0));
    sp_copy_facts loaded = {.before = before, .n_before = 1, .at = 9, .cost_us = 37000};
    assert_ok(sp_ledger_load_end(b->ledger, found, &loaded, SP_AT_DISK, ++b->now));
    assert_true(found->uses.mean_cost == (float)(sp_cost_us(NULL, 9, 40) / 40));
    sp_ledger_unpin(b->ledger, found);
}

/* With a profile, measured times can be compared with its: a copy of another process costs what its record says. */
static void a_profile_believes_measured_times(void **state)
{
    static const sp_cost profile = {
        .n_cached = 2, .n_new = 2, .cached = {0, 1000}, .fresh = {1, 1001}, .us = {2, 2002, 4, 4004}};
    bench b = {.pool = small_pool(20)};
    sp_ledger_opts o = {.pool = b.pool, .max_blocks = 20, .cost = &profile};
    assert_ok(sp_ledger_create(&o, &b.ledger));
    for (int measured_us = 0; measured_us < 2; measured_us++) {
        sp_segment seg = numbered(100 * measured_us, 40);
        const sp_copy *c = adopted(&b, &seg);
        sp_copy_facts loaded = {.before = before, .n_before = 1, .at = 9, .cost_us = measured_us ? 37000 : 0};
        assert_ok(sp_ledger_load_begin(b.ledger, c, &seg, 0));
        assert_ok(sp_ledger_load_end(b.ledger, c, &loaded, SP_AT_DISK, ++b.now));
        const double token_us = measured_us ? 37000.0 / 40 : sp_cost_us(&profile, 9, 40) / 40;
        assert_true(c->uses.mean_cost == (float)token_us);
        sp_ledger_unpin(b.ledger, c);
    }
    bench_end(&b);
}

static void a_load_that_fails_leaves_a_miss(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *c = adopted(b, &seg);
    assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
    assert_ok(load_fails(b, c));
    assert_int_equal(c->state, SP_COPY_FREE); /* still pinned, but no use to anybody */
    assert_int_equal(c->places, 0);
    assert_false(sp_copy_loadable(c));
    assert_null(c->blocks);
    assert_int_equal(sp_kv_pool_n_free(b->pool), 20);
    assert_int_equal(stats_of(b).n_blocks, 0);
    assert_false(has(b, &seg));
    assert_int_equal(why(b, &seg, before), SP_MISS_NEVER_SEEN);
    assert_int_equal(n_copies(b), 1);
    sp_ledger_unpin(b->ledger, c);
    assert_int_equal(n_copies(b), 0);
    c = adopted(b, &seg);
    assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
    sp_ledger_unpin(b->ledger, c);
    assert_ok(load_fails(b, c)); /* nobody waits: gone at once */
    assert_int_equal(n_copies(b), 0);
}

static void a_copy_in_another_tier_stays_known(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *c = adopted(b, &seg);
    sp_ledger_placed(b->ledger, c, SP_AT_HOST);
    assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
    sp_ledger_unpin(b->ledger, c);
    assert_ok(load_fails(b, c));
    assert_int_equal(c->places, SP_AT_HOST);
    assert_true(sp_copy_loadable(c) && has(b, &seg));
    assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0)); /* and this time from there */
    assert_ok(load_ends(b, c));
    assert_int_equal(c->state, SP_COPY_READY);
    assert_int_equal(c->places, SP_AT_DEVICE | SP_AT_HOST);
}

static void a_load_makes_room(void **state)
{
    bench b;
    bench_begin(&b, 10, 6);
    sp_segment seg = numbered(0, 3 * B), old = numbered(200, 3 * B), new = numbered(300, 2 * B);
    assert_true(insert(&b, &old) && insert(&b, &new));
    const sp_copy *c = adopted(&b, &seg), *held = find_copy(&b, &old);
    assert_ok(sp_ledger_load_begin(b.ledger, c, &seg, 0)); /* the budget: 3 + 3 blocks of 6 */
    assert_false(has(&b, &new));
    assert_true(has(&b, &old));
    assert_ok(load_ends(&b, c));
    sp_ledger_unpin(b.ledger, held);
    sp_ledger_unpin(b.ledger, c);
    sp_ledger_clear(b.ledger);
    assert_true(insert(&b, &old));
    c = find_copy(&b, &seg);
    assert_int_equal(c->state, SP_COPY_FREE);
    assert_ok(sp_ledger_load_begin(b.ledger, c, &seg, 5)); /* the pool: 3 + 5 blocks of 10 */
    assert_false(has(&b, &old));
    assert_ok(load_ends(&b, c));
    sp_ledger_unpin(b.ledger, c);
    bench_end(&b);
}

static void a_load_without_room_is_refused(void **state)
{
    bench b;
    bench_begin(&b, 10, 6);
    sp_segment seg = numbered(0, 3 * B), held = numbered(200, 4 * B), large = numbered(0, 7 * B);
    assert_true(insert(&b, &held));
    const sp_copy *c = adopted(&b, &seg), *pinned = find_copy(&b, &held);
    assert_fails(sp_ledger_load_begin(b.ledger, c, &seg, 0), SP_E_NOKV, "needs 3 blocks");
    assert_int_equal(c->state, SP_COPY_FREE);
    assert_int_equal(c->n_pins, 1);
    assert_true(sp_copy_loadable(c));
    sp_ledger_unpin(b.ledger, pinned);
    assert_fails(sp_ledger_load_begin(b.ledger, c, &seg, 8), SP_E_NOKV, "leaves 8");
    const sp_copy *too_large = adopted(&b, &large);
    assert_fails(sp_ledger_load_begin(b.ledger, too_large, &large, 0), SP_E_NOKV, "7 blocks");
    sp_ledger_unpin(b.ledger, too_large);
    assert_ok(sp_ledger_load_begin(b.ledger, c, &seg, 7));
    sp_ledger_unpin(b.ledger, c);
    assert_ok(load_fails(&b, c));
    bench_end(&b);
}

/* -- lower tiers ---------------------------------------------------------------------------- */

static void an_evicted_copy_on_disk_stays_known(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), other = numbered(100, 16);
    sp_copy_spec spec = computed_after(SP_COPY_PLAIN, 1);
    spec.facts.cost_us = 700;
    assert_true(enter(b, &seg, spec) && insert(b, &other));
    const sp_copy *c = find_copy(b, &seg), *gone = find_copy(b, &other);
    sp_ledger_placed(b->ledger, c, SP_AT_DISK);
    sp_ledger_placed(b->ledger, gone, SP_AT_DISK);
    sp_ledger_unplaced(b->ledger, gone, SP_AT_DISK); /* READY: the device still has it */
    sp_ledger_unpin(b->ledger, c);
    sp_ledger_unpin(b->ledger, gone);
    sp_ledger_clear(b->ledger);
    assert_int_equal(stats_of(b).n_evicted, 2);
    assert_int_equal(n_copies(b), 1);
    assert_int_equal(c->state, SP_COPY_FREE);
    assert_int_equal(c->places, SP_AT_DISK);
    assert_int_equal(c->facts.cost_us, 700); /* what computing it again would take */
    assert_null(c->tokens);
    assert_int_equal(sp_kv_pool_n_free(b->pool), 20);
    assert_ptr_equal(find_copy(b, &seg), c);
    assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
    assert_ok(load_ends(b, c));
    sp_ledger_unpin(b->ledger, c);
    sp_ledger_clear(b->ledger);
    sp_ledger_unplaced(b->ledger, c, SP_AT_DISK); /* FREE: now nobody has it */
    assert_int_equal(n_copies(b), 0);
    assert_int_equal(why(b, &seg, before), SP_MISS_EVICTED);
}

static void a_pinned_copy_may_lose_its_place(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *c = adopted(b, &seg);
    sp_ledger_unplaced(b->ledger, c, SP_AT_DISK);
    assert_int_equal(n_copies(b), 1);
    assert_false(sp_copy_loadable(c) || has(b, &seg));
    assert_int_equal(why(b, &seg, before), SP_MISS_NEVER_SEEN);
    assert_true(insert(b, &seg)); /* computed meanwhile: whoever waits has it */
    assert_int_equal(c->state, SP_COPY_READY);
    assert_int_equal(c->places, SP_AT_DEVICE);
    sp_ledger_unpin(b->ledger, c);
}

static void what_is_computed_makes_a_free_copy_ready(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *c = adopted(b, &seg), *added = NULL;
    uint32_t blocks[3];
    sealed(b->pool, 40, blocks);
    sp_copy_spec spec = plain_in(&seg, blocks);
    assert_survives_faults(sp_ledger_add(b->ledger, &spec, ++b->now, &added),
                           !added && c->state == SP_COPY_FREE && sp_kv_refs(b->pool, *blocks) == 1);
    sp_kv_release(b->pool, blocks, 3);
    assert_ptr_equal(added, c);
    assert_int_equal(c->state, SP_COPY_READY);
    assert_int_equal(c->places, SP_AT_DEVICE | SP_AT_DISK);
    assert_int_equal(c->n_pins, 1);
    assert_int_equal(n_copies(b), 1);
    assert_int_equal(stats_of(b).n_free, 0);
    sp_ledger_unpin(b->ledger, c);
}

/* Another request has computed what is being loaded. */
static void a_copy_may_be_computed_while_it_is_loaded(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *c = adopted(b, &seg);
    assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
    assert_true(insert(b, &seg));
    assert_int_equal(n_copies(b), 2);
    const sp_copy *ready = find_copy(b, &seg); /* READY before LOADING */
    assert_ptr_not_equal(ready, c);
    sp_ledger_placed(b->ledger, ready, SP_AT_DISK);
    sp_ledger_unpin(b->ledger, ready);
    assert_ok(load_ends(b, c));
    sp_ledger_unpin(b->ledger, c);
    assert_int_equal(c->state, SP_COPY_READY);
    sp_ledger_clear(b->ledger); /* the disk has one copy of a name, and so has the ledger */
    assert_int_equal(n_copies(b), 1);
    assert_int_equal(stats_of(b).n_free, 1);
    assert_true(has(b, &seg));
}

/* A tier that has the name of two copies has the one with blocks. */
static void a_name_is_that_of_the_ready_copy(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *c = adopted(b, &seg);
    assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
    assert_true(insert(b, &seg)); /* computed meanwhile */
    assert_ok(load_fails(b, c));  /* and still pinned */
    const sp_copy *ready = find_copy(b, &seg);
    assert_ptr_not_equal(ready, c);
    assert_int_equal(ready->places, SP_AT_DEVICE);
    adopt(b, &seg, SP_COPY_PLAIN);
    assert_int_equal(ready->places, SP_AT_DEVICE | SP_AT_DISK);
    assert_int_equal(c->places, 0);
    sp_ledger_unpin(b->ledger, c);
    sp_ledger_unpin(b->ledger, ready);
}

static void what_no_tier_keeps_is_gone(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), path = numbered(100, 40);
    static const int32_t patch[] = {0, 3, 17};
    assert_true(insert(b, &seg));
    const sp_copy *base = find_copy(b, &seg);
    assert_true(enter(b, &seg, computed_after(SP_COPY_PLACED, 2)));
    sp_copy_spec patched = computed_after(SP_COPY_PLACED, 3);
    patched.base = base;
    patched.patch.n = 3;
    patched.patch.tokens = patch;
    assert_true(enter(b, &seg, patched));
    learn(b, &path, 1);
    assert_int_equal(n_copies(b), 4);
    assert_int_equal(base->n_pins, 2);
    sp_ledger_unpin(b->ledger, base);
    sp_ledger_clear(b->ledger);
    assert_int_equal(n_copies(b), 0);
}

static void an_adopted_copy_is_free(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), other = numbered(100, 40);
    sp_adopted a = name_of(&seg, SP_COPY_PLAIN);
    int64_t n_added = stats_of(b).n_added;
    assert_survives_faults(sp_ledger_adopt(b->ledger, &a), n_copies(b) == 0);
    assert_true(stats_of(b).n_added > n_added);
    a.place = SP_AT_HOST;
    assert_ok(sp_ledger_adopt(b->ledger, &a)); /* the same copy, in another tier too */
    assert_int_equal(n_copies(b), 1);
    assert_int_equal(sp_ledger_next(b->ledger, NULL)->places, SP_AT_HOST | SP_AT_DISK);
    assert_true(insert(b, &other));
    adopt(b, &other, SP_COPY_PLAIN); /* READY, and now on disk as well */
    adopt(b, &other, SP_COPY_FUSED); /* another name */
    assert_int_equal(n_copies(b), 3);
    sp_ledger_clear(b->ledger);
    assert_int_equal(stats_of(b).n_free, 3);
    a.place = SP_AT_DEVICE;
    assert_fails(sp_ledger_adopt(b->ledger, &a), SP_E_ARG, "device");
    a = name_of(&seg, SP_COPY_PLACED);
    assert_fails(sp_ledger_adopt(b->ledger, &a), SP_E_ARG, "computed after");
    a = name_of(&seg, SP_COPY_PATH);
    assert_fails(sp_ledger_adopt(b->ledger, &a), SP_E_ARG, "kind");
}

/* A tier may not know it: what another one has said remains. */
static void an_adopted_copy_has_the_cost_that_a_tier_knows(void **state)
{
    static const float costs[][2] = {{0, 0}, {700, 700}, {0, 700}, {900, 900}};
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    sp_adopted a = name_of(&seg, SP_COPY_PLAIN);
    for (size_t i = 0; i < SP_COUNT(costs); i++) {
        a.facts.cost_us = costs[i][0];
        assert_ok(sp_ledger_adopt(b->ledger, &a));
        assert_true(sp_ledger_next(b->ledger, NULL)->facts.cost_us == costs[i][1]);
    }
}

/* As if all were at time 0; what another tier says later changes nothing. */
static void an_adopted_copy_has_the_uses_that_a_tier_knows(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    sp_adopted a = name_of(&seg, SP_COPY_PLAIN);
    for (int64_t n_uses = 8; n_uses <= 100; n_uses += 92) {
        a.n_uses = n_uses;
        assert_ok(sp_ledger_adopt(b->ledger, &a));
        const sp_copy *c = sp_ledger_next(b->ledger, NULL);
        assert_int_equal(c->uses.n, 8);
        assert_true(c->uses.recent == 3);
    }
}

/* I6: those that became FREE first are forgotten, but for pinned ones. */
static void free_copies_are_bounded(void **state)
{
    enum { MORE = 10 };
    bench *b = *state;
    sp_segment first = numbered(1000, 20);
    const sp_copy *pinned = adopted(b, &first);
    for (int i = 1; i < SP_LEDGER_MAX_FREE + MORE; i++) {
        sp_adopted a = name_of(&first, SP_COPY_PLAIN);
        memcpy(a.facts.id.b, &i, sizeof i);
        assert_ok(sp_ledger_adopt(b->ledger, &a));
    }
    assert_int_equal(stats_of(b).n_free, SP_LEDGER_MAX_FREE);
    for (int i = 1; i < 2 * MORE; i++) {
        sp_segment s = first;
        memcpy(s.id.b, &i, sizeof i);
        assert_int_equal(has(b, &s), i > MORE);
    }
    assert_ptr_equal(find_copy(b, &first), pinned);
    sp_ledger_unpin(b->ledger, pinned);
    sp_ledger_unpin(b->ledger, pinned);
}

/* -- replacement of copies that a tier has -------------------------------------------------- */

static void a_measured_copy_keeps_the_place_of_the_other(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    int32_t heavy[40] = {0};
    assert_true(insert(b, &seg));
    const sp_copy *c = find_copy(b, &seg);
    sp_ledger_placed(b->ledger, c, SP_AT_DISK);
    sp_ledger_unpin(b->ledger, c);
    sp_content_query q = query(&seg, before, 1);
    q.heavy = true;
    assert_null(sp_by_content_find(b->ledger, &q, SP_COPY_PLAIN, ++b->now));
    assert_true(enter(b, &seg, measured(SP_COPY_PLAIN, heavy)));
    assert_int_equal(n_copies(b), 1);
    assert_int_equal(stats_of(b).n_evicted, 0);
    c = sp_by_content_find(b->ledger, &q, SP_COPY_PLAIN, ++b->now);
    assert_non_null(c);
    assert_int_equal(c->places, SP_AT_DEVICE | SP_AT_DISK);
    sp_ledger_unpin(b->ledger, c);
}

/* The newer copy of a name is FREE again, the older one is still read. */
static void a_ready_copy_serves_before_a_newer_free_one(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    int32_t heavy[40] = {0};
    assert_true(insert(b, &seg));
    const sp_copy *old = find_copy(b, &seg);
    assert_true(enter(b, &seg, measured(SP_COPY_PLAIN, heavy)));
    const sp_copy *new = find_copy(b, &seg);
    assert_ptr_not_equal(new, old);
    sp_ledger_placed(b->ledger, new, SP_AT_DISK);
    sp_ledger_unpin(b->ledger, new);
    sp_ledger_clear(b->ledger);
    assert_int_equal(new->state, SP_COPY_FREE);
    assert_ptr_equal(find_copy(b, &seg), old);
    sp_ledger_unpin(b->ledger, old);
    sp_ledger_unpin(b->ledger, old);
    sp_ledger_clear(b->ledger);
    assert_ptr_equal(find_copy(b, &seg), new);
    sp_ledger_unpin(b->ledger, new);
}

/* A placed copy after the head alone takes over from a plain one, but no tier keeps it. */
static void a_placed_copy_forgets_the_tiers(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    int32_t heavy[40] = {0};
    assert_true(insert(b, &seg));
    const sp_copy *c = find_copy(b, &seg);
    sp_ledger_placed(b->ledger, c, SP_AT_DISK);
    sp_ledger_unpin(b->ledger, c);
    assert_true(enter(b, &seg, measured(SP_COPY_PLACED, heavy)));
    assert_int_equal(stats_of(b).n_placed, 1);
    sp_ledger_clear(b->ledger);
    assert_int_equal(n_copies(b), 0);
}

static void a_fused_copy_in_a_tier_is_replaced(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    sp_copy_spec spec = computed_after(SP_COPY_FUSED, 3);
    adopt(b, &seg, SP_COPY_FUSED);
    const sp_copy *c = find_fused(b, &seg, before), *newer;
    assert_int_equal(c->state, SP_COPY_FREE);
    assert_true(enter(b, &seg, spec)); /* takes the FREE one's place */
    assert_int_equal(c->state, SP_COPY_READY);
    assert_int_equal(c->facts.n_before, 3);
    spec.facts.n_before = 2;
    assert_true(enter(b, &seg, spec)); /* the older one is being read */
    newer = find_fused(b, &seg, before);
    assert_ptr_not_equal(newer, c);
    assert_int_equal(newer->places, SP_AT_DEVICE);
    sp_ledger_unpin(b->ledger, newer);
    sp_ledger_unpin(b->ledger, c);
    spec.facts.n_before = 4;
    assert_true(enter(b, &seg, spec)); /* replaces both */
    assert_int_equal(n_copies(b), 1);
    newer = find_fused(b, &seg, before);
    assert_int_equal(newer->facts.n_before, 4);
    assert_int_equal(newer->places, SP_AT_DEVICE | SP_AT_DISK);
    sp_ledger_unpin(b->ledger, newer);
}

/* -- memory --------------------------------------------------------------------------------- */

static void a_load_without_memory_changes_nothing(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40);
    const sp_copy *c = adopted(b, &seg);
    assert_survives_faults(sp_ledger_load_begin(b->ledger, c, &seg, 0),
                           c->state == SP_COPY_FREE && c->n_pins == 1 && sp_copy_loadable(c) &&
                               sp_kv_pool_n_free(b->pool) == 20 && stats_of(b).n_blocks == 0);
    sp_fault_after(0);
    sp_err err = load_ends(b, c);
    sp_fault_after(-1);
    assert_int_equal(err, SP_E_NOMEM); /* FREE, with all its places: it may be tried again */
    assert_true(sp_copy_loadable(c));
    assert_int_equal(c->n_pins, 1);
    assert_int_equal(sp_kv_pool_n_free(b->pool), 20);
    assert_ok(sp_ledger_load_begin(b->ledger, c, &seg, 0));
    assert_ok(load_ends(b, c));
    sp_ledger_unpin(b->ledger, c);
    assert_true(has(b, &seg));
}

/* Uses by earlier processes are worth at least 1 each: a host that drops what has saved least keeps what has them. */
static void adopted_uses_are_worth_something(void **state)
{
    bench b = {.pool = small_pool(20)};
    assert_ok(sp_ledger_create(
        &(sp_ledger_opts){.pool = b.pool, .max_blocks = 20, .evict = "fr", .host_evict = "fr"}, &b.ledger));
    sp_segment often = numbered(0, 40), once = numbered(100, 40);
    sp_adopted a[] = {name_of(&often, SP_COPY_PLAIN), name_of(&once, SP_COPY_PLAIN)};
    a[0].n_uses = 9;
    a[1].n_uses = 1;
    for (int i = 0; i < 2; i++) assert_ok(sp_ledger_adopt(b.ledger, &a[i]));
    const sp_copy *c[] = {find_copy(&b, &often), find_copy(&b, &once)};
    for (int i = 0; i < 2; i++) {
        assert_true(c[i]->uses.worth == 1 + (float)a[i].n_uses);
        sp_ledger_placed(b.ledger, c[i], SP_AT_HOST);
        sp_ledger_unpin(b.ledger, c[i]);
    }
    assert_ptr_equal(sp_ledger_host_victim(b.ledger), c[1]);
    bench_end(&b);
}

/* -- adopted paths -------------------------------------------------------------------------- */

static const sp_copy *adopt_path(bench *b, const sp_segment *seg, const sp_copy *parent)
{
    assert_ok(sp_ledger_adopt_path(
        b->ledger, &(sp_adopted_path){.seg = seg,
                                      .parent = parent,
                                      .facts.at = parent ? parent->facts.at + parent->n : 0,
                                      .facts.exact = true,
                                      .place = SP_AT_DISK,
                                      .n_uses = 3}));
    sp_digest ids[2] = {seg->id, seg->id};
    if (parent) ids[0] = parent->facts.id;
    return sp_by_path_at(b->ledger, ids, parent ? 2 : 1);
}

static void adopted_paths_are_found(void **state)
{
    bench *b = *state;
    sp_segment segs[2] = {numbered(0, 40), numbered(100, 40)}, longer = numbered(0, 60);
    const sp_copy *found[2];
    const sp_copy *root = adopt_path(b, &segs[0], NULL), *child = adopt_path(b, &segs[1], root);
    assert_true(root && child && child->parent == root && root->children.first == child);
    assert_true(child->facts.at == 40 && child->uses.n == 3 && sp_copy_loadable(child));
    assert_ptr_equal(adopt_path(b, &segs[1], root), child); /* once */
    assert_int_equal(sp_ledger_stats_of(b->ledger).n_copies, 2);
    sp_by_path_peek(b->ledger, segs, 2, found);
    assert_true(found[0] == root && found[1] == child);
    assert_fails(sp_ledger_adopt_path(b->ledger, &(sp_adopted_path){.seg = &longer,
                                                                   .parent = root,
                                                                   .facts.at = 39,
                                                                   .facts.exact = true,
                                                                   .place = SP_AT_DISK}),
                 SP_E_FORMAT, "39");
    assert_fails(sp_ledger_adopt_path(b->ledger,
                                      &(sp_adopted_path){.seg = &longer, .place = SP_AT_DEVICE}),
                 SP_E_ARG, "adopted");
    sp_ledger_unplaced(b->ledger, root, SP_AT_DISK); /* and what continues it is gone, too */
    assert_int_equal(sp_ledger_stats_of(b->ledger).n_copies, 0);
}

/* Of which tenant an adopted root is, only computing it tells: until then its first tokens find nothing. */
static void an_adopted_root_learns_its_tenant(void **state)
{
    bench *b = *state;
    sp_segment seg = numbered(0, 40), grown = numbered(0, 60);
    adopt_path(b, &seg, NULL);
    sp_path_query q = {.segs = &grown, .n_segs = 1};
    const sp_copy *found[1];
    assert_null(sp_by_path_match(b->ledger, &q, ++b->now, found).partial);
    match m = find(b, &seg, 1);
    assert_true(m.n_path == 0 && extend(b, &m, &seg));
    assert_int_equal(m.path[0]->places, SP_AT_DISK | SP_AT_DEVICE);
    release(b, &m);
    m = find(b, &grown, 1);
    assert_int_equal(m.n_partial, 32);
    release(b, &m);
}

static void adopted_paths_are_bounded(void **state)
{
    bench *b = *state;
    enum { N = SP_LEDGER_MAX_FREE + 100 };
    sp_segment root = numbered(0, 40);
    const sp_copy *parent = adopt_path(b, &root, NULL);
    for (int i = 0; i < N; i++) {
        sp_segment seg = numbered(i + 1, 1);
        adopt_path(b, &seg, parent);
    }
    adopt(b, &root, SP_COPY_PLAIN);
    sp_ledger_stats s = sp_ledger_stats_of(b->ledger);
    assert_int_equal(s.n_free, SP_LEDGER_MAX_FREE);
    assert_ptr_equal(sp_by_path_at(b->ledger, &root.id, 1), parent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(adopted_copies_are_known_by_name),
        BENCH_TEST(a_copy_far_behind_costs_more),
        BENCH_TEST(a_load_makes_a_free_copy_ready),
        BENCH_TEST(a_load_is_no_computation),
        cmocka_unit_test(a_profile_believes_measured_times),
        BENCH_TEST(a_load_that_fails_leaves_a_miss),
        BENCH_TEST(a_copy_in_another_tier_stays_known),
        cmocka_unit_test(a_load_makes_room),
        cmocka_unit_test(a_load_without_room_is_refused),
        BENCH_TEST(an_evicted_copy_on_disk_stays_known),
        BENCH_TEST(a_pinned_copy_may_lose_its_place),
        BENCH_TEST(what_is_computed_makes_a_free_copy_ready),
        BENCH_TEST(a_copy_may_be_computed_while_it_is_loaded),
        BENCH_TEST(a_name_is_that_of_the_ready_copy),
        BENCH_TEST(what_no_tier_keeps_is_gone),
        BENCH_TEST(an_adopted_copy_is_free),
        BENCH_TEST(an_adopted_copy_has_the_cost_that_a_tier_knows),
        BENCH_TEST(an_adopted_copy_has_the_uses_that_a_tier_knows),
        BENCH_TEST(free_copies_are_bounded),
        BENCH_TEST(a_measured_copy_keeps_the_place_of_the_other),
        BENCH_TEST(a_ready_copy_serves_before_a_newer_free_one),
        BENCH_TEST(a_placed_copy_forgets_the_tiers),
        BENCH_TEST(a_fused_copy_in_a_tier_is_replaced),
        BENCH_TEST(a_load_without_memory_changes_nothing),
        cmocka_unit_test(adopted_uses_are_worth_something),
        BENCH_TEST(adopted_paths_are_found),
        BENCH_TEST(an_adopted_root_learns_its_tenant),
        BENCH_TEST(adopted_paths_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
