/* The pool of KV blocks: who holds what, and where it is. Also meant for the thread sanitizer. */
#include "support/small_kv.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* -- acquiring ------------------------------------------------------------------------------ */

static void assert_run(const uint32_t *blocks, int n)
{
    for (int i = 1; i < n; i++) assert_int_equal(blocks[i], blocks[0] + (uint32_t)i);
}

static void a_new_pool_is_free(void **state)
{
    sp_kv_pool *pool = small_pool(70);
    assert_int_equal(sp_kv_pool_n_blocks(pool), 70);
    assert_int_equal(sp_kv_pool_n_free(pool), 70);
    assert_int_equal(sp_kv_pool_shape(pool)->head, 2);
    small_pool_end(pool);
    sp_kv_pool_destroy(NULL);
}

static void acquired_blocks_are_open_and_held_once(void **state)
{
    sp_kv_pool *pool = small_pool(70);
    uint32_t b[70];
    assert_ok(sp_kv_acquire(pool, 70, b));
    assert_int_equal(sp_kv_pool_n_free(pool), 0);
    bool seen[70] = {false};
    for (int i = 0; i < 70; i++) {
        assert_in_range(b[i], 0, 69);
        assert_false(seen[b[i]]);
        seen[b[i]] = true;
        assert_int_equal(sp_kv_refs(pool, b[i]), 1);
        assert_false(sp_kv_is_sealed(pool, b[i]));
    }
    sp_kv_release(pool, b, 70);
    assert_ok(sp_kv_acquire(pool, 0, b)); /* none is fine */
    small_pool_end(pool);
}

/* Runs are found in holes and across words of the map. */
static void neighbours_where_a_run_is_free(void **state)
{
    sp_kv_pool *pool = small_pool(200);
    uint32_t a[60], b[60], c[80], d[100];
    assert_ok(sp_kv_acquire(pool, 60, a));
    assert_ok(sp_kv_acquire(pool, 60, b));
    assert_ok(sp_kv_acquire(pool, 80, c));
    assert_run(a, 60);
    assert_run(b, 60);
    assert_run(c, 80);
    sp_kv_release(pool, b, 60); /* a hole in the middle, across two words */
    assert_ok(sp_kv_acquire(pool, 55, b));
    assert_run(b, 55);
    sp_kv_release(pool, b, 55);
    sp_kv_release(pool, a, 60); /* 120 free ones from 0 */
    assert_ok(sp_kv_acquire(pool, 100, d));
    assert_run(d, 100);
    sp_kv_release(pool, d, 100);
    sp_kv_release(pool, c, 80);
    small_pool_end(pool);
}

/* A lone free block stands before the run, and another one behind it. */
static void neighbours_between_lone_blocks(void **state)
{
    sp_kv_pool *pool = small_pool(200);
    uint32_t all[200], got[60];
    assert_ok(sp_kv_acquire(pool, 200, all));
    sp_kv_release(pool, all + 195, 5);
    assert_ok(sp_kv_acquire(pool, 4, got));
    assert_int_equal(got[3], 198);
    sp_kv_release(pool, all + 10, 1);
    sp_kv_release(pool, all + 60, 60);
    assert_ok(sp_kv_acquire(pool, 60, got));
    assert_int_equal(got[0], 60);
    assert_run(got, 60);
    sp_kv_release(pool, all, 10);
    sp_kv_release(pool, all + 11, 188);
    small_pool_end(pool);
}

/* However often a request comes and goes, it writes to the same memory. */
static void what_is_given_back_is_taken_first(void **state)
{
    sp_kv_pool *pool = small_pool(1000);
    uint32_t kept[70], got[130], one;
    assert_ok(sp_kv_acquire(pool, 70, kept));
    for (int round = 0; round < 20; round++) {
        assert_ok(sp_kv_acquire(pool, 130, got));
        assert_int_equal(got[0], 70);
        assert_run(got, 130);
        assert_ok(sp_kv_acquire(pool, 1, &one)); /* as an answer grows */
        assert_int_equal(one, 200);
        sp_kv_release(pool, &one, 1);
        sp_kv_release(pool, got, 130);
    }
    sp_kv_release(pool, kept + 3, 1);
    assert_ok(sp_kv_acquire(pool, 1, &one));
    assert_int_equal(one, 3);
    sp_kv_release(pool, kept, 70);
    small_pool_end(pool);
}

