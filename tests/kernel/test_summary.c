/* test_summary.c -- summaries of blocks, and the choice of blocks by them.
 *
 *   bounds           no key of a block scores above its bound, but for the rounding of the query
 *   variants         the same scores as ref, bit for bit, of any head size and group
 *   take             exactly the k best candidates, ascending; of equal ones the earlier
 *   stages           two stages choose as the second alone among all candidates, as the first alone
 *                    among k; between, the best of those that the first proposes
 *   labels           a similar query keeps the list, another one replaces list and label
 */
#include "kernel/kernels.h"

#include "base/hash.h"
#include "compute/kernel/summary.h"

enum { B = SP_BLOCK_TOKENS, N_BLOCKS = 40, N_POS = 4096 };

typedef struct scene {
    int head, n_kv, group;
    sp_kv_view kv;
    sp_summary_view view;
    sp_rope rope;
    float *tables, *keys; /* [N_BLOCKS * B][n_kv][head] as stored */
    uint64_t seed;
} scene;

/* Q16 blocks of random keys, times `factor`, that drift from block to block. */
static void scene_scaled(scene *s, sp_summary_kind kind, int head, int n_kv, int group, float factor)
{
    *s = (scene){.head = head, .n_kv = n_kv, .group = group, .seed = 7};
    const size_t bytes = SP_ROUND_UP(2 * (size_t)n_kv * sp_kv_head_bytes(SP_Q16, head), 64);
    const int64_t m = N_BLOCKS * B, n = m * n_kv * head;
    s->rope = make_rope(head / 2 * 2, false, N_POS, 1, &s->tables);
    s->kv = (sp_kv_view){SP_Q16, n_kv, head, sp_alloc_aligned(N_BLOCKS * bytes), bytes};
    s->keys = random_floats(&s->seed, n, 1);
    for (int64_t i = 0; i < n; i++)
        s->keys[i] = factor * (s->keys[i] + sinf((float)(i / (B * n_kv * head)) + (float)(i % head)));
    uint32_t *block = sp_alloc((size_t)m, sizeof *block);
    int32_t *rot = sp_alloc((size_t)m, sizeof *rot);
    uint8_t *slot = sp_alloc((size_t)m, 1);
    for (int i = 0; i < m; i++) {
        block[i] = (uint32_t)i / B;
        slot[i] = (uint8_t)(i % B);
        rot[i] = i;
    }
    const sp_kv_store_args a = {&s->kv, &s->rope, s->keys, s->keys, m, block, slot, rot};
    reference()->kv_store(&a, 0, 1);
    s->view = (sp_summary_view){.kind = kind, .n_heads = n_kv, .head = head, .n_blocks = N_BLOCKS};
    s->view.base = sp_alloc_aligned((size_t)(n_kv * N_BLOCKS) * sp_summary_bytes(kind, head));
    s->view.scale = sp_alloc((size_t)(n_kv * N_BLOCKS), sizeof(float));
    memset(slot, B, N_BLOCKS);
    for (uint32_t b = 0; b < N_BLOCKS; b++) block[b] = b;
    const sp_summarize_args sum = {&s->kv, &s->view, block, slot, N_BLOCKS};
    for (int part = 0; part < 3; part++) sp_summarize(&sum, part, 3);
    sp_free(block);
    sp_free(rot);
    sp_free(slot);
}

static void scene_open(scene *s, sp_summary_kind kind, int head, int n_kv, int group)
{
    scene_scaled(s, kind, head, n_kv, group, 1);
}

static void scene_close(scene *s)
{
    sp_free(s->kv.base);
    sp_free(s->view.base);
    sp_free(s->view.scale);
    sp_free(s->tables);
    sp_free(s->keys);
}

static sp_pick_args args_of(const scene *s, const sp_pick_req *req, float *scratch)
{
    return (sp_pick_args){.summary = &s->view,
                          .rope = &s->rope,
                          .n_heads = s->n_kv * s->group,
                          .scale = 1 / sqrtf((float)s->head),
                          .reqs = req,
                          .n_reqs = 1,
                          .scratch = scratch};
}

/* score, take -- of all blocks, at position N_POS - 1. */
static void score(const scene *s, const char *ops, const sp_pick_req *req, float *scratch)
{
    const sp_pick_args a = args_of(s, req, scratch);
    for (int part = 0; part < 3; part++) sp_pick_score(&a, sp_summary_ops_of(ops), part, 3);
}

