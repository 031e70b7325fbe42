/* Which waiting request starts next: the rules alone, and on a context. */
#include <stdio.h>

#include "support/requests.h"

#include "serve/queue/order.h"
#include "serve/request/queue.h"
#include "serve/queue/share.h"

static const sp_queue_order *order_of(const char *name)
{
    const sp_queue_order *o = NULL;
    assert_ok(sp_queue_order_find(name, &o));
    return o;
}

/* -- the rules ------------------------------------------------------------------------------ */

static void orders_are_found_by_name(void **state)
{
    const sp_queue_order *o = order_of(NULL);
    assert_string_equal(o->name, "reorder");
    assert_fails(sp_queue_order_find("best", &o), SP_E_ARG, "reorder, fcfs, lpm, lsp");
}

static void each_order_has_its_score(void **state)
{
    const sp_waiting w[] = {{.n_computed = 500, .n_cached = 500, .n_shared = 10},
                            {.n_computed = 10, .n_cached = 90, .n_shared = 20},
                            {.n_computed = 2000, .n_cached = 1000, .n_shared = 15}};
    assert_int_equal(sp_queue_order_next(order_of("fcfs"), w, 3, 32), 0);
    assert_int_equal(sp_queue_order_next(order_of("reorder"), w, 3, 32), 1);
    assert_int_equal(sp_queue_order_next(order_of("lpm"), w, 3, 32), 2);
    assert_int_equal(sp_queue_order_next(order_of("lsp"), w, 3, 32), 1);
    const sp_waiting all_cached[] = {{.n_computed = 1, .n_cached = 9}, {.n_computed = 0, .n_cached = 10}};
    assert_int_equal(sp_queue_order_next(order_of("reorder"), all_cached, 2, 32), 1);
}

static void classes_come_before_scores(void **state)
{
    const int a = 0, b = 0;
    const sp_queue_order *o = order_of("lpm");
    sp_waiting w[] = {{.priority = 1, .tenant = &a, .served = 5, .n_cached = 900},
                      {.priority = 0, .tenant = &a, .served = 5, .n_cached = 10},
                      {.priority = 0, .tenant = &b, .served = 4, .n_cached = 1},
                      {.priority = 0, .tenant = &b, .served = 4, .n_cached = 2}};
    assert_int_equal(sp_queue_order_next(o, w, 4, 32), 3);
    w[2].n_overtaken = 32; /* rule 3 is inside of a class */
    assert_int_equal(sp_queue_order_next(o, w, 4, 32), 2);
    w[0].n_overtaken = 99;
    assert_int_equal(sp_queue_order_next(o, w, 4, 32), 2);
    w[1].served = 3;
    assert_int_equal(sp_queue_order_next(o, w, 4, 32), 1);
}

static void own_priority_orders_a_tenants_requests_alone(void **state)
{
    const int a = 0, b = 0;
    sp_waiting w[] = {{.own_priority = -1000, .tenant = &a, .served = 9},
                      {.own_priority = 5, .tenant = &b, .served = 4},
                      {.own_priority = 3, .tenant = &b, .served = 4}};
    assert_int_equal(sp_queue_order_next(order_of("fcfs"), w, 3, 32), 2);
    w[1].n_overtaken = 99; /* of another class than 2 */
    assert_int_equal(sp_queue_order_next(order_of("fcfs"), w, 3, 32), 2);
    sp_queue_order_overtakes(w, 2);
    assert_int_equal(w[1].n_overtaken, 99);
    w[0].priority = -1;
    assert_int_equal(sp_queue_order_next(order_of("fcfs"), w, 3, 32), 0);
}

static void deferred_requests_are_passed_over(void **state)
{
    sp_waiting w[] = {{.n_cached = 1, .n_computed = 9},
                      {.n_cached = 9, .n_computed = 1, .deferred = true},
                      {.n_cached = 5, .n_computed = 5}};
    assert_int_equal(sp_queue_order_next(order_of("reorder"), w, 3, 32), 2);
    w[0].deferred = w[2].deferred = true;
    assert_int_equal(sp_queue_order_next(order_of("reorder"), w, 3, 32), -1);
    w[2].deferred = false;
    assert_int_equal(sp_queue_order_next(order_of("reorder"), w, 3, 32), 2);
    w[0].n_overtaken = 32; /* nobody overtakes it once more: all wait for a step */
    assert_int_equal(sp_queue_order_next(order_of("reorder"), w, 3, 32), -1);
    assert_int_equal(sp_queue_order_next(order_of("fcfs"), w, 3, 32), -1);
}

