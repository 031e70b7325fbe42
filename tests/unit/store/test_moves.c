/* test_moves.c -- chunk copies on disk, by the road that contexts take: what was put comes back, and nothing else
 * ever does. */
#include "store/disk/folder.h"
#include "store/disk/others.h"
#include "store/sweep.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* -- what was put comes back ----------------------------------------------------------------- */

static void a_move_round_trips(void **state)
{
    static const int32_t sizes[] = {1, 15, 16, 17, 64, 100};
    for (size_t t = 0; t < SP_COUNT(kv_types); t++) {
        bench b;
        bench_begin(&b, kv_types[t]);
        for (size_t i = 0; i < SP_COUNT(sizes); i++) {
            chunk c;
            chunk_begin(&b, &c, 1000 * (int)i, sizes[i]);
            assert_false(loads_as(&b, &c, SP_COPY_PLAIN, 1));
            assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
            assert_true(loads_as(&b, &c, SP_COPY_PLAIN, 1));
            store_reopen(&b);
            assert_true(finds(&b, &c, SP_COPY_PLAIN));
            assert_true(loads_as(&b, &c, SP_COPY_PLAIN, 1));
            chunk_end(&b, &c);
        }
        assert_int_equal(n_copies(&b), SP_COUNT(sizes));
        bench_end(&b);
    }
}

static size_t eight_bytes(void *user, int32_t n)
{
    return 8;
}

static bool has_all(void *user, const uint32_t *blocks, int32_t n)
{
    return true;
}

/* They are of whole blocks as they are on the device: not of a copy that begins inside one or has a patch. */
static void notes_are_of_whole_blocks(void **state)
{
    static const sp_kv_notes notes = {.bytes = eight_bytes, .has = has_all};
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 40);
    sp_kv_pool_set_notes(b.pool, &notes);
    const sp_move whole = {.pool = b.pool, .space = &space, .seg = c.seg, .blocks = c.blocks};
    sp_move inside = whole, patched = whole;
    inside.slot = 3;
    inside.seg.n = 30;
    patched.patch.blocks = c.blocks;
    const struct {
        const sp_move *move;
        uint64_t note_bytes;
    } cases[] = {{&whole, 8}, {&inside, 0}, {&patched, 0}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_record r = {0};
        sp_move_record(cases[i].move, &r);
        assert_int_equal(r.facts.note_bytes, cases[i].note_bytes);
    }
    sp_kv_pool_set_notes(b.pool, NULL);
    chunk_end(&b, &c);
    bench_end(&b);
}

static void scattered_blocks_are_moved(void **state)
{
    bench b;
    chunk c, gap;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &gap, 0, 16);
    chunk_begin(&b, &c, 100, 80);
    uint32_t swap = c.blocks[0]; /* not neighbours, and not ascending */
    c.blocks[0] = c.blocks[3];
    c.blocks[3] = swap;
    assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
    assert_true(loads_as(&b, &c, SP_COPY_PLAIN, 1));
    chunk_end(&b, &c);
    chunk_end(&b, &gap);
    bench_end(&b);
}

static void plain_and_fused_live_side_by_side(void **state)
{
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 40);
    assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
    assert_false(loads_as(&b, &c, SP_COPY_FUSED, 3));
    chunk fused;
    chunk_begin(&b, &fused, 0, 40); /* the same tokens, other KV */
    assert_ok(put(&b, &fused, SP_COPY_FUSED, 3));
    assert_true(loads_as(&b, &c, SP_COPY_PLAIN, 1));
    assert_true(loads_as(&b, &fused, SP_COPY_FUSED, 3));
    chunk_end(&b, &c);
    chunk_end(&b, &fused);
    bench_end(&b);
}

static sp_err has_facts(void *user, const sp_tier_info *info)
{
    unsigned *facts = user;
    assert_true(info->cost_us == 1234.5f);
    *facts = info->facts;
    return SP_OK;
}

