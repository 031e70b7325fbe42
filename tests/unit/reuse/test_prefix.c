/* The policies "prefix" and "off": which plan comes of which match. */
#include "support/small_kv.h"

#include "reuse/reuse.h"
#include "spolia.h"

enum { B = SP_BLOCK_TOKENS, MAX_SEGS = 6, MAX_TOKENS = 70 };

typedef struct bench {
    sp_kv_pool *pool;
    sp_ledger *ledger;
    sp_arena arena;
    int64_t now;
    sp_found found[MAX_SEGS];
    sp_plan plan;
} bench;

static void bench_begin(bench *b)
{
    *b = (bench){.pool = small_pool(400)};
    assert_ok(sp_ledger_create(&(sp_ledger_opts){.pool = b->pool, .max_blocks = 400}, &b->ledger));
}

static void let_go(bench *b)
{
    for (int i = 0; i < MAX_SEGS; i++) {
        if (b->found[i].copy) sp_ledger_unpin(b->ledger, b->found[i].copy);
        b->found[i] = (sp_found){0};
    }
}

static void bench_end(bench *b)
{
    sp_plan_fini(&b->plan);
    let_go(b);
    sp_ledger_destroy(b->ledger);
    sp_arena_fini(&b->arena);
    small_pool_end(b->pool);
}

/* learn_from -- path copies of these segments, each in blocks of its own, of which its first `first` tokens are
 * another's. */
static void learn_from(bench *b, int32_t first, const sp_segment *segs, int n)
{
    const sp_copy *parent = NULL;
    b->now++;
    for (int i = 0; i < n; i++) {
        uint32_t blocks[MAX_TOKENS / B + 2];
        int32_t n_blocks = small_blocks(first + segs[i].n);
        assert_ok(sp_kv_acquire(b->pool, n_blocks, blocks));
        sp_kv_seal(b->pool, blocks, n_blocks);
        sp_copy_spec spec = {.seg = &segs[i],
                             .facts.kind = SP_COPY_PATH,
                             .facts.exact = true,
                             .parent = parent,
                             .first = first,
                             .blocks = blocks};
        assert_ok(sp_ledger_add(b->ledger, &spec, b->now, &parent));
        assert_non_null(parent);
        sp_kv_release(b->pool, blocks, n_blocks);
    }
}

static void learn(bench *b, const sp_segment *segs, int n)
{
    learn_from(b, 0, segs, n);
}

static const sp_reuse_policy *policy(const char *name)
{
    const sp_reuse_policy *p = NULL;
    assert_ok(sp_reuse_policy_find(name, &p, NULL));
    assert_string_equal(p->name, name);
    return p;
}

static sp_reuse_input look_up_as(bench *b, const char *name, const sp_segment *segs, int n)
{
    sp_reuse_input in = {.segs = segs, .n_segs = n, .n_head = n, .found = b->found};
    assert_ok(policy(name)->find(
        &(sp_finder){.in = &in, .ledger = b->ledger, .arena = &b->arena, .now = ++b->now}));
    return in;
}

static sp_reuse_input look_up(bench *b, const sp_segment *segs, int n, int32_t room)
{
    sp_reuse_input in = look_up_as(b, "prefix", segs, n);
    in.answer_room = room;
    return in;
}

static sp_err next_plan(const char *name, const sp_reuse_input *in, sp_plan *plan)
{
    sp_plan_role role = SP_PLAN_DONE;
    sp_err err = policy(name)->next_plan(in, plan, &role);
    if (err == SP_OK) assert_int_equal(role, SP_PLAN_ANSWER);
    return err;
}

static sp_segment numbered(int32_t first, int32_t n)
{
    static int32_t tokens[32][MAX_TOKENS];
    static int next;
    int32_t *t = tokens[next++ % 32];
    assert_in_range(n, 1, MAX_TOKENS);
    for (int32_t i = 0; i < n; i++) t[i] = first + i;
    return small_segment(t, n);
}

/* -- what every plan must be ----------------------------------------------------------------- */

/* known_tokens -- how much of segment i may be read, from the copy alone. */
static int32_t known_tokens(const sp_reuse_input *in, int i, const uint32_t **blocks)
{
    const sp_copy *c = in->found[i].copy;
    int32_t n = 0;
    if (c) {
        while (n < SP_MIN(c->n, in->segs[i].n) && c->tokens[n] == in->segs[i].tokens[n]) n++;
        if (n < in->segs[i].n || n < c->n) n = n / B * B; /* a piece: whole blocks */
        *blocks = c->blocks;
    }
    if (i == in->n_segs - 1) /* whole blocks, and not the last token of the prompt */
        while (n > 0 && (n % B || n == in->segs[i].n)) n--;
    return n;
}

