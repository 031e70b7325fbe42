/* test_tier_faults.c -- a tier that does not answer, reads or writes, and a device that loses its memory: requests get
 * the right answer or a clear error, and what lower tiers have serves the next ones. */
#include <unistd.h>

#include "base/clock.h"
#include "serve/documents/erase.h"
#include "support/far_device.h"
#include "support/folder.h"
#include "support/requests.h"
#include "support/slow_store.h"
#include "support/tiers.h"

static const policy full = {"full", 0};
static const char question[] = "Which?";

enum { LONG_MS = 60000 /* more than any disk takes */ };

static int n_missed(const sp_request *r, const char *why)
{
    const sp_result *res = sp_request_result(r);
    int n = 0;
    for (int i = 0; i < res->n_segments; i++) n += strcmp(res->segments[i].missed, why) == 0;
    return n;
}

/* -- a tier that does not answer ------------------------------------------------------------ */

static sp_context *open_store(const char *dir, const char *name, int timeout_ms)
{
    return open_with((sp_context_opts){.tiers.store = dir,
                                       .queue.order = "fcfs",
                                       .tiers.load_timeout_ms = timeout_ms,
                                       .reuse.policy = name,
                                       .n_batch = 40});
}

static int64_t n_free(const sp_context *c)
{
    return sp_kv_pool_n_free(c->pool);
}

static int n_loading(const sp_context *c)
{
    int n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        n += v->state == SP_COPY_LOADING;
    return n;
}

/* open_held_up -- a store with copies of these chunks, whose readers do not answer. */
static sp_context *open_held_up(const char *dir, const char *name, const char *order, int timeout_ms, barrier *b)
{
    sp_context *c = open_store(dir, name, 0);
    sp_request_destroy(ask(c, order, question, 2));
    close_clean(c);
    c = open_store(dir, name, timeout_ms);
    barrier_close(b, c);
    return c;
}

/* Whoever asks or cancels while a request waits for the store is answered at once. */
static void a_load_holds_up_no_command(void **state)
{
    char dir[128];
    barrier b;
    make_folder(dir, sizeof dir);
    sp_context *c = open_held_up(dir, "full", "01", LONG_MS, &b);
    assert_ok(sp_context_start(c));
    sp_request *r = submit(c, "01", question, 2);
    usleep(100000); /* it waits */
    const int64_t from = sp_clock_us();
    sp_context_describe(c);
    usleep(100000);
    sp_request_cancel(r);
    assert_true(sp_request_wait(r, 60000000));
    assert_int_equal(sp_request_result(r)->finish, SP_FINISH_CANCELED);
    assert_true(sp_clock_us() - from < 8000000);
    sp_request_destroy(r);
    barrier_open(&b);
    barrier_end(&b);
    sp_context_stop(c);
    close_clean(c);
    remove_folder(dir);
}

static void a_load_times_out(void **state)
{
    static const char *const policies[] = {"full", "prefix"};
    for (size_t p = 0; p < SP_COUNT(policies); p++) {
        char dir[128];
        barrier b;
        const policy with = {policies[p], 0};
        make_folder(dir, sizeof dir);
        sp_context *c = open_held_up(dir, policies[p], "01", 60, &b);
        sp_request *r = ask_as_alone(c, &with, "01", question, 6); /* it comes although the store does not answer */
        assert_int_equal(n_from(r, "disk"), 0);
        assert_true(n_missed(r, "late") > 0);
        assert_int_equal(n_loading(c), 0);
        const int n_abandoned = sp_tiers_level(c->tiers, SP_AT_DISK)->n_abandoned;
        assert_true(n_abandoned > 0);
        sp_request_destroy(r);

        sp_ledger_lose_device(c->ledger);
        r = ask(c, "01", "Why?", 6); /* nothing is asked for while the store does not answer */
        assert_int_equal(sp_tiers_level(c->tiers, SP_AT_DISK)->n_abandoned, n_abandoned);
        assert_text(r, alone(&with, "01", "Why?", 6));
        sp_request_destroy(r);

        sp_ledger_lose_device(c->ledger);
        assert_int_equal(n_free(c), sp_kv_pool_n_blocks(c->pool)); /* what is late holds no memory */
        barrier_open(&b);
        barrier_end(&b);
        c->tiers->timeout_us = 60000000; /* as long as a slow machine takes */
        tiers_rest(c->tiers);            /* what was asked for ends late */
        assert_int_equal(sp_tiers_level(c->tiers, SP_AT_DISK)->n_abandoned, 0);
        assert_true(sp_tiers_level(c->tiers, SP_AT_DISK)->byte_us > 0); /* slow, but it has read */
        assert_null(c->tiers->loads.abandoned);
        assert_int_equal(n_free(c), sp_kv_pool_n_blocks(c->pool));
        r = ask(c, "01", question, 6);
        assert_true(n_from(r, "disk") >= 2);
        assert_text(r, alone(&with, "01", question, 6));
        sp_request_destroy(r);
        close_clean(c);
        remove_folder(dir);
    }
}

