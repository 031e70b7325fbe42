/* The path index against a naive model of it: a list of paths, searched from end to end.
 *
 * Prompts come and go in random order, several at a time, as under a scheduler that computes them
 * in pieces. After each step the ledger must have found what the model finds, hold what the model
 * holds, and have dropped what the model dropped, in the same order. */
#include "support/small_kv.h"

#include "cache/by_path.h"

enum { N_SEGS = 40, MAX_TOKENS = 80, DEPTH = 6, MAX_NODES = 512, N_OPEN = 5, N_BLOCKS = 96 };

/* -- the model ------------------------------------------------------------------------------ */

typedef struct path {
    int n, seg[DEPTH]; /* numbers of segments */
} path;

typedef struct entry {
    path p;
    uint32_t block; /* its first block, which tells nodes apart: none is shared here */
    int n_pins;
    long used; /* when, in touches */
} entry;

typedef struct prompt {
    bool open;
    path wanted;
    const sp_copy *copies[DEPTH]; /* [tip.n] found, then added */
    const sp_copy *copy_of_partial;
    path tip;     /* as the model has it */
    path partial; /* n = 0: none */
} prompt;

typedef struct world {
    int32_t tokens[N_SEGS][MAX_TOKENS];
    sp_segment segs[N_SEGS];
    entry nodes[MAX_NODES];
    int n_nodes;
    long n_touches, n_evicted;
    int32_t n_blocks, max_blocks;
    prompt prompts[N_OPEN];
    sp_kv_pool *pool;
    sp_ledger *ledger;
    uint64_t seed;
    int64_t now;
    int n_whole, n_partial, n_refused; /* how often the interesting cases came up */
} world;

static bool starts_with(const path *p, const path *start)
{
    return p->n >= start->n && memcmp(p->seg, start->seg, (size_t)start->n * sizeof(int)) == 0;
}

static entry *find(world *w, const path *p)
{
    for (int i = 0; i < w->n_nodes; i++)
        if (w->nodes[i].p.n == p->n && starts_with(&w->nodes[i].p, p)) return &w->nodes[i];
    return NULL;
}

static int32_t blocks_of(const world *w, const path *p)
{
    return small_blocks(w->segs[p->seg[p->n - 1]].n);
}

static void touch_up(world *w, path p)
{
    for (; p.n > 0; p.n--) find(w, &p)->used = ++w->n_touches;
}

static bool is_leaf(const world *w, const entry *e)
{
    for (int i = 0; i < w->n_nodes; i++)
        if (w->nodes[i].p.n > e->p.n && starts_with(&w->nodes[i].p, &e->p)) return false;
    return true;
}

static bool drop_oldest(world *w)
{
    entry *oldest = NULL;
    for (int i = 0; i < w->n_nodes; i++) {
        entry *e = &w->nodes[i];
        if (e->n_pins == 0 && is_leaf(w, e) && (!oldest || e->used < oldest->used)) oldest = e;
    }
    if (!oldest) return false;
    w->n_blocks -= blocks_of(w, &oldest->p);
    *oldest = w->nodes[--w->n_nodes];
    w->n_evicted++;
    return true;
}

static bool make_room(world *w, int32_t n_blocks)
{
    if (n_blocks > w->max_blocks) return false;
    while (w->n_blocks + n_blocks > w->max_blocks)
        if (!drop_oldest(w)) return false;
    return true;
}

static path shorter(const path *p, int n)
{
    path s = *p;
    s.n = n;
    return s;
}

static int known_depth(world *w, const path *wanted)
{
    for (int n = 0; n < wanted->n; n++) {
        path next = shorter(wanted, n + 1);
        if (!find(w, &next)) return n;
    }
    return wanted->n;
}

static int32_t shared_blocks(const sp_segment *a, const sp_segment *b)
{
    int32_t n = 0;
    while (n < SP_MIN(a->n, b->n) && a->tokens[n] == b->tokens[n]) n++;
    return n / SP_BLOCK_TOKENS;
}

/* best_partial -- most blocks that a child of `tip` shares with a segment. */
static int32_t best_partial(const world *w, const path *tip, const sp_segment *seg)
{
    int32_t best = 0;
    for (int i = 0; i < w->n_nodes; i++) {
        const path *p = &w->nodes[i].p;
        if (p->n != tip->n + 1 || !starts_with(p, tip)) continue;
        best = SP_MAX(best, shared_blocks(&w->segs[p->seg[tip->n]], seg));
    }
    return best;
}