static void take(const scene *s, const char *ops, const sp_pick_req *req, float *scratch)
{
    const sp_pick_args a = args_of(s, req, scratch);
    for (int part = 0; part < 2; part++) sp_pick_take(&a, sp_summary_ops_of(ops), part, 2);
}

static void pick(const scene *s, const char *ops, const sp_pick_req *req, float *scratch)
{
    score(s, ops, req, scratch);
    take(s, ops, req, scratch);
}

static sp_pick_req request(const scene *s, const float *q, const uint32_t *block,
                           const sp_pick_run *run, uint32_t *picked)
{
    static uint8_t hit[64];
    memset(hit, 2, sizeof hit);
    assert_true(s->n_kv <= 64);
    return (sp_pick_req){.q = q, .pos = N_POS - 1, .runs = run, .n_runs = 1, .block = block,
                         .n = N_BLOCKS, .k = 5, .picked = picked, .hit = hit};
}

static const sp_pick_run everything = {.first = 0, .n = N_BLOCKS, .shift = 0};

static void number(uint32_t *block)
{
    for (uint32_t b = 0; b < N_BLOCKS; b++) block[b] = b;
}

static void bounds_hold(void **state)
{
    scene s;
    uint32_t block[N_BLOCKS], picked[2 * 5];
    float key[SP_HEAD_MAX], value[SP_HEAD_MAX], query[SP_HEAD_MAX];
    scene_open(&s, SP_SUMMARY_QUEST, 64, 2, 3);
    number(block);
    float *q = random_floats(&s.seed, 6 * 64, 1);
    float *scratch = sp_alloc(sp_pick_scratch(N_BLOCKS, 6, 2), sizeof *scratch);
    const sp_pick_req req = request(&s, q, block, &everything, picked);
    score(&s, "ref", &req, scratch);
    for (int h = 0; h < 6; h++) {
        memcpy(query, q + h * 64, sizeof(float) * 64);
        sp_rope_rotate(&s.rope, query, N_POS - 1);
        const float *scores = scratch + (size_t)(h / 3) * (sp_pick_scratch(N_BLOCKS, 6, 2) / 2);
        for (int i = 0; i < N_BLOCKS * B; i++) {
            const sp_kv_slot at = {.block = (uint32_t)i / B, .slot = (uint8_t)(i % B)};
            float product = 0;
            sp_kv_read(&s.kv, &at, h / 3, key, value);
            for (int d = 0; d < 64; d++) product += query[d] * key[d];
            assert_true(product <= scores[i / B * SP_PICK_ROWS + h % 3] + 0.02f * 64);
        }
    }
    sp_free(q);
    sp_free(scratch);
    scene_close(&s);
}

/* A lone block of f32 keys, one head of D channels, and its summary of each kind. */
enum { OWN_D = 40 };

typedef struct lone {
    sp_kv_view kv;
    uint8_t base[2 * B * OWN_D * sizeof(float)], summary[4096];
    float scale;
} lone;

static void summarize(lone *o, sp_summary_kind kind, float (*key)[OWN_D])
{
    const uint32_t block = 0;
    const uint8_t n = B;
    *o = (lone){.kv = {.type = SP_F32, .n_heads = 1, .head = OWN_D, .block_bytes = sizeof o->base}};
    o->kv.base = o->base;
    sp_summary_view view = {
        .kind = kind, .n_heads = 1, .head = OWN_D, .n_blocks = 1, .base = o->summary, .scale = &o->scale};
    assert_true(sp_summary_bytes(kind, OWN_D) <= sizeof o->summary);
    for (int t = 0; t < B; t++) sp_kv_put_key(SP_F32, OWN_D, key[t], o->base, t);
    sp_summarize(&(sp_summarize_args){&o->kv, &view, &block, &n, 1}, 0, 1);
}

/* Each channel of each key is within its bounds, wherever the keys are. */
static void bounds_are_those_of_each_channel(void **state)
{
    static const float least[] = {-1, -9, 4, -1e-3f}, most[] = {1, -4, 9, 50};
    uint64_t seed = 3;
    lone o;
    float key[B][OWN_D];
    const int width = sp_summary_width(OWN_D);
    for (int kind = 0; kind < SP_SUMMARY_N; kind++) {
        if (!sp_is_bounds((sp_summary_kind)kind)) continue;
        for (size_t i = 0; i < SP_COUNT(least); i++) {
            for (int t = 0; t < B; t++)
                for (int d = 0; d < OWN_D; d++) key[t][d] = uniform(&seed, least[i], most[i]);
            summarize(&o, (sp_summary_kind)kind, key);
            assert_true(o.scale > 0);
            for (int t = 0; t < B; t++)
                for (int d = 0; d < OWN_D; d++) {
                    const float from = key[t][d] / o.scale - (float)(o.summary[d] - 128);
                    assert_true(fabsf(from) <= (float)o.summary[width + d] + 1e-4f);
                }
        }
    }
}