/* Every hole of every length and place in a pool around a word's border is found. */
static void a_single_hole_is_found(void **state)
{
    enum { N = 131 };
    uint32_t all[N], got[N];
    sp_kv_pool *pool = small_pool(N);
    assert_ok(sp_kv_acquire(pool, N, all));
    assert_run(all, N);
    for (int len = 1; len <= N; len += len < 4 ? 1 : 21)
        for (int at = 0; at + len <= N; at++) {
            sp_kv_release(pool, all + at, len);
            assert_ok(sp_kv_acquire(pool, len, got));
            assert_int_equal(got[0], at);
            assert_run(got, len);
        }
    sp_kv_release(pool, all, N);
    small_pool_end(pool);
}

static void scattered_blocks_serve_where_no_run_is_free(void **state)
{
    enum { N = 130 };
    uint32_t all[N], got[N / 2];
    sp_kv_pool *pool = small_pool(N);
    assert_ok(sp_kv_acquire(pool, N, all));
    for (int i = 0; i < N; i += 2) sp_kv_release(pool, &all[i], 1);
    assert_ok(sp_kv_acquire(pool, N / 2, got));
    for (int i = 0; i < N / 2; i++) {
        assert_int_equal(got[i] % 2, 0);
        if (i) assert_true(got[i] > got[i - 1]); /* at least ascending */
        assert_int_equal(sp_kv_refs(pool, got[i]), 1);
    }
    assert_int_equal(sp_kv_pool_n_free(pool), 0);
    sp_kv_release(pool, all, N);
    small_pool_end(pool);
}

static void a_pool_used_up_gives_nothing(void **state)
{
    sp_kv_pool *pool = small_pool(10);
    uint32_t a[6], b[6];
    memset(b, 0xee, sizeof b);
    assert_ok(sp_kv_acquire(pool, 6, a));
    assert_fails(sp_kv_acquire(pool, 5, b), SP_E_NOKV, "5 blocks wanted, 4 of 10 free");
    assert_int_equal(b[0], 0xeeeeeeee);
    assert_int_equal(sp_kv_pool_n_free(pool), 4);
    assert_ok(sp_kv_acquire(pool, 4, b)); /* and those four are still to be had */
    assert_fails(sp_kv_acquire(pool, 1, b), SP_E_NOKV, "0 of 10");
    sp_kv_release(pool, a, 6);
    sp_kv_release(pool, b, 4);
    small_pool_end(pool);
}

/* -- holders -------------------------------------------------------------------------------- */

/* It is searched from where the last block was found, and from the start again. */
static void a_pool_without_memory_gives_all_its_blocks(void **state)
{
    sp_kv_pool *pool = NULL;
    uint32_t first[6], rest[6];
    assert_ok(sp_kv_pool_create(NULL, &(sp_kv_shape){.n_layers = 1, .n_heads = 1, .head = 2}, 8, &pool));
    assert_ok(sp_kv_acquire(pool, 6, first));
    sp_kv_release(pool, first, 4);
    assert_ok(sp_kv_acquire(pool, 6, rest));
    assert_int_equal(sp_kv_pool_n_free(pool), 0);
    assert_int_equal(rest[2], first[0]);
    sp_kv_release(pool, first + 4, 2);
    sp_kv_release(pool, rest, 6);
    sp_kv_pool_destroy(pool);
}

static void the_last_holder_frees(void **state)
{
    sp_kv_pool *pool = small_pool(4);
    uint32_t b[3];
    assert_ok(sp_kv_acquire(pool, 3, b));
    sp_kv_retain(pool, b, 3);
    sp_kv_retain(pool, b + 1, 1);
    assert_int_equal(sp_kv_refs(pool, b[0]), 2);
    assert_int_equal(sp_kv_refs(pool, b[1]), 3);
    sp_kv_release(pool, b, 3);
    assert_int_equal(sp_kv_pool_n_free(pool), 1);
    sp_kv_release(pool, b, 3);
    assert_int_equal(sp_kv_pool_n_free(pool), 3);
    assert_int_equal(sp_kv_refs(pool, b[1]), 1);
    sp_kv_release(pool, b + 1, 1);
    small_pool_end(pool);
}

