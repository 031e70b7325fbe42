/* test_s3_tier.c -- the remote tier on an object store, moto's server: what several servers share, what a deletion
 * finds, and what is a miss. The link below it is in test_s3.c. */
#include "support/check.h"

#include "store/remote/s3/change.h"
#include "store/remote/s3/list.h"
#include "store/remote/tier.h"
#include "store/sweep.h"
#include "support/s3.h"
#include "tier.h"

static sp_tier *open_tier(const char *url, const char *key, int64_t ttl_s)
{
    sp_tier *t;
    assert_ok(sp_remote_tier_open(&(sp_remote_tier_opts){.url = url,
                                                         .space = &noise_space,
                                                         .mac_key = key,
                                                         .n_mac_key = key ? strlen(key) : 0,
                                                         .ttl_s = ttl_s,
                                                         .timeout_us = 30000000},
                                  &t));
    assert_ok(sp_remote_tier_await(t, 30000000));
    return t;
}

/* knows -- the bucket is listed every five seconds. */
/* open_once_expired -- a tier that is opened when no copy below the address is in its time any more. */
static sp_tier *open_once_expired(const char *url)
{
    sp_tier *t = open_tier(url, NULL, 0);
    for (int i = 0; i < 600 && sp_tier_stats_of(t).n_copies; i++, t = open_tier(url, NULL, 0)) {
        sp_tier_close(t);
        usleep(100000);
    }
    assert_int_equal(sp_tier_stats_of(t).n_copies, 0);
    return t;
}

static void what_one_puts_the_others_have(void **state)
{
    if (!s3_start()) skip();
    sp_tier *one = open_tier("s3://first/news", NULL, 0), *two = open_tier("s3://first/news", NULL, 0);
    for (uint32_t i = 0; i < 4; i++) assert_ok(noise_put(one, i, 1));
    for (uint32_t i = 0; i < 4; i++) assert_true(noise_known(two, i, true));
    for (uint32_t i = 0; i < 4; i++) assert_ok(noise_get(two, i, 1));
    assert_ok(noise_put(two, 1, 2)); /* as if it had computed another one */
    assert_int_equal(sp_tier_stats_of(two).n_put, 0);
    assert_ok(noise_drop(two, 1));
    /* A list that was asked for before the drop may arrive now, and name the copy: then nothing is put. */
    const int64_t n_put = sp_tier_stats_of(one).n_put;
    for (int i = 0; i < 1000 && sp_tier_stats_of(one).n_put == n_put; i++) {
        assert_int_equal(noise_get(one, 1, 1), SP_E_NOTFOUND);
        assert_ok(noise_put(one, 1, 3));
    }
    assert_true(noise_known(two, 1, true));
    assert_ok(noise_get(two, 1, 3));
    sp_tier_close(one);
    sp_tier_close(two);
}

/* The layers of a compressed copy are as long as they are: who hears of it knows that. */
static void a_compressed_copy_is_read_by_others(void **state)
{
    if (!s3_start()) skip();
    const sp_remote_tier_opts o = {
        .url = "s3://first/compressed", .space = &noise_space, .timeout_us = 30000000, .compress = 3};
    sp_tier *one, *two = open_tier(o.url, NULL, 0);
    assert_ok(sp_remote_tier_open(&o, &one));
    assert_ok(sp_remote_tier_await(one, 30000000));
    assert_ok(noise_put(one, 1, 1));
    assert_true(noise_known(two, 1, true));
    for (int first = 0; first < NOISE_LAYERS; first += NOISE_LAYERS / 2) {
        noise c;
        noise_init(&c, 1, 1);
        const sp_tier_job job = noise_get_job(&c, first, NOISE_LAYERS - first);
        assert_ok(sp_tier_run(two, &job));
        assert_int_equal(c.n_layers, NOISE_LAYERS - first);
    }
    sp_tier_close(one);
    sp_tier_close(two);
}

static sp_err take_entry(void *user, const sp_s3_row *row)
{
    if (strstr(row->key, "/index/")) snprintf(user, sizeof row->key, "%s", row->key);
    return SP_OK;
}

/* Of the one copy below an address. */
typedef struct notice_keys {
    char index[sizeof ((sp_s3_row){0}).key], change[SP_S3_KEY];
} notice_keys;