/* Keys that are not finite, in any slot and channel, and keys too small for a scale are like zeros. Hashes have no
 * bounds: their scale is 0 where a key is infinitely long. */
static void keys_that_are_not_usual_are_like_zeros(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    uint64_t seed = 4;
    lone o, zero;
    float key[B][OWN_D];
    for (int kind = 0; kind < SP_SUMMARY_N; kind++) {
        const bool hash = sp_is_hash((sp_summary_kind)kind);
        memset(key, 0, sizeof key);
        summarize(&zero, (sp_summary_kind)kind, key);
        assert_true(zero.scale == 0);
        for (int i = 0; i < 3 * B * OWN_D; i++) {
            const int t = i / 3 / OWN_D, d = i / 3 % OWN_D;
            if (hash && isnan(bad[i % 3])) continue;
            fill(&seed, key[0], B * OWN_D, 1);
            key[t][d] = bad[i % 3];
            summarize(&o, (sp_summary_kind)kind, key);
            assert_true(o.scale == 0);
            if (!hash) assert_memory_equal(o.summary, zero.summary, sizeof o.summary);
        }
        for (int t = 0; t < B; t++)
            for (int d = 0; d < OWN_D; d++) key[t][d] = (d + t) % 2 ? 1e-38f : -1e-38f;
        summarize(&o, (sp_summary_kind)kind, key);
        if (hash) continue;
        assert_true(o.scale == 0);
        assert_memory_equal(o.summary, zero.summary, sizeof o.summary);
    }
}

/* Codes are stored: those of these keys are the same in every version. */
static void codes_are_those_of_every_version(void **state)
{
    static const uint64_t is[] = {0xc7cb5124cb2441a1u, 0xb01153e2a4f45035u};
    float key[B][OWN_D];
    lone o;
    for (int t = 0; t < B; t++)
        for (int d = 0; d < OWN_D; d++) key[t][d] = (float)((t * 37 + d * 101) % 64 - 31);
    for (int i = 0; i < 2; i++) {
        const sp_summary_kind kind = i ? SP_SUMMARY_HASH256 : SP_SUMMARY_HASH128;
        summarize(&o, kind, key);
        const uint64_t hash = sp_hash64(o.summary, sp_summary_bytes(kind, OWN_D));
        if (hash != is[i]) fail_msg("codes of %d bits: %016llx", sp_hash_bits(kind), (unsigned long long)hash);
    }
}

/* Keys times a power of two have the same summaries, with a scale that is that many times as large: bounds are as
 * tight for small keys as for large ones. */
static void small_keys_have_the_bounds_of_large_ones(void **state)
{
    enum { HEAD = 64, KV_HEADS = 2 };
    for (int kind = 0; kind < SP_SUMMARY_N; kind++)
        for (int step = -6; step <= 6; step += 6) {
            scene s, one;
            const float factor = ldexpf(1, step);
            scene_open(&one, (sp_summary_kind)kind, HEAD, KV_HEADS, 3);
            scene_scaled(&s, (sp_summary_kind)kind, HEAD, KV_HEADS, 3, factor);
            const size_t bytes = KV_HEADS * N_BLOCKS * sp_summary_bytes((sp_summary_kind)kind, HEAD);
            assert_memory_equal(s.view.base, one.view.base, bytes);
            for (int i = 0; i < KV_HEADS * N_BLOCKS; i++)
                assert_true(one.view.scale[i] > 0 && s.view.scale[i] == factor * one.view.scale[i]);
            scene_close(&s);
            scene_close(&one);
        }
}

/* What a summary says of keys, against the stored keys themselves: keys in 4 bits are rounded to the nearest, and the
 * scale of codes is the length of a block's longest key, wherever it is in the block. */