static void a_seal_lasts_until_the_block_is_free(void **state)
{
    sp_kv_pool *pool = small_pool(2);
    uint32_t b[2];
    assert_ok(sp_kv_acquire(pool, 2, b));
    sp_kv_seal(pool, b, 1);
    assert_true(sp_kv_is_sealed(pool, b[0]));
    assert_false(sp_kv_is_sealed(pool, b[1]));
    sp_kv_retain(pool, b, 1);
    sp_kv_release(pool, b, 1);
    assert_true(sp_kv_is_sealed(pool, b[0])); /* somebody holds it still */
    sp_kv_release(pool, b, 2);
    assert_ok(sp_kv_acquire(pool, 2, b));
    assert_false(sp_kv_is_sealed(pool, b[0]));
    assert_false(sp_kv_is_sealed(pool, b[1]));
    sp_kv_release(pool, b, 2);
    small_pool_end(pool);
}

/* Thousands of acquisitions, retentions and releases against a plain count of holders. */
static void random_use_agrees_with_counting(void **state)
{
    enum { N = 150 };
    sp_kv_pool *pool = small_pool(N);
    int refs[N] = {0}, n_free = N;
    uint64_t seed = 7;
    for (int step = 0; step < 20000; step++) {
        uint32_t b[20];
        int n = check_random(&seed, 20), what = check_random(&seed, 3);
        if (what == 0) {
            if (n > n_free) {
                assert_fails(sp_kv_acquire(pool, n, b), SP_E_NOKV, "wanted");
                continue;
            }
            assert_ok(sp_kv_acquire(pool, n, b));
            for (int i = 0; i < n; i++) assert_int_equal(refs[b[i]]++, 0);
            n_free -= n;
        } else {
            for (int i = 0; i < n; i++) {
                uint32_t at = (uint32_t)check_random(&seed, N);
                if (!refs[at]) continue;
                if (what == 1) {
                    sp_kv_release(pool, &at, 1);
                    n_free += --refs[at] == 0;
                } else if (refs[at] < 3) {
                    sp_kv_retain(pool, &at, 1);
                    refs[at]++;
                }
            }
        }
        assert_int_equal(sp_kv_pool_n_free(pool), n_free);
        assert_int_equal(sp_kv_pool_n_near(pool), N - n_free);
        assert_int_equal(sp_kv_pool_n_away(pool), 0);
        uint32_t at = (uint32_t)check_random(&seed, N);
        assert_int_equal(sp_kv_refs(pool, at), refs[at]);
    }
    for (uint32_t i = 0; i < N; i++)
        while (refs[i]-- > 0) sp_kv_release(pool, &i, 1);
    small_pool_end(pool);
}

/* -- memory --------------------------------------------------------------------------------- */

/* Each block of each layer is filled with a number of its own; afterwards all must still stand
 * there. */
static void blocks_lie_apart_on_cache_lines(void **state)
{
    static const sp_dtype types[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};
    for (size_t i = 0; i < SP_COUNT(types); i++) {
        sp_kv_shape shape = {.n_layers = 3, .n_heads = 3, .head = 32, .type = types[i]};
        enum { N = 5 };
        sp_kv_pool *pool;
        assert_ok(sp_kv_pool_create(small_device(), &shape, N, &pool));
        size_t used = 2 * 3 * sp_kv_head_bytes(types[i], 32);
        for (int pass = 0; pass < 2; pass++)
            for (int layer = 0; layer < shape.n_layers; layer++) {
                sp_kv_view v = sp_kv_pool_layer(pool, layer);
                assert_int_equal(v.type, types[i]);
                assert_int_equal(v.n_heads, 3);
                assert_int_equal(v.head, 32);
                assert_true(v.block_bytes >= used);
                assert_int_equal(v.block_bytes * 3, sp_kv_block_bytes(&shape));
                for (int b = 0; b < N; b++) {
                    uint8_t *at = v.base + (size_t)b * v.block_bytes;
                    assert_int_equal((uintptr_t)at % SP_CACHE_LINE, 0);
                    int mark = layer * N + b + 1;
                    if (pass == 0) memset(at, mark, v.block_bytes);
                    for (size_t k = 0; k < v.block_bytes; k++) assert_int_equal(at[k], mark);
                }
            }
        small_pool_close(pool);
    }
}