/* Of those that have waited too long the oldest is next, deferred or not, in its class alone. */
static void nobody_overtakes_who_has_waited_too_long(void **state)
{
    const int a = 0, b = 0;
    sp_waiting w[] = {{.tenant = &a, .n_cached = 1, .n_computed = 9},
                      {.tenant = &a, .n_cached = 2, .n_computed = 8, .waited = true},
                      {.tenant = &a, .n_cached = 9, .n_computed = 1, .waited = true},
                      {.tenant = &b, .served = -1, .n_cached = 1, .n_computed = 9}};
    assert_int_equal(sp_queue_order_next(order_of("reorder"), w, 3, 32), 1);
    assert_int_equal(sp_queue_order_next(order_of("reorder"), w, 4, 32), 3);
    w[1].deferred = true;
    assert_int_equal(sp_queue_order_next(order_of("reorder"), w, 3, 32), -1);
    w[1].waited = w[2].waited = w[1].deferred = false;
    assert_int_equal(sp_queue_order_next(order_of("reorder"), w, 3, 32), 2);
}

/* Random queues under random scores: no request of a tenant starts after more than `window` later
 * ones of it, and with a window of 0 all start as they came. */
static void overtaking(const char *name, int window, unsigned seed)
{
    enum { N = 400 };
    static sp_waiting w[N];
    int id[N], n = 0, arrived = 0, started[N], n_started = 0;
    const int tenants[2] = {0};
    srand(seed);
    while (n_started < N) {
        for (int k = rand() % 4; k > 0 && arrived < N; k--) {
            w[n] = (sp_waiting){.tenant = &tenants[rand() % 2], .n_computed = 1 + rand() % 100,
                                .n_cached = rand() % 100, .n_shared = rand() % 100};
            w[n].deferred = rand() % 4 == 0;
            id[n++] = arrived++;
        }
        if (n == 0) continue;
        int next = sp_queue_order_next(order_of(name), w, n, window);
        for (int i = 0; i < n; i++) w[i].deferred = false; /* the step is over */
        if (next < 0) continue;
        sp_queue_order_overtakes(w, next);
        assert_true(w[next].n_overtaken <= window);
        started[n_started++] = id[next];
        memmove(&w[next], &w[next + 1], (size_t)(n - next - 1) * sizeof *w);
        memmove(&id[next], &id[next + 1], (size_t)(n - next - 1) * sizeof *id);
        n--;
    }
    for (int i = 0; i < N; i++) {
        int later = 0;
        for (int k = 0; k < i; k++) later += started[k] > started[i];
        assert_true(later <= 2 * window); /* two tenants, served equally */
    }
}

static void nobody_is_overtaken_too_often(void **state)
{
    const char *const names[] = {"reorder", "fcfs", "lpm", "lsp"};
    for (size_t i = 0; i < SP_COUNT(names); i++)
        for (int window = 0; window <= 32; window += 8) overtaking(names[i], window, (unsigned)(i * 7 + 1));
}

/* -- tenants -------------------------------------------------------------------------------- */

static void overtaking_is_counted(void **state)
{
    sp_shares s = {0};
    sp_share *a, *b, *again;
    assert_ok(sp_shares_join(&s, "a", &a));
    sp_share_serve(a, 100, 10);
    assert_true(sp_share_served(a) == 120);
    assert_ok(sp_shares_join(&s, "b", &b)); /* new: lifted to those that are active */
    assert_true(sp_share_served(b) == 120);
    sp_shares_leave(&s, a);
    sp_share_serve(b, 1000, 0);
    assert_ok(sp_shares_join(&s, "a", &again));
    assert_ptr_equal(again, a);
    assert_true(sp_share_served(a) == 1120);
    sp_share_serve(a, 500, 0);
    sp_shares_leave(&s, b);
    assert_ok(sp_shares_join(&s, "b", &b));
    assert_true(sp_share_served(b) == 1620);
    sp_shares_leave(&s, a);
    sp_shares_leave(&s, b);
    for (int i = 0; i < 2 * SP_SHARES_IDLE; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        assert_ok(sp_shares_join(&s, name, &a));
        sp_shares_leave(&s, a);
    }
    assert_int_equal(s.n_idle, SP_SHARES_IDLE);
    sp_shares_fini(&s);
}

