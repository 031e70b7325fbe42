/* test_copy_machine.c -- the states of copies, exhaustively: every sequence of DEPTH steps of loads, evictions,
 * cancellations, pins and losses over a path of two copies and a chunk, from their having been swapped out.
 * After each step the invariants of ledger.h hold, and at the end everything can be given back. */
#include "support/copy_bench.h"
#include "support/path_bench.h"

enum { DEPTH = 5, BLOCKS = 8, N = 3 /* a system prompt, a chunk after it, a chunk anywhere */ };

typedef enum action {
    PIN,
    UNPIN,
    BEGIN,  /* a load */
    HEAD,   /* its header is there */
    END,    /* it is acknowledged */
    FAIL,   /* the tier has the copy no more */
    CANCEL, /* nobody wants it any more */
    FORGET, /* the host drops it */
    N_OF_ONE,
    EVICT = N * N_OF_ONE, /* as many as may go; they go to the host */
    LOSE,                 /* the device's memory */
    N_ACTIONS,
} action;

typedef struct machine {
    bench b;
    sp_segment segs[N];
    const sp_copy *copies[N]; /* the test pins each of them, so that they can be named */
    int pins[N];
    int n_states[3]; /* how often each state was seen */
    int64_t n_sequences;
} machine;

static void leaving(void *user, const sp_copy *c)
{
    machine *m = user;
    sp_ledger_placed(m->b.ledger, c, SP_AT_HOST);
}

static void useless(void *user, const sp_copy *c, unsigned places)
{
    assert_true(places & (SP_AT_HOST | SP_AT_DISK));
}

/* start -- all three are on the host alone, each with one pin: FREE. */
static void start(machine *m)
{
    bench_begin(&m->b, BLOCKS, BLOCKS);
    sp_ledger_set_tiers(m->b.ledger,
                        &(sp_ledger_tiers){.leaving = leaving, .useless = useless, .user = m});
    for (int i = 0; i < N; i++) m->segs[i] = numbered(100 * i, 20), m->pins[i] = 1;
    learn(&m->b, m->segs, 2);
    enter(&m->b, &m->segs[2],
          computed_after(SP_COPY_PLAIN, 1));
    while (evict_one(&m->b)) {
    }
    const sp_path_query q = {.segs = m->segs, .n_segs = 2};
    assert_int_equal(sp_by_path_match(m->b.ledger, &q, ++m->b.now, m->copies).n, 2);
    m->copies[2] = find_copy(&m->b, &m->segs[2]);
    for (int i = 0; i < N; i++) assert_int_equal(m->copies[i]->state, SP_COPY_FREE);
}

static bool is_allowed(const machine *m, int a)
{
    if (a >= EVICT) return true;
    const sp_copy *c = m->copies[a / N_OF_ONE];
    const bool waits = c->parent && c->parent->state == SP_COPY_LOADING;
    switch (a % N_OF_ONE) {
    case PIN: return m->pins[a / N_OF_ONE] < 2;
    case UNPIN: return m->pins[a / N_OF_ONE] > 1;
    case BEGIN: return sp_copy_loadable(c);
    case HEAD: return c->state == SP_COPY_LOADING && !c->has_head;
    case END: return c->state == SP_COPY_LOADING && !waits;
    case FORGET: return c->places & SP_AT_HOST && c->state != SP_COPY_LOADING;
    default: return c->state == SP_COPY_LOADING;
    }
}