static void odd_head_sizes_are_padded_to_lines(void **state)
{
    sp_kv_shape shape = {.n_layers = 2, .n_heads = 1, .head = 3, .type = SP_F16};
    assert_int_equal(sp_kv_block_bytes(&shape), 2 * 192); /* 2 x 3 x 16 halves: 192 bytes */
    shape.head = 2;
    shape.type = SP_F32;
    assert_int_equal(sp_kv_block_bytes(&shape), 2 * 256);
    shape.type = SP_Q8_0;
    shape.head = 32;
    assert_int_equal(sp_kv_block_bytes(&shape), 2 * 1088); /* 2 x 16 x 34: already lines */
    shape.n_heads = 3;
    assert_int_equal(sp_kv_block_bytes(&shape) % SP_CACHE_LINE, 0);
}

static void refuse(sp_kv_shape shape, int64_t n_blocks, const char *why)
{
    sp_kv_pool *pool = (sp_kv_pool *)&pool;
    sp_device *d = small_device();
    assert_fails(sp_kv_pool_create(d, &shape, n_blocks, &pool), SP_E_ARG, why);
    assert_ptr_equal(pool, &pool);
    sp_device_close(d);
}

static void shapes_that_cannot_be_are_refused(void **state)
{
    refuse((sp_kv_shape){1, 1, 8, SP_Q8_0}, 4, "q8_0 needs a head size in multiples of 32");
    refuse((sp_kv_shape){1, 1, 48, SP_Q8_0}, 4, "this one is 48");
    refuse((sp_kv_shape){1, 1, 256, SP_Q4_0}, 4, "q4_0");
    refuse((sp_kv_shape){1, 1, 256, SP_Q6_K}, 4, "q6_k");
    refuse((sp_kv_shape){0, 1, 8, SP_F16}, 4, "0 layers");
    refuse((sp_kv_shape){1, 0, 8, SP_F16}, 4, "0 heads");
    refuse((sp_kv_shape){1, 1, 0, SP_F16}, 4, "heads of 0");
    refuse((sp_kv_shape){1, 1, 1, SP_F16}, 4, "heads of 1"); /* no pair to turn */
    refuse((sp_kv_shape){1, 1, 8, SP_F16}, 0, "0 blocks");
    refuse((sp_kv_shape){1, 1, 8, SP_F16}, -1, "-1 blocks");
    refuse((sp_kv_shape){1, 1, 8, SP_F16}, (int64_t)UINT32_MAX + 1, "4294967296 blocks");
}

static void more_than_there_is_cannot_be_had(void **state)
{
    sp_kv_pool *pool = NULL;
    sp_kv_shape huge = {.n_layers = 1 << 20, .n_heads = 4096, .head = 4096, .type = SP_F32};
    sp_device *d = small_device();
    assert_fails(sp_kv_pool_create(d, &huge, 1 << 20, &pool), SP_E_NOMEM, "KV pool");
    assert_null(pool);
    sp_device_close(d);
}

static void each_allocation_of_a_pool_that_fails_is_an_error(void **state)
{
    const sp_kv_shape shape = {.n_layers = 1, .n_heads = 1, .head = 2};
    sp_kv_pool *pool = NULL;
    long n = 1;
    for (sp_err err = SP_E_NOMEM; err != SP_OK; n++) {
        sp_fault_after(n);
        err = sp_kv_pool_create(NULL, &shape, 8, &pool);
        sp_fault_after(-1);
        if (err != SP_OK) assert_int_equal(err, SP_E_NOMEM);
        assert_true(!pool == (err != SP_OK));
    }
    assert_true(n > 5); /* the pool and its four lists */
    assert_int_equal(sp_kv_pool_n_free(pool), 8);
    sp_kv_pool_destroy(pool);
}

enum { STAGING = 1 << 16 };

/* A block that leaves, and perhaps comes back, while it is read: when the first of its bytes has been read, and is
 * written to `staging`, another thread begins, and gets up to 50 ms. */
static struct {
    sp_kv_pool *pool;
    uint32_t block;
    uint8_t *staging; /* [STAGING] no access */
    bool returns;
    atomic_bool begins, done;
} leaving;

static void leave_now(int signal)
{
    SP_UNUSED(signal);
    if (mprotect(leaving.staging, STAGING, PROT_READ | PROT_WRITE) != 0) abort();
    atomic_store(&leaving.begins, true);
    for (int i = 0; i < 50 && !atomic_load(&leaving.done); i++) usleep(1000);
}