static void summaries_are_of_the_stored_keys(void **state)
{
    enum { HEAD = 40, KV_HEADS = 2 };
    float key[SP_HEAD_MAX], value[SP_HEAD_MAX];
    for (int kind = SP_SUMMARY_HASH128; kind < SP_SUMMARY_N; kind++) {
        scene s;
        scene_open(&s, (sp_summary_kind)kind, HEAD, KV_HEADS, 1);
        for (int at = 0; at < KV_HEADS * N_BLOCKS; at++) {
            const uint8_t *of = s.view.base + (size_t)at * sp_summary_bytes((sp_summary_kind)kind, HEAD);
            const float scale = s.view.scale[at];
            float longest = 0;
            for (int t = 0; t < B; t++) {
                const sp_kv_slot slot = {.block = (uint32_t)(at % N_BLOCKS), .slot = (uint8_t)t};
                float square = 0;
                sp_kv_read(&s.kv, &slot, at / N_BLOCKS, key, value);
                for (int d = 0; d < HEAD; d++) square += key[d] * key[d];
                longest = SP_MAX(longest, square);
                for (int d = 0; kind == SP_SUMMARY_KEYS4 && d < HEAD; d++) {
                    const int rounded = (of[sp_keys4_at(d, t)] >> t / 8 * 4 & 15) - 8;
                    assert_true(fabsf((float)rounded * scale - key[d]) <= 0.501f * scale);
                }
            }
            if (kind != SP_SUMMARY_KEYS4) assert_true(fabsf(scale / sqrtf(longest) - 1) < 1e-5f);
        }
        scene_close(&s);
    }
}

/* Slots of a last block that hold no key are summarized as its first key, whatever is in them. */
static void slots_without_a_key_are_like_the_first(void **state)
{
    enum { HEAD = 32, KEYS = 5 };
    scene s;
    uint32_t block = 3;
    uint8_t n = KEYS;
    scene_open(&s, SP_SUMMARY_KEYS4, HEAD, 1, 1);
    sp_summarize(&(sp_summarize_args){&s.kv, &s.view, &block, &n, 1}, 0, 1);
    const uint8_t *of = s.view.base + block * sp_summary_bytes(SP_SUMMARY_KEYS4, HEAD);
    for (int d = 0; d < HEAD; d++)
        for (int t = KEYS; t < B; t++)
            assert_int_equal(of[sp_keys4_at(d, t)] >> t / 8 * 4 & 15, of[sp_keys4_at(d, 0)] & 15);
    scene_close(&s);
}

static void equals_ref(void **state)
{
    static const struct {
        int head, n_kv, group;
    } shapes[] = {{64, 2, 7}, {128, 1, 4}, {80, 2, 1}, {16, 3, 12}, {256, 1, 8}, {96, 1, 5}};
    const size_t n_shapes = SP_COUNT(shapes);
    const char *ops = variant(state)->name;
    for (size_t i = 0; i < n_shapes * SP_SUMMARY_N; i++) {
        const int head = shapes[i % n_shapes].head, n_kv = shapes[i % n_shapes].n_kv;
        const int group = shapes[i % n_shapes].group;
        scene s;
        uint32_t block[N_BLOCKS], want[3 * 5], got[3 * 5];
        scene_open(&s, (sp_summary_kind)(i / n_shapes), head, n_kv, group);
        for (uint32_t b = 0; b < N_BLOCKS; b++) block[b] = b * 7 % N_BLOCKS;
        const size_t n = sp_pick_scratch(N_BLOCKS, n_kv * group, n_kv);
        float *a = sp_alloc_zero(n, sizeof *a), *b = sp_alloc_zero(n, sizeof *b);
        float *q = random_floats(&s.seed, n_kv * group * head, 3);
        sp_pick_req req = request(&s, q, block, &everything, want);
        score(&s, "ref", &req, a);
        score(&s, ops, &req, b);
        assert_same_bits(b, a, (int64_t)n);
        take(&s, "ref", &req, a);
        req.picked = got;
        take(&s, ops, &req, b);
        assert_same_bits(b, a, (int64_t)n); /* what each block would be given */
        assert_memory_equal(got, want, (size_t)(5 * n_kv) * sizeof *got);
        sp_free(a);
        sp_free(b);
        sp_free(q);
        scene_close(&s);
    }
}

/* One head, so that the combined score orders as its own, but for scores that are nearly equal. Two
 * blocks are given twice: equal scores. With a large query the first block gets nearly all of the attention: the
 * others differ nevertheless. */
