/* test_offload.c -- contexts that leave memory: what is computed has the bits that it has in memory.
 *
 *   full readers    prefill and decoding over blocks in a file
 *   sparse readers  with seats for all that a step reads, for less, and for next to nothing
 *   little memory   windows do not touch the seats that lists name; hard heads stay in memory
 *   windows         layers with a window read their window only, of a file and of near blocks
 *   a budget        blocks leave by themselves; blocks that are freed and taken again are not mixed up
 *   faults          every read that fails or has a wrong bit: the same bits, or SP_E_IO; then the same
 *                   bits again
 */
#include "support/check.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/sparse/summaries.h"
#include "store/files.h"
#include "support/offload_scene.h"

/* in_memory -- what all tests compare with. */
static void in_memory(const sp_sparse_opts *o, float *logits)
{
    scene s;
    scene_open(&s, 0, NULL);
    assert_ok(decode(&s, o, logits));
    scene_close(&s);
}

static const struct {
    int seats;
    const char *io;
} kinds[] = {{40, NULL}, {40, "threads"}, {12, NULL}, {1, NULL}};

static void full_attention_from_a_file_is_exact(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    in_memory(NULL, want);
    scene s;
    scene_open(&s, 4, NULL);
    send_away(&s);
    assert_ok(decode(&s, NULL, got));
    same_logits(got, want, STEPS, V, "full attention over a file");
    assert_true(sp_offload_stats_of(s.offload).n_windowed >= (STEPS + 1) * LAYERS * 20);
    assert_int_equal(sp_offload_stats_of(s.offload).n_wanted, 0);
    scene_close(&s);
}

static void sparse_attention_from_a_file_is_exact(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    in_memory(&some, want);
    for (size_t k = 0; k < SP_COUNT(kinds); k++) {
        scene s;
        scene_open(&s, kinds[k].seats, kinds[k].io);
        send_away(&s);
        for (int round = 0; round < 2; round++) {
            assert_ok(decode(&s, &some, got));
            same_logits(got, want, STEPS, V, "sparse decoding from a file");
        }
        const sp_offload_stats a = sp_offload_stats_of(s.offload);
        assert_true(a.n_wanted > 2 * STEPS * LAYERS * G * 5 && a.n_found < a.n_wanted);
        assert_true(a.n_fetched + a.n_found <= a.n_wanted && a.n_retried == 0);
        if (kinds[k].seats == 40) assert_true(a.n_found > a.n_wanted / 2);
        scene_close(&s);
    }
}

/* Layers 0 and 1 have a window of 28 tokens. For the question it begins in the fourth of chunk 3's six blocks; for the
 * answer's tokens in the fifth (three times), in the sixth (three times), and after the chunk. They read the file from
 * there on. Layer 2 reads all of it, but not for the question, which wants no logits. Sparse decoding chooses in
 * layer 2 alone. */
static void layers_with_a_window_read_it_only(void **state)
{
    static float want[STEPS * V], got[STEPS * V], other[STEPS * V];
    int n_blocks = 0;
    for (int i = 0; i < N_CHUNKS; i++) n_blocks += sp_blocks_for(lengths[i]);
    window = 0;
    in_memory(NULL, other);
    window = 28;
    in_memory(NULL, want);
    assert_true(tiny_nmse(want, other, STEPS * V) > 1e-3);
    scene s;
    scene_open(&s, 4, NULL);
    send_away(&s);
    assert_ok(decode(&s, NULL, got));
    same_logits(got, want, STEPS, V, "windows over a file");
    assert_int_equal(sp_offload_stats_of(s.offload).n_windowed, STEPS * n_blocks + 2 * (3 + 3 * 2 + 3 * 1));
    scene_close(&s);
    in_memory(&some, want);
    scene_open(&s, 40, NULL);
    send_away(&s);
    assert_ok(decode(&s, &some, got));
    same_logits(got, want, STEPS, V, "windows beside sparse decoding");
    assert_true(sp_offload_stats_of(s.offload).n_wanted > 0);
    scene_close(&s);
    const sp_sparse_opts everything = {.share = 1, .min_depth = -1, .refine = 1};
    in_memory(NULL, want);
    in_memory(&everything, got);
    same_logits(got, want, STEPS, V, "a choice of everything in the layer without a window");
    window = 0;
}