static void *leave(void *user)
{
    while (!atomic_load(&leaving.begins)) usleep(100);
    sp_kv_set_away(leaving.pool, &leaving.block, 1, true);
    memset(sp_kv_pool_bytes_at(leaving.pool, 0, 0, leaving.block), 0, sp_kv_pool_layer_block_bytes(leaving.pool));
    if (leaving.returns) sp_kv_set_away(leaving.pool, &leaving.block, 1, false);
    atomic_store(&leaving.done, true);
    return user;
}

static sp_err read_sevens(void *user, sp_kv_run run, uint8_t *to)
{
    memset(to, 7, (size_t)run.n * sp_kv_pool_layer_block_bytes(user));
    return SP_OK;
}

static void is_read_while_it_leaves(bool returns)
{
    static uint8_t sevens[STAGING];
    const sp_kv_shape shape = {.n_layers = 1, .n_heads = 4, .head = 64, .type = SP_F16};
    const struct sigaction on_write = {.sa_handler = leave_now};
    struct sigaction before;
    sp_kv_pool *pool = NULL;
    const uint8_t *from;
    pthread_t thread;
    assert_ok(sp_kv_pool_create(small_device(), &shape, 8, &pool));
    const size_t n = sp_kv_pool_layer_block_bytes(pool); /* more than is in registers at a time */
    assert_in_range(n, 8192, STAGING);
    memset(sevens, 7, n);
    assert_ok(sp_kv_pool_let_leave(pool, &(sp_kv_elsewhere){.read = read_sevens, .user = pool}));
    leaving.pool = pool;
    leaving.returns = returns;
    leaving.begins = leaving.done = false;
    leaving.staging = mmap(NULL, STAGING, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(leaving.staging, MAP_FAILED);
    assert_ok(sp_kv_acquire(pool, 1, &leaving.block));
    assert_ok(sp_kv_pool_write(pool, (sp_kv_run){.first = leaving.block, .n = 1}, sevens));
    sp_kv_seal(pool, &leaving.block, 1);
    assert_int_equal(pthread_create(&thread, NULL, leave, NULL), 0);
    assert_int_equal(sigaction(SIGSEGV, &on_write, &before), 0);
    assert_ok(sp_kv_pool_read(pool, (sp_kv_run){.first = leaving.block, .n = 1}, leaving.staging, &from));
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(sp_kv_is_away(pool, leaving.block) == !returns);
    assert_memory_equal(from, sevens, n);
    sp_kv_release(pool, &leaving.block, 1);
    assert_int_equal(munmap(leaving.staging, STAGING), 0);
    small_pool_end(pool);
}

static void a_block_is_read_whole_while_it_leaves(void **state)
{
    is_read_while_it_leaves(false);
}

static void a_block_is_read_whole_while_it_leaves_and_comes_back(void **state)
{
    is_read_while_it_leaves(true);
}

static sp_err read_nothing(void *user, sp_kv_run run, uint8_t *to)
{
    return sp_fail(SP_E_IO, "nothing is elsewhere");
}

/* Memory that the system takes back reads as zeros. Blocks come back one by one: pages of several go with the last. */
static void gives_back_the_memory_of_free_blocks(bool by_head)
{
    enum { N = 64, KEPT = 40 };
    const sp_kv_shape shape = {.n_layers = 3, .n_heads = 2, .head = 32, .type = SP_F16};
    sp_kv_pool *pool = NULL;
    uint32_t blocks[N];
    assert_ok(sp_kv_pool_create(small_device(), &shape, N, &pool));
    assert_ok(sp_kv_pool_let_leave(pool, &(sp_kv_elsewhere){.read = read_nothing, .user = pool, .by_head = by_head}));
    assert_ok(sp_kv_acquire(pool, N, blocks));
    const int planes = sp_kv_pool_n_planes(pool);
    const size_t n_bytes = sp_kv_pool_layer_block_bytes(pool) / (size_t)planes;
    for (int k = 0; k < 3 * planes; k++)
        for (uint32_t i = 0; i < N; i++) memset(sp_kv_pool_bytes_at(pool, k / planes, k % planes, i), 7, n_bytes);
    for (uint32_t i = 0; i < N; i++)
        if (i != KEPT) sp_kv_release(pool, &i, 1);
    for (int k = 0; k < 3 * planes; k++)
        for (uint32_t i = 4; i + 4 < N; i++)
            if (i + 4 < KEPT || i == KEPT || i > KEPT + 4)
                assert_int_equal(*sp_kv_pool_bytes_at(pool, k / planes, k % planes, i), i == KEPT ? 7 : 0);
    const uint32_t kept = KEPT;
    sp_kv_release(pool, &kept, 1);
    small_pool_end(pool);
}

static sp_kv_run written_elsewhere;

static sp_err note_run(void *user, sp_kv_run run, const uint8_t *from)
{
    written_elsewhere = run;
    return SP_OK;
}

static void a_run_with_a_block_that_is_away_is_written_elsewhere(void **state)
{
    enum { N = 4 };
    static const uint8_t bytes[3 * 16384];
    const sp_kv_shape shape = {.n_layers = 1, .n_heads = 1, .head = 32, .type = SP_F16};
    for (uint32_t away = 0; away < N; away++) {
        sp_kv_pool *pool = NULL;
        uint32_t blocks[N];
        const sp_kv_elsewhere where = {.read = read_nothing, .write = note_run};
        assert_ok(sp_kv_pool_create(small_device(), &shape, N, &pool));
        assert_in_range(sp_kv_pool_layer_block_bytes(pool), 1, sizeof bytes / 3);
        assert_ok(sp_kv_pool_let_leave(pool, &where));
        assert_ok(sp_kv_acquire(pool, N, blocks));
        sp_kv_seal(pool, &away, 1);
        sp_kv_set_away(pool, &away, 1, true);
        written_elsewhere = (sp_kv_run){0};
        assert_ok(sp_kv_pool_write(pool, (sp_kv_run){.first = 0, .n = 3}, bytes));
        assert_int_equal(written_elsewhere.n, away < 3 ? 3 : 0);
        sp_kv_release(pool, blocks, N);
        small_pool_end(pool);
    }
}

/* A plane whose blocks leave one by one, in either order: pages of several go with the last of them. */
static void gives_back_what_is_away(bool upwards)
{
    enum { N = 512 }; /* enough for pages of their own */
    const sp_kv_shape shape = {.n_layers = 3, .n_heads = 2, .head = 32, .type = SP_F16};
    sp_kv_pool *pool = NULL;
    uint32_t blocks[N];
    assert_ok(sp_kv_pool_create(small_device(), &shape, N, &pool));
    assert_ok(sp_kv_pool_let_leave(pool, &(sp_kv_elsewhere){.read = read_nothing, .user = pool, .by_head = true}));
    assert_ok(sp_kv_acquire(pool, N, blocks));
    const size_t n_bytes = sp_kv_pool_layer_block_bytes(pool) / 2;
    for (uint32_t i = 0; i < N; i++) memset(sp_kv_pool_bytes_at(pool, 1, 1, i), 7, n_bytes);
    sp_kv_seal(pool, blocks, N);
    for (uint32_t k = 0; k < N; k++) {
        const uint32_t b = upwards ? k : N - 1 - k;
        sp_kv_set_away(pool, &b, 1, true);
        sp_kv_drop_plane(pool, (sp_kv_run){.layer = 1, .first = b, .n = 1}, 1);
        const uint32_t last = upwards ? N - 1 : 0;
        if (k + 1 < N) assert_int_equal(*sp_kv_pool_bytes_at(pool, 1, 1, last), 7); /* others keep theirs */
    }
    for (uint32_t i = 0; i < N; i++) assert_int_equal(*sp_kv_pool_bytes_at(pool, 1, 1, i), 0);
    sp_kv_release(pool, blocks, N);
    small_pool_end(pool);
}

static void memory_of_blocks_that_are_away_is_given_back(void **state)
{
    gives_back_what_is_away(true);
    gives_back_what_is_away(false);
}

/* What is written by blocks is in a plane for each head, and is read by blocks again. */
static void blocks_in_planes_of_heads_are_read_as_they_were_written(void **state)
{
    enum { N = 3 };
    const sp_kv_shape shape = {.n_layers = 2, .n_heads = 2, .head = 8, .type = SP_F16};
    sp_kv_pool *pool = NULL;
    uint32_t blocks[N];
    const uint8_t *read = NULL;
    assert_ok(sp_kv_pool_create(small_device(), &shape, N, &pool));
    assert_ok(sp_kv_pool_let_leave(pool, &(sp_kv_elsewhere){.read = read_nothing, .user = pool, .by_head = true}));
    assert_ok(sp_kv_acquire(pool, N, blocks));
    const size_t n = N * sp_kv_pool_layer_block_bytes(pool), half = n / N / 2;
    uint8_t *bytes = sp_alloc(n, 1), *staging = sp_alloc(n, 1);
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i * 7 + i / 251);
    assert_ok(sp_kv_pool_write(pool, (sp_kv_run){.layer = 1, .first = 0, .n = N}, bytes));
    for (uint32_t i = 0; i < 2 * N; i++)
        assert_memory_equal(sp_kv_pool_bytes_at(pool, 1, (int)i % 2, i / 2), bytes + i * half, half);
    assert_ok(sp_kv_pool_read(pool, (sp_kv_run){.layer = 1, .first = 0, .n = N}, staging, &read));
    assert_memory_equal(read, bytes, n);
    sp_free(bytes);
    sp_free(staging);
    sp_kv_release(pool, blocks, N);
    small_pool_end(pool);
}