static entry *by_block(world *w, uint32_t block)
{
    for (int i = 0; i < w->n_nodes; i++)
        if (w->nodes[i].block == block) return &w->nodes[i];
    fail_msg("the ledger has a copy that the model has not");
    return NULL;
}

/* -- steps ---------------------------------------------------------------------------------- */

static void begin(world *w, prompt *p)
{
    *p = (prompt){.open = true, .wanted.n = 1 + check_random(&w->seed, DEPTH)};
    sp_segment segs[DEPTH];
    for (int i = 0; i < p->wanted.n; i++) {
        int choice = i == 0 ? 3 : i == 1 ? 16 : N_SEGS; /* few in front, as of system prompts */
        p->wanted.seg[i] = check_random(&w->seed, choice);
        segs[i] = w->segs[p->wanted.seg[i]];
    }
    sp_path_match m = sp_by_path_find(w->ledger, segs, p->wanted.n, ++w->now, p->copies);

    p->tip = shorter(&p->wanted, known_depth(w, &p->wanted));
    assert_int_equal(m.n, p->tip.n);
    int32_t at = 0;
    for (int i = 0; i < p->tip.n; i++) {
        path here = shorter(&p->tip, i + 1);
        assert_int_equal(p->copies[i]->blocks[0], find(w, &here)->block);
        assert_int_equal(p->copies[i]->facts.at, at);
        at += segs[i].n;
    }
    w->n_whole += p->tip.n;
    int32_t shared = 0;
    if (p->tip.n < p->wanted.n) shared = best_partial(w, &p->tip, &segs[p->tip.n]);
    assert_int_equal(m.n_partial, shared * SP_BLOCK_TOKENS);
    p->copy_of_partial = m.partial;
    if (shared) { /* of equals, the index may choose */
        entry *e = by_block(w, m.partial->blocks[0]);
        assert_int_equal(e->p.n, p->tip.n + 1);
        assert_true(starts_with(&e->p, &p->tip));
        assert_int_equal(shared_blocks(&w->segs[e->p.seg[p->tip.n]], &segs[p->tip.n]), shared);
        p->partial = e->p;
        e->n_pins++;
        e->used = ++w->n_touches;
        w->n_partial++;
    } else {
        assert_null(m.partial);
    }
    if (p->tip.n) find(w, &p->tip)->n_pins++;
    touch_up(w, p->tip);
}

static void extend(world *w, prompt *p)
{
    if (p->tip.n == p->wanted.n) return;
    path next = shorter(&p->wanted, p->tip.n + 1);
    const sp_segment *seg = &w->segs[next.seg[next.n - 1]];
    int32_t n = small_blocks(seg->n);
    bool room = find(w, &next) || make_room(w, n);
    uint32_t blocks[DEPTH];
    const sp_copy *added = NULL;
    sp_copy_spec spec = {.seg = seg,
                         .facts.kind = SP_COPY_PATH,
                         .facts.exact = true,
                         .parent = p->tip.n ? p->copies[p->tip.n - 1] : NULL,
                         .blocks = blocks};
    assert_ok(sp_kv_acquire(w->pool, n, blocks));
    sp_kv_seal(w->pool, blocks, n);
    assert_ok(sp_ledger_add(w->ledger, &spec, w->now, &added));
    sp_kv_release(w->pool, blocks, n);
    assert_int_equal(added != NULL, room);
    w->n_refused += !room;
    if (!room) return;
    if (!find(w, &next)) {
        assert_in_range(w->n_nodes, 0, MAX_NODES - 1);
        w->nodes[w->n_nodes++] = (entry){.p = next, .block = blocks[0]};
        w->n_blocks += n;
    }
    if (p->tip.n) find(w, &p->tip)->n_pins--;
    find(w, &next)->n_pins++;
    sp_ledger_pin(w->ledger, added);
    p->copies[p->tip.n] = added;
    p->tip = next;
    touch_up(w, next);
}