static void a_tenant_is_lifted_to_the_lowest_that_is_active(void **state)
{
    sp_shares s = {0};
    sp_share *low, *high, *idle, *new;
    assert_ok(sp_shares_join(&s, "idle", &idle));
    sp_share_serve(idle, 10, 0);
    sp_shares_leave(&s, idle);
    assert_ok(sp_shares_join(&s, "low", &low));
    assert_ok(sp_shares_join(&s, "high", &high));
    sp_share_serve(low, 100, 0);
    sp_share_serve(high, 300, 0);
    assert_ok(sp_shares_join(&s, "new", &new));
    assert_true(sp_share_served(new) == 100);
    sp_shares_leave(&s, low);
    sp_shares_leave(&s, high);
    sp_shares_leave(&s, new);
    sp_shares_fini(&s);
}

/* served_of -- 0 if the tenant was forgotten, since no other is active. */
static double served_of(sp_shares *s, const char *name)
{
    sp_share *t;
    assert_ok(sp_shares_join(s, name, &t));
    const double served = sp_share_served(t);
    sp_shares_leave(s, t);
    return served;
}

static void of_too_many_tenants_the_idle_one_that_had_least_is_forgotten(void **state)
{
    sp_shares s = {0};
    sp_share *runs, *t;
    char name[16];
    assert_ok(sp_shares_join(&s, "runs", &runs));
    sp_share_serve(runs, 1, 0);
    for (int i = 0; i <= SP_SHARES_IDLE; i++) {
        snprintf(name, sizeof name, "t%d", i);
        assert_ok(sp_shares_join(&s, name, &t));
        sp_share_serve(t, 1000 - (i == 5 ? 900 : 0), 0);
        sp_shares_leave(&s, t);
    }
    assert_ok(sp_shares_join(&s, "runs", &t));
    assert_true(sp_share_served(t) == 1);
    sp_shares_leave(&s, t);
    sp_shares_leave(&s, runs);
    assert_true(served_of(&s, "t5") < 100);
    assert_true(served_of(&s, "t4") > 100 && served_of(&s, "t6") > 100);
    sp_shares_fini(&s);
}

/* -- on a context --------------------------------------------------------------------------- */

static sp_request *submit_as(sp_context *c, const char *chunks, sp_request_opts o)
{
    sp_request *r;
    sp_prompt *p = prompt_of(c, chunks, "Why?");
    o.ignore_end = true;
    assert_ok(sp_request_submit(c, p, &o, &r));
    sp_prompt_destroy(p);
    return r;
}

/* order_they_start_in -- indices of r [n], each a digit. */
static const char *order_they_start_in(sp_context *c, sp_request *const *r, int n)
{
    static char seen[32];
    int n_seen = 0;
    bool busy = true;
    while (busy) {
        for (int i = 0; i < n; i++)
            if (r[i]->state != SP_REQ_QUEUED && !memchr(seen, '0' + i, (size_t)n_seen))
                seen[n_seen++] = (char)('0' + i);
        assert_ok(sp_context_step(c, &busy));
    }
    for (int i = 0; i < n; i++)
        if (!memchr(seen, '0' + i, (size_t)n_seen)) seen[n_seen++] = (char)('0' + i);
    seen[n_seen] = '\0';
    return seen;
}

static void close_all(sp_context *c, sp_request **r, int n)
{
    for (int i = 0; i < n; i++) sp_request_destroy(r[i]);
    close_clean(c);
}

