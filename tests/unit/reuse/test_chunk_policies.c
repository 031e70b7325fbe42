/* Chunks at any position: which plans full, random, blend and fusion make, and the fill before. */
#include <math.h>
#include <stdio.h>

#include "support/small_kv.h"

#include "cache/cache.h"
#include "reuse/reuse.h"

enum { B = SP_BLOCK_TOKENS, MAX_SEGS = 8, MAX_TOKENS = 80, ROOM = 21 };

static const char *const chunk_policies[] = {"full", "random", "blend", "fusion"};

typedef struct bench {
    sp_kv_pool *pool;
    sp_cache cache;
    sp_arena arena;
    int32_t tokens[MAX_SEGS][MAX_TOKENS];
    sp_segment segs[MAX_SEGS];
    sp_digest head[MAX_SEGS];
    int n_segs;
    sp_match match;
    const sp_variant *chunks[MAX_SEGS];
    sp_reuse_input in;
    sp_plan plan, probe;
} bench;

/* bench_begin -- a prompt of segments: letters of `kinds` say what they are (s, c, q, t), sizes how
 * long. Segment k says 100 k, 100 k + 1, ... unless it is made a twin of another. */
static void bench_begin(bench *b, const char *kinds, const int32_t *sizes)
{
    static const char letters[] = "scqt";
    *b = (bench){.pool = small_pool(200), .n_segs = (int)strlen(kinds)};
    assert_ok(sp_cache_init(&b->cache, b->pool, 200, 64, "lru"));
    for (int i = 0; i < b->n_segs; i++) {
        assert_in_range(sizes[i], 1, MAX_TOKENS);
        for (int32_t t = 0; t < sizes[i]; t++) b->tokens[i][t] = 100 * i + t;
        b->segs[i] = small_segment(b->tokens[i], sizes[i]);
        b->segs[i].kind = (sp_segment_kind)(strchr(letters, kinds[i]) - letters);
        b->head[i] = b->segs[i].id;
    }
}

static void bench_end(bench *b)
{
    sp_plan_fini(&b->plan);
    sp_plan_fini(&b->probe);
    for (int i = 0; i < b->n_segs; i++)
        if (b->chunks[i]) sp_chunks_unpin(b->cache.chunks, b->chunks[i]);
    sp_tree_release(b->cache.tree, &b->match);
    sp_cache_fini(&b->cache);
    sp_arena_fini(&b->arena);
    small_pool_end(b->pool);
}

/* twin -- segment i says what segment k says. */
static void twin(bench *b, int i, int k)
{
    memcpy(b->tokens[i], b->tokens[k], sizeof b->tokens[i]);
    b->segs[i] = small_segment(b->tokens[i], b->segs[k].n);
}

static void sealed(bench *b, int32_t n, uint32_t *blocks)
{
    assert_ok(sp_kv_acquire(b->pool, small_blocks(n), blocks));
    sp_kv_seal(b->pool, blocks, small_blocks(n));
}

/* know_head -- its first n segments are in the knowledge tree. */
static void know_head(bench *b, int n)
{
    sp_match m;
    assert_ok(sp_tree_match(b->cache.tree, b->segs, n, 1, &b->arena, &m));
    for (int i = 0; i < n; i++) {
        uint32_t blocks[MAX_TOKENS / B];
        bool added;
        sealed(b, b->segs[i].n, blocks);
        assert_ok(sp_tree_extend(b->cache.tree, &m, &b->segs[i], blocks, 1, &added));
        assert_true(added);
        sp_kv_release(b->pool, blocks, small_blocks(b->segs[i].n));
    }
    sp_tree_release(b->cache.tree, &m);
}

/* know_chunk -- segment i is in the chunk index, as computed at this position. */
static void know_chunk(bench *b, int i, int32_t at)
{
    uint32_t blocks[MAX_TOKENS / B];
    bool added;
    sealed(b, b->segs[i].n, blocks);
    assert_ok(sp_chunks_insert(b->cache.chunks, &b->segs[i], &(sp_variant){.before = b->head, .n_before = 1, .at = at, .blocks = blocks}, 1, &added));
    assert_true(added);
    sp_kv_release(b->pool, blocks, small_blocks(b->segs[i].n));
}