/* What was measured of a copy is with it after a restart, and the index tells of it. */
static void what_was_measured_comes_back(void **state)
{
    bench b;
    chunk c;
    sp_move m;
    uint32_t blocks[BLOCKS];
    const float inter[] = {0.5f, 0.25f};
    int32_t order[40], heavy[40];
    unsigned facts = 0;
    for (int32_t i = 0; i < 40; i++) order[i] = 39 - i, heavy[i] = i * 7 % 40;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 40);
    const copy_name key = key_of(&c, SP_COPY_PLAIN);
    const sp_record full = {.facts.before = before,
                            .facts.n_before = 2,
                            .facts.at = 9,
                            .facts.exact = true,
                            .facts.stats.cci = 0.75f,
                            .facts.stats.inter = inter,
                            .facts.stats.order = order,
                            .facts.heavy = heavy,
                            .facts.cost_us = 1234.5f};
    assert_ok(put_as(&b, &key, full, c.blocks));
    store_reopen(&b);
    assert_ok(sp_tier_run(b.tier, &(sp_tier_job){
                                      .verb = SP_TIER_LIST, .each = has_facts, .user = &facts}));
    assert_int_equal(facts, SP_FACT_EXACT | SP_FACT_STATS | SP_FACT_HEAVY);
    assert_ok(get_as(&b, &key, blocks, &m));
    assert_true(m.said.facts.exact && m.said.facts.stats.cci == 0.75f &&
                m.said.facts.cost_us == 1234.5f && m.said.facts.at == 9);
    assert_memory_equal(m.said.facts.stats.inter, inter, sizeof inter);
    assert_memory_equal(m.said.facts.stats.order, order, sizeof order);
    assert_memory_equal(m.said.facts.heavy, heavy, sizeof heavy);
    sp_kv_release(b.pool, blocks, 3);
    sp_move_fini(&m);
    assert_ok(put_as(&b, &key, (sp_record){.facts.before = before, .facts.n_before = 1}, c.blocks));
    assert_ok(get_as(&b, &key, blocks, &m));
    assert_true(!m.said.facts.exact && !m.said.facts.stats.inter && !m.said.facts.stats.order &&
                !m.said.facts.heavy && m.said.facts.cost_us == 0);
    sp_kv_release(b.pool, blocks, 3);
    sp_move_fini(&m);
    chunk_end(&b, &c);
    bench_end(&b);
}

static int64_t bytes_in(const char *dir, const sp_digest *in)
{
    int64_t budget = 0;
    assert_ok(sp_folder_budget(dir, in, (int64_t)1 << 40, &budget));
    return ((int64_t)1 << 40) - budget;
}

/* The budget is the folder's: what another namespace has in it is not there for this one. */
static void the_budget_is_the_folders(void **state)
{
    bench b;
    chunk c;
    sp_folder_space disk, below;
    int64_t budget = 0;
    char deep[160];
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 40);
    assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
    const int64_t own = bytes_in(b.dir, &other_space);
    assert_true(own > 0 && bytes_in(b.dir, &space) == 0);
    assert_ok(sp_folder_budget(b.dir, &other_space, own + 5, &budget));
    assert_int_equal(budget, 5);
    assert_fails(sp_folder_budget(b.dir, &other_space, own, &budget), SP_E_LIMIT, b.dir);
    assert_ok(sp_folder_space_of(b.dir, &disk));
    assert_true(disk.total >= disk.free && disk.reserve <= (int64_t)1 << 30);
    assert_ok(sp_folder_budget(b.dir, &space, 0, &budget));
    assert_true(budget > own && budget < own + disk.total);
    snprintf(deep, sizeof deep, "%s/not/there", b.dir);
    assert_ok(sp_folder_space_of(deep, &below));
    assert_int_equal(below.total, disk.total);
    chunk_end(&b, &c);
    bench_end(&b);
}

static void a_newer_copy_takes_the_place(void **state)
{
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 40);
    assert_ok(put(&b, &c, SP_COPY_FUSED, 2));
    fill_noise(&b, c.blocks, sp_blocks_for(40));
    assert_ok(put(&b, &c, SP_COPY_FUSED, 4));
    assert_true(loads_as(&b, &c, SP_COPY_FUSED, 4));
    assert_int_equal(n_copies(&b), 1);
    chunk_end(&b, &c);
    bench_end(&b);
}