static void act(machine *m, int a)
{
    sp_ledger *l = m->b.ledger;
    const sp_copy_facts loaded = {.before = before, .n_before = 1, .at = 7};
    if (a == EVICT) sp_ledger_free_up(l, BLOCKS);
    if (a == LOSE) sp_ledger_lose_device(l);
    if (a >= EVICT) return;
    const sp_copy *c = m->copies[a / N_OF_ONE];
    const bool lost = c->parent && c->parent->state == SP_COPY_FREE;
    switch (a % N_OF_ONE) {
    case PIN: m->pins[a / N_OF_ONE]++, sp_ledger_pin(l, c); break;
    case UNPIN: m->pins[a / N_OF_ONE]--, sp_ledger_unpin(l, c); break;
    case BEGIN: {
        sp_err err = sp_ledger_load_begin(l, c, &m->segs[a / N_OF_ONE], 0);
        assert_int_equal(err, lost ? SP_E_NOKV : SP_OK);
        break;
    }
    case HEAD: assert_ok(sp_ledger_load_head(l, c, &loaded)); break;
    case END: {
        sp_err err = sp_ledger_load_end(l, c, &loaded, SP_AT_HOST, ++m->b.now);
        assert_int_equal(err, lost ? SP_E_NOTFOUND : SP_OK);
        break;
    }
    case FAIL: assert_ok(sp_ledger_load_end(l, c, NULL, SP_AT_HOST, ++m->b.now)); break;
    case CANCEL: assert_ok(sp_ledger_load_end(l, c, NULL, (sp_place)0, ++m->b.now)); break;
    case FORGET: sp_ledger_unplaced(l, c, SP_AT_HOST); break;
    }
}

static void check(machine *m)
{
    int64_t n_blocks = 0;
    for (int i = 0; i < N; i++) {
        const sp_copy *c = m->copies[i];
        const bool loading = c->state == SP_COPY_LOADING, has = c->state != SP_COPY_FREE;
        m->n_states[c->state]++;
        assert_int_equal(c->n_pins, m->pins[i] + loading);
        assert_int_equal((c->places & SP_AT_DEVICE) != 0, c->state == SP_COPY_READY);
        assert_int_equal(c->blocks != NULL, has);
        assert_int_equal(c->host != NULL, (c->places & SP_AT_HOST) != 0);
        for (int k = 0; has && k < small_blocks(20); k++) { /* I1 */
            assert_int_equal(sp_kv_is_sealed(m->b.pool, c->blocks[k]), !loading);
            assert_int_equal(sp_kv_refs(m->b.pool, c->blocks[k]), 1);
        }
        n_blocks += has ? small_blocks(20) : 0;
        if (c->facts.kind == SP_COPY_PATH) assert_true(c->tokens && c->n == 20);
        if (!c->parent) continue;
        assert_ptr_equal(c->parent, m->copies[0]); /* I7 */
        if (c->state == SP_COPY_READY) assert_int_equal(c->parent->state, SP_COPY_READY);
        if (c->places) assert_true(c->parent->places || c->parent->state != SP_COPY_FREE);
        assert_int_equal(c->parent->children.n, has);
    }
    assert_int_equal(stats_of(&m->b).n_blocks, n_blocks);
    assert_int_equal(sp_kv_pool_n_free(m->b.pool), BLOCKS - n_blocks);
}

/* finish -- what is loading ends, children last; everything is given back. */
static void finish(machine *m)
{
    for (int i = 0; i < N; i++) {
        if (m->copies[i]->state == SP_COPY_LOADING)
            assert_ok(sp_ledger_load_end(m->b.ledger, m->copies[i], NULL, (sp_place)0, ++m->b.now));
    }
    for (int i = N; i-- > 0;)
        for (; m->pins[i]; m->pins[i]--) sp_ledger_unpin(m->b.ledger, m->copies[i]);
    bench_end(&m->b);
}

/* explore -- all sequences that begin with steps [n]. */
static void explore(machine *m, int *steps, int n)
{
    bool allowed[N_ACTIONS] = {0};
    start(m);
    for (int i = 0; i < n; i++) {
        act(m, steps[i]);
        if (i == n - 1) check(m);
    }
    for (int a = 0; a < N_ACTIONS; a++) allowed[a] = is_allowed(m, a);
    finish(m);
    m->n_sequences++;
    for (int a = 0; n < DEPTH && a < N_ACTIONS; a++) {
        if (!allowed[a]) continue;
        steps[n] = a;
        explore(m, steps, n + 1);
    }
}

static void every_sequence_keeps_the_states(void **state)
{
    static machine m;
    int steps[DEPTH];
    explore(&m, steps, 0);
    for (int s = 0; s < 3; s++) assert_true(m.n_states[s] > 1000);
    assert_true(m.n_sequences > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_sequence_keeps_the_states)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