/* For comparison: what a step read is read for the next one, too. */
static void forgetting_reads_everything_again(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    sp_sparse_opts o = some;
    scene s;
    in_memory(&some, want);
    o.seats = SP_SEATS_FORGET;
    scene_open(&s, 40, NULL);
    send_away(&s);
    assert_ok(decode(&s, &o, got));
    same_logits(got, want, STEPS, V, "nothing kept");
    const sp_offload_stats a = sp_offload_stats_of(s.offload);
    assert_int_equal(a.n_found, 0);
    assert_int_equal(a.n_fetched, a.n_wanted);
    scene_close(&s);
}

/* For comparison: of three seats both policies give 2's to 3; for 4, LRU drops 1, and the clock 0, which its
 * hand comes to first. */
static void lru_and_the_clock_choose_differently(void **state)
{
    static const int wanted[] = {0, 1, 2, 1, 0, 3, 4, 0};
    for (int policy = 0; policy <= SP_SEATS_LRU; policy++) {
        scene s;
        scene_open(&s, 3, NULL);
        send_away(&s);
        const sp_block_source source = sp_offload_source(s.offload, (sp_seat_policy)policy);
        for (size_t i = 0; i < SP_COUNT(wanted); i++) {
            uint32_t block = s.known.spans[1].blocks[wanted[i]];
            source.want(source.user, 0, 0, &block, 1);
            assert_ok(source.wait(source.user, 0));
        }
        assert_int_equal(sp_offload_stats_of(s.offload).n_found, policy == SP_SEATS_LRU ? 3 : 2);
        scene_close(&s);
    }
}

/* Of three full seats, one request of a step reads the first, and another misses three blocks before the layer is
 * computed: it gets the two other seats, and what is beyond them somewhere else. */
static void a_seat_that_the_step_reads_is_not_taken_in_it(void **state)
{
    for (int policy = 0; policy <= SP_SEATS_LRU; policy++) {
        scene s;
        scene_open(&s, 3, NULL);
        send_away(&s);
        const sp_block_source source = sp_offload_source(s.offload, (sp_seat_policy)policy);
        const uint32_t *blocks = s.known.spans[1].blocks;
        for (int i = 0; i < 3; i++) {
            uint32_t block = blocks[i];
            source.want(source.user, 0, 0, &block, 1);
            assert_ok(source.wait(source.user, 0));
        }
        uint32_t read = blocks[0], others[3];
        memcpy(others, s.known.spans[0].blocks, sizeof others);
        source.want(source.user, 0, 0, &read, 1);
        source.want(source.user, 0, 0, others, 3);
        assert_ok(source.wait(source.user, 0));
        assert_int_not_equal(read, blocks[0]);
        for (int i = 0; i < 3; i++) assert_int_not_equal(others[i], read);
        for (int i = 0; i < 2; i++) assert_int_not_equal(others[i], s.known.spans[0].blocks[i]);
        assert_int_equal(sp_offload_stats_of(s.offload).n_found, 1);
        scene_close(&s);
    }
}

/* A seat counts for the block that was fetched: not for another that has its number since. */
static void a_block_that_is_taken_again_is_fetched_again(void **state)
{
    scene s;
    scene_open(&s, 3, NULL);
    send_away(&s);
    const sp_block_source source = sp_offload_source(s.offload, SP_SEATS_CLOCK);
    const uint32_t first = s.known.spans[1].blocks[0];
    for (int64_t n_found = 0; n_found < 2; n_found++) {
        uint32_t block = first;
        source.want(source.user, 0, 0, &block, 1);
        assert_ok(source.wait(source.user, 0));
        assert_int_equal(sp_offload_stats_of(s.offload).n_found, n_found);
    }
    sp_plan_fini(&s.known);
    chunks_compute(&s.t, &chunks, &s.known);
    send_away(&s);
    uint32_t block = first;
    assert_true(sp_kv_is_away(s.t.pool, block));
    source.want(source.user, 0, 0, &block, 1);
    assert_ok(source.wait(source.user, 0));
    assert_int_equal(sp_offload_stats_of(s.offload).n_found, 1);
    assert_int_equal(sp_offload_stats_of(s.offload).n_fetched, 2);
    scene_close(&s);
}