/* look_up -- as serve/ does. */
static const sp_reuse_input *look_up(bench *b, float recompute)
{
    int n_head = sp_reuse_n_head(b->segs, b->n_segs);
    assert_ok(sp_tree_match(b->cache.tree, b->segs, n_head, 2, &b->arena, &b->match));
    for (int i = 0; i < b->n_segs; i++)
        if (b->segs[i].kind == SP_SEG_CHUNK)
            b->chunks[i] = sp_chunks_find(b->cache.chunks, &b->segs[i], b->head, 1, 2);
    b->in = (sp_reuse_input){.segs = b->segs,
                             .n_segs = b->n_segs,
                             .n_head = n_head,
                             .match = &b->match,
                             .chunks = b->chunks,
                             .answer_room = ROOM,
                             .n_layers = 4,
                             .recompute = recompute};
    return &b->in;
}

static const sp_reuse_policy *policy(const char *name)
{
    const sp_reuse_policy *p = NULL;
    assert_ok(sp_reuse_find(name, &p));
    assert_string_equal(p->name, name);
    assert_true(p->uses_tree && p->uses_chunks);
    return p;
}

static void make_plan(bench *b, const char *name)
{
    sp_plan_fini(&b->plan);
    sp_plan_init(&b->plan, b->pool);
    assert_ok(policy(name)->plan(&b->in, &b->plan));
}

static void make_probe(bench *b, const char *name)
{
    sp_plan_init(&b->probe, b->pool);
    assert_ok(policy(name)->probe(&b->in, &b->probe));
    b->in.probed = &b->probe;
}

/* The usual prompt: a head in two pieces, four chunks of which two are equal, text between, a
 * question. */
static void usual(bench *b, float recompute)
{
    bench_begin(b, "sscctccq", (const int32_t[]){20, 5, 18, 33, 6, 70, 18, 9});
    twin(b, 6, 2);
    know_head(b, 2);
    know_chunk(b, 2, 25);
    know_chunk(b, 3, 25);
    know_chunk(b, 5, 25);
    look_up(b, recompute);
}

enum { USUAL_TOKENS = 18 + 33 + 70 + 18 };

/* -- what every plan that answers must be ----------------------------------------------------- */

typedef struct choice {
    bool of[MAX_SEGS][MAX_TOKENS];
    int n;
} choice;

static bool stale(const sp_span *s, int32_t t)
{
    return s->stale && (s->stale[t / 64] >> (t % 64) & 1);
}

static void assert_blocks(const sp_plan *p, int i, const uint32_t *blocks)
{
    assert_int_equal(p->slots[i].n_known, p->spans[i].n);
    assert_memory_equal(p->spans[i].blocks, blocks,
                        (size_t)small_blocks(p->spans[i].n) * sizeof *blocks);
}

/* assert_known_span -- segment i at its place, with the KV that the caches have of it. */
static void assert_known_span(const sp_reuse_input *in, const sp_plan *p, int i, int32_t place)
{
    const sp_span *s = &p->spans[i];
    assert_int_equal(s->n, in->segs[i].n);
    assert_int_equal(p->slots[i].room, s->n);
    assert_null(s->pos);
    assert_int_equal(s->at + s->shift, place);
    if (in->chunks[i]) {
        assert_int_equal(s->at, in->chunks[i]->at);
        assert_blocks(p, i, in->chunks[i]->blocks);
        return;
    }
    assert_int_equal(s->shift, 0);
    if (i < in->match->n_path)
        assert_blocks(p, i, sp_node_blocks(in->match->path[i]));
    else
        assert_int_equal(p->slots[i].n_known, 0);
}

static void assert_todo(const sp_plan *p, int t, int32_t token, int32_t pos, int span,
                        int32_t index)
{
    assert_in_range(t, 0, p->n_todo - 1);
    assert_int_equal(p->todo[t].token, token);
    assert_int_equal(p->todo[t].pos, pos);
    assert_int_equal(p->todo[t].span, span);
    assert_int_equal(p->todo[t].index, index);
    assert_int_equal(p->todo[t].see, 0);
}

/* assert_todos -- whatever is in no cache in its own span, the chosen in the private one, by
 * position. */
static void assert_todos(const sp_reuse_input *in, const sp_plan *p, const choice *c)
{
    int again = in->n_segs, t = 0;
    int32_t place = 0, k = 0;
    for (int i = 0; i < in->n_segs; i++) {
        for (int32_t x = 0; x < in->segs[i].n; x++, place++) {
            assert_int_equal(stale(&p->spans[i], x), c->of[i][x]);
            if (c->of[i][x]) {
                assert_int_equal(p->spans[again].pos[k], place);
                assert_todo(p, t++, in->segs[i].tokens[x], place, again, k++);
            } else if (p->slots[i].n_known == 0) {
                assert_todo(p, t++, in->segs[i].tokens[x], place, i, x);
            }
        }
    }
    assert_int_equal(p->n_todo, t);
    assert_int_equal(k, c->n);
}