/* Of one layer, in the planes of all heads; the first and the last page may be shared with neighbours. */
static void memory_of_contents_that_nobody_needs_is_given_back(void **state)
{
    enum { N = 512 };
    const sp_kv_shape shape = {.n_layers = 2, .n_heads = 2, .head = 32, .type = SP_F16};
    sp_kv_pool *pool = NULL;
    uint32_t blocks[N];
    assert_ok(sp_kv_pool_create(small_device(), &shape, N, &pool));
    assert_ok(sp_kv_pool_let_leave(pool, &(sp_kv_elsewhere){.read = read_nothing, .user = pool, .by_head = true}));
    assert_ok(sp_kv_acquire(pool, N, blocks));
    const int planes = sp_kv_pool_n_planes(pool);
    assert_int_equal(planes, 2);
    for (int k = 0; k < 2 * planes; k++)
        for (uint32_t i = 0; i < N; i++) *sp_kv_pool_bytes_at(pool, k / planes, k % planes, i) = 7;
    sp_kv_drop_contents(pool, (sp_kv_run){.layer = 0, .first = 0, .n = N});
    for (int k = 0; k < planes; k++) {
        assert_int_equal(*sp_kv_pool_bytes_at(pool, 0, k, N / 2), 0);
        for (uint32_t i = 0; i < N; i++) assert_int_equal(*sp_kv_pool_bytes_at(pool, 1, k, i), 7);
    }
    sp_kv_release(pool, blocks, N);
    small_pool_end(pool);
}