static void each_head_has_its_copy(void **state)
{
    bench b;
    chunk c;
    sp_move m;
    uint32_t blocks[BLOCKS];
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    const copy_name key = {.seg = &c.seg, .head = before, .n_head = 2}, without = {.seg = &c.seg};
    assert_ok(put_as(&b, &key,
                     (sp_record){.facts.before = before, .facts.n_before = 2, .facts.at = 9},
                     c.blocks));
    assert_false(finds(&b, &c, SP_COPY_PLAIN)); /* after a head of one segment */
    assert_ok(get_as(&b, &key, blocks, &m));
    assert_int_equal(m.said.facts.at, 9);
    sp_kv_release(b.pool, blocks, 2);
    sp_move_fini(&m);
    assert_false(has(&b, &without));
    assert_ok(put_as(&b, &without, (sp_record){0}, c.blocks));
    assert_ok(get_as(&b, &without, blocks, &m));
    assert_int_equal(m.said.facts.n_before, 0);
    sp_kv_release(b.pool, blocks, 2);
    sp_move_fini(&m);
    assert_fails(
        put_as(&b, &key, (sp_record){.facts.before = before + 1, .facts.n_before = 2}, c.blocks),
        SP_E_ARG, "head");
    assert_fails(
        put_as(&b, &key, (sp_record){.facts.before = before, .facts.n_before = 1}, c.blocks),
        SP_E_ARG, "head");
    chunk_end(&b, &c);
    bench_end(&b);
}

static void removed_copies_are_gone(void **state)
{
    bench b;
    chunk c[6];
    bench_begin(&b, SP_Q8_0);
    for (int i = 0; i < 6; i++) {
        chunk_begin(&b, &c[i], 100 * i, 20);
        assert_ok(put(&b, &c[i], SP_COPY_PLAIN, 1));
        assert_ok(put(&b, &c[i], SP_COPY_FUSED, 2));
    }
    const copy_name gone = key_of(&c[0], SP_COPY_FUSED);
    assert_ok(remove_copy(&b, &gone));
    assert_ok(remove_copy(&b, &gone));
    assert_false(has(&b, &gone));
    assert_true(finds(&b, &c[0], SP_COPY_PLAIN));
    assert_int_equal(n_copies(&b), 11);
    chunk_end(&b, &c[0]);
    for (int i = 1; i < 6; i++) chunk_end(&b, &c[i]);
    bench_end(&b);
}

/* retain -- the copies of these chunks alone. */
static int64_t retain(bench *b, const chunk *chunks, int n)
{
    sp_digest ids[32];
    int64_t n_gone = -1;
    for (int i = 0; i < n; i++) ids[i] = chunks[i].seg.id;
    sp_digests_sort(ids, (size_t)n);
    assert_ok(sp_sweep_run(
        b->tier, &(sp_sweep_opts){.ids = ids, .n = (size_t)n, .keep = true, .after = 1u << SP_COPY_PATH},
        &n_gone));
    return n_gone;
}

static void retain_deletes_what_is_not_wanted(void **state)
{
    enum { N = 90 }; /* the set of names doubles once */
    static chunk c[N];
    bench b;
    bench_begin(&b, SP_F16);
    for (int i = 0; i < N; i++) {
        chunk_begin(&b, &c[i], 100 * i, 20);
        assert_ok(put(&b, &c[i], i % 2 ? SP_COPY_FUSED : SP_COPY_PLAIN, 1));
        chunk_end(&b, &c[i]);
    }
    assert_int_equal(retain(&b, c, 30), N - 30);
    assert_int_equal(n_copies(&b), 30);
    for (int i = 0; i < N; i++)
        assert_int_equal(finds(&b, &c[i], i % 2 ? SP_COPY_FUSED : SP_COPY_PLAIN), i < 30);
    assert_int_equal(retain(&b, c, 30), 0);
    bench_end(&b);
}

/* -- what other namespaces have --------------------------------------------------------------- */