static void takes_the_best_of(float size)
{
    scene s;
    uint32_t block[N_BLOCKS], picked[N_BLOCKS];
    scene_open(&s, SP_SUMMARY_BOUNDS, 32, 1, 1);
    number(block);
    block[30] = block[3];
    block[31] = block[4];
    float *q = random_floats(&s.seed, 32, size);
    float *scratch = sp_alloc(sp_pick_scratch(N_BLOCKS, 1, 1), sizeof *scratch);
    for (int k = 0; k <= N_BLOCKS; k++) {
        sp_pick_req req = request(&s, q, block, &everything, picked);
        bool taken[N_BLOCKS] = {false};
        float own[N_BLOCKS];
        req.k = k;
        score(&s, "ref", &req, scratch);
        for (int i = 0; i < N_BLOCKS; i++) own[i] = scratch[i * SP_PICK_ROWS];
        take(&s, "ref", &req, scratch);
        for (int i = 0; i < k; i++) {
            assert_true(i == 0 || picked[i] > picked[i - 1]);
            taken[picked[i]] = true;
        }
        for (int i = 0; i < N_BLOCKS; i++)
            for (int j = 0; j < N_BLOCKS; j++) {
                const float x = own[i], y = own[j];
                if (taken[j] && !taken[i]) assert_true(x < y + 1e-4f && (x != y || i > j));
            }
    }
    sp_free(q);
    sp_free(scratch);
    scene_close(&s);
}

static void takes_the_best(void **state)
{
    takes_the_best_of(1);
    takes_the_best_of(16);
}

/* pick_in_stages -- with n_proposed candidates for the second stage. */
static void pick_in_stages(const scene *s, const sp_summary_view *fine, const char *ops,
                           sp_pick_req *req, int32_t n_proposed)
{
    const size_t n = sp_pick_scratch(N_BLOCKS, s->n_kv * s->group, s->n_kv);
    float *scratch = sp_alloc(n, sizeof *scratch);
    sp_pick_args a = args_of(s, req, scratch);
    memset(req->hit, 2, (size_t)s->n_kv);
    req->n_proposed = n_proposed;
    a.fine = fine;
    for (int part = 0; part < 3; part++) sp_pick_score(&a, sp_summary_ops_of(ops), part, 3);
    for (int part = 0; part < 2; part++) sp_pick_take(&a, sp_summary_ops_of(ops), part, 2);
    for (int part = 0; part < 3; part++) sp_pick_fine_score(&a, sp_summary_ops_of(ops), part, 3);
    for (int part = 0; part < 2; part++) sp_pick_fine_take(&a, sp_summary_ops_of(ops), part, 2);
    sp_free(scratch);
}

static bool has(const uint32_t *list, int n, uint32_t x)
{
    for (int i = 0; i < n; i++)
        if (list[i] == x) return true;
    return false;
}

static void stages(void **state)
{
    enum { H = 14, D = 80, G = 2, K = 5 };
    const char *ops = variant(state)->name;
    const sp_pick_run runs[] = {{0, 7, 0}, {7, 20, 300}, {27, N_BLOCKS - 27, 40}};
    scene first, second;
    uint32_t block[N_BLOCKS], coarse[G * K], fine[G * K], both[G * K], proposed[G * 12];
    scene_open(&first, SP_SUMMARY_BOUNDS, D, G, H / G);
    scene_open(&second, SP_SUMMARY_KEYS4, D, G, H / G);
    for (uint32_t b = 0; b < N_BLOCKS; b++) block[b] = b * 7 % N_BLOCKS;
    float *q = random_floats(&first.seed, H * D, 2);
    sp_pick_req req = request(&first, q, block, runs, coarse);
    req.n_runs = SP_COUNT(runs);
    pick_in_stages(&first, NULL, ops, &req, 0);
    req.picked = fine;
    pick_in_stages(&second, NULL, ops, &req, 0);
    assert_memory_not_equal(coarse, fine, sizeof fine);
    req.picked = both;
    pick_in_stages(&first, &second.view, ops, &req, N_BLOCKS);
    assert_memory_equal(both, fine, sizeof both);
    pick_in_stages(&first, &second.view, ops, &req, K);
    assert_memory_equal(both, coarse, sizeof both);
    pick_in_stages(&first, &second.view, ops, &req, 12);
    req.picked = proposed;
    req.k = 12;
    pick_in_stages(&first, NULL, ops, &req, 0);
    for (int i = 0; i < G * K; i++) {
        assert_true(has(proposed + i / K * 12, 12, both[i]));
        assert_true(i % K == 0 || both[i] > both[i - 1]);
    }
    sp_free(q);
    scene_close(&first);
    scene_close(&second);
}