static void a_pool_whose_blocks_may_leave_gives_back_the_memory_of_free_ones(void **state)
{
    gives_back_the_memory_of_free_blocks(false);
    gives_back_the_memory_of_free_blocks(true);
}

static void creation_survives_faults(void **state)
{
    sp_kv_pool *pool = NULL;
    sp_kv_shape shape = {.n_layers = 1, .n_heads = 1, .head = 2, .type = SP_F16};
    sp_device *d = small_device();
    assert_survives_faults(sp_kv_pool_create(d, &shape, 100, &pool), pool == NULL);
    small_pool_end(pool);
}

/* -- threads -------------------------------------------------------------------------------- */

enum { SHARED = 8, ROUNDS = 2000 };

typedef struct user {
    sp_kv_pool *pool;
    const uint32_t *shared; /* held by the main thread */
    uint64_t seed;
    int n_wrong;
} user;

static void write_block(sp_kv_pool *pool, uint32_t b, int mark)
{
    sp_kv_view v = sp_kv_pool_layer(pool, 0);
    memset(v.base + (size_t)b * v.block_bytes, mark, v.block_bytes);
}

static bool block_holds(const sp_kv_pool *pool, uint32_t b, int mark)
{
    sp_kv_view v = sp_kv_pool_layer(pool, 0);
    for (size_t i = 0; i < v.block_bytes; i++)
        if (v.base[(size_t)b * v.block_bytes + i] != (uint8_t)mark) return false;
    return true;
}

/* Takes blocks, writes them, seals them, hands them back; in between shares those of the main
 * thread. */