/* put_in -- into a namespace of the same folder, behind a head, of one tenant. */
static void put_in(bench *b, const sp_digest *in, const char *salt, const chunk *c,
                   const chunk *head, sp_copy_kind kind)
{
    sp_tier *t = b->tier; /* the writer of its namespace */
    sp_segment seg = c->seg;
    sp_digest ids[1];
    assert_ok(sp_segment_id(in, salt, head->seg.tokens, head->seg.n, &ids[0]));
    assert_ok(sp_segment_id(in, salt, seg.tokens, seg.n, &seg.id));
    if (!sp_digest_eq(in, &space)) assert_ok(store_tier(b->dir, in, &t));
    const copy_name key = {.kind = kind, .seg = &seg, .head = ids, .n_head = 1};
    sp_move m = move_of(b->pool, in, &key, c->blocks);
    assert_ok(put_in_tier(t, &m, (sp_record){.facts.before = ids, .facts.n_before = 1}));
    if (t != b->tier) sp_tier_close(t);
}

/* drop_in -- what put_in has put. */
static void drop_in(bench *b, const sp_digest *in, const chunk *c, const chunk *head, sp_copy_kind kind)
{
    sp_tier *t;
    sp_digest id, first;
    assert_ok(sp_segment_id(in, NULL, head->seg.tokens, head->seg.n, &first));
    assert_ok(sp_segment_id(in, NULL, c->seg.tokens, c->seg.n, &id));
    assert_ok(store_tier(b->dir, in, &t));
    const sp_tier_key key = {.id = id, .head = sp_head_key(&first, 1), .kind = kind};
    assert_true(sp_tier_knows(t, &key));
    assert_ok(sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_DROP, .key = key}));
    sp_tier_close(t);
}

/* elsewhere -- whether the folder had it for another model when `o` was opened. */
static bool elsewhere(const sp_others *o, const chunk *c, const chunk *head, const char *salt)
{
    return sp_others_have(o, &(sp_others_query){.seg = &c->seg,
                                                .head = &head->seg,
                                                .n_head = 1,
                                                .salt = salt,
                                                .n_kinds = SP_COPY_FUSED + 1});
}

static void a_copy_of_another_model_is_recognised(void **state)
{
    static const sp_digest third = {{0x5c, 1}};
    bench b;
    chunk head, plain, fused, mine, theirs;
    sp_others *early, *o;
    bench_begin(&b, SP_F16);
    assert_ok(sp_others_open(b.dir, &space, &early));
    chunk_tokens(&head, 900, 10);
    chunk_begin(&b, &plain, 0, 20);
    chunk_begin(&b, &fused, 100, 40);
    chunk_begin(&b, &mine, 200, 20);
    chunk_begin(&b, &theirs, 300, 20);
    put_in(&b, &other_space, NULL, &plain, &head, SP_COPY_PLAIN);
    put_in(&b, &third, NULL, &fused, &head, SP_COPY_FUSED);
    put_in(&b, &space, NULL, &mine, &head, SP_COPY_PLAIN);
    put_in(&b, &third, "them", &theirs, &head, SP_COPY_PLAIN);
    assert_false(elsewhere(early, &plain, &head, NULL)); /* opened before there was any */
    sp_others_close(early);
    assert_ok(sp_others_open(b.dir, &space, &o));
    assert_true(elsewhere(o, &plain, &head, NULL));
    assert_true(elsewhere(o, &fused, &head, NULL));
    assert_false(elsewhere(o, &mine, &head, NULL)); /* this model's */
    /* another tenant's, whoever asks */
    assert_false(elsewhere(o, &theirs, &head, NULL));
    assert_false(elsewhere(o, &theirs, &head, "us"));
    assert_false(elsewhere(o, &plain, &head, "us"));
    assert_true(elsewhere(o, &theirs, &head, "them"));
    /* another head, another text */
    assert_false(elsewhere(o, &plain, &plain, NULL));
    assert_false(elsewhere(o, &head, &head, NULL));
    sp_others_close(o);
    drop_in(&b, &other_space, &plain, &head, SP_COPY_PLAIN);
    assert_ok(sp_others_open(b.dir, &space, &o));
    assert_false(elsewhere(o, &plain, &head, NULL));
    assert_true(elsewhere(o, &fused, &head, NULL));
    sp_others_close(o);
    chunk_end(&b, &plain);
    chunk_end(&b, &fused);
    chunk_end(&b, &mine);
    chunk_end(&b, &theirs);
    bench_end(&b);
}

