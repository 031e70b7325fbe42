/* test_ledger_replay.c -- random lives with loads that take time, tiers that lose copies, paths and
 * chunks. After each step the invariants of ledger.h hold; and since time is a parameter, the same
 * life twice leaves the same copies. */
#include "support/copy_bench.h"
#include "support/path_bench.h"

enum { BLOCKS = 40, HOST = 12, BUDGET = 32, MOST_PLACED = 4, N_SEGS = 12, HELD = 10, STEPS = 6000, VARIANTS = 3 };

typedef struct life {
    bench b;
    uint64_t seed;
    const sp_copy *held[HELD];
    int n_held;
    const sp_copy *loading[HELD];
    int n_loading;
    int n_host;
    int n_loaded, n_failed, n_no_room, n_freed; /* how often the interesting cases came up */
    int n_placed_loading, most_variants;
    int n_paths_loaded, n_orphans, n_useless, n_left;
} life;

static int random_below(life *l, int n)
{
    return check_random(&l->seed, n);
}

static sp_segment random_seg(life *l)
{
    int i = random_below(l, N_SEGS);
    return numbered(1000 * (i / 2), 10 + i * 9 % 70);
}

/* -- a host tier that holds HOST copies ------------------------------------------------------- */

static void useless(void *user, const sp_copy *c, unsigned places)
{
    life *l = user;
    assert_int_equal(places & ~(unsigned)(SP_AT_HOST | SP_AT_DISK), 0);
    l->n_useless++;
}

static int n_in_host(const life *l)
{
    int n = 0;
    for (const sp_copy *c = NULL; (c = sp_ledger_next(l->b.ledger, c));)
        n += (c->places & SP_AT_HOST) != 0;
    return n;
}

/* leaving -- to the host, now and then. */
static void leaving(void *user, const sp_copy *c)
{
    life *l = user;
    l->n_left++;
    assert_int_equal(c->state, SP_COPY_READY);
    if (c->places & SP_AT_HOST || random_below(l, 4) == 0) return;
    while (n_in_host(l) >= HOST) {
        const sp_copy *victim = sp_ledger_host_victim(l->b.ledger);
        if (!victim) return;
        assert_ptr_not_equal(victim, c);
        sp_ledger_unplaced(l->b.ledger, victim, SP_AT_HOST);
    }
    sp_ledger_placed(l->b.ledger, c, SP_AT_HOST);
}

/* -- steps ---------------------------------------------------------------------------------- */

static void hold(life *l, const sp_copy *c)
{
    if (!c) return;
    if (l->n_held < HELD)
        l->held[l->n_held++] = c;
    else
        sp_ledger_unpin(l->b.ledger, c);
}

static void let_go(life *l)
{
    if (!l->n_held) return;
    int k = random_below(l, l->n_held);
    sp_ledger_unpin(l->b.ledger, l->held[k]);
    l->held[k] = l->held[--l->n_held];
}

static void random_add(life *l)
{
    static const int32_t patch[] = {1, 2, 5};
    static float inter[4];
    static int32_t order[MAX_BLOCKS * B];
    static const sp_copy_stats stats = {inter, 0.75f, order};
    sp_segment seg = random_seg(l);
    int what = random_below(l, 4);
    sp_copy_spec spec = computed_after(SP_COPY_PLAIN, 1);
    if (what == 1 || what == 2) {
        spec.facts.kind = what == 1 ? SP_COPY_FUSED : SP_COPY_PLACED;
        spec.facts.n_before = 2 + random_below(l, 3);
    }
    if (random_below(l, 2)) spec.facts.stats = stats;
    for (int i = 0; what == 3 && i < l->n_held && !spec.base; i++) {
        const sp_copy *c = l->held[i];
        if (c->facts.kind == SP_COPY_PATH || c->state != SP_COPY_READY || c->base) continue;
        seg = (sp_segment){.tokens = c->tokens, .n = c->n, .id = c->facts.id};
        spec.facts.kind = SP_COPY_PLACED;
        spec.base = c;
        spec.patch.n = 3;
        spec.patch.tokens = patch;
    }
    enter(&l->b, &seg, spec);
}

