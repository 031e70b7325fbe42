/* Nodes that share blocks, as lower tiers keep them: every type, every first slot. */
#include "support/small_kv.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "compute/kernel/kv.h"
#include "kv/unpack.h"

enum { B = SP_BLOCK_TOKENS, N_BLOCKS = 6, N_LAYERS = 2, G = 2, D = 32, LAYER = 1 };

static sp_kv_pool *open_pool(sp_dtype type)
{
    sp_kv_pool *pool = NULL;
    const sp_kv_shape shape = {.n_layers = N_LAYERS, .n_heads = G, .head = D, .type = type};
    assert_ok(sp_kv_pool_create(small_device(), &shape, N_BLOCKS, &pool));
    return pool;
}

/* fill -- each token of each block has keys and values of its own. */
static void fill(sp_kv_pool *pool)
{
    const sp_kv_view kv = sp_kv_pool_layer(pool, LAYER);
    float x[D];
    for (uint32_t b = 0; b < N_BLOCKS; b++)
        for (int t = 0; t < B; t++)
            for (int g = 0; g < G; g++) {
                for (int d = 0; d < D; d++) x[d] = sinf((float)(b * 1000 + t * 37 + g * 11 + d));
                sp_kv_put_key(kv.type, D, x, sp_kv_keys(&kv, b, g), t);
                for (int d = 0; d < D; d++) x[d] = -3 * x[D - 1 - d];
                sp_kv_put_value(kv.type, D, x, sp_kv_values(&kv, b, g), t);
            }
}

/* check_part -- tokens t are the tokens of `got` from `begin` on. */
static void check_part(const sp_kv_view *kv, const sp_kv_tokens *t, int32_t begin, uint8_t *got)
{
    sp_kv_view own = *kv;
    float want[D], x[D];
    own.base = got;
    for (int32_t i = 0; i < t->n; i++) {
        const int32_t j = t->first + i, k = begin + i;
        const uint32_t from = t->blocks[j / B], to = (uint32_t)(k / B);
        for (int g = 0; g < G; g++) {
            sp_kv_get_key(kv->type, D, sp_kv_keys(kv, from, g), j % B, want);
            sp_kv_get_key(kv->type, D, sp_kv_keys(&own, to, g), k % B, x);
            assert_memory_equal(x, want, sizeof x);
            sp_kv_get_value(kv->type, D, sp_kv_values(kv, from, g), j % B, want);
            sp_kv_get_value(kv->type, D, sp_kv_values(&own, to, g), k % B, x);
            assert_memory_equal(x, want, sizeof x);
        }
    }
}

static void tokens_begin_a_block(void **state)
{
    static const sp_dtype types[] = {SP_F32, SP_F16, SP_Q16, SP_Q8_0};
    const uint32_t blocks[] = {4, 1, 3};
    for (size_t k = 0; k < SP_COUNT(types); k++) {
        sp_kv_pool *pool = open_pool(types[k]);
        const sp_kv_view kv = sp_kv_pool_layer(pool, LAYER);
        uint8_t *to = malloc(3 * kv.block_bytes);
        uint32_t held[N_BLOCKS];
        assert_non_null(to);
        assert_ok(sp_kv_acquire(pool, N_BLOCKS, held));
        fill(pool);
        sp_kv_seal(pool, held, N_BLOCKS);
        for (int32_t first = 0; first < B; first++)
            for (int32_t n = 1; first + n <= 3 * B; n += 5) {
                const sp_kv_tokens t = {.blocks = blocks, .first = first, .n = n};
                assert_ok(sp_kv_unpack(pool, LAYER, &t, to));
                check_part(&kv, &t, 0, to);
            }
        sp_fault_after(0);
        assert_int_equal(
            sp_kv_unpack(pool, LAYER, &(sp_kv_tokens){.blocks = blocks, .first = 1, .n = 4}, to),
            SP_E_NOMEM);
        sp_fault_after(-1);
        sp_kv_release(pool, held, N_BLOCKS);
        free(to);
        small_pool_end(pool);
    }
}

/* Tokens 1, 17 and 20 of a copy of 24 were computed again. */
static void a_patch_replaces_its_tokens_alone(void **state)
{
    const uint32_t blocks[] = {4, 1}, fresh[] = {3};
    const int32_t tokens[] = {1, 17, 20};
    const sp_kv_patch patch = {.blocks = fresh, .tokens = tokens, .n = 3};
    sp_kv_pool *pool = open_pool(SP_F16);
    const sp_kv_view kv = sp_kv_pool_layer(pool, LAYER);
    uint8_t *to = malloc(2 * kv.block_bytes);
    uint32_t held[N_BLOCKS];
    assert_non_null(to);
    assert_ok(sp_kv_acquire(pool, N_BLOCKS, held));
    fill(pool);
    assert_ok(sp_kv_unpack(pool, LAYER, &(sp_kv_tokens){.blocks = blocks, .n = 24}, to));
    assert_ok(sp_kv_merge(pool, LAYER, &patch, 24, to));
    for (int32_t i = 0, k = 0; i < 24; i++) {
        const bool is_new = k < patch.n && tokens[k] == i;
        check_part(&kv, &(sp_kv_tokens){.blocks = is_new ? fresh : blocks, .first = is_new ? k : i, .n = 1}, i, to);
        k += is_new;
    }
    sp_kv_release(pool, held, N_BLOCKS);
    free(to);
    small_pool_end(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_begin_a_block),
                                       cmocka_unit_test(a_patch_replaces_its_tokens_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