static void assert_answer(bench *b, const choice *c)
{
    const sp_plan *p = &b->plan;
    int32_t place = 0;
    assert_int_equal(p->n_spans, b->n_segs + 1 + (c->n > 0));
    for (int i = 0; i < b->n_segs; i++) {
        assert_known_span(&b->in, p, i, place);
        place += b->segs[i].n;
    }
    if (c->n) {
        assert_int_equal(p->spans[b->n_segs].n, c->n);
        assert_int_equal(p->spans[b->n_segs].shift, 0);
        assert_int_equal(p->slots[b->n_segs].n_known, 0);
    }
    assert_int_equal(p->spans[p->n_spans - 1].n, 0);
    assert_int_equal(p->spans[p->n_spans - 1].at, place);
    assert_int_equal(p->slots[p->n_spans - 1].room, ROOM);
    assert_int_equal(p->n_sights, 1);
    assert_null(p->sights[0].list);
    assert_int_equal(p->sights[0].n, p->n_spans);
    assert_int_equal(p->probe.kind, SP_PROBE_NONE);
    assert_todos(&b->in, p, c);
    assert_ok(sp_plan_bind(&b->plan));
    assert_ok(sp_plan_check(p));
}

/* best -- the n chunk tokens of the highest scores, the earlier one of equals, found one by one. */
static choice best(const sp_reuse_input *in, float scores[MAX_SEGS][MAX_TOKENS], int n)
{
    choice c = {.n = n};
    for (int k = 0; k < n; k++) {
        int seg = -1, index = -1;
        for (int i = 0; i < in->n_segs; i++)
            for (int32_t t = 0; in->chunks[i] && t < in->segs[i].n; t++)
                if (!c.of[i][t] && (seg < 0 || scores[i][t] > scores[seg][index])) {
                    seg = i;
                    index = t;
                }
        assert_true(seg >= 0);
        c.of[seg][index] = true;
    }
    return c;
}

/* -- full ----------------------------------------------------------------------------------- */

static void test_full(void **state)
{
    bench b;
    usual(&b, 0.5f); /* which full does not heed */
    assert_false(sp_reuse_needs_fill(&b.in));
    make_plan(&b, "full");
    assert_answer(&b, &(choice){0});
    assert_int_equal(b.plan.n_todo, 6 + 9);
    for (int i = 0; i < b.n_segs; i++) assert_null(b.plan.spans[i].stale);
    assert_int_equal(b.plan.spans[3].shift, 18);
    assert_int_equal(b.plan.spans[6].shift, 18 + 33 + 6 + 70);
    assert_ptr_equal(b.chunks[2], b.chunks[6]);
    bench_end(&b);
}

/* Whatever could not be cached is computed where it stands; no policy chooses among it. */
static void test_unknown_is_computed(void **state)
{
    for (size_t i = 0; i < SP_COUNT(chunk_policies); i++)
        for (int head = 0; head <= 2; head++) {
            bench b;
            bench_begin(&b, "ssccq", (const int32_t[]){20, 5, 18, 33, 9});
            know_head(&b, head);
            if (head) know_chunk(&b, 3, 25);
            look_up(&b, 1);
            assert_true(sp_reuse_needs_fill(&b.in));
            make_plan(&b, chunk_policies[i]);
            choice c = {.n = head && i > 0 ? 33 : 0};
            for (int t = 0; t < c.n; t++) c.of[3][t] = true;
            assert_answer(&b, &c);
            bench_end(&b);
        }
}

static void test_no_head(void **state)
{
    bench b;
    bench_begin(&b, "cq", (const int32_t[]){18, 9});
    assert_int_equal(sp_reuse_n_head(b.segs, 2), 0);
    assert_int_equal(sp_reuse_n_head(b.segs, 0), 0);
    assert_int_equal(sp_reuse_n_head(b.segs + 1, 1), 1);
    look_up(&b, 0);
    assert_true(sp_reuse_needs_fill(&b.in));
    sp_plan_init(&b.plan, b.pool);
    assert_ok(sp_reuse_fill(&b.in, &b.plan));
    assert_int_equal(b.plan.n_todo, 18);
    assert_int_equal(b.plan.sights[0].n, 1);
    assert_int_equal(b.plan.spans[0].at, 0);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    make_plan(&b, "full");
    assert_answer(&b, &(choice){0});
    bench_end(&b);
}