/* load_path -- begins to load what of a path is in lower tiers; false: nothing of it is. */
static bool load_path(life *l, const sp_segment *segs)
{
    const sp_copy *path[3];
    const sp_path_query q = {.segs = segs, .n_segs = 3};
    bool any = false;
    sp_path_match m = sp_by_path_match(l->b.ledger, &q, ++l->b.now, path);
    for (int i = 0; i < m.n; i++) {
        any |= path[i]->state != SP_COPY_READY;
        if (path[i]->state != SP_COPY_FREE || l->n_loading == HELD) continue;
        sp_err err = sp_ledger_load_begin(l->b.ledger, path[i], NULL, 0);
        if (err == SP_OK) l->loading[l->n_loading++] = path[i];
        if (err != SP_OK) assert_int_equal(err, SP_E_NOKV);
    }
    for (int i = 0; i < m.n; i++) sp_ledger_unpin(l->b.ledger, path[i]);
    if (m.partial) sp_ledger_unpin(l->b.ledger, m.partial);
    return any;
}

static void random_path(life *l)
{
    sp_segment segs[3];
    for (int i = 0; i < 3; i++) segs[i] = random_seg(l);
    if (load_path(l, segs)) return;
    match m = find(&l->b, segs, 3);
    for (int i = m.n_path; i < 3 && extend(&l->b, &m, &segs[i]); i++) {
    }
    if (m.n_path && random_below(l, 4) == 0) {
        sp_ledger_pin(l->b.ledger, tip_of(&m));
        hold(l, tip_of(&m));
    }
    release(&l->b, &m);
}

static void load(life *l, const sp_copy *c, const sp_segment *seg)
{
    sp_err err = sp_ledger_load_begin(l->b.ledger, c, seg, random_below(l, 12));
    if (err == SP_OK) l->loading[l->n_loading++] = c;
    if (err != SP_OK) assert_int_equal(err, SP_E_NOKV);
    l->n_no_room += err != SP_OK;
}

/* random_choice -- one of the measured copies of a chunk, wherever they are. */
static void random_choice(life *l)
{
    sp_segment seg = random_seg(l);
    const sp_content_query q = {.seg = &seg, .head = before, .n_head = 1};
    const sp_copy **all;
    sp_arena arena = {0};
    int n;
    assert_ok(sp_by_content_all(l->b.ledger, &q, &arena, &all, &n));
    const int chosen = n ? random_below(l, n) : -1;
    for (int k = 0; k < n; k++) {
        if (k != chosen) {
            sp_ledger_unpin(l->b.ledger, all[k]);
            continue;
        }
        if (all[k]->state == SP_COPY_FREE && l->n_loading < HELD) load(l, all[k], &seg);
        l->n_placed_loading += all[k]->state == SP_COPY_LOADING && all[k]->facts.kind == SP_COPY_PLACED;
        hold(l, all[k]);
    }
    sp_arena_fini(&arena);
}

static void random_find(life *l)
{
    if (random_below(l, 3) == 0) {
        random_choice(l);
        return;
    }
    sp_segment seg = random_seg(l);
    bool fused = random_below(l, 2);
    const sp_copy *c = fused ? find_fused(&l->b, &seg, before) : find_copy(&l->b, &seg);
    if (c && c->state == SP_COPY_FREE && l->n_loading < HELD) load(l, c, &seg);
    if (c && random_below(l, 2)) sp_ledger_use(l->b.ledger, c, 0.25f, l->b.now);
    hold(l, c);
}

static void end_load(life *l)
{
    if (!l->n_loading) return;
    int k = random_below(l, l->n_loading);
    const sp_copy *c = l->loading[k];
    sp_copy_facts loaded = {
        .before = before, .n_before = c->facts.kind == SP_COPY_FUSED ? 2 : 1, .at = 3};
    if (sp_copy_is_measured(&c->facts)) loaded = c->facts;
    bool works = random_below(l, 3) > 0, path = c->facts.kind == SP_COPY_PATH;
    if (c->parent && c->parent->state == SP_COPY_LOADING) return;
    sp_place from = c->places & SP_AT_HOST ? SP_AT_HOST : SP_AT_DISK;
    bool orphan = works && c->parent && c->parent->state == SP_COPY_FREE;
    assert_int_equal(
        sp_ledger_load_end(l->b.ledger, c, works ? &loaded : NULL, from, l->b.now),
        orphan ? SP_E_NOTFOUND : SP_OK);
    l->loading[k] = l->loading[--l->n_loading];
    l->n_orphans += orphan;
    l->n_paths_loaded += works && path && !orphan;
    l->n_loaded += works && !path;
    l->n_failed += !works;
}

