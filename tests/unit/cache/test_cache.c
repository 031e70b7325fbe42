/* test_cache.c -- tree and index in one pool: room is made in whichever was used least recently. */
#include "support/chunk_bench.h"

#include "cache/cache.h"

typedef struct both {
    sp_kv_pool *pool;
    sp_cache cache;
    sp_arena arena;
} both;

static void both_begin(both *b, int64_t n_blocks)
{
    *b = (both){.pool = small_pool(n_blocks)};
    assert_ok(sp_cache_init(&b->cache, b->pool, n_blocks, 64, "lru"));
}

static void both_end(both *b)
{
    sp_cache_fini(&b->cache);
    sp_arena_fini(&b->arena);
    small_pool_end(b->pool);
}

static sp_match match_both(both *b, const sp_segment *seg, int64_t now)
{
    sp_match m;
    assert_ok(sp_tree_match(b->cache.tree, seg, 1, now, &b->arena, &m));
    return m;
}

static void into_tree(both *b, const sp_segment *seg, int64_t now)
{
    uint32_t blocks[MAX_BLOCKS];
    bool added = false;
    sp_match m = match_both(b, seg, now);
    sealed(b->pool, seg->n, blocks);
    assert_ok(sp_tree_extend(b->cache.tree, &m, seg, blocks, now, &added));
    assert_true(added);
    sp_kv_release(b->pool, blocks, small_blocks(seg->n));
    sp_tree_release(b->cache.tree, &m);
}

static void into_index(both *b, const sp_segment *seg, int64_t now)
{
    uint32_t blocks[MAX_BLOCKS];
    bool added = false;
    sealed(b->pool, seg->n, blocks);
    assert_ok(sp_chunks_insert(b->cache.chunks, seg,
                               &(sp_variant){.before = before, .n_before = 1, .blocks = blocks},
                               now, &added));
    assert_true(added);
    sp_kv_release(b->pool, blocks, small_blocks(seg->n));
}

static void assert_left(const both *b, int nodes, int variants)
{
    assert_int_equal(sp_tree_stats_of(b->cache.tree).n_nodes, nodes);
    assert_int_equal(sp_chunks_stats_of(b->cache.chunks).n_variants, variants);
}

static void test_room_is_made_where_use_is_oldest(void **state)
{
    both b;
    sp_segment s[5];
    both_begin(&b, 10);
    for (int i = 0; i < 5; i++)
        s[i] = numbered(100 * i, 32); /* two blocks each: the pool is full */
    into_index(&b, &s[0], 1);
    into_tree(&b, &s[1], 2);
    into_tree(&b, &s[2], 3);
    into_index(&b, &s[3], 4);
    into_tree(&b, &s[4], 4);
    assert_left(&b, 3, 2);
    assert_true(sp_cache_free_up(&b.cache, 0));
    assert_left(&b, 3, 2);
    assert_true(sp_cache_free_up(&b.cache, 1));
    assert_left(&b, 3, 1); /* time 1: a chunk */
    assert_true(sp_cache_free_up(&b.cache, 2));
    assert_left(&b, 3, 1); /* free already */
    assert_true(sp_cache_free_up(&b.cache, 6));
    assert_left(&b, 1, 1); /* 2 and 3: the tree */
    assert_true(sp_cache_free_up(&b.cache, 8));
    assert_left(&b, 0, 1); /* 4 twice: the tree first */
    assert_true(sp_cache_free_up(&b.cache, 10));
    assert_left(&b, 0, 0);
    assert_false(sp_cache_free_up(&b.cache, 11));
    both_end(&b);
}

static void test_pinned_entries_are_no_room(void **state)
{
    both b;
    sp_segment s[4];
    both_begin(&b, 8);
    for (int i = 0; i < 4; i++) s[i] = numbered(100 * i, 32);
    into_tree(&b, &s[0], 1);
    into_index(&b, &s[1], 2);
    into_tree(&b, &s[2], 3);
    into_index(&b, &s[3], 4);
    sp_match m = match_both(&b, &s[0], 1);
    const sp_variant *v = sp_chunks_find(b.cache.chunks, &s[1], before, 1, 2);
    assert_true(sp_cache_free_up(&b.cache, 2));
    assert_left(&b, 1, 2); /* the oldest that is free to go: the tree's of time 3 */
    assert_false(sp_cache_free_up(&b.cache, 5));
    assert_left(&b, 1, 1);
    sp_cache_clear(&b.cache);
    assert_left(&b, 1, 1);
    sp_tree_release(b.cache.tree, &m);
    sp_chunks_unpin(b.cache.chunks, v);
    sp_cache_clear(&b.cache);
    assert_left(&b, 0, 0);
    both_end(&b);
}

static void test_without_memory(void **state)
{
    sp_kv_pool *pool = small_pool(4);
    sp_cache cache;
    assert_survives_faults(sp_cache_init(&cache, pool, 4, 64, "lru"), !cache.tree && !cache.chunks);
    sp_cache_fini(&cache);
    assert_fails(sp_cache_init(&cache, pool, 4, 64, "fifo"), SP_E_ARG, "fifo");
    small_pool_end(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room_is_made_where_use_is_oldest),
        cmocka_unit_test(test_pinned_entries_are_no_room),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