/* in_seconds -- until a load of the remote tier, which has sent something a moment ago, is given up. It began so long
 * ago. */
static int in_seconds(const sp_context *c, int64_t began_us)
{
    sp_level *l = sp_tiers_level(c->tiers, SP_AT_DISK);
    l->place = SP_AT_REMOTE;
    l->busy_limit_us = 1e12;
    c->tiers->timeout_us = INT64_C(1000000000000); /* the program may have been stopped for long */
    int64_t us;
    do { /* the machine may be busy */
        c->tiers->loads.heard_us = sp_clock_us();
        l->busy_since_us = c->tiers->loads.heard_us - began_us;
        us = sp_tiers_until_expiry(c->tiers);
    } while (sp_clock_us() - c->tiers->loads.heard_us > 500000);
    l->place = SP_AT_DISK;
    return (int)((us + 999999) / 1000000);
}

/* in_silence -- in_seconds, of a tier that is usually silent so long. */
static int in_silence(const sp_context *c, double gap_us, double dev_us, double cost_us)
{
    sp_level *l = sp_tiers_level(c->tiers, SP_AT_DISK);
    l->gap_us = gap_us;
    l->gap_dev_us = dev_us;
    l->busy_cost_us = cost_us;
    return in_seconds(c, 0);
}

static void set_costs(const sp_context *c, float us)
{
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        ((sp_copy *)(uintptr_t)v)->facts.cost_us = us;
}

/* As long as it usually is silent and four deviations more, or a twentieth of computing; 10 s is the longest wait. */
static void a_remote_tier_may_be_as_silent_as_it_is(void **state)
{
    const char *dir = *state;
    barrier b;
    sp_context *c = open_held_up(dir, "full", "01", LONG_MS, &b);
    sp_request *r = submit(c, "01", question, 2);
    step(c);
    assert_true(n_loading(c) > 0);
    set_costs(c, 1e9F);
    assert_int_equal(in_silence(c, 0, 0, 0), 10);
    assert_int_equal(in_silence(c, 3e6, 0, 0), 3);
    assert_int_equal(in_silence(c, 1e6, 1e6, 0), 5);
    assert_int_equal(in_silence(c, 1e6, 1e6, 120e6), 6);
    assert_int_equal(in_silence(c, 1e6, 1e6, 40e6), 5);
    barrier_open(&b);
    barrier_end(&b);
    sp_request_destroy(run(c, r));
    close_clean(c);
}

/* As long as what is missing takes less, at the pace so far, than computing it; but for the silence that is usual. */
static void a_remote_tier_may_be_slow_but_sooner_than_computing(void **state)
{
    const char *dir = *state;
    barrier b;
    sp_context *c = open_held_up(dir, "full", "01", LONG_MS, &b);
    sp_level *l = sp_tiers_level(c->tiers, SP_AT_DISK);
    sp_request *r = submit(c, "01", question, 2);
    step(c);
    assert_true(n_loading(c) > 0);
    const double missing = l->busy_asked;
    assert_true(missing > 0);
    set_costs(c, 12e6F / (float)n_loading(c)); /* 12 s for all of them */
    l->gap_us = 9e6;
    l->busy_cost_us = 12e6;
    assert_int_equal(in_seconds(c, 1000000), 8); /* nothing has come: it may be silent for 9 s */
    l->busy_asked = 2 * missing; /* half of it has come */
    assert_int_equal(in_seconds(c, 1000000), 9); /* 11 by its pace */
    assert_int_equal(in_seconds(c, 9000000), 3);
    assert_true(in_seconds(c, 12500000) <= 0);
    l->busy_asked = 1.5 * missing;
    assert_true(in_seconds(c, 9500000) <= 0); /* 6 s; 9 have passed */
    l->busy_asked = 3 * missing;
    assert_int_equal(in_seconds(c, 20000000), 4);
    barrier_open(&b);
    barrier_end(&b);
    sp_request_destroy(run(c, r));
    close_clean(c);
}