/* Keys and values go through copies: the host never touches the pool's memory, in runs of blocks
 * nor in single ones. */
static void moves_work_on_a_far_device(void **state)
{
    for (size_t k = 0; k < SP_COUNT(kv_types); k++) {
        sp_device *d = NULL;
        bench b;
        chunk c;
        uint32_t odd[BLOCKS];
        assert_ok(far_device_open(&(sp_device_opts){.kernels = "ref", .n_threads = 1}, &d));
        bench_begin_with(&b, store_pool_on(d, kv_types[k], LAYERS));
        chunk_begin(&b, &c, 0, MAX_CHUNK);
        assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
        assert_true(loads_as(&b, &c, SP_COPY_PLAIN, 1));
        chunk_end(&b, &c);
        assert_ok(sp_kv_acquire(b.pool, BLOCKS, odd)); /* leaves every second block */
        for (int i = 0; i < BLOCKS; i += 2) sp_kv_release(b.pool, &odd[i], 1);
        chunk_begin(&b, &c, 7, 5 * SP_BLOCK_TOKENS);
        assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
        assert_true(loads_as(&b, &c, SP_COPY_PLAIN, 1));
        for (int i = 1; i < BLOCKS; i += 2) sp_kv_release(b.pool, &odd[i], 1);
        chunk_end(&b, &c);
        bench_end(&b);
    }
}

/* Nobody waits for a device that is lost: its blocks are given up at once. */
static void a_copy_that_cannot_be_read_is_given_up(void **state)
{
    sp_device *d = NULL;
    bench b;
    chunk c;
    sp_record r = {.facts.before = before, .facts.n_before = 1};
    assert_ok(far_device_open(&(sp_device_opts){.kernels = "ref", .n_threads = 1}, &d));
    bench_begin_with(&b, store_pool_on(d, SP_F16, LAYERS));
    chunk_begin(&b, &c, 0, 20);
    const copy_name key = key_of(&c, SP_COPY_PLAIN);
    sp_move m = move_of(b.pool, &space, &key, c.blocks);
    sp_move_record(&m, &r);
    far_lose(d);
    assert_ok(sp_move_put(&m, b.tier, &r, false, NULL));
    assert_int_equal(finish(m.op), SP_E_IO);
    assert_true(sp_move_cut(&m));
    far_found(d);
    sp_move_fini(&m);
    assert_false(finds(&b, &c, SP_COPY_PLAIN));
    chunk_end(&b, &c);
    bench_end(&b);
}

/* Its key is a hash: what comes back is compared with what was asked for. */
static void other_tokens_are_refused(void **state)
{
    bench b;
    chunk c, d;
    sp_move m;
    uint32_t blocks[BLOCKS];
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    chunk_tokens(&d, 0, 20);
    assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
    d.tokens[19]++; /* and the id of the others */
    const copy_name key = key_of(&d, SP_COPY_PLAIN);
    assert_fails(get_as(&b, &key, blocks, &m), SP_E_UNSUPPORTED, "other tokens");
    assert_int_equal(m.n_there, -1);
    sp_kv_release(b.pool, blocks, 2);
    sp_move_fini(&m);
    chunk_end(&b, &c);
    bench_end(&b);
}