static void assert_span(const sp_plan *p, int i, int32_t n, int32_t room, int32_t at)
{
    const sp_span *s = &p->spans[i];
    assert_int_equal(s->n, n);
    assert_int_equal(s->at, at);
    assert_int_equal(s->shift, 0);
    assert_null(s->pos);
    assert_null(s->stale);
    assert_int_equal(p->slots[i].room, room);
}

static void assert_sight(const sp_plan *p, int i)
{
    assert_null(p->sights[i].list);
    assert_int_equal(p->sights[i].n, i + 1);
}

/* assert_plan -- one span and one sight for each segment and the answer; to do is exactly what is
 * not known, in order. */
static void assert_plan(const sp_reuse_input *in, const sp_plan *p)
{
    int32_t at = 0;
    int t = 0;
    assert_int_equal(p->n_spans, in->n_segs + 1);
    assert_int_equal(p->n_sights, in->n_segs + 1);
    for (int i = 0; i < in->n_segs; i++) {
        const sp_segment *seg = &in->segs[i];
        const uint32_t *blocks = NULL;
        int32_t known = known_tokens(in, i, &blocks);
        assert_span(p, i, seg->n, seg->n, at);
        assert_sight(p, i);
        assert_int_equal(p->slots[i].n_known, known);
        assert_true(known % B == 0 || known == seg->n);
        for (int32_t k = 0; k < small_blocks(known); k++)
            assert_int_equal(p->spans[i].blocks[k], blocks[k]);
        for (int32_t k = known; k < seg->n; k++, t++) {
            assert_in_range(t, 0, p->n_todo - 1);
            assert_int_equal(p->todo[t].token, seg->tokens[k]);
            assert_int_equal(p->todo[t].pos, at + k);
            assert_int_equal(p->todo[t].span, i);
            assert_int_equal(p->todo[t].see, i);
            assert_int_equal(p->todo[t].index, k);
        }
        at += seg->n;
    }
    assert_span(p, in->n_segs, 0, in->answer_room, at);
    assert_sight(p, in->n_segs);
    assert_int_equal(p->n_todo, t);
    assert_null(p->gate.after_layer);
    if (in->n_segs) assert_int_equal(p->todo[t - 1].pos, at - 1); /* its logits begin the answer */
}

/* -- prefix --------------------------------------------------------------------------------- */

static void nothing_known_computes_everything(void **state)
{
    bench b;
    bench_begin(&b);
    sp_segment segs[] = {numbered(1, 20), numbered(100, 1), numbered(200, 32)};
    sp_reuse_input in = look_up(&b, segs, 3, 9);
    sp_plan_init(&b.plan, b.pool);
    assert_ok(next_plan("prefix", &in, &b.plan));
    assert_plan(&in, &b.plan);
    assert_int_equal(b.plan.n_todo, 53);
    assert_int_equal(sp_plan_n_fresh(&b.plan), 5);
    bench_end(&b);
}

/* A prompt known whole: all but the last block of its last segment is read. */
static void a_known_prompt_computes_its_last_block(void **state)
{
    static const struct {
        int32_t n, n_todo;
    } cases[] = {{1, 1},   {15, 15}, {16, 16}, {17, 1}, {31, 15},
                 {32, 16}, {33, 1},  {40, 8},  {64, 16}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        bench b;
        bench_begin(&b);
        sp_segment segs[] = {numbered(1, 21), numbered(100, cases[i].n)};
        learn(&b, segs, 2);
        sp_reuse_input in = look_up(&b, segs, 2, 4);
        assert_int_equal(b.found[1].copy->n, cases[i].n);
        sp_plan_init(&b.plan, b.pool);
        assert_ok(next_plan("prefix", &in, &b.plan));
        assert_plan(&in, &b.plan);
        assert_int_equal(b.plan.n_todo, cases[i].n_todo);
        assert_int_equal(b.plan.slots[0].n_known, 21); /* whole, though no whole block */
        assert_int_equal(sp_plan_n_fresh(&b.plan), 1);
        assert_ok(sp_plan_bind(&b.plan));
        assert_ok(sp_plan_check(&b.plan));
        bench_end(&b);
    }
}