static void what_is_cached_goes_first(void **state)
{
    const struct {
        const char *order, *policy, *expected;
        int window;
    } cases[] = {{"fcfs", "full", "0123", 0}, {"reorder", "prefix", "0312", 0},
                 {"lpm", "prefix", "0312", 0}, {"reorder", "full", "0321", 0},
                 {"lpm", "full", "0321", 0},   {"reorder", "full", "0312", 1}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_context *c = open_with((sp_context_opts){.queue.order = cases[i].order,
                                                    .queue.window = cases[i].window,
                                                    .max_requests = 1,
                                                    .reuse.policy = cases[i].policy});
        sp_request_destroy(ask(c, "012", "Who?", 2));
        sp_request *r[] = {submit_as(c, "1", (sp_request_opts){.max_tokens = 4}),
                           submit_as(c, "03", (sp_request_opts){.max_tokens = 1}),
                           submit_as(c, "20", (sp_request_opts){.max_tokens = 1}),
                           submit_as(c, "012", (sp_request_opts){.max_tokens = 1})};
        r[0]->o.priority = -1; /* it runs first, whatever the order says */
        sp_request *ahead[SP_QUEUE_LOOK];
        bool busy;
        assert_ok(sp_context_step(c, &busy)); /* r[0] runs; what is cached is known of the others */
        const int n = sp_queue_preview(c, ahead);
        assert_int_equal(n, 3);
        const char *const expected = cases[i].expected;
        if (cases[i].window == 0)
            for (int k = 0; k < n; k++) assert_ptr_equal(ahead[k], r[expected[k + 1] - '0']);
        assert_string_equal(order_they_start_in(c, r, 4), expected);
        close_all(c, r, 4);
    }
}

/* Of requests that come at once, one computes what they share. */
static void what_a_step_computes_is_not_computed_beside_it(void **state)
{
    const struct {
        const char *order, *policy, *chunks[3];
        const char *before; /* is cached */
    } cases[] = {{"reorder", "prefix", {"01", "02", "3"}, NULL}, {"fcfs", "prefix", {"01", "02", "3"}, NULL},
                 {"reorder", "full", {"01", "21", "3"}, NULL},   {"reorder", "fusion", {"01", "21", "3"}, NULL},
                 {"reorder", "prefix", {"01", "02", "3"}, "2"}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_context *c = open_with((sp_context_opts){.queue.order = cases[i].order,
                                                    .n_batch = 4096,
                                                    .max_requests = 8,
                                                    .reuse.policy = cases[i].policy});
        if (cases[i].before) sp_request_destroy(ask(c, cases[i].before, "Who?", 2));
        sp_request *r[3];
        for (int k = 0; k < 3; k++)
            r[k] = submit_as(c, cases[i].chunks[k], (sp_request_opts){.max_tokens = 1});
        for (bool busy = true; busy;) assert_ok(sp_context_step(c, &busy));
        const sp_result *second = sp_request_result(r[1]);
        assert_int_equal(second->finish, SP_FINISH_LENGTH);
        int32_t shared = 0;
        for (int k = 0; k < r[1]->prompt.n_segs; k++)
            for (int o = 0; o < r[0]->prompt.n_segs - 1; o++)
                if (sp_digest_eq(&r[1]->prompt.ids[k], &r[0]->prompt.ids[o]))
                    shared += r[1]->prompt.segs[k].n;
        assert_true(shared > 0);
        assert_int_equal(second->n_reused + second->n_recomputed, shared);
        close_all(c, r, 3);
    }
}

/* What is cached already is not waited for. */
static void who_lacks_nothing_of_a_path_starts_beside_it(void **state)
{
    bool busy;
    sp_context *c = open_with(
        (sp_context_opts){.queue.order = "fcfs", .n_batch = 4096, .max_requests = 8, .reuse.policy = "prefix"});
    sp_request_destroy(ask(c, "01", "Who?", 2));
    sp_request *r[] = {submit_as(c, "012", (sp_request_opts){.max_tokens = 4}),
                       submit_as(c, "01", (sp_request_opts){.max_tokens = 4})};
    assert_ok(sp_context_step(c, &busy));
    assert_int_not_equal(r[1]->state, SP_REQ_QUEUED);
    while (busy) assert_ok(sp_context_step(c, &busy));
    close_all(c, r, 2);
}