/* random_tier -- a tier writes or loses some copy, or has one of its own. */
static void random_tier(life *l)
{
    sp_segment seg = random_seg(l);
    sp_place place = random_below(l, 3) ? SP_AT_DISK : SP_AT_HOST;
    int what = random_below(l, 3), skip = random_below(l, 8);
    const sp_copy *c = NULL;
    if (what == 0) {
        sp_adopted a = {.facts.id = seg.id,
                        .facts.kind = random_below(l, 2) ? SP_COPY_PLAIN : SP_COPY_FUSED,
                        .facts.head = sp_head_key(before, 1),
                        .place = place};
        assert_ok(sp_ledger_adopt(l->b.ledger, &a));
        return;
    }
    do c = sp_ledger_next(l->b.ledger, c);
    while (c && skip-- > 0);
    if (!c) return;
    if (what == 1 &&
        (c->facts.kind != SP_COPY_PATH || (c->state == SP_COPY_READY && place == SP_AT_HOST)))
        sp_ledger_placed(l->b.ledger, c, place);
    else if (what == 2 && c->state != SP_COPY_LOADING)
        sp_ledger_unplaced(l->b.ledger, c, place);
}

static void step(life *l)
{
    int what = random_below(l, 100);
    if (what < 25)
        random_add(l);
    else if (what < 35)
        random_path(l);
    else if (what < 60)
        random_find(l);
    else if (what < 70)
        end_load(l);
    else if (what < 80)
        random_tier(l);
    else if (what < 98)
        let_go(l);
    else if (what < 99)
        sp_ledger_free_up(l->b.ledger, random_below(l, BLOCKS));
    else if (random_below(l, 4) == 0)
        sp_ledger_clear(l->b.ledger);
    else
        sp_ledger_lose_device(l->b.ledger);
}

/* -- invariants ----------------------------------------------------------------------------- */

static int pins_by_test(const life *l, const sp_copy *c)
{
    int n = 0;
    for (int i = 0; i < l->n_held; i++) n += l->held[i] == c;
    for (int i = 0; i < l->n_loading; i++) n += l->loading[i] == c;
    return n;
}

static void check_copy(const life *l, const sp_copy *c)
{
    const uint32_t *blocks = c->base ? c->patch.blocks : c->blocks;
    int n_pins = pins_by_test(l, c), n_children = 0;
    for (const sp_copy *o = NULL; (o = sp_ledger_next(l->b.ledger, o));) {
        n_pins += o->base == c;
        n_children += o->parent == c && o->state != SP_COPY_FREE;
    }
    assert_int_equal(c->n_pins, n_pins);
    assert_int_equal(c->children.n, n_children);
    assert_int_equal(c->host != NULL, (c->places & SP_AT_HOST) != 0);
    if (c->facts.kind == SP_COPY_PATH) assert_true(c->facts.exact); /* I2 */
    if (c->parent && c->state == SP_COPY_READY) assert_int_equal(c->parent->state, SP_COPY_READY);
    if (c->parent && c->places) assert_true(c->parent->places || c->parent->state); /* I7 */
    if (c->state == SP_COPY_FREE) {                                                /* I6 */
        assert_true(c->places || c->n_pins || c->children.first);
        assert_false(c->places & SP_AT_DEVICE || c->blocks || c->base);
        assert_int_equal(c->tokens != NULL, c->facts.kind == SP_COPY_PATH);
        if (c->facts.kind == SP_COPY_PLACED && c->places) assert_true(sp_copy_is_measured(&c->facts));
        return;
    }
    for (int32_t i = 0; i < sp_copy_n_own_blocks(c); i++) { /* I1 */
        assert_int_equal(sp_kv_is_sealed(l->b.pool, blocks[i]), c->state == SP_COPY_READY);
        assert_int_equal(sp_kv_refs(l->b.pool, blocks[i]), 1);
    }
}