static void a_partial_match_is_read_up_to_its_blocks(void **state)
{
    bench b;
    bench_begin(&b);
    sp_segment old[] = {numbered(1, 20), numbered(100, 50)};
    sp_segment new[] = {old[0], numbered(100, 60), numbered(300, 5)};
    learn(&b, old, 2);
    sp_reuse_input in = look_up(&b, new, 3, 4);
    assert_int_equal(in.found[1].n_known, 48);
    sp_plan_init(&b.plan, b.pool);
    assert_ok(next_plan("prefix", &in, &b.plan));
    assert_plan(&in, &b.plan);
    assert_int_equal(b.plan.slots[1].n_known, 48);
    assert_int_equal(b.plan.n_todo, 12 + 5);
    assert_ok(sp_plan_bind(&b.plan));
    assert_ok(sp_plan_check(&b.plan));
    bench_end(&b);
}

/* A last segment that is the beginning of a known one: its last token must still be computed. */
static void a_last_segment_of_known_blocks_computes_the_last(void **state)
{
    bench b;
    bench_begin(&b);
    sp_segment longer = numbered(1, 50), start = numbered(1, 32);
    learn(&b, &longer, 1);
    sp_reuse_input in = look_up(&b, &start, 1, 4);
    assert_int_equal(b.found[0].copy->n, 50);
    sp_plan_init(&b.plan, b.pool);
    assert_ok(next_plan("prefix", &in, &b.plan));
    assert_plan(&in, &b.plan);
    assert_int_equal(b.plan.slots[0].n_known, 16);
    bench_end(&b);
}

/* What the last segment looks at is wanted: all of it is computed. */
static void a_last_segment_that_is_measured_is_computed(void **state)
{
    bench b;
    bench_begin(&b);
    sp_segment segs[] = {numbered(1, 32), numbered(100, 40)};
    learn(&b, segs, 2);
    for (int measured = 0; measured < 2; measured++) {
        sp_reuse_input in = {.segs = segs, .n_segs = 2, .n_head = 2, .found = b.found, .by_segment = measured};
        assert_ok(policy("prefix")->find(
            &(sp_finder){.in = &in, .ledger = b.ledger, .arena = &b.arena, .now = ++b.now}));
        assert_int_equal(b.found[0].n_known, 32);
        assert_int_equal(b.found[1].n_known, measured ? 0 : 32);
        for (int i = 0; i < 2 && !measured; i++) sp_ledger_unpin(b.ledger, b.found[i].copy);
    }
    bench_end(&b);
}

/* A block that another copy shares is not written, so nothing of the last segment is read. */
static void a_last_segment_in_shared_blocks_is_computed(void **state)
{
    for (int32_t first = 0; first < 5; first += 4) {
        bench b;
        bench_begin(&b);
        sp_segment segs[] = {numbered(1, 16), numbered(100, 40)};
        learn_from(&b, first, segs, 2);
        sp_reuse_input in = look_up(&b, segs, 2, 4);
        sp_plan_init(&b.plan, b.pool);
        assert_ok(next_plan("prefix", &in, &b.plan));
        assert_int_equal(b.plan.slots[0].n_known, 16);
        assert_int_equal(b.plan.slots[1].n_known, first ? 0 : 32);
        assert_ok(sp_plan_bind(&b.plan));
        assert_ok(sp_plan_check(&b.plan));
        bench_end(&b);
    }
}

/* A node that moves is computed for the position of its origin, and read at its own. */
static void a_node_that_moves_is_rotated_for_its_origin(void **state)
{
    bench b;
    bench_begin(&b);
    sp_segment segs[] = {numbered(1, 20), numbered(100, 16), numbered(200, 17), numbered(300, 5)};
    segs[1].kind = segs[2].kind = SP_SEG_NODE;
    segs[2].parent = 1;
    segs[2].place = 1 + 36;
    segs[2].origin = 1 + 20;
    sp_reuse_input in = look_up(&b, segs, 4, 4);
    sp_plan_init(&b.plan, b.pool);
    assert_ok(next_plan("prefix", &in, &b.plan));
    assert_int_equal(b.plan.spans[2].at, 20);
    assert_int_equal(b.plan.spans[2].shift, 16);
    bench_end(&b);
}