/* Guesses change what is fetched, not what is read. */
static void guesses_change_no_answer(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    in_memory(&some, want);
    scene s;
    scene_open(&s, 30, NULL);
    send_away(&s);
    for (int l = 0; l < LAYERS; l++)
        for (int g = 0; g < G; g++)
            sp_offload_ahead(s.offload, l, g, s.known.spans[1].blocks, sp_blocks_for(lengths[1]));
    assert_int_equal(sp_offload_stats_of(s.offload).n_ahead, LAYERS * G * sp_blocks_for(lengths[1]));
    assert_ok(decode(&s, &some, got));
    same_logits(got, want, STEPS, V, "after guesses");
    scene_close(&s);
    for (size_t k = 0; k < SP_COUNT(kinds); k++) { /* those of the layer before */
        sp_sparse_opts o = some;
        for (int policy = 0; policy <= SP_SEATS_FORGET; policy++) {
            o.ahead = true;
            o.seats = (sp_seat_policy)policy;
            scene_open(&s, kinds[k].seats, kinds[k].io);
            send_away(&s);
            assert_ok(decode(&s, &o, got));
            same_logits(got, want, STEPS, V, "with guesses");
            const sp_offload_stats a = sp_offload_stats_of(s.offload);
            assert_true(a.n_ahead > 0 && a.n_ahead <= a.n_fetched);
            scene_close(&s);
        }
    }
}

/* A list that serves the next query, too, is guessed to serve it: where every head reuses its list, only the first
 * step guesses. */
static void only_heads_that_miss_are_guessed(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    scene s;
    int64_t n[3];
    for (int reuse = 0; reuse < 3; reuse++) {
        sp_sparse_opts o = some;
        o.reuse = reuse;
        o.power = -1;
        o.eta = reuse == 1 ? -1 : -0.1f; /* any query is similar enough, or some are */
        in_memory(&o, want);
        o.ahead = true;
        o.seats = SP_SEATS_FORGET; /* what is wanted is fetched in every step */
        scene_open(&s, kinds[0].seats, kinds[0].io);
        send_away(&s);
        assert_ok(decode(&s, &o, got));
        same_logits(got, want, STEPS, V, "with guesses where lists are reused");
        n[reuse] = sp_offload_stats_of(s.offload).n_ahead;
        scene_close(&s);
    }
    assert_true(n[1] > 0 && n[1] * STEPS <= n[0] * 3 / 2);
    assert_true(n[1] < n[2] && n[2] < n[0]);
}

/* The pool reads blocks wherever they are, and overwrites them there. */
static void the_pool_reads_blocks_wherever_they_are(void **state)
{
    scene s;
    const uint8_t *at;
    scene_open(&s, 4, NULL);
    const size_t n = sp_kv_pool_layer_block_bytes(s.t.pool);
    const sp_kv_run run = {.layer = 1, .first = s.known.spans[0].blocks[2], .n = 3};
    uint8_t *near = malloc(3 * n), *away = malloc(3 * n);
    assert_ok(sp_kv_pool_read(s.t.pool, run, near, &at));
    assert_ptr_equal(at, near);
    send_away(&s);
    assert_ok(sp_kv_pool_read(s.t.pool, run, away, &at));
    assert_memory_equal(near, away, 3 * n);
    memset(away, 7, 3 * n);
    assert_ok(sp_kv_pool_write(s.t.pool, run, away));
    assert_ok(sp_kv_pool_read(s.t.pool, run, near, &at));
    assert_memory_equal(near, away, 3 * n);
    free(near);
    free(away);
    scene_close(&s);
}