/* The answer of the tier comes while what was computed instead is in use. */
static void a_late_answer_changes_nothing(void **state)
{
    const char *dir = *state;
    barrier b;
    sp_context *c = open_held_up(dir, "full", "012", 30, &b);
    sp_request *r = submit(c, "210", question, 24);
    while (r->state != SP_REQ_DECODE) step(c);
    assert_true(sp_tiers_level(c->tiers, SP_AT_DISK)->n_abandoned > 0);
    barrier_open(&b);
    for (int i = 0; !done(r); i++) {
        step(c);
        if (i == 4) usleep(20000); /* some of it comes now */
    }
    assert_text(r, alone(&full, "210", question, 24));
    barrier_end(&b);
    sp_request_destroy(r);
    close_clean(c);
}

/* Closing and forgetting do not wait for requests, but the first waits for the tier: it has the blocks. */
static void forgetting_does_not_wait(void **state)
{
    const char *dir = *state;
    barrier b;
    sp_context *c = open_held_up(dir, "full", "01", 30, &b);
    sp_request *r = submit(c, "01", question, 2);
    step(c);
    assert_true(n_loading(c) > 0);
    sp_request_destroy(r);
    sp_context_forget(c);
    assert_int_equal(n_loading(c), 0);
    assert_int_equal(sp_tiers_level(c->tiers, SP_AT_DISK)->n_abandoned > 0, 1);
    barrier_open(&b);
    barrier_end(&b);
    sp_context_close(c);
    c = NULL;
    const sp_context_opts wrong = {.model = MODEL, .tiers.load_timeout_ms = -1};
    assert_fails(sp_context_open(&wrong, &c), SP_E_ARG, "load_timeout_ms");
}

/* A header that does not come in time is an error, and what arrives late harms nobody. */
static void a_header_times_out(void **state)
{
    const char *dir = *state;
    barrier b;
    bool fresh;
    sp_context *c = open_store(dir, "full", LONG_MS);
    sp_prompt *p = prompt_of(c, "01", NULL);
    assert_ok(sp_chunk_fuse(c, p, &fresh));
    tiers_rest(c->tiers);
    barrier_close(&b, c);
    c->tiers->timeout_us = 60000;
    assert_fails(sp_chunk_fuse(c, p, &fresh), SP_E_IO, "does not answer");
    c->tiers->timeout_us = LONG_MS * INT64_C(1000);
    barrier_open(&b);
    barrier_end(&b);
    assert_ok(sp_chunk_fuse(c, p, &fresh));
    assert_false(fresh);
    sp_prompt_destroy(p);
    close_clean(c);
}

/* -- a write that hangs --------------------------------------------------------------------- */

static int n_on_disk(const sp_context *c)
{
    int n = 0;
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        n += (v->places & SP_AT_DISK) != 0;
    return n;
}

/* hang -- requests until the write has timed out. */
static void hang(sp_context *c, barrier *b)
{
    barrier_close_writer(b, c);
    for (int i = 0; !c->tiers->writes.stuck && i < 5000; i++) {
        sp_request_destroy(ask_as_alone(c, &full, "01", question, 6));
        usleep(5000);
    }
    assert_true(c->tiers->writes.stuck);
}

