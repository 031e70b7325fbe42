/* test_remote_loads.c -- loads from a tier that is far away: when it is left alone, and that it is used again. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/tiers/posts.h"
#include "store/tier_type.h"
#include "support/folder.h"
#include "support/requests.h"
#include "support/slow_store.h"
#include "support/tiers.h"

static const char question[] = "Which?";

/* A remote tier that has what another context has stored. It takes layer_us for each layer. */
typedef struct remote {
    sp_tier base; /* first */
    sp_context *c;
    sp_op_queue queue;
    pthread_t thread;
    atomic_uint layer_us;
    atomic_int n_gets;
    atomic_bool holds, fails; /* puts */
} remote;

/* A get under way. */
typedef struct slow_get {
    const sp_tier_op *op;
    unsigned layer_us;
    bool skips;
} slow_get;

static sp_err take_slowly(void *user, int layer, const void *from)
{
    slow_get *g = user;
    usleep(g->layer_us);
    if (!g->skips && g->op->job.sink(g->op->job.user, layer, from) != SP_OK) g->skips = true;
    return SP_OK;
}

static sp_err take_head(void *user, const sp_record *r)
{
    const slow_get *g = user;
    return g->op->job.head ? g->op->job.head(g->op->job.user, r) : SP_OK;
}

/* run_get -- what nobody waits for is received to its end (store/remote/tier.h I5). */
static sp_err run_get(remote *r, const sp_tier_op *op)
{
    slow_get g = {.op = op, .layer_us = r->layer_us};
    sp_tier_job job = op->job;
    r->n_gets++;
    job.done = NULL;
    job.head = take_head;
    job.sink = take_slowly;
    job.user = &g;
    SP_TRY(sp_tier_run(sp_tiers_tier(r->c->tiers), &job));
    return g.skips ? sp_fail(SP_E_CANCELED, "nobody waited for it") : SP_OK;
}

static sp_err run_put(const remote *r)
{
    while (r->holds) usleep(1000);
    return r->fails ? sp_fail(SP_E_IO, "the tier is full") : SP_OK;
}

static void *work(void *arg)
{
    remote *r = arg;
    for (sp_tier_op *op; (op = sp_op_queue_pop(&r->queue, true));)
        sp_tier_op_finish(op, op->job.verb == SP_TIER_GET ? run_get(r, op) : run_put(r));
    return NULL;
}

static sp_op_queue *queue_of(sp_tier *t, sp_tier_verb verb)
{
    SP_UNUSED(verb);
    return &((remote *)t)->queue;
}

static bool knows(sp_tier *t, const sp_tier_key *key)
{
    return sp_tier_knows(sp_tiers_tier(((remote *)t)->c->tiers), key);
}

static sp_tier_stats stats_of(sp_tier *t)
{
    SP_UNUSED(t);
    return (sp_tier_stats){0};
}

static void close_tier(sp_tier *t)
{
    remote *r = (remote *)t;
    sp_op_queue_close(&r->queue);
    pthread_join(r->thread, NULL);
    sp_op_queue_fini(&r->queue);
    close_clean(r->c);
}

static sp_context *open_store(const char *dir)
{
    sp_context *c = open_with((sp_context_opts){.tiers.store = dir,
                                                .tiers.load_timeout_ms = 60000,
                                                .queue.order = "fcfs",
                                                .reuse.policy = "full",
                                                .n_batch = 40});
    c->loads.token_us = 1e9;
    return c;
}

/* give_remote -- the context has this remote tier from now on. */
static void give_remote(sp_context *c, remote *r, const char *there)
{
    static const sp_tier_type type = {
        .name = "remote", .queue_of = queue_of, .knows = knows, .stats = stats_of, .close = close_tier};
    *r = (remote){.base.type = &type, .c = open_store(there)};
    assert_ok(sp_op_queue_init(&r->queue));
    assert_int_equal(pthread_create(&r->thread, NULL, work, r), 0);
    sp_level *l = sp_tiers_level(c->tiers, SP_AT_REMOTE);
    l->tier = &r->base;
    l->name = "remote";
}