/* Two heads with one hash: the store finds the copy of the other one. */
static void another_head_of_the_same_key_is_refused(void **state)
{
    static const sp_digest heads[] = {
        {{0x13, 0x0a, 0xe2, 0xc4, 0x57, 0x37, 0x98, 0x16}},
        {{0x38, 0xd8, 0x89, 0x46, 0x93, 0xcb, 0x23, 0x87}}};
    bench b;
    chunk c;
    sp_move m;
    uint32_t blocks[BLOCKS];
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    assert_int_equal(sp_head_key(&heads[0], 1), sp_head_key(&heads[1], 1));
    const copy_name one = {.seg = &c.seg, .head = &heads[0], .n_head = 1};
    const copy_name other = {.seg = &c.seg, .head = &heads[1], .n_head = 1};
    assert_ok(put_as(&b, &one, (sp_record){.facts.before = heads, .facts.n_before = 1}, c.blocks));
    assert_true(finds_as(&b, &one) && has(&b, &other));
    assert_fails(get_as(&b, &other, blocks, &m), SP_E_UNSUPPORTED, "than its key");
    sp_kv_release(b.pool, blocks, 2);
    sp_move_fini(&m);
    chunk_end(&b, &c);
    bench_end(&b);
}

static _Atomic int rest_ended; /* 1 + the result, negated */

static void end_rest(void *move, sp_tier_op *op)
{
    SP_UNUSED(move);
    atomic_store(&rest_ended, 1 - sp_tier_op_result(op));
}

/* get_rest -- the layers after the first one, in the same move: as parts of at most n layers; 0: in one. */
static sp_err get_rest(const bench *b, sp_move *m, int n)
{
    atomic_store(&rest_ended, 0);
    m->first = 1;
    m->n = n;
    assert_ok(sp_move_get(m, b->tier, end_rest));
    while (!atomic_load(&rest_ended)) usleep(1000);
    return 1 - atomic_load(&rest_ended);
}

/* The layers that came first may be in use: those of another copy do not follow them. */
static void a_copy_that_is_replaced_meanwhile_is_a_miss(void **state)
{
    bench b;
    chunk c;
    uint32_t blocks[BLOCKS];
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    const copy_name key = key_of(&c, SP_COPY_PLAIN);
    for (int replaced = 0; replaced < 2; replaced++) {
        assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
        assert_ok(sp_kv_acquire(b.pool, 2, blocks));
        sp_move m = move_of(b.pool, &space, &key, blocks);
        m.n = 1;
        assert_ok(sp_move_get(&m, b.tier, NULL));
        assert_ok(finish(m.op));
        assert_int_equal(m.n_there, 1);
        if (replaced) fill_noise(&b, c.blocks, 2);
        if (replaced) assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
        assert_int_equal(get_rest(&b, &m, 0), replaced ? SP_E_NOTFOUND : SP_OK);
        assert_int_equal(m.n_there, replaced ? 1 : LAYERS);
        assert_int_equal(same_kv(&b, blocks, c.blocks, 2), !replaced);
        sp_move_fini(&m);
        sp_kv_release(b.pool, blocks, 2);
    }
    chunk_end(&b, &c);
    bench_end(&b);
}

/* Layers come in parts of a size, of which the last may be shorter. */
static void the_last_part_has_the_layers_that_are_left(void **state)
{
    bench b;
    chunk c;
    uint32_t blocks[BLOCKS];
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    const copy_name key = key_of(&c, SP_COPY_PLAIN);
    assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
    assert_ok(sp_kv_acquire(b.pool, 2, blocks));
    sp_move m = move_of(b.pool, &space, &key, blocks);
    m.n = 1;
    assert_ok(sp_move_get(&m, b.tier, NULL));
    assert_ok(finish(m.op));
    assert_ok(get_rest(&b, &m, LAYERS));
    assert_int_equal(m.n_there, LAYERS);
    assert_true(same_kv(&b, blocks, c.blocks, 2));
    sp_move_fini(&m);
    sp_kv_release(b.pool, blocks, 2);
    chunk_end(&b, &c);
    bench_end(&b);
}