/* A budget of fewer blocks than the chunks have. */
static void the_budget_may_be_small(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    tiny_spec spec = TINY_SPEC_DEFAULT;
    scene s = {0};
    in_memory(&some, want);
    spec.kv_type = SP_Q16;
    assert_ok(tiny_open(&s.t, &spec, 21));
    const size_t block = sp_kv_block_bytes(sp_kv_pool_shape(s.t.pool));
    size_t lists = LAYERS * G * (size_t)sp_kv_pool_n_blocks(s.t.pool);
    size_t index = lists * (sp_summary_bytes(SP_SUMMARY_BOUNDS, spec.head) + 8);
    sp_offload_opts o = {.pool = s.t.pool, .dir = "/tmp", .max_bytes = index + 7 * block};
    assert_fails(sp_offload_create(&o, &s.offload), SP_E_ARG, "less than 8 blocks");
    o.max_bytes = index + 24 * block;
    o.n_seats = 12;
    o.dir = "/tmp/no such folder";
    assert_fails(sp_offload_create(&o, &s.offload), SP_E_IO, "no such folder");
    tiny_close(&s.t);
    assert_ok(tiny_open(&s.t, &spec, 21));
    o.pool = s.t.pool;
    o.dir = "/tmp";
    assert_ok(sp_offload_create(&o, &s.offload));
    sp_engine_set_offload(s.t.engine, s.offload);
    chunks_compute(&s.t, &chunks, &s.known);
    for (int round = 0; round < 3; round++) {
        sp_offload_turn(s.offload);
        assert_true(sp_kv_pool_n_near(s.t.pool) <= 24);
        assert_ok(decode(&s, &some, got));
        same_logits(got, want, STEPS, V, "within a budget");
        if (round == 1) { /* other chunks take the blocks of these */
            sp_plan_fini(&s.known);
            chunks_compute(&s.t, &chunks, &s.known);
        }
    }
    assert_true(sp_offload_stats_of(s.offload).n_left >= 2 * 12);
    scene_close(&s);
}

/* What finds no seat comes into a window, which drives out seats of other layers only. */
static void a_window_takes_seats_of_other_layers_only(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    scene s;
    in_memory(&some, want);
    for (int seats = 1; seats < 40; seats += 3)
        for (int ahead = 0; ahead < 2; ahead++) {
            sp_sparse_opts o = some;
            o.ahead = ahead;
            tight(&s, seats + 10, seats, 0);
            assert_ok(decode(&s, &o, got));
            same_logits(got, want, STEPS, V, "seats beside a window");
            scene_close(&s);
        }
}

/* What a layer wants beyond its seats is fetched like the rest: only prompts, and what makes summaries
 * once, read all and need windows. */
static void spare_seats_serve_what_is_wanted_beyond(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    scene s;
    sp_plan p;
    in_memory(&some, want);
    tight(&s, 60, 3, 0);
    assert_ok(decode(&s, &some, got));
    const int64_t none = sp_offload_stats_of(s.offload).n_windowed;
    assert_ok(prompt(&s, &p));
    sp_plan_fini(&p);
    const int64_t one = sp_offload_stats_of(s.offload).n_windowed;
    assert_ok(decode(&s, &some, got));
    same_logits(got, want, STEPS, V, "spare seats");
    const sp_offload_stats all = sp_offload_stats_of(s.offload);
    assert_true(one > none);
    assert_int_equal(all.n_windowed - one, one - none);
    assert_true(all.n_fetched > 3 * G * LAYERS);
    scene_close(&s);
}

/* Blocks that are near leave when a step has wanted more seats than were open, not before. */
static void near_blocks_leave_when_seats_are_wanted(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    scene s;
    in_memory(&some, want);
    tight_open(&s, 26, 0, 0);
    const int64_t held = sp_kv_pool_n_near(s.t.pool);
    chunks_compute(&s.t, &chunks, &s.known);
    for (int i = 0; i < 20; i++) sp_offload_turn(s.offload);
    assert_in_range(sp_kv_pool_n_near(s.t.pool) - held, 3, 19); /* of 26: nobody reads seats so far */
    assert_ok(decode(&s, &some, got));
    same_logits(got, want, STEPS, V, "before the blocks leave");
    for (int i = 0; i < 20; i++) sp_offload_turn(s.offload);
    assert_in_range(sp_kv_pool_n_near(s.t.pool) - held, 0, 2);
    assert_ok(decode(&s, &some, got));
    same_logits(got, want, STEPS, V, "after the blocks left");
    scene_close(&s);
}