static void a_write_that_hangs_is_given_up(void **state)
{
    const char *dir = *state;
    barrier b;
    bool fresh;
    sp_context *c = open_store(dir, "full", 60);
    atomic_store(&c->tiers->writes.n_taken, 7); /* layers of writes before it */
    hang(c, &b);
    assert_int_equal(n_on_disk(c), 0);
    const int64_t n_failed = sp_tiers_n_failed(c->tiers);
    assert_true(n_failed > 0); /* one copy is with the writer, and others have waited for it */
    assert_int_equal(sp_tiers_n_storing_blocks(c->tiers), 0);
    sp_ledger_lose_device(c->ledger);
    assert_int_equal(n_free(c), sp_kv_pool_n_blocks(c->pool)); /* none of them holds memory */
    sp_request_destroy(ask_as_alone(c, &full, "23", "Why?", 6));
    assert_true(sp_tiers_n_failed(c->tiers) > n_failed); /* nothing queues up */
    sp_prompt *p = prompt_of(c, "01", NULL);
    assert_fails(sp_chunk_fuse(c, p, &fresh), SP_E_IO, "does not answer");
    int64_t n_store;
    const sp_digest id = p->segs.v[p->segs.n - 1].id;
    assert_fails(sp_context_erase_tiers(c, &id, 1, &n_store), SP_E_IO, "does not answer");
    assert_int_equal(c->tiers->sweeps.n_left, 0); /* no sweep has begun */
    assert_ok(sp_tiers_erasing(c->tiers, NULL, 0));
    sp_prompt_destroy(p);
    c->tiers->timeout_us = LONG_MS * INT64_C(1000);
    barrier_open(&b);
    barrier_end(&b);
    tiers_rest(c->tiers);
    assert_false(c->tiers->writes.stuck);
    sp_request *r = ask(c, "01", question, 6); /* what was missed is written after its next use */
    sp_request_destroy(r);
    tiers_rest(c->tiers);
    assert_true(n_on_disk(c) >= 3);
    close_clean(c);
    c = open_store(dir, "full", 0);
    r = ask(c, "01", question, 6);
    assert_true(n_from(r, "disk") >= 2);
    assert_text(r, alone(&full, "01", question, 6));
    sp_request_destroy(r);
    close_clean(c);
}

/* The memory that the writer reads stays; so the context can be closed once more when the store answers. */
static void closing_does_not_wait_for_a_write(void **state)
{
    const char *dir = *state;
    barrier b;
    sp_context *c = open_store(dir, "full", 60);
    hang(c, &b);
    sp_context_forget(c);
    sp_context_close(c);
    barrier_open(&b);
    barrier_end(&b);
    sp_context_close(c);
}

/* -- a deletion while the store hangs ------------------------------------------------------- */

typedef struct deletion {
    sp_context *c;
    sp_digest id;
    atomic_bool begun, over;
    sp_err err;
} deletion;

static void *delete(void *arg)
{
    deletion *d = arg;
    int64_t n;
    d->begun = true;
    d->err = sp_context_erase_tiers(d->c, &d->id, 1, &n);
    d->over = true;
    return NULL;
}

/* Others are answered meanwhile; the deletion ends with an error, and the next one finds everything. */
static void a_deletion_holds_up_nobody(void **state)
{
    const char *dir = *state;
    barrier b;
    pthread_t thread;
    sp_erased e;
    int64_t n;
    sp_context *c = open_store(dir, "full", 3000);
    sp_request_destroy(ask(c, "01", question, 2));
    tiers_rest(c->tiers);
    barrier_close_writer(&b, c);
    sp_prompt *p = prompt_of(c, "1", NULL);
    deletion d = {.c = c, .id = p->segs.v[p->segs.n - 1].id};
    sp_prompt_destroy(p);
    assert_ok(sp_context_start(c));
    assert_int_equal(pthread_create(&thread, NULL, delete, &d), 0);
    while (!d.begun) usleep(1000);
    usleep(50000);
    sp_request *r[2];
    for (int i = 0; i < 2; i++) {
        r[i] = submit(c, "3", question, 6);
        assert_true(sp_request_wait(r[i], 60000000));
    }
    assert_false(d.over);
    for (int i = 0; i < 2; i++) {
        assert_text(r[i], alone(&full, "3", question, 6));
        sp_request_destroy(r[i]);
    }
    pthread_join(thread, NULL);
    assert_int_equal(d.err, SP_E_IO);
    assert_int_equal(c->tiers->sweeps.n_left, 1);
    assert_fails(sp_context_erase_tiers(c, &d.id, 1, &n), SP_E_IO, "does not answer"); /* at once */
    assert_int_equal(c->tiers->sweeps.n_left, 1); /* and no other sweep waits behind it */
    barrier_open(&b);
    barrier_end(&b);
    for (int i = 0; i < 30000 && sp_context_erase_tiers(c, &d.id, 1, &n) != SP_OK; i++) usleep(10000);
    assert_ok(sp_context_erase_device(c, &d.id, 1, &e));
    assert_int_equal(e.n_pending, 0);
    sp_context_stop(c);
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        assert_false(sp_digest_eq(&v->facts.id, &d.id));
    close_clean(c);
}

/* -- a device that loses its memory --------------------------------------------------------- */