/* open_remote -- a context with these chunks in its store, and others in the remote tier. */
static sp_context *open_remote(const char *dir, const char *in_store, const char *in_remote, remote *r)
{
    char here[160], there[160];
    snprintf(here, sizeof here, "%s/here", dir);
    snprintf(there, sizeof there, "%s/there", dir);
    const char *const folders[] = {here, there}, *const orders[] = {in_store, in_remote};
    for (int i = 0; i < 2; i++) {
        sp_context *c = open_store(folders[i]);
        if (*orders[i]) sp_request_destroy(ask(c, orders[i], question, 2));
        close_clean(c);
    }
    sp_context *c = open_store(here);
    give_remote(c, r, there);
    return c;
}

/* at_remote -- copies of these chunks, which the store has, too, are in the remote tier only. */
static void at_remote(const sp_context *c, const remote *r)
{
    for (const sp_copy *k = NULL, *v = sp_ledger_next(c->ledger, NULL); (k = v);) {
        v = sp_ledger_next(c->ledger, k);
        const sp_tier_key key = {.id = k->facts.id, .head = k->facts.head,
                                 .kind = (uint32_t)k->facts.kind};
        if (k->facts.kind != SP_COPY_PLAIN || !sp_tier_knows(sp_tiers_tier(r->c->tiers), &key)) continue;
        sp_ledger_placed(c->ledger, k, SP_AT_REMOTE);
        sp_ledger_unplaced(c->ledger, k, SP_AT_DISK);
    }
}

static void set_costs(const sp_context *c, float us)
{
    for (const sp_copy *k = NULL; (k = sp_ledger_next(c->ledger, k));)
        if (k->facts.kind == SP_COPY_PLAIN) ((sp_copy *)(uintptr_t)k)->facts.cost_us = us;
}

static void leave(const sp_context *c)
{
    while (sp_ledger_free_up(c->ledger, sp_kv_pool_n_free(c->pool) + 1)) {
    }
}

enum { FOR_EVER_US = 1000000000 /* a cost: no machine is so slow */ };

/* ask_remote -- the document, of which a copy is in the remote tier; returns where it came from. */
static const char *ask_remote(sp_context *c, const remote *there, float cost_us)
{
    tiers_rest(c->tiers); /* also with what the last one has computed and stored */
    leave(c);
    at_remote(c, there);
    set_costs(c, cost_us);
    c->loads.token_us = 1e9;
    sp_request *r = ask(c, "1", question, 2);
    const char *from = sp_request_result(r)->segments[1].from;
    from = strcmp(from, "remote") == 0 ? "remote" : strcmp(from, "") == 0 ? "" : "elsewhere";
    sp_request_destroy(r);
    return from;
}

/* give_up -- asks until a load comes later than computing would take, which a busy machine may not see at once. */
static void give_up(sp_context *c, remote *r, float cost_us)
{
    sp_level *l = sp_tiers_level(c->tiers, SP_AT_REMOTE);
    const char *from;
    do {
        l->slow_us = -FOR_EVER_US; /* the pause is over */
        from = ask_remote(c, r, cost_us);
        tiers_rest(c->tiers);
    } while (strcmp(from, "remote") == 0);
    assert_string_equal(from, "");
}

/* What has come too late again and again does not count for ever. */
static void one_that_was_slow_for_hours_is_used_again(void **state)
{
    const char *dir = *state;
    remote r;
    sp_context *c = open_remote(dir, "1", "1", &r);
    sp_level *l = sp_tiers_level(c->tiers, SP_AT_REMOTE);
    assert_string_equal(ask_remote(c, &r, FOR_EVER_US), "remote");
    assert_true(l->gap_us > 0);
    r.layer_us = 2000;
    for (int i = 0; i < 80; i++) {
        give_up(c, &r, 1000);
        assert_int_equal(l->n_abandoned, 0);
    }
    assert_true(r.n_gets >= 40);
    r.layer_us = 0;
    l->slow_us = -FOR_EVER_US;
    assert_true(l->slow_pause_us <= 10000000);
    assert_string_equal(ask_remote(c, &r, FOR_EVER_US), "remote");
    close_clean(c);
}