static void these_are_resident(const scene *s, const bool *want)
{
    for (int i = 0; i < LAYERS * G; i++) assert_int_equal(sp_offload_is_resident(s->offload, i / G, i % G), want[i]);
}

/* As many heads as fit, the hardest first, read nothing from the file; others of their layers do. */
static void resident_heads_read_nothing(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    static const struct {
        int blocks; /* of a head that may be resident; 25 are away */
        bool is_resident[LAYERS * G];
    } budgets[] = {{0, {0}},
                   {24, {0}},
                   {25, {0, 0, 0, 0, 0, 1}},
                   {50, {0, 0, 1, 0, 0, 1}},
                   {100, {0, 1, 1, 0, 1, 1}},
                   {150, {1, 1, 1, 1, 1, 1}}};
    int64_t n_fetched = INT64_MAX, n_windowed = 0;
    scene s;
    in_memory(&some, want);
    for (size_t i = 0; i < SP_COUNT(budgets); i++) {
        tight(&s, 60, 30, budgets[i].blocks);
        these_are_resident(&s, budgets[i].is_resident);
        assert_ok(decode(&s, &some, got));
        same_logits(got, want, STEPS, V, "resident heads");
        const sp_offload_stats a = sp_offload_stats_of(s.offload);
        assert_true(i < 2 || a.n_fetched < n_fetched);
        n_fetched = a.n_fetched;
        if (i == 0) n_windowed = a.n_windowed;
        if (i == 2) assert_int_equal(a.n_windowed, n_windowed); /* what it chooses needs no window */
        assert_true(a.n_resident < LAYERS * G || (a.n_fetched == 0 && a.n_found == a.n_wanted));
        scene_close(&s);
    }
}

/* is_gone -- the memory of chunk 0 in the middle of a head's plane has been given back. */
static bool is_gone(const scene *s, int layer, int kv_head)
{
    static const uint8_t nothing[64];
    const uint32_t block = s->known.spans[0].blocks[5];
    return memcmp(sp_kv_pool_bytes_at(s->t.pool, layer, kv_head, block), nothing, sizeof nothing) == 0;
}

/* As many stay resident; those that become it are read, those that stop give their memory back. */
static void a_new_rank_exchanges_resident_heads(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    static const float other[LAYERS * G] = {0.9f, 0.4f, 0.5f, 0.8f, 0.3f, 0.6f};
    scene s;
    in_memory(&some, want);
    tight(&s, 60, 30, 50);
    these_are_resident(&s, (const bool[LAYERS * G]){0, 0, 1, 0, 0, 1});
    assert_false(is_gone(&s, 2, 1));
    for (int round = 0; round < 2; round++) {
        sp_offload_rank(s.offload, other);
        these_are_resident(&s, (const bool[LAYERS * G]){1, 0, 0, 1, 0, 0});
        assert_true(is_gone(&s, 2, 1) && is_gone(&s, 1, 0) && !is_gone(&s, 0, 0));
        assert_ok(decode(&s, &some, got));
        same_logits(got, want, STEPS, V, "heads of a new rank");
    }
    assert_ok(decode(&s, NULL, got));
    in_memory(NULL, want);
    same_logits(got, want, STEPS, V, "full attention beside resident heads");
    scene_close(&s);
}

/* Of importance 1 and similar queries, or of little importance and unlike queries: which is harder, the request's
 * thresholds say. */