/* -- choosing ------------------------------------------------------------------------------- */

static const float shares[] = {0, 0.001f, 0.125f, 0.25f, 0.5f, 0.75f, 0.999f, 1};

static int n_chosen_of(float share)
{
    return (int)ceil((double)share * USUAL_TOKENS - 1e-4);
}

/* Scores of few values, so that many are equal. */
static void random_scores(uint64_t *seed, float scores[MAX_SEGS][MAX_TOKENS])
{
    for (int i = 0; i < MAX_SEGS; i++)
        for (int t = 0; t < MAX_TOKENS; t++) scores[i][t] = (float)check_random(seed, 9) - 4;
}

static void test_fusion_chooses_the_highest_columns(void **state)
{
    uint64_t seed = 1;
    for (size_t k = 0; k < SP_COUNT(shares); k++) {
        bench b;
        float scores[MAX_SEGS][MAX_TOKENS];
        usual(&b, shares[k]);
        make_probe(&b, "fusion");
        random_scores(&seed, scores);
        for (int i = 0; i < b.n_segs; i++)
            if (b.probe.probe.columns[i])
                memcpy(b.probe.probe.columns[i], scores[i], (size_t)b.segs[i].n * sizeof(float));
        make_plan(&b, "fusion");
        choice c = best(&b.in, scores, n_chosen_of(shares[k]));
        assert_answer(&b, &c);
        bench_end(&b);
    }
}

static void test_blend_chooses_the_largest_deviations(void **state)
{
    uint64_t seed = 2;
    for (size_t k = 0; k < SP_COUNT(shares); k++) {
        bench b;
        float scores[MAX_SEGS][MAX_TOKENS];
        usual(&b, shares[k]);
        make_probe(&b, "blend");
        random_scores(&seed, scores);
        for (int t = 0; t < b.probe.n_todo; t++) {
            sp_twin w = b.probe.twins[t];
            b.probe.probe.deviation[t] = w.span < 0 ? 1000 : scores[w.span][w.index];
        }
        make_plan(&b, "blend");
        choice c = best(&b.in, scores, n_chosen_of(shares[k]));
        assert_answer(&b, &c);
        bench_end(&b);
    }
}

/* Without measures all tokens are equal, and the earlier ones go first. */
static void test_without_a_probe(void **state)
{
    for (size_t i = 2; i < SP_COUNT(chunk_policies); i++)
        for (size_t k = 0; k < SP_COUNT(shares); k++) {
            bench b;
            float scores[MAX_SEGS][MAX_TOKENS] = {{0}};
            usual(&b, shares[k]);
            make_plan(&b, chunk_policies[i]);
            choice c = best(&b.in, scores, n_chosen_of(shares[k]));
            assert_answer(&b, &c);
            bench_end(&b);
        }
}

static choice chosen_of(const bench *b)
{
    choice c = {0};
    for (int i = 0; i < b->n_segs; i++)
        for (int32_t t = 0; t < b->segs[i].n; t++) c.n += c.of[i][t] = stale(&b->plan.spans[i], t);
    return c;
}

static void test_random_is_spread_and_repeatable(void **state)
{
    choice smaller = {0};
    for (size_t k = 0; k < SP_COUNT(shares); k++) {
        bench b;
        usual(&b, shares[k]);
        assert_null(policy("random")->probe);
        make_plan(&b, "random");
        choice first = chosen_of(&b);
        assert_int_equal(first.n, n_chosen_of(shares[k]));
        assert_answer(&b, &first);
        make_plan(&b, "random");
        choice again = chosen_of(&b);
        assert_memory_equal(&first, &again, sizeof first);
        for (int i = 0; i < MAX_SEGS; i++)
            for (int t = 0; t < MAX_TOKENS; t++)
                if (smaller.of[i][t]) assert_true(first.of[i][t]); /* one order, cut at the share */
        smaller = first;
        if (shares[k] == 0.5f) { /* of a chunk of 70: about half, in both halves of it */
            int n[2] = {0};
            for (int t = 0; t < 70; t++) n[t / 35] += first.of[5][t];
            assert_in_range(n[0], 8, 27);
            assert_in_range(n[1], 8, 27);
        }
        bench_end(&b);
    }
}