/* score_of -- by the definition of keys in 4 bits: the largest product of a block's keys with the query, which is
 * rotated for the position that the shift gives it. Sets the largest error that rounding the query makes. */
static float score_of(const scene *s, const float *q, uint32_t block, int g, int32_t shift, float *error)
{
    const size_t at = (size_t)g * N_BLOCKS + block;
    const uint8_t *of = s->view.base + at * sp_summary_bytes(SP_SUMMARY_KEYS4, s->head);
    float x[SP_HEAD_MAX], most = -INFINITY, largest = 0;
    memcpy(x, q, (size_t)s->head * sizeof *x);
    sp_rope_rotate(&s->rope, x, N_POS - 1 - shift);
    for (int d = 0; d < s->head; d++) largest = SP_MAX(largest, fabsf(x[d]));
    *error = 0;
    for (int t = 0; t < B; t++) {
        float sum = 0, size = 0;
        for (int d = 0; d < s->head; d++) {
            const float key = (float)((of[sp_keys4_at(d, t)] >> t / 8 * 4 & 15) - 8) * s->view.scale[at];
            sum += x[d] * key;
            size += fabsf(key);
        }
        most = SP_MAX(most, sum);
        *error = SP_MAX(*error, 0.501f * largest / 127 * size);
    }
    return most;
}

/* Of two requests, groups of more heads than are scored at once, and runs of blocks with shifts of their own. */
static void scores_are_those_of_each_query(void **state)
{
    enum { D = 32, G = 2, GROUP = 12, FEWER = 9 };
    static const sp_pick_run runs[] = {{0, 7, 0}, {7, 20, 300}, {27, N_BLOCKS - 27, 40}}, few = {0, FEWER, 5};
    scene s;
    uint32_t block[N_BLOCKS], picked[2][G * 5];
    scene_open(&s, SP_SUMMARY_KEYS4, D, G, GROUP);
    for (uint32_t b = 0; b < N_BLOCKS; b++) block[b] = b * 7 % N_BLOCKS;
    float *q = random_floats(&s.seed, 2 * G * GROUP * D, 2);
    const size_t of_first = sp_pick_scratch(FEWER, G * GROUP, G), of_second = sp_pick_scratch(N_BLOCKS, G * GROUP, G);
    float *scratch = sp_alloc(of_first + of_second, sizeof *scratch);
    sp_pick_req reqs[] = {request(&s, q, block, &few, picked[0]),
                          request(&s, q + G * GROUP * D, block, runs, picked[1])};
    reqs[0].n = FEWER;
    reqs[1].n_runs = SP_COUNT(runs);
    sp_pick_args a = args_of(&s, reqs, scratch);
    a.n_reqs = 2;
    for (int part = 0; part < 3; part++) sp_pick_score(&a, sp_summary_ops_of("ref"), part, 3);
    for (int r = 0; r < 2; r++)
        for (int g = 0; g < G; g++) {
            const float *scores = scratch + (r ? of_first : 0) + (r ? of_second : of_first) / G * (size_t)g;
            for (int h = 0; h < GROUP; h++)
                for (int i = 0; i < reqs[r].n; i++) {
                    const int32_t shift = r == 0 ? 5 : i < 7 ? 0 : i < 27 ? 300 : 40;
                    const int row = h % SP_PICK_ROWS + h / SP_PICK_ROWS * reqs[r].n * SP_PICK_ROWS;
                    float error;
                    const float want = score_of(&s, reqs[r].q + (g * GROUP + h) * D, block[i], g, shift, &error);
                    assert_true(fabsf(scores[row + i * SP_PICK_ROWS] - want) <= error + 1e-3f);
                }
        }
    sp_free(q);
    sp_free(scratch);
    scene_close(&s);
}

/* By their own scores: with one query head for each KV head, sums over heads are in the same order. */
/* code_score -- by the definition: bits that agree less those that differ, with the nearest key of a block. */
static float code_score(const scene *s, const float *q, uint32_t block)
{
    const int bits = sp_hash_bits(s->view.kind), words = bits / 64;
    float keys[64 * B] = {0}, norm = 0;
    uint64_t code[B * SP_HASH_BITS_MAX / 64], key[B * SP_HASH_BITS_MAX / 64];
    int least = bits;
    for (int d = 0; d < s->head; d++) {
        keys[d * B] = q[d];
        norm += q[d] * q[d];
    }
    sp_hash_keys(keys, s->head, 1, bits, code);
    memcpy(key, s->view.base + block * sizeof *key * (size_t)(B * words), sizeof *key * (size_t)(B * words));
    for (int t = 0; t < B; t++) {
        int n = 0;
        for (int w = 0; w < words; w++) n += __builtin_popcountll(key[t * words + w] ^ code[w]);
        least = n < least ? n : least;
    }
    return (float)(bits - 2 * least) / (float)bits * sqrtf(norm) * s->view.scale[block];
}