/* Once nobody waits for a copy, its blocks may be another's. */
static void nothing_is_written_to_blocks_that_were_given_up(void **state)
{
    bench b;
    chunk c;
    uint32_t blocks[BLOCKS], as_before[BLOCKS];
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
    const copy_name key = key_of(&c, SP_COPY_PLAIN);
    assert_ok(sp_kv_acquire(b.pool, 2, blocks));
    assert_ok(sp_kv_acquire(b.pool, 2, as_before));
    uint64_t seed = b.seed;
    fill_noise(&b, blocks, 2);
    b.seed = seed;
    fill_noise(&b, as_before, 2);
    sp_move m = move_of(b.pool, &space, &key, blocks);
    assert_true(sp_move_cut(&m));
    assert_true(sp_move_cut(&m));
    assert_ok(sp_move_get(&m, b.tier, NULL));
    assert_int_equal(finish(m.op), SP_E_CANCELED);
    assert_true(same_kv(&b, blocks, as_before, 2));
    sp_move_fini(&m);
    sp_kv_release(b.pool, blocks, 2);
    sp_kv_release(b.pool, as_before, 2);
    chunk_end(&b, &c);
    bench_end(&b);
}

static void another_shape_is_a_miss(void **state)
{
    bench b;
    chunk c;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    assert_ok(put(&b, &c, SP_COPY_PLAIN, 1));
    sp_kv_pool *deep = store_pool(SP_F16, LAYERS + 1), *wide = store_pool(SP_F32, LAYERS);
    sp_kv_pool *others[] = {deep, wide};
    for (int i = 0; i < 2; i++) {
        bench other = b;
        sp_move m;
        uint32_t blocks[BLOCKS];
        other.pool = others[i];
        const copy_name key = key_of(&c, SP_COPY_PLAIN);
        assert_true(has(&other, &key));
        assert_fails(get_as(&other, &key, blocks, &m), i ? SP_E_UNSUPPORTED : SP_E_ARG,
                     i ? "unlike this model" : "layers 0 to 3");
        sp_kv_release(others[i], blocks, 2);
        sp_move_fini(&m);
        store_pool_close(others[i]);
    }
    chunk_end(&b, &c);
    bench_end(&b);
}

/* -- out of memory --------------------------------------------------------------------------- */

static void every_allocation_may_fail(void **state)
{
    bench b;
    chunk c;
    sp_others *o = NULL;
    sp_tier *t = NULL;
    bench_begin(&b, SP_F16);
    chunk_begin(&b, &c, 0, 20);
    assert_survives_faults(put(&b, &c, SP_COPY_PLAIN, 1), !finds(&b, &c, SP_COPY_PLAIN));
    put_in(&b, &other_space, NULL, &c, &c, SP_COPY_PLAIN); /* a namespace to learn of */
    assert_survives_faults(sp_others_open(b.dir, &space, &o), o == NULL);
    sp_others_close(o);
    assert_survives_faults(store_tier(b.dir, &space, &t), t == NULL);
    sp_tier_close(t);
    store_reopen(&b);
    sp_fault_after(1);
    assert_false(finds(&b, &c, SP_COPY_PLAIN)); /* a miss, but not for ever */
    sp_fault_after(-1);
    assert_true(loads_as(&b, &c, SP_COPY_PLAIN, 1));
    chunk_end(&b, &c);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_round_trips),
        cmocka_unit_test(notes_are_of_whole_blocks),
        cmocka_unit_test(scattered_blocks_are_moved),
        cmocka_unit_test(plain_and_fused_live_side_by_side),
        cmocka_unit_test(what_was_measured_comes_back),
        cmocka_unit_test(the_budget_is_the_folders),
        cmocka_unit_test(a_newer_copy_takes_the_place),
        cmocka_unit_test(each_head_has_its_copy),
        cmocka_unit_test(removed_copies_are_gone),
        cmocka_unit_test(retain_deletes_what_is_not_wanted),
        cmocka_unit_test(a_copy_of_another_model_is_recognised),
        cmocka_unit_test(moves_work_on_a_far_device),
        cmocka_unit_test(a_copy_that_cannot_be_read_is_given_up),
        cmocka_unit_test(other_tokens_are_refused),
        cmocka_unit_test(another_head_of_the_same_key_is_refused),
        cmocka_unit_test(a_copy_that_is_replaced_meanwhile_is_a_miss),
        cmocka_unit_test(the_last_part_has_the_layers_that_are_left),
        cmocka_unit_test(nothing_is_written_to_blocks_that_were_given_up),
        cmocka_unit_test(another_shape_is_a_miss),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