static void release(world *w, prompt *p)
{
    if (p->tip.n) find(w, &p->tip)->n_pins--;
    if (p->partial.n) find(w, &p->partial)->n_pins--;
    for (int i = 0; i < p->tip.n; i++) sp_ledger_unpin(w->ledger, p->copies[i]);
    if (p->copy_of_partial) sp_ledger_unpin(w->ledger, p->copy_of_partial);
    p->open = false;
}

static void evict(world *w)
{
    int32_t n_free = N_BLOCKS - w->n_blocks, wanted = n_free - 2 + check_random(&w->seed, 12);
    bool had = sp_ledger_free_up(w->ledger, wanted), can = true;
    while (N_BLOCKS - w->n_blocks < wanted && can) can = drop_oldest(w);
    assert_int_equal(had, can);
    assert_true(n_free <= N_BLOCKS - w->n_blocks);
}

static void compare(world *w)
{
    sp_ledger_stats st = sp_ledger_stats_of(w->ledger);
    assert_int_equal(st.n_copies, w->n_nodes);
    assert_int_equal(st.n_blocks, w->n_blocks);
    assert_int_equal(st.n_evicted, w->n_evicted);
    assert_true(st.n_blocks <= st.max_blocks); /* I4 */
    assert_int_equal(sp_kv_pool_n_free(w->pool), N_BLOCKS - w->n_blocks);
    for (int i = 0; i < w->n_nodes; i++) {
        assert_int_equal(sp_kv_refs(w->pool, w->nodes[i].block), 1); /* I1 */
        assert_true(sp_kv_is_sealed(w->pool, w->nodes[i].block));
    }
    for (int i = 0; i < N_OPEN; i++)
        if (w->prompts[i].open && w->prompts[i].tip.n)
            assert_non_null(find(w, &w->prompts[i].tip)); /* I3 */
}

/* -- the run -------------------------------------------------------------------------------- */

/* Segments of five families; those of one begin alike, for one to five blocks. Every eighth has the
 * id of the one before it, which is a lie that the tokens must reveal. */
static void make_segments(world *w)
{
    for (int s = 0; s < N_SEGS; s++) {
        int32_t n = 1 + check_random(&w->seed, s % 5 ? MAX_TOKENS : 20);
        for (int32_t i = 0; i < n; i++) w->tokens[s][i] = s % 5 * 1000 + i;
        if (s % 2) w->tokens[s][check_random(&w->seed, n)] = -s;
        w->tokens[s][n - 1] = 10000 + s; /* no two are equal */
        w->segs[s] = small_segment(w->tokens[s], n);
        if (s % 8 == 7) w->segs[s].id = w->segs[s - 1].id;
    }
}

static void run(uint64_t seed, int32_t max_blocks, int n_steps)
{
    static world w;
    w = (world){.seed = seed, .max_blocks = max_blocks, .pool = small_pool(N_BLOCKS)};
    assert_ok(
        sp_ledger_create(&(sp_ledger_opts){.pool = w.pool, .max_blocks = max_blocks}, &w.ledger));
    make_segments(&w);
    for (int step = 0; step < n_steps; step++) {
        prompt *p = &w.prompts[check_random(&w.seed, N_OPEN)];
        int what = check_random(&w.seed, 100);
        if (!p->open)
            begin(&w, p);
        else if (what < 60)
            extend(&w, p);
        else if (what < 95)
            release(&w, p);
        else
            evict(&w);
        if (step % 1000 == 999) {
            sp_ledger_clear(w.ledger);
            while (drop_oldest(&w)) {
            }
        }
        compare(&w);
    }
    /* the interesting cases came up */
    assert_true(w.n_whole > n_steps / 10 && w.n_partial > n_steps / 250);
    assert_true(w.n_evicted > n_steps / 20 && (w.n_refused > 0) == (max_blocks < 20));
    for (int i = 0; i < N_OPEN; i++)
        if (w.prompts[i].open) release(&w, &w.prompts[i]);
    sp_ledger_destroy(w.ledger);
    small_pool_end(w.pool);
}

static void a_roomy_ledger_agrees_with_the_model(void **state)
{
    for (uint64_t seed = 1; seed <= 4; seed++) run(seed, 64, 4000);
}

static void a_tight_ledger_agrees_with_the_model(void **state)
{
    for (uint64_t seed = 11; seed <= 14; seed++) run(seed, 16, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_roomy_ledger_agrees_with_the_model),
        cmocka_unit_test(a_tight_ledger_agrees_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