static void *use_pool(void *arg)
{
    user *u = arg;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t own[6];
        int n = 1 + check_random(&u->seed, 6), mark = check_random(&u->seed, 256);
        while (sp_kv_acquire(u->pool, n, own) != SP_OK) sched_yield(); /* others hold them */
        sp_kv_retain(u->pool, u->shared, SHARED);
        for (int i = 0; i < n; i++) {
            u->n_wrong += sp_kv_refs(u->pool, own[i]) != 1 || sp_kv_is_sealed(u->pool, own[i]);
            write_block(u->pool, own[i], mark);
        }
        sp_kv_seal(u->pool, own, n);
        for (int i = 0; i < n; i++) u->n_wrong += !block_holds(u->pool, own[i], mark);
        for (int i = 0; i < SHARED; i++) u->n_wrong += !block_holds(u->pool, u->shared[i], 200 + i);
        sp_kv_release(u->pool, u->shared, SHARED);
        sp_kv_release(u->pool, own, n);
    }
    return NULL;
}

static void threads_share_the_pool(void **state)
{
    enum { THREADS = 4 };
    sp_kv_pool *pool = small_pool(SHARED + 3 * THREADS); /* tight: some must wait */
    uint32_t shared[SHARED];
    user users[THREADS];
    pthread_t threads[THREADS];
    assert_ok(sp_kv_acquire(pool, SHARED, shared));
    for (int i = 0; i < SHARED; i++) write_block(pool, shared[i], 200 + i);
    sp_kv_seal(pool, shared, SHARED);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (user){.pool = pool, .shared = shared, .seed = (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, use_pool, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(users[i].n_wrong, 0);
    }
    for (int i = 0; i < SHARED; i++) assert_int_equal(sp_kv_refs(pool, shared[i]), 1);
    sp_kv_release(pool, shared, SHARED);
    small_pool_end(pool);
}

/* The last of several holders may be any thread; the block is free once, and only then. */
static void *give_back(void *arg)
{
    user *u = arg;
    sp_kv_release(u->pool, u->shared, SHARED);
    return NULL;
}

static void blocks_released_by_several_threads_are_free_once(void **state)
{
    sp_kv_pool *pool = small_pool(SHARED);
    for (int round = 0; round < 100; round++) {
        uint32_t shared[SHARED];
        user u = {.pool = pool, .shared = shared};
        pthread_t threads[3];
        assert_ok(sp_kv_acquire(pool, SHARED, shared));
        for (int i = 0; i < 3; i++) {
            sp_kv_retain(pool, shared, SHARED);
            assert_int_equal(pthread_create(&threads[i], NULL, give_back, &u), 0);
        }
        sp_kv_release(pool, shared, SHARED);
        for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(sp_kv_pool_n_free(pool), SHARED);
    }
    small_pool_end(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_pool_is_free),
        cmocka_unit_test(acquired_blocks_are_open_and_held_once),
        cmocka_unit_test(neighbours_where_a_run_is_free),
        cmocka_unit_test(neighbours_between_lone_blocks),
        cmocka_unit_test(what_is_given_back_is_taken_first),
        cmocka_unit_test(a_single_hole_is_found),
        cmocka_unit_test(scattered_blocks_serve_where_no_run_is_free),
        cmocka_unit_test(a_pool_used_up_gives_nothing),
        cmocka_unit_test(a_pool_without_memory_gives_all_its_blocks),
        cmocka_unit_test(the_last_holder_frees),
        cmocka_unit_test(a_seal_lasts_until_the_block_is_free),
        cmocka_unit_test(random_use_agrees_with_counting),
        cmocka_unit_test(blocks_lie_apart_on_cache_lines),
        cmocka_unit_test(odd_head_sizes_are_padded_to_lines),
        cmocka_unit_test(shapes_that_cannot_be_are_refused),
        cmocka_unit_test(more_than_there_is_cannot_be_had),
        cmocka_unit_test(each_allocation_of_a_pool_that_fails_is_an_error),
        cmocka_unit_test(a_block_is_read_whole_while_it_leaves),
        cmocka_unit_test(a_block_is_read_whole_while_it_leaves_and_comes_back),
        cmocka_unit_test(a_run_with_a_block_that_is_away_is_written_elsewhere),
        cmocka_unit_test(memory_of_blocks_that_are_away_is_given_back),
        cmocka_unit_test(memory_of_contents_that_nobody_needs_is_given_back),
        cmocka_unit_test(blocks_in_planes_of_heads_are_read_as_they_were_written),
        cmocka_unit_test(a_pool_whose_blocks_may_leave_gives_back_the_memory_of_free_ones),
        cmocka_unit_test(creation_survives_faults),
        cmocka_unit_test(threads_share_the_pool),
        cmocka_unit_test(blocks_released_by_several_threads_are_free_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
