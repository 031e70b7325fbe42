/* How attention is dealt to threads: each tile and KV head once, pieces of divided tiles in places of their own. */
#include "compute/kernel/attend.h"
#include "support/check.h"

enum { MOST = 64, HEAD = 64, N_KV = 4, GROUP = 2, STEPS = 32, SLOTS = 64, WIDTH = HEAD };

/* Requests that decode one token each, after `n` keys. */
typedef struct calls {
    sp_kv_view kv;
    sp_attend_args a;
    sp_attend_req reqs[MOST];
    sp_span spans[MOST][N_KV];
    const sp_span *heads[MOST][N_KV];
    uint32_t blocks[STEPS * 4];
    int32_t pos;
    uint16_t see;
    sp_sight sight;
} calls;

static void open_calls(calls *c, int n_reqs)
{
    *c = (calls){.kv = {.type = SP_F16, .n_heads = N_KV, .head = HEAD}, .pos = 1 << 20, .sight.n = 1};
    c->a = (sp_attend_args){.kv = &c->kv, .n_heads = N_KV * GROUP, .reqs = c->reqs, .n_reqs = n_reqs};
    for (int i = 0; i < n_reqs; i++) {
        for (int h = 0; h < N_KV; h++) {
            c->spans[i][h] = (sp_span){.blocks = c->blocks, .n = STEPS * SP_STEP_TOKENS};
            c->heads[i][h] = &c->spans[i][h];
        }
        c->reqs[i] = (sp_attend_req){
            .pos = &c->pos, .see = &c->see, .m = 1, .spans = c->spans[i], .n_spans = 1, .sights = &c->sight};
    }
}

/* What was dealt of a tile and KV head. */
typedef struct dealt {
    int64_t n_pieces, n; /* n: whole, or pieces so far */
    bool divided;
    int slot;
    size_t share, end; /* of its results */
} dealt;

static void take(calls *c, const sp_unit *u, dealt all[MOST][N_KV])
{
    dealt *d = &all[u->tile.req - c->reqs][u->kv_head];
    if (d->n == 0)
        *d = (dealt){u->n_pieces, 0, u->divided, u->slot, u->share,
                     u->share + (size_t)u->n_pieces * (size_t)(u->tile.n * GROUP) * (WIDTH + 2)};
    assert_int_equal(d->divided, u->divided);
    assert_int_equal(d->n_pieces, u->n_pieces);
    if (u->divided) assert_int_equal(u->piece, d->n); /* in order */
    assert_int_equal(d->slot, u->slot);
    d->n++;
}

/* deal -- all units; returns how many tiles and heads were divided. */
static int deal(calls *c, int n_parts, dealt all[MOST][N_KV])
{
    sp_deal d;
    sp_unit u;
    int n_divided = 0;
    bool taken[SLOTS] = {false};
    memset(all, 0, sizeof(dealt[MOST][N_KV]));
    sp_deal_open(&d, &c->a, n_parts);
    for (int64_t i = 0; sp_deal_unit(&d, i, &u); i++) take(c, &u, all);
    for (int i = 0; i < c->a.n_reqs; i++)
        for (int h = 0; h < N_KV; h++) {
            const dealt *one = &all[i][h];
            assert_int_equal(one->n, one->divided ? one->n_pieces : 1);
            if (!one->divided) continue;
            n_divided++;
            assert_in_range(one->slot, 0, SLOTS - 1);
            assert_false(taken[one->slot]);
            taken[one->slot] = true;
            assert_true(one->end <= d.room);
        }
    return n_divided;
}

static void assert_apart(const calls *c, dealt all[MOST][N_KV])
{
    const dealt *flat = all[0];
    for (int i = 0; i < c->a.n_reqs * N_KV; i++)
        for (int k = 0; k < i; k++)
            if (flat[i].divided && flat[k].divided)
                assert_true(flat[i].end <= flat[k].share || flat[k].end <= flat[i].share);
}

static void one_thread_divides_nothing(void **state)
{
    static calls c;
    static dealt all[MOST][N_KV];
    open_calls(&c, 3);
    assert_int_equal(deal(&c, 1, all), 0);
}

static void few_tiles_are_divided_among_threads(void **state)
{
    static calls c;
    static dealt all[MOST][N_KV];
    open_calls(&c, 2);
    assert_int_equal(deal(&c, 8, all), 2 * N_KV);
    assert_int_equal(all[0][0].n_pieces, STEPS / SP_PIECE_STEPS);
    assert_apart(&c, all);
}

/* There are 64 counters of pieces: tiles that get none stay whole. */
static void more_tiles_than_there_are_counters(void **state)
{
    static calls c;
    static dealt all[MOST][N_KV];
    open_calls(&c, 40);
    assert_int_equal(deal(&c, 128, all), SLOTS);
    assert_apart(&c, all);
}

/* Results of pieces share a scratch of half a MiB a thread: tiles whose results do not fit stay whole. */
static void more_pieces_than_there_is_memory_for(void **state)
{
    static calls c;
    static dealt all[MOST][N_KV];
    open_calls(&c, 6);
    for (int i = 0; i < 6; i++) c.spans[i][0].n = 2048 * SP_STEP_TOKENS;
    assert_int_equal(deal(&c, 4, all), 3 * N_KV);
    assert_apart(&c, all);
}

/* KV heads with lists of their own: the pieces are those of the longest, whichever it is. */
static void the_longest_head_decides_the_pieces(void **state)
{
    for (int longest = 0; longest < N_KV; longest++) {
        static calls c;
        static dealt all[MOST][N_KV];
        open_calls(&c, 2);
        for (int i = 0; i < 2; i++) {
            c.reqs[i].spans_of_head = c.heads[i];
            for (int h = 0; h < N_KV; h++)
                if (h != longest) c.spans[i][h].n = SP_STEP_TOKENS * 3;
        }
        for (int n_parts = 1; n_parts <= 8; n_parts += 7) {
            deal(&c, n_parts, all);
            for (int h = 0; h < N_KV; h++) assert_int_equal(all[1][h].n_pieces, STEPS / SP_PIECE_STEPS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_divides_nothing),
        cmocka_unit_test(few_tiles_are_divided_among_threads),
        cmocka_unit_test(more_tiles_than_there_are_counters),
        cmocka_unit_test(more_pieces_than_there_is_memory_for),
        cmocka_unit_test(the_longest_head_decides_the_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