/* A node that names no parent is below the one before it, and does not look at other branches. */
static void a_node_without_a_parent_is_below_the_one_before(void **state)
{
    bench b;
    bench_begin(&b);
    sp_segment segs[] = {numbered(1, 20), numbered(100, 16), numbered(200, 17), numbered(300, 5)};
    for (int i = 1; i < 4; i++) segs[i].kind = SP_SEG_NODE;
    segs[1].parent = segs[2].parent = 1;
    sp_reuse_input in = look_up(&b, segs, 4, 4);
    sp_plan_init(&b.plan, b.pool);
    assert_ok(next_plan("prefix", &in, &b.plan));
    const sp_sight *see = &b.plan.sights[b.plan.todo[b.plan.n_todo - 1].see];
    assert_int_equal(see->n, 3);
    assert_non_null(see->list);
    static const uint16_t path[] = {0, 2, 3};
    assert_memory_equal(see->list, path, sizeof path);
    bench_end(&b);
}

/* What the ledger drops while a plan holds it stays readable. */
static void a_plan_outlives_the_copies_it_reads(void **state)
{
    bench b;
    bench_begin(&b);
    sp_segment segs[] = {numbered(1, 32), numbered(100, 8)};
    learn(&b, segs, 1);
    sp_reuse_input in = look_up(&b, segs, 2, 4);
    sp_plan_init(&b.plan, b.pool);
    assert_ok(next_plan("prefix", &in, &b.plan));
    uint32_t blocks[] = {b.plan.spans[0].blocks[0], b.plan.spans[0].blocks[1]};
    let_go(&b);
    sp_ledger_clear(b.ledger);
    assert_int_equal(sp_ledger_stats_of(b.ledger).n_copies, 0);
    assert_int_equal(sp_kv_refs(b.pool, blocks[0]), 1);
    assert_int_equal(sp_kv_refs(b.pool, blocks[1]), 1);
    bench_end(&b);
}

static void an_answer_may_have_no_room(void **state)
{
    bench b;
    bench_begin(&b);
    sp_segment seg = numbered(1, 5);
    sp_reuse_input in = look_up(&b, &seg, 1, 0);
    sp_plan_init(&b.plan, b.pool);
    assert_ok(next_plan("prefix", &in, &b.plan));
    assert_plan(&in, &b.plan);
    assert_ok(sp_plan_bind(&b.plan));
    assert_fails(sp_plan_grow(&b.plan, 1, 1, 5, 1), SP_E_LIMIT, "room of 0");
    bench_end(&b);
}

/* random_prompt -- few different segments, in families that begin alike. */
static int random_prompt(uint64_t *seed, sp_segment *segs)
{
    int n = 1 + check_random(seed, MAX_SEGS);
    for (int i = 0; i < n; i++)
        segs[i] = numbered(check_random(seed, 2) * 1000, 1 + check_random(seed, 3) * 33);
    return n;
}

static void every_plan_of_random_prompts_is_right(void **state)
{
    uint64_t seed = 5;
    int64_t n_known = 0, n_partial = 0, n_all = 0;
    for (int round = 0; round < 300; round++) {
        bench b;
        sp_segment segs[MAX_SEGS];
        bench_begin(&b);
        for (int i = 0; i < 6; i++) learn(&b, segs, random_prompt(&seed, segs));
        int n = random_prompt(&seed, segs);
        sp_reuse_input in = look_up(&b, segs, n, check_random(&seed, 40));
        int n_path = 0;
        while (n_path < n && b.found[n_path].copy) n_path++;
        bool partial = n_path && b.found[n_path - 1].copy->n != segs[n_path - 1].n;
        n_known += n_path - partial;
        n_all += n_path - partial == n;
        n_partial += partial;
        sp_plan_init(&b.plan, b.pool);
        assert_ok(next_plan("prefix", &in, &b.plan));
        assert_plan(&in, &b.plan);
        assert_ok(sp_plan_check(&b.plan)); /* also before it is bound */
        assert_ok(sp_plan_bind(&b.plan));
        assert_ok(sp_plan_check(&b.plan)); /* so nothing writes a sealed block */
        for (int32_t i = 0; i < in.answer_room; i++)
            assert_ok(sp_plan_grow(&b.plan, n, 1, b.plan.spans[n].at + i, (uint16_t)n));
        assert_ok(sp_plan_check(&b.plan));
        bench_end(&b);
    }
    assert_true(n_known > 100 && n_all > 10 && n_partial > 50); /* all of it came up */
}