static sp_context *open_far(sp_device **d, sp_context_opts o)
{
    sp_context *c = NULL;
    assert_ok(far_device_open(&(sp_device_opts){.n_threads = 1}, d));
    if (o.decode.context_bytes) far_bring_near(*d);
    o.model = MODEL;
    o.cache.kv_bytes = 2 << 20;
    o.n_batch = 40;
    o.machine.n_threads = 1;
    o.queue.order = "fcfs";
    assert_ok(sp_context_open_on(*d, &o, &c));
    c->loads.patience_us = 60000000; /* a busy machine reads slowly */
    return c;
}

enum { MOST = 16 };

typedef struct sums {
    sp_digest id[MOST];
    int32_t at[MOST];
    uint64_t hash[MOST];
    int n;
} sums;

static sums sums_of(const sp_context *c)
{
    sums s = {0};
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));) {
        if (v->state != SP_COPY_READY || v->n < SP_BLOCK_TOKENS) continue;
        assert_true(s.n < MOST);
        s.id[s.n] = v->facts.id;
        s.at[s.n] = v->facts.at;
        s.hash[s.n++] = copy_hash(c, v);
    }
    return s;
}

/* n_same -- copies that are in both; they are equal. */
static int n_same(const sums *a, const sums *b)
{
    int n = 0;
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            if (!sp_digest_eq(&a->id[i], &b->id[k]) || a->at[i] != b->at[k]) continue;
            assert_true(a->hash[i] == b->hash[k]);
            n++;
        }
    return n;
}

/* lose -- while one request decodes, one has begun, and one waits. All of them continue: what is answered stays, and
 * the whole answers are those of requests that nothing happened to. */
static void lose(sp_context *c, sp_device *d, const policy *with)
{
    bool busy;
    sp_request *decodes = submit(c, "3", "Why?", 40);
    while (decodes->answer.tokens.n < 5) step(c);
    sp_request *begins = submit(c, "2", "What is it?", 4);
    c->limits.max_requests = 2;
    sp_request *waits = submit(c, "01", question, 6);
    step(c);
    const size_t n_before = decodes->answer.tokens.n, n_shown = decodes->answer.n_shown;
    const int64_t first_us = decodes->account.first_us;
    if (c->offload) tiers_rest(c->tiers); /* it reads without the device */
    far_lose(d);
    assert_fails(sp_context_step(c, &busy), SP_E_IO, "does not answer");
    assert_true(busy && !done(decodes) && !done(begins) && !done(waits));
    assert_int_equal(c->n_running, 0);
    assert_ptr_equal(c->waiting.first, decodes); /* before those that waited, in their order */
    assert_ptr_equal(decodes->next, begins);
    assert_true(decodes->answer.tokens.n == n_before && decodes->answer.n_shown == n_shown);
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        assert_int_equal(v->state, SP_COPY_FREE);
    far_found(d);
    assert_text(run(c, decodes), alone(with, "3", "Why?", 40));
    assert_text(run(c, begins), alone(with, "2", "What is it?", 4));
    assert_text(run(c, waits), alone(with, "01", question, 6));
    assert_int_equal(decodes->account.first_us, first_us);
    c->limits.max_requests = 8;
    sp_request_destroy(decodes);
    sp_request_destroy(begins);
    sp_request_destroy(waits);
}

/* A device that stays lost: requests end with its error after a few times. */
static void a_device_that_stays_lost_ends_requests(void **state)
{
    bool busy = true;
    sp_device *d;
    sp_context *c = open_far(&d, (sp_context_opts){.reuse.policy = "full"});
    sp_request *r = submit(c, "3", "Why?", 40);
    while (r->answer.tokens.n < 5) step(c);
    far_lose(d);
    for (int n = 0; !done(r); n++) {
        assert_true(n < 10);
        sp_err err = sp_context_step(c, &busy);
        assert_true(err == SP_E_IO || done(r));
    }
    assert_int_equal(sp_request_result(r)->err, SP_E_IO);
    assert_non_null(strstr(sp_request_result(r)->detail, "lost its memory"));
    assert_int_equal(sp_request_result(r)->n_generated, 5);
    far_found(d);
    sp_request_destroy(r);
    close_clean(c);
    sp_device_close(d);
}

