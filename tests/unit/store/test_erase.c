/* test_erase.c -- after an erase no file of the store holds a byte of what was dropped. */
#include "support/check.h"

#include "store/erase.h"
#include "tier.h"

enum { SAMPLE = 64, COPIES = 24 };

typedef struct bench {
    char dir[128];
    sp_disk_tier_opts opts;
    sp_tier *tier;
} bench;

static void bench_begin(bench *b)
{
    *b = (bench){.opts.segment_bytes = 256 << 10};
    make_folder(b->dir);
    b->opts.dir = b->dir;
    b->opts.space = &noise_space;
    assert_ok(sp_disk_tier_open(&b->opts, &b->tier));
}

static void bench_end(bench *b)
{
    sp_tier_close(b->tier);
    remove_folder(b->dir);
}

/* put_after -- a copy of kind 1 that was computed after another. */
static void put_after(bench *b, uint32_t number, const sp_digest *earlier)
{
    noise c;
    noise_init(&c, number, 1);
    c.record.kind = 1;
    c.before[2] = *earlier;
    assert_ok(sp_tier_run(b->tier, &(sp_tier_job){.verb = SP_TIER_PUT,
                                                  .record = &c.record,
                                                  .source = noise_source,
                                                  .user = &c}));
}

/* -- what is in the files ------------------------------------------------------------------- */

static const uint8_t *wanted;
static size_t n_wanted;
static int n_seen;

static int scan_file(const char *path, const struct stat *st, int kind, struct FTW *w)
{
    SP_UNUSED(w);
    if (kind != FTW_F || st->st_size == 0) return 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *data = malloc((size_t)st->st_size);
    size_t n = fread(data, 1, (size_t)st->st_size, f);
    for (const char *at = data; (at = memmem(at, n - (size_t)(at - data), wanted, n_wanted)); at++)
        n_seen++;
    free(data);
    fclose(f);
    return 0;
}

static int occurrences(const bench *b, const void *bytes, size_t n)
{
    wanted = bytes;
    n_wanted = n;
    n_seen = 0;
    assert_int_equal(nftw(b->dir, scan_file, 8, FTW_PHYS), 0);
    return n_seen;
}

/* n_layers_seen -- how many layers of a copy the files hold, in any place. */
static int n_layers_seen(const bench *b, uint32_t number, uint32_t version)
{
    noise c;
    int n = 0;
    noise_init(&c, number, version);
    uint8_t *layer = malloc(c.record.layer_bytes);
    for (int i = 0; i < NOISE_LAYERS; i++) {
        noise_layer(&c, i, layer);
        n += occurrences(b, layer + 1000, SAMPLE) > 0;
    }
    free(layer);
    return n;
}

static sp_digest id_of(uint32_t number)
{
    noise c;
    noise_init(&c, number, 1);
    return c.record.id;
}

/* -- tests ---------------------------------------------------------------------------------- */

static void count_gone(void *user, const sp_tier_key *key)
{
    SP_UNUSED(key);
    ++*(int *)user;
}

static void test_nothing_is_left(void **state)
{
    bench b;
    int n_gone = 0;
    bench_begin(&b);
    for (uint32_t i = 0; i < COPIES; i++) assert_ok(noise_put(b.tier, i, 1));
    assert_ok(noise_put(b.tier, 6, 2)); /* the older bytes are dead space */
    sp_digest ids[] = {id_of(6), id_of(8)};
    put_after(&b, 50, &ids[0]);
    sp_digest other = id_of(7);
    put_after(&b, 51, &other);
    assert_int_equal(n_layers_seen(&b, 6, 2), NOISE_LAYERS);
    assert_int_equal(n_layers_seen(&b, 50, 1), NOISE_LAYERS);
    assert_true(occurrences(&b, &ids[0], sizeof ids[0]) > 0);
    assert_ok(sp_tier_erase(
        b.tier,
        &(sp_erase){.ids = ids, .n = 2, .alone_kind = 0, .gone = count_gone, .user = &n_gone}));
    assert_int_equal(n_gone, 3);
    assert_int_equal(n_layers_seen(&b, 6, 1), 0);
    assert_int_equal(n_layers_seen(&b, 6, 2), 0);
    assert_int_equal(n_layers_seen(&b, 8, 1), 0);
    assert_int_equal(n_layers_seen(&b, 50, 1), 0); /* computed after one of them */
    assert_int_equal(n_layers_seen(&b, 51, 1), NOISE_LAYERS);
    for (int i = 0; i < 2; i++) assert_int_equal(occurrences(&b, &ids[i], sizeof ids[i]), 0);
    bench_end(&b);
}

static void test_the_others_stay(void **state)
{
    bench b;
    bench_begin(&b);
    for (uint32_t i = 0; i < COPIES; i++) assert_ok(noise_put(b.tier, i, 1));
    sp_digest id = id_of(0);
    assert_ok(sp_tier_erase(b.tier, &(sp_erase){.ids = &id, .n = 1}));
    for (int reopened = 0; reopened < 2; reopened++) {
        assert_int_equal(noise_get(b.tier, 0, 1), SP_E_NOTFOUND);
        for (uint32_t i = 1; i < COPIES; i++) assert_ok(noise_get(b.tier, i, 1));
        sp_tier_close(b.tier);
        assert_ok(sp_disk_tier_open(&b.opts, &b.tier));
    }
    assert_ok(noise_put(b.tier, 0, 3)); /* and it can be put again */
    assert_ok(noise_get(b.tier, 0, 3));
    bench_end(&b);
}

static void test_it_stays_gone_without_the_index(void **state)
{
    bench b;
    char index[600];
    bench_begin(&b);
    for (uint32_t i = 0; i < COPIES; i++) assert_ok(noise_put(b.tier, i, 1));
    sp_digest id = id_of(3);
    assert_ok(sp_tier_erase(b.tier, &(sp_erase){.ids = &id, .n = 1}));
    sp_tier_close(b.tier);
    assert_int_equal(unlink(file_in(b.dir, "index", index)), 0);
    assert_ok(sp_disk_tier_open(&b.opts, &b.tier)); /* from the segments */
    assert_int_equal(noise_get(b.tier, 3, 1), SP_E_NOTFOUND);
    assert_ok(noise_get(b.tier, 4, 1));
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_the_others_stay),
        cmocka_unit_test(test_it_stays_gone_without_the_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