static void the_thresholds_of_a_request_rank_heads(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    static const struct {
        float power;
        bool is_resident[LAYERS * G];
    } kinds_of[] = {{0, {0, 0, 1, 0, 0, 0}}, {-1, {0, 0, 0, 0, 1, 0}}, {3, {0, 0, 1, 0, 0, 0}}};
    sp_heads *h;
    scene s;
    tight(&s, 60, 30, 25);
    const int per_layer = s.t.model.hp.n_heads;
    assert_ok(sp_heads_create(LAYERS, per_layer, G, &h));
    for (int i = 0; i < LAYERS * per_layer; i++) h->importance[i] = 0.5f;
    for (int i = 0; i < per_layer / G; i++) {
        h->importance[per_layer + i] = 1;
        h->importance[2 * per_layer + i] = 0.1f;
        h->similarity[2 * per_layer + i] = 0.2f;
    }
    for (size_t i = 0; i < SP_COUNT(kinds_of); i++) {
        sp_sparse_opts o = some;
        o.reuse = true;
        o.heads = h;
        o.power = kinds_of[i].power;
        in_memory(&o, want);
        assert_ok(decode(&s, &o, got));
        same_logits(got, want, STEPS, V, "thresholds of a request");
        these_are_resident(&s, kinds_of[i].is_resident);
    }
    sp_heads_destroy(h);
    scene_close(&s);
}

/* The n-th read fails, or all from it on. */
static void failing_reads_are_errors(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    int n_failed = 0, n_saved = 0;
    in_memory(&some, want);
    for (int stays = 0; stays < 2; stays++)
        for (long n = 1; n < 400; n += n < 9 ? 1 : 43) {
            scene s;
            scene_open(&s, 14, n % 2 ? NULL : "threads");
            send_away(&s);
            sp_store_fault(SP_CALL_READ, n, EIO, stays);
            sp_sparse_opts o = some;
            o.ahead = n % 3 == 0;
            sp_err err = decode(&s, &o, got);
            sp_store_fault(0, 0, 0, false);
            if (err == SP_OK)
                same_logits(got, want, STEPS, V, "after a failed read");
            else
                assert_int_equal(err, SP_E_IO);
            n_failed += err != SP_OK;
            n_saved += err == SP_OK && sp_offload_stats_of(s.offload).n_retried > 0;
            assert_ok(decode(&s, &some, got));
            same_logits(got, want, STEPS, V, "after the fault");
            scene_close(&s);
        }
    assert_true(n_failed > 5 && n_saved > 2);
}

/* What a failed read has not brought is forgotten: its blocks may be other ones' when the next are summarized. */
static void summaries_whose_blocks_were_not_read_are_not_wanted(void **state)
{
    scene s;
    sp_summaries *x;
    int64_t n_made;
    scene_open(&s, kinds[0].seats, kinds[0].io);
    send_away(&s);
    const sp_span *known = s.known.spans;
    assert_ok(sp_summaries_create(s.t.pool, SP_SUMMARY_BOUNDS, &x));
    for (int k = 0; k < 4; k++) assert_ok(sp_summaries_want(x, known[0].blocks[k], B));
    sp_store_fault(SP_CALL_READ, 1, EIO, true);
    assert_int_equal(sp_summaries_make(x, s.offload, NULL), SP_E_IO);
    sp_store_fault(0, 0, 0, false);
    assert_ok(sp_summaries_want(x, known[1].blocks[0], B));
    assert_ok(sp_summaries_make(x, s.offload, &n_made));
    assert_int_equal(n_made, 1);
    assert_true(sp_summaries_has(x, known[1].blocks[0], B) && !sp_summaries_has(x, known[0].blocks[0], 1));
    sp_summaries_destroy(x);
    scene_close(&s);
}

/* decode_flipped -- while a bit of the n-th read is wrong, or of all from it on. Returns records found
 * damaged. */