static void loss(const char *name, bool host, bool disk)
{
    char dir[128];
    sp_device *d;
    const policy with = {name, 0};
    make_folder(dir, sizeof dir);
    sp_context *c = open_far(&d, (sp_context_opts){.tiers.store = disk ? dir : NULL,
                                                   .tiers.host_bytes = host ? 4 << 20 : 0,
                                                   .reuse.policy = name});
    assert_true(((far_device *)d)->first_bytes >= (size_t)sp_kv_pool_n_blocks(c->pool) *
                                                      sp_kv_block_bytes(sp_kv_pool_shape(c->pool)));
    for (int i = 0; i < 4; i++) sp_request_destroy(ask(c, "01", question, 6));
    sp_request_destroy(ask_as_alone(c, &with, "01", question, 6));
    if (disk || host) tiers_rest(c->tiers);
    const sums before = sums_of(c);
    assert_true(before.n >= 2);
    lose(c, d, &with);
    sp_ledger_lose_pinned(c->ledger);
    sp_request *r = ask_as_alone(c, &with, "01", question, 6);
    if (disk || host) assert_true(n_from(r, "disk") + n_from(r, "host") > 0);
    sp_request_destroy(r);
    const sums after = sums_of(c);
    assert_true(n_same(&before, &after) >= 2);
    close_clean(c);
    sp_device_close(d);
    remove_folder(dir);
}

static void the_device_loses_its_memory(void **state)
{
    static const char *const policies[] = {"prefix", "full", "set"};
    for (size_t p = 0; p < SP_COUNT(policies); p++)
        for (int tiers = 0; tiers < 4; tiers++) loss(policies[p], tiers & 1, tiers & 2);
}

/* Pinned copies are lost, too: nobody may read what is there now. */
static void pinned_copies_are_lost_too(void **state)
{
    const char *dir = *state;
    sp_device *d;
    sp_held held = {0};
    sp_digest id = {{0}};
    sp_context *c = open_far(&d, (sp_context_opts){.tiers.store = dir, .reuse.policy = "full"});
    sp_request_destroy(ask(c, "01", question, 6));
    for (const sp_copy *v = NULL; (v = sp_ledger_next(c->ledger, v));)
        if (v->facts.kind == SP_COPY_PLAIN) id = v->facts.id;
    assert_ok(sp_context_hold(c, &id, 1, 1e-6f, &held));
    assert_int_equal(held.n, 0); /* no more than the share */
    assert_ok(sp_context_hold(c, &id, 1, 0.5f, &held));
    assert_int_equal(held.n, 1);
    tiers_rest(c->tiers);
    lose(c, d, &full);
    sp_request_destroy(ask_as_alone(c, &full, "10", question, 6));
    assert_ok(sp_context_hold(c, NULL, 0, 0, &held));
    sp_vec_fini(&held);
    close_clean(c);
    sp_device_close(d);
}

/* With a file for contexts beyond memory an error of input or output may be that of the file: the device is
 * asked. What the file holds of lost copies is not read. */
static void a_context_beyond_memory_is_lost_too(void **state)
{
    const char *dir = *state;
    sp_device *d;
    sp_context *c = open_far(&d, (sp_context_opts){.tiers.store = dir,
                                                   .decode.context_bytes = 1 << 20,
                                                   .decode.context_dir = dir,
                                                   .reuse.policy = "full"});
    const int64_t at_first = n_free(c); /* the others are seats of the file */
    for (int i = 0; i < 2; i++) sp_request_destroy(ask(c, "01", question, 6));
    tiers_rest(c->tiers);
    lose(c, d, &full);
    sp_ledger_lose_pinned(c->ledger);
    sp_request *r = ask_as_alone(c, &full, "10", question, 6);
    assert_true(n_from(r, "disk") > 0);
    sp_request_destroy(r);
    sp_context_forget(c);
    assert_int_equal(n_free(c), at_first);
    sp_context_close(c);
    sp_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_holds_up_no_command),
        cmocka_unit_test(a_load_times_out),
        FOLDER_TEST(a_remote_tier_may_be_as_silent_as_it_is),
        FOLDER_TEST(a_remote_tier_may_be_slow_but_sooner_than_computing),
        FOLDER_TEST(a_late_answer_changes_nothing),
        FOLDER_TEST(forgetting_does_not_wait),
        FOLDER_TEST(a_header_times_out),
        FOLDER_TEST(a_write_that_hangs_is_given_up),
        FOLDER_TEST(closing_does_not_wait_for_a_write),
        FOLDER_TEST(a_deletion_holds_up_nobody),
        cmocka_unit_test(the_device_loses_its_memory),
        cmocka_unit_test(a_device_that_stays_lost_ends_requests),
        FOLDER_TEST(pinned_copies_are_lost_too),
        FOLDER_TEST(a_context_beyond_memory_is_lost_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