/* They grow with the query, so that the heads of a group count by their size. */
static void scores_by_codes_are_those_of_the_nearest_key(void **state)
{
    enum { D = 64, HEADS = 3 };
    static const sp_pick_run unturned = {0, N_BLOCKS, N_POS - 1};
    static const float half[] = {1, 2, 0.25f};
    for (int kind = 0; kind < 2; kind++) {
        scene s;
        uint32_t block[N_BLOCKS], picked[5];
        scene_open(&s, kind ? SP_SUMMARY_HASH256 : SP_SUMMARY_HASH128, D, 1, HEADS);
        number(block);
        float *q = random_floats(&s.seed, HEADS * D, 2);
        float *scores = sp_alloc(sp_pick_scratch(N_BLOCKS, HEADS, 1), sizeof *scores);
        for (int i = 0; i < HEADS * D; i++) q[i] *= half[i / D];
        const sp_pick_req r = request(&s, q, block, &unturned, picked);
        score(&s, "ref", &r, scores);
        for (uint32_t b = 0; b < N_BLOCKS; b++)
            for (int h = 0; h < HEADS; h++) {
                const float want = code_score(&s, q + h * D, b), got = scores[b * SP_PICK_ROWS + (uint32_t)h];
                if (!(fabsf(got - want) <= 1e-4f * (1 + fabsf(want)))) fail_msg("%u %d: %g, not %g", b, h, got, want);
            }
        sp_free(q);
        sp_free(scores);
        scene_close(&s);
    }
}

static void the_second_stage_takes_the_best_proposed(void **state)
{
    enum { D = 80, G = 2, K = 5, PROPOSED = 12 };
    static const sp_pick_run runs[] = {{0, 7, 0}, {7, 20, 300}, {27, N_BLOCKS - 27, 40}};
    scene first, second;
    uint32_t block[N_BLOCKS], proposed[G * PROPOSED], both[G * K];
    scene_open(&first, SP_SUMMARY_BOUNDS, D, G, 1);
    scene_open(&second, SP_SUMMARY_KEYS4, D, G, 1);
    for (uint32_t b = 0; b < N_BLOCKS; b++) block[b] = b * 7 % N_BLOCKS;
    for (int round = 0; round < 20; round++) {
        float *q = random_floats(&first.seed, G * D, 2);
        sp_pick_req req = request(&first, q, block, runs, both);
        req.n_runs = SP_COUNT(runs);
        pick_in_stages(&first, &second.view, "ref", &req, PROPOSED);
        req.picked = proposed;
        req.k = PROPOSED;
        pick_in_stages(&first, NULL, "ref", &req, 0);
        for (int g = 0; g < G; g++)
            for (int i = 0; i < PROPOSED; i++)
                for (int k = 0; k < K; k++) {
                    const uint32_t in = both[g * K + k], out = proposed[g * PROPOSED + i];
                    if (has(both + g * K, K, out)) continue;
                    float e, f;
                    const int32_t shift_in = in < 7 ? 0 : in < 27 ? 300 : 40;
                    const int32_t shift_out = out < 7 ? 0 : out < 27 ? 300 : 40;
                    const float x = score_of(&second, q + g * D, block[in], g, shift_in, &e);
                    const float y = score_of(&second, q + g * D, block[out], g, shift_out, &f);
                    assert_true(x + e + f + 1e-3f >= y);
                }
        sp_free(q);
    }
    scene_close(&first);
    scene_close(&second);
}