/* -- probes --------------------------------------------------------------------------------- */

static void test_probe_of_fusion(void **state)
{
    bench b;
    usual(&b, 0.5f);
    make_probe(&b, "fusion");
    const sp_plan *p = &b.probe;
    int32_t place = 0;
    assert_int_equal(p->probe.kind, SP_PROBE_COLUMNS);
    assert_int_equal(p->probe.layer, 3);
    assert_int_equal(p->n_spans, b.n_segs);
    assert_int_equal(p->n_sights, 1);
    assert_null(p->sights[0].list);
    assert_int_equal(p->sights[0].n, b.n_segs);
    for (int i = 0; i < b.n_segs; i++) {
        assert_known_span(&b.in, p, i, place);
        place += b.segs[i].n;
        assert_int_equal(p->probe.columns[i] != NULL, b.chunks[i] != NULL);
        for (int32_t t = 0; p->probe.columns[i] && t < b.segs[i].n; t++)
            assert_true(p->probe.columns[i][t] == 0); /* the engine adds to it */
    }
    assert_todos(&b.in, p, &(choice){0}); /* the question, and the text between */
    assert_int_equal(p->n_todo, 6 + 9);
    assert_ok(sp_plan_bind(&b.probe));
    assert_ok(sp_plan_check(p));
    bench_end(&b);
}

static void test_probe_of_blend(void **state)
{
    bench b;
    usual(&b, 0.5f);
    make_probe(&b, "blend");
    const sp_plan *p = &b.probe;
    choice all = {.n = USUAL_TOKENS};
    int t = 0;
    assert_int_equal(p->probe.kind, SP_PROBE_DEVIATION);
    assert_int_equal(p->probe.layer, 1);
    assert_int_equal(p->n_spans, 8); /* without the question, with the private one */
    assert_int_equal(p->spans[7].n, USUAL_TOKENS);
    assert_int_equal(p->slots[7].n_known, 0);
    assert_int_equal(p->sights[0].n, 8);
    for (int i = 0; i < 7; i++)
        for (int32_t x = 0; x < b.segs[i].n; x++) {
            all.of[i][x] = b.chunks[i] != NULL;
            if (i < 2) continue; /* the head is known and has nothing to compute */
            assert_int_equal(p->twins[t].span, b.chunks[i] ? i : -1);
            if (b.chunks[i]) assert_int_equal(p->twins[t].index, x);
            t++;
        }
    sp_reuse_input front = b.in;
    front.n_segs = 7;
    assert_todos(&front, p, &all);
    assert_int_equal(p->n_todo, t);
    assert_ok(sp_plan_bind(&b.probe));
    assert_ok(sp_plan_check(p));
    sp_plan one;
    sp_plan_init(&one, b.pool);
    b.in.n_layers = 1; /* then the first layer has to do */
    assert_ok(policy("blend")->probe(&b.in, &one));
    assert_int_equal(one.probe.layer, 0);
    sp_plan_fini(&one);
    bench_end(&b);
}

/* -- fill ----------------------------------------------------------------------------------- */

static void fill(bench *b)
{
    sp_plan_init(&b->plan, b->pool);
    assert_ok(sp_reuse_fill(&b->in, &b->plan));
    assert_int_equal(b->plan.n_spans, b->n_segs);
    assert_int_equal(sp_reuse_needs_fill(&b->in), b->plan.n_todo > 0);
}

/* assert_fills -- span i is computed at `at`, all of it, and sees the spans named by the n digits.
 */
static void assert_fills(const bench *b, int i, int32_t at, const char *sees, int *t)
{
    const sp_plan *p = &b->plan;
    assert_int_equal(p->spans[i].n, b->segs[i].n);
    assert_int_equal(p->spans[i].at, at);
    assert_int_equal(p->spans[i].shift, 0);
    assert_int_equal(p->slots[i].n_known, 0);
    for (int32_t x = 0; x < b->segs[i].n; x++, ++*t) {
        const sp_todo *d = &p->todo[*t];
        const sp_sight *see = &p->sights[d->see];
        assert_in_range(*t, 0, p->n_todo - 1);
        assert_int_equal(d->token, b->segs[i].tokens[x]);
        assert_int_equal(d->pos, at + x);
        assert_int_equal(d->span, i);
        assert_int_equal(d->index, x);
        assert_int_equal(see->n, strlen(sees));
        for (int32_t k = 0; k < see->n; k++)
            assert_int_equal(see->list ? see->list[k] : k, sees[k] - '0');
    }
}