/* What a load that was given up says of the tier is the time that all of it took. */
static void one_that_is_slow_is_left_alone_after_one_load(void **state)
{
    const char *dir = *state;
    remote r;
    sp_context *c = open_remote(dir, "1", "1", &r);
    sp_level *l = sp_tiers_level(c->tiers, SP_AT_REMOTE);
    r.layer_us = 30000;
    give_up(c, &r, 10000);
    const int n_gets = r.n_gets;
    l->slow_us = sp_clock_us();
    l->slow_pause_us = FOR_EVER_US;
    assert_string_equal(ask_remote(c, &r, 10000), "");
    assert_int_equal(r.n_gets, n_gets);
    close_clean(c);
}

static const sp_copy *load(sp_context *c, const sp_prompt *p, int seg)
{
    const sp_copy *k = NULL;
    while ((k = sp_ledger_next(c->ledger, k)) && !sp_digest_eq(&k->facts.id, &p->segs.v[seg].id)) {
    }
    assert_non_null(k);
    const sp_tiers_key key = {.copy = k, .seg = &p->segs.v[seg], .head = &p->segs.v[0].id, .n_head = 1};
    assert_ok(sp_tiers_load(c->tiers, &key, false, 0, 1));
    return k;
}

/* Nothing else is loaded: how long it was silent is known from its own layers. */
static void its_longest_silence_is_measured(void **state)
{
    enum { LAYER_US = 3000 };
    const char *dir = *state;
    remote r;
    sp_context *c = open_remote(dir, "1", "1", &r);
    const sp_level *l = sp_tiers_level(c->tiers, SP_AT_REMOTE);
    sp_prompt *p = prompt_of(c, "1", NULL);
    at_remote(c, &r);
    set_costs(c, FOR_EVER_US);
    r.layer_us = LAYER_US;
    const int64_t began_us = sp_clock_us();
    const sp_copy *comes = load(c, p, 1);
    while (comes->state == SP_COPY_LOADING) sp_tiers_wait(c->tiers);
    assert_int_equal(comes->state, SP_COPY_READY);
    assert_true(l->gap_us >= LAYER_US && l->gap_us <= (double)(sp_clock_us() - began_us));
    tiers_rest(c->tiers);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* The disk's time is not that of the remote tier. */
static void a_disk_that_hangs_makes_no_other_tier_slow(void **state)
{
    const char *dir = *state;
    remote r;
    barrier b;
    sp_context *c = open_remote(dir, "01", "1", &r);
    const sp_level *l = sp_tiers_level(c->tiers, SP_AT_REMOTE);
    sp_prompt *p = prompt_of(c, "01", NULL);
    at_remote(c, &r);
    set_costs(c, FOR_EVER_US);
    barrier_close(&b, c);
    const sp_copy *hangs = load(c, p, 1);
    usleep(200000);
    const int64_t began_us = sp_clock_us();
    const sp_copy *comes = load(c, p, 2);
    while (comes->state == SP_COPY_LOADING) sp_tiers_wait(c->tiers);
    const double took_us = (double)(sp_clock_us() - began_us);
    const double bytes = sp_blocks_for(comes->n) * (double)sp_kv_pool_layer_block_bytes(c->pool) *
                         sp_kv_pool_shape(c->pool)->n_layers;
    assert_int_equal(comes->state, SP_COPY_READY);
    assert_int_equal(hangs->state, SP_COPY_LOADING);
    assert_true(l->byte_us > 0);
    assert_true(l->byte_us * bytes <= took_us);
    barrier_open(&b);
    barrier_end(&b);
    tiers_rest(c->tiers);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* A request reads a document that is being deleted: its copy goes to no other process. */
static void nothing_is_shared_while_it_is_erased(void **state)
{
    const char *dir = *state;
    remote r;
    sp_context *c = open_remote(dir, "", "", &r);
    sp_request_destroy(ask(c, "1", question, 2));
    tiers_rest(c->tiers);
    sp_prompt *p = prompt_of(c, "1", NULL);
    const sp_digest id = p->segs.v[1].id;
    const sp_content_query q = {.seg = &p->segs.v[1], .head = &p->segs.v[0].id, .n_head = 1};
    const sp_copy *copy = sp_by_content_peek(c->ledger, &q, SP_COPY_PLAIN);
    assert_non_null(copy);
    sp_ledger_unplaced(c->ledger, copy, SP_AT_REMOTE);
    for (int erasing = 1; erasing >= 0; erasing--) {
        assert_ok(sp_tiers_erasing(c->tiers, &id, (size_t)erasing));
        assert_ok(sp_tiers_share(c->tiers, &(sp_tiers_key){.copy = copy, .head = q.head, .n_head = 1}));
        assert_int_equal(sp_tiers_is_sharing(c->tiers, copy), !erasing);
    }
    tiers_rest(c->tiers);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* plain_copy -- of a chunk after the system text. */
static const sp_copy *plain_copy(sp_context *c, const char *chunk)
{
    sp_prompt *p = prompt_of(c, chunk, NULL);
    const sp_content_query q = {.seg = &p->segs.v[1], .head = &p->segs.v[0].id, .n_head = 1};
    const sp_copy *copy = sp_by_content_peek(c->ledger, &q, SP_COPY_PLAIN);
    assert_non_null(copy);
    sp_prompt_destroy(p);
    return copy;
}

static bool share(sp_context *c, const sp_copy *copy)
{
    assert_ok(sp_tiers_share(c->tiers, &(sp_tiers_key){.copy = copy, .head = copy->facts.before, .n_head = 1}));
    return sp_tiers_is_sharing(c->tiers, copy);
}

static void what_is_shared_at_a_time_is_bounded(void **state)
{
    remote r;
    sp_context *c = open_remote(*state, "", "", &r);
    sp_tiers *t = c->tiers;
    r.holds = true;
    sp_request_destroy(ask(c, "1", question, 2));
    const sp_copy *one = plain_copy(c, "1");
    const int64_t n_blocks = sp_copy_n_own_blocks(one);
    assert_true(share(c, one)); /* once */
    assert_true(t->shares.n == 1 && t->shares.n_blocks == n_blocks);
    t->shares.n = 64;
    sp_request_destroy(ask(c, "2", question, 2));
    const sp_copy *two = plain_copy(c, "2");
    assert_false(share(c, two));
    t->shares.n = 63;
    t->shares.n_blocks = sp_kv_pool_n_blocks(c->pool) / 4;
    assert_false(share(c, two));
    t->shares.n = 1;
    t->shares.n_blocks = n_blocks;
    assert_true(share(c, two));
    t->shares.yields_since_us = 1;
    r.holds = false;
    tiers_rest(t);
    assert_true(t->shares.n == 0 && t->shares.n_blocks == 0 && t->shares.yields_since_us == 0);
    assert_true(one->places & SP_AT_REMOTE && two->places & SP_AT_REMOTE);
    close_clean(c);
}

/* With a store of its own or without one, a chunk that is computed ahead is there for others when it is done. */
static void a_fused_copy_waits_until_the_tier_has_it(void **state)
{
    for (int stores = 0; stores < 2; stores++) {
        remote r;
        char there[160];
        snprintf(there, sizeof there, "%s/%d", (char *)*state, stores);
        assert_int_equal(mkdir(there, 0700), 0);
        sp_context *c = stores ? open_remote(there, "", "", &r)
                               : open_with((sp_context_opts){.reuse.policy = "full", .tiers.host_bytes = 1 << 20});
        if (!stores) give_remote(c, &r, there);
        r.holds = true;
        sp_request *q;
        sp_prompt *p = prompt_of(c, "01", NULL);
        assert_ok(sp_request_create(c, p, &(sp_request_opts){.sampling = sp_sampling_default()}, &sp_reuse_fuse, &q));
        sp_prompt_destroy(p);
        sp_driver_submit(c, q);
        while (q->state == SP_REQ_QUEUED || q->state == SP_REQ_PREFILL) step(c);
        assert_int_equal(q->state, SP_REQ_STORING);
        for (; sp_tiers_is_storing(c->tiers, q->must); usleep(1000)) sp_tiers_poll(c->tiers);
        sp_request_settle(q);
        assert_int_equal(q->state, SP_REQ_STORING);
        r.holds = false;
        assert_int_equal(sp_request_result(run(c, q))->finish, SP_FINISH_LENGTH);
        sp_request_destroy(q);
        close_clean(c);
    }
}

static void what_is_left_is_shared_unless_the_tier_fails(void **state)
{
    remote r;
    sp_tiers_rest rest = {0};
    sp_context *c = open_remote(*state, "", "", &r);
    sp_request_destroy(ask(c, "1", question, 2));
    tiers_rest(c->tiers);
    const sp_copy *one = plain_copy(c, "1");
    sp_ledger_unplaced(c->ledger, one, SP_AT_REMOTE);
    for (int64_t left = 1; left >= 0; left--) {
        assert_ok(sp_tiers_share_rest(c->tiers, &rest));
        assert_int_equal(rest.n_left, left);
        tiers_rest(c->tiers);
    }
    sp_ledger_unplaced(c->ledger, one, SP_AT_REMOTE);
    r.fails = true;
    assert_ok(sp_tiers_share_rest(c->tiers, &rest));
    tiers_rest(c->tiers);
    assert_fails(sp_tiers_share_rest(c->tiers, &rest), SP_E_IO, "does not take");
    close_clean(c);
}

static void a_poke_ends_one_wait(void **state)
{
    sp_posts *p;
    assert_ok(sp_posts_create(&p));
    sp_posts_poke(p);
    const int64_t from = sp_clock_us();
    sp_posts_wait_for(p, 60000000);
    const int64_t poked = sp_clock_us();
    assert_true(poked - from < 60000000);
    sp_posts_wait_for(p, 20000);
    assert_true(sp_clock_us() - poked >= 20000);
    sp_posts_destroy(p);
}

static void its_options_are_checked(void **state)
{
    static const struct {
        sp_tier_opts tiers;
        sp_err err;
    } cases[] = {{{.remote_compress = -1}, SP_E_ARG},
                 {{.remote_compress = 20}, SP_E_ARG},
                 {{.remote_compress = 19}, SP_OK},
                 {{.remote_kv = "f16"}, SP_E_ARG},
                 {{.remote_must = true}, SP_E_IO}}; /* nobody answers there */
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_context *c = NULL;
        sp_context_opts o = {.model = MODEL, .machine.n_threads = 1, .tiers = cases[i].tiers};
        o.tiers.remote = "redis://127.0.0.1:1";
        o.tiers.load_timeout_ms = 100;
        assert_int_equal(sp_context_open(&o, &c), cases[i].err);
        sp_context_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(its_longest_silence_is_measured),
        FOLDER_TEST(nothing_is_shared_while_it_is_erased),
        FOLDER_TEST(its_options_are_checked),
        cmocka_unit_test(a_poke_ends_one_wait),
        FOLDER_TEST(what_is_shared_at_a_time_is_bounded),
        FOLDER_TEST(a_fused_copy_waits_until_the_tier_has_it),
        FOLDER_TEST(what_is_left_is_shared_unless_the_tier_fails),
        FOLDER_TEST(one_that_was_slow_for_hours_is_used_again),
        FOLDER_TEST(one_that_is_slow_is_left_alone_after_one_load),
        FOLDER_TEST(a_disk_that_hangs_makes_no_other_tier_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