/* RAGCache's ratio: tokens that a policy will recompute are not free. */
static void tokens_to_recompute_count_as_computed(void **state)
{
    bool busy;
    sp_context *c = open_with((sp_context_opts){.queue.order = "reorder", .max_requests = 1,
                                                .reuse = {.policy = "fusion", .recompute = 0.5f}});
    sp_request_destroy(ask(c, "01", "Who?", 2));
    sp_request *r[] = {submit_as(c, "3", (sp_request_opts){.max_tokens = 4, .priority = -1}),
                       submit_as(c, "01", (sp_request_opts){.max_tokens = 1}),
                       submit_as(c, "2", (sp_request_opts){.max_tokens = 1})};
    assert_ok(sp_context_step(c, &busy));
    const sp_request *waits = r[1];
    int32_t n_chunks = 0;
    for (int i = 0; i < waits->prompt.n_segs; i++)
        n_chunks += waits->prompt.segs[i].kind == SP_SEG_CHUNK ? waits->prompt.segs[i].n : 0;
    const sp_waiting w = waits->place.waiting;
    assert_true(n_chunks > 4 && w.n_cached >= n_chunks);
    assert_int_equal(w.n_computed, waits->prompt.n_tokens - w.n_cached + n_chunks / 2);
    while (busy) assert_ok(sp_context_step(c, &busy));
    close_all(c, r, 3);
}

/* A prompt that fills steps keeps others in the queue, where the order still applies. */
static void requests_start_when_a_step_has_room(void **state)
{
    sp_context *c =
        open_with((sp_context_opts){.queue.order = "fcfs", .n_batch = 16, .max_requests = 8});
    sp_request *r[] = {submit_as(c, "012", (sp_request_opts){.max_tokens = 1}),
                       submit_as(c, "3", (sp_request_opts){.max_tokens = 1}),
                       submit_as(c, "2", (sp_request_opts){.max_tokens = 1, .priority = -1})};
    bool busy;
    assert_ok(sp_context_step(c, &busy));
    assert_int_equal(r[2]->state, SP_REQ_PREFILL);
    assert_int_equal(r[0]->state, SP_REQ_QUEUED);
    assert_string_equal(order_they_start_in(c, r, 3), "201");
    close_all(c, r, 3);
}

static void what_a_step_has_room_for_starts_in_it(void **state)
{
    sp_context *c = open_with((sp_context_opts){.queue.order = "fcfs", .n_batch = 256, .max_requests = 8});
    sp_request_destroy(ask(c, "3", "Why?", 2)); /* what they begin with is cached */
    sp_request *r[] = {submit_as(c, "0", (sp_request_opts){.max_tokens = 2}),
                       submit_as(c, "1", (sp_request_opts){.max_tokens = 2}),
                       submit_as(c, "2", (sp_request_opts){.max_tokens = 2})};
    bool busy;
    assert_ok(sp_context_step(c, &busy));
    for (int i = 0; i < 3; i++) assert_int_not_equal(r[i]->state, SP_REQ_QUEUED);
    while (busy) assert_ok(sp_context_step(c, &busy));
    close_all(c, r, 3);
}

/* With a wait of 1 ms all of them have waited too long once the first has run. */
static void a_wait_ends_overtaking(void **state)
{
    for (int wait = 0; wait < 2; wait++) {
        sp_context *c = open_with((sp_context_opts){.queue.order = "reorder",
                                                    .queue.wait_ms = wait ? 1 : 3600000,
                                                    .max_requests = 1,
                                                    .reuse.policy = "prefix"});
        sp_request_destroy(ask(c, "012", "Who?", 2));
        sp_request *r[] = {submit_as(c, "1", (sp_request_opts){.max_tokens = 200}),
                           submit_as(c, "3", (sp_request_opts){.max_tokens = 1}),
                           submit_as(c, "012", (sp_request_opts){.max_tokens = 1})};
        r[0]->o.priority = -1;
        assert_string_equal(order_they_start_in(c, r, 3), wait ? "012" : "021");
        close_all(c, r, 3);
    }
}