/* -- off ------------------------------------------------------------------------------------ */

static void off_computes_everything_whatever_is_known(void **state)
{
    bench b;
    bench_begin(&b);
    sp_segment segs[] = {numbered(1, 32), numbered(100, 20)};
    learn(&b, segs, 2);
    sp_reuse_input in = look_up_as(&b, "off", segs, 2);
    for (int i = 0; i < 2; i++) assert_null(b.found[i].copy);
    in.answer_room = 4;
    sp_plan_init(&b.plan, b.pool);
    assert_ok(next_plan("off", &in, &b.plan));
    assert_plan(&in, &b.plan);
    assert_int_equal(b.plan.n_todo, 52);
    bench_end(&b);
}

/* -- the table of policies ------------------------------------------------------------------- */

static void policies_are_found_by_name(void **state)
{
    int n = 0, n_known = 0;
    const sp_reuse_policy *const *list = sp_reuse_policy_list(&n);
    const sp_reuse_info *infos = sp_reuse_policies(&n_known);
    assert_int_equal(n, n_known);
    assert_true(n >= 10);
    for (int i = 0; i < n; i++) {
        assert_ptr_equal(policy(list[i]->name), list[i]);
        assert_string_equal(infos[i].name, list[i]->name);
        assert_string_equal(infos[i].help, list[i]->help);
        assert_int_equal(infos[i].exact, list[i]->exact);
        assert_int_equal(infos[i].recomputes, list[i]->recomputes);
    }
    assert_true(policy("prefix")->exact && policy("off")->exact);
    assert_ptr_equal(sp_reuse_policy_default(), policy("prefix"));
    const sp_reuse_policy *p = NULL;
    assert_fails(sp_reuse_policy_find("fuse", &p, NULL), SP_E_ARG, "unknown"); /* internal */
    assert_fails(sp_reuse_policy_find("best", &p, NULL), SP_E_ARG, "\"best\" is unknown");
    for (int i = 0; i < n; i++) assert_non_null(strstr(sp_error_detail(), list[i]->name));
    assert_fails(sp_reuse_policy_find("", &p, NULL), SP_E_ARG, "\"\"");
    assert_fails(sp_reuse_policy_find("prefi", &p, NULL), SP_E_ARG, "prefi");
    assert_null(p);
}

/* -- memory ---------------------------------------------------------------------------------- */

static sp_err build_plan(bench *b, const sp_reuse_input *in)
{
    sp_plan_fini(&b->plan); /* what a failure left half done */
    sp_plan_init(&b->plan, b->pool);
    return next_plan("prefix", in, &b->plan);
}

static void planning_survives_faults(void **state)
{
    enum { LONG = 20000 };
    static int32_t tokens[LONG];
    bench b;
    bench_begin(&b);
    for (int32_t i = 0; i < LONG; i++) tokens[i] = i;
    sp_segment segs[] = {numbered(1, 32), small_segment(tokens, LONG)};
    learn(&b, segs, 1);
    sp_reuse_input in = look_up(&b, segs, 2, 4);
    uint32_t block = b.found[0].copy->blocks[0];
    assert_survives_faults(build_plan(&b, &in), sp_kv_refs(b.pool, block) <= 2);
    assert_plan(&in, &b.plan);
    sp_plan_fini(&b.plan);
    assert_int_equal(sp_kv_refs(b.pool, block), 1);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_known_computes_everything),
        cmocka_unit_test(a_known_prompt_computes_its_last_block),
        cmocka_unit_test(a_partial_match_is_read_up_to_its_blocks),
        cmocka_unit_test(a_last_segment_of_known_blocks_computes_the_last),
        cmocka_unit_test(a_last_segment_that_is_measured_is_computed),
        cmocka_unit_test(a_last_segment_in_shared_blocks_is_computed),
        cmocka_unit_test(a_node_that_moves_is_rotated_for_its_origin),
        cmocka_unit_test(a_node_without_a_parent_is_below_the_one_before),
        cmocka_unit_test(a_plan_outlives_the_copies_it_reads),
        cmocka_unit_test(an_answer_may_have_no_room),
        cmocka_unit_test(every_plan_of_random_prompts_is_right),
        cmocka_unit_test(off_computes_everything_whatever_is_known),
        cmocka_unit_test(policies_are_found_by_name),
        cmocka_unit_test(planning_survives_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