static notice_keys keys_of(const char *url)
{
    char note[SP_S3_NOTE], prefix[64], space[33];
    notice_keys out;
    sp_s3_names names;
    sp_s3_entry e;
    sp_s3_http *h;
    const sp_remote_site site = s3_site(url);
    assert_ok(sp_s3_http_open(&site, &h));
    assert_ok(sp_s3_list(h, &(sp_s3_which){.prefix = sp_s3_http_prefix(h)}, take_entry, out.index));
    snprintf(prefix, sizeof prefix, "%s", sp_s3_http_prefix(h));
    snprintf(space, sizeof space, "%s", out.index + strlen(prefix));
    sp_s3_http_close(h);
    sp_s3_names_init(&names, prefix, space);
    assert_true(sp_s3_read_index_key(&names, out.index, &e));
    sp_s3_note(e.time_ms, e.says, note);
    sp_s3_change_key(&names, e.name, note, out.change);
    return out;
}

static void replace(const char *url, const char *key, const char *with)
{
    assert_ok(s3_ask(url, "PUT", with, NULL, 0));
    assert_ok(s3_ask(url, "DELETE", key, NULL, 0));
}

static int64_t sweep(sp_tier *t, uint32_t number)
{
    int64_t n_gone = 0;
    const sp_tier_key key = noise_key(number);
    assert_ok(sp_sweep_run(t, &(sp_sweep_opts){.ids = &key.id, .n = 1}, &n_gone));
    return n_gone;
}

/* put_by_a_lost_server -- it is lost before it writes the notice of the copy. */
static notice_keys put_by_a_lost_server(const char *url)
{
    sp_tier *t = open_tier(url, NULL, 0);
    assert_ok(noise_put(t, 1, 1));
    sp_tier_close(t);
    const notice_keys keys = keys_of(url);
    replace(url, keys.index, keys.change);
    return keys;
}

static void a_sweep_drops_what_a_lost_server_has_put(void **state)
{
    static const char url[] = "s3://first/orphan";
    if (!s3_start()) skip();
    const sp_remote_site site = s3_site(url);
    put_by_a_lost_server(url);
    sp_tier *t = open_tier(url, NULL, 0);
    const sp_tier_key key = noise_key(1);
    assert_false(sp_tier_knows(t, &key));
    assert_int_equal(sweep(t, 1), 1);
    assert_int_equal(s3_count(&site, false), 0);
    sp_tier_close(t);
}

/* The index is listed every five seconds otherwise. */
static void a_sweep_drops_what_another_has_just_put(void **state)
{
    static const char url[] = "s3://first/just";
    if (!s3_start()) skip();
    const sp_remote_site site = s3_site(url);
    sp_tier *one = open_tier(url, NULL, 0), *two = open_tier(url, NULL, 0);
    for (uint32_t i = 1; i < 3; i++) { /* the second time the index has been listed before, for the first sweep */
        assert_ok(noise_put(one, i, 1));
        assert_int_equal(sweep(two, i), 1);
        assert_int_equal(s3_count(&site, false), 0);
    }
    sp_tier_close(one);
    sp_tier_close(two);
}

/* A lifecycle rule may delete it days later. */
static void a_sweep_drops_what_has_expired(void **state)
{
    static const char url[] = "s3://first/expired";
    if (!s3_start()) skip();
    const sp_remote_site site = s3_site(url);
    sp_tier *t = open_tier(url, NULL, 1);
    assert_ok(noise_put(t, 1, 1));
    sp_tier_close(t);
    sp_tier *later = open_once_expired(url);
    const sp_tier_key key = noise_key(1);
    assert_int_equal(sweep(later, 2), 0); /* the first one has been seen now, and is not used */
    assert_false(sp_tier_knows(later, &key));
    assert_int_equal(sweep(later, 1), 1);
    assert_int_equal(s3_count(&site, false), 0);
    sp_tier_close(later);
}

static sp_err count_news(void *user, const sp_tier_info *info)
{
    assert_int_equal(info->n, NOISE_TOKENS);
    ++*(int *)user;
    return SP_OK;
}

/* Another server's put was under way during a sweep of something else: once it has ended, the copy is news. */
static void a_copy_that_was_in_doubt_is_news_once_it_is_there(void **state)
{
    static const char url[] = "s3://first/doubt";
    int n_news = 0;
    if (!s3_start()) skip();
    const notice_keys keys = put_by_a_lost_server(url);
    sp_tier *t = open_tier(url, NULL, 0);
    const sp_tier_key key = noise_key(1);
    assert_int_equal(sweep(t, 2), 0);
    assert_false(sp_tier_knows(t, &key));
    replace(url, keys.change, keys.index);
    assert_true(noise_known(t, 1, true));
    assert_ok(sp_tier_news(t, count_news, &n_news));
    assert_int_equal(n_news, 1);
    assert_ok(noise_get(t, 1, 1));
    sp_tier_close(t);
}