static void lsp_keeps_those_together_that_begin_alike(void **state)
{
    sp_context *c = open_with((sp_context_opts){.queue.order = "lsp", .max_requests = 1});
    const char *const chunks[] = {"3", "01", "2", "012"};
    sp_request *r[4];
    for (int i = 0; i < 4; i++) r[i] = submit_as(c, chunks[i], (sp_request_opts){.max_tokens = 1});
    assert_string_equal(order_they_start_in(c, r, 4), "1302");
    close_all(c, r, 4);
}

static void priorities_and_tenants_come_first(void **state)
{
    sp_context *c = open_with((sp_context_opts){.queue.order = "fcfs", .max_requests = 1});
    sp_request *r[] = {submit_as(c, "0", (sp_request_opts){.max_tokens = 4, .tenant = "a"}),
                       submit_as(c, "1", (sp_request_opts){.max_tokens = 4, .tenant = "a"}),
                       submit_as(c, "2", (sp_request_opts){.max_tokens = 4, .tenant = "a"}),
                       submit_as(c, "3", (sp_request_opts){.max_tokens = 1, .tenant = "b"}),
                       submit_as(c, "3", (sp_request_opts){.max_tokens = 4, .tenant = "a", .priority = -2})};
    assert_string_equal(order_they_start_in(c, r, 5), "43012");
    assert_int_equal(c->waiting.shares.n_idle, 2); /* none of the tenants has a request any more */
    close_all(c, r, 5);
}

/* The first token of an answer comes with the prompt. */
static void tokens_of_an_answer_count_twice(void **state)
{
    sp_context *c = open_with((sp_context_opts){.reuse.policy = "off"});
    sp_request *r = submit_as(c, "0", (sp_request_opts){.max_tokens = 5, .tenant = "a"});
    run(c, r);
    assert_true(served_of(&c->waiting.shares, "a") == sp_request_result(r)->n_prompt + 2 * 4);
    close_all(c, &r, 1);
}

/* Something else holds a block for now: with all of the memory it would begin, with more it never would. */
static void what_needs_all_of_the_memory_may_begin_later(void **state)
{
    sp_context *c = open_with((sp_context_opts){.reuse.policy = "off", .cache.kv_bytes = 1 << 17});
    const int64_t all = sp_kv_pool_n_blocks(c->pool);
    uint32_t held;
    sp_request *r;
    assert_ok(sp_kv_acquire(c->pool, 1, &held));
    char most[64] = "", says[64];
    for (int n = SP_BLOCK_TOKENS; (r = submit_if_it_fits(c, "0", "Why?", n)); n += SP_BLOCK_TOKENS) {
        const sp_result *got = sp_request_result(run(c, r));
        if (got->err == SP_E_NOKV) snprintf(most, sizeof most, "%s", strstr(got->detail, "need"));
        const bool never = got->err == SP_E_CONTEXT;
        sp_request_destroy(r);
        if (never) break;
    }
    snprintf(says, sizeof says, "need %lld blocks of KV memory; %lld", (long long)all, (long long)all - 1);
    assert_int_equal(strncmp(most, says, strlen(says)), 0);
    sp_kv_release(c->pool, &held, 1);
    close_clean(c);
}

static void a_request_that_cannot_begin_in_time_fails(void **state)
{
    sp_context *c = open_with((sp_context_opts){.max_requests = 1});
    sp_request *r[] = {submit_as(c, "0", (sp_request_opts){.max_tokens = 200}),
                       submit_as(c, "1", (sp_request_opts){.max_tokens = 4, .max_wait_ms = 1}),
                       submit_as(c, "2", (sp_request_opts){.max_tokens = 4, .max_wait_ms = 3600000})};
    order_they_start_in(c, r, 3);
    const sp_result *late = sp_request_result(r[1]);
    assert_int_equal(late->finish, SP_FINISH_ERROR);
    assert_int_equal(late->err, SP_E_CANCELED);
    assert_non_null(strstr(late->detail, "max_wait_ms"));
    assert_int_equal(late->n_generated, 0);
    assert_int_equal(sp_request_result(r[0])->n_generated, 200);
    assert_int_equal(sp_request_result(r[2])->n_generated, 4);
    close_all(c, r, 3);
}