static int64_t decode_flipped(scene *s, const sp_sparse_opts *o, long n, bool stays,
                              const float *want)
{
    static float got[STEPS * V];
    send_away(s);
    sp_store_fault(SP_CALL_READ, n, SP_FLIPS, stays);
    sp_err err = decode(s, o, got);
    sp_store_fault(0, 0, 0, false);
    const int64_t n_damaged = sp_offload_stats_of(s->offload).n_damaged;
    if (err == SP_OK) same_logits(got, want, STEPS, V, "with a wrong bit in a read");
    if (!stays) assert_ok(err); /* a second read has the right one */
    if (stays && n_damaged) {
        assert_int_equal(err, SP_E_IO);
        assert_non_null(strstr(sp_error_detail(), "damaged at record"));
    }
    assert_ok(decode(s, o, got));
    same_logits(got, want, STEPS, V, "after the wrong bit");
    return n_damaged;
}

/* Wrong bits are found, for sparse readers and for full ones. */
static void wrong_bits_are_found(void **state)
{
    static float want[STEPS * V];
    int n_found = 0, n_runs = 0;
    for (int full = 0; full < 2; full++) {
        const sp_sparse_opts *o = full ? NULL : &some;
        in_memory(o, want);
        for (int stays = 0; stays < 2; stays++)
            for (long n = 1; n < 200; n += n < 2 ? 1 : 66, n_runs++) {
                scene s;
                scene_open(&s, 14, n % 2 ? NULL : "threads");
                n_found += decode_flipped(&s, o, n, stays, want) > 0;
                scene_close(&s);
            }
    }
    assert_true(n_found > n_runs * 3 / 4);
}

/* Blocks that cannot be written stay. */
static void blocks_that_cannot_be_written_stay(void **state)
{
    static float want[STEPS * V], got[STEPS * V];
    in_memory(&some, want);
    scene s;
    scene_open(&s, 4, NULL);
    sp_store_fault(SP_CALL_WRITE, 2, ENOSPC, true);
    assert_fails(sp_offload_leave(s.offload, s.known.spans[0].blocks, 5), SP_E_IO, "/tmp");
    sp_store_fault(0, 0, 0, false);
    assert_false(sp_kv_is_away(s.t.pool, s.known.spans[0].blocks[0]));
    assert_ok(decode(&s, &some, got));
    same_logits(got, want, STEPS, V, "after failed writes");
    scene_close(&s);
    tight_open(&s, 26, 0, 0); /* blocks leave by themselves */
    chunks_compute(&s.t, &chunks, &s.known);
    sp_store_fault(SP_CALL_WRITE, 1, ENOSPC, true);
    for (int i = 0; i < 5; i++) sp_offload_turn(s.offload);
    sp_store_fault(0, 0, 0, false);
    assert_int_equal(sp_offload_stats_of(s.offload).n_left, 0);
    assert_ok(decode(&s, &some, got));
    same_logits(got, want, STEPS, V, "after failed writes of a batch");
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_attention_from_a_file_is_exact),
        cmocka_unit_test(sparse_attention_from_a_file_is_exact),
        cmocka_unit_test(a_seat_that_the_step_reads_is_not_taken_in_it),
        cmocka_unit_test(a_block_that_is_taken_again_is_fetched_again),
        cmocka_unit_test(guesses_change_no_answer),
        cmocka_unit_test(only_heads_that_miss_are_guessed),
        cmocka_unit_test(the_pool_reads_blocks_wherever_they_are),
        cmocka_unit_test(the_budget_may_be_small),
        cmocka_unit_test(failing_reads_are_errors),
        cmocka_unit_test(summaries_whose_blocks_were_not_read_are_not_wanted),
        cmocka_unit_test(wrong_bits_are_found),
        cmocka_unit_test(blocks_that_cannot_be_written_stay),
        cmocka_unit_test(a_window_takes_seats_of_other_layers_only),
        cmocka_unit_test(spare_seats_serve_what_is_wanted_beyond),
        cmocka_unit_test(near_blocks_leave_when_seats_are_wanted),
        cmocka_unit_test(resident_heads_read_nothing),
        cmocka_unit_test(a_new_rank_exchanges_resident_heads),
        cmocka_unit_test(the_thresholds_of_a_request_rank_heads),
        cmocka_unit_test(forgetting_reads_everything_again),
        cmocka_unit_test(lru_and_the_clock_choose_differently),
        cmocka_unit_test(layers_with_a_window_read_it_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