static void labels(void **state)
{
    enum { H = 4, D = 32, G = 2 };
    scene s;
    uint32_t block[N_BLOCKS], picked[G * 5], first[G * 5];
    float label[H * D] = {0}, query[H * D], held[H * D];
    const float tau[G] = {0.9f, 0.9f}, weight[H] = {1, 1, 1, 0};
    scene_open(&s, SP_SUMMARY_BOUNDS, D, G, H / G);
    number(block);
    fill(&s.seed, query, H * D, 1);
    float *scratch = sp_alloc(sp_pick_scratch(N_BLOCKS, H, G), sizeof *scratch);
    sp_pick_req req = request(&s, query, block, &everything, picked);
    req.label = label;
    req.tau = tau;
    req.weight = weight;
    pick(&s, "ref", &req, scratch);
    assert_true(req.hit[0] == 0 && req.hit[1] == 0); /* there was no list */
    memcpy(first, picked, sizeof first);
    memcpy(held, label, sizeof held);
    for (int d = 0; d < D; d++) query[d] *= 1.5f;          /* the same direction */
    for (int d = 0; d < D; d++) query[3 * D + d] = -query[3 * D + d]; /* of no importance */
    memset(picked, 0xff, sizeof picked / 2);
    pick(&s, "ref", &req, scratch);
    assert_true(req.hit[0] == 1 && req.hit[1] == 1);
    assert_memory_equal(label, held, sizeof held);
    assert_int_equal(picked[0], UINT32_MAX); /* untouched */
    for (int d = 0; d < D; d++) query[d] = -query[d];
    pick(&s, "ref", &req, scratch);
    assert_true(req.hit[0] == 0 && req.hit[1] == 1);
    assert_true(memcmp(label, held, D * sizeof *label) != 0);
    assert_memory_equal(label + 2 * D, held + 2 * D, 2 * D * sizeof *label);
    assert_memory_equal(picked + 5, first + 5, 5 * sizeof *picked);
    pick(&s, "ref", &req, scratch);
    assert_true(req.hit[0] == 1 && req.hit[1] == 1);
    req.pos -= 1000; /* rotated queries are compared: far away the same one is another */
    pick(&s, "ref", &req, scratch);
    assert_true(req.hit[0] == 0 && req.hit[1] == 0);
    sp_free(scratch);
    scene_close(&s);
}

static void similarity_is_the_weighted_harmonic_mean(void **state)
{
    const float sim[] = {0.5f, 1, 0.25f}, weight[] = {1, 2, 1}, none[] = {0, 0, 0};
    const float far[] = {0.5f, -0.1f, 1};
    assert_float_equal(sp_head_similarity(sim, weight, 3), 4.0f / (2 + 2 + 4), 1e-6f);
    assert_float_equal(sp_head_similarity(sim, NULL, 3), 0.25f, 0);
    assert_float_equal(sp_head_similarity(sim, none, 3), 0.25f, 0);
    assert_float_equal(sp_head_similarity(far, weight, 3), -0.1f, 0);
}

/* Every table of operations that is not "ref" has fast summaries; those of AMX have the ones of VNNI. */
static void every_variant_has_summaries(void **state)
{
    static const char *const all[] = {"avx2", "avxvnni", "avx512", "vnni", "amx", "amx-f16", "amx-attend",
                                      "amx-f16-attend", "neon", "i8mm"};
    const sp_summary_ops *ref = sp_summary_ops_of("ref");
    const sp_ops *ops;
    (void)state;
    for (size_t i = 0; i < SP_COUNT(all); i++) {
        const sp_summary_ops *s = sp_summary_ops_of(all[i]);
        if (sp_ops_select(all[i], &ops) == SP_OK) assert_ptr_not_equal(s->combine, ref->combine);
        if (strncmp(all[i], "amx", 3) == 0) assert_ptr_equal(s->score_hash, sp_summary_ops_of("vnni")->score_hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(bounds_are_those_of_each_channel),
        cmocka_unit_test(keys_that_are_not_usual_are_like_zeros),
        cmocka_unit_test(codes_are_those_of_every_version),
        cmocka_unit_test(small_keys_have_the_bounds_of_large_ones),
        cmocka_unit_test(summaries_are_of_the_stored_keys),
        cmocka_unit_test(slots_without_a_key_are_like_the_first),
        ON_EVERY_VARIANT(equals_ref),
        ON_EVERY_VARIANT(stages),
        cmocka_unit_test(takes_the_best),
        cmocka_unit_test(scores_are_those_of_each_query),
        cmocka_unit_test(scores_by_codes_are_those_of_the_nearest_key),
        cmocka_unit_test(the_second_stage_takes_the_best_proposed),
        cmocka_unit_test(labels),
        cmocka_unit_test(similarity_is_the_weighted_harmonic_mean),
        cmocka_unit_test(every_variant_has_summaries),
    };
    return cmocka_run_group_tests_name("summaries", tests, NULL, NULL);
}
