/* Keys and values in the slots of a block, by the definition: what is read is what was stored, within half a step of
 * its type, and nothing else of the block changes; and numbers that have no scale. */
#include <math.h>

#include "compute/kernel/kv.h"
#include "support/check.h"

enum { B = SP_BLOCK_TOKENS, WIDEST = 256 };

static const struct {
    sp_dtype type;
    double step; /* of a number, as a part of the largest that it is stored with */
} types[] = {{SP_F32, 0}, {SP_F16, 0x1p-11}, {SP_BF16, 0x1p-8}, {SP_Q8_0, 0.51 / 127}, {SP_Q16, 0.51 / 32700}};

static const int heads[] = {8, 16, 20, 24, 32, 40, 64, 72, 80, 96, 128, 256};

typedef void put_fn(sp_dtype type, int head, const float *x, uint8_t *to, int slot);
typedef void get_fn(sp_dtype type, int head, const uint8_t *from, int slot, float *out);

/* largest -- what the type's step is relative to: of Q16 a key's norm, of Q8_0 the largest number. */
static double largest(const float *x, int n, bool norm)
{
    double most = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        most = fmax(most, fabs((double)x[i]));
        squares += (double)x[i] * (double)x[i];
    }
    return norm ? sqrt(squares) : most;
}

/* make -- numbers of both signs; shape 1: only the last channels are large. */
static void make(float *x, int n, int slot, int shape)
{
    for (int i = 0; i < n; i++) {
        x[i] = (float)((i * 37 + slot * 11) % 64 - 32) / 32;
        if (shape == 1) x[i] *= i < n - 3 ? 0.001f : 50;
    }
}

static bool has_heads_of(sp_dtype type, int head)
{
    return type != SP_Q8_0 || head % 32 == 0;
}

static void check_block(size_t t, int head, put_fn *put, get_fn *get, bool is_key)
{
    const sp_dtype type = types[t].type;
    const size_t n_bytes = sp_kv_head_bytes(type, head);
    float x[B][WIDEST], got[WIDEST];
    uint8_t *block = sp_alloc(n_bytes + 16, 1);
    assert_non_null(block);
    memset(block, 0x5a, n_bytes + 16);
    for (int slot = B - 1; slot >= 0; slot--) {
        make(x[slot], head, slot, slot % 2);
        put(type, head, x[slot], block, slot);
    }
    for (int slot = 0; slot < B; slot++) { /* all are there after the last was stored */
        get(type, head, block, slot, got);
        const double most = largest(x[slot], head, is_key && type == SP_Q16);
        for (int d = 0; d < head; d++)
            if (fabs((double)got[d] - (double)x[slot][d]) > types[t].step * most)
                fail_msg("type %d, head %d, slot %d, channel %d: %g, not %g", type, head, slot, d, (double)got[d],
                         (double)x[slot][d]);
    }
    for (size_t i = n_bytes; i < n_bytes + 16; i++) assert_int_equal(block[i], 0x5a);
    sp_free(block);
}

static void what_is_stored_is_read(void **state)
{
    for (size_t t = 0; t < SP_COUNT(types); t++)
        for (size_t i = 0; i < SP_COUNT(heads); i++) {
            if (!has_heads_of(types[t].type, heads[i])) continue;
            check_block(t, heads[i], sp_kv_put_key, sp_kv_get_key, true);
            check_block(t, heads[i], sp_kv_put_value, sp_kv_get_value, false);
        }
}

/* A NaN anywhere, or a size beyond 2^100, makes the whole vector NaN: it cannot pass as a number. */
static void numbers_without_a_scale_are_not_numbers(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 0x1p110f};
    for (size_t i = 0; i < SP_COUNT(heads); i++)
        for (size_t b = 0; b < SP_COUNT(bad); b++)
            for (int at = 0; at < heads[i]; at += heads[i] - 1) {
                float x[WIDEST], got[WIDEST];
                uint8_t block[SP_Q16_HEAD_BYTES(WIDEST)] = {0};
                make(x, heads[i], 3, 0);
                x[at] = bad[b];
                sp_kv_put_key(SP_Q16, heads[i], x, block, 3);
                sp_kv_get_key(SP_Q16, heads[i], block, 3, got);
                for (int d = 0; d < heads[i]; d++) assert_true(isnan(got[d]));
                sp_kv_put_value(SP_Q16, heads[i], x, block, 3);
                sp_kv_get_value(SP_Q16, heads[i], block, 3, got);
                for (int d = 0; d < heads[i]; d++) assert_true(isnan(got[d]));
            }
}

static void nothing_is_stored_as_nothing(void **state)
{
    static const float small[] = {0, 0x1p-120f, -0x1p-120f};
    for (size_t i = 0; i < SP_COUNT(heads); i++)
        for (size_t b = 0; b < SP_COUNT(small); b++) {
            float x[WIDEST], got[WIDEST];
            uint8_t block[SP_Q16_HEAD_BYTES(WIDEST)];
            memset(block, 0x5a, sizeof block);
            for (int d = 0; d < heads[i]; d++) x[d] = small[b];
            sp_kv_put_key(SP_Q16, heads[i], x, block, 3);
            sp_kv_get_key(SP_Q16, heads[i], block, 3, got);
            for (int d = 0; d < heads[i]; d++) assert_true(got[d] == 0);
            sp_kv_put_value(SP_Q16, heads[i], x, block, 3);
            sp_kv_get_value(SP_Q16, heads[i], block, 3, got);
            for (int d = 0; d < heads[i]; d++) assert_true(got[d] == 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stored_is_read),
        cmocka_unit_test(numbers_without_a_scale_are_not_numbers),
        cmocka_unit_test(nothing_is_stored_as_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
