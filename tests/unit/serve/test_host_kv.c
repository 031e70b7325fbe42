/* test_host_kv.c -- what packing for the host tier costs in precision, for each pair of types. */
#include "support/check.h"

#include <math.h>

#include "serve/tiers/host_kv.h"

enum { HEADS = 2, HEAD = 64, BLOCKS = 3, LAYER_MAX = 1 << 20 };

/* error_of -- NMSE of f32 -> device -> host -> device -> f32. */
static double error_of(sp_dtype device, const char *host, bool *packs)
{
    static float in[BLOCKS * 2 * HEADS * HEAD * SP_BLOCK_TOKENS], out[SP_COUNT(in)];
    static uint8_t layer[LAYER_MAX], packed[LAYER_MAX], back[LAYER_MAX];
    const sp_kv_shape shape = {.n_layers = 1, .n_heads = HEADS, .head = HEAD, .type = device},
                      plain = {.n_layers = 1, .n_heads = HEADS, .head = HEAD, .type = SP_F32};
    const sp_kv_packing *p, *to_float;
    sp_host_kv kv, decode;
    uint64_t seed = 5;
    const size_t bytes = BLOCKS * sp_kv_block_bytes(&shape);
    for (size_t i = 0; i < SP_COUNT(in); i++)
        in[i] = (float)(check_random(&seed, 2001) - 1000) / 300;
    assert_true(BLOCKS * sp_kv_block_bytes(&plain) == sizeof in);
    assert_ok(sp_host_kv_init(&decode, &shape, "f32", &to_float));
    if (to_float)
        to_float->unpack(to_float->user, (const uint8_t *)in, bytes, layer); /* f32 to the device's */
    else
        memcpy(layer, in, bytes);
    assert_ok(sp_host_kv_init(&kv, &shape, host, &p));
    *packs = p != NULL;
    if (!p) return 0;
    assert_true(p->packed_bytes(p->user, bytes) <= LAYER_MAX);
    p->pack(p->user, layer, bytes, packed);
    p->unpack(p->user, packed, bytes, back);
    if (to_float)
        to_float->pack(to_float->user, back, bytes, (uint8_t *)out);
    else
        memcpy(out, back, bytes);
    double error = 0, norm = 0;
    for (size_t i = 0; i < SP_COUNT(in); i++) {
        error += pow((double)out[i] - (double)in[i], 2);
        norm += pow((double)in[i], 2);
    }
    return error / norm;
}

static void packed_copies_are_rounded_a_little(void **state)
{
    bool packs;
    const struct {
        sp_dtype device;
        const char *host;
        double bound;
    } pairs[] = {{SP_Q16, "q8_0", 4e-5}, {SP_F16, "q8_0", 4e-5}, {SP_F32, "q8_0", 4e-5},
                 {SP_F32, "q16", 1e-7},  {SP_F32, "f16", 1e-6},  {SP_Q8_0, "f32", 4e-5}};
    for (size_t i = 0; i < SP_COUNT(pairs); i++) {
        double error = error_of(pairs[i].device, pairs[i].host, &packs);
        assert_true(packs);
        if (!(error > 0 && error < pairs[i].bound))
            fail_msg("%s on the host: NMSE %g, at most %g", pairs[i].host, error, pairs[i].bound);
    }
    error_of(SP_Q16, "q16", &packs);
    assert_false(packs);
}

static void packed_copies_have_their_size(void **state)
{
    const sp_kv_shape shape = {.n_layers = 1, .n_heads = HEADS, .head = HEAD, .type = SP_Q16},
                      odd = {.n_layers = 1, .n_heads = HEADS, .head = 40, .type = SP_Q16};
    const sp_kv_packing *p;
    sp_host_kv kv;
    assert_ok(sp_host_kv_init(&kv, &shape, "q8_0", &p));
    size_t bytes = sp_kv_block_bytes(&shape), packed = p->packed_bytes(p->user, bytes);
    assert_true(packed < bytes * 6 / 10);
    assert_false(p->wants(p->user, &(sp_record){.facts.kind = 2})); /* a path copy */
    assert_true(p->wants(p->user, &(sp_record){.facts.kind = 0}));
    assert_int_equal(sp_host_kv_init(&kv, &odd, "q8_0", &p), SP_E_ARG);
    assert_int_equal(sp_host_kv_init(&kv, &shape, "q4_0", &p), SP_E_ARG);
    assert_ok(sp_host_kv_init(&kv, &shape, NULL, &p));
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_copies_are_rounded_a_little),
        cmocka_unit_test(packed_copies_have_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