static void a_copy_of_somebody_without_the_key_is_a_miss(void **state)
{
    static const char ours[] = "0123456789abcdef0123456789abcdef", theirs[] = "ffffffffffffffffffffffffffffffff";
    if (!s3_start()) skip();
    sp_tier *stranger = open_tier("s3://first/keys", theirs, 0), *keyless = open_tier("s3://first/keys", NULL, 0);
    sp_tier *also = open_tier("s3://first/keys", ours, 0);
    assert_ok(noise_put(stranger, 1, 1));
    assert_ok(noise_put(keyless, 2, 1));
    assert_ok(noise_put(also, 3, 1));
    sp_tier *t = open_tier("s3://first/keys", ours, 0);
    assert_fails(noise_get(t, 1, 1), SP_E_FORMAT, "not authentic");
    assert_int_equal(noise_get(t, 2, 1), SP_E_FORMAT);
    assert_ok(noise_get(t, 3, 1));
    assert_int_equal(sp_tier_stats_of(t).n_damaged, 2);
    sp_tier_close(stranger);
    sp_tier_close(keyless);
    sp_tier_close(also);
    sp_tier_close(t);
}

static void a_copy_whose_time_is_over_is_not_found(void **state)
{
    if (!s3_start()) skip();
    sp_tier *t = open_tier("s3://first/times", NULL, 2);
    assert_ok(noise_put(t, 1, 1));
    assert_ok(noise_put(t, 2, 1));
    for (int i = 0; i < 600 && noise_get(t, 1, 1) == SP_OK; i++) usleep(500000);
    assert_int_equal(noise_get(t, 1, 1), SP_E_NOTFOUND);
    sp_tier *later = open_once_expired("s3://first/times"); /* the second one was put a little later */
    for (uint32_t i = 1; i < 3; i++) { /* for good: one that was found to be over, one that nobody asked for */
        assert_ok(noise_put(later, i, 1));
        assert_ok(noise_get(later, i, 1));
    }
    sp_tier_close(t);
    sp_tier_close(later);
}

/* A get that ends itself at its first layer. */
typedef struct ending {
    noise copy;
    sp_tier_op *_Atomic op;
    void (*how)(sp_tier_op *op);
} ending;

static sp_err end_at_once(void *user, int layer, const void *from)
{
    ending *e = user;
    SP_UNUSED(layer);
    SP_UNUSED(from);
    while (!e->op) usleep(100);
    e->how(e->op);
    return SP_OK;
}

static sp_err take_any_head(void *user, const sp_record *r)
{
    SP_UNUSED(user);
    SP_UNUSED(r);
    return SP_OK;
}

/* What nobody waits for is received whole: how long it takes is the store's speed. Withdrawn, it may end before. */
static void a_cancelled_get_is_received_to_its_end(void **state)
{
    void (*const ways[])(sp_tier_op *) = {sp_tier_op_cancel, sp_tier_op_withdraw};
    if (!s3_start()) skip();
    sp_tier *t = open_tier("s3://first/cancelled", NULL, 0);
    assert_ok(noise_put(t, 1, 1));
    assert_ok(noise_get(t, 1, 1));
    const int64_t whole = sp_tier_stats_of(t).bytes_read;
    assert_true(whole > 0);
    for (int i = 0; i < 2; i++) {
        ending e = {.how = ways[i]};
        sp_tier_op *op;
        noise_init(&e.copy, 1, 1);
        sp_tier_job job = noise_get_job(&e.copy, 0, NOISE_LAYERS);
        job.head = take_any_head;
        job.sink = end_at_once;
        job.user = &e;
        assert_ok(sp_tier_submit(t, &job, &op));
        e.op = op;
        assert_true(sp_tier_op_wait(op, -1));
        assert_int_equal(sp_tier_op_result(op), SP_E_CANCELED);
        sp_tier_op_release(op);
        if (i == 0) assert_int_equal(sp_tier_stats_of(t).bytes_read, 2 * whole);
    }
    assert_int_equal(sp_tier_stats_of(t).n_got, 1);
    sp_tier_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_puts_the_others_have),
        cmocka_unit_test(a_compressed_copy_is_read_by_others),
        cmocka_unit_test(a_sweep_drops_what_a_lost_server_has_put),
        cmocka_unit_test(a_sweep_drops_what_another_has_just_put),
        cmocka_unit_test(a_sweep_drops_what_has_expired),
        cmocka_unit_test(a_copy_that_was_in_doubt_is_news_once_it_is_there),
        cmocka_unit_test(a_copy_of_somebody_without_the_key_is_a_miss),
        cmocka_unit_test(a_copy_whose_time_is_over_is_not_found),
        cmocka_unit_test(a_cancelled_get_is_received_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