static int n_variants_of(const life *l, const sp_copy *c)
{
    int n = 0;
    for (const sp_copy *o = NULL; (o = sp_ledger_next(l->b.ledger, o));)
        n += o->facts.kind == SP_COPY_PLACED && sp_digest_eq(&o->facts.id, &c->facts.id);
    return n;
}

static void check_all(life *l)
{
    sp_ledger_stats got = stats_of(&l->b);
    int64_t n = 0, n_free = 0, n_placed = 0, n_blocks = 0;
    for (const sp_copy *c = NULL; (c = sp_ledger_next(l->b.ledger, c)); n++) {
        check_copy(l, c);
        l->most_variants = SP_MAX(l->most_variants, n_variants_of(l, c));
        n_free += c->state == SP_COPY_FREE;
        n_placed += c->facts.kind == SP_COPY_PLACED && c->state != SP_COPY_FREE;
        n_blocks += c->state == SP_COPY_FREE ? 0 : sp_copy_n_own_blocks(c);
    }
    assert_int_equal(got.n_copies, n);
    assert_int_equal(got.n_free, n_free);
    assert_int_equal(got.n_placed, n_placed);
    assert_int_equal(got.n_blocks, n_blocks);
    assert_in_range(n_blocks, 0, BUDGET);      /* I4 */
    assert_in_range(n_placed, 0, MOST_PLACED); /* I5 */
    assert_int_equal(sp_kv_pool_n_free(l->b.pool), BLOCKS - n_blocks);
    l->n_freed += n_free > 0;
}

/* -- lives ---------------------------------------------------------------------------------- */

static void live(life *l, uint64_t seed)
{
    *l = (life){.seed = seed};
    l->b.pool = small_pool(BLOCKS);
    const sp_ledger_opts o = {
        .pool = l->b.pool, .max_blocks = BUDGET, .max_placed = MOST_PLACED, .max_variants = VARIANTS};
    assert_ok(sp_ledger_create(&o, &l->b.ledger));
    sp_ledger_set_tiers(l->b.ledger,
                        &(sp_ledger_tiers){.leaving = leaving, .useless = useless, .user = l});
    for (int i = 0; i < STEPS; i++) {
        step(l);
        check_all(l);
    }
}

static void end(life *l)
{
    while (l->n_held) let_go(l);
    while (l->n_loading) end_load(l);
    bench_end(&l->b);
}

static void assert_same(const life *one, const life *two)
{
    sp_ledger_stats a = stats_of(&one->b), b = stats_of(&two->b);
    assert_memory_equal(&a, &b, sizeof a);
    const sp_copy *x = NULL, *y = NULL;
    while ((x = sp_ledger_next(one->b.ledger, x))) {
        y = sp_ledger_next(two->b.ledger, y);
        assert_non_null(y);
        assert_true(sp_digest_eq(&x->facts.id, &y->facts.id) && x->facts.kind == y->facts.kind &&
                    x->state == y->state);
        assert_true(x->places == y->places && x->n_pins == y->n_pins && x->uses.n == y->uses.n);
        assert_true(x->uses.worth == y->uses.worth && x->facts.n_before == y->facts.n_before && x->n == y->n);
        assert_int_equal(x->uses.last, y->uses.last);
    }
}

static void the_same_life_twice_is_the_same(void **state)
{
    static life one, two;
    int n_orphans = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        live(&one, seed);
        live(&two, seed);
        assert_same(&one, &two);
        assert_true(one.n_loaded > 50 && one.n_failed > 20 && one.n_no_room > 0);
        assert_true(one.n_paths_loaded > 20 && one.n_useless > 20);
        assert_true(one.n_left > 50);
        assert_true(one.n_placed_loading > 20);
        assert_int_equal(one.most_variants, VARIANTS);
        assert_true(one.n_freed > STEPS / 4 && stats_of(&one.b).n_evicted > STEPS / 20);
        end(&one);
        end(&two);
        n_orphans += one.n_orphans;
    }
    assert_true(n_orphans > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_life_twice_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