static void assert_empty(const bench *b, int i)
{
    assert_int_equal(b->plan.spans[i].n, 0);
    assert_int_equal(b->plan.slots[i].n_known, 0);
}

static void test_fill_of_all(void **state)
{
    bench b;
    int t = 0;
    bench_begin(&b, "sscctccq", (const int32_t[]){20, 5, 18, 33, 6, 70, 18, 9});
    twin(&b, 6, 2);
    look_up(&b, 0.5f);
    assert_int_equal(b.in.n_head, 2);
    fill(&b);
    assert_fills(&b, 0, 0, "0", &t);
    assert_fills(&b, 1, 20, "01", &t);
    assert_fills(&b, 2, 25, "012", &t);
    assert_fills(&b, 3, 25, "013", &t);
    assert_empty(&b, 4); /* text between */
    assert_fills(&b, 5, 25, "015", &t);
    assert_empty(&b, 6); /* the second of two equal ones */
    assert_empty(&b, 7); /* the question */
    assert_int_equal(b.plan.n_todo, t);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 2 + 1 + 2 + 3 + 5);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    bench_end(&b);
}

static void test_fill_of_what_is_missing(void **state)
{
    bench b;
    int t = 0;
    bench_begin(&b, "sscctccq", (const int32_t[]){20, 5, 18, 33, 6, 70, 18, 9});
    know_head(&b, 1);
    know_chunk(&b, 2, 25);
    know_chunk(&b, 5, 25);
    look_up(&b, 0);
    fill(&b);
    assert_blocks(&b.plan, 0, sp_node_blocks(b.match.path[0]));
    assert_int_equal(b.plan.spans[0].n, 20);
    assert_fills(&b, 1, 20, "01", &t);
    assert_fills(&b, 3, 25, "013", &t);
    assert_fills(&b, 6, 25, "016", &t);
    for (int i = 2; i < 8; i++)
        if (i != 3 && i != 6) assert_empty(&b, i);
    assert_int_equal(b.plan.n_todo, t);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 1 + 3 + 2);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    bench_end(&b);
}

static void test_fill_of_nothing(void **state)
{
    bench b;
    usual(&b, 0.5f);
    fill(&b);
    assert_int_equal(b.plan.n_todo, 0);
    assert_int_equal(b.plan.n_sights, 0);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 0);
    bench_end(&b);
}

/* -- out of memory -------------------------------------------------------------------------- */

typedef sp_err maker(const sp_reuse_input *in, sp_plan *plan);

/* made -- a plan that is given up at once. */
static sp_err made(bench *b, maker *make)
{
    sp_plan p;
    sp_plan_init(&p, b->pool);
    sp_err err = make(&b->in, &p);
    sp_plan_fini(&p);
    return err;
}

/* refs -- holders of all blocks together: a plan given up holds none. */
static uint64_t refs(const bench *b)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < sp_kv_pool_n_blocks(b->pool); i++)
        n += sp_kv_refs(b->pool, (uint32_t)i);
    return n;
}

static void test_without_memory(void **state)
{
    bench b;
    usual(&b, 0.5f);
    uint64_t before = refs(&b);
    for (size_t i = 0; i < SP_COUNT(chunk_policies); i++) {
        const sp_reuse_policy *p = policy(chunk_policies[i]);
        assert_survives_faults(made(&b, p->plan), refs(&b) == before);
        if (p->probe) assert_survives_faults(made(&b, p->probe), refs(&b) == before);
        assert_int_equal(p->selects, i > 0);
        assert_int_equal(p->probe != NULL, i > 1);
    }
    assert_survives_faults(made(&b, sp_reuse_fill), refs(&b) == before);
    assert_true(refs(&b) == before);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_unknown_is_computed),
        cmocka_unit_test(test_no_head),
        cmocka_unit_test(test_fusion_chooses_the_highest_columns),
        cmocka_unit_test(test_blend_chooses_the_largest_deviations),
        cmocka_unit_test(test_without_a_probe),
        cmocka_unit_test(test_random_is_spread_and_repeatable),
        cmocka_unit_test(test_probe_of_fusion),
        cmocka_unit_test(test_probe_of_blend),
        cmocka_unit_test(test_fill_of_all),
        cmocka_unit_test(test_fill_of_what_is_missing),
        cmocka_unit_test(test_fill_of_nothing),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