/* More wait than are looked at: all are answered, and none is lost. */
static void a_long_queue_loses_no_request(void **state)
{
    enum { N = SP_QUEUE_LOOK + 100 };
    static sp_request *r[N];
    sp_context *c = open_with((sp_context_opts){.max_requests = 4, .reuse.policy = "full"});
    char chunks[3] = "";
    for (int i = 0; i < N; i++) {
        chunks[0] = (char)('0' + i % 3);
        chunks[1] = (char)('0' + i / 3 % 4);
        r[i] = submit_as(c, chunks, (sp_request_opts){.max_tokens = 1, .priority = i % 2});
    }
    for (int i = 0; i < N; i += 10) sp_request_cancel(r[i]);
    for (bool busy = true; busy;) assert_ok(sp_context_step(c, &busy));
    for (int i = 0; i < N; i++)
        assert_int_equal(sp_request_result(r[i])->n_generated, i % 10 ? 1 : 0);
    close_all(c, r, N);
}

/* minutes -- from when r was submitted until the first of those that wait expires. */
static int minutes(const sp_context *c, const sp_request *r)
{
    const int64_t us = c->waiting.next_expiry_us - r->account.submit_us, minute = 60000000;
    return us % minute ? -1 : (int)(us / minute);
}

static void the_first_to_expire_is_looked_at(void **state)
{
    static const int waits[] = {20, 10, 30};
    sp_context *c = open_policy(&(policy){"full", 0});
    sp_request *r[3];
    for (int i = 0; i < 3; i++) {
        sp_prompt *p = prompt_of(c, "0", "Why?");
        const sp_request_opts o = {
            .sampling = sp_sampling_default(), .max_tokens = 1, .max_wait_ms = waits[i] * 60000};
        assert_ok(sp_request_submit(c, p, &o, &r[i]));
        sp_prompt_destroy(p);
        assert_int_equal(minutes(c, r[i < 1 ? 0 : 1]), i < 1 ? 20 : 10);
    }
    sp_request_cancel(r[1]);
    sp_queue_expire(c);
    assert_int_equal(minutes(c, r[0]), 20);
    sp_request_cancel(r[0]);
    sp_queue_expire(c);
    assert_int_equal(minutes(c, r[2]), 30);
    sp_request_cancel(r[2]);
    sp_queue_expire(c);
    assert_int_equal(c->waiting.next_expiry_us, 0);
    for (int i = 0; i < 3; i++) sp_request_destroy(run(c, r[i]));
    close_clean(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_found_by_name),
        cmocka_unit_test(each_order_has_its_score),
        cmocka_unit_test(classes_come_before_scores),
        cmocka_unit_test(own_priority_orders_a_tenants_requests_alone),
        cmocka_unit_test(deferred_requests_are_passed_over),
        cmocka_unit_test(nobody_overtakes_who_has_waited_too_long),
        cmocka_unit_test(nobody_is_overtaken_too_often),
        cmocka_unit_test(overtaking_is_counted),
        cmocka_unit_test(a_tenant_is_lifted_to_the_lowest_that_is_active),
        cmocka_unit_test(of_too_many_tenants_the_idle_one_that_had_least_is_forgotten),
        cmocka_unit_test(what_is_cached_goes_first),
        cmocka_unit_test(what_a_step_computes_is_not_computed_beside_it),
        cmocka_unit_test(who_lacks_nothing_of_a_path_starts_beside_it),
        cmocka_unit_test(tokens_to_recompute_count_as_computed),
        cmocka_unit_test(requests_start_when_a_step_has_room),
        cmocka_unit_test(what_a_step_has_room_for_starts_in_it),
        cmocka_unit_test(a_wait_ends_overtaking),
        cmocka_unit_test(lsp_keeps_those_together_that_begin_alike),
        cmocka_unit_test(priorities_and_tenants_come_first),
        cmocka_unit_test(tokens_of_an_answer_count_twice),
        cmocka_unit_test(what_needs_all_of_the_memory_may_begin_later),
        cmocka_unit_test(a_request_that_cannot_begin_in_time_fails),
        cmocka_unit_test(a_long_queue_loses_no_request),
        cmocka_unit_test(the_first_to_expire_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
